"""What a case of an operator is: data that tests/test_ops_*.py drives through every lane."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

Arguments = dict[str, Any]

LANES = {
    "gradient": "reverse, forward, batched and double derivatives, against finite differences",
    "func": "torch.func.grad, vjp, jvp, jacrev, jacfwd, hessian, against a composition of ATen operators",
    "vmap": "torch.vmap over any in_dims, nested, without a fallback warning",
    "opcheck": "the four tests of torch.library.opcheck",
    "compile": "torch.compile(fullgraph=True, dynamic=True): one graph for two shapes",
    "export": "torch.export with a dynamic batch: one node, save and load",
    "aoti": "the AOTInductor package",
    "script": "TorchScript: script, save, load, freeze, trace",
    "rows": "a row that is not finite gives a row of NaN",
    "autocast": "runs in the autocast dtype's storage",
}
# `make test-all`: every product of dtypes, dimensions and layouts whole.
FULL = os.environ.get("TORCH_HRR_TEST_ALL") == "1"
HALF_TYPES = (torch.float16, torch.bfloat16)
FLOATS = (torch.float32, torch.float64, *HALF_TYPES)


@dataclasses.dataclass(frozen=True)
class TensorArgument:
    """An argument by its schema name and the dimensions of its own that follow the leading ones.

    One that is not batched has no leading dimensions, such as a table; vmap does not map it.
    """

    name: str
    dims: str
    optional: bool = False
    batched: bool = True
    takes_integers: bool = False


@dataclasses.dataclass(frozen=True)
class Sample:
    """One call: a shape for every tensor argument (None: an optional one left out), and the other arguments.

    `adjust` has functions of drawn tensors, float64 before they are rounded, that keep their shape. Tensors that
    `integers` names are int64 from 0 up to its number instead, of whatever dtype. A call that `asks_dtype` has the
    option dtype too, that of its floating tensors. `order` is that of the schema where tensors do not come first.
    """

    id: str
    shapes: Mapping[str, tuple[int, ...] | None]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    dtypes: tuple[torch.dtype, ...] = FLOATS
    adjust: Mapping[str, Callable[[Tensor], Tensor]] = dataclasses.field(default_factory=dict)
    integers: Mapping[str, int] = dataclasses.field(default_factory=dict)
    asks_dtype: bool = False
    order: tuple[str, ...] = ()

    @property
    def is_other_length(self) -> bool:
        """Whether it differs from another in the length of rows alone, which nothing above the kernels sees."""
        return self.id in ("D32", "D17", "D1", "library")


@dataclasses.dataclass(frozen=True)
class Hole:
    """Why a lane does not take an operator, and the message of the error where asking for it is one."""

    reason: str
    error: str | None = None


@dataclasses.dataclass(frozen=True)
class ErrorInput:
    """A call that must raise: the defect of one argument, the exception and a pattern of its whole message."""

    argument: str
    defect: str
    make: Callable[[], Arguments]
    error: type[Exception]
    message: str
    devices: tuple[str, ...] = ("cpu", "meta")

    @property
    def id(self) -> str:
        return f"{self.argument}-{self.defect}"


@dataclasses.dataclass(frozen=True, eq=False)
class OpCase:
    """An operator overload with everything the harness asks about it.

    Attributes:
        name: as error messages spell it.
        op: the overload.
        arguments: its tensor arguments, without `out`.
        oracle: the definition as a direct sum in differentiable ATen operators, called with the schema's names;
            independent of the library and of torch.fft, exact enough in float64.
        plain: the same in plain torch in the storage dtype, the yardstick of half precision.
        result_sizes: sizes of the results from the arguments.
        samples: calls whose values are compared with the oracle.
        lane_samples: small calls, one of every kind, for gradients and opcheck.
        sized: a call of a given batch, number of items and dimension, for lanes that need two sizes.
        errors: calls that must raise.
        differentiable: the arguments that take a gradient.
        magnitude: scale that errors are relative to, [..., 1] a result; by default the norm of the oracle's row.
        functional: of an out form, the overload that returns its result.
        wrapper: the Python function of the package, if public.
        uncast: tensor arguments that autocast leaves as they are, and whose dtype decides nothing there.
        elementwise: the arguments whose elements each reach `reach` elements of the result, so that NaN fills no row.
        selects: whether the results are the argument's elements, exactly, and last their int64 indices, which have no
            derivative.
        unread: the differentiable arguments whose values backward never reads, as of a linear operator.
        typed_by: the dtype of the results where arguments do not promote to it.
        dtypes: those that the operator takes.
        integer_dtype: of the results of an operator of integers, which are the oracle's exactly; else None.
        holes: lanes that do not take the operator.
    """

    name: str
    op: Any
    arguments: tuple[TensorArgument, ...]
    oracle: Callable[..., Any]
    plain: Callable[..., Any]
    result_sizes: Callable[[Arguments], tuple[tuple[int, ...], ...]]
    samples: tuple[Sample, ...]
    lane_samples: tuple[Sample, ...]
    sized: Callable[[int, int, int], Sample]
    errors: tuple[ErrorInput, ...]
    differentiable: tuple[str, ...] = ()
    magnitude: Callable[..., Any] | None = None
    functional: Any = None
    wrapper: Callable[..., Any] | None = None
    uncast: tuple[str, ...] = ()
    elementwise: tuple[str, ...] = ()
    reach: int = 1
    selects: bool = False
    unread: tuple[str, ...] = ()
    typed_by: Callable[[Arguments], torch.dtype] | None = None
    dtypes: tuple[torch.dtype, ...] = FLOATS
    integer_dtype: torch.dtype | None = None
    holes: Mapping[str, Hole] = dataclasses.field(default_factory=dict)

    @property
    def id(self) -> str:
        name = self.op._schema.name.split("::")[1]
        return f"{name}.{self.op._schema.overload_name}" if self.op._schema.overload_name else name

    @property
    def is_out(self) -> bool:
        return self.functional is not None

    @property
    def unbatched(self) -> frozenset[str]:
        return frozenset(argument.name for argument in self.arguments if not argument.batched)

    def takes(self, lane: str) -> bool:
        return lane not in self.holes

    def leaves(self, arguments: Arguments) -> tuple[str, ...]:
        """The arguments of a call that may require a gradient."""
        return tuple(name for name in self.differentiable if name in floats_of(arguments))

    def batch_dims(self, arguments: Arguments) -> tuple[int | None, ...]:
        """in_dims of a vmap over the first dimension of every tensor that has a batch."""
        return tuple(None if name in self.unbatched else 0 for name in tensors_of(arguments))

    def with_rows(self, arguments: Arguments, function: Callable[[Tensor], Tensor]) -> Arguments:
        """with_tensors but for those that have no batch."""
        rows = {name: value for name, value in arguments.items() if name not in self.unbatched}
        return arguments | with_tensors(rows, function)

    def result_dtype(self, arguments: Arguments) -> torch.dtype:
        """As of torch.mul: a tensor without dimensions takes no part in promotion."""
        if self.integer_dtype is not None:
            return self.integer_dtype
        if self.typed_by is not None:
            return self.typed_by(arguments)
        dtypes = [tensor.dtype for tensor in tensors_of(arguments).values() if tensor.dim()]
        return functools.reduce(torch.promote_types, dtypes)

    def result_dtypes(self, arguments: Arguments) -> tuple[torch.dtype, ...]:
        """Of every result."""
        dtypes = (self.result_dtype(arguments),) * len(self.result_sizes(arguments))
        return (*dtypes[:-1], torch.int64) if self.selects else dtypes

    def cast(self, arguments: Arguments, dtype: torch.dtype) -> Arguments:
        """The arguments as autocast makes them."""
        return {
            name: value.to(dtype) if isinstance(value, Tensor) and name not in self.uncast else value
            for name, value in arguments.items()
        }

    @functools.cached_property
    def kinds(self) -> tuple[Sample, ...]:
        """The first of every kind of lane samples."""
        return self.first_of_kinds(self.lane_samples)

    def first_of_kinds(self, samples: Iterable[Sample]) -> tuple[Sample, ...]:
        """A kind is which arguments are left out, whether any are broadcast, and the options but for numbers."""
        firsts: dict[Any, Sample] = {}
        for sample in samples:
            given = {name: shape for name, shape in sample.shapes.items() if shape is not None}
            leading = {shape[: len(shape) - len(a.dims)] for a in self.arguments if (shape := given.get(a.name))}
            options = {name: value for name, value in sample.options.items() if type(value) not in (int, float)}
            kind = sorted(given), len(leading) > 1, options, sample.asks_dtype, sorted(sample.integers)
            firsts.setdefault(repr(kind), sample)
        return tuple(firsts.values())

    def run(self, arguments: Arguments) -> tuple[Tensor, ...]:
        """The operator's results; an out form writes into a fresh tensor full of NaN."""
        if not self.is_out:
            return as_tuple(self.op(**arguments))
        out = self.make_out(arguments)
        assert self.op(**arguments, out=out) is None
        return (out,)

    def make_out(self, arguments: Arguments) -> Tensor:
        (sizes,) = self.result_sizes(arguments)
        device = next(iter(tensors_of(arguments).values())).device
        return torch.full(sizes, torch.nan, dtype=self.result_dtype(arguments), device=device)

    def expect(self, arguments: Arguments) -> tuple[Tensor, ...]:
        """The oracle's results in float64."""
        return as_tuple(self.oracle(**in_float64(arguments)))

    def scale(self, arguments: Arguments, expected: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What an error in a row is relative to."""
        if self.magnitude is None:
            return tuple(row_norm(result) for result in expected)
        return as_tuple(self.magnitude(**in_float64(arguments)))


def as_tuple(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else tuple(result)


def floating(results: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The results that may have a derivative."""
    return tuple(result for result in results if result.is_floating_point())


def tensors_of(arguments: Arguments) -> dict[str, Tensor]:
    return {name: value for name, value in arguments.items() if isinstance(value, Tensor)}


def floats_of(arguments: Arguments) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors_of(arguments).items() if tensor.is_floating_point()}


def with_floats(arguments: Arguments, function: Callable[[Tensor], Tensor]) -> Arguments:
    return arguments | {name: function(tensor) for name, tensor in floats_of(arguments).items()}


def in_float64(arguments: Arguments) -> Arguments:
    """The same call with float64 arguments; where it asks for a dtype, for float64."""
    asked = {} if arguments.get("dtype") is None else {"dtype": torch.float64}
    return with_floats(arguments, Tensor.double) | asked


def with_tensors(arguments: Arguments, function: Callable[[Tensor], Tensor]) -> Arguments:
    return {name: function(value) if isinstance(value, Tensor) else value for name, value in arguments.items()}


def row_norm(rows: Tensor) -> Tensor:
    """norm2 over the last dimension, kept; exact scaling keeps it in range."""
    if rows.numel() == 0:
        return rows.sum(-1, keepdim=True)
    largest = rows.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(rows.dtype).tiny)
    return (rows / largest).square().sum(-1, keepdim=True).sqrt() * largest


def build(sample: Sample, dtype: torch.dtype = torch.float32, seed: int = 0, device: str = "cpu") -> Arguments:
    """The arguments of a call, elements from N(0, 1) rounded to `dtype`."""
    generator = torch.Generator().manual_seed(seed)

    def draw(name: str, shape: tuple[int, ...] | None) -> Tensor | None:
        if shape is None:
            return None
        if name in sample.integers:
            return torch.randint(sample.integers[name], shape, generator=generator).to(device)
        drawn = torch.randn(shape, dtype=torch.float64, generator=generator)
        adjusted = sample.adjust[name](drawn) if name in sample.adjust else drawn
        return adjusted.to(device=device, dtype=dtype)

    asked = {"dtype": dtype} if sample.asks_dtype else {}
    built = {name: draw(name, shape) for name, shape in sample.shapes.items()} | dict(sample.options) | asked
    return {name: built[name] for name in sample.order or built}


def split(arguments: Arguments, names: tuple[str, ...]) -> tuple[tuple[Tensor, ...], Callable[..., Arguments]]:
    """The named tensors that are present, and a function that puts others in their places."""
    present = tuple(name for name in names if isinstance(arguments[name], Tensor))

    def join(*tensors: Tensor) -> Arguments:
        return arguments | dict(zip(present, tensors, strict=True))

    return tuple(arguments[name] for name in present), join


@functools.cache
def depends(case: OpCase, name: str) -> list[bool]:
    """Which results depend on an argument: those that a NaN in it reaches by the definition."""
    arguments = build(case.sized(1, 2, 3))
    arguments[name] = torch.full_like(arguments[name], torch.nan)
    return [bool(result.isnan().any()) for result in case.expect(arguments)]


def covering(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """So much of the product of up to three axes that any two values of two axes meet; all of it in a full run."""
    everything = list(itertools.product(*axes))
    if FULL or len(axes) < 3:
        return everything
    assert len(axes) == 3
    # Along the shortest axis in steps that the others number.
    shortest = min(range(3), key=lambda axis: len(axes[axis]))
    numbers = itertools.product(*(range(len(axis)) for axis in axes))
    return [
        values
        for values, position in zip(everything, numbers, strict=True)
        if (sum(position) - 2 * position[shortest]) % len(axes[shortest]) == 0
    ]


def covering_classes(classes: Sequence[Sequence[int]], *axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Dimensions of algorithm classes, and values of one more axis or two: every class meets every other value, and
    every dimension occurs; in a full run, the product."""
    if FULL:
        return list(itertools.product(itertools.chain(*classes), *axes))
    chosen = covering(range(len(classes)), *axes)
    return [(classes[n][i % len(classes[n])], *rest) for i, (n, *rest) in enumerate(chosen)]


def name_of(*values: Any) -> str:
    """An id: of a case, a sample, a layout, a dtype, a number."""
    return "-".join(
        str(getattr(value, "id", getattr(value, "__name__", value))).removeprefix("torch.") for value in values
    )


def named(values: Iterable[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a test that are named by their ids."""
    return [pytest.param(*value, id=name_of(*value)) for value in values]


def each(values: Iterable[tuple[Any, ...]]) -> Callable[[Callable[..., None]], Any]:
    """Makes a test of a case and more values one test a case that goes through them; an error has a note of where.

    A test of its own for each of tens of thousands of values costs more than what it tries.
    """
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    for case, *rest in values:
        groups.setdefault(case, []).append(tuple(rest))

    def decorate(test: Callable[..., None]) -> Any:
        @functools.wraps(test)
        def whole(case: Any) -> None:
            for rest in groups[case]:
                torch.manual_seed(0)
                try:
                    test(case, *rest)
                except Exception as error:
                    error.add_note(f"at {name_of(case, *rest)}")
                    raise

        # pytest would ask for the arguments of what is wrapped.
        del whole.__wrapped__
        return pytest.mark.parametrize("case", list(groups), ids=name_of)(whole)

    return decorate
