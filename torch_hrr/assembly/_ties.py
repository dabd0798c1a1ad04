"""Winners by inputs where rounds in Python choose them, with the ties of the area."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr._plain import assembly_rounds
from torch_hrr._plain.assembly_connectome import connectome_key
from torch_hrr.assembly._state import AreaState

_ops = torch.ops.torch_hrr


def choose_winners(inputs: Tensor, area: AreaState, graph: tuple[int, int]) -> Tensor:
    """The winners of one brain, int64 ``[k]`` ascending, by its inputs, int64 ``[n]``; `graph`: of `Network.graph`."""
    if area.ties == "keyed":
        seed, number = graph
        return assembly_rounds.choose_winners(inputs, area.k, connectome_key(seed, area.tie_id, number))
    winners: Tensor = _ops.k_winners(inputs, area.k)[1]
    return winners
