"""Benchmark entries of the HRR operators: their torch forms, sizes and the ratios aimed at."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fft import fft, ifft, irfft, rfft

from bench import hrr_algebra, hrr_classifiers
from bench.entry import Entry, Inputs, Peer, rows_of, vectors
from bench.peers import is_here
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain

# (floor, aim) of the ratio best torch form / ours, by batch, at the three main dimensions.
BIND_NORMALIZE_AIMS = {1: (8.0, 10.0), 10: (3.0, 3.5), 100: (1.0, 1.8), 1000: (1.0, 2.0)}
MAIN_DIMENSIONS = (512, 1024, 4096)
OTHER_POWERS_OF_TWO = (256, 2048, 8192)
FOLDED_DIMENSIONS = (768, 1000)
COMPOSITE_DIMENSIONS = (*FOLDED_DIMENSIONS, 1536, 10000)


def bind_rfft(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    return irfft(rfft(a) * rfft(b), n=a.shape[-1], out=out)


def bind_fft(a: Tensor, b: Tensor) -> Tensor:
    """The form most HRR code uses."""
    return ifft(fft(a) * fft(b)).real


def unbind_rfft(bound: Tensor, role: Tensor, *, out: Tensor | None = None) -> Tensor:
    return irfft(rfft(bound) * rfft(role).conj(), n=bound.shape[-1], out=out)


def bind_normalize_rfft(a: Tensor, b: Tensor, *, out: Tensor | None = None) -> Tensor:
    return F.normalize(bind_rfft(a, b), dim=-1, out=out)


def superpose_matmul(vectors: Tensor, weights: Tensor, *, out: Tensor | None = None) -> Tensor:
    return F.normalize((weights.unsqueeze(-2) @ vectors).squeeze(-2), dim=-1, out=out)


def superpose_gemv(vectors: Tensor, weights: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Of a single set."""
    return F.normalize(weights @ vectors, dim=-1, out=out)


def bind_superpose_fold(a: Tensor, b: Tensor, weights: Tensor) -> Tensor:
    """The record as most code builds it, pair by pair."""
    record = weights[..., 0, None] * bind_rfft(a[..., 0, :], b[..., 0, :])
    for k in range(1, a.shape[-2]):
        record = record + weights[..., k, None] * bind_rfft(a[..., k, :], b[..., k, :])
    return record


def forward_backward(forward: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor, gradient: Tensor) -> Inputs:
    """Both gradients of forward(a, b)."""
    return torch.autograd.grad(forward(a, b), (a, b), gradient)


TORCH_FORMS: dict[str, tuple[Peer, ...]] = {
    "bind": (Peer("irfft(rfft*rfft)", bind_rfft, reuse=bind_rfft), Peer("ifft(fft*fft).real", bind_fft)),
    "unbind": (
        Peer("irfft(rfft*conj)", unbind_rfft, reuse=unbind_rfft),
        Peer("ifft(fft*conj).real", lambda bound, role: ifft(fft(bound) * fft(role).conj()).real),
    ),
    "bind_normalize": (
        Peer("normalize(irfft(rfft*rfft))", bind_normalize_rfft, reuse=bind_normalize_rfft),
        Peer("normalize(ifft(fft*fft).real)", lambda a, b: F.normalize(bind_fft(a, b), dim=-1)),
    ),
    "superpose": (
        Peer("normalize(w @ x)", superpose_matmul, reuse=superpose_matmul),
        Peer("normalize((w * x).sum)", lambda x, w: F.normalize((x * w.unsqueeze(-1)).sum(-2), dim=-1)),
    ),
    "bind_superpose": (
        Peer(
            "irfft(sum(w*rfft*rfft))",
            lambda a, b, w: irfft((rfft(a) * rfft(b) * w.unsqueeze(-1)).sum(-2), n=a.shape[-1]),
        ),
        Peer("w @ irfft(rfft*rfft)", lambda a, b, w: (w.unsqueeze(-2) @ bind_rfft(a, b)).squeeze(-2)),
        Peer("fold over the pairs", bind_superpose_fold),
    ),
}


def torchhd_peers(op: str) -> tuple[Peer, ...]:
    """The same in torchhd, its tensors made outside the timed region; empty where it is not installed."""
    if not is_here("torchhd"):
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


def peers(op: str, compiled: bool = True) -> tuple[Peer, ...]:
    """Every peer of an operator: eager forms, the first of them compiled, the reference compiled, torchhd."""
    compile_peers = (
        Peer("torch.compile", TORCH_FORMS[op][0].function, kind="compile"),
        Peer("torch.compile of the reference", getattr(plain, op), kind="compile"),
    )
    return (*TORCH_FORMS[op], *(compile_peers if compiled else ()), *torchhd_peers(op))


def weighted(*shape: int, count: int = 1) -> Callable[[int, torch.Generator], Inputs]:
    """`count` times `batch` HRR vectors or sets of them, and a weight for each vector."""

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        made = [vectors(batch, *shape, generator=generator) for _ in range(count)]
        return *made, torch.rand(made[0].shape[:-1], generator=generator)

    return inputs


def binding(op: str, batch: int, dim: int, floor: float | None = None, aim: float | None = None) -> Entry:
    """A row-wise operator of two vectors: 3 D floats a row."""
    ours = getattr(hrr, op)
    return Entry(
        op, f"{batch}x{dim}", batch, rows_of((dim,), (dim,)), ours, peers(op, dim in MAIN_DIMENSIONS),
        12 * dim * batch, floor, aim, reuse=ours,
    )  # fmt: skip


def superposition(count: int, dim: int, batch: int | None = None, aim: float | None = None) -> Entry:
    """`batch` sets of `count` vectors, or one set without a batch dimension."""
    shape, inputs, forms = f"{batch}x{count}x{dim}", weighted(count, dim), peers("superpose")
    if batch is None:
        shape, inputs = f"{count}x{dim}", weighted(dim)
        forms = (Peer("normalize(w @ x)", superpose_gemv, reuse=superpose_gemv), *forms[1:])
    return Entry(
        "superpose", shape, batch or count, inputs, hrr.superpose, forms,
        4 * (batch or 1) * ((count + 1) * dim + count), aim=aim, reuse=hrr.superpose,
    )  # fmt: skip


def record(batch: int, pairs: int, dim: int, aim: float | None = None) -> Entry:
    """`batch` records of `pairs` bound pairs."""
    return Entry(
        "bind_superpose", f"{batch}x{pairs}x{dim}", batch, weighted(pairs, dim, count=2), hrr.bind_superpose,
        peers("bind_superpose"), 4 * batch * ((2 * pairs + 1) * dim + pairs), aim=aim,
    )  # fmt: skip


def backward(batch: int, dim: int, aim: float | None = None) -> Entry:
    """bind_normalize forward and backward: reads a, b, writes c; reads a, b, gradient, writes two gradients."""
    return Entry(
        "bind_normalize backward", f"{batch}x{dim}", batch, rows_of((dim,), (dim,), (dim,), leaves=2),
        partial(forward_backward, hrr.bind_normalize),
        tuple(Peer(p.name, partial(forward_backward, p.function)) for p in TORCH_FORMS["bind_normalize"]),
        32 * dim * batch, aim=aim,
    )  # fmt: skip


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
    *hrr_classifiers.ENTRIES,
)
