"""The shapes that the CUDA kernels are judged by: ours beside the best torch form, torch.compile, a copy and the model.

    python bench/gpu_headlines.py                           on a GPU
    python bench/gpu_headlines.py --device cpu --small      a dry run: small shapes, no verdict
    python bench/gpu_headlines.py --predict FILE --counts COUNTS --code LIBRARY    what the model says, without a GPU

Each row has what was asked of it: a ratio to the best torch form, a share of a measured copy's bandwidth, or a share of
the larger of an empty launch and a copy of as many bytes. What whole programs take follows, as targets.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import (  # noqa: E402
    assembly,
    assembly_targets,
    encoding,
    field,
    field_targets,
    gpu_model,
    hierarchy_targets,
    hrr,
    hrr_targets,
)
from bench.entry import Entry, aligned  # noqa: E402
from bench.run import measure  # noqa: E402
from bench.targets import Session, format_target, heading, measure_target  # noqa: E402
from bench.timing import Settings, machine_limits  # noqa: E402
from bench.tools import gpu_counts  # noqa: E402
from bench.tools.kernel_code import usage_of  # noqa: E402
from torch_hrr.io import write_atomically  # noqa: E402


@dataclass(frozen=True)
class Headline:
    """An entry, and what is asked of it."""

    entry: Entry
    small: int  # the batch of its dry run
    asked: Literal["ratio", "share", "limit"]
    least: float
    # An operator and shape that cuda_on_host_profile counts, and how many times the entry is that shape, as a fraction;
    # None where the model does not reach the entry.
    counted: tuple[str, str, int, int] | None

    @property
    def goal(self) -> str:
        if self.asked == "ratio":
            return f"{self.least:g}x torch"
        return f"{self.least:.0%} of {'a copy' if self.asked == 'share' else 'limit'}"


HEADLINES = (
    Headline(hrr.binding("bind_normalize", 1000, 1024), 4, "ratio", 3, ("bind_normalize", "64x1024", 1000, 64)),
    Headline(hrr.binding("bind_normalize", 1000, 1000), 4, "ratio", 2, ("bind_normalize", "16x1000", 1000, 16)),
    Headline(hrr.binding("bind_normalize", 64, 4096), 4, "ratio", 2, ("bind_normalize", "16x4096", 64, 16)),
    # The larger of launch and traffic in 1.3 times at most.
    Headline(hrr.binding("bind", 1000, 1024), 4, "limit", 1 / 1.3, ("bind", "64x1024", 1000, 64)),
    Headline(assembly.winners(32, 1_000_000, 1000, 1), 1, "ratio", 3, None),
    Headline(
        encoding.encoding_entry(65_536, 1024, torch.float32), 64, "share", 0.85,
        ("sinusoidal_encoding float", "2048x1024", 65_536, 2048),
    ),
    Headline(
        field.entry(64, 64, 1, "replicate"), 2, "share", 0.85,
        ("field_evolve float", "1x32x32x32x16", 64**3 * 64, 32**3 * 16),
    ),
)  # fmt: skip


TARGETS = [
    next(target for target in module.TARGETS if target.what == what)
    for module, what in (
        (hrr_targets, "bind_normalize over traffic, 1000"),
        (field_targets, "32^3x64 cycle, 1000 a second"),
        (hierarchy_targets, "the example on a GPU"),
        (assembly_targets, "a small brain's round, replayed"),
        (assembly_targets, "exact projection, one core"),
    )
]


def predictions(
    counted: Sequence[gpu_model.Counted], codes: Mapping[str, gpu_model.Code], gpus: Sequence[gpu_model.Gpu]
) -> dict[str, dict[str, float]]:
    """Modelled seconds by GPU and entry."""
    shapes = {(one.op, one.shape): one for one in counted}
    found: dict[str, dict[str, float]] = {}
    for gpu in gpus:
        times = found.setdefault(short(gpu), {})
        for headline in HEADLINES:
            if headline.counted is not None:
                op, shape, more, less = headline.counted
                one = codes[gpu.architecture].joined(shapes[op, shape])
                larger = gpu_model.enlarged(one, headline.entry.shape, more, less)
                times[headline.entry.name] = gpu_model.modelled(larger, gpu).total
    return found


def short(gpu: gpu_model.Gpu) -> str:
    """The part of its name that torch's name of the device has too."""
    return gpu.name.split()[0]


def predict(counts: Path, code: Path) -> dict[str, dict[str, float]]:
    """The predictions from files, for the GPUs that the library has code for."""
    counted = [gpu_model.counted_of(one) for one in gpu_counts.read_counts(json.loads(counts.read_text()))]
    built = {use.architecture for use in usage_of([code])}
    gpus = [gpu for gpu in gpu_model.GPUS if gpu.architecture in built]
    return predictions(counted, gpu_model.code_of(code, counted, gpus), gpus)


def row_of(
    headline: Headline, settings: Settings, limits: dict[str, float], small: bool, model: dict[str, float]
) -> Any:
    """What bench/run.py measures of the entry, with bytes a second, the share of a copy's, and the verdict."""
    entry = replace(headline.entry, batch=headline.small) if small else headline.entry
    # The traffic is that of the whole batch.
    row = measure(entry, settings, limits) | {"goal": headline.goal, "modelled": model.get(entry.name)}
    if row["error"]:
        return row
    seconds = row["ours"]["seconds"]
    rate = entry.traffic * entry.batch / headline.entry.batch / seconds
    values = {
        "ratio": row["ratios"]["fresh warm"]["torch"]["ratio"],
        "share": rate / limits["copy_bytes_per_second"],
        "limit": row["fraction_of_limit"],
    }
    met = None if small else values[headline.asked] >= headline.least
    return row | {"bytes_per_second": rate, "share_of_copy": values["share"], "met": met}


COLUMNS = (
    ("operator and shape", 41), ("ours us", 9), ("torch us", 9), ("ratio", 6), ("compile", 7), ("model us", 8),
    ("GB/s", 6), ("copy", 5), ("goal", 14), ("met?", 4),
)  # fmt: skip


def format_row(row: Any) -> str:
    name = f"{row['op']} {row['shape']}"
    if row["error"]:
        return f"{name:<41} ERROR {row['error']}"
    ratios = row["ratios"]["fresh warm"]
    compiled = ratios["compile"]
    return aligned([
        name, f"{row['ours']['seconds'] * 1e6:.2f}", f"{ratios['torch']['seconds'] * 1e6:.2f}",
        f"{ratios['torch']['ratio']:.2f}", f"{compiled['ratio']:.2f}" if compiled else "-",
        "-" if row["modelled"] is None else f"{row['modelled'] * 1e6:.2f}", f"{row['bytes_per_second'] / 1e9:.0f}",
        f"{row['share_of_copy']:.0%}", row["goal"], "-" if row["met"] is None else "yes" if row["met"] else "no",
    ], COLUMNS, 1)  # fmt: skip


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--small", action="store_true", help="small shapes, nothing compiled, no verdict")
    parser.add_argument("--model", type=Path, help="a file of --predict")
    parser.add_argument("--json", type=Path, help="write all rows to this file, anew after each")
    parser.add_argument("--predict", type=Path, help="write what the model says and measure nothing")
    parser.add_argument("--counts", type=Path, help="of --predict: the output of cuda_on_host_profile")
    parser.add_argument("--code", type=Path, help="of --predict: a library with CUDA code")
    options = parser.parse_args(arguments)
    if options.predict and not (options.counts and options.code):
        parser.error("--predict needs --counts and --code")
    if not options.predict and options.device == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device cuda needs a GPU that torch {torch.__version__} can see, found none")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """1 where a row is an error, whatever the times."""
    options = parse(arguments)
    if options.predict:
        text = json.dumps(predict(options.counts, options.code), indent=1) + "\n"
        write_atomically(str(options.predict.resolve()), [text.encode()])
        return 0
    torch.set_num_threads(1)
    settings = Settings(
        rounds=1 if options.small else 5,
        # The cache is overwritten before every call, which takes longer than most of them.
        block_seconds=1e-4 if options.small else 5e-4,
        threads=1,
        device=options.device,
        cold=False,
        compile=not options.small,
        seed=0,
    )
    name = torch.cuda.get_device_name() if settings.cuda else ""
    all_times = json.loads(options.model.read_text()) if options.model else {}
    model = next((times for gpu, times in all_times.items() if gpu in name), {})
    limits = machine_limits(1, settings.cuda)
    report: dict[str, Any] = {"limits": limits, "entries": [], "targets": []}

    def keep(kind: str, row: Any, text: str) -> None:
        print(text, flush=True)
        report[kind].append(row)
        if options.json:
            write_atomically(str(options.json.resolve()), [json.dumps(report, indent=1).encode()])

    copied = f"a copy moves {limits['copy_bytes_per_second'] / 1e9:.0f} GB/s"
    print(f"{copied}, an empty launch takes {limits['launch_seconds'] * 1e6:.2f} us")
    print(aligned([name for name, _ in COLUMNS], COLUMNS, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for headline in HEADLINES:
            row = row_of(headline, settings, limits, options.small, model)
            keep("entries", row, format_row(row))
        print(heading(settings, "Whole programs.").lstrip())
        session = Session(settings)
        for each in TARGETS:
            row = measure_target(each, session)
            keep("targets", row, format_target(row))
    return int(any(row["error"] for row in report["entries"] + report["targets"]))


if __name__ == "__main__":
    sys.exit(main())
