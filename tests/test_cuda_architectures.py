"""TORCH_CUDA_ARCH_LIST as cmake/TorchHRRArchitectures.cmake reads it; neither a compiler nor a GPU is needed."""

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from torch.utils import cpp_extension

SCRIPT = Path(__file__).parents[1] / "cmake" / "TorchHRRArchitectures.cmake"
CALL = """
cmake_minimum_required(VERSION 3.22)
include("${SCRIPT}")
torch_hrr_cuda_architectures(result "${ASKED}" "${KNOWN}")
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${result}")
"""
CUDA_12_6 = "sm_75\nsm_80\nsm_86\nsm_87\nsm_89\nsm_90\n"
CUDA_13_0 = CUDA_12_6 + "sm_100\nsm_110\nsm_103\nsm_120\nsm_121\n"

pytestmark = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake was not found")


def architectures(directory, asked, known=CUDA_13_0, path=None):
    (directory / "call.cmake").write_text(CALL)
    values = [f"-DSCRIPT={SCRIPT}", f"-DASKED={asked}", f"-DKNOWN={known}"]
    environment = os.environ | ({"PATH": path} if path is not None else {})
    command = [shutil.which("cmake"), *values, "-P", str(directory / "call.cmake")]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("8.0;9.0+PTX", "80-real;90"),
        ("8.0 9.0+PTX", "80-real;90"),
        ("8.0+PTX", "80"),
        ("9.0;8.0;9.0+PTX", "90;80-real"),
        ("9.0a;10.0f+PTX;12.0", "90a-real;100f;120-real"),
        ("Ampere", "80-real;86"),
        ("Ada;Hopper", "89;90"),
        ("Blackwell", "100-real;103-real;120-real;121"),
        ("Ampere+Tegra", "87-real"),
        ("Ampere+Tegra+PTX", "87"),
        ("release", "80-real;90;100-real;120"),
        ("release 8.6", "80-real;90;100-real;120;86-real"),
    ],
)
def test_entries(tmp_path, asked, expected):
    done = architectures(tmp_path, asked)
    assert (done.returncode, done.stdout.strip()) == (0, expected), done.stderr


@pytest.mark.parametrize("asked", ["8.0;9.0+PTX", "9.0a 12.0", "Ampere", "Ampere+Tegra", "Ada", "Hopper", "Blackwell",
                                   "Blackwell+Tegra", "Rubin"])  # fmt: skip
def test_entries_are_what_torch_makes_of_them(tmp_path, monkeypatch, asked):
    monkeypatch.setenv("TORCH_CUDA_ARCH_LIST", asked)
    wanted = {flag.split(",code=")[1] for flag in cpp_extension._get_cuda_arch_flags()}
    found = architectures(tmp_path, asked, CUDA_13_0 + "sm_107\n").stdout.strip().split(";")
    code = {f"sm_{name.removesuffix('-real')}" for name in found}
    assert code | {f"compute_{name}" for name in found if not name.endswith("-real")} == wanted


def test_release_is_what_nvcc_knows_of_it(tmp_path):
    assert architectures(tmp_path, "release", CUDA_12_6).stdout.strip() == "80-real;90"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("sm_90", "got 'sm_90'"),
        ("8.0;9", "got '9'"),
        ("9.0+ptx", "got '9.0+ptx'"),
        ("hopper", "got 'hopper'"),
        ("7.5", "asks for 7.5; the kernels need compute capability 8.0 or later"),
        ("8.1", "asks for 8.1, which nvcc does not know; it knows sm_75, sm_80"),
        ("Volta", "got 'Volta'"),
        (" ", "names no architecture that nvcc knows"),
    ],
)
def test_what_is_no_entry_is_named(tmp_path, asked, message):
    done = architectures(tmp_path, asked)
    assert done.returncode != 0
    assert message in " ".join(done.stderr.split())


def machine(directory, printed, status=0):
    """A PATH with an nvidia-smi that prints this alone."""
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{printed}'\nexit {status}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(directory)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [(r"9.0\n9.0\n", "90"), (r"12.0\n8.6\n", "86-real;120")],
)
def test_native_is_every_gpu_of_the_machine(tmp_path, printed, expected):
    done = architectures(tmp_path, "native", path=machine(tmp_path, printed) + ":/usr/bin:/bin")
    assert done.stdout.strip() == expected, done.stderr


@pytest.mark.parametrize(("printed", "status"), [(r"NVIDIA-SMI has failed\n", 9), (r"No devices were found\n", 0)])
def test_native_without_a_gpu_is_an_error(tmp_path, printed, status):
    done = architectures(tmp_path, "native", path=machine(tmp_path, printed, status) + ":/usr/bin:/bin")
    assert done.returncode != 0
    assert "TORCH_CUDA_ARCH_LIST=native needs a GPU" in " ".join(done.stderr.split())
