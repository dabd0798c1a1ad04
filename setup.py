"""Builds the library with CMake and puts it, its header and its CMake package into the Python package.

Environment: TORCH_HRR_CUDA (auto, 0 or 1: auto builds CUDA kernels where a GPU is there to run them), TORCH_HRR_ISAS
(native, the default, builds CPU kernels for this machine and plain ones; all: for wheels that other machines run),
TORCH_CUDA_ARCH_LIST, TORCH_HRR_WERROR, TORCH_HRR_CMAKE_ARGS, TORCH_HRR_BUILD_DIR (default build/torch-<version>),
MAX_JOBS, CUDA_HOME.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from setuptools import Extension, find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent


def fail(message: str) -> NoReturn:
    sys.exit(f"torch_hrr: {message}")


class CMakeBuild(build_ext):
    """One extension that stands for the whole CMake build."""

    def run(self) -> None:
        try:
            import torch
            from torch.utils import cpp_extension
        except ImportError:
            fail("torch must be installed first: pip install 'torch>=2.11,<2.16', and build with --no-build-isolation")
        for tool in ("cmake", "ninja"):
            if shutil.which(tool) is None:
                fail(f"{tool} was not found: apt-get install {tool}{'-build' if tool == 'ninja' else ''}")
        jobs = os.environ.get("MAX_JOBS") or str(os.cpu_count() or 1)
        if not jobs.isdecimal() or int(jobs) < 1:
            fail(f"MAX_JOBS must be a whole number from 1 on, got {jobs!r}")
        try:
            further = shlex.split(os.environ.get("TORCH_HRR_CMAKE_ARGS", ""))
        except ValueError as error:
            fail(f"TORCH_HRR_CMAKE_ARGS must be words as in a shell: {error}")
        parent = ROOT if self.editable_mode or self.inplace else Path(self.build_lib).resolve()
        package = parent / "torch_hrr"
        # One build tree a torch version: switching between two does not mix their objects.
        tree = os.environ.get("TORCH_HRR_BUILD_DIR") or f"build/torch-{torch.__version__.replace('+', '-')}"
        build = ROOT / tree
        build.mkdir(parents=True, exist_ok=True)
        if cpp_extension.CUDA_HOME is not None:
            os.environ.setdefault("CUDA_HOME", cpp_extension.CUDA_HOME)
        self.call(
            "cmake",
            "-G",
            "Ninja",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            f"-DTORCH_HRR_TORCH_ROOT={Path(cpp_extension.TORCH_LIB_PATH).parent}",
            f"-DTORCH_HRR_CUDA={os.environ.get('TORCH_HRR_CUDA') or 'auto'}",
            f"-DTORCH_HRR_ISAS={os.environ.get('TORCH_HRR_ISAS') or 'native'}",
            f"-DTORCH_HRR_EDITABLE={'ON' if parent == ROOT else 'OFF'}",
            f"-DTORCH_CUDA_ARCH_LIST={os.environ.get('TORCH_CUDA_ARCH_LIST', '')}",
            f"-DTORCH_HRR_WERROR={os.environ.get('TORCH_HRR_WERROR', 'OFF')}",
            *further,
        )
        self.call("cmake", "--build", str(build), "--target", "torch_hrr", "--parallel", jobs)
        # What was built for another torch is of other sources.
        shutil.rmtree(package / "lib", ignore_errors=True)
        self.call("cmake", "--install", str(build), "--prefix", str(package), "--component", "package")

    def call(self, *command: str) -> None:
        try:
            subprocess.run(command, check=True)
        except subprocess.CalledProcessError as error:
            fail(f"`{shlex.join(command)}` failed with exit code {error.returncode}; its output is above")

    def get_outputs(self) -> list[str]:
        return []

    def get_source_files(self) -> list[str]:
        return []


class Wheel(bdist_wheel):
    """A wheel for any Python on this platform: the library has no symbol of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


# `python -m torch_hrr bench` needs them where the package is installed, too: in a folder that can go on sys.path.
BENCHMARKS = "torch_hrr.benchmarks.bench"

setup(
    packages=[*find_namespace_packages(include=["torch_hrr*"]), BENCHMARKS],
    package_dir={BENCHMARKS: "bench"},
    ext_modules=[Extension("torch_hrr.libtorch_hrr", sources=[])],
    cmdclass={"build_ext": CMakeBuild, "bdist_wheel": Wheel},
)
