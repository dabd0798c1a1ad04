"""ResourceMonitor: what it samples, its ring, its alerts, and NVIDIA's library where a GPU is pretended."""

import json
import sys
import threading
import time
import types

import pytest
import torch

from torch_hrr.runtime import ResourceMonitor, monitor


def scripted(monkeypatch, metric, values):
    """Samples whose metric takes these values in order."""
    values = iter(values)
    monkeypatch.setattr(monitor._Process, "sample", lambda self: {metric: next(values)})


def test_a_run_is_sampled_from_start_to_stop():
    with ResourceMonitor("cpu", interval=0.01) as running:
        assert running.is_running
        # Too large for memory that was given back before.
        held = torch.ones(2**25)
        end = time.perf_counter() + 0.1
        while time.perf_counter() < end:
            held.sum()
    samples = running.samples()
    assert not running.is_running and len(samples) > 2
    seconds = [sample["seconds"] for sample in samples]
    assert seconds == sorted(seconds) and 0 <= seconds[0] < seconds[-1]
    assert set(samples[0]) == set(monitor.METRICS)
    assert max(sample["rss_mb"] for sample in samples) - samples[0]["rss_mb"] > 100
    assert max(sample["cpu_percent"] for sample in samples) > 1
    assert all(sample["temperature_c"] is None and sample["allocated_mb"] is None for sample in samples)
    assert running.stop() == samples


def test_the_last_samples_are_kept(monkeypatch):
    scripted(monkeypatch, "rss_mb", range(5))
    running = ResourceMonitor("cpu", most=3)
    for _ in range(5):
        running._take()
    assert [sample["rss_mb"] for sample in running.samples()] == [2, 3, 4]


def test_an_alert_is_raised_once_for_every_rise(monkeypatch):
    scripted(monkeypatch, "rss_mb", [1.0, 5.0, 6.0, 2.0, 7.0, None, 8.0, 3.0])
    seen = []
    running = ResourceMonitor("cpu")
    running.alert("rss_mb", above=3, callback=lambda sample: seen.append(sample["rss_mb"]))
    running.alert("power_w", above=0, callback=seen.append)
    for _ in range(8):
        running._take()
    assert seen == [5.0, 7.0, 8.0]


@pytest.mark.parametrize(
    ("callback", "text"), [(lambda sample: 1 / 0, "ZeroDivisionError"), (lambda sample: sys.exit(1), "SystemExit: 1")]
)
def test_an_alert_that_fails_is_a_warning(monkeypatch, callback, text):
    scripted(monkeypatch, "rss_mb", [5.0, 1.0])
    running = ResourceMonitor("cpu")
    running.alert("rss_mb", 3, callback)
    with pytest.warns(RuntimeWarning, match=f"^torch_hrr: the alert of rss_mb raised {text}"):
        running._take()
    running._take()
    assert len(running.samples()) == 2


def test_an_alert_may_stop_the_monitor_and_cannot_start_it_twice():
    running, results = ResourceMonitor("cpu", interval=0.001), []
    running.alert("seconds", 0.01, lambda sample: results.append(running.stop()))
    running.start()
    end = time.perf_counter() + 10
    while running.is_running and time.perf_counter() < end:
        time.sleep(0.001)
    assert not running.is_running and results[0][-1]["seconds"] > 0.01
    # At the first sample, which is taken by the call itself.
    before = threading.active_count()
    running = ResourceMonitor("cpu", interval=0.001)
    running.alert("seconds", -1, lambda sample: running.stop())
    assert not running.start().is_running and threading.active_count() == before
    running = ResourceMonitor("cpu", interval=0.001)
    running.alert("seconds", -1, lambda sample: running.start())
    with pytest.warns(RuntimeWarning, match="start: monitor must be stopped, got one that is running"):
        running.start()
    running.stop()
    assert threading.active_count() == before


def test_samples_are_written_as_json(tmp_path):
    # No thread can wait for as long as this interval.
    running, seen = ResourceMonitor("cpu", interval=1e300), []
    running.alert("rss_mb", above=0, callback=seen.append)
    for runs in (1, 2):
        assert running.start()._thread.is_alive() and len(running.stop()) == 2 and len(seen) == runs
    running.save(tmp_path / "run.json")
    found = json.loads((tmp_path / "run.json").read_text())
    assert found == {"device": "cpu", "interval": 1e300, "samples": running.samples()}
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


class NVMLError(Exception):
    """What NVIDIA's library raises."""


def fail(error):
    raise error


def nvml(**changes):
    """NVIDIA's library for one GPU."""
    names = {
        "NVMLError": NVMLError,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByPciBusId": lambda bus: bus,
        "nvmlDeviceGetMemoryInfo": lambda handle: types.SimpleNamespace(used=3 * 2**20, total=4 * 2**20),
        "nvmlDeviceGetUtilizationRates": lambda handle: types.SimpleNamespace(gpu=42),
        "nvmlDeviceGetTemperature": lambda handle, sensor: 61,
        "nvmlDeviceGetPowerUsage": lambda handle: fail(NVMLError("Not Supported")),
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0x20,
    }
    return types.SimpleNamespace(**{**names, **changes})


@pytest.fixture
def installed(monkeypatch):
    """Installs such a library."""
    properties = types.SimpleNamespace(pci_domain_id=0, pci_bus_id=0x3B, pci_device_id=0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    return lambda **changes: monkeypatch.setitem(sys.modules, "pynvml", nvml(**changes))


def test_what_a_gpu_tells(installed):
    buses = []
    installed(nvmlDeviceGetHandleByPciBusId=lambda bus: buses.append(bus) or bus)
    gpu = monitor._Gpu.of(torch.device("cuda:1"))
    assert buses == [b"00000000:3b:00.0"]
    assert gpu.sample() == {
        "gpu_memory_mb": 3.0,
        "gpu_memory_share": 0.75,
        "gpu_utilization": 42.0,
        "temperature_c": 61,
        "power_w": None,
        "throttled": 1.0,
    }
    # 0x1 is an idle GPU, whose clocks are low for want of work.
    gpu._nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x1
    assert gpu.sample()["throttled"] == 0.0


@pytest.mark.parametrize("name", ["nvmlInit", "nvmlDeviceGetHandleByPciBusId"])
def test_only_what_nvidias_library_raises_means_that_it_cannot_tell(installed, monkeypatch, name):
    installed(**{name: lambda *_: fail(NVMLError("Driver Not Loaded"))})
    assert monitor._Gpu.of(torch.device("cuda")) is None
    installed(**{name: lambda *_: fail(AttributeError("a mistake"))})
    with pytest.raises(AttributeError, match="a mistake"):
        monitor._Gpu.of(torch.device("cuda"))
    installed(nvmlDeviceGetUtilizationRates=lambda handle: fail(TypeError("a mistake")))
    with pytest.raises(TypeError, match="a mistake"):
        monitor._Gpu.of(torch.device("cuda")).sample()
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert monitor._Gpu.of(torch.device("cuda")) is monitor._Gpu.of(torch.device("cpu")) is None


def test_a_monitor_runs_once_and_starts_anew():
    running = ResourceMonitor("cpu", interval=0.01).start()
    with pytest.raises(RuntimeError, match=r"^start: monitor must be stopped, got one that is running$"):
        running.start()
    before = threading.active_count()
    first = running.stop()
    assert threading.active_count() == before - 1
    again = running.start().stop()
    assert len(again) < len(first) + 2 and again[0]["seconds"] < 0.1


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"^alert: callback must be callable, got int"):
        ResourceMonitor("cpu").alert("rss_mb", 1, 3)
    with pytest.raises(TypeError, match=r"^save: path must be a str or an os.PathLike, got int"):
        ResourceMonitor("cpu").save(3)
