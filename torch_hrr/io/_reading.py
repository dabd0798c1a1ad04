"""Reading of checked files: the seal, the tensors of the manifest, and their bytes."""

import contextlib
import hashlib
import hmac
import io
import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_hrr.io._contents import DTYPES, canonical_json, swap_to_little_endian
from torch_hrr.io.atomic import open_regular

# Where seal and manifest are in a file's metadata: one entry, since the package writes several in a random order.
SEALED = "torch_hrr"
SEALS = ("sha256", "hmac-sha256")
# How a file of `hrr.Memory` begins.
_SQLITE = b"SQLite format 3\0"
# What is hashed at once where a whole tensor may be too much.
_PIECE = 1 << 20


class IntegrityError(RuntimeError):
    """A saved file is damaged, was written by something else, or does not fit the key; or stored memory was changed."""

    __module__ = "torch_hrr.io"


class Part(NamedTuple):
    """A tensor of a file: what it is, and where its bytes are."""

    name: str
    dtype: torch.dtype
    shape: list[int]
    sha256: Any
    at: int

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@contextlib.contextmanager
def opened(
    op: str, path: str | os.PathLike[str], format: str | None, version: int, key: bytes | None
) -> Iterator[tuple[io.BufferedReader, dict[str, Any], list[Part]]]:
    """The file, its manifest, whose seal is right, and its tensors, which are those of the manifest but for bytes.

    Raises IntegrityError in the name of `op` and of the file, also for one that the body raises.
    """
    from safetensors import SafetensorError, safe_open

    with open_regular(op, path) as file:
        try:
            # The file that was opened, whatever its name means by now. The package reads the header and proves that the
            # tensors fill the rest of the file without a gap.
            with safe_open(f"/dev/fd/{file.fileno()}", "pt", backend="pread") as header:
                manifest = _manifest(header.metadata() or {}, key)
                if format is not None and (manifest["format"] != format or manifest["version"] != version):
                    found = f"version {manifest['version']} of {manifest['format']!r}"
                    raise IntegrityError(f"must hold version {version} of {format!r}, got {found}")
                parts = _parts(header, 8 + int.from_bytes(file.read(8), "little"), manifest["tensors"])
            yield file, manifest, parts
        except SafetensorError as error:
            file.seek(0)
            if file.read(len(_SQLITE)) == _SQLITE:
                why = "is an SQLite database: hrr.Memory(path) opens one of its own"
            else:
                why = "is no safetensors file, or damaged or cut short: "
                why += str(error).removeprefix("Error while deserializing header: ")
            raise IntegrityError(f"{op}: {os.fsdecode(path)} {why}") from None
        except IntegrityError as error:
            raise IntegrityError(f"{op}: {os.fsdecode(path)} {error}") from None


def _manifest(fields: Mapping[str, str], key: bytes | None) -> dict[str, Any]:
    """The manifest, which is not parsed before its seal is verified."""
    if SEALED in fields:
        algorithm, seal, text = [*fields[SEALED].split(" ", 2), "", ""][:3]
    else:
        algorithm = next((name for name in reversed(SEALS) if name in fields), "")
        seal, text = fields.get(algorithm, ""), fields.get("manifest", "")
    if algorithm not in SEALS or not text:
        raise IntegrityError("is damaged or was not written by torch_hrr: it has no sealed manifest")
    if algorithm != SEALS[key is not None]:
        state, given = ("is", "none") if key is None else ("is not", "one")
        raise IntegrityError(f"{state} sealed with a key, but {given} was given")
    if not hmac.compare_digest(seal.encode(), seal_of(text, key).encode()):
        raise IntegrityError(f"is damaged{'' if key is None else ' or has another key'}: its seal does not match")
    try:
        manifest = json.loads(text)
        canonical = canonical_json(manifest) == text
    except (ValueError, RecursionError):
        canonical = False
    kinds = {"format": str, "metadata": dict, "tensors": dict, "version": int}
    if not canonical or not isinstance(manifest, dict) or {name: type(manifest[name]) for name in manifest} != kinds:
        raise IntegrityError("is damaged: its manifest is not a canonical one")
    return manifest


def _parts(header: Any, at: int, stated: dict[str, Any]) -> list[Part]:
    """The tensors in the order of their bytes, the first of which is at `at`: there are no gaps between them."""
    parts = []
    for name in header.offset_keys():
        found, entry = header.get_slice(name), stated.get(name)
        dtype, shape = found.get_dtype(), found.get_shape()
        sha256 = entry.get("sha256") if isinstance(entry, dict) else None
        if dtype not in DTYPES or entry != {"dtype": dtype, "sha256": sha256, "shape": shape}:
            raise IntegrityError(f"is damaged: its tensor {name!r} is not the one of its manifest")
        parts.append(Part(name, DTYPES[dtype], shape, sha256, at))
        at += parts[-1].nbytes
    if len(parts) < len(stated):
        raise IntegrityError("is damaged: it lacks tensors of its manifest")
    return parts


def read(file: io.BufferedReader, part: Part) -> Tensor:
    # Not by the package: it makes empty tensors on the caller's default device, cannot swap bytes, and calls a failing
    # disk damage.
    data = bytearray(part.nbytes)
    file.seek(part.at)
    file.readinto(data)
    _compare(part, hashlib.sha256(data))
    if data:
        elements = torch.frombuffer(data, dtype=torch.uint8)
        if part.dtype is torch.bool and bool((elements > 1).any()):
            raise IntegrityError(f"is damaged: tensor {part.name!r} holds a bool that is neither 0 nor 1")
        swap_to_little_endian(elements, part.dtype)
    # A copy, in memory that is aligned as that of other tensors.
    return made(part, data, 0).clone()


def verify_bytes(file: io.BufferedReader, part: Part) -> None:
    """Compares the bytes with their hash, with memory for a piece of them."""
    hashed = hashlib.sha256()
    file.seek(part.at)
    for start in range(0, part.nbytes, _PIECE):
        hashed.update(file.read(min(part.nbytes - start, _PIECE)))
    _compare(part, hashed)


def _compare(part: Part, hashed: Any) -> None:
    if hashed.hexdigest() != part.sha256:
        raise IntegrityError(f"is damaged: the bytes of tensor {part.name!r} do not match their SHA-256")


def made(part: Part, buffer: Any, at: int) -> Tensor:
    """The tensor of bytes in a buffer."""
    if not part.nbytes:
        try:
            return torch.empty(part.shape, dtype=part.dtype, device="cpu")
        except (RuntimeError, TypeError):
            raise IntegrityError(f"is damaged: no tensor has the shape {part.shape} of {part.name!r}") from None
    with warnings.catch_warnings():
        # That mapped pages may not be written is meant.
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        flat = torch.frombuffer(buffer, dtype=part.dtype, count=math.prod(part.shape), offset=at)
    return flat.view(part.shape)


def seal_of(manifest: str, key: bytes | None) -> str:
    text = manifest.encode()
    return hashlib.sha256(text).hexdigest() if key is None else hmac.new(key, text, "sha256").hexdigest()
