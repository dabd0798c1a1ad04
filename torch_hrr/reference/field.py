"""The field operators as compositions of torch operators.

Same definitions as ``torch_hrr.field``, in the field's dtype. Noise is drawn by the operators alone.
"""

from __future__ import annotations

import torch
from torch import Tensor

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
    """``steps`` times decay and diffusion, without noise."""
    if noise != 0:
        raise NotImplementedError("reference evolve: noise must be 0")
    result = field.clone()
    for _ in range(steps if field.numel() else 0):
        result = ((1 - decay) * _step(result, diffusion, boundary, stencil)).to(field.dtype)
    return result


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
    like = derivatives.select(-5, 0)
    _, transpose = torch.func.vjp(lambda field: gradient(field, normalize), torch.zeros_like(like))  # type: ignore[misc]
    transposed: Tensor = transpose(derivatives)[0]
    return transposed


def gradient_magnitude(field: Tensor, normalize: bool = True) -> Tensor:
    """The norm of `gradient`."""
    wide = _in_compute_type(field)
    squares = gradient(wide, normalize).square().sum(-5)
    return torch.where(squares == 0, 0.0, squares.where(squares != 0, 1.0).sqrt()).to(field.dtype)
