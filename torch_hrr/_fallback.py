"""Registers the plain torch of `torch_hrr._plain` as the kernels of devices that the native library has none for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_hrr import _library

_KEYS = ("PrivateUse1", "MPS", "XPU", "HPU", "MTIA", "XLA", "IPU", "VE", "MAIA", "Lazy")
"""Dispatch keys of the devices that torch knows besides the CPU and CUDA."""

# Kernels last as long as what they were registered with. Any: its methods have no types.
_library_of_kernels: Any = None


@functools.cache
def _plain_of(name: str) -> Callable[..., Any]:
    """The operator in plain torch, whose module is imported at the first call."""
    from torch_hrr import _plain

    return _plain.OPERATORS[name]


def _kernel(operator: torch._ops.OpOverload[Any, Any]) -> Callable[..., Any]:
    """The kernel of an overload: the native Meta kernel checks and allocates on any device, plain torch computes."""
    name = operator._schema.name.removeprefix("torch_hrr::")
    meta = functools.partial(operator._op_dk, torch._C.DispatchKey.Meta)

    def fill(*arguments: Any) -> Any:
        results = meta(*arguments)
        values = _plain_of(name)(*arguments)
        for result, value in zip(*((x,) if isinstance(x, torch.Tensor) else x for x in (results, values)), strict=True):
            result.copy_(value)
        return results

    def fill_out(*arguments: Any, out: torch.Tensor) -> None:
        meta(*arguments, out=out)
        out.copy_(_plain_of(name)(*arguments))

    def write(*arguments: Any) -> None:
        meta(*arguments)
        _plain_of(name)(*arguments)

    if operator._overloadname == "out":
        return fill_out
    return fill if operator._schema.returns else write


def register() -> None:
    """Once, when the native library is loaded; for CUDA too those that the library has no CUDA kernel of."""
    global _library_of_kernels
    library: Any = torch.library
    _library_of_kernels = library.Library("torch_hrr", "IMPL")
    has_kernel: Any = torch._C._dispatch_has_kernel_for_dispatch_key
    packets = {name.split(".")[0] for name, _ in _library.operators()}
    for packet in (getattr(torch.ops.torch_hrr, name) for name in sorted(packets)):
        for operator in (getattr(packet, overload) for overload in packet.overloads()):
            # One that is composed of others already runs everywhere.
            if not has_kernel(operator.name(), "CompositeImplicitAutograd"):
                kernel = _kernel(operator)
                for key in _KEYS if has_kernel(operator.name(), "CUDA") else (*_KEYS, "CUDA"):
                    _library_of_kernels.impl(operator, kernel, key)
