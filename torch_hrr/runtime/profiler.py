"""Where the time of a program goes: operators, waits, copies and allocations, with a trace and hints."""

from __future__ import annotations

import os
import pathlib
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from torch_hrr._checks import checked_path, choice, integer, positive, word
from torch_hrr._repr import Described
from torch_hrr.io.files import write_atomically, write_json
from torch_hrr.runtime.benchmark import benchmark_device
from torch_hrr.runtime.device import GPUContext, resolve_device_or_cpu, wait_for
from torch_hrr.runtime.monitor import ResourceMonitor

_TOP = 10
_WAITS = ("aten::_local_scalar_dense", "cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
_COPIES = ("aten::copy_", "Memcpy HtoD", "Memcpy DtoH", "Memcpy PtoP")
_ALLOCATIONS = ("aten::empty", "aten::empty_strided", "aten::resize_", "cudaMalloc")
_HINTS = {
    "operator": "try a fused operator of torch_hrr in its place, or larger batches in place of many calls",
    "own operator": "give it larger batches in place of many calls, or use more threads",
    "synchronization": "the program waits for the device: keep numbers as tensors, without .item() and float()",
    "transfer": "data is copied: keep it on one device and in one dtype between calls; pipeline() overlaps the rest",
    "allocation": "memory is asked for anew: use TensorPool or out= arguments",
}


class OperatorRecording:
    """What torch.profiler records of a device's operators, from now until `stop`; there can be one at a time.

    Attributes:
        thread: The number of the thread that started it, in which alone torch can stop it.
    """

    _running: ClassVar[weakref.ref[OperatorRecording] | None] = None

    def __init__(self, op: str, device: torch.device, memory: bool = False) -> None:
        """Starts it.

        Args:
            op: The user's call, for errors to name.
            device: Whose work is recorded beside the CPU's.
            memory: Whether allocations are recorded too.

        Raises:
            RuntimeError: Another recording of torch.profiler is under way, which torch would end without a word.
        """
        running = OperatorRecording._running
        # The first is told of every thread, the second of contexts such as torch.autograd.profiler's in this one.
        is_recording = torch.autograd.profiler._is_profiler_enabled or torch._C._autograd._profiler_enabled()
        if is_recording or (running is not None and running() is not None):
            raise RuntimeError(f"{op}: torch.profiler must not be recording, got a recording that is under way")
        self.thread = threading.get_ident()
        self._trace: bytes | None = None
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        # A recording is one cycle, so that nothing accumulates. Without it torch 2.11 warns.
        self._profile = torch.profiler.profile(activities=activities, profile_memory=memory, acc_events=True)
        self._profile.start()
        OperatorRecording._running = weakref.ref(self)

    def __del__(self) -> None:
        """Ends one that nobody can stop any more, or torch would go on."""
        running = OperatorRecording._running
        mine = running is not None and running() in (None, self)
        if mine and getattr(self, "thread", None) == threading.get_ident():
            self._profile.stop()

    def stop(self) -> dict[str, dict[str, float]]:
        """``{operator: {"calls", "cpu_ms", "device_ms"}}``, times without those of operators called inside."""
        self._profile.stop()
        OperatorRecording._running = None
        return {
            event.key: {
                "calls": event.count,
                "cpu_ms": event.self_cpu_time_total / 1e3,
                "device_ms": event.self_device_time_total / 1e3,
            }
            for event in self._profile.key_averages()
        }

    def save(self, op: str, path: str) -> None:
        """Writes the recording, once stopped, for chrome://tracing or Perfetto, whole or not at all."""
        if self._trace is None:
            # torch gives it once.
            with tempfile.TemporaryDirectory() as folder:
                trace = os.path.join(folder, "trace.json")
                self._profile.export_chrome_trace(trace)
                self._trace = pathlib.Path(trace).read_bytes()
        write_atomically(os.path.abspath(path), [self._trace], op)


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


class PerformanceProfiler(Described):
    """Records what a program does between `start_monitoring` and `stop_monitoring`, and reports where its time goes.

    Operators are recorded by torch.profiler, which slows small operators down and can run once at a time in a process;
    memory and load are sampled by a `ResourceMonitor`.

    Args:
        backend: "torch".
        device: As for `set_device`; None means the current one.

    Attributes:
        backend: "torch".
        device: The device.
        monitor: The `ResourceMonitor`, which takes alerts.

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: Another backend, or a device that torch does not know.
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

    def start_monitoring(self, interval: float = 0.1) -> None:
        """Starts recording, without what was recorded before.

        Args:
            interval: Seconds between samples of memory and load, above 0.

        Raises:
            TypeError: interval is not a number.
            ValueError: interval is not above 0, or not finite.
            RuntimeError: It is recording, another recording of torch.profiler is under way, or `monitor` is running.
        """
        if self._started is not None:
            raise RuntimeError("start_monitoring: monitoring must be stopped first, got a profiler that is recording")
        if self.monitor.is_running:
            raise RuntimeError("start_monitoring: monitor must be stopped first, got one that is running")
        self.monitor.interval = positive("start_monitoring", "interval", interval)
        recording = OperatorRecording("start_monitoring", self.device, memory=True)
        try:
            self.monitor.start()
        except BaseException:
            recording.stop()
            raise
        self._recording, self._started = recording, time.perf_counter()

    def stop_monitoring(self) -> None:
        """Ends recording; without effect if there is none. On a GPU it waits for the work under way.

        Raises:
            RuntimeError: Another thread started it, in which torch.profiler must be stopped. It goes on.
            DeviceError: Work on the device failed; what was recorded until then is kept.
        """
        if self._started is None or self._recording is None:
            return
        if self._recording.thread != threading.get_ident():
            raise RuntimeError("stop_monitoring: recording must be stopped in the thread that started it, got another")
        try:
            wait_for("stop_monitoring", self.device)
        finally:
            self._seconds, self._started = time.perf_counter() - self._started, None
            self.monitor.stop()
            self._operators = self._recording.stop()

    def generate_report(self) -> dict[str, Any]:
        """What was recorded last; ends a recording that is under way.

        Returns:
            ``summary``: ``total_execution_time`` in seconds, ``average_memory_usage`` and ``peak_memory_usage`` in 2^20
            bytes (of tensors on CUDA, of the process elsewhere), ``average_cpu_percent``, ``operators``, how many calls
            were recorded, and ``device``. ``bottlenecks``: dicts of ``kind`` ("operator", "synchronization",
            "transfer" or "allocation"), ``name``, ``calls``, ``seconds``, ``share`` (of all operators' time) and
            ``hint``: the ten operators that take the most time, then all waits, all copies and all allocations, where
            there were any. ``samples``: those of the `ResourceMonitor`. All of it can be written as JSON.

        Raises:
            RuntimeError: Nothing was recorded.
        """
        self.stop_monitoring()
        if self._recording is None:
            raise RuntimeError("generate_report: start_monitoring must be called first, got nothing recorded")
        samples = self.monitor.samples()
        metric = "allocated_mb" if self.device.type == "cuda" else "rss_mb"
        memory = [sample[metric] or 0.0 for sample in samples]
        load = [sample["cpu_percent"] or 0.0 for sample in samples]
        return {
            "summary": {
                "total_execution_time": self._seconds,
                "average_memory_usage": sum(memory) / len(memory),
                "peak_memory_usage": max(memory),
                "average_cpu_percent": sum(load) / len(load),
                "operators": sum(int(row["calls"]) for row in self._operators.values()),
                "device": str(self.device),
            },
            "bottlenecks": self._bottlenecks(),
            "samples": samples,
        }

    def _bottlenecks(self) -> list[dict[str, Any]]:
        seconds = {name: _seconds(row) for name, row in self._operators.items()}
        total = sum(seconds.values())

        def row(kind: str, name: str, names: list[str]) -> dict[str, Any]:
            own = sum(seconds[each] for each in names)
            calls = sum(int(self._operators[each]["calls"]) for each in names)
            share = own / total if total else 0.0
            hint = _HINTS["own operator" if name.startswith("torch_hrr::") else kind]
            return {"kind": kind, "name": name, "calls": calls, "seconds": own, "share": share, "hint": hint}

        top = sorted((name for name in seconds if seconds[name] > 0), key=lambda name: -seconds[name])[:_TOP]
        rows = [row("operator", name, [name]) for name in top]
        for kind, known in (("synchronization", _WAITS), ("transfer", _COPIES), ("allocation", _ALLOCATIONS)):
            # A device's copies bear names such as "Memcpy HtoD (Pinned -> Device)".
            found = [name for name in seconds if name.split(" (")[0] in known]
            if found:
                rows.append(row(kind, ", ".join(found), found))
        return rows

    def save_report(self, path: str | os.PathLike[str]) -> None:
        """Writes `generate_report` as JSON, whole or not at all."""
        write_json("save_report", path, self.generate_report())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes what was recorded last for chrome://tracing or Perfetto, whole or not at all.

        Raises:
            RuntimeError: Nothing was recorded.
        """
        target = checked_path("export_chrome_trace", path)
        self.stop_monitoring()
        if self._recording is None:
            raise RuntimeError("export_chrome_trace: start_monitoring must be called first, got nothing recorded")
        self._recording.save("export_chrome_trace", target)

    def benchmark_operations(
        self, operations: Mapping[str, Callable[[], Any]], iterations: int = 100
    ) -> dict[str, OperationMetrics]:
        """Times functions without arguments on the profiler's device, each call until the device has finished it.

        Args:
            operations: The functions by name; each is called once before, to warm up.
            iterations: How many calls of each are timed, at least 1.

        Returns:
            The metrics of each name.

        Raises:
            TypeError: Not a mapping of str to functions, or iterations not an int.
            ValueError: iterations is less than 1.
        """
        op = "benchmark_operations"
        if not isinstance(operations, Mapping):
            raise TypeError(f"{op}: operations must be a mapping, got {type(operations).__name__}")
        runs = integer(op, "iterations", iterations, 1)
        for name, function in operations.items():
            word(op, "a name", name)
            if not callable(function):
                raise TypeError(f"{op}: operation {name!r} must be callable, got {type(function).__name__}")
        with GPUContext(self.device):
            timings = {name: benchmark_device(function, runs) for name, function in operations.items()}
        return {
            name: OperationMetrics(
                execution_time=timing["mean_time"],
                throughput=1 / timing["mean_time"],
                median=timing["median"],
                iqr=timing["iqr"],
                runs=timing["runs"],
            )
            for name, timing in timings.items()
        }


def _seconds(row: dict[str, float]) -> float:
    return (row["cpu_ms"] + row["device_ms"]) / 1e3
