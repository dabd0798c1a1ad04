"""Random draws of the sampled mode: sparse Bernoulli matrices, the upper tail of binomial inputs, and their split."""

from __future__ import annotations

import math

import torch
from torch import Tensor

# Cells of the dense fallback of `distinct_draws` that are made at once.
_DENSE_CELLS = 1 << 22


def bernoulli_cells(cells: int, p: float, generator: torch.Generator) -> Tensor:
    """The successes of `cells` trials of probability p, int64 ascending, by geometric gaps; cost grows with cells * p.

    A gap is the floor of an exponential of rate -log(1 - p), plus 1.
    """
    device = generator.device
    if cells == 0 or p == 0:
        return torch.empty(0, dtype=torch.int64, device=device)
    if p == 1:
        return torch.arange(cells, device=device)
    parts, reached = [], -1
    while reached < cells - 1:
        mean = (cells - 1 - reached) * p
        gaps = torch.empty(int(mean + 4 * math.sqrt(mean)) + 16, dtype=torch.float64, device=device)
        gaps.exponential_(generator=generator).div_(-math.log1p(-p)).floor_().add_(1).clamp_(max=cells + 1.0)
        positions = gaps.long().cumsum_(0).add_(reached)
        parts.append(positions)
        reached = int(positions[-1])
    positions = torch.cat(parts)
    return positions[: int(torch.searchsorted(positions, cells))]


def binomial_tail_quantile(trials: int, p: float, tail: float) -> int:
    """The least x with P(Binomial(trials, p) > x) <= tail; 0 < p < 1, 0 < tail < 1."""
    mean, deviation = trials * p, math.sqrt(trials * p * (1 - p))
    x = min(trials, math.ceil(mean + 10 * deviation) + 12)
    log_mass = math.lgamma(trials + 1) - math.lgamma(x + 1) - math.lgamma(trials - x + 1)
    mass = math.exp(log_mass + x * math.log(p) + (trials - x) * math.log1p(-p))
    above = 0.0  # P(> x); what lies beyond ten deviations is below any tail in use
    while x > 0 and above + mass <= tail:
        above += mass
        mass *= x * (1 - p) / ((trials - x + 1) * p)
        x -= 1
    return x


def top_inputs(candidates: int, trials: int, p: float, tail: float, generator: torch.Generator) -> Tensor:
    """The inputs, int64 [candidates], of the neurons in the upper `tail` of Binomial(trials, p), as published.

    round(mu + sigma z), z a standard normal truncated to [(alpha - mu) / sigma, (trials - mu) / sigma], alpha the
    binomial quantile at 1 - tail. A tail of 1 or more truncates to [0, trials].
    """
    mean, deviation = trials * p, math.sqrt(trials * p * (1 - p))
    uniform = torch.rand(candidates, dtype=torch.float64, generator=generator, device=generator.device)
    if deviation == 0:
        return torch.full_like(uniform, round(mean), dtype=torch.int64)
    alpha = binomial_tail_quantile(trials, p, tail) if tail < 1 else 0
    # In terms of the upper tail, which keeps its digits where the lower one is 1.
    most, least = (0.5 * math.erfc((x - mean) / (deviation * math.sqrt(2))) for x in (alpha, trials))
    z: Tensor = torch.special.ndtri(uniform.mul_(most - least).add_(least)).neg_()
    return z.mul_(deviation).add_(mean).round_().clamp_(alpha, trials).long()


def distinct_draws(counts: Tensor, total: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """For each row r, counts[r] distinct integers below `total`, every set equally likely.

    Returns rows and integers, int64, in no order of use. Cut at the borders of groups of sizes that add up to
    `total`, a row's numbers in each group are multivariate hypergeometric.
    """
    rows = torch.arange(counts.numel(), device=counts.device)
    if total == 0:
        return rows[:0], rows[:0]
    if counts.numel() and 4 * int(counts.max()) > total:
        return _distinct_draws_dense(counts, total, generator)
    first = torch.randint(total, (int(counts.sum()),), generator=generator, device=counts.device)
    keys = torch.unique(rows.repeat_interleave(counts) * total + first)
    again = keys[:0]
    missing = counts - torch.bincount(keys // total, minlength=counts.numel())
    # What repeats an earlier draw of its row is drawn again, which is drawing until there are enough.
    while (draws := int(missing.sum())) > 0:
        drawn = torch.randint(total, (draws,), generator=generator, device=counts.device)
        drawn += rows.repeat_interleave(missing) * total
        place = torch.searchsorted(keys, drawn).clamp_(max=keys.numel() - 1)
        fresh = torch.unique(torch.cat([again, drawn[keys[place] != drawn]]))
        missing = missing - torch.bincount(fresh // total, minlength=counts.numel())
        missing += torch.bincount(again // total, minlength=counts.numel())
        again = fresh
    keys = torch.cat([keys, again])
    return keys // total, keys % total


def _distinct_draws_dense(counts: Tensor, total: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The places of the counts[r] smallest of `total` random numbers."""
    parts = []
    step = max(1, _DENSE_CELLS // total)
    for begin in range(0, counts.numel(), step):
        block = counts[begin : begin + step]
        numbers = torch.rand(block.numel(), total, dtype=torch.float64, generator=generator, device=counts.device)
        ranks = numbers.argsort(1).argsort(1)
        parts.append((ranks < block.unsqueeze(1)).nonzero() + torch.tensor([begin, 0], device=counts.device))
    rows, drawn = torch.cat(parts).unbind(1)
    return rows, drawn


def require(tensor: Tensor, dtype: torch.dtype, known: int | None = None) -> None:
    """ValueError unless it has this type, one dimension and, where so many neurons are known, their numbers."""
    if tensor.dtype != dtype or tensor.dim() != 1:
        raise ValueError("tensors of other types")
    if known is not None and bool(((tensor < 0) | (tensor >= known)).any()):
        raise ValueError("numbers of neurons that are not known")
