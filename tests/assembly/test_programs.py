"""Programs of assemblies: what sequences and machines recall, against lists and tables, and what is refused."""

import copy
import math
import pickle
import random
from collections import Counter

import numpy as np
import pytest
import torch
from pretend_device import PretendCuda

from torch_hrr import IntegrityError
from torch_hrr.assembly import FiniteStateMachine, Parser, ProbabilisticMachine, SequenceMemory
from torch_hrr.io import files

LETTERS = list("abcdefgh")
SMALL = {"n": 1000, "k": 50, "p": 0.2}
PARITY = {("even", 1): "odd", ("odd", 1): "even", ("even", 0): "even", ("odd", 0): "odd"}


MADE = ["memory", "machine", "chain", "memories", "chains"]


def a_memory(**options):
    return SequenceMemory(2000, 50, 0.1, seed=1, **options).present(LETTERS)


def a_machine(seed=0):
    return FiniteStateMachine(["even", "odd"], [0, 1], PARITY, seed, **SMALL).train(2)


CHAIN = {("a", "x"): {"a": 0.5, "b": 0.5}, ("b", "x"): {"a": 0.2, "b": 0.8}, ("c", "x"): {"c": 0.1, "a": 0.3, "b": 0.6},
         ("a", "y"): {"c": 1}, ("b", "y"): {"c": 1}}  # fmt: skip


def a_chain(seed=0, batch=None):
    return ProbabilisticMachine(list("abc"), list("xy"), CHAIN, seed, n=500, k=20, p=0.3, batch=batch).train(2)


@pytest.mark.parametrize("scaffold", [False, True])
def test_a_sequence_is_recalled_from_any_item(scaffold):
    for seed in range(3):
        memory = SequenceMemory(2000, 50, 0.1, scaffold=scaffold, seed=seed).present(LETTERS, 7)
        assert [memory.recall(item) for item in LETTERS] == [LETTERS[at:] for at in range(len(LETTERS))]


def test_a_scaffold_needs_fewer_repetitions():
    found = [SequenceMemory(**SMALL, scaffold=each).present(LETTERS, 3).recall("a") for each in (False, True)]
    assert len(found[0]) < len(found[1]) == len(LETTERS)


@pytest.mark.parametrize("scaffold", [False, True])
def test_a_memory_of_a_batch_is_the_same_alone(scaffold):
    # Three repetitions are too few for some of them without a scaffold.
    four, alone = (
        SequenceMemory(1000, 50, 0.2, scaffold=scaffold, seed=1, batch=batch).present(LETTERS, 3) for batch in (4, None)
    )
    found = four.recall("a")
    assert found[0] == alone.recall("a") and len({len(items) for items in found}) > 1 - scaffold
    assert all(items == LETTERS[: len(items)] for items in found) and four.recall("h") == [["h"]] * 4


def test_several_sequences_in_one_memory():
    memory = a_memory().present([1, 2, 3])
    assert memory.recall("a") == LETTERS and memory.recall(1) == [1, 2, 3] and memory.items == [*LETTERS, 1, 2, 3]
    assert memory.recall(3) == [3]


def test_recalling_learns_nothing():
    for made, use in (
        (a_memory(), lambda own: own.recall("a")),
        (a_machine(), lambda own: own.run([1, 1, 0])),
        (a_chain(), lambda own: own.run(list("xyx"))),
    ):
        before = {fiber: made.brain.potentiated(*fiber) for fiber in made.brain.fibers}
        use(made)
        assert made.brain.plastic
        for fiber, edges in before.items():
            assert all(map(torch.equal, edges, made.brain.potentiated(*fiber)))


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


@pytest.mark.parametrize("seed", range(3))
def test_frequencies_are_the_probabilities(seed):
    machine, seen = a_chain(seed, batch=8), Counter()
    word = list("xxyx" * 19)
    for states in machine.trace([word] * 8):
        seen.update(zip(states, word, states[1:], strict=False))
    for (state, symbol), following in CHAIN.items():
        count = sum(seen[state, symbol, after] for after in "abc")
        assert count > 30
        for after in "abc":
            share = following.get(after, 0)
            # Fixed in advance: four standard errors.
            off = seen[state, symbol, after] / count - share
            assert abs(off) <= 4 * math.sqrt(share * (1 - share) / count), (state, symbol, after, off)


def test_one_face_of_the_coin_wins_and_each_as_often():
    shares = {("a", "x"): {"a": 0.37, "b": 0.63}}
    for table, faces in ((shares, 100), ({("a", "x"): {"a": 0.2, "b": 0.8}}, 5)):
        machine = ProbabilisticMachine(["a", "b"], ["x"], table, n=50, k=10, batch=25)
        found = []
        for _ in range(faces // 10 or 20):
            machine._flip([*range(25)])
            face = machine.brain.winners("coin") // 47
            assert torch.equal(face[:, :1].expand(-1, 47), face)
            side = (face[:, :1] >= round(faces * table["a", "x"]["a"])).long()
            assert torch.equal(machine.brain.winners("side"), 10 * side + torch.arange(10))
            found.append(face[:, 0])
        counts = torch.stack(found).flatten().bincount(minlength=faces).double()
        # Fixed in advance: chi-square at most four standard deviations above its mean.
        chi_square = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
        assert len(counts) == faces and chi_square <= faces - 1 + 4 * math.sqrt(2 * (faces - 1))


def test_runs_of_a_probabilistic_machine_differ_and_those_of_other_seeds():
    machine, word = a_chain(), list("xxxyxxxxxy")
    kept, alike = copy.deepcopy(machine), copy.deepcopy(machine)
    first, second = machine.trace(word), machine.trace(word)
    assert first != second and first != a_chain(1).trace(word)
    of_batch = a_chain(batch=2).trace([word] * 2)
    assert of_batch[0] == first != of_batch[1]
    # As many flips as symbols, in one run or in several.
    assert kept.run(word[:3]) == first[3] and alike.trace(word) == first
    kept.run(word[3:])
    assert kept.trace(word) == second == alike.trace(word) and kept._flips == [20]


@pytest.mark.parametrize("kind", ["finite", "probabilistic"])
def test_a_machine_of_a_batch_is_the_same_in_every_batch(kind):
    def made(batch):
        if kind == "probabilistic":
            return a_chain(batch=batch)
        return FiniteStateMachine(["even", "odd"], [0, 1], PARITY, **SMALL, batch=batch).train(2)

    words = [list("xxyx"), list("xxxxxx"), []] if kind == "probabilistic" else [[1, 0, 1, 1], [0] * 3, []]
    three, two, alone = made(3), made(2), made(None)
    found = three.trace(words)
    assert found[0] == alone.trace(words[0]) and [len(states) for states in found] == [len(word) + 1 for word in words]
    assert two.trace([words[2], words[1]]) == [found[2], found[1]]
    assert three.run([[], words[0], words[1]])[0] == found[0][0] and three.brain.winners("arc").shape[0] == 3
    assert torch.equal(three.brain.winners("state")[0], three._assemblies[found[0][0]][0])
    if kind == "finite":
        assert found == [["even", "odd", "odd", "even", "odd"], ["even"] * 4, ["even"]]
    with pytest.raises(ValueError, match=r"^load_state_dict: batch must be None, got 3$"):
        alone.load_state_dict(three.state_dict())
    with pytest.raises(ValueError, match=r"^run: symbols must be 3 words, got 2$"):
        three.run(words[:2])
    with pytest.raises(TypeError, match=r"^run: symbols must be a list of symbols, got int$"):
        three.run([1, 0, 1])


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


@pytest.mark.parametrize(
    "make", [a_memory, a_machine, a_chain, lambda: a_memory(batch=2), lambda: a_chain(batch=2)], ids=MADE
)
def test_one_goes_on_where_it_was_saved(make, tmp_path):
    def used(own):
        if isinstance(own, SequenceMemory):
            return own.present(["x", *LETTERS[:2]], 4).recall("x"), own.recall("a")
        word = [1, 1, 1, 0] if isinstance(own._symbols[0], int) else list("xxyx")
        return own.train(1).trace(word if own.brain.batch is None else [word, word[1:]])

    made = make()
    made.brain.add_area("of a user", 100, 10)
    # A chain goes on after flips.
    used(made)
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


@pytest.mark.parametrize("make", [a_memory, a_machine, a_chain], ids=MADE[:3])
def test_copies_share_nothing_and_states_of_others_are_refused(make):
    made, state = make(), copy.deepcopy(make().state_dict())
    copied = copy.copy(made)
    stimuli = dict(made.brain.stimuli)
    copied.present(["x", "y"], 1) if make is a_memory else copied.train(1)
    assert copied.brain is not made.brain and made.brain.stimuli == stimuli
    kept = copy.deepcopy(made.get_extra_state())
    for changes, error, text in (
        ({"settings": {**kept["settings"], "p": 0.31}}, ValueError, "p must be .*, got 0.31"),
        ({"labels": [1.5, "b"]}, TypeError, "labels must be strings or ints, got 1.5"),
        ({"labels": ["b"]}, ValueError, "assemblies must be one for each of 1 labels"),
        ({"assemblies": [torch.zeros(50).long()] * len(kept["labels"])}, ValueError, r"assemblies must be \d+ of"),
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
        (a_machine(), {"batch": 2}),
        (a_chain(), {"flips": [1, 2]}),
        (a_chain(), {"flips": [-1]}),
        (a_chain(), {"transitions": [["a", "x", [["a", 0.37], ["b", 0.63]]]]}),
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
    memory, machine, chain = SequenceMemory(**SMALL).present(list("abc"), 7), a_machine(), a_chain()
    states = copy.deepcopy(chain).trace(list("xx"))
    state = copy.deepcopy(machine.state_dict())
    with PretendCuda(monkeypatch):
        memory.to("cuda"), machine.to("cuda")
        assert memory.recall("a") == list("abc") and machine.run([1]) == "odd" and memory.brain.device.type == "cuda"
        assert chain.to("cuda").trace(list("xx")) == states
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
    assert not machine.train(mode=False).training and machine.train(mode=np.True_).brain.training
    with pytest.raises(TypeError, match=r"^train: mode must be a bool, got int$"):
        machine.train(mode=1)
    assert machine.train(2).run(["s", "s"]) == "q"


def test_what_a_user_locked_or_fixed_does_not_change_what_is_read():
    memory, machine, chain = SequenceMemory(**SMALL, batch=2).present(["a", "b"], 5), a_machine(), a_chain()
    memory.brain.inhibit("A", brains=1)
    with pytest.raises(RuntimeError, match=r"^recall: areas must be open, got the lock of 'A'$"):
        memory.recall("a")
    machine.brain.inhibit("arc")
    with pytest.raises(RuntimeError, match=r"^run: areas must be open, got the lock of 'arc'$"):
        machine.run([1])
    expected = copy.deepcopy(chain).trace(list("xxxxxx"))
    chain.brain.add_area("of a user", 100, 10)
    chain.brain.inhibit("of a user"), chain.brain.inhibit_fiber("of a user", "arc")
    chain.brain.inhibit_fiber("coin", "side")
    for call in (lambda: chain.run(["x"]), lambda: chain.train(1)):
        with pytest.raises(RuntimeError, match=r": fibers must be open, got the lock of \('coin', 'side'\)$"):
            call()
    chain.brain.disinhibit_fiber("coin", "side")
    for area in ("state", "arc", "coin", "side"):
        chain.brain.activate(area, range(5))
        chain.brain.fix_assembly(area)
    assert len({*expected}) > 1 and chain.trace(list("xxxxxx")) == expected


def test_states_that_find_no_room_are_refused():
    table = {(state, "x"): (state + 1) % 20 for state in range(20)}
    machine = FiniteStateMachine(range(20), ["x"], table, n=500, k=25, batch=2)
    with pytest.raises(ValueError, match=r"^train: states must have different assemblies, got one for \d+ and"):
        machine.train(2)
    assert not machine._assemblies and not machine.brain.support("state").any()


def one_state(following):
    return ProbabilisticMachine(["q", "s"], [0], {("q", 0): following}, **SMALL)


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
        (lambda: a_machine().trace([2]), ValueError, "trace: symbols must be known, got 2"),
        (lambda: a_machine().run(1), TypeError, "run: symbols must be a list of symbols, got int"),
        (lambda: a_machine().train(0), ValueError, "train: presentations must be at least 1, got 0"),
        (lambda: one_state(0.5), TypeError, "ProbabilisticMachine: transitions must be to mappings of states to prob"),
        (
            lambda: one_state({"q": 0.9}),
            ValueError,
            "ProbabilisticMachine: probabilities must sum to 1, got {'q': 0.9}",
        ),
        (lambda: one_state({"q": "1"}), TypeError, "ProbabilisticMachine: probability must be a number, got str"),
        (lambda: one_state({"q": 1.5, "r": -0.5}), ValueError, "ProbabilisticMachine: probability must be a finite nu"),
        (lambda: one_state({"r": 1}), ValueError, "ProbabilisticMachine: transitions must be of known labels, got the"),
        (lambda: one_state({"q": 0.999, "s": 0.001}), ValueError, "ProbabilisticMachine: probabilities must not be r"),
        (lambda: one_state({"q": 1, "s": 0}).run([0]), RuntimeError, "run: machine must be trained"),
    ],
)
def test_wrong_arguments(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call()


def test_a_transition_that_is_missing_is_said():
    machine = FiniteStateMachine(["a", "b"], ["x"], {("a", "x"): "b"}, **SMALL).train(2)
    assert machine.run(["x"]) == "b"
    winners = machine.brain.winners("state")
    machine.brain.register_round_hook(lambda *_: pytest.fail("a round"))
    with pytest.raises(ValueError, match=r"^run: transitions must lead from 'b' with 'x', got none$"):
        machine.run(["x", "x"])
    assert torch.equal(machine.brain.winners("state"), winners)
    coin = ProbabilisticMachine(["a", "b", "c"], ["x"], {("a", "x"): {"b": 0.5, "c": 0.5}}, **SMALL).train(2)
    with pytest.raises(ValueError, match=r"^run: transitions must lead from 'b' or 'c' with 'x', got none$"):
        coin.run(["x", "x"])
    assert coin.run(["x"]) in ("b", "c")


@pytest.mark.parametrize("make", [a_memory, a_machine, a_chain], ids=MADE[:3])
@pytest.mark.parametrize("used", [False, True], ids=["fresh", "used"])
def test_a_state_with_a_damaged_brain_leaves_a_program_as_it_was(make, used):
    other = make()
    made = other if used else other._from_settings({**other._settings()}, {}, None)
    brain, before = made.brain, copy.deepcopy(made.state_dict())
    for name, damage in (("brain._extra_state", {"order": []}), ("brain.states.0.winners", 10**6)):
        state = copy.deepcopy(make().state_dict())
        state[name] = {**state[name], **damage} if isinstance(damage, dict) else state[name] + damage
        with pytest.raises(ValueError, match=r"^load_state_dict: "):
            made.load_state_dict(state)
        after = made.state_dict()
        assert made.brain is brain and after.keys() == before.keys()
        for key, value in before.items():
            assert (
                torch.equal(value, after[key]) if isinstance(value, torch.Tensor) else repr(value) == repr(after[key])
            )
