"""How long the CUDA kernels should take on four GPUs, from counted requests, compiled code and data sheets.

    python bench/gpu_model.py                   the tables of docs/dev/gpu_model.md, for what is built
    python bench/gpu_model.py --counts FILE     counts from this file; without: those of the build tree's program
    python bench/gpu_model.py --build DIR       another build tree than that of pip install
    python bench/gpu_model.py --code FILE       machine code from this library; without: that of the build tree
    python bench/gpu_model.py --gpu NAME        one GPU alone
    python bench/gpu_model.py --update          writes the tables of docs/dev/gpu_model.md

On a machine with a GPU the measured times follow. docs/dev/gpu_model.md says what is modelled and what is left out.
"""

import argparse
import dataclasses
import json
import math
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import gpu_torch  # noqa: E402
from bench.markdown import table, update  # noqa: E402
from bench.timing import CpuClock, CudaClock  # noqa: E402
from bench.tools import gpu_counts  # noqa: E402
from bench.tools.gpu_counts import SECTOR, Buffer, Counts  # noqa: E402
from bench.tools.kernel_code import (  # noqa: E402
    Usage,
    architecture_order,
    build_tree,
    demangle,
    sass_of,
    short_name,
    usage_of,
)
from bench.tools.kernel_resources import kib, percent  # noqa: E402
from bench.tools.machine_code import Asked, Instruction, Issued, issued_by_warp, parse_sass  # noqa: E402
from bench.tools.occupancy import KIB, WARP, occupancy  # noqa: E402

DOCUMENT = ROOT / "docs" / "dev" / "gpu_model.md"
LIBRARY = "libtorch_hrr.so"
MIB = KIB * KIB
# An SM issues one instruction a clock from each of four schedulers and passes over its shared memory once a clock.
SCHEDULERS = 4
# An assumption, which no data sheet has: the time from one small kernel of a stream to the next, enqueued ahead. What
# torch does on the host is not in it.
LAUNCH_SECONDS = 2.5e-6
# Kernels whose blocks take rows are modelled at this batch too: the counted blocks, more often.
ROWS = 1000
ROW_OPERATORS = re.compile(r"(un)?bind|superpose|k_winners|k_cap")


@dataclass(frozen=True)
class Gpu:
    """What a data sheet says; what an SM holds is in bench/tools/occupancy.py by architecture."""

    name: str
    architecture: str
    sms: int
    hertz: float
    bytes_per_second: float
    l2_bytes: int
    source: str


GPUS = (
    Gpu(
        "A100 SXM 80GB", "sm_80", 108, 1.41e9, 2.039e12, 40 * MIB,
        "NVIDIA A100 Tensor Core GPU datasheet (2,039 GB/s); NVIDIA A100 Tensor Core GPU Architecture whitepaper "
        "(108 SMs, boost clock 1410 MHz, 40 MB of L2)",
    ),
    Gpu(
        "H100 SXM", "sm_90", 132, 1.98e9, 3.35e12, 50 * MIB,
        "NVIDIA H100 Tensor Core GPU datasheet (3.35 TB/s; 67 TFLOPS of 16,896 lanes, so 1980 MHz); NVIDIA H100 Tensor "
        "Core GPU Architecture whitepaper (132 SMs, 50 MB of L2)",
    ),
    Gpu(
        "H200 SXM", "sm_90", 132, 1.98e9, 4.8e12, 50 * MIB,
        "NVIDIA H200 Tensor Core GPU datasheet (4.8 TB/s; 67 TFLOPS as the H100, whose SMs, clock and L2 are taken)",
    ),
    Gpu(
        "RTX 4090", "sm_89", 128, 2.52e9, 1.008e12, 72 * MIB,
        "NVIDIA Ada GPU Architecture whitepaper, appendix on AD102 (128 SMs, boost clock 2520 MHz, 1008 GB/s, "
        "72 MB of L2)",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A launch as it was counted, its blocks perhaps more often, with what its code needs where that was found."""

    counted: gpu_counts.Launch
    blocks: int
    shared_bytes: int
    registers: int = 0
    code: int = 0
    issued: Issued | None = None

    @property
    def threads(self) -> int:
        return math.prod(self.counted.block)

    @property
    def warps_of_block(self) -> int:
        return -(-self.threads // WARP)

    @property
    def wavefronts(self) -> float:
        kinds = self.counted.requests.items()
        units = sum(requests.units for kind, requests in kinds if kind.startswith("shared"))
        return units * self.blocks / math.prod(self.counted.grid)


@dataclass(frozen=True)
class Counted:
    """An operator at a shape."""

    op: str
    shape: str
    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...]
    least_bytes: int
    counted_rows: int | None = None

    def bytes_from_memory(self, l2_bytes: int) -> int:
        """Bytes between L2 and memory.

        What fits into L2 comes and goes once, and a workspace stays there. Otherwise every request counts, but for
        those of tables, which all blocks share.
        """
        fits = sum(buffer.bytes for buffer in self.buffers) <= l2_bytes
        sectors = 0
        for buffer in self.buffers:
            if buffer.role == "table" or (fits and buffer.role != "workspace"):
                sectors += buffer.once
            elif not fits:
                sectors += buffer.all
        return SECTOR * sectors


def counted_of(counts: Counts) -> Counted:
    launches = tuple(Launch(one, math.prod(one.grid), one.shared_bytes) for one in counts.launches)
    return Counted(counts.op, counts.shape, launches, tuple(counts.buffers), counts.least_bytes)


def asked_by_warp(launch: gpu_counts.Launch) -> dict[str, Asked]:
    """What a warp of the launch asks for on average, as if all lanes of a request took part."""
    blocks = math.prod(launch.grid)
    warps = blocks * -(-math.prod(launch.block) // WARP)
    asked = {
        "barriers": Asked(launch.barriers / blocks),
        "warp_operations": Asked(launch.warp_operations / warps),
    }
    for kind, sums in launch.requests.items():
        per_lane = sums.bytes / sums.lanes if sums.lanes else 0.0
        asked[kind] = Asked(sums.requests / warps, per_lane * WARP * sums.requests / warps)
    return asked


@dataclass(frozen=True)
class Code:
    """The kernels of one architecture: what they need by symbol, and their instructions."""

    architecture: str
    usage: Mapping[str, Usage]
    instructions: dict[str, Sequence[Instruction]]

    def symbol_of(self, symbol: str) -> str | None:
        """The symbol itself, or that of a kernel of its name whose parameters have changed since."""
        if symbol in self.usage:
            return symbol
        name = short_name(demangle(symbol))
        return next((other for other in self.usage if short_name(demangle(other)) == name), None)

    def joined(self, counted: Counted) -> Counted:
        """With registers, shared memory and issued instructions of every launch whose kernel is there."""

        def launch(one: Launch) -> Launch:
            symbol = self.symbol_of(one.counted.symbol)
            if symbol is None:
                return one
            use, instructions = self.usage[symbol], self.instructions[symbol]
            issued = issued_by_warp(instructions, asked_by_warp(one.counted))
            return Launch(
                one.counted, one.blocks, one.shared_bytes + use.shared, use.registers, len(instructions), issued
            )

        return dataclasses.replace(counted, launches=tuple(map(launch, counted.launches)))


def nearest_architecture(wanted: str, built: Sequence[str]) -> str:
    """The newest that is built and not newer than wanted, else the oldest."""
    ordered = sorted(built, key=architecture_order)
    older = [one for one in ordered if architecture_order(one) <= architecture_order(wanted)]
    return older[-1] if older else ordered[0]


def code_of(file: Path, counted: Sequence[Counted], gpus: Sequence[Gpu]) -> dict[str, Code]:
    """By GPU's architecture, the nearest code that the file has."""
    usage = usage_of([file])
    built = sorted({use.architecture for use in usage})
    if not built:
        raise ValueError(f"{file} holds no CUDA code: name a library that does with --code")
    codes: dict[str, Code] = {}
    for gpu in gpus:
        nearest = nearest_architecture(gpu.architecture, built)
        codes[gpu.architecture] = Code(nearest, {use.symbol: use for use in usage if use.architecture == nearest}, {})
    launched = {launch.counted.symbol for one in counted for launch in one.launches}
    symbols = {found for code in codes.values() for symbol in launched if (found := code.symbol_of(symbol))}
    for (symbol, architecture), lines in parse_sass(sass_of(file, symbols)).items():
        for code in codes.values():
            if code.architecture == architecture:
                code.instructions[symbol] = lines
    return codes


def enlarged(counted: Counted, shape: str, more: int, less: int) -> Counted:
    """The same blocks more / less times, of a single launch whose blocks take rows or parts of a field."""
    (launch,) = counted.launches
    larger = dataclasses.replace(launch, blocks=-(-launch.blocks * more // less))

    def buffer(one: Buffer) -> Buffer:
        if one.role == "table":
            return one
        sizes = ("bytes", "loaded_once", "stored_once", "load", "store", "atomic")
        return dataclasses.replace(one, **{size: getattr(one, size) * more // less for size in sizes})

    buffers = tuple(map(buffer, counted.buffers))
    return Counted(counted.op, shape, (larger,), buffers, counted.least_bytes * more // less, less)


def repeated(counted: Counted, rows: int) -> Counted | None:
    """The same blocks for more rows; None where blocks do not take rows.

    A single row, or rows of several launches, may be spread over blocks otherwise than many.
    """
    match = re.match(r"(\d+)x(.*)", counted.shape)
    if match is None or len(counted.launches) != 1 or not ROW_OPERATORS.match(counted.op):
        return None
    before = int(match[1])
    return enlarged(counted, f"{rows}x{match[2]}", rows, before) if 2 <= before < rows else None


@dataclass(frozen=True)
class Modelled:
    """Seconds of each limit, and of the whole; `issue` is None where a kernel's machine code was not found."""

    launch: float
    traffic: float
    wavefronts: float
    issue: float | None
    total: float
    bound: str
    share: float


def modelled(counted: Counted, gpu: Gpu) -> Modelled:
    """Launches follow one another, each as long as its own limit, and memory is at work all the while.

    The busiest SM has ceil(blocks / SMs) blocks.
    """
    wavefronts = issue = busy = 0.0
    for launch in counted.launches:
        blocks_of_sm = -(-launch.blocks // gpu.sms)
        passes = launch.wavefronts / launch.blocks * blocks_of_sm / gpu.hertz
        issued = launch.issued.instructions if launch.issued else 0.0
        slots = issued * launch.warps_of_block * blocks_of_sm / (SCHEDULERS * gpu.hertz)
        wavefronts += passes
        issue += slots
        busy += max(LAUNCH_SECONDS, passes, slots)
    launches = len(counted.launches) * LAUNCH_SECONDS
    traffic = counted.bytes_from_memory(gpu.l2_bytes) / gpu.bytes_per_second
    total = max(busy, traffic)
    limits = {"launch": launches, "wavefronts": wavefronts, "issue": issue}
    bound = "traffic" if traffic >= busy else max(limits, key=limits.__getitem__)
    known = all(launch.issued for launch in counted.launches)
    share = counted.least_bytes / gpu.bytes_per_second / total
    return Modelled(launches, traffic, wavefronts, issue if known else None, total, bound, share)


def modelled_torch(kernels: Sequence[gpu_torch.TorchKernel], least_bytes: int, gpu: Gpu) -> float:
    """Seconds of a torch form by launches and traffic alone, which is to its advantage.

    As for ours, arguments and results alone come from memory where all that the kernels write fits into L2 with them.
    """
    fits = least_bytes + sum(kernel.written for kernel in kernels) <= gpu.l2_bytes
    moved = least_bytes if fits else gpu_torch.traffic(kernels)
    return max(gpu_torch.launches(kernels) * LAUNCH_SECONDS, moved / gpu.bytes_per_second)


def us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e6 * seconds:.2f}"


def table_of_code(counted: Sequence[Counted], architecture: str) -> str:
    """A line for every kernel and grid of an operator; what its launches issue is their mean."""
    cells = []
    for one in counted:
        alike: dict[tuple[str, int, int], list[Launch]] = {}
        for launch in one.launches:
            if launch.issued is not None:
                alike.setdefault((launch.counted.symbol, launch.blocks, launch.threads), []).append(launch)
        for (symbol, blocks, threads), launches in alike.items():
            launch, all_issued = launches[0], [launch.issued for launch in launches if launch.issued]
            share = occupancy(architecture, launch.registers, threads, launch.shared_bytes)
            issued = statistics.fmean(issued.instructions for issued in all_issued)
            explained = statistics.fmean(issued.explained for issued in all_issued)
            cells.append([
                one.op, one.shape, f"`{short_name(demangle(symbol))}`", str(len(launches)), f"{blocks} x {threads}",
                str(launch.registers), percent(share), str(launch.code), f"{issued:.0f}", percent(explained),
            ])  # fmt: skip
    head = (
        "operator | shape | kernel | launches | blocks x threads | registers | occupancy | instructions | issued | "
        "explained"
    )
    return table(head, cells, left=3)


@dataclass(frozen=True)
class Row:
    """What stands in a line: the counts for a GPU's code, and the torch form's kernels."""

    counted: Counted
    form: list[gpu_torch.TorchKernel] | None


def table_of_times(rows: Sequence[Row], gpu: Gpu) -> str:
    cells = []
    for one in rows:
        counted = one.counted
        time = modelled(counted, gpu)
        launch = max(counted.launches, key=lambda launch: launch.wavefronts)
        share = occupancy(gpu.architecture, launch.registers, launch.threads, launch.shared_bytes)
        form = None if one.form is None else modelled_torch(one.form, counted.least_bytes, gpu)
        if launch.issued and share == 0:  # counted with more shared memory than a block of this GPU may have
            cells.append([counted.op, counted.shape, "0%", *["-"] * 7, us(form), "-"])
            continue
        cells.append([
            counted.op, counted.shape + (" *" if counted.counted_rows else ""),
            percent(share) if launch.issued else "-",
            us(time.launch), us(time.traffic), us(time.wavefronts), us(time.issue), us(time.total), time.bound,
            percent(time.share), us(form), "-" if form is None else f"{form / time.total:.1f}",
        ])  # fmt: skip
    head = (
        "operator | shape | occupancy | launch | traffic | wavefronts | issue | time | bound by | limit | torch | ratio"
    )
    return table(head, cells)


def table_of_forms(rows: Sequence[Row]) -> str:
    """The kernels of each operator's torch form at its first shape, those of a name together."""
    cells = []
    seen = set()
    for one in rows:
        if one.form is None or one.counted.op in seen:
            continue
        seen.add(one.counted.op)
        for name in dict.fromkeys(kernel.name for kernel in one.form):
            alike = [kernel for kernel in one.form if kernel.name == name]
            cells.append([
                one.counted.op, one.counted.shape, f"`{name}`", str(gpu_torch.launches(alike)),
                kib(sum(kernel.read for kernel in alike)), kib(sum(kernel.written for kernel in alike)),
            ])  # fmt: skip
    return table("operator | shape | kernel | launches | KiB read | KiB written", cells, left=3)


def table_of_gpus(codes: Mapping[str, Code], gpus: Sequence[Gpu]) -> str:
    cells = [
        [
            gpu.name, gpu.source, codes[gpu.architecture].architecture, str(gpu.sms), f"{gpu.hertz / 1e6:.0f}",
            f"{gpu.bytes_per_second / 1e9:.0f}", f"{gpu.l2_bytes // MIB}",
        ]
        for gpu in gpus
    ]  # fmt: skip
    return table("GPU | source | code of | SMs | MHz | GB/s | L2 MiB", cells, left=3)


def shown(one: Counted) -> list[Counted]:
    """A counted shape, and after it the larger batch where blocks take rows."""
    larger = repeated(one, ROWS)
    return [one] if larger is None else [one, larger]


def rows_of(counted: Sequence[Counted], code: Code, forms: Mapping[tuple[str, str], Any]) -> list[Row]:
    lines = [each for one in counted for each in shown(code.joined(one))]
    return [Row(each, forms.get((each.op, each.shape))) for each in lines]


def forms_of(counted: Sequence[Counted]) -> dict[tuple[str, str], list[gpu_torch.TorchKernel]]:
    """The kernels of the torch form of every row."""
    names = ((each.op, each.shape) for one in counted for each in shown(one))
    cases = {name: gpu_torch.case_of(*name, "meta") for name in names}
    return {name: case.kernels() for name, case in cases.items() if case is not None}


def measured_table(
    counted: Sequence[Counted], device: str = "cuda", clock: type[CudaClock] | type[CpuClock] = CudaClock
) -> str:
    """Medians of CUDA events around single calls on this machine's GPU, L2 overwritten before each."""
    cells = []
    for each in (each for one in counted for each in shown(one)):
        case = gpu_torch.case_of(each.op, each.shape, device)
        if case is not None and case.ours is not None:
            ours, form = (clock("f()", {"f": call}, 1).seconds(20) for call in (case.ours, case.form))
            cells.append([each.op, each.shape, us(ours), us(form), f"{form / ours:.1f}"])
    return table("operator | shape | measured | torch | ratio", cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=Path, help="the output of cuda_on_host_profile")
    parser.add_argument("--build", type=Path, help="the build tree (default: that of pip install)")
    parser.add_argument("--code", type=Path, help="a library with CUDA code (default: the build tree's)")
    parser.add_argument("--gpu", choices=[gpu.name for gpu in GPUS], help="one GPU alone")
    parser.add_argument("--update", action="store_true", help="write the tables of docs/dev/gpu_model.md")
    options = parser.parse_args(arguments)
    if options.update and options.gpu:
        parser.error("--update writes the tables of all GPUs")
    tree = options.build or build_tree()
    if options.counts:
        counts = gpu_counts.read_counts(json.loads(options.counts.read_text()))
    else:
        counts = gpu_counts.counted(gpu_counts.counts_program(tree))
    counted = list(map(counted_of, counts))
    gpus = [gpu for gpu in GPUS if options.gpu in (None, gpu.name)]
    codes = code_of(options.code or tree / LIBRARY, counted, gpus)
    forms = forms_of(counted)
    by_architecture = {code.architecture: code for code in codes.values()}
    rows = {name: rows_of(counted, code, forms) for name, code in by_architecture.items()}
    first = codes[gpus[0].architecture].architecture
    plain = [one.counted for one in rows[first] if one.counted.counted_rows is None]
    tables = {
        "gpus": table_of_gpus(codes, gpus),
        "counts": gpu_counts.table(counts),
        "code": table_of_code(plain, first),
        "forms": table_of_forms(rows[first]),
    }
    tables |= {gpu.name: table_of_times(rows[codes[gpu.architecture].architecture], gpu) for gpu in gpus}
    if options.update:
        update(DOCUMENT, tables)
    else:
        for name, content in tables.items():
            print(f"{name}\n\n{content}")
    if torch.cuda.is_available():
        print(f"measured on {torch.cuda.get_device_name()}\n\n{measured_table(counted)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
