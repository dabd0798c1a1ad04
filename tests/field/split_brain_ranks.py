"""Ranks of a field brain, which compare it with the whole one: python split_brain_ranks.py RENDEZVOUS FOLDER."""

import copy
import math
import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import main

from torch_hrr import IntegrityError, field
from torch_hrr._ranks import GATHER

# Planes of 12, 45 and 64 places: blocks of 64 lie within a plane, across planes and across several ranks.
KINDS = {
    "no steps": {"spatial": (5, 1, 1), "channels": 7, "noise": 0.0, "decay": 0.0, "diffusion": 0.0},
    "small planes": {"spatial": (5, 3, 4), "channels": 9, "noise": 0.05},
    "modulated": {"spatial": (7, 9, 5), "channels": 12, "noise": 0.0, "boundary": "zeros", "modulate": True},
    "whole blocks": {"spatial": (6, 8, 8), "channels": 16, "boundary": "circular", "dtype": torch.bfloat16},
}


def make(kind, group=None, split=True, **settings):
    given = {"seed": 3, "patterns": 4, "threshold": 0.01, "device": "cpu"} | KINDS[kind] | settings
    return field.SplitFieldBrain(4, 2, group=group, **given) if split else field.FieldBrain(4, 2, **given)


def cycle(brain, number):
    """What the robot gets, as numbers or from a step, but for the time."""
    sensory, reward = [math.sin(number + place) for place in range(4)], number % 3 - 1.0
    if number % 4 == 3:
        return brain.step(torch.tensor(sensory), reward).tolist()
    motor, state = brain.process_robot_cycle(sensory, reward)
    del state["cycle_time_ms"]
    return motor, state


def planes(split, whole):
    """This rank's part of a whole field."""
    ranks = split._ranks
    return whole[len(whole) * ranks.rank // ranks.count : len(whole) * (ranks.rank + 1) // ranks.count]


def compare(split, whole):
    """All that a brain holds, bit for bit."""
    for name, tensor in whole.state_dict().items():
        if name in ("_even", "_odd"):
            continue
        own = split.state_dict()[name]
        assert torch.equal(own, planes(split, tensor) if name == "_start" else tensor), name
    assert torch.equal(split.field, planes(split, whole.field)) and split.cycle == whole.cycle


def check_cycles(group):
    for kind in KINDS:
        split, whole = make(kind, group), make(kind, split=False)
        compare(split, whole)
        for number in range(10):
            assert cycle(split, number) == cycle(whole, number), (kind, number)
        assert len(whole.library) == 4
        compare(split, whole)
    for each in (split, whole):
        each.eval()
        each.reset()
    compare(split, whole)
    copied = copy.deepcopy(split)
    assert cycle(split, 1) == cycle(whole, 1)
    assert not torch.equal(copied.field, split.field)
    same = split.gather()
    assert type(same) is field.FieldBrain and not same.training and not same.library.training
    compare(split, same)
    assert cycle(same, 2) == cycle(split, 2) == cycle(whole, 2)


def check_equal_places(group):
    """Of places that are alike the first is the best, however BLAS rounds what it makes of each."""
    settings = {"spatial": 5, "channels": 16, "modulate": False}
    split, whole = (make("modulated", group, split, **settings) for split in (True, False))
    for number in range(8):
        row = torch.randn(16, generator=torch.Generator().manual_seed(number))
        for each in (split, whole):
            each.field.copy_(row.expand_as(each.field))
        assert cycle(split, number) == cycle(whole, number), number
    compare(split, whole)


def check_seeds(group):
    """Without a seed the first rank draws one."""
    torch.manual_seed(dist.get_rank(group))
    seed = make("small planes", group, seed=None).seed
    seeds = [None] * dist.get_world_size(group)
    dist.all_gather_object(seeds, seed, group)
    assert seeds == [seed] * len(seeds)


def check_errors(group):
    """What one rank alone gets wrong is an error on all of them, and changes nothing."""
    split, whole = make("small planes", group), make("small planes", split=False)
    mine = dist.get_rank(group) == 1
    good = torch.ones(4)

    def made(**settings):
        return lambda: make("small planes", group, **settings)

    for wrong, right, error, match, op in (
        (lambda: split.step(good[1:]), lambda: split.step(good), ValueError, "sensory must have shape", "step"),
        (lambda: split.step(good, "1"), lambda: split.step(good), TypeError, "reward must be", "step"),
        (lambda: split(good, math.nan), lambda: split(good), ValueError, "reward must be", "FieldBrain"),
        (lambda: split.process_robot_cycle([1, 2]), lambda: split.process_robot_cycle([1] * 4), ValueError,
         "sensory must have 4 values", "process_robot_cycle"),
        (lambda: split.process_robot_cycle([1] * 4, 0.0, 1), lambda: split.process_robot_cycle([1] * 4), TypeError,
         "terminated must be", "process_robot_cycle"),
        (made(decay=2.0), made(), ValueError, "SplitFieldBrain: decay must be", "SplitFieldBrain"),
        (made(velocities=True), made(), TypeError, "settings must be arguments of FieldBrain", "SplitFieldBrain"),
        (made(learner="actor-critic"), made(), ValueError, "learner of a subclass must be 'imprint'",
         "SplitFieldBrain"),
        (made(spatial=(1, 9, 9)), made(), ValueError, "ranks must be at most 1, the number", "SplitFieldBrain"),
        (lambda: split.save(3), lambda: split.save("folder"), TypeError, "path must be", "save"),
        (lambda: split.save("folder", b""), lambda: split.save("folder"), ValueError, "key must", "save"),
    ):  # fmt: skip
        said = match if mine else f"^{op}: arguments of rank 1 are wrong: its error says how"
        with pytest.raises(error if mine else ValueError, match=said):
            (wrong if mine else right)()
    for one, other in (
        (lambda: split.step(good), lambda: split.step(good, 0.5)),
        (lambda: split.step(good), lambda: split.process_robot_cycle([1] * 4)),
        (lambda: split.reset(), lambda: split.gather()),
        (made(), made(seed=4)),
        (made(), made(decay=0.3)),
        (made(), made(dtype=torch.bfloat16)),
        (made(), made(device="meta")),
    ):
        with pytest.raises(ValueError, match="arguments must be the same on all ranks, got"):
            (one if mine else other)()
    for change, back in (
        (lambda: split.library.eval(), lambda: split.train()),
        (lambda: setattr(split, "gain", 2.0), lambda: setattr(split, "gain", 1.0)),
        (lambda: torch.set_num_threads(2), lambda: torch.set_num_threads(1)),
    ):
        if mine:
            change()
        with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
            split.step(good)
        back()
    split.eager = mine
    with pytest.raises(ValueError, match="eager must be False" if mine else "arguments of rank 1 are wrong"):
        split.step(good)
    split.eager = False
    compare(split, whole)
    # No rank may call another brain than the others do.
    others = [copy.deepcopy(split) for _ in range(2)]
    others[0].reset()
    with pytest.raises(ValueError, match=r"arguments must be the same on all ranks, got .*, after"):
        others[mine].step(good)


def check_failures(group, split):
    """A cycle that fails on a rank is an error on all, and the brain is used no more."""
    mine = dist.get_rank(group) == 1

    def fail(*_, **__):
        raise MemoryError("no more")

    for failing in (torch.ops.torch_hrr._field_moments, torch):
        torn = copy.deepcopy(split)
        with pytest.MonkeyPatch.context() as patch:
            if mine:
                patch.setattr(failing, "mean" if failing is torch else "out", fail)
            with pytest.raises(MemoryError if mine else RuntimeError, match="no more" if mine else "rank 1 has failed"):
                cycle(torn, 0)
        with pytest.raises(RuntimeError, match="reset: brain must not be used after a call that failed half-way"):
            torn.reset()


def check_files(group, folder, kind):
    """What any ranks wrote, and the file of a whole brain, is opened by any number of ranks, with the same future."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    split, whole = make(kind, group), make(kind, split=False)
    for number in range(3):
        assert cycle(split, number) == cycle(whole, number)
    split.library.eval()
    whole.library.eval()
    path = folder / f"split-{ranks}"
    split.save(path, b"key")
    # Another round, of which the folder's files are.
    split.save(path, b"key")
    dist.barrier(group)
    assert {each.name for each in path.iterdir()} == {
        "index.safetensors",
        *(f"1-{r}.safetensors" for r in range(ranks)),
    }
    if rank == 0:
        whole.save(folder / f"whole-{ranks}", b"key")
    dist.barrier(group)
    for each in (path, folder / f"whole-{ranks}"):
        loaded = field.SplitFieldBrain.load(each, b"key", device="cpu", group=group)
        compare(loaded, whole)
        assert loaded.training and not loaded.library.training
        assert cycle(loaded, 3) == cycle(copy.deepcopy(whole), 3)
    for wrong, error in ((folder / "none", FileNotFoundError), (3, TypeError), (folder, FileNotFoundError)):
        with pytest.raises(error if rank == 1 else ValueError, match=None if rank == 1 else "rank 1 are wrong"):
            field.SplitFieldBrain.load(wrong if rank == 1 else path, b"key", device="cpu", group=group)
    with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
        split.save(path, b"other" if rank == 1 else b"key")
    with pytest.raises(IntegrityError if rank == 1 else ValueError):
        field.SplitFieldBrain.load(path, b"other" if rank == 1 else b"key", device="cpu", group=group)
    with pytest.raises(IntegrityError if rank == 0 else RuntimeError, match="key" if rank == 0 else "0 has failed"):
        split.save(path)
    if rank == 0:
        (folder / f"file-{ranks}").touch()
    with pytest.raises(OSError if rank == 0 else RuntimeError, match=None if rank == 0 else "rank 0 has failed"):
        split.save(folder / f"file-{ranks}")
    return path, whole


def check_bytes(rank, group):
    """What a rank sends in a cycle is what the class says."""
    split = make("small planes", group)
    cycle(split, 0)
    sent = []
    calls = {name: getattr(dist, name) for name in (GATHER, "batch_isend_irecv")}

    def gather(others, tensor, *rest):
        sent.append(tensor.nbytes)
        calls[GATHER](others, tensor, *rest)

    def batch_isend_irecv(transfers):
        sent.extend(each.tensor.nbytes for each in transfers if each.op is dist.isend)
        return calls["batch_isend_irecv"](transfers)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dist, GATHER, gather)
        patch.setattr(dist, "batch_isend_irecv", batch_isend_irecv)
        cycle(split, 1)
    depth, plane, channels = -(-5 // dist.get_world_size(group)), 12, 9
    halo = 4 * plane * channels * ((split._split.origin > 0) + (split._split.origin + len(split.field) < 5))
    means, blocks = 4 * (plane * depth + channels), 4 * 63 * channels + 16 * channels
    assert 0 <= sum(sent) - halo - means - blocks <= 96 and sum(sent) > halo + means + blocks


def check(rank):
    folder = pathlib.Path(sys.argv[2])
    groups = [dist.new_group(ranks) for ranks in ([0, 1, 2], [3, 4], *([each] for each in range(5)))]
    group, one = groups[0] if rank < 3 else groups[1], groups[2 + rank]
    for each in (None, group, one):
        check_cycles(each)
        check_equal_places(each)
    check_seeds(group)
    check_errors(group)
    check_failures(group, make("whole blocks", group))
    check_bytes(rank, group)
    check_files(group, folder, "modulated")
    # What five ranks wrote, three, two and one go on with.
    path, whole = check_files(None, folder, "whole blocks")
    for each in (group, one):
        loaded = field.SplitFieldBrain.load(path, b"key", device="cpu", group=each)
        compare(loaded, whole)
        assert cycle(loaded, 5) == cycle(copy.deepcopy(whole), 5)


if __name__ == "__main__":
    main(check, 5)
