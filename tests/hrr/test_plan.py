"""`hrr.plan` says which kernel serves rows."""

import inspect
import re
from pathlib import Path

import pytest
import torch

from torch_hrr import hrr
from torch_hrr._library import build_info, has_cuda_kernels
from torch_hrr.hrr._plan import _OPS

ROOT = Path(__file__).resolve().parents[2]
DIMS = (1, 16, 17, 100, 128, 360, 512, 1000, 1003, 1006, 4097, 8192, 20000, 1 << 21, 1 << 62)
DEVICE_TYPES = ("cpu", *(("cuda",) if has_cuda_kernels() else ()))


@pytest.mark.parametrize("device_type", DEVICE_TYPES)
def test_every_plan_names_files_that_are_there(device_type):
    for op in _OPS:
        assert callable(getattr(hrr, op)) and f'"{op}"' in inspect.getdoc(hrr.plan)
        for dim in DIMS:
            for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
                text = hrr.plan(op, dim, dtype, device_type)
                assert text.startswith(f"{op} of {str(dtype).removeprefix('torch.')} rows of {dim} on ")
                named = re.findall(r"\(((?:csrc|kernels)/\S+)\)", text)
                assert all((ROOT / name).is_file() for name in named), text
                assert named or "by from_spectrum and a product of rows" in text, text


def test_the_cpu_is_named_with_its_instruction_set():
    assert f"on the CPU ({build_info()['isa']}): " in hrr.plan("bind", 64)


def test_plans_differ_by_operator_length_and_type():
    assert "Bluestein" in hrr.plan("unitary", 1003) and "padded to 2048" in hrr.plan("bind", 1003)
    assert "matrix of" in hrr.plan("bind", 1000) and "512 complex numbers" in hrr.plan("bind", 1024)
    assert "in a lane" in hrr.plan("bind_power", 128) and "in a lane" not in hrr.plan("bind_power", 160)
    assert "torch.fft" in hrr.plan("bind", 1 << 21)


@pytest.mark.skipif(not has_cuda_kernels(), reason="built without CUDA kernels")
def test_a_gpu_need_not_be_there():
    text = hrr.plan("bind", 3000, torch.float64, "cuda")
    assert "1500 complex numbers in shared memory" in text
    if not torch.cuda.is_available():
        assert "a GPU with 227 KiB" in text


@pytest.mark.skipif(has_cuda_kernels(), reason="built with CUDA kernels")
def test_without_cuda_kernels_there_is_no_plan_for_a_gpu():
    with pytest.raises(RuntimeError, match="plan: the library was built without CUDA kernels"):
        hrr.plan("bind", 64, device_type="cuda")


def test_what_there_is_no_plan_for():
    with pytest.raises(ValueError, match="plan: op must be 'bind'"):
        hrr.plan("permute", 64)
    with pytest.raises(ValueError, match="plan: dim must be at least 1"):
        hrr.plan("bind", 0)
    with pytest.raises(TypeError, match="plan: dtype must be float32"):
        hrr.plan("bind", 64, torch.int64)
    with pytest.raises(ValueError, match="plan: device_type must be 'cpu' or 'cuda'"):
        hrr.plan("bind", 64, device_type="mps")
