"""Named vectors and the expressions that combine them."""

from __future__ import annotations

import hashlib
import operator
from collections import ChainMap
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import (
    check_elements,
    check_finite,
    check_names,
    check_vector,
    may_be_kept,
    resolve_dtype,
    word,
)
from torch_hrr._shared import locked
from torch_hrr._spec import Bool, Device, Dtype, Int, takes
from torch_hrr.hrr import functional
from torch_hrr.hrr._expression import Program, parse_expression, parse_statements
from torch_hrr.hrr._named import NamedVectors
from torch_hrr.hrr.memory import Cleanup, ItemMemory, compute_dtype
from torch_hrr.hrr.vector import Vector
from torch_hrr.io.files import check_text
from torch_hrr.runtime.device import resolve_data_device


class Vocabulary(NamedVectors):
    """Vectors by name, in the order of their declaration; a read-only mapping to copies of them.

    Expressions, and the `Vector` that ``words[name]`` is, know these operators, with the precedence and the association
    of Python, from tight to loose:

        ``A ** x``            ``bind_power(A, x)``, x a number: ``A ** -1`` inverts, ``A ** 0`` is the identity
        ``~A``, ``-A``        the involution ``a[(-n) mod D]``, which is the approximate inverse; the negative
        ``A * B``, ``x * A``  ``bind(A, B)``; a vector times a number, in either order
        ``A + B``, ``A - B``  superposition, not normalised

    and parentheses, decimal numbers and arithmetic among numbers. The value of an expression is a vector. Anything else
    raises a ValueError that states the position, counted from 0. nengo_spa's expressions with these operators and
    without negative powers mean the same; its negative powers use the involution, and it refuses fractional powers of
    vectors with a negative real bin. Its method calls, division and bare numbers for scaled identities are not
    supported.

    A module: that of a model moves and changes its dtype with it and is in its `state_dict`, though not among its
    buffers, whose number is fixed; ``load_state_dict`` takes over vectors, names and seed of a vocabulary of the same
    D. A conversion to a dtype that cannot hold a vector is a ValueError, and what is drawn after it is rounded to the
    new dtype.
    """

    file_format = "torch_hrr.vocabulary"

    @takes(dim=Int(1), seed=Int(), unitary=Bool(), device=Device(), dtype=Dtype().or_none())
    def __init__(
        self,
        dim: int = 512,
        seed: int = 0,
        *,
        unitary: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Makes an empty vocabulary.

        Args:
            dim: dimension D of the vectors, >= 1.
            seed: seed of the vectors drawn, any int, taken modulo 2^64.
            unitary: whether vectors are drawn unitary, so that ``~A`` is the exact inverse of A, or from N(0, 1/D).
            device: device of the vectors; None means the current device, else as for `runtime.resolve_device`.
            dtype: float32, float64, float16 or bfloat16; None means torch's default dtype.

        Raises:
            ValueError: ``device`` is meta.
        """
        check_elements("Vocabulary", "a vector", (dim,))
        self._dtype = resolve_dtype("Vocabulary", dtype)
        self._dim, self._seed, self._unitary = dim, seed, unitary
        self._device = resolve_data_device(device, op="Vocabulary")
        self._entries: dict[str, Tensor] = {}
        self._memory: ItemMemory | None = None

    def _summary(self) -> dict[str, Any]:
        return {**super()._summary(), "seed": self._seed, "unitary": self._unitary}

    @locked
    def __getitem__(self, name: str) -> Vector:
        """A copy of the vector of a name, a `Vector` ``[D]``; KeyError for an undeclared name."""
        word("Vocabulary", "name", name)
        if name not in self._entries:
            raise KeyError(f"Vocabulary: name must be declared, got {name!r}")
        return self._entries[name].clone().as_subclass(Vector)

    @property
    @locked
    def vectors(self) -> Tensor:
        """All vectors, ``[N, D]``; a copy."""
        rows = list(self._entries.values())
        return torch.stack(rows) if rows else torch.empty(0, self._dim, dtype=self._dtype, device=self._device)

    @locked
    def populate(self, text: str) -> None:
        """Declares names: ``"A; B; C = A*B"`` draws A and B and binds them to C. On an error it declares none.

        A vector that is drawn depends on the seed, its name, D, dtype and ``unitary`` alone, not on the device, the
        order or the other names; the chance that two names share one is 2^-64. Blank text declares nothing.

        Args:
            text: names, which are identifiers as in Python, or assignments of expressions, separated by semicolons.

        Raises:
            TypeError: ``text`` is not a str.
            ValueError: text outside the grammar above, a new name that is already declared, the use of one that is not,
                or a value that the dtype cannot hold. The vocabulary is unchanged.

        Cost: linear in the text; each statement waits once for the device.
        """
        statements = parse_statements("populate", text, self._entries, torch.finfo(self._dtype).max)
        pending: dict[str, Tensor] = {}
        known = ChainMap(pending, self._entries)
        for name, program in statements:
            vector = self._draw(name) if program is None else self._evaluate(program, known)
            check_finite("populate", f"vector of {name!r}", vector)
            pending[name] = vector
        self._extend(pending)

    @locked
    def add(self, name: str, vector: Tensor) -> None:
        """Declares a name for a given vector; keeps a copy in the vocabulary's dtype, on its device.

        The name may be any text; expressions can use those that are identifiers.

        Raises:
            TypeError: ``name`` is not a str, or ``vector`` not a floating point tensor.
            ValueError: the name is already declared or not valid Unicode, or ``vector`` is not ``[D]`` or not finite.
        """
        check_text("add", "name", name)
        if name in self._entries:
            raise ValueError(f"add: name must be new, got {name!r}")
        vector = check_vector("add", "vector", vector, (self._dim,))
        copy = torch.empty(self._dim, dtype=self._dtype, device=self._device).copy_(vector.detach())
        check_finite("add", "vector", copy)
        self._extend({name: copy})

    def parse(self, text: str) -> Vector:
        """The value of an expression such as ``"A*B + 0.5*~C"``, computed in float32 or wider and rounded once.

        Deterministic, and not normalised. Values may overflow to infinity, as with the operators.

        Returns:
            ``[D]``, a new `Vector` without gradient.

        Raises:
            TypeError: ``text`` is not a str.
            ValueError: text outside the grammar above or an unknown name, before anything is computed.

        Cost: linear in the text; at most one O(D log D) operator for each one written. Does not wait for the device.
        A graph of ``torch.compile`` ends here, since threads may share the vocabulary: parse before it.
        """
        return self._parsed("parse", text)

    @locked
    def _parsed(self, op: str, text: str) -> Vector:
        program = parse_expression(op, text, self._entries, torch.finfo(self._dtype).max)
        return self._evaluate(program, self._entries)

    def cleanup(self, query: Tensor, top_k: int = 1) -> Cleanup:
        """The ``top_k`` names whose vectors have the largest cosine with the query, best first.

        As `ItemMemory.cleanup`; the indices ``[..., top_k]`` count the names in the order of their declaration, and
        ``names`` of the result and `names_of` turn them into names. Does not wait for the device.

        Raises:
            ValueError: the vocabulary is empty, or ``top_k`` is outside 1 to N.
            TypeError, ValueError, RuntimeError: as for `ItemMemory.cleanup`.
        """
        return self._items("cleanup").cleanup(query, top_k)

    def ask(self, query: Tensor | str, top_k: int = 1) -> Any:
        """The names of the ``top_k`` vectors nearest to a query, which may be an expression: ``ask("SCENE * ~COLOR")``.

        As `ItemMemory.ask`, with what `parse` gives for a str.

        Raises:
            ValueError: the vocabulary is empty, or a str is no expression over its names.
            TypeError, ValueError, RuntimeError: as for `ItemMemory.cleanup`.
        """
        items = self._items("ask")
        return items.ask(self._parsed("ask", query) if isinstance(query, str) else query, top_k)

    def names_of(self, indices: Tensor | int) -> Any:
        """The names of indices, as `ItemMemory.names_of`; waits for the device."""
        return self._items("names_of").names_of(indices)

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        device, dtype = self._place_after(fn)
        entries = {name: fn(vector) for name, vector in self._entries.items()}
        if dtype != self._dtype:
            for name, vector in entries.items():
                check_finite("to", f"vector of {name!r}", vector)
        self._entries, self._device, self._dtype, self._memory = entries, device, dtype, None

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        # The seed as text, since other readers of JSON may not take integers of 64 bits.
        settings = {"names": list(self._entries), "seed": str(self._seed), "unitary": self._unitary}
        return {"vectors": self.vectors}, settings

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        vectors, names = tensors["vectors"], check_names("load", metadata["names"])
        vocabulary = cls(
            vectors.shape[1], int(metadata["seed"]), unitary=metadata["unitary"], device=device, dtype=vectors.dtype
        )
        check_vector("load", "vectors", vectors, (len(names), vectors.shape[1]))
        check_finite("load", "vectors", vectors)
        vocabulary._extend(dict(zip(names, vectors.to(vocabulary.device).unbind(), strict=True)))
        if vocabulary._content()[1] != metadata or len(tensors) > 1:
            raise ValueError("entries that no vocabulary has")
        return vocabulary

    @locked
    def _items(self, op: str) -> ItemMemory:
        if not self._entries:
            raise ValueError(f"{op}: vocabulary must have names, got none")
        if self._memory is not None:
            return self._memory
        memory = ItemMemory(self.vectors, self.names)
        if may_be_kept(memory._vectors):
            # Not as a part: what it holds would be in every state twice.
            self.__dict__["_memory"] = memory
        return memory

    def _extend(self, vectors: dict[str, Tensor]) -> None:
        self._memory = None
        self._entries.update(vectors)

    def _draw(self, name: str) -> Tensor:
        """The vector of a name: a random one bound with a random unitary one, which keeps its distribution.

        A CPU generator takes 32 bits of its seed. One alone would give two of 65536 names the same vector more likely
        than not; two independent ones make that 64 bits, and half a collision leaves independent vectors.
        """
        digest = hashlib.sha256(f"torch_hrr.vocabulary:{self._seed % 2**64}:{name}".encode()).digest()
        first, second = (torch.Generator().manual_seed(int.from_bytes(digest[at : at + 4], "little")) for at in (0, 4))
        vector = functional.random(1, self._dim, first, self._unitary, "cpu", torch.float64)
        rotation = functional.random(1, self._dim, second, True, "cpu", torch.float64)
        return functional.bind(vector, rotation)[0].to(device=self._device, dtype=self._dtype)

    def _evaluate(self, program: Program, vectors: Mapping[str, Tensor]) -> Vector:
        dtype = compute_dtype(self._dtype)
        stack: list[Any] = []
        with torch.no_grad(), full_precision(self._device):
            for action, value in program:
                match action:
                    case "name":
                        stack.append(vectors[str(value)].to(dtype).as_subclass(Vector))
                    case "scale":
                        stack.append(stack.pop() * float(value))
                    case "power":
                        stack.append(stack.pop() ** float(value))
                    case "~":
                        stack.append(~stack.pop())
                    case _:
                        right, left = stack.pop(), stack.pop()
                        stack.append(_BINARY[action](left, right))
        (result,) = stack
        vector: Vector = result.to(self._dtype, copy=True)
        return vector


_BINARY: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "+": operator.add, "-": operator.sub}
