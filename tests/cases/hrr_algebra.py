"""The cases of multibind, inverse, unitary, bind_power, permute and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cases import hrr_algebra_oracle as oracle
from cases import hrr_errors
from cases.base import FLOATS, Arguments, Hole, OpCase, Sample, TensorArgument
from cases.hrr import BACKWARD_HOLES, DIMS, LIBRARY_DIM
from cases.hrr_algebra_samples import (
    Adjust,
    Calls,
    Options,
    Shape,
    away_from_zero,
    with_a_zero_row,
    with_empty_bins,
)
from cases.hrr_spectrum import from_spectrum as row_of
from cases.hrr_spectrum import spectrum as packed
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain

ops = torch.ops.torch_hrr


def result_sizes(arguments: Arguments) -> tuple[Shape, ...]:
    rows = [arguments[name] for name in ("grad", "v", "a") if name in arguments]
    exponent = arguments.get("exponent")
    leading = [exponent.shape] if isinstance(exponent, Tensor) else []
    return ((*torch.broadcast_shapes(*(row.shape[:-1] for row in rows), *leading), rows[0].shape[-1]),)


def no_options(dim: int) -> dict[str, Any]:
    return {}


def clamping(dim: int) -> dict[str, Any]:
    """eps amid the |A|^2 of rows away from zero."""
    return {"eps": 16.0 * dim}


def constant(**options: Any) -> Options:
    return lambda dim: options


def mapping(
    op: Any,
    names: tuple[str, ...],
    definition: Callable[..., Any],
    plain_torch: Callable[..., Any],
    options: Options = no_options,
    **fields: Any,
) -> OpCase:
    name = op._schema.name.split("::")[1]
    arguments = tuple(TensorArgument(argument, "" if argument == "exponent" else "D") for argument in names)
    calls = Calls(names, options)
    return OpCase(
        name=name,
        op=op,
        arguments=arguments,
        oracle=definition,
        plain=plain_torch,
        result_sizes=result_sizes,
        samples=calls.many(),
        lane_samples=calls.small(),
        sized=calls.sized,
        errors=hrr_errors.generate(name, arguments, calls.sample("good", (3, 8))),
        **({"differentiable": names, "holes": BACKWARD_HOLES if name.startswith("_") else {}} | fields),
    )


def items(id: str, *shape: int, dtypes: tuple[torch.dtype, ...] = FLOATS) -> Sample:
    return Sample(id, {"vectors": shape}, {}, dtypes)


def products(id: str, grad: Shape, vectors: Shape, **fields: Any) -> Sample:
    return Sample(id, {"grad": grad, "vectors": vectors}, **fields)


def unit_rows(vectors: Tensor) -> Tensor:
    """Rows of norm 1 or so: float16 holds the product of any number of them."""
    return vectors / vectors.shape[-1] ** 0.5


MULTIBIND = (TensorArgument("vectors", "KD"),)


def sizes_near_one(vectors: Tensor) -> Tensor:
    """All |A| within 0.3 .. 1.7 or so, so that products of powers have sizes that every dtype holds."""
    return away_from_zero(vectors) / (4 * vectors.shape[-1] ** 0.5)


def sizes_near_one_and_negative(vectors: Tensor) -> Tensor:
    """The same with all bins near -1, DC and Nyquist too."""
    return sizes_near_one(vectors).roll(-1, -1)


def one_with_empty_bins(vectors: Tensor) -> Tensor:
    return torch.cat([with_empty_bins(vectors[:1]), sizes_near_one(vectors[1:])])


def zero_in_every_other(exponents: Tensor) -> Tensor:
    exponents = exponents.clone()
    exponents[::2, 0] = 0
    return exponents


def one_with_a_small_bin(vectors: Tensor) -> Tensor:
    """One bin of 1e-3 in the first row: its relative error must not be that of the large ones."""
    rows = sizes_near_one(vectors)
    parts = torch.fft.rfft(rows[:1].double())
    parts[..., 3] *= 1e-3 / parts[..., 3].abs()
    return torch.cat([torch.fft.irfft(parts, n=rows.shape[-1]).to(rows.dtype), rows[1:]])


def powers(
    id: str,
    spectra: Shape,
    exponents: Shape,
    rows_are: Adjust = sizes_near_one,
    exponents_are: Adjust = Tensor.clone,
) -> Sample:
    def spectra_are(rows: Tensor) -> Tensor:
        return packed(rows_are(rows).double()).to(rows.dtype)

    adjust = {"spectra": spectra_are, "exponents": exponents_are}
    return Sample(id, {"spectra": spectra, "exponents": exponents}, adjust=adjust)


def power_product(spectra: Tensor, exponents: Tensor) -> Tensor:
    """Power by power, convolved."""
    return packed(oracle.multibind(oracle.bind_power(row_of(spectra), exponents)))


def power_product_scale(spectra: Tensor, exponents: Tensor) -> Tensor:
    """That of the row: its bins may be sqrt(D) times as large."""
    return oracle.power_product_scale(row_of(spectra), exponents) * spectra.shape[-1] ** 0.5


POWER_PRODUCT = (TensorArgument("spectra", "KD"), TensorArgument("exponents", "K"))
PERMUTE = (TensorArgument("a", "D"),)
LARGEST = 2**63 - 1


def permutations(id: str, *shape: int, seed: int = 7, power: int = -3) -> Sample:
    return Sample(id, {"a": shape}, {"seed": seed, "power": power})


CASES = (
    OpCase(
        name="multibind",
        op=ops.multibind.default,
        arguments=MULTIBIND,
        oracle=oracle.multibind,
        plain=plain.multibind,
        result_sizes=lambda arguments: ((*arguments["vectors"].shape[:-2], arguments["vectors"].shape[-1]),),
        samples=(
            *(items(f"K{k}-D{dim}", 2, k, dim) for k in (0, 1, 2, 3, 5) for dim in (1, 5, 24, 32, 100, 128)),
            *(items(f"D{dim}", 2, 3, dim) for dim in DIMS),
            items("D2048", 3, 2048),
            items("D4097", 2, 2, 4097),
            items("D4096", 2, 4096, dtypes=(torch.float32, torch.bfloat16)),
            items("D8192", 2, 8192, dtypes=(torch.float32,)),
            items("items", 3, 24),
            items("empty", 0, 3, 24),
            items("empty-without-items", 0, 0, 64),
            items("empty-inside", 2, 0, 3, 64),
            items("ten-dimensions", 2, 1, 2, 1, 2, 1, 2, 1, 3, 20),
        ),
        lane_samples=(
            items("items", 3, 6),
            items("no-items", 2, 0, 4),
            items("one-item", 2, 1, 5),
            items("two-items", 2, 2, 5),
            items("five-items", 5, 4),
            items("D32", 3, 32),
            items("D17", 2, 3, 17),
            items("D1", 2, 3, 1),
            items("empty", 0, 3, 4),
            items("library", 2, LIBRARY_DIM),
        ),
        # Derivatives call operators by the number of vectors: it is fixed, or one graph could not do.
        sized=lambda batch, _, dim: Sample(
            f"{batch}x4x{dim}", {"vectors": (batch, 4, dim)}, adjust={"vectors": unit_rows}
        ),
        errors=hrr_errors.generate("multibind", MULTIBIND, items("good", 3, 4, 8)),
        differentiable=("vectors",),
        magnitude=oracle.multibind_scale,
        wrapper=hrr.multibind,
    ),
    OpCase(
        name="_multibind_backward",
        op=ops._multibind_backward.default,
        arguments=(TensorArgument("grad", "D"), *MULTIBIND),
        oracle=oracle.multibind_backward,
        plain=plain._multibind_backward,
        result_sizes=lambda arguments: (
            (
                *torch.broadcast_shapes(arguments["grad"].shape[:-1], arguments["vectors"].shape[:-2]),
                *arguments["vectors"].shape[-2:],
            ),
        ),
        samples=(
            *(
                products(f"K{k}-D{dim}", (2, dim), (2, k, dim))
                for k in (0, 1, 2, 3, 7)
                for dim in (1, 5, 24, 32, 100, 101, 128)
            ),
            *(products(f"D{dim}", (2, dim), (2, 3, dim)) for dim in DIMS),
            products("D4097", (4097,), (2, 2, 4097)),
            products("D4096", (4096,), (3, 4096), dtypes=(torch.float32, torch.bfloat16)),
            products("empty-bins", (2, 96), (2, 3, 96), adjust={"vectors": with_empty_bins}),
            products("zero-row", (24,), (3, 24), adjust={"vectors": with_a_zero_row}),
            products("outer", (4, 1, 24), (3, 2, 24)),
            products("row-and-batch", (24,), (2, 3, 2, 24)),
            products("batch-and-row", (2, 3, 64), (3, 64)),
            products("empty", (0, 24), (3, 24)),
            products("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 20), (1, 2, 1, 2, 1, 2, 1, 2, 3, 20)),
        ),
        lane_samples=(
            products("items", (6,), (3, 6)),
            products("two-items", (2, 5), (2, 2, 5)),
            products("outer", (2, 1, 4), (3, 4, 4)),
            products("D32", (32,), (3, 32)),
            products("D17", (2, 17), (2, 3, 17)),
            products("D1", (2, 1), (2, 3, 1)),
            products("empty", (0, 4), (3, 4)),
            products("library", (LIBRARY_DIM,), (2, LIBRARY_DIM)),
        ),
        sized=lambda batch, _, dim: products(
            f"{batch}x4x{dim}", (batch, dim), (batch, 4, dim), adjust={"vectors": unit_rows}
        ),
        errors=hrr_errors.generate(
            "_multibind_backward", (TensorArgument("grad", "D"), *MULTIBIND), products("good", (3, 8), (3, 4, 8))
        ),
        differentiable=("grad", "vectors"),
        magnitude=oracle.multibind_backward_scale,
        holes=BACKWARD_HOLES
        | {
            "rows": Hole(
                "a factor that is not finite leaves its own gradient: tests/cpp/kernels/test_multibind_backward.cpp"
            )
        },
    ),
    OpCase(
        name="permute",
        op=ops.permute.default,
        arguments=PERMUTE,
        oracle=oracle.permute,
        plain=oracle.permute,
        result_sizes=lambda arguments: (tuple(arguments["a"].shape),),
        samples=(
            *(permutations(f"D{dim}", 2, dim) for dim in DIMS),
            *(
                permutations(f"seed-{seed}-power-{power}", 2, 24, seed=seed, power=power)
                for seed in (0, 1, -1, 2**32, LARGEST, -LARGEST - 1)
                for power in (0, 1, -1, 2, -5, 10**12, LARGEST, -LARGEST)
            ),
            permutations("D4097", 4097),
            permutations("row", 24),
            permutations("empty", 0, 24),
            permutations("empty-inside", 2, 0, 64),
            permutations("ten-dimensions", 2, 1, 2, 1, 2, 1, 2, 1, 2, 20),
        ),
        lane_samples=(
            permutations("row", 6),
            permutations("batch", 2, 3, 5, seed=-1, power=1),
            permutations("power-0", 2, 17, power=0),
            permutations("one", 2, 1),
            permutations("empty", 0, 5),
            permutations("library", LIBRARY_DIM),
        ),
        sized=lambda batch, _, dim: permutations(f"{batch}x{dim}", batch, dim),
        errors=hrr_errors.generate("permute", PERMUTE, permutations("good", 3, 8)),
        differentiable=("a",),
        unread=("a",),
        wrapper=hrr.permute,
        elementwise=("a",),
    ),
    mapping(
        ops.inverse.default,
        ("a",),
        oracle.inverse,
        plain.inverse,
        clamping,
        magnitude=oracle.inverse_scale,
        wrapper=hrr.inverse,
    ),
    mapping(
        ops.unitary.default,
        ("a",),
        oracle.unitary,
        plain.unitary,
        magnitude=oracle.unitary_scale,
        wrapper=hrr.unitary,
    ),
    mapping(
        ops.bind_power.Tensor,
        ("a", "exponent"),
        oracle.bind_power,
        plain.bind_power,
        magnitude=oracle.bind_power_scale,
        wrapper=hrr.bind_power,
        uncast=("exponent",),
    ),
    mapping(
        ops.bind_power.default,
        ("a",),
        oracle.bind_power,
        plain.bind_power,
        constant(exponent=0.75),
        magnitude=oracle.bind_power_scale,
        wrapper=hrr.bind_power,
        holes={"export": Hole("a number becomes a tensor, and the graph holds bind_power.Tensor")},
    ),
    mapping(
        ops._cut_inverse.default,
        ("a",),
        oracle.cut_inverse,
        plain._cut_inverse,
        clamping,
        magnitude=oracle.cut_inverse_scale,
    ),
    mapping(
        ops._inverse_backward.default,
        ("grad", "a"),
        oracle.inverse_backward,
        plain._inverse_backward,
        clamping,
        magnitude=oracle.inverse_backward_scale,
    ),
    mapping(
        ops._unitary_jacobian.default,
        ("v", "a"),
        oracle.unitary_jacobian,
        plain._unitary_jacobian,
        magnitude=oracle.unitary_jacobian_scale,
    ),
    mapping(
        ops._bind_power_log.default,
        ("a", "exponent"),
        oracle.bind_power_log,
        plain._bind_power_log,
        constant(order=1),
        magnitude=oracle.bind_power_scale,
    ),
    mapping(
        ops._bind_power_backward.default,
        ("grad", "a", "exponent"),
        oracle.bind_power_backward,
        plain._bind_power_backward,
        magnitude=oracle.bind_power_backward_scale,
    ),
    OpCase(
        name="_power_product",
        op=ops._power_product.default,
        arguments=POWER_PRODUCT,
        oracle=power_product,
        magnitude=power_product_scale,
        plain=plain._power_product,
        result_sizes=lambda arguments: (
            (
                *torch.broadcast_shapes(arguments["spectra"].shape[:-2], arguments["exponents"].shape[:-1]),
                arguments["spectra"].shape[-1],
            ),
        ),
        # Four rows are summed together, and what is left one by one.
        samples=(
            *(powers(f"D{dim}", (3, dim), (6, 3)) for dim in (1, 2, 3, 8, 31, 32, 33, 100, 1024, 4097)),
            *(powers(f"K{k}", (k, 24), (5, k)) for k in (0, 1, 2, 9)),
            powers("own-spectra", (5, 2, 24), (5, 2)),
            powers("outer", (3, 1, 2, 24), (4, 2)),
            powers("more-spectra", (3, 2, 24), (2,)),
            powers("negative-real-bins", (2, 24), (5, 2), sizes_near_one_and_negative),
            powers("empty-bins", (2, 32), (5, 2), one_with_empty_bins),
            powers("empty-bins-to-0", (2, 32), (5, 2), one_with_empty_bins, zero_in_every_other),
            powers("small-bin", (2, 33), (5, 2), one_with_a_small_bin, Tensor.abs),
            powers("integers", (2, 25), (6, 2), exponents_are=Tensor.round),
            powers("empty", (2, 24), (0, 2)),
            powers("empty-inside", (2, 0, 3, 24), (3,)),
            powers("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 3, 20), (1, 2, 1, 2, 1, 2, 1, 2, 3)),
        ),
        lane_samples=(
            powers("row", (2, 6), (2,)),
            powers("batch", (2, 5), (2, 3, 2)),
            powers("own-spectra", (3, 2, 5), (3, 2)),
            powers("outer", (2, 1, 2, 5), (3, 2)),
            powers("no-spectra", (0, 4), (3, 0)),
            powers("one", (2, 1), (3, 2)),
            powers("empty", (2, 5), (0, 2)),
        ),
        sized=lambda batch, items, dim: powers(f"{batch}x{items}x{dim}", (batch, items, dim), (batch, items)),
        errors=hrr_errors.generate("_power_product", POWER_PRODUCT, powers("good", (3, 4, 8), (3, 4))),
        differentiable=("spectra", "exponents"),
        holes={"autocast": Hole("fractional_power_encoding calls it with autocast off")},
    ),
)
