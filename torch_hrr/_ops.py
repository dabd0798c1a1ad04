"""The operators of the library, `torch.ops.torch_hrr`, with the types that torch does not state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import torch
from torch import Tensor as Result


class Operator(Protocol):
    """The overloads of an operator that gives a tensor."""

    default: Callable[..., Result]
    Tensor: Callable[..., Result]
    out: Callable[..., Result]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """By the types of the arguments."""


class Operators(Protocol):
    """Operators by name."""

    def __getattr__(self, name: str) -> Operator:
        """AttributeError for an operator that is not registered."""


ops = cast("Operators", torch.ops.torch_hrr)
