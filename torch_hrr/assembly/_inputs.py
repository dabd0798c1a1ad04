"""What areas receive and what synapses weigh, read between rounds in the fixed point in which rounds sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._connect import column_sums, reciprocals
from torch_hrr.assembly._network import Network
from torch_hrr.assembly._state import FIXED_ONE, FiberState

_ops = torch.ops.torch_hrr

_SCALED_BITS = 16
# Of what is drawn at a time for a matrix of weights.
_ELEMENTS = 1 << 24


def inputs(network: Network, area: str, stimuli: Iterable[str], areas: Iterable[str]) -> Tensor:
    """`Brain.inputs` of every brain: float64 [brains, n]."""
    op = "inputs"
    network.area(op, area)
    network.check_exact(op)
    firing, sources = checks.several(op, "stimuli", stimuli), checks.several(op, "areas", areas)
    for name in firing:
        network.check_stimulus(op, name)
    for name in sources:
        network.area(op, name)
    rows = []
    for brain in range(network.brains):
        total, bits = summed_inputs(network, area, dict.fromkeys(firing), dict.fromkeys(sources), brain)
        rows.append(total.double() / 2.0**bits)
    return torch.stack(rows)


def summed_inputs(
    network: Network, target: str, stimuli: Iterable[str], sources: Iterable[str], brain: int = 0
) -> tuple[Tensor, int]:
    """What stimuli and the present winners of the sources send into an area, as the round to come ranks it.

    Base counts follow the winners as in a round: those that left are taken away, those that came are added. What the
    histories of neurons (bias, refractory period) take from their inputs is taken away.

    Returns:
        int64 ``[n]``, and how many of its bits are behind the point: 24, or 40 where a fiber is normalised.
    """
    area = network.areas[target]
    fibers = [(network.areas[source], *_fiber(network, source, target)) for source in sources]
    shift = _SCALED_BITS if any(scale.numel() for *_, scale in fibers) else 0
    total = torch.zeros(area.n, dtype=torch.int64, device=area.winners.device)
    for stimulus in stimuli:
        sums = network.stimulus_counts(stimulus, target)[brain].long() * FIXED_ONE
        neurons, weights = _grown(network, stimulus, target, brain)
        # float32 may round a count down.
        sums[neurons] = torch.maximum(fixed_point(weights), sums[neurons])
        total += sums << shift
    for source, fiber, scale in fibers:
        firing = source.winners[brain, : int(source.winner_count[brain])]
        sums = torch.zeros_like(total)
        if fiber.procedural:
            sums = base_counts(network, firing, fiber, brain).long() * FIXED_ONE
        slots = source.slot_of[brain, firing].long()
        _, columns, weights = fiber.edges(brain, slots[slots >= 0])
        excess = fixed_point(weights) - (FIXED_ONE if fiber.procedural else 0)
        sums.index_add_(0, area.neuron_of[brain].long()[columns], excess)
        if scale.numel():
            total += _scaled(sums, scale[brain])
        else:
            total += sums << shift
    if area.bias.numel():
        total -= area.bias[brain] << shift
    if area.last_win.numel():
        age = area.last_win[brain].long()
        inhibited = age < area.refractory_period
        total[inhibited] -= area.penalties[age[inhibited]] << shift
    return total, 24 + shift


def inputs_of_rows(network: Network, source: str, target: str, rows: Tensor) -> Iterator[Tensor] | None:
    """What `summed_inputs` gives for each of many sets of winners of one source, bool ``[m, n_source]``, of brain 0.

    The target has neither a bias nor a refractory period. int64 ``[some of m, n]`` in turn; None where sums have no
    room in float64: all others are exact there, whatever their order.
    """
    from_area, into = network.ends("inputs", source, target)
    neurons = [torch.arange(area.n, device=network.device) for area in (from_area, into)]
    weights = fixed_point(synapses(network, source, target, neurons[0], neurons[1], 0)).double()
    if weights.sum(0).max() >= 2.0**53:
        return None
    _, scale = _fiber(network, source, target)
    parts = rows.split(max(1, _ELEMENTS // (8 * into.n)))
    sums = (part.to(weights) @ weights for part in parts)
    return (_scaled(each, scale[0]) if scale.numel() else each.long() for each in sums)


def _scaled(sums: Tensor, scale: Tensor) -> Tensor:
    return (sums.double() * scale * float(1 << _SCALED_BITS)).round().long()


def stimulus_weights(network: Network, stimulus: str, area: str, brain: int) -> Tensor:
    """The sum of the weights of a stimulus's synapses with each neuron of an area: float32 [n]."""
    weights = network.stimulus_counts(stimulus, area)[brain].float()
    neurons, grown = _grown(network, stimulus, area, brain)
    weights[neurons] = grown
    return weights


def _grown(network: Network, stimulus: str, area: str, brain: int) -> tuple[Tensor, Tensor]:
    """The neurons of an area whose synapses with a stimulus have grown, int64, and the sums of their weights."""
    state = network.areas[area]
    if (stimulus, area) not in network.sources:
        return state.neuron_of[brain, :0].long(), torch.zeros(0, dtype=torch.float32, device=network.device)
    weights = network.sources[stimulus, area].weight[brain, : int(state.slots[brain, 0])]
    slots = weights.nonzero().squeeze(1)
    return state.neuron_of[brain, slots].long(), weights[slots]


def synapses(network: Network, source: str, target: str, rows: Tensor, columns: Tensor, brain: int) -> Tensor:
    """Weights from some neurons of an area to some of another, 0 where there is no synapse: float32 [rows, columns]."""
    from_area, into = network.areas[source], network.areas[target]
    rows, row_places = torch.unique(rows, return_inverse=True)
    columns, column_places = torch.unique(columns, return_inverse=True)
    fiber = network.fibers.get((source, target))
    config = network.fiber_config(source, target) if fiber is None else fiber.config()
    weights = torch.zeros(len(rows), len(columns), dtype=torch.float32, device=network.device)
    if config["procedural"]:
        seed, number = network.graph(brain)
        at_once = max(1, _ELEMENTS // into.n)
        for first in range(0, len(rows), at_once):
            neurons = rows[first : first + at_once].unsqueeze(1)
            drawn = _ops.connectome_inputs(neurons, into.n, config["p"], seed, config["id"], number)
            weights[first : first + at_once] = drawn[:, columns].float()
    if fiber is not None:
        slots = from_area.slot_of[brain, rows].long()
        row_of = torch.full((from_area.neuron_of.shape[1] + 1,), -1, dtype=torch.int64, device=rows.device)
        row_of[slots[slots >= 0]] = (slots >= 0).nonzero().squeeze(1)
        edge_rows, edge_columns, values = fiber.edges(brain, slots[slots >= 0])
        neurons = into.neuron_of[brain].long()[edge_columns]
        places = torch.searchsorted(columns, neurons).clamp(max=max(len(columns) - 1, 0))
        found = columns[places] == neurons if len(columns) else torch.zeros_like(neurons, dtype=torch.bool)
        weights[row_of[edge_rows[found]], places[found]] = values[found]
    return weights[row_places][:, column_places]


def fixed_point(weights: Tensor) -> Tensor:
    """In units of 2^-24."""
    return (weights.double() * FIXED_ONE).round().long()


def _fiber(network: Network, source: str, target: str) -> tuple[FiberState, Tensor]:
    """The fiber and its scales in the round to come; one that was not used yet is not declared by reading it."""
    fiber = network.fibers.get((source, target))
    from_area, into = network.areas[source], network.areas[target]
    if fiber is None:
        fiber = FiberState(from_area, into, network.fiber_config(source, target), network.brains, network.device)
        fiber.reserve(from_area.neuron_of.shape[1])
    if fiber.scale.numel() or not (into.normalize or source in into.normalized):
        return fiber, fiber.scale
    return fiber, reciprocals(column_sums(from_area, into, fiber, network.graphs))


def _without(these: Tensor, those: Tensor) -> Tensor:
    """What is not among those; both ascend."""
    if not len(those):
        return these
    return these[those[torch.searchsorted(those, these).clamp_(max=len(those) - 1)] != these]


def base_counts(network: Network, firing: Tensor, fiber: FiberState, brain: int, first: int = 0) -> Tensor:
    """Base synapses of the targets from one on with the winners that fire, int32; the round to come finds them done.

    Of a fiber whose rounds are not to come, the counts of targets before the first are not made.
    """
    seed, number = network.graph(brain)
    known = int(fiber.delivered_count[brain])
    before = fiber.delivered[brain, : max(known, 0)]
    entered, left = _without(firing, before), _without(before, firing)
    # Until they are done: what stops in between leaves counts of no winners.
    fiber.delivered_count[brain] = -1
    counts = fiber.counts[brain, first:]
    if known < 0 or len(entered) + len(left) > len(firing):
        counts.zero_()
        entered, left = firing, firing[:0]
    for neurons, sign in ((entered, 1), (left, -1)):
        _ops._connectome_counts_(counts, neurons, first, sign, fiber.p, seed, fiber.id, number)
    fiber.delivered[brain, : len(firing)] = firing
    fiber.delivered_count[brain] = len(firing)
    return counts
