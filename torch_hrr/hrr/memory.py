"""Cleanup: the stored items that a noisy vector resembles most."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor
from torch.utils import _pytree

from torch_hrr._autocast import full_precision, is_autocast
from torch_hrr._checks import (
    check_bool,
    check_data,
    check_floating,
    check_names,
    check_strided,
    check_vectors,
    integer,
    may_be_kept,
    shown,
    tensor,
    values_decide,
)
from torch_hrr._ops import ops as _ops
from torch_hrr._repr import place_of
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Bool, takes
from torch_hrr.hrr._held import HeldVectors
from torch_hrr.hrr._likely import look_at
from torch_hrr.hrr._quantized import check_codes, nearest, quantize
from torch_hrr.hrr.functional import unit_rows
from torch_hrr.io import open_mapped
from torch_hrr.runtime import resolve_device

_SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)
_INDICES = (int, *_SIGNED, torch.uint64, torch.uint32, torch.uint16, torch.uint8)
# Rows hashed at a time, so that the 64-bit words never take more than a few megabytes.
_BLOCK = 1024
# The tensors of a file that `quantize` made of its vectors.
_CODES = ("codes", "bounds")


def check_top_k(op: str, given: Any, count: int) -> int:
    """The number of items to be found of so many."""
    top_k = integer(op, "top_k", given)
    if not 1 <= top_k <= count:
        raise ValueError(f"{op}: top_k must be 1 to {count}, got {shown(top_k)}")
    return top_k


class _Names:
    """Names in a box that torch.compile leaves shut: of a tuple it would look at every entry."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.all = names

    def of(self, op: str, index: Any) -> Any:
        """The name of an index, and of a list the list of them."""
        if isinstance(index, list):
            return [self.of(op, item) for item in index]
        if not 0 <= index < len(self.all):
            raise IndexError(f"{op}: indices must be 0 to {len(self.all) - 1}, got {shown(index)}")
        return self.all[index]


class _Nearest(NamedTuple):
    values: Tensor
    indices: Tensor


class Cleanup(_Nearest):
    """What `cleanup` finds: the named tuple ``(values, indices)``, cosines and int64, each ``[..., top_k]``.

    `names` is no entry, so that the two unpack as ever. Copies and pickles keep it. What rebuilds the tuple from its
    entries does not: ``_replace``, `torch.func.vmap`, hooks of modules, exported programs.
    """

    _names: _Names | list[Any] | None = None

    def __new__(cls, values: Tensor, indices: Tensor, names: Any = None) -> Self:
        """The two tensors, and where their names are found."""
        made = super().__new__(cls, values, indices)
        if names is not None:
            made._names = names
        return made

    @property
    def names(self) -> list[Any] | None:
        """The names of the indices, as lists nested like them, ``[..., top_k]``; None if the memory has none.

        Reads the indices back when it is asked for, and so waits for the device.
        """
        if not isinstance(self._names, _Names):
            return self._names
        check_data("names", "indices", self.indices)
        found: list[Any] = self._names.of("names", self.indices.tolist())
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        """With the names of these items alone: there may be a million others."""
        return type(self), (*self, None if self.indices.is_meta else self.names)


# So that files can hold exported programs that return one, and torch.load reads it.
_pytree._register_namedtuple(Cleanup, serialized_type_name="torch_hrr.hrr.Cleanup")
torch.serialization.add_safe_globals([Cleanup])


class Listed:
    """What an `ItemMemory` is made of as a whole."""

    def _listed(self, names: Any) -> tuple[Tensor, Any]:
        """The vectors, and their names unless others are given, of one moment."""
        raise NotImplementedError


class Searching:
    """Vectors of which those nearest to a query are found by cosine, and their names."""

    def __len__(self) -> int:
        """Number of vectors."""
        raise NotImplementedError

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        """D, device and dtype of the vectors."""
        raise NotImplementedError

    def _known_names(self, op: str) -> _Names:
        """The names; ValueError if there are none."""
        raise NotImplementedError

    def _found(self, op: str, query: Tensor, top_k: int) -> Cleanup:
        raise NotImplementedError

    def cleanup(self, query: Tensor, top_k: int = 1) -> Cleanup:
        """The ``top_k`` items of the largest ``cos(q, x_i) = <q, x_i> / (norm2(q) norm2(x_i))``, best first.

        Among equal cosines the lower index comes first; equal items have equal cosines. A zero query or item has cosine
        0. A query or item that holds NaN or infinity has cosine NaN, and such an item comes after all others.
        Deterministic, but one matrix product gives all cosines, so their last bits may depend on the shape of the
        batch; from quantized items they come row by row, within 1e-6 of the exact ones, and depend on query and item
        alone. Computed in the wider of the two dtypes and at least float32, under autocast too. Neither waits for the
        device nor changes the items; differentiable in ``query``, through the cosines. O(N D + N log top_k) per query.

        Args:
            query: ``[..., D]``, real floating point, on the device of the items.
            top_k: number of items, 1 to N.

        Returns:
            The named tuple `Cleanup`: cosines ``values`` ``[..., top_k]`` in the dtype computed in, and ``indices``
            ``[..., top_k]``, int64. Its ``names`` are read when asked for.

        Raises:
            TypeError: ``query`` is not a floating point tensor or array, or ``top_k`` not an int.
            ValueError: ``top_k`` is outside 1 to N, which is none if there are no items, or the last dimension is not
                that of the items.
            RuntimeError: the device is not that of the items.

        Source: Plate, Holographic reduced representations, IEEE Transactions on Neural Networks 6(3), 1995, section II.
        """
        return self._found("cleanup", query, top_k)

    def ask(self, query: Tensor, top_k: int = 1) -> Any:
        """The names of the ``top_k`` items nearest to the query, best first: `cleanup` and `names_of` in one call.

        Args:
            query: ``[..., D]``, as for `cleanup`.
            top_k: number of names, 1 to N.

        Returns:
            A str for a vector, a list of ``top_k`` where that is more than 1; for a batch lists nested like it. There
            is always an answer, however small its cosine, which `cleanup` gives.

        Raises:
            ValueError: there are no names, or the query holds NaN or infinity, which no item is near to.
            TypeError, ValueError, RuntimeError: as for `cleanup`.

        Cost: that of `cleanup`; waits for the device.
        """
        self._known_names("ask")
        found = self._found("ask", query, top_k)
        check_data("ask", "query", found.values)
        if bool(found.values.isnan().any()):
            raise ValueError("ask: query must be finite, got NaN or infinity")
        indices = found.indices.squeeze(-1) if found.indices.shape[-1] == 1 else found.indices
        names: Any = found._names
        return names.of("ask", indices.tolist())

    def names_of(self, indices: Tensor | int) -> Any:
        """The names of items: a str for a number or a 0-d tensor, else lists nested like the tensor.

        Reads the indices back, and so waits for the device.

        Raises:
            TypeError: ``indices`` is neither an int nor an integer tensor or array.
            ValueError: there are no names, or ``indices`` is on meta.
            IndexError: an index is outside 0 to N - 1.
        """
        names = self._known_names("names_of")
        if hasattr(indices, "__array__"):
            indices = tensor("names_of", "indices", indices)
        kind = indices.dtype if isinstance(indices, Tensor) else type(indices)
        if kind not in _INDICES:
            got = indices.dtype if isinstance(indices, Tensor) else type(indices).__name__
            raise TypeError(f"names_of: indices must be an int or an integer tensor, got {got}")
        if isinstance(indices, Tensor):
            check_strided("names_of", "indices", indices)
            check_data("names_of", "indices", indices)
        return names.of("names_of", indices.tolist() if isinstance(indices, Tensor) else indices)

    def _check_query(self, op: str, given: Any, top_k: int) -> tuple[Tensor, int]:
        dim, device, _ = self._place()
        count = len(self)
        query = check_vectors(op, "query", given, dim, device)
        return query, check_top_k(op, top_k, count)


class Searchable(Searching, HeldVectors, Listed):
    """A module that holds the vectors."""

    _quantized: bool

    def _code(self) -> None:
        """Makes what a search needs, quantized or not."""
        raise NotImplementedError

    def _listed(self, names: Any) -> tuple[Tensor, Any]:
        this: Any = self
        with self._alone():
            return this.vectors, this.names if names is None else names

    def _take(self, made: Self) -> None:
        # As device and dtype, how it searches is the module's own.
        if made._quantized != self._quantized:
            made._quantized = self._quantized
            made._code()
        super()._take(made)


class ItemMemory(Searchable):
    """An immutable list of items; `cleanup` finds the nearest ones by cosine.

    The items are copied and constant: gradients flow only to the query. A module of a model: `to`, ``half`` and the
    like convert the items, which are in the `state_dict` but not among the buffers, and ``load_state_dict`` takes over
    items and names, however many.

    With ``quantized=True`` it keeps every unit item u also as int8 codes c with a scale s and a bound e of
    ``norm2(u - s c)``, a quarter of the bytes of float32. A query v of norm 1 has ``|<v, u> - s <v, c>| <= e``, so that
    one pass over the codes excludes almost all items, and the cosines of the rest are computed from the items
    themselves: the answers are exact. No other copy of the items is kept, and those of a file may stay there (`load`).
    """

    file_format = "torch_hrr.item_memory"
    _columns: dict[torch.dtype, Tensor]
    _codes: tuple[Tensor, Tensor] | None

    @takes(quantized=Bool())
    def __init__(
        self, vectors: Tensor | Listed, names: Sequence[str] | None = None, *, quantized: bool = False
    ) -> None:
        """Copies and normalises the items, or codes them, in O(N D) and without waiting for the device.

        On the CPU a UserWarning tells of vectors that look like columns, or like angles.

        Args:
            vectors: ``[N, D]``, N and D at least 1, float32, float64, float16 or bfloat16, on any device; or a
                `VectorStore`, a `Vocabulary`, a `Memory` or another `ItemMemory`, whose vectors and names are taken as
                they are now.
            names: a sequence of N different strings, or None for items without names.
            quantized: whether `cleanup` reads codes, and few of the items.

        Raises:
            TypeError: ``vectors`` is neither a tensor nor an array of such a dtype, or ``names`` not a sequence of
                strings.
            ValueError: N or D is 0, ``vectors`` has another rank, or names are repeated or their number is not N.
        """
        super().__init__()
        given: Any = vectors
        if isinstance(vectors, Listed):
            given, names = vectors._listed(names)
        items = tensor("ItemMemory", "vectors", given)
        check_floating("ItemMemory", "vectors", items)
        # Memory made in inference mode must still serve queries that want a gradient.
        with torch.inference_mode(False):
            items = items.detach().clone(memory_format=torch.contiguous_format)
        self._settle(items, names, quantized)
        look_at("ItemMemory", "vectors", items)

    def _settle(
        self, items: Tensor, names: Sequence[str] | None, quantized: bool, codes: tuple[Tensor, Tensor] | None = None
    ) -> None:
        """Takes items, which become its own, after checks of shape and names."""
        if items.dim() != 2 or 0 in items.shape:
            raise ValueError(f"ItemMemory: vectors must be [N, D] with N, D >= 1, got {list(items.shape)}")
        self._names = None if names is None else _Names(check_names("ItemMemory", names))
        if self._names is not None and len(self._names.all) != len(items):
            count = len(self._names.all)
            raise ValueError(f"ItemMemory: names must be as many as the {len(items)} vectors, got {count}")
        self._quantized = quantized
        self._hold(items, codes)

    def _hold(self, items: Tensor, codes: tuple[Tensor, Tensor] | None = None) -> None:
        self._vectors = items
        self._dtype = compute_dtype(items.dtype)
        self._code(codes)

    def _code(self, codes: tuple[Tensor, Tensor] | None = None) -> None:
        self._codes = (codes or quantize(self._vectors)) if self._quantized else None
        if self._quantized:
            return
        with torch.inference_mode(False), torch.no_grad(), full_precision(self._vectors.device):
            items = unit_rows(self._vectors.to(self._dtype))
            # As columns, which a product with few queries reads up to twice as fast.
            self._columns = {items.dtype: items.mT.contiguous()}
            self._first = _first_copies(items)
            # Different, finite items save passes over all cosines. A row with NaN is all NaN; sums of units are finite.
            self._is_plain = _may_read(items) and bool(
                (self._first == torch.arange(len(items), device="cpu")).all() & items.sum().isfinite()
            )

    def _summary(self) -> dict[str, Any]:
        number, dim = self._vectors.shape
        said: dict[str, Any] = {} if self._names is None else {"names": self._names.all}
        said |= {"quantized": True} if self._quantized else {}
        return {"dim": dim, "items": number, **said, **place_of(self._vectors.device, self._vectors.dtype)}

    def __len__(self) -> int:
        """Number of items."""
        return len(self._vectors)

    @property
    def vectors(self) -> Tensor:
        """A copy of the items as they were given, ``[N, D]``."""
        return self._vectors.clone()

    @property
    def names(self) -> tuple[str, ...] | None:
        """The names in the order of the items, or None."""
        return None if self._names is None else self._names.all

    @property
    def device(self) -> torch.device:
        """The device of the items; queries must be on it."""
        return self._vectors.device

    def _known_names(self, op: str) -> _Names:
        if self._names is None:
            raise ValueError(f"{op}: memory must have names, got None")
        return self._names

    def _found(self, op: str, query: Tensor, top_k: int) -> Cleanup:
        query, top_k = self._check_query(op, query, top_k)
        if not is_autocast(query.device):
            return Cleanup(*self._nearest(query, top_k), self._names)
        with full_precision(query.device):
            return Cleanup(*self._nearest(query, top_k), self._names)

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self._vectors.shape[1], self._vectors.device, self._vectors.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        vectors = fn(self._vectors)
        if vectors is not self._vectors:
            check_floating("to", "items", vectors)
            self._hold(vectors)

    @classmethod
    @writable_anywhere
    def load(
        cls,
        path: str | os.PathLike[str],
        key: bytes | None = None,
        *,
        device: torch.device | str | int | None = None,
        quantized: bool | None = None,
        mapped: bool = False,
        verify: bool = True,
        **options: Any,
    ) -> Self:
        """As `Saveable.load`; the items may stay in the file.

        Args:
            path: The file; that of a quantized memory holds its codes, too.
            key: The key it was saved with; None for a file without one.
            device: Where the memory is made; a mapped one is on the CPU.
            quantized: Whether the memory is quantized; None means as the one that was saved.
            mapped: Whether items are read from the file when they are needed, as by `io.open_mapped`, with what that
                says of changes of the file. Memory then holds codes and names. Such a memory is quantized.
            verify: False spares the pass over a mapped file; a damaged item goes unnoticed.
            **options: None.

        Raises:
            ValueError: ``mapped`` with another device, or with ``quantized=False``. Others: As for `Saveable.load`.
        """
        cls._check_options(options)
        quantized = None if quantized is None else check_bool("load", "quantized", quantized)
        if not check_bool("load", "mapped", mapped):
            return super().load(path, key, device=device, quantized=quantized)
        place = cls._resolved(device)
        if place is not None and place.type != "cpu":
            raise ValueError(f"load: device must be the CPU for a mapped memory, got {place}")
        if quantized is False:
            raise ValueError("load: quantized must be True for a mapped memory, got False")
        format, version = cls.file_format, cls.file_version
        tensors, metadata = open_mapped(
            path, format=format, version=version, key=key, verify=verify, in_memory=_CODES, op="load"
        )
        return cls._made(path, tensors, metadata, device=torch.device("cpu"), quantized=True)

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        codes = {} if self._codes is None else dict(zip(_CODES, self._codes, strict=True))
        names = None if self._names is None else list(self._names.all)
        return {"vectors": self._vectors, **codes}, {"names": names}

    def _state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        # Without codes: no seal says that they still are those of the vectors.
        tensors, said = self._content()
        return {"vectors": tensors["vectors"]}, said

    def _from_state(self, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device) -> Self:
        if set(tensors) != {"vectors"}:
            raise ValueError("entries that no memory has")
        return self._restored(tensors, metadata, device, quantized=self._quantized)

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        items, codes = tensors["vectors"], [tensors[name] for name in _CODES if name in tensors]
        check_floating("load", "vectors", items)
        if codes:
            check_codes(items, *codes)
        place = resolve_device(device)
        quantized = bool(codes) if options.get("quantized") is None else options["quantized"]
        if not quantized:
            # The caller does not want them.
            for name in _CODES:
                tensors.pop(name, None)
        made = cls.__new__(cls)
        Searchable.__init__(made)
        held: Any = tuple(each.to(place) for each in codes) or None
        made._settle(items.to(place), metadata["names"], quantized, held)
        return made

    def _nearest(self, query: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
        if self._codes is not None:
            return nearest(query, self._vectors, *self._codes, None, top_k)
        # Before the choice: what rounding took beyond 1 are equals, of which the first counts.
        cosines = self._cosines(query).clamp(-1, 1)
        if self._is_plain:
            # NaN is then the whole row, in the order of the indices.
            largest, indices = _ops.k_winners.default(cosines, top_k, True)
        else:
            cosines = cosines.index_select(-1, self._first)
            indices = _largest(cosines.detach(), top_k)
            largest = cosines.gather(-1, indices)
        return largest, indices

    def _cosines(self, query: Tensor) -> Tensor:
        """With every item, ``[..., N]``, up to rounding also those of equal items."""
        dtype = query.dtype
        if dtype is not self._dtype:
            dtype = torch.promote_types(dtype, self._dtype)
            query = query.to(dtype)
        columns = self._columns.get(dtype)
        if columns is None:
            with torch.inference_mode(False), torch.no_grad():
                columns = unit_rows(self._vectors.to(dtype)).mT.contiguous()
            if may_be_kept(columns):
                self._columns[dtype] = columns
        unit = unit_rows(query)
        # In a graph the number of rows may be unknown, as that of x[mask].
        single = query.dim() == 1 or (not torch.compiler.is_compiling() and query.numel() == query.shape[-1])
        if self._is_plain and single:
            # One query: the sum of the columns that it weights takes .7 of the time of the matrix product.
            return _ops.superpose.default(columns, unit, False, 0.0)
        return unit @ columns


def cosine_similarity(a: Tensor, b: Tensor) -> Tensor:
    """Cosines of vectors with every one of a list, ``<a, b_j> / (norm2(a) norm2(b_j))``.

    A zero vector has cosine 0, one that holds NaN or infinity has cosine NaN. Differentiable in both. Computed in the
    wider of the two dtypes and at least float32, under autocast too; norms neither overflow nor underflow.
    Deterministic, but one matrix product gives all cosines, so their last bits may depend on the shape of the batch.
    O(N D) per vector of ``a``; for many queries of one list use an `ItemMemory`.

    Args:
        a: ``[..., D]``, float32, float64, float16 or bfloat16.
        b: ``[N, D]``, of such a dtype, on the device of ``a``.

    Returns:
        ``[..., N]``, -1 to 1.

    Raises:
        TypeError: an argument is neither a tensor nor an array of such a dtype.
        ValueError: the shapes do not match, or D is 0.
        RuntimeError: the devices differ.
    """
    a = check_vectors("cosine_similarity", "a", a)
    b = check_vectors("cosine_similarity", "b", b, a.shape[-1], a.device, rank=2)
    if b.dim() != 2:
        raise ValueError(f"cosine_similarity: b must have shape [N, {a.shape[-1]}], got {list(b.shape)}")
    if a.shape[-1] == 0:
        raise ValueError(f"cosine_similarity: a must have D >= 1, got shape {list(a.shape)}")
    dtype = compute_dtype(torch.promote_types(a.dtype, b.dtype))
    with full_precision(a.device):
        return (unit_rows(a.to(dtype)) @ unit_rows(b.to(dtype)).mT).clamp(-1, 1)


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype that values of a dtype are computed in: float32 for the half types, else itself."""
    return torch.promote_types(dtype, torch.float32)


def _largest(cosines: Tensor, top_k: int) -> Tensor:
    """Indices of the largest values, best first and of equals the lower first; NaN counts as the least."""
    return _ops.k_winners.default(cosines.nan_to_num(-torch.inf), top_k, True)[1]


def _first_copies(items: Tensor) -> Tensor:
    """For every row the index of the first row equal to it, itself where there is none.

    A matrix product may round the cosines of equal items differently, depending on where they stand; taken from one of
    them they are equal. Rows are compared by a 64-bit polynomial hash and then whole.
    """
    count, dim = items.shape
    positions = torch.arange(count, device=items.device)
    blocks = [slice(start, start + _BLOCK) for start in range(0, count, _BLOCK)]
    factors = torch.full((dim * items.element_size() // 4,), 6364136223846793005, device=items.device).cumprod(0)
    if _may_read(items):
        # On most rows the first elements do, in a hundredth of the time.
        few = _words(items[:, :4])
        if len((few * factors[: few.shape[1]]).sum(-1).unique()) == count:
            return positions
    hashes = torch.cat([(_words(items[block]) * factors).sum(-1) for block in blocks])
    ordered, order = hashes.sort(stable=True)
    starts = torch.where(ordered == ordered.roll(1), 0, positions).cummax(0).values
    first = torch.empty_like(order).scatter_(0, order, order[starts])
    same = torch.cat([(items[block] == items[first[block]]).all(-1) for block in blocks])
    return torch.where(same, first, positions)


def _may_read(items: Tensor) -> bool:
    """Whether values may be read: on the CPU it costs nothing, but a compiled graph and a transform cannot."""
    return items.device.type == "cpu" and values_decide()


def _words(items: Tensor) -> Tensor:
    """The bits of every row in words of 32, as int64.

    Simple values such as 1 end in zeros, which a product would keep: so the upper half of a word goes into its lower
    one. Adding 0 makes negative zeros positive, because equal rows must have equal words.
    """
    words = (items + 0.0).view(torch.int32).long()
    return words ^ ((words >> 16) & 0xFFFF)
