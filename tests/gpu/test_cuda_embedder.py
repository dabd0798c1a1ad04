"""Embedders on CUDA: the CPU's bits, rows of mapped tables through pinned memory, and limits that hold."""

import gc

import pytest
import torch

from torch_hrr import runtime
from torch_hrr.encoding import (
    ConfigurableSinusoidalEmbedder,
    GPUAccelerator,
    GPUConfig,
    MappedTable,
    MemoryStorageConfig,
    SinusoidalConfig,
    attention_weights,
    rotate,
    save_table,
)

MEGABYTE = 2**20


def embedder(device, **fields):
    config = SinusoidalConfig(**{"vocab_size": 500, "embedding_dim": 64, **fields})
    return ConfigurableSinusoidalEmbedder(config, generator=torch.Generator().manual_seed(1), device=device)


def test_a_gpu_is_chosen_and_has_the_bits_of_the_cpu():
    with runtime.GPUContext("auto"):
        assert embedder(None).weight.is_cuda and not embedder(None, enable_gpu_acceleration=False).weight.is_cuda
    ids, positions = torch.randint(0, 500, (4, 33)), torch.randint(0, 2**31, (33,))
    for fields in (
        {},
        {"use_mixed_precision": True},
        {"precision": "bfloat16"},
        {"layout": "half", "temperature": 3.0},
    ):
        here, there = embedder("cpu", **fields), embedder("cuda", **fields)
        assert torch.equal(there(ids, positions).cpu(), here(ids, positions))
        assert torch.equal(there(ids.cuda()).cpu(), here(ids))
    info = there.get_gpu_acceleration_info()
    assert info["gpu_acceleration_enabled"] is True and info["device"].startswith("cuda")


@pytest.mark.parametrize("cache_rows", (0, 50, 10_000))
def test_a_mapped_table_feeds_the_gpu(tmp_path, cache_rows):
    table = torch.randn(500, 64)
    save_table(tmp_path / "table", table)
    config = MemoryStorageConfig(use_gpu_memory_mapping=cache_rows > 0, cache_rows=max(cache_rows, 1))
    module = ConfigurableSinusoidalEmbedder(
        SinusoidalConfig(vocab_size=500, embedding_dim=64), MappedTable(tmp_path / "table", config, device="cuda")
    )
    inside = embedder("cuda")
    inside.load_state_dict({"weight": table})
    for _ in range(50):
        ids = (torch.rand(8, 40, device="cuda") ** 4 * 500).long()
        assert torch.equal(module(ids), inside(ids))
    assert (module.table.hit_rate > 0) == (cache_rows > 0)


def test_advice_fits_and_more_does_not():
    module = embedder("cuda", max_sequence_length=1024)
    batch = module.optimize_for_gpu(512)["optimal_batch_size"]
    gc.collect()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    ids = torch.randint(1, 500, (batch, 1024), device="cuda")
    module(ids).sum().backward()
    used = torch.cuda.max_memory_allocated() - before
    assert 128 * MEGABYTE < used <= 512 * MEGABYTE


@pytest.mark.alone
def test_free_memory_and_its_limit():
    before = runtime.available_memory("cuda")
    held = torch.empty(512 * MEGABYTE, dtype=torch.uint8, device="cuda")
    assert 256 * MEGABYTE < before - runtime.available_memory("cuda") < 1024 * MEGABYTE
    del held
    try:
        limited = GPUAccelerator(GPUConfig(memory_limit=1024, memory_growth=False), device="cuda")
        assert torch.cuda.memory_reserved() >= 1020 * MEGABYTE
        assert limited.available_memory() <= 1024 * MEGABYTE
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1100 * MEGABYTE, dtype=torch.uint8, device="cuda")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.cuda.empty_cache()


def test_training_in_half_precision_and_its_profile():
    trainer = GPUAccelerator(GPUConfig(enable_mixed_precision=True), device="cuda")
    model = torch.nn.Sequential(embedder("cuda"), torch.nn.Linear(64, 500).cuda())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    ids, losses = torch.randint(1, 500, (16, 20), device="cuda"), []
    for step in range(60):
        if step == 59:
            trainer.start_profiling()
        optimizer.zero_grad()
        with trainer.autocast():
            loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
        trainer.train_step(loss, optimizer)
        losses.append(float(loss.detach()))
    summary = trainer.stop_profiling()
    assert losses[-1] < losses[0] / 4 and trainer.scaler.is_enabled()
    assert summary["torch_hrr::embed_positions"]["calls"] == 1
    assert any(row["device_ms"] > 0 for row in summary.values())


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32))
def test_attention_by_distance(dtype):
    q, k = (torch.randn(2, 4, 50, 32, device="cuda").to(dtype) for _ in range(2))
    here = attention_weights(*(rotate(x.cpu().double()) for x in (q, k)), causal=True)
    there = GPUAccelerator(device="cuda").optimized_attention_weights(rotate(q), rotate(k), causal=True)
    bound = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-5}[dtype]
    assert there.dtype == dtype and (there.cpu().double() - here).abs().max() < bound
