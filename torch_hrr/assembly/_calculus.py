"""The operations of the assembly calculus as sequences of projections; `Brain` documents them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._progress import Progress, Tick, ticking
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._network import Projections, inhibited
from torch_hrr.assembly._rounds import RoundsModule


def _in_turn(
    brain: RoundsModule,
    op: str,
    first: Projections,
    others: Projections,
    rounds: int,
    stimuli: Any,
    brains: Any,
    progress: Progress,
) -> None:
    """One round in which areas fire as in `first`, the rest as in `others`; raises before any change."""
    stimuli = checks.listed(checks.or_nothing(stimuli))
    tick = ticking(op, progress)
    which = brain._network.which(op, brains)
    plans = brain._network.plans(op, stimuli, first, which)
    if rounds > 1:
        brain._network.plans(op, stimuli, others, which, {target for plan in plans for target in plan.targets})
    brain._run(op, stimuli, first, min(rounds, 1), which, tick, total=rounds)
    if rounds > 1:
        brain._run(op, stimuli, others, rounds - 1, which, tick, before=1)


def reciprocal_project(brain: RoundsModule, source: str, target: str, *rest: Any) -> None:
    """See `Brain.reciprocal_project`."""
    checks.different("reciprocal_project", brain._network.areas, source=source, target=target)
    first = {source: [source, target]}
    _in_turn(brain, "reciprocal_project", first, {**first, target: [target, source]}, *rest)


def associate(brain: RoundsModule, a: str, b: str, c: str, *rest: Any) -> None:
    """See `Brain.associate`."""
    checks.different("associate", brain._network.areas, a=a, b=b, c=c)
    first = {a: [a, c], b: [b, c]}
    _in_turn(brain, "associate", first, {**first, c: [c]}, *rest)


def merge(brain: RoundsModule, a: str, b: str, c: str, *rest: Any) -> None:
    """See `Brain.merge`."""
    checks.different("merge", brain._network.areas, a=a, b=b, c=c)
    first = {a: [a, c], b: [b, c]}
    _in_turn(brain, "merge", first, {**first, c: [c, a, b]}, *rest)


def pattern_complete(
    brain: RoundsModule, area: str, fraction: float, rounds: int, which: Sequence[int], tick: Tick
) -> list[float]:
    """See `Brain.pattern_complete`; the share of each brain."""
    op = "pattern_complete"
    network = brain._network
    state = network.area(op, area)
    silent = network.silent([area])[area]
    if silent.intersection(which):
        raise ValueError(f"{op}: area must have winners, got none in {area!r}")
    obstacles = {
        "a fixed": state.fixed,
        "an inhibited": inhibited(state.locks),
        "an inhibited fiber of": inhibited(network.locks.get((area, area), {})),
    }
    for what, brains in obstacles.items():
        if brains.intersection(which):
            raise ValueError(f"{op}: area must be free to fire into itself, got {what} {area!r}")
    before = _winners_of(brain, area, which)
    for number, row in before.items():
        kept = max(1, round(fraction * len(row)))
        seed, graph = network.graph(number)
        chosen = row[_permutation(f"{seed} {area} {graph}", len(row))[:kept]]
        brain._set_winners(op, area, chosen, [number])
    brain._run(op, {}, {area: [area]}, rounds, which, tick)
    after = _winners_of(brain, area, which)
    return [float(torch.isin(row, after[number]).double().mean()) for number, row in before.items()]


def _winners_of(brain: RoundsModule, area: str, which: Sequence[int]) -> Mapping[int, Tensor]:
    state = brain._network.areas[area]
    winners, counts = state.winners.cpu(), state.winner_count.tolist()
    return {number: winners[number, : counts[number]].clone() for number in which}


def _permutation(text: str, count: int) -> Tensor:
    """A permutation of 0..count-1 that the text names: the order of their SHA-256."""
    digests = [hashlib.sha256(f"{text} {i}".encode()).digest() for i in range(count)]
    return torch.tensor(sorted(range(count), key=digests.__getitem__), dtype=torch.int64, device="cpu")
