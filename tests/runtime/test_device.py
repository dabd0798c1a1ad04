"""Choice of the current device, its fallback to the CPU, and what is told of it."""

import asyncio
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import threading
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from torch_hrr import encoding, field, hrr
from torch_hrr.runtime import (
    GPUContext,
    TensorPool,
    adaptive_call,
    device,
    get_device,
    get_device_info,
    resolve_device,
    set_device,
    to_gpu,
    zeros,
)

README = pathlib.Path(__file__).parents[2] / "README.md"
NO_DRIVER = "Found no NVIDIA driver on your system"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, "cpu"),
        ({"cuda": 1}, "cuda"),
        ({"mps": 1}, "cpu"),
        ({"xpu": 1}, "cpu"),
        ({"cuda": 1, "xpu": 2}, "cuda"),
        ({"cuda": 1, "kernels": ()}, "cpu"),
        ({"cuda": 1, "xpu": 2, "kernels": ("xpu",)}, "xpu"),
    ],
)
def test_auto_takes_the_first_accelerator_with_kernels_and_is_silent(accelerators, recwarn, counts, expected):
    accelerators(**counts)
    assert get_device() == expected
    assert resolve_device() == torch.device(expected)
    assert resolve_device(None) == torch.device(expected)
    set_device("auto")
    assert get_device() == expected
    assert not recwarn.list


def test_names_come_back_as_strings(two_gpus):
    for name in ("cpu", "cuda", "cuda:1"):
        set_device(name)
        assert get_device() == name
        assert resolve_device(None) == torch.device(name)
        set_device(torch.device(name))
        assert get_device() == name
    assert resolve_device("cpu:0") == torch.device("cpu")
    assert resolve_device("meta") == torch.device("meta")


def test_resolving_changes_nothing(two_gpus):
    set_device("cpu")
    assert resolve_device("cuda:1") == torch.device("cuda", 1)
    assert resolve_device("auto") == torch.device("cuda")
    assert get_device() == "cpu"


@pytest.mark.parametrize("call", [set_device, resolve_device, lambda name: GPUContext(name).__enter__()])
@pytest.mark.parametrize("name", ["gpu", "", "cuda:x", "cuda:2", "cuda:999", "cpu:1"])
def test_names_that_do_not_exist(two_gpus, call, name):
    with pytest.raises(ValueError, match=r": device must "):
        call(name)
    assert get_device() == "cuda"


def test_error_text_names_the_operation_and_the_value(two_gpus):
    with pytest.raises(ValueError, match=r"^set_device: device must have an index below 2, got 'cuda:7'$"):
        set_device("cuda:7")
    with pytest.raises(ValueError, match=r"^GPUContext: device must be .*, got 'gpu'$"), GPUContext("gpu"):
        pass
    for index in (10**5000, -(10**5000)):
        with pytest.raises(ValueError, match=r"^resolve_device: device must be .*, got an int of 16610 bits$"):
            resolve_device(index)
    for wrong in (True, 1.0, b"cpu", torch.tensor(0)):
        with pytest.raises(TypeError, match=rf"^resolve_device: device must be .*, got {type(wrong).__name__}$"):
            resolve_device(wrong)
    with pytest.raises(TypeError, match=r"^set_device: device must be .*, got NoneType$"):
        set_device(None)


def test_integers_are_indices_of_the_accelerator(two_gpus, accelerators):
    for index in (1, np.int64(1), np.uint8(1)):
        assert resolve_device(index) == torch.device("cuda", 1)
        set_device(index)
        assert get_device() == "cuda:1"
        set_device(0)
        assert get_device() == "cuda:0"
        with GPUContext(index) as name:
            assert name == "cuda:1"
    for wrong in (2, -1, 2**40):
        with pytest.raises(ValueError, match=r"^set_device: device must "):
            set_device(wrong)
    accelerators(xpu=1)
    with pytest.warns(RuntimeWarning, match="no kernels of its own for xpu"):
        assert resolve_device(0) == torch.device("xpu", 0)


def test_an_index_without_an_accelerator_is_the_cpu_after_a_warning(no_gpu):
    with pytest.warns(RuntimeWarning, match="cuda:0 was asked for but"):
        assert resolve_device(0) == torch.device("cpu")


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_device_without_kernels_is_taken_by_name_after_one_warning(accelerators, kind):
    accelerators(**{kind: 1}, kernels=())
    with pytest.warns(RuntimeWarning) as caught:
        assert resolve_device(kind) == torch.device(kind)
        set_device(kind)
        with GPUContext(kind):
            assert resolve_device(None) == torch.device(kind)
    assert [str(one.message) for one in caught] == [
        f"torch_hrr: this build has no kernels of its own for {kind}: its operators run there in plain torch, slower"
    ]
    assert caught[0].filename == __file__


def test_to_gpu_takes_one_without_kernels_too(accelerators, monkeypatch):
    accelerators(cuda=1, kernels=())
    monkeypatch.setattr(device, "_move", lambda op, tensor, target: target)
    with pytest.warns(RuntimeWarning, match="no kernels of its own for cuda"):
        assert to_gpu(torch.ones(2)) == torch.device("cuda")


def test_the_errors_name_the_call_that_was_made(two_gpus):
    calls = {
        "random": lambda: hrr.random(1, 8, device="gpu"),
        "Vocabulary": lambda: hrr.Vocabulary(8, device="gpu"),
        "VectorStore": lambda: hrr.VectorStore(8, device="gpu"),
        "Graph": lambda: hrr.Graph(8, device="gpu"),
        "HRROperations": lambda: hrr.HRROperations(8, device="gpu"),
        "Bind": lambda: hrr.Bind(8, device="gpu"),
        "to": lambda: hrr.ItemMemory(torch.eye(8)).to("gpu"),
        "HRRMultiLabelLoss": lambda: hrr.HRRMultiLabelLoss(2, 8, device="gpu"),
        "GPUAccelerator": lambda: encoding.GPUAccelerator(device="gpu"),
        "ConfigurableSinusoidalEmbedder": lambda: encoding.ConfigurableSinusoidalEmbedder(device="gpu"),
        "LiquidStateMachine": lambda: encoding.LiquidStateMachine(2, 10, device="gpu"),
        "RelativePositionBias": lambda: encoding.RelativePositionBias(device="gpu"),
        "FieldBrain": lambda: field.FieldBrain(device="gpu"),
        "DynamicField": lambda: field.DynamicField((2, 2, 2, 4), device="gpu"),
        "PatternLibrary": lambda: field.PatternLibrary(2, 4, device="gpu"),
        "random_key": lambda: field.random_key(0, device="gpu"),
        "TensorPool": lambda: TensorPool({}, device="gpu"),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name}: device must be .*, got 'gpu'$"):
            call()


def test_fallback_warns_once_and_says_why(no_gpu, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch, "empty", Mock(side_effect=RuntimeError(f"{NO_DRIVER}. Please check that you have one.")))
    with pytest.warns(RuntimeWarning) as caught:
        set_device("cuda")
        set_device("cuda:3")
        assert resolve_device("cuda") == torch.device("cpu")
        with GPUContext("cuda"):
            assert get_device() == "cpu"
        to_gpu(torch.ones(2))
    assert [str(one.message) for one in caught] == [
        f"torch_hrr: cuda was asked for but torch finds no CUDA device ({NO_DRIVER}); continuing on the CPU"
    ]
    assert caught[0].filename == __file__
    assert get_device() == "cpu"


@pytest.mark.parametrize(
    "call",
    [
        lambda: set_device("cuda"),
        lambda: resolve_device("cuda"),
        lambda: GPUContext("cuda").__enter__(),
        lambda: to_gpu(1),
        lambda: hrr.random(2, 8, device="cuda"),
        lambda: hrr.Vocabulary(8, device="cuda"),
        lambda: hrr.Graph(8, device="cuda"),
        lambda: hrr.VectorStore(8, device="cpu").to("cuda"),
        lambda: hrr.HybridHRRSystem(8, device="cuda"),
    ],
)
def test_warning_points_at_the_caller(no_gpu, call):
    with pytest.warns(RuntimeWarning, match="cuda was asked for") as caught:
        call()
    device._scopes.set(())
    assert caught[0].filename == __file__


def test_each_reason_warns(no_gpu):
    with pytest.warns(RuntimeWarning) as caught:
        for _ in range(2):
            resolve_device("cuda")
            resolve_device("xpu")
    assert [str(one.message).split()[1] for one in caught] == ["cuda", "xpu"]


def test_hidden_devices_are_a_reason(no_gpu, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.warns(RuntimeWarning, match=r"CUDA_VISIBLE_DEVICES is '-1'"):
        resolve_device("cuda")


def test_a_torch_without_cuda_is_a_reason(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.warns(RuntimeWarning, match=r"this build of torch has no CUDA; continuing on the CPU"):
        resolve_device("cuda")


def test_a_card_that_fails_is_a_reason_even_for_auto(two_gpus, monkeypatch):
    monkeypatch.setattr(device, "_probe", lambda chosen: f"{chosen} does not work (no kernel image)")
    with pytest.warns(RuntimeWarning) as caught:
        assert get_device() == "cpu"
        assert resolve_device("auto") == torch.device("cpu")
    assert [str(one.message) for one in caught] == [
        "torch_hrr: auto was asked for but cuda does not work (no kernel image); continuing on the CPU"
    ]
    assert caught[0].filename == __file__
    assert not get_device_info()["cuda_available"]


def test_auto_goes_on_with_the_next_accelerator_and_says_so(accelerators, monkeypatch):
    accelerators(cuda=1, xpu=1, kernels=("cuda", "xpu"))
    monkeypatch.setattr(device, "_probe", lambda chosen: "cuda is lost" if chosen.type == "cuda" else None)
    with pytest.warns(RuntimeWarning, match=r"auto was asked for but cuda is lost; continuing on xpu"):
        assert resolve_device("auto") == torch.device("xpu")


def test_probe_reports_what_the_device_says():
    assert device._probe(torch.device("cpu")) is None
    assert device._probe(torch.device("vulkan")).startswith("vulkan does not work (Could not run ")


def test_a_device_is_probed_once(two_gpus, monkeypatch):
    probed = []
    monkeypatch.setattr(device, "_probe", lambda chosen: probed.append(str(chosen)))
    for name in ("cuda", "cuda:1", "cuda", "auto", "cuda:1"):
        resolve_device(name)
    assert probed == ["cuda", "cuda:1"]


@pytest.mark.parametrize("way", ["set", "automatic", "context", "torch's default"])
def test_a_lost_device_is_no_longer_the_current_one(two_gpus, failing_copies, recwarn, monkeypatch, way):
    if way == "torch's default":
        monkeypatch.setattr(torch, "get_default_device", lambda: torch.device("cuda"))
    if way == "set":
        set_device("cuda")
    context = GPUContext("cuda") if way == "context" else contextlib.nullcontext()
    x = torch.arange(3.0)
    with context:
        assert get_device() == "cuda"
        for _ in range(2):
            assert torch.equal(adaptive_call(torch.sin, x), x.sin())
            assert get_device() == "cpu" and resolve_device(None) == resolve_device("cuda") == torch.device("cpu")
            assert device.resolve_parameter_device(None, op="Bind") == torch.device("cpu")
    assert get_device() == "cpu" and zeros(2).device.type == "cpu"
    with GPUContext(None) as name:
        assert name == "cpu"
    assert failing_copies == ["cuda"]
    assert [str(each.message) for each in recwarn.list] == [
        "torch_hrr: cuda was asked for but cuda failed (CUDA error: an illegal memory access was encountered); "
        "continuing on the CPU"
    ]
    # Another card is as it was.
    set_device("cuda:1")
    assert get_device() == "cuda:1"


def test_warns_once_in_a_real_process():
    program = (
        "import warnings, torch; warnings.simplefilter('always')\n"
        "from torch_hrr.runtime import *\n"
        "for _ in range(3):\n"
        "    set_device('cuda'); to_gpu([torch.ones(1)])\n"
        "print(get_device())\n"
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "cpu\n"
    assert done.stderr.count("RuntimeWarning: torch_hrr: cuda was asked for but ") == 1


def test_context_restores_after_nesting_and_exceptions(two_gpus):
    set_device("cpu")
    context = GPUContext("cuda:1")
    with GPUContext() as name:
        assert (name, get_device()) == ("cuda", "cuda")
        with context as inner, context, GPUContext("cpu"):
            assert (inner, get_device()) == ("cuda:1", "cpu")
            with GPUContext(None) as same:
                assert same == "cpu"
        assert get_device() == "cuda"
        with pytest.raises(KeyError), context:
            raise KeyError
        assert get_device() == "cuda"
    assert get_device() == "cpu"


def test_set_device_within_a_context_ends_with_it(two_gpus):
    set_device("cuda:1")
    with GPUContext("cuda"):
        set_device("cpu")
        assert get_device() == "cpu"
        with GPUContext("cuda"):
            pass
        assert get_device() == "cpu"
    assert get_device() == "cuda:1"


def in_thread(function):
    result = []
    thread = threading.Thread(target=lambda: result.append(function()))
    thread.start()
    thread.join()
    return result[0]


def test_threads_follow_set_device_but_not_a_context(two_gpus):
    set_device("cuda:1")
    assert in_thread(get_device) == "cuda:1"
    with GPUContext("cpu"):
        assert in_thread(get_device) == "cuda:1"
        in_thread(lambda: set_device("cuda"))
        assert get_device() == "cpu"
    assert get_device() == "cuda"


def test_threads_share_one_context_object(two_gpus):
    set_device("cpu")
    context = GPUContext("cuda:1")
    barrier = threading.Barrier(4)
    seen = []

    def work():
        with context:
            barrier.wait(10)
            seen.append(get_device())
            barrier.wait(10)
        seen.append(get_device())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == ["cpu"] * 4 + ["cuda:1"] * 4


def test_asyncio_tasks_are_apart(two_gpus):
    set_device("cpu")

    async def work(name):
        with GPUContext(name):
            await asyncio.sleep(0)
            return get_device()

    async def both():
        return await asyncio.gather(work("cuda"), work("cuda:1"))

    assert asyncio.run(both()) == ["cuda", "cuda:1"]
    assert get_device() == "cpu"


def test_info_without_a_gpu(no_gpu):
    info = get_device_info()
    assert sorted(info) == ["capability", "cuda_available", "device_memory", "device_name", "driver"]
    assert info["cuda_available"] is False
    assert info["capability"] is None and info["driver"] is None
    assert isinstance(info["device_name"], str) and info["device_name"]
    assert info["device_memory"] is None or float(info["device_memory"].removesuffix(" GB")) > 0


def test_info_survives_a_system_that_tells_nothing(no_gpu, monkeypatch):
    monkeypatch.setattr(device.pathlib.Path, "read_text", Mock(side_effect=FileNotFoundError()))
    monkeypatch.setattr(device.platform, "processor", lambda: "")
    monkeypatch.setattr(device.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(device.os, "sysconf", Mock(side_effect=ValueError()))
    info = get_device_info()
    assert (info["device_name"], info["device_memory"]) == ("aarch64", None)


class FakeDriver:
    """The three calls of the NVIDIA management library that are used."""

    def __init__(self, loaded=0, told=0):
        self.loaded, self.told = loaded, told

    def nvmlInit_v2(self):
        return self.loaded

    def nvmlSystemGetDriverVersion(self, text, size):
        text.value = b"550.54.15"[: size - 1]
        return self.told

    def nvmlShutdown(self):
        return 0


@pytest.mark.parametrize(
    ("library", "driver"),
    [
        (lambda name: FakeDriver(), "550.54.15"),
        (lambda name: FakeDriver(loaded=9), None),
        (lambda name: FakeDriver(told=3), None),
        (Mock(side_effect=OSError()), None),
    ],
)
def test_info_with_a_gpu(two_gpus, monkeypatch, library, driver):
    class Card:
        name, total_memory, major, minor = "NVIDIA GeForce RTX 3090", 24 * 2**30, 8, 6

    asked = []
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda which: asked.append(str(which)) or Card)
    monkeypatch.setattr(device.ctypes, "CDLL", library)
    set_device("cuda:1")
    assert get_device_info() == {
        "cuda_available": True,
        "device_name": "NVIDIA GeForce RTX 3090",
        "device_memory": "24.00 GB",
        "capability": "8.6",
        "driver": driver,
    }
    set_device("cpu")
    get_device_info()
    assert asked == ["cuda:1", "cuda"]


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_the_readme_runs_where_torch_sees_a_gpu_that_has_no_kernels(accelerators, recwarn, monkeypatch, tmp_path, kind):
    """On the CPU, and in silence: nobody asked for the GPU."""
    monkeypatch.chdir(tmp_path)  # a sample saves a brain
    accelerators(**{kind: 1}, kernels=())
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    tensors = [value for value in names.values() if isinstance(value, torch.Tensor)]
    assert len(tensors) >= 4 and all(tensor.device.type == "cpu" for tensor in tensors)
    assert names["brain"].device.type == "cpu"
    assert not [warning for warning in recwarn.list if "torch_hrr" in str(warning.message)]
