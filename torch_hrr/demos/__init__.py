"""The demo: real data through every system, against baselines, with a picture of the results."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

JOBS = ("digits", "assembly", "sentences", "text", "field", "hierarchy", "control")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of all jobs."""
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, help="what to run (default: all)")
    parser.add_argument("--dim", type=int, default=1024, help="digits: dimension of the vectors (default: 1024)")
    parser.add_argument("--seed", type=int, default=0, help="fixes the splits and all draws (default: 0)")
    parser.add_argument("--rounds", type=int, default=5, help="digits: timed rounds of the encoding (default: 5)")
    parser.add_argument("--device", default="cpu", help="digits: cpu, cuda or auto (default: cpu)")
    parser.add_argument("--units", type=int, default=500, help="text: units of the reservoir (default: 500)")
    parser.add_argument("--runs", type=int, default=10, help="field: runs of the dynamic field (default: 10)")
    parser.add_argument("--episodes", type=int, default=100, help="control: episodes of each brain (default: 100)")
    folder = Path("demo-output")
    parser.add_argument("--output", type=Path, default=folder, help=f"folder of the figures (default: {folder})")


def run(options: argparse.Namespace) -> int:
    """Runs the jobs asked for, each of which prints its results, and draws the picture."""
    from torch_hrr.demos import figure

    for name in ("dim", "rounds", "units", "runs", "episodes"):
        if getattr(options, name) < 1:
            raise SystemExit(f"demo: --{name} must be at least 1, got {getattr(options, name)}")
    if "control" in options.jobs:
        importlib.import_module(f"{__name__}.control").check(options.seed)
    panels = [importlib.import_module(f"{__name__}.{job}").run(options) for job in JOBS if job in options.jobs]
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "demo.svg").write_text(figure.draw(panels))
    print(f"\nall of it in one picture: {options.output / 'demo.svg'}")
    return 0
