"""Relative positions: a rotation of queries and keys, or a bias of attention scores, by i - j alone."""

import contextlib
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch._jit_internal import is_scripting

from torch_hrr._checks import (
    check_bool,
    check_broadcast,
    check_elements,
    check_floating,
    check_strided,
    integer,
    optional_tensor,
    resolve_dtype,
    signed,
    tensor,
)
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Device, Dtype, Int, Real, takes
from torch_hrr.encoding.functional import check_settings
from torch_hrr.runtime.device import resolve_parameter_device


class RelativePositionBias(DescribedModule):
    """A learned bias of attention scores, ``b[h, i - j]`` for head h, query i and key j.

    One number for each head and distance, where distances beyond the window count as its ends; or, with ``features``, a
    learned combination of that many sinusoids of the distance, which covers any distance and is smooth in it. All
    weights start at 0, so an untrained bias changes nothing.

    Attributes:
        weight: The parameter: ``[heads, 2 window + 1]`` for distances -window to window, or ``[heads, features]``.

    Source: the table: Raffel et al., Exploring the limits of transfer learning with a unified text-to-text transformer,
    2020, section 2.1, with bins of width 1; clipping: Shaw et al., Self-attention with relative position
    representations, 2018.
    """

    @takes(
        window=Int(1),
        heads=Int(1),
        features=Int(0),
        base=Real(0, open_left=True),
        device=Device(),
        dtype=Dtype().or_none(),
    )
    def __init__(
        self,
        window: int = 64,
        heads: int = 1,
        features: int = 0,
        base: float = 10000.0,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes a bias of zeros.

        Args:
            window: The largest distance with a weight of its own, at least 1; not used with ``features``.
            heads: Number of heads, at least 1.
            features: 0 for a table of distances, else the number of sinusoids.
            base: Base of the sinusoids' frequencies, as for `sinusoidal_encoding`.
            device: Device of the parameter; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the parameter; None means torch's default dtype.
        """
        super().__init__()
        name = type(self).__name__
        self.window, self.heads, self.features, self.base = window, heads, features, base
        width = features or 2 * window + 1
        check_elements(name, "weight", (heads, width))
        check_settings(name, features, base)
        dtype = resolve_dtype(name, dtype)
        place = resolve_parameter_device(device, op=name)
        self.weight = nn.Parameter(torch.empty(heads, width, device=place, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weights are 0 again, as after ``to_empty``."""
        nn.init.zeros_(self.weight)

    def forward(self, queries: int, keys: int, first_query: int = 0) -> Tensor:
        """The bias ``[heads, queries, keys]``, to be added to scores ``[..., heads, queries, keys]``.

        Args:
            queries: Number of queries, at positions ``first_query``, ``first_query + 1``, ...
            keys: Number of keys, at positions 0, 1, ...
            first_query: Position of the first query: above 0 if keys of earlier positions are cached.

        Raises:
            TypeError: An argument is not an int.
            ValueError: ``queries`` or ``keys`` is negative, or a number too large.
        """
        # Left out where it is scripted, which checks types itself.
        if not is_scripting():
            op = type(self).__name__
            queries, keys = integer(op, "queries", queries, 0), integer(op, "keys", keys, 0)
            first_query = signed(op, "first_query", first_query)
            # What a tracer holds needs no such bounds.
            sized = type(queries) is type(keys) is type(first_query) is int and not torch.compiler.is_compiling()
            if sized:
                check_elements(op, "the bias", (self.heads, queries, keys))
            if sized and not -(2**63) < first_query - keys <= first_query + queries < 2**63:
                raise ValueError(f"{op}: first_query must leave all distances below 2^63, got {first_query}")
        # Every distance once: the bias is constant along diagonals. Descending j - i, ascending i - j.
        distances = torch.arange(first_query - keys + 1, first_query + queries, device=self.weight.device)
        if self.features:
            dtype = torch.float64 if self.weight.dtype == torch.float64 else torch.float32
            waves = torch.ops.torch_hrr.sinusoidal_encoding(
                distances, self.features, self.base, 1.0, 0.0, "half", dtype
            )
            each = torch.matmul(self.weight.to(dtype), waves.transpose(0, 1)).to(self.weight.dtype)
        else:
            each = self.weight.index_select(1, distances.clamp(-self.window, self.window) + self.window)
        if queries == 0 or keys == 0:
            return self.weight.new_zeros((self.heads, queries, keys))
        if not is_scripting() and torch.compiler.is_compiling():
            # unfold would fix the lengths of a graph to those of its example.
            rows = torch.arange(queries, device=each.device).unsqueeze(1)
            columns = torch.arange(keys, device=each.device)
            return each.index_select(1, (rows + (keys - 1) - columns).flatten()).view(self.heads, queries, keys)
        return each.unfold(1, keys, 1).flip(2)

    def _summary(self) -> dict[str, Any]:
        kind = {"features": self.features} if self.features else {"window": self.window}
        return kind | {"heads": self.heads}


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None = None, relative_bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """``softmax(q k^T / sqrt(d) + relative_bias)`` over the keys that the mask allows, in float32 at least.

    Products, sums and the softmax of half types are computed in float32, under autocast too; the weights are rounded
    once, at the end. A query without any key gets zeros; a bias of -infinity hides a key as the mask does.
    Differentiable in queries, keys and bias. As deterministic as torch's matrix products; O(Lq Lk d).

    Args:
        query: ``[..., Lq, d]``, floating.
        key: ``[..., Lk, d]``, of the same dtype; leading dimensions broadcast.
        mask: bool, broadcast to ``[..., Lq, Lk]``: True where a query may see a key, as in
            `torch.nn.functional.scaled_dot_product_attention`.
        relative_bias: added to the scores, broadcast to ``[..., Lq, Lk]``, as `RelativePositionBias` makes it.
        causal: whether a query sees only keys at or before its own position; the last query is at the last key.

    Returns:
        ``[..., Lq, Lk]``, in the dtype of ``query``.

    Raises:
        TypeError: A tensor is of another dtype, sparse or nested.
        ValueError: The last dimensions differ or are 0, or shapes do not broadcast.
        RuntimeError: The devices differ.
    """
    op = "attention_weights"
    query, key = tensor(op, "query", query), tensor(op, "key", key)
    mask, relative_bias = optional_tensor(op, "mask", mask), optional_tensor(op, "relative_bias", relative_bias)
    check_floating(op, "query", query)
    check_floating(op, "key", key)
    causal = check_bool(op, "causal", causal)
    if query.dtype != key.dtype:
        raise TypeError(f"{op}: query and key must be of one dtype, got {query.dtype} and {key.dtype}")
    if query.dim() < 2 or key.dim() < 2 or query.shape[-1] != key.shape[-1] or query.shape[-1] == 0:
        shapes = f"{list(query.shape)} and {list(key.shape)}"
        raise ValueError(f"{op}: query and key must have shapes [..., L, d] with the same d >= 1, got {shapes}")
    _check_device("key", key, query)
    leading = check_broadcast(op, "query and key", query.shape[:-2], key.shape[:-2])
    scores_shape = torch.Size((*leading, query.shape[-2], key.shape[-2]))
    if mask is not None:
        check_strided(op, "mask", mask)
        if mask.dtype != torch.bool:
            raise TypeError(f"{op}: mask must be a bool tensor, got {mask.dtype}")
        _check_device("mask", mask, query)
        scores_shape = _with_scores("mask", mask, scores_shape)
    if relative_bias is not None:
        check_floating(op, "relative_bias", relative_bias)
        _check_device("relative_bias", relative_bias, query)
        _with_scores("relative_bias", relative_bias, scores_shape)
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    if causal:
        offset = key.shape[-2] - query.shape[-2]
        seen = query.new_ones((query.shape[-2], key.shape[-2]), dtype=torch.bool).tril(offset)
        mask = seen if mask is None else mask & seen
    kind = query.device.type
    casts = torch.amp.is_autocast_available(kind)
    with torch.autocast(kind, enabled=False) if casts else contextlib.nullcontext():
        scores = torch.matmul(query.to(wide) * query.shape[-1] ** -0.5, key.to(wide).transpose(-2, -1))
        if relative_bias is not None:
            scores = scores + relative_bias.to(wide)
            heard = scores != -math.inf
            mask = heard if mask is None else mask & heard
        if mask is None:
            return scores.softmax(-1).to(query.dtype)
        # Finite, and zero once more afterwards: a softmax of nothing is NaN, and so would its gradient be.
        weights = scores.masked_fill(~mask, torch.finfo(wide).min).softmax(-1)
        return weights.masked_fill(~mask, 0.0).to(query.dtype)


def _check_device(argument: str, value: Tensor, query: Tensor) -> None:
    if value.device != query.device:
        raise RuntimeError(f"attention_weights: {argument} must be on {query.device}, got {value.device}")


def _with_scores(argument: str, value: Tensor, scores: torch.Size) -> torch.Size:
    """The shape of scores with a mask or a bias, which may add leading dimensions but neither queries nor keys."""
    if not all(n in (1, m) for n, m in zip(value.shape[:-3:-1], scores[:-3:-1], strict=False)):
        got = list(value.shape)
        raise ValueError(
            f"attention_weights: {argument} must broadcast to [..., {scores[-2]}, {scores[-1]}], got {got}"
        )
    leading = check_broadcast("attention_weights", f"query, key and {argument}", value.shape[:-2], scores[:-2])
    return torch.Size((*leading, *scores[-2:]))
