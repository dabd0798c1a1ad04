"""Runs everything that needs a GPU, in stages that are limited in time: tests/gpu/run. docs/dev/gpu.md describes it.

A stage that fails or hangs costs itself alone. The results are written after every stage: results.json has all of
them, junit.xml the tests, summary.txt what fits on a screen, log.txt what the stages printed.
"""

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from running import Stage, died, left_out, printable, run_stage, write_junit, write_whole
from stages import Plan

HERE = Path(__file__).resolve().parents[2]
LEAST_GIB = 8
ARCHITECTURE = re.compile(r"\d+\.\d+[af]?(\+PTX)?")
SHOWN_FAILURES = 8
WIDTH = 118
PROBE = """
import json, platform, torch
found = {"torch": torch.__version__, "cuda": torch.version.cuda, "python": platform.python_version(), "device": None}
if torch.cuda.is_available():
    properties = torch.cuda.get_device_properties(0)
    free, total = torch.cuda.mem_get_info()
    found |= {
        "device": properties.name, "capability": f"{properties.major}.{properties.minor}",
        "free_gib": round(free / 2**30, 1), "memory_gib": round(total / 2**30, 1),
    }
print(json.dumps(found))
"""


class Unusable(Exception):
    """Nothing can be run; the text says why and what to do."""


def read_kit(root: Path) -> dict[str, Any]:
    """The manifest of a kit whose files are those that were packed."""
    try:
        manifest = json.loads((root / "manifest.json").read_text())
        files, architectures = dict(manifest["files"]), list(manifest["architectures"])
        told = [manifest["torch"], manifest["commit"], *files, *files.values()]
        whole = all(isinstance(text, str) for text in told) and all(map(ARCHITECTURE.fullmatch, architectures))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise Unusable(f"{root} holds no kit (no manifest.json that can be read); make one with: make gpu-kit")
    for name, digest in files.items():
        path = root / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise Unusable(f"the kit {root} is damaged: {name} is not the file that was packed; copy the kit again")
    added = {str(path.relative_to(root)) for path in root.glob("tests/**/*.py")} - files.keys()
    if added:
        raise Unusable(f"the kit {root} is damaged: {min(added)} was added; copy the kit again")
    return {**manifest, "files": files, "architectures": architectures}


def identify(root: Path) -> dict[str, Any]:
    """What the figures depend on; found by a process of its own, since this one is to take no memory of the GPU."""
    try:
        ran = subprocess.run([sys.executable, "-c", PROBE], cwd=root, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        raise Unusable("torch found no GPU within 120 s: see whether nvidia-smi answers") from None
    if ran.returncode:
        last = next(iter(ran.stderr.strip().splitlines()[-1:]), "")
        raise Unusable(f"{sys.executable} cannot use torch ({last}); name another with PYTHON=")
    machine: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    machine |= {"cpus": os.cpu_count(), "system": platform.platform()}
    if machine["device"] and shutil.which("nvidia-smi"):
        query = "--query-gpu=driver_version,clocks.max.sm,clocks.max.mem"
        command = ["nvidia-smi", query, "--format=csv,noheader", "--id=0"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
            machine |= dict(zip(("driver", "clock", "memory_clock"), told.stdout.strip().split(", "), strict=False))
    return machine


def minor(version: str) -> str:
    return ".".join(version.split("+")[0].split(".")[:2])


def serves(architecture: str, capability: str) -> bool:
    """Whether code for an architecture such as 9.0 or 8.0+PTX runs on a GPU."""
    built, there = (tuple(map(int, re.findall(r"\d+", text))) for text in (architecture, capability))
    return built <= there and (architecture.endswith("+PTX") or built[0] == there[0])


def check(machine: Mapping[str, Any], kit: Mapping[str, Any] | None, dry: bool) -> None:
    """Raises Unusable where the machine cannot run this."""
    version = machine["torch"]
    if kit and minor(kit["torch"]) != minor(version):
        cure = f"make gpu-kit GPU_TORCH={minor(version)}"
        raise Unusable(f"the kit is for torch {minor(kit['torch'])}, and {version} is installed; make one with: {cure}")
    if dry:
        return
    if not machine["device"]:
        raise Unusable(f"torch {version} finds no CUDA device; --dry-run does what needs none")
    capability = machine["capability"]
    if kit and not any(serves(one, capability) for one in kit["architectures"]):
        built = " and ".join(kit["architectures"]) or "CPUs"
        cure = f"make gpu-kit GPU_ARCHITECTURE={capability}"
        raise Unusable(f"the kit is built for {built}, and {machine['device']} has {capability}; make one with: {cure}")
    free = machine["free_gib"]
    if free < LEAST_GIB:
        total = f"{free} of {machine['memory_gib']} GiB of the GPU's memory are free"
        raise Unusable(f"{total}, and {LEAST_GIB} are needed; end what else runs on it")


def title(report: Mapping[str, Any]) -> str:
    machine, kit = report["machine"], report["kit"]
    parts = [machine["device"] or "no GPU (a dry run)", f"torch {machine['torch']}", f"Python {machine['python']}"]
    if machine.get("driver"):
        parts.insert(1, f"driver {machine['driver']}")
    if kit:
        parts.append(f"kit of {kit['commit']} for {' and '.join(kit['architectures']) or 'CPUs'}")
    return ", ".join(parts)


def lines_of(stage: Mapping[str, Any]) -> Iterator[str]:
    """A line for the stage, and one for each of its first failures."""
    tests = [test for job in stage["jobs"] for test in job["tests"]]
    counts = Counter(test["outcome"] for test in tests)
    told = [f"{counts[kind]} {kind}" for kind in ("passed", "failed", "skipped") if counts[kind]]
    collected = sum(job["collected"] for job in stage["jobs"])
    if collected > len(tests):
        told.append(f"{collected - len(tests)} not run" if tests else f"{collected} tests found")
    what = stage["reason"] or stage["what"] + (f": {', '.join(told)}" if told else "")
    yield f"{stage['name']:<13}{stage['status']:<12}{stage['seconds']:>8.1f}{stage['limit']:>7.0f}  {what}"
    failed = [test for test in tests if test["outcome"] == "failed"]
    for test in failed[:SHOWN_FAILURES]:
        yield printable(f"    {test['name']}: {next(iter(test['message'].splitlines()), '')}"[:WIDTH])
    if len(failed) > SHOWN_FAILURES:
        yield f"    and {len(failed) - SHOWN_FAILURES} more"
    for job in stage["jobs"]:
        if died(job):
            yield f"    {job['name']}: {job['status']}; {next(iter(job['end'][-1:]), 'it printed nothing')}"[:WIDTH]


def summary(report: Mapping[str, Any], out: Path) -> str:
    """A screen: the stages, and the tables of speed and counters."""
    lines = [f"torch_hrr on {title(report)}", "", f"{'stage':<13}{'status':<12}{'seconds':>8}{'limit':>7}  what"]
    for stage in report["stages"]:
        lines += lines_of(stage)
    for stage in report["stages"]:
        if stage["name"] in ("speed", "counters"):
            lines += ["", *(line for job in stage["jobs"] for line in job["end"])]
    return "\n".join([*lines, "", f"all of it: {out}"])


def attempt(stage: Stage, plan: Plan, out: Path) -> dict[str, Any]:
    """The result of a stage; what goes wrong around it costs it alone, too."""
    try:
        return run_stage(stage, plan.root, plan.work, out / "log.txt")
    except Exception as error:
        return left_out(stage, f"{type(error).__name__}: {error}") | {"status": "failed"}


def keep(report: dict[str, Any], plan: Plan, out: Path) -> None:
    """Writes what there is so far."""
    for name in ("speed", "counters"):
        with contextlib.suppress(OSError, ValueError):
            report[name] = json.loads((plan.work / f"{name}.json").read_text())
    write_whole(out / "results.json", json.dumps(report, indent=1) + "\n")
    write_junit(report["stages"], out / "junit.xml")
    write_whole(out / "summary.txt", summary(report, out) + "\n")


def run(plan: Plan, wanted: Sequence[str], out: Path, report: dict[str, Any]) -> int:
    """The stages, one after another; 1 if one of them failed, 130 if the run was ended."""
    stages = plan.stages()
    known = [stage.name for stage in stages]
    if unknown := [name for name in wanted if name not in known]:
        raise Unusable(f"--stages must be names of stages ({', '.join(known)}), got {', '.join(unknown)}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "log.txt").write_bytes(b"")
        keep(report, plan, out)
    except OSError as error:
        raise Unusable(f"--out must be a folder that can be written, got {out}: {error.strerror}") from None
    results = report["stages"]
    for stage in stages:
        if wanted and stage.name not in wanted:
            continue
        print(f"{stage.name}: {stage.missing or stage.what}", flush=True)
        results.append(attempt(stage, plan, out))
        keep(report, plan, out)
        if results[-1]["status"] == "interrupted":
            break
    print(f"\n{summary(report, out)}")
    statuses = {stage["status"] for stage in results}
    return 130 if "interrupted" in statuses else int(bool(statuses & {"failed", "out of time"}))


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/gpu/run", description="Everything that needs a GPU: docs/dev/gpu.md.")
    parser.add_argument("--kit", type=Path, help="a folder that make gpu-kit made: nothing is built here")
    parser.add_argument("--out", type=Path, help="for the results (default: $OUT, or build/gpu-results)")
    parser.add_argument("--stages", default="", help="names of stages, with commas between them (default: all)")
    parser.add_argument(
        "--dry-run", action="store_true", help="what needs no GPU: collects tests, runs the rest on the CPU"
    )
    options = parser.parse_args(argv)
    if options.kit is None and (HERE / "manifest.json").is_file():
        options.kit = HERE
    options.stages = [name.strip() for name in options.stages.split(",") if name.strip()]
    return options


def end(*_: Any) -> None:
    """A signal to end is an exception, so that what runs is ended and what was found is kept."""
    raise SystemExit


def main(argv: Sequence[str] | None = None) -> int:
    """1 where a stage failed, 2 where nothing could be run."""
    options = parse(argv)
    root = (options.kit or HERE).resolve()
    out = Path(options.out or os.environ.get("OUT") or HERE / "build" / "gpu-results").resolve()
    try:
        kit = read_kit(root) if options.kit else None
        machine = identify(root)
        check(machine, kit, options.dry_run)
        told = {key: value for key, value in kit.items() if key != "files"} if kit else None
        report: dict[str, Any] = {"command": sys.argv, "machine": machine, "kit": told, "stages": []}
        with tempfile.TemporaryDirectory() as work:
            plan = Plan(root, Path(work), kit, machine.get("capability", "none"), options.dry_run)
            return run(plan, options.stages, out, report)
    except Unusable as error:
        print(f"torch_hrr: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    sys.exit(main())
