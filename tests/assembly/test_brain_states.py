"""States that do not fit a brain: the error names the call, what must be and what is, and the brain is as it was."""

import copy

import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain


def brain_of(mode="exact", **options):
    brain = Brain(p=0.2, seed=1, mode=mode)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1, **options)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
    return brain


def assert_refused(error, match, state, mode="exact", **options):
    brain, twin = brain_of(mode, **options), brain_of(mode, **options)
    with pytest.raises(error, match=match):
        brain.load_state_dict(state)
    for each in (brain, twin):
        each.project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
    assert torch.equal(brain.winners("A"), twin.winners("A")) and brain.support("A") == twin.support("A")


@pytest.mark.parametrize("state", [None, 3, "state", [("a", 1)]])
def test_what_is_no_state_is_named(state):
    match = rf"^load_state_dict: state_dict must be a mapping, got {type(state).__name__}$"
    assert_refused(TypeError, match, state)


def test_a_description_with_parts_missing_is_named():
    match = r"^load_state_dict: _extra_state must hold p, .*order, got none of \['p', 'seed', .*\]$"
    assert_refused(ValueError, match, {"_extra_state": {}})
    state = dict(brain_of().state_dict())
    state["_extra_state"] = {key: value for key, value in state["_extra_state"].items() if key != "order"}
    assert_refused(ValueError, r"got none of \['order'\]$", state)


@pytest.mark.parametrize("junk", [None, 3, "x", [1], [["A", {}]], [["A", "s", -1]], torch.ones(2)], ids=range(7))
@pytest.mark.parametrize("part", ["stimuli", "areas", "fibers", "sources", "locks", "betas", "order"])
@pytest.mark.parametrize("mode", ["exact", "sampled"])
def test_a_description_with_another_part_is_a_value_error(mode, part, junk):
    state = dict(brain_of(mode).state_dict())
    state["_extra_state"] = {**state["_extra_state"], part: junk}
    assert_refused(ValueError, "^load_state_dict: ", state, mode=mode)
    model = torch.nn.ModuleDict({"brain": Brain(p=0.2, seed=1, mode=mode)})
    with pytest.raises(ValueError, match=r"^load_state_dict: "):
        model.load_state_dict({f"brain.{name}": value for name, value in state.items()})


@pytest.mark.parametrize("name", ["generator", "area.0.winners", "fiber.0.0.sources", "stimulus.0.0.sums"])
def test_a_state_of_a_sampled_brain_with_a_tensor_missing_is_named(name):
    state = dict(brain_of("sampled").state_dict())
    del state[f"sampled.0.{name}"]
    match = r"^load_state_dict: state must hold the tensors of a sampled brain, got "
    assert_refused(ValueError, match, state, mode="sampled")


def test_a_state_to_come_back_to_is_a_copy():
    brain = brain_of()
    kept, winners = copy.deepcopy(brain.state_dict()), brain.winners("A")
    brain.project({}, {"A": ["A"]}, rounds=9)
    assert not brain.winners("A").equal(winners)
    brain.load_state_dict(kept)
    assert brain.winners("A").equal(winners)


def declared(kind, **options):
    brain = kind(p=0.1, seed=1, **options)
    if kind is Brain:
        brain.add_stimulus("s", 30)
    brain.add_area("A", 300, 15)
    brain.add_area("B", 200, 10)
    return brain


def used(brain, rounds=3, into_b=True):
    if isinstance(brain, Brain):
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=rounds)
        if into_b:
            brain.project({}, {"A": ["A", "B"]}, rounds=rounds)
    else:
        brain.project({"A": torch.arange(300.0) / 300}, {"A": ["A", "B"]} if into_b else {"A": ["A"]}, rounds=rounds)
    return brain


def model_of(brain):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.brain = brain
    return model


@pytest.mark.parametrize("option", ({}, {"assign": True}, {"strict": False}), ids=str)
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (Brain, {}),
        (Brain, {"batch": 3}),
        (Brain, {"mode": "sampled"}),
        (TorchBrain, {}),
        (TorchBrain, {"learning": True}),
    ],
)
def test_a_model_that_contains_a_brain_resumes(kind, options, option):
    source = model_of(used(declared(kind, **options)))
    checkpoint = copy.deepcopy(source.state_dict())
    others = {
        "declared": declared(kind, **options), "empty": kind(p=0.1, seed=1, **options),
        "with fewer fibers": used(declared(kind, **options), 2, False),
        "used further": used(used(declared(kind, **options))), "itself": used(copy.deepcopy(source.brain), 2),
    }  # fmt: skip
    for name, brain in others.items():
        model = model_of(brain)
        model.load_state_dict(copy.deepcopy(checkpoint), **option)
        expected = copy.deepcopy(source)
        for _ in range(2):
            for area in "AB":
                assert torch.equal(model.brain.winners(area), expected.brain.winners(area)), name
            used(model.brain), used(expected.brain)


@pytest.mark.parametrize("mode", ("exact", "sampled"))
def test_a_model_takes_a_state_without_its_brain(mode):
    model = model_of(used(declared(Brain, mode=mode)))
    before, weight = model.brain.winners("A"), torch.ones(2, 2)
    result = model.load_state_dict({"0.weight": weight}, strict=False)
    assert result.missing_keys and torch.equal(model[0].weight, weight)
    assert torch.equal(model.brain.winners("A"), before)
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({"0.weight": weight})


def test_a_model_refuses_the_state_of_another_brain():
    other = Brain(p=0.1, seed=2)
    other.add_area("A", 300, 15)
    model = model_of(used(declared(Brain)))
    before = model.brain.winners("A")
    with pytest.raises(ValueError, match=r"^load_state_dict: seed must be 1, got 2$"):
        model.load_state_dict(model_of(other).state_dict())
    assert torch.equal(model.brain.winners("A"), before)


def test_reading_repeats():
    """Nothing is learned without plasticity: not the bias of a refracted area either."""
    brain = Brain(p=0.1, seed=0)
    brain.add_stimulus("s", 50)
    brain.add_area("A", 500, 15, refracted=True)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=5)
    brain.disable_plasticity()
    seen = []
    for _ in range(4):
        brain.clear("A")
        brain.project({"s": ["A"]})
        seen.append(brain.winners("A"))
    assert all(torch.equal(winners, seen[0]) for winners in seen)
    brain.enable_plasticity()
    brain.clear("A")
    brain.project({"s": ["A"]})
    assert torch.equal(brain.winners("A"), seen[0])
    brain.clear("A")
    brain.project({"s": ["A"]})
    assert not torch.equal(brain.winners("A"), seen[0])
