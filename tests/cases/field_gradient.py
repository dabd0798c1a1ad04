"""The cases of the gradients of fields."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from cases import field_oracle as oracle
from cases.base import Arguments, ErrorInput, OpCase, Sample, TensorArgument
from cases.errors import Table, repeated, unsupported_tensors
from cases.field import FIELD, SHAPES, UNCAST, Shape
from cases.hrr import OUT_HOLES
from cases.hrr_errors import outs
from torch_hrr import field
from torch_hrr._plain import field as plain

ops = torch.ops.torch_hrr
DERIVATIVES = TensorArgument("derivatives", "XDHWC")
AXES = 3


def call(argument: str, id: str, *shape: int, normalize: bool = True) -> Sample:
    shape = (*shape[:-4], AXES, *shape[-4:]) if argument == "derivatives" else shape
    return Sample(id, {argument: shape}, {"normalize": normalize})


def samples(argument: str) -> tuple[Sample, ...]:
    return (
        *(call(argument, "x".join(map(str, shape)), *shape, normalize=i % 3 != 1) for i, shape in enumerate(SHAPES)),
        call(argument, "empty", 0, 2, 3, 2, 4),
        call(argument, "empty-depth", 2, 0, 3, 2, 4),
        call(argument, "no-channels", 3, 2, 2, 0),
    )


def lane_samples(argument: str) -> tuple[Sample, ...]:
    return (
        call(argument, "one", 2, 2, 3, 2),
        call(argument, "batch", 2, 2, 1, 3, 3),
        call(argument, "as-weights", 3, 2, 2, 1, normalize=False),
        call(argument, "empty", 0, 2, 2, 2, 2),
    )


def errors(name: str, argument: TensorArgument, out: Shape | None) -> tuple[ErrorInput, ...]:
    own = argument.name
    table = Table(name, (argument,), call(own, "good", 3, 2, 2, 4), out)
    unsupported_tensors(table, own)
    dims, layout = (4, "[..., D, H, W, C]") if own == "field" else (5, "[..., 3, D, H, W, C]")
    rank = re.escape(f"{own} must have at least {dims} dimensions {layout}, got {dims - 1}")
    table.replace(own, "rank", lambda x: x[0], ValueError, rank)
    overflow = re.escape("the result must have fewer than 2^60 elements, got sizes")
    large = (2**57, 2, 2, 4) if own == "field" else (3, 2**57, 2, 2, 4)
    table.replace(own, "overflow", lambda _: repeated(large), ValueError, overflow)
    if own == "derivatives":
        axes = re.escape("derivatives must have 3 in [..., 3, D, H, W, C], got 2")
        table.replace(own, "two-axes", lambda x: x[:2], ValueError, axes)
    if out is not None:
        outs(table, own)
    return tuple(table.errors)


def with_axes(shape: Shape) -> Shape:
    return (*shape[:-4], AXES, *shape[-4:])


def without_axes(shape: Shape) -> Shape:
    return (*shape[:-5], *shape[-4:])


def case(name: str, op: Any, argument: TensorArgument, resize: Callable[[Shape], Shape], **fields: Any) -> OpCase:
    def result_sizes(arguments: Arguments) -> tuple[Shape, ...]:
        return (resize(tuple(arguments[argument.name].shape)),)

    common: dict[str, Any] = {
        "name": name,
        "op": op,
        "arguments": (argument,),
        "result_sizes": result_sizes,
        "samples": samples(argument.name),
        "lane_samples": lane_samples(argument.name),
        "sized": lambda batch, _, dim: call(argument.name, f"{batch}x{dim}", batch, 2, 1, 2, dim),
        "differentiable": (argument.name,),
        "typed_by": lambda arguments: arguments[argument.name].dtype,
        "elementwise": (argument.name,),
        "uncast": (argument.name,),
        "holes": UNCAST,
        "errors": errors(name, argument, None),
    }
    return OpCase(**(common | fields))


def with_out(name: str, resize: Callable[[Shape], Shape], **fields: Any) -> tuple[OpCase, OpCase]:
    op = getattr(ops, name)
    return (
        case(name, op.default, FIELD, resize, **fields),
        case(
            name,
            op.out,
            FIELD,
            resize,
            **fields
            | {"functional": op.default, "differentiable": (), "unread": (), "holes": OUT_HOLES}
            | {"errors": errors(name, FIELD, resize((3, 2, 2, 4)))},
        ),
    )


CASES = (
    *with_out(
        "field_gradient",
        with_axes,
        oracle=oracle.field_gradient,
        magnitude=oracle.field_gradient_scale,
        plain=plain.gradient,
        wrapper=field.gradient,
        unread=("field",),
        reach=12,
    ),
    case(
        "_field_gradient_backward",
        ops._field_gradient_backward.default,
        DERIVATIVES,
        without_axes,
        oracle=oracle.field_gradient_backward,
        magnitude=oracle.field_gradient_backward_scale,
        plain=plain.gradient_backward,
        unread=("derivatives",),
        reach=4,
    ),
    *with_out(
        "gradient_magnitude",
        lambda shape: shape,
        oracle=oracle.gradient_magnitude,
        magnitude=oracle.gradient_magnitude_scale,
        plain=plain.gradient_magnitude,
        wrapper=field.gradient_magnitude,
        reach=4,
    ),
)
