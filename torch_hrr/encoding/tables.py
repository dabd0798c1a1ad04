"""Learned tables too large for memory: rows of a mapped file, the hot ones kept on the device."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import FLOATING, check_data, check_floating, checked_path, strided, tensor
from torch_hrr._compile import outside_graphs
from torch_hrr._repr import Described
from torch_hrr._spec import Bool, Device, Instance, Int, takes
from torch_hrr.encoding.acceleration import choose_device
from torch_hrr.io import IntegrityError, open_mapped, save_in_pieces

_FORMAT = "torch_hrr.embedding_table"
_VERSION = 1


@takes(enable_gpu_acceleration=Bool(), use_gpu_memory_mapping=Bool(), cache_rows=Int(1))
@dataclass(frozen=True, repr=False)
class MemoryStorageConfig(Described):
    """How a `MappedTable` serves its rows.

    Attributes:
        enable_gpu_acceleration: Whether rows go to the current device if that is an accelerator.
        use_gpu_memory_mapping: Whether the rows used last stay in the device's memory.
        cache_rows: How many rows stay there, at least 1.
    """

    enable_gpu_acceleration: bool = True
    use_gpu_memory_mapping: bool = False
    cache_rows: int = 4096


def save_table(path: str | os.PathLike[str], table: Tensor) -> None:
    """Writes a table ``[V, dim]`` to a checked safetensors file that `MappedTable` opens.

    Raises:
        TypeError: ``table`` is not a tensor or array of float32, float64, float16 or bfloat16.
        ValueError: It is not ``[V, dim]`` with both at least 1.
        OSError: The file cannot be written; an existing one stays as it was.
        RuntimeError: The table changed during the call.

    Cost: two passes over the table, and memory for one piece of it, so a table from `torch.from_file` may be larger
        than memory.
    """
    path = checked_path("save_table", path)
    table = tensor("save_table", "table", table)
    check_floating("save_table", "table", table)
    if table.dim() != 2 or 0 in table.shape:
        raise ValueError(f"save_table: table must have shape [V, dim], both at least 1, got {list(table.shape)}")
    save_in_pieces(path, {"table": table}, {}, format=_FORMAT, version=_VERSION, op="save_table")


class MappedTable(Described):
    """A learned table ``[V, dim]`` in a memory-mapped file: memory holds only the pages of rows in use.

    Each call gathers its rows, each once, into a buffer, pinned if they go to a GPU, and copies them without waiting
    for the device. With ``use_gpu_memory_mapping`` the most recently used rows stay on the device; results are the same
    bits without it. A table is read-only and cannot be trained.

    Calls may come from several threads. Token ids on a GPU are copied to the host, which waits for the device.

    Attributes:
        config: The configuration.
        device: Where rows go.
        hits: Rows found on the device so far, each counted once per call.
        misses: Rows read from the file.
    """

    @takes(config=Instance(MemoryStorageConfig).or_none(), device=Device(), verify=Bool())
    def __init__(
        self,
        path: str | os.PathLike[str],
        config: MemoryStorageConfig | None = None,
        *,
        device: torch.device | str | int | None = None,
        verify: bool = True,
    ) -> None:
        """Opens a file that `save_table` wrote.

        Args:
            path: The file; it must not be changed while it is open. Replacing it by `save_table` is safe.
            config: None means `MemoryStorageConfig()`.
            device: Where rows go; None means what the configuration says.
            verify: Whether to read the file once and compare its SHA-256; otherwise only its header is checked.

        Raises:
            torch_hrr.IntegrityError: The file is damaged or holds something else.
            OSError: The file cannot be read; FileNotFoundError if there is none.
        """
        self.config = MemoryStorageConfig() if config is None else config
        path = checked_path("MappedTable", path)
        tensors, _ = open_mapped(path, format=_FORMAT, version=_VERSION, verify=verify, op="MappedTable")
        table = tensors.get("table")
        if table is None or len(tensors) > 1 or table.dim() != 2 or 0 in table.shape or table.dtype not in FLOATING:
            raise IntegrityError(f"MappedTable: {path} must hold one floating table [V, dim]")
        self._path, self._table = os.path.abspath(path), table
        wanted = self.config.enable_gpu_acceleration
        self.device = choose_device(wanted, device, "MappedTable")
        self._lock = threading.Lock()
        self.clear_cache()

    def _summary(self) -> dict[str, Any]:
        own = {"shape": self._table.shape, "dtype": self._table.dtype, "device": self.device, "path": self._path}
        return own | {"hits": self.hits, "misses": self.misses, "cache_rows": self._token_of.shape[0]}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, even in another process, opens the file again, which must still hold a table of that shape."""
        return _reopen, (self._path, self.config, self.device, self.shape, self.dtype)

    @property
    def shape(self) -> torch.Size:
        """``[V, dim]``."""
        return self._table.shape

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the rows."""
        return self._table.dtype

    @property
    def hit_rate(self) -> float:
        """Share of rows found on the device; 0 before the first one."""
        return self.hits / max(self.hits + self.misses, 1)

    def check_apart(self, op: str, path: str | os.PathLike[str]) -> None:
        """ValueError for the path of the table itself, which something else would replace."""
        path = checked_path(op, path)
        if os.path.exists(path) and os.path.samefile(path, self._path):
            raise ValueError(f"{op}: path must not be that of the mapped table, got {os.fsdecode(path)}")

    def clear_cache(self) -> None:
        """Forgets the rows on the device and the counts."""
        # Calls in and out of inference mode change these tensors.
        with torch.inference_mode(False):
            self._clear_cache()

    def _clear_cache(self) -> None:
        size = min(self.config.cache_rows, self.shape[0]) if self.config.use_gpu_memory_mapping else 0
        self._cache = torch.empty(size, self.shape[1], dtype=self.dtype, device=self.device)
        # The token of a slot and when it was last used; the slot of a token, -1 for none. 4 bytes a token, on the host.
        self._token_of = torch.full((size,), -1, dtype=torch.int64, device="cpu")
        self._used = torch.zeros(size, dtype=torch.int64, device="cpu")
        self._slot_of = torch.full((self.shape[0] if size else 0,), -1, dtype=torch.int32, device="cpu")
        self._clock = 0
        self.hits = self.misses = 0

    def gather(self, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The distinct rows that ids ask for, and which row each id has.

        Args:
            ids: ``[...]``, int32 or int64, 0 to V - 1.

        Returns:
            The distinct ids ``[U]``, ascending, on the CPU; their rows ``[U, dim]`` and, for every id, its index among
            them ``[...]``, on the device.

        Raises:
            IndexError: An id is outside 0 to V - 1.
            TypeError: ``ids`` is not a tensor or array of int32 or int64.
            ValueError: ``ids`` is a meta tensor.
            RuntimeError: ``ids`` are batched by vmap, under which the host cannot read them.
        """
        return self._gathered("gather", ids)

    @outside_graphs
    def _gathered(self, op: str, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """`gather` under the name of the user's call."""
        ids = strided(op, "ids", ids)
        if ids.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"{op}: ids must be int32 or int64, got {ids.dtype}")
        check_data(op, "ids", ids)
        if torch._C._functorch.is_batchedtensor(ids):
            raise RuntimeError(f"{op}: ids must not be batched by vmap where they are read from a mapped table")
        tokens, inverse = torch.unique(ids.detach().cpu().to(torch.int64), return_inverse=True)
        if tokens.numel() and not 0 <= int(tokens[0]) <= int(tokens[-1]) < self.shape[0]:
            outside = int(tokens[0]) if int(tokens[0]) < 0 else int(tokens[-1])
            raise IndexError(f"{op}: ids must be in 0..{self.shape[0] - 1}, got {outside}")
        with self._lock:
            rows = self._cached(tokens) if len(self._cache) else self._fetch(tokens)
        return tokens, rows, inverse.to(self.device, non_blocking=True)

    def __call__(self, ids: Tensor) -> Tensor:
        """The rows of ids, ``[..., dim]``, on the device; errors as for `gather`."""
        _, rows, inverse = self._gathered("MappedTable", ids)
        served: Tensor = rows[inverse]
        return served

    def _fetch(self, tokens: Tensor) -> Tensor:
        """Rows from the file."""
        self.misses += len(tokens)
        pinned = self.device.type == "cuda"
        buffer = torch.empty(len(tokens), self.shape[1], dtype=self.dtype, device="cpu", pin_memory=pinned)
        torch.index_select(self._table, 0, tokens, out=buffer)
        # torch gives a pinned buffer out again only when the copy from it is done.
        return buffer.to(self.device, non_blocking=True)

    def _cached(self, tokens: Tensor) -> Tensor:
        """Rows from the device as far as it has them; those that it has not are kept in place of the oldest."""
        slots = self._slot_of[tokens].long()
        known = slots >= 0
        missing = (~known).nonzero().squeeze(1)
        rows = torch.empty(len(tokens), self.shape[1], dtype=self.dtype, device=self.device)
        found = known.nonzero().squeeze(1)
        rows[found.to(self.device)] = self._cache[slots[found].to(self.device)]
        fetched = self._fetch(tokens[missing])
        rows[missing.to(self.device)] = fetched
        self.hits += len(found)
        self._clock += 1
        self._used[slots[found]] = self._clock
        # Rows of this call make no room for one another.
        kept = missing[: len(self._cache) - len(found)]
        free = self._used.topk(len(kept), largest=False).indices
        evicted = self._token_of[free]
        self._slot_of[evicted[evicted >= 0]] = -1
        self._cache[free.to(self.device)] = fetched[: len(kept)]
        self._token_of[free], self._used[free] = tokens[kept], self._clock
        self._slot_of[tokens[kept]] = free.int()
        return rows


def _reopen(
    path: str, config: MemoryStorageConfig, device: torch.device, shape: torch.Size, dtype: torch.dtype
) -> MappedTable:
    table = MappedTable(path, config, device=device, verify=False)
    if table.shape != shape or table.dtype != dtype:
        was, now = f"{list(shape)} of {dtype}", f"{list(table.shape)} of {table.dtype}"
        raise IntegrityError(f"load: {path} must hold the table {was} that it held, got {now}")
    return table
