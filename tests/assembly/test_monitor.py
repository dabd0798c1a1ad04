"""Monitors record what happened in every round, keep no more than they may, and change nothing."""

import json

import pytest
import torch

from torch_hrr.assembly import Brain, Monitor, TorchBrain, simulator

ONTO_A = ({"s": ["A"]}, {"A": ["A", "B"]})


def brain_of_two_areas(batch=None):
    brain = Brain(p=0.1, seed=4, batch=batch)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 500, 20, 0.1)
    brain.add_area("B", 400, 15, 0.1)
    brain.project({"s": ["A"]})
    return brain


@pytest.mark.parametrize("batch", [None, 3])
def test_records_what_rounds_one_by_one_show(batch):
    watched, plain = brain_of_two_areas(batch), brain_of_two_areas(batch)
    with Monitor(watched) as monitor:
        watched.project(*ONTO_A, rounds=9)
    before = plain.winners("A")
    for i in range(9):
        plain.project(*ONTO_A)
        for area in "AB":
            seen = {what: values[i] for what, values in monitor.history[area].items()}
            assert torch.equal(seen["winners"], plain.winners(area))
            assert torch.equal(torch.as_tensor(seen["support"]), torch.as_tensor(plain.support(area)))
        now = plain.winners("A")
        rows = zip(before.reshape(-1, 20).tolist(), now.reshape(-1, 20).tolist(), strict=True)
        shares = [len(set(then) & set(row)) / 20 for then, row in rows]
        assert torch.as_tensor(monitor.history["A"]["overlap"][i], dtype=torch.float64).reshape(-1).tolist() == shares
        before = now
    assert monitor.history["B"]["overlap"][0] is None, "B had no winners before"
    assert monitor.rounds == 9


def test_many_rounds_at_once_have_the_same_bits():
    watched, plain = brain_of_two_areas(), brain_of_two_areas()
    with Monitor(watched, ["A"]):
        watched.project(*ONTO_A, rounds=12)
    plain.project(*ONTO_A, rounds=12)
    for area in "AB":
        assert torch.equal(watched.winners(area), plain.winners(area))
        assert all(
            torch.equal(a, b) for a, b in zip(watched.potentiated("A", area), plain.potentiated("A", area), strict=True)
        )


def test_keeps_the_last_rounds_alone():
    brain = brain_of_two_areas()
    short, long = Monitor(brain, "A B".split(), max_rounds=4), Monitor(brain, ["B"], ["support"])
    with short, long:
        brain.project(*ONTO_A, rounds=10)
    assert short.rounds == long.rounds == 10
    assert short.history["B"]["support"] == long.history["B"]["support"][-4:]
    assert [len(values) for each in short.history.values() for values in each.values()] == [4] * 6
    assert long.history.keys() == {"B"} and long.history["B"].keys() == {"support"}


@pytest.mark.parametrize("batch", [None, 2])
def test_series_are_the_history_as_tensors(batch):
    brain = brain_of_two_areas(batch)
    with Monitor(brain, every=3) as monitor:
        brain.project(*ONTO_A, rounds=5)
        brain.clear("B")
        brain.project({}, {"A": "A"}, rounds=6)
    history, series = monitor.history, monitor.data()
    assert monitor.rounds == 11 and list(series) == [
        (area, what) for area in "AB" for what in ("winners", "support", "overlap")
    ]
    brains = (3,) if batch is None else (3, 2)
    assert [series["B", what].shape for what in history["B"]] == [(*brains, 15), brains, brains]
    assert torch.equal(monitor["A", "winners"], torch.stack(history["A"]["winners"]))
    for what, dtype in (("support", torch.int64), ("overlap", torch.float64)):
        values = [torch.as_tensor(each, dtype=dtype) for each in history["A"][what]]
        assert torch.equal(monitor["A", what], torch.stack(values))
    assert (series["B", "winners"][1:] == -1).all() and monitor.numpy()["B", "overlap"].shape == brains
    assert series["B", "overlap"].isnan().all() and history["B"]["overlap"] == [None] * 3
    monitor.clear()
    assert monitor.rounds == 0 and monitor["A", "winners"].shape == (0, *brains[1:], 20)
    for key in ("A", ("A", "weights"), ("C", "support")):
        with pytest.raises(KeyError, match="a series must be one of"):
            monitor[key]


def test_nothing_is_recorded_before_and_after():
    brain = brain_of_two_areas()
    monitor = Monitor(brain, ["A"])
    brain.project(*ONTO_A)
    assert monitor.rounds == 0 and monitor.history == {}
    with pytest.raises(KeyError, match="stop here"), monitor:
        brain.project(*ONTO_A, rounds=2)
        raise KeyError("stop here")
    brain.project(*ONTO_A)
    assert len(monitor.history["A"]["support"]) == 2
    monitor.detach()
    monitor.attach()
    brain.project(*ONTO_A)
    monitor.detach()
    assert monitor.rounds == len(monitor.history["A"]["winners"]) == 3
    assert not brain._hooks


def test_the_history_is_a_copy():
    brain = brain_of_two_areas()
    with Monitor(brain, ["A"]) as monitor:
        brain.project(*ONTO_A)
        monitor.history["A"]["support"].clear()
        assert len(monitor.history["A"]["support"]) == 1


def test_to_dict_is_what_json_writes():
    brain = brain_of_two_areas()
    with Monitor(brain) as monitor:
        brain.project(*ONTO_A, rounds=2)
    written = json.loads(json.dumps(monitor.to_dict()))
    assert written["rounds"] == 2
    assert written["areas"]["A"]["winners"][-1] == brain.winners("A").tolist()
    assert written["areas"]["B"]["support"][-1] == brain.support("B")
    assert written["areas"]["B"]["overlap"][0] is None


def test_the_first_overlap_is_with_the_winners_when_it_was_attached():
    brain = brain_of_two_areas()
    brain.disable_plasticity()
    then = brain.winners("A")
    brain.activate("A", torch.cat([then[:5], torch.arange(500)[~torch.isin(torch.arange(500), then)][:5]]))
    monitor = Monitor(brain, ["A"], ["overlap"]).attach()
    brain.project({"s": ["A"]}, rounds=2)
    assert torch.equal(brain.winners("A"), then) and monitor.history["A"]["overlap"] == [5 / 20, 1.0]


@pytest.mark.parametrize("kind", [TorchBrain, simulator.Brain])
def test_faces_of_a_brain_are_watched(kind):
    face = kind(p=0.1)
    face.add_area("A", 500, 20)
    face.brain.activate("A", range(20))
    with Monitor(face, ["A"], ["support"]) as monitor:
        face.project({}, {"A": ["A"]})
        face.project({}, {"A": ["A"]})
    assert monitor.rounds == 2 and monitor.history["A"]["support"][-1] == face.brain.support("A")
    assert not face.brain._hooks


def test_bad_arguments():
    brain = brain_of_two_areas()
    for other in ("A", None, torch.nn.Linear(2, 2)):
        with pytest.raises(TypeError, match=r"^Monitor: brain must be a Brain or have one, got "):
            Monitor(other)
    for error, kwargs in (
        (ValueError, {"areas": "C"}),
        (ValueError, {"what": ["weights"]}),
        (TypeError, {"areas": 1}),
        (TypeError, {"what": None}),
    ):
        with pytest.raises(error, match="must be"):
            Monitor(brain, **kwargs)
    with Monitor(brain) as monitor, pytest.raises(RuntimeError, match="already attached"):
        monitor.attach()
    assert not brain._hooks
