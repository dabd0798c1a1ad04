"""The memory of tables of synapses: none where nothing learns, little before anything does, and the same bits."""

import pytest
import torch

from torch_hrr.assembly import Brain, Parser, _state

ROUND = {"A": ["A", "B"]}


def brain_of(p=0.1, batch=None, beta=0.1, n=2000, k=100):
    brain = Brain(p=p, seed=2, batch=batch)
    brain.add_stimulus("s", size=k)
    for name in ("A", "B"):
        brain.add_area(name, n=n, k=k, beta=beta)
    return brain


def table_bytes(brain):
    tables = (getattr(fiber, name) for fiber in brain._network.fibers.values() for name in ("next", "target", "weight"))
    return sum(table.numel() * table.element_size() for table in tables)


@pytest.mark.parametrize("batch", [None, 3])
def test_a_fiber_that_never_learns_has_no_table(batch):
    brain = brain_of(batch=batch)
    brain.connect("A", "B", beta=0.0)
    brain.set_beta("A", "A", 0.0)
    brain.project({"s": ["A"]}, rounds=2)
    brain.project({"s": ["A"]}, ROUND, rounds=3)
    assert len(brain._network.fibers) == 2 and table_bytes(brain) == 0
    brain.set_beta("A", "A", 0.1)
    brain.set_beta("A", "B", 0.1)
    brain.disable_plasticity()
    brain.project({"s": ["A"]}, ROUND, rounds=3)
    assert table_bytes(brain) == 0
    brain.enable_plasticity()
    brain.project({"s": ["A"]}, ROUND, rounds=3)
    assert all(len(brain.potentiated("A", target)[0]) for target in "AB")


def test_areas_of_many_winners_reserve_little_before_they_learn():
    brain = brain_of(n=100_000, k=10_000)
    brain.connect("A", "A")
    brain.disable_plasticity()
    brain.project({"s": ["A"]}, {"A": ["A"]})
    assert table_bytes(brain) == 0
    fiber = brain._network.fibers["A", "A"]
    fiber.reserve_to_learn(0.05)
    assert 2**24 < table_bytes(brain) <= 2**26


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("most", [0, 132, 2**16])
def test_how_much_is_reserved_changes_nothing(monkeypatch, batch, most):
    usual = brain_of(batch=batch)
    monkeypatch.setattr(_state, "_FIRST_BYTES", most)
    small = brain_of(batch=batch)
    for brain in (usual, small):
        brain.project({"s": ["A"]})
    for _ in range(4):
        small.project({"s": ["A"]}, ROUND, rounds=3)
        with monkeypatch.context() as inner:
            inner.setattr(_state, "_FIRST_BYTES", 2**26)
            usual.project({"s": ["A"]}, ROUND, rounds=3)
        for area in "AB":
            assert torch.equal(small.winners(area), usual.winners(area))
    for b in range(batch or 1):
        for target in "AB":
            mine, others = small.potentiated("A", target, b), usual.potentiated("A", target, b)
            assert all(torch.equal(a, c) for a, c in zip(mine, others, strict=True)) and len(mine[0])


def test_a_projection_learns_without_running_rounds_again(monkeypatch):
    grown = []
    grow = _state.FiberState.reserve_chunks
    monkeypatch.setattr(_state.FiberState, "reserve_chunks", lambda fiber, chunks: grown.append(grow(fiber, chunks)))
    brain = brain_of(p=0.05, n=10_000)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=25)
    assert len(grown) == 1


def test_a_round_does_not_move_stimuli_that_it_is_not_about(monkeypatch):
    brain = Brain(p=0.05, seed=0)
    brain.add_area("A", n=4000, k=20)
    for number in range(40):
        brain.add_stimulus(str(number), 20)
        brain.project(str(number), "A")
    moved = []
    grow = _state.StimulusState.reserve
    monkeypatch.setattr(_state.StimulusState, "reserve", lambda stimulus, slots: moved.append(grow(stimulus, slots)))
    for number in range(40):
        brain.project({str(number): "A"}, {"A": "A"})
    assert len(moved) <= 5 * 40  # in every round, without room to spare, there would be 1600


def test_a_batch_of_64_parsers_takes_less_than_200_megabytes():
    parser = Parser()
    sentences = ["the big dogs chase the bad cats", "dogs in mice chase cats", "people quickly run", "dogs are bad"]
    parser.parse(2 * sentences)
    assert sum(tensor.nbytes for tensor in parser.brain.buffers()) < 8 * 200e6 / 64


def resident_bytes():
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def test_rows_that_wait_for_the_next_call_hold_little_memory():
    def project(seed):
        brain = Brain(p=0.001, seed=seed)
        brain.add_stimulus("s", size=10)
        brain.add_area("A", n=1_000_000, k=10)
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)

    project(0)
    before = resident_bytes()
    for seed in range(1, 40):
        project(seed)
    # A large page for each list of the rows of one seed would be 18 MB.
    assert resident_bytes() - before < 100e6
