"""The encoding operators as Python functions."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr._checks import check_dtype, check_out, named, optional_tensor, real, signed, tensor, word
from torch_hrr._ops import ops as _ops


def sinusoidal_encoding(
    positions: Tensor,
    dim: int,
    base: float = 10000.0,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Sinusoids of positions: ``sin`` and ``cos`` of ``position * f_i + phase`` with ``f_i = scale base^(-2i/dim)``.

    With ``layout="interleaved"`` element 2i is the sine and 2i + 1 the cosine of frequency i; with ``"half"`` all sines
    come first, then all cosines. An odd ``dim`` drops the last cosine.

    Exact at any position: a frequency is a 64-bit fraction of a turn, so that ``position * frequency`` modulo a turn is
    one integer product, and nothing is lost to the size of the angle. float32 results err below 1.5e-7 for positions of
    up to 2^31 and float64 ones at most ``2 pi 2^-64 |position| + 1e-15``; angles in float32, the usual way, err by 0.05
    at a million. Half types only hold results, the float32 ones rounded: no angle is ever computed in them, not even
    under autocast. A NaN or infinite position gives a NaN row.

    Differentiable in floating positions, in every mode. Deterministic: the same bits on every instruction set and,
    according to tests that run the kernels on the host, on CUDA, whatever the batch, neighbours, threads and layout.
    Cost: one pass over the result, near the speed of memory. A large new result costs more in page faults than in
    sinusoids, so reuse ``out`` where you can.

    Args:
        positions: ``[...]``, any integer or floating dtype, negative ones too.
        dim: how many numbers a position becomes, >= 0.
        base: ratio of the ladder of frequencies, finite and above 0.
        scale: factor of all frequencies, finite.
        phase: added to every angle, in radians, finite.
        layout: "interleaved" or "half".
        dtype: dtype of the result: float32, float64, float16, bfloat16. None means that of ``out``, else that of
            floating positions, else torch's default dtype; under autocast, autocast's dtype in place of float32.
        out: optional result of the right shape and dtype that shares no memory with ``positions``; no gradient.

    Returns:
        ``[..., dim]``, or ``out``.

    Raises:
        TypeError: ``positions`` or ``dtype`` is a dtype not named above.
        ValueError: ``dim``, ``base``, ``scale``, ``phase`` or ``layout`` is outside its range, or ``out`` has another
            shape.
        RuntimeError: ``out`` is on another device, shares memory with ``positions`` or would need a gradient.

    Source: Vaswani et al., Attention is all you need, NeurIPS 2017, section 3.5; the reduction of angles in turns goes
    back to Payne and Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18(1), 1983.
    """
    op = "sinusoidal_encoding"
    dim = signed(op, "dim", dim)
    positions = tensor(op, "positions", positions)
    base, scale, phase = real(op, "base", base), real(op, "scale", scale), real(op, "phase", phase)
    word(op, "layout", layout)
    dtype = _resolve(op, positions, dtype, out)
    if out is None:
        return _ops.sinusoidal_encoding.default(positions, dim, base, scale, phase, layout, dtype)
    _ops.sinusoidal_encoding.out(positions, dim, base, scale, phase, layout, dtype, out=out)
    return out


def sinusoidal_features(
    positions: Tensor,
    frequencies: Tensor,
    phase: Tensor | None = None,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``sin`` and ``cos`` of ``position * frequency + phase`` for a tensor of frequencies, in radians.

    Values in the tensor are taken as exact: a float32 frequency near 0.1 is that float32 number. Accuracy is that of
    `sinusoidal_encoding` for frequencies of at most 2^20 and falls with their size beyond. Differentiable in
    frequencies, phases and floating positions, in every mode. The derivative with respect to a frequency grows with the
    position, so learned frequencies should start at the ladder of `sinusoidal_encoding`, not at random. Layouts, half
    types, autocast, determinism, cost and errors as there; vmap over frequencies computes one after the other.

    Args:
        positions: ``[...]``, any integer or floating dtype.
        frequencies: ``[F]``, floating.
        phase: ``[F]``, floating, in radians; None means 0.
        layout: "interleaved" or "half".
        dtype: dtype of the result, as for `sinusoidal_encoding`; that of the frequencies does not matter.
        out: optional result, as for `sinusoidal_encoding`; no gradient.

    Returns:
        ``[..., 2 F]``, or ``out``.

    Raises:
        TypeError: a tensor or ``dtype`` is of another dtype.
        ValueError: ``layout`` is unknown, ``frequencies`` and ``phase`` are not of one shape ``[F]``, or ``out`` has
            another shape.
        RuntimeError: devices differ, ``out`` shares memory with an argument or would need a gradient.

    Source: as `sinusoidal_encoding`; features of chosen frequencies: Rahimi and Recht, Random features for large-scale
    kernel machines, NIPS 2007.
    """
    op = "sinusoidal_features"
    positions, frequencies = tensor(op, "positions", positions), tensor(op, "frequencies", frequencies)
    phase = optional_tensor(op, "phase", phase)
    word(op, "layout", layout)
    dtype = _resolve(op, positions, dtype, out)
    if out is None:
        return _ops.sinusoidal_features.default(positions, frequencies, phase, layout, dtype)
    _ops.sinusoidal_features.out(positions, frequencies, phase, layout, dtype, out=out)
    return out


def embed_positions(
    tokens: Tensor,
    table: Tensor,
    positions: Tensor | None = None,
    padding_idx: int = -1,
    temperature: float = 1.0,
    base: float = 10000.0,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``(table[token] + sinusoidal_encoding(position)) / temperature`` in one pass; rows of padding are zero.

    Sum and division are computed in float32, or in float64 for a float64 result, whatever the table's dtype. The
    encoding of a position that sequences share is computed once. Differentiable in the table and in floating positions;
    padding gets no gradient. Encoding, autocast, determinism and cost as for `sinusoidal_encoding`; vmap over tables
    computes one after the other.

    Args:
        tokens: ``[..., L]``, int32 or int64, 0 to V - 1.
        table: ``[V, dim]``, floating.
        positions: any integer or floating dtype, broadcast with ``tokens``; None means 0 to L - 1.
        padding_idx: the token that is padding, below V; a negative one means none.
        temperature: divisor of the sum, finite and not 0.
        base: as for `sinusoidal_encoding`.
        scale: as for `sinusoidal_encoding`.
        phase: as for `sinusoidal_encoding`.
        layout: "interleaved" or "half".
        dtype: dtype of the result; None means that of ``out``, else that of the table, or under autocast its dtype.
        out: optional result, as for `sinusoidal_encoding`; no gradient.

    Returns:
        ``[..., L, dim]``, or ``out``.

    Raises:
        IndexError: a token is outside 0 to V - 1, on the CPU. On a GPU, where a check would wait for the device, its
            row is NaN.
        TypeError: a tensor or ``dtype`` is of another dtype.
        ValueError: a number is outside its range, ``layout`` is unknown, or shapes do not fit.
        RuntimeError: devices differ, ``out`` shares memory with an argument or would need a gradient.

    Source: Vaswani et al., Attention is all you need, NeurIPS 2017, sections 3.4 and 3.5.
    """
    op = "embed_positions"
    tokens, table = tensor(op, "tokens", tokens), tensor(op, "table", table)
    positions = optional_tensor(op, "positions", positions)
    padding_idx, temperature = signed(op, "padding_idx", padding_idx), real(op, "temperature", temperature)
    base, scale, phase = real(op, "base", base), real(op, "scale", scale), real(op, "phase", phase)
    word(op, "layout", layout)
    if dtype is not None:
        check_dtype(op, dtype)
    if out is None:
        return _ops.embed_positions.default(
            tokens, table, positions, padding_idx, temperature, base, scale, phase, layout, dtype
        )
    check_out(op, out)
    dtype = _of_out(out) if dtype is None else dtype
    _ops.embed_positions.out(
        tokens, table, positions, padding_idx, temperature, base, scale, phase, layout, dtype, out=out
    )
    return out


def check_ladder(
    positions: Tensor,
    dim: int,
    base: float,
    scale: float = 1.0,
    phase: float = 0.0,
    layout: str = "interleaved",
    dtype: torch.dtype | None = None,
) -> torch.dtype:
    """What `sinusoidal_encoding` checks of its arguments, and its dtype, without any work."""
    positions = torch.empty_like(positions, device="meta")
    return sinusoidal_encoding(positions, dim, base, scale, phase, layout, dtype).dtype


def check_settings(op: str, dim: int, base: float, scale: float = 1.0, phase: float = 0.0) -> None:
    """Raises ValueError, in the name of what they are settings of, unless `sinusoidal_encoding` takes them."""
    with named("sinusoidal_encoding", op):
        check_ladder(torch.empty(0, device="meta"), dim, base, scale, phase)


def _resolve(op: str, positions: Tensor, dtype: torch.dtype | None, out: Tensor | None) -> torch.dtype | None:
    """The dtype to ask the operator for; None leaves it to the operator, and so to autocast."""
    if out is not None:
        check_out(op, out)
    if dtype is not None:
        check_dtype(op, dtype)
        return dtype
    if out is not None:
        return _of_out(out)
    default = torch.get_default_dtype()
    return None if positions.is_floating_point() or default == torch.float32 else default


def _of_out(out: Tensor) -> torch.dtype | None:
    """The dtype that ``out`` asks for; where no result can have it, the operator says so of ``out``."""
    return out.dtype if out.is_floating_point() else None
