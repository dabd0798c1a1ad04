"""The HRR operators as direct sums: the definitions that the tests trust.

Everything is index arithmetic, products and sums, differentiable in every mode; nothing is shared with the library and
no FFT is used. Normalisations assume rows in float64's range.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Up to here the circulant matrix is made whole; longer rows add a term at a time.
LONGEST_MATRIX = 64


def circulant_sum(x: Tensor, y: Tensor, sign: int) -> Tensor:
    """c[n] = sum_m x[m] y[(n + sign m) mod D]."""
    dim = x.shape[-1]
    m = torch.arange(dim)
    if dim <= LONGEST_MATRIX:
        n = m.unsqueeze(-1)
        return (x.unsqueeze(-2) * y[..., (n + sign * m) % dim]).sum(-1)
    shifts = torch.cat([y, y], -1).unfold(-1, dim, 1).unbind(-2)
    total = torch.zeros_like(x * y)
    for m, term in enumerate(x.unsqueeze(-1).unbind(-2)):
        total = torch.addcmul(total, term, shifts[sign * m % dim])
    return total


def convolve(a: Tensor, b: Tensor) -> Tensor:
    """c[n] = sum_m a[m] b[(n - m) mod D]."""
    return circulant_sum(a, b, -1)


def correlate(bound: Tensor, role: Tensor) -> Tensor:
    """c[n] = sum_m bound[(n + m) mod D] role[m]."""
    return circulant_sum(role, bound, +1)


def norm(s: Tensor) -> Tensor:
    return s.square().sum(-1, keepdim=True).sqrt()


def normalize(s: Tensor, eps: float) -> Tensor:
    """s / max(norm2(s), eps)."""
    return s / norm(s).clamp_min(eps)


def superpose(vectors: Tensor, weights: Tensor | None, normalized: bool, eps: float) -> Tensor:
    total = (vectors if weights is None else vectors * weights.unsqueeze(-1)).sum(-2)
    return normalize(total, eps) if normalized else total


def bind_superpose(a: Tensor, b: Tensor, weights: Tensor | None, normalized: bool, eps: float) -> Tensor:
    return superpose(convolve(a, b), weights, normalized, eps)


def common(*gradients: Tensor) -> tuple[Tensor, ...]:
    """The gradients before anybody sums over broadcast dimensions."""
    return torch.broadcast_tensors(*gradients)


def bind_backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    """dL/da[m] = sum_n grad[n] b[(n - m) mod D], and the same with a for dL/db."""
    return common(correlate(grad, b), correlate(grad, a))


def unbind_backward(grad: Tensor, bound: Tensor, role: Tensor) -> tuple[Tensor, ...]:
    """dL/dbound[j] = sum_m grad[(j - m) mod D] role[m]; dL/drole[m] = sum_n grad[n] bound[(n + m) mod D]."""
    return common(convolve(grad, role), correlate(bound, grad))


def bind_normalize_backward(grad: Tensor, a: Tensor, b: Tensor, eps: float) -> tuple[Tensor, ...]:
    """bind's gradients at (grad - y (y . grad)) / norm2(c), with y = c / norm2(c), or at grad / eps below eps."""
    c = convolve(a, b)
    size = norm(c)
    inside = ~(size <= eps)
    size = torch.where(inside, size, torch.ones_like(size))
    y = c / size
    upstream = torch.where(inside, (grad - y * (y * grad).sum(-1, keepdim=True)) / size, grad / eps)
    return bind_backward(upstream, a, b)


def bind_normalize_backward_scale(grad: Tensor, a: Tensor, b: Tensor, eps: float) -> tuple[Tensor, ...]:
    """The norm of bind's gradients at grad / max(norm2(c), eps): the projection may cancel all of it."""
    upstream = grad / norm(convolve(a, b)).clamp_min(eps)
    grads = bind_backward(upstream, a, b)
    return tuple(norm(g) for g in grads)
