"""Brain: areas of neurons, stimuli and plastic random fibers, and the operations of the assembly calculus."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn

from torch_hrr._progress import Progress, ticking
from torch_hrr._spec import Real, takes
from torch_hrr.assembly import _calculus as calculus
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _external as external_inputs
from torch_hrr.assembly import _inputs as reading
from torch_hrr.assembly._network import Projections, fiber_id
from torch_hrr.assembly._rounds import RoundsModule
from torch_hrr.assembly._views import AreaView, FiberView, area_views, fiber_views
from torch_hrr.assembly.projection import Projection

Brains = int | Sequence[int] | Tensor | None
"""Which brains of a batch: an index, several, a mask, or None for all."""
_OLDER = {"add_fiber": "connect", "freeze": "fix_assembly", "project_rounds": "project"}


class Brain(RoundsModule):
    """Areas of n neurons of which k fire, stimuli, and random plastic synapses between all of them.

    Each neuron i of area A has a synapse onto each neuron j of area B (B may be A) with probability p, independently,
    of weight 1. In one round, which computes all targets at once from the winners of the round before:

    1. ``x_j`` = the sum of the weights of the synapses onto j from the stimuli and winners that fire into its area;
    2. the new winners of an area are its k neurons with the largest ``x_j``, ties to the lower index;
    3. in train mode, the synapses from what fired to the new winners grow: ``w = min(w (1 + beta), w_max)``.

    A stimulus is `size` neurons that fire together. The graph is a function of (seed, brain, names) and takes no
    memory; potentiated synapses are kept in a table. Weights are float32, inputs exact multiples of 2^-24 in 64 bits,
    so that the same seed gives the same winners whatever the device (of a GPU according to tests that run the kernels
    on the host), the threads, the batch, the order of declarations or a save in between. In mode "sampled" the order of
    declarations and the kind of device matter.

    A round costs about 1.4 ns (AVX-512) for each base synapse of the winners that came or went since the last one, a
    pass over the n sums of the area, and little else. Memory: 4 bytes per neuron, and 4 per neuron and fiber used.

    With a batch, many calls take ``brains`` (an index, a sequence of indices or a bool mask ``[batch]``) and change
    only those brains: winners, locks, fixed assemblies and projections may differ from brain to brain. Brains that do
    the same run together; brains that differ form groups, which run one after the other.

    Args:
        p: density of the connectome, in [0, 1].
        seed: 64 bits (modulo 2^64).
        mode: "exact", or "sampled": the lazy method of the published simulator, which is biased and serves to compare
            with published figures (see `torch_hrr.assembly._sampled.SampledEngine`). Its random numbers come from
            torch.Generator: a seed's winners depend on the kind of device, and the brain cannot leave its device.
        device: where the brain lives, "cpu", "cuda" or the index of a GPU, as for `runtime.resolve_device`. By default
            it lives on the CPU, whatever `runtime.set_device` says; None means the device that was set there,
            `runtime.get_device()`. In mode "exact" a brain can be moved (``brain.to("cuda")``) and
            saved on one device and loaded on another, with the same bits.
        batch: number of independent brains; results then have a leading dimension. Brain b is the same in every
            batch, and batch=None is brain 0 without that dimension.
        seeds: in place of `seed`, that of each brain of a batch, as many as there are brains: brain b is, to the last
            bit, ``Brain(seed=seeds[b])``.

    Raises:
        ValueError: p outside [0, 1], an unknown mode, batch < 1, seeds of another number or beside a seed.
        TypeError: seeds that are no ints.
        RuntimeError: a device that is neither the CPU nor a CUDA GPU.

    Source: Papadimitriou, Vempala, Mitropolsky, Collins, Maass, Brain computation by assemblies of neurons, PNAS 2020.
    """

    file_format = "torch_hrr.assembly.Brain"

    def __getattr__(self, name: str) -> Tensor | nn.Module:
        """As of any module; calls under their older names, too."""
        found: Tensor | nn.Module = getattr(self, _OLDER[name]) if name in _OLDER else super().__getattr__(name)
        return found

    # What it consists of

    @property
    def areas(self) -> Mapping[str, AreaView]:
        """The areas by name: ``brain.areas["A"].n``, ``k``, ``beta``, ``winners``, ``fixed``, ``support`` and more."""
        return area_views(self)

    @property
    def stimuli(self) -> Mapping[str, int]:
        """The size of each stimulus by name; a copy."""
        return dict(self._network.stimuli)

    @property
    def fibers(self) -> Mapping[tuple[str, str], FiberView]:
        """The fibers that are in use, by source and target: ``brain.fibers["A", "B"].p``, ``beta``, ``w_max``."""
        return fiber_views(self)

    @property
    def plastic(self) -> bool:
        """Whether synapses grow in train mode; set by `enable_plasticity` and `disable_plasticity`."""
        return self._network.plastic

    # Declarations

    def add_stimulus(self, name: str, size: int) -> None:
        """Declares a stimulus of `size` neurons that fire together.

        Its sums ``S_j ~ Binomial(size, p)`` onto an area are drawn when it first fires into it.

        Raises:
            ValueError: the name is taken or empty, or size is negative.
        """
        self._network.declare_stimulus(name, size)
        self._engine.add_stimulus(name)

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
        ties: str = "index",
    ) -> None:
        """Declares an area.

        Args:
            name: unique among areas and stimuli.
            n: neurons, below 2^31 - 1.
            k: winners, 0 < k <= n.
            beta: default plasticity of the fibers into the area, >= 0.
            refracted: each win adds this to a bias subtracted from the neuron's input in later rounds; True is 1.
            normalize: whether the fibers into the area are normalised before every round, as by `normalize`. A neuron
                then gets at most 1 from each area, which a stimulus outweighs, because it is not scaled.
            w_max: largest weight of a synapse, >= 1; None: 2^24, or 2^35 / k of the source where that is less.
            refractory_period: rounds for which a winner is inhibited, first by `inhibition_strength`, then linearly
                less.
            inhibition_strength: in units of a fresh synapse, >= 0; above 0 only with a refractory period.
            ties: go to the lower "index", or, "keyed", to the first in an order drawn by seed, name and brain.

        Raises:
            ValueError: a value out of range, the name is taken, or an option that would do nothing.
        """
        penalties = (refractory_period, inhibition_strength)
        self._declare_area(name, n, k, beta, refracted, normalize, w_max, *penalties, ties)

    @takes(p=Real(0, 1).or_none(), beta=Real(0).or_none(), w_max=Real(1).or_none())
    def connect(
        self,
        source: str,
        target: str,
        p: float | None = None,
        beta: float | None = None,
        w_max: float | None = None,
        edges: Tensor | None = None,
    ) -> None:
        """Configures the fiber from area `source` to area `target` before its first use.

        Args:
            source: an area.
            target: an area.
            p: density of its connectome; the brain's by default.
            beta: its plasticity; the target's by default.
            w_max: largest weight of its synapses; the target's by default.
            edges: your own graph in place of the random one: a sparse (or dense) tensor ``[n_source, n_target]`` of
                weights in 0..`w_max`, rounded to float32; every brain of a batch gets the same. Random fibers into a
                neuron with such an edge store its synapses in their tables as if it had won: up to n_target p for
                each neuron that fires while they learn, 8 bytes each.

        Raises:
            ValueError: unknown names, the fiber exists already, values out of range, or `edges` of another shape.
        """
        self._network.connect(source, target, p, beta, w_max, edges)

    @takes(beta=Real(0))
    def set_beta(self, source: str, target: str, beta: float) -> None:
        """Sets the plasticity of the fiber from `source`, an area or a stimulus, to the area `target`."""
        self._network.check_pair("set_beta", source, target)
        self._network.betas[target, source] = beta

    def beta(self, source: str, target: str) -> float:
        """The plasticity of the fiber from `source`, an area or a stimulus, to the area `target`."""
        self._network.check_pair("beta", source, target)
        return self._network.beta(source, target)

    # Rounds

    @takes(rounds=checks.ROUNDS)
    def project(
        self,
        stimuli: Projections | str | None = None,
        areas: Projections | str | Iterable[str] | None = None,
        rounds: int = 1,
        brains: Brains = None,
        *,
        external: Mapping[str, Tensor] | None = None,
        progress: Progress = None,
    ) -> Tensor | None:
        """Runs synchronous rounds in which sources fire into targets.

        ::

            brain.project("s", "A", rounds=10)  # one source, a stimulus or an area, and its target or targets
            brain.project({"s": "A"}, {"A": ["A", "B"]}, rounds=10)

        With external inputs, the winners of an area are the k largest of ``x_j + external_j``, rounded to 2^-24 (2^-40
        where columns are normalised): the sums of `Brain` and a real number for each neuron, the same in every round.
        An area with an external input that nothing fires into, or that has to fire without having winners, gets the k
        largest of its external inputs as its winners before the first round, as by `activate`: they do not count as
        having won.

        Args:
            stimuli: ``{stimulus: areas}``, each an area or a list of them; or the name of the one source. A set counts
                as the list of its names in alphabetical order.
            areas: ``{area: areas}``, or the targets of the one source. An area without winners contributes nothing to
                itself, if something else fires into it, too.
            rounds: how many, 0 to 2^31 - 2.
            brains: which brains of a batch; the others rest.
            external: ``{area: tensor or array [n]}`` of real numbers of at most 2^20; in mode "exact". With a batch
                ``[n]`` is for every brain of the call, ``[brains of the call, n]`` has a row for each. Rounds then run
                one by one; each area with one costs a pass over its neurons and over the potentiated synapses of what
                fires into it, brain by brain.
            progress: called with the rounds done and their number after every part of a long call, about five times a
                second, and at its end; True shows a bar on stderr.

        Inhibited areas and fibers take no part. Ctrl-C ends a long call between two rounds, within half a second unless
        one round takes longer: the rounds before it stay, and the KeyboardInterrupt has a note of how many.

        Returns:
            None. While a CUDA graph is captured: a tensor that every replay sets to the number of rounds it left out
            for lack of memory, int64 (``[batch]`` with a batch).

        Raises:
            ValueError: an unknown name, a source without winners that fires into another area or, by itself, into
                its own, or an external input of another shape, with numbers that are not finite or too large, or in
                mode "sampled"; the brain is unchanged.
            RuntimeError: captured without an earlier call of the same kind, or with something that cannot be captured:
                mode "sampled", a hook or monitor, brains that differ, external inputs. Or, with external inputs, inputs
                of an area differ by 2^30 (2^20 where columns are normalised) or more: earlier rounds stay, of this one
                nothing does.
        """
        op, network = "project", self._network
        which, tick = network.which(op, brains), ticking(op, progress)
        from_stimuli, from_areas = network.fired(op, stimuli, areas)
        if external is None:
            return self._run(op, from_stimuli, from_areas, rounds, which, tick)
        given = external_inputs.checked(self, op, "external", external, which)
        external_inputs.run(self, op, from_stimuli, from_areas, given, rounds, tick, which)
        return None

    def projection(
        self, stimuli: Projections | str | None = None, areas: Projections | str | Iterable[str] | None = None
    ) -> Projection:
        """The rounds of `project` as a module that can be scripted, and run by programs without Python.

        Args:
            stimuli: as for `project`.
            areas: as for `project`.

        Returns:
            A `Projection` with a copy of what takes part, in train mode if the brain is. What is inhibited or fixed
            now is so there, too; what is set in the brain later is not.

        Raises:
            ValueError: an unknown name; mode "sampled"; an area with normalize=True; brains of a batch that differ in
                what is fixed or inhibited; or nothing would fire.
        """
        op = "projection"
        self._network.check_exact(op)
        network = copy.deepcopy(self._network)
        fired, from_areas = map(checks.or_nothing, network.fired(op, stimuli, areas))
        plans = network.plans(op, fired, from_areas, reached=network.areas)
        if len(plans) != 1 or plans[0].brains is not None:
            raise ValueError(f"{op}: something must fire, the same in every brain; got {len(plans)} kinds of rounds")
        if normalized := sorted(name for name in plans[0].targets if network.areas[name].normalize):
            raise ValueError(f"{op}: areas must not be normalised in every round, got {normalized}")
        return Projection(network, plans[0]).train(self.training)

    @takes(rounds=checks.ROUNDS)
    def reciprocal_project(
        self,
        source: str,
        target: str,
        rounds: int = 10,
        stimuli: Projections | None = None,
        brains: Brains = None,
        progress: Progress = None,
    ) -> None:
        """Copies the assembly of `source` into `target`, with synapses that lead back to it.

        The first round fires from source to source and target, the others also from target to both.

        Args:
            source: an area with winners.
            target: another area.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.
            brains: which brains of a batch.
            progress: as for `project`.
        """
        calculus.reciprocal_project(self, source, target, rounds, stimuli, brains, progress)

    @takes(rounds=checks.ROUNDS)
    def associate(
        self,
        a: str,
        b: str,
        c: str,
        rounds: int = 10,
        stimuli: Projections | None = None,
        brains: Brains = None,
        progress: Progress = None,
    ) -> None:
        """Lets the assemblies of areas `a` and `b` fire into `c` together, so that their projections there move closer.

        Both assemblies were projected into `c` before, one after the other. In the first round `c` does not fire into
        itself, afterwards it does.

        Args:
            a: an area with winners.
            b: another area with winners.
            c: the area of their projections.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.
            brains: which brains of a batch.
            progress: as for `project`.

        Source: Papadimitriou et al. 2020, "association".
        """
        calculus.associate(self, a, b, c, rounds, stimuli, brains, progress)

    @takes(rounds=checks.ROUNDS)
    def merge(
        self,
        a: str,
        b: str,
        c: str,
        rounds: int = 50,
        stimuli: Projections | None = None,
        brains: Brains = None,
        progress: Progress = None,
    ) -> None:
        """Makes an assembly of `c` that stands for those of `a` and `b` together, linked with both in both directions.

        In the first round `a` and `b` fire into themselves and `c`; in the others `c` also fires into all three.

        Args:
            a: an area with winners.
            b: another area with winners.
            c: the area of the merged assembly.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.
            brains: which brains of a batch.
            progress: as for `project`.

        Source: Papadimitriou et al. 2020, "merge".
        """
        calculus.merge(self, a, b, c, rounds, stimuli, brains, progress)

    @takes(fraction=Real(0, 1, open_left=True), rounds=checks.ROUNDS)
    def pattern_complete(
        self, area: str, fraction: float = 0.5, rounds: int = 5, brains: Brains = None, progress: Progress = None
    ) -> float | Tensor:
        """Fires a random part of an area's assembly and lets the area fire into itself: the rest comes back.

        Args:
            area: an area with winners.
            fraction: the share of the winners that fire first, in (0, 1]; at least one neuron. The choice depends only
                on the brain's seed, the area, its winners and the fraction.
            rounds: how many.
            brains: which brains of a batch.
            progress: as for `project`.

        Returns:
            The share of the earlier winners that won again; with a batch float64 on the CPU, one per brain of the call.

        Raises:
            ValueError: the area has no winners, or nothing could come back because it is fixed, or it or its fiber into
                itself is inhibited; the brain is unchanged.

        Source: Papadimitriou et al. 2020, "pattern completion".
        """
        op = "pattern_complete"
        which, tick = self._network.which(op, brains), ticking(op, progress)
        shares = calculus.pattern_complete(self, area, fraction, rounds, which, tick)
        return shares[0] if self.batch is None else torch.tensor(shares, dtype=torch.float64, device="cpu")

    # Winners

    def ever_won(self, area: str) -> Tensor:
        """The neurons that ever won, ascending: int64 ``[support]``.

        With a batch ``[batch, largest support]``, whose rows end in -1 where fewer won.
        """
        self._network.area("ever_won", area)
        rows = [self._engine.ever_won(area, brain) for brain in range(self._network.brains)]
        return self._network.unbatched(nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1))

    def activate(self, area: str, indices: Tensor | Sequence[int], brains: Brains = None) -> None:
        """Sets the winners of an area, without fixing them or counting them as having won.

        Args:
            area: its name.
            indices: 1 to k distinct neurons, ``[m]`` or, with a batch, ``[batch, m]`` (a row for each brain of the
                call); on any device.
            brains: which brains of a batch.

        Raises:
            TypeError: not a strided tensor, array or sequence of ints.
            IndexError: a neuron outside 0..n-1.
            ValueError: none, too many, or repeated ones, or an unknown area.
        """
        self._set_winners("activate", area, indices, self._network.which("activate", brains))

    def clear(self, area: str, brains: Brains = None) -> None:
        """Removes the winners of an area: it is silent, and no longer fixed. Synapses keep their weights."""
        state = self._network.area("clear", area)
        which = self._network.which("clear", brains)
        if which:
            state.winner_count[self._network.rows(which)] = 0
            state.fixed.difference_update(which)
            self._engine.set_winners(area, which)

    # Synapses

    def inputs(self, area: str, stimuli: Sequence[str] = (), areas: Sequence[str] = ()) -> Tensor:
        """What the neurons of an area would receive in a round: the sums by which winners are chosen.

        ``x_j`` from the given stimuli and the present winners of the given areas, with normalised columns, biases and
        penalties as in a round. Locks are ignored, and nothing changes.

        Args:
            area: the area that is fired into.
            stimuli: names of stimuli.
            areas: names of areas.

        Returns:
            float64 ``[n]`` (``[batch, n]``), in units of a fresh synapse.

        Raises:
            ValueError: an unknown name, or mode "sampled".
        """
        return self._network.unbatched(reading.inputs(self._network, area, stimuli, areas))

    def weights(
        self,
        source: str,
        target: str,
        rows: Tensor | Sequence[int] | None = None,
        columns: Tensor | Sequence[int] | None = None,
        brain: int = 0,
    ) -> Tensor:
        """The weights of the synapses from some neurons of an area to some neurons of another.

        Args:
            source: the area of the neurons that fire.
            target: the area of those that are fired into.
            rows: neurons of `source`; None for all.
            columns: neurons of `target`; None for all.
            brain: which brain of a batch.

        Returns:
            float32 ``[len(rows), len(columns)]``, 0 where there is no synapse. The random graph is drawn for every row:
            n_target p synapses each.

        Raises:
            ValueError: an unknown name, or mode "sampled".
            IndexError: a neuron or brain that does not exist.
        """
        op = "weights"
        ends = self._network.ends(op, source, target)
        self._network.check_exact(op)
        number = self._brain_of(op, brain)
        chosen = [
            torch.arange(area.n, device="cpu") if neurons is None else checks.numbers(op, argument, neurons, area.n)
            for area, argument, neurons in zip(ends, ("rows", "columns"), (rows, columns), strict=True)
        ]
        places = [neurons.to(self.device) for neurons in chosen]
        return reading.synapses(self._network, source, target, places[0], places[1], number)

    def potentiated(self, source: str, target: str, brain: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """The synapses of a fiber whose weight is not 1: their source neurons, target neurons and weights.

        Sorted by source and then target neuron.
        """
        areas = self._network.ends("potentiated", source, target)
        self._network.check_exact("potentiated")
        number = self._brain_of("potentiated", brain)
        fiber = self._network.fibers.get((source, target))
        if fiber is None:
            none = torch.zeros(0, dtype=torch.int64, device=self.device)
            return none, none.clone(), none.float()
        rows, columns, weights = fiber.edges(number)
        kept = weights != 1
        neurons = [
            area.neuron_of[number].long()[slots[kept]] for area, slots in zip(areas, (rows, columns), strict=True)
        ]
        order = (neurons[0] * areas[1].n + neurons[1]).argsort()
        return neurons[0][order], neurons[1][order], weights[kept][order]

    def fiber_id(self, source: str, target: str) -> int:
        """The signed 64-bit number of a fiber, as `connectome_inputs` takes it."""
        self._network.ends("fiber_id", source, target)
        return fiber_id("area", source, target)

    def stimulus_counts(self, stimulus: str, area: str) -> Tensor:
        """How many neurons of a stimulus have a synapse onto each neuron of an area.

        Returns:
            int32 ``[n]``, ``[batch, n]`` with a batch.

        Raises:
            ValueError: an unknown name, or mode "sampled".
        """
        self._check_stimulus("stimulus_counts", stimulus, area)
        return self._network.unbatched(self._network.stimulus_counts(stimulus, area).clone())

    def stimulus_weights(self, stimulus: str, area: str) -> Tensor:
        """The sum of the weights of a stimulus's synapses onto each neuron of an area: what it sends there in a round.

        Before learning, this is `stimulus_counts`, rounded to float32; every win of a neuron while the stimulus fires
        multiplies it by 1 + beta, up to the count times `w_max`, and to 2^24 if the count is less.

        Returns:
            float32 ``[n]``, ``[batch, n]`` with a batch.

        Raises:
            ValueError: an unknown name, or mode "sampled".
        """
        self._check_stimulus("stimulus_weights", stimulus, area)
        rows = [reading.stimulus_weights(self._network, stimulus, area, b) for b in range(self._network.brains)]
        return self._network.unbatched(torch.stack(rows))

    def _check_stimulus(self, op: str, stimulus: str, area: str) -> None:
        self._network.area(op, area)
        self._network.check_exact(op)
        self._network.check_stimulus(op, stimulus)

    def _brain_of(self, op: str, brain: int) -> int:
        return checks.brain(op, brain, self._network.brains)

    # Plasticity, inhibition, normalisation

    def enable_plasticity(self) -> None:
        """Synapses grow again in train mode, in which a new brain is; after ``eval()`` they never do."""
        self._network.plastic = True

    def disable_plasticity(self) -> None:
        """Synapses keep their weights."""
        self._network.plastic = False

    def fix_assembly(self, area: str, brains: Brains = None) -> None:
        """Keeps the winners of an area whatever its inputs; its synapses go on growing."""
        state = self._network.area("fix_assembly", area)
        which = self._network.which("fix_assembly", brains)
        if self._network.silent([area])[area].intersection(which):
            raise ValueError(f"fix_assembly: area must have winners, got none in {area!r}")
        state.fixed.update(which)

    def unfix_assembly(self, area: str, brains: Brains = None) -> None:
        """Lets the winners of an area be selected again."""
        state = self._network.area("unfix_assembly", area)
        state.fixed.difference_update(self._network.which("unfix_assembly", brains))

    @takes(lock=checks.LOCK)
    def inhibit(self, area: str, lock: int = 0, brains: Brains = None) -> None:
        """Locks an area: it neither fires nor is fired into until every lock is gone."""
        self._network.area_locks("inhibit", area, lock).update(self._network.which("inhibit", brains))

    @takes(lock=checks.LOCK)
    def disinhibit(self, area: str, lock: int = 0, brains: Brains = None) -> None:
        """Takes one lock from an area."""
        self._network.area_locks("disinhibit", area, lock).difference_update(self._network.which("disinhibit", brains))

    @takes(lock=checks.LOCK)
    def inhibit_fiber(self, source: str, target: str, lock: int = 0, brains: Brains = None) -> None:
        """Locks the fiber from one area to another: it carries nothing until every lock is gone."""
        op = "inhibit_fiber"
        self._network.fiber_locks(op, source, target, lock).update(self._network.which(op, brains))

    @takes(lock=checks.LOCK)
    def disinhibit_fiber(self, source: str, target: str, lock: int = 0, brains: Brains = None) -> None:
        """Takes one lock from a fiber."""
        op = "disinhibit_fiber"
        self._network.fiber_locks(op, source, target, lock).difference_update(self._network.which(op, brains))
