"""Calls of a brain that would do nothing or harm are refused, and what numbers, arrays and names it takes."""

import copy

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain

MODES = pytest.mark.parametrize("mode", ["exact", "sampled"])


def brain_of(batch=None, mode="exact"):
    brain = Brain(p=0.2, seed=1, mode=mode, batch=batch)
    brain.add_stimulus("s", size=20)
    for name, n, k in (("A", 60, 6), ("B", 50, 5), ("C", 40, 4)):
        brain.add_area(name, n=n, k=k, beta=0.1)
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    return brain


def assert_refused(error, match, brain, call, *args, **kwargs):
    """The call raises this text, and the brain is as it was."""
    before = copy.deepcopy(dict(brain.state_dict()))
    with pytest.raises(error, match=f"^{call}: {match}") as caught:
        getattr(brain, call)(*args, **kwargs)
    assert type(caught.value) is error
    after = brain.state_dict()
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value) if isinstance(value, torch.Tensor) else after[name] == value, name


@MODES
def test_a_brain_is_not_moved_to_a_device_without_memory(mode):
    brain, module = brain_of(mode=mode), torch.nn.Module()
    module.brain, winners = brain, brain.winners("A")
    for move in (lambda: brain.to("meta"), lambda: module.to("meta"), lambda: brain.to_empty(device="meta")):
        with pytest.raises(RuntimeError, match=r"^Brain: device must have memory, got meta$"):
            move()
    assert torch.equal(brain.winners("A"), winners)
    brain.project({"s": ["A"]})


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("args", [("fix_assembly", "A"), ("inhibit", "A"), ("inhibit_fiber", "A", "A")])
def test_an_assembly_that_could_not_come_back_is_not_taken_apart(batch, args):
    brain = brain_of(batch)
    getattr(brain, args[0])(*args[1:])
    assert_refused(ValueError, "area must be free to fire into itself, got .*'A'$", brain, "pattern_complete", "A")
    brain.unfix_assembly("A"), brain.disinhibit("A"), brain.disinhibit_fiber("A", "A")
    brain.pattern_complete("A")


@pytest.mark.parametrize(
    ("mode", "error", "argument", "options"),
    [
        ("sampled", ValueError, "refracted, .*", {"inhibition_strength": 1.0, "refractory_period": 2}),
        ("exact", ValueError, "refractory_period", {"inhibition_strength": 0.5}),
        ("sampled", ValueError, "ties", {"ties": "keyed"}),
        ("exact", ValueError, "ties", {"ties": "random"}),
        ("exact", TypeError, "ties", {"ties": True}),
        ("sampled", TypeError, "normalize", {"normalize": 0}),
        ("exact", TypeError, "refracted", {"refracted": ""}),
    ],
)
def test_options_of_an_area_that_would_be_ignored_are_refused(mode, error, argument, options):
    assert_refused(error, f"{argument} must ", brain_of(mode=mode), "add_area", "D", 10, 2, **options)


@MODES
def test_rounds_that_32_bits_do_not_hold_are_refused(mode):
    brain = brain_of(mode=mode)
    calls = {"project": [{"s": ["A"]}], "reciprocal_project": "AB", "associate": "ABC", "merge": "ABC"}
    for call, args in {**calls, "pattern_complete": "A"}.items():
        for rounds in (2**31 - 1, 2**32 + 1, 2**64):
            assert_refused(ValueError, f"rounds must .*, got {rounds}$", brain, call, *args, rounds=rounds)


def test_too_many_firing_neurons_are_refused():
    brain = brain_of()
    for name in "tu":
        brain.add_stimulus(name, size=2**30)
    brain.project({"t": ["A"]})
    match = r"fewer than 2\^31 neurons must fire into an area, got 2147483648"
    assert_refused(ValueError, match, brain, "project", {"t": ["A"], "u": ["A"]})


@pytest.mark.parametrize("name", ["\ud800", "A\udcff"])
def test_names_that_have_no_bytes_are_refused(name):
    for call, sizes in (("add_area", (10, 2)), ("add_stimulus", (10,))):
        assert_refused(ValueError, "name must be ", brain_of(), call, name, *sizes)


NAMED = [
    ("winners", [["A"]], "area"), ("winners", [{"A"}], "area"), ("pattern_complete", [["A"]], "area"),
    ("activate", [["A"], [1]], "area"), ("connect", [["A"], "B"], "source"), ("potentiated", ["A", ["B"]], "target"),
    ("fiber_id", ["A", ["B"]], "target"), ("reciprocal_project", ["A", ["B"]], "target"),
    ("associate", [["A"], "B", "C"], "a"), ("merge", ["A", ["B"], "C"], "b"), ("set_beta", [["s"], "A", 0.1], "source"),
    ("set_beta", ["s", ["A"], 0.1], "target"), ("stimulus_counts", [["s"], "A"], "stimulus"),
    ("stimulus_weights", [["s"], "A"], "stimulus"),
]  # fmt: skip


def test_lists_in_place_of_a_name_are_named():
    brain = brain_of()
    for call, args, argument in NAMED:
        assert_refused(TypeError, f"{argument} must be a name, got ", brain, call, *args)


TAKEN = [
    np.arange(1, 5)[::-1], np.arange(8)[1:5], np.arange(1, 5, dtype=np.uint64), np.arange(1, 5, dtype=np.uint8),
    torch.arange(1, 5).to(torch.uint64), [np.int64(3), 1, np.uint8(2), 4], tuple(torch.arange(4, 0, -1)),
    range(4, 0, -1), np.frombuffer(np.arange(1, 5).tobytes(), np.int64),
]  # fmt: skip


def test_indices_that_are_taken():
    for indices in TAKEN:
        brain = brain_of()
        brain.activate("A", indices)
        assert brain.winners("A").tolist() == [1, 2, 3, 4]


NO_INDICES = [
    ["a"], [[1, 2], [3]], [None], [1j], [1.5], [True, False], b"ab", bytearray(b"ab"), {1: 2}.keys(), np.array(["a"]),
    np.array([None]), np.array([1.5]), np.array(["2020"], dtype="M8[D]"), torch.tensor([1, 2]).to_sparse(),
    torch.zeros(3, dtype=torch.int64, device="meta"),
]  # fmt: skip


def test_what_are_no_indices_is_named():
    brain = brain_of()
    for wrong in NO_INDICES:
        assert_refused(TypeError, "indices must be ", brain, "activate", "A", wrong)


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        ([3, -(2**63) - 1], -(2**63) - 1),
        ([[1, 2**64]], 2**64),
        (np.array([2**63], dtype=np.uint64), 2**63),
        (torch.tensor([2**62]).to(torch.uint64) * 2, 2**63),
        ([2**31], 2**31),
    ],
)
def test_indices_beyond_64_bits_are_outside_too(indices, got):
    assert_refused(IndexError, rf"indices must be in 0\.\.59, got {got}$", brain_of(), "activate", "A", indices)


@MODES
def test_an_area_that_never_fired_does_not_wake_itself(mode):
    """A forgotten stimulus would make the first k neurons win."""
    brain = Brain(p=0.1, seed=0, mode=mode, batch=2)
    brain.add_stimulus("s", 20)
    for name in "AB":
        brain.add_area(name, 100, 10)
    for areas in ({"A": ["A"]}, {"A": ["A"], "B": ["B"]}):
        with pytest.raises(ValueError, match=r"^project: source area must have winners, got none in 'A' of brain 0$"):
            brain.project({}, areas, rounds=3)
    with pytest.raises(ValueError, match=r"got none in 'B' of brain 0$"):
        brain.project({"s": ["A"]}, {"A": ["A"], "B": ["B"]})
    assert brain.support("A").tolist() == [0, 0]
    brain.project({"s": ["A", "B"]}, {"A": ["A"], "B": ["B"]})
    brain.project({}, {"A": ["A"], "B": ["B"]})


def test_an_area_of_a_torch_brain_wakes_by_its_bias_alone():
    trained = TorchBrain(p=0.1)
    trained.add_area("A", 100, 10)
    with pytest.raises(ValueError, match=r"^project: source area must have winners, got none in 'A'$"):
        trained.project({}, {"A": ["A"]})
    trained.enable_learning()
    with torch.no_grad():
        trained.biases[0][:10] = 1
    trained.project({}, {"A": ["A"]})
    assert trained.winners("A").tolist() == list(range(10))


def test_a_stimulus_is_not_an_area_nor_an_area_a_stimulus():
    for call, args, match in (
        ("project", [{"A": ["A"]}], "stimulus must be declared, got 'A', which is an area$"),
        ("project", [{}, {"s": ["A"]}], "area must be declared, got 's', which is a stimulus$"),
        ("winners", ["s"], "area must be declared, got 's', which is a stimulus$"),
    ):
        assert_refused(ValueError, match, brain_of(), call, *args)


def test_views_say_how_what_they_show_is_set():
    brain = brain_of()
    for view, name in ((brain.areas["A"], "kk"), (brain.areas["A"], "name"), (brain.fibers["A", "A"], "p")):
        with pytest.raises(AttributeError, match=r"^beta: a view must not be written, brain\.set_beta\("):
            view.beta = 0.3
        with pytest.raises(AttributeError, match=rf"^{name}: a view must not be written"):
            setattr(view, name, 3)
