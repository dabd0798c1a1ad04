"""Transfers between devices through containers, waiting for a device, and devices that fail."""

import collections
import copy
import sys
import warnings
from unittest.mock import Mock

import numpy
import pytest
import torch

from torch_hrr.runtime import (
    DeviceError,
    GPUContext,
    GPUMemoryManager,
    device,
    get_device_info,
    set_device,
    synchronize,
    to_cpu,
    to_gpu,
)


@pytest.fixture
def moves(monkeypatch):
    """Records (tensor, device) instead of copying, for devices that are only pretended."""
    record = []
    monkeypatch.setattr(device, "_move", lambda op, tensor, target: record.append((tensor, str(target))) or tensor)
    return record


Pair = collections.namedtuple("Pair", "first second")


def test_containers_are_rebuilt_and_the_rest_is_untouched(two_gpus, moves):
    a, b, other = torch.ones(2), torch.zeros(3), object()
    table = collections.defaultdict(list, {"x": a})
    state = {"list": [a, 1], "tuple": (b, None), "pair": Pair(a, "s"), "table": table, "other": other, 3: {a}}
    moved = to_gpu(state)
    assert [target for _, target in moves] == ["cuda"] * 4
    assert moved is not state and moved["list"] is not state["list"] and moved["table"] is not table
    assert moved["other"] is other and moved[3] is state[3]
    assert moved["list"] == [a, 1] and moved["list"][0] is a
    assert isinstance(moved["tuple"], tuple) and moved["tuple"][1] is None
    assert isinstance(moved["pair"], Pair) and moved["pair"].second == "s"
    assert isinstance(moved["table"], collections.defaultdict) and moved["table"]["new"] == []
    assert "new" not in table
    assert to_gpu(torch.Size([2, 3])) == torch.Size([2, 3])
    assert isinstance(to_gpu(torch.max(torch.ones(2, 2), dim=1)), torch.return_types.max)
    found = to_cpu(Sized(a))
    assert type(found) is Sized and torch.equal(found.second, 2 * a)


class Sized(collections.namedtuple("Sized", "first second")):
    """A named tuple that is made of one argument."""

    def __new__(cls, first):
        return super().__new__(cls, first, 2 * first)


@pytest.mark.parametrize("call", (to_gpu, to_cpu, GPUMemoryManager("cpu").transfer_state))
def test_what_cannot_be_moved_is_named(no_gpu, call):
    circle = []
    circle.append(circle)
    warnings.simplefilter("ignore")
    name = call.__name__
    with pytest.raises(ValueError, match=rf"^{name}: x must neither hold itself nor be nested too deeply, got list$"):
        call(circle)
    with pytest.raises(ValueError, match=rf"^{name}: a tensor must hold data, got a meta tensor$"):
        call([torch.ones(2, device="meta")])


@pytest.mark.parametrize(("current", "target"), [("cpu", "cuda"), ("cuda:1", "cuda:1"), ("meta", "cuda")])
def test_to_gpu_goes_to_the_current_gpu_or_the_first(two_gpus, moves, current, target):
    set_device(current)
    to_gpu(torch.ones(1))
    assert [where for _, where in moves] == [target]


def test_to_cpu_leaves_arrays(two_gpus, moves):
    array = numpy.ones(3)
    state = to_cpu({"tensors": (torch.ones(1), [torch.ones(2)]), "array": array})
    assert [target for _, target in moves] == ["cpu", "cpu"] and state["array"] is array


def test_without_a_gpu_all_stays_on_the_cpu_and_is_its_own(no_gpu, monkeypatch):
    array = numpy.arange(6.0).reshape(2, 3)
    with pytest.warns(RuntimeWarning, match="continuing on the CPU"):
        moved = to_gpu({"tensor": torch.ones(2), "array": array})
    assert moved["tensor"].device == moved["array"].device == torch.device("cpu")
    moved["array"].zero_()
    assert array.sum() == 15
    x = torch.ones(2, requires_grad=True)
    to_cpu([x * 3])[0].sum().backward()
    assert x.grad.tolist() == [3, 3]
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.warns(RuntimeWarning):
        assert to_gpu([1, "a"]) == [1, "a"]


def test_numpy_arrays_become_tensors_of_their_dtype(two_gpus, moves):
    frozen = numpy.arange(4)
    frozen.flags.writeable = False
    for array, dtype in [
        (numpy.arange(6, dtype=numpy.float32)[::-2], torch.float32),
        (numpy.arange(6, dtype=">i4").reshape(2, 3).T, torch.int32),
        (numpy.array(True), torch.bool),
        (numpy.empty((0, 2), numpy.float16), torch.float16),
        (numpy.array([1 + 2j]), torch.complex128),
        (frozen, torch.int64),
    ]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tensor = to_gpu(array)
        assert tensor.dtype == dtype
        assert tensor.tolist() == array.tolist()
        assert tensor.is_contiguous()
    assert len(moves) == 6
    for array in (numpy.array(["a"]), numpy.array([None]), numpy.zeros(1, numpy.longdouble), numpy.float64(1)):
        assert to_gpu(array) is array


def test_synchronize_waits_for_the_current_device(two_gpus, monkeypatch):
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *which: waited.append(tuple(map(str, which))))
    for name in ("cpu", "cuda", "cuda:1", "meta"):
        with GPUContext(name):
            synchronize()
    assert waited == [(), ("cuda:1",)]


def test_device_errors_name_operation_and_device(two_gpus, monkeypatch):
    failure = RuntimeError("CUDA error: an illegal memory access was encountered\nMore advice.")
    monkeypatch.setattr(torch.cuda, "synchronize", Mock(side_effect=failure))
    with GPUContext("cuda"), pytest.raises(DeviceError) as caught:
        synchronize()
    error = copy.copy(caught.value)
    assert str(error) == "synchronize: device cuda failed: CUDA error: an illegal memory access was encountered"
    assert (error.op, error.device) == ("synchronize", torch.device("cuda"))
    assert caught.value.__cause__ is failure


def test_a_failed_copy_is_a_device_error_but_a_full_device_is_not(two_gpus, monkeypatch):
    x = torch.ones(1)
    monkeypatch.setattr(torch.Tensor, "to", Mock(side_effect=torch.AcceleratorError("CUDA error: device lost")))
    with pytest.raises(DeviceError, match=r"^to_gpu: device cuda failed: CUDA error: device lost$"):
        to_gpu([x])
    with pytest.raises(DeviceError, match=r"^to_cpu: device meta failed: "):
        to_cpu(torch.ones(1, device="meta"))
    monkeypatch.setattr(torch.Tensor, "to", Mock(side_effect=torch.OutOfMemoryError("CUDA out of memory")))
    with pytest.raises(torch.OutOfMemoryError):
        to_gpu(x)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_on_a_gpu():
    with GPUContext("cuda"):
        moved = to_gpu({"x": torch.ones(3)})
        assert moved["x"].device.type == "cuda"
        synchronize()
        assert to_cpu(moved)["x"].tolist() == [1, 1, 1]
    assert get_device_info()["cuda_available"] is True
