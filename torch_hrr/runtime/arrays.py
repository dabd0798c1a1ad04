"""NumPy's names for torch on the current device, for programs that were written against an array module.

Functions take tensors, NumPy arrays, numbers and lists; what is not a tensor becomes one on the current device. Results
are tensors. Names and meanings are NumPy's, such as ``std`` with the divisor n, and so are ``axis`` and ``keepdims``;
there are no options such as ``dtype``, ``ddof`` or ``ord``.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_bool, check_elements, integer, number, placed
from torch_hrr.runtime.device import resolve_device

Axis = int | Sequence[int] | None


def get_array_module() -> ModuleType:
    """The module that arrays belong to: torch, whatever the device."""
    return torch


def _operand(op: str, argument: str, value: Any) -> Tensor:
    """A tensor as it is; anything else on the current device, numbers and lists in torch's default dtype."""
    if isinstance(value, Tensor):
        return value
    if hasattr(value, "__array__"):
        return placed(op, argument, value, resolve_device(None))
    try:
        made = torch.as_tensor(value, device=resolve_device(None))
    except (TypeError, ValueError, RuntimeError):
        wanted = "a tensor, an array, a number or a list of numbers"
        raise TypeError(f"{op}: {argument} must be {wanted}, got {type(value).__name__}") from None
    return made


def _floating(op: str, argument: str, value: Any) -> Tensor:
    """The same; integers in torch's default dtype."""
    made = _operand(op, argument, value)
    return made if made.is_floating_point() or made.is_complex() else made.to(torch.get_default_dtype())


def _shape(op: str, sizes: tuple[Any, ...], argument: str = "shape") -> tuple[int, ...]:
    """Of zeros(2, 3) and of zeros((2, 3))."""
    given = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    lengths = tuple(integer(op, argument, size, 0) for size in given)
    check_elements(op, argument, lengths)
    return lengths


def zeros(*shape: Any) -> Tensor:
    """Zeros of a shape, ``zeros(2, 3)`` or ``zeros((2, 3))``, on the current device in torch's default dtype."""
    return torch.zeros(_shape("zeros", shape), device=resolve_device(None))


def ones(*shape: Any) -> Tensor:
    """Ones of a shape, as `zeros`."""
    return torch.ones(_shape("ones", shape), device=resolve_device(None))


def randn(*shape: Any) -> Tensor:
    """Numbers from N(0, 1) by torch's generator of the current device, of a shape as for `zeros`."""
    return torch.randn(_shape("randn", shape), device=resolve_device(None))


def uniform(low: float = 0.0, high: float = 1.0, size: Any = ()) -> Tensor:
    """Numbers from low to high, without high, by torch's generator of the current device.

    Raises:
        TypeError: A bound is not a number, or the size not an int or a sequence of ints.
        ValueError: A bound is not finite, or a size is negative.
    """
    first, last = number("uniform", "low", low), number("uniform", "high", high)
    shape = _shape("uniform", tuple(size) if isinstance(size, (tuple, list)) else (size,), "size")
    return torch.rand(shape, device=resolve_device(None)) * (last - first) + first


def dot(a: Any, b: Any) -> Tensor:
    """The sum over the last axis of a and the last but one of b (its only one, if b is a vector)."""
    first, second = _operand("dot", "a", a), _operand("dot", "b", b)
    if first.dim() == 0 or second.dim() == 0:
        scaled: Tensor = first * second
        return scaled
    axis = builtins.max(second.dim() - 2, 0)
    if first.shape[-1] != second.shape[axis]:
        raise ValueError(
            f"dot: a and b must agree in the axis that is summed, got {list(first.shape)} and {list(second.shape)}"
        )
    product: Tensor = torch.tensordot(first, second, dims=([-1], [axis]))
    return product


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product, over leading axes that broadcast."""
    first, second = _operand("matmul", "a", a), _operand("matmul", "b", b)
    try:
        return torch.matmul(first, second)
    except RuntimeError as error:
        shapes = f"{list(first.shape)} and {list(second.shape)}"
        raise ValueError(f"matmul: a and b must be matrices that fit, got {shapes}") from error


def outer(a: Any, b: Any) -> Tensor:
    """The products of all elements of a with all of b, ``[a.size, b.size]``."""
    return torch.outer(_operand("outer", "a", a).flatten(), _operand("outer", "b", b).flatten())


def _reduced(op: str, function: Any, x: Tensor, axis: Axis, keepdims: bool, **options: Any) -> Tensor:
    """`function` over an axis, several, or all for None."""
    check_bool(op, "keepdims", keepdims)
    axes = range(x.dim()) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    dims = [integer(op, "axis", each) for each in axes]
    for dim in dims:
        if not -x.dim() <= dim < x.dim():
            raise IndexError(f"{op}: axis must be in {-x.dim()}..{x.dim() - 1}, got {dim}")
    if not dims:
        return function(x.unsqueeze(0), dim=[0], keepdim=False, **options)  # type: ignore[no-any-return]
    return function(x, dim=dims, keepdim=keepdims, **options)  # type: ignore[no-any-return]


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The sum over an axis, several, or all."""
    return _reduced("sum", torch.sum, _operand("sum", "x", x), axis, keepdims)


def mean(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean over an axis, several, or all."""
    return _reduced("mean", torch.mean, _floating("mean", "x", x), axis, keepdims)


def std(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The standard deviation over an axis, several, or all; the divisor is n, as in NumPy."""
    return _reduced("std", torch.std, _floating("std", "x", x), axis, keepdims, correction=0)


def norm(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The Euclidean norm over an axis, several, or all."""
    return _reduced("norm", torch.linalg.vector_norm, _floating("norm", "x", x), axis, keepdims)


def exp(x: Any) -> Tensor:
    """e^x."""
    return torch.exp(_floating("exp", "x", x))


def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent."""
    return torch.tanh(_floating("tanh", "x", x))


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + e^-x)."""
    return torch.sigmoid(_floating("sigmoid", "x", x))


def relu(x: Any) -> Tensor:
    """X where it is above 0, else 0."""
    return torch.relu(_operand("relu", "x", x))
