"""The cases of the HRR operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cases import hrr_errors, hrr_oracle
from cases.base import FLOATS, Arguments, Hole, OpCase, Sample, TensorArgument
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain

ops = torch.ops.torch_hrr

# Every algorithm class: direct to 16, powers of two to 8192, zero-padded to 4096, the library FFT beyond.
DIMS = (1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 64, 96, 100, 127, 128, 256, 500, 512, 768, 1000, 1024)
LIBRARY_DIM = 4097
EPS = {"eps": 1e-12}

OUT_HOLES = {
    "gradient": Hole("an out form has no derivative", "out must not be given where a gradient is asked for"),
    "func": Hole("an out form has no derivative", "out must not be given where a"),
    "vmap": Hole("a result in place cannot gain a dimension", "Batching rule not implemented"),
    "autocast": Hole("out fixes the dtype, so nothing is cast"),
}
BACKWARD_HOLES = {"autocast": Hole("autograd runs it in the dtypes of the forward call")}


def pairs(names: tuple[str, ...], options: dict[str, Any]) -> tuple[Sample, ...]:
    """Calls of the binding family, whose arguments are all [..., D]."""

    def sample(id: str, *shapes: tuple[int, ...], dtypes: tuple[torch.dtype, ...] = FLOATS) -> Sample:
        # A gradient comes first and has the result's shape.
        full = (tuple(torch.broadcast_shapes(*shapes)),) if len(names) == 3 else ()
        return Sample(id, dict(zip(names, full + shapes, strict=True)), options, dtypes)

    same = [sample(f"D{dim}", *[(3 if dim <= 256 else 2, dim)] * 2) for dim in DIMS]
    if len(names) == 2:
        same.append(sample("D16384", (16384,), (16384,), dtypes=(torch.float32,)))
    return (
        *same,
        sample("D2048", (2048,), (2048,)),
        sample("D4095", (4095,), (4095,), dtypes=(torch.float32, torch.bfloat16)),
        sample("D4096", (4096,), (4096,), dtypes=(torch.float32, torch.float16)),
        sample("D4097", (2, 4097), (4097,)),
        sample("D5000", (5000,), (5000,), dtypes=(torch.float32,)),
        sample("D8192", (8192,), (8192,), dtypes=(torch.float32,)),
        sample("row", (24,), (24,)),
        sample("outer", (4, 1, 24), (3, 24)),
        sample("row-and-batch", (24,), (2, 3, 24)),
        sample("batch-and-row", (2, 3, 64), (64,)),
        sample("ones", (1, 1, 48), (5, 1, 48)),
        sample("empty", (0, 24), (24,)),
        sample("empty-inside", (2, 0, 64), (1, 1, 64)),
        sample("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 2, 20), (1, 2, 1, 2, 1, 2, 1, 2, 1, 20)),
    )


def small_pairs(names: tuple[str, ...], options: dict[str, Any]) -> tuple[Sample, ...]:
    wanted = {"row": (6,), "D32": (2, 32), "D17": (2, 17)}
    same = [Sample(id, dict.fromkeys(names, shape), options) for id, shape in wanted.items()]
    first, second = names[-2:]
    mixed = {
        "outer": ((2, 1, 5), (3, 5), (2, 3, 5)),
        "row-and-batch": ((4,), (2, 4), (2, 4)),
        "one": ((1, 1), (2, 1), (2, 1)),
        "empty": ((0, 5), (5,), (0, 5)),
    }
    broadcast = [
        Sample(id, dict.fromkeys(names, g) | {first: a, second: b}, options) for id, (a, b, g) in mixed.items()
    ]
    if len(names) == 3:
        broadcast.append(Sample("narrow-gradient", {names[0]: (5,), first: (2, 5), second: (5,)}, options))
    library = Sample("library", dict.fromkeys(names, (LIBRARY_DIM,)), options)
    return (*same, *broadcast, library)


def sized_pair(names: tuple[str, ...], options: dict[str, Any]) -> Callable[[int, int, int], Sample]:
    return lambda batch, items, dim: Sample(f"{batch}x{dim}", dict.fromkeys(names, (batch, dim)), options)


def result_of_pair(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    sizes = tuple(torch.broadcast_shapes(*(x.shape for x in arguments.values() if isinstance(x, Tensor))))
    return (sizes,) * (2 if "grad" in arguments else 1)


def binding(
    op: Any,
    names: tuple[str, ...],
    oracle: Callable[..., Any],
    plain: Callable[..., Any],
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> OpCase:
    options = options or {}
    arguments = tuple(TensorArgument(name, "D") for name in names)
    name = op._schema.name.split("::")[1]
    good = Sample("good", dict.fromkeys(names, (3, 8)), options)
    return OpCase(
        name=name,
        op=op,
        arguments=arguments,
        oracle=oracle,
        plain=plain,
        result_sizes=result_of_pair,
        samples=pairs(names, options),
        lane_samples=small_pairs(names, options),
        sized=sized_pair(names, options),
        errors=hrr_errors.generate(name, arguments, good, (3, 8) if "functional" in fields else None),
        **({"differentiable": names} | fields),
    )


def items(names: tuple[str, ...], lane: bool) -> tuple[Sample, ...]:
    """Calls of superpose and bind_superpose: vectors [..., K, D] with or without weights [..., K]."""

    def sample(
        id: str,
        shape: tuple[int, ...],
        weights: tuple[int, ...] | None,
        normalize: bool = False,
        other: tuple[int, ...] | None = None,
        dtypes: tuple[torch.dtype, ...] = FLOATS,
    ) -> Sample:
        vectors = dict.fromkeys(names, shape) | ({names[-1]: other} if other and len(names) > 1 else {})
        return Sample(id, vectors | {"weights": weights}, {"normalize": normalize, "eps": 1e-12}, dtypes)

    if lane:
        return (
            sample("plain", (2, 3, 5), None),
            sample("weighted", (2, 3, 5), (2, 3)),
            sample("normalized", (2, 3, 5), (3,), True),
            sample("normalized-plain", (3, 32), None, True),
            sample("padded", (2, 17), (2, 2), True, (2, 1, 17)),
            sample("broadcast", (2, 1, 1, 4), (3, 1), False, (3, 2, 4)),
            sample("weights-repeat-items", (2, 1, 4), (2, 3)),
            sample("one-item", (1, 4), (1,), True),
            sample("no-items", (2, 0, 4), (2, 0)),
            sample("no-items-normalized", (2, 0, 4), None, True),
            sample("empty", (0, 3, 4), None),
            sample("library", (2, LIBRARY_DIM), (2,), True),
        )
    counts = [sample(f"K{k}", (2, k, 48), (2, k)) for k in (0, 1, 2, 3, 7, 8, 9, 16, 17)]
    dims = [sample(f"D{dim}", (2, 3, dim) if dim <= 256 else (2, dim), (3,) if dim <= 256 else (2,)) for dim in DIMS]
    norms = [sample(f"normalized-D{dim}", (2, 3, dim), None, True) for dim in (1, 2, 5, 16, 17, 64, 96, 100, 256)]
    return (
        *counts,
        *dims,
        *norms,
        sample("plain", (2, 3, 24), None),
        sample("row", (3, 24), (3,), True),
        sample("roles-and-fillers", (4, 3, 64), (3,), True, (3, 64)),
        sample("weights-widen", (3, 24), (5, 2, 3), True),
        sample("weights-repeat-items", (1, 24), (2, 4)),
        sample("one-weight", (2, 3, 24), (1,)),
        sample("empty", (0, 3, 24), (3,), True),
        sample("no-items-normalized", (2, 0, 24), None, True),
        sample("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 3, 20), (2, 1, 2, 1, 2, 1, 2, 3), True),
        sample("D4096", (2, 4096), (2,), True, dtypes=(torch.float32, torch.bfloat16)),
        sample("D4097", (2, 2, 4097), (2,), True, (2, 4097)),
        sample("D8192", (1, 8192), None, dtypes=(torch.float32,)),
    )


def result_of_items(names: tuple[str, ...]) -> Callable[[Arguments], tuple[tuple[int, ...], ...]]:
    def sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
        weights = () if arguments.get("weights") is None else (arguments["weights"].shape,)
        leading = torch.broadcast_shapes(*(arguments[name].shape[:-1] for name in names), *weights)
        return ((*leading[:-1], arguments[names[0]].shape[-1]),)

    return sizes


def superposition(
    op: Any, names: tuple[str, ...], oracle: Callable[..., Any], plain: Callable[..., Any], **fields: Any
) -> OpCase:
    arguments = (*(TensorArgument(name, "KD") for name in names), TensorArgument("weights", "K", optional=True))
    name = op._schema.name.split("::")[1]
    shapes = dict.fromkeys(names, (3, 4, 8)) | {"weights": (3, 4)}
    good = Sample("good", shapes, {"normalize": True, "eps": 1e-12})

    def sized(batch: int, items: int, dim: int) -> Sample:
        vectors = dict.fromkeys(names, (batch, items, dim)) | {"weights": (batch, items)}
        return Sample(f"{batch}x{items}x{dim}", vectors, {"normalize": True, "eps": 1e-12})

    def call_oracle(normalize: bool, **rest: Any) -> Tensor:
        return oracle(normalized=normalize, **rest)

    return OpCase(
        name=name,
        op=op,
        arguments=arguments,
        oracle=call_oracle,
        plain=plain,
        result_sizes=result_of_items(names),
        samples=items(names, lane=False),
        lane_samples=items(names, lane=True),
        sized=sized,
        errors=hrr_errors.generate(name, arguments, good, (3, 8) if "functional" in fields else None),
        **({"differentiable": (*names, "weights")} | fields),
    )


def gradients_of(function: Callable[..., Tensor]) -> Callable[..., tuple[Tensor, ...]]:
    """The plain-torch gradients of a function of two rows, before summing over broadcast dimensions."""

    def gradients(grad: Tensor, *args: Tensor, **kwargs: Any) -> tuple[Tensor, ...]:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        names = [name for name, x in kwargs.items() if isinstance(x, Tensor)]
        options = {name: x for name, x in kwargs.items() if not isinstance(x, Tensor)}
        upstream, *full = torch.broadcast_tensors(grad, *tensors)
        full = [x.detach().requires_grad_() for x in full]
        result = function(**dict(zip(names, full, strict=True)), **options)
        return torch.autograd.grad(result, full, upstream)

    return gradients


def bind_normalize_oracle(a: Tensor, b: Tensor, eps: float) -> Tensor:
    return hrr_oracle.normalize(hrr_oracle.convolve(a, b), eps)


AB, ROLES = ("a", "b"), ("bound", "role")

BINDINGS: tuple[tuple[Any, ...], ...] = (
    (ops.bind, AB, {}, hrr_oracle.convolve, plain.bind, hrr.bind),
    (ops.unbind, ROLES, {}, hrr_oracle.correlate, plain.unbind, hrr.unbind),
    (ops.bind_normalize, AB, EPS, bind_normalize_oracle, plain.bind_normalize, hrr.bind_normalize),
)
BINDING_GRADIENTS: tuple[tuple[Any, ...], ...] = (
    (ops._bind_backward, AB, {}, hrr_oracle.bind_backward, plain.bind, None),
    (ops._unbind_backward, ROLES, {}, hrr_oracle.unbind_backward, plain.unbind, None),
    (
        ops._bind_normalize_backward,
        AB,
        EPS,
        hrr_oracle.bind_normalize_backward,
        plain.bind_normalize,
        hrr_oracle.bind_normalize_backward_scale,
    ),
)
SUPERPOSITIONS: tuple[tuple[Any, ...], ...] = (
    (ops.superpose, ("vectors",), hrr_oracle.superpose, plain.superpose, hrr.superpose),
    (ops.bind_superpose, AB, hrr_oracle.bind_superpose, plain.bind_superpose, hrr.bind_superpose),
)


def out_form(packet: Any) -> dict[str, Any]:
    return {"functional": packet.default, "differentiable": (), "holes": OUT_HOLES}


CASES = (
    *(
        binding(packet.default, names, oracle, plain, options, wrapper=wrapper)
        for packet, names, options, oracle, plain, wrapper in BINDINGS
    ),
    *(
        binding(packet.out, names, oracle, plain, options, wrapper=wrapper, **out_form(packet))
        for packet, names, options, oracle, plain, wrapper in BINDINGS
    ),
    *(
        binding(
            packet.default,
            ("grad", *names),
            oracle,
            gradients_of(plain),
            options,
            magnitude=magnitude,
            holes=BACKWARD_HOLES,
        )
        for packet, names, options, oracle, plain, magnitude in BINDING_GRADIENTS
    ),
    *(
        superposition(packet.default, names, oracle, plain, wrapper=wrapper)
        for packet, names, oracle, plain, wrapper in SUPERPOSITIONS
    ),
    *(
        superposition(packet.out, names, oracle, plain, wrapper=wrapper, **out_form(packet))
        for packet, names, oracle, plain, wrapper in SUPERPOSITIONS
        if "out" in packet.overloads()
    ),
)
