"""Choice of the current device, and what is told of one that cannot be used."""

import asyncio
import contextlib
import pathlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from torch_hrr import hrr
from torch_hrr.runtime import (
    GPUContext,
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


def test_names_come_back_as_strings_and_resolving_changes_nothing(two_gpus):
    for name in ("cpu", "cuda", "cuda:1"):
        for given in (name, torch.device(name)):
            set_device(given)
            assert get_device() == name and resolve_device(None) == torch.device(name)
    assert resolve_device("cpu:0") == torch.device("cpu") and resolve_device("meta") == torch.device("meta")
    assert resolve_device("cuda") == resolve_device("auto") == torch.device("cuda") and get_device() == "cuda:1"


def test_names_that_do_not_exist(two_gpus):
    for call in (set_device, resolve_device, lambda name: GPUContext(name).__enter__()):
        for name in ("gpu", "", "cuda:x"):
            with pytest.raises(ValueError, match=rf"^\w+: device must be .*, got '{name}'$"):
                call(name)
    for index in (10**5000, -(10**5000)):
        with pytest.raises(ValueError, match=r"^resolve_device: device must be .*, got an int of 16610 bits$"):
            resolve_device(index)
    for wrong in (True, 1.0, b"cpu", torch.tensor(0)):
        with pytest.raises(TypeError, match=rf"^resolve_device: device must be .*, got {type(wrong).__name__}$"):
            resolve_device(wrong)
    with pytest.raises(TypeError, match=r"^set_device: device must be .*, got NoneType$"):
        set_device(None)
    assert get_device() == "cuda"


def test_integers_are_indices_of_the_accelerator(two_gpus, accelerators):
    for index in (1, np.int64(1), np.uint8(1)):
        assert resolve_device(index) == torch.device("cuda", 1)
        set_device(index)
        assert get_device() == "cuda:1"
        set_device(0)
        assert get_device() == "cuda:0"
        with GPUContext(index) as name:
            assert name == "cuda:1"
    for wrong in (-1, 2**7, 2**40):
        with pytest.raises(ValueError, match=r"^set_device: device must "):
            set_device(wrong)
    accelerators(xpu=1)
    with pytest.warns(RuntimeWarning, match="no kernels of its own for xpu"):
        assert resolve_device(0) == torch.device("xpu", 0)


@pytest.mark.parametrize(("name", "found"), [("cuda:2", "2 CUDA devices"), ("cuda:999", "2 CUDA devices")])
def test_an_index_beyond_the_devices_is_one_that_is_not_there(two_gpus, name, found):
    text = f"got {name}, and torch {torch.__version__} finds {found}"
    with pytest.raises(RuntimeError, match=rf'^resolve_device: .*{re.escape(text)}; "auto" takes cuda then$'):
        resolve_device(name)
    with pytest.warns(RuntimeWarning, match=f"set_device: {name} was asked for but torch .*; continuing on the CPU$"):
        set_device(name)
    with pytest.raises(RuntimeError, match=r"got cpu:1, and torch .* finds 1 cpu device;"):
        resolve_device("cpu:1")


@pytest.mark.parametrize("kind", ["cuda", "mps", "xpu"])
def test_a_device_without_kernels_is_taken_by_name_after_one_warning(accelerators, monkeypatch, kind):
    accelerators(**{kind: 1}, kernels=())
    monkeypatch.setattr(device, "_move", lambda op, tensor, target: target)
    with pytest.warns(RuntimeWarning) as caught:
        assert resolve_device(kind) == torch.device(kind)
        set_device(kind)
        with GPUContext(kind):
            assert resolve_device(None) == torch.device(kind)
        set_device("cpu")
        assert to_gpu(torch.ones(2)) == torch.device(kind)
    assert [str(one.message) for one in caught] == [
        f"torch_hrr: this build has no kernels of its own for {kind}: its operators run there in plain torch, slower"
    ]
    assert caught[0].filename == __file__


def test_the_reason_is_what_torch_says(no_gpu, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch, "empty", Mock(side_effect=RuntimeError(f"{NO_DRIVER}. Please check that you have one.")))
    reason = f"torch {torch.__version__} finds no CUDA device ({NO_DRIVER}; CUDA_VISIBLE_DEVICES is '-1')"
    with pytest.raises(RuntimeError, match=f"got cuda, and {re.escape(reason)}; "):
        resolve_device("cuda")
    with pytest.warns(RuntimeWarning) as caught:
        set_device("cuda")
        with GPUContext("cuda"):
            assert get_device() == "cpu"
        to_gpu(torch.ones(2))
    assert [str(one.message) for one in caught] == [
        f"torch_hrr: {name}: cuda was asked for but {reason}; continuing on the CPU"
        for name in ("set_device", "GPUContext", "to_gpu")
    ]
    assert get_device() == "cpu"


def test_warnings_point_at_the_caller(no_gpu):
    calls = (set_device, lambda name: GPUContext(name).__enter__(), to_gpu, lambda name: hrr.HRROperations(8, name))
    for call in calls:
        with pytest.warns(RuntimeWarning, match="cuda was asked for") as caught:
            call("cuda")
        assert caught[0].filename == __file__
    device._scopes.set(())


def test_a_torch_without_cuda_is_a_reason(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(RuntimeError, match=f"and torch {re.escape(torch.__version__)} is built without CUDA; "):
        resolve_device("cuda")
    with pytest.raises(RuntimeError, match=f"and torch {re.escape(torch.__version__)} finds no XPU device; "):
        resolve_device("xpu")


def test_a_card_that_fails_is_an_error_where_it_is_named_and_passed_over_by_auto(two_gpus, monkeypatch):
    monkeypatch.setattr(device, "_probe", lambda chosen: "it does not work (no kernel image)")
    with pytest.warns(RuntimeWarning, match=r'"auto" passes over cuda: it does not work \(no kernel image\)') as caught:
        assert get_device() == "cpu"
        assert resolve_device("auto") == torch.device("cpu")
    assert len(caught) == 1
    with pytest.raises(RuntimeError, match=r"got cuda:1, and it does not work \(no kernel image\); "):
        resolve_device("cuda:1")
    assert not get_device_info()["cuda_available"]


def test_auto_goes_on_with_the_next_accelerator(accelerators, monkeypatch):
    accelerators(cuda=1, xpu=1, kernels=("cuda", "xpu"))
    monkeypatch.setattr(device, "_probe", lambda chosen: "it is lost" if chosen.type == "cuda" else None)
    with pytest.warns(RuntimeWarning, match='"auto" passes over cuda: it is lost'):
        assert resolve_device("auto") == torch.device("xpu")
    with pytest.raises(RuntimeError, match=r'"auto" takes xpu then$'):
        resolve_device("cuda")


def test_probe_reports_what_the_device_says():
    assert device._probe(torch.device("cpu")) is None
    assert device._probe(torch.device("vulkan")).startswith("it does not work (Could not run ")


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
            assert get_device() == "cpu" and resolve_device(None) == resolve_device("auto") == torch.device("cpu")
            assert device.resolve_parameter_device(None, op="Bind") == torch.device("cpu")
    assert get_device() == "cpu" and zeros(2).device.type == "cpu"
    with GPUContext(None) as name:
        assert name == "cpu"
    assert failing_copies == ["cuda"]
    assert [str(each.message) for each in recwarn.list] == [
        "torch_hrr: adaptive_call: cuda was asked for but it failed (CUDA error: an illegal memory access was "
        "encountered); continuing on the CPU"
    ]
    # Another card is as it was.
    set_device("cuda:1")
    assert get_device() == "cuda:1"


def test_context_restores_after_nesting_and_exceptions(two_gpus):
    set_device("cpu")
    context = GPUContext("cuda:1")
    with GPUContext() as name:
        assert (name, get_device()) == ("cuda", "cuda")
        with context as inner, context, GPUContext("cpu"):
            assert (inner, get_device()) == ("cuda:1", "cpu")
            with GPUContext(None) as same:
                assert same == "cpu"
        with pytest.raises(KeyError), context:
            raise KeyError
        assert get_device() == "cuda"
        # What is set within a block ends with it.
        set_device("cuda:1")
        with GPUContext("cpu"):
            set_device("cuda")
        assert get_device() == "cuda:1"
    assert get_device() == "cpu"


def test_threads_follow_set_device_but_not_a_context(two_gpus):
    set_device("cuda:1")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(get_device).result() == "cuda:1"
        with GPUContext("cpu"):
            assert pool.submit(get_device).result() == "cuda:1"
            pool.submit(set_device, "cuda").result()
            assert get_device() == "cpu"
        assert get_device() == "cuda"


def test_threads_share_one_context_object(two_gpus):
    set_device("cpu")
    context, barrier = GPUContext("cuda:1"), threading.Barrier(4)

    def work():
        with context:
            barrier.wait(10)
            within = get_device()
            barrier.wait(10)
        return within, get_device()

    with ThreadPoolExecutor(4) as pool:
        seen = [pool.submit(work) for _ in range(4)]
        assert [each.result() for each in seen] == [("cuda:1", "cpu")] * 4


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


def test_info_without_a_gpu(no_gpu, monkeypatch):
    info = get_device_info()
    assert (info["cuda_available"], info["capability"], info["driver"]) == (False, None, None)
    assert info["device_name"] and (info["device_memory"] is None or float(info["device_memory"].split()[0]) > 0)
    # Of a system that tells nothing.
    monkeypatch.setattr(device.pathlib.Path, "read_text", Mock(side_effect=FileNotFoundError()))
    monkeypatch.setattr(device.platform, "processor", lambda: "")
    monkeypatch.setattr(device.platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(device.os, "sysconf", Mock(side_effect=ValueError()))
    assert get_device_info() == {**info, "device_name": "aarch64", "device_memory": None}


def driver(loaded=0, told=0):
    """The three calls of the NVIDIA management library that are used."""

    def tell(text, size):
        text.value = b"550.54.15"[: size - 1]
        return told

    return Mock(nvmlInit_v2=lambda: loaded, nvmlSystemGetDriverVersion=tell)


@pytest.mark.parametrize(
    ("library", "version"),
    [
        (lambda name: driver(), "550.54.15"),
        (lambda name: driver(loaded=9), None),
        (lambda name: driver(told=3), None),
        (Mock(side_effect=OSError()), None),
    ],
)
def test_info_with_a_gpu(two_gpus, monkeypatch, library, version):
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
        "driver": version,
    }
    set_device("cpu")
    get_device_info()
    assert asked == ["cuda:1", "cuda"]


def test_the_readme_runs_where_torch_sees_a_gpu_that_has_no_kernels(accelerators, recwarn, monkeypatch, tmp_path):
    """On the CPU, and in silence: nobody asked for the GPU."""
    monkeypatch.chdir(tmp_path)  # a sample saves a brain
    accelerators(cuda=1, kernels=())
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    tensors = [value for value in names.values() if isinstance(value, torch.Tensor)]
    assert len(tensors) >= 4 and all(tensor.device.type == "cpu" for tensor in tensors)
    assert names["brain"].device.type == "cpu"
    assert not [warning for warning in recwarn.list if "torch_hrr" in str(warning.message)]
