"""The demo: real data through every system, against baselines, with a table and a picture of the results."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
from pathlib import Path

from torch_hrr._shared import is_out_of_memory
from torch_hrr.io.atomic import write_json

JOBS = ("digits", "assembly", "sentences", "positions", "text", "field", "hierarchy", "control")
# What jobs need besides this package: the module, and the name to install it by.
_NEEDS = {
    "digits": ("sklearn", "scikit-learn"),
    "assembly": ("sklearn", "scikit-learn"),
    "hierarchy": ("sklearn", "scikit-learn"),
    "control": ("gymnasium", "gymnasium"),
}
# Sizes by option: what they are of, their defaults, and those of a quick demo.
_SIZES = {
    "dim": ("digits: dimension of the vectors", 1024, 1024),
    "units": ("text: units of the reservoir", 500, 500),
    "runs": ("field: runs of the dynamic field", 10, 5),
    "episodes": ("control: episodes of each brain", 100, 60),
}
# Of each size.
_MOST = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of all jobs."""
    listed = f"some of {', '.join(JOBS)} (default: all)"
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=JOBS, metavar="JOB", help=listed)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, half a minute on two cores")
    for name, (purpose, full, quick) in _SIZES.items():
        smaller = "" if quick == full else f", quick: {quick}"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=f"{purpose} (default: {full}{smaller})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the splits and all draws (default: 0)")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="digits: cpu, cuda or auto (default: cpu)")
    folder = Path("demo-output")
    parser.add_argument(
        "--output", type=Path, default=folder, metavar="FOLDER", help=f"for the figures (default: {folder})"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the table to this file")


def run(options: argparse.Namespace) -> int:
    """Runs the jobs asked for, each of which prints its results; then prints the table and draws the picture."""
    from torch_hrr.demos import figure, table

    for name, (_, full, quick) in _SIZES.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
        if not 1 <= getattr(options, name) <= _MOST:
            raise SystemExit(f"demo: --{name} must be at least 1 and at most {_MOST}, got {getattr(options, name)}")
    if not -(2**63) <= options.seed < 2**64:
        raise SystemExit(f"demo: --seed must be at least -2^63 and below 2^64, got {options.seed}")
    jobs = [job for job in JOBS if job in options.jobs]
    # Before the first job, whose results would be lost.
    for job in jobs:
        module, package = _NEEDS.get(job, ("torch", "torch"))
        try:
            importlib.import_module(module)
        except ImportError:
            raise SystemExit(f"demo: {job} needs {package}: pip install {package}") from None
    if "control" in jobs:
        importlib.import_module(f"{__name__}.control").check(options.seed)
    if options.json and options.json.is_dir():
        raise SystemExit(f"demo: --json must be a file, got {options.json}")
    try:
        for folder in (options.output, options.json.parent if options.json else options.output):
            folder.mkdir(parents=True, exist_ok=True)
        outcomes = [importlib.import_module(f"{__name__}.{job}").run(options) for job in jobs]
        rows = [row for outcome in outcomes for row in outcome.rows]
        systems = [row.system for row in rows]
        rows.sort(key=lambda row: systems.index(row.system))
        print(f"\n{table.draw(rows)}")
        if options.json:
            write_json("demo", options.json, [dataclasses.asdict(row) for row in rows])
        if panels := [outcome.panel for outcome in outcomes if outcome.panel]:
            picture = options.output / "demo.svg"
            picture.write_text(figure.draw(panels))
            print(f"\nall of it in one picture: {picture}")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SystemExit(f"demo: {error}") from None
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise SystemExit("demo: memory ran out, smaller sizes take less") from None
    return 0
