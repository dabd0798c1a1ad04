"""What all systems share: the current device and transfers to and from it."""

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

__all__ = [
    "DeviceError",
    "DeviceInfo",
    "GPUContext",
    "get_device",
    "get_device_info",
    "resolve_device",
    "set_device",
    "synchronize",
    "to_cpu",
    "to_gpu",
]
