"""Sizes at which integer inputs would overflow are refused before any work."""

import pytest

from torch_hrr.assembly import Brain


def test_too_many_firing_neurons_are_refused():
    brain = Brain(p=0.5)
    for name in "st":
        brain.add_stimulus(name, size=2**30)
    brain.add_area("A", n=50, k=5)
    brain.project({"s": ["A"]})
    before = brain.winners("A")
    with pytest.raises(ValueError, match=r"project: fewer than 2\^31 neurons must fire into an area, got 2147483648"):
        brain.project({"s": ["A"], "t": ["A"]})
    assert brain.winners("A").equal(before)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
    assert brain.support("A") >= 5
