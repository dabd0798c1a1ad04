"""Engines of a brain: what runs the rounds of a plan, exactly or by the published lazy method."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from torch_hrr.assembly import _state
from torch_hrr.assembly._connect import scale_winners
from torch_hrr.assembly._network import Network, Plan, fiber_id
from torch_hrr.assembly._sampled import SampledEngine
from torch_hrr.assembly._state import State

_ops = torch.ops.torch_hrr


class Engine:
    """Rounds of a network. What is declared and set in the network, the engine is told of."""

    def __init__(self, network: Network) -> None:
        """Of this network."""
        self._network = network

    def add_stimulus(self, name: str) -> None:
        """A stimulus was declared."""

    def add_area(self, name: str) -> None:
        """An area was declared."""

    def set_winners(self, area: str, brains: Iterable[int]) -> None:
        """The winners of an area were set, or taken away, in some brains."""

    def run(self, plans: Sequence[Plan], rounds: int) -> Tensor | None:
        """Runs rounds of every plan; returns how many are left, of every brain, where a graph is captured."""
        raise NotImplementedError

    def ever_won(self, area: str, brain: int) -> Tensor:
        """The neurons of an area that ever won, ascending."""
        raise NotImplementedError


class Parts:
    """What takes part in rounds of a plan, as the operator `project_` reads it: csrc/include/torch_hrr/torch_hrr.h.

    Attributes:
        names: Of the areas.
        areas: Of the plan, in the order of the layout.
        fibers: Those between them.
        sources: The stimuli that fire into them.
    """

    def __init__(self, network: Network, plan: Plan) -> None:
        """Fibers and stimuli that fire for the first time come into use."""
        self._network, self._plan = network, plan
        self.fibers = [network.fiber(*pair) for pair in plan.areas]
        self.sources = [network.source(*pair) for pair in plan.stimuli]
        names = dict.fromkeys(name for pair in plan.areas for name in pair)
        self.names = [*(names | dict.fromkeys(target for _, target in plan.stimuli))]
        self.areas = [network.areas[name] for name in self.names]

    def __iter__(self) -> Iterator[State]:
        """Areas, fibers and stimuli in the order of the state."""
        return itertools.chain[State](self.areas, self.fibers, self.sources)

    def tensors(self) -> list[Tensor]:
        """The state, without the brains' numbers and the progress."""
        return [tensor for each in self for tensor in each.tensors()]

    def described(self, learns: bool) -> tuple[list[int], list[float]]:
        """The layout but for brains and rounds, and the rates; fibers that learn get memory for it."""
        network, plan = self._network, self._plan
        place = {area.index: i for i, area in enumerate(self.areas)}
        layout = [len(self.areas), len(self.fibers), len(self.sources)]
        rates: list[float] = []
        for name, area in zip(self.names, self.areas, strict=True):
            layout += area.layout(name in plan.fixed, learns)
        for (source, target), fiber in zip(plan.areas, self.fibers, strict=True):
            ends = [place[fiber.source_index], place[fiber.target_index]]
            layout += [*ends, learns, fiber.procedural, fiber.id]
            # No weight is larger anyway. Packages of AOTInductor hold no infinite number.
            w_max = min(network.largest_weight(source, target), _state.LARGEST_WEIGHT)
            rates += [fiber.p, network.beta(source, target), w_max]
            if learns and network.beta(source, target):
                fiber.reserve_to_learn(network.beta(source, target))
        for (source, target), stimulus in zip(plan.stimuli, self.sources, strict=True):
            layout += [place[stimulus.target_index], learns]
            own = network.areas[target].w_max
            w_max = _state.LARGEST_WEIGHT if own is None else min(own, _state.LARGEST_WEIGHT)
            rates += [network.beta(source, target), w_max]
        return layout, rates


class ExactEngine(Engine):
    """Rounds by the operator `project_`, in which the random graph is never stored; the network says it all."""

    def ever_won(self, area: str, brain: int) -> Tensor:
        """See Engine."""
        state = self._network.areas[area]
        slots = state.won[brain, : int(state.slots[brain, 0])].nonzero().squeeze(1)
        return state.neuron_of[brain, slots].long().sort().values

    def run(self, plans: Sequence[Plan], rounds: int) -> Tensor | None:
        """See Engine. A device is waited for twice a turn of a plan; most plans take one turn."""
        capturing = _state.is_capturing(self._network.device)
        if capturing and any(plan.brains is not None for plan in plans):
            raise RuntimeError("project: rounds in which brains differ cannot be captured")
        self._network.version += 1
        left = None
        for plan in plans:
            try:
                left = self._run(plan, rounds, capturing)
            finally:
                # Also after a failure: the rounds before it stay.
                for pair in plan.areas:
                    if pair in self._network.fibers:
                        scale_winners(self._network.areas[pair[1]], self._network.fibers[pair])
        return left if capturing else None

    def _project(self, parts: Parts, state: list[Tensor], layout: list[int], rates: list[float]) -> None:
        _ops.project_(state, layout, rates, self._network.seed)

    def _run(self, plan: Plan, rounds: int, capturing: bool) -> Tensor:
        network = self._network
        parts = Parts(network, plan)
        areas, fibers = parts.areas, parts.fibers
        layout, rates = parts.described(network.learns)
        progress = torch.zeros(network.brains, 1 + len(fibers), dtype=torch.int64, device=network.device)
        progress[slice(None) if plan.brains is None else network.rows(plan.brains), 0] = rounds

        numbers = network.numbers()

        def queue(rounds: int) -> None:
            state = parts.tensors()
            self._project(parts, [numbers, *state, progress], [network.brains, rounds, *layout], rates)

        left = rounds
        if capturing:
            queue(left)
            left = 0
        # A device is waited for twice a turn: before the call for the slots in use, after it for what is left to do.
        while left:
            used = torch.stack([area.slots for area in areas])[..., 0].amax(1).tolist()
            for area, slots in zip(areas, used, strict=True):
                # Winners that were set from outside may need slots too.
                network.reserve_area(area, min(area.n, slots + (left + 1) * area.k))
            queue(left)
            before = left
            left, *chunks = progress.amax(0).tolist()
            short = [
                (fiber, needed)
                for fiber, needed in zip(fibers, chunks, strict=True)
                if left and needed > fiber.next.shape[1]
            ]
            if left == before and not short:
                raise RuntimeError(f"project: tables of synapses could not grow; {left} rounds were not run")
            for fiber, needed in short:
                fiber.reserve_chunks(max(needed, 2 * fiber.next.shape[1]))
        return progress[:, 0]


class SampledEngines(Engine):
    """Rounds by the method of the published simulator, one `SampledEngine` a brain; winners are copied back."""

    def __init__(self, network: Network) -> None:
        """Engines with seeds of the network's, one for each of its brains."""
        super().__init__(network)
        seeds = [fiber_id("sampled", str(seed), str(number)) for seed, number in network.graphs]
        self.brains = [SampledEngine(network.p, seed, network.given_device) for seed in seeds]

    def add_stimulus(self, name: str) -> None:
        """See Engine."""
        for brain in self.brains:
            brain.add_stimulus(name, self._network.stimuli[name])

    def add_area(self, name: str) -> None:
        """See Engine."""
        area = self._network.areas[name]
        for brain in self.brains:
            brain.add_area(name, area.n, area.k, area.beta, area.w_max)

    @torch.inference_mode(False)
    def set_winners(self, area: str, brains: Iterable[int]) -> None:
        """See Engine."""
        state = self._network.areas[area]
        for brain in brains:
            self.brains[brain].activate(area, state.winners[brain, : int(state.winner_count[brain])])

    def ever_won(self, area: str, brain: int) -> Tensor:
        """See Engine."""
        return self.brains[brain].ever_won(area)

    # What rounds in inference mode make, rounds outside of it change.
    @torch.inference_mode(False)
    def run(self, plans: Sequence[Plan], rounds: int) -> None:
        """See Engine."""
        network = self._network
        network.version += 1
        for plan in plans:
            stimuli: dict[str, list[str]] = {}
            areas: dict[str, list[str]] = {}
            for into, pairs in ((stimuli, plan.stimuli), (areas, plan.areas)):
                for source, target in pairs:
                    into.setdefault(source, []).append(target)
            for brain in range(network.brains) if plan.brains is None else plan.brains:
                engine = self.brains[brain]
                for _ in range(rounds):
                    engine.project_round(
                        stimuli, areas, plasticity=network.learns, betas=network.betas, fixed=plan.fixed
                    )
                for name in plan.targets:
                    state, winners = network.areas[name], engine.winners(name)
                    state.winners[brain, : len(winners)] = winners
                    state.winner_count[brain] = len(winners)
                    state.slots[brain, 1] = engine.support(name)
