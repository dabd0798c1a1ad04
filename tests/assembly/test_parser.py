"""The parser: published trees over seeds, batches, words that a user adds, and what is refused."""

import copy
import dataclasses
import pickle

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr.assembly import Grammar, Parser, WordClass, grammar, parse

ENGLISH = {
    "cats chase mice": "chase cats SUBJ, chase mice OBJ",
    "the dogs chase the cats": "chase dogs SUBJ, chase cats OBJ, dogs the DET, cats the DET",
    "dogs are bad": "are dogs SUBJ, are bad ADJ",
    "the big dogs chase the bad cats": "chase dogs SUBJ, chase cats OBJ, dogs the DET, dogs big ADJ, cats the DET, "
    "cats bad ADJ",
    "people quickly run": "run people SUBJ, run quickly ADVERB",
    "mice fly quickly": "fly mice SUBJ, fly quickly ADVERB",
    "the man saw a woman": "saw man SUBJ, saw woman OBJ, man the DET, woman a DET",
    "dogs in mice love cats": "love dogs SUBJ, love cats OBJ, dogs mice PREP_P, mice in PREP",
    "people bite the mice of the big man": "bite people SUBJ, bite mice OBJ, mice the DET, mice man PREP_P, "
    "man of PREP, man the DET, man big ADJ",
    "people run in mice": "run people SUBJ, run mice PREP_P, mice in PREP",
    "dogs chase dogs": "chase dogs SUBJ, chase dogs OBJ",
}
RUSSIAN = {
    "kot vidit sobaku": "vidit kot NOM, vidit sobaka ACC",
    "sobaku lyubit kot": "lyubit kot NOM, lyubit sobaka ACC",
    "vidit kota sobaka": "vidit sobaka NOM, vidit kot ACC",
    "kot sobaku vidit": "vidit kot NOM, vidit sobaka ACC",
    "kot dayet sobakie kota": "dayet kot NOM, dayet sobaka DAT, dayet kot ACC",
    "kotu sobaka dayet kota": "dayet sobaka NOM, dayet kot DAT, dayet kot ACC",
}


COVERED = "must be one that the grammar covers, got"


def dependencies(text):
    return {tuple(each.split()) for each in text.split(", ")}


@pytest.mark.parametrize(("language", "sentences"), [("english", ENGLISH), ("russian", RUSSIAN)])
def test_published_trees_over_ten_seeds(language, sentences):
    expected = [dependencies(text) for text in sentences.values()]
    # With 22 and 93 a determiner fires fewer of its neurons than the published parser asks for.
    for seed in (*range(8), 22, 93):
        assert parse([*sentences], language, seed) == expected, seed


def test_a_sentence_has_the_same_brain_alone_and_in_a_batch():
    parser = Parser(seed=3, n=2000, k=50)
    many = ["the man saw a woman", "cats chase mice", "people quickly run", "cats chase mice"]
    trees = parser.parse(many)
    winners = {area: parser.brain.winners(area) for area in ("SUBJ", "VERB", "OBJ")}
    alone = Parser(seed=3, n=2000, k=50)
    assert alone.parse("Cats chase mice.") == trees[1] == trees[3]
    for area, rows in winners.items():
        assert torch.equal(alone.brain.winners(area)[0], rows[1]) and torch.equal(rows[1], rows[3])
    assert parser.parse([]) == []


def test_locks_decide_who_fires():
    parser = Parser()
    parser.parse("dogs chase cats")
    linked = set(parser.brain.fibers)
    assert {("LEX", "SUBJ"), ("SUBJ", "LEX"), ("VERB", "SUBJ"), ("LEX", "OBJ"), ("VERB", "OBJ")} <= linked
    assert not linked & {("SUBJ", "OBJ"), ("OBJ", "SUBJ"), ("LEX", "LEX"), ("SUBJ", "SUBJ")}
    assert not any(area in ("DET", "ADJ", "PREP", "PREP_P", "ADVERB") for fiber in linked for area in fiber)


def test_what_only_a_new_assembly_reaches_waits_for_it():
    chain = Grammar(
        words={"a": "thing", "b": "deed"},
        classes={"deed": WordClass("LEX-V V-S", "!LEX-V"), "thing": WordClass("LEX-S")},
        dependents={"V": ("S",), "S": ()},
        root="V",
        open_areas=("V", "S"),
    )
    parser = Parser(chain, n=2000, k=50)
    assert parser.parse("b a").dependencies == {("b", "a", "S")}
    # From nothing, the first neurons would have won.
    assert parser.brain.ever_won("S")[0, 0] > 0


def test_a_tree_draws_itself():
    tree = Parser().parse("the dogs chase bad cats")
    assert str(tree).splitlines() == [
        "chase  VERB", "├─ dogs  SUBJ", "│  └─ the  DET", "└─ cats  OBJ", "   └─ bad  ADJ",
    ]  # fmt: skip
    assert tree.words == ["chase", "dogs", "the", "cats", "bad"] and tree.branches[0].label == "SUBJ"
    assert repr(tree).startswith("ParseTree(word='chase'") and len(repr(tree)) <= 200


def test_words_and_grammars_of_a_user():
    more = grammar.ENGLISH.with_words({"goose": ("noun", "geese")}, geese="noun", run="transitive verb")
    assert parse("goose run the geese", more) == dependencies("run geese SUBJ, run geese OBJ, geese the DET")
    assert "geese" not in grammar.ENGLISH.words
    names = grammar.ENGLISH.with_words(Rex="noun", self="noun", words="noun")
    assert parse("The self chase Rex.", names) == dependencies("chase self SUBJ, chase Rex OBJ, self the DET")
    small = Grammar(
        words={"a": "thing", "b": "deed"},
        classes={"thing": WordClass("LEX-S"), "deed": WordClass("LEX-V V-S !LEX-S")},
        dependents={"V": ("S",), "S": ()},
        root="V",
        open_areas=("V", "S"),
    )
    assert parse("a b", small) == {("b", "a", "S")}
    copied = pickle.loads(pickle.dumps(copy.deepcopy(small)))
    assert copied == small and parse("a b", copied) == {("b", "a", "S")}
    for changes, text in (
        ({"words": {"a": "think"}}, "class of 'a' must be 'thing' or 'deed', got 'think'"),
        ({"words": {"a": "thing", "b": ("deed",)}}, "words must be str, .*, got 'b': [(]'deed',[)]"),
        ({"words": {"a": "thing", "b c": "deed"}}, "words must have no blanks and end in no stop, got 'b c'"),
        ({"root": "W"}, "areas must be 'V' or 'S', got 'W'"),
        ({"root": "LEX"}, "areas must be 'V' or 'S', got 'LEX'"),
        ({"small_areas": "S"}, "open_areas and small_areas must be a tuple of areas, got str"),
        ({"dependents": {"V": ("S",), "S": ("V",)}}, r"dependents must not lead back, got \['V', 'S', 'V'\]"),
        ({"classes": {**small.classes, "deed": WordClass("LEX-Q")}}, "areas must be 'LEX', 'V' or 'S', got 'Q'"),
        ({"classes": {**small.classes, "deed": WordClass("LEX>V")}}, "areas must be 'LEX', 'V' or 'S', got 'LEX>V'"),
        ({"classes": {**small.classes, "deed": WordClass("V", needs="Q")}}, "areas must be 'LEX', 'V' or 'S', got 'Q'"),
        ({"classes": {**small.classes, "deed": WordClass("V-S-V")}}, "rules must be such as .*, got 'V-S-V'"),
        ({"classes": {**small.classes, "deed": WordClass("V/one")}}, "rules must be such as .*, got 'V/one'"),
    ):
        with pytest.raises((ValueError, TypeError), match=f"^Grammar: {text}$"):
            dataclasses.replace(small, **changes)


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("", "must have words, got ''"),
        ("cats chase mize", "must be of words that the grammar knows, got 'mize'; is it mice[?]"),
        ("cats vidit mice", "must be of words that the grammar knows, got 'vidit'"),
        ("dogs the", COVERED + " 'dogs the': no place for dogs, the"),
        ("dogs cats chase", COVERED + " 'dogs cats chase': no place for dogs"),
        ("big bad dogs run", COVERED + " 'big bad dogs run': no place for bad while a word waits in ADJ"),
        ("dogs are big bad cats", COVERED + " '.*': no place for bad while a word waits in ADJ"),
        ("dogs are big cats", COVERED + " 'dogs are big cats': more than one place for big"),
        ("dogs are in cats mice", COVERED + " '.*': more than one place for in"),
        ("the dogs are", COVERED + " 'the dogs are': no ADJ or OBJ of are"),
        ("dogs run cats", COVERED + " 'dogs run cats': no place for cats"),
        ("the the dogs run", COVERED + " 'the the dogs run': no place for the while a word waits in DET"),
        ("dogs the chase cats", COVERED + " '.*': no place for chase while a word waits in DET"),
        ("dogs in run cats", COVERED + " '.*': no place for run while a word waits in PREP"),
        ("big the dogs run", COVERED + " '.*': no place for the while a word waits in ADJ"),
        ("chase dogs", COVERED + " 'chase dogs': an area without a word"),
    ],
)
def test_what_is_no_sentence_is_refused(sentence, text):
    parser = Parser()
    for given in (sentence, ["cats chase mice", sentence]):
        with pytest.raises(ValueError, match=f"^parse: sentence {text}$"):
            parser.parse(given)


def test_wrong_arguments():
    for given in (3, None, {"cats run"}, ["cats run", 3], b"cats run"):
        with pytest.raises(TypeError, match=r"^parse: sentence must be a str or a list of str, got "):
            parse(given)
    with pytest.raises(ValueError, match=r"^parse: language must be 'english' or 'russian', got 'latin'$"):
        parse("cats run", language="latin")
    with pytest.raises(TypeError, match=r"^with_words: words must be a mapping, got list$"):
        grammar.ENGLISH.with_words(["birds"])
    with pytest.raises(ValueError, match=r"^Parser: k must be at most n, got 30 and 20$"):
        Parser(n=20, k=30)


def test_progress_counts_words():
    seen = []
    Parser("russian", n=500, k=20).parse(["kot vidit sobaku"], progress=lambda *counts: seen.append(counts))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    parse("cats run", progress=lambda *counts: seen.append(counts))
    assert seen[3:] == [(1, 2), (2, 2)]


def test_the_command_prints_a_tree(capsys):
    assert command_line.main(["parse", "kot vidit sobaku", "--language", "russian"]) == 0
    assert capsys.readouterr().out == "vidit  VERB\n├─ kot  NOM\n└─ sobaka  ACC\n"
    with pytest.raises(SystemExit, match=r"^parse: sentence must be of words"):
        command_line.main(["parse", "kot vidit mice", "--language", "russian"])
