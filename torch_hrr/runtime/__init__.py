"""What all systems share: the current device, its memory, transfers, profiling, timing, and NumPy's names on it."""

from torch_hrr.runtime.adaptive import adaptive_call
from torch_hrr.runtime.analysis import GPUMemoryAnalysis, GPUPerformanceBenchmark
from torch_hrr.runtime.arrays import (
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
    uniform,
    zeros,
)
from torch_hrr.runtime.benchmark import benchmark_device
from torch_hrr.runtime.calibration import calibrate, clear_calibration
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
from torch_hrr.runtime.manager import GPUMemoryManager
from torch_hrr.runtime.memory import available_memory
from torch_hrr.runtime.monitor import ResourceMonitor
from torch_hrr.runtime.pool import TensorPool
from torch_hrr.runtime.profiler import OperationMetrics, PerformanceProfiler
from torch_hrr.runtime.transfers import OptimizedTransfers, pipeline

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
