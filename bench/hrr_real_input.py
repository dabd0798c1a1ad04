"""Holographic reduced representations of real input: languages by letter trigrams, digits by fractional powers."""

import string
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.hrr_acceptance import Row, Size, mean_and_error, share_error
from torch_hrr import hrr
from torch_hrr.demos import digits as demo

WORDS = Path(__file__).parent / "data" / "words.zip"
LETTERS = " " + string.ascii_lowercase
DIM = 1024
TRAINING_SHARE = 0.75
# Words encoded at a time, so that the letters' vectors stay small.
CHUNK = 128
# Words in a query: published accuracies with exact counts and with HRR, on other word lists.
PUBLISHED_LANGUAGES = {1: (0.59, 0.42), 5: (0.94, 0.83), 20: (1.0, 0.994)}
PUBLISHED_CENTROID = 0.891
STEPS = (1.0, 0.5)

WordEncoder = Callable[[Tensor], Tensor]


def read_words() -> dict[str, list[str]]:
    with zipfile.ZipFile(WORDS) as lists:
        return {Path(name).stem: lists.read(name).decode().split() for name in sorted(lists.namelist())}


def encode_words(words: list[str], encoder: WordEncoder) -> Tensor:
    """Codes [W, ...] of words, each between blanks; `encoder` takes words of one length as letters [n, L]."""
    letters = [torch.tensor([LETTERS.index(letter) for letter in f" {word} "]) for word in words]
    order = sorted(range(len(words)), key=lambda index: len(letters[index]))
    parts, start = [], 0
    while start < len(order):
        group = [i for i in order[start : start + CHUNK] if len(letters[i]) == len(letters[order[start]])]
        parts.append(encoder(torch.stack([letters[index] for index in group])))
        start += len(group)
    return torch.cat(parts)[torch.tensor(order).argsort()]


# sum over windows (a, b, c) of bind(a, S b, S S c), S a cyclic shift by one
def shifted_trigrams(items: Tensor) -> Tensor:
    """`hrr.ngrams(items, 3)` with cyclic shifts for random permutations, [..., L, D] to [..., D]."""
    a, b, c = items[..., :-2, :], items[..., 1:-1, :].roll(1, -1), items[..., 2:, :].roll(2, -1)
    return hrr.multibind(torch.stack([a, b, c], -2)).sum(-2)


def trigram_numbers(letters: Tensor, ordered: bool) -> Tensor:
    """A number for each trigram of [n, L], the same for all its orders unless `ordered`: [n, L - 2]."""
    windows = letters.unfold(-1, 3, 1)
    if not ordered:
        windows = windows.sort(-1).values
    return (windows * torch.tensor([len(LETTERS) ** 2, len(LETTERS), 1])).sum(-1)


def count_trigrams(words: list[str], ordered: bool) -> tuple[Tensor, Tensor]:
    """Counts [W, V] of the V trigrams that occur, and the letters [V, 3] of each."""
    width = max(map(len, words))

    def padded(letters: Tensor) -> Tensor:
        numbers = trigram_numbers(letters, ordered)
        return F.pad(numbers, (0, width - numbers.shape[-1]), value=-1)

    kinds, columns = encode_words(words, padded).unique(return_inverse=True)
    counts = torch.zeros(len(words), len(kinds)).scatter_add_(1, columns, torch.ones(columns.shape))
    letters = torch.stack([kinds // len(LETTERS) ** 2, kinds // len(LETTERS) % len(LETTERS), kinds % len(LETTERS)], -1)
    keep = kinds >= 0
    return counts[:, keep], letters[keep]


# spectrum of bind(a, b, c) = A B C; a unitary vector has phases for A, permuted it has Gaussian coefficients
def drawn_trigrams(letters: Tensor, ordered: bool, generator: torch.Generator) -> Tensor:
    """Vectors [V, D] of trigrams [V, 3] from spectra drawn directly, with nothing of this library.

    If `ordered`, letters have other spectra at each position, as random permutations give them; otherwise all three
    positions share the letters' phases, as cyclic shifts leave them.
    """
    bins = DIM // 2
    angles = torch.rand(len(LETTERS), bins, generator=generator) * (2 * torch.pi)
    phases = torch.polar(torch.ones_like(angles), angles)
    if ordered:
        drawn = torch.randn(2, len(LETTERS), bins, dtype=torch.complex64, generator=generator)
        first, second, third = phases, drawn[0], drawn[1]
    else:
        first = second = third = phases
    spectra = first[letters[:, 0]] * second[letters[:, 1]] * third[letters[:, 2]]
    return torch.view_as_real(spectra).flatten(-2)


def hits(predicted: Tensor, truth: Tensor) -> Tensor:
    return (predicted == truth).double()


# sd of a trial's difference >= sqrt(q / n), q the share of the n queries that one of the two alone gets right
def compare(ours: list[Tensor], theirs: list[Tensor]) -> tuple[float, float, float]:
    """Both accuracies over trials of the same queries, and the standard error of their difference.

    A few trials may agree by chance better than the number of queries allows, hence the lower bound.
    """
    a, b = torch.stack(ours), torch.stack(theirs)
    unlike = float((a != b).double().mean())
    queries = a.shape[-1]
    resolution = ((unlike * a.numel() + 1) / (a.numel() + 2) / queries) ** 0.5
    _, error = mean_and_error((a - b).mean(-1).tolist(), resolution)
    return float(a.mean()), float(b.mean()), error


def guess(codes: Tensor, labels: Tensor, training: Tensor, queries: Tensor) -> Tensor:
    """The language whose superposed training words have the largest cosine with the sum of a query's words."""
    profiles = [codes[training & (labels == language)].sum(0) for language in range(int(labels.max()) + 1)]
    sums = F.embedding_bag(queries, codes, mode="sum")
    return hrr.ItemMemory(torch.stack(profiles)).cleanup(sums)[1].squeeze(-1)


def language_trial(
    words: list[str],
    labels: Tensor,
    trigrams: dict[bool, tuple[Tensor, Tensor]],
    size: Size,
    generator: torch.Generator,
) -> dict[str, list[Tensor]]:
    """Hits of every method for queries of 1, 5 and 20 words, on one split and the same queries."""
    training = torch.zeros(len(words), dtype=torch.bool)
    queries: dict[int, list[Tensor]] = {length: [] for length in PUBLISHED_LANGUAGES}
    for language in range(int(labels.max()) + 1):
        members = (labels == language).nonzero().squeeze(-1)
        members = members[torch.randperm(len(members), generator=generator)]
        known = int(TRAINING_SHARE * len(members))
        training[members[:known]] = True
        for length, chosen in queries.items():
            drawn = torch.rand(size.queries, len(members) - known, generator=generator).argsort(-1)[:, :length]
            chosen.append(members[known:][drawn])
    vectors = hrr.random(len(LETTERS), DIM, generator, True, "cpu")
    methods = {
        "random permutation": encode_words(words, lambda letters: hrr.ngrams(vectors[letters], 3)),
        "cyclic shift": encode_words(words, lambda letters: shifted_trigrams(vectors[letters])),
    }
    for method, ordered in (("random permutation", True), ("cyclic shift", False)):
        counts, letters = trigrams[ordered]
        methods["drawn " + method] = counts @ drawn_trigrams(letters, ordered, generator)
        methods["exact " + method] = counts
    truth = torch.arange(int(labels.max()) + 1).repeat_interleave(size.queries)
    return {
        name: [hits(guess(codes, labels, training, torch.cat(chosen)), truth) for chosen in queries.values()]
        for name, codes in methods.items()
    }


def languages(size: Size, seed: int) -> list[Row]:
    """Languages by letter trigrams: exact counts, HRR with permutations, HRR with shifts."""
    generator = torch.Generator().manual_seed(seed)
    lists = {name: words[:: max(1, len(words) // size.words)][: size.words] for name, words in read_words().items()}
    words = [word for listed in lists.values() for word in listed]
    labels = torch.arange(len(lists)).repeat_interleave(torch.tensor([len(listed) for listed in lists.values()]))
    trigrams = {ordered: count_trigrams(words, ordered) for ordered in (True, False)}
    trials = [language_trial(words, labels, trigrams, size, generator) for _ in range(size.language_trials)]
    rows = order_rows(size, generator)
    for index, (length, (exact, published)) in enumerate(PUBLISHED_LANGUAGES.items()):
        found = {method: [trial[method][index] for trial in trials] for method in trials[0]}
        cell = f"queries of {length} word{'s'[: length > 1]}: "
        mean, error = mean_and_error(float(hit.mean()) for hit in found["exact random permutation"])
        note = "published, other lists"
        rows.append(Row("languages", cell + "exact counts", mean, error, exact, note=note, comparable=False))
        for method, remark in (("random permutation", f"published on other lists: {published}"), ("cyclic shift", "")):
            mean, expected, error = compare(found[method], found["drawn " + method])
            limit = f"exact counts: {float(torch.cat(found['exact ' + method]).mean()):.3f}"
            note = "; ".join(filter(None, ["drawn spectra", remark, limit]))
            rows.append(Row("languages", f"{cell}{method}, D={DIM}", mean, error, expected, note=note))
    return rows


def order_rows(size: Size, generator: torch.Generator) -> list[Row]:
    """Cosine of three letters in order with the same three backwards."""
    items = hrr.random(3 * size.queries, DIM, generator, True, "cpu").view(size.queries, 3, DIM)
    rows = []
    for name, code, expected, note in (
        ("random permutation", lambda items: hrr.ngrams(items, 3), 0.0, "order is kept"),
        ("cyclic shift", shifted_trigrams, 1.0, "order is lost: shifts commute with bind"),
    ):
        cosines = F.cosine_similarity(code(items), code(items.flip(-2)))
        cell = f"cosine of abc with cba: {name}"
        rows.append(Row("order within a trigram", cell, *mean_and_error(cosines.tolist()), expected, note=note))
    return rows


# code = sum over pixels (x, y) of value * bind(X^(x step), Y^(y step))
def encode_digits(grey: Tensor, step: float, generator: torch.Generator) -> Tensor:
    """Codes [N, D] of grey levels [N, 64] by fractional powers of two unitary vectors."""
    x, y = hrr.random(2, DIM, generator, True, "cpu")
    places = torch.arange(8) * step
    columns, rows = hrr.bind_power(x, places.repeat(8)), hrr.bind_power(y, places.repeat_interleave(8))
    weights = torch.arange(demo.GREY_LEVELS) / (demo.GREY_LEVELS - 1)
    return torch.cat([hrr.bind_superpose(columns, rows, weights[chunk]) for chunk in grey.split(demo.CHUNK)])


# spectrum of bind(X^x, Y^y) at a bin = exp(i (x theta + y phi)), theta and phi of U(-pi, pi)
def drawn_digits(grey: Tensor, step: float, generator: torch.Generator) -> Tensor:
    """What `encode_digits` gives, from phases drawn directly, with nothing of this library."""
    theta, phi = (2 * torch.rand(2, DIM // 2, generator=generator) - 1) * torch.pi
    places = torch.arange(8).unsqueeze(-1) * step
    angles = (places * theta).repeat(8, 1) + (places * phi).repeat_interleave(8, 0)
    return grey.float() @ torch.cat([angles.cos(), angles.sin()], -1)


def digits(size: Size, seed: int) -> list[Row]:
    """Digits by fractional power encoding, read out by prototypes and by ridge regression."""
    grey, labels = demo.load_digits()
    readouts = {"class prototypes": demo.nearest_prototype, "ridge read-out": demo.ridge_readout}
    measured: dict[tuple[str, float], list[list[Tensor]]] = {(r, s): [] for r in readouts for s in STEPS}
    centroids = []
    for split in range(size.digit_splits):
        generator = torch.Generator().manual_seed(seed + split)
        order = torch.randperm(len(labels), generator=generator)
        train, test = order[: len(order) // 2], order[len(order) // 2 :]
        pixels = grey.float()
        centroids.append(demo.accuracy(demo.nearest_centroid(pixels[train], labels[train], pixels[test]), labels[test]))
        for step in STEPS:
            codes, drawn = encode_digits(grey, step, generator), drawn_digits(grey, step, generator)
            for name, readout in readouts.items():
                both = [readout(code[train], labels[train], code[test]) for code in (codes, drawn)]
                measured[name, step].append([hits(predicted, labels[test]) for predicted in both])
    tests = len(labels) - len(labels) // 2
    published_error = share_error(PUBLISHED_CENTROID, tests)
    mean, error = mean_and_error(centroids, 1 / tests)
    note = "published, one split"
    rows = [Row("digits", "nearest raw centroid", mean, error, PUBLISHED_CENTROID, published_error, note)]
    for (name, step), pairs in measured.items():
        mean, expected, error = compare(*map(list, zip(*pairs, strict=True)))
        cell = f"X^({step:g} x) Y^({step:g} y), D={DIM}: {name}"
        rows.append(Row("digits", cell, mean, error, expected, note="drawn spectra"))
    return rows
