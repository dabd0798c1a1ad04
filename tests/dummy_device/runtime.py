"""The runtime on a device other than the CPU: shortages, a failure, transfers and measurements."""

import os
import tempfile
import warnings

import torch
from dummy import NAME, run

from torch_hrr import hrr, runtime


def main() -> None:
    """Every part that takes a device."""
    device = torch.device(NAME, 0)
    warnings.simplefilter("ignore", RuntimeWarning)
    a, b = torch.randn(2, 12, 32)
    expected = hrr.bind(a, b)
    tried = []

    def cramped(x, y):
        tried.append((x.device.type, len(x)))
        if x.device.type == NAME and len(x) > most:
            raise torch.OutOfMemoryError("out of memory")
        return hrr.bind(x, y)

    most = 5
    result = runtime.adaptive_call(cramped, a, b, device=NAME)
    assert result.device.type == "cpu" and torch.allclose(result, expected, atol=1e-4)
    assert [rows for _, rows in tried] == [12, 12, 6, 3, 3, 3, 3] and {kind for kind, _ in tried} == {NAME}
    near = runtime.adaptive_call(cramped, a.to(device), b.to(device), device=NAME)
    assert near.device == device and torch.equal(near.cpu(), result)

    most, tried[:] = 0, []
    assert torch.equal(runtime.adaptive_call(cramped, a, b, device=NAME), expected)
    assert tried[-1] == ("cpu", 12) and (NAME, 1) in tried

    manager = runtime.GPUMemoryManager(NAME)
    storage = manager.allocate_vector_storage(3, 4)
    assert storage.device == device and manager.transfer_state({"x": [a]})["x"][0].device == device
    manager.release(storage)
    # The copies of a run there count, and where everything is in place there are none.
    there = runtime.GPUMemoryManager(NAME)
    there.run(hrr.bind, a.to(device), b.to(device))
    assert there.report()["transfer_share"] == 0
    there.run(hrr.bind, a, b)
    assert 0 < there.report()["transfer_share"] < 1
    assert manager.report()["allocated_gb"] == 0 and manager.max_memory_gb == float("inf")
    moving = runtime.OptimizedTransfers(NAME)
    assert moving.async_transfer(moving.create_pinned_memory((2,)).fill_(3.0)).cpu().tolist() == [3.0, 3.0]
    results = list(runtime.pipeline(lambda batch: hrr.bind(batch, batch), a.split(5), NAME))
    assert [len(each) for each in results] == [5, 5, 2] and all(each.device.type == "cpu" for each in results)
    assert torch.allclose(torch.cat(results), hrr.bind(a, a), atol=1e-4)
    near = a.to(device)
    (changed,) = runtime.pipeline(lambda batch: batch.zero_(), [near], NAME)
    assert changed.device.type == "cpu" and not changed.any() and torch.equal(near.cpu(), a)
    profiler = runtime.PerformanceProfiler(device=NAME)
    profiler.start_monitoring()
    hrr.bind(a.to(device), b.to(device))
    assert profiler.generate_report()["summary"]["device"] == NAME
    (row,) = runtime.GPUPerformanceBenchmark(NAME).benchmark_gpu_vs_cpu([16], [4]).values()
    assert row["gpu_time_ms"] > 0 and row["speedup"] > 0 and row["efficiency"] > 0
    assert [each["efficiency"] for each in runtime.GPUMemoryAnalysis(NAME).analyze_memory_usage(1000)] == [1.0]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCH_HRR_CACHE"] = folder
        (threshold,) = runtime.calibrate(NAME, [8]).values()
        assert threshold >= 1 and runtime.calibrate(NAME, [8]) == {8: threshold}

    runtime.set_device(NAME)

    def failing(x, y):
        if x.device.type == NAME:
            raise torch.AcceleratorError("device-side assert")
        return hrr.bind(x, y)

    try:
        runtime.adaptive_call(failing, a.to(device), b.to(device), device=NAME)
    except runtime.DeviceError as error:
        assert (error.op, error.device, error.reason) == ("adaptive_call", torch.device(NAME), "device-side assert"), (
            error
        )
    else:
        raise AssertionError("a device was lost with its inputs, and nothing said so")
    # From inputs of the CPU the call goes on, and the device is an error where it is named, and not the current one.
    assert torch.equal(runtime.adaptive_call(failing, a, b, device=NAME), expected)
    assert runtime.get_device() == "cpu"
    try:
        runtime.resolve_device(NAME)
    except RuntimeError as error:
        assert "it failed (device-side assert)" in str(error), error
    else:
        raise AssertionError("a device that was given up was chosen")
    print("the runtime ran")


if __name__ == "__main__":
    run(main)
