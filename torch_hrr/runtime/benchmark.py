"""How long a function takes on the current device."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, TypedDict

from torch_hrr._checks import integer
from torch_hrr.runtime.device import synchronize

_SECONDS = 0.2
_LEAST, _MOST = 5, 1000


class Timing(TypedDict):
    """What `benchmark_device` returns: seconds of a call, and how many calls were timed."""

    mean_time: float
    median: float
    iqr: float
    runs: int


def benchmark_device(fn: Callable[[], Any], runs: int | None = None) -> Timing:
    """Times calls of a function on the current device, one by one, each until the device has finished it.

    Args:
        fn: Takes no arguments; it is called once before, to warm up.
        runs: How many calls are timed, at least 1; None means as many as fit 0.2 s, 5 to 1000.

    Returns:
        ``mean_time``, ``median`` and ``iqr`` (the interquartile range) in seconds, and ``runs``.

    Raises:
        TypeError: fn is not callable, or runs not an int.
        ValueError: runs is less than 1.
        DeviceError: Work on the device failed.
    """
    op = "benchmark_device"
    if not callable(fn):
        raise TypeError(f"{op}: fn must be callable, got {type(fn).__name__}")
    wanted = None if runs is None else integer(op, "runs", runs, 1)
    fn()
    synchronize()
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS
    while _goes_on(len(seconds), wanted, end):
        start = time.perf_counter()
        fn()
        synchronize()
        seconds.append(time.perf_counter() - start)
    low, _, high = statistics.quantiles(seconds, n=4) if len(seconds) > 1 else (seconds[0],) * 3
    return {
        "mean_time": statistics.fmean(seconds),
        "median": statistics.median(seconds),
        "iqr": high - low,
        "runs": len(seconds),
    }


def _goes_on(done: int, wanted: int | None, end: float) -> bool:
    if wanted is not None:
        return done < wanted
    return done < _LEAST or (done < _MOST and time.perf_counter() < end)
