"""Benchmark entries of the HRR algebra beyond binding, and of the memories built on it."""

import functools
import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.fft import irfft, rfft

from bench.entry import Entry, Inputs, Peer, vectors
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain


def multibind_fold(x: Tensor) -> Tensor:
    """The product as most code builds it, factor by factor."""
    product = x[..., 0, :]
    for k in range(1, x.shape[-2]):
        product = irfft(rfft(product) * rfft(x[..., k, :]), n=x.shape[-1])
    return product


def multibind_spectra(x: Tensor) -> Tensor:
    """irfft(prod_k rfft(x_k)): K + 1 transforms."""
    return irfft(rfft(x).prod(-2), n=x.shape[-1])


def first_gradient(forward: Callable[..., Tensor], x: Tensor, *others: Tensor) -> Tensor:
    """Forward and backward: the gradient of the first argument; the result's is the last of the others."""
    return torch.autograd.grad(forward(x, *others[:-1]), x, others[-1])[0]


def inverse_rfft(a: Tensor) -> Tensor:
    """irfft(conj A / |A|^2), without care for empty bins."""
    spectrum = rfft(a)
    return irfft(spectrum.conj() / (spectrum.real.square() + spectrum.imag.square()), n=a.shape[-1])


def unitary_rfft(a: Tensor) -> Tensor:
    """irfft(A / |A|), without care for empty bins."""
    spectrum = rfft(a)
    return irfft(spectrum / spectrum.abs(), n=a.shape[-1])


def bind_power_rfft(a: Tensor, exponent: Tensor) -> Tensor:
    """irfft(|A|^e exp(i e angle A)), without care for real or empty bins."""
    spectrum, e = rfft(a), exponent.unsqueeze(-1)
    return irfft(torch.polar(spectrum.abs().pow(e), spectrum.angle() * e), n=a.shape[-1])


def bind_spectrum_ours(a: Tensor, packed: Tensor, spectrum: Tensor) -> Tensor:
    """Binding with the packed spectrum."""
    return hrr.bind_spectrum(a, packed)


def bind_spectrum_rfft(a: Tensor, packed: Tensor, spectrum: Tensor) -> Tensor:
    """irfft(rfft(a) B) with the complex spectrum."""
    return irfft(rfft(a) * spectrum, n=a.shape[-1])


def unbind_spectrum_ours(bound: Tensor, packed: Tensor, spectrum: Tensor) -> Tensor:
    """Unbinding with the packed spectrum."""
    return hrr.unbind_spectrum(bound, packed)


def unbind_spectrum_rfft(bound: Tensor, packed: Tensor, spectrum: Tensor) -> Tensor:
    """irfft(rfft(bound) conj B) with the complex spectrum."""
    return irfft(rfft(bound) * spectrum.conj(), n=bound.shape[-1])


def permute_gather(a: Tensor, table: Tensor) -> Tensor:
    """The permutation as an index."""
    return a[..., table]


def features(count: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """Values of `count` features, and unitary bases whose real bins are 1: of others, torch's form is no product."""
    phases = (2 * torch.rand(count, dim // 2 + 1, generator=generator) - 1) * torch.pi
    phases[:, [0, -1]] = 0
    return torch.randn(batch, count, generator=generator), irfft(torch.polar(torch.ones_like(phases), phases), n=dim)


def features_and_gradient(count: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """Values that require gradients, bases, and the gradient of the codes."""
    values, bases = features(count, dim, batch, generator)
    return values.requires_grad_(), bases, vectors(batch, dim, generator=generator)


def encode_ours(values: Tensor, bases: Tensor) -> Tensor:
    """One product of phases."""
    return hrr.fractional_power_encoding(bases, values)


def encode_rfft(values: Tensor, bases: Tensor) -> Tensor:
    """irfft(exp(i sum of phases)) in float32, for unitary bases."""
    phases = values @ rfft(bases).angle()
    return irfft(torch.polar(torch.ones_like(phases), phases), n=bases.shape[-1])


def encode_fold(values: Tensor, bases: Tensor) -> Tensor:
    """Power by power, bound together."""
    return hrr.multibind(hrr.bind_power(bases, values))


def many(items: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` sets of `items` vectors."""
    return (vectors(batch, items, dim, generator=generator),)


def many_leaves_and_gradient(items: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """Sets that require gradients, and the gradient of their product."""
    x = vectors(batch, items, dim, generator=generator)
    return x.requires_grad_(), vectors(batch, dim, generator=generator)


def one(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` vectors."""
    return (vectors(batch, dim, generator=generator),)


def with_exponents(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` vectors and an exponent for each."""
    return vectors(batch, dim, generator=generator), torch.rand(batch, generator=generator) * 4 - 2


def with_spectra(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` vectors, and as many spectra made beforehand: packed ones and torch's."""
    a, b = vectors(2, batch, dim, generator=generator)
    return a, hrr.spectrum(b), rfft(b)


def queries(items: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """A memory of normalised items, and noisy queries."""
    memory = torch.nn.functional.normalize(vectors(items, dim, generator=generator), dim=-1)
    return memory[torch.arange(batch) % items] + 0.5 * vectors(batch, dim, generator=generator), memory


@functools.lru_cache(maxsize=64)
def _item_memory(items: Tensor) -> hrr.ItemMemory:
    """The memory of a tensor, which the cache keeps alive."""
    return hrr.ItemMemory(items)


def cleanup_ours(query: Tensor, memory: Tensor, top_k: int = 1) -> tuple[Tensor, ...]:
    """The best items of an `ItemMemory`, which is made once."""
    return (_item_memory(memory).cleanup(query, top_k)[0],)


def cleanup_torch(query: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    """normalize(query) @ memory.T, then the largest: items are normalised already."""
    cosines = torch.nn.functional.normalize(query, dim=-1) @ memory.T
    return (cosines.max(-1, keepdim=True).values,)


def cleanup_topk(query: Tensor, memory: Tensor, top_k: int) -> tuple[Tensor, ...]:
    """The same with topk."""
    cosines = torch.nn.functional.normalize(query, dim=-1) @ memory.T
    return (cosines.topk(top_k).values,)


def resonator_inputs(items: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """A unitary codebook for three factors, bound vectors of it, and estimates of the factors."""
    book = hrr.random(items, dim, generator=generator, unitary=True, device="cpu")
    places = [torch.randint(items, (batch,), generator=generator) for _ in range(3)]
    x = hrr.multibind(torch.stack([book[each] for each in places], -2))
    estimates = [hrr.random(batch, dim, generator=generator, unitary=True, device="cpu") for _ in range(3)]
    return x, *estimates, book


@functools.lru_cache(maxsize=64)
def _resonator(book: Tensor) -> hrr.Resonator:
    return hrr.Resonator([book, book, book])


def resonator_step(x: Tensor, *estimates_and_book: Tensor) -> tuple[Tensor, ...]:
    """An iteration of `Resonator`, its answer included: every factor's estimate is replaced."""
    *estimates, book = estimates_and_book
    _resonator(book)._update(x, estimates)
    return tuple(estimates)


def resonator_step_rfft(x: Tensor, *estimates_and_book: Tensor) -> tuple[Tensor, ...]:
    """The same on spectra, with matrix products: unitary(c @ X), c = X (x unbound by the newest other estimates)."""
    *estimates, book = estimates_and_book
    spectra = [rfft(estimate) for estimate in estimates]
    bound, dim, answer = rfft(x), x.shape[-1], []
    for factor in range(3):
        first, second = (spectra[other] for other in range(3) if other != factor)
        similarities = irfft(bound * (first * second).conj(), n=dim) @ book.T
        estimates[factor] = unitary_rfft(similarities @ book)
        spectra[factor] = rfft(estimates[factor])
        answer.append(similarities.abs().argmax(-1))
    torch.stack(answer, -1)
    return tuple(estimates)


def entry(
    op: str,
    shape: str,
    batch: int,
    inputs: Callable[[int, torch.Generator], Inputs],
    ours: Callable[..., Tensor | tuple[Tensor, ...]],
    peers: tuple[Peer, ...],
    floats: int,
    aim: float | None = None,
    aim_peer: str | None = None,
) -> Entry:
    """An entry whose traffic is counted in floats."""
    traffic = 4 * floats
    return Entry(op, shape, batch, inputs, ours, peers, traffic, aim=aim, aim_peer=aim_peer)


def algebra(batch: int, dim: int) -> tuple[Entry, ...]:
    """The row-wise operators at one size."""
    shape = f"{batch}x{dim}"
    return (
        entry(
            "inverse", shape, batch, partial(one, dim), hrr.inverse,
            (Peer("irfft(conj/abs^2)", inverse_rfft), Peer("torch.compile", inverse_rfft, kind="compile")),
            2 * batch * dim,
        ),
        entry(
            "unitary", shape, batch, partial(one, dim), hrr.unitary,
            (Peer("irfft(A/abs)", unitary_rfft), Peer("torch.compile", unitary_rfft, kind="compile")),
            2 * batch * dim,
        ),
        entry(
            "bind_power", shape, batch, partial(with_exponents, dim), hrr.bind_power,
            (
                Peer("polar(abs^e, e angle)", bind_power_rfft),
                Peer("torch.compile of the reference", plain.bind_power, kind="compile"),
            ),
            2 * batch * dim,
        ),
        *(
            entry(
                op, shape, batch, partial(with_spectra, dim), ours,
                (Peer(name, theirs), Peer("torch.compile", theirs, kind="compile")), 3 * batch * dim,
            )
            for op, ours, name, theirs in (
                ("bind_spectrum", bind_spectrum_ours, "irfft(rfft(a) * B)", bind_spectrum_rfft),
                ("unbind_spectrum", unbind_spectrum_ours, "irfft(rfft(a) * conj(B))", unbind_spectrum_rfft),
            )
        ),
    )  # fmt: skip


def permutation(*sizes: int) -> Entry:
    """A permutation of rows; how many leading dimensions they have must not matter."""
    *_, items, dim = (1, *sizes)
    table = hrr.permute(torch.arange(dim, dtype=torch.float64), 1).long()
    inputs = partial(one, dim) if len(sizes) == 2 else partial(many, items, dim)
    return entry(
        "permute", "x".join(map(str, sizes)), sizes[0], inputs, partial(hrr.permute, seed=1),
        (Peer("a[..., table]", partial(permute_gather, table=table)),),
        2 * math.prod(sizes),
    )  # fmt: skip


ENTRIES: tuple[Entry, ...] = (
    entry(
        "multibind", "100x8x1024", 100, partial(many, 8, 1024), hrr.multibind,
        (Peer("fold over the factors", multibind_fold), Peer("irfft(prod(rfft))", multibind_spectra)),
        100 * 9 * 1024, aim=2.0, aim_peer="fold over the factors",
    ),
    *(
        entry(
            "multibind backward", f"100x{items}x{dim}", 100, partial(many_leaves_and_gradient, items, dim),
            partial(first_gradient, hrr.multibind),
            (
                Peer("fold over the factors", partial(first_gradient, multibind_fold)),
                Peer("irfft(prod(rfft))", partial(first_gradient, multibind_spectra)),
            ),
            100 * (3 * items + 2) * dim,
        )
        for dim in (1000, 1024, 3000)
        for items in (3, 8)
    ),
    *algebra(100, 1024),
    permutation(100, 1024),
    permutation(16, 126, 1024),
    entry(
        "power encoding of 64", "100x64", 100, partial(features, 64, 1024), encode_ours,
        (Peer("irfft(exp(i sum))", encode_rfft), Peer("power by power", encode_fold)), 100 * 1088 + 64 * 1024, aim=1.0,
    ),
    *(
        entry(
            f"power encoding of {count} backward", f"{batch}x{count}", batch,
            partial(features_and_gradient, count, 1024), partial(first_gradient, encode_ours),
            (Peer("irfft(exp(i sum))", partial(first_gradient, encode_rfft)),), batch * 2048 + count * 1024, aim=1.0,
        )
        for batch, count in ((100, 64), (1000, 2))
    ),
    *(
        entry(
            "cleanup among 1000", f"{batch}x1024", batch, partial(queries, 1000, 1024), cleanup_ours,
            (Peer("max(normalize(q) @ m.T)", cleanup_torch),), (1000 + batch) * 1024, aim=1.0,
        )
        for batch in (1, 100)
    ),
    entry(
        "cleanup, five of 1000", "100x1024", 100, partial(queries, 1000, 1024), partial(cleanup_ours, top_k=5),
        (Peer("topk(normalize(q) @ m.T, 5)", partial(cleanup_topk, top_k=5)),), 1100 * 1024, aim=1.0,
    ),
    entry(
        "resonator step of 20", "100x1024", 100, partial(resonator_inputs, 20, 1024), resonator_step,
        (Peer("spectra", resonator_step_rfft),), 720 * 1024,
    ),
)  # fmt: skip
