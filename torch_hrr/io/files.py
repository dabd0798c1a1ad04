"""Checked files of tensors: safetensors with a SHA-256 manifest, accepted only when every byte is the canonical one.

A file is a valid safetensors file whose `__metadata__` holds two strings: `manifest`, the canonical JSON of

    {"format", "metadata", "tensors": {name: {"dtype", "sha256", "shape"}}, "version"},

and its seal, under `sha256` (SHA-256 of the manifest) or `hmac-sha256` (HMAC-SHA256 of it with the caller's key). The
manifest determines the whole header and the layout, so a file is read by rebuilding its header and comparing. The bytes
are laid out here and not by the safetensors package because what is canonical must not change with its version.

A plain seal reveals damage; against somebody who can rewrite the file only a key helps.
"""

import contextlib
import errno
import hashlib
import hmac
import io
import json
import math
import mmap
import os
import secrets
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor

from torch_hrr._checks import check_bool, check_data, checked_path, integer, shown, strided
from torch_hrr._compile import outside_graphs
from torch_hrr._shared import is_out_of_memory

_DTYPES = {
    "BF16": torch.bfloat16,
    "BOOL": torch.bool,
    "C64": torch.complex64,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "I8": torch.int8,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "U8": torch.uint8,
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_PREFIX_BYTES = _ALIGNMENT = 8
# The safetensors package reads no longer header.
_MAX_HEADER = 100_000_000
# Far below the interpreter's recursion limit, so that whatever was saved can be read at any depth of the stack.
_MAX_NESTING = 32
# What is hashed and written at once where a whole tensor may be too much.
_PIECE = 1 << 20
_Content: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]


class IntegrityError(RuntimeError):
    """A saved file is damaged, was written by something else, or does not fit the key; or stored memory was changed."""


class _Entry(NamedTuple):
    dtype: str
    sha256: str
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor, data: bytearray) -> Self:
        return cls(_DTYPE_NAMES[tensor.dtype], hashlib.sha256(data).hexdigest(), tuple(tensor.shape))

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _DTYPES[self.dtype].itemsize


@outside_graphs
def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> str:
    """Fingerprint of named tensors and their metadata.

    SHA-256 over the canonical JSON of `{"metadata", "tensors": {name: {"dtype", "sha256", "shape"}}}`; the "sha256" of
    a tensor is over its elements in row-major order, little-endian. Names, dtypes, shapes, values (the sign of zero and
    the bits of a NaN included) and metadata count; device, strides, order of the mappings and `requires_grad` do not.

    Args:
        tensors: Tensors by name, as for `save`.
        metadata: JSON values by name, as for `save`.

    Returns:
        64 hexadecimal digits, the same on every device. Errors as for `save`; cost: one pass over the bytes.
    """
    tensors = _checked_content("digest", tensors, metadata)
    entries = {name: _Entry.of(tensor, to_bytes(tensor)) for name, tensor in tensors.items()}
    return hashlib.sha256(_json({"metadata": dict(metadata), "tensors": _as_json(entries)}).encode()).hexdigest()


@outside_graphs
def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    *,
    format: str,
    version: int,
    key: bytes | None = None,
) -> None:
    """Writes tensors and metadata to one file, whole or not at all.

    The bytes go to a temporary file `.torch_hrr-*.tmp` in the same directory, are synced and renamed over `path`; on
    any error up to the rename the old file stays as it was and the temporary one is removed. A later error (syncing the
    directory) is raised with the new file whole and in place. An existing file keeps its mode, a new one follows the
    umask; through a symbolic link the file it names is replaced. The same arguments give the same bytes.

    Args:
        path: Where to write.
        tensors: Strided tensors of any device and shape; every real dtype of safetensors, and complex64. Strides,
            device, shared storage and gradients are not kept.
        metadata: None, bool, int, finite float, str, lists and string-keyed dicts of them; tuples come back as lists.
        format: Name of what is saved, for example "torch_hrr.vector_store".
        version: Version of that format.
        key: Seals the file with HMAC-SHA256: loading then needs this key. The file is not encrypted.

    Raises:
        TypeError: An argument of an unsupported type.
        ValueError: A tensor without data (meta), a reserved name, an empty key, a path that is not a regular file,
            metadata that JSON cannot hold, or names and metadata beyond 100 MB.
        OSError: The file cannot be written.

    Cost: one host copy of the tensors, hashed once and written once.
    """
    target = checked_path("save", path)
    version = _checked_options("save", format, version, key)
    tensors = _checked_content("save", tensors, metadata)
    data = {name: to_bytes(tensor) for name, tensor in tensors.items()}
    entries = {name: _Entry.of(tensor, data[name]) for name, tensor in tensors.items()}
    header = _checked_header("save", format, version, metadata, entries, key)
    write_atomically(os.path.realpath(target), [header, *(data[name] for name in _layout(entries))])


def _checked_header(
    op: str, format: str, version: int, metadata: Mapping[str, Any], entries: Mapping[str, _Entry], key: bytes | None
) -> bytes:
    """The header of a file with these entries; ValueError where names and metadata are too long for one."""
    manifest = {"format": format, "metadata": dict(metadata), "tensors": _as_json(entries), "version": version}
    header = _header(_json(manifest), entries, key)
    if len(header) - _PREFIX_BYTES > _MAX_HEADER:
        raise ValueError(f"{op}: names and metadata must fit in {_MAX_HEADER} bytes, got {len(header) - _PREFIX_BYTES}")
    return header


@outside_graphs
def save_in_pieces(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    *,
    format: str,
    version: int,
    op: str = "save_in_pieces",
) -> None:
    """Writes the file that `save` writes, with memory for only a piece of it: for tensors that are mapped themselves.

    Elements are read twice, to be hashed and to be written. Errors are in the name of `op`.

    Raises:
        RuntimeError: A tensor changed during the call; nothing is written. TypeError, ValueError, OSError: As `save`.
    """
    target = checked_path(op, path)
    version = _checked_options(op, format, version, None)
    tensors, entries = _checked_content(op, tensors, metadata), {}
    for name, tensor in tensors.items():
        hashed = hashlib.sha256()
        for piece in _pieces(tensor):
            hashed.update(piece)
        entries[name] = _Entry(_DTYPE_NAMES[tensor.dtype], hashed.hexdigest(), tuple(tensor.shape))
    header = _checked_header(op, format, version, metadata, entries, None)

    def chunks() -> Iterator[bytes | bytearray]:
        yield header
        for name in _layout(entries):
            hashed = hashlib.sha256()
            for piece in _pieces(tensors[name]):
                hashed.update(piece)
                yield piece
            if hashed.hexdigest() != entries[name].sha256:
                raise RuntimeError(f"{op}: tensors[{name!r}] must not change while it is written")

    write_atomically(os.path.realpath(target), chunks(), op)


def _pieces(tensor: Tensor) -> Iterator[bytearray]:
    """The bytes of `to_bytes`, some rows at a time."""
    many = _PIECE // max(math.prod(tensor.shape[1:]) * tensor.element_size(), 1)
    rows = torch.split(tensor, max(many, 1)) if tensor.dim() else (tensor,)
    return (to_bytes(part) for part in rows)


@outside_graphs
def load(
    path: str | os.PathLike[str],
    *,
    format: str,
    version: int = 1,
    key: bytes | None = None,
    device: torch.device | str | int = "cpu",
) -> _Content:
    """Reads a file that `save` wrote; returns everything or raises.

    Every byte is checked on the host before anything is returned: the header must be the one that `save` would write
    for this content, and every tensor must have the SHA-256 that the sealed manifest states.

    Args:
        path: The file.
        format: The format it must have.
        version: The version it must have.
        key: The key it was sealed with; None for a file without one.
        device: Where the tensors go once all are checked, as for `runtime.resolve_device`.

    Returns:
        The tensors by name, contiguous and each with its own storage, and the metadata; both ordered by name.

    Raises:
        IntegrityError: A changed, missing or added byte, another program's file, another format or version, a wrong or
            missing key, a key for a file saved without one.
        TypeError, ValueError: An argument of another type, an empty key, a path that is not a regular file.
        MemoryError: The tensors do not fit into memory.
        OSError: The file cannot be read; FileNotFoundError if there is none.

    Cost: one pass over the file; besides the tensors, the host holds the bytes of one of them at a time.
    """
    # Not imported above: the package's modules save themselves with this one.
    from torch_hrr.runtime.device import resolve_device

    version = _checked_options("load", format, version, key)
    place = resolve_device(device, op="load")
    with open_regular("load", path) as file, enough_memory(path):
        try:
            tensors, metadata = _read(file, format, version, key)
        except IntegrityError as error:
            raise IntegrityError(f"load: {os.fsdecode(path)} {error}") from None
        return {name: tensor.to(place) for name, tensor in tensors.items()}, metadata


@outside_graphs
def format_of(path: str | os.PathLike[str], key: bytes | None = None, *, op: str = "format_of") -> str:
    """The format of a file that `save` wrote; its header is checked, its tensors are not. Errors as `load`, by `op`."""
    _checked_options(op, "any", 0, key)
    with open_regular(op, path) as file:
        try:
            return str(_read_header(file, None, 0, key)[1]["format"])
        except IntegrityError as error:
            raise IntegrityError(f"{op}: {os.fsdecode(path)} {error}") from None


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


@contextlib.contextmanager
def enough_memory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns what Python and torch raise where memory runs out into a MemoryError that names the file."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise MemoryError(f"load: {os.fsdecode(path)} must fit into memory, got {_first_line(error)}") from error
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(f"load: {os.fsdecode(path)} must fit into memory, got {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0] or type(error).__name__


@outside_graphs
def open_mapped(
    path: str | os.PathLike[str],
    *,
    format: str,
    version: int = 1,
    key: bytes | None = None,
    verify: bool = True,
    op: str = "open_mapped",
) -> _Content:
    """As `load`, but the tensors map the file: a page is read when its elements are, and writing ends the process.

    The header is always checked. With ``verify`` the bytes are too, in pieces; without it a damaged tensor goes
    unnoticed. Later changes of the file change the tensors, and if it is shortened, reading the lost part ends the
    process. Replacing it by `save` leaves the mapped file as it was.

    Raises:
        RuntimeError: The machine is big-endian, while files are little-endian.
        IntegrityError, TypeError, ValueError, OSError: As `load`.
    """
    version = _checked_options(op, format, version, key)
    verify = check_bool(op, "verify", verify)
    if sys.byteorder == "big":
        raise RuntimeError(f"{op}: files are little-endian, and cannot be mapped on this machine")
    with open_regular(op, path) as file:
        try:
            at, manifest, entries = _read_header(file, format, version, key)
            tensors = {}
            pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            if hasattr(mmap, "MADV_RANDOM"):
                # Rows are read here and there: what lies around them is not read ahead.
                pages.madvise(mmap.MADV_RANDOM)
            for name in _layout(entries):
                if verify:
                    _verify_bytes(file, name, entries[name])
                tensors[name] = _mapped(pages, at, entries[name])
                at += entries[name].nbytes
            if hasattr(os, "posix_fadvise"):
                # What was read to be verified is dropped: a page that is cached in a large block maps the whole block.
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        except IntegrityError as error:
            raise IntegrityError(f"{op}: {os.fsdecode(path)} {error}") from None
    return {name: tensors[name] for name in sorted(tensors)}, manifest["metadata"]


def _verify_bytes(file: io.BufferedReader, name: str, entry: _Entry) -> None:
    hashed, left = hashlib.sha256(), entry.nbytes
    while left:
        piece = file.read(min(left, _PIECE))
        if not piece:
            raise IntegrityError(f"is cut short: it ends inside tensor {name!r}")
        hashed.update(piece)
        left -= len(piece)
    if hashed.hexdigest() != entry.sha256:
        raise IntegrityError(f"is damaged: the bytes of tensor {name!r} do not match their SHA-256")


def _mapped(pages: mmap.mmap, at: int, entry: _Entry) -> Tensor:
    count = math.prod(entry.shape)
    if not count:
        return torch.empty(entry.shape, dtype=_DTYPES[entry.dtype], device="cpu")
    with warnings.catch_warnings():
        # That the pages may not be written is meant.
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        flat = torch.frombuffer(pages, dtype=_DTYPES[entry.dtype], count=count, offset=at)
    return flat.view(entry.shape)


def _read(file: io.BufferedReader, format: str, version: int, key: bytes | None) -> _Content:
    _, manifest, entries = _read_header(file, format, version, key)
    tensors = {name: _read_tensor(file, name, entries[name]) for name in _layout(entries)}
    return {name: tensors[name] for name in sorted(tensors)}, manifest["metadata"]


def _read_header(
    file: io.BufferedReader, format: str | None, version: int, key: bytes | None
) -> tuple[int, dict[str, Any], dict[str, _Entry]]:
    """The header's length, the sealed manifest and its tensors; the file is left at the first of them."""
    size = os.fstat(file.fileno()).st_size
    prefix = file.read(_PREFIX_BYTES)
    if len(prefix) < _PREFIX_BYTES:
        raise IntegrityError(f"is cut short: it has {len(prefix)} bytes")
    length = int.from_bytes(prefix, "little")
    if length > _MAX_HEADER:
        raise IntegrityError(f"is no safetensors file, or damaged: it begins with {prefix!r}")
    if length > size - _PREFIX_BYTES:
        raise IntegrityError(f"is damaged or cut short: its header claims {length} of its {size} bytes")
    header = prefix + file.read(length)
    text = _sealed_manifest(header[_PREFIX_BYTES:], key)
    manifest = _parse_manifest(text)
    if format is not None and (manifest["format"] != format or manifest["version"] != version):
        found = f"version {manifest['version']} of {manifest['format']!r}"
        raise IntegrityError(f"must hold version {version} of {format!r}, got {found}")
    entries = {name: _parse_entry(name, fields) for name, fields in manifest["tensors"].items()}
    promised = len(header) + sum(entry.nbytes for entry in entries.values())
    if promised != size:
        raise IntegrityError(f"is {'cut short' if promised > size else 'too long'}, having {size} bytes")
    if _header(text, entries, key) != header:
        raise IntegrityError("is damaged: its header is not the canonical one for its manifest")
    return len(header), manifest, entries


def _sealed_manifest(header: bytes, key: bytes | None) -> str:
    """The text of the manifest, which is not parsed before its seal is verified."""
    try:
        fields = json.loads(header.decode()).get("__metadata__")
    except (ValueError, RecursionError, AttributeError):
        raise IntegrityError("is damaged: its header is not a JSON object") from None
    algorithm, other = ("sha256", "hmac-sha256") if key is None else ("hmac-sha256", "sha256")
    known = isinstance(fields, dict) and set(fields) in ({"manifest", algorithm}, {"manifest", other})
    if not known or not all(isinstance(value, str) for value in fields.values()):
        raise IntegrityError("is damaged or was not written by torch_hrr: it has no sealed manifest")
    if other in fields:
        state, given = ("is", "none") if key is None else ("is not", "one")
        raise IntegrityError(f"{state} sealed with a key, but {given} was given")
    text: str = fields["manifest"]
    # JSON can spell lone surrogates, which have no bytes: replaced here, they are refused as not canonical later.
    seal = _seal(text.encode(errors="replace"), key)
    if not hmac.compare_digest(fields[algorithm].encode(errors="replace"), seal.encode()):
        raise IntegrityError(f"is damaged{'' if key is None else ' or has another key'}: its seal does not match")
    return text


def _parse_manifest(text: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
        canonical = _json(manifest).encode() == text.encode()
    except (ValueError, RecursionError):
        canonical = False
    kinds = {"format": str, "metadata": dict, "tensors": dict, "version": int}
    if not canonical or not isinstance(manifest, dict) or {name: type(manifest[name]) for name in manifest} != kinds:
        raise IntegrityError("is damaged: its manifest is not a canonical one")
    return manifest


def _parse_entry(name: str, fields: Any) -> _Entry:
    match fields:
        case {"dtype": str(dtype), "sha256": str(sha256), "shape": list(shape), **rest}:
            possible = all(type(extent) is int and extent >= 0 for extent in shape)
            if possible and dtype in _DTYPES and not rest:
                return _Entry(dtype, sha256, tuple(shape))
    raise IntegrityError(f"is damaged: its manifest does not describe tensor {name!r} as torch_hrr would")


def _read_tensor(file: io.BufferedReader, name: str, entry: _Entry) -> Tensor:
    data = bytearray(entry.nbytes)
    if file.readinto(data) != len(data):
        raise IntegrityError(f"is cut short: it ends inside tensor {name!r}")
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise IntegrityError(f"is damaged: the bytes of tensor {name!r} do not match their SHA-256")
    dtype = _DTYPES[entry.dtype]
    try:
        tensor = torch.empty(entry.shape, dtype=dtype, device="cpu")
    except (RuntimeError, TypeError):
        # Any other shape is bounded by the file's size, so that memory is short and the file not at fault.
        if 0 not in entry.shape:
            raise
        raise IntegrityError(f"is damaged: tensor {name!r} has the impossible shape {list(entry.shape)}") from None
    if data:
        elements = torch.frombuffer(data, dtype=torch.uint8)
        if dtype is torch.bool and bool((elements > 1).any()):
            raise IntegrityError(f"is damaged: tensor {name!r} holds a bool that is neither 0 nor 1")
        _swap_to_little_endian(elements, dtype)
        tensor.copy_(torch.frombuffer(data, dtype=dtype).view(entry.shape))
    return tensor


def to_bytes(tensor: Tensor) -> bytearray:
    """The elements in row-major order, little-endian; a copy, so that a later change cannot part data from hash."""
    data = bytearray(tensor.numel() * tensor.element_size())
    if data:
        torch.frombuffer(data, dtype=tensor.dtype).view(tensor.shape).copy_(tensor.detach())
        elements = torch.frombuffer(data, dtype=torch.uint8)
        if tensor.dtype is torch.bool:
            elements.copy_(elements != 0)
        _swap_to_little_endian(elements, tensor.dtype)
    return data


def _swap_to_little_endian(elements: Tensor, dtype: torch.dtype) -> None:
    if sys.byteorder == "big":
        words = elements.view(-1, dtype.itemsize // (2 if dtype.is_complex else 1))
        words.copy_(words.flip(1))


def _as_json(entries: Mapping[str, _Entry]) -> dict[str, dict[str, Any]]:
    return {name: entry._asdict() for name, entry in entries.items()}


def _layout(entries: Mapping[str, _Entry]) -> list[str]:
    """Order of the tensors in the file: widest elements first, so that each is aligned to its element size."""
    return sorted(entries, key=lambda name: (-_DTYPES[entries[name].dtype].itemsize, name))


def _header(manifest: str, entries: Mapping[str, _Entry], key: bytes | None) -> bytes:
    algorithm = "sha256" if key is None else "hmac-sha256"
    fields: dict[str, Any] = {"__metadata__": {"manifest": manifest, algorithm: _seal(manifest.encode(), key)}}
    end = 0
    for name in _layout(entries):
        begin, end = end, end + entries[name].nbytes
        fields[name] = {"data_offsets": [begin, end], "dtype": entries[name].dtype, "shape": entries[name].shape}
    text = _json(fields).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return len(text).to_bytes(_PREFIX_BYTES, "little") + text


def _seal(manifest: bytes, key: bytes | None) -> str:
    return hashlib.sha256(manifest).hexdigest() if key is None else hmac.new(key, manifest, "sha256").hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _checked_options(op: str, format: str, version: Any, key: Any) -> int:
    """The version, NumPy's too, after checks of all three."""
    check_text(op, "format", format)
    number = integer(op, "version", version, 0)
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"{op}: key must be bytes or None, got {type(key).__name__}")
    if key == b"":
        raise ValueError(f"{op}: key must not be empty, got b''")
    return number


def _checked_content(op: str, tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors, those of NumPy arrays too, after all checks of a content."""
    for argument, given in (("tensors", tensors), ("metadata", metadata)):
        if not isinstance(given, Mapping):
            raise TypeError(f"{op}: {argument} must be a mapping by name, got {type(given).__name__}")
    checked = {}
    for name, given in tensors.items():
        check_text(op, "names of tensors", name)
        if name == "__metadata__":
            raise ValueError(f"{op}: names of tensors must not be reserved, got '__metadata__'")
        tensor = checked[name] = strided(op, f"tensors[{name!r}]", given)
        if tensor.dtype not in _DTYPE_NAMES:
            raise TypeError(f"{op}: tensors[{name!r}] must have a dtype of safetensors, got {tensor.dtype}")
        check_data(op, f"tensors[{name!r}]", tensor)
    _check_metadata(op, "metadata", dict(metadata), 0)
    return checked


def _check_metadata(op: str, where: str, value: Any, depth: int) -> None:
    if depth > _MAX_NESTING:
        raise ValueError(f"{op}: metadata must nest at most {_MAX_NESTING} deep, got more at {where}")
    if isinstance(value, dict):
        for name, item in value.items():
            check_text(op, f"names in {where}", name)
            _check_metadata(op, f"{where}[{name!r}]", item, depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_metadata(op, f"{where}[{index}]", item, depth + 1)
    elif isinstance(value, str):
        check_text(op, where, value)
    elif isinstance(value, int) and value.bit_length() > 1000:
        # Python writes and reads none of more than 4300 digits.
        raise ValueError(f"{op}: {where} must be below 2^1000 in absolute value, got {shown(value)}")
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{op}: {where} must be finite, got {value}")
    elif value is not None and not isinstance(value, int | float):
        raise TypeError(f"{op}: {where} must be None, bool, int, float, str, list or dict, got {type(value).__name__}")


def check_text(op: str, where: str, text: str) -> None:
    """TypeError unless the value is a str, ValueError unless UTF-8 can encode it."""
    if not isinstance(text, str):
        raise TypeError(f"{op}: {where} must be str, got {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{op}: {where} must be valid Unicode, got {text!r}") from None


def write_atomically(path: str, chunks: Iterable[bytes | bytearray], op: str = "save") -> None:
    """Writes a file whole or not at all, as `save` says."""
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    if mode is not None and not stat.S_ISREG(mode):
        raise ValueError(f"{op}: path must name a regular file, got {path}")
    parent = os.path.dirname(path)
    temporary = os.path.join(parent, f".torch_hrr-{secrets.token_hex(8)}.tmp")
    # Opened first, so that a directory which cannot be is an error while the old file is still there.
    directory = os.open(parent, os.O_RDONLY)
    try:
        try:
            with open(temporary, "xb") as file:
                # Before the data: the old file may have been readable by its owner alone.
                if mode is not None:
                    os.chmod(temporary, stat.S_IMODE(mode))
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
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


def write_json(op: str, path: str | os.PathLike[str], content: Any) -> None:
    """Writes a file of JSON, whole or not at all."""
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    write_atomically(os.path.abspath(checked_path(op, path)), [text.encode()], op)
