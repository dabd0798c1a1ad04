"""Rows at the ends of the number range: normalised results, eps, and gradients there."""

import pytest
import torch
from cases import hrr_oracle

from torch_hrr import hrr

CLASS_DIMS = (1, 5, 16, 17, 64, 100, 1024, 4097)
# Element sizes: tiny, subnormal, large, and close to the largest number.
SIZES = {
    torch.float32: (1e-42, 1e-38, 1e-30, 1e-20, 1e20, 1e30, 5e37),
    torch.float64: (1e-310, 1e-300, 1e-160, 1e160, 1e300),
    torch.float16: (1e-6, 3e-4, 1e4),
    torch.bfloat16: (1e-38, 1e-30, 1e30, 5e37),
}
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13, torch.float16: 1e-3, torch.bfloat16: 8e-3}

NAMED = [
    pytest.param(dtype, size, id=f"{str(dtype).removeprefix('torch.')}-{size:g}")
    for dtype, sizes in SIZES.items()
    for size in sizes
]


def draw(shape, dtype, size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(shape, dtype=torch.float64, generator=generator) * size).to(dtype)


def in_range(rows):
    """The rows in float64, scaled by an exact power of two to size 1."""
    wide = rows.double()
    _, exponent = torch.frexp(wide.abs().amax(-1, keepdim=True))
    half = exponent.div(2, rounding_mode="floor")
    return torch.ldexp(torch.ldexp(wide, -half), half - exponent)


def check_unit(result, expected, dtype):
    expected = hrr_oracle.normalize(expected, 0.0)
    error = torch.linalg.vector_norm(result.double() - expected, dim=-1)
    assert (error <= TOLERANCE[dtype]).all(), error.max()


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize(("dtype", "size"), NAMED)
def test_bind_normalize_gives_the_unit_vector(dtype, size, dim):
    """Neither the product nor its norm has to be representable."""
    a = draw((2, dim), dtype, size)
    for b in (draw((2, dim), dtype, size, 1), draw((2, dim), dtype, 1.0, 2)):
        check_unit(hrr.bind_normalize(a, b, 0.0), hrr_oracle.convolve(in_range(a), in_range(b)), dtype)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize(("dtype", "size"), NAMED)
def test_superpose_gives_the_unit_vector(dtype, size, dim):
    vectors = draw((3, dim), dtype, size)
    flat = in_range(vectors.flatten()).view(3, dim)
    check_unit(hrr.superpose(vectors, None, True, 0.0), flat.sum(-2), dtype)
    weights = draw((3,), dtype, size, 1)
    check_unit(hrr.superpose(vectors, weights, True, 0.0), (flat * in_range(weights).unsqueeze(-1)).sum(-2), dtype)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize(("dtype", "size"), NAMED)
def test_bind_superpose_gives_the_unit_vector(dtype, size, dim):
    a, b = draw((2, dim), dtype, size), draw((2, dim), dtype, size, 1)
    pairs = hrr_oracle.convolve(in_range(a.flatten()).view(2, dim), in_range(b.flatten()).view(2, dim))
    check_unit(hrr.bind_superpose(a, b, None, True, 0.0), pairs.sum(-2), dtype)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize("sizes", [(1e30, 1e-30), (1e-36, 5e37), (5e37, 1e-36), (1e17, 1e17)], ids=str)
def test_products_in_range_of_operands_at_its_ends(sizes, dim):
    """What float32 can hold comes out right, though sums of squares of the operands could not be held."""
    a, b = draw((2, dim), torch.float32, sizes[0]), draw((2, dim), torch.float32, sizes[1], 1)
    for ours, exact in ((hrr.bind, hrr_oracle.convolve), (hrr.unbind, hrr_oracle.correlate)):
        expected = exact(a.double(), b.double())
        error = torch.linalg.vector_norm(ours(a, b).double() - expected, dim=-1)
        assert (error <= 1e-6 * torch.linalg.vector_norm(expected, dim=-1)).all()


@pytest.mark.parametrize("dim", CLASS_DIMS)
def test_what_cannot_be_held_overflows_by_element_or_rounds_to_zero(dim):
    large = torch.full((dim,), 1e38)
    assert not hrr.bind(large, large).isfinite().any()
    small = draw((dim,), torch.float32, 1e-30)
    assert torch.equal(hrr.bind(small, small), torch.zeros(dim))


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_eps_bounds_the_divisor(dtype, dim):
    """Below eps a row is divided by eps, above it by its norm; a zero row stays zero."""
    a, b = draw((2, dim), dtype, 1.0), draw((2, dim), dtype, 1.0, 1)
    bound = hrr_oracle.convolve(a.double(), b.double())
    eps = float(hrr_oracle.norm(bound).mean())
    expected = hrr_oracle.normalize(bound, eps)
    for result in (hrr.bind_normalize(a, b, eps), hrr.bind_superpose(a[:, None], b[:, None], None, True, eps)):
        assert (torch.linalg.vector_norm(result.double() - expected, dim=-1) <= 2 * TOLERANCE[dtype]).all()
    zero = torch.zeros_like(a)
    assert torch.equal(hrr.bind_normalize(zero, b), zero)
    assert torch.equal(hrr.superpose(zero[:, None]), zero)
    assert torch.equal(hrr.bind_superpose(zero[:, None], b[:, None], None, True), zero)
    assert torch.equal(hrr.bind_normalize(a, b, float("inf")), zero)


@pytest.mark.parametrize("dim", CLASS_DIMS)
def test_tiny_rows_above_and_below_the_default_eps(dim):
    """eps 1e-12 is compared with the true norm, which float32 may not hold squared."""
    b = torch.zeros(dim)
    b[0] = 1
    for size, divisor in ((1e-8, None), (1e-11, None), (1e-13, 1e-12), (1e-25, 1e-12), (1e-30, 1e-12)):
        a = draw((dim,), torch.float32, size)
        wide = a.double()
        expected = wide / max(float(wide.norm()), divisor or 0.0)
        for result in (
            hrr.bind_normalize(a, b),
            hrr.superpose(a[None]),
            hrr.bind_superpose(a[None], b[None], None, True),
        ):
            assert (result.double() - expected).norm() <= 1e-6 * expected.norm()


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("dim", (5, 17, 64, 336, 1003, 1024))
@pytest.mark.parametrize("eps", (1e-12, 1e-3))
def test_derivatives_at_zero_are_zero(eps, dim, dtype):
    """Beside rows that are not zero, whose derivatives do not change; 1 / eps is infinite in float16."""
    a, b = draw((20, dim), torch.float64, 1.0).to(dtype), draw((20, dim), torch.float64, 1.0, 1).to(dtype)
    upstream = draw((20, dim), torch.float64, 1.0, 2).to(dtype)
    some = a.clone()
    some[::3] = 0
    functions = {
        "bind_normalize": lambda x: hrr.bind_normalize(x, b, eps),
        "superpose": lambda x: hrr.superpose(x[:, None], None, True, eps),
        "bind_superpose": lambda x: hrr.bind_superpose(x[:, None], b[:, None], None, True, eps),
    }
    for name, function in functions.items():
        x = some.clone().requires_grad_()
        (grad,) = torch.autograd.grad(function(x), x, upstream, create_graph=True)
        (second,) = torch.autograd.grad(grad.sum(), x)
        _, tangent = torch.func.jvp(function, (some,), (upstream,))
        for found in (grad, second, tangent):
            assert found.isfinite().all() and not found[::3].any(), name
        y = a.clone().requires_grad_()
        (whole,) = torch.autograd.grad(function(y), y, upstream)
        torch.testing.assert_close(grad[1::3], whole[1::3])


FUNCTIONS = {
    "bind_normalize": (
        lambda a, b: hrr.bind_normalize(a, b, 0.0),
        lambda a, b: hrr_oracle.normalize(hrr_oracle.convolve(a, b), 0.0),
    ),
    "superpose": (
        lambda a, b: hrr.superpose(torch.stack([a, b], -2), None, True, 0.0),
        lambda a, b: hrr_oracle.normalize(a + b, 0.0),
    ),
    "bind_superpose": (
        lambda a, b: hrr.bind_superpose(a[..., None, :], b[..., None, :], None, True, 0.0),
        lambda a, b: hrr_oracle.normalize(hrr_oracle.convolve(a, b), 0.0),
    ),
}


# Sums whose norm float32 holds but not its square; with these operands, and for bind_normalize's gradient, not the sum.
HELD, NOT_HELD = (1e-15, 1e15), (1e-30, 1e-25, 1e25, 1e30)
OUT_OF_RANGE = pytest.mark.parametrize(
    ("name", "size"), [(name, size) for name in FUNCTIONS for size in HELD] + [("superpose", size) for size in NOT_HELD]
)


def check_derivative(result, truth):
    assert result.isfinite().all()
    assert (result.double() - truth).norm() <= 4e-6 * truth.norm()


@pytest.mark.parametrize("dim", (5, 17, 64, 1024))
@OUT_OF_RANGE
def test_gradients_of_rows_out_of_range(name, size, dim):
    check_gradients(name, size, dim)


@pytest.mark.parametrize("dim", (5, 17, 64, 1024))
@pytest.mark.parametrize("size", NOT_HELD)
def test_gradients_of_products_that_cannot_be_held(size, dim):
    check_gradients("bind_normalize", size, dim)


def check_gradients(name, size, dim):
    ours, exact = FUNCTIONS[name]
    leaves = [draw((2, dim), torch.float32, size, seed).requires_grad_() for seed in (0, 1)]
    wide = [x.detach().double().requires_grad_() for x in leaves]
    upstream = draw((2, dim), torch.float64, 1.0, 2)
    expected = torch.autograd.grad(exact(*wide), wide, upstream)
    for result, truth in zip(torch.autograd.grad(ours(*leaves), leaves, upstream.float()), expected, strict=True):
        check_derivative(result, truth)


@pytest.mark.parametrize("dim", (5, 17, 64, 1024))
@OUT_OF_RANGE
def test_tangents_of_rows_out_of_range(name, size, dim):
    ours, exact = FUNCTIONS[name]
    primals = tuple(draw((2, dim), torch.float32, size, seed) for seed in (0, 1))
    tangents = tuple(draw((2, dim), torch.float32, size, seed) for seed in (2, 3))
    moved = torch.func.jvp(ours, primals, tangents)[1]
    truth = torch.func.jvp(exact, tuple(x.double() for x in primals), tuple(x.double() for x in tangents))[1]
    check_derivative(moved, truth)


def test_the_largest_numbers_of_float64_are_no_overflow():
    """Every operand is finite, whatever their magnitudes add up to."""
    delta = torch.zeros(4, dtype=torch.float64)
    delta[0] = 1
    huge = 1e308 * delta
    assert torch.equal(hrr.bind_normalize(huge, huge), delta)
    assert torch.equal(hrr.superpose(huge[None], torch.tensor([1e308], dtype=torch.float64)), delta)
    record = hrr.bind_superpose(huge[None], huge[None], torch.tensor([1e-308], dtype=torch.float64))
    torch.testing.assert_close(record, huge, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dim", [1000, 1001, 1024, 2**19 + 2])
def test_an_inverse_below_eps_is_the_time_reversal_however_small_the_row(dim):
    a = (
        torch.randn(dim, generator=torch.Generator().manual_seed(dim), dtype=torch.float64) * 2.0**-600
    ).requires_grad_()
    result = hrr.inverse(a, eps=1.0)
    reversal = torch.cat([a[:1], a[1:].flip(0)]).detach()
    torch.testing.assert_close(result * 2.0**600, reversal * 2.0**600, rtol=0, atol=1e-12)
    (gradient,) = torch.autograd.grad(result[1], a)
    expected = torch.zeros_like(a)
    expected[-1] = 1
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dim", [5, 100, 1000, 1001, 1024])
def test_a_product_of_many_survives_factors_that_leave_the_range(dim):
    generator = torch.Generator().manual_seed(dim)
    vectors = torch.randn(6, dim, generator=generator)
    factors = torch.tensor([2.0] * 6).pow(torch.tensor([90.0, 90, 90, -90, -90, -90])).unsqueeze(-1)
    product = hrr.multibind(vectors * factors)
    torch.testing.assert_close(product, hrr.multibind(vectors), rtol=0, atol=2e-6 * float(product.norm()))
