"""The HRR operators as compositions of torch operators.

Same definitions and signatures as ``torch_hrr.hrr``, without its promises on bits, range and NaN rows. Operators that
programs call are spelled so that ONNX has them: of complex numbers it knows transforms and products.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor

from torch_hrr._plain.random import philox4x32

_WORD = 2**32 - 1
_PERMUTATION_STREAM = 0x7065726D


def _compute(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _normalize(vectors: Tensor, eps: float) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / norm.clamp_min(eps)


def _is_empty(a: Tensor, b: Tensor) -> bool:
    """Whether there is nothing to transform, which torch.fft refuses before 2.15."""
    return a.numel() == 0 or b.numel() == 0


def _product(a: Tensor, b: Tensor, correlate: bool) -> Tensor:
    if _is_empty(a, b):
        return _compute(a) * _compute(b)
    spectrum = torch.fft.rfft(_compute(b))
    spectrum = torch.fft.rfft(_compute(a)) * (spectrum.conj() if correlate else spectrum)
    product: Tensor = torch.fft.irfft(spectrum, n=a.shape[-1])
    return product


def bind(a: Tensor, b: Tensor) -> Tensor:
    """Circular convolution, ``irfft(rfft(a) rfft(b))``."""
    return _product(a, b, correlate=False).to(torch.promote_types(a.dtype, b.dtype))


def unbind(bound: Tensor, role: Tensor) -> Tensor:
    """Circular correlation, ``irfft(rfft(bound) conj(rfft(role)))``."""
    return _product(bound, role, correlate=True).to(torch.promote_types(bound.dtype, role.dtype))


def bind_normalize(a: Tensor, b: Tensor, eps: float = 1e-12) -> Tensor:
    """``bind(a, b) / max(norm2, eps)``."""
    return _normalize(_product(a, b, correlate=False), eps).to(torch.promote_types(a.dtype, b.dtype))


def superpose(vectors: Tensor, weights: Tensor | None = None, normalize: bool = True, eps: float = 1e-12) -> Tensor:
    """``sum_k weights[..., k] vectors[..., k, :]``, normalised."""
    if weights is None:
        total, dtype = _compute(vectors).sum(-2), vectors.dtype
    else:
        dtype = torch.promote_types(vectors.dtype, weights.dtype)
        items = vectors.shape[-2] if weights.shape[-1] == 1 else weights.shape[-1]
        rows = _compute(vectors).expand(*vectors.shape[:-2], items, vectors.shape[-1])
        total = (_compute(weights).expand(*weights.shape[:-1], items).unsqueeze(-2) @ rows).squeeze(-2)
    return (_normalize(total, eps) if normalize else total).to(dtype)


def bind_superpose(
    a: Tensor, b: Tensor, weights: Tensor | None = None, normalize: bool = False, eps: float = 1e-12
) -> Tensor:
    """``sum_k weights[..., k] bind(a[..., k, :], b[..., k, :])``, summed as spectra."""
    empty = _is_empty(a, b)
    spectra = _compute(a) * _compute(b) if empty else torch.fft.rfft(_compute(a)) * torch.fft.rfft(_compute(b))
    dtype = torch.promote_types(a.dtype, b.dtype)
    if weights is not None:
        spectra = spectra * _compute(weights).unsqueeze(-1)
        dtype = torch.promote_types(dtype, weights.dtype)
    total = spectra.sum(-2) if empty else torch.fft.irfft(spectra.sum(-2), n=a.shape[-1])
    return (_normalize(total, eps) if normalize else total).to(dtype)


def multibind(vectors: Tensor) -> Tensor:
    """``a_1 bind a_2 ... bind a_K`` over K, ``irfft(prod_k rfft(a_k))``; K = 0 gives the delta vector."""
    dim, items = vectors.shape[-1], vectors.shape[-2]
    if items == 0 or vectors.numel() == 0:
        delta = torch.zeros(dim, dtype=vectors.dtype, device=vectors.device)
        delta[0] = 1
        return delta.expand(*vectors.shape[:-2], dim).clone()
    bins = functools.reduce(torch.mul, map(torch.fft.rfft, _compute(vectors).unbind(-2)))
    product: Tensor = torch.fft.irfft(bins, n=dim)
    return product.to(vectors.dtype)


def _spectrum(a: Tensor) -> tuple[Tensor, Tensor]:
    """rfft(a), and which of its bins are empty: abs(A_k) <= eps(dtype) sqrt(D) norm2(a)."""
    wide = _compute(a)
    spectrum = torch.fft.rfft(wide)
    norm = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return spectrum, spectrum.abs() <= torch.finfo(wide.dtype).eps * a.shape[-1] ** 0.5 * norm


def inverse(a: Tensor, eps: float = 0.0) -> Tensor:
    """``conj(A) / max(abs(A)^2, eps)``, 0 where a bin is empty."""
    if a.numel() == 0:
        return a.clone()
    spectrum, empty = _spectrum(a)
    power = spectrum.real.square() + spectrum.imag.square()
    divisor = torch.where(empty, 1.0, power.clamp_min(eps))
    real, imaginary = (torch.where(empty, 0.0, part / divisor) for part in (spectrum.real, -spectrum.imag))
    result: Tensor = torch.fft.irfft(torch.complex(real, imaginary), n=a.shape[-1])
    return result.to(a.dtype)


def _column(exponent: Tensor, a: Tensor) -> Tensor:
    """An exponent for every row of a, on its device: a number may be on the CPU."""
    return exponent.to(a.device).unsqueeze(-1)


def bind_power(a: Tensor, exponent: Tensor | float) -> Tensor:
    """``A^exponent`` bin by bin; a negative real bin gives abs(A)^e cos(pi e), an empty one 0^e: 1 for 0, else 0."""
    rows = _column(exponent, a) if isinstance(exponent, Tensor) else exponent
    dtype = torch.promote_types(a.dtype, exponent.dtype) if isinstance(exponent, Tensor) else a.dtype
    if a.numel() == 0 or (isinstance(rows, Tensor) and rows.numel() == 0):
        return (_compute(a) * rows).to(dtype)
    spectrum, empty = _spectrum(a)
    magnitude = torch.where(empty, 1.0, spectrum.abs()).pow(rows)
    phase = torch.atan2(spectrum.imag, spectrum.real) * rows
    place = torch.arange(spectrum.shape[-1], device=a.device)
    is_real = (place == 0) | (2 * place == a.shape[-1])
    power_of_0 = (rows == 0).to(magnitude.dtype) if isinstance(rows, Tensor) else float(rows == 0)
    real = torch.where(empty, power_of_0, magnitude * phase.cos())
    imaginary = torch.where(empty | is_real, 0.0, magnitude * phase.sin())
    result: Tensor = torch.fft.irfft(torch.complex(real, imaginary), n=a.shape[-1])
    return result.to(dtype)


def unitary(a: Tensor) -> Tensor:
    """``A / abs(A)`` bin by bin, 1 where a bin is empty."""
    if a.numel() == 0:
        return a.clone()
    spectrum, empty = _spectrum(a)
    magnitude = spectrum.abs()
    real = torch.where(empty, 1.0, spectrum.real / magnitude)
    imaginary = torch.where(empty, 0.0, spectrum.imag / magnitude)
    result: Tensor = torch.fft.irfft(torch.complex(real, imaginary), n=a.shape[-1])
    return result.to(a.dtype)


def spectrum(a: Tensor) -> Tensor:
    """``rfft(a)`` as real numbers, without the imaginary parts of the real bins."""
    if a.numel() == 0:
        return a.clone()
    parts = torch.view_as_real(torch.fft.rfft(_compute(a))).flatten(-2)
    return torch.cat([parts[..., :1], parts[..., 2 : a.shape[-1] + 1]], -1).to(a.dtype)


def from_spectrum(spectrum: Tensor) -> Tensor:
    """``irfft`` of the bins that ``spectrum`` packs."""
    if spectrum.numel() == 0:
        return spectrum.clone()
    packed, dim = _compute(spectrum), spectrum.shape[-1]
    nothing = torch.zeros_like(packed[..., :1])
    parts = torch.cat([packed[..., :1], nothing, packed[..., 1:], *([nothing] if dim % 2 == 0 else [])], -1)
    bins = torch.view_as_complex(parts.reshape(*parts.shape[:-1], -1, 2))
    row: Tensor = torch.fft.irfft(bins, n=dim)
    return row.to(spectrum.dtype)


def bind_spectrum(a: Tensor, spectrum: Tensor) -> Tensor:
    """``bind(a, from_spectrum(spectrum))``."""
    return _product(a, from_spectrum(_compute(spectrum)), correlate=False).to(
        torch.promote_types(a.dtype, spectrum.dtype)
    )


def unbind_spectrum(bound: Tensor, spectrum: Tensor) -> Tensor:
    """``unbind(bound, from_spectrum(spectrum))``."""
    return _product(bound, from_spectrum(_compute(spectrum)), correlate=True).to(
        torch.promote_types(bound.dtype, spectrum.dtype)
    )


def _permutation(dim: int, seed: int) -> list[int]:
    """Fisher and Yates from the last element down: i changes places with floor((i + 1) random / 2^64)."""
    table = list(range(dim))
    for i in range(dim - 1, 0, -1):
        # Of numbers: a program that is traced has no values of tensors.
        low, high, _, _ = philox4x32((i & _WORD, i >> 32, _PERMUTATION_STREAM, 0), seed % 2**64)
        j = (i + 1) * (high << 32 | low) >> 64
        table[i], table[j] = table[j], table[i]
    return table


def permute(a: Tensor, seed: int, power: int = 1) -> Tensor:
    """``a[pi^power(n)]``; the permutation is made on the host."""
    # Not torch.tensor, whose detach_() export refuses.
    table = torch.as_tensor(_permutation(a.shape[-1], seed), dtype=torch.int64)
    if power < 0:
        table = table.argsort()
    result, power = torch.arange(a.shape[-1]), abs(power)
    while power:
        if power % 2:
            result = table[result]
        table, power = table[table], power // 2
    return a.index_select(-1, result.to(a.device))


def _bind_backward(grad: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """``unbind(grad, b)`` and ``unbind(grad, a)``."""
    return _product(grad, b, correlate=True), _product(grad, a, correlate=True)


def _unbind_backward(grad: Tensor, bound: Tensor, role: Tensor) -> tuple[Tensor, Tensor]:
    """``bind(grad, role)`` and ``unbind(bound, grad)``."""
    return _product(grad, role, correlate=False), _product(bound, grad, correlate=True)


def _bind_normalize_backward(grad: Tensor, a: Tensor, b: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Those of bind at ``(grad - y (y . grad)) / norm2(c)``, ``y = c / norm2(c)``, grad / eps below eps, 0 for 0."""
    bound, wide = _product(a, b, correlate=False), _compute(grad)
    norm = torch.linalg.vector_norm(bound, dim=-1, keepdim=True)
    inside = norm > eps
    y = bound / torch.where(inside, norm, torch.ones_like(norm))
    tangential = wide - y * (y * wide).sum(-1, keepdim=True)
    upstream = torch.where(inside, tangential, wide) / norm.clamp_min(eps)
    return _bind_backward(upstream.masked_fill(norm == 0, 0) if eps > 0 else upstream, a, b)


def _multibind_backward(grad: Tensor, vectors: Tensor) -> Tensor:
    """For every k, ``unbind(grad, product of the others)``."""
    items = vectors.shape[-2]
    others = [torch.cat([vectors[..., :k, :], vectors[..., k + 1 :, :]], -2) for k in range(items)]
    if items == 0:
        return (grad.unsqueeze(-2) + vectors).to(torch.promote_types(grad.dtype, vectors.dtype))
    return torch.stack([_product(grad, multibind(_compute(each)), correlate=True) for each in others], -2).to(
        torch.promote_types(grad.dtype, vectors.dtype)
    )


def _map_bins(
    function: Callable[[Tensor], Tensor], a: Tensor, v: Tensor | None = None, exponent: Tensor | None = None
) -> Tensor:
    """``irfft(function(rfft(a)) rfft(v))``, 0 where a bin of a is empty, real at DC and Nyquist."""
    # What the result is like; a number's dtype decides nothing.
    like, dim = a if v is None else a + v, a.shape[-1]
    if exponent is not None:
        like = like * exponent if exponent.dim() == 0 else like * exponent.unsqueeze(-1)
    if like.numel() == 0:
        return torch.zeros_like(like)
    bins, empty = _spectrum(a)
    bins = function(torch.where(empty, torch.ones_like(bins), bins))
    if v is not None:
        bins = bins * torch.fft.rfft(_compute(v))
    bins = torch.where(empty, torch.zeros_like(bins), bins)
    bins[..., 0] = bins[..., 0].real.to(bins.dtype)
    if dim % 2 == 0:
        bins[..., -1] = bins[..., -1].real.to(bins.dtype)
    row: Tensor = torch.fft.irfft(bins, n=dim)
    return row.to(like.dtype)


def _power(bins: Tensor) -> Tensor:
    return bins.real.square() + bins.imag.square()


def _reversed(row: Tensor) -> Tensor:
    """The row whose spectrum is the conjugate."""
    return torch.roll(row.flip(-1), 1, -1)


def _cut_inverse(a: Tensor, eps: float) -> Tensor:
    """``1 / A``, 0 where ``abs(A)^2 <= eps``."""
    return _map_bins(lambda bins: torch.where(_power(bins) > eps, 1 / bins, 0), a)


def _inverse_backward(grad: Tensor, a: Tensor, eps: float) -> Tensor:
    """``-G / conj(A)^2``, or ``conj(G) / eps`` where ``abs(A)^2 <= eps``."""
    regular = _map_bins(lambda bins: torch.where(_power(bins) > eps, -1 / bins.conj().square(), 0), a, grad)
    if eps == 0:
        return regular
    return regular + _map_bins(
        lambda bins: torch.where(_power(bins) > eps, 0, torch.full_like(bins, 1 / eps)), a, _reversed(grad)
    )


def _unitary_jacobian(v: Tensor, a: Tensor) -> Tensor:
    """``i y Im(V conj(y)) / abs(A) = (V - y^2 conj(V)) / (2 abs(A))``, y = A / abs(A)."""
    direct = _map_bins(lambda bins: (0.5 / bins.abs()).to(bins.dtype), a, v)
    return direct - _map_bins(lambda bins: 0.5 * bins.sgn().square() / bins.abs(), a, _reversed(v))


def _bind_power_log(a: Tensor, exponent: Tensor, order: int) -> Tensor:
    """``A^exponent log(A)^order``."""
    rows = _column(_compute(exponent), a)
    return _map_bins(lambda bins: (rows * bins.log()).exp() * bins.log() ** order, a, exponent=exponent)


def _bind_power_backward(grad: Tensor, a: Tensor, exponent: Tensor) -> Tensor:
    """``G conj(exponent A^(exponent - 1))``."""
    rows = _column(_compute(exponent), a)
    return _map_bins(lambda bins: rows * ((rows - 1) * bins.log()).exp().conj(), a, grad, exponent)


def _power_product(spectra: Tensor, exponents: Tensor) -> Tensor:
    """``prod_k A_k^x_k`` of packed spectra, power by power."""
    return spectrum(multibind(bind_power(from_spectrum(spectra), exponents)))


def _total(terms: Tensor) -> Tensor:
    """The sum over D, by halves: bits depend on the row alone, and errors grow with log D."""
    dim = terms.shape[-1]
    terms = torch.nn.functional.pad(terms, (0, 2 ** (dim - 1).bit_length() - dim))
    while terms.shape[-1] > 1:
        low, high = terms.chunk(2, -1)
        terms = low + high
    return terms


def _unit(rows: Tensor) -> Tensor:
    """``x / norm2(x)`` in float64, if the device has it; zero for zero, NaN where a row holds NaN or infinity."""
    wide = rows.to(torch.float32 if rows.device.type == "mps" else torch.float64)
    # Values up to 1, whose squares neither overflow nor vanish.
    largest = wide.detach().abs().amax(-1, keepdim=True)
    scaled = wide / torch.where(largest > 0, largest, torch.ones_like(largest))
    power = _total(scaled.square())
    return torch.where(largest == 0, torch.zeros_like(scaled), scaled / (power + (power == 0)).sqrt())


def quantize_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """``u = x / norm2(x)``: ``c = round(u / s)`` with ``s = max|u| / 127``, and ``(s, e)``, ``e >= norm2(u - s c)``.

    A zero row has s = e = 0; one that holds NaN or infinity c = 0, s = 0 and e = inf.
    """
    # As many rows at a time as caches hold.
    parts = [_quantized(block) for block in _blocks(rows, 2**16 // rows.shape[-1])]
    codes, bounds = (torch.cat(each) for each in zip(*parts, strict=True))
    return codes, bounds


def _blocks(rows: Tensor, most: int) -> tuple[Tensor, ...]:
    """So many rows at a time, or all: a graph for any number of rows or queries cannot hold any number of blocks."""
    if isinstance(most, torch.SymInt) or isinstance(rows.shape[0], torch.SymInt):
        return (rows,)
    blocks: tuple[Tensor, ...] = rows.split(max(1, most))
    return blocks


def _quantized(rows: Tensor) -> tuple[Tensor, Tensor]:
    unit = _unit(rows)
    finite = unit.isfinite().all(-1, keepdim=True)
    unit = torch.where(finite, unit, torch.zeros_like(unit))
    scale = (unit.abs().amax(-1, keepdim=True) / 127).float()
    wide = scale.to(unit.dtype)
    codes = (unit / torch.where(scale > 0, wide, torch.ones_like(wide))).round().clamp(-127, 127)
    rest = _total((unit - wide * codes).square()).sqrt()
    # Above what rounding, also that of u, takes from it.
    rest = torch.where(scale > 0, rest * (1 + 2**-22) + 4 * torch.finfo(unit.dtype).eps, rest).float()
    rest = rest.masked_fill(~finite, torch.inf)
    return codes.to(torch.int8), torch.cat([scale, rest], -1)


def quantized_cleanup(
    query: Tensor, rows: Tensor, codes: Tensor, bounds: Tensor, order: Tensor | None, top_k: int
) -> tuple[Tensor, Tensor]:
    """The ``top_k`` largest cosines of ``[..., D]`` with ``[N, D]``, of equals the lower row first, NaN last.

    Rows come in the order of `order`, different numbers below N, and those of -1 not at all. The codes, which tell what
    need not be computed, are not used.
    """
    dtype = torch.promote_types(torch.promote_types(query.dtype, rows.dtype), torch.float32)
    unit = _unit(query).unsqueeze(-2)
    # So many elements at a time, however many queries there are.
    blocks = [_total(unit * _unit(block)) for block in _blocks(rows, 2**22 // max(1, query.numel()))]
    cosines = torch.cat(blocks, -2).squeeze(-1).clamp(-1, 1).to(dtype)
    keys = cosines.nan_to_num(-2)
    numbers = torch.arange(rows.shape[0], device=rows.device) if order is None else order.argsort()
    if order is not None:
        keys = keys.masked_fill(order < 0, -3)
    ranks = keys.index_select(-1, numbers).sort(dim=-1, descending=True, stable=True).indices
    indices = numbers[ranks[..., :top_k]]
    return cosines.gather(-1, indices), indices
