"""The operator of rounds refuses a state that it could not run on, before any change."""

import pytest
import torch

from torch_hrr.assembly import Brain, _engines

PROJECT = torch.ops.torch_hrr._project_
# Where a number stands in the layout: brains, rounds, areas, fibers, stimuli, then n, k, fixed, bias step, period.
BRAINS, ROUNDS, AREAS, FIBERS, STIMULI, N, K, _, _, PERIOD, _, _, SOURCE = range(13)
# And a tensor in the state: the brains' numbers, those of an area, of a fiber, of a stimulus, and the progress.
NUMBERS, WINNERS, COUNT, SLOT_OF, NEURON_OF, WON, SLOTS = range(7)
DELIVERED, NEXT, SCALE, PROGRESS = 11, 16, 20, -1


class Recorder:
    """The library's operators; keeps what a round was called with."""

    def __getattr__(self, name):
        return getattr(torch.ops.torch_hrr, name)

    def _project_(self, *arguments):
        self.arguments = arguments


@pytest.fixture
def call(monkeypatch):
    """The tensors, layout, rates and seed of two rounds of an area with winners."""
    brain = Brain(p=0.3, seed=1)
    brain.add_stimulus("s", 20)
    brain.add_area("A", 60, 8)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    recorder = Recorder()
    monkeypatch.setattr(_engines, "_ops", recorder)
    with pytest.raises(RuntimeError, match="2 rounds were not run"):
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    tensors, layout, rates, seed = recorder.arguments
    return [tensor.clone() for tensor in tensors], list(layout), list(rates), seed


def refused(call, error, match):
    tensors, layout, rates, seed = call
    before = [tensor.clone() if tensor is not None else None for tensor in tensors]
    with pytest.raises(error, match=match):
        PROJECT(tensors, layout, rates, seed)
    for tensor, kept in zip(tensors, before, strict=True):
        assert tensor.equal(kept)


def test_a_recorded_call_runs(call):
    tensors = call[0]
    PROJECT(*call)
    assert tensors[PROGRESS][0, 0] == 0 and tensors[SLOTS][0, 1] > 8


@pytest.mark.parametrize(
    ("place", "value", "match"),
    [
        (BRAINS, 0, "at least one brain, got 0"),
        (BRAINS, 2, "winners must be a contiguous tensor of Long and sizes"),
        (ROUNDS, -1, "rounds must be in 0"),
        (ROUNDS, 2**31, "rounds must be in 0"),
        (ROUNDS, 1, r"rounds left must be in 0\.\.1, got 2"),
        (AREAS, -1, "counts of at least 0"),
        (FIBERS, -1, "counts of at least 0"),
        (STIMULI, -1, "counts of at least 0"),
        (FIBERS, 0, "state must hold the tensors of its layout|must be a contiguous tensor"),
        (STIMULI, 2, "state must hold the tensors of its layout|layout must describe the state"),
        (N, 61, "slot_of must be a contiguous tensor of Int and sizes"),
        (K, 0, "1 <= k <= n"),
        (K, 61, "1 <= k <= n"),
        (PERIOD, -1, "a period must be at least 0"),
        (PERIOD, 3, "penalties must be a contiguous tensor"),
        (SOURCE, 1, "layout must name one of the 1 areas, got 1"),
        (SOURCE, -1, "layout must name one of the 1 areas, got -1"),
        (SOURCE, 2**32, "layout must name one of the 1 areas, got 4294967296"),
    ],
)
def test_layouts(call, place, value, match):
    call[1][place] = value
    refused(call, RuntimeError, "_project_: .*" + match if "|" not in match else match)


def test_numbers_that_are_missing_or_too_many(call):
    tensors, layout, rates, seed = call
    refused((tensors, layout[:-1], rates, seed), RuntimeError, "layout must describe the state")
    refused((tensors, layout, rates[:-1], seed), RuntimeError, "rates must belong to the layout")
    refused((tensors, [*layout, 0], rates, seed), RuntimeError, "and no more")
    refused((tensors, layout, [*rates, 0.0], seed), RuntimeError, "and no more")
    refused((tensors[:-1], layout, rates, seed), RuntimeError, "state must hold the tensors of its layout")
    refused(([*tensors, tensors[0]], layout, rates, seed), RuntimeError, "and no more")


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_densities(call, p):
    call[2][0] = p
    refused(call, ValueError, r"p must be in \[0, 1\]")


@pytest.mark.parametrize(
    ("place", "value", "match"), [(1, -1, "beta must be at least 0"), (2, 0, "w_max must be greater")]
)
@pytest.mark.parametrize("nan", [False, True])
def test_rates(call, place, value, match, nan):
    call[2][place] = float("nan") if nan else value
    refused(call, ValueError, match)


@pytest.mark.parametrize("slots", [-1, 61, 2**63 - 1])
def test_slots_outside_of_memory(call, slots):
    call[0][SLOTS][0, 0] = slots
    refused(call, RuntimeError, r"slots must be in 0\.\.")


def test_meta_checks_the_state(call):
    tensors, layout, rates, seed = call
    meta = [tensor.to("meta") for tensor in tensors]
    PROJECT(meta, layout, rates, seed)
    layout[K] = 0
    with pytest.raises(RuntimeError, match="1 <= k <= n"):
        PROJECT(meta, layout, rates, seed)


@pytest.mark.parametrize("place", [WINNERS, COUNT, SLOT_OF, NEURON_OF, WON, SLOTS, DELIVERED, NEXT, PROGRESS])
def test_tensors_of_another_kind(call, place):
    tensors, *rest = call
    right = tensors[place]
    for wrong in (
        right.double(),
        torch.cat([right, right]),
        torch.stack([right, right], -1)[..., 0],
        right.to("meta"),
    ):
        if wrong.is_contiguous() and wrong.shape == right.shape and wrong.dtype == right.dtype and not wrong.is_meta:
            continue
        changed = list(tensors)
        changed[place] = wrong
        with pytest.raises((RuntimeError, NotImplementedError)):
            PROJECT(changed, *rest)


@pytest.mark.parametrize(
    ("winners", "match"),
    [([-1, *range(1, 8)], "got -1 of 60"), ([*range(7), 60], "got 60 of 60"), ([1, 1, *range(2, 8)], "got 1 of 60")],
)
def test_winners_outside_of_the_area(call, winners, match):
    call[0][WINNERS][0] = torch.tensor(winners)
    refused(call, IndexError, match)


@pytest.mark.parametrize("count", [-1, 9])
def test_numbers_of_winners(call, count):
    call[0][COUNT][0] = count
    refused(call, RuntimeError, "0 to k winners")


def test_memory_for_slots(call):
    tensors, *rest = call
    for place in (NEURON_OF, WON):
        tensors[place] = tensors[place][:, :20].clone()
    with pytest.raises(RuntimeError, match=r"memory for|must be a contiguous tensor"):
        PROJECT(tensors, *rest)
