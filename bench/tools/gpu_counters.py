"""What five kernels really ask of a GPU's memory, by ncu's counters, beside what cuda_on_host_profile counted.

    python bench/tools/gpu_counters.py --counts FILE                   on a GPU, with ncu on PATH
    python bench/tools/gpu_counters.py --counts FILE --device cpu      a dry run: calls the operators on the CPU

FILE is the output of cuda_on_host_profile. A count that is off by more than a twentieth fails: an assumption of the
program that counts on the host is wrong then (docs/dev/cuda_on_host.md).
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import gpu_torch  # noqa: E402
from bench.tools import gpu_counts  # noqa: E402
from bench.tools.gpu_counts import Counts  # noqa: E402
from bench.tools.kernel_code import demangle, short_name  # noqa: E402
from torch_hrr import field, hierarchy  # noqa: E402
from torch_hrr.io import write_atomically  # noqa: E402

# Sectors of global memory and wavefronts of shared memory, as ncu and as the counter names them.
METRICS = {
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "global_load",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "global_store",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared_load",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "shared_store",
}
TOLERANCE = 0.05
SHAPES = (
    ("bind_normalize", "64x1024"),
    ("k_winners float", "8x4096 k100"),
    ("sinusoidal_encoding float", "2048x1024"),
    ("field_evolve float", "1x32x32x32x16"),
    ("plastic_scan oja", "16x1x208x400"),
)


def call_of(op: str, shape: str, device: str) -> Callable[[], Any]:
    if op == "field_evolve float":
        start = torch.randn(1, 32, 32, 32, 16, device=device)
        return lambda: field.evolve(start, 0.1, 0.1)
    if op == "plastic_scan oja":
        inputs, weight = torch.randn(16, 208, device=device), torch.randn(400, 208, device=device) / 208**0.5
        return lambda: hierarchy.plastic_scan(inputs, weight, "oja")
    case = gpu_torch.case_of(op, shape, device)
    assert case is not None and case.ours is not None
    return case.ours


def run_calls(device: str) -> None:
    """Each call once to load its kernel, then once where a profiler looks."""
    calls = [call_of(op, shape, device) for op, shape in SHAPES]
    for call in calls:
        call()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        for call in calls:
            call()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def read_ncu(lines: Iterable[str]) -> dict[str, dict[str, float]]:
    """Sums of the metrics by kernel, from what `ncu --csv --page raw` prints among other lines."""
    rows = csv.DictReader(line for line in lines if line.startswith('"'))
    sums: dict[str, dict[str, float]] = {}
    for row in rows:
        if not row["ID"]:
            continue  # the units
        kinds = sums.setdefault(row["Kernel Name"], dict.fromkeys(METRICS.values(), 0.0))
        for metric, kind in METRICS.items():
            kinds[kind] += float(row[metric].replace(",", ""))
    return sums


def ask_ncu() -> dict[str, dict[str, float]]:
    """Runs the calls in a process that ncu watches."""
    command = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "mangled",
        "--profile-from-start", "off", "--clock-control", "none", "--metrics", ",".join(METRICS),
        sys.executable, str(Path(__file__).resolve()), "--calls",
    ]  # fmt: skip
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if ran.returncode:
        raise SystemExit(f"ncu failed with exit code {ran.returncode}:\n{ran.stdout[-3000:]}")
    return read_ncu(ran.stdout.splitlines())


def compare(counts: Sequence[Counts], found: Mapping[str, Mapping[str, float]]) -> list[dict[str, Any]]:
    """A row for each kernel and kind of request: counted on the host, measured by ncu, and whether they agree."""
    rows = []
    for one in counts:
        for symbol in dict.fromkeys(launch.symbol for launch in one.launches):
            launches = [launch for launch in one.launches if launch.symbol == symbol]
            for kind in METRICS.values():
                counted = sum(launch.requests[kind].units for launch in launches)
                measured = found.get(symbol, {}).get(kind)
                agree = measured is not None and abs(measured - counted) <= TOLERANCE * max(counted, 1)
                rows.append({
                    "op": one.op, "shape": one.shape, "kernel": short_name(demangle(symbol)), "kind": kind,
                    "counted": counted, "measured": measured, "agree": agree,
                })  # fmt: skip
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    yield f"{'operator and shape':<40}{'kind':<14}{'counted':>10}{'measured':>10}  agree?"
    for row in rows:
        measured = "-" if row["measured"] is None else f"{row['measured']:.0f}"
        agree = "yes" if row["agree"] else "no"
        name = f"{row['op']} {row['shape']}"
        yield f"{name:<40}{row['kind']:<14}{row['counted']:>10}{measured:>10}  {agree}"


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a count and a counter disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=Path, help="the output of cuda_on_host_profile")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument("--calls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.calls:
        run_calls(options.device)
        return 0
    if options.counts is None:
        parser.error("--counts names the output of cuda_on_host_profile")
    counts = {(one.op, one.shape): one for one in gpu_counts.read_counts(json.loads(options.counts.read_text()))}
    chosen = [counts[shape] for shape in SHAPES]
    if options.device == "cpu":
        run_calls("cpu")
        print(f"{len(chosen)} calls run, and all of them are counted; ncu's counters need a GPU")
        return 0
    rows = compare(chosen, ask_ncu())
    if options.json:
        write_atomically(str(options.json.resolve()), [json.dumps(rows, indent=1).encode()])
    print("\n".join(table(rows)))
    return int(not all(row["agree"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
