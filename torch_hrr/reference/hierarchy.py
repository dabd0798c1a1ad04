"""A layer that learns at every tick, as a loop of torch operators; the same definition as ``torch_hrr.hierarchy``."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"linear": lambda u: u, "relu": torch.relu, "tanh": torch.tanh}


def outputs_of(inputs: Tensor, weight: Tensor, rule: str, activation: str) -> Tensor:
    """``f(x W^T)``, ``[..., B, m]``; of bcm never negative."""
    y = ACTIVATIONS[activation](inputs @ weight.mT)
    return torch.relu(y) if rule == "bcm" else y


def step_of(inputs: Tensor, outputs: Tensor, weight: Tensor, rule: str, theta: Tensor) -> Tensor:
    """``dW`` of a tick, ``[..., m, n]``, of inputs ``[..., B, n]`` and outputs ``[..., B, m]``."""
    batch = inputs.shape[-2]
    if rule == "bcm":
        outputs = outputs * (outputs - theta.unsqueeze(-2))
    step = outputs.mT @ inputs / batch
    if rule == "oja":
        return step - outputs.square().mean(-2).unsqueeze(-1) * weight
    if rule in ("gha", "subspace"):
        products = outputs.mT @ outputs / batch
        return step - (products.tril() if rule == "gha" else products) @ weight
    return step


def plastic_scan(
    inputs: Tensor,
    weight: Tensor,
    rule: str = "oja",
    lr: float = 1e-3,
    activation: str = "tanh",
    every: int = 1,
    theta: Tensor | None = None,
    tau: float = 100.0,
    decay: float = 0.0,
    normalize: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """``W += lr (dW - decay W)`` at ticks 0, every, 2 every, ...; outputs, weight and theta."""
    given = torch.promote_types(inputs.dtype, weight.dtype)
    if theta is not None:
        given = torch.promote_types(given, theta.dtype)
    wide = torch.promote_types(given, torch.float32)
    batched = inputs.dim() > weight.dim()
    ticks = inputs.to(wide).movedim(weight.dim() - 2, 0)[::every]
    weight = weight.to(wide)
    threshold = torch.ones_like(weight[..., 0]) if theta is None else theta.to(wide)
    outputs = []
    for tick in ticks:
        x = tick if batched else tick.unsqueeze(-2)
        y = outputs_of(x, weight, rule, activation)
        outputs.append(y if batched else y.squeeze(-2))
        weight = weight + lr * (step_of(x, y, weight, rule, threshold) - decay * weight)
        if normalize:
            norm = torch.linalg.vector_norm(weight, dim=-1, keepdim=True)
            weight = weight / torch.where(norm > 0, norm, 1.0)
        threshold = threshold + (y.square().mean(-2) - threshold) / tau
    time = weight.dim() - 2
    shape = (*ticks.shape[1:-1], weight.shape[-2])
    stacked = torch.stack(outputs, time) if outputs else weight.new_empty(0, *shape).movedim(0, time)
    learned = threshold if rule == "bcm" else threshold[..., :0]
    return stacked.to(given), weight.to(given), learned.to(given)
