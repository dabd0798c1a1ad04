"""The accelerator: devices, precision with loss scaling, compilation, memory; and its functions against definitions."""

import copy
import math

import pytest
import torch

from torch_hrr import runtime
from torch_hrr.encoding import GPUAccelerator, GPUConfig, attention_weights, sinusoidal_encoding


def accelerator(**fields):
    return GPUAccelerator(GPUConfig(**fields), device="cpu")


@pytest.mark.parametrize("vectorize", (True, False))
def test_vectorized_encoding(vectorize):
    positions = torch.arange(12).view(3, 4)
    arguments = (9, 500.0, 0.5, 0.25, "half")
    encoded = accelerator(vectorize=vectorize).vectorized_sinusoidal_encoding(positions, *arguments)
    torch.testing.assert_close(encoded, sinusoidal_encoding(positions, *arguments), atol=3e-7, rtol=0)
    half = accelerator(vectorize=vectorize, enable_mixed_precision=True, mixed_precision_policy="mixed_bfloat16")
    assert torch.equal(half.vectorized_sinusoidal_encoding(positions, *arguments), encoded.bfloat16())


@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize(
    ("positions", "text"),
    [
        ([1, 2], "positions must be a torch.Tensor or a NumPy array, got list"),
        (torch.ones(2, dtype=torch.bool), "positions must be integers"),
    ],
    ids=["list", "bool"],
)
def test_what_cannot_be_encoded(vectorize, positions, text):
    with pytest.raises(TypeError, match=f"^vectorized_sinusoidal_encoding: {text}"):
        accelerator(vectorize=vectorize).vectorized_sinusoidal_encoding(positions, 4)


@pytest.mark.parametrize("vectorize", [True, False])
def test_integer_positions_give_the_default_dtype(vectorize):
    torch.set_default_dtype(torch.float64)
    assert accelerator(vectorize=vectorize).vectorized_sinusoidal_encoding(torch.arange(3), 4).dtype == torch.float64


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((torch.ones(3), torch.tensor([0])), r"table must have shape \[V, dim\], got \[3\]"),
        ((torch.ones(3, 2), torch.tensor([0]), 3), "padding_id must be at least 0 and at most 2, got 3"),
    ],
    ids=range(2),
)
def test_what_cannot_be_looked_up(arguments, text):
    with pytest.raises(ValueError, match=f"batch_embedding_lookup: {text}"):
        accelerator().batch_embedding_lookup(*arguments)


def test_batch_lookup():
    table, ids = torch.randn(7, 3, requires_grad=True), torch.tensor([[1, 0, 6], [6, 6, 2]])
    rows = accelerator().batch_embedding_lookup(table, ids, padding_id=6)
    assert torch.equal(rows, table[ids] * (ids != 6).unsqueeze(-1))
    rows.sum().backward()
    assert table.grad.sum(1).tolist() == [3, 3, 3, 0, 0, 0, 0]
    assert accelerator(enable_mixed_precision=True).batch_embedding_lookup(table, ids).dtype == torch.float16
    with pytest.raises(IndexError, match=r"^batch_embedding_lookup: ids must be in 0\.\.6, got others$"):
        accelerator().batch_embedding_lookup(table, torch.tensor([7]))


def test_frequencies_are_rounded_once():
    found = accelerator().parallel_frequency_computation(7, 500.0, 0.5)
    assert torch.equal(found, torch.tensor([0.5 * 500.0 ** (-2 * i / 7) for i in range(4)]))
    assert accelerator().parallel_frequency_computation(0).shape == (0,)
    assert accelerator().parallel_frequency_computation(4, dtype=torch.float64).dtype == torch.float64


def test_attention_weights_go_where_queries_go():
    q, k, bias = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(3, 5)
    mask = torch.rand(3, 5) < 0.8
    found = accelerator().optimized_attention_weights(q, k, mask, bias, causal=True)
    assert torch.equal(found, attention_weights(q, k, mask, bias, causal=True))
    elsewhere = GPUAccelerator(GPUConfig(min_batch_for_gpu=2), device="meta")
    assert elsewhere.optimized_attention_weights(q, k, mask, bias).is_meta
    with pytest.raises(ValueError, match=r"^optimized_attention_weights: key must hold data, got a meta tensor$"):
        accelerator().optimized_attention_weights(q, k.to("meta"))


def test_small_batches_stay_where_they_are():
    elsewhere = GPUAccelerator(GPUConfig(min_batch_for_gpu=3), device="meta")
    assert elsewhere.place(torch.ones(3, 1)).is_meta and elsewhere.place(torch.ones(())).is_meta
    assert not elsewhere.place(torch.ones(2, 9)).is_meta
    assert elsewhere.vectorized_sinusoidal_encoding(torch.arange(2), 4).device.type == "cpu"


class Scaled(torch.nn.Module):
    """A loss whose gradient is below what float16 can hold."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self):
        return (self.weight.half() * 2.0**-13).float().sum() * 2.0**-13


def test_loss_scaling_keeps_small_gradients_and_skips_infinite_ones():
    for policy, moved in (("mixed_float16", True), ("mixed_bfloat16", False)):
        model, trainer = Scaled(), accelerator(enable_mixed_precision=True, mixed_precision_policy=policy)
        optimizer = torch.optim.SGD(model.parameters(), lr=2.0**25)
        trainer.train_step(model(), optimizer)
        # 2^-26 is no float16: without scaling it rounds to nothing.
        assert model.weight.tolist() == ([0.5] * 4 if moved else [1.0] * 4)
    trainer = accelerator(enable_mixed_precision=True)
    before, scale = copy.deepcopy(model.state_dict()), trainer.scaler.get_scale()
    trainer.train_step(model.weight.sum() * math.inf, torch.optim.SGD(model.parameters(), lr=1.0))
    assert torch.equal(model.weight, before["weight"]) and trainer.scaler.get_scale() == scale / 2


def test_autocast_follows_the_policy():
    x = torch.randn(4, 4)
    for fields, dtype in (
        ({}, torch.float32),
        ({"enable_mixed_precision": True}, torch.float16),
        ({"enable_mixed_precision": True, "mixed_precision_policy": "mixed_bfloat16"}, torch.bfloat16),
        ({"enable_mixed_precision": True, "mixed_precision_policy": "float32"}, torch.float32),
    ):
        with accelerator(**fields).autocast():
            assert (x @ x).dtype == dtype
        assert accelerator(**fields).info()["loss_scaling"] == (dtype == torch.float16)


def test_compilation(monkeypatch):
    def function(x):
        return x + 1

    assert accelerator().compile(function) is function
    monkeypatch.setattr(torch, "compile", lambda function: ("compiled", function))
    assert accelerator(enable_xla=True).compile(function) == ("compiled", function)


def test_batch_sizes_follow_from_what_is_free(monkeypatch):
    assert 3 * 2**20 < accelerator().available_memory() < 2**60
    assert accelerator(memory_limit=3).available_memory() == 3 * 2**20
    assert accelerator().optimal_batch_size(10, 50, 1000) == 85
    assert accelerator().optimal_batch_size(10, 901, 1000) == 0
    monkeypatch.setattr(runtime, "available_memory", lambda device: 5000)
    assert accelerator(memory_limit=10).optimal_batch_size(100) == 45


class Cards:
    """What torch.cuda says of a card, and what it is told."""

    def __init__(self, monkeypatch, free, total, allocated, reserved):
        self.fractions, self.filled = [], []
        answers = {
            "mem_get_info": lambda device: (free, total),
            "memory_allocated": lambda device: allocated,
            "memory_reserved": lambda device: reserved,
            "get_device_properties": lambda device: type("Properties", (), {"total_memory": total}),
            "current_device": lambda: 0,
            "set_per_process_memory_fraction": lambda fraction, device: self.fractions.append((fraction, device)),
        }
        for name, answer in answers.items():
            monkeypatch.setattr(torch.cuda, name, answer)
        empty = torch.empty

        def remembered(*sizes, device=None, **options):
            if device is not None and torch.device(device).type == "cuda":
                self.filled.append(sizes[0])
                device = "meta"
            return empty(*sizes, device=device, **options)

        monkeypatch.setattr(torch, "empty", remembered)
        monkeypatch.setattr(runtime.device, "_problem", lambda device: None)
        monkeypatch.setattr(runtime.device, "_has_kernels", lambda kind: True)


def test_the_memory_of_a_card(monkeypatch):
    """Free is what the driver has and what torch holds unused; the limit is torch's, and reserved at once if asked."""
    megabyte = 2**20
    cards = Cards(monkeypatch, 300 * megabyte, 1000 * megabyte, allocated=50 * megabyte, reserved=80 * megabyte)
    unlimited = GPUAccelerator(GPUConfig(), device="cuda")
    assert unlimited.available_memory() == 330 * megabyte and not cards.fractions
    limited = GPUAccelerator(GPUConfig(memory_limit=250), device="cuda")
    assert limited.available_memory() == 200 * megabyte
    assert cards.fractions == [(0.25, 0)] and not cards.filled
    GPUAccelerator(GPUConfig(memory_limit=251, memory_growth=False), device="cuda")
    assert cards.filled == [170 * megabyte]
