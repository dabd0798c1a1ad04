"""What the machine does while a program runs: memory, load, temperature, power; with alerts."""

from __future__ import annotations

import os
import pathlib
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from typing import Any, Self

import torch

from torch_hrr._repr import Described
from torch_hrr._spec import Choice, Int, Real, takes
from torch_hrr.io.files import write_json
from torch_hrr.runtime.device import resolve_device

_MEBIBYTE = 2**20
_STATUS = pathlib.Path("/proc/self/statm")
# NVML's reasons for lower clocks that mean too much heat or power: SwPowerCap, HwSlowdown, SwThermal, HwThermal and
# HwPowerBrake.
_THROTTLED = 0x4 | 0x8 | 0x20 | 0x40 | 0x80

METRICS = (
    "seconds",
    "rss_mb",
    "cpu_percent",
    "allocated_mb",
    "reserved_mb",
    "gpu_memory_mb",
    "gpu_memory_share",
    "gpu_utilization",
    "temperature_c",
    "power_w",
    "throttled",
)
"""The names of what a sample holds."""


class ResourceMonitor(Described):
    """Samples what this process and a device do, in a thread of its own, until it is stopped.

    ``with ResourceMonitor(interval=0.1) as monitor: ...`` starts and stops it. A sample is a dict of:

    - ``seconds`` since the start;
    - ``rss_mb``, the process's memory, and ``cpu_percent``, its load since the sample before (100 is one core);
    - on CUDA ``allocated_mb`` and ``reserved_mb``, what tensors take and what torch holds for them;
    - on NVIDIA GPUs, if the extra ``torch_hrr[monitor]`` is installed, ``gpu_memory_mb`` and ``gpu_memory_share`` of
      all processes, ``gpu_utilization`` in percent, ``temperature_c``, ``power_w``, and ``throttled``, 1 where heat or
      power lowers the clocks.

    What cannot be known is None. Memory is in 2^20 bytes.

    Args:
        device: As for `resolve_device`; None means the current one.
        interval: Seconds between samples, above 0.
        most: How many samples are kept, the last ones.
    """

    @takes(interval=Real(0, open_left=True), most=Int(1))
    def __init__(
        self, device: torch.device | str | int | None = None, interval: float = 0.1, most: int = 10_000
    ) -> None:
        """Nothing is sampled yet."""
        self.device = resolve_device(device, op="ResourceMonitor")
        self.interval = interval
        self._samples: deque[dict[str, float | None]] = deque(maxlen=most)
        self._alerts: list[_Alert] = []
        self._lock = threading.Lock()
        self._thread: _Sampler | None = None
        self._gpu: _Gpu | None = None
        self._process = _Process()
        self._start = 0.0

    def _summary(self) -> dict[str, Any]:
        own = {"device": self.device, "interval": self.interval, "running": self._thread is not None}
        return own | {"samples": len(self._samples), "most": self._samples.maxlen, "alerts": len(self._alerts)}

    @takes(metric=Choice(METRICS), above=Real())
    def alert(self, metric: str, above: float, callback: Callable[[dict[str, Any]], Any]) -> None:
        """Calls a function with the sample when a metric rises above a threshold, once until it has fallen below again.

        It is called in the monitor's thread, the first and the last sample in that of `start` and `stop`; what it
        raises becomes a RuntimeWarning. It may stop the monitor. Every start begins below the threshold.
        """
        if not callable(callback):
            raise TypeError(f"alert: callback must be callable, got {type(callback).__name__}")
        with self._lock:
            self._alerts.append(_Alert(metric, above, callback))

    def start(self) -> Self:
        """Starts sampling, without the samples of an earlier run; the first sample is taken before this returns.

        Raises:
            RuntimeError: It is running.
        """
        sampler = _Sampler(self)
        with self._lock:
            if self._thread is not None:
                raise RuntimeError("start: monitor must be stopped, got one that is running")
            self._thread = sampler
            self._samples.clear()
            for alert in self._alerts:
                alert.arm()
        try:
            self._gpu = _Gpu.of(self.device)
            self._process = _Process()
            self._start = time.perf_counter()
            self._take()
            with self._lock:
                # An alert of the first sample may have stopped it.
                if self._thread is sampler:
                    sampler.start()
        except BaseException:
            self._thread = None
            raise
        return self

    def stop(self) -> list[dict[str, float | None]]:
        """Takes the last sample and ends; returns the samples, oldest first. Without effect if it is not running."""
        with self._lock:
            sampler, self._thread = self._thread, None
        if sampler is not None:
            sampler.end()
            if threading.current_thread() is not sampler:
                self._take()
        return self.samples()

    @property
    def is_running(self) -> bool:
        """Whether it samples now."""
        return self._thread is not None

    def samples(self) -> list[dict[str, float | None]]:
        """The samples until now, oldest first."""
        with self._lock:
            return [dict(sample) for sample in self._samples]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``{"device", "interval", "samples"}`` as JSON, whole or not at all."""
        content = {"device": str(self.device), "interval": self.interval, "samples": self.samples()}
        write_json("save", path, content)

    def _seen(self) -> tuple[dict[str, float | None] | None, dict[tuple[str, float], tuple[bool, int]]]:
        """The last sample if it runs; and of each threshold whether that is above it and how often one has risen so."""
        with self._lock:
            running = self._thread is not None and self._samples
            sample = dict(self._samples[-1]) if running else None
            # Alerts of one threshold that were added at different times have seen different rises.
            alerts = sorted(self._alerts, key=lambda alert: alert.rises)
            return sample, {
                (alert.metric, alert.above): (alert.is_above and sample is not None, alert.rises) for alert in alerts
            }

    def __enter__(self) -> Self:
        """Starts it."""
        return self.start()

    def __exit__(self, *exception: object) -> None:
        """Stops it."""
        self.stop()

    def _processes(self, seconds: float) -> dict[str, float | None]:
        """Memory and load so many seconds after the start."""
        return self._process.sample()

    def _take(self) -> dict[str, float | None]:
        sample: dict[str, float | None] = dict.fromkeys(METRICS)
        sample["seconds"] = seconds = time.perf_counter() - self._start
        sample |= self._processes(seconds)
        if self.device.type == "cuda":
            sample["allocated_mb"] = torch.cuda.memory_allocated(self.device) / _MEBIBYTE
            sample["reserved_mb"] = torch.cuda.memory_reserved(self.device) / _MEBIBYTE
        if self._gpu is not None:
            sample |= self._gpu.sample()
        with self._lock:
            self._samples.append(sample)
            alerts = list(self._alerts)
        for alert in alerts:
            alert.see(sample)
        return sample


class _Sampler(threading.Thread):
    """Takes a monitor's samples until it is ended."""

    def __init__(self, monitor: ResourceMonitor) -> None:
        super().__init__(name="torch_hrr monitor", daemon=True)
        self._monitor = monitor
        self._ended = threading.Event()

    def run(self) -> None:
        # No longer than a thread can wait at once.
        while not self._ended.wait(min(self._monitor.interval, threading.TIMEOUT_MAX)):
            self._monitor._take()

    def end(self) -> None:
        """Ends it; an alert calls this in the thread itself, which ends afterwards."""
        self._ended.set()
        if self.is_alive() and threading.current_thread() is not self:
            self.join()


class _Alert:
    """A threshold of a metric."""

    def __init__(self, metric: str, above: float, callback: Callable[[dict[str, Any]], Any]) -> None:
        self.metric, self.above, self._callback = metric, above, callback
        self.is_above = False
        self.rises = 0

    def arm(self) -> None:
        """The next value above the threshold is a rise."""
        self.is_above = False

    def see(self, sample: dict[str, float | None]) -> None:
        value = sample[self.metric]
        is_above = value is not None and value > self.above
        rises, self.is_above = is_above and not self.is_above, is_above
        if not rises:
            return
        self.rises += 1
        try:
            self._callback(dict(sample))
        except (Exception, SystemExit) as error:
            text = f"torch_hrr: the alert of {self.metric} raised {type(error).__name__}: {error}"
            warnings.warn(text, RuntimeWarning, stacklevel=2)


class _Process:
    """Memory and load of this process."""

    def __init__(self) -> None:
        self._before = (time.perf_counter(), time.process_time())

    def sample(self) -> dict[str, float | None]:
        now = (time.perf_counter(), time.process_time())
        passed, worked = now[0] - self._before[0], now[1] - self._before[1]
        self._before = now
        return {"rss_mb": _resident(), "cpu_percent": 100 * worked / passed if passed > 0 else None}


def _resident() -> float | None:
    """The memory of this process in 2^20 bytes."""
    try:
        return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MEBIBYTE
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil
    except ImportError:
        return None
    return float(psutil.Process().memory_info().rss) / _MEBIBYTE


class _Gpu:
    """What NVML tells of a GPU."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    @classmethod
    def of(cls, device: torch.device) -> _Gpu | None:
        """None for other devices, and where NVML is missing."""
        if device.type != "cuda":
            return None
        try:
            import pynvml
        except ImportError:
            return None
        try:
            pynvml.nvmlInit()
            # By its bus, since CUDA_VISIBLE_DEVICES renumbers torch's devices and not NVML's.
            found: Any = torch.cuda.get_device_properties(device)
            bus = f"{found.pci_domain_id:08x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"
            return cls(pynvml, pynvml.nvmlDeviceGetHandleByPciBusId(bus.encode()))
        except pynvml.NVMLError:
            return None

    def sample(self) -> dict[str, float | None]:
        memory = self._asked("nvmlDeviceGetMemoryInfo")
        rates = self._asked("nvmlDeviceGetUtilizationRates")
        power = self._asked("nvmlDeviceGetPowerUsage")
        reasons = self._asked("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {
            "gpu_memory_mb": None if memory is None else memory.used / _MEBIBYTE,
            "gpu_memory_share": None if memory is None else memory.used / memory.total,
            "gpu_utilization": None if rates is None else float(rates.gpu),
            "temperature_c": self._asked("nvmlDeviceGetTemperature", 0),
            "power_w": None if power is None else power / 1000,
            "throttled": None if reasons is None else float(bool(reasons & _THROTTLED)),
        }

    def _asked(self, name: str, *arguments: Any) -> Any:
        """None where the GPU does not tell."""
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError:
            return None
