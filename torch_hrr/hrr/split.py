"""A memory whose items are divided among the ranks of torch.distributed, searched as one."""

from __future__ import annotations

import functools
import json
import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd import forward_ad

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_data, check_names, checked_path, named, tensor
from torch_hrr._compile import outside_graphs
from torch_hrr._folder import Kind, Piece, checked_save, checked_share, joined, read, write
from torch_hrr._ranks import Ranks, check_own
from torch_hrr._repr import Described, place_of
from torch_hrr.hrr._quantized import best_of, nearest, quantize
from torch_hrr.hrr.memory import Cleanup, ItemMemory, Listed, Searching, _Names
from torch_hrr.io import IntegrityError, digest, open_mapped
from torch_hrr.runtime.device import resolve_data_device

_FOLDER = Kind("SplitMemory", "torch_hrr.split_memory", "rows", "rows")


class SplitMemory(Searching, Described):
    """An `ItemMemory` with ``quantized=True``, divided by rows: a rank has some consecutive items, in order of ranks.

    `cleanup`, `ask` and `names_of` answer, on every rank, as the `ItemMemory` of all items does: values, indices and
    gradients have its bits, with any number of ranks, and of equal cosines the item of the lower index comes first. A
    rank searches its items, and all merge what all found: it sends 24 bytes a call and, for each query and each of
    `top_k`, an index of 8 bytes and a cosine of 4, or 8 in float64. A query that wants a derivative costs the items
    found once more, each once, from which every rank computes it: the backward pass sends nothing.

    The items are constant, as those of an `ItemMemory`; names are whole on every rank. `cleanup`, `ask`, `save`, `load`
    and making one are collective: every rank must call them, with the same query. What is wrong or other on one rank is
    an error on all. Where a rank is lost, the others get a RuntimeError: at once from gloo, else when the timeout of
    the group is over. Without a process group there is one rank. A copy is in the same group. The memory is no module:
    `save` keeps it beside the state of a model.

    Example:
        Items that each rank draws, and the 10 of all that are nearest to a query::

            torch.distributed.init_process_group("gloo")
            memory = hrr.SplitMemory(torch.randn(1_000_000, 512))
            values, indices = memory.cleanup(query, 10)
    """

    def __init__(
        self, vectors: Tensor | Listed, names: Sequence[str] | None = None, group: dist.ProcessGroup | None = None
    ) -> None:
        """Copies and codes this rank's items; their number may differ between ranks.

        Args:
            vectors: ``[n, D]``, n and D at least 1, or a store, vocabulary or memory of this rank, as for `ItemMemory`;
                D and dtype are the same on every rank.
            names: Of this rank's items, different from all others; None, on every rank, for items without names.
            group: None means the default one.

        Raises:
            TypeError, ValueError: As `ItemMemory`; ``vectors`` is on meta.
            ValueError: Another rank's arguments are wrong, or do not fit these, or two ranks give the same name.
        """

        def made() -> ItemMemory:
            if not isinstance(vectors, Listed):
                given = tensor("SplitMemory", "vectors", vectors)
                check_own("SplitMemory", "vectors", given)
                check_data("SplitMemory", "vectors", given)
            with named("ItemMemory", "SplitMemory"):
                return ItemMemory(vectors, names, quantized=True)

        self._begin("SplitMemory", made, group)

    def _begin(self, op: str, make: Callable[[], ItemMemory], group: dist.ProcessGroup | None) -> None:
        """Takes this rank's part, which fits those of the others."""
        self._ranks = Ranks("SplitMemory", group)

        def said(part: ItemMemory) -> str:
            dim, _, dtype = part._place()
            return f"vectors [n, {dim}] of {dtype}, {'no' if part.names is None else 'with'} names"

        self._part = self._ranks.agreed(op, make, said, self._ranks.device)
        # With two memories, no rank may search the other one: each is known by a number of the first rank.
        told = self._ranks.gathered([len(self._part), secrets.randbits(62)], self._ranks.device)
        self._counts = [count for count, _ in told]
        self._number = told[0][1]
        start = sum(self._counts[: self._ranks.rank])
        self._range = range(start, start + len(self._part))
        self._names: _Names | None = None
        if self._part.names is not None:
            # With JSON, which has no rank run what another sends.
            listed = self._ranks.gathered_bytes(json.dumps(self._part.names).encode())
            self._names = _Names(check_names(op, [name for names in map(json.loads, listed) for name in names]))

    def _summary(self) -> dict[str, Any]:
        dim, device, dtype = self._place()
        said: dict[str, Any] = {} if self._names is None else {"names": self._names.all}
        own = {"dim": dim, "items": len(self), "rank": self._ranks.rank, "ranks": self._ranks.count}
        return {**own, **said, **place_of(device, dtype)}

    def __len__(self) -> int:
        """Number of items of all ranks."""
        return sum(self._counts)

    @property
    def rows(self) -> range:
        """The indices of this rank's items."""
        return self._range

    @property
    def vectors(self) -> Tensor:
        """A copy of this rank's items as they were given, ``[n, D]``."""
        return self._part.vectors

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names of all items in their order, or None."""
        return None if self._names is None else self._names.all

    @property
    def device(self) -> torch.device:
        """The device of this rank's items; queries must be on it."""
        return self._part.device

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes all items to a folder that all ranks see: a checked file of `torch_hrr.io` a rank, and an index.

        The index is replaced last, so that whenever a rank is lost, the folder holds this memory or the one before.

        Args:
            path: The folder; it is made where there is none.
            key: Seals the files, as of `torch_hrr.io.save`: the same on every rank, and whenever this folder is saved
                to.

        Raises:
            TypeError, ValueError, OSError: As `torch_hrr.io.save`.
            ValueError: Another rank's arguments are wrong, or it has another key.
            RuntimeError: Another rank could not write; the folder holds what it did before.
        """

        def told(sealed: str) -> str:
            return f"save {sealed} of memory {self._number:x}"

        self._ranks.agreed("save", lambda: checked_save(_FOLDER, path, key), told, self._ranks.device)
        tensors, said = self._part._content()
        write(_FOLDER, self._ranks, path, self._counts, tensors, said, dict, self._ranks.device, key)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        group: dist.ProcessGroup | None = None,
        *,
        device: torch.device | str | int | None = None,
    ) -> Self:
        """The memory of a folder that `save` wrote, or of the file of an `ItemMemory`, divided evenly among all ranks.

        Args:
            path: The folder or file; every rank reads the files that hold its items.
            key: The key it was saved with.
            group: As for the class.
            device: Of this rank's items; None means the current one.

        Raises:
            torch_hrr.IntegrityError: A file is damaged, holds something else, or does not fit the key.
            ValueError: There are more ranks than items; or another rank cannot read it.
            OSError: A file cannot be read; FileNotFoundError if there is none.
        """
        ranks = Ranks("SplitMemory", group)

        def made() -> ItemMemory:
            place = resolve_data_device(device, op="load")
            name = checked_path("load", path)
            tensors, names = _joined(name, _pieces(name, key, ranks))
            return ItemMemory._made(path, tensors, {"names": names}, device=place, quantized=True)

        memory = cls.__new__(cls)
        memory._begin("load", made, group)
        return memory

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self._part._place()

    def _known_names(self, op: str) -> _Names:
        if self._names is None:
            raise ValueError(f"{op}: memory must have names, got None")
        return self._names

    @outside_graphs
    def _found(self, op: str, query: Tensor, top_k: int) -> Cleanup:
        if self._ranks.count == 1:
            return Cleanup(*self._part._found(op, query, top_k), self._names)
        if not _is_derived(query):
            return Cleanup(*self._search(op, query, top_k, False), self._names)
        indices, rows = _Found.apply(query, self, op, top_k)
        with full_precision(rows.device):
            # Of the same query and row, so that the bits are the same.
            values, _ = nearest(query, rows, *quantize(rows), None, indices.shape[-1])
        return Cleanup(values, indices, self._names)

    @torch.no_grad()
    def _search(self, op: str, given: Tensor, top_k: int, derived: bool) -> tuple[Tensor, Tensor]:
        """Cosines and indices, ``[..., top_k]``, of the nearest of all items."""
        ranks, part = self._ranks, self._part

        def said(checked: tuple[Tensor, int]) -> str:
            query, top_k = checked
            of = f"{op} of {top_k} of {len(self)} items for a query {list(query.shape)} of {query.dtype}"
            return f"{of}, derivative={derived}, {digest({'query': query}, {})[:16]}, of memory {self._number:x}"

        def checked() -> tuple[Tensor, int]:
            if hasattr(given, "placements"):
                raise TypeError(f"{op}: query must be the same on all ranks, got a DTensor: give its full_tensor()")
            return self._check_query(op, given, top_k)

        query, top_k = ranks.agreed(op, checked, said, ranks.device)
        sizes = [*query.shape[:-1], top_k]
        numbers = math.prod(sizes)

        def search() -> Tensor:
            found = part._found(op, query.detach(), min(top_k, len(part)))
            # A rank with fewer items fills up what comes after all others, NaN too.
            values = found.values.new_full(sizes, -torch.inf)
            places = found.indices.new_zeros(sizes)
            values[..., : len(part)], places[..., : len(part)] = found.values, found.indices + self._range.start
            return torch.cat([each.flatten().view(torch.uint8) for each in (places, values)])

        # What cosines are computed in.
        dtype = functools.reduce(torch.promote_types, (torch.float32, query.dtype, part._place()[2]))
        size = numbers * (8 + dtype.itemsize)
        told = ranks.exchanged(op, search, (size,), torch.uint8, ranks.device).to(query.device)
        places, values = (
            told[:, place].contiguous().view(kind).view(ranks.count, -1, top_k)
            for place, kind in ((slice(8 * numbers), torch.int64), (slice(8 * numbers, size), dtype))
        )
        best, indices = best_of([*zip(values, places, strict=True)], top_k)
        return best.view(sizes), indices.view(sizes)

    @torch.no_grad()
    def _rows_of(self, op: str, indices: Tensor) -> Tensor:
        """The items of ascending indices, ``[U, D]``, from the ranks that have them."""
        own = (indices >= self._range.start) & (indices < self._range.stop)
        dim, _, dtype = self._place()
        rows = torch.zeros(len(indices), dim, dtype=dtype, device=indices.device)
        rows[own] = self._part._vectors[indices[own] - self._range.start]
        # Bytes, of which all but one rank's are 0: sums of numbers would lose the sign of a zero.
        told = rows.view(torch.uint8).to(self._ranks.device)
        return self._ranks.reduced(told, dist.ReduceOp.SUM).to(rows.device).view(dtype)


class _Found(torch.autograd.Function):
    """The indices of the nearest items, and these, each once: constants for any derivative."""

    @staticmethod
    def forward(query: Tensor, memory: SplitMemory, op: str, top_k: int) -> tuple[Tensor, Tensor]:
        _, indices = memory._search(op, query, top_k, True)
        # Of no queries there are as many rows as the search needs.
        wanted = indices.unique() if indices.numel() else torch.arange(top_k, device=indices.device)
        return indices, memory._rows_of(op, wanted)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        """Keeps nothing."""
        ctx.mark_non_differentiable(*output)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> tuple[None, None, None, None]:
        """There is none."""
        return None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> tuple[None, None]:
        """There is none."""
        return None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], query: Tensor, memory: SplitMemory, op: str, top_k: int
    ) -> tuple[tuple[Tensor, Tensor], tuple[int | None, None]]:
        """All queries of a batch at once."""
        at = in_dims[0]
        given = query if at is None else query.movedim(at, 0)
        return _Found.apply(given, memory, op, top_k), (None if at is None else 0, None)


def _is_derived(query: Any) -> bool:
    """Whether a derivative may be asked for."""
    if not isinstance(query, Tensor):
        return False
    if torch._C._are_functorch_transforms_active() or (torch.is_grad_enabled() and query.requires_grad):
        return True
    return forward_ad.unpack_dual(query).tangent is not None


def _pieces(path: str, key: bytes | None, ranks: Ranks) -> list[Piece]:
    """What a rank reads, from a folder or from the file of an `ItemMemory`."""
    if os.path.isdir(path):
        return read(_FOLDER, path, ranks.rank, ranks.count, _are_rows, key).pieces
    tensors, said = open_mapped(
        path, format=ItemMemory.file_format, version=ItemMemory.file_version, key=key, op="load"
    )
    count = len(tensors["vectors"]) if "vectors" in tensors and tensors["vectors"].dim() else 0
    if count == 0 or not _are_rows(tensors, said, count):
        raise IntegrityError(f"load: {path} must describe an ItemMemory, got {sorted(tensors)}")
    own = checked_share("load", _FOLDER.units, count, ranks.rank, ranks.count)
    return [Piece(tensors, said, own.start, own.stop)]


def _are_rows(tensors: Mapping[str, Tensor], said: Mapping[str, Any], count: int) -> bool:
    """Whether a file can hold so many items; what it says of each is for the memory to check."""
    names = said.get("names", ())
    are_named = names is None or (isinstance(names, list) and len(names) == count)
    has_items = "vectors" in tensors and all(each.dim() == 2 and len(each) == count for each in tensors.values())
    return set(said) == {"names"} and are_named and has_items


def _joined(path: str, pieces: list[Piece]) -> tuple[dict[str, Tensor], list[str] | None]:
    """The tensors and names of one rank."""
    kinds = {
        (piece.said["names"] is None, *((name, each.shape[1], each.dtype) for name, each in piece.tensors.items()))
        for piece in pieces
    }
    if len(kinds) > 1:
        raise IntegrityError(f"load: {path} must hold rows of one memory, got {sorted(map(str, kinds))}")
    tensors = {name: joined(pieces, name) for name in pieces[0].tensors}
    if pieces[0].said["names"] is None:
        return tensors, None
    return tensors, [name for piece in pieces for name in piece.said["names"][piece.begin : piece.end]]
