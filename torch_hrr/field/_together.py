"""Brains that learn control and step in one call: what they hold are rows of shared memory."""

from __future__ import annotations

import array
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Self

import torch

from torch_hrr._shared import writable_anywhere
from torch_hrr.field._control import ControlBrain
from torch_hrr.field.brain import METRICS, FieldBrain

State = dict[str, Any] | Callable[[], dict[str, Any]]
"""A cycle's state, or what makes it."""


@dataclass(frozen=True)
class Asked:
    """What a cycle of each brain is given; all was checked."""

    sensory: Sequence[list[float]]
    rewards: Sequence[float]
    ended: Sequence[float]  # 1 where the episode terminated, 2 where it was cut off, below 0 where the brain rests


class Together:
    """Brains of the same settings and mode, a row each; every row is bit for bit what the brain does by itself.

    The brains stay whole: their buffers become views of the rows. A brain that is set, moved, loaded or copied leaves;
    `of` then makes other rows.
    """

    @writable_anywhere
    def __init__(self, brains: Sequence[ControlBrain]) -> None:
        """Copies what the brains hold, once."""
        count, first = len(brains), brains[0]
        self.brains, size = tuple(brains), first.sensory_dim
        held = [dict(each.named_buffers()) for each in brains]
        self._stacks = {name: torch.stack([each[name] for each in held]) for name in held[0]}
        # First, so that none stays with rows that it left, should this be interrupted.
        for brain in brains:
            brain.__dict__.update(_work=None, _together=self)
        for name, stack in self._stacks.items():
            for brain, row in zip(brains, stack.unbind(), strict=True):
                brain._buffers[name] = row
        self._staged = array.array("f", bytes(4 * count * (size + 2)))
        self._host = torch.frombuffer(self._staged, dtype=torch.float32)
        device = first.device
        self._given = self._host if device.type == "cpu" else self._host.to(device)
        sensory, self._reward, self._ended = self._given.split([count * size, count, count])
        self._sensory = sensory.view(count, size)
        self._out = torch.zeros(count, first.motor_dim + len(METRICS), dtype=torch.float32, device=device)

    @classmethod
    def of(cls, brains: Sequence[FieldBrain], before: Self | None = None) -> Self | None:
        """`before` if it still holds these brains, else new rows; None of brains that cannot go together."""
        held = [each.__dict__.get("_together") for each in brains]
        if before is not None and before.brains == tuple(brains) and all([each is before for each in held]):
            return before
        control = [each for each in brains if type(each) is ControlBrain]
        if len(control) < max(2, len(brains)):
            return None
        kinds = {_kind(each) for each in control}
        apart = control[0].eager or any(_is_shared(each) for each in control)
        return None if apart or len(kinds) > 1 else cls(control)

    def cycle(self, asked: Asked) -> list[list[float]]:
        """Motors and metrics of a cycle of each; of a brain that rests those of its last one."""
        self._staged[:] = array.array("f", chain(*asked.sensory, asked.rewards, asked.ended))
        if self._given is not self._host:
            self._given.copy_(self._host, non_blocking=True)
        self.brains[0]._call(self._stacks, self._sensory, self._reward, self._ended, self._out)
        rows: list[list[float]] = self._out.tolist()
        return rows


def _kind(brain: ControlBrain) -> tuple[Any, ...]:
    """What brains that go together have alike."""
    shapes = ((name, tensor.shape) for name, tensor in brain.named_buffers())
    return brain.training, brain.eager, brain.device, *brain._summary().values(), *shapes


def _is_shared(brain: ControlBrain) -> bool:
    """Whether other processes see its memory, which it must keep."""
    return brain.device.type == "cpu" and any(tensor.is_shared() for tensor in brain.buffers())


def cycles(
    brains: Sequence[FieldBrain], asked: Asked, before: Together | None
) -> tuple[list[list[float]], list[State | None], Together | None]:
    """The motors and states of all brains, None of those that rest, and the rows, for the next call.

    Brains that cannot go together go one after the other.
    """
    together = Together.of(brains, before)
    if together is None:
        return *_apart(brains, asked), None
    begin = time.perf_counter()
    rows = together.cycle(asked)
    taken = time.perf_counter() - begin
    states: list[Any] = [None] * len(rows)
    for i, (brain, ended) in enumerate(zip(together.brains, asked.ended, strict=True)):
        if ended >= 0:
            brain.__dict__["cycle"] = cycle = brain.cycle + 1
            states[i] = partial(brain._report, cycle, rows[i], taken)
    count = together.brains[0].motor_dim
    return [row[:count] for row in rows], states, together


def _apart(brains: Sequence[FieldBrain], asked: Asked) -> tuple[list[list[float]], list[Any]]:
    motors = [[0.0] * brain.motor_dim for brain in brains]
    states: list[Any] = [None] * len(brains)
    for i, (brain, ended) in enumerate(zip(brains, asked.ended, strict=True)):
        if ended >= 0:
            given = asked.sensory[i], asked.rewards[i], ended == 1, ended == 2
            motors[i], states[i] = brain.process_robot_cycle(*given)
    return motors, states
