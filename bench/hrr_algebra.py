"""Benchmark entries of the HRR algebra beyond binding, and of the memories built on it."""

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.fft import irfft, rfft
from torch.nn.functional import normalize

from bench.entry import Entry, Inputs, Peer, rows_of, vectors, with_compiled
from torch_hrr import hrr
from torch_hrr._plain import hrr as plain


def multibind_fold(x: Tensor) -> Tensor:
    """The product as most code builds it, factor by factor."""
    product = x[..., 0, :]
    for k in range(1, x.shape[-2]):
        product = irfft(rfft(product) * rfft(x[..., k, :]), n=x.shape[-1])
    return product


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


def features(count: int, dim: int, gradient: bool = False) -> Callable[[int, torch.Generator], Inputs]:
    """Values of `count` features, and unitary bases whose real bins are 1: of others, torch's form is no product.

    With a gradient, of the codes, the values require theirs.
    """

    def inputs(batch: int, generator: torch.Generator) -> Inputs:
        phases = (2 * torch.rand(count, dim // 2 + 1, generator=generator) - 1) * torch.pi
        phases[:, [0, -1]] = 0
        values = torch.randn(batch, count, generator=generator).requires_grad_(gradient)
        bases = irfft(torch.polar(torch.ones_like(phases), phases), n=dim)
        return (values, bases, vectors(batch, dim, generator=generator)) if gradient else (values, bases)

    return inputs


def encode_ours(values: Tensor, bases: Tensor) -> Tensor:
    return hrr.fractional_power_encoding(bases, values)


def encode_rfft(values: Tensor, bases: Tensor) -> Tensor:
    """irfft(exp(i sum of phases)) in float32, for unitary bases."""
    phases = values @ rfft(bases).angle()
    return irfft(torch.polar(torch.ones_like(phases), phases), n=bases.shape[-1])


def encode_fold(values: Tensor, bases: Tensor) -> Tensor:
    """Power by power, bound together."""
    return hrr.multibind(hrr.bind_power(bases, values))


def with_exponents(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` vectors and an exponent for each."""
    return vectors(batch, dim, generator=generator), torch.rand(batch, generator=generator) * 4 - 2


def with_spectra(dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """`batch` vectors, and as many spectra made beforehand: packed ones and torch's."""
    a, b = vectors(2, batch, dim, generator=generator)
    return a, hrr.spectrum(b), rfft(b)


def queries(items: int, dim: int, batch: int, generator: torch.Generator) -> Inputs:
    """A memory of normalised items, and noisy queries."""
    memory = normalize(vectors(items, dim, generator=generator), dim=-1)
    return memory[torch.arange(batch) % items] + 0.5 * vectors(batch, dim, generator=generator), memory


@functools.lru_cache(maxsize=64)
def _item_memory(items: Tensor, quantized: bool) -> hrr.ItemMemory:
    return hrr.ItemMemory(items, quantized=quantized)


def cleanup_ours(query: Tensor, memory: Tensor, top_k: int = 1, quantized: bool = False) -> tuple[Tensor, ...]:
    """The best items of an `ItemMemory`, which is made once."""
    return (_item_memory(memory, quantized).cleanup(query, top_k)[0],)


def cleanup_torch(query: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
    """Items are normalised already."""
    return ((normalize(query, dim=-1) @ memory.T).max(-1, keepdim=True).values,)


def cleanup_topk(query: Tensor, memory: Tensor, top_k: int) -> tuple[Tensor, ...]:
    return ((normalize(query, dim=-1) @ memory.T).topk(top_k).values,)


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


def algebra(batch: int, dim: int) -> tuple[Entry, ...]:
    """The row-wise operators at one size."""
    forms: tuple[tuple[str, Any, Any, tuple[Peer, ...], int], ...] = (
        ("inverse", rows_of((dim,)), hrr.inverse, with_compiled("irfft(conj/abs^2)", inverse_rfft), 2),
        ("unitary", rows_of((dim,)), hrr.unitary, with_compiled("irfft(A/abs)", unitary_rfft), 2),
        (
            "bind_power", partial(with_exponents, dim), hrr.bind_power,
            (
                Peer("polar(abs^e, e angle)", bind_power_rfft),
                Peer("torch.compile of the reference", plain.bind_power, kind="compile"),
            ), 2,
        ),
        (
            "bind_spectrum", partial(with_spectra, dim), lambda a, packed, spectrum: hrr.bind_spectrum(a, packed),
            with_compiled("irfft(rfft(a) * B)", lambda a, packed, spectrum: irfft(rfft(a) * spectrum, n=dim)), 3,
        ),
        (
            "unbind_spectrum", partial(with_spectra, dim), lambda a, packed, spectrum: hrr.unbind_spectrum(a, packed),
            with_compiled("irfft(rfft(a) * conj(B))", lambda a, _, bins: irfft(rfft(a) * bins.conj(), n=dim)), 3,
        ),
    )  # fmt: skip
    return tuple(
        Entry(op, f"{batch}x{dim}", batch, inputs, ours, peers, 4 * moved * batch * dim)
        for op, inputs, ours, peers, moved in forms
    )


def permutation(*sizes: int) -> Entry:
    """A permutation of rows; how many leading dimensions they have must not matter."""
    table = hrr.permute(torch.arange(sizes[-1], dtype=torch.float64), 1).long()
    return Entry(
        "permute", "x".join(map(str, sizes)), sizes[0], rows_of(sizes[1:]), partial(hrr.permute, seed=1),
        (Peer("a[..., table]", lambda a: a[..., table]),), 8 * math.prod(sizes),
    )  # fmt: skip


MULTIBIND: dict[str, Callable[[Tensor], Tensor]] = {
    "fold over the factors": multibind_fold,
    "irfft(prod(rfft))": lambda x: irfft(rfft(x).prod(-2), n=x.shape[-1]),
}
ENTRIES: tuple[Entry, ...] = (
    Entry(
        "multibind", "100x8x1024", 100, rows_of((8, 1024)), hrr.multibind,
        tuple(Peer(name, form) for name, form in MULTIBIND.items()), 400 * 9 * 1024,
        aim=2.0, aim_peer="fold over the factors",
    ),
    *(
        Entry(
            "multibind backward", f"100x{items}x{dim}", 100, rows_of((items, dim), (dim,), leaves=1),
            partial(first_gradient, hrr.multibind),
            tuple(Peer(name, partial(first_gradient, form)) for name, form in MULTIBIND.items()),
            400 * (3 * items + 2) * dim,
        )
        for dim in (1000, 1024, 3000)
        for items in (3, 8)
    ),
    *algebra(100, 1024),
    permutation(100, 1024),
    permutation(16, 126, 1024),
    Entry(
        "power encoding of 64", "100x64", 100, features(64, 1024), encode_ours,
        (Peer("irfft(exp(i sum))", encode_rfft), Peer("power by power", encode_fold)),
        4 * (100 * 1088 + 64 * 1024), aim=1.0,
    ),
    *(
        Entry(
            f"power encoding of {count} backward", f"{batch}x{count}", batch, features(count, 1024, gradient=True),
            partial(first_gradient, encode_ours), (Peer("irfft(exp(i sum))", partial(first_gradient, encode_rfft)),),
            4 * (batch * 2048 + count * 1024), aim=1.0,
        )
        for batch, count in ((100, 64), (1000, 2))
    ),
    *(
        Entry(
            "cleanup among 1000", f"{batch}x1024", batch, partial(queries, 1000, 1024), cleanup_ours,
            (Peer("max(normalize(q) @ m.T)", cleanup_torch),), 4 * (1000 + batch) * 1024, aim=1.0,
        )
        for batch in (1, 100)
    ),
    Entry(
        "cleanup, five of 1000", "100x1024", 100, partial(queries, 1000, 1024), partial(cleanup_ours, top_k=5),
        (Peer("topk(normalize(q) @ m.T, 5)", partial(cleanup_topk, top_k=5)),), 4 * 1100 * 1024, aim=1.0,
    ),
    *(
        Entry(
            "quantized cleanup, ten of 100000", f"{batch}x1024", batch, partial(queries, 100_000, 1024),
            partial(cleanup_ours, top_k=10, quantized=True),
            (Peer("topk(normalize(q) @ m.T, 10)", partial(cleanup_topk, top_k=10)),),
            4 * (100_000 + batch) * 1024, aim=2.5,
        )
        for batch in (1, 100)
    ),
    Entry(
        "resonator step of 20", "100x1024", 100, partial(resonator_inputs, 20, 1024), resonator_step,
        (Peer("spectra", resonator_step_rfft),), 4 * 720 * 1024,
    ),
)  # fmt: skip
