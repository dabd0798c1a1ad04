"""The demo's job of positions: sinusoids of large ones, which float32 angles miss."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from torch_hrr.demos.table import Outcome, Row, Timing, brief, in_turn
from torch_hrr.encoding import sinusoidal_encoding

COUNT, DIM, BASE = 4096, 512, 10_000.0
# Below each, whose angles float64 has to 1e-9.
LIMITS = (1_000, 1_000_000)


@dataclass(frozen=True)
class PositionsResult:
    """What the job measured.

    Attributes:
        errors: Largest error of ours and of torch, by the limit of the positions.
        timing: Of the encodings.
    """

    errors: dict[int, tuple[float, float]]
    timing: Timing


# e[2 i] = sin(t base^(-2 i / D)), e[2 i + 1] = cos(t base^(-2 i / D))
def sinusoids_in_torch(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """Sinusoids [N, DIM] of positions [N], as models compute them in a dtype."""
    frequencies = torch.exp(torch.arange(0, DIM, 2, dtype=dtype) * (-math.log(BASE) / DIM))
    angles = positions.to(dtype).unsqueeze(-1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def encode(seed: int) -> PositionsResult:
    """Errors and times at random positions."""
    generator = torch.Generator().manual_seed(seed)
    errors = {}
    for limit in LIMITS:
        positions = torch.randint(limit, (COUNT,), generator=generator)
        exact = sinusoids_in_torch(positions, torch.float64)
        found = sinusoidal_encoding(positions, DIM), sinusoids_in_torch(positions, torch.float32)
        ours, theirs = (float((each - exact).abs().max()) for each in found)
        errors[limit] = ours, theirs
    taken = in_turn(
        lambda _: sinusoidal_encoding(positions, DIM), lambda _: sinusoids_in_torch(positions, torch.float32)
    )
    return PositionsResult(errors, taken.timing(f"{COUNT} positions of width {DIM}", "sin and cos of float32 angles"))


def report(result: PositionsResult) -> str:
    """The result as a table."""
    rows = [f"{'largest error of a sinusoid in float32':<44}{'torch_hrr':>12}{'torch':>12}"]
    for limit, (ours, theirs) in result.errors.items():
        rows.append(f"{f'positions below {limit:,}':<44}{ours:>12.1e}{theirs:>12.1e}")
    rows.append(f"{result.timing.work} in {brief(result.timing.seconds)}")
    return "\n".join(rows)


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the table."""
    result = encode(options.seed)
    print(f"\nsinusoids of {COUNT} random positions, {DIM} wide\n\n{report(result)}")
    limit = LIMITS[-1]
    ours, theirs = result.errors[limit]
    row = Row(
        "encoding", f"error at {limit:.0e}".replace("e+0", "e"), f"{ours:.0e}", f"{theirs:.1g} in torch", result.timing
    )
    return Outcome(None, [row])
