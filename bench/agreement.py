"""Whether two ways to compute something give the same, without which their times mean nothing."""

from typing import Any

import torch
from torch import Tensor

TOLERANCE = 1e-4


class Disagreement(Exception):
    """A peer computes something else, so that its time means nothing."""


def as_tuple(result: Any) -> tuple[Tensor, ...]:
    """The tensors of a result, stripped of a library's own tensor type."""
    results = result if isinstance(result, tuple) else (result,)
    return tuple(each.detach().as_subclass(Tensor) for each in results)


def check_agreement(name: str, theirs: Any, ours: Any) -> None:
    """Raises Disagreement unless all elements are within 1e-4 of the peer's, relative to its largest."""
    for expected, actual in zip(as_tuple(theirs), as_tuple(ours), strict=True):
        scale = float(expected.abs().max())
        if not torch.allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE * scale):
            worst = float((actual - expected).abs().max()) / scale
            raise Disagreement(f"differs from {name} by {worst:.1e} of its largest element")
