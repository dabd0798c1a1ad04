"""Malformed HRR calls, generated as (argument, defect): what each operator must refuse, and in which words."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from cases.base import Arguments, ErrorInput, Sample, TensorArgument
from cases.errors import Table, bad_numbers, devices, repeated, unsupported_tensors

RANK = {"D": 1, "KD": 2, "K": 1, "": 0}
SHAPE = {"D": "[..., D]", "KD": "[..., K, D]", "K": "[..., K]", "": "[...]"}
NAN, INF = float("nan"), float("inf")
# Of every argument that is a number: the requirement, and values that do not meet it.
BAD_NUMBERS: dict[str, tuple[str, tuple[float, ...]]] = {
    "eps": ("a number >= 0", (-1.0, -1e-300, NAN, -INF)),
    "exponent": ("finite", (NAN, INF, -INF)),
    "order": ("at least 0", (-1, -(2**63))),
    "power": ("above -2^63", (-(2**63),)),
}


def anchor(arguments: tuple[TensorArgument, ...]) -> TensorArgument:
    """The argument that the others are compared with: the first one that is not a gradient or direction."""
    return next(argument for argument in arguments if argument.name not in {"grad", "v"})


def shapes(table: Table, argument: TensorArgument, first: TensorArgument) -> None:
    name, dims = argument.name, argument.dims
    rank, shape = RANK[dims], re.escape(SHAPE[dims])
    if rank:
        table.replace(
            name,
            "rank",
            lambda x: x.reshape(-1)[0] if rank == 1 else x.reshape(-1, x.shape[-1])[0],
            ValueError,
            rf"{name} must have at least {rank} dimensions? {shape}, got {rank - 1}",
        )
    if "D" in dims:
        other = r"\w+" if argument is first else first.name
        pair = rf"({other} and {name}|{name} and {other})"
        if len([a for a in table.arguments if "D" in a.dims]) > 1:
            message = rf"{pair} must have the same last dimension, got (\d+) and (\d+)"
            table.replace(name, "D-longer", lambda x: torch.cat([x, x], -1), ValueError, message)
            table.replace(name, "D-1", lambda x: x[..., :1], ValueError, message)
        empty = rf"{first.name} must have a last dimension of at least 1, got 0"
        if argument is first:
            names = [a.name for a in table.arguments if "D" in a.dims]
            table.add(name, "D-0", lambda x: {n: x[n][..., :0] for n in names}, ValueError, empty)
    if len(table.arguments) > 1 and argument is not first:
        message = r".*must broadcast, got sizes \d+ and \d+ at dimension \d+"
        table.replace(name, "not-broadcastable", lambda x: x.repeat(2, *[1] * (x.dim() - 1)), ValueError, message)


def overflow(table: Table, argument: TensorArgument, first: TensorArgument) -> None:
    """Sizes whose product is not an int64, of the result or of a broadcast pair."""
    tail = {"D": (4,), "KD": (1, 4), "K": (1,), "": ()}
    message = r"the result must have fewer than 2\^60 elements, got sizes"

    def enlarge(arguments: Arguments) -> Arguments:
        changed: Arguments = {}
        for other in table.arguments:
            if arguments[other.name] is not None:
                leading = (2**31, 1) if other.name == argument.name else (1, 2**31)
                changed[other.name] = repeated((*leading, *tail[other.dims]))
        return changed

    if argument is not first:
        table.add(argument.name, "overflow", enlarge, ValueError, message)
    elif len(table.arguments) == 1 or argument.dims == "D":
        table.add(
            argument.name,
            "overflow-alone",
            lambda x: {a.name: repeated((2**60, *tail[a.dims])) for a in table.arguments if x[a.name] is not None},
            ValueError,
            message,
        )


def outs(table: Table, beside: str) -> None:
    """Every defect of a result that is given; `beside`: the argument on whose device it must be."""
    unsupported_tensors(table, "out")
    devices(table, "out", beside)
    undefined = "out must be a defined tensor, got an undefined one"
    table.replace("out", "undefined", lambda _: None, TypeError, undefined)
    table.replace("out", "dtype", Tensor.double, TypeError, "out must have dtype Float, got Double")
    table.replace("out", "half", Tensor.half, TypeError, "out must have dtype Float, got Half")
    sizes = re.escape(str(list(table.out or ())))
    table.replace("out", "longer", lambda x: torch.cat([x, x]), ValueError, rf"out must have sizes {sizes}, got \[")
    table.replace("out", "empty", lambda x: x[:0], ValueError, rf"out must have sizes {sizes}, got \[0")
    table.replace("out", "rank", lambda x: x[None], ValueError, rf"out must have sizes {sizes}, got \[1, ")
    itself = "out must not overlap itself, got an expanded tensor"
    table.replace("out", "expanded", lambda x: x[:1, :1].expand(x.shape), RuntimeError, itself, ("cpu",))
    for argument in table.arguments:
        message = f"out must not share memory with {argument.name}, got overlapping tensors"

        def overlap(arguments: Arguments, name: str = argument.name) -> Arguments:
            given, out = arguments[name], arguments["out"]
            memory = torch.zeros(given.nbytes + out.nbytes, dtype=torch.uint8)
            start = given.nbytes - given.element_size()
            return {
                name: memory[: given.nbytes].view(given.dtype).view(given.shape),
                "out": memory[start:][: out.nbytes].view(out.dtype).view(out.shape),
            }

        table.add("out", f"overlaps-{argument.name}", overlap, RuntimeError, message, ("cpu",))


def generate(
    name: str, arguments: tuple[TensorArgument, ...], good: Sample, out: tuple[int, ...] | None = None
) -> tuple[ErrorInput, ...]:
    """Every defect of every argument. `good` gives a value to each argument, and `out` is its result's shape."""
    table = Table(name, arguments, good, out)
    first = anchor(arguments)
    for argument in arguments:
        unsupported_tensors(table, argument.name)
        devices(table, argument.name, first.name)
        shapes(table, argument, first)
        overflow(table, argument, first)
        # A call without any tensor reaches no kernel of ours.
        if not argument.optional and len(arguments) > 1:
            undefined = f"{argument.name} must be a defined tensor, got an undefined one"
            table.replace(argument.name, "undefined", lambda _: None, TypeError, undefined)
    bad_numbers(table, BAD_NUMBERS)
    if out is not None:
        outs(table, first.name)
    return tuple(table.errors)
