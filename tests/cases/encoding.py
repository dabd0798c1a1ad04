"""The cases of the sinusoidal encodings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from cases import encoding_oracle as oracle
from cases.base import Arguments, OpCase, Sample, TensorArgument, row_norm
from cases.encoding_errors import errors
from cases.hrr import BACKWARD_HOLES, OUT_HOLES
from torch_hrr import encoding
from torch_hrr._plain import encoding as plain

ops = torch.ops.torch_hrr

Shape = tuple[int, ...]
# Around whole vectors of every type on every instruction set, and beyond a block of rows.
DIMS = (0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 512, 2049)
LAYOUTS = ("interleaved", "half")
WIDE = (torch.float32, torch.float64)
LADDER = {"base": 10000.0, "scale": 1.0, "phase": 0.0}
POSITIONS = TensorArgument("positions", "", takes_integers=True)
ENCODING = (POSITIONS,)
FEATURES = (
    POSITIONS,
    TensorArgument("frequencies", "F", batched=False),
    TensorArgument("phase", "F", optional=True, batched=False),
)
BACKWARD = (TensorArgument("grad", "D"), *FEATURES)
EMBEDDING = (
    TensorArgument("tokens", "L", takes_integers=True),
    TensorArgument("table", "VD", batched=False),
    TensorArgument("positions", "", optional=True, takes_integers=True),
)
# Farther ones, where float64 results lose digits: tests/encoding/test_sinusoids.py.
FAR: Mapping[str, float] = {"100": 1e2, "10000": 1e4}


def far(factor: float) -> dict[str, Callable[[Tensor], Tensor]]:
    return {"positions": lambda x: x * factor}


def call(id: str, *shape: int, dim: int = 6, **changes: Any) -> Sample:
    options = {"dim": dim} | LADDER | {"layout": "interleaved", "dtype": None} | changes.pop("options", {})
    return Sample(id, {"positions": shape}, options, **changes)


def features(id: str, *shape: int, count: int = 3, phase: bool = True, **changes: Any) -> Sample:
    options = {"layout": "interleaved", "dtype": None} | changes.pop("options", {})
    shapes = {"positions": shape, "frequencies": (count,), "phase": (count,) if phase else None}
    return Sample(id, shapes, options, **changes)


def backward(sample: Sample) -> Sample:
    """The gradient of a call of the features; in two samples it broadcasts."""
    positions, count = sample.shapes["positions"], sample.shapes["frequencies"][0]
    leading = {"row": (), "scalar": (2,)}.get(sample.id, positions)
    shapes = {"grad": (*leading, 2 * count)} | dict(sample.shapes)
    return Sample(
        sample.id, shapes, {"layout": sample.options["layout"]}, sample.dtypes, sample.adjust, sample.integers
    )


def embedding(
    id: str, *shape: int, dim: int = 6, rows: int = 11, positions: Shape | None = None, **changes: Any
) -> Sample:
    options = {"padding_idx": -1, "temperature": 1.0} | LADDER | {"layout": "interleaved", "dtype": None}
    shapes = {"tokens": shape, "table": (rows, dim), "positions": positions}
    integers = {"tokens": rows} | changes.pop("integers", {})
    return Sample(id, shapes, options | changes.pop("options", {}), integers=integers, **changes)


def type_of(name: str) -> Callable[[Arguments], torch.dtype]:
    """The dtype that a call asks for, by default that of an argument if it is floating."""

    def typed_by(arguments: Arguments) -> torch.dtype:
        own = arguments[name].dtype
        return arguments.get("dtype") or (own if own.is_floating_point else torch.float32)

    return typed_by


def type_of_gradient(arguments: Arguments) -> torch.dtype:
    return torch.promote_types(arguments["grad"].dtype, torch.float32)


def encoding_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    return ((*arguments["positions"].shape, arguments["dim"]),)


def features_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    return ((*arguments["positions"].shape, 2 * arguments["frequencies"].shape[0]),)


def backward_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    leading = torch.broadcast_shapes(arguments["grad"].shape[:-1], arguments["positions"].shape)
    return ((*leading, arguments["frequencies"].shape[0]),)


def size_of_gradient(grad: Tensor, positions: Tensor, frequencies: Tensor, **options: Any) -> Tensor:
    """Products with sine and cosine may cancel."""
    return row_norm(grad).expand(*torch.broadcast_shapes(grad.shape[:-1], positions.shape), 1)


def embedding_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    given = arguments.get("positions")
    leading = torch.broadcast_shapes(arguments["tokens"].shape, () if given is None else given.shape)
    return ((*leading, arguments["table"].shape[1]),)


def of_every_kind(make: Callable[..., Sample], kinds: Mapping[str, Mapping[str, Any]]) -> list[Sample]:
    return [make(id, 2, 3, options=options) for id, options in kinds.items()]


LADDERS: dict[str, dict[str, Any]] = {
    "base-2": {"base": 2.0},
    "base-below-1": {"base": 0.5},
    "base-1": {"base": 1.0},
    "base-1e300": {"base": 1e300},
    "scale": {"scale": -0.3},
    "scale-0": {"scale": 0.0},
    "scale-large": {"scale": 2.0**20},
    "scale-tiny": {"scale": 1e-30},
    "phase": {"phase": 1.25, "layout": "half"},
    "phase-large": {"phase": -1e5},
}
SHAPES: dict[str, Shape] = {"scalar": (), "row": (5,), "empty": (0,), "empty-inside": (2, 0, 3)}
MANY = (2, 1, 2, 1, 2, 1, 2, 1, 2, 1)

ENCODING_SAMPLES = (
    *(call(f"dim{d}", 3, dim=d, options={"layout": LAYOUTS[i % 2]}) for i, d in enumerate(DIMS)),
    *(call(f"half-dim{d}", 3, dim=d, options={"layout": "half"}) for d in (1, 2, 7, 33, 64)),
    *(call(f"at-{id}", 40, dim=16, adjust=far(factor), dtypes=WIDE) for id, factor in FAR.items()),
    *(call(f"integers-{id}", 40, dim=33, integers={"positions": int(n)}) for id, n in FAR.items()),
    *(call(f"asked-{id}", 40, dim=33, integers={"positions": int(n)}, asks_dtype=True) for id, n in FAR.items()),
    *of_every_kind(call, LADDERS),
    *(call(id, *shape) for id, shape in (SHAPES | {"ten-dimensions": MANY}).items()),
)
ENCODING_LANES = (
    call("row", 3, dim=5),
    call("batch", 2, 3),
    call("half-layout", 2, dim=7, options={"layout": "half"}),
    call("one", 3, dim=1),
    call("scalar"),
    call("scaled", 2, dim=4, options={"base": 3.0, "scale": -0.7, "phase": 0.4}),
    call("asked", 3, asks_dtype=True),
    call("integers", 4, dim=9, integers={"positions": 100}, asks_dtype=True),
    call("no-columns", 3, dim=0),
    call("empty", 0, dim=4),
)
FEATURES_SAMPLES = (
    *(
        features(f"count{n}", 3, count=n, phase=i % 2 == 0, options={"layout": LAYOUTS[i // 2 % 2]})
        for i, n in enumerate((0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 33, 64, 100, 1025))
    ),
    *(features(f"at-{id}", 40, count=9, adjust=far(factor), dtypes=WIDE) for id, factor in FAR.items()),
    *(features(f"asked-{id}", 40, count=9, integers={"positions": int(n)}, asks_dtype=True) for id, n in FAR.items()),
    features("fast", 40, count=9, adjust={"frequencies": lambda x: x * 2.0**17}, dtypes=WIDE),
    features("late", 40, count=9, adjust={"phase": lambda x: x * 1e8}, dtypes=WIDE),
    *(features(id, *shape) for id, shape in (SHAPES | {"ten-dimensions": MANY}).items()),
)
FEATURES_LANES = (
    features("row", 3, phase=False),
    features("batch", 2, 3),
    features("half-layout", 2, count=2, options={"layout": "half"}),
    features("half-layout-alone", 2, count=2, phase=False, options={"layout": "half"}),
    features("scalar"),
    features("one", 2, count=1),
    features("asked", 3, asks_dtype=True),
    features("integers", 4, integers={"positions": 100}, asks_dtype=True),
    features("none", 3, count=0),
    features("empty", 0),
)
EMBEDDING_KINDS: dict[str, dict[str, Any]] = {
    "padding": {"padding_idx": 3},
    "temperature": {"temperature": 0.7},
    "temperature-negative": {"temperature": -4.0, "padding_idx": 0},
    "ladder": {"base": 100.0, "scale": 0.2, "phase": 0.9, "layout": "half"},
}
EMBEDDING_SAMPLES = (
    *(embedding(f"dim{d}", 3, 4, dim=d, options={"layout": LAYOUTS[i % 2]}) for i, d in enumerate(DIMS)),
    *of_every_kind(embedding, EMBEDDING_KINDS),
    *(
        embedding(f"positions-{id}", 2, 4, positions=shape)
        for id, shape in {"last": (4,), "whole": (2, 4), "first": (2, 1), "one": (1,), "number": ()}.items()
    ),
    embedding("positions-more", 2, 1, positions=(3, 1, 4)),
    *(
        embedding(f"integers-{id}", 2, 20, dim=9, positions=(20,), integers={"positions": int(n)}, asks_dtype=True)
        for id, n in FAR.items()
    ),
    embedding("empty", 0, 4),
    embedding("no-length", 2, 0),
    embedding("one-row", 3, rows=1),
    embedding("ten-dimensions", *MANY),
)
EMBEDDING_LANES = (
    embedding("row", 5),
    embedding("batch", 2, 3, positions=(3,)),
    embedding("positions", 2, 3, dim=5, positions=(2, 3)),
    embedding("positions-first", 2, 3, positions=(2, 1)),
    embedding("positions-more", 1, 3, positions=(2, 1, 1)),
    embedding("kinds", 2, 4, rows=4, options=EMBEDDING_KINDS["padding"] | EMBEDDING_KINDS["ladder"]),
    embedding("padding", 6, rows=3, positions=(6,), options={"padding_idx": 1, "temperature": 0.5}),
    embedding("integers", 2, 3, positions=(3,), integers={"positions": 50}),
    embedding("asked", 3, asks_dtype=True),
    embedding("no-columns", 2, dim=0),
    embedding("empty", 0, 3),
)


def features_gradient(
    grad: Tensor, positions: Tensor, frequencies: Tensor, phase: Tensor | None, layout: str
) -> Tensor:
    """By torch's derivative of the plain features: a phase of its own for every position takes the sums apart."""
    grad = grad.expand(*torch.broadcast_shapes(grad.shape[:-1], positions.shape), grad.shape[-1])
    offset = torch.zeros(*grad.shape[:-1], frequencies.shape[0], dtype=torch.float64, requires_grad=True)
    own = offset if phase is None else phase.detach() + offset
    features = plain.sinusoidal_features(positions.detach(), frequencies.detach(), own, layout, torch.float64)
    return torch.autograd.grad(features, offset, grad.double())[0].to(torch.promote_types(grad.dtype, torch.float32))


def cases(
    packet: Any, arguments: tuple[TensorArgument, ...], good: Sample, result: Shape, **fields: Any
) -> tuple[OpCase, ...]:
    """The operator and its out form."""
    name = packet.default._schema.name.split("::")[1]

    def case(op: Any, out: Shape | None, **own: Any) -> OpCase:
        return OpCase(
            name=name,
            op=op,
            arguments=arguments,
            oracle=getattr(oracle, name),
            plain=getattr(plain, name),
            errors=errors(name, arguments, good, out),
            wrapper=getattr(encoding, name),
            uncast=tuple(argument.name for argument in arguments),
            **(fields | own),
        )

    refused = {"functional": packet.default, "differentiable": (), "unread": (), "holes": OUT_HOLES}
    return (case(packet.default, None), case(packet.out, result, **refused))


FEATURES_BACKWARD = OpCase(
    name="_sinusoidal_features_backward",
    op=ops._sinusoidal_features_backward.default,
    arguments=BACKWARD,
    oracle=oracle.sinusoidal_features_backward,
    plain=features_gradient,
    result_sizes=backward_sizes,
    samples=tuple(backward(sample) for sample in FEATURES_SAMPLES),
    lane_samples=tuple(backward(sample) for sample in FEATURES_LANES),
    sized=lambda batch, _, dim: backward(features(f"{batch}x{dim}", batch, count=(dim + 1) // 2)),
    errors=errors("_sinusoidal_features_backward", BACKWARD, backward(features("good", 3, count=4)), None),
    differentiable=("grad", "positions", "frequencies", "phase"),
    elementwise=("grad",),
    # Only a copy of it, a quarter of a turn later.
    unread=("phase",),
    magnitude=size_of_gradient,
    typed_by=type_of_gradient,
    holes=BACKWARD_HOLES,
)


CASES = (
    *cases(
        ops.sinusoidal_encoding,
        ENCODING,
        call("good", 3, dim=8),
        (3, 8),
        result_sizes=encoding_sizes,
        samples=ENCODING_SAMPLES,
        lane_samples=ENCODING_LANES,
        sized=lambda batch, _, dim: call(f"{batch}x{dim}", batch, dim=dim),
        differentiable=("positions",),
        typed_by=type_of("positions"),
    ),
    *cases(
        ops.sinusoidal_features,
        FEATURES,
        features("good", 3, count=4),
        (3, 8),
        result_sizes=features_sizes,
        samples=FEATURES_SAMPLES,
        lane_samples=FEATURES_LANES,
        sized=lambda batch, _, dim: features(f"{batch}x{dim}", batch, count=(dim + 1) // 2),
        differentiable=("positions", "frequencies", "phase"),
        typed_by=type_of("positions"),
    ),
    FEATURES_BACKWARD,
    *cases(
        ops.embed_positions,
        EMBEDDING,
        embedding("good", 3, 4, dim=8, rows=5, positions=(4,)),
        (3, 4, 8),
        result_sizes=embedding_sizes,
        samples=EMBEDDING_SAMPLES,
        lane_samples=EMBEDDING_LANES,
        sized=lambda batch, _, dim: embedding(f"{batch}x{dim}", batch, 1, dim=dim, positions=(batch, 1)),
        differentiable=("table", "positions"),
        unread=("table",),
        typed_by=type_of("table"),
    ),
)
