"""Gradients of fields: exact polynomials, scipy's Sobel operator, symmetries, and a norm that is safe at 0."""

import pytest
import torch

from torch_hrr import field

AXES = (-4, -3, -2)


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def places(*sizes):
    return torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in sizes), indexing="ij")


def test_linear_and_quadratic_fields_are_exact():
    d, h, w = places(6, 7, 8)
    start = (3 * d - 2 * h + 0.5 * w + d * d - 0.25 * h * h + 2 * w * w).unsqueeze(-1)
    by_axis = field.gradient(start)[:, 1:-1, 1:-1, 1:-1, 0]
    exact = torch.stack((3 + 2 * d, -2 - 0.5 * h, 0.5 + 4 * w))[:, 1:-1, 1:-1, 1:-1]
    assert torch.equal(by_axis, exact)
    assert torch.equal(field.gradient(start, normalize=False), 32 * field.gradient(start))
    norm = field.gradient_magnitude(start)[1:-1, 1:-1, 1:-1, 0]
    torch.testing.assert_close(norm, exact.square().sum(0).sqrt(), rtol=1e-15, atol=0)


@pytest.mark.parametrize("sizes", ((5, 6, 7), (1, 2, 3), (2, 1, 1), (9, 4, 1)))
def test_scipy_agrees(sizes):
    ndimage = pytest.importorskip("scipy.ndimage")
    start = draw(*sizes, 3, dtype=torch.float64)
    found = field.gradient(start)
    for i, axis in enumerate(range(3)):
        for channel in range(3):
            exact = ndimage.sobel(start[..., channel].numpy(), axis=axis, mode="nearest") / 32
            torch.testing.assert_close(found[i, ..., channel], torch.from_numpy(exact), rtol=1e-13, atol=1e-14)


def test_a_constant_has_no_gradient():
    start = torch.full((3, 4, 5, 7), 0.7)
    assert not field.gradient(start).any() and not field.gradient_magnitude(start).any()


def test_a_mirrored_field_has_the_mirrored_gradient():
    start = draw(4, 5, 6, 3)
    found = field.gradient(start)
    for i, axis in enumerate(AXES):
        mirrored = field.gradient(start.flip(axis)).flip(axis)
        mirrored[i].neg_()
        assert torch.equal(mirrored, found)
    assert torch.equal(field.gradient_magnitude(start.flip(AXES)).flip(AXES), field.gradient_magnitude(start))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_types_are_rounded_once(dtype):
    start = draw(5, 4, 3, 19, dtype=dtype)
    assert torch.equal(field.gradient(start), field.gradient(start.float()).to(dtype))
    assert torch.equal(field.gradient_magnitude(start), field.gradient_magnitude(start.float()).to(dtype))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("channels", (16, 13))
def test_large_results_are_streamed(dtype, channels):
    """At an address that is a whole line of memory or not, also one at which no element begins."""
    # 48 MiB of results; they pass the caches from 32 on.
    depth = 2**24 // (64 * 64 * channels * dtype.itemsize)
    start = draw(depth, 64, 64, channels).to(dtype)
    parts = torch.cat([field.gradient(start[max(i - 1, 0) : i + 2])[:, min(i, 1), None] for i in (0, 5, depth - 1)], 1)
    size = 3 * start.numel() * start.element_size()
    for offset in (0, start.element_size(), 1):
        memory = torch.empty(size + 64, dtype=torch.uint8)
        out = torch.frombuffer(memory.numpy().data, dtype=dtype, count=3 * start.numel(), offset=offset)
        out = out.view(3, *start.shape)
        field.gradient(start, out=out)
        assert torch.equal(out[:, [0, 5, depth - 1]].clone(), parts)


def test_the_norm_has_no_gradient_where_it_is_0():
    start = torch.zeros(4, 3, 3, 2, requires_grad=True)
    field.gradient_magnitude(start).sum().backward()
    assert torch.equal(start.grad, torch.zeros_like(start))
    step = torch.zeros(5, 1, 1, 1, dtype=torch.float64)
    step[3:] = 1
    step.requires_grad_()
    field.gradient_magnitude(step).sum().backward()
    # Half a step beside the edge on both sides: 16 weights of 32.
    assert step.grad.flatten().tolist() == [0, -0.5, -0.5, 0.5, 0.5]


def test_nan_stays_within_reach():
    start = draw(7, 7, 7, 2)
    start[3, 3, 3, 0] = torch.nan
    broken = ~field.gradient_magnitude(start).isfinite()
    assert broken[2:5, 2:5, 2:5, 0].sum() == broken.sum()
