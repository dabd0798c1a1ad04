"""The assembly operators as compositions of torch operators."""

from __future__ import annotations

import torch
from torch import Tensor


def k_winners(inputs: Tensor, k: int, sorted: bool = False) -> tuple[Tensor, Tensor]:
    """The k largest elements of every row, lower index first among equal ones, by a stable sort of the whole row."""
    # A signed NaN or zero sorts as any other; torch.sort puts NaN first.
    indices = torch.sort(inputs, dim=-1, descending=True, stable=True).indices[..., :k]
    if not sorted:
        indices = indices.sort(-1).values
    return inputs.gather(-1, indices), indices


def _compute(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _distribution(z: Tensor, surrogate: str) -> Tensor:
    """F of `k_cap`."""
    if surrogate == "sigmoid":
        return z.sigmoid()
    return torch.where(z < 0, z.clamp_max(0).exp() / 2, 1 - (-z.clamp_min(0)).exp() / 2)


def _density(z: Tensor, surrogate: str) -> Tensor:
    """F'."""
    return z.sigmoid() * (-z).sigmoid() if surrogate == "sigmoid" else (-z.abs()).exp() / 2


def _offsets(inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """Z = (x - t) / temperature with sum F(z) = k: t by bisection, and by a step of Newton's for its derivative."""
    z = inputs / temperature
    with torch.no_grad():
        low, high = (end.unsqueeze(-1) for end in z.aminmax(dim=-1))
        low, high = low - 50, high + 50
        for _ in range(100):
            middle = low + (high - low) / 2
            above = _distribution(z - middle, surrogate).sum(-1, keepdim=True) > k
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        slope = _density(z - low, surrogate).sum(-1, keepdim=True)
        slope = torch.where(slope > 0, slope, torch.ones_like(slope))
    excess = _distribution(z - low, surrogate).sum(-1, keepdim=True) - k
    return z - low - excess / slope


def _soft_winners(inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """``F((x - t) / temperature)`` with sum k."""
    if k in (0, inputs.shape[-1]):
        return torch.zeros_like(inputs) + float(k > 0) + 0 * inputs
    return _distribution(_offsets(inputs, k, temperature, surrogate), surrogate)


def k_cap(inputs: Tensor, k: int, temperature: float = 1.0, surrogate: str = "sigmoid", soft: bool = False) -> Tensor:
    """1 for the k largest of a row, else 0, with the gradient of the soft winners; these themselves with ``soft``."""
    if soft:
        return _soft_winners(_compute(inputs), k, temperature, surrogate).to(inputs.dtype)
    winners = inputs.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    mask = torch.zeros_like(inputs).scatter(-1, winners, 1.0)
    if surrogate == "none":
        return mask
    slope = inputs if surrogate == "ste" else _soft_winners(_compute(inputs), k, temperature, surrogate)
    return mask + (slope - slope.detach()).to(inputs.dtype)


def _k_cap_backward(grad: Tensor, inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """``F'((x - t) / temperature) / temperature * (grad - its mean weighted by F')``; of "ste" the gradient itself."""
    wide = _compute(grad)
    nothing = torch.zeros_like(grad + inputs)
    if surrogate == "ste":
        return grad + nothing
    if surrogate == "none" or k in (0, inputs.shape[-1]):
        return nothing
    density = _density(_offsets(_compute(inputs), k, temperature, surrogate), surrogate)
    total = density.sum(-1, keepdim=True)
    mean = (density * wide).sum(-1, keepdim=True) / torch.where(total > 0, total, torch.ones_like(total))
    return (density / temperature * (wide - mean)).to(nothing.dtype)
