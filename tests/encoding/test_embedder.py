"""The embedder: its formula, padding, frequencies, sizes, files, measurements and advice."""

import copy
import math
import time

import pytest
import torch

import torch_hrr
from torch_hrr.encoding import ConfigurableSinusoidalEmbedder, GPUConfig, SinusoidalConfig, sinusoidal_encoding

SMALL = {"vocab_size": 50, "embedding_dim": 10}
WAYS = {
    "fused": {},
    "plain": {"use_vectorized_operations": False},
    "learned": {"learnable_frequencies": True},
    "logarithms": {"learnable_frequencies": True, "log_frequency": True},
    "plain_learned": {"learnable_frequencies": True, "use_vectorized_operations": False},
    "recomputed": {"gradient_checkpointing": True, "use_vectorized_operations": False},
}
ways = pytest.mark.parametrize("way", WAYS)


def embedder(way="fused", seed=0, **fields):
    config = SinusoidalConfig(**{**SMALL, **WAYS[way], **fields})
    return ConfigurableSinusoidalEmbedder(config, generator=torch.Generator().manual_seed(seed), device="cpu")


def tokens(*shape):
    ids = torch.randint(0, SMALL["vocab_size"], shape)
    ids[..., 0] = 0
    return ids


def formula(module, ids, positions=None):
    """(token + encoding) / temperature in double, zero for padding."""
    config = module.config
    places = torch.arange(ids.shape[-1]) if positions is None else positions
    pairs = torch.arange(math.ceil(config.embedding_dim / 2), dtype=torch.float64)
    frequencies = config.frequency_scaling * config.base_frequency ** (-2 * pairs / config.embedding_dim)
    angles = places.double().unsqueeze(-1) * frequencies + config.phase_shift
    waves = [angles.sin(), angles.cos()]
    if config.layout == "half":
        waves = torch.cat(waves, -1)[..., : config.embedding_dim]
    else:
        waves = torch.stack(waves, -1).flatten(-2)[..., : config.embedding_dim]
    result = (module.weight.detach().double()[ids] + waves) / config.temperature
    if config.padding_id is not None:
        result[ids == config.padding_id] = 0
    return result


@ways
@pytest.mark.parametrize("embedding_dim", (10, 7))
@pytest.mark.parametrize("layout", ("interleaved", "half"))
def test_formula(way, embedding_dim, layout):
    module = embedder(
        way,
        embedding_dim=embedding_dim,
        layout=layout,
        base_frequency=500.0,
        frequency_scaling=0.5,
        phase_shift=0.25,
        temperature=2.0,
    )
    ids = tokens(3, 2, 6)
    torch.testing.assert_close(module(ids).double(), formula(module, ids), atol=2e-6, rtol=0)
    assert torch.equal(module.embed(ids), module(ids)) and not module(ids)[ids == 0].any()
    positions = torch.tensor([5, 3, 0, 0, 99, 100])
    torch.testing.assert_close(module(ids, positions).double(), formula(module, ids, positions), atol=2e-5, rtol=0)


def test_without_padding_every_token_has_a_row():
    module = embedder(padding_id=None)
    assert module(tokens(4, 5)).abs().sum(-1).min() > 0 and module.weight[0].any()
    other = embedder(padding_id=7)
    assert not other(torch.tensor([7])).any() and other(torch.tensor([0])).any()


@ways
def test_a_token_out_of_range_is_an_error(way):
    for token in (-1, 50):
        with pytest.raises(IndexError):
            embedder(way)(torch.tensor([1, token]))


@ways
def test_positions_broadcast_with_ids(way):
    module, ids = embedder(way), tokens(3, 4)
    positions = torch.randint(0, 100, (2, 1, 4))
    each = torch.stack([module(ids, row) for row in positions])
    assert torch.equal(module(ids, positions), each)
    for shape in ((3,), (2, 4)):
        with pytest.raises((ValueError, RuntimeError)):
            module(ids, torch.zeros(shape, dtype=torch.int64))


def test_longer_sequences_than_the_configuration_reckons_with():
    module = embedder(max_sequence_length=4, vocab_size=2)
    ids = torch.ones(1, 3000, dtype=torch.int64)
    torch.testing.assert_close(module(ids).double(), formula(module, ids), atol=1e-6, rtol=0)


@ways
def test_gradients_reach_what_is_learned_and_not_padding(way):
    module = embedder(way)
    ids = tokens(3, 6)
    weights = torch.randn(3, 6, 10)
    (module(ids) * weights).sum().backward()
    expected = torch.zeros(50, 10).index_put((ids,), weights * (ids != 0).unsqueeze(-1), accumulate=True)
    torch.testing.assert_close(module.weight.grad, expected)
    if module.frequencies is None:
        assert [name for name, _ in module.named_parameters()] == ["weight"]
    else:
        # Row by row: d/df of sin(pf) and cos(pf) is p cos(pf) and -p sin(pf); df = f dlog f.
        positions = torch.arange(6.0)
        waves = sinusoidal_encoding(positions, 10)
        kept = weights * (ids != 0).unsqueeze(-1)
        slopes = positions.unsqueeze(-1) * (kept[..., 0::2] * waves[:, 1::2] - kept[..., 1::2] * waves[:, 0::2])
        factor = 10000.0 ** (-torch.arange(0, 10, 2) / 10) if way == "logarithms" else 1.0
        torch.testing.assert_close(module.frequencies.weight.grad, slopes.sum((0, 1)) * factor, atol=1e-4, rtol=1e-4)


def test_logarithms_are_taken_back_in_double():
    """At ten million a frequency that is rounded once more is another angle."""
    module, ids = embedder("logarithms", padding_id=None), torch.arange(20)
    positions = torch.randint(9_000_000, 10_000_000, (20,))
    angles = positions.double().unsqueeze(-1) * module.frequencies.weight.double().exp()
    expected = module.weight[:20].double() + torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
    torch.testing.assert_close(module(ids, positions).double(), expected, atol=1e-6, rtol=0)


def test_checkpointing_keeps_less():
    def kept(**fields):
        module, saved = embedder("plain", **fields), []
        with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.nbytes) or x, lambda x: x):
            module(tokens(8, 20), torch.rand(8, 20, requires_grad=True)).sum()
        return sum(saved)

    assert kept(gradient_checkpointing=True) < kept() / 5


def test_another_vocabulary_keeps_known_rows():
    module = embedder()
    before = module.weight.detach().clone()
    module.adapt_to_vocabulary(70, torch.Generator().manual_seed(1))
    assert module.config.vocab_size == 70 and torch.equal(module.weight[:50], before)
    assert module.weight[50:].std() > 0.8 and module(torch.tensor([69])).shape == (1, 10)
    module.adapt_to_vocabulary(20)
    assert torch.equal(module.weight, before[:20])
    with pytest.raises(IndexError):
        module(torch.tensor([20]))
    assert module.config.vocab_size == 20 and module.weight.requires_grad


@pytest.mark.parametrize("way", ("fused", "logarithms"))
def test_another_dimension_starts_at_its_own_ladder(way):
    module = embedder(way)
    before = module.weight.detach().clone()
    with torch.no_grad():
        for parameter in module.frequencies.parameters() if module.frequencies else ():
            parameter.add_(1)
    for dim in (16, 6):
        module.adapt_embedding_dimension(dim)
        ids = tokens(2, 5)
        shared = min(dim, 10)
        assert torch.equal(module.weight[:, :6], before[:, :6]) and module.weight.shape == (50, dim)
        assert dim < 10 or torch.equal(module.weight[:, :shared], before)
        torch.testing.assert_close(module(ids).double(), formula(module, ids), atol=2e-6, rtol=0)


def test_another_dimension_keeps_what_was_said_of_frequencies():
    module = embedder("logarithms").double()
    module.frequencies.requires_grad_(False)
    module.adapt_embedding_dimension(16)
    assert module.frequencies.weight.dtype == torch.float64 and not module.frequencies.weight.requires_grad


def test_sizes_that_no_table_can_have_leave_it_as_it_is():
    module = embedder()
    config, before = module.config, module.weight.detach().clone()
    for adapt in ("adapt_to_vocabulary", "adapt_embedding_dimension"):
        with pytest.raises(ValueError, match=rf"^{adapt}: the table must have fewer than 2\^59 elements"):
            getattr(module, adapt)(2**60)
        with pytest.raises(ValueError, match=f"^{adapt}: table must hold data, got a meta tensor"):
            getattr(copy.deepcopy(module).to("meta"), adapt)(20)
    assert module.config == config and torch.equal(module.weight, before)


@ways
@pytest.mark.parametrize("strict", (False, True))
def test_every_embedder_is_exported(way, strict):
    module, ids = embedder(way), tokens(3, 4)
    assert torch.equal(torch.export.export(module, (ids,), strict=strict).module()(ids), module(ids))


@ways
def test_files(tmp_path, way):
    module, path, ids = embedder(way, use_relative_position=True), tmp_path / "embedder", tokens(2, 5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01)
    module.save(path)
    state = torch.get_rng_state()
    loaded = ConfigurableSinusoidalEmbedder.load(path, device="cpu")
    assert torch.equal(torch.get_rng_state(), state)
    assert loaded.config == module.config and torch.equal(loaded(ids), module(ids))
    assert all(torch.equal(x, y) for x, y in zip(loaded.parameters(), module.parameters(), strict=True))
    loaded(ids).sum().backward()
    assert loaded.weight.grad.any()


def test_half_modules_keep_their_frequencies(tmp_path):
    """A frequency in half precision would be another frequency; dtypes are kept by files too."""
    ids, positions = torch.full((1, 3), 5), torch.tensor([0, 30_000, 1_000_000])
    for way in ("fused", "learned", "logarithms", "plain_learned"):
        module = embedder(way)
        exact = module(ids, positions)
        for half in (copy.deepcopy(module).half(), copy.deepcopy(module).to(torch.bfloat16)):
            dtype = half.weight.dtype
            assert half(ids, positions).dtype == dtype
            coarse = {torch.float16: 0.01, torch.bfloat16: 0.05}[dtype]
            torch.testing.assert_close(half(ids, positions).float(), exact, atol=coarse, rtol=0)
            half.save(tmp_path / "half")
            again = ConfigurableSinusoidalEmbedder.load(tmp_path / "half", device="cpu")
            assert torch.equal(again(ids, positions), half(ids, positions))
        half(ids, positions).float().sum().backward()
        assert all(p.grad.dtype == p.dtype for p in half.parameters())


@ways
@pytest.mark.parametrize("policy", ("mixed_float16", "mixed_bfloat16", "float32"))
def test_mixed_precision_rounds_results_and_nothing_else(way, policy):
    gpu = GPUConfig(mixed_precision_policy=policy)
    module, ids = embedder(way, use_mixed_precision=True, gpu_config=gpu), tokens(2, 5)
    dtype = {"mixed_float16": torch.float16, "mixed_bfloat16": torch.bfloat16, "float32": torch.float32}[policy]
    assert torch.equal(module(ids), embedder(way)(ids).to(dtype)) and module.weight.dtype == torch.float32
    assert embedder(way, use_mixed_precision=True, precision="float64")(ids).dtype == torch.float64


def test_information_and_benchmark():
    module = embedder(gpu_config=GPUConfig(enable_profiling=True, memory_limit=64))
    info = module.get_gpu_acceleration_info()
    assert info["gpu_acceleration_enabled"] is False and info["device"] == "cpu"
    assert info["parameter_bytes"] == 50 * 10 * 4 and info["available_memory_mb"] <= 64
    result = module.benchmark_gpu_performance(batch_size=4, seq_length=16, num_iterations=3)
    assert result["ms"] > 0 and result["speedup"] == pytest.approx(result["plain_ms"] / result["ms"])
    assert result["tokens_per_second"] == pytest.approx(4 * 16 * 1e3 / result["ms"])
    assert "torch_hrr::embed_positions" in result["profile"]


def test_times_are_milliseconds(monkeypatch):
    module = embedder()
    monkeypatch.setattr(module, "forward", lambda ids: time.sleep(0.02))
    result = module.benchmark_gpu_performance(1, 1, 2)
    assert 20 <= result["ms"] < 2000 and 20 <= result["plain_ms"] < 2000


def test_a_benchmark_leaves_a_recording_and_the_default_generator_alone():
    module = embedder(gpu_config=GPUConfig(enable_profiling=True))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    module.enable_gpu_profiling()
    found = module.benchmark_gpu_performance(2, 3, 4)
    assert "profile" not in found and module.disable_gpu_profiling()["torch_hrr::embed_positions"]["calls"] >= 4
    assert "profile" in module.benchmark_gpu_performance(2, 3, 4)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_accelerator_goes_with_the_table():
    module = embedder()
    module.accelerator._work_on(torch.device("cuda", 1))
    module.to("cpu")
    assert module.accelerator.device.type == "cpu" and module.get_gpu_acceleration_info()["device"] == "cpu"
    double = embedder(precision="float64", use_mixed_precision=True)
    assert not double.get_gpu_acceleration_info()["mixed_precision"]


def test_profiling_is_switched_on_and_off(tmp_path):
    module = embedder()
    assert module.disable_gpu_profiling() == {}
    module.enable_gpu_profiling()
    module(tokens(2, 3))
    module(tokens(2, 3))
    summary = module.disable_gpu_profiling(tmp_path / "trace.json")
    assert summary["torch_hrr::embed_positions"]["calls"] == 2
    assert summary["torch_hrr::embed_positions"]["cpu_ms"] > 0
    assert "torch_hrr::embed_positions" in (tmp_path / "trace.json").read_text()


def live_bytes(function):
    """The most that is allocated at once."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    live = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        live += event.nbytes()
        most = max(most, live)
    return most


@pytest.mark.parametrize("fields", ({}, {"use_mixed_precision": True}, {"precision": "float64"}), ids=str)
@pytest.mark.parametrize("way", ("fused", "plain", "learned"))
def test_advice_counts_what_is_really_allocated(way, fields):
    module = embedder(way, embedding_dim=64, max_sequence_length=100, **fields)
    ids = torch.randint(1, 50, (32, 100))
    gradient = torch.ones(32, 100, 64, dtype=module(ids).dtype)
    with torch.no_grad():
        inference = live_bytes(lambda: module(ids))
    training = live_bytes(lambda: module(ids).backward(gradient.clone()))
    for measured, trains in ((inference, False), (training, True)):
        advice = module.optimize_for_gpu(100, training=trains)
        counted = 32 * advice["sequence_bytes"] + advice["fixed_bytes"]
        assert measured <= 1.02 * counted and counted <= 2 * measured
        batch = advice["optimal_batch_size"]
        used = [count * advice["sequence_bytes"] + advice["fixed_bytes"] for count in (batch, batch + 1)]
        assert used[0] <= 0.9 * 100 * 2**20 < used[1]


def test_advice_counts_length_dtype_and_what_is_free(monkeypatch):
    module = embedder(embedding_dim=64)
    once, twice = (module.optimize_for_gpu(100, length)["optimal_batch_size"] for length in (512, 1024))
    assert once in (2 * twice, 2 * twice + 1)
    assert module.optimize_for_gpu(100)["optimal_batch_size"] == once
    half = embedder(embedding_dim=64, precision="float16").optimize_for_gpu(100, 512, False)["optimal_batch_size"]
    assert half > 1.9 * module.optimize_for_gpu(100, 512, False)["optimal_batch_size"]
    assert module.optimize_for_gpu(0)["optimal_batch_size"] == 0
    monkeypatch.setattr(torch_hrr.runtime, "available_memory", lambda device: 100 * 2**20)
    assert module.optimize_for_gpu() == module.optimize_for_gpu(100)
    assert "use_mixed_precision=True" in module.optimize_for_gpu(100)["recommendations"][0]


@ways
@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((torch.tensor(1),), ValueError, "embed: ids must have shape"),
        ((torch.ones(2),), TypeError, "embed: ids must be int32 or int64"),
        ((torch.tensor([1]), torch.tensor([True])), TypeError, "embed: positions must be integers"),
    ],
    ids=range(3),
)
def test_what_cannot_be_embedded(way, arguments, error, text):
    with pytest.raises(error, match=text):
        embedder(way)(*arguments)


def test_attention_of_rows_without_a_length():
    with pytest.raises(
        ValueError, match=r"^attention_weights: query and key must have shapes \[..., L, d\] .* got \[3\]"
    ):
        embedder(use_relative_position=True).attention_weights(torch.ones(3), torch.ones(3))
