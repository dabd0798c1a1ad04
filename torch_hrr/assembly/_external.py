"""Rounds in which real numbers join an area's inputs, in the same fixed point as the inputs themselves.

This is the brain's side: what a `TorchBrain` needs of a round and `Brain` does not show stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from torch import Tensor

from torch_hrr.assembly._inputs import summed_inputs
from torch_hrr.assembly._network import pairs_of
from torch_hrr.assembly._state import StimulusState
from torch_hrr.assembly._ties import choose_winners
from torch_hrr.assembly.brain import Brain

LARGEST = 2.0**20
"""Of an external input: with it, sums of inputs stay far below 2^63 in units of 2^-40."""

# What a chosen winner is ahead by, in units of a fresh synapse; inputs of normalised fibers have 16 bits less of room.
_AHEAD, _AHEAD_SCALED = 1 << 30, 1 << 20


def open_pairs(brain: Brain, projections: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """The pairs of areas of which nothing is inhibited."""
    return [pair for pair in pairs_of(projections) if brain._network.is_open(*pair)]


def silent(brain: Brain, areas: Collection[str]) -> list[str]:
    """Those of the areas that have no winners; one transfer from the device."""
    return [name for name, brains in brain._network.silent(areas).items() if brains]


def received(brain: Brain, area: str, sources: Iterable[str]) -> tuple[Tensor, int]:
    """What the winners of the sources send into an area; see `summed_inputs`."""
    return summed_inputs(brain._network, area, (), sources)


def choose(brain: Brain, area: str, inputs: Tensor, bits: int = 24, external: Tensor | None = None) -> Tensor:
    """The winners of an area by ``inputs + external``, ascending; the external input is rounded to `bits` bits."""
    if external is not None:
        inputs = inputs + (external.detach().double() * 2.0**bits).round().long()
    return choose_winners(inputs, brain._network.areas[area], brain.seed)


def undoing(brain: Brain, shown: Iterable[str] = ()) -> Callable[[], None]:
    """What takes back all that showing these areas and summing inputs change, as long as no round came in between.

    That is winners, scales of normalised columns and fibers that are used for the first time. Base counts stay: they
    know which winners they are of.
    """
    network = brain._network
    winners = [
        (area, area.winners.clone(), area.winner_count.clone()) for area in (network.areas[name] for name in shown)
    ]
    normalized = [(area, area.normalized) for area in network.areas.values()]
    scales = [(fiber, fiber.scale.clone(), fiber.sums.numel() > 0) for fiber in network.fibers.values()]
    fibers, states = set(network.fibers), len(network.states)

    def undo() -> None:
        for area, indices, count in winners:
            area.winners.copy_(indices)
            area.winner_count.copy_(count)
        for area, names in normalized:
            area.normalized = names
        for fiber, scale, summed in scales:
            fiber.hold("scale", scale)
            if not summed:
                fiber.forget_sums()
        for pair in network.fibers.keys() - fibers:
            del network.fibers[pair]
        del network.states[states:]

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
    scaled = any(fiber.scale.numel() for (_, into), fiber in brain._network.fibers.items() if into in targets)
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
    network = brain._network
    plan = network.plans("project", {}, projections, reached=chosen)[0]
    try:
        for target, winners in chosen.items():
            state = StimulusState(network.areas[target], {"stimulus": "", "id": 0}, 1, winners.device)
            state.counts[0, winners] = ahead
            network.sources["", target] = state  # a name that no stimulus has
        brain._engine.run([replace(plan, stimuli=[("", target) for target in chosen])], 1)
    finally:
        for target in chosen:
            network.sources.pop(("", target), None)
    brain._call_hooks()
