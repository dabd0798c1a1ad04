"""What vectors are likely to be instead, looked at once when they are given: angles, or columns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_hrr._checks import values_decide
from torch_hrr._warnings import warn

# So many rows and columns are looked at; that many numbers tell angles, and columns, from others.
_SAMPLE, _ANGLES, _NUMBERS = 64, 256, 4096
# Longer vectors would take long to look at as columns, and nobody has them.
_LONGEST = 1 << 16


def look_at(op: str, argument: str, vectors: Tensor) -> None:
    """Warns of vectors ``[D]`` or ``[N, D]`` on the CPU that look like angles, or like columns, as those of pyhdc."""
    if vectors.device.type != "cpu" or not values_decide() or not vectors.numel():
        return
    given = vectors.detach()
    rows = given[:_SAMPLE] if given.dim() == 2 else given
    if _are_angles(rows):
        warn(
            f"{op}: {argument} must hold vectors, got what looks like angles: numbers spread evenly over 2 pi; "
            "hrr.from_phases makes vectors of them",
            UserWarning,
        )
    elif given.dim() == 2 and _are_columns(rows, given):
        warn(
            f"{op}: {argument} must hold a vector in each row, got what looks like a vector in each column: those have "
            f"norms of about 1, and rows do not; then give {argument}.mT",
            UserWarning,
        )


def _are_angles(numbers: Tensor) -> bool:
    """Whether their ends, mean and deviation are those of even numbers from 0 to 2 pi, or from -pi to pi."""
    low, high = (float(each) for each in numbers.aminmax())
    # Usual vectors are done with here: some elements are negative, and none is large.
    if numbers.numel() < _ANGLES or not 6 < high - low < 6.2835:
        return False
    middle = 0 if low < 0 else math.pi
    if max(abs(low - middle), abs(high - middle)) > 3.1418:
        return False
    deviation, mean = (float(each) for each in torch.std_mean(numbers.double()))
    return abs(mean - middle) < 0.35 and abs(deviation - math.pi / math.sqrt(3)) < 0.15


def _are_columns(rows: Tensor, table: Tensor) -> bool:
    """Whether the columns are random vectors of norm 1, and there are fewer of them than elements.

    Of a wide table rows of other norms may have such columns by chance. Features of norm 1 are no such vectors: they
    are centred or positive, so that their sums are 0 or large; nor are eigenvectors, which are orthogonal.
    """
    length, count = table.shape
    if not count < length <= _LONGEST or length * min(count, _SAMPLE) < _NUMBERS or count < 2:
        return False
    if not 0 < float(torch.linalg.vector_norm(rows.float(), dim=-1).mean()) < 0.7:
        return False
    columns = table[:, :_SAMPLE].double().mT
    norms, sums = torch.linalg.vector_norm(columns, dim=-1), columns.sum(-1).abs()
    is_unit = (norms - 1).abs().amax() < 0.5 and (norms.square().mean() - 1).abs() < 5 * (2 / columns.numel()) ** 0.5
    if not (is_unit and 0.01 < float(sums.amax()) < 6):
        return False
    cosines = (columns[:8] @ columns[:8].mT).fill_diagonal_(0)
    return float(cosines.abs().amax()) > 1e-3
