"""A brain whose areas are divided among the ranks of torch.distributed: every rank has the synapses of some neurons."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from torch_hrr._checks import checked_path
from torch_hrr._plain.assembly_connectome import block_width
from torch_hrr._ranks import Calls, Ranks
from torch_hrr._repr import Described, place_of
from torch_hrr._spec import Real, Seed
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _inputs as reading
from torch_hrr.assembly._connect import chunked_edges, slots_of_neurons
from torch_hrr.assembly._engines import ExactEngine, Parts
from torch_hrr.assembly._network import Network, Plan, Projections, fiber_id
from torch_hrr.assembly._state import FIXED_ONE, AreaState, FiberState, StimulusState
from torch_hrr.assembly.brain import Brain
from torch_hrr.io import digest
from torch_hrr.io._contents import checked_options
from torch_hrr.runtime import resolve_device

_ops = torch.ops.torch_hrr
_Result = TypeVar("_Result")
# What a rank sends beyond its share of s winners, for where they are not spread evenly: as many again, at most _MORE or
# 4 sqrt(s), which is four standard deviations and more, and _LEAST_MORE.
_MORE, _LEAST_MORE = 512, 64
# Sums are cut there, as rounds of a `Brain` do.
_LARGEST_INPUT = 1 << 62
# What other options of an area must be to be divided.
_PLAIN = {"refracted": 0, "normalize": False, "refractory_period": 0, "ties": "index"}


class SplitBrain(Described):
    """A `Brain` divided by neurons: a rank has some consecutive neurons of every area, in the order of ranks.

    A rank holds the learned synapses onto its neurons and computes their inputs ``x_j``; the random graph is generated,
    so that nothing is sent of it. In a round every rank sends its best candidates, with their ``x_j``, and all select
    the k winners of the whole area among them, of equal ``x_j`` the lower index. Where all that a rank has sent wins,
    ranks send what else may. Winners are those of `Brain`, bit for bit, with any number of ranks; every rank holds
    them, and which neurons ever won, of whole areas.

    A rank sends 12 bytes a candidate: of r ranks in one message a round, for all areas,
    ``s + min(s, max(512, 4 sqrt(s))) + 64`` of an area (s = k / r, at most k in all, an even number). Where all of
    these win, 8 bytes and as many candidates as a rank can still have among the winners follow. A round sends 8 bytes
    more, and a call 24. By these ranks hear of failures, and compare the brain and the arguments of a call: what is
    wrong or other on one of them is an error on all, before anything changes.

    A rank draws the synapses onto its neurons of those that begin to fire, from the start of a block of the random
    graph on, and keeps those drawn last; a GPU draws them from the first neuron on, twice where they learn, and keeps
    none. A rank takes 4 bytes for every neuron of an area and, for each neuron up to its own last one, 4 for the area
    and for each fiber and stimulus into it; learned synapses take what they take in a `Brain`, divided.

    Of `Brain`, what is not here is not divided: batches, mode "sampled", graphs of the user's own, locks, fixed
    assemblies, refracted, normalised and inhibited areas, keyed ties. All methods are collective but `winners`,
    `support`, `neurons` and those of plasticity: every rank must call them, with the same arguments. Where a rank is
    lost, the others get a RuntimeError: at once from gloo, else when the timeout of the group is over. A copy is in the
    same group.

    Example:
        An area of 10^7 neurons on the ranks that torchrun started::

            torch.distributed.init_process_group("gloo")
            brain = assembly.SplitBrain(p=0.001, seed=3)
            brain.add_stimulus("s", 3000)
            brain.add_area("A", n=10_000_000, k=3000)
            brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=10)
    """

    def __init__(
        self,
        p: float = 0.01,
        seed: int = 0,
        group: dist.ProcessGroup | None = None,
        device: torch.device | str | int | None = "cpu",
    ) -> None:
        """A brain without areas.

        Args:
            p: Density of the connectome, in [0, 1].
            seed: 64 bits (modulo 2^64).
            group: None means the default one; one rank without any.
            device: Where this rank's part lives, from which the group communicates: as for `Brain`.

        Raises:
            TypeError, ValueError, RuntimeError: As `Brain`.
            ValueError: Another rank's arguments are wrong, or are not these.
        """
        op = type(self).__name__
        self._begin(group)

        def check() -> tuple[float, int, torch.device]:
            self._device = checks.device(op, resolve_device(device, op=op))
            return Real(0, 1)(op, "p", p), Seed()(op, "seed", seed), self._device

        self._declare(*self._agreed(op, check, lambda found: str(found[:2])))

    def _begin(self, group: dist.ProcessGroup | None) -> None:
        """What ranks need to agree."""
        self._ranks = Ranks(type(self).__name__, group)
        # Of what they say before it is known that the device is right on all.
        self._device = self._ranks.device
        self._calls = Calls(self._ranks)

    def _declare(self, density: float, number: int, place: torch.device) -> None:
        """A brain without areas."""
        # What is declared, whose areas are whole; then also this rank's neurons of each, as `_part` names them.
        self._network = Network(density, number, "exact", place, None)
        self._local = Network(density, number, "exact", place, None)
        self._engine = _PartEngine(self._local)
        # Areas, and fibers and stimuli by their targets, in the order in which they came into use.
        self._order: list[tuple[str, ...]] = []

    def _summary(self) -> dict[str, Any]:
        network = self._network
        areas = {name: f"n={area.n}, k={area.k}" for name, area in network.areas.items()}
        own = {"p": network.p, "seed": network.seed, "rank": self._ranks.rank, "ranks": self._ranks.count}
        return own | place_of(network.device) | {"areas": areas, "stimuli": network.stimuli}

    @property
    def p(self) -> float:
        """Density of the connectome."""
        return self._network.p

    @property
    def seed(self) -> int:
        """The seed, as the signed 64-bit integer of the same bits."""
        return self._network.seed

    @property
    def device(self) -> torch.device:
        """The device of this rank's tensors."""
        return self._network.device

    @property
    def plastic(self) -> bool:
        """Whether synapses grow; the same on every rank."""
        return self._network.plastic

    def enable_plasticity(self) -> None:
        """Synapses grow again."""
        self._network.plastic = True

    def disable_plasticity(self) -> None:
        """Synapses keep their weights."""
        self._network.plastic = False

    # Declarations

    def add_stimulus(self, name: str, size: int) -> None:
        """Declares a stimulus of `size` neurons that fire together, as `Brain.add_stimulus`.

        Raises:
            TypeError, ValueError: As `Brain.add_stimulus`.
            ValueError: Another rank's arguments are wrong, or are not these.
        """

        def check() -> int:
            trial = self._trial()
            trial.declare_stimulus(name, size)
            return trial.stimuli[name]

        self._network.stimuli[name] = self._agreed("add_stimulus", check, lambda count: f"{name!r}, {count}")

    def add_area(self, name: str, n: int, k: int, beta: float = 0.05, *, w_max: float | None = None) -> None:
        """Declares an area, of which every rank has about n over the number of ranks consecutive neurons.

        Args:
            name: Unique among areas and stimuli.
            n: Neurons, from the number of ranks to 2^31 - 2.
            k: Winners, 0 < k <= n.
            beta: Plasticity of the fibers into the area, >= 0.
            w_max: Largest weight of a synapse, >= 1; None: 2^24, or 2^35 / k of the source where that is less.

        Raises:
            TypeError, ValueError: As `Brain.add_area`; there are more ranks than neurons.
            ValueError: Another rank's arguments are wrong, or are not these.
        """

        def check() -> tuple[dict[str, Any], list[AreaState]]:
            trial = self._trial()
            trial.declare_area(name, n, k, beta, w_max=w_max)
            config = self._supported("add_area", name, trial.areas[name])
            # Memory for it, too, must be there on all ranks.
            return config, self._area_states(config)

        self._add_area(name, self._agreed("add_area", check, lambda found: repr((name, found[0])))[1])

    def neurons(self, area: str) -> range:
        """This rank's neurons of an area."""
        return self._range(self._network.area("neurons", area).n)

    # Rounds

    def project(
        self,
        stimuli: Projections | str | None = None,
        areas: Projections | str | Iterable[str] | None = None,
        rounds: int = 1,
    ) -> None:
        """Runs synchronous rounds in which sources fire into targets: `Brain.project`, with the same winners.

        Args:
            stimuli: ``{stimulus: areas}``, each an area or a list of them; or the name of the one source.
            areas: ``{area: areas}``, or the targets of the one source.
            rounds: How many, 0 to 2^31 - 2.

        Raises:
            TypeError, ValueError: As `Brain.project`; the brain is unchanged.
            ValueError: Another rank's arguments are wrong, or are not these, or synapses grow there and not here.
            RuntimeError: A rank is lost, or a rank could not do its part of a round, for lack of memory, say. Winners
                and supports, of the last round that this rank finished, can still be read; all collective calls are
                errors from then on.
        """
        op, network = "project", self._network

        def check() -> tuple[int, Plan | None]:
            count = checks.rounds(op, rounds)
            fired = map(checks.or_nothing, network.fired(op, stimuli, areas))
            # One brain has one plan, or none where nothing fires.
            return count, next(iter(network.plans(op, *fired)), None)

        count, plan = self._agreed(op, check, lambda found: f"{found}, plastic={network.plastic}")
        if plan is None or count == 0:
            return
        self._local.plastic = network.plastic
        with self._calls.changing():
            targets = dict.fromkeys(target for _, target in (*plan.areas, *plan.stimuli))
            left: Callable[[], None] = functools.partial(self._use, plan, count)
            for _ in range(count):
                left = functools.partial(self._grow, plan, self._choose(plan, targets, left))
            self._ranks.together(op, left, self._device)

    def winners(self, area: str) -> Tensor:
        """The winners of the whole area: int64 ``[k]`` ascending; none before the first projection. A copy."""
        state = self._network.area("winners", area)
        return state.winners[0, : int(state.winner_count)].clone()

    def support(self, area: str) -> int:
        """How many neurons of the whole area ever won."""
        return int(self._network.area("support", area).slots[0, 1])

    # Files

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the brain as `Brain.save` does, to one checked file, which `Brain.load` reads, too.

        The first rank collects the learned synapses, 12 bytes each, and writes. The file holds what that of a `Brain`
        after the same calls holds, but for the order of synapses in their tables and memory to spare.

        Args:
            path: Of the first rank; the others' must be a path, too.
            key: As for `Brain.save`, of the first rank.

        Raises:
            TypeError, ValueError, OSError: As `Brain.save`.
            ValueError: Another rank's arguments are wrong, or synapses grow there and not here.
            RuntimeError: The first rank could not write.
        """

        def check() -> None:
            checked_path("save", path)
            checked_options("save", Brain.file_format, Brain.file_version, key)

        self._agreed("save", check, lambda _: f"plastic={self.plastic}")
        whole = self._whole()
        self._ranks.together("save", lambda: None if whole is None else whole.save(path, key), self._device)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        device: torch.device | str | int | None = "cpu",
    ) -> Self:
        """The brain of a file that `save`, with any number of ranks, or `Brain.save` wrote; every rank reads it.

        Args:
            path: The file, which all ranks see.
            key: The key it was saved with.
            group: As for the class.
            device: Of this rank's part.

        Raises:
            torch_hrr.IntegrityError: The file is damaged, holds something else, or does not fit the key.
            ValueError: The brain has what is not divided (see the class), or an area fewer neurons than there are
                ranks; or another rank cannot read it, or reads another one.
            OSError: The file cannot be read; FileNotFoundError if there is none.
        """
        made = cls.__new__(cls)
        made._begin(group)

        def read() -> tuple[Brain, dict[str, dict[str, Any]], str]:
            place = checks.device("load", resolve_device(device, op="load"))
            brain = Brain.load(path, key, device=place)
            made._device = place
            # In eval mode nothing grows.
            return brain, made._divisible(brain._network), f"{digest(*brain._content())} training={brain.training}"

        brain, configs, _ = made._agreed("load", read, lambda found: found[2])
        made._declare(brain.p, brain.seed, made._device)
        made._ranks.together("load", lambda: made._take(brain._network, configs), made._device)
        return made

    # Ranks

    def _agreed(self, op: str, check: Callable[[], _Result], said: Callable[[_Result], str]) -> _Result:
        return self._calls.agreed(op, check, said, self._device)

    def _range(self, n: int) -> range:
        """This rank's share of n neurons: whole blocks of the random graph, where there is one for each rank."""
        width, ranks = block_width(self.p), self._ranks.count
        if n < ranks * width:
            width = 1
        first, end = (round(n / width * rank / ranks) * width for rank in (self._ranks.rank, self._ranks.rank + 1))
        return range(first, end if self._ranks.rank + 1 < ranks else n)

    def _trial(self) -> Network:
        """A network of the same names, without memory, to try declarations in."""
        network = Network(self.p, self.seed, "exact", torch.device("meta"), None)
        network.areas, network.stimuli = dict(self._network.areas), dict(self._network.stimuli)
        return network

    def _supported(self, op: str, name: str, area: AreaState) -> dict[str, Any]:
        """The configuration of an area that can be divided."""
        config = area.config()
        given = {option for option, usual in _PLAIN.items() if config.get(option, usual) != usual}
        given |= {option for option in ("fixed", "locks", "normalized") if config[option]}
        if given:
            raise ValueError(f"{op}: area {name!r} must not have {', '.join(sorted(given))} to be divided among ranks")
        if area.n < self._ranks.count:
            raise ValueError(f"{op}: n must be at least {self._ranks.count}, the number of ranks, got {area.n}")
        return config

    def _divisible(self, network: Network) -> dict[str, dict[str, Any]]:
        """The configurations of the areas of a brain that can be divided."""
        own_graphs = [pair for pair, fiber in network.fibers.items() if not fiber.procedural]
        locked = [pair for pair, locks in network.locks.items() if any(locks.values())]
        for what, given in (
            (f"mode {network.mode!r}", network.mode != "exact"), ("a batch", network.batch is not None),
            ("graphs of its own", own_graphs), ("locks", locked),
        ):  # fmt: skip
            if given:
                raise ValueError(f"load: brain must not have {what} to be divided among ranks")
        return {name: self._supported("load", name, area) for name, area in network.areas.items()}

    # Parts

    def _area_states(self, config: Mapping[str, Any]) -> list[AreaState]:
        """A new area, and this rank's neurons of it."""
        own, index = self._range(config["n"]), len(self._network.areas)
        # Columns of the random graph are counted from 0: those before this rank's are no part of any sum.
        divided = {**config, "n": own.stop, "k": min(config["k"], len(own))}
        # Parts have indices that no whole area has.
        pair = (index, config), (~index, divided)
        return [AreaState(number, {**each, "tie_id": 0}, 1, self._device) for number, each in pair]

    def _add_area(self, name: str, states: list[AreaState]) -> None:
        self._network.areas[name] = states[0]
        self._local.areas |= {name: states[0], _part(name): states[1]}
        self._engine.first[_part(name)] = self._range(states[0].n).start
        self._order.append((name,))

    def _use(self, plan: Plan, rounds: int) -> None:
        """What fires for the first time comes into use, and areas get memory for the slots that rounds may add."""
        for source, target in plan.areas:
            self._use_fiber(source, target, self._network.fiber_config(source, target))
        for stimulus, target in plan.stimuli:
            self._use_stimulus(stimulus, target)
        for name in {name for pair in plan.areas for name in pair} | {target for _, target in plan.stimuli}:
            for area in (self._local.areas[name], self._local.areas[_part(name)]):
                # Winners that were set from outside may need slots, too.
                self._local.reserve_area(area, min(area.n, int(area.slots[0, 0]) + (rounds + 1) * area.k))

    def _use_fiber(self, source: str, target: str, config: Mapping[str, Any]) -> FiberState:
        """The synapses from an area onto this rank's neurons of another."""
        pair = source, _part(target)
        if pair not in self._local.fibers:
            areas = self._local.areas
            fiber = FiberState(areas[source], areas[pair[1]], config, 1, self._network.device)
            fiber.reserve(areas[source].neuron_of.shape[1])
            self._local.fibers[pair] = fiber
            self._order.append((source, target))
        return self._local.fibers[pair]

    def _use_stimulus(self, stimulus: str, target: str) -> StimulusState:
        """The synapses from a stimulus onto this rank's neurons of an area."""
        pair = stimulus, _part(target)
        if pair not in self._local.sources:
            area = self._local.areas[pair[1]]
            config = {"stimulus": stimulus, "id": fiber_id("stimulus", stimulus, target)}
            source = StimulusState(area, config, 1, self._network.device)
            first = self._engine.first[pair[1]]
            counts, size = source.counts[:, first:], self._network.stimuli[stimulus]
            _ops._stimulus_counts_(counts, size, self.p, self.seed, source.id, first)
            self._local.sources[pair] = source
            self._order.append((stimulus, target))
        return self._local.sources[pair]

    # A round

    def _of_parts(self, plan: Plan, fixed: Iterable[str] = ()) -> Plan:
        """The same of this rank's neurons."""
        stimuli, areas = ([(source, _part(target)) for source, target in pairs] for pairs in (plan.stimuli, plan.areas))
        return Plan(None, stimuli, areas, frozenset(map(_part, fixed)))

    def _grow(self, plan: Plan, choice: Callable[[], dict[str, tuple[Tensor, Tensor]]]) -> None:
        """What follows on this rank from the winners, its own and all of them, of each target."""
        chosen = choice()
        for target, (own, _) in chosen.items():
            part = self._local.areas[_part(target)]
            part.winners[0, : len(own)] = own
            part.winner_count.fill_(len(own))
        # Each rank's winners are fixed now, so that a round does what is left of it: synapses grow.
        self._engine.run([self._of_parts(plan, chosen)], 1)
        for target, (_, winners) in chosen.items():
            area = self._network.areas[target]
            slots = slots_of_neurons(area, 0, winners)
            area.slots[0, 1] += (area.won[0, slots] == 0).sum()
            area.won[0, slots] = 1
            area.winners[0] = winners
            area.winner_count.fill_(area.k)

    def _best_by_operators(self, plan: Plan, target: str) -> tuple[Tensor, Tensor]:
        """What the kernel finds on a CPU, from operators that run on every device.

        The best of neurons with slots, which receive no less than their counts of synapses, and of the k with the most.
        """
        local, part = self._local, _part(target)
        area, own = local.areas[part], self._range(self._network.areas[target].n)
        used = int(area.slots[0, 0])
        slotted = area.neuron_of[0, :used].long() - own.start
        # Of each source: base counts of all neurons; what learned synapses add by slot, in units of 2^-24.
        terms: list[tuple[Tensor, Tensor]] = []
        for source in (local.sources[stimulus, part] for stimulus, into in plan.stimuli if into == target):
            counts, weights = source.counts[0, own.start :], source.weight[0, :used]
            excess = reading.fixed_point(weights) - counts[slotted].long() * FIXED_ONE
            terms.append((counts, excess.clamp_(min=0)))
        for name in (source for source, into in plan.areas if into == target):
            fiber, rows = local.fibers[name, part], local.areas[name]
            firing = rows.winners[0, : int(rows.winner_count)]
            _, columns, weights = fiber.edges(0, rows.slot_of[0, firing].long())
            excess = torch.zeros_like(slotted).index_add_(0, columns, reading.fixed_point(weights) - FIXED_ONE)
            terms.append((reading.base_counts(local, firing, fiber, 0, own.start), excess))
        # Fewer than 2^31 neurons fire into an area: 32 bits hold the sum.
        base = functools.reduce(torch.add, (counts for counts, _ in terms))
        most = _ops.k_winners(base, area.k)[1]
        places = torch.cat([slotted, most[area.slot_of[0, most + own.start] < 0]])
        total = torch.zeros_like(places)
        for counts, excess in terms:
            total.add_(counts[places], alpha=FIXED_ONE)
            total[:used].add_(excess)
            total.clamp_(max=_LARGEST_INPUT)
        places, order = places.sort()
        return _first(places + own.start, total[order], area.k)

    def _best(self, plan: Plan, targets: Iterable[str]) -> dict[str, tuple[Tensor, Tensor]]:
        """Of each area this rank's neurons that may be among its winners, ascending, and their inputs."""
        if self._device.type != "cpu":
            return {target: self._best_by_operators(plan, target) for target in targets}
        best = self._engine.best(self._of_parts(plan))
        return {target: best[_part(target)] for target in targets}

    def _choose(
        self, plan: Plan, targets: Iterable[str], before: Callable[[], None]
    ) -> Callable[[], dict[str, tuple[Tensor, Tensor]]]:
        """What gives this rank's winners of each area and all of them. `before` is what is left to do first."""
        best: dict[str, tuple[Tensor, Tensor]] = {}
        sent = {target: self._sent(target) for target in targets}

        def work() -> Tensor:
            before()
            best.update(self._best(plan, targets))
            return torch.cat([_packed(*_first(*best[target], count), count) for target, count in sent.items()])

        sizes = [_words(count) for count in sent.values()]
        told = self._ranks.exchanged("project", work, (sum(sizes),), torch.int64, self._device)
        parts = [*zip(sent.items(), told.split(sizes, 1), strict=True)]
        # With what is left to do for the next message, by which ranks hear of its failure, too.
        return lambda: {target: self._merged(target, best[target], count, part) for (target, count), part in parts}

    def _sent(self, target: str) -> int:
        """How many candidates a rank sends first, an even number: its share of the winners, and what chance may add."""
        k = self._network.areas[target].k
        share = -(-k // self._ranks.count)
        count = min(k, share + min(share, max(_MORE, 4 * math.isqrt(share))) + _LEAST_MORE)
        return count + count % 2

    def _merged(self, target: str, best: tuple[Tensor, Tensor], count: int, told: Tensor) -> tuple[Tensor, Tensor]:
        """This rank's winners of an area and all of them, by `count` candidates of each rank: int64, ascending."""
        k = self._network.areas[target].k
        neurons, inputs = _unpacked(told, count)
        winners = _ops.k_winners(inputs, k)[1]
        # What a rank has not sent is behind what it has: it may win where all of this does.
        if count < k and int(torch.bincount(winners // count).amax()) == count:
            neurons, inputs = self._with_more(best, count, neurons[winners], inputs[winners])
            winners = _ops.k_winners(inputs, k)[1]
        won = neurons[winners]
        own = self._range(self._network.areas[target].n)
        return won[(won >= own.start) & (won < own.stop)], won

    def _with_more(
        self, best: tuple[Tensor, Tensor], count: int, neurons: Tensor, inputs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Some candidates, the best of what ranks have sent, and all others that are not behind the last of them."""
        least = inputs.amin()
        last = neurons[inputs == least].amax()
        first, _ = _first(*best, count)
        ahead = (best[1] > least) | ((best[1] == least) & (best[0] < last))
        ahead &= ~torch.isin(best[0], first)
        most = max(number for (number,) in self._ranks.gathered([int(ahead.sum())], self._device))
        most += most % 2
        packed = _packed(best[0][ahead], best[1][ahead], most)
        others, values = _unpacked(self._ranks.stacked(packed), most)
        neurons, inputs = torch.cat([neurons, others]), torch.cat([inputs, values])
        neurons, order = neurons[inputs >= 0].sort()
        return neurons, inputs[inputs >= 0][order]

    # The whole

    def _whole(self) -> Brain | None:
        """On the first rank, the brain that the ranks' parts make up."""
        brain = Brain(self.p, self.seed, device=self._device) if self._ranks.rank == 0 else None
        if brain is not None:
            network = brain._network
            network.plastic, network.betas = self.plastic, dict(self._network.betas)
            network.stimuli = dict(self._network.stimuli)
        for name, *target in self._order:
            if not target:
                if brain is not None:
                    area = self._network.areas[name]
                    _copy_area(area, brain._network.add_area(name, area.config()))
            elif name in self._network.stimuli:
                self._collect_stimulus(name, target[0], brain)
            else:
                self._collect_fiber(name, target[0], brain)
        return brain

    def _collect_stimulus(self, stimulus: str, target: str, brain: Brain | None) -> None:
        part, source = self._local.areas[_part(target)], self._local.sources[stimulus, _part(target)]
        grown = source.weight[0].nonzero().squeeze(1)
        neurons = self._ranks.collected(part.neuron_of[0, grown].long())
        weights = self._ranks.collected(source.weight[0, grown])
        if brain is not None:
            whole, area = brain._network.source(stimulus, target), brain._network.areas[target]
            whole.weight[0, area.slot_of[0, torch.cat(neurons)].long()] = torch.cat(weights)

    def _collect_fiber(self, source: str, target: str, brain: Brain | None) -> None:
        fiber, part = self._local.fibers[source, _part(target)], self._local.areas[_part(target)]
        # Slots of sources are the same on every rank.
        slots, columns, weights = fiber.edges(0)
        rows = self._local.areas[source].neuron_of[0, slots].long()
        pairs = self._ranks.collected(torch.stack([rows, part.neuron_of[0, columns].long()], 1).int())
        values = self._ranks.collected(weights)
        # A row knows the slots of the whole area that it knew of each part: those come in one order.
        used = int(self._network.areas[source].slots[0, 0])
        known = self._ranks.reduced(fiber.known[:, :used].clone(), dist.ReduceOp.SUM)
        if brain is not None:
            network = brain._network
            whole = network.add_fiber(source, target, fiber.config())
            _file(torch.cat(pairs).long(), torch.cat(values), network.areas[source], network.areas[target], whole)
            whole.known[:, :used] = known

    def _take(self, network: Network, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """This rank's part of a whole brain."""
        self._network.plastic, self._network.betas = network.learns, dict(network.betas)
        self._network.stimuli = dict(network.stimuli)
        self._local.betas = {(_part(target), source): beta for (target, source), beta in network.betas.items()}
        names = {area.index: name for name, area in network.areas.items()}
        fibers = {fiber: pair for pair, fiber in network.fibers.items()}
        for area in network.areas.values():
            # Winners that were set from outside get slots as they fire: now, so that every rank has its own.
            winners = area.winners[0, : int(area.winner_count)]
            network.reserve_area(area, min(area.n, int(area.slots[0, 0]) + len(winners)))
            slots_of_neurons(area, 0, winners)
        for state in network.states:
            if isinstance(state, AreaState):
                self._take_area(names[state.index], state, configs[names[state.index]])
            elif isinstance(state, FiberState):
                self._take_fiber(*fibers[state], state, network.areas)
            elif isinstance(state, StimulusState):
                target = names[state.target_index]
                is_own = self._is_own(network.areas[target])
                grown = state.weight[0, : len(is_own)][is_own]
                self._use_stimulus(state.stimulus, target).weight[0, : len(grown)] = grown

    def _is_own(self, area: AreaState) -> Tensor:
        """Of each slot of a whole area, whether this rank has its neuron."""
        own, neurons = self._range(area.n), area.neuron_of[0, : int(area.slots[0, 0])]
        return (neurons >= own.start) & (neurons < own.stop)

    def _take_area(self, name: str, area: AreaState, config: Mapping[str, Any]) -> None:
        self._add_area(name, self._area_states(config))
        part = self._local.areas[_part(name)]
        _copy_area(area, self._network.areas[name])
        neurons = area.neuron_of[0, : int(area.slots[0, 0])][self._is_own(area)]
        part.reserve(len(neurons))
        part.neuron_of[0, : len(neurons)] = neurons
        part.slots[0, 0] = len(neurons)
        part.derive()

    def _take_fiber(self, source: str, target: str, fiber: FiberState, areas: Mapping[str, AreaState]) -> None:
        part, taken = self._local.areas[_part(target)], self._use_fiber(source, target, fiber.config())
        is_own = self._is_own(areas[target])
        slots, columns, weights = fiber.edges(0)
        kept = is_own[columns]
        rows = areas[source].neuron_of[0, slots[kept]].long()
        pairs = torch.stack([rows, areas[target].neuron_of[0, columns[kept]].long()], 1)
        _file(pairs, weights[kept], self._local.areas[source], part, taken)
        # So many of the slots that a row knows are this rank's.
        own_before = torch.nn.functional.pad(is_own.cumsum(0), (1, 0)).int()
        taken.known[0] = own_before[fiber.known[0].long()]


class _PartEngine(ExactEngine):
    """Rounds of areas of which some neurons are here, whose winners are given; and which they would choose.

    Attributes:
        first: The first neuron that is here, of areas that are not here as a whole.
    """

    def __init__(self, network: Network) -> None:
        """Of this network."""
        super().__init__(network)
        self.first: dict[str, int] = {}

    def _project(self, parts: Parts, state: list[Tensor], layout: list[int], rates: list[float]) -> None:
        if self._network.device.type == "cpu":
            self._project_part(parts, state, layout, rates)
        else:
            super()._project(parts, state, layout, rates)

    def _project_part(
        self, parts: Parts, state: list[Tensor], layout: list[int], rates: list[float]
    ) -> list[list[Tensor]]:
        found = [[area.winners.new_empty(area.k) for area in parts.areas] for _ in range(2)]
        first = [self.first.get(name, 0) for name in parts.names]
        _ops._project_part_(state, *found, layout, rates, first, self._network.seed)
        return found

    def best(self, plan: Plan) -> dict[str, tuple[Tensor, Tensor]]:
        """Of each target the k neurons with the largest inputs, ascending, and these."""
        network = self._network
        parts = Parts(network, plan)
        layout, rates = parts.described(network.learns)
        progress = torch.zeros(1, 1 + len(parts.fibers), dtype=torch.int64, device=network.device)
        found = self._project_part(parts, [network.numbers(), *parts.tensors(), progress], [1, 0, *layout], rates)
        return dict(zip(parts.names, zip(*found, strict=True), strict=True))


# What no area's name ends in: UTF-8 has no such text.
_PART = "\ud800"


def _part(area: str) -> str:
    """How this rank's neurons of an area are named beside it."""
    return area + _PART


def _words(count: int) -> int:
    """Of a message with so many candidates."""
    return count + count // 2


def _packed(neurons: Tensor, inputs: Tensor, count: int) -> Tensor:
    """Candidates as int64 words, at most `count`, an even number; those that lack have an input of -1."""
    words = inputs.new_full((_words(count),), -1)
    words[: len(inputs)] = inputs
    words[count:].view(torch.int32)[: len(neurons)] = neurons
    return words


def _unpacked(words: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The neurons and inputs of several such messages, those that lack among them."""
    return words[:, count:].contiguous().view(torch.int32).flatten().long(), words[:, :count].flatten()


def _first(neurons: Tensor, inputs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best `count` candidates, ascending; of equal inputs the lower neurons."""
    best = _ops.k_winners(inputs, min(count, len(inputs)))[1]
    return neurons[best], inputs[best]


def _copy_area(area: AreaState, copy: AreaState) -> None:
    for name in ("winners", "winner_count", "neuron_of", "won", "slots"):
        copy.hold(name, getattr(area, name).clone())
    copy.derive()


def _file(pairs: Tensor, weights: Tensor, source: AreaState, target: AreaState, fiber: FiberState) -> None:
    """Puts synapses, as pairs of neurons that have slots, into a fiber without any."""
    order = (pairs[:, 0] * target.n + pairs[:, 1]).argsort()
    if len(order):
        rows, columns = pairs[order].unbind(1)
        chunked_edges((rows, columns, weights[order]), source, target, fiber)
