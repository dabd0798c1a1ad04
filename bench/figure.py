"""Draws the ratios of a run: `python -m torch_hrr bench hrr --plot ratios.svg`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

KINDS = {"torch": "eager torch", "compile": "torch.compile", "library": "the library users would pick"}


def ratios(report: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    """Of every entry, how many times as fast as the fastest peer of each kind: fresh output, warm cache."""
    rows = []
    for row in report["entries"]:
        found = {} if row["error"] else row["ratios"]["fresh warm"]
        known = {kind: peer["ratio"] for kind, peer in found.items() if peer is not None}
        if known:
            rows.append((f"{row['op']} {row['shape']}", known))
    return rows


def draw(reports: Sequence[dict[str, Any]], path: Path) -> None:
    """Bars on a logarithmic scale, one group an entry."""
    from matplotlib.figure import Figure

    rows = [row for report in reports for row in ratios(report)]
    figure = Figure(figsize=(8, 1 + 0.4 * max(len(rows), 1)), layout="constrained")
    axes = figure.subplots()
    height = 0.8 / len(KINDS)
    for place, (kind, label) in enumerate(KINDS.items()):
        known = [(number + place * height, row[kind]) for number, (_, row) in enumerate(rows) if kind in row]
        if known:
            axes.barh([y for y, _ in known], [ratio for _, ratio in known], height, label=label)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as")
    axes.set_yticks([number + height for number in range(len(rows))], [name for name, _ in rows])
    axes.invert_yaxis()
    systems, machine = ", ".join(report["system"] for report in reports), reports[0]["machine"]
    axes.set_title(f"{systems} on {machine['gpu'] or machine['cpu']}", fontsize="medium")
    if rows:
        axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
