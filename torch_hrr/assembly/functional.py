"""The operators of the family as Python functions."""

from __future__ import annotations

import torch
from torch import Tensor

_ops = torch.ops.torch_hrr


def k_winners(inputs: Tensor, k: int, sorted: bool = False) -> tuple[Tensor, Tensor]:
    """The k largest elements of every row and their indices, exactly and in a stated order.

    NaN is larger than anything else, whatever its sign and payload; -0 equals +0; of equal elements the lower index
    wins. So the winners are the first k of ``torch.sort(inputs, descending=True, stable=True)``, at the cost of reading
    the row once: a threshold from a sample of the row lets through few more than k candidates, among which bisection
    finds the k largest. Rows full of ties (constant, two-valued, rectified) and sorted rows cost about as much as
    others. Memory beside the result is proportional to k.

    Deterministic, and the same bits on every device, instruction set, batch, thread count and layout. ``values`` are
    differentiable in every mode: their gradient is scattered to the winners, and the selection counts as constant.
    Autocast leaves the argument as it is.

    Args:
        inputs: ``[..., n]``, n below 2^31; float32, float64, float16, bfloat16, int32 or int64.
        k: how many win, 0 to n.
        sorted: False gives the winners by ascending index; True by descending value, equal ones by ascending index.

    Returns:
        ``(values, indices)``, both ``[..., k]``: the winners with the bits they have in ``inputs`` (-0 and the payload
        of NaN too), and where they are, int64.

    Raises:
        TypeError: ``inputs`` has another dtype.
        ValueError: k is negative or above n.
        RuntimeError: ``inputs`` has no dimension.

    Source: the cap of Papadimitriou, Vempala, Mitropolsky, Collins and Maass, Brain computation by assemblies of
    neurons, PNAS 117(25), 2020.
    """
    return _ops.k_winners.default(inputs, k, sorted)  # type: ignore[no-any-return]
