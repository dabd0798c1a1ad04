"""Benchmark entries of layers that learn: every rule beside its definition in torch, and the table of sizes."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from torch_hrr._plain import hierarchy as plain
from torch_hrr.hierarchy import plastic_scan

LR = 1e-3


def layer_inputs(ticks: int, n: int, m: int, batch: int, generator: torch.Generator) -> Inputs:
    """Samples and weights; the leading size is the ticks, or the samples of a tick."""
    shape = (batch, n) if ticks == 1 else (ticks, batch, n)
    return torch.randn(shape, generator=generator), torch.randn(m, n, generator=generator) / n**0.5


def ours(rule: str, inputs: Tensor, weight: Tensor) -> Tensor:
    """The operator's outputs and weights, flat."""
    outputs, learned, _ = plastic_scan(inputs, weight, rule=rule, lr=LR)
    return torch.cat([outputs.flatten(), learned.flatten()])


def loop(rule: str, inputs: Tensor, weight: Tensor) -> Tensor:
    """The definition, a tick at a time."""
    outputs, learned, _ = plain.plastic_scan(inputs, weight, rule=rule, lr=LR)
    return torch.cat([outputs.flatten(), learned.flatten()])


def entry(rule: str, n: int, m: int, ticks: int, batch: int = 1) -> Entry:
    """A layer over some ticks; with a batch, over as many samples a tick."""
    once = batch == 1
    return Entry(
        op=f"plastic_scan {rule}",
        shape=f"{ticks}{'' if once else f'x{batch}'} {n}-{m}",
        batch=ticks if once else batch,
        inputs=partial(layer_inputs, 1 if once else ticks, n, m),
        ours=partial(ours, rule),
        peers=(Peer("loop", partial(loop, rule)),),
        traffic=4 * (ticks * batch * (n + m) + 2 * n * m),
    )


def gradients(results: Callable[..., Tensor], rule: str, inputs: Tensor, weight: Tensor) -> Tensor:
    """Forward and backward: the gradients of the samples and of the initial weights, flat."""
    leaves = (inputs.detach().requires_grad_(), weight.detach().requires_grad_())
    found = torch.autograd.grad(results(rule, *leaves).square().sum(), leaves)
    return torch.cat([gradient.flatten() for gradient in found])


def gradient_entry(rule: str, n: int, m: int, ticks: int) -> Entry:
    """The first derivative of a layer over some ticks."""
    forward = entry(rule, n, m, ticks)
    return dataclasses.replace(
        forward,
        op=f"{forward.op} backward",
        ours=partial(gradients, ours, rule),
        peers=(Peer("loop", partial(gradients, loop, rule)),),
        traffic=2 * forward.traffic,
    )


def chain_inputs(sizes: tuple[int, ...], batch: int, generator: torch.Generator) -> Inputs:
    """Steps of data and the weights of all levels."""
    pairs = itertools.pairwise(sizes)
    weights = (torch.randn(m, n, generator=generator) / n**0.5 for n, m in pairs)
    return (torch.randn(batch, sizes[0], generator=generator), *weights)


def chain_ours(data: Tensor, *weights: Tensor) -> Tensor:
    """All levels, by the operator."""
    for weight in weights:
        data, _, _ = plastic_scan(data, weight, lr=LR)
    return data


def chain_loop(data: Tensor, *weights: Tensor) -> Tensor:
    """All levels, step by step."""
    for weight in weights:
        data, _, _ = plain.plastic_scan(data, weight, lr=LR)
    return data


def chain_entry(sizes: tuple[int, ...], steps: int = 1000) -> Entry:
    """A row of the table of sizes."""
    macs = sum(n * m for n, m in itertools.pairwise(sizes))
    return Entry(
        op="hierarchy",
        shape=f"{steps} {'-'.join(map(str, sizes))}",
        batch=steps,
        inputs=partial(chain_inputs, sizes),
        ours=chain_ours,
        peers=(Peer("loop", chain_loop),),
        traffic=4 * (steps * sum(sizes) + 2 * macs),
    )


ENTRIES = (
    *(entry(rule, 200, 400, 200) for rule in ("hebb", "oja", "bcm")),
    *(entry(rule, 100, 32, 200) for rule in ("gha", "subspace")),
    *(entry(rule, 200, 400, 20, batch=32) for rule in ("hebb", "oja")),
    *(entry(rule, 784, 64, 10, batch=32) for rule in ("gha", "subspace")),
    *(gradient_entry(rule, 200, 400, 200) for rule in ("hebb", "oja", "bcm")),
    *(gradient_entry(rule, 100, 32, 200) for rule in ("gha", "subspace")),
    *(chain_entry((n, 20, 40)) for n in (10, 50, 100, 200, 500, 1000)),
)
