"""nengo_spa (tried with 2.0.0): its vocabularies, as such of this library."""

from __future__ import annotations

from typing import Any

import torch

from torch_hrr._checks import tensor
from torch_hrr.hrr.integrations._arrays import has
from torch_hrr.hrr.vocabulary import Vocabulary

__all__ = ["vocabulary"]


def vocabulary(
    vocabulary: Any, *, seed: int = 0, device: torch.device | str | int | None = None, dtype: torch.dtype | None = None
) -> Vocabulary:
    """The names and vectors of a nengo_spa vocabulary, in their order.

    Its ``strict`` and ``max_similarity`` are taken over; names drawn later are those of this library's seed, and the
    bound then holds for cosines of either sign. Expressions mean the same but for ``A ** -1``, which is the exact
    inverse here and the involution there. Vectors, float64 there, are rounded to the dtype.

    Args:
        vocabulary: A ``nengo_spa.Vocabulary`` of the HRR algebra, its default.
        seed: As for `hrr.Vocabulary`.
        device: As for `hrr.Vocabulary`.
        dtype: As for `hrr.Vocabulary`.

    Raises:
        TypeError, ValueError, RuntimeError: As `hrr.Vocabulary`; also a ValueError for another algebra (VTB, TVTB),
            which binds otherwise.
    """
    has("vocabulary", "vocabulary", vocabulary, "algebra", "vectors", "dimensions", "strict", "max_similarity")
    algebra = type(vocabulary.algebra).__name__
    if algebra != "HrrAlgebra":
        raise ValueError(f"vocabulary: vocabulary must be of the HRR algebra, got {algebra}")
    bound = vocabulary.max_similarity
    made = Vocabulary(
        vocabulary.dimensions,
        seed,
        device=device,
        dtype=dtype,
        strict=bool(vocabulary.strict),
        max_similarity=bound if bound is not None and 0 <= bound < 1 else None,
    )
    rows = tensor("vocabulary", "vectors", vocabulary.vectors)
    for name, row in zip(vocabulary, rows.to(made.device), strict=True):
        made.add(name, row)
    return made
