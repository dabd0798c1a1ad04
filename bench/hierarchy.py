"""Benchmark entries of layers that learn: every rule beside its definition in torch, and the table of sizes."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from torch_hrr._plain import hierarchy as plain
from torch_hrr.hierarchy import plastic_scan

LR = 1e-3
Scan = Callable[..., tuple[Tensor, ...]]


def weights(sizes: tuple[int, ...], generator: torch.Generator) -> list[Tensor]:
    """From each size to the next."""
    return [torch.randn(m, n, generator=generator) / n**0.5 for n, m in itertools.pairwise(sizes)]


def layer(scan: Scan, rule: str, inputs: Tensor, weight: Tensor) -> Tensor:
    """Outputs and weights, flat."""
    outputs, learned, _ = scan(inputs, weight, rule=rule, lr=LR)
    return torch.cat([outputs.flatten(), learned.flatten()])


def gradients(scan: Scan, rule: str, inputs: Tensor, weight: Tensor) -> Tensor:
    """Forward and backward: the gradients of the samples and of the initial weights, flat."""
    leaves = (inputs.detach().requires_grad_(), weight.detach().requires_grad_())
    found = torch.autograd.grad(layer(scan, rule, *leaves).square().sum(), leaves)
    return torch.cat([gradient.flatten() for gradient in found])


def chain(scan: Scan, data: Tensor, *weights: Tensor) -> Tensor:
    """All levels, one after the other."""
    for weight in weights:
        data = scan(data, weight, lr=LR)[0]
    return data


def beside_the_loop(function: Callable[..., Tensor], *arguments: Any) -> dict[str, Any]:
    """The operator, and its definition a tick at a time."""
    return {
        "ours": partial(function, plastic_scan, *arguments),
        "peers": (Peer("loop", partial(function, plain.plastic_scan, *arguments)),),
    }


def entry(rule: str, n: int, m: int, ticks: int, batch: int = 1) -> Entry:
    """A layer over some ticks; with a batch, over as many samples a tick."""

    def inputs(leading: int, generator: torch.Generator) -> Inputs:
        shape = (leading, n) if batch == 1 else (ticks, leading, n)
        return torch.randn(shape, generator=generator), *weights((n, m), generator)

    return Entry(
        op=f"plastic_scan {rule}",
        shape=f"{ticks}{'' if batch == 1 else f'x{batch}'} {n}-{m}",
        batch=ticks if batch == 1 else batch,
        inputs=inputs,
        **beside_the_loop(layer, rule),
        traffic=4 * (ticks * batch * (n + m) + 2 * n * m),
    )


def gradient_entry(rule: str, n: int, m: int, ticks: int) -> Entry:
    """The first derivative of a layer over some ticks."""
    forward = entry(rule, n, m, ticks)
    changed = {"op": f"{forward.op} backward", "traffic": 2 * forward.traffic, **beside_the_loop(gradients, rule)}
    return dataclasses.replace(forward, **changed)


def chain_entry(sizes: tuple[int, ...], steps: int = 1000) -> Entry:
    """A row of the table of sizes."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        return torch.randn(batch, sizes[0], generator=generator), *weights(sizes, generator)

    macs = sum(n * m for n, m in itertools.pairwise(sizes))
    return Entry(
        op="hierarchy",
        shape=f"{steps} {'-'.join(map(str, sizes))}",
        batch=steps,
        inputs=inputs,
        **beside_the_loop(chain),
        traffic=4 * (steps * sum(sizes) + 2 * macs),
    )


ENTRIES = (
    *(entry(rule, 200, 400, 200) for rule in ("hebb", "oja", "bcm")),
    *(entry(rule, 100, 32, 200) for rule in ("gha", "subspace", "softhebb")),
    entry("softhebb", 20, 3, 900),
    *(entry(rule, 200, 400, 20, batch=32) for rule in ("hebb", "oja", "softhebb")),
    *(entry(rule, 784, 64, 10, batch=32) for rule in ("gha", "subspace")),
    *(gradient_entry(rule, 200, 400, 200) for rule in ("hebb", "oja", "bcm")),
    *(gradient_entry(rule, 100, 32, 200) for rule in ("gha", "subspace", "softhebb")),
    *(chain_entry((n, 20, 40)) for n in (10, 50, 100, 200, 500, 1000)),
)
