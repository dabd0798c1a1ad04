"""The case of connectome_inputs; its oracle draws one edge at a time in Python integers."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from cases.assembly_errors import connectome_errors
from cases.base import Arguments, Hole, OpCase, Sample, TensorArgument
from torch_hrr import assembly
from torch_hrr._plain import assembly_connectome as plain

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
    quotient, remainder, width = plain.gap_tables(p)
    result = torch.zeros(n, dtype=torch.int32)
    for block in range(math.ceil(n / width)) if p >= 2**-43 else ():
        start = block * width
        for column in edges(row, block, min(width, n - start), (quotient, remainder), key):
            result[start + column] += 1
    return result


def oracle(winners: Tensor, n: int, p: float, seed: int, fiber: int, brain: int = 0) -> Tensor:
    key = plain.connectome_key(seed, fiber, brain)
    rows = [row_of(int(row), n, p, key) for row in winners.reshape(-1).tolist()]
    if not rows:
        return torch.zeros(*winners.shape[:-1], n, dtype=torch.int32)
    return torch.stack(rows).reshape(*winners.shape, n).sum(-2, dtype=torch.int32)


def result_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    return ((*arguments["winners"].shape[:-1], arguments["n"]),)


def call(id: str, *shape: int, n: int = 40, p: float = 0.3, **numbers: int) -> Sample:
    options: dict[str, Any] = {"n": n, "p": p, "seed": 1, "fiber": 2, "brain": 3}
    # Some lanes multiply arguments by small numbers.
    return Sample(id, {"winners": shape}, options | numbers, (torch.int64,), integers={"winners": 2**28})


CASES = (
    OpCase(
        name="connectome_inputs",
        op=ops.connectome_inputs.default,
        arguments=(TensorArgument("winners", "k"),),
        oracle=oracle,
        plain=plain.connectome_inputs,
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
        errors=connectome_errors(call("good", 3, 8)),
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
