"""Laws of inverse, unitary, bind_power, multibind and permute, their closed forms, empty bins, and the number range."""

import functools
import itertools
import math

import pytest
import torch
from cases import hrr_algebra_oracle as oracle
from cases.hrr_algebra_samples import away_from_zero, with_empty_bins
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr import hrr

laws = settings(max_examples=30, derandomize=True, database=None, deadline=None)
dims = st.one_of(st.integers(1, 80), st.sampled_from((100, 127, 128, 256, 500, 512, 1000, 1024, 4097)))
seeds = st.integers(0, 2**32)
dtypes = st.sampled_from((torch.float32, torch.float64))
exponents = st.integers(1 - 2**62, 2**62 - 1)
any_seed = st.integers(-(2**63), 2**63 - 1)
CLASS_DIMS = (1, 2, 5, 16, 17, 32, 64, 100, 1024)
# With a quarter of a row that repeats.
PERIODIC_DIMS = (8, 12, 32, 64, 96, 100, 1024)


def draw(shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def regular(seed, count, dim, dtype):
    """Rows without small bins: within a factor of five, all magnitudes are 1."""
    return (away_from_zero(draw((count, dim), seed=seed)) / (4 * dim**0.5)).to(dtype)


def delta_like(row):
    result = torch.zeros_like(row)
    result[..., 0] = 1
    return result


def close(result, expected, scale=1.0):
    """Within the precision of the dtype, relative to the norm of the terms."""
    tolerance = 2e-6 if result.dtype == torch.float32 else 1e-13
    return torch.linalg.vector_norm(result - expected) <= tolerance * max(scale, torch.linalg.vector_norm(expected))


@laws
@given(dims, seeds, dtypes)
def test_the_inverse_inverts(dim, seed, dtype):
    (a,) = regular(seed, 1, dim, dtype)
    assert close(hrr.bind(hrr.inverse(a), a), delta_like(a), 8)
    assert close(hrr.inverse(hrr.inverse(a)), a, 16)


@laws
@given(dims, seeds, dtypes)
def test_unitary_rows_are_their_own_and_invert_by_involution(dim, seed, dtype):
    a, b = draw((2, dim), dtype, seed)
    u = hrr.unitary(regular(seed, 1, dim, dtype)[0])
    assert close(hrr.unitary(u), u)
    assert close(hrr.inverse(u), u.roll(-1).flip(-1))
    assert close(hrr.unbind(hrr.bind(a, u), u), a)
    assert close(oracle.power_of(oracle.spectrum(u.double())).to(dtype), torch.ones(dim // 2 + 1, dtype=dtype), 8)
    # A magnitude of 1 whatever the row, though small bins lose digits of their phase.
    magnitudes = oracle.power_of(oracle.spectrum(hrr.unitary(b).double()))
    assert ((magnitudes - 1).abs() <= (1e-4 if dtype == torch.float32 else 1e-11)).all()


@laws
@given(dims, seeds, dtypes, st.integers(-4, 5))
def test_integer_powers_are_repeated_binding(dim, seed, dtype, exponent):
    (a,) = regular(seed, 1, dim, dtype)
    factors = [a if exponent > 0 else hrr.inverse(a)] * abs(exponent)
    expected = functools.reduce(hrr.bind, factors, delta_like(a))
    # (5 norms) to the power is what a product of the largest bins can reach.
    assert close(hrr.bind_power(a, float(exponent)), expected, 4.0 ** abs(exponent))
    assert close(hrr.multibind(torch.stack(factors)) if factors else delta_like(a), expected, 4.0 ** abs(exponent))


@laws
@given(dims, seeds, dtypes, st.floats(-3, 3), st.floats(-3, 3))
def test_exponents_add_where_the_real_bins_are_positive(dim, seed, dtype, x, y):
    (u,) = hrr.random(1, dim, torch.Generator().manual_seed(seed), unitary=True, dtype=dtype)
    product = hrr.bind(hrr.bind_power(u, x), hrr.bind_power(u, y))
    # A phase is in error by that of u, as often as the exponent says.
    assert close(product, hrr.bind_power(u, x + y), 16)


@laws
@given(dims, seeds, dtypes, st.floats(-1, 1), st.floats(-2, 2))
def test_exponents_multiply_below_one(dim, seed, dtype, x, y):
    (u,) = hrr.random(1, dim, torch.Generator().manual_seed(seed), unitary=True, dtype=dtype)
    assert close(hrr.bind_power(hrr.bind_power(u, x), y), hrr.bind_power(u, x * y), 16)


@pytest.mark.parametrize("exponent", (-2.0, -0.5, 0.0, 0.3, 1.0, 1.5, 2.0, 3.0))
@pytest.mark.parametrize("a", (-2.0, -1.0, -0.25, 0.25, 3.0))
def test_powers_of_real_bins_in_closed_form(a, exponent):
    """abs(A)^e cos(pi e) where A < 0: all of a row of one element, and both bins of a row of two."""
    power = abs(a) ** exponent * (math.cos(math.pi * exponent) if a < 0 else 1)
    (result,) = hrr.bind_power(torch.tensor([a], dtype=torch.float64), exponent)
    assert float(result) == pytest.approx(power, rel=1e-14, abs=1e-15)
    # Bins a and 4.
    row = torch.tensor([(a + 4) / 2, (a - 4) / 2], dtype=torch.float64)
    expected = torch.tensor([(power + 4**exponent) / 2, (power - 4**exponent) / 2], dtype=torch.float64)
    assert close(hrr.bind_power(row, exponent), expected)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16), ids=str)
def test_an_exponent_as_a_number_or_a_tensor_gives_the_same_bits(dim, dtype):
    a = draw((3, dim), dtype)
    for exponent in (-1.5, 0.0, 0.1, 2.0):
        expected = hrr.bind_power(a, exponent)
        assert expected.dtype == dtype
        number = torch.tensor(exponent, dtype=torch.float64)
        assert torch.equal(hrr.bind_power(a, number), expected)
        wide = hrr.bind_power(a.double(), number.expand(3))
        assert torch.equal(hrr.bind_power(a.double(), exponent), wide)


def test_a_number_takes_no_part_in_promotion():
    a = draw((3, 8), torch.float16)
    assert hrr.bind_power(a, torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float16
    assert hrr.bind_power(a, torch.full((3,), 2.0, dtype=torch.float64)).dtype == torch.float64
    assert hrr.bind_power(a, torch.full((3,), 2.0, dtype=torch.bfloat16)).dtype == torch.float32


@laws
@given(st.integers(0, 6), dims, seeds, dtypes)
def test_multibind_is_the_fold_of_bind_in_any_order(count, dim, seed, dtype):
    vectors = hrr.random(count, dim, torch.Generator().manual_seed(seed), dtype=dtype)
    expected = functools.reduce(hrr.bind, vectors, delta_like(torch.zeros(dim, dtype=dtype)))
    assert close(hrr.multibind(vectors), expected, 4)
    assert close(hrr.multibind(vectors.flip(0)), expected, 4)


@pytest.mark.parametrize("dim", (64, 75, 101, 300, 512, 1000, 1006, 1009))
def test_multibind_of_many_random_vectors_keeps_its_digits(dim):
    """No bin takes on the rounding errors of larger ones: after further factors it may be the largest."""
    leaf = (draw((8, 128, dim)) / dim**0.5).float().requires_grad_()
    wide = leaf.detach().double().requires_grad_()
    expected = torch.fft.irfft(torch.fft.rfft(wide).prod(-2), n=dim)
    upstream = draw(expected.shape)
    (gradient,) = torch.autograd.grad(expected, wide, upstream)
    result = hrr.multibind(leaf)
    (found,) = torch.autograd.grad(result, leaf, upstream.float())
    for ours, exact in ((result.detach(), expected.detach()), (found, gradient)):
        assert float(((ours - exact).norm(dim=-1) / exact.norm(dim=-1)).max()) < 5e-5


def test_the_tangent_of_many_factors_takes_few_operators():
    """Some log2(1000) times ten: one for each factor held a view of each, and their number in gigabytes."""

    class Counted(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    vectors, moved = hrr.unitary(draw((1000, 24), seed=1)), draw((1000, 24), seed=2)
    with Counted() as counted:
        product, tangent = torch.func.jvp(hrr.multibind, (vectors,), (moved,))
    assert counted.calls < 250
    bins = torch.fft.rfft(vectors)
    expected = torch.fft.irfft(bins.prod(0) * (torch.fft.rfft(moved) / bins).sum(0), n=24)
    assert close(tangent, expected, 32)
    assert torch.equal(product, hrr.multibind(vectors))


def test_multibind_compiles_to_one_graph_for_any_number_of_items():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = torch.compile(hrr.multibind, backend=backend, fullgraph=True, dynamic=True)
    for items in (3, 5, 8):
        vectors = draw((2, items, 32))
        assert torch.equal(compiled(vectors), hrr.multibind(vectors))
    assert len(graphs) == 1
    torch._dynamo.reset()


@laws
@given(dims, any_seed, exponents, exponents, seeds)
def test_powers_of_a_permutation_add(dim, seed, x, y, data_seed):
    a = draw((2, dim), torch.float32, data_seed)
    assert torch.equal(hrr.permute(hrr.permute(a, seed, x), seed, y), hrr.permute(a, seed, x + y))
    assert torch.equal(hrr.permute(hrr.permute(a, seed, x), seed, -x), a)
    assert torch.equal(hrr.permute(a, seed, 0), a)
    assert torch.equal(hrr.permute(a, seed).sort(-1).values, a.sort(-1).values)


@laws
@given(dims, any_seed, seeds)
def test_a_permutation_distributes_over_sums_and_keeps_inner_products(dim, seed, data_seed):
    a, b = draw((2, dim), torch.float64, data_seed)
    assert torch.equal(hrr.permute(a + b, seed), hrr.permute(a, seed) + hrr.permute(b, seed))
    exact = float(torch.dot(a, b))
    assert float(torch.dot(hrr.permute(a, seed), hrr.permute(b, seed))) == pytest.approx(exact, abs=1e-10)


def test_all_permutations_are_equally_likely():
    """Of 24, over 4800 seeds: chi-square of 23 degrees of freedom below its 99.9 % point."""
    row = torch.arange(4.0)
    counts = dict.fromkeys(itertools.permutations(range(4)), 0)
    for seed in range(4800):
        counts[tuple(int(x) for x in hrr.permute(row, seed))] += 1
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 49.73


def test_a_permutation_does_not_commute_with_binding():
    a, b = draw((2, 1024))
    bound = hrr.permute(hrr.bind(a, b), 0)
    for other in (hrr.bind(hrr.permute(a, 0), b), hrr.bind(hrr.permute(a, 0), hrr.permute(b, 0))):
        assert abs(float(torch.nn.functional.cosine_similarity(bound, other, dim=0))) < 0.1


def test_permutations_in_use_beyond_those_kept():
    """More tables than are kept, in turn and again: each stays its own."""
    row = torch.arange(6.0)
    first = [hrr.permute(row, seed) for seed in range(150)]
    assert all(torch.equal(hrr.permute(row, seed), expected) for seed, expected in enumerate(first))


@pytest.mark.parametrize("dim", PERIODIC_DIMS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_the_pseudo_inverse_of_a_row_with_empty_bins(dtype, dim):
    """bind(inverse(a), a) is a projector that keeps a; negative powers agree; unitary and power 0 fill with 1."""
    a = with_empty_bins(draw((2, dim))).to(dtype)
    pseudo = hrr.inverse(a)
    projector = hrr.bind(pseudo, a)
    scale = float(oracle.inverse_scale(a.double(), 0.0).max())
    assert close(hrr.bind(projector, projector), projector, scale)
    assert close(hrr.bind(projector, a), a, scale)
    delta = torch.zeros_like(a)
    delta[:, 0] = 1
    assert close(hrr.bind_power(a, 0.0), delta, scale)
    assert close(hrr.bind_power(a, torch.tensor([0.0, -1.0], dtype=dtype)), torch.stack([delta[0], pseudo[1]]), scale)
    torch.testing.assert_close(hrr.bind_power(torch.zeros_like(a), 0.0), delta)
    assert close(hrr.bind_power(a, -1.0), pseudo, scale)
    bins = oracle.power_of(oracle.spectrum(hrr.unitary(a).double()))
    assert ((bins - 1).abs() <= 1e-4).all()


MAPS = {
    "inverse": (hrr.inverse, lambda a: oracle.inverse(a, 0.0)),
    "inverse-eps": (lambda a: hrr.inverse(a, 20.0), lambda a: oracle.inverse(a, 20.0)),
    "unitary": (hrr.unitary, oracle.unitary),
    "power": (lambda a: hrr.bind_power(a, 0.4), lambda a: oracle.bind_power(a, 0.4)),
    "negative-power": (lambda a: hrr.bind_power(a, -1.4), lambda a: oracle.bind_power(a, -1.4)),
}
maps = pytest.mark.parametrize(("ours", "definition"), MAPS.values(), ids=MAPS)


def close_derivative(result, expected):
    """A derivative of unitary is zero, and its definition's rounding, where all bins are real."""
    return torch.linalg.vector_norm(result - expected) <= 1e-9 * torch.linalg.vector_norm(expected) + 1e-12


@pytest.mark.parametrize("dim", PERIODIC_DIMS)
@maps
def test_derivatives_are_zero_on_empty_bins(ours, definition, dim):
    a, t = with_empty_bins(draw((2, dim))), draw((2, dim), seed=1)
    _, moved = torch.func.jvp(ours, (a,), (t,))
    _, expected = torch.func.jvp(definition, (a,), (t,))
    assert close_derivative(moved, expected)
    leaf = a.clone().requires_grad_()
    (grad,) = torch.autograd.grad(ours(leaf), leaf, t, create_graph=True)
    (exact,) = torch.autograd.grad(definition(leaf), leaf, t, create_graph=True)
    assert close_derivative(grad, exact)
    (second,), (exact,) = (torch.autograd.grad(g.square().sum(), leaf) for g in (grad, exact))
    assert close_derivative(second, exact)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@maps
def test_a_zero_row_has_zero_derivatives(ours, definition, dim):
    zero, t = torch.zeros(2, dim, dtype=torch.float64), draw((2, dim))
    result, moved = torch.func.jvp(ours, (zero,), (t,))
    assert close(result, definition(zero))
    assert torch.equal(moved, zero)
    leaf = zero.clone().requires_grad_()
    (grad,) = torch.autograd.grad(ours(leaf), leaf, t)
    assert torch.equal(grad, zero)


def test_eps_is_a_floor_of_the_squared_magnitude():
    rows = torch.tensor([[0.5], [-0.5], [2.0], [-3.0]], dtype=torch.float64)
    expected = torch.tensor([[0.5], [-0.5], [0.5], [-1 / 3]], dtype=torch.float64)
    assert close(hrr.inverse(rows, 1.0), expected)
    assert torch.equal(hrr.inverse(draw((3, 64)), math.inf), torch.zeros(3, 64, dtype=torch.float64))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("dim", (8, 64, 100))
def test_tangents_in_half_precision(dim, dtype):
    """Computed in float32 and rounded once, in exponents near 0 and 1 too, whose neighbours e - 1 are coarse."""
    a, t = away_from_zero(draw((4, dim))).to(dtype), draw((4, dim), dtype, 1)
    exponents = torch.tensor([0.01, 0.99, -0.3, 1.7]).to(dtype)
    for ours, definition in (
        *MAPS.values(),
        (lambda x: hrr.bind_power(x, exponents.to(x)), lambda x: oracle.bind_power(x, exponents.to(x))),
    ):
        _, moved = torch.func.jvp(ours, (a,), (t,))
        _, expected = torch.func.jvp(definition, (a.double(),), (t.double(),))
        error = torch.linalg.vector_norm(moved.double() - expected, dim=-1)
        # One rounding is at most half of eps.
        assert (error <= 0.6 * torch.finfo(dtype).eps * torch.linalg.vector_norm(expected, dim=-1)).all()


# Powers of two, exact in every dtype of float32's exponents.
SIZES = (-120, -60, -30, 30, 60, 100)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64), ids=str)
def test_rows_of_any_size(dtype, size, dim):
    """inverse scales inversely, unitary not at all, a power by the power; eps by the square."""
    a = away_from_zero(draw((2, dim))).to(dtype)
    large = torch.ldexp(a, torch.tensor(size))

    def check(result, expected, exponent):
        expected = torch.ldexp(expected.double(), torch.tensor(exponent))
        tolerance = {torch.float32: 1e-6, torch.bfloat16: 8e-3, torch.float64: 1e-13}[dtype]
        norm = torch.linalg.vector_norm(expected, dim=-1)
        assert (torch.linalg.vector_norm(result.double() - expected, dim=-1) <= tolerance * norm).all()

    check(hrr.inverse(large), hrr.inverse(a), -size)
    check(hrr.unitary(large), hrr.unitary(a), 0)
    check(hrr.bind_power(large, 0.5), hrr.bind_power(a, 0.5), size // 2)
    check(hrr.bind_power(large, -0.5), hrr.bind_power(a, -0.5), -size // 2)
    check(hrr.bind_power(large, 1.0), a, size)
    check(hrr.inverse(large, 16.0 * dim * 4.0**size), hrr.inverse(a, 16.0 * dim), -size)
    other = torch.ldexp(a, torch.tensor(-size))
    check(hrr.multibind(torch.stack([large, a, other], -2)), hrr.multibind(torch.stack([a, a, a], -2)), 0)


@pytest.mark.parametrize("dim", CLASS_DIMS)
@pytest.mark.parametrize("size", SIZES)
def test_derivatives_of_rows_of_any_size(size, dim):
    """In float32, with tangents of the size of the row and upstream gradients of the size of 1."""
    a, t, upstream = away_from_zero(draw((2, dim))).float(), draw((2, dim), torch.float32, 1), draw((2, dim), seed=2)
    shift = torch.tensor(size)

    def check(result, expected, exponent):
        expected = torch.ldexp(expected.double(), torch.tensor(exponent))
        if expected.abs().max() < torch.finfo(torch.float32).max:
            # Zero derivatives of real bins come with rounding, and results may be subnormal.
            floor = 1e-12 * 2.0**exponent + 2.0**-140
            assert (result.double() - expected).norm() <= 4e-6 * expected.norm() + floor

    for name, exponent in (("inverse", -1), ("unitary", 0), ("power", 0.4)):
        ours, definition = MAPS[name]
        # A power of 0.4 scales by whole powers of two at multiples of 5.
        if exponent == 0.4 and size % 5:
            continue
        _, expected = torch.func.jvp(definition, (a.double(),), (t.double(),))
        _, moved = torch.func.jvp(ours, (torch.ldexp(a, shift),), (torch.ldexp(t, shift),))
        check(moved, expected, int(size * exponent))
        wide = a.double().requires_grad_()
        (exact,) = torch.autograd.grad(definition(wide), wide, upstream)
        leaf = torch.ldexp(a, shift).requires_grad_()
        (grad,) = torch.autograd.grad(ours(leaf), leaf, upstream.float())
        check(grad, exact, int(size * exponent) - size)


def test_what_cannot_be_held_overflows_or_rounds_to_zero():
    small, large = torch.full((1,), 1e-42), torch.full((1,), 1e30)
    assert torch.equal(hrr.inverse(small), torch.tensor([math.inf]))
    assert torch.equal(hrr.bind_power(large, 2.0), torch.tensor([math.inf]))
    assert torch.equal(hrr.bind_power(large, -2.0), torch.zeros(1))
    assert torch.equal(hrr.multibind(torch.stack([large, large])), torch.tensor([math.inf]))


def test_exponents_of_a_vmap_take_no_part_in_type_promotion():
    a = torch.randn(4, 32, generator=torch.Generator().manual_seed(5))
    exponents = torch.linspace(-1, 2, 4, dtype=torch.float64)
    mapped = torch.vmap(hrr.bind_power)(a, exponents)
    assert mapped.dtype == torch.float32
    each = torch.stack([hrr.bind_power(row, exponent) for row, exponent in zip(a, exponents, strict=True)])
    torch.testing.assert_close(mapped, each, rtol=0, atol=1e-5)
    assert torch.vmap(hrr.bind_power, in_dims=(None, 0))(a[0], exponents).dtype == torch.float32
