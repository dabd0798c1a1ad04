"""Vectors of sequences, n-grams and graphs, which keep order and direction, and of many numbers.

Order and direction are marked by powers of one seeded random permutation P, ``P a = permute(a, seed)``; circular
convolution cannot keep them, because it commutes. All results are sums without normalisation, so that they can be
added: the norm for k unit items is about sqrt(k). A query returns a noisy item, whose cosine with the true one is about
1/sqrt(k) or less; clean it up with an `ItemMemory`. A structure within a structure of the same kind needs another seed,
since powers of one permutation add: position 1 of part 2 would be position 2 of part 1. A seed is an int, taken modulo
2^64; another type is a TypeError.

All take float32, float64, float16 and bfloat16 on any device, are differentiable, and deterministic: the same arguments
and seed give the same result, whatever else is in the batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_bool, check_broadcast, check_seed, check_vectors, integer, shown
from torch_hrr._ops import ops as _ops
from torch_hrr.hrr import functional
from torch_hrr.hrr.memory import compute_dtype

DEFAULT_SEED = 0
"""Default seed of the permutation."""


def sequence(items: Tensor, *, seed: int = DEFAULT_SEED) -> Tensor:
    """A bundle of items marked by position: ``sum_i P^(i + 1) x_i``, i from 0.

    The class `Sequence` makes the same vector item by item; `at` and its ``[index]`` read it.

    Args:
        items: ``[..., L, D]``; L may be 0, which gives a zero row.
        seed: seed of the permutation.

    Returns:
        ``[..., D]``, not normalised. Half types are summed in float32; under autocast nothing is rounded.

    Raises:
        TypeError: `items` is neither a tensor nor an array of a supported dtype.
        ValueError: `items` has fewer than two dimensions, or D is 0.

    Cost: log2(L) permutations of half the remaining items each, 2 L D elements in all. torch.export needs a fixed L,
    on which the number of permutations depends, and refuses that of ``x[mask]``.

    Source: Plate, Holographic reduced representations, 1995, section IV; permutations: Sahlgren, Holst, Kanerva 2008.
    """
    items = _check_items("sequence", "items", items, rank=2)
    check_seed("sequence", seed)
    with full_precision(items.device):
        if items.shape[-2] == 0:
            return functional.superpose(items, normalize=False)
        total, power = items.to(compute_dtype(items.dtype)), 1
        # Neighbours are added in pairs, x_i + P^power x_(i + 1), which are then neighbours 2 power apart.
        while total.shape[-2] > 1:
            even, odd = total[..., 0::2, :], total[..., 1::2, :]
            moved = functional.permute(odd, seed, power)
            last = even[..., moved.shape[-2] :, :]
            total = torch.cat([even[..., : moved.shape[-2], :] + moved, last], -2)
            power *= 2
        return functional.permute(total.squeeze(-2), seed, 1).to(items.dtype)


def at(sequence: Tensor, index: int, *, seed: int = DEFAULT_SEED) -> Tensor:
    """The noisy item at a position of a sequence: ``P^-(index + 1) s``.

    Of L items of equal norm it has a cosine of about ``1/sqrt(L)`` with the right one and 0 with the others, whatever
    the sequence was divided by.

    Args:
        sequence: ``[..., D]``, from `sequence` or `Sequence`.
        index: from 0.
        seed: the one that the sequence was made with.

    Returns:
        ``[..., D]``.

    Raises:
        TypeError: `sequence` is neither a tensor nor an array of a supported dtype, or `index` not an int.
        ValueError: D is 0.
        IndexError: `index` is negative or above 2^63 - 2. The length is not known here: an index beyond it gives noise.

    Cost: one permutation.
    """
    sequence = _check_items("at", "sequence", sequence)
    index = integer("at", "index", index)
    check_seed("at", seed)
    if not 0 <= index < 2**63 - 1:
        raise IndexError(f"at: index must be >= 0 and below 2^63 - 1, got {shown(index)}")
    return functional.permute(sequence, seed, -(index + 1))


def ngrams(items: Tensor, n: int, *, seed: int = DEFAULT_SEED) -> Tensor:
    """All windows of n items: ``sum_i bind(x_i, P x_(i + 1), ..., P^(n - 1) x_(i + n - 1))``.

    The order inside a window counts, that of the windows does not; n = 1 is the plain sum. The cosine of two texts is
    about that of their n-gram counts, if the items are nearly orthogonal and of equal norm.

    Args:
        items: ``[..., L, D]``; L < n gives a zero row.
        n: length of a window, >= 1.
        seed: seed of the permutation.

    Returns:
        ``[..., D]``, not normalised.

    Raises:
        TypeError: `items` is neither a tensor nor an array of a supported dtype, or `n` not an int.
        ValueError: `n` is less than 1, `items` has fewer than two dimensions, or D is 0.

    Cost: n + 2 transforms a window; n - 1 copies of the items. torch.export takes any L above n, and an L that depends
    on data, as that of ``x[mask]``, also below n.

    Source: Joshi, Halseth, Kanerva, Language geometry using random indexing, 2016, with circular convolution for the
    product.
    """
    items = _check_items("ngrams", "items", items, rank=2)
    n = integer("ngrams", "n", n, 1)
    check_seed("ngrams", seed)
    windows = torch.sym_max(items.shape[-2] - n + 1, 0)
    # A shortcut, as n may be huge, but not in a graph: it could not decide where the length depends on data.
    if not torch.compiler.is_compiling() and windows == 0:
        return functional.superpose(items[..., :0, :], normalize=False)
    parts = [items[..., :windows, :]]
    parts += [functional.permute(items[..., k : windows + k, :], seed, k) for k in range(1, n)]
    if n == 1:
        return functional.superpose(parts[0], normalize=False)
    heads = parts[0] if n == 2 else functional.multibind(torch.stack(parts[:-1], -2))
    # The last factor is bound while summing, so that no product of a whole window is stored.
    return functional.bind_superpose(heads, parts[-1])


def graph(sources: Tensor, targets: Tensor, directed: bool = True, *, seed: int = DEFAULT_SEED) -> Tensor:
    """A sum of edges: ``sum_e bind(s_e, P t_e)``, or ``sum_e bind(s_e, t_e)`` if they have no direction.

    The class `Graph` makes the same vector edge by edge, and answers queries.

    Args:
        sources: ``[..., E, D]``; E may be 0, which gives a zero row.
        targets: ``[..., E, D]``, broadcast against `sources`.
        directed: whether a -> b differs from b -> a.
        seed: seed of the permutation.

    Returns:
        ``[..., D]``, not normalised.

    Raises:
        TypeError: an argument is neither a tensor nor an array of a supported dtype, or `directed` not a bool.
        ValueError: the shapes do not match, or have fewer than two dimensions, or D is 0.
        RuntimeError: the devices differ.

    Cost: 2 E + 1 transforms.

    Source: Plate 1995, section VI; permutation of one end: Gayler, Levy, A distributed basis for analogical mapping,
    2009.
    """
    sources = _check_items("graph", "sources", sources, rank=2)
    targets = check_vectors("graph", "targets", targets, sources.shape[-1], sources.device, rank=2)
    check_broadcast("graph", "sources and targets", sources.shape[:-1], targets.shape[:-1])
    directed = check_bool("graph", "directed", directed)
    check_seed("graph", seed)
    return functional.bind_superpose(sources, functional.permute(targets, seed) if directed else targets)


def fractional_power_encoding(bases: Tensor, values: Tensor) -> Tensor:
    """Many numbers in one vector: ``bind_power(b_1, x_1) bind bind_power(b_2, x_2) bind ...``, one base a feature.

    In the spectrum the powers are sums, ``prod_f B_f^x_f = exp(sum_f x_f ln B_f)``: a product of the values with the
    logarithms of all bins, and one inverse transform. Phases are added in double: the error grows with the values only
    as that of the bases' own phases, about ``eps sqrt(sum_f x_f^2)``. Magnitudes far from 1 add
    ``eps abs(x_f ln abs(B_f))``. Similar numbers get similar vectors: for unitary bases with phases uniform in
    [-pi, pi) the cosine of two codes is about ``prod_f sinc(x_f - y_f)``.

    Draw bases with ``random(F, D, unitary=True)``: their codes are unitary, too. ``unitary(a)`` keeps the signs of the
    real bins of a; a negative one becomes cos(pi x), so that codes are no longer unitary and values no longer add up
    exactly. Magnitudes that are 1 up to rounding are raised to the values like all others: for values from about 1e6
    on, draw bases in float64. Gradients, and the form that a GPU takes, sum squares of magnitudes: in float32 this is
    right only for magnitudes from 1e-18 to 1e19 / sqrt(D).

    Args:
        bases: ``[F, D]``, F >= 1.
        values: ``[..., F]``.

    Returns:
        ``[..., D]``, in the promoted dtype: the same up to rounding as ``multibind`` of the ``bind_power`` of all
        features, real and empty bins too (there cos(pi x) for a negative bin, and 0^x: 1 for 0, else 0).

    Raises:
        TypeError: an argument is neither a tensor nor an array of a supported dtype.
        ValueError: `bases` is not ``[F, D]`` with F, D >= 1, or `values` has another last dimension.
        RuntimeError: the devices differ.

    Differentiable in both. A value that is not finite makes its row NaN. On the CPU a row's bits depend on its values
    and the bases alone. The bits of gradients, and of results on a GPU, may also depend on the batch, as in a matrix
    product. Under autocast everything is computed in the dtype of the arguments.

    Cost: F D multiplications in double and one transform a row; F logarithms of spectra.

    Source: Plate 1995, section VIII-A; Frady, Kleyko, Kymn, Olshausen, Sommer, Computing on functions using randomized
    vector representations, 2021.
    """
    op = "fractional_power_encoding"
    bases = _check_items(op, "bases", bases, rank=2)
    if bases.dim() != 2 or bases.shape[0] == 0:
        raise ValueError(f"{op}: bases must be [F, D] with F >= 1, got shape {list(bases.shape)}")
    values = check_vectors(op, "values", values, bases.shape[0], bases.device)
    dtype = torch.promote_types(bases.dtype, values.dtype)
    with full_precision(bases.device):
        spectra = _ops.spectrum.default(bases.to(compute_dtype(dtype)))
        return _ops.from_spectrum.default(_ops._power_product.default(spectra, values)).to(dtype)


def _check_items(op: str, argument: str, value: Tensor, rank: int = 1) -> Tensor:
    """As `check_vectors`; ValueError for D = 0 too."""
    items = check_vectors(op, argument, value, rank=rank)
    if items.shape[-1] == 0:
        raise ValueError(f"{op}: {argument} must have D >= 1, got shape {list(items.shape)}")
    return items
