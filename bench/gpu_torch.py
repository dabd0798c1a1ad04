"""The operators whose requests are counted, as torch calls: ours to time on a GPU, and the torch form it replaces.

The kernels of a torch form are listed by running it on meta tensors under a dispatch mode: an ATen call that makes no
view is a kernel on CUDA, which reads its arguments and writes its results. What CUDA adds or does otherwise is in
`kernels_of`, after aten/src/ATen/native/cuda of torch 2.11 to 2.15.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fft import irfft, rfft
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from bench.assembly import topk
from bench.encoding import apply_rotary, apply_rotary_to_pairs, encoded, features, waves_of
from bench.entry import Inputs
from bench.hrr import bind_normalize_rfft, bind_rfft
from torch_hrr._plain import assembly as plain


@dataclass(frozen=True)
class TorchKernel:
    """A kernel of a torch form, or several that are alike."""

    name: str
    read: int
    written: int
    launches: int = 1


def bytes_of(tensor: Tensor) -> int:
    """The bytes that the elements take in memory: what is expanded is there once."""
    return tensor.element_size() * math.prod(
        size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride != 0
    )


# The least length of a row from which torch.topk spreads rows over several blocks, for up to so many rows
# (should_use_multiblock in TensorTopK.cu).
TOPK_MULTIBLOCK = ((20, 20_000), (40, 10_000), (80, 8000), (199, 5000), (799, 3000), (4000, 800), (None, 400))


def topk_kernels(values: Tensor) -> list[TorchKernel]:
    """torch.topk(sorted=False) without its results; a digit of the radix selection reads the row, as gathering does.

    In one block a digit has 2 bits, and two passes gather; the selection may end early, which is not counted here. In
    several blocks a digit has 8 bits and takes three kernels; with gathering, sums and fills a call for 4-byte elements
    is 21.
    """
    rows, n = values.numel() // values.shape[-1], values.shape[-1]
    size = bytes_of(values)
    bits = 8 * values.element_size()
    least = next(least for most, least in TOPK_MULTIBLOCK if most is None or rows <= most)
    if n < least:
        return [TorchKernel("topk, one block a row", size * (bits // 2 + 2), 0)]
    digits = bits // 8
    return [
        TorchKernel("topk, digits", size * digits, 0, 3 * digits),
        TorchKernel("topk, gathering", size, 0, 9),
    ]


def kernels_of(name: str, arguments: Sequence[Any], result: Any) -> list[TorchKernel]:
    """What torch launches on CUDA for an ATen call: `name` as in "mul.Tensor"."""
    tensors = [leaf for leaf in tree_leaves(arguments) if isinstance(leaf, Tensor)]
    results = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
    read, written = sum(map(bytes_of, tensors)), sum(map(bytes_of, results))
    call = name.partition(".")[0]
    if call.startswith("_fft_"):
        # cuFFT takes a row of these lengths in one kernel. An inverse real transform may overwrite its argument, which
        # is therefore copied first; 1/n of the inverse is a kernel of its own (SpectralOps.cpp).
        copied = [TorchKernel("clone", read, read)] if call == "_fft_c2r" else []
        scaled = [TorchKernel("mul_", written, written)] if arguments[2] != 0 else []
        return [*copied, TorchKernel(call, read, written), *scaled]
    if call == "topk":
        *first, last = topk_kernels(tensors[0])
        return [*first, TorchKernel(last.name, last.read, written, last.launches)]
    if call in ("empty", "empty_like", "new_empty", "lift_fresh"):
        return []
    if call in ("new_zeros", "zeros_like", "ones_like", "scalar_tensor", "random_"):
        read = 0
    elif call == "copy_":
        read = bytes_of(tensors[1])
    return [TorchKernel(call, read, written)]


class Trace(TorchDispatchMode):
    """Collects the kernels that the calls inside it are on CUDA."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: list[TorchKernel] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: Sequence[Any] = (), options: dict[str, Any] | None = None
    ) -> Any:
        result = function(*arguments, **(options or {}))
        if not function.is_view:
            self.kernels += kernels_of(function.__name__, arguments, result)
        return result


@dataclass(frozen=True)
class Case:
    """An operator at a shape: `ours` and `form` take nothing and give the same; `ours` is None without such a call.

    That of k_cap is the reference, whose bisection takes 100 steps whatever the row.
    """

    ours: Callable[[], Any] | None
    form: Callable[[], Any]

    def kernels(self) -> list[TorchKernel]:
        trace = Trace()
        with trace:
            self.form()
        return trace.kernels


def traffic(kernels: Sequence[TorchKernel]) -> int:
    """Bytes that all of these kernels read and write."""
    return sum(kernel.read + kernel.written for kernel in kernels)


def launches(kernels: Sequence[TorchKernel]) -> int:
    return sum(kernel.launches for kernel in kernels)


def superposed(vectors: Tensor) -> Tensor:
    """The sum of each set, norm 1."""
    return F.normalize(vectors.sum(-2), dim=-1)


def record(a: Tensor, b: Tensor) -> Tensor:
    """The sum of the bound pairs, added as spectra: 2 K + 1 transforms."""
    result: Tensor = irfft((rfft(a) * rfft(b)).sum(-2), n=a.shape[-1])
    return result


def quantized(rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    unit = F.normalize(rows, dim=-1)
    scale = unit.abs().amax(-1, keepdim=True) / 127
    codes = (unit / scale).round()
    return codes.to(torch.int8), scale, torch.linalg.vector_norm(unit - scale * codes, dim=-1)


def soft_cap(inputs: Tensor, k: int) -> Tensor:
    return plain.k_cap(inputs, k, soft=True)


def gradients(form: Callable[..., Tensor], operands: Inputs, device: str) -> Callable[[], Any]:
    """The backward pass alone: the forward pass has run."""
    leaves = tuple(operand.requires_grad_() for operand in operands)
    result = form(*leaves)
    gradient = torch.randn(result.shape, device=device)
    return partial(torch.autograd.grad, result, leaves, gradient, retain_graph=True)


FORMS: dict[str, Callable[..., Tensor]] = {
    "bind": bind_rfft, "bind_normalize": bind_normalize_rfft, "superpose": superposed, "bind_superpose": record,
}  # fmt: skip
TYPES = {"float": torch.float32, "double": torch.float64, "bfloat16": torch.bfloat16, "int64": torch.int64}


def in_float(form: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """Rows of half types, whose transforms torch does not have."""
    return form(*(operand.float() for operand in operands)).to(operands[0].dtype)


def case_of(op: str, shape: str, device: str = "cpu") -> Case | None:
    """The case of an operator and shape as the counter names them, such as "k_winners float", "8x4096 k100".

    None for an operator that torch has no composition for here.
    """
    numbers = [int(number) for number in re.findall(r"\d+", shape)]
    ops = torch.ops.torch_hrr
    name, _, last = op.rpartition(" ")
    dtype = TYPES.get(last, torch.float32)
    op = name if last in TYPES else op

    def normal(*sizes: int) -> Tensor:
        return torch.randn(sizes, device=device).to(dtype)

    if op in FORMS:
        operands = [normal(*numbers) for _ in range(1 if op == "superpose" else 2)]
        form = partial(in_float, FORMS[op]) if dtype.itemsize == 2 else FORMS[op]
        return Case(partial(getattr(ops, op), *operands), partial(form, *operands))
    if op in ("bind_backward", "bind_normalize_backward"):
        a, b, grad = (normal(*numbers) for _ in range(3))
        eps = (1e-12,) if "normalize" in op else ()
        form = gradients(FORMS[op.removesuffix("_backward")], (a, b), device)
        return Case(partial(getattr(ops, f"_{op}"), grad, a, b, *eps), form)
    if op.startswith("k_"):
        *sizes, k = numbers
        x = normal(*sizes) if dtype.is_floating_point else (1e6 * torch.randn(sizes, device=device)).to(dtype)
        if op == "k_winners":
            return Case(partial(ops.k_winners, x, k), partial(topk, k, x))
        if op == "k_cap soft":
            return Case(partial(ops.k_cap, x, k, 1.0, "sigmoid", True), partial(soft_cap, x, k))
        if op == "k_cap soft backward":
            backward = gradients(partial(soft_cap, k=k), (x,), device)
            return Case(partial(ops._k_cap_backward, normal(*sizes), x, k, 1.0, "sigmoid"), backward)
    if op.startswith(("sinusoidal_", "embed_positions")):
        rows, dim = numbers
        positions = torch.arange(rows, device=device)
        if op.startswith("sinusoidal_features"):
            held = normal(dim)
            if op == "sinusoidal_features":
                return Case(partial(ops.sinusoidal_features, positions, held), partial(features, positions, held))
            grad = normal(rows, 2 * dim)
            return Case(
                partial(ops._sinusoidal_features_backward, grad, positions, held, None, "interleaved"),
                gradients(partial(features, positions), (held,), device),
            )
        if op == "sinusoidal_encoding":
            layout = "half" if shape.endswith("half") else "interleaved"
            return Case(
                partial(ops.sinusoidal_encoding, positions, dim, layout=layout, dtype=dtype),
                partial(encoded, positions, dim, layout, dtype),
            )
        table = normal(rows, dim)
        return Case(
            partial(ops.embed_positions, positions, table),
            lambda: F.embedding(positions, table) + encoded(positions, dim, "interleaved", dtype),
        )
    if op == "rotate":
        heads, length, dim = numbers
        layout = "half" if shape.endswith("half") else "interleaved"
        x, positions = normal(heads, length, dim), torch.arange(length, device=device)
        form = apply_rotary if layout == "half" else apply_rotary_to_pairs
        return Case(
            partial(ops.rotate, x, positions, layout=layout, inverse=True),
            partial(form, x, *waves_of(length, dim, layout, dtype, device)),
        )
    if op == "quantize_rows":
        rows = normal(*numbers)
        return Case(partial(ops.quantize_rows, rows), partial(quantized, rows))
    if op.startswith("quantized_cleanup"):
        # Two kernels of one operator, for which torch has one product.
        queries, items, dim = numbers
        return Case(None, partial(torch.matmul, normal(queries, dim), normal(dim, items)))
    if op == "philox_fill":
        return Case(None, torch.empty(numbers[0], dtype=torch.int32, device=device).random_)
    return None
