"""Monitors: a bounded record of what a brain does, round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from torch import Tensor
from torch.utils.hooks import RemovableHandle

from torch_hrr._repr import Described
from torch_hrr._shared import lock_public_calls
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.functional import overlap

WHAT = ("winners", "support", "overlap")


@lock_public_calls
class Monitor(Described):
    """Records the state of areas of a brain after every round, while attached.

    ::

        with Monitor(brain, ["A"]) as monitor:
            brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=20)
        monitor.history["A"]["overlap"][-1]

    - "winners": int64 ``[k]``, or ``[batch, k]``; `Brain.winners`.
    - "support": an int, or int64 ``[batch]``; `Brain.support`.
    - "overlap": the share of the winners that were also winners one round earlier (for the first round: when the
      monitor was attached): a float, or float64 ``[batch]``. None where an area has no winners, or had none.

    Every round is recorded for every area, even for areas that took no part. While a monitor is attached, rounds run
    one by one, which on the CPU costs tens of microseconds each; results are the same bits. The last `max_rounds`
    rounds are kept. A copy of the brain is not watched; a deep copy of an attached monitor watches its own copy of the
    brain.

    Args:
        brain: any `Brain`, or the `TorchBrain` or `simulator.Brain` around it.
        areas: their names; None for all areas declared when the monitor is attached.
        what: a selection of the three.
        max_rounds: how many rounds are kept, >= 1.

    Attributes:
        history: ``{area: {what: [a value a round]}}``, the oldest round first.
        rounds: how many rounds were seen, including those no longer kept.

    Raises:
        ValueError: an unknown area or quantity, or ``max_rounds`` < 1.
        TypeError: `brain` is something else.
    """

    def __init__(
        self,
        brain: Any,
        areas: Iterable[str] | None = None,
        what: Iterable[str] = WHAT,
        max_rounds: int = 1000,
    ) -> None:
        """See the class."""
        self._brain = _core(brain)
        names = checks.several("Monitor", "areas", () if areas is None else areas)
        names = [checks.declared("Monitor", "area", each, self._brain.areas) for each in names]
        self._areas = None if areas is None else tuple(dict.fromkeys(names))
        quantities = checks.several("Monitor", "what", what)
        self._what = tuple(dict.fromkeys(checks.choice("Monitor", "what", each, WHAT) for each in quantities))
        self._max_rounds = checks.integer("Monitor", "max_rounds", max_rounds, least=1)
        self._history: dict[str, dict[str, deque[Any]]] = {}
        self._before: dict[str, Tensor] = {}
        self._attached = False
        self._handle: RemovableHandle | None = None
        self.rounds = 0

    def _summary(self) -> dict[str, Any]:
        own = {"areas": self._areas, "what": self._what, "max_rounds": self._max_rounds}
        return own | {"rounds": self.rounds, "attached": self._attached}

    @property
    def _lock(self) -> Any:
        return self._brain._lock

    @property
    def history(self) -> dict[str, dict[str, list[Any]]]:
        """See the class."""
        return {area: {what: list(kept) for what, kept in each.items()} for area, each in self._history.items()}

    def attach(self) -> Self:
        """Records from the next round on; what was recorded before stays.

        Raises:
            RuntimeError: it is attached already.
        """
        if self._attached:
            raise RuntimeError("attach: the monitor is already attached")
        for area in self._brain.areas if self._areas is None else self._areas:
            self._history.setdefault(area, {what: deque(maxlen=self._max_rounds) for what in self._what})
            self._before[area] = self._brain.winners(area)
        self._handle = self._brain.register_round_hook(self._record)
        self._attached = True
        return self

    def detach(self) -> None:
        """Stops recording; does nothing if the monitor is not attached."""
        if self._handle is not None:
            self._handle.remove()
        self._attached, self._handle = False, None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a deep copy, which watches its copy of the brain."""
        self.__dict__.update(state)
        if self._attached:
            self._handle = self._brain.register_round_hook(self._record)

    def __enter__(self) -> Self:
        """As `attach`."""
        return self.attach()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As `detach`, after an exception too."""
        self.detach()

    def to_dict(self) -> dict[str, Any]:
        """``{"rounds": rounds, "areas": history}`` with lists and numbers in place of tensors, as json writes them."""
        areas = {
            area: {what: [_plain(value) for value in kept] for what, kept in each.items()}
            for area, each in self._history.items()
        }
        return {"rounds": self.rounds, "areas": areas}

    def _record(self, brain: Brain) -> None:
        self.rounds += 1
        for area, kept in self._history.items():
            winners = brain.winners(area)
            if "winners" in kept:
                kept["winners"].append(winners)
            if "support" in kept:
                kept["support"].append(brain.support(area))
            if "overlap" in kept:
                kept["overlap"].append(_share(self._before[area].to(winners.device), winners))
                self._before[area] = winners


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
