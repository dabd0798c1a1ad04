"""Malformed calls of the encodings: what each must refuse, and in which words."""

from __future__ import annotations

import re

import torch
from torch import Tensor

from cases.base import ErrorInput, Sample, TensorArgument
from cases.errors import Table, bad_numbers, devices, quantized, repeated, unsupported_layouts, unsupported_tensors
from cases.hrr_errors import anchor, outs

NAN, INF = float("nan"), float("inf")
OVERFLOW = re.escape("the result must have fewer than 2^60 elements, got sizes")
# Of every argument that is a number: the requirement, and values that do not meet it.
BAD_NUMBERS: dict[str, tuple[str, tuple[float, ...]]] = {
    "dim": ("at least 0", (-1, -(2**63))),
    "base": ("finite and above 0", (0.0, -2.0, NAN, INF)),
    "scale": ("finite", (NAN, INF, -INF)),
    "phase": ("finite", (NAN, INF, -INF)),
    "temperature": ("finite and not 0", (0.0, NAN, INF)),
}


def errors(
    name: str, arguments: tuple[TensorArgument, ...], good: Sample, out: tuple[int, ...] | None
) -> tuple[ErrorInput, ...]:
    """Every defect of every argument. `good` gives a value to each, and `out` is its result's shape."""
    table = Table(name, arguments, good, out)
    first = anchor(arguments).name
    for argument in arguments:
        devices(table, argument.name, first)
        # A call without any tensor reaches no kernel of ours.
        if not argument.optional and len(arguments) > 1:
            undefined = f"{argument.name} must be a defined tensor, got an undefined one"
            table.replace(argument.name, "undefined", lambda _: None, TypeError, undefined)
        if not argument.takes_integers:
            unsupported_tensors(table, argument.name)
    for argument in arguments:
        checks = {"positions": positions, "tokens": tokens, "table": rows, "grad": gradient}
        checks.get(argument.name, numbers)(table, argument.name)
    options(table)
    if out is not None:
        outs(table, first)
    return tuple(table.errors)


def not_of(table: Table, argument: str, taken: str, refused: dict[torch.dtype, str]) -> None:
    """Other dtypes and layouts of an argument that takes integers."""
    for dtype, word in refused.items():
        message = f"{argument} must be {taken}, got {word}"
        table.replace(argument, f"{dtype}".removeprefix("torch."), lambda x, t=dtype: x.to(t), TypeError, message)
    message = f"{argument} must (be {taken}|not be quantized), got QInt8"
    table.replace(argument, "quantized", lambda x: quantized(x.float()), TypeError, message, ("cpu",))
    unsupported_layouts(table, argument)


def positions(table: Table, name: str) -> None:
    refused = {torch.bool: "Bool", torch.complex64: "ComplexFloat"}
    not_of(table, name, "integers, float32, float64, float16 or bfloat16", refused)
    if "tokens" in table.good.shapes:
        message = r"tokens and positions must broadcast, got sizes \d+ and \d+ at dimension \d+"
        table.replace(name, "not-broadcastable", lambda x: x.repeat(2), ValueError, message)
        enlarged = {"tokens": repeated((2**31, 1), torch.int64), name: repeated((2**31, 1, 1))}
        table.add(name, "overflow", lambda _: enlarged, ValueError, OVERFLOW)
    else:
        large = {name: repeated((2**60,))} | ({"grad": repeated((8,))} if "grad" in table.good.shapes else {})
        table.add(name, "overflow-alone", lambda _: large, ValueError, OVERFLOW)


def tokens(table: Table, name: str) -> None:
    refused = {torch.bool: "Bool", torch.complex64: "ComplexFloat", torch.float32: "Float", torch.int16: "Short"}
    not_of(table, name, "int32 or int64", refused)
    rank = re.escape("tokens must have at least 1 dimension [..., L], got 0")
    table.replace(name, "rank", lambda x: x.reshape(-1)[0], ValueError, rank)
    count = table.good.shapes["table"][0]
    last = torch.tensor(table.good.shapes[name][-1] - 1)
    for value in (-1, count, 2**62, -(2**63)):
        message = f"tokens must be from 0 to {count - 1}, the last row of table, got {value}"
        table.replace(
            name, f"value-{value}", lambda x, v=value: x.index_fill(-1, last, v), IndexError, message, ("cpu",)
        )
    large = {name: repeated((2**60, 4), torch.int64)}
    table.add(name, "overflow", lambda _: large, ValueError, OVERFLOW)


def rows(table: Table, name: str) -> None:
    for shape, rank in (((8,), 1), ((1, 5, 8), 3)):
        message = re.escape(f"{name} must have 2 dimensions [V, dim], got {rank}")
        defect = "rank" if rank == 1 else "rank-3"
        table.replace(name, defect, lambda _, s=shape: torch.zeros(s), ValueError, message)

    def no_rows(x: Tensor) -> Tensor:
        return x[:0]

    table.replace(name, "no-rows", no_rows, IndexError, "tokens must be from 0 to -1, the last row of table", ("cpu",))


def numbers(table: Table, name: str) -> None:
    """Of frequencies and phase, one number a frequency."""
    for shape, rank in (((), 0), ((2, 4), 2)):
        message = re.escape(f"{name} must have 1 dimension [F], got {rank}")
        defect = "rank" if rank == 0 else "rank-2"
        table.replace(name, defect, lambda _, s=shape: torch.zeros(s), ValueError, message)
    message = r"frequencies and phase must have the same last dimension, got \d+ and \d+"
    table.replace(name, "longer", lambda x: torch.cat([x, x]), ValueError, message)
    if name == "frequencies":
        large = {"positions": repeated((8,))} | ({"grad": repeated((2**61,))} if "grad" in table.good.shapes else {})
        table.add(
            name,
            "overflow",
            lambda _: dict.fromkeys(("frequencies", "phase"), repeated((2**60,))) | large,
            ValueError,
            OVERFLOW,
        )


def gradient(table: Table, name: str) -> None:
    rank = re.escape("grad must have at least 1 dimension [..., 2F], got 0")
    table.replace(name, "rank", lambda x: x.reshape(-1)[0], ValueError, rank)
    message = "grad must have a last dimension of 2F, got 16 and F = 4"
    table.replace(name, "longer", lambda x: torch.cat([x, x], -1), ValueError, message)
    message = r"grad and positions must broadcast, got sizes \d+ and \d+ at dimension \d+"
    table.replace(name, "not-broadcastable", lambda x: x.repeat(2, 1), ValueError, message)


def options(table: Table) -> None:
    bad_numbers(table, BAD_NUMBERS)
    if "padding_idx" in table.good.options:
        count = table.good.shapes["table"][0]
        for index in (count, 2**63 - 1):
            message = f"padding_idx must be below {count}, the number of rows of table, got {index}"
            table.replace("padding_idx", f"index-{index}", lambda _, i=index: i, ValueError, message)
    if "scale" in table.good.options:
        for name, value in (("scale", 2.0**60 * 1.01), ("scale", -(2.0**61)), ("base", 1e-300)):
            message = re.escape("scale base^(-2i/dim) must be at most 2^60 for every i, got ")
            table.replace(name, f"frequency-{value:g}", lambda _, v=value: v, ValueError, message)
    message = "layout must be 'interleaved' or 'half', got 'Half'"
    table.replace("layout", "unknown", lambda _: "Half", ValueError, message)
    if "dtype" not in table.good.options:
        return
    for dtype, word in ((torch.int64, "Long"), (torch.complex64, "ComplexFloat"), (torch.bool, "Bool")):
        message = f"dtype must be float32, float64, float16 or bfloat16, got {word}"
        table.replace("dtype", word, lambda _, t=dtype: t, TypeError, message)
