"""Tables in mapped files: the same rows with and without a cache, memory in use, damage, threads and copies."""

import concurrent.futures
import copy
import os
import pathlib
import pickle
import subprocess

import numpy as np
import pytest
import torch

import torch_hrr
from torch_hrr import io
from torch_hrr.encoding import (
    ConfigurableSinusoidalEmbedder,
    MappedTable,
    MemoryStorageConfig,
    SinusoidalConfig,
    embed_positions,
    save_table,
)

ROWS, DIM = 500, 6
CACHES = {
    "none": MemoryStorageConfig(),
    "small": MemoryStorageConfig(use_gpu_memory_mapping=True, cache_rows=7),
    "large": MemoryStorageConfig(use_gpu_memory_mapping=True, cache_rows=10_000),
}
caches = pytest.mark.parametrize("cache", CACHES)


@pytest.fixture
def saved(tmp_path):
    table = torch.randn(ROWS, DIM)
    save_table(tmp_path / "table", table)
    return table, tmp_path / "table"


def requests(count, size=20):
    """Few tokens often, many seldom."""
    return [(torch.rand(2, size) ** 4 * ROWS).long() for _ in range(count)]


def test_vmap_over_ids_is_an_error(saved):
    """The rows are looked up on the host."""
    mapped, ids = MappedTable(saved[1], device="cpu"), torch.arange(6).view(2, 3)
    config = SinusoidalConfig(vocab_size=ROWS, embedding_dim=DIM, enable_gpu_acceleration=False)
    for call, name in ((mapped, "MappedTable"), (ConfigurableSinusoidalEmbedder(config, mapped), "embed")):
        with pytest.raises(RuntimeError, match=f"^{name}: ids must not be batched by vmap"):
            torch.func.vmap(call)(ids)


@caches
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_rows_are_those_of_the_table(saved, tmp_path, cache, dtype):
    table = saved[0].to(dtype)
    save_table(tmp_path / "other", table)
    mapped = MappedTable(tmp_path / "other", CACHES[cache], device="cpu")
    assert (mapped.shape, mapped.dtype) == (table.shape, dtype)
    for ids in [*requests(40), torch.empty(0, 3, dtype=torch.int64), torch.arange(ROWS).int()]:
        assert torch.equal(mapped(ids), table[ids.long()])


def test_the_rows_used_last_stay(saved):
    table, path = saved
    mapped = MappedTable(path, MemoryStorageConfig(use_gpu_memory_mapping=True, cache_rows=4), device="cpu")

    def look_up(*ids):
        before = mapped.hits, mapped.misses
        assert torch.equal(mapped(torch.tensor(ids)), table[list(ids)])
        return mapped.hits - before[0], mapped.misses - before[1]

    assert look_up(1, 2, 2, 3, 1) == (0, 3)
    assert look_up(4, 1) == (1, 1)  # 1 and 4, then 2 and 3
    assert look_up(5, 6) == (0, 2)  # 2 and 3 make room
    assert look_up(1, 4, 5, 6) == (4, 0)
    assert look_up(2, 1) == (1, 1) and look_up(2, 3) == (1, 1)
    # More at once than there is room for: what is used now is not driven out by what is used now.
    assert look_up(*range(10, 30), 2, 3) == (2, 20) and look_up(2, 3) == (2, 0)
    assert mapped.hit_rate == mapped.hits / (mapped.hits + mapped.misses) > 0
    mapped.clear_cache()
    assert mapped.hit_rate == 0 and look_up(2) == (0, 1)


def test_ids_may_be_an_array_and_must_hold_data(saved):
    table = MappedTable(saved[1])
    ids = np.array([3, 1, 3])
    assert torch.equal(table(ids), table(torch.from_numpy(ids)))
    with pytest.raises(ValueError, match=r"^MappedTable: ids must hold data, got a meta tensor$"):
        table(torch.zeros(2, dtype=torch.int64, device="meta"))
    with pytest.raises(IndexError, match=r"^gather: ids must be in 0\.\.\d+, got -1$"):
        table.gather(np.array([-1]))


def test_without_a_cache_nothing_is_hit(saved):
    mapped = MappedTable(saved[1], device="cpu")
    for ids in requests(3):
        mapped(ids)
    assert mapped.hits == 0 and mapped.misses > 0


@caches
def test_an_embedder_on_a_mapped_table(saved, tmp_path, cache):
    """The same bits as with the table in memory; only the rest of the embedder is stored."""
    table, path = saved
    mapped = MappedTable(path, CACHES[cache], device="cpu")
    for fields in ({}, {"learnable_frequencies": True}, {"use_vectorized_operations": False}, {"padding_id": None}):
        config = SinusoidalConfig(vocab_size=ROWS, embedding_dim=DIM, temperature=2.0, **fields)
        inside = ConfigurableSinusoidalEmbedder(config, device="cpu")
        inside.load_state_dict({"weight": table}, strict=False)
        module = ConfigurableSinusoidalEmbedder(config, mapped)
        for ids in requests(5):
            assert torch.equal(module(ids), inside(ids))
        assert "weight" not in dict(module.named_parameters())
        module.save(tmp_path / "embedder")
        assert (tmp_path / "embedder").stat().st_size < ROWS * DIM
        loaded = ConfigurableSinusoidalEmbedder.load(tmp_path / "embedder", table=mapped)
        assert torch.equal(loaded(ids), inside(ids))
        with pytest.raises(ValueError, match="table must be a parameter, got a mapped one"):
            module.adapt_to_vocabulary(3)
    half = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM, precision="float16"), mapped)
    assert torch.equal(half(ids), embed_positions(ids, table, padding_idx=0, dtype=torch.float16))
    assert half.get_gpu_acceleration_info()["cache_hit_rate"] == mapped.hit_rate
    with pytest.raises(ValueError, match="table must have shape \\[9, 6\\], got \\[500, 6\\]"):
        ConfigurableSinusoidalEmbedder(SinusoidalConfig(9, DIM), mapped)


def test_a_compiled_embedder_leaves_the_file_to_the_host(saved):
    module = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), MappedTable(saved[1], device="cpu"))
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager")
    for ids in requests(2):
        assert torch.equal(compiled(ids), module(ids))
    torch._dynamo.reset()


def test_a_token_out_of_range_changes_nothing(saved):
    table, path = saved
    mapped = MappedTable(path, CACHES["small"], device="cpu")
    for ids in ([3, -1], [3, ROWS]):
        with pytest.raises(IndexError, match=f"ids must be in 0..{ROWS - 1}, got {ids[1]}"):
            mapped(torch.tensor(ids))
    with pytest.raises(TypeError, match="ids must be int32 or int64, got torch"):
        mapped(torch.ones(3))
    assert mapped.misses == 0 and torch.equal(mapped(torch.tensor([3])), table[[3]])


def test_damage_is_found(saved, tmp_path):
    path = saved[1]
    whole = path.read_bytes()
    for at in (3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(torch_hrr.IntegrityError, match="table"):
            MappedTable(path)
    # Without reading it all, a change of a row is not seen; one of the header or the length is.
    assert MappedTable(path, verify=False).shape == (ROWS, DIM)
    for damaged in (whole[:-1], whole + b"0", b"", whole[:7]):
        path.write_bytes(damaged)
        with pytest.raises(torch_hrr.IntegrityError, match="table"):
            MappedTable(path, verify=False)
    for tensors in ({"table": torch.ones(3)}, {"rows": torch.ones(3, 3)}, {"table": torch.ones(3, 3).int()}):
        io.save(path, tensors, {}, format="torch_hrr.embedding_table", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must hold one floating table"):
            MappedTable(path)
    with pytest.raises(FileNotFoundError):
        MappedTable(tmp_path / "none")


def test_a_table_that_is_replaced_stays_open(saved):
    table, path = saved
    mapped = MappedTable(path, device="cpu")
    save_table(path, table + 1)
    assert torch.equal(mapped(torch.arange(ROWS)), table)
    assert torch.equal(MappedTable(path, device="cpu")(torch.arange(ROWS)), table + 1)


def test_copies_open_the_file_again(saved):
    table, path = saved
    mapped = MappedTable(path, CACHES["small"], device="cpu")
    module = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), mapped)
    (ids,) = requests(1)
    for other in (copy.deepcopy(mapped), pickle.loads(pickle.dumps(mapped))):
        assert torch.equal(other(ids), table[ids]) and other.config == mapped.config
    assert torch.equal(copy.deepcopy(module)(ids), module(ids))


def test_an_embedder_is_not_saved_over_its_table(saved, tmp_path):
    table, path = saved
    (tmp_path / "link").symlink_to(path)
    module = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), MappedTable(path, device="cpu"))
    for name in ("table", "link"):
        for save in (module.save, module.save_config):
            with pytest.raises(ValueError, match=rf"^{save.__name__}: path must not be that of the mapped table, got "):
                save(tmp_path / name)
    assert torch.equal(MappedTable(path, device="cpu")(torch.arange(ROWS)), table)


def test_an_embedder_is_loaded_with_its_table(saved, tmp_path):
    mapped = MappedTable(saved[1], device="cpu")
    module = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), mapped)
    module.save(tmp_path / "module")
    (ids,) = requests(1)
    again = ConfigurableSinusoidalEmbedder.load(tmp_path / "module", table=mapped)
    assert torch.equal(again(ids), module(ids))
    ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), device="cpu").save(tmp_path / "whole")
    for name, given, text in (
        ("module", None, "no table: give the"),
        ("whole", mapped, "a table beside the given one"),
    ):
        with pytest.raises(torch_hrr.IntegrityError, match=f"must describe a Conf.*, got {text}"):
            ConfigurableSinusoidalEmbedder.load(tmp_path / name, table=given)


def test_a_copy_takes_no_table_of_another_shape(saved):
    _, path = saved
    mapped = MappedTable(path, device="cpu")
    save_table(path, torch.zeros(3, 5))
    text = r"must hold the table .* that it held, got \[3, 5\] of torch.float32"
    with pytest.raises(torch_hrr.IntegrityError, match=text):
        copy.deepcopy(mapped)


def test_a_cache_made_in_inference_mode_serves_outside(saved):
    table, path = saved
    with torch.inference_mode():
        mapped = MappedTable(path, CACHES["small"], device="cpu")
        mapped(torch.arange(3))
    assert torch.equal(mapped(torch.arange(2, 9)), table[2:9])


@caches
def test_autocast_sets_the_dtype_of_an_embedder(saved, cache):
    _, path = saved
    module = ConfigurableSinusoidalEmbedder(SinusoidalConfig(ROWS, DIM), MappedTable(path, CACHES[cache], device="cpu"))
    (ids,) = requests(1)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(module(ids), module(ids).bfloat16()) and module(ids).dtype == torch.bfloat16


def test_threads_share_a_cache(saved):
    table, path = saved
    mapped = MappedTable(path, CACHES["small"], device="cpu")
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for ids, rows in [(ids, pool.submit(mapped, ids)) for ids in requests(200)]:
            assert torch.equal(rows.result(), table[ids])
    assert mapped.hits + mapped.misses > 0


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="reads resident memory as Linux tells it")
def test_resident_memory_is_near_the_pages_in_use(tmp_path):
    """Of a table of 64 MiB 300 rows are used; pages may be in blocks of a few."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True).stdout.strip()
    if kind in ("tmpfs", "ramfs"):
        pytest.skip("files are memory here, in which the system maps what lies around a page")
    save_table(tmp_path / "table", torch.zeros(32768, 512))

    def resident():
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))

    # Once for the code, which is mapped too.
    MappedTable(tmp_path / "table", device="cpu")(torch.arange(64))
    before = resident()
    table = MappedTable(tmp_path / "table", device="cpu")
    opened = resident() - before
    table(torch.randperm(32768)[:300])
    used = resident() - before
    assert opened < 4 * 1024 and used < 4 * 1024 + 300 * 32


def test_what_is_no_table(tmp_path):
    for table, error in (
        (torch.ones(3), ValueError),
        (torch.ones(0, 3), ValueError),
        (torch.ones(3, 3).int(), TypeError),
    ):
        with pytest.raises(error, match="save_table: table must"):
            save_table(tmp_path / "table", table)
    assert os.listdir(tmp_path) == []
