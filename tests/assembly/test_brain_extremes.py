"""Brains where weights saturate, graphs are given late, loads are refused: winners stay right and nothing crashes."""

import copy

import pytest
import torch

from torch_hrr.assembly import Brain


def brain_of(n=1000, k=50, p=0.05, size=100, **options):
    brain = Brain(p=p)
    brain.add_stimulus("s", size=size)
    brain.add_area("A", n=n, k=k, **options)
    return brain


@pytest.mark.parametrize("beta", [0.25, 1.0])
def test_a_saturated_stimulus_keeps_its_winners_in_a_normalised_area(beta):
    brain = brain_of(beta=beta)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=5)
    brain.normalize("A")
    brain.project({"s": ["A"]}, rounds=5)
    before = brain.winners("A")
    brain.project({"s": ["A"]}, rounds=150)
    assert brain.winners("A").equal(before)


def test_a_saturated_column_keeps_its_winner():
    brain = Brain(p=1.0)
    brain.add_area("A", n=4, k=4)
    brain.add_area("B", n=3, k=1, beta=0.1)
    brain.activate("A", range(4))
    brain.normalize("B")
    brain.project({}, {"A": ["B"]}, rounds=400)
    assert brain.winners("B").tolist() == [0]


@pytest.mark.parametrize("always", [False, True])
def test_a_graph_given_after_normalisation_counts(always):
    brain = Brain(p=0.1)
    for name in "AB":
        brain.add_area(name, n=10, k=2, normalize=always)
    brain.normalize("B")
    edges = torch.zeros(10, 10)
    edges[:, 7:9] = 1
    brain.connect("A", "B", edges=edges)
    brain.activate("A", [0, 1])
    brain.project({}, {"A": ["B"]})
    assert brain.winners("B").tolist() == [7, 8]


def test_a_state_refused_inside_a_module_leaves_a_brain_that_can_be_used():
    module = torch.nn.ModuleDict({"brain": brain_of()})
    brain = module["brain"]
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=4)
    state = copy.deepcopy(module.state_dict())
    state["brain.states.0.winners"].fill_(10**12)
    with pytest.raises(ValueError, match="winners"):
        module.load_state_dict(state)
    assert brain.winners("A").numel() == 0 and brain.support("A") == 0
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=4)
    fresh = brain_of()
    fresh.project({"s": ["A"]}, {"A": ["A"]}, rounds=4)
    assert brain.winners("A").equal(fresh.winners("A"))


def test_operations_read_iterators_once():
    brains = [brain_of(), brain_of()]
    for brain, targets in zip(brains, (["C"], iter(["C"])), strict=True):
        for name in "BC":
            brain.add_area(name, n=500, k=20)
        brain.project({"s": ["A", "B"]})
        brain.merge("A", "B", "C", rounds=5, stimuli={"s": targets})
    for name in "ABC":
        assert brains[0].winners(name).equal(brains[1].winners(name))


def test_a_stimulus_above_the_largest_weight_never_shrinks():
    brain = brain_of(n=50, k=5, p=0.5, size=2**26, beta=0.1)
    brain.activate("A", range(5))
    brain.fix_assembly("A")
    brain.project({"s": ["A"]})
    brain.unfix_assembly("A")
    brain.disable_plasticity()
    brain.project({"s": ["A"]})
    counts = brain.stimulus_counts("s", "A")
    assert brain.winners("A").tolist() == counts.sort(descending=True, stable=True).indices[:5].sort().values.tolist()


def test_repeated_edges_are_summed_exactly():
    brain = Brain(p=0.1)
    for name in "AB":
        brain.add_area(name, n=3, k=1)
    indices = torch.tensor([[0] * 300 + [0], [2] * 300 + [1]])
    values = torch.ones(301, dtype=torch.uint8)
    values[-1] = 200
    brain.connect("A", "B", edges=torch.sparse_coo_tensor(indices, values, (3, 3), check_invariants=True))
    brain.activate("A", [0])
    brain.project({}, {"A": ["B"]})
    assert brain.winners("B").tolist() == [2]


def test_no_weight_of_a_given_graph_is_above_the_largest():
    brain = Brain(p=0.1)
    brain.add_area("A", n=3, k=1)
    brain.add_area("B", n=3, k=1, w_max=1.1, beta=0.5)
    for edges in (torch.full((3, 3), 1.2), torch.full((3, 3), 1.1).to_sparse() * 2):
        with pytest.raises(ValueError, match=r"connect: edges must have weights <= w_max = 1\.1, got"):
            brain.connect("A", "B", edges=edges)
        assert not brain._network.fibers, "a fiber that was refused can be connected again"
    # 1.1 in float32 is above 1.1 in float64.
    brain.connect("A", "B", edges=torch.full((3, 3), 1.1))
    brain.connect("B", "B", edges=torch.full((3, 3), 4.0), w_max=5.0)
    brain.connect("B", "A", edges=torch.full((3, 3), 4.0))
    for name in "AB":
        brain.activate(name, [0])
    brain.project({}, {"A": ["B"], "B": ["A", "B"]}, rounds=9)
    largest = [float(brain.potentiated(*pair)[2].max()) for pair in ("AB", "BB", "BA")]
    assert largest[0] == torch.tensor(1.1) and largest[1] == 5 and largest[2] > 5


def test_a_stimulus_outweighs_normalised_recurrence():
    """As the guide says: it keeps its own winners for as long as it fires."""
    changed = {}
    for normalize in (False, True):
        brain = Brain(p=0.05, seed=0)
        brain.add_stimulus("s", size=100)
        brain.add_area("A", n=5000, k=50, normalize=normalize)
        brain.project({"s": ["A"]})
        first = brain.winners("A")
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=10)
        changed[normalize] = not torch.equal(brain.winners("A"), first)
        assert changed[normalize] or brain.stimulus_counts("s", "A")[first].min() > 5
    assert changed == {False: True, True: False}


def test_weights_stop_where_sums_of_a_large_area_stay_within_64_bits():
    k, largest = 2**15, 2.0**20  # 2^35 / k
    brain = Brain(p=0.5, seed=0)
    brain.add_area("A", n=k, k=k, beta=1.0)
    brain.add_area("B", n=3, k=2, beta=1.0)
    edges = torch.full((k, 3), largest / 2) * torch.tensor([1.0, 0.5, 2.0])
    brain.connect("A", "B", edges=edges)
    brain.activate("A", range(k))
    brain.project({}, {"A": ["B"]}, rounds=3)
    # Every synapse of the winners is as large as it can be, and 2^15 of them are summed.
    assert brain.winners("B").tolist() == [0, 2]
    _, columns, weights = brain.potentiated("A", "B")
    assert set(weights[columns != 1].tolist()) == {largest} and set(weights[columns == 1].tolist()) == {largest / 4}
    other = Brain()
    other.add_area("A", n=k, k=k)
    with pytest.raises(ValueError, match=r"connect: edges must be weights in 0\.\.1\.04858e\+06, got others"):
        other.connect(
            "A", "A", edges=torch.sparse_coo_tensor([[0], [1]], [largest * 1.001], (k, k), check_invariants=True)
        )


def test_many_saturated_stimuli_keep_their_winners_in_a_normalised_area():
    brain = Brain(p=0.1)
    brain.add_area("A", n=100, k=8, beta=1.0)
    stimuli = {f"s{i}": ["A"] for i in range(20)}
    for name in stimuli:
        brain.add_stimulus(name, size=10)
    brain.project(stimuli)
    before = brain.winners("A")
    brain.project(stimuli, {"A": ["A"]}, rounds=2)
    brain.normalize("A")
    # Each of twenty terms is as large as a term can be: their sum is not beyond 64 bits, and nobody else wins.
    brain.project(stimuli, {"A": ["A"]}, rounds=40)
    assert brain.winners("A").equal(before)
