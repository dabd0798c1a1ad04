"""The draws of the sampled mode against their distributions."""

import numpy as np
import pytest
import torch
from scipy.stats import binom, norm

from torch_hrr._random import seeded_generator
from torch_hrr.assembly._sampling import (
    bernoulli_cells,
    binomial_tail_quantile,
    distinct_draws,
    top_inputs,
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_all_bits_of_a_seed_count():
    seeds = [0, 1, 5, 1 << 32, 5 << 32, 1 + (5 << 32), 5 + (1 << 32), 1 << 63, 2**64 - 1]
    first = [torch.rand(700, generator=seeded_generator(seed, torch.device("cpu"))) for seed in seeds]
    for i, numbers in enumerate(first):
        assert abs(numbers.mean() - 0.5) < 0.06 and 0.07 < numbers.var() < 0.1
        assert all(abs(torch.corrcoef(torch.stack([numbers, other]))[0, 1]) < 0.2 for other in first[:i])
    assert torch.equal(first[1], torch.rand(700, generator=generator(1)))
    assert torch.equal(first[-1], torch.rand(700, generator=seeded_generator(-1, torch.device("cpu"))))


@pytest.mark.parametrize("p", [1e-4, 0.01, 0.3, 0.95])
def test_bernoulli_cells(p):
    cells, repeats = 2000, 2000
    draws = generator()
    hits = np.zeros(cells)
    counts = []
    for _ in range(repeats):
        drawn = bernoulli_cells(cells, p, draws).numpy()
        assert (np.diff(drawn) > 0).all() and (not drawn.size or (drawn[0] >= 0 and drawn[-1] < cells))
        hits[drawn] += 1
        counts.append(drawn.size)
    variance = p * (1 - p)
    assert abs(np.mean(counts) - cells * p) < 5 * (cells * variance / repeats) ** 0.5
    assert 0.8 < np.var(counts) / (cells * variance) < 1.2
    for part in (hits[:100], hits[-100:]):
        assert abs(part.mean() - repeats * p) < 5 * (repeats * variance / 100) ** 0.5


def test_bernoulli_cells_at_the_ends():
    assert bernoulli_cells(7, 1.0, generator()).tolist() == list(range(7))
    assert bernoulli_cells(7, 0.0, generator()).numel() == bernoulli_cells(0, 0.5, generator()).numel() == 0
    drawn = bernoulli_cells(10**12, 1e-9, generator())
    assert 800 < drawn.numel() < 1200 and drawn[-1] < 10**12


@pytest.mark.parametrize("trials", [1, 2, 50, 1000, 6324, 100_000])
@pytest.mark.parametrize("p", [1e-5, 0.001, 0.01, 0.1, 0.5, 0.99])
def test_the_quantile_of_a_tail(trials, p):
    for tail in (1.1e-8, 1.3e-5, 1.7e-3, 0.00317, 0.11, 0.47, 0.97):
        assert binomial_tail_quantile(trials, p, tail) == binom.isf(tail, trials, p), tail


def test_top_inputs_are_biased_as_published():
    for n, k, trials, p, published in ((10**6, 1000, 1000, 0.001, 5.11), (10**5, 100, 500, 0.002, 5.11)):
        drawn = top_inputs(200_000, trials, p, k / n, generator())
        assert drawn.dtype == torch.int64 and drawn.min() == binom.isf(k / n, trials, p)
        assert abs(drawn.double().mean() - published) < 0.01
    # The mean of a normal above alpha is mu + sigma phi(z) / (1 - Phi(z)).
    drawn = top_inputs(200_000, 10_000, 0.5, 0.01, generator())
    z = (binom.isf(0.01, 10_000, 0.5) - 5000) / 50
    expected = 5000 + 50 * norm.pdf(z) / norm.sf(z)
    assert abs(drawn.double().mean() - expected) < 0.3


def test_top_inputs_at_the_ends():
    assert top_inputs(3, 7, 1.0, 0.1, generator()).tolist() == [7, 7, 7]
    assert (
        top_inputs(3, 7, 0.0, 0.1, generator()).tolist() == top_inputs(3, 0, 0.5, 0.1, generator()).tolist() == [0] * 3
    )
    whole = top_inputs(100_000, 100, 0.5, 1.0, generator()).double()
    assert abs(whole.mean() - 50) < 0.1 and abs(whole.std() - 5) < 0.1, "nothing is cut off"
    assert top_inputs(0, 7, 0.5, 0.1, generator()).numel() == 0


@pytest.mark.parametrize("count", [0, 1, 5, 30, 100])
def test_distinct_draws(count):
    total, repeats = 100, 6000
    counts = torch.full((repeats,), count)
    counts[::3] = count // 2
    rows, drawn = distinct_draws(counts, total, generator())
    assert torch.equal(torch.bincount(rows, minlength=repeats), counts)
    assert torch.unique(rows * total + drawn).numel() == rows.numel(), "no number twice in a row"
    assert not drawn.numel() or (drawn.min() >= 0 and drawn.max() < total)
    hits = torch.bincount(drawn, minlength=total).double()
    expected = counts.sum() / total
    assert (hits - expected).abs().max() <= 5 * expected**0.5
    # Among the first 30: hypergeometric, whose variance is a binomial's less the part for drawing without replacement.
    group = torch.bincount(rows[drawn < 30], minlength=repeats)[1::3].double()
    variance = count * 0.3 * 0.7 * (total - count) / (total - 1)
    assert abs(group.mean() - 0.3 * count) <= 5 * (variance / group.numel()) ** 0.5
    assert abs(group.var() - variance) <= 0.12 * variance
