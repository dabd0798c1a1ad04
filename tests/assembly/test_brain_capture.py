"""Calls of `project` that a CUDA graph captures: they read nothing back, make no tables, and replay as the next rounds.

A graph is pretended: the operators of a captured call are recorded, and called again with the same tensors. On a GPU
tests/gpu/test_cuda_brain.py does the same with a real one.
"""

import copy

import pytest
import torch
from brain_programs import assert_same, state_of
from pretend_device import PretendCuda
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_hrr.assembly import Brain, Monitor, _state

CALL = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A", "B"], "B": ["A"]}}


class PretendGraph(TorchDispatchMode):
    """What is called within the block is captured. It also runs, unlike on a GPU."""

    def __init__(self, monkeypatch):
        super().__init__()
        self._context = monkeypatch.context()
        self.calls = []

    def __enter__(self):
        self._context.__enter__().setattr(_state, "is_capturing", lambda device: True)
        return super().__enter__()

    def __exit__(self, *failure):
        super().__exit__(*failure)
        self._context.__exit__(*failure)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.calls.append((function, args, kwargs or {}, result))
        return result

    def replay(self):
        for function, args, kwargs, result in self.calls:
            again = function(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if old is not new:
                    old.copy_(new)


def brain_of(batch=None, device="cpu", normalize=False, **options):
    brain = Brain(p=0.05, seed=3, batch=batch, device=device, **options)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 400, 20, 0.1, refracted=options.get("mode") != "sampled")
    brain.add_area("B", 400, 20, 0.1, normalize=normalize)
    brain.project({"s": ["A", "B"]})
    return brain


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("batch", [None, 2])
def test_a_captured_call_replays_as_the_next_rounds(batch, normalize, monkeypatch):
    brain, expected = brain_of(batch, normalize=normalize), brain_of(batch, normalize=normalize)
    for each in (brain, expected):
        # Memory for every neuron.
        each.project(**CALL, rounds=20)
    graph = PretendGraph(monkeypatch)
    with graph:
        left = brain.project(**CALL, rounds=2)
    assert left.dtype == torch.int64 and left.shape == (() if batch is None else (batch,))
    for _ in range(3):
        expected.project(**CALL, rounds=2)
        assert not left.any()
        assert_same(state_of(brain), state_of(expected))
        graph.replay()
    # It goes on outside of the graph.
    for each, rounds in ((brain, 1), (expected, 3)):
        each.project(**CALL, rounds=rounds)
    assert_same(state_of(brain), state_of(expected))


@pytest.mark.parametrize("normalize", [False, True])
def test_a_captured_call_waits_for_nothing(normalize, monkeypatch):
    with PretendCuda(monkeypatch) as cuda:
        brain = brain_of(device="cuda", normalize=normalize)
        assert cuda.waited(lambda: brain.project(**CALL, rounds=20))
        with PretendGraph(monkeypatch):
            assert not cuda.waited(lambda: brain.project(**CALL, rounds=2))


def test_a_replay_says_what_it_left_out(monkeypatch):
    brain, expected = brain_of(), brain_of()
    for each in (brain, expected):
        each.project(**CALL, rounds=20)
    for fiber in brain._network.fibers.values():
        # No memory for one edge more.
        used = int(fiber.chunks.max())
        for name in ("next", "target", "weight"):
            fiber.hold(name, getattr(fiber, name)[:, :used].clone())
    graph = PretendGraph(monkeypatch)
    with graph:
        left = brain.project(**CALL, rounds=3)
    assert left == 3
    graph.replay()
    assert left == 3
    assert torch.equal(brain.winners("A"), expected.winners("A"))
    # Outside of the graph there is room.
    for each in (brain, expected):
        each.project(**CALL, rounds=3)
    assert_same(state_of(brain), state_of(expected))


def test_what_cannot_be_captured_is_refused(monkeypatch):
    first, normalized = brain_of(), brain_of(normalize=True)
    watched, sampled = brain_of(), brain_of(mode="sampled")
    others = (watched, sampled)
    for each in (normalized, *others):
        each.project(**CALL)
    # Its sums of columns are made again when they are needed, as after loading.
    normalized.load_state_dict(normalized.state_dict())
    states = [copy.deepcopy(each.state_dict()) for each in (first, normalized, *others)]
    with Monitor(watched, ["A"]), PretendGraph(monkeypatch):
        with pytest.raises(RuntimeError, match="tables of a brain must exist"):
            first.project(**CALL)
        with pytest.raises(RuntimeError, match="columns must be normalised before a CUDA graph is captured"):
            normalized.project(**CALL)
        for each in others:
            with pytest.raises(RuntimeError, match="with a hook or monitor, or in mode 'sampled', cannot be captured"):
                each.project(**CALL)
    for each, state in zip((first, normalized, *others), states, strict=True):
        assert_same(dict(each.state_dict()), dict(state))
