"""How far HRR operators, steps of fields and layers that learn are from the exact results, beside torch's forms.

    python bench/accuracy.py             the tables of docs/hrr.md, docs/field.md and docs/hierarchy.md
    python bench/accuracy.py --update    writes them there

Exact: the definitions in NumPy's extended precision, 64 bits, which x86 processors have. Tables of encodings, whose
positions need more: encoding_accuracy.py.
"""

import argparse
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import hrr as products  # noqa: E402
from bench import hrr_algebra as algebra  # noqa: E402
from bench.field import depthwise  # noqa: E402
from bench.markdown import table, update  # noqa: E402
from torch_hrr import field, hierarchy, hrr  # noqa: E402
from torch_hrr._plain import hierarchy as plain  # noqa: E402

DOCS = ROOT / "docs"
Exact = NDArray[Any]  # of np.longdouble, or its complex form

LENGTHS = (256, 1000, 1009, 1024, 4096)
ROWS = 16

STENCILS = ("laplace", "box", "binomial")
STEPS = (1, 10, 100, 1000)
SHAPE = (12, 12, 12, 4)
DECAY, DIFFUSION = 0.005, 0.1

RULES = ("hebb", "oja", "gha", "subspace", "bcm", "softhebb")
TICKS = 1000
INPUTS, UNITS = 32, 16
LR, TAU = 1e-3, 100.0


def extended(x: Tensor) -> Exact:
    """The same numbers."""
    numbers: Exact = x.double().numpy().astype(np.longdouble)
    return numbers


def largest(error: Exact, wanted: Exact) -> float:
    """The error of the worst row over the norm of that row."""
    return float(np.max(np.linalg.norm(error, axis=-1) / np.linalg.norm(wanted, axis=-1)))


def relative(found: Tensor, wanted: Exact) -> str:
    """The largest error of an element over the largest element."""
    return f"{np.abs(extended(found) - wanted).max() / np.abs(wanted).max():.0e}"


@cache
def waves(dim: int) -> Exact:
    """``exp(-2 pi i j k / D)``, ``[D, D // 2 + 1]``: of real rows the other bins are conjugates."""
    turns = np.arange(dim)[:, None] * np.arange(dim // 2 + 1)[None] % dim
    angles = np.arange(dim).astype(np.longdouble) * (2 * np.arccos(np.longdouble(-1)) / dim)
    circle: Exact = (np.cos(angles) - 1j * np.sin(angles))[turns]
    return circle


def bins(rows: Exact) -> Exact:
    spectrum: Exact = rows @ waves(rows.shape[-1])
    return spectrum


def from_bins(spectrum: Exact, dim: int) -> Exact:
    twice = np.full(dim // 2 + 1, np.longdouble(2))
    twice[0] = 1
    if dim % 2 == 0:
        twice[-1] = 1
    rows: Exact = ((spectrum * twice) @ waves(dim).conj().T).real / dim
    return rows


# The exact bins by those of the operands; ours; torch's form; operands.
OPERATORS: dict[str, tuple[Callable[..., Exact], Callable[..., Tensor], Callable[..., Tensor], int]] = {
    "`bind`": (np.multiply, hrr.bind, products.bind_rfft, 2),
    "`unbind`": (lambda a, b: a * b.conj(), hrr.unbind, products.unbind_rfft, 2),
    "`inverse`": (lambda a: 1 / a, hrr.inverse, algebra.inverse_rfft, 1),
    "`unitary`": (lambda a: a / np.abs(a), hrr.unitary, algebra.unitary_rfft, 1),
    "`bind_power` with 10": (
        lambda a: a**10,
        lambda a: hrr.bind_power(a, 10),
        lambda a: algebra.bind_power_rfft(a, a.new_tensor(10.0)),
        1,
    ),
    "`multibind` of 8": (
        lambda *factors: np.prod(np.stack(factors), 0),
        lambda *factors: hrr.multibind(torch.stack(factors, -2)),
        lambda *factors: algebra.multibind_fold(torch.stack(factors, -2)),
        8,
    ),
}


def of_operators(dtype: torch.dtype) -> str:
    """A row an operator: at each length our largest error, and torch's in brackets."""
    cells = []
    for name, (definition, ours, theirs, count) in OPERATORS.items():
        row = [name]
        for dim in LENGTHS:
            generator = torch.Generator().manual_seed(dim)
            operands = [torch.randn(ROWS, dim, generator=generator, dtype=dtype) / dim**0.5 for _ in range(count)]
            wanted = from_bins(definition(*(bins(extended(x)) for x in operands)), dim)
            errors = [f"{largest(extended(form(*operands)) - wanted, wanted):.0e}" for form in (ours, theirs)]
            row.append(f"{errors[0]} ({errors[1]})")
        cells.append(row)
    return table(" | ".join([str(dtype).removeprefix("torch."), *(f"D = {dim}" for dim in LENGTHS)]), cells, left=1)


def weights_of(stencil: str) -> Exact:
    """Of the 3 x 3 x 3 elements around one, in a step of diffusion."""
    rate = np.longdouble(DIFFUSION)
    if stencil == "laplace":
        away = np.abs(np.arange(-1, 2))
        around: Exact = rate * (away[:, None, None] + away[:, None] + away == 1)
        around[1, 1, 1] = 1 - 6 * rate
        return around
    line = np.array([1, 1, 1] if stencil == "box" else [1, 2, 1], np.longdouble)
    around = rate * np.einsum("i,j,k->ijk", line, line, line) / line.sum() ** 3
    around[1, 1, 1] += 1 - rate
    return around


def exact_step(state: Exact, around: Exact) -> Exact:
    depth, height, width, _ = state.shape
    padded = np.pad((1 - np.longdouble(DECAY)) * state, ((1, 1), (1, 1), (1, 1), (0, 0)), mode="edge")
    after: Exact = np.zeros_like(state)
    for (i, j, k), weight in np.ndenumerate(around):
        after += weight * padded[i : i + depth, j : j + height, k : k + width]
    return after


def convolved(state: Tensor, around: Tensor) -> Tensor:
    return depthwise((1 - DECAY) * state, around.expand(state.shape[-1], 1, 3, 3, 3), "replicate").movedim(0, -1)


def of_fields() -> str:
    """A row a stencil and number of steps: the largest error of an element over the largest element."""
    cells = []
    for stencil in STENCILS:
        around = weights_of(stencil)
        start = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0)).bfloat16().double()
        wanted, done = extended(start), 0
        kernel = torch.from_numpy(around.astype(np.float64))
        theirs = {dtype: start.to(dtype) for dtype in (torch.float32, torch.float64, torch.bfloat16)}
        for steps in STEPS:
            for _ in range(steps - done):
                wanted = exact_step(wanted, around)
                theirs = {dtype: convolved(state, kernel.to(dtype)) for dtype, state in theirs.items()}
            done = steps
            row = [f"`{stencil}`", f"{steps:,}"]
            for dtype, state in theirs.items():
                ours = field.evolve(start.to(dtype), DECAY, DIFFUSION, steps, stencil=stencil)
                row += [relative(ours, wanted), relative(state, wanted)]
            cells.append(row)
    return table(
        "stencil | steps | float32: ours | conv3d | float64: ours | conv3d | bfloat16: ours | conv3d", cells, left=1
    )


def exact_ticks(inputs: Exact, weight: Exact, rule: str, activation: str) -> Exact:
    """The weights after all ticks of one sample each."""
    theta = np.ones(len(weight), np.longdouble)
    for x in inputs:
        u = weight @ x
        if rule == "softhebb":
            y = np.exp(u - u.max())
            y /= y.sum()
            change = y[:, None] * (x - u[:, None] * weight)
        else:
            y = np.tanh(u) if activation == "tanh" else u
            y = np.maximum(y, 0) if rule == "bcm" else y
            change = np.outer(y, x)
            if rule == "oja":
                change -= (y * y)[:, None] * weight
            elif rule in ("gha", "subspace"):
                pairs = np.outer(y, y)
                change -= (np.tril(pairs) if rule == "gha" else pairs) @ weight
            elif rule == "bcm":
                change *= (y - theta)[:, None]
                theta += (y * y - theta) / TAU
        weight = weight + np.longdouble(LR) * change
    return weight


def of_layers() -> str:
    """A row a rule: the largest error of a weight over the largest weight."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(TICKS, INPUTS, generator=generator) * torch.linspace(2, 0.1, INPUTS)
    weight = torch.randn(UNITS, INPUTS, generator=generator) / INPUTS**0.5
    cells = []
    for rule in RULES:
        activation = "linear" if rule in ("gha", "subspace") else "tanh"
        wanted = exact_ticks(extended(inputs), extended(weight), rule, activation)
        row = [f'`"{rule}"`']
        settings: dict[str, Any] = {"rule": rule, "lr": LR, "activation": activation, "tau": TAU}
        for dtype in (torch.float32, torch.float64):
            for scan in (hierarchy.plastic_scan, plain.plastic_scan):
                _, learned, _ = scan(inputs.to(dtype), weight.to(dtype), **settings)
                row.append(relative(learned, wanted))
        cells.append(row)
    return table("rule | float32: ours | torch | float64: ours | torch", cells, left=1)


def main() -> None:
    """Prints the tables, or writes them into their pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the tables into the pages")
    writes = parser.parse_args().update
    torch.set_num_threads(1)
    if np.finfo(np.longdouble).nmant < 63:
        sys.exit("bench/accuracy.py: np.longdouble has no 64 bits here: run it on x86")
    pages = {
        "hrr": of_operators(torch.float32) + "\n" + of_operators(torch.float64),
        "field": of_fields(),
        "hierarchy": of_layers(),
    }
    for name, made in pages.items():
        if writes:
            update(DOCS / f"{name}.md", {"accuracy": made})
        else:
            print(f"{name}\n\n{made}")


if __name__ == "__main__":
    main()
