"""The demo's results in one picture: bars as SVG, which needs no library to draw."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

WIDTH, LABELS, BARS = 760, 300, 380
ROW, GAP, HEAD = 24, 30, 26
COLOURS = {True: "#2b6cb0", False: "#a0aec0"}


@dataclass(frozen=True)
class Bar:
    """One result.

    Attributes:
        label: What it is of.
        value: Its number.
        ours: Whether it is this package's; a baseline is grey.
    """

    label: str
    value: float
    ours: bool


@dataclass(frozen=True)
class Panel:
    """Results of one job.

    Attributes:
        title: The job, and whether more is better.
        largest: The value of a bar of full length.
        digits: Decimals that are written.
        bars: The results.
    """

    title: str
    largest: float
    digits: int
    bars: Sequence[Bar]


def draw(panels: Sequence[Panel]) -> str:
    """The panels, one under the other, as the text of an SVG file; the same numbers give the same bytes."""
    height = sum(HEAD + ROW * len(panel.bars) + GAP for panel in panels)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="14">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    top = 0
    for panel in panels:
        lines.append(f'<text x="10" y="{top + 20}" font-weight="bold">{escape(panel.title)}</text>')
        top += HEAD
        for bar in panel.bars:
            length = round(BARS * bar.value / panel.largest, 1)
            middle = top + ROW - 8
            lines += [
                f'<text x="{LABELS}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>',
                f'<rect x="{LABELS + 8}" y="{top + 3}" width="{length}" height="{ROW - 6}" '
                f'fill="{COLOURS[bar.ours]}"/>',
                f'<text x="{LABELS + 14 + length:g}" y="{middle}">{bar.value:.{panel.digits}f}</text>',
            ]
            top += ROW
        top += GAP
    return "\n".join([*lines, "</svg>"]) + "\n"


def draw_grid(cells: Any, draw: Callable[[Any, Any], None], size: tuple[float, float], path: Path) -> Path | None:
    """Draws rows of cells, each ``size`` inches, by matplotlib; gives the path, or None where it is not installed."""
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        return None
    rows, columns = len(cells), len(cells[0])
    figure = figures.Figure(figsize=(columns * size[0], rows * size[1]), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for row, line in enumerate(cells):
        for column, cell in enumerate(line):
            draw(grid[row][column], cell)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path
