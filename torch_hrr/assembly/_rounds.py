"""Rounds of a brain, and what is read and set between them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _state
from torch_hrr.assembly._connect import column_scale
from torch_hrr.assembly._wiring import Wiring, fiber_id

_ops = torch.ops.torch_hrr
Projections = Mapping[str, Iterable[str]]


class Rounds(Wiring):
    """Projections between the parts of a brain. `Brain` says what they do."""

    def project(
        self, stimuli: Projections | None = None, areas: Projections | None = None, rounds: int = 1
    ) -> Tensor | None:
        """Runs synchronous rounds in which sources fire into targets.

        Args:
            stimuli: ``{stimulus: [areas]}``.
            areas: ``{area: [areas]}``. An area without winners contributes nothing to itself.
            rounds: how many, 0 to 2^31 - 2.

        Inhibited areas and fibers take no part.

        Returns:
            None. While a CUDA graph is captured: how many of its rounds a replay leaves out because they lack memory,
            int64 (``[batch]`` with a batch); every replay sets it.

        Raises:
            ValueError: an unknown name, or a source without winners that fires into another area; the brain is
                unchanged.
            RuntimeError: captured without a call of the same kind before, or with what looks at every round: mode
                "sampled", an area with normalize=True, a monitor.
        """
        rounds = checks.rounds("project", rounds)
        plan = self._plan(stimuli or {}, areas or {})
        if rounds == 0 or not (plan[0] or plan[1]):
            return None
        targets = {target for _, target in (*plan[0], *plan[1])}
        normalized = [name for name in self._areas if name in targets and self._areas[name].normalize]
        if _state.is_capturing(self._device):
            if normalized or self._hooks or self._engines:
                raise RuntimeError("project: rounds that are looked at one by one cannot be captured")
            return self._unbatched(self._run(*plan, rounds))
        step = 1 if normalized or self._hooks else rounds
        for first in range(0, rounds, step):
            for name in normalized:
                self.normalize(name)
            (self._run_sampled if self._engines else self._run)(*plan, min(step, rounds - first))
            for hook in self._hooks:
                hook(self)
        return None

    project_rounds = project

    def _project_in_turn(self, stimuli: Projections, first: Projections, others: Projections, rounds: int) -> None:
        """One round in which areas fire as in `first`, the rest as in `others`; raises before any change."""
        if rounds > 1:
            plan = self._plan(stimuli, first)
            self._plan(stimuli, others, {target for pairs in plan for _, target in pairs})
        self.project(stimuli, first, min(rounds, 1))
        if rounds > 1:
            self.project(stimuli, others, rounds - 1)

    def _plan(
        self, stimuli: Projections, areas: Projections, reached: Collection[str] = ()
    ) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
        """The stimuli and fibers that take part; raises before any change. Areas in `reached` will have winners."""
        stimuli = checks.projections("project", "stimuli", stimuli, self._stimuli, self._areas, "stimulus")
        areas = checks.projections("project", "areas", areas, self._areas, self._areas, "area")
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
                if source in free and target in free and not self._locks.get((source, target)):
                    from_areas.append((source, target))
        needed = {source: None for source, target in from_areas if source != target and source not in reached}
        for source in self._silent(needed):
            raise ValueError(f"project: source area must have winners, got none in {source!r}")
        for name in {target for _, target in from_stimuli}:
            firing = sum(self._stimuli[stimulus] for stimulus, target in from_stimuli if target == name)
            firing += sum(self._areas[source].k for source, target in from_areas if target == name)
            if firing >= 2**31:
                raise ValueError(f"project: fewer than 2^31 neurons must fire into an area, got {firing} into {name!r}")
        return from_stimuli, from_areas

    def _silent(self, names: Collection[str]) -> list[str]:
        """Which of the areas have no winners in some brain; one transfer from the device for all of them."""
        if not names or _state.is_capturing(self._device):
            return []
        counts = torch.stack([self._areas[name].winner_count for name in names]).tolist()
        return [name for name, count in zip(names, counts, strict=True) if 0 in count]

    def __getstate__(self) -> dict[str, Any]:
        # Hooks stay with the brain they were given to; what is copied together with a brain adds its own.
        return {**self.__dict__, "_hooks": []}

    @torch.inference_mode(False)
    def __setstate__(self, state: dict[str, Any]) -> None:
        # Of a copy.
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        for engine in self._engines:
            engine.load_state(engine.state())

    # What rounds in inference mode make, rounds outside of it change.
    @torch.inference_mode(False)
    def _run_sampled(self, from_stimuli: list[tuple[str, str]], from_areas: list[tuple[str, str]], rounds: int) -> None:
        stimuli: dict[str, list[str]] = {}
        areas: dict[str, list[str]] = {}
        for into, pairs in ((stimuli, from_stimuli), (areas, from_areas)):
            for source, target in pairs:
                into.setdefault(source, []).append(target)
        fixed = [name for name, area in self._areas.items() if area.fixed]
        for engine in self._engines:
            for _ in range(rounds):
                engine.project_round(stimuli, areas, plasticity=self._plastic, betas=self._betas, fixed=fixed)
        for name in {target for _, target in (*from_stimuli, *from_areas)}:
            state = self._areas[name]
            for brain, engine in enumerate(self._engines):
                winners = engine.winners(name)
                state.winners[brain, : len(winners)] = winners
                state.winner_count[brain] = len(winners)
                state.slots[brain, 1] = engine.support(name)

    def _run(self, from_stimuli: list[tuple[str, str]], from_areas: list[tuple[str, str]], rounds: int) -> Tensor:
        """Returns how many rounds are left, of every brain: none but in a captured call."""
        fibers = [self._fiber(*pair) for pair in from_areas]
        sources = [self._source(*pair) for pair in from_stimuli]
        involved = dict.fromkeys(name for pair in from_areas for name in pair) | dict.fromkeys(
            t for _, t in from_stimuli
        )
        areas = [self._areas[name] for name in involved]
        place = {area.index: i for i, area in enumerate(areas)}
        layout = [len(areas), len(fibers), len(sources)]
        rates: list[float] = []
        for area in areas:
            layout += area.layout()
        for (source, target), fiber in zip(from_areas, fibers, strict=True):
            layout += [place[fiber.source_index], place[fiber.target_index], self._plastic, fiber.procedural, fiber.id]
            w_max = self._areas[target].w_max if fiber.w_max is None else fiber.w_max
            rates += [fiber.p, self._beta(source, target), float("inf") if w_max is None else w_max]
            if self._plastic and self._beta(source, target):
                fiber.reserve_to_learn()
        for (source, target), stimulus in zip(from_stimuli, sources, strict=True):
            w_max = self._areas[target].w_max
            layout += [place[stimulus.target_index], self._plastic]
            rates += [self._beta(source, target), float("inf") if w_max is None else w_max]
        progress = torch.zeros(self._brains, 1 + len(fibers), dtype=torch.int64, device=self._device)
        progress[:, 0] = rounds

        def queue(rounds: int) -> None:
            state = [tensor for each in (*areas, *fibers, *sources) for tensor in each.tensors()]
            _ops._project_([*state, progress], [self._brains, rounds, *layout], rates, self.seed)

        left = rounds
        if _state.is_capturing(self._device):
            queue(left)
            left = 0
        # A device is waited for twice a turn: before the call for the slots in use, after it for what is left to do.
        while left:
            used = torch.stack([area.slots for area in areas])[..., 0].amax(1).tolist()
            for area, slots in zip(areas, used, strict=True):
                # Winners that were set from outside may need slots too.
                self._reserve_area(area, min(area.n, slots + (left + 1) * area.k))
            queue(left)
            before = left
            left, *chunks = progress.amax(0).tolist()
            short = [
                (fiber, needed)
                for fiber, needed in zip(fibers, chunks, strict=True)
                if left and needed > fiber.next.shape[1]
            ]
            if left == before and not short:
                raise RuntimeError(f"project: memory must suffice for every slot, got stuck with {left} rounds left")
            for fiber, needed in short:
                fiber.reserve_chunks(max(needed, 2 * fiber.next.shape[1]))
        return progress[:, 0]

    # Reading and setting

    def winners(self, area: str) -> Tensor:
        """The winners: int64 ``[k]`` ascending (``[batch, k]`` with a batch); none before the first projection.

        A copy, on the brain's device.
        """
        state = self._area("winners", area)
        return self._unbatched(state.winners[:, : int(state.winner_count[0])].clone())

    def support(self, area: str) -> int | Tensor:
        """How many neurons ever won (int64 ``[batch]``, on the brain's device, with a batch)."""
        count = self._area("support", area).slots[:, 1].clone()
        return int(count) if self.batch is None else count

    def activate(self, area: str, indices: Tensor | Sequence[int]) -> None:
        """Sets the winners of an area: fixes nothing and counts nothing as won.

        Args:
            area: its name.
            indices: 1 to k distinct neurons, ``[m]`` or, with a batch, ``[batch, m]``; on any device.

        Raises:
            TypeError: no strided tensor, array or sequence of ints.
            IndexError: a neuron outside 0..n-1.
            ValueError: none, too many, or repeated ones, or an unknown area.
        """
        state = self._area("activate", area)
        winners = checks.neurons("activate", indices, state.n, state.k, self.batch)
        state.winners.zero_()
        state.winners[:, : winners.shape[-1]] = winners
        state.winner_count.fill_(winners.shape[-1])
        with torch.inference_mode(False):
            for brain, engine in enumerate(self._engines):
                engine.activate(area, state.winners[brain, : winners.shape[-1]])

    def fiber_id(self, source: str, target: str) -> int:
        """The 64 bits that name a fiber in `connectome_inputs`, signed."""
        self._area("fiber_id", source), self._area("fiber_id", target)
        return fiber_id("area", source, target)

    def stimulus_counts(self, stimulus: str, area: str) -> Tensor:
        """How many neurons of a stimulus have a synapse with each neuron of an area.

        Returns:
            int32 ``[n]``, ``[batch, n]`` with a batch.

        Raises:
            ValueError: an unknown name, or mode "sampled".
        """
        self._check_stimulus("stimulus_counts", stimulus, area)
        return self._unbatched(self._counts(stimulus, area).clone())

    def stimulus_weights(self, stimulus: str, area: str) -> Tensor:
        """The sum of the weights of a stimulus's synapses with each neuron of an area: what it sends there in a round.

        Before anything was learned that is `stimulus_counts`, rounded to float32; every win of a neuron to which the
        stimulus fires multiplies it by 1 + beta, up to the count times `w_max`, and to 2^24 where the count is less.

        Returns:
            float32 ``[n]``, ``[batch, n]`` with a batch.

        Raises:
            ValueError: an unknown name, or mode "sampled".
        """
        self._check_stimulus("stimulus_weights", stimulus, area)
        weights = self._counts(stimulus, area).float()
        if (stimulus, area) in self._sources:
            state = self._areas[area]
            for brain, grown in enumerate(self._sources[stimulus, area].weight):
                slots = grown[: int(state.slots[brain, 0])].nonzero().squeeze(1)
                weights[brain, state.neuron_of[brain, slots].long()] = grown[slots]
        return self._unbatched(weights)

    def _check_stimulus(self, op: str, stimulus: str, area: str) -> None:
        self._area(op, area)
        self._check_exact(op)
        checks.declared(op, "stimulus", stimulus, self._stimuli)

    def potentiated(self, source: str, target: str, brain: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """The synapses of a fiber whose weight is not 1: their source neurons, target neurons and weights.

        Sorted by source and then target neuron.
        """
        areas = self._area("potentiated", source), self._area("potentiated", target)
        self._check_exact("potentiated")
        brain = checks.integer("potentiated", "brain", brain, least=0, most=self._brains - 1)
        if (source, target) not in self._fibers:
            none = torch.zeros(0, dtype=torch.int64, device=self._device)
            return none, none.clone(), none.float()
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
        """Lets every fiber from an area into this one count as if its columns were divided by their present sums.

        The synapses themselves are untouched. The first time costs the whole graph of each fiber, n_source n_target p.
        """
        target = self._area("normalize", area)
        self._check_exact("normalize")
        target.normalized = set(self._areas)
        for (source, into), fiber in self._fibers.items():
            if into == area:
                fiber.hold("scale", column_scale(self._areas[source], target, fiber, self.seed))
