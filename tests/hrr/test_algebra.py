"""Laws of the algebra, over random dimensions, and the similarities that theory predicts for random vectors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr import hrr

laws = settings(max_examples=40, derandomize=True, database=None, deadline=None)
dims = st.one_of(st.integers(1, 80), st.sampled_from((100, 127, 128, 256, 500, 512, 1000, 1024, 4097)))
seeds = st.integers(0, 2**32)
dtypes = st.sampled_from((torch.float32, torch.float64))


def rows(seed, count, dim, dtype, unitary=False):
    return hrr.random(count, dim, torch.Generator().manual_seed(seed), unitary, dtype=dtype)


def close(result, expected, scale=1.0):
    """Within the precision of the dtype, relative to the norm of the terms."""
    tolerance = 2e-6 if result.dtype == torch.float32 else 1e-13
    return torch.linalg.vector_norm(result - expected) <= tolerance * max(scale, torch.linalg.vector_norm(expected))


@laws
@given(dims, seeds, dtypes)
def test_binding_commutes_to_the_bit_or_nearly(dim, seed, dtype):
    a, b = rows(seed, 2, dim, dtype)
    assert close(hrr.bind(a, b), hrr.bind(b, a))


@laws
@given(dims, seeds, dtypes)
def test_binding_associates(dim, seed, dtype):
    a, b, c = rows(seed, 3, dim, dtype)
    assert close(hrr.bind(hrr.bind(a, b), c), hrr.bind(a, hrr.bind(b, c)), 3)


@laws
@given(dims, seeds, dtypes, st.floats(-4, 4), st.floats(-4, 4))
def test_binding_is_linear_in_each_argument(dim, seed, dtype, x, y):
    a, b, c = rows(seed, 3, dim, dtype)
    assert close(hrr.bind(x * a + y * b, c), x * hrr.bind(a, c) + y * hrr.bind(b, c), 24)
    assert close(hrr.unbind(c, x * a + y * b), x * hrr.unbind(c, a) + y * hrr.unbind(c, b), 24)


@laws
@given(dims, seeds, dtypes, st.data())
def test_binding_with_a_delta_shifts(dim, seed, dtype, data):
    """With the delta at 0 it is the identity; unbinding shifts back."""
    (a,) = rows(seed, 1, dim, dtype)
    shift = data.draw(st.integers(0, dim - 1))
    delta = torch.zeros(dim, dtype=dtype)
    delta[shift] = 1
    assert close(hrr.bind(a, delta), a.roll(shift))
    assert close(hrr.unbind(a, delta), a.roll(-shift))


@laws
@given(dims, seeds, dtypes)
def test_a_unitary_role_unbinds_exactly(dim, seed, dtype):
    (a,) = rows(seed, 1, dim, dtype)
    (role,) = rows(seed + 1, 1, dim, dtype, unitary=True)
    assert close(hrr.unbind(hrr.bind(a, role), role), a)
    assert torch.linalg.vector_norm(hrr.bind(a, role)) == pytest.approx(float(torch.linalg.vector_norm(a)), rel=2e-6)


@laws
@given(dims, seeds, dtypes)
def test_unbinding_is_binding_with_the_involution(dim, seed, dtype):
    a, b = rows(seed, 2, dim, dtype)
    involution = b.roll(-1).flip(-1)
    assert close(hrr.unbind(a, b), hrr.bind(a, involution))


@laws
@given(dims, seeds, dtypes)
def test_unbinding_is_the_adjoint_of_binding(dim, seed, dtype):
    """<bind(a, b), c> = <a, unbind(c, b)>."""
    a, b, c = rows(seed, 3, dim, dtype)
    left, right = torch.dot(hrr.bind(a, b), c), torch.dot(a, hrr.unbind(c, b))
    assert abs(float(left - right)) <= (1e-5 if dtype == torch.float32 else 1e-12)


@laws
@given(dims, seeds, dtypes)
def test_sums_multiply_under_binding(dim, seed, dtype):
    """The element of frequency 0: sum(bind(a, b)) = sum(a) sum(b)."""
    a, b = rows(seed, 2, dim, dtype).abs()
    product = float(a.double().sum() * b.double().sum())
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    assert float(hrr.bind(a, b).double().sum()) == pytest.approx(product, rel=tolerance)


@laws
@given(dims, seeds, dtypes)
def test_normalised_rows_have_unit_norm_and_the_same_direction(dim, seed, dtype):
    a, b = rows(seed, 2, dim, dtype)
    bound = hrr.bind(a, b)
    unit = hrr.bind_normalize(a, b)
    assert float(torch.linalg.vector_norm(unit)) == pytest.approx(1, rel=2e-6)
    assert close(unit * torch.linalg.vector_norm(bound), bound)


@laws
@given(st.integers(1, 12), dims, seeds, dtypes)
def test_a_record_is_the_superposition_of_its_pairs(items, dim, seed, dtype):
    a, b = rows(seed, 2 * items, dim, dtype).view(2, items, dim)
    weights = torch.linspace(-1, 2, items, dtype=dtype)
    for normalize in (False, True):
        pairs = hrr.superpose(hrr.bind(a, b), weights, normalize)
        assert close(hrr.bind_superpose(a, b, weights, normalize), pairs, 4)


@laws
@given(st.integers(1, 40), dims, seeds)
def test_superposition_adds_in_a_fixed_order(items, dim, seed):
    """Vectors of zero weight or zero value change no bit, and neither does a leading dimension."""
    vectors = rows(seed, items, dim, torch.float32)
    weights = torch.linspace(-1, 2, items)
    total = hrr.superpose(vectors, weights, False)
    many = hrr.superpose(vectors.expand(3, -1, -1), weights, False)
    assert all(torch.equal(row, total) for row in many)
    padded = torch.cat([vectors, torch.zeros(1, dim)]), torch.cat([weights, torch.ones(1)])
    assert close(hrr.superpose(*padded, False), total)


DIM, TRIALS = 1024, 400


def cosines(x, y):
    return torch.nn.functional.cosine_similarity(x.double(), y.double(), dim=-1)


def check_mean(values, expected, bias):
    """Within three standard errors, and the bias of a finite dimension."""
    error = 3 * float(values.std()) / math.sqrt(len(values)) + bias
    assert float(values.mean()) == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("k", (1, 2, 5, 10, 20))
@pytest.mark.parametrize("unitary", (False, True), ids=("gaussian", "unitary"))
def test_unbinding_one_of_k_superposed_pairs(k, unitary):
    """Mean cosine 1/sqrt(k + 1) for Gaussian keys and 1/sqrt(k) for unitary ones."""
    generator = torch.Generator().manual_seed(k)
    keys = hrr.random(TRIALS * k, DIM, generator, unitary).view(TRIALS, k, DIM)
    values = torch.nn.functional.normalize(hrr.random(TRIALS * k, DIM, generator).view(TRIALS, k, DIM), dim=-1)
    retrieved = hrr.unbind(hrr.bind_superpose(values, keys), keys[:, 0])
    check_mean(cosines(retrieved, values[:, 0]), 1 / math.sqrt(k if unitary else k + 1), 2 / DIM)


@pytest.mark.parametrize("r", (1, 2, 3))
def test_several_bindings_and_as_many_unbindings(r):
    """Mean cosine 2^(-r/2)."""
    generator = torch.Generator().manual_seed(r)
    vectors = hrr.random(TRIALS, DIM, generator)
    roles = hrr.random(r * TRIALS, DIM, generator).view(r, TRIALS, DIM)
    bound = vectors
    for role in roles:
        bound = hrr.bind(bound, role)
    for role in roles:
        bound = hrr.unbind(bound, role)
    # The estimate treats norms as equal in all trials and frequencies; what it leaves out grows with r.
    check_mean(cosines(bound, vectors), 2 ** (-r / 2), 0.01 * r)


def test_a_bound_pair_resembles_neither_operand_nor_a_third_vector():
    """Cosines have mean 0; their deviation is sqrt(2/D) to an operand and 1/sqrt(D) to an independent vector."""
    a, b, c = hrr.random(3 * TRIALS, DIM, torch.Generator().manual_seed(0)).view(3, TRIALS, DIM)
    bound = hrr.bind(a, b)
    for other, deviation in ((a, (2 / DIM) ** 0.5), (b, (2 / DIM) ** 0.5), (c, DIM**-0.5)):
        check_mean(cosines(bound, other), 0.0, 0.0)
        # Three standard errors of a deviation estimated from so many trials.
        assert float(cosines(bound, other).std()) == pytest.approx(deviation, rel=3 / math.sqrt(2 * TRIALS))


@pytest.mark.parametrize("dtype", [torch.int32, torch.bool, torch.complex64], ids=str)
def test_random_refuses_what_the_operators_do_not_take(dtype):
    with pytest.raises(TypeError, match=r"^random: dtype must be float32, float64, float16 or bfloat16, got torch"):
        hrr.random(2, 4, dtype=dtype)


ALL = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 7, 64])
def test_involution_conjugates_the_spectrum(dim, dtype):
    a = rows(0, 3, dim, torch.float64).to(dtype)
    found = hrr.involution(a)
    assert found.dtype == dtype and torch.equal(hrr.involution(found), a)
    expected = np.fft.ifft(np.fft.fft(a.double().numpy()).conj()).real
    np.testing.assert_allclose(found.double().numpy(), expected, atol=1e-14)
    assert torch.equal(found, torch.stack([row[[-n % dim for n in range(dim)]] for row in a]))


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-30, 1e30])
def test_normalize_divides_by_the_norm(scale, dtype):
    half = torch.finfo(dtype).bits == 16
    a = rows(1, 4, 50, torch.float64).mul(scale**0.1 if half else scale).to(dtype)
    a[2] = 0
    expected = a.double().numpy() / np.maximum(np.linalg.norm(a.double().numpy(), axis=-1, keepdims=True), 1e-300)
    found = hrr.normalize(a)
    assert found.dtype == dtype and not found[2].any()
    np.testing.assert_allclose(found.double().numpy(), expected, atol=2 * torch.finfo(dtype).eps)


def test_gradients_of_involution_and_normalize():
    a = rows(2, 3, 6, torch.float64)
    for function in (hrr.involution, hrr.normalize):
        assert torch.autograd.gradcheck(function, a.clone().requires_grad_())
        assert torch.equal(torch.compile(function, backend="aot_eager", fullgraph=True)(a), function(a))
        assert torch.equal(torch.func.vmap(function)(a), function(a))
    zero = torch.zeros(4, requires_grad=True)
    hrr.normalize(zero).sum().backward()
    assert not zero.grad.any()


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("dim", [1, 2, 33])
def test_identity_binds_to_the_vector_itself(dim, dtype):
    one = hrr.identity(dim, "cpu", dtype)
    assert one.dtype == dtype and one.tolist() == [1.0] + [0.0] * (dim - 1)
    a = rows(3, 2, dim, torch.float64).to(dtype)
    torch.testing.assert_close(hrr.bind(a, one), a)
    assert hrr.identity(3, device="meta").device.type == "meta" and hrr.identity(3).dtype == torch.get_default_dtype()


@pytest.mark.parametrize("unitary", [False, True])
@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_random_normalized_rows_are_the_same_rows_of_norm_1(dtype, unitary):
    draw = {"generator": None, "unitary": unitary, "device": "cpu"}

    def drawn(dtype, **options):
        return hrr.random(20, 64, **draw | {"generator": torch.Generator().manual_seed(4)}, dtype=dtype, **options)

    plain = drawn(torch.float64).numpy()
    expected = plain / np.linalg.norm(plain, axis=-1, keepdims=True)
    found = drawn(dtype, normalized=True)
    np.testing.assert_allclose(found.double().numpy(), expected, atol=torch.finfo(dtype).eps / 2)
    assert unitary or abs(np.linalg.norm(plain, axis=-1) - 1).max() > 0.01
    assert torch.equal(drawn(dtype, normalized=False), drawn(dtype))


@pytest.mark.parametrize("name", ["involution", "normalize"])
def test_rows_have_elements(name):
    for wrong, got in (
        (torch.tensor(1.0), r"at least 1 dimensions, got shape \[\]"),
        (torch.ones(2, 0), "D >= 1, got"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: a must have {got}"):
            getattr(hrr, name)(wrong)


def test_vmap_refuses_the_ranks_that_the_operator_refuses():
    for operator, arguments in ((hrr.superpose, (torch.rand(4, 8),)), (hrr.bind, (torch.rand(4), torch.rand(4)))):
        with pytest.raises(ValueError, match="must have at least"):
            torch.vmap(operator)(*arguments)


def test_permute_of_no_rows_makes_no_table():
    """A table of this length would not fit into memory."""
    assert hrr.permute(torch.empty(0, 2**45), 0).shape == (0, 2**45)


@pytest.mark.parametrize("count", (1, 2, 3, 64, 255, 256, 1023, 1024))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_binding_vectors_of_phases_adds_them(count, dtype):
    p, q = (
        2 * torch.pi * torch.rand(2, 3, count, dtype=torch.float64, generator=torch.Generator().manual_seed(count))
    ).to(dtype)
    a, b = hrr.from_phases(p), hrr.from_phases(q)
    assert a.shape == (3, 2 * count + 2) and a.dtype == dtype
    exact, eps = hrr.from_phases, torch.finfo(dtype).eps
    for bound, phases in (
        (hrr.bind(a, b), p.double() + q.double()),
        (hrr.unbind(a, b), p.double() - q.double()),
        (hrr.involution(a), -p.double()),
    ):
        torch.testing.assert_close(bound.double(), exact(phases), rtol=0, atol=4 * eps)
    # By numpy, whose bins 1 to D they are; what is told about cosines.
    spectrum = np.fft.fft(a.double().numpy())
    expected = np.exp(1j * p.double().numpy())
    np.testing.assert_allclose(spectrum[:, 1 : count + 1], expected, rtol=0, atol=30 * eps)
    np.testing.assert_allclose(spectrum[:, [0, count + 1]], 1, rtol=0, atol=30 * eps)
    mean = (count * (p - q).double().cos().mean(-1) + 1) / (count + 1)
    torch.testing.assert_close(torch.cosine_similarity(a, b, -1).double(), mean, rtol=0, atol=30 * eps)
    turns = (hrr.to_phases(a) - p).double() / (2 * torch.pi)
    assert ((turns - turns.round()).abs() < 4 * eps).all()


def test_phases_of_a_sum_are_its_circular_mean():
    p = 2 * torch.pi * torch.rand(5, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    total = torch.polar(torch.ones_like(p), p).sum(0)
    torch.testing.assert_close(hrr.to_phases(hrr.from_phases(p).sum(0)), total.angle(), rtol=0, atol=1e-12)
    torch.testing.assert_close(hrr.unitary(hrr.from_phases(p).sum(0)), hrr.from_phases(total.angle()))


def test_gradients_of_phases():
    p = torch.rand(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(8)).requires_grad_()
    v = torch.randn(2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(9)).requires_grad_()
    for function, x in ((hrr.from_phases, p), (hrr.to_phases, v)):
        assert torch.autograd.gradcheck(function, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(function, x)
    zero = torch.zeros(6, requires_grad=True)
    found = hrr.to_phases(zero)
    found.sum().backward()
    assert torch.equal(found, torch.zeros(2)) and torch.equal(zero.grad, torch.zeros(6))


def test_phases_that_no_vector_has_are_refused():
    for count in (1, 2, 3, 7):
        with pytest.raises(ValueError, match=r"^to_phases: vector must have 2 D \+ 2 elements, D >= 1, got shape"):
            hrr.to_phases(torch.ones(3, count))
    with pytest.raises(ValueError, match=r"^from_phases: phases must have D >= 1"):
        hrr.from_phases(torch.ones(3, 0))
