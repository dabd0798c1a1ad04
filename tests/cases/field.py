"""The cases of the steps of fields."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cases import field_oracle as oracle
from cases.base import Arguments, ErrorInput, Hole, OpCase, Sample, TensorArgument
from cases.errors import Table, nested, quantized, repeated, unsupported_tensors
from cases.hrr import OUT_HOLES
from cases.hrr_errors import outs
from torch_hrr import field
from torch_hrr._plain import field as plain

ops = torch.ops.torch_hrr

Shape = tuple[int, ...]
NAN, INF = float("nan"), float("inf")
BOUNDARIES = ("replicate", "zeros", "circular")
STENCILS = ("laplace", "box", "binomial")
FIELD = TensorArgument("field", "DHWC")
NUMBERS = (TensorArgument("decay", "", batched=False), TensorArgument("diffusion", "", batched=False))
UNCAST = {"autocast": Hole("the state of a field keeps its dtype, so nothing is cast")}
# The operator without a gradient of decay and diffusion, and with.
RATES = {"decay": 0.1, "diffusion": 0.15}
TENSOR_RATES: dict[str, Callable[[Tensor], Tensor]] = {
    "decay": lambda x: x.sigmoid(),
    "diffusion": lambda x: x.sigmoid() / 7 + 0.01,
}
# Axes of one and two elements; channels that fill no vector, one, and more; widths around whole vectors.
SHAPES: tuple[Shape, ...] = (
    (1, 1, 1, 1),
    (2, 2, 2, 1),
    (1, 2, 3, 5),
    (3, 1, 2, 16),
    (2, 3, 1, 17),
    (4, 3, 5, 1),
    (3, 2, 16, 1),
    (2, 2, 35, 1),
    (2, 3, 19, 2),
    (3, 4, 5, 33),
    (2, 5, 4, 64),
    (2, 3, 4, 5, 3),
    (2, 1, 2, 3, 2, 4),
    (9, 33, 7, 3),
)


def call(id: str, *shape: int, tensors: bool = False, **options: Any) -> Sample:
    scheme = {"steps": 1, "boundary": "replicate", "stencil": "laplace", "noise": 0.0, "key": None}
    if tensors:
        return Sample(id, {"field": shape, "decay": (), "diffusion": ()}, scheme | options, adjust=TENSOR_RATES)
    return Sample(id, {"field": shape}, RATES | scheme | options)


def samples(tensors: bool) -> tuple[Sample, ...]:
    def make(id: str, *shape: int, **options: Any) -> Sample:
        return call(id, *shape, tensors=tensors, **options)

    schemes = list(itertools.product(BOUNDARIES, STENCILS))
    rates = (
        {"no-decay": {"decay": 0.0}, "all-decay": {"decay": 1.0}, "still": {"diffusion": 0.0}}
        | {"most-laplace": {"diffusion": 1 / 6}, "most-box": {"diffusion": 1.0, "stencil": "box"}}
        | {"most-binomial": {"diffusion": 1.0, "stencil": "binomial"}}
    )
    return (
        *(
            make(f"{'x'.join(map(str, shape))}-{boundary}-{stencil}", *shape, boundary=boundary, stencil=stencil)
            for shape in SHAPES
            for boundary, stencil in schemes
        ),
        *(
            make(f"steps{steps}-{boundary}-{stencil}", 4, 3, 6, 5, steps=steps, boundary=boundary, stencil=stencil)
            for steps, (boundary, stencil) in zip((0, 2, 3, 5, 7, 2, 3, 4, 6), schemes, strict=True)
        ),
        *(make(id, 3, 4, 5, 6, **changes) for id, changes in ({} if tensors else rates).items()),
        make("empty", 0, 2, 3, 2, 4),
        make("empty-depth", 2, 0, 3, 2, 4, steps=2),
        make("empty-width", 3, 2, 0, 4, stencil="box"),
        make("no-channels", 3, 2, 2, 0),
    )


def lane_samples(tensors: bool) -> tuple[Sample, ...]:
    def make(id: str, *shape: int, **options: Any) -> Sample:
        return call(id, *shape, tensors=tensors, **options)

    return (
        make("one", 2, 2, 3, 2),
        make("batch", 2, 2, 1, 2, 3, steps=2),
        make("zeros", 2, 1, 3, 2, boundary="zeros", stencil="box"),
        make("circular", 3, 2, 2, 1, boundary="circular", stencil="binomial", steps=3),
        make("no-steps", 1, 2, 2, 2, steps=0),
        make("empty", 0, 2, 2, 2, 2),
    )


def result_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    return (tuple(arguments["field"].shape),)


def bad_numbers(table: Table, tensors: bool) -> None:
    fractions = (-0.1, 1.1, NAN, INF, -INF)
    laplace = (-0.1, 0.1667, 0.5, NAN, INF)
    for name, requirement, values, options in (
        ("decay", "decay must be in [0, 1], got ", fractions, {}),
        (
            "diffusion",
            "diffusion must be in [0, 1/6] with stencil 'laplace', which is unstable beyond, got ",
            laplace,
            {},
        ),
        ("diffusion", "diffusion must be in [0, 1] with stencil 'box', got ", fractions, {"stencil": "box"}),
        ("diffusion", "diffusion must be in [0, 1] with stencil 'binomial', got ", fractions, {"stencil": "binomial"}),
    ):
        for value in values:
            # Comparing what was given afterwards would find that NaN differs: tests/field/test_evolve.py.
            if tensors and value != value:
                continue
            changes = options | {name: torch.tensor(value, dtype=torch.float64) if tensors else value}
            table.add(
                name,
                "-".join((*options.values(), f"{value:g}")),
                lambda _, c=changes: c,
                ValueError,
                re.escape(f"{requirement}{value:g}"),
                # A meta tensor has no value.
                ("as-made",) if tensors else ("cpu", "meta"),
            )


def bad_options(table: Table, has_steps: bool = True) -> None:
    for value in (-1, -(2**63)) if has_steps else ():
        table.replace("steps", str(value), lambda _, v=value: v, ValueError, f"steps must be at least 0, got {value}")
    text = "boundary must be 'replicate', 'zeros' or 'circular', got 'reflect'"
    table.replace("boundary", "unknown", lambda _: "reflect", ValueError, text)
    text = "stencil must be 'laplace', 'box' or 'binomial', got 'Laplace'"
    table.replace("stencil", "unknown", lambda _: "Laplace", ValueError, text)
    for value in (-1.0, NAN, INF):
        text = f"noise must be a finite number >= 0, got {value:g}"
        table.replace("noise", f"{value:g}", lambda _, v=value: v, ValueError, text)
    for dtype, word in ((torch.float32, "Float"), (torch.int32, "Int"), (torch.bool, "Bool")):
        text = f"key must be uint64 or int64, got {word}"
        table.replace("key", word, lambda _, t=dtype: torch.zeros(2, dtype=t), TypeError, text)
    for shape in ((), (1,), (3,), (1, 2)):
        text = re.escape(f"key must have sizes [2] (seed, offset), got {list(shape)}")
        table.replace("key", f"shape-{shape}", lambda _, s=shape: torch.zeros(s, dtype=torch.int64), ValueError, text)
    for here, there in (("cpu", "meta"), ("meta", "cpu")):
        text = f"field and key must be on the same device, got {here} and {there}"
        changes = {"key": torch.zeros(2, dtype=torch.int64, device=there)}
        table.add(
            "key",
            f"on-{there}",
            lambda a, c=changes, h=here: {n: x.to(h) for n, x in a.items() if isinstance(x, Tensor)} | c,
            RuntimeError,
            text,
            ("as-made",),
        )


def number(table: Table, name: str) -> None:
    """A tensor without dimensions, which may be on the CPU beside a field elsewhere."""
    for dtype, word in ((torch.int64, "Long"), (torch.bool, "Bool"), (torch.complex64, "ComplexFloat")):
        text = f"{name} must be float32, float64, float16 or bfloat16, got {word}"
        table.replace(name, f"{dtype}".removeprefix("torch."), lambda x, t=dtype: x.to(t), TypeError, text)
    strided = f"{name} must be a strided tensor, got layout"
    table.replace(name, "sparse", Tensor.to_sparse, TypeError, f"{strided} Sparse")
    table.replace(name, "nested", lambda x: nested(x[None]), TypeError, f"{strided} nested", ("cpu",))
    table.replace(name, "quantized", quantized, TypeError, f"{name} must not be quantized, got QInt8", ("cpu",))
    table.replace(name, "rank", lambda x: x[None], ValueError, f"{name} must have 0 dimensions, got 1")
    text = f"field and {name} must be on the same device, got cpu and meta"
    table.replace(name, "on-meta-beside-cpu", lambda x: x.to("meta"), RuntimeError, text, ("as-made",))


def errors(tensors: bool, out: Shape | None) -> tuple[ErrorInput, ...]:
    good = call("good", 3, 2, 2, 4, tensors=tensors)
    table = Table("field_evolve", (FIELD,), good, out)
    unsupported_tensors(table, "field")
    rank = re.escape("field must have at least 4 dimensions [..., D, H, W, C], got 3")
    table.replace("field", "rank", lambda x: x[0], ValueError, rank)
    overflow = re.escape("the result must have fewer than 2^60 elements, got sizes")
    table.replace("field", "overflow", lambda _: repeated((2**57, 2, 2, 4)), ValueError, overflow)
    bad_numbers(table, tensors)
    bad_options(table)
    if tensors:
        for name in ("decay", "diffusion"):
            number(table, name)
    if out is not None:
        outs(table, "field")
    return tuple(table.errors)


def case(op: Any, tensors: bool, **fields: Any) -> OpCase:
    arguments = (FIELD, *NUMBERS) if tensors else (FIELD,)
    common: dict[str, Any] = {
        "name": "field_evolve",
        "op": op,
        "arguments": arguments,
        "oracle": oracle.field_evolve,
        "magnitude": oracle.field_evolve_scale,
        "plain": plain.evolve,
        "result_sizes": result_sizes,
        "samples": samples(tensors),
        "lane_samples": lane_samples(tensors),
        "sized": lambda batch, _, dim: call(f"{batch}x{dim}", batch, 2, 1, 2, dim, tensors=tensors),
        "differentiable": tuple(argument.name for argument in arguments),
        "wrapper": field.evolve,
        "typed_by": lambda arguments: arguments["field"].dtype,
        # The element itself and its neighbours in depth and width of the calls that `sized` makes.
        "elementwise": ("field",),
        "reach": 3,
        "uncast": tuple(argument.name for argument in arguments),
        "holes": UNCAST,
        "errors": errors(tensors, None),
    }
    return OpCase(**(common | fields))


CASES = (
    case(ops.field_evolve.Tensor, True),
    case(ops.field_evolve.default, False, unread=("field",)),
    case(
        ops.field_evolve.out,
        False,
        functional=ops.field_evolve.default,
        differentiable=(),
        holes=OUT_HOLES,
        errors=errors(False, (3, 2, 2, 4)),
    ),
)
