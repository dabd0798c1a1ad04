"""Operations of one dimension and device, and the choice between CPU and accelerator."""

import math

import numpy
import pytest
import torch
from hypothesis import settings

from torch_hrr.compat import hrr as operations
from torch_hrr.compat.hrr import BatchHRROperations, HRROperations, HybridHRRSystem, PyTorchHRROperations
from torch_hrr.hrr import functional as hrr
from torch_hrr.runtime import device, resolve_device

DIM = 16
laws = settings(max_examples=30, derandomize=True, database=None, deadline=None)


@pytest.fixture
def ops():
    return HRROperations(DIM, device="cpu")


def vectors(*shape, dtype=torch.float32):
    return torch.randn(*shape, DIM, dtype=dtype)


def circular_convolution(a, b):
    """The direct sum, over the last dimension, in double precision."""
    shifts = (torch.arange(DIM).unsqueeze(1) - torch.arange(DIM)) % DIM
    return (b.double()[..., shifts] * a.double().unsqueeze(-2)).sum(-1)


def circular_correlation(bound, role):
    shifts = (torch.arange(DIM).unsqueeze(1) + torch.arange(DIM)) % DIM
    return (bound.double()[..., shifts] * role.double().unsqueeze(-2)).sum(-1)


def unit(x):
    return torch.nn.functional.normalize(x.double(), dim=-1)


def near(result, expected):
    torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shapes", [((), ()), ((3,), (3,)), ((2, 1), (3,)), ((0,), (0,))])
def test_binding_and_its_kin(ops, shapes):
    a, b = (vectors(*shape) for shape in shapes)
    near(ops.bind(a, b), circular_convolution(a, b))
    near(ops.unbind(a, b), circular_correlation(a, b))
    near(ops.fused_bind_normalize(a, b), unit(circular_convolution(a, b)))


def test_superposition(ops):
    x, weights = vectors(2, 5), torch.randn(2, 5)
    weighted = (x * weights.unsqueeze(-1)).sum(-2)
    near(ops.superpose(x), unit(x.sum(-2)))
    near(ops.superpose(x, normalize=False), x.sum(-2).double())
    near(ops.superpose(x, weights, normalize=False), weighted.double())
    near(ops.superpose(x, weights[0]), unit((x * weights[0].unsqueeze(-1)).sum(-2)))


def test_batches(ops):
    a, b, weights = vectors(4), vectors(4), torch.randn(4, 3)
    near(ops.batch_bind(a, b), circular_convolution(a, b))
    x = vectors(4, 3)
    near(ops.batch_superpose(x), unit(x.sum(1)))
    near(ops.batch_superpose(x, weights), unit((x * weights.unsqueeze(-1)).sum(1)))
    assert torch.equal(ops.superpose(vectors(0), normalize=False), torch.zeros(DIM))


def test_random_vectors(ops):
    generator = torch.Generator()
    for draw, unitary in ((ops.random, False), (ops.unitary_random, True)):
        drawn = draw(5, generator.manual_seed(1))
        assert torch.equal(drawn, hrr.random(5, DIM, generator.manual_seed(1), unitary, "cpu", torch.float32))
        assert draw().shape == (1, DIM)
    near(torch.fft.rfft(ops.unitary_random(3)).abs(), torch.ones(3, DIM // 2 + 1, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_everything_is_in_the_dtype_of_the_object(dtype):
    ops = HRROperations(DIM, "cpu", dtype)
    a, b = vectors(2, 3, dtype=torch.float64), vectors(2, 3, dtype=torch.float16)
    results = [ops.bind(a, b), ops.unbind(a, b), ops.fused_bind_normalize(a, b), ops.batch_bind(a, b)]
    results += [ops.superpose(a, torch.ones(3).double()), ops.batch_superpose(b), ops.random(), ops.unitary_random()]
    assert {result.dtype for result in results} == {dtype}
    assert torch.equal(results[0], hrr.bind(a.to(dtype), b.to(dtype)))


def test_everything_is_on_the_device_of_the_object():
    ops = HRROperations(DIM, "meta")
    a = vectors(2, 3)
    results = [ops.bind(a, a), ops.unbind(a, a.to("meta")), ops.superpose(a, torch.ones(3)), ops.random(2)]
    assert {result.device.type for result in results} == {"meta"}
    assert results[0].shape == (2, 3, DIM)


@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(2.0 * DIM).reshape(2, DIM),
        numpy.arange(2.0 * DIM).reshape(DIM, 2).T[:, ::-1],
        numpy.arange(2.0 * DIM, dtype=">f4").reshape(2, DIM),
    ],
    ids=["double", "strided", "big-endian"],
)
def test_numpy_arrays(ops, array):
    array.flags.writeable = False
    b = vectors(2)
    expected = torch.tensor(array.astype(numpy.float32).tolist())
    assert torch.equal(ops.bind(array, b.numpy()), hrr.bind(expected, b))
    assert torch.equal(HybridHRRSystem(DIM, "cpu").adaptive_bind(array, b), hrr.bind(expected, b))


def test_gradients_flow_back_through_the_conversion(ops):
    a = vectors(3, dtype=torch.float64).requires_grad_()
    b = vectors(3)
    ops.bind(a, b).sum().backward()
    near(a.grad, b.sum(-1, keepdim=True).expand(3, DIM).double())


def test_names_and_defaults():
    assert PyTorchHRROperations is HRROperations and BatchHRROperations is HRROperations
    ops = HRROperations()
    assert (ops.dimensionality, ops.device, ops.dtype) == (512, resolve_device("auto"), torch.float32)
    assert repr(HRROperations(8, "cpu")) == "HRROperations(dimensionality=8, dtype=float32, device=cpu)"


@pytest.mark.parametrize("kind", [HRROperations, HybridHRRSystem])
def test_construction_errors(kind):
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: dimensionality must be at least 1, got 0$"):
        kind(0)


GOOD = torch.ones(2, DIM)
CALLS = {
    "bind: a": lambda ops, bad: ops.bind(bad, GOOD),
    "bind: b": lambda ops, bad: ops.bind(GOOD, bad),
    "unbind: bound": lambda ops, bad: ops.unbind(bad, GOOD),
    "unbind: role": lambda ops, bad: ops.unbind(GOOD, bad),
    "fused_bind_normalize: a": lambda ops, bad: ops.fused_bind_normalize(bad, GOOD),
    "fused_bind_normalize: b": lambda ops, bad: ops.fused_bind_normalize(GOOD, bad),
    "batch_bind: a_batch": lambda ops, bad: ops.batch_bind(bad, GOOD),
    "batch_bind: b_batch": lambda ops, bad: ops.batch_bind(GOOD, bad),
    "superpose: vectors": lambda ops, bad: ops.superpose(bad),
    "batch_superpose: vectors_batch": lambda ops, bad: ops.batch_superpose(bad),
    "adaptive_bind: a": lambda ops, bad: HybridHRRSystem(DIM, "cpu").adaptive_bind(bad, GOOD),
    "adaptive_bind: b": lambda ops, bad: HybridHRRSystem(DIM, "cpu").adaptive_bind(GOOD, bad),
}


@pytest.mark.parametrize("where", CALLS)
@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        ([1.0] * DIM, TypeError, "must be a torch.Tensor or a NumPy array, got list"),
        ([GOOD[0]], TypeError, "must be a torch.Tensor or a NumPy array, got list: torch.stack makes one of several"),
        (GOOD.int(), TypeError, "must be float32, float64, float16 or bfloat16, got torch.int32"),
        (GOOD.int().numpy(), TypeError, "must be float32, float64, float16 or bfloat16, got torch.int32"),
        (GOOD.cfloat(), TypeError, "must be float32, float64, float16 or bfloat16, got torch.complex64"),
        (GOOD.to_sparse(), TypeError, "must be strided, got torch.sparse_coo, nested=False"),
        (GOOD[:, 1:], ValueError, rf"must have the last dimension 16, got shape \[2, {DIM - 1}\]"),
        (torch.tensor(1.0), ValueError, r"must have at least [12] dimensions, got shape \[\]"),
    ],
    ids=["list", "list-of-tensors", "int", "int-array", "complex", "sparse", "dimension", "scalar"],
)
def test_arguments_that_do_not_fit(ops, where, bad, error, text):
    with pytest.raises(error, match=f"^{where} {text}$"):
        CALLS[where](ops, bad)


@pytest.mark.parametrize("where", ["superpose: vectors", "batch_superpose: vectors_batch", "batch_bind: a_batch"])
def test_batches_have_two_dimensions(ops, where):
    with pytest.raises(ValueError, match=rf"^{where} must have at least 2 dimensions, got shape \[16\]$"):
        CALLS[where](ops, GOOD[0])


@pytest.mark.parametrize(
    ("weights", "error", "text"),
    [
        ([1.0, 1.0], TypeError, "must be a torch.Tensor or a NumPy array, got list"),
        (torch.ones(2).bool(), TypeError, "must be float32, .*, got torch.bool"),
        (torch.tensor(1.0), ValueError, r"must have at least 1 dimensions, got shape \[\]"),
    ],
)
def test_weights_that_do_not_fit(ops, weights, error, text):
    with pytest.raises(error, match=f"^superpose: weights {text}$"):
        ops.superpose(GOOD, weights)


class FakeAccelerator(HRROperations):
    """Says that it is a CUDA device, computes on the CPU, and keeps the shapes it was given."""

    def __init__(self, problem=None):
        super().__init__(DIM, "cpu")
        self.device, self.problem, self.bound = torch.device("cuda"), problem, []

    def bind(self, a, b):
        self.bound.append((tuple(a.shape), tuple(b.shape)))
        if self.problem:
            raise self.problem
        return hrr.bind(a, b)


@pytest.fixture
def system():
    made = HybridHRRSystem(DIM, "cpu")
    made.gpu_ops = FakeAccelerator()
    return made


@pytest.mark.parametrize(
    ("shapes", "batch_size", "accelerated"),
    [
        (((), ()), None, False),
        (((7,), (7,)), None, False),
        (((8,), (8,)), None, True),
        (((8,), ()), None, True),
        (((2, 1), (4,)), None, True),
        (((2, 1), (3,)), None, False),
        (((100,), (100,)), 7, False),
        (((), ()), 8, True),
        (((0,), (0,)), None, False),
    ],
)
def test_a_batch_goes_where_the_threshold_says(system, shapes, batch_size, accelerated):
    system.threshold_batch_size = 8
    a, b = (vectors(*shape) for shape in shapes)
    result = system.adaptive_bind(a, b, batch_size)
    assert torch.equal(result, hrr.bind(a, b)) and result.device.type == "cpu"
    assert system.gpu_ops.bound == ([(a.shape, b.shape)] if accelerated else [])


@pytest.mark.parametrize(
    "problem",
    [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED")],
    ids=type,
)
def test_without_memory_on_the_accelerator_the_cpu_binds(system, problem):
    system.threshold_batch_size, system.gpu_ops = 0, FakeAccelerator(problem)
    a, b = vectors(2), vectors(2)
    assert torch.equal(system.adaptive_bind(a, b), hrr.bind(a, b))
    assert len(system.gpu_ops.bound) == 1


def test_other_failures_are_not_hidden(system):
    system.threshold_batch_size, system.gpu_ops = 0, FakeAccelerator(RuntimeError("lost"))
    with pytest.raises(RuntimeError, match=r"^lost$"):
        system.adaptive_bind(GOOD, GOOD)


def test_what_is_on_another_device_stays_there(system):
    system.threshold_batch_size = 0
    result = system.adaptive_bind(GOOD.to("meta").double(), GOOD.to("meta"))
    assert (result.device.type, result.dtype, result.shape) == ("meta", torch.float32, (2, DIM))
    assert system.gpu_ops.bound == []
    with pytest.raises(RuntimeError, match=r"^adaptive_bind: b must be on cpu, got meta$"):
        system.adaptive_bind(GOOD, GOOD.to("meta"))


def test_the_threshold_is_found_once_and_only_if_needed(system, monkeypatch):
    calls = []
    monkeypatch.setattr(operations, "binding_crossover", lambda *asked: calls.append(asked) or 1.0)
    system.adaptive_bind(GOOD, GOOD)
    assert calls == [(system.gpu_ops.device, DIM, torch.float32, False)]
    assert system.threshold_batch_size == 1
    system.adaptive_bind(GOOD, GOOD)
    assert len(calls) == 1
    other = HybridHRRSystem(DIM, "cpu")
    other.gpu_ops = FakeAccelerator()
    other.threshold_batch_size = 3
    other.adaptive_bind(GOOD, GOOD)
    assert len(calls) == 1 and other.gpu_ops.bound == []
    assert other.calibrate() == 1 == other.threshold_batch_size
    assert calls[1:] == [(other.gpu_ops.device, DIM, torch.float32, True)]


@pytest.mark.parametrize("kind", [torch.AcceleratorError, RuntimeError])
def test_an_accelerator_that_fails_is_given_up(system, monkeypatch, kind):
    problem = kind("CUDA error: unspecified launch failure")
    monkeypatch.setattr(device, "_lost", {})
    system.threshold_batch_size, system.gpu_ops = 0, FakeAccelerator(problem)
    failed, (a, b) = system.gpu_ops, (vectors(2), vectors(2))
    with pytest.warns(RuntimeWarning, match=r"it failed \(CUDA error: unspecified launch failure\); continuing on"):
        assert torch.equal(system.adaptive_bind(a, b), hrr.bind(a, b))
    assert torch.equal(system.adaptive_bind(a, b), hrr.bind(a, b))
    assert len(failed.bound) == 1 and not system.has_accelerator
    assert device._problem(torch.device("cuda", 0)) == "it failed (CUDA error: unspecified launch failure)"


def test_without_an_accelerator_nothing_is_measured_and_nothing_moves():
    system = HybridHRRSystem(DIM, "cpu")
    assert not system.has_accelerator and system.gpu_ops.device == torch.device("cpu")
    assert system.threshold_batch_size == system.calibrate() == math.inf
    a, b = vectors(3), vectors(3)
    assert torch.equal(system.adaptive_bind(a, b, batch_size=10**9), hrr.bind(a, b))
    system.threshold_batch_size = 0
    assert torch.equal(system.adaptive_bind(a, b), hrr.bind(a, b))


def test_gradients_of_an_adaptive_binding(system):
    system.threshold_batch_size = 2
    for rows in (1, 4):
        a = vectors(rows).requires_grad_()
        b = vectors(rows)
        system.adaptive_bind(a, b).sum().backward()
        near(a.grad, b.sum(-1, keepdim=True).expand(rows, DIM).double())


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-1, ValueError, "must be >= 0, got -1.0"),
        (math.nan, ValueError, "must be >= 0, got nan"),
        ("10", TypeError, "must be a number, got str"),
        (True, TypeError, "must be a number, got bool"),
    ],
)
def test_thresholds_that_do_not_exist(system, value, error, text):
    system.threshold_batch_size = 5
    with pytest.raises(error, match=f"^threshold_batch_size: value {text}$"):
        system.threshold_batch_size = value
    assert system.threshold_batch_size == 5


def test_batches_that_do_not_exist(system):
    with pytest.raises(ValueError, match=r"^adaptive_bind: batch_size must be at least 0, got -1$"):
        system.adaptive_bind(GOOD, GOOD, -1)
    with pytest.raises(TypeError, match=r"^adaptive_bind: batch_size must be an int, got float$"):
        system.adaptive_bind(GOOD, GOOD, 2.0)
    text = r"^adaptive_bind: a and b must have leading dimensions that broadcast, got \[2\] and \[3\]$"
    with pytest.raises(ValueError, match=text):
        system.adaptive_bind(GOOD, torch.ones(3, DIM))
