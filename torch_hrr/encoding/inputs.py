"""Series, labels and tokens as callers give them: tensors or NumPy arrays of any real kind, checked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import integer, native_copy, plain_tensor

# What tokens must.
TOKENS = "be integers, one a token"


def real_tensor(op: str, name: str, given: Any, wanted: str = "be an array of real numbers") -> Tensor:
    """A tensor, or the tensor of a NumPy array; TypeError unless strided and of real numbers."""
    if not isinstance(given, Tensor):
        if not hasattr(given, "__array__"):
            raise TypeError(f"{op}: {name} must be a torch.Tensor or a NumPy array, got {type(given).__name__}")
        try:
            given = torch.from_numpy(native_copy(given))
        except (TypeError, AttributeError):
            kind = f"{type(given).__name__} of {getattr(given, 'dtype', 'another kind')}"
            raise TypeError(f"{op}: {name} must {wanted}, got {kind}") from None
    if given.layout is not torch.strided or given.is_nested or given.is_quantized or given.is_meta:
        what = "a meta tensor" if given.is_meta else f"{given.layout}, nested={given.is_nested}"
        raise TypeError(f"{op}: {name} must be a strided tensor with data, got {what}")
    if given.is_complex() or given.dtype is torch.bool:
        raise TypeError(f"{op}: {name} must hold real numbers, got {given.dtype}")
    tensor: Tensor = plain_tensor(given).detach()
    return tensor


def integers(op: str, name: str, given: Any, wanted: str = "hold integers") -> Tensor:
    """Integers of any dtype in int64; TypeError for other numbers, ValueError from 2^63 on."""
    tensor = real_tensor(op, name, given, wanted)
    if tensor.is_floating_point():
        raise TypeError(f"{op}: {name} must {wanted}, got {tensor.dtype}")
    converted = tensor.to(torch.int64)
    if tensor.dtype == torch.uint64 and bool((converted < 0).any()):
        raise ValueError(f"{op}: {name} must be below 2^63, got {int(converted[converted < 0][0]) + 2**64}")
    return converted


def token_tensor(op: str, name: str, given: Any) -> Tensor:
    """Tokens ``[T]`` or ``[B, T]``, int64."""
    tokens = integers(op, name, given, TOKENS)
    if tokens.dim() not in (1, 2):
        raise ValueError(f"{op}: {name} must have shape [T] or [B, T], got {list(tokens.shape)}")
    return tokens


def check_warmup(op: str, warmup: Any, inputs: Tensor) -> int:
    """The warmup of sequences ``[B, T, ...]``: an int from 0 to T - 1; ValueError where there is no step at all."""
    steps = inputs.shape[1]
    if not len(inputs) or not steps:
        raise ValueError(f"{op}: x must have at least one step, got shape {list(inputs.shape)}")
    checked = integer(op, "warmup", warmup, 0)
    if checked >= steps:
        raise ValueError(f"{op}: warmup must be below the number of steps, {steps}, got {checked}")
    return checked


def check_progress(op: str, progress: Any) -> None:
    """Raises TypeError unless it can be called, or is None."""
    if progress is not None and not callable(progress):
        raise TypeError(f"{op}: progress must be a function or None, got {type(progress).__name__}")
