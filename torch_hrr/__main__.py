"""The command line: `python -m torch_hrr info | demo | bench | parse | explore | monitor | doctor`."""

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import torch_hrr
from torch_hrr import assembly, demos, doctor, runtime, watch
from torch_hrr._library import build_info
from torch_hrr.assembly import explore
from torch_hrr.assembly.grammar import GRAMMARS

_PROG = "python -m torch_hrr"
# As shells report what Ctrl-C and a closed pipe end.
_INTERRUPTED, _CLOSED = 130, 141


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
        tree = assembly.Parser(options.language, options.seed).parse(" ".join(options.words))
    except ValueError as error:
        raise SystemExit(str(error)) from None
    print(tree)
    return 0


def _add_parse_arguments(parser: argparse.ArgumentParser) -> None:
    words = "; ".join(f"{language}: {', '.join(grammar.words)}" for language, grammar in GRAMMARS.items())
    parser.epilog = f"It knows these words, and in Python those of Grammar.with_words. {words.capitalize()}."
    parser.add_argument("words", nargs="+", metavar="WORD", help="of a sentence: the big dogs chase the bad cats")
    languages = tuple(GRAMMARS)
    parser.add_argument("--language", choices=languages, default=languages[0], help=f"(default: {languages[0]})")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the brain (default: 0)")


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the command line, and those of its commands."""
    parser = argparse.ArgumentParser(prog=_PROG, description="Brain-inspired models as PyTorch operators.")
    version = f"torch_hrr {torch_hrr.__version__}, torch {torch.__version__}"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="name")
    known: dict[str, argparse.ArgumentParser] = {}

    def add(
        name: str, purpose: str, run: Callable[..., Any], add_arguments: Callable[..., Any] = lambda _: None
    ) -> None:
        known[name] = commands.add_parser(name, help=purpose, description=f"{purpose[0].upper()}{purpose[1:]}.")
        add_arguments(known[name])
        known[name].set_defaults(run=run)

    add("info", "versions, device, kernels chosen", info)
    add("doctor", "what is wrong with this installation, and what mends it", doctor.run, doctor.add_arguments)
    add("demo", "every system at work on real data, and a table of results", demos.run, demos.add_arguments)
    add("bench", "times beside torch, torch.compile and the libraries that are installed", bench)
    add("monitor", "a live view of what a command, or the machine, uses", watch.run, watch.add_arguments)
    add("parse", "the tree of dependencies of a sentence, by assemblies of neurons", parse, _add_parse_arguments)
    add("explore", "a window with sliders: what k, beta and p do to a projection", explore.run, explore.add_arguments)
    return parser, known


def _check_build(command: str) -> None:
    try:
        build_info()
    except RuntimeError as error:
        raise SystemExit(f"{command}: {error}; `{_PROG} doctor` says what mends it") from None


def _run(arguments: Sequence[str]) -> int:
    # Its options are where the benchmarks are, and not loaded for other commands.
    if arguments[:1] == ["bench"]:
        _check_build("bench")
        return bench(arguments[1:])
    parser, commands = _parser()
    options, unknown = parser.parse_known_args(arguments)
    if options.name is None:
        if unknown:
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        parser.print_help()
        return 2
    if unknown:
        commands[options.name].error(f"unrecognized arguments: {' '.join(unknown)}")
    if options.name != "doctor":
        _check_build(options.name)
    status: int = options.run(options)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Parses the command line and runs the command; returns the exit status."""
    # Python has none where the shell closed them.
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))
    for stream in (sys.stdout, sys.stderr):
        # Where an encoding lacks a character, another stands for it.
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
    try:
        status = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return _INTERRUPTED
    except OSError as error:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        # So that the interpreter does not write the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return _CLOSED
        print(f"{_PROG}: {error}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
