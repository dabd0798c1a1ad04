"""What is read of a brain between rounds: reading changes nothing, and stimuli are those of a dense brain."""

import types

import numpy as np
import pytest
import torch
from dense_brain import oracle_of

from torch_hrr.assembly import Brain
from torch_hrr.assembly import _inputs as reading


def brain_of(batch=None, **options):
    brain = Brain(p=0.1, seed=4, batch=batch)
    brain.add_stimulus("s", size=30)
    brain.add_stimulus("t", size=40)
    brain.add_area("A", n=200, k=10, **{"beta": 0.1, **options})
    brain.add_area("B", n=150, k=8)
    return brain


@pytest.mark.parametrize("batch", [None, 2])
def test_counts_are_read_without_a_declaration(batch):
    brain, used = brain_of(batch), brain_of(batch)
    before = brain.get_extra_state()
    counts = brain.stimulus_counts("s", "A")
    used.project({"s": ["A"]})
    assert torch.equal(counts, used.stimulus_counts("s", "A")) and counts.any()
    assert brain.get_extra_state() == before
    counts.zero_()
    used.stimulus_counts("s", "A").zero_()
    assert brain.stimulus_counts("s", "A").any()
    assert torch.equal(used.stimulus_counts("s", "A"), brain.stimulus_counts("s", "A"))


def test_a_parent_module_loads_into_a_brain_that_was_read():
    saved, read = torch.nn.ModuleList([brain_of()]), torch.nn.ModuleList([brain_of()])
    for module in (saved, read):
        module[0].project({"s": ["A"]})
    read[0].stimulus_counts("t", "A"), read[0].stimulus_counts("s", "B"), read[0].potentiated("A", "B")
    saved[0].project({"s": ["A"]}, rounds=3)
    read.load_state_dict(saved.state_dict())
    assert torch.equal(read[0].winners("A"), saved[0].winners("A"))


@pytest.mark.parametrize("options", [{}, {"beta": 0.0}, {"w_max": 1.3}], ids=str)
@pytest.mark.parametrize("batch", [None, 2])
def test_weights_of_stimuli_are_those_of_a_dense_brain(batch, options):
    brain = brain_of(batch, **options)
    names = [(stimulus, area) for stimulus in "st" for area in "AB"]
    for pair in names:
        counts = brain.stimulus_counts(*pair)
        assert torch.equal(brain.stimulus_weights(*pair), counts.float()) and counts.any()
    assert not brain._network.sources

    def of(b, tensor):
        return tensor.numpy() if batch is None else tensor[b].numpy()

    dense = [oracle_of(brain, b) for b in range(batch or 1)]
    # A neuron that is active without a win is known, and has its count.
    brain.activate("B", [3, 4])
    for each in dense:
        each.activate("B", [3, 4])
    for stimuli, areas in [({"s": ["A"]}, {}), ({"s": ["A", "B"]}, {"B": ["A"]}), ({"t": ["A"]}, {"A": ["A"]})] * 3:
        for each in (brain, *dense):
            each.project(stimuli, areas)
        for pair in names:
            weights = brain.stimulus_weights(*pair)
            assert weights.dtype == torch.float32
            for b, each in enumerate(dense):
                assert np.array_equal(of(b, weights), each.stimulus_sums(*pair))
    if options.get("beta") != 0:
        assert not torch.equal(brain.stimulus_weights("s", "A"), brain.stimulus_counts("s", "A").float())


def test_weights_of_stimuli_are_copies_and_survive_files(tmp_path):
    brain = brain_of()
    brain.project({"s": ["A"]}, rounds=4)
    expected = brain.stimulus_weights("s", "A")
    assert (expected > brain.stimulus_counts("s", "A")).sum() >= 10
    brain.save(tmp_path / "brain")
    assert torch.equal(Brain.load(tmp_path / "brain").stimulus_weights("s", "A"), expected)
    brain.stimulus_weights("s", "A").zero_()
    assert torch.equal(brain.stimulus_weights("s", "A"), expected)
    brain.states[0].clear(), brain._network.sources["s", "A"].clear()
    assert torch.equal(brain.stimulus_weights("s", "A"), brain.stimulus_counts("s", "A").float())


@pytest.mark.parametrize("batch", [None, 2])
def test_inputs_of_normalised_columns_are_divided_by_their_present_sums(batch):
    """By all of them: rounds divide those alone whose weights grew."""
    brain = brain_of(batch, normalize=True)
    brain.connect("B", "A", p=0.3)

    def fixed(weights):
        return (weights.double() * 2**24).round()

    def expect(sources):
        received = brain.inputs("A", areas=sources)
        for b in range(batch or 1):
            total = torch.zeros(200, dtype=torch.float64)
            for source in sources:
                weights = fixed(brain.weights(source, "A", brain=b))
                scale = torch.where(weights.sum(0) > 0, 1 / (weights.sum(0) / 2**24), 0.0)
                winners = brain.winners(source) if batch is None else brain.winners(source)[b]
                total += (weights[winners].sum(0) * scale * 2**16).round()
            assert torch.equal(received if batch is None else received[b], total / 2**40) and total.any()

    brain.activate("A", range(10)), brain.activate("B", range(8))
    expect(["A", "B"])  # before the first round
    brain.project({"s": ["A"]}, {"A": ["A"], "B": ["A"]}, rounds=5)
    expect(["A", "B"])
    brain.project({"t": ["A"]}, {"A": ["A"]}, rounds=2)  # other winners; B's columns rest
    expect(["A", "B"])
    brain.activate("A", range(10))
    brain.project({}, {"A": ["A"], "B": ["A"]}, brains=None if batch is None else [1])
    expect(["A", "B"])
    brain.load_state_dict(brain.state_dict())
    expect(["A", "B"])


def test_reading_that_was_stopped_leaves_rounds_as_they_were(monkeypatch):
    """Stopped between what came to fire and what no longer does: no half of a sum is taken for the whole."""
    count = reading._ops._connectome_counts_

    def interrupted(counts, rows, first, sign, *rest):
        if sign < 0:
            raise KeyboardInterrupt
        count(counts, rows, first, sign, *rest)

    brains = brain_of(), brain_of()
    for brain in brains:
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(reading, "_ops", types.SimpleNamespace(_connectome_counts_=interrupted))
        brains[0].inputs("A", areas=["A"])
    for brain in brains:
        brain.project({}, {"A": ["A"]}, rounds=2)
    assert torch.equal(brains[0].winners("A"), brains[1].winners("A"))
