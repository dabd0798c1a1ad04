"""pyhdc (tried with 2.2.2): its hypervectors, which are columns, as rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from torch_hrr._checks import strided
from torch_hrr.hrr import functional
from torch_hrr.hrr.integrations._arrays import has, rows

__all__ = ["vectors"]


def vectors(hypervectors: Any) -> Tensor:
    """Rows ``[..., D]`` of a ``Hypervector`` of columns ``[D, ...]``; of FHRR, of angles, by `from_phases`.

    Args:
        hypervectors: A ``pyhdc.Hypervector`` of an encoding HRR, HRR_NoNorm, HRR_ConstNorm or FHRR, of either backend.

    Returns:
        ``[..., D]``, for FHRR ``[..., 2 D + 2]``.

    Raises:
        TypeError: No hypervectors, or an encoding that does not bind by circular convolution.
        ValueError: No vectors, or D is 0.
    """
    has("vectors", "hypervectors", hypervectors, "encoding", "data")
    encoding = type(hypervectors.encoding).__name__
    if encoding != "FHRR" and not encoding.startswith("HRR"):
        raise TypeError(f"vectors: hypervectors must be those of HRR or FHRR, got {encoding}")
    columns = strided("vectors", "hypervectors", hypervectors.data)
    found = rows("vectors", "hypervectors", columns.movedim(0, -1))
    return functional.from_phases(found) if encoding == "FHRR" else found
