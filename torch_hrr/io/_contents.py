"""What may be saved, and the bytes of it: checked tensors and plain values."""

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_data, integer, shown, strided
from torch_hrr._compile import outside_graphs

DTYPES = {
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
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
# Far below the interpreter's recursion limit, so that whatever was saved can be read at any depth of the stack.
_MAX_NESTING = 32


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
    tensors = checked_content("digest", tensors, metadata)
    entries = {name: stated(tensor, to_bytes(tensor)) for name, tensor in tensors.items()}
    return hashlib.sha256(canonical_json({"metadata": dict(metadata), "tensors": entries}).encode()).hexdigest()


def to_bytes(tensor: Tensor) -> bytearray:
    """The elements in row-major order, little-endian; a copy, so that a later change cannot part data from hash."""
    data = bytearray(tensor.numel() * tensor.element_size())
    if data:
        torch.frombuffer(data, dtype=tensor.dtype).view(tensor.shape).copy_(tensor.detach())
        elements = torch.frombuffer(data, dtype=torch.uint8)
        if tensor.dtype is torch.bool:
            elements.copy_(elements != 0)
        swap_to_little_endian(elements, tensor.dtype)
    return data


def swap_to_little_endian(elements: Tensor, dtype: torch.dtype) -> None:
    if sys.byteorder == "big":
        words = elements.view(-1, dtype.itemsize // (2 if dtype.is_complex else 1))
        words.copy_(words.flip(1))


def stated(tensor: Tensor, data: Any) -> dict[str, Any]:
    """What a manifest says of a tensor with these bytes."""
    sha256 = hashlib.sha256(data).hexdigest()
    return {"dtype": _NAMES[tensor.dtype], "sha256": sha256, "shape": list(tensor.shape)}


def canonical_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def checked_options(op: str, format: str, version: Any, key: Any) -> int:
    """The version, NumPy's too, after checks of all three."""
    check_text(op, "format", format)
    number = integer(op, "version", version, 0)
    if key is not None and not isinstance(key, bytes):
        raise TypeError(f"{op}: key must be bytes or None, got {type(key).__name__}")
    if key == b"":
        raise ValueError(f"{op}: key must not be empty, got b''")
    return number


def checked_content(op: str, tensors: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Tensor]:
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
        if hasattr(tensor, "placements"):
            text = f"{op}: tensors[{name!r}] must be on one rank, got a DTensor: give its full_tensor(), or"
            raise TypeError(f"{text} write it with torch.distributed.checkpoint")
        if tensor.dtype not in _NAMES:
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
