"""Copies between the CPU and a GPU that overlap with computation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_dtype, check_elements, integer, is_iterable, listed, strided
from torch_hrr._repr import Described
from torch_hrr.runtime.device import copied, failures_named, map_leaves, moved, resolve_data_device
from torch_hrr.runtime.pool import Lender, Spare

_CPU = torch.device("cpu")
# Batches of a pipeline that are under way behind the one that is copied in.
_DEPTH = 2


class OptimizedTransfers(Described):
    """Copies to a device on a stream of their own, from pinned memory that is used again.

    Without a GPU the calls do the same with plain memory and plain copies.

    Args:
        device: As for `set_device`; None means the current one.

    Attributes:
        device: The device.
        pinned_memory_pool: Buffers that were given back: lists of tensors by (shape, dtype).

    Raises:
        TypeError: The device is neither a name, a device nor an index.
        ValueError: torch does not know the device, or it is meta.
    """

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        """Finds the device; its stream is made when it is first used."""
        self.device = resolve_data_device(device, op="OptimizedTransfers", falls_back=True)
        self._lender = Lender()
        self._stream: Any = None

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device, "spare_buffers": sum(map(len, tuple(self._lender.spare.values())))}

    @property
    def pinned_memory_pool(self) -> Spare:
        """See the class."""
        return self._lender.spare

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a CUDA one, whose copies overlap."""
        return self.device.type == "cuda"

    def create_pinned_memory(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """A buffer on the CPU that a GPU can copy from and to while programs run; its values are arbitrary.

        Buffers given back by `release` are used again. Pinned memory cannot be swapped out, so hold little of it.

        Raises:
            TypeError: The shape is not a sequence of ints, or the dtype not floating.
            ValueError: A size is negative.
        """
        op = "create_pinned_memory"
        sizes = tuple(integer(op, "a size", size, 0) for size in listed(op, "shape", shape, "a sequence of ints"))
        check_elements(op, "the buffer", sizes)
        check_dtype(op, dtype)
        return self._lender.lend(
            (sizes, dtype), lambda: torch.empty(sizes, dtype=dtype, device="cpu", pin_memory=self.on_gpu)
        )

    def release(self, buffer: Tensor) -> None:
        """Gives a buffer back, for a later `create_pinned_memory` of its shape; copies from it must have ended.

        Raises:
            TypeError: Not a tensor.
            ValueError: Not what `create_pinned_memory` gave, but a view of it, say; or it was given back before.
        """
        if strided("release", "buffer", buffer, as_given=True).device.type != "cpu":
            raise ValueError(f"release: buffer must be on the CPU, got {buffer.device}")
        if not self._lender.take_back((tuple(buffer.shape), buffer.dtype), buffer):
            raise ValueError("release: buffer must be in use, got one that was given back before, or made elsewhere")

    def async_transfer(self, tensor: Any, stream: torch.cuda.Stream | None = None) -> Tensor:
        """A copy on the device; the program goes on at once, and later work of the current stream waits for the copy.

        Only copies from pinned memory overlap. The tensor must not be changed before the copy has ended; `synchronize`
        waits for that.

        Args:
            tensor: A tensor on the CPU or a NumPy array.
            stream: Where the copy is queued; None means a stream of this object's own.

        Raises:
            TypeError: Not a strided tensor or an array; stream is no CUDA stream.
            ValueError: The tensor has no data (meta).
            DeviceError: The device failed.
        """
        op = "async_transfer"
        source = strided(op, "tensor", tensor, as_given=True)
        if stream is not None and not isinstance(stream, torch.cuda.Stream):
            raise TypeError(f"{op}: stream must be a torch.cuda.Stream or None, got {type(stream).__name__}")
        if not self.on_gpu:
            # What is written to the tensor later must not show, as it does not on a GPU; an array was copied before.
            result: Tensor = (copied if source is tensor else moved)(op, self.device, source)
            return result
        with failures_named(op, self.device):
            own = self._own_stream() if stream is None else stream
            current = torch.cuda.current_stream(self.device)
            # What is queued may still write the tensor, if it is on the device already.
            own.wait_stream(current)
            with torch.cuda.stream(own):
                near = source.to(self.device, non_blocking=True, copy=True)
            current.wait_stream(own)
            # The allocator must not give this memory away before the current stream is done with it.
            near.record_stream(current)
        return near

    def synchronize(self) -> None:
        """Waits for the copies queued on this object's own stream.

        Raises:
            DeviceError: The device failed.
        """
        if self._stream is None:
            return
        with failures_named("synchronize", self.device):
            self._stream.synchronize()

    def _own_stream(self) -> Any:
        if self._stream is None:
            self._stream = torch.cuda.Stream(self.device)
        return self._stream


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
            results = fn(copied("pipeline", device, batch))
            yield map_leaves(lambda leaf: copied("pipeline", _CPU, leaf) if isinstance(leaf, Tensor) else leaf, results)


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
