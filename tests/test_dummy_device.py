"""A device that torch knows nothing of and the library has no kernels for: every operator, and the systems, run there.

The device is tests/dummy_device/dummy_device.cpp. It runs in processes of its own, which print what they found.
"""

import functools
import json
import pathlib
import subprocess
import sys

import pytest
from cases import ALL_CASES

PROGRAMS = pathlib.Path(__file__).parent / "dummy_device"


def run(program):
    finished = subprocess.run([sys.executable, PROGRAMS / program], capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stderr[-2000:]
    return finished.stdout


@functools.cache
def found():
    """Of every case: what differed from the CPU, and the number of gradients compared."""
    return {case: (fault, compared) for case, fault, compared in map(json.loads, run("operators.py").splitlines())}


@pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
def test_every_operator_and_its_gradient_are_the_cpus(case):
    fault, compared = found()[case.id]
    assert fault is None
    assert (compared > 0) == bool(case.differentiable and not case.is_out)


def test_the_systems_run_there():
    assert run("systems.py").splitlines()[-1] == "every system ran"


def test_the_runtime_goes_on_there_where_memory_is_short_and_where_it_fails():
    assert run("runtime.py").splitlines()[-1] == "the runtime ran"
