"""From which size on an accelerator is faster than the CPU, measured once for each device and version."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_hrr._checks import sizes
from torch_hrr._library import build_info
from torch_hrr._ops import ops
from torch_hrr._spec import Bool, takes
from torch_hrr.io.files import open_regular, write_json
from torch_hrr.runtime.device import get_device_info, resolve_device

_LARGEST_OPERAND = 2**22
_LARGEST_BATCH = 2**13
_REPEATS = 5


@takes(fresh=Bool())
def calibrate(
    device: torch.device | str | int | None = "auto",
    dimensionalities: Sequence[int] = (256, 1024, 4096),
    fresh: bool = False,
) -> dict[int, float]:
    """The smallest batches whose binding is faster on an accelerator, for some dimensions.

    Operands and results are on the CPU, so copies count. What was measured is kept in a file, by device, driver and
    versions, and used by `hrr.HybridHRRSystem`; ``TORCH_HRR_CACHE`` names its folder (default
    ``$XDG_CACHE_HOME/torch_hrr`` or ``~/.cache/torch_hrr``), `clear_calibration` deletes it. It decides where results
    are computed and never how.

    Args:
        device: The accelerator, as for `resolve_device`.
        dimensionalities: The dimensions D, at least 1.
        fresh: Whether to measure what is known already.

    Returns:
        ``{D: rows}``; infinity where the CPU is faster for the largest batch, 8192 rows or 2^22 elements, and where
        there is no accelerator.

    Raises:
        ValueError: A dimension is less than 1, torch does not know the device, or what is at the place of the file is
            not a regular one.
    """
    dims = sizes("calibrate", "dimensionalities", dimensionalities, wanted="a sequence of ints")
    target = resolve_device(device, op="calibrate")
    return {dim: binding_crossover(target, dim, torch.float32, fresh) for dim in dims}


def clear_calibration() -> None:
    """Forgets everything that was measured."""
    # Where a part of the path is no folder, there is nothing to forget either.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        _file().unlink()


def binding_crossover(device: torch.device, dim: int, dtype: torch.dtype, fresh: bool = False) -> float:
    """The smallest batch whose binding is faster on the device, copies included."""

    def seconds(place: torch.device, batch: int) -> float:
        a, b = torch.ones(2, batch, dim, dtype=dtype, device="cpu")
        times = []
        for _ in range(_REPEATS + 1):
            start = time.perf_counter()
            # Copying to the CPU waits for the result.
            ops.bind(a.to(place), b.to(place)).to("cpu")
            times.append(time.perf_counter() - start)
        return min(times[1:])

    largest = max(1, min(_LARGEST_BATCH, _LARGEST_OPERAND // dim))
    return crossover(f"bind {dim} {dtype}", seconds, largest, device, fresh)


def crossover(
    name: str, seconds: Callable[[torch.device, int], float], largest: int, device: torch.device, fresh: bool = False
) -> float:
    """The smallest power of two up to ``largest`` from which the device always wins; infinity if it never does.

    Args:
        name: What is measured.
        seconds: How long it takes on a device for a size.
        largest: The largest size.
        device: What the CPU is compared with.
        fresh: Whether to measure what is known.
    """
    if device.type in ("cpu", "meta"):
        return math.inf
    key = " | ".join((name, *_identity(device)))
    known = _read()
    if not fresh and key in known:
        return math.inf if known[key] is None else float(known[key])
    threshold = math.inf
    size = 2 ** (largest.bit_length() - 1)
    # Downwards from the largest: where the device first loses, smaller sizes need not be timed.
    while size >= 1 and seconds(device, size) < seconds(torch.device("cpu"), size):
        threshold = size
        size //= 2
    _write(known | {key: None if math.isinf(threshold) else threshold})
    return threshold


def _identity(device: torch.device) -> tuple[str, ...]:
    """What a measurement depends on besides its name."""
    info = get_device_info() if device.type == "cuda" else None
    described = (f"{info['device_name']} {info['driver']}",) if info else ()
    return (str(device), *described, torch.__version__, build_info()["version"])


def _file() -> pathlib.Path:
    folder = os.environ.get("TORCH_HRR_CACHE")
    if folder:
        return pathlib.Path(folder) / "crossovers.json"
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "torch_hrr" / "crossovers.json"


def _read() -> dict[str, Any]:
    """What is known; nothing where the file is missing or damaged, and ValueError for one that is not regular."""
    try:
        with open_regular("calibrate", _file()) as file:
            text = file.read()
    except (OSError, RuntimeError):
        return {}
    try:
        found = json.loads(text)
        if not isinstance(found, dict):
            return {}
        return {key: value for key, value in found.items() if value is None or (type(value) is int and value >= 1)}
    except ValueError:
        return {}


def _write(known: dict[str, Any]) -> None:
    """Keeps what is known, where the folder can be written."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        write_json("calibrate", _file(), known)
    except (OSError, ValueError, RuntimeError):
        pass
