"""The command line: `python -m torch_hrr info | demo | bench | parse | explore | monitor | doctor`."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import torch_hrr
from torch_hrr import assembly, demos, doctor, runtime, watch
from torch_hrr._library import build_info
from torch_hrr.assembly import explore
from torch_hrr.assembly.grammar import GRAMMARS


def info(options: argparse.Namespace) -> int:
    """Prints versions, the device and the kernels chosen for this process."""
    build = build_info()
    rows = {"torch_hrr": torch_hrr.__version__, "torch": torch.__version__, "python": sys.version.split()[0]}
    rows |= {"threads": str(torch.get_num_threads()), "isa": build["isa"], "cuda_build": build["cuda"]}
    rows |= {key: str(value) for key, value in runtime.get_device_info().items()}
    width = max(map(len, rows))
    for key, value in rows.items():
        print(f"{key:<{width}}  {value}")
    return 0


def bench(options: argparse.Namespace) -> int:
    """Runs the benchmarks, the source tree's or the package's, in a process of their own."""
    package = Path(__file__).resolve().parent
    root = package.parent if (package.parent / "bench" / "run.py").exists() else package / "benchmarks"
    return subprocess.call([sys.executable, str(root / "bench" / "run.py"), *options.arguments])


def parse(options: argparse.Namespace) -> int:
    """Prints the tree of dependencies of a sentence."""
    try:
        print(assembly.Parser(options.language, options.seed).parse(options.sentence))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the command line and runs the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m torch_hrr", description=__doc__)
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="{info,demo,bench,parse,explore,monitor,doctor}"
    )
    info_parser = commands.add_parser("info", help="versions, device, kernels chosen")
    info_parser.set_defaults(run=info)
    demo_parser = commands.add_parser(
        "demo",
        help="every system at work: digits, assemblies, sentences, text, a dynamic field, learned filters, a pole",
    )
    demos.add_arguments(demo_parser)
    demo_parser.set_defaults(run=demos.run)
    bench_parser = commands.add_parser(
        "bench", help="times against torch, torch.compile and libraries: bench SYSTEM [--filter REGEX] [--json PATH]"
    )
    bench_parser.add_argument("arguments", nargs=argparse.REMAINDER, help="of bench/run.py, whose --help lists them")
    bench_parser.set_defaults(run=bench)
    parse_parser = commands.add_parser("parse", help="the tree of dependencies of a sentence, by assemblies of neurons")
    parse_parser.add_argument("sentence", help='such as "the big dogs chase the bad cats"')
    parse_parser.add_argument("--language", choices=tuple(GRAMMARS), default="english", help="default: english")
    parse_parser.add_argument("--seed", type=int, default=0, help="of the brain (default: 0)")
    parse_parser.set_defaults(run=parse)
    explore_parser = commands.add_parser("explore", help="a window with sliders: what k, beta and p do to a projection")
    explore.add_arguments(explore_parser)
    explore_parser.set_defaults(run=explore.run)
    monitor_parser = commands.add_parser("monitor", help="a live view of what a command, or the machine, uses")
    watch.add_arguments(monitor_parser)
    monitor_parser.set_defaults(run=watch.run)
    doctor_parser = commands.add_parser("doctor", help="what is wrong with this installation, and what mends it")
    doctor_parser.set_defaults(run=doctor.run)
    options = parser.parse_args(argv)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
