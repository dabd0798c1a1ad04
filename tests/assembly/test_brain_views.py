"""What a brain shows of itself: areas, fibers, inputs, weights, who ever won, hooks; and that it is read-only."""

import copy

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, connectome_inputs, k_winners, overlap


def brain_of(batch=None, **options):
    brain = Brain(p=0.2, seed=3, batch=batch)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 200, 14, 0.2)
    brain.add_area("B", 150, 10, 0.1, **options)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=4)
    brain.project({"s": ["A"]}, {"A": ["A", "B"], "B": ["B"]}, rounds=4)
    return brain


def test_areas_and_fibers():
    brain = brain_of(w_max=2.5, refracted=0.5)
    area = brain.areas["B"]
    assert (area.n, area.k, area.beta, area.w_max, area.fixed, area.inhibited) == (150, 10, 0.1, 2.5, False, False)
    assert area.options == {
        "normalize": False, "refracted": 0.5, "refractory_period": 0, "inhibition_strength": 0.0,
        "ties": "index",
    }  # fmt: skip
    assert torch.equal(area.winners, brain.winners("B")) and area.support == brain.support("B")
    brain.fix_assembly("B")
    brain.inhibit("B")
    assert area.fixed is True and area.inhibited is True
    assert list(brain.areas) == ["A", "B"] and dict(brain.stimuli) == {"s": 30}
    assert set(brain.fibers) == {("A", "A"), ("A", "B"), ("B", "B")}
    brain.set_beta("A", "B", 0.7)
    fiber = brain.fibers["A", "B"]
    assert (fiber.p, fiber.beta, fiber.w_max, fiber.random) == (0.2, 0.7, 2.5, True)
    assert brain.fibers["A", "A"].w_max is None
    assert "B" in repr(brain.areas) and "beta=0.7" in repr(fiber)


def test_unknown_areas_and_fibers_are_named():
    brain = brain_of()
    with pytest.raises(KeyError, match="areas: area must be declared, got 'Z'"):
        brain.areas["Z"]
    with pytest.raises(KeyError, match=r"fibers: fiber must be in use, got \('B', 'A'\)"):
        brain.fibers["B", "A"]
    assert "Z" not in brain.areas and brain.areas.get("Z") is None


def test_what_is_declared_is_read_only():
    brain = brain_of()
    for name in ("p", "seed", "batch", "mode", "device", "areas", "stimuli", "fibers", "plastic"):
        with pytest.raises(AttributeError):
            setattr(brain, name, getattr(brain, name))
    with pytest.raises(AttributeError):
        brain.areas["A"].k = 3
    with pytest.raises(TypeError):
        brain.areas["A"] = None


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"refractory_period": 3, "inhibition_strength": 2.0}])
def test_inputs_choose_the_next_winners(batch, options):
    brain = brain_of(batch, **options)
    before = copy.deepcopy(brain.state_dict())
    inputs = brain.inputs("B", areas=["A", "B"])
    assert inputs.dtype == torch.float64 and inputs.shape == ((150,) if batch is None else (2, 150))
    assert all(
        torch.equal(before[name], tensor) for name, tensor in brain.state_dict().items() if name != "_extra_state"
    )
    brain.project({}, {"A": ["B"], "B": ["B"]})
    assert torch.equal(k_winners(inputs, 10)[1], brain.winners("B"))


def test_inputs_are_sums_of_weights():
    brain = brain_of()
    winners = {name: brain.winners(name) for name in "AB"}
    expected = sum(brain.weights(name, "B", winners[name]).double().sum(0) for name in "AB")
    torch.testing.assert_close(brain.inputs("B", areas=["A", "B"]), expected, rtol=1e-6, atol=0)
    assert torch.equal(brain.inputs("A", ["s"]), brain.stimulus_weights("s", "A").double())
    assert brain.inputs("A").eq(0).all()
    # Reading declares nothing.
    torch.testing.assert_close(brain.inputs("A", areas=["B"]), brain.weights("B", "A", winners["B"]).double().sum(0))
    assert ("B", "A") not in brain.fibers


@pytest.mark.parametrize("brain_number", [0, 1])
def test_weights_between_two_sets(brain_number):
    brain = brain_of(2)
    every = torch.arange(200).unsqueeze(-1)
    graph = connectome_inputs(every, 150, 0.2, 3, brain.fiber_id("A", "B"), brain_number).float()
    sources, targets, weights = brain.potentiated("A", "B", brain_number)
    graph[sources, targets] = weights
    assert len(weights) > 50 and (weights > 1).all()
    assert torch.equal(brain.weights("A", "B", brain=brain_number), graph)
    rows, columns = [7, 3, 7, 199], np.array([149, 0, 3])
    found = brain.weights("A", "B", rows, columns, brain_number)
    assert torch.equal(found, graph[rows][:, torch.from_numpy(columns)])
    assert brain.weights("A", "B", [], [1]).shape == (0, 1) and brain.weights("A", "B", [1], []).shape == (1, 0)


def test_weights_of_a_graph_of_ones_own():
    brain = Brain()
    brain.add_area("A", 30, 3)
    brain.add_area("B", 20, 3)
    graph = (torch.rand(30, 20, generator=torch.Generator().manual_seed(0)) * 2).where(torch.arange(20) % 3 > 0, 0.0)
    brain.connect("A", "B", edges=graph)
    assert torch.equal(brain.weights("A", "B"), graph) and brain.fibers["A", "B"].random is False


@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_who_ever_won(mode):
    brain = Brain(p=0.1, seed=1, mode=mode)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 300, 14, 0.1)
    assert brain.ever_won("A").numel() == 0
    seen = set()
    brain.activate("A", [1, 2]) if mode == "exact" else None
    for _ in range(8):
        brain.project({"s": ["A"]}, {"A": ["A"]})
        seen.update(brain.winners("A").tolist())
        assert brain.ever_won("A").tolist() == sorted(seen) and brain.support("A") == len(seen)


def test_clear():
    brain = brain_of()
    edges = [part.tolist() for part in brain.potentiated("A", "B")]
    brain.fix_assembly("B")
    brain.clear("B")
    assert brain.winners("B").numel() == 0 and brain.areas["B"].fixed is False
    assert [part.tolist() for part in brain.potentiated("A", "B")] == edges and brain.support("B") >= 10
    brain.project({}, {"A": ["B"]})
    assert brain.winners("B").numel() == 10


def test_a_hook_ends_with_its_handle():
    brain, seen = brain_of(), []
    handle = brain.register_round_hook(lambda each: seen.append(each.winners("A").tolist()))
    assert not copy.deepcopy(brain)._hooks
    brain.project({"s": ["A"]}, rounds=3)
    assert len(seen) == 3 and seen[-1] == brain.winners("A").tolist()
    handle.remove()
    brain.project({"s": ["A"]}, rounds=3)
    with brain.register_round_hook(lambda each: seen.append(None)):
        brain.project({"s": ["A"]})
    brain.project({"s": ["A"]})
    assert len(seen) == 4


def test_overlap():
    assert overlap([1, 2, 3, 4], torch.tensor([3, 4, 5])) == 2 / 3
    assert overlap(np.array([1]), [2]) == 0 and np.isnan(overlap([1], torch.zeros(0, dtype=torch.int64)))
    both = overlap(torch.tensor([[1, 2, -1], [4, 5, 6]]), torch.tensor([[1, -1], [6, 7]]))
    assert both.tolist() == [1.0, 0.5] and both.dtype == torch.float64
    assert overlap([1, 2], torch.tensor([[1, 2], [2, 3]])).tolist() == [1.0, 0.5]
    assert overlap([1, 2], torch.zeros(0, 2).long()).shape == overlap(torch.zeros(0, 2).long(), [1]).shape == (0,)
    for wrong, error in (([0.5], TypeError), (None, TypeError), (torch.zeros(1, 1, 1).long(), ValueError)):
        with pytest.raises(error, match=r"^overlap: a must "):
            overlap(wrong, [1])
    with pytest.raises(ValueError, match="same batch"):
        overlap(torch.zeros(2, 1).long(), torch.zeros(3, 1).long())
