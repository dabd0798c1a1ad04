"""Malformed calls of the assembly operators: what each must refuse, and in which words."""

from __future__ import annotations

import functools
import math
import re

import torch

from cases.base import ErrorInput, Sample, TensorArgument
from cases.errors import Table, quantized, repeated, unsupported_layouts, unsupported_tensors

ELEMENTS = "float32, float64, float16, bfloat16, int32 or int64"
OVERFLOW = re.escape("the result must have fewer than 2^60 elements, got sizes")


def winners_errors(good: Sample) -> tuple[ErrorInput, ...]:
    """Every defect of inputs [..., n] and k."""
    table = Table("k_winners", (TensorArgument("inputs", "n"),), good, None)
    inputs = functools.partial(table.replace, "inputs")
    unsupported_tensors(table, "inputs", ELEMENTS, (torch.bool, torch.complex64, torch.int16))
    rank = re.escape("inputs must have at least 1 dimension [..., n], got 0")
    inputs("rank", lambda x: x.reshape(-1)[0], ValueError, rank)
    below = re.escape(f"inputs must have a last dimension below 2^31, got {2**31}")
    inputs("n-of-2^31", lambda _: repeated((1, 2**31)), ValueError, below)
    inputs("overflow-alone", lambda _: repeated((2**60, 4)), ValueError, OVERFLOW)
    requirement = "k must be from 0 to the last dimension of inputs, got k = "
    for k in (-1, 9, 2**62, -(2**63)):
        message = re.escape(f"{requirement}{k} and inputs of [3, 8]")
        table.replace("k", str(k), lambda _, k=k: k, ValueError, message)
    return tuple(table.errors)


def connectome_errors(good: Sample) -> tuple[ErrorInput, ...]:
    """Every defect of winners [..., k], n and p."""
    table = Table("connectome_inputs", (TensorArgument("winners", "k"),), good, None)
    winners = functools.partial(table.replace, "winners")
    for dtype in (torch.int32, torch.float32, torch.float64, torch.bool, torch.complex64):
        name = f"{dtype}".removeprefix("torch.")
        winners(name, lambda x, t=dtype: x.to(t), TypeError, "winners must be int64, got")
    unsupported_layouts(table, "winners")
    winners(
        "quantized", lambda x: quantized(x.float()), TypeError, "winners must not be quantized, got QInt8", ("cpu",)
    )
    rank = re.escape("winners must have at least 1 dimension [..., k], got 0")
    winners("rank", lambda x: x.reshape(-1)[0], ValueError, rank)
    most = re.escape("winners must have a last dimension of at most 2^31 - 1, got 2147483648")
    winners("k-of-2^31", lambda _: repeated((1, 2**31), torch.int64), ValueError, most)
    winners("overflow-alone", lambda _: repeated((2**60, 4), torch.int64), ValueError, OVERFLOW)
    second = torch.tensor(1)
    for value in (-1, 2**31, -(2**63), 2**63 - 1):
        message = re.escape(f"winners must be from 0 to 2^31 - 1, got {value}")
        winners(f"value-{value}", lambda x, v=value: x.index_fill(-1, second, v), IndexError, message, ("cpu",))
        if value not in range(2**31):
            message = re.escape(f"n must be from 0 to 2^31 - 1, got {value}")
            table.replace("n", f"{value}", lambda _, v=value: v, ValueError, message)
    for density in (-1.0, -1e-300, 1 + 2**-52, math.inf, math.nan):
        name = "nan" if math.isnan(density) else f"{density}"
        message = re.escape(f"p must be from 0 to 1, got {density:g}")
        table.replace("p", name, lambda _, v=density: v, ValueError, message)
    return tuple(table.errors)
