"""GPUAccelerator: the functions of `torch_hrr.encoding` on the best device, in the precision of a `GPUConfig`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import check_data, integer, named, strided
from torch_hrr._plain import encoding as plain_encoding
from torch_hrr._spec import Choice, Dtype, Int, Real, takes
from torch_hrr.encoding import functional, relative, rotary
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

    @takes(
        embedding_dim=Int(0),
        base_frequency=Real(0, open_left=True),
        frequency_scaling=Real(),
        phase_shift=Real(),
        layout=Choice(rotary.LAYOUTS),
    )
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
        op, dtype = "vectorized_sinusoidal_encoding", self.config.compute_dtype
        numbers = (embedding_dim, base_frequency, frequency_scaling, phase_shift, layout)
        positions = self._placed(op, "positions", positions)
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
        if padding_id is not None:
            padding_id = integer(op, "padding_id", padding_id, 0, table.shape[0] - 1)
        ids = ids.to(table.device)
        try:
            rows = F.embedding(ids, table)
        except IndexError:
            raise IndexError(f"{op}: ids must be in 0..{len(table) - 1}, got others") from None
        if padding_id is not None:
            rows = rows.masked_fill((ids == padding_id).unsqueeze(-1), 0.0)
        return self.place(rows if self.config.compute_dtype is None else rows.to(self.config.compute_dtype))

    @takes(embedding_dim=Int(0), base_frequency=Real(0, open_left=True), frequency_scaling=Real(), dtype=Dtype())
    def parallel_frequency_computation(
        self,
        embedding_dim: int,
        base_frequency: float = 10000.0,
        frequency_scaling: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """The ladder ``frequency_scaling base_frequency^(-2i/dim)``, ``[ceil(dim / 2)]``, rounded once from float64."""
        return ladder(embedding_dim, base_frequency, frequency_scaling, dtype).to(self.device)

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
        query = self._placed(op, "query", query)
        others: dict[str, Any] = {}
        for name, given in (("key", key), ("mask", mask), ("relative_bias", relative_bias)):
            if given is not None or name == "key":
                given = strided(op, name, given)
                if not query.is_meta:
                    check_data(op, name, given)
                given = given.to(query.device)
            others[name] = given
        with named("attention_weights", op):
            return relative.attention_weights(query, causal=causal, **others)
