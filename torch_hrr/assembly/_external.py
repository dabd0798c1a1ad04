"""Rounds in which real numbers join an area's inputs, in the same fixed point as the inputs themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import torch
from torch import Tensor

from torch_hrr.assembly._state import FIXED_ONE, FiberState, StimulusState
from torch_hrr.assembly.brain import Brain

_ops = torch.ops.torch_hrr

LARGEST = 2.0**20
"""Of an external input: with it, sums of inputs stay far below 2^63 in units of 2^-40."""

_SCALED_BITS = 16
# What a chosen winner is ahead by, in units of a fresh synapse; inputs of normalised fibers have 16 bits less of room.
_AHEAD, _AHEAD_SCALED = 1 << 30, 1 << 20


def area_inputs(brain: Brain, target: str, sources: Iterable[str]) -> tuple[Tensor, int]:
    """What the present winners of the sources send into an area, as a round of the brain sums it.

    Base counts follow the winners as in a round: those that left are taken away, those that came are added.

    Returns:
        int64 ``[n]``, and how many of its bits are behind the point: 24, or 40 where a fiber is normalised.
    """
    area = brain._areas[target]
    fibers = [(brain._areas[source], brain._fiber(source, target)) for source in sources]
    shift = _SCALED_BITS if any(fiber.scale.numel() for _, fiber in fibers) else 0
    total = torch.zeros(area.n, dtype=torch.int64, device=area.winners.device)
    for source, fiber in fibers:
        firing = source.winners[0, : int(source.winner_count[0])]
        sums = _counts(brain, firing, fiber).long() * FIXED_ONE if fiber.procedural else torch.zeros_like(total)
        slots = source.slot_of[0, firing].long()
        _, columns, weights = fiber.edges(0, slots[slots >= 0])
        excess = (weights.double() * FIXED_ONE).round().long() - (FIXED_ONE if fiber.procedural else 0)
        sums.index_add_(0, area.neuron_of[0].long()[columns], excess)
        if fiber.scale.numel():
            total += (sums.double() * fiber.scale[0] * float(1 << _SCALED_BITS)).round().long()
        else:
            total += sums << shift
    if area.bias.numel():
        total -= area.bias[0] << shift
    if area.last_win.numel():
        age = area.last_win[0].long()
        inhibited = age < area.refractory_period
        total[inhibited] -= area.penalties[age[inhibited]] << shift
    return total, 24 + shift


def _counts(brain: Brain, firing: Tensor, fiber: FiberState) -> Tensor:
    """Base synapses of every target with the winners that fire, int32 [n]; the round to come finds them done."""
    known = int(fiber.delivered_count[0])
    before = fiber.delivered[0, : max(known, 0)]
    entered, left = firing[~torch.isin(firing, before)], before[~torch.isin(before, firing)]
    counts = fiber.counts[0]
    if known < 0 or len(entered) + len(left) > len(firing):
        counts.zero_()
        entered, left = firing, firing[:0]
    for neurons, sign in ((entered, 1), (left, -1)):
        if len(neurons):
            sums = _ops.connectome_inputs(neurons, len(counts), fiber.p, brain.seed, fiber.id)
            counts.add_(sums, alpha=sign)
    fiber.delivered[0, : len(firing)] = firing
    fiber.delivered_count[0] = len(firing)
    return counts


def choose(inputs: Tensor, bits: int, external: Tensor, k: int) -> Tensor:
    """The k neurons with the largest ``inputs + external``, ascending; the external input is rounded to `bits` bits."""
    total = inputs + (external.detach().double() * 2.0**bits).round().long()
    winners: Tensor = _ops.k_winners(total, k)[1]
    return winners


def undoing(brain: Brain, shown: Iterable[str] = ()) -> Callable[[], None]:
    """What takes back all that showing these areas and summing inputs change, as long as no round came in between.

    That is winners, scales of normalised columns and fibers that are used for the first time. Base counts stay: they
    know which winners they are of. Copies are of winners alone, as scales are replaced and never written to.
    """
    winners = [
        (area, area.winners.clone(), area.winner_count.clone()) for area in (brain._areas[name] for name in shown)
    ]
    normalized = [(area, area.normalized) for area in brain._areas.values()]
    scales = [(fiber, fiber.scale) for fiber in brain._fibers.values()]
    fibers, states = set(brain._fibers), len(brain.states)

    def undo() -> None:
        for area, indices, count in winners:
            area.winners.copy_(indices)
            area.winner_count.copy_(count)
        for area, names in normalized:
            area.normalized = names
        for fiber, scale in scales:
            fiber.hold("scale", scale)
        for pair in brain._fibers.keys() - fibers:
            del brain._fibers[pair]
        del brain.states[states:]

    return undo


def lead(brain: Brain, targets: Collection[str], spread: float) -> int:
    """What puts chosen winners of the targets ahead of all others, in units of a fresh synapse.

    Args:
        brain: of one brain, in mode "exact".
        targets: areas.
        spread: no two inputs of a target differ by more, in the same units.

    Raises:
        RuntimeError: inputs are so large that nothing could be ahead of them.
    """
    scaled = any(fiber.scale.numel() for (_, into), fiber in brain._fibers.items() if into in targets)
    ahead = _AHEAD_SCALED if scaled else _AHEAD
    if spread >= ahead:
        raise RuntimeError(f"project: inputs must differ by less than {ahead} with an external input, got {spread:g}")
    return ahead


def chosen_round(
    brain: Brain, projections: Mapping[str, Iterable[str]], chosen: Mapping[str, Tensor], ahead: int
) -> None:
    """One round of the brain in which the winners of some targets are given.

    A stimulus that lasts for this round puts them ahead of all others: so everything else (which winners fire,
    plasticity, what counts as won) is the brain's own, but for columns, which the caller normalised before.

    Args:
        brain: of one brain, in mode "exact".
        projections: ``{area: [areas]}``, which the brain accepts.
        chosen: ``{target: its k winners}``.
        ahead: of `lead`.
    """
    plan = brain._plan({}, projections)
    try:
        for target, winners in chosen.items():
            area = brain._areas[target]
            state = StimulusState(area, {"stimulus": "", "id": 0}, 1, winners.device)
            state.counts[0, winners] = ahead
            brain._sources["", target] = state  # a name that no stimulus has
        brain._run([("", target) for target in chosen], plan[1], 1)
    finally:
        for target in chosen:
            brain._sources.pop(("", target), None)
    for hook in brain._hooks:
        hook(brain)
