"""The operator of rounds, natively and in plain torch: the same state to the last bit, and what it could not run on is
refused before any change."""

import copy

import pytest
import torch
from test_brain_oracle import AREAS, PROGRAMS, declare
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.assembly import Brain

ops = torch.ops.torch_hrr
KEY = torch._C.DispatchKey.PrivateUse1
# Where a number stands in the layout: brains, rounds, areas, fibers, stimuli, then n, k, fixed, bias step, period.
BRAINS, ROUNDS, N_AREAS, FIBERS, STIMULI, N, K, _, _, PERIOD, _, _, SOURCE = range(13)
# And a tensor in the state: the brains' numbers, those of an area, of a fiber, of a stimulus, and the progress.
NUMBERS, WINNERS, COUNT, SLOT_OF, NEURON_OF, WON, SLOTS = range(7)
DELIVERED, N_DELIVERED, HEAD, LENGTH, KNOWN, NEXT, TARGET, WEIGHT, CHUNKS, SCALE = range(11, 21)
GROWN, PROGRESS = -2, -1


def plainly(*args):
    return ops.project_.default._op_dk(KEY, *args)


class Both(TorchDispatchMode):
    """Runs both kernels of the operators that write in place, and compares all that they have written."""

    calls = 0
    recorded = None

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function not in (ops.project_.default, ops._stimulus_counts_.default):
            return function(*args, **(kwargs or {}))
        if function is ops.project_.default:
            self.recorded = copy.deepcopy(args)
        written = args[0]
        native = copy.deepcopy(written)
        function(native, *args[1:])
        function._op_dk(KEY, *args)
        for place, (own, expected) in enumerate(zip(written, native, strict=True)):
            assert torch.equal(own, expected), f"tensor {place} of call {self.calls}"
        self.calls += 1
        return None


# Whose rounds are of the kinds of other programs.
LIKE_OTHERS = {
    "two stimuli", "recurrence at once", "the stimulus changes", "forward", "both ways", "beta 0", "normalised once",
    "long", "a graph of one's own alone", "ties by key and columns",
}  # fmt: skip
IN_BATCHES = ("merge", "ties by key", "refracted and normalised", "inhibited areas and fibers")


@pytest.mark.parametrize(
    ("program", "batch"),
    [*((each, None) for each in PROGRAMS if each not in LIKE_OTHERS), *((each, 2) for each in IN_BATCHES)],
)
def test_the_state_is_the_same(program, batch):
    areas, steps = PROGRAMS[program]
    # In plain torch rounds are slow, and the later ones of the long programs like those before.
    steps = steps[:20]
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


def recorded(n):
    """The tensors, layout, rates and seed of two rounds of an area with winners."""
    brain = Brain(p=0.3, seed=1)
    brain.add_stimulus("s", 20)
    brain.add_area("A", n, 8)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    with Both() as both:
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    tensors, layout, rates, seed = both.recorded
    return list(tensors), list(layout), list(rates), seed


@pytest.fixture
def call():
    return recorded(60)


def refused(error, match, tensors, layout, rates, seed, *, plain=False):
    before = [tensor.clone() for tensor in tensors]
    for project in (ops.project_, plainly) if plain else (ops.project_,):
        with pytest.raises(error, match=match):
            project(tensors, layout, rates, seed)
        assert all(map(torch.equal, tensors, before))


def test_a_recorded_call_runs(call):
    tensors = call[0]
    ops.project_(*call)
    assert tensors[PROGRESS][0, 0] == 0 and tensors[SLOTS][0, 1] > 8


LAYOUTS = [
    (BRAINS, 0, "at least one brain"), (BRAINS, 2, "winners must be"), (ROUNDS, -1, "rounds must be"),
    (ROUNDS, 2**31, "rounds must be"), (ROUNDS, 1, r"rounds left must be in 0\.\.1, got 2"),
    (N_AREAS, -1, "counts of at least 0"), (FIBERS, -1, "counts of at least 0"), (STIMULI, -1, "counts of at least 0"),
    (FIBERS, 0, "must"), (STIMULI, 2, "must"), (N, 61, "slot_of must be"), (K, 0, "1 <= k <= n"),
    (K, 61, "1 <= k <= n"), (PERIOD, -1, "a period must be"), (PERIOD, 3, "penalties must be"),
    *((SOURCE, value, "layout must name one of the 1 areas") for value in (1, -1, 2**32)),
]  # fmt: skip


def test_layouts_and_rates(call):
    tensors, layout, rates, seed = call
    for place, value, match in LAYOUTS:
        refused(RuntimeError, match, tensors, [*layout[:place], value, *layout[place + 1 :]], rates, seed)
    for place, value, match in (
        (0, -0.1, r"p must be in \[0, 1\]"),
        (0, 1.1, r"p must be in \[0, 1\]"),
        (1, -1, "beta must be at least 0"),
        (2, 0, "w_max must be greater"),
    ):
        for wrong in (value, float("nan")):
            refused(ValueError, match, tensors, layout, [*rates[:place], wrong, *rates[place + 1 :]], seed)


def test_numbers_that_are_missing_or_too_many(call):
    tensors, layout, rates, seed = call
    refused(RuntimeError, "layout must describe the state", tensors, layout[:-1], rates, seed)
    refused(RuntimeError, "rates must belong to the layout", tensors, layout, rates[:-1], seed)
    refused(RuntimeError, "and no more", tensors, [*layout, 0], rates, seed)
    refused(RuntimeError, "and no more", tensors, layout, [*rates, 0.0], seed)
    refused(RuntimeError, "state must hold the tensors of its layout", tensors[:-1], layout, rates, seed)
    refused(RuntimeError, "and no more", [*tensors, tensors[0]], layout, rates, seed)


@pytest.mark.parametrize(
    ("place", "values", "error", "match"),
    [
        (SLOTS, [-1], RuntimeError, r"slots must be in 0\.\."),
        (SLOTS, [61], RuntimeError, r"slots must be in 0\.\."),
        (SLOTS, [2**63 - 1], RuntimeError, r"slots must be in 0\.\."),
        (PROGRESS, [3], RuntimeError, r"rounds left must be in 0\.\.2, got 3"),
        (COUNT, [-1], RuntimeError, "0 to k winners"),
        (COUNT, [9], RuntimeError, "0 to k winners"),
        (WINNERS, [-1, *range(1, 8)], IndexError, "winners must ascend|got -1"),
        (WINNERS, [*range(7), 60], IndexError, "winners must ascend|got 60"),
        (WINNERS, [1, 1, *range(2, 8)], IndexError, "winners must ascend|got 1"),
    ],
)
def test_values_outside(call, place, values, error, match):
    call[0][place].view(-1)[: len(values)] = torch.tensor(values)
    refused(error, match, *call, plain=True)


@pytest.mark.parametrize(
    ("place", "values", "match"),
    [
        (NEURON_OF, [60], "neuron_of must be in 0..59, got 60"),
        (SLOTS, [8, 9], "neurons that won must be in 0..8, got 9"),
        (DELIVERED, [59], "delivered winners must ascend"),
        (CHUNKS, [-1], "chunks must be in"),
        (CHUNKS, [2**40], "chunks must be in"),
        *((SLOT_OF, [value] * 60, "slot_of must name slots in use") for value in (59, 2**31 - 1)),
        *((HEAD, [value] * 8, "rows of edges must name") for value in (-1, 2**31 - 1)),
        *((LENGTH, [value] * 8, "rows of edges must name") for value in (-1, 0, 2**31 - 1)),
        *((KNOWN, [value] * 8, "rows of edges must name") for value in (-1, 60)),
        *((NEXT, [value] * 8, "rows of edges must name") for value in (0, 2**31 - 1)),
        *((TARGET, [value] * 128, "rows of edges must name") for value in (-1, 59)),
        *((WEIGHT, [value] * 128, "rows of edges must name") for value in (-1.0, float("nan"), 2.0**25)),
    ],
)
def test_indices_that_name_nothing(call, place, values, match):
    tensors, *rest = call
    flat = tensors[place].view(-1)
    assert len(flat) >= len(values)
    flat[: len(values)] = torch.tensor(values, dtype=flat.dtype)
    before = [tensor.numpy().tobytes() for tensor in tensors]
    with pytest.raises(IndexError, match=match):
        ops.project_(tensors, *rest)
    # The call ends before a round.
    assert [tensor.numpy().tobytes() for tensor in tensors] == before


def test_slots_of_other_neurons(call):
    # Nothing is learned yet, so that the round looks for edges into all slots.
    tensors, *rest = call
    for place, value in ((HEAD, -1), (LENGTH, 0), (KNOWN, 0), (CHUNKS, 0)):
        tensors[place].fill_(value)
    used = int(tensors[SLOTS][0, 0])
    tensors[NEURON_OF][0, :used] = tensors[NEURON_OF][0, :used].flip(0)
    with pytest.raises(IndexError, match="neuron_of must name the neurons of slots"):
        ops.project_(tensors, *rest)


def test_more_neurons_than_slots():
    # As many slots as neurons, of which none has one.
    tensors, *rest = recorded(20)
    tensors[SLOTS][0, 0] = 20
    tensors[NEURON_OF].copy_(torch.arange(20))
    tensors[SLOT_OF].fill_(-1)
    with pytest.raises(IndexError, match="slot_of must name slots in use, each neuron another"):
        ops.project_(tensors, *rest)


def test_rows_of_a_length_below_zero(call):
    tensors, *rest = call
    for place, value in ((HEAD, -1), (LENGTH, -1), (KNOWN, 0), (CHUNKS, 0)):
        tensors[place].fill_(value)
    with pytest.raises(IndexError, match="rows of edges must name"):
        ops.project_(tensors, *rest)


def test_two_neurons_of_a_slot_and_two_slots_of_a_neuron(call):
    tensors, *rest = call
    winners, used = tensors[WINNERS][0], torch.arange(int(tensors[SLOTS][0, 0]))
    others = used[~torch.isin(used, tensors[SLOT_OF][0, winners])]
    assert len(others) > 0
    # No round looks for their edges again.
    tensors[KNOWN].fill_(len(used))
    shared, doubled = ([tensor.clone() for tensor in tensors] for _ in range(2))
    shared[SLOT_OF][0, winners] = 0
    doubled[NEURON_OF][0, others] = winners[0].int()
    # So that this neuron wins by each of its slots.
    doubled[GROWN][0, others] = 1e6
    for wrong in (shared, doubled):
        with pytest.raises(IndexError, match="neuron_of must name the neurons of slots"):
            ops.project_(wrong, *rest)


def test_a_stimulus_of_as_many_synapses_as_there_can_be():
    brain = Brain(p=1.0, seed=1)
    brain.add_stimulus("s", 2**31 - 2)
    brain.add_area("A", 50, 5)
    for _ in range(2):
        brain.project({"s": ["A"]})
    assert brain.winners("A").tolist() == list(range(5))


def test_tensors_that_share_memory(call):
    tensors, *rest = call
    for one, other in ((HEAD, LENGTH), (HEAD, KNOWN)):
        shared = [*tensors]
        shared[one] = tensors[other]
        refused(RuntimeError, "must not share memory", shared, *rest)


def test_meta_checks_the_state(call):
    tensors, layout, rates, seed = call
    meta = [tensor.to("meta") for tensor in tensors]
    ops.project_(meta, layout, rates, seed)
    layout[K] = 0
    with pytest.raises(RuntimeError, match="1 <= k <= n"):
        ops.project_(meta, layout, rates, seed)


def test_tensors_of_another_kind(call):
    tensors, *rest = call
    for place in (WINNERS, COUNT, SLOT_OF, NEURON_OF, WON, SLOTS, DELIVERED, NEXT, PROGRESS):
        right = tensors[place]
        spaced = torch.stack([right, right], -1)[..., 0]
        for wrong in (right.double(), torch.cat([right, right]), spaced, right.to("meta")):
            # One element is contiguous whatever its strides.
            if not wrong.is_contiguous() or wrong is not spaced:
                with pytest.raises((RuntimeError, NotImplementedError)):
                    ops.project_([*tensors[:place], wrong, *(tensors[place + 1 :] if place >= 0 else [])], *rest)
    for place in (NEURON_OF, WON):
        tensors[place] = tensors[place][:, :20].clone()
    with pytest.raises(RuntimeError, match=r"memory for|must be a contiguous tensor"):
        ops.project_(tensors, *rest)
