"""The procedural connectome as torch operations on integers, one draw of every stream at a time.

Same definition, signature and bits as ``torch_hrr.assembly.connectome_inputs``. Eager only: how many draws there are
depends on the draws.
"""

from __future__ import annotations

import functools
import itertools
import math

import torch
from torch import Tensor

from torch_hrr._plain.random import mix64, philox4x32

_CELLS = 1024
_NONE = _CELLS - 1
_FRACTION = 2**22 - 1
_EDGE_STREAM = 0x65646765
_STIMULUS_STREAM = 0x7374696D
_NEGLIGIBLE = 2.0**-80


def connectome_key(seed: int, fiber: int, brain: int = 0) -> int:
    """The Philox key of a fiber."""
    return mix64(mix64(mix64(seed % 2**64) ^ brain % 2**64) ^ fiber % 2**64)


def alias_table(sums: list[int]) -> list[int]:
    """Walker's table, threshold 2^10 + alias, of masses whose running sums end in 2^32."""
    left = [after - before for before, after in zip([0, *sums], sums, strict=False)]
    cell = 2**22
    table = list(range(_CELLS))
    poor = [v for v in range(_CELLS) if left[v] < cell]
    rich = [v for v in range(_CELLS) if left[v] >= cell]
    while poor and rich:
        taker, donor = poor.pop(), rich[-1]
        table[taker] = left[taker] * _CELLS + donor
        left[donor] -= cell - left[taker]
        if left[donor] < cell:
            poor.append(rich.pop())
    return table


def _powers(stay: float) -> list[float]:
    powers = [1.0]
    for _ in range(_CELLS):
        powers.append(powers[-1] * stay)
    return powers


def block_width(p: float) -> int:
    """The columns of a block, whose edges are one stream of draws."""
    width = 256
    while width < 2**17 and width * p < 256:
        width *= 2
    return width


@functools.lru_cache(maxsize=64)
def gap_tables(p: float) -> tuple[list[int], list[int] | None, int]:
    """The table of gaps or, below a density of 2^-8, of their quotients and remainders; the width of a block."""
    width = block_width(p)
    powers = _powers(1 - p)
    two_level = p < 2.0**-8
    gaps = _powers(powers[_CELLS]) if two_level else powers
    outcomes = [math.floor((1 - gap) * 2.0**32 + 0.5) for gap in gaps[1:_CELLS]]
    quotient = alias_table([*outcomes, 2**32])
    if not two_level or p < 2.0**-43:
        return quotient, None, width
    whole = 1 - powers[_CELLS]
    remainders = [math.floor((1 - power) / whole * 2.0**32 + 0.5) for power in powers[1:_CELLS]]
    return quotient, alias_table([*remainders, 2**32]), width


def _outcome(table: Tensor, word: Tensor) -> Tensor:
    cell = word >> 22
    entry = table[cell]
    return torch.where((word & _FRACTION) < entry >> 10, cell, entry & _NONE)


def edges(rows: Tensor, n: int, p: float, key: int) -> tuple[Tensor, Tensor]:
    """The edges from ``rows`` into columns below ``n``: which of the rows, and the column, in no particular order."""
    quotient, remainder, width = gap_tables(p)
    empty = torch.zeros(0, dtype=torch.int64, device=rows.device)
    if p < 2.0**-43 or n == 0 or rows.numel() == 0:
        return empty, empty
    blocks = -(-n // width)
    tables = [torch.tensor(table, device=rows.device) for table in (quotient, remainder) if table is not None]
    # One stream for every row and block.
    stream = torch.arange(rows.numel() * blocks, device=rows.device)
    row, block = rows.reshape(-1)[stream // blocks], stream % blocks
    end = (n - block * width).clamp_max(width)
    following = torch.zeros_like(stream)
    found: list[tuple[Tensor, Tensor]] = []
    draw = 0
    while stream.numel():
        counter = (torch.full_like(stream, draw), block, row, torch.full_like(stream, _EDGE_STREAM))
        words = philox4x32(counter, key)
        for w in range(0, 4, len(tables)):
            outcome = _outcome(tables[0], words[w])
            is_edge = outcome != _NONE
            following = following + outcome * (1 if len(tables) == 1 else _CELLS)
            column = following if len(tables) == 1 else following + _outcome(tables[1], words[w + 1])
            hit = is_edge & (column < end)
            found.append((stream[hit] // blocks, (block * width + column)[hit]))
            following = torch.where(is_edge, column + 1, following)
        running = following < end
        stream, row, block, end, following = (x[running] for x in (stream, row, block, end, following))
        draw += 1
    return torch.cat([index for index, _ in found]), torch.cat([column for _, column in found])


def connectome_inputs(winners: Tensor, n: int, p: float, seed: int, fiber: int, brain: int = 0) -> Tensor:
    """``x[..., j] = #{i in winners[..., :]: i -> j}``."""
    batch = math.prod(winners.shape[:-1])
    counts = torch.zeros(batch * n, dtype=torch.int32, device=winners.device)
    index, column = edges(winners.reshape(-1), n, p, connectome_key(seed, fiber, brain))
    if index.numel():
        place = index // winners.shape[-1] * n + column
        counts.scatter_add_(0, place, torch.ones_like(place, dtype=torch.int32))
    return counts.reshape(*winners.shape[:-1], n)


def connectome_counts_(
    counts: Tensor, rows: Tensor, first: int, sign: int, p: float, seed: int, fiber: int, brain: int = 0
) -> None:
    """``counts[j] += sign #{i in rows: i -> first + j}``."""
    _, column = edges(rows, first + len(counts), p, connectome_key(seed, fiber, brain))
    place = column[column >= first] - first
    counts.scatter_add_(0, place, torch.full_like(place, sign, dtype=torch.int32))


def _binomial_thresholds(size: int, p: float) -> tuple[int, list[int]]:
    """Binomial(size, p) as ``first + #{thresholds <= u}`` of a 64-bit word u."""
    if p <= 0 or p >= 1 or size == 0:
        return (size if p >= 1 else 0), []
    odds = p / (1 - p)
    mode = min(math.floor((size + 1.0) * p), size)

    def up(value: int) -> float:
        return (size - float(value)) / (value + 1.0) * odds

    def down(value: int) -> float:
        return value / ((size - float(value) + 1) * odds)

    first, last, term = mode, mode, 1.0
    while last < size and term > _NEGLIGIBLE:
        term, last = term * up(last), last + 1
    term = 1.0
    while first > 0 and term > _NEGLIGIBLE:
        term, first = term * down(first), first - 1
    terms = [1.0]
    for value in range(mode, first, -1):
        terms[0] *= down(value)
    for value in range(first, last):
        terms.append(terms[-1] * up(value))
    # One after the other: `sum` is more exact than the definition.
    *sums, total = itertools.accumulate(terms)
    return first, [min(int(below / total * 2.0**64), 2**64 - 1) for below in sums]


def stimulus_counts_(counts: Tensor, size: int, p: float, seed: int, fiber: int, first: int = 0) -> None:
    """Fills ``[brains, n]`` with column sums, from column `first` on, of stimuli of `size` neurons."""
    least, thresholds = _binomial_thresholds(size, p)
    columns = torch.arange(first, first + counts.shape[1], device=counts.device)
    nothing = torch.zeros_like(columns)
    # Unsigned numbers in signed ones, in the same order.
    table = torch.tensor([threshold - 2**63 for threshold in thresholds], dtype=torch.int64, device=counts.device)
    for brain, own in enumerate(counts):
        counter = (columns, nothing, nothing, torch.full_like(columns, _STIMULUS_STREAM))
        low, high, _, _ = philox4x32(counter, connectome_key(seed, fiber, brain))
        own.copy_(least + torch.searchsorted(table, (high - 2**31 << 32) + low, right=True))
