"""Vectors whose operators are those of the algebra."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import GivesPlain, check_vectors
from torch_hrr._ops import ops as _ops
from torch_hrr.hrr import functional
from torch_hrr.hrr.memory import compute_dtype


class Vector(GivesPlain, Tensor):
    """A tensor ``[..., D]`` whose operators bind and superpose; one `Vector` among the operands is enough.

        ``a * b``             ``bind(a, b)``; with a number or a tensor without dimensions the multiple
        ``~a``                the involution ``a[(-n) mod D]``, which is the approximate inverse
        ``a ** x``            ``bind_power(a, x)``, x a number or a tensor over the leading dimensions
        ``a + b``, ``a - b``  superposition, not normalised; ``-a`` and ``a / x`` are those of torch

    These are the operators of expressions of a `Vocabulary`, and give Vectors, as do ``to``, ``clone``, ``detach`` and
    the conversions of dtype and device. ``*=`` and ``**=`` write the same in place. Everything else is as for any
    tensor, elementwise where torch is (``torch.mul(a, b)``, ``a == b``), ``a @ b`` is the dot product, and gives plain
    tensors: functions, indexing, ``torch.stack``, the functions of `hrr`. Python code that means elements by ``*`` or
    ``**``, such as ``torch.distributions``, needs a plain tensor, ``a.as_subclass(torch.Tensor)``. Square brackets and
    `parse` of vocabularies, stores and structures give Vectors.

    Gradients, autocast, ``torch.compile`` (a graph ends at ``**`` and ``1 - a``), deep copies and pickles go through;
    ``torch.load`` takes one once torch_hrr is imported. ``torch.func`` hands plain tensors to the function that it
    transforms. NumPy arrays are no operands. Deterministic as the operators; each costs some microseconds more than its
    function.
    """

    # NumPy would multiply element by element where torch refuses an array.
    __array_ufunc__ = None

    def __new__(cls, vectors: Tensor) -> Self:
        """The same data and gradient with these operators.

        Args:
            vectors: ``[..., D]``, float32, float64, float16 or bfloat16, a tensor or a NumPy array.

        Raises:
            TypeError: neither a tensor nor an array of such a dtype.
            ValueError: it has no dimensions.
        """
        return check_vectors("Vector", "vectors", vectors).as_subclass(cls)

    def normalized(self) -> Vector:
        """As `hrr.normalize`: ``a / norm2(a)``; a zero row stays zero."""
        return functional.normalize(self).as_subclass(Vector)

    def unitary(self) -> Vector:
        """As `hrr.unitary`: every Fourier magnitude becomes 1, so that ``~a`` is the exact inverse."""
        return _ops.unitary.default(self).as_subclass(Vector)

    def similarity(self, other: Tensor) -> Tensor:
        """Cosines row by row, ``[...]``: leading dimensions broadcast, as ``[D]`` with ``[N, D]``.

        In the wider dtype and at least float32; a zero row has cosine 0.

        Raises:
            TypeError, ValueError, RuntimeError: ``other`` is no such tensor, of another D, or on another device.
        """
        other = check_vectors("similarity", "other", other, self.shape[-1], self.device)
        dtype = compute_dtype(torch.promote_types(self.dtype, other.dtype))
        with full_precision(self.device):
            return (functional.unit_rows(self.to(dtype)) * functional.unit_rows(other.to(dtype))).sum(-1).clamp(-1, 1)

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Replaces what the operators call; torch.compile traces it, as it would not trace methods."""
        if not all(issubclass(cls, kind) for kind in types):
            return NotImplemented
        with torch._C.DisableTorchFunctionSubclass():
            result = _OWN.get(func, func)(*args, **kwargs or {})
            # No operator has an alpha: optimizers add a decayed weight to a gradient so, and then multiply elements.
            vector = func in _GIVE_VECTORS and "alpha" not in (kwargs or ())
            # What is one already stays itself: a view of a leaf is no leaf. A complex multiple is none, nor the name
            # of a type.
            vector = vector and isinstance(result, Tensor) and not isinstance(result, Vector)
            if vector and result.is_floating_point():
                return result.as_subclass(Vector)
            return result


def _times(a: Tensor, b: Any) -> Tensor:
    if isinstance(b, Tensor) and b.dim() > 0 and a.dim() > 0:
        return _ops.bind.default(a, b)
    return torch.mul(a, b)


def _power(a: Tensor, exponent: Any) -> Tensor:
    if isinstance(exponent, Vector):
        raise TypeError("Vector: exponent must be a number or a tensor over the leading dimensions, got a Vector")
    return functional.bind_power(a, exponent)


def _no_power(exponent: Tensor, base: Any) -> Tensor:
    return _power(exponent, exponent)


def _deep_copied(vector: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(vector) in memo:
        found: Tensor = memo[id(vector)]
        return found
    if not vector.is_leaf:
        raise RuntimeError("Vector: a deep copy must be of a leaf of the graph, got a result: detach it first")
    made = copy.deepcopy(vector.detach(), memo).as_subclass(Vector).requires_grad_(vector.requires_grad)
    memo[id(vector)] = made
    # There torch.nn.Parameter marks a Vector as one of its own.
    made.__dict__.update(copy.deepcopy(vector.__dict__, memo))
    return made


_OWN: dict[Any, Callable[..., Tensor]] = {
    Tensor.mul: _times,
    Tensor.mul_: lambda a, b: a.copy_(_times(a, b)),
    Tensor.pow: _power,
    Tensor.__pow__: _power,
    Tensor.pow_: lambda a, exponent: a.copy_(_power(a, exponent)),
    Tensor.__ipow__: lambda a, exponent: a.copy_(_power(a, exponent)),
    Tensor.__rpow__: _no_power,
    Tensor.__invert__: functional.involution,
    Tensor.__deepcopy__: _deep_copied,
}
_GIVE_VECTORS = {
    Tensor.mul, Tensor.pow, Tensor.__pow__, Tensor.__invert__, Tensor.__deepcopy__, Tensor.add, Tensor.sub,
    Tensor.__rsub__, Tensor.neg, Tensor.div, Tensor.clone, Tensor.detach, Tensor.to, Tensor.cpu, Tensor.cuda,
    Tensor.float, Tensor.double, Tensor.half, Tensor.bfloat16, Tensor.type, Tensor.type_as, Tensor.contiguous,
    torch.empty_like,
}  # fmt: skip

torch.serialization.add_safe_globals([Vector])
