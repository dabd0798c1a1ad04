"""Metrics for Prometheus: the text as its parser reads it, its conventions, and thresholds."""

import builtins
import math
import re
import urllib.request

import pytest
import torch
from guide import DOCS

from torch_hrr.runtime import ResourceMonitor, monitor, prometheus_collector

UNITS = ("_bytes", "_ratio", "_seconds", "_celsius", "_watts")
FULL = {
    "rss_mb": 1.5,
    "cpu_percent": 250.0,
    "allocated_mb": 2.0,
    "reserved_mb": 4.0,
    "gpu_memory_mb": 3.0,
    "gpu_memory_share": 0.75,
    "gpu_utilization": 42.0,
    "temperature_c": 61.0,
    "power_w": 250.5,
    "throttled": 1.0,
}


def scripted(monkeypatch, samples):
    samples = iter(samples)
    monkeypatch.setattr(monitor._Process, "sample", lambda self: next(samples))


def scraped(*monitors):
    """Values by name and labels, as Prometheus reads the text of a registry that has these monitors alone."""
    client = pytest.importorskip("prometheus_client")
    from prometheus_client.parser import text_string_to_metric_families

    registry = client.CollectorRegistry(auto_describe=True)
    registry.register(prometheus_collector(*monitors))
    families = list(text_string_to_metric_families(client.generate_latest(registry).decode()))
    samples = [sample for family in families for sample in family.samples]
    # What `promtool check metrics` asks for: help, base units, _total of counters alone, and each series once.
    assert all(family.documentation.endswith(".") for family in families)
    assert len({(each.name, *sorted(each.labels.items())) for each in samples}) == len(samples)
    for family in families:
        assert re.fullmatch(r"torch_hrr(_[a-z]+)+", family.name)
        assert all(each.name.endswith("_total") == (family.type == "counter") for each in family.samples)
        assert family.name.endswith((*UNITS, "_running", "_throttled", "_firing", "_alerts"))
    names = ("device", "metric", "above")
    labels = [tuple(each.labels[name] for name in names if name in each.labels) for each in samples]
    return {
        (each.name.removeprefix("torch_hrr_"), *values): each.value
        for each, values in zip(samples, labels, strict=True)
    }


def test_a_sample_is_told_in_base_units(monkeypatch):
    scripted(monkeypatch, [FULL, FULL])
    running = ResourceMonitor("cpu", interval=1000).start()
    found = scraped(running)
    assert 0 <= found.pop(("monitor_seconds", "cpu")) < 60
    assert found == {
        ("monitor_running", "cpu"): 1,
        ("process_resident_memory_bytes", "cpu"): 1.5 * 2**20,
        ("process_cpu_ratio", "cpu"): 2.5,
        ("torch_allocated_bytes", "cpu"): 2**21,
        ("torch_reserved_bytes", "cpu"): 2**22,
        ("gpu_memory_used_bytes", "cpu"): 3 * 2**20,
        ("gpu_memory_used_ratio", "cpu"): 0.75,
        ("gpu_utilization_ratio", "cpu"): pytest.approx(0.42),
        ("gpu_temperature_celsius", "cpu"): 61,
        ("gpu_power_watts", "cpu"): 250.5,
        ("gpu_throttled", "cpu"): 1,
    }
    running.stop()
    assert scraped(running) == {("monitor_running", "cpu"): 0}


def test_every_metric_of_a_sample_has_a_name():
    assert {"seconds", *FULL} == set(monitor.METRICS)


def test_what_is_not_known_is_left_out_and_several_devices_are_told_apart(monkeypatch):
    scripted(monkeypatch, [{"rss_mb": 1.0}, {"rss_mb": 2.0}, {"rss_mb": 3.0}, {"rss_mb": 4.0}])
    near, far = ResourceMonitor("cpu", interval=1000), ResourceMonitor("cpu", interval=1000)
    far.device = torch.device("cuda:1")
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 7)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 9)
    monkeypatch.setattr(monitor._Gpu, "of", lambda device: None)
    with near, far:
        found = scraped(near, far)
    assert {key: value for key, value in found.items() if key[0] != "monitor_seconds"} == {
        ("monitor_running", "cpu"): 1,
        ("monitor_running", "cuda:1"): 1,
        ("process_resident_memory_bytes", "cpu"): 2**20,
        ("process_resident_memory_bytes", "cuda:1"): 2**21,
        ("torch_allocated_bytes", "cuda:1"): 7,
        ("torch_reserved_bytes", "cuda:1"): 9,
    }


def test_thresholds_fire_and_count_rises_over_restarts(monkeypatch):
    pytest.importorskip("prometheus_client")
    values = [1.0, 5.0, 6.0, 2.0, 7.0, 1.0, 9.0, 9.0]
    scripted(monkeypatch, [{"rss_mb": value} for value in values])
    watch = ResourceMonitor("cpu", interval=1000)
    watch.alert("rss_mb", 3, lambda sample: None)
    watch.alert("power_w", 0.5, lambda sample: None)
    watch.start()
    # A threshold that is there twice is one series, of the alert that has seen more.
    seen = []
    for value in values[:5]:
        if value > 1:
            watch._take()
        if value == 5.0:
            watch.alert("rss_mb", 3, lambda sample: None)
        found = scraped(watch)
        seen.append((found["alert_firing", "cpu", "rss_mb", "3"], found["alerts_total", "cpu", "rss_mb", "3"]))
    assert seen == [(0, 0), (1, 1), (1, 1), (0, 1), (1, 2)]
    assert found["alert_firing", "cpu", "power_w", "0.5"] == found["alerts_total", "cpu", "power_w", "0.5"] == 0
    watch.stop()
    assert scraped(watch)["alert_firing", "cpu", "rss_mb", "3"] == 0
    watch.start()
    assert scraped(watch)["alerts_total", "cpu", "rss_mb", "3"] == 3
    watch.stop()


def test_values_that_text_can_hardly_hold(monkeypatch):
    scripted(monkeypatch, [{"rss_mb": math.inf, "power_w": math.nan}] * 2)
    with ResourceMonitor("cpu", interval=1000) as watch:
        found = scraped(watch)
    assert found["process_resident_memory_bytes", "cpu"] == math.inf and math.isnan(found["gpu_power_watts", "cpu"])


def test_the_guide_serves_text(monkeypatch):
    client = pytest.importorskip("prometheus_client")
    monkeypatch.setattr(client, "REGISTRY", client.CollectorRegistry(auto_describe=True))
    (block,) = re.findall(r"^```py\n(.*?)^```$", (DOCS / "runtime.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {}
    exec(block.replace("9464", "0").replace('addr="', 'registry=prometheus_client.REGISTRY, addr="'), names)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{names['server'].server_port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    finally:
        names["server"].shutdown()
        names["thread"].join()
        names["server"].server_close()
        names["watch"].stop()
    assert 'torch_hrr_monitor_running{device="cpu"} 1.0' in lines
    assert 'torch_hrr_alert_firing{above="20000",device="cpu",metric="rss_mb"} 0.0' in lines
    rows = set(re.findall(r"`(torch_hrr_\w+)`", (DOCS / "runtime.md").read_text()))
    told = {line.split()[2] for line in lines if line.startswith("# TYPE torch_hrr_")}
    assert rows == told


def test_bad_monitors_and_a_missing_client(monkeypatch):
    watch = ResourceMonitor("cpu")
    with pytest.raises(TypeError, match=r"^prometheus_collector: monitor must be a ResourceMonitor, got str$"):
        prometheus_collector(watch, "cpu")
    with pytest.raises(ValueError, match=r"^prometheus_collector: monitors must have different devices, got cpu, cpu$"):
        prometheus_collector(watch, ResourceMonitor("cpu"))
    load = builtins.__import__

    def missing(name, *rest):
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install torch_hrr\[prometheus\]$"):
        prometheus_collector(watch)
