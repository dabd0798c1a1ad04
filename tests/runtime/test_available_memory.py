"""What memory a device has to give: the system's word, within what a container may use."""

import pytest
import torch

from torch_hrr import runtime
from torch_hrr.runtime import memory


def test_a_large_tensor_is_missing_afterwards():
    before = runtime.available_memory()
    taken = torch.ones(2**28, dtype=torch.uint8)
    assert before - runtime.available_memory() > taken.nbytes // 4
    assert 0 < before


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
    monkeypatch.setitem(__import__("sys").modules, "psutil", None)
    with pytest.raises(RuntimeError, match="psutil must be installed"):
        runtime.available_memory()
    with pytest.raises(RuntimeError, match="device must be cpu or cuda, got meta"):
        runtime.available_memory("meta")
