"""Malformed calls of the assembly operators: what each must refuse, and in which words."""

from __future__ import annotations

import re
from collections.abc import Callable

import torch
from torch import Tensor

from cases.base import ErrorInput, Sample, TensorArgument
from cases.hrr_errors import Table, nested, quantized, repeated, sparse_csr

ELEMENTS = "float32, float64, float16, bfloat16, int32 or int64"


def winners_errors(good: Sample) -> tuple[ErrorInput, ...]:
    """Every defect of inputs [..., n] and k."""
    table = Table("k_winners", (TensorArgument("inputs", "n"),), good, None)

    def inputs(
        defect: str,
        change: Callable[[Tensor], object],
        error: type[Exception],
        message: str,
        devices: tuple[str, ...] = ("cpu", "meta"),
    ) -> None:
        table.replace("inputs", defect, change, error, message, devices)

    for dtype, word in ((torch.bool, "Bool"), (torch.complex64, "ComplexFloat"), (torch.int16, "Short")):
        name = f"{dtype}".removeprefix("torch.")
        inputs(name, lambda x, t=dtype: x.to(t), TypeError, f"inputs must be {ELEMENTS}, got {word}")
    strided = "inputs must be a strided tensor, got layout"
    inputs("sparse", Tensor.to_sparse, RuntimeError, f"{strided} Sparse")
    inputs("sparse-csr", sparse_csr, RuntimeError, f"{strided} SparseCsr", ("cpu",))
    inputs("mkldnn", lambda x: x.to_mkldnn(), RuntimeError, f"{strided} Mkldnn", ("cpu",))
    inputs("nested", nested, RuntimeError, f"{strided} nested", ("cpu",))
    inputs("quantized", quantized, TypeError, "inputs must not be quantized, got QInt8", ("cpu",))
    rank = re.escape("inputs must have at least 1 dimension [..., n], got 0")
    inputs("rank", lambda x: x.reshape(-1)[0], RuntimeError, rank)
    below = re.escape(f"inputs must have a last dimension below 2^31, got {2**31}")
    inputs("n-of-2^31", lambda _: repeated((1, 2**31)), ValueError, below)
    overflow = re.escape("the result must have fewer than 2^63 bytes, got sizes")
    inputs("overflow-alone", lambda _: repeated((2**60, 4)), RuntimeError, overflow)
    requirement = "k must be from 0 to the last dimension of inputs, got k = "
    for k in (-1, 9, 2**62, -(2**63)):
        message = re.escape(f"{requirement}{k} and inputs of [3, 8]")
        table.replace("k", str(k), lambda _, k=k: k, ValueError, message)
    return tuple(table.errors)
