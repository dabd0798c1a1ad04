"""The cases of the moments that a field's metrics are made of."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor

from cases.base import Arguments, ErrorInput, Hole, OpCase, Sample, TensorArgument, row_norm
from cases.errors import Table, repeated, unsupported_tensors
from cases.field import UNCAST, Shape
from cases.hrr import OUT_HOLES
from cases.hrr_errors import outs
from torch_hrr._plain import field as plain

ops = torch.ops.torch_hrr
PLACES = TensorArgument("field", "NC")
BLOCK = 64
NO_DERIVATIVE = Hole("what a brain reports of itself has no gradient", "has no derivative")
SHAPES: tuple[Shape, ...] = ((1, 1), (64, 1), (65, 3), (63, 16), (2, 17), (130, 33), (200, 64), (70, 100), (3, 66, 5))


def call(id: str, *shape: int) -> Sample:
    # A number that every dtype holds.
    return Sample(id, {"field": shape}, {"small": 0.5})


def gathered(field: Tensor, block_of: Any) -> Tensor:
    """block_of(block, its places) for every block, of the four moments."""
    count = -(-field.shape[-2] // BLOCK)
    blocks = [block_of(field[..., i * BLOCK : (i + 1) * BLOCK, :]) for i in range(count)]
    return torch.stack(blocks, -3) if blocks else field.new_zeros((*field.shape[:-2], 0, 4, field.shape[-1]))


def moments(field: Tensor, small: float) -> Tensor:
    def block_of(block: Tensor) -> Tensor:
        mean = block.mean(-2)
        squares = (block * block).mean(-2) - mean * mean
        below = ((block > -small) & (block < small)).double().sum(-2)
        return torch.stack((mean, block.shape[-2] * squares, block.abs().amax(-2), below), -2)

    return gathered(field, block_of)


def moments_scale(field: Tensor, small: float) -> Tensor:
    def block_of(block: Tensor) -> Tensor:
        size = block.abs()
        bound = size.mean(-2)
        return torch.stack((bound, (size + bound.unsqueeze(-2)).square().sum(-2), size.amax(-2), bound), -2)

    return row_norm(gathered(field, block_of))


def result_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    shape = arguments["field"].shape
    return ((*shape[:-2], -(-shape[-2:-1].numel() // BLOCK), 4, *shape[-1:]),)


def errors(out: Shape | None) -> tuple[ErrorInput, ...]:
    table = Table("_field_moments", (PLACES,), call("good", 3, 4), out)
    unsupported_tensors(table, "field")
    rank = re.escape("field must have at least 2 dimensions [..., places, channels], got 1")
    table.replace("field", "rank", lambda x: x[0], ValueError, rank)
    overflow = re.escape("the result must have fewer than 2^60 elements, got sizes")
    table.replace("field", "overflow", lambda _: repeated((2**57, 2, 4)), ValueError, overflow)
    for value in (-0.1, float("nan")):
        text = f"small must be at least 0, got {value:g}"
        table.replace("small", f"{value:g}", lambda _, v=value: v, ValueError, text)
    if out is not None:
        outs(table, "field")
    return tuple(table.errors)


def case(op: Any, **fields: Any) -> OpCase:
    common: dict[str, Any] = {
        "name": "_field_moments",
        "op": op,
        "arguments": (PLACES,),
        "oracle": moments,
        "magnitude": moments_scale,
        "plain": plain.moments,
        "result_sizes": result_sizes,
        "samples": (
            *(call("x".join(map(str, shape)), *shape) for shape in SHAPES),
            *(call(f"empty-{'x'.join(map(str, shape))}", *shape) for shape in ((0, 5, 3), (2, 0, 3), (5, 0))),
        ),
        "lane_samples": (call("one", 5, 3), call("batch", 2, 66, 2)),
        "sized": lambda batch, items, dim: call(f"{batch}x{items}x{dim}", batch, items, dim),
        "typed_by": lambda arguments: torch.promote_types(arguments["field"].dtype, torch.float32),
        # The mean, the deviations and the largest of its own channel.
        "elementwise": ("field",),
        "reach": 3,
        "uncast": ("field",),
        "holes": UNCAST | {"gradient": NO_DERIVATIVE, "func": NO_DERIVATIVE},
        "errors": errors(None),
    }
    return OpCase(**(common | fields))


CASES = (
    case(ops._field_moments.default),
    case(
        ops._field_moments.out,
        functional=ops._field_moments.default,
        holes=OUT_HOLES,
        errors=errors((1, 4, 4)),
    ),
)
