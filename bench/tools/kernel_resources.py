"""Registers, stack, shared memory and occupancy of every CUDA kernel, read from the compiled code: no GPU is needed.

    python bench/tools/kernel_resources.py            the kernels of a build by family, as Markdown
    python bench/tools/kernel_resources.py --kernels  one line per kernel; --json the same as JSON
    python bench/tools/kernel_resources.py --check    compares with kernel_bounds.toml; exit status 1 if one is exceeded
    python bench/tools/kernel_resources.py --update   writes the tables of docs/dev/kernel_resources.md
    python bench/tools/kernel_resources.py --bounds   prints tight bounds, to copy into kernel_bounds.toml

Registers, stack and static shared memory come from `cuobjdump --dump-resource-usage`. Block sizes and dynamic shared
memory are not in the binary: the build tree's program cuda_launches calls the library's own launch code on a CUDA
runtime that only records.
"""

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import table, update  # noqa: E402
from bench.tools.kernel_bounds import BOUNDS, bounds_that_hold, read_bounds, violations  # noqa: E402
from bench.tools.kernel_code import (  # noqa: E402
    Kernel,
    architecture_order,
    build_tree,
    by_family,
    joined,
    launches_program,
    local_accesses,
    recorded_launches,
    usage_of,
)
from bench.tools.occupancy import KIB  # noqa: E402

DOCUMENT = ROOT / "docs" / "dev" / "kernel_resources.md"


def span(values: Iterable[Any], write: Any = str) -> str:
    ordered = sorted(values)
    low, high = write(ordered[0]), write(ordered[-1])
    return low if low == high else f"{low} to {high}"


def kib(size: int) -> str:
    return "0" if size == 0 else f"{size / KIB:.1f}"


def percent(share: float) -> str:
    return f"{share:.0%}"


def cells_of(kernels: Sequence[Kernel]) -> list[str]:
    """Registers, stack, threads, shared memory and occupancy of these kernels, each as least to most."""
    shapes = [shape for kernel in kernels for shape in kernel.shapes]
    cells = [span(kernel.registers for kernel in kernels), span(kernel.stack + kernel.local for kernel in kernels)]
    if not shapes:
        return [*cells, "-", "-", "-"]
    return [
        *cells,
        span(shape[0] for shape in shapes),
        span((shape[1] for shape in shapes), kib),
        span((shape[2] for shape in shapes), percent),
    ]


HEAD = "registers | stack | threads | shared KiB | occupancy"


def table_of_families(kernels: Sequence[Kernel], architecture: str) -> str:
    families = by_family([kernel for kernel in kernels if kernel.architecture == architecture])
    cells = [[f"`{name}`", compute or "-", str(len(own)), *cells_of(own)] for (name, compute), own in families.items()]
    return table(f"kernel | computes in | kernels | {HEAD}", cells)


def table_of_kernels(kernels: Sequence[Kernel]) -> str:
    return table(f"kernel | on | {HEAD}", [[f"`{one.name}`", one.architecture, *cells_of([one])] for one in kernels])


def table_of_stacks(kernels: Sequence[Kernel], accesses: dict[tuple[str, str], tuple[int, int]]) -> str:
    """The kernels that have a stack, by family, with the loads and stores of local memory in their machine code."""
    cells = []
    for (name, compute), own in by_family([one for one in kernels if one.stack + one.local > 0]).items():
        counts = zip(*(accesses[one.name, one.architecture] for one in own), strict=True)
        sizes = span(one.stack + one.local for one in own)
        cells.append([f"`{name}`", compute or "-", str(len(own)), sizes, *map(span, counts)])
    return table("kernel | computes in | kernels | stack | loads | stores", cells)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, help="a library or objects; without: all kernels of the build")
    parser.add_argument("--build", type=Path, help="the build tree (default: that of pip install)")
    parser.add_argument("--no-launches", action="store_true", help="only what is in the code, without a build tree")
    parser.add_argument("--kernels", action="store_true", help="one line per kernel")
    parser.add_argument("--json", action="store_true", help="every kernel as JSON")
    parser.add_argument("--check", action="store_true", help="compare with kernel_bounds.toml")
    parser.add_argument("--update", action="store_true", help="write the tables of docs/dev/kernel_resources.md")
    parser.add_argument("--bounds", action="store_true", help="print tight bounds")
    options = parser.parse_args(arguments)
    if options.no_launches and not options.files:
        parser.error("--no-launches needs files")
    launches: dict[str, list[tuple[int, int]]] = {}
    files = options.files
    if not options.no_launches:
        program = launches_program(options.build or build_tree())
        launches = recorded_launches(program)
        files = files or [program]
    usage = usage_of(files)
    kernels = joined(usage, launches)
    if not kernels:
        print("kernel_resources: no kernel in " + ", ".join(map(str, files)), file=sys.stderr)
        return 1
    architectures = sorted({kernel.architecture for kernel in kernels}, key=architecture_order)
    if options.check:
        bounds = read_bounds(BOUNDS.read_text())
        wrong = violations(kernels, bounds)
        bounded = sum(kernel.architecture in bounds.architectures for kernel in kernels)
        print("\n".join(wrong) if wrong else f"{bounded} of {len(kernels)} kernels have bounds and are within them")
        return 1 if wrong else 0
    if options.bounds:
        print(bounds_that_hold(kernels))
    elif options.update:
        first = [kernel for kernel in kernels if kernel.architecture == architectures[0]]
        tables = {
            "families": table_of_families(first, architectures[0]),
            "stacks": table_of_stacks(first, local_accesses(files, usage)),
        }
        update(DOCUMENT, tables)
    elif options.json:
        print(json.dumps([{**asdict(kernel), "shapes": kernel.shapes} for kernel in kernels], indent=1))
    elif options.kernels:
        print(table_of_kernels(kernels))
    else:
        for architecture in architectures:
            print(f"{architecture}\n\n{table_of_families(kernels, architecture)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
