"""Rotations by positions: in place, by strides, as published models turn, and by the frequencies of their configs."""

import copy
import math
import pathlib
import re
import runpy

import mpmath
import pytest
import torch
from safetensors import safe_open
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.encoding import rope, rope_frequencies, rotate, sinusoidal_encoding

PEERS = pathlib.Path(__file__).parents[1] / "data" / "peers"
ROPE = runpy.run_path(str(PEERS / "recipe.py"))["ROPE"]
LAYOUTS = ("interleaved", "half")
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
LLAMA = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
LONG = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}

layouts = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture(scope="module")
def said():
    """What transformers makes of the configs."""
    with safe_open(PEERS / "transformers.safetensors", "pt") as file:
        assert file.metadata()["version"] == "transformers 5.23.0"
        return {name: file.get_tensor(name) for name in file.keys()}


@layouts
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
def test_in_place_gives_the_bits_of_a_new_result(layout, dtype):
    """Also of rows that lie apart, of more dimensions than a map has, and of elements that lie apart."""
    options = {"layout": layout, "factor": 1.5, "dims": 34}
    whole = torch.randn(2, 3, 5, 80, dtype=dtype)
    wide = torch.randn(*(2, 1) * 5, 2, 40, dtype=dtype).transpose(0, 8)
    cases = (
        (whole.clone(), torch.arange(5)),
        (whole.transpose(0, 2), torch.rand(3, 1) * 1e5),
        (whole.clone()[:, 1:, ::2, 3:70], torch.arange(3)),
        (wide, torch.arange(2)),
        (torch.randn(5, 64, 3, dtype=dtype).mT, torch.arange(3)),
    )
    for x, positions in cases:
        expected = rotate(x, positions, **options)
        version = x._version
        assert rotate(x, positions, **options, out=x) is x
        assert torch.equal(x, expected)
        assert x._version > version
        back = rope(expected.double(), positions, layout=layout, factor=1 / 1.5, dims=34)
        torch.testing.assert_close(rotate(back, positions, **options), expected.double())
        assert torch.equal(x[..., 34:], expected[..., 34:])


def test_a_large_result_has_the_bits_of_a_small_one():
    """Lines are streamed from 16 MiB on, of rows that begin anywhere."""
    for width, dtype in ((66, torch.float32), (64, torch.float32), (130, torch.bfloat16)):
        x = torch.randn(2**23 // width // 2, 2, width, dtype=dtype)[:, 1]
        large = rotate(x)
        for first in (0, len(x) - 100):
            part = x[first : first + 100].clone()
            assert torch.equal(large[first : first + 100], rotate(part, torch.arange(first, first + 100)))


def test_what_cannot_be_changed_in_place():
    x, positions = torch.randn(3, 4), torch.arange(3)
    with pytest.raises(RuntimeError, match=r"^rotate: x must not overlap itself"):
        expanded = x[:1].expand(3, 4)
        rotate(expanded, positions, out=expanded)
    held = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match=r"^rope: x must not share memory with positions"):
        rope(held, held[:, 0], out=held)
    with pytest.raises(
        ValueError, match=re.escape("rotate: positions must broadcast to the rows of x, [3], got [2, 1]")
    ):
        rotate(x, torch.ones(2, 1), out=x)
    with pytest.raises(RuntimeError, match="an argument written in place must not be given where a gradient"):
        leaf = x.clone().requires_grad_()
        rotate(leaf, positions, out=leaf)
    with torch.inference_mode():
        kept = torch.randn(3, 4)
    with pytest.raises(RuntimeError, match="x must not be an inference tensor"):
        rotate(kept, positions, out=kept)
    ragged = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)], layout=torch.jagged)
    with pytest.raises(TypeError, match=r"^rope: x must be strided, got torch.jagged"):
        rope(ragged)
    with pytest.raises(TypeError, match=r"^rotate: out must be a torch\.Tensor"):
        rotate(x, positions, out=x.numpy())
    before = x.clone()
    with pytest.raises(ValueError, match="dims must be even"):
        rotate(x, positions, dims=3, out=x)
    assert torch.equal(x, before)


def test_in_place_under_compile_and_export():
    def turned(x, positions):
        y = x * 2
        torch.ops.torch_hrr.rotate_(y, positions, layout="half")
        return y

    x, positions = torch.randn(2, 3, 8), torch.arange(3)
    expected = rotate(2 * x, positions, layout="half")
    assert torch.equal(torch.compile(turned, fullgraph=True)(x, positions), expected)

    class Turned(torch.nn.Module):
        def forward(self, x, positions):
            return turned(x, positions)

    for strict in (False, True):
        exported = torch.export.export(Turned(), (x, positions), strict=strict)
        assert torch.equal(exported.module()(x, positions), expected)
    torch.library.opcheck(torch.ops.torch_hrr.rotate_.default, (x.clone(), positions))


def test_queries_and_keys_with_a_cache():
    """Heads before and after the positions, and keys turned one by one as they come."""
    q = torch.randn(2, 5, 4, 16)
    positions = torch.stack((torch.arange(5), torch.arange(5) + 7))
    after = rope(q, positions.unsqueeze(-1), layout="half")
    before = rope(q.transpose(1, 2), positions.unsqueeze(1), layout="half").transpose(1, 2)
    assert torch.equal(after, before)
    steps = [rope(q[:, [i]], positions[:, [i], None], layout="half") for i in range(5)]
    assert torch.equal(torch.cat(steps, 1), after)


@layouts
def test_angles_are_exact_at_any_position(layout):
    """To float32's rounding at 2^40 too, where a float32 angle knows nothing any more."""
    position, dim = 2**40 + 3, 8
    x = torch.randn(dim, dtype=torch.float64)
    pairs = x.view(4, 2) if layout == "interleaved" else x.view(2, 4).T
    with mpmath.workdps(60):
        want = []
        for i, (first, second) in enumerate(pairs.tolist()):
            turn = mpmath.expj(position * mpmath.power(10000, -mpmath.mpf(i) / 4))
            turned = mpmath.mpc(first, second) * turn
            want.append([float(turned.real), float(turned.imag)])
    want = torch.tensor(want, dtype=torch.float64)
    want = want.reshape(-1) if layout == "interleaved" else want.T.reshape(-1)
    for dtype, tolerance in ((torch.float32, 5e-7), (torch.float64, 5e-7)):
        got = rope(x.to(dtype), torch.tensor(position), layout=layout)
        torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=0)


@layouts
def test_it_follows_the_encoding(layout):
    """A row of the encoding, turned, is that of a later position: with the first half of its columns as well."""
    row = sinusoidal_encoding(torch.tensor(3.5), 10, layout=layout, dtype=torch.float64)
    wider = torch.cat((row, torch.ones(3, dtype=torch.float64)))
    turned = rotate(wider, torch.tensor(0.25), layout=layout, dims=10)
    expected = sinusoidal_encoding(torch.tensor(3.75), 10, layout=layout, dtype=torch.float64)
    torch.testing.assert_close(turned[:10], expected, atol=1e-14, rtol=0)
    assert torch.equal(turned[10:], wider[10:])


def test_nan_positions_and_frequencies_spoil_what_turns():
    x = torch.randn(2, 6)
    spoilt = rotate(x, torch.tensor([1.0, math.inf]), dims=4)
    assert spoilt[1, :4].isnan().all()
    assert torch.equal(spoilt[1, 4:], x[1, 4:])
    assert not spoilt[0].isnan().any()
    held = rotate(x, torch.arange(2), layout="half", frequencies=torch.tensor([1.0, math.nan, 0.5]))
    assert held.isnan().any(0).tolist() == [False, True, False, False, True, False]


def test_the_gradient_of_rows_keeps_no_rows():
    """Only positions wait for the backward pass; a change of x in between is no error."""
    x = torch.randn(3, 4, requires_grad=True)
    inner = x * 1
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda kept: saved.append(kept.shape) or kept, lambda kept: kept):
        turned = rotate(inner, torch.arange(3))
    assert saved == [(3,)]
    inner.detach().zero_()
    grad = torch.randn(3, 4)
    assert torch.equal(torch.autograd.grad(turned, x, grad)[0], rope(grad, torch.arange(3)))


def test_one_operator_and_nothing_else():
    names = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Names():
        rope(torch.randn(2, 3, 4), torch.arange(3), layout="half")
    assert names[-1] == "torch_hrr.rotate.default"
    assert sum("torch_hrr" in name for name in names) == 1
    assert len(names) == 3


@pytest.mark.parametrize("name", ROPE)
def test_frequencies_are_those_of_transformers(said, name):
    """To its rounding: float32 powers err by some 1e-7, of arguments up to ln(500000)."""
    head_dim, length, config = ROPE[name]
    given = copy.deepcopy(config)
    frequencies, factor = rope_frequencies(config, head_dim, length)
    assert config == given
    assert frequencies.dtype == torch.float64
    torch.testing.assert_close(frequencies, said[name].double(), rtol=2e-6, atol=0)
    assert factor == pytest.approx(said[f"{name} factor"].item(), rel=1e-15)
    if f"{name} query" in said:
        turned = rope(said[f"{name} query"], layout="half", frequencies=frequencies, factor=factor)
        torch.testing.assert_close(turned, said[f"{name} turned"], atol=3e-6, rtol=0)


def exact_frequencies(head_dim, length, config):
    """The published formulas with 60 digits, from the exact values of the config's floats."""
    given = dict(config.get("rope_parameters") or config["rope_scaling"])
    kind = given.get("rope_type", given.get("type"))
    theta = mpmath.mpf(given.get("rope_theta", config.get("rope_theta", 10000.0)))
    factor, share = mpmath.mpf(given.get("factor", 1)), given.get("partial_rotary_factor", 1.0)
    turned = head_dim if kind == "proportional" else int(head_dim * share)
    if kind == "dynamic":
        longest = config["max_position_embeddings"]
        seen = max(longest, length or 0)
        theta *= (factor * seen / longest - factor + 1) ** (mpmath.mpf(turned) / (turned - 2))
    plain = [1 / theta ** (mpmath.mpf(2 * i) / turned) for i in range((turned + 1) // 2)]
    original = given.get("original_max_position_embeddings")
    if kind in ("linear", "proportional"):
        kept = len(plain) if kind == "linear" else int(share * head_dim // 2)
        return [f / factor if i < kept else mpmath.mpf(0) for i, f in enumerate(plain)]
    if kind == "yarn":
        fast, slow = given.get("beta_fast", 32), given.get("beta_slow", 1)
        low, high = (
            turned * mpmath.log(original / (b * 2 * mpmath.pi)) / (2 * mpmath.log(theta)) for b in (fast, slow)
        )
        if given.get("truncate", True):
            low, high = mpmath.floor(low), mpmath.ceil(high)
        ramp = [min(max((i - low) / (high - low), 0), 1) for i in range(len(plain))]
        return [f * (1 - r) + f / factor * r for f, r in zip(plain, ramp, strict=True)]
    if kind == "llama3":
        waves = [2 * mpmath.pi / f for f in plain]
        low, high = given["low_freq_factor"], given["high_freq_factor"]
        smooth = [(original / w - low) / (high - low) for w in waves]
        return [
            f if w < original / high else f / factor if w > original / low else (1 - s) * f / factor + s * f
            for f, w, s in zip(plain, waves, smooth, strict=True)
        ]
    if kind == "longrope":
        factors = given["long_factor" if (length or 0) > original else "short_factor"]
        return [f / mpmath.mpf(by) for f, by in zip(plain, factors, strict=True)]
    return plain


@pytest.mark.parametrize("name", ROPE)
def test_frequencies_to_fifty_digits(name):
    """To float64's rounding, which the ramp of "yarn" multiplies by its factor."""
    tolerance = mpmath.mpf("2e-14" if name.startswith("yarn") else "1e-15")
    got, _ = rope_frequencies(ROPE[name][2], *ROPE[name][:2])
    with mpmath.workdps(60):
        want = exact_frequencies(*ROPE[name])
        assert len(want) == len(got)
        assert all(abs(g - w) <= abs(w) * tolerance for g, w in zip(got.tolist(), want, strict=True))


def test_factors_of_published_formulas():
    _, factor = rope_frequencies(YARN, 64)
    assert factor == 0.1 * math.log(4) + 1
    assert rope_frequencies(YARN | {"attention_factor": 1.25}, 64)[1] == 1.25
    short = {"rope_type": "su", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    lengths = {"original_max_position_embeddings": 4096, "max_position_embeddings": 131072}
    frequencies, factor = rope_frequencies(short | lengths, 8)
    assert factor == math.sqrt(1 + math.log(32) / math.log(4096))
    assert torch.equal(rope_frequencies(short | lengths, 8, 5000)[0], frequencies / 2)
    assert rope_frequencies({}, 6)[0].tolist() == [1.0, 10000 ** -(2 / 6), 10000 ** -(4 / 6)]
    with pytest.raises(ValueError, match="leave room for whole pairs, got 5 times 1"):
        rope_frequencies({}, 5)
    assert rope_frequencies({"rope_scaling": None, "rope_theta": 100.0}, 4)[0].tolist() == [1.0, 0.1]


def test_what_published_configs_say_beside_their_frequencies():
    """As those of Qwen2-VL, Ministral 3, Llama 4 Scout and MiniCPM3 do."""
    plain, _ = rope_frequencies({}, 16)
    several_axes = {"type": "mrope", "rope_type": "default", "mrope_section": [2, 3, 3], "mrope_interleaved": True}
    assert torch.equal(rope_frequencies(several_axes, 16)[0], plain)
    frequencies, factor = rope_frequencies(YARN | {"llama_4_scaling_beta": 0.1}, 16)
    assert torch.equal(frequencies, rope_frequencies(YARN, 16)[0])
    assert factor == rope_frequencies(YARN, 16)[1]
    step, _ = rope_frequencies(LLAMA | {"high_freq_factor": 1.0}, 16)
    assert torch.equal(step, torch.where(2 * math.pi / plain > 8192, plain / 8, plain))
    lengths = {"original_max_position_embeddings": 4096, "max_position_embeddings": 4096}
    assert rope_frequencies(LONG | lengths, 16)[1] == 1


def test_a_dynamic_base_beyond_every_float():
    given = {"rope_type": "dynamic", "factor": 1e200, "max_position_embeddings": 10}
    frequencies, _ = rope_frequencies(given, 4, 10**6)
    assert frequencies.tolist() == pytest.approx([1.0, 1e-207], rel=1e-4)


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (3, TypeError, "rope_parameters must be a mapping, got 3"),
        ({"rope_type": "lama3"}, ValueError, "rope_type must be one of default, .*, got 'lama3'; is it llama3"),
        ({"rope_type": "yarn", "type": "linear"}, ValueError, "rope_type and type must agree, got yarn and linear"),
        ({"rope_type": "linear"}, ValueError, "of type linear must have factor, got none"),
        ({"rope_type": "linear", "factor": 0}, ValueError, "factor must be a finite number > 0, got 0"),
        ({"rope_type": "linear", "factor": "2"}, TypeError, "factor must be a number, got str"),
        ({"rope_type": "linear", "factor": 2, "beta_fast": 1}, ValueError, "no other entries than .*, got beta_fast"),
        ({"rope_type": "dynamic", "factor": 2}, ValueError, "must have max_position_embeddings, got none"),
        ({"rope_type": "yarn", "factor": 2}, ValueError, "original_max_.* or max_position_embeddings, got neither"),
        ({"max_position_embeddings": "a"}, TypeError, "max_position_embeddings must be a number, got str"),
        (YARN | {"attention_factor": 1, "mscale": [1]}, TypeError, "mscale must be a number, got list"),
        ({"rope_type": ["yarn"]}, TypeError, "rope_type must be a str, got list"),
        (YARN | {"rope_theta": 0.5}, ValueError, "rope_theta must be above 1 for type yarn, got 0.5"),
        (YARN | {"max_position_embeddings": 8192}, ValueError, "factor must be the ratio of .*, 2, got 4; where"),
        (YARN | {"beta_fast": 1, "beta_slow": 2}, ValueError, "beta_fast must be at least beta_slow, got 1 and 2"),
        (YARN | {"truncate": "no"}, TypeError, "truncate must be a bool"),
        (LLAMA | {"low_freq_factor": 5.0}, ValueError, "low_freq_factor must be at most high_freq_factor, got 5 and 4"),
        ({"full": {"rope_type": "default"}}, ValueError, "of one kind of layer, got a mapping of full"),
        ({"rope_parameters": YARN, "rope_scaling": LLAMA}, ValueError, "rope_parameters and rope_scaling must agree"),
        (
            {"rope_scaling": LLAMA | {"rope_theta": 1e4}, "rope_theta": 5e5}, ValueError,
            "rope_theta must be the same inside and outside, got 10000.0 and 500000.0",
        ),
        ({"model_type": "gptj", "id2label": {}}, ValueError, "or rope_scaling, .* got one of 'gptj' with neither"),
        ({"rope_scaling": None, "rotary_pct": 0.25}, ValueError, "with rotary_pct must have rope_parameters, got none"),
        (LONG | {"original_max_position_embeddings": 4}, ValueError, "must have factor, or both .*, got neither"),
        (LONG | {"factor": 2, "original_max_position_embeddings": 1}, ValueError, "must be a finite number > 1, got 1"),
        ({"partial_rotary_factor": 0.05}, ValueError, "leave room for whole pairs, got 16 times 0.05"),
        ({"partial_rotary_factor": 1.5}, ValueError, "partial_rotary_factor must be a finite number > 0 and <= 1"),
        (
            LONG | {"short_factor": [1.0], "factor": 2, "original_max_position_embeddings": 4},
            ValueError, "short_factor must have a number for each of 8 pairs, got 1",
        ),
    ],
    ids=range(27),
)  # fmt: skip
def test_what_contradicts_itself_is_refused(given, error, text):
    with pytest.raises(error, match=f"^rope_frequencies: .*{text}"):
        rope_frequencies(given, 16)


@pytest.mark.parametrize(("head_dim", "length"), ((1, None), (0, None), (16, 0), (True, None), (16.0, None)))
def test_widths_and_lengths_that_are_none(head_dim, length):
    with pytest.raises((TypeError, ValueError), match=r"^rope_frequencies: (head_dim|length) must be"):
        rope_frequencies({}, head_dim, length)
