"""Measurements of a GPU: the memory that vectors take, and what it gains over the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_elements, integer, listed
from torch_hrr._ops import ops
from torch_hrr._repr import Described
from torch_hrr.runtime.benchmark import benchmark_device
from torch_hrr.runtime.device import GPUContext, resolve_data_device
from torch_hrr.runtime.memory import free_caches

_GIGABYTE = 2**30
_STEP = 1000
# Larger than the caches of GPUs, for the bandwidth of memory.
_COPIED = 2**26


class GPUMemoryAnalysis(Described):
    """How much memory vectors take on a device.

    Args:
        device: As for `set_device`; None means the current one.
        dimensionality: The vectors' dimension, at least 1.

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: dimensionality is less than 1, torch does not know the device, or it is meta.
    """

    def __init__(self, device: torch.device | str | int | None = None, dimensionality: int = 512) -> None:
        """Allocates nothing yet."""
        self.device = resolve_data_device(device, op="GPUMemoryAnalysis", falls_back=True)
        self.dimensionality = integer("GPUMemoryAnalysis", "dimensionality", dimensionality, 1)

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device, "dimensionality": self.dimensionality}

    def analyze_memory_usage(self, max_vectors: int = 10000) -> list[dict[str, float]]:
        """Allocates 1000, 2000, ... float32 vectors, up to ``max_vectors``, one number after the other.

        Returns:
            A dict for each number: ``n_vectors``; ``allocated_gb``, what these vectors take, and ``reserved_gb``, what
            torch holds for them, in 2^30 bytes; ``efficiency``, allocated / reserved. The CPU's allocator holds
            nothing in reserve.

        Raises:
            TypeError: max_vectors is not an int.
            ValueError: max_vectors is less than 1000, or beyond what torch can count.
            torch.OutOfMemoryError: They do not fit.
        """
        op = "analyze_memory_usage"
        most = integer(op, "max_vectors", max_vectors, _STEP)
        check_elements(op, "the vectors", (most, self.dimensionality))
        rows = []
        for count in range(_STEP, most + 1, _STEP):
            free_caches(self.device)
            before = self._held()
            vectors = torch.empty(count, self.dimensionality, device=self.device, dtype=torch.float32)
            after = self._held()
            allocated = (after[0] - before[0] if self.device.type == "cuda" else vectors.nbytes) / _GIGABYTE
            # Blocks that were held before may serve the vectors, as far as nothing else used them.
            reserved = max((after[1] - before[0]) / _GIGABYTE, allocated)
            rows.append(
                {
                    "n_vectors": count,
                    "allocated_gb": allocated,
                    "reserved_gb": reserved,
                    "efficiency": allocated / reserved,
                }
            )
            del vectors
        free_caches(self.device)
        return rows

    def _held(self) -> tuple[int, int]:
        """Bytes that tensors take and that torch holds on the GPU."""
        if self.device.type != "cuda":
            return 0, 0
        return torch.cuda.memory_allocated(self.device), torch.cuda.memory_reserved(self.device)


class GPUPerformanceBenchmark(Described):
    """How long binding takes on the CPU and on a GPU.

    Args:
        device: As for `set_device`; None means the current one.

    Raises:
        TypeError: The device is neither a name, a device nor an index.
        ValueError: torch does not know the device, or it is meta.
    """

    def __init__(self, device: torch.device | str | int | None = None) -> None:
        """Measures nothing yet."""
        self.device = resolve_data_device(device, op="GPUPerformanceBenchmark", falls_back=True)

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device}

    def benchmark_gpu_vs_cpu(
        self, dimensionalities: Sequence[int], batch_sizes: Sequence[int]
    ) -> dict[str, dict[str, float | None]]:
        """Times `hrr.bind` of float32 vectors where they are, for all pairs of a dimension and a batch size.

        Returns:
            ``{"512D_batch100": {"cpu_time_ms", "gpu_time_ms", "speedup", "efficiency"}}``: medians of several calls;
            ``speedup`` is cpu / gpu; ``efficiency`` is the time in which the GPU copies as many bytes as binding reads
            and writes, 12 D a row, over its time. All but ``cpu_time_ms`` are None without a GPU.

        Raises:
            TypeError: Not sequences of ints.
            ValueError: A number is less than 1, or both are beyond what torch can count.
            torch.OutOfMemoryError: The vectors do not fit.
        """
        op = "benchmark_gpu_vs_cpu"
        wanted = listed(op, "dimensionalities", dimensionalities, "a sequence of ints")
        dims = [integer(op, "a dimension", each, 1) for each in wanted]
        wanted = listed(op, "batch_sizes", batch_sizes, "a sequence of ints")
        sizes = [integer(op, "a batch size", each, 1) for each in wanted]
        check_elements(op, "the vectors", (2, max(sizes, default=0), max(dims, default=0)))
        has_gpu = self.device.type != "cpu"
        bandwidth = self._bytes_per_second() if has_gpu and dims and sizes else math.nan
        results: dict[str, dict[str, float | None]] = {}
        for dim in dims:
            for batch in sizes:
                vectors = torch.randn(2, batch, dim, device="cpu", generator=torch.Generator().manual_seed(0))
                cpu = self._seconds(vectors, torch.device("cpu"))
                row: dict[str, float | None] = dict.fromkeys(("cpu_time_ms", "gpu_time_ms", "speedup", "efficiency"))
                row["cpu_time_ms"] = 1e3 * cpu
                if has_gpu:
                    gpu = self._seconds(vectors, self.device)
                    least = 12 * dim * batch / bandwidth
                    row |= {"gpu_time_ms": 1e3 * gpu, "speedup": cpu / gpu, "efficiency": least / gpu}
                results[f"{dim}D_batch{batch}"] = row
        return results

    @staticmethod
    def _seconds(vectors: Tensor, device: torch.device) -> float:
        a, b = vectors.to(device)
        return _median(lambda: ops.bind(a, b), device)

    def _bytes_per_second(self) -> float:
        """What a copy within the GPU's memory reads and writes."""
        source = torch.empty(_COPIED, dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        return 2 * _COPIED / _median(lambda: target.copy_(source), self.device)


def _median(function: Callable[[], Any], device: torch.device) -> float:
    with GPUContext(device):
        return benchmark_device(function)["median"]
