"""`python -m torch_hrr doctor`: what it finds on machines with one fault each, and the line that mends it."""

import importlib.util
import json
import os
import shutil

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr import doctor, hrr, runtime


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Changes of the machine by name; without any, nothing is wrong with it."""

    def change(name):
        {
            "torch without CUDA": lambda: (gpu(), monkeypatch.setattr(torch.version, "cuda", None)),
            "old driver": lambda: (gpu(), monkeypatch.setattr(torch.version, "cuda", "13.2")),
            "hidden GPU": lambda: (gpu(), monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")),
            "dead GPU": lambda: (seen(), describe(False)),
            "no kernels": lambda: (seen(), describe(True), build(cuda="none")),
            "other machine": lambda: build(isas="scalar,avx512"),
            "wrong ISA": lambda: monkeypatch.setattr(doctor, "build_info", refused),
            "wrong result": lambda: monkeypatch.setattr(hrr, "bind", lambda a, b: a),
            "many threads": lambda: monkeypatch.setattr(torch, "get_num_threads", lambda: 1000),
            "container": lambda: container("150000 100000"),
            "little memory": lambda: monkeypatch.setattr(doctor, "available_memory", lambda device: 2**30),
            "no matplotlib": lambda: monkeypatch.setattr(importlib.util, "find_spec", without),
        }[name]()

    def gpu():
        monkeypatch.setattr(shutil, "which", lambda program: "/usr/bin/nvidia-smi")
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def seen():
        gpu()
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)

    def describe(works):
        info = {"cuda_available": works, "device_name": "Some GPU", "device_memory": "80.00 GB", "driver": "580.1"}
        monkeypatch.setattr(runtime, "get_device_info", lambda: info)

    def build(**changes):
        known = {"version": "1", "isas": "scalar,avx2", "processor": "avx2", "isa": "avx2", "cuda": "13.0"}
        monkeypatch.setattr(doctor, "build_info", lambda: {**known, **changes})

    def refused():
        raise RuntimeError("TORCH_HRR_ISA must be scalar, avx2 or avx512, got 'mmx'")

    def container(quota):
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(8), raising=False)
        doctor._QUOTA.write_text(quota)

    def without(module, found=importlib.util.find_spec):
        return None if module == "matplotlib" else found(module)

    monkeypatch.delenv("TORCH_HRR_ISA", raising=False)
    monkeypatch.setattr(doctor, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(doctor, "available_memory", lambda device: 2**33)
    build()
    return change


FAULTS = {
    "torch without CUDA": ("this torch has no CUDA, but there is a GPU", "pip install --force-reinstall torch"),
    "old driver": ("its driver is too old", "nvidia-smi"),
    "dead GPU": ("the GPU is listed, but does not compute", "nvidia-smi"),
    "no kernels": ("this build has no CUDA kernels", "TORCH_HRR_CUDA=1 pip install"),
    "other machine": ("no CPU kernels for this processor's avx2", "pip install --no-build-isolation"),
    "wrong ISA": ("TORCH_HRR_ISA must be scalar, avx2 or avx512, got 'mmx'", "unset TORCH_HRR_ISA"),
    "wrong result": ("binding is wrong: its largest error is ", "pip install --no-build-isolation"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_with_its_cure(machine, capsys, fault):
    machine(fault)
    assert command_line.main(["doctor"]) == 1
    text, cure = FAULTS[fault]
    printed = capsys.readouterr().out.splitlines()
    (place,) = [number for number, line in enumerate(printed) if line.startswith("wrong")]
    assert text in printed[place] and cure in printed[place + 1] and "mend it with:" in printed[place + 1]
    assert printed[-1].startswith("1 of ")


@pytest.mark.parametrize(
    ("lack", "text"),
    [
        ("little memory", "1.0 GB of memory are free"),
        ("no matplotlib", "matplotlib is not installed"),
        ("hidden GPU", "CUDA_VISIBLE_DEVICES='' hides the GPU"),
        ("many threads", "torch uses 1000 threads on "),
        ("container", "torch uses 3 threads on 2 cores, and threads then wait"),
    ],
)
def test_what_could_be_better_is_no_fault(machine, capsys, lack, text):
    machine(lack)
    assert command_line.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert any(line.startswith("note") and text in line for line in printed.splitlines())
    assert printed.endswith("nothing is wrong\n")


def test_a_container_without_a_quota_has_its_cores(machine, capsys):
    machine("container")
    doctor._QUOTA.write_text("max 100000\n")
    assert command_line.main(["doctor"]) == 0
    assert "ok     torch uses 3 threads on 8 cores" in capsys.readouterr().out


@pytest.mark.parametrize(("fault", "status"), [("wrong result", 1), ("little memory", 0)])
def test_findings_as_json(machine, capsys, fault, status):
    machine(fault)
    assert command_line.main(["doctor", "--json"]) == status
    report = json.loads(capsys.readouterr().out)
    states = [found["state"] for found in report["findings"]]
    assert report["wrong"] == states.count("wrong") == status
    assert "note" in states or status
    assert all(found.keys() == {"state", "text", "cure"} for found in report["findings"])


def test_a_sound_machine_has_no_faults(machine, capsys):
    assert command_line.main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "binding is right" in printed and "wrong " not in printed
