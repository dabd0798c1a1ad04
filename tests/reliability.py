"""Measures how operators and saved states bear what they should not be given: docs/reliability.md and README's table.

    python tests/reliability.py --build FOLDER --report FILE --programs FOLDER ... [--seconds 3600]
        [--mutations 10000] [--minors 2.11 ...]
    python tests/reliability.py --build FOLDER --report FILE --only fuzz states    keeps what was measured of the others

`make reliability` builds the fuzzer with Clang's AddressSanitizer, UndefinedBehaviorSanitizer and libFuzzer. What fails
is printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import ast
import collections
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from xml.etree import ElementTree

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reliability.md"
README = ROOT / "README.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from cases import ALL_CASES  # noqa: E402
from cases.base import LANES  # noqa: E402
from fuzz import corpus  # noqa: E402

from bench.markdown import table, update  # noqa: E402
from torch_hrr.runtime import get_device_info  # noqa: E402

# What a group of tests shows, and its modules.
GROUPS = {
    "A wrong argument of an operator raises the error that is written down for it: on the CPU and Meta, from Python, "
    "in autocast, and where a derivative is asked for": ("test_ops_errors",),
    "A value of a wrong type, for every argument of every public call": ("test_wrong_types",),
    "Derivatives: reverse, forward, batched and double, and `torch.func`": ("test_ops_gradients", "test_ops_func"),
    "`torch.library.opcheck`, Meta, vmap and autocast": ("test_ops_lanes",),
    "Results beside direct sums in float64, in every memory layout": ("test_ops_values", "test_ops_layouts"),
    "The same bits: 1,000 repeats, any batch, any number of threads": ("test_ops_determinism",),
    "`torch.compile`, `torch.export`, AOTInductor and TorchScript": ("test_ops_compile", "test_ops_script"),
    "Files: every byte damaged, forged headers, a process that dies while it writes": (
        "test_io_damage",
        "test_io_atomicity",
        "assembly.test_brain_damage",
    ),
}
DRAWN = "Laws of operators and objects, each on examples that hypothesis draws"
# The same of GoogleTest's programs.
SANITIZED = {
    "CPU kernels of every instruction set under AddressSanitizer and UndefinedBehaviorSanitizer": "kernels",
    "CUDA kernels, run on the host, under these two": "cuda_on_host_tests_san",
    "CUDA kernels, run on the host, under ThreadSanitizer": "cuda_on_host_tests_race",
}
PARTS = ("fuzz", "states", "tests", "minors")
# Those that this machine or build lacks are left out.
ISAS = ("avx512", "avx2", "scalar")
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:detect_odr_violation=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
LIMITS = ("-timeout=60", "-rss_limit_mb=0", "-malloc_limit_mb=0", "-max_len=16384", "-print_final_stats=1")


def number(value: int) -> str:
    return f"{value:,}"


def drawn() -> set[tuple[str, str]]:
    """Module and name of the tests whose arguments hypothesis draws."""
    found = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        module = ".".join(path.relative_to(ROOT / "tests").with_suffix("").parts)
        functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))
        found |= {
            (module, function.name)
            for function in functions
            if any(ast.unparse(decorator).startswith("given(") for decorator in function.decorator_list)
        }
    return found


def tests(report: pathlib.Path, programs: Sequence[pathlib.Path]) -> tuple[str, int]:
    """The groups, and how many tests failed, as the reports say of Python and of C++ programs."""
    groups: dict[str, list[ElementTree.Element]] = {title: [] for title in (*GROUPS, DRAWN, *SANITIZED)}
    laws = drawn()
    for test in ElementTree.parse(report).iter("testcase"):
        module, name = test.get("classname", "").removeprefix("tests."), test.get("name", "")
        for title, names in GROUPS.items():
            if module in names:
                groups[title].append(test)
        if (module, name.partition("[")[0]) in laws:
            groups[DRAWN].append(test)
    for title, program in SANITIZED.items():
        for path in (path for folder in programs for path in folder.glob(f"{program}.*.xml")):
            # Without those that are disabled.
            groups[title] += [test for test in ElementTree.parse(path).iter("testcase") if test.get("status") == "run"]
    empty = [title for title, group in groups.items() if not group]
    if empty:
        raise SystemExit(f"torch_hrr: no test was reported of: {'; '.join(empty)}")
    rows, failures = [], 0
    for title, group in groups.items():
        kinds = collections.Counter(child.tag for test in group for child in test)
        failed = kinds["failure"] + kinds["error"]
        rows.append((title, number(len(group)), number(kinds["skipped"]), number(failed)))
        failures += failed
    return table("what | tests | skipped | failed", rows, left=1), failures


def lanes() -> str:
    """Which ways of calling an operator have no place for some."""
    rows = []
    for lane, meaning in LANES.items():
        reasons = collections.Counter(case.holes[lane].reason for case in ALL_CASES if not case.takes(lane))
        why = "; ".join(f"{count}: {reason}" for reason, count in reasons.most_common())
        rows.append((meaning, number(sum(case.takes(lane) for case in ALL_CASES)), why))
    # The reasons are text.
    return table("lane | overloads | others, and why", rows, left=1).replace("|---:|---:|", "|---:|---|", 1)


def malformed() -> int:
    return sum(len(error.devices) for case in ALL_CASES for error in case.errors)


def states(mutations: int, folder: pathlib.Path) -> tuple[str, int]:
    file = folder / "states.json"
    command = [sys.executable, "tests/mutated_states.py", "--mutations", str(mutations), "--json", str(file)]
    status = subprocess.call(command, cwd=ROOT)
    found = json.loads(file.read_text())["classes"]
    total = found.pop("all")
    rows = [(f"{len(found)} classes and variants of them", *map(number, total.values()))]
    return table(" | ".join(("saved states", *total)), rows, left=1), status


def usable(fuzzer: pathlib.Path, start: pathlib.Path) -> list[str]:
    """The instruction sets that this machine and this build have."""
    one = next(start.iterdir())
    command = [str(fuzzer), *LIMITS, str(one)]
    return [
        isa
        for isa in ISAS
        if subprocess.run(command, capture_output=True, env=os.environ | SANITIZERS | {"TORCH_HRR_ISA": isa}).returncode
        == 0
    ]


def fuzz(build: pathlib.Path, seconds: int, jobs: int, folder: pathlib.Path) -> tuple[str, int]:
    fuzzer, start = build / "tests" / "cpp" / "fuzz_operators", folder / "start"
    calls = corpus.write(start)
    isas = usable(fuzzer, start)
    rows, failures = [], 0
    for isa in isas:
        grown = folder / isa
        grown.mkdir()
        command = [str(fuzzer), *LIMITS, f"-max_total_time={seconds // len(isas)}", f"-artifact_prefix={folder}/{isa}-"]
        running = [
            subprocess.Popen(
                [*command, f"-seed={seed}", str(grown), str(start)],
                stderr=(folder / f"{isa}-{seed}.log").open("w"),
                env=os.environ | SANITIZERS | {"TORCH_HRR_ISA": isa},
            )
            for seed in range(1, jobs + 1)
        ]
        found = [process.wait() != 0 for process in running]
        logs = [(folder / f"{isa}-{seed}.log").read_text(errors="replace") for seed in range(1, jobs + 1)]
        for log in (log for log, failed in zip(logs, found, strict=True) if failed):
            print(log[-6000:])
        units = sum(int(count) for log in logs for count in re.findall(r"number_of_executed_units: (\d+)", log))
        edges = max((int(count) for log in logs for count in re.findall(r"cov: (\d+)", log)), default=0)
        rows.append((isa, number(units), number(edges), number(len(list(grown.iterdir()))), number(sum(found))))
        failures += sum(found)
    title = f"{len(corpus.names())} overloads, {number(calls)} calls to start from, {seconds} s on {jobs} cores"
    return table(f"{title} | inputs | edges | kept | findings", rows, left=1), failures


def minors(asked: Sequence[str]) -> tuple[str, int]:
    """Operators and classes under other minor versions of torch."""
    status = subprocess.call([sys.executable, "tests/minors.py", *asked], cwd=ROOT) if asked else 0
    found = ", ".join(asked) if asked and not status else "none was tried" if not status else "not all"
    return f"Other versions of torch that passed operators' values and errors and every class: {found}.\n", status


def page(parts: dict[str, str]) -> str:
    where = f"torch {torch.__version__.split('+')[0]}, {get_device_info()['device_name']}"
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    return f"""# Reliability

`make reliability` measures this, here on {day}: {where}, {os.cpu_count()} cores, no GPU. The
command fails if a test failed or anything was found.

## Tests

The table of operators has {number(malformed())} malformed calls, each an argument with one defect on the CPU or on
Meta. No test of these groups is marked as expected to fail.

{parts["tests"]}
{parts["minors"]}
## Ways of calling an operator

{parts["lanes"]}
## Calls by arbitrary bytes

libFuzzer turns bytes into calls of every registered overload, public and private: any operator, tensors of any dtype,
layout, rank and size, undefined, on Meta, overlapping, sharing memory, with values from NaN to 2^127, and any numbers
and words. Under AddressSanitizer and UndefinedBehaviorSanitizer each call must return or raise an error of torch that
names the operator, in both cases twice alike, bit for bit; write only into what its schema says, and nothing if it
raises (`project_` may end in the round that meets a false reference); and return on Meta what it returns on the CPU.
Most calls are also asked for a first, a second or a forward derivative.

{parts["fuzz"]}
## Changed files

Mutations of a file of every class that saves: bytes damaged, and content changed and sealed anew. What loads must say
what the file says.

{parts["states"]}"""


def summary(text: str) -> str:
    """README's table: how much of what the page says was tried, and how much of it went wrong."""

    def found(pattern: str) -> list[list[int]]:
        """The numbers that stand where the pattern has #, of every match."""
        rows = [
            [int(each.replace(",", "")) for each in match.groups()]
            for match in re.finditer(pattern.replace("#", r"([\d,]+)"), text, re.MULTILINE)
        ]
        if not rows:
            raise ValueError(f"the page of reliability lacks {pattern}")
        return rows

    def group(word: str) -> tuple[str, str]:
        """How many tests the groups with this word in their titles have, and how many failed."""
        titles = [title for title in (*GROUPS, DRAWN, *SANITIZED) if word in title]
        counts = [found(rf"^\| {re.escape(title)} \| # \| # \| # \|$")[0] for title in titles]
        return number(sum(count for count, _, _ in counts)), number(sum(failed for _, _, failed in counts))

    ((calls,),) = found("has # malformed calls")
    ((seconds, cores),) = found(r"# s on # cores \|")
    fuzzed = found(rf"^\| (?:{'|'.join(ISAS)}) \| # \| [\d,]+ \| [\d,]+ \| # \|$")
    ((classes, tried, _, _, different, other),) = found(r"^\| # classes.*? \| # \| # \| # \| # \| # \|$")
    passed = re.findall(r"\d+\.\d+", re.findall(r"^Other versions of torch .*: (.*)\.$", text, re.MULTILINE)[0])
    rows = [
        ("malformed calls of operators, on the CPU and Meta", number(calls), group("wrong argument")[1]),
        (
            f"calls by arbitrary bytes, {seconds} s of libFuzzer on {cores} cores, under Clang's sanitizers",
            number(sum(count for count, _ in fuzzed)),
            number(sum(count for _, count in fuzzed)),
        ),
        (f"changed files of {classes} classes and variants", number(tried), number(different + other)),
        ("tests of derivatives in every mode", *group("Derivatives")),
        ("tests of equal bits, among them 1,000 repeats", *group("1,000 repeats")),
        ("tests of kernels under sanitizers, CUDA kernels on the host", *group("kernels")),
        ("tests of `torch.compile`, `torch.export`, AOTInductor and TorchScript", *group("AOTInductor")),
        ("tests of laws, on examples that hypothesis draws", *group("hypothesis")),
        ("minor versions of torch under which operators and classes pass, beside the newest", number(len(passed)), "0"),
    ]
    return table("tried | how many | wrong", rows, left=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, metavar="FOLDER", help="with fuzz_operators")
    parser.add_argument("--report", type=pathlib.Path, required=True, help="tests.xml of make test-python")
    help = "reports of make test-cpp and make test-sanitized"
    parser.add_argument("--programs", type=pathlib.Path, nargs="+", default=(), metavar="FOLDER", help=help)
    parser.add_argument("--seconds", type=int, default=3600, help="of fuzzing")
    parser.add_argument("--mutations", type=int, default=10000, help="of a file of each class")
    parser.add_argument("--minors", nargs="*", default=[], metavar="MINOR", help="of torch, to test as well")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="measures these anew and keeps the others")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--page", type=pathlib.Path, default=PAGE)
    options = parser.parse_args()
    build = options.build.resolve()
    kept = build / "reliability.json"
    parts: dict[str, str] = json.loads(kept.read_text()) if options.only and kept.exists() else {}
    parts["lanes"] = lanes()
    failed: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        measures = {
            "fuzz": lambda: fuzz(build, options.seconds, options.jobs, folder),
            "states": lambda: states(options.mutations, folder),
            "tests": lambda: tests(options.report, options.programs),
            "minors": lambda: minors(options.minors),
        }
        for name in options.only or PARTS:
            parts[name], failed[name] = measures[name]()
            kept.write_text(json.dumps(parts))
    missing = set(PARTS) - parts.keys()
    if not missing:
        options.page.write_text(page(parts))
        if options.page == PAGE:
            update(README, {"reliability": summary(PAGE.read_text())})
    print(f"torch_hrr: not measured yet: {', '.join(sorted(missing))}" if missing else f"torch_hrr: {options.page}")
    bad = [name for name, count in failed.items() if count]
    if bad:
        print(f"torch_hrr: failed: {', '.join(bad)}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
