"""What the demo ends with: a line for each result, beside a baseline, and its time beside torch's."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from torch_hrr.demos.figure import Panel
from torch_hrr.runtime.device import wait_for

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Timing:
    """How long a piece of work takes, and how much longer in torch.

    Attributes:
        work: What was timed.
        seconds: How long it took.
        ratio: Time of torch / ours, the median over the rounds; None where torch was not timed.
        peer: How torch did it.
    """

    work: str
    seconds: float
    ratio: float | None = None
    peer: str = ""


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        system: Which of the systems.
        job: What the result says.
        result: The result.
        baseline: What it stands beside.
        timing: Of the work behind it.
    """

    system: str
    job: str
    result: str
    baseline: str
    timing: Timing


class Outcome(NamedTuple):
    """What a job gives: its part of the picture, if it has one, and its lines of the table."""

    panel: Panel | None
    rows: Sequence[Row]


class Taken(NamedTuple):
    """Seconds of two ways to the same, of each round."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """Theirs / ours within a round, the median over the rounds."""
        return statistics.median(t / o for o, t in zip(self.ours, self.theirs, strict=True))

    def timing(self, work: str, peer: str) -> Timing:
        """Of a round, the median."""
        return Timing(work, statistics.median(self.ours), self.ratio, peer)


def in_turn(
    ours: Callable[[int], Any],
    theirs: Callable[[int], Any],
    rounds: int = 11,
    device: torch.device = CPU,
    tick: Callable[[], Any] = lambda: None,
) -> Taken:
    """Times two functions of the number of a round, in random order within each round, on one thread.

    What slows the machine down for a while so slows both down. Round 0 runs once before: it warms caches up.
    """
    shuffle = random.Random(0).shuffle
    taken = Taken([], [])
    ways = [(ours, taken.ours), (theirs, taken.theirs)]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for way, _ in ways:
            way(0)
        for number in range(rounds):
            shuffle(ways)
            for way, seconds in ways:
                wait_for("demo", device)
                start = time.perf_counter()
                way(number)
                wait_for("demo", device)
                seconds.append(time.perf_counter() - start)
            tick()
    finally:
        torch.set_num_threads(threads)
    return taken


def brief(seconds: float) -> str:
    """A time in three digits: "34.1 us"."""
    for unit, size in (("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def draw(rows: Sequence[Row]) -> str:
    """The table, and under it what was timed."""
    head = ("system", "job", "result", "baseline", "time", "to torch")
    body = [
        (
            row.system,
            row.job,
            row.result,
            row.baseline,
            brief(row.timing.seconds),
            "-" if row.timing.ratio is None else f"{row.timing.ratio:.2f}x",
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    lines = []
    for cells in (head, *body):
        # Words to the left, numbers to the right.
        aligned = [f"{cell:{'>' if i in (2, 4, 5) else '<'}{widths[i]}}" for i, cell in enumerate(cells)]
        lines.append("  ".join(aligned).rstrip())
    lines += ["", "time: of the work below; to torch: time of torch / ours, both taken in turn just now, on one thread"]
    for row in rows:
        beside = f", beside {row.timing.peer}" if row.timing.peer else ""
        lines.append(f"  {row.system}, {row.job}: {row.timing.work}{beside}")
    return "\n".join(lines)
