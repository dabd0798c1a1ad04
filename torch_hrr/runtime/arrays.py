"""NumPy's names for torch on the current device, for programs that were written against an array module.

Functions take tensors, NumPy arrays, numbers and lists; what is not a tensor becomes one on the current device. Results
are tensors. Names and meanings are NumPy's, such as ``std`` with the divisor n, and so are ``axis`` and ``keepdims``;
there are no options such as ``dtype``, ``ddof`` or ``ord``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import (
    FLOATING,
    check_bool,
    check_elements,
    check_strided,
    integer,
    number,
    placed,
    shown,
    signed,
)
from torch_hrr.runtime.device import resolve_device

Axis = int | Sequence[int] | None

_UNSIGNED = (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
_COMPLEX = (torch.complex64, torch.complex128)
_DTYPES = (*FLOATING, *_UNSIGNED, *_SIGNED, *_COMPLEX)


def get_array_module() -> ModuleType:
    """The module that arrays belong to: torch, whatever the device."""
    return torch


def _operand(op: str, argument: str, value: Any) -> Tensor:
    """A tensor as it is; anything else on the current device, numbers and lists in torch's default dtype."""
    made = value if isinstance(value, Tensor) else _made(op, argument, value)
    check_strided(op, argument, made)
    if made.dtype not in _DTYPES:
        raise TypeError(f"{op}: {argument} must be of a dtype that torch computes in, got {made.dtype}")
    return made


def _made(op: str, argument: str, value: Any) -> Tensor:
    if hasattr(value, "__array__"):
        return placed(op, argument, value, resolve_device(None))
    if type(value) is int:
        signed(op, argument, value)
    try:
        made = torch.as_tensor(value, device=resolve_device(None))
    except (TypeError, ValueError, RuntimeError):
        wanted = "a tensor, an array, a number or a list of numbers"
        raise TypeError(f"{op}: {argument} must be {wanted}, got {type(value).__name__}") from None
    return made


def _operands(op: str, a: Any, b: Any) -> tuple[Tensor, Tensor, torch.dtype]:
    """Two on one device, and the dtype of their products."""
    first, second = _operand(op, "a", a), _operand(op, "b", b)
    if first.device != second.device:
        raise RuntimeError(f"{op}: a and b must be on one device, got {first.device} and {second.device}")
    try:
        return first, second, torch.promote_types(first.dtype, second.dtype)
    except RuntimeError:
        got = f"{first.dtype} and {second.dtype}"
        raise TypeError(f"{op}: a and b must be of dtypes that torch promotes to one, got {got}") from None


def _product(op: str, product: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """In a dtype; of bools, whether any of the products that are added is true."""
    wide = torch.int64 if dtype is torch.bool else dtype
    try:
        return product(a.to(wide), b.to(wide)).to(dtype)
    except NotImplementedError:
        raise TypeError(f"{op}: a and b must be of a dtype that torch multiplies matrices in, got {dtype}") from None


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
        ValueError: A bound or high - low is not finite in torch's default dtype, or a size is negative.
    """
    op, dtype = "uniform", torch.get_default_dtype()
    largest = torch.finfo(dtype).max
    first, last = (number(op, name, bound, -largest, largest) for name, bound in (("low", low), ("high", high)))
    if abs(last - first) > largest:
        raise ValueError(f"{op}: high - low must be finite in {dtype}, got {last:g} - {first:g}")
    shape = _shape(op, tuple(size) if isinstance(size, (tuple, list)) else (size,), "size")
    drawn = torch.rand(shape, device=resolve_device(None)) * (last - first) + first
    # The sum may have been rounded to high.
    ends = torch.tensor((first, last), dtype=dtype, device=drawn.device)
    return torch.where(drawn == ends[1], torch.nextafter(ends[1], ends[0]), drawn)


def dot(a: Any, b: Any) -> Tensor:
    """The sum over the last axis of a and the last but one of b (its only one, if b is a vector).

    Operands of two dtypes are taken in the one that both promote to; as for `matmul` and `outer`.

    Raises:
        TypeError: An operand is no array of numbers, sparse, nested or quantized, or of a dtype without products.
        ValueError: Shapes do not fit.
        RuntimeError: Devices differ.
    """
    op = "dot"
    first, second, dtype = _operands(op, a, b)
    if first.dim() == 0 or second.dim() == 0:
        scaled: Tensor = first * second
        return scaled
    axis = builtins.max(second.dim() - 2, 0)
    if first.shape[-1] != second.shape[axis]:
        raise ValueError(
            f"{op}: a and b must agree in the axis that is summed, got {list(first.shape)} and {list(second.shape)}"
        )
    return _product(op, lambda x, y: torch.tensordot(x, y, dims=([-1], [axis])), first, second, dtype)


def matmul(a: Any, b: Any) -> Tensor:
    """The matrix product, over leading axes that broadcast."""
    op = "matmul"
    first, second, dtype = _operands(op, a, b)
    axis = builtins.max(second.dim() - 2, 0)
    fits = first.dim() > 0 and second.dim() > 0 and first.shape[-1] == second.shape[axis]
    try:
        torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except RuntimeError:
        fits = False
    if not fits:
        shapes = f"{list(first.shape)} and {list(second.shape)}"
        raise ValueError(f"{op}: a and b must be matrices that fit, got {shapes}")
    return _product(op, torch.matmul, first, second, dtype)


def outer(a: Any, b: Any) -> Tensor:
    """The products of all elements of a with all of b, ``[a.size, b.size]``."""
    op = "outer"
    first, second, _ = _operands(op, a, b)
    check_elements(op, "the result", (first.numel(), second.numel()))
    return torch.outer(first.flatten(), second.flatten())


def _reduced(op: str, function: Any, x: Tensor, axis: Axis, keepdims: bool, **options: Any) -> Tensor:
    """`function` over an axis, several, or all for None."""
    keepdims = check_bool(op, "keepdims", keepdims)
    several = isinstance(axis, Sequence) and not isinstance(axis, str | bytes)
    axes: Any = range(x.dim()) if axis is None else axis if several else (axis,)
    dims = [integer(op, "axis", each) for each in axes]
    for dim in dims:
        if not -x.dim() <= dim < x.dim():
            raise IndexError(f"{op}: axis must be in {-x.dim()}..{x.dim() - 1}, got {shown(dim)}")
    if len({dim % x.dim() for dim in dims}) < len(dims):
        raise ValueError(f"{op}: axis must not name an axis twice, got {dims}")
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
    made = _operand("relu", "x", x)
    if made.is_complex():
        raise TypeError(f"relu: x must be real, got {made.dtype}")
    return torch.relu(made.long() if made.dtype is torch.bool else made)
