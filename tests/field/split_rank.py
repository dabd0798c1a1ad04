"""Ranks of a split field, which compare their planes with the whole: python split_rank.py RENDEZVOUS."""

import copy
import itertools
import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import main
from torch.distributed.tensor import DeviceMesh, DTensor, Shard

from torch_hrr import field

BOUNDARIES = ("replicate", "zeros", "circular")
STENCILS = ("laplace", "box", "binomial")
# Planes of each rank.
COUNTS = {1: (5,), 2: (1, 4), 3: (2, 1, 3)}


# Planes of each rank that may hand on several.
WIDE = {1: (5,), 2: (2, 4), 3: (3, 2, 4)}


def make(counts, rank, group, *, batch=(), dtype=torch.float32, halo=1):
    torch.manual_seed(0)
    whole = torch.randn(*batch, sum(counts), 3, 5, 6, dtype=torch.float64).to(dtype)
    return whole, field.SplitField(whole.split(counts, -4)[rank], group, halo)


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
        with pytest.raises(ValueError, match="d at least 1" if rank == 1 else "arguments of another rank are wrong"):
            field.SplitField(torch.zeros(0 if rank == 1 else 2, 3, 5, 6), group)


def check_halo(rank, ranks, group=None):
    """Several planes for several steps, and a number of steps that is no multiple of theirs."""
    counts = WIDE[ranks]
    kinds = itertools.product(BOUNDARIES, STENCILS, (torch.float32, torch.bfloat16), (0.0, 0.3))
    for boundary, stencil, dtype, noise in kinds:
        whole, split = make(counts, rank, group, dtype=dtype, halo=2)
        key = field.random_key(7)
        expected = field.evolve(whole, 0.1, 0.15, 5, boundary, stencil, noise=noise, key=key)
        assert same(split, split.evolve(0.1, 0.15, 5, boundary, stencil, noise=noise, key=key), expected)
        assert same(split, split.gradient(), field.gradient(expected))
    whole, split = make(counts, rank, group, batch=(2,), halo=2)
    assert same(split, split.evolve(0.1, 0.1, 3), field.evolve(whole, 0.1, 0.1, 3))
    if ranks > 1:
        for halo in (3, 2 if rank else 1):
            with pytest.raises(ValueError, match="halo must be the same on all ranks and at most 2"):
                make(counts, rank, group, halo=halo)
        with pytest.raises(ValueError, match="halo must be at least 1" if rank else "another rank are wrong"):
            make(counts, rank, group, halo=0 if rank else 1)


def check_derivatives(rank, ranks, group=None):
    """Gradients, tangents and second derivatives are those of the whole field, bit for bit."""
    counts = WIDE[ranks]
    for halo, boundary, dtype in ((1, "replicate", torch.float32), (2, "circular", torch.bfloat16), (2, "zeros", None)):
        whole, split = make(counts, rank, group, dtype=dtype or torch.float64, halo=halo)
        arguments = (0.1, 0.15, 3, boundary, "box", 0.2, field.random_key(3))
        held = split.planes.clone()
        mine, all_planes = held.clone().requires_grad_(), whole.clone().requires_grad_()
        result, expected = split.evolved(mine, *arguments), field.evolve(all_planes, *arguments)
        assert same(split, result, expected) and torch.equal(split.planes, held)
        drawn = torch.randn(whole.shape).to(whole.dtype).requires_grad_()
        part = drawn.detach().narrow(-4, split.origin, mine.shape[-4]).clone().requires_grad_()
        (found,) = torch.autograd.grad(result, mine, part, create_graph=True)
        (exact,) = torch.autograd.grad(expected, all_planes, drawn, create_graph=True)
        assert same(split, found, exact)
        assert same(split, *(torch.autograd.grad(x.square().sum(), y)[0] for x, y in ((found, part), (exact, drawn))))
        tangent = torch.func.jvp(lambda x, own=split, given=arguments: own.evolved(x, *given), (held,), (held,))[1]
        assert same(split, tangent, torch.func.jvp(lambda x, g=arguments: field.evolve(x, *g), (whole,), (whole,))[1])
        batched = torch.func.vmap(lambda x, own=split, given=arguments[:5]: own.evolved(x, *given))
        for several, one in zip(batched(torch.stack([held, 2 * held])), (whole, 2 * whole), strict=True):
            assert same(split, several, field.evolve(one, *arguments[:5]))


def check_refusals(rank, ranks, group=None):
    """What one rank gets wrong is an error on all of them, at once, and leaves the planes."""
    _, split = make(WIDE[ranks], rank, group)
    before = split.planes.clone()
    mine = rank == 1
    for wrong, match in (
        ({"decay": 2.0}, "decay must be in"),
        ({"steps": -1}, "steps must be at least 0"),
        ({"steps": "3"}, "steps must be an int"),
        ({"boundary": "open"}, "boundary must be"),
        ({"noise": 1.0, "key": torch.zeros(3)}, "key must"),
    ):
        with pytest.raises((TypeError, ValueError), match=match if mine else "arguments of rank 1 are wrong"):
            split.evolve(**({"decay": 0.1, "diffusion": 0.1} | (wrong if mine else {})))
    for other in ({"steps": 2}, {"decay": 0.2}, {"noise": 0.1}, {"key": field.random_key(4)}):
        with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
            split.evolve(**({"decay": 0.1, "diffusion": 0.1} | (other if mine else {})))
    given = before[:1] if mine else before
    with pytest.raises(ValueError, match="planes must be" if mine else "arguments of rank 1 are wrong"):
        split.evolved(given, 0.1, 0.1)
    with pytest.raises(ValueError, match=r"same on all ranks, got .*requires_grad"):
        split.evolved(before.clone().requires_grad_(mine), 0.1, 0.1)
    for method in (split.gradient, split.gradient_magnitude):
        match = "normalize must be a bool" if mine else f"{method.__name__}: arguments of rank 1 are wrong"
        with pytest.raises(TypeError if mine else ValueError, match=match):
            method("yes" if mine else True)
        with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
            method(not mine)
    # Another method, or planes of another dtype, would leave ranks with messages of other sizes.
    with pytest.raises(ValueError, match="arguments must be the same on all ranks"):
        (split.gather if mine else split.gradient)()
    other = copy.deepcopy(split)
    if mine:
        other.half()
    for call in (other.gather, lambda: other.evolve(0.1, 0.1)):
        with pytest.raises(ValueError, match=r"arguments must be the same on all ranks, got .*torch.float"):
            call()
    mesh = DeviceMesh.from_group(group or dist.group.WORLD, "cpu")
    shared = DTensor.from_local(before, mesh, [Shard(0)])
    with pytest.raises(TypeError if mine else ValueError, match="this rank's own, got a DTensor" if mine else "wrong"):
        field.SplitField(shared if mine else before, group)
    with pytest.raises(TypeError if mine else ValueError, match="this rank's own, got a DTensor" if mine else "wrong"):
        split.evolved(shared if mine else before, 0.1, 0.1)
    match = "planes of all ranks must have the same other sizes and dtype, got .* on meta"
    with pytest.raises(ValueError, match=match if mine else match.removesuffix("meta")):
        field.SplitField(before.to("meta") if mine else before, group)
    assert field.SplitField(before.to("meta"), group).depth == split.depth
    assert torch.equal(split.planes, before)
    folder = pathlib.Path(sys.argv[1]).parent / f"kept-{ranks}"
    split.save(folder, {"steps": 3})
    again, held = field.SplitField.load(folder, group, 2)
    assert torch.equal(again.gather(), split.gather()) and held == {"steps": 3} and again.halo == 2
    with pytest.raises(FileNotFoundError if mine else ValueError, match=None if mine else "rank 1 are wrong"):
        field.SplitField.load(folder / "none" if mine else folder, group)
    elsewhere = folder.with_name(f"elsewhere-{ranks}")
    split.save(elsewhere, {"steps": 4})
    with pytest.raises(ValueError, match="load: arguments must be the same on all ranks, got metadata"):
        field.SplitField.load(elsewhere if mine else folder, group)
    with pytest.raises(
        TypeError if rank == 0 else RuntimeError, match="metadata" if rank == 0 else "rank 0 has failed"
    ):
        split.save(folder, {"steps": before} if rank == 0 else {})
    with pytest.raises(TypeError if mine else RuntimeError, match="path" if mine else "rank 1 has failed"):
        split.save(5 if mine else folder)
    assert field.SplitField.load(folder, group)[1] == held


def check_all(rank, ranks, group=None):
    check(rank, ranks, group)
    check_halo(rank, ranks, group)
    check_derivatives(rank, ranks, group)
    if ranks > 1:
        check_refusals(rank, ranks, group)


def check_ranks(rank):
    """Of three ranks, and of the last two of them, whose group is no default one."""
    check_all(rank, 3)
    pair = dist.new_group([1, 2])
    if rank:
        check_all(rank - 1, 2, pair)
    else:
        with pytest.raises(ValueError, match="SplitField: group must be one that this process is in"):
            field.SplitField.load("kept", pair)


if __name__ == "__main__":
    main(check_ranks, 3)
