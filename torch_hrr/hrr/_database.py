"""An SQLite file whose rows are sealed: many readers, one writer at a time, and errors in the words of the caller."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import pathlib
import stat
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torch_hrr.io import IntegrityError
from torch_hrr.io._reading import SEALS

if TYPE_CHECKING:
    import sqlite3

_Result = TypeVar("_Result")

# "HRRm", where SQLite has room for what tells the files of one program from those of others.
_APPLICATION, _VERSION = 0x4852526D, 1
_SCHEMA = (
    "CREATE TABLE memory (id INTEGER PRIMARY KEY CHECK (id = 1), settings TEXT NOT NULL, change INTEGER NOT NULL, "
    "records INTEGER NOT NULL, total BLOB NOT NULL, seal BLOB NOT NULL)",
    "CREATE TABLE records (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, record TEXT NOT NULL, "
    "change INTEGER NOT NULL, seal BLOB NOT NULL)",
    "CREATE INDEX changes ON records (change)",
    "CREATE TABLE vectors (id INTEGER PRIMARY KEY, vector BLOB NOT NULL)",
    "CREATE TABLE codes (id INTEGER PRIMARY KEY, code BLOB NOT NULL, seal BLOB NOT NULL)",
)
# Seconds that SQLite may wait without looking for signals.
_PATIENCE = 0.1


class State(NamedTuple):
    """What a file says of itself: it changes with every transaction that writes."""

    settings: str
    change: int
    """Number of such transactions, the one of a row being that which wrote it last."""
    records: int
    """Number of records."""
    total: bytes
    """The sum of their seals as numbers modulo 2^256."""


class Change:
    """The state of a file as a transaction will leave it."""

    def __init__(self, state: State) -> None:
        self.state = state._replace(change=state.change + 1)

    def exchange(self, added: bytes | None, removed: bytes | None) -> None:
        """A record comes, goes, or takes the place of one: by their seals."""
        total = int.from_bytes(self.state.total, "little") + int.from_bytes(added or b"", "little")
        total = (total - int.from_bytes(removed or b"", "little")) % 2**256
        records = self.state.records + (added is not None) - (removed is not None)
        self.state = self.state._replace(records=records, total=total.to_bytes(32, "little"))


class Database:
    """The connection of a process to a file. Not locked: whoever shares one does it."""

    def __init__(self, path: str, key: bytes | None, timeout: float) -> None:
        self.path, self._key, self._timeout = path, key, timeout
        self._connection: sqlite3.Connection | None = None
        # What tells the file that was opened first from another one of its name.
        self._identity: tuple[int, int] | None = None
        # As last found right.
        self._row: Any = None

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.disconnect()

    def disconnect(self) -> None:
        """Gives the file back; the next transaction opens it again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def seal(self, *parts: str | bytes | int) -> bytes:
        """SHA-256 or, with a key, HMAC-SHA256 of the parts, each with its type and length."""
        hashed = hashlib.sha256() if self._key is None else hmac.new(self._key, digestmod="sha256")
        for part in parts:
            data = part if isinstance(part, bytes) else str(part).encode()
            # With its type, which a damaged file may change.
            hashed.update(f"{type(part).__name__} {len(data)} ".encode())
            hashed.update(data)
        return hashed.digest()

    def is_sealed(self, seal: Any, *parts: Any) -> bool:
        """Whether the seal is that of the parts, which a damaged file may give any type."""
        try:
            return isinstance(seal, bytes) and hmac.compare_digest(seal, self.seal(*parts))
        except UnicodeEncodeError:
            return False

    def damaged(self, op: str, what: str) -> IntegrityError:
        """The error for a file that is not as it was written."""
        return IntegrityError(
            f"{op}: {self.path} is damaged{'' if self._key is None else ' or has another key'}: {what}"
        )

    def create(self, op: str, settings: str) -> None:
        """Makes the tables in a file that has none."""
        with self._errors(op):
            connection = self._connected(op)
            if self._is_made(op, connection):
                return
            with self._transaction(connection, writes=True):
                if not self._is_made(op, connection):
                    for statement in _SCHEMA:
                        connection.execute(statement)
                    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                    connection.execute(f"PRAGMA user_version = {_VERSION}")
                    state = State(settings, 0, 0, bytes(32))
                    row = (1, *state, self.seal("memory", *state))
                    connection.execute("INSERT INTO memory VALUES (?, ?, ?, ?, ?, ?)", row)

    @contextlib.contextmanager
    def reading(self, op: str) -> Iterator[tuple[sqlite3.Connection, State]]:
        """The file of one moment, whatever others write meanwhile."""
        with self._errors(op):
            connection = self._connected(op)
            with self._transaction(connection, writes=False):
                yield connection, self._state(op, connection)

    @contextlib.contextmanager
    def writing(self, op: str) -> Iterator[tuple[sqlite3.Connection, Change]]:
        """All that the body writes is in the file for good when this ends, or after an error none of it."""
        with self._errors(op):
            connection = self._connected(op)
            with self._transaction(connection, writes=True):
                change = Change(self._state(op, connection))
                yield connection, change
                row = (*change.state[1:], self.seal("memory", *change.state))
                connection.execute("UPDATE memory SET change = ?, records = ?, total = ?, seal = ?", row)

    @contextlib.contextmanager
    def _transaction(self, connection: sqlite3.Connection, writes: bool) -> Iterator[None]:
        self._patiently(lambda: _begin(connection, "BEGIN IMMEDIATE" if writes else "BEGIN"))
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            _roll_back(connection)
            raise

    def _patiently(self, call: Callable[[], _Result]) -> _Result:
        """What the call gives, tried again for `timeout` seconds while others hold the file."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                return call()
            except Exception as error:
                if _code(error) != _BUSY or time.monotonic() >= until:
                    raise

    def _state(self, op: str, connection: sqlite3.Connection) -> State:
        rows = connection.execute("SELECT settings, change, records, total, seal FROM memory").fetchall()
        if rows != self._row:
            if len(rows) != 1 or not self.is_sealed(rows[0][-1], "memory", *rows[0][:-1]):
                settings = str(rows[0][0]) if rows else ""
                if f'"seal":"{SEALS[self._key is None]}"' in settings:
                    state, given = ("is", "none") if self._key is None else ("is not", "one")
                    raise IntegrityError(f"{op}: {self.path} {state} sealed with a key, but {given} was given")
                raise self.damaged(op, "its seal does not match")
            self._row = rows
        return State(*rows[0][:-1])

    def _connected(self, op: str) -> sqlite3.Connection:
        # SQLite would go on writing to a file that was removed, where nobody finds it.
        if self._identity not in (None, _identity_of(self.path)):
            raise FileNotFoundError(errno.ENOENT, f"{op}: path must name the file that was opened", self.path)
        if self._connection is None:
            self._connection = self._patiently(lambda: self._opened(op))
            self._identity = _identity_of(self.path)
        return self._connection

    def _opened(self, op: str) -> sqlite3.Connection:
        place = pathlib.Path(self.path)
        # Beside the file SQLite keeps two more.
        is_writable = os.access(place.parent, os.W_OK)
        try:
            if not stat.S_ISREG(os.stat(place).st_mode):
                raise ValueError(f"{op}: path must name a regular file, got {self.path}")
            is_writable = is_writable and os.access(place, os.W_OK)
        except (FileNotFoundError, NotADirectoryError) as error:
            if not place.parent.is_dir():
                raise type(error)(error.errno, f"{op}: folder of path must exist", self.path) from None
            if not is_writable:
                raise PermissionError(errno.EACCES, f"{op}: folder of path must be writable", self.path) from None
        connection = self._found(op, "rwc" if is_writable else "ro")
        if connection is None:
            # Nobody is writing a file without a log, and there may be no room for one.
            connection = self._found(op, "ro&immutable=1")
        assert connection is not None
        try:
            for option in ("synchronous = FULL", "fullfsync = 1", "checkpoint_fullfsync = 1", "trusted_schema = 0"):
                connection.execute(f"PRAGMA {option}")
            mode = connection.execute(f"PRAGMA journal_mode{' = WAL' if is_writable else ''}").fetchone()[0]
            if is_writable and mode != "wal":
                text = f"{op}: path must be where SQLite can keep a write-ahead log"
                raise OSError(errno.ENOTSUP, text, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    def _found(self, op: str, mode: str) -> sqlite3.Connection | None:
        """A connection to a file that is a memory or none yet; None if SQLite could only read it otherwise."""
        # Not imported above: most programs keep nothing.
        import sqlite3

        connection = sqlite3.connect(
            f"{pathlib.Path(self.path).as_uri()}?mode={mode}",
            uri=True,
            timeout=min(_PATIENCE, self._timeout),
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._is_made(op, connection)
            return connection
        except sqlite3.Error as error:
            connection.close()
            if mode == "ro" and _code(error) in _CANNOT_OPEN and not os.path.exists(f"{self.path}-wal"):
                return None
            raise
        except BaseException:
            connection.close()
            raise

    def _is_made(self, op: str, connection: sqlite3.Connection) -> bool:
        """Whether the file is a memory; False for an empty one, IntegrityError for another program's."""
        # In this order: another process may be making the tables, which get their mark at the same time.
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        if application != _APPLICATION:
            if application or tables:
                raise IntegrityError(f"{op}: {self.path} must be a memory, got an SQLite file of another program")
            return False
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version != _VERSION:
            raise IntegrityError(f"{op}: {self.path} must be a memory of version {_VERSION}, got version {version}")
        return True

    @contextlib.contextmanager
    def _errors(self, op: str) -> Iterator[None]:
        import sqlite3

        try:
            yield
        # Of the other kind where the text of an error quotes damaged text.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._named(op, error) from error

    def _named(self, op: str, error: Exception) -> Exception:
        match _code(error):
            case 5 | 6 | 15:
                wanted = f"{op}: {self.path} must be free within {self._timeout:g} s"
                return TimeoutError(f"{wanted}, got one that another writer holds")
            case 7:
                return MemoryError(f"{op}: {self.path} must fit into memory, got {error}")
            case 8:
                return PermissionError(errno.EACCES, f"{op}: path must be writable", self.path)
            case 13:
                return OSError(errno.ENOSPC, f"{op}: {error}", self.path)
            case 10 | 14:
                return OSError(errno.EIO, f"{op}: {error}", self.path)
            case 18:
                return ValueError(f"{op}: record must fit into a row of SQLite, got {error}")
        return self.damaged(op, str(error))


def _identity_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


# Result codes of SQLite.
_BUSY, _CANNOT_OPEN = 5, (8, 14)


def _code(error: BaseException) -> int:
    """The primary result code of SQLite, 0 for none."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _begin(connection: sqlite3.Connection, statement: str) -> None:
    try:
        connection.execute(statement)
        # What a reader sees is fixed by the first page that it reads.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except BaseException:
        _roll_back(connection)
        raise


def _roll_back(connection: sqlite3.Connection) -> None:
    import sqlite3

    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
