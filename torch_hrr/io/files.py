"""Checked files of tensors: safetensors whose content is sealed.

The `__metadata__` of a file holds one string under `torch_hrr`: ``ALGORITHM SEAL MANIFEST``. The manifest is the
canonical JSON of

    {"format", "metadata", "tensors": {name: {"dtype", "sha256", "shape"}}, "version"},

"sha256" of a tensor is over its bytes, and the seal is the hexadecimal `sha256` (SHA-256) or `hmac-sha256` (HMAC-SHA256
with the caller's key) of the manifest. Content decides, not bytes: a file is read as long as the safetensors package
finds the tensors of the manifest in it with these dtypes, shapes and bytes. So another tool may write it anew, with the
tensors in another order, other padding and further metadata, which are ignored and never returned; a tensor more, less
or changed is an `IntegrityError`. Files of before hold the manifest under `manifest`, its seal under the algorithm's
name, and are read alike.

A plain seal reveals damage; against somebody who can rewrite the file only a key helps.
"""

import contextlib
import ctypes
import mmap
import os
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from torch_hrr._checks import check_bool, checked_path, listed
from torch_hrr._compile import outside_graphs
from torch_hrr._shared import is_out_of_memory
from torch_hrr.io._contents import canonical_json, checked_content, checked_options, stated
from torch_hrr.io._contents import check_text as check_text
from torch_hrr.io._contents import digest as digest
from torch_hrr.io._contents import to_bytes as to_bytes
from torch_hrr.io._reading import SEALED, SEALS, made, opened, read, seal_of, verify_bytes
from torch_hrr.io._reading import IntegrityError as IntegrityError
from torch_hrr.io.atomic import open_regular as open_regular
from torch_hrr.io.atomic import replace_atomically
from torch_hrr.io.atomic import write_atomically as write_atomically
from torch_hrr.io.atomic import write_json as write_json
from torch_hrr.runtime.device import resolve_device

_Content: TypeAlias = tuple[dict[str, Tensor], dict[str, Any]]


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

    The safetensors package writes to a temporary file `.torch_hrr-*.tmp` in the same directory (by way of one of its
    own, `.tmp*`), which is synced and renamed over `path`; on any error up to the rename the old file stays as it was
    and the temporary one is removed. A later error (syncing the directory) is raised with the new file whole and in
    place. An existing file keeps its mode, a new one follows the umask; through a symbolic link the file it names is
    replaced. The same arguments give the same bytes, with the same version of safetensors.

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
    _save("save", path, tensors, metadata, format, version, key)


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
    """Writes the file that `save` writes, but copies nothing that lies in order on the host: for mapped tensors.

    Elements are read twice, to be hashed and to be written, and the file is verified. Errors are in the name of `op`.

    Raises:
        RuntimeError: A tensor changed during the call; nothing is written. TypeError, ValueError, OSError: As `save`.
    """
    _save(op, path, tensors, metadata, format, version, None, copied=False)


def _save(
    op: str,
    path: Any,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    format: str,
    version: int,
    key: bytes | None,
    copied: bool = True,
) -> None:
    # Not imported above: most programs save nothing.
    from safetensors import SafetensorError, TensorSpec, serialize_file

    target = os.path.realpath(checked_path(op, path))
    version = checked_options(op, format, version, key)
    tensors = checked_content(op, tensors, metadata)
    # Where bytes are swapped, they are copies.
    copied = copied or sys.byteorder == "big"
    data = {name: to_bytes(tensor) if copied else _memory(tensor) for name, tensor in tensors.items()}
    entries = {name: stated(tensor, data[name]) for name, tensor in tensors.items()}
    manifest = canonical_json({"format": format, "metadata": dict(metadata), "tensors": entries, "version": version})
    specs = {}
    for name, tensor in tensors.items():
        kind, size = str(tensor.dtype).removeprefix("torch."), len(data[name])
        # No bytes have an address, too, for the package: any but 0.
        at = torch.frombuffer(data[name], dtype=torch.uint8).data_ptr() if size else 1
        specs[name] = TensorSpec(dtype=kind, shape=list(tensor.shape), data_ptr=at, data_len=size)

    def write(temporary: str) -> None:
        try:
            serialize_file(specs, temporary, {SEALED: f"{SEALS[key is not None]} {seal_of(manifest, key)} {manifest}"})
            if not copied:
                open_mapped(temporary, format=format, version=version)
        except SafetensorError as error:
            if found := re.search(r"os error (\d+)", str(error)):
                raise OSError(int(found[1]), os.strerror(int(found[1])), target) from error
            raise ValueError(f"{op}: names and metadata must fit in the header of a file, got {error}") from error
        except IntegrityError as error:
            raise RuntimeError(f"{op}: tensors must not change while they are written: {error}") from None

    replace_atomically(target, write, op)


def _memory(tensor: Tensor) -> Any:
    """The bytes of `to_bytes`; no copy of a tensor on the host that lies in order."""
    plain = type(tensor) is Tensor and tensor.device.type == "cpu" and tensor.is_contiguous() and tensor.numel()
    if not plain or tensor.is_conj() or tensor.is_neg() or tensor.dtype is torch.bool:
        return to_bytes(tensor)
    return (ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())


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

    All content is checked on the host before anything is returned: the tensors must be those of the sealed manifest,
    each with the dtype, the shape and the SHA-256 that it states.

    Args:
        path: The file.
        format: The format it must have.
        version: The version it must have.
        key: The key it was sealed with; None for a file without one.
        device: Where the tensors go once all are checked, as for `runtime.resolve_device`.

    Returns:
        The tensors by name, contiguous and each with its own storage, and the metadata; both ordered by name.

    Raises:
        IntegrityError: Content that was changed, lost or added, another program's file, another format or version, a
            wrong or missing key, a key for a file saved without one.
        TypeError, ValueError: An argument of another type, an empty key, a path that is not a regular file.
        MemoryError: The tensors do not fit into memory.
        OSError: The file cannot be read; FileNotFoundError if there is none.

    Cost: one pass over the file; besides the tensors, the host holds the bytes of one of them at a time.
    """
    version = checked_options("load", format, version, key)
    place = resolve_device(device, op="load")
    with enough_memory(path), opened("load", path, format, version, key) as (file, manifest, parts):
        tensors = {part.name: read(file, part) for part in parts}
        return {name: tensors[name].to(place) for name in sorted(tensors)}, manifest["metadata"]


@outside_graphs
def format_of(path: str | os.PathLike[str], key: bytes | None = None, *, op: str = "format_of") -> str:
    """The format of a file that `save` wrote; its header is checked, its tensors are not. Errors as `load`, by `op`."""
    checked_options(op, "any", 0, key)
    with opened(op, path, None, 0, key) as (_, manifest, _):
        return str(manifest["format"])


@outside_graphs
def open_mapped(
    path: str | os.PathLike[str],
    *,
    format: str,
    version: int = 1,
    key: bytes | None = None,
    verify: bool = True,
    in_memory: Collection[str] = (),
    op: str = "open_mapped",
) -> _Content:
    """As `load`, but the tensors map the file: a page is read when its elements are, and writing ends the process.

    The header is always checked. With ``verify`` the bytes are too, in pieces; without it a damaged tensor goes
    unnoticed. Later changes of the file change the tensors, and if it is shortened, reading the lost part ends the
    process. Replacing it by `save` leaves the mapped file as it was. A tensor that is named in ``in_memory``, or that
    another tool did not align to its elements, is read into memory, and verified in any case.

    Raises:
        RuntimeError: The machine is big-endian, while files are little-endian.
        IntegrityError, TypeError, ValueError, OSError: As `load`.
    """
    version = checked_options(op, format, version, key)
    verify = check_bool(op, "verify", verify)
    in_memory = listed(op, "in_memory", in_memory, "names of tensors")
    if sys.byteorder == "big":
        raise RuntimeError(f"{op}: files are little-endian, and cannot be mapped on this machine")
    with opened(op, path, format, version, key) as (file, manifest, parts):
        tensors = {}
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_RANDOM"):
            # Rows are read here and there: what lies around them is not read ahead.
            pages.madvise(mmap.MADV_RANDOM)
        for part in parts:
            if part.name in in_memory or part.at % part.dtype.itemsize:
                tensors[part.name] = read(file, part)
                continue
            if verify:
                verify_bytes(file, part)
            tensors[part.name] = made(part, pages, part.at)
        if hasattr(os, "posix_fadvise"):
            # What was read to be verified is dropped: a page that is cached in a large block maps the whole block.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return {name: tensors[name] for name in sorted(tensors)}, manifest["metadata"]


@contextlib.contextmanager
def enough_memory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns what Python and torch raise where memory runs out into a MemoryError that names the file."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise MemoryError(f"load: {os.fsdecode(path)} must fit into memory, got {reason}") from error
