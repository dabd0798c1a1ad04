"""The cases of the assembly operators."""

from __future__ import annotations

import torch
from torch import Tensor

from cases.assembly_errors import winners_errors
from cases.base import FLOATS, Arguments, Hole, OpCase, Sample, TensorArgument
from torch_hrr import assembly
from torch_hrr._plain import assembly as plain

ops = torch.ops.torch_hrr

# Around whole vectors and whole chunks of them, and beyond the least row that is sampled.
LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 100, 511, 513, 1024, 1025, 2047, 2049)


def winners_oracle(inputs: Tensor, k: int, sorted: bool = False) -> tuple[Tensor, Tensor]:
    """Every element's rank by counting those that come before it, in differentiable torch."""
    fixed = inputs.detach()
    position = torch.arange(fixed.shape[-1])
    mine, other = fixed.unsqueeze(-1), fixed.unsqueeze(-2)
    equal = (mine == other) | (mine.isnan() & other.isnan())
    larger = (other > mine) | (other.isnan() & ~mine.isnan())
    rank = (larger | (equal & (position < position.unsqueeze(-1)))).sum(-1)
    indices = rank.argsort(-1)[..., :k]
    if not sorted:
        indices = indices.sort(-1).values
    return inputs.gather(-1, indices), indices


def winners(id: str, *shape: int, k: int, sorted: bool = False, dtypes: tuple[torch.dtype, ...] = FLOATS) -> Sample:
    return Sample(id, {"inputs": shape}, {"k": k, "sorted": sorted}, dtypes)


def winners_sizes(arguments: Arguments) -> tuple[tuple[int, ...], ...]:
    return ((*arguments["inputs"].shape[:-1], arguments["k"]),) * 2


def tied(sample: Sample) -> Sample:
    """The same with few different values."""
    return Sample(f"{sample.id}-tied", sample.shapes, sample.options, sample.dtypes, {"inputs": lambda x: x.round()})


CASES = (
    OpCase(
        name="k_winners",
        op=ops.k_winners.default,
        arguments=(TensorArgument("inputs", "n"),),
        oracle=winners_oracle,
        plain=plain.k_winners,
        result_sizes=winners_sizes,
        samples=(
            *(winners(f"n{n}", 3, n, k=(n + 3) // 4) for n in LENGTHS),
            *(tied(winners(f"n{n}", 2, n, k=(n + 1) // 2)) for n in LENGTHS),
            *(winners(f"k{k}", 2, 2500, k=k) for k in (0, 1, 2, 17, 100, 312, 313, 1250, 2499, 2500)),
            *(winners(f"sorted-k{k}", 2, 600, k=k, sorted=True) for k in (0, 1, 2, 17, 300, 600)),
            tied(winners("sorted", 2, 600, k=400, sorted=True)),
            winners("row", 24, k=5),
            winners("empty", 0, 24, k=5),
            winners("no-inputs", 3, 0, k=0),
            winners("empty-inside", 2, 0, 64, k=1),
            winners("ten-dimensions", 2, 1, 2, 1, 2, 1, 2, 1, 2, 20, k=3),
        ),
        lane_samples=(
            winners("row", 6, k=2),
            winners("batch", 2, 3, 5, k=4),
            winners("sorted", 2, 17, k=3, sorted=True),
            winners("none", 2, 5, k=0),
            winners("all", 2, 5, k=5),
            winners("one", 2, 1, k=1),
            winners("empty", 0, 5, k=2),
            winners("no-inputs", 2, 0, k=0),
        ),
        sized=lambda batch, _, n: winners(f"{batch}x{n}", batch, n, k=min(2, n)),
        errors=winners_errors(winners("good", 3, 8, k=2)),
        differentiable=("inputs",),
        unread=("inputs",),
        wrapper=assembly.k_winners,
        elementwise=("inputs",),
        selects=True,
        dtypes=(*FLOATS, torch.int32, torch.int64),
        holes={"autocast": Hole("a selection is never cast")},
    ),
)
