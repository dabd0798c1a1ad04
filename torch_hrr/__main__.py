"""The command line: `python -m torch_hrr info | demo | bench | parse | explore | monitor | doctor`."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

import torch_hrr
from torch_hrr import assembly, demos, doctor, runtime, watch
from torch_hrr._library import build_info
from torch_hrr.assembly import explore
from torch_hrr.assembly.grammar import GRAMMARS

_PROG = "python -m torch_hrr"


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


def bench(arguments: Sequence[str]) -> int:
    """Runs the benchmarks, the source tree's or those that the package carries."""
    package = Path(__file__).resolve().parent
    root = package.parent if (package.parent / "bench" / "run.py").exists() else package / "benchmarks"
    # First, since the current folder may have a `bench` of its own.
    sys.path.insert(0, str(root))
    status: int = importlib.import_module("bench.run").main(arguments, f"{_PROG} bench")
    return status


def parse(options: argparse.Namespace) -> int:
    """Prints the tree of dependencies of a sentence."""
    try:
        print(assembly.Parser(options.language, options.seed).parse(options.sentence))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the command line and runs the command; returns the exit status."""
    arguments = sys.argv[1:] if argv is None else argv
    # Its options are where the benchmarks are, and not loaded for other commands.
    if arguments[:1] == ["bench"]:
        return bench(arguments[1:])
    parser = argparse.ArgumentParser(prog=_PROG, description=__doc__)
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
    commands.add_parser("bench", help="times beside torch, torch.compile and the libraries that are installed")
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
    options = parser.parse_args(arguments)
    status: int = options.run(options)
    return status


if __name__ == "__main__":
    sys.exit(main())
