"""Philox and what is made of its words, as torch operations on integers, with the same bits on every device."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_WORD = 2**32 - 1


def mix64(x: int) -> int:
    """A bijection of the 64-bit integers: the first output of SplitMix64 seeded with ``x``."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


# Integers, or tensors of int64.
_Words = tuple[Any, Any, Any, Any]


def philox4x32(counter: _Words, key: int | Tensor) -> _Words:
    """Ten rounds of Philox on 32-bit words held in int64, whose products wrap as unsigned ones do, or on integers."""
    a, b, c, d = counter
    low, high = key & _WORD, key >> 32 & _WORD
    for _ in range(10):
        left, right = a * 0xD2511F53, c * 0xCD9E8D57
        a, b = (right >> 32 & _WORD) ^ b ^ low, right & _WORD
        c, d = (left >> 32 & _WORD) ^ d ^ high, left & _WORD
        low, high = (low + 0x9E3779B9) & _WORD, (high + 0xBB67AE85) & _WORD
    return a, b, c, d


def normals(seed: int | Tensor, first: int | Tensor, places: Tensor) -> Tensor:
    """float32 numbers of N(0, 1): those at `places` of the sequence that starts at block `first`."""
    block = places >> 2
    low = (first & _WORD) + (block & _WORD)
    high = ((first >> 32) + (block >> 32) + (low >> 32)) & _WORD
    nothing = torch.zeros_like(block)
    words = philox4x32((low & _WORD, high, nothing, nothing), seed)
    second = places & 2 != 0
    x = 2 * torch.where(second, words[2], words[0]) + 1
    y = torch.where(second, words[3], words[1])
    # Of u = x 2^-33 near 1 by 1 - u, which float32 holds; angles are taken from minus half a turn to half a turn.
    logarithm = torch.where(x < 2**32, (x.float() * 2.0**-33).log(), torch.log1p((x - 2**33).float() * 2.0**-33))
    angle = torch.where(y < 2**31, y, y - 2**32).float() * (2 * math.pi * 2.0**-32)
    return (-2 * logarithm).sqrt() * torch.where(places & 1 != 0, angle.sin(), angle.cos())


def double(tensor: Tensor) -> Tensor:
    """In float64; on the CPU where the device has none."""
    return (tensor.cpu() if tensor.device.type == "mps" else tensor).double()
