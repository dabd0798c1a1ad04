"""Ranks of a split field, which compare their planes with the whole: python split_rank.py RENDEZVOUS."""

import copy
import datetime
import gc
import itertools
import multiprocessing
import sys

import pytest
import torch
import torch.distributed as dist

from torch_hrr import field

BOUNDARIES = ("replicate", "zeros", "circular")
STENCILS = ("laplace", "box", "binomial")
# Planes of each rank.
COUNTS = {1: (5,), 2: (1, 4), 3: (2, 1, 3)}


def make(counts, rank, group, *, batch=(), dtype=torch.float32):
    torch.manual_seed(0)
    whole = torch.randn(*batch, sum(counts), 3, 5, 6, dtype=torch.float64).to(dtype)
    return whole, field.SplitField(whole.split(counts, -4)[rank], group)


def same(split, mine, whole):
    """This rank's planes, bit for bit."""
    return torch.equal(mine, whole.narrow(-4, split.origin, mine.shape[-4]))


def check(rank, ranks, group=None):
    counts = COUNTS[ranks]
    for boundary, stencil in itertools.product(BOUNDARIES, STENCILS):
        whole, split = make(counts, rank, group)
        expected = field.evolve(whole, 0.1, 0.15, 3, boundary, stencil)
        assert same(split, split.evolve(0.1, 0.15, 3, boundary, stencil), expected), (boundary, stencil)
        assert torch.equal(split.gather(), expected)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        whole, split = make(counts, rank, group, batch=(2, 1), dtype=dtype)
        key = field.random_key(7)
        split.evolve(0.1, 0.1, 2, "circular", noise=0.3, key=key)
        assert key.tolist() == [7, 0] and split.numel == whole.numel()
        key = field.advance_key(key, split.numel, 2)
        split.evolve(0.1, 0.1, noise=0.3, key=key)
        expected = field.evolve(whole, 0.1, 0.1, 2, "circular", noise=0.3, key=field.random_key(7))
        expected = field.evolve(expected, 0.1, 0.1, noise=0.3, key=key)
        assert same(split, split.planes, expected), dtype
        slopes = split.gradient()
        assert same(split, slopes, field.gradient(expected)) and slopes.shape[-5] == 3
        assert same(split, split.gradient_magnitude(False), field.gradient_magnitude(expected, False))
    # A key of the first rank's own: noise of all ranks is that of one field, whose parts are not alike.
    torch.manual_seed(rank)
    split = field.SplitField(torch.zeros(counts[rank], 3, 5, 6), group)
    split.evolve(0.0, 0.0, noise=1.0)
    drawn = split.gather()
    assert 0.8 < float(drawn.std()) < 1.2 and drawn.unique().numel() == drawn.numel()
    assert torch.equal(copy.deepcopy(split).gather(), drawn)
    # Planes may be written to; what is wrong leaves them.
    split.planes.fill_(1.0)
    for call in (
        lambda: split.evolve(0.0, 0.5),
        lambda: split.evolve(2.0, 0.1),
        lambda: split.evolve(0.0, 0.1, boundary="open"),
        lambda: split.evolve(0.0, 0.1, -1),
        lambda: split.evolve(2.0, 0.1, 0),
        lambda: split.evolve(0.0, 0.1, noise=float("inf")),
    ):
        with pytest.raises(ValueError):
            call()
    assert torch.equal(split.gather(), torch.ones(sum(counts), 3, 5, 6))
    split.evolve(0.0, 0.1, 0)
    assert bool((split.planes == 1).all())
    if ranks > 1:
        for odd in (torch.zeros(1, 3, 5, 6 + (rank == 0)), torch.zeros(1, 3, 5, 6).to(torch.half if rank else None)):
            with pytest.raises(ValueError, match="planes of all ranks must have the same other sizes and dtype"):
                field.SplitField(odd, group)
        batch = (3, 2) if rank else (2, 3)
        with pytest.raises(ValueError, match="planes of all ranks must have the same other sizes and dtype"):
            field.SplitField(torch.zeros(*batch, 1, 3, 5, 6), group)
        # A rank without planes, which leaves no other waiting.
        with pytest.raises(ValueError, match="d at least 1" if rank == 1 else "planes of another rank are wrong"):
            field.SplitField(torch.zeros(0 if rank == 1 else 2, 3, 5, 6), group)


def run(rank, rendezvous):
    torch.set_num_threads(1)
    # Where one fails, the others do not wait for long.
    wait = datetime.timedelta(minutes=1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=3, timeout=wait)
    check(rank, 3)
    pair = dist.new_group([1, 2])
    if rank:
        check(rank - 1, 2, pair)
    # Together, and with nothing left that holds the group: gloo's threads must not outlive the interpreter.
    dist.barrier()
    del pair
    gc.collect()
    dist.destroy_process_group()


if __name__ == "__main__":
    # Forked, which is soon done: nothing has run in threads yet.
    fork = multiprocessing.get_context("fork")
    started = [fork.Process(target=run, args=(rank, sys.argv[1]), daemon=True) for rank in range(3)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sys.exit(any(process.exitcode for process in started))
