"""The operator of a part of a brain: natively, in plain torch, and from the operators that a GPU runs instead."""

import copy

import pytest
import torch
from test_project_state import COUNT, KEY, NEURON_OF, PROGRESS, SLOT_OF, SLOTS, WINNERS
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.assembly import Brain, SplitBrain

ops = torch.ops.torch_hrr
# Where a number stands in the layout: brains, rounds, then an area's.
BRAINS, ROUNDS, BIAS, TIES = 0, 1, 8, 10


class Recorded(TorchDispatchMode):
    """Runs both kernels, compares what they write, but for counts of neurons that are not here, and keeps the calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is not ops._project_part_.default:
            return function(*args, **(kwargs or {}))
        self.calls.append(copy.deepcopy(args))
        native = copy.deepcopy(args[:3])
        function(*native, *args[3:])
        function._op_dk(KEY, *args)
        first = max(args[5])
        for own, expected in zip(args[:3], native, strict=True):
            for place, (mine, theirs) in enumerate(zip(own, expected, strict=True)):
                is_counts = mine.dtype == torch.int32 and mine.dim() == 2 and mine.shape[1] == N
                assert torch.equal(*(each[..., first:] if is_counts else each for each in (mine, theirs))), place
        return None


N, K = 700, 30


def half(brain, area):
    """The second half of the neurons, which does not begin at a block of the random graph."""
    return range(area // 2 - 7, area)


def divided(monkeypatch, p=0.1):
    monkeypatch.setattr(SplitBrain, "_range", half)
    brain = SplitBrain(p, 5)
    brain.add_stimulus("s", 40)
    brain.add_area("A", N, K)
    brain.add_area("B", N, N // 2, beta=0.3, w_max=3.0)
    return brain


def steps(brain):
    brain.project("s", "A", 2)
    brain.project({"s": ["A", "B"]}, {"A": ["A", "B"]}, rounds=4)
    brain.disable_plasticity()
    brain.project({}, {"A": ["A", "B"], "B": "B"}, rounds=2)
    brain.enable_plasticity()
    brain.project({"s": "B"}, {"B": ["A", "B"]}, rounds=2)


# One that is kept as bits, as lists, and not kept.
@pytest.mark.parametrize("p", [0.1, 0.02, 0.002])
def test_the_state_is_the_same(monkeypatch, p):
    brain = divided(monkeypatch, p)
    with Recorded() as recorded:
        steps(brain)
    rounds = [call[3][ROUNDS] for call in recorded.calls]
    # Neurons that are not here win nothing.
    assert rounds.count(0) == 10 <= rounds.count(1)
    assert min(brain.winners("A")) >= half(brain, N).start and brain.support("A") > K


def test_other_operators_find_the_same(monkeypatch):
    brain = divided(monkeypatch)
    native, seen = brain._engine.best, []

    def best(plan):
        found = native(plan)
        for target, (neurons, inputs) in found.items():
            if target.endswith("\ud800"):
                # What it reads and writes is the copy's.
                alike = copy.deepcopy(brain)
                whole = type(plan)(
                    None, *([(s, t[:-1]) for s, t in each] for each in (plan.stimuli, plan.areas)), plan.fixed
                )
                others = alike._best_by_operators(whole, target[:-1])
                assert torch.equal(others[0], neurons) and torch.equal(others[1], inputs)
                seen.append(target)
        return found

    brain._engine.best = best
    steps(brain)
    assert len(seen) > 12


def test_a_whole_brain_is_a_part_of_itself():
    split, whole = SplitBrain(0.05, 3), Brain(0.05, 3)
    for brain in (split, whole):
        brain.add_stimulus("s", 40)
        brain.add_area("A", N, K)
        brain.add_area("B", N, N // 2, beta=0.3)
    for brain in (split, whole):
        steps(brain)
    assert all(torch.equal(split.winners(name), whole.winners(name)) for name in "AB")


@pytest.fixture
def calls(monkeypatch):
    """Of a round's two halves."""
    brain = divided(monkeypatch)
    brain.project("s", "A")
    with Recorded() as recorded:
        brain.project({"s": "A"}, {"A": "A"})
    return {call[3][ROUNDS]: list(call) for call in recorded.calls}


def refused(call, error, match):
    before = copy.deepcopy(call)
    with pytest.raises(error, match=f"_project_part_: {match}"):
        ops._project_part_(*call)
    assert all(torch.equal(own, other) for mine, theirs in zip(call[:3], before[:3], strict=True)
               for own, other in zip(mine, theirs, strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (BRAINS, 0, "there must be at least one brain"),
        (ROUNDS, 1, "areas must be fixed in rounds"),
        (BIAS, -1, "a step of a bias must be"),
        (TIES, 1, "an area must have no biases, periods or keyed ties"),
    ],
)
def test_layouts(calls, place, value, match):
    calls[0][3][place] = value
    refused(calls[0], RuntimeError, match)


def test_arguments_of_parts(calls):
    call = calls[0]
    for place in (1, 2, 5):
        refused([*call[:place], call[place][:-1], *call[place + 1 :]], RuntimeError, "winners, inputs and first must")
    k = [len(each) for each in call[1]]
    for wrong in (
        torch.zeros(k[0]),
        torch.zeros(k[0] + 1, dtype=torch.int64),
        torch.zeros(2 * k[0], dtype=torch.int64)[::2],
    ):
        for place in (1, 2):
            refused([*call[:place], [wrong, *call[place][1:]], *call[place + 1 :]], RuntimeError, "winners and inputs")
    sizes = [call[3][5 + 7 * area] for area in range(2)]
    for first in (-1, sizes[0] - k[0] + 1, 2**62):
        refused([*call[:5], [first, *call[5][1:]], call[6]], RuntimeError, r"first must be in 0\.\.")


def test_slots_of_neurons_that_are_not_here(calls):
    for call in calls.values():
        part = max(range(2), key=lambda area: call[5][area])
        neuron_of = call[0][NEURON_OF + part * 9]
        neuron_of[0, 0] = 3
        refused(call, IndexError, "neuron_of must be in")


def test_winners_that_are_not_here(calls):
    for call in calls.values():
        part = max(range(2), key=lambda area: call[5][area])
        call[0][WINNERS + part * 9][0, 0] = 3
        call[0][COUNT + part * 9].fill_(1)
        refused(call, IndexError, r"winners must ascend in 343\.\.n - 1, got 3 of 700")


def test_slots_and_neurons_that_do_not_name_each_other(calls):
    """Then one would win twice; and none would be there in place of another."""
    call = calls[0]
    part = max(range(2), key=lambda area: call[5][area])
    slot_of, neuron_of = (call[0][place + part * 9] for place in (SLOT_OF, NEURON_OF))
    call[0][COUNT + part * 9].zero_()
    found = copy.deepcopy(call)
    ops._project_part_(*found)
    won = slot_of[0, found[1][part]]
    twice = copy.deepcopy(call)
    slotted = won[won >= 0]
    twice[0][NEURON_OF + part * 9][0, slotted[1]] = neuron_of[0, slotted[0]]
    # Nothing has a slot, but a winner says so.
    lacks = copy.deepcopy(call)
    lacks[0][SLOT_OF + part * 9].fill_(-1)
    lacks[0][SLOT_OF + part * 9][0, found[1][part][0]] = 0
    lacks[0][SLOTS + part * 9].zero_()
    for wrong in (twice, lacks):
        with pytest.raises(IndexError, match="_project_part_: neuron_of must name the neurons of slots"):
            ops._project_part_(*wrong)


def test_tensors_that_share_memory(calls):
    for call in calls.values():
        shared = call[0][WINNERS].view(-1)
        for place in (1, 2):
            refused([*call[:place], [shared, call[place][1]], *call[place + 1 :]], RuntimeError, "tensors of a state")
        refused([*call[:2], call[1], *call[3:]], RuntimeError, "tensors of a state must not share memory")


def test_rounds_that_are_left(calls):
    calls[1][0][PROGRESS][0, 0] = 2
    refused(calls[1], RuntimeError, r"rounds left must be in 0\.\.1, got 2")


def test_what_is_not_used_stays(calls):
    """Areas into which nothing fires."""
    call = calls[0]
    for each in (*call[1], *call[2]):
        each.fill_(-7)
    ops._project_part_(*call)
    whole = min(range(2), key=lambda area: call[5][area])
    assert (call[1][whole] == -7).all() and (call[2][1 - whole] >= 0).all()
