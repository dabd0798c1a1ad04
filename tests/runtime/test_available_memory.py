"""What memory a device has to give: the system's word, within what a container may use."""

import os
import sys

import pytest
import torch

from torch_hrr import runtime
from torch_hrr.runtime import memory


def test_there_is_some_and_not_more_than_all():
    assert 0 < runtime.available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_a_container_bounds_it(tmp_path, monkeypatch):
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert runtime.available_memory() == 5000 * 1024
    (tmp_path / "memory.current").write_text("3000000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 200000\nactive_file 100000\n")
    for limit, expected in (("max", 5000 * 1024), ("4000000", 1_300_000), ("1000000", 0), ("900000000", 5000 * 1024)):
        (tmp_path / "memory.max").write_text(limit + "\n")
        assert runtime.available_memory("cpu") == expected


def test_a_system_that_does_not_tell(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(RuntimeError, match="psutil must be installed"):
        runtime.available_memory()
    with pytest.raises(RuntimeError, match="device must be cpu or cuda, got meta"):
        runtime.available_memory("meta")


def test_a_gpu_that_does_not_work_is_named(two_gpus, monkeypatch):
    def fail(device):
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch.cuda, "mem_get_info", fail)
    text = r"^available_memory: device must be .*, got cuda, and it does not report its memory \(Torch not compiled "
    with pytest.raises(RuntimeError, match=text):
        runtime.available_memory("cuda")


def test_auto_is_a_device(monkeypatch):
    monkeypatch.setattr(memory, "resolve_device", lambda device, op: torch.device("cpu"))
    assert runtime.available_memory("auto") > 0
