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
TEST_SECONDS = 60
SMOKE = "tests/gpu/test_cuda_smoke.py"
CORES = os.cpu_count() or 1
WORKERS = max(2, min(8, CORES // 2))


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
        """The most telling first. A dry run may be as slow as the machine is."""
        return [dataclasses.replace(each, limit=10 * each.limit) for each in self.all()] if self.dry else self.all()

    def all(self) -> list[Stage]:
        first = [self.smoke(), self.values(), self.asynchronous(), self.speed(), self.sanitizers(), self.alone()]
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

    def pytest(self, name: str, *arguments: str, workers: int = 1, library: Path | None = None) -> Job:
        # Another Python or torch may warn of what is no fault of ours: here that is no error.
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default"]
        command += ["-c", str(self.root / "pyproject.toml")]
        environment = {} if self.dry else {"TORCH_HRR_GPU_REQUIRED": "1"}
        if self.dry and "cpu" not in arguments:
            command.append("--collect-only")
        else:
            if workers > 1 and importlib.util.find_spec("xdist"):
                command += ["-n", str(workers), "--dist", "worksteal"]
                environment["OMP_NUM_THREADS"] = str(max(1, CORES // workers))
            if importlib.util.find_spec("pytest_timeout"):
                command += ["--timeout", str(TEST_SECONDS), "--timeout-method", "thread"]
        return Job(name, [*command, *arguments], environment, library)

    def smoke(self) -> Stage:
        # The dry run tries what the next stages do: several processes.
        job = self.pytest("smoke", SMOKE, "--device", self.device, workers=2 if self.dry else 1)
        return Stage("smoke", "every operator once, beside the CPU", 40, [job])

    def values(self) -> Stage:
        chosen = ("-m", "not asynchronous and not alone", "--ignore", SMOKE)
        job = self.pytest("values", "tests/gpu", TORCH_BRAINS, *chosen, workers=WORKERS)
        return Stage("values", "values, gradients, determinism, odd shapes, half types", 120, [job])

    def asynchronous(self) -> Stage:
        job = self.pytest("asynchronous", "tests/gpu", "-m", "asynchronous", workers=WORKERS)
        return Stage("asynchronous", "streams, graphs, nothing waits for the device", 50, [job])

    def alone(self) -> Stage:
        job = self.pytest("alone", "tests/gpu", "-m", "alone")
        return Stage("alone", "memory and times of the whole device", 25, [job])

    def speed(self) -> Stage:
        command = [sys.executable, "bench/gpu_headlines.py", "--device", self.device]
        command += ["--json", str(self.work / "speed.json")]
        command += ["--small"] if self.dry else []
        command += ["--model", "predictions.json"] if self.has("predictions.json") else []
        return Stage("speed", "headline shapes beside torch, a copy and the model", 90, [Job("speed", command)])

    def sanitizers(self) -> Stage:
        tools = ("memcheck",) if self.dry else ("memcheck", "racecheck")
        jobs = [self.exercise(tool, system) for tool in tools for system in SYSTEMS]
        return Stage("sanitizers", "compute-sanitizer over small shapes", 75, jobs, self.missing("compute-sanitizer"))

    def exercise(self, tool: str, system: str) -> Job:
        program = [sys.executable, "tests/gpu/exercise.py", system, "--small", "--device", self.device]
        if not self.dry:
            program = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", *program]
        return Job(f"{tool} {system}", program, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "OMP_NUM_THREADS": "1"})

    @property
    def ptx_site(self) -> Path:
        """Where the library with PTX is once the stage runs."""
        return self.work / "ptx" if self.kit else self.root / "build" / "gpu-ptx-site"

    def ptx(self) -> Stage:
        job = self.pytest("ptx", SMOKE, "-k", PTX_OPERATORS, library=self.ptx_site)
        what = "operators from PTX that the driver compiles"
        if not self.kit:
            return Stage("ptx", what, 40, [job])
        if not self.has(PTX_ARCHIVE):
            return Stage("ptx", what, 40, [], "the kit was made without CUDA kernels")
        unpack = [
            "import shutil, sys",
            "shutil.unpack_archive(*sys.argv[1:3])",
            "sys.exit(subprocess.call(sys.argv[3:]))",
        ]
        command = [sys.executable, "-c", "; ".join(["import subprocess", *unpack])]
        command += [str(self.root / PTX_ARCHIVE), str(self.ptx_site), *job.command]
        return Stage("ptx", what, 40, [dataclasses.replace(job, command=command)])

    def counters(self) -> Stage:
        command = [sys.executable, "bench/tools/gpu_counters.py", "--counts", "counts.json", "--device", self.device]
        job = Job("counters", [*command, "--json", str(self.work / "counters.json")])
        missing = self.missing("ncu") if self.has("counts.json") else "the counts come with a kit that has them"
        return Stage("counters", "ncu's counters beside the counts of the host", 40, [job], missing)

    def missing(self, tool: str) -> str:
        return "" if self.dry or shutil.which(tool) else f"{tool} is not on PATH"
