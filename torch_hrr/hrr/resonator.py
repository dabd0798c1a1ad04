"""The resonator network: finds which vectors of several codebooks were bound together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_floating, check_vectors, listed, tensor
from torch_hrr._random import outside_transforms, seeded_generator
from torch_hrr._repr import Described, place_of
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Int, Seed, takes
from torch_hrr.hrr import functional
from torch_hrr.hrr._held import HeldVectors
from torch_hrr.hrr._likely import look_at
from torch_hrr.hrr.memory import compute_dtype
from torch_hrr.runtime import resolve_device

_CONVERGED = 0.9
# Most problems are solved in a few iterations or run into a cycle, so that short attempts beat long ones.
_ATTEMPT = 10
# Attempts whose starts are made together, all of them where few iterations are allowed.
_STARTS = 20


@dataclass(frozen=True, eq=False, repr=False)
class Factorization(Described):
    """What `Resonator.factorize` found; ``...`` are the leading dimensions of its argument, F is the number of factors.

    Attributes:
        indices: ``[..., F]`` int64, the row of each codebook.
        signs: ``[..., F]``, +1 or -1 in the dtype computed in. A bound vector determines only their product, so the
            first factor carries it and the others are +1.
        iterations: ``[...]`` int64, iterations until convergence, `max_iterations` without it.
        converged: ``[...]`` bool, whether the bound answers, signs included, have a cosine above 0.9 with the argument.
        cosines: ``[...]``, that cosine; NaN for a row that holds NaN or infinity.
    """

    indices: Tensor
    signs: Tensor
    iterations: Tensor
    converged: Tensor
    cosines: Tensor


class Resonator(HeldVectors):
    """Factorises ``x = s bind(X_1[i_1], ..., X_F[i_F])``, s = +1 or -1, into its indices and its sign.

    Searches all products at once, in superposition: the estimate of a factor is ``unitary(sum_m c_m X_f[m])``, where
    ``c_m`` is the dot product of ``X_f[m]`` and x unbound by the newest estimates of the other factors. It starts from
    the sum of each codebook; problems not yet solved restart from a random mixture of it every ten iterations. An
    iteration's answer is the row with the largest ``abs(c_m)`` of each codebook; the best one seen is reported.

    Meant for unitary codebooks, which unbinding inverts exactly. With D = 1024 and three of them, 20 vectors each,
    every problem is solved, nearly all within ten iterations; the number of products that can be searched grows faster
    than D. Other codebooks work as far as unbinding approximates their inverse.

    Deterministic: a problem's answer depends on it, the codebooks and the seed alone, not on the batch or the threads.
    A solved problem is frozen, and one that holds NaN leaves the others as they are.

    A module of a model: `to` and the like convert the codebooks, which stay at least float32; they and the seed are in
    the `state_dict`, but not among the buffers, and ``load_state_dict`` takes over codebooks of any sizes.

    Args:
        codebooks: F >= 1 tensors ``[M_f, D]``, M_f >= 1, floating point, of one D, dtype and device. They are copied;
            half types are held and computed in float32.
        seed: seed of the random mixtures, any int, taken modulo 2^64.

    Raises:
        TypeError: `codebooks` is not a sequence, or a codebook not a tensor, not of a supported dtype, or of another
            dtype than the first.
        ValueError: There is no codebook, or one is not ``[M, D]``, empty, or of another D than the first.
        RuntimeError: A codebook is on another device than the first.

    Source: Frady, Kent, Olshausen, Sommer, Resonator networks 1, Neural Computation 32(12), 2020.
    """

    file_format = "torch_hrr.resonator"

    @takes(seed=Seed())
    def __init__(self, codebooks: Sequence[Tensor] | Tensor, *, seed: int = 0) -> None:
        """Copies the codebooks."""
        super().__init__()
        # The order of a set of tensors is that of their addresses.
        if isinstance(codebooks, Set | Mapping):
            raise TypeError(f"Resonator: codebooks must be a sequence of tensors, got {type(codebooks).__name__}")
        if isinstance(codebooks, Tensor):
            check_vectors("Resonator", "codebooks", codebooks, rank=3)
        given = listed("Resonator", "codebooks", codebooks, "a sequence of tensors")
        books = tuple(tensor("Resonator", "codebooks", book) for book in given)
        if not books:
            raise ValueError("Resonator: codebooks must hold at least one codebook, got 0")
        for book in books:
            check_floating("Resonator", "codebooks", book)
            if book.dim() != 2 or 0 in book.shape:
                raise ValueError(f"Resonator: codebooks must be [M, D] with M, D >= 1, got {list(book.shape)}")
            check_vectors("Resonator", "codebooks", book, books[0].shape[1], books[0].device)
            if book.dtype != books[0].dtype:
                raise TypeError(f"Resonator: codebooks must have one dtype, got {books[0].dtype} and {book.dtype}")
            look_at("Resonator", "codebooks", book)
        self.seed = seed
        self._hold(books)

    @writable_anywhere
    def _hold(self, books: tuple[Tensor, ...]) -> None:
        dtype = compute_dtype(books[0].dtype)
        self.codebooks = tuple(
            book.detach().to(dtype, copy=True, memory_format=torch.contiguous_format) for book in books
        )
        # Dot products with all rows as one weighted sum of columns, whose order is fixed, unlike a matrix product's.
        self._columns = tuple(book.t().contiguous() for book in self.codebooks)

    def _summary(self) -> dict[str, Any]:
        first, sizes = self.codebooks[0], [book.shape[0] for book in self.codebooks]
        return {"dim": first.shape[1], "codebooks": sizes, "seed": self.seed, **place_of(first.device, first.dtype)}

    def _place(self) -> tuple[int, torch.device, torch.dtype]:
        first = self.codebooks[0]
        return first.shape[1], first.device, first.dtype

    def _convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        books = tuple(fn(book) for book in self.codebooks)
        check_floating("to", "codebooks", books[0])
        self._hold(books)

    @takes(max_iterations=Int(1), check_every=Int(1).or_none())
    @torch.no_grad()
    def factorize(self, x: Tensor, max_iterations: int = 200, *, check_every: int | None = 4) -> Factorization:
        """Finds the factors of each row of `x`; see the class.

        Cost of an iteration: F (F - 1) unbindings, F projections, 2 F products with a codebook and F + 2 further
        transforms per row. Reads nothing back from the device except one bool every `check_every` iterations. No
        gradient.

        Args:
            x: ``[..., D]``, floating point, on the codebooks' device; taken in their dtype, of any scale that this
                holds.
            max_iterations: after how many an unsolved problem is given up, >= 1.
            check_every: after how many iterations to check whether all are solved; with None it never checks, nor waits
                for the device.

        Returns:
            The factors, their signs and how the search went.

        Raises:
            TypeError: `x` is not a tensor of a supported dtype.
            ValueError: D of `x` is not the codebooks'.
            RuntimeError: `x` is on another device than the codebooks.
        """
        first, factors = self.codebooks[0], len(self.codebooks)
        x = check_vectors("factorize", "x", x, first.shape[1], first.device)
        rows = x.reshape(-1, first.shape[1]).to(first.dtype)
        with full_precision(x.device):
            found = self._search(rows, max_iterations, check_every)
        batch = x.shape[:-1]
        return Factorization(
            indices=found.indices.view(*batch, factors),
            signs=found.signs.view(*batch, factors),
            iterations=found.iterations.view(batch),
            converged=found.converged.view(batch),
            cosines=found.cosines.view(batch),
        )

    def _content(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        # The seed as text, since other readers of JSON may not take integers of 64 bits.
        return {f"codebook.{i}": book for i, book in enumerate(self.codebooks)}, {"seed": str(self.seed)}

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        place = resolve_device(device)
        books = [tensors[f"codebook.{i}"].to(place) for i in range(len(tensors))]
        return cls(books, seed=int(metadata["seed"]))

    def _search(self, x: Tensor, max_iterations: int, check_every: int | None) -> Factorization:
        count, factors = x.shape[0], len(self.codebooks)
        x = functional.unit_rows(x)
        starts = self._starts(1 + (max_iterations - 1) // _ATTEMPT)
        estimates: list[Tensor] = []
        indices = torch.zeros(count, factors, dtype=torch.int64, device=x.device)
        cosines = torch.zeros(count, dtype=x.dtype, device=x.device)
        iterations = torch.full((count,), max_iterations, dtype=torch.int64, device=x.device)
        converged = torch.zeros(count, dtype=torch.bool, device=x.device)
        for iteration in range(1, max_iterations + 1):
            if (iteration - 1) % _ATTEMPT == 0:
                estimates = [start.expand_as(x) for start in next(starts)]
            answer = self._update(x, estimates)
            cosine = self._cosine(x, answer)
            # The first answer is taken whatever its cosine, so that a row of NaN reports NaN.
            better = ~converged & ((cosine.abs() > cosines.abs()) | (iteration == 1))
            indices = torch.where(better.unsqueeze(-1), answer, indices)
            cosines = torch.where(better, cosine, cosines)
            solved = ~converged & (cosines.abs() > _CONVERGED)
            iterations = torch.where(solved, iteration, iterations)
            converged = converged | solved
            if check_every is not None and iteration % check_every == 0 and bool(converged.all()):
                break
        ones = torch.ones_like(cosines).unsqueeze(-1)
        signs = torch.cat([torch.where(cosines.unsqueeze(-1) < 0, -ones, ones), ones.expand(-1, factors - 1)], -1)
        return Factorization(indices, signs, iterations, converged, cosines.abs())

    def _starts(self, attempts: int) -> Iterator[tuple[Tensor, ...]]:
        """For every attempt the first estimate ``[D]`` of each factor."""
        generator = seeded_generator(self.seed)
        for first in range(0, attempts, _STARTS):
            count = min(_STARTS, attempts - first)
            with outside_transforms():
                weights = [torch.ones(count, len(book), dtype=torch.float64, device="cpu") for book in self.codebooks]
                # Attempt by attempt, so that to allow for more of them does not change the earlier.
                for attempt in range(0 if first else 1, count):
                    for weight in weights:
                        weight[attempt].normal_(generator=generator)
            starts = [
                functional.unitary(functional.superpose(book, weight.to(book), normalize=False))
                for book, weight in zip(self.codebooks, weights, strict=True)
            ]
            yield from zip(*starts, strict=True)

    def _update(self, x: Tensor, estimates: list[Tensor]) -> Tensor:
        """One iteration: replaces the estimates one after the other and returns the answer ``[B, F]``."""
        answer = []
        for factor, (book, columns) in enumerate(zip(self.codebooks, self._columns, strict=True)):
            rest = x
            for other, estimate in enumerate(estimates):
                if other != factor:
                    rest = functional.unbind(rest, estimate)
            similarities = functional.superpose(columns, rest, normalize=False)
            estimates[factor] = functional.unitary(functional.superpose(book, similarities, normalize=False))
            answer.append(similarities.abs().argmax(-1))
        return torch.stack(answer, -1)

    def _cosine(self, x: Tensor, answer: Tensor) -> Tensor:
        chosen = [book[index] for book, index in zip(self.codebooks, answer.unbind(-1), strict=True)]
        bound = functional.unit_rows(functional.multibind(torch.stack(chosen, -2)))
        # Element 0 of a correlation is the dot product; torch.sum's bits may depend on the batch, these do not.
        return functional.unbind(x, bound)[:, 0]
