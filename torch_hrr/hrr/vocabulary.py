"""Named vectors and the expressions that combine them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import (
    check_elements,
    check_finite,
    check_names,
    check_vector,
    resolve_dtype,
    word,
)
from torch_hrr._shared import locked
from torch_hrr._spec import Bool, Device, Dtype, Int, Real, takes
from torch_hrr._warnings import warn
from torch_hrr.hrr import functional
from torch_hrr.hrr._expression import CONSTANTS, Drawn, Program, parse_expression, parse_statements
from torch_hrr.hrr._likely import look_at
from torch_hrr.hrr._named import NamedVectors, drawn
from torch_hrr.hrr.memory import Cleanup, check_top_k, compute_dtype
from torch_hrr.hrr.vector import Vector
from torch_hrr.io.files import check_text
from torch_hrr.runtime.device import resolve_data_device

_DEFAULTS = {"strict": True, "max_similarity": None, "quantized": False}
# Of a name, before the one that resembles the others least is kept.
_ATTEMPTS = 100


class Vocabulary(NamedVectors):
    """Vectors by name, in the order of their declaration; a read-only mapping to copies of them.

    Expressions, and the `Vector` that ``words[name]`` is, know these operators, with the precedence and the association
    of Python, from tight to loose:

        ``A ** x``            ``bind_power(A, x)``, x a number: ``A ** -1`` inverts, ``A ** 0`` is the identity
        ``~A``, ``-A``        the involution ``a[(-n) mod D]``, which is the approximate inverse; the negative
        ``A * B``, ``x * A``  ``bind(A, B)``; a vector times a number, in either order
        ``A + B``, ``A - B``  superposition, not normalised

    and parentheses, decimal numbers and arithmetic among numbers. Expressions also know ``A.unitary()`` and
    ``A.normalized()``, of names and of what is in parentheses, and three names, unless vectors are declared under them:
    ``Identity`` is `hrr.identity`, ``Zero`` the zero vector, and ``AbsorbingElement`` has all elements 1 / sqrt(D), so
    that binding with it gives a multiple of it. The value of an expression is a vector: a number x stands for
    ``x * Identity``. Anything else raises a ValueError that states the position, counted from 0. nengo_spa's
    expressions with these operators and without negative powers mean the same; its negative powers use the involution,
    and it refuses fractional powers of vectors with a negative real bin. Its other method calls and division are not
    supported.

    A module: that of a model moves and changes its dtype with it and is in its `state_dict`, though not among its
    buffers, whose number is fixed; ``load_state_dict`` takes over vectors, names, seed and settings of a vocabulary of
    the same D. A conversion to a dtype that cannot hold a vector is a ValueError, and what is drawn after it is rounded
    to the new dtype.
    """

    file_format = "torch_hrr.vocabulary"
    _kind = "vocabulary"

    @takes(
        dim=Int(1),
        seed=Int(),
        unitary=Bool(),
        device=Device(),
        dtype=Dtype().or_none(),
        strict=Bool(),
        max_similarity=Real(0.0, 1.0).or_none(),
        quantized=Bool(),
    )
    def __init__(
        self,
        dim: int = 512,
        seed: int = 0,
        *,
        unitary: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        strict: bool = True,
        max_similarity: float | None = None,
        quantized: bool = False,
    ) -> None:
        """Makes an empty vocabulary.

        Args:
            dim: dimension D of the vectors, >= 1.
            seed: seed of the vectors drawn, any int, taken modulo 2^64.
            unitary: whether vectors are drawn unitary, so that ``~A`` is the exact inverse of A, or from N(0, 1/D).
            device: device of the vectors; None means the current device, else as for `runtime.resolve_device`.
            dtype: float32, float64, float16 or bfloat16; None means torch's default dtype.
            strict: False draws and declares a name when it is first asked for, by ``words[name]`` or in an expression,
                instead of refusing it.
            max_similarity: the largest absolute cosine that a vector may have with those there are when it is drawn. It
                is drawn anew up to 100 times; the one that resembles the others least is then kept, with a warning.
                None sets no bound, and alone keeps a vector independent of the other names.
            quantized: whether `cleanup` reads int8 codes that are made when a vector is declared, and few vectors, as
                that of a quantized `ItemMemory`, instead of a memory that is made of all vectors after every change.

        Raises:
            ValueError: ``device`` is meta.
        """
        check_elements("Vocabulary", "a vector", (dim,))
        dtype = resolve_dtype("Vocabulary", dtype)
        self._seed, self._unitary = seed, unitary
        self._strict, self._max_similarity = strict, max_similarity
        self._start(dim, resolve_data_device(device, op="Vocabulary"), dtype, quantized)

    def _summary(self) -> dict[str, Any]:
        return {**super()._summary(), "seed": self._seed, "unitary": self._unitary, **self._options()}

    def _options(self) -> dict[str, Any]:
        """Settings that are not the default. Files without them are as ever."""
        chosen = {"strict": self._strict, "max_similarity": self._max_similarity, "quantized": self._quantized}
        return {name: value for name, value in chosen.items() if value is not _DEFAULTS[name]}

    @locked
    def __getitem__(self, name: str) -> Vector:
        """A copy of the vector of a name, a `Vector` ``[D]``; KeyError for an undeclared name unless not `strict`."""
        word("Vocabulary", "name", name)
        if name not in self._entries and name not in CONSTANTS and not self._strict:
            check_text("Vocabulary", "name", name)
            self._declare("Vocabulary", {name: frozenset()})
        return self._entry("Vocabulary", name).clone().as_subclass(Vector)

    def _entry(self, op: str, name: str) -> Tensor:
        if name not in self._entries:
            raise KeyError(f"{op}: name must be declared, by populate or add, got {name!r}")
        return self._rows[self._entries[name]]

    @locked
    def populate(self, text: str) -> None:
        """Declares names: ``"A; B; C = A*B"`` draws A and B and binds them to C. On an error it declares none.

        A vector that is drawn depends on the seed, its name, D, dtype and ``unitary`` alone, not on the device, the
        order or the other names; the chance that two names share one is 2^-64. ``"A.unitary()"`` draws A as a
        vocabulary made with ``unitary=True`` does, and ``"A.normalized()"`` divides what is drawn by its norm. Blank
        text declares nothing.

        Args:
            text: names, which are identifiers as in Python, or assignments of expressions, separated by semicolons.

        Raises:
            TypeError: ``text`` is not a str.
            ValueError: text outside the grammar above, a new name that is already declared, the use of one that is not,
                or a value that the dtype cannot hold. The vocabulary is unchanged.

        Cost: linear in the text; each statement waits once for the device.
        """
        limit = torch.finfo(self._dtype).max
        self._declare("populate", parse_statements("populate", text, self._entries, limit, self._strict))

    def _declare(self, op: str, statements: Mapping[str, Program | Drawn]) -> None:
        pending: dict[str, Tensor] = {}
        with full_precision(self._device):
            others = _Others(self, len(statements)) if self._max_similarity is not None else None
            for name, made in statements.items():
                if not isinstance(made, frozenset):
                    vector: Tensor = self._evaluate(made, pending).as_subclass(Tensor)
                elif others is None:
                    vector = self._draw(name, made)
                else:
                    vector = others.unlike(self, name, made)
                check_finite(op, f"vector of {name!r}", vector)
                pending[name] = vector
                if others is not None:
                    others.add(vector)
        if others is not None:
            others.tell()
        self._extend(pending)

    @locked
    def add(self, name: str, vector: Tensor) -> None:
        """Declares a name for a given vector; keeps a copy in the vocabulary's dtype, on its device.

        The name may be any text; expressions can use those that are identifiers. On the CPU a UserWarning tells of a
        vector that looks like angles.

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
        look_at("add", "vector", vector)
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
    def _parsed(self, op: str, text: str, top_k: int = 1) -> Vector:
        limit = torch.finfo(self._dtype).max
        program, drawn = parse_expression(op, text, self._entries, limit, self._strict)
        if drawn:
            # A call that is refused declares none of them.
            check_top_k(op, top_k, len(self._entries) + len(drawn))
        self._declare(op, drawn)
        return self._evaluate(program, {})

    @locked
    def subset(self, names: Sequence[str]) -> Vocabulary:
        """A new vocabulary of the same settings that holds copies of the vectors of some names, in their order.

        Names declared in it later get the vectors that they get here, unless ``max_similarity`` compares them.

        Raises:
            TypeError: ``names`` is not a sequence of str.
            ValueError: a name is given twice.
            KeyError: a name is not declared.
        """
        vectors = {name: self._entry("subset", name).clone() for name in check_names("subset", names)}
        made = Vocabulary(
            self._dim,
            self._seed,
            unitary=self._unitary,
            device=self._device,
            dtype=self._dtype,
            strict=self._strict,
            max_similarity=self._max_similarity,
            quantized=self._quantized,
        )
        made._extend(vectors)
        return made

    @takes(populate=Bool(), least_squares=Bool())
    def transform_to(
        self,
        other: Vocabulary,
        names: Sequence[str] | None = None,
        *,
        populate: bool = False,
        least_squares: bool = False,
    ) -> Tensor:
        """The matrix T that takes vectors of this vocabulary to those of the same names in another: ``T @ words["A"]``.

        ``T = sum_n other[n] self[n]^T``, the sum of the outer products, which is right up to the cosines between the
        names here if their vectors have norm 1; or, by least squares, the T of the least squared error and, among
        those, of the smallest norm: exact as long as the vectors here are linearly independent. Rows are taken by
        ``rows @ T.mT``. Deterministic; computed in float64 and rounded once, without gradient. O(N D D'), by least
        squares also O(N D min(N, D)).

        Args:
            other: the vocabulary to translate into, of any D', on the same device.
            names: the names that count; None means all of this vocabulary.
            populate: whether ``other`` declares the names that it lacks, in their order, as it draws them.
            least_squares: whether to solve for T instead of adding up outer products.

        Returns:
            ``[D', D]`` in the wider of the two dtypes.

        Raises:
            TypeError: ``other`` is not a Vocabulary, or ``names`` not a sequence of str.
            ValueError: there are no names, or one is given twice.
            KeyError: a name is declared in only one of the two.
            RuntimeError: the devices differ.

        Source: nengo_spa, ``Vocabulary.transform_to``, which leaves out names that the other lacks.
        """
        if not isinstance(other, Vocabulary):
            raise TypeError(f"transform_to: other must be a Vocabulary, got {type(other).__name__}")
        chosen = self.names if names is None else check_names("transform_to", names)
        if not chosen:
            raise ValueError("transform_to: names must be at least one, got none")
        if other.device != self.device:
            raise RuntimeError(f"transform_to: other must be on {self.device}, got {other.device}")
        mine = self._chosen("transform_to", chosen)
        theirs = other._chosen("transform_to", chosen, populate)
        found = theirs.mT @ (torch.linalg.pinv(mine).mT if least_squares else mine)
        return found.to(torch.promote_types(self.dtype, other.dtype))

    @locked
    def _chosen(self, op: str, names: Sequence[str], populate: bool = False) -> Tensor:
        """The vectors of names in float64, ``[N, D]``; those that are missing are drawn first if so wanted."""
        if populate:
            self._declare(op, {name: frozenset() for name in names if name not in self._entries})
        with torch.no_grad():
            return torch.stack([self._entry(op, name) for name in names]).double()

    def cleanup(self, query: Tensor | str, top_k: int = 1) -> Cleanup:
        """The vectors nearest to a query, which may be an expression: ``cleanup("SCENE * ~COLOR")``.

        As `ItemMemory.cleanup`, with what `parse` gives for a str.

        Raises:
            ValueError: the vocabulary is empty, or a str is no expression over its names.
            TypeError, ValueError, RuntimeError: as for `ItemMemory.cleanup`.
        """
        if isinstance(query, str):
            query = self._parsed("cleanup", query, top_k)
        return super().cleanup(query, top_k)

    def ask(self, query: Tensor | str, top_k: int = 1) -> Any:
        """The names of the ``top_k`` vectors nearest to a query, which may be an expression: ``ask("SCENE * ~COLOR")``.

        As `ItemMemory.ask`, with what `parse` gives for a str.

        Raises:
            ValueError: the vocabulary is empty, or a str is no expression over its names.
            TypeError, ValueError, RuntimeError: as for `ItemMemory.cleanup`.
        """
        if isinstance(query, str):
            query = self._parsed("ask", query, top_k)
        return super().ask(query, top_k)

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        rows = self._converted_rows(fn)
        if rows.dtype != self._dtype:
            for name, row in self._entries.items():
                check_finite("to", f"vector of {name!r}", rows[row])
        self._take_rows(rows)

    @locked
    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        # The seed as text, since other readers of JSON may not take integers of 64 bits.
        settings = {"names": list(self._entries), "seed": str(self._seed), "unitary": self._unitary}
        return {"vectors": self.vectors}, settings | self._options()

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        vectors, names = tensors["vectors"], check_names("load", metadata["names"])
        vocabulary = cls(
            vectors.shape[1],
            int(metadata["seed"]),
            unitary=metadata["unitary"],
            device=device,
            dtype=vectors.dtype,
            strict=metadata.get("strict", True),
            max_similarity=metadata.get("max_similarity"),
            quantized=metadata.get("quantized", False),
        )
        check_vector("load", "vectors", vectors, (len(names), vectors.shape[1]))
        check_finite("load", "vectors", vectors)
        vocabulary._extend(dict(zip(names, vectors.to(vocabulary.device).unbind(), strict=True)))
        return vocabulary

    def _extend(self, vectors: dict[str, Tensor]) -> None:
        if vectors:
            # Autocast would widen half types.
            with full_precision(self._device):
                self._append(list(vectors), torch.stack(list(vectors.values())))

    def _draw(self, name: str, methods: Drawn, attempt: int = 0) -> Tensor:
        vector = drawn(name, self._dim, self._seed, self._unitary or "unitary" in methods, attempt)
        if "normalized" in methods:
            vector = functional.unit_rows(vector)
        return vector.to(device=self._device, dtype=self._dtype)

    def _evaluate(self, program: Program, pending: Mapping[str, Tensor]) -> Vector:
        dtype = compute_dtype(self._dtype)
        stack: list[Any] = []
        with torch.no_grad(), full_precision(self._device):
            for action, value in program:
                match action:
                    case "name" if value in pending:
                        stack.append(pending[str(value)].to(dtype).as_subclass(Vector))
                    case "name" if value in self._entries:
                        stack.append(self._entry("parse", str(value)).to(dtype).as_subclass(Vector))
                    case "name":
                        stack.append(_constant(str(value), self._dim, self._device, dtype).as_subclass(Vector))
                    case "identity":
                        stack.append(float(value) * functional.identity(self._dim, self._device, dtype))
                    case "unitary":
                        stack.append(stack.pop().unitary())
                    case "normalized":
                        stack.append(stack.pop().normalized())
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
        vector: Vector = result.to(self._dtype, copy=True).as_subclass(Vector)
        return vector


class _Others:
    """The vectors that those to be drawn must not resemble."""

    def __init__(self, words: Vocabulary, more: int) -> None:
        known = words.vectors.to(compute_dtype(words.dtype))
        self._count = len(known)
        self._units = torch.cat([functional.unit_rows(known), known.new_empty(more, words.dim)])
        self._limit = words._max_similarity or 0.0
        # Of names whose vector resembles another too much, its largest cosine.
        self._crowded: dict[str, float] = {}

    def add(self, vector: Tensor) -> None:
        self._units[self._count] = functional.unit_rows(vector.to(self._units.dtype))
        self._count += 1

    def unlike(self, words: Vocabulary, name: str, methods: Drawn) -> Tensor:
        """The first vector of a name that resembles none of them too much, else the one that does least."""
        least = float("inf")
        for attempt in range(_ATTEMPTS):
            vector = words._draw(name, methods, attempt)
            similarity = self._similarity(vector)
            if similarity <= self._limit:
                return vector
            if similarity < least:
                best, least = vector, similarity
        self._crowded[name] = least
        return best

    def tell(self) -> None:
        """Warns once of all."""
        if self._crowded:
            first, *more = self._crowded
            warn(
                f"Vocabulary: vector of {first!r}{f' and {len(more)} more names' if more else ''} must have cosines of "
                f"at most {self._limit:g} with the others, got up to {max(self._crowded.values()):.3g} in the best of "
                f"{_ATTEMPTS} draws, which is kept",
                UserWarning,
            )

    def _similarity(self, vector: Tensor) -> float:
        cosines = self._units[: self._count] @ functional.unit_rows(vector.to(self._units.dtype))
        return float(cosines.abs().max()) if self._count else 0.0


def _constant(name: str, dim: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    if name == "Identity":
        return functional.identity(dim, device, dtype)
    return torch.full((dim,), 0.0 if name == "Zero" else dim**-0.5, device=device, dtype=dtype)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {"*": operator.mul, "+": operator.add, "-": operator.sub}
