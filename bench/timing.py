"""Interleaved timing of the candidates of one entry, and the limits of the machine they are compared with."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.benchmark import Timer

from bench.entry import Inputs

COPY_BYTES = 256 << 20
FLUSH_FACTOR = 16
MAX_CALLS = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How to measure; see the command line."""

    rounds: int
    block_seconds: float
    threads: int
    device: str
    cold: bool
    compile: bool
    seed: int

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"


class CpuClock:
    """torch.utils.benchmark.Timer over `statement`."""

    def __init__(self, statement: str, names: dict[str, Any], threads: int) -> None:
        self._timer = Timer(statement, globals=names, num_threads=threads)

    def seconds(self, calls: int) -> float:
        """Mean over `calls` calls, after the Timer's own short warm-up."""
        return float(self._timer.timeit(calls).median)


@cache
def flush_buffer() -> Tensor:
    """A buffer many times the L2 cache: overwriting it takes longer than the host needs to launch a few kernels."""
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return torch.empty(FLUSH_FACTOR * l2_bytes, dtype=torch.int8, device="cuda")


class CudaClock:
    """CUDA events around each call, the L2 cache overwritten before it; `threads` does not matter here.

    The overwrite is still running while the host launches the call, so that the events hold device time.
    """

    def __init__(self, statement: str, names: dict[str, Any], threads: int) -> None:
        self._code = compile(statement, "<candidate>", "exec")
        self._names = names
        self._flush = flush_buffer()

    def seconds(self, calls: int) -> float:
        """Median of the device time of `calls` single calls."""
        exec(self._code, self._names)
        pairs = []
        for _ in range(calls):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._flush.zero_()
            start.record()
            exec(self._code, self._names)
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in pairs) / 1e3


@dataclass
class Candidate:
    """One way to compute an entry, in one state of output and cache."""

    name: str  # "ours" or the peer's name
    output: Literal["fresh", "reused"]
    cache: Literal["warm", "cold"]
    clock: CpuClock | CudaClock  # times a call
    calls: int = 1  # in one round, set by `calibrate`
    rounds: list[float] = field(default_factory=list)  # seconds a call, one per round

    @property
    def median(self) -> float:
        """Of a call's seconds over the rounds."""
        return statistics.median(self.rounds)

    @property
    def key(self) -> tuple[str, str, str]:
        return self.name, self.output, self.cache

    def calibrate(self, block_seconds: float) -> None:
        estimate = self.clock.seconds(1)
        if estimate < block_seconds:
            estimate = self.clock.seconds(max(2, min(100, int(block_seconds / estimate))))
        self.calls = max(1, min(MAX_CALLS, round(block_seconds / estimate)))


def candidate(
    name: str, function: Callable[..., Any], sets: Sequence[Inputs], out: Tensor | None, cold: bool, settings: Settings
) -> Candidate:
    """A candidate over its input sets in turn."""
    names: dict[str, Any] = {"f": function, "x": sets[0], "sets": cycle(sets), "out": out}
    arguments = "*x" if len(sets) == 1 else "*next(sets)"
    statement = f"f({arguments})" if out is None else f"f({arguments}, out=out)"
    clock = (CudaClock if settings.cuda else CpuClock)(statement, names, settings.threads)
    return Candidate(name, "fresh" if out is None else "reused", "cold" if cold else "warm", clock)


def run_rounds(candidates: Sequence[Candidate], rounds: int, block_seconds: float, seed: int) -> None:
    """Times every candidate once per round, in a new random order each round."""
    for each in candidates:
        each.calibrate(block_seconds)
    order = list(candidates)
    shuffle = random.Random(seed).shuffle
    for _ in range(rounds):
        shuffle(order)
        for each in order:
            each.rounds.append(each.clock.seconds(each.calls))


def median_and_iqr(values: Sequence[float]) -> tuple[float, float]:
    """Median and interquartile range; the range of one value is 0."""
    if len(values) == 1:
        return values[0], 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return middle, high - low


def ratio(peer: Candidate, ours: Candidate) -> tuple[float, float]:
    """Median and IQR over the rounds of peer time / our time, each from one round, so that slow spells cancel."""
    return median_and_iqr([p / o for p, o in zip(peer.rounds, ours.rounds, strict=True)])


@cache
def machine_limits(threads: int, cuda: bool) -> dict[str, float]:
    """What no kernel can beat: bytes a second of a large copy (read and written), seconds of an empty launch."""
    clock, device = (CudaClock, "cuda") if cuda else (CpuClock, "cpu")
    source, target = (torch.ones(COPY_BYTES, dtype=torch.int8, device=device) for _ in range(2))
    copy = clock("target.copy_(source)", {"source": source, "target": target}, threads)
    launch = clock("tiny.zero_()", {"tiny": torch.zeros(1, device=device)}, threads)
    seconds = min(copy.seconds(2) for _ in range(3))
    least = min(launch.seconds(20) for _ in range(5)) if cuda else 0.0
    return {"copy_bytes_per_second": 2 * COPY_BYTES / seconds, "launch_seconds": least}
