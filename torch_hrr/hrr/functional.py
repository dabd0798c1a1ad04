"""The HRR operators as Python functions."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr._checks import (
    check_bool,
    check_elements,
    check_generator,
    check_out,
    check_seed,
    check_vectors,
    integer,
    optional_tensor,
    real,
    resolve_dtype,
    signed,
    tensor,
)
from torch_hrr._ops import ops as _ops
from torch_hrr.runtime import resolve_device

# The smallest normal number of the dtype that rows of a dtype are computed in.
_TINY = {
    dtype: torch.finfo(torch.promote_types(dtype, torch.float32)).tiny
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
}


def bind(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Circular convolution, ``c[n] = sum_m a[m] b[(n - m) mod D]``: the binding of two vectors.

    Differentiable in both arguments in every mode. Deterministic: a row's bits depend on that row, D, dtype and machine
    alone, not on the batch, its neighbours, threads or layout. On CUDA this is according to tests that run the kernels
    on the host, for lengths that do not go through cuFFT. A row that holds NaN or infinity gives a NaN row. O(D log D)
    for every D; one pass over memory for powers of two up to 8192 and for every D without prime factors above 13 (31 on
    the CPU up to D = 320); on CUDA as far as shared memory reaches, some 10^4 elements.

    Args:
        a: ``[..., D]``, real floating point, D >= 1.
        b: ``[..., D]``; leading dimensions broadcast with those of ``a``, dtypes promote, as in ``torch.mul``.
        out: optional result of the right shape and dtype that shares no memory with an argument; no gradient.

    Returns:
        ``[..., D]``, or ``out``.

    Raises:
        TypeError: an argument is neither a strided tensor nor a NumPy array of float32, float64, float16 or bfloat16,
            or ``out`` has another dtype.
        ValueError: shapes do not match, D is 0, or ``out`` has another shape.
        RuntimeError: devices differ, ``out`` shares memory with an argument or overlaps itself, or it would need a
            gradient.

    Source: Plate, Holographic reduced representations, IEEE Transactions on Neural Networks 6(3), 1995.
    """
    a = tensor("bind", "a", a)
    b = tensor("bind", "b", b)
    if out is None:
        return _ops.bind.default(a, b)
    check_out("bind", out)
    _ops.bind.out(a, b, out=out)
    return out


def unbind(bound: Tensor, role: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Circular correlation, ``c[n] = sum_m bound[(n + m) mod D] role[m]``: the approximate inverse of ``bind``.

    ``unbind(bind(a, b), b)`` is ``a`` plus noise for random vectors, and exactly ``a`` if every Fourier magnitude of
    ``b`` is 1. It is the derivative of ``bind``, and itself differentiable in every mode; shapes, dtypes, determinism,
    cost and errors as for ``bind``.

    Args:
        bound: ``[..., D]``.
        role: ``[..., D]``, broadcast against ``bound``.
        out: optional result, as for ``bind``.

    Returns:
        ``[..., D]``, or ``out``.

    Source: Plate 1995, section III.
    """
    bound = tensor("unbind", "bound", bound)
    role = tensor("unbind", "role", role)
    if out is None:
        return _ops.unbind.default(bound, role)
    check_out("unbind", out)
    _ops.unbind.out(bound, role, out=out)
    return out


def bind_normalize(a: Tensor, b: Tensor, eps: float = 1e-12, *, out: Tensor | None = None) -> Tensor:
    """``bind(a, b) / max(norm2(bind(a, b)), eps)`` in one pass over memory.

    The norm is taken on the product's spectrum, so it costs next to nothing. Rows whose squared norm leaves the range
    of the compute type are computed again from inputs scaled by exact powers of two, so neither overflow nor underflow
    spoils a result. Where the product is zero, its derivatives are taken as 0 (unless ``eps`` is 0). Shapes, dtypes,
    determinism and errors as for ``bind``.

    Args:
        a: ``[..., D]``.
        b: ``[..., D]``, broadcast against ``a``.
        eps: smallest divisor, >= 0.
        out: optional result, as for ``bind``.

    Returns:
        ``[..., D]`` of unit rows, or ``out``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    a = tensor("bind_normalize", "a", a)
    b = tensor("bind_normalize", "b", b)
    eps = real("bind_normalize", "eps", eps)
    if out is None:
        return _ops.bind_normalize.default(a, b, eps)
    check_out("bind_normalize", out)
    _ops.bind_normalize.out(a, b, eps, out=out)
    return out


def superpose(
    vectors: Tensor,
    weights: Tensor | None = None,
    normalize: bool = True,
    eps: float = 1e-12,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``sum_k weights[..., k] vectors[..., k, :]``, divided by ``max(norm2, eps)`` unless ``normalize`` is false.

    Beware of the other default: `bind_superpose` does not normalise unless told to.

    The order of summation is fixed (eight vectors at a time, in the order of K), unlike that of a matrix product, whose
    bits depend on the batch and the threads. Differentiable in vectors and weights, with derivatives of 0 at a sum of
    0. dtypes, determinism and errors as for ``bind``; K may be 0 (a zero row). Cost: one pass over ``vectors``.

    Args:
        vectors: ``[..., K, D]``.
        weights: ``[..., K]``, broadcast; None means all ones.
        normalize: whether to divide by the norm.
        eps: smallest divisor, >= 0.
        out: optional result ``[..., D]``, as for ``bind``.

    Returns:
        ``[..., D]``, or ``out``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    vectors = tensor("superpose", "vectors", vectors)
    weights = optional_tensor("superpose", "weights", weights)
    normalize = check_bool("superpose", "normalize", normalize)
    eps = real("superpose", "eps", eps)
    if out is None:
        return _ops.superpose.default(vectors, weights, normalize, eps)
    check_out("superpose", out)
    _ops.superpose.out(vectors, weights, normalize, eps, out=out)
    return out


def bind_superpose(
    a: Tensor, b: Tensor, weights: Tensor | None = None, normalize: bool = False, eps: float = 1e-12
) -> Tensor:
    """A whole record: ``sum_k weights[..., k] bind(a[..., k, :], b[..., k, :])``, normalised on request.

    Beware of the other default: `superpose` normalises unless told not to. A record stays a sum, to which more can be
    added.

    Accumulates spectra: 2 K + 1 transforms and no ``[K, D]`` temporary. Differentiable in all three tensors, with
    derivatives of 0 at a sum of 0. Leading dimensions and K broadcast, so roles ``[K, D]`` may meet fillers
    ``[B, K, D]``. dtypes, determinism and errors as for ``bind``; K may be 0 (a zero row).

    Args:
        a: ``[..., K, D]``.
        b: ``[..., K, D]``.
        weights: ``[..., K]``, broadcast; None means all ones.
        normalize: whether to divide by ``max(norm2, eps)``.
        eps: smallest divisor, >= 0.

    Returns:
        ``[..., D]``.

    Raises:
        ValueError: ``eps`` is negative or NaN.
    """
    a = tensor("bind_superpose", "a", a)
    b = tensor("bind_superpose", "b", b)
    weights = optional_tensor("bind_superpose", "weights", weights)
    normalize = check_bool("bind_superpose", "normalize", normalize)
    eps = real("bind_superpose", "eps", eps)
    return _ops.bind_superpose.default(a, b, weights, normalize, eps)


def multibind(vectors: Tensor) -> Tensor:
    """K vectors bound together, ``vectors[..., 0, :] bind vectors[..., 1, :] bind ...``.

    Equal to a fold of ``bind`` up to rounding errors, which grow with K, and faster: it takes K + 1 transforms. On the
    CPU its errors are smaller than those of the fold ("Accuracy" in docs/hrr.md). Differentiable in every mode. Shapes,
    dtypes, determinism and errors as for ``bind``.

    Args:
        vectors: ``[..., K, D]``; K = 0 gives the delta vector, the identity of ``bind``.

    Returns:
        ``[..., D]``.
    """
    vectors = tensor("multibind", "vectors", vectors)
    return _ops.multibind.default(vectors)


def inverse(a: Tensor, eps: float = 0.0) -> Tensor:
    """The inverse under ``bind``: ``conj(A) / max(abs(A)^2, eps)`` in the Fourier domain, 0 where a bin is empty.

    A bin is empty if ``abs(A_k) <= eps(dtype) sqrt(D) norm2(a)``, eps that of the compute type: it holds rounding
    errors. ``bind(inverse(a), a)`` is the delta vector if no bin is empty. Differentiable in every mode, with a zero
    derivative on empty bins; determinism and errors as for ``bind``.

    Bins are mapped in double. One pass over memory and two transforms where D has no prime factor above 13 (31 on the
    CPU up to D = 320): on the CPU up to 2^20, on CUDA as far as shared memory reaches, some 10^4 elements. Other rows
    go through Bluestein's algorithm, up to 2^19 elements on the CPU and, in double, 2731 on CUDA, and longer ones
    through torch's FFT in double. A transform in the compute type rounds bins to it, which an inverse magnifies: the
    error relative to the row is about ``eps(dtype) sqrt(D) norm2(a) / min abs(A_k)``, some 1e-6 for random float32 rows
    and more where a bin is almost empty. ``bind_power`` with a negative exponent and ``unitary`` share this.

    Args:
        a: ``[..., D]``.
        eps: regularisation of small bins, >= 0, in units of ``abs(A)^2``.

    Returns:
        ``[..., D]``.

    Raises:
        ValueError: ``eps`` is negative or NaN.

    Source: Plate 1995, section VIII-C (the exact inverse).
    """
    a = tensor("inverse", "a", a)
    eps = real("inverse", "eps", eps)
    return _ops.inverse.default(a, eps)


def involution(a: Tensor) -> Tensor:
    """The approximate inverse, ``a[(-n) mod D]``: binding with it is ``unbind`` up to rounding.

    Of a unitary vector it is the inverse, and twice it is the vector itself, bit for bit. ``torchhd.inverse`` and
    nengo_spa's ``~`` are this one; `inverse` is the exact one. Differentiable in every mode. NaN and infinity move with
    their element. Plain torch: in TorchScript write ``a.flip(-1).roll(1, -1)``. O(D).

    Args:
        a: ``[..., D]``, float32, float64, float16 or bfloat16, a tensor or a NumPy array.

    Returns:
        ``[..., D]``.

    Raises:
        TypeError: ``a`` is neither a tensor nor an array of such a dtype.
        ValueError: it has no dimensions, or D is 0.

    Source: Plate 1995, section III.
    """
    return _rows("involution", a).flip(-1).roll(1, -1)


def normalize(a: Tensor) -> Tensor:
    """``a / norm2(a)`` for every row; a zero row stays zero.

    A norm neither overflows nor underflows; one that is subnormal in the dtype computed in counts as its smallest
    normal number. Differentiable in every mode, with derivatives of 0 at a zero row. A row that holds NaN or infinity
    gives a NaN row. Determinism as for ``bind``; one pass over memory. Arguments and errors as for ``involution``.

    Args:
        a: ``[..., D]``.

    Returns:
        ``[..., D]``.
    """
    return unit_rows(_rows("normalize", a))


def unit_rows(a: Tensor) -> Tensor:
    """`normalize` without its checks, which take as long as a vector."""
    return _ops.superpose.default(a.unsqueeze(-2), None, True, _TINY[a.dtype])


def identity(dim: int, device: torch.device | str | int | None = None, dtype: torch.dtype | None = None) -> Tensor:
    """The delta vector ``[1, 0, ..., 0]``, the identity of ``bind``: a new tensor.

    Args:
        dim: D, >= 1.
        device: as for ``random``.
        dtype: as for ``random``.

    Returns:
        ``[dim]``.

    Raises:
        TypeError, ValueError, RuntimeError: as for ``random``.
    """
    dim = integer("identity", "dim", dim, 1)
    check_elements("identity", "the vector", (dim,))
    dtype, device = resolve_dtype("identity", dtype), resolve_device(device, op="identity")
    values = torch.zeros(dim, device=device, dtype=dtype)
    values[0] = 1
    return values


def bind_power(a: Tensor, exponent: Tensor | float) -> Tensor:
    """Fractional binding power: every Fourier bin raised to ``exponent``, ``abs(A)^e exp(i e angle(A))``.

    An integer exponent agrees with repeated ``bind``, a negative one inverts. The real bins (DC, and Nyquist for even
    D), where negative, give ``abs(A)^e cos(pi e)``; an empty bin (see ``inverse``) gives 0, and with exponent 0, as in
    ``torch.pow``, 1: power 0 of any row is the identity of ``bind``. Cost as for ``inverse``.
    Differentiable in both arguments in every mode, with zero derivatives on empty bins and the one-sided derivative of
    the principal branch on the cut. Determinism as for ``bind``.

    Args:
        a: ``[..., D]``.
        exponent: a finite number, or a floating-point tensor ``[...]`` broadcast with the leading dimensions of ``a``.
            A tensor without dimensions may stay on the CPU and takes no part in type promotion.

    Returns:
        ``[..., D]``.

    Raises:
        ValueError: ``exponent`` is a number that is not finite.

    Source: Plate 1995, section VIII-A; Komer, Biologically inspired spatial representation, 2020.
    """
    a = tensor("bind_power", "a", a)
    # Of a number that torch.compile holds no shape can be asked.
    plain = isinstance(exponent, float | int)
    if isinstance(exponent, Tensor) or (not plain and getattr(exponent, "shape", None)):
        return _ops.bind_power.Tensor(a, tensor("bind_power", "exponent", exponent))
    return _ops.bind_power.default(a, real("bind_power", "exponent", exponent))


def unitary(a: Tensor) -> Tensor:
    """The nearest unitary vector: every Fourier magnitude becomes 1, ``A / abs(A)``, and an empty bin becomes 1.

    A unitary vector keeps norms under ``bind``, and ``unbind`` inverts it exactly. Differentiable in every mode, with a
    zero derivative on empty bins (see ``inverse``). Determinism and errors as for ``bind``, cost as for ``inverse``.

    Args:
        a: ``[..., D]``.

    Returns:
        ``[..., D]``.

    Source: Plate 1995, section VIII-C.
    """
    a = tensor("unitary", "a", a)
    return _ops.unitary.default(a)


def spectrum(a: Tensor) -> Tensor:
    """The Fourier transform of real rows, ``A_k = sum_n a[n] exp(-2 pi i n k / D)``, packed into D real numbers.

    The order is ``A_0, Re A_1, Im A_1, Re A_2, Im A_2, ...`` and, for even D, ``A_{D/2}`` last; A_0 and A_{D/2} are
    real, and the bins beyond D/2 are conjugates of these. Codebooks and roles that are bound again and again need only
    be transformed once: ``bind_spectrum`` and ``unbind_spectrum`` take the spectra. In the half types a spectrum is
    rounded once more than its row.

    Differentiable in every mode. Shapes, dtypes, determinism and errors as for ``bind``. One transform in one pass over
    memory, by the methods that ``inverse`` names for each length.

    Args:
        a: ``[..., D]``.

    Returns:
        ``[..., D]``, in the dtype of ``a``.

    Source: the order is FFTPACK's (Swarztrauber 1982), as in ``scipy.fftpack.rfft``.
    """
    a = tensor("spectrum", "a", a)
    return _ops.spectrum.default(a)


def from_spectrum(spectrum: Tensor) -> Tensor:
    """The row of a packed spectrum: ``from_spectrum(spectrum(a))`` is ``a`` up to rounding.

    ``a[n] = (A_0 + 2 sum_k Re(A_k exp(2 pi i n k / D)) + (-1)^n A_{D/2}) / D`` over 0 < k < D/2, the last term only for
    even D. Differentiable in every mode; everything else as for ``spectrum``.

    Args:
        spectrum: ``[..., D]``, in the order of ``spectrum``.

    Returns:
        ``[..., D]``.
    """
    spectrum = tensor("from_spectrum", "spectrum", spectrum)
    return _ops.from_spectrum.default(spectrum)


def from_phases(phases: Tensor) -> Tensor:
    """The vector of D angles, as vectors of phases ("FHRR") are: its Fourier bins are ``exp(i phases)``.

    A real, unitary vector of 2 D + 2 elements, since DC and Nyquist are 1 and hold no angle:
    ``from_spectrum([1, cos p_1, sin p_1, ..., cos p_D, sin p_D, 1])``. ``bind`` adds the angles, ``unbind`` and
    ``involution`` subtract and negate them, exactly but for rounding (4e-16 in float64); the cosine of two such vectors
    is ``(D m + 1) / (D + 1)``, m the mean of ``cos(p - q)``, the similarity of vectors of phases. A sum of vectors
    keeps the magnitudes that a bundle of phases drops; ``unitary`` of it is the vector of that bundle.

    Angles are taken modulo 2 pi. Differentiable in every mode. Dtypes, determinism and errors as for ``from_spectrum``,
    whose cost this is.

    Args:
        phases: ``[..., D]`` in radians, D >= 1.

    Returns:
        ``[..., 2 D + 2]``.
    """
    phases = _rows("from_phases", phases, "phases")
    return from_bins(phases.cos(), phases.sin())


def from_bins(real: Tensor, imaginary: Tensor, even: bool = True) -> Tensor:
    """The rows whose bins from 1 on are these and whose DC is 1, as is, where their number is even, Nyquist."""
    # Not like the first bin: there may be none.
    ones = real.new_ones(*real.shape[:-1], 1)
    bins = torch.stack([real, imaginary], -1).flatten(-2)
    return _ops.from_spectrum.default(torch.cat([ones, bins, *([ones] if even else [])], -1))


def to_phases(vector: Tensor) -> Tensor:
    """The angles of a vector's Fourier bins 1 to D, in [-pi, pi]: ``to_phases(from_phases(p))`` is p modulo 2 pi.

    Of a sum of such vectors they are the circular mean, weighted by the magnitudes. A bin of 0 has the angle 0, and a
    derivative of 0. Differentiable; dtypes, determinism, errors and cost as for ``spectrum``.

    Args:
        vector: ``[..., 2 D + 2]``, as of ``from_phases``: any vector of an even number of elements from 4 on.

    Returns:
        ``[..., D]`` in radians.

    Raises:
        ValueError: the number of elements is odd or below 4.
    """
    vector = _rows("to_phases", vector, "vector")
    if vector.shape[-1] % 2 or vector.shape[-1] < 4:
        raise ValueError(f"to_phases: vector must have 2 D + 2 elements, D >= 1, got shape {list(vector.shape)}")
    real, imaginary = _ops.spectrum.default(vector)[..., 1:-1].unflatten(-1, (-1, 2)).unbind(-1)
    empty = (real == 0) & (imaginary == 0)
    return torch.atan2(imaginary.masked_fill(empty, 0), real.masked_fill(empty, 1))


def bind_spectrum(a: Tensor, spectrum: Tensor) -> Tensor:
    """``bind(a, from_spectrum(spectrum))``: binding with a vector that is kept transformed.

    Two transforms per row instead of ``bind``'s three where D is above 16 and has no prime factor above 13, but for 22
    and 26; elsewhere it is that composition, and ``bind`` with the vector itself is faster. (Within one call
    ``bind`` too transforms an operand that neighbouring rows share once, on the CPU.) Differentiable in both arguments
    in every mode. Broadcasting, dtypes, determinism and errors as for ``bind``.

    Args:
        a: ``[..., D]``.
        spectrum: ``[..., D]`` from ``spectrum``, broadcast against ``a``.

    Returns:
        ``[..., D]``.
    """
    a = tensor("bind_spectrum", "a", a)
    spectrum = tensor("bind_spectrum", "spectrum", spectrum)
    return _ops.bind_spectrum.default(a, spectrum)


def unbind_spectrum(bound: Tensor, spectrum: Tensor) -> Tensor:
    """``unbind(bound, from_spectrum(spectrum))``: unbinding a role that is kept transformed.

    Everything else as for ``bind_spectrum``.

    Args:
        bound: ``[..., D]``.
        spectrum: ``[..., D]`` of the role, broadcast against ``bound``.

    Returns:
        ``[..., D]``.
    """
    bound = tensor("unbind_spectrum", "bound", bound)
    spectrum = tensor("unbind_spectrum", "spectrum", spectrum)
    return _ops.unbind_spectrum.default(bound, spectrum)


def permute(a: Tensor, seed: int, power: int = 1) -> Tensor:
    """``a[..., pi^power(n)]`` with a random permutation ``pi`` of D elements that depends on ``seed`` alone.

    Marks order: unlike a cyclic shift, a random permutation does not commute with circular convolution. Powers add, and
    ``permute(permute(a, seed), seed, -1)`` is ``a`` bit for bit. The same permutation on every device and in every
    release: Fisher and Yates driven by Philox4x32-10. Differentiable in every mode. NaN and infinity move with their
    element. The first call with a seed, power and D copies a table to the GPU and must not be captured in a graph.

    Args:
        a: ``[..., D]``.
        seed: any int, taken modulo 2^64.
        power: how often to apply it; negative powers apply the inverse, 0 copies.

    Returns:
        ``[..., D]``.

    Raises:
        TypeError: ``seed`` or ``power`` is not an int.
        ValueError: ``power`` is not between -2^63 and 2^63, both excluded.

    Source: Sahlgren, Holst and Kanerva, Permutations as a means to encode order in word space, 2008.
    """
    a = tensor("permute", "a", a)
    seed = check_seed("permute", seed)
    power = signed("permute", "power", power)
    return _ops.permute.default(a, seed, power)


def random(
    n: int,
    dim: int,
    generator: torch.Generator | None = None,
    unitary: bool = False,
    device: torch.device | str | int | None = None,
    dtype: torch.dtype | None = None,
    *,
    normalized: bool = False,
) -> Tensor:
    """Random vectors: elements from N(0, 1/dim), or unitary ones, whose Fourier magnitudes are all 1.

    Drawn on the CPU and moved, so that a generator gives the same vectors on every device. A unitary vector has unit
    norm, DC = +1, and (for even ``dim``) Nyquist = +1; the other phases are uniform. ``unbind`` inverts it exactly.

    Args:
        n: number of vectors, >= 0.
        dim: their dimension, >= 1.
        generator: a CPU generator; None draws from torch's default one.
        unitary: whether to draw unitary vectors.
        device: device of the result; None means ``runtime.get_device()``, else as for ``runtime.resolve_device``. Give
            it within ``torch.compile(fullgraph=True)``: no graph can look up the current device.
        dtype: dtype of the result; None means torch's default dtype.
        normalized: whether to divide each vector by its norm, about 1 give or take 1/sqrt(2 dim), before it is rounded
            to the dtype: torchhd's and nengo_spa's random vectors are such. Unitary ones are so by themselves.

    Returns:
        ``[n, dim]``.

    Raises:
        TypeError: an argument of another type, or ``dtype`` is not float32, float64, float16 or bfloat16.
        ValueError: ``n`` is negative, ``dim`` is less than 1, ``n dim`` is not below 2^59, the generator is not a CPU
            generator, or torch does not know the device.
        RuntimeError: torch cannot use the device.
    """
    n = integer("random", "n", n, 0)
    dim = integer("random", "dim", dim, 1)
    check_elements("random", "the vectors", (n, dim))
    check_generator("random", generator)
    unitary = check_bool("random", "unitary", unitary)
    normalized = check_bool("random", "normalized", normalized)
    dtype, device = resolve_dtype("random", dtype), resolve_device(device, op="random")
    if unitary:
        phases = torch.rand(n, dim // 2 + 1, generator=generator, dtype=torch.float64, device="cpu") * (2 * torch.pi)
        phases[:, 0] = 0
        if dim % 2 == 0:
            phases[:, -1] = 0
        values: Tensor = torch.fft.irfft(torch.polar(torch.ones_like(phases), phases), n=dim)
    else:
        values = torch.randn(n, dim, generator=generator, dtype=torch.float64, device="cpu") / dim**0.5
        values = normalize(values) if normalized else values
    return values.to(device=device, dtype=dtype)


def _rows(op: str, value: Tensor, argument: str = "a") -> Tensor:
    a = check_vectors(op, argument, value)
    if a.shape[-1] == 0:
        raise ValueError(f"{op}: {argument} must have D >= 1, got shape {list(a.shape)}")
    return a
