"""What a `ResourceMonitor` sees, as metrics that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from torch_hrr.runtime.monitor import ResourceMonitor

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

_MEBIBYTE = 2**20
# The names end with Prometheus's base units, into which the factor converts a sample's.
_GAUGES = (
    ("seconds", "monitor_seconds", 1, "Seconds from the start of the monitor to its last sample."),
    ("rss_mb", "process_resident_memory_bytes", _MEBIBYTE, "Memory of the process."),
    ("cpu_percent", "process_cpu_ratio", 0.01, "Load of the process since the sample before; 1 is one core."),
    ("allocated_mb", "torch_allocated_bytes", _MEBIBYTE, "Device memory that tensors of the process take."),
    ("reserved_mb", "torch_reserved_bytes", _MEBIBYTE, "Device memory that torch holds for the process."),
    ("gpu_memory_mb", "gpu_memory_used_bytes", _MEBIBYTE, "Memory of the GPU in use by all processes."),
    ("gpu_memory_share", "gpu_memory_used_ratio", 1, "The same as a share of the GPU's memory."),
    ("gpu_utilization", "gpu_utilization_ratio", 0.01, "Share of the time in which the GPU ran a kernel."),
    ("temperature_c", "gpu_temperature_celsius", 1, "Temperature of the GPU."),
    ("power_w", "gpu_power_watts", 1, "Power that the GPU draws."),
    ("throttled", "gpu_throttled", 1, "1 where heat or power lowers the clocks of the GPU."),
)


def prometheus_collector(monitor: ResourceMonitor, *others: ResourceMonitor) -> Collector:
    """The last sample and the alerts of monitors, for a registry of prometheus_client.

    ``prometheus_client.REGISTRY.register(prometheus_collector(monitor))``, then
    ``prometheus_client.start_http_server(9000)`` or the `/metrics` of a web framework serves them as text. The metrics,
    all with a label ``device``:

    - ``torch_hrr_monitor_running``, 1 or 0;
    - while it runs, gauges of its last sample in bytes, seconds, ratios, degrees Celsius and watts, such as
      ``torch_hrr_process_resident_memory_bytes``; what cannot be known is left out;
    - for each threshold of `ResourceMonitor.alert`, with the labels ``metric`` and ``above``:
      ``torch_hrr_alert_firing``, 1 where the last sample is above it, and ``torch_hrr_alerts_total``, how often a value
      has risen above it.

    A scrape takes no sample, and costs the same however many are kept.

    Raises:
        ImportError: prometheus_client is missing: ``pip install torch_hrr[prometheus]``.
        TypeError: A monitor is no `ResourceMonitor`.
        ValueError: Two monitors have one device.
    """
    monitors = (monitor, *others)
    for each in monitors:
        if not isinstance(each, ResourceMonitor):
            text = f"monitor must be a ResourceMonitor, got {type(each).__name__}"
            raise TypeError(f"prometheus_collector: {text}")
    devices = [str(each.device) for each in monitors]
    if len(set(devices)) < len(devices):
        raise ValueError(f"prometheus_collector: monitors must have different devices, got {', '.join(devices)}")
    try:
        import prometheus_client.core
    except ImportError as error:
        cure = "pip install torch_hrr[prometheus]"
        raise ImportError(f"prometheus_collector: prometheus_client is missing; mend it with: {cure}") from error
    return cast("Collector", _MonitorCollector(prometheus_client.core, dict(zip(devices, monitors, strict=True))))


class _MonitorCollector:
    """What a registry asks for metrics."""

    def __init__(self, core: Any, monitors: dict[str, ResourceMonitor]) -> None:
        self._gauge, self._counter = core.GaugeMetricFamily, core.CounterMetricFamily
        self._monitors = monitors

    def collect(self) -> Iterator[Metric]:
        labels = ["device", "metric", "above"]
        running = self._gauge("torch_hrr_monitor_running", "1 while the monitor takes samples.", labels=labels[:1])
        gauges = {
            key: (self._gauge(f"torch_hrr_{name}", text, labels=labels[:1]), factor)
            for key, name, factor, text in _GAUGES
        }
        firing = self._gauge("torch_hrr_alert_firing", "1 above the threshold of the alert.", labels=labels)
        rises = self._counter("torch_hrr_alerts", "Rises above the threshold of the alert.", labels=labels)
        for device, monitor in self._monitors.items():
            sample, thresholds = monitor._seen()
            running.add_metric([device], float(sample is not None))
            for key, value in (sample or {}).items():
                if value is not None:
                    family, factor = gauges[key]
                    family.add_metric([device], value * factor)
            for (metric, above), (is_above, count) in thresholds.items():
                values = [device, metric, str(above).removesuffix(".0")]
                firing.add_metric(values, float(is_above))
                rises.add_metric(values, count)
        yield from (running, *(family for family, _ in gauges.values()), firing, rises)
