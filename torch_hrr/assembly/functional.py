"""The assembly operators as Python functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_hrr._ops import ops as _ops
from torch_hrr.assembly import _checks as checks


def k_winners(inputs: Tensor, k: int, sorted: bool = False) -> tuple[Tensor, Tensor]:
    """The k largest elements of every row and their indices, exactly and in a stated order.

    NaN is larger than anything else, whatever its sign and payload; -0 equals +0; among equal elements the lower index
    wins. So the winners are the first k of ``torch.sort(inputs, descending=True, stable=True)``, at the cost of reading
    the row once: a threshold from a sample of the row lets through slightly more than k candidates, among which
    bisection finds the k largest. Rows full of ties (constant, two-valued, rectified) and sorted rows cost about as
    much as others. Memory beside the result is proportional to k.

    Deterministic, and the same bits on every instruction set and, according to tests that run the kernels on the host,
    on CUDA, whatever the batch, threads and layout. ``values`` are differentiable in every mode: their gradient is
    scattered to the winners, and the selection counts as constant. Autocast leaves the argument as it is.

    Args:
        inputs: ``[..., n]``, n below 2^31; float32, float64, float16, bfloat16, int32 or int64.
        k: how many win, 0 to n.
        sorted: False sorts the winners by ascending index; True by descending value, equal ones by ascending index.

    Returns:
        ``(values, indices)``, both ``[..., k]``: the winners with the bits they have in ``inputs`` (-0 and the payload
        of NaN too), and where they are, int64.

    Raises:
        TypeError: ``inputs`` has another dtype, or k or ``sorted`` is of another type.
        ValueError: k is negative or above n, or ``inputs`` has no dimension.

    Source: the cap of Papadimitriou, Vempala, Mitropolsky, Collins and Maass, Brain computation by assemblies of
    neurons, PNAS 117(25), 2020.
    """
    op = "k_winners"
    inputs = checks.tensor(op, "inputs", inputs)
    sorted = checks.check_bool(op, "sorted", sorted)
    found: Any = _ops.k_winners.default(inputs, checks.signed(op, "k", k), sorted)
    values, indices = found
    return values, indices


def k_cap(inputs: Tensor, k: int, temperature: float = 1.0, surrogate: str = "sigmoid", soft: bool = False) -> Tensor:
    """The k-cap: 1 for the k winners of every row, 0 for the rest, with the gradient of soft winners.

    Winners are those of ``k_winners``: the k largest, NaN above everything, -0 equal to +0, lower index first among
    equal elements. The mask is piecewise constant, so training needs a surrogate gradient, that of the soft winners::

        y = F((x - t) / temperature),  t such that sum y = k
        dL/dx = d (g - <d, g> / <d, 1>) / temperature,  d = F'((x - t) / temperature)

    for an upstream g: raising one input lowers the others' chance, and a constant added to a row changes nothing. With
    ``surrogate="sigmoid"`` F is the logistic function and d = y (1 - y); with ``"laplace"`` the distribution function
    of the Laplace distribution and d = min(y, 1 - y), with tails as wide but a sharper peak. ``"ste"``
    (straight-through estimator) passes the gradient unchanged and ``"none"`` stops it. With ``soft=True`` the result is
    y itself, with its own gradient.

    Differentiable in every mode; forward derivatives of the mask are those of the surrogate too. For k = 0 and k = n
    the result is 0 and 1, and the gradient 0. Where all winners are more than 600 temperatures above the rest, y is the
    mask and the gradient 0; equal elements share what is left of k, whatever the temperature. t is found in double by
    Newton's method within a bracket, so sum y is k up to the rounding of the result. Deterministic: a row's bits depend
    on that row, k, temperature, surrogate and dtype alone, and on a CPU not on the instruction set. Never autocast.

    A row that holds NaN or infinity gives a NaN row of y and of the gradient, as does such a row of g; its mask has the
    winners above. To exclude or force an element, use a large finite number, negative or positive.

    The mask costs what ``k_winners`` costs; y and the gradient about 5 ns per element on a core with AVX-512: a
    selection, one exponential and about six divisions per element. They take about 20 bytes of scratch memory per
    element of a row and thread.

    Args:
        inputs: ``[..., n]``, real floating point; the half types are computed in float32 or wider.
        k: the number of winners, 0 to n.
        temperature: width of the transition, finite and above 0, in units of the inputs.
        surrogate: "sigmoid", "laplace", "ste" or "none".
        soft: whether to return y; not with "ste" and "none", which have no y.

    Returns:
        ``[..., n]`` in the dtype of ``inputs``.

    Raises:
        TypeError: ``inputs`` is not float32, float64, float16 or bfloat16.
        ValueError: ``inputs`` has no dimension, ``k`` is outside 0 to n, ``temperature`` is not finite or not above 0,
            or ``surrogate`` is unknown or, with ``soft``, has no y.

    Source: Papadimitriou et al., Brain computation by assemblies of neurons, PNAS 117(25), 2020, for the k-cap; Amos,
    Koltun and Kolter, The limited multi-label projection layer, 2019, for the projection onto sum y = k.
    """
    op = "k_cap"
    inputs = checks.tensor(op, "inputs", inputs)
    checks.word(op, "surrogate", surrogate)
    soft = checks.check_bool(op, "soft", soft)
    wide = checks.real(op, "temperature", temperature)
    return _ops.k_cap.default(inputs, checks.signed(op, "k", k), wide, surrogate, soft)


def connectome_inputs(winners: Tensor, n: int, p: float, seed: int, fiber: int, brain: int = 0) -> Tensor:
    """The inputs that winners send through a random connectome: ``x[..., j] = #{i in winners[..., :]: i -> j}``.

    Every ordered pair (i, j) is an edge with probability ``p``, independently, self-edges included. The graph takes no
    memory: it is a function of (seed, fiber, brain), and the edges out of i are generated again at every call. Columns
    are cut into blocks whose width follows from ``p``; row i and block c own the Philox4x32-10 stream with counter
    (draw, c, i) and a 64-bit mix of (seed, brain, fiber) as key, and the edges inside a block are successive geometric
    gaps from integer tables. Whether (i, j) is an edge does not depend on ``n``. Probabilities of gaps are multiples of
    2^-32, and a density below 2^-43 gives no edges; the constants are frozen and written down in ``kernels/assembly``.

    A neuron that occurs several times in a row counts that many times. No gradient, no autocast. Deterministic: the
    same bits on every instruction set and, according to tests that run the kernels on the host, on CUDA, whatever the
    batch, neighbours, threads and layout.

    O(k (1 + n p)): on a core with AVX-512 about 1 to 2 ns per edge for densities of at least 2^-8 and 3 to 5 below,
    where an edge takes two random words. The first call with a density makes its tables (about 10 us), which are
    uploaded once to each GPU: that call must not be captured in a graph.

    Args:
        winners: ``[..., k]``, int64: the neurons that fire, 0 to 2^31 - 1, in any order. On a GPU others are ignored,
            since checking them would wait for the device.
        n: the number of targets, 0 to 2^31 - 1.
        p: the density, 0 to 1.
        seed: any int, taken modulo 2^64.
        fiber: which connection of a brain, likewise.
        brain: which brain of a batch, likewise.

    Returns:
        ``[..., n]``, int32.

    Raises:
        TypeError: ``winners`` is not a strided tensor or array of int64, or a number is not an int.
        ValueError: ``n`` or ``p`` is outside its range, or ``winners`` has no dimension.
        IndexError: a winner is outside 0 to 2^31 - 1, on the CPU.

    Source: Papadimitriou et al., Brain computation by assemblies of neurons, PNAS 117(25), 2020, for the model; Walker,
    An efficient method for generating discrete random variables with general distributions, 1977, for the gaps.
    """
    op = "connectome_inputs"
    return _ops.connectome_inputs.default(
        checks.tensor(op, "winners", winners),
        checks.signed(op, "n", n),
        checks.real(op, "p", p),
        checks.check_seed(op, seed),
        checks.check_seed(op, fiber, "fiber"),
        checks.check_seed(op, brain, "brain"),
    )


def overlap(a: Any, b: Any) -> float | Tensor:
    """The share of the neurons of `b` that are also in `a`.

    ``|a and b| / |b|``: 1 where both are the same assembly, about k / n for two random ones.

    Args:
        a: Neurons, ``[m]`` or ``[batch, m]``, a tensor, array or sequence of ints; negative numbers, with which
            `Brain.winners` ends shorter rows, stand for no neuron.
        b: Neurons, ``[m]`` or ``[batch, m]``.

    Returns:
        A float; float64 ``[batch]`` where there is a batch. NaN where `b` has no neurons.

    Raises:
        TypeError: Something other than ints.
        ValueError: Other dimensions, or two batches of different sizes.
    """
    first, second = checks.assembly("overlap", "a", a), checks.assembly("overlap", "b", b)
    if first.dim() == second.dim() == 2 and len(first) != len(second):
        raise ValueError(f"overlap: a and b must have the same batch, got {len(first)} and {len(second)}")
    rows = next((len(part) for part in (first, second) if part.dim() == 2), 1)
    pairs = zip(*(part.expand(rows, -1) for part in (first, second.to(first.device))), strict=True)
    counts = [(torch.isin(now, then) & (now >= 0)).sum() for then, now in pairs]
    shared = (torch.stack(counts) if counts else first.new_zeros(0)).double()
    # By a tensor: a GPU multiplies by the reciprocal of a number, which may be one bit off.
    shares = shared / (second >= 0).sum(-1).to(shared.device).expand(rows).double()
    return float(shares) if first.dim() == second.dim() == 1 else shares
