"""Cleanup among a million items by codes of eight bits, beside torch's products (docs/hrr.md).

`python -m bench.hrr_cleanup [--items 1000000] [--dim 1024] [--threads 1]` takes minutes and 10 GB at the default size.
"""

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from bench.markdown import table
from torch_hrr import hrr


def best_of(forms: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The least time of each, taken in turns."""
    least = [float("inf")] * len(forms)
    for _ in range(rounds):
        for i, form in enumerate(forms):
            start = perf_counter()
            form()
            least[i] = min(least[i], perf_counter() - start)
    return least


def product(query: Tensor, units: Tensor, top_k: int) -> Any:
    """Items and queries are of norm 1."""
    return (query.to(units.dtype) @ units.mT).topk(top_k)


def nearly_equal(items: int, dim: int) -> Tensor:
    """Items that no code tells apart."""
    return torch.randn(1, dim) + 1e-4 * torch.randn(items, dim)


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    units = hrr.normalize(torch.randn(given.items, given.dim))
    halves = units.bfloat16()
    memory = hrr.ItemMemory(units, quantized=True)
    lines = []
    for queries in (1, 100):
        query = hrr.normalize(torch.randn(queries, given.dim))
        for top_k in (1, 10):
            torch_forms = [partial(product, query, each, top_k) for each in (units, halves)]
            ours, *theirs = best_of([partial(memory.cleanup, query, top_k), *torch_forms], 7 if queries == 1 else 3)
            times = [f"{1e3 * seconds:.1f}" for seconds in (ours, *theirs)]
            lines.append((str(queries), str(top_k), *times, f"{min(theirs) / ours:.1f}x"))
    print(table("queries | top k | quantized, ms | float32, ms | bfloat16, ms | ratio to the faster", lines))
    del memory, units, halves
    # Fewer: beside the plain memory, which keeps its items twice.
    units = nearly_equal(given.items // 5, given.dim)
    memory, plain = (hrr.ItemMemory(units, quantized=quantized) for quantized in (True, False))
    lines = []
    for queries in (1, 100):
        query = torch.randn(queries, given.dim)
        ours, theirs_alone = best_of(
            [partial(held.cleanup, query, 10) for held in (memory, plain)], 7 if queries == 1 else 3
        )
        lines.append((str(queries), f"{1e3 * ours:.1f}", f"{1e3 * theirs_alone:.1f}", f"{ours / theirs_alone:.2f}"))
    print(table("queries among nearly equal items | quantized, ms | plain memory, ms | times as long", lines, left=1))


if __name__ == "__main__":
    main()
