"""Bad input of every call of a brain: a clear error of the right type, and the brain is as it was.

What `takes` refuses is tried in tests/test_spec.py.
"""

import copy
import math

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain

NAN, INF = math.nan, math.inf
BOTH = {"A": ["A", "B"], "B": ["A", "B"]}


MODES = pytest.mark.parametrize("mode", ["exact", "sampled"])


def brain_of(batch=None, mode="exact"):
    """Areas A and B with winners, C without any."""
    brain = Brain(p=0.2, seed=1, batch=batch, mode=mode)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1)
    brain.add_area("B", n=50, k=5, refracted=0.5 * (mode == "exact"))
    brain.add_area("C", n=40, k=4)
    brain.project({"s": ["A", "B"]})
    brain.project({"s": ["A"]}, BOTH, rounds=3)
    return brain


def seen(brain):
    """Tensors and configuration, copied."""
    return copy.deepcopy(dict(brain.state_dict()))


def assert_same(after, before):
    assert after.keys() == before.keys()
    for name, value in before.items():
        assert torch.equal(after[name], value) if isinstance(value, torch.Tensor) else after[name] == value, name


def assert_go_on_alike(brain, twin, areas="ABC"):
    for each in (brain, twin):
        each.project({"s": ["A", "C"]}, BOTH, rounds=4)
    for area in areas:
        assert torch.equal(brain.winners(area), twin.winners(area)) and brain.support(area) == twin.support(area)


def assert_refused(error, match, brain, call, *args, **kwargs):
    """The call raises this text, in the name of the user's call, and the brain is as it was."""
    before = seen(brain)
    with pytest.raises(error, match=f"^{call}: {match}") as caught:
        getattr(brain, call)(*args, **kwargs)
    assert type(caught.value) is error
    assert_same(brain.state_dict(), before)


def bad(name, error, *args, match="", **kwargs):
    """One call that must raise; `match` is part of the text besides the name of the call."""
    shown = ", ".join([*map(repr, args), *(f"{key}={value!r}" for key, value in kwargs.items())])
    return pytest.param(name, error, args, kwargs, match, id=f"{name}({shown})"[:90].replace("\n", " "))


SIZES = {"n": 10, "k": 2}
GRAPH = torch.ones(60, 40)
NESTED = torch.nested.nested_tensor([torch.ones(3)], layout=torch.jagged)


def graph_with(value):
    graph = torch.ones(60, 40)
    graph[3, 4] = value
    return graph


NAMED = [
    ("winners", [["A"]], "area"), ("winners", [{"A"}], "area"), ("pattern_complete", [["A"]], "area"),
    ("activate", [["A"], [1]], "area"), ("connect", [["A"], "B"], "source"), ("potentiated", ["A", ["B"]], "target"),
    ("fiber_id", ["A", ["B"]], "target"), ("reciprocal_project", ["A", ["B"]], "target"),
    ("associate", [["A"], "B", "C"], "a"), ("merge", ["A", ["B"], "C"], "b"), ("set_beta", [["s"], "A", 0.1], "source"),
    ("set_beta", ["s", ["A"], 0.1], "target"), ("stimulus_counts", [["s"], "A"], "stimulus"),
    ("stimulus_weights", [["s"], "A"], "stimulus"),
]  # fmt: skip

CALLS = [
    # Lists in place of a name.
    *[bad(call, TypeError, *args, match=f"{argument} must be a name, got ") for call, args, argument in NAMED],
    # Declarations.
    bad("add_area", ValueError, "D", n=10, k=11, match="k must"),
    bad("add_area", ValueError, "D", refracted=-1, **SIZES, match="refracted"),
    bad("add_area", ValueError, "D", refracted=NAN, **SIZES, match="refracted"),
    bad("add_area", ValueError, "D", refracted=2.0**40, **SIZES, match="refracted"),
    bad("add_area", TypeError, "D", refracted="", **SIZES, match="refracted"),
    bad("add_area", ValueError, "D", inhibition_strength=0.5, **SIZES, match="refractory_period"),
    bad("add_area", ValueError, "A", **SIZES, match="name"),
    bad("add_area", ValueError, "s", **SIZES, match="name"),
    bad("add_area", ValueError, "", **SIZES, match="name"),
    bad("add_area", TypeError, 1, **SIZES, match="name"),
    bad("add_area", TypeError, None, **SIZES, match="name"),
    bad("add_stimulus", ValueError, "s", 10, match="name"),
    bad("add_stimulus", ValueError, "A", 10, match="name"),
    bad("add_stimulus", ValueError, "", 10, match="name"),
    bad("add_stimulus", TypeError, 2, 10, match="name"),
    # Names that have no bytes.
    *[bad("add_stimulus", ValueError, name, 10, match="name must be text") for name in ("\ud800", "A\udcff")],
    bad("add_area", ValueError, "\ud800", **SIZES, match="name must be text"),
    # Reading and hooks.
    bad("clear", ValueError, "Z", match="clear: area"),
    bad("clear", TypeError, None, match="clear: area"),
    bad("clear", ValueError, "A", brains=0, match="clear: brains must not be given without a batch"),
    bad("ever_won", ValueError, "s", match="ever_won: area"),
    bad("inputs", ValueError, "Z", match="inputs: area"),
    bad("inputs", ValueError, "A", ["A"], match="inputs: stimulus"),
    bad("inputs", ValueError, "A", ["s"], ["s"], match="inputs: area"),
    bad("inputs", ValueError, "A", "A", match="inputs: stimulus"),
    bad("inputs", TypeError, "A", [], 1, match="inputs: areas must be a list"),
    bad("weights", ValueError, "A", "Z", match="weights: target"),
    bad("weights", IndexError, "A", "B", [60], match="weights: rows"),
    bad("weights", IndexError, "A", "B", [0], [-1], match="weights: columns"),
    bad("weights", TypeError, "A", "B", [0.5], match="weights: rows"),
    bad("weights", ValueError, "A", "B", [[0]], match="weights: rows"),
    bad("weights", IndexError, "A", "B", [0], [0], 1, match="weights: brain"),
    bad("beta", ValueError, "A", "Z", match="beta: target"),
    bad("beta", ValueError, "Z", "A", match="beta: source"),
    bad("register_round_hook", TypeError, None, match="register_round_hook: hook"),
    # Fibers.
    bad("connect", ValueError, "A", "Z", match="target must be"),
    bad("connect", ValueError, "Z", "A", match="source must be"),
    bad("connect", ValueError, "s", "A", match="source must be"),
    bad("connect", ValueError, "A", "B", match="used"),
    bad("connect", ValueError, "A", "C", edges=torch.ones(40, 60), match="shape"),
    bad("connect", ValueError, "A", "C", edges=torch.ones(60), match="shape"),
    bad("connect", TypeError, "A", "C", edges=[[1.0]], match="edges"),
    bad("connect", TypeError, "A", "C", edges=GRAPH.to(torch.complex64), match="edges"),
    bad("connect", ValueError, "A", "C", edges=GRAPH, p=0.1, match="p must"),
    *[bad("connect", ValueError, "A", "C", edges=graph_with(x), match="edges") for x in (-1, NAN, INF, 2.0**25)],
    bad("connect", ValueError, "A", "C", edges=graph_with(-1).to_sparse(), match="edges"),
    bad("connect", ValueError, "A", "C", edges=graph_with(1.5), w_max=1.25, match="edges must have weights <= w_max"),
    bad("set_beta", ValueError, "A", "Z", 0.1, match="target must be"),
    bad("set_beta", ValueError, "Z", "A", 0.1, match="declared"),
    bad("set_beta", ValueError, "A", "s", 0.1, match="target must be"),
    # Rounds.
    bad("project", ValueError, {"Z": ["A"]}, match="stimulus must be declared"),
    bad("projection", ValueError, {"Z": ["A"]}, match="stimulus must be declared"),
    bad("projection", ValueError, {}, match="something must fire"),
    bad("project", ValueError, {"A": ["A"]}, match="stimulus must be declared, got 'A', which is an area"),
    bad("project", ValueError, {"s": ["Z"]}, match="area must be declared"),
    bad("project", ValueError, {"s": ["A", "s"]}, match="area must be declared"),
    bad("project", ValueError, {}, {"Z": ["A"]}, match="area must be declared"),
    bad("project", ValueError, {}, {"s": ["A"]}, match="area must be declared, got 's', which is a stimulus"),
    bad("project", ValueError, {}, {"A": ["Z"]}, match="area must be declared"),
    bad("project", ValueError, {"s": ["A"]}, {"A": ["A"], "C": ["B"]}, match="winners"),
    bad("project", ValueError, {"s": ["C"]}, {"C": ["C", "B"]}, 5, match="winners"),
    bad("project", TypeError, ["s"], match="stimuli"),
    bad("project", ValueError, {"s": "Z"}, match="area must"),
    bad("project", TypeError, {1: ["A"]}, match="stimulus must be a name"),
    bad("project", TypeError, {"s": ["A", 1]}, match="area must be a name"),
    bad("project", ValueError, "Z", "A", match="source must"),
    bad("project", ValueError, "s", "Z", match="area must"),
    bad("project", TypeError, "s", match="areas must"),
    bad("project", TypeError, "s", {"A": "A"}, match="areas must"),
    bad("project", TypeError, {"s": "A"}, progress="yes", match="progress must"),
    bad("project", TypeError, {"s": "A"}, external=torch.zeros(60), match="external must"),
    bad("project", ValueError, {"s": "A"}, external={"Z": torch.zeros(60)}, match="area must"),
    bad("project", ValueError, {"s": "A"}, external={"A": torch.zeros(61)}, match="shape"),
    bad("project", ValueError, {"s": "A"}, external={"A": torch.full((60,), NAN)}, match="finite"),
    bad("project", TypeError, {"s": "A"}, external={"A": torch.zeros(60).to_sparse()}, match="dense"),
    bad("project", TypeError, {"s": 1}, match="areas for each name"),
    bad("project", TypeError, {}, ["A"], match="areas"),
    bad("project", TypeError, {}, {"A": None}, match="areas for each name"),
    # Reading and setting.
    *[bad(name, ValueError, "Z", match="area") for name in ("winners", "support", "fix_assembly", "unfix_assembly")],
    *[bad(name, ValueError, "Z", match="area") for name in ("inhibit", "disinhibit", "normalize", "pattern_complete")],
    bad("winners", ValueError, "s", match="area must be declared, got 's', which is a stimulus"),
    bad("winners", TypeError, 3, match="area"),
    bad("activate", ValueError, "Z", [1], match="area"),
    bad("activate", IndexError, "A", [60], match="indices"),
    bad("activate", IndexError, "A", [0, -1], match="indices"),
    bad("activate", IndexError, "A", torch.tensor([2**62]), match="indices"),
    bad("activate", ValueError, "A", [3, 4, 3], match="distinct"),
    bad("activate", ValueError, "A", list(range(7)), match="indices"),
    bad("activate", ValueError, "A", torch.zeros(0, dtype=torch.int64), match="indices"),
    bad("activate", ValueError, "A", torch.zeros(2, 2, dtype=torch.int64), match="shape"),
    bad("activate", ValueError, "A", torch.tensor(3), match="shape"),
    bad("activate", TypeError, "A", [1.0, 2.0], match="indices"),
    bad("activate", TypeError, "A", torch.ones(6), match="indices"),
    bad("activate", TypeError, "A", torch.ones(6, dtype=torch.bool), match="indices"),
    bad("fiber_id", ValueError, "A", "s", match="target must be"),
    bad("fiber_id", ValueError, "s", "A", match="source must be"),
    *[bad(name, ValueError, "s", "Z", match="area") for name in ("stimulus_counts", "stimulus_weights")],
    *[bad(name, ValueError, "A", "A", match="stimulus") for name in ("stimulus_counts", "stimulus_weights")],
    bad("potentiated", ValueError, "A", "Z", match="target must be"),
    bad("potentiated", IndexError, "A", "A", 1, match="brain"),
    bad("project", TypeError, 0, match="project: stimuli must be a mapping"),
    # What torch can tell the sizes or values of only with an error of its own.
    bad("project", TypeError, {"s": NESTED}, match="areas"),
    bad("inputs", TypeError, "A", (), NESTED, match="areas must be a list"),
    *[bad("connect", TypeError, "A", "C", edges=edges, match="edges") for edges in (NESTED, GRAPH.to("meta"))],
    bad("merge", TypeError, "A", "B", "C", stimuli="", match="merge: stimuli must be a mapping"),
    bad("potentiated", TypeError, "A", "A", 0.0, match="brain"),
    # Inhibition.
    bad("fix_assembly", ValueError, "C", match="winners"),
    bad("inhibit_fiber", ValueError, "A", "Z", match="target must be"),
    bad("inhibit_fiber", ValueError, "s", "A", match="source must be"),
    bad("disinhibit_fiber", ValueError, "Z", "A", match="source must be"),
    # Operations.
    bad("associate", ValueError, "A", "A", "C", match="different"),
    bad("merge", ValueError, "A", "B", "A", match="different"),
    bad("reciprocal_project", ValueError, "A", "A", match="different"),
    *[bad(name, ValueError, "A", "C", "B", match="winners") for name in ("associate", "merge")],
    *[bad(name, ValueError, "A", "Z", "C", match="b must be") for name in ("associate", "merge")],
    *[bad(name, ValueError, "A", "B", "C", stimuli={"Z": ["A"]}, match="stimulus") for name in ("associate", "merge")],
    bad("reciprocal_project", ValueError, "C", "A", match="winners"),
    bad("reciprocal_project", ValueError, "A", "Z", match="target must be"),
    bad("pattern_complete", ValueError, "C", match="winners"),
]


@pytest.fixture(scope="module")
def used():
    """One brain for all bad calls, and the state in which they leave it."""
    brain = brain_of()
    yield brain, seen(brain)
    assert_go_on_alike(brain, brain_of())


@pytest.mark.parametrize(("name", "error", "args", "kwargs", "match"), CALLS)
def test_a_bad_call_raises_and_changes_nothing(used, name, error, args, kwargs, match):
    brain, before = used
    with pytest.raises(error) as caught:
        getattr(brain, name)(*args, **kwargs)
    assert type(caught.value) is error
    text = str(caught.value)
    # The user's call, whatever it is made of.
    assert text.startswith(f"{name}: ") and match in text, text
    assert_same(brain.state_dict(), before)


def test_every_public_call_of_a_brain_is_here():
    own = {
        name
        for base in (Brain, *Brain.__mro__)
        if base.__module__.startswith("torch_hrr.assembly")
        for name in vars(base)
        if not name.startswith("_")
    }
    # These take nothing that can be wrong, are other names, or have tests of their own.
    others = {
        "enable_plasticity", "disable_plasticity", "save", "load",
        "load_state_dict", "state_dict", "extra_repr", "get_extra_state", "set_extra_state", "p", "seed", "seeds",
        "mode", "batch", "device", "areas", "stimuli", "fibers", "plastic", "version", "file_format",
    }  # fmt: skip
    assert own - others <= {param.values[0] for param in CALLS}


@pytest.mark.parametrize("p", [0, 1, 0.0, 1.0])
def test_the_ends_of_p(p):
    brain = Brain(p=p)
    brain.add_stimulus("s", size=5)
    brain.add_area("A", n=40, k=4)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=5)
    assert brain.winners("A").tolist() == [0, 1, 2, 3] and brain.support("A") == 4


def test_the_smallest_and_the_fullest_area():
    brain = Brain(p=0.5)
    brain.add_stimulus("s", size=0)
    brain.add_area("A", n=1, k=1)
    brain.add_area("B", n=9, k=9, beta=0)
    brain.project({"s": ["A", "B"]}, {"A": ["A"], "B": ["B"]}, rounds=5)
    assert brain.winners("A").tolist() == [0] and brain.winners("B").tolist() == list(range(9))


def test_no_rounds_and_nothing_to_do_change_nothing():
    brain, twin = brain_of(), brain_of()
    before = seen(brain)
    brain.project({"s": ["A"]}, rounds=0)
    brain.project()
    brain.project({"s": []}, {"A": []}, rounds=5)
    assert_same(brain.state_dict(), before)
    assert_go_on_alike(brain, twin)


@pytest.mark.parametrize(
    "indices", [torch.zeros(2, 6), torch.zeros(3, 2, dtype=torch.int64), torch.ones(1, 2, 2).long()]
)
def test_indices_of_a_batch_of_another_shape(indices):
    brain, twin = brain_of(batch=2), brain_of(batch=2)
    winners = brain.winners("A")
    with pytest.raises((ValueError, TypeError), match="indices"):
        brain.activate("A", indices)
    assert torch.equal(brain.winners("A"), winners) and torch.equal(winners, twin.winners("A"))


def test_a_batch_reads_its_own_brains():
    brain = brain_of(batch=2)
    with pytest.raises(IndexError, match="brain must"):
        brain.potentiated("A", "A", 2)
    brain.activate("A", torch.tensor([[3, 1], [2, 5]]))
    assert brain.winners("A").tolist() == [[1, 3], [2, 5]]
    brain.activate("A", [7, 4])
    assert brain.winners("A").tolist() == [[4, 7]] * 2


def test_a_bias_never_turns_into_its_opposite():
    brain = Brain(p=0.2)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0, refracted=2.0**20)
    for _ in range(40):
        before = brain.winners("A")
        brain.project({"s": ["A"]})
        assert not torch.isin(before, brain.winners("A")).any()


def test_targets_may_be_given_by_a_generator():
    brain, twin = brain_of(), brain_of()
    brain.project({"s": (name for name in "ABC")}, {"A": iter("AB")}, rounds=3)
    twin.project({"s": ["A", "B", "C"]}, {"A": ["A", "B"]}, rounds=3)
    for area in "ABC":
        assert torch.equal(brain.winners(area), twin.winners(area))


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("add_area", ("D",), {"n": 9, "k": 2, "refracted": True}),
        ("add_area", ("D",), {"n": 9, "k": 2, "normalize": True}),
        ("add_area", ("D",), {"n": 9, "k": 2, "refractory_period": 1}),
        ("connect", ("A", "B"), {"p": 0.5}),
        ("normalize", ("A",), {}),
        ("potentiated", ("A", "A"), {}),
        ("stimulus_counts", ("s", "A"), {}),
        ("stimulus_weights", ("s", "A"), {}),
        ("activate", ("A", [60]), {}),
        ("project", ({"s": ["A"]}, {"C": ["A"]}), {}),
        ("add_area", ("A",), {"n": 9, "k": 2}),
        ("add_area", ("D",), {"n": 9, "k": 2, "ties": "keyed"}),
        ("add_area", ("D",), {"n": 9, "k": 2, "inhibition_strength": 1.0, "refractory_period": 2}),
        ("add_stimulus", ("s", 3), {}),
    ],
)
def test_a_bad_call_of_a_sampled_brain(name, args, kwargs):
    brain = brain_of(mode="sampled")
    assert_refused((ValueError, IndexError)[name == "activate"], "", brain, name, *args, **kwargs)
    assert_go_on_alike(brain, brain_of(mode="sampled"))


@pytest.mark.parametrize(
    ("name", "names", "locked"),
    [("merge", "ABC", ["AC", "BC"]), ("reciprocal_project", "AC", ["AC"])],
)
def test_operations_that_fail_in_their_second_round_do_not_begin(name, names, locked):
    brain, twin = brain_of(), brain_of()
    for each in (brain, twin):
        for pair in locked:
            each.inhibit_fiber(*pair)
    before = seen(brain)
    with pytest.raises(ValueError, match="source area must have winners, got none in 'C'"):
        getattr(brain, name)(*names, rounds=2)
    assert_same(brain.state_dict(), before)
    assert_go_on_alike(brain, twin)


def test_operations_count_what_fires_in_every_round_before_the_first():
    brain = Brain(p=0.0)
    brain.add_stimulus("s", size=2**31 - 2)
    for area in "ABC":
        brain.add_area(area, n=9, k=1)
        brain.activate(area, [3])
    with pytest.raises(ValueError, match="fewer than"):
        brain.merge("A", "B", "C", stimuli={"s": ["A"]})
    assert brain.winners("C").tolist() == [3] and not brain._network.fibers


@pytest.mark.parametrize("name", ["merge", "associate"])
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_operations_of_few_rounds(name, rounds):
    brain, twin = brain_of(), brain_of()
    getattr(brain, name)("A", "B", "C", rounds=rounds)
    together = {"A": ["A", "C"], "B": ["B", "C"]}
    if rounds:
        twin.project({}, together)
    if rounds == 2:
        twin.project({}, {**together, "C": ["C", "A", "B"] if name == "merge" else ["C"]})
    for area in "ABC":
        assert torch.equal(brain.winners(area), twin.winners(area)) and brain.support(area) == twin.support(area)


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


def test_too_many_firing_neurons_are_refused():
    brain = brain_of()
    for name in "tu":
        brain.add_stimulus(name, size=2**30)
    brain.project({"t": ["A"]})
    match = r"fewer than 2\^31 neurons must fire into an area, got 2147483648"
    assert_refused(ValueError, match, brain, "project", {"t": ["A"], "u": ["A"]})


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


def test_views_say_how_what_they_show_is_set():
    brain = brain_of()
    for view, name in ((brain.areas["A"], "kk"), (brain.areas["A"], "name"), (brain.fibers["A", "A"], "p")):
        with pytest.raises(AttributeError, match=r"^beta: a view must not be written, brain\.set_beta\("):
            view.beta = 0.3
        with pytest.raises(AttributeError, match=rf"^{name}: a view must not be written"):
            setattr(view, name, 3)
