"""The cases of spectrum, from_spectrum, bind_spectrum and unbind_spectrum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cases import hrr_algebra_oracle, hrr_errors, hrr_oracle
from cases.base import FLOATS, OpCase, Sample, TensorArgument
from cases.hrr import DIMS, LIBRARY_DIM, binding
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain

ops = torch.ops.torch_hrr


def spectrum(a: Tensor) -> Tensor:
    """The bins by matrices of cosines and sines: A_0, Re A_1, Im A_1, ..., and A_{D/2} last for even D."""
    parts = torch.stack(hrr_algebra_oracle.spectrum(a), -1).flatten(-2)
    return torch.cat([parts[..., :1], parts[..., 2 : a.shape[-1] + 1]], -1)


def from_spectrum(spectrum: Tensor) -> Tensor:
    """The sum over all D bins, by the same matrices."""
    dim = spectrum.shape[-1]
    zero = torch.zeros_like(spectrum[..., :1])
    imaginary = [zero, spectrum[..., 2::2], *([zero] if dim > 1 and dim % 2 == 0 else [])]
    return hrr_algebra_oracle.row_of(
        (torch.cat([spectrum[..., :1], spectrum[..., 1::2]], -1), torch.cat(imaginary, -1)), dim
    )


def bind_spectrum(a: Tensor, spectrum: Tensor) -> Tensor:
    return hrr_oracle.convolve(a, from_spectrum(spectrum))


def unbind_spectrum(bound: Tensor, spectrum: Tensor) -> Tensor:
    return hrr_oracle.correlate(bound, from_spectrum(spectrum))


def transform(
    op: Any, argument: str, oracle: Callable[..., Tensor], plain: Callable[..., Tensor], wrapper: Callable[..., Tensor]
) -> OpCase:
    name = op._schema.name.split("::")[1]
    arguments = (TensorArgument(argument, "D"),)

    def sample(id: str, *shape: int, dtypes: tuple[torch.dtype, ...] = FLOATS) -> Sample:
        return Sample(id, {argument: shape}, {}, dtypes)

    return OpCase(
        name=name,
        op=op,
        arguments=arguments,
        oracle=oracle,
        plain=plain,
        result_sizes=lambda arguments: (tuple(arguments[argument].shape),),
        samples=(
            *(sample(f"D{dim}", 3 if dim <= 256 else 2, dim) for dim in DIMS),
            *(sample(f"D{dim}", 2, dim) for dim in (48, 80, 400, 480, 2048)),
            sample("D4095", 4095, dtypes=(torch.float32, torch.bfloat16)),
            sample("D4096", 4096, dtypes=(torch.float32, torch.float64, torch.float16)),
            sample("D4097", 2, 4097),
            sample("D5000", 5000, dtypes=(torch.float32,)),
            sample("D8192", 8192, dtypes=(torch.float32,)),
            sample("row", 24),
            sample("batch", 2, 3, 64),
            sample("empty", 0, 24),
            sample("empty-inside", 2, 0, 64),
            sample("ten-dimensions", 2, 1, 2, 1, 2, 1, 2, 1, 2, 20),
        ),
        lane_samples=(
            sample("row", 6),
            sample("batch", 2, 3, 5),
            sample("D32", 2, 32),
            sample("D17", 2, 17),
            sample("two", 3, 2),
            sample("one", 2, 1),
            sample("empty", 0, 5),
            sample("library", LIBRARY_DIM),
        ),
        sized=lambda batch, _, dim: sample(f"{batch}x{dim}", batch, dim),
        errors=hrr_errors.generate(name, arguments, sample("good", 3, 8)),
        differentiable=(argument,),
        unread=(argument,),
        wrapper=wrapper,
    )


CASES = (
    transform(ops.spectrum.default, "a", spectrum, plain.spectrum, hrr.spectrum),
    transform(ops.from_spectrum.default, "spectrum", from_spectrum, plain.from_spectrum, hrr.from_spectrum),
    binding(
        ops.bind_spectrum.default,
        ("a", "spectrum"),
        bind_spectrum,
        plain.bind_spectrum,
        wrapper=hrr.bind_spectrum,
    ),
    binding(
        ops.unbind_spectrum.default,
        ("bound", "spectrum"),
        unbind_spectrum,
        plain.unbind_spectrum,
        wrapper=hrr.unbind_spectrum,
    ),
)
