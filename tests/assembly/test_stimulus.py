"""The column sums of stimuli: Binomial(size, p) by an integer table, the same bits everywhere."""

import numpy as np
import pytest
import torch
from scipy import stats

import torch_hrr  # noqa: F401 - registers the operators

COUNT = torch.ops.torch_hrr._stimulus_counts_


def counts(n=50_000, size=317, p=0.01, seed=0, fiber=1, brains=1):
    result = torch.full((brains, n), -1, dtype=torch.int32)
    COUNT(result, size, p, seed, fiber)
    return result


@pytest.mark.parametrize(("size", "p"), [(1, 0.5), (20, 0.1), (317, 0.01), (317, 0.99), (100_000, 0.3), (10**9, 1e-7)])
def test_counts_follow_the_binomial_law(size, p):
    drawn = counts(size=size, p=p).numpy().ravel()
    law = stats.binom(size, p)
    edges = np.unique(law.ppf(np.linspace(0, 1, 21)[1:-1]))
    observed = np.diff([0, *(np.count_nonzero(drawn <= edge) for edge in edges), drawn.size])
    expected = np.diff([0, *law.cdf(edges), 1]) * drawn.size
    kept = expected > 5
    assert stats.chisquare(observed[kept], expected[kept] * observed[kept].sum() / expected[kept].sum()).pvalue > 1e-4
    assert abs(drawn.mean() - law.mean()) < 5 * law.std() / drawn.size**0.5


@pytest.mark.parametrize(("size", "p", "value"), [(0, 0.5, 0), (7, 0.0, 0), (7, 1.0, 7)])
def test_certain_counts(size, p, value):
    assert torch.equal(counts(100, size, p), torch.full((1, 100), value, dtype=torch.int32))


def test_seeds_fibers_and_brains_draw_apart_and_a_brain_is_itself_in_every_batch():
    base = counts(brains=3)
    for other in (counts(seed=1), counts(seed=1 << 32), counts(fiber=2), base[1:2], base[2:3]):
        assert abs(np.corrcoef(base[0].numpy(), other[0].numpy())[0, 1]) < 5 / 50_000**0.5
    assert torch.equal(counts(brains=1), base[:1])


def test_golden_counts():
    """Frozen: a saved brain draws its stimuli again."""
    assert counts(12, 317, 0.01)[0].tolist() == GOLDEN


def test_threads_and_lengths_do_not_matter():
    expected = counts(100_000)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        assert torch.equal(counts(100_000), expected)
    assert torch.equal(counts(1000), expected[:, :1000])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"p": 1.5}, ValueError, r"_stimulus_counts_: p must be in \[0, 1\], got 1.5"),
        ({"p": float("nan")}, ValueError, "_stimulus_counts_: p must be in"),
        ({"size": -1}, ValueError, "_stimulus_counts_: size must be in"),
        ({"size": 2**31}, ValueError, "_stimulus_counts_: size must be in"),
    ],
)
def test_bad_numbers_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        counts(**arguments)


def test_other_tensors_are_refused():
    for wrong in (torch.zeros(1, 5), torch.zeros(5, dtype=torch.int32), torch.zeros(5, 2, dtype=torch.int32).T):
        with pytest.raises(RuntimeError, match="counts must be a contiguous int32 tensor"):
            COUNT(wrong, 3, 0.5, 0, 0)


GOLDEN = [2, 3, 4, 3, 3, 1, 2, 1, 1, 5, 3, 6]
