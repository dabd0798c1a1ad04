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


def topk(k: int, inputs: Tensor) -> Any:
    """The k largest in any order."""
    return torch.topk(inputs, k, dim=-1, sorted=False)


def values_in_order(result: Any, *inputs: Tensor) -> Any:
    """The k largest values whatever the order in which they came."""
    return result[0].sort(-1).values


def partitioned_in_order(k: int, result: Any, inputs: Tensor) -> Tensor:
    """The same of argpartition's indices, of which the last k are those of the k largest."""
    return inputs.gather(-1, torch.from_numpy(result)[..., -k:]).sort(-1).values


def winners(rows: int, n: int, k: int, sets: int) -> Entry:
    """Normal rows beside torch.topk and, where NumPy is installed, its argpartition: k values and indices a row."""
    peers = [Peer("torch.topk", partial(topk, k), compared=values_in_order)]
    if np is not None:
        partition, compared = lambda x: np.argpartition(x.numpy(), n - k, axis=-1), partial(partitioned_in_order, k)
        peers.append(Peer("numpy.argpartition", partition, compared=compared, on_host=True))
    return Entry(
        "k_winners", f"{rows}x{n} k{k}", rows, partial(normal_rows, n), partial(assembly.k_winners, k=k),
        tuple(peers), 4 * rows * n + 12 * rows * k, WINNERS_FLOOR, WINNERS_AIM, sets=sets, compared=values_in_order,
    )  # fmt: skip


def shaped_winners(name: str, shape: Callable[[Tensor], Tensor], n: int, k: int, sets: int) -> Entry:
    """A row of another shape beside a normal one; the ratio is the normal row's time / its own."""

    def inputs(rows: int, generator: torch.Generator) -> Inputs:
        (normal,) = normal_rows(n, rows, generator)
        return shape(torch.randn(rows, n, generator=generator)), normal

    def sizes_alone(result: Any, *inputs: Tensor) -> Tensor:
        """Of results for different arguments nothing else can be compared."""
        return torch.tensor(result[0].shape)

    return Entry(
        f"k_winners {name}", f"1x{n} k{k}", 1, inputs, lambda shaped, normal: assembly.k_winners(shaped, k),
        (Peer("normal rows", lambda shaped, normal: assembly.k_winners(normal, k), compared=sizes_alone),),
        4 * n + 12 * k, SHAPED_FLOOR, sets=sets, compared=sizes_alone,
    )  # fmt: skip


SHAPES: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "ascending": lambda x: x.sort(-1).values,
    "descending": lambda x: x.sort(-1, descending=True).values,
    "two-valued": lambda x: (x > 0).float(),
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
