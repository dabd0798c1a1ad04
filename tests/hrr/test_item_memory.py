"""Cleanup against cosines in float64 and an order that is written down: larger first, then the lower index."""

import copy
import io
import pickle

import numpy as np
import pytest
import sklearn.datasets
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.hrr import Resonator, Vocabulary, normalize, random
from torch_hrr.hrr.memory import Cleanup, ItemMemory, _first_copies, _largest, _words, cosine_similarity

HALF = (torch.float16, torch.bfloat16)
laws = settings(max_examples=60, derandomize=True, database=None, deadline=None)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def true_cosines(query, items):
    query, items = query.double().numpy(), items.double().numpy()
    norms = np.linalg.norm(query, axis=-1)[..., None] * np.linalg.norm(items, axis=-1)
    return query @ items.T / norms


@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (0,), (2, 0, 3)], ids=str)
@pytest.mark.parametrize("top_k", [1, 2, 5, 23])
@pytest.mark.parametrize("dim", [2, 3, 64, 100])
def test_the_nearest_items_come_first(shape, top_k, dim):
    items, query = normal(23, dim, dtype=torch.float64), normal(*shape, dim, seed=1, dtype=torch.float64)
    cosines, indices = ItemMemory(items).cleanup(query, top_k)
    assert cosines.shape == indices.shape == (*shape, top_k)
    assert (cosines.dtype, indices.dtype) == (torch.float64, torch.int64)
    expected = true_cosines(query, items)
    order = np.argsort(-expected, axis=-1, kind="stable")[..., :top_k]
    assert np.array_equal(indices.numpy(), order)
    np.testing.assert_allclose(cosines.numpy(), np.take_along_axis(expected, order, -1), atol=1e-14)


@pytest.mark.parametrize("top_k", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, *HALF])
def test_narrow_types_are_computed_in_float32(dtype, top_k):
    items, query = normal(50, 96, dtype=dtype), normal(9, 96, seed=1, dtype=dtype)
    cosines, indices = ItemMemory(items).cleanup(query, top_k)
    assert cosines.dtype == torch.float32
    exact = ItemMemory(items.float()).cleanup(query.float(), top_k)
    assert torch.equal(cosines, exact[0]) and torch.equal(indices, exact[1])
    expected = np.take_along_axis(true_cosines(query, items), indices.numpy(), -1)
    np.testing.assert_allclose(cosines.numpy(), expected, atol=3e-7)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALF])
@pytest.mark.parametrize("shape", [(), (4,), (2, 3), (0,)], ids=str)
def test_all_cosines(shape, dtype):
    a, b = normal(*shape, 96, dtype=dtype), normal(7, 96, seed=1, dtype=dtype)
    cosines = cosine_similarity(a, b)
    assert cosines.shape == (*shape, 7) and cosines.dtype == torch.promote_types(dtype, torch.float32)
    np.testing.assert_allclose(cosines.numpy(), true_cosines(a, b), atol=3e-7)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cosine_similarity(a, b), cosines)


def test_all_cosines_at_the_edges():
    rows = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1.0, float("nan")], [1e30, -1e30], [1e-30, 1e-30]])
    cosines = cosine_similarity(rows, rows)
    assert cosines[1, [0, 1, 3, 4]].tolist() == [0] * 4 and cosines[2].isnan().all() and cosines[:, 2].isnan().all()
    kept = [0, 3, 4]
    expected = torch.tensor([[1.0, -(0.02**0.5), 0.98**0.5], [-(0.02**0.5), 1, 0], [0.98**0.5, 0, 1]])
    torch.testing.assert_close(cosines[kept][:, kept], expected, rtol=0, atol=1e-6)
    a, b = (normal(3, 5, seed=seed, dtype=torch.float64).requires_grad_() for seed in (0, 1))
    assert torch.autograd.gradcheck(cosine_similarity, (a, b))
    for a, b, error, message in (
        (None, rows, TypeError, "a must be a torch.Tensor or a NumPy array, got NoneType"),
        (rows, rows.int(), TypeError, "b must be float32, .* got torch.int32"),
        (rows, rows[0], ValueError, r"b must have at least 2 dimensions, got shape \[2\]"),
        (rows, rows[None], ValueError, r"b must have shape \[N, 2\], got \[1, 5, 2\]"),
        (rows, rows[:, :1], ValueError, r"b must have the last dimension 2, got shape \[5, 1\]"),
        (rows, rows.to("meta"), RuntimeError, "b must be on cpu, got meta"),
        (rows[:, :0], rows[:, :0], ValueError, r"a must have D >= 1, got shape \[5, 0\]"),
    ):
        with pytest.raises(error, match=f"^cosine_similarity: {message}$"):
            cosine_similarity(a, b)


@pytest.mark.parametrize("dtypes", [(torch.float32, torch.float64), (torch.float64, torch.bfloat16)], ids=str)
def test_dtypes_promote(dtypes):
    """In the wider type from the start: the items are not first normalised in the narrower one."""
    items, query = normal(20, 64, dtype=dtypes[0]), normal(64, seed=1, dtype=dtypes[1])
    memory = ItemMemory(items)
    for _ in range(2):
        cosines, indices = memory.cleanup(query, 20)
        assert cosines.dtype == torch.float64
        np.testing.assert_allclose(cosines.numpy(), true_cosines(query, items)[indices.numpy()], atol=1e-14)


@laws
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.data())
def test_ties_go_to_the_lower_index(values, data):
    """Items are the axes, so that the cosines are the elements of the query over its norm, equal to the bit."""
    top_k = data.draw(st.integers(1, len(values)))
    query = torch.tensor(values, dtype=torch.float32)
    cosines, indices = ItemMemory(torch.eye(len(values))).cleanup(query, top_k)
    order = sorted(range(len(values)), key=lambda index: (-values[index], index))[:top_k]
    assert indices.tolist() == order
    norm = max(float(torch.linalg.vector_norm(query)), 1e-30)
    assert cosines.tolist() == pytest.approx([values[index] / norm for index in order], abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [2, 3, 5, 17, 33])
def test_equal_items_have_equal_cosines_wherever_they_stand(count, dtype):
    """A matrix product may round them differently; the sign of zero and a power of two make no difference."""
    for dim in (16, 100, 513):
        base = normal(3, dim, seed=dim, dtype=dtype)
        base[:, 0] = 0
        items = base.repeat(count, 1)
        items[3:6, 0] = -0.0
        items[-3:] *= 4
        memory = ItemMemory(items)
        for batch in (1, 2, 7, 33):
            query = normal(batch, dim, seed=batch, dtype=dtype)
            cosines, indices = memory.cleanup(query, 3 * count)
            groups = indices.view(batch, 3, count)
            assert torch.equal(groups, groups[..., :1] + 3 * torch.arange(count).expand(batch, 3, count))
            assert all(len(set(row[::count])) == 3 for row in groups.flatten(1).tolist())
            assert (cosines.view(batch, 3, count).diff(dim=-1) == 0).all()
            assert torch.equal(memory.cleanup(query)[1], indices[:, :1])


def test_cosines_that_rounding_took_beyond_one_are_equal():
    """Items of one direction, of which several have a cosine just above 1, or below -1, before it is clamped."""
    for dim in (3, 16, 100):
        items = normal(dim, seed=dim) * (1 + normal(40, 1).abs())
        for query in (items[0], items[:2] * torch.tensor([[1.0], [-1.0]])):
            cosines, indices = ItemMemory(items).cleanup(query, 40)
            assert float(cosines.abs().max()) == 1
            assert (indices.diff(dim=-1)[cosines.diff(dim=-1) == 0] > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_are_found_in_any_order(dtype):
    """More rows than are hashed at a time, few of them different, with zeros of both signs."""
    rows = torch.randint(-1, 2, (3000, 3), generator=torch.Generator().manual_seed(0)).to(dtype)
    signed = torch.where(rows == 0, torch.tensor([0.0, -0.0], dtype=dtype).repeat(1500).unsqueeze(-1), rows)
    seen = {}
    expected = [seen.setdefault(tuple(row), index) for index, row in enumerate(rows.tolist())]
    assert _first_copies(signed).tolist() == expected and len(seen) == 27


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_copies_of_simple_values_are_found(dtype):
    """Vectors of plus and minus one have few bits for a hash to work with."""
    signs = torch.randint(0, 2, (2000, 64), generator=torch.Generator().manual_seed(0)).to(dtype) * 2 - 1
    expected = torch.arange(2000).repeat(2)
    assert torch.equal(_first_copies(signs.repeat(2, 1)), expected)
    words = _words(signs).unique()
    assert len(words) == (2 if dtype == torch.float32 else 3) and (words[words != 0] & 0xFFFF != 0).all()


def test_the_best_are_the_first_of_more():
    memory, query = ItemMemory(normal(200, 64)), normal(30, 64, seed=1)
    cosines, indices = memory.cleanup(query, 200)
    assert (cosines.diff(dim=-1) <= 0).all()
    assert torch.equal(indices.sort(-1).values, torch.arange(200).expand(30, 200))
    for top_k in (1, 2, 10, 199):
        fewer = memory.cleanup(query, top_k)
        assert torch.equal(fewer[0], cosines[:, :top_k]) and torch.equal(fewer[1], indices[:, :top_k])


def test_an_item_finds_itself_through_noise():
    items = normal(1000, 512)
    cosines, indices = ItemMemory(items).cleanup(items + normal(1000, 512, seed=1))
    assert torch.equal(indices[:, 0], torch.arange(1000))
    # cos = 1/sqrt(2) for noise as strong as the signal.
    assert float(cosines.mean()) == pytest.approx(2**-0.5, abs=0.01)
    assert float(ItemMemory(items).cleanup(items)[0].max()) <= 1


def test_in_one_dimension_the_sign_decides():
    cosines, indices = ItemMemory(torch.tensor([[-4.0], [2.0], [-1.0], [0.5]])).cleanup(
        torch.tensor([[3.0], [-5.0]]), 4
    )
    assert indices.tolist() == [[1, 3, 0, 2], [0, 2, 1, 3]]
    torch.testing.assert_close(cosines, torch.tensor([[1.0, 1, -1, -1]]).expand(2, 4))


def test_zero_has_cosine_zero():
    items = torch.cat([torch.zeros(1, 8), torch.ones(1, 8), -torch.ones(1, 8)])
    cosines, indices = ItemMemory(items).cleanup(torch.stack([torch.zeros(8), -torch.zeros(8), torch.ones(8)]), 3)
    assert indices.tolist() == [[0, 1, 2], [0, 1, 2], [1, 0, 2]]
    assert cosines[:2].tolist() == [[0, 0, 0]] * 2
    assert cosines[2].tolist() == pytest.approx([1, 0, -1], abs=1e-6)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_apart(bad):
    items, query = normal(5, 16), normal(3, 16, seed=1)
    reference = ItemMemory(items).cleanup(query, 4)
    query[1, 3] = bad
    cosines, indices = ItemMemory(items).cleanup(query, 4)
    assert cosines[1].isnan().all() and indices[1].tolist() == [0, 1, 2, 3]
    for row in (0, 2):
        assert torch.equal(cosines[row], reference[0][row]) and torch.equal(indices[row], reference[1][row])
    items[2, 0] = bad
    cosines, indices = ItemMemory(items).cleanup(query[0], 5)
    assert indices[-1] == 2 and cosines[-1].isnan() and not cosines[:-1].isnan().any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_best_item_is_a_finite_one(bad, dtype):
    items, query = normal(5, 16, dtype=dtype), normal(3, 16, seed=1, dtype=dtype)
    expected = ItemMemory(items[1:]).cleanup(query)
    items[0, 3] = bad
    cosines, indices = ItemMemory(items).cleanup(query)
    assert torch.equal(indices, expected[1] + 1)
    torch.testing.assert_close(cosines, expected[0])
    query[1, 3] = bad
    for memory in (ItemMemory(items[1:]), ItemMemory(items)):
        cosines, indices = memory.cleanup(query)
        assert cosines[1].isnan() and indices[1] == 0 and not cosines[::2].isnan().any()


@laws
@given(st.sampled_from([torch.float32, torch.float64]), st.data())
def test_the_order_is_that_of_a_stable_sort(dtype, data):
    numbers = st.sampled_from([-1.0, -0.5, -1e-40, -0.0, 0.0, 1e-40, 0.25, 1.0, float("nan")])
    values = torch.tensor(data.draw(st.lists(numbers, min_size=1, max_size=30)), dtype=dtype)
    keys = [float("-inf") if value != value else value for value in values.tolist()]
    order = sorted(range(len(keys)), key=lambda index: -keys[index])
    for top_k in range(1, len(keys) + 1):
        assert _largest(values, top_k).tolist() == order[:top_k]


@pytest.mark.parametrize("scale", [1e-35, 1e-20, 1e20, 1e37])
def test_norms_neither_overflow_nor_underflow(scale):
    items, query = normal(20, 64), normal(6, 64, seed=1)
    cosines, indices = ItemMemory(items * scale).cleanup(query / scale, 3)
    expected = ItemMemory(items).cleanup(query, 3)
    assert torch.equal(indices, expected[1])
    torch.testing.assert_close(cosines, expected[0], rtol=0, atol=1e-6)


def test_a_memory_is_a_copy():
    items = normal(6, 16)
    memory = ItemMemory(items, list("abcdef"))
    kept = items.clone()
    items.zero_()
    memory.vectors.zero_()
    assert torch.equal(memory.vectors, kept) and len(memory) == 6
    assert memory.cleanup(kept)[1].flatten().tolist() == list(range(6))


def test_layouts_of_items_and_queries_do_not_matter():
    items, query = normal(64, 9), normal(64, 5, seed=1)
    strided = ItemMemory(items.t()).cleanup(query.t(), 2)
    plain = ItemMemory(items.t().contiguous()).cleanup(query.t().contiguous(), 2)
    assert torch.equal(strided[1], plain[1])
    torch.testing.assert_close(strided[0], plain[0], rtol=0, atol=1e-6)


def test_gradients_reach_the_query():
    memory = ItemMemory(normal(7, 12, dtype=torch.float64).requires_grad_())
    query = normal(3, 12, seed=1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: memory.cleanup(x, 3)[0], query)
    cosines, indices = memory.cleanup(query)
    assert cosines.requires_grad and not indices.requires_grad and not memory.vectors.requires_grad


def test_inference_mode_leaves_no_trace():
    with torch.inference_mode():
        memory = ItemMemory(normal(7, 12))
        memory.cleanup(normal(12).double())
    for dtype in (torch.float32, torch.float64):
        query = normal(12, dtype=dtype).requires_grad_()
        memory.cleanup(query)[0].sum().backward()
        assert query.grad is not None and query.grad.isfinite().all()


def test_autocast_changes_no_bit():
    items, query = normal(30, 64), normal(5, 64, seed=1)
    expected = ItemMemory(items).cleanup(query, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = ItemMemory(items).cleanup(query, 3)
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


class NoReading(TorchDispatchMode):
    """Refuses what reads values back or gives results of a size that depends on them."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        assert not any(word in name for word in ("local_scalar", "nonzero", "unique", "masked_select", "is_nonzero"))
        return func(*args, **(kwargs or {}))


def test_nothing_is_read_back():
    """Not by a query, under a mode that forbids it; and without any data not while a memory is made either."""
    items, query = normal(40, 32), normal(4, 32, seed=1)
    memory = ItemMemory(items)
    with NoReading():
        found = [memory.cleanup(query, top_k) for top_k in (1, 5)]
    assert [indices.shape for _, indices in found] == [(4, 1), (4, 5)]
    memory = ItemMemory(items.to("meta"))
    assert memory.device.type == "meta"
    assert memory.cleanup(query.to("meta"), 5)[1].shape == (4, 5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_no_sync_on_cuda():
    items, query = normal(40, 32).repeat(2, 1), normal(4, 32, seed=1)
    expected = ItemMemory(items).cleanup(query, 5)
    memory = ItemMemory(items.cuda())
    on_device = query.cuda()
    memory.cleanup(on_device, 5)
    torch.cuda.set_sync_debug_mode("error")
    try:
        cosines, indices = memory.cleanup(on_device, 5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(indices.cpu(), expected[1])
    torch.testing.assert_close(cosines.cpu(), expected[0], rtol=0, atol=1e-6)


def test_it_compiles_and_maps():
    memory, query = ItemMemory(normal(40, 32)), normal(4, 32, seed=1)
    compiled = torch.compile(lambda x: memory.cleanup(x, 3), backend="aot_eager", fullgraph=True)
    # torch 2.11 has no batching rule for a view of floats as integers.
    mapped = compiled if torch.__version__.startswith("2.11.") else torch.func.vmap(lambda x: memory.cleanup(x, 3))
    for function in (compiled, mapped):
        cosines, indices = function(query)
        assert torch.equal(indices, memory.cleanup(query, 3)[1])
        torch.testing.assert_close(cosines, memory.cleanup(query, 3)[0])


def test_names():
    memory = ItemMemory(torch.eye(3), ("a", "b", "ü"))
    assert memory.names == ("a", "b", "ü") and ItemMemory(torch.eye(3)).names is None
    assert memory.names_of(torch.tensor([[0, 2], [1, 1]])) == [["a", "ü"], ["b", "b"]]
    assert memory.names_of(torch.tensor(2)) == memory.names_of(2) == "ü"
    assert memory.names_of(torch.empty(0, 2, dtype=torch.int64)) == []
    assert memory.names_of(np.array([2, 0])[::-1]) == ["a", "ü"] and memory.names_of(np.int64(2)) == "ü"
    assert memory.names_of(memory.cleanup(torch.eye(3)[[2, 0]])[1]) == [["ü"], ["a"]]
    for index in (3, -1):
        with pytest.raises(IndexError, match=rf"^names_of: indices must be 0 to 2, got {index}$"):
            memory.names_of(torch.tensor([0, index]))
    for indices in (1.0, True, torch.tensor(True), torch.ones(2), "a"):
        with pytest.raises(TypeError, match=r"^names_of: indices must be an int or an integer tensor, got "):
            memory.names_of(indices)
    with pytest.raises(ValueError, match=r"^names_of: memory must have names, got None$"):
        ItemMemory(torch.eye(3)).names_of(0)


class Cleaning(torch.nn.Module):
    """The names of rows of the unit matrix, which the largest elements of a query choose."""

    def __init__(self, top_k=2):
        super().__init__()
        self.memory, self.top_k = ItemMemory(torch.eye(4), ["a", "b", "c", "d"]), top_k

    def forward(self, x):
        return self.memory.cleanup(x, self.top_k)


QUERY = torch.tensor([[0.0, 3, 4, 0], [2, 0, 0, 1]])
VALUES = torch.tensor([[0.8, 0.6], [2 / 5**0.5, 1 / 5**0.5]])


def test_what_is_found_is_two_tensors_and_knows_its_names():
    found = Cleaning()(QUERY)
    values, indices = found
    assert isinstance(found, tuple) and len(found) == 2 and found._fields == ("values", "indices")
    assert values is found.values is found[0] and indices is found.indices is found[1]
    assert found.indices.tolist() == [[2, 1], [0, 3]] and found.names == [["c", "b"], ["a", "d"]]
    torch.testing.assert_close(values, VALUES)
    assert Cleaning(1)(QUERY[0]).names == ["c"] and Cleaning(1)(QUERY[:0]).names == []
    assert Cleaning()(torch.full((4,), torch.nan)).names == ["a", "b"]
    assert ItemMemory(torch.eye(4)).cleanup(QUERY).names is None
    with pytest.raises(ValueError, match=r"^names: indices must hold data, got a meta tensor$"):
        _ = Cleaning().to("meta")(QUERY.to("meta")).names


def copies(found):
    """What copies, files and graphs make of it, names included."""
    yield from (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found)))
    file = io.BytesIO()
    torch.save(found, file)
    file.seek(0)
    yield torch.load(file)
    for backend in ("eager", "aot_eager"):
        torch._dynamo.reset()
        yield torch.compile(Cleaning(), backend=backend, fullgraph=True)(QUERY)
    yield torch.compile(lambda found: (found, found.values + 1), backend="eager", fullgraph=True)(found)[0]


def test_copies_and_graphs_keep_the_names():
    found = Cleaning()(QUERY)
    for each in copies(found):
        assert type(each) is Cleanup and each.names == found.names
        assert all(map(torch.equal, each, found))
    nameless = Cleanup(*found)
    assert pickle.loads(pickle.dumps(nameless)).names is copy.copy(nameless).names is None
    assert (
        len(pickle.dumps(ItemMemory(torch.eye(999), [f"{i:0999}" for i in range(999)]).cleanup(torch.ones(999)))) < 9999
    )


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_what_is_rebuilt_of_the_tensors_has_them_alone():
    file = io.BytesIO()
    torch.export.save(torch.export.export(Cleaning(), (QUERY,)), file)
    file.seek(0)
    hooked = Cleaning()
    hooked.register_full_backward_hook(lambda *grads: None)
    rebuilt = [
        torch.export.load(file).module()(QUERY),
        torch.func.vmap(Cleaning())(QUERY),
        torch.utils.data.default_collate([Cleaning()(row) for row in QUERY]),
        hooked(QUERY.clone().requires_grad_()),
    ]
    for each in rebuilt:
        assert type(each) is Cleanup and each.indices.tolist() == [[2, 1], [0, 3]] and each.names is None
    traced = torch.jit.trace(Cleaning(), QUERY)(QUERY)
    assert type(traced) is tuple and all(map(torch.equal, traced, Cleaning()(QUERY)))


def test_to_moves_and_returns_the_memory():
    memory = ItemMemory(torch.eye(3), "x y z".split())
    memory.cleanup(torch.ones(3).double())
    assert memory.to("meta") is memory
    assert memory.device.type == "meta" and memory.names == ("x", "y", "z")
    for dtype in (torch.float32, torch.float64):
        assert memory.cleanup(torch.ones(2, 3, dtype=dtype, device="meta"), 2)[0].device.type == "meta"
    with pytest.raises(ValueError, match="device must be 'auto', 'cpu', 'cuda' or one torch knows"):
        memory.to("nowhere")
    assert memory.device.type == "meta"


@pytest.mark.parametrize(
    ("vectors", "names", "error", "message"),
    [
        ([[1.0]], None, TypeError, "vectors must be a torch.Tensor or a NumPy array, got list"),
        (torch.ones(2, 3, dtype=torch.int64), None, TypeError, "vectors must be float32, .* got torch.int64"),
        (torch.ones(2, 3, dtype=torch.complex64), None, TypeError, "vectors must be float32, .* got torch.complex64"),
        (torch.eye(3).to_sparse(), None, TypeError, "vectors must be strided, got torch.sparse_coo"),
        (torch.ones(3), None, ValueError, r"vectors must be \[N, D\] with N, D >= 1, got \[3\]"),
        (torch.ones(1, 2, 3), None, ValueError, r"vectors must be \[N, D\] with N, D >= 1, got \[1, 2, 3\]"),
        (torch.ones(0, 3), None, ValueError, r"vectors must be \[N, D\] with N, D >= 1, got \[0, 3\]"),
        (torch.ones(3, 0), None, ValueError, r"vectors must be \[N, D\] with N, D >= 1, got \[3, 0\]"),
        (torch.eye(2), ["a"], ValueError, "names must be as many as the 2 vectors, got 1"),
        (torch.eye(2), ["a", "a"], ValueError, "names must be different, got 'a' twice"),
        (torch.eye(2), "ab", TypeError, "names must be a sequence of str, got 'ab'"),
        (torch.eye(2), ["a", 1], TypeError, "names must be a sequence of str, got "),
    ],
)
def test_bad_items_are_refused(vectors, names, error, message):
    with pytest.raises(error, match=f"^ItemMemory: {message}"):
        ItemMemory(vectors, names)


@pytest.mark.parametrize(
    ("query", "top_k", "error", "message"),
    [
        ([1.0, 2.0, 3.0], 1, TypeError, "query must be a torch.Tensor or a NumPy array, got list"),
        (torch.ones(3, dtype=torch.int32), 1, TypeError, "query must be float32, .* got torch.int32"),
        (torch.ones(3), 0, ValueError, "top_k must be 1 to 2, got 0"),
        (torch.ones(3), -1, ValueError, "top_k must be 1 to 2, got -1"),
        (torch.ones(3), 3, ValueError, "top_k must be 1 to 2, got 3"),
        (torch.ones(3), 1.0, TypeError, "top_k must be an int, got float"),
        (torch.ones(3), True, TypeError, "top_k must be an int, got bool"),
        (torch.ones(4), 1, ValueError, r"query must have the last dimension 3, got shape \[4\]"),
        (torch.ones(3, 1), 1, ValueError, r"query must have the last dimension 3, got shape \[3, 1\]"),
        (torch.tensor(1.0), 1, ValueError, r"query must have at least 1 dimensions, got shape \[\]"),
        (torch.ones(3, device="meta"), 1, RuntimeError, "query must be on cpu, got meta"),
    ],
)
def test_bad_queries_are_refused(query, top_k, error, message):
    with pytest.raises(error, match=f"^cleanup: {message}"):
        ItemMemory(torch.ones(2, 3)).cleanup(query, top_k)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, *HALF), ids=str)
def test_derivatives_at_zero_are_zero(dtype):
    items, queries = normal(5, 16, seed=1, dtype=dtype), normal(4, 16, seed=2, dtype=dtype)
    queries[::2] = 0
    memory = ItemMemory(items)
    for function in (lambda x: memory.cleanup(x)[0], lambda x: cosine_similarity(x, items)):
        x = queries.clone().requires_grad_()
        (grad,) = torch.autograd.grad(function(x).float().square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(grad.float().sum(), x)
        assert grad.isfinite().all() and not grad[::2].any() and grad[1::2].any(-1).all()
        assert second.isfinite().all() and not second[::2].any()
    x = queries.clone().requires_grad_()
    cosine_similarity(items, x).float().sum().backward()
    assert x.grad.isfinite().all() and not x.grad[::2].any() and x.grad[1::2].any(-1).all()


@pytest.mark.parametrize("queries", (torch.float64, torch.float32))
def test_tracing_leaves_no_tensor_behind(queries):
    memory = ItemMemory(normal(5, 16, dtype=torch.float16 if queries is torch.float32 else torch.float32))
    x = normal(3, 16, seed=1, dtype=queries)

    class Cleanup(torch.nn.Module):
        def forward(self, x):
            return memory.cleanup(x)

    expected = ItemMemory(memory.vectors).cleanup(x)
    for strict in (False, True):
        exported = torch.export.export(Cleanup(), (x,), strict=strict)
        for got in (memory.cleanup(x), exported.module()(x)):
            assert type(got[0]) is torch.Tensor and torch.equal(got[1], expected[1])
            torch.testing.assert_close(got[0], expected[0])
    other = ItemMemory(memory.vectors)
    torch.func.grad(lambda x: other.cleanup(x)[0].sum())(x)
    torch.func.vmap(lambda x: other.cleanup(x)[0])(x)
    torch.testing.assert_close(other.cleanup(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(1, 256), (20, 1024), (300, 64)])
def test_angles_given_as_items_are_told(shape, dtype):
    angles = 2 * torch.pi * torch.rand(shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    text = (
        "^ItemMemory: vectors must hold vectors, got what looks like angles: .*; hrr.from_phases makes vectors of them$"
    )
    with pytest.warns(UserWarning, match=text) as told:
        ItemMemory(angles.to(dtype))
    with pytest.warns(UserWarning, match=text):
        ItemMemory((angles - torch.pi).to(dtype))
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"^Resonator: codebooks must hold vectors, got what looks like angles"):
        Resonator([angles.to(dtype)])
    if shape[1] >= 256:
        with pytest.warns(UserWarning, match=r"^add: vector must hold vectors, got what looks like angles"):
            Vocabulary(shape[1], device="cpu").add("A", angles[0].to(dtype))


@pytest.mark.parametrize("shape", [(10, 512), (20, 1024), (100, 1024), (4, 10000)])
@pytest.mark.parametrize("normalized", [False, True])
def test_columns_given_as_items_are_told(shape, normalized):
    columns = random(*shape, torch.Generator().manual_seed(3), normalized=normalized, device="cpu").mT
    with pytest.warns(
        UserWarning, match=r"^ItemMemory: vectors must hold a vector in each row, .*; then give vectors.mT$"
    ):
        ItemMemory(columns)


def test_ordinary_items_are_not_taken_for_others():
    """The draws of this and other libraries, and data as it comes, in many sizes; warnings are errors here."""
    generator = torch.Generator().manual_seed(4)
    uniform, gaussian = (
        (lambda *s: torch.rand(s, generator=generator)),
        (lambda *s: torch.randn(s, generator=generator)),
    )
    for count in (1, 16, 256, 1000):
        for dim in (2, 8, 16, 64, 256, 1000):
            u, x = uniform(count, dim), gaussian(count, dim)
            several = sum(random(count, dim, generator, device="cpu") for _ in range(3))
            unitary = random(count, dim, generator, unitary=True, device="cpu")
            binary = (u < 0.5).float()
            for items in (
                *(
                    unitary,
                    several,
                    several / 3,
                    several / 30,
                    x,
                    x / count**0.5 / 2,
                    x.abs(),
                    2 * u - 1,
                    binary,
                    2 * binary - 1,
                ),
                *(u, 6 * u, 7 * u, 2 * torch.pi * u.square(), -u.log(), (7 * u).floor(), (256 * u).floor()),
                *(torch.linalg.qr(x.mT if count < dim else x)[0], torch.eye(dim)[(dim * u[:, 0]).long()]),
            ):
                ItemMemory(items)
    for name in ("digits", "iris", "wine", "breast_cancer", "diabetes"):
        data = torch.from_numpy(getattr(sklearn.datasets, f"load_{name}")().data).float()
        scaled = (data - data.mean(0)) / (data.std(0) + 1e-6)
        for items in (
            data,
            data / data.max(),
            scaled,
            data / data.norm(dim=0).clamp(min=1e-6),
            normalize(data),
            data.mT,
        ):
            ItemMemory(items)
