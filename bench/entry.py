"""What a benchmark entry is: pure data, so that a system's file is one table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Inputs = tuple[Tensor, ...]


def vectors(*shape: int, generator: torch.Generator) -> Tensor:
    """Rows of N(0, 1/D), the usual HRR vectors."""
    return torch.randn(shape, generator=generator) / shape[-1] ** 0.5


def rows_of(*shapes: tuple[int, ...], leaves: int = 0) -> Callable[[int, torch.Generator], Inputs]:
    """Inputs of an entry: `batch` times HRR vectors of each shape; the first `leaves` of them require gradients."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        made = [vectors(batch, *shape, generator=generator) for shape in shapes]
        return tuple(x.requires_grad_(i < leaves) for i, x in enumerate(made))

    return inputs


@dataclass(frozen=True)
class Peer:
    """Another way to the same result."""

    name: str  # unique within an entry
    function: Callable[..., Any]  # takes the entry's inputs
    # "torch" competes for the best torch form, the denominator of the aim; "compile" is compiled by the runner first;
    # "library" is another package.
    kind: Literal["torch", "compile", "library"] = "torch"
    reuse: Callable[..., Any] | None = None  # the same with `out=`, where torch has it
    prepare: Callable[[Tensor], Tensor] | None = None  # of every input, not timed: a library's own tensor type
    compared: Callable[..., Any] | None = None  # (result, *inputs) -> what is compared with ours; None for all of it
    on_host: bool = False  # takes tensors on the CPU alone, and is left out elsewhere


def with_compiled(name: str, function: Callable[..., Any], **options: Any) -> tuple[Peer, Peer]:
    """A form in eager torch and under torch.compile."""
    reuse = options.pop("reuse", None)
    return Peer(name, function, reuse=reuse, **options), Peer("torch.compile", function, kind="compile", **options)


@dataclass(frozen=True)
class Entry:
    """One operator at one size."""

    op: str  # operator, or `op backward`
    shape: str  # the sizes as a reader writes them, "100x512"
    batch: int  # leading size handed to `inputs`; tests build the entry at a smaller one
    inputs: Callable[[int, torch.Generator], Inputs]  # (batch, generator) -> the arguments, on the CPU
    ours: Callable[..., Any]  # the operator under test, fresh output
    peers: tuple[Peer, ...]
    traffic: int  # bytes that must move at least once: inputs read and outputs written
    floor: float | None = None  # ratio to the best torch form below which the entry is broken, if one was promised
    aim: float | None = None  # ratio asked for, if any
    reuse: Callable[..., Any] | None = None  # `ours` with `out=`, where the operator has it
    aim_peer: str | None = None  # the peer that floor and aim refer to; None for the fastest torch form
    sets: int = 1  # of inputs that take turns even where they are warm: branch predictors learn a single one
    compared: Callable[..., Any] | None = None  # (result, *inputs) -> what is compared with the peers'; None for all

    @property
    def name(self) -> str:
        """What --filter matches: "bind 100x512"."""
        return f"{self.op} {self.shape}"


def aligned(cells: Sequence[str], columns: Sequence[tuple[str, int]], left: int) -> str:
    """A line of a table: the first `left` columns to the left, numbers to the right."""
    pairs = zip(cells, (width for _, width in columns), strict=True)
    return " ".join(f"{cell:<{width}}" if i < left else f"{cell:>{width}}" for i, (cell, width) in enumerate(pairs))
