"""Monitors: a bounded record of what a brain does, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torch_hrr._monitor import Recorder
from torch_hrr._shared import lock_public_calls
from torch_hrr._spec import Int, takes
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.functional import overlap

WHAT = ("winners", "support", "overlap")


@lock_public_calls
class Monitor(Recorder):
    """Records the state of areas of a brain after every round, while attached.

    ::

        with Monitor(brain, "A") as monitor:
            brain.project("s", "A", rounds=20)
        monitor["A", "overlap"]  # [20], a tensor; monitor.data() has all series, monitor.numpy() arrays

    - "winners": int64 ``[records, k]``, or ``[records, batch, k]``; `Brain.winners`, where there are fewer with -1 at
      the end.
    - "support": int64 ``[records]``, or ``[records, batch]``; `Brain.support`.
    - "overlap": the share of the winners that were also winners one record earlier (for the first one: when the monitor
      was attached): float64 ``[records]``, or ``[records, batch]``. NaN where an area has no winners, or had none.

    Rounds are recorded for every area, even for areas that took no part. While a monitor is attached, rounds run one by
    one, which on the CPU costs tens of microseconds each; results are the same bits. The last `max_rounds` records are
    kept. A copy of the brain is not watched; a deep copy of an attached monitor watches its own copy of the brain.

    Args:
        brain: any `Brain`, or the `TorchBrain` or `simulator.Brain` around it.
        areas: a name or names; None for all areas declared when the monitor is attached.
        what: a selection of the three.
        max_rounds: how many records are kept, >= 1.
        every: of so many rounds the last one is recorded, >= 1.

    Attributes:
        history: ``{area: {what: [a value a record]}}``, the oldest first: winners as they are, ints and floats without
            a batch, None for an overlap that there is not.
        rounds: how many rounds were seen, including those no longer kept.

    Raises:
        ValueError: an unknown area or quantity, or ``max_rounds`` < 1 or ``every`` < 1.
        TypeError: `brain` is something else, or an argument of another type.
    """

    @takes(max_rounds=Int(1), every=Int(1))
    def __init__(
        self,
        brain: Any,
        areas: str | Iterable[str] | None = None,
        what: str | Iterable[str] = WHAT,
        max_rounds: int = 1000,
        every: int = 1,
    ) -> None:
        """See the class."""
        self._brain = _core(brain)
        names = checks.several("Monitor", "areas", () if areas is None else areas)
        names = [checks.declared("Monitor", "area", each, self._brain.areas) for each in names]
        self._areas = None if areas is None else tuple(dict.fromkeys(names))
        quantities = checks.several("Monitor", "what", what)
        self._what = tuple(dict.fromkeys(checks.choice("Monitor", "what", each, WHAT) for each in quantities))
        self._max_rounds, self._every = max_rounds, every
        self._history: dict[str, dict[str, deque[Any]]] = {}
        self._before: dict[str, Tensor] = {}
        self.rounds = 0

    def _summary(self) -> dict[str, Any]:
        own = {"areas": self._areas, "what": self._what, "max_rounds": self._max_rounds, "every": self._every}
        return own | {"rounds": self.rounds, "attached": self._handle is not None}

    @property
    def _lock(self) -> Any:
        return self._brain._lock

    @property
    def history(self) -> dict[str, dict[str, list[Any]]]:
        """See the class."""
        return {area: {what: list(kept) for what, kept in each.items()} for area, each in self._history.items()}

    def clear(self) -> None:
        """Forgets what was recorded and counts rounds from 0; the next overlap is with the winners of now."""
        for area, each in self._history.items():
            self._before[area] = self._brain.winners(area)
            for kept in each.values():
                kept.clear()
        self.rounds = 0

    def to_dict(self) -> dict[str, Any]:
        """``{"rounds": rounds, "areas": history}`` with lists and numbers in place of tensors, as json writes them."""
        areas = {
            area: {what: [_plain(value) for value in kept] for what, kept in each.items()}
            for area, each in self._history.items()
        }
        return {"rounds": self.rounds, "areas": areas}

    def _begin(self) -> None:
        for area in self._brain.areas if self._areas is None else self._areas:
            self._history.setdefault(area, {what: deque(maxlen=self._max_rounds) for what in self._what})
            self._before[area] = self._brain.winners(area)

    def _watch(self) -> Any:
        return self._brain.register_round_hook(self._record)

    def _record(self, brain: Brain) -> None:
        self.rounds += 1
        if self.rounds % self._every:
            return
        for area, kept in self._history.items():
            winners = brain.winners(area)
            if "winners" in kept:
                kept["winners"].append(winners)
            if "support" in kept:
                kept["support"].append(brain.support(area))
            if "overlap" in kept:
                kept["overlap"].append(_share(self._before[area].to(winners.device), winners))
                self._before[area] = winners

    def _keys(self) -> list[tuple[str, str]]:
        return [(area, what) for area, kept in self._history.items() for what in kept]

    def _series(self, part: str, quantity: str) -> Tensor:
        batch = () if self._brain.batch is None else (self._brain.batch,)
        shape = (*batch, self._brain.areas[part].k) if quantity == "winners" else batch
        kind, nothing = (torch.float64, float("nan")) if quantity == "overlap" else (torch.int64, -1)
        kept = self._history[part][quantity]
        series = torch.full((len(kept), *shape), nothing, dtype=kind, device=self._brain.device)
        for row, value in zip(series, kept, strict=True):
            if value is not None:
                value = torch.as_tensor(value, dtype=kind, device=series.device)
                (row[..., : value.shape[-1]] if quantity == "winners" else row).copy_(value)
        return series


def _core(brain: Any) -> Brain:
    """The `Brain` itself, also of the faces that keep theirs under this name."""
    core = brain if isinstance(brain, Brain) else getattr(brain, "brain", None)
    if not isinstance(core, Brain):
        raise TypeError(f"Monitor: brain must be a Brain or have one, got {type(brain).__name__}")
    return core


def _share(before: Tensor, winners: Tensor) -> float | Tensor | None:
    """`overlap`, None where an area has no winners or had none."""
    return None if before.shape[-1] == 0 or winners.shape[-1] == 0 else overlap(before, winners)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, Tensor) else value
