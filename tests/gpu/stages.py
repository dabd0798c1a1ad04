"""What is run on a GPU, in which order, and for how long: for tests/gpu/harness.py."""

import dataclasses
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from running import Job, Stage

SYSTEMS = ("hrr", "assembly", "encoding", "field", "hierarchy")
# They run on the CPU elsewhere; with a GPU some of them take another path.
TORCH_BRAINS = "tests/assembly/test_torch_brain_calls.py"
# What a GPU newer than the library gets: PTX, which its driver compiles, beside machine code that it cannot run.
PTX = "8.0+PTX"
PTX_ARCHIVE = "ptx.tar.xz"
# Of files that a driver compiles in seconds; those of the transforms take it ten times as long.
PTX_OPERATORS = "k_winners or connectome or sinusoidal or field or superpose and not bind"
BUILD_SECONDS = 900


@dataclasses.dataclass(frozen=True)
class Plan:
    """The stages of a kit or of a source tree.

    Attributes:
        root: Of the kit or the tree.
        work: A folder for what the stages leave to be read.
        kit: The manifest of the kit, if it is one.
        capability: Of the GPU, such as "9.0".
        dry: Whether nothing may need a GPU: tests are collected, the rest runs on the CPU.
    """

    root: Path
    work: Path
    kit: Mapping[str, Any] | None
    capability: str
    dry: bool

    @property
    def device(self) -> str:
        return "cpu" if self.dry else "cuda"

    def has(self, name: str) -> bool:
        return self.kit is not None and name in self.kit["files"]

    def stages(self) -> list[Stage]:
        """The most telling first."""
        first = [self.smoke(), self.values(), self.asynchronous(), self.speed(), self.sanitizers()]
        if self.kit:
            return [*first, self.ptx(), self.counters()]
        own = self.build("build", self.capability, "build_ext", "--inplace")
        base = self.root / "build" / "gpu-ptx-base"
        old = self.build("build-ptx", PTX, "build", "--build-base", str(base), "--build-lib", str(self.ptx_site))
        return [own, *first, old, self.ptx(), self.counters()]

    def build(self, name: str, architectures: str, *command: str) -> Stage:
        tree = str(self.root / "build" / f"gpu-{architectures}")
        settings = {"TORCH_HRR_CUDA": "1", "TORCH_CUDA_ARCH_LIST": architectures, "TORCH_HRR_BUILD_DIR": tree}
        job = Job(name, [sys.executable, "setup.py", "--quiet", *command], settings)
        missing = "a dry run takes the library that is built" if self.dry else ""
        return Stage(name, f"the library for {architectures}", BUILD_SECONDS, [job], missing)

    def pytest(self, name: str, *arguments: str, side_by_side: bool = True, library: Path | None = None) -> Job:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-c",
            str(self.root / "pyproject.toml"),
        ]
        if self.dry and "cpu" not in arguments:
            command.append("--collect-only")
        elif side_by_side:
            if importlib.util.find_spec("xdist"):
                workers = max(1, min(8, (os.cpu_count() or 1) // 2))
                command += ["-n", str(workers), "--dist", "worksteal"]
            if importlib.util.find_spec("pytest_timeout"):
                command += ["--timeout", "60", "--timeout-method", "thread"]
        return Job(name, [*command, *arguments], library=library)

    def smoke(self) -> Stage:
        job = self.pytest("smoke", "tests/gpu/test_cuda_smoke.py", "--device", self.device, side_by_side=False)
        return Stage("smoke", "every operator once, beside the CPU", 40, [job])

    def values(self) -> Stage:
        what = ("tests/gpu", TORCH_BRAINS, "-m", "not asynchronous", "--ignore", "tests/gpu/test_cuda_smoke.py")
        job = self.pytest("values", *what)
        return Stage("values", "values, gradients, determinism, odd shapes, half types", 120, [job])

    def asynchronous(self) -> Stage:
        job = self.pytest("asynchronous", "tests/gpu", "-m", "asynchronous")
        return Stage("asynchronous", "streams, graphs, nothing waits for the device", 60, [job])

    def speed(self) -> Stage:
        command = [sys.executable, "bench/gpu_headlines.py", "--device", self.device]
        command += ["--json", str(self.work / "speed.json")]
        command += ["--small"] if self.dry else []
        command += ["--model", "predictions.json"] if self.has("predictions.json") else []
        return Stage("speed", "headline shapes beside torch, a copy and the model", 100, [Job("speed", command)])

    def sanitizers(self) -> Stage:
        tools = ("memcheck",) if self.dry else ("memcheck", "racecheck")
        jobs = [self.exercise(tool, system) for tool in tools for system in SYSTEMS]
        return Stage("sanitizers", "compute-sanitizer over small shapes", 75, jobs, self.missing("compute-sanitizer"))

    def exercise(self, tool: str, system: str) -> Job:
        program = [sys.executable, "tests/gpu/exercise.py", system, "--small", "--device", self.device]
        if not self.dry:
            program = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *program]
        return Job(f"{tool} {system}", program, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})

    @property
    def ptx_site(self) -> Path:
        """Where the library with PTX is once the stage runs."""
        return self.work / "ptx" if self.kit else self.root / "build" / "gpu-ptx-site"

    def ptx(self) -> Stage:
        chosen = ("tests/gpu/test_cuda_smoke.py", "-k", PTX_OPERATORS)
        job = self.pytest("ptx", *chosen, library=self.ptx_site)
        what = "operators from PTX that the driver compiles"
        if not self.kit:
            return Stage("ptx", what, 40, [job])
        if not self.has(PTX_ARCHIVE):
            return Stage("ptx", what, 40, [], "the kit was made without CUDA kernels")
        shutil.unpack_archive(self.root / PTX_ARCHIVE, self.ptx_site)
        return Stage("ptx", what, 40, [job])

    def counters(self) -> Stage:
        command = [sys.executable, "bench/gpu_counters.py", "--counts", "counts.json", "--device", self.device]
        job = Job("counters", [*command, "--json", str(self.work / "counters.json")])
        missing = self.missing("ncu") if self.has("counts.json") else "the counts come with a kit that has them"
        return Stage("counters", "ncu's counters beside the counts of the host", 45, [job], missing)

    def missing(self, tool: str) -> str:
        return "" if self.dry or shutil.which(tool) else f"{tool} is not on PATH"
