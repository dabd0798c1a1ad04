"""The encoding operators as compositions of torch operators.

Same definitions and signatures as ``torch_hrr.encoding``. Angles are float64, whose rounding shows in a float32 result
from positions of about 2^30 on; the operators themselves err no more there than at 0. Without float64 on the device
they are computed on the CPU.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from torch_hrr._plain.random import double


def _sinusoids(angles: Tensor, dim: int, layout: str) -> Tensor:
    """Sines and cosines of ``[..., pairs]``, of which an odd ``dim`` drops the last cosine."""
    sines, cosines = angles.sin(), angles.cos()
    if layout == "half":
        return torch.cat((sines, cosines), -1)[..., :dim]
    return torch.stack((sines, cosines), -1).flatten(-2)[..., :dim]


def _float_or(positions: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    if dtype is not None:
        return dtype
    return positions.dtype if positions.is_floating_point() else torch.float32


def sinusoidal_encoding(
    positions: Tensor,
    dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``sin`` and ``cos`` of ``position * scale * base^(-2i/dim) + phase``."""
    wide = double(positions)
    pairs = torch.arange((dim + 1) // 2, dtype=torch.float64, device=wide.device)
    angles = wide.unsqueeze(-1) * (scale * torch.pow(base, -2 * pairs / dim)) + phase
    return _sinusoids(angles, dim, layout).to(_float_or(positions, dtype))


def sinusoidal_features(
    positions: Tensor,
    frequencies: Tensor,
    phase: Tensor | None = None,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``sin`` and ``cos`` of ``position * frequency + phase``."""
    angles = double(positions).unsqueeze(-1) * double(frequencies)
    if phase is not None:
        angles = angles + double(phase)
    return _sinusoids(angles, 2 * frequencies.shape[-1], layout).to(_float_or(positions, dtype))


def embed_positions(
    tokens: Tensor,
    table: Tensor,
    positions: Tensor | None = None,
    padding_idx: int = -1,
    temperature: float = 1.0,
    base: float = 10000.0,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``(table[token] + sinusoidal_encoding(position)) / temperature``, zero where the token is padding."""
    if positions is None:
        positions = torch.arange(tokens.shape[-1], device=tokens.device)
    encoded = sinusoidal_encoding(positions, table.shape[-1], base, scale, phase, layout, torch.float64)
    chosen = table.index_select(0, tokens.reshape(-1)).reshape(*tokens.shape, table.shape[-1])
    embedded = (double(chosen) + encoded) / temperature
    is_padding = (tokens == padding_idx).unsqueeze(-1) if padding_idx >= 0 else tokens.new_zeros((), dtype=torch.bool)
    return embedded.masked_fill(is_padding.to(embedded.device), 0.0).to(table.dtype if dtype is None else dtype)


def rotate(
    x: Tensor,
    positions: Tensor,
    frequencies: Tensor | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    layout: str = "interleaved",
    factor: float = 1.0,
    dims: int | None = None,
    inverse: bool = False,
) -> Tensor:
    """Every pair (s, c) as ``factor (s cos(a) + c sin(a), c cos(a) - s sin(a))`` with ``a = position * frequency``."""
    if frequencies is None:
        turned = x.shape[-1] if dims is None else dims
        pairs = torch.arange(turned // 2, dtype=torch.float64, device=x.device)
        held = scale * torch.pow(base, -2 * pairs / turned)
    else:
        turned, held = 2 * frequencies.shape[-1], double(frequencies)
    angles = double(positions).unsqueeze(-1) * (-held if inverse else held)
    sine, cosine = angles.sin() * factor, angles.cos() * factor
    wide = double(x)
    if layout == "half":
        s, c = wide[..., : turned // 2], wide[..., turned // 2 : turned]
        rows = torch.cat((s * cosine + c * sine, c * cosine - s * sine), -1)
    else:
        s, c = wide[..., 0:turned:2], wide[..., 1:turned:2]
        rows = torch.stack((s * cosine + c * sine, c * cosine - s * sine), -1).flatten(-2)
    rest = wide[..., turned:].expand(*rows.shape[:-1], x.shape[-1] - turned)
    return torch.cat((rows, rest), -1).to(x.dtype)


@functools.wraps(rotate, assigned=())
def rotate_(x: Tensor, *arguments: Any, **named: Any) -> None:
    """`rotate` in place."""
    x.copy_(rotate(x, *arguments, **named))


def _sinusoidal_features_backward(
    grad: Tensor, positions: Tensor, frequencies: Tensor, phase: Tensor | None, layout: str
) -> Tensor:
    """By the angle of every pair: its cosine times the gradient of its sine, less its sine times that of its cosine."""
    count = frequencies.shape[-1]
    waves = sinusoidal_features(positions, frequencies, phase, "half", torch.float64)
    wide = double(grad)
    if layout == "half":
        of_sines, of_cosines = wide[..., :count], wide[..., count:]
    else:
        of_sines, of_cosines = wide[..., ::2], wide[..., 1::2]
    result = of_sines * waves[..., count:] - of_cosines * waves[..., :count]
    return result.to(torch.promote_types(grad.dtype, torch.float32))
