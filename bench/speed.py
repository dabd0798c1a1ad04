"""The tables of docs/speed.md, from reports of bench/run.py of one machine and one commit.

    python bench/run.py hrr --json bench-output/hrr.json               and so on: docs/speed.md has all commands
    python bench/speed.py bench-output/*.json [--update]

Every entry of a report is in a table; of `--lengths` those of 100 rows are, and the others in the picture. A ratio is
the time of the fastest other form over ours, be it of torch, torch.compile or another package. `--update` writes every
table of the page, and docs/hrr_lengths.svg; of a system without a report it says that it was not run.
"""

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import hrr_lengths, run  # noqa: E402
from bench.markdown import table, update  # noqa: E402

Report = dict[str, Any]
PAGE, PICTURE = ROOT / "docs" / "speed.md", ROOT / "docs" / "hrr_lengths.svg"
LENGTHS = "hrr-lengths"
COMMANDS = {"hrr": "hrr", LENGTHS: "hrr --lengths"} | {system: system for system in run.SYSTEMS[1:]}
SAME = ("cpu", "isa", "torch", "python", "threads", "commit")
# Entries that are a grid, by what its rows and columns are; the others are listed.
GRIDS: dict[str, dict[str, str]] = {
    "hrr": {
        "`bind_normalize`: D, rows": r"bind_normalize (?P<column>\d+)x(?P<row>\d+)",
        "`bind`: D, rows": r"bind (?P<column>\d+)x(?P<row>\d+)",
    },
    LENGTHS: {"100 rows: D": r"(?P<column>\w+) 100x(?P<row>\d+)"},
    "assembly": {
        "`k_winners`: rows x n": r"k_winners (?P<row>\d+x\d+) (?P<column>k\d+)",
        "`k_winners` of other rows, over normal ones": r"k_winners (?P<column>[a-z-]+) (?P<row>1x\d+ k\d+)",
    },
    "encoding": {"`sinusoidal_encoding`: rows x dim": r"sinusoidal_encoding (?P<row>\d+x\d+) (?P<column>\w+)"},
}
# Not another form of the same, so no ratio that counts.
NORMAL = "normal rows"
# HRR's targets are operators of its entries, beside a loop in NumPy.
WITHOUT_TARGETS = ("hrr", LENGTHS)
# A round of --quick.
QUICK_SECONDS = 1e-3


def read(paths: Sequence[Path]) -> dict[str, Report]:
    """The reports by system: whole, and of one machine."""
    reports: dict[str, Report] = {}
    files: dict[str, Path] = {}
    for path in paths:
        try:
            content = json.loads(path.read_text())
            found = {each["system"]: each for each in (content if isinstance(content, list) else [content])}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SystemExit(f"speed: {path} is no report of bench/run.py: {type(error).__name__}: {error}") from None
        for system, report in found.items():
            if system in reports:
                raise SystemExit(f"speed: {files[system]} and {path} are both of {system}")
            if report["machine"]["gpu"]:
                raise SystemExit(f"speed: {path} is of a GPU, the page is of CPUs")
            check_whole(path, system, report)
            reports[system], files[system] = report, path
            first = next(iter(reports))
            for key in SAME:
                one, other = (reports[each]["machine"][key] for each in (first, system))
                if one != other:
                    raise SystemExit(f"speed: {files[first]} and {path} differ in {key}: {one} and {other}")
    return reports


def check_whole(path: Path, system: str, report: Report) -> None:
    """Nothing is missing, and nothing failed."""
    known = [each.name for each in hrr_lengths.ENTRIES]
    if system != LENGTHS:
        entries, targets = run.modules_of(system)
        known = [each.name for each in (*entries.ENTRIES, *targets.TARGETS)]
    rows = {name(row): row for row in (*report["entries"], *report["targets"])}
    missing = [each for each in known if each not in rows]
    if missing:
        raise SystemExit(f"speed: {path} lacks {len(missing)} of {len(known)} rows of {system}: {missing[0]!r} first")
    for each, row in rows.items():
        if row["error"]:
            raise SystemExit(f"speed: {path} has an error for {each!r}: {row['error']}")


def name(row: Report) -> str:
    """As --filter takes it."""
    return row["name"] if "name" in row else f"{row['op']} {row['shape']}"


def fastest(row: Report) -> Report:
    """The fastest other form, with fresh results and warm inputs."""
    found: list[Report] = [each for each in row["ratios"]["fresh warm"].values() if each]
    return min(found, key=lambda each: each["seconds"])


def digits(value: float) -> str:
    """Three of them, more where whole ones are."""
    return f"{value:.{max(0, 3 - len(str(int(value))))}f}"


def times(ratio: float) -> str:
    return f"{digits(ratio)}x"


def amount(seconds: float) -> str:
    units = ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns"))
    scale, unit = next((each for each in units if seconds * each[0] >= 1), units[-1])
    return f"{digits(seconds * scale)} {unit}"


def natural(text: str) -> list[Any]:
    """For an order in which numbers within names count as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


def grid(what: str, found: dict[tuple[str, str], Report], columns: Sequence[str], timed: bool) -> str:
    """Ratios, with our times or without; no cell where nothing is measured."""

    def cell(key: tuple[str, str]) -> str:
        took = f" ({amount(found[key]['ours']['seconds'])})" if timed and key in found else ""
        return times(fastest(found[key])["ratio"]) + took if key in found else ""

    rows = sorted({row for row, _ in found}, key=natural)
    return table(" | ".join((what, *columns)), [[row, *(cell((row, each)) for each in columns)] for row in rows], 1)


def entries_of(system: str, report: Report) -> Iterator[str]:
    """The grids, and a list of what is in none."""
    listed = report["entries"]
    for what, pattern in GRIDS.get(system, {}).items():
        matches = [(re.fullmatch(pattern, name(row)), row) for row in listed]
        found = {(match["row"], match["column"]): row for match, row in matches if match}
        listed = [row for match, row in matches if not match]
        columns = list(hrr_lengths.OPERATORS) if system == LENGTHS else sorted({x for _, x in found}, key=natural)
        yield grid(what, found, columns, timed=system != LENGTHS)
    if system == LENGTHS:
        yield f"![Ratios at every length, for 1, 100 and 1000 rows]({PICTURE.name})\n"
        return
    cells = []
    for row, other in ((row, fastest(row)) for row in listed):
        took = map(amount, (other["seconds"], row["ours"]["seconds"]))
        cells.append((f"`{name(row)}`", f"`{other['peer']}`", *took, times(other["ratio"])))
    yield table("entry | fastest other form | its time | ours | ratio", cells)


def told(*values: tuple[Callable[[Any], str], Any]) -> str:
    """What there is of them, in words."""
    return ", ".join(shown(value) for shown, value in values if value is not None)


def targets_of(report: Report) -> Iterator[str]:
    """What is measured beside the entries, and what was asked of it."""
    cells = []
    for row in (row for row in report["targets"] if row["status"] == "measured"):
        shown = {"s": amount, "x": times, "%": "{:.1%}".format}[row["unit"]]
        baseline, speedup = row["baseline"], row["speedup"]
        beside = told((str, baseline["what"]), (amount, baseline["seconds"]))
        asked = told((shown, row["target"]), (times, speedup["target"]))
        ratio = told((times, speedup["measured"]))
        cells.append((name(row).removeprefix("target "), beside, row["note"], shown(row["result"]), ratio, asked))
    if cells:
        yield table("target | beside | note | ours | ratio | asked for", cells, left=3)


def summary(reports: dict[str, Report]) -> str:
    """A row for each system, and of the lengths for each number of rows."""
    cells = []
    for system, report in reports.items():
        groups: dict[str, list[tuple[float, str]]] = {}
        for row in report["entries"]:
            rows = f", rows: {row['shape'].split('x')[0]}" if system == LENGTHS else ""
            if fastest(row)["peer"] != NORMAL:
                groups.setdefault(f"`{COMMANDS[system]}`{rows}", []).append((fastest(row)["ratio"], name(row)))
        settings = report["settings"]
        rounds = f"{settings['rounds']} of {settings['block_seconds'] * 1e3:g} ms"
        rounds += "" if settings["compile"] else ", nothing compiled"
        for group, found in groups.items():
            (least, which), mean = min(found), statistics.geometric_mean(ratio for ratio, _ in found)
            count = f"{sum(ratio >= 1 for ratio, _ in found)} of {len(found)}"
            cells.append((group, rounds, f"`{which}`", times(least), count, times(mean)))
    return table("of | rounds | the least ratio | is | at least 1x | geometric mean", cells, left=3)


def machine(reports: dict[str, Report]) -> str:
    """What the figures depend on, in a line."""
    found = next(iter(reports.values()))["machine"]
    days = sorted({report["machine"]["date"][:10] for report in reports.values()})
    others = {package: version for report in reports.values() for package, version in report["peers"].items()}
    quick = [COMMANDS[system] for system, x in reports.items() if x["settings"]["block_seconds"] <= QUICK_SECONDS]
    words = (
        found["cpu"], found["isa"], f"{found['threads']} thread{'s' * (found['threads'] > 1)}",
        f"torch {found['torch']}", f"Python {found['python']}",
        *(f"{package} {version}" for package, version in others.items() if version),
        *(f"without {package}" for package, version in others.items() if not version),
        " to ".join(dict.fromkeys((days[0], days[-1]))), f"commit {found['commit'] or 'unknown'}",
    )  # fmt: skip
    note = f" By `--quick`, so that single ratios may be far off: {', '.join(quick)}." if quick else ""
    return f"{', '.join(words)}.{note}\n"


def sections(reports: dict[str, Report]) -> dict[str, str]:
    """What stands between the marks of the page, by their names."""
    made = {"machine": machine(reports), "summary": summary(reports)}
    for system, command in COMMANDS.items():
        made[system] = f"Not run: `python bench/run.py {command} --json FILE`.\n"
        if system in reports:
            targets = () if system in WITHOUT_TARGETS else targets_of(reports[system])
            made[system] = "\n".join((*entries_of(system, reports[system]), *targets))
    return made


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the tables, and perhaps writes them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=Path, metavar="REPORT.json", help="of bench/run.py --json")
    parser.add_argument("--update", action="store_true", help="write docs/speed.md and docs/hrr_lengths.svg")
    options = parser.parse_args(argv)
    reports = read(options.reports)
    made = sections(reports)
    print("\n".join(f"{mark}\n\n{content}" for mark, content in made.items()))
    if options.update:
        if LENGTHS in reports:
            hrr_lengths.draw([reports[LENGTHS]], PICTURE)
        update(PAGE, made)


if __name__ == "__main__":
    main()
