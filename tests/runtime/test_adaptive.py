"""Calls that go on where memory is short: the rows, the order and the result, with shortages injected."""

import weakref

import pytest
import torch

from torch_hrr import hrr
from torch_hrr.runtime import DeviceError, adaptive_call, device, resolve_device

SHORTAGES = (
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    torch.OutOfMemoryError("CUDA out of memory."),
    MemoryError(),
    RuntimeError("std::bad_alloc"),
    # As torch raises them for the libraries of CUDA, and for Apple's GPUs.
    torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuFFT error: CUFFT_ALLOC_FAILED"),
    RuntimeError("MPS backend out of memory (MPS allocated: 8.87 GB)"),
)


class Cramped:
    """Binding where memory holds only so many rows, and the numbers of rows that were tried."""

    def __init__(self, most, shortage=SHORTAGES[0]):
        self.most, self.shortage, self.tried = most, shortage, []

    def __call__(self, a, b):
        self.tried.append(len(a))
        if len(a) > self.most:
            raise self.shortage
        return hrr.bind(a, b)


def operands(rows, dim=16):
    return torch.randn(2, rows, dim, generator=torch.Generator().manual_seed(rows))


@pytest.mark.parametrize("shortage", SHORTAGES, ids=repr)
def test_rows_are_halved_until_they_fit_and_the_bits_are_those_of_one_call(shortage):
    a, b = operands(13)
    fn = Cramped(4, shortage)
    assert torch.equal(adaptive_call(fn, a, b, device="cpu"), hrr.bind(a, b))
    # Once more after caches are freed, then 7, then 4; what fitted goes on.
    assert fn.tried == [13, 13, 7, 4, 4, 4, 1] and not device._lost


def test_one_call_where_all_rows_fit_and_the_allocators_error_where_not_even_one_does():
    a, b = operands(5)
    fn = Cramped(5)
    assert torch.equal(adaptive_call(fn, a, b, device="cpu"), hrr.bind(a, b)) and fn.tried == [5]
    assert adaptive_call(Cramped(5), *operands(0), device="cpu").shape == (0, 16)
    for rows in (1, 6):
        fn = Cramped(0)
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            adaptive_call(fn, *operands(rows), device="cpu")
        assert fn.tried[-2:] == [1, 1] if rows == 1 else fn.tried[-1] == 1

    def fails(x):
        raise RuntimeError("size mismatch")

    with pytest.raises(RuntimeError, match=r"^size mismatch$"):
        adaptive_call(fails, a, device="cpu")


def test_structures_of_results_are_joined_leaf_by_leaf():
    def fn(x):
        if len(x) > 2:
            raise MemoryError
        return {"double": 2 * x, "parts": [x[:, 0], (x + 1,)]}

    (x, _) = operands(5)
    result = adaptive_call(fn, x, device="cpu")
    assert torch.equal(result["double"], 2 * x) and torch.equal(result["parts"][0], x[:, 0])
    assert torch.equal(result["parts"][1][0], x + 1)


def test_gradients_flow_through_the_parts():
    a, b = operands(6)
    a.requires_grad_()
    adaptive_call(Cramped(2), a, b, device="cpu").sum().backward()
    parts, a.grad = a.grad, None
    hrr.bind(a, b).sum().backward()
    assert torch.equal(parts, a.grad)


def test_what_failed_holds_no_memory_when_it_is_tried_again():
    held = []

    def fn(x):
        assert all(ref() is None for ref in held)
        mine = torch.zeros(len(x))
        held.append(weakref.ref(mine))
        if len(x) > 1:
            raise MemoryError
        return mine + 1

    adaptive_call(fn, torch.ones(4, 1), device="cpu")
    assert len(held) == 7


# As torch raises them for the libraries of CUDA, and this library for its launches.
FAILURES = (
    "cuFFT error: CUFFT_INTERNAL_ERROR",
    "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
    "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
    "bind: launch: an illegal memory access was encountered",
)


@pytest.mark.parametrize("text", FAILURES)
def test_failures_that_have_no_class_of_their_own_are_the_devices(feigned_gpu, text):
    def fn(x):
        if x.device.type == "cuda":
            raise RuntimeError(f"{text}\nMore advice.")
        return x + 1

    x = torch.arange(3.0)
    near = x.to("cuda")
    with (
        pytest.raises(DeviceError, match=r"^adaptive_call: device cuda failed: ") as lost,
        pytest.warns(RuntimeWarning),
    ):
        adaptive_call(fn, near, device="cuda")
    assert lost.value.reason == text
    device._lost.clear()
    with pytest.warns(RuntimeWarning, match=r"cuda was asked for but it failed \(") as caught:
        assert torch.equal(adaptive_call(fn, x, device="cuda"), x + 1)
    assert len(caught) == 1
    # Later calls of its kind go on; others that name it are told.
    assert torch.equal(adaptive_call(fn, x, device="cuda"), x + 1)
    with pytest.raises(RuntimeError, match=r"got cuda, and it failed \("):
        resolve_device("cuda")


X = torch.ones(2)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((3, X), TypeError, "fn must be callable, got int"),
        ((torch.sin,), ValueError, "batches must be at least one, got none"),
        ((torch.sin, [1.0]), TypeError, r"batch 0 must be a torch.Tensor or a NumPy array, got list"),
        ((torch.sin, torch.ones(())), ValueError, r"batches must have the same number of rows, got shapes \[\[\]\]"),
        ((torch.add, X, torch.ones(3)), ValueError, r"batches must have .* rows, got shapes \[\[2\], \[3\]\]"),
        ((torch.sum, X), ValueError, r"fn must give 2 rows for 2 rows, got shape \[\]"),
        ((len, X), TypeError, "fn must give tensors, got int"),
        ((torch.sin, torch.eye(3).to_sparse()), TypeError, "batch 0 must be strided, got torch.sparse_coo.*"),
        ((torch.sin, torch.eye(3, device="meta")), ValueError, "batch 0 must hold data, got a meta tensor"),
    ],
)
def test_what_cannot_be_called(arguments, error, text):
    with pytest.raises(error, match=f"^adaptive_call: {text}$"):
        adaptive_call(*arguments, device="cpu")
    with pytest.raises(ValueError, match=r"^adaptive_call: device must hold data, got meta$"):
        adaptive_call(torch.sin, X, device="meta")


@pytest.mark.parametrize(
    ("fn", "error", "text"),
    [
        (
            lambda x: x[:, : 1 + len(x)],
            ValueError,
            r"fn must give the same .*\[rows, 3\] and .*\[rows, 2\]",
        ),
        (lambda x: [x] * len(x), ValueError, "fn must give the same for all rows but the first dimension, got"),
        (lambda x: x.double() if len(x) > 1 else x, ValueError, r"fn must .* torch.float64 \[rows, 5\] and torch.floa"),
        (lambda x: x.to("meta"), ValueError, "fn's result must hold data, got a meta tensor"),
        (lambda x: x.to_sparse(), TypeError, "fn's result must be strided, got torch.sparse_coo"),
    ],
    ids=["width", "number", "dtype", "meta", "sparse"],
)
def test_results_that_cannot_be_joined_are_named(fn, error, text):
    def short(x):
        if len(x) > 2:
            raise MemoryError
        return fn(x)

    with pytest.raises(error, match=rf"^adaptive_call: {text}"):
        adaptive_call(short, torch.ones(3, 5), device="cpu")
