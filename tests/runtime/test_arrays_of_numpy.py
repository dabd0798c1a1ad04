"""NumPy's names on the current device: the same numbers as NumPy's, and where they are made."""

import pickle

import numpy as np
import pytest
import torch

from torch_hrr import runtime
from torch_hrr.runtime import benchmark

RNG = np.random.default_rng(0)
A, B, C = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5)), RNG.standard_normal((2, 3, 4))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def norm(x, axis=None, keepdims=False):
    return np.sqrt((x**2).sum(axis=axis, keepdims=keepdims))


@pytest.mark.parametrize(
    ("name", "numpys", "arguments"),
    [
        ("dot", np.dot, (A, B)),
        ("dot", np.dot, (A[0], A[1])),
        ("dot", np.dot, (A, B[:, 0])),
        ("dot", np.dot, (C, B)),
        ("dot", np.dot, (A, 2.0)),
        ("matmul", np.matmul, (C, B)),
        ("outer", np.outer, (A, A[0])),
        ("exp", np.exp, (A,)),
        ("tanh", np.tanh, (A,)),
        ("sigmoid", sigmoid, (A,)),
        ("relu", lambda x: np.maximum(x, 0), (A,)),
    ],
)
def test_products_and_functions_are_numpys(name, numpys, arguments):
    expected = numpys(*arguments)
    for given in (arguments, [torch.as_tensor(x) for x in arguments]):
        found = getattr(runtime, name)(*given)
        assert tuple(found.shape) == np.shape(expected)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, atol=1e-6)


KINDS = {
    "int": np.arange(6).reshape(2, 3),
    "uint8": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "float32": np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3),
    "float64": np.linspace(1, 2, 6).reshape(2, 3),
    "complex": np.linspace(1, 2, 6).reshape(2, 3) * 1j,
    "bool": np.array([[True, False, True], [False, False, False]]),
}


@pytest.mark.parametrize("name", ("dot", "matmul", "outer"))
@pytest.mark.parametrize("first", KINDS)
def test_products_of_two_dtypes_are_numpys(name, first):
    for second in KINDS.values():
        expected = getattr(np, name)(KINDS[first], second.T)
        found = getattr(runtime, name)(KINDS[first], second.T).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        assert found.dtype.kind == expected.dtype.kind


def test_uniform_stays_below_high():
    """Of float32 numbers around 100, a sum in 300,000 rounds up to 101; of those around 10^9 every second one."""
    for low, high in ((100, 101), (1e9, 1e9 + 64), (101, 100)):
        drawn = runtime.uniform(low, high, 2**22)
        assert not (drawn == high).any()
        assert min(low, high) <= drawn.min() and drawn.max() <= max(low, high)
    assert torch.equal(runtime.uniform(2, 2, 3), torch.full((3,), 2.0))
    assert runtime.uniform(-1e38, 2e38, 100).isfinite().all()


@pytest.mark.parametrize("axis", (None, 0, -1, (0, 2), ()))
@pytest.mark.parametrize(("name", "numpys"), [("sum", np.sum), ("mean", np.mean), ("std", np.std), ("norm", norm)])
def test_reductions_are_numpys(name, numpys, axis):
    for keepdims in (False, True):
        expected = numpys(C, axis=axis, keepdims=keepdims)
        found = getattr(runtime, name)(C, axis=axis, keepdims=keepdims)
        assert tuple(found.shape) == np.shape(expected)
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_whole_numbers_become_real_where_results_are():
    assert runtime.mean([1, 2, 4]).item() == pytest.approx(7 / 3)
    assert runtime.std(3.0) == 0 and runtime.sum([1, 2]).dtype == torch.int64
    assert runtime.relu([True, False]).tolist() == [1, 0]


def test_arrays_are_made_on_the_current_device():
    with runtime.GPUContext("meta"):
        made = [runtime.zeros(2, 3), runtime.ones((2, 3)), runtime.randn(2, 3), runtime.uniform(size=(2, 3))]
        assert all(x.is_meta and x.shape == (2, 3) for x in made)
        assert runtime.exp(A).is_meta and not runtime.exp(torch.ones(2)).is_meta
    drawn = runtime.uniform(2, 3, size=1000)
    assert 2 <= drawn.min() < 2.1 and 2.9 < drawn.max() <= 3
    assert abs(float(runtime.randn(10000).std()) - 1) < 0.05
    assert runtime.zeros(2).tolist() == [0, 0] and runtime.ones(2).tolist() == [1, 1]
    assert runtime.get_array_module() is torch


def test_names_are_functions_as_others():
    for name in ("zeros", "ones", "randn", "dot", "matmul", "outer", "sum", "mean", "std", "norm", "exp", "tanh"):
        function = getattr(runtime, name)
        assert function.__name__ == name and pickle.loads(pickle.dumps(function)) is function


TWO_SHORT = np.ones((2, 2), np.uint16)


@pytest.mark.parametrize(
    ("name", "arguments", "options", "error", "message"),
    [
        ("dot", (A, A), {}, ValueError, "dot: a and b must have shapes that fit"),
        ("matmul", (C, C.T), {}, ValueError, r"matmul: a and b must have shapes that fit, got \[2, 3, 4\] and"),
        ("sum", (A, 2), {}, IndexError, r"sum: axis must be in -2\.\.1, got 2"),
        ("sum", (A, 10**5000), {}, IndexError, r"sum: axis must be in -2\.\.1, got an int of 16610 bits"),
        ("sum", (A, (0, -2)), {}, ValueError, r"sum: axis must not name an axis twice, got \[0, -2\]"),
        ("sum", (A, b"\0"), {}, TypeError, "sum: axis must be an int, got bytes"),
        ("mean", (A,), {"keepdims": 1}, TypeError, "mean: keepdims must be a bool"),
        ("zeros", (-1,), {}, ValueError, "zeros: shape must be at least 0, got -1"),
        ("zeros", (2**62, 4), {}, ValueError, "zeros: shape must have fewer than"),
        ("exp", ("x",), {}, TypeError, "exp: x must be a tensor"),
        ("exp", (2**70,), {}, ValueError, "exp: x must be above -2.63 and below 2.63, got 1180591620717411303424"),
        ("uniform", (0, 1e300), {}, ValueError, "uniform: high must be a finite number"),
        ("uniform", (-3e38, 3e38), {}, ValueError, r"uniform: high - low must be finite in torch.float32, got"),
        ("relu", (torch.ones(2) * 1j,), {}, TypeError, "relu: x must be real, got torch.complex64"),
        ("dot", (A, torch.ones(2, device="meta")), {}, RuntimeError, "dot: a and b must be on one"),
        ("matmul", (TWO_SHORT, TWO_SHORT), {}, TypeError, "matmul: a and b must be of dtypes that torch"),
        ("outer", (TWO_SHORT, [1, 2]), {}, TypeError, "outer: a and b must be of dtypes that torch"),
        ("outer", [torch.zeros(1).expand(2**40)] * 2, {}, ValueError, "outer: the result must have fewer"),
        ("benchmark_device", (5,), {}, TypeError, "benchmark_device: fn must be callable"),
        ("benchmark_device", (print, 0), {}, ValueError, "benchmark_device: runs must be at least 1, got 0"),
    ],
)
def test_bad_calls_are_named(name, arguments, options, error, message):
    with pytest.raises(error, match=message):
        getattr(runtime, name)(*arguments, **options)


@pytest.mark.parametrize("name", ("exp", "relu", "sum", "dot"))
@pytest.mark.parametrize(
    ("tensor", "message"),
    [
        (torch.eye(2).to_sparse(), "must be strided, got torch.sparse_coo"),
        (torch.nested.as_nested_tensor([torch.ones(2)], layout=torch.jagged), "must be strided, got"),
        (torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.qint8), "must not be quantized, got torch.qint8"),
        (torch.eye(2).to(torch.float8_e5m2), "must be of a dtype that torch computes in, got torch.float8_e5m2"),
    ],
    ids=["sparse", "nested", "quantized", "float8"],
)
def test_tensors_of_other_kinds_are_named(name, tensor, message):
    arguments = (torch.eye(2), tensor) if name == "dot" else (tensor,)
    with pytest.raises(TypeError, match=rf"^{name}: (x|b) {message}"):
        getattr(runtime, name)(*arguments)


def test_a_benchmark_calls_once_more_than_it_times(monkeypatch):
    calls = []
    monkeypatch.setattr(benchmark, "_SECONDS", 0.01)
    timing = runtime.benchmark_device(lambda: calls.append(1), runs=7)
    assert (len(calls), timing["runs"]) == (8, 7)
    assert timing["mean_time"] >= 0 and timing["median"] >= 0 and timing["iqr"] >= 0
    assert runtime.benchmark_device(lambda: None)["runs"] > 100
