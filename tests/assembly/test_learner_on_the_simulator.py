"""The published learner of words and of their order, restated on the simulator's names, learns what it learns there."""

import pytest

from torch_hrr.assembly import WordLearner, simulator

SENTENCES = [(noun, verb) for _ in range(10) for noun in (0, 1) for verb in (0, 1)]


class Words(simulator.Brain):
    """Two nouns and two verbs, heard while things are seen and actions done."""

    def __init__(self):
        super().__init__(0.1)
        for area, words in (("PHON", 4), ("VISUAL", 2), ("MOTOR", 2)):
            self.add_explicit_area(area, 100 * words, 100, 0.06)
        for area in ("LEX1", "LEX2"):
            self.add_area(area, 10_000, 50, 0.06)

    def hear(self, noun, verb):
        self.activate("VISUAL", noun)
        self.activate("MOTOR", verb)
        for word in (noun, 2 + verb):
            self.activate("PHON", word)
            fired = {"PHON": ["LEX1", "LEX2"], "VISUAL": ["LEX1"], "MOTOR": ["LEX2"]}
            self.project({}, fired)
            fired |= {"LEX1": ["PHON", "LEX1", "VISUAL"], "LEX2": ["PHON", "LEX2", "MOTOR"]}
            for _ in range(2):
                self.project({}, fired)
        for area in ("VISUAL", "MOTOR"):
            self.area_by_name[area].winners = []

    def say(self, context, place, lexicon):
        self.area_by_name["PHON"].unfix_assembly()
        self.activate(context, place)
        self.project({}, {context: [lexicon]})
        self.project({}, {lexicon: ["PHON"]})
        return assembly_of(self, "PHON", 0.75)

    def input_from_sound(self, word, lexicon):
        self.activate("PHON", word)
        self.project({}, {"PHON": [lexicon]})
        rows, columns = (self.area_by_name[area].winners for area in ("PHON", lexicon))
        return self.connectomes["PHON"][lexicon][rows][:, columns].sum()


def assembly_of(brain, name, share):
    """The number of the assembly that an explicit area's winners are, None where they are none."""
    area = brain.area_by_name[name]
    numbers = [neuron // area.k for neuron in area.winners]
    return next((number for number in {*numbers} if numbers.count(number) >= share * area.k), None)


def test_words_are_learned_as_the_published_script_learns_them():
    script = Words()
    for sentence in SENTENCES:
        script.hear(*sentence)
    learner = WordLearner([0, 1], ["x", "y"], n=10_000, k=50, p=0.1)
    learner.hear([(noun, "xy"[verb]) for noun, verb in SENTENCES])
    for fiber in learner.brain.fibers:
        pairs = zip(learner.brain.potentiated(*fiber), script.brain.potentiated(*fiber), strict=True)
        assert all(a.equal(b) for a, b in pairs)
    script.disable_plasticity = True
    said = [script.say("VISUAL", place, "LEX1") for place in (0, 1)]
    assert said + [script.say("MOTOR", place, "LEX2") for place in (0, 1)] == [0, 1, 2, 3]
    for word in range(4):
        inputs = [script.input_from_sound(word, lexicon) for lexicon in ("LEX1", "LEX2")]
        assert inputs[word >= 2] > 2 * inputs[word < 2]


class Order(simulator.Brain):
    """Nouns 0 and 1 and verbs 2 and 3, each class with a core, and an area of what comes after what in which mood."""

    def __init__(self, seed):
        super().__init__(0.1, seed=seed)
        self.add_explicit_area("WORDS", 400, 100, 0.06)
        self.add_area("SEQ", 10_000, 100, 0.06)
        self.add_explicit_area("MOOD", 200, 100, 0.06)
        dense = dict.fromkeys(("custom_inner_p", "custom_out_p", "custom_in_p"), 0.9)
        self.add_explicit_area("CORE", 20, 10, 0.05, **dense)
        self.update_plasticity("CORE", "WORDS", 0.1)
        for word in range(4):
            self.activate("WORDS", word)
            self.activate("CORE", word // 2)
            self.several(20, {"WORDS": ["WORDS", "CORE"], "CORE": ["WORDS"]})
        for area in ("WORDS", "CORE"):
            self.area_by_name[area].unfix_assembly()

    def several(self, rounds, fired):
        for _ in range(rounds):
            self.project({}, fired)

    def hear(self, words, mood):
        self.activate("MOOD", mood)
        self.project({}, {"MOOD": ["SEQ"]})
        self.several(2, {"MOOD": ["SEQ"], "SEQ": ["SEQ"]})
        for word in words:
            self.activate("WORDS", word)
            self.project({}, {"SEQ": ["CORE", "SEQ"], "WORDS": ["CORE"]})
            self.project({}, {"CORE": ["SEQ"]})
            self.several(2, {"CORE": ["SEQ"], "SEQ": ["SEQ"]})

    def order(self, mood):
        self.disable_plasticity = True
        self.activate("MOOD", mood)
        self.project({}, {"MOOD": ["SEQ"]})
        self.project({}, {"SEQ": ["CORE"]})
        first = assembly_of(self, "CORE", 0.75)
        self.project({}, {"CORE": ["SEQ"]})
        self.project({}, {"SEQ": ["CORE"]})
        return first, assembly_of(self, "CORE", 0.75)


@pytest.mark.parametrize(("words", "seed"), [((0, 2), 1), ((2, 0), 2)])
def test_the_order_of_words_is_learned(words, seed):
    """With 13 of the 16 brains of seeds 0 to 7; in the published simulator with 10 of 12."""
    brain = Order(seed)
    for _ in range(40):
        brain.hear(words, 0)
    assert brain.order(0) == (words[0] // 2, words[1] // 2)
