"""How much memory is free on a device at this moment."""

import pathlib

import torch

from torch_hrr.runtime.device import named_device

_MEMINFO = pathlib.Path("/proc/meminfo")
# Of the control group that a container runs in.
_CGROUP = pathlib.Path("/sys/fs/cgroup")


def available_memory(device: torch.device | str | int = "cpu") -> int:
    """Bytes that new tensors can take on a device now.

    On CUDA, this is the memory that the driver reports as free plus what torch's allocator holds unused. On the CPU, it
    is what the system can give without swapping, but no more than the control group of a container allows.

    Raises:
        RuntimeError: The system does not report it, or the device is neither the CPU nor CUDA.
    """
    device = named_device("available_memory", device)
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    if device.type != "cpu":
        raise RuntimeError(f"available_memory: device must be cpu or cuda, got {device}")
    available = _system_memory()
    within = _container_memory()
    return available if within is None else min(available, within)


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
