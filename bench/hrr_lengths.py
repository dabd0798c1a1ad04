"""The HRR operators at every kind of length: `python bench/run.py hrr --lengths [--plot docs/hrr_lengths.svg]`."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.fft import irfft, rfft

from bench import hrr as products
from bench import hrr_algebra as algebra
from bench.entry import Entry, Inputs, Peer, rows_of, vectors
from torch_hrr import hrr

ROWS = (1, 100, 1000)
LENGTHS = (
    50, 64, 100, 128, 200, 243, 256, 300, 343, 384, 500, 512, 560, 600, 980, 1000, 1001, 1006, 1009, 1024, 1500, 2000,
    2187, 2500, 3000, 4096, 5000, 10000, 15000, 20000, 24576, 32768,
)  # fmt: skip
FACTORS = 4
# Floors of time of torch's form / ours: of products at lengths without prime factors above 7, and of all else.
SMOOTH_FLOOR = 1.3
FLOOR = 1.0


def packed(bins: Tensor, a: Tensor) -> Tensor:
    """The bins as hrr.spectrum packs them."""
    real = torch.view_as_real(bins).flatten(-2)
    kept = torch.cat([real[..., :1], real[..., 2:]], -1)
    return kept[..., : a.shape[-1]]


def steady_rows(dim: int) -> Callable[[int, torch.Generator], Inputs]:
    """Rows whose bins are near 1: small ones magnify rounding, and at negative ones roots jump."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        rows = 0.2 * vectors(batch, dim, generator=generator)
        rows[:, 0] += 1
        return (rows,)

    return inputs


def one(dim: int) -> Callable[[int, torch.Generator], Inputs]:
    return rows_of((dim,))


def two(dim: int) -> Callable[[int, torch.Generator], Inputs]:
    return rows_of((dim,), (dim,))


def backward(op: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Inputs]:
    """Forward and both gradients."""
    return partial(products.forward_backward, op)


# Ours, torch's form, the inputs by length, and how many vectors are read and written.
OPERATORS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[int], Any], int]] = {
    "bind": (hrr.bind, products.bind_rfft, two, 3),
    "unbind": (hrr.unbind, products.unbind_rfft, two, 3),
    "bind_normalize": (hrr.bind_normalize, products.bind_normalize_rfft, two, 3),
    "inverse": (hrr.inverse, algebra.inverse_rfft, steady_rows, 2),
    "unitary": (hrr.unitary, algebra.unitary_rfft, one, 2),
    # Square roots, of the principal branch.
    "bind_power": (lambda a: hrr.bind_power(a, 0.5), lambda a: irfft(rfft(a).sqrt(), n=a.shape[-1]), steady_rows, 2),
    "spectrum": (hrr.spectrum, lambda a: rfft(a), one, 2),
    "multibind": (hrr.multibind, algebra.multibind_fold, lambda dim: rows_of((FACTORS, dim)), FACTORS + 1),
    "backward": (
        backward(hrr.bind), backward(products.bind_rfft), lambda dim: rows_of((dim,), (dim,), (dim,), leaves=2), 5,
    ),
}  # fmt: skip
PRODUCTS = ("bind", "unbind", "bind_normalize")


def largest_factor(n: int) -> int:
    """The largest prime factor of n > 1."""
    largest, factor = 1, 2
    while factor * factor <= n:
        while n % factor == 0:
            largest, n = factor, n // factor
        factor += 1
    return max(largest, n)


def floor_of(op: str, dim: int) -> float:
    return SMOOTH_FLOOR if op in PRODUCTS and largest_factor(dim) <= 7 else FLOOR


def entry(op: str, rows: int, dim: int) -> Entry:
    ours, theirs, inputs, moved = OPERATORS[op]
    peer = Peer("torch.fft", theirs, compared=packed if op == "spectrum" else None)
    traffic = 4 * moved * rows * dim
    return Entry(op, f"{rows}x{dim}", rows, inputs(dim), ours, (peer,), traffic, floor=floor_of(op, dim))


ENTRIES = tuple(entry(op, rows, dim) for dim in LENGTHS for rows in ROWS for op in OPERATORS)


def heading() -> str:
    return " ".join(["    D  rows", *(f"{op[:8]:>8}" for op in OPERATORS)])


def line(size: str, found: Sequence[dict[str, Any]]) -> str:
    """The ratios at one size, those below their floor marked."""
    rows, dim = size.split("x")
    cells = {row["op"]: row for row in found}

    def cell(op: str) -> str:
        row = cells.get(op)
        if row is None or row["error"]:
            return "-" if row is None else "ERROR"
        value = row["judged"]["ratio"]
        return f"{value:.2f}{' ' if value >= row['floor'] else '*'}"

    return " ".join([f"{dim:>5} {rows:>5}", *(f"{cell(op):>8}" for op in OPERATORS)])


def below(found: Iterable[dict[str, Any]]) -> list[str]:
    """The entries that miss their floor, or have no ratio."""
    return [f"{row['op']} {row['shape']}" for row in found if row["error"] or row["met"] == "no"]


def draw(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """Ratios over the length, a panel for every number of rows and a line for every operator."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    (report,) = reports
    figure = Figure(figsize=(9, 8), layout="constrained")
    panels = figure.subplots(len(ROWS), 1, sharex=True)
    for axes, rows in zip(panels, ROWS, strict=True):
        for op in OPERATORS:
            known = [
                (int(row["shape"].split("x")[1]), row["judged"]["ratio"])
                for row in report["entries"]
                if row["op"] == op and row["shape"].startswith(f"{rows}x") and not row["error"]
            ]
            if known:
                axes.plot(*zip(*known, strict=True), marker=".", linewidth=0.8, label=op)
        axes.axhline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylabel(f"times as fast, {rows} row{'s' * (rows > 1)}")
    panels[-1].set_xlabel("D")
    panels[0].legend(ncols=3, fontsize="small")
    figure.suptitle(f"Operators over torch.fft, one thread, {report['machine']['cpu']}", fontsize="medium")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Text as text, and nothing that differs from run to run.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "lengths"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
