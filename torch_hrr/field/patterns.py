"""Patterns that are retrieved by the contexts in which they were stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_elements, check_floating, check_strided, placed, resolve_dtype
from torch_hrr._ops import ops as _ops
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Device, Dtype, Int, takes
from torch_hrr.io import Saveable
from torch_hrr.runtime import resolve_device

_BLENDED = 3
# Of the softmax over cosines: two contexts at right angles differ by a factor of e^10.
_SHARPNESS = 10.0


class PatternLibrary(Saveable, DescribedModule):
    """The newest patterns with their contexts: retrieval by cosine of the context blends the three best.

    Everything is on the device, counters too: nothing waits for it, and calls can be compiled or captured in a graph.
    Retrieval from an empty library gives zeros with similarity 0; a context of zeros has cosine 0 with every other.
    Values are not checked: NaN or infinity in a context, or in a pattern that is found, makes the result NaN.

    Attributes:
        contexts: ``[capacity, dim]``, of norm 1 or 0, whatever the norm of what was stored.
        patterns: ``[capacity, pattern_dim]``.
        stored: ``[1]`` int64, how many were ever stored; number i is in row ``i % capacity``.

    Source: Kanerva, Sparse distributed memory, 1988, for retrieval by likeness; the softmax blend: Ramsauer et al.,
    Hopfield networks is all you need, ICLR 2021.
    """

    file_format = "torch_hrr.pattern_library"

    contexts: Tensor
    patterns: Tensor
    stored: Tensor

    @takes(capacity=Int(1), dim=Int(1), pattern_dim=Int(1).or_none(), device=Device(), dtype=Dtype().or_none())
    @writable_anywhere
    def __init__(
        self,
        capacity: int,
        dim: int,
        pattern_dim: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes an empty library.

        Args:
            capacity: How many are kept, at least 1; after that, new patterns replace the oldest.
            dim: Length of a context, at least 1.
            pattern_dim: Length of a pattern; None means ``dim``.
            device: None means the current one, `runtime.get_device()`.
            dtype: None means torch's default one.
        """
        super().__init__()
        op = type(self).__name__
        self.capacity, self.dim, self.pattern_dim = capacity, dim, pattern_dim or dim
        check_elements(op, "the patterns", (capacity, max(self.dim, self.pattern_dim)))
        place, kind = resolve_device(device, op=op), resolve_dtype(op, dtype)
        self.register_buffer("contexts", torch.zeros(self.capacity, self.dim, device=place, dtype=kind))
        self.register_buffer("patterns", torch.zeros(self.capacity, self.pattern_dim, device=place, dtype=kind))
        self.register_buffer("stored", torch.zeros(1, device=place, dtype=torch.int64))

    @torch.no_grad()
    def store(self, context: Tensor, pattern: Tensor, when: Tensor | None = None) -> None:
        """Stores a pattern for a context, in place of the oldest if the library is full.

        Args:
            context: ``[dim]``, floating, on the library's device.
            pattern: ``[pattern_dim]``, likewise.
            when: A bool tensor of one element on the device, which decides there whether to store; None means yes.

        Raises:
            TypeError: An argument is not a strided tensor or array, or of another dtype.
            ValueError: A shape or a device is another. The library is unchanged.
        """
        op = "store"
        context = vector(op, "context", context, self.dim, self.stored.device)
        pattern = vector(op, "pattern", pattern, self.pattern_dim, self.stored.device)
        if when is not None:
            when = placed(op, "when", when, self.stored.device)
            check_strided(op, "when", when)
            if when.dtype is not torch.bool:
                raise TypeError(f"{op}: when must be bool, got {when.dtype}")
            check_single(op, "when", when, self.stored.device)
        row = torch.remainder(self.stored, self.capacity)
        own, kept = _unit(context.to(self.contexts.dtype))[None], pattern.to(self.patterns.dtype)[None]
        more: Tensor | int = 1
        if when is not None:
            keeps = when.reshape(1, 1)
            own = torch.where(keeps, own, self.contexts.index_select(0, row))
            kept = torch.where(keeps, kept, self.patterns.index_select(0, row))
            more = keeps.reshape(1)
        self.contexts.index_copy_(0, row, own)
        self.patterns.index_copy_(0, row, kept)
        self.stored.add_(more)

    @torch.no_grad()
    def find_best_pattern(self, context: Tensor, field_state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The blend of the three best patterns, by a softmax of ten times their similarity.

        Args:
            context: ``[dim]``, floating, on the library's device.
            field_state: ``[pattern_dim]``, likewise; with it the similarity of a row is the mean of the cosines of the
                contexts and of its pattern with the state, else that of the contexts alone.

        Returns:
            The pattern ``[pattern_dim]``, and the greatest similarity, 0-d, -1 to 1; zeros from an empty library.

        Raises:
            TypeError: An argument is not a strided tensor or array, or of another dtype.
            ValueError: A shape or a device is another.

        Cost: one read of the contexts, and with a state a copy of the patterns, of norm 1.
        """
        op = "find_best_pattern"
        context = vector(op, "context", context, self.dim, self.stored.device)
        if field_state is not None:
            field_state = vector(op, "field_state", field_state, self.pattern_dim, self.stored.device)
        scores = torch.mv(self.contexts, _unit(context.to(self.contexts.dtype)))
        if field_state is not None:
            scores = (scores + torch.mv(_unit(self.patterns), _unit(field_state.to(self.patterns.dtype)))) / 2
        known = torch.arange(self.capacity, device=self.stored.device) < self.stored
        best, rows = scores.masked_fill(~known, -torch.inf).topk(min(_BLENDED, self.capacity))
        any_known = self.stored > 0
        weights = torch.where(any_known, best * _SHARPNESS, 0.0).softmax(0)
        blend = torch.mv(self.patterns.index_select(0, rows).T, weights)
        # Rounding took it beyond 1.
        return torch.where(any_known, blend, 0.0), torch.where(any_known[0], best[0].clamp(-1, 1), 0.0)

    def clear(self) -> None:
        """Forgets everything."""
        for buffer in (self.contexts, self.patterns, self.stored):
            buffer.zero_()

    def __len__(self) -> int:
        """How many are kept; waits for the device."""
        return min(int(self.stored), self.capacity)

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        (capacity, dim), (count, pattern_dim) = tensors["contexts"].shape, tensors["patterns"].shape
        # Before what may be larger than the file is made.
        if count != capacity or int(tensors["stored"]) < 0:
            raise ValueError("other tensors")
        return cls(capacity, dim, pattern_dim, **settings, device=device, dtype=tensors["contexts"].dtype)

    def _summary(self) -> dict[str, Any]:
        return {"capacity": self.capacity, "dim": self.dim, "pattern_dim": self.pattern_dim}


def vector(op: str, argument: str, given: Any, length: int, device: torch.device) -> Tensor:
    """A vector of this length on the device, an array's put there; TypeError or ValueError for anything else."""
    value = placed(op, argument, given, device)
    check_floating(op, argument, value)
    if value.shape != (length,):
        raise ValueError(f"{op}: {argument} must have shape [{length}], got {list(value.shape)}")
    _check_device(op, argument, value, device)
    return value


def check_single(op: str, argument: str, value: Tensor, device: torch.device) -> None:
    """Raises ValueError unless the tensor has one element on the device."""
    if value.numel() != 1:
        raise ValueError(f"{op}: {argument} must have one element, got a shape of {list(value.shape)}")
    _check_device(op, argument, value, device)


def _check_device(op: str, argument: str, value: Tensor, device: torch.device) -> None:
    if value.device != device:
        raise ValueError(f"{op}: {argument} must be on {device}, got {value.device}")


def _unit(vectors: Tensor) -> Tensor:
    """Of norm 1, or zeros; norms neither overflow nor underflow."""
    tiny = torch.finfo(torch.promote_types(vectors.dtype, torch.float32)).tiny
    with full_precision(vectors.device):
        unit: Tensor = _ops.superpose.default(vectors.unsqueeze(-2), None, True, tiny)
        return unit
