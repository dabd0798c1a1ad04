"""Words learned from what is seen and done while they are heard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._checks import brief, listed, named
from torch_hrr._progress import Progress, interrupts_held_back, ticking
from torch_hrr._shared import locked
from torch_hrr._spec import Device, Int, Real, Seed, takes
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.programs import Label, Program, read_label, read_labels

# Neurons of a word, a thing or an action, rounds of a word after its first, and the share of a word that says it.
_NEURONS, _ROUNDS, _SAID = 100, 2, 0.75
# Where what nouns and verbs mean is, and where their assemblies form.
_NOUN, _VERB = ("VISUAL", "LEX1"), ("MOTOR", "LEX2")


class WordLearner(Program):
    """Learns the words for things and for actions from sentences, of a noun and a verb, that are heard in context.

    Each word has 100 neurons of the area "PHON", each thing as many of "VISUAL", each action of "MOTOR". While a
    sentence is heard, its thing and its action fire all the time, and its words one after the other for three rounds
    each: words into the areas "LEX1" and "LEX2", things into LEX1, actions into LEX2, and after a word's first round
    LEX1 and LEX2 into themselves and back. Over many sentences a noun gets an assembly in LEX1, linked with its thing;
    in LEX2, where another action fires each time, it gets none that is stable. For verbs it is the other way round.
    With the default sizes what is known stays so, tried up to 300 sentences; in smaller areas more sentences may undo
    it. Deterministic as `Brain`.

    ::

        learner = WordLearner(["dog", "cat"], ["run", "jump"])
        pairs = [(noun, verb) for noun in ("dog", "cat") for verb in ("run", "jump")]
        learner.hear(pairs * 20).known()  # ["dog", "cat", "run", "jump"]

    Source: Mitropolsky, Papadimitriou, The architecture of a biologically plausible language organ, 2023.
    """

    file_format = "torch_hrr.assembly.WordLearner"
    _area = "PHON"

    @takes(seed=Seed(), n=Int(1), k=Int(1), p=Real(0, 1), beta=Real(0), device=Device())
    def __init__(
        self,
        nouns: Sequence[Label],
        verbs: Sequence[Label],
        seed: int = 0,
        *,
        n: int = 100_000,
        k: int = 50,
        p: float = 0.05,
        beta: float = 0.06,
        device: torch.device | str | int | None = "cpu",
    ) -> None:
        """One that has heard nothing.

        Args:
            nouns: Strings or ints.
            verbs: Others.
            seed: Seed of the brain, any int, modulo 2^64.
            n: Neurons of LEX1, and of LEX2.
            k: Winners there, at most n.
            p: Density of the connectome.
            beta: Plasticity.
            device: As for `Brain`.

        Raises:
            TypeError: Words are neither strings nor ints.
            ValueError: A word is given twice, or there is no noun or no verb.
        """
        op = "WordLearner"
        self._nouns, self._verbs = read_labels(op, "nouns", nouns), read_labels(op, "verbs", verbs)
        self._words = read_labels(op, "nouns and verbs", self._nouns + self._verbs)
        self._n, self._k, self._beta = n, k, beta
        with named("Brain", op), named("add_area", op):
            brain = Brain(p, seed, device=device)
            for area, sizes in self._areas({"nouns": self._nouns, "verbs": self._verbs, "n": n, "k": k}).items():
                brain.add_area(area, *sizes, beta)
        super().__init__(brain)

    @classmethod
    def _areas(cls, settings: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
        nouns, verbs = len(settings["nouns"]), len(settings["verbs"])
        held = {"PHON": nouns + verbs, "VISUAL": nouns, "MOTOR": verbs}
        areas = {area: (_NEURONS * count, _NEURONS) for area, count in held.items()}
        return areas | dict.fromkeys(("LEX1", "LEX2"), (settings["n"], settings["k"]))

    @classmethod
    def _stimuli(cls, settings: Mapping[str, Any], labels: int) -> dict[str, int]:
        return {}

    def _settings(self) -> dict[str, Any]:
        own = {"nouns": self._nouns, "verbs": self._verbs, "n": self._n, "k": self._k, "p": self.brain.p}
        return own | {"beta": self._beta, **self._of_brain()}

    def _checked(self, op: str, state: Mapping[str, Any]) -> dict[Label, Tensor]:
        if super()._checked(op, state):
            raise ValueError(f"{op}: labels must be none, got {brief(state['labels'])}")
        return {}

    @locked
    def hear(self, sentences: Sequence[Sequence[Label]], progress: Progress = None) -> Self:
        """Hears sentences, each a noun and a verb in any order, while what they mean is seen and done.

        All of m nouns and m verbs are said right after about 24 m random sentences with the default sizes; a word that
        is only ever heard with one and the same other is not told from it. Ctrl-C ends the call between two sentences,
        and what came before stays.

        Args:
            sentences: Pairs of words.
            progress: As for `Brain.project`, counting sentences.

        Raises:
            TypeError: ``sentences`` is no list of lists of strings and ints.
            ValueError: A sentence is not of a noun and a verb that are known; nothing is heard.
            RuntimeError: In eval mode, without plasticity, or with a lock on an area, since nothing would be learned.

        Cost: Six rounds a sentence.
        """
        op, pairs = "hear", "a list of pairs of words"
        given = []
        for sentence in listed(op, "sentences", sentences, pairs):
            given.append(
                [
                    self._place(op, "sentences", word, "pairs of strings or ints")
                    for word in listed(op, "sentences", sentence, pairs)
                ]
            )
            if [place < len(self._nouns) for place in sorted(given[-1])] != [True, False]:
                raise ValueError(f"{op}: sentences must be of a noun and a verb, got {brief(sentence)}")
        tick = ticking(op, progress)
        self._check_learning(op)
        for count, places in enumerate(given):
            with interrupts_held_back():
                self._hear(places)
            tick(count + 1, len(given))
        return self

    def _hear(self, places: list[int]) -> None:
        first = {"PHON": ["LEX1", "LEX2"], "VISUAL": ["LEX1"], "MOTOR": ["LEX2"]}
        back = {lexicon: [lexicon, "PHON", context] for context, lexicon in (_NOUN, _VERB)}
        self._clear()
        for place in places:
            self._mean(place)
        for place in places:
            self._set("PHON", place)
            self.brain.project(areas=first)
            self.brain.project(areas=first | back, rounds=_ROUNDS)
        self._clear()

    def _place(self, op: str, argument: str, given: Any, wanted: str = "a str or an int") -> int:
        word = read_label(op, argument, given, wanted)
        if word not in self._words:
            raise ValueError(f"{op}: {argument} must be known, got {brief(given)}")
        return self._words.index(word)

    def _mean(self, place: int) -> tuple[str, str]:
        """Lets what a word means fire; its area, and that of the word's assembly."""
        nouns = len(self._nouns)
        (context, lexicon), place = (_NOUN, place) if place < nouns else (_VERB, place - nouns)
        self._set(context, place)
        return context, lexicon

    def _set(self, area: str, place: int) -> None:
        self.brain.activate(area, range(_NEURONS * place, _NEURONS * (place + 1)))
        self.brain.fix_assembly(area)

    def _clear(self) -> None:
        for area in self._areas(self._settings()):
            self.brain.clear(area)

    @locked
    def say(self, word: Label) -> Label | None:
        """What is said when only what a word means is seen or done: the word itself once it is known.

        What it means fires once into LEX1 or LEX2, which fires into PHON. None where the winners there hold three
        quarters of no word. Nothing is learned.

        Raises:
            TypeError: ``word`` is neither a str nor an int.
            ValueError: ``word`` is unknown.
            RuntimeError: With a lock on an area.

        Cost: Two rounds.
        """
        place, brain = self._place("say", "word", word), self.brain
        self._check_open("say")
        with self._resting():
            self._clear()
            context, lexicon = self._mean(place)
            brain.project(areas={context: [lexicon]})
            brain.project(areas={lexicon: ["PHON"]})
        counts = torch.bincount(brain.winners("PHON").cpu() // _NEURONS, minlength=len(self._words))
        best = int(counts.argmax())
        return self._words[best] if int(counts[best]) >= _SAID * _NEURONS else None

    @locked
    def known(self) -> list[Label]:
        """The words that `say` says right, at two rounds each."""
        return [word for word in self._words if self.say(word) == word]

    @locked
    def stability(self, word: Label) -> dict[str, float]:
        """How well a word by itself excites a noun and a verb: ``{"noun": share, "verb": share}``.

        It fires once into LEX1 and LEX2, and these into themselves: the shares of their winners that stay. A known word
        has more than .8 for its own class and less for the other, with the default sizes. Nothing is learned.

        Raises:
            TypeError: ``word`` is neither a str nor an int.
            ValueError: ``word`` is unknown.
            RuntimeError: With a lock on an area.

        Cost: Two rounds.
        """
        place, brain = self._place("stability", "word", word), self.brain
        self._check_open("stability")
        kinds = {"noun": "LEX1", "verb": "LEX2"}
        with self._resting():
            self._clear()
            self._set("PHON", place)
            brain.project(areas={"PHON": ["LEX1", "LEX2"]})
            before = {kind: brain.winners(area) for kind, area in kinds.items()}
            brain.project(areas={"LEX1": ["LEX1"], "LEX2": ["LEX2"]})
        return {kind: float(torch.isin(brain.winners(kinds[kind]), before[kind]).double().mean()) for kind in kinds}

    def word_class(self, word: Label) -> str:
        """The class for which `stability` is larger, "noun" or "verb"; right long before a word is known."""
        shares = self.stability(word)
        return max(shares, key=shares.__getitem__)
