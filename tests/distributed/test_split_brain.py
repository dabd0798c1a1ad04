"""A brain divided among ranks is a whole brain, to the last bit: with 1, 2, 3 and 5 of them."""

import copy
import weakref

import pytest
import ranks
import torch
from brain_ranks import check_rounds, check_same_weights, check_ties

from torch_hrr import assembly


def test_two_three_and_five_ranks(tmp_path):
    ranks.run("distributed/brain_ranks.py", tmp_path, tmp_path)


def test_one_rank_needs_no_group(tmp_path):
    split, whole = check_rounds(None)
    check_ties(None)
    split.save(tmp_path / "brain", b"key")
    check_same_weights(assembly.Brain.load(tmp_path / "brain", b"key"), whole)
    assert assembly.SplitBrain.load(tmp_path / "brain", b"key").neurons("A") == range(1000)
    assert split.winners("A").dtype == torch.int64 and split.device.type == "cpu" and split.p == 0.05


def test_an_area_may_have_any_name():
    brains = assembly.SplitBrain(0.1), assembly.Brain(0.1)
    for brain in brains:
        brain.add_stimulus("s", 9)
        for name, k in (("A", 3), ("A\0", 2)):
            brain.add_area(name, 20, k)
        brain.project("s", ["A", "A\0"], 2)
    assert all(torch.equal(*(brain.winners(name) for brain in brains)) for name in ("A", "A\0"))
    with pytest.raises(TypeError, match="SplitBrain: group must be a ProcessGroup or None, got int"):
        assembly.SplitBrain(group=3)


def test_tensors_are_freed_with_the_last_reference():
    """They do not wait for the garbage collector."""
    brain = assembly.SplitBrain(0.1)
    brain.add_stimulus("s", 9)
    brain.add_area("A", 20, 3)
    brain.project("s", "A", 2)
    made = weakref.ref(brain)
    del brain
    assert made() is None


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: with_area(refracted=True), "area 'A' must not have refracted"),
        (lambda: with_area(normalize=True), "area 'A' must not have normalize"),
        (lambda: with_area(refractory_period=2), "area 'A' must not have refractory_period"),
        (lambda: with_area(ties="keyed"), "area 'A' must not have ties"),
        (lambda: with_area({"batch": 2}), "must not have a batch"),
        (lambda: with_area({"mode": "sampled"}), "must not have mode 'sampled'"),
        (lambda: changed(lambda brain: brain.inhibit("A")), "area 'A' must not have locks"),
        (lambda: changed(lambda brain: brain.fix_assembly("A")), "area 'A' must not have fixed"),
        (lambda: changed(lambda brain: brain.inhibit_fiber("A", "A")), "must not have locks"),
        (lambda: changed(lambda brain: brain.connect("A", "A", edges=torch.eye(9))), "must not have graphs of its own"),
    ],
)
def test_what_is_not_divided_is_refused(made, message, tmp_path):
    made().save(tmp_path / "brain")
    with pytest.raises(ValueError, match=f"^load: .*{message}"):
        assembly.SplitBrain.load(tmp_path / "brain")


@pytest.mark.parametrize("mode", [torch.inference_mode(), torch.device("meta"), torch.autocast("cpu")])
def test_no_mode_of_torch_changes_a_bit(mode, tmp_path):
    """What is made, learned, saved and loaded within it goes on outside of it."""
    with mode:
        split, _ = check_rounds(None)
        split.save(tmp_path / "brain")
        loaded = [assembly.SplitBrain.load(tmp_path / "brain"), copy.deepcopy(split), split]
    whole = assembly.Brain.load(tmp_path / "brain")
    for brain in (whole, *loaded):
        brain.project({"s": "A"}, {"A": ["A", "B"]}, 2)
    assert all(torch.equal(brain.winners("B"), whole.winners("B")) for brain in loaded)


def test_a_neuron_that_learned_has_no_less_than_its_count():
    """Which float32 rounds down once it has grown: the others do not win the next round."""
    for brain in (assembly.SplitBrain(1.0), assembly.Brain(1.0)):
        brain.add_stimulus("s", 2**24 + 1)
        brain.add_area("A", 10, 3)
        brain.project("s", "A", 2)
        assert brain.winners("A").tolist() == [0, 1, 2]
    assert brain.inputs("A", ["s"]).unique().tolist() == [2**24 + 1]


def with_area(options=None, **area):
    brain = assembly.Brain(**(options or {}))
    brain.add_area("A", 9, 2, **area)
    return brain


def changed(change):
    brain = with_area()
    brain.activate("A", [1, 2])
    change(brain)
    return brain


def test_what_a_whole_brain_was_set_to_comes_with_its_file(tmp_path):
    """Winners that were set, fibers and plasticities of their own; in eval mode nothing grows."""
    whole = assembly.Brain(0.1, 5)
    for name in ("A", "B"):
        whole.add_area(name, 200, 10)
    whole.connect("A", "B", p=0.3, w_max=1.2)
    whole.set_beta("B", "B", 0.5)
    whole.activate("A", range(100, 110))
    whole.project({}, {"A": ["A", "B"]}, 2)
    # Without a slot: nothing fired since.
    whole.activate("A", range(190, 200))
    whole.save(tmp_path / "brain")
    split = assembly.SplitBrain.load(tmp_path / "brain")
    for brain in (whole, split):
        brain.project({}, {"A": ["A", "B"], "B": ["B", "A"]}, 5)
    assert all(torch.equal(whole.winners(name), split.winners(name)) for name in ("A", "B"))
    split.save(tmp_path / "again")
    found = assembly.Brain.load(tmp_path / "again")
    # Every row knows the slots that it knew, those of the winners that were set among them.
    for rounds in (0, 2):
        for brain in (whole, found):
            brain.project({}, {"A": ["A", "B"], "B": ["B", "A"]}, rounds)
        assert found.get_extra_state() == whole.get_extra_state()
        for pair in whole.fibers:
            for mine, theirs in zip(whole.potentiated(*pair), found.potentiated(*pair), strict=True):
                assert torch.equal(mine, theirs), pair
    whole.eval().save(tmp_path / "brain")
    assert not assembly.SplitBrain.load(tmp_path / "brain").plastic
