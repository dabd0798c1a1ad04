"""The private operators of inverse, unitary and bind_power by torch.fft: the yardstick of half precision."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_hrr.reference import hrr as reference

# Of the bins of a, with 1 where they are empty, to the factors of V or to the result.
Map = Callable[[Tensor], Tensor]


def map_bins(function: Map, a: Tensor, v: Tensor | None = None, exponent: Tensor | None = None) -> Tensor:
    """irfft(function(rfft(a)) rfft(v)), 0 where a bin of a is empty, real at DC and Nyquist."""
    dtype, dim = a.dtype, a.shape[-1]
    leading = [a.shape[:-1]]
    for other, own in ((v, 1), (exponent, 0)):
        if other is not None:
            leading.append(other.shape[: other.dim() - own])
            dtype = torch.promote_types(dtype, other.dtype) if other.dim() else dtype
    sizes = (*torch.broadcast_shapes(*leading), dim)
    if 0 in sizes:
        return torch.zeros(sizes, dtype=dtype)
    spectrum, empty = reference._spectrum(a)
    bins = function(torch.where(empty, torch.ones_like(spectrum), spectrum))
    if v is not None:
        bins = bins * torch.fft.rfft(reference._compute(v))
    return finish(torch.where(empty, torch.zeros_like(bins), bins), dim).to(dtype)


def finish(bins: Tensor, dim: int) -> Tensor:
    bins[..., 0] = bins[..., 0].real.to(bins.dtype)
    if dim % 2 == 0:
        bins[..., -1] = bins[..., -1].real.to(bins.dtype)
    return torch.fft.irfft(bins, n=dim)


def power(spectrum: Tensor) -> Tensor:
    return spectrum.real.square() + spectrum.imag.square()


def cut_inverse(a: Tensor, eps: float) -> Tensor:
    return map_bins(lambda bins: torch.where(power(bins) > eps, 1 / bins, 0), a)


def inverse_backward(grad: Tensor, a: Tensor, eps: float) -> Tensor:
    regular = map_bins(lambda bins: torch.where(power(bins) > eps, -1 / bins.conj().square(), 0), a, grad)
    if eps == 0:
        return regular
    reversed_grad = torch.roll(grad.flip(-1), 1, -1)
    clamped = map_bins(lambda bins: torch.where(power(bins) > eps, 0, torch.full_like(bins, 1 / eps)), a, reversed_grad)
    return regular + clamped


def unitary_jacobian(v: Tensor, a: Tensor) -> Tensor:
    """i y Im(V conj(y)) / |A| = (V - y^2 conj(V)) / 2 |A|"""
    direct = map_bins(lambda bins: (0.5 / bins.abs()).to(bins.dtype), a, v)
    reversed_v = torch.roll(v.flip(-1), 1, -1)
    return direct - map_bins(lambda bins: 0.5 * bins.sgn().square() / bins.abs(), a, reversed_v)


def bind_power_log(a: Tensor, exponent: Tensor, order: int) -> Tensor:
    rows = reference._compute(exponent).unsqueeze(-1)
    return map_bins(lambda bins: (rows * bins.log()).exp() * bins.log() ** order, a, exponent=exponent)


def bind_power_backward(grad: Tensor, a: Tensor, exponent: Tensor) -> Tensor:
    rows = reference._compute(exponent).unsqueeze(-1)
    return map_bins(lambda bins: rows * ((rows - 1) * bins.log()).exp().conj(), a, grad, exponent)
