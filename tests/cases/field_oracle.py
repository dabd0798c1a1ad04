"""Direct sums of a field's steps: products with the circulant or bordered matrix of each axis, without slices."""

from __future__ import annotations

import torch
from torch import Tensor

from cases.base import row_norm

# Weights of an element's neighbours on both sides and of the element itself, along one axis.
MEANS = {"box": (1 / 3, 1 / 3), "binomial": (1 / 4, 1 / 2)}


def axis_matrix(size: int, boundary: str, beside: float, own: float) -> Tensor:
    """One row an element: its weights over the axis, with what lies outside added where it is taken from."""
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        matrix[i, i] += own
        for j in (i - 1, i + 1):
            if 0 <= j < size:
                matrix[i, j] += beside
            elif boundary == "circular":
                matrix[i, j % size] += beside
            elif boundary == "replicate":
                matrix[i, i] += beside
    return matrix


def along(field: Tensor, axis: int, boundary: str, beside: float, own: float) -> Tensor:
    matrix = axis_matrix(field.shape[axis], boundary, beside, own).to(field)
    return (matrix @ field.movedim(axis, -2)).movedim(-2, axis)


def field_evolve(
    field: Tensor, decay, diffusion, steps=1, boundary="replicate", stencil="laplace", noise=0.0, key=None
):
    """In the field's dtype; without noise."""
    assert noise == 0 and key is None
    result = field + 0
    for _ in range(steps):
        if stencil == "laplace":
            change = sum(along(result, axis, boundary, 1.0, -2.0) for axis in (-4, -3, -2))
        else:
            mean = result
            for axis in (-4, -3, -2):
                mean = along(mean, axis, boundary, *MEANS[stencil])
            change = mean - result
        result = (1 - decay) * (result + diffusion * change)
    return result


def field_evolve_scale(field: Tensor, **options) -> Tensor:
    """Weights are not negative, so that a sum of absolute values bounds what rounding can do."""
    return row_norm(field_evolve(field.abs(), **options))
