"""Checks of the arguments of the HRR system: what is wrong is named in the caller's words, and nothing is half-done."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from torch_hrr._checks import check_floating
from torch_hrr.runtime import resolve_device


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
        shape: torch.Size = torch.broadcast_shapes(*shapes)
        return shape
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


def resolve_storage(op: str, device: torch.device | str | None) -> torch.device:
    """`runtime.resolve_device` for an object that reads its values back, and so cannot live on meta."""
    target = resolve_device(device, op=op)
    if target.type == "meta":
        raise ValueError(f"{op}: device must hold data, got meta")
    # With its index, so that the object stays where it is when the current device changes.
    return torch.empty(0, device=target).device
