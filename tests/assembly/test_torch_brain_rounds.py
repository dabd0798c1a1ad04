"""Rounds of `TorchBrain`: what they normalise, and what is left of a projection that fails."""

from unittest.mock import patch

import pytest
import torch

from torch_hrr.assembly import Brain, TorchBrain

SENSES = {"S": ["V", "N"], "V": ["N"], "N": ["N"]}


def drawn(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def senses(brain, n=500, k=25, beta=0.3):
    """Two areas that fire into one with normalised columns."""
    for name in "SVN":
        brain.add_area(name, n, k, beta, normalize=name == "N")
    for name in "SV":
        (brain.brain if isinstance(brain, TorchBrain) else brain).activate(name, range(k))
    return brain


# Normalised columns


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("external", ["", "V", "N", "VN"])
def test_zeros_for_some_areas_change_nothing_in_a_normalised_one(external, rounds, learning):
    face = senses(TorchBrain(p=0.1, seed=1, learning=learning))
    brain = senses(Brain(p=0.1, seed=1))
    for _ in range(2):
        face.project({name: torch.zeros(500) for name in external}, SENSES, rounds)
        brain.project({}, SENSES, rounds)
        for area in "SVN":
            assert torch.equal(face.winners(area), brain.winners(area))
            assert face.support(area) == brain.support(area)
            for mine, others in zip(face.brain.potentiated("S", area), brain.potentiated("S", area), strict=True):
                assert torch.equal(mine, others)


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("external", ["", "V", "N"])
def test_a_call_of_the_brain_normalises_each_reached_area_once(external, learning):
    """The rounds within it do so themselves; with an external input, and for what a loss wants, a round is a call."""
    face = senses(TorchBrain(p=0.1, seed=1, learning=learning))
    with patch.object(Brain, "normalize", autospec=True, side_effect=Brain.normalize) as normalize:
        face.project({name: drawn(500) for name in external}, SENSES, rounds=3)
    assert [call.args[1] for call in normalize.call_args_list] == ["N"] * (3 if external else 1 + learning)


@pytest.mark.parametrize("learning", [False, True])
def test_a_fixed_area_is_normalised_too(learning):
    face = senses(TorchBrain(p=0.1, seed=1, learning=learning))
    brain = senses(Brain(p=0.1, seed=1))
    for each in (face.brain, brain):
        each.activate("N", range(25))
        each.fix_assembly("N")
    face.project({"V": torch.zeros(500)}, SENSES, 3)
    brain.project({}, SENSES, 3)
    assert torch.equal(face.brain._network.fibers["S", "N"].scale, brain._network.fibers["S", "N"].scale)
    assert face.brain._network.fibers["S", "N"].scale.numel() == 500


# Inputs too far apart


def strong(weight, learning=True):
    """A shows its input and fires into B with heavy synapses, and into N, whose columns are normalised."""
    brain = TorchBrain(p=0.1, seed=1, learning=learning)
    brain.add_area("A", 300, 100)
    brain.add_area("B", 50, 5)
    brain.add_area("N", 60, 6, normalize=True)
    edges = torch.zeros(300, 50)
    edges[:, :5] = weight
    brain.brain.connect("A", "B", edges=edges, beta=0.5)
    return brain


def everything(brain):
    """All that determines a brain, and what its losses are computed from."""
    tensors = {name: each.clone() for name, each in brain.state_dict().items() if isinstance(each, torch.Tensor)}
    return tensors, brain.brain.get_extra_state(), brain._projections, brain._given.keys(), brain._received.keys()


def assert_unchanged(brain, before):
    after = everything(brain)
    assert after[1:] == before[1:] and after[0].keys() == before[0].keys()
    assert all(torch.equal(after[0][name], tensor) for name, tensor in before[0].items())


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("shown", [False, True])
def test_inputs_too_far_apart_leave_the_brain_unchanged(shown, rounds, learning):
    brain, other = strong(2.0**24, learning), strong(2.0**24, learning)
    external = {"A": drawn(300), "B": torch.zeros(50)}
    for each in (brain, other) if shown else ():
        each.project({"A": drawn(300, 1)}, {"A": ["N"]})
    before = everything(brain)
    with pytest.raises(RuntimeError, match=r"^project: inputs must differ by less than 1073741824 .*, got 1\.67"):
        brain.project(external, {"A": ["B", "N"], "N": ["N", "A"]} if shown else {"A": ["B", "N"]}, rounds)
    assert_unchanged(brain, before)
    for each in (brain, other):
        each.project({"A": drawn(300)}, {"A": ["N", "A"]}, 3)
    assert_unchanged(brain, everything(other))


def test_inputs_of_normalised_columns_have_less_room():
    brain = TorchBrain(p=0.1, seed=1)
    brain.add_area("A", 300, 30, normalize=True, refracted=2.0**20)
    brain.brain.activate("A", range(30))
    brain.project({"A": drawn(300)}, {"A": ["A"]})
    before = everything(brain)
    with pytest.raises(RuntimeError, match="inputs must differ by less than 1048576 with an external input, got"):
        brain.project({"A": drawn(300)}, {"A": ["A"]})
    assert_unchanged(brain, before)


def test_inputs_too_far_apart_in_a_later_round_leave_the_rounds_before():
    brain, other = strong(9e6), strong(9e6)
    external = {"A": drawn(300), "B": torch.zeros(50)}
    projections = {"A": ["B", "N"]}
    for each in (brain, other):
        each.project({"A": external["A"]}, {"A": ["A"]})
    losses = brain.compute_assembly_loss({"A": range(100)})
    with pytest.raises(RuntimeError, match="inputs must differ by less than"):
        brain.project(external, projections, 5)
    assert torch.equal(brain.compute_assembly_loss({"A": range(100)}), losses)
    other.disable_learning()
    other.project(external, projections)
    other.enable_learning()
    assert_unchanged(brain, (*everything(other)[:2], *everything(brain)[2:]))
    assert brain.winners("B").tolist() == list(range(5))


# What the next round would bring


def test_select_winners_changes_nothing():
    brain = senses(TorchBrain(p=0.1, seed=1))
    brain.brain.project({}, {"S": ["N"]}, 2)
    projections = {"S": ["V", "N"], "V": ["V", "N"]}
    brain.project({}, projections)
    brain._projections = {"N": ["V", "N"], **projections}
    before = everything(brain)
    coming = brain._select_winners()
    assert_unchanged(brain, before)
    brain.project({}, brain._projections)
    assert {name: winners.tolist() for name, winners in coming.items()} == {
        name: brain.winners(name).tolist() for name in ("V", "N")
    }


# The external input that losses are of


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_losses_are_of_the_external_input_as_it_was(mode):
    values, gradients = [], []
    for change in (False, True):
        brain = TorchBrain(learning=True)
        brain.add_area("A", 300, 20)
        external = drawn(300).requires_grad_()
        with mode():
            brain.project({"A": external})
        if change:
            with torch.no_grad():
                external.mul_(-2)
        loss = brain.compute_assembly_loss({"A": range(20)})
        loss.backward()
        values.append(loss.detach())
        gradients.append(external.grad)
    assert torch.equal(*values) and torch.equal(*gradients)
    assert gradients[0].any()
