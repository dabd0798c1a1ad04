"""How far encodings are from the exact ones, by the size of the position.

    python bench/encoding_accuracy.py             the table of docs/encoding.md
    python bench/encoding_accuracy.py --update    writes it there

The exact values come from mpmath, with 300 bits.
"""

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import mpmath
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.encoding import BASE  # noqa: E402
from bench.tools.kernel_resources import row, update_document  # noqa: E402
from torch_hrr import encoding  # noqa: E402

DOCUMENT = ROOT / "docs" / "encoding.md"
DIM = 128
POSITIONS = 24  # of each size
SIZES = (0, 10, 10**2, 10**3, 10**4, 10**5, 10**6, 10**7, 10**8, 2**31 - 1)


def in_angles(positions: Tensor, dtype: torch.dtype) -> Tensor:
    """The usual composition, with positions, frequencies and angles in one dtype."""
    i = torch.arange(0, DIM, 2, dtype=dtype)
    angles = positions.to(dtype).unsqueeze(-1) * torch.exp(i * (-math.log(BASE) / DIM))
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)


FORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "ours, float32": lambda positions: encoding.sinusoidal_encoding(positions, DIM, dtype=torch.float32),
    "ours, float64": lambda positions: encoding.sinusoidal_encoding(positions, DIM, dtype=torch.float64),
    "ours, bfloat16": lambda positions: encoding.sinusoidal_encoding(positions, DIM, dtype=torch.bfloat16),
    "torch, float32 angles": lambda positions: in_angles(positions, torch.float32),
    "torch, float64 angles": lambda positions: in_angles(positions, torch.float64),
    "torch, bfloat16 angles": lambda positions: in_angles(positions, torch.bfloat16),
}


def near(size: int) -> Tensor:
    """Positions of a size: it is the largest."""
    generator = torch.Generator().manual_seed(size)
    return torch.cat(
        (
            torch.tensor([size]),
            torch.randint(size // 2, size + 1, (POSITIONS - 1,), generator=generator),
        )
    )


def exact(positions: Tensor) -> list[list[mpmath.mpf]]:
    """Rows of exact sines and cosines."""
    frequencies = [mpmath.mpf(BASE) ** (mpmath.mpf(-2 * i) / DIM) for i in range(DIM // 2)]
    return [
        [function(position * frequency) for frequency in frequencies for function in (mpmath.sin, mpmath.cos)]
        for position in positions.tolist()
    ]


def worst(result: Tensor, expected: list[list[mpmath.mpf]]) -> float:
    """The largest error of an element."""
    return max(
        float(abs(mpmath.mpf(value) - wanted))
        for values, wanteds in zip(result.double().tolist(), expected, strict=True)
        for value, wanted in zip(values, wanteds, strict=True)
    )


def table() -> str:
    """A row for each size of positions."""
    lines = [row(["position up to", *FORMS]), row(["---:"] * (1 + len(FORMS)))]
    with mpmath.workprec(300):
        for size in SIZES:
            positions = near(size)
            expected = exact(positions)
            errors = [f"{worst(form(positions), expected):.1e}" for form in FORMS.values()]
            lines.append(row([f"{size:,}", *errors]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/encoding.md")
    made = table()
    if parser.parse_args().update:
        DOCUMENT.write_text(update_document(DOCUMENT.read_text(), "accuracy", made))
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
