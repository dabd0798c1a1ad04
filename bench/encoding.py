"""Benchmark entries of the encodings: sizes, dtypes, and the ratios aimed at."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.entry import Entry, Inputs, Peer, with_compiled
from torch_hrr import encoding

BASE = 10000.0
SIZES = ((512, 512), (8192, 512), (65_536, 1024))
# Beyond these positions float32 angles are too far off to be compared.
COMPARED_ROWS = 256


def angles_of(positions: Tensor, dim: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Angles as everyone computes them."""
    column = positions.to(dtype).unsqueeze(-1)
    return column * torch.exp(torch.arange(0, dim, 2, dtype=dtype, device=column.device) * (-math.log(BASE) / dim))


def side_by_side(angles: Tensor) -> Tensor:
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def features(positions: Tensor, frequencies: Tensor) -> Tensor:
    """The sine and cosine of each angle, side by side; angles in float32."""
    return side_by_side(positions.to(torch.float32).unsqueeze(-1) * frequencies)


def encoded(positions: Tensor, dim: int, layout: str, dtype: torch.dtype) -> Tensor:
    angles = angles_of(positions, dim)
    return (torch.cat((angles.sin(), angles.cos()), -1) if layout == "half" else side_by_side(angles)).to(dtype)


def filled_into(dim: int, positions: Tensor, *, out: Tensor) -> Tensor:
    """As tutorials write it, every second column, into a result that is used again."""
    angles = angles_of(positions, dim)
    out[..., 0::2] = angles.sin()
    out[..., 1::2] = angles.cos()
    return out


def filled(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The same into a tensor of zeros."""
    return filled_into(dim, positions, out=torch.zeros(*positions.shape, dim, device=positions.device)).to(dtype)


def stacked(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The form that torch.compile fuses best."""
    return encoded(positions, dim, "interleaved", dtype)


def first_rows(result: Tensor, *inputs: Tensor) -> Tensor:
    """What is compared; of half types the mean, since a rounding may fall either way."""
    rows = result[:COMPARED_ROWS].float()
    return rows if result.dtype.itemsize > 2 else rows.mean(0)


def encoding_entry(rows: int, dim: int, dtype: torch.dtype) -> Entry:
    """sinusoidal_encoding at one size; its aims are targets."""
    ours = partial(encoding.sinusoidal_encoding, dim=dim)
    peers = (
        Peer("filled", partial(filled, dim, dtype), reuse=partial(filled_into, dim), compared=first_rows),
        *with_compiled("stacked", partial(stacked, dim, dtype), compared=first_rows),
    )
    return Entry(
        "sinusoidal_encoding", f"{rows}x{dim} {dtype}".replace("torch.", ""), rows,
        lambda rows, generator: (torch.arange(rows),), partial(ours, dtype=dtype), peers, rows * dim * dtype.itemsize,
        reuse=ours, compared=first_rows,
    )  # fmt: skip


def embedded(tokens: Tensor, table: Tensor) -> Tensor:
    """A table's rows plus the encoding of their positions, in torch."""
    positions = torch.arange(tokens.shape[-1], device=tokens.device)
    return F.embedding(tokens, table) + encoded(positions, table.shape[-1], "interleaved", table.dtype)


def embed_entry(rows: int, length: int, dim: int) -> Entry:
    """embed_positions for a batch of sequences of a vocabulary of 10,000."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        tokens = torch.randint(10_000, (batch, length), generator=generator)
        return tokens, torch.randn(10_000, dim, generator=generator)

    return Entry(
        "embed_positions", f"{rows}x{length}x{dim}", rows, inputs, encoding.embed_positions,
        with_compiled("torch", embedded), 2 * rows * length * dim * 4,
        reuse=encoding.embed_positions,
    )  # fmt: skip


def features_entry(rows: int, frequencies: int) -> Entry:
    """sinusoidal_features with random frequencies."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        return torch.arange(batch), torch.rand(frequencies, generator=generator)

    return Entry(
        "sinusoidal_features", f"{rows}x{frequencies}", rows, inputs, encoding.sinusoidal_features,
        with_compiled("torch", features, compared=first_rows), rows * frequencies * 8,
        reuse=encoding.sinusoidal_features, compared=first_rows,
    )  # fmt: skip


def waves_of(length: int, dim: int, layout: str, dtype: torch.dtype, device: str = "cpu") -> tuple[Tensor, Tensor]:
    """Cosines and sines as models make them, once for all layers: angles in float32, then the model's dtype."""
    angles = angles_of(torch.arange(length, device=device), dim)
    angles = torch.cat((angles, angles), -1) if layout == "half" else angles.repeat_interleave(2, -1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def apply_rotary(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """As models in transformers turn queries and keys."""
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


def apply_rotary_to_pairs(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """The same for pairs side by side."""
    pairs = x.unflatten(-1, (-1, 2))
    return x * cosine + torch.stack((-pairs[..., 1], pairs[..., 0]), -1).flatten(-2) * sine


def rotate_entry(heads: int, length: int, dim: int, dtype: torch.dtype, layout: str) -> Entry:
    """rope of a batch of queries; the peers' sines and cosines are made beforehand."""
    waves = waves_of(length, dim, layout, dtype)
    positions = torch.arange(length)
    form = apply_rotary if layout == "half" else apply_rotary_to_pairs

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        return (torch.randn(batch, heads, length, dim, generator=generator).to(dtype),)

    def ours(x: Tensor, out: Tensor | None = None) -> Tensor:
        return encoding.rope(x, positions, layout=layout, out=out)

    def turned(x: Tensor) -> Tensor:
        return form(x, *waves)

    def compared(result: Tensor, x: Tensor) -> Tensor:
        """In half precision, where a peer rounds every product, the mean cosine and sine of all angles."""
        rows, given = result[..., :COMPARED_ROWS, :].float(), x[..., :COMPARED_ROWS, :].float()
        partner = given.roll(dim // 2, -1) if layout == "half" else given.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return rows if dtype.itemsize > 2 else torch.stack((rows * given, rows * partner)).mean((1, 2, 3, 4))

    return Entry(
        "rotate", f"1x{heads}x{length}x{dim} {dtype} {layout}".replace("torch.", ""), 1, inputs, ours,
        with_compiled("torch", turned, compared=compared), 2 * heads * length * dim * dtype.itemsize,
        reuse=ours, compared=compared,
    )  # fmt: skip


ENTRIES = (
    *(encoding_entry(rows, dim, dtype) for rows, dim in SIZES for dtype in (torch.float32, torch.bfloat16)),
    embed_entry(32, 128, 256),
    embed_entry(64, 512, 512),
    features_entry(8192, 256),
    *(
        rotate_entry(32, length, 128, dtype, layout)
        for length, layout in ((128, "half"), (2048, "half"), (2048, "interleaved"))
        for dtype in (torch.float32, torch.bfloat16)
    ),
)
