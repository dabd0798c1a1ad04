"""Times of two gloo ranks beside those of one, on one machine with two cores or more.

    python bench/distributed_times.py [--update]

A thread a rank; in turns one rank does the whole while the other waits, and both do it together; medians, and the
median of the ratios of turns. `--update` writes the table of docs/distributed.md, to be run where nothing else runs.
"""

import argparse
import multiprocessing
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
Work = Callable[[], Any]


def works(rank: int) -> Iterator[tuple[str, int, Work, Work]]:
    """What is timed: its name, how many turns, by both ranks and by one."""
    from torch.distributed.tensor import DTensor, Shard, init_device_mesh

    mesh = init_device_mesh("cpu", (2,))
    whole = torch.randn(2, ROWS, ROWS)
    a, b = (DTensor.from_local(each.tensor_split(2)[rank].clone(), mesh, [Shard(0)]) for each in whole)
    yield f"bind of {ROWS} x {ROWS}", 9, lambda: hrr.bind(a, b), lambda: hrr.bind(*whole)
    cells = torch.randn(SIZES)
    name = f"{STEPS} steps of a field {' x '.join(map(str, SIZES))}"
    channels = DTensor.from_local(cells.tensor_split(2, -1)[rank].clone(), mesh, [Shard(3)])

    def whole_field() -> torch.Tensor:
        return field.evolve(cells, 0.02, 0.1, steps=STEPS)

    yield f"{name}, half the channels each", 9, lambda: field.evolve(channels, 0.02, 0.1, steps=STEPS), whole_field
    split = field.SplitField(cells.tensor_split(2)[rank].clone(), halo=HALO)
    yield f"{name}, half the planes each, halo {HALO}", 9, lambda: split.evolve(0.02, 0.1, STEPS), whole_field
    for p in DENSITIES:

        def rounds(kind: Any, p: float = p) -> None:
            brain = kind(p=p, seed=0)
            brain.add_stimulus("s", WINNERS)
            brain.add_area("A", NEURONS, WINNERS)
            brain.project("s", "A")
            brain.project({"s": "A"}, {"A": "A"}, ROUNDS)

        name = f"a new area of {NEURONS}, k = {WINNERS}, p = {p}, {ROUNDS} rounds"
        yield name, 3, lambda: rounds(assembly.SplitBrain), lambda: rounds(assembly.Brain)


def seconds(work: Work | None) -> float:
    """Of the slower rank; None waits."""
    dist.barrier()
    start = time.perf_counter()
    if work is not None:
        work()
    taken = torch.tensor(time.perf_counter() - start)
    dist.all_reduce(taken, dist.ReduceOp.MAX)
    return float(taken)


def run(rank: int, rendezvous: str, results: Any) -> None:
    """One rank of two."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2)
    found = []
    for name, turns, both, one in works(rank):
        # The first turn is not counted.
        taken = [(seconds(one if rank == 0 else None), seconds(both)) for _ in range(turns + 1)][1:]
        medians = [statistics.median(each) * 1e3 for each in zip(*taken, strict=True)]
        ratio = statistics.median(alone / together for alone, together in taken)
        found.append((name, f"{medians[0]:.0f}", f"{medians[1]:.0f}", f"{ratio:.2f}"))
    if rank == 0:
        results.put(found)
    dist.barrier()
    dist.destroy_process_group()


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, and perhaps writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args(argv)
    context = multiprocessing.get_context("spawn")
    results = context.SimpleQueue()
    with tempfile.TemporaryDirectory() as folder:
        started = [context.Process(target=run, args=(rank, f"{folder}/rendezvous", results)) for rank in range(2)]
        for process in started:
            process.start()
        for process in started:
            process.join()
    if any(process.exitcode for process in started):
        raise SystemExit("distributed_times: a rank failed")
    made = table("work | one rank, ms | two ranks, ms | times as fast", results.get(), left=1)
    print(made)
    if options.update:
        update(PAGE, {"times": made})


if __name__ == "__main__":
    main()
