"""What a batch of brains consists of: areas, stimuli, fibers, their flags and their tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from torch_hrr._checks import is_bool
from torch_hrr._plain.random import mix64
from torch_hrr._spec import Bool, Choice, Int, Real, takes
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _state
from torch_hrr.assembly._connect import chunked_edges, scale_columns
from torch_hrr.assembly._state import AreaState, FiberState, StimulusState, largest_weight

_ops = torch.ops.torch_hrr
# Seconds on a slow core: for a base synapse of a winner, a neuron of a target, a target's round in mode "sampled".
_SYNAPSE, _NEURON, _SAMPLED = 5e-9, 2e-9, 2e-3
# Bytes of a slot in an area and in a fiber from it, and of all slots that a call reserves, but for so many rounds.
_SLOT, _SLOT_OF_FIBER, _SLOTS, _LEAST_ROUNDS = 5, 12, 1 << 20, 10
# The largest, in units of a fresh synapse: counted in 2^-24, sums of penalties stay far from 64 bits.
_PENALTY = 2.0**20

Projections = Mapping[str, str | Iterable[str]]
Pairs = list[tuple[str, str]]
Locks = dict[int, set[int]]
"""The brains that each lock holds."""


def fiber_id(kind: str, source: str, target: str) -> int:
    """A fiber's name as 64 bits, from the names alone: declaration order is nothing."""
    text = f"{kind}{len(source)}:{source}{target}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little", signed=True)


@dataclass(frozen=True)
class Plan:
    """What takes part in rounds of some brains, all of which do the same.

    Attributes:
        brains: Their numbers; None for the whole batch.
        stimuli: Pairs of a stimulus and an area.
        areas: Pairs of areas.
        fixed: Areas whose winners stay.
    """

    brains: tuple[int, ...] | None
    stimuli: Pairs
    areas: Pairs
    fixed: frozenset[str]

    @property
    def targets(self) -> set[str]:
        """The areas that something fires into."""
        return {target for _, target in (*self.stimuli, *self.areas)}


class Network:
    """Declarations and state of a batch of brains, without what happens in a round.

    Attributes:
        p: Density of the connectome.
        seed: As the signed 64-bit integer of the same bits; 0 where each brain has its own.
        seeds: Those of the brains, or None where all of them share `seed`.
        mode: "exact" or "sampled".
        batch: The number of brains, or None for one without a leading dimension.
        brains: The number of brains.
        plastic: Whether synapses grow in train mode.
        version: Grows with whatever may change a synapse.
        areas: Areas by name.
        stimuli: Sizes of stimuli by name.
        fibers: Fibers in use by source and target area.
        sources: Synapses of stimuli in use, by stimulus and area.
        locks: Locks of fibers, by source and target area.
        betas: Plasticity where it is not the target's, by target and source.
        states: Areas, fibers and sources in the order in which they came into use.
    """

    def __init__(
        self,
        p: float,
        seed: int,
        mode: str,
        device: torch.device,
        batch: int | None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Empty."""
        self.p = p
        self.seed = seed
        self.mode = mode
        self.batch = batch
        self.brains = batch or 1
        self.seeds = None if seeds is None else tuple(seeds)
        self._numbers: Tensor | None = None
        self.plastic = True
        self.version = 0
        self.areas: dict[str, AreaState] = {}
        self.stimuli: dict[str, int] = {}
        self.fibers: dict[tuple[str, str], FiberState] = {}
        self.sources: dict[tuple[str, str], StimulusState] = {}
        self.locks: dict[tuple[str, str], Locks] = {}
        self.betas: dict[tuple[str, str], float] = {}
        self.states = nn.ModuleList()
        self.given_device = device

    @property
    def learns(self) -> bool:
        """Whether rounds change synapses; a module in eval mode has its states in eval mode."""
        return self.plastic and self.states.training

    @property
    def device(self) -> torch.device:
        """Where its tensors are; before there are any, where they will be."""
        for area in self.areas.values():
            return area.winners.device
        return self.given_device

    def numbers(self) -> Tensor:
        """int64 [brains] that make of `seed` the keys of each brain's own; empty where `seed` is that of all."""
        kept = self._numbers
        if kept is None or kept.device != self.device or kept.is_inference():
            # Kept: captured rounds look for it where it was.
            kept = self._numbers = self._make_numbers()
        return kept

    @torch.inference_mode(False)
    def _make_numbers(self) -> Tensor:
        made = [mix64(self.seed % 2**64) ^ mix64(own % 2**64) for own in self.seeds or ()]
        signed = [number - 2**64 if number >= 2**63 else number for number in made]
        return torch.tensor(signed, dtype=torch.int64, device=self.device)

    def graph(self, brain: int) -> tuple[int, int]:
        """The seed and the number that name a brain's random graph."""
        return (self.seed, brain) if self.seeds is None else (self.seeds[brain], 0)

    @property
    def graphs(self) -> list[tuple[int, int]]:
        """Those of all brains."""
        return [self.graph(brain) for brain in range(self.brains)]

    @property
    def everyone(self) -> set[int]:
        """The numbers of all brains."""
        return set(range(self.brains))

    def unbatched(self, tensor: Tensor) -> Tensor:
        """Without the dimension of brains where there is no batch."""
        return tensor[0] if self.batch is None else tensor

    # Names

    def check_exact(self, op: str) -> None:
        """ValueError in mode "sampled"."""
        checks.exact(op, self.mode)

    def area(self, op: str, name: str, argument: str = "area") -> AreaState:
        """The area of this name; ValueError where there is none."""
        return self.areas[checks.declared(op, argument, name, self.areas, ("a stimulus", self.stimuli))]

    def ends(self, op: str, source: str, target: str) -> tuple[AreaState, AreaState]:
        """The areas of these names, of a fiber that may not be in use."""
        return self.area(op, source, "source"), self.area(op, target, "target")

    def check_stimulus(self, op: str, name: str) -> None:
        """ValueError unless there is a stimulus of this name."""
        checks.declared(op, "stimulus", name, self.stimuli, ("an area", self.areas))

    def check_pair(self, op: str, source: str, target: str) -> None:
        """ValueError unless something of the first name may fire into an area of the second."""
        self.area(op, target, "target")
        self.check_source(op, source)

    def check_source(self, op: str, name: str) -> None:
        """ValueError unless it is an area or a stimulus."""
        if not isinstance(name, str) or name not in self.stimuli:
            self.area(op, name, "source")

    def fired(self, op: str, stimuli: Any, areas: Any) -> tuple[Any, Any]:
        """Projections of stimuli and of areas; those of one source, of either kind, if the first is a name."""
        if not isinstance(stimuli, str):
            return stimuli, areas
        self.check_source(op, stimuli)
        if isinstance(areas, Mapping) or not (isinstance(areas, str) or checks.is_several(areas)):
            raise TypeError(f"{op}: areas must be those that {stimuli!r} fires into, got {checks.brief(areas)}")
        return ({stimuli: areas}, {}) if stimuli in self.stimuli else ({}, {stimuli: areas})

    def area_locks(self, op: str, area: str, lock: int) -> set[int]:
        """The brains in which a lock holds an area, to be changed."""
        return self.area(op, area).locks.setdefault(lock, set())

    def fiber_locks(self, op: str, source: str, target: str, lock: int) -> set[int]:
        """The brains in which a lock holds a fiber, to be changed."""
        self.ends(op, source, target)
        return self.locks.setdefault((source, target), {}).setdefault(lock, set())

    def which(self, op: str, brains: Any) -> list[int]:
        """The numbers of the brains that a call is for, ascending; all of them for None."""
        return checks.brains(op, brains, self.batch)

    def rows(self, brains: Sequence[int]) -> slice | Tensor:
        """An index of the rows of these brains in the tensors."""
        if len(brains) == self.brains and list(brains) == list(range(self.brains)):
            return slice(None)
        return torch.tensor(brains, dtype=torch.int64, device=self.device)

    # Declarations

    @takes("add_stimulus", size=Int(0, 2**31 - 2))
    def declare_stimulus(self, name: str, size: int) -> None:
        """A stimulus; `Brain.add_stimulus`."""
        checks.new("add_stimulus", name, (self.areas, self.stimuli))
        self.stimuli[name] = size

    @takes(
        "add_area",
        n=Int(1, 2**31 - 2),
        k=Int(1),
        beta=Real(0),
        normalize=Bool(),
        w_max=Real(1).or_none(),
        refractory_period=Int(0, 2**16),
        inhibition_strength=Real(0, _PENALTY),
        ties=Choice(("index", "keyed")),
    )
    def declare_area(
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
        ties: str = "index",
    ) -> None:
        """An area; `Brain.add_area`."""
        op = "add_area"
        checks.new(op, name, (self.areas, self.stimuli))
        bias = float(refracted) if is_bool(refracted) else refracted
        config: dict[str, Any] = {
            "n": n,
            "k": checks.integer(op, "k", k, least=1, most=n, limit="n"),
            "beta": beta,
            "refracted": checks.number(op, "refracted", bias, 0, _PENALTY),
            "normalize": normalize,
            "w_max": w_max,
            "refractory_period": refractory_period,
            "inhibition_strength": inhibition_strength,
            "ties": ties,
        }
        exact = ("refracted", "normalize", "refractory_period", "inhibition_strength")
        if self.mode == "sampled" and ties != "index":
            raise ValueError(f"{op}: ties must be 'index' in mode 'sampled', got {ties!r}")
        if self.mode == "sampled" and any(config[option] for option in exact):
            raise ValueError(f"{op}: {', '.join(exact)} must not be given in mode 'sampled'")
        if inhibition_strength and not refractory_period:
            raise ValueError(f"{op}: refractory_period must be at least 1 with inhibition_strength, got 0")
        self.add_area(name, config)

    def connect(
        self, source: str, target: str, p: float | None, beta: float | None, w_max: float | None, edges: Tensor | None
    ) -> None:
        """Configures a fiber before its first use; `Brain.connect`."""
        pair = self.ends("connect", source, target)
        self.check_exact("connect")
        if (source, target) in self.fibers:
            raise ValueError(f"connect: the fiber must not have been used, got {source!r} to {target!r}")
        config = self.fiber_config(source, target)
        config |= {"p": self.p if p is None else p, "w_max": w_max}
        table = None
        if edges is not None:
            if p is not None:
                raise ValueError("connect: p must not be given with edges")
            w_max = pair[1].w_max if w_max is None else w_max
            table = checks.own_graph("connect", edges, pair[0].n, pair[1].n, largest_weight(pair[0].k), w_max)
            config["procedural"] = False
        fiber = self.add_fiber(source, target, config)
        if beta is not None:
            self.betas[target, source] = beta
        if table is not None:
            chunked_edges(table, pair[0], pair[1], fiber)
            if source in pair[1].normalized:
                fiber.forget_sums()
                scale_columns(pair[0], pair[1], fiber, self.graphs)
            self.reserve()
        self.version += 1

    # Parts

    def add_area(self, name: str, config: Mapping[str, Any]) -> AreaState:
        """A silent area."""
        mapped = {**config, "sampled": self.mode == "sampled", "tie_id": fiber_id("ties", name, "")}
        self.areas[name] = AreaState(len(self.areas), mapped, self.brains, self.device)
        self.states.append(self.areas[name])
        return self.areas[name]

    def fiber_config(self, source: str, target: str) -> dict[str, Any]:
        """That of a fiber nothing special is said about."""
        return {"id": fiber_id("area", source, target), "p": self.p, "w_max": None, "procedural": True}

    def add_fiber(self, source: str, target: str, config: Mapping[str, Any]) -> FiberState:
        """A fiber without potentiated synapses."""
        from_area, into = self.areas[source], self.areas[target]
        fiber = FiberState(from_area, into, config, self.brains, self.device)
        fiber.reserve(from_area.neuron_of.shape[1])
        if source in into.normalized:
            scale_columns(from_area, into, fiber, self.graphs)
        self.fibers[source, target] = fiber
        self.states.append(fiber)
        self.version += 1
        return fiber

    def fiber(self, source: str, target: str) -> FiberState:
        """The fiber, which its first use declares."""
        known = self.fibers.get((source, target))
        return known if known is not None else self.add_fiber(source, target, self.fiber_config(source, target))

    def source(self, stimulus: str, target: str) -> StimulusState:
        """The synapses of a stimulus, whose first use declares them."""
        if (stimulus, target) not in self.sources:
            config = {"stimulus": stimulus, "id": fiber_id("stimulus", stimulus, target)}
            state = StimulusState(self.areas[target], config, self.brains, self.device)
            state.hold("counts", self.stimulus_counts(stimulus, target), persistent=False)
            self.sources[stimulus, target] = state
            self.states.append(state)
        return self.sources[stimulus, target]

    def stimulus_counts(self, stimulus: str, target: str) -> Tensor:
        """int32 [brains, n], drawn where the stimulus never fired into the area: reading declares nothing."""
        if (stimulus, target) in self.sources:
            return self.sources[stimulus, target].counts
        counts = torch.empty(self.brains, self.areas[target].n, dtype=torch.int32, device=self.device)
        id = fiber_id("stimulus", stimulus, target)
        parts = [(counts, self.seed)] if self.seeds is None else zip(counts.split(1), self.seeds, strict=True)
        for part, seed in parts:
            _ops._stimulus_counts_(part, self.stimuli[stimulus], self.p, seed, id)
        return counts

    def check_sums(self, op: str, areas: Collection[str]) -> None:
        """RuntimeError unless the sums of all columns into these areas are kept, to be captured in a graph."""
        if not all(fiber.sums.numel() for (_, into), fiber in self.fibers.items() if into in areas):
            raise RuntimeError(f"{op}: columns must be normalised before a CUDA graph is captured: make the call once")

    def beta(self, source: str, target: str) -> float:
        """The plasticity of what `source`, an area or a stimulus, sends to `target`."""
        return self.betas.get((target, source), self.areas[target].beta)

    def largest_weight(self, source: str, target: str) -> float:
        """The cap of a synapse's weight, infinite where there is none."""
        fiber = self.fibers.get((source, target))
        own = None if fiber is None else fiber.w_max
        w_max = self.areas[target].w_max if own is None else own
        return float("inf") if w_max is None else w_max

    def reserve_area(self, area: AreaState, slots: int) -> None:
        """Memory for that many slots of an area, in all that is numbered by them."""
        capacity = area.neuron_of.shape[1]
        if slots > capacity:
            # At least an eighth more: a sequence of calls seldom moves what may be hundreds of stimuli.
            self._hold_slots(area, min(area.n, max(slots, capacity + capacity // 8)))

    def reserve(self) -> None:
        """As much memory for slots in everything as the areas have."""
        for area in self.areas.values():
            self._hold_slots(area, area.neuron_of.shape[1])

    def _hold_slots(self, area: AreaState, slots: int) -> None:
        area.reserve(slots)
        for fiber in self.fibers.values():
            if fiber.source_index == area.index:
                fiber.reserve(slots)
        for source in self.sources.values():
            if source.target_index == area.index:
                source.reserve(slots)

    # What takes part in a round

    def silent(self, names: Collection[str]) -> dict[str, set[int]]:
        """The brains in which an area has no winners; one transfer from the device for all areas."""
        if not names or _state.is_capturing(self.device):
            return {name: set() for name in names}
        counts = torch.stack([self.areas[name].winner_count for name in names]).tolist()
        return {
            name: {brain for brain, count in enumerate(of_brains) if count == 0}
            for name, of_brains in zip(names, counts, strict=True)
        }

    def open(self, fibers: Iterable[tuple[str, str]], brains: set[int]) -> dict[tuple[str, str], set[int]]:
        """For fibers by source and target area those of some brains that no lock holds."""
        free = {name: brains - inhibited(area.locks) for name, area in self.areas.items()}
        return {pair: free[pair[0]] & free[pair[1]] - inhibited(self.locks.get(pair, {})) for pair in fibers}

    def plans(
        self,
        op: str,
        stimuli: Projections,
        areas: Projections,
        brains: Sequence[int] | None = None,
        reached: Collection[str] = (),
    ) -> list[Plan]:
        """What takes part, brains that do the same together; raises before any change.

        Args:
            op: The caller's name.
            stimuli: The areas that each stimulus fires into.
            areas: The areas that each area fires into.
            brains: Of the call; None for all.
            reached: Areas that will have winners by then.
        """
        stimuli = checks.projections(
            op, "stimuli", stimuli, self.stimuli, self.areas, "stimulus", ("an area", self.areas)
        )
        of_stimuli = ("a stimulus", self.stimuli)
        areas = checks.projections(op, "areas", areas, self.areas, self.areas, "area", of_stimuli)
        asked = self.everyone if brains is None else set(brains)
        from_stimuli = {pair: asked - inhibited(self.areas[pair[1]].locks) for pair in pairs_of(stimuli)}
        from_areas = self.open(pairs_of(areas), asked)
        self._check_sources(op, from_stimuli, from_areas, reached)
        targets = dict.fromkeys(target for _, target in (*from_stimuli, *from_areas))
        differ = [of for of in (*from_stimuli.values(), *from_areas.values()) if of and of != asked]
        differ += [self.areas[name].fixed for name in targets if self.areas[name].fixed & asked not in (asked, set())]
        # Brains of one plan are those that every one of the sets that differ either holds or does not.
        alike: dict[tuple[bool, ...], list[int]] = {}
        for brain in sorted(asked) if differ else ():
            alike.setdefault(tuple(brain in of for of in differ), []).append(brain)
        groups = list(alike.values()) if differ else [sorted(asked)]
        plans = []
        for group in groups:
            if not group:
                continue
            one = group[0]
            plan = Plan(
                None if len(group) == self.brains else tuple(group),
                [pair for pair, of in from_stimuli.items() if one in of],
                [pair for pair, of in from_areas.items() if one in of],
                frozenset(name for name in targets if one in self.areas[name].fixed),
            )
            self._check_firing(op, plan)
            if plan.stimuli or plan.areas:
                plans.append(plan)
        return plans

    def seconds(self, plans: Iterable[Plan]) -> float:
        """What a round of these plans takes at most, about; most rounds take less."""
        total = 0.0
        for plan in plans:
            brains = self.brains if plan.brains is None else len(plan.brains)
            if self.mode == "sampled":
                total += brains * len(plan.targets) * _SAMPLED
                continue
            total += brains * _NEURON * sum(self.areas[name].n for name in plan.targets)
            for source, target in plan.areas:
                fiber = self.fibers.get((source, target))
                density = self.p if fiber is None else fiber.p
                total += brains * _SYNAPSE * density * self.areas[source].k * self.areas[target].n
        return total

    def rounds_at_once(self, plans: Iterable[Plan]) -> int:
        """Rounds of these plans that share a reservation of slots: each may add k of them to an area, but few do."""
        bytes_of_round = 0
        for plan in plans:
            for name in {*plan.targets, *(source for source, _ in plan.areas)}:
                fibers = sum(source == name for source, _ in plan.areas)
                bytes_of_round += self.brains * self.areas[name].k * (_SLOT + fibers * _SLOT_OF_FIBER)
        return max(_LEAST_ROUNDS, _SLOTS // max(bytes_of_round, 1))

    def _check_sources(
        self,
        op: str,
        from_stimuli: Mapping[tuple[str, str], set[int]],
        from_areas: Mapping[tuple[str, str], set[int]],
        reached: Collection[str],
    ) -> None:
        """ValueError where a source has no winners: but for an area into itself that something else fires into, too."""
        others: dict[str, set[int]] = {}
        for (source, target), brains in (*from_stimuli.items(), *from_areas.items()):
            if source != target:
                others.setdefault(target, set()).update(brains)
        needed: dict[str, set[int]] = {}
        for (source, target), brains in from_areas.items():
            alone = brains - others.get(target, set()) if source == target else brains
            if source not in reached and alone:
                needed.setdefault(source, set()).update(alone)
        for source, without in self.silent(needed).items():
            if missing := needed[source] & without:
                where = "" if self.batch is None else f" of brain {min(missing)}"
                raise ValueError(f"{op}: source area must have winners, got none in {source!r}{where}")

    def _check_firing(self, op: str, plan: Plan) -> None:
        for name in {target for _, target in plan.stimuli}:
            firing = sum(self.stimuli[stimulus] for stimulus, target in plan.stimuli if target == name)
            firing += sum(self.areas[source].k for source, target in plan.areas if target == name)
            if firing >= 2**31:
                raise ValueError(f"{op}: fewer than 2^31 neurons must fire into an area, got {firing} into {name!r}")


def inhibited(locks: Locks) -> set[int]:
    """The brains that some lock holds."""
    return set().union(*locks.values())


def pairs_of(projections: Mapping[str, Iterable[str]]) -> Pairs:
    """Sources with each of their targets, once."""
    return [(source, target) for source, targets in projections.items() for target in dict.fromkeys(targets)]
