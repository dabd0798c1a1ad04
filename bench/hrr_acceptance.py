"""Closed forms and published figures of holographic reduced representations, measured again."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr import hrr

ITEMS = 1000
# What a float32 result may differ from an exact value without any spread.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Size:
    """How much is drawn."""

    pair_dim: int  # where one of k pairs is unbound
    pair_trials: int  # records drawn there for every k
    chain_dim: int  # of chains of binds
    chain_trials: int  # chains drawn for every length
    capacity_trials: int  # item memories drawn for every cell of the capacity tables
    codebooks: int  # sets of them that the resonator searches
    problems: int  # products factorised with each set
    language_trials: int  # splits of the word lists
    words: int  # taken of every list
    queries: int  # of each length for every language and split
    digit_splits: int


# The mean cosine of a chain of r exceeds its limit by about 2^(-r/2) (81 - 13) 2 / D at r = 3, since Fourier magnitudes
# to the fourth power have heavy tails: D is so large that this stays below half a standard error.
FULL = Size(8192, 200, 2**18, 100, 200, 10, 100, 20, 813, 100, 10)
QUICK = Size(4096, 40, 2**16, 20, 10, 2, 40, 4, 200, 40, 2)


@dataclass(frozen=True)
class Row:
    """One cell of the table."""

    experiment: str  # the section it stands in
    cell: str  # what was measured
    measured: float
    error: float  # its standard error; 0 where every single outcome must be as expected
    expected: float | None  # the closed form, the published figure or an independent computation; None without one
    expected_error: float = 0.0  # its standard error, 0 for a closed form
    note: str = ""  # where the expected value comes from, or why there is no verdict
    comparable: bool = True  # False where the published figure was measured on other data

    @property
    def within(self) -> bool | None:
        """Whether the values are within three standard errors; None without a comparable value."""
        if self.expected is None or not self.comparable:
            return None
        allowed = 3 * math.hypot(self.error, self.expected_error) + ROUNDING
        return abs(self.measured - self.expected) <= allowed


# se = sd / sqrt(n)
def mean_and_error(samples: Iterable[float], resolution: float = 0.0) -> tuple[float, float]:
    """Mean and standard error of independent samples, whose spread is taken to be no less than `resolution`."""
    values = torch.tensor(list(samples), dtype=torch.float64)
    return float(values.mean()), max(float(values.std()), resolution) / len(values) ** 0.5


# se = sqrt(q (1 - q) / n), q = (n share + 1) / (n + 2)
def share_error(share: float, count: int) -> float:
    """Standard error of a share of `count`, with Laplace's estimate, so that a share of 1 is not taken for certain."""
    estimate = (share * count + 1) / (count + 2)
    return math.sqrt(estimate * (1 - estimate) / count)


def unit(count: int, dim: int, generator: torch.Generator) -> Tensor:
    """Gaussian vectors of unit norm, [count, dim]."""
    return F.normalize(hrr.random(count, dim, generator, device="cpu"), dim=-1)


# cos(unbind(sum_j bind(key_j, value_j), key_i), value_i), mean over i
def pair_cosine(pairs: int, dim: int, unitary: bool, generator: torch.Generator) -> float:
    """Mean cosine of what comes back from a record of `pairs` with the values put in."""
    keys = hrr.random(pairs, dim, generator, True, "cpu") if unitary else unit(pairs, dim, generator)
    values = unit(pairs, dim, generator)
    found = hrr.unbind(hrr.bind_superpose(keys, values), keys)
    return float(F.cosine_similarity(found, values).mean())


def superposed_pairs(size: Size, seed: int) -> list[Row]:
    """1 / sqrt(k + 1) with Gaussian keys, 1 / sqrt(k) with unitary ones."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for unitary, kind, more, formula in ((False, "Gaussian", 1, "1/sqrt(k+1)"), (True, "unitary", 0, "1/sqrt(k)")):
        for k in (1, 2, 4, 8, 16):
            found = mean_and_error(pair_cosine(k, size.pair_dim, unitary, generator) for _ in range(size.pair_trials))
            cell = f"{kind} keys, k={k}, D={size.pair_dim}"
            rows.append(Row("unbinding one of k pairs", cell, *found, 1 / math.sqrt(k + more), note=formula))
    return rows


# cos(unbind(...unbind(bind(...bind(x, key_1)..., key_r), key_1)..., key_r), x)
def chain_cosine(length: int, dim: int, generator: torch.Generator) -> float:
    """Cosine of a vector with itself, bound to `length` keys and unbound from them."""
    keys = unit(length, dim, generator)
    vector = start = unit(1, dim, generator)[0]
    for key in keys:
        vector = hrr.bind(vector, key)
    for key in keys:
        vector = hrr.unbind(vector, key)
    return float(F.cosine_similarity(vector, start, dim=-1))


def chains(size: Size, seed: int) -> list[Row]:
    """2^(-r/2) for r binds and r unbinds."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for r in (1, 2, 3):
        found = mean_and_error(chain_cosine(r, size.chain_dim, generator) for _ in range(size.chain_trials))
        rows.append(Row("r binds, r unbinds", f"r={r}, D={size.chain_dim}", *found, 2 ** (-r / 2), note="2^(-r/2)"))
    return rows


def bundle_share(dim: int, k: int, generator: torch.Generator) -> float:
    """Share of k bundled items among the k items nearest to the bundle."""
    items = hrr.random(ITEMS, dim, generator, device="cpu")
    # All items are drawn alike, so that the first k are as good as any.
    _, found = hrr.ItemMemory(items).cleanup(hrr.superpose(items[:k]), top_k=k)
    return float((found < k).double().mean())


def pair_share(dim: int, k: int, generator: torch.Generator) -> float:
    """Share of k role and filler pairs in a bundle whose role leads to its filler among all items."""
    items = hrr.random(ITEMS, dim, generator, device="cpu")
    roles, fillers = items[:k], items[k : 2 * k]
    _, found = hrr.ItemMemory(items).cleanup(hrr.unbind(hrr.bind_superpose(roles, fillers), roles))
    return float((found.squeeze(-1) == torch.arange(k, 2 * k)).double().mean())


# (D, k, published share): Schlegel, Neubert, Protzel, A comparison of vector symbolic architectures, 2021.
BUNDLES = (
    (256, 7, 1.000), (256, 15, 0.887), (576, 15, 0.993), (576, 31, 0.935), (1024, 31, 0.994), (1024, 51, 0.963),
)  # fmt: skip
PAIRS = ((256, 15, 0.747), (576, 31, 0.845), (1024, 31, 0.990))
# The published shares are means over so many item memories; every one is a fraction of 10 k.
PUBLISHED_TRIALS = 10


def capacity(size: Size, seed: int) -> list[Row]:
    """The cells of Schlegel et al., by their protocol."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for experiment, share, cells in (("bundle capacity", bundle_share, BUNDLES), ("bound pairs", pair_share, PAIRS)):
        for dim, k, published in cells:
            found = [share(dim, k, generator) for _ in range(size.capacity_trials)]
            mean = math.fsum(found) / len(found)
            error, published_error = share_error(mean, len(found) * k), share_error(published, PUBLISHED_TRIALS * k)
            cell, note = f"D={dim}, k={k}", f"published, {PUBLISHED_TRIALS} runs"
            rows.append(Row(experiment, cell, mean, error, published, published_error, note))
    return rows


def resonator(size: Size, seed: int) -> list[Row]:
    """Three unitary codebooks of 20 vectors, D = 1024: all indices and the sign within 200 iterations."""
    generator = torch.Generator().manual_seed(seed)
    solved, iterations = [], []
    for _ in range(size.codebooks):
        books = [hrr.random(20, 1024, generator, True, "cpu") for _ in range(3)]
        chosen = torch.randint(20, (size.problems, 3), generator=generator)
        signs = torch.randint(2, (size.problems,), generator=generator) * 2.0 - 1
        factors = torch.stack([book[index] for book, index in zip(books, chosen.T, strict=True)], -2)
        result = hrr.Resonator(books).factorize(signs.unsqueeze(-1) * hrr.multibind(factors), max_iterations=200)
        right = (result.indices == chosen).all(-1) & (result.signs.prod(-1) == signs) & result.converged
        solved += right.tolist()
        iterations += result.iterations.tolist()
    setting, share = "F=3, M=20, D=1024, unitary", sum(solved) / len(solved)
    most = f"most: {max(iterations)}"
    return [
        Row("resonator", f"{setting}: solved of {len(solved)}, with sign", share, 0.0, 1.0, note="every one"),
        Row("resonator", f"{setting}: mean iterations", *mean_and_error(iterations), None, note=most),
    ]
