"""What the vocabulary and the vector store share as mappings of names to vectors."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._checks import check_floating
from torch_hrr._repr import place_of
from torch_hrr.hrr._held import SharedVectors
from torch_hrr.runtime.device import with_data


class NamedVectors(SharedVectors, Mapping[str, Tensor]):
    """Vectors of one D, dtype and device by name, in the order in which the names came; a mapping to copies of them."""

    _reads_values = True

    _dim: int
    _dtype: torch.dtype
    _device: torch.device
    # What is kept for a name is the derived class's own affair.
    _entries: dict[str, Any]

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _summary(self) -> dict[str, Any]:
        return {"dim": self._dim, "names": self._entries.keys(), **place_of(self._device, self._dtype)}

    def __copy__(self) -> Self:
        """A copy that shares nothing, as `copy.deepcopy` makes: two owners of the same rows would damage them."""
        return copy.deepcopy(self)

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self._dim, self._device, self._dtype

    def _place_after(self, fn: Callable[[Tensor], Tensor]) -> tuple[torch.device, torch.dtype]:
        """What a conversion makes of device and dtype, also where there are no vectors."""
        made = fn(torch.empty(0, self._dim, dtype=self._dtype, device=self._device))
        check_floating("to", "vectors", made)
        return with_data("to", made.device), made.dtype

    def __len__(self) -> int:
        """Number of vectors."""
        return len(self._entries)

    def __iter__(self) -> Iterator[str]:
        """The names in their order, as of now."""
        return iter(tuple(self._entries))

    def __contains__(self, name: object) -> bool:
        """Whether there is a vector of that name."""
        return name in self._entries

    @property
    def dim(self) -> int:
        """Dimension D."""
        return self._dim

    @property
    def device(self) -> torch.device:
        """Where the vectors are."""
        return self._device

    @property
    def dtype(self) -> torch.dtype:
        """Of the vectors."""
        return self._dtype

    @property
    def names(self) -> tuple[str, ...]:
        """The names in the order in which they came, which is that of `vectors` and of indices."""
        return tuple(self._entries)
