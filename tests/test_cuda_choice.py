"""CUDA kernels are built where something can run them: what cmake/TorchHRRCudaChoice.cmake makes of a machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "cmake" / "TorchHRRCudaChoice.cmake"

pytestmark = pytest.mark.skipif(
    shutil.which("cmake") is None or not SCRIPT.is_file(), reason="cmake and the tree needed"
)


class Machine:
    """What a build finds: programs that answer as nvcc and nvidia-smi do, and the driver's folder of GPUs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.nvcc = self.nvidia_smi = ""

    def program(self, name: str, lines: str) -> str:
        path = self.directory / name
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)
        return str(path)

    def with_nvcc(self, release: str = "13.0") -> None:
        codes = 'printf "sm_80\\nsm_90\\n"; exit'
        self.nvcc = self.program("nvcc", f'case $1 in --list*) {codes};; esac; echo "tools, release {release}, V0"')

    def with_gpus(self, *capabilities: str) -> None:
        self.nvidia_smi = self.program("nvidia-smi", "\n".join(f"echo {line}" for line in capabilities))

    def choose(self, wish: str, torch_cuda: str = "13.2", architectures: str = "") -> subprocess.CompletedProcess[str]:
        values = {
            "TORCH_HRR_CUDA": wish,
            "TORCH_HRR_TORCH_CUDA": torch_cuda,
            "TORCH_CUDA_ARCH_LIST": architectures,
            "TORCH_HRR_NVCC": self.nvcc,
            "TORCH_HRR_NVIDIA_SMI": self.nvidia_smi,
            "TORCH_HRR_GPUS_OF_DRIVER": str(self.directory / "gpus"),
        }
        environment = {name: value for name, value in os.environ.items() if name != "TORCH_CUDA_ARCH_LIST"}
        command = ["cmake", *(f"-D{name}={value}" for name, value in values.items()), "-P", str(SCRIPT)]
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    def chosen(self, *arguments: str) -> str:
        finished = self.choose(*arguments)
        assert finished.returncode == 0, finished.stderr
        (line,) = finished.stdout.splitlines()
        return line.removeprefix("-- torch_hrr: ")

    def refusal(self, *arguments: str) -> str:
        finished = self.choose(*arguments)
        assert finished.returncode != 0
        return " ".join(finished.stderr.split())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("wish", ("auto", "AUTO", "Auto"))
def test_a_gpu_gets_kernels_of_its_own_architecture(machine: Machine, wish: str) -> None:
    machine.with_nvcc()
    machine.with_gpus("9.0", "8.0", "9.0")
    assert machine.chosen(wish) == "with CUDA kernels: nvcc 13.0, for 9.0;8.0"
    assert machine.chosen(wish, "13.2", "8.6+PTX") == "with CUDA kernels: nvcc 13.0, for 8.6+PTX"


def test_a_gpu_that_nvcc_does_not_know_gets_the_default_with_ptx(machine: Machine) -> None:
    machine.with_nvcc()
    machine.with_gpus("9.0", "12.0")
    assert machine.chosen("auto") == "with CUDA kernels: nvcc 13.0, for release"


def test_a_gpu_that_only_the_driver_lists_is_one(machine: Machine) -> None:
    machine.with_nvcc()
    (machine.directory / "gpus" / "0000:01:00.0").mkdir(parents=True)
    assert machine.chosen("auto") == "with CUDA kernels: nvcc 13.0, for release"


def test_without_a_gpu_kernels_are_built_only_on_demand(machine: Machine) -> None:
    machine.with_nvcc()
    without = "without CUDA kernels: no GPU to run CUDA kernels was found (TORCH_HRR_CUDA=1 builds them all the same)"
    assert machine.chosen("auto") == without
    # nvidia-smi without a driver: it fails, whatever it prints.
    machine.nvidia_smi = machine.program("nvidia-smi", "echo 'NVIDIA-SMI 580.95 has failed'; exit 9")
    assert machine.chosen("auto") == without
    assert machine.chosen("1") == "with CUDA kernels: nvcc 13.0, for release"


def test_without_nvcc_or_its_torch_kernels_are_left_out_or_refused(machine: Machine) -> None:
    machine.with_gpus("9.0")
    for torch_cuda, reason in (
        ("13.2", "nvcc was not found"),
        ("", "this torch is built without CUDA"),
        ("12.8", "nvcc and torch must have CUDA of one major version: nvcc has 13.0, torch 12.8"),
    ):
        assert machine.chosen("auto", torch_cuda) == f"without CUDA kernels: {reason}"
        assert f"torch_hrr: TORCH_HRR_CUDA=1: {reason} (TORCH_HRR_CUDA=0" in machine.refusal("1", torch_cuda)
        machine.with_nvcc()


def test_zero_leaves_kernels_out(machine: Machine) -> None:
    machine.with_nvcc()
    machine.with_gpus("9.0")
    assert machine.chosen("0") == "without CUDA kernels: TORCH_HRR_CUDA=0"


@pytest.mark.parametrize("wish", ("", "2", "yes"))
def test_another_wish_is_refused(machine: Machine, wish: str) -> None:
    assert f"torch_hrr: TORCH_HRR_CUDA must be auto, 0 or 1, got '{wish}'" in machine.refusal(wish)
