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


# Sobel's weights of the element before, the element itself and the one after.
SMOOTH, CHANGE = (1.0, 2.0, 1.0), (-1.0, 0.0, 1.0)
AXES = (-4, -3, -2)


def sobel_matrix(size: int, weights: tuple[float, float, float]) -> Tensor:
    """One row an element, with what lies outside taken from the nearest."""
    matrix = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        for offset, weight in zip((-1, 0, 1), weights, strict=True):
            matrix[i, min(max(i + offset, 0), size - 1)] += weight
    return matrix


def sobel(field: Tensor, changed: int, transposed: bool = False, absolute: bool = False) -> Tensor:
    """The products with one matrix an axis; with absolute weights, what bounds their rounding."""
    for axis in AXES:
        matrix = sobel_matrix(field.shape[axis], CHANGE if axis == changed else SMOOTH).to(field)
        matrix = matrix.mT if transposed else matrix
        matrix = matrix.abs() if absolute else matrix
        field = (matrix @ field.movedim(axis, -2)).movedim(-2, axis)
    return field


def field_gradient(field: Tensor, normalize: bool = True) -> Tensor:
    return torch.stack([sobel(field, axis) for axis in AXES], -5) / (32 if normalize else 1)


def field_gradient_scale(field: Tensor, normalize: bool = True) -> Tensor:
    bounds = [sobel(field.abs(), axis, absolute=True) for axis in AXES]
    return row_norm(torch.stack(bounds, -5)) / (32 if normalize else 1)


def field_gradient_backward(derivatives: Tensor, normalize: bool = True) -> Tensor:
    parts = zip(AXES, derivatives.unbind(-5), strict=True)
    return sum(sobel(part, axis, transposed=True) for axis, part in parts) / (32 if normalize else 1)


def field_gradient_backward_scale(derivatives: Tensor, normalize: bool = True) -> Tensor:
    parts = zip(AXES, derivatives.abs().unbind(-5), strict=True)
    total = sum(sobel(part, axis, transposed=True, absolute=True) for axis, part in parts)
    return row_norm(total) / (32 if normalize else 1)


def gradient_magnitude(field: Tensor, normalize: bool = True) -> Tensor:
    squares = field_gradient(field, normalize).square().sum(-5)
    return torch.where(squares == 0, 0.0, squares.where(squares != 0, 1.0).sqrt())


def gradient_magnitude_scale(field: Tensor, normalize: bool = True) -> Tensor:
    return field_gradient_scale(field, normalize).square().sum(-5).sqrt()


def brain_metrics(field: Tensor) -> dict[str, Tensor]:
    """What a brain reports of its field ``[D, H, W, C]``."""
    now = field.double()
    return {
        "field_information": now.flatten(0, 2).std(0, correction=0).sum(),
        "max_activation": now.abs().max(),
        "energy": now.square().mean(),
        "sparsity": (now.abs() < 0.01).double().mean(),
    }
