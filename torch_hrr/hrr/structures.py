"""Structures that grow and shrink, each in one vector: records, sequences, stacks, multisets, graphs, tables and so on.

They keep order and direction by powers of one seeded random permutation P, as the functions of `encoders` do; the notes
on norms, noise and seeds there hold here too. Every method that adds or queries takes tensors of float32, float64,
float16 or bfloat16, of the structure's D and on its device. Otherwise it raises TypeError, ValueError or, for the
device, RuntimeError and changes nothing. A structure may be a batch of structures of one length: a record has the
leading dimensions of its fillers, the others are made with ``batch``, to which what is added broadcasts; queries
broadcast with it. Copies share no values; gradients of a copy flow to where those of the original do. Differentiable;
deterministic.

Structures are modules: those of a model move and change their dtype with it and are in its `state_dict`, detached,
though not among its buffers, since what is added replaces their vectors. ``load_state_dict`` takes over what a
structure of the same D holds, its seed, length and batch too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import (
    brief,
    check_broadcast,
    check_elements,
    check_floating,
    check_names,
    check_vectors,
    integer,
    listed,
    may_be_kept,
    resolve_dtype,
    shown,
    sizes,
    word,
)
from torch_hrr._random import outside_transforms, seeded_generator
from torch_hrr._repr import place_of
from torch_hrr._shared import locked, writable_anywhere
from torch_hrr._spec import Bool, Device, Dtype, Int, Real, takes
from torch_hrr.hrr import encoders, functional
from torch_hrr.hrr._held import SharedVectors
from torch_hrr.hrr.encoders import DEFAULT_SEED
from torch_hrr.hrr.memory import Cleanup, ItemMemory, compute_dtype
from torch_hrr.hrr.vector import Vector
from torch_hrr.runtime import resolve_device

# Apart from what users draw from the same seed: 64 bits, "tree" the upper 32.
_SIDES = 0x74726565 << 32


class Record(SharedVectors):
    """Role and filler pairs in one vector, ``sum_k bind(role_k, filler_k)``.

    A filler comes back with a cosine of about ``1/sqrt(k)`` if the k roles are unitary and the fillers of equal norm.

    Args:
        roles: the role vector ``[D]`` of each name, all of one D >= 1 on one device; unitary ones unbind exactly. They
            are copied.

    Raises:
        TypeError: `roles` is not a mapping, a name not a str, or a role not a tensor of a supported dtype.
        ValueError: there is no role, a role is not ``[D]``, or roles differ in D.
        RuntimeError: roles differ in device.
    """

    file_format = "torch_hrr.record"

    def __init__(self, roles: Mapping[str, Tensor]) -> None:
        """An empty record."""
        if not isinstance(roles, Mapping):
            raise TypeError(f"Record: roles must be a mapping of names to vectors, got {type(roles).__name__}")
        if not roles:
            raise ValueError("Record: roles must name at least one role, got 0")
        for name in roles:
            if not isinstance(name, str):
                raise TypeError(f"Record: roles must have names of type str, got {name!r}")
        vectors = {name: check_vectors("Record", "roles", role) for name, role in roles.items()}
        first = next(iter(vectors.values()))
        for role in vectors.values():
            if role.dim() != 1 or len(role) == 0:
                raise ValueError(f"Record: roles must be [D] with D >= 1, got {list(role.shape)}")
            check_vectors("Record", "roles", role, first.shape[-1], first.device)
        self._roles = {name: _copied(role) for name, role in vectors.items()}
        self._fillers: dict[str, Tensor] = {}

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        first = next(iter(self._roles.values()))
        return len(first), first.device, first.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        roles, fillers = ({name: fn(held) for name, held in all.items()} for all in (self._roles, self._fillers))
        check_floating("to", "roles", next(iter(roles.values())))
        self._roles, self._fillers = roles, fillers

    @property
    @locked
    def vector(self) -> Tensor:
        """The record ``[..., D]``; zero while it is empty. Cost: 2 k + 1 transforms."""
        if not self._fillers:
            return torch.zeros_like(next(iter(self._roles.values())))
        roles = torch.stack([self._roles[name] for name in self._fillers], -2)
        fillers = torch.broadcast_tensors(*self._fillers.values())
        return functional.bind_superpose(roles, torch.stack(fillers, -2))

    @locked
    def set(self, role: str, filler: Tensor) -> None:
        """Fills a role with a copy of ``[..., D]``, replacing what it held.

        Raises:
            KeyError: there is no such role.
            TypeError: `filler` is neither a tensor nor an array of a supported dtype.
            ValueError: its D or leading dimensions do not fit.
            RuntimeError: it is on another device.
        """
        vector = self._role("set", role)
        filler = check_vectors("set", "filler", filler, vector.shape[-1], vector.device)
        fillers = {**self._fillers, role: filler}
        check_broadcast("set", "fillers", *(one.shape[:-1] for one in fillers.values()))
        self._fillers = {**fillers, role: _copied(filler)}

    def get(self, role: str) -> Tensor:
        """The noisy filler ``unbind(vector, role)``, ``[..., D]``; only noise for a role that is not filled.

        Raises:
            KeyError: there is no such role.
        """
        return functional.unbind(self.vector, self._role("get", role))

    def __getitem__(self, role: str) -> Vector:
        """The noisy filler, as `get`, a `Vector`."""
        return functional.unbind(self.vector, self._role("Record", role)).as_subclass(Vector)

    def __setitem__(self, role: str, filler: Tensor) -> None:
        """``record[role] = filler`` is `set`."""
        self.set(role, filler)

    def __delitem__(self, role: str) -> None:
        """``del record[role]`` is `remove`."""
        self.remove(role)

    @locked
    def remove(self, role: str) -> None:
        """Empties a role.

        Raises:
            KeyError: it is not filled.
        """
        word("remove", "role", role)
        if role not in self._fillers:
            raise KeyError(f"remove: role must be one of {sorted(self._fillers)}, got {role!r}")
        del self._fillers[role]

    def __iter__(self) -> Iterator[str]:
        """The filled roles, in the order in which they were filled first."""
        return iter(tuple(self._fillers))

    def _summary(self) -> dict[str, Any]:
        first = next(iter(self._roles.values()))
        roles = {"roles": self._roles.keys(), "filled": len(self._fillers)}
        return {"dim": first.shape[0], **roles, **place_of(first.device, first.dtype)}

    def __contains__(self, role: object) -> bool:
        """Whether a role is filled."""
        return role in self._fillers

    def __len__(self) -> int:
        """Number of filled roles."""
        return len(self._fillers)

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"role.{i}": role.detach() for i, role in enumerate(self._roles.values())}
        tensors |= {f"filler.{i}": filler.detach() for i, filler in enumerate(self._fillers.values())}
        return tensors, {"roles": list(self._roles), "fillers": list(self._fillers)}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        place = resolve_device(device)
        roles = check_names("load", metadata["roles"])
        fillers = check_names("load", metadata["fillers"])
        record = cls({name: tensors[f"role.{i}"].to(place) for i, name in enumerate(roles)})
        for i, name in enumerate(fillers):
            record.set(name, tensors[f"filler.{i}"].to(place))
        return record

    def _role(self, op: str, role: str) -> Tensor:
        word(op, "role", role)
        if role not in self._roles:
            raise KeyError(f"{op}: role must be one of {sorted(self._roles)}, got {role!r}")
        return self._roles[role]


def _copied(vector: Tensor) -> Tensor:
    """A copy, since the caller may write to the original, that serves gradients even if made in inference mode."""
    with_grad = torch.is_grad_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(with_grad):
        return vector.clone()


class _Structure(SharedVectors):
    """One vector that items are added to; out of place, so that earlier results and gradients stay valid."""

    @takes(dim=Int(1), seed=Int(), device=Device(), dtype=Dtype().or_none())
    def __init__(
        self,
        dim: int = 512,
        *,
        batch: tuple[int, ...] = (),
        seed: int = DEFAULT_SEED,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """An empty structure.

        Args:
            dim: D, >= 1.
            batch: leading dimensions of a batch of structures.
            seed: seed of the permutation, any int, taken modulo 2^64.
            device: as for `hrr.random`, None being the current one; arguments of the methods must be on it.
            dtype: None means torch's default; arguments of a wider dtype widen the vector.

        Raises:
            ValueError: A size of ``batch`` is less than 0, or the vector has 2^59 elements or more.
        """
        name = type(self).__name__
        batch = sizes(name, "batch", batch, 0)
        check_elements(name, "the vector", (*batch, dim))
        dtype = resolve_dtype(name, dtype)
        self.seed = seed
        self._vector = torch.zeros(*batch, dim, device=resolve_device(device, op=name), dtype=dtype)

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        return self.dim, self._vector.device, self._vector.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        vector = fn(self._vector)
        check_floating("to", "vector", vector)
        self._vector = vector

    @property
    def dim(self) -> int:
        """D."""
        return self._vector.shape[-1]

    @property
    def vector(self) -> Tensor:
        """A copy of the structure, ``[..., D]``; zero while it is empty."""
        return self._vector.clone()

    def _settings(self) -> dict[str, Any]:
        """What there is beside the vector, by the name of an attribute."""
        # The seed as text, since other readers of JSON may not take integers of 64 bits.
        return {"seed": str(self.seed)}

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"vector": self._vector.detach()}, self._settings()

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        vector = tensors["vector"]
        given = {"directed": metadata["directed"]} if "directed" in metadata else {}
        # Without memory, which the vector has.
        structure = cls(vector.shape[-1], seed=int(metadata["seed"]), device="meta", dtype=vector.dtype, **given)
        structure._vector = vector.to(resolve_device(device, op="load"))
        if isinstance(structure, _Counted):
            structure._length = integer("load", "length", metadata["length"], 0)
        return structure

    def _summary(self) -> dict[str, Any]:
        vector, batch = self._vector, self._vector.shape[:-1]
        own = {name: getattr(self, f"_{name}" if name == "length" else name) for name in self._settings()}
        own |= {"batch": batch} if batch else {}
        return {"dim": vector.shape[-1], **own, **place_of(vector.device, vector.dtype)}

    def _check(self, op: str, rank: int = 1, **given: Any) -> list[Tensor]:
        # A graph cannot ask, and traces a tensor of its own.
        is_asked = not torch.compiler.is_compiling()
        if is_asked and self._vector.is_inference() and not torch.is_inference_mode_enabled():
            # No gradient could be taken with what was made in inference mode.
            self._vector = self._vector.clone()
        vectors = [
            check_vectors(op, argument, value, self.dim, self._vector.device, rank) for argument, value in given.items()
        ]
        names = " and ".join([*given, "vector"])
        check_broadcast(op, names, *(value.shape[:-rank] for value in vectors), self._vector.shape[:-1])
        return vectors

    def _added(self, op: str, hint: str = "", rank: int = 1, **given: Any) -> list[Tensor]:
        """As `_check`, of vectors that do not make a batch of a structure that is none."""
        vectors, batch = self._check(op, rank, **given), self._vector.shape[:-1]
        found = torch.broadcast_shapes(*(value.shape[:-rank] for value in vectors), batch)
        if found != batch:
            names = " and ".join(given)
            raise ValueError(
                f"{op}: {names} must have leading dimensions that broadcast to {list(batch)}, got {list(found)}; "
                f"{hint}batch={tuple(found)} makes a batch of structures"
            )
        return vectors

    def _check_memory(self, op: str, memory: ItemMemory) -> None:
        if not isinstance(memory, ItemMemory):
            raise TypeError(f"{op}: memory must be an ItemMemory, got {type(memory).__name__}")
        check_vectors(op, "memory", memory._vectors, self.dim, self._vector.device)

    def _permute(self, vectors: Tensor, power: int = 1) -> Tensor:
        return functional.permute(vectors, self.seed, power)


def _recalled(memory: ItemMemory, noisy: Tensor) -> Tensor:
    """The items of a memory that are nearest to noisy ones."""
    return _chosen(memory._vectors, memory.cleanup(noisy).indices)


def _chosen(vectors: Tensor, indices: Tensor) -> Tensor:
    """The vectors of indices ``[..., 1]``; a single one is not read back, which square brackets do."""
    return F.embedding(indices.squeeze(-1), vectors)


class _Counted(_Structure):
    """A structure that knows how many items it holds."""

    _length = 0

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "length": self._length}

    def __len__(self) -> int:
        """Number of items."""
        return self._length


class Sequence(_Counted):
    """Items in order, ``sum_i P^(i + 1) x_i``: the vector of the function `sequence`, made item by item.

    ``items[index]`` is what the function `at` gives for its vector; the length is known here, so that -1 is the last.

    To edit it anywhere but at its ends, one vector must be split into ``h + t``, the sums of the items before a place
    and after it, of which only the later ones move. The shorter part is put together from what a memory finds at its
    places; the other is the rest. If the memory holds the items and finds the right ones, all is exact up to rounding.
    If it finds y where x is, the sequence has y there from then on, and ``x - y`` stays as noise one place beside.
    What is found is constant to derivatives.
    """

    file_format = "torch_hrr.sequence"

    @locked
    def append(self, item: Tensor) -> None:
        """Adds ``[..., D]`` at the end."""
        (item,) = self._added("append", "extend adds items in order, ", item=item)
        self._vector = self._vector + self._permute(item, self._length + 1)
        self._length += 1

    @locked
    def extend(self, items: Tensor) -> None:
        """Adds ``[..., L, D]`` at the end, in order."""
        (items,) = self._added("extend", rank=2, items=items)
        self._vector = self._vector + self._permute(encoders.sequence(items, seed=self.seed), self._length)
        self._length += items.shape[-2]

    @locked
    def __getitem__(self, index: int) -> Vector:
        """The noisy item ``[..., D]`` at a position, a `Vector`; negative ones count from the end.

        Raises:
            TypeError: `index` is not an int.
            IndexError: it is outside the sequence.
        """
        return self._at(self._place_of("Sequence", index)).as_subclass(Vector)

    @locked
    def insert(self, index: int, item: Tensor, memory: ItemMemory | None = None) -> None:
        """Puts ``[..., D]`` before a place: ``h + P^(index + 1) x + P t``, t from the place on.

        Args:
            index: the place, which the item then has, from 0 to the length; negative ones count from the end.
            item: the new item.
            memory: a memory of the items; only the ends, 0 and the length, need none.

        Raises:
            TypeError: `index` is not an int, `memory` not an `ItemMemory`, or `item` no vector.
            IndexError: `index` is outside the sequence.
            ValueError: no memory is given for a place between items, or D or the batch do not fit.
            RuntimeError: the devices differ.

        Cost: with n items in the shorter part 2 n permutations and a cleanup of n vectors.
        """
        place = self._place_of("insert", index, self._length + 1)
        if memory is not None:
            self._check_memory("insert", memory)
        (item,) = self._added("insert", item=item)
        head, tail = self._parts("insert", self._vector, place, place, memory)
        self._vector = head + self._permute(item, place + 1) + self._permute(tail)
        self._length += 1

    @locked
    def remove(self, index: int, memory: ItemMemory) -> Tensor:
        """Takes an item out: ``h + P^-1 t``, after what a memory finds at the place is subtracted.

        Args:
            index: the place; negative ones count from the end.
            memory: a memory of the items; at either end one of the item at that place is enough.

        Returns:
            The item that the memory found, ``[..., D]``.

        Raises:
            TypeError, IndexError, ValueError, RuntimeError: as for `insert`.

        Cost: as for `insert`, and one cleanup.
        """
        place = self._place_of("remove", index)
        self._check_memory("remove", memory)
        self._check("remove")
        item = _recalled(memory, self._at(place))
        rest = self._vector - self._permute(item, place + 1)
        head, tail = self._parts("remove", rest, place, place + 1, memory)
        self._vector = head + self._permute(tail, -1) if self._length > 1 else torch.zeros_like(rest)
        self._length -= 1
        return item

    @locked
    def replace(self, index: int, item: Tensor, old: Tensor | ItemMemory) -> None:
        """Puts another item at a place: ``s + P^(index + 1) (x - old)``.

        Args:
            index: the place; negative ones count from the end.
            item: the new item, ``[..., D]``.
            old: the item that is there, ``[..., D]``, or a memory that finds it. What is not there stays as noise.

        Raises:
            TypeError, IndexError, ValueError, RuntimeError: as for `insert`.

        Cost: one permutation; with a memory another, and a cleanup.
        """
        place = self._place_of("replace", index)
        if isinstance(old, ItemMemory):
            self._check_memory("replace", old)
            old = _recalled(old, self._at(place))
        item, old = self._added("replace", item=item, old=old)
        self._vector = self._vector + self._permute(item - old, place + 1)

    def _at(self, place: int) -> Tensor:
        return encoders.at(self._vector, place, seed=self.seed)

    def _place_of(self, op: str, index: int, places: int | None = None) -> int:
        """The place of an index, from 0."""
        index = integer(op, "index", index)
        length, places = self._length, self._length if places is None else places
        if places == 0:
            raise IndexError(f"{op}: sequence must not be empty, got index {shown(index)}")
        if not -length <= index < places:
            raise IndexError(f"{op}: index must be in [{-length}, {places}), got {shown(index)}")
        return index + length if index < 0 else index

    def _parts(self, op: str, vector: Tensor, end: int, start: int, memory: ItemMemory | None) -> tuple[Tensor, Tensor]:
        """The sums of the items before `end` and from `start` on, which a vector is the sum of."""
        is_head = end <= self._length - start
        places = range(end) if is_head else range(start, self._length)
        if places:
            if memory is None:
                raise ValueError(f"{op}: memory must be given between items, got None for index {end}")
            noisy = [encoders.at(vector, place, seed=self.seed) for place in places]
            items = _recalled(memory, torch.stack(noisy, -2))
            part = self._permute(encoders.sequence(items, seed=self.seed), places.start)
        else:
            part = torch.zeros_like(vector)
        return (part, vector - part) if is_head else (vector - part, part)


class Stack(_Counted):
    """A stack of items: ``P (s + x)`` after x is pushed, so that the top is at position 0 of a `sequence`."""

    file_format = "torch_hrr.stack"

    @locked
    def push(self, item: Tensor) -> None:
        """Puts ``[..., D]`` on the top."""
        (item,) = self._added("push", item=item)
        self._vector = self._permute(self._vector + item)
        self._length += 1

    @locked
    def top(self) -> Tensor:
        """The noisy top item, ``P^-1 s``, ``[..., D]``.

        Raises:
            IndexError: the stack is empty.
        """
        return self._top("top")

    @locked
    def pop(self, memory: ItemMemory) -> Tensor:
        """Removes the top item: ``x = cleanup(P^-1 s)`` is subtracted, which leaves ``P^-1 s - x``.

        The rest is exact up to rounding if the memory holds the items as they were pushed; if it finds another item,
        both stay behind as noise. The last pop leaves zeros.

        Args:
            memory: a memory of the items, on the same device.

        Returns:
            The item of the memory, ``[..., D]``.

        Raises:
            TypeError: `memory` is not an `ItemMemory`.
            IndexError: the stack is empty.
            ValueError: the memory has another D.
            RuntimeError: the memory is on another device.
        """
        self._check_memory("pop", memory)
        noisy = self._top("pop")
        item = _recalled(memory, noisy)
        self._vector = noisy - item if self._length > 1 else torch.zeros_like(noisy)
        self._length -= 1
        return item

    def _top(self, op: str) -> Tensor:
        if self._length == 0:
            raise IndexError(f"{op}: stack must hold an item, got 0")
        return self._permute(self._vector, -1)


class Multiset(_Counted):
    """Items without order, each any number of times: ``sum_i c_i x_i``.

    A count comes back with an error of a standard deviation of about ``sqrt(sum_j c_j^2 / D)``, over the other items,
    if the items are random and of equal norm. The vector is the sum alone: nothing here is permuted or bound, so that
    the multiset of the items of another structure is no part of it.
    """

    file_format = "torch_hrr.multiset"

    @locked
    @takes(count=Int(1))
    def add(self, item: Tensor, count: int = 1) -> None:
        """Adds ``[..., D]`` a number of times.

        Raises:
            ValueError: the multiset would hold 2^63 items or more, which no file can say.
        """
        (item,) = self._added("add", "extend adds several items, ", item=item)
        length = integer("add", "the number of items", self._length + count, 0)
        self._vector = self._vector + count * item
        self._length = length

    @locked
    def extend(self, items: Tensor) -> None:
        """Adds ``[..., K, D]``, each item once.

        Raises:
            ValueError: as for `add`.
        """
        (items,) = self._added("extend", rank=2, items=items)
        length = integer("extend", "the number of items", self._length + items.shape[-2], 0)
        self._vector = self._vector + functional.superpose(items, normalize=False)
        self._length = length

    @locked
    @takes(count=Int(1))
    def remove(self, item: Tensor, count: int = 1) -> None:
        """Subtracts ``[..., D]``, which was added at least as many times; else its count becomes negative.

        Raises:
            ValueError: the multiset holds fewer items than that in all, whichever they are.
        """
        (item,) = self._added("remove", item=item)
        if count > self._length:
            raise ValueError(f"remove: count must be at most the number of items = {self._length}, got {shown(count)}")
        self._vector = self._vector - count * item
        self._length -= count

    def count(self, item: Tensor) -> Tensor:
        """About how many times ``[..., D]`` is in it, ``<s, x> / <x, x>``, ``[...]``, no whole number; 0 for zeros.

        Returns:
            At least float32.
        """
        return self._counted("count", item)

    @takes(threshold=Real())
    def contains(self, item: Tensor, threshold: float = 0.5) -> Tensor:
        """Whether the `count` of ``[..., D]`` is above a threshold: bool, ``[...]``; waits for no device."""
        return self._counted("contains", item) > threshold

    def _counted(self, op: str, item: Tensor) -> Tensor:
        (item,) = self._check(op, item=item)
        dtype = compute_dtype(torch.promote_types(item.dtype, self._vector.dtype))
        item, vector = item.to(dtype), self._vector.to(dtype)
        square = item.square().sum(-1)
        return (vector * item).sum(-1) / torch.where(square == 0, 1.0, square)


class Graph(_Structure):
    """Edges between node vectors: the vector of the function `graph`, made edge by edge.

    Unitary nodes work best: the only noise in `neighbours` then comes from the other edges.
    """

    file_format = "torch_hrr.graph"

    @takes(directed=Bool())
    def __init__(
        self,
        dim: int = 512,
        directed: bool = True,
        *,
        batch: tuple[int, ...] = (),
        seed: int = DEFAULT_SEED,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """A graph without edges; `directed` says whether a -> b differs from b -> a, the rest is as for `Sequence`."""
        super().__init__(dim, batch=batch, seed=seed, device=device, dtype=dtype)
        self.directed = directed

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "directed": self.directed}

    @locked
    def add(self, sources: Tensor, targets: Tensor) -> None:
        """Adds edges, ``[..., E, D]`` to ``[..., E, D]``, or one, ``[D]`` to ``[D]``."""
        self._vector = self._vector + self._edges("add", sources, targets)

    @locked
    def remove(self, sources: Tensor, targets: Tensor) -> None:
        """Subtracts edges that were added, as `add` takes them."""
        self._vector = self._vector - self._edges("remove", sources, targets)

    def neighbours(self, source: Tensor) -> Tensor:
        """The noisy sum of the targets of a source's edges, ``[..., D]``; of their other ends if undirected."""
        (source,) = self._check("neighbours", source=source)
        found = functional.unbind(self._vector, source)
        return self._permute(found, -1) if self.directed else found

    def __getitem__(self, source: Tensor) -> Vector:
        """``graph[source]`` is `neighbours`, a `Vector`."""
        return self.neighbours(source).as_subclass(Vector)

    def sources(self, target: Tensor) -> Tensor:
        """The noisy sum of the sources of edges to ``[..., D]``; the same as `neighbours` without directions."""
        (target,) = self._check("sources", target=target)
        return functional.unbind(self._vector, self._permute(target) if self.directed else target)

    def _edges(self, op: str, sources: Tensor, targets: Tensor) -> Tensor:
        many = any(getattr(ends, "ndim", 0) > 1 for ends in (sources, targets))
        sources, targets = self._added(op, rank=2 if many else 1, sources=sources, targets=targets)
        check_broadcast(op, "sources and targets", sources.shape[:-1], targets.shape[:-1])
        if not many:
            sources, targets = sources.unsqueeze(0), targets.unsqueeze(0)
        return encoders.graph(sources, targets, self.directed, seed=self.seed)


class HashTable(_Structure):
    """Key and value vectors, ``sum_k bind(key_k, P value_k)``: a value never retrieves its key, even of one kind.

    With k entries and unitary keys, a value comes back with a cosine of about ``1/sqrt(k)``.
    """

    file_format = "torch_hrr.hash_table"

    @locked
    def add(self, key: Tensor, value: Tensor) -> None:
        """Adds a key and its value, each ``[..., D]``; a key already in the table then has two values."""
        self._vector = self._vector + self._entry("add", key, value)

    @locked
    def remove(self, key: Tensor, value: Tensor) -> None:
        """Subtracts an entry that was added."""
        self._vector = self._vector - self._entry("remove", key, value)

    def get(self, key: Tensor) -> Tensor:
        """The noisy value ``P^-1 unbind(table, key)``, ``[..., D]``; only noise for an unknown key."""
        (key,) = self._check("get", key=key)
        return self._permute(functional.unbind(self._vector, key), -1)

    def __getitem__(self, key: Tensor) -> Vector:
        """``table[key]`` is `get`, a `Vector`."""
        return self.get(key).as_subclass(Vector)

    def _entry(self, op: str, key: Tensor, value: Tensor) -> Tensor:
        key, value = self._added(op, key=key, value=value)
        return functional.bind(key, self._permute(value))


class Tree(_Structure):
    """Items at the ends of paths to the left and right: ``v = L bind P v_left + R bind P v_right``, an end its item.

    L and R are unitary vectors that follow from the seed. The permutation keeps the order of turns, which binding alone
    would not: "lr" is another place than "rl". With k items of equal norm an item comes back with a cosine of about
    ``1/sqrt(k)``. A path that goes on beyond an item, or ends where none is, gives noise.

    What is at the end of a path may be any vector, also that of another tree of the same seed, whose items are then
    found by both paths in turn; ``get`` of the path to it gives the noisy tree.
    """

    file_format = "torch_hrr.tree"

    _sides: Tensor | None = None

    @locked
    def add(self, path: str | Iterable[str], item: Tensor) -> None:
        """Adds ``[..., D]`` at the end of a path.

        Args:
            path: "l" and "r", from the root on, such as "lrl" or ["l", "r", "l"]; "" is the root.
            item: the item; the place has the sum of what is added to it.

        Raises:
            TypeError: `path` is neither a str nor holds some.
            ValueError: it holds anything but "l" and "r".

        Cost: a bind and a permutation for every turn.
        """
        self._vector = self._vector + self._leaf("add", path, item)

    @locked
    def remove(self, path: str | Iterable[str], item: Tensor) -> None:
        """Subtracts an item that was added at the end of a path."""
        self._vector = self._vector - self._leaf("remove", path, item)

    @locked
    def get(self, path: str | Iterable[str]) -> Tensor:
        """The noisy item or tree at the end of a path, ``[..., D]``: ``P^-1 unbind(v, L or R)`` for every turn."""
        turns, found = _turns("get", path), self._vector
        for turn in turns:
            found = self._permute(functional.unbind(found, self._side(turn)), -1)
        return found if turns else found.clone()

    def __getitem__(self, path: str | Iterable[str]) -> Vector:
        """``tree[path]`` is `get`, a `Vector`."""
        return self.get(path).as_subclass(Vector)

    def _leaf(self, op: str, path: str | Iterable[str], item: Tensor) -> Tensor:
        turns, (item,) = _turns(op, path), self._added(op, item=item)
        for turn in reversed(turns):
            item = functional.bind(self._side(turn), self._permute(item))
        return item

    @writable_anywhere
    @torch.no_grad()
    def _side(self, turn: str) -> Tensor:
        held, vector = self._sides, self._vector
        if held is None or held.dtype != vector.dtype or held.device != vector.device:
            generator = seeded_generator(self.seed + _SIDES)
            with outside_transforms():
                held = functional.random(2, self.dim, generator, True, vector.device, vector.dtype)
            if may_be_kept(held):
                self._sides = held
        return held[int(turn == "r")]


def _turns(op: str, path: str | Iterable[str]) -> list[str]:
    turns = [*path] if isinstance(path, str) else listed(op, "path", path, "a str of l and r")
    if not all(isinstance(turn, str) and turn in ("l", "r") for turn in turns):
        raise ValueError(f'{op}: path must hold "l" and "r" alone, got {brief(path)}')
    return turns


class Automaton(_Structure):
    """Transitions between states, ``sum_k bind(bind(state_k, symbol_k), P next_k)``: a finite automaton in one vector.

    A next state comes back with a cosine of about ``1/sqrt(k)`` of k transitions if states and symbols are unitary and
    next states of equal norm. Several transitions from one state by one symbol, or a sum of states, give the sum of
    the next states. (Assemblies of neurons that do the same are `torch_hrr.assembly.FiniteStateMachine`.)
    """

    file_format = "torch_hrr.automaton"

    @locked
    def add(self, state: Tensor, symbol: Tensor, next_state: Tensor) -> None:
        """Adds transitions, each of the three ``[..., K, D]``, or one, each ``[D]``."""
        self._vector = self._vector + self._transitions("add", state, symbol, next_state)

    @locked
    def remove(self, state: Tensor, symbol: Tensor, next_state: Tensor) -> None:
        """Subtracts transitions that were added, as `add` takes them."""
        self._vector = self._vector - self._transitions("remove", state, symbol, next_state)

    def transition(self, state: Tensor, symbol: Tensor) -> Tensor:
        """The noisy next state ``P^-1 unbind(a, bind(state, symbol))``, ``[..., D]``; only noise where there is none.

        To go on from it, clean it up, as `run` does: noise multiplies from step to step.
        """
        state, symbol = self._check("transition", state=state, symbol=symbol)
        return self._next(self._vector, state, symbol)

    def run(self, state: Tensor, word: Tensor, memory: ItemMemory) -> Cleanup:
        """Reads a word, cleaning up after every symbol.

        Args:
            state: where to begin, ``[..., D]``.
            word: the symbols in order, ``[..., L, D]``; leading dimensions broadcast with those of `state`.
            memory: a memory of the states, on the same device.

        Returns:
            The named tuple `Cleanup` of the states after each symbol: cosines ``values`` and ``indices``, ``[..., L]``,
            and ``names``. A cosine near 0 says that there was no transition; what follows it means nothing.

        Raises:
            TypeError: `memory` is not an `ItemMemory`, or an argument no vector.
            ValueError: D or leading dimensions do not fit.
            RuntimeError: the devices differ.

        Cost: for each symbol two transitions' binds, a permutation and a cleanup.
        """
        self._check_memory("run", memory)
        (state,), (word,) = self._check("run", state=state), self._check("run", 2, word=word)
        table, states = self._vector, memory._vectors
        lead = check_broadcast("run", "state, word and vector", state.shape[:-1], word.shape[:-2], table.shape[:-1])
        values = [table.new_empty(*lead, 0, dtype=compute_dtype(states.dtype))]
        indices = [table.new_empty(*lead, 0, dtype=torch.int64)]
        state = state.expand(*lead, -1)
        for symbol in word.unbind(-2):
            found = memory.cleanup(self._next(table, state, symbol))
            values.append(found.values)
            indices.append(found.indices)
            state = _chosen(states, found.indices)
        return Cleanup(torch.cat(values, -1), torch.cat(indices, -1), memory._names)

    def _next(self, table: Tensor, state: Tensor, symbol: Tensor) -> Tensor:
        return self._permute(functional.unbind(table, functional.bind(state, symbol)), -1)

    def _transitions(self, op: str, state: Tensor, symbol: Tensor, next_state: Tensor) -> Tensor:
        rank = 2 if any(getattr(each, "ndim", 0) > 1 for each in (state, symbol, next_state)) else 1
        state, symbol, next_state = self._added(op, rank=rank, state=state, symbol=symbol, next_state=next_state)
        check_broadcast(op, "state, symbol and next_state", *(each.shape[:-1] for each in (state, symbol, next_state)))
        sources, targets = functional.bind(state, symbol), self._permute(next_state)
        if rank == 1:
            sources, targets = sources.unsqueeze(0), targets.unsqueeze(0)
        return functional.bind_superpose(sources, targets)
