"""What CUDA kernels ask of a GPU's memory, counted on the host, and the bounds of gpu_bounds.toml on it.

`python bench/tools/gpu_counts.py` runs the program cuda_on_host_profile of a build tree and prints a line for each
operator and shape; `--check` compares with the bounds, like tests/test_gpu_counts.py. docs/dev/cuda_on_host.md
says how it counts.
"""

import argparse
import fcntl
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import markdown  # noqa: E402
from bench.tools.kernel_code import build_tree, demangle, short_name  # noqa: E402
from torch_hrr.io import write_atomically  # noqa: E402

BOUNDS = Path(__file__).with_name("gpu_bounds.toml")
SECTOR = 32
# Sectors of global memory, wavefronts of shared memory: measured / least.
RATIOS = ("global_load", "global_store", "shared_load", "shared_store")
ATOMICS = ("global_atomic", "shared_atomic")


@dataclass(frozen=True)
class Requests:
    """Sums over the requests of one kind: an instruction of a warp makes one."""

    requests: int = 0
    lanes: int = 0
    bytes: int = 0
    units: int = 0
    least: int = 0
    deepest: int = 0

    def __add__(self, other: "Requests") -> "Requests":
        *sums, _ = (mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True))
        return Requests(*sums, deepest=max(self.deepest, other.deepest))

    @property
    def ratio(self) -> float:
        return self.units / self.least if self.least else 1.0


@dataclass(frozen=True)
class Launch:
    """One launch: its kernel by the name that kernel_bounds.toml uses too, and its requests by kind."""

    kernel: str
    symbol: str
    grid: Sequence[int]
    block: Sequence[int]
    shared_bytes: int
    barriers: int
    warp_operations: int
    requests: dict[str, Requests]


@dataclass(frozen=True)
class Buffer:
    """An argument, a result, a table or a workspace: its bytes, and the sectors that were loaded, stored, updated."""

    name: str
    role: str
    bytes: int
    loaded_once: int
    stored_once: int
    load: int
    store: int
    atomic: int

    @property
    def once(self) -> int:
        """Distinct sectors."""
        return self.loaded_once + self.stored_once

    @property
    def all(self) -> int:
        """Sectors of all requests."""
        return self.load + self.store + self.atomic

    @property
    def passes(self) -> float:
        """How often the buffer's bytes are moved, by all requests."""
        return SECTOR * self.all / self.bytes if self.bytes else 0.0


@dataclass(frozen=True)
class Counts:
    """What one call of an operator asks for."""

    op: str
    shape: str
    launches: list[Launch]
    buffers: list[Buffer]

    @property
    def name(self) -> str:
        return f"{self.op} {self.shape}"

    @property
    def least_bytes(self) -> int:
        """Arguments, results and states, each once, as far as they are touched at all."""
        ours = (buffer for buffer in self.buffers if buffer.role in ("argument", "result", "state"))
        return sum(min(buffer.bytes, SECTOR * buffer.once) for buffer in ours)

    @property
    def bytes_once(self) -> int:
        return SECTOR * sum(buffer.once for buffer in self.buffers)

    @property
    def bytes_all(self) -> int:
        return SECTOR * sum(buffer.all for buffer in self.buffers)

    def of(self, kind: str) -> Requests:
        return sum((launch.requests[kind] for launch in self.launches), Requests())

    def by_kernel(self) -> dict[str, dict[str, Requests]]:
        kernels: dict[str, dict[str, Requests]] = {}
        for launch in self.launches:
            sums = kernels.setdefault(launch.kernel, {})
            for kind, requests in launch.requests.items():
                sums[kind] = sums.get(kind, Requests()) + requests
        return kernels


def _launch(entry: Mapping[str, Any]) -> Launch:
    facts = {kind: value for kind, value in entry.items() if not isinstance(value, dict) and kind != "name"}
    kinds = {kind: Requests(**value) for kind, value in entry.items() if isinstance(value, dict)}
    return Launch(short_name(demangle(facts["symbol"])) or entry["name"], requests=kinds, **facts)


def read_counts(entries: Sequence[Mapping[str, Any]]) -> list[Counts]:
    """The output of cuda_on_host_profile."""
    return [
        Counts(one["op"], one["shape"], list(map(_launch, one["launches"])), [Buffer(**own) for own in one["buffers"]])
        for one in entries
    ]


def counts_program(tree: Path) -> Path:
    return tree / "tests/cuda_on_host/cuda_on_host_profile"


def counted(program: Path, op: str = "") -> list[Counts]:
    """Runs the program; what it counts of everything, which takes minutes, is kept beside it until it is built anew."""
    if not program.is_file():
        raise FileNotFoundError(f"{program} is not built: build its tree with tests, and with clang++-14 and opt-14")
    if op:
        return read_counts(json.loads(_run(program, op)))
    kept = program.with_name("counts.json")
    with kept.with_suffix(".lock").open("w") as lock:
        # Processes that want it at once wait for the first.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists() or kept.stat().st_mtime < program.stat().st_mtime:
            write_atomically(str(kept.resolve()), [_run(program).encode()])
        return read_counts(json.loads(kept.read_text()))


def _run(program: Path, *arguments: str) -> str:
    return subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True).stdout


@dataclass
class Allowance:
    """A row of gpu_bounds.toml that replaces one bound for the operators and kernels or buffers it names."""

    op: re.Pattern[str]
    of: re.Pattern[str]
    measure: str
    most: float
    needed: bool = False


@dataclass
class Bounds:
    most: dict[str, float]
    exceptions: list[Allowance]


def read_bounds(text: str) -> Bounds:
    """Raises ValueError where an exception has another measure than those with bounds, or no reason."""
    data = tomllib.loads(text)
    exceptions = []
    for op, of, measure, most, reason in data.get("exceptions", []):
        if not reason.strip() or measure not in data["most"]:
            raise ValueError(f"{op}, {of}: a reason and a measure of {sorted(data['most'])} are needed, got {measure}")
        exceptions.append(Allowance(re.compile(op), re.compile(of), measure, most))
    return Bounds(data["most"], exceptions)


def measured(counts: Counts) -> Iterator[tuple[str, str, float]]:
    """(kernel or buffer, measure, value) of everything that has a bound."""
    for kernel, kinds in counts.by_kernel().items():
        for kind in RATIOS:
            yield kernel, kind, kinds[kind].ratio
        for kind in ATOMICS:
            yield kernel, "pile_up", kinds[kind].deepest
    for buffer in counts.buffers:
        if buffer.role in ("argument", "result"):
            yield buffer.name, "passes", buffer.passes


def violations(all_counts: Sequence[Counts], bounds: Bounds) -> list[str]:
    """What is wrong, a line each: bounds that do not hold, and exceptions that are not needed any more."""
    wrong = []
    for counts in all_counts:
        for what, measure, value in measured(counts):
            most = bounds.most[measure]
            for exception in bounds.exceptions:
                covers = exception.op.fullmatch(counts.name) and exception.of.match(what)
                if covers and exception.measure == measure and value > most:
                    exception.needed = True
                    most = max(most, exception.most)
            if value > most:
                wrong.append(f"{counts.name}: {what}: {measure} is {value:.3f}, the bound is {most}")
    unneeded = (f"{one.op.pattern}, {one.of.pattern}, {one.measure}" for one in bounds.exceptions if not one.needed)
    return wrong + [f"gpu_bounds.toml: the exception for {one} is not needed any more" for one in unneeded]


def table(all_counts: Sequence[Counts]) -> str:
    cells = []
    for counts in all_counts:
        ratios = (f"{counts.of(kind).ratio:.2f}" if counts.of(kind).requests else "-" for kind in RATIOS)
        load, store, shared_load, shared_store = ratios
        deepest = max(counts.of(kind).deepest for kind in ATOMICS)
        least = counts.least_bytes
        cells.append([
            counts.op, counts.shape, str(len(counts.launches)), f"{least / 1024:.1f}",
            f"{counts.bytes_once / least:.2f}", f"{counts.bytes_all / least:.2f}", f"{load} / {store}",
            f"{shared_load} / {shared_store}", str(deepest or "-"),
        ])  # fmt: skip
    return markdown.table("operator | shape | launches | KiB | once | all | global | shared | pile-up", cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, help="build tree (default: that of pip install)")
    parser.add_argument("--op", default="", help="only operators whose name contains this")
    parser.add_argument("--check", action="store_true", help="compare with gpu_bounds.toml")
    options = parser.parse_args(arguments)
    all_counts = counted(counts_program(options.build or build_tree()), options.op)
    if options.check and options.op:
        parser.error("--check takes all operators: an exception may be for any of them")
    if options.check:
        wrong = violations(all_counts, read_bounds(BOUNDS.read_text()))
        print("\n".join(wrong) or f"all bounds hold for {len(all_counts)} shapes")
        return 1 if wrong else 0
    print(table(all_counts), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
