"""Fractional power encoding against the product of single powers, in value and gradients, and bad input."""

import math

import numpy as np
import pytest
import torch

from torch_hrr import hrr


def rows(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def composition(bases, values):
    return hrr.multibind(hrr.bind_power(bases, values))


@pytest.mark.parametrize("dim", [1, 2, 3, 4, 16, 25, 64, 101, 128])
@pytest.mark.parametrize("unitary", [True, False])
def test_equals_the_product_of_powers(dim, unitary):
    bases = rows(5, dim, seed=dim)
    bases = hrr.unitary(bases) if unitary else bases / dim**0.5
    values = rows(3, 2, 5, seed=1)
    expected = composition(bases, values)
    torch.testing.assert_close(hrr.fractional_power_encoding(bases, values), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dim", [16, 25])
def test_gradients_are_those_of_the_product(dim):
    bases = (rows(3, dim) / dim**0.5).requires_grad_()
    values = rows(2, 3, seed=1).requires_grad_()
    upstream = rows(2, dim, seed=2)
    got = torch.autograd.grad(hrr.fractional_power_encoding(bases, values), (bases, values), upstream)
    want = torch.autograd.grad(composition(bases, values), (bases, values), upstream)
    for x, y in zip(got, want, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-10)


def test_gradients_and_tangents_in_float32_are_exact_beside_a_small_bin():
    generator = torch.Generator().manual_seed(4)
    bins = torch.fft.rfft(torch.randn(2, 256, generator=generator))
    bins[0, 7] *= 1e-4
    bases = torch.fft.irfft(bins, n=256)
    values = torch.tensor([[2.0, 1.0], [1.5, -0.5]])
    upstream = torch.randn(2, 256, generator=generator)

    def derivatives(dtype):
        arguments = (bases.to(dtype).requires_grad_(), values.to(dtype).requires_grad_())
        grads = torch.autograd.grad(hrr.fractional_power_encoding(*arguments), arguments, upstream.to(dtype))
        direction = upstream.to(dtype)
        moved = torch.func.jvp(
            lambda rows: hrr.fractional_power_encoding(rows, values.to(dtype)), (bases.to(dtype),), (direction,)
        )
        return (*grads, moved[1])

    for got, exact in zip(derivatives(torch.float32), derivatives(torch.float64), strict=True):
        assert (got.double() - exact).norm() <= 2e-6 * exact.norm()


def test_an_empty_bin_of_any_feature_is_empty():
    bases = torch.ones(2, 8, dtype=torch.float64)
    bases[1] = hrr.unitary(rows(8))
    values = torch.tensor([2.0, 2.0], dtype=torch.float64)
    expected = composition(bases, values)
    got = hrr.fractional_power_encoding(bases, values)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(hrr.spectrum(got)[0].item(), 64.0, rtol=1e-12, atol=0)
    assert hrr.spectrum(got)[1:].abs().max() < 1e-12


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_the_power_0_of_an_empty_bin_is_1(dtype):
    bases = torch.ones(2, 8, dtype=dtype)
    bases[1] = hrr.unitary(rows(8)).to(dtype)
    values = torch.tensor([[0.0, 1.0], [0.0, -0.5], [2.0, 0.0], [0.0, 0.0], [0.0, 2.0]], dtype=dtype)
    arguments = bases.requires_grad_(), values.requires_grad_()
    got, expected = hrr.fractional_power_encoding(*arguments), composition(*arguments)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-12}
    torch.testing.assert_close(got, expected, **close)
    torch.testing.assert_close(got[0], bases[1], **close)
    upstream = rows(5, 8, seed=2).to(dtype)
    for x, y in zip(*(torch.autograd.grad(of, arguments, upstream) for of in (got, expected)), strict=True):
        torch.testing.assert_close(x, y, **close)


@pytest.mark.parametrize(
    "dtype, scale", [(torch.float32, 1e-25), (torch.float32, 1e20), (torch.float64, 1e-170), (torch.float64, 1e170)]
)
def test_bases_whose_squares_leave_the_range(dtype, scale):
    bases = hrr.unitary(rows(2, 25, dtype=dtype)) * scale
    values = torch.tensor([0.75, -0.5], dtype=dtype)
    expected = composition(bases, values)
    # Each logarithm, up to 400, is rounded once.
    error = (hrr.fractional_power_encoding(bases, values) - expected).norm()
    assert error <= 1e3 * torch.finfo(dtype).eps * expected.norm()


def test_gradients_of_large_results():
    def gradients(function):
        bases = (hrr.unitary(rows(2, 25, dtype=torch.float32)) * 1e12).requires_grad_()
        values = torch.tensor([2.0, 1.0]).requires_grad_()
        return torch.autograd.grad(function(bases, values).sum(), (bases, values))

    got, expected = gradients(hrr.fractional_power_encoding), gradients(composition)
    for x, y in zip(got, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-5 * y.abs().max().item())


def test_a_base_that_is_not_finite_makes_empty_bins_nan_too():
    for value in (math.nan, math.inf):
        bases = torch.zeros(2, 25)
        bases[1, 3] = value
        assert hrr.fractional_power_encoding(bases, torch.ones(3, 2)).isnan().all()
        assert hrr.fractional_power_encoding(bases.flip(0), torch.ones(3, 2)).isnan().all()


def test_errors_grow_with_the_values_as_those_of_the_phases_do():
    bases = hrr.unitary(rows(64, 256, dtype=torch.float32))
    for scale in (1, 100):
        values = scale * rows(10, 64, seed=3, dtype=torch.float32)
        exact = hrr.fractional_power_encoding(bases.double(), values.double())
        error = (hrr.fractional_power_encoding(bases, values).double() - exact).norm(dim=-1)
        assert error.max() < 4 * torch.finfo(torch.float32).eps * scale * 8


def test_codes_of_two_numbers_are_as_alike_as_their_sinc():
    generator = torch.Generator().manual_seed(0)
    bases = hrr.unitary(torch.randn(2, 4096, generator=generator))
    codes = hrr.fractional_power_encoding(bases, torch.tensor([[0.3, 1.2], [0.8, 0.9]]))
    sinc = [math.sin(math.pi * t) / (math.pi * t) for t in (0.5, 0.3)]
    assert hrr.cosine_similarity(codes[:1], codes[1:]).item() == pytest.approx(sinc[0] * sinc[1], abs=0.05)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_computed_in_float32(dtype):
    bases, values = hrr.unitary(rows(3, 32)).to(dtype), rows(4, 3, seed=1).to(dtype)
    got = hrr.fractional_power_encoding(bases, values)
    assert got.dtype == dtype
    expected = hrr.fractional_power_encoding(bases.double(), values.double())
    assert (got.double() - expected).abs().max() < 2 * torch.finfo(dtype).eps * expected.abs().max()


def test_arrays_and_a_value_that_is_not_finite():
    bases, values = rows(2, 16), rows(3, 2, seed=1)
    expected = hrr.fractional_power_encoding(bases, values)
    assert torch.equal(hrr.fractional_power_encoding(bases.numpy(), values.numpy()), expected)
    values[1, 0] = np.inf
    got = hrr.fractional_power_encoding(bases, values)
    assert got[1].isnan().all() and got[[0, 2]].isfinite().all()


@pytest.mark.parametrize(
    ("bases", "values", "message"),
    [
        (rows(16), rows(2), "bases must have at least 2 dimensions"),
        (rows(2, 3, 16), rows(2), r"bases must be \[F, D\] with F >= 1, got shape \[2, 3, 16\]"),
        (rows(0, 16), rows(0), r"bases must be \[F, D\] with F >= 1, got shape \[0, 16\]"),
        (rows(2, 0), rows(2), "bases must have D >= 1"),
        (rows(2, 16), rows(3), "values must have the last dimension 2"),
    ],
)
def test_shapes_that_do_not_fit(bases, values, message):
    with pytest.raises(ValueError, match=f"^fractional_power_encoding: {message}"):
        hrr.fractional_power_encoding(bases, values)
