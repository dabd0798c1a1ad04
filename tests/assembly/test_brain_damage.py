"""Forged files and states of brains: an error that names what is wrong, or a brain that can be used; never a half one.

What every saveable class refuses (other bytes, keys, formats, missing parts) is tested in tests/test_saveable.py.
"""

import copy
import math
import random

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_hrr import IntegrityError
from torch_hrr.assembly import Brain
from torch_hrr.io import files

FORMAT = {"format": "torch_hrr.assembly.Brain", "version": 1}
BOTH = {"A": ["A", "B"], "B": ["A", "B"]}
INF, NAN, LONG, INT = math.inf, math.nan, 2**62, 2**31 - 1


def made(mode):
    """Two brains in which every kind of state is there."""
    brain = Brain(p=0.2, seed=1, batch=2, mode=mode)
    exact = mode == "exact"
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1, refracted=0.5 * exact)
    options = {"refractory_period": 3, "inhibition_strength": 1.0, "ties": "keyed"} if exact else {}
    brain.add_area("B", n=50, k=5, w_max=3.0, **options)
    if exact:
        generator = torch.Generator().manual_seed(0)
        brain.connect("B", "A", edges=2.0 * (torch.rand(50, 60, generator=generator) < 0.2))
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    brain.project({"s": ["A"]}, BOTH, rounds=4)
    if exact:
        brain.normalize("B")
        brain.set_beta("s", "A", 0.2)
        brain.inhibit_fiber("A", "A", lock=3)
    return brain


@pytest.fixture(scope="module")
def brains():
    return {mode: made(mode) for mode in ("exact", "sampled")}


@pytest.fixture
def content(brains):
    """Of both modes: the tensors, each to be replaced and not changed, and the configuration."""
    return {mode: (brain._content()[0], copy.deepcopy(brain._content()[1])) for mode, brain in brains.items()}


def use(brain):
    """Every part of the state is read and written."""
    exact = brain.mode == "exact"
    for name in "AB" if exact else ():
        brain.winners(name), brain.support(name)
        for other in "AB":
            brain.potentiated(name, other, 1)
    brain.project({"s": ["A", "B"]})
    brain.project({"s": ["A", "B"]}, BOTH, rounds=2)
    if exact:
        brain.normalize("A")
        brain.project({"s": ["A", "B"]}, BOTH, rounds=2)
        brain.fix_assembly("A")
    brain.pattern_complete("B", rounds=2)


def load(tensors, config):
    """The brain of a file with this content, whose seal is right: anybody can make one."""
    return Brain._made("forged", tensors, copy.deepcopy(config), device=None)


def assert_refused(tensors, config):
    with pytest.raises(IntegrityError, match=r"^load: forged must describe a Brain, got "):
        load(tensors, config)


def changed(tensors, name, *values, start=0):
    """A copy of the tensors in which elements of one are others."""
    wrong = tensors[name].clone()
    wrong.view(-1)[start : start + len(values)] = torch.tensor(values, dtype=wrong.dtype)
    return {**tensors, name: wrong}


@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_the_forger_can_write_a_good_file(tmp_path, content, brains, mode):
    for name in "ab":
        files.save(tmp_path / name, *content[mode], **FORMAT) if name == "a" else brains[mode].save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    loaded = Brain.load(tmp_path / "a")
    assert loaded.get_extra_state() == brains[mode].get_extra_state()
    use(loaded)
    use(load(*content[mode]))


# states.0 and 1 are areas A (n = 60) and B, 2 the graph of one's own from B to A, 3 the fiber from A to A, 4 and 5 the
# stimulus into A and B, 7 the normalised fiber from B to B. The first element is in use in every one of them.
OUT_OF_RANGE = {
    "states.0.winners": [-1, 60, LONG, -(2**63)], "states.0.winner_count": [-1, 7, LONG],
    "states.0.neuron_of": [-1, 60, INT, -(2**31)], "states.0.slots": [-1, 61, LONG],
    "states.0.bias": [-1, 2**61 + 1, LONG, -(2**63)], "states.1.last_win": [-1, 4, INT],
    "states.2.chunks": [-1, 10**6, LONG], "states.2.head": [-2, 56, INT], "states.2.length": [-1, INT],
    "states.2.known": [-1, 61, INT], "states.2.next": [-2, 0, 56, INT], "states.2.target": [-1, 60, INT],
    "states.3.target": [-1, 60, INT], "states.2.weight": [-1, NAN, INF, 2**24 + 2],
    "states.3.weight": [-1, 0.5, NAN, INF, 2**24 + 2], "states.4.weight": [-1, 0.5, NAN, INF, 2**24 + 2],
    "states.7.scale": [-1, NAN, INF, 2**24 + 1], "states.0.won": [0],
}  # fmt: skip
SAMPLED = {
    "area.0.winners": [-1, 60, LONG], "fiber.0.0.sources": [-1, 60, INT], "fiber.0.1.targets": [-1, 50, INT],
    "fiber.0.0.weights": [NAN, INF], "fiber.0.1.drawn": [-1, 61, LONG],
}  # fmt: skip


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_value_that_points_outside_is_refused(content, brains, name):
    tensors, config = content["exact"]
    half = tensors[name].numel() // 2
    for number, value in enumerate(OUT_OF_RANGE[name]):
        wrong = changed(tensors, name, value, start=number % 2 * half)
        assert_refused(wrong, config)
    # A state says which part of what is wrong; the brain can be used afterwards, as one that is new.
    brain, part = copy.deepcopy(brains["exact"]), name.rpartition(".")[2].replace("won", "support|won")
    with pytest.raises(ValueError, match=rf"^load_state_dict: ({part}) of (area|the fiber|stimulus) .* must be "):
        brain.load_state_dict({**wrong, "_extra_state": config})
    for area in "AB":
        assert torch.equal(brain.winners(area), brains["exact"].winners(area))
    model = torch.nn.ModuleList([brain])
    with pytest.raises(ValueError, match=r"^load_state_dict: "):
        model.load_state_dict({f"0.{key}": value for key, value in {**wrong, "_extra_state": config}.items()})
    assert not brain.support("A").any()
    brain.project({"s": ["A", "B"]})


@pytest.mark.parametrize("name", SAMPLED)
def test_a_value_of_a_sampled_brain_that_points_outside_is_refused(content, name):
    tensors, config = content["sampled"]
    for number, value in enumerate(SAMPLED[name]):
        assert_refused(changed(tensors, f"sampled.{number % 2}.{name}", value), config)
    counts = "sampled.1.stimulus.0.0.counts"
    for longer in (torch.ones(len(tensors[counts]) + 1), torch.ones(90)):
        assert_refused({**tensors, counts: longer}, config)
    assert_refused({**tensors, counts: torch.ones(90), counts.replace("counts", "sums"): torch.ones(90)}, config)


def test_repeated_neurons_are_refused(content):
    tensors, config = content["exact"]
    for name in ("states.0.winners", "states.0.neuron_of"):
        wrong = tensors[name].clone()
        wrong[1, 1] = wrong[1, 0]
        assert_refused({**tensors, name: wrong}, config)


CHANGES = {
    "one brain": lambda tensor: tensor[:1].clone(),
    "cut": lambda tensor: tensor[:, :-1].clone() if tensor.dim() > 1 else tensor[:-1].clone(),
    "empty": lambda tensor: tensor[:, :0].clone() if tensor.dim() > 1 else tensor[:0].clone(),
    "longer": lambda tensor: torch.cat([tensor, tensor], -1),
    "a dimension": lambda tensor: tensor.unsqueeze(-1).clone(),
    "another dtype": lambda tensor: tensor.to(torch.int16),
}


@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_tensors_of_another_shape_or_dtype_are_refused(content, mode):
    intact, config = content[mode]
    for name, tensor in intact.items():
        others = {other: each for other, each in intact.items() if other != name}
        assert_refused(others, config)
        for change, make in CHANGES.items():
            wrong = make(tensor)
            if change == "empty" and name in ("states.6.scale", "states.7.scale"):
                use(load({**others, name: wrong}, config))  # that of a fiber that was not normalised
            elif (wrong.shape, wrong.dtype) != (tensor.shape, tensor.dtype):
                assert_refused({**others, name: wrong}, config)
    assert_refused({**intact, "states.9.winners": torch.zeros(2)}, config)


def test_a_brain_that_refused_tensors_of_another_shape_can_be_used(content, brains):
    tensors, config = content["exact"]
    model = torch.nn.ModuleList([copy.deepcopy(brains["exact"])])
    # Of the fiber from A to A and of the stimulus into A, for fewer slots than A has.
    cut = {name: tensors[name][:, :3] for name in ("states.3.known", "states.3.length", "states.4.weight")}
    with pytest.raises(ValueError, match=r"^load_state_dict: .* must be of shape "):
        model.load_state_dict({f"0.{key}": each for key, each in {**tensors, **cut, "_extra_state": config}.items()})
    use(model[0])


class Largest(TorchDispatchMode):
    """The most elements of a tensor with memory that the calls within make."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        sizes = [each.numel() for each in tree_leaves(made) if torch.is_tensor(each) and not each.is_meta]
        self.elements = max(self.elements, *sizes, 0)
        return made


@pytest.mark.parametrize("where", ["areas.0.1.n", "areas.1.1.n", "areas.0.1.n areas.0.1.k", "batch"])
def test_no_memory_is_taken_for_sizes_that_the_tensors_do_not_have(content, where):
    tensors, config = content["exact"]
    most = max(tensor.numel() for tensor in tensors.values())
    for each in where.split():
        config = forged(config, each, 200_000)
    with Largest() as largest:
        assert_refused(tensors, config)
    assert largest.elements <= most


EXTREMES = {
    torch.int64: [-1, 0, 1, 5, 6, 50, 59, 60, INT, LONG, -(2**63)],
    torch.int32: [-1, 0, 1, 5, 16, 17, 49, 50, 60, INT, -(2**31)],
    torch.uint8: [0, 1, 2, 255], torch.bool: [False, True],
    torch.float32: [0.0, -1.0, 2.0**24, 2.0**25, NAN, INF, 1e38],
    torch.float64: [0.0, -1.0, NAN, INF, 1e300, -1e300],
}  # fmt: skip


@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_any_forged_value_is_refused_or_can_be_used(content, mode):
    intact, config = content[mode]
    generator = random.Random(0)
    filled = [name for name, tensor in intact.items() if tensor.numel()]
    for _ in range(100):
        name = generator.choice(filled)
        options, places = EXTREMES[intact[name].dtype], range(intact[name].numel())
        tensors = intact
        for _ in range(generator.choice([1, 1, 2, 4])):
            tensors = changed(tensors, name, generator.choice(options), start=generator.choice(places))
        try:
            loaded = load(tensors, config)
        except IntegrityError:
            continue
        use(loaded)


# A path through the lists and dictionaries of the configuration: what must not stand there.
FORGED = {
    "p": [2, None], "seed": [1.5], "mode": ["other"], "batch": [0, 1, LONG], "areas.0.1.n": [61, -1, 2**40],
    "areas.0.1.k": [7, 61], "areas.0.1.beta": [-1, "A"], "areas.0.1.refracted": [-1, 1e300], "areas.0.1.w_max": [0],
    "areas.0.0": ["B", 1], "areas": [[], None], "stimuli.0.1": [-1], "stimuli": [[[]]], "fibers.1.0": ["Z"],
    "fibers": [[]], "fibers.1.2.p": [2, -1, "x"], "fibers.1.2.id": [1, "x"], "fibers.1.2.procedural": ["x"],
    "fibers.1.2.w_max": ["x"], "sources.0.2.id": [1, "x"], "sources.0.0": ["t"], "order": [[]], "order.0": ["fiber", 1],
    "locks": [[1]], "betas": [[["A"]], [["A", "s", "x"]]], "unknown": [1],
}  # fmt: skip


def forged(config, where, value):
    """A copy of a configuration with another value at a place."""
    *outer, last = (int(part) if part.isdigit() else part for part in where.split("."))
    config = place = copy.deepcopy(config)
    for part in outer:
        place = place[part]
    place[last] = value
    return config


@pytest.mark.parametrize("where", FORGED)
def test_a_forged_description_is_refused(content, where):
    tensors, config = content["exact"]
    for value in FORGED[where]:
        assert_refused(tensors, forged(config, where, value))


def test_weights_above_what_sums_of_many_winners_hold_are_refused():
    brain = Brain(p=0.5, seed=0)
    brain.add_area("A", n=3001, k=3001)
    brain.add_area("B", n=3, k=1, beta=1.0)
    brain.activate("A", range(3001))
    brain.project({}, {"A": ["B"]}, rounds=30)
    tensors, config = brain._content()
    # 2^35 / 3001, which float32 rounds up: every grown synapse has it, and what rounds make can be loaded.
    largest = torch.tensor(2.0**35 / 3001)
    assert float(largest) > 2.0**35 / 3001 and float(tensors["states.2.weight"].max()) == largest
    loaded = load(tensors, config)
    for each in (brain, loaded):
        each.project({}, {"A": ["B"]}, rounds=3)
    assert loaded.winners("B").equal(brain.winners("B"))
    assert_refused(changed(tensors, "states.2.weight", float(largest) + 1024), config)


def test_a_saturated_stimulus_can_be_loaded():
    brain = Brain(p=0.9, seed=0)
    for name, size in (("s", 100), ("t", 2**26)):
        brain.add_stimulus(name, size=size)
    brain.add_area("A", n=50, k=5, beta=1.0, refracted=2.0**20)
    brain.project({"s": ["A"], "t": ["A"]}, rounds=3)
    brain.fix_assembly("A")
    brain.project({"s": ["A"], "t": ["A"]}, rounds=30)
    grown, more = (brain.stimulus_weights(name, "A")[brain.winners("A")] for name in "st")
    assert bool((grown == 2**24).all()) and bool((more > 2**24).all())
    assert load(*brain._content()).stimulus_weights("t", "A").equal(brain.stimulus_weights("t", "A"))


def test_weights_of_neurons_that_were_never_active_are_refused():
    brain = Brain(p=0.2, seed=0)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=500, k=5)
    brain.project({"s": ["A"]}, rounds=2)
    tensors, config = brain._content()
    slots = int(tensors["states.0.slots"][0, 0])
    assert slots < tensors["states.1.weight"].shape[1]
    assert_refused(changed(tensors, "states.1.weight", 1e30, start=slots), config)
