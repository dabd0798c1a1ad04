"""The operators of the family as Python functions."""

from __future__ import annotations

import torch
from torch import Tensor

_ops = torch.ops.torch_hrr


def bind(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Circular convolution, ``c[n] = sum_m a[m] b[(n - m) mod D]``: the binding of two vectors.

    Differentiable in both arguments in every mode. Deterministic: a row's bits depend on that row, D, dtype and machine
    alone, not on the batch, its neighbours, threads or layout. A row that holds NaN or infinity gives a NaN row.
    O(D log D) for every D; one pass over memory for powers of two up to 8192.

    Args:
        a: ``[..., D]``, real floating point, D >= 1.
        b: ``[..., D]``; leading dimensions broadcast with those of ``a``, dtypes promote, as in ``torch.mul``.
        out: optional result of the right shape and dtype that shares no memory with an argument; no gradient.

    Returns:
        ``[..., D]``, or ``out``.

    Raises:
        TypeError: an argument is not float32, float64, float16 or bfloat16.
        RuntimeError: shapes do not match, D is 0, devices differ, or ``out`` does not fit.

    Source: Plate, Holographic reduced representations, IEEE Transactions on Neural Networks 6(3), 1995.
    """
    if out is None:
        return _ops.bind.default(a, b)  # type: ignore[no-any-return]
    _ops.bind.out(a, b, out=out)
    return out


def unbind(bound: Tensor, role: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Circular correlation, ``c[n] = sum_m bound[(n + m) mod D] role[m]``: the approximate inverse of ``bind``.

    ``unbind(bind(a, b), b)`` is ``a`` plus noise for random vectors, and exactly ``a`` if every Fourier magnitude of
    ``b`` is 1. The derivative of ``bind`` and itself differentiable in every mode; shapes, dtypes, determinism, cost
    and errors as for ``bind``.

    Args:
        bound: ``[..., D]``.
        role: ``[..., D]``, broadcast against ``bound``.
        out: optional result, as for ``bind``.

    Returns:
        ``[..., D]``, or ``out``.

    Source: Plate 1995, section III.
    """
    if out is None:
        return _ops.unbind.default(bound, role)  # type: ignore[no-any-return]
    _ops.unbind.out(bound, role, out=out)
    return out


def bind_normalize(a: Tensor, b: Tensor, eps: float = 1e-12, *, out: Tensor | None = None) -> Tensor:
    """``bind(a, b) / max(norm2(bind(a, b)), eps)`` in one pass over memory.

    The norm is taken on the product's spectrum, so it costs next to nothing. Rows whose squared norm leaves the range
    of the compute type are computed again from inputs scaled by exact powers of two, so neither overflow nor underflow
    spoils a result. Shapes, dtypes, determinism and errors as for ``bind``.

    Args:
        a: ``[..., D]``.
        b: ``[..., D]``, broadcast against ``a``.
        eps: smallest divisor, >= 0.
        out: optional result, as for ``bind``.

    Returns:
        ``[..., D]`` of unit rows, or ``out``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    if out is None:
        return _ops.bind_normalize.default(a, b, eps)  # type: ignore[no-any-return]
    _ops.bind_normalize.out(a, b, eps, out=out)
    return out


def superpose(
    vectors: Tensor,
    weights: Tensor | None = None,
    normalize: bool = True,
    eps: float = 1e-12,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``sum_k weights[..., k] vectors[..., k, :]``, divided by ``max(norm2, eps)`` unless ``normalize`` is false.

    The order of summation is fixed (eight vectors at a time, in the order of K), unlike that of a matrix product, whose
    bits depend on the batch and the threads. Differentiable in vectors and weights. dtypes, determinism and errors as
    for ``bind``; K may be 0 (a zero row). Cost: one pass over ``vectors``.

    Args:
        vectors: ``[..., K, D]``.
        weights: ``[..., K]``, broadcast; None means all ones.
        normalize: whether to divide by the norm.
        eps: smallest divisor, >= 0.
        out: optional result ``[..., D]``, as for ``bind``.

    Returns:
        ``[..., D]``, or ``out``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    if out is None:
        return _ops.superpose.default(vectors, weights, normalize, eps)  # type: ignore[no-any-return]
    _ops.superpose.out(vectors, weights, normalize, eps, out=out)
    return out


def bind_superpose(
    a: Tensor, b: Tensor, weights: Tensor | None = None, normalize: bool = False, eps: float = 1e-12
) -> Tensor:
    """A whole record: ``sum_k weights[..., k] bind(a[..., k, :], b[..., k, :])``, normalised if asked.

    Accumulates spectra: 2 K + 1 transforms and no ``[K, D]`` temporary. Differentiable in all three. Leading dimensions
    and K broadcast, so roles ``[K, D]`` may meet fillers ``[B, K, D]``. dtypes, determinism and errors as for ``bind``;
    K may be 0 (a zero row).

    Args:
        a: ``[..., K, D]``.
        b: ``[..., K, D]``.
        weights: ``[..., K]``, broadcast; None means all ones.
        normalize: whether to divide by ``max(norm2, eps)``.
        eps: smallest divisor, >= 0.

    Returns:
        ``[..., D]``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    return _ops.bind_superpose.default(a, b, weights, normalize, eps)  # type: ignore[no-any-return]


def random(
    n: int,
    dim: int,
    generator: torch.Generator | None = None,
    unitary: bool = False,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Random vectors: elements from N(0, 1/dim), or unitary ones, whose Fourier magnitudes are all 1.

    Drawn on the CPU and moved, so that a generator gives the same vectors on every device. A unitary vector has unit
    norm, DC = +1, and (for even ``dim``) Nyquist = +1; the other phases are uniform. ``unbind`` inverts it exactly.

    Args:
        n: number of vectors, >= 0.
        dim: their dimension, >= 1.
        generator: a CPU generator; None draws from torch's default one.
        unitary: whether to draw unitary vectors.
        device: of the result; None means ``runtime.get_device()``.
        dtype: of the result; None means torch's default dtype.

    Returns:
        ``[n, dim]``.

    Raises:
        ValueError: ``n`` is negative or ``dim`` is less than 1.
    """
    from torch_hrr.runtime import resolve_device

    if n < 0:
        raise ValueError(f"random: n must be >= 0, got {n}")
    if dim < 1:
        raise ValueError(f"random: dim must be >= 1, got {dim}")
    if unitary:
        phases = torch.rand(n, dim // 2 + 1, generator=generator, dtype=torch.float64) * (2 * torch.pi)
        phases[:, 0] = 0
        if dim % 2 == 0:
            phases[:, -1] = 0
        values: Tensor = torch.fft.irfft(torch.polar(torch.ones_like(phases), phases), n=dim)
    else:
        values = torch.randn(n, dim, generator=generator, dtype=torch.float64) / dim**0.5
    return values.to(device=resolve_device(device), dtype=dtype or torch.get_default_dtype())
