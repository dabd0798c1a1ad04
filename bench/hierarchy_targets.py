"""Targets of the hierarchy: the seed's example and its smallest beside torch, and plain operations of 1000 x 1000."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.agreement import check_agreement
from bench.hierarchy import LR, chain, weights
from bench.targets import Measured, Session, Target, beside, compiled
from bench.timing import Candidate, ratio
from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, HierarchyManager, ReactiveLayer, SoftHebb, plastic_scan

HEADING = (
    "Baseline: the same steps in torch, one after another; without learning, the matrix products and tanh of all\n"
    "ticks with their results held as the outputs are."
)
SIZES = (100, 200, 400, 800)
SMALL = (10, 20, 40)


def example(device: str) -> HierarchyManager:
    """The seed's: a level that reacts and two that learn, at every first, second and fourth step."""
    manager = HierarchyManager()
    for i, resolution in enumerate((1, 2, 4)):
        level = HierarchicalLevel(i, SIZES[i], SIZES[i + 1], resolution)
        kind = ReactiveLayer if i == 0 else HebbianCore
        level.add_layer(kind(SIZES[i], SIZES[i + 1], seed=0, device=device))
        manager.add_level(level)
    return manager


def learning_step(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """One tick of Oja's rule."""
    y = torch.tanh(weight @ x)
    return y, weight + LR * (torch.outer(y, x) - y.square().unsqueeze(1) * weight)


def in_torch(step: Callable[..., Any], manager: HierarchyManager, data: Tensor) -> Tensor:
    """The example as a loop over steps; each level ticks when its time has come."""
    reactive = manager.levels[0].layers[0]
    weights = [level.layers[0].weight for level in manager.levels]
    held = [level.held for level in manager.levels]
    results = []
    for i, x in enumerate(data):
        held[0] = torch.tanh(torch.addmv(reactive.bias, weights[0], x))
        for number, resolution in ((1, 2), (2, 4)):
            if i % resolution == 0:
                held[number], weights[number] = step(held[number - 1], weights[number])
        results.append(held[2])
    return torch.stack(results)


def products(manager: HierarchyManager, data: Tensor) -> list[Tensor]:
    """What cannot be saved without learning: a matrix product and a tanh a level, over its ticks."""
    results = []
    for i, level in enumerate(manager.levels):
        data = torch.tanh(data[:: 2 if i else 1] @ level.layers[0].weight.T)
        results.append(data)
    return results


def held_products(manager: HierarchyManager, data: Tensor) -> list[Tensor]:
    """Of every level the output at every step."""
    return [result.repeat_interleave(2**i, 0)[: len(data)] for i, result in enumerate(products(manager, data))]


def prepared(session: Session, steps: int, learn: bool = True) -> tuple[HierarchyManager, Tensor, Callable[[], Tensor]]:
    """The example, data for so many steps, and a call that takes them from step 0."""
    device = session.settings.device
    manager = example(str(device))
    data = torch.randn(steps, SIZES[0], generator=torch.Generator().manual_seed(session.settings.seed)).to(device)

    def run() -> Tensor:
        manager.reset_state()
        return manager.process_hierarchy(data, learn=learn)[2]

    return manager, data, run


def step_of(session: Session, peer: str) -> tuple[str, Callable[..., Any]]:
    """The peer that runs and its tick: eager torch, which is no baseline, where nothing is to be compiled."""
    if peer == "compile" and session.settings.compile:
        return peer, compiled(learning_step)
    return "eager", learning_step


def learning(session: Session, *, steps: int, peer: str) -> Measured:
    """The example's steps."""
    manager, data, run = prepared(session, steps)
    form, step = step_of(session, peer)
    found = session.times({"ours": run, form: partial(in_torch, step, manager, data)})
    return beside(found, peer, rate(steps, found["ours"]))


def rate(steps: int, own: Candidate) -> str:
    """How many steps a second, in words."""
    return f"{steps / own.median:.0f} steps/s"


def small(session: Session, *, peer: str) -> Measured:
    """1,000 steps of 10 -> 20 -> 40, both of which learn at every step."""
    device = session.settings.device
    generator = torch.Generator().manual_seed(session.settings.seed)
    data = torch.randn(1000, SMALL[0], generator=generator).to(device)
    initial = [weight.to(device) for weight in weights(SMALL, generator)]
    form, step = step_of(session, peer)

    def loop(steps: int = len(data)) -> Tensor:
        own = list(initial)
        results = []
        for x in data[:steps]:
            for i in range(len(own)):
                x, own[i] = step(x, own[i])
            results.append(x)
        return torch.stack(results)

    ours = partial(chain, plastic_scan, data, *initial)
    check_agreement(form, (loop(100).cpu(),), (ours()[:100].cpu(),))
    found = session.times({"ours": ours, form: loop})
    return beside(found, peer, rate(len(data), found["ours"]))


def competing(session: Session) -> Measured:
    """900 ticks of SoftHebb, 20 -> 3, beside the loop that the layer was."""
    device, generator = str(session.settings.device), torch.Generator().manual_seed(session.settings.seed)
    data = 1 + torch.randn(900, 20, generator=generator).to(device)
    layer = SoftHebb(20, 3, lr=0.05, temperature=0.5, seed=0, device=device)
    first = layer.weight.clone()

    def loop() -> Tensor:
        count = torch.arange(1, 1 + len(data), device=device).unsqueeze(1)
        weight, results = first, []
        for tick in data - (data.double().cumsum(0) / count).float():
            x = tick.unsqueeze(0)
            u = x @ weight.mT
            y = torch.softmax(u / layer.temperature, -1)
            weight = weight + layer.lr * (y.mT @ x - (y * u).sum(0).unsqueeze(-1) * weight) / len(x)
            results.append(y[0])
        return torch.stack(results)

    ours = partial(layer.process, data, learn=True)
    check_agreement("loop", (loop().cpu(),), (ours().cpu(),))
    found = session.times({"ours": ours, "loop": loop})
    return beside(found, "loop", rate(len(data), found["ours"]))


def raw(
    session: Session, *, operation: Callable[[Tensor, Tensor], Tensor], size: tuple[int, ...], flops: float
) -> Measured:
    """What torch makes of a plain operation: a measure of the machine."""
    generator = torch.Generator().manual_seed(session.settings.seed)
    a, b = (torch.randn(size, generator=generator).to(session.settings.device) for _ in range(2))
    own = session.times({"torch": lambda: operation(a, b)})["torch"]
    return Measured(own.median, note=f"torch's own, {flops / own.median / 1e9:.3g} GFLOP/s", candidates=(own,))


def whole(session: Session) -> Measured:
    """All 10,000 steps."""
    found = session.times({"ours": prepared(session, 10000)[2]})
    return beside(found, None, rate(10000, found["ours"]))


def still(session: Session) -> Measured:
    """The example without learning."""
    manager, data, run = prepared(session, 10000, learn=False)
    held = partial(held_products, manager, data)
    check_agreement("held", (held()[2].cpu(),), (run().cpu(),))
    found = session.times({"ours": run, "held": held, "products": partial(products, manager, data)})
    return beside(found, "held", f"{ratio(found['ours'], found['products'])[0]:.3g} times the products alone")


# Of a GPU: all 10,000 steps.
GPU_SECONDS = 20e-3
# Of the specification: 40 times faster than eager torch, 15 times faster than torch.compile of the step, without
# learning 1.3 times the time of the matrix products, and SoftHebb 50 times faster than its loop.
PROCESS = "process_hierarchy"
TARGETS = (
    Target("1000 steps of the example, eager", PROCESS, partial(learning, steps=1000, peer="eager"),
           speedup=40.0, baseline="eager torch"),
    Target("1000 steps of the example, compile", PROCESS, partial(learning, steps=1000, peer="compile"),
           speedup=15.0, baseline="torch.compile"),
    Target("the example, 10,000 steps", PROCESS, whole),
    Target("the example on a GPU", PROCESS, whole, limit=GPU_SECONDS, needs_gpu=True),
    Target("the example without learning", PROCESS, still, speedup=1 / 1.3, baseline="held products"),
    Target("1000 steps 10-20-40, eager", "plastic_scan", partial(small, peer="eager"), baseline="eager torch"),
    Target("1000 steps 10-20-40, compile", "plastic_scan", partial(small, peer="compile"), baseline="torch.compile"),
    Target("900 ticks of SoftHebb 20-3", "process", competing, speedup=50.0, baseline="eager torch"),
    Target("matmul 1000^2", "torch", partial(raw, operation=torch.matmul, size=(1000, 1000), flops=2e9)),
    Target("dot 1000^2", "torch", partial(raw, operation=torch.dot, size=(1000 * 1000,), flops=2e6)),
    Target("elementwise 1000^2", "torch", partial(raw, operation=torch.mul, size=(1000, 1000), flops=1e6)),
)  # fmt: skip
