"""Times of two gloo ranks beside those of one process, on one machine with two cores or more.

    python bench/distributed_times.py [--update]

A thread each, under Linux each rank on a core of its own and under SCHED_BATCH (docs/distributed.md says why). In turns
a process does the whole while the ranks wait, and they do it together while it waits: of one process that did both, the
memory of one would be new to the other. Medians, and the median of the ratios of turns. `--update` writes the table of
docs/distributed.md, to be run where nothing else runs.
"""

import argparse
import functools
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import table, update  # noqa: E402
from torch_hrr import assembly, field, hrr  # noqa: E402

PAGE = ROOT / "docs" / "distributed.md"
ROWS = 4096
SIZES, STEPS, HALO = (64, 64, 64, 64), 8, 8
NEURONS, WINNERS, DENSITIES, ROUNDS = 1_000_000, 1000, (0.01, 0.001), 10
TURNS = 9
Work = Callable[[], Any]


def cases() -> Iterator[str]:
    """What is timed."""
    yield f"bind of {ROWS} x {ROWS}"
    name = f"{STEPS} steps of a field {' x '.join(map(str, SIZES))}"
    yield f"{name}, half the channels each"
    yield f"{name}, half the planes each, halo {HALO}"
    for p in DENSITIES:
        yield f"a new area of {NEURONS}, k = {WINNERS}, p = {p}, {ROUNDS} rounds"


def by_both(rank: int) -> Iterator[Work]:
    """Of each case, the work of a rank of two."""
    from torch.distributed.tensor import DTensor, Shard, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    a, b = (DTensor.from_local(torch.randn(ROWS // 2, ROWS), mesh, [Shard(0)]) for _ in range(2))
    yield lambda: hrr.bind(a, b)
    cells = torch.randn(SIZES)
    channels = DTensor.from_local(cells.tensor_split(2, -1)[rank].clone(), mesh, [Shard(3)])
    yield lambda: field.evolve(channels, 0.02, 0.1, steps=STEPS)
    split = field.SplitField(cells.tensor_split(2)[rank].clone(), halo=HALO)
    yield lambda: split.evolve(0.02, 0.1, STEPS)
    for p in DENSITIES:
        yield functools.partial(learn, assembly.SplitBrain, p)


def by_one() -> Iterator[Work]:
    """Of each case, the whole."""
    a, b = torch.randn(2, ROWS, ROWS)
    yield lambda: hrr.bind(a, b)
    cells = torch.randn(SIZES)
    for _ in range(2):
        yield lambda: field.evolve(cells, 0.02, 0.1, steps=STEPS)
    for p in DENSITIES:
        yield functools.partial(learn, assembly.Brain, p)


def learn(kind: Any, p: float) -> None:
    """Rounds of a new area."""
    brain = kind(p=p, seed=0)
    brain.add_stimulus("s", WINNERS)
    brain.add_area("A", NEURONS, WINNERS)
    brain.project("s", "A")
    brain.project({"s": "A"}, {"A": "A"}, ROUNDS)


def seconds(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run(rank: int | None, rendezvous: str, gate: Any, results: Any) -> None:
    """One rank of two, or the process that does the whole. `gate` holds all three until each has come to it."""
    torch.set_num_threads(1)
    if sys.platform == "linux":
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank or 0]})
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    if rank is not None:
        dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    for work in by_one() if rank is None else by_both(rank):
        taken = []
        # The first turn is not counted.
        for _ in range(TURNS + 1):
            gate.wait()
            if rank is None:
                taken.append(seconds(work))
            gate.wait()
            if rank is not None:
                dist.barrier()
                slower = torch.tensor(seconds(work))
                dist.all_reduce(slower, dist.ReduceOp.MAX)
                taken.append(float(slower))
        if rank != 1:
            results.put((rank, taken[1:]))
    gate.wait()
    if rank is not None:
        dist.destroy_process_group()


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, and perhaps writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args(argv)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        arguments = f"{folder}/rendezvous", context.Barrier(3, timeout=600), results
        started = [context.Process(target=run, args=(rank, *arguments)) for rank in (None, 0, 1)]
        for process in started:
            process.start()
        for process in started:
            process.join()
    if any(process.exitcode for process in started):
        raise SystemExit("distributed_times: a rank failed")
    rows = []
    for name in cases():
        found = dict(results.get() for _ in range(2))
        one, both = found[None], found[0]
        ratio = statistics.median(alone / together for alone, together in zip(one, both, strict=True))
        rows.append((name, *(f"{statistics.median(each) * 1e3:.0f}" for each in (one, both)), f"{ratio:.2f}"))
    made = table("work | one process, ms | two ranks, ms | times as fast", rows, left=1)
    print(made)
    if options.update:
        update(PAGE, {"times": made})


if __name__ == "__main__":
    main()
