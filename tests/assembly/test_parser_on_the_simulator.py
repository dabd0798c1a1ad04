"""A parser that is written, as the published one is, for the published simulator runs on our face of it."""

import itertools
from collections import defaultdict

import pytest

from torch_hrr.assembly import grammar, parse, simulator


class Script:
    """The published loop: which areas and fibers are open, and a projection a round, by the simulator's names."""

    def __init__(self, language):
        self.grammar = grammar.GRAMMARS[language]
        self.areas = ("LEX", *self.grammar.areas)
        self.brain = simulator.Brain(0.1)
        self.brain.add_explicit_area("LEX", 20 * len(self.grammar.lemmas), 20, 0.2)
        for area in self.grammar.areas:
            self.brain.add_area(area, 10_000, 20 if area in self.grammar.small_areas else 100, 0.2)
        large = [area for area in self.grammar.areas if area not in self.grammar.small_areas]
        betas = defaultdict(list)
        for area in large:
            betas["LEX"].append((area, 1.0))
            betas[area] += [("LEX", 1.0), *((other, 0.05 if other == area else 0.5) for other in large)]
        self.brain.update_plasticities(area_update_map=betas)
        self.locks = defaultdict(set)
        for pair in itertools.combinations_with_replacement(self.areas, 2):
            self.locks[frozenset(pair)].add(0)
        for area in {*self.areas} - {"LEX", *self.grammar.open_areas}:
            self.locks[area].add(0)
        self.fired = defaultdict(set)

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

    def read(self, word):
        kind = self.grammar.classes[self.grammar.class_of(word)]
        lex, first = self.brain.area_by_name["LEX"], 20 * self.grammar.lemmas.index(self.grammar.lemma_of(word))
        lex.winners = list(range(first, first + 20))
        lex.fix_assembly()
        self.apply(kind.before)
        found = self.open()
        for name in [*found]:
            area = self.brain.area_by_name[name]
            if name not in found["LEX"]:
                area.fix_assembly()
            elif name != "LEX":
                area.unfix_assembly()
                area.winners = []
        for _ in range(20):
            found = self.open()
            for source, targets in found.items():
                self.fired[source] |= {*targets}
            self.brain.project({}, found)
        self.apply(kind.after)

    def word(self):
        numbers = [neuron // 20 for neuron in self.brain.area_by_name["LEX"].winners]
        most = max({*numbers}, key=numbers.count)
        assert numbers.count(most) >= 14
        return self.grammar.lemmas[most]

    def tree(self, area):
        below = [each for each in self.grammar.dependents[area] if each in self.fired[area]]
        self.brain.project({}, {area: ["LEX", *below]})
        head, found = self.word(), set()
        for each in below:
            self.brain.project({}, {each: ["LEX"]})
            found.add((head, self.word(), each))
        return found.union(*(self.tree(each) for each in below))


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
    script = Script(language)
    for word in sentence.split():
        script.read(word)
    script.brain.disable_plasticity = True
    for area in script.areas:
        script.brain.area_by_name[area].unfix_assembly()
    assert script.tree("VERB") == parse(sentence, language)
