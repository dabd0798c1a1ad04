"""Calls of a brain that would do nothing or harm are refused, and what numbers, arrays and names it takes."""

import copy

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain


def brain_of(batch=None, mode="exact"):
    brain = Brain(p=0.2, seed=1, mode=mode, batch=batch)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1)
    brain.add_area("B", n=50, k=5)
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    return brain


def seen(brain):
    """Tensors and configuration, copied."""
    return copy.deepcopy(dict(brain.state_dict()))


def assert_same(before, after):
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value) if isinstance(value, torch.Tensor) else after[name] == value, name


def assert_refused(error, match, brain, call, *args, **kwargs):
    """The call raises this text, and the brain is as it was."""
    before = seen(brain)
    with pytest.raises(error, match=f"^{call}: {match}") as caught:
        getattr(brain, call)(*args, **kwargs)
    assert type(caught.value) is error
    assert_same(before, seen(brain))


@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_a_brain_is_not_moved_to_a_device_without_memory(mode):
    brain, module = brain_of(mode=mode), torch.nn.Module()
    module.brain = brain
    before = seen(brain)
    for move in (lambda: brain.to("meta"), lambda: module.to("meta"), lambda: brain.to_empty(device="meta")):
        with pytest.raises(RuntimeError, match=r"^Brain: device must have memory, got meta$"):
            move()
    assert_same(before, seen(brain))
    brain.project({"s": ["A"]})


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize(
    ("call", "args", "got"),
    [
        ("fix_assembly", ["A"], "a fixed 'A'"),
        ("inhibit", ["A"], "an inhibited 'A'"),
        ("inhibit_fiber", ["A", "A"], "an inhibited fiber of 'A'"),
    ],
)
def test_an_assembly_that_could_not_come_back_is_not_taken_apart(batch, call, args, got):
    brain = brain_of(batch)
    getattr(brain, call)(*args)
    assert_refused(ValueError, f"area must be free to fire into itself, got {got}$", brain, "pattern_complete", "A")
    brain.unfix_assembly("A")
    brain.disinhibit("A")
    brain.disinhibit_fiber("A", "A")
    brain.pattern_complete("A")


@pytest.mark.parametrize(
    ("mode", "error", "options", "match"),
    [
        ("sampled", ValueError, {"inhibition_strength": 1.0}, "refracted, .* must not be given in mode 'sampled'$"),
        ("sampled", ValueError, {"inhibition_strength": 1.0, "refractory_period": 2}, "refracted, .* must not"),
        (
            "exact",
            ValueError,
            {"inhibition_strength": 0.5},
            "refractory_period must be at least 1 with inhib.*, got 0$",
        ),
        ("sampled", ValueError, {"ties": "keyed"}, "ties must be 'index' in mode 'sampled', got 'keyed'$"),
        ("exact", ValueError, {"ties": "random"}, "ties must be 'index' or 'keyed', got 'random'$"),
        ("exact", TypeError, {"ties": True}, "ties must be 'index' or 'keyed', got True$"),
        ("exact", TypeError, {"normalize": "no"}, "normalize must be a bool, got str$"),
        ("exact", TypeError, {"normalize": None}, "normalize must be a bool, got NoneType$"),
        ("sampled", TypeError, {"normalize": 0}, "normalize must be a bool, got int$"),
        ("exact", TypeError, {"refracted": ""}, "refracted must be a number, got str$"),
        ("exact", TypeError, {"refracted": "no"}, "refracted must be a number, got str$"),
        ("exact", TypeError, {"refracted": None}, "refracted must be a number, got NoneType$"),
    ],
)
def test_options_of_an_area_that_would_be_ignored_are_refused(mode, error, options, match):
    assert_refused(error, match, brain_of(mode=mode), "add_area", "D", 10, 2, **options)


@pytest.mark.parametrize("mode", ["exact", "sampled"])
@pytest.mark.parametrize(
    ("call", "args"),
    [
        ("project", [{"s": ["A"]}]),
        ("reciprocal_project", "AB"),
        ("associate", "ABC"),
        ("merge", "ABC"),
        ("pattern_complete", "A"),
    ],
)
@pytest.mark.parametrize("rounds", [2**31 - 1, 2**32 + 1, 2**64])
def test_rounds_that_32_bits_do_not_hold_are_refused(mode, call, args, rounds):
    brain = brain_of(mode=mode)
    brain.add_area("C", n=40, k=4)
    match = rf"rounds must be at least 0 and at most {2**31 - 2}, got {rounds}$"
    assert_refused(ValueError, match, brain, call, *args, rounds=rounds)


@pytest.mark.parametrize("name", ["\ud800", "A\udcff"])
def test_names_that_have_no_bytes_are_refused(name):
    for call, sizes in (("add_area", (10, 2)), ("add_stimulus", (10,))):
        assert_refused(ValueError, "name must be text that UTF-8 can encode, got '", brain_of(), call, name, *sizes)


@pytest.mark.parametrize(
    ("call", "args", "kind"),
    [
        *[(call, [["A"]], "area") for call in ("winners", "support", "fix_assembly", "unfix_assembly", "normalize")],
        ("inhibit", [["A", "B"]], "area"),
        ("disinhibit", [["A"]], "area"),
        ("inhibit_fiber", ["A", ["B"]], "target"),
        ("disinhibit_fiber", [{"A"}, "B"], "source"),
        ("pattern_complete", [["A"]], "area"),
        ("activate", [["A"], [1]], "area"),
        ("connect", [["A"], "B"], "source"),
        ("potentiated", ["A", ["B"]], "target"),
        ("fiber_id", ["A", ["B"]], "target"),
        ("reciprocal_project", ["A", ["B"]], "target"),
        ("associate", [["A"], "B", "C"], "a"),
        ("merge", ["A", ["B"], "C"], "b"),
        ("set_beta", [["s"], "A", 0.1], "source"),
        ("set_beta", ["s", ["A"], 0.1], "target"),
        ("stimulus_counts", [["s"], "A"], "stimulus"),
        ("stimulus_weights", [["s"], "A"], "stimulus"),
    ],
)
def test_lists_in_place_of_a_name_are_named(call, args, kind):
    assert_refused(TypeError, rf"{kind} must be a name, got [\[{{]'\w'", brain_of(), call, *args)


def read_only(array):
    array.flags.writeable = False
    return array


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "indices",
    [
        np.arange(1, 5)[::-1],
        np.arange(8)[1:5],
        read_only(np.arange(1, 5)),
        np.arange(1, 5, dtype=np.uint64),
        np.arange(1, 5, dtype=np.uint8),
        torch.arange(1, 5).to(torch.uint64),
        [np.int64(3), 1, np.uint8(2), 4],
        (torch.tensor(4), torch.tensor(3), torch.tensor(2), torch.tensor(1)),
        range(4, 0, -1),
    ],
)
def test_indices_that_are_taken(indices):
    brain = brain_of()
    brain.activate("A", indices)
    assert brain.winners("A").tolist() == [1, 2, 3, 4]


NO_INDICES = [
    ["a"],
    [[1, 2], [3]],
    [None],
    [1j],
    [1.5],
    [True, False],
    b"ab",
    bytearray(b"ab"),
    {1: 2}.keys(),
    np.array(["a"]),
    np.array([None]),
    np.array([1.5]),
    np.array(["2020"], dtype="M8[D]"),
    torch.tensor([1, 2]).to_sparse(),
    torch.zeros(3, dtype=torch.int64, device="meta"),
]


@pytest.mark.parametrize("which", range(len(NO_INDICES)))
def test_what_are_no_indices_is_named(which):
    match = r"indices must be (a (strided )?tensor|integers)"
    assert_refused(TypeError, match, brain_of(), "activate", "A", NO_INDICES[which])


@pytest.mark.parametrize(
    ("indices", "got"),
    [
        ([2**63], 2**63),
        ([3, -(2**63) - 1], -(2**63) - 1),
        ([[1, 2**64]], 2**64),
        (np.array([2**63], dtype=np.uint64), 2**63),
        (torch.tensor([2**62]).to(torch.uint64) * 2, 2**63),
        ([2**31], 2**31),
    ],
)
def test_indices_beyond_64_bits_are_outside_too(indices, got):
    assert_refused(IndexError, rf"indices must be in 0\.\.59, got {got}$", brain_of(), "activate", "A", indices)


@pytest.mark.parametrize("mode", ("exact", "sampled"))
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
    brain = Brain(p=0.1)
    brain.add_stimulus("s", 20)
    brain.add_area("A", 100, 10)
    with pytest.raises(ValueError, match=r"^project: stimulus must be declared, got 'A', which is an area$"):
        brain.project({"A": ["A"]})
    with pytest.raises(ValueError, match=r"^project: area must be declared, got 's', which is a stimulus$"):
        brain.project({}, {"s": ["A"]})
    with pytest.raises(ValueError, match=r"^winners: area must be declared, got 's', which is a stimulus$"):
        brain.winners("s")


def test_views_say_how_what_they_show_is_set():
    brain = Brain(p=0.1)
    for name in "AB":
        brain.add_area(name, 100, 10)
    brain.connect("A", "B")
    for view, name in ((brain.areas["A"], "kk"), (brain.areas["A"], "name"), (brain.fibers["A", "B"], "p")):
        with pytest.raises(AttributeError, match=r"^beta: a view must not be written, brain\.set_beta\("):
            view.beta = 0.3
        with pytest.raises(AttributeError, match=rf"^{name}: a view must not be written"):
            setattr(view, name, 3)
