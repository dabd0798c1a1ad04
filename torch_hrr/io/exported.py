"""What programs of torch.export need to leave Python, or torch_hrr, behind."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_hrr import _library

_C_TYPES = {
    "Tensor": "AtenTensorHandle",
    "int": "int64_t",
    "SymInt": "int64_t",
    "float": "double",
    "bool": "int32_t",
    "ScalarType": "int32_t",
    "str": "const char*",
}
"""The plain types that code of AOTInductor passes, as in csrc/c_shim.h; an optional argument is a pointer to one."""

_TAKEN = ("permute",)
"""Operators of ATen's whose C shims have the same names."""


def _functional() -> list[torch._ops.OpOverload[Any, Any]]:
    """The overloads that write into none of their arguments."""
    names = (name.split(".") for name, _ in _library.operators())
    overloads = (getattr(getattr(torch.ops.torch_hrr, packet), overload) for packet, overload in names)
    return [overload for overload in overloads if not overload._schema.is_mutable]


def _sort(x: Tensor, *, stable: bool | None, dim: int = -1, descending: bool = False) -> tuple[Tensor, Tensor]:
    result: tuple[Tensor, Tensor] = torch.ops.aten.sort.default(x, dim, descending)
    return result


def onnx_decompositions() -> dict[torch._ops.OpOverload[Any, Any], Callable[..., Any]]:
    """The operators in plain torch, for ``torch.export.ExportedProgram.run_decompositions`` before an ONNX export.

    A program so decomposed has operators of torch alone, which ``torch.onnx.export`` translates (`docs/onnx.md` has a
    table). It computes the same formulas in more steps and more memory and rounds otherwise: the promises on bits, on
    rows that are not finite and on the range of numbers do not hold. ``connectome_inputs`` and ``project_``, whose
    steps depend on the values of tensors, cannot be decomposed.

    Returns:
        For every overload that writes into no argument, a function with the arguments of its schema. A stable sort
        becomes torch's other one, which ONNX also makes a stable one; torch may order equal elements otherwise.

    Example:
        >>> program = torch.export.export(model, (vectors,)).run_decompositions(torch_hrr.io.onnx_decompositions())
        >>> torch.onnx.export(program, dynamo=True).save("model.onnx")
    """
    from torch_hrr import _plain

    def k_cap(
        inputs: Tensor, k: int, temperature: float = 1.0, surrogate: str = "sigmoid", soft: bool = False
    ) -> Tensor:
        # The gradient's share is 0 in value, and most of the time.
        return _plain.assembly.k_cap(inputs, k, temperature, surrogate if soft else "none", soft)

    ours = {overload: _plain.OPERATORS[overload._schema.name.split("::")[1]] for overload in _functional()}
    return {**ours, torch.ops.torch_hrr.k_cap.default: k_cap, torch.ops.aten.sort.stable: _sort}


def _shim(overload: torch._ops.OpOverload[Any, Any]) -> list[str]:
    """The declaration of an overload's C function: a pointer, which the library fills as a package is loaded."""
    name = overload._schema.name.split("::")[1]
    types = []
    for argument in overload._schema.arguments:
        kind = str(argument.real_type)
        plain = _C_TYPES[kind.removeprefix("Optional[").removesuffix("]")]
        types.append(f"const {plain}*" if kind.startswith("Optional[") else plain)
    types += ["AtenTensorHandle*"] * len(overload._schema.returns)
    pointer = f"AOTITorchError (*const aoti_torch_{{}}_{name})({', '.join(types)})"
    found = f'reinterpret_cast<AOTITorchError (*)({", ".join(types)})>(torch_hrr_c_shim("{name}"))'
    return ["void (*torch_hrr_c_shim(const char*))()", *(f"{pointer.format(d)} = {found}" for d in ("cpu", "cuda"))]


def inductor_configs(folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Settings with which AOTInductor makes a package that loads the operators by itself.

    Without them a program must import torch_hrr, or be linked to it, before it loads a package that calls an operator.
    With them the package names the native library as one that it needs, and its code calls the operators directly,
    without boxing their arguments. The library is the one that the process has loaded already, or else it is searched
    for in ``folder`` and then as the system searches (``LD_LIBRARY_PATH``). It must be for the same minor version of
    torch and the same version of torch_hrr.

    Args:
        folder: Where the library is on the machine that runs the package; by default where it is here.

    Returns:
        For ``inductor_configs`` of ``torch._inductor.aoti_compile_and_package``.

    Raises:
        TypeError: ``folder`` is no path.

    Example:
        >>> torch._inductor.aoti_compile_and_package(program, inductor_configs=torch_hrr.io.inductor_configs())
    """
    library = _library.load()
    where = library.parent if folder is None else folder
    if not isinstance(where, (str, os.PathLike)):
        raise TypeError(f"inductor_configs: folder must be a path, got {type(where).__name__}")
    words = ["-L", str(library.parent), "-Xlinker", "-rpath", "-Xlinker", os.fspath(where)]
    # AOTInductor writes "-l" before each. The folders go with the name, since it has no setting for them.
    link = f"{library.stem.removeprefix('lib')} {shlex.join(words)}"
    shims = {op: _shim(op) for op in _functional() if not op._overloadname.removeprefix("default")}
    shims = {op: shim for op, shim in shims.items() if op._schema.name.split("::")[1] not in _TAKEN}
    return {"aot_inductor.custom_op_libs": [link], "aot_inductor.custom_ops_to_c_shims": shims}
