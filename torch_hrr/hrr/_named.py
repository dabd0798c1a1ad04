"""What the vocabulary and the vector store share: a table of named rows that grows, searched by cosine."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_floating, may_be_kept
from torch_hrr._repr import place_of
from torch_hrr._shared import locked
from torch_hrr.hrr import functional
from torch_hrr.hrr._held import SharedVectors
from torch_hrr.hrr._quantized import QuantizedRows
from torch_hrr.hrr.memory import Cleanup, ItemMemory, Searchable, _Names
from torch_hrr.runtime.device import with_data


def drawn(name: str, dim: int, seed: int, unitary: bool = False, attempt: int = 0) -> Tensor:
    """The vector of a name: a random one bound with a random unitary one, which keeps its distribution; float64.

    A CPU generator takes 32 bits of its seed. One alone would give two of 65536 names the same vector more likely than
    not; two independent ones make that 64 bits, and half a collision leaves independent vectors.
    """
    again = f"{attempt}:" if attempt else ""
    # Not as part of the format: members of an enumeration of texts would give "Class.NAME".
    digest = hashlib.sha256((f"{again}torch_hrr.vocabulary:{seed % 2**64}:" + name).encode()).digest()
    first, second = (torch.Generator().manual_seed(int.from_bytes(digest[at : at + 4], "little")) for at in (0, 4))
    vector = functional.random(1, dim, first, unitary, "cpu", torch.float64)
    rotation = functional.random(1, dim, second, True, "cpu", torch.float64)
    return functional.bind(vector, rotation)[0]


class NamedVectors(Searchable, SharedVectors, Mapping[str, Tensor]):
    """Vectors of one D, dtype and device by name, in the order in which the names came; a mapping to copies of them.

    They are rows of one tensor, which is doubled when they run out; quantized ones have codes beside them, which are
    made when a row is written. Without codes a memory of all is made when one is asked for after a change.
    """

    _reads_values = True
    _kind: ClassVar[str]

    _dim: int
    _dtype: torch.dtype
    _device: torch.device
    # The row of every name.
    _entries: dict[str, int]
    _rows: Tensor
    # The rows without a vector, the next one to use last.
    _free: list[int]
    _coded: QuantizedRows | None
    # Of the present vectors, made when they are needed.
    _memory: ItemMemory | None
    _box: _Names | None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def _start(self, dim: int, device: torch.device, dtype: torch.dtype, quantized: bool, capacity: int = 0) -> None:
        self._dim, self._device, self._dtype, self._quantized = dim, device, dtype, quantized
        # First, since torch says how much memory there is not.
        self._rows = self._allocate(capacity, device, dtype)
        self._entries, self._free = {}, list(range(capacity - 1, -1, -1))
        self._code()

    def _summary(self) -> dict[str, Any]:
        quantized = {"quantized": True} if self._quantized else {}
        return {"dim": self._dim, "names": self._entries.keys(), **quantized, **place_of(self._device, self._dtype)}

    def __copy__(self) -> Self:
        """A copy that shares nothing, as `copy.deepcopy` makes: two owners of the same rows would damage them."""
        return copy.deepcopy(self)

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self._dim, self._device, self._dtype

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

    @property
    @locked
    def vectors(self) -> Tensor:
        """All vectors in the order of `names`, ``[N, D]``; a copy."""
        return self._gather(self._entries.values())

    def _allocate(self, count: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        # Rows made in inference mode could not be written outside it.
        with torch.inference_mode(False):
            return torch.zeros(count, self._dim, dtype=dtype, device=device)

    def _gather(self, rows: Any) -> Tensor:
        return self._rows.index_select(0, self._index(rows))

    def _index(self, rows: Any) -> Tensor:
        return torch.tensor([*rows], dtype=torch.int64, device=self._device)

    def _append(self, names: Sequence[str], vectors: Tensor) -> None:
        """Adds rows under new names, all or none."""
        if len(self._free) < len(names):
            self._grow(len(self._entries) + len(names))
        rest = len(self._free) - len(names)
        rows = self._free[rest:][::-1]
        self._rows.index_copy_(0, self._index(rows), vectors.to(self._device))
        if self._coded is not None:
            first = len(self._entries)
            self._coded.put(rows, self._gather(rows), range(first, first + len(rows)))
        del self._free[rest:]
        self._entries.update(zip(names, rows, strict=True))
        self._memory = self._box = None

    def _grow(self, needed: int) -> None:
        capacity = len(self._rows)
        rows = self._allocate(max(needed, 2 * capacity), self._device, self._dtype)
        rows[:capacity].copy_(self._rows)
        if self._coded is not None:
            self._coded.grow(len(rows))
        self._rows = rows
        # Below the rows freed earlier, which are taken first.
        self._free[:0] = range(len(rows) - 1, capacity - 1, -1)

    def _replace(self, name: str, vector: Tensor) -> None:
        row = self._entries[name]
        self._rows[row].copy_(vector)
        if self._coded is not None:
            self._coded.put([row], self._rows[row : row + 1])
        self._memory = None

    def _delete(self, name: str) -> None:
        row = self._entries.pop(name)
        self._free.append(row)
        self._rows[row].zero_()
        if self._coded is not None:
            self._coded.take_out(row)
        self._memory = self._box = None

    def _converted_rows(self, fn: Callable[[Tensor], Tensor]) -> Tensor:
        """What a conversion makes of all rows, also of none."""
        made = fn(torch.empty(0, self._dim, dtype=self._dtype, device=self._device))
        check_floating("to", "vectors", made)
        rows = self._allocate(len(self._rows), with_data("to", made.device), made.dtype)
        rows.copy_(fn(self._rows))
        return rows

    def _take_rows(self, rows: Tensor) -> None:
        self._rows, self._device, self._dtype = rows, rows.device, rows.dtype
        self._code()

    def _code(self) -> None:
        self._memory = self._box = self._coded = None
        if self._quantized:
            coded = QuantizedRows(self._dim, len(self._rows), self._device)
            rows = list(self._entries.values())
            coded.put(rows, self._gather(rows), range(len(rows)))
            self._coded = coded

    @locked
    def _known_names(self, op: str) -> _Names:
        if not self._entries:
            raise ValueError(f"{op}: {self._kind} must have names, got none")
        if self._box is None:
            self._box = _Names(self.names)
        return self._box

    def _found(self, op: str, query: Tensor, top_k: int) -> Cleanup:
        # Without codes, threads ask a memory that does not change at the same time.
        return self._found_by_codes(op, query, top_k) if self._quantized else self._items(op)._found(op, query, top_k)

    @locked
    def _found_by_codes(self, op: str, query: Tensor, top_k: int) -> Cleanup:
        names, coded = self._known_names(op), self._coded
        query, top_k = self._check_query(op, query, top_k)
        assert coded is not None
        with full_precision(query.device):
            return Cleanup(*coded.nearest(query, self._rows, top_k), names)

    @locked
    def _items(self, op: str) -> ItemMemory:
        names = self._known_names(op)
        if self._memory is not None:
            return self._memory
        memory = ItemMemory(self.vectors, names.all)
        if may_be_kept(memory._vectors):
            # Not as a part: what it holds would be in every state twice.
            self.__dict__["_memory"] = memory
        return memory
