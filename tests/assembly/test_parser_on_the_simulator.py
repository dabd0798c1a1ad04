"""Parsers that are written, as the published ones are, for the published simulator run on our face of it."""

import itertools
from collections import defaultdict
from dataclasses import replace

import pytest

from torch_hrr.assembly import grammar, parse, simulator


class Script:
    """The published loop: which areas and fibers are open, and a projection a round, by the simulator's names."""

    n, k, rounds = 10_000, 100, 20

    def __init__(self, words):
        self.grammar = words
        self.areas = ("LEX", *words.areas)
        self.brain = simulator.Brain(0.1)
        self.brain.add_explicit_area("LEX", 20 * len(words.lemmas), 20, 0.2)
        for area in words.areas:
            self.brain.add_area(area, self.n, 20 if area in words.small_areas else self.k, 0.2)
        large = [area for area in words.areas if area not in words.small_areas]
        betas = defaultdict(list)
        for area in large:
            betas["LEX"].append((area, 1.0))
            betas[area] += [("LEX", 1.0), *((other, 0.05 if other == area else 0.5) for other in large)]
        self.brain.update_plasticities(area_update_map=betas)
        self.locks = defaultdict(set)
        self.close()
        self.fired = defaultdict(set)

    def close(self):
        for pair in itertools.combinations_with_replacement(self.areas, 2):
            self.locks[frozenset(pair)] = {0}
        for area in self.areas:
            (self.locks[area].discard if area in {"LEX", *self.grammar.open_areas} else self.locks[area].add)(0)

    def apply(self, text):
        for rule in grammar.rules(text):
            locks = self.locks[rule.areas[0] if len(rule.areas) == 1 else frozenset(rule.areas)]
            (locks.add if rule.inhibits else locks.discard)(rule.lock)

    def open(self):
        free = [area for area in self.areas if not self.locks[area]]
        found = defaultdict(list)
        for source, target in itertools.product(free, free):
            if not self.locks[frozenset((source, target))] and self.brain.area_by_name[source].winners:
                found[source].append(target)
        return found

    def fire(self, rounds):
        for _ in range(rounds):
            found = self.open()
            for source, targets in found.items():
                self.fired[source] |= {*targets}
            self.brain.project({}, found)

    def kind(self, word):
        return self.grammar.classes[self.grammar.class_of(word)]

    def hear(self, word, rounds):
        self.brain.activate("LEX", self.grammar.lemmas.index(self.grammar.lemma_of(word)))
        self.apply(self.kind(word).before)
        found = self.open()
        for name in [*found]:
            area = self.brain.area_by_name[name]
            if name not in found["LEX"]:
                area.fix_assembly()
            elif name != "LEX":
                area.unfix_assembly()
                area.winners = []
        self.fire(rounds)

    def read(self, sentence):
        for word in sentence.split():
            self.hear(word, self.rounds)
            self.apply(self.kind(word).after)

    def word(self):
        numbers = [neuron // 20 for neuron in self.brain.area_by_name["LEX"].winners]
        most = max({*numbers}, key=numbers.count)
        return self.grammar.lemmas[most] if numbers.count(most) >= 14 else None

    def below(self, head, area):
        self.brain.project({}, {area: ["LEX"]})
        return {(head, self.word(), area)}

    def tree(self, area):
        below = [each for each in self.grammar.dependents[area] if each in self.fired[area]]
        self.brain.project({}, {area: ["LEX", *below]})
        head = self.word()
        return set().union(*[self.below(head, each) for each in below], *map(self.tree, below))

    def parse(self, sentence):
        self.read(sentence)
        self.brain.disable_plasticity = True
        for area in self.areas:
            self.brain.area_by_name[area].unfix_assembly()
        return self.tree("VERB")


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("the big dogs chase the bad cats", "english"),
        ("dogs in mice chase cats", "english"),
        ("people quickly run", "english"),
        ("kotu dayet sobaka kota", "russian"),
    ],
)
def test_a_script_for_the_simulator_gives_the_same_dependencies(sentence, language):
    assert Script(grammar.GRAMMARS[language]).parse(sentence) == parse(sentence, language)


class Nested(Script):
    """The published loop for sentences with a clause: "that" begins one and a comma ends it."""

    n, k, rounds = 100_000, 50, 30

    def __init__(self):
        kinds = dict(grammar.ENGLISH.classes)
        verb = kinds["transitive verb"]
        kinds["transitive verb"] = replace(
            verb, before=f"{verb.before} VERB-CLAUSE", after=f"{verb.after} !VERB-CLAUSE"
        )
        below = dict(grammar.ENGLISH.dependents, CLAUSE=())
        for noun in ("SUBJ", "OBJ"):
            below[noun] = (*below[noun], "CLAUSE")
        super().__init__(replace(grammar.ENGLISH, classes=kinds, dependents=below))

    def read(self, sentence):
        outer, _, clause = sentence.partition(" that ")
        if not clause:
            return super().read(sentence)
        *before, noun = outer.split()
        super().read(" ".join(before))
        self.hear(noun, self.rounds)
        self.apply("CLAUSE SUBJ-CLAUSE OBJ-CLAUSE !LEX !VERB")
        for name in {*self.open()} - {"CLAUSE"}:
            self.brain.area_by_name[name].fix_assembly()
        self.fire(self.rounds)
        self.close()
        self.apply("CLAUSE")
        inner, comma, rest = clause.partition(" , ")
        super().read(inner)
        if comma:
            # Back in the outer sentence: its words fire once more, unlearned, to set the locks.
            self.close()
            self.brain.disable_plasticity = True
            for word in outer.split():
                self.hear(word, 1)
                self.apply(self.kind(word).after)
            self.brain.disable_plasticity = False
            self.apply("!CLAUSE")
            super().read(rest)

    def below(self, head, area):
        if area != "CLAUSE":
            return super().below(head, area)
        self.brain.project({}, {area: ["VERB"]})
        self.brain.project({}, {"VERB": ["LEX", "SUBJ"]})
        verb = self.word()
        return {(head, verb, area)} | super().below(verb, "SUBJ")


@pytest.mark.parametrize(
    ("sentence", "published"),
    [
        ("cats chase mice", "chase-cats-SUBJ chase-mice-OBJ"),
        ("dogs that run , chase cats", "-dogs-SUBJ --SUBJ -cats-OBJ dogs--CLAUSE"),
        ("people that love the big dogs , are bad",
         "-people-SUBJ -bad-ADJ -dogs-OBJ dogs-the-DET dogs-big-ADJ people--CLAUSE"),
        ("dogs chase cats that run", "-dogs-SUBJ --SUBJ -cats-OBJ cats--CLAUSE"),
    ],
)  # fmt: skip
def test_nested_sentences_give_what_the_published_script_gives(sentence, published):
    """No verb, shown as nothing, where there are two: both fire with one subject, and come to share one assembly."""
    found = {"-".join(word or "" for word in each) for each in Nested().parse(sentence)}
    assert found == {*published.split()}
