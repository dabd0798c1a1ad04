"""Losses that ask a set of target neurons to be the winners of an area."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import (
    brief,
    check_floating,
    check_strided,
    choice,
    integer,
    named,
    number,
    positive,
    real,
    shown,
    tensor,
)
from torch_hrr.assembly import functional

AssemblyLoss = Callable[[Tensor, Tensor], Tensor]
"""A loss of the soft winners ``[..., n]`` and of the targets' indices ``[..., m]``."""


def _rows_and_targets(name: str, values: str, given: Any, indices: Any) -> tuple[Tensor, Tensor]:
    """Rows, and the targets with their leading dimensions; an error unless these are distinct indices of them."""
    rows, targets = tensor(name, values, given), tensor(name, "targets", indices)
    check_floating(name, values, rows)
    check_strided(name, "targets", targets)
    if targets.dtype != torch.int64:
        raise TypeError(f"{name}: targets must be int64, got {targets.dtype}")
    if rows.dim() == 0 or targets.dim() == 0 or targets.shape[-1] == 0:
        raise ValueError(
            f"{name}: {values} must have shape [..., n] and targets [..., m] with m >= 1, "
            f"got {list(rows.shape)} and {list(targets.shape)}"
        )
    if targets.device != rows.device:
        raise RuntimeError(f"{name}: targets must be on {rows.device}, got {targets.device}")
    leading, own = rows.shape[:-1], targets.shape[:-1]
    if len(own) > len(leading) or any(a not in (1, b) for a, b in zip(own[::-1], leading[::-1], strict=False)):
        raise ValueError(
            f"{name}: the leading dimensions of targets must broadcast to {list(leading)}, got {list(own)}"
        )
    # Elsewhere, looking would wait for the device, and a tracer has no values.
    if targets.device.type == "cpu" and not torch.compiler.is_compiling():
        # Within vmap no value can be read.
        with contextlib.suppress(RuntimeError):
            _check_indices(name, targets, rows.shape[-1])
    return rows, targets.expand(*leading, targets.shape[-1])


def _check_indices(name: str, targets: Tensor, n: int) -> None:
    outside = (targets < 0) | (targets >= n)
    if bool(outside.any()):
        raise IndexError(f"{name}: targets must be in 0..{n - 1}, got {int(targets[outside][0])}")
    ordered = targets.sort(-1).values
    if bool((ordered[..., 1:] == ordered[..., :-1]).any()):
        raise ValueError(f"{name}: targets must be distinct in each row, got repeated ones")


def assembly_overlap_loss(soft_winners: Tensor, targets: Tensor) -> Tensor:
    """``1 - mean over the batch of (1 / m) sum over targets j of y_j``: 0 where every target wins, 1 where none does.

    For the mask of ``k_cap`` and k targets this is 1 minus the overlap of two assemblies, with the mask's surrogate
    gradient; for the soft winners of ``k_cap(..., soft=True)`` it is a smooth version of that. Half types are summed in
    float32.

    Args:
        soft_winners: ``[..., n]`` in 0 to 1.
        targets: int64 ``[..., m]``, m >= 1 distinct indices per row; leading dimensions broadcast.

    Returns:
        A scalar in the dtype of ``soft_winners``; 0 for an empty batch.

    Raises:
        TypeError: ``targets`` is not int64, or ``soft_winners`` not floating point.
        ValueError: A shape does not fit, or on the CPU targets are repeated.
        IndexError: On the CPU, a target is not in 0 to n - 1.
        RuntimeError: Devices differ.
    """
    rows, indices = _rows_and_targets("assembly_overlap_loss", "soft_winners", soft_winners, targets)
    return _overlap_loss(rows, indices)


def _overlap_loss(soft_winners: Tensor, indices: Tensor) -> Tensor:
    missing = 1 - soft_winners.gather(-1, indices)
    return missing.sum() / max(missing.numel(), 1)


def assembly_margin_loss(inputs: Tensor, targets: Tensor, k: int, margin: float = 1.0) -> Tensor:
    """``mean over the batch and targets j of relu(margin - (x_j - r))``, r the rival to beat.

    r is the (k - m + 1)-th largest input among the neurons that are not targets: all m <= k targets are winners if and
    only if each is above it. So the loss is 0 exactly where every target wins by the margin. Its gradient raises the
    targets that do not and lowers their rival; targets beyond the margin get none. Where k - m + 1 exceeds the number
    of rivals, there is none to beat, and the loss is 0.

    Args:
        inputs: ``[..., n]``, what the neurons receive, before the k-cap.
        targets: int64 ``[..., m]``, 1 <= m <= k distinct indices per row; leading dimensions broadcast.
        k: the number of winners, at most n.
        margin: in units of the inputs, finite and at least 0.

    Returns:
        A scalar in the dtype of ``inputs``; 0 for an empty batch.

    Raises:
        TypeError: ``targets`` is not int64, or ``inputs`` not floating point.
        ValueError: ``k`` is not between m and n, ``margin`` is negative or not finite, a shape does not fit, or on the
            CPU targets are repeated.
        IndexError: On the CPU, a target is not in 0 to n - 1.
        RuntimeError: Devices differ.
    """
    return _margin_loss("assembly_margin_loss", inputs, targets, k, margin)


def _margin_loss(name: str, inputs: Any, targets: Any, k: Any, margin: Any) -> Tensor:
    inputs, indices = _rows_and_targets(name, "inputs", inputs, targets)
    k, margin = integer(name, "k", k), real(name, "margin", margin)
    wanted, n = indices.shape[-1], inputs.shape[-1]
    if not wanted <= k <= n:
        raise ValueError(f"{name}: k must be between m = {wanted} and n = {n}, got {shown(k)}")
    if not 0 <= margin < float("inf"):
        raise ValueError(f"{name}: margin must be finite and at least 0, got {margin}")
    reached = inputs.gather(-1, indices)
    if k == n:
        nothing: Tensor = (reached * 0).sum()
        return nothing
    others = inputs.scatter(-1, indices, -torch.inf)
    rival = others.topk(k - wanted + 1, dim=-1).values[..., -1:]
    shortfall = torch.relu(margin - (reached - rival))
    mean: Tensor = shortfall.sum() / max(shortfall.numel(), 1)
    return mean


def check_loss(op: str, loss: Any, temperature: Any, surrogate: Any, margin: Any) -> None:
    """Checks the options of a loss, whether it uses them or not."""
    if not isinstance(loss, str) and not callable(loss):
        raise TypeError(f"{op}: loss must be 'overlap', 'margin' or a function, got {type(loss).__name__}")
    if isinstance(loss, str) and loss not in ("overlap", "margin"):
        raise ValueError(f"{op}: loss must be 'overlap', 'margin' or a function, got {brief(loss)}")
    positive(op, "temperature", temperature)
    choice(op, "surrogate", surrogate, ("sigmoid", "laplace"))
    number(op, "margin", margin, 0)


def assembly_loss(
    inputs: Tensor,
    targets: Tensor,
    k: int,
    loss: str | AssemblyLoss = "overlap",
    *,
    temperature: float = 1.0,
    surrogate: str = "sigmoid",
    margin: float = 1.0,
) -> Tensor:
    """The loss of an area whose neurons receive ``inputs`` and whose k winners should be, or hold, the targets.

    Args:
        inputs: ``[..., n]``.
        targets: int64 ``[..., m]``.
        k: the number of winners.
        loss: "overlap" for `assembly_overlap_loss` of the soft winners, "margin" for `assembly_margin_loss`, or a
            function of the soft winners and the targets.
        temperature: of the soft winners, as in ``k_cap``.
        surrogate: of the soft winners, "sigmoid" or "laplace".
        margin: of the margin loss.

    Returns:
        A scalar, or what the function returns.

    Raises:
        TypeError: ``loss`` is neither a str nor callable.
        ValueError: ``loss`` is another name.
        Everything else as for the loss and ``k_cap``.
    """
    check_loss("assembly_loss", loss, temperature, surrogate, margin)
    if isinstance(loss, str):
        if loss == "margin":
            return _margin_loss("assembly_loss", inputs, targets, k, margin)
        rows, indices = _rows_and_targets("assembly_loss", "inputs", inputs, targets)
        inputs, targets, loss = rows, indices, _overlap_loss
    with named("k_cap", "assembly_loss"):
        winners = functional.k_cap(inputs, k, temperature, surrogate, True)
    return loss(winners, targets)
