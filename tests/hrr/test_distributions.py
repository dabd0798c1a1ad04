"""Distributions over unitary vectors against sums over a grid of phases, moments and many samples."""

import math

import pytest
import torch
from torch.distributions import Independent, kl_divergence

from torch_hrr import hrr
from torch_hrr.hrr import UnitaryCauchy, UnitaryUniform

DOUBLE = torch.float64
# Phases of one free bin, at the middle of their intervals: sums over them are integrals, to rounding for these rho.
GRID = (torch.arange(4096, dtype=DOUBLE) + 0.5) / 4096 * 2 * math.pi - math.pi
CELL = 2 * math.pi / 4096


def drawn(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def vectors(phases, dim):
    """By the definition of the transform, ``(1 + (-1)^n + 2 sum_k cos(phase_k + 2 pi k n / D)) / D``."""
    n, k = torch.arange(dim, dtype=DOUBLE), torch.arange(1, phases.shape[-1] + 1, dtype=DOUBLE)
    waves = (phases.unsqueeze(-2) + 2 * math.pi / dim * n.unsqueeze(-1) * k).cos().sum(-1)
    real = 1.0 if dim % 2 else 1 + (-1.0) ** n
    return (real + 2 * waves) / dim


def one(mode, rho, dim=4):
    """Of one free phase, D = 3 or 4."""
    return UnitaryCauchy(torch.tensor([mode], dtype=DOUBLE), rho, dim)


@pytest.mark.parametrize("dim", (3, 4))
@pytest.mark.parametrize(("mode", "rho"), ((0.3, 0.0), (-2.0, 0.5), (3.1, 0.9), (8.0, 0.95)))
def test_the_density_is_its_formula_and_integrates_to_one(mode, rho, dim):
    q = one(mode, rho, dim)
    density = q.log_prob(vectors(GRID[:, None], dim)).exp()
    expected = (1 - rho**2) / (2 * math.pi * (1 + rho**2 - 2 * rho * (GRID - mode).cos()))
    torch.testing.assert_close(density, expected)
    assert float(density.sum() * CELL) == pytest.approx(1, abs=1e-12)
    assert float(q.entropy()) == pytest.approx(float(-(density * density.log()).sum() * CELL), abs=1e-12)


@pytest.mark.parametrize(
    "q", (one(-2.0, 0.5), one(3.0, 0.9), one(0.1, 0.0), UnitaryUniform(4, device="cpu", dtype=DOUBLE))
)
@pytest.mark.parametrize(
    "p", (one(1.0, 0.8), one(-3.0, 0.3), one(0.0, 0.0), UnitaryUniform(4, device="cpu", dtype=DOUBLE))
)
def test_the_divergence_is_the_integral(p, q):
    x = vectors(GRID[:, None], 4)
    expected = (p.log_prob(x).exp() * (p.log_prob(x) - q.log_prob(x))).sum() * CELL
    assert float(kl_divergence(p, q)) == pytest.approx(float(expected), abs=1e-11)
    assert float(kl_divergence(p, p)) == pytest.approx(0, abs=1e-14)


def test_the_divergence_and_entropy_of_many_phases_are_those_of_many_samples():
    torch.manual_seed(1)
    p = UnitaryCauchy(6 * drawn(2, 1, 7), drawn(2, 1, 7, seed=1) * 0.9)
    q = UnitaryCauchy(6 * drawn(3, 7, seed=2), drawn(3, 7, seed=3) * 0.9)
    x = p.sample((40000,))
    log_p, log_q = p.log_prob(x), q.log_prob(x)
    assert log_p.shape == (40000, 2, 1) and log_q.shape == (40000, 2, 3) == (40000, *kl_divergence(p, q).shape)
    for found, sampled in ((kl_divergence(p, q), log_p - log_q), (p.entropy(), -log_p)):
        error = (found - sampled.mean(0)).abs() / (sampled.std(0) / 200)
        assert error.max() < 4.5
    for other in (UnitaryUniform(16, batch=(3,), device="cpu", dtype=DOUBLE), UnitaryUniform(16, device="cpu")):
        expected = 7 * math.log(2 * math.pi) - p.entropy()
        torch.testing.assert_close(kl_divergence(p, other), expected.expand(2, *(other.batch_shape or (1,))))
        torch.testing.assert_close(kl_divergence(other, p), kl_divergence(p, other))


@pytest.mark.parametrize("dim", (1, 2, 3, 4, 15, 16))
def test_samples_are_unitary_and_have_the_moments_of_the_family(dim):
    torch.manual_seed(0)
    free = (dim - 1) // 2
    q = UnitaryCauchy(6 * drawn(free), 0.95 * drawn(free, seed=1), dim)
    x = q.sample((20000,))
    spectrum = torch.fft.rfft(x)
    torch.testing.assert_close(spectrum.abs(), torch.ones_like(spectrum.abs()))
    torch.testing.assert_close(spectrum[:, 0].real, torch.ones(20000, dtype=DOUBLE))
    phasors = spectrum[:, 1 : 1 + free]
    for order in (1, 2, 3):
        expected = torch.polar(q.concentration**order, order * q.loc)
        assert (((phasors**order).mean(0) - expected).abs() < 5 / 20000**0.5).all()
    torch.testing.assert_close(q.phases(x), phasors.angle())
    assert (x.mean(0) - q.mean).abs().max() < 5 * float(q.variance.max()) ** 0.5 / 20000**0.5 + 1e-15
    torch.testing.assert_close(x.var(0), q.variance, rtol=0.1, atol=1e-12)
    torch.testing.assert_close(q.mode, vectors(q.loc, dim))
    assert float(torch.cosine_similarity(x, q.mode, -1).mean()) == pytest.approx(
        (float(2 * q.concentration.sum()) + dim - 2 * free) / dim, abs=0.03
    )


def test_the_uniform_one_is_what_random_draws():
    torch.manual_seed(0)
    p = UnitaryUniform(16, batch=(2,), device="cpu")
    x, y = p.sample((5000,)), hrr.random(5000, 16, unitary=True, device="cpu")
    assert x.shape == (5000, 2, 16) and x.dtype == torch.float32
    torch.testing.assert_close(x[:, 0].mean(0), y.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(x[:, 1].var(0), y.var(0), rtol=0.1, atol=0)
    torch.testing.assert_close(p.variance[0, 0], torch.tensor(2 * 7 / 16**2))
    torch.testing.assert_close(p.mean[1], y.mean(0), rtol=0, atol=0.02)
    torch.testing.assert_close(p.log_prob(y[:, None]), torch.full((5000, 2), -7 * math.log(2 * math.pi)))
    torch.testing.assert_close(p.entropy(), torch.full((2,), 7 * math.log(2 * math.pi)))


def test_gradients_of_samples_are_those_of_the_moments():
    """``d E[cos(t)] / d rho = cos(mu)`` and ``d E[cos(t)] / d mu = -rho sin(mu)``, from samples; and the formulas'."""
    torch.manual_seed(0)
    loc, rho = (
        torch.tensor([0.7], dtype=DOUBLE, requires_grad=True),
        torch.tensor([0.6], dtype=DOUBLE, requires_grad=True),
    )
    q = UnitaryCauchy(loc, rho)
    cosine = q.phases(q.rsample((40000,))).cos().mean()
    of_loc, of_rho = torch.autograd.grad(cosine, (loc, rho))
    assert float(of_rho) == pytest.approx(math.cos(0.7), abs=0.03)
    assert float(of_loc) == pytest.approx(-0.6 * math.sin(0.7), abs=0.02)

    def work(loc, rho):
        torch.manual_seed(3)
        made = UnitaryCauchy(loc, rho, validate_args=False)
        fixed = vectors(drawn(5, 3, seed=4), 8)
        return (
            made.rsample((2,)),
            made.log_prob(fixed),
            made.entropy(),
            made.mean,
            kl_divergence(made, made.expand((4,))),
        )

    given = (6 * drawn(3)).requires_grad_(), (0.9 * drawn(3, seed=1)).requires_grad_()
    assert torch.autograd.gradcheck(work, given)
    assert torch.autograd.gradgradcheck(lambda *each: work(*each)[:2], given)


def test_a_concentration_close_to_one_keeps_its_digits():
    q = one(1.0, 1 - 1e-9)
    gap = 1e-9 * (2 - 1e-9)
    assert float(q.entropy()) == pytest.approx(math.log(2 * math.pi * gap), abs=1e-6)
    assert float(q.log_prob(q.mode)) == pytest.approx(math.log(gap / 1e-18 / (2 * math.pi)), abs=1e-6)
    assert float(kl_divergence(q, one(1.0, 1 - 1e-9))) == pytest.approx(0, abs=1e-6)
    torch.manual_seed(0)
    assert float((q.sample((1000,)) - q.mode).abs().median()) < 1e-8
    rho = torch.full((7,), 1 - 1e-6, requires_grad=True)
    UnitaryCauchy(torch.zeros(7), rho).rsample((100,)).square().sum().backward()
    assert rho.grad.isfinite().all()


def test_batches_expand_and_are_independent():
    q = UnitaryCauchy(6 * drawn(3, 1, 7), torch.tensor(0.5))
    assert q.batch_shape == (3, 1) and q.event_shape == (16,) and q.has_rsample and q.dtype == DOUBLE
    wide = q.expand((2, 3, 4))
    assert type(wide) is UnitaryCauchy and wide.sample((5,)).shape == (5, 2, 3, 4, 16)
    torch.testing.assert_close(wide.entropy(), q.entropy().expand(2, 3, 4))
    p = UnitaryUniform(16, device="cpu").expand((3, 1))
    assert type(p) is UnitaryUniform and p.sample().shape == (3, 1, 16)
    both = Independent(q, 2), Independent(p, 2)
    torch.testing.assert_close(kl_divergence(*both), kl_divergence(q, p).sum())


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32))
def test_every_dtype(dtype):
    torch.manual_seed(0)
    loc = 6 * drawn(7) - 3
    q, exact = UnitaryCauchy(loc.to(dtype), 0.5), UnitaryCauchy(loc.to(dtype).double(), 0.5)
    x = q.sample((50,))
    assert x.dtype == q.mean.dtype == q.mode.dtype == q.variance.dtype == dtype
    assert q.log_prob(x).dtype == q.entropy().dtype == torch.float32
    tolerance = {torch.float16: 5e-2, torch.bfloat16: 0.3, torch.float32: 1e-4}[dtype]
    expected = UnitaryCauchy(exact.loc, 0.5, validate_args=False).log_prob(x.double())
    torch.testing.assert_close(q.log_prob(x).double(), expected, rtol=0, atol=tolerance)
    assert UnitaryUniform(16, device="cpu", dtype=dtype).sample().dtype == dtype


def test_autocast_rounds_nothing():
    q = UnitaryCauchy(torch.zeros(7), 0.5, validate_args=True)

    def work():
        torch.manual_seed(0)
        x = q.rsample((3,))
        return x, q.log_prob(x), q.mean, q.phases(x)

    expected = work()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert all(map(torch.equal, work(), expected))


GOOD = torch.zeros(3)
REFUSED = [
    (lambda: UnitaryCauchy(GOOD, 0.5, 9), ValueError, "UnitaryCauchy: dim must be 7 or 8 for 3 phases, got 9"),
    (lambda: UnitaryCauchy(GOOD.int(), 0.5), TypeError, "UnitaryCauchy: loc must be float32, .*, got torch.int32"),
    (lambda: UnitaryCauchy(GOOD, "0.5"), TypeError, "UnitaryCauchy: concentration must be a number, got str"),
    (lambda: UnitaryCauchy(GOOD, GOOD.to("meta")), RuntimeError, "UnitaryCauchy: concentration must be on cpu.*"),
    (lambda: UnitaryCauchy(GOOD, torch.zeros(2)), ValueError, "UnitaryCauchy: loc and concentration must have .*"),
    (lambda: UnitaryUniform(8, batch=(-1,)), ValueError, "UnitaryUniform: batch must be at least 0, got -1"),
    (lambda: UnitaryUniform(8, device="cpu").log_prob(torch.zeros(9)), ValueError, "log_prob: value must have .*"),
    (lambda: UnitaryUniform(8, device="cpu").log_prob(torch.zeros(8, device="meta")), RuntimeError, "log_prob: .*"),
    (lambda: UnitaryUniform(8, device="cpu").phases([0.0]), TypeError, "phases: value must be a torch.Tensor or .*"),
    (
        lambda: kl_divergence(UnitaryUniform(8, device="cpu"), UnitaryUniform(7, device="cpu")), ValueError,
        "kl_divergence: distributions must have one D, got 8 and 7",
    ),
    (
        lambda: UnitaryUniform(8, batch=(2,), device="cpu").log_prob(torch.zeros(3, 8)), ValueError,
        r"log_prob: value and distribution must have leading dimensions that broadcast, got \[3\] and \[2\]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_named(call, error, text):
    with pytest.raises(error, match=f"^{text}$"):
        call()


def test_values_out_of_range_are_refused_where_torch_validates():
    for rho in (1.0, -0.1, math.nan):
        with pytest.raises(ValueError, match=r"parameter concentration .* of distribution UnitaryCauchy"):
            UnitaryCauchy(GOOD, rho, validate_args=True)
    # torch.compile switches torch's default off.
    q, (x,) = UnitaryUniform(8, device="cpu", validate_args=True), hrr.random(1, 8, unitary=True, device="cpu")
    for value in (2 * x, -x, torch.zeros(8), hrr.unitary(torch.tensor([1.0, -1, 0.5, 2, -3, 1, 1, -5])), x * math.nan):
        with pytest.raises(ValueError, match="to be within the support"):
            q.log_prob(value)
        with pytest.raises(ValueError, match="to be within the support"):
            q.expand((2,)).log_prob(value)
        assert UnitaryUniform(8, device="cpu", validate_args=False).log_prob(value).shape == ()


def test_a_batch_may_be_empty():
    for made in (hrr.UnitaryUniform(7, batch=(2, 0)), hrr.UnitaryCauchy(torch.zeros(2, 0, 3), 0.5, 7)):
        assert made.sample((4,)).shape == (4, 2, 0, 7) and made.log_prob(made.sample()).shape == (2, 0)
        assert made.entropy().shape == torch.distributions.kl_divergence(made, made).shape == (2, 0)
