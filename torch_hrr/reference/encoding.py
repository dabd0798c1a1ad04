"""The encoding operators as compositions of torch operators.

Same definitions and signatures as ``torch_hrr.encoding``. Angles are float64, whose rounding shows in a float32 result
from positions of about 2^30 on; the operators themselves err no more there than at 0.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
    pairs = torch.arange((dim + 1) // 2, dtype=torch.float64, device=positions.device)
    frequencies = scale * torch.pow(base, -2 * pairs / dim)
    angles = positions.double().unsqueeze(-1) * frequencies + phase
    return _sinusoids(angles, dim, layout).to(_float_or(positions, dtype))


def sinusoidal_features(
    positions: Tensor,
    frequencies: Tensor,
    phase: Tensor | None = None,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    """``sin`` and ``cos`` of ``position * frequency + phase``."""
    angles = positions.double().unsqueeze(-1) * frequencies.double()
    if phase is not None:
        angles = angles + phase.double()
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
    embedded = (table[tokens].double() + encoded) / temperature
    is_padding = (tokens == padding_idx).unsqueeze(-1) if padding_idx >= 0 else tokens.new_zeros((), dtype=torch.bool)
    return embedded.masked_fill(is_padding, 0.0).to(table.dtype if dtype is None else dtype)
