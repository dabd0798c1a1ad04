"""The cases of rotations by positions."""

from __future__ import annotations

import functools
import re
from typing import Any

import torch
from torch import Tensor

from cases import encoding_oracle as oracle
from cases.base import Arguments, ErrorInput, Hole, OpCase, Sample, TensorArgument
from cases.encoding_errors import NAN, OVERFLOW, not_of
from cases.errors import Table, bad_numbers, devices, repeated, unsupported_tensors
from cases.hrr import OUT_HOLES
from cases.hrr_errors import outs
from torch_hrr import encoding
from torch_hrr._plain import encoding as plain

ops = torch.ops.torch_hrr

Shape = tuple[int, ...]
ARGUMENTS = (
    TensorArgument("x", "D"),
    TensorArgument("positions", "", takes_integers=True),
    TensorArgument("frequencies", "F", optional=True, batched=False),
)
LAYOUT = "interleaved"
OPTIONS: dict[str, Any] = {
    "base": 10000.0, "scale": 1.0, "layout": LAYOUT, "factor": 1.0, "dims": None, "inverse": False,
}  # fmt: skip
HALF = {"layout": "half"}
BACK = {"inverse": True}
KEEPS = {"autocast": Hole("the result has the dtype of x: nothing is cast")}


def call(id: str, rows: Shape, positions: Shape, dim: int = 6, held: int | None = None, **changes: Any) -> Sample:
    options = OPTIONS | changes.pop("options", {})
    shapes = {"x": (*rows, dim), "positions": positions, "frequencies": None if held is None else (held,)}
    return Sample(id, shapes, options, **changes)


def times(factor: float) -> dict[str, Any]:
    return {"positions": lambda x: x * factor}


def rotate(
    x: Tensor,
    positions: Tensor,
    frequencies: Tensor | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    layout: str = "interleaved",
    factor: float = 1.0,
    dims: int | None = None,
    inverse: bool = False,
) -> Tensor:
    """By complex numbers: a pair (s, c) as c + i s, times factor e^(i a), from sines and cosines of exact angles."""
    if frequencies is None:
        turned = x.shape[-1] if dims is None else dims
        waves = oracle.sinusoidal_encoding(positions, turned, base, scale, 0.0, "half")
    else:
        turned = 2 * frequencies.shape[0]
        waves = oracle.sinusoidal_features(positions, frequencies, None, "half")
    count = turned // 2
    sine, cosine = waves[..., :count], waves[..., count:]
    by = factor * torch.complex(cosine, -sine if inverse else sine)
    order = torch.arange(turned)
    order = order.reshape(2, count) if layout == "half" else order.reshape(count, 2).T
    pairs = by * torch.complex(x[..., order[1]], x[..., order[0]])
    back = torch.argsort(order.reshape(-1))
    rows = torch.cat((pairs.imag, pairs.real), -1)[..., back]
    return torch.cat((rows, x[..., turned:].expand(*rows.shape[:-1], x.shape[-1] - turned)), -1)


@functools.wraps(encoding.rotate)
def either_way(
    x: Tensor, positions: Tensor, *others: Any, frequencies: Tensor | None = None, out: Any = None, **named: Any
) -> Tensor:
    """The two Python functions as the operator takes its arguments."""
    given = dict(zip(("frequencies", *OPTIONS), others, strict=False)) | named
    given.setdefault("frequencies", frequencies)
    turn = encoding.rope if given.pop("inverse", False) else encoding.rotate
    return turn(x, positions, out=out, **given)


def sizes(arguments: Arguments) -> tuple[Shape, ...]:
    x, positions = arguments["x"], arguments["positions"]
    return ((*torch.broadcast_shapes(x.shape[:-1], positions.shape), x.shape[-1]),)


# Around whole vectors of every type on every instruction set, and beyond a block of places.
WIDTHS = (0, 2, 4, 6, 14, 16, 18, 30, 32, 34, 62, 64, 66, 128, 256, 514, 1026)
MANY = (2, 1, 2, 1, 2, 1, 2, 1, 2, 1)
SAMPLES = (
    *(call(f"dim{d}", (3,), (3,), d, options=HALF if i % 2 else BACK) for i, d in enumerate(WIDTHS)),
    *(call(f"half-dim{d}", (2, 3), (3,), d, options=HALF | BACK) for d in (2, 8, 32, 64, 100)),
    *(call(f"part{d}-of-{n}", (2, 3), (3,), n, options={"dims": d, "layout": layout, "factor": 0.7})
      for d, n, layout in ((0, 5, "half"), (2, 3, "half"), (32, 80, "half"), (6, 7, LAYOUT), (32, 70, LAYOUT))),
    *(call(f"held{f}-of-{n}", (2, 3), (3,), n, held=f, options={"layout": layout})
      for f, n, layout in ((0, 3, "half"), (3, 6, "half"), (3, 6, LAYOUT), (16, 33, "half"), (200, 400, LAYOUT))),
    *(call(f"at-{n:g}", (40,), (40,), 16, adjust=times(n), dtypes=(torch.float32, torch.float64)) for n in (1e2, 1e4)),
    call("integers", (40,), (40,), 34, integers={"positions": 10_000}),
    call("ladder", (3,), (3,), options={"base": 3.0, "scale": -0.7, "factor": -2.5} | HALF),
    call("scalar", (), ()),
    call("empty", (0,), (0,)),
    call("empty-inside", (2, 0, 3), (3,)),
    call("one-position", (2, 3), ()),
    call("heads-before", (2, 4, 3), (2, 1, 3), 64),
    call("heads-after", (2, 3, 4), (2, 3, 1), 64),
    call("between", (2, 3, 4, 5), (1, 3, 1, 5), 16),
    call("batch-and-heads", (2, 3, 4), (3, 1), 16),
    call("more-positions", (1, 3), (4, 1), 16),
    call("few-of-many", (700,), (1,), 64),
    call("ten-dimensions", MANY, MANY, 4),
)  # fmt: skip
LANES = (
    call("row", (3,), (3,)),
    call("batch", (2, 3), (3,), options=HALF),
    call("heads-after", (2, 3, 2), (2, 3, 1), 4, options=BACK),
    call("more-positions", (1, 3), (2, 1), 4),
    call("part", (3,), (3,), 7, options={"dims": 4, "factor": 1.5, "base": 9.0, "scale": -0.3}),
    call("part-half", (3,), (3,), 7, options={"dims": 4, "factor": 1.5} | HALF | BACK),
    call("held", (2, 3), (3,), 6, held=3),
    call("held-half", (3,), (3,), 5, held=2, options=HALF | BACK),
    call("integers", (2, 3), (3,), 4, integers={"positions": 100}),
    call("scalar", (), (), 4),
    call("no-columns", (3,), (3,), 0),
    call("empty", (0,), (0,), 4),
)


def errors(out: Shape | None) -> tuple[ErrorInput, ...]:
    table = Table("rotate", ARGUMENTS, call("good", (3,), (3,), 8), out)
    held = Table("rotate", ARGUMENTS, call("good", (3,), (3,), 8, held=4), out)
    devices(table, "positions", "x")
    devices(held, "frequencies", "x")
    # Without positions the Python function counts them.
    undefined = "x must be a defined tensor, got an undefined one"
    table.replace("x", "undefined", lambda _: None, TypeError, undefined)
    unsupported_tensors(table, "x")
    unsupported_tensors(held, "frequencies")
    not_of(
        table, "positions", "integers, float32, float64, float16 or bfloat16",
        {torch.bool: "Bool", torch.complex64: "ComplexFloat"},
    )  # fmt: skip
    rank = re.escape("x must have at least 1 dimension [..., D], got 0")
    table.replace("x", "rank", lambda x: x.reshape(-1)[0], ValueError, rank)
    odd = "x must have a last dimension that is even, unless dims says how much of it turns, got 7"
    table.replace("x", "odd", lambda x: x[..., :7], ValueError, odd)
    apart = r"x and positions must broadcast, got sizes \d+ and \d+ at dimension \d+"
    table.replace("positions", "not-broadcastable", lambda x: x.repeat(2), ValueError, apart)
    large = {"x": repeated((2**58, 8)), "positions": repeated((2**58,))}
    table.add("positions", "overflow", lambda _: large, ValueError, OVERFLOW)
    numbers = {"base": ("finite and above 0", (0.0, -2.0, NAN)), "scale": ("finite", (NAN, -float("inf")))}
    bad_numbers(table, numbers)
    far = re.escape("scale base^(-2i/dim) must be at most 2^60 for every i, got ")
    table.replace("scale", "frequency", lambda _: 2.0**61, ValueError, far)
    for value, got in ((NAN, "nan"), (float("inf"), "inf"), (1e39, r"1e\+39")):
        table.replace("factor", got, lambda _, v=value: v, ValueError, f"factor must be finite, got {got} for float32")
    for value in (-2, 3):
        table.replace(
            "dims", f"{value}", lambda _, v=value: v, ValueError, f"dims must be even and at least 0, got {value}"
        )
    wide = "x must have a last dimension of at least 10, the elements that turn, got 8"
    table.replace("dims", "wide", lambda _: 10, ValueError, wide)
    table.replace(
        "layout", "unknown", lambda _: "Half", ValueError, "layout must be 'interleaved' or 'half', got 'Half'"
    )
    held.replace("frequencies", "more", lambda x: torch.cat((x, x[:1])), ValueError, wide)
    for shape, rank in (((), 0), ((2, 4), 2)):
        message = re.escape(f"frequencies must have 1 dimension [F], got {rank}")
        held.replace(
            "frequencies", "rank" if rank == 0 else "rank-2", lambda _, s=shape: torch.zeros(s), ValueError, message
        )
    twice = "dims must be twice the number of frequencies, 4, got 6"
    held.replace("dims", "other", lambda _: 6, ValueError, twice)
    left = "base and scale must be left at 10000 and 1 beside frequencies, got"
    held.replace("base", "beside", lambda _: 2.0, ValueError, left)
    held.replace("scale", "beside", lambda _: 2.0, ValueError, left)
    if out is not None:
        outs(held, "x")
    return (*table.errors, *held.errors)


def case(op: Any, out: Shape | None, **fields: Any) -> OpCase:
    return OpCase(
        name="rotate",
        op=op,
        arguments=ARGUMENTS,
        oracle=rotate,
        plain=plain.rotate,
        result_sizes=sizes,
        samples=SAMPLES,
        lane_samples=LANES,
        sized=lambda batch, _, dim: call(f"{batch}x{dim}", (batch,), (batch,), dim + dim % 2, held=(dim + 1) // 2),
        errors=errors(out),
        wrapper=either_way,
        uncast=tuple(argument.name for argument in ARGUMENTS),
        typed_by=lambda arguments: arguments["x"].dtype,
        elementwise=("x",),
        reach=2,
        **fields,
    )


CASES = (
    case(ops.rotate.default, None, differentiable=("x", "positions", "frequencies"), holes=KEEPS),
    case(ops.rotate.out, (3, 8), functional=ops.rotate.default, differentiable=(), holes=OUT_HOLES),
)
