"""Batching rules of the assembly operators: a batch is one more leading dimension."""

from __future__ import annotations

from typing import Any

import torch

from torch_hrr import _vmap


def register() -> None:
    """Registers the rules of the assembly operators."""
    ops = torch.ops.torch_hrr
    table: list[tuple[Any, tuple[int, ...]]] = [
        (ops.k_winners.default, (1,)),
        (ops.connectome_inputs.default, (1,)),
        (ops.k_cap.default, (1,)),
        (ops._k_cap_backward.default, (1, 1)),
    ]
    _vmap.register(table)
