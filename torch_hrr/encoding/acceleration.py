"""Devices, precision, compilation and memory of the encodings: the settings, and the class that applies them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from torch_hrr import runtime
from torch_hrr._checks import check_strided, checked_path
from torch_hrr._repr import Described
from torch_hrr._spec import Bool, Choice, Device, Instance, Int, takes
from torch_hrr.runtime.memory import limit_memory
from torch_hrr.runtime.profiler import OperatorRecording

POLICIES = {"mixed_float16": torch.float16, "mixed_bfloat16": torch.bfloat16, "float32": None}
_MEGABYTE = 2**20
_Function = TypeVar("_Function", bound=Callable[..., Any])


@takes(
    enable_gpu=Bool(),
    enable_mixed_precision=Bool(),
    mixed_precision_policy=Choice(POLICIES),
    memory_limit=Int(1).or_none(),
    memory_growth=Bool(),
    enable_xla=Bool(),
    vectorize=Bool(),
    min_batch_for_gpu=Int(1),
    enable_profiling=Bool(),
)
@dataclass(frozen=True, repr=False)
class GPUConfig(Described):
    """What a `GPUAccelerator` or an embedder may use.

    Attributes:
        enable_gpu: Whether to use the current device (`runtime.get_device`) if it is an accelerator; else the CPU.
        enable_mixed_precision: Whether results and `autocast` blocks are in the dtype of the policy, while parameters
            stay in float32.
        mixed_precision_policy: "mixed_float16" (with loss scaling), "mixed_bfloat16" or "float32", which is none.
        memory_limit: In units of 2^20 bytes; None means the free memory. On CUDA torch gives this process no more than
            that; on the CPU it only limits the advice on batch sizes.
        memory_growth: False reserves the memory limit on the GPU at once, so that later allocations cannot fail because
            other programs took the memory.
        enable_xla: Whether `GPUAccelerator.compile` compiles, here with torch.compile.
        vectorize: Whether to use the fused operators; False uses their definitions in plain torch.
        min_batch_for_gpu: Batches (first dimension) below this stay where they are; others move to the GPU.
        enable_profiling: Whether benchmarks report the time of each operator.
    """

    enable_gpu: bool = True
    enable_mixed_precision: bool = False
    mixed_precision_policy: str = "mixed_float16"
    memory_limit: int | None = None
    memory_growth: bool = True
    enable_xla: bool = False
    vectorize: bool = True
    min_batch_for_gpu: int = 1
    enable_profiling: bool = False

    def __post_init__(self) -> None:
        """What fields ask of one another; ValueError."""
        if self.memory_limit is None and not self.memory_growth:
            raise ValueError("GPUConfig: memory_growth must be True without a memory_limit, got False")

    @property
    def compute_dtype(self) -> torch.dtype | None:
        """The half type of the policy; None without mixed precision."""
        return POLICIES[self.mixed_precision_policy] if self.enable_mixed_precision else None


class Accelerator(Described):
    """The device, the precision and the memory of a `GPUConfig`, and what is recorded of their use.

    Attributes:
        config: The configuration.
        device: Where work goes: a GPU that works and that the library has kernels for, else the CPU.
        scaler: Scales the loss of float16 training; passes everything through under other policies.
    """

    @takes(config=Instance(GPUConfig).or_none(), device=Device())
    def __init__(self, config: GPUConfig | None = None, device: torch.device | str | int | None = None) -> None:
        """Chooses the device; on CUDA sets the memory limit of this process.

        Args:
            config: None means `GPUConfig()`.
            device: Where to work, as for `runtime.resolve_device`; None means the current device,
                `runtime.get_device()`, if that is a GPU that the library has kernels for and the configuration allows
                it, else the CPU.
        """
        self.config = GPUConfig() if config is None else config
        self._work_on(choose_device(self.config.enable_gpu, device, type(self).__name__))
        self._profile: OperatorRecording | None = None
        if self.on_gpu and self.config.memory_limit is not None:
            self._limit_memory(self.config.memory_limit * _MEGABYTE)

    def _summary(self) -> dict[str, Any]:
        return {"device": self.device, **self.config._summary()}

    def move(self, device: torch.device | str | int) -> None:
        """Makes another device, as for `runtime.resolve_device`, the one to work on; the loss scale starts anew."""
        self._work_on(runtime.resolve_device(device, op="move"))

    def _work_on(self, device: torch.device) -> None:
        """`move` to a device that is known to work."""
        self.device = device
        scales = self.config.compute_dtype == torch.float16
        self.scaler = torch.amp.GradScaler("cuda" if self.on_gpu else "cpu", enabled=scales)

    @property
    def on_gpu(self) -> bool:
        """Whether work goes to a GPU."""
        return self.device.type == "cuda"

    @property
    def profiling(self) -> bool:
        """Whether operators are recorded now."""
        return self._profile is not None

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Computes matrix products of a block in the dtype of the policy; angles are computed as always."""
        dtype = self.config.compute_dtype
        return torch.autocast(self.device.type, dtype=dtype) if dtype is not None else contextlib.nullcontext()

    def train_step(self, loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
        """Backward pass and step: scales the loss, unscales gradients, and skips steps with infinite ones.

        Raises:
            TypeError: ``loss`` is not a tensor, or ``optimizer`` not an optimizer of torch's.
            ValueError: ``loss`` is not one number that requires a gradient.

        Source: Micikevicius et al., Mixed precision training, ICLR 2018; `torch.amp.GradScaler` does it.
        """
        op = "train_step"
        check_strided(op, "loss", loss)
        if loss.numel() != 1 or not loss.requires_grad:
            got = f"shape {list(loss.shape)}, requires_grad={loss.requires_grad}"
            raise ValueError(f"{op}: loss must be one number that requires a gradient, got {got}")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"{op}: optimizer must be a torch.optim.Optimizer, got {type(optimizer).__name__}")
        self.scaler.scale(loss).backward()
        self.scaler.step(optimizer)
        self.scaler.update()

    def available_memory(self) -> int:
        """Bytes that tensors can still take: the memory actually free, within the memory limit."""
        free = runtime.available_memory(self.device)
        if self.config.memory_limit is None:
            return free
        limit = self.config.memory_limit * _MEGABYTE
        used = torch.cuda.memory_allocated(self.device) if self.on_gpu else 0
        return min(free, max(limit - used, 0))

    @takes(item_bytes=Int(1), fixed_bytes=Int(0), available_bytes=Int(0).or_none())
    def optimal_batch_size(self, item_bytes: int, fixed_bytes: int = 0, available_bytes: int | None = None) -> int:
        """How many items of a batch fit into nine tenths of the memory, after what is needed only once; maybe 0.

        Args:
            item_bytes: Bytes of one item and of everything needed to compute it, at least 1.
            fixed_bytes: Bytes needed once.
            available_bytes: Memory to count on; None means `available_memory`.
        """
        available = self.available_memory() if available_bytes is None else available_bytes
        return max((available * 9 // 10 - fixed_bytes) // item_bytes, 0)

    def start_profiling(self) -> None:
        """Records every operator from now on, with torch.profiler; if it is already recording, starts again.

        Raises:
            RuntimeError: Another recording of torch.profiler is under way.
        """
        self.stop_profiling()
        self._profile = OperatorRecording("start_profiling", self.device)

    def stop_profiling(self, trace: str | os.PathLike[str] | None = None) -> dict[str, dict[str, float]]:
        """Stops recording.

        Args:
            trace: Where to write the recording for chrome://tracing or Perfetto; None writes none.

        Returns:
            ``{operator: {"calls", "cpu_ms", "device_ms"}}``, times without those of operators called inside; empty if
            nothing was recorded.
        """
        return self._profiled("stop_profiling", trace)

    def _profiled(self, op: str, trace: str | os.PathLike[str] | None) -> dict[str, dict[str, float]]:
        """`stop_profiling` under the name of the user's call."""
        path = None if trace is None else checked_path(op, trace, "trace")
        if self._profile is None:
            return {}
        profile, self._profile = self._profile, None
        operators = profile.stop()
        if path is not None:
            profile.save(op, path)
        return operators

    def _limit_memory(self, limit: int) -> None:
        limit_memory(self.device, limit)
        if not self.config.memory_growth:
            # Freed at once, to torch's allocator, which keeps it for this process; it rounds up to 2 MiB.
            rest = max(limit - torch.cuda.memory_reserved(self.device), 0) // (2 * _MEGABYTE) * 2 * _MEGABYTE
            torch.empty(rest, dtype=torch.uint8, device=self.device)

    def info(self) -> dict[str, Any]:
        """What is in use now: device, kernels, precision and memory."""
        dtype = self.config.compute_dtype
        return {
            "gpu_acceleration_enabled": self.on_gpu,
            "device": str(self.device),
            "device_name": runtime.get_device_info()["device_name"] if self.on_gpu else "CPU",
            "vectorized": self.config.vectorize,
            "compiled": self.config.enable_xla,
            "mixed_precision": dtype is not None,
            "mixed_precision_policy": self.config.mixed_precision_policy if dtype is not None else "float32",
            "loss_scaling": self.scaler.is_enabled(),
            "memory_limit_mb": self.config.memory_limit,
            "available_memory_mb": self.available_memory() / _MEGABYTE,
        }


def choose_device(enable_gpu: bool, device: torch.device | str | int | None, op: str) -> torch.device:
    """The device given, else the current one if an accelerator and allowed, or the CPU."""
    if device is not None:
        return runtime.resolve_device(device, op=op)
    current = runtime.resolve_device(None)
    return current if enable_gpu and current.type != "meta" else torch.device("cpu")


def ladder(dim: int, base: float, scale: float, dtype: torch.dtype) -> Tensor:
    """The frequencies of `sinusoidal_encoding`, ``[ceil(dim / 2)]``, rounded once from float64."""
    pairs = torch.arange((dim + 1) // 2, dtype=torch.float64, device="cpu")
    return (scale * torch.pow(base, -2 * pairs / max(dim, 1))).to(dtype)
