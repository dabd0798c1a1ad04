"""torchhd (tried with 5.8.4): its HRR vectors on the operators of this library; its vectors and encoders as ours.

The names cross: ``torchhd.inverse`` is `hrr.involution`, ``exact_inverse`` is `hrr.inverse`. The module torchhd itself
is imported by `enable` alone.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import FLOATING
from torch_hrr.hrr import functional
from torch_hrr.hrr.integrations._arrays import has, rolled_back, rows

__all__ = ["at", "disable", "enable", "fractional_power", "vectors"]

# The methods of HRRTensor that `enable` has replaced.
_THEIRS: dict[str, Callable[..., Any]] = {}
# Below pi, so that rounding moves no phase over the cut of the angle.
_LARGEST_PHASE = 3.0


def enable() -> contextlib.AbstractContextManager[Any]:
    """Makes torchhd's ``HRRTensor`` bind by the operators of this library, in this process.

    Three of its methods are replaced, and so serve torchhd's functions and structures too:

        ``bind``           `hrr.bind`: the same up to rounding, in half types also, and bits that do not depend on the
                           batch.
        ``multibind``      `hrr.multibind`, a fold of ``bind``. torchhd's own, and so ``bind_sequence``, drops the
                           imaginary parts of spectra: its cosine with the fold of K vectors is about 2^(-K/2).
        ``exact_inverse``  `hrr.inverse`: 0 in empty Fourier bins. torchhd's own divides by their rounding errors, and
                           makes a row of zeros of one that has an exactly empty bin or holds NaN, which stays NaN here.

    All else is as before: random vectors, norms, ``inverse``, bundles, similarities and ``permute``, a cyclic shift,
    which commutes with binding, so that a directed ``Graph`` or ``ngrams`` of HRR vectors still does not know
    directions. Integers and complex numbers, and rows of different lengths, take torchhd's own way. Gradients go
    through.

    Returns:
        A context manager, so that ``with enable():`` ends at its block; a call alone lasts until `disable`. A second
        call changes nothing.

    Raises:
        ImportError: torchhd is not installed.
    """
    kind = _tensor_class("enable")
    until = contextlib.ExitStack()
    if not _THEIRS:
        for name, method in (("bind", _bind), ("multibind", _multibind), ("exact_inverse", _exact_inverse)):
            _THEIRS[name] = getattr(kind, name)
            setattr(kind, name, method)
        until.callback(disable)
    return until


def disable() -> None:
    """Gives torchhd's ``HRRTensor`` its own methods back; does nothing unless they were replaced."""
    if _THEIRS:
        kind = _tensor_class("disable")
        while _THEIRS:
            setattr(kind, *_THEIRS.popitem())


def _tensor_class(op: str) -> Any:
    try:
        return importlib.import_module("torchhd").HRRTensor
    except ImportError as error:
        raise ImportError(f'{op}: torchhd must be installed ("pip install torch-hd"), got {error}') from error


def _are_taken(*tensors: Any) -> bool:
    usual = all(isinstance(each, Tensor) and each.dtype in FLOATING and each.dim() > 0 for each in tensors)
    return usual and len({each.shape[-1] for each in tensors}) == 1 and tensors[0].shape[-1] > 0


def _bind(self: Tensor, other: Tensor) -> Any:
    if not _are_taken(self, other):
        return _THEIRS["bind"](self, other)
    return functional.bind(self, other).as_subclass(type(self))


def _multibind(self: Tensor) -> Any:
    if not _are_taken(self) or self.dim() < 2:
        return _THEIRS["multibind"](self)
    return functional.multibind(self).as_subclass(type(self))


def _exact_inverse(self: Tensor) -> Any:
    if not _are_taken(self):
        return _THEIRS["exact_inverse"](self)
    return functional.inverse(self).as_subclass(type(self))


def vectors(hypervectors: Tensor) -> Tensor:
    """Plain rows of HRR vectors ``[..., D]``, or of an embedding's weight; of FHRR ones `hrr.from_phases`.

    FHRR vectors, which are complex, become real ones ``[..., 2 D + 2]`` whose Fourier bins they are, magnitudes
    included. Gradients go through; no copy of HRR vectors is made.

    Raises:
        TypeError: Vectors of another model, as ``torchhd.random`` draws them by default (MAP): they bind elementwise.
        ValueError: No vectors, or D is 0.
    """
    kind = type(hypervectors)
    if kind.__module__.partition(".")[0] == "torchhd" and kind.__name__ not in ("HRRTensor", "FHRRTensor"):
        raise TypeError(f"vectors: hypervectors must be those of HRR or FHRR, got {kind.__name__}")
    return rows("vectors", "hypervectors", hypervectors)


def at(sequence: Any, index: int, length: int | None = None) -> Tensor:
    """The noisy item at a position of a ``BundleSequence``, where items are marked by cyclic shifts.

    ``roll(v, -(n - 1 - index))``. `hrr.at` reads the sequences of this library alone: of this one it gives noise.

    Args:
        sequence: A ``torchhd.structures.BundleSequence``, or its vector ``[..., D]``.
        index: From 0.
        length: Its number of items n, where the vector alone is given.

    Raises:
        TypeError: ``index`` or ``length`` is no int, or the vector none of HRR or FHRR.
        IndexError: ``index`` is outside the sequence.
    """
    if hasattr(sequence, "value"):
        return rolled_back("at", vectors(sequence.value), index, len(sequence), ascending=False)
    return rolled_back("at", vectors(sequence), index, length, ascending=False)


def fractional_power(encoder: Any) -> tuple[Tensor, float]:
    """Axes and a factor by which `hrr.fractional_power_encoding` gives what a ``FractionalPower`` encoder gives.

    ``hrr.fractional_power_encoding(axes, factor * x)`` is ``encoder(x)``, of an encoder of FHRR its `vectors`. A vector
    has its phases modulo 2 pi, so those of the encoder, which may be any, are divided until they are at most 3, and
    values are multiplied instead: the factor is that number times the ``bandwidth``. ``encoder.basis()`` has neither.

    Args:
        encoder: A ``torchhd.embeddings.FractionalPower`` of HRR or FHRR: its ``weight``, ``bandwidth`` and
            ``vsa_tensor`` are read.

    Returns:
        Axes ``[in_features, D]``, ``2 D + 2`` elements for FHRR, in the dtype of the weight, and the factor.

    Raises:
        TypeError: ``encoder`` is no such encoder.
        ValueError: Weights of HRR are not those of real vectors, which training may have changed.
    """
    has("fractional_power", "encoder", encoder, "weight", "bandwidth", "vsa_tensor")
    weight = rows("fractional_power", "weight", encoder.weight).detach()
    phases = weight.mT.double()
    parts = max(1, math.ceil(float(phases.abs().max()) / _LARGEST_PHASE))
    if encoder.vsa_tensor.__name__ == "HRRTensor":
        phases = torch.fft.ifftshift(phases, -1)
        if not torch.equal(functional.involution(phases), -phases):
            raise ValueError("fractional_power: weight must be odd in the frequency, as of real vectors, got others")
        dim = phases.shape[-1]
        phases, even = phases[..., 1 : (dim + 1) // 2] / parts, dim % 2 == 0
    else:
        phases, even = phases / parts, True
    axes = functional.from_bins(phases.cos(), phases.sin(), even)
    return axes.to(weight.dtype), float(encoder.bandwidth) * parts
