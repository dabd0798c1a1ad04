"""Packed spectra: scipy's order and values, the laws of the transform, products with them, range, shared spectra."""

import numpy as np
import pytest
import scipy.fftpack
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr import hrr

laws = settings(max_examples=40, derandomize=True, database=None, deadline=None)
# Lengths side by side, of single rows, of Bluestein's sum and of the library, odd and even.
DIMS = (1, 2, 3, 5, 16, 17, 32, 48, 96, 100, 1000, 1024, 4097)
dims = st.one_of(st.integers(1, 80), st.sampled_from(DIMS))
seeds = st.integers(0, 2**32)
dtypes = st.sampled_from((torch.float32, torch.float64))
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-13}

every_dim = pytest.mark.parametrize("dim", DIMS)
both = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
PRODUCTS = ((hrr.bind_spectrum, hrr.bind), (hrr.unbind_spectrum, hrr.unbind))


def rows(seed, count, dim, dtype=torch.float32):
    return torch.randn(count, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def check_close(result, expected, scale=1.0):
    """Within the precision of the dtype, relative to the norm of each row or to `scale` times it."""
    error = torch.linalg.vector_norm(result.double() - expected.double(), dim=-1)
    allowed = TOLERANCE[result.dtype] * scale * torch.linalg.vector_norm(expected.double(), dim=-1)
    assert (error <= allowed).all(), (error, allowed)


@every_dim
@both
def test_the_order_and_values_are_scipys(dim, dtype):
    a = rows(0, 3, dim, dtype)
    exact = torch.from_numpy(scipy.fftpack.rfft(a.numpy().astype(np.float64)))
    check_close(hrr.spectrum(a), exact)
    check_close(hrr.from_spectrum(a), torch.from_numpy(scipy.fftpack.irfft(a.numpy().astype(np.float64))))


@laws
@given(dims, seeds, dtypes)
def test_each_transform_inverts_the_other(dim, seed, dtype):
    a = rows(seed, 2, dim, dtype)
    check_close(hrr.from_spectrum(hrr.spectrum(a)), a)
    check_close(hrr.spectrum(hrr.from_spectrum(a)), a)


@laws
@given(dims, seeds, dtypes)
def test_parseval(dim, seed, dtype):
    """norm2(a)^2 = sum over all D bins of |A_k|^2 / D, where a complex bin stands for two."""
    a = rows(seed, 1, dim, dtype)[0]
    weights = torch.full((dim,), 2.0, dtype=torch.float64)
    weights[0] = 1
    if dim % 2 == 0:
        weights[-1] = 1
    total = float((hrr.spectrum(a).double().square() * weights).sum()) / dim
    assert total == pytest.approx(float(a.double().square().sum()), rel=4 * TOLERANCE[dtype])


@laws
@given(dims, seeds, dtypes, st.floats(-4, 4), st.floats(-4, 4))
def test_the_transforms_are_linear(dim, seed, dtype, x, y):
    a, b = rows(seed, 2, dim, dtype)
    for function in (hrr.spectrum, hrr.from_spectrum):
        parts = x * function(a) + y * function(b)
        error = torch.linalg.vector_norm(function(x * a + y * b) - parts)
        terms = abs(x) * torch.linalg.vector_norm(function(a)) + abs(y) * torch.linalg.vector_norm(function(b))
        assert error <= 4 * TOLERANCE[dtype] * terms


@laws
@given(dims, seeds, dtypes)
def test_products_with_a_spectrum_are_the_products(dim, seed, dtype):
    a, b = rows(seed, 2, dim, dtype)
    for with_spectrum, plain in PRODUCTS:
        check_close(with_spectrum(a, hrr.spectrum(b)), plain(a, b), 4)


@laws
@given(dims, seeds, dtypes)
def test_spectra_multiply_under_binding(dim, seed, dtype):
    """DC and, for even D, the last bin are products of real numbers."""
    a, b = rows(seed, 2, dim, dtype)
    bins, parts = hrr.spectrum(hrr.bind(a, b)), hrr.spectrum(a) * hrr.spectrum(b)
    allowed = 20 * TOLERANCE[dtype] * float(a.double().norm() * b.double().norm()) * dim
    for position in (0, *((-1,) if dim % 2 == 0 else ())):
        assert abs(float(bins[position] - parts[position])) <= allowed


@every_dim
def test_the_spectrum_of_a_delta_and_of_a_constant(dim):
    delta = torch.zeros(dim)
    delta[0] = 1
    ones = torch.zeros(dim)
    ones[0] = 1
    ones[1::2] = 1
    check_close(hrr.spectrum(delta), ones)
    check_close(hrr.spectrum(torch.full((dim,), 1 / dim)), delta)


@every_dim
def test_a_spectrum_shared_by_many_rows_changes_no_bit(dim):
    """Whether rows share it, repeat it or come alone."""
    a, spectra = rows(1, 6, dim), hrr.spectrum(rows(2, 3, dim))
    for with_spectrum, _ in PRODUCTS:
        outer = with_spectrum(a.unsqueeze(1), spectra)
        shared = with_spectrum(a, spectra[1])
        for i in range(6):
            assert torch.equal(outer[i, 1], shared[i])
            assert torch.equal(outer[i, 1], with_spectrum(a[i], spectra[1].clone()))


SIZES = {
    torch.float32: (1e-34, 1e-30, 1e-20, 1e20, 1e30, 1e34),
    torch.float64: (1e-302, 1e-160, 1e160, 1e300),
}
SIZED = [
    pytest.param(dtype, size, id=f"{str(dtype).removeprefix('torch.')}-{size:g}")
    for dtype, sizes in SIZES.items()
    for size in sizes
]


@every_dim
@pytest.mark.parametrize(("dtype", "size"), SIZED)
def test_rows_at_the_ends_of_the_range(dtype, size, dim):
    """By an exact power of two the results move too, though squares leave the range."""
    a = rows(3, 2, dim, dtype)
    exponent = round(np.log2(size))
    moved = torch.ldexp(a, torch.tensor(exponent))
    for function in (hrr.spectrum, hrr.from_spectrum):
        check_close(torch.ldexp(function(moved), torch.tensor(-exponent)), function(a))


@every_dim
@pytest.mark.parametrize("sizes", [(1e30, 1e-30), (1e-30, 1e30), (1e-36, 5e35), (5e35, 1e-36), (1e16, 1e16)], ids=str)
def test_products_in_range_of_operands_at_its_ends(sizes, dim):
    a, spectra = (rows(4, 2, dim, torch.float64) * sizes[0]).float(), (rows(5, 2, dim) * sizes[1]).float()
    for with_spectrum, plain in PRODUCTS:
        exact = plain(a.double(), hrr.from_spectrum(spectra.double()))
        check_close(with_spectrum(a, spectra), exact)


@every_dim
def test_what_cannot_be_held_overflows_and_zeros_stay(dim):
    zero = torch.zeros(2, dim)
    assert torch.equal(hrr.spectrum(zero), zero) and torch.equal(hrr.from_spectrum(zero), zero)
    largest = torch.full((1, dim), 3e38)
    bins = hrr.spectrum(largest)
    assert bins[0, 0] == torch.inf or dim == 1
    assert not bins.isnan().any()
    if dim > 2:
        assert bins[0, 1:].isfinite().all()
    for with_spectrum, _ in PRODUCTS:
        assert torch.equal(with_spectrum(zero, rows(6, 2, dim)), zero)
        assert torch.equal(with_spectrum(rows(6, 2, dim), zero), zero)
        assert torch.equal(with_spectrum(zero, largest), zero)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=("float16", "bfloat16"))
@pytest.mark.parametrize("dim", (5, 64, 100, 1024))
def test_half_precision_rounds_once(dim, dtype):
    """Float32 arithmetic on what the storage holds."""
    a, b = rows(7, 2, dim, dtype)
    assert torch.equal(hrr.spectrum(a), hrr.spectrum(a.float()).to(dtype))
    assert torch.equal(hrr.from_spectrum(a), hrr.from_spectrum(a.float()).to(dtype))
    for with_spectrum, _ in PRODUCTS:
        assert torch.equal(with_spectrum(a, b), with_spectrum(a.float(), b.float()).to(dtype))


def test_rows_beyond_our_own_transforms_have_their_bits_alone():
    a = rows(11, 3, 600_000)
    bins = hrr.spectrum(a)
    check_close(hrr.from_spectrum(bins), a)
    check_close(bins, torch.from_numpy(scipy.fftpack.rfft(a.double().numpy())))
    assert torch.equal(hrr.spectrum(a[1]), bins[1])
    assert torch.equal(hrr.from_spectrum(bins[1]), hrr.from_spectrum(bins)[1])


def test_a_gradient_reaches_a_shared_spectrum_summed():
    a, spectrum = rows(8, 5, 64, torch.float64), rows(9, 1, 64, torch.float64)[0].requires_grad_()
    weights = rows(10, 5, 64, torch.float64)
    for with_spectrum, _ in PRODUCTS:
        (together,) = torch.autograd.grad((with_spectrum(a, spectrum) * weights).sum(), spectrum)
        apart = [torch.autograd.grad((with_spectrum(a[i], spectrum) * weights[i]).sum(), spectrum)[0] for i in range(5)]
        check_close(together, torch.stack(apart).sum(0), 4)
