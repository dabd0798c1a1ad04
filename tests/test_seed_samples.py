"""The sample calls of the five programs that torch_hrr continues: they run as published, but for imports and sizes.

What needs a GPU is asked for by name and falls back to the CPU after a warning each time, as the programs expect.
"""

import importlib
import time

import numpy as np
import pytest
import torch

from torch_hrr import runtime
from torch_hrr.assembly import CupyBrain, TorchBrain
from torch_hrr.encoding import ConfigurableSinusoidalEmbedder, GPUConfig, SinusoidalConfig
from torch_hrr.field import (
    BatchedFieldOperations,
    GPUBrainFactory,
    GPUPatternLibrary,
    OptimizationChecker,
    OptimizedUnifiedFieldBrain,
    TensorMemoryPool,
    create_brain,
    quick_performance_test,
)
from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, HierarchyManager, ReactiveLayer
from torch_hrr.hrr import BatchHRROperations, HybridHRRSystem, PyTorchHRROperations
from torch_hrr.runtime import (
    GPUContext,
    GPUMemoryAnalysis,
    GPUMemoryManager,
    GPUPerformanceBenchmark,
    OptimizedTransfers,
    PerformanceProfiler,
    benchmark_device,
    get_device,
    get_device_info,
    set_device,
    to_gpu,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*continuing on the CPU:RuntimeWarning")


@pytest.fixture(autouse=True)
def device_as_before(monkeypatch):
    monkeypatch.setattr(runtime.device, "_process_device", None)


@pytest.mark.parametrize("name", ("encoding", "field", "hrr", "runtime"))
def test_names_are_where_they_were(name):
    package, found = importlib.import_module(f"torch_hrr.{name}"), {}
    exec(f"from torch_hrr.{name} import *", found)
    assert set(package.__all__) <= found.keys() & set(dir(package))
    with pytest.raises(AttributeError, match=f"^module 'torch_hrr.{name}' has no attribute 'Nothing'$"):
        package.Nothing  # noqa: B018


class TestHolographicRepresentations:
    def test_operations(self):
        ops = PyTorchHRROperations(dimensionality=512, device="auto")
        a, b = torch.randn(512), torch.randn(512)
        bound = ops.bind(a, b)
        expected = torch.fft.ifft(torch.fft.fft(a) * torch.fft.fft(b)).real
        assert torch.allclose(bound.cpu(), expected, atol=1e-4)
        expected = torch.fft.ifft(torch.fft.fft(bound.cpu()) * torch.conj(torch.fft.fft(a))).real
        assert torch.allclose(ops.unbind(bound, a).cpu(), expected, atol=1e-2)
        fused = ops.fused_bind_normalize(a, b)
        assert torch.allclose(fused.cpu(), torch.nn.functional.normalize(bound.cpu(), p=2, dim=-1), atol=1e-6)

    def test_batches(self):
        ops = BatchHRROperations()
        a_batch, b_batch = torch.randn(10, 512), torch.randn(10, 512)
        expected = torch.fft.ifft(torch.fft.fft(a_batch, dim=-1) * torch.fft.fft(b_batch, dim=-1), dim=-1).real
        assert torch.allclose(ops.batch_bind(a_batch, b_batch).cpu(), expected, atol=1e-4)
        vectors_batch, weights = torch.randn(4, 7, 512), torch.rand(4, 7)
        expected = torch.nn.functional.normalize((vectors_batch * weights.unsqueeze(-1)).sum(dim=1), p=2, dim=-1)
        assert torch.allclose(ops.batch_superpose(vectors_batch, weights).cpu(), expected, atol=1e-6)

    def test_memory(self):
        manager = GPUMemoryManager(torch.device("cpu"))
        assert manager.memory_pool == {} and manager.max_memory_gb > 0
        storage = manager.allocate_vector_storage(num_vectors=100, dimensionality=512)
        assert (storage.shape, storage.dtype) == ((100, 512), torch.float32)
        cpu_state = {"memory": np.ones((2, 3), dtype=np.float32), "name": "state"}
        gpu_state = manager.transfer_consciousness_state(cpu_state)
        assert torch.equal(gpu_state["memory"], torch.ones(2, 3)) and gpu_state["name"] == "state"

    def test_hybrid_and_transfers(self):
        hybrid = HybridHRRSystem(dimensionality=512)
        a, b = torch.randn(20, 512), torch.randn(20, 512)
        assert hybrid.adaptive_bind(a, b, batch_size=20).shape == (20, 512)
        transfers = OptimizedTransfers(torch.device("cpu"))
        pinned = transfers.create_pinned_memory((100, 512))
        assert pinned.shape == (100, 512)
        assert torch.equal(transfers.async_transfer(a, None), a)

    def test_benchmarks(self):
        results = GPUPerformanceBenchmark().benchmark_gpu_vs_cpu([512], [1, 100])
        assert set(results["512D_batch100"]) == {"cpu_time_ms", "gpu_time_ms", "speedup", "efficiency"}
        usage = GPUMemoryAnalysis().analyze_memory_usage(max_vectors=10000)
        assert [row["n_vectors"] for row in usage][:2] == [1000, 2000]
        assert set(usage[0]) == {"n_vectors", "allocated_gb", "reserved_gb", "efficiency"}


class TestAssemblies:
    def test_an_older_name(self):
        brain = CupyBrain(device=0)
        brain.add_area("visual", n=1000, k=100, beta=0.1)
        brain.add_area("semantic", n=800, k=80, beta=0.1)
        external_inputs, projections = {"visual": torch.rand(1000)}, {"visual": ["semantic"]}
        brain.project(external_inputs, projections)
        brain.project(external_inputs, projections)
        assert len(brain.winners("visual")) == 100 and len(brain.winners("semantic")) == 80

    def test_learning(self):
        brain = TorchBrain(device="cuda:0", precision="fp16", jit=False)
        brain.add_area("visual", n=1000, k=100, beta=0.1)
        brain.project({"visual": torch.rand(1000)}, {})
        brain.enable_learning()
        brain.project({"visual": torch.rand(1000)}, {})
        loss = brain.compute_assembly_loss({"visual": list(range(100))})
        loss.backward()
        assert torch.isfinite(brain.biases[0].grad).all() and brain.biases[0].grad.abs().sum() > 0

    def test_profiling(self, tmp_path):
        brain = TorchBrain(device="cuda:0", precision="fp16", learning=True)
        brain.add_area("visual", n=1000, k=100, beta=0.1)
        external_inputs, projections = {"visual": torch.rand(1000)}, {}
        profiler = PerformanceProfiler(backend="torch", device="cuda:0")
        profiler.start_monitoring(interval=0.1)
        brain.project(external_inputs, projections)
        report = profiler.generate_report()
        print(f"Execution time: {report['summary']['total_execution_time']:.2f}s")
        print(f"Memory usage: {report['summary']['average_memory_usage']:.2f}MB")
        operations = {"projection": brain.project}
        results = profiler.benchmark_operations(operations, iterations=10)
        for name, metrics in results.items():
            print(f"{name}: {metrics.execution_time:.4f}s, {metrics.throughput:.2f} ops/s")
        assert results["projection"].throughput == pytest.approx(1 / results["projection"].execution_time)

    def test_configuration(self):
        brain = TorchBrain(device="cuda:0", precision="fp16", jit=True, learning=True)
        brain.add_area("visual", n=1000, k=100, beta=0.1)
        assert brain.memory_manager.allocate_connectome(1000, 1000, dtype="float32").shape == (1000, 1000)
        brain.memory_manager.optimize_layout()
        brain.start_monitoring(interval=0.1)
        brain.project({"visual": torch.rand(1000)}, {})
        stats = brain.get_memory_usage()
        assert stats["reserved_mb"] > 0 and brain.stop_monitoring()


class TestSinusoids:
    def test_an_embedder_and_its_settings(self):
        config = SinusoidalConfig(
            vocab_size=10000,
            embedding_dim=256,
            enable_gpu_acceleration=True,
            use_vectorized_operations=True,
            use_mixed_precision=True,
            enable_xla_compilation=True,
        )
        embedder = ConfigurableSinusoidalEmbedder(config)
        assert embedder.accelerator.config.enable_xla

    def test_benchmark_and_advice(self):
        gpu_config = GPUConfig(
            enable_gpu=True,
            enable_mixed_precision=True,
            mixed_precision_policy="mixed_float16",
            memory_limit=4096,
            enable_xla=True,
        )
        assert SinusoidalConfig(vocab_size=50000, embedding_dim=512, gpu_config=gpu_config).gpu_config == gpu_config
        embedder = ConfigurableSinusoidalEmbedder(SinusoidalConfig(vocab_size=1000, embedding_dim=64))
        gpu_info = embedder.get_gpu_acceleration_info()
        print(f"GPU Enabled: {gpu_info['gpu_acceleration_enabled']}")
        results = embedder.benchmark_gpu_performance(batch_size=32, seq_length=128, num_iterations=3)
        assert results["ms"] > 0
        optimization = embedder.optimize_for_gpu(available_memory_mb=8192)
        print(f"Optimal batch size: {optimization['optimal_batch_size']}")
        assert optimization["optimal_batch_size"] > 0


class TestFields:
    def test_a_cycle(self):
        brain = create_brain(sensory_dim=16, motor_dim=5, spatial=8, channels=24, prefer_gpu=True)
        assert isinstance(brain, OptimizedUnifiedFieldBrain)
        motor, facts = brain.process_robot_cycle([0.1] * 16)
        assert len(motor) == 5 and all(isinstance(value, float) for value in motor) and facts

    def test_fused_operations(self):
        state = torch.randn(6, 5, 4, 3)
        after = BatchedFieldOperations.fused_field_evolution(state, decay_rate=0.02, diffusion_strength=0.05)
        assert after.shape == state.shape and not torch.equal(after, state)
        assert BatchedFieldOperations.batched_gradient_extraction(state).shape[-4:] == (6, 5, 4, 3)

    def test_pools_and_patterns(self):
        pools = TensorMemoryPool({"field_temp_1": (4, 4, 4, 2), "gradient_buffer": (4, 4, 4), "scalar_buffer": (100,)})
        assert pools["gradient_buffer"].shape == (4, 4, 4) and not pools["scalar_buffer"].any()
        library = GPUPatternLibrary(5, 3, 2)
        library.store(torch.ones(3), torch.ones(2))
        blended, _ = library.find_best_pattern(torch.ones(3), torch.ones(2))
        assert blended.shape == (2,)

    def test_factory_and_checks(self):
        sizes = {"spatial": 8, "channels": 24}
        brain = GPUBrainFactory.create_optimized_brain(**sizes)
        status = OptimizationChecker.verify_optimizations(brain)
        assert status["syncs"] == 0 and status["fused"]
        assert quick_performance_test(cycles=2, **sizes)["speedup"] > 0


class TestHierarchy:
    def test_devices(self):
        info = get_device_info()
        print(f"CUDA Available: {info['cuda_available']}")
        print(f"Device: {info['device_name']}")
        print(f"Memory: {info['device_memory']}")
        set_device("cpu")
        assert get_device() == "cpu"
        with GPUContext("cuda"):
            assert to_gpu(np.random.randn(10, 3)).shape == (10, 3)
        assert get_device() == "cpu"

    def test_arrays(self):
        from torch_hrr.runtime import (
            dot,
            get_array_module,
            matmul,
            mean,
            norm,
            randn,
            to_cpu,
        )

        xp = get_array_module()
        a, b = randn(100, 100), randn(100, 100)
        c, d = dot(a, b), matmul(a, b)
        assert xp.equal(c, d) and mean(c, axis=0).shape == (100,)
        assert to_cpu(norm(d)).device.type == "cpu"

        def my_operation():
            a = randn(100, 100)
            return mean(matmul(a, randn(100, 100)))

        set_device("cpu")
        cpu_result = benchmark_device(my_operation)
        set_device("cuda")
        gpu_result = benchmark_device(my_operation)
        print(f"Speedup: {cpu_result['mean_time'] / gpu_result['mean_time']:.1f}x")

    def test_training(self):
        set_device("cuda")
        manager = HierarchyManager()
        level0 = HierarchicalLevel(0, input_size=100, output_size=200, temporal_resolution=1)
        level0.add_layer(ReactiveLayer(100, 200))
        manager.add_level(level0)
        level1 = HierarchicalLevel(1, input_size=200, output_size=400, temporal_resolution=2)
        level1.add_layer(HebbianCore(200, 400))
        manager.add_level(level1)
        level2 = HierarchicalLevel(2, input_size=400, output_size=800, temporal_resolution=4)
        level2.add_layer(HebbianCore(400, 800))
        manager.add_level(level2)
        data = to_gpu(np.random.randn(200, 100))
        start = time.time()
        representations = manager.process_hierarchy(data, 200)
        assert time.time() > start
        assert [tuple(each.shape) for each in representations] == [(200, 200), (200, 400), (200, 800)]
