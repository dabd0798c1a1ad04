"""The cases of the k-cap and of its derivative."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import Tensor

from cases import assembly_cap_oracle as oracle
from cases.base import FLOATS, FULL, Arguments, Hole, OpCase, Sample, TensorArgument, covering
from cases.errors import Table, devices, repeated, unsupported_tensors
from torch_hrr import assembly
from torch_hrr._plain import assembly as plain

ops = torch.ops.torch_hrr

UNCAST = {"autocast": Hole("winners hang on every bit of the inputs, so nothing is cast")}
SURROGATES = ("sigmoid", "laplace")
NAN, INF = float("nan"), float("inf")
BAD_TEMPERATURES = {"0": 0.0, "negative": -1.0, "nan": NAN, "inf": INF}
NUMBER = {"0": "0", "negative": "-1", "nan": "nan", "inf": "inf"}


def rounded(rows: Tensor) -> Tensor:
    """Many equal elements, zeros of both signs."""
    return (2 * rows).round() / 2


def constant(rows: Tensor) -> Tensor:
    return torch.full_like(rows, 0.75)


def two_valued(rows: Tensor) -> Tensor:
    return (rows > 0).to(rows.dtype)


def options(k: int, temperature: float = 1.0, surrogate: str = "sigmoid") -> dict[str, Any]:
    return {"k": k, "temperature": temperature, "surrogate": surrogate}


def sample(
    names: tuple[str, ...],
    id: str,
    shape: tuple[int, ...],
    settings: dict[str, Any],
    grad: tuple[int, ...] | None = None,
    adjust: Any = None,
    dtypes: tuple[torch.dtype, ...] = FLOATS,
) -> Sample:
    shapes = {name: grad if name == "grad" and grad is not None else shape for name in names}
    changes = {"inputs": adjust} if adjust else {}
    # The forward call names what it returns; its derivative has no such choice.
    settings = settings | ({"soft": settings.get("soft", True)} if "grad" not in names else {})
    if "grad" in names:
        settings = {name: value for name, value in settings.items() if name != "soft"}
    return Sample(id, shapes, settings, dtypes, changes)


def lane_samples(names: tuple[str, ...]) -> tuple[Sample, ...]:
    make = functools.partial(sample, names)
    directed = (
        (
            make("narrow-gradient", (2, 5), options(2), grad=(5,)),
            make("wide-gradient", (5,), options(2), grad=(2, 5)),
            make("outer", (2, 1, 5), options(2), grad=(3, 5)),
        )
        if "grad" in names
        else ()
    )
    return (
        make("row", (6,), options(2)),
        make("batch", (2, 3, 5), options(3)),
        make("laplace", (2, 7), options(3, 1.0, "laplace")),
        make("sharp", (2, 9), options(4, 0.25)),
        make("flat", (2, 9), options(2, 10.0)),
        make("D17", (2, 17), options(5)),
        make("all", (2, 3), options(3)),
        make("none", (2, 3), options(0)),
        make("one", (2, 1), options(1)),
        make("empty", (0, 5), options(2)),
        make("no-neurons", (3, 0), options(0)),
        *directed,
    )


def samples(names: tuple[str, ...]) -> tuple[Sample, ...]:
    make = functools.partial(sample, names)
    lengths = (1, 2, 3, 7, 8, 9, 16, 17, 33, 100, 257, 1000)
    rows = [(n, k) for n in lengths for k in sorted({1, n // 2, n - 1, n, n // 20})]
    drawn = (("normal", None), ("ties", rounded), ("constant", constant), ("two", two_valued))
    hard = (
        *(
            make(f"mask-{id}-n{n}", (3, n), options(k) | {"soft": False}, adjust=adjust)
            for id, adjust in drawn
            for n, k in ((1, 1), (5, 2), (16, 15), (100, 0), (257, 257), (1000, 50))
        ),
        make("mask-ste", (3, 20), options(7, surrogate="ste") | {"soft": False}),
        make("mask-none", (3, 20), options(7, surrogate="none") | {"soft": False}),
    )
    straight = (make("ste", (3, 20), options(7, surrogate="ste")), make("stop", (3, 20), options(7, surrogate="none")))
    return (
        *(
            # The surrogates take turns, and every length has both.
            make(f"n{n}-k{k}-{surrogate}", (2, n), options(k, 1.0, surrogate))
            for i, (n, k) in enumerate(rows)
            for surrogate in (SURROGATES if FULL else SURROGATES[i % 2 :][:1])
        ),
        *(
            make(f"{id}-{surrogate}-{temperature:g}", (3, 64), options(9, temperature, surrogate), adjust=adjust)
            for (id, adjust), surrogate, temperature in covering(drawn, SURROGATES, (0.1, 3.0, 100.0))
        ),
        make("n5000", (2, 5000), options(100), dtypes=(torch.float32, torch.float64)),
        make("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 2, 20), options(6)),
        make("empty", (0, 24), options(3)),
        make("no-neurons", (2, 0), options(0)),
        *(straight if "grad" in names else hard),
    )


def sized(names: tuple[str, ...]) -> Any:
    return lambda batch, items, dim: sample(names, f"{batch}x{dim}", (batch, dim), options(max(1, dim // 4)))


def errors(name: str, names: tuple[str, ...]) -> Any:
    arguments = tuple(TensorArgument(argument, "n") for argument in names)
    table = Table(name, arguments, sample(names, "good", (3, 8), options(3)), None)
    for argument in names:
        unsupported_tensors(table, argument)
        devices(table, argument, "inputs")
        text = rf"{argument} must have at least 1 dimension \[\.\.\., n\], got 0"
        table.replace(argument, "rank", lambda x: x[0, 0], ValueError, text)
    large = {argument: (2**60, 4) for argument in names}
    text = r"the result must have fewer than 2\^60 elements, got sizes"
    table.add(
        "inputs",
        "overflow",
        lambda _: {argument: repeated(shape) for argument, shape in large.items()},
        ValueError,
        text,
    )
    if "grad" in names:
        text = r"inputs and grad must have the same last dimension, got 8 and 16"
        table.replace("grad", "n-longer", lambda x: torch.cat([x, x], -1), ValueError, text)
        text = r"grad and the leading dimensions of inputs must broadcast, got sizes 3 and 6"
        table.replace("grad", "not-broadcastable", lambda x: x.repeat(2, 1), ValueError, text)
        for argument in names:
            text = f"{argument} must be a defined tensor, got an undefined one"
            table.replace(argument, "undefined", lambda _: None, TypeError, text)
    for k in (-1, 9, 2**40):
        table.replace("k", str(k), lambda _, k=k: k, ValueError, f"k must be between 0 and n = 8, got {k}")
    for id, value in BAD_TEMPERATURES.items():
        text = f"temperature must be finite and above 0, got {NUMBER[id]}"
        table.replace("temperature", id, lambda _, value=value: value, ValueError, text)
    text = "surrogate must be 'sigmoid', 'laplace', 'ste' or 'none', got 'tanh'"
    table.replace("surrogate", "unknown", lambda _: "tanh", ValueError, text)
    if "grad" not in names:
        for surrogate in ("ste", "none"):
            text = f"surrogate must be 'sigmoid' or 'laplace' with soft, got '{surrogate}'"
            table.replace("surrogate", surrogate, lambda _, value=surrogate: value, ValueError, text)
    return tuple(table.errors)


def plain_backward(grad: Tensor, inputs: Tensor, k: int, temperature: float, surrogate: str) -> Tensor:
    """The derivative of the composition in plain torch."""
    grad, inputs = torch.broadcast_tensors(grad, inputs)
    inputs = inputs.detach().requires_grad_()
    result = plain.k_cap(inputs, k, temperature, surrogate)
    if not result.requires_grad:
        return torch.zeros_like(grad)
    return torch.autograd.grad(result, inputs, grad)[0]


def result_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
    return (tuple(torch.broadcast_shapes(*(tensor.shape for tensor in tensors))),)


def gradient_scale(grad: Tensor, inputs: Tensor, **options: Any) -> Tensor:
    """The row's norm, or that of the products d g / temperature which cancel in it."""
    terms = oracle.k_cap_backward(grad.abs(), inputs, **options).abs()
    exact = oracle.k_cap_backward(grad, inputs, **options)
    largest = torch.broadcast_tensors(grad, inputs)[0].abs()
    norm = torch.linalg.vector_norm
    floor = 1e-3 * norm(largest, dim=-1, keepdim=True) / options["temperature"]
    return torch.maximum(torch.maximum(norm(terms, dim=-1, keepdim=True), norm(exact, dim=-1, keepdim=True)), floor)


def case(op: Any, names: tuple[str, ...], definition: Any, plain: Any, **fields: Any) -> OpCase:
    name = op._schema.name.split("::")[1]
    return OpCase(
        name=name,
        op=op,
        arguments=tuple(TensorArgument(argument, "n") for argument in names),
        oracle=definition,
        plain=plain,
        result_sizes=result_sizes,
        samples=samples(names),
        lane_samples=lane_samples(names),
        sized=sized(names),
        errors=errors(name, names),
        differentiable=names,
        holes=UNCAST,
        **fields,
    )


CASES = (
    case(ops.k_cap.default, ("inputs",), oracle.k_cap, plain.k_cap, wrapper=assembly.k_cap),
    case(
        ops._k_cap_backward.default,
        ("grad", "inputs"),
        oracle.k_cap_backward,
        plain_backward,
        magnitude=gradient_scale,
    ),
)
