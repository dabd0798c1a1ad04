"""Times the operators beside torch, torch.compile and the libraries that are installed, and prints the ratios."""

import argparse
import contextlib
import datetime
import importlib
import importlib.util
import itertools
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import figure, hrr_lengths, peers  # noqa: E402
from bench.agreement import check_agreement  # noqa: E402
from bench.entry import Entry, Inputs, Peer, aligned  # noqa: E402
from bench.targets import Session, Target, format_target, heading, measure_target  # noqa: E402
from bench.timing import Candidate, Settings, candidate, machine_limits, median_and_iqr, ratio, run_rounds  # noqa: E402
from torch_hrr._library import build_info  # noqa: E402
from torch_hrr.runtime import get_device_info  # noqa: E402

SYSTEMS = ("hrr", "assembly", "programs", "encoding", "field", "hierarchy")
RESULTS = ROOT / "bench" / "results"
# Benchmarks of an installed package know no commit and keep nothing beside themselves.
IN_SOURCE_TREE = (ROOT / "csrc").is_dir()
DRAWN = (".svg", ".png", ".pdf")
COLD_BYTES = 64 << 20
MAX_COLD_SETS = 4096
MAX_THREADS = 1024
COLUMNS = (
    ("op", 24), ("shape", 16), ("ours us", 16), ("torch us", 10), ("ratio", 6), ("floor", 5), ("aim", 5), ("met?", 5),
    ("reused", 6), ("cold", 6), ("torchhd", 7), ("compile", 7), ("limit", 6),
)  # fmt: skip


def make_sets(entry: Entry, count: int, settings: Settings) -> list[Inputs]:
    """`count` different sets of arguments on the device, leaves where the entry's are."""
    generator = torch.Generator().manual_seed(settings.seed)

    def move(x: Tensor) -> Tensor:
        return x.detach().to(settings.device).requires_grad_(x.requires_grad)

    return [tuple(move(x) for x in entry.inputs(entry.batch, generator)) for _ in range(count)]


def cold_count(inputs: Inputs) -> int:
    """Sets that together leave the L2 cache, within a bound on memory."""
    size = sum(x.numel() * x.element_size() for x in inputs)
    return max(2, min(MAX_COLD_SETS, -(-COLD_BYTES // max(size, 1))))


def gather(entry: Entry, settings: Settings, notes: dict[str, str]) -> list[Candidate]:
    """Every candidate of an entry, each checked against ours; peers that cannot run here are noted and left out."""
    first = make_sets(entry, entry.sets, settings)
    groups = [first]
    # On a GPU the clock flushes the cache before every call: there is no warm state to tell apart.
    if settings.cold and not settings.cuda:
        groups.append(make_sets(entry, cold_count(first[0]), settings))
    expected = entry.ours(*first[0])
    compared = entry.compared(expected, *first[0]) if entry.compared else expected
    candidates: list[Candidate] = []

    def add(peer: Peer, function: Callable[..., Any]) -> None:
        for group in groups:
            sets = [tuple(map(peer.prepare, inputs)) for inputs in group] if peer.prepare else group
            cold = group is not first
            candidates.append(candidate(peer.name, function, sets, None, cold, settings))
            if peer.reuse is not None:
                out = torch.empty_like(expected)
                peer.reuse(*sets[0], out=out)
                candidates.append(candidate(peer.name, peer.reuse, sets, out, cold, settings))

    add(Peer("ours", entry.ours, reuse=entry.reuse), entry.ours)
    for peer in entry.peers:
        if peer.on_host and settings.cuda:
            notes[peer.name] = "it runs on the CPU alone"
        if peer.name in notes or (peer.kind == "compile" and not settings.compile):
            continue
        inputs = tuple(map(peer.prepare, first[0])) if peer.prepare else first[0]
        function: Callable[..., Any] = peer.function
        try:
            if peer.kind == "compile":
                function = torch.compile(function, dynamic=False)
            theirs = function(*inputs)
        except Exception as error:
            if peer.kind == "torch":
                raise
            notes[peer.name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            continue
        check_agreement(peer.name, peer.compared(theirs, *inputs) if peer.compared else theirs, compared)
        add(peer, function)
    return candidates


def best(peers: Sequence[Peer], kind: str, ours: Candidate, table: dict[tuple[str, str, str], Candidate]) -> Any:
    """The fastest peer of a kind in our candidate's state, with its ratio; None where there is none."""
    keys = [(p.name, ours.output, ours.cache) for p in peers if p.kind == kind]
    fastest = min((table[key] for key in keys if key in table), key=lambda c: c.median, default=None)
    if fastest is None:
        return None
    middle, spread = ratio(fastest, ours)
    return {"peer": fastest.name, "seconds": fastest.median, "ratio": middle, "iqr": spread}


def verdict(value: float, entry: Entry) -> str:
    """Yes, no, or floor: above what was promised, below what is aimed at."""
    for least, answer in ((entry.aim, "yes"), (entry.floor, "floor")):
        if least is not None and value >= least:
            return answer
    return "" if entry.aim is None and entry.floor is None else "no"


def measure(entry: Entry, settings: Settings, limits: dict[str, float]) -> dict[str, Any]:
    """Measures one entry: the row of the table and everything behind it."""
    row: dict[str, Any] = {
        "op": entry.op, "shape": entry.shape, "floor": entry.floor, "aim": entry.aim, "aim_peer": entry.aim_peer,
        "traffic_bytes": entry.traffic,
    }  # fmt: skip
    notes: dict[str, str] = {}
    torch._dynamo.reset()
    try:
        candidates = gather(entry, settings, notes)
        run_rounds(candidates, settings.rounds, settings.block_seconds, settings.seed)
    except Exception as error:
        return row | {"error": f"{type(error).__name__}: {error}"}
    table = {each.key: each for each in candidates}
    ours = {(c.output, c.cache): c for c in candidates if c.name == "ours"}
    state = ours["fresh", "warm"]
    middle, spread = median_and_iqr(state.rounds)
    limit = max(limits["launch_seconds"], entry.traffic / limits["copy_bytes_per_second"])
    ratios = {
        f"{output} {cache}": {kind: best(entry.peers, kind, c, table) for kind in ("torch", "compile", "library")}
        for (output, cache), c in ours.items()
    }
    named = [peer for peer in entry.peers if peer.name == entry.aim_peer] if entry.aim_peer else entry.peers
    judged = best(named, "torch", state, table)
    return row | {
        "error": None,
        "ours": {"seconds": middle, "iqr": spread},
        "ratios": ratios,
        "judged": judged,
        "met": verdict(judged["ratio"], entry),
        "fraction_of_limit": limit / middle,
        "left_out": notes,
        "candidates": [
            {"name": c.name, "output": c.output, "cache": c.cache, "calls": c.calls, "rounds": c.rounds}
            | dict(zip(("median", "iqr"), median_and_iqr(c.rounds), strict=True))
            for c in candidates
        ],
    }


def columns_for(entries: Sequence[Entry]) -> tuple[tuple[str, int], ...]:
    """The columns of the table, wide enough for the entries' names."""
    widths = {"op": max(len(entry.op) for entry in entries), "shape": max(len(entry.shape) for entry in entries)}
    return tuple((name, max(width, widths.get(name, 0))) for name, width in COLUMNS)


def format_row(row: dict[str, Any], columns: Sequence[tuple[str, int]]) -> str:
    if row["error"]:
        return f"{aligned((row['op'], row['shape']), columns[:2], 2)} ERROR {row['error']}"

    def number(state: str, kind: str) -> str:
        found = row["ratios"].get(state, {}).get(kind)
        return f"{found['ratio']:.2f}" if found else "-"

    def asked(key: str) -> str:
        return "-" if row[key] is None else f"{row[key]:g}"

    cells = (
        row["op"], row["shape"], f"{row['ours']['seconds'] * 1e6:.2f} ±{row['ours']['iqr'] * 1e6:.2f}",
        f"{row['ratios']['fresh warm']['torch']['seconds'] * 1e6:.2f}", number("fresh warm", "torch"),
        asked("floor"), asked("aim"), row["met"] or "-", number("reused warm", "torch"), number("fresh cold", "torch"),
        number("fresh warm", "library"), number("fresh warm", "compile"), f"{row['fraction_of_limit']:.2f}",
    )  # fmt: skip
    return aligned(cells, columns, 2)


def commit_of_tree(digits: int = 40) -> str | None:
    """The commit of the source tree, and whether files differ from it; None where git does not know."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", f"--abbrev={digits}", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None


def machine(settings: Settings) -> dict[str, Any]:
    """What the figures depend on."""
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE)
    return {
        "cpu": found[1] if found else platform.processor() or platform.machine(),
        "isa": build_info()["isa"],
        "gpu": torch.cuda.get_device_name() if settings.cuda else None,
        "driver": get_device_info()["driver"] if settings.cuda else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "threads": settings.threads,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit_of_tree() if IN_SOURCE_TREE else None,
    }


def kept_at(report: dict[str, Any]) -> Path:
    """Where a report is kept: one file for each system, device and driver."""
    found = report["machine"]
    parts = (report["system"], found["gpu"] or found["cpu"], found["driver"])
    names = (re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-.") for part in parts if part)
    return RESULTS / f"{'-'.join(names)}.json"


def parse(argv: Sequence[str] | None, prog: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    listed = ", ".join(SYSTEMS)
    parser.add_argument(
        "systems", nargs="*", default=SYSTEMS, metavar="SYSTEM", help=f"one or more of {listed} (default: all)"
    )
    parser.add_argument(
        "--rounds", type=int, default=9, metavar="N", help="in each of which every candidate runs once (default: 9)"
    )
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch (default: 1)")
    parser.add_argument(
        "--filter", default="", metavar="REGEX", help='on "op shape" and "target ..." (default: everything)'
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write machine, settings and all rounds to this file")
    parser.add_argument("--keep", action="store_true", help="write them to bench/results, by system, device and driver")
    parser.add_argument(
        "--plot", type=Path, metavar="PATH", help=f"draw the ratios into this file ({', '.join(DRAWN)})"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cpu or cuda (default: cpu)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs and the order (default: 0)")
    parser.add_argument("--no-compile", action="store_true", help="leave the torch.compile peers out")
    parser.add_argument("--lengths", action="store_true", help="of hrr: every operator at every kind of length")
    parser.add_argument("--quick", action="store_true", help="3 short rounds, warm only, no compile")
    # Systems may stand on both sides of an option.
    options = parser.parse_intermixed_args(argv)
    for system in options.systems:
        if system not in SYSTEMS:
            parser.error(f"SYSTEM must be one of {listed}, got {system}")
    if options.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {options.rounds}")
    if not 1 <= options.threads <= MAX_THREADS:
        parser.error(f"--threads must be at least 1 and at most {MAX_THREADS}, got {options.threads}")
    if not -(2**63) <= options.seed < 2**64:
        parser.error(f"--seed must be at least -2^63 and below 2^64, got {options.seed}")
    try:
        re.compile(options.filter)
    except re.error as error:
        parser.error(f"--filter must be a regular expression, got {options.filter!r}: {error}")
    if options.lengths and list(options.systems) != ["hrr"]:
        parser.error(f"--lengths is a table of hrr, got {' '.join(options.systems)}")
    for path in (options.json, options.plot):
        folder = path and next((each for each in path.absolute().parents if each.exists()), path)
        if path and (path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK)):
            parser.error(f"{path} cannot be written")
    if options.plot and options.plot.suffix not in DRAWN:
        parser.error(f"--plot must end in one of {', '.join(DRAWN)}, got {options.plot}")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install 'torch_hrr[plot]'")
    if options.keep and not IN_SOURCE_TREE:
        parser.error("--keep is for the source tree, use --json PATH")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device cuda needs a GPU that torch {torch.__version__} can see, found none")
    return options


def started(system: str, settings: Settings) -> dict[str, Any]:
    """A report without rows yet; prints what its figures depend on."""
    report: dict[str, Any] = {
        "system": system, "machine": machine(settings), "limits": machine_limits(settings.threads, settings.cuda),
        "settings": vars(settings), "peers": peers.versions(system), "entries": [], "targets": [],
    }  # fmt: skip
    print("  ".join(f"{key}: {value}" for key, value in report["machine"].items() if value is not None))
    print(*peers.described(report["peers"], settings.compile), sep="\n")
    return report


def finished(reports: Sequence[dict[str, Any]], options: argparse.Namespace, draw: Callable[[Any, Path], None]) -> int:
    """Writes and draws the reports where the options say so; 1 if a row of them is an error."""
    written = {kept_at(report): report for report in reports} if options.keep else {}
    if options.json:
        written[options.json] = reports[0] if len(options.systems) == 1 else list(reports)
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
    if options.plot:
        draw(reports, options.plot)
    return int(any(row["error"] for report in reports for row in report["entries"] + report["targets"]))


def run_lengths(options: argparse.Namespace, settings: Settings) -> int:
    """The table of lengths, a line a size; 1 if an entry disagrees with torch or none matches."""
    entries = [entry for entry in hrr_lengths.ENTRIES if re.search(options.filter, entry.name)]
    if not entries:
        print(f"no entry matches {options.filter!r}", file=sys.stderr)
        return 1
    report = started("hrr", settings) | {"system": "hrr-lengths"}
    print(hrr_lengths.heading())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape, group in itertools.groupby(entries, key=lambda entry: entry.shape):
            found = [measure(entry, settings, report["limits"]) for entry in group]
            report["entries"] += found
            print(hrr_lengths.line(shape, found), flush=True)
    missed = hrr_lengths.below(report["entries"])
    print(f"{len(report['entries']) - len(missed)} of {len(report['entries'])} at their floor or above; * is below")
    return finished([report], options, hrr_lengths.draw)


def run_system(report: dict[str, Any], entries: Sequence[Entry], targets: Sequence[Target], settings: Settings) -> None:
    """Measures entries and targets into a report, and prints them."""
    system, target_module = modules_of(report["system"])
    columns = columns_for(entries) if entries else COLUMNS
    if entries:
        print(aligned([name for name, _ in columns], columns, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in entries:
            row = measure(entry, settings, report["limits"])
            report["entries"].append(row)
            print(format_row(row, columns), flush=True)
            if entry.aim_peer and not row["error"]:
                print(f"  aim and met? refer to {entry.aim_peer}: {row['judged']['ratio']:.2f}")
            for name, reason in row.get("left_out", {}).items():
                print(f"  without {name}: {reason}")
        for op, aim in getattr(system, "MEAN_AIMS", {}).items():
            ratios = [row["judged"]["ratio"] for row in report["entries"] if row["op"] == op and not row["error"]]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                print(f"{op}: geometric mean of {len(ratios)} ratios {mean:.2f}, aim {aim:g}")
        if targets:
            print(heading(settings, getattr(target_module, "HEADING", None)))
        session = Session(settings)
        for target in targets:
            row = measure_target(target, session)
            report["targets"].append(row)
            print(format_target(row), flush=True)


def modules_of(system: str) -> tuple[Any, Any]:
    """The modules that hold a system's entries and its targets."""
    module = importlib.import_module(f"bench.{system}")
    return module, module if hasattr(module, "TARGETS") else importlib.import_module(f"bench.{system}_targets")


def main(argv: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Runs the chosen entries; 1 if one of them disagrees with a peer or fails, whatever the times."""
    options = parse(argv, prog)
    torch.set_num_threads(options.threads)
    settings = Settings(
        rounds=min(options.rounds, 3) if options.quick else options.rounds,
        block_seconds=1e-3 if options.quick else 4e-3,
        threads=options.threads,
        device=options.device,
        cold=not (options.quick or options.lengths),
        compile=not (options.quick or options.no_compile or options.lengths),
        seed=options.seed,
    )
    if options.lengths:
        return run_lengths(options, settings)
    every = {system: modules_of(system) for system in options.systems}
    known = {system: (entries.ENTRIES, targets.TARGETS) for system, (entries, targets) in every.items()}
    chosen = {
        system: [[each for each in rows if re.search(options.filter, each.name)] for rows in both]
        for system, both in known.items()
    }
    chosen = {system: rows for system, rows in chosen.items() if any(rows)}
    if not chosen:
        names = [each.name for both in known.values() for rows in both for each in rows]
        print(f"no entry matches {options.filter!r}; there are:", *names, sep="\n  ", file=sys.stderr)
        return 1
    reports = []
    for system, (entries, targets) in chosen.items():
        if reports:
            print()
        reports.append(started(system, settings))
        try:
            run_system(reports[-1], entries, targets, settings)
        except KeyboardInterrupt:
            print("interrupted; what was measured is kept", file=sys.stderr)
            finished(reports, options, figure.draw)
            return 130
    return finished(reports, options, figure.draw)


if __name__ == "__main__":
    sys.exit(main())
