"""Programs of assemblies: what sequences and machines recall, against lists and tables, and what is refused."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch
from pretend_device import PretendCuda

from torch_hrr import IntegrityError
from torch_hrr.assembly import FiniteStateMachine, Parser, SequenceMemory
from torch_hrr.io import files

LETTERS = list("abcdefgh")
SMALL = {"n": 1000, "k": 50, "p": 0.2}
PARITY = {("even", 1): "odd", ("odd", 1): "even", ("even", 0): "even", ("odd", 0): "odd"}


def a_memory(**options):
    return SequenceMemory(2000, 50, 0.1, seed=1, **options).present(LETTERS)


def a_machine(seed=0):
    return FiniteStateMachine(["even", "odd"], [0, 1], PARITY, seed, **SMALL).train(2)


@pytest.mark.parametrize("scaffold", [False, True])
def test_a_sequence_is_recalled_from_any_item(scaffold):
    for seed in range(3):
        memory = SequenceMemory(2000, 50, 0.1, scaffold=scaffold, seed=seed).present(LETTERS, 7)
        assert [memory.recall(item) for item in LETTERS] == [LETTERS[at:] for at in range(len(LETTERS))]


def test_a_scaffold_needs_fewer_repetitions():
    found = [SequenceMemory(**SMALL, scaffold=each).present(LETTERS, 3).recall("a") for each in (False, True)]
    assert len(found[0]) < len(found[1]) == len(LETTERS)


def test_several_sequences_in_one_memory():
    memory = a_memory().present([1, 2, 3])
    assert memory.recall("a") == LETTERS and memory.recall(1) == [1, 2, 3] and memory.items == [*LETTERS, 1, 2, 3]
    assert memory.recall(3) == [3]


def test_recalling_learns_nothing():
    for made, use in ((a_memory(), lambda own: own.recall("a")), (a_machine(), lambda own: own.run([1, 1, 0]))):
        before = [each.clone() for each in made.brain.potentiated(*next(iter(made.brain.fibers)))]
        use(made)
        after = made.brain.potentiated(*next(iter(made.brain.fibers)))
        assert all(map(torch.equal, before, after)) and made.brain.plastic


@pytest.mark.parametrize("seed", range(3))
def test_a_machine_follows_its_table(seed):
    chosen = random.Random(seed)
    states, symbols = list(range(5)), list("wxyz")
    table = {(state, symbol): chosen.choice(states) for state in states for symbol in symbols}
    machine = FiniteStateMachine(states, symbols, table, seed, n=2000, k=50, p=0.2).train(3)
    word, expected = chosen.choices(symbols, k=60), [0]
    for symbol in word:
        expected.append(table[expected[-1], symbol])
    assert machine.trace(word) == expected and machine.run(word) == expected[-1] and machine.run([]) == 0


def test_arcs_share_no_more_than_a_few_neurons():
    machine = a_machine()
    arcs = {}
    for state, symbol in PARITY:
        with machine._resting():
            machine._fire(state, symbol)
        arcs[state, symbol] = set(machine.brain.winners("arc").tolist())
    pairs = [(a, b) for a in PARITY for b in PARITY if a < b]
    assert all(len(arcs[a] & arcs[b]) <= 5 for a, b in pairs) and len(pairs) == 6


def test_the_brain_of_a_machine_computes_by_itself():
    # A word in which the parity of the ones is odd, in the rounds that a user would run.
    machine = a_machine()
    brain = copy.deepcopy(machine).brain
    brain.disable_plasticity()
    brain.activate("state", machine._assemblies["even"])
    for symbol in (1, 0, 0):
        brain.clear("arc")
        brain.project({f"symbol {symbol}": "arc"}, {"state": "arc"})
        brain.project("arc", "state")
    odd = machine._assemblies["odd"]
    assert torch.isin(brain.winners("state"), odd).double().mean() > 0.9


@pytest.mark.parametrize("make", [a_memory, a_machine])
def test_one_goes_on_where_it_was_saved(make, tmp_path):
    def used(own):
        if isinstance(own, SequenceMemory):
            return own.present(["x", *LETTERS[:2]], 4).recall("x"), own.recall("a")
        return own.train(1).trace([1, 1, 1, 0])

    made = make()
    made.brain.add_area("of a user", 100, 10)
    made.save(tmp_path / "program")
    loaded = type(made).load(tmp_path / "program")
    fresh = made._from_settings({**made._settings()}, {}, None)
    fresh.load_state_dict(copy.deepcopy(made.state_dict()))
    others = [loaded, fresh, copy.deepcopy(made), pickle.loads(pickle.dumps(made))]
    expected = used(made)
    for other in others:
        assert used(other) == expected
        fibers = set(made.brain.fibers)
        assert set(other.brain.fibers) == fibers
        for fiber in fibers:
            assert all(map(torch.equal, made.brain.potentiated(*fiber), other.brain.potentiated(*fiber)))


@pytest.mark.parametrize("make", [a_memory, a_machine])
def test_copies_share_nothing_and_states_of_others_are_refused(make):
    made, state = make(), copy.deepcopy(make().state_dict())
    copied = copy.copy(made)
    stimuli = dict(made.brain.stimuli)
    copied.present(["x", "y"], 1) if make is a_memory else copied.train(1)
    assert copied.brain is not made.brain and made.brain.stimuli == stimuli
    kept = copy.deepcopy(made.get_extra_state())
    for changes, error, text in (
        ({"settings": {**kept["settings"], "p": 0.3}}, ValueError, "p must be .*, got 0.3"),
        ({"labels": [1.5, "b"]}, TypeError, "labels must be strings or ints, got 1.5"),
        ({"labels": ["b"]}, ValueError, "assemblies must be one for each of 1 labels"),
        ({"assemblies": [torch.zeros(50).long()] * len(kept["labels"])}, ValueError, "assemblies must be 50 of"),
        ({"more": 1}, ValueError, "_extra_state must hold settings, "),
    ):
        state["_extra_state"] = kept | changes
        with pytest.raises(error, match=f"^load_state_dict: {text}"):
            made.load_state_dict(state)
        assert made.get_extra_state()["labels"] == kept["labels"]


def test_sizes_that_tensors_contradict_are_refused_before_anything_is_made(tmp_path):
    for made, changes in (
        (a_memory(), {"n": 2**31 - 2}),
        (a_memory(), {"k": 40}),
        (a_machine(), {"n": 2**31 - 2}),
        (a_machine(), {"transitions": [[state, 0, "even"] for state in range(10**4)]}),
        (a_machine(), {"symbols": list(range(99))}),
        (a_machine(), {"presentations": 0}),
    ):
        tensors, metadata = made._content()
        files.save(tmp_path / "it", tensors, metadata | changes, format=made.file_format, version=1)
        with pytest.raises(IntegrityError, match=f"must describe a {type(made).__name__}, got "):
            type(made).load(tmp_path / "it")


def test_a_presentation_that_ends_early_counts_as_not_begun():
    machine, whole = (FiniteStateMachine(["even", "odd"], [0, 1], PARITY, **SMALL) for _ in range(2))
    rounds = []

    def end(brain):
        rounds.append(brain)
        if len(rounds) in (15, 70):
            raise KeyboardInterrupt

    handle = machine.brain.register_round_hook(end)
    for done in (0, 3):
        with pytest.raises(KeyboardInterrupt):
            machine.train(9)
        assert machine._learned() == {"presentations": done} and machine.brain.plastic
    handle.remove()
    machine.brain.fix_assembly("state")
    whole.train(3)
    for fiber in whole.brain.fibers:
        assert all(map(torch.equal, machine.brain.potentiated(*fiber), whole.brain.potentiated(*fiber)))
    assert machine.run([1]) == "odd" and not machine.brain.areas["state"].fixed


def test_a_repetition_that_ends_early_leaves_whole_rounds():
    memory = SequenceMemory(**SMALL)

    def end(brain):
        raise KeyboardInterrupt

    handle = memory.brain.register_round_hook(end)
    with pytest.raises(KeyboardInterrupt):
        memory.present(["a", "b"])
    handle.remove()
    assert memory.items == [] and memory.present(["a", "b"], 4).recall("a") == ["a", "b"]


def test_labels_are_those_of_python():
    memory = SequenceMemory(**SMALL).present(np.arange(3), 5)
    memory.present(np.array(["x", "1"]), 5)
    assert {type(item) for item in memory.items} == {int, str} and memory.recall(np.int64(1)) == [1, 2]
    machine = FiniteStateMachine(np.arange(2), ["x"], {(np.int64(0), np.str_("x")): np.int64(1)}, **SMALL)
    assert machine.train(np.bool_(True)) is machine and machine.train(np.int64(2)).trace(np.array(["x"])) == [0, 1]
    assert [type(label) for label in machine.trace(["x"])] == [int, int]


def test_programs_move_to_a_device_that_is_pretended(monkeypatch, tmp_path):
    memory, machine = SequenceMemory(**SMALL).present(list("abc"), 7), a_machine()
    state = copy.deepcopy(machine.state_dict())
    with PretendCuda(monkeypatch):
        memory.to("cuda"), machine.to("cuda")
        assert memory.recall("a") == list("abc") and machine.run([1]) == "odd" and memory.brain.device.type == "cuda"
        memory.present(["x", "y"], 5).save(tmp_path / "it")
        assert SequenceMemory.load(tmp_path / "it", device="cuda").recall("x") == ["x", "y"]
        machine.load_state_dict(state)
        assert machine.run([1]) == "odd"
        assert Parser(device="cuda", n=500, k=20).parse("cats run").words == ["run", "cats"]


def test_what_does_not_learn_refuses_to():
    memory, machine = (
        SequenceMemory(**SMALL).eval(),
        FiniteStateMachine(["q"], ["s"], {("q", "s"): "q"}, **SMALL).eval(),
    )
    with pytest.raises(RuntimeError, match=r"^present: brain must be in train mode and plastic, got one that does not"):
        memory.present(["a"])
    with pytest.raises(RuntimeError, match=r"^train: brain must be in train mode and plastic, got one that does not"):
        machine.train(1)
    memory.train().brain.inhibit("A")
    with pytest.raises(RuntimeError, match=r"^present: areas must be open, got the lock of 'A'$"):
        memory.present(["a"])
    assert memory.items == [] and machine.train(True) is machine and machine.training
    assert machine.train(2).run(["s", "s"]) == "q"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: SequenceMemory(**SMALL).present("abc"), TypeError, "present: items must be a list"),
        (lambda: SequenceMemory(**SMALL).present([1.5]), TypeError, "present: items must be strings or ints"),
        (
            lambda: SequenceMemory(**SMALL).present(["a", "a"]),
            ValueError,
            "present: items must be different",
        ),
        (
            lambda: SequenceMemory(**SMALL).present(["a"], 0),
            ValueError,
            "present: repetitions must be at least 1",
        ),
        (
            lambda: SequenceMemory(**SMALL).recall("a"),
            ValueError,
            "recall: first must be an item",
        ),
        (lambda: a_memory().recall(True), TypeError, "recall: first must be a str or an int, got True"),
        (lambda: a_memory().recall([1]), TypeError, r"recall: first must be a str or an int, got \[1\]"),
        (lambda: a_machine().run([1.0]), TypeError, "run: symbols must be strings or ints, got 1.0"),
        (
            lambda: FiniteStateMachine([0], [0], {(0, False): 0}),
            TypeError,
            "FiniteStateMachine: transitions must be strings or ints, got False",
        ),
        (lambda: SequenceMemory(10, 20), ValueError, "SequenceMemory: k must be"),
        (
            lambda: FiniteStateMachine([], [0], {}),
            ValueError,
            "FiniteStateMachine: states must be different",
        ),
        (lambda: FiniteStateMachine(["q"], [0], {}), ValueError, "FiniteStateMachine: transitions must not be"),
        (
            lambda: FiniteStateMachine(["q"], [0], [0]),
            TypeError,
            "FiniteStateMachine: transitions must be a mapping",
        ),
        (
            lambda: FiniteStateMachine(["q"], [0], {"q": "q"}),
            TypeError,
            "FiniteStateMachine: transitions must be from",
        ),
        (lambda: FiniteStateMachine(["q"], [0], {("q", 1): "q"}), ValueError, ".*known labels, got the symbol 1"),
        (lambda: FiniteStateMachine(["q"], [0], {("q", 0): "r"}), ValueError, ".*known labels, got the state 'r'"),
        (
            lambda: FiniteStateMachine(["q"], [0], {("q", 0): "q"}).run([0]),
            RuntimeError,
            "run: machine must be trained",
        ),
        (lambda: a_machine().run([2]), ValueError, "run: symbols must be known, got 2"),
        (lambda: a_machine().run(1), TypeError, "run: symbols must be a list of symbols, got int"),
        (lambda: a_machine().train(0), ValueError, "train: presentations must be at least 1, got 0"),
    ],
)
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call()


def test_a_transition_that_is_missing_is_said():
    machine = FiniteStateMachine(["a", "b"], ["x"], {("a", "x"): "b"}, **SMALL).train(2)
    assert machine.run(["x"]) == "b"
    with pytest.raises(ValueError, match=r"^run: transitions must lead from 'b' with 'x', got none$"):
        machine.run(["x", "x"])
