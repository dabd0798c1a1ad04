"""The table of conventions in docs/encoding.md: how libraries lay out sinusoids, how far off they are, and how far we.

    python bench/encoding_conventions.py             the table
    python bench/encoding_conventions.py --update    writes it into the page

Layouts and the libraries' errors are those of `encoding.CONVENTIONS`. Ours is the largest difference between our
results in float32 and in float64, which tests hold to 50 digits, at the same positions.
"""

import argparse
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import row, update  # noqa: E402
from torch_hrr import encoding  # noqa: E402

DOCUMENT = ROOT / "docs" / "encoding.md"
WIDE = (torch.float32, torch.float64)
POSITIONS = (10, 10**3, 10**5, 10**7)
HEADER = (
    *("name", "ladder", "layout", "first", "odd dim", "its errors at 10, 1e3, 1e5, 1e7", "ours", "in bfloat16"),
    "source",
)


def layout(entry: encoding.Convention) -> str:
    """The columns in words."""
    words = "interleaved" if entry.layout == "interleaved" else "cos\\|sin" if entry.scale < 0 else "sin\\|cos"
    if abs(entry.scale) != 1:
        words += f" of {abs(entry.scale):g} t"
    if entry.scaled:
        words += ", / sqrt(dim)"
    if len(entry.axes) > 1:
        order = ", ".join(entry.axes)
        words += f", sines of {order} first" if entry.by_function else f" of {order}"
        words += f" in {':'.join(map(str, entry.shares))}" if len({*entry.shares}) > 1 else ""
    return words


def first(entry: encoding.Convention) -> str:
    """Where positions begin, and what padding does."""
    words = f"{entry.first:g}" + (f", padding {entry.padding}" if entry.padding else "")
    if entry.span is not None:
        words += f", times {entry.span[0]:.4g} / n"
    return words


def ours(name: str, entry: encoding.Convention) -> float:
    """The largest error of our own results."""
    axes = len(entry.axes)
    dim = 16 * axes
    if entry.span is not None:
        rows = [encoding.sinusoidal_convention(name, None, dim, dtype, grid=(99, 101)) for dtype in WIDE]
    else:
        positions = torch.tensor(POSITIONS)
        positions = positions if axes == 1 else positions.unsqueeze(-1).expand(-1, axes)
        rows = [encoding.sinusoidal_convention(name, positions, dim, dtype) for dtype in WIDE]
    return float((rows[0] - rows[1]).abs().max())


def table() -> str:
    """A row for each convention."""
    lines = [row(HEADER), row(["---"] * len(HEADER))]
    for entry in dict.fromkeys(encoding.CONVENTIONS.values()):
        name, *others = entry.names
        known = entry.errors if any(entry.errors) else ()
        cells = [
            f"`{name}`" + (f", also {', '.join(f'`{other}`' for other in others)}" if others else ""),
            entry.ladder,
            layout(entry),
            first(entry),
            entry.odd,
            ", ".join("-" if error is None else f"{error:.0e}" for error in known) or "-",
            f"{ours(name, entry):.1e}",
            entry.half,
            entry.source,
        ]
        lines.append(row(cells))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/encoding.md")
    made = table()
    if parser.parse_args().update:
        update(DOCUMENT, {"conventions": made})
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
