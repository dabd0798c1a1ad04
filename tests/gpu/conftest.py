"""Tests that need a CUDA device; elsewhere they are skipped with the reason."""

import sys
from pathlib import Path

import pytest
import torch

from torch_hrr._library import build_info

# The programs of tests/assembly are run here too.
sys.path.append(str(Path(__file__).resolve().parents[1] / "assembly"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        reason = "no CUDA device"
    elif build_info()["cuda"] == "none":
        reason = "torch_hrr was built without CUDA"
    else:
        return
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.skip(reason=reason))
