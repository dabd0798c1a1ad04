"""The cases of steps of some planes of a field."""

from __future__ import annotations

import itertools
import re
from typing import Any

import torch
from torch import Tensor

from cases import field_oracle as oracle
from cases.base import ErrorInput, Hole, OpCase, Sample, row_norm
from cases.errors import Table, unsupported_tensors
from cases.field import BOUNDARIES, FIELD, RATES, STENCILS, UNCAST, Shape, bad_numbers, bad_options, result_sizes
from cases.hrr import OUT_HOLES
from cases.hrr_errors import outs
from torch_hrr._plain import field as plain

ops = torch.ops.torch_hrr
PLACE = {"origin": 2, "depth": 40, "boundary": "replicate", "stencil": "laplace", "noise": 0.0, "key": None}
NO_DERIVATIVE = Hole("the whole field has one: its parts are no functions of their own", "has no derivative")
SHAPES: tuple[Shape, ...] = ((3, 1, 1, 1), (2, 2, 3, 4), (4, 3, 5, 1), (3, 2, 19, 2), (2, 5, 4, 7, 17), (7, 2, 3, 64))


def call(id: str, *shape: int, **options: Any) -> Sample:
    return Sample(id, {"field": shape}, RATES | PLACE | options)


def between(field: Tensor, stepped: Tensor) -> Tensor:
    """The first and the last plane as they were."""
    return torch.cat((field.narrow(-4, 0, 1), stepped[..., 1:-1, :, :, :], field.narrow(-4, -1, 1)), -4)


def part_oracle(field: Tensor, decay, diffusion, origin, depth, boundary, stencil, noise, key) -> Tensor:
    return between(field, oracle.field_evolve(field, decay, diffusion, 1, boundary, stencil, noise, key))


def part_scale(field: Tensor, **options) -> Tensor:
    return row_norm(part_oracle(field.abs(), **options))


def part_plain(field: Tensor, decay, diffusion, origin, depth, boundary, stencil, noise, key) -> Tensor:
    return between(field, plain.evolve(field, decay, diffusion, 1, boundary, stencil, noise, key))


def samples() -> tuple[Sample, ...]:
    return (
        *(
            call(f"{'x'.join(map(str, shape))}-{boundary}-{stencil}", *shape, boundary=boundary, stencil=stencil)
            for shape, boundary, stencil in itertools.product(SHAPES, BOUNDARIES, STENCILS)
        ),
        call("whole", 6, 2, 3, 4, origin=0, depth=4),
        call("last", 6, 2, 3, 4, origin=36),
        call("empty", 0, 3, 2, 2, 4),
    )


def errors(out: Shape | None) -> tuple[ErrorInput, ...]:
    table = Table("_field_evolve_part", (FIELD,), call("good", 3, 2, 2, 4), out)
    unsupported_tensors(table, "field")
    bad_numbers(table, False)
    bad_options(table, has_steps=False)
    rank = re.escape("field must have at least 4 dimensions [..., D, H, W, C], got 3")
    table.replace("field", "rank", lambda x: x[0], ValueError, rank)
    table.replace("field", "one-plane", lambda x: x[:1], ValueError, "field must have at least 2 planes, got 1")
    for origin in (-1, 40, 2**63 - 1, -(2**63)):
        text = re.escape(f"origin must be at least 0 and the planes within the depth 40, got {origin} and 1")
        table.replace("origin", f"{origin}", lambda _, v=origin: v, ValueError, text)
    text = re.escape("origin must be at least 0 and the planes within the depth -9223372036854775808, got 2 and 1")
    table.replace("depth", "least", lambda _: -(2**63), ValueError, text)
    overflow = re.escape("the result must have fewer than 2^60 elements, got sizes")
    table.replace("depth", "overflow", lambda _: 2**63 - 1, ValueError, overflow)
    if out is not None:
        outs(table, "field")
    return tuple(table.errors)


def case(op: Any, **fields: Any) -> OpCase:
    common: dict[str, Any] = {
        "name": "_field_evolve_part",
        "op": op,
        "arguments": (FIELD,),
        "oracle": part_oracle,
        "magnitude": part_scale,
        "plain": part_plain,
        "result_sizes": result_sizes,
        "samples": samples(),
        "lane_samples": (
            call("one", 3, 2, 3, 2),
            call("batch", 2, 4, 1, 2, 3, boundary="zeros", stencil="box"),
            call("neighbours-alone", 2, 2, 2, 1),
        ),
        "sized": lambda batch, _, dim: call(f"{batch}x{dim}", batch, 3, 1, 2, dim),
        "typed_by": lambda arguments: arguments["field"].dtype,
        "elementwise": ("field",),
        # Those given are in the result too, and reach no element but that beside them.
        "reach": 2,
        "uncast": ("field",),
        "holes": UNCAST | {"gradient": NO_DERIVATIVE, "func": NO_DERIVATIVE},
        "errors": errors(None),
    }
    return OpCase(**(common | fields))


CASES = (
    case(ops._field_evolve_part.default),
    case(
        ops._field_evolve_part.out,
        functional=ops._field_evolve_part.default,
        holes=OUT_HOLES,
        errors=errors((3, 2, 2, 4)),
    ),
)
