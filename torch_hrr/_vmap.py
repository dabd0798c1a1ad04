"""Batching rules: an operator whose leading dimensions broadcast takes one more of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_hrr import _library

_ONE_A_CALL = -1
"""Of an argument that an operator takes one of, such as a table."""
_NO_BATCH_AT_ALL = -2
"""Of an argument whose presence forbids vmap (csrc/operator.h)."""
_BATCHED_TOGETHER = -3
"""Of one that may have a dimension more or less: all arguments get the batch in front."""


def _to_front(tensor: Tensor | None, batch_dim: int | None, rank: int) -> Tensor | None:
    """The tensor with its batch dimension first and `rank` dimensions after it; an unbatched one as it is."""
    if tensor is None or batch_dim is None:
        return tensor
    moved = tensor.movedim(batch_dim, 0)
    missing = rank - (moved.dim() - 1)
    return moved.reshape(moved.shape[0], *[1] * missing, *moved.shape[1:])


def _promoted(tensors: Iterable[Any]) -> torch.dtype:
    """The dtype of rows of these tensors together."""
    dtypes = [tensor.dtype for tensor in tensors]
    promoted: torch.dtype = functools.reduce(torch.promote_types, dtypes)
    return promoted


def _is_cast(operator: Any, tensor: Tensor) -> bool:
    """Whether autocast has decided the result's dtype."""
    device = tensor.device.type
    return (
        device in ("cpu", "cuda")
        and torch.is_autocast_enabled(device)
        and torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), f"Autocast{device.upper()}")
    )


def _rule(operator: Any, trailing: tuple[int, ...]) -> Callable[..., Any]:
    """A rule for an operator whose tensor arguments end in `trailing[i]` dimensions of their own.

    A negative number stands for an argument that has no batch. The operator runs once for each of several tables.
    """
    schema = operator._schema
    name = schema.name.removeprefix("torch_hrr::")
    places = [i for i, argument in enumerate(schema.arguments) if "Tensor" in str(argument.type)]

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        given = [
            (i, arguments[i], in_dims[i], own) for i, own in zip(places, trailing, strict=False) if i < len(arguments)
        ]
        leading, several = 0, False
        for i, tensor, batch_dim, own in given:
            argument = schema.arguments[i].name
            if own < 0 and batch_dim is not None:
                if own != _ONE_A_CALL or schema.arguments[i].is_write:
                    raise RuntimeError(f"{name}: {argument} must not be batched by vmap")
                if info.batch_size == 0:
                    raise RuntimeError(f"{name}: {argument} must be batched by vmap over at least 1, got 0")
                several = True
            if own == _NO_BATCH_AT_ALL and tensor is not None:
                raise RuntimeError(f"{name}: {argument} must not be given within vmap")
            if tensor is not None and own >= 0:
                rank = tensor.dim() - (batch_dim is not None)
                if rank < own:
                    least = f"{own} dimension" if own == 1 else f"{own} dimensions"
                    raise ValueError(f"{name}: {argument} must have at least {least} within vmap, got {rank}")
                leading = max(leading, rank - own)
        if several:
            return _one_by_one(operator, info.batch_size, in_dims, arguments)
        moved = list(arguments)
        for i, tensor, batch_dim, own in given:
            moved[i] = _to_front(tensor, batch_dim, leading + own)
        result = operator(*moved)
        # Arguments promote together where none is a table.
        numbers = (
            all(own >= 0 for own in trailing)
            and any(own > 0 for own in trailing)
            and any(own == 0 and batch_dim is not None and tensor.dim() == 1 for _, tensor, batch_dim, own in given)
        )
        if numbers and not _is_cast(operator, arguments[0]):
            # Every exponent is a number of its own, which takes no part in type promotion.
            result = result.to(_promoted(moved[i] for i, _, _, own in given if own > 0))
        return result, (0,) * len(result) if isinstance(result, tuple) else 0

    return rule


def _one_by_one(operator: Any, count: int, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """The results of a call for each element of the batch."""

    def element(index: int) -> Any:
        pairs = zip(arguments, in_dims, strict=True)
        return operator(*(given if where is None else given.select(where, index) for given, where in pairs))

    results = [element(index) for index in range(count)]
    if isinstance(results[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * len(results[0])
    return torch.stack(results), 0


def _rule_together(operator: Any) -> Callable[..., Any]:
    """A rule for an operator all of whose tensors have the same leading dimensions, which do not broadcast."""

    def rule(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        def batched(argument: Any, batch_dim: int | None) -> Any:
            if not isinstance(argument, Tensor):
                return argument
            if batch_dim is None:
                return argument.expand(info.batch_size, *argument.shape)
            return argument.movedim(batch_dim, 0)

        result = operator(*map(batched, arguments, in_dims))
        return result, (0,) * len(result)

    return rule


def register(library: Path | None = None) -> None:
    """Registers a rule for every operator that the library reports."""
    for name, trailing in _library.operators(library):
        packet, overload = name.split(".")
        operator = getattr(getattr(torch.ops.torch_hrr, packet), overload)
        together = _BATCHED_TOGETHER in trailing
        torch.library.register_vmap(operator, _rule_together(operator) if together else _rule(operator, trailing))
