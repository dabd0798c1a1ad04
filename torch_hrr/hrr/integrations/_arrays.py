"""What the bridges share: arrays of either kind of vector, and sequences marked by cyclic shifts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_floating, integer, strided
from torch_hrr.hrr import functional


def rows(op: str, argument: str, value: Any) -> Tensor:
    """Real rows ``[..., D]`` as they are, complex ones ``[..., D]``, as of FHRR, by `functional.from_bins`.

    Other numbers are those of other models, whose binding is elementwise: TypeError. ValueError without elements.
    """
    given = strided(op, argument, value)
    if given.dim() == 0 or given.shape[-1] == 0:
        raise ValueError(f"{op}: {argument} must have vectors of D >= 1, got shape {list(given.shape)}")
    if given.is_complex():
        return functional.from_bins(given.real, given.imag)
    check_floating(op, argument, given)
    return given


def has(op: str, argument: str, value: Any, *names: str) -> None:
    """TypeError unless the value has these attributes, by which a bridge reads it."""
    for name in names:
        if not hasattr(value, name):
            raise TypeError(f"{op}: {argument} must have the attribute {name}, got {type(value).__name__}")


def rolled_back(op: str, vector: Any, index: Any, length: int | None, ascending: bool) -> Tensor:
    """The noisy item of a sequence whose items were shifted by their position, counted from the end unless ascending.

    IndexError for a position outside the sequence, whose length may be unknown where it does not matter.
    """
    vector = rows(op, "vector", vector)
    index = integer(op, "index", index)
    if index < 0 or (length is not None and index >= length):
        raise IndexError(f"{op}: index must be in [0, {'length' if length is None else length}), got {index}")
    shift = index if ascending else integer(op, "length", length, 1) - 1 - index
    return torch.roll(vector, -shift, -1)
