"""The sampled mode where nothing fires: all inputs are 0, and the first neurons win, as in the exact mode."""

import pytest
import torch

from torch_hrr.assembly import Brain


def brain_of(batch, mode="sampled", p=0.05, size=0):
    brain = Brain(p=p, seed=3, mode=mode, batch=batch)
    brain.add_stimulus("nothing", size=size)
    brain.add_stimulus("s", size=50)
    brain.add_area("A", n=1000, k=20)
    brain.add_area("B", n=20, k=20)
    return brain


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize(
    ("stimuli", "areas"),
    [({"nothing": ["A"]}, {}), ({"nothing": ["A"]}, {"A": ["A"]}), ({"nothing": ["B"]}, {})],
)
def test_the_first_neurons_win_where_nothing_fires(batch, stimuli, areas):
    target = "B" if stimuli == {"nothing": ["B"]} else "A"
    winners = []
    for mode in ("sampled", "exact"):
        brain = brain_of(batch, mode)
        brain.project(stimuli, areas)
        assert torch.as_tensor(brain.support(target)).eq(20).all()
        winners.append(brain.winners(target))
    assert torch.equal(*winners) and torch.equal(winners[0].reshape(-1, 20)[-1], torch.arange(20))


@pytest.mark.parametrize("batch", [None, 2])
def test_rounds_go_on_from_winners_that_nothing_chose(batch):
    brain = brain_of(batch)
    brain.project({"nothing": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    brain.project({"s": ["A"]}, {"A": ["A", "B"]}, rounds=5)
    support = torch.as_tensor(brain.support("A"))
    assert bool((support > 20).all()) and brain.winners("A").shape[-1] == 20
    for engine in brain._engine.brains:
        engine.check_state()
        # The first 20 have synapses among each other at density p, although nothing fired when they won: 20 +- 4.4.
        fiber = engine._fibers["A", "A"]
        assert 5 <= int(((fiber.sources < 20) & (fiber.targets < 20)).sum()) <= 40


def test_neurons_that_are_known_come_first_where_nothing_fires():
    brain = brain_of(None)
    brain.activate("A", [3])
    brain.project({"nothing": ["A"]})
    assert brain.winners("A").tolist() == list(range(20)) and brain.support("A") == 20


def test_no_synapses_at_all():
    brain = brain_of(2, p=0.0)
    brain.project({"s": ["A", "B"]}, rounds=2)
    brain.project({"s": ["A"]}, {"A": ["A", "B"]}, rounds=2)
    assert brain.winners("A").tolist() == [list(range(20))] * 2
