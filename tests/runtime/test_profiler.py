"""PerformanceProfiler: its report, its bottlenecks, its trace, and times of operations."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest.mock import Mock

import pytest
import torch

from torch_hrr import hrr
from torch_hrr.compat import runtime as profiler
from torch_hrr.runtime import DeviceError, GPUMemoryAnalysis, GPUPerformanceBenchmark, PerformanceProfiler

VECTORS, BINDING = partial(GPUMemoryAnalysis, "cpu"), GPUPerformanceBenchmark("cpu").benchmark_gpu_vs_cpu


@pytest.fixture(scope="module")
def recorded():
    """A profiler that recorded ten bindings, each of which the program waits for."""
    made = PerformanceProfiler(backend="torch", device="cpu")
    made.start_monitoring(interval=0.01)
    a, b = torch.randn(2, 64, 256)
    for _ in range(10):
        hrr.bind(a, b).sum().item()
    a.clone()
    made.stop_monitoring()
    return made


def test_the_summary_tells_time_and_memory(recorded):
    summary = recorded.generate_report()["summary"]
    assert 0 < summary["total_execution_time"] < 60
    assert 10 < summary["average_memory_usage"] <= summary["peak_memory_usage"]
    assert summary["operators"] >= 30 and summary["device"] == "cpu"
    # A report ends nothing that has ended, and says the same again.
    assert recorded.generate_report()["summary"] == summary


def test_bottlenecks_name_operators_waits_copies_and_allocations(recorded):
    rows = recorded.generate_report()["bottlenecks"]
    operators = {row["name"]: row for row in rows if row["kind"] == "operator"}
    assert operators["torch_hrr::bind"]["calls"] == 10 and operators["torch_hrr::bind"]["seconds"] > 0
    shares = [row["share"] for row in rows if row["kind"] == "operator"]
    assert shares == sorted(shares, reverse=True) and 0.5 < sum(shares) <= 1 + 1e-9 and len(shares) <= 10
    others = {row["kind"]: row for row in rows if row["kind"] != "operator"}
    assert set(others) == {"synchronization", "transfer", "allocation"}
    assert others["synchronization"]["calls"] == 10 and ".item()" in others["synchronization"]["hint"]
    assert others["transfer"]["calls"] >= 1
    assert all(row["hint"] for row in rows)


def test_a_devices_copies_and_waits_are_found_by_their_names(recorded):
    made = PerformanceProfiler("torch", "cpu")
    row = {"calls": 2, "cpu_ms": 0.0, "device_ms": 3.0}
    made._operators = {"Memcpy HtoD (Pinned -> Device)": row, "cudaStreamSynchronize": row, "my_kernel": row}
    found = {each["kind"]: each["seconds"] for each in made._bottlenecks()}
    assert found["transfer"] == found["synchronization"] == 3e-3 and "allocation" not in found


def test_report_and_trace_are_files(recorded, tmp_path):
    recorded.save_report(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text()) == recorded.generate_report()
    recorded.export_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named = [event.get("cat") for event in events if event.get("name") == "torch_hrr::bind"]
    assert named.count("cpu_op") >= 10


def test_reports_and_traces_end_the_recording_and_are_given_as_often_as_asked(tmp_path):
    made, seen = PerformanceProfiler(device="cpu"), []
    made.monitor.alert("seconds", -1, seen.append)
    for _ in range(2):
        made.start_monitoring()
        torch.ones(3).sum()
        with pytest.raises(RuntimeError, match=r"^start_monitoring: profiler and monitor must be stopped first"):
            made.start_monitoring()
        assert made.generate_report()["summary"]["operators"] > 0
    assert len(seen) >= 2
    with pytest.raises(FileNotFoundError):
        made.export_chrome_trace(tmp_path / "none" / "trace.json")
    for name, save in (("export_chrome_trace", made.export_chrome_trace), ("save_report", made.save_report)):
        with pytest.raises(ValueError, match=f"{name}: path must name a regular file"):
            save(tmp_path)
    for name in ("one", "two"):
        made.export_chrome_trace(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_recording_is_not_ended_by_another():
    made, other = PerformanceProfiler(device="cpu"), PerformanceProfiler(device="cpu")
    made.start_monitoring()
    text = r"^start_monitoring: torch.profiler must not be recording, got a recording that is under way$"
    with pytest.raises(RuntimeError, match=text):
        other.start_monitoring()
    assert not other.monitor.is_running
    torch.ones(3).sum()
    assert made.generate_report()["summary"]["operators"] > 0
    with torch.profiler.profile(), pytest.raises(RuntimeError, match=text):
        other.start_monitoring()
    made.start_monitoring()
    # One that nobody can stop any more is no obstacle.
    monitor = made.monitor
    del made
    monitor.stop()
    other.start_monitoring()
    torch.ones(3).sum()
    assert other.generate_report()["summary"]["operators"] > 0


def in_a_thread(function):
    """What a function raises in another thread, as text."""
    with ThreadPoolExecutor(1) as pool:
        return str(pool.submit(function).exception())


def test_a_recording_belongs_to_its_thread():
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        refused = in_a_thread(PerformanceProfiler(device="cpu").start_monitoring)
        torch.ones(3).sum()
    assert refused.startswith("start_monitoring: torch.profiler must not be recording")
    assert "aten::sum" in [event.key for event in profile.key_averages()]
    made = PerformanceProfiler(device="cpu")
    made.start_monitoring()
    torch.ones(3).sum()
    text = "stop_monitoring: recording must be stopped in the thread that started it, got another"
    assert in_a_thread(made.generate_report) == text
    assert made.generate_report()["summary"]["operators"] > 0


def test_a_device_that_fails_at_the_end_leaves_nothing_recording(monkeypatch):
    made = PerformanceProfiler(device="cpu")
    made.start_monitoring()
    monkeypatch.setattr(profiler, "wait_for", Mock(side_effect=DeviceError("stop_monitoring", "cuda", "lost")))
    with pytest.raises(DeviceError):
        made.stop_monitoring()
    assert not torch.autograd._profiler_enabled() and not made.monitor.is_running
    assert made.generate_report()["samples"]


def test_a_start_that_fails_leaves_nothing_recording(monkeypatch):
    made = PerformanceProfiler(device="cpu")
    with made.monitor, pytest.raises(RuntimeError, match=r"^start_monitoring: profiler and monitor must be stop"):
        made.start_monitoring(3.0)
    assert made.monitor.interval == 0.1
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match=r"^can't start new thread$"):
        patched.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))
        made.start_monitoring()
    assert not torch.autograd._profiler_enabled() and not made.monitor.is_running
    with pytest.raises(RuntimeError, match=r"^generate_report: start_monitoring must be called first"):
        made.generate_report()
    made.start_monitoring()
    torch.ones(3).sum()
    assert made.generate_report()["summary"]["operators"] > 0


def test_operations_are_timed_by_name(monkeypatch):
    calls = []

    def timed(fn, runs):
        return fn() or {"mean_time": 0.25, "median": 0.2, "iqr": 0.1, "runs": runs}

    monkeypatch.setattr(profiler, "benchmark_device", timed)
    results = PerformanceProfiler(device="cpu").benchmark_operations({"a": lambda: calls.append(1)}, iterations=7)
    assert (results["a"].execution_time, results["a"].throughput, results["a"].runs, len(calls)) == (0.25, 4.0, 7, 1)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda p: PerformanceProfiler("cupy"), ValueError, "PerformanceProfiler: backend must be 'torch', got 'cupy'"),
        (lambda p: p.generate_report(), RuntimeError, "generate_report: start_monitoring must be called first"),
        (lambda p: p.export_chrome_trace("x"), RuntimeError, "export_chrome_trace: start_monitoring must be called"),
        (lambda p: p.export_chrome_trace(3), TypeError, "export_chrome_trace: path must be a str or an os.PathLike"),
        (lambda p: p.benchmark_operations([]), TypeError, "benchmark_operations: operations must be a mapping"),
        (lambda p: p.benchmark_operations({"a": 3}), TypeError, "benchmark_operations: operation 'a' must be callable"),
        (lambda p: p.benchmark_operations({3: print}), TypeError, "benchmark_operations: a name must be a str, got"),
        (lambda p: VECTORS(2**62).analyze_memory_usage(), ValueError, "analyze_memory_usage: the vectors must have"),
        (lambda p: BINDING([8, 2**31], [2**31]), ValueError, "benchmark_gpu_vs_cpu: the vectors must have fewer than"),
        (lambda p: BINDING(64, [1]), TypeError, "benchmark_gpu_vs_cpu: dimensionalities must be a sequence of ints"),
        (lambda p: BINDING([64], [0]), ValueError, "benchmark_gpu_vs_cpu: batch_sizes must be at least 1, got 0"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=f"^{text}"):
        call(PerformanceProfiler(device="cpu"))


def test_memory_of_vectors():
    rows = VECTORS(128).analyze_memory_usage(max_vectors=3500)
    assert [row["n_vectors"] for row in rows] == [1000, 2000, 3000]
    assert [row["allocated_gb"] for row in rows] == [n * 128 * 4 / 2**30 for n in (1000, 2000, 3000)]
    assert all(row["reserved_gb"] >= row["allocated_gb"] and row["efficiency"] == 1.0 for row in rows)


def test_without_a_gpu_only_the_cpu_is_timed(monkeypatch):
    monkeypatch.setattr(profiler, "benchmark_device", lambda function: (function(), {"median": 0.25})[1])
    row = {"cpu_time_ms": 250.0, "gpu_time_ms": None, "speedup": None, "efficiency": None}
    assert BINDING([64], [1, 100]) == {"64D_batch1": row, "64D_batch100": row}
