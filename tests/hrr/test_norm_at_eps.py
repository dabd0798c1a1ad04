"""Gradients of normalised rows whose norm is eps itself: eps divides, a constant.

So has it torch 2.15's clamp_min; that of torch 2.11 passes the gradient to the norm.
"""

import pytest
import torch

from torch_hrr import hrr

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-13}
# Rows side by side, transforms and padded transforms of powers of two, which do not round these rows; beyond 2^19,
# the library's transforms.
DIMS = (2, 16, 17, 64, 1003, 1024)
LIBRARY_DIM = 2**19 + 1
# In range as the rows stand, and not: of float, of double. The squares of torch's own norm must not vanish.
EXPONENTS = (-4, -50, -480)
CASES = [
    pytest.param(dtype, 2.0**exponent, id=f"{str(dtype).removeprefix('torch.')}-{exponent}")
    for dtype in TOLERANCE
    for exponent in EXPONENTS
    if torch.tensor(2.0**exponent, dtype=dtype) > 0
]


def row(dim, dtype, *elements):
    x = torch.zeros(dim, dtype=dtype)
    x[: len(elements)] = torch.tensor(elements, dtype=dtype)
    return x.requires_grad_()


def gradients(y, inputs, seed=0):
    upstream = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(seed))
    return torch.autograd.grad(y, inputs, upstream)


def check(function, composition, inputs, unit, dtype):
    """Rows 3, 4, 0, ... of a unit: their norm is 5 exactly, and eps is that, or a hair less. The library rounds."""
    eps = torch.linalg.vector_norm(composition(*inputs)).item()
    assert eps == pytest.approx(5 * unit, rel=1e-6 if inputs[0].shape[-1] == LIBRARY_DIM else 0, abs=0)
    expected = gradients(composition(*inputs) / eps, inputs)
    below = gradients(function(*inputs, eps=eps * (1 - 2.0**-20)), inputs)
    for got, want, other in zip(gradients(function(*inputs, eps=eps), inputs), expected, below, strict=True):
        # Elements may cancel; the terms that do so are of the size of the largest.
        torch.testing.assert_close(got, want, rtol=0, atol=TOLERANCE[dtype] * want.abs().max().item())
        assert not torch.allclose(other, want, rtol=1e-2, atol=0), "just below the norm it is the norm that divides"


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("dtype", "unit"), CASES)
def test_bind_normalize(dtype, unit, dim):
    inputs = (row(dim, dtype, 3 * unit, 4 * unit), row(dim, dtype, 1))
    check(hrr.bind_normalize, hrr.bind, inputs, unit, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_bind_normalize_by_the_library(dtype):
    inputs = (row(LIBRARY_DIM, dtype, 3 / 16, 4 / 16), row(LIBRARY_DIM, dtype, 1))
    check(hrr.bind_normalize, hrr.bind, inputs, 1 / 16, dtype)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("dtype", "unit"), CASES)
def test_superpose(dtype, unit, dim, weighted):
    vectors = torch.stack([row(dim, dtype, 3 * unit), row(dim, dtype, 0, 4 * unit)]).detach().requires_grad_()
    weights = torch.ones(2, dtype=dtype, requires_grad=True) if weighted else None
    inputs = (vectors, weights) if weighted else (vectors,)

    def composition(vectors, weights=None):
        return (vectors if weights is None else weights[:, None] * vectors).sum(0)

    check(hrr.superpose, composition, inputs, unit, dtype)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("dtype", "unit"), CASES)
def test_bind_superpose(dtype, unit, dim):
    a = torch.stack([row(dim, dtype, 3 * unit), row(dim, dtype, 0, 4 * unit)]).detach().requires_grad_()
    b = torch.stack([row(dim, dtype, 1), row(dim, dtype, 1)]).detach().requires_grad_()

    def composition(a, b):
        return hrr.bind_superpose(a, b, normalize=False)

    def function(a, b, eps):
        return hrr.bind_superpose(a, b, normalize=True, eps=eps)

    check(function, composition, (a, b), unit, dtype)
