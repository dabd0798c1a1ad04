"""Operators use torch's threads, may be called from several at once, and keep no memory."""

import concurrent.futures
import gc
import os
import pathlib
import subprocess
import sys
import threading

import pytest
import torch
from cases import ALL_CASES
from cases.base import as_tuple, build, split

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
cases = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)
ROOT = pathlib.Path(__file__).parents[1]

# The inputs come from Python's memory: no operator of torch has started a worker before ours runs.
COUNT_WORKERS = """
import array, os, sys, torch, torch_hrr
torch.set_num_threads(int(sys.argv[1]))
rows = torch.frombuffer(array.array("f", [0.5]) * (512 * 512), dtype=torch.float32).view(512, 512)
tasks = len(os.listdir("/proc/self/task"))
torch.ops.torch_hrr.bind.default(rows, rows)
print(len(os.listdir("/proc/self/task")) - tasks)
"""


def run_python(script, *arguments, **environment):
    """The output of a fresh interpreter that imports what this one does."""
    path = os.pathsep.join([str(ROOT / "tests"), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@linux
@pytest.mark.parametrize("threads", (1, 3))
def test_rows_are_shared_among_torchs_threads(threads):
    """A first call starts the workers that torch.set_num_threads asks for, and none for one thread."""
    started = int(run_python(COUNT_WORKERS, threads))
    assert started == 0 if threads == 1 else started >= threads - 1


# Eight threads meet at a barrier before each first use of a dimension, so that its tables are made in a race.
FIRST_USE = """
import threading, torch, torch_hrr
from torch_hrr import hrr
dims = [3, 16, 17, 32, 64, 100, 128, 1000, 1024, 2048, 4097, 8192]
inputs = {d: torch.randn(2, d, generator=torch.Generator().manual_seed(d)) for d in dims}
barrier, results = threading.Barrier(8), [{} for _ in range(8)]
def work(found):
    torch.set_num_threads(1)
    for d in dims:
        barrier.wait()
        found[d] = hrr.bind(inputs[d], inputs[d].flip(0)), hrr.unbind(inputs[d], inputs[d].flip(0))
threads = [threading.Thread(target=work, args=(found,)) for found in results]
[t.start() for t in threads]
[t.join() for t in threads]
print(all(torch.equal(x, y) for found in results for d in dims for x, y in zip(found[d], results[0][d])))
"""


def test_first_uses_in_a_race_agree():
    assert run_python(FIRST_USE).strip() == "True"


@cases
def test_concurrent_calls_agree(case):
    """Threads that call at once, on different arguments and dimensions, get the bits that one alone gets."""
    calls = [build(case.sized(3, 3, dim), seed=seed) for seed, dim in enumerate((8, 32, 64, 100, 128, 200, 512, 1000))]
    expected = [case.run(arguments) for arguments in calls]
    start = threading.Barrier(len(calls))

    def work(position):
        start.wait()
        rotated = [*range(position, len(calls)), *range(position)] * 3
        return all(
            torch.equal(result, exact)
            for i in rotated
            for result, exact in zip(case.run(calls[i]), expected[i], strict=True)
        )

    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        assert all(pool.map(work, range(len(calls))))


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.takes("gradient")], ids=lambda case: case.id)
def test_concurrent_backwards_agree(case):
    """One graph, retained, differentiated from several threads."""
    tensors, join = split(build(case.sized(3, 3, 64)), case.differentiable)
    leaves = [tensor.requires_grad_() for tensor in tensors]
    loss = sum(result.sum() for result in as_tuple(case.op(**join(*leaves))))
    expected = torch.autograd.grad(loss, leaves, retain_graph=True)

    def work(_):
        grads = torch.autograd.grad(loss, leaves, retain_graph=True)
        return all(torch.equal(grad, exact) for grad, exact in zip(grads, expected, strict=True))

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(40)))


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """What a long run holds is left out of the collections: going through it took most of these tests' time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@linux
@cases
def test_thousands_of_calls_keep_no_memory(case):
    """Results of 16 kB each: a leak of one in ten would show."""
    arguments = build(case.sized(8, 2, 512))
    bad = arguments | {case.arguments[0].name: torch.zeros(1, dtype=torch.bool)}

    def work(count):
        for _ in range(count):
            case.run(arguments)
        for _ in range(count // 10):
            with pytest.raises((TypeError, RuntimeError)):
                case.run(bad)

    work(300)
    before = resident()
    work(1_500)
    assert resident() - before < 3 * 2**19


@linux
@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.takes("gradient")], ids=lambda case: case.id)
def test_thousands_of_backwards_keep_no_memory(case):
    tensors, join = split(build(case.sized(8, 2, 512)), case.differentiable)
    leaves = [tensor.requires_grad_() for tensor in tensors]

    def work(count):
        for _ in range(count):
            loss = sum(result.sum() for result in as_tuple(case.op(**join(*leaves))))
            torch.autograd.grad(loss, leaves)

    work(100)
    before = resident()
    work(400)
    assert resident() - before < 3 * 2**19
