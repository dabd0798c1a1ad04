"""What tables of malformed calls are made of: the table, and defects that the operators of every system refuse."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from cases.base import Arguments, ErrorInput, Sample, TensorArgument, build

FLOATING = "float32, float64, float16 or bfloat16"
# As torch names them in C++.
WORDS = {torch.int64: "Long", torch.int16: "Short", torch.bool: "Bool", torch.complex64: "ComplexFloat"}


def quantized(tensor: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.quantize_per_tensor(tensor.detach(), 0.1, 0, torch.qint8)


def nested(tensor: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.nested.nested_tensor([tensor, tensor])


def sparse_csr(tensor: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tensor.reshape(-1, tensor.shape[-1]).to_sparse_csr()


def repeated(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of any size in the memory of one element."""
    return torch.zeros(1, dtype=dtype).expand(shape)


class Table:
    """Collects the defects of one operator; `good` is a call it takes, with `out` where the overload has one."""

    def __init__(self, name: str, arguments: tuple[TensorArgument, ...], good: Sample, out: tuple[int, ...] | None):
        self.name, self.arguments, self.good, self.out = name, arguments, good, out
        self.errors: list[ErrorInput] = []

    def add(
        self,
        argument: str,
        defect: str,
        changes: Callable[[Arguments], Arguments],
        error: type[Exception],
        message: str,
        devices: tuple[str, ...] = ("cpu", "meta"),
    ) -> None:
        def make() -> Arguments:
            arguments = build(self.good)
            if self.out is not None:
                arguments["out"] = torch.full(self.out, 7.0)
            return arguments | changes(arguments)

        self.errors.append(ErrorInput(argument, defect, make, error, rf"^{self.name}: {message}", devices))

    def replace(
        self,
        argument: str,
        defect: str,
        change: Callable[[Tensor], object],
        error: type[Exception],
        message: str,
        devices: tuple[str, ...] = ("cpu", "meta"),
    ) -> None:
        """The defect of one argument alone."""
        self.add(argument, defect, lambda arguments: {argument: change(arguments[argument])}, error, message, devices)


def bad_numbers(table: Table, bad: Mapping[str, tuple[str, tuple[float, ...]]]) -> None:
    """Options that are numbers: by name the requirement, and values that do not meet it."""
    for name in table.good.options:
        requirement, values = bad.get(name, ("", ()))
        for value in values:
            written = str(value) if isinstance(value, int) else f"{value:g}"
            message = re.escape(f"{name} must be {requirement}, got {written}")
            table.replace(name, written, lambda _, v=value: v, ValueError, message)


def unsupported_layouts(table: Table, argument: str) -> None:
    """Layouts that no argument may have."""
    strided = f"{argument} must be a strided tensor, got layout"
    table.replace(argument, "sparse", Tensor.to_sparse, TypeError, f"{strided} Sparse")
    table.replace(argument, "sparse-csr", sparse_csr, TypeError, f"{strided} SparseCsr", ("cpu",))
    table.replace(argument, "nested", nested, TypeError, f"{strided} nested", ("cpu",))


def unsupported_tensors(
    table: Table,
    argument: str,
    taken: str = FLOATING,
    refused: tuple[torch.dtype, ...] = (torch.int64, torch.bool, torch.complex64),
) -> None:
    """Kinds of tensors that no argument of floats may be: other dtypes than those `taken`, other layouts."""
    for dtype in refused:
        message = f"{argument} must be {taken}, got {WORDS[dtype]}"
        table.replace(argument, f"{dtype}".removeprefix("torch."), lambda x, t=dtype: x.to(t), TypeError, message)
    unsupported_layouts(table, argument)
    mkldnn = f"{argument} must be a strided tensor, got layout Mkldnn"
    table.replace(argument, "mkldnn", lambda x: x.to_mkldnn(), TypeError, mkldnn, ("cpu",))
    table.replace(argument, "quantized", quantized, TypeError, f"{argument} must not be quantized, got QInt8", ("cpu",))


def devices(table: Table, argument: str, first: str) -> None:
    """One argument on the other device, both ways round."""
    if argument == first:
        return
    for here, there in (("cpu", "meta"), ("meta", "cpu")):

        def move(arguments: Arguments, here: str = here, there: str = there) -> Arguments:
            tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
            return {name: value.to(there if name == argument else here) for name, value in tensors.items()}

        message = rf"\w+ and {argument} must be on the same device, got {here} and {there}"
        table.add(argument, f"on-{there}-beside-{here}", move, RuntimeError, message, ("as-made",))
