"""Sequences, n-grams and graphs: their sums written out, what comes back from them, and that order counts."""

import inspect
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.hrr import encoders
from torch_hrr.hrr import functional as hrr
from torch_hrr.hrr.encoders import at, graph, ngrams, sequence

laws = settings(max_examples=25, derandomize=True, database=None, deadline=None)
seeds = st.integers(0, 2**32)


def rows(seed, *shape, unitary=False, dtype=torch.float64):
    count = math.prod(shape[:-1])
    return hrr.random(count, shape[-1], torch.Generator().manual_seed(seed), unitary, "cpu", dtype).view(shape)


def permutation(dim, seed, power):
    """pi^power as numbers, read off the permuted vector 0, 1, 2, ..., one step at a time."""
    step = hrr.permute(torch.arange(dim, dtype=torch.float64), seed).long()
    total = torch.arange(dim)
    for _ in range(power):
        total = step[total]
    return total


def circular_convolution(a, b):
    """The direct sum."""
    dim = a.shape[-1]
    shifted = b[(torch.arange(dim).unsqueeze(1) - torch.arange(dim)) % dim]
    return shifted @ a


def cosine(a, b):
    return torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=-1)


@laws
@given(st.integers(0, 19), st.sampled_from((1, 2, 7, 64, 100)), seeds)
def test_a_sequence_is_the_sum_of_permuted_items(length, dim, seed):
    items = rows(seed, length, dim)
    expected = sum((items[i][permutation(dim, seed, i + 1)] for i in range(length)), torch.zeros(dim).double())
    torch.testing.assert_close(sequence(items, seed=seed), expected, rtol=0, atol=1e-14)


@laws
@given(st.integers(1, 9), st.integers(1, 4), seeds)
def test_ngrams_are_the_sum_of_bound_windows(length, n, seed):
    dim = 12
    items = rows(seed, length, dim)
    expected = torch.zeros(dim, dtype=torch.float64)
    for start in range(length - n + 1):
        window = items[start]
        for k in range(1, n):
            window = circular_convolution(window, items[start + k][permutation(dim, seed, k)])
        expected += window
    torch.testing.assert_close(ngrams(items, n, seed=seed), expected, rtol=0, atol=1e-13)


@laws
@given(st.integers(0, 6), seeds, st.booleans())
def test_a_graph_is_the_sum_of_its_edges(edges, seed, directed):
    dim = 12
    sources, targets = rows(seed, 2, edges, dim)
    expected = torch.zeros(dim, dtype=torch.float64)
    for source, target in zip(sources, targets, strict=True):
        expected += circular_convolution(source, target[permutation(dim, seed, 1)] if directed else target)
    torch.testing.assert_close(graph(sources, targets, directed, seed=seed), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 33])
def test_an_item_comes_back_with_cosine_one_over_the_root_of_the_length(length):
    trials, dim = 60, 512
    items = torch.nn.functional.normalize(rows(length, trials, length, dim), dim=-1)
    bundle = sequence(items)
    for index in {0, length // 2, length - 1}:
        cosines = cosine(at(bundle, index), items[:, index])
        # The bias of a finite dimension: the other items are only nearly orthogonal.
        error = 3 * float(cosines.std()) / math.sqrt(trials) + 4 / dim
        assert float(cosines.mean()) == pytest.approx(1 / math.sqrt(length), abs=error)
        if length > 1:
            wrong = cosine(at(bundle, index), items[:, (index + 1) % length])
            assert abs(float(wrong.mean())) < 3 / math.sqrt(trials * dim) + 4 / dim


def test_all_items_of_a_sequence_are_recognised_in_order():
    memory = rows(1, 50, 1024)
    chosen = torch.tensor([7, 7, 3, 49, 0, 7, 12])
    bundle = sequence(memory[chosen])
    for scaled in (bundle, torch.nn.functional.normalize(bundle, dim=-1), 1e6 * bundle):
        found = [int(cosine(at(scaled, i), memory).argmax()) for i in range(len(chosen))]
        assert found == chosen.tolist()


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_sequence_is_not_rounded_under_autocast(length):
    items = rows(1, length, 64).float()
    with torch.autocast("cpu", torch.bfloat16):
        result = sequence(items)
    assert result.dtype == torch.float32
    assert torch.equal(result, sequence(items))


def test_order_and_direction_count():
    a, b, c = rows(2, 3, 1024)
    assert abs(float(cosine(sequence(torch.stack([a, b])), sequence(torch.stack([b, a]))))) < 0.15
    assert abs(float(cosine(ngrams(torch.stack([a, b, c]), 3), ngrams(torch.stack([c, b, a]), 3)))) < 0.15
    forward, backward = graph(a[None], b[None]), graph(b[None], a[None])
    assert abs(float(cosine(forward, backward))) < 0.15
    torch.testing.assert_close(graph(a[None], b[None], directed=False), graph(b[None], a[None], directed=False))
    # What a cyclic shift for P would break: binding does not commute with P.
    moved = hrr.bind(hrr.permute(a, 0), b)
    assert abs(float(cosine(moved, hrr.bind(a, hrr.permute(b, 0))))) < 0.15


def test_equal_windows_count_as_often_as_they_occur():
    a, b = rows(3, 2, 1024)
    text = torch.stack([a, b, a, b, a])
    bigrams = ngrams(text, 2)
    ab, ba = ngrams(torch.stack([a, b]), 2), ngrams(torch.stack([b, a]), 2)
    torch.testing.assert_close(bigrams, 2 * ab + 2 * ba)
    torch.testing.assert_close(ngrams(text, 1), 3 * a + 2 * b)


def test_neighbours_come_back_from_a_graph():
    nodes = rows(4, 20, 2048, unitary=True)
    edges = [(0, 1), (0, 2), (3, 0), (4, 5), (1, 2)]
    sources, targets = (nodes[list(ends)] for ends in zip(*edges, strict=True))
    found = hrr.permute(hrr.unbind(graph(sources, targets), nodes[0]), encoders.DEFAULT_SEED, -1)
    assert sorted(cosine(found, nodes).topk(2).indices.tolist()) == [1, 2]
    found = hrr.unbind(graph(sources, targets), hrr.permute(nodes[2], encoders.DEFAULT_SEED))
    assert sorted(cosine(found, nodes).topk(2).indices.tolist()) == [0, 1]


@pytest.mark.parametrize("function", [lambda x: sequence(x), lambda x: ngrams(x, 3), lambda x: graph(x, x.flip(-2))])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_batches_and_dtypes(function, dtype):
    items = rows(5, 2, 3, 5, 64, dtype=dtype)
    batched = function(items)
    assert batched.shape == (2, 3, 64) and batched.dtype == dtype
    singles = torch.stack([torch.stack([function(one) for one in row]) for row in items])
    assert torch.equal(batched, singles)
    exact = function(items.double())
    error = torch.linalg.vector_norm(batched.double() - exact) / torch.linalg.vector_norm(exact)
    assert float(error) < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("length", [0, 1, 2])
def test_a_text_shorter_than_a_window_gives_a_zero_row(length):
    assert torch.equal(ngrams(torch.ones(4, length, 8), 3), torch.zeros(4, 8))


@pytest.mark.parametrize(
    "function",
    [lambda x: sequence(x), lambda x: at(x, 2), lambda x: ngrams(x, 1), lambda x: ngrams(x, 2), lambda x: ngrams(x, 3)],
)
def test_gradients(function):
    assert torch.autograd.gradcheck(function, rows(6, 4, 8).requires_grad_())


@pytest.mark.parametrize("directed", [True, False])
def test_gradients_of_a_graph(directed):
    sources, targets = (one.clone().requires_grad_() for one in rows(7, 2, 3, 8))
    assert torch.autograd.gradcheck(lambda a, b: graph(a, b, directed), (sources, targets))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, **seed: sequence(x, **seed),
        lambda x, **seed: ngrams(x, 2, **seed),
        lambda x, **seed: at(x, 0, **seed),
        lambda x, **seed: graph(x, x, **seed),
    ],
    ids=["sequence", "ngrams", "at", "graph"],
)
def test_the_seed_settles_the_permutation(function):
    items = rows(8, 3, 256)
    assert torch.equal(function(items), function(items, seed=encoders.DEFAULT_SEED))
    assert torch.equal(function(items, seed=5), function(items, seed=5))
    assert not torch.allclose(function(items, seed=5), function(items))


def test_random_state_of_torch_is_left_alone():
    state = torch.get_rng_state()
    sequence(rows(9, 3, 16))
    assert torch.equal(torch.get_rng_state(), state)


def test_the_fixed_calls():
    assert list(inspect.signature(sequence).parameters)[:1] == ["items"]
    assert list(inspect.signature(at).parameters)[:2] == ["sequence", "index"]
    assert list(inspect.signature(ngrams).parameters)[:2] == ["items", "n"]
    assert list(inspect.signature(graph).parameters)[:3] == ["sources", "targets", "directed"]


ITEMS = torch.ones(3, 8)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: sequence([1.0]), TypeError, "sequence: items must be a torch.Tensor or a NumPy array, got list"),
        (lambda: sequence(ITEMS.long()), TypeError, "sequence: items must be float32, .*, got torch.int64"),
        (lambda: sequence(ITEMS[0]), ValueError, r"sequence: items must have at least 2 dimensions, got shape \[8\]"),
        (lambda: sequence(ITEMS[:, :0]), ValueError, r"sequence: items must have D >= 1, got shape \[3, 0\]"),
        (lambda: at(ITEMS[:, :0], 0), ValueError, r"at: sequence must have D >= 1, got shape \[3, 0\]"),
        (lambda: ngrams(ITEMS[:, :0], 2), ValueError, r"ngrams: items must have D >= 1, got shape \[3, 0\]"),
        (lambda: graph(ITEMS[:, :0], ITEMS[:, :0]), ValueError, r"graph: sources must have D >= 1, .*"),
        (lambda: at(ITEMS.bool(), 0), TypeError, "at: sequence must be float32, .*, got torch.bool"),
        (lambda: at(torch.tensor(1.0), 0), ValueError, "at: sequence must have at least 1 dimensions, got .*"),
        (lambda: at(ITEMS, 1.0), TypeError, "at: index must be an int, got float"),
        (lambda: at(ITEMS, -1), IndexError, "at: index must be >= 0 and below 2\\^63 - 1, got -1"),
        (lambda: ngrams(ITEMS.cfloat(), 2), TypeError, "ngrams: items must be float32, .*, got torch.complex64"),
        (lambda: ngrams(ITEMS[0], 2), ValueError, "ngrams: items must have at least 2 dimensions, got .*"),
        (lambda: ngrams(ITEMS, 0), ValueError, "ngrams: n must be at least 1, got 0"),
        (lambda: ngrams(ITEMS, True), TypeError, "ngrams: n must be an int, got bool"),
        (lambda: graph(None, ITEMS), TypeError, "graph: sources must be a torch.Tensor or a NumPy array, got NoneType"),
        (lambda: graph(ITEMS, ITEMS.int()), TypeError, "graph: targets must be float32, .*, got torch.int32"),
        (lambda: graph(ITEMS, ITEMS[:, 1:]), ValueError, "graph: targets must have the last dimension 8, got .*"),
        (lambda: graph(ITEMS, ITEMS.to("meta")), RuntimeError, "graph: targets must be on cpu, got meta"),
        (lambda: graph(ITEMS[0], ITEMS), ValueError, "graph: sources must have at least 2 dimensions, got .*"),
    ],
)
def test_arguments_that_do_not_fit(call, error, text):
    with pytest.raises(error, match=f"^{text}$"):
        call()


def test_edges_that_do_not_match_are_an_error_of_the_operator():
    with pytest.raises(ValueError, match=r"^graph: sources and targets must have leading dimensions that broadcast"):
        graph(ITEMS, ITEMS[:2])


@pytest.mark.parametrize("n", (1, 2, 3))
def test_ngrams_are_exported_for_a_length_that_depends_on_data(n):
    class Texts(torch.nn.Module):
        def forward(self, letters, is_known):
            return ngrams(letters[is_known], n)

    letters, known = rows(0, 9, 16), torch.arange(9) % 3 > 0
    program = torch.export.export(Texts(), (letters, known)).module()
    for mask in (known, ~known, torch.arange(9) < 2, torch.arange(9) < 1, torch.zeros(9, dtype=torch.bool)):
        assert torch.equal(program(letters, mask), ngrams(letters[mask], n))
