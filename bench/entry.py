"""What a benchmark entry is: pure data, so that a system's file is one table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]


def vectors(*shape: int, generator: torch.Generator) -> Tensor:
    """Rows of N(0, 1/D), the usual HRR vectors."""
    return torch.randn(shape, generator=generator) / shape[-1] ** 0.5


@dataclass(frozen=True)
class Peer:
    """Another way to the same result.

    Attributes:
        name: Unique within an entry.
        function: Takes the entry's inputs.
        kind: "torch" competes for the best torch form, the denominator of the aim; "compile" is compiled by the
            runner first; "library" is another package.
        reuse: The same with `out=`, where torch has it.
        prepare: Applied to every input outside the timed region (a library's own tensor type).
        compared: (result, *inputs) -> what of its result is compared with ours; None for all of it.
        on_host: Whether it takes tensors on the CPU alone, and is left out elsewhere.
    """

    name: str
    function: Callable[..., Any]
    kind: Literal["torch", "compile", "library"] = "torch"
    reuse: Callable[..., Any] | None = None
    prepare: Callable[[Tensor], Tensor] | None = None
    compared: Callable[..., Any] | None = None
    on_host: bool = False


@dataclass(frozen=True)
class Entry:
    """One operator at one size.

    Attributes:
        op: Operator (or `op backward`).
        shape: The sizes as a reader writes them, "100x512".
        batch: Leading size handed to `inputs`; tests build the entry at a smaller one.
        inputs: (batch, generator) -> the arguments, on the CPU.
        ours: The operator under test, fresh output.
        peers: What it is compared with.
        traffic: Bytes that must move at least once: inputs read and outputs written.
        floor: Ratio to the best torch form below which the entry is broken, if one was promised.
        aim: Ratio asked for, if any.
        aim_peer: Name of the peer that floor and aim refer to; None for the fastest torch form.
        reuse: `ours` with `out=`, where the operator has it.
        sets: How many sets of inputs take turns even where they are warm: branch predictors learn a single one.
        compared: (result, *inputs) -> what of our result is compared with the peers'; None for all of it.
    """

    op: str
    shape: str
    batch: int
    inputs: Callable[[int, torch.Generator], Inputs]
    ours: Callable[..., Any]
    peers: tuple[Peer, ...]
    traffic: int
    floor: float | None = None
    aim: float | None = None
    reuse: Callable[..., Any] | None = None
    aim_peer: str | None = None
    sets: int = 1
    compared: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """What --filter matches: "bind 100x512"."""
        return f"{self.op} {self.shape}"
