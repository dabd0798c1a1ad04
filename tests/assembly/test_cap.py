"""The k-cap: winners, the threshold against a root finder, the Jacobian, every surrogate, extremes of the inputs."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from torch.autograd import forward_ad

from torch_hrr.assembly import k_cap, k_winners

DOUBLE = torch.float64
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SOFT = ("sigmoid", "laplace")

laws = settings(max_examples=60, derandomize=True, database=None, deadline=None)
dtypes = pytest.mark.parametrize("dtype", FLOATS, ids=str)
surrogates = pytest.mark.parametrize("surrogate", SOFT)


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(dtype)


def distribution(z, surrogate):
    if surrogate == "sigmoid":
        return 1 / (1 + math.exp(-z)) if z > -700 else 0.0
    return math.exp(min(z, 0)) / 2 if z < 0 else 1 - math.exp(-z) / 2


def soft_winners(row, k, temperature, surrogate):
    """y of one row with the threshold from Brent's method."""
    z = [x / temperature for x in row]

    def excess(t):
        return sum(distribution(x - t, surrogate) for x in z) - k

    t = brentq(excess, min(z) - 50, max(z) + 50, xtol=1e-13, rtol=1e-14)
    return [distribution(x - t, surrogate) for x in z]


def mask_by_sorting(x, k):
    order = x.sort(dim=-1, descending=True, stable=True).indices[..., :k]
    return torch.zeros_like(x).scatter(-1, order, 1.0)


def gradient(x, v, k, **options):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(k_cap(x, k, **options), x, v)[0]


@surrogates
@pytest.mark.parametrize("temperature", (0.05, 1.0, 30.0))
@pytest.mark.parametrize(("n", "k"), ((2, 1), (7, 3), (50, 1), (50, 49), (300, 20)))
def test_soft_winners_are_those_of_a_root_finder(n, k, temperature, surrogate):
    x = draw(3, n, seed=n)
    y = k_cap(x, k, temperature, surrogate, soft=True)
    expected = torch.tensor([soft_winners(row.tolist(), k, temperature, surrogate) for row in x], dtype=DOUBLE)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-11)


@laws
@given(
    st.integers(1, 200),
    st.floats(0, 1),
    st.floats(-6, 6),
    st.sampled_from(SOFT),
    st.sampled_from(("normal", "ties", "constant", "huge", "tiny", "heavy")),
    st.integers(0, 2**32),
)
def test_soft_winners_sum_to_k_whatever_the_row(n, part, exponent, surrogate, kind, seed):
    k = round(part * n)
    x = draw(2, n, seed=seed)
    rows = {
        "normal": x,
        "ties": x.round(),
        "constant": torch.full_like(x, 3.7),
        "huge": x * 1e30,
        "tiny": x * 1e-30,
        "heavy": x.sign() * x.abs().mul(20).exp(),
    }[kind]
    y = k_cap(rows, k, 10.0**exponent, surrogate, soft=True)
    assert ((y >= 0) & (y <= 1)).all()
    assert ((y.sum(-1) - k).abs() <= 1e-6).all()
    order = rows.sort(dim=-1, descending=True).indices
    assert (y.gather(-1, order).diff(dim=-1) <= 1e-15).all()
    assert ((y.unsqueeze(-1) == y.unsqueeze(-2)) | (rows.unsqueeze(-1) != rows.unsqueeze(-2))).all()


@dtypes
@pytest.mark.parametrize("surrogate", (*SOFT, "ste", "none"))
def test_the_mask_has_the_k_largest_and_the_first_of_equal_ones(dtype, surrogate):
    for n, k in ((1, 0), (1, 1), (9, 4), (100, 7), (1000, 50), (1000, 1000)):
        for x in (draw(4, n, dtype=dtype), draw(4, n, dtype=dtype).round(), torch.zeros(4, n, dtype=dtype).neg_()):
            mask = k_cap(x, k, surrogate=surrogate)
            assert mask.dtype == dtype
            assert torch.equal(mask, mask_by_sorting(x, k))
            assert torch.equal(mask.nonzero()[:, 1].view(4, k), k_winners(x, k)[1])
            assert (mask.double().sum(-1) == k).all()


@dtypes
def test_the_mask_of_rows_that_are_not_finite(dtype):
    x = torch.tensor([[1, math.nan, 3, math.inf, -math.inf, -0.0, 0.0, math.nan]], dtype=dtype)
    order = (1, 7, 3, 2, 0, 5, 6, 4)
    for k in range(9):
        mask = k_cap(x, k)
        assert sorted(order[:k]) == mask[0].nonzero().flatten().tolist()


@surrogates
@pytest.mark.parametrize("bad", (math.nan, math.inf, -math.inf))
def test_a_row_that_is_not_finite_has_nan_soft_winners_and_a_nan_gradient(bad, surrogate):
    x = draw(3, 20)
    x[1, 4] = bad
    for k in (0, 5, 20):
        for result in (
            k_cap(x, k, 1.0, surrogate, soft=True),
            gradient(x, torch.ones_like(x), k, surrogate=surrogate),
        ):
            assert result[1].isnan().all() and result[[0, 2]].isfinite().all()
    assert torch.equal(gradient(x, x.nan_to_num(), 5, surrogate="ste"), x.nan_to_num())
    assert (gradient(x, x, 5, surrogate="none") == 0).all()


@surrogates
@pytest.mark.parametrize("temperature", (0.2, 1.0, 8.0))
def test_the_jacobian_is_its_formula_symmetric_and_without_a_common_part(temperature, surrogate):
    x = draw(12, seed=3)
    jacobian = torch.autograd.functional.jacobian(lambda a: k_cap(a, 4, temperature, surrogate, True), x)
    y = k_cap(x, 4, temperature, surrogate, soft=True)
    d = y * (1 - y) if surrogate == "sigmoid" else torch.minimum(y, 1 - y)
    expected = (d.diag() - d.outer(d) / d.sum()) / temperature
    torch.testing.assert_close(jacobian, expected, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(jacobian, jacobian.T, rtol=0, atol=1e-16)
    torch.testing.assert_close(jacobian.sum(-1), torch.zeros(12, dtype=DOUBLE), rtol=0, atol=1e-15)
    assert (torch.linalg.eigvalsh(jacobian) > -1e-14).all()


@surrogates
def test_the_mask_has_the_gradient_of_its_soft_winners(surrogate):
    x, v = draw(3, 40), draw(3, 40, seed=1)
    hard = gradient(x, v, 6, temperature=0.7, surrogate=surrogate)
    soft = gradient(x, v, 6, temperature=0.7, surrogate=surrogate, soft=True)
    assert torch.equal(hard, soft) and hard.abs().max() > 1e-3
    with forward_ad.dual_level():
        result = k_cap(forward_ad.make_dual(x, v), 6, 0.7, surrogate)
        tangent = forward_ad.unpack_dual(result).tangent
    assert torch.equal(tangent, hard)


@dtypes
def test_straight_through_and_none(dtype):
    x, v = draw(3, 40, dtype=dtype), draw(3, 40, seed=1, dtype=dtype)
    assert torch.equal(gradient(x, v, 6, surrogate="ste"), v)
    assert torch.equal(gradient(x, v, 6, surrogate="none"), torch.zeros_like(v))
    for surrogate, expected in (("ste", v), ("none", torch.zeros_like(v))):
        _, tangent = torch.func.jvp(lambda a, s=surrogate: k_cap(a, 6, surrogate=s), (x,), (v,))
        assert torch.equal(tangent, expected)


@surrogates
def test_second_derivatives_of_the_mask_are_those_of_the_soft_winners(surrogate):
    x = draw(9).requires_grad_()
    u, v = draw(9, seed=1), draw(9, seed=2)
    seconds = []
    for soft in (False, True):
        (first,) = torch.autograd.grad(k_cap(x, 3, 0.5, surrogate, soft), x, u, create_graph=True)
        seconds.append(torch.autograd.grad(first, x, v)[0])
    torch.testing.assert_close(seconds[0], seconds[1], rtol=1e-12, atol=1e-14)
    assert seconds[0].abs().max() > 1e-3


@surrogates
def test_no_winners_and_all_winners(surrogate):
    x = draw(2, 7)
    for k in (0, 7):
        assert (k_cap(x, k, 1.0, surrogate, soft=True) == (k > 0)).all()
        assert (gradient(x, draw(2, 7), k, surrogate=surrogate) == 0).all()
    assert k_cap(torch.zeros(3, 0), 0).shape == (3, 0)


@surrogates
def test_a_huge_temperature_shares_evenly_and_a_small_one_decides(surrogate):
    x = draw(2, 50)
    even = k_cap(x, 5, 1e300, surrogate, soft=True)
    torch.testing.assert_close(even, torch.full_like(even, 0.1), rtol=0, atol=1e-15)
    for temperature in (1e-6, 1e-300, 5e-324):
        assert torch.equal(k_cap(x, 5, temperature, surrogate, soft=True), mask_by_sorting(x, 5))
        assert (gradient(x, draw(2, 50), 5, temperature=temperature, surrogate=surrogate) == 0).all()


@surrogates
def test_equal_elements_share_what_is_left(surrogate):
    x = torch.tensor([5.0, 5.0, 1e30, 5.0, -1e30, 5.0], dtype=DOUBLE)
    for scale in (1.0, 1e-30, 1e270):
        y = k_cap(x * scale, 2, 1.0 * scale, surrogate, soft=True)
        torch.testing.assert_close(y, torch.tensor([0.25, 0.25, 1, 0.25, 0, 0.25], dtype=DOUBLE), rtol=0, atol=1e-14)


@pytest.mark.parametrize("dtype", (torch.float32, DOUBLE), ids=str)
@surrogates
def test_many_losing_ties_keep_the_digits_of_their_shares(surrogate, dtype):
    for n, k in ((3001, 1), (10**6, 1), (10**6, 3)):
        y = k_cap(torch.full((n,), 0.75, dtype=dtype), k, 1.0, surrogate, soft=True)
        expected = torch.full_like(y, k / n)
        torch.testing.assert_close(y, expected, rtol=max(1e-14, torch.finfo(dtype).eps), atol=0)


@pytest.mark.parametrize("create_graph", (False, True))
@pytest.mark.parametrize(
    ("dtype", "temperature", "size"),
    ((DOUBLE, 1e-300, 1e10), (DOUBLE, 1e-10, 1e299), (torch.float32, 1e-300, 1e10), (torch.float32, 1e-6, 1e38)),
)
@surrogates
def test_the_gradient_is_zero_where_the_density_is(surrogate, dtype, temperature, size, create_graph):
    """Where (v - mean) / temperature is beyond the type, and the others' v is the mean."""
    x = torch.tensor([1.0, 1.0, 0.0, -1.0], dtype=dtype, requires_grad=True)
    v = torch.tensor([size, size, -size, 3 * size], dtype=dtype)
    for soft in (False, True):
        y = k_cap(x, 1, temperature, surrogate, soft)
        (result,) = torch.autograd.grad(y, x, v, create_graph=create_graph)
        assert torch.equal(result, torch.zeros_like(x))


def test_gaps_between_winners_and_the_rest_fade_smoothly_into_the_mask():
    """With a gap of g temperatures the k-th winner lacks sqrt(e^-g) or so, and nothing beyond 600."""
    for gap in (10.0, 40.0, 300.0, 599.0, 601.0, 2000.0):
        x = torch.tensor([gap, 0.0], dtype=DOUBLE)
        y = k_cap(x, 1, soft=True)
        least = math.exp(-gap / 2) / (1 + math.exp(-gap / 2)) if gap < 600 else 0
        assert y[1].item() == pytest.approx(least, rel=1e-12)


def test_nothing_is_cast_in_autocast():
    x = draw(3, 200, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(k_cap(x, 13), k_cap(x.clone(), 13)) and k_cap(x, 13).dtype == torch.float32
