"""Work that autocast must leave alone."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

# Asked once: torch.compile of torch 2.11 does not trace the question.
_DEVICES = frozenset(filter(torch.amp.is_autocast_available, ("cpu", "cuda", "xpu", "mps", "hpu", "xla")))


def is_autocast(device: torch.device) -> bool:
    """Whether autocast is on for the device."""
    kind = device.type
    return kind in _DEVICES and torch.is_autocast_enabled(kind)


def full_precision(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Switches autocast off, which would compute matrix products and bindings in a half type."""
    if is_autocast(device):
        return torch.autocast(device.type, enabled=False)
    return contextlib.nullcontext()
