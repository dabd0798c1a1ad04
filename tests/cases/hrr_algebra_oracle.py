"""inverse, unitary, bind_power, multibind and permute by their definitions, in differentiable ATen operators.

A spectrum is a pair (re, im) of the bins 0 .. D/2, made with matrices of cosines and sines in float64; nothing is
shared with the library and no FFT is used. A bin counts as empty below 1e-9 of the row's norm: samples have no bin
between rounding and that, so one threshold serves every dtype. Norms assume rows in float64's range.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from cases import hrr_oracle

Spectrum = tuple[Tensor, Tensor]

EMPTY = 1e-9
# Up to here the matrix is made whole; of longer rows the sum is taken over blocks of so many elements.
LONGEST_MATRIX, BLOCK = 1024, 64


@functools.lru_cache(maxsize=4)
def tables(dim: int) -> Spectrum:
    """cos and sin of 2 pi m / D; sin is exactly 0 at the real bins, DC and Nyquist."""
    # Made below torch.func, whose tensors must not outlive the transform in which they are made.
    with torch._C._DisableFuncTorch():
        angles = torch.arange(dim, dtype=torch.float64) * (2 * torch.pi / dim)
        sines = angles.sin()
        sines[[0, *([dim // 2] if dim % 2 == 0 else [])]] = 0
        return angles.cos(), sines


@functools.lru_cache(maxsize=32)
def waves(dim: int, first: int, stop: int, step: int) -> Spectrum:
    """cos and sin of 2 pi n k / D at [n, k], n = first, first + step, ... below stop."""
    # As above.
    with torch._C._DisableFuncTorch():
        index = torch.arange(first, stop, step).unsqueeze(-1) * torch.arange(dim // 2 + 1) % dim
        cosines, sines = tables(dim)
        return cosines[index], sines[index]


def blocks_of_waves(dim: int) -> tuple[Spectrum, Spectrum]:
    """The waves within a block of elements and those of the blocks' first elements; n is the sum of the two."""
    return waves(dim, 0, BLOCK, 1), waves(dim, 0, dim, BLOCK)


def spectrum(row: Tensor) -> Spectrum:
    """A_k = sum_n a[n] e^{-2 pi i n k / D}."""
    dim = row.shape[-1]
    if dim <= LONGEST_MATRIX:
        cosines, sines = waves(dim, 0, dim, 1)
        return row @ cosines, -(row @ sines)
    inner, outer = blocks_of_waves(dim)
    blocks = torch.nn.functional.pad(row, (0, -dim % BLOCK)).unflatten(-1, (-1, BLOCK))
    re, im = multiply((blocks @ inner[0], blocks @ inner[1]), outer)
    return re.sum(-2), -im.sum(-2)


def bin_weights(dim: int) -> Tensor:
    """Every bin stands for two of the D bins but the real ones for themselves."""
    weights = torch.full((dim // 2 + 1,), 2.0, dtype=torch.float64)
    weights[0] = 1
    if dim % 2 == 0:
        weights[-1] = 1
    return weights


def row_of(bins: Spectrum, dim: int) -> Tensor:
    """a[n] = sum over all D bins of A_k e^{2 pi i n k / D} / D."""
    re, im = (part * (bin_weights(dim) / dim) for part in bins)
    if dim <= LONGEST_MATRIX:
        cosines, sines = waves(dim, 0, dim, 1)
        return re @ cosines.T - im @ sines.T
    inner, outer = blocks_of_waves(dim)
    re, im = multiply((re.unsqueeze(-2), im.unsqueeze(-2)), outer)
    return (re @ inner[0].T - im @ inner[1].T).flatten(-2)[..., :dim]


def multiply(x: Spectrum, y: Spectrum) -> Spectrum:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def conjugate(x: Spectrum) -> Spectrum:
    return x[0], -x[1]


def scaled(x: Spectrum, factor: Tensor | float) -> Spectrum:
    return x[0] * factor, x[1] * factor


def select(where: Tensor, x: Spectrum, y: Spectrum) -> Spectrum:
    return torch.where(where, x[0], y[0]), torch.where(where, x[1], y[1])


def nothing(x: Spectrum) -> Spectrum:
    return torch.zeros_like(x[0]), torch.zeros_like(x[1])


def power_of(x: Spectrum) -> Tensor:
    return x[0].square() + x[1].square()


def filled(a: Tensor) -> tuple[Spectrum, Tensor]:
    """The bins of a row with 1 where they are empty, and where that is."""
    bins = spectrum(a)
    empty = power_of(bins) <= (EMPTY * hrr_oracle.norm(a)).square()
    return select(empty, (torch.ones_like(bins[0]), torch.zeros_like(bins[1])), bins), empty


def finish(empty: Tensor, bins: Spectrum, dim: int) -> Tensor:
    """The row, with 0 in the empty bins."""
    return row_of(select(empty, nothing(bins), bins), dim)


def inverse(a: Tensor, eps: float) -> Tensor:
    """conj(A) / max(|A|^2, eps), 0 where empty."""
    bins, empty = filled(a)
    return finish(empty, scaled(conjugate(bins), 1 / power_of(bins).clamp_min(eps)), a.shape[-1])


def cut_inverse(a: Tensor, eps: float) -> Tensor:
    """1 / A where |A|^2 > eps, else 0."""
    bins, empty = filled(a)
    size = power_of(bins)
    return finish(empty | (size <= eps), scaled(conjugate(bins), 1 / size), a.shape[-1])


def unitary(a: Tensor) -> Tensor:
    """A / |A|, 1 where empty."""
    bins, _ = filled(a)
    return row_of(scaled(bins, power_of(bins).rsqrt()), a.shape[-1])


def beside_rows(exponent: Tensor | float) -> Tensor | float:
    return exponent.unsqueeze(-1) if isinstance(exponent, Tensor) else exponent


def logarithm(bins: Spectrum) -> Spectrum:
    """ln A = ln |A| + i angle, of the principal branch."""
    return power_of(bins).log() / 2, torch.atan2(bins[1], bins[0])


def power(bins: Spectrum, exponent: Tensor | float, order: int = 0) -> Spectrum:
    """A^e (ln A)^order = e^{e ln A} (ln A)^order."""
    ln = logarithm(bins)
    size = (ln[0] * exponent).exp()
    result = size * (ln[1] * exponent).cos(), size * (ln[1] * exponent).sin()
    for _ in range(order):
        result = multiply(result, ln)
    return result


def bind_power_log(a: Tensor, exponent: Tensor | float, order: int) -> Tensor:
    """A^e (ln A)^order, 0 where empty; its real part at the real bins."""
    bins, empty = filled(a)
    return finish(empty, power(bins, beside_rows(exponent), order), a.shape[-1])


def bind_power(a: Tensor, exponent: Tensor | float) -> Tensor:
    """A^e, 0^e where empty: 1 for e = 0, else 0."""
    bins, empty = filled(a)
    size, zero = power(bins, beside_rows(exponent), 0)
    of_empty = torch.as_tensor(beside_rows(exponent) == 0, dtype=size.dtype)
    return row_of(select(empty, (of_empty.expand_as(size), torch.zeros_like(zero)), (size, zero)), a.shape[-1])


def inverse_backward(grad: Tensor, a: Tensor, eps: float) -> Tensor:
    """-conj(1 / A^2) V, and conj(V) / eps on the bins that eps clamps."""
    bins, empty = filled(a)
    v = spectrum(grad)
    reciprocal = scaled(bins, 1 / power_of(bins))
    regular = scaled(multiply(multiply(reciprocal, reciprocal), v), -1)
    if eps == 0:
        return finish(empty, regular, a.shape[-1])
    return finish(empty, select(power_of(bins) <= eps, scaled(conjugate(v), 1 / eps), regular), a.shape[-1])


def unitary_jacobian(v: Tensor, a: Tensor) -> Tensor:
    """y = A / |A| turns by Im(V conj(y)) / |A|: i y times that."""
    bins, empty = filled(a)
    size = power_of(bins).rsqrt()
    y = scaled(bins, size)
    turn = multiply(spectrum(v), conjugate(y))[1] * size
    return finish(empty, (-y[1] * turn, y[0] * turn), a.shape[-1])


def bind_power_backward(grad: Tensor, a: Tensor, exponent: Tensor) -> Tensor:
    """conj(e A^(e - 1)) V."""
    bins, empty = filled(a)
    e = beside_rows(exponent)
    slope = scaled(power(bins, e - 1), e)
    return finish(empty, multiply(conjugate(slope), spectrum(grad)), a.shape[-1])


def multibind(vectors: Tensor) -> Tensor:
    """The fold of circular convolutions; of no vectors, the delta."""
    dim = vectors.shape[-1]
    items = vectors.unbind(-2)
    if not items:
        return torch.eye(1, dim, dtype=vectors.dtype)[0].expand(*vectors.shape[:-2], dim).clone()
    return functools.reduce(hrr_oracle.convolve, items)


def multibind_backward(grad: Tensor, vectors: Tensor) -> Tensor:
    """For every k the gradient correlated with the product of the other vectors."""
    batch = torch.broadcast_shapes(grad.shape[:-1], vectors.shape[:-2])
    vectors = vectors.expand(*batch, *vectors.shape[-2:])
    items = vectors.unbind(-2)
    if not items:
        return vectors + grad.unsqueeze(-2)
    others = [multibind(torch.stack([*items[:k], *items[k + 1 :]], -2)) for k in range(len(items)) if len(items) > 1]
    rows = [hrr_oracle.correlate(grad, each) for each in others]
    return torch.stack(rows, -2) if rows else grad.unsqueeze(-2) + 0 * vectors


# Scales of errors. Rounding of a row's transform moves its bins by a white error proportional to norm2(a), the rms of
# |A|; so each bin of a result is uncertain by its own size and by norm2(a) times its slope, and a row by the norm of
# those. Empty bins are exact.


def row_scale(sizes: Tensor, dim: int) -> Tensor:
    """sqrt(sum over all D bins of size^2 / D): the norm of a row with such bins."""
    return (sizes.square() * (bin_weights(dim) / dim)).sum(-1, keepdim=True).sqrt()


def relative_error(a: Tensor, bins: Spectrum) -> Tensor:
    """norm2(a) / |A|"""
    return hrr_oracle.norm(a) * power_of(bins).rsqrt()


def directed_scale(v: Tensor, gain: Tensor, slope: Tensor, empty: Tensor) -> Tensor:
    """Of bins gain V whose gain has the relative error `slope`."""
    sizes = gain * (hrr_oracle.norm(v) + power_of(spectrum(v)).sqrt() * (1 + slope))
    return row_scale(torch.where(empty, torch.zeros_like(sizes), sizes), v.shape[-1])


def multibind_scale(vectors: Tensor) -> Tensor:
    """norm2 of the product times sqrt(K - 1): the errors of as many products are independent"""
    return hrr_oracle.norm(multibind(vectors)) * max(vectors.shape[-2] - 1, 1) ** 0.5


def multibind_backward_scale(grad: Tensor, vectors: Tensor) -> Tensor:
    """The same of every row of the gradient"""
    return hrr_oracle.norm(multibind_backward(grad, vectors)) * max(vectors.shape[-2] - 1, 1) ** 0.5


def inverse_scale(a: Tensor, eps: float) -> Tensor:
    """|A| / max(|A|^2, eps) (1 + norm2(a) / |A|)"""
    bins, empty = filled(a)
    sizes = power_of(bins).sqrt() / power_of(bins).clamp_min(eps) * (1 + relative_error(a, bins))
    return row_scale(torch.where(empty, torch.zeros_like(sizes), sizes), a.shape[-1])


def cut_inverse_scale(a: Tensor, eps: float) -> Tensor:
    """1 / |A| (1 + norm2(a) / |A|) on the bins that are kept"""
    bins, empty = filled(a)
    sizes = power_of(bins).rsqrt() * (1 + relative_error(a, bins))
    return row_scale(torch.where(empty | (power_of(bins) <= eps), torch.zeros_like(sizes), sizes), a.shape[-1])


def unitary_scale(a: Tensor) -> Tensor:
    """1 + norm2(a) / |A|, and 1 where empty"""
    bins, empty = filled(a)
    sizes = 1 + relative_error(a, bins)
    return row_scale(torch.where(empty, torch.ones_like(sizes), sizes), a.shape[-1])


def bind_power_scale(a: Tensor, exponent: Tensor | float, order: int = 0) -> Tensor:
    """|A^e L^o| + norm2(a) (|e A^(e-1) L^o| + o |A^(e-1) L^(o-1)|) with L = ln A"""
    bins, empty = filled(a)
    e = torch.as_tensor(beside_rows(exponent), dtype=torch.float64)
    ln = power_of(logarithm(bins)).sqrt()
    slope = e.abs() * ln**order + (order * ln ** (order - 1) if order else 0)
    sizes = power_of(bins) ** (e / 2) * (ln**order + slope * relative_error(a, bins))
    return row_scale(torch.where(empty, torch.zeros_like(sizes), sizes), a.shape[-1])


def power_product_scale(vectors: Tensor, exponents: Tensor) -> Tensor:
    """prod |A^e|, uncertain by norm2(a) |e| / |A| through every factor"""
    bins, empty = filled(vectors)
    e = beside_rows(exponents)
    uncertain = 1 + (e.abs() * relative_error(vectors, bins)).sum(-2)
    sizes = (power_of(bins) ** (e / 2)).prod(-2) * uncertain
    is_empty = (empty & (e != 0)).any(-2)
    return row_scale(torch.where(is_empty, torch.zeros_like(sizes), sizes), vectors.shape[-1])


def inverse_backward_scale(grad: Tensor, a: Tensor, eps: float) -> Tensor:
    """|V| / max(|A|^2, eps), its first factor uncertain by norm2(grad), its second by 2 norm2(a) / |A|"""
    bins, empty = filled(a)
    return directed_scale(grad, 1 / power_of(bins).clamp_min(eps), 2 * relative_error(a, bins), empty)


def unitary_jacobian_scale(v: Tensor, a: Tensor) -> Tensor:
    """|V| / |A|, uncertain by norm2(v) and, through y twice and |A| once, by 3 norm2(a) / |A|"""
    bins, empty = filled(a)
    return directed_scale(v, power_of(bins).rsqrt(), 3 * relative_error(a, bins), empty)


def bind_power_backward_scale(grad: Tensor, a: Tensor, exponent: Tensor) -> Tensor:
    """|e A^(e-1) V|, uncertain by norm2(grad) and (|e - 1|) norm2(a) / |A|"""
    bins, empty = filled(a)
    e = beside_rows(exponent)
    gain = e.abs() * power_of(bins) ** ((e - 1) / 2)
    return directed_scale(grad, gain, (e - 1).abs() * relative_error(a, bins), empty)


PERMUTATION_STREAM = 0x7065726D
WORD = 2**32 - 1


def philox(index: int, stream: int, key: int) -> int:
    """Words 0 (low) and 1 of Philox4x32-10 at the counter (index, stream), as one integer."""
    counter = [index & WORD, index >> 32, stream & WORD, stream >> 32]
    low, high = key & WORD, key >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [second >> 32 ^ counter[1] ^ low, second & WORD, first >> 32 ^ counter[3] ^ high, first & WORD]
        low, high = low + 0x9E3779B9 & WORD, high + 0xBB67AE85 & WORD
    return counter[1] << 32 | counter[0]


@functools.lru_cache(maxsize=256)
def permutation(dim: int, seed: int) -> tuple[int, ...]:
    """Fisher and Yates from the last element down: i changes places with floor((i + 1) random / 2^64)."""
    table = list(range(dim))
    for i in range(dim - 1, 0, -1):
        j = (i + 1) * philox(i, PERMUTATION_STREAM, seed % 2**64) >> 64
        table[i], table[j] = table[j], table[i]
    return tuple(table)


def permutation_power(table: tuple[int, ...], power: int) -> tuple[int, ...]:
    """By squaring; a negative power is one of the inverse."""
    if power < 0:
        table = tuple(sorted(range(len(table)), key=table.__getitem__))
    result, power = tuple(range(len(table))), abs(power)
    while power:
        if power % 2:
            result = tuple(table[n] for n in result)
        table, power = tuple(table[n] for n in table), power // 2
    return result


def permute(a: Tensor, seed: int, power: int) -> Tensor:
    """a[pi^power(n)]"""
    return a[..., list(permutation_power(permutation(a.shape[-1], seed), power))]
