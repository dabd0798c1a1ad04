"""The CUDA build: machine code and PTX for the architectures asked for, and the operators registered for CUDA."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from torch_hrr import _library

pytestmark = pytest.mark.skipif(_library.build_info()["cuda"] == "none", reason="torch_hrr was built without CUDA")


def cuobjdump() -> str:
    found = shutil.which("cuobjdump")
    if found is None:
        spec = importlib.util.find_spec("triton")
        carried = Path(spec.origin).parent / "backends/nvidia/bin/cuobjdump" if spec and spec.origin else Path()
        found = str(carried) if carried.is_file() else None
    if found is None:
        pytest.skip(reason="cuobjdump is neither on PATH nor in triton's package")
    return found


def listing(flag: str) -> str:
    command = [cuobjdump(), flag, str(_library.load())]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif("TORCH_CUDA_ARCH_LIST" not in os.environ, reason="the build chose the architectures itself")
def test_machine_code_and_ptx_of_every_architecture():
    machine_code, ptx = listing("--list-elf"), listing("--list-ptx")
    for entry in os.environ["TORCH_CUDA_ARCH_LIST"].replace(" ", ";").split(";"):
        architecture = "sm_" + entry.removesuffix("+PTX").replace(".", "")
        assert f".{architecture}.cubin" in machine_code
        if entry.endswith("+PTX"):
            assert f".{architecture}.ptx" in ptx


def test_every_operator_of_the_cpu_has_a_cuda_kernel():
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("torch_hrr::")]
    assert names
    for name in names:
        # A composite runs other operators, on every device.
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            continue
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU"), name
        # Native, and not what a build without CUDA registers in its place.
        (cuda,) = (line for line in torch._C._dispatch_dump(name).splitlines() if line.startswith("CUDA:"))
        assert "_fallback.py" not in cuda, name
