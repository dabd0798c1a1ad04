"""Benchmark entries of the HRR operators: their torch forms, sizes and the ratios aimed at."""

import importlib.util
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fft import fft, ifft, irfft, rfft

from bench import hrr_algebra
from bench.entry import Entry, Inputs, Peer, vectors
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain

# (floor, aim) of the ratio best torch form / ours, by batch, at the three main dimensions.
BIND_NORMALIZE_AIMS = {1: (8.0, 10.0), 10: (3.0, 3.5), 100: (1.0, 1.8), 1000: (1.0, 2.0)}
MAIN_DIMENSIONS = (512, 1024, 4096)
OTHER_POWERS_OF_TWO = (256, 2048, 8192)
FOLDED_DIMENSIONS = (768, 1000)
COMPOSITE_DIMENSIONS = (*FOLDED_DIMENSIONS, 1536, 10000)


def bind_rfft(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The best torch form of bind: irfft(rfft(a) rfft(b))."""
    return irfft(rfft(a) * rfft(b), n=a.shape[-1], out=out)


def bind_fft(a: Tensor, b: Tensor) -> Tensor:
    """The form most HRR code uses: Re ifft(fft(a) fft(b))."""
    return ifft(fft(a) * fft(b)).real


def unbind_rfft(bound: Tensor, role: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The best torch form of unbind: irfft(rfft(c) conj rfft(r))."""
    return irfft(rfft(bound) * rfft(role).conj(), n=bound.shape[-1], out=out)


def unbind_fft(bound: Tensor, role: Tensor) -> Tensor:
    """Re ifft(fft(c) conj fft(r))."""
    return ifft(fft(bound) * fft(role).conj()).real


def bind_normalize_rfft(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """bind_rfft, then rows of norm 1."""
    return F.normalize(bind_rfft(a, b), dim=-1, out=out)


def bind_normalize_fft(a: Tensor, b: Tensor) -> Tensor:
    """bind_fft, then rows of norm 1."""
    return F.normalize(bind_fft(a, b), dim=-1)


def superpose_matmul(vectors: Tensor, weights: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A weighted sum over K as a matrix product, then norm 1."""
    return F.normalize((weights.unsqueeze(-2) @ vectors).squeeze(-2), dim=-1, out=out)


def superpose_gemv(vectors: Tensor, weights: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The same of one set: w @ x, then norm 1."""
    return F.normalize(weights @ vectors, dim=-1, out=out)


def superpose_sum(vectors: Tensor, weights: Tensor) -> Tensor:
    """A weighted sum over K through a K x D temporary, then norm 1."""
    return F.normalize((vectors * weights.unsqueeze(-1)).sum(-2), dim=-1)


def bind_superpose_spectra(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """irfft(sum_k w_k rfft(a_k) rfft(b_k)): 2 K + 1 transforms."""
    return irfft((rfft(a) * rfft(b) * weights.unsqueeze(-1)).sum(-2), n=a.shape[-1])


def bind_superpose_pairs(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """The bound pairs first, then w @ them: 3 K transforms."""
    return (weights.unsqueeze(-2) @ bind_rfft(a, b)).squeeze(-2)


def bind_superpose_fold(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """The record as most code builds it, pair by pair."""
    record = weights[..., 0, None] * bind_rfft(a[..., 0, :], b[..., 0, :])
    for k in range(1, a.shape[-2]):
        record = record + weights[..., k, None] * bind_rfft(a[..., k, :], b[..., k, :])
    return record


def forward_backward(forward: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, gradient: Tensor) -> Inputs:
    """Both gradients of forward(a, b)."""
    return torch.autograd.grad(forward(a, b), (a, b), gradient)


def torchhd_peers(op: str) -> tuple[Peer, ...]:
    """The same in torchhd, its tensors made outside the timed region; empty where it is not installed."""
    if importlib.util.find_spec("torchhd") is None:
        return ()
    import torchhd

    forms: dict[str, Callable[..., Tensor]] = {
        "bind": torchhd.bind,
        "unbind": lambda bound, role: torchhd.bind(bound, torchhd.inverse(role)),
        "bind_normalize": lambda a, b: F.normalize(torchhd.bind(a, b), dim=-1),
        "superpose": lambda x, w: F.normalize(torchhd.multiset(x * w.unsqueeze(-1)), dim=-1),
        "bind_superpose": lambda a, b, w: torchhd.multiset(torchhd.bind(a, b) * w.unsqueeze(-1)),
    }
    return (Peer("torchhd", forms[op], kind="library", prepare=lambda x: x.as_subclass(torchhd.HRRTensor)),)


def two_vectors(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` pairs (a, b)."""
    return vectors(batch, dim, generator=generator), vectors(batch, dim, generator=generator)


def two_leaves_and_gradient(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` pairs that require gradients, and the gradient of the result."""
    a, b = two_vectors(dim, batch, generator)
    return a.requires_grad_(), b.requires_grad_(), vectors(batch, dim, generator=generator)


def weighted_set(shape: tuple[int, ...], batch: int, generator: torch.Generator) -> Inputs:
    """`shape` is (D,) for one set of `batch` vectors, (K, D) for `batch` sets of K."""
    x = vectors(batch, *shape, generator=generator)
    return x, torch.rand(x.shape[:-1], generator=generator)


def weighted_pairs(shape: tuple[int, int], batch: int, generator: torch.Generator) -> Inputs:
    """`batch` records (a, b, weights) of shape (K, D)."""
    a, b = (vectors(batch, *shape, generator=generator) for _ in range(2))
    return a, b, torch.rand(a.shape[:-1], generator=generator)


TORCH_FORMS: dict[str, tuple[Peer, ...]] = {
    "bind": (Peer("irfft(rfft*rfft)", bind_rfft, reuse=bind_rfft), Peer("ifft(fft*fft).real", bind_fft)),
    "unbind": (Peer("irfft(rfft*conj)", unbind_rfft, reuse=unbind_rfft), Peer("ifft(fft*conj).real", unbind_fft)),
    "bind_normalize": (
        Peer("normalize(irfft(rfft*rfft))", bind_normalize_rfft, reuse=bind_normalize_rfft),
        Peer("normalize(ifft(fft*fft).real)", bind_normalize_fft),
    ),
    "superpose": (
        Peer("normalize(w @ x)", superpose_matmul, reuse=superpose_matmul),
        Peer("normalize((w * x).sum)", superpose_sum),
    ),
    "bind_superpose": (
        Peer("irfft(sum(w*rfft*rfft))", bind_superpose_spectra),
        Peer("w @ irfft(rfft*rfft)", bind_superpose_pairs),
        Peer("fold over the pairs", bind_superpose_fold),
    ),
}
OURS: dict[str, Callable[..., Tensor]] = {
    "bind": hrr.bind,
    "unbind": hrr.unbind,
    "bind_normalize": hrr.bind_normalize,
    "superpose": hrr.superpose,
    "bind_superpose": hrr.bind_superpose,
}


def peers(op: str, compiled: bool) -> tuple[Peer, ...]:
    """Every peer of an operator: eager forms, the first of them compiled, the reference compiled, torchhd."""
    compile_peers: tuple[Peer, ...] = ()
    if compiled:
        compile_peers = (
            Peer("torch.compile", TORCH_FORMS[op][0].function, kind="compile"),
            Peer("torch.compile of the reference", getattr(plain, op), kind="compile"),
        )
    return (*TORCH_FORMS[op], *compile_peers, *torchhd_peers(op))


def binding(op: str, batch: int, dim: int, floor: float | None = None, aim: float | None = None) -> Entry:
    """A row-wise operator of two vectors: 3 D floats a row."""
    return Entry(
        op=op,
        shape=f"{batch}x{dim}",
        batch=batch,
        inputs=partial(two_vectors, dim),
        ours=OURS[op],
        reuse=OURS[op],
        peers=peers(op, compiled=dim in MAIN_DIMENSIONS),
        traffic=12 * dim * batch,
        floor=floor,
        aim=aim,
    )


def superposition(count: int, dim: int, batch: int | None = None, aim: float | None = None) -> Entry:
    """`batch` sets of `count` vectors, or one set without a batch dimension."""
    forms = peers("superpose", compiled=True)
    if batch is None:
        forms = (Peer("normalize(w @ x)", superpose_gemv, reuse=superpose_gemv), *forms[1:])
    return Entry(
        op="superpose",
        shape=f"{count}x{dim}" if batch is None else f"{batch}x{count}x{dim}",
        batch=count if batch is None else batch,
        inputs=partial(weighted_set, (dim,) if batch is None else (count, dim)),
        ours=hrr.superpose,
        reuse=hrr.superpose,
        peers=forms,
        traffic=4 * (batch or 1) * ((count + 1) * dim + count),
        aim=aim,
    )


def record(batch: int, pairs: int, dim: int, aim: float | None = None) -> Entry:
    """`batch` records of `pairs` bound pairs."""
    return Entry(
        op="bind_superpose",
        shape=f"{batch}x{pairs}x{dim}",
        batch=batch,
        inputs=partial(weighted_pairs, (pairs, dim)),
        ours=hrr.bind_superpose,
        peers=peers("bind_superpose", compiled=True),
        traffic=4 * batch * ((2 * pairs + 1) * dim + pairs),
        aim=aim,
    )


def backward(batch: int, dim: int, aim: float | None = None) -> Entry:
    """bind_normalize forward and backward: reads a, b, writes c; reads a, b, gradient, writes two gradients."""
    return Entry(
        op="bind_normalize backward",
        shape=f"{batch}x{dim}",
        batch=batch,
        inputs=partial(two_leaves_and_gradient, dim),
        ours=partial(forward_backward, hrr.bind_normalize),
        peers=tuple(Peer(p.name, partial(forward_backward, p.function)) for p in TORCH_FORMS["bind_normalize"]),
        traffic=32 * dim * batch,
        aim=aim,
    )


ENTRIES: tuple[Entry, ...] = (
    *(binding("bind_normalize", n, d, *BIND_NORMALIZE_AIMS[n]) for d in MAIN_DIMENSIONS for n in BIND_NORMALIZE_AIMS),
    *(binding("bind_normalize", n, d, aim=1.0) for d in OTHER_POWERS_OF_TWO for n in BIND_NORMALIZE_AIMS),
    *(binding("bind_normalize", n, d, aim=0.95) for d in FOLDED_DIMENSIONS for n in BIND_NORMALIZE_AIMS),
    *(binding("bind", 100, d, aim=1.4) for d in MAIN_DIMENSIONS),
    *(binding("bind", 100, d, aim=1.0) for d in OTHER_POWERS_OF_TWO),
    *(binding("bind", n, d, aim=1.2) for d in COMPOSITE_DIMENSIONS for n in (100, 1000)),
    *(binding("unbind", 100, d, aim=1.0) for d in MAIN_DIMENSIONS),
    *(record(n, 64, 1024, aim=2.0) for n in (1, 10)),
    *(superposition(1000, d, aim=0.95) for d in MAIN_DIMENSIONS),
    superposition(64, 1024, batch=16),
    backward(100, 512, aim=1.5),
    *hrr_algebra.ENTRIES,
)
