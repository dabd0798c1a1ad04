"""A memory of records in a file: stored, found by a part of them, updated and removed, by any number of processes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from torch_hrr._checks import check_data, check_finite, check_vectors, checked_path, listed, positive, word
from torch_hrr._compile import outside_graphs
from torch_hrr._repr import Described
from torch_hrr._shared import Shared, locked
from torch_hrr._spec import Int, Real, takes
from torch_hrr.hrr._database import Change, Database, State
from torch_hrr.hrr._quantized import QuantizedRows, quantize
from torch_hrr.hrr._records import CPU, Encoder, bare, from_bytes, from_text, to_text
from torch_hrr.hrr.memory import Listed
from torch_hrr.hrr.vector import Vector
from torch_hrr.io._contents import canonical_json, checked_options, to_bytes
from torch_hrr.io._reading import SEALS
from torch_hrr.io.files import check_text

if TYPE_CHECKING:
    from sqlite3 import Connection

# Elements of the rows that are made or read at a time.
_AT_ONCE = 1 << 20
_ROWS = "SELECT r.id, r.name, r.record, r.change, v.vector, r.seal FROM records r LEFT JOIN vectors v ON v.id = r.id"
_CODES = "SELECT r.id, r.seal, c.code, c.seal FROM records r LEFT JOIN codes c ON c.id = r.id"


class Match(NamedTuple):
    """What `Memory.search` finds: a name, the cosine of its vector with the query, and the record."""

    name: str
    cosine: float
    record: dict[str, Any]


class Memory(Shared, Described, Listed, Mapping[str, dict[str, Any]]):
    """Records under names of any characters, in an SQLite file; a mapping to copies of them, in the order of storing.

    A record fills roles, which are names of any characters too. A filler is a str, a bool, a number, a vector ``[D]``,
    a record of its own or a list of such fillers, whose order does not count. Its vector is

        ``r = sum_k bind(role_k, filler_k) / norm2(...)``,

    float32 ``[D]``, over all fillers of all roles. Roles are the unitary and strings the normalised vectors that a
    `Vocabulary` of the same D and seed draws for the names; True and False are the strings of these words. A number x
    is the power ``x / s`` of one unitary vector, s the scale of its role: the cosine of two numbers is about ``sinc((x
    - y) / s)``, so that those a scale or more apart hardly resemble each other. Vectors given are normalised, and the
    vector of a record within a record is permuted, because binding commutes. So nothing is kept of roles and fillers
    but the records, and every process draws the same vectors.

    Every change is one transaction, which is on the disk when the call returns: a process or machine that stops later
    loses none, and one that stops within it leaves the file as it was. A call sees what other processes wrote before
    it. Readers never wait; of two writers one waits up to ``timeout`` seconds and is then refused by a TimeoutError.
    The file must not be on a network file system, and consists of three while it is open (``-wal`` and ``-shm``). An
    object may be shared by threads, whose calls take turns; forked processes use the file too. Copies and pickles are
    further handles of the same file, a FileNotFoundError where it is gone; with a key there are no pickles.

    Every record has a SHA-256 or, with a key, an HMAC-SHA256 in the file, which is compared whenever it is read;
    `verify` reads everything. Vectors stay in the file: the first `search` reads a quarter of them, codes of 8 bits,
    and later ones what has changed since.

    Args:
        path: the file; made if there is none.
        dim: dimension D; None means that of the file, and 1024 for a new one.
        seed: seed of the roles and fillers drawn, any int, taken modulo 2^64; None means that of the file, and 0 for a
            new one.
        key: seals records with HMAC-SHA256; the file is not encrypted.
        scales: the scale of the numbers of roles, above 0, 1 for those not named; None means those of the file.
        timeout: seconds to wait for other writers.

    Raises:
        torch_hrr.IntegrityError: the file is damaged, another program's or a later version's, or does not fit the key.
        ValueError: an argument is not that of the file, ``path`` is no regular file, or ``key`` is empty.
        FileNotFoundError: the folder of ``path`` is missing.
        OSError: the file cannot be read or written. Later calls raise these, too, FileNotFoundError if the file has
            been moved, removed or replaced, and a change of a file that may only be read PermissionError.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @takes(dim=Int(1, 2**24).or_none(), seed=Int().or_none(), timeout=Real(0.0))
    def __init__(
        self,
        path: str | os.PathLike[str],
        dim: int | None = None,
        seed: int | None = None,
        *,
        key: bytes | None = None,
        scales: Mapping[str, float] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Opens or makes the file; reads no record."""
        place = os.path.realpath(checked_path("Memory", path))
        checked_options("Memory", "memory", 0, key)
        asked = {"dim": dim, "scales": _checked_scales(scales), "seed": None if seed is None else seed % 2**64}
        usual = {"dim": 1024, "scales": {}, "seed": 0, "seal": SEALS[key is not None]}
        self._key, self._timeout, self._is_closed = key, timeout, False
        self._index: _Index | None = None
        self._file = Database(place, key, timeout)
        self._file.create("Memory", canonical_json(usual | {k: v for k, v in asked.items() if v is not None}))
        with self._file.reading("Memory") as (_, state):
            settings = json.loads(state.settings)
        for name, value in asked.items():
            if value is not None and value != settings[name]:
                raise ValueError(f"Memory: {name} must be {settings[name]} as in {place}, got {value}")
        self._dim, self._seed, self._scales = (settings[name] for name in ("dim", "seed", "scales"))
        self._encoder = Encoder(self._dim, self._seed, self._scales)
        _OPEN.add(self)

    def _summary(self) -> dict[str, Any]:
        scales = {"scales": self._scales} if self._scales else {}
        return {"path": self._file.path, "dim": self._dim, "seed": self._seed, **scales}

    def __reduce__(self) -> tuple[Any, ...]:
        """Another handle of the file."""
        if self._key is not None:
            raise TypeError("pickle: memory must have no key, got one, which would be written down")
        return _opened, (type(self), self._file.path, None, self._timeout)

    def __copy__(self) -> Self:
        """Another handle of the file."""
        made: Self = _opened(type(self), self._file.path, self._key, self._timeout)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Another handle of the file."""
        return self.__copy__()

    def __enter__(self) -> Self:
        """The memory, which is closed when the block ends."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Closes it."""
        self.close()

    @locked
    def close(self) -> None:
        """Gives the file back; every other call is a ValueError from then on."""
        self._is_closed, self._index = True, None
        self._file.disconnect()

    @property
    def path(self) -> str:
        """The file, without symbolic links."""
        return self._file.path

    @property
    def dim(self) -> int:
        """Dimension D."""
        return int(self._dim)

    @property
    def seed(self) -> int:
        """Of the roles and fillers drawn, 0 to 2^64 - 1."""
        return int(self._seed)

    @property
    @locked
    def names(self) -> tuple[str, ...]:
        """The names in the order of storing."""
        with self._reading("names") as (connection, _):
            return tuple(name for (name,) in connection.execute("SELECT name FROM records ORDER BY id"))

    @property
    @locked
    def vectors(self) -> Tensor:
        """All vectors in the order of `names`, float32 ``[N, D]``; reads the whole file."""
        return self._listed(())[0]

    @locked
    def _listed(self, names: Any) -> tuple[Tensor, Any]:
        with self._reading("vectors") as (connection, state), torch.inference_mode(False):
            vectors = torch.empty(state.records, self._dim, dtype=torch.float32, device=CPU)
            known = []
            for at, row in enumerate(connection.execute(f"{_ROWS} ORDER BY r.id")):
                vectors[at].copy_(from_bytes(self._checked("vectors", row)[4], torch.float32))
                known.append(row[1])
            return vectors, tuple(known) if names is None else names

    @locked
    def __len__(self) -> int:
        """Number of records."""
        with self._reading("len") as (_, state):
            return state.records

    def __iter__(self) -> Iterator[str]:
        """The names in their order, as of now."""
        return iter(self.names)

    @locked
    def __contains__(self, name: object) -> bool:
        """Whether there is a record of that name."""
        with self._reading("in") as (connection, _):
            return isinstance(name, str) and _id_of(connection, name) is not None

    @locked
    def __getitem__(self, name: str) -> dict[str, Any]:
        """A copy of the record of a name; KeyError for an unknown one."""
        word("Memory", "name", name)
        with self._reading("Memory") as (connection, _):
            return self._record_of("Memory", self._row("Memory", connection, name))

    def __setitem__(self, name: str, record: Mapping[str, Any]) -> None:
        """``memory[name] = record`` is `store`, or replaces the record of a known name, which keeps its place."""
        self._store("Memory", [(name, record)], "record", replaces=True)

    def __delitem__(self, name: str) -> None:
        """``del memory[name]`` is `remove`."""
        self.remove(name)

    def store(self, name: str, record: Mapping[str, Any]) -> None:
        """Stores a record under a new name, at the end.

        Args:
            name: any text, the empty one too.
            record: fillers by roles, at least one filler. Numbers are at most 2^31 scales large: keep those that only
                name something as text.

        Raises:
            TypeError: ``name`` is not a str, ``record`` not a mapping of str, or a filler of another kind than the
                class says.
            ValueError: the name is known or not valid Unicode, there is no filler, a number is too large, or a vector
                is not ``[D]`` or not finite.
            TimeoutError: another writer held the file for ``timeout`` seconds.

        Cost: one transaction, which waits for the disk; 2 K + 1 transforms for K fillers.
        """
        self._store("store", [(name, record)], "record")

    def store_many(self, records: Mapping[str, Mapping[str, Any]] | Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        """Stores records by name, a mapping or pairs, in one transaction; on an error none.

        Raises:
            TypeError, ValueError, TimeoutError: as for `store`; also a ValueError for a name given twice.
        """
        pairs = records.items() if isinstance(records, Mapping) else records
        wanted = "a mapping of names to records, or pairs of these"
        pairs = listed("store_many", "records", pairs if isinstance(pairs, Iterable) else records, wanted)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise TypeError(f"store_many: records must be {wanted}, got {type(pair).__name__} among them")
        self._store("store_many", pairs, "records")

    @locked
    def update(self, name: str, roles: Mapping[str, Any]) -> None:
        """Changes roles of a record, which keeps its name, its place and its other roles.

        Args:
            name: a known name.
            roles: the new fillers of some roles, known or new; None empties a role.

        Raises:
            KeyError: the name is unknown, or a role that is to be emptied is not filled.
            TypeError, ValueError, TimeoutError: as for `store`.
        """
        word("update", "name", name)
        filled = roles
        emptied: list[str] = []
        if isinstance(roles, Mapping):
            filled = {role: filler for role, filler in roles.items() if filler is not None}
            emptied = [bare(role) if isinstance(role, str) else role for role in roles if role not in filled]
        new = {} if emptied and not filled else self._encoder.checked("update", "roles", filled)
        with self._writing("update") as (connection, change):
            row = self._row("update", connection, name)
            record = self._record_of("update", row)
            for role in emptied:
                if role not in record:
                    raise KeyError(f"update: roles must be filled to be emptied, got {role!r}")
                del record[role]
            record = self._encoder.checked("update", "record", record | new)
            self._put(connection, change, [(*row[:2], record, row[-1])])

    @locked
    def remove(self, name: str) -> None:
        """Removes a record; the others keep their order.

        Raises:
            KeyError: the name is unknown.
            TypeError, TimeoutError: as for `store`.
        """
        word("remove", "name", name)
        with self._writing("remove") as (connection, change):
            row = self._row("remove", connection, name)
            for table in ("records", "vectors", "codes"):
                connection.execute(f"DELETE FROM {table} WHERE id = ?", row[:1])
            change.exchange(None, row[-1])

    @takes(top_k=Int(1))
    @locked
    def search(self, query: Any, top_k: int = 5) -> Any:
        """The ``top_k`` records whose vectors have the largest cosine with that of a query, best first.

        A query of J pairs has a cosine of about ``sqrt(J / K)`` with a record of K pairs that holds all of them, and of
        0, give or take 1/sqrt(D), with one that holds none. All records are ranked, exactly: as the cosines within 1e-6
        are, of equal ones first the record stored first. Deterministic; a cosine depends on query and record alone.

        Args:
            query: roles with fillers, as a record, or a list of these; or a vector ``[D]``, such as `encode` makes, or
                vectors ``[B, D]``. Several are searched for at once.
            top_k: number of records, at least 1.

        Returns:
            A list of named tuples ``(name, cosine, record)``, as many as there are records where those are fewer; for
            several queries a list of such lists.

        Raises:
            TypeError: ``query`` is none of these, or ``top_k`` not an int.
            ValueError: ``top_k`` is below 1; a query holds what no record can, or vectors are not finite or not of D.

        Cost: the codes of new and changed records are read from the file first; then O(N D) operations on 8 bits, and
        the vectors that the codes cannot exclude are read from the file.
        """
        vectors, is_one = self._vectors_of(query)
        with self._reading("search") as (connection, state), torch.inference_mode(False), torch.no_grad():
            if not state.records or not len(vectors):
                found: list[list[Match]] = [[] for _ in vectors]
            else:
                index = self._synchronised("search", connection, state)

                def fetch(ids: Tensor) -> Tensor:
                    read = (self._row("search", connection, each)[4] for each in ids.tolist())
                    return from_bytes(b"".join(read), torch.float32).view(len(ids), self._dim)

                cosines, ids = index.rows.nearest(vectors, fetch, min(top_k, state.records))
                found = [[] for _ in vectors]
                # Records that several queries find are read once; each match has a copy of its own.
                rows = {id: self._row("search", connection, id)[:3] for id in ids.unique().tolist()}
                for matches, *one in zip(found, ids.tolist(), cosines.tolist(), strict=True):
                    for id, cosine in zip(*one, strict=True):
                        matches.append(Match(rows[id][1], cosine, self._record_of("search", rows[id])))
        return found[0] if is_one else found

    @outside_graphs
    def encode(self, record: Mapping[str, Any]) -> Vector:
        """The vector of a record or of a part of one, ``[D]``, float32 of norm 1: a `Vector`. Errors as for `store`."""
        checked = self._encoder.checked("encode", "record", record)
        return self._encoder.vectors([checked])[0].as_subclass(Vector)

    @outside_graphs
    def role(self, name: str) -> Vector:
        """The unitary vector of a role, ``[D]``, float32: ``hrr.unbind(vector, memory.role("agent"))`` is a filler.

        Raises:
            TypeError, ValueError: ``name`` is not a str, or not valid Unicode.
        """
        check_text("role", "name", name)
        return self._encoder.role(name).clone().as_subclass(Vector)

    @locked
    def verify(self) -> None:
        """Reads the whole file, SQLite's own structures too.

        Raises:
            IntegrityError: a byte that counts is not what was written.

        Cost: one pass over the file.
        """
        with self._reading("verify") as (connection, state):
            (said,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if said != "ok":
                raise self._file.damaged("verify", said)
            found = Change(State("", 0, 0, bytes(32)))
            seals = {}
            for row in connection.execute(f"{_ROWS} ORDER BY r.id"):
                self._checked("verify", row)
                found.exchange(row[-1], None)
                seals[row[0]] = row[-1]
            for each in connection.execute(_CODES):
                self._checked_code("verify", each)
            counts = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in ("vectors", "codes")]
            if found.state[2:] != state[2:] or counts != [(state.records,)] * 2:
                raise self._file.damaged("verify", "records are missing, or others than were stored")

    @contextlib.contextmanager
    def _reading(self, op: str) -> Iterator[tuple[Connection, State]]:
        self._check_open(op)
        with self._file.reading(op) as found:
            yield found

    @contextlib.contextmanager
    def _writing(self, op: str) -> Iterator[tuple[Connection, Change]]:
        self._check_open(op)
        with self._file.writing(op) as found:
            yield found

    def _check_open(self, op: str) -> None:
        if self._is_closed:
            raise ValueError(f"{op}: memory must be open, got one that was closed")

    @locked
    def _store(self, op: str, pairs: list[tuple[str, Any]], where: str, replaces: bool = False) -> None:
        checked = {}
        for name, record in pairs:
            check_text(op, "name", name)
            name = bare(name)
            if name in checked:
                raise ValueError(f"{op}: names must be different, got {name!r} twice")
            place = where if where == "record" else f"{where}[{name!r:.80}]"
            checked[name] = self._encoder.checked(op, place, record)
        with self._writing(op) as (connection, change):
            entries: list[tuple[int, str, dict[str, Any], bytes | None]] = []
            new = connection.execute("SELECT coalesce(max(id), 0) FROM records").fetchone()[0]
            for name, record in checked.items():
                known = _id_of(connection, name)
                if known is not None and not replaces:
                    raise ValueError(f"{op}: name must be new, got {name!r}")
                if known is None:
                    new += 1
                    entries.append((new, name, record, None))
                else:
                    entries.append((known, name, record, self._row(op, connection, known)[-1]))
            step = max(1, _AT_ONCE // self._dim)
            for at in range(0, len(entries), step):
                self._put(connection, change, entries[at : at + step])

    def _put(
        self, connection: Connection, change: Change, entries: list[tuple[int, str, dict[str, Any], bytes | None]]
    ) -> None:
        """Writes records: id, name, record, and the seal of the one whose place it takes."""
        vectors = self._encoder.vectors([record for _, _, record, _ in entries])
        codes, bounds = quantize(vectors)
        parts = zip(_bytes_of_rows(vectors), _bytes_of_rows(codes), _bytes_of_rows(bounds), strict=True)
        for (id, name, record, old), (vector, code, bound) in zip(entries, parts, strict=True):
            row = (id, name, to_text(record), change.state.change)
            seal = self._file.seal("record", *row, vector)
            connection.execute("REPLACE INTO records VALUES (?, ?, ?, ?, ?)", (*row, seal))
            connection.execute("REPLACE INTO vectors VALUES (?, ?)", (id, vector))
            both = code + bound
            connection.execute("REPLACE INTO codes VALUES (?, ?, ?)", (id, both, self._file.seal("code", seal, both)))
            change.exchange(seal, old)

    def _row(self, op: str, connection: Connection, key: str | int) -> tuple[Any, ...]:
        """The row of a name or an id, its seal last."""
        column = "name" if isinstance(key, str) else "id"
        row = connection.execute(f"{_ROWS} WHERE r.{column} = ?", (key,)).fetchone() if _is_text(key) else None
        if row is None and isinstance(key, str):
            raise KeyError(f"{op}: name must be known, got {key!r}")
        return self._checked(op, row)

    def _checked(self, op: str, row: Any) -> tuple[Any, ...]:
        if row is None or not self._file.is_sealed(row[-1], "record", *row[:-1]):
            name = "a record" if row is None else f"the record of {row[1]!r:.80}"
            raise self._file.damaged(op, f"{name} is not as it was written")
        checked: tuple[Any, ...] = row
        return checked

    def _checked_code(self, op: str, row: Any) -> None:
        _, seal, code, own = row
        sized = isinstance(code, bytes) and len(code) == self._dim + 8
        if not sized or not self._file.is_sealed(own, "code", seal, code):
            raise self._file.damaged(op, "the codes of a record are not as they were written")

    def _record_of(self, op: str, row: tuple[Any, ...]) -> dict[str, Any]:
        try:
            return from_text(row[2])
        except Exception as error:
            # The seal is right; without a key, anybody can make one.
            raise self._file.damaged(op, f"the record of {row[1]!r:.80} is none: {error}") from error

    def _vectors_of(self, query: Any) -> tuple[Tensor, bool]:
        """The vectors of queries, ``[B, D]``, and whether it is one query."""
        if isinstance(query, Mapping):
            return self._encoder.vectors([self._encoder.checked("search", "query", query)]), True
        if isinstance(query, list | tuple):
            checked = [self._encoder.checked("search", f"query[{i}]", each) for i, each in enumerate(query)]
            return self._encoder.vectors(checked), False
        if not isinstance(query, Tensor) and not hasattr(query, "__array__"):
            wanted = "a mapping of roles to fillers, a list of these, or vectors"
            raise TypeError(f"search: query must be {wanted}, got {type(query).__name__}")
        vectors = check_vectors("search", "query", query, self._dim)
        if vectors.dim() > 2:
            raise ValueError(f"search: query must be [D] or [B, D], got shape {list(vectors.shape)}")
        check_data("search", "query", vectors)
        check_finite("search", "query", vectors)
        return vectors.detach().to(CPU).reshape(-1, self._dim), vectors.dim() == 1

    def _synchronised(self, op: str, connection: Connection, state: State) -> _Index:
        """The codes of the file as this transaction sees it."""
        # After an error there is none.
        index, self._index = self._index, None
        if index is None or index.change > state.change:
            index = _Index(self._dim)
        if index.change < state.change:
            changed = connection.execute(f"{_CODES} WHERE r.change > ?", (index.change,))
            while rows := changed.fetchmany(max(1, _AT_ONCE // self._dim)):
                for row in rows:
                    self._checked_code(op, row)
                codes = from_bytes(b"".join(code[: self._dim] for _, _, code, _ in rows), torch.int8)
                bounds = from_bytes(b"".join(code[self._dim :] for _, _, code, _ in rows), torch.float32)
                index.put([id for id, *_ in rows], codes.view(len(rows), -1), bounds.view(len(rows), -1))
            if len(index.slots) != state.records:
                index.keep({id for (id,) in connection.execute("SELECT id FROM records")})
            if len(index.slots) != state.records:
                raise self._file.damaged(op, "records are missing")
            index.change = state.change
        self._index = index
        return index


class _Index:
    """The codes of all records of a file, as of a change of it."""

    def __init__(self, dim: int) -> None:
        self.rows, self.change = QuantizedRows(dim, device=CPU), 0
        self.slots: dict[int, int] = {}
        self._free: list[int] = []

    def put(self, ids: list[int], codes: Tensor, bounds: Tensor) -> None:
        for id in ids:
            if id not in self.slots:
                self.slots[id] = self._free.pop() if self._free else len(self.slots)
        self.rows.put_codes([self.slots[id] for id in ids], codes, bounds, ids)

    def keep(self, ids: set[int]) -> None:
        """Forgets all others."""
        gone = [self.slots.pop(id) for id in self.slots.keys() - ids]
        self.rows.remove(gone)
        self._free += gone


_OPEN: weakref.WeakSet[Memory] = weakref.WeakSet()
_HELD: list[Memory] = []


def _before_fork() -> None:
    """SQLite's connections must not be in two processes: each opens its own afterwards."""
    for memory in tuple(_OPEN):
        # Lost in an earlier fork.
        with contextlib.suppress(RuntimeError):
            memory._lock.__enter__()
            _HELD.append(memory)
            memory._file.disconnect()


def _after_fork() -> None:
    while _HELD:
        _HELD.pop()._lock.__exit__()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _opened(kind: type[Memory], path: str, key: bytes | None, timeout: float) -> Any:
    """A handle of a file that is there: a new one would be of another dimension and seed."""
    if not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, "Memory: path of a copy or pickle must name a file that exists", path)
    return kind(path, key=key, timeout=timeout)


def _checked_scales(scales: Any) -> dict[str, float] | None:
    if scales is None:
        return None
    if not isinstance(scales, Mapping):
        raise TypeError(f"Memory: scales must be a mapping of roles to numbers or None, got {type(scales).__name__}")
    for role in scales:
        check_text("Memory", "roles of scales", role)
    return {role: positive("Memory", f"scales[{role!r}]", scale) for role, scale in scales.items()}


def _id_of(connection: Connection, name: str) -> Any:
    row = connection.execute("SELECT id FROM records WHERE name = ?", (name,)).fetchone() if _is_text(name) else None
    return row and row[0]


def _is_text(name: str | int) -> bool:
    """Whether SQLite can look for it: surrogates are in no name."""
    return isinstance(name, int) or name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _bytes_of_rows(rows: Tensor) -> list[bytes]:
    data = bytes(to_bytes(rows))
    step = len(data) // len(rows)
    return [data[at : at + step] for at in range(0, len(data), step)]
