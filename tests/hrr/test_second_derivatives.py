"""Second derivatives where a first one is divided by a small eps, and where eps is 0."""

import pytest
import torch

import torch_hrr  # noqa: F401 - loads the operators

ops = torch.ops.torch_hrr


def inverse_by_fft(a, eps):
    bins = torch.fft.rfft(a)
    return torch.fft.irfft(bins.conj() / (bins.real**2 + bins.imag**2).clamp_min(eps), n=a.shape[-1])


def second(function, a, v):
    """The gradient of <v, the gradient of <v, f>>."""
    a = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((function(a) * v).sum(), a, create_graph=True)
    return torch.autograd.grad((gradient * v).sum(), a)[0].double()


@pytest.mark.parametrize("eps", [1e-3, 1e-6, 1e-12, 1e-46])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
def test_bins_above_eps_do_not_see_it(dtype, error, eps):
    """Every bin of these rows is far above eps, so eps changes nothing."""
    a, v = torch.randn(3, 256, dtype=torch.float64), torch.randn(3, 256, dtype=torch.float64)
    expected = second(lambda x: inverse_by_fft(x, eps), a, v)
    found = second(lambda x: ops.inverse(x, eps), a.to(dtype), v.to(dtype))
    assert (found - expected).norm() <= error * expected.norm()


def test_clamped_bins_are_linear():
    """Below eps the inverse is a reversal by eps: its second derivative is 0 there."""
    a, v = torch.randn(3, 64, dtype=torch.float64), torch.randn(3, 64, dtype=torch.float64)
    expected = second(lambda x: inverse_by_fft(x, 30.0), a, v)
    torch.testing.assert_close(second(lambda x: ops.inverse(x, 30.0), a, v), expected, rtol=1e-9, atol=1e-12)


def test_an_eps_that_vanishes_in_float32():
    a = torch.randn(3, 32, requires_grad=True)

    def gradient(**keywords):
        return torch.autograd.grad(ops.inverse(a, 1e-46).pow(2).sum(), a, **keywords)[0]

    torch.testing.assert_close(gradient(create_graph=True), gradient(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("eps", [0.0, 1e-300])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, eps: ops.bind_normalize(x, x.flip(-1), eps),
        lambda x, eps: ops.superpose(x, None, True, eps),
        lambda x, eps: ops.bind_superpose(x, x.flip(-1), None, True, eps),
    ],
    ids=["bind_normalize", "superpose", "bind_superpose"],
)
def test_normalised_rows_without_a_divisor_floor(function, eps):
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: function(x, eps), x)
    ones = torch.ones((), dtype=torch.float64)
    expected = second(lambda x: function(x, eps).pow(3), x.detach(), ones)
    found = second(lambda x: function(x, eps).pow(3), x.detach().float(), ones.float())
    assert (found - expected).norm() <= 1e-4 * expected.norm()
