"""Ranks of a divided brain, which compare it with the whole: python brain_ranks.py RENDEZVOUS FOLDER."""

import copy
import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import main

from torch_hrr import IntegrityError, assembly
from torch_hrr._ranks import GATHER, Ranks

SIZES = {"A": (1000, 30), "B": (701, 300), "C": (5, 2)}


def declare(brain, p=0.05):
    """B's winners are more than a rank's neurons; C has a neuron a rank."""
    brain.add_stimulus("s", 40)
    for name, (n, k) in SIZES.items():
        brain.add_area(name, n, k, beta=0.1 if name == "A" else 0.05, w_max=2.0 if name == "B" else None)
    brain.add_stimulus("t", 60)


def rounds():
    """Calls after which winners are compared: stimuli, recurrent, several areas, learning on and off."""
    yield lambda brain: brain.project("s", "A", 2)
    yield lambda brain: brain.project({"s": "A"}, {"A": ["A", "B"]}, rounds=2)
    yield lambda brain: brain.project({"t": ["A", "C"]}, {"A": ["A", "B"], "B": ["A", "B", "C"]}, rounds=2)
    yield lambda brain: brain.disable_plasticity()
    yield lambda brain: brain.project({"s": "A", "t": "A"}, {"A": ["B"], "B": ["A", "B"], "C": ["C", "A"]})
    yield lambda brain: brain.enable_plasticity()
    yield lambda brain: brain.project({}, {"A": ["A", "B"]}, rounds=2)


def compare(split, whole):
    for name in SIZES:
        assert torch.equal(split.winners(name), whole.winners(name)), name
        assert split.support(name) == whole.support(name)


def check_same_weights(one, other):
    assert one.get_extra_state() == other.get_extra_state()
    for pair in one.fibers:
        for mine, theirs in zip(one.potentiated(*pair), other.potentiated(*pair), strict=True):
            assert torch.equal(mine, theirs), pair
    for stimulus, area in (("s", "A"), ("t", "C")):
        assert torch.equal(one.stimulus_weights(stimulus, area), other.stimulus_weights(stimulus, area))


def check_rounds(group):
    split, whole = assembly.SplitBrain(0.05, 3, group), assembly.Brain(0.05, 3)
    declare(split)
    declare(whole)
    for step in rounds():
        step(split)
        step(whole)
        compare(split, whole)
    return split, whole


def check_ties(group):
    """Without synapses, and with all of them, the lowest neurons win: in D, more of a rank than it sends at first."""
    for p in (0.0, 1.0):
        split, whole = assembly.SplitBrain(p, 0, group), assembly.Brain(p, 0)
        more, asked = split._with_more, []
        split._with_more = lambda *args, more=more, asked=asked: (asked.append(len(args[2])), more(*args))[1]
        for brain in (split, whole):
            declare(brain)
            brain.add_area("D", 2000, 300)
            brain.project({"s": ["A", "C"]}, {}, 2)
            brain.project({"s": ["A", "B", "D"]}, {"A": "B", "C": "A"})
            brain.project({"s": "D"}, {"D": "D"})
        compare(split, whole)
        assert all(split.winners(name).tolist() == list(range(300)) for name in "BD")
        assert asked == [300, 300] if split._ranks.count > 2 else not asked
        # Whole blocks of 256 where there is one for each rank.
        assert split.neurons("A").start % (256 if p == 1 else 1) == 0


def check_errors(group, split):
    """What one rank alone gets wrong is an error on all, and changes nothing."""
    mine = dist.get_rank(group) == 1
    before = {name: split.winners(name) for name in SIZES}
    for wrong, right, error, told in (
        (lambda: split.project("u", "A"), lambda: split.project("s", "A"), "must be declared", "project"),
        (lambda: split.project("s", "A", -1), lambda: split.project("s", "A"), "rounds must be", "project"),
        (lambda: split.add_area("D", 3, 4), lambda: split.add_area("D", 9, 4), "k must be", "add_area"),
        (lambda: split.add_area("D", 1, 1), lambda: split.add_area("D", 9, 4), "n must be at least", "add_area"),
        (lambda: split.add_stimulus("u", -4), lambda: split.add_stimulus("u", 4), "size must be", "add_stimulus"),
        (lambda: assembly.SplitBrain(2, group=group), lambda: assembly.SplitBrain(0.5, group=group), "p must be",
         "SplitBrain"),
    ):  # fmt: skip
        said = error if mine else f"^{told}: arguments of rank 1 are wrong: its error says how"
        with pytest.raises(ValueError, match=said):
            (wrong if mine else right)()
    for one, other in (
        (lambda: split.project("s", "A"), lambda: split.project("s", "A", 2)),
        (lambda: split.add_area("D", 9, 4), lambda: split.add_area("D", 9, 3)),
        (lambda: split.add_stimulus("u", 4), lambda: split.project("s", "A")),
    ):
        with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
            (one if mine else other)()
    if mine:
        split.disable_plasticity()
    with pytest.raises(ValueError, match=r"arguments must be the same on all ranks, got .*plastic="):
        split.project("s", "A")
    split.enable_plasticity()
    assert all(torch.equal(split.winners(name), before[name]) for name in SIZES)
    others = [copy.deepcopy(split) for _ in range(2)]
    others[0].project("s", "A")
    with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
        others[mine].project("s", "A")


def check_failures(group, split):
    """What one rank cannot do is an error on all: before a call changes anything, and within a round."""
    mine = dist.get_rank(group) == 1

    def fail(*_):
        raise MemoryError("no more")

    whole = copy.deepcopy(split)
    if mine:
        whole._area_states = fail
    with pytest.raises(MemoryError if mine else ValueError, match="no more" if mine else "of rank 1 are wrong"):
        whole.add_area("D", 9, 4)
    whole.__dict__.pop("_area_states", None)
    whole.add_area("D", 9, 4)
    for part in ("_use", "_best", "_grow"):
        torn = copy.deepcopy(split)
        if mine:
            setattr(torn, part, fail)
        with pytest.raises(MemoryError if mine else RuntimeError, match="no more" if mine else "^project: rank 1 has"):
            torn.project("s", "A", 2)
        with pytest.raises(RuntimeError, match="add_stimulus: brain must not be used after a call that failed"):
            torn.add_stimulus("u", 4)
        assert len(torn.winners("A")) == 30


def check_files(group, folder):
    """A file of any brain is opened by any number of ranks, and by a whole brain, with the same future."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    split, whole = check_rounds(group)
    path = folder / f"split-{ranks}"
    split.save(path)
    dist.barrier(group)
    check_same_weights(assembly.Brain.load(path), whole)
    if rank == 0:
        whole.save(folder / f"whole-{ranks}")
    dist.barrier(group)
    loaded = [copy.deepcopy(split), assembly.Brain.load(path)]
    loaded += [assembly.SplitBrain.load(folder / f"{kind}-{ranks}", group=group) for kind in ("split", "whole")]
    for brain in (whole, *loaded):
        brain.project({"t": ["A", "C"]}, {"A": ["A", "B"], "B": ["A", "B", "C"]}, rounds=2)
    for brain in loaded:
        compare(brain, whole)
    # The one it was copied from stays, and what a loaded one learned is in its file, too.
    assert not torch.equal(split.winners("A"), whole.winners("A"))
    loaded[-1].save(path)
    dist.barrier(group)
    check_same_weights(assembly.Brain.load(path), whole)
    with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
        assembly.SplitBrain.load(path if rank != 1 else folder / f"whole-{ranks}", group=group)
    with pytest.raises(FileNotFoundError if rank == 1 else ValueError):
        assembly.SplitBrain.load(path if rank != 1 else folder / "none", group=group)
    with pytest.raises(TypeError if rank == 1 else ValueError):
        split.save(3 if rank == 1 else path)
    with pytest.raises(TypeError if rank == 0 else ValueError, match="key" if rank == 0 else "rank 0 are wrong"):
        split.save(path, key="no bytes" if rank == 0 else None)
    with pytest.raises(OSError if rank == 0 else RuntimeError, match="none" if rank == 0 else "rank 0 has failed"):
        split.save(folder / "none" / "brain")
    return path


def check_bytes(rank):
    """What an area sends in a round is what the class says."""
    sent = []
    gather = getattr(dist, GATHER)

    def counted(others, tensor, *rest):
        sent.append(tensor.nbytes)
        gather(others, tensor, *rest)

    split = assembly.SplitBrain(0.05)
    split.add_stimulus("s", 40)
    split.add_area("A", 1000, 30)
    split.project("s", "A")
    try:
        setattr(dist, GATHER, counted)
        split.project({"s": "A"}, {"A": "A"}, rounds=4)
    finally:
        setattr(dist, GATHER, gather)
    assert sent == [16, *[8 + 12 * 30] * 4, 8]
    # As the class says: of a million neurons with a thousand winners, and of a hundred thousand.
    split._network.areas["A"].k = 1000
    assert 12 * split._sent("A") == 12 * (200 + 200 + 64)
    split._network.areas["A"].k = 100_000
    assert 12 * split._sent("A") == 12 * (20_000 + 4 * 141 + 64)


def check(rank):
    folder = pathlib.Path(sys.argv[2])
    groups = [dist.new_group(ranks) for ranks in ([0, 1, 2], [3, 4])]
    group = groups[0] if rank < 3 else groups[1]
    with pytest.raises(ValueError, match="SplitBrain: group must be one that this process is in"):
        assembly.SplitBrain(group=groups[rank < 3])
    # Of NCCL, say: what ranks tell one another cannot lie on the CPU there.
    assert Ranks("SplitBrain", dist.new_group(backend="cuda:gloo")).device.type == "cuda"
    check_ties(group)
    split = assembly.SplitBrain.load(check_files(group, folder), group=group)
    check_errors(group, split)
    check_failures(group, split)
    check_bytes(rank)
    # What five ranks wrote, three and two go on with.
    path = check_files(None, folder)
    split, whole = assembly.SplitBrain.load(path, group=group), assembly.Brain.load(path)
    for brain in (split, whole):
        brain.project({"s": "A"}, {"A": ["A", "C"], "C": "C"}, rounds=2)
    compare(split, whole)
    assert sum(len(split.neurons(name)) for name in SIZES) < 1706
    with pytest.raises(IntegrityError):
        assembly.SplitBrain.load(__file__)


if __name__ == "__main__":
    main(check, 5)
