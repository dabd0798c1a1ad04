"""The sinusoids of other libraries: how each lays them out, as data, and one function that gives them all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import brief, can_be_cut, close_to, integer, listed, meant, named, strided, word
from torch_hrr._repr import Described
from torch_hrr._spec import Spec
from torch_hrr.encoding.functional import sinusoidal_encoding

BASE = 10000.0
# The axes of a grid in the order of its dimensions, by their number.
_AXES = {1: "x", 2: "yx", 3: "tyx"}
_COSINES_FIRST: dict[str, Any] = {"layout": "half", "scale": -1.0, "phase": math.pi / 2}
# Errors that several libraries share, since their arithmetic is the same.
_DOUBLE = (3e-8, 3e-8, 3e-8, None)
_WHOLE = (4e-8, 1e-5, 9e-4, 6e-2)
_LESS_ONE = (6e-8, 1e-5, 8e-4, 2e-1)
_ONCE = "table in float32, rounded once"
_RUINED = "angles in bfloat16: 507 of 1000 positions stay distinct, off by 2.0"
_TIMES = "timesteps in bfloat16: 507 of 1000 stay distinct, off by 1.7"


@dataclass(frozen=True, repr=False)
class Convention(Described):
    """How a library writes positions as sinusoids; `sinusoidal_convention` does the same.

    Attributes:
        names: The names under which `CONVENTIONS` has it.
        source: Where it is defined: the library and its version or commit, and what is called there.
        ladder: The exponents of the frequencies ``10000^-e`` for h pairs: "1/h" is e = i / h, "1/(h-1)" is i / (h - 1),
            so that the last frequency is 1 / 10000.
        odd: What an odd number of columns becomes: "zero" (the last column is zero), "sine" (one sine more, with
            exponents 2i/dim), "cut" (the next even number without its last cosine), "more" or "fewer" (one column more
            or fewer), "error".
        errors: Largest error of the library's own results in float32 at positions 10, 1e3, 1e5 and 1e7, dim = 16, as
            measured; None where it was not.
        half: What its models do in bfloat16, as measured at positions below 1000.
        angles: The dtype in which it computes angles, "input" for that of its input or model.
        layout: As of `sinusoidal_encoding`.
        scale: Factor of all angles; a negative one turns sines and cosines around, together with the phase.
        phase: As of `sinusoidal_encoding`.
        scaled: Whether rows are divided by the square root of dim.
        first: What the first position, 0 here, counts as there.
        padding: Whether there is padding, one before the first position, whose rows are zero: "" if not, "skipped" if
            tokens after it count on from those before it, "counted" if it takes up places.
        axes: The axes of a table in the order of their columns, x being the last of a grid's dimensions, y the one
            before and t before that; "x" for a sequence.
        shares: The parts of the columns that the axes get.
        by_function: Whether the sines of all axes come before their cosines.
        span: On a grid of n, positions are multiplied by ``span[0] / (n + span[1])``; None leaves them.
    """

    names: tuple[str, ...]
    source: str
    ladder: str
    odd: str
    errors: tuple[float | None, ...]
    half: str
    angles: str = "float32"
    layout: str = "half"
    scale: float = 1.0
    phase: float = 0.0
    scaled: bool = False
    first: float = 0
    padding: str = ""
    axes: str = "x"
    shares: tuple[int, ...] = (1,)
    by_function: bool = False
    span: tuple[float, float] | None = None


def _entry(names: str, *facts: Any, **others: Any) -> Convention:
    return Convention(tuple(names.split()), *facts, **others)


_FOLDED = {"axes": "yx", "shares": (1, 1)}
_WIDTH_FIRST = {"axes": "xy", "shares": (1, 1)}
_HF = "transformers 5.24.0"
_ENTRIES = (
    _entry("transformers.m2m100 transformers.nllb_moe transformers.seamless_m4t transformers.seamless_m4t_v2 "
           "transformers.kosmos2 transformers.kosmos2_5 transformers.trocr transformers.speech_to_text "
           "transformers.speecht5_decoder transformers.fsmt", f"{_HF}, M2M100SinusoidalPositionalEmbedding", "1/(h-1)",
           "zero", _LESS_ONE, _ONCE, first=2, padding="skipped"),
    _entry("transformers.xglm", f"{_HF}, XGLMSinusoidalPositionalEmbedding", "1/(h-1)", "zero", _LESS_ONE, _ONCE,
           first=2, padding="counted"),
    _entry("transformers.tipsv2", f"{_HF}, Tipsv2SinusoidalPositionalEmbedding", "1/(h-1)", "zero", _LESS_ONE, _ONCE),
    _entry("transformers.pegasus_x", f"{_HF}, PegasusXSinusoidalPositionalEmbedding", "1/(h-1)", "error", _LESS_ONE,
           _RUINED, "input"),
    _entry("transformers.musicgen transformers.musicgen_melody", f"{_HF}, MusicgenSinusoidalPositionalEmbedding",
           "1/(h-1)", "zero", _LESS_ONE, _ONCE, **_COSINES_FIRST),
    _entry("whisper transformers.whisper transformers.qwen2_5_omni", "openai/whisper c0d2f62, sinusoids", "1/(h-1)",
           "error", _LESS_ONE, "rounded once; built under bfloat16: off by 2.0"),
    _entry("transformers.marian transformers.pegasus transformers.informer transformers.roformer "
           "transformers.autoformer transformers.time_series_transformer",
           f"{_HF}, MarianSinusoidalPositionalEmbedding", "1/h", "sine", _DOUBLE, "rounded once", "float64"),
    _entry("transformers.distilbert transformers.xlm transformers.flaubert", f"{_HF}, create_sinusoidal_embeddings",
           "1/h", "sine", _DOUBLE, "rounded once", "float64", "interleaved"),
    _entry("transformers.ctrl", f"{_HF}, ctrl positional_encoding", "1/h", "sine", (4e-8, 1e-5, 7e-4, 6e-2),
           "its model asks for float32", "input"),
    _entry("transformers.speecht5", f"{_HF}, SpeechT5ScaledPositionalEncoding", "1/h", "error",
           (4e-8, 1e-5, 9e-4, None), _ONCE, layout="interleaved"),
    _entry("transformers.zoedepth", f"{_HF}, positional_encoding_1d", "1/h", "more", _WHOLE, _RUINED, "input"),
    _entry("transformers.vibevoice", f"{_HF}, VibeVoiceDiffusionHeadSinusoidalEmbedding", "1/h", "fewer", _WHOLE,
           "float32 inside", **_COSINES_FIRST),
    _entry("transformers.vit_mae", f"{_HF}, build_2d_sinusoidal_position_embedding", "1/h", "error", _DOUBLE,
           "rounded once", "float64", **_FOLDED),
    _entry("diffusers", "diffusers 0.42.1, get_timestep_embedding", "1/(h-1)", "zero", _LESS_ONE,
           _TIMES),
    _entry("diffusers.unet diffusers.timesteps", "diffusers 0.42.1, Timesteps(dim, True, 0)", "1/h", "zero", _WHOLE,
           _TIMES, **_COSINES_FIRST),
    _entry("diffusers.sinusoidal", "diffusers 0.42.1, SinusoidalPositionalEmbedding", "1/h", "error",
           (4e-8, 1e-5, 9e-4, None), "rounded once; built under bfloat16: off by 2.0", layout="interleaved"),
    _entry("diffusers.1d", "diffusers 0.42.1, get_1d_sincos_pos_embed_from_grid", "1/h", "error",
           (2e-16, 2e-14, 2e-12, 2e-10), "rounded once", "float64"),
    _entry("diffusers.2d", "diffusers 0.42.1, get_2d_sincos_pos_embed", "1/h", "error", (None,) * 4,
           "rounded once", "float64", span=(16.0, 0.0), **_WIDTH_FIRST),
    _entry("diffusers.3d", "diffusers 0.42.1, get_3d_sincos_pos_embed", "1/h", "error", (2e-16, 2e-14, 2e-12, 2e-10),
           "rounded once", "float64", axes="txy", shares=(2, 3, 3)),
    _entry("stable-diffusion guided-diffusion dit", "openai/guided-diffusion 22e0df8, timestep_embedding", "1/h",
           "zero", _WHOLE, _TIMES, **_COSINES_FIRST),
    _entry("flux", "black-forest-labs/flux 802fb47, timestep_embedding", "1/h", "zero", _WHOLE,
           "timesteps in bfloat16: 501 of 1000 stay distinct, off by 2.0", **_COSINES_FIRST | {"scale": -1000.0}),
    _entry("ddpm ncsnpp score_sde", "yang-song/score_sde_pytorch cb1f359, get_timestep_embedding", "1/(h-1)", "zero",
           _LESS_ONE, "float32 inside"),
    _entry("edm", "NVlabs/edm 008a4e5, PositionalEmbedding", "1/h", "fewer", (4e-8, 1e-5, 7e-4, 6e-2), _RUINED, "input",
           **_COSINES_FIRST),
    _entry("edm.endpoint", "NVlabs/edm 008a4e5, PositionalEmbedding(endpoint=True)", "1/(h-1)", "fewer",
           (2e-7, 2e-5, 1e-3, 1e-1), _RUINED, "input", **_COSINES_FIRST),
    _entry("edm.songunet", "NVlabs/edm 008a4e5, SongUNet", "1/(h-1)", "fewer", (2e-7, 2e-5, 1e-3, 1e-1), _RUINED,
           "input"),
    _entry("fairseq", "facebookresearch/fairseq 3d262bb, SinusoidalPositionalEmbedding", "1/(h-1)", "zero", _LESS_ONE,
           _ONCE, first=2, padding="skipped"),
    _entry("esm1 fair-esm", "fair-esm 2.0.0, SinusoidalPositionalEmbedding", "1/(h-1)", "zero", _LESS_ONE, _ONCE,
           first=2, padding="counted"),
    _entry("fairseq2", "fairseq2 0.8.1, SinusoidalPositionEncoder", "1/(h-1)", "error", _LESS_ONE, "adds in float32"),
    _entry("tensor2tensor", "tensorflow/tensor2tensor bafdc1b, get_timing_signal_1d", "1/(h-1)", "zero",
           (1.5e-7, 2e-5, 1e-3, 7e-2), "float32 inside"),
    _entry("tensor2tensor.2d", "tensorflow/tensor2tensor bafdc1b, add_timing_signal_nd", "1/(h-1)", "zero", (None,) * 4,
           "float32 inside", **_FOLDED),
    _entry("tensor2tensor.3d", "tensorflow/tensor2tensor bafdc1b, add_timing_signal_nd", "1/(h-1)", "zero", (None,) * 4,
           "float32 inside", axes="tyx", shares=(1, 1, 1)),
    _entry("flax.wmt flax.lm1b", "google/flax 18f8f31, examples/wmt sinusoidal_init", "1/(h-1)", "zero", _DOUBLE,
           "table in float32", "float64"),
    _entry("flax.nlp_seq scenic.1d", "google/flax 18f8f31, examples/nlp_seq sinusoidal_init", "1/h", "error", _DOUBLE,
           "table in float32", "float64", "interleaved"),
    _entry("big_vision", "google-research/big_vision 0127fb6, posemb_sincos_2d", "1/(h-1)", "error",
           (2e-7, 2e-5, 1e-3, None), _ONCE, **_WIDTH_FIRST),
    _entry("scenic", "google-research/scenic 4a38d47, get_fixed_sincos_position_embedding", "1/h", "error",
           (4e-8, 1e-5, 7e-4, None), _ONCE, **_WIDTH_FIRST),
    _entry("scenic.3d", "google-research/scenic 4a38d47, get_fixed_sincos_position_embedding", "1/h", "error",
           (4e-8, 1e-5, 7e-4, None), _ONCE, axes="txy", shares=(1, 1, 1)),
    _entry("mae dit.2d", "facebookresearch/mae efb2a80, get_2d_sincos_pos_embed", "1/h", "error",
           (2e-16, 2e-14, 2e-12, 2e-10), "rounded once", "float64", **_WIDTH_FIRST),
    _entry("timm", "timm 1.0.31, build_sincos2d_pos_embed", "1/h", "error", (4e-8, 1e-5, 7e-4, 6e-2), _ONCE,
           by_function=True, **_FOLDED),
    _entry("timm.interleaved", "timm 1.0.31, build_sincos2d_pos_embed(interleave_sin_cos=True)", "1/h", "error",
           (4e-8, 1e-5, 7e-4, 6e-2), _ONCE, **_FOLDED),
    _entry("detr", "facebookresearch/detr 29901c5, PositionEmbeddingSine", "1/h", "error", (4e-8, 1e-5, 1e-3, None),
           "float32; in transformers angles in bfloat16: off by 2.0", "float32", "interleaved", first=1, **_FOLDED),
    _entry("detr.normalized transformers.detr", "facebookresearch/detr 29901c5, PositionEmbeddingSine(normalize=True)",
           "1/h", "error", (None,) * 4, "float32; in transformers angles in bfloat16: off by 0.06", "float32",
           "interleaved", first=1, span=(2 * math.pi, 1e-6), **_FOLDED),
    _entry("transformers.deformable_detr", f"{_HF}, DeformableDetrSinePositionEmbedding(normalize=True)", "1/h",
           "error", (None,) * 4, "angles in bfloat16: off by 0.05", "input", "interleaved", first=0.5,
           span=(2 * math.pi, 1e-6), **_FOLDED),
    _entry("positional-encodings", "positional-encodings 6.0.3, PositionalEncoding1D", "1/h", "cut",
           (4e-8, 1e-5, 7e-4, 6e-2), _RUINED, "input", "interleaved"),
    _entry("positional-encodings.2d", "positional-encodings 6.0.3, PositionalEncoding2D", "1/h", "cut",
           (4e-8, 1e-5, 7e-4, 6e-2), _RUINED, "input", "interleaved", **_FOLDED),
    _entry("positional-encodings.3d", "positional-encodings 6.0.3, PositionalEncoding3D", "1/h", "cut",
           (4e-8, 1e-5, 7e-4, 6e-2), _RUINED, "input", "interleaved", axes="tyx", shares=(1, 1, 1)),
    _entry("x-transformers", "x-transformers 2.31.10, ScaledSinusoidalEmbedding", "1/h", "error",
           (1e-8, 3e-6, 2e-4, 2e-2), "angles in bfloat16; float16 is NaN at 100,000", "input", scaled=True),
    _entry("keras-hub", "keras-hub 0.32, SinePositionEncoding", "1/h", "sine", (4e-8, 1e-5, 7e-4, 6e-2),
           f"{_RUINED}; float16 is NaN at 100,000", "input", "interleaved"),
)  # fmt: skip

CONVENTIONS: Mapping[str, Convention] = MappingProxyType({name: entry for entry in _ENTRIES for name in entry.names})
"""Every convention by each of its names: "transformers.m2m100", "diffusers", "mae", ..."""


class ConventionName(Spec):
    """A key of `CONVENTIONS`."""

    words = "a key of `CONVENTIONS`"

    def __call__(self, op: str, argument: str, value: Any) -> str:
        """The name."""
        convention_of(op, value, argument)
        return str(value)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Other types, and a name that is unknown."""
        yield from ((each, TypeError) for each in (3, None, ["mae"]))
        yield "mea", ValueError


def convention_of(op: str, name: Any, argument: str = "name") -> Convention:
    """The convention of a name; TypeError for what is no str, ValueError for an unknown one, with those near it."""
    word(op, argument, name)
    if name in CONVENTIONS:
        return CONVENTIONS[name]
    # Often the library or the model alone is meant.
    parts = {part: key for key in CONVENTIONS for part in key.split(".")} | {key: key for key in CONVENTIONS}
    found = [key for key in CONVENTIONS if name and name.lower() in key]
    found = found or list(dict.fromkeys(parts[part] for part in close_to(name.lower(), parts)))
    raise ValueError(f"{op}: {argument} must be a key of CONVENTIONS, got {brief(name)}{meant(found[:4])}")


class Row(NamedTuple):
    """What `sinusoidal_encoding` is asked for an axis: so many columns, on the ladder of this base."""

    columns: int
    base: float


def rows_of(op: str, entry: Convention, dim: int) -> list[Row]:
    """The axes of a row of `dim` columns, which are then cut or filled up with zeros; ValueError for a wrong `dim`."""
    parts = sum(entry.shares)
    if entry.odd == "error" and dim % (2 * parts):
        raise ValueError(f"{op}: dim must be a multiple of {2 * parts} in {entry.names[0]}, got {dim}")
    pairs = dim // (2 * parts)
    if entry.odd in ("cut", "more"):
        pairs = -(-dim // (2 * parts))
    base = BASE
    if entry.ladder == "1/(h-1)" and pairs > 1:
        base **= pairs / (pairs - 1)
    if entry.odd == "more" and dim % 2:
        base **= (dim + 1) / dim
    if entry.odd == "sine":
        return [Row(dim, base)]
    return [Row(2 * pairs * share, base) for share in entry.shares]


def counted(positions: Tensor, first: int) -> Tensor:
    """Positions of which the first is `first`, without rounding; what is no number is left to the operator."""
    if positions.dtype == torch.bool or positions.is_complex():
        return positions
    return (positions.double() if positions.is_floating_point() else positions.long()) + first


def sinusoidal_convention(
    name: str,
    positions: Tensor | None,
    dim: int,
    dtype: torch.dtype | None = None,
    *,
    grid: Sequence[int] | None = None,
) -> Tensor:
    """The sinusoids that another library's function gives for these positions, to that function's own rounding.

    ``name`` is one of `CONVENTIONS`, which says how the library lays its columns out. Positions count from 0, the place
    of the first token; a library that counts from another number adds it, and where it keeps a row for padding, that is
    position -1, all zeros. So the whole table of fairseq, whose rows count from its padding, is
    ``sinusoidal_convention("fairseq", torch.arange(n) - 2, dim)``. Two columns of a ladder "1/(h-1)" have frequency 1,
    where most libraries divide by zero.

    Exact at any position, where the libraries' angles in float32 err by 1e-3 at 100,000. Half types, gradients,
    determinism, autocast and cost as for `sinusoidal_encoding`, of which this is one call for each axis.

    Args:
        name: A key of `CONVENTIONS`, such as "transformers.m2m100", "fairseq", "diffusers", "mae" or "detr".
        positions: ``[...]``, any integer or floating dtype; ``[..., A]`` for a convention of A axes, in the order of a
            grid's dimensions, (y, x) or (t, y, x). None with ``grid``.
        dim: how many columns, >= 0.
        dtype: as for `sinusoidal_encoding`.
        grid: sizes (n,), (h, w) or (t, h, w) of a table of all positions, on torch's default device, in the order
            in which the libraries flatten theirs.

    Returns:
        ``[..., dim]``, or ``[*grid, dim]``; for odd dims one column more or fewer where the library gives so.

    Raises:
        TypeError: an argument is of another type or dtype, or both or none of ``positions`` and ``grid`` are given.
        ValueError: ``name`` is unknown, the library refuses ``dim``, positions or grid are of another number of axes,
            or positions are given where they depend on the grid.

    Source: that of each entry; Vaswani et al., Attention is all you need, NeurIPS 2017, section 3.5.
    """
    op = "sinusoidal_convention"
    entry = convention_of(op, name)
    dim, axes = integer(op, "dim", dim, 0), len(entry.axes)
    positions = None if positions is None else strided(op, "positions", positions)
    sizes = [] if grid is None else [integer(op, "grid", size, 0) for size in listed(op, "grid", grid, "ints")]
    if (positions is None) is (grid is None):
        raise TypeError(f"{op}: one of positions and grid must be given, got {'none' if grid is None else 'both'}")
    rows = rows_of(op, entry, dim)
    if positions is None:
        if len(sizes) != axes:
            raise ValueError(f"{op}: grid must have {axes} sizes in {entry.names[0]}, got {sizes}")
        places = [torch.arange(size).view(-1, *[1] * (axes - 1 - axis)) for axis, size in enumerate(sizes)]
    elif entry.span is not None:
        raise ValueError(f"{op}: positions must be None in {entry.names[0]}, where they depend on the grid")
    elif axes == 1:
        places, sizes = [positions], [1]
    elif positions.dim() == 0 or positions.shape[-1] != axes:
        raise ValueError(
            f"{op}: positions must have the last dimension {axes} in {entry.names[0]}, got {list(positions.shape)}"
        )
    else:
        places, sizes = list(positions.unbind(-1)), [1] * axes
    waves = []
    for axis, row in zip(entry.axes, rows, strict=True):
        number = _AXES[axes].index(axis)
        waves.append(_axis(op, entry, places[number], row, sizes[number], dim, dtype))
    if grid is not None:
        waves = [wave.expand(*sizes, wave.shape[-1]) for wave in waves]
    if entry.by_function:
        waves = [half for part in (0, 1) for wave in waves for half in [wave.chunk(2, -1)[part]]]
    result = torch.cat(waves, -1) if len(waves) > 1 else waves[0]
    return fitted(result, dim, entry.odd)


def _axis(
    op: str, entry: Convention, positions: Tensor, row: Row, size: int, dim: int, dtype: torch.dtype | None
) -> Tensor:
    """The columns of one axis."""
    # Of no positions any scale will do, as of no columns any amplitude.
    scale = entry.scale if entry.span is None else entry.span[0] / (max(size, 1) + entry.span[1])
    arguments = (row.columns, row.base, scale, entry.phase, entry.layout)
    whole = entry.first == int(entry.first)
    places, asked = positions, dtype
    with named("sinusoidal_encoding", op):
        if entry.scaled or (entry.first and (positions.is_floating_point() or not whole)):
            # The dtype that the positions as they are give, under autocast too: no row is asked for.
            dtype = asked = sinusoidal_encoding(positions.reshape(-1)[:0], *arguments, dtype).dtype
        if entry.scaled:
            asked = torch.float64 if dtype == torch.float64 else torch.float32
        if entry.first:
            places = counted(positions, int(entry.first)) if whole else positions.double() + entry.first
        waves = sinusoidal_encoding(places, *arguments, asked)
    if entry.padding:
        held = places != entry.first - 1
        # Most have none, and a pass over the rows would take longer than they took.
        if not (can_be_cut(held) and bool(held.all())):
            waves = waves * held.unsqueeze(-1)
    return (waves * max(dim, 1) ** -0.5).to(dtype) if entry.scaled else waves


def fitted(waves: Tensor, dim: int, odd: str) -> Tensor:
    """Rows of `dim` columns: the others cut off, or zeros after them; as they are where the library leaves them so."""
    columns = waves.shape[-1]
    if odd == "zero" and columns < dim:
        return F.pad(waves, (0, dim - columns))
    return waves[..., :dim] if odd == "cut" and columns > dim else waves
