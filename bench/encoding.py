"""Benchmark entries of the encodings: sizes, dtypes, and the ratios aimed at."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from torch_hrr import encoding

BASE = 10000.0
SIZES = ((512, 512), (8192, 512), (65_536, 1024))
# Beyond these positions float32 angles are too far off to be compared.
COMPARED_ROWS = 256


def ladder(dim: int, device: torch.device) -> Tensor:
    """Frequencies as everyone computes them, in float32."""
    return torch.exp(torch.arange(0, dim, 2, dtype=torch.float32, device=device) * (-math.log(BASE) / dim))


def features(positions: Tensor, frequencies: Tensor) -> Tensor:
    """The sine and cosine of each angle, side by side; angles in float32."""
    angles = positions.to(torch.float32).unsqueeze(-1) * frequencies
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


def encoded(positions: Tensor, dim: int, layout: str, dtype: torch.dtype) -> Tensor:
    """The encoding of an even dimension by torch's functions."""
    angles = positions.to(torch.float32).unsqueeze(-1) * ladder(dim, positions.device)
    if layout == "half":
        return torch.cat((angles.sin(), angles.cos()), -1).to(dtype)
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2).to(dtype)


def filled(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The encoding as tutorials write it: every second column of a tensor of zeros."""
    result = torch.zeros(*positions.shape, dim, device=positions.device)
    angles = positions.to(torch.float32).unsqueeze(-1) * ladder(dim, positions.device)
    result[..., 0::2] = angles.sin()
    result[..., 1::2] = angles.cos()
    return result.to(dtype)


def filled_into(dim: int, positions: Tensor, *, out: Tensor) -> Tensor:
    """The same into a result that is used again."""
    angles = positions.to(torch.float32).unsqueeze(-1) * ladder(dim, positions.device)
    out[..., 0::2] = angles.sin()
    out[..., 1::2] = angles.cos()
    return out


def stacked(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The form that torch.compile fuses best."""
    return encoded(positions, dim, "interleaved", dtype)


def ours(dim: int, dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The operator."""
    return encoding.sinusoidal_encoding(positions, dim, dtype=dtype)


def ours_into(dim: int, positions: Tensor, *, out: Tensor) -> Tensor:
    """Into a result that is used again."""
    return encoding.sinusoidal_encoding(positions, dim, out=out)


def first_positions(rows: int, generator: torch.Generator) -> Inputs:
    """0 to rows - 1."""
    return (torch.arange(rows),)


def first_rows(result: Tensor, positions: Tensor) -> Tensor:
    """What is compared; of half types the mean, since a rounding may fall either way."""
    rows = result[:COMPARED_ROWS].float()
    return rows if result.dtype.itemsize > 2 else rows.mean(0)


def encoding_entry(rows: int, dim: int, dtype: torch.dtype) -> Entry:
    """sinusoidal_encoding at one size; its aims are targets."""
    return Entry(
        op="sinusoidal_encoding",
        shape=f"{rows}x{dim} {dtype}".replace("torch.", ""),
        batch=rows,
        inputs=first_positions,
        ours=partial(ours, dim, dtype),
        reuse=partial(ours_into, dim),
        compared=first_rows,
        peers=(
            Peer("filled", partial(filled, dim, dtype), reuse=partial(filled_into, dim), compared=first_rows),
            Peer("stacked", partial(stacked, dim, dtype), compared=first_rows),
            Peer("torch.compile", partial(stacked, dim, dtype), kind="compile", compared=first_rows),
        ),
        traffic=rows * dim * dtype.itemsize,
    )


def embedding_inputs(vocabulary: int, length: int, dim: int, rows: int, generator: torch.Generator) -> Inputs:
    """Tokens of `rows` sequences and a table."""
    tokens = torch.randint(vocabulary, (rows, length), generator=generator)
    return tokens, torch.randn(vocabulary, dim, generator=generator)


def embedded(tokens: Tensor, table: Tensor) -> Tensor:
    """A table's rows plus the encoding of their positions, in torch."""
    positions = torch.arange(tokens.shape[-1], device=tokens.device)
    return F.embedding(tokens, table) + encoded(positions, table.shape[-1], "interleaved", table.dtype)


def embed_entry(rows: int, length: int, dim: int) -> Entry:
    """embed_positions for a batch of sequences."""
    vocabulary = 10_000
    return Entry(
        op="embed_positions",
        shape=f"{rows}x{length}x{dim}",
        batch=rows,
        inputs=partial(embedding_inputs, vocabulary, length, dim),
        ours=lambda tokens, table: encoding.embed_positions(tokens, table),
        reuse=lambda tokens, table, *, out: encoding.embed_positions(tokens, table, out=out),
        peers=(
            Peer("torch", embedded),
            Peer("torch.compile", embedded, kind="compile"),
        ),
        traffic=2 * rows * length * dim * 4,
    )


def features_entry(rows: int, frequencies: int) -> Entry:
    """sinusoidal_features with random frequencies."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        return torch.arange(batch), torch.rand(frequencies, generator=generator)

    def compared(result: Tensor, positions: Tensor, held: Tensor) -> Tensor:
        return first_rows(result, positions)

    return Entry(
        op="sinusoidal_features",
        shape=f"{rows}x{frequencies}",
        batch=rows,
        inputs=inputs,
        ours=lambda positions, held: encoding.sinusoidal_features(positions, held),
        reuse=lambda positions, held, *, out: encoding.sinusoidal_features(positions, held, out=out),
        compared=compared,
        peers=(
            Peer("torch", features, compared=compared),
            Peer("torch.compile", features, kind="compile", compared=compared),
        ),
        traffic=rows * frequencies * 8,
    )


ENTRIES = (
    *(encoding_entry(rows, dim, dtype) for rows, dim in SIZES for dtype in (torch.float32, torch.bfloat16)),
    embed_entry(32, 128, 256),
    embed_entry(64, 512, 512),
    features_entry(8192, 256),
)
