"""The field operators as compositions of torch operators.

Same definitions as ``torch_hrr.field``. Numbers of noise are within rounding of the operators'.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_hrr._plain.random import normals

WEIGHTS = {"box": (1 / 3, 1 / 3), "binomial": (1 / 4, 1 / 2)}
"""Of a mean along one axis: those of the two neighbours, and that of the element itself."""


def _neighbours(field: Tensor, axis: int, boundary: str) -> tuple[Tensor, Tensor]:
    """The elements one place before and after."""
    if boundary == "circular":
        return field.roll(1, axis), field.roll(-1, axis)
    # Gathered, since torch.compile fuses that with the sums, and makes a tensor of every concatenation.
    size = field.shape[axis]
    places = torch.arange(size, device=field.device)
    before = field.index_select(axis, (places - 1).clamp(min=0))
    after = field.index_select(axis, (places + 1).clamp(max=size - 1))
    if boundary == "zeros":
        shape = [1] * field.dim()
        shape[axis] = size
        before = torch.where((places > 0).view(shape), before, 0.0)
        after = torch.where((places < size - 1).view(shape), after, 0.0)
    return before, after


def _step(field: Tensor, diffusion: float | Tensor, boundary: str, stencil: str) -> Tensor:
    axes = (-2, -3, -4)
    if stencil == "laplace":
        total = sum(sum(_neighbours(field, axis, boundary)) for axis in axes)
        return field + diffusion * (total - 6 * field)
    beside, own = WEIGHTS[stencil]
    mean = field
    for axis in axes:
        before, after = _neighbours(mean, axis, boundary)
        mean = beside * (before + after) + own * mean
    return field + diffusion * (mean - field)


def evolve(
    field: Tensor,
    decay: float | Tensor,
    diffusion: float | Tensor,
    steps: int = 1,
    boundary: str = "replicate",
    stencil: str = "laplace",
    noise: float = 0.0,
    key: Tensor | None = None,
) -> Tensor:
    """``steps`` times decay, diffusion and noise; a key is read on the host where there is noise."""
    result = field.clone()
    seed, first = _numbers(key, noise)
    for _ in range(steps if field.numel() else 0):
        stepped = (1 - decay) * _step(_in_compute_type(result), diffusion, boundary, stencil)
        if noise:
            stepped = stepped + noise * _noise(seed, first, field.shape, 0, field.shape[-4], field.device)
            first += -(-field.numel() // 4)
        result = stepped.to(field.dtype)
    return result


def evolve_part(
    field: Tensor,
    decay: float,
    diffusion: float,
    origin: int,
    depth: int,
    boundary: str = "replicate",
    stencil: str = "laplace",
    noise: float = 0.0,
    key: Tensor | None = None,
) -> Tensor:
    """A step of planes `origin` on of a field of `depth` planes, given between their neighbours, which stay."""
    result = field.clone()
    if not field.numel():
        return result
    stepped = (1 - decay) * _step(_in_compute_type(field), diffusion, boundary, stencil)
    inner = stepped[..., 1:-1, :, :, :]
    if noise:
        inner = inner + noise * _noise(*_numbers(key, noise), inner.shape, origin, depth, field.device)
    result[..., 1:-1, :, :, :] = inner.to(field.dtype)
    return result


def _numbers(key: Tensor | None, noise: float) -> tuple[int, int]:
    """Seed and first block of a key."""
    if key is None or not noise:
        return 0, 0
    seed, first = key.tolist()
    return seed % 2**64, first % 2**64


def _noise(seed: int, first: int, shape: torch.Size, origin: int, depth: int, device: torch.device) -> Tensor:
    """N(0, 1) of planes `origin` on: element i of the whole ``[..., C, depth, H, W]`` has number i of the key."""
    *batch, planes, height, width, channels = shape
    leading = math.prod(batch)
    rows = torch.arange(leading * channels, device=device).reshape(leading, 1, 1, 1, channels) * depth
    places = (rows + torch.arange(origin, origin + planes, device=device).reshape(-1, 1, 1, 1)) * (height * width)
    places = places + torch.arange(height * width, device=device).reshape(height, width, 1)
    return normals(seed, first, places).reshape(shape)


def _in_compute_type(field: Tensor) -> Tensor:
    return field if field.dtype == torch.float64 else field.float()


def moments(field: Tensor, small: float) -> Tensor:
    """Of ``[..., places, channels]``, by blocks of 64 places: mean, sum of squared deviations, largest, count of small.

    ``[..., blocks, 4, channels]``, in float32 for half types; the last two are of absolute values.
    """
    wide = _in_compute_type(field)
    blocks = []
    for first in range(0, field.shape[-2], 64):
        block = wide[..., first : first + 64, :]
        mean = block.sum(-2, keepdim=True) / block.shape[-2]
        size = block.abs()
        squares = (block - mean).square().sum(-2)
        blocks.append(torch.stack((mean.squeeze(-2), squares, size.amax(-2), (size < small).sum(-2)), -2))
    if not blocks:
        return wide.new_zeros((*field.shape[:-2], 0, 4, field.shape[-1]))
    return torch.stack(blocks, -3)


def metrics(rows: Tensor, small: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of ``[places, channels]``: standard deviation summed over channels, largest, mean square and share of small."""
    wide = _in_compute_type(rows)
    size = wide.abs()
    mean = wide.sum(0) / len(wide)
    variance = (wide - mean).square_().sum(0) / len(wide)
    energy = (variance + mean * mean).mean()
    return variance.sqrt().sum(), size.amax(), energy, (size < small).sum() / rows.numel()


def gradient(field: Tensor, normalize: bool = True) -> Tensor:
    """Sobel's derivatives by depth, height and width, ``[..., 3, D, H, W, C]``."""
    if not field.numel():
        return field.new_zeros((*field.shape[:-4], 3, *field.shape[-4:]))
    wide = _in_compute_type(field)
    along = []
    for axis in (-4, -3, -2):
        before, after = _neighbours(wide, axis, "replicate")
        derivative = after - before
        for other in {-4, -3, -2} - {axis}:
            before, after = _neighbours(derivative, other, "replicate")
            derivative = before + 2 * derivative + after
        along.append(derivative / 32 if normalize else derivative)
    return torch.stack(along, -5).to(field.dtype)


def gradient_backward(derivatives: Tensor, normalize: bool = True) -> Tensor:
    """The transposed `gradient`."""
    if not derivatives.numel():
        return torch.zeros_like(derivatives.select(-5, 0))
    total = torch.zeros_like(_in_compute_type(derivatives.select(-5, 0)))
    for axis, along in zip((-4, -3, -2), _in_compute_type(derivatives).unbind(-5), strict=True):
        # Sums over neighbours are symmetric. The transposed difference is its negative but at the ends.
        before, after = _neighbours(along, axis, "zeros")
        change = before - after
        change.select(axis, 0).sub_(along.select(axis, 0))
        change.select(axis, -1).add_(along.select(axis, -1))
        for other in {-4, -3, -2} - {axis}:
            before, after = _neighbours(change, other, "replicate")
            change = before + 2 * change + after
        total = total + change
    return (total / 32 if normalize else total).to(derivatives.dtype)


def gradient_magnitude(field: Tensor, normalize: bool = True) -> Tensor:
    """The norm of `gradient`."""
    wide = _in_compute_type(field)
    squares = gradient(wide, normalize).square().sum(-5)
    return torch.where(squares == 0, 0.0, squares.where(squares != 0, 1.0).sqrt()).to(field.dtype)
