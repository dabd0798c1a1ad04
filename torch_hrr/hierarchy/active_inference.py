"""The choice of actions by expected free energy."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_floating, tensor


def expected_free_energy(mean: Any, std: Any, goal_mean: Any, goal_std: Any) -> Tensor:
    """Risk plus ambiguity of predicted observations, summed over the last dimension; the action with the least wins.

    Predictions are N(mean, std^2) and goals N(goal_mean, goal_std^2), each number on its own. Risk is the divergence
    ``KL(prediction || goal) = ln(goal_std / std) + (std^2 + (mean - goal_mean)^2) / (2 goal_std^2) - 1/2``, ambiguity
    the prediction's entropy ``ln(2 pi e std^2) / 2``. Differentiable in every mode.

    Args:
        mean: Of the predictions, ``[..., n]``, such as one row an action.
        std: Of the predictions, above 0; all four arguments broadcast.
        goal_mean: Of the goals.
        goal_std: Of the goals, above 0.

    Returns:
        ``[...]``, in nats.

    Raises:
        TypeError: An argument is not a floating tensor or array.
        ValueError: Shapes do not broadcast, or on the CPU a standard deviation is not above 0, which is not looked for
            within vmap and where torch traces.
        RuntimeError: Devices differ.

    Source: Friston et al., Active inference and epistemic value, Cognitive Neuroscience 6, 2015.
    """
    op = "expected_free_energy"
    given = {"mean": mean, "std": std, "goal_mean": goal_mean, "goal_std": goal_std}
    tensors = {name: tensor(op, name, value) for name, value in given.items()}
    for name, value in tensors.items():
        check_floating(op, name, value)
        if value.device != tensors["mean"].device:
            raise RuntimeError(f"{op}: {name} must be on {tensors['mean'].device} as mean, got {value.device}")
        if name.endswith("std") and value.device.type == "cpu" and not _is_positive(value):
            raise ValueError(f"{op}: {name} must be above 0, got {value.detach().min().item():g}")
    try:
        mu, sigma, goal, width = torch.broadcast_tensors(*tensors.values())
    except RuntimeError:
        shapes = ", ".join(str(list(value.shape)) for value in tensors.values())
        raise ValueError(f"{op}: mean, std, goal_mean and goal_std must broadcast, got {shapes}") from None
    if mu.dim() == 0:
        raise ValueError(f"{op}: mean must have at least 1 dimension [..., n], got 0")
    risk = (width / sigma).log() + (sigma.square() + (mu - goal).square()) / (2 * width.square()) - 0.5
    ambiguity = 0.5 * math.log(2 * math.pi * math.e) + sigma.log()
    total: Tensor = (risk + ambiguity).sum(-1)
    return total


def _is_positive(value: Tensor) -> bool:
    """True too where no value can be read: while torch compiles or traces, and within vmap."""
    if torch.compiler.is_compiling():
        return True
    try:
        return bool((value > 0).all())
    except RuntimeError:
        return True
