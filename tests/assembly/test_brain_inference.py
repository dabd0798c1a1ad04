"""Brains made, used, read and copied under torch.inference_mode() go on outside of it, with the same winners."""

import copy

import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain

MODES = ["exact", "sampled"]


def made(mode):
    brain = Brain(p=0.1, seed=1, mode=mode)
    brain.add_stimulus("s", 20)
    options = {"refracted": 0.125, "refractory_period": 2, "inhibition_strength": 0.5} if mode == "exact" else {}
    brain.add_area("A", 200, 10, **options)
    brain.add_area("B", 100, 5)
    if mode == "exact":
        brain.connect("B", "A", edges=torch.ones(100, 200).tril())
    return brain


def use(brain):
    """All that writes; winners and supports of the areas."""
    brain.project({"s": ["A", "B"]}, rounds=2)
    brain.project({"s": ["A"]}, {"A": ["A", "B"]}, rounds=5)
    if brain.mode == "exact":
        brain.normalize("A")
        brain.activate("B", [1, 2])
    brain.project({"s": ["A"]}, {"A": ["A", "B"], "B": ["A"]}, rounds=5)
    brain.project({"s": ["A"]})
    brain.pattern_complete("A")
    return [brain.winners(area).tolist() for area in "AB"] + [brain.support(area) for area in "AB"]


def used(mode):
    brain = made(mode)
    use(brain)
    return brain


@pytest.mark.parametrize("mode", MODES)
def test_made_or_used_in_inference_mode(mode):
    plain = made(mode)
    expected = [use(plain), use(plain)]
    for making, using in ((True, False), (False, True), (True, True)):
        with torch.inference_mode(making):
            brain = made(mode)
        with torch.inference_mode(using):
            first = use(brain)
        assert [first, use(brain)] == expected


def loaded(brain, path):
    brain.save(path)
    return Brain.load(path)


def taken(brain, _):
    other = Brain(p=0.1, seed=1, mode=brain.mode)
    other.load_state_dict(brain.state_dict())
    return other


def in_a_parent(brain, _):
    parent = torch.nn.ModuleList([used(brain.mode)])
    use(parent[0])
    parent.load_state_dict(torch.nn.ModuleList([brain]).state_dict())
    return parent[0]


def moved(brain, _):
    return copy.deepcopy(brain)._apply(torch.clone)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", [loaded, taken, in_a_parent, lambda brain, _: copy.deepcopy(brain), moved])
def test_read_copied_or_moved_in_inference_mode(mode, way, tmp_path):
    brain = used(mode)
    with torch.inference_mode():
        other = way(brain, tmp_path / "brain")
    for each in (brain, other):
        each.project({"s": ["A"]})
    assert use(other) == use(brain)


def test_a_torch_brain_made_in_inference_mode_learns():
    external = torch.randn(200, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        brain = TorchBrain(p=0.1, seed=1, learning=True)
        for name in "vw":
            brain.add_area(name, 200, 10)
        brain.project({"v": external}, {"v": ["w"]}, 2)
        other = TorchBrain(p=0.1, seed=1)
        other.load_state_dict(brain.state_dict())
    for each in (brain, other):
        each.project({"v": external}, {"v": ["w"]}, 2)
        each.compute_assembly_loss({"w": range(10)}).backward()
        torch.optim.SGD(each.parameters(), lr=1.0).step()
        assert each.biases[1].any()
