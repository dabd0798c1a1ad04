"""Sinusoids as other libraries lay them out: each held to a restatement of its formula, in every dtype and lane."""

import io
import math

import mpmath
import numpy as np
import pytest
import torch
from guide import DOCS
from torch.autograd import gradcheck
from torch.export import Dim

from bench import encoding_conventions
from torch_hrr.encoding import (
    CONVENTIONS,
    ConfigurableSinusoidalEmbedder,
    SinusoidalConfig,
    sinusoidal_convention,
    sinusoidal_encoding,
)

ENTRIES = {entry.names[0]: entry for entry in CONVENTIONS.values()}
SEQUENCES = [name for name, entry in ENTRIES.items() if entry.axes == "x"]
IDS = torch.tensor([[5, 1, 6, 1, 7], [1, 1, 8, 9, 1]])


def ladder(count, steps):
    """Frequencies from 1 downwards, 1 / 10000 after so many steps."""
    return [mpmath.mpf(10000) ** (-mpmath.mpf(i) / steps) if i else mpmath.mpf(1) for i in range(count)]


def sines(p, frequencies):
    return [mpmath.sin(p * f) for f in frequencies]


def cosines(p, frequencies):
    return [mpmath.cos(p * f) for f in frequencies]


def pairs(p, frequencies):
    return [value for f in frequencies for value in (mpmath.sin(p * f), mpmath.cos(p * f))]


def padded(columns, dim):
    return columns + [mpmath.mpf(0)] * (dim - len(columns))


def full(p, d):
    """Vaswani's ladder, halves."""
    f = ladder(d // 2, d // 2)
    return sines(p, f) + cosines(p, f)


def shorter(p, d):
    """The ladder that ends at 1 / 10000, halves, a zero where d is odd."""
    f = ladder(d // 2, d // 2 - 1)
    return padded(sines(p, f) + cosines(p, f), d)


def cosines_first(p, d):
    f = ladder(d // 2, d // 2)
    return cosines(p, f) + sines(p, f)


def woven(p, d):
    return pairs(p, ladder(d // 2, d // 2))


def shorter_of(order):
    """Each axis by itself, then zeros."""

    def columns(p, d):
        count = d // (2 * len(p))
        f = ladder(count, count - 1)
        return padded([value for axis in order for value in sines(p[axis], f) + cosines(p[axis], f)], d)

    return columns


def axes(form, *order):
    """The same form for each axis, numbered as a grid's dimensions."""
    return lambda p, d: [value for axis in order for value in form(p[axis], d // len(order))]


def exponents_by_dim(p, d, layout):
    """Column j has exponent 2 (j // 2) / d, whatever d is; even ones are sines."""
    columns = [
        (mpmath.cos if j % 2 else mpmath.sin)(p / mpmath.mpf(10000) ** (mpmath.mpf(2 * (j // 2)) / d)) for j in range(d)
    ]
    return columns if layout == "interleaved" else columns[::2] + columns[1::2]


def one_more(p, d):
    f = [mpmath.mpf(10000) ** (-mpmath.mpf(j) / d) for j in range(0, d, 2)]
    return sines(p, f) + cosines(p, f)


def by_function(p, d):
    f = ladder(d // 4, d // 4)
    return sines(p[0], f) + sines(p[1], f) + cosines(p[0], f) + cosines(p[1], f)


def cut_axes(p, d):
    count = -(-d // (2 * len(p)))
    return [value for axis in p for value in pairs(axis, ladder(count, count))][:d]


def scaled(p, d):
    return [value / mpmath.sqrt(d) for value in full(p, d)]


def ends(p, d):
    f = ladder(d // 2, d // 2 - 1)
    return cosines(p, f) + sines(p, f)


FORMULAS = {
    "transformers.m2m100": lambda p, d: shorter(p + 2, d),
    "transformers.xglm": lambda p, d: shorter(p + 2, d),
    "transformers.tipsv2": shorter,
    "transformers.pegasus_x": shorter,
    "transformers.musicgen": lambda p, d: padded(ends(p, d), d),
    "whisper": shorter,
    "transformers.marian": lambda p, d: exponents_by_dim(p, d, "half"),
    "transformers.distilbert": lambda p, d: exponents_by_dim(p, d, "interleaved"),
    "transformers.ctrl": lambda p, d: exponents_by_dim(p, d, "half"),
    "transformers.speecht5": woven,
    "transformers.zoedepth": one_more,
    "transformers.vibevoice": cosines_first,
    "transformers.vit_mae": axes(full, 0, 1),
    "diffusers": shorter,
    "diffusers.unet": lambda p, d: padded(cosines_first(p, d), d),
    "diffusers.sinusoidal": woven,
    "diffusers.1d": full,
    "diffusers.2d": lambda p, d: axes(full, 1, 0)([p[0] * 16 / 3, p[1] * 16 / 5], d),
    "diffusers.3d": lambda p, d: full(p[0], d // 4) + full(p[2], 3 * d // 8) + full(p[1], 3 * d // 8),
    "stable-diffusion": lambda p, d: padded(cosines_first(p, d), d),
    "flux": lambda p, d: padded(cosines_first(1000 * p, d), d),
    "ddpm": shorter,
    "edm": cosines_first,
    "edm.endpoint": ends,
    "edm.songunet": lambda p, d: shorter(p, d - d % 2),
    "fairseq": lambda p, d: shorter(p + 2, d),
    "esm1": lambda p, d: shorter(p + 2, d),
    "fairseq2": shorter,
    "tensor2tensor": shorter,
    "tensor2tensor.2d": shorter_of((0, 1)),
    "tensor2tensor.3d": shorter_of((0, 1, 2)),
    "flax.wmt": shorter,
    "flax.nlp_seq": woven,
    "big_vision": shorter_of((1, 0)),
    "scenic": axes(full, 1, 0),
    "scenic.3d": axes(full, 0, 2, 1),
    "mae": axes(full, 1, 0),
    "timm": by_function,
    "timm.interleaved": axes(full, 0, 1),
    "detr": lambda p, d: axes(woven, 0, 1)([p[0] + 1, p[1] + 1], d),
    "detr.normalized": lambda p, d: axes(woven, 0, 1)(turned(p, 1), d),
    "transformers.deformable_detr": lambda p, d: axes(woven, 0, 1)(turned(p, mpmath.mpf(1) / 2), d),
    "positional-encodings": lambda p, d: cut_axes([p], d),
    "positional-encodings.2d": cut_axes,
    "positional-encodings.3d": cut_axes,
    "x-transformers": scaled,
    "keras-hub": lambda p, d: exponents_by_dim(p, d, "interleaved"),
}


def turned(p, first):
    """A turn over a grid of 3 by 5."""
    millionth = mpmath.mpf("1e-6")
    return [(q + first) / (n + millionth) * 2 * mpmath.pi for q, n in zip(p, (3, 5), strict=True)]


def held_to(name, result, places, dim, limits):
    """Every column against 50 digits; results in float64 and their rounding in float32."""
    with mpmath.workdps(50):
        for number, place in enumerate(places):
            point = [mpmath.mpf(one) for one in place] if isinstance(place, tuple) else mpmath.mpf(place)
            exact = FORMULAS[name](point, dim)
            for values, limit in zip(result, limits[number], strict=True):
                assert values.shape[-1] == len(exact)
                assert max(abs(a - b) for a, b in zip(values[number].tolist(), exact, strict=True)) <= limit, place


@pytest.mark.parametrize("dim", (48, 47))
@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.span is None])
def test_each_is_its_librarys_formula_at_any_position(name, dim):
    entry = ENTRIES[name]
    count = len(entry.axes)
    places = [10, 10**3, 10**5, 10**7]
    if count > 1:
        places = [(p, p + 1, p + 5)[:count] for p in places]
    positions = torch.tensor(places)
    if entry.odd == "error" and dim % 2:
        with pytest.raises(ValueError, match=rf"^sinusoidal_convention: dim must be a multiple of \d+ in {name}, got"):
            sinusoidal_convention(name, positions, dim)
        return
    result = [sinusoidal_convention(name, positions, dim, dtype) for dtype in (torch.float64, torch.float32)]
    assert [each.dtype for each in result] == [torch.float64, torch.float32]
    # The base of a shorter ladder is a float64; so are the angles of the first column at 1000 times the position.
    far = [np.ravel(place).max() * abs(entry.scale) for place in places]
    held_to(name, result, places, dim, [(1e-15 + 5e-17 * p, 1.5e-7) for p in far])


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.span is not None])
def test_positions_that_depend_on_the_grid(name):
    result = [sinusoidal_convention(name, None, 48, dtype, grid=(3, 5)) for dtype in (torch.float64, torch.float32)]
    places = [(y, x) for y in range(3) for x in range(5)]
    held_to(name, [each.flatten(0, 1) for each in result], places, 48, [(1e-14, 1.5e-7)] * 15)
    with pytest.raises(ValueError, match=f"^sinusoidal_convention: positions must be None in {name}, where"):
        sinusoidal_convention(name, torch.tensor(places), 48)


def test_every_convention_has_a_formula_and_says_where_it_is_from():
    assert set(FORMULAS) == set(ENTRIES)
    for name, entry in CONVENTIONS.items():
        assert name in entry.names and name == name.lower() and ", " in entry.source and len(entry.errors) == 4


@pytest.mark.parametrize("name", [name for name, entry in ENTRIES.items() if entry.span is None])
def test_a_grid_is_its_positions(name):
    sizes = (3, 4, 5)[: len(ENTRIES[name].axes)]
    places = torch.stack(torch.meshgrid(*map(torch.arange, sizes), indexing="ij"), -1)
    places = places.squeeze(-1) if len(sizes) == 1 else places
    assert torch.equal(sinusoidal_convention(name, None, 48, grid=sizes), sinusoidal_convention(name, places, 48))


@pytest.mark.parametrize("name", ("fairseq", "esm1", "transformers.m2m100", "transformers.xglm"))
def test_a_whole_table_counts_from_its_padding(name):
    """Row 0 is a sinusoid, row 1 that of padding, and the first token has row 2."""
    table = sinusoidal_convention(name, torch.arange(6) - 2, 16, torch.float64)
    whole = sinusoidal_convention("tensor2tensor", torch.arange(6), 16, torch.float64)
    assert not table[1].any() and torch.equal(table[[0, 2, 3, 4, 5]], whole[[0, 2, 3, 4, 5]])
    floating = sinusoidal_convention(name, torch.arange(6.0) - 2, 16, torch.float64)
    assert torch.equal(floating, table)


@pytest.mark.parametrize("name", ("diffusers", "fairseq", "x-transformers", "timm"))
def test_dtypes_of_positions_and_results(name):
    """Integers of any width and NumPy's mean the same positions, and half types round the float32 results once."""
    places = torch.tensor([0, 3, 100, 126, 127])
    places = torch.stack((places, places.flip(0)), -1) if name == "timm" else places
    wanted = sinusoidal_convention(name, places, 16)
    assert wanted.dtype == torch.float32
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.uint64):
        assert torch.equal(sinusoidal_convention(name, places.to(dtype), 16), wanted)
    assert torch.equal(sinusoidal_convention(name, places.numpy(), 16), wanted)
    for half in (torch.float16, torch.bfloat16):
        assert torch.equal(sinusoidal_convention(name, places, 16, half), wanted.to(half))
        assert torch.equal(sinusoidal_convention(name, places.to(half), 16), wanted.to(half))
        with torch.autocast("cpu", dtype=half):
            assert torch.equal(sinusoidal_convention(name, places, 16), wanted.to(half))
    assert sinusoidal_convention(name, places.double(), 16).dtype == torch.float64
    # 2047 + 2 is no float16, nor 2^24 - 1 + 2 a float32.
    for dtype, largest in ((torch.float16, 2047.0), (torch.float32, 2.0**24 - 1)):
        far = torch.full_like(places, largest, dtype=torch.float64)
        rounded = sinusoidal_convention(name, far.to(dtype), 16, torch.float64)
        assert torch.equal(rounded, sinusoidal_convention(name, far, 16, torch.float64))


def test_timesteps_stay_distinct_in_half_types():
    """Angles of bfloat16 positions are those of half of them, as the table says."""
    steps = torch.arange(1000)
    assert len(steps.bfloat16().unique()) == 507
    for name in ("diffusers", "stable-diffusion", "edm", "ddpm"):
        assert len(sinusoidal_convention(name, steps, 320, torch.bfloat16).unique(dim=0)) == 1000
    flux = sinusoidal_convention("flux", steps.double() / 1000, 256, torch.bfloat16)
    assert len(flux.unique(dim=0)) == 1000


@pytest.mark.parametrize("name", ("fairseq", "flux", "x-transformers", "timm", "detr", "tensor2tensor.3d"))
def test_gradients_of_positions(name):
    count = len(ENTRIES[name].axes)
    places = torch.rand(3, count, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    places = (places.squeeze(-1) / 10).requires_grad_()
    assert gradcheck(lambda p: sinusoidal_convention(name, p, 8 * count), places)


class Waves(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, positions):
        return sinusoidal_convention(self.name, positions, 48)


@pytest.mark.parametrize("name", ("fairseq", "x-transformers", "timm"))
def test_compiled_exported_and_mapped(name):
    module, count = Waves(name), len(ENTRIES[name].axes)
    places = torch.arange(4 * count).reshape(4, count) if count > 1 else torch.arange(4)
    for given in (places - 1, places + 0.25):  # -1 is padding
        wanted = module(given)
        torch._dynamo.reset()
        assert torch.equal(torch.compile(module, fullgraph=True, backend="aot_eager")(given), wanted)
        for strict in (True, False):
            program = torch.export.export(module, (given,), strict=strict, dynamic_shapes=({0: Dim("n")},))
            assert torch.equal(program.module()(given.repeat_interleave(2, 0)), wanted.repeat_interleave(2, 0))
        assert torch.equal(torch.func.vmap(module)(given.unsqueeze(1)), wanted.unsqueeze(1))
    torch._dynamo.reset()


def test_devices_and_empty_positions():
    for name in ENTRIES:
        if ENTRIES[name].span is None:
            shape = (0, 2) if len(ENTRIES[name].axes) == 1 else (0, len(ENTRIES[name].axes))
            empty = sinusoidal_convention(name, torch.empty(shape, device="meta"), 48)
            assert empty.device.type == "meta" and empty.shape[-1] == 48 and empty.shape[0] == 0
    assert sinusoidal_convention("fairseq", torch.tensor(math.nan), 6).isnan().all()
    for name in ("mae", "detr.normalized", "diffusers.2d"):
        assert sinusoidal_convention(name, None, 8, grid=(0, 3)).shape == (0, 3, 8)
    assert all(sinusoidal_convention(name, IDS, 0).shape == (2, 5, 0) for name in SEQUENCES)
    assert torch.equal(sinusoidal_convention("fairseq", torch.tensor(3), 2), sinusoidal_encoding(torch.tensor(5), 2))


@pytest.mark.parametrize(
    ("arguments", "grid", "error", "text"),
    (
        (
            ("m2m100", IDS, 8),
            None,
            ValueError,
            r"name must be a key of CONVENTIONS, got 'm2m100'; is it transformers.m2m",
        ),
        (("M2M_100", IDS, 8), None, ValueError, r"name must be .+; is it transformers\.m2m100\?"),
        (("fairsec", IDS, 8), None, ValueError, r"name must be .+; is it fairseq or "),
        (("whispr", IDS, 8), None, ValueError, r"name must be .+; is it whisper\?"),
        (("zzz", IDS, 8), None, ValueError, r"name must be a key of CONVENTIONS, got 'zzz'$"),
        (("mae", None, 8), None, TypeError, "one of positions and grid must be given, got none"),
        (("mae", IDS, 8), (3, 4), TypeError, "one of positions and grid must be given, got both"),
        (("mae", None, 8), (3, 4, 5), ValueError, r"grid must have 2 sizes in mae, got \[3, 4, 5\]"),
        (("mae", None, 8), (3, -1), ValueError, "grid must be at least 0, got -1"),
        (("mae", IDS, 8), None, ValueError, r"positions must have the last dimension 2 in mae, got \[2, 5\]"),
        (("mae", torch.tensor(3), 8), None, ValueError, r"positions must have the last dimension 2 in mae, got \[\]"),
        (("fairseq", IDS > 3, 8), None, TypeError, "positions must be .+, got Bool"),
        (("fairseq", IDS * 1j, 8), None, TypeError, "positions must be .+, got ComplexFloat"),
        (("fairseq", IDS.to_sparse(), 8), None, TypeError, "positions must be strided, got torch.sparse_coo"),
        (("fairseq", IDS, -1), None, ValueError, "dim must be at least 0, got -1"),
    ),
    ids=range(15),
)
def test_what_is_refused(arguments, grid, error, text):
    with pytest.raises(error, match=f"^sinusoidal_convention: {text}"):
        sinusoidal_convention(*arguments, grid=grid)


def embedder(name, dim=8, padding_id=1, **fields):
    config = SinusoidalConfig(vocab_size=12, embedding_dim=dim, padding_id=padding_id, **fields)
    generator = torch.Generator().manual_seed(1)
    return ConfigurableSinusoidalEmbedder(config, convention=name, generator=generator, device="cpu")


def places_of(name, ids):
    """Of tokens in the order that the library counts them, -1 for padding, in plain Python."""
    rows = []
    for row in ids.tolist():
        count, places = 0, []
        for place, token in enumerate(row):
            skipped = ENTRIES[name].padding == "skipped"
            places.append(-1 if token == 1 else count if skipped else place)
            count += token != 1
        rows.append(places)
    return torch.tensor(rows)


@pytest.mark.parametrize("vectorized", (True, False), ids=("fused", "plain"))
@pytest.mark.parametrize("dim", (8, 7))
@pytest.mark.parametrize("name", SEQUENCES)
def test_an_embedder_adds_what_the_library_adds(name, dim, vectorized):
    if dim % 2 and ENTRIES[name].odd in ("error", "more", "fewer"):
        with pytest.raises(ValueError, match=f"^SinusoidalConfig: embedding_dim must be even in {name}, got 7$"):
            embedder(name, dim)
        return
    module = embedder(name, dim, use_vectorized_operations=vectorized)
    rows = torch.nn.functional.embedding(IDS, module.weight) * 1.0
    is_token = (IDS != 1).unsqueeze(-1)
    wanted = (rows + sinusoidal_convention(name, places_of(name, IDS), dim)) * is_token
    torch.testing.assert_close(module(IDS), wanted, atol=1e-6, rtol=0)
    places = torch.tensor([0.5, 3.0, -1.0, 1e6, 2.0])
    wanted = (rows + sinusoidal_convention(name, places, dim)) * is_token
    torch.testing.assert_close(module(IDS, places), wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize("vectorized", (True, False), ids=("fused", "plain"))
@pytest.mark.parametrize("dim", (8, 7))
def test_an_embedder_refuses_alike_whatever_path_it_takes(dim, vectorized):
    module = embedder("diffusers", dim, use_vectorized_operations=vectorized)
    with pytest.raises(IndexError, match=r"^embed: ids must be from 0 to 11, the last row of table, got 12$"):
        module(IDS + 3)
    with pytest.raises(ValueError, match=r"^embed: ids and positions must broadcast, got sizes 5 and 4 at"):
        module(IDS, torch.arange(4))


@pytest.mark.parametrize(("name", "dim"), (("fairseq", 8), ("esm1", 7), ("x-transformers", 8)))
def test_an_embedder_in_every_lane(name, dim, tmp_path):
    module, stored = embedder(name, dim), io.BytesIO()
    places = torch.tensor([7, -1, 5, 5, 2**31])
    torch.jit.save(torch.jit.script(module), stored)
    stored.seek(0)
    scripted = torch.jit.load(stored)
    program = torch.export.export(module, (IDS,), dynamic_shapes=({0: Dim("batch"), 1: Dim("length")},))
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    module.save(tmp_path / "embedder")
    loaded = ConfigurableSinusoidalEmbedder.load(tmp_path / "embedder", device="cpu")
    assert loaded.config.convention == name
    for each in (scripted, compiled, program.module(), loaded):
        assert torch.equal(each(IDS), module(IDS))
    assert torch.equal(scripted(IDS, places), module(IDS, places))
    assert torch.equal(program.module()(IDS.repeat(2, 3)), module(IDS.repeat(2, 3)))
    for half in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=half):
            assert torch.equal(module(IDS), module.float()(IDS).to(half))
    module.adapt_embedding_dimension(10)
    waves = sinusoidal_convention(name, places_of(name, IDS), 10)
    wanted = (module.weight[IDS] + waves) * (IDS != 1).unsqueeze(-1)
    torch.testing.assert_close(module(IDS), wanted, atol=1e-6, rtol=0)
    torch._dynamo.reset()


def test_positions_of_an_embedder_count_from_its_padding():
    """The library's first is padding_idx + 1, whatever the padding; without padding it is 2."""
    ids = torch.tensor([[3, 4]])
    for padding_id, first in ((0, 1), (1, 2), (5, 6), (None, 2)):
        module = embedder("fairseq", padding_id=padding_id)
        wanted = sinusoidal_convention("tensor2tensor", torch.arange(2) + first, 8)
        torch.testing.assert_close(module(ids)[0] - module.weight[3:5], wanted, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("fields", "text"),
    (
        ({"convention": "mae"}, "convention must be one of sequences, got 'mae', whose axes are xy"),
        ({"base_frequency": 3.0}, r"base_frequency must be 10000.0 with a convention, got 3.0"),
        ({"layout": "half"}, "layout must be 'interleaved' with a convention, got 'half'"),
        ({"learnable_frequencies": True}, "learnable_frequencies must be False with a convention, got True"),
        ({"convention": "fairsec"}, "convention must be a key of CONVENTIONS, got 'fairsec'; is it fairseq"),
    ),
    ids=range(5),
)
def test_fields_that_do_not_go_with_a_convention(fields, text):
    with pytest.raises(ValueError, match=f"^SinusoidalConfig: {text}"):
        SinusoidalConfig(**{"convention": "fairseq", **fields})


def test_files_without_a_convention_are_as_before():
    assert "convention" not in SinusoidalConfig().to_metadata()
    config = SinusoidalConfig(convention="whisper")
    assert SinusoidalConfig.from_metadata(config.to_metadata()) == config


def test_the_table_of_the_guide_is_what_the_data_give():
    page = (DOCS / "encoding.md").read_text()
    begin, end = "<!-- conventions: begin -->\n", "<!-- conventions: end -->"
    assert page[page.index(begin) + len(begin) : page.index(end)] == encoding_conventions.table()
