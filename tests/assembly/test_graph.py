"""The procedural graph as a random graph: degrees, density, cycles, gaps, and independence of all that it is keyed by.

Seeds are fixed, so a bound of five or six standard deviations is a statement about this graph, not a gamble.
"""

import itertools

import numpy as np
import pytest
import scipy.stats
import torch

from torch_hrr.assembly import connectome_inputs


def adjacency(rows, n, p, seed=0, fiber=0, brain=0):
    """1 where the row has an edge to the column: [rows, n]."""
    return connectome_inputs(rows[:, None], n, p, seed, fiber, brain)


def first(count):
    return torch.arange(count)


@pytest.mark.parametrize(("p", "rows", "n"), [(1e-5, 4000, 300_007), (0.001, 1000, 300_007), (0.01, 1000, 100_003)])
def test_in_degrees_are_binomial(p, rows, n):
    degrees = connectome_inputs(first(rows), n, p, 1, 2).double()
    mean, variance = rows * p, rows * p * (1 - p)
    assert abs(degrees.mean() - mean) < 5 * (variance / n) ** 0.5
    # The variance of a sample variance: kurtosis 3 + (1 - 6 p (1 - p)) / variance.
    spread = ((2 + 1 / variance) / n) ** 0.5
    assert abs(degrees.var() / variance - 1) < 5 * spread
    expected = scipy.stats.binom.pmf(range(200), rows, p) * n
    classes = [s for s in range(200) if expected[s] >= 20]
    seen = np.bincount(degrees.long().numpy(), minlength=200)[classes]
    rest = n - expected[classes].sum()
    statistic = scipy.stats.chisquare([*seen, n - seen.sum()], [*expected[classes], rest])
    assert statistic.pvalue > 1e-4


@pytest.mark.parametrize("p", [1e-5, 0.001, 2**-8, 0.5, 1.0])
@pytest.mark.parametrize("n", [1000, 131_072, 400_003])
def test_the_density_is_p(p, n):
    rows = 2000 if p < 0.01 else 20
    edges = int(connectome_inputs(first(rows) + 12345, n, p, 5, 0).sum())
    assert abs(edges - rows * n * p) <= 5 * (rows * n * p * (1 - p)) ** 0.5
    assert p < 1 or edges == rows * n


def test_the_density_is_p_in_every_part_of_a_block():
    """A block of 32768 columns at this density: 64 parts of it, over 60 blocks."""
    p, width, rows = 0.01, 32768, 200
    counts = connectome_inputs(first(rows), 60 * width, p, 6, 0).view(60, 64, width // 64).sum((0, 2)).double()
    trials = rows * 60 * width // 64
    assert ((counts - trials * p).abs() < 5 * (trials * p * (1 - p)) ** 0.5).all()


def closing(edges):
    """Of the three-edge paths j <- i -> j' <- i' ... the share that is closed by the fourth edge."""
    edges = edges.float()
    common = edges @ edges.T
    common.fill_diagonal_(0)
    rectangles = (common.double() * (common.double() - 1)).sum()
    paths = (common.double() * (edges.sum(-1, dtype=torch.float64) - 1)[:, None]).sum()
    return float(rectangles / paths)


def test_a_four_cycle_closes_with_probability_p():
    p = 0.01
    rows = torch.cat([first(1000), torch.randint(2**31, (1000,), generator=torch.Generator().manual_seed(0))])
    edges = adjacency(rows, 4000, p, 7)
    assert abs(closing(edges) / p - 1) < 0.03
    assert abs(closing(edges.T) / p - 1) < 0.03


def test_the_test_of_four_cycles_finds_a_separable_hash():
    """An edge where hash(i) xor hash(j) is small: three edges all but give the fourth."""
    p = 0.01
    generator = torch.Generator().manual_seed(0)
    rows, columns = (torch.randint(2**32, (size,), generator=generator) for size in (2000, 4000))
    separable = (rows[:, None] ^ columns) < p * 2**32
    assert abs(separable.double().mean() / p - 1) < 0.05
    assert closing(separable) > 50 * p


def correlations(vectors):
    vectors = vectors.double().flatten(1)
    vectors = (vectors - vectors.mean(-1, keepdim=True)) / vectors.std(-1, keepdim=True)
    products = vectors @ vectors.T / vectors.shape[-1]
    return products.fill_diagonal_(0)


def graphs():
    """Keys that differ in one bit, by 2^32, in which argument is which: (seed, fiber, brain)."""
    one_bit = [(2**bit - 2**64 if bit == 63 else 2**bit) for bit in range(64)]
    numbers = [0, *one_bit, 3, -1, 2**32 + 1, 2**32 + 2]
    return [
        *((s, 0, 0) for s in numbers),
        *((0, f, 0) for f in numbers[1:]),
        *((0, 0, b) for b in numbers[1:]),
        *itertools.permutations((5, 6, 7)),
    ]


def test_seeds_fibers_and_brains_are_independent():
    keys = graphs()
    assert len(set(keys)) == len(keys) > 200
    rows = first(60)
    edges = torch.stack([adjacency(rows, 1500, 0.3, *key).to(torch.int8) for key in keys])
    assert correlations(edges).abs().max() < 6 / (60 * 1500) ** 0.5
    # Moved by one row, or by one column, they are as independent.
    for moved in (edges[:, 1:, :], edges[:, :, 1:]):
        still = edges[:, : moved.shape[1], : moved.shape[2]]
        pairs = torch.cat([still[:8], moved])
        assert correlations(pairs).abs().max() < 6 / still[0].numel() ** 0.5


@pytest.mark.parametrize(("p", "n"), [(0.001, 200_000), (0.01, 40_000), (0.3, 3000)])
def test_rows_are_independent(p, n):
    """Common targets of two rows are hypergeometric; consecutive rows and rows that differ in one bit among them."""
    rows = torch.cat([first(200), 2 ** torch.arange(8, 31), 2**31 - 1 - first(50)])
    edges = adjacency(rows, n, p, 8).float()
    i, j = torch.triu_indices(len(rows), len(rows), 1)
    common = (edges @ edges.T).double()[i, j]
    degrees = edges.sum(-1, dtype=torch.float64)
    mean = degrees[i] * degrees[j] / n
    deviations = (common - mean) / (mean * (1 - degrees[i] / n) * (1 - degrees[j] / n)).sqrt()
    assert abs(deviations.mean()) < 5 / len(i) ** 0.5
    assert abs(deviations.var() - 1) < 5 * ((2 + 1 / mean.mean()) / len(i)) ** 0.5
    # Counts of 0.2 on average have a long upper tail.
    assert deviations.max() < 6 + 3 / mean.mean() ** 0.5


@pytest.mark.parametrize(("p", "width"), [(0.01, 32768), (0.5, 512), (0.9, 512)])
def test_columns_are_independent_also_across_blocks(p, width):
    """Pairs of columns at distances up to 2000, beyond what one word can skip, and at those of blocks."""
    rows = 50
    edges = adjacency(first(rows), 3 * width + 2500, p, 9).float() - p
    for distance in [*range(1, 10), *range(10, 2000, 71), width - 1, width, width + 1, 2 * width]:
        products = edges[:, :-distance] * edges[:, distance:]
        assert abs(products.sum(dtype=torch.float64)) < 6 * p * (1 - p) * products.numel() ** 0.5
    # Around the first boundary alone.
    across = (edges[:, width - 20 : width].sum(-1) * edges[:, width : width + 20].sum(-1)).mean()
    assert abs(across) < 6 * 20 * p * (1 - p) / rows**0.5


def test_self_edges_exist_with_the_density():
    n, p = 10_000, 0.1
    own = sum(int(adjacency(part, n, p, 10).diagonal(int(part[0])).sum()) for part in first(n).split(500))
    assert abs(own - n * p) < 5 * (n * p * (1 - p)) ** 0.5


@pytest.mark.parametrize(
    ("p", "start"),
    [(0.002, 0), (0.003, 1000), (2**-8, 0), (2**-8, 1000), (0.01, 1000), (0.1, 0), (0.5, 1000), (0.95, 0)],
)
def test_gaps_are_geometric(p, start):
    """The first edge from a column on, from the start of a block and inside it: beyond 1023 columns too."""
    n, rows = start + 3000, 15_000
    gaps = torch.zeros(3002)
    for part in first(rows).split(3000):
        edges = adjacency(part, n, p, 11)[:, start:]
        gap = torch.where(edges.any(-1), edges.argmax(-1) + 1, 3001)
        gaps += torch.bincount(gap, minlength=3002)
    law = np.append(p * (1 - p) ** np.arange(3000), (1 - p) ** 3000) * rows
    # Classes of about a hundredth each.
    starts = np.unique(np.append(0, np.searchsorted(np.cumsum(law), rows * np.arange(0.01, 1, 0.01))))
    seen, expected = (np.add.reduceat(x, starts) for x in (gaps.double().numpy()[1:], law))
    assert expected.min() > 20
    assert scipy.stats.chisquare(seen, expected).pvalue > 1e-4
