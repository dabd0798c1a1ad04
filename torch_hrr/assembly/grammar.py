"""Grammars of the parser as data: words, their classes, and what each class opens and closes.

Source of both grammars: Mitropolsky, Collins, Papadimitriou, A biologically plausible parser, Transactions of the ACL
9, 2021, and its code.
"""

from __future__ import annotations

import functools
import graphlib
import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch_hrr._checks import brief, choice, listed, word
from torch_hrr._repr import Described
from torch_hrr._spec import Instance

LEXICON = "LEX"
"""The area of the words."""


class Rule(NamedTuple):
    """Sets one lock, or takes it away: that of an area, or of the fibers between two areas in both directions."""

    inhibits: bool
    areas: tuple[str, ...]
    lock: int


@dataclass(frozen=True, repr=False)
class WordClass(Described):
    """What the words of a class do to the locks of areas and fibers.

    Rules are separated by blanks: ``DET`` takes lock 0 from an area, ``LEX-SUBJ`` from the fibers between two, ``!DET``
    and ``!LEX-SUBJ`` set it, and ``/1`` behind one names lock 1.

    Attributes:
        before: Rules that apply before a word fires.
        after: Those that apply when it has fired.
        closed: Areas that must be locked when a word comes, else a word there still waits for its head: "dogs the run".
        needs: Areas of which one must have a word that depends on this one: "dogs are".
    """

    before: str
    after: str = ""
    closed: str = ""
    needs: str = ""

    def __post_init__(self) -> None:
        """Refuses what is no text."""
        for name in ("before", "after", "closed", "needs"):
            word("WordClass", name, getattr(self, name))


@functools.lru_cache(256)
def rules(text: str) -> tuple[Rule, ...]:
    """The rules that a text states; ValueError for what is none."""
    made = []
    for part in text.split():
        names, _, lock = part.removeprefix("!").partition("/")
        areas = tuple(names.split("-"))
        if len(areas) > 2 or not all(areas) or not (lock or "0").isdecimal():
            raise ValueError(f"Grammar: rules must be such as LEX-SUBJ, !DET or LEX-SUBJ/1, got {brief(part)}")
        made.append(Rule(part.startswith("!"), areas, int(lock or 0)))
    return tuple(made)


@dataclass(frozen=True, repr=False)
class Grammar(Described):
    """The words of a language and the areas that parse it.

    `with_words` adds words of the classes that there are; ``dataclasses.replace`` changes anything else.

    Attributes:
        words: For each word its class, or its class and its lemma, which stands for it in the tree.
        classes: The classes of words by name.
        dependents: For each area of the tree the areas below it, which are the labels of their words.
        root: The area at the top.
        open_areas: Areas that have no lock before the first word; all other areas and all fibers have lock 0.
        small_areas: Areas with as many winners as a word has, which learn less.

    Raises:
        TypeError: A part is of another type.
        ValueError: A word is none or of no class, a rule none or of an area that is not in ``dependents``, or these
            lead from an area back to itself.
    """

    words: Mapping[str, str | tuple[str, str]]
    classes: Mapping[str, WordClass]
    dependents: Mapping[str, tuple[str, ...]]
    root: str = "VERB"
    open_areas: tuple[str, ...] = ()
    small_areas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what does not fit together."""
        op = "Grammar"
        for name in ("words", "classes", "dependents"):
            _check_mapping(op, name, getattr(self, name))
        wanted = "a tuple of areas"
        below = {area: listed(op, "dependents", each, wanted) for area, each in self.dependents.items()}
        others = (self.open_areas, self.small_areas)
        lists = [*below.values(), *(listed(op, "open_areas and small_areas", each, wanted) for each in others)]
        for name in (self.root, *itertools.chain(*lists)):
            choice(op, "areas", name, self.areas)
        try:
            graphlib.TopologicalSorter(below).prepare()
        except graphlib.CycleError as error:
            raise ValueError(f"{op}: dependents must not lead back, got {brief(error.args[1])}") from None
        known = (LEXICON, *self.areas)
        if len(set(known)) < len(known):
            raise ValueError(f"{op}: areas must be others than {LEXICON!r}, got it in dependents")
        for each in self.classes.values():
            texts = Instance(WordClass)(op, "classes", each)
            for rule in rules(f"{texts.before} {texts.after} {texts.closed} {texts.needs}"):
                for name in rule.areas:
                    choice(op, "areas", name, known)
        for form, given in self.words.items():
            kind, *lemma = given if isinstance(given, tuple) and len(given) == 2 else (given,)
            if not all(isinstance(each, str) for each in (form, kind, *lemma)):
                raise TypeError(f"{op}: words must be str, of a class or a class and a lemma, got {form!r}: {given!r}")
            if split(form) != [form]:
                raise ValueError(f"{op}: words must have no blanks and end in no stop, got {brief(form)}")
            choice(op, f"class of {form!r}", kind, self.classes)

    def _summary(self) -> dict[str, Any]:
        return {"words": self.words.keys(), "classes": self.classes.keys(), "areas": list(self.areas)}

    @property
    def areas(self) -> tuple[str, ...]:
        """The areas beside "LEX"."""
        return tuple(self.dependents)

    def class_of(self, word: str) -> str:
        """The class of a word."""
        given = self.words[word]
        return given if isinstance(given, str) else given[0]

    def lemma_of(self, word: str) -> str:
        """What stands for a word in a tree."""
        given = self.words[word]
        return word if isinstance(given, str) else given[1]

    @property
    def lemmas(self) -> tuple[str, ...]:
        """The lemmas in the order in which the words name them first."""
        return tuple(dict.fromkeys(map(self.lemma_of, self.words)))

    def with_words(self, words: Mapping[str, str | tuple[str, str]] | None = None, /, **more: str) -> Grammar:
        """A grammar with further words, ``with_words(birds="noun")``; one that is there already gets the new class."""
        _check_mapping("with_words", "words", {} if words is None else words)
        return replace(self, words={**self.words, **(words or {}), **more})


def split(sentence: str) -> list[str]:
    """The words of a sentence, which may end in a stop."""
    return sentence.strip(" \t\n.!?").split()


def _check_mapping(op: str, argument: str, given: Any) -> None:
    if not isinstance(given, Mapping):
        raise TypeError(f"{op}: {argument} must be a mapping, got {type(given).__name__}")


def _all(kind: str, words: str) -> dict[str, str]:
    return dict.fromkeys(words.split(), kind)


def _between(areas: Iterable[str], others: str, sign: str = "", lock: int = 0) -> str:
    """A rule for each pair of an area and one of the others."""
    return " ".join(f"{sign}{area}-{other}/{lock}" for other in others.split() for area in areas)


_PARTS = ("LEX", "DET", "ADJ")
_VERB_OPENS = "LEX-VERB VERB-SUBJ VERB-ADVERB ADVERB/1"
_VERB_CLOSES = "!LEX-VERB !SUBJ !ADVERB PREP_P-VERB"
_NO_PART_WAITS = "DET ADJ PREP"

ENGLISH = Grammar(
    words={
        **_all("determiner", "the a"),
        **_all("noun", "dogs cats mice people"),
        **_all("transitive verb", "chase love bite"),
        "of": "preposition",
        **_all("adjective", "big bad"),
        **_all("intransitive verb", "run fly"),
        "quickly": "adverb",
        "in": "preposition",
        "are": "copula",
        **_all("noun", "man woman"),
        "saw": "transitive verb",
    },
    classes={
        "noun": WordClass(
            f"{_between(_PARTS, 'SUBJ OBJ PREP_P')} VERB-OBJ PREP_P-PREP PREP_P-SUBJ PREP_P-OBJ",
            f"!DET !ADJ !PREP_P !PREP {_between(_PARTS, 'SUBJ OBJ PREP_P', '!')} !VERB-OBJ !PREP_P-PREP !PREP_P-VERB "
            f"{_between(_PARTS, 'SUBJ OBJ', lock=1)} !PREP_P-SUBJ !PREP_P-OBJ !VERB-ADJ",
        ),
        "transitive verb": WordClass(_VERB_OPENS, f"{_VERB_CLOSES} OBJ", _NO_PART_WAITS),
        "intransitive verb": WordClass(_VERB_OPENS, _VERB_CLOSES, _NO_PART_WAITS),
        "copula": WordClass(
            "LEX-VERB VERB-SUBJ", "!LEX-VERB OBJ !SUBJ ADJ-VERB PREP_P-VERB", _NO_PART_WAITS, "ADJ OBJ"
        ),
        "adverb": WordClass("ADVERB LEX-ADVERB", "!LEX-ADVERB !ADVERB/1", _NO_PART_WAITS),
        "determiner": WordClass("DET LEX-DET", "!LEX-DET !VERB-ADJ", "DET ADJ"),
        "adjective": WordClass("ADJ LEX-ADJ", "!LEX-ADJ !VERB-ADJ", "ADJ"),
        "preposition": WordClass(
            "PREP LEX-PREP", f"!LEX-PREP PREP_P {_between(_PARTS, 'SUBJ OBJ', '!', 1)}", _NO_PART_WAITS
        ),
    },
    dependents={
        "VERB": ("SUBJ", "OBJ", "PREP_P", "ADVERB", "ADJ"),
        "SUBJ": ("DET", "ADJ", "PREP_P"),
        "OBJ": ("DET", "ADJ", "PREP_P"),
        "PREP_P": ("PREP", "ADJ", "DET"),
        "PREP": (),
        "ADJ": (),
        "DET": (),
        "ADVERB": (),
    },
    open_areas=("SUBJ", "VERB"),
    small_areas=("DET",),
)
"""The words of English and their classes: noun, transitive verb, intransitive verb, copula, adverb, determiner,
adjective and preposition. The subject stands before the verb; a second prepositional phrase is often refused."""

RUSSIAN = Grammar(
    words={
        **_all("verb", "vidit lyubit"),
        **{"kot": "nominative", "kota": ("accusative", "kot"), "kotu": ("dative", "kot")},
        **{"sobaka": "nominative", "sobaku": ("accusative", "sobaka"), "sobakie": ("dative", "sobaka")},
        "dayet": "ditransitive verb",
    },
    classes={
        "verb": WordClass("VERB LEX-VERB VERB-NOM VERB-ACC", "!LEX-VERB"),
        "ditransitive verb": WordClass("VERB LEX-VERB VERB-NOM VERB-ACC VERB-DAT", "!LEX-VERB"),
        "nominative": WordClass("NOM LEX-NOM", "!LEX-NOM"),
        "accusative": WordClass("ACC LEX-ACC", "!LEX-ACC"),
        "dative": WordClass("DAT LEX-DAT", "!LEX-DAT"),
    },
    dependents={"VERB": ("NOM", "ACC", "DAT"), "NOM": (), "ACC": (), "DAT": ()},
)
"""The words of Russian, in Latin letters, and their classes: verb, ditransitive verb, nominative, accusative, dative;
in any order."""

GRAMMARS = {"english": ENGLISH, "russian": RUSSIAN}
"""The grammars by language."""
