"""Files that are written whole or not at all, and regular files opened to be read."""

import contextlib
import errno
import io
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable
from typing import Any

from torch_hrr._checks import checked_path


def open_regular(op: str, path: str | os.PathLike[str]) -> io.BufferedReader:
    """Opens a regular file to read; ValueError for anything else, whose reader might wait for a writer for ever."""
    path = checked_path(op, path)
    # Without waiting, and asked of what was opened: the name may mean something else a moment later.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError(f"{op}: path must name a regular file, got {path}")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def replace_atomically(path: str, write: Callable[[str], None], op: str = "save") -> None:
    """Replaces a file by what `write` puts at the temporary name it is given, whole or not at all, as `save` says."""
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{op}: path must name a regular file, got {path}")
    parent = os.path.dirname(path)
    temporary = os.path.join(parent, f".torch_hrr-{secrets.token_hex(8)}.tmp")
    # Opened first, so that a directory which cannot be is an error while the old file is still there.
    try:
        directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise type(error)(error.errno, f"{op}: folder of path must exist", path) from None
    try:
        try:
            with open(temporary, "xb") as file:
                # What the umask makes of a new file; nobody else reads along before it is whole.
                mode = os.fstat(file.fileno()).st_mode if mode is None else mode
                os.chmod(temporary, stat.S_IRUSR | stat.S_IWUSR)
            write(temporary)
            with open(temporary, "rb+") as file:
                os.chmod(temporary, stat.S_IMODE(mode))
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        try:
            os.fsync(directory)
        except OSError as error:
            # Some file systems cannot sync a directory; their rename is as durable as they make it.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
    finally:
        os.close(directory)


def write_atomically(path: str, chunks: Iterable[bytes | bytearray], op: str = "save") -> None:
    """Writes a file whole or not at all, as `save` says."""

    def write(temporary: str) -> None:
        with open(temporary, "wb") as file:
            file.writelines(chunks)

    replace_atomically(path, write, op)


def write_json(op: str, path: str | os.PathLike[str], content: Any) -> None:
    """Writes a file of JSON, whole or not at all."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_atomically(os.path.abspath(checked_path(op, path)), [text.encode()], op)
