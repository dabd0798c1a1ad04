"""Weak and strong scaling in work and bytes a rank, counted on 1, 2, 3 and 5 gloo ranks.

    python bench/distributed_scaling.py [--update]

Nothing is timed. Work is rows bound, planes of a field or of a brain's field stepped, items searched, or neurons of an
area whose synapses are drawn, on the rank that has most; bytes are those that the rank that sends most hands to
torch.distributed in a step. For many ranks both are computed, by formulas that give what is counted. `--update` writes
the tables of docs/distributed.md.
"""

import argparse
import contextlib
import datetime
import functools
import itertools
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import table, update  # noqa: E402
from torch_hrr import assembly, field, hrr  # noqa: E402
from torch_hrr._plain.assembly_connectome import block_width  # noqa: E402
from torch_hrr._ranks import GATHER  # noqa: E402

PAGE = ROOT / "docs" / "distributed.md"
RANKS = (1, 2, 3, 5)
ROWS, DIM = 3840, 64
# Of a memory of as many items.
QUERIES, TOP = 20, 10
# Of a field: planes that 1, 2, 3 and 5 divide, their other sizes, and steps that both halos divide.
PLANES, PLANE, STEPS = 60, (8, 8, 4), 12
HALOS = (1, 4)
# Of an area: blocks of its random graph that 1, 2, 3 and 5 divide, its density and winners.
BLOCKS, DENSITY, WINNERS, ROUNDS = 30, 0.25, 150, 6
# Of a field's brain: sensors, motors and channels.
SENSORS, MOTORS, CHANNELS = 4, 2, 16


def binding(ranks: int, weak: bool) -> tuple[float, float]:
    """Rows bound and bytes sent by this rank, and the gradient of a role that all ranks share: an all-reduce."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh("cpu", (ranks,))
    rows = distribute_tensor(torch.randn(ROWS * (ranks if weak else 1), DIM), mesh, [Shard(0)])
    role = distribute_tensor(torch.randn(DIM), mesh, [Replicate()]).requires_grad_()
    bound = hrr.bind(rows, role)
    bound.sum().backward()
    shared = role.grad
    assert shared is not None
    # What torch hands on: a Partial of D numbers, or nothing on one rank.
    sent = shared.to_local().nbytes if any(place.is_partial() for place in shared.placements) and ranks > 1 else 0
    assert torch.isfinite(shared.full_tensor()).all()
    return bound.to_local().shape[0], sent


def evolution(ranks: int, weak: bool, halo: int) -> tuple[float, float]:
    """Planes stepped and bytes sent by this rank a step."""
    rank = dist.get_rank()
    depth = PLANES * (ranks if weak else 1)
    split = field.SplitField(torch.randn(depth // ranks, *PLANE), halo=halo)
    planes, sent = 0, 0
    step, exchange = split._step, dist.batch_isend_irecv

    def counted_step(state: Any, other: Any, begin: int, end: int, *rest: Any, **options: Any) -> None:
        nonlocal planes
        planes += max(0, end - begin)
        step(state, other, begin, end, *rest, **options)

    def counted_exchange(transfers: Any) -> Any:
        nonlocal sent
        sent += sum(transfer.tensor.nbytes for transfer in transfers if transfer.op is dist.isend)
        return exchange(transfers)

    object.__setattr__(split, "_step", counted_step)
    dist.batch_isend_irecv = counted_exchange
    try:
        split.evolve(0.02, 0.1, STEPS, noise=0.1, key=field.random_key(0))
    finally:
        dist.batch_isend_irecv = exchange
    assert split.origin == rank * (depth // ranks)
    return planes / STEPS, sent / STEPS


@contextlib.contextmanager
def counted_collectives() -> Iterator[list[int]]:
    """Bytes that this rank hands to each all-reduce and all-gather meanwhile."""
    sent: list[int] = []
    calls = {name: getattr(dist, name) for name in ("all_reduce", GATHER)}

    def counted_reduce(tensor: Any, *rest: Any) -> None:
        sent.append(tensor.nbytes)
        calls["all_reduce"](tensor, *rest)

    def counted_gather(others: Any, tensor: Any, *rest: Any) -> None:
        sent.append(tensor.nbytes)
        calls[GATHER](others, tensor, *rest)

    dist.all_reduce = counted_reduce
    setattr(dist, GATHER, counted_gather)
    try:
        yield sent
    finally:
        for name, call in calls.items():
            setattr(dist, name, call)


def cycle(ranks: int, weak: bool) -> tuple[float, float]:
    """Planes stepped and bytes sent by this rank in a cycle of a field's brain."""
    spatial = (PLANES * (ranks if weak else 1), *PLANE[:2])
    brain = field.SplitFieldBrain(SENSORS, MOTORS, spatial, CHANNELS, seed=0, device="cpu")
    sensory = torch.ones(SENSORS)
    brain.step(sensory)
    planes, exchange = [0], dist.batch_isend_irecv

    def counted_exchange(transfers: Any) -> Any:
        planes[0] += sum(transfer.tensor.nbytes for transfer in transfers if transfer.op is dist.isend)
        return exchange(transfers)

    dist.batch_isend_irecv = counted_exchange
    try:
        with counted_collectives() as sent:
            brain.step(sensory)
    finally:
        dist.batch_isend_irecv = exchange
    return brain.field.shape[0], 0 if ranks == 1 else planes[0] + sum(sent)


def search(ranks: int, weak: bool) -> tuple[float, float]:
    """Items whose codes this rank searches, and bytes sent by it, in a call of several queries."""
    count = ROWS * (ranks if weak else 1)
    memory = hrr.SplitMemory(torch.randn(count // ranks, DIM))
    # The same on every rank.
    queries = torch.ones(QUERIES, DIM).cumsum(0)
    with counted_collectives() as sent:
        _, indices = memory.cleanup(queries, TOP)
    assert indices.shape == (QUERIES, TOP) and len(memory) == count
    return len(memory.rows), sum(sent)


def projection(ranks: int, weak: bool) -> tuple[float, float]:
    """Neurons whose synapses this rank draws, and bytes sent by it, a round of an area that fires into itself."""
    width = block_width(DENSITY)
    brain = assembly.SplitBrain(DENSITY)
    brain.add_stimulus("s", WINNERS)
    brain.add_area("A", BLOCKS * width * (ranks if weak else 1), WINNERS)
    brain.project("s", "A")
    neurons, project = 0, brain._engine._project_part

    def counted_draw(parts: Any, state: Any, layout: Any, *rest: Any) -> Any:
        nonlocal neurons
        # A round that is left is that of winners which were found.
        for name, area in zip(parts.names, parts.areas, strict=True):
            first = brain._engine.first.get(name)
            neurons += 0 if layout[1] or first is None else area.n - first // width * width
        return project(parts, state, layout, *rest)

    brain._engine._project_part = counted_draw  # type: ignore[method-assign]
    with counted_collectives() as sent:
        brain.project({"s": "A"}, {"A": "A"}, ROUNDS)
    return neurons / ROUNDS, 0 if ranks == 1 else round(sum(sent) / ROUNDS)


def cases() -> dict[str, tuple[Callable[[int, bool], tuple[float, float]], int]]:
    """What is counted, and how much of it there is in all where the problem is that of one rank."""
    made: dict[str, tuple[Callable[[int, bool], tuple[float, float]], int]] = {
        f"bind {ROWS} x {DIM}, backward too": (binding, ROWS)
    }
    for halo in HALOS:
        name = f"field {PLANES} x {' x '.join(map(str, PLANE))}, halo {halo}"
        made[name] = (lambda ranks, weak, halo=halo: evolution(ranks, weak, halo), PLANES)
    made[f"brain of a field {PLANES} x {PLANE[0]} x {PLANE[1]} x {CHANNELS}"] = (cycle, PLANES)
    made[f"memory {ROWS} x {DIM}, {QUERIES} queries, top {TOP}"] = (search, ROWS)
    name = f"area of {BLOCKS * block_width(DENSITY)}, k = {WINNERS}, p = {DENSITY}"
    made[name] = (projection, BLOCKS * block_width(DENSITY))
    return made


class Cost(NamedTuple):
    """Of the busiest of some ranks, in a call, step, cycle or round."""

    work: float
    sent: float
    received: float


def cost_of_rows(rows: int, dim: int, ranks: int) -> Cost:
    """Rows bound with a role that all share, whose gradient is an all-reduce."""
    sent = 4 * dim if ranks > 1 else 0
    return Cost(math.ceil(rows / ranks), sent, sent)


def cost_of_planes(depth: int, plane: tuple[int, ...], halo: int, ranks: int) -> Cost:
    """A step of a field divided by planes, `halo` of which travel for as many steps."""
    beside = min(ranks - 1, 2)
    sent = beside * 4 * math.prod(plane)
    return Cost(math.ceil(depth / ranks) + beside * (halo - 1) / 2, sent, sent)


def cost_of_cycle(depth: int, plane: tuple[int, int], channels: int, ranks: int) -> Cost:
    """A cycle of a field's brain, whose planes are whole blocks of 64 places."""
    if ranks == 1:
        return Cost(depth, 0, 0)
    planes, places = math.ceil(depth / ranks), math.prod(plane)
    travel = cost_of_planes(depth, (*plane, channels), 1, ranks).sent
    # Means, moments, and what ranks tell one another.
    gathered = 4 * (places * planes + channels) + 16 * channels * (places * planes // 64) + 72
    return Cost(planes, travel + gathered, travel + (ranks - 1) * gathered)


def cost_of_search(items: int, queries: int, top: int, ranks: int) -> Cost:
    """A call of a divided memory in float32."""
    sent = 24 + 12 * queries * top if ranks > 1 else 0
    return Cost(math.ceil(items / ranks), sent, (ranks - 1) * sent)


def cost_of_round(n: int, k: int, p: float, rounds: int, ranks: int) -> Cost:
    """A round, of a call of several, of an area, whose first candidates do not all win."""
    width = block_width(p)
    size = width if n >= ranks * width else 1
    ends = [round(n / size * rank / ranks) * size for rank in range(ranks)] + [n]
    # A block is drawn from its start.
    drawn = max(end - first // width * width for first, end in itertools.pairwise(ends))
    share = math.ceil(k / ranks)
    count = min(k, share + min(share, max(512, 4 * math.isqrt(share))) + 64)
    sent = 12 * (count + count % 2) + 8 + 24 / rounds if ranks > 1 else 0
    return Cost(drawn, round(sent), round((ranks - 1) * sent))


def formulas() -> dict[str, tuple[Callable[[int, int], Cost], int]]:
    """What gives the figures of `cases`, of ranks and of how many times the problem."""
    costs: list[Callable[[int, int], Cost]] = [lambda ranks, times: cost_of_rows(ROWS * times, DIM, ranks)]
    for halo in HALOS:
        costs.append(lambda ranks, times, halo=halo: cost_of_planes(PLANES * times, PLANE, halo, ranks))  # type: ignore[misc]
    costs.append(lambda ranks, times: cost_of_cycle(PLANES * times, PLANE[:2], CHANNELS, ranks))
    costs.append(lambda ranks, times: cost_of_search(ROWS * times, QUERIES, TOP, ranks))
    neurons = BLOCKS * block_width(DENSITY)
    costs.append(lambda ranks, times: cost_of_round(neurons * times, WINNERS, DENSITY, ROUNDS, ranks))
    return {name: (cost, whole) for (name, (_, whole)), cost in zip(cases().items(), costs, strict=True)}


def large() -> dict[str, tuple[Callable[[int], Cost], str]]:
    """Problems of many GPUs, and how many messages one takes: the last word of each name is what is done once."""
    planes, side = functools.partial(cost_of_planes, 512, (512, 512, 64)), (256, 256)
    return {
        "bind 1048576 x 4096, backward too: call": (functools.partial(cost_of_rows, 2**20, 4096), "1"),
        "field 512 x 512 x 512 x 64, by channels: step": (lambda ranks: Cost(64 / ranks, 0, 0), "0"),
        "the same by planes, halo 1: step": (functools.partial(planes, 1), "1"),
        "the same by planes, halo 4: step": (functools.partial(planes, 4), "1/4"),
        "brain of a field 256 x 256 x 256 x 64: cycle": (functools.partial(cost_of_cycle, 256, side, 64), "6"),
        "memory 100000000 x 512, 100 queries, top 10: call": (functools.partial(cost_of_search, 10**8, 100, 10), "2"),
        "area of 10000000, k = 3000, p = 0.001, CPUs: round": (
            functools.partial(cost_of_round, 10**7, 3000, 0.001, 10),
            "1",
        ),
        "area of 100000000, k = 3000, p = 0.001, CPUs: round": (
            functools.partial(cost_of_round, 10**8, 3000, 0.001, 10),
            "1",
        ),
    }


def computed() -> str:
    """The table of more ranks than there are to count on."""
    rows = []
    for name, (cost, messages) in large().items():
        alone = cost(1).work
        for ranks in (8, 64):
            found = cost(ranks)
            excess = f"{100 * (found.work * ranks / alone - 1):.0f} %"
            rows.append((name, str(ranks), excess, shown(found.sent), shown(found.received), messages))
    head = "problem: what is done once | ranks | work over 1/ranks | a rank sends | a rank receives | messages"
    return table(head, rows, left=1)


def shown(count: float) -> str:
    """Bytes, to three digits."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} B"


def run(rank: int, ranks: int, rendezvous: str, results: Any) -> None:
    """One rank of a group: the largest figures of all ranks, from the first."""
    torch.set_num_threads(1)
    wait = datetime.timedelta(minutes=2)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks, timeout=wait)
    found = {}
    for name, (count, _) in cases().items():
        for weak in (False, True):
            largest = torch.tensor(count(ranks, weak), dtype=torch.float64)
            dist.all_reduce(largest, dist.ReduceOp.MAX)
            found[name, weak] = tuple(largest.tolist())
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def counted(ranks: int) -> dict[tuple[str, bool], tuple[float, float]]:
    """Work and bytes of the busiest rank."""
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        started = [
            fork.Process(target=run, args=(rank, ranks, f"{folder}/rendezvous", results)) for rank in range(ranks)
        ]
        for process in started:
            process.start()
        for process in started:
            process.join()
    if any(process.exitcode for process in started):
        raise SystemExit(f"distributed_scaling: a rank of {ranks} failed")
    found: dict[tuple[str, bool], tuple[float, float]] = results.get()
    return found


def main(argv: Sequence[str] | None = None) -> str:
    """The table, printed and perhaps written."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    options = parser.parse_args(argv)
    rows = []
    found = {ranks: counted(ranks) for ranks in options.ranks}
    for name, (_, whole) in cases().items():
        for ranks in options.ranks:
            (strong, sent), (weak, weak_sent) = found[ranks][name, False], found[ranks][name, True]
            excess = f"{100 * (strong * ranks / whole - 1):.1f} %", f"{100 * (weak / whole - 1):.1f} %"
            rows.append(
                (name, str(ranks), f"{strong:g}", excess[0], f"{sent:g}", f"{weak:g}", excess[1], f"{weak_sent:g}")
            )
    head = "case | ranks | strong: work | over 1/ranks | bytes sent | weak: work | over one rank's | bytes sent"
    made = table(head, rows, left=1)
    print(made)
    print(computed())
    if options.update:
        update(PAGE, {"scaling": made, "computed": computed()})
    return made


if __name__ == "__main__":
    main()
