"""How far encodings are from the exact ones, by the size of the position.

    python bench/encoding_accuracy.py             the table of docs/encoding.md
    python bench/encoding_accuracy.py --update    writes it there

The exact values come from mpmath, with 300 bits.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import mpmath
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.encoding import BASE, angles_of, side_by_side  # noqa: E402
from bench.markdown import table, update  # noqa: E402
from torch_hrr import encoding  # noqa: E402

DOCUMENT = ROOT / "docs" / "encoding.md"
DIM = 128
POSITIONS = 24  # of each size
SIZES = (0, 10, 10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 2**31 - 1)


DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}


def ours(dtype: torch.dtype, positions: Tensor) -> Tensor:
    return encoding.sinusoidal_encoding(positions, DIM, dtype=dtype)


def in_torch(dtype: torch.dtype, positions: Tensor) -> Tensor:
    """The usual composition, with positions, frequencies and angles in one dtype."""
    return side_by_side(angles_of(positions, DIM, dtype))


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    **{f"ours, {name}": partial(ours, dtype) for name, dtype in DTYPES.items()},
    **{f"torch, {name} angles": partial(in_torch, dtype) for name, dtype in DTYPES.items()},
}


def near(size: int) -> Tensor:
    """Positions of a size: it is the largest."""
    generator = torch.Generator().manual_seed(size)
    return torch.cat((torch.tensor([size]), torch.randint(size // 2, size + 1, (POSITIONS - 1,), generator=generator)))


def exact(positions: Tensor) -> list[list[mpmath.mpf]]:
    frequencies = [mpmath.mpf(BASE) ** (mpmath.mpf(-2 * i) / DIM) for i in range(DIM // 2)]
    return [
        [function(position * frequency) for frequency in frequencies for function in (mpmath.sin, mpmath.cos)]
        for position in positions.tolist()
    ]


def worst(result: Tensor, expected: list[list[mpmath.mpf]]) -> float:
    return max(
        float(abs(mpmath.mpf(value) - wanted))
        for values, wanteds in zip(result.double().tolist(), expected, strict=True)
        for value, wanted in zip(values, wanteds, strict=True)
    )


def errors() -> str:
    """A row for each size of positions."""
    cells = []
    with mpmath.workprec(300):
        for size in SIZES:
            positions = near(size)
            expected = exact(positions)
            cells.append([f"{size:,}", *(f"{worst(form(positions), expected):.1e}" for form in FORMS.values())])
    return table(" | ".join(["position up to", *FORMS]), cells, left=0)


def main() -> None:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/encoding.md")
    made = errors()
    if parser.parse_args().update:
        update(DOCUMENT, {"accuracy": made})
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
