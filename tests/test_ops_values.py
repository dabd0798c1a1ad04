"""Every operator against its direct sum in float64: values, dtypes, range."""

import itertools

import pytest
import torch
from cases import FLOATING_CASES
from cases.base import (
    FLOATS,
    FULL,
    HALF_TYPES,
    as_tuple,
    build,
    covering,
    each,
    floats_of,
    in_float64,
    row_norm,
    tensors_of,
    with_tensors,
)

TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}
# One dimension of every algorithm class.
CLASS_DIMS = (8, 64, 100, 1024, 4097)


def same(results, expected):
    return all(torch.equal(result, exact) for result, exact in zip(as_tuple(results), expected, strict=True))


def check_close(case, arguments, results, expected, scales):
    dtype = case.result_dtype(arguments)
    for result, exact, scale in zip(results, expected, scales, strict=True):
        error = row_norm(result.double() - exact)
        assert (error <= TOLERANCE[dtype] * scale).all(), f"{dtype}: {(error / scale).max():.1e} of the row's norm"


def check_half(case, arguments, results, expected, scales):
    """The error is at most twice that of plain torch in the same storage, plus the rounding unit."""
    plain = as_tuple(case.plain(**arguments))
    for result, exact, naive, scale in zip(results, expected, plain, scales, strict=True):
        if result.numel():
            largest = torch.maximum(exact.abs().max(), scale.max() / exact.shape[-1] ** 0.5)
            allowed = 2 * (naive.double() - exact).abs().max() + torch.finfo(result.dtype).eps / 2 * largest
            assert (result.double() - exact).abs().max() <= allowed, result.dtype


def check_equal(results, expected):
    for result, exact in zip(results, expected, strict=True):
        assert torch.equal(result.to(exact.dtype), exact), result.dtype


def check_values(case, arguments, results, expected=None, scales=None):
    """Against the results expected and the scales of their errors, by default those of the direct sum."""
    expected = case.expect(arguments) if expected is None else expected
    if case.selects:
        return check_equal(results, expected)
    scales = case.scale(arguments, expected) if scales is None else scales
    is_half = case.result_dtype(arguments) in HALF_TYPES
    (check_half if is_half else check_close)(case, arguments, results, expected, scales)


def check_metadata(case, arguments, results):
    sizes = case.result_sizes(arguments)
    assert [tuple(result.shape) for result in results] == [tuple(size) for size in sizes]
    assert tuple(result.dtype for result in results) == case.result_dtypes(arguments)
    for result in results:
        assert result.is_contiguous()
        assert not result.requires_grad


def run_checked(case, arguments):
    """The results, of the right sizes and dtypes, and no argument changed."""
    before = with_tensors(arguments, torch.clone)
    results = case.run(arguments)
    check_metadata(case, arguments, results)
    for name, tensor in tensors_of(before).items():
        assert torch.equal(arguments[name], tensor), f"{name} was changed"
    return results


RETURNING = [case for case in FLOATING_CASES if not case.is_out]
OUT_FORMS = [case for case in FLOATING_CASES if case.is_out]


@each((case, sample) for case in RETURNING for sample in case.samples)
def test_equals_the_direct_sum(case, sample):
    """In float64; and in other dtypes the float64 operator, at their arguments, or in a full run the sum again."""
    arguments = build(sample, torch.float64)
    expected = case.expect(arguments)
    scales = () if case.selects else case.scale(arguments, expected)
    check_values(case, arguments, run_checked(case, arguments), expected, scales)
    for dtype in sample.dtypes:
        rounded = build(sample, dtype)
        results = run_checked(case, rounded)
        if FULL:
            check_values(case, rounded, results)
        elif dtype != torch.float64:
            exact = case.run(in_float64(rounded))
            check_values(case, rounded, results, exact, scales if case.magnitude else map(row_norm, exact))


@each((case, sample) for case in OUT_FORMS for sample in case.samples)
def test_out_equals_the_result(case, sample):
    for dtype in sample.dtypes:
        arguments = build(sample, dtype)
        assert torch.equal(run_checked(case, arguments)[0], case.functional(**arguments)), dtype


@each((case, sample) for case in RETURNING for sample in case.lane_samples)
def test_plain_torch_equals_the_direct_sum(case, sample):
    arguments = build(sample, torch.float64)
    expected = case.expect(arguments)
    if case.selects:
        return check_equal(as_tuple(case.plain(**arguments)), expected)
    for result, exact, scale in zip(
        as_tuple(case.plain(**arguments)), expected, case.scale(arguments, expected), strict=True
    ):
        assert result.shape == exact.shape
        assert (row_norm(result - exact) <= 1e-12 * scale).all()


@each(
    (case, dtypes)
    for case in FLOATING_CASES
    if case.typed_by is None
    for dtypes in itertools.product(FLOATS, repeat=len(case.arguments))
    if len(set(dtypes)) == min(2, len(case.arguments))
)
def test_dtypes_promote_as_in_torch_mul(case, dtypes):
    arguments = build(case.sized(2, 3, 20), torch.float64)
    mixed = dict(arguments)
    product = torch.ones(1, dtype=dtypes[0])
    for argument, dtype in zip(case.arguments, dtypes, strict=True):
        mixed[argument.name] = arguments[argument.name].to(dtype)
        product = product * torch.ones(1, dtype=dtype)
    results = case.run(mixed)
    assert tuple(result.dtype for result in results) == (
        case.result_dtypes(mixed) if case.selects else (product.dtype,) * len(results)
    )
    promoted = case.run(with_tensors(mixed, lambda tensor: tensor.to(product.dtype)))
    assert all(torch.equal(result, same) for result, same in zip(results, promoted, strict=True))


@each((case, ratio, dim) for case, ratio, dim in covering(RETURNING, (1e-8, 1e-4, 1e4, 1e8), CLASS_DIMS))
def test_operands_of_unlike_size_keep_the_precision(case, ratio, dim):
    arguments = build(case.sized(1, 2, dim))
    first = next(iter(floats_of(arguments)))
    arguments[first] = arguments[first] * ratio
    check_values(case, arguments, case.run(arguments))


@pytest.mark.parametrize("case", [case for case in FLOATING_CASES if case.wrapper], ids=lambda case: case.id)
def test_the_python_function_is_the_operator(case):
    arguments = build(case.sized(2, 3, 24))
    expected = case.run(arguments)
    if not case.is_out:
        assert same(case.wrapper(**arguments), expected)
        assert same(case.wrapper(*arguments.values()), expected)
        return
    out = case.make_out(arguments)
    assert case.wrapper(**arguments, out=out) is out
    assert torch.equal(out, expected[0])


@pytest.mark.parametrize("case", [case for case in FLOATING_CASES if case.wrapper], ids=lambda case: case.id)
def test_the_python_function_has_the_defaults_of_the_operator(case):
    required = [a for a in case.op._schema.arguments if not a.has_default_value() and not a.kwarg_only]
    arguments = build(case.sized(2, 3, 24))
    given = {a.name: arguments[a.name] for a in required}
    defaults = {a.name: a.default_value for a in case.op._schema.arguments if a.has_default_value()}
    expected = case.run(given | defaults)
    extra = {"out": case.make_out(given)} if case.is_out else {}
    assert same(case.wrapper(**given, **extra), expected)
