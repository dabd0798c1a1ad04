"""Benchmark entries of connectome_inputs, against graphs whose rows a user keeps in memory.

A whole graph of 10^6 neurons at density .01 would take 40 GB, so the peers keep the rows of a pool of neurons, twice as
many as fire, and the winners are drawn from it: drawing and storing those rows, 8 bytes an edge, is not counted against
them.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.entry import Entry, Peer
from bench.peers import is_here
from torch_hrr.assembly import connectome_inputs

np: Any = importlib.import_module("numpy") if is_here("numpy") else None
sparse: Any = importlib.import_module("scipy.sparse") if is_here("scipy") else None

SIZES = ((100_000, 317, 0.01), (1_000_000, 1000, 0.01), (1_000_000, 1000, 0.001))
SEED, FIBER = 0, 1


@functools.lru_cache(maxsize=1)
def kept_rows(n: int, pool: int, p: float, device: str = "cpu") -> list[Tensor]:
    """The targets, ascending, of neurons 0 to pool - 1."""
    rows: list[Tensor] = []
    for part in torch.arange(pool, device=device).split(20):
        edges = connectome_inputs(part[:, None], n, p, SEED, FIBER)
        rows.extend(row.nonzero().squeeze(-1) for row in edges)
    return rows


@functools.lru_cache(maxsize=1)
def kept_arrays(n: int, pool: int, p: float) -> list[Any]:
    return [row.numpy() for row in kept_rows(n, pool, p)]


@functools.lru_cache(maxsize=1)
def kept_matrix(n: int, pool: int, p: float) -> Any:
    """The same as one sparse matrix."""
    rows = kept_arrays(n, pool, p)
    starts = np.cumsum([0, *map(len, rows)])
    columns = np.concatenate(rows)
    return sparse.csr_array((np.ones(len(columns), np.int32), columns, starts), (pool, n))


def torch_bincount(winners: Tensor, n: int, pool: int, p: float) -> Tensor:
    """The winners' rows joined, and their columns counted."""
    rows = kept_rows(n, pool, p, winners.device.type)
    return torch.bincount(torch.cat([rows[i] for i in winners.tolist()]), minlength=n).int()


def torch_index_add(winners: Tensor, n: int, pool: int, p: float) -> Tensor:
    """A row at a time, which keeps the columns in the cache."""
    rows = kept_rows(n, pool, p, winners.device.type)
    counts = torch.zeros(n, dtype=torch.int32, device=winners.device)
    one = torch.ones((), dtype=torch.int32, device=winners.device)
    for i in winners.tolist():
        row = rows[i]
        counts.index_add_(0, row, one.expand(row.shape))
    return counts


def numpy_add_at(winners: Tensor, n: int, pool: int, p: float) -> Tensor:
    """The same with NumPy's ufunc.at, its fastest form."""
    rows = kept_arrays(n, pool, p)
    counts = np.zeros(n, np.int32)
    for i in winners.tolist():
        np.add.at(counts, rows[i], np.int32(1))
    return torch.from_numpy(counts)


def scipy_rows(winners: Tensor, n: int, pool: int, p: float) -> Tensor:
    """The sum of a sparse matrix's rows as a product with the indicator of the winners."""
    matrix = kept_matrix(n, pool, p)
    indicator = np.zeros(pool, np.int32)
    indicator[winners.numpy()] = 1
    return torch.from_numpy(indicator @ matrix)


def entry(n: int, k: int, p: float) -> Entry:
    """Inputs of k winners out of a pool of 2 k."""

    def peer(name: str, function: Callable[[Tensor, int, int, float], Tensor], **options: Any) -> Peer:
        return Peer(name, lambda winners: function(winners, n, 2 * k, p), **options)

    peers = [peer("bincount", torch_bincount), peer("index_add", torch_index_add)]
    if np is not None:
        peers.append(peer("numpy add.at", numpy_add_at, kind="library", on_host=True))
    if sparse is not None:
        peers.append(peer("scipy csr", scipy_rows, kind="library", on_host=True))
    return Entry(
        "connectome_inputs", f"n{n:.0e} k{k} p{p:g}".replace("e+0", "e"), k,
        lambda batch, generator: (torch.randperm(2 * k, generator=generator)[:batch],),
        lambda winners: connectome_inputs(winners, n, p, SEED, FIBER), tuple(peers), 8 * k + 4 * n, sets=8,
    )  # fmt: skip


ENTRIES = tuple(entry(*size) for size in SIZES)
