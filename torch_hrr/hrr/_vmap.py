"""Batching rules of the HRR operators: their leading dimensions broadcast."""

from __future__ import annotations

from typing import Any

import torch

from torch_hrr import _vmap


def register() -> None:
    """Registers the rules of the HRR operators."""
    ops = torch.ops.torch_hrr
    table: list[tuple[Any, tuple[int, ...]]] = [
        (ops.bind.default, (1, 1)),
        (ops.unbind.default, (1, 1)),
        (ops.bind_normalize.default, (1, 1)),
        (ops.superpose.default, (2, 1)),
        (ops.bind_superpose.default, (2, 2, 1)),
        (ops._bind_backward.default, (1, 1, 1)),
        (ops._unbind_backward.default, (1, 1, 1)),
        (ops._bind_normalize_backward.default, (1, 1, 1)),
        (ops.multibind.default, (2,)),
        (ops.inverse.default, (1,)),
        (ops.unitary.default, (1,)),
        (ops.bind_power.Tensor, (1, 0)),
        (ops.bind_power.default, (1,)),
        (ops.permute.default, (1,)),
        (ops.spectrum.default, (1,)),
        (ops.from_spectrum.default, (1,)),
        (ops.bind_spectrum.default, (1, 1)),
        (ops.unbind_spectrum.default, (1, 1)),
        (ops._cut_inverse.default, (1,)),
        (ops._inverse_backward.default, (1, 1)),
        (ops._unitary_jacobian.default, (1, 1)),
        (ops._bind_power_log.default, (1, 0)),
        (ops._bind_power_backward.default, (1, 1, 0)),
    ]
    _vmap.register(table)
