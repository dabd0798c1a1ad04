"""What compiled CUDA kernels need and are launched with: cuobjdump's listings, names, and the program cuda_launches."""

import ctypes
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from bench.tools.machine_code import parse_sass
from bench.tools.occupancy import KIB, occupancy

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def _demangler() -> Any:
    runtime = ctypes.CDLL("libstdc++.so.6")
    function = runtime.__cxa_demangle
    function.restype = ctypes.c_void_p
    function.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
    return function


@functools.cache
def demangle(name: str) -> str:
    """By the C++ library that torch runs on, so that no tool is needed; a name that is none stays."""
    status = ctypes.c_int()
    address = _demangler()(name.encode(), None, None, ctypes.byref(status))
    if status.value != 0:
        return name
    text = ctypes.string_at(address).decode()
    ctypes.CDLL(None).free(ctypes.c_void_p(address))
    return text


def short_name(signature: str) -> str:
    """`void torch_hrr::kernels::f<c10::Half, 9>(A, B)` as `f<Half, 9>`: without result, parameters and namespaces."""
    depth = 0
    end = len(signature)
    for i, letter in enumerate(signature):
        depth += (letter == "<") - (letter == ">")
        # A parenthesis inside of <...> belongs to an enumerator, (Product)1.
        if letter == "(" and depth == 0:
            end = i
            break
    return re.sub(r"\b\w+::", "", signature[:end].removeprefix("void "))


TYPES = {
    "float": "float", "double": "double", "Half": "float", "BFloat16": "float",
    "int": "int32", "long": "int64", "unsigned int": "uint32", "unsigned long": "uint64",
}  # fmt: skip


def template_and_type(name: str) -> tuple[str, str]:
    """The template's name, and what its first argument that is a type of numbers computes in ("" without one)."""
    template, _, arguments = name.partition("<")
    for argument in re.split(r"[<>,]", arguments):
        if argument.strip() in TYPES:
            return template, TYPES[argument.strip()]
    return template, ""


@dataclass(frozen=True)
class Usage:
    """What the code of one kernel needs; bytes, a thread's for stack and local, a block's for shared."""

    symbol: str
    architecture: str
    registers: int
    stack: int
    shared: int
    local: int


def parse_usage(text: str) -> list[Usage]:
    """What `cuobjdump --dump-resource-usage` prints."""
    found = []
    architecture = symbol = None
    for line in text.splitlines():
        if match := re.match(r"arch = (\w+)", line):
            architecture = match[1]
        elif match := re.match(r" *Function (\S+):$", line):
            symbol = match[1]
        elif symbol is not None and "REG:" in line:
            numbers = {name: int(value) for name, value in re.findall(r"\b(REG|STACK|SHARED|LOCAL):(\d+)", line)}
            if architecture is None or len(numbers) != 4:
                raise ValueError(f"cuobjdump's line for {symbol} reads unlike any before: {line.strip()}")
            # From 9.0 on, the KiB that the system reserves is counted where a kernel uses shared memory at all.
            reserved = KIB if architecture_order(architecture) >= 90 else 0
            shared = max(0, numbers["SHARED"] - reserved)
            found.append(Usage(symbol, architecture, numbers["REG"], numbers["STACK"], shared, numbers["LOCAL"]))
            symbol = None
    return found


@dataclass
class Kernel:
    """A kernel on one architecture, with every block and dynamic shared memory that it is launched with."""

    name: str
    architecture: str
    registers: int
    stack: int
    shared: int
    local: int
    launches: list[tuple[int, int]] = field(default_factory=list)

    @property
    def family(self) -> tuple[str, str]:
        return template_and_type(self.name)

    @property
    def shapes(self) -> list[tuple[int, int, float]]:
        """(threads, all shared memory, occupancy) of every launch, the least occupancy first."""
        every = ((threads, self.shared + dynamic) for threads, dynamic in self.launches)
        shapes = [(*shape, occupancy(self.architecture, self.registers, *shape)) for shape in every]
        return sorted(shapes, key=lambda shape: shape[2])


def cuobjdump() -> str | None:
    """On PATH, or in a package that carries one: nvidia-cuda-cuobjdump, triton."""
    if found := shutil.which("cuobjdump"):
        return found
    for package, places in (("nvidia", ("cu*/bin", "cuda_cuobjdump/bin")), ("triton", ("backends/nvidia/bin",))):
        spec = importlib.util.find_spec(package)
        for directory in spec.submodule_search_locations or [] if spec else []:
            for place in places:
                for program in sorted(Path(directory).glob(f"{place}/cuobjdump")):
                    return str(program)
    return None


def usage_of(files: Iterable[Path]) -> list[Usage]:
    tool = cuobjdump()
    if tool is None:
        raise FileNotFoundError("cuobjdump was not found: pip install nvidia-cuda-cuobjdump")
    found = []
    for file in files:
        command = [tool, "--dump-resource-usage", str(file)]
        found += parse_usage(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def build_tree() -> Path:
    """Where `pip install` and `make` build, as setup.py has it."""
    if "TORCH_HRR_BUILD_DIR" in os.environ:
        return ROOT / os.environ["TORCH_HRR_BUILD_DIR"]
    import torch

    return ROOT / f"build/torch-{torch.__version__.replace('+', '-')}"


def launches_program(tree: Path) -> Path:
    """Builds cuda_launches in a tree that has CUDA: only a link where the library is built."""
    if not (tree / "CMakeCache.txt").is_file():
        raise FileNotFoundError(f"{tree} is no build tree: build the library, or name its tree with --build")
    command = ["cmake", "--build", str(tree), "--target", "cuda_launches"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr)[-3000:]}")
    return tree / "cuda_launches"


def recorded_launches(program: Path) -> dict[str, list[tuple[int, int]]]:
    """Every kernel of the program by its symbol, with the (threads, shared bytes) of its launches."""
    answer = json.loads(subprocess.run([program], check=True, capture_output=True, text=True).stdout)
    launches: dict[str, list[tuple[int, int]]] = {symbol: [] for symbol in answer["kernels"]}
    for launch in answer["launches"]:
        launches[launch["kernel"]].append((launch["threads"], launch["shared"]))
    return launches


def joined(usage: Iterable[Usage], launches: dict[str, list[tuple[int, int]]]) -> list[Kernel]:
    """Kernels by name. A kernel that several objects hold is listed once."""
    kernels = {}
    for use in usage:
        symbol, *facts = astuple(use)
        kernels[symbol, use.architecture] = Kernel(short_name(demangle(symbol)), *facts, launches.get(symbol, []))
    return sorted(kernels.values(), key=lambda kernel: (architecture_order(kernel.architecture), natural(kernel.name)))


def architecture_order(architecture: str) -> int:
    return int(re.sub(r"\D", "", architecture))


def natural(text: str) -> list[tuple[int, str]]:
    """A sort key by which 9 comes before 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]


def by_family(kernels: Sequence[Kernel]) -> dict[tuple[str, str], list[Kernel]]:
    families: dict[tuple[str, str], list[Kernel]] = {}
    for kernel in kernels:
        families.setdefault(kernel.family, []).append(kernel)
    return dict(sorted(families.items()))


def sass_of(file: Path, symbols: Iterable[str]) -> str:
    """The disassembly of these kernels: of all of them it takes minutes."""
    tool = cuobjdump()
    if tool is None:
        raise FileNotFoundError("cuobjdump was not found: pip install nvidia-cuda-cuobjdump")
    # nvdisasm lies beside cuobjdump, which looks for it on PATH.
    environment = {**os.environ, "PATH": f"{Path(tool).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [tool, "--dump-sass", "--function", ",".join(sorted(symbols)), str(file)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout


def local_accesses(files: Iterable[Path], usage: Iterable[Usage]) -> dict[tuple[str, str], tuple[int, int]]:
    """(loads, stores) of local memory by name and architecture, of the kernels with a stack alone."""
    symbols = {use.symbol for use in usage if use.stack + use.local > 0}
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    for file in files if symbols else ():
        for (symbol, architecture), instructions in parse_sass(sass_of(file, symbols)).items():
            names = [one.name for one in instructions]
            counts[short_name(demangle(symbol)), architecture] = names.count("LDL"), names.count("STL")
    return counts
