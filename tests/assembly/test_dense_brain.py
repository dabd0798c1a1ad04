"""The dense oracle against cases worked out by hand."""

import numpy as np
import pytest
import torch
from dense_brain import DenseBrain, fixed_point, k_largest, potentiated

ONE = 1 << 24


def brain_of(edges=None, counts=None, **areas):
    """A brain with areas name=(n, k, beta), the given 0/1 matrices (else no edges) and stimulus counts."""
    edges = {} if edges is None else edges
    counts = {} if counts is None else counts

    def matrix(source, target):
        empty = np.zeros((areas[source][0], areas[target][0]), int)
        return np.asarray(edges.get((source, target), empty))

    brain = DenseBrain(matrix, lambda stimulus, area: np.asarray(counts[stimulus, area]))
    for stimulus in {name for name, _ in counts}:
        brain.add_stimulus(stimulus, size=99)
    for name, (n, k, beta) in areas.items():
        brain.add_area(name, n, k, beta)
    return brain


def test_the_k_largest_with_ties_to_the_lower_index():
    assert k_largest(np.array([3, 5, 3, 5, 5, 1]), 2).tolist() == [1, 3]
    assert k_largest(np.array([3, 5, 3, 5, 5, 1]), 4).tolist() == [0, 1, 3, 4]
    assert k_largest(np.zeros(4), 3).tolist() == [0, 1, 2]


def test_fixed_point_and_float32_potentiation():
    assert fixed_point(np.float32([0, 1, 1.5, 2.0**24])).tolist() == [0, ONE, 3 * ONE // 2, 1 << 48]
    # 1 + .05 in float32 is 8808038 2^-23.
    once = potentiated(np.float32([1]), 0.05, np.float32(2**24))
    assert once.dtype == np.float32 and fixed_point(once).tolist() == [2 * 8808038]
    # 8808038^2 2^-23 = 9248439.98...: rounded to a 24-bit mantissa.
    assert fixed_point(potentiated(once, 0.05, np.float32(2**24))).tolist() == [2 * round(8808038**2 / 2**23)]
    assert potentiated(np.float32([2, 0]), 0.5, np.float32(2.5)).tolist() == [2.5, 0]


def test_a_stimulus_selects_and_its_sums_grow():
    brain = brain_of(counts={("s", "A"): [2, 4, 4, 1, 4]}, A=(5, 2, 0.5))
    brain.project(stimuli={"s": ["A"]})
    assert brain.winners("A").tolist() == [1, 2] and brain.support("A") == 2
    assert brain.stimulus_sums("s", "A").tolist() == [2, 6, 6, 1, 4]
    brain.project(stimuli={"s": ["A"]}, rounds=2)
    assert brain.stimulus_sums("s", "A").tolist() == [2, 13.5, 13.5, 1, 4]
    assert brain.support("A") == 2


def test_recurrence_reads_the_winners_before_and_learns_edges_between_them_and_the_new_ones():
    edges = {("A", "A"): [[0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]}
    brain = brain_of(edges, {("s", "A"): [5, 3, 3, 3]}, A=(4, 1, 1.0))
    # Without winners the area adds nothing of its own: neuron 0 wins.
    brain.project(stimuli={"s": ["A"]}, areas={"A": ["A"]})
    assert brain.winners("A").tolist() == [0] and brain.stimulus_sums("s", "A").tolist() == [10, 3, 3, 3]
    assert brain.weights("A", "A").tolist() == edges["A", "A"]
    # Neuron 0 fires into neuron 3 alone.
    brain.project(areas={"A": ["A"]})
    assert brain.winners("A").tolist() == [3] and brain.weights("A", "A")[0].tolist() == [0, 0, 0, 2]
    assert brain.weights("A", "A")[3].tolist() == [1, 0, 0, 0], "what did not fire did not learn"
    brain.project(areas={"A": ["A"]}, rounds=2)
    assert brain.winners("A").tolist() == [3] and brain.support("A") == 2
    assert brain.weights("A", "A").tolist() == [[0, 0, 0, 4], [0] * 4, [0] * 4, [2, 0, 0, 0]]


def test_learning_reads_the_winners_of_the_round_before():
    edges = {("A", "B"): np.ones((2, 2)), ("B", "A"): np.eye(2)}
    brain = brain_of(edges, A=(2, 1, 1.0), B=(2, 1, 1.0))
    brain.activate("A", [0])
    brain.activate("B", [1])
    brain.project(areas={"A": ["B"], "B": ["A"]})
    assert brain.winners("A").tolist() == [1] and brain.winners("B").tolist() == [0]
    # A fired as 0, although 1 has won meanwhile.
    assert brain.weights("A", "B").tolist() == [[2, 1], [1, 1]]
    assert brain.weights("B", "A").tolist() == [[1, 0], [0, 2]]


def test_a_fixed_assembly_learns_and_does_not_move():
    brain = brain_of({("A", "B"): np.ones((2, 3))}, {("s", "B"): [1, 1, 9]}, A=(2, 1, 1.0), B=(3, 1, 1.0))
    brain.activate("A", [1])
    brain.activate("B", [0])
    brain.fix_assembly("B")
    brain.project(stimuli={"s": ["B"]}, areas={"A": ["B"]})
    assert brain.winners("B").tolist() == [0] and brain.support("B") == 0
    assert brain.stimulus_sums("s", "B").tolist() == [2, 1, 9]
    assert brain.weights("A", "B").tolist() == [[1, 1, 1], [2, 1, 1]]
    brain.unfix_assembly("B")
    brain.project(stimuli={"s": ["B"]})
    assert brain.winners("B").tolist() == [2]
    with pytest.raises(ValueError, match="winners"):
        brain_of(A=(2, 1, 1.0)).fix_assembly("A")


def test_plasticity_off_and_a_beta_of_its_own():
    brain = brain_of({("A", "B"): np.ones((2, 2))}, {("s", "B"): [4, 1]}, A=(2, 1, 1.0), B=(2, 1, 1.0))
    brain.activate("A", [0])
    brain.disable_plasticity()
    brain.project(stimuli={"s": ["B"]}, areas={"A": ["B"]})
    assert brain.weights("A", "B").tolist() == [[1, 1], [1, 1]] and brain.stimulus_sums("s", "B").tolist() == [4, 1]
    brain.enable_plasticity()
    brain.set_beta("A", "B", 3.0)
    brain.project(stimuli={"s": ["B"]}, areas={"A": ["B"]})
    assert brain.weights("A", "B").tolist() == [[4, 1], [1, 1]] and brain.stimulus_sums("s", "B").tolist() == [8, 1]
    brain.set_beta("s", "B", 0.0)
    brain.project(stimuli={"s": ["B"]}, areas={"A": ["B"]})
    assert brain.weights("A", "B").tolist() == [[16, 1], [1, 1]] and brain.stimulus_sums("s", "B").tolist() == [8, 1]


def test_caps():
    brain = DenseBrain(lambda *_: np.ones((1, 1)), lambda *_: np.array([3]))
    brain.add_stimulus("s", 5)
    brain.add_area("A", 1, 1, beta=1.0, w_max=3.0)
    brain.add_area("B", 1, 1, beta=1.0)
    brain.project(stimuli={"s": ["A", "B"]}, areas={"A": ["A"], "B": ["B"]}, rounds=3)
    assert brain.weights("A", "A").tolist() == [[3]] and brain.weights("B", "B").tolist() == [[4]]
    assert brain.stimulus_sums("s", "A").tolist() == [9], "three synapses at 3 each"
    assert brain.stimulus_sums("s", "B").tolist() == [24]
    brain.project(stimuli={"s": ["B"]}, areas={"B": ["B"]}, rounds=40)
    assert brain.weights("B", "B").tolist() == [[2**24]] and brain.stimulus_sums("s", "B").tolist() == [2**24]


def test_locks():
    counts = {("s", "A"): [1, 2], ("s", "B"): [1, 2]}
    brain = brain_of({("A", "B"): [[1, 0], [0, 0]]}, counts, A=(2, 1, 0.0), B=(2, 1, 0.0))
    brain.activate("A", [0])
    brain.inhibit("B")
    brain.inhibit("B", lock=1)
    brain.disinhibit("B")
    brain.project(stimuli={"s": ["B"]}, areas={"A": ["B"]})
    assert brain.winners("B").size == 0, "one lock is left"
    brain.disinhibit("B", lock=1)
    brain.inhibit_fiber("A", "B", lock=4)
    brain.project(areas={"A": ["B"]})
    assert brain.winners("B").size == 0
    brain.disinhibit_fiber("A", "B", lock=4)
    brain.project(areas={"A": ["B"]})
    assert brain.winners("B").tolist() == [0]
    brain.inhibit("A")
    brain.project(stimuli={"s": ["A", "B"]}, areas={"A": ["B"]})
    assert brain.winners("A").tolist() == [0] and brain.winners("B").tolist() == [1], "an inhibited area does not fire"


def test_normalised_columns_sum_to_one():
    edges = {("A", "B"): [[1, 1, 0], [0, 1, 0], [0, 1, 1]]}
    brain = brain_of(edges, {("s", "B"): [0, 0, 1]}, A=(3, 1, 1.0), B=(3, 1, 1.0))
    brain.activate("A", [0])
    assert brain.inputs("B", [], ["A"]).tolist() == [ONE, ONE, 0]
    brain.normalize("B")
    # Columns summed to 1, 3 and 1; units are now 2^-40.
    assert brain.inputs("B", [], ["A"]).tolist() == [1 << 40, round(2**40 / 3), 0]
    assert brain.inputs("B", ["s"], ["A"]).tolist() == [1 << 40, round(2**40 / 3), 1 << 40]
    brain.project(areas={"A": ["B"]})
    assert brain.winners("B").tolist() == [0]
    assert brain.inputs("B", [], ["A"]).tolist() == [2 << 40, round(2**40 / 3), 0], "the scale stays until next time"
    brain.normalize("B")
    assert brain.inputs("B", [], ["A"]).tolist() == [1 << 40, round(2**40 / 3), 0]
    assert brain.weights("A", "B").tolist() == [[2, 1, 0], [0, 1, 0], [0, 1, 1]], "edges are as they were"


def test_a_refracted_area_pays_for_every_win():
    brain = DenseBrain(None, lambda *_: np.array([5, 4, 1]))
    brain.add_stimulus("s", 9)
    brain.add_area("A", 3, 1, beta=0.0, refracted=1.5)
    won = []
    for _ in range(5):
        brain.project(stimuli={"s": ["A"]})
        won += brain.winners("A").tolist()
    # 5 4 1; 3.5 4 1; 3.5 2.5 1; 2 2.5 1; 2 1 1
    assert won == [0, 1, 0, 1, 0]
    assert (brain.inputs("A", ["s"], []) / ONE).tolist() == [0.5, 1, 1]


def test_a_penalty_that_decays():
    brain = DenseBrain(None, lambda *_: np.array([9, 8, 1]))
    brain.add_stimulus("s", 9)
    brain.add_area("A", 3, 1, beta=0.0, refractory_period=4, inhibition_strength=2.0)
    inputs, won = [], []
    for _ in range(5):
        inputs.append((brain.inputs("A", ["s"], []) / ONE).tolist())
        brain.project(stimuli={"s": ["A"]})
        won += brain.winners("A").tolist()
    # A win costs 2 in the next round, then 1.5, 1, .5 and nothing.
    assert inputs == [[9, 8, 1], [7, 8, 1], [7.5, 6, 1], [7, 6.5, 1], [7, 7, 1]]
    assert won == [0, 1, 0, 0, 0]


def test_a_fixed_assembly_pays_nothing():
    brain = DenseBrain(None, lambda *_: np.array([5, 5]))
    brain.add_stimulus("s", 9)
    brain.add_area("A", 2, 1, beta=0.0, refracted=True, refractory_period=2, inhibition_strength=1.0)
    brain.project(stimuli={"s": ["A"]})
    assert (brain.inputs("A", ["s"], []) / ONE).tolist() == [3, 5]
    brain.fix_assembly("A")
    brain.project(stimuli={"s": ["A"]})
    assert (brain.inputs("A", ["s"], []) / ONE).tolist() == [3.5, 5], "rounds pass, wins do not count"


def test_a_fiber_of_its_own_graph_beta_and_cap():
    brain = brain_of({("A", "B"): np.ones((2, 2))}, A=(2, 2, 0.5), B=(2, 1, 0.5))
    brain.connect("A", "B", beta=1.0, w_max=3.0, edges=torch.tensor([[0.5, 0.0], [0.25, 1.0]]))
    brain.activate("A", [0, 1])
    assert (brain.inputs("B", [], ["A"]) / ONE).tolist() == [0.75, 1]
    brain.project(areas={"A": ["B"]}, rounds=2)
    assert brain.winners("B").tolist() == [1] and brain.weights("A", "B").tolist() == [[0.5, 0], [0.25, 3]]
