"""Copies of brains that are watched: nobody watches the copy, unless the watcher was copied with it."""

import concurrent.futures
import copy
import multiprocessing
import pickle

import pytest
import torch

from torch_hrr.assembly import Brain, Monitor, TorchBrain, simulator
from torch_hrr.io import files

ONTO_A = ({"s": ["A"]}, {"A": ["A"]})


def pickled(value):
    return pickle.loads(pickle.dumps(value))


def brain_of():
    brain = Brain(p=0.1, seed=4)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 500, 20, 0.1)
    brain.project({"s": ["A"]})
    return brain


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, pickled])
def test_a_copy_of_a_watched_brain_is_not_watched(copied):
    brain = brain_of()
    with Monitor(brain) as monitor:
        other = copied(brain)
        assert not other._hooks and list(brain._hooks.values()) == [monitor._record]
        brain.project(*ONTO_A, rounds=2)
    assert monitor.rounds == 2
    other.project(*ONTO_A, rounds=2)
    assert other.winners("A").equal(brain.winners("A"))


@pytest.mark.parametrize("method", sorted({"spawn", "forkserver"} & set(multiprocessing.get_all_start_methods())))
def test_a_brain_goes_to_a_process_that_is_started(method):
    """torch gives tensors by file descriptors, which have to be open until the process has them."""
    brain = brain_of()
    before = brain.winners("A").clone()
    process = multiprocessing.get_context(method).Process(target=Brain.project, args=(brain, *ONTO_A, 3))
    process.start()
    process.join(100)
    assert process.exitcode == 0 and brain.winners("A").equal(before)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
@pytest.mark.parametrize("attached", [True, False])
def test_a_copied_monitor_watches_its_own_brain(copied, attached):
    monitor = Monitor(brain_of())
    if attached:
        monitor.attach()
    other = copied(monitor)
    assert other._brain is not monitor._brain
    other._brain.project(*ONTO_A, rounds=3)
    assert other.rounds == (3 if attached else 0) and monitor.rounds == 0
    other.detach()
    assert not other._brain._hooks
    monitor._brain.project(*ONTO_A)
    assert monitor.rounds == int(attached)


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_copy_of_a_brain_that_takes_samples_takes_its_own(copied):
    brain = TorchBrain(p=0.1)
    brain.add_area("A", 500, 20)
    brain.brain.activate("A", range(20))
    brain.start_monitoring(interval=0)
    other = copied(brain)
    other.project({}, {"A": ["A"]}, rounds=3)
    assert len(other.brain._hooks) == len(brain.brain._hooks) == 1
    assert other.stop_monitoring()[-1]["rounds"] == 3 and brain.stop_monitoring()[-1]["rounds"] == 0


def test_threads_take_turns_at_a_brain():
    """Every round is whole: what ever won agrees with its count, nothing fails, and the file is read back."""
    brain = Brain(p=0.05, seed=0)
    brain.add_stimulus("s", 20)
    for name in "ABCD":
        brain.add_area(name, 400, 30)
    brain.project({"s": list("ABCD")})

    def work(name):
        for _ in range(10):
            brain.project({"s": [name]}, {name: list("ABCD")})
            brain.inhibit(name)
            brain.disinhibit(name)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(work, "ABCD"))
    for name in "ABCD":
        assert brain.support(name) == len(brain.ever_won(name).unique())
        assert len(brain.winners(name).unique()) == 30


def shared(kind):
    if kind is TorchBrain:
        brain = TorchBrain(p=0.1, learning=True)
    else:
        brain = kind(0.1)
        brain.add_stimulus("s", 40)
    brain.add_area("A", 500, 20, 0.1)
    brain.add_area("B", 500, 20, 0.1)
    drive = torch.randn(500, generator=torch.Generator().manual_seed(0))
    brain.project({"A": drive} if kind is TorchBrain else {"s": ["A"]}, {})
    return brain


class AsksForTheLock:
    """Tells, when it is copied, whether another thread could use the brain meanwhile."""

    def __init__(self, brain):
        self.brain = brain

    def is_free(self):
        def taken():
            free = self.brain._lock._lock.acquire(blocking=False)
            if free:
                self.brain._lock._lock.release()
            return free

        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return pool.submit(taken).result()

    def __deepcopy__(self, memo):
        assert not self.is_free()
        return None


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
@pytest.mark.parametrize("kind", [Brain, TorchBrain, simulator.Brain])
def test_a_copy_is_of_one_moment_and_owns_what_it_changes(kind, copied):
    brain = shared(kind)
    inner = getattr(brain, "brain", brain)
    if copied is not pickled or kind is Brain:
        brain.probe = AsksForTheLock(brain)
    other = copied(brain)
    twin = getattr(other, "brain", other)
    winners = inner.winners("A")
    assert torch.equal(twin.winners("A"), winners) and other._lock is not brain._lock
    twin.inhibit("A", lock=2)
    twin.activate("A", range(5))
    twin.disable_plasticity()
    other.add_area("C", 10, 2)
    assert inner.plastic and list(inner.areas) == ["A", "B"] and not inner.areas["A"].inhibited
    assert torch.equal(inner.winners("A"), winners) and len(getattr(brain, "biases", "12")) == 2


@pytest.mark.parametrize("kind", [Brain, TorchBrain])
def test_a_brain_is_saved_under_its_lock(kind, monkeypatch, tmp_path):
    brain, saved = shared(kind), []
    save = files.save

    def spy(*args, **kwargs):
        saved.append(AsksForTheLock(brain).is_free())
        save(*args, **kwargs)

    monkeypatch.setattr(files, "save", spy)
    brain.save(tmp_path / "brain.safetensors")
    assert saved == [False] and kind.load(tmp_path / "brain.safetensors").winners("A").equal(brain.winners("A"))


def test_what_is_read_of_a_brain_waits_for_its_lock():
    brain = shared(TorchBrain)
    area, monitor = brain.brain.areas["A"], Monitor(brain)
    readers = [
        lambda: brain.brain.areas, lambda: brain.brain.fibers, lambda: brain.brain.plastic, lambda: area.inhibited,
        lambda: area.options, lambda: monitor.history, brain.memory_manager.optimize_layout, brain.brain.state_dict,
    ]  # fmt: skip
    with concurrent.futures.ThreadPoolExecutor(len(readers)) as pool:
        with brain._lock:
            waiting = [pool.submit(reader) for reader in readers]
            done, _ = concurrent.futures.wait(waiting, timeout=0.05)
            assert not done
        for future in waiting:
            future.result()
