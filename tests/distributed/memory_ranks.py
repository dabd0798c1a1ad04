"""Ranks of a divided memory, which compare it with the whole: python memory_ranks.py RENDEZVOUS FOLDER."""

import copy
import pathlib
import sys

import pytest
import torch
import torch.distributed as dist
from ranks import main
from torch.autograd import forward_ad
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate

from torch_hrr import IntegrityError, hrr
from torch_hrr._ranks import GATHER

# Items of each rank.
COUNTS = {1: (23,), 2: (1, 22), 3: (9, 2, 12), 5: (4, 1, 9, 7, 2)}
DIM = 40
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def items(dtype=torch.float32):
    """Some equal to others, nearly equal, zero, infinite or not numbers, on any rank."""
    torch.manual_seed(0)
    drawn = torch.randn(23, DIM, dtype=torch.float64)
    drawn[7] = drawn[20] = drawn[2]
    drawn[13] = drawn[4] + 1e-4
    drawn[5] = drawn[18] = 0
    drawn[9, 3], drawn[16, 0] = torch.nan, torch.inf
    return drawn.to(dtype)


def queries(dtype=torch.float32):
    torch.manual_seed(1)
    near = items()[[2, 4, 11]].nan_to_num(0, 0, 0) + 0.05 * torch.randn(3, DIM)
    drawn = torch.cat([near, torch.randn(1, DIM), torch.zeros(1, DIM), torch.full((1, DIM), torch.nan)])
    return drawn.reshape(2, 3, DIM).to(dtype)


def names(count=23):
    return [f"item {i}" for i in range(count)]


def both(group, dtype=torch.float32, named=True):
    """The divided memory, and the whole one."""
    rank, counts = dist.get_rank(group) if dist.is_initialized() else 0, None
    counts = COUNTS[dist.get_world_size(group) if dist.is_initialized() else 1]
    start = sum(counts[:rank])
    own = slice(start, start + counts[rank])
    split = hrr.SplitMemory(items(dtype)[own], names()[own] if named else None, group)
    assert split.rows == range(own.start, own.stop) and torch.equal(
        split.vectors.nan_to_num(), items(dtype)[own].nan_to_num()
    )
    return split, hrr.ItemMemory(items(dtype), names() if named else None, quantized=True)


def same(found, expected):
    """Bit for bit, NaN too."""
    assert torch.equal(found.indices, expected.indices), (found, expected)
    assert found.values.dtype == expected.values.dtype
    assert torch.equal(found.values.view(torch.uint8), expected.values.view(torch.uint8)), (found, expected)


def check_answers(group):
    for dtype in FLOATING:
        split, whole = both(group, dtype, named=dtype is torch.float32)
        for kind in (dtype, torch.float32):
            query = queries(kind)
            for top_k in (1, 3, 23):
                same(split.cleanup(query, top_k), whole.cleanup(query, top_k))
                same(split.cleanup(query[0, 0], top_k), whole.cleanup(query[0, 0], top_k))
            same(split.cleanup(query[:0], 2), whole.cleanup(query[:0], 2))
    split, whole = both(group)
    assert len(split) == 23 and split.names == whole.names == tuple(names())
    clean = queries()[0]
    assert split.ask(clean, 2) == whole.ask(clean, 2) and split.ask(clean[0]) == "item 2"
    assert split.names_of(split.cleanup(clean).indices) == whole.names_of(whole.cleanup(clean).indices)
    assert split.cleanup(clean, 2).names == whole.cleanup(clean, 2).names
    for mode in (torch.inference_mode(), torch.autocast("cpu"), torch.device("meta")):
        with mode:
            same(split.cleanup(clean, 3), whole.cleanup(clean, 3))
            made = hrr.SplitMemory(split.vectors, split.names[split.rows.start : split.rows.stop], group)
        found = [memory.cleanup(clean.clone().requires_grad_(), 3) for memory in (made, whole)]
        same(*found)
        assert made.names == split.names and found[0].values.requires_grad
    same(copy.deepcopy(split).cleanup(clean.numpy(), 3), whole.cleanup(clean, 3))


def check_stores(group):
    """What the stores of the ranks hold now; changes come with the next memory."""
    rank, ranks = (dist.get_rank(group), dist.get_world_size(group)) if dist.is_initialized() else (0, 1)
    store, drawn = hrr.VectorStore(DIM), items()[[0, 1, 2, 3, 4, 6]]
    for number, row in enumerate(drawn):
        store.add(f"{rank}.{number}", row * (rank + 1))
    store.remove(f"{rank}.{1 + rank % 2}")
    split = hrr.SplitMemory(store, group=group)
    own = [[number for number in range(6) if number != 1 + rank % 2] for rank in range(ranks)]
    whole = hrr.ItemMemory(
        torch.cat([drawn[kept] * (rank + 1) for rank, kept in enumerate(own)]),
        [f"{rank}.{number}" for rank, kept in enumerate(own) for number in kept],
        quantized=True,
    )
    store.remove(f"{rank}.0")
    same(split.cleanup(queries(), 4), whole.cleanup(queries(), 4))
    assert split.names == whole.names and split.ask(drawn, 2) == whole.ask(drawn, 2)


def check_derivatives(group):
    """Gradients, second derivatives and tangents have the bits of the whole memory."""
    for dtype in FLOATING:
        split, whole = both(group, dtype)
        given = queries(dtype)[:, :2][:1]
        torch.manual_seed(2)
        weights, again = torch.randn(1, 2, 4), torch.randn_like(given)
        found = []
        for memory in (split, whole):
            query = given.clone().requires_grad_()
            values, indices = memory.cleanup(query, 4)
            scores = (values * weights).sum()
            (first,) = torch.autograd.grad(scores, query, create_graph=True)
            (second,) = torch.autograd.grad((first * again).sum(), query)
            tangent = torch.func.jvp(lambda x, m=memory: m.cleanup(x, 4).values, (given,), (again,))[1]
            batched = torch.func.vmap(torch.func.grad(lambda x, m=memory: m.cleanup(x, 3).values.square().sum()))
            with forward_ad.dual_level():
                dual = memory.cleanup(forward_ad.make_dual(given, again), 4).values
                forward = forward_ad.unpack_dual(dual).tangent
            empty = memory.cleanup(query[:0], 4)
            found.append([values, indices, first, second, tangent, batched(given[0]), forward, *empty])
        for mine, theirs in zip(*found, strict=True):
            assert mine.dtype == theirs.dtype and torch.equal(mine, theirs)


def check_errors(group):
    """What one rank alone gets wrong is an error on all."""
    split, _ = both(group)
    mine = dist.get_rank(group) == 1
    query = queries()[0]
    shared = DTensor.from_local(query, DeviceMesh.from_group(group or dist.group.WORLD, "cpu"), [Replicate()])
    for wrong, error, match in (
        (lambda: split.cleanup(query[:, :-1]), ValueError, "last dimension"),
        (lambda: split.cleanup(shared), TypeError, r"query must be .*, got a DTensor: give its full_tensor\(\)"),
        (lambda: split.cleanup(query, 24), ValueError, "top_k must be 1 to 23"),
        (lambda: split.cleanup(query, 1.5), TypeError, "top_k must be an int"),
        (lambda: split.cleanup("query"), TypeError, "query must be"),
        (lambda: split.cleanup(query.to("meta")), RuntimeError, "query must be on cpu"),
        (lambda: split.cleanup(query[:, :-1].clone().requires_grad_()), ValueError, "last dimension"),
        (lambda: split.cleanup(query * 2), ValueError, "same on all ranks"),
        (lambda: split.cleanup(query, 2), ValueError, "same on all ranks"),
        (lambda: split.cleanup(query.double()), ValueError, "same on all ranks"),
        (lambda: split.cleanup(query.clone().requires_grad_()), ValueError, "same on all ranks, got .*derivative"),
        (lambda: split.ask(query), ValueError, "same on all ranks"),
    ):  # fmt: skip
        told = match if mine or "same" in match else "^cleanup: arguments of rank 1 are wrong: its error says how"
        with pytest.raises(error if mine else ValueError, match=told):
            (wrong if mine else lambda: split.cleanup(query))()
    for wrong, error, match in (
        (lambda: hrr.SplitMemory(torch.ones(0, DIM), names(0), group), ValueError, "must be"),
        (lambda: hrr.SplitMemory(torch.ones(2, DIM), ["a", "a"], group), ValueError, "different"),
        (lambda: hrr.SplitMemory(torch.ones(2, DIM, device="meta"), None, group), ValueError, "data"),
        (lambda: hrr.SplitMemory([[1.0]], None, group), TypeError, "vectors must be"),
        (lambda: hrr.SplitMemory(shared, None, group), TypeError, "vectors must be this rank's own, got a DTensor"),
        (lambda: hrr.SplitMemory(torch.ones(2, DIM), None, group), ValueError, "same on all ranks, got .*names"),
        (lambda: hrr.SplitMemory(torch.ones(2, 7), ["a", "b"], group), ValueError, "same on all ranks"),
        (lambda: hrr.SplitMemory(torch.ones(2, DIM).half(), ["a", "b"], group), ValueError, "same on all ranks"),
    ):  # fmt: skip
        told = match if mine or "same" in match else "arguments of rank 1 are wrong"
        with pytest.raises(error if mine else ValueError, match=told):
            (wrong if mine else lambda: hrr.SplitMemory(torch.ones(1, DIM), ["c"], group))()
    # A rank that searches another memory, but not a copy.
    other, _ = both(group)
    with pytest.raises(ValueError, match="same on all ranks"):
        (other if mine else split).cleanup(query)
    with pytest.raises(ValueError, match="same on all ranks"):
        (other if mine else split).save("none")
    (copy.deepcopy(split) if mine else split).cleanup(query)
    # Two ranks' names.
    with pytest.raises(ValueError, match="names must be different"):
        hrr.SplitMemory(torch.ones(1, DIM), ["a"], group)

    def fail(*_):
        raise MemoryError("no more")

    torn = copy.deepcopy(split)
    if mine:
        torn._part._found = fail
    with pytest.raises(MemoryError if mine else RuntimeError, match="no more" if mine else "^ask: rank 1 has failed"):
        torn.ask(query)
    assert torn.names_of(3) == "item 3"


def check_bytes(group):
    """What a call sends is what the class says."""
    split, _ = both(group)
    sent = []
    calls = {name: getattr(dist, name) for name in (GATHER, "all_reduce")}
    try:
        setattr(dist, GATHER, lambda others, own, *rest: sent.append(own.nbytes) or calls[GATHER](others, own, *rest))
        dist.all_reduce = lambda own, *rest: sent.append(own.nbytes) or calls["all_reduce"](own, *rest)
        split.cleanup(queries(), 3)
        plain = sum(sent)
        sent.clear()
        found = split.cleanup(queries().requires_grad_(), 3)
        found.values.nan_to_num().sum().backward()
    finally:
        for name, call in calls.items():
            setattr(dist, name, call)
    assert plain == 24 + 6 * 3 * 12
    assert sum(sent) == plain + len(found.indices.unique()) * DIM * 4


def check_files(group, folder):
    """What any number of ranks wrote, any number reads, and one that was whole."""
    split, whole = both(group)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    path, file, key = folder / f"split-{ranks}", folder / f"whole-{ranks}", b"key"
    split.save(path, key)
    if rank == 0:
        whole.save(file)
        hrr.ItemMemory(items()).save(folder / f"plain-{ranks}")
    dist.barrier(group)
    for memory in (
        hrr.SplitMemory.load(path, key, group),
        hrr.SplitMemory.load(file, group=group, device="cpu"),
        hrr.SplitMemory.load(folder / f"plain-{ranks}", group=group),
    ):
        same(memory.cleanup(queries(), 4), whole.cleanup(queries(), 4))
        assert memory.names == (None if memory.names is None else whole.names)
        assert memory.rows == range(23 * rank // ranks, 23 * (rank + 1) // ranks)
    mine = rank == 1
    other = {"match": "arguments of rank 1 are wrong"}
    with pytest.raises(FileNotFoundError if mine else ValueError, **({} if mine else other)):
        hrr.SplitMemory.load(path / "none" if mine else path, key, group)
    with pytest.raises(IntegrityError if mine else ValueError, **({} if mine else other)):
        hrr.SplitMemory.load(path, b"other" if mine else key, group)
    with pytest.raises(TypeError if mine else ValueError, **({} if mine else other)):
        split.save(5 if mine else path, key)
    for unlike in (b"other", None):
        with pytest.raises(ValueError, match="same on all ranks"):
            split.save(path, unlike if mine else key)
    with pytest.raises(OSError if rank == 0 else RuntimeError, match=None if rank == 0 else "rank 0 has failed"):
        split.save(file, key)
    # Rank 1 sees another folder there: what the others see stays.
    elsewhere = folder / f"elsewhere-{ranks}"
    elsewhere.mkdir(exist_ok=True)
    seen = "path must be a folder that all ranks see, got .*, not rank 1's" if rank == 0 else "rank 0 has failed"
    with pytest.raises(ValueError if rank == 0 else RuntimeError, match=seen):
        split.save(elsewhere if mine else path, key)
    return path


def check(rank):
    folder = pathlib.Path(sys.argv[2])
    groups = [dist.new_group(ranks) for ranks in ([0, 1, 2], [3, 4])]
    group = groups[0] if rank < 3 else groups[1]
    for each in (group, None):
        check_answers(each)
        check_stores(each)
        check_derivatives(each)
        check_errors(each)
        check_bytes(each)
        path = check_files(each, folder)
    # What five ranks wrote, three and two go on with.
    whole = hrr.ItemMemory(items(), names(), quantized=True)
    memory = hrr.SplitMemory.load(path, b"key", group)
    same(memory.cleanup(queries(), 9), whole.cleanup(queries(), 9))
    assert memory.names == whole.names
    with pytest.raises(ValueError, match="load: ranks must be at most 2, the number of rows, got 5"):
        if rank == 0:
            hrr.ItemMemory(torch.eye(2)).save(folder / "two")
        dist.barrier()
        hrr.SplitMemory.load(folder / "two")


if __name__ == "__main__":
    main(check, 5)
