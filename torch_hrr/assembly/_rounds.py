"""What runs the rounds of a brain, part by part, and what its other parts need to know of a round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from torch_hrr._progress import Progress, Tick, in_parts, interrupts_held_back, ticking, unseen
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly import _state
from torch_hrr.assembly._connect import draw_degrees, scale_columns
from torch_hrr.assembly._module import NetworkModule
from torch_hrr.assembly._network import Projections

Hook = Callable[[Any], None]
"""Is called with the brain after every round."""


class RoundsModule(NetworkModule):
    """The rounds of a `Brain`, its winners and its hooks."""

    def winners(self, area: str) -> Tensor:
        """The winners: int64 ``[k]`` ascending (``[batch, k]`` with a batch); none before the first projection.

        Where the brains of a batch have different numbers of winners, rows with fewer end in -1. A copy, on the
        brain's device.
        """
        state = self._network.area("winners", area)
        counts = state.winner_count.tolist()
        winners = state.winners[:, : max(counts)].clone()
        if min(counts) < max(counts):
            places = torch.arange(winners.shape[1], device=winners.device)
            winners.masked_fill_(places >= state.winner_count.unsqueeze(1), -1)
        return self._network.unbatched(winners)

    def support(self, area: str) -> int | Tensor:
        """How many neurons ever won (int64 ``[batch]``, on the brain's device, with a batch)."""
        count = self._network.area("support", area).slots[:, 1].clone()
        return int(count) if self.batch is None else count

    def _set_winners(self, op: str, area: str, indices: Any, brains: list[int]) -> None:
        state = self._network.area(op, area)
        winners = checks.neurons(op, indices, state.n, state.k, None if self.batch is None else len(brains))
        if not brains:
            return
        padded = nn.functional.pad(winners, (0, state.k - winners.shape[-1]))
        rows = self._network.rows(brains)
        state.winners[rows] = padded if isinstance(rows, slice) else padded.to(rows.device)
        state.winner_count[rows] = winners.shape[-1]
        self._engine.set_winners(area, brains)

    def register_round_hook(self, hook: Hook) -> RemovableHandle:
        """Calls ``hook(brain)`` after every round; rounds then run one by one, with the same bits.

        Returns:
            A handle, whose ``remove()`` removes the hook, and which works in a ``with`` statement. Copies of the brain
            have no hooks.
        """
        if not callable(hook):
            raise TypeError(f"register_round_hook: hook must be callable, got {type(hook).__name__}")
        handle = RemovableHandle(self._hooks)
        self._hooks[handle.id] = hook
        return handle

    def _run(
        self,
        op: str,
        stimuli: Projections | None,
        areas: Projections | None,
        rounds: int,
        brains: Sequence[int] | None,
        tick: Tick = unseen,
        before: int = 0,
        total: int | None = None,
        reached: Collection[str] = (),
    ) -> Tensor | None:
        """Rounds of a call named `op`, whose arguments are checked here; see `in_parts` and `Network.plans`."""
        network = self._network
        plans = network.plans(op, checks.or_nothing(stimuli), checks.or_nothing(areas), brains, reached)
        if rounds == 0 or not plans:
            return None
        targets = set().union(*(plan.targets for plan in plans))
        normalized = [name for name in network.areas if name in targets and network.areas[name].normalize]
        if _state.is_capturing(network.device):
            if self._hooks or network.mode != "exact":
                raise RuntimeError(f"{op}: rounds with a hook or monitor, or in mode 'sampled', cannot be captured")
            network.check_sums(op, normalized)
            left = self._engine.run(plans, rounds)
            return None if left is None else network.unbatched(left)

        def run(rounds: int) -> None:
            for name in normalized:
                self.normalize(name)
            self._engine.run(plans, rounds)

        def seen(done: int, total: int) -> None:
            self._call_hooks()
            tick(done, total)

        most = 1 if self._hooks else network.rounds_at_once(plans)
        in_parts(op, rounds, network.seconds(plans), run, seen, before=before, total=total, most=most)
        return None

    def _call_hooks(self) -> None:
        # A hook may remove itself.
        for hook in list(self._hooks.values()):
            hook(self)

    def normalize(self, area: str, progress: Progress = None) -> None:
        """Makes every fiber from an area into this one count as if its columns were divided by their present sums.

        The synapses themselves are untouched. The first time costs the whole graph of each fiber, n_source n_target p,
        later ones a pass over potentiated synapses and the target's neurons. With normalize=True rounds keep the sums.
        Ctrl-C and `progress` are as for `Brain.project`, part by part of the graphs; interrupted, it changes nothing.
        """
        op, network = "normalize", self._network
        target = network.area(op, area)
        network.check_exact(op)
        tick = ticking(op, progress)
        fibers = [(network.areas[source], fiber) for (source, into), fiber in network.fibers.items() if into == area]
        draw_degrees(op, target, fibers, network.graphs, tick)
        with interrupts_held_back():
            target.normalized = set(network.areas)
            for source, fiber in fibers:
                scale_columns(source, target, fiber, network.graphs)
