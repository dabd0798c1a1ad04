"""Configurations: defaults, what is refused, how switches meet, and files."""

import dataclasses

import numpy as np
import pytest
import torch

import torch_hrr
from torch_hrr import io
from torch_hrr.encoding import ConfigurableSinusoidalEmbedder, GPUConfig, SinusoidalConfig


def test_defaults_are_those_written_down():
    config = SinusoidalConfig()
    assert (config.vocab_size, config.embedding_dim, config.max_sequence_length) == (10000, 128, 512)
    assert (config.base_frequency, config.temperature, config.padding_id) == (10000.0, 1.0, 0)
    assert not config.learnable_frequencies and config.dtype == torch.float32
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.vocab_size = 3
    assert hash(config) == hash(SinusoidalConfig())


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"temperature": 0}, "temperature must be finite and not 0 in torch.float32, got 0"),
        ({"temperature": 1e-50}, "temperature must be finite and not 0 in torch.float32, got 1e-50"),
        ({"temperature": -1e39}, r"temperature must be finite and not 0 in torch.float32, got -1e\+39"),
        ({"vocab_size": 2**60}, r"the table must have fewer than 2\^59 elements, got sizes"),
        ({"frequency_scaling": 1e30}, r"scale base\^\(-2i/dim\) must be at most 2\^60 for every i, got 1e\+30"),
        ({"base_frequency": 1e-300}, r"scale base\^\(-2i/dim\) must be at most 2\^60 for every i"),
        ({"vocab_size": 5, "padding_id": 5}, "padding_id must be below vocab_size = 5, got 5"),
        ({"log_frequency": True}, "log_frequency must be False without learnable_frequencies"),
        (
            {"log_frequency": True, "learnable_frequencies": True, "frequency_scaling": -1},
            "frequency_scaling must be above 0 with log_frequency, got -1",
        ),
    ],
    ids=range(9),
)
def test_fields_that_do_not_go_together(fields, text):
    with pytest.raises(ValueError, match=f"^SinusoidalConfig: {text}"):
        SinusoidalConfig(**fields)


def test_memory_is_reserved_up_to_a_limit():
    with pytest.raises(ValueError, match=r"^GPUConfig: memory_growth must be True without a memory_limit, got False$"):
        GPUConfig(memory_growth=False)


def test_switches_meet():
    """What either says of precision and compilation is on; what either forbids is off."""
    plain = SinusoidalConfig().acceleration()
    assert plain == GPUConfig() and plain.compute_dtype is None
    both = SinusoidalConfig(use_mixed_precision=True, gpu_config=GPUConfig(mixed_precision_policy="mixed_bfloat16"))
    assert both.acceleration().compute_dtype == torch.bfloat16
    assert (
        SinusoidalConfig(gpu_config=GPUConfig(enable_mixed_precision=True)).acceleration().compute_dtype
        == torch.float16
    )
    assert GPUConfig(enable_mixed_precision=True, mixed_precision_policy="float32").compute_dtype is None
    for given in (
        SinusoidalConfig(enable_gpu_acceleration=False, use_vectorized_operations=False, enable_xla_compilation=True),
        SinusoidalConfig(gpu_config=GPUConfig(enable_gpu=False, vectorize=False, enable_xla=True)),
    ):
        met = given.acceleration()
        assert (met.enable_gpu, met.vectorize, met.enable_xla) == (False, False, True)


def test_files(tmp_path):
    path = tmp_path / "config"
    config = SinusoidalConfig(
        vocab_size=np.int64(50),
        base_frequency=np.float32(500),
        phase_shift=1,
        padding_id=None,
        gpu_config=GPUConfig(memory_limit=4096, enable_mixed_precision=True),
    )
    embedder = ConfigurableSinusoidalEmbedder(config)
    embedder.save_config(path)
    assert SinusoidalConfig.load(path) == config
    assert type(SinusoidalConfig.load(path).vocab_size) is int
    assert ConfigurableSinusoidalEmbedder.load_config(path).config == config
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"500", b"501"))
    with pytest.raises(torch_hrr.IntegrityError, match="config"):
        SinusoidalConfig.load(path)
    for metadata in ({"vocab_size": 0}, {"colour": "red"}, {"gpu_config": {"memory_limit": -1}}, {"gpu_config": 3}):
        io.save(path, {}, metadata, format="torch_hrr.sinusoidal_config", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must describe a SinusoidalConfig"):
            SinusoidalConfig.load(path)
