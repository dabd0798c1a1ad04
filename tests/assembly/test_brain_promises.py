"""The same seed gives the same winners bit for bit, whatever runs them; memory follows n and not n p."""

import copy
import hashlib
import sys

import pytest
import torch
from brain_programs import assert_same, calls, declared, of_brain, run, state_of, traced
from test_isa import is_available, run_python

from torch_hrr.assembly import Brain

PROGRAM = calls("everything")


def made(**options):
    return declared("everything", **options)


def fingerprint(seen):
    return hashlib.sha256(b"".join(t.numpy().tobytes() for state in seen for t in state.values())).hexdigest()


@pytest.fixture(scope="module")
def expected():
    """What the program shows; every part of it moves something."""
    seen = traced(made(), PROGRAM)
    for (name, *_), before, after in zip(PROGRAM[1:], seen, seen[1:], strict=False):
        if name in {"project", "merge", "associate", "reciprocal_project", "pattern_complete"}:
            assert any(not torch.equal(before[each], after[each]) for each in before if each in after), name
    return seen


@pytest.mark.parametrize(("batch", "n"), [(None, 3000), (3, 3000), (None, 300_000)])
def test_threads(batch, n):
    """Threads share brains, or a large area."""

    def seen(count):
        torch.set_num_threads(count)
        if n == 3000:
            return traced(made(batch=batch), PROGRAM[:9])
        brain = Brain(p=0.002, seed=1)
        brain.add_stimulus("s", size=700)
        brain.add_area("A", n=n, k=700, beta=0.1)
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=8)
        return [brain.winners("A"), *brain.potentiated("A", "A")]

    assert_same(seen(1), seen(3))


def test_a_brain_is_the_same_in_every_batch():
    none, one, three, eight = (made(batch=batch) for batch in (None, 1, 3, 8))
    for name, args, kwargs in PROGRAM:
        results = [getattr(brain, name)(*args, **kwargs) for brain in (none, one, three, eight)]
        if results[0] is not None:
            assert results[0] == float(results[1]) == float(results[3][0]) and torch.equal(results[2], results[3][:3])
        alone = of_brain(one, 0)
        assert alone == of_brain(three, 0) == of_brain(eight, 0)
        assert [of_brain(three, b) for b in (1, 2)] == [of_brain(eight, b) for b in (1, 2)]
        for area in "ABC":
            assert none.winners(area).tolist() == alone[area][0] and none.support(area) == alone[area][1]
    assert_same(tuple(none.potentiated("A", "C")), tuple(eight.potentiated("A", "C", 0)))
    assert len({tuple(row.tolist()) for row in eight.winners("C")}) == 8, "each has a graph of its own"


def test_the_order_of_declarations_and_of_arguments_is_nothing(expected):
    def turned(projections):
        return {source: list(reversed(targets)) for source, targets in reversed(projections.items())}

    steps = [
        (name, tuple(turned(arg) for arg in args) if name == "project" else args, kwargs)
        for name, args, kwargs in PROGRAM
    ]
    assert_same(traced(made(backwards=True), steps), expected)
    brain = made()
    # Fibers that are declared, in another order, before they are needed; and areas that nobody uses.
    for source, target in ("CB", "AC", "BB", "AA"):
        brain.connect(source, target)
    brain.add_area("Z", n=10, k=10)
    brain.add_stimulus("unused", size=3)
    for state, wanted in zip(traced(brain, PROGRAM), expected, strict=True):
        assert_same({name: state[name] for name in wanted}, wanted)


def test_rounds_in_one_call_and_one_by_one(expected):
    apart = made()
    for (name, args, kwargs), wanted in zip(PROGRAM, expected, strict=True):
        for _ in range(kwargs.get("rounds", 1) if name == "project" else 1):
            getattr(apart, name)(*args, **(kwargs if name != "project" else {}))
        assert_same(state_of(apart), {key: each for key, each in wanted.items() if key != "result"})


@pytest.mark.parametrize(("after", "batch"), [(3, None), (12, 2), (17, None), (22, 2)])
def test_a_brain_goes_on_from_a_file_a_state_and_a_copy(after, batch, tmp_path):
    brain = run(made(batch=batch), PROGRAM[:after])
    path = tmp_path / "brain.safetensors"
    brain.save(path)
    loaded = Brain.load(path)
    taken = Brain(p=brain.p, seed=brain.seed, batch=batch)
    taken.load_state_dict(brain.state_dict())
    assert loaded.p == brain.p and loaded.seed == brain.seed and loaded.batch == batch
    others = [loaded, taken, copy.deepcopy(brain)]
    for number, other in enumerate(others):
        other.save(tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == path.read_bytes()
    seen = [state_of(brain), *traced(brain, PROGRAM[after:])]
    for other in others:
        assert_same([state_of(other), *traced(other, PROGRAM[after:])], seen)


SHOW = """
import sys, torch
from torch_hrr import _library
import test_brain_promises as promises
assert _library.build_info()["isa"] == sys.argv[1]
print(promises.fingerprint(promises.traced(promises.made(), promises.PROGRAM)))
"""


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_instruction_sets(isa, expected):
    if not is_available(isa):
        pytest.skip(f"this processor has no {isa}")
    shown = run_python(SHOW, isa, isa=isa)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split() == [fingerprint(expected)]


@pytest.mark.parametrize("seed", [-1, -(2**63), 2**63 + 1, 2**64, -(2**64) + 5])
def test_seeds_are_integers_modulo_two_to_the_64(seed, tmp_path):
    first = made(seed=seed)
    assert_same(traced(first, PROGRAM[:3]), traced(made(seed=seed % 2**64), PROGRAM[:3]))
    first.save(tmp_path / "brain")
    assert_same(state_of(Brain.load(tmp_path / "brain")), state_of(first))


def test_brains_and_seeds_do_not_alias():
    """Brain 1 of seed 0 is not brain 0 of seed 1, nor any other neighbour."""
    shown = set()
    for seed in range(-2, 3):
        brain = run(made(seed=seed, batch=4), PROGRAM[:1])
        shown |= {tuple(row.tolist()) for row in brain.winners("A")}
    assert len(shown) == 5 * 4


MEASURE = """
import resource, sys, torch
from torch_hrr.assembly import Brain
torch.set_num_threads(1)

def brain_of(n, k, p):
    brain = Brain(p=p, seed=0)
    brain.add_stimulus("s", size=k)
    brain.add_area("A", n=n, k=k, beta=0.05)
    return brain

brain_of(1000, 10, 0.1).project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
brain = brain_of(1_000_000, 1000, float(sys.argv[1]))
brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=20)
peak = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
print(peak, sum(buffer.numel() * buffer.element_size() for buffer in brain.buffers()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in KiB on Linux")
@pytest.mark.parametrize("p", [0.1])
def test_memory_follows_the_neurons_and_not_the_synapses(p):
    shown = run_python(MEASURE, p, isa="")
    assert shown.returncode == 0, shown.stderr
    peak, state = map(int, shown.stdout.split())
    budget = 100 * 1_000_000 + 40 * 2**20
    assert 0 < state < budget
    assert peak < budget


@pytest.mark.parametrize("other", [{"seed": 4}, {"p": 0.04}, {"batch": 1}, {}])
def test_a_state_of_another_graph_or_other_declarations_is_refused(other):
    brain = Brain(**{"p": 0.05, "seed": -5, **other}) if other else made()
    if not other:
        brain.add_area("D", n=10, k=2)
    before = copy.deepcopy(brain.get_extra_state())
    with pytest.raises(ValueError, match=f"^load_state_dict: {next(iter(other), 'areas')}"):
        brain.load_state_dict(run(made(), PROGRAM[:3]).state_dict())
    assert brain.get_extra_state() == before


SAMPLED = [step for step in PROGRAM if step[0] not in {"normalize", "activate"}]


def test_sampled_brains_keep_threads_batches_files_and_copies(tmp_path):
    def sampled(batch=None):
        brain = Brain(p=0.05, seed=3, mode="sampled", batch=batch)
        for name, size in (("s", 40), ("t", 55)):
            brain.add_stimulus(name, size=size)
        for name, n, k in (("A", 2000, 40), ("B", 1001, 25), ("C", 800, 40)):
            brain.add_area(name, n, k, 0.1)
        return brain

    one, many, threaded = sampled(1), sampled(3), sampled(1)
    for index, step in enumerate(SAMPLED):
        torch.set_num_threads(1)
        run(one, [step]), run(many, [step])
        torch.set_num_threads(3)
        run(threaded, [step])
        assert of_brain(one, 0) == of_brain(threaded, 0) == of_brain(many, 0)
        if index % 4 == 1:
            one.save(tmp_path / "one")
            one, many = Brain.load(tmp_path / "one"), copy.deepcopy(many)
    assert len({tuple(row.tolist()) for row in many.winners("C")}) == 3
