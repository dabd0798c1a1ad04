"""The case of connectome_inputs; its oracle draws one edge at a time in Python integers."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from cases.base import Arguments, ErrorInput, Hole, OpCase, Sample, TensorArgument
from cases.hrr_errors import Table, nested, quantized, sparse_csr
from torch_hrr import assembly
from torch_hrr.reference import assembly_connectome as reference

ops = torch.ops.torch_hrr


def philox(counter: list[int], key: int) -> list[int]:
    """Philox4x32-10, Salmon et al. 2011."""
    a, b, c, d = counter
    low, high = key % 2**32, key >> 32
    for _ in range(10):
        x, y = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = y >> 32 ^ b ^ low, y % 2**32, x >> 32 ^ d ^ high, x % 2**32
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return [a, b, c, d]


def pick(table: list[int], word: int) -> int:
    entry = table[word >> 22]
    return word >> 22 if word % 2**22 < entry >> 10 else entry % 1024


def edges(row: int, block: int, width: int, tables: tuple[list[int], list[int] | None], key: int) -> Iterator[int]:
    """The columns of a block that a row has edges to."""
    quotient, remainder = tables
    column, draw = -1, 0
    while column < width:
        words = philox([draw, block, row, 0x65646765], key)
        draw += 1
        while words and column < width:
            outcome = pick(quotient, words.pop(0))
            low = 0 if remainder is None else words.pop(0)
            column += outcome * (1 if remainder is None else 1024)
            if outcome < 1023:
                column += 1 + (0 if remainder is None else pick(remainder, low))
                if column < width:
                    yield column


@functools.cache
def row_of(row: int, n: int, p: float, key: int) -> Tensor:
    quotient, remainder, width = reference.gap_tables(p)
    result = torch.zeros(n, dtype=torch.int32)
    for block in range(math.ceil(n / width)) if p >= 2**-43 else ():
        start = block * width
        for column in edges(row, block, min(width, n - start), (quotient, remainder), key):
            result[start + column] += 1
    return result


def oracle(winners: Tensor, n: int, p: float, seed: int, fiber: int, brain: int = 0) -> Tensor:
    key = reference.connectome_key(seed, fiber, brain)
    rows = [row_of(int(row), n, p, key) for row in winners.reshape(-1).tolist()]
    if not rows:
        return torch.zeros(*winners.shape[:-1], n, dtype=torch.int32)
    return torch.stack(rows).reshape(*winners.shape, n).sum(-2, dtype=torch.int32)


def result_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    return ((*arguments["winners"].shape[:-1], arguments["n"]),)


def call(id: str, *shape: int, n: int = 40, p: float = 0.3, **numbers: int) -> Sample:
    options: dict[str, Any] = {"n": n, "p": p, "seed": 1, "fiber": 2, "brain": 3}
    # Some lanes multiply arguments by small numbers.
    return Sample(id, {"winners": shape}, options | numbers, (torch.int64,), below=2**28)


def errors(good: Sample) -> tuple[ErrorInput, ...]:
    """Every defect of winners [..., k] and of the numbers."""
    table = Table("connectome_inputs", (TensorArgument("winners", "k"),), good, None)

    def winners(
        defect: str,
        change: Callable[[Tensor], object],
        error: type[Exception],
        message: str,
        devices: tuple[str, ...] = ("cpu", "meta"),
    ) -> None:
        table.replace("winners", defect, change, error, message, devices)

    for dtype in (torch.int32, torch.float32, torch.float64, torch.bool, torch.complex64):
        name = f"{dtype}".removeprefix("torch.")
        winners(name, lambda x, t=dtype: x.to(t), TypeError, "winners must be int64, got")
    strided = "winners must be a strided tensor, got layout"
    winners("sparse", Tensor.to_sparse, RuntimeError, f"{strided} Sparse")
    winners("sparse-csr", sparse_csr, RuntimeError, f"{strided} SparseCsr", ("cpu",))
    winners("nested", nested, RuntimeError, f"{strided} nested", ("cpu",))
    winners("quantized", lambda x: quantized(x.float()), TypeError, "winners must be int64, got QInt8", ("cpu",))
    rank = re.escape("winners must have at least 1 dimension [..., k], got 0")
    winners("rank", lambda x: x.reshape(-1)[0], RuntimeError, rank)
    most = re.escape("winners must have a last dimension of at most 2^31 - 1, got 2147483648")
    winners("k-of-2^31", lambda _: torch.zeros(1, dtype=torch.int64).expand(1, 2**31), RuntimeError, most)
    overflow = re.escape("the result must have fewer than 2^63 bytes, got sizes")
    winners("overflow-alone", lambda _: torch.zeros(1, dtype=torch.int64).expand(2**60, 4), RuntimeError, overflow)
    for value in (-1, 2**31, -(2**63), 2**63 - 1):
        message = re.escape(f"winners must be from 0 to 2^31 - 1, got {value}")
        winners(
            f"value-{value}", lambda x, v=value: x.index_fill(-1, torch.tensor(1), v), IndexError, message, ("cpu",)
        )
        if value not in range(2**31):
            message = re.escape(f"n must be from 0 to 2^31 - 1, got {value}")
            table.replace("n", f"{value}", lambda _, v=value: v, ValueError, message)
    for density in (-1.0, -1e-300, 1 + 2**-52, math.inf, math.nan):
        name = "nan" if math.isnan(density) else f"{density}"
        message = re.escape(f"p must be from 0 to 1, got {density:g}")
        table.replace("p", name, lambda _, v=density: v, ValueError, message)
    return tuple(table.errors)


CASES = (
    OpCase(
        name="connectome_inputs",
        op=ops.connectome_inputs.default,
        arguments=(TensorArgument("winners", "k"),),
        oracle=oracle,
        reference=reference.connectome_inputs,
        result_sizes=result_sizes,
        samples=(
            *(call(f"p{p}", 2, 5, n=300, p=p) for p in (0.0, 2**-44, 1e-5, 0.003, 2**-8, 0.01, 0.5, 0.99, 1.0)),
            *(call(f"p{p}-n{n}", 3, n=n, p=p) for p, n in ((1e-5, 300_000), (0.003, 131_073), (0.01, 32_769))),
            *(call(f"k{k}", 2, k, n=777, p=0.2) for k in (0, 1, 15, 16, 17, 33)),
            *(call(f"n{n}", 3, n=n, p=0.5) for n in (0, 1, 511, 512, 513, 1025)),
            *(
                call(f"{name}{v}", 4, **{name: v})
                for name in ("seed", "fiber", "brain")
                for v in (0, -1, 2**32, -(2**63))
            ),
            call("empty", 0, 4),
            call("empty-inside", 2, 0, 4),
            call("ten-dimensions", 2, 1, 2, 1, 2, 1, 2, 1, 2, 3),
        ),
        lane_samples=(
            call("row", 6),
            call("batch", 2, 3, 5),
            call("sparse", 2, 4, n=500, p=0.002),
            call("none", 2, 0),
            call("no-targets", 2, 4, n=0),
            call("empty", 0, 4),
        ),
        sized=lambda batch, k, n: call(f"{batch}x{k}x{n}", batch, k, n=n),
        errors=errors(call("good", 3, 8)),
        wrapper=assembly.connectome_inputs,
        dtypes=(torch.int64,),
        integer_dtype=torch.int32,
        holes={
            "gradient": Hole("integers have no derivative"),
            "func": Hole("integers have no derivative"),
            "autocast": Hole("integers are never cast"),
        },
    ),
)
