"""Benchmark entries of the assembly operators: what they are compared with, sizes and the ratios aimed at."""

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench import assembly_cap, assembly_connectome
from bench.entry import Entry, Inputs, Peer
from torch_hrr import assembly

np: Any = importlib.import_module("numpy") if importlib.util.find_spec("numpy") is not None else None

# (rows, n) -> k, and how many inputs take turns, at most about the L3 cache.
WINNERS_SIZES = {
    (1, 10_000): ((100, 1000), 24),
    (1, 100_000): ((100, 316, 1000), 8),
    (1, 1_000_000): ((100, 1000), 4),
    (32, 10_000): ((100, 1000), 4),
    (32, 100_000): ((100, 316, 1000), 2),
    (32, 1_000_000): ((100, 1000), 1),
}
WINNERS_FLOOR = 3.0
WINNERS_AIM = 8.0
# Other rows may take three times as long as normal ones.
SHAPED_FLOOR = 0.33
# Of the geometric mean over an operator's entries.
MEAN_AIMS = {"k_winners": WINNERS_AIM}


def normal_rows(n: int, rows: int, generator: torch.Generator) -> Inputs:
    """`rows` rows of N(0, 1)."""
    return (torch.randn(rows, n, generator=generator),)


def shaped_rows(shape: Callable[[Tensor], Tensor], n: int, rows: int, generator: torch.Generator) -> Inputs:
    """`rows` rows of another shape, and normal ones beside them."""
    (normal,) = normal_rows(n, rows, generator)
    return shape(torch.randn(rows, n, generator=generator)), normal


def winners_of_first(k: int, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Of the first of two arguments."""
    return assembly.k_winners(first, k)


def winners_of_second(k: int, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Of the second."""
    return assembly.k_winners(second, k)


def topk(k: int, inputs: Tensor) -> Any:
    """The k largest in any order."""
    return torch.topk(inputs, k, dim=-1, sorted=False)


def argpartition(k: int, inputs: Tensor) -> Any:
    """Indices of which the last k are those of the k largest."""
    return np.argpartition(inputs.numpy(), inputs.shape[-1] - k, axis=-1)


def values_in_order(result: Any, *inputs: Tensor) -> Tensor:
    """The k largest values whatever the order in which they came."""
    values: Tensor = result[0].sort(-1).values
    return values


def partitioned_in_order(k: int, result: Any, inputs: Tensor) -> Tensor:
    """The same of argpartition's indices."""
    values: Tensor = inputs.gather(-1, torch.from_numpy(result)[..., -k:]).sort(-1).values
    return values


def sizes_alone(result: Any, *inputs: Tensor) -> Tensor:
    """Of results for different arguments nothing else can be compared."""
    return torch.tensor(result[0].shape)


def winners_peers(k: int) -> tuple[Peer, ...]:
    """torch.topk and, where NumPy is installed, numpy.argpartition."""
    peers = [Peer("torch.topk", partial(topk, k), compared=values_in_order)]
    if np is not None:
        compared = partial(partitioned_in_order, k)
        peers.append(Peer("numpy.argpartition", partial(argpartition, k), compared=compared, on_host=True))
    return tuple(peers)


def winners(rows: int, n: int, k: int, sets: int) -> Entry:
    """Normal rows: reads them, writes k values and indices each."""
    return Entry(
        op="k_winners",
        shape=f"{rows}x{n} k{k}",
        batch=rows,
        inputs=partial(normal_rows, n),
        ours=partial(assembly.k_winners, k=k),
        peers=winners_peers(k),
        traffic=4 * rows * n + 12 * rows * k,
        floor=WINNERS_FLOOR,
        aim=WINNERS_AIM,
        sets=sets,
        compared=values_in_order,
    )


def shaped_winners(name: str, shape: Callable[[Tensor], Tensor], n: int, k: int, sets: int) -> Entry:
    """A row of another shape beside a normal one; the ratio is the normal row's time / its own."""
    return Entry(
        op=f"k_winners {name}",
        shape=f"1x{n} k{k}",
        batch=1,
        inputs=partial(shaped_rows, shape, n),
        ours=partial(winners_of_first, k),
        peers=(Peer("normal rows", partial(winners_of_second, k), compared=sizes_alone),),
        traffic=4 * n + 12 * k,
        floor=SHAPED_FLOOR,
        sets=sets,
        compared=sizes_alone,
    )


def ascending(x: Tensor) -> Tensor:
    """Sorted rows."""
    return x.sort(-1).values


def descending(x: Tensor) -> Tensor:
    """Sorted the other way."""
    return x.sort(-1, descending=True).values


def two_values(x: Tensor) -> Tensor:
    """Zeros and ones."""
    return (x > 0).float()


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "ascending": ascending,
    "descending": descending,
    "two-valued": two_values,
}

ENTRIES: tuple[Entry, ...] = (
    *(winners(rows, n, k, sets) for (rows, n), (ks, sets) in WINNERS_SIZES.items() for k in ks),
    *(
        shaped_winners(name, shape, n, k, sets)
        for name, shape in SHAPES.items()
        for (rows, n), (ks, sets) in WINNERS_SIZES.items()
        if rows == 1
        for k in ks
    ),
    *assembly_cap.ENTRIES,
    *assembly_connectome.ENTRIES,
)
