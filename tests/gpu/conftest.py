"""Tests that need a CUDA device; elsewhere they are skipped with the reason."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import torch_hrr
from torch_hrr._library import build_info

# The programs of tests/assembly are run here too.
sys.path.append(str(Path(__file__).resolve().parents[1] / "assembly"))
# After one of these every later call of the process fails.
LASTING = ("illegal memory access", "unspecified launch failure", "device-side assert", "misaligned address")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: a dry run of the smoke tests")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "asynchronous: of streams, graphs, and of what waits for the device")
    config.addinivalue_line("markers", "alone: of the whole device's memory or time, which others would disturb")


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> str:
    """Where tests that also run without a GPU run."""
    # The option is known where pytest was started on this folder.
    return str(request.config.getoption("--device", default="cuda"))


@pytest.fixture(autouse=True)
def free_to_wait() -> Iterator[None]:
    """Whatever a test forbade is allowed again."""
    yield
    if torch.cuda.is_initialized():
        torch.cuda.set_sync_debug_mode("default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device", default="cuda") == "cpu":
        return
    if not torch.cuda.is_available():
        reason = "no CUDA device"
    elif build_info()["cuda"] == "none":
        reason = "torch_hrr was built without CUDA"
    else:
        return
    if "TORCH_HRR_GPU_REQUIRED" in os.environ:
        raise pytest.UsageError(reason)
    for item in items:
        if "gpu" in item.path.parts:
            item.add_marker(pytest.mark.skip(reason=reason))


def tell(**what: Any) -> None:
    """A line for tests/gpu/harness.py, which has it even if this process hangs later."""
    if path := os.environ.get("TORCH_HRR_GPU_TESTS"):
        with open(path, "a") as file:
            file.write(json.dumps(what) + "\n")


def pytest_collection_finish(session: pytest.Session) -> None:
    # Every worker of xdist collects all tests.
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0":
        tell(collected=len(session.items), library=torch_hrr.__file__)


def pytest_runtest_logstart(nodeid: str) -> None:
    # With xdist, both the worker and its controller come here.
    tell(begun=nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    report = yield
    message = str(call.excinfo.value) if call.excinfo else ""
    if report.when == "call" or report.outcome != "passed":
        tell(name=item.nodeid, outcome=report.outcome, seconds=report.duration, message=message[-2000:])
    if "PYTEST_XDIST_WORKER" in os.environ and any(text in message for text in LASTING):
        # Another worker takes the tests that are left; xdist says that this one crashed.
        os._exit(1)
    return report
