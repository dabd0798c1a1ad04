"""What torch.profiler records of operators, one recording at a time, with times by operator and a trace."""

from __future__ import annotations

import os
import pathlib
import tempfile
import threading

import torch

from torch_hrr.io.files import write_atomically


class OperatorRecording:
    """What torch.profiler records of a device's operators, from now until `stop`; there can be one at a time."""

    _is_running = False

    def __init__(self, op: str, device: torch.device, memory: bool = False) -> None:
        """Starts it.

        Args:
            op: The user's call, for errors to name.
            device: Whose work is recorded beside the CPU's.
            memory: Whether allocations are recorded too.

        Raises:
            RuntimeError: Another recording of torch.profiler is under way, which torch would end without a word.
        """
        # The first is told of every thread, the second of contexts such as torch.autograd.profiler's in this one.
        if torch.autograd.profiler._is_profiler_enabled or torch._C._autograd._profiler_enabled():
            raise RuntimeError(f"{op}: torch.profiler must not be recording, got a recording that is under way")
        self._thread = threading.get_ident()
        self._trace: bytes | None = None
        activities = [torch.profiler.ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        # A recording is one cycle, so that nothing accumulates. Without it torch 2.11 warns.
        self._profile = torch.profiler.profile(activities=activities, profile_memory=memory, acc_events=True)
        self._profile.start()
        self._is_running = True

    def __del__(self) -> None:
        """Ends one that nobody can stop any more, or torch would go on."""
        if self._is_running and self._thread == threading.get_ident():
            self._profile.stop()

    def check_thread(self, op: str) -> None:
        """RuntimeError in another thread than the one that started it, in which alone torch can stop it."""
        if self._thread != threading.get_ident():
            raise RuntimeError(f"{op}: recording must be stopped in the thread that started it, got another")

    def stop(self) -> dict[str, dict[str, float]]:
        """``{operator: {"calls", "cpu_ms", "device_ms"}}``, times without those of operators called inside."""
        self._is_running = False
        self._profile.stop()
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
