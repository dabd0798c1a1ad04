"""Rounds which real numbers join: external inputs, in the same fixed point as the inputs of areas themselves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from torch_hrr._progress import Tick, in_parts, unseen
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._inputs import summed_inputs
from torch_hrr.assembly._network import Network, Pairs, inhibited, pairs_of
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
def checked(brain: RoundsModule, op: str, argument: str, external: Any) -> dict[str, Tensor]:
    """External inputs by area, as copies on the device, in the graph of what was given."""
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
        if values.shape != (n,):
            raise ValueError(f"{op}: {what} must have shape [{n}], got {list(values.shape)}")
        # A copy: the next call may repeat what was given, whatever the caller has written there since.
        given[name] = values.to(brain.device, copy=True)
    return given


def check_possible(brain: RoundsModule, op: str) -> None:
    """Raises where there are no external inputs."""
    brain._network.check_exact(op)
    if brain.batch is not None:
        raise ValueError(f"{op}: external must not be given with a batch, got one of {brain.batch} brains")
    if is_capturing(brain.device):
        raise RuntimeError(f"{op}: rounds with external inputs cannot be captured")


def open_pairs(brain: RoundsModule, projections: Mapping[str, Iterable[str]]) -> Pairs:
    """The pairs of areas of which nothing is inhibited."""
    return [pair for pair in pairs_of(projections) if brain._network.is_open(*pair)]


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
    lasting: Collection[str] = (),
    record: bool = False,
    what: str = "external input",
) -> Received | None:
    """Rounds of `Brain.project` with external inputs that `checked` gave.

    Args:
        brain: of one brain, in mode "exact".
        op: the caller's name.
        stimuli: as for `Brain.project`.
        areas: as for `Brain.project`.
        external: external inputs by area.
        rounds: how many.
        tick: see `in_parts`.
        lasting: areas whose external input joins what they receive, but sets no winners by itself.
        record: whether what areas received in the last round is wanted.
        what: what the external inputs are, for errors.

    Returns:
        What each area received in the last round beside its external input, float64 ``[n]``, None where that was
        nothing; empty without `record`. None if there was no round.
    """
    network = brain._network
    known = network.areas
    stimuli = checks.projections(op, "stimuli", checks.or_nothing(stimuli), network.stimuli, known, "stimulus")
    areas = checks.projections(op, "areas", checks.or_nothing(areas), known, known, "area")
    for name, values in external.items():
        largest = float(values.detach().double().abs().max())
        if not largest <= _LARGEST:
            kind = str(values.dtype).removeprefix("torch.")
            raise ValueError(f"{op}: {what} of {name!r} must be finite and at most 2^20 in {kind}, got {largest}")
    pairs = [*((s, t) for s, t in pairs_of(stimuli) if not inhibited(known[t].locks)), *open_pairs(brain, areas)]
    reached = dict.fromkeys(target for _, target in pairs)
    fed = {*external, *(target for source, target in pairs if source != target)}
    firing = dict.fromkeys(s for s, t in pairs if s in known and (s != t or t not in fed))
    quiet = silent(brain, firing)
    shown = [
        name
        for name in external
        if name not in lasting and (name not in reached or name in quiet)
        if not known[name].fixed and not inhibited(known[name].locks)
    ]
    for source in quiet:
        if source not in shown:
            raise ValueError(f"{op}: source area must have winners, got none in {source!r}")
    if rounds == 0 or not (shown or reached):
        return None
    seconds = 2 * network.seconds(network.plans(op, stimuli, areas, reached=external)) + _ROUND
    received: Received = dict.fromkeys(shown) if record else {}
    undo = undoing(network, shown)
    for name in shown:
        nothing = torch.zeros(known[name].n, dtype=torch.int64, device=network.device)
        brain._set_winners(op, name, _choose(network, name, nothing, external=external[name]), [0])
    if not reached:
        return received
    pulled = {name: external[name] for name in reached if name in external and not known[name].fixed}
    own = 0 if pulled else rounds - record
    if own:
        brain._run(op, stimuli, areas, own, None, tick, total=rounds)
    done = own

    def some(count: int) -> None:
        nonlocal done
        for _ in range(count):
            last = record and done == rounds - 1
            undoes = undoing(network) if done else undo
            try:
                arrived = _arriving(brain, pairs, reached if last else pulled)
                if last:
                    received.update({name: inputs.double() / 2.0**bits for name, (inputs, bits) in arrived.items()})
                chosen = {name: _choose(network, name, *arrived[name], values) for name, values in pulled.items()}
                sums = (arrived[name] for name in pulled)
                spread = max((float(inputs.max() - inputs.min()) / 2.0**bits for inputs, bits in sums), default=0.0)
                ahead = _lead(network, chosen, spread)
            except BaseException:
                undoes()
                raise
            _chosen_round(brain, op, stimuli, areas, chosen, ahead)
            done += 1

    if done < rounds:
        most = 1 if brain._hooks else sys.maxsize
        in_parts(op, rounds - own, seconds, some, tick, before=own, total=rounds, most=most)
    return received


def winners_to_come(brain: RoundsModule, areas: Mapping[str, Iterable[str]]) -> dict[str, Tensor]:
    """The winners that a round of these projections would bring, as if no area were fixed; nothing changes."""
    pairs = open_pairs(brain, areas)
    undo = undoing(brain._network)
    try:
        arrived = _arriving(brain, pairs, dict.fromkeys(target for _, target in pairs))
    finally:
        undo()
    return {name: _choose(brain._network, name, inputs) for name, (inputs, _) in arrived.items()}


def _arriving(brain: RoundsModule, pairs: Pairs, targets: Iterable[str]) -> dict[str, tuple[Tensor, int]]:
    """What areas receive in the round to come; see `summed_inputs`. Columns are normalised as a round begins."""
    network = brain._network
    for name in dict.fromkeys(target for _, target in pairs):
        if network.areas[name].normalize:
            brain.normalize(name)
    arrived = {}
    for name in targets:
        sources = [source for source, target in pairs if target == name]
        firing = [source for source in sources if source in network.stimuli]
        arrived[name] = summed_inputs(network, name, firing, [each for each in sources if each in network.areas])
    return arrived


def _choose(network: Network, area: str, inputs: Tensor, bits: int = 24, external: Tensor | None = None) -> Tensor:
    """The winners of an area by ``inputs + external``, ascending; the external input is rounded to `bits` bits."""
    if external is not None:
        inputs = inputs + (external.detach().double() * 2.0**bits).round().long()
    return choose_winners(inputs, network.areas[area], network.seed)


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
        network: of one brain, in mode "exact".
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
    brain: RoundsModule,
    op: str,
    stimuli: Mapping[str, Iterable[str]],
    areas: Mapping[str, Iterable[str]],
    chosen: Mapping[str, Tensor],
    ahead: int,
) -> None:
    """One round of the brain in which the winners of some targets are given.

    A stimulus that lasts for this round puts them ahead of all others: so everything else (which winners fire,
    plasticity, what counts as won) is the brain's own, but for columns, which the caller normalised before.

    Args:
        brain: of one brain, in mode "exact".
        op: the caller's name.
        stimuli: ``{stimulus: [areas]}``, which the brain accepts.
        areas: ``{area: [areas]}``, likewise.
        chosen: ``{target: its k winners}``.
        ahead: of `_lead`.
    """
    network = brain._network
    plan = network.plans(op, stimuli, areas, reached=chosen)[0]
    try:
        for target, winners in chosen.items():
            state = StimulusState(network.areas[target], {"stimulus": "", "id": 0}, 1, winners.device)
            state.counts[0, winners] = ahead
            network.sources["", target] = state  # a name that no stimulus has
        brain._engine.run([replace(plan, stimuli=[*plan.stimuli, *(("", target) for target in chosen)])], 1)
    finally:
        for target in chosen:
            network.sources.pop(("", target), None)
    brain._call_hooks()
