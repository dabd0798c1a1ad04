"""Rounds which real numbers join: external inputs, in the same fixed point as the inputs of areas themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_hrr._progress import Tick, in_parts, unseen
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._inputs import summed_inputs
from torch_hrr.assembly._network import Network, Pairs, Plan, inhibited, pairs_of
from torch_hrr.assembly._rounds import RoundsModule
from torch_hrr.assembly._state import StimulusState, is_capturing
from torch_hrr.assembly._ties import choose_winners

# Of an external input: with it, sums of inputs stay far below 2^63 in units of 2^-40.
_LARGEST = 2.0**20
# What a chosen winner is ahead by, in units of a fresh synapse; inputs of normalised fibers have 16 bits less of room.
_AHEAD, _AHEAD_SCALED = 1 << 30, 1 << 20
# Seconds that a round in Python takes beside what the brain's own would.
_ROUND = 2e-3

Received = dict[str, Tensor | None]


# Losses are computed after a round without gradients or in inference mode, too.
@torch.inference_mode(False)
@torch.enable_grad()
def checked(
    brain: RoundsModule, op: str, argument: str, external: Any, brains: Sequence[int] = (0,)
) -> dict[str, Tensor]:
    """External inputs of these brains by area, as copies on the device, in the graph of what was given."""
    if not isinstance(external, Mapping):
        raise TypeError(f"{op}: {argument} must be a mapping of areas to tensors, got {type(external).__name__}")
    given = {}
    for name, values in external.items():
        n, what = brain._network.area(op, name).n, f"external input of {name!r}"
        values = checks.tensor(op, what, values)
        others = {"complex": values.is_complex(), "nested": values.is_nested, "meta": values.is_meta}
        if any(others.values()) or values.layout != torch.strided:
            kind = next((kind for kind, is_so in others.items() if is_so), values.layout)
            raise TypeError(f"{op}: {what} must be a real dense tensor, got {kind}")
        shapes = [[n]] if brain.batch is None else [[n], [len(brains), n]]
        if list(values.shape) not in shapes:
            wanted = " or ".join(map(str, shapes))
            raise ValueError(f"{op}: {what} must have shape {wanted}, got {list(values.shape)}")
        # A copy: the next call may repeat what was given, whatever the caller has written there since.
        given[name] = values.to(brain.device, copy=True)
    return given


def open_pairs(brain: RoundsModule, projections: Mapping[str, Iterable[str]]) -> Pairs:
    """The pairs of areas of which nothing is inhibited."""
    return [pair for pair, of in brain._network.open(pairs_of(projections), {0}).items() if of]


def silent(brain: RoundsModule, areas: Collection[str]) -> list[str]:
    """Those of the areas that have no winners; one transfer from the device."""
    return [name for name, brains in brain._network.silent(areas).items() if brains]


def run(
    brain: RoundsModule,
    op: str,
    stimuli: Any,
    areas: Any,
    external: Mapping[str, Tensor],
    rounds: int,
    tick: Tick = unseen,
    brains: Sequence[int] = (0,),
    lasting: Collection[str] = (),
    record: bool = False,
    what: str = "external input",
) -> Received | None:
    """Rounds of `Brain.project` with external inputs that `checked` gave.

    Args:
        brain: in mode "exact".
        op: the caller's name.
        stimuli: as for `Brain.project`.
        areas: as for `Brain.project`.
        external: external inputs by area, ``[n]`` or ``[len(brains), n]``.
        rounds: how many.
        tick: see `in_parts`.
        brains: of the call.
        lasting: areas whose external input joins what they receive, but sets no winners by itself.
        record: whether what areas of a single brain received in the last round is wanted.
        what: what the external inputs are, for errors.

    Returns:
        What each area received in the last round beside its external input, float64 ``[n]``, None where that was
        nothing; empty without `record`. None if there was no round.
    """
    network = brain._network
    known = network.areas
    network.check_exact(op)
    if is_capturing(network.device):
        raise RuntimeError(f"{op}: rounds with external inputs cannot be captured")
    stimuli = checks.projections(op, "stimuli", checks.or_nothing(stimuli), network.stimuli, known, "stimulus")
    areas = checks.projections(op, "areas", checks.or_nothing(areas), known, known, "area")
    for name, values in external.items():
        largest = float(values.detach().double().abs().max()) if values.numel() else 0.0
        if not largest <= _LARGEST:
            kind = str(values.dtype).removeprefix("torch.")
            raise ValueError(f"{op}: {what} of {name!r} must be finite and at most 2^20 in {kind}, got {largest}")
    plans = network.plans(op, stimuli, areas, brains, reached=external)
    shown = _shown(network, op, plans, external, brains, lasting)
    if rounds == 0 or not (shown or plans):
        return None
    seconds = 2 * network.seconds(plans) + _ROUND
    received: Received = dict.fromkeys(shown) if record else {}
    undo = undoing(network, shown)

    def choose(area: str, inputs: Tensor, number: int, bits: int = 24) -> Tensor:
        values = external[area]
        own = values if values.dim() == 1 else values[brains.index(number)]
        # Rounded to the bits of what it is added to.
        added = (own.detach().double() * 2.0**bits).round().long()
        return choose_winners(inputs + added, known[area], network.graph(number))

    for name, numbers in shown.items():
        nothing = torch.zeros(known[name].n, dtype=torch.int64, device=network.device)
        for number in numbers:
            brain._set_winners(op, name, choose(name, nothing, number), [number])
    if not plans:
        return received
    pulled = [[name for name in _reached(plan) if name in external and name not in plan.fixed] for plan in plans]
    own = 0 if any(pulled) else rounds - record
    if own:
        brain._run(op, stimuli, areas, own, brains, tick, total=rounds)
    done = own

    def some(count: int) -> None:
        nonlocal done
        for _ in range(count):
            last = record and done == rounds - 1
            undoes = undoing(network) if done else undo
            chosen: dict[str, dict[int, Tensor]] = {}
            spread = 0.0
            try:
                for plan, names in zip(plans, pulled, strict=True):
                    for number in network.everyone if plan.brains is None else plan.brains:
                        arrived = _arriving(brain, plan, _reached(plan) if last else names, number)
                        if last:
                            received.update(
                                {name: inputs.double() / 2.0**bits for name, (inputs, bits) in arrived.items()}
                            )
                        for name in names:
                            inputs, bits = arrived[name]
                            chosen.setdefault(name, {})[number] = choose(name, inputs, number, bits)
                            spread = max(spread, float(inputs.max() - inputs.min()) / 2.0**bits)
                ahead = _lead(network, chosen, spread)
            except BaseException:
                undoes()
                raise
            _chosen_round(brain, zip(plans, pulled, strict=True), chosen, ahead)
            done += 1

    if done < rounds:
        most = 1 if brain._hooks else sys.maxsize
        in_parts(op, rounds - own, seconds, some, tick, before=own, total=rounds, most=most)
    return received


def _shown(
    network: Network,
    op: str,
    plans: Sequence[Plan],
    external: Collection[str],
    brains: Sequence[int],
    lasting: Collection[str],
) -> dict[str, list[int]]:
    """The brains in which an external input alone sets the winners of its area; ValueError where a source has none."""
    active = {number for plan in plans for number in (network.everyone if plan.brains is None else plan.brains)}
    resting = Plan(tuple(number for number in brains if number not in active), [], [], frozenset())
    quiet = network.silent({source for plan in plans for source, _ in plan.areas})
    shown: dict[str, list[int]] = {}
    for plan in (*plans, resting):
        reached = _reached(plan)
        fed = {*external, *(target for source, target in (*plan.stimuli, *plan.areas) if source != target)}
        firing = dict.fromkeys(source for source, target in plan.areas if source != target or target not in fed)
        for number in sorted(network.everyone) if plan.brains is None else plan.brains:
            mine = [
                name
                for name in external
                if name not in lasting and (name not in reached or (name in firing and number in quiet[name]))
                if number not in network.areas[name].fixed and number not in inhibited(network.areas[name].locks)
            ]
            for source in firing:
                if number in quiet[source] and source not in mine:
                    raise ValueError(f"{op}: source area must have winners, got none in {source!r}")
            for name in mine:
                shown.setdefault(name, []).append(number)
    return shown


def _reached(plan: Plan) -> list[str]:
    """The areas that something fires into, in the order of the call."""
    return list(dict.fromkeys(target for _, target in (*plan.stimuli, *plan.areas)))


def winners_to_come(brain: RoundsModule, areas: Mapping[str, Iterable[str]]) -> dict[str, Tensor]:
    """The winners that a round of these projections would bring, as if no area were fixed; nothing changes."""
    plan = Plan(None, [], open_pairs(brain, areas), frozenset())
    undo = undoing(brain._network)
    try:
        arrived = _arriving(brain, plan, _reached(plan))
    finally:
        undo()
    known, graph = brain._network.areas, brain._network.graph(0)
    return {name: choose_winners(inputs, known[name], graph) for name, (inputs, _) in arrived.items()}


def _arriving(
    brain: RoundsModule, plan: Plan, targets: Iterable[str], number: int = 0
) -> dict[str, tuple[Tensor, int]]:
    """What areas receive in the round to come; see `summed_inputs`. Columns are normalised as a round begins."""
    for name in _reached(plan):
        if brain._network.areas[name].normalize:
            brain.normalize(name)
    arrived = {}
    for name in targets:
        stimuli, areas = ([s for s, target in pairs if target == name] for pairs in (plan.stimuli, plan.areas))
        arrived[name] = summed_inputs(brain._network, name, stimuli, areas, number)
    return arrived


def undoing(network: Network, shown: Iterable[str] = ()) -> Callable[[], None]:
    """What takes back all that showing these areas and summing inputs change, as long as no round came in between.

    That is winners, scales of normalised columns and fibers that are used for the first time. Base counts stay: they
    know which winners they are of.
    """
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


def _lead(network: Network, targets: Collection[str], spread: float) -> int:
    """What puts chosen winners of the targets ahead of all others, in units of a fresh synapse.

    Args:
        network: in mode "exact".
        targets: areas.
        spread: no two inputs of a target differ by more, in the same units.

    Raises:
        RuntimeError: inputs are so large that nothing could be ahead of them.
    """
    scaled = any(fiber.scale.numel() for (_, into), fiber in network.fibers.items() if into in targets)
    ahead = _AHEAD_SCALED if scaled else _AHEAD
    if spread >= ahead:
        raise RuntimeError(f"project: inputs must differ by less than {ahead} with an external input, got {spread:g}")
    return ahead


def _chosen_round(
    brain: RoundsModule, plans: Iterable[tuple[Plan, list[str]]], chosen: Mapping[str, Mapping[int, Tensor]], ahead: int
) -> None:
    """One round of plans in which the winners of some of their targets are given, by target and brain.

    A stimulus that lasts for this round puts them `ahead` of all others, as `_lead` says: so everything else (which
    winners fire, plasticity, what counts as won) is the brain's own, but for columns, which the caller normalised.
    """
    network = brain._network
    try:
        for target, rows in chosen.items():
            state = StimulusState(network.areas[target], {"stimulus": "", "id": 0}, network.brains, network.device)
            for number, winners in rows.items():
                state.counts[number, winners] = ahead
            network.sources["", target] = state  # a name that no stimulus has
        own = [replace(plan, stimuli=[*plan.stimuli, *(("", name) for name in names)]) for plan, names in plans]
        brain._engine.run(own, 1)
    finally:
        for target in chosen:
            network.sources.pop(("", target), None)
    brain._call_hooks()
