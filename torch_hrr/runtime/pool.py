"""Tensors that are allocated once and reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import FLOATING, brief, check_data, check_elements, sizes, word
from torch_hrr._repr import Described, place_of
from torch_hrr.runtime.device import resolve_device

_OTHERS = (torch.bool, torch.int32, torch.int64)


class TensorPool(Described, Mapping[str, Tensor]):
    """Tensors by name, zeros at first, at fixed addresses: every cycle works in the same memory.

    A mapping that cannot be changed; the tensors' contents can. Moving the pool to another device makes new ones.

    Attributes:
        device: The device of the tensors.
    """

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int] | tuple[Sequence[int], torch.dtype]],
        device: torch.device | str | int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Allocates the tensors.

        Args:
            shapes: The shape, or shape and dtype, of each name.
            device: None means the current one, `runtime.get_device()`.
            dtype: dtype of those that have none of their own.

        Raises:
            TypeError: Not a mapping; a name is not a str, a shape not a sequence of ints, or a dtype not floating,
                bool, int32 or int64.
            ValueError: A size is negative or beyond int64, or torch does not know the device.
        """
        if not isinstance(shapes, Mapping):
            raise TypeError(f"TensorPool: shapes must be a mapping, got {type(shapes).__name__}")
        self.device = resolve_device(device, op="TensorPool")
        self._tensors: dict[str, Tensor] = {}
        for name, given in shapes.items():
            word("TensorPool", "a name", name)
            own, kind = given, dtype
            if isinstance(given, list | tuple) and len(given) == 2 and isinstance(given[1], torch.dtype):
                own, kind = given
            if not isinstance(kind, torch.dtype) or kind not in (*FLOATING, *_OTHERS):
                raise TypeError(
                    f"TensorPool: dtype of {name!r} must be floating, bool, int32 or int64, got {brief(kind)}"
                )
            shape = sizes("TensorPool", f"shape of {name!r}", own, 0, "a sequence of ints")
            check_elements("TensorPool", repr(name), shape)
            with torch.inference_mode(False):
                self._tensors[name] = torch.zeros(shape, dtype=kind, device=self.device)

    def _summary(self) -> dict[str, Any]:
        return {"tensors": self._tensors, "nbytes": self.nbytes, **place_of(self.device)}

    def __getitem__(self, name: str) -> Tensor:
        """The tensor of a name; KeyError for another."""
        return self._tensors[name]

    def __iter__(self) -> Iterator[str]:
        """The names, in the order in which they were given."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._tensors)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def clear(self) -> None:
        """Sets all of them to zero."""
        for tensor in self._tensors.values():
            tensor.zero_()

    def to(self, device: torch.device | str) -> TensorPool:
        """A pool of the same names and contents on another device; the pool itself if it is there.

        Raises:
            TypeError, ValueError: torch does not know the device, or the pool has no contents (meta).
        """
        target = resolve_device(device, op="to")
        if target == self.device:
            return self
        for name, tensor in self.items():
            check_data("to", repr(name), tensor)
        moved = TensorPool({name: (tuple(t.shape), t.dtype) for name, t in self.items()}, target)
        for name, tensor in self.items():
            moved[name].copy_(tensor)
        return moved
