"""What all systems share: the current device, its memory, transfers, profiling, timing, and NumPy's names on it."""

from typing import TYPE_CHECKING

from torch_hrr._moved import names_of
from torch_hrr.runtime.device import (
    DeviceError,
    DeviceInfo,
    get_device,
    get_device_info,
    resolve_device,
    set_device,
    synchronize,
)
from torch_hrr.runtime.memory import available_memory
from torch_hrr.runtime.pool import TensorPool

if TYPE_CHECKING:
    from torch_hrr.compat.runtime import (
        GPUContext,
        GPUMemoryAnalysis,
        GPUMemoryManager,
        GPUPerformanceBenchmark,
        OperationMetrics,
        OptimizedTransfers,
        PerformanceProfiler,
        dot,
        exp,
        get_array_module,
        matmul,
        mean,
        norm,
        ones,
        outer,
        randn,
        relu,
        sigmoid,
        std,
        sum,
        tanh,
        to_cpu,
        to_gpu,
        uniform,
        zeros,
    )
    from torch_hrr.runtime.adaptive import adaptive_call
    from torch_hrr.runtime.benchmark import benchmark_device
    from torch_hrr.runtime.calibration import calibrate, clear_calibration
    from torch_hrr.runtime.monitor import ResourceMonitor
    from torch_hrr.runtime.prometheus import prometheus_collector
    from torch_hrr.runtime.transfers import pipeline
else:
    __getattr__, __dir__ = names_of(
        __name__,
        # Most programs use none of these, and files, which some of them write, use the devices above.
        adaptive="adaptive_call",
        benchmark="benchmark_device",
        calibration="calibrate clear_calibration",
        monitor="ResourceMonitor",
        prometheus="prometheus_collector",
        transfers="pipeline",
    )

__all__ = [
    "DeviceError",
    "DeviceInfo",
    "GPUContext",
    "GPUMemoryAnalysis",
    "GPUMemoryManager",
    "GPUPerformanceBenchmark",
    "OperationMetrics",
    "OptimizedTransfers",
    "PerformanceProfiler",
    "ResourceMonitor",
    "TensorPool",
    "adaptive_call",
    "available_memory",
    "benchmark_device",
    "calibrate",
    "clear_calibration",
    "dot",
    "exp",
    "get_array_module",
    "get_device",
    "get_device_info",
    "matmul",
    "mean",
    "norm",
    "ones",
    "outer",
    "pipeline",
    "prometheus_collector",
    "randn",
    "relu",
    "resolve_device",
    "set_device",
    "sigmoid",
    "std",
    "sum",
    "synchronize",
    "tanh",
    "to_cpu",
    "to_gpu",
    "uniform",
    "zeros",
]
