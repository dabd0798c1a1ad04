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


def _soft_winners(inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """``F((x - t) / temperature)`` with sum k: t by bisection, and by a step of Newton's method for its derivative."""
    if k in (0, inputs.shape[-1]):
        return torch.zeros_like(inputs) + float(k > 0) + 0 * inputs
    z = inputs / temperature
    with torch.no_grad():
        low, high = (end.unsqueeze(-1) for end in z.aminmax(dim=-1))
        low, high = low - 50, high + 50
        for _ in range(100):
            middle = low + (high - low) / 2
            above = _distribution(z - middle, surrogate).sum(-1, keepdim=True) > k
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
        y = _distribution(z - low, surrogate)
        slope = (y * (1 - y) if surrogate == "sigmoid" else torch.minimum(y, 1 - y)).sum(-1, keepdim=True)
        slope = torch.where(slope > 0, slope, torch.ones_like(slope))
    excess = _distribution(z - low, surrogate).sum(-1, keepdim=True) - k
    return _distribution(z - low - excess / slope, surrogate)


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
