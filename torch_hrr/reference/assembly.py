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
