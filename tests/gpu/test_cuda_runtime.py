"""The runtime on a GPU: overlapped copies have the loop's bits, limits hold, shortages are survived."""

import json

import pytest
import torch

from torch_hrr import hrr, runtime


@pytest.mark.asynchronous
def test_a_pipeline_has_the_bits_and_the_order_of_the_loop():
    batches = [torch.randn(64 + i, 512) for i in range(12)]
    key = torch.randn(512, device="cuda")

    def fn(batch):
        for _ in range(20):
            batch = hrr.bind_normalize(batch, key)
        return batch

    loop = [fn(batch.cuda()).cpu() for batch in batches]
    for results in (list(runtime.pipeline(fn, batches, "cuda")), list(runtime.pipeline(fn, batches, "cuda"))):
        assert all(torch.equal(a, b) for a, b in zip(results, loop, strict=True))
        assert not any(result.is_pinned() for result in results)


@pytest.mark.asynchronous
def test_a_pipeline_of_one_buffer_and_of_batches_that_are_changed():
    buffer = torch.empty(4096, 1024, device="cuda")
    batches = [torch.full((4096, 1024), float(i)) for i in range(8)]
    results = list(runtime.pipeline(lambda batch: torch.mul(batch, 2, out=buffer), batches, "cuda"))
    assert all(bool((result == 2 * i).all()) for i, result in enumerate(results))
    near = [batch.cuda() for batch in batches]
    for given in (batches, near):
        results = list(runtime.pipeline(lambda batch: batch.mul_(3), given, "cuda"))
        assert all(bool((result == 3 * i).all()) for i, result in enumerate(results))
        assert all(bool((batch == i).all()) for i, batch in enumerate(given))


def test_what_is_on_the_gpu_is_copied_too():
    source = torch.ones(3, device="cuda")
    copied = runtime.OptimizedTransfers("cuda").async_transfer(source)
    source.fill_(2)
    assert copied.tolist() == [1, 1, 1]


@pytest.mark.asynchronous
def test_an_asynchronous_copy_is_waited_for():
    moving = runtime.OptimizedTransfers("cuda")
    source = moving.create_pinned_memory((4096, 1024))
    assert source.is_pinned()
    for value in range(10):
        moving.synchronize()
        torch.cuda.synchronize()
        source.fill_(float(value))
        assert float(moving.async_transfer(source).sum()) == value * source.numel()
    side = torch.cuda.Stream()
    assert float(moving.async_transfer(source, side).sum()) == 9 * source.numel()


@pytest.mark.alone
def test_a_call_beyond_the_limit_goes_on_in_parts():
    manager = runtime.GPUMemoryManager("cuda", 0.05)
    try:
        rows = int(0.05 * torch.cuda.get_device_properties(0).total_memory / 4 / 4096)
        vectors = torch.randn(rows, 4096)
        result = manager.run(lambda x: (x * 2).sum(1), vectors)
        assert torch.allclose(result, (vectors * 2).sum(1), rtol=1e-3, atol=1e-2)
        assert manager.report()["max_memory_gb"] < 0.06 * torch.cuda.get_device_properties(0).total_memory / 2**30
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


def test_what_a_monitor_and_a_profiler_see(tmp_path):
    profiler = runtime.PerformanceProfiler(device="cuda")
    profiler.start_monitoring(0.01)
    a = torch.randn(1000, 512).cuda()
    for _ in range(50):
        hrr.bind(a, a).sum().item()
    report = profiler.generate_report()
    assert report["summary"]["average_memory_usage"] > 0
    assert {"operator", "synchronization", "transfer"} <= {row["kind"] for row in report["bottlenecks"]}
    profiler.export_chrome_trace(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert all(sample["allocated_mb"] is not None for sample in report["samples"])


@pytest.mark.alone
def test_measurements_of_the_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HRR_CACHE", str(tmp_path))
    (row,) = runtime.GPUPerformanceBenchmark("cuda").benchmark_gpu_vs_cpu([512], [1000]).values()
    assert row["gpu_time_ms"] > 0 and 0 < row["efficiency"] <= 1.2
    rows = runtime.GPUMemoryAnalysis("cuda").analyze_memory_usage(3000)
    assert all(0.5 < row["efficiency"] <= 1 for row in rows)
    assert runtime.calibrate("cuda", [1024]) == runtime.calibrate("cuda", [1024])


def test_storage_is_on_the_gpu():
    manager = runtime.GPUMemoryManager("cuda", 1.0)
    storage = manager.allocate_vector_storage(10, 8)
    assert storage.is_cuda
    with pytest.raises(MemoryError, match=r"^allocate_vector_storage: storage must fit into the limit"):
        manager.allocate_vector_storage(2**30, 2**10)
