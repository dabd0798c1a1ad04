"""Rounds and stimuli in plain torch leave the state that the native operators leave, to the last bit."""

import copy

import pytest
import torch
from test_brain_oracle import AREAS, PROGRAMS, declare
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.assembly import Brain

ops = torch.ops.torch_hrr
KEY = torch._C.DispatchKey.PrivateUse1


class Both(TorchDispatchMode):
    """Runs both kernels of the operators that write in place, and compares all that they have written."""

    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function not in (ops._project_.default, ops._stimulus_counts_.default):
            return function(*args, **(kwargs or {}))
        written = args[0]
        native = copy.deepcopy(written)
        function(native, *args[1:])
        function._op_dk(KEY, *args)
        for place, (own, expected) in enumerate(zip(written, native, strict=True)):
            assert torch.equal(own, expected), f"tensor {place} of call {self.calls}"
        self.calls += 1
        return None


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_state_is_the_same(program, batch):
    areas, steps = PROGRAMS[program]
    brain = Brain(p=0.1, seed=-5, mode="exact", batch=batch)
    declare(brain, areas)
    with Both() as both:
        for name, args, kwargs in steps:
            getattr(brain, name)(*args, **kwargs)
    assert both.calls >= sum(name == "project" for name, _, _ in steps)


@pytest.mark.parametrize("p", [0.002, 0.9])
def test_other_densities(p):
    brain = Brain(p=p, seed=2**63 + 1, mode="exact")
    declare(brain, AREAS)
    with Both() as both:
        brain.project({"s": ["A"], "t": ["B"]}, {"A": ["A"], "B": ["B"]}, rounds=6)
    assert both.calls >= 3


def test_what_it_could_not_run_on_is_refused_before_any_change():
    brain = Brain(p=0.1, mode="exact")
    declare(brain, AREAS)
    brain.project({"s": ["A"]}, rounds=2)
    calls = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if function is ops._project_.default:
                calls.append(copy.deepcopy(args))
            return function(*args, **(kwargs or {}))

    with Record():
        brain.project({"s": ["A"]})
    for place, value, error, message in (
        (-1, 2, RuntimeError, "rounds left must be in 0..1, got 2"),
        (1, -1, IndexError, "winners must ascend in 0..n - 1"),
        (2, 21, RuntimeError, "an area must have 0 to k winners, got 21"),
        (6, -1, RuntimeError, "slots must be in 0.."),
    ):
        state, *rest = copy.deepcopy(calls[0])
        state[place].view(-1)[0] = value
        before = copy.deepcopy(state)
        for call in (ops._project_, lambda *args: ops._project_.default._op_dk(KEY, *args)):
            with pytest.raises(error, match=message):
                call(state, *rest)
            assert all(torch.equal(own, kept) for own, kept in zip(state, before, strict=True))
