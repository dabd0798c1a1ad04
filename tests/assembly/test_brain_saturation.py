"""Weights at their largest can be saved and loaded again; weights beyond are refused, whoever sealed the file."""

import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.assembly import Brain
from torch_hrr.io import files

FORMAT, VERSION = "torch_hrr.assembly.Brain", 1


@pytest.fixture
def path(tmp_path):
    return tmp_path / "brain.safetensors"


def forge(path, tensors, config):
    """A file whose seal is right: anybody can make one."""
    files.save(path, tensors, config, format=FORMAT, version=VERSION)


def assert_refused(path):
    with pytest.raises(IntegrityError, match=r"^load: \S*brain\.safetensors "):
        Brain.load(path)


def test_weights_above_what_sums_of_many_winners_hold_are_refused(path):
    brain = Brain(p=0.5, seed=0)
    brain.add_area("A", n=3001, k=3001)
    brain.add_area("B", n=3, k=1, beta=1.0)
    brain.activate("A", range(3001))
    brain.project({}, {"A": ["B"]}, rounds=30)
    brain.save(path)
    tensors, config = files.load(path, format=FORMAT, version=VERSION)
    # 2^35 / 3001, which float32 rounds up: every grown synapse has it, and what rounds make can be loaded.
    largest = torch.tensor(2.0**35 / 3001)
    assert float(largest) > 2.0**35 / 3001 and float(tensors["states.2.weight"].max()) == largest
    loaded = Brain.load(path)
    for each in (brain, loaded):
        each.project({}, {"A": ["B"]}, rounds=3)
    assert loaded.winners("B").equal(brain.winners("B"))
    tensors["states.2.weight"].view(-1)[0] = largest + 1
    forge(path, tensors, config)
    assert_refused(path)


def test_a_saturated_stimulus_can_be_loaded(path):
    brain = Brain(p=0.9, seed=0)
    for name, size in (("s", 100), ("t", 2**26)):
        brain.add_stimulus(name, size=size)
    brain.add_area("A", n=50, k=5, beta=1.0, refracted=2.0**20)
    brain.project({"s": ["A"], "t": ["A"]}, rounds=3)
    brain.fix_assembly("A")
    brain.project({"s": ["A"], "t": ["A"]}, rounds=30)
    grown, more = (brain.stimulus_weights(name, "A")[brain.winners("A")] for name in "st")
    assert bool((grown == 2**24).all()) and bool((more > 2**24).all())
    brain.save(path)
    assert Brain.load(path).stimulus_weights("t", "A").equal(brain.stimulus_weights("t", "A"))


def test_weights_of_neurons_that_were_never_active_are_refused(path):
    brain = Brain(p=0.2, seed=0)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=500, k=5)
    brain.project({"s": ["A"]}, rounds=2)
    brain.save(path)
    tensors, config = files.load(path, format=FORMAT, version=VERSION)
    slots = int(tensors["states.0.slots"][0, 0])
    assert slots < tensors["states.1.weight"].shape[1]
    tensors["states.1.weight"][0, slots] = 1e30
    forge(path, tensors, config)
    assert_refused(path)
