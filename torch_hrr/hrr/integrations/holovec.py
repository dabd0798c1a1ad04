"""holovec (tried with 1.0.2): vectors of its models HRR and FHRR, its codebooks and sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import values_decide
from torch_hrr.hrr.integrations._arrays import has, rolled_back, rows
from torch_hrr.hrr.memory import ItemMemory

__all__ = ["at", "item_memory", "vectors"]


def vectors(hypervectors: Any) -> Tensor:
    """Rows of vectors ``[..., D]`` of the model HRR as they are, of FHRR's as `hrr.from_phases`.

    FHRR vectors, which are complex, become real ones ``[..., 2 D + 2]`` whose Fourier bins they are. Tensors, and
    arrays of NumPy or JAX; arrays are copied to the CPU.

    Raises:
        TypeError: Neither; vectors of models that bind elementwise, which are integers, or as those of MAP 1 and -1.
        ValueError: No vectors, or D is 0.
    """
    found = rows("vectors", "hypervectors", hypervectors)
    is_at_hand = values_decide() and found.device.type == "cpu"
    if is_at_hand and found.shape[-1] > 1 and found.numel() and bool((found.abs() == 1).all()):
        raise TypeError("vectors: hypervectors must be those of HRR or FHRR, got 1 and -1 alone, as those of MAP")
    return found


def item_memory(codebook: Mapping[Any, Any]) -> ItemMemory:
    """An item memory of a ``Codebook``, or of any mapping of labels to vectors ``[D]``, as encoders have.

    Labels that are no str, such as ints, get the name that ``str`` gives them.

    Raises:
        TypeError, ValueError: As `vectors` and `hrr.ItemMemory`: also for an empty codebook.
    """
    has("item_memory", "codebook", codebook, "items")
    held = dict(codebook.items())
    if not held:
        raise ValueError("item_memory: codebook must hold at least one vector, got none")
    found = [vectors(vector) for vector in held.values()]
    if len(shapes := {each.shape for each in found}) > 1:
        raise ValueError(f"item_memory: codebook must hold vectors of one length, got {sorted(map(list, shapes))}")
    return ItemMemory(torch.stack(found), [str(label) for label in held])


def at(sequence: Any, index: int) -> Tensor:
    """The noisy item at a position, from 0, of what a ``PositionBindingEncoder`` encoded: ``roll(v, -index)``.

    The encoder shifts vectors; of FHRR ones give this what it encoded, and the answer to `vectors`.

    Raises:
        TypeError: ``index`` is no int.
        IndexError: It is negative. The length is not known here: an index beyond it gives noise.
    """
    return rolled_back("at", sequence, index, None, ascending=True)
