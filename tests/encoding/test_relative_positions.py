"""Relative positions: rotations that shift encodings, biases by i - j, and attention weights in half types."""

import math

import pytest
import torch

from torch_hrr.encoding import (
    ConfigurableSinusoidalEmbedder,
    LearnableFrequencies,
    RelativePositionBias,
    SinusoidalConfig,
    attention_weights,
    rotate,
    sinusoidal_encoding,
)

SEEN = torch.ones(2, 2, dtype=torch.bool)

layouts = pytest.mark.parametrize("layout", ("interleaved", "half"))


@layouts
@pytest.mark.parametrize("shift", (1, -7, 2**31 - 100))
def test_a_rotation_shifts_an_encoding(layout, shift):
    """PE(t + k) = R(k) PE(t)."""
    positions = torch.arange(20)

    def encoded(at):
        return sinusoidal_encoding(at, 12, 500.0, 0.5, layout=layout, dtype=torch.float64)

    rotated = rotate(encoded(positions), torch.full((20,), shift), 500.0, 0.5, layout)
    torch.testing.assert_close(rotated, encoded(positions + shift), atol=1e-9, rtol=0)


@layouts
def test_scores_of_rotated_rows_depend_on_the_distance_alone(layout):
    q, k = torch.randn(2, 3, 8).expand(2, 3, 8), torch.randn(2, 3, 8)

    def scores(start):
        positions = torch.arange(3) + start
        return rotate(q, positions, layout=layout) @ rotate(k, positions, layout=layout).mT

    assert torch.equal(scores(0), rotate(q, layout=layout) @ rotate(k, layout=layout).mT)
    for start in (1, 1000, 2**31 - 3):
        torch.testing.assert_close(scores(start), scores(0), atol=3e-6, rtol=0)
    assert (scores(0) - q @ k.mT).abs().max() > 0.1


@layouts
def test_a_rotation_is_the_published_one_turned_back(layout):
    x, positions = torch.randn(5, 6, dtype=torch.float64), torch.arange(5)
    angles = positions.double().unsqueeze(1) * 10000.0 ** (-torch.arange(3).double() / 3)
    pairs = x.view(5, 3, 2) if layout == "interleaved" else x.view(5, 2, 3).mT
    turned = torch.view_as_real(
        torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones(()).double(), angles)
    )
    expected = turned.flatten(1) if layout == "interleaved" else turned.mT.flatten(1)
    torch.testing.assert_close(rotate(x, -positions, layout=layout), expected)


def test_rotation_in_half_rounds_once_and_has_gradients():
    x = torch.randn(4, 9, 8)
    assert torch.equal(rotate(x.half()), rotate(x.half().float()).half())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(rotate(x), rotate(x.clone()))
    assert rotate(x).norm().item() == pytest.approx(x.norm().item(), rel=1e-6)
    inputs = (torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True), torch.rand(3, dtype=torch.float64) * 9)
    inputs[1].requires_grad_()
    assert torch.autograd.gradcheck(rotate, inputs, check_forward_ad=True)


@pytest.mark.parametrize(
    ("x", "options", "error", "text"),
    [
        (torch.ones(3, 5), {}, ValueError, "^rotate: x must have a last dimension that is even, .*, got 5$"),
        (torch.ones(4), {}, ValueError, "shape \\[..., L, D\\]"),
        (torch.ones(3, 4, dtype=torch.int64), {}, TypeError, "x must be float32"),
        (torch.ones(3, 4), {"layout": "both"}, ValueError, "layout must be '"),
        (torch.ones(3, 4), {"base": -1.0}, ValueError, "^rotate: base must be finite and above 0, got -1$"),
        (torch.ones(3, 4), {"scale": math.nan}, ValueError, "^rotate: scale must be finite, got nan$"),
        (torch.ones(3, 4), {"positions": torch.ones(2, 5)}, ValueError, "^rotate: x and positions must broadcast"),
    ],
    ids=range(7),
)
def test_what_cannot_be_rotated(x, options, error, text):
    with pytest.raises(error, match=text):
        rotate(x, **options)


@pytest.mark.parametrize("features", (0, 6))
@pytest.mark.parametrize(("queries", "keys", "first"), ((5, 5, 0), (2, 7, 5), (4, 1, 0), (0, 3, 0), (3, 0, 0)))
def test_a_bias_depends_on_i_minus_j(features, queries, keys, first):
    module = RelativePositionBias(3, heads=2, features=features, base=50.0)
    assert not module(4, 4).any()
    torch.nn.init.normal_(module.weight)
    distances = torch.arange(queries).unsqueeze(1) + first - torch.arange(keys)
    if features:
        waves = sinusoidal_encoding(distances, features, 50.0, layout="half")
        expected = torch.einsum("hf,ijf->hij", module.weight, waves)
    else:
        expected = module.weight[:, distances.clamp(-3, 3) + 3]
    torch.testing.assert_close(module(queries, keys, first), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("features", (0, 4))
def test_a_bias_is_learned(features):
    """Attention to the token three before, from distances alone."""
    module = RelativePositionBias(8, features=features, base=20.0)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.3)
    target = torch.arange(3, 16) - 3
    for _ in range(60):
        optimizer.zero_grad()
        scores = module(16, 16)[0][3:].masked_fill(torch.ones(13, 16).triu(4).bool(), -1e9)
        torch.nn.functional.cross_entropy(scores, target).backward()
        optimizer.step()
    assert torch.equal(
        module(40, 40)[0].masked_fill(torch.ones(40, 40).triu(1).bool(), -1e9)[3:].argmax(-1), torch.arange(37)
    )


class BiasOf(torch.nn.Module):
    """The bias of as many queries and keys as two tensors have rows."""

    def __init__(self, features):
        super().__init__()
        self.bias = RelativePositionBias(3, heads=2, features=features, base=50.0)
        torch.nn.init.normal_(self.bias.weight)

    def forward(self, q, k):
        return self.bias(q.shape[0], k.shape[0], k.shape[0] - q.shape[0])


@pytest.mark.parametrize("strict", (False, True))
@pytest.mark.parametrize("features", (0, 6))
def test_a_bias_is_exported_for_any_lengths(features, strict):
    module, (q, k) = BiasOf(features), (torch.export.Dim("queries"), torch.export.Dim("keys"))
    example = (torch.ones(4, 1), torch.ones(6, 1))
    loaded = torch.export.export(module, example, dynamic_shapes=({0: q}, {0: k}), strict=strict).module()
    for lengths in ((4, 6), (2, 9), (7, 7)):
        inputs = [torch.ones(length, 1) for length in lengths]
        assert torch.equal(loaded(*inputs), module(*inputs))
    (theirs,) = torch.autograd.grad(loaded(*inputs).square().sum(), module.bias.weight)
    (ours,) = torch.autograd.grad(module(*inputs).square().sum(), module.bias.weight)
    torch.testing.assert_close(theirs, ours)


def test_attention_weights_are_the_formula():
    q, k, bias = torch.randn(2, 3, 4, 8), torch.randn(2, 3, 5, 8), torch.randn(3, 4, 5)
    mask = torch.rand(2, 1, 4, 5) < 0.7
    mask[0, 0, 2] = False
    scores = (q.double() @ k.double().mT / 8**0.5 + bias).masked_fill(~mask, float("-inf"))
    expected = scores.softmax(-1).nan_to_num(0).float()
    torch.testing.assert_close(attention_weights(q, k, mask, bias), expected)
    causal = torch.ones(4, 5).tril(1).bool()
    torch.testing.assert_close(attention_weights(q, k, causal=True), attention_weights(q, k, causal))
    both = attention_weights(q, k, mask, bias, causal=True)
    torch.testing.assert_close(both, attention_weights(q, k, mask & causal, bias))


def test_gradients_of_a_query_without_keys_are_zero():
    q, k = torch.randn(2, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    attention_weights(q, k, torch.tensor([[True, True, False], [False] * 3])).square().sum().backward()
    assert q.grad[0].any() and not q.grad[1].any() and k.grad.isfinite().all()


def test_a_bias_of_minus_infinity_hides_a_key():
    q, k = torch.randn(2, 3, requires_grad=True), torch.randn(2, 3)
    bias = torch.tensor([[-math.inf, -math.inf], [0.5, -math.inf]], requires_grad=True)
    weights = attention_weights(q, k, relative_bias=bias)
    assert weights.tolist() == [[0.0, 0.0], [1.0, 0.0]]
    (weights * torch.tensor([1.0, 2.0])).sum().backward()
    assert q.grad.isfinite().all() and bias.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("base", [-1.0, 0.0, math.nan, 1e-300])
def test_a_base_that_gives_no_frequencies(base):
    with pytest.raises(ValueError, match=r"RelativePositionBias: .*base"):
        RelativePositionBias(features=4, base=base)


def test_attention_weights_of_half_types_are_those_of_float32():
    """Scores of half precision would round in steps of 0.5 here, and autocast would make them half."""
    q, k = (torch.randn(64, 128) * 8 for _ in range(2))
    for dtype in (torch.float16, torch.bfloat16):
        rounded = q.to(dtype), k.to(dtype)
        exact = attention_weights(*(x.float() for x in rounded))
        assert torch.equal(attention_weights(*rounded), exact.to(dtype))
        naive = (rounded[0] @ rounded[1].mT / 128**0.5).softmax(-1)
        assert (naive.float() - exact).abs().max() > 2e-3
        with torch.autocast("cpu", dtype=dtype):
            assert torch.equal(attention_weights(*(x.float() for x in rounded)), exact)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((torch.ones(2, 3), torch.ones(2, 4)), ValueError, "got \\[2, 3\\] and \\[2, 4\\]"),
        ((torch.ones(2, 0), torch.ones(2, 0)), ValueError, "d >= 1"),
        ((torch.ones(2, 3), torch.ones(2, 3).half()), TypeError, "one dtype"),
        ((torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 2)), TypeError, "mask must be a bool tensor"),
        ((torch.ones(5, 2, 3), torch.ones(4, 2, 3)), ValueError, r"query and key .* broadcast, got \[5\] and \[4\]"),
        ((torch.ones(3, 3), torch.ones(3, 3), SEEN), ValueError, r"mask must broadcast to \[..., 3, 3\], got \[2, 2\]"),
        ((torch.ones(2, 3), torch.ones(2, 3), SEEN.to_sparse()), TypeError, "mask must be strided, got"),
        ((torch.ones(2, 3), torch.ones(2, 3), SEEN.to("meta")), RuntimeError, "mask must be on cpu, got meta"),
        ((torch.ones(3, 3), torch.ones(3, 3), None, torch.ones(2, 2)), ValueError, r"relative_bias must broadcast to"),
        ((torch.ones(4, 2, 3), torch.ones(2, 3), None, torch.ones(5, 2, 2)), ValueError, "relative_bias must have"),
    ],
    ids=range(10),
)
def test_attention_of_what_does_not_fit(arguments, error, text):
    with pytest.raises(error, match=f"^attention_weights: .*{text}"):
        attention_weights(*arguments)


def test_a_bias_of_less_than_no_rows():
    with pytest.raises(ValueError, match=r"^RelativePositionBias: queries must be at least 0, got -1$"):
        RelativePositionBias(4)(-1, 3)


def test_the_logarithm_of_a_ladder_needs_a_scale_above_0():
    with pytest.raises(ValueError, match=r"^LearnableFrequencies: scale must be a finite number > 0, got -1\.0$"):
        LearnableFrequencies(8, 100.0, -1.0, True, torch.float32)


def test_the_embedder_adds_its_bias():
    module = ConfigurableSinusoidalEmbedder(
        SinusoidalConfig(vocab_size=9, embedding_dim=8, use_relative_position=True, relative_position_window=2),
        device="cpu",
    )
    x = module(torch.tensor([[1, 2, 3, 4, 5]]))
    assert torch.equal(module.attention_weights(x, x), attention_weights(x, x))
    torch.nn.init.normal_(module.relative_bias.weight)
    bias = module.relative_bias(5, 5)[0]
    assert bias[4, 0] == bias[4, 2] == module.relative_bias.weight[0, 4]
    assert torch.equal(module.attention_weights(x, x), attention_weights(x, x, relative_bias=bias))
    # The last query of a step is at the last key.
    torch.testing.assert_close(module.attention_weights(x[:, 3:], x), module.attention_weights(x, x)[:, 3:])
    module.attention_weights(x, x, causal=True).square().sum().backward()
    assert module.relative_bias.weight.grad[0, 2:].all() and not module.relative_bias.weight.grad[0, :2].any()
