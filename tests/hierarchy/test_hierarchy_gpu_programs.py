"""What tests/gpu asks of hierarchies on a GPU, with the CPU in its place."""

import importlib
import inspect
import pathlib
import sys

import pytest
import torch

GPU = pathlib.Path(__file__).parents[1] / "gpu"


@pytest.fixture
def programs(monkeypatch):
    """A module of tests/gpu, which are not imported here otherwise."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(GPU)])
    return importlib.import_module


def test_every_kernel_is_called(programs):
    programs("exercise").hierarchies(True, torch.Generator().manual_seed(0), device="cpu")


def test_tests_of_a_gpu_pass_on_the_cpu(programs, tmp_path):
    module = programs("test_cuda_hierarchy")
    tests = {name: call for name, call in vars(module).items() if name.startswith("test_")}
    assert len(tests) > 3
    for call in tests.values():
        given = {"tmp_path": tmp_path} if "tmp_path" in inspect.signature(call).parameters else {}
        call(**given, device="cpu")
