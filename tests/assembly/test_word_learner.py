"""Words learned in context: what is said, what is told apart, and what is refused."""

import copy
import pickle
import random

import numpy as np
import pytest
import torch

from torch_hrr.assembly import WordLearner

SMALL = {"n": 10_000, "k": 50, "p": 0.1}
PAIRS = [(noun, verb) for noun in ("dog", "cat") for verb in ("run", "jump")]
WORDS = ["dog", "cat", "run", "jump"]


def a_learner(repetitions=10, **options):
    return WordLearner(WORDS[:2], WORDS[2:], **SMALL | options).hear(PAIRS * repetitions)


def test_words_are_said_and_told_apart():
    for learner in (
        a_learner(seed=1),
        WordLearner(WORDS[:2], WORDS[2:], **SMALL).hear([pair[::-1] for pair in PAIRS] * 10),
    ):
        assert learner.known() == [learner.say(word) for word in WORDS] == WORDS
        assert [learner.word_class(word) for word in WORDS] == ["noun"] * 2 + ["verb"] * 2
        for word, own, other in zip(
            WORDS, ("noun", "noun", "verb", "verb"), ("verb", "verb", "noun", "noun"), strict=True
        ):
            shares = learner.stability(word)
            assert shares[own] > 0.8 > shares[other]


def test_one_that_heard_little_knows_nothing():
    fresh = WordLearner(WORDS[:2], WORDS[2:], **SMALL)
    assert fresh.known() == fresh.hear(PAIRS).known() == [] and fresh.say("dog") is None


def test_words_that_are_always_together_are_not_told_apart():
    learner = WordLearner(["dog"], ["run"], **SMALL).hear([("dog", "run")] * 40)
    assert learner.known() == []


def test_a_larger_lexicon_needs_more_sentences():
    """At the default sizes 53, 96, 146 and 194 for 2, 4, 6 and 8 nouns and as many verbs, in the mean of five seeds."""
    known = {}
    for count in (2, 4):
        chosen = random.Random(0)
        learner = WordLearner(range(count), range(count, 2 * count), **SMALL)
        for sentences in range(45, 45 * count, 45):
            learner.hear([(chosen.randrange(count), count + chosen.randrange(count)) for _ in range(45)])
            known[count, sentences] = len(learner.known())
    assert known[2, 45] == 4 and known[4, 45] < 6 and known[4, 90] == 8


def test_one_goes_on_where_it_was_saved(tmp_path):
    learner = a_learner(2)
    learner.save(tmp_path / "learner")
    fresh = WordLearner(WORDS[:2], WORDS[2:], **SMALL)
    fresh.load_state_dict(copy.deepcopy(learner.state_dict()))
    others = [
        WordLearner.load(tmp_path / "learner"),
        fresh,
        copy.deepcopy(learner),
        pickle.loads(pickle.dumps(learner)),
    ]
    learner.hear(PAIRS)
    for other in others:
        other.hear(PAIRS)
        for fiber in learner.brain.fibers:
            assert all(map(torch.equal, learner.brain.potentiated(*fiber), other.brain.potentiated(*fiber)))


def test_saying_learns_nothing_and_leaves_what_is_fixed_free():
    learner, twin = a_learner(2), a_learner(2)
    learner.known(), learner.stability("dog"), learner.brain.fix_assembly("LEX1")
    for each in (learner, twin):
        each.hear(PAIRS)
    for fiber in twin.brain.fibers:
        assert all(map(torch.equal, learner.brain.potentiated(*fiber), twin.brain.potentiated(*fiber)))


def test_words_may_be_numpys_and_progress_counts_sentences():
    calls = []
    learner = WordLearner(np.arange(2), ["run"], n=200, k=10)
    learner.hear([(np.int64(1), "run")] * 3, progress=lambda *each: calls.append(each))
    assert calls[-1] == (3, 3) and learner.stability(np.int64(1)) == learner.stability(1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda own: WordLearner("ab", ["c"]), TypeError, "WordLearner: nouns must be a list"),
        (lambda own: WordLearner(["a"], []), ValueError, "WordLearner: verbs must be different and at least one"),
        (lambda own: WordLearner(["a"], ["a"]), ValueError, "WordLearner: nouns and verbs must be different"),
        (lambda own: WordLearner(["a"], ["b"], n=10, k=20), ValueError, "WordLearner: k must be"),
        (lambda own: own.hear("dog run"), TypeError, "hear: sentences must be a list of pairs of words, got str"),
        (lambda own: own.hear(["dog run"]), TypeError, "hear: sentences must be a list of pairs of words, got str"),
        (lambda own: own.hear([("dog", 1.5)]), TypeError, "hear: sentences must be pairs of strings or ints, got 1.5"),
        (lambda own: own.hear([("dog", "fly")]), ValueError, "hear: sentences must be known, got 'fly'"),
        (lambda own: own.hear([PAIRS[0], ("dog", "cat")]), ValueError, "hear: sentences must be of a noun and a verb"),
        (lambda own: own.hear([PAIRS[0] * 2]), ValueError, "hear: sentences must be of a noun and a verb"),
        (lambda own: own.eval().hear(PAIRS), RuntimeError, "hear: brain must be in train mode"),
        (lambda own: own.brain.inhibit("LEX1") or own.stability("dog"), RuntimeError, "stability: areas must be open"),
        (lambda own: own.brain.inhibit("PHON") or own.known(), RuntimeError, "say: areas must be open"),
        (lambda own: own.say("fly"), ValueError, "say: word must be known, got 'fly'"),
        (lambda own: own.stability(None), TypeError, "stability: word must be a str or an int, got None"),
    ],
)
def test_what_is_refused(call, error, text):
    learner = WordLearner(WORDS[:2], WORDS[2:], n=200, k=10)
    with pytest.raises(error, match=f"^{text}"):
        call(learner)
    assert not learner.brain.fibers


def test_a_state_with_assemblies_is_refused():
    learner = WordLearner(["a"], ["b"], n=200, k=10)
    state = learner.state_dict()
    state["_extra_state"] = state["_extra_state"] | {"labels": ["a"], "assemblies": [torch.arange(100)]}
    with pytest.raises(ValueError, match=r"^load_state_dict: labels must be none"):
        learner.load_state_dict(state)
