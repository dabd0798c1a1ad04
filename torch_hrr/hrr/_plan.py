"""Which kernel serves rows of a length."""

from __future__ import annotations

import torch

from torch_hrr._checks import resolve_dtype
from torch_hrr._library import has_cuda_kernels, row_plan
from torch_hrr._spec import Choice, Dtype, Int, takes

_OPS = (
    *("bind", "unbind", "bind_normalize", "bind_superpose", "inverse", "unitary", "bind_power", "multibind"),
    *("spectrum", "from_spectrum", "bind_spectrum", "unbind_spectrum"),
)


@takes(op=Choice(_OPS), dim=Int(1), dtype=Dtype().or_none(), device_type=Choice(("cpu", "cuda")))
def plan(op: str, dim: int, dtype: torch.dtype | None = None, device_type: str = "cpu") -> str:
    """Says in a sentence by which kernel an operator computes rows: where to look if one length is slow or wrong.

    It depends on nothing but the arguments and the machine, so that a row's bits do not depend on its batch.

    Args:
        op: "bind", "unbind", "bind_normalize", "bind_superpose", "inverse", "unitary", "bind_power", "multibind",
            "spectrum", "from_spectrum", "bind_spectrum" or "unbind_spectrum".
        dim: D, at least 1.
        dtype: float32, float64, float16 or bfloat16; None means torch's default.
        device_type: "cpu", with the instruction set in use, or "cuda", the current GPU; where there is none, one with
            227 KiB of shared memory a block, as H100 and H200 have.

    Returns:
        Such as "bind of float32 rows of 1000 on the CPU (avx2): one by one, as a matrix of 25 x 40 numbers
        (kernels/fft/matrix_transform.h)". The wording may change.

    Raises:
        TypeError, ValueError: An argument is none of these.
        RuntimeError: ``device_type`` is "cuda", and the library was built without CUDA kernels.
    """
    if device_type == "cuda" and not has_cuda_kernels():
        raise RuntimeError("plan: the library was built without CUDA kernels")
    name = str(resolve_dtype("plan", dtype)).removeprefix("torch.")
    return row_plan(op, dim, name, device_type)
