"""A store of named vectors that can change: pre-allocated, fingerprinted, and saved to one checked file."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._checks import (
    FLOATING,
    check_elements,
    check_finite,
    check_names,
    check_vector,
    checked_path,
    resolve_dtype,
    word,
)
from torch_hrr._compile import outside_graphs
from torch_hrr._shared import locked
from torch_hrr._spec import Bool, Device, Dtype, Int, takes
from torch_hrr.hrr._named import NamedVectors
from torch_hrr.hrr.vector import Vector
from torch_hrr.io import IntegrityError, digest
from torch_hrr.io.files import check_text, to_bytes
from torch_hrr.runtime.device import resolve_data_device

_CPU = torch.device("cpu")


class VectorStore(NamedVectors):
    """Vectors by name, in the order in which they were added; as a mapping it gives copies.

    They are rows of one tensor on one device, allocated in advance and doubled when they run out; the row of a removed
    vector is reused. Values are finite: NaN and infinity are refused, because one such vector would spoil every sum and
    every comparison with the others, long after the call that let it in. Vectors may come from any device and in any
    floating dtype and are rounded to that of the store. A call that raises leaves the store as it was.

    Every change copies the vectors that it wrote to the host once and records their SHA-256. The first search after a
    change makes an `ItemMemory` of all vectors; with ``quantized=True`` a change makes the int8 codes of the vectors
    that it wrote instead, and every search is that of a quantized memory.

    A module: that of a model moves and changes its dtype with it and is in its `state_dict`, after `verify`, though not
    among its buffers; ``load_state_dict`` takes over the vectors and names of a store of the same D. A move keeps what
    is recorded; a conversion of the dtype records anew, and is a ValueError if a vector does not fit the new one.
    """

    file_format = "torch_hrr.vector_store"
    _kind = "store"

    @takes(dim=Int(1), device=Device(), dtype=Dtype().or_none(), capacity=Int(0), quantized=Bool())
    def __init__(
        self,
        dim: int = 512,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        capacity: int = 64,
        quantized: bool = False,
    ) -> None:
        """Makes an empty store.

        Args:
            dim: dimension D of the vectors, >= 1.
            device: device of the vectors; None means the current device, else as for `runtime.resolve_device`.
            dtype: float32, float64, float16 or bfloat16; None means torch's default dtype.
            capacity: number of vectors to make room for, >= 0.
            quantized: whether searches read codes that are kept with the vectors, and few of these.

        Raises:
            ValueError: ``device`` is meta, or there are 2^59 elements or more to make room for.
        """
        dtype = resolve_dtype("VectorStore", dtype)
        check_elements("VectorStore", "the vectors", (max(capacity, 1), dim))
        self._start(dim, resolve_data_device(device, op="VectorStore"), dtype, quantized, capacity)
        # Of every vector, as it was last written.
        self._sha256: dict[str, str] = {}
        # Files as this store last read or wrote them.
        self._seen: dict[str, tuple[int, ...]] = {}

    @locked
    def __getitem__(self, name: str) -> Vector:
        """A copy of the vector, a `Vector` ``[D]``; KeyError for an unknown name."""
        return self._rows[self._entry("VectorStore", name)].clone().as_subclass(Vector)

    @property
    def capacity(self) -> int:
        """Number of vectors that there is room for without another allocation."""
        return len(self._rows)

    @locked
    def add(self, name: str, vector: Tensor) -> None:
        """Adds a vector ``[D]`` at the end.

        Raises:
            TypeError: ``name`` is not a str, or ``vector`` not a floating point tensor.
            ValueError: the name is already known or not valid Unicode, or ``vector`` is not ``[D]`` or not finite.
        """
        check_text("add", "name", name)
        self._add("add", [name], self._converted("add", "vector", vector, (self._dim,)).unsqueeze(0))

    @locked
    def add_many(self, names: Sequence[str], vectors: Tensor) -> None:
        """Adds the rows of ``vectors``, ``[N, D]``, at the end in the order of ``names``; on an error, none.

        Errors as for `add`; also a TypeError if ``names`` is not a sequence and a ValueError for repeated names. One
        copy to the host for all.
        """
        names = check_names("add_many", names)
        for name in names:
            check_text("add_many", "name", name)
        self._add("add_many", names, self._converted("add_many", "vectors", vectors, (len(names), self._dim)))

    @locked
    def get_many(self, names: Sequence[str]) -> Tensor:
        """Copies of the vectors of a sequence of names, which may repeat, ``[N, D]``; KeyError for an unknown one."""
        names = check_names("get_many", names, different=False)
        return self._gather([self._entry("get_many", name) for name in names])

    @locked
    def update(self, name: str, vector: Tensor) -> None:
        """Replaces the vector of a name, which keeps its place in the order.

        Raises:
            KeyError: the name is unknown.
            TypeError, ValueError: as for `add`.
        """
        self._entry("update", name)
        converted = self._converted("update", "vector", vector, (self._dim,))
        (sha256,) = _fingerprints(converted.unsqueeze(0).to(_CPU))
        self._replace(name, converted)
        self._sha256[name] = sha256

    @locked
    def remove(self, name: str) -> None:
        """Removes a vector and overwrites it with zeros; the others keep their order. KeyError for an unknown name."""
        self._entry("remove", name)
        self._delete(name)
        del self._sha256[name]

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        rows, known = self._converted_rows(fn), self._sha256
        if rows.dtype != self._dtype:
            self._verified("to")
            check_finite("to", "vectors", rows)
            found = _fingerprints(rows.to(_CPU)[list(self._entries.values())])
            known = dict(zip(self._entries, found, strict=True))
        self._take_rows(rows)
        self._sha256 = known

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        with self._lock:
            self._verified("state_dict")
            return self._with_settings(self.vectors)

    def _take(self, made: Self) -> None:
        # A state is no file that was read.
        made._seen = self._seen
        super()._take(made)

    @locked
    def digest(self) -> str:
        """Fingerprint of what the store holds now: 64 hexadecimal digits.

        `io.digest` of the names in their order and of all vectors ``[N, D]`` in it, so it depends on names, order, D,
        dtype and every bit of the values, but not on device, capacity or history.

        Cost: one copy to the host and one pass over the bytes.
        """
        return digest(*self._described(self.vectors.to(_CPU)))

    @locked
    def verify(self) -> None:
        """Checks that every vector still is what the last change through this class wrote.

        Raises:
            IntegrityError: the SHA-256 of a vector is not the one recorded; the text names it.

        Cost: one copy to the host and one pass over the bytes.
        """
        self._verified("verify")

    @outside_graphs
    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """As `Saveable.save`, after `verify`: if that finds a change, it raises IntegrityError and writes nothing.

        The file depends only on what `digest` depends on, on ``quantized``, and on the key.

        Raises:
            RuntimeError: Somebody else has written the file since this store read or wrote it; nothing is written, so
                that neither's additions are lost. Load it and add to that, or save to another path.
            Others: As for `Saveable.save`.
        """
        place = os.path.realpath(checked_path("save", path))
        with self._lock, _one_at_a_time(os.path.dirname(place)):
            if place in self._seen and _state_of(place) not in (self._seen[place], None):
                raise RuntimeError(
                    f"save: {place} must be as this store last read or wrote it, got a file changed since"
                )
            super().save(path, key)
            self._saw(place, _state_of(place))

    @classmethod
    @outside_graphs
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        **options: Any,
    ) -> Self:
        """As `Saveable.load`; the store remembers the file, and `save` does not overwrite what others write to it."""
        place = os.path.realpath(checked_path("load", path))
        # Before it is read: a change in between is then noticed.
        state = _state_of(place)
        store = super().load(path, key, device=device, **options)
        store._saw(place, state)
        return store

    def _saw(self, place: str, state: tuple[int, ...] | None) -> None:
        if state is not None:
            self._seen[place] = state

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self._with_settings(self._verified("save"))

    def _outline(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return self._with_settings(torch.empty(len(self), self._dim, dtype=self._dtype, device="meta"))

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        metadata = dict(metadata)
        if not isinstance(quantized := metadata.pop("quantized", False), bool):
            raise ValueError(f"quantized to be a bool, got {quantized}")
        names, vectors = _checked_content(tensors, metadata)
        store = cls(vectors.shape[1], device=device, dtype=vectors.dtype, capacity=len(names), quantized=quantized)
        store._add("load", names, vectors)
        return store

    def _entry(self, op: str, name: str) -> int:
        word(op, "name", name)
        if name not in self._entries:
            raise KeyError(f"{op}: name must be known, got {name!r}")
        return self._entries[name]

    def _converted(self, op: str, argument: str, vectors: Any, shape: tuple[int, ...]) -> Tensor:
        converted = check_vector(op, argument, vectors, shape).detach().to(device=self._device, dtype=self._dtype)
        check_finite(op, argument, converted)
        return converted

    def _add(self, op: str, names: Sequence[str], vectors: Tensor) -> None:
        for name in names:
            if name in self._entries:
                raise ValueError(f"{op}: name must be new, got {name!r}")
        fingerprints = _fingerprints(vectors.to(_CPU))
        self._append(names, vectors)
        self._sha256.update(zip(names, fingerprints, strict=True))

    def _with_settings(self, vectors: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, said = self._described(vectors)
        return tensors, {**said, "quantized": True} if self._quantized else said

    def _described(self, vectors: Tensor) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"vectors": vectors}, {"names": list(self._entries)}

    def _verified(self, op: str) -> Tensor:
        """All vectors on the host, after comparing them with what was recorded."""
        vectors = self.vectors.to(_CPU)
        pairs = zip(self._entries, _fingerprints(vectors), strict=True)
        changed = [name for name, found in pairs if self._sha256[name] != found]
        if changed:
            shown = ", ".join(map(repr, changed[:5])) + (" and more" if len(changed) > 5 else "")
            raise IntegrityError(f"{op}: vectors must be as they were last written, got others for {shown}")
        return vectors


@contextlib.contextmanager
def _one_at_a_time(folder: str) -> Iterator[None]:
    """What stores do to the files of a folder, in this process and in others."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        # Saving will say what is wrong with it.
        yield
        return
    try:
        # Some file systems have no locks.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        # A process that was forked meanwhile has the handle, too.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _state_of(path: str) -> tuple[int, ...] | None:
    """What tells one state of a file from another; None where there is none. Every save makes a file of its own."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def _fingerprints(vectors: Tensor) -> list[str]:
    """SHA-256 of every row on the host, over its values in order, little-endian."""
    data = memoryview(to_bytes(vectors))
    step = vectors.shape[1] * vectors.element_size()
    return [hashlib.sha256(data[at : at + step]).hexdigest() for at in range(0, len(data), step)]


def _checked_content(tensors: dict[str, Tensor], metadata: dict[str, Any]) -> tuple[list[str], Tensor]:
    """Names and vectors of a file whose seal is right; without a key, anybody can make one that holds anything."""
    match tensors, metadata:
        case {"vectors": vectors, **others}, {"names": [*names], **rest} if not others and not rest:
            known = vectors.dtype in FLOATING and vectors.dim() == 2 and vectors.shape[1] > 0
            named = all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
            if known and named and len(names) == len(vectors) and bool(vectors.isfinite().all()):
                return names, vectors
    raise ValueError("other content than finite vectors [N, D] and N different names")
