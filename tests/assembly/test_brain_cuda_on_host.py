"""Rounds as a GPU runs them, by its kernels on the host: after every call the CPU's state, bit for bit.

The kernels alone are tested in C++ (tests/cuda_on_host); here whole programs of brains run through them.
"""

import os
from pathlib import Path

import pytest
import torch
from brain_programs import PROGRAMS, assert_same, state_of, trace

from torch_hrr.assembly import Brain, _engines

BUILD = os.environ.get("TORCH_HRR_BUILD_DIR", "")
FOLDER = Path(BUILD, "tests/cuda_on_host")
# Where the other tests of kernels on the host were built, the library must be there.
pytestmark = pytest.mark.skipif(not BUILD or not FOLDER.is_dir(), reason="make test-cpp builds the kernels on the host")


class BothEngines:
    """The operators of the library; rounds run on copies by the kernels on the host, the short way of small areas and
    the long one, and by the CPU's engine."""

    def __init__(self):
        torch.ops.load_library(str(FOLDER / "libtorch_hrr_on_host.so"))
        self.calls = self.unfinished = 0

    def __getattr__(self, name):
        return getattr(torch.ops.torch_hrr, name)

    def project_(self, tensors, layout, rates, seed):
        ways = {small: [tensor.clone() for tensor in tensors] for small in (True, False)}
        for small, copies in ways.items():
            torch.ops.torch_hrr_on_host.project_(copies, layout, rates, seed, small)
        torch.ops.torch_hrr.project_(tensors, layout, rates, seed)
        self.calls += 1
        self.arguments = tensors, layout, rates, seed
        self.unfinished += bool(tensors[-1][:, 0].any())
        for small, copies in ways.items():
            for place, (tensor, copy) in enumerate(zip(tensors, copies, strict=True)):
                assert torch.equal(tensor, copy), f"tensor {place} of layout {layout}, small {small}"

    def again(self, rounds):
        """The last call once more, as a graph that captured it would: the rounds left are set anew, nothing else."""
        progress = self.arguments[0][-1]
        progress.zero_()
        progress[:, 0] = rounds
        self.project_(*self.arguments)


@pytest.fixture
def engines(monkeypatch):
    both = BothEngines()
    monkeypatch.setattr(_engines, "_ops", both)
    return both


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, engines):
    trace(name)
    assert engines.calls


@pytest.mark.parametrize("name", ["everything", "graphs of one's own"])
def test_programs_of_a_batch(name, engines):
    trace(name, batch=3)
    assert engines.calls


def without_spare_chunks(brain):
    """The brain; its fibers have memory for the edges they have, so that every round with new ones needs more."""
    for fiber in brain._network.fibers.values():
        used = int(fiber.chunks.max())
        for name in ("next", "target", "weight"):
            fiber.hold(name, getattr(fiber, name)[:, :used].clone())
    return brain


def test_a_call_that_is_replayed_runs_the_next_rounds(engines):
    call = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A", "B"], "B": ["A"]}}
    brain, expected = (Brain(p=0.05, seed=2, batch=2) for _ in range(2))
    for each in (brain, expected):
        each.add_stimulus("s", 40)
        each.add_area("A", 300, 20, 0.1, refracted=True)
        each.add_area("B", 300, 20, 0.1)
        each.project({"s": ["A", "B"]})
        # Memory for every neuron.
        each.project(**call, rounds=15)
    expected.project(**call, rounds=8)
    brain.project(**call, rounds=2)
    engines.unfinished = 0
    for _ in range(3):
        engines.again(2)
    assert not engines.unfinished
    assert_same(state_of(brain), state_of(expected))


@pytest.mark.parametrize("batch", [None, 2])
def test_rounds_whose_edges_do_not_fit(batch, engines):
    trace("everything", batch=batch, between=without_spare_chunks)
    assert engines.unfinished


@pytest.mark.parametrize("p", [0.0, 1.0, 0.002])
def test_densities(p, engines):
    brain = Brain(p=p, seed=1)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 3000 if p < 0.5 else 90, 40, beta=0.5)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=5)
    assert engines.calls


def test_weights_at_their_largest(engines):
    brain = Brain(p=0.5, seed=1)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 100, 20, beta=1e6)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=6)
    assert brain.potentiated("A", "A")[2].max() == 2**24
