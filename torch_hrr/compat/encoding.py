"""GPUAccelerator: the functions of `torch_hrr.encoding` on the best device, in the precision of a `GPUConfig`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import (
    check_data,
    check_dtype,
    choice,
    integer,
    named,
    number,
    positive,
    strided,
)
from torch_hrr._plain import encoding as plain_encoding
from torch_hrr.encoding import functional, relative
from torch_hrr.encoding.acceleration import Accelerator, GPUConfig, ladder
from torch_hrr.runtime.device import resolve_device_or_cpu

_Function = TypeVar("_Function", bound=Callable[..., Any])


class GPUAccelerator(Accelerator):
    """An `Accelerator` with encodings as methods; a named device that cannot be used is the CPU, after a warning."""

    def __init__(self, config: GPUConfig | None = None, device: torch.device | str | int | None = None) -> None:
        """As `Accelerator`, but for the fallback."""
        super().__init__(config, None if device is None else resolve_device_or_cpu(device, op="GPUAccelerator"))

    def place(self, x: Tensor) -> Tensor:
        """Moves a tensor to the device, unless its first dimension is below ``min_batch_for_gpu``."""
        return self._placed("place", "x", x)

    def _placed(self, op: str, argument: str, x: Tensor) -> Tensor:
        """`place`, with errors in the name of a call."""
        x = strided(op, argument, x)
        if self.device.type != "meta":
            check_data(op, argument, x)
        large = x.dim() == 0 or x.shape[0] >= self.config.min_batch_for_gpu
        return x.to(self.device, non_blocking=True) if large else x

    def compile(self, function: _Function) -> _Function:
        """The function through torch.compile, with ``enable_xla``; else as it is."""
        if not callable(function):
            raise TypeError(f"compile: function must be callable, got {type(function).__name__}")
        return torch.compile(function) if self.config.enable_xla else function  # type: ignore[return-value]

    def vectorized_sinusoidal_encoding(
        self,
        positions: Tensor,
        embedding_dim: int,
        base_frequency: float = 10000.0,
        frequency_scaling: float = 1.0,
        phase_shift: float = 0.0,
        layout: str = "interleaved",
    ) -> Tensor:
        """`sinusoidal_encoding`, after `place`, in the dtype of the policy; errors as there."""
        op = "vectorized_sinusoidal_encoding"
        positions = strided(op, "positions", positions)
        dim, base = integer(op, "embedding_dim", embedding_dim, 0), positive(op, "base_frequency", base_frequency)
        scale, phase = number(op, "frequency_scaling", frequency_scaling), number(op, "phase_shift", phase_shift)
        numbers = (dim, base, scale, phase, choice(op, "layout", layout, relative.LAYOUTS))
        positions, dtype = self._placed(op, "positions", positions), self.config.compute_dtype
        with named("sinusoidal_encoding", op):
            if self.config.vectorize:
                return functional.sinusoidal_encoding(positions, *numbers, dtype)
            checked = functional.check_ladder(positions, *numbers, dtype)
        return plain_encoding.sinusoidal_encoding(positions, *numbers, checked)

    def batch_embedding_lookup(self, table: Tensor, ids: Tensor, padding_id: int | None = None) -> Tensor:
        """Rows of a table ``[V, dim]`` as ``[..., dim]``, in the dtype of the policy; zeros at padding.

        Rows are gathered where the table is, then moved by `place`. Differentiable in the table. A token outside 0 to V
        - 1 raises an IndexError on the CPU, such a padding token a ValueError.
        """
        op = "batch_embedding_lookup"
        table, ids = strided(op, "table", table), strided(op, "ids", ids)
        if table.dim() != 2:
            raise ValueError(f"{op}: table must have shape [V, dim], got {list(table.shape)}")
        if ids.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"{op}: ids must be int32 or int64, got {ids.dtype}")
        if self.device.type != "meta":
            check_data(op, "table", table)
            check_data(op, "ids", ids)
        if ids.is_cpu and table.is_cpu and ids.numel():
            least, most = map(int, torch.aminmax(ids))
            if least < 0 or most >= len(table):
                outside = least if least < 0 else most
                raise IndexError(f"{op}: ids must be in 0..{len(table) - 1}, got {outside}")
        if padding_id is not None:
            padding_id = integer(op, "padding_id", padding_id, 0, table.shape[0] - 1)
        ids = ids.to(table.device)
        rows = F.embedding(ids, table)
        if padding_id is not None:
            rows = rows.masked_fill((ids == padding_id).unsqueeze(-1), 0.0)
        return self.place(rows if self.config.compute_dtype is None else rows.to(self.config.compute_dtype))

    def parallel_frequency_computation(
        self,
        embedding_dim: int,
        base_frequency: float = 10000.0,
        frequency_scaling: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The ladder ``frequency_scaling base_frequency^(-2i/dim)``, ``[ceil(dim / 2)]``, rounded once from float64."""
        op = "parallel_frequency_computation"
        check_dtype(op, dtype)
        dim = integer(op, "embedding_dim", embedding_dim, 0)
        base = positive(op, "base_frequency", base_frequency)
        return ladder(dim, base, number(op, "frequency_scaling", frequency_scaling), dtype).to(self.device)

    def optimized_attention_weights(
        self,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None = None,
        relative_bias: Tensor | None = None,
        causal: bool = False,
    ) -> Tensor:
        """`attention_weights`, after `place` of the queries, in the queries' dtype; errors as there."""
        op = "optimized_attention_weights"
        query, key = self._placed(op, "query", query), strided(op, "key", key)
        mask = None if mask is None else strided(op, "mask", mask)
        relative_bias = None if relative_bias is None else strided(op, "relative_bias", relative_bias)
        for name, given in (("key", key), ("mask", mask), ("relative_bias", relative_bias)):
            if given is not None and not query.is_meta:
                check_data(op, name, given)
        key, mask = key.to(query.device), mask if mask is None else mask.to(query.device)
        relative_bias = relative_bias if relative_bias is None else relative_bias.to(query.device)
        with named("attention_weights", op):
            return relative.attention_weights(query, key, mask, relative_bias, causal)
