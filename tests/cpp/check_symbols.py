"""Checks that object files of different instruction sets share no symbol that the linker may merge.

A weak or unique symbol defined in two object files is kept once: if one was compiled for AVX-512, a machine without it
runs that code too and dies. So no such symbol may be defined by two instruction sets, and none that is compiled beyond
the base instruction set may lie outside its own namespace, where any other file could define it as well.

    python3 check_symbols.py --isa scalar a.o b.o --isa avx2 c.o d.o
"""

import argparse
import re
import subprocess
import sys
from itertools import combinations

MERGED = frozenset("WVu")
BASE = "scalar"
# A pointer to the exception handler, in every object file that can throw: data, the same in all.
HARMLESS = frozenset({"DW.ref.__gxx_personality_v0"})


def merged_symbols(nm: str, objects: list[str]) -> dict[str, str]:
    """Defined weak and unique symbols, by mangled name, with the object file that defines each."""
    found = {}
    for path in objects:
        listing = subprocess.run([nm, "--defined-only", path], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            fields = line.split()
            if len(fields) >= 3 and fields[-2] in MERGED and fields[-1] not in HARMLESS:
                found[fields[-1]] = path
    return found


def violations(groups: dict[str, dict[str, str]]) -> list[str]:
    """One line a symbol that breaks a rule."""
    lines = []
    for (first, symbols), (second, others) in combinations(groups.items(), 2):
        for symbol in sorted(symbols.keys() & others.keys()):
            lines.append(f"{symbols[symbol]}: {first} and {second} both define {symbol}")
    for isa, symbols in groups.items():
        own = re.compile(rf"7kernels{len(isa)}{isa}")
        for symbol, path in sorted(symbols.items()):
            if isa != BASE and not own.search(symbol):
                lines.append(f"{path}: {symbol} is compiled for {isa} and lies outside torch_hrr::kernels::{isa}")
    return lines


def main() -> int:
    """Prints the violations and returns their number, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--isa", nargs="+", action="append", required=True, metavar=("NAME", "OBJECT"))
    arguments = parser.parse_args()
    groups = {name: merged_symbols(arguments.nm, objects) for name, *objects in arguments.isa}
    if any(not objects for _, *objects in arguments.isa):
        parser.error("every --isa needs at least one object file")
    lines = violations(groups)
    for line in lines:
        print(line)
    if not lines:
        print(", ".join(f"{isa}: {len(symbols)} of its own" for isa, symbols in groups.items()))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
