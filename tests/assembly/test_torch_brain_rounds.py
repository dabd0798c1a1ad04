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
def test_a_round_normalises_each_reached_area_once(external, learning):
    face = senses(TorchBrain(p=0.1, seed=1, learning=learning))
    with patch.object(Brain, "normalize", autospec=True, side_effect=Brain.normalize) as normalize:
        face.project({name: drawn(500) for name in external}, SENSES, rounds=3)
    assert [call.args[1] for call in normalize.call_args_list] == ["N"] * 3


@pytest.mark.parametrize("learning", [False, True])
def test_a_fixed_area_is_normalised_too(learning):
    face = senses(TorchBrain(p=0.1, seed=1, learning=learning))
    brain = senses(Brain(p=0.1, seed=1))
    for each in (face.brain, brain):
        each.activate("N", range(25))
        each.fix_assembly("N")
    face.project({"V": torch.zeros(500)}, SENSES, 3)
    brain.project({}, SENSES, 3)
    assert torch.equal(face.brain._fibers["S", "N"].scale, brain._fibers["S", "N"].scale)
    assert face.brain._fibers["S", "N"].scale.numel() == 500
