"""Winners by inputs where rounds in Python choose them, with the ties of the area."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr.assembly._state import AreaState
from torch_hrr.reference.assembly_connectome import connectome_key
from torch_hrr.reference.assembly_rounds import tie_ranks

_ops = torch.ops.torch_hrr


def choose_winners(inputs: Tensor, area: AreaState, seed: int) -> Tensor:
    """The winners of one brain, int64 ``[k]`` ascending, by its inputs, int64 ``[n]``."""
    winners: Tensor
    values, winners = _ops.k_winners(inputs, area.k)
    if area.ties == "index":
        return winners
    cut = values.min()
    ranks = tie_ranks(connectome_key(seed, area.tie_id, 0), area.n, inputs.device)
    least = torch.iinfo(torch.int64).min
    ranked = torch.where(inputs > cut, 1, torch.where(inputs == cut, -ranks, least))
    winners = _ops.k_winners(ranked, area.k)[1]
    return winners
