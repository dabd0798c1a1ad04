"""Brains of a batch that differ: locks, fixed assemblies, winners and what fires, against batches that do not."""

import copy

import numpy as np
import pytest
import torch
from brain_programs import of_brain

from torch_hrr.assembly import Brain

BATCH = 3


def batch_of(mode="exact", brain=None, **options):
    brain = Brain(p=0.2, seed=5, mode=mode, batch=BATCH) if brain is None else brain
    for name, size in (("s", 20), ("t", 25)):
        brain.add_stimulus(name, size)
    for name, n, k in (("A", 200, 14), ("B", 150, 10), ("C", 180, 12)):
        brain.add_area(name, n, k, 0.2, **options)
    return brain


def first(brain, brains=None):
    brain.project({"s": ["A"], "t": ["B"]}, {"A": ["A"]}, rounds=3, brains=brains)
    brain.fix_assembly("B", brains=brains)
    brain.project({"s": ["A"]}, {"A": ["A", "B"], "B": ["C"]}, rounds=3, brains=brains)
    brain.inhibit("C", lock=2, brains=brains)
    brain.project({"t": ["C"]}, {"A": ["C", "A"], "B": ["C"]}, rounds=2, brains=brains)
    brain.unfix_assembly("B", brains=brains)
    brain.reciprocal_project("A", "B", 3, brains=brains)


def second(brain, brains=None):
    brain.activate("A", range(3, 12), brains=brains)
    brain.inhibit_fiber("A", "B", brains=brains)
    brain.project({"t": ["B"]}, {"A": ["A", "B"]}, rounds=4, brains=brains)
    brain.disinhibit_fiber("A", "B", brains=brains)
    brain.associate("A", "B", "C", 3, {"s": ["A"]}, brains=brains)
    brain.merge("A", "B", "C", 3, brains=brains)
    brain.clear("B", brains=brains)


def third(brain, brains=None):
    brain.project({"s": ["C"], "t": ["A"]}, rounds=4, brains=brains)
    brain.project({}, {"A": ["A", "C"]}, rounds=4, brains=brains)
    brain.pattern_complete("A", 0.5, 3, brains=brains)


PROGRAMS = [first, second, third]


@pytest.mark.parametrize("options", [{}, {"refracted": 0.5, "normalize": True}, {"w_max": 1.5}])
def test_brains_with_programs_of_their_own_are_those_of_batches_that_all_do_the_same(options):
    mixed = batch_of(**options)
    for b, program in enumerate(PROGRAMS):
        program(mixed, brains=b)
    for b, program in enumerate(PROGRAMS):
        alike = batch_of(**options)
        program(alike)
        expected, found = of_brain(alike, b), of_brain(mixed, b)
        assert {name: found[name] for name in expected if name in found} == expected


def test_one_call_in_which_flags_differ():
    """Brains of different locks and fixed assemblies in the same rounds, against one call a brain."""
    together, apart = batch_of(), batch_of()
    for brain in (together, apart):
        brain.project({"s": ["A"], "t": ["B"]}, {"A": ["A"]}, rounds=3)
        brain.inhibit("B", brains=[0])
        brain.fix_assembly("A", brains=np.array([False, True, False]))
        brain.inhibit_fiber("A", "C", brains=torch.tensor([2]))
    call = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A", "B", "C"], "B": ["C", "A"]}, "rounds": 4}
    together.project(**call)
    for b in (2, 0, 1):
        apart.project(**call, brains=b)
    for b in range(BATCH):
        assert of_brain(together, b) == of_brain(apart, b)
    assert not torch.equal(together.winners("A")[0], together.winners("A")[1])
    assert together.areas["A"].fixed.tolist() == [False, True, False]
    assert together.areas["B"].inhibited.tolist() == [True, False, False]


def test_sampled_brains_differ_too():
    mixed = batch_of("sampled")
    for b, program in enumerate((first, third)):
        program(mixed, brains=b)
    for b, program in enumerate((first, third)):
        alike = batch_of("sampled")
        program(alike)
        assert of_brain(alike, b) == of_brain(mixed, b)
    assert mixed.support("A")[2] == 0


def test_files_and_copies_keep_what_differs(tmp_path):
    brain = batch_of()
    for b, program in enumerate(PROGRAMS):
        program(brain, brains=b)
    brain.fix_assembly("A", brains=[1, 2])
    brain.inhibit("B", lock=7, brains=[True, False, True])
    brain.inhibit_fiber("A", "C", lock=1, brains=[1])
    brain.inhibit_fiber("A", "C", lock=4)
    brain.save(tmp_path / "brain.safetensors")
    loaded, copied = Brain.load(tmp_path / "brain.safetensors"), copy.deepcopy(brain)
    assert loaded.get_extra_state() == brain.get_extra_state()
    for other in (brain, loaded, copied):
        other.disinhibit_fiber("A", "C", lock=4)
        other.disinhibit("B", lock=7, brains=0)
        other.project({"s": ["A"]}, {"A": ["A", "B", "C"]}, rounds=3)
    for b in range(BATCH):
        assert of_brain(brain, b) == of_brain(loaded, b) == of_brain(copied, b)


def test_rows_of_different_lengths():
    brain = batch_of()
    assert brain.winners("A").shape == (BATCH, 0)
    brain.activate("A", [[5, 3], [7, 8]], brains=[2, 0])
    assert brain.winners("A").tolist() == [[7, 8], [-1, -1], [3, 5]]
    brain.activate("A", [1, 2, 9], brains=[False, True, False])
    assert brain.winners("A").tolist() == [[7, 8, -1], [1, 2, 9], [3, 5, -1]]
    with pytest.raises(ValueError, match=r"^project: source area must have winners, got none in 'A' of brain 0$"):
        brain.clear("A", brains=0)
        brain.project({}, {"A": ["B"]})
    brain.project({}, {"A": ["B"]}, brains=[1, 2])
    assert brain.winners("B")[0].tolist() == [-1] * 10
    assert brain.ever_won("B").shape == (BATCH, 10)
    assert brain.winners("A").tolist() == [[-1, -1, -1], [1, 2, 9], [3, 5, -1]]
    brain.project({}, {"A": ["B"]}, brains=[])


def test_what_is_wrong_with_brains():
    brain = batch_of()
    for error, values in (
        (IndexError, [3, -1]), (ValueError, [[0, 0], [True, False]]), (TypeError, [0.5, "A", [[0]]]),
    ):  # fmt: skip
        for wrong in values:
            for call, args in (("project", [{"s": ["A"]}]), ("inhibit", "A"), ("activate", ["A", [1]])):
                with pytest.raises(error, match=rf"^{call}: brains must "):
                    getattr(brain, call)(*args, brains=wrong)
    assert brain.winners("A").numel() == 0
    with pytest.raises(ValueError, match=r"^activate: indices must have shape \[m\] or \[2, m\], got \[3, 1\]$"):
        brain.activate("A", [[1], [2], [3]], brains=[0, 1])


SEEDS = [7, 2**64 - 1, 0, -3]


def readings(brain, number=None):
    """What of one brain no round has to make: draws of its graph, ties and sums."""
    seen = [brain.winners("A"), brain.ever_won("A"), brain.stimulus_counts("s", "A")]
    seen.append(brain.inputs("A", {"s": ["A"]}, {"A": ["A"]}))
    seen = [part if number is None else part[number] for part in seen]
    # What has won is padded to the longest of a batch.
    seen[1] = seen[1][seen[1] >= 0]
    return [*seen, *(brain.weights(source, "B", brain=number or 0) for source in "AC")]


def program(brain, brains=None):
    for each in (first, second, third):
        each(brain, brains)
    brain.normalize("A")
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2, brains=brains)


@pytest.mark.parametrize("options", [{}, {"ties": "keyed"}, {"refracted": 0.5, "normalize": True}])
def test_a_brain_of_a_batch_of_seeds_is_the_brain_of_its_seed(options, tmp_path):
    """Bit for bit, in one call or alone in it, and after a file, a copy or a state."""
    many = batch_of(brain=Brain(p=0.2, seeds=SEEDS), **options)
    assert many.seeds == (7, -1, 0, -3) and many.batch == 4 and many.seed == 0 and "seeds=[7, -1, 0, -3]" in repr(many)
    program(many)
    for b in (0, 3):
        first(many, brains=b)
    many.save(tmp_path / "brain")
    again = batch_of(brain=Brain(p=0.2, seeds=torch.tensor([7, -1, 0, -3])), **options)
    again.load_state_dict(copy.deepcopy(many.state_dict()))
    alone = [batch_of(brain=Brain(p=0.2, seed=seed), **options) for seed in SEEDS]
    for b, one in enumerate(alone):
        program(one)
        if b in (0, 3):
            first(one)
    for brain in (many, again, Brain.load(tmp_path / "brain"), copy.deepcopy(many)):
        third(brain)
        for b, seed in enumerate(SEEDS):
            one = copy.deepcopy(alone[b])
            third(one)
            assert all(map(torch.equal, readings(brain, b), readings(one))), seed
    assert not torch.equal(many.winners("A")[0], many.winners("A")[1])


def test_sampled_brains_have_seeds_too():
    many = batch_of(brain=Brain(p=0.2, mode="sampled", seeds=SEEDS))
    first(many)
    for b, seed in enumerate(SEEDS):
        one = batch_of(brain=Brain(p=0.2, mode="sampled", seed=seed, batch=1))
        first(one)
        assert of_brain(many, b) == of_brain(one, 0)


def test_wrong_seeds_are_named():
    for error, options in (
        *((ValueError, each) for each in ({"seeds": []}, {"seeds": [1, 2], "batch": 3}, {"seeds": [1], "seed": 4})),
        *((TypeError, {"seeds": wrong}) for wrong in ([1, 2.5], 3, {1, 2}, "12", torch.ones(2, 2))),
    ):  # fmt: skip
        with pytest.raises(error, match=r"^Brain: seeds? must "):
            Brain(p=0.1, **options)


def test_a_state_of_other_seeds_is_refused():
    with pytest.raises(ValueError, match=r"^load_state_dict: seeds must be \[1, 2\], got \[2, 1\]$"):
        Brain(p=0.1, seeds=[1, 2]).load_state_dict(Brain(p=0.1, seeds=[2, 1]).state_dict())
    with pytest.raises(ValueError, match=r"^load_state_dict: seeds must be None, got \[0, 0\]$"):
        Brain(p=0.1, batch=2).load_state_dict(Brain(p=0.1, seeds=[0, 0]).state_dict())
