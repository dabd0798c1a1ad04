"""Rounds of brains whose state is a list of tensors, as torch operations: the same state, to the last bit.

The host reads how many winners, slots and edges there are. A normalised fiber needs float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from torch_hrr._plain.assembly_connectome import connectome_key, edges

_FIXED_BITS, _SCALED_BITS = 24, 16
_LARGEST_TERM, _LARGEST_INPUT, _LARGEST_BIAS = 2**59, 2**62, 2**61
_LARGEST_WEIGHT = 2.0**24
_CHUNK = 16


@dataclasses.dataclass
class _Area:
    """One brain's arrays, as kernels/assembly/brain.h describes them."""

    n: int
    k: int
    fixed: bool
    bias_step: int
    period: int
    tie_key: int | None
    winners: Tensor
    winner_count: Tensor
    slot_of: Tensor
    neuron_of: Tensor
    won: Tensor
    slots: Tensor
    bias: Tensor | None
    last_win: Tensor | None
    penalties: Tensor

    def active(self) -> Tensor:
        return self.winners[: int(self.winner_count)]

    def add_slots(self, neurons: Tensor) -> None:
        fresh = neurons[self.slot_of[neurons] < 0]
        first = int(self.slots[0])
        numbers = torch.arange(first, first + len(fresh), device=fresh.device)
        self.slot_of[fresh] = numbers.int()
        self.neuron_of[numbers] = fresh.int()
        self.won[numbers] = 0
        self.slots[0] += len(fresh)


@dataclasses.dataclass
class _Fiber:
    source: _Area
    target: _Area
    plastic: bool
    procedural: bool
    p: float
    key: int
    factor: float
    largest: float
    counts: Tensor
    delivered: Tensor
    delivered_count: Tensor
    head: Tensor
    length: Tensor
    known: Tensor
    following: Tensor
    edge_target: Tensor
    weight: Tensor
    chunks: Tensor
    scale: Tensor | None
    column_sums: Tensor | None

    def learns(self) -> bool:
        return self.plastic and self.factor != 1

    def places(self) -> Tensor:
        """Where the known edges of the firing neurons lie."""
        rows = self.source.slot_of[self.source.active()].long()
        chunk = self.head[rows].long()
        filled = (self.length[rows].long() + _CHUNK - 1) % _CHUNK + 1
        place = torch.arange(_CHUNK, device=rows.device)
        found = [rows[:0]]
        while len(chunk):
            is_there = chunk >= 0
            chunk, filled = chunk[is_there], filled[is_there]
            found.append((chunk.unsqueeze(-1) * _CHUNK + place)[place < filled.unsqueeze(-1)])
            chunk, filled = self.following[chunk].long(), torch.full_like(filled, _CHUNK)
        return torch.cat(found)

    def deliver(self) -> None:
        """The counts of base edges from the present winners."""
        active = self.source.active()
        known = int(self.delivered_count) == len(active) and torch.equal(self.delivered[: len(active)], active)
        if known or not self.procedural:
            return
        _, column = edges(active, self.target.n, self.p, self.key)
        self.counts.zero_().scatter_add_(0, column, torch.ones_like(column, dtype=torch.int32))
        self.delivered[: len(active)] = active
        self.delivered_count.fill_(len(active))

    def sums(self) -> Tensor:
        """int64 [n], in units of 2^-24."""
        places = self.places()
        base = int(self.procedural) << _FIXED_BITS
        excess = torch.zeros(self.target.n, dtype=torch.int64, device=places.device)
        neurons = self.target.neuron_of[self.edge_target.view(-1)[places].long()].long()
        excess.scatter_add_(0, neurons, _fixed_point(self.weight.view(-1)[places]) - base)
        return excess + (self.counts.long() << _FIXED_BITS) if self.procedural else excess

    def terms(self, shift: int) -> Tensor:
        if self.scale is None:
            return _term(self.sums(), shift)
        share = self.sums().double() * self.scale * 2.0**_SCALED_BITS
        return share.clamp_max(_LARGEST_TERM).round().long()

    def new_edges(self) -> tuple[Tensor, Tensor]:
        """Rows, ascending, and columns, ascending in a row, of the edges into target slots that a row does not know."""
        active = self.source.active()
        known = self.known[self.source.slot_of[active]]
        rows = active[known < self.target.slots[0]]
        index, column = edges(rows, self.target.n, self.p, self.key)
        row = rows[index]
        missing = self.target.slot_of[column] >= self.known[self.source.slot_of[row]]
        order = (row[missing] * self.target.n + column[missing]).sort().values
        return order // self.target.n, order % self.target.n

    def needs(self, row: Tensor) -> int:
        """Chunks in use with the new edges."""
        number = torch.arange(len(row), device=row.device)
        is_first = torch.searchsorted(row, row) == number
        count = (torch.searchsorted(row, row, right=True) - number)[is_first]
        before = self.length[self.source.slot_of[row[is_first]]].long()
        chunks = (before + count + _CHUNK - 1) // _CHUNK - (before + _CHUNK - 1) // _CHUNK
        return int(self.chunks) + int(chunks.sum())

    def file(self, row: Tensor, column: Tensor) -> None:
        """Puts new edges of weight 1 at the ends of their rows; chunks are numbered in the order of edges."""
        number = torch.arange(len(row), device=row.device)
        slot = self.source.slot_of[row].long()
        start = torch.searchsorted(row, row)
        place = (self.length[slot].long() + number - start) % _CHUNK
        opens = place == 0
        opened = int(self.chunks) + opens.cumsum(0) - 1
        since = torch.where(opens, number, -1).cummax(0).values if len(row) else number
        old = self.head[slot].long()
        chunk = torch.where(since >= start, opened, old)
        before = torch.where(number == start, old, chunk.roll(1))
        self.following[chunk[opens]] = before[opens].int()
        self.edge_target.view(-1)[chunk * _CHUNK + place] = self.target.slot_of[column]
        self.weight.view(-1)[chunk * _CHUNK + place] = 1.0
        ends = torch.searchsorted(row, row, right=True) == number + 1
        self.head[slot[ends]] = chunk[ends].int()
        self.length[slot[ends]] += (number - start + 1)[ends].int()
        self.chunks += opens.sum()
        self.known[self.source.slot_of[self.source.active()]] = self.target.slots[0].int()

    def potentiate(self, winners: Tensor) -> None:
        wins = torch.zeros(len(self.target.neuron_of), dtype=torch.bool, device=winners.device)
        wins[self.target.slot_of[winners]] = True
        places = self.places()
        places = places[wins[self.edge_target.view(-1)[places].long()]]
        weight = self.weight.view(-1)
        grown = (weight[places] * self.factor).clamp_max(self.largest)
        if self.column_sums is not None:
            neurons = self.target.neuron_of[self.edge_target.view(-1)[places].long()].long()
            self.column_sums.scatter_add_(0, neurons, _fixed_point(grown) - _fixed_point(weight[places]))
        weight[places] = grown

    def refresh_scale(self) -> None:
        """Divides the columns of the target's winners, which grew in the round before, by their sums."""
        if self.column_sums is not None and self.scale is not None:
            winners = self.target.active()
            sums = self.column_sums[winners].clamp_max(_LARGEST_INPUT)
            self.column_sums[winners] = sums
            total = sums.double() / 2**_FIXED_BITS
            self.scale[winners] = torch.where(total > 0, 1 / total, torch.zeros_like(total))


@dataclasses.dataclass
class _Stimulus:
    target: _Area
    plastic: bool
    factor: float
    largest: float
    counts: Tensor
    weight: Tensor

    def terms(self, shift: int) -> Tensor:
        sums = self.counts.long() << _FIXED_BITS
        slots = int(self.target.slots[0])
        weight, neurons = self.weight[:slots], self.target.neuron_of[:slots].long()
        sums[neurons] = torch.maximum(_fixed_point(weight), sums[neurons])
        return _term(sums, shift)

    def potentiate(self, winners: Tensor) -> None:
        slot = self.target.slot_of[winners].long()
        count, weight = self.counts[winners].float(), self.weight[slot]
        limit = torch.maximum(count, (count * self.largest).clamp_max(_LARGEST_WEIGHT))
        self.weight[slot] = torch.minimum(torch.where(weight != 0, weight, count) * self.factor, limit)


class _Brain:
    """One brain of the state that csrc/assembly/state.cpp reads."""

    def __init__(self, b: int, state: list[Tensor], layout: list[int], rates: list[float], seed: int) -> None:
        tensors, integers, floats = iter(state), iter(layout), iter(rates)
        _, self.rounds, areas, fibers, stimuli = (next(integers) for _ in range(5))
        numbers = next(tensors)
        number = int(numbers[b]) if numbers.numel() else b
        self.areas = [self._area(b, number, tensors, integers, seed) for _ in range(areas)]
        self.fibers = [self._fiber(b, number, tensors, integers, floats, seed) for _ in range(fibers)]
        self.stimuli = [self._stimulus(b, tensors, integers, floats) for _ in range(stimuli)]
        self.progress = next(tensors)[b]

    @staticmethod
    def _area(b: int, number: int, tensors: Iterator[Tensor], integers: Iterator[int], seed: int) -> _Area:
        n, k, fixed, bias_step, period, keyed_ties, id = (next(integers) for _ in range(7))
        arrays: list[Any] = [next(tensors)[b] for _ in range(6)]
        arrays += [_given(next(tensors), b, n) for _ in range(2)]
        arrays.append(next(tensors))
        tie_key = connectome_key(seed, id, number) if keyed_ties else None
        return _Area(n, k, bool(fixed), bias_step, period, tie_key, *arrays)

    def _fiber(
        self,
        b: int,
        number: int,
        tensors: Iterator[Tensor],
        integers: Iterator[int],
        floats: Iterator[float],
        seed: int,
    ) -> _Fiber:
        source, target = (self.areas[next(integers)] for _ in range(2))
        plastic, procedural, id = (next(integers) for _ in range(3))
        p, beta, w_max = (next(floats) for _ in range(3))
        key = connectome_key(seed, id, number)
        arrays: list[Any] = [next(tensors)[b] for _ in range(10)]
        arrays += [_given(next(tensors), b, target.n) for _ in range(2)]
        factor, largest = _factor(beta), _largest(w_max, source.k)
        return _Fiber(source, target, bool(plastic), bool(procedural), p, key, factor, largest, *arrays)

    def _stimulus(
        self, b: int, tensors: Iterator[Tensor], integers: Iterator[int], floats: Iterator[float]
    ) -> _Stimulus:
        target, plastic = self.areas[next(integers)], bool(next(integers))
        weights = (_factor(next(floats)), _largest(next(floats), 1))
        return _Stimulus(target, plastic, *weights, next(tensors)[b], next(tensors)[b])

    def check(self) -> None:
        """Winners are neurons, and every area has memory for the slots that the rounds left may add."""
        left = int(self.progress[0])
        if not 0 <= left <= self.rounds:
            raise RuntimeError(f"project_: rounds left must be in 0..{self.rounds}, got {left}")
        for area in self.areas:
            slots, capacity, count = int(area.slots[0]), len(area.neuron_of), int(area.winner_count)
            if not 0 <= slots <= capacity:
                raise RuntimeError(f"project_: slots must be in 0..{capacity}, got {slots}")
            most = min(area.n, slots + (left + 1) * area.k)
            if capacity < most:
                raise RuntimeError(f"project_: an area must have memory for {most} slots, got {capacity}")
            if not 0 <= count <= area.k:
                raise RuntimeError(f"project_: an area must have 0 to k winners, got {count}")
            winners = area.active()
            if ((winners < 0) | (winners >= area.n)).any() or (winners.diff() <= 0).any():
                raise IndexError(f"project_: winners must ascend in 0..n - 1 of {area.n}")

    def run(self) -> None:
        self.progress[1:] = 0
        while int(self.progress[0]) and self._round():
            self.progress[0] -= 1

    def _round(self) -> bool:
        """False where edges need more memory; nothing but caches has changed then."""
        for area in self.areas:
            area.add_slots(area.active())
        for fiber in self.fibers:
            fiber.refresh_scale()
        targets = self._targets()
        winners = {id(area): self._choose(area) for area in targets}
        for area in targets:
            area.add_slots(winners[id(area)])
        found = [(fiber, *fiber.new_edges()) for fiber in self.fibers if fiber.procedural and fiber.learns()]
        fits = True
        for fiber, row, _ in found:
            needed = fiber.needs(row)
            self.progress[1 + self._number(fiber)] = needed
            fits = fits and needed <= len(fiber.following)
        if not fits:
            return False
        for fiber, row, column in found:
            fiber.file(row, column)
        for fiber in self.fibers:
            if fiber.learns():
                fiber.potentiate(winners[id(fiber.target)])
        for stimulus in self.stimuli:
            if stimulus.plastic and stimulus.factor != 1:
                stimulus.potentiate(winners[id(stimulus.target)])
        for area in targets:
            _commit(area, winners[id(area)])
        return True

    def _targets(self) -> list[_Area]:
        into = [fiber.target for fiber in self.fibers] + [stimulus.target for stimulus in self.stimuli]
        return [area for area in self.areas if any(area is target for target in into)]

    def choose_parts(self, winners: list[Tensor], inputs: list[Tensor], first: list[int]) -> None:
        """What areas would select in the next round among the neurons from `first` on, and their inputs."""
        for area in self.areas:
            area.add_slots(area.active())
        for area in self._targets():
            place = next(a for a, own in enumerate(self.areas) if own is area)
            if not area.fixed:
                received = self._inputs(area)[first[place] :]
                chosen = choose_winners(received, area.k, None)
                winners[place].copy_(chosen + first[place])
                inputs[place].copy_(received[chosen])

    def _number(self, fiber: _Fiber) -> int:
        return next(f for f, own in enumerate(self.fibers) if own is fiber)

    def _choose(self, area: _Area) -> Tensor:
        return area.active().clone() if area.fixed else choose_winners(self._inputs(area), area.k, area.tie_key)

    def _inputs(self, area: _Area) -> Tensor:
        fibers = [fiber for fiber in self.fibers if fiber.target is area]
        shift = _SCALED_BITS if any(fiber.scale is not None for fiber in fibers) else 0
        inputs = torch.zeros(area.n, dtype=torch.int64, device=area.winners.device)
        for fiber in fibers:
            fiber.deliver()
            inputs = (inputs + fiber.terms(shift)).clamp_max(_LARGEST_INPUT)
        for stimulus in self.stimuli:
            if stimulus.target is area:
                inputs = (inputs + stimulus.terms(shift)).clamp_max(_LARGEST_INPUT)
        if area.bias is not None:
            inputs = inputs - _term(area.bias, shift)
        if area.last_win is not None and area.period:
            penalty = area.penalties[area.last_win.clamp_max(area.period - 1)]
            inputs = inputs - torch.where(area.last_win < area.period, _term(penalty, shift), 0)
        return inputs


def _given(tensor: Tensor, b: int, n: int) -> Tensor | None:
    """A brain's part of a tensor that may be absent."""
    return None if tensor.numel() == 0 and n else tensor[b]


def choose_winners(inputs: Tensor, k: int, tie_key: int | None) -> Tensor:
    """The k largest inputs, int64 [k] ascending; of equal ones the lowest of `_tie_ranks`, without a key the first."""
    order = torch.arange(len(inputs), device=inputs.device)
    if tie_key is not None:
        order = _tie_ranks(tie_key, len(inputs), inputs.device).argsort()
    return order[inputs[order].sort(descending=True, stable=True).indices[:k]].sort().values


def _tie_ranks(key: int, n: int, device: torch.device) -> Tensor:
    """int64 [n] in 0..2^32 - 1, all different: among equal inputs the neuron of the lowest wins."""

    def mixed(x: Tensor) -> Tensor:
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            # The low 32 bits of the product of two 32-bit numbers do not see that it may wrap around in 64.
            x = ((x ^ x >> shift) * factor) & 0xFFFFFFFF
        return x ^ x >> 16

    return mixed(mixed(torch.arange(n, device=device) ^ key & 0xFFFFFFFF) ^ (key >> 32 & 0xFFFFFFFF))


def _single(number: float) -> float:
    """Rounded to float32."""
    return float(torch.tensor(number, dtype=torch.float32))


def _factor(beta: float) -> float:
    return _single(min(1 + beta, 2.0**127))


def _largest(w_max: float, firing: int) -> float:
    return _single(min(w_max, _LARGEST_WEIGHT, 2.0**35 / firing))


def _fixed_point(weight: Tensor) -> Tensor:
    """round(w 2^24): the product and its rounding are exact in float32."""
    return (weight * 2.0**_FIXED_BITS).round().long()


def _term(sums: Tensor, shift: int) -> Tensor:
    return sums.clamp_max(_LARGEST_TERM >> shift) << shift


def _commit(area: _Area, winners: Tensor) -> None:
    if area.last_win is not None:
        area.last_win += (area.last_win < area.period).int()
    if area.fixed:
        return
    slots = area.slot_of[winners]
    area.slots[1] += (area.won[slots] == 0).sum()
    area.won[slots] = 1
    if area.bias is not None:
        area.bias[winners] = (area.bias[winners] + area.bias_step).clamp_max(_LARGEST_BIAS)
    if area.last_win is not None:
        area.last_win[winners] = 0
    area.winners[: len(winners)] = winners
    area.winner_count.fill_(len(winners))


def project_(state: list[Tensor], layout: list[int], rates: list[float], seed: int) -> None:
    """The rounds left of every brain, as far as memory for edges goes; `progress` tells what is missing."""
    brains = [_Brain(b, state, layout, rates, seed) for b in range(layout[0])]
    for brain in brains:
        brain.check()
    for brain in brains:
        brain.run()


def project_part_(
    state: list[Tensor],
    winners: list[Tensor],
    inputs: list[Tensor],
    layout: list[int],
    rates: list[float],
    first: list[int],
    seed: int,
) -> None:
    """`project_` of one brain with fixed areas; without rounds, the winners among some neurons and their inputs."""
    brain = _Brain(0, state, layout, rates, seed)
    brain.check()
    if brain.rounds:
        brain.run()
    else:
        brain.choose_parts(winners, inputs, first)
