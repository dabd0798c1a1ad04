"""Checks of arguments that systems share: what is wrong is named in the caller's words, before any work."""

from __future__ import annotations

import math
import numbers
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""The dtypes that the operators take."""


def check_floating(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the tensor is strided and of a dtype that the operators take."""
    check_strided(op, argument, tensor)
    if tensor.dtype not in FLOATING:
        raise TypeError(f"{op}: {argument} must be float32, float64, float16 or bfloat16, got {tensor.dtype}")


def check_strided(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the value is a strided tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}: {argument} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(f"{op}: {argument} must be strided, got {tensor.layout}, nested={tensor.is_nested}")


def tensor(op: str, argument: str, value: Any) -> Tensor:
    """A tensor as it is, a NumPy array as a tensor of its own on the CPU; TypeError for anything else."""
    if isinstance(value, Tensor):
        return value
    if not hasattr(value, "__array__"):
        raise TypeError(f"{op}: {argument} must be a torch.Tensor or a NumPy array, got {type(value).__name__}")
    try:
        # A copy: torch takes neither negative strides nor memory that it may not write.
        return torch.as_tensor(value.__array__().copy())
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{op}: {argument} must be an array of numbers that torch has, got {error}") from None


def check_bool(op: str, argument: str, value: bool) -> None:
    """Raises TypeError unless the value is True or False, which the words "no" and "False" are not."""
    if not isinstance(value, bool):
        raise TypeError(f"{op}: {argument} must be a bool, got {type(value).__name__}")


def check_int(op: str, argument: str, value: Any, least: int | None = None) -> Any:
    """The value as an int; TypeError unless it is one and no bool, ValueError below `least`, if given, or from 2^63.

    NumPy's integers count, and a size that a tracer holds, which stays as it is.
    """
    is_int = isinstance(value, torch.SymInt) or (hasattr(value, "__index__") and not isinstance(value, bool | Tensor))
    if not is_int:
        raise TypeError(f"{op}: {argument} must be an int, got {type(value).__name__}")
    number = value if isinstance(value, int | torch.SymInt) else value.__index__()
    if least is not None and number < least:
        raise ValueError(f"{op}: {argument} must be >= {least}, got {number}")
    if least is not None and number >= 2**63:
        raise ValueError(f"{op}: {argument} must be below 2^63, got {number}")
    return number


def check_seed(op: str, seed: Any) -> int:
    """The seed as the signed 64-bit integer of the same bits, which stands for it modulo 2^64.

    Raises:
        TypeError: It is not an int.
        ValueError: It is outside -2^63 to 2^64 - 1.
    """
    seed = check_int(op, "seed", seed)
    if not -(2**63) <= seed < 2**64:
        raise ValueError(f"{op}: seed must be -2^63 to 2^64 - 1, got {seed}")
    return int(seed if seed < 2**63 else seed - 2**64)


def check_dtype(op: str, dtype: torch.dtype) -> None:
    """Raises TypeError unless the operators take the dtype."""
    # By type first: an array among the values compared would give an array.
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATING:
        raise TypeError(f"{op}: dtype must be float32, float64, float16 or bfloat16, got {dtype!r:.80}")


def resolve_dtype(op: str, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype, torch's default one for None; TypeError unless the operators take it."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    check_dtype(op, dtype)
    return dtype


def integer(
    op: str, argument: str, value: Any, least: int | None = None, most: int | None = None, limit: str | None = None
) -> int:
    """An int within bounds, below 2^63 where there is a lower one alone; `limit` names the upper one."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{op}: {argument} must be an int, got {type(value).__name__}")
    number = int(value.__index__())
    # A size; a seed has no bounds here.
    if least is not None and most is None and number >= 2**63:
        raise ValueError(f"{op}: {argument} must be less than 2^63, got {number}")
    if (least is not None and number < least) or (most is not None and number > most):
        upper = "" if most is None else f" and at most {limit + ' = ' if limit else ''}{most}"
        raise ValueError(f"{op}: {argument} must be at least {least}{upper}, got {number}")
    return number


def number(op: str, argument: str, value: Any, least: float = -math.inf, most: float = math.inf) -> float:
    """A finite float within bounds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{op}: {argument} must be a number, got {type(value).__name__}")
    if isinstance(value, int) and abs(value) > 2**1000:
        raise ValueError(f"{op}: {argument} must be a finite number, got an int of {value.bit_length()} bits")
    if not math.isfinite(value) or not least <= float(value) <= most:
        lower = "" if math.isinf(least) else f" >= {least:g}"
        upper = "" if math.isinf(most) else f" and <= {most:g}"
        raise ValueError(f"{op}: {argument} must be a finite number{lower}{upper}, got {value}")
    return float(value)


def plain(value: Any) -> Any:
    """The int or float of a number of another kind, such as NumPy's; anything else as it is."""
    if isinstance(value, (bool, int, float)) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def choice(op: str, argument: str, value: Any, known: Collection[str]) -> str:
    """One of the known words."""
    # By type first: a dict of words takes no list, and an array gives an array.
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{op}: {argument} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return str(value)
