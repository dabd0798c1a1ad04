"""Brains that learn control and step in one call: what they hold are rows of shared memory."""

from __future__ import annotations

import array
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Self

import torch

from torch_hrr._shared import writable_anywhere
from torch_hrr.field._control import ControlBrain
from torch_hrr.field.brain import METRICS, FieldBrain

Asked = tuple[list[float], float, bool, bool]
"""Sensory values, reward, and whether the episode terminated or was cut off; all were checked."""


class Together:
    """Brains of the same settings and mode, a row each; every row is bit for bit what the brain does by itself.

    The brains stay whole: their buffers become views of the rows. A brain that is set, moved, loaded or copied leaves;
    `of` then makes other rows.
    """

    @writable_anywhere
    def __init__(self, brains: Sequence[ControlBrain]) -> None:
        """Copies what the brains hold, once."""
        count, first = len(brains), brains[0]
        self.brains, self._size = tuple(brains), first.sensory_dim
        held = [dict(each.named_buffers()) for each in brains]
        self._stacks = {name: torch.stack([each[name] for each in held]) for name in held[0]}
        # First, so that none stays with rows that it left, should this be interrupted.
        for brain in brains:
            brain.__dict__.update(_work=None, _together=self)
        for name, stack in self._stacks.items():
            for brain, row in zip(brains, stack.unbind(), strict=True):
                brain._buffers[name] = row
        self._staged = array.array("f", bytes(4 * count * (self._size + 2)))
        self._host = torch.frombuffer(self._staged, dtype=torch.float32)
        device = first.device
        self._given = self._host if device.type == "cpu" else self._host.to(device)
        sensory, self._reward, self._ended = self._given.split([count * self._size, count, count])
        self._sensory = sensory.view(count, self._size)
        self._out = torch.empty(count, first.motor_dim + len(METRICS), dtype=torch.float32, device=device)

    @classmethod
    def of(cls, brains: Sequence[FieldBrain], before: Self | None = None) -> Self | None:
        """`before` if it still holds these brains, else new rows; None of brains that cannot go together."""
        if before is not None and all(each.__dict__.get("_together") is before for each in brains):
            return before
        control = [each for each in brains if type(each) is ControlBrain]
        if len(control) < max(2, len(brains)):
            return None
        kinds = {_kind(each) for each in control}
        apart = control[0].eager or any(_is_shared(each) for each in control)
        return None if apart or len(kinds) > 1 else cls(control)

    def cycle(self, asked: Sequence[Asked | None]) -> list[list[float] | None]:
        """Motors and metrics of a cycle of each, whose arguments were checked; None rests."""
        idle = ([0.0] * self._size, 0.0, False, False)
        given = [each or idle for each in asked]
        ends = ((-1.0 if each is None else 1.0 if each[2] else 2.0 if each[3] else 0.0) for each in asked)
        values = chain(*(each[0] for each in given), (each[1] for each in given), ends)
        self._staged[:] = array.array("f", values)
        if self._given is not self._host:
            self._given.copy_(self._host, non_blocking=True)
        self.brains[0]._call(self._stacks, self._sensory, self._reward, self._ended, self._out)
        return [row if each else None for row, each in zip(self._out.tolist(), asked, strict=True)]


def _kind(brain: ControlBrain) -> tuple[Any, ...]:
    """What brains that go together have alike."""
    shapes = ((name, tensor.shape) for name, tensor in brain.named_buffers())
    return brain.training, brain.eager, brain.device, *brain._summary().values(), *shapes


def _is_shared(brain: ControlBrain) -> bool:
    """Whether other processes see its memory, which it must keep."""
    return brain.device.type == "cpu" and any(tensor.is_shared() for tensor in brain.buffers())


def cycles(
    brains: Sequence[FieldBrain], asked: Sequence[Asked | None], before: Together | None
) -> tuple[list[tuple[list[float], Callable[[], dict[str, Any]]] | None], Together | None]:
    """The motors of each brain and what makes its state, or None of those that rest; and the rows, for the next call.

    Brains that cannot go together go one after the other.
    """
    together = Together.of(brains, before)
    if together is None:
        return [_alone(brain, given) if given else None for brain, given in zip(brains, asked, strict=True)], None
    begin = time.perf_counter()
    rows = together.cycle(asked)
    taken = time.perf_counter() - begin
    done: list[Any] = []
    for brain, row in zip(together.brains, rows, strict=True):
        if row is not None:
            brain.__dict__["cycle"] = cycle = brain.cycle + 1
            done.append((row[: brain.motor_dim], partial(brain._report, cycle, row, taken)))
        else:
            done.append(None)
    return done, together


def _alone(brain: FieldBrain, given: Asked) -> tuple[list[float], Callable[[], dict[str, Any]]]:
    motor, state = brain.process_robot_cycle(*given)
    return motor, lambda: state
