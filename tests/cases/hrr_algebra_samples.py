"""Samples of operators that map the spectrum of rows: dimensions, broadcasts, special spectra, options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from cases.base import FLOATS, Sample
from cases.hrr import DIMS, LIBRARY_DIM

Shape = tuple[int, ...]
Adjust = Callable[[Tensor], Tensor]
# The arguments of an operator that are no tensors, at dimension D.
Options = Callable[[int], dict[str, Any]]
BOTH_WIDE = (torch.float32, torch.float64)


def away_from_zero(rows: Tensor) -> Tensor:
    """-4 sqrt(D) more at n = 1: all |A| within 1.4 .. 6.6 sqrt(D) or so, at every angle; DC negative."""
    dim = rows.shape[-1]
    changed = rows.clone()
    changed[..., 1 % dim] -= 4 * dim**0.5
    return changed


def negative_at_real_bins(rows: Tensor) -> Tensor:
    """DC and Nyquist negative."""
    weights = torch.full(rows.shape[-1:], 0.1, dtype=rows.dtype)
    weights[::2] = -1
    return rows.abs() * weights * torch.where(weights > 0, -1, 1)


def with_empty_bins(rows: Tensor) -> Tensor:
    """A quarter of a row four times: three of four bins are empty."""
    quarter = rows[..., : rows.shape[-1] // 4]
    return torch.cat([quarter] * 4, -1)


def with_a_zero_row(rows: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(rows[:1]), rows[1:]])


def values(*numbers: float) -> Adjust:
    return lambda drawn: torch.tensor(numbers, dtype=drawn.dtype).expand(drawn.shape)


SPECIAL_ROWS: tuple[tuple[str, Adjust, tuple[Shape, ...]], ...] = (
    ("away-from-zero", away_from_zero, ((3, 24), (3, 64), (2, 1024))),
    ("negative-real-bins", negative_at_real_bins, ((2, 7), (2, 24), (2, 64))),
    ("empty-bins", with_empty_bins, ((2, 12), (2, 32), (2, 96), (2, 1000))),
    ("zero-row", with_a_zero_row, ((3, 1), (3, 24), (3, 64))),
)
INTEGERS = (-2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
FRACTIONS = (-1.5, -0.25, 0.5, 1.75)


class Calls:
    """Makes the samples of an operator of rows `a`, with a gradient or direction before it and exponents after it."""

    def __init__(self, names: tuple[str, ...], options: Options):
        self.names, self.options = names, options
        self.directed = names[0] in {"grad", "v"}
        self.has_exponents = "exponent" in names

    def sample(
        self,
        id: str,
        a: Shape,
        exponent: Shape | None = None,
        direction: Shape | None = None,
        adjust: Mapping[str, Adjust] | None = None,
        options: dict[str, Any] | None = None,
        dtypes: tuple[torch.dtype, ...] = FLOATS,
    ) -> Sample:
        """By default one exponent a row, and a direction of the result's shape."""
        exponent = a[:-1] if exponent is None else exponent
        full = (*(torch.broadcast_shapes(a[:-1], exponent) if self.has_exponents else a[:-1]), a[-1])
        shapes = {"a": a, "exponent": exponent} | dict.fromkeys(("grad", "v"), direction or full)
        return Sample(
            id,
            {name: shapes[name] for name in self.names},
            self.options(a[-1]) | (options or {}),
            dtypes,
            {name: function for name, function in (adjust or {}).items() if name in self.names},
        )

    def many(self) -> tuple[Sample, ...]:
        sample = self.sample
        return (
            *(sample(f"D{dim}", (3 if dim <= 256 else 2, dim)) for dim in DIMS),
            sample("D2048", (2048,)),
            sample("D4095", (4095,), dtypes=(torch.float32, torch.bfloat16)),
            sample("D4096", (4096,), dtypes=(torch.float32, torch.float64, torch.float16)),
            sample("D4097", (2, 4097)),
            sample("D5000", (5000,), dtypes=(torch.float32,)),
            sample("D8192", (8192,), dtypes=(torch.float32,)),
            sample("row", (24,)),
            sample("batch", (2, 3, 64)),
            sample("empty", (0, 24)),
            sample("empty-inside", (2, 0, 64)),
            sample("ten-dimensions", (2, 1, 2, 1, 2, 1, 2, 1, 2, 20)),
            *(
                sample(f"{name}-D{shape[-1]}", shape, adjust={"a": adjust})
                for name, adjust, shapes in SPECIAL_ROWS
                for shape in shapes
            ),
            *(self.directions() if self.directed else ()),
            *(self.exponents() if self.has_exponents else ()),
            *(self.numbers(BOTH_WIDE) if self.options(8) else ()),
        )

    def directions(self) -> tuple[Sample, ...]:
        sample = self.sample
        return (
            sample("outer", (4, 1, 24), direction=(3, 24)),
            sample("row-and-batch", (24,), direction=(2, 3, 24)),
            sample("batch-and-row", (2, 3, 64), direction=(64,)),
            sample("ones", (5, 1, 48), direction=(1, 1, 48)),
        )

    def exponents(self) -> tuple[Sample, ...]:
        sample = self.sample
        return (
            sample("number", (3, 24), exponent=()),
            sample("number-D64", (3, 64), exponent=()),
            sample("one-row-many-exponents", (24,), exponent=(5,)),
            sample("one-exponent-a-column", (2, 3, 64), exponent=(3,)),
            sample("one-exponent-a-line", (2, 3, 64), exponent=(2, 1)),
            sample("outer-exponents", (4, 1, 24), exponent=(3,)),
            sample("no-exponents", (1, 24), exponent=(0,)),
            *(
                sample(f"{name}-D{dim}", (dim,), exponent=(len(numbers),), adjust={"exponent": values(*numbers)})
                for name, numbers in (("integers", INTEGERS), ("fractions", FRACTIONS))
                for dim in (7, 24, 64, 100, 128)
            ),
            *(
                sample(
                    f"negative-real-bins-{name}-D{dim}",
                    (dim,),
                    exponent=(len(numbers),),
                    adjust={"a": negative_at_real_bins, "exponent": values(*numbers)},
                )
                for name, numbers in (("integers", INTEGERS), ("fractions", FRACTIONS))
                for dim in (1, 2, 24, 64)
            ),
        )

    def numbers(self, dtypes: tuple[torch.dtype, ...] = FLOATS) -> tuple[Sample, ...]:
        """Other values of the options: bins that eps clamps, exponents, orders."""
        changes: dict[str, tuple[Callable[[int], Any], ...]] = {
            "eps": (lambda dim: dim, lambda dim: 1e-12, lambda dim: float("inf")),
            "exponent": tuple(lambda _, value=value: value for value in (*INTEGERS, *FRACTIONS)),
            "order": (lambda _: 0, lambda _: 2, lambda _: 3),
        }
        return tuple(
            self.sample(f"{name}-{change(dim):g}-D{dim}", (2, dim), options={name: change(dim)}, dtypes=dtypes)
            for name in self.options(8)
            for change in changes[name]
            for dim in (5, 24, 64, 100, 1024)
        )

    def small(self) -> tuple[Sample, ...]:
        """Rows without small bins, where finite differences and float32 gradients are precise."""

        def sample(id: str, a: Shape, **rest: Any) -> Sample:
            adjust = {"a": away_from_zero} | rest.pop("adjust", {})
            return self.sample(id, a, adjust=adjust, **rest)

        directed = (
            sample("outer", (2, 1, 5), direction=(3, 5)),
            sample("narrow-direction", (2, 5), direction=(5,)),
            sample("wide-direction", (4,), direction=(2, 4)),
        )
        powers = (
            sample("number", (2, 5), exponent=()),
            sample("row-and-exponents", (5,), exponent=(3,)),
            sample("outer-exponents", (2, 1, 5), exponent=(3,)),
            sample("integers", (6,), exponent=(6,), adjust={"exponent": values(*INTEGERS)}),
        )
        other = {"eps": lambda dim: 0.0, "exponent": lambda _: -2.0, "order": lambda _: 2}
        return (
            sample("row", (6,)),
            sample("batch", (2, 3, 5)),
            sample("D32", (2, 32)),
            sample("D17", (2, 17)),
            sample("one", (2, 1)),
            sample("empty", (0, 5)),
            sample("library", (LIBRARY_DIM,)),
            *(directed if self.directed else ()),
            *(powers if self.has_exponents else ()),
            *(sample(f"other-{name}", (2, 7), options={name: other[name](7)}) for name in self.options(8)),
        )

    def sized(self, batch: int, items: int, dim: int) -> Sample:
        return self.sample(f"{batch}x{dim}", (batch, dim), adjust={"a": away_from_zero})
