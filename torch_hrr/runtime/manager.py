"""The memory of one device: storage that is used again, state that moves there, a limit, and what it is used for."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, TypedDict

import torch
from torch import Tensor

from torch_hrr._checks import check_dtype, integer, real
from torch_hrr._repr import Described
from torch_hrr._shared import Lock
from torch_hrr.runtime.adaptive import call_in_rows
from torch_hrr.runtime.device import leaves, moved, resolve_data_device, wait_for
from torch_hrr.runtime.memory import free_caches, limit_memory, total_memory
from torch_hrr.runtime.pool import Lender, Spare

_GIGABYTE = 2**30
# What reports alert of: the largest shares that are no waste.
_MOST_WASTE, _MOST_TRANSFER = 0.2, 0.1


class MemoryReport(TypedDict):
    """The result of `GPUMemoryManager.report`."""

    allocated_gb: float
    reserved_gb: float
    max_memory_gb: float
    memory_share: float
    waste: float
    transfer_share: float
    alerts: list[str]


class GPUMemoryManager(Described):
    """Memory of a device for vectors and state, within a share of it.

    On CUDA torch gives the process no more than the limit; a call of `run` that meets it goes on with fewer rows and
    at last on the CPU. Elsewhere the limit holds for the storage allocated here. Threads may share a manager.

    Args:
        device: As for `set_device`; None means the current one.
        memory_limit: The share of the device's memory to use, in (0, 1].

    Attributes:
        device: The device.
        memory_limit: The share.
        max_memory_gb: This share of the device's memory, in 2^30 bytes; infinity where its size is unknown.
        memory_pool: Storage that was given back: lists of tensors by (num_vectors, dimensionality, dtype).

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: memory_limit is outside (0, 1], torch does not know the device, or it is meta.
    """

    def __init__(self, device: torch.device | str | int | None = None, memory_limit: float = 0.8) -> None:
        """Finds the device's memory; on CUDA sets the limit of this process."""
        self.memory_limit = float(real("GPUMemoryManager", "memory_limit", memory_limit))
        if not 0 < self.memory_limit <= 1:
            raise ValueError(f"GPUMemoryManager: memory_limit must be in (0, 1], got {self.memory_limit}")
        self.device = resolve_data_device(device, op="GPUMemoryManager", falls_back=True)
        self._lender = Lender()
        known = self.device.type in ("cpu", "cuda")
        self._limit = int(total_memory(self.device) * self.memory_limit) if known else None
        self.max_memory_gb = float("inf") if self._limit is None else self._limit / _GIGABYTE
        if self._limit is not None:
            limit_memory(self.device, self._limit)
        # Bytes of storage that is in use, seconds of copies, and when the first measured call began.
        self._used = 0
        self._transferring, self._begun = 0.0, math.inf
        self._lock = Lock()

    def _summary(self) -> dict[str, Any]:
        own = {"device": self.device, "memory_limit": self.memory_limit, "max_memory_gb": self.max_memory_gb}
        return own | {"used_bytes": self._used}

    @property
    def memory_pool(self) -> Spare:
        """See the class."""
        return self._lender.spare

    def allocate_vector_storage(
        self, num_vectors: int, dimensionality: int, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Storage for vectors, ``[num_vectors, dimensionality]``, whose values are arbitrary.

        Storage that was given back by `release` is used again.

        Raises:
            TypeError: A size is not an int, or the dtype not floating.
            ValueError: A size is negative.
            MemoryError: It would exceed the limit, even after `free`.
            torch.OutOfMemoryError: The device has no memory left.
        """
        op = "allocate_vector_storage"
        rows = integer(op, "num_vectors", num_vectors, 0)
        width = integer(op, "dimensionality", dimensionality, 0)
        check_dtype(op, dtype)
        size = rows * width * dtype.itemsize
        with self._lock:
            key = (rows, width, dtype)
            limit = None if self._lender.has_spare(key) else self._limit
            if limit is not None and self._used + self._pooled() + size > limit:
                self._free()
            if limit is not None and self._used + size > limit:
                left = max(limit - self._used, 0) / _GIGABYTE
                wanted = f"{size / _GIGABYTE:.3g} GB of {left:.3g} GB left"
                raise MemoryError(f"{op}: storage must fit into the limit of {self.max_memory_gb:.3g} GB, got {wanted}")
            storage = self._lender.lend(key, lambda: torch.empty(rows, width, dtype=dtype, device=self.device))
            self._used += size
        return storage

    def release(self, storage: Tensor) -> None:
        """Gives storage back, for a later `allocate_vector_storage` of the same sizes; nothing else may use it.

        Raises:
            TypeError: Not a matrix on the manager's device.
            ValueError: Not what `allocate_vector_storage` gave, but a part of it, say; or it was given back before.
        """
        if not isinstance(storage, Tensor) or storage.dim() != 2 or storage.device != self.device:
            raise TypeError(f"release: storage must be a matrix on {self.device}, got {type(storage).__name__}")
        with self._lock:
            if not self._lender.take_back((storage.shape[0], storage.shape[1], storage.dtype), storage):
                got = "storage that was given back before, or was allocated elsewhere"
                raise ValueError(f"release: storage must be in use, got {got}")
            self._used -= storage.nbytes

    def free(self) -> None:
        """Gives the memory of `memory_pool` and torch's unused memory back to the system."""
        with self._lock:
            self._free()

    def _pooled(self) -> int:
        return sum(each.nbytes for spare in self.memory_pool.values() for each in spare)

    def _free(self) -> None:
        self.memory_pool.clear()
        free_caches(self.device)

    def transfer_state(self, state: Any) -> Any:
        """Tensors and NumPy arrays of a structure on the device; anything else in it stays as it is.

        Dicts, lists and tuples are rebuilt, nested ones too, as by `to_gpu`. Arrays keep their dtype.

        Raises:
            DeviceError: The device failed.
        """
        op = "transfer_state"
        wait_for(op, self.device)
        start = time.perf_counter()
        placed = moved(op, self.device, state)
        wait_for(op, self.device)
        is_copied = any(now is not before for now, before in zip(leaves(placed), leaves(state), strict=True))
        self._measure(start, time.perf_counter() - start if is_copied else 0.0)
        return placed

    transfer_consciousness_state = transfer_state

    def run(self, fn: Callable[..., Any], *batches: Any) -> Any:
        """``fn(*batches)`` within the memory limit: `adaptive_call` on the manager's device."""
        copies: list[float] = []
        start = time.perf_counter()
        result = call_in_rows("run", fn, batches, self.device, copies.append)
        wait_for("run", self.device)
        self._measure(start, sum(copies))
        return result

    def _measure(self, start: float, copying: float) -> None:
        """Counts a call and its seconds of copies."""
        with self._lock:
            self._begun = min(self._begun, start)
            self._transferring += copying

    def report(self) -> MemoryReport:
        """What the memory is used for, and what is wrong with it.

        Returns:
            ``allocated_gb`` and ``reserved_gb``, what tensors take and what torch holds for them (on devices other than
            CUDA: the storage in use, and that with the pool), in 2^30 bytes; ``max_memory_gb``; ``memory_share``,
            reserved / max; ``waste``, the share of the reserved memory that no tensor takes; ``transfer_share``, the
            seconds of copies, in `transfer_state` and within `run`, over all seconds since the first of these calls
            began, whatever ran meanwhile, at most 1; ``alerts``, a sentence each for a memory share above 1, waste
            above 0.2 and a transfer share above 0.1.
        """
        with self._lock:
            allocated, reserved = self._used, self._used + self._pooled()
            transferring, begun = self._transferring, self._begun
        if self.device.type == "cuda":
            allocated = torch.cuda.memory_allocated(self.device)
            reserved = torch.cuda.memory_reserved(self.device)
        share = 0.0 if self._limit is None else reserved / max(self._limit, 1)
        waste = 1 - allocated / reserved if reserved else 0.0
        # Threads that copy at the same time count more seconds than pass.
        transfers = min(transferring / (time.perf_counter() - begun), 1.0) if transferring else 0.0
        alerts = []
        if share > 1:
            alerts.append(f"{share:.0%} of the memory limit is in use: free() gives back what nothing uses")
        if waste > _MOST_WASTE:
            alerts.append(f"{waste:.0%} of the reserved memory is unused: free() gives it back")
        if transfers > _MOST_TRANSFER:
            alerts.append(f"{transfers:.0%} of the time goes to transfers: keep state on the device between calls")
        return {
            "allocated_gb": allocated / _GIGABYTE,
            "reserved_gb": reserved / _GIGABYTE,
            "max_memory_gb": self.max_memory_gb,
            "memory_share": share,
            "waste": waste,
            "transfer_share": transfers,
            "alerts": alerts,
        }
