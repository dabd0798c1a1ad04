"""Cycles that are replayed from CUDA graphs: the bits of cycles that are not, whatever moves or is replaced between.

A graph is pretended: operators of a captured step are recorded, undone, and called again with the same tensors. On a
GPU tests/gpu/test_cuda_field.py does the same with real ones.
"""

import math
import pickle

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_hrr import field
from torch_hrr.runtime import graph

SETTINGS = {"sensory_dim": 4, "motor_dim": 2, "spatial": (4, 5, 6), "channels": 9, "device": "cpu", "seed": 0}


class PretendGraph(TorchDispatchMode):
    """Records what is called within the block, which leaves no trace until it is replayed, and waits for nothing."""

    def __init__(self, pool):
        super().__init__()
        self.pool = pool
        self.calls = []
        self.before = {}
        self.made = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("operation not permitted when stream is capturing")
        for tensor in tensors_of((args, kwargs)):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in self.made:
                self.before.setdefault(memory.data_ptr(), (memory, memory.clone()))
        result = function(*args, **kwargs)
        for tensor in tensors_of(result):
            if tensor.untyped_storage().data_ptr() not in self.before:
                self.made[tensor.untyped_storage().data_ptr()] = tensor
        self.calls.append((function, args, kwargs, result))
        return result

    def __exit__(self, *failure):
        super().__exit__(*failure)
        for memory, content in self.before.values():
            memory.copy_(content)
        self.pool.extend(self.made.values())

    def replay(self):
        # Graphs of one pool write over what others made.
        for tensor in self.pool:
            tensor.untyped_storage().fill_(0x7F)
        for function, args, kwargs, result in self.calls:
            again = function(*args, **kwargs)
            for old, new in zip(tensors_of(result), tensors_of(again), strict=True):
                if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                    old.copy_(new)


def tensors_of(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


@pytest.fixture
def captured(monkeypatch):
    """The graphs that were captured on the CPU, where none are otherwise."""
    made = []

    def capture(function, device, pool):
        made.append(PretendGraph(pool))
        with made[-1]:
            result = function()
        return made[-1], result

    monkeypatch.setattr("torch_hrr.field.brain.can_capture", lambda device: True)
    monkeypatch.setattr(graph, "_pool", list)
    monkeypatch.setattr(graph, "_capture", capture)
    return made


class PlainBrain(field.FieldBrain):
    """Never replays."""

    def _repeated_step(self, sensory, reward):
        return self.step(sensory, reward)


def brains(**settings):
    settings = SETTINGS | {"noise": 0.05, "threshold": 0.0, "patterns": 3} | settings
    return field.FieldBrain(**settings), PlainBrain(**settings)


def run(brain, cycles):
    results = []
    for _ in range(cycles):
        i = brain.cycle
        torch.manual_seed(i)  # of an eager brain's noise
        motor, state = brain.process_robot_cycle([math.sin(i + j) for j in range(4)], i % 3 - 1)
        del state["cycle_time_ms"]
        results.append((motor, state))
    return results


def state_of(brain):
    return {name: tensor.clone() for name, tensor in brain.named_buffers()} | {"field": brain.field.clone()}


def assert_same(brain, expected):
    ours, theirs = state_of(brain), state_of(expected)
    assert ours.keys() == theirs.keys() and brain.cycle == expected.cycle and brain._turn == expected._turn
    for name in ours:
        assert torch.equal(ours[name], theirs[name]), name


@pytest.mark.parametrize("settings", ({}, {"dtype": torch.bfloat16, "modulate": True}, {"noise": 0.0}))
def test_replayed_cycles_are_bitwise_the_others(captured, settings):
    brain, expected = brains(**settings)
    for cycle in range(12):
        assert run(brain, 1) == run(expected, 1)
        assert_same(brain, expected)
        assert len(captured) == min(max(cycle - 1, 0), 2)
    assert len(brain.library) == 3


def test_a_captured_cycle_runs_once(captured, monkeypatch):
    replays = []
    own = PretendGraph.replay
    monkeypatch.setattr(PretendGraph, "replay", lambda self: (replays.append(captured.index(self)), own(self)))
    brain, _ = brains()
    run(brain, 7)
    assert replays == [0, 1, 0, 1, 0]
    assert torch.equal(brain.key, field.advance_key(field.random_key(0), brain.field.numel(), 7))


def replace_library(brain):
    brain.library = field.PatternLibrary(3, 4, 2, device="cpu")
    brain.library.store(torch.ones(4), torch.tensor([0.5, -0.5]))


def assigned(name, change):
    return lambda brain: setattr(brain, name, change(getattr(brain, name)))


def loaded(assign):
    def act(brain):
        state = brain.state_dict().items()
        state = {name: tensor * 2 if tensor.is_floating_point() else tensor.clone() for name, tensor in state}
        brain.load_state_dict(state, assign=assign)

    return act


def same_pool(pool):
    return field.TensorPool({name: (tensor.shape, tensor.dtype) for name, tensor in pool.items()})


# What happens twice between cycles, which may make another brain, and how many graphs are captured in all.
EVENTS = {
    "reset": (lambda brain: brain.reset(), 2),
    "step": (lambda brain: brain.step(torch.ones(4)), 2),
    "changed in place": (lambda brain: brain.sensory_weights.copy_(brain.sensory_weights.flip(0)), 2),
    "state dict loaded": (loaded(False), None),
    "state dict assigned": (loaded(True), 6),
    "state dict read": (lambda brain: brain.state_dict(), None),
    "copy": (lambda brain: brain.copy(), 6),
    "pickle": (lambda brain: pickle.loads(pickle.dumps(brain)), 6),
    "moved": (lambda brain: brain.to("cpu"), 6),
    "weights": (assigned("motor_weights", lambda weights: weights.flip(0)), 6),
    "parameter": (assigned("motor_weights", lambda weights: torch.nn.Parameter(-weights, requires_grad=False)), 6),
    "library": (replace_library, 6),
    "pool": (assigned("pool", same_pool), 6),
    "setting": (assigned("gain", lambda gain: 3 * gain), 6),
    "mode": (lambda brain: brain.train(not brain.training), 6),
    "noise": (assigned("noise", lambda noise: 2 * noise), 6),
    "eager": (assigned("eager", lambda eager: not eager), 2),
}


def after(act, brain):
    made = act(brain)
    return made if isinstance(made, field.FieldBrain) else brain


@pytest.mark.parametrize("cycles", (5, 6))
@pytest.mark.parametrize("event", EVENTS)
def test_graphs_follow_what_happens_between_cycles(captured, event, cycles):
    act, graphs = EVENTS[event]
    brain, expected = brains()
    for more in (cycles, 5, 5):
        assert run(brain, more) == run(expected, more)
        assert_same(brain, expected)
        brain, expected = after(act, brain), after(act, expected)
    # A state dict puts the field back into the first memory, which changes nothing where it is there.
    assert len(captured) == (graphs or 4 + cycles % 2 * 2)


def test_changes_in_every_cycle_keep_two_graphs(captured):
    brain, expected = brains()
    for i in range(12):
        brain.gain = expected.gain = 1 + i // 5
        assert run(brain, 1) == run(expected, 1)
        assert len(brain._graphs._calls) <= 2
    assert_same(brain, expected)


def test_copies_do_not_disturb_each_other(captured):
    brain, expected = brains()
    run(brain, 5), run(expected, 5)
    pairs = [(brain, expected), (brain.copy(), expected.copy())]
    for i in range(10):
        for each, plain in pairs[: 1 + i % 2]:
            assert run(each, 1) == run(plain, 1)
    for each, plain in pairs:
        assert_same(each, plain)
    assert len(captured) == 4


def test_what_cannot_be_captured_raises_and_changes_nothing(captured):
    class Waiting(field.FieldBrain):
        def step(self, sensory, reward=0.0):
            packed = super().step(sensory, reward)
            float(packed[0])
            return packed

    brain = Waiting(**SETTINGS)
    run(brain, 2)
    before, turn = state_of(brain), brain._turn
    for _ in range(2):
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            run(brain, 1)
        assert brain._turn == turn and brain.cycle == 2
        assert all(torch.equal(tensor, before[name]) for name, tensor in state_of(brain).items())


def test_nothing_is_captured_on_a_cpu_or_under_autocast():
    assert not graph.can_capture(torch.device("cpu"))
    assert graph.can_capture(torch.device("cuda", 1))
    torch.set_autocast_enabled("cuda", True)
    try:
        assert not graph.can_capture(torch.device("cuda", 1))
    finally:
        torch.set_autocast_enabled("cuda", False)
