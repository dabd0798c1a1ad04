"""The cases of layers that learn: the definition unit by unit, with the mean written as a sum over samples."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cases.base import Arguments, ErrorInput, Hole, OpCase, Sample, TensorArgument
from cases.errors import Table, bad_numbers, devices, repeated, unsupported_tensors
from torch_hrr import hierarchy
from torch_hrr._plain import hierarchy as plain

ops = torch.ops.torch_hrr
NAN, INF = float("nan"), float("inf")
INPUTS, WEIGHT = TensorArgument("inputs", "Tn"), TensorArgument("weight", "mn")
THETA = TensorArgument("theta", "m", optional=True)
RULES = ("hebb", "oja", "gha", "subspace", "bcm", "softhebb")
ACTIVATIONS = ("linear", "relu", "tanh")
OPTIONS = {"rule": "oja", "lr": 0.05, "activation": "tanh", "every": 1, "tau": 20.0, "decay": 0.0, "normalize": False}
OPTIONS |= {"temperature": 0.7, "losers": 1.0, "scaled": False, "power": 0.0}
PUBLISHED = {"losers": -1.0, "scaled": True, "power": 0.5}
"""What multilayer SoftHebb sets."""

ORDER = ("inputs", "weight", "rule", "lr", "activation", "every", "theta", "tau", "decay", "normalize")
ORDER += ("temperature", "losers", "scaled", "power")


def small(x: Tensor) -> Tensor:
    """Weights whose products stay near 1."""
    return x / max(x.shape[-1], 1) ** 0.5


def call(id: str, inputs: tuple[int, ...], units: int, theta: bool = False, **options: Any) -> Sample:
    batched = bool(options.pop("batched", False))
    leading = inputs[: -3 if batched else -2]
    shapes = {
        "inputs": inputs,
        "weight": (*leading, units, inputs[-1]),
        "theta": (*leading, units) if theta else None,
    }
    adjust = {"weight": small, "theta": lambda x: 0.5 + x.sigmoid()}
    return Sample(id, shapes, OPTIONS | options, adjust=adjust, order=ORDER)


def oracle(
    inputs: Tensor,
    weight: Tensor,
    rule: str,
    lr: float,
    activation: str,
    every: int,
    theta: Tensor | None,
    tau: float,
    decay: float,
    normalize: bool,
    temperature: float,
    losers: float,
    scaled: bool,
    power: float,
) -> tuple[Tensor, Tensor, Tensor]:
    batched = inputs.dim() > weight.dim()
    ticks = (inputs if batched else inputs.unsqueeze(-2)).movedim(-3, 0)[::every]
    batch = ticks.shape[-2]
    threshold = 1 + 0 * weight[..., 0] if theta is None else theta
    function = {"linear": lambda u: u, "relu": lambda u: u.clamp(min=0), "tanh": torch.tanh}[activation]
    outputs = []
    for tick in ticks:
        u = (tick.unsqueeze(-2) * weight.unsqueeze(-3)).sum(-1)
        y = function(u).clamp(min=0) if rule == "bcm" else function(u)
        if rule == "softhebb":
            excited = ((u - u.amax(-1, keepdim=True)) / temperature).exp() if u.numel() else u
            y = excited / excited.sum(-1, keepdim=True)
        outputs.append(y)
        steps = torch.zeros_like(weight)
        for x, own in zip(tick.unbind(-2), y.unbind(-2), strict=True):
            taught, error = own, x.unsqueeze(-2)
            if rule == "softhebb" and u.numel():
                product = (x.unsqueeze(-2) * weight).sum(-1)
                taught = torch.where(product == product.amax(-1, keepdim=True), own, losers * own)
                error = error - product.unsqueeze(-1) * weight
            if rule == "bcm":
                taught = own * (own - threshold)
            elif rule == "oja":
                error = error - own.unsqueeze(-1) * weight
            elif rule in ("gha", "subspace"):
                explained = own.unsqueeze(-1) * weight
                error = error - (explained.cumsum(-2) if rule == "gha" else explained.sum(-2, keepdim=True))
            steps = steps + taught.unsqueeze(-1) * error
        rate = torch.full_like(weight[..., :1], lr)
        if rule == "softhebb" and power:
            rate = lr * ((weight.square().sum(-1, keepdim=True).sqrt() - 1).abs() + 1e-10).pow(power)
        if rule == "softhebb" and scaled and steps.numel():
            steps = steps / (steps.abs().amax((-2, -1), keepdim=True) + batch * 1e-30) * batch
        weight = weight + rate * steps / batch - rate * decay * weight
        if normalize:
            weight = weight / weight.square().sum(-1, keepdim=True).sqrt()
        threshold = threshold + (y.square().sum(-2) / batch - threshold) / tau
    shape = (*ticks.shape[1:-1], weight.shape[-2])
    result = torch.stack(outputs, -3) if outputs else inputs.new_zeros(0, *shape).movedim(0, -3)
    return result if batched else result.squeeze(-2), weight, threshold if rule == "bcm" else threshold[..., :0]


def result_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    inputs, weight = arguments["inputs"], arguments["weight"]
    leading, time = weight.shape[:-2], weight.dim() - 2
    ticks = -(-inputs.shape[time] // arguments["every"])
    units = weight.shape[-2]
    theta = (*leading, units if arguments["rule"] == "bcm" else 0)
    return ((*leading, ticks, *inputs.shape[time + 1 : -1], units), tuple(weight.shape), theta)


def magnitude(**arguments: Any) -> tuple[Tensor, ...]:
    """Errors grow with the sums of products and with the ticks."""
    bound = float(arguments["inputs"].norm() + arguments["weight"].norm() + 1) * (1 + arguments["inputs"].shape[0])
    return tuple(torch.full((*shape[:-1], 1), bound, dtype=torch.float64) for shape in result_sizes(arguments))


def errors(name: str, good: Sample, *more: TensorArgument) -> tuple[ErrorInput, ...]:
    """Of the operator or of a derivative, whose further tensors have the shapes of the results or of the arguments."""
    table = Table(name, (INPUTS, WEIGHT, THETA, *more), good, None)
    for argument in table.arguments:
        unsupported_tensors(table, argument.name)
        devices(table, argument.name, "inputs")
    for argument in more:
        shape = re.escape(f"{argument.name} must have the shape [")
        table.replace(argument.name, "size", lambda x: torch.cat([x, x], -1), ValueError, shape)
        table.replace(argument.name, "rank", lambda x: x[None], ValueError, shape)
    text = re.escape("inputs must be [..., T, n] or [..., T, B, n] beside weight [..., m, n], got ")
    table.replace("inputs", "rank", lambda x: x[0], ValueError, f"{text}1 and 2 dimensions")
    table.replace("inputs", "rank-4", lambda x: x.reshape(1, 4, 1, 3), ValueError, f"{text}4 and 2 dimensions")
    rank = re.escape("weight must have at least 2 dimensions [..., m, n], got 1")
    table.replace("weight", "rank", lambda x: x[0], ValueError, rank)
    last = "inputs and weight must have the same last dimension, got 3 and 4"
    table.replace("weight", "size", lambda _: torch.zeros(2, 4), ValueError, last)
    none = "weight must have a last dimension of at least 1, got 0"
    table.replace("weight", "nothing", lambda _: torch.zeros(2, 0), ValueError, none)
    batch = "inputs must have a batch of at least 1, got 0"
    table.replace("inputs", "no-batch", lambda _: torch.zeros(4, 0, 3), ValueError, batch)
    leading = "inputs and weight must have the same leading dimensions, got 2 and 3 at dimension 0"
    table.add(
        "weight",
        "leading",
        lambda _: {"inputs": torch.zeros(2, 4, 3), "weight": torch.zeros(3, 2, 3), "theta": None},
        ValueError,
        leading,
    )
    shape = re.escape("theta must have the shape of weight without its last dimension, got ")
    table.replace("theta", "size", lambda _: torch.ones(3), ValueError, shape)
    table.replace("theta", "rank", lambda _: torch.ones(1, 2), ValueError, shape)
    table.add("theta", "rule", lambda _: {"rule": "oja"}, ValueError, "theta must be None or empty for rule 'oja'")
    for value in (-INF, NAN, INF, 0.0, -1.0):
        text = f"theta must be finite and above 0, got {value:g}"
        # NaN differs from itself where a test looks for changes. A derivative does not look.
        if value == value and not more:
            table.replace(
                "theta",
                f"{value:g}",
                lambda x, v=value: x.index_fill(0, torch.tensor([1]), v),
                ValueError,
                text,
                ("cpu",),
            )
    rules = "rule must be 'hebb', 'oja', 'gha', 'subspace', 'bcm' or 'softhebb', got 'Oja'"
    table.replace("rule", "unknown", lambda _: "Oja", ValueError, rules)
    table.replace(
        "activation", "unknown", lambda _: "sigmoid", ValueError, "activation must be 'linear', 'relu' or 'tanh'"
    )
    bad_numbers(
        table,
        {
            "lr": ("finite and at least 0", (-0.1, NAN, INF)),
            "tau": ("finite and above 1", (1.0, 0.5, -1.0, NAN, INF)),
            "decay": ("finite and at least 0", (-0.1, NAN, INF)),
            "every": ("at least 1", (0, -1)),
            "temperature": ("finite and above 0", (0.0, -1.0, NAN, INF)),
            "losers": ("finite", (NAN, INF)),
            "power": ("finite and at least 0", (-0.5, NAN, INF)),
        },
    )
    for argument in ("lr", "decay", "temperature", "losers", "power"):
        large = {"theta": None, "rule": "oja", argument: 1e39}
        table.add(argument, "float32", lambda _, own=large: own, ValueError, f"{argument} must be finite in float32")
    small_one = {"theta": None, "rule": "oja", "temperature": 1e-60}
    table.add("temperature", "0 in float32", lambda _: small_one, ValueError, "temperature must be above 0 in float32")
    overflow = re.escape("the result must have fewer than 2^60 elements, got sizes")
    table.add(
        "inputs",
        "overflow",
        lambda _: {"inputs": repeated((2**40, 3)), "weight": repeated((2**30, 3)), "theta": None},
        ValueError,
        overflow,
    )
    return tuple(table.errors)


HOLES = {
    "autocast": Hole("what is learned stays in the dtype of the weights, so nothing is cast"),
    "rows": Hole("what comes before a number that is not finite keeps its own: tests/hierarchy/test_scan.py"),
}
SIZES = ((1, 1, 1), (5, 1, 2), (7, 15, 3), (9, 16, 8), (6, 33, 9), (12, 100, 17), (3, 130, 20))

CASE = OpCase(
    name="plastic_scan",
    op=ops.plastic_scan.default,
    arguments=(INPUTS, WEIGHT, THETA),
    oracle=oracle,
    plain=plain.plastic_scan,
    result_sizes=result_sizes,
    magnitude=magnitude,
    samples=(
        *(
            call(f"{ticks}x{n}x{units}-{rule}-{activation}", (ticks, n), units, rule=rule, activation=activation)
            for ticks, n, units in SIZES
            for rule, activation in zip(RULES, 2 * ACTIVATIONS, strict=True)
        ),
        *(
            call(f"batch-{rule}", (6, 3, 20), 5, batched=True, rule=rule, every=2, decay=0.1, theta=rule == "bcm")
            for rule in RULES
        ),
        # More columns than the CPU takes of a batch at a time, and odd numbers of rows and samples.
        *(call(f"tiles-{rule}", (2, 41, 200), 7, batched=True, rule=rule) for rule in (*RULES[1:4], "softhebb")),
        *(
            call(f"published-{name}", (5, *batch, 20), 40, batched=bool(batch), rule="softhebb", **PUBLISHED | options)
            for name, batch, options in (
                ("online", (), {"decay": 0.1}),
                ("batch", (3,), {"every": 2}),
                ("unit", (3,), {"normalize": True, "power": 0.0}),
            )
        ),
        call("layers-published", (2, 7, 18), 4, rule="softhebb", **PUBLISHED),
        *(call(f"normalize-{rule}", (5, 40), 6, rule=rule, normalize=True, decay=0.2) for rule in RULES),
        *(call(f"layers-{rule}", (2, 3, 7, 18), 4, rule=rule, every=3, theta=rule == "bcm") for rule in RULES),
        call("long", (1100, 30), 18, lr=0.01),
        call("no-ticks", (0, 5), 3, rule="bcm"),
        call("no-units", (4, 5), 0),
        call("no-units-softhebb", (4, 5), 0, rule="softhebb", **PUBLISHED),
        call("no-layers", (0, 4, 5), 3),
        call("still", (4, 5), 3, lr=0.0),
    ),
    lane_samples=(
        *(call(rule, (3, 3), 2, rule=rule, activation="tanh", theta=rule == "bcm") for rule in RULES),
        call("batch", (3, 2, 3), 2, batched=True, rule="gha", activation="linear", every=2, decay=0.3),
        call("layers", (2, 2, 3), 2, rule="bcm", normalize=True),
        call("published", (3, 2, 3), 2, batched=True, rule="softhebb", decay=0.3, **PUBLISHED),
    ),
    sized=lambda batch, items, dim: call(
        f"{batch}x{items}x{dim}", (batch, 3, dim), items, rule="bcm", theta=True, lr=1 / (dim + 1)
    ),
    wrapper=hierarchy.plastic_scan,
    errors=errors("plastic_scan", call("good", (4, 3), 2, theta=True, rule="bcm")),
    differentiable=("inputs", "weight", "theta"),
    uncast=("inputs", "weight", "theta"),
    holes=HOLES,
)

NAMES = ("inputs", "weight", "theta")
NUMBERS = tuple(name for name in ORDER if name not in NAMES)


def further(prefix: str, first: TensorArgument) -> tuple[TensorArgument, ...]:
    """The tensors of a derivative beside those of the call, any of which may be absent."""
    own = (("weight", "mn"), ("theta", "m"))
    given = TensorArgument(f"{prefix}_{first.name}", first.dims, optional=True)
    return (given, *(TensorArgument(f"{prefix}_{name}", dims, optional=True) for name, dims in own))


GRADS = further("grad", TensorArgument("outputs", "Tm"))
TANGENTS = further("tangent", INPUTS)


def derived(sample: Sample, more: tuple[TensorArgument, ...], absent: str = "", **options: Any) -> Sample:
    """A derivative of a call, without one of its further tensors, and without theta's where there is none."""
    shapes = {name: sample.shapes[name] for name in NAMES}
    empty = {name: None if shape is None else torch.empty(shape) for name, shape in shapes.items()}
    outputs, weight, theta = result_sizes(empty | dict(sample.options))
    sizes = (outputs if more is GRADS else sample.shapes["inputs"], weight, theta)
    for argument, size in zip(more, sizes, strict=True):
        is_absent = argument.name == absent or (argument.dims == "m" and sample.options["rule"] != "bcm")
        shapes[argument.name] = None if is_absent else size
    order = (*shapes, *options, *NUMBERS)
    return dataclasses.replace(sample, shapes=shapes, options={**sample.options, **options}, order=order)


def backward(sample: Sample, for_inputs: bool = True, absent: str = "") -> Sample:
    return derived(sample, GRADS, absent, for_inputs=for_inputs)


def tangent(sample: Sample, absent: str = "") -> Sample:
    return derived(sample, TANGENTS, absent)


def definition(weight: Tensor, theta: Tensor | None, **options: Any) -> tuple[Callable[..., Any], Tensor]:
    """The scan as a function of inputs, weight and theta alone, and the theta that it starts with."""
    has_theta = options["rule"] == "bcm"
    start = 1 + 0 * weight[..., 0].detach() if theta is None else theta

    def scan(x: Tensor, w: Tensor, t: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return oracle(x, w, theta=t if has_theta else None, **options)

    return scan, start


def or_zeros(given: tuple[Tensor | None, ...], like: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(torch.zeros_like(x) if own is None else own for own, x in zip(given, like, strict=True))


def backward_oracle(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    grad_outputs: Tensor | None,
    grad_weight: Tensor | None,
    grad_theta: Tensor | None,
    for_inputs: bool,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """By torch's derivative of the definition."""
    scan, start = definition(weight, theta, **options)
    results, pull = torch.func.vjp(scan, inputs, weight, start)
    of_inputs, of_weight, of_theta = pull(or_zeros((grad_outputs, grad_weight, grad_theta), results))
    none = of_theta[..., :0]
    return of_inputs if for_inputs else none, of_weight, of_theta if options["rule"] == "bcm" else none


def tangent_oracle(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    tangent_inputs: Tensor | None,
    tangent_weight: Tensor | None,
    tangent_theta: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """By torch's derivative of the definition."""
    scan, start = definition(weight, theta, **options)
    primals = (inputs, weight, start)
    moved = or_zeros((tangent_inputs, tangent_weight, tangent_theta), primals)
    outputs, of_weight, of_theta = torch.func.jvp(scan, primals, moved)[1]
    return outputs, of_weight, of_theta


def backward_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    inputs, weight = arguments["inputs"], arguments["weight"]
    return (tuple(inputs.shape) if arguments["for_inputs"] else (*weight.shape[:-2], 0), *result_sizes(arguments)[1:])


def derivative_size(
    expect: Callable[..., Any],
    sizes: Callable[[Arguments], tuple[tuple[int, ...], ...]],
    more: tuple[TensorArgument, ...],
    **arguments: Any,
) -> tuple[Tensor, ...]:
    """Every derivative is a sum over all that are given, whose errors add up over the ticks as at random."""
    given = [arguments[argument.name] for argument in more if arguments[argument.name] is not None]
    squares = sum(tensor.square().sum() for tensor in (*expect(**arguments), *given))
    total = (squares * (1 + arguments["inputs"].shape[arguments["weight"].dim() - 2])) ** 0.5
    return tuple(total.reshape([1] * len(shape)).expand(*shape[:-1], 1) for shape in sizes(arguments))


def derivative(
    name: str,
    more: tuple[TensorArgument, ...],
    sample: Callable[..., Sample],
    expect: Callable[..., Any],
    sizes: Callable[[Arguments], tuple[tuple[int, ...], ...]],
    samples: tuple[Sample, ...] = (),
    lane_samples: tuple[Sample, ...] = (),
    unread: tuple[str, ...] = (),
) -> OpCase:
    """The case of a private operator that is a derivative of plastic_scan."""
    first = more[0].name
    given = (*NAMES, *(argument.name for argument in more))
    return OpCase(
        name=name,
        op=getattr(ops, name).default,
        arguments=(INPUTS, WEIGHT, THETA, *more),
        oracle=expect,
        plain=getattr(plain, name),
        result_sizes=sizes,
        magnitude=functools.partial(derivative_size, expect, sizes, more),
        samples=(
            *(sample(own) for own in CASE.samples),
            *(sample(call(f"units-{m}-{rule}", (9, 5), m, rule=rule)) for m in (130, 300) for rule in ("oja", "bcm")),
            *(sample(call(f"no-{own.name}", (7, 20), 5, rule="bcm"), absent=own.name) for own in more),
            *(sample(call(f"no-{own.name}-gha", (7, 20), 5, rule="gha"), absent=own.name) for own in more[:2]),
            *samples,
        ),
        lane_samples=(
            *(sample(own) for own in CASE.lane_samples),
            sample(call(f"no-{first}", (3, 3), 2), absent=first),
            *lane_samples,
        ),
        sized=lambda batch, items, dim: sample(CASE.sized(batch, items, dim)),
        errors=errors(name, sample(call("good", (4, 3), 2, theta=True, rule="bcm")), *more),
        differentiable=given,
        uncast=given,
        unread=unread,
        holes=HOLES,
    )


BACKWARD = derivative(
    "_plastic_scan_backward",
    GRADS,
    backward,
    backward_oracle,
    backward_sizes,
    samples=(backward(call("weights", (7, 20), 18), for_inputs=False),),
    lane_samples=(backward(call("weights", (3, 3), 2, rule="bcm"), for_inputs=False),),
)
TANGENT = derivative(
    "_plastic_scan_tangent",
    TANGENTS,
    tangent,
    tangent_oracle,
    result_sizes,
    unread=("theta", "tangent_weight", "tangent_theta"),
)

CASES = (CASE, BACKWARD, TANGENT)
