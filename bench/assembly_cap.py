"""Benchmark entries of k_cap: the mask, the soft winners, and a training step through either."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from torch_hrr._plain import assembly as plain
from torch_hrr.assembly import k_cap

SIZES = ((64, 1000, 50), (32, 10_000, 100))


def topk_mask(k: int, inputs: Tensor) -> Tensor:
    """The usual form: ones at the indices of the k largest."""
    return torch.zeros_like(inputs).scatter_(-1, torch.topk(inputs, k, dim=-1, sorted=False).indices, 1.0)


def rows(n: int, batch: int, generator: torch.Generator) -> Inputs:
    return (torch.randn(batch, n, generator=generator),)


def leaf_and_gradient(n: int, batch: int, generator: torch.Generator) -> Inputs:
    inputs, gradient = (torch.randn(batch, n, generator=generator) for _ in range(2))
    return inputs.requires_grad_(), gradient


def step(forward: Callable[[Tensor], Tensor], inputs: Tensor, gradient: Tensor) -> Any:
    return torch.autograd.grad(forward(inputs), inputs, gradient)[0]


def mask(batch: int, n: int, k: int) -> Entry:
    """Reads the rows, writes the mask."""
    peer = Peer("topk and scatter", partial(topk_mask, k))
    return Entry(
        "k_cap", f"{batch}x{n} k{k}", batch, partial(rows, n), partial(k_cap, k=k), (peer,), 8 * batch * n, sets=4
    )


def differentiated(batch: int, n: int, k: int, soft: bool) -> Entry:
    """Forward and backward: reads rows and gradient, writes result and gradient."""
    composition = partial(step, partial(plain.k_cap, k=k, soft=soft))
    return Entry(
        f"k_cap {'soft ' if soft else ''}backward", f"{batch}x{n} k{k}", batch, partial(leaf_and_gradient, n),
        partial(step, partial(k_cap, k=k, soft=soft)),
        (Peer("composition", composition), Peer("compiled composition", composition, kind="compile")), 16 * batch * n,
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    *(mask(*size) for size in SIZES),
    *(differentiated(*size, soft) for soft in (False, True) for size in SIZES),
)
