"""Ridge regression from a Gram matrix."""

from __future__ import annotations

import torch
from torch import Tensor

# Relative to the largest eigenvalue: directions below it are rounding errors of a Gram matrix in float64.
_RANK_TOLERANCE = 1e-14


def solved(gram: Tensor, cross: Tensor, ridge: float) -> Tensor:
    """``(gram + ridge I)^-1 cross`` in float64, the pseudo-inverse where there is no inverse; adds to ``gram``."""
    gram.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(gram)
    pivots = factor.diagonal().square()
    # What has no inverse may have a factor, of rounding errors.
    if not bool(failed | (pivots.amin() <= pivots.amax() * _RANK_TOLERANCE * len(gram))):
        solution: Tensor = torch.cholesky_solve(cross, factor)
        return solution
    values, vectors = torch.linalg.eigh(gram)
    kept = values > values[-1] * _RANK_TOLERANCE * len(values)
    smallest: Tensor = vectors @ (torch.where(kept, 1 / values, 0).unsqueeze(-1) * (vectors.mT @ cross))
    return smallest
