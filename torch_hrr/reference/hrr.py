"""The HRR operators as compositions of torch operators.

Same definitions and signatures as ``torch_hrr.hrr``, without its promises on bits, range and NaN rows.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
