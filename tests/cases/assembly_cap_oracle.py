"""The k-cap from its definition in differentiable ATen operators; the threshold by bisection in the given dtype."""

import torch
from torch import Tensor


def distribution(z: Tensor, surrogate: str) -> Tensor:
    if surrogate == "sigmoid":
        return torch.where(z < 0, z.clamp_max(0).exp(), 1.0) / (1 + (-z.abs()).exp())
    return torch.where(z < 0, z.clamp_max(0).exp() / 2, 1 - (-z.clamp_min(0)).exp() / 2)


def density(z: Tensor, surrogate: str) -> Tensor:
    decay = (-z.abs()).exp()
    return decay / (1 + decay).square() if surrogate == "sigmoid" else decay / 2


def excess(z: Tensor, k: int, surrogate: str) -> Tensor:
    """sum F(z) - k, from the smaller of the two sides."""
    n = z.shape[-1]
    if 2 * k <= n:
        return distribution(z, surrogate).sum(-1, keepdim=True) - k
    return n - k - distribution(-z, surrogate).sum(-1, keepdim=True)


def offsets(inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """(x - t) / temperature, with t as a differentiable function of the inputs; 0 < k < n."""
    # Relative to the k-th largest, or large inputs would leave t no digits.
    center = inputs.detach().nan_to_num().sort(-1, descending=True).values[..., k - 1 : k]
    z = (inputs - center) / temperature
    with torch.no_grad():
        low = z.nan_to_num().amin(-1, keepdim=True) - 60
        high = z.nan_to_num().amax(-1, keepdim=True) + 60
        for _ in range(200):
            middle = low + (high - low) / 2
            if ((middle == low) | (middle == high)).all():
                break
            above = excess(z - middle, k, surrogate) > 0
            low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    # Newton's steps do not move t, but give it its derivatives: the second one all up to the third.
    t = low
    for _ in range(2):
        slope = density(z - t, surrogate).sum(-1, keepdim=True)
        step = excess(z - t, k, surrogate) / torch.where(slope > 1e-30, slope, 1.0)
        t = t + torch.where(slope > 1e-30, step, 0.0)
    return z - t


def k_cap(inputs: Tensor, k: int, temperature: float, surrogate: str, soft: bool) -> Tensor:
    if soft:
        if k in (0, inputs.shape[-1]):
            return 0 * inputs + (k > 0)
        return distribution(offsets(inputs, k, temperature, surrogate), surrogate)
    order = inputs.sort(dim=-1, descending=True, stable=True).indices
    return torch.zeros_like(inputs).scatter(-1, order[..., :k], 1.0)


def k_cap_backward(grad: Tensor, inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    if surrogate == "none" or k in (0, inputs.shape[-1]):
        return 0 * grad + (0 * inputs if surrogate != "none" else torch.zeros_like(inputs))
    if surrogate == "ste":
        return grad + torch.zeros_like(inputs)
    d = density(offsets(inputs, k, temperature, surrogate), surrogate)
    mean = (d * grad).sum(-1, keepdim=True) / d.sum(-1, keepdim=True)
    return d / temperature * (grad - mean)
