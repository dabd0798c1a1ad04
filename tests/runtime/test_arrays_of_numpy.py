"""NumPy's names on the current device: the same numbers as NumPy's, and where they are made."""

import numpy as np
import pytest
import torch

from torch_hrr import runtime

RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal((2, 3, 4))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("dot", (A, B)),
        ("dot", (A[0], A[1])),
        ("dot", (A, B[:, 0])),
        ("dot", (C, B)),
        ("dot", (A, 2.0)),
        ("matmul", (C, B)),
        ("outer", (A, A[0])),
        ("exp", (A,)),
        ("tanh", (A,)),
    ],
)
def test_products_and_functions_are_numpys(name, arguments):
    expected = getattr(np, name)(*arguments)
    for given in (arguments, [torch.as_tensor(x) for x in arguments]):
        found = getattr(runtime, name)(*given)
        assert tuple(found.shape) == np.shape(expected)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("axis", (None, 0, -1, (0, 2)))
@pytest.mark.parametrize("keepdims", (False, True))
@pytest.mark.parametrize(("name", "numpys"), [("sum", np.sum), ("mean", np.mean), ("std", np.std)])
def test_reductions_are_numpys(name, numpys, axis, keepdims):
    expected = numpys(C, axis=axis, keepdims=keepdims)
    found = getattr(runtime, name)(C, axis=axis, keepdims=keepdims)
    assert tuple(found.shape) == np.shape(expected)
    np.testing.assert_allclose(found.numpy(), expected)


def test_norms_sigmoid_and_relu():
    np.testing.assert_allclose(runtime.norm(A), np.linalg.norm(A))
    np.testing.assert_allclose(runtime.norm(A, axis=1), np.linalg.norm(A, axis=1))
    np.testing.assert_allclose(runtime.sigmoid(A), 1 / (1 + np.exp(-A)))
    np.testing.assert_allclose(runtime.relu(A), np.maximum(A, 0))
    assert runtime.mean([1, 2, 4]).item() == pytest.approx(7 / 3)
    assert runtime.std(3.0) == 0


def test_arrays_are_made_on_the_current_device():
    with runtime.GPUContext("meta"):
        made = [runtime.zeros(2, 3), runtime.ones((2, 3)), runtime.randn(2, 3), runtime.uniform(size=(2, 3))]
        assert all(x.is_meta and x.shape == (2, 3) for x in made)
        assert runtime.exp(A).is_meta and not runtime.exp(torch.ones(2)).is_meta
    drawn = runtime.uniform(2, 3, size=1000)
    assert 2 <= drawn.min() < 2.1 and 2.9 < drawn.max() <= 3
    assert abs(float(runtime.randn(10000).std()) - 1) < 0.05
    assert runtime.get_array_module() is torch


def test_bad_calls_are_named():
    for call, error, message in (
        (lambda: runtime.dot(A, A), ValueError, "dot: a and b must agree"),
        (lambda: runtime.matmul(A, A), ValueError, "matmul: a and b must be matrices that fit"),
        (lambda: runtime.sum(A, axis=2), IndexError, r"sum: axis must be in -2\.\.1, got 2"),
        (lambda: runtime.zeros(-1), ValueError, "zeros: shape must be at least 0, got -1"),
        (lambda: runtime.zeros(2**62, 4), ValueError, "zeros: shape must have fewer than"),
        (lambda: runtime.exp("x"), TypeError, "exp: x must be a tensor"),
        (lambda: runtime.mean(A, keepdims=1), TypeError, "mean: keepdims must be a bool"),
        (lambda: runtime.benchmark_device(5), TypeError, "benchmark_device: fn must be callable"),
        (lambda: runtime.benchmark_device(print, 0), ValueError, "benchmark_device: runs must be at least 1, got 0"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_a_benchmark_calls_once_more_than_it_times():
    calls = []
    timing = runtime.benchmark_device(lambda: calls.append(1), runs=7)
    assert (len(calls), timing["runs"]) == (8, 7)
    assert timing["mean_time"] >= 0 and timing["median"] >= 0 and timing["iqr"] >= 0
    assert 5 <= runtime.benchmark_device(lambda: None)["runs"] <= 1000


def test_the_sample_of_the_seed():
    """As written, imports aside."""
    from torch_hrr.runtime import benchmark_device, matmul, mean, randn, set_device

    def my_operation():
        a = randn(100, 100)
        b = matmul(a, randn(100, 100))
        return mean(b)

    set_device("cpu")
    result = benchmark_device(my_operation)
    assert f"CPU: {result['mean_time'] * 1000:.2f}ms".startswith("CPU: ")
