"""A layer that learns at every tick, as a loop of torch operators; the same definition as ``torch_hrr.hierarchy``."""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor


def activated(u: Tensor, activation: str) -> Tensor:
    """``f(u)``, as TorchScript takes it too."""
    if activation == "tanh":
        return torch.tanh(u)
    return torch.relu(u) if activation == "relu" else u


def outputs_of(inputs: Tensor, weight: Tensor, rule: str, activation: str, temperature: float = 1.0) -> Tensor:
    """``f(x W^T)``, ``[..., B, m]``; of bcm never negative, of softhebb a softmax."""
    if rule == "softhebb":
        return torch.softmax(inputs @ weight.mT / temperature, -1)
    y = activated(inputs @ weight.mT, activation)
    return torch.relu(y) if rule == "bcm" else y


def rates_of(weight: Tensor, power: float) -> Tensor:
    """What softhebb multiplies lr by, ``[..., m, 1]``."""
    squares = weight.square().sum(-1, keepdim=True)
    # The norm of zeros has no derivative.
    length = torch.where(squares > 0, squares, 1.0).sqrt() * (squares > 0)
    return ((length - 1).abs() + 1e-10) ** power


def _undivided(x: Tensor) -> Tensor:
    """All of a DTensor on every rank: before torch 2.15, argmax of a single divided row raises."""
    if not hasattr(x, "placements"):
        return x
    from torch.distributed.tensor import DTensor, Replicate

    return cast(DTensor, x).redistribute(placements=[Replicate()] * len(x.placements))


def step_of(
    inputs: Tensor, outputs: Tensor, weight: Tensor, rule: str, theta: Tensor, losers: float, scaled: bool
) -> Tensor:
    """``dW`` of a tick, ``[..., m, n]``, of inputs ``[..., B, n]`` and outputs ``[..., B, m]``."""
    batch = inputs.shape[-2]
    if rule == "softhebb":
        products = inputs @ weight.mT
        wins = torch.zeros_like(outputs)
        if weight.shape[-2]:
            wins = wins.scatter(-1, _undivided(products).argmax(-1, keepdim=True), 1.0)
        shares = outputs * (losers + (1 - losers) * wins)
        step = shares.mT @ inputs / batch - (shares * products).mean(-2).unsqueeze(-1) * weight
        return step / (step.abs().amax((-2, -1), keepdim=True) + 1e-30) if scaled and weight.shape[-2] else step
    if rule == "bcm":
        outputs = outputs * (outputs - theta.unsqueeze(-2))
    step = outputs.mT @ inputs / batch
    if rule == "oja":
        return step - outputs.square().mean(-2).unsqueeze(-1) * weight
    if rule in ("gha", "subspace"):
        products = outputs.mT @ outputs / batch
        return step - (products.tril() if rule == "gha" else products) @ weight
    return step


class _Tick(NamedTuple):
    """Inputs ``[..., B, n]`` and outputs of a tick, the state before and after it, and the norms it divided by."""

    inputs: Tensor
    outputs: Tensor
    weight: Tensor
    theta: Tensor
    learned: Tensor
    next_theta: Tensor
    norm: Tensor | None


def _ticks(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    rule: str,
    lr: float,
    activation: str,
    every: int,
    tau: float,
    decay: float,
    normalize: bool,
    temperature: float,
    losers: float,
    scaled: bool,
    power: float,
) -> Iterator[_Tick]:
    """The ticks of `plastic_scan`, one by one."""
    state = torch.ones_like(weight[..., 0]) if theta is None or rule != "bcm" else theta
    for tick in inputs.movedim(weight.dim() - 2, 0)[::every]:
        x = tick if inputs.dim() > weight.dim() else tick.unsqueeze(-2)
        y = outputs_of(x, weight, rule, activation, temperature)
        change = lr * (step_of(x, y, weight, rule, state, losers, scaled) - decay * weight)
        if rule == "softhebb" and power:
            change = rates_of(weight, power) * change
        learned, norm = weight + change, None
        if normalize:
            # Squares of the row itself might over- or underflow.
            largest = learned.detach().abs().amax(-1, keepdim=True)
            largest = torch.where(largest > 0, largest, 1.0)
            length = torch.linalg.vector_norm(learned / largest, dim=-1, keepdim=True)
            length = torch.where(length > 0, length, 1.0)
            learned, norm = learned / largest / length, largest * length
        after = state + (y.square().mean(-2) - state) / tau
        yield _Tick(x, y, weight, state, learned, after, norm)
        weight, state = learned, after


def _dtypes(*tensors: Tensor | None) -> tuple[torch.dtype, torch.dtype]:
    """The dtype that tensors promote to, those that are given, and the one to compute in."""
    given = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors if tensor is not None))
    return given, torch.promote_types(given, torch.float32)


def _gathered(outputs: list[Tensor], inputs: Tensor, weight: Tensor) -> Tensor:
    """Outputs ``[..., B, m]`` of all ticks as those of the call."""
    time = weight.dim() - 2
    if inputs.dim() == weight.dim():
        outputs = [each.squeeze(-2) for each in outputs]
    shape = (*inputs.movedim(time, 0).shape[1:-1], weight.shape[-2])
    return torch.stack(outputs, time) if outputs else weight.new_empty(0, *shape).movedim(0, time)


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
    temperature: float = 1.0,
    losers: float = 1.0,
    scaled: bool = False,
    power: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """``W += lr (dW - decay W)`` at ticks 0, every, 2 every, ...; outputs, weight and theta."""
    given, wide = _dtypes(inputs, weight, theta)
    inputs, weight = inputs.to(wide), weight.to(wide)
    state = torch.ones_like(weight[..., 0]) if theta is None or rule != "bcm" else theta.to(wide)
    outputs = []
    learned = weight
    numbers: tuple[Any, ...] = (lr, activation, every, tau, decay, normalize, temperature, losers, scaled, power)
    for tick in _ticks(inputs, weight, state, rule, *numbers):
        outputs.append(tick.outputs)
        learned, state = tick.learned, tick.next_theta
    thresholds = state if rule == "bcm" else state[..., :0]
    return _gathered(outputs, inputs, weight).to(given), learned.to(given), thresholds.to(given)


def _competition(
    lr: float, activation: str, every: int, *numbers: Any
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Outputs and weight of softhebb as a function of inputs and weight, which torch differentiates."""
    options = ("softhebb", lr, activation, every, None, *numbers)
    return lambda inputs, weight: plastic_scan(inputs, weight, *options)[:2]


def _slope(y: Tensor, rule: str, activation: str) -> Tensor:
    """``f'(u)`` from ``y = f(u)``."""
    slope = 1 - y.square() if activation == "tanh" else torch.ones_like(y)
    return slope * (y > 0) if activation == "relu" or rule == "bcm" else slope


def _across(tick: _Tick, moved: Tensor) -> Tensor:
    """The derivative of a row's division by its norm: what lies across the row, divided by the norm."""
    if tick.norm is None:
        return moved
    return (moved - tick.learned * (tick.learned * moved).sum(-1, keepdim=True)) / tick.norm


def _or_zeros(given: Tensor | None, like: Tensor) -> Tensor:
    """A derivative in the dtype computed in; absent ones are 0."""
    return torch.zeros_like(like) if given is None else given.to(like.dtype)


def _plastic_scan_backward(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    grad_outputs: Tensor | None,
    grad_weight: Tensor | None,
    grad_theta: Tensor | None,
    for_inputs: bool,
    rule: str,
    lr: float,
    activation: str,
    every: int,
    tau: float,
    decay: float,
    normalize: bool,
    temperature: float,
    losers: float,
    scaled: bool,
    power: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of inputs, weight and theta, tick by tick from the last; absent ones are 0."""
    given, wide = _dtypes(inputs, weight, theta, grad_outputs, grad_weight, grad_theta)
    time, batched = weight.dim() - 2, inputs.dim() > weight.dim()
    own = (inputs.to(wide), weight.to(wide), None if theta is None else theta.to(wide))
    numbers: tuple[Any, ...] = (lr, activation, every, tau, decay, normalize, temperature, losers, scaled, power)
    if rule == "softhebb":
        scan = _competition(*numbers)
        results, pull = torch.func.vjp(scan, *own[:2])[:2]
        of_x, of_w = pull((_or_zeros(grad_outputs, results[0]), _or_zeros(grad_weight, results[1])))
        none = of_w[..., :0].sum(-1)[..., :0]
        return (of_x if for_inputs else none).to(given), of_w.to(given), none.to(given)
    ticks = list(_ticks(*own, rule, *numbers))
    of_weight = _or_zeros(grad_weight, own[1])
    of_theta = _or_zeros(grad_theta if rule == "bcm" else None, own[1][..., 0])
    of_inputs = torch.zeros_like(own[0])
    for i in reversed(range(len(ticks))):
        x, y, w, threshold, *_ = ticks[i]
        of_weight = _across(ticks[i], of_weight)
        step = lr / x.shape[-2] * of_weight
        of_square = of_theta / (tau * x.shape[-2])
        dy = x @ step.mT
        kept = (1 - lr * decay) * of_weight
        of_theta = (1 - 1 / tau) * of_theta
        taught = y
        if rule == "bcm":
            taught = y * (y - threshold.unsqueeze(-2))
            of_theta = of_theta - (dy * y).sum(-2)
            dy = dy * (2 * y - threshold.unsqueeze(-2))
        elif rule == "oja":
            kept = kept - y.square().sum(-2).unsqueeze(-1) * step
            of_square = of_square - (step * w).sum(-1)
        elif rule != "hebb":
            products, of_products = y.mT @ y, step @ w.mT
            if rule == "gha":
                products, of_products = products.tril(), of_products.tril()
            kept = kept - products.mT @ step
            dy = dy - y @ (of_products + of_products.mT)
        dy = dy + 2 * y * of_square.unsqueeze(-2)
        if grad_outputs is not None:
            grad = grad_outputs.to(wide).select(time, i)
            dy = dy + (grad if batched else grad.unsqueeze(-2))
        du = dy * _slope(y, rule, activation)
        of_x = taught @ step + du @ w
        of_inputs.select(time, i * every).copy_(of_x if batched else of_x.squeeze(-2))
        of_weight = kept + du.mT @ x
    none = of_theta[..., :0]
    results = (of_inputs if for_inputs else none, of_weight, of_theta if rule == "bcm" else none)
    return results[0].to(given), results[1].to(given), results[2].to(given)


def _plastic_scan_tangent(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    tangent_inputs: Tensor | None,
    tangent_weight: Tensor | None,
    tangent_theta: Tensor | None,
    rule: str,
    lr: float,
    activation: str,
    every: int,
    tau: float,
    decay: float,
    normalize: bool,
    temperature: float,
    losers: float,
    scaled: bool,
    power: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The tangents of outputs, weight and theta, tick by tick; absent ones are 0."""
    given, wide = _dtypes(inputs, weight, theta, tangent_inputs, tangent_weight, tangent_theta)
    time, batched = weight.dim() - 2, inputs.dim() > weight.dim()
    own = (inputs.to(wide), weight.to(wide), None if theta is None else theta.to(wide))
    dw = _or_zeros(tangent_weight, own[1])
    dtheta = _or_zeros(tangent_theta if rule == "bcm" else None, own[1][..., 0])
    moved = _or_zeros(tangent_inputs, own[0])
    numbers: tuple[Any, ...] = (lr, activation, every, tau, decay, normalize, temperature, losers, scaled, power)
    if rule == "softhebb":
        scan = _competition(*numbers)
        of_outputs, of_weight = torch.func.jvp(scan, own[:2], (moved, dw))[1]
        return of_outputs.to(given), of_weight.to(given), dtheta[..., :0].to(given)
    outputs = []
    for i, tick in enumerate(_ticks(*own, rule, *numbers)):
        x, y, w, threshold, *_ = tick
        batch = x.shape[-2]
        dx = moved.select(time, i * every)
        dx = dx if batched else dx.unsqueeze(-2)
        dy = (x @ dw.mT + dx @ w.mT) * _slope(y, rule, activation)
        outputs.append(dy)
        taught, moved_taught = y, dy
        if rule == "bcm":
            taught = y * (y - threshold.unsqueeze(-2))
            moved_taught = dy * (2 * y - threshold.unsqueeze(-2)) - y * dtheta.unsqueeze(-2)
        step = (moved_taught.mT @ x + taught.mT @ dx) / batch
        dsquare = 2 * (y * dy).mean(-2)
        if rule == "oja":
            step = step - dsquare.unsqueeze(-1) * w - y.square().mean(-2).unsqueeze(-1) * dw
        elif rule in ("gha", "subspace"):
            products, moved_products = y.mT @ y / batch, (dy.mT @ y + y.mT @ dy) / batch
            if rule == "gha":
                products, moved_products = products.tril(), moved_products.tril()
            step = step - moved_products @ w - products @ dw
        dw = _across(tick, dw + lr * (step - decay * dw))
        dtheta = dtheta + (dsquare - dtheta) / tau
    thresholds = dtheta if rule == "bcm" else dtheta[..., :0]
    return _gathered(outputs, *own[:2]).to(given), dw.to(given), thresholds.to(given)
