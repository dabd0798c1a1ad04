"""kernels/math.h compiled for a GPU: only operations that round once, none of CUDA's own functions."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = """
#include "tests/cuda_on_host/math_kernel.cuh"
namespace torch_hrr::kernels {
template __global__ void math_kernel<float>(MathKernelParams<float>);
template __global__ void math_kernel<double>(MathKernelParams<double>);
}
"""


def compiled(tmp_path: Path, source: str) -> str:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip(reason="nvcc is not on PATH")
    (tmp_path / "math.cu").write_text(source)
    command = [nvcc, "-std=c++20", "-fmad=false", "-arch=compute_80", f"-I{ROOT}", "-ptx", "math.cu", "-o", "math.ptx"]
    subprocess.run(command, check=True, cwd=tmp_path)
    return (tmp_path / "math.ptx").read_text()


def inexact(ptx: str) -> list[str]:
    """The instructions that may round otherwise than IEEE 754 says, and the calls."""
    return re.findall(
        r"\S*\.approx\S*|\S*\.ftz\S*|\S*\.full\S*|__internal_\w*|__nv_\w*|\bcall\b.*|\bmad\.\S*f\d\d", ptx
    )


def test_only_exactly_rounded_operations(tmp_path):
    ptx = compiled(tmp_path, SOURCE)
    assert inexact(ptx) == []
    for operation in ("fma.rn", "div.rn", "sqrt.rn"):
        for kind in ("f32", "f64"):
            assert f"{operation}.{kind}" in ptx
    assert ptx.count(".entry") == 2


def test_the_check_can_fail(tmp_path):
    source = "__global__ void kernel(float* x, double* y) { *x = __sinf(*x); *y = sin(*y); }"
    assert inexact(compiled(tmp_path, source))
