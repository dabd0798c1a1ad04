"""The model of areas, stimuli and Hebbian fibers on dense NumPy matrices: slow, plain, and exact to the last bit.

The oracle of `torch_hrr.assembly.Brain(mode="exact")`. It shares no code with it: the base graph comes from the caller,
and every fiber is a dense float32 matrix.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch

WEIGHT_BITS = 24  # an input counts in units of 2^-24, so that its terms are integers and their order is nothing
NORMALIZED_BITS = 16  # further bits of an input to which a normalised fiber contributes
SATURATION = np.float32(2**24)  # of a weight without a cap

Edges = Callable[[str, str], np.ndarray]
Projections = Mapping[str, Iterable[str]]


def fixed_point(weights):
    """round(w 2^24) as int64."""
    return np.rint(weights.astype(np.float64) * 2.0**WEIGHT_BITS).astype(np.int64)


def potentiated(weights, beta, cap):
    """min(w (1 + beta), cap), each step in float32."""
    return np.minimum(weights * np.float32(1.0 + beta), cap)


def k_largest(inputs, k, order=None):
    """The indices, ascending, of the k largest; among equal ones those whose `order`, else index, is lower."""
    order = np.arange(len(inputs)) if order is None else order
    return np.sort(np.lexsort((order, -inputs))[:k]).astype(np.int64)


@dataclass
class Area:
    n: int
    k: int
    beta: float
    refracted: float
    normalize: bool
    w_max: float | None
    refractory_period: int
    inhibition_strength: float
    order: np.ndarray  # of the neurons: of equal inputs the lower one wins
    fixed: bool = False
    winners: np.ndarray | None = None
    locks: set[int] = field(default_factory=set)
    wins: np.ndarray = field(init=False)  # of each neuron
    age: np.ndarray = field(init=False)  # rounds of the area since the neuron's last win

    def __post_init__(self):
        self.wins = np.zeros(self.n, np.int64)
        self.age = np.full(self.n, self.refractory_period, np.int64)

    def penalties(self):
        """int64 [n], what earlier wins take from the inputs, in units of 2^-24."""
        total = self.wins * round(self.refracted * 2**WEIGHT_BITS)
        if self.refractory_period:
            strength = round(self.inhibition_strength * 2**WEIGHT_BITS)
            left = np.maximum(self.refractory_period - self.age, 0)
            total += strength * left // self.refractory_period
        return total


class DenseBrain:
    """One brain.

    Args:
        edges: (source area, target area) -> 0/1 array [n_source, n_target], the base graph.
        stimulus: (stimulus, target area) -> counts [n_target], the synapses from the stimulus onto each neuron.
        order: (area, n) -> distinct numbers [n]: in an area whose ties are keyed the lower one wins.
    """

    def __init__(self, edges: Edges, stimulus: Edges, order: Callable[[str, int], np.ndarray] | None = None):
        self._edges, self._stimulus, self._order = edges, stimulus, order
        self.areas: dict[str, Area] = {}
        self.stimuli: dict[str, int] = {}
        self._weights: dict[tuple[str, str], np.ndarray] = {}  # (source, target): float32 [n_source, n_target]
        self._counts: dict[tuple[str, str], np.ndarray] = {}  # (stimulus, target): the counts before plasticity
        self._sums: dict[tuple[str, str], np.ndarray] = {}  # (stimulus, target): float32 [n_target]
        self._scales: dict[tuple[str, str], np.ndarray] = {}  # (source, target): float64 [n_target] where normalised
        self._betas: dict[tuple[str, str], float] = {}  # (target, source) where it is not the target's
        self._caps: dict[tuple[str, str], float] = {}  # (source, target) where it is not the target's
        self._fiber_locks: dict[tuple[str, str], set[int]] = {}
        self._plastic = True

    def add_stimulus(self, name, size):
        self.stimuli[name] = size

    def add_area(
        self,
        name,
        n,
        k,
        beta,
        refracted=False,
        normalize=False,
        w_max=None,
        refractory_period=0,
        inhibition_strength=0.0,
        ties="index",
    ):
        order = np.arange(n) if ties == "index" else self._order(name, n)
        self.areas[name] = Area(
            n, k, beta, float(refracted), normalize, w_max, refractory_period, inhibition_strength, order
        )

    def connect(self, source, target, p=None, beta=None, w_max=None, edges=None):
        """What is special about a fiber; a density of its own is that of what `edges` of the brain returns."""
        if beta is not None:
            self.set_beta(source, target, beta)
        if w_max is not None:
            self._caps[source, target] = w_max
        if edges is not None:
            self._weights[source, target] = edges.to_dense().numpy().astype(np.float32)

    def set_beta(self, source, target, beta):
        """The plasticity of the fiber from `source`, an area or a stimulus, to `target`."""
        self._betas[target, source] = beta

    def enable_plasticity(self):
        self._plastic = True

    def disable_plasticity(self):
        self._plastic = False

    def winners(self, area):
        """int64, ascending; none before the first projection."""
        winners = self.areas[area].winners
        return np.zeros(0, np.int64) if winners is None else winners.copy()

    def support(self, area):
        """How many neurons were ever selected."""
        return int((self.areas[area].wins > 0).sum())

    def activate(self, area, indices):
        """Sets the winners, which counts nothing as won."""
        self.areas[area].winners = np.unique(np.asarray(indices, np.int64))

    def fix_assembly(self, area):
        if self.areas[area].winners is None:
            raise ValueError(f"fix_assembly: area must have winners, got none in {area!r}")
        self.areas[area].fixed = True

    def unfix_assembly(self, area):
        self.areas[area].fixed = False

    def inhibit(self, area, lock=0):
        """A locked area neither fires nor is fired into, until its last lock goes."""
        self.areas[area].locks.add(lock)

    def disinhibit(self, area, lock=0):
        self.areas[area].locks.discard(lock)

    def inhibit_fiber(self, source, target, lock=0):
        """A locked fiber carries nothing, until its last lock goes."""
        self._fiber_locks.setdefault((source, target), set()).add(lock)

    def disinhibit_fiber(self, source, target, lock=0):
        self._fiber_locks.get((source, target), set()).discard(lock)

    def weights(self, source, target):
        """float32 [n_source, n_target] of an area-to-area fiber; 0 where there is no edge."""
        if (source, target) not in self._weights:
            base = np.asarray(self._edges(source, target))
            assert base.shape == (self.areas[source].n, self.areas[target].n) and np.isin(base, (0, 1)).all()
            self._weights[source, target] = base.astype(np.float32)
        return self._weights[source, target]

    def stimulus_sums(self, stimulus, target):
        """float32 [n_target]: the synapses of the whole stimulus, each of which has the same weight, summed."""
        if (stimulus, target) not in self._sums:
            counts = np.asarray(self._stimulus(stimulus, target))
            assert counts.shape == (self.areas[target].n,)
            self._counts[stimulus, target] = counts.astype(np.float32)
            self._sums[stimulus, target] = counts.astype(np.float32)
        return self._sums[stimulus, target]

    def normalize(self, target):
        """From now on each fiber from an area counts as if its columns were divided by what they sum to now."""
        for source in self.areas:
            total = fixed_point(self.weights(source, target)).sum(0).astype(np.float64) / 2.0**WEIGHT_BITS
            self._scales[source, target] = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)

    def inputs(self, target, stimuli, sources):
        """int64 [n_target]: what the target's neurons receive from the stimuli and the winners of the sources."""
        normalized = any((source, target) in self._scales for source in self.areas)
        shift = NORMALIZED_BITS if normalized else 0
        total = np.zeros(self.areas[target].n, np.int64)
        for stimulus in stimuli:
            total += fixed_point(self.stimulus_sums(stimulus, target)) << shift
        for source in sources:
            fired = fixed_point(self.weights(source, target)[self.winners(source)]).sum(0)
            if (source, target) in self._scales:
                scaled = fired.astype(np.float64) * self._scales[source, target] * 2.0**NORMALIZED_BITS
                total += np.rint(scaled).astype(np.int64)
            else:
                total += fired << shift
        return total - (self.areas[target].penalties() << shift)

    def project(self, stimuli: Projections | None = None, areas: Projections | None = None, rounds=1):
        """`rounds` synchronous steps of {source: [targets]}."""
        stimuli_into, areas_into = self._open(stimuli or {}, areas or {})
        for _ in range(rounds):
            self._step(stimuli_into, areas_into)

    def _open(self, stimuli, areas):
        """target -> its stimuli and target -> its source areas, over what no lock stops; raises before any change."""
        for name in [*areas, *(target for targets in [*stimuli.values(), *areas.values()] for target in targets)]:
            if name not in self.areas:
                raise KeyError(f"project: area must be declared, got {name!r}")
        for name in stimuli:
            if name not in self.stimuli:
                raise KeyError(f"project: stimulus must be declared, got {name!r}")
        free = {name for name, area in self.areas.items() if not area.locks}
        stimuli_into = {name: [] for name in self.areas}
        areas_into = {name: [] for name in self.areas}
        for stimulus, targets in stimuli.items():
            for target in free.intersection(targets):
                stimuli_into[target].append(stimulus)
        for source in free.intersection(areas):
            for target in free.intersection(areas[source]):
                if self._fiber_locks.get((source, target)):
                    continue
                if self.areas[source].winners is None and source != target:
                    raise ValueError(f"project: source area must have winners, got none in {source!r}")
                areas_into[target].append(source)
        return stimuli_into, areas_into

    def _step(self, stimuli_into, areas_into):
        targets = [name for name in self.areas if stimuli_into[name] or areas_into[name]]
        for name in targets:
            if self.areas[name].normalize:
                self.normalize(name)
        selected = {}
        for name in targets:
            area = self.areas[name]
            if area.fixed:
                selected[name] = self.winners(name)
            else:
                selected[name] = k_largest(self.inputs(name, stimuli_into[name], areas_into[name]), area.k, area.order)
        # All winners are still those of t - 1 here.
        for name in targets:
            if self._plastic:
                self._learn(name, selected[name], stimuli_into[name], areas_into[name])
        for name in targets:
            area = self.areas[name]
            area.winners = selected[name]
            area.age += 1
            if not area.fixed:
                area.wins[selected[name]] += 1
                area.age[selected[name]] = 0

    def _learn(self, target, selected, stimuli, sources):
        area = self.areas[target]
        w_max = 2.0**24 if area.w_max is None else area.w_max
        for stimulus in stimuli:
            sums = self.stimulus_sums(stimulus, target)
            beta = self._betas.get((target, stimulus), area.beta)
            # w_max is of a synapse, and a stimulus has as many as it counts.
            cap = np.minimum(self._counts[stimulus, target][selected] * np.float32(w_max), SATURATION)
            sums[selected] = potentiated(sums[selected], beta, cap)
        for source in sources:
            block = np.ix_(self.winners(source), selected)
            weights = self.weights(source, target)
            beta = self._betas.get((target, source), area.beta)
            cap = np.float32(self._caps.get((source, target), w_max))
            weights[block] = potentiated(weights[block], beta, cap)


def oracle_of(brain, b=0):
    """The oracle of a `Brain`, or of brain `b` of a batch: of its graph, areas and stimuli, before their first use."""

    def edges(source, target):
        # Through the public operator, a row at a time.
        rows, into = torch.arange(brain.areas[source].n).unsqueeze(-1), brain.areas[target].n
        density = brain.fibers[source, target].p if (source, target) in brain.fibers else brain.p
        fiber = brain.fiber_id(source, target)
        return torch.ops.torch_hrr.connectome_inputs(rows, into, density, brain.seed, fiber, b).numpy()

    def counts(stimulus, area):
        return brain.stimulus_counts(stimulus, area).reshape(-1, brain.areas[area].n)[b].numpy()

    dense = DenseBrain(edges, counts, lambda area, n: keyed_order(brain.seed, b, area, n))
    for name, size in brain.stimuli.items():
        dense.add_stimulus(name, size)
    for name, area in brain.areas.items():
        dense.add_area(name, area.n, area.k, area.beta, w_max=area.w_max, **area.options)
    return dense


def keyed_order(seed, index, area, n):
    """Who comes before whom where ties go by key: numbers of 32 bits that are all different."""

    def split_mix(x):
        x = (x + 0x9E3779B97F4A7C15) % 2**64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
        return x ^ x >> 31

    def lowbias(x):
        x = (x ^ x >> 16) * 0x7FEB352D % 2**32
        x = (x ^ x >> 15) * 0x846CA68B % 2**32
        return x ^ x >> 16

    digest = hashlib.sha256(f"ties{len(area)}:{area}".encode()).digest()
    key = split_mix(split_mix(split_mix(seed % 2**64) ^ index) ^ int.from_bytes(digest[:8], "little"))
    return np.array([lowbias(lowbias(j ^ key % 2**32) ^ key >> 32) for j in range(n)])
