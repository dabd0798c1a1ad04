"""The steps of a reservoir: one after the other into buffers, or as one loop in a graph of torch.export or compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_hrr.encoding.connections import DENSE_SHARE, dense

ACTIVATIONS = ("tanh", "identity", "relu")
"""What a unit makes of what it hears."""


class Step(NamedTuple):
    """What takes a state to the next: ``x' = x + leak (f(W x + drive + W_fb y) - x)``."""

    matrix: Tensor  # W, as `connections.fastest` gives it
    leak: float | Tensor  # one for all units, or [units]
    activation: str  # f
    feedback: Tensor | None  # W_fb, [units, out]


class ReadOut(NamedTuple):
    """``y = w x + c`` in float64."""

    weights: Tensor  # w, [units, out]
    constant: Tensor  # c, [out]

    def __call__(self, states: Tensor) -> Tensor:
        """Of states ``[..., units]``."""
        if states.dim() == 1 and self.weights.dim() == 2:
            return self.of_columns(states)
        return states.to(torch.float64) @ self.weights + self.constant

    def of_columns(self, states: Tensor) -> Tensor:
        """Of states ``[units]`` or ``[units, B]``: ``[out]`` or ``[out, B]``."""
        columns = states.double()
        if states.dim() == 1:
            return torch.addmv(self.constant, self.weights.mT, columns)
        return torch.addmm(self.constant.unsqueeze(-1), self.weights.mT, columns)


def activate(hears: Tensor, activation: str) -> Tensor:
    """``f`` of what units hear, in place."""
    if activation == "tanh":
        return hears.tanh_()
    return hears.relu_() if activation == "relu" else hears


def walk(drive: Tensor, last: Tensor, said: Tensor | None, step: Step, read: ReadOut | None) -> Tensor | None:
    """Replaces the drive of every step by the state after it; nothing is allocated without feedback.

    One sequence is a row of vectors, several are matrices, whose products read W's rows once.

    Args:
        drive: ``[n, units]`` or ``[n, units, B]``: what units hear but for each other, and for feedback from `read`.
        last: The state before, ``[units]`` or ``[units, B]``.
        said: What the read-out said before, ``[out]`` or ``[out, B]`` in the dtype of states, if units hear it.
        step: The reservoir.
        read: Makes of each state what the units hear in the next step; None if `drive` has all that they hear.

    Returns:
        What the read-out says at the last state, as `said`.
    """
    matrix, leak, activation, feedback = step
    add_product = torch.addmv if last.dim() == 1 else torch.addmm
    if isinstance(leak, Tensor) and last.dim() == 2:
        leak = leak.unsqueeze(-1)
    hears = torch.empty_like(last)
    for current in drive.unbind(0):
        if said is not None and feedback is not None:
            add_product(current, feedback, said, out=current)
        add_product(current, matrix, last, out=hears)
        activate(hears, activation)
        torch.lerp(last, hears, leak, out=current)
        last = current
        if read is not None:
            said = read.of_columns(last).to(last.dtype)
    return said


def run_free(
    result: Tensor, last: Tensor, step: Step, read: ReadOut, inputs: Tensor, bias: Tensor, scale: Any = None
) -> Tensor:
    """Fills predictions, each of which is the next input, and returns the state after the last.

    Args:
        result: ``[n, out]`` or ``[n, out, B]``, of the dtype of states.
        last: The state of which the first prediction is read, ``[units]`` or ``[units, B]``.
        step: The reservoir; what it hears by feedback is added to its inputs, and has no scale.
        read: Its read-out.
        inputs: W_in, ``[units, out]``.
        bias: b, ``[units]``.
        scale: Middle and half width ``[out]``, float64, of what the reservoir hears between -1 and 1; None leaves it.
    """
    matrix, leak, activation, feedback = step
    one = last.dim() == 1
    add_product = torch.addmv if one else torch.addmm
    loop = inputs if feedback is None else inputs + feedback
    if not one:
        bias = bias.unsqueeze(-1)
        leak = leak.unsqueeze(-1) if isinstance(leak, Tensor) else leak
        scale = None if scale is None else [each.unsqueeze(-1) for each in scale]
    last, drive, hears = last.clone(), torch.empty_like(last), torch.empty_like(last)
    for said in result.unbind(0):
        said.copy_(read.of_columns(last))
        heard = said if scale is None else ((said.to(torch.float64) - scale[0]) / scale[1]).to(said.dtype)
        add_product(bias, loop, heard, out=drive)
        add_product(drive, matrix, last, out=hears)
        activate(hears, activation)
        torch.lerp(last, hears, leak, out=last)
    return last


def one_step(drive: Tensor, last: Tensor, step: Step) -> Tensor:
    """The state after one step, ``[units]`` or ``[B, units]``, like what drives it; a new tensor."""
    matrix, leak, activation, _ = step
    if last.dim() == 1:
        hears = torch.addmv(drive, matrix, last)
    else:
        # Products of sparse matrices are from the left.
        hears = torch.addmm(drive.mT, matrix, last.mT).mT
    return torch.lerp(last, activate(hears, activation), leak)


class Graph(NamedTuple):
    """The same steps of sequences ``[B, ..., units]`` without writing into tensors, for a graph.

    The number of steps may be dynamic: a loop is `scan` of torch, whose graph holds one step.
    """

    columns: Tensor  # int32 [units, k]
    values: Tensor
    leak: float | Tensor
    activation: str
    feedback: Tensor | None

    def stepper(self) -> Callable[[Tensor, Tensor], Tensor]:
        """The function from a state and a drive, ``[B, units]``, to the next state."""
        units, count = self.values.shape
        columns, values = self.columns.long(), self.values
        weights = dense(columns, values).mT if count > DENSE_SHARE * units else None
        # As a tensor, since compilers make symbols of numbers, which a scan does not take.
        leak = self.leak if isinstance(self.leak, Tensor) else values.new_full((), self.leak)

        def advance(state: Tensor, drive: Tensor) -> Tensor:
            heard = (state[:, columns] * values).sum(-1) if weights is None else state @ weights
            hears = drive + heard
            if self.activation != "identity":
                hears = hears.tanh() if self.activation == "tanh" else hears.relu()
            return torch.lerp(state, hears, leak)

        return advance

    def walk(self, drive: Tensor, state: Tensor, said: Tensor | None, read: ReadOut | None) -> tuple[Tensor, Tensor]:
        """The states ``[B, T, units]`` for drives ``[B, T, units]``, and the last of them; as `walk` for the rest."""
        advance, feedback = self.stepper(), self.feedback
        # A loop has one step at least; where their number is dynamic it is not known here.
        if isinstance(drive.shape[1], int) and not drive.shape[1]:
            return torch.zeros_like(drive), state
        if read is None or said is None or feedback is None:

            def combine(carry: Tensor, drive: Tensor) -> tuple[Tensor, Tensor]:
                new = advance(carry, drive)
                return new, new.clone()

            last, states = scan(combine, state, drive.movedim(1, 0))
            return states.movedim(0, 1), last

        def combine_both(carry: tuple[Tensor, Tensor], drive: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
            new = advance(carry[0], drive + carry[1] @ feedback.mT)
            told = read(new).to(new.dtype)
            return (new, told), new.clone()

        (last, _), states = scan(combine_both, (state, said), drive.movedim(1, 0))
        return states.movedim(0, 1), last

    def run_free(self, steps: int, state: Tensor, read: ReadOut, inputs: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions ``[B, n, out]``, each of which is the next input, and the state after the last."""
        advance = self.stepper()
        loop = (inputs if self.feedback is None else inputs + self.feedback).mT

        def combine(carry: Tensor, nothing: Tensor) -> tuple[Tensor, Tensor]:
            told = read(carry).to(carry.dtype)
            return advance(carry, bias + told @ loop + nothing), told.clone()

        if not steps:
            return state.new_zeros(state.shape[0], 0, len(read.constant)), state
        last, told = scan(combine, state, state.new_zeros(steps, 1))
        return told.movedim(0, 1), last


def scan(combine: Callable[..., Any], init: Any, each: Tensor) -> tuple[Any, Tensor]:
    """The loop of torch over the first dimension, which graphs hold as one operator."""
    from torch._higher_order_ops.scan import scan as loop

    result: tuple[Any, Tensor] = loop(combine, init, each, dim=0)
    return result
