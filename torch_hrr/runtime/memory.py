"""The memory of a device: how much it has, how much is free now, and a limit for this process."""

import gc
import pathlib

import torch

from torch_hrr.runtime.device import cpu_memory, first_line, missing, named_device, resolve_device, unusable

_MEMINFO = pathlib.Path("/proc/meminfo")
# Of the control group that a container runs in.
_CGROUP = pathlib.Path("/sys/fs/cgroup")


def available_memory(device: torch.device | str | int = "cpu") -> int:
    """Bytes that new tensors can take on a device now.

    On CUDA, this is the memory that the driver reports as free plus what torch's allocator holds unused. On the CPU, it
    is what the system can give without swapping, but no more than the control group of a container allows.

    Raises:
        TypeError, ValueError: The device is none that torch knows.
        RuntimeError: The system does not report it, or the device is neither the CPU nor a CUDA one that works.
    """
    op = "available_memory"
    device = resolve_device(device, op=op) if isinstance(device, str) and device == "auto" else named_device(op, device)
    if device.type == "cuda":
        try:
            free, _ = torch.cuda.mem_get_info(device)
            return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
        except (RuntimeError, AssertionError, ValueError) as error:
            problem = missing(device) or f"it does not report its memory ({first_line(error)})"
            raise unusable(op, str(device), problem) from error
    if device.type != "cpu":
        raise RuntimeError(f"available_memory: device must be cpu or cuda, got {device}")
    available = _system_memory()
    within = _container_memory()
    return available if within is None else min(available, within)


def check_free(op: str, arguments: str, got: str, needed: int) -> None:
    """RuntimeError unless the bytes that these arguments take are free on the CPU, if the system says how many are."""
    try:
        free = available_memory("cpu")
    except RuntimeError:
        return
    if needed > free:
        raise RuntimeError(
            f"{op}: {arguments} must take at most the {free / 2**30:,.1f} GiB that are free, got {got}, which take "
            f"{needed / 2**30:,.1f} GiB"
        )


def _system_memory() -> int:
    try:
        lines = _MEMINFO.read_text().splitlines()
        (kibibytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kibibytes) * 1024
    except (OSError, ValueError):
        pass
    try:
        import psutil
    except ImportError:
        raise RuntimeError("available_memory: without /proc/meminfo, psutil must be installed") from None
    return int(psutil.virtual_memory().available)


def _container_memory() -> int | None:
    """What the control group allows beyond what it uses; None where there is no limit. Cached files count as free."""
    try:
        limit = int((_CGROUP / "memory.max").read_text())
        used = int((_CGROUP / "memory.current").read_text())
        counters = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines())
        return max(limit - used + int(counters["inactive_file"]) + int(counters["active_file"]), 0)
    except (OSError, ValueError, KeyError):
        return None


def total_memory(device: torch.device) -> int:
    """Bytes of a device's memory; on the CPU no more than the control group of a container allows.

    Raises:
        RuntimeError: The system does not report it, or the device is neither the CPU nor CUDA.
    """
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type != "cpu":
        raise RuntimeError(f"total_memory: device must be cpu or cuda, got {device}")
    total = cpu_memory()
    if total is None:
        raise RuntimeError("total_memory: the system must report its memory")
    try:
        return min(total, int((_CGROUP / "memory.max").read_text()))
    except (OSError, ValueError):
        return total


def limit_memory(device: torch.device, limit: int) -> None:
    """Makes torch give this process no more bytes of a CUDA device's memory than these; other devices have no limit."""
    if device.type == "cuda":
        # By index: torch.cuda wants one here.
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.set_per_process_memory_fraction(min(limit / total_memory(device), 1.0), index)


def free_caches(device: torch.device) -> None:
    """Gives back the memory of a device that nothing uses."""
    gc.collect()
    empty = getattr(getattr(torch, device.type, None), "empty_cache", None)
    if empty is not None:
        empty()
