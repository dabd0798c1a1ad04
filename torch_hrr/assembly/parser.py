"""A dependency parser of assemblies: words fire in turn, and locks decide which areas and fibers take part."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, overload

import torch

from torch_hrr._checks import brief, choice, listed, named, near
from torch_hrr._progress import Progress, Tick, ticking
from torch_hrr._repr import Described
from torch_hrr._spec import Device, Int, Real, Seed, takes
from torch_hrr.assembly._network import inhibited
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.grammar import GRAMMARS, LEXICON, Grammar, Rule, rules, split

Dependencies = set[tuple[str, str, str]]
Sentences = list[str] | tuple[str, ...]
Fibers = tuple[tuple[str, str], ...]
Firing = dict[tuple[str, str], set[int]]
"""The brains in which fibers fire."""

_WORD_WINNERS = 20
# How many of a word's neurons stand for it when they fire again: most. The published parser asks for 70 percent, which
# one brain of a hundred misses: 20 winners of a small area have no synapse onto a neuron with (1 - p)^20, .12.
_KNOWN = _WORD_WINNERS // 2 + 1
# Published plasticities: of and to words, within an area, between two areas, and of small areas.
_OF_WORDS, _WITHIN, _BETWEEN, _SMALL = 1.0, 0.05, 0.5, 0.2


@dataclass(frozen=True, repr=False)
class ParseTree(Described):
    """A word, how it depends on the one above, and the trees of the words below; ``print`` draws it.

    Attributes:
        word: The word, or the lemma of its form.
        label: Its area, such as "SUBJ"; that of the root is "VERB".
        branches: The trees below, in the order of `Grammar.dependents`.
    """

    word: str
    label: str
    branches: tuple[ParseTree, ...] = ()

    @property
    def dependencies(self) -> Dependencies:
        """The set of all ``(word, word that depends on it, label)``."""
        below = {(self.word, branch.word, branch.label) for branch in self.branches}
        return below.union(*(branch.dependencies for branch in self.branches))

    @property
    def words(self) -> list[str]:
        """All words, this one first."""
        return [self.word, *(word for branch in self.branches for word in branch.words)]

    def __str__(self) -> str:
        """A line for each word, with its label, below that on which it depends."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.word}  {self.label}"
        for branch in self.branches:
            last = branch is self.branches[-1]
            first, *rest = branch._lines()
            yield f"{'└─' if last else '├─'} {first}"
            yield from (f"{'  ' if last else '│ '} {line}" for line in rest)


class Parser(Described):
    """Parses sentences by assemblies of neurons into trees of dependencies.

    A word is a fixed assembly of 20 neurons in the area LEX, every other area forms assemblies. Each word fires for
    ``rounds`` rounds through all fibers between areas without locks, in both directions. Before and after them its
    class sets and takes locks, so that a noun forms an assembly in SUBJ before the verb and in OBJ after it; the verb's
    is linked with both. To read the tree out, plasticity is disabled, VERB fires into LEX and into the areas that it
    was linked with, these do the same, and so on; a word is known by more than half of its neurons.

    Several sentences are parsed together, in one batch of brains; sentences whose words are of the same classes so far
    share their rounds. The brain of each is that of its seed, whatever the others are.

    A sentence that the grammar does not cover leaves words without a place in the tree, or areas that no word fired
    into, and is refused. Deterministic in the grammar, the seed and the sentence, also across devices as `Brain`.

    Attributes:
        grammar: The grammar.
        brain: The `Brain` of the latest call, a batch with one brain for each sentence; None before.

    Source: Mitropolsky, Collins, Papadimitriou, A biologically plausible parser, Transactions of the ACL 9, 2021.
    """

    @takes(seed=Seed(), n=Int(_WORD_WINNERS, 2**31 - 2), k=Int(1), p=Real(0, 1), rounds=Int(2), device=Device())
    def __init__(
        self,
        language: str | Grammar = "english",
        seed: int = 0,
        *,
        n: int = 10_000,
        k: int = 100,
        p: float = 0.1,
        rounds: int = 20,
        device: torch.device | str | int | None = "cpu",
    ) -> None:
        """Keeps the settings; brains are made by `parse`.

        Args:
            language: "english", "russian" or a `Grammar`.
            seed: Seed of the brains, any int, modulo 2^64.
            n: Neurons of each area but LEX.
            k: Winners of each area but LEX and small ones, at most n.
            p: Density of the connectome.
            rounds: Rounds for each word.
            device: As for `Brain`.
        """
        if k > n:
            raise ValueError(f"Parser: k must be at most n, got {k} and {n}")
        if not isinstance(language, Grammar):
            language = GRAMMARS[choice("Parser", "language", language, GRAMMARS)]
        self.grammar = language
        self.seed, self.n, self.k, self.p, self.rounds, self.device = seed, n, k, p, rounds, device
        self.brain: Brain | None = None

    def _summary(self) -> dict[str, Any]:
        grammar = next((name for name, each in GRAMMARS.items() if each is self.grammar), self.grammar)
        return {"grammar": grammar, "seed": self.seed, "n": self.n, "k": self.k, "p": self.p, "rounds": self.rounds}

    @overload
    def parse(self, sentence: str, progress: Progress = None) -> ParseTree: ...
    @overload
    def parse(self, sentence: Sentences, progress: Progress = None) -> list[ParseTree]: ...
    def parse(self, sentence: str | Sentences, progress: Progress = None) -> ParseTree | list[ParseTree]:
        """The tree of a sentence, or the trees of several.

        Args:
            sentence: Words of the grammar separated by blanks, also with capitals and with a full stop; or several
                such sentences.
            progress: As for `Brain.project`, but counts the words of the longest sentence.

        Raises:
            TypeError: Neither a str nor several.
            ValueError: A sentence is empty, has a word that the grammar does not know, or is not covered by it.

        Cost: For each word ``rounds`` rounds of the areas that take part, with the default sizes about 10 ms, or 2 ms a
        sentence in a batch; 2 MB for a sentence, 3 MB for each of a batch, whose brains have memory for every area.
        """
        op = "parse"
        tick = ticking(op, progress)
        alone = isinstance(sentence, str)
        texts = [sentence] if alone else listed(op, "sentence", sentence, "a str or a list of str")
        given = [self._words(op, text) for text in texts]
        # Once a call: a user may add words to the mapping between two.
        self._lemmas = self.grammar.lemmas
        self.brain = brain = self._made(len(given)) if given else None
        trees = [] if brain is None else self._parsed(brain, given, tick)
        for words, tree in zip(given, trees, strict=True):
            if why := self._missing(words, tree):
                raise _uncovered(" ".join(words), why)
        return trees[0] if alone else trees

    def _missing(self, words: list[str], tree: ParseTree) -> str:
        """What a tree lacks of a sentence, or has too much."""
        left = Counter(map(self.grammar.lemma_of, words))
        left.subtract(tree.words)
        if placeless := [word for word, count in left.items() if count > 0]:
            return f"no place for {', '.join(placeless)}"
        if more := [word for word, count in left.items() if count < 0]:
            return f"more than one place for {more[0]}" if more[0] else "an area without a word"
        labels = {(above, label) for above, _, label in tree.dependencies}
        for word in words:
            needs = self.grammar.classes[self.grammar.class_of(word)].needs.split()
            if needs and not any((self.grammar.lemma_of(word), label) in labels for label in needs):
                return f"no {' or '.join(needs)} of {word}"
        return ""

    def _words(self, op: str, text: Any) -> list[str]:
        if not isinstance(text, str):
            raise TypeError(f"{op}: sentence must be a str or a list of str, got {brief(text)}")
        words = [word if word in self.grammar.words else word.lower() for word in split(text)]
        if not words:
            raise ValueError(f"{op}: sentence must have words, got {brief(text)}")
        for word in words:
            if word not in self.grammar.words:
                got = brief(word) + near(word, self.grammar.words)
                raise ValueError(f"{op}: sentence must be of words that the grammar knows, got {got}")
        return words

    def _made(self, batch: int) -> Brain:
        grammar, count = self.grammar, len(self._lemmas)
        with named("Brain", "parse"):
            brain = Brain(self.p, device=self.device, batch=batch, seeds=[self.seed] * batch)
        brain.add_area(LEXICON, _WORD_WINNERS * count, _WORD_WINNERS, _SMALL)
        for area in grammar.areas:
            brain.add_area(area, self.n, _WORD_WINNERS if area in grammar.small_areas else self.k, _SMALL)
        large = [area for area in grammar.areas if area not in grammar.small_areas]
        for area in large:
            brain.set_beta(LEXICON, area, _OF_WORDS)
            brain.set_beta(area, LEXICON, _OF_WORDS)
            for other in large:
                brain.set_beta(area, other, _WITHIN if area == other else _BETWEEN)
        areas = (LEXICON, *grammar.areas)
        for place, area in enumerate(areas):
            if area != LEXICON and area not in grammar.open_areas:
                brain.inhibit(area)
            for other in areas[place:]:
                apply(brain, Rule(True, (area, other), 0), None)
        return brain

    def _parsed(self, brain: Brain, given: list[list[str]], tick: Tick) -> list[ParseTree]:
        fired: Firing = {}
        longest = max(map(len, given))
        for place in range(longest):
            words = {one: text[place] for one, text in enumerate(given) if place < len(text)}
            kinds: dict[str, list[int]] = {}
            for one, word in words.items():
                kinds.setdefault(self.grammar.class_of(word), []).append(one)
            of_classes = [(self.grammar.classes[kind], brains) for kind, brains in kinds.items()]
            for kind, brains in of_classes:
                for area in kind.closed.split():
                    if waiting := set(brains) - inhibited(brain._network.areas[area].locks):
                        one = min(waiting)
                        why = f"no place for {words[one]} while a word waits in {area}"
                        raise _uncovered(" ".join(given[one]), why)
                self._apply(brain, kind.before, brains)
            self._set(brain, words)
            self._project(brain, words, fired)
            for kind, brains in of_classes:
                self._apply(brain, kind.after, brains)
            tick(place + 1, longest)
        self._unlock(brain)
        root, everyone = self.grammar.root, range(len(given))
        read = [one for one in everyone if one in fired.get((LEXICON, root), ())]
        trees = dict(zip(read, self._read(brain, root, read, fired), strict=True)) if read else {}
        return [trees.get(one, ParseTree("", root)) for one in everyone]

    def _apply(self, brain: Brain, text: str, brains: list[int]) -> None:
        for rule in rules(text):
            apply(brain, rule, brains)

    def _set(self, brain: Brain, words: dict[int, str]) -> None:
        """Lets words be the winners of LEX; areas that it fires into begin anew, others keep their winners."""
        starts = [self._lemmas.index(self.grammar.lemma_of(word)) * _WORD_WINNERS for word in words.values()]
        rows = [range(start, start + _WORD_WINNERS) for start in starts]
        brain.activate(LEXICON, torch.tensor(rows, device="cpu"), brains=[*words])
        firing = self._firing(brain, words)
        for area in {source for source, _ in firing}:
            sources = set().union(*(brains for (source, _), brains in firing.items() if source == area))
            anew = sources & firing.get((LEXICON, area), set()) if area != LEXICON else set()
            brain.clear(area, brains=[*anew])
            brain.fix_assembly(area, brains=[*sources - anew])

    def _firing(self, brain: Brain, brains: Collection[int], before: Firing | None = None) -> Firing:
        """The fibers without locks from areas with winners, also with those that fibers gave them before."""
        network, areas = brain._network, (LEXICON, *self.grammar.areas)
        silent = network.silent(areas)
        for (_, target), reached in (before or {}).items():
            silent[target] -= reached
        opened = network.open(itertools.product(areas, areas), set(brains))
        return {fiber: firing for fiber, of in opened.items() if (firing := of - silent[fiber[0]])}

    def _project(self, brain: Brain, brains: Collection[int], fired: Firing) -> None:
        """What has no winners fires from the second round on."""
        first = self._firing(brain, brains)
        later = self._firing(brain, brains, first)
        same: dict[tuple[Fibers, Fibers], list[int]] = {}
        for one in brains:
            of_one = [tuple(sorted(fiber for fiber, of in each.items() if one in of)) for each in (first, later)]
            same.setdefault((of_one[0], of_one[1]), []).append(one)
        for (at_first, then), alike in same.items():
            new = {target for _, target in then} - {target for _, target in at_first}
            reached = {source for source, _ in then} - {source for source, _ in at_first}
            # Areas without winners fire nothing: in the first round, too, they may take part, unless others get winners
            # that would have none before the second.
            parts = [(then, self.rounds)]
            if not all(brain._network.areas[area].fixed.issuperset(alike) for area in new):
                parts = [(at_first, 1), (then, self.rounds - 1)]
            for fibers, rounds in parts:
                targets: dict[str, list[str]] = {}
                for source, target in fibers:
                    targets.setdefault(source, []).append(target)
                brain._run("parse", None, targets, rounds, alike, reached=reached)
        for fiber, of in later.items():
            fired.setdefault(fiber, set()).update(of)

    def _unlock(self, brain: Brain) -> None:
        brain.disable_plasticity()
        brain._network.locks.clear()
        for area, state in brain._network.areas.items():
            state.locks.clear()
            brain.unfix_assembly(area)

    def _read(self, brain: Brain, area: str, brains: list[int], fired: Firing) -> list[ParseTree]:
        """The trees below an area with winners, one of each brain; "" for what is no word."""
        brain.project(areas={area: LEXICON}, brains=brains)
        words = self._heard(brain, brains)
        branches: dict[int, list[ParseTree]] = {one: [] for one in brains}
        for below in self.grammar.dependents[area]:
            linked = [one for one in brains if one in fired.get((area, below), ())]
            if linked:
                brain.project(areas={area: below}, brains=linked)
                for one, tree in zip(linked, self._read(brain, below, linked, fired), strict=True):
                    branches[one].append(tree)
        return [ParseTree(word, area, tuple(branches[one])) for one, word in zip(brains, words, strict=True)]

    def _heard(self, brain: Brain, group: list[int]) -> list[str]:
        """The words whose neurons are the winners of LEX."""
        numbers = brain.winners(LEXICON).cpu()[group].div(_WORD_WINNERS, rounding_mode="floor")
        most = [Counter(row).most_common(1)[0] for row in numbers.tolist()]
        return [self._lemmas[number] if count >= _KNOWN else "" for number, count in most]


def apply(brain: Brain, rule: Rule, brains: list[int] | None) -> None:
    """Does to the locks what a rule says."""
    first, last = rule.areas[0], rule.areas[-1]
    if len(rule.areas) == 1:
        (brain.inhibit if rule.inhibits else brain.disinhibit)(first, rule.lock, brains)
        return
    for ends in {(first, last), (last, first)}:
        (brain.inhibit_fiber if rule.inhibits else brain.disinhibit_fiber)(*ends, rule.lock, brains)


def _uncovered(sentence: str, why: str) -> ValueError:
    return ValueError(f"parse: sentence must be one that the grammar covers, got {sentence!r}: {why}")


@overload
def parse(
    sentence: str, language: str | Grammar = "english", seed: int = 0, progress: Progress = None
) -> Dependencies: ...
@overload
def parse(
    sentence: Sentences, language: str | Grammar = "english", seed: int = 0, progress: Progress = None
) -> list[Dependencies]: ...
def parse(
    sentence: str | Sentences, language: str | Grammar = "english", seed: int = 0, progress: Progress = None
) -> Dependencies | list[Dependencies]:
    """The dependencies of a sentence, or of several: ``{(word, word that depends on it, label)}``.

    ::

        parse("cats chase mice")  # {("chase", "cats", "SUBJ"), ("chase", "mice", "OBJ")}

    As `Parser` with its default sizes, which gives trees.

    Args:
        sentence: Words of the grammar separated by blanks; or several such sentences.
        language: "english", "russian" or a `Grammar`.
        seed: Seed of the brains, any int, modulo 2^64.
        progress: As for `Parser.parse`.

    Raises:
        TypeError: An argument of another type.
        ValueError: An unknown language or word, or a sentence that is empty or that the grammar does not cover.
    """
    with named("Parser", "parse"):
        parser = Parser(language, seed)
    found = parser.parse(sentence, progress)
    return found.dependencies if isinstance(found, ParseTree) else [tree.dependencies for tree in found]
