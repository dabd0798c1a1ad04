"""A device for a block, NumPy's names, and memory, transfers, profiles and benchmarks of a GPU, for older programs.

Everything here that takes a ``device`` takes it as `runtime.resolve_device` does, None being the current one; a named
one that cannot be used is the CPU, after a RuntimeWarning each time, and one that torch does not know a ValueError.

NumPy's names are torch's functions: they take tensors, arrays, numbers and lists, and what is not a tensor becomes one
on the current device. Meanings are NumPy's, such as ``std`` with the divisor n, without options such as ``dtype`` or
``ord``; whole numbers become torch's default dtype where results are real. What is no array of numbers, sparse, nested
or quantized is a TypeError, a shape that does not fit a ValueError. New programs call torch.
"""

from __future__ import annotations

import builtins
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from torch_hrr._checks import (
    FLOATING,
    check_bool,
    check_elements,
    check_strided,
    checked_path,
    choice,
    integer,
    number,
    placed,
    shown,
    signed,
    sizes,
    strided,
    word,
)
from torch_hrr._ops import ops
from torch_hrr._repr import Described
from torch_hrr._shared import Lock, is_out_of_memory
from torch_hrr._spec import Dtype, Int, Real, takes
from torch_hrr.io.files import write_json
from torch_hrr.runtime import device as devices
from torch_hrr.runtime.adaptive import call_in_rows
from torch_hrr.runtime.benchmark import benchmark_device
from torch_hrr.runtime.device import resolve_device, resolve_device_or_cpu, wait_for
from torch_hrr.runtime.memory import free_caches, limit_memory, total_memory
from torch_hrr.runtime.monitor import ResourceMonitor
from torch_hrr.runtime.profiler import OperatorRecording

Axis = int | Sequence[int] | None
_Function = TypeVar("_Function", bound=Callable[..., Any])

_GIGABYTE = 2**30
_UNSIGNED = (torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
_WHOLE = (*_UNSIGNED, torch.int8, torch.int16, torch.int32, torch.int64)
_DTYPES = (*FLOATING, *_WHOLE, torch.complex64, torch.complex128)


class GPUContext(Described):
    """Makes a device the current one for a block and restores the previous one, after an exception too.

    Only this thread and asyncio task see the change. Blocks nest, and one object may be entered many times, by
    several threads at once as well. ``with GPUContext() as device`` gives the name of the device, resolved on entry.
    """

    def __init__(self, device: torch.device | str | int | None = "auto") -> None:
        """Keeps the argument; nothing changes before the block is entered."""
        self.device = device

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device}

    def __enter__(self) -> str:
        """Makes the device current and returns its name."""
        selected = resolve_device_or_cpu(self.device, op="GPUContext")
        devices.enter(selected)
        return str(selected)

    def __exit__(self, *exception: object) -> None:
        """Makes the device before the block current again."""
        devices.leave()


def to_gpu(x: Any) -> Any:
    """Moves tensors and NumPy arrays to the GPU: the current device if it is one, else the first that works.

    Works through dicts, lists and tuples, nested and of derived types, which are rebuilt; anything else, modules too,
    comes back untouched. An array becomes a tensor of its dtype that shares no memory with it; one of a dtype that
    torch lacks stays. Without a GPU all goes to the CPU, after a RuntimeWarning each time.

    Raises:
        DeviceError: The device failed during a copy.
        ValueError: A tensor has no data (meta), or the structure holds itself or is too deep.
    """
    return devices.moved("to_gpu", devices.any_accelerator("to_gpu"), x)


def to_cpu(x: Any) -> Any:
    """Moves tensors to the CPU, through structures and with errors as `to_gpu`; anything else, arrays too, stays."""
    return devices.moved("to_cpu", torch.device("cpu"), x, arrays=False)


def get_array_module() -> ModuleType:
    """The module that arrays belong to: torch, whatever the device."""
    return torch


def _operand(op: str, argument: str, value: Any, floating: bool = False) -> Tensor:
    """A tensor as it is; anything else on the current device; whole numbers, if asked, in torch's default dtype."""
    if isinstance(value, Tensor):
        made = value
    elif hasattr(value, "__array__"):
        made = placed(op, argument, value, resolve_device(None))
    else:
        if type(value) is int:
            signed(op, argument, value)
        try:
            made = torch.as_tensor(value, device=resolve_device(None))
        except (TypeError, ValueError, RuntimeError):
            wanted = "a tensor, an array, a number or a list of numbers"
            raise TypeError(f"{op}: {argument} must be {wanted}, got {type(value).__name__}") from None
    check_strided(op, argument, made)
    if made.dtype not in _DTYPES:
        raise TypeError(f"{op}: {argument} must be of a dtype that torch computes in, got {made.dtype}")
    return made.to(torch.get_default_dtype()) if floating and made.dtype in _WHOLE else made


def _shape(op: str, given: tuple[Any, ...], argument: str = "shape") -> tuple[int, ...]:
    """Of zeros(2, 3) and of zeros((2, 3))."""
    lengths = given[0] if len(given) == 1 and isinstance(given[0], (tuple, list)) else given
    shape = sizes(op, argument, lengths, 0)
    check_elements(op, argument, shape)
    return shape


def _known_as(name: str, meaning: str, function: _Function) -> _Function:
    """A function that goes by one of NumPy's names."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = meaning
    return function


def _maker(name: str, make: Callable[..., Tensor], meaning: str) -> Callable[..., Tensor]:
    def made(*shape: Any) -> Tensor:
        return make(_shape(name, shape), device=resolve_device(None))

    return _known_as(name, meaning, made)


def _elementwise(name: str, function: Callable[[Tensor], Tensor], meaning: str) -> Callable[[Any], Tensor]:
    def applied(x: Any) -> Tensor:
        return function(_operand(name, "x", x, floating=True))

    return _known_as(name, meaning, applied)


def _product(name: str, product: Callable[[Tensor, Tensor], Tensor], meaning: str) -> Callable[[Any, Any], Tensor]:
    """In the dtype that both promote to; of bools, whether any of the products that are added is true."""

    def multiplied(a: Any, b: Any) -> Tensor:
        first, second = _operand(name, "a", a), _operand(name, "b", b)
        if first.device != second.device:
            raise RuntimeError(f"{name}: a and b must be on one device, got {first.device} and {second.device}")
        dtypes, shapes = f"{first.dtype} and {second.dtype}", f"{list(first.shape)} and {list(second.shape)}"
        refused = TypeError(f"{name}: a and b must be of dtypes that torch multiplies, got {dtypes}")
        try:
            dtype = torch.promote_types(first.dtype, second.dtype)
        except RuntimeError:
            raise refused from None
        wide = torch.int64 if dtype is torch.bool else dtype
        try:
            return product(first.to(wide), second.to(wide)).to(dtype)
        except NotImplementedError:
            raise refused from None
        except RuntimeError as error:
            if is_out_of_memory(error) or devices.is_failure(error):
                raise
            raise ValueError(f"{name}: a and b must have shapes that fit, got {shapes}") from None

    return _known_as(name, meaning, multiplied)


def _reduction(name: str, reduce: Any, meaning: str, floating: bool = True, **options: Any) -> Callable[..., Tensor]:
    """`reduce` over an axis, several, or all for None."""

    def reduced(x: Any, axis: Axis = None, keepdims: bool = False) -> Tensor:
        x, keepdims = _operand(name, "x", x, floating), check_bool(name, "keepdims", keepdims)
        several = isinstance(axis, Sequence) and not isinstance(axis, str | bytes)
        axes: Any = range(x.dim()) if axis is None else axis if several else (axis,)
        dims = [integer(name, "axis", each) for each in axes]
        for dim in dims:
            if not -x.dim() <= dim < x.dim():
                raise IndexError(f"{name}: axis must be in {-x.dim()}..{x.dim() - 1}, got {shown(dim)}")
        if len({dim % x.dim() for dim in dims}) < len(dims):
            raise ValueError(f"{name}: axis must not name an axis twice, got {dims}")
        # No axes mean all of them to torch.
        given: Tensor = reduce(x, dim=dims, keepdim=keepdims, **options) if dims else reduce(x[None], dim=0, **options)
        return given

    return _known_as(name, meaning, reduced)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    has_axes = a.dim() and b.dim()
    product: Tensor = torch.tensordot(a, b, dims=([-1], [builtins.max(b.dim() - 2, 0)])) if has_axes else a * b
    return product


def _outer(a: Tensor, b: Tensor) -> Tensor:
    check_elements("outer", "the result", (a.numel(), b.numel()))
    return torch.outer(a.flatten(), b.flatten())


zeros = _maker("zeros", torch.zeros, "Zeros of a shape, as (2, 3) or 2, 3, in torch's default dtype.")
ones = _maker("ones", torch.ones, "Ones of a shape, as `zeros`.")
randn = _maker("randn", torch.randn, "Numbers from N(0, 1) by torch's generator of the device, of a shape as `zeros`.")
dot = _product("dot", _dot, "The sum over the last axis of a and the last but one of b (its only one, if a vector).")
matmul = _product("matmul", torch.matmul, "The matrix product, over leading axes that broadcast.")
outer = _product("outer", _outer, "The products of all elements of a with all of b, ``[a.size, b.size]``.")
sum = _reduction("sum", torch.sum, "The sum over an axis, several, or all.", floating=False)
mean = _reduction("mean", torch.mean, "The mean over an axis, several, or all.")
std = _reduction("std", torch.std, "The deviation over an axis, several, or all; the divisor is n.", correction=0)
norm = _reduction("norm", torch.linalg.vector_norm, "The Euclidean norm over an axis, several, or all.")
exp = _elementwise("exp", torch.exp, "e^x.")
tanh = _elementwise("tanh", torch.tanh, "The hyperbolic tangent.")
sigmoid = _elementwise("sigmoid", torch.sigmoid, "1 / (1 + e^-x).")


def relu(x: Any) -> Tensor:
    """X where it is above 0, else 0."""
    made = _operand("relu", "x", x)
    if made.is_complex():
        raise TypeError(f"relu: x must be real, got {made.dtype}")
    return torch.relu(made.long() if made.dtype is torch.bool else made)


def uniform(low: float = 0.0, high: float = 1.0, size: Any = ()) -> Tensor:
    """Numbers from low to high, without high, by torch's generator of the current device.

    ValueError for a bound or a high - low that is not finite in torch's default dtype.
    """
    op, dtype = "uniform", torch.get_default_dtype()
    largest = torch.finfo(dtype).max
    first, last = (number(op, name, bound, -largest, largest) for name, bound in (("low", low), ("high", high)))
    if abs(last - first) > largest:
        raise ValueError(f"{op}: high - low must be finite in {dtype}, got {last:g} - {first:g}")
    drawn = torch.rand(_shape(op, (size,), "size"), device=resolve_device(None)) * (last - first) + first
    # The sum may have been rounded to high.
    ends = torch.tensor((first, last), dtype=dtype, device=drawn.device)
    return torch.where(drawn == ends[1], torch.nextafter(ends[1], ends[0]), drawn)


class _OnDevice(Described):
    """Something of a device that holds data, the CPU where a named one cannot be used."""

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        """Finds the device, not meta."""
        op = type(self).__name__
        self.device = devices.with_data(op, resolve_device_or_cpu(device, op=op))

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device}


class GPUMemoryManager(_OnDevice):
    """Memory of a device within a share of it: torch's allocator, with a limit. Threads may share a manager.

    On CUDA torch gives the process no more than the limit; a call of `run` that meets it goes on with fewer rows and
    at last on the CPU. Elsewhere the limit holds for the storage allocated here.

    Attributes:
        device: The device, not meta.
        memory_limit: The share of the device's memory to use, in (0, 1].
        max_memory_gb: This share of the device's memory, in 2^30 bytes; infinity where its size is unknown.
    """

    @takes(memory_limit=Real(0, 1, open_left=True))
    def __init__(self, device: torch.device | str | int | None = None, memory_limit: float = 0.8) -> None:
        """Finds the device's memory; on CUDA sets the limit of this process."""
        super().__init__(device)
        self.memory_limit = memory_limit
        known = self.device.type in ("cpu", "cuda")
        self._limit = total_memory(self.device) * memory_limit if known else math.inf
        self.max_memory_gb = self._limit / _GIGABYTE
        if known:
            limit_memory(self.device, int(self._limit))
        self._used = WeakTensorKeyDictionary()
        # Seconds of copies, and when the first measured call began.
        self._transferring, self._begun = 0.0, math.inf
        self._lock = Lock()

    def _summary(self) -> dict[str, Any]:
        own = {"memory_limit": self.memory_limit, "max_memory_gb": self.max_memory_gb, "used_bytes": self._used_bytes}
        return super()._summary() | own

    @property
    def memory_pool(self) -> dict[tuple[int, ...], list[Tensor]]:
        """The storage in use, by its shape; what is given back is in torch's own pool."""
        pool: dict[tuple[int, ...], list[Tensor]] = {}
        for storage in self._used:
            pool.setdefault(tuple(storage.shape), []).append(storage)
        return pool

    @property
    def _used_bytes(self) -> int:
        return builtins.sum(storage.nbytes for storage in self._used)

    @takes(num_vectors=Int(0), dimensionality=Int(0), dtype=Dtype())
    def allocate_vector_storage(
        self, num_vectors: int, dimensionality: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Storage for vectors, ``[num_vectors, dimensionality]``, of arbitrary values.

        MemoryError where it would exceed the limit, torch.OutOfMemoryError where the device has no memory left.
        """
        op, size = "allocate_vector_storage", num_vectors * dimensionality * dtype.itemsize
        with self._lock, torch.inference_mode(False):
            left = self._limit - self._used_bytes
            if size > left:
                wanted = f"{size / _GIGABYTE:.3g} GB of {left / _GIGABYTE:.3g} GB left"
                limit = f"the limit of {self.max_memory_gb:.3g} GB"
                raise MemoryError(f"{op}: storage must fit into {limit}, got {wanted}")
            storage = torch.empty(num_vectors, dimensionality, dtype=dtype, device=self.device)
            self._used[storage] = None
        return storage

    def release(self, storage: Tensor) -> None:
        """Counts storage as given back; torch's allocator gives its memory out again when nothing refers to it.

        ValueError unless it is what `allocate_vector_storage` gave, whole, and was not given back before.
        """
        with self._lock:
            if not isinstance(storage, Tensor) or storage not in self._used:
                raise ValueError("release: storage must be in use, got what was given back before, or made elsewhere")
            del self._used[storage]

    def free(self) -> None:
        """Gives torch's unused memory back to the system."""
        free_caches(self.device)

    def transfer_state(self, state: Any) -> Any:
        """Tensors and NumPy arrays of a structure on the device, as by `to_gpu`; anything else in it stays as it is."""
        op = "transfer_state"
        wait_for(op, self.device)
        start = time.perf_counter()
        placed = devices.moved(op, self.device, state)
        wait_for(op, self.device)
        pairs = zip(devices.leaves(placed), devices.leaves(state), strict=True)
        is_copied = any(now is not before for now, before in pairs)
        self._measure(start, time.perf_counter() - start if is_copied else 0.0)
        return placed

    transfer_consciousness_state = transfer_state

    def run(self, fn: Callable[..., Any], *batches: Any) -> Any:
        """``fn(*batches)`` within the memory limit: `adaptive_call` on the manager's device."""
        copies: list[float] = []
        start = time.perf_counter()
        result = call_in_rows("run", fn, batches, self.device, copies.append)
        wait_for("run", self.device)
        self._measure(start, math.fsum(copies))
        return result

    def _measure(self, start: float, copying: float) -> None:
        with self._lock:
            self._begun = builtins.min(self._begun, start)
            self._transferring += copying

    def report(self) -> dict[str, Any]:
        """What the memory is used for, and what is wrong with it.

        Returns:
            ``allocated_gb`` and ``reserved_gb``, what tensors take and what torch holds for them (on devices other than
            CUDA: the storage in use), in 2^30 bytes; ``max_memory_gb``; ``memory_share``, reserved / max; ``waste``,
            the share of the reserved memory that no tensor takes; ``transfer_share``, the seconds of copies, in
            `transfer_state` and within `run`, over all seconds since the first of these calls began, at most 1;
            ``alerts``, a sentence each for a memory share above 1, waste above 0.2 and a transfer share above 0.1.
        """
        with self._lock:
            allocated = reserved = self._used_bytes
            transferring, begun = self._transferring, self._begun
        if self.device.type == "cuda":
            allocated, reserved = torch.cuda.memory_allocated(self.device), torch.cuda.memory_reserved(self.device)
        share = reserved / self._limit
        waste = 1 - allocated / reserved if reserved else 0.0
        # Threads that copy at the same time count more seconds than pass.
        transfers = builtins.min(transferring / (time.perf_counter() - begun), 1.0) if transferring else 0.0
        found = (
            (share > 1, f"{share:.0%} of the memory limit is in use: free() gives back what nothing uses"),
            (waste > 0.2, f"{waste:.0%} of the reserved memory is unused: free() gives it back"),
            (transfers > 0.1, f"{transfers:.0%} of the time goes to transfers: keep state on the device between calls"),
        )
        return {
            "allocated_gb": allocated / _GIGABYTE,
            "reserved_gb": reserved / _GIGABYTE,
            "max_memory_gb": self.max_memory_gb,
            "memory_share": share,
            "waste": waste,
            "transfer_share": transfers,
            "alerts": [sentence for is_so, sentence in found if is_so],
        }


class OptimizedTransfers(_OnDevice):
    """Copies to a device on a stream of their own, from pinned memory of torch's; plain ones without a GPU."""

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        """Finds the device, not meta; its stream is made when it is first used."""
        super().__init__(device)
        self.pinned_memory_pool: dict[tuple[int, ...], Tensor] = {}
        self._stream: Any = None

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a CUDA one, whose copies overlap."""
        return self.device.type == "cuda"

    @takes(dtype=Dtype())
    def create_pinned_memory(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> Tensor:
        """A buffer on the CPU that a GPU can copy from and to while programs run, of arbitrary values.

        Torch keeps pinned memory that nothing refers to, once copies from it have ended, for buffers to come
        (``pinned_memory_pool`` stays empty). It cannot be swapped out, so hold little of it.
        """
        op = "create_pinned_memory"
        shape = sizes(op, "shape", shape, 0, "a sequence of ints")
        check_elements(op, "the buffer", shape)
        with torch.inference_mode(False):
            return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=self.on_gpu)

    def release(self, buffer: Tensor) -> None:
        """Does nothing: torch's allocator takes a buffer back when nothing refers to it. TypeError for no tensor."""
        strided("release", "buffer", buffer, as_given=True)

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
            # What is written to the tensor later must not show, as it does not on a GPU.
            copy: Tensor = devices.moved(op, self.device, source, copied=True)
            return copy
        with devices.failures_named(op, self.device):
            if stream is None:
                stream = self._stream = self._stream or torch.cuda.Stream(self.device)
            current = torch.cuda.current_stream(self.device)
            # What is queued may still write the tensor, if it is on the device already.
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                near = source.to(self.device, non_blocking=True, copy=True)
            current.wait_stream(stream)
            # The allocator must not give this memory away before the current stream is done with it.
            near.record_stream(current)
        return near

    def synchronize(self) -> None:
        """Waits for the copies queued on this object's own stream; DeviceError if the device failed."""
        if self._stream is not None:
            with devices.failures_named("synchronize", self.device):
                self._stream.synchronize()


class GPUMemoryAnalysis(_OnDevice):
    """How much memory vectors of a dimension take on a device, not meta."""

    @takes(dimensionality=Int(1))
    def __init__(self, device: torch.device | str | int | None = None, dimensionality: int = 512) -> None:
        """Allocates nothing yet."""
        super().__init__(device)
        self.dimensionality = dimensionality

    def _summary(self) -> dict[str, Any]:
        return super()._summary() | {"dimensionality": self.dimensionality}

    @takes(max_vectors=Int(1000))
    def analyze_memory_usage(self, max_vectors: int = 10000) -> list[dict[str, float]]:
        """Allocates 1000, 2000, ... float32 vectors, up to ``max_vectors``, one number after the other.

        Returns:
            A dict for each number: ``n_vectors``; ``allocated_gb``, what these vectors take, and ``reserved_gb``, what
            torch holds for them, in 2^30 bytes; ``efficiency``, allocated / reserved. The CPU's allocator holds
            nothing in reserve.
        """
        check_elements("analyze_memory_usage", "the vectors", (max_vectors, self.dimensionality))
        on_gpu = self.device.type == "cuda"
        rows = []
        for count in range(1000, max_vectors + 1, 1000):
            if on_gpu:
                free_caches(self.device)
                before = torch.cuda.memory_allocated(self.device) if on_gpu else 0
            vectors = torch.empty(count, self.dimensionality, device=self.device, dtype=torch.float32)
            allocated = reserved = vectors.nbytes
            if on_gpu:
                allocated = torch.cuda.memory_allocated(self.device) - before
                # Blocks that were held before may serve the vectors, as far as nothing else used them.
                reserved = builtins.max(torch.cuda.memory_reserved(self.device) - before, allocated)
            row = {"n_vectors": count, "allocated_gb": allocated / _GIGABYTE, "reserved_gb": reserved / _GIGABYTE}
            rows.append(row | {"efficiency": allocated / reserved})
            del vectors
        return rows


class GPUPerformanceBenchmark(_OnDevice):
    """How long binding takes on the CPU and on a GPU."""

    def benchmark_gpu_vs_cpu(
        self, dimensionalities: Sequence[int], batch_sizes: Sequence[int]
    ) -> dict[str, dict[str, float | None]]:
        """Times `hrr.bind` of float32 vectors where they are, for all pairs of a dimension and a batch size.

        Returns:
            ``{"512D_batch100": {"cpu_time_ms", "gpu_time_ms", "speedup", "efficiency"}}``: medians; ``speedup`` is
            cpu / gpu; ``efficiency`` is the time in which the GPU copies as many bytes as binding reads and writes, 12
            D a row, over its time. All but ``cpu_time_ms`` are None without a GPU.
        """
        op = "benchmark_gpu_vs_cpu"
        dims = sizes(op, "dimensionalities", dimensionalities, wanted="a sequence of ints")
        batches = sizes(op, "batch_sizes", batch_sizes, wanted="a sequence of ints")
        check_elements(op, "the vectors", (2, builtins.max(batches, default=0), builtins.max(dims, default=0)))
        on_gpu = self.device.type != "cpu" and bool(dims and batches)
        # Seconds to read and write a byte by a copy, of more than the caches of GPUs hold.
        source, target = torch.empty(2, 2**26 if on_gpu else 1, dtype=torch.uint8, device=self.device)
        least = self._median(lambda: target.copy_(source), self.device) / (2 * len(source)) if on_gpu else math.nan
        results: dict[str, dict[str, float | None]] = {}
        for dim in dims:
            for batch in batches:
                vectors = torch.randn(2, batch, dim, device="cpu", generator=torch.Generator().manual_seed(0))
                cpu = self._binding(vectors, torch.device("cpu"))
                gpu = self._binding(vectors, self.device) if on_gpu else None
                results[f"{dim}D_batch{batch}"] = {
                    "cpu_time_ms": 1e3 * cpu,
                    "gpu_time_ms": gpu and 1e3 * gpu,
                    "speedup": gpu and cpu / gpu,
                    "efficiency": gpu and 12 * dim * batch * least / gpu,
                }
        return results

    def _binding(self, vectors: Tensor, device: torch.device) -> float:
        a, b = vectors.to(device)
        return self._median(lambda: ops.bind(a, b), device)

    @staticmethod
    def _median(function: Callable[[], Any], device: torch.device) -> float:
        with GPUContext(device):
            return benchmark_device(function)["median"]


@dataclass(frozen=True, repr=False)
class OperationMetrics(Described):
    """What `PerformanceProfiler.benchmark_operations` tells of an operation.

    Attributes:
        execution_time: Seconds of a call, the mean.
        throughput: Calls a second.
        median: Seconds of a call, the median.
        iqr: The interquartile range of these seconds.
        runs: How many calls were timed.
    """

    execution_time: float
    throughput: float
    median: float
    iqr: float
    runs: int


# Kinds of bottlenecks beside operators: the names that torch.profiler gives them.
_KINDS = {
    "synchronization": tuple(
        "aten::_local_scalar_dense cudaStreamSynchronize cudaDeviceSynchronize cudaEventSynchronize".split()
    ),
    "transfer": ("aten::copy_", "Memcpy HtoD", "Memcpy DtoH", "Memcpy PtoP"),
    "allocation": ("aten::empty", "aten::empty_strided", "aten::resize_", "cudaMalloc"),
}
_HINTS = {
    "operator": "larger batches in place of many calls, or a fused operator of torch_hrr",
    "synchronization": "keep numbers as tensors, without .item() and float()",
    "transfer": "keep data on one device and in one dtype between calls",
    "allocation": "use TensorPool or out= arguments",
}


class PerformanceProfiler(Described):
    """Records what a program does between `start_monitoring` and `stop_monitoring`, and reports where its time goes.

    Operators are recorded by torch.profiler, which slows small ones down and can run once at a time in a process;
    memory and load are sampled by ``monitor``, a `ResourceMonitor`, which takes alerts. ``backend`` is "torch".
    """

    def __init__(self, backend: str = "torch", device: torch.device | str | int | None = None) -> None:
        """Records nothing yet."""
        self.backend = choice("PerformanceProfiler", "backend", backend, ("torch",))
        self.device = resolve_device_or_cpu(device, op="PerformanceProfiler")
        self.monitor = ResourceMonitor(self.device)
        self._recording: OperatorRecording | None = None
        self._started: float | None = None
        self._seconds = 0.0
        self._operators: dict[str, dict[str, float]] = {}

    def _summary(self) -> dict[str, Any]:
        own = {"backend": self.backend, "device": self.device, "recording": self._started is not None}
        return own | {"operators": len(self._operators)}

    @takes(interval=Real(0, open_left=True))
    def start_monitoring(self, interval: float = 0.1) -> None:
        """Starts recording, without what was recorded before, and sampling every ``interval`` seconds.

        RuntimeError where it, ``monitor`` or another recording of torch.profiler is under way.
        """
        op = "start_monitoring"
        if self._started is not None or self.monitor.is_running:
            raise RuntimeError(f"{op}: profiler and monitor must be stopped first, got one that is running")
        self.monitor.interval = interval
        recording = OperatorRecording(op, self.device, memory=True)
        try:
            self.monitor.start()
        except BaseException:
            recording.stop()
            raise
        self._recording, self._started = recording, time.perf_counter()

    def stop_monitoring(self) -> None:
        """Ends recording, if any. On a GPU it waits for the work under way.

        Raises:
            RuntimeError: Another thread started it, in which torch.profiler must be stopped. It goes on.
            DeviceError: Work on the device failed; what was recorded until then is kept.
        """
        if self._started is None or self._recording is None:
            return
        self._recording.check_thread("stop_monitoring")
        try:
            wait_for("stop_monitoring", self.device)
        finally:
            self._seconds, self._started = time.perf_counter() - self._started, None
            self.monitor.stop()
            self._operators = self._recording.stop()

    def generate_report(self) -> dict[str, Any]:
        """What was recorded last; ends a recording that is under way. RuntimeError where nothing was recorded.

        Returns:
            ``summary``: ``total_execution_time`` in seconds, ``average_memory_usage`` and ``peak_memory_usage`` in 2^20
            bytes (of tensors on CUDA, of the process elsewhere), ``average_cpu_percent``, ``operators``, how many calls
            were recorded, and ``device``. ``bottlenecks``: dicts of ``kind`` ("operator", "synchronization",
            "transfer" or "allocation"), ``name``, ``calls``, ``seconds``, ``share`` (of all operators' time) and
            ``hint``: the ten operators that take the most time, then all waits, all copies and all allocations, where
            there were any. ``samples``: those of the `ResourceMonitor`. All of it can be written as JSON.
        """
        self._ended("generate_report")
        samples = self.monitor.samples()
        metric = "allocated_mb" if self.device.type == "cuda" else "rss_mb"
        memory = [sample[metric] or 0.0 for sample in samples]
        return {
            "summary": {
                "total_execution_time": self._seconds,
                "average_memory_usage": math.fsum(memory) / len(memory),
                "peak_memory_usage": builtins.max(memory),
                "average_cpu_percent": math.fsum(sample["cpu_percent"] or 0.0 for sample in samples) / len(samples),
                "operators": builtins.sum(int(row["calls"]) for row in self._operators.values()),
                "device": str(self.device),
            },
            "bottlenecks": self._bottlenecks(),
            "samples": samples,
        }

    def _ended(self, op: str) -> OperatorRecording:
        """The last recording, which has ended."""
        self.stop_monitoring()
        if self._recording is None:
            raise RuntimeError(f"{op}: start_monitoring must be called first, got nothing recorded")
        return self._recording

    def _bottlenecks(self) -> list[dict[str, Any]]:
        seconds = {name: (row["cpu_ms"] + row["device_ms"]) / 1e3 for name, row in self._operators.items()}
        total = math.fsum(seconds.values())
        slowest = sorted((name for name in seconds if seconds[name] > 0), key=lambda name: -seconds[name])[:10]
        groups = [("operator", [name]) for name in slowest]
        # A device's copies bear names such as "Memcpy HtoD (Pinned -> Device)".
        groups += [(kind, [name for name in seconds if name.split(" (")[0] in _KINDS[kind]]) for kind in _KINDS]
        rows = []
        for kind, names in groups:
            if names:
                own = math.fsum(seconds[name] for name in names)
                calls = builtins.sum(int(self._operators[name]["calls"]) for name in names)
                row = {"kind": kind, "name": ", ".join(names), "calls": calls, "seconds": own}
                rows.append(row | {"share": own / total if total else 0.0, "hint": _HINTS[kind]})
        return rows

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Writes `generate_report` as JSON, whole or not at all."""
        write_json("save_report", path, self.generate_report())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what was recorded last for chrome://tracing or Perfetto, whole or not at all; RuntimeError if none."""
        target = checked_path("export_chrome_trace", path)
        self._ended("export_chrome_trace").save("export_chrome_trace", target)

    @takes(iterations=Int(1))
    def benchmark_operations(
        self, operations: Mapping[str, Callable[[], Any]], iterations: int = 100
    ) -> dict[str, OperationMetrics]:
        """Times functions without arguments by name, as `benchmark_device` on the profiler's device.

        TypeError unless it is a mapping of str to functions.
        """
        op = "benchmark_operations"
        if not isinstance(operations, Mapping):
            raise TypeError(f"{op}: operations must be a mapping, got {type(operations).__name__}")
        for name, function in operations.items():
            word(op, "a name", name)
            if not callable(function):
                raise TypeError(f"{op}: operation {name!r} must be callable, got {type(function).__name__}")
        with GPUContext(self.device):
            timings = {name: benchmark_device(function, iterations) for name, function in operations.items()}
        return {
            name: OperationMetrics(t["mean_time"], 1 / t["mean_time"], t["median"], t["iqr"], t["runs"])
            for name, t in timings.items()
        }
