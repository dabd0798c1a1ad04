"""The published lazy simulation of assemblies: neurons exist from the round in which they first win."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from torch_hrr._random import restore_generator, seeded_generator
from torch_hrr.assembly import _sampling as sampling

_SATURATION = 2.0**24

Projections = Mapping[str, Iterable[str]]


@dataclass
class _Area:
    """An area; its neurons are numbered in the order in which they became known."""

    n: int
    k: int
    beta: float
    w_max: float | None
    winners: Tensor
    ever_won: Tensor

    @property
    def known(self) -> int:
        """Neurons that have a number."""
        return self.ever_won.numel()


class _Fiber:
    """The edges among known neurons, and up to which neuron of the source and the target they have been drawn.

    Attributes:
        rows: Neurons of the source whose edges are here.
        columns: Neurons of the target onto which they are.
    """

    def __init__(self, sources: Tensor, targets: Tensor, weights: Tensor, rows: int = 0, columns: int = 0) -> None:
        """The edges i: sources[i] -> targets[i]."""
        self._sources, self._targets, self._weights = sources, targets, weights
        self._count = weights.numel()
        self.rows, self.columns = rows, columns

    @property
    def sources(self) -> Tensor:
        """Int32 [edges]."""
        return self._sources[: self._count]

    @property
    def targets(self) -> Tensor:
        """Int32 [edges]."""
        return self._targets[: self._count]

    @property
    def weights(self) -> Tensor:
        """Float32 [edges], in place."""
        return self._weights[: self._count]

    def append(self, sources: Tensor, targets: Tensor) -> None:
        """Adds edges of weight 1; storage doubles when it is full."""
        count = self._count + sources.numel()
        if count > self._weights.numel():
            more = max(sources.numel(), self._count)
            self._sources = torch.cat([self.sources, self._sources.new_empty(more)])
            self._targets = torch.cat([self.targets, self._targets.new_empty(more)])
            self._weights = torch.cat([self.weights, self._weights.new_empty(more)])
        self._sources[self._count : count] = sources
        self._targets[self._count : count] = targets
        self._weights[self._count : count] = 1
        self._count = count


@dataclass
class _Synapses:
    """From one stimulus onto the known neurons of an area: how many, and the sum of their weights."""

    counts: Tensor
    sums: Tensor

    def append(self, counts: Tensor) -> None:
        """Adds neurons."""
        self.counts = torch.cat([self.counts, counts.float()])
        self.sums = torch.cat([self.sums, counts.float()])


@dataclass
class _Target:
    """What one area receives and decides in a round.

    Attributes:
        stimuli: Stimuli that fire into it.
        areas: Areas that fire into it.
        winners: The next winners, new neurons included.
        recruits: Inputs, in synapses, of the winners that were not known before; they get the next numbers.
        fired: Of each area that fires, 1 for the winners among its known neurons and 0 for the others, float32.
    """

    stimuli: list[str]
    areas: list[str]
    winners: Tensor = field(init=False)
    recruits: Tensor = field(init=False)
    fired: dict[str, Tensor] = field(default_factory=dict)


class SampledEngine:
    """Areas, stimuli and fibers in which only neurons that have won are simulated.

    The method of the published simulator: with w neurons of an area known and K neurons firing into it, the inputs of
    the best k of the n - w others are drawn as round(N(K p, K p (1 - p))) truncated to the part above the binomial
    quantile 1 - k / (n - w). The k largest of these and of the known neurons' inputs win, known ones first among equals
    and then the lower number. A new winner's input is split over the firing neurons without replacement, and all its
    other edges are drawn with probability p when a fiber is first used. Time and memory follow the number of neurons
    that ever won and the edges among them; n is only a parameter.

    It is biased. A normal tail stands in for a binomial one, without correction for its steps, and the candidates of a
    round are drawn afresh, although the neurons that lost have the inputs they had. At n = 1e5, k = 317, p = .01 the
    final support comes out 5 to 7 % high at beta = .05 and 4 to 5 % low at beta = .01; at K p = 1, k = n / 1000 the
    mean of the k largest inputs is 5.11 instead of 5.69. Use the exact mode for anything but comparison with published
    figures.

    Two defects of the published code are not copied. Edges between neurons that two areas recruit in the same round are
    drawn like all others, where it leaves none. And one `torch.Generator`, seeded with `seed`, makes every draw.

    The same seed and the same calls, declarations in the same order, give the same bits with any number of threads on
    one version of torch and one kind of device.

    Source: Mitropolsky, Collins, Papadimitriou, A Biologically Plausible Parser, TACL 9, 2021, and its simulator.

    Args:
        p: probability of an edge, 0 to 1.
        seed: seed of the generator, modulo 2^64; all 64 bits count.
        device: of state and draws.
    """

    def __init__(self, p: float, seed: int, device: torch.device | str = "cpu") -> None:
        """An empty brain."""
        self.p = p
        self._device = torch.device(device)
        self._generator = seeded_generator(seed, self._device)
        self._stimuli: dict[str, int] = {}
        self._areas: dict[str, _Area] = {}
        self._fibers: dict[tuple[str, str], _Fiber] = {}
        self._synapses: dict[tuple[str, str], _Synapses] = {}

    def add_stimulus(self, name: str, size: int) -> None:
        """Declares `size` neurons that fire together."""
        self._stimuli[name] = size

    def add_area(self, name: str, n: int, k: int, beta: float = 0.05, w_max: float | None = None) -> None:
        """Declares n neurons of which k win a round; weights stay at most `w_max`, 2^24 without one."""
        nothing = torch.empty(0, dtype=torch.int64, device=self._device)
        self._areas[name] = _Area(n, k, beta, w_max, nothing, nothing.bool())

    def winners(self, area: str) -> Tensor:
        """Int64, ascending, in the numbers of the area's known neurons; empty before the first round."""
        return self._areas[area].winners.clone()

    def support(self, area: str) -> int:
        """How many neurons ever won."""
        return int(self._areas[area].ever_won.sum())

    def ever_won(self, area: str) -> Tensor:
        """The neurons that ever won, int64, ascending."""
        return self._areas[area].ever_won.nonzero().squeeze(1)

    def edges(self) -> int:
        """How many edges are stored, in all fibers."""
        return sum(len(fiber.weights) for fiber in self._fibers.values())

    def activate(self, area: str, indices: Tensor) -> None:
        """Sets the winners, or none, which counts nothing as won; numbers up to the largest index become known."""
        state = self._areas[area]
        winners = torch.unique(indices.to(self._device, torch.int64))
        missing = int(winners[-1]) + 1 - state.known if len(winners) else 0
        if missing > 0:
            state.ever_won = torch.cat([state.ever_won, state.ever_won.new_zeros(missing)])
        state.winners = winners

    def project_round(
        self,
        stimuli: Projections,
        areas: Projections,
        *,
        plasticity: bool = True,
        betas: Mapping[tuple[str, str], float] | None = None,
        fixed: Collection[str] = (),
    ) -> None:
        """One synchronous step of {source: [targets]}; every target reads the winners before it.

        Args:
            stimuli: the targets of each stimulus.
            areas: the targets of each area. One without winners adds nothing to itself.
            plasticity: whether weights from what fired to the winners are multiplied by 1 + beta.
            betas: of (target, source) pairs, where it is not the target's.
            fixed: areas that keep their winners and do learn.

        Raises:
            ValueError: An area without winners is the source of another one, or is fixed.
        """
        into = self._resolve(stimuli, areas, fixed)
        for name, target in into.items():
            self._select(name, target, name in fixed)
        for name, target in into.items():
            self._recruit(name, target)
            if plasticity:
                self._learn(name, target, betas or {})
        for name, target in into.items():
            area = self._areas[name]
            area.winners = target.winners
            area.ever_won = torch.cat([area.ever_won, area.ever_won.new_zeros(target.recruits.numel())])
            if name not in fixed:
                area.ever_won[target.winners] = True

    def state(self) -> dict[str, Tensor]:
        """Every tensor that changes, under names made of positions in the order of declaration; not copied."""
        tensors = {"generator": self._generator.get_state()}
        areas = {name: i for i, name in enumerate(self._areas)}
        stimuli = {name: i for i, name in enumerate(self._stimuli)}
        for name, area in self._areas.items():
            tensors[f"area.{areas[name]}.winners"] = area.winners
            tensors[f"area.{areas[name]}.ever_won"] = area.ever_won
        for (source, target), fiber in self._fibers.items():
            key = f"fiber.{areas[source]}.{areas[target]}"
            tensors[f"{key}.sources"], tensors[f"{key}.targets"] = fiber.sources, fiber.targets
            tensors[f"{key}.weights"] = fiber.weights
            tensors[f"{key}.drawn"] = torch.tensor([fiber.rows, fiber.columns], device="cpu")
        for (stimulus, target), synapses in self._synapses.items():
            key = f"stimulus.{stimuli[stimulus]}.{areas[target]}"
            tensors[f"{key}.counts"], tensors[f"{key}.sums"] = synapses.counts, synapses.sums
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Takes copies of what `state` gave, over the same declarations and on the same kind of device."""
        restore_generator(self._generator, tensors["generator"].cpu())
        state = {key: tensor.to(self._device, copy=True) for key, tensor in tensors.items() if key != "generator"}
        areas, stimuli = list(self._areas), list(self._stimuli)
        for i, area in enumerate(self._areas.values()):
            area.winners, area.ever_won = state[f"area.{i}.winners"], state[f"area.{i}.ever_won"]
        self._fibers, self._synapses = {}, {}
        for key in state:
            parts = key.split(".")
            prefix = ".".join(parts[:-1])
            if parts[0] == "fiber" and parts[-1] == "drawn":
                sources, targets, weights = (state[f"{prefix}.{each}"] for each in ("sources", "targets", "weights"))
                if state[key].shape != (2,):
                    raise ValueError("a fiber of other neurons")
                fiber = _Fiber(sources, targets, weights, *state[key].tolist())
                self._fibers[areas[int(parts[1])], areas[int(parts[2])]] = fiber
            elif parts[0] == "stimulus" and parts[-1] == "counts":
                synapses = _Synapses(state[key], state[f"{prefix}.sums"])
                self._synapses[stimuli[int(parts[1])], areas[int(parts[2])]] = synapses
        held = self.state()
        kinds = [{name: (each.dtype, each.shape) for name, each in of.items()} for of in (held, tensors)]
        if kinds[0] != kinds[1]:
            raise ValueError("tensors that no sampled brain has")

    def check_state(self) -> None:
        """Whether every number of a neuron is known and all sizes fit; ValueError otherwise."""
        for area in self._areas.values():
            sampling.require(area.ever_won, torch.bool)
            sampling.require(area.winners, torch.int64, area.known)
            if area.known > area.n or area.winners.numel() > area.k:
                raise ValueError("an area with other neurons")
        for (source, target), fiber in self._fibers.items():
            sampling.require(fiber.sources, torch.int32, fiber.rows)
            sampling.require(fiber.targets, torch.int32, fiber.columns)
            sampling.require(fiber.weights, torch.float32)
            if not len(fiber.sources) == len(fiber.targets) == len(fiber.weights) or not fiber.weights.isfinite().all():
                raise ValueError("a fiber with other edges")
            known = self._areas[source].known, self._areas[target].known
            if not (0 <= fiber.rows <= known[0] and 0 <= fiber.columns <= known[1]):
                raise ValueError("a fiber with other neurons")
        for (_, target), synapses in self._synapses.items():
            sampling.require(synapses.counts, torch.float32)
            sampling.require(synapses.sums, torch.float32)
            if len(synapses.counts) != len(synapses.sums) or len(synapses.counts) > self._areas[target].known:
                raise ValueError("a stimulus with other synapses")

    def _resolve(self, stimuli: Projections, areas: Projections, fixed: Collection[str]) -> dict[str, _Target]:
        """The targets with what fires into them, in the order of declaration; raises before any draw."""
        into: dict[str, _Target] = {name: _Target([], []) for name in self._areas}
        for stimulus in self._stimuli:
            for target in dict.fromkeys(stimuli.get(stimulus, ())):
                into[target].stimuli.append(stimulus)
        for source, area in self._areas.items():
            for target in dict.fromkeys(areas.get(source, ())):
                if area.winners.numel():
                    into[target].areas.append(source)
                elif source != target:
                    raise ValueError(f"project: source area must have winners, got none in {source!r}")
        fired_into = {*(name for targets in (*stimuli.values(), *areas.values()) for name in targets)}
        for name in fired_into.intersection(fixed):
            if not self._areas[name].winners.numel():
                raise ValueError(f"project: fixed area must have winners, got none in {name!r}")
        return {name: into[name] for name in self._areas if name in fired_into}

    def _select(self, name: str, target: _Target, fixed: bool) -> None:
        """The next winners, and of the new ones among them the inputs in synapses."""
        area = self._areas[name]
        # Sums below 2^29 of float32 weights of at least 1 are exact in float64, so that their order is nothing.
        inputs = torch.zeros(area.known, dtype=torch.float64, device=self._device)
        for stimulus in target.stimuli:
            inputs += self._drawn_synapses(stimulus, name).sums
        for source in target.areas:
            fiber = self._drawn_fiber(source, name)
            fired = torch.zeros(fiber.rows, dtype=torch.float32, device=self._device)
            fired[self._areas[source].winners] = 1
            target.fired[source] = fired
            inputs.index_add_(0, fiber.targets, (fired.index_select(0, fiber.sources) * fiber.weights).double())
        if fixed:
            target.winners, target.recruits = area.winners, area.winners[:0]
            return
        others = area.n - area.known
        tail = area.k / others if others else 1.0
        candidates = sampling.top_inputs(min(area.k, others), self._firing(target), self.p, tail, self._generator)
        ranked = torch.cat([inputs, candidates.double()]).sort(descending=True, stable=True).indices
        chosen = ranked[: area.k]
        new = chosen >= area.known
        target.recruits = candidates[chosen[new] - area.known]
        numbers = torch.arange(area.known, area.known + target.recruits.numel(), device=self._device)
        target.winners = torch.cat([chosen[~new].sort().values, numbers])

    def _firing(self, target: _Target) -> int:
        """How many neurons fire into the target."""
        stimuli = sum(self._stimuli[stimulus] for stimulus in target.stimuli)
        return stimuli + sum(self._areas[source].winners.numel() for source in target.areas)

    def _recruit(self, name: str, target: _Target) -> None:
        """Draws the edges of the fibers in use onto the new winners: those of what fired by splitting the input."""
        if not target.recruits.numel():
            return
        first, count = self._areas[name].known, target.recruits.numel()
        columns, firing = sampling.distinct_draws(target.recruits, self._firing(target), self._generator)
        begin = 0
        for stimulus in target.stimuli:
            end = begin + self._stimuli[stimulus]
            mine = columns[(firing >= begin) & (firing < end)]
            self._synapses[stimulus, name].append(torch.bincount(mine, minlength=count))
            begin = end
        for source in target.areas:
            winners, fiber = self._areas[source].winners, self._fibers[source, name]
            end = begin + winners.numel()
            mine = (firing >= begin) & (firing < end)
            rows = (target.fired[source] == 0).nonzero().squeeze(1)
            cells = sampling.bernoulli_cells(rows.numel() * count, self.p, self._generator)
            sources = torch.cat([winners[firing[mine] - begin], rows[cells // count]])
            fiber.append(sources, torch.cat([columns[mine], cells % count]) + first)
            fiber.columns = first + count
            begin = end

    def _learn(self, name: str, target: _Target, betas: Mapping[tuple[str, str], float]) -> None:
        """Sets w to min(w (1 + beta), w_max) for the synapses from what fired onto the next winners."""
        area = self._areas[name]
        for stimulus in target.stimuli:
            synapses = self._synapses[stimulus, name]
            factor = 1 + betas.get((name, stimulus), area.beta)
            # The cap is one synapse's, and the sum is that of `counts` synapses.
            sums = synapses.sums[target.winners] * factor
            if area.w_max is not None:
                sums = torch.minimum(sums, synapses.counts[target.winners] * area.w_max)
            synapses.sums[target.winners] = sums.clamp_(max=_SATURATION)
        won = torch.zeros(area.known + target.recruits.numel(), dtype=torch.float32, device=self._device)
        won[target.winners] = 1
        for source in target.areas:
            fiber = self._fibers[source, name]
            learning = target.fired[source].index_select(0, fiber.sources).mul_(won.index_select(0, fiber.targets))
            factor = 1 + betas.get((name, source), area.beta)
            # Rounded first, so that 1 and the rest add up to the float32 factor.
            rest = float(torch.tensor(factor, dtype=torch.float32, device="cpu")) - 1
            fiber.weights.mul_(learning.mul_(rest).add_(1))
            fiber.weights.clamp_(max=_SATURATION if area.w_max is None else area.w_max)

    def _drawn_fiber(self, source: str, target: str) -> _Fiber:
        """The fiber with all edges among neurons known now: the new rows, and the old rows' part of the new columns."""
        if (source, target) not in self._fibers:
            nothing = torch.empty(0, dtype=torch.int32, device=self._device)
            self._fibers[source, target] = _Fiber(nothing, nothing, nothing.float())
        fiber = self._fibers[source, target]
        rows, columns = self._areas[source].known, self._areas[target].known
        for first_row, last_row, first_column in ((0, fiber.rows, fiber.columns), (fiber.rows, rows, 0)):
            width = columns - first_column
            if first_row < last_row and width:
                cells = sampling.bernoulli_cells((last_row - first_row) * width, self.p, self._generator)
                fiber.append(cells // width + first_row, cells % width + first_column)
        fiber.rows, fiber.columns = rows, columns
        return fiber

    def _drawn_synapses(self, stimulus: str, target: str) -> _Synapses:
        """The stimulus's synapses onto every neuron known now."""
        if (stimulus, target) not in self._synapses:
            nothing = torch.empty(0, dtype=torch.float32, device=self._device)
            self._synapses[stimulus, target] = _Synapses(nothing, nothing)
        synapses = self._synapses[stimulus, target]
        missing = self._areas[target].known - synapses.sums.numel()
        if missing:
            trials = torch.full((missing,), float(self._stimuli[stimulus]), dtype=torch.float64, device=self._device)
            probability = torch.full_like(trials, self.p)
            synapses.append(torch.binomial(trials, probability, generator=self._generator))
        return synapses
