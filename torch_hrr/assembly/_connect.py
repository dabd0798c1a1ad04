"""Tables of edges in plain torch: graphs of the user's own, and the columns of normalised fibers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_hrr._progress import Tick, in_parts, unseen
from torch_hrr.assembly._state import EDGES_PER_CHUNK, FIXED_ONE, AreaState, FiberState

# Synapses that are drawn at once, and the time that takes on a slow core.
_SYNAPSES, _SECONDS = 2.0**25, 0.15

Graphs = Sequence[tuple[int, int]]
"""The seed and the number of each brain, which name its random graph."""


def chunked_edges(
    table: tuple[Tensor, Tensor, Tensor], source: AreaState, target: AreaState, fiber: FiberState
) -> None:
    """Puts a graph, sorted by row, into a fiber that has none; every neuron with an edge gets a slot."""
    rows, columns, weights = (part.to(fiber.head.device) for part in table)
    for brain in range(len(source.slots)):
        row_slots = slots_of_neurons(source, brain, rows)
        column_slots = slots_of_neurons(target, brain, columns)
        # Rows are contiguous: their first edge, their length, and from them each edge's place in its row.
        distinct, length = torch.unique_consecutive(row_slots, return_counts=True)
        start = length.cumsum(0) - length
        chunks = (length + EDGES_PER_CHUNK - 1) // EDGES_PER_CHUNK
        first_chunk = chunks.cumsum(0) - chunks
        fiber.reserve(source.neuron_of.shape[1])
        count = int(chunks.sum())
        fiber.reserve_chunks(count)
        place = torch.arange(len(rows), device=rows.device) - start.repeat_interleave(length)
        chunk = first_chunk.repeat_interleave(length) + place // EDGES_PER_CHUNK
        fiber.target[brain].view(-1)[chunk * EDGES_PER_CHUNK + place % EDGES_PER_CHUNK] = column_slots.int()
        fiber.weight[brain].view(-1)[chunk * EDGES_PER_CHUNK + place % EDGES_PER_CHUNK] = weights
        # The newest chunk is a row's last, which alone may be part full, and leads back to its first.
        before = torch.arange(-1, count - 1, dtype=torch.int32, device=rows.device)
        before[first_chunk] = -1
        fiber.next[brain, :count] = before
        fiber.head[brain, distinct] = (first_chunk + chunks - 1).int()
        fiber.length[brain, distinct] = length.int()
        fiber.chunks[brain] = count


def slots_of_neurons(area: AreaState, brain: int, neurons: Tensor) -> Tensor:
    """The slots of neurons, new ones where they have none."""
    new = torch.unique(neurons[area.slot_of[brain, neurons] < 0])
    first = int(area.slots[brain, 0])
    area.reserve(first + len(new))
    area.slot_of[brain, new] = torch.arange(first, first + len(new), dtype=torch.int32, device=new.device)
    area.neuron_of[brain, first : first + len(new)] = new.int()
    area.slots[brain, 0] += len(new)
    return area.slot_of[brain, neurons].long()


def draw_degrees(
    op: str, target: AreaState, fibers: Sequence[tuple[AreaState, FiberState]], graphs: Graphs, tick: Tick = unseen
) -> None:
    """Counts, once, the synapses of random graphs onto each target, for which the whole graphs are drawn, in parts."""
    fresh = [(source, fiber) for source, fiber in fibers if fiber.procedural and not fiber.degrees.numel()]
    drawn = [torch.zeros_like(fiber.counts) for _, fiber in fresh]
    parts = [
        (counts[brain], fiber, seed, number, torch.arange(source.n, device=counts.device)[first : first + rows])
        for counts, (source, fiber) in zip(drawn, fresh, strict=True)
        for brain, (seed, number) in enumerate(graphs)
        for rows in [math.ceil(_SYNAPSES / (1 + target.n * fiber.p))]
        for first in range(0, source.n, rows)
    ]
    waiting = iter(parts)

    def draw(count: int) -> None:
        for counts, fiber, seed, number, neurons in itertools.islice(waiting, count):
            inputs = torch.ops.torch_hrr.connectome_inputs(neurons, target.n, fiber.p, seed, fiber.id, number)
            counts.add_(inputs)

    in_parts(op, len(parts), _SECONDS, draw, tick)
    for counts, (_, fiber) in zip(drawn, fresh, strict=True):
        fiber.hold("degrees", counts, persistent=False)


def column_sums(source: AreaState, target: AreaState, fiber: FiberState, graphs: Graphs) -> Tensor:
    """sum_i w_ij of every column j, in units of 2^-24: int64 [brains, n_target]."""
    sums = torch.zeros(len(fiber.chunks), target.n, dtype=torch.int64, device=fiber.chunks.device)
    if fiber.procedural:
        draw_degrees("normalize", target, [(source, fiber)], graphs)
        sums = fiber.degrees.long() * FIXED_ONE
    for brain in range(len(sums)):
        _, columns, weights = fiber.edges(brain)
        excess = (weights.double() * FIXED_ONE).round().long() - (FIXED_ONE if fiber.procedural else 0)
        sums[brain].index_add_(0, target.neuron_of[brain].long()[columns], excess)
    return sums


def scale_columns(source: AreaState, target: AreaState, fiber: FiberState, graphs: Graphs) -> None:
    """Lets the columns of a fiber count as if they were divided by their present sums; 0 where one has no synapse.

    Where that is done before every round, rounds keep the sums from now on, and divide the columns that grow by them.
    """
    if fiber.sums.numel() and fiber.scale.shape == fiber.sums.shape:
        return
    sums = column_sums(source, target, fiber, graphs)
    if target.normalize:
        fiber.hold("sums", sums, persistent=False)
    scale = reciprocals(sums)
    if fiber.scale.shape == scale.shape:
        # In its place, where captured rounds look for it.
        fiber.scale.copy_(scale)
    else:
        fiber.hold("scale", scale)


def scale_winners(target: AreaState, fiber: FiberState) -> None:
    """As `scale_columns` where the sums are kept, after a round: of the winners alone, whose columns grew in it."""
    if fiber.sums.numel():
        # Places after the last winner hold any neurons, whose columns stay as they are.
        fiber.scale.scatter_(1, target.winners, reciprocals(fiber.sums.gather(1, target.winners)))


def reciprocals(sums: Tensor) -> Tensor:
    """What columns of these sums count times: float64."""
    total = sums.double() / FIXED_ONE
    return torch.where(total > 0, 1 / total, torch.zeros_like(total))
