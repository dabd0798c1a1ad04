"""What project takes, and long calls: external inputs, progress, and Ctrl-C between two rounds."""

import copy
import os
import signal
import threading
import time

import pytest
import torch

from torch_hrr import _progress
from torch_hrr.assembly import Brain, _connect


def made(**options):
    brain = Brain(**{"p": 0.1, "seed": 3, **options})
    brain.add_stimulus("s", 30)
    brain.add_area("A", 400, 20, 0.1)
    brain.add_area("B", 300, 15, 0.1)
    return brain


def state(brain):
    return [value.tolist() for name, value in sorted(brain.state_dict().items()) if isinstance(value, torch.Tensor)]


SAME = {
    "one source": (("s", "A"), {}),
    "one source, several targets": (("s", ["A", "B"]), {}),
    "an area": (("A", ("A", "B")), {}),
    "names": (({"s": "A"}, {"A": "B"}), {}),
    "a set": (({"s": {"B", "A"}}, {"A": frozenset("BA")}), {}),
    "keywords": ((), {"stimuli": "s", "areas": "B"}),
}
LISTS = {
    "one source": ({"s": ["A"]}, {}),
    "one source, several targets": ({"s": ["A", "B"]}, {}),
    "an area": ({}, {"A": ["A", "B"]}),
    "names": ({"s": ["A"]}, {"A": ["B"]}),
    "a set": ({"s": ["A", "B"]}, {"A": ["A", "B"]}),
    "keywords": ({"s": ["B"]}, {}),
}


@pytest.mark.parametrize("kind", SAME)
def test_a_name_is_a_list_of_one(kind):
    own, lists = made(), made()
    for brain in (own, lists):
        brain.project({"s": ["A", "B"]})
    arguments, keywords = SAME[kind]
    own.project(*arguments, rounds=3, **keywords)
    lists.project(*LISTS[kind], rounds=3)
    assert state(own) == state(lists)


def test_older_names_are_the_same_calls():
    brain = made()
    assert brain.add_fiber == brain.connect and brain.freeze == brain.fix_assembly
    assert brain.project_rounds == brain.project
    assert not {"add_fiber", "freeze", "project_rounds"} & set(dir(brain))
    with pytest.raises(AttributeError, match="'Brain' object has no attribute 'prject'"):
        brain.prject()


def test_external_inputs_are_added_to_what_areas_receive():
    """Beside the largest sums of the round's inputs, which `inputs` reads, and the external ones."""
    generator = torch.Generator().manual_seed(1)
    brain = made()
    drive = {"A": torch.randn(400, generator=generator) * 3}
    drive["B"] = torch.randn(300, generator=generator).double().numpy()
    brain.project({"s": "A"}, rounds=2)
    for _ in range(4):
        wanted = {}
        for area, sources in (("A", ["A"]), ("B", ["A"])):
            received = brain.inputs(area, ["s"], sources) + torch.as_tensor(drive[area])
            wanted[area] = received.sort(descending=True, stable=True).indices[: brain.areas[area].k].sort().values
        brain.project({"s": ["A", "B"]}, {"A": ["A", "B"]}, external=drive)
        assert all(torch.equal(brain.winners(area), wanted[area]) for area in "AB")
    assert brain.support("A") > 20 and brain.potentiated("A", "A")[2].max() > 1.2


def test_external_inputs_of_zeros_and_of_ten_rounds_change_nothing():
    plain, driven = made(), made()
    drive = {"A": torch.linspace(0, 2, 400)}
    for brain, external in ((plain, None), (driven, {"B": torch.zeros(300)})):
        brain.project({"s": ["A", "B"]}, {"A": "A"}, rounds=3, external=external)
        brain.project({"s": ["A", "B"]}, {"A": ["A", "B"]}, rounds=3, external=external)
    assert all(torch.equal(plain.winners(area), driven.winners(area)) for area in "AB")
    plain.project({"s": "A"}, {"A": "A"}, rounds=10, external=drive)
    for _ in range(10):
        driven.project({"s": "A"}, {"A": "A"}, external=drive)
    assert torch.equal(plain.winners("A"), driven.winners("A")) and plain.support("A") == driven.support("A")


def test_an_external_input_alone_sets_the_winners():
    brain = made()
    drive = torch.arange(400).float()
    brain.project(external={"A": drive})
    assert brain.winners("A").tolist() == list(range(380, 400)) and brain.support("A") == 0
    brain = made()
    brain.project({}, {"A": "B"}, external={"A": drive >= 380})
    assert brain.winners("A").tolist() == list(range(380, 400)) and brain.support("B") == 15
    with pytest.raises(ValueError, match="mode must be 'exact'"):
        made(mode="sampled").project(external={"A": drive})


@pytest.mark.parametrize("options", [{}, {"ties": "keyed", "refracted": 0.5, "normalize": True}])
def test_external_inputs_of_a_batch_are_those_of_each_brain(options):
    """One for all or a row for each, for all or some of the brains, which differ: beside brains of the same seeds."""
    seeds = [7, -1, 0]

    def started(**own):
        brain = made(**own)
        brain.add_area("C", 200, 12, 0.1, **options)
        brain.project("s", "A", rounds=2)
        return brain

    many, alone = started(seed=0, seeds=seeds), [started(seed=seed) for seed in seeds]
    drive = {"A": torch.randn(3, 400, generator=torch.Generator().manual_seed(2)) * 2, "C": torch.linspace(0, 1, 200)}
    many.inhibit("B", brains=1), alone[1].inhibit("B")
    many.fix_assembly("A", brains=2), alone[2].fix_assembly("A")
    call = {"stimuli": {"s": ["A", "B"]}, "areas": {"A": ["A", "B"], "C": ["C", "A"]}, "rounds": 3}
    many.project(**call, external=drive)
    for row, brain in enumerate(alone):
        brain.project(**call, external={"A": drive["A"][row], "C": drive["C"]})
    seen = []
    many.project(**call, external={"A": drive["A"][[0, 2]]}, brains=[2, 1], progress=lambda *done: seen.append(done))
    for row, brain in ((0, alone[2]), (2, alone[1])):
        brain.project(**call, external={"A": drive["A"][row]})
    assert seen[-1] == (3, 3)
    many.project(external={"B": drive["C"].new_ones(300)}, brains=0)
    alone[0].project(external={"B": torch.ones(300)})
    for row, brain in enumerate(alone):
        for name, area in brain.areas.items():
            winners = many.winners(name)[row]
            assert torch.equal(winners[winners >= 0], area.winners) and int(many.support(name)[row]) == area.support
        assert all(map(torch.equal, many.potentiated("A", "A", row), brain.potentiated("A", "A")))
    for wrong in (torch.zeros(2, 400), torch.zeros(1, 3, 400), torch.zeros(399)):
        with pytest.raises(
            ValueError, match=r"^project: external input of 'A' must have shape \[400\] or \[3, 400\], "
        ):
            many.project(**call, external={"A": wrong})


@pytest.fixture
def in_small_parts(monkeypatch):
    """As if every call were long and every part could hold one or two rounds."""
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    monkeypatch.setattr(_progress, "_PART", 1e-9)


LONG = {
    "exact": (lambda: fired(), {}),
    "sampled": (lambda: fired(mode="sampled"), {}),
    "a batch whose brains differ": (lambda: locked(fired(batch=3)), {}),
    "normalised": (lambda: normalized(fired()), {}),
    "external": (made, {"external": {"A": torch.linspace(0, 1, 400)}}),
    "external, of a batch": (lambda: locked(fired(batch=3)), {"external": {"A": torch.linspace(0, 1, 400)}}),
    "hooked": (lambda: hooked(fired()), {}),
}


def fired(**options):
    brain = made(**options)
    brain.project("s", "A")
    return brain


def locked(brain):
    brain.inhibit_fiber("A", "B", brains=1)
    return brain


def normalized(brain):
    brain.add_area("C", 200, 10, 0.1, normalize=True)
    brain.connect("A", "C")
    return brain


def hooked(brain):
    brain.register_round_hook(lambda each: each.winners("A"))
    return brain


def program(brain, **options):
    brain.project({"s": ["A", "B"]}, {"A": list(brain.areas)}, rounds=7, **options)


@pytest.mark.parametrize("kind", LONG)
def test_parts_of_a_call_have_the_same_bits(kind, in_small_parts, monkeypatch):
    make, options = LONG[kind]
    seen = []
    parted = make()
    program(parted, progress=lambda *numbers: seen.append(numbers), **options)
    assert seen == [(done, 7) for done in range(1, 8)]
    monkeypatch.undo()
    whole = make()
    program(whole, **options)
    for area in whole.areas:
        assert torch.equal(parted.winners(area), whole.winners(area)), area
        assert torch.equal(torch.as_tensor(parted.support(area)), torch.as_tensor(whole.support(area)))
    assert kind == "sampled" or all(
        torch.equal(one, two)
        for number in range(whole.batch or 1)
        for one, two in zip(parted.potentiated("A", "B", number), whole.potentiated("A", "B", number), strict=True)
    )


@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_waits_for_the_rounds_of_a_part(kind, in_small_parts, monkeypatch):
    """A signal in the middle of the third part: three rounds are done, as if no more had been asked for."""
    make, options = LONG[kind]
    brain, calls = make(), []
    engine_run = type(brain._engine).run

    def interrupted(self, *arguments):
        found = engine_run(self, *arguments)
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)  # the handler runs here
            brain.state_is_read = True
        return found

    monkeypatch.setattr(type(brain._engine), "run", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        program(brain, **options)
    assert caught.value.__notes__ == ["project: 3 of 7 are done"] and brain.state_is_read
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    same = make()
    same.project({"s": ["A", "B"]}, {"A": list(brain.areas)}, rounds=3, **options)
    for each in (brain, same):
        program(each, **options)
    assert all(torch.equal(brain.winners(area), same.winners(area)) for area in brain.areas)


def test_long_calls_of_other_threads_leave_signals_alone(in_small_parts):
    brain, seen = fired(), []
    worker = threading.Thread(target=program, args=(brain,), kwargs={"progress": lambda *_: seen.append(1)})
    worker.start()
    worker.join()
    assert len(seen) == 7 and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_parts_follow_what_rounds_take(monkeypatch):
    """Rounds take 30 ms, later 2 ms, where 50 are expected: parts of 0.2 s, as if a round took at least 50 / 4 ms."""
    now, parts = [0.0], []

    def run(steps):
        parts.append(steps)
        now[0] += steps * (0.03 if sum(parts) < 20 else 0.002)

    monkeypatch.setattr(_progress.time, "perf_counter", lambda: now[0])
    _progress.in_parts("op", 200, 0.05, run, _progress.unseen)
    assert parts == [4, 6, 6, 6, *[16] * 11, 2]
    parts.clear()
    _progress.in_parts("op", 200, 0.0004, run, _progress.unseen)
    assert parts == [200], "short calls run at once"


def test_progress_counts_all_rounds_of_an_operation(capsys, in_small_parts):
    brain, seen = made(), []
    brain.add_area("C", 200, 10)
    brain.project("s", ["A", "B"])
    brain.merge("A", "B", "C", rounds=4, progress=lambda *numbers: seen.append(numbers))
    assert seen == [(done, 4) for done in range(1, 5)]
    brain.associate("A", "B", "C", rounds=3, progress=True)
    brain.project("A", "B", rounds=2, progress=False)
    brain.pattern_complete("A", rounds=2, progress=lambda *numbers: seen.append(numbers))
    assert seen[4:] == [(1, 2), (2, 2)]
    assert "associate" in (shown := capsys.readouterr().err) and "3/3" in shown and "project" not in shown


def test_normalize_is_done_in_parts_or_not_at_all(in_small_parts, monkeypatch):
    def used():
        brain = fired(batch=2)
        brain.project({"s": "A"}, {"A": ["A", "B"]}, rounds=2)
        brain.project({}, {"B": "B"})
        return brain

    whole, parted, seen = used(), used(), []
    before = copy.deepcopy(dict(parted.state_dict()))
    monkeypatch.setattr(_connect, "_SYNAPSES", 3000.0)

    def stopped(done, total):
        seen.append((done, total))
        if done == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        parted.normalize("B", progress=stopped)
    # 300 p synapses a row and a bit: 97 of the 400 and 300 rows at once, in two brains.
    assert seen == [(done, 18) for done in range(1, 10)] and caught.value.__notes__ == ["normalize: 9 of 18 are done"]
    for name, value in parted.state_dict().items():
        assert torch.equal(value, before[name]) if torch.is_tensor(value) else value == before[name]
    parted.normalize("B", progress=lambda *numbers: seen.append(numbers))
    assert seen[9:] == [(done, 18) for done in range(1, 19)]
    monkeypatch.undo()
    whole.normalize("B")
    for brain in (whole, parted):
        brain.project({"s": "A"}, {"A": ["A", "B"], "B": "B"}, rounds=2)
    assert state(whole) == state(parted)


def test_progress_without_tqdm(capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    made().project("s", "A", rounds=5, progress=True)
    assert capsys.readouterr().err == "\rproject: 5/5\n"
