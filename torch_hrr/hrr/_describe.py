"""How objects that hold vectors show themselves: one line, without the values."""

from __future__ import annotations

import torch


def describe(owner: object, dim: int, device: torch.device, dtype: torch.dtype, *parts: str) -> str:
    """The class with D, what else there is to say of it, device and dtype: "Stack(dim=512, 3 items, cpu, float32)"."""
    words = (f"dim={dim}", *parts, str(device), str(dtype).removeprefix("torch."))
    return f"{type(owner).__name__}({', '.join(words)})"


def count(number: int, noun: str) -> str:
    """A number of things: "1 item", "2 items"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
