"""Checks of arguments before any work: what is wrong is named in the caller's words, and nothing is half-done."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_hrr.runtime import resolve_device

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""The dtypes that the operators take."""


def check_floating(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the tensor is strided and of a dtype that the operators take."""
    check_strided(op, argument, tensor)
    if tensor.dtype not in FLOATING:
        raise TypeError(f"{op}: {argument} must be float32, float64, float16 or bfloat16, got {tensor.dtype}")


def check_strided(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the value is a strided tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}: {argument} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(f"{op}: {argument} must be strided, got {tensor.layout}, nested={tensor.is_nested}")


def check_vectors(
    op: str, argument: str, value: Tensor, dim: int | None = None, device: torch.device | None = None, rank: int = 1
) -> None:
    """Checks that `value` is a tensor of vectors.

    Args:
        op: Name of the caller, for the error's text.
        argument: Name of the argument.
        value: What was given for it.
        dim: The last dimension it must have; None for any.
        device: Where it must be; None for anywhere.
        rank: The least number of dimensions.

    Raises:
        TypeError: Not a strided tensor of float32, float64, float16 or bfloat16.
        RuntimeError: Too few dimensions, another last dimension or another device.
    """
    check_floating(op, argument, value)
    if value.dim() < rank:
        raise RuntimeError(f"{op}: {argument} must have at least {rank} dimensions, got shape {list(value.shape)}")
    if dim is not None and value.shape[-1] != dim:
        raise RuntimeError(f"{op}: {argument} must have the last dimension {dim}, got shape {list(value.shape)}")
    if device is not None and value.device != device:
        raise RuntimeError(f"{op}: {argument} must be on {device}, got {value.device}")


def check_broadcast(op: str, arguments: str, *shapes: torch.Size) -> torch.Size:
    """The shape that leading dimensions broadcast to.

    Raises:
        RuntimeError: They do not broadcast; the text names the `arguments`, as "a and b".
    """
    try:
        return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call, no-any-return]
    except RuntimeError:
        got = " and ".join(str(list(shape)) for shape in shapes)
        raise RuntimeError(f"{op}: {arguments} must have leading dimensions that broadcast, got {got}") from None


def check_vector(op: str, argument: str, vectors: Tensor, shape: tuple[int, ...]) -> None:
    """Raises TypeError as `check_floating`, and ValueError unless the tensor has the shape and holds data."""
    check_floating(op, argument, vectors)
    if vectors.shape != shape:
        raise ValueError(f"{op}: {argument} must have shape {list(shape)}, got {list(vectors.shape)}")
    check_data(op, argument, vectors)


def check_data(op: str, argument: str, tensor: Tensor) -> None:
    """Raises ValueError for a meta tensor, which has no values to copy."""
    if tensor.is_meta:
        raise ValueError(f"{op}: {argument} must hold data, got a meta tensor")


def check_finite(op: str, argument: str, vectors: Tensor) -> None:
    """Raises ValueError if a value is NaN or infinite; waits for the device."""
    if not bool(vectors.isfinite().all()):
        raise ValueError(f"{op}: {argument} must be finite in {vectors.dtype}, got NaN or infinity")


def check_bool(op: str, argument: str, value: bool) -> None:
    """Raises TypeError unless the value is True or False, which the words "no" and "False" are not."""
    if not isinstance(value, bool):
        raise TypeError(f"{op}: {argument} must be a bool, got {type(value).__name__}")


def check_int(op: str, argument: str, value: int, least: int | None = None) -> None:
    """Raises TypeError unless the value is an int and no bool, and ValueError below `least`, if given, or from 2^63.

    A size that a tracer holds counts as an int.
    """
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
        raise TypeError(f"{op}: {argument} must be an int, got {type(value).__name__}")
    if least is not None and value < least:
        raise ValueError(f"{op}: {argument} must be >= {least}, got {value}")
    if least is not None and value >= 2**63:
        raise ValueError(f"{op}: {argument} must be below 2^63, got {value}")


def check_seed(op: str, seed: int) -> int:
    """The seed as the signed 64-bit integer of the same bits, which stands for it modulo 2^64.

    Raises:
        TypeError: It is not an int.
        ValueError: It is outside -2^63 to 2^64 - 1.
    """
    check_int(op, "seed", seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"{op}: seed must be -2^63 to 2^64 - 1, got {seed}")
    return seed if seed < 2**63 else seed - 2**64


def check_generator(op: str, generator: torch.Generator | None) -> None:
    """Raises TypeError unless the value is a generator or None, ValueError unless it draws on the CPU."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"{op}: generator must be a torch.Generator or None, got {type(generator).__name__}")
    if generator.device.type != "cpu":
        raise ValueError(f"{op}: generator must be one of the CPU, got one of {generator.device}")


def check_names(op: str, names: Sequence[str], *, different: bool = True) -> tuple[str, ...]:
    """The names of a sequence; of a set, say, they would come in another order in every process.

    Raises:
        TypeError: Not a sequence of str, or one str.
        ValueError: A name is given twice, unless they need not be `different`.
    """
    several = isinstance(names, Sequence) and not isinstance(names, str)
    if not several or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{op}: names must be a sequence of str, got {names!r:.80}")
    if different and len(set(names)) < len(names):
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{op}: names must be different, got {repeated!r} twice")
    return tuple(names)


def check_dtype(op: str, dtype: torch.dtype) -> None:
    """Raises TypeError unless the operators take the dtype."""
    # By type first: an array among the values compared would give an array.
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATING:
        raise TypeError(f"{op}: dtype must be float32, float64, float16 or bfloat16, got {dtype!r:.80}")


def resolve_dtype(op: str, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype, torch's default one for None; TypeError unless the operators take it."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    check_dtype(op, dtype)
    return dtype


def resolve_storage(op: str, device: torch.device | str | None) -> torch.device:
    """`runtime.resolve_device` for an object that reads its values back, and so cannot live on meta."""
    target = resolve_device(device)
    if target.type == "meta":
        raise ValueError(f"{op}: device must hold data, got meta")
    # With its index, so that the object stays where it is when the current device changes.
    return torch.empty(0, device=target).device
