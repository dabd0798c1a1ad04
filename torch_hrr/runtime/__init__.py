"""The parts that all systems share: the current device, transfers to and from it, and its free memory."""

from torch_hrr.runtime.device import (
    DeviceError,
    DeviceInfo,
    GPUContext,
    get_device,
    get_device_info,
    resolve_device,
    set_device,
    synchronize,
    to_cpu,
    to_gpu,
)
from torch_hrr.runtime.memory import available_memory
from torch_hrr.runtime.pool import TensorPool

__all__ = [
    "DeviceError",
    "DeviceInfo",
    "GPUContext",
    "TensorPool",
    "available_memory",
    "get_device",
    "get_device_info",
    "resolve_device",
    "set_device",
    "synchronize",
    "to_cpu",
    "to_gpu",
]
