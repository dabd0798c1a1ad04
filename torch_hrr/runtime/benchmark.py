"""How long a function takes on the current device."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import Any, TypedDict

import torch

from torch_hrr._spec import Int, takes
from torch_hrr.runtime.device import synchronize

_SECONDS = 0.2


class Timing(TypedDict):
    """What `benchmark_device` returns: seconds of a call, and how many calls were timed."""

    mean_time: float
    median: float
    iqr: float
    runs: int


@takes(runs=Int(1).or_none())
def benchmark_device(fn: Callable[[], Any], runs: int | None = None) -> Timing:
    """Times calls of a function on the current device, each block until the device has finished it.

    Args:
        fn: Takes no arguments; it is called before, to warm up.
        runs: How many calls are timed, at least 1, each a block of its own; None means blocks of calls for 0.2 s, long
            enough that the clock costs nothing, as `torch.utils.benchmark.Timer.blocked_autorange` chooses them.

    Returns:
        ``mean_time``, ``median`` and ``iqr`` (the interquartile range) of the blocks, in seconds of a call, and
        ``runs``, how many calls were timed.

    Raises:
        DeviceError: Work on the device failed.
    """
    # Its compiler of C++ statements takes a while to import.
    from torch.utils import benchmark

    if not callable(fn):
        raise TypeError(f"benchmark_device: fn must be callable, got {type(fn).__name__}")
    fn()
    timer = benchmark.Timer("fn()", timer=_finished, globals={"fn": fn}, num_threads=torch.get_num_threads())
    if runs is None:
        found = timer.blocked_autorange(min_run_time=_SECONDS)
    else:
        found = benchmark.Measurement(1, timeit.repeat(fn, timer=_finished, repeat=runs, number=1), timer._task_spec)
    calls = found.number_per_run * len(found.raw_times)
    return {"mean_time": found.mean, "median": found.median, "iqr": found.iqr, "runs": calls}


def _finished() -> float:
    """The time at which the device has done what it was given."""
    synchronize()
    return timeit.default_timer()
