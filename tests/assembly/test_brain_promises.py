"""The same seed gives the same winners bit for bit, whatever runs them; memory follows n and not n p."""

import copy
import hashlib
import sys

import pytest
import torch
from test_isa import is_available, run_python

from torch_hrr.assembly import Brain

BOTH = {"A": ["A", "B"], "B": ["A", "B"]}
# Calls that reach every part of the state; areas A, B and C, stimuli s and t.
PROGRAM = [
    ("project", ({"s": ["A"], "t": ["B"]},), {}),
    ("project", ({"s": ["A"], "t": ["B"]}, {"A": ["A"], "B": ["B"]}), {"rounds": 5}),
    ("project", ({"s": ["A"]}, BOTH), {"rounds": 7}),
    ("set_beta", ("A", "B", 0.3), {}),
    ("merge", ("A", "B", "C"), {"rounds": 6}),
    ("fix_assembly", ("A",), {}),
    ("project", ({"t": ["A", "C"]}, BOTH), {"rounds": 3}),
    ("unfix_assembly", ("A",), {}),
    ("normalize", ("B",), {}),
    ("inhibit", ("C",), {"lock": 2}),
    ("project", ({}, {**BOTH, "C": ["C"]}), {"rounds": 4}),
    ("disinhibit", ("C",), {"lock": 2}),
    ("inhibit_fiber", ("A", "B"), {}),
    ("disable_plasticity", (), {}),
    ("project", ({}, BOTH), {"rounds": 2}),
    ("enable_plasticity", (), {}),
    ("disinhibit_fiber", ("A", "B"), {}),
    ("pattern_complete", ("C",), {"rounds": 3}),
    ("activate", ("A", list(range(0, 30, 2))), {}),
    ("project", ({}, {"A": ["A", "B"], "C": ["B", "C"]}), {"rounds": 9}),
]
AREAS = {
    "A": {"n": 3000, "k": 50, "beta": 0.1},
    "B": {"n": 2501, "k": 40, "beta": 0.05, "refracted": 0.25, "w_max": 3.0},
    "C": {"n": 4000, "k": 60, "beta": 0.2, "refractory_period": 3, "inhibition_strength": 1.5},
}
STIMULI = {"s": 50, "t": 77}


def declared(seed=3, batch=None, backwards=False, p=0.04):
    brain = Brain(p=p, seed=seed, batch=batch)
    order = reversed if backwards else list
    for name in order(STIMULI):
        brain.add_stimulus(name, size=STIMULI[name])
    for name in order(AREAS):
        brain.add_area(name, **AREAS[name])
    return brain


def call(brain, step):
    name, args, kwargs = step
    return getattr(brain, name)(*args, **kwargs)


def snapshot(brain):
    """What can be read of a brain: winners and supports of every area, and the potentiated synapses of two fibers."""
    seen = [brain.winners(name) for name in AREAS]
    seen += [torch.as_tensor(brain.support(name)) for name in AREAS]
    for b in range(brain.batch or 1):
        seen += [*brain.potentiated("A", "B", b), *brain.potentiated("C", "C", b)]
    return seen


def trace(brain, steps=PROGRAM):
    seen = []
    for step in steps:
        result = call(brain, step)
        seen += snapshot(brain) + ([] if result is None else [torch.as_tensor(result)])
    return seen


def fingerprint(seen):
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in seen)).hexdigest()


def assert_same(first, second):
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)


def assert_same_brains(first, second, steps=PROGRAM[5:]):
    assert_same(snapshot(first), snapshot(second))
    assert_same(trace(first, steps), trace(second, steps))


@pytest.fixture(scope="module")
def expected():
    """What the program shows; every part of it moves something."""
    brain = declared()
    for step in PROGRAM:
        before = snapshot(brain)
        call(brain, step)
        if step[0] in {"project", "merge", "pattern_complete"}:
            assert any(
                a.shape != b.shape or not torch.equal(a, b) for a, b in zip(before, snapshot(brain), strict=True)
            )
    return trace(declared())


@pytest.mark.parametrize(("batch", "n"), [(None, 3000), (3, 3000), (None, 300_000)])
def test_threads(batch, n):
    """Threads share brains, or a large area."""

    def seen(count):
        torch.set_num_threads(count)
        if n == 3000:
            return trace(declared(batch=batch), PROGRAM[:9])
        brain = Brain(p=0.002, seed=1)
        brain.add_stimulus("s", size=700)
        brain.add_area("A", n=n, k=700, beta=0.1)
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=8)
        return [brain.winners("A"), *brain.potentiated("A", "A")]

    assert_same(seen(1), seen(3))


def of_brain(seen_brain, b):
    return [seen_brain.winners(name)[b] for name in AREAS] + [seen_brain.support(name)[b] for name in AREAS]


def test_a_brain_is_the_same_in_every_batch():
    none, one, three, eight = (declared(batch=batch) for batch in (None, 1, 3, 8))
    for step in PROGRAM:
        results = [call(brain, step) for brain in (none, one, three, eight)]
        alone = [none.winners(name) for name in AREAS] + [torch.tensor(none.support(name)) for name in AREAS]
        for batched in (one, three, eight):
            assert_same(of_brain(batched, 0), alone)
        for b in range(3):
            assert_same(of_brain(three, b), of_brain(eight, b))
        if results[0] is not None:
            assert results[0] == float(results[1]) == float(results[3][0]) and torch.equal(results[2], results[3][:3])
        for b in range(3):
            assert_same(three.potentiated("A", "B", b), eight.potentiated("A", "B", b))
        assert_same(none.potentiated("A", "C"), eight.potentiated("A", "C", 0))
    assert len({tuple(row.tolist()) for row in eight.winners("C")}) == 8, "each has a graph of its own"


def test_the_order_of_declarations_and_of_arguments_is_nothing(expected):
    assert_same(trace(declared(backwards=True)), expected)

    def turned(projections):
        return {source: list(reversed(targets)) for source, targets in reversed(projections.items())}

    steps = [
        (name, tuple(turned(arg) for arg in args) if name == "project" else args, kwargs)
        for name, args, kwargs in PROGRAM
    ]
    assert_same(trace(declared(backwards=True), steps), expected)
    brain = declared()
    # Fibers that are declared, in another order, before they are needed; and areas that nobody uses.
    for source, target in ("CB", "AC", "BB", "AA"):
        brain.connect(source, target)
    brain.add_area("Z", n=10, k=10)
    brain.add_stimulus("unused", size=3)
    assert_same(trace(brain), expected)


def test_rounds_in_one_call_and_one_by_one():
    together, apart = declared(), declared()
    for step in PROGRAM:
        call(together, step)
        name, args, kwargs = step
        if name == "project":
            for _ in range(kwargs.get("rounds", 1)):
                apart.project(*args)
        else:
            call(apart, step)
        assert_same(snapshot(together), snapshot(apart))


@pytest.mark.parametrize(("after", "batch"), [(3, None), (9, 2), (14, None), (18, 2)])
def test_a_brain_goes_on_from_a_file_a_state_and_a_copy(after, batch, tmp_path):
    brain = declared(batch=batch)
    for step in PROGRAM[:after]:
        call(brain, step)
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
    seen = [*snapshot(brain), *trace(brain, PROGRAM[after:])]
    for other in others:
        assert_same([*snapshot(other), *trace(other, PROGRAM[after:])], seen)


SHOW = """
import sys, torch
from torch_hrr import _library
import test_brain_promises as promises
assert _library.build_info()["isa"] == sys.argv[1]
print(promises.fingerprint(promises.trace(promises.declared())))
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
    steps = PROGRAM[:3]
    first = declared(seed=seed)
    seen = trace(first, steps)
    assert_same(seen, trace(declared(seed=seed % 2**64), steps))
    first.save(tmp_path / "brain")
    assert_same(snapshot(Brain.load(tmp_path / "brain")), snapshot(first))


def test_brains_and_seeds_do_not_alias():
    """Brain 1 of seed 0 is not brain 0 of seed 1, nor any other neighbour."""
    shown = set()
    for seed in range(-2, 3):
        brain = declared(seed=seed, batch=4)
        call(brain, PROGRAM[0])
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


def flagged():
    """A brain whose configuration is not the default in any respect."""
    brain = declared()
    for step in PROGRAM[:3]:
        call(brain, step)
    brain.set_beta("s", "A", 0.9)
    brain.fix_assembly("B")
    brain.inhibit_fiber("A", "A")
    brain.disable_plasticity()
    return brain


@pytest.mark.parametrize("other", [{"seed": 4}, {"p": 0.05}, {"batch": 1}])
def test_a_state_of_another_graph_or_other_declarations_is_refused(other):
    for brain, match in ((Brain(**{"p": 0.04, "seed": 3, **other}), next(iter(other))), (declared(), "areas")):
        if brain.p == 0.04 and brain.areas:
            brain.add_area("D", n=10, k=2)
        before = copy.deepcopy(brain.get_extra_state())
        with pytest.raises(ValueError, match=f"^load_state_dict: {match}"):
            brain.load_state_dict(flagged().state_dict())
        assert brain.get_extra_state() == before


def test_a_state_replaces_that_of_a_brain_in_use():
    saved, used = flagged(), declared()
    for step in PROGRAM[:3]:
        call(used, step)
    used.load_state_dict(saved.state_dict())
    assert used.get_extra_state() == saved.get_extra_state()
    assert_same_brains(saved, used)


SAMPLED = [step for step in PROGRAM if step[0] not in {"normalize", "activate"}]


def sampled(batch=None):
    brain = Brain(p=0.04, seed=3, mode="sampled", batch=batch)
    for name, size in STIMULI.items():
        brain.add_stimulus(name, size=size)
    for name, options in AREAS.items():
        brain.add_area(name, **{key: options[key] for key in ("n", "k", "beta")})
    return brain


def read(brain):
    return [brain.winners(name) for name in AREAS] + [torch.as_tensor(brain.support(name)) for name in AREAS]


def test_sampled_brains_keep_threads_batches_files_and_copies(tmp_path):
    one, many, threaded = sampled(), sampled(batch=3), sampled()
    for index, step in enumerate(SAMPLED):
        torch.set_num_threads(1)
        call(one, step), call(many, step)
        torch.set_num_threads(3)
        call(threaded, step)
        assert_same(read(threaded), read(one))
        assert_same([tensor[0] for tensor in read(many)], read(one))
        if index % 4 == 1:
            one.save(tmp_path / "one")
            one, many = Brain.load(tmp_path / "one"), copy.deepcopy(many)
    assert len({tuple(row.tolist()) for row in many.winners("C")}) == 3
