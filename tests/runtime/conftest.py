"""A fresh device state for every test, and machines with whatever accelerators a test wants."""

import pytest
import torch

from torch_hrr import _library
from torch_hrr.compat import runtime as manager
from torch_hrr.runtime import adaptive, device, memory


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(device, "_process_device", None)
    monkeypatch.setattr(device, "_working", set())
    monkeypatch.setattr(device, "_lost", {})
    monkeypatch.setattr(device, "_warned", set())
    # Of all objects of a test run it takes as long as a test.
    monkeypatch.setattr(memory.gc, "collect", lambda: None)
    assert device._scopes.get() == ()


@pytest.fixture
def accelerators(monkeypatch):
    """Pretends that torch sees so many devices of each kind and that all work; `kernels`: those we have kernels for."""

    def pretend(kernels=("cuda",), **counts):
        monkeypatch.setattr(_library, "has_cuda_kernels", lambda: "cuda" in kernels)
        monkeypatch.setattr(device, "_has_kernels", lambda kind: kind in ("cpu", "meta", *kernels))
        for kind in ("cuda", "mps", "xpu"):
            count = counts.get(kind, 0)
            monkeypatch.setattr(getattr(torch, kind), "is_available", lambda count=count: count > 0)
            monkeypatch.setattr(getattr(torch, kind), "device_count", lambda count=count: count)
        monkeypatch.setattr(device, "_probe", lambda chosen: None)

    return pretend


@pytest.fixture
def failing_copies(monkeypatch):
    """Pretended GPUs that fail at the first copy: the devices that something was copied to, in order."""
    tried, to = [], torch.Tensor.to

    def fails(tensor, target, *rest, **options):
        if torch.device(target).type == "cpu":
            return to(tensor, target, *rest, **options)
        tried.append(str(target))
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.Tensor, "to", fails)
    return tried


@pytest.fixture
def no_gpu(accelerators):
    accelerators()


@pytest.fixture
def two_gpus(accelerators):
    accelerators(cuda=2)


class Near(torch.Tensor):
    """One of the CPU that says it is on a GPU."""

    @property
    def device(self):
        return torch.device("cuda")


@pytest.fixture
def feigned_gpu(two_gpus, monkeypatch):
    """A GPU that tensors move to and from by `Tensor.to`, and compute on, without leaving the CPU."""
    to = torch.Tensor.to

    def moved(tensor, target, *rest, **options):
        if not isinstance(target, torch.device | str):
            return to(tensor, target, *rest, **options)
        kind = torch.Tensor if torch.device(target).type == "cpu" else Near
        return tensor if tensor.device.type == torch.device(target).type else tensor.as_subclass(kind)

    monkeypatch.setattr(torch.Tensor, "to", moved)
    for module in (adaptive, manager):
        monkeypatch.setattr(module, "wait_for", lambda op, place: None, raising=False)
    monkeypatch.setattr(adaptive, "free_caches", lambda place: None)
