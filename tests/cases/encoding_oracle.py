"""The encodings by their definitions: angles in long integers, reduced exactly, at any position.

A derivative takes the angle for the float64 product that it nearly is, which is as good at the small positions of the
lanes that differentiate.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import mpmath
import torch
from torch import Tensor
from torch._C._functorch import is_functorch_wrapped_tensor

# Bits below the point of a number of turns: enough for products up to 2^300.
BITS = 400
TURN = 1 << BITS


def scaled_turns(radians: mpmath.mpf) -> int:
    """radians / (2 pi) in units of 2^-BITS, to the nearest."""
    with mpmath.workprec(2 * BITS):
        return int(mpmath.nint(mpmath.ldexp(radians / (2 * mpmath.pi), BITS)))


@functools.cache
def turns_of(radians: float) -> int | None:
    """A float exactly; None if it is not finite."""
    return scaled_turns(mpmath.mpf(radians)) if math.isfinite(radians) else None


@functools.cache
def ladder(dim: int, base: float, scale: float) -> tuple[mpmath.mpf, ...]:
    """scale base^(-2i/dim) to 800 bits."""
    with mpmath.workprec(2 * BITS):
        steps = [mpmath.mpf(-2 * i) / dim for i in range((dim + 1) // 2)]
        return tuple(mpmath.mpf(scale) * mpmath.power(mpmath.mpf(base), step) for step in steps)


@functools.cache
def ladder_turns(dim: int, base: float, scale: float) -> tuple[int, ...]:
    return tuple(scaled_turns(frequency) for frequency in ladder(dim, base, scale))


def phases(position: float, turns: Sequence[int | None], offsets: Sequence[int | None]) -> list[int | None]:
    """Every angle at a position modulo a turn, in units of 2^-BITS from half a turn below 0 to half a turn above."""
    if not math.isfinite(position):
        return [None] * len(turns)
    over, under = position.as_integer_ratio()
    return [
        None if turn is None or offset is None else (over * turn // under + offset + TURN // 2) % TURN - TURN // 2
        for turn, offset in zip(turns, offsets, strict=True)
    ]


def exact_sinusoids(position: float, turns: Sequence[int], offset: int = 0) -> list[tuple[float, float]]:
    """sine and cosine of every angle, to half a unit in float64's last place."""
    with mpmath.workprec(160):
        angles = [
            2 * mpmath.pi * mpmath.ldexp(mpmath.mpf(phase), -BITS)
            for phase in phases(position, turns, [offset] * len(turns))
        ]
        return [(float(mpmath.sin(angle)), float(mpmath.cos(angle))) for angle in angles]


def reduced(angles: Tensor, positions: Tensor, turns: Sequence[int | None], offsets: Sequence[int | None]) -> Tensor:
    """The angles modulo a turn, with the derivatives of those given."""
    if any(is_functorch_wrapped_tensor(tensor) for tensor in (angles, positions)):
        return angles
    exact = [
        math.nan if phase is None else 2 * math.pi * (phase / TURN)
        for position in positions.detach().reshape(-1).tolist()
        for phase in phases(position, turns, offsets)
    ]
    return torch.tensor(exact, dtype=torch.float64).reshape(angles.shape) + (angles - angles.detach())


def columns(angles: Tensor, dim: int, layout: str) -> Tensor:
    sines, cosines = angles.sin(), angles.cos()
    if layout == "half":
        return torch.cat((sines, cosines[..., : dim // 2]), -1)
    return torch.stack((sines, cosines), -1).flatten(-2)[..., :dim]


def sinusoidal_encoding(
    positions: Tensor,
    dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    frequencies = torch.tensor([float(f) for f in ladder(dim, base, scale)], dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) * frequencies + phase
    turns = ladder_turns(dim, base, scale)
    return columns(reduced(angles, positions, turns, [turns_of(phase)] * len(turns)), dim, layout)


def sinusoidal_features(
    positions: Tensor,
    frequencies: Tensor,
    phase: Tensor | None = None,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> Tensor:
    angles = positions.double().unsqueeze(-1) * frequencies
    if phase is not None:
        angles = angles + phase
    if not any(is_functorch_wrapped_tensor(tensor) for tensor in (angles, positions)):
        held = frequencies.detach().tolist()
        offsets = [0.0] * len(held) if phase is None else phase.detach().tolist()
        angles = reduced(angles, positions, [turns_of(f) for f in held], [turns_of(p) for p in offsets])
    return columns(angles, 2 * frequencies.shape[0], layout)


def sinusoidal_features_backward(
    grad: Tensor, positions: Tensor, frequencies: Tensor, phase: Tensor | None, layout: str
) -> Tensor:
    """dL/dt of every angle t: the cosine times the sine's gradient less the sine times the cosine's."""
    count = frequencies.shape[0]
    waves = sinusoidal_features(positions, frequencies, phase, "half")
    order = torch.arange(2 * count)
    if layout == "interleaved":
        order = order.reshape(count, 2).T.reshape(-1)
    of_sines, of_cosines = grad[..., order[:count]], grad[..., order[count:]]
    return of_sines * waves[..., count:] - of_cosines * waves[..., :count]


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
    if positions is None:
        positions = torch.arange(tokens.shape[-1])
    encoded = sinusoidal_encoding(positions, table.shape[1], base, scale, phase, layout)
    # A product with one row of the identity, not a lookup.
    chosen = (tokens.unsqueeze(-1) == torch.arange(table.shape[0])).double() @ table
    rows = (chosen + encoded) / temperature
    return torch.where((tokens == padding_idx).unsqueeze(-1) & (padding_idx >= 0), 0.0, rows)
