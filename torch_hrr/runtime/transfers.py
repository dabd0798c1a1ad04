"""Copies between the CPU and a GPU that overlap with computation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import is_iterable
from torch_hrr.runtime.device import failures_named, map_leaves, moved, resolve_data_device

_CPU = torch.device("cpu")
# Batches of a pipeline that are under way behind the one that is copied in.
_DEPTH = 2


def pipeline(
    fn: Callable[[Any], Any], batches: Iterable[Any], device: torch.device | str | int | None = None
) -> Iterator[Any]:
    """``fn(batch)`` for every batch, on a device; on a GPU copies in and out overlap with the computation.

    While a batch is computed, the next one is copied to the GPU and the results of the one before to the CPU: three
    streams, at most three batches in memory. Results are those of the loop ``to_cpu(fn(to_gpu(batch)))``, bit for bit
    and in its order. Without a GPU it is that loop. Everywhere fn gets a copy of the batch, and results are copies of
    what it gives.

    Args:
        fn: Takes a batch on the device and gives tensors on it; it must not wait for the device, or nothing overlaps.
            It may change its batch, and give the same memory every time.
        batches: Tensors or NumPy arrays, or dicts, lists and tuples of these; read one by one, one ahead at least.
            What is in pinned memory already must not change before its results are there.
        device: As for `resolve_device`; None means the current one.

    Returns:
        An iterator over the results, on the CPU.

    Raises:
        TypeError: fn is not callable, or batches cannot be iterated over.
        DeviceError: The device failed.
    """
    if not callable(fn):
        raise TypeError(f"pipeline: fn must be callable, got {type(fn).__name__}")
    if not is_iterable(batches):
        raise TypeError(f"pipeline: batches must be an iterable, got {type(batches).__name__}")
    target = resolve_data_device(device, op="pipeline")
    return _overlapped(fn, batches, target) if target.type == "cuda" else _one_by_one(fn, batches, target)


def _one_by_one(fn: Callable[[Any], Any], batches: Iterable[Any], device: torch.device) -> Iterator[Any]:
    with failures_named("pipeline", device):
        for batch in batches:
            results = fn(moved("pipeline", device, batch, copied=True))
            yield moved("pipeline", _CPU, results, arrays=False, copied=True)


def _overlapped(fn: Callable[[Any], Any], batches: Iterable[Any], device: torch.device) -> Iterator[Any]:
    lanes = _Lanes(device)
    under_way: deque[_UnderWay] = deque()
    with failures_named("pipeline", device):
        for batch in batches:
            near, source = lanes.copy_in(batch)
            under_way.append(lanes.copy_out(fn(near), near, source))
            if len(under_way) > _DEPTH:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


class _UnderWay:
    """A batch whose results are on their way; it keeps all memory that the streams use until then."""

    def __init__(self, done: Any, results: Any, *used: Any) -> None:
        self._done = done
        self._results = results
        self._used = used

    def result(self) -> Any:
        """In plain memory, since there is little that can be pinned."""
        self._done.synchronize()
        return map_leaves(_own, self._results)


class _Lanes:
    """The streams of a pipeline: one for copies in, the current one, and one for copies out."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._in, self._out = torch.cuda.Stream(device), torch.cuda.Stream(device)
        self._compute = torch.cuda.current_stream(device)

    def copy_in(self, batch: Any) -> tuple[Any, Any]:
        """The batch on the device, for which the computation waits, and the pinned memory that it is copied from."""
        source = map_leaves(_pinned, batch)
        with torch.cuda.stream(self._in):
            near = map_leaves(lambda leaf: self._queued(leaf, self._device), source)
        self._compute.wait_stream(self._in)
        return near, source

    def copy_out(self, results: Any, *used: Any) -> _UnderWay:
        """The results on their way to the CPU, once they are computed."""
        # What fn gave it may write again for the next batch, while this is on its way. To wait for the way, which is
        # long, would take longer than a copy within the device's memory.
        kept = map_leaves(_own, results)
        self._out.wait_stream(self._compute)
        with torch.cuda.stream(self._out):
            far = map_leaves(lambda leaf: self._queued(leaf, _CPU), kept)
            done = self._out.record_event()
        return _UnderWay(done, far, kept, *used)

    @staticmethod
    def _queued(leaf: Any, device: torch.device) -> Any:
        """A copy queued on the stream of the block; to the CPU, into pinned memory, which torch holds for the next."""
        return leaf.to(device, non_blocking=True) if isinstance(leaf, Tensor) else leaf


def _own(leaf: Any) -> Any:
    """A copy of a tensor where it is, by the current stream; anything else as it is."""
    return leaf.clone() if isinstance(leaf, Tensor) else leaf


def _pinned(leaf: Any) -> Any:
    """Tensors of the CPU and arrays in memory that a GPU can copy from, copies of tensors elsewhere; or as it is."""
    own = leaf if isinstance(leaf, Tensor) else moved("pipeline", _CPU, leaf)
    if isinstance(own, Tensor) and own.device != _CPU:
        return _own(own)
    plain = isinstance(own, Tensor) and own.layout is torch.strided and not own.is_pinned()
    return own.pin_memory() if plain else own
