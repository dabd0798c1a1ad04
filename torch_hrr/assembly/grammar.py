"""Grammars of the parser as data: words, their classes, and what each class opens and closes.

Source of both grammars: Mitropolsky, Collins, Papadimitriou, A biologically plausible parser, Transactions of the ACL
9, 2021, and its code.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch_hrr._checks import brief, choice
from torch_hrr._repr import Described

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
    """

    before: str
    after: str = ""
    closed: str = ""


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
        ValueError: A word is of no class, or a rule none or of an area that is not in ``dependents``.
    """

    words: Mapping[str, str | tuple[str, str]]
    classes: Mapping[str, WordClass]
    dependents: Mapping[str, tuple[str, ...]]
    root: str = "VERB"
    open_areas: tuple[str, ...] = ()
    small_areas: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what does not fit together."""
        known = (LEXICON, *self.areas)
        named = {self.root, *self.open_areas, *self.small_areas}.union(*self.dependents.values())
        for each in self.classes.values():
            named.update(
                area for text in (each.before, each.after, each.closed) for rule in rules(text) for area in rule.areas
            )
        for name in sorted(named):
            choice("Grammar", "areas", name, known)
        for word in self.words:
            choice("Grammar", f"class of {word!r}", self.class_of(word), self.classes)

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

    def with_words(self, words: Mapping[str, str | tuple[str, str]] | None = None, **more: str) -> Grammar:
        """A grammar with further words, ``with_words(birds="noun")``; one that is there already gets the new class."""
        return replace(self, words={**self.words, **(words or {}), **more})


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
        "copula": WordClass("LEX-VERB VERB-SUBJ", "!LEX-VERB OBJ !SUBJ ADJ-VERB", _NO_PART_WAITS),
        "adverb": WordClass("ADVERB LEX-ADVERB", "!LEX-ADVERB !ADVERB/1", _NO_PART_WAITS),
        "determiner": WordClass("DET LEX-DET", "!LEX-DET !VERB-ADJ", "DET ADJ"),
        "adjective": WordClass("ADJ LEX-ADJ", "!LEX-ADJ !VERB-ADJ"),
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
adjective and preposition. The subject stands before the verb; a noun or a verb has at most one prepositional phrase."""

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
