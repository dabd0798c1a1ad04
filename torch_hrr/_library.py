"""Loads the native library, once, after checking that it was built for the torch that is installed."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import sys
import warnings
from pathlib import Path

import torch
import torch.compiler.config

_PACKAGE = Path(__file__).resolve().parent
_FILE = "libtorch_hrr.dylib" if sys.platform == "darwin" else "libtorch_hrr.so"
_REBUILD = "pip install --no-build-isolation --force-reinstall --no-deps . (in the torch_hrr source tree)"
_LEAVE = "leave this directory, or run: python setup.py build_ext --inplace"


def _libraries() -> dict[str, Path]:
    """The libraries of the package, each under the minor version of torch that it was built for."""
    return {path.parent.name.removeprefix("torch-"): path for path in sorted(_PACKAGE.glob(f"lib/torch-*/{_FILE}"))}


@functools.cache
def load() -> Path:
    """Loads the library for the torch that is installed and returns its path.

    Raises:
        ImportError: the library is missing, or was built for another minor version of torch.
    """
    libraries = _libraries()
    library = libraries.get(".".join(torch.__version__.split(".")[:2]))
    if library is None:
        what = (
            f"is built for torch {', '.join(libraries)}, not for {torch.__version__}" if libraries else "is not built"
        )
        if (_PACKAGE.parent / "CMakeLists.txt").exists():
            # Rebuilding would not mend it: Python looks into the current directory before the installed packages.
            raise ImportError(f"torch_hrr: {_PACKAGE.parent} is the source tree, whose native library {what}; {_LEAVE}")
        raise ImportError(f"torch_hrr: the native library {what}; mend it with: {_REBUILD}")
    torch.ops.load_library(str(library))
    if slow := slow_kernels(_info(library)):
        warnings.warn(f"torch_hrr: {slow}; mend it with: {_REBUILD}", RuntimeWarning, stacklevel=2)
    _mark_compile_caches(library)
    return library


def _mark_compile_caches(library: Path) -> None:
    """Adds a hash of the library to the keys of torch.compile's caches on disk, to what is there.

    The caches hold the sources of torch in their keys, but no operator library: what a former build's derivatives and
    Meta kernels were traced to would outlive it.
    """
    with library.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    torch.compiler.config.cache_key_tag += f";torch_hrr={digest[:16]}"


def slow_kernels(info: dict[str, str]) -> str:
    """What is slow about the library's CPU kernels on this machine, by what it says of itself; empty if nothing is."""
    best = info.get("processor", "")
    if best in info.get("isas", best).split(",") or os.environ.get("TORCH_HRR_ISA"):
        return ""
    return f"the library has no CPU kernels for this processor's {best}: it was built for another machine"


def _info(library: Path) -> dict[str, str]:
    function = ctypes.CDLL(str(library)).torch_hrr_build_info
    function.restype = ctypes.c_char_p
    return dict(line.split("=", 1) for line in function().decode().splitlines())


@functools.cache
def _told() -> dict[str, str]:
    """What the library says of itself."""
    return _info(load())


def version() -> str:
    """The version of the package that the library was built from."""
    return _told()["version"]


def build_info() -> dict[str, str]:
    """What the library says of itself: version, torch, cuda ("none" without) and instruction sets.

    These are isas, those of its CPU kernels, processor, the best of this machine, and isa, the one in use.

    Raises:
        RuntimeError: TORCH_HRR_ISA names an instruction set that is unknown or that this processor lacks.
    """
    if "error" in _told():
        raise RuntimeError(_told()["error"])
    return _told()


def row_plan(op: str, dim: int, dtype: str, device_type: str) -> str:
    """By which kernel rows are computed, in a sentence; the arguments were checked."""
    function = ctypes.CDLL(str(load())).torch_hrr_row_plan
    function.restype = ctypes.c_char_p
    text: str = function(op.encode(), ctypes.c_int64(dim), dtype.encode(), device_type.encode()).decode()
    if text.startswith("error="):
        raise RuntimeError(text.removeprefix("error="))
    return text


def has_cuda_kernels() -> bool:
    """Whether the library was built with its CUDA kernels; all operators but `_field_control_` have them, or none.

    Where it was not, the dispatcher has kernels of `torch_hrr._plain` for CUDA.
    """
    return _told()["cuda"] != "none"


def operators(library: Path | None = None) -> list[tuple[str, tuple[int, ...]]]:
    """The overloads that vmap may batch, each with the number of dimensions of its tensor arguments that are not batch.

    A negative number stands for an argument that has no batch. `library` is one built with csrc/operator.h; by
    default the package's own.
    """
    function = ctypes.CDLL(str(library or load())).torch_hrr_operators
    function.restype = ctypes.c_char_p
    lines = [line.split() for line in function().decode().splitlines()]
    return [(name, tuple(map(int, trailing))) for name, *trailing in lines]
