"""Brain: areas of neurons, stimuli and plastic random fibers, simulated exactly."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from torch_hrr import _storage
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._connect import chunked_edges, column_scale
from torch_hrr.assembly._files import check_states, declare, restore
from torch_hrr.assembly._operations import Operations
from torch_hrr.assembly._state import AreaState, FiberState, State, StimulusState
from torch_hrr.runtime import resolve_device

_ops = torch.ops.torch_hrr
_FORMAT, _VERSION = "torch_hrr.assembly.Brain", 1
Projections = Mapping[str, Iterable[str]]


def _fiber_id(kind: str, source: str, target: str) -> int:
    """A fiber's name as 64 bits, from the names alone: declaration order is nothing."""
    text = f"{kind}{len(source)}:{source}{target}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little", signed=True)


class Brain(nn.Module, Operations):
    """Areas of n neurons of which k fire, stimuli, and random plastic synapses between all of them.

    Every ordered pair of a neuron i of area A and a neuron j of area B (B may be A) is a synapse with probability p and
    weight 1, independently. In one round, all targets at once from the winners of the round before:

    1. ``x_j`` = the sum of the weights of the synapses of j with the stimuli and winners that fire into its area;
    2. the new winners of an area are its k neurons with the largest ``x_j``, ties to the lower index;
    3. the synapses from what fired to the new winners grow: ``w = min(w (1 + beta), w_max)``.

    A stimulus is `size` neurons that fire together. The graph is a function of (seed, brain, names) and takes no memory;
    potentiated synapses are kept in a table. Weights are float32, inputs exact multiples of 2^-24 in 64 bits, so that
    the same seed gives the same winners whatever the threads, the batch, the order of declarations or a save in between.

    A round costs about 1.4 ns (AVX-512) for each base synapse of the winners that came and went since the last one, a
    pass over the n sums of the area, and little else; memory is 4 bytes a neuron and fiber used, and 4 a neuron.

    Args:
        p: density of the connectome, in [0, 1].
        seed: 64 bits (modulo 2^64).
        mode: "exact".
        device: where the brain lives; "cpu".
        batch: number of independent brains that do the same; results then have a leading dimension. Brain b is the same
            brain in every batch, and batch=None is brain 0 without that dimension.

    Raises:
        ValueError: p outside [0, 1], an unknown mode, batch < 1.

    Source: Papadimitriou, Vempala, Mitropolsky, Collins, Maass, Brain computation by assemblies of neurons, PNAS 2020.
    """

    def __init__(
        self,
        p: float = 0.01,
        seed: int = 0,
        mode: str = "exact",
        device: str | torch.device = "cpu",
        batch: int | None = None,
    ) -> None:
        """See the class."""
        super().__init__()
        self.p = checks.probability("Brain", "p", p)
        self.seed = checks.signed_seed("Brain", seed)
        self.mode = checks.choice("Brain", "mode", mode, ("exact",))
        self.batch = None if batch is None else checks.integer("Brain", "batch", batch, least=1)
        self._device = resolve_device(device)
        if self._device.type != "cpu":
            raise RuntimeError(
                f"Brain: device must be cpu, got {self._device}: rounds on other devices are not built yet"
            )
        self._brains = self.batch or 1
        self._plastic = True
        self._areas: dict[str, AreaState] = {}
        self._stimuli: dict[str, int] = {}
        self._fibers: dict[tuple[str, str], FiberState] = {}
        self._sources: dict[tuple[str, str], StimulusState] = {}
        self._locks: dict[tuple[str, str], set[int]] = {}
        self._betas: dict[tuple[str, str], float] = {}
        self._hooks: list[Callable[[Brain], None]] = []
        self.states = nn.ModuleList()

    # Declarations

    def add_stimulus(self, name: str, size: int) -> None:
        """Declares a stimulus of `size` neurons that fire together.

        Its sums ``S_j ~ Binomial(size, p)`` onto an area are drawn when it first fires into it.

        Raises:
            ValueError: the name is taken or empty, or size is negative.
        """
        self._check_new("add_stimulus", name)
        self._stimuli[name] = checks.integer("add_stimulus", "size", size, least=0, most=2**31 - 2)

    def add_area(
        self,
        name: str,
        n: int,
        k: int,
        beta: float = 0.05,
        refracted: bool | float = False,
        normalize: bool = False,
        w_max: float | None = None,
        refractory_period: int = 0,
        inhibition_strength: float = 0.0,
    ) -> None:
        """Declares an area.

        Args:
            name: unique among areas and stimuli.
            n: neurons, below 2^31 - 1.
            k: winners, 0 < k <= n.
            beta: plasticity of every fiber into the area that has none of its own, >= 0.
            refracted: what a win adds to a bias that is taken from the neuron's input for ever; True is 1.
            normalize: whether the columns of fibers into the area are normalised before every round (`normalize`).
            w_max: largest weight of a synapse, >= 1; None: 2^24.
            refractory_period: rounds during which a winner is inhibited: by `inhibition_strength` in the first round
                after its win, then less, linearly, down to nothing.
            inhibition_strength: in units of a fresh synapse, >= 0.

        Raises:
            ValueError: a value out of range, or the name is taken.
        """
        self._check_new("add_area", name)
        config = {
            "n": checks.integer("add_area", "n", n, least=1, most=2**31 - 2),
            "beta": checks.number("add_area", "beta", beta, least=0),
            "refracted": checks.number("add_area", "refracted", float(refracted), least=0),
            "normalize": bool(normalize),
            "w_max": None if w_max is None else checks.number("add_area", "w_max", w_max, least=1),
            "refractory_period": checks.integer(
                "add_area", "refractory_period", refractory_period, least=0, most=2**30
            ),
            "inhibition_strength": checks.number("add_area", "inhibition_strength", inhibition_strength, least=0),
        }
        config["k"] = checks.integer("add_area", "k", k, least=1, most=config["n"], limit="n")
        self._add_area(name, config)

    def connect(
        self,
        source: str,
        target: str,
        p: float | None = None,
        beta: float | None = None,
        w_max: float | None = None,
        edges: Tensor | None = None,
    ) -> None:
        """Sets what is special about the fiber from area `source` to area `target`, before it is first used.

        Args:
            source: an area.
            target: an area.
            p: density of its connectome; the brain's by default.
            beta: its plasticity; the target's by default.
            w_max: largest weight of its synapses; the target's by default.
            edges: a graph of the user's own in place of the random one: a sparse (or dense) tensor ``[n_source,
                n_target]`` of weights >= 0, rounded to float32; every brain of a batch gets the same.

        Raises:
            ValueError: unknown names, the fiber exists already, or values out of range.
            RuntimeError: `edges` has another shape.
        """
        pair = (self._area("connect", source), self._area("connect", target))
        if (source, target) in self._fibers:
            raise ValueError(f"connect: the fiber must not have been used, got {source!r} to {target!r}")
        config = self._fiber_config(source, target)
        config["p"] = self.p if p is None else checks.probability("connect", "p", p)
        config["w_max"] = None if w_max is None else checks.number("connect", "w_max", w_max, least=1)
        own_beta = None if beta is None else checks.number("connect", "beta", beta, least=0)
        table = None
        if edges is not None:
            if p is not None:
                raise ValueError("connect: p must not be given with edges")
            table = checks.own_graph("connect", edges, pair[0].n, pair[1].n)
            config["procedural"] = False
        fiber = self._add_fiber(source, target, config)
        if own_beta is not None:
            self._betas[target, source] = own_beta
        if table is not None:
            chunked_edges(table, pair[0], pair[1], fiber)
            self._reserve(0)

    add_fiber = connect

    def set_beta(self, target: str, source: str, beta: float) -> None:
        """Sets the plasticity of the fiber from `source`, an area or a stimulus, to the area `target`."""
        self._area("set_beta", target)
        if source not in self._stimuli:
            self._area("set_beta", source)
        self._betas[target, source] = checks.number("set_beta", "beta", beta, least=0)

    # Rounds

    def project(self, stimuli: Projections | None = None, areas: Projections | None = None, rounds: int = 1) -> None:
        """Runs synchronous rounds in which sources fire into targets.

        Args:
            stimuli: ``{stimulus: [areas]}``.
            areas: ``{area: [areas]}``. An area without winners contributes nothing to itself.
            rounds: how many, >= 0.

        Inhibited areas and fibers take no part.

        Raises:
            ValueError: an unknown name, or a source without winners that fires into another area; the brain is
                unchanged.
        """
        rounds = checks.integer("project", "rounds", rounds, least=0)
        plan = self._plan(stimuli or {}, areas or {})
        if rounds == 0 or not (plan[0] or plan[1]):
            return
        targets = {target for _, target in (*plan[0], *plan[1])}
        normalized = [name for name in self._areas if name in targets and self._areas[name].normalize]
        step = 1 if normalized or self._hooks else rounds
        for first in range(0, rounds, step):
            for name in normalized:
                self.normalize(name)
            self._run(*plan, min(step, rounds - first))
            for hook in self._hooks:
                hook(self)

    project_rounds = project

    def _plan(self, stimuli: Projections, areas: Projections) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The stimuli and fibers that take part; raises before any change."""
        checks.projections("project", "stimuli", stimuli, self._stimuli, self._areas, "stimulus")
        checks.projections("project", "areas", areas, self._areas, self._areas, "area")
        free = [name for name, area in self._areas.items() if not area.locks]
        from_stimuli = [
            (source, target)
            for source, targets in stimuli.items()
            for target in dict.fromkeys(targets)
            if target in free
        ]
        from_areas = []
        for source, targets in areas.items():
            for target in dict.fromkeys(targets):
                if source not in free or target not in free or self._locks.get((source, target)):
                    continue
                if source != target and self._areas[source].silent:
                    raise ValueError(f"project: source area must have winners, got none in {source!r}")
                from_areas.append((source, target))
        return from_stimuli, from_areas

    def _run(self, from_stimuli: list[tuple[str, str]], from_areas: list[tuple[str, str]], rounds: int) -> None:
        fibers = [self._fiber(*pair) for pair in from_areas]
        sources = [self._source(*pair) for pair in from_stimuli]
        involved = dict.fromkeys(name for pair in from_areas for name in pair) | dict.fromkeys(
            t for _, t in from_stimuli
        )
        areas = [self._areas[name] for name in involved]
        place = {area.index: i for i, area in enumerate(areas)}
        layout = [self._brains, len(areas), len(fibers), len(sources)]
        rates: list[float] = []
        for area in areas:
            layout += area.layout()
        for (source, target), fiber in zip(from_areas, fibers, strict=True):
            layout += [place[fiber.source_index], place[fiber.target_index], self._plastic, fiber.procedural, fiber.id]
            w_max = self._areas[target].w_max if fiber.w_max is None else fiber.w_max
            rates += [fiber.p, self._beta(source, target), float("inf") if w_max is None else w_max]
        for (source, target), stimulus in zip(from_stimuli, sources, strict=True):
            w_max = self._areas[target].w_max
            layout += [place[stimulus.target_index], self._plastic]
            rates += [self._beta(source, target), float("inf") if w_max is None else w_max]
        progress = torch.zeros(self._brains, 1 + len(fibers), dtype=torch.int64)
        progress[:, 0] = rounds
        while True:
            left = int(progress[:, 0].max())
            for area in areas:
                # Winners that were set from outside may need slots too.
                self._reserve_area(area, min(area.n, int(area.slots[:, 0].max()) + (left + 1) * area.k))
            state = [tensor for each in (*areas, *fibers, *sources) for tensor in each.tensors()]
            _ops._project_(state + [progress], layout, rates, self.seed)
            if not progress[:, 0].any():
                return
            for i, fiber in enumerate(fibers):
                needed = int(progress[:, 1 + i].max())
                if needed > fiber.next.shape[1]:
                    fiber.reserve_chunks(max(needed, 2 * fiber.next.shape[1]))

    # Reading and setting

    def winners(self, area: str) -> Tensor:
        """The winners: int64 ``[k]`` ascending (``[batch, k]`` with a batch); none before the first projection."""
        state = self._area("winners", area)
        return self._unbatched(state.winners[:, : int(state.winner_count[0])].clone())

    def support(self, area: str) -> int | Tensor:
        """How many neurons ever won (int64 ``[batch]`` with a batch)."""
        count = self._area("support", area).slots[:, 1].clone()
        return int(count) if self.batch is None else count

    def activate(self, area: str, indices: Tensor | Sequence[int]) -> None:
        """Sets the winners of an area: fixes nothing and counts nothing as won.

        Args:
            area: its name.
            indices: 1 to k distinct neurons, ``[m]`` or, with a batch, ``[batch, m]``.

        Raises:
            IndexError: a neuron outside 0..n-1.
            ValueError: none, too many, or repeated ones, or an unknown area.
        """
        state = self._area("activate", area)
        winners = checks.neurons("activate", indices, state.n, state.k, self.batch)
        state.winners.zero_()
        state.winners[:, : winners.shape[-1]] = winners
        state.winner_count.fill_(winners.shape[-1])

    def fiber_id(self, source: str, target: str) -> int:
        """The 64 bits that name a fiber in `connectome_inputs`, signed."""
        self._area("fiber_id", source), self._area("fiber_id", target)
        return _fiber_id("area", source, target)

    def stimulus_counts(self, stimulus: str, area: str) -> Tensor:
        """int32 ``[n]``: how many neurons of the stimulus have a synapse with each neuron of the area."""
        self._area("stimulus_counts", area)
        if stimulus not in self._stimuli:
            raise ValueError(f"stimulus_counts: stimulus must be declared, got {stimulus!r}")
        return self._unbatched(self._source(stimulus, area).counts.clone())

    def potentiated(self, source: str, target: str, brain: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """The synapses of a fiber whose weight is not 1: their source neurons, target neurons and weights.

        Sorted by source and then target neuron.
        """
        areas = self._area("potentiated", source), self._area("potentiated", target)
        brain = checks.integer("potentiated", "brain", brain, least=0, most=self._brains - 1)
        if (source, target) not in self._fibers:
            none = torch.zeros(0, dtype=torch.int64)
            return none, none.clone(), torch.zeros(0)
        rows, columns, weights = self._fibers[source, target].edges(brain)
        kept = weights != 1
        neurons = [
            area.neuron_of[brain].long()[slots[kept]] for area, slots in zip(areas, (rows, columns), strict=True)
        ]
        order = (neurons[0] * areas[1].n + neurons[1]).argsort()
        return neurons[0][order], neurons[1][order], weights[kept][order]

    # Plasticity, inhibition, normalisation

    def enable_plasticity(self) -> None:
        """Synapses grow again."""
        self._plastic = True

    def disable_plasticity(self) -> None:
        """Synapses keep their weights."""
        self._plastic = False

    enable_learning = enable_plasticity
    disable_learning = disable_plasticity

    def fix_assembly(self, area: str) -> None:
        """Keeps the winners of an area whatever its inputs; its synapses go on growing."""
        state = self._area("fix_assembly", area)
        if state.silent:
            raise ValueError(f"fix_assembly: area must have winners, got none in {area!r}")
        state.fixed = True

    freeze = fix_assembly

    def unfix_assembly(self, area: str) -> None:
        """Lets the winners of an area be selected again."""
        self._area("unfix_assembly", area).fixed = False

    def inhibit(self, area: str, lock: int = 0) -> None:
        """Locks an area: it neither fires nor is fired into until every lock is gone."""
        self._area("inhibit", area).locks.add(checks.integer("inhibit", "lock", lock))

    def disinhibit(self, area: str, lock: int = 0) -> None:
        """Takes one lock from an area."""
        self._area("disinhibit", area).locks.discard(checks.integer("disinhibit", "lock", lock))

    def inhibit_fiber(self, source: str, target: str, lock: int = 0) -> None:
        """Locks the fiber from one area to another: it carries nothing until every lock is gone."""
        self._area("inhibit_fiber", source), self._area("inhibit_fiber", target)
        self._locks.setdefault((source, target), set()).add(checks.integer("inhibit_fiber", "lock", lock))

    def disinhibit_fiber(self, source: str, target: str, lock: int = 0) -> None:
        """Takes one lock from a fiber."""
        self._area("disinhibit_fiber", source), self._area("disinhibit_fiber", target)
        self._locks.get((source, target), set()).discard(checks.integer("disinhibit_fiber", "lock", lock))

    def normalize(self, area: str) -> None:
        """From now on every fiber from an area into this one counts as if its columns were divided by their present sums.

        The synapses themselves are untouched. The first time costs the whole graph of each fiber, n_source n_target p.
        """
        target = self._area("normalize", area)
        target.normalized = set(self._areas)
        for (source, into), fiber in self._fibers.items():
            if into == area:
                fiber.hold("scale", column_scale(self._areas[source], target, fiber, self.seed))

    # Files

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the brain to a checked safetensors file, from which `load` goes on with the same bits.

        Args:
            path: the file, replaced in one step.
            key: with it the file is sealed by HMAC.
        """
        _storage.save(path, *self._content(), format=_FORMAT, version=_VERSION, key=key)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str | torch.device = "cpu", key: bytes | None = None) -> Self:
        """Reads a brain that `save` wrote.

        Raises:
            IntegrityError: the file is damaged or holds something else.
        """
        tensors, config = _storage.load(path, format=_FORMAT, version=_VERSION, key=key)
        return restore(cls, os.fsdecode(path), tensors, config, device)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {name: tensor.cpu() for name, tensor in self.state_dict().items() if isinstance(tensor, Tensor)}
        return tensors, self.get_extra_state()

    def get_extra_state(self) -> dict[str, Any]:
        """Everything but tensors, as plain values."""
        return {
            "p": self.p, "seed": self.seed, "mode": self.mode, "batch": self.batch, "plastic": self._plastic,
            "stimuli": [[name, size] for name, size in self._stimuli.items()],
            "areas": [[name, area.config()] for name, area in self._areas.items()],
            "fibers": [[*pair, fiber.config()] for pair, fiber in self._fibers.items()],
            "sources": [[*pair, source.config()] for pair, source in self._sources.items()],
            "locks": [[*pair, sorted(locks)] for pair, locks in self._locks.items() if locks],
            "betas": [[*pair, beta] for pair, beta in self._betas.items()],
            "order": [self._kind(state) for state in self.states],
        }  # fmt: skip

    def set_extra_state(self, state: Any) -> None:
        """Declares what a state_dict describes, in a brain that has nothing declared yet."""
        if not self.states:
            declare(self, state)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As of nn.Module; a brain without areas takes over those of the state.

        Raises:
            RuntimeError, ValueError: the tensors are not those of such a brain.
        """
        result = super().load_state_dict(state_dict, strict=strict, assign=assign)
        check_states(self)
        return result

    # What areas share

    def _unbatched(self, tensor: Tensor) -> Tensor:
        return tensor[0] if self.batch is None else tensor

    @staticmethod
    def _kind(state: nn.Module) -> str:
        return {AreaState: "area", FiberState: "fiber", StimulusState: "source"}[type(state)]  # type: ignore[index]

    def _check_new(self, op: str, name: str) -> None:
        checks.name(op, name)
        if name in self._areas or name in self._stimuli:
            raise ValueError(f"{op}: name must be new, got {name!r}")

    def _area(self, op: str, name: str) -> AreaState:
        if name not in self._areas:
            raise ValueError(f"{op}: area must be declared, got {name!r}")
        return self._areas[name]

    def _beta(self, source: str, target: str) -> float:
        return self._betas.get((target, source), self._areas[target].beta)

    def _append(self, state: State) -> None:
        self.states.append(state)

    def _add_area(self, name: str, config: Mapping[str, Any]) -> AreaState:
        self._areas[name] = AreaState(len(self._areas), config, self._brains, self._device)
        self._append(self._areas[name])
        return self._areas[name]

    def _fiber_config(self, source: str, target: str) -> dict[str, Any]:
        return {"id": _fiber_id("area", source, target), "p": self.p, "beta": None, "w_max": None, "procedural": True}

    def _add_fiber(self, source: str, target: str, config: Mapping[str, Any]) -> FiberState:
        from_area, into = self._areas[source], self._areas[target]
        fiber = FiberState(from_area, into, config, self._brains, self._device)
        fiber.reserve(from_area.neuron_of.shape[1])
        if source in into.normalized:
            fiber.hold("scale", column_scale(from_area, into, fiber, self.seed))
        self._fibers[source, target] = fiber
        self._append(fiber)
        return fiber

    def _fiber(self, source: str, target: str) -> FiberState:
        known = self._fibers.get((source, target))
        return known if known is not None else self._add_fiber(source, target, self._fiber_config(source, target))

    def _source(self, stimulus: str, target: str) -> StimulusState:
        if (stimulus, target) not in self._sources:
            config = {"stimulus": stimulus, "id": _fiber_id("stimulus", stimulus, target), "beta": None}
            self._add_source(stimulus, target, config)
        return self._sources[stimulus, target]

    def _add_source(self, stimulus: str, target: str, config: Mapping[str, Any]) -> StimulusState:
        state = StimulusState(self._areas[target], config, self._brains, self._device)
        _ops._stimulus_counts_(state.counts, self._stimuli[stimulus], self.p, self.seed, state.id)
        self._sources[stimulus, target] = state
        self._append(state)
        return state

    def _reserve_area(self, area: AreaState, slots: int) -> None:
        """Memory for that many slots of an area, in all that is numbered by them."""
        if area.neuron_of.shape[1] >= slots:
            slots = area.neuron_of.shape[1]
        area.reserve(slots)
        for fiber in self._fibers.values():
            if fiber.source_index == area.index:
                fiber.reserve(slots)
        for source in self._sources.values():
            if source.target_index == area.index:
                source.reserve(slots)

    def _reserve(self, slots: int) -> None:
        for area in self._areas.values():
            self._reserve_area(area, slots)
