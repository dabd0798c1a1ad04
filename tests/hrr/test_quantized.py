"""Exact cleanup by codes, against cosines in float64: bounds, order, bits, changes, rows fetched one by one, files."""

import copy
import pathlib
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_hrr
from torch_hrr import hrr
from torch_hrr.hrr._quantized import QuantizedRows, quantize
from torch_hrr.hrr.memory import ItemMemory

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
laws = settings(max_examples=40, derandomize=True, database=None, deadline=None)


def normal(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def units(rows):
    """In float64, scaled first; zero stays zero, and NaN and infinity make NaN."""
    with np.errstate(all="ignore"):
        wide = rows.double().numpy()
        wide = wide / np.where((largest := np.abs(wide).max(-1, keepdims=True)) > 0, largest, 1)
        norm = np.sqrt(np.square(wide).sum(-1, keepdims=True))
        return wide / np.where(norm == 0, 1, norm)


def check(found, query, items):
    """Cosines as in float64, the best of all, in order; NaN last, equal ones by the lower index."""
    values, indices = (each.flatten(0, -2).numpy() for each in found)
    cosines = units(query.reshape(-1, query.shape[-1])) @ units(items).T
    cosines[~np.isfinite(items.double().numpy()).all(-1)[None].repeat(len(cosines), 0)] = np.nan
    tolerance = 2e-15 if found[0].dtype is torch.float64 else 1e-6
    best = -np.sort(-np.nan_to_num(cosines, nan=-2), -1)[:, : values.shape[1]]
    own = np.take_along_axis(cosines, indices, -1)
    np.testing.assert_allclose(values, own, atol=tolerance)
    np.testing.assert_allclose(np.nan_to_num(own, nan=-2), best, atol=2 * tolerance)
    keys = np.nan_to_num(values, nan=-2)
    assert (np.diff(keys) <= 0).all() and (np.diff(indices)[np.diff(keys) == 0] > 0).all()
    assert (np.abs(values[~np.isnan(values)]) <= 1).all()


def rows_of(kind, count, dim, dtype=torch.float32, seed=0):
    rows = normal(count, dim, seed=seed)
    match kind:
        case "clustered":
            rows = normal(3, dim, seed=seed + 1).repeat(count // 3 + 1, 1)[:count] + 0.05 * rows
        case "nearly equal":
            rows = normal(1, dim, seed=seed + 1) + 1e-6 * rows
        case "copies":
            rows = rows[torch.arange(count) % 3 % count]
        case "scaled":
            rows = rows * torch.logspace(-4, 4, count).unsqueeze(-1)
        case "simple":
            rows = rows.sign()
        case "axes":
            rows = torch.eye(dim)[torch.arange(count) % dim]
        case "not finite":
            rows[::3] = 0
            rows[1::4, 0], rows[2::5, -1] = torch.nan, torch.inf
    return rows.to(dtype)


KINDS = ("random", "clustered", "nearly equal", "copies", "scaled", "simple", "axes", "not finite")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_nearest_items_come_first(kind, dtype):
    for count, dim in ((1, 1), (5, 1), (2, 3), (40, 2), (40, 17), (7, 128), (90, 100), (12, 3000)):
        items = rows_of(kind, count, dim, dtype)
        memory = ItemMemory(items, quantized=True)
        query = torch.cat([normal(3, dim, seed=5, dtype=dtype), items[:2], torch.zeros(1, dim, dtype=dtype)])
        whole = memory.cleanup(query, count)
        check(whole, query, items)
        assert whole.values.dtype == torch.promote_types(dtype, torch.float32)
        for top_k in {1, min(3, count)}:
            for part, of in zip(memory.cleanup(query, top_k), whole, strict=True):
                torch.testing.assert_close(part, of[:, :top_k], rtol=0, atol=0, equal_nan=True)


def test_it_agrees_with_a_memory_that_is_not_quantized():
    for shape in ((), (1,), (7,), (2, 3), (0,), (2, 0, 3)):
        items, query = normal(60, 96), normal(*shape, 96, seed=1)
        plain, coded = (ItemMemory(items, quantized=quantized).cleanup(query, 5) for quantized in (False, True))
        assert coded.values.shape == coded.indices.shape == (*shape, 5)
        assert torch.equal(coded.indices, plain.indices)
        torch.testing.assert_close(coded.values, plain.values, rtol=0, atol=1e-6)
    for left, right in ((torch.float32, torch.float64), (torch.float64, torch.bfloat16), (torch.float16,) * 2):
        items, query = normal(20, 64, dtype=left), normal(3, 64, seed=1, dtype=right)
        check(found := ItemMemory(items, quantized=True).cleanup(query, 20), query, items)
        assert found.values.dtype == torch.promote_types(torch.promote_types(left, right), torch.float32)


def test_a_query_that_is_not_finite_has_no_cosine():
    items, query = rows_of("not finite", 9, 16), normal(3, 16)
    query[0, 3], query[1, 0] = torch.nan, torch.inf
    values, indices = ItemMemory(items, quantized=True).cleanup(query, 9)
    assert values[:2].isnan().all() and indices[:2].tolist() == [list(range(9))] * 2
    assert torch.equal(values[2].isnan().sum(), (~items.isfinite().all(-1)).sum())
    for count in (1, 9):
        memory = ItemMemory(torch.zeros(count, 64), quantized=True)
        values, indices = memory.cleanup(torch.full((64,), torch.nan), count)
        assert values.isnan().all() and indices.tolist() == list(range(count))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_bits_depend_on_the_query_and_the_item_alone(dtype):
    """Not on the batch, the other items, their order, the layout or the threads."""
    for dim in (3, 64, 300):
        items, query = normal(50, dim, dtype=dtype), normal(9, dim, seed=1, dtype=dtype)
        whole = ItemMemory(items, quantized=True).cleanup(query, 50)
        every = torch.empty_like(whole.values).scatter_(-1, whole.indices, whole.values)
        for row in (0, 8):
            assert torch.equal(ItemMemory(items, quantized=True).cleanup(query[row], 50).values, whole.values[row])
        shuffled = torch.randperm(50, generator=torch.Generator().manual_seed(0))[:30]
        found = ItemMemory(items[shuffled], quantized=True).cleanup(query.t().contiguous().t(), 7)
        assert torch.equal(found.values, every.gather(-1, shuffled[found.indices]))


def test_norms_neither_overflow_nor_underflow():
    for dtype, scales in ((torch.float32, (1e-30, 1e-10, 1e37)), (torch.float64, (1e-290, 1e-200, 1e300))):
        items, query = normal(20, 64, dtype=dtype), normal(6, 64, seed=1, dtype=dtype)
        for scale in scales:
            check(ItemMemory(items * scale, quantized=True).cleanup(query * scale, 3), query * scale, items * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_codes_are_within_their_bounds(kind, dtype):
    for dim in (1, 2, 100, 1023):
        rows = rows_of(kind, 12, dim, dtype)
        codes, bounds = quantize(rows)
        assert codes.dtype == torch.int8 and codes.shape == rows.shape and codes.min() >= -127
        assert bounds.dtype == torch.float32 and bounds.shape == (12, 2)
        unit, (scale, most) = units(rows), bounds.double().numpy().T
        finite, zero = np.isfinite(unit).all(-1), (rows == 0).all(-1).numpy()
        rest = np.linalg.norm(unit - scale[:, None] * codes.double().numpy(), axis=-1)
        np.testing.assert_allclose(scale[finite], np.abs(unit[finite]).max(-1) / 127, rtol=1e-6)
        assert (rest[finite] <= most[finite]).all() and (most[finite] <= rest[finite] * 1.01 + 2e-6).all()
        assert (most[finite] <= 0.51 * scale[finite] * dim**0.5 + 2e-6).all() and not bounds[zero].any()
        assert np.isinf(most[~finite]).all() and not scale[~finite].any() and not codes[~finite].any()
        for row in (0, 7):
            assert all(map(torch.equal, quantize(rows[row : row + 1]), (codes[row : row + 1], bounds[row : row + 1])))


def coded_rows(rows, places, slots, capacity=0):
    coded = QuantizedRows(rows.shape[1], capacity)
    coded.put(slots, rows, places)
    table = torch.full((len(coded.codes), rows.shape[1]), 7.0, dtype=rows.dtype)
    table[slots] = rows
    return coded, table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 5, 300])
def test_rows_may_be_absent_in_any_order_and_fetched(kind, dim, monkeypatch):
    """The same bits from a table and from rows that are fetched by their places, in blocks."""
    monkeypatch.setattr("torch_hrr.hrr._quantized._ELEMENTS", 7 * dim)
    monkeypatch.setattr("torch_hrr.hrr._quantized._ESTIMATES", 150)
    rows = rows_of(kind, 40, dim)
    torch.set_default_dtype((torch.float32, torch.float64, torch.bfloat16)[dim % 3])
    draw = torch.Generator().manual_seed(dim)
    slots, places = torch.randperm(80, generator=draw)[:40], torch.randperm(80, generator=draw)[:40]
    coded, table = coded_rows(rows, places.tolist(), slots.tolist(), 80)
    coded.remove(slots[30:].tolist())
    assert len(coded) == 30
    by_place = dict(zip(places.tolist(), rows, strict=True))
    query = torch.cat([normal(3, dim, seed=2), rows[:1], torch.zeros_like(rows[:1])])
    query[1, 0] = torch.nan

    def fetch(wanted):
        assert (wanted.diff() > 0).all() and len(wanted) <= 7 and wanted.dtype == torch.int64
        return torch.stack([by_place[place] for place in wanted.tolist()])

    # A memory of the present rows in the order of their places.
    order = places[:30].argsort()
    memory = ItemMemory(rows[:30][order], quantized=True)
    for top_k in (1, 4, 30):
        expected = memory.cleanup(query, top_k)
        for source in (table, fetch):
            values, found = coded.nearest(query, source, top_k)
            assert torch.equal(found, places[:30][order][expected.indices])
            torch.testing.assert_close(values, expected.values, rtol=0, atol=0, equal_nan=True)
    assert [each.shape for each in coded.nearest(query[:0], fetch, 2)] == [(0, 2)] * 2
    assert coded.nearest(query[0].double(), fetch, 2)[0].dtype == torch.float64


def test_few_rows_are_fetched_and_no_setting_of_products_loses_one():
    rows = normal(3000, 512)
    coded, table = coded_rows(rows, range(3000), range(3000), 3000)
    query = rows[:20] + 2 * normal(20, 512, seed=1)
    fetched = []

    def fetch(wanted):
        fetched.extend(wanted.tolist())
        return rows[wanted]

    expected = coded.nearest(query, table, 5)
    for precision in ("highest", "medium"):
        torch.set_float32_matmul_precision(precision)
        try:
            with torch.autocast("cpu", torch.bfloat16):
                found = coded.nearest(query, fetch, 5)
        finally:
            torch.set_float32_matmul_precision("highest")
        assert all(map(torch.equal, found, expected))
        assert len(set(fetched)) == len(fetched) < 1500
        fetched.clear()


def test_slots_grow_by_doubling_and_places_close_up():
    coded, rows = QuantizedRows(4), normal(100, 4)
    sizes = set()
    for slot in range(100):
        coded.put([slot], rows[slot : slot + 1], [slot])
        sizes.add(len(coded.codes))
    assert len(sizes) <= 9
    codes, bounds = quantize(rows)
    assert torch.equal(coded.codes[:100], codes) and torch.equal(coded.bounds[:100], bounds)
    coded.take_out(3)
    assert coded.places[:5].tolist() == [0, 1, 2, -1, 3] and len(coded) == 99 and coded.places[99] == 98
    coded.put([0], rows[9:10])
    assert torch.equal(coded.codes[0], codes[9]) and coded.places[0] == 0
    other = QuantizedRows(4)
    other.put_codes(range(100), codes, bounds, range(100))
    assert torch.equal(other.codes[:100], codes) and len(other) == 100


CHANGES = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True)),
    st.tuples(st.sampled_from(["update", "remove", "remove"]), st.integers(0, 9)),
    st.tuples(st.sampled_from(["double", "float", "copy"]), st.none()),
)


@laws
@given(st.integers(0, 4), st.lists(CHANGES, max_size=20))
def test_a_store_that_changes_answers_as_one_made_anew(capacity, changes):
    made = hrr.VectorStore(6, device="cpu", capacity=capacity, quantized=True)
    query, names = normal(3, 6, seed=99), [f"n{index}" for index in range(10)]
    for step, (action, argument) in enumerate(changes):
        # Few different rows, so that many cosines are equal.
        rows = normal(10, 6, seed=step % 4)
        if action == "add":
            fresh = [index for index in argument if names[index] not in made]
            made.add_many([names[index] for index in fresh], rows[fresh])
        elif action == "copy":
            made = copy.copy(made)
        elif action in ("double", "float"):
            getattr(made, action)()
        elif names[argument] in made:
            made.update(names[argument], rows[argument]) if action == "update" else made.remove(names[argument])
        # Few rows are searched without a look at the codes.
        coded, present = made._coded, list(made._entries.values())
        codes, bounds = quantize(made.vectors)
        assert torch.equal(coded.codes[present], codes) and torch.equal(coded.bounds[present], bounds)
        assert len(coded) == len(made) and coded.places[present].tolist() == list(range(len(made)))
        if not len(made):
            with pytest.raises(ValueError, match=r"^cleanup: store must have names, got none$"):
                made.cleanup(query)
            continue
        found, anew = made.cleanup(query, len(made)), ItemMemory(made, quantized=True).cleanup(query, len(made))
        assert all(map(torch.equal, found, anew)) and found.names == anew.names
        assert made.ask(query[0]) == found.names[0][0]
    made.verify()


@pytest.mark.parametrize("quantized", [False, True])
def test_stores_search_as_memories_do(quantized, tmp_path):
    store = hrr.VectorStore(64, device="cpu", quantized=quantized)
    rows = normal(5, 64)
    store.add_many(list("abcde"), rows)
    before = store.cleanup(rows[4])
    store.remove("b")
    store.update("a", rows[1])
    assert before.names == ["e"] and store.ask(rows[4]) == "e" and store.ask(rows[[1, 3]]) == ["a", "d"]
    assert store.cleanup(rows[4]).indices == 3 and store.names_of(3) == "e"
    assert repr(store).count("quantized=True") == quantized
    store.save(tmp_path / "store")
    for loaded in (hrr.VectorStore.load(tmp_path / "store"), copy.deepcopy(store), pickle.loads(pickle.dumps(store))):
        assert loaded._quantized is quantized and loaded.digest() == store.digest()
        assert torch.equal(loaded.cleanup(rows, 4).values, store.cleanup(rows, 4).values)
    with pytest.raises(ValueError, match=r"^cleanup: top_k must be 1 to 4, got 5$"):
        store.cleanup(rows, 5)
    with pytest.raises(IndexError, match=r"^names_of: indices must be 0 to 3, got 4$"):
        store.names_of(4)


def test_a_vocabulary_codes_what_it_declares(tmp_path):
    plain, words = (hrr.Vocabulary(256, seed=1, device="cpu", quantized=quantized) for quantized in (False, True))
    for each in (plain, words):
        each.populate("A; B; C = A * B")
        each.ask("A")
        each.add("D", normal(256))
        assert each.ask("C * ~A", 2)[0] == "B" and each.subset(["D", "A"]).ask(normal(256)) == "D"
    assert torch.equal(words.vectors, plain.vectors) and words.subset(["A"])._quantized
    words.save(tmp_path / "words")
    loaded = hrr.Vocabulary.load(tmp_path / "words")
    loaded.populate("E")
    assert loaded._quantized and loaded.ask(loaded["E"]) == "E" and "quantized=True" in repr(loaded)
    plain.save(tmp_path / "plain")
    assert b"quantized" not in (tmp_path / "plain").read_bytes()


def test_gradients_are_those_of_a_memory_that_is_not_quantized():
    items = normal(7, 12, dtype=torch.float64)
    memory, plain = (ItemMemory(items, quantized=quantized) for quantized in (True, False))
    query = normal(3, 12, seed=1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: memory.cleanup(x, 3)[0], query)
    assert torch.autograd.gradgradcheck(lambda x: memory.cleanup(x, 3)[0], query)
    (own,), (other,) = (torch.autograd.grad(each.cleanup(query, 3)[0].sin().sum(), query) for each in (memory, plain))
    torch.testing.assert_close(own, other)
    values, indices = memory.cleanup(query)
    assert values.requires_grad and not indices.requires_grad


def test_a_store_that_changes_leaves_gradients_alone():
    rows, query = normal(6, 12), normal(3, 12, seed=1)
    grads = []
    for quantized in (True, False):
        store = hrr.VectorStore(12, device="cpu", quantized=quantized)
        store.add_many([*"abcdef"], rows)
        store.remove("b")
        store.add("z", rows[1])
        found = store.cleanup(x := query.clone().requires_grad_(), 4)
        assert torch.equal(found.indices, store.cleanup(query, 4).indices)
        store.update("a", rows[2])
        store.remove("d")
        store.add("y", rows[3])
        grads += torch.autograd.grad(found.values.sin().sum(), x)
        assert store.cleanup(x[:0], 2).values.shape == (0, 2)
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_derivatives_at_zero_are_zero(dtype):
    queries = normal(4, 16, seed=2, dtype=dtype)
    queries[::2] = 0
    memory, x = ItemMemory(normal(5, 16, seed=1, dtype=dtype), quantized=True), queries.requires_grad_()
    (grad,) = torch.autograd.grad(memory.cleanup(x)[0].float().square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.float().sum(), x)
    assert grad.isfinite().all() and not grad[::2].any() and grad[1::2].any(-1).all() and grad.dtype == dtype
    assert second.isfinite().all() and not second[::2].any()


class Cleaning(torch.nn.Module):
    def __init__(self, quantized=True):
        super().__init__()
        self.memory = ItemMemory(normal(20, 32), [f"n{index}" for index in range(20)], quantized=quantized)

    def forward(self, x):
        return self.memory.cleanup(x, 3)


def test_graphs_and_transforms(tmp_path):
    model, query = Cleaning(), normal(4, 32, seed=1)
    expected = model(query)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    exported = torch.export.export(model, (query,)).module()
    for function in (compiled, exported, torch.func.vmap(model)):
        values, indices = function(query)
        assert torch.equal(indices, expected.indices)
        torch.testing.assert_close(values, expected.values)
    assert compiled(query).names == expected.names
    grads = [torch.func.grad(lambda x, each=each: each(x)[0].sum())(query) for each in (model, Cleaning(False))]
    torch.testing.assert_close(*grads)
    with torch.inference_mode():
        memory = ItemMemory(normal(7, 32), quantized=True)
        store = hrr.VectorStore(32, device="cpu", quantized=True)
        store.add("a", query[0])
        memory.save(tmp_path / "memory")
        loaded = [ItemMemory.load(tmp_path / "memory", mapped=mapped) for mapped in (True, False)]
    store.add("b", query[1])
    for each in (memory, store, *loaded):
        each.cleanup(query.clone().requires_grad_())[0].sum().backward()
    with torch.autocast("cpu", torch.bfloat16):
        assert all(map(torch.equal, model(query), expected))
    there = ItemMemory(normal(7, 32).to("meta"), quantized=True)
    assert there.cleanup(query.to("meta"), 2).indices.shape == (4, 2)
    with pytest.raises(ValueError, match=r"^ask: query must hold data, got a meta tensor$"):
        ItemMemory(there.vectors, list("abcdefg")).ask(query.to("meta"))
    assert there.to_empty(device="cpu").device.type == "cpu"


def test_conversions_make_the_codes_again():
    memory, query = ItemMemory(normal(9, 16, dtype=torch.float64), quantized=True), normal(2, 16, seed=1)
    for dtype in (torch.float16, torch.float64, torch.float32):
        assert memory.to(dtype) is memory
        anew = ItemMemory(memory.vectors, quantized=True)
        assert all(map(torch.equal, memory._codes, anew._codes))
        assert all(map(torch.equal, memory.cleanup(query, 9), anew.cleanup(query, 9)))


def test_files_and_states(tmp_path):
    items, names, query = normal(9, 16), [*"abcdefghi"], normal(2, 16, seed=1)
    coded, plain = (ItemMemory(items, names, quantized=quantized) for quantized in (True, False))
    coded.save(tmp_path / "coded")
    plain.save(tmp_path / "plain")
    for file, wanted, expected in (
        ("coded", None, True), ("coded", False, False), ("plain", None, False), ("plain", True, True),
    ):  # fmt: skip
        loaded = ItemMemory.load(tmp_path / file, quantized=wanted)
        assert loaded._quantized is expected and loaded.names == (*names,) and torch.equal(loaded.vectors, items)
        assert all(map(torch.equal, loaded.cleanup(query, 4), (coded if expected else plain).cleanup(query, 4)))
    assert isinstance(torch_hrr.load(tmp_path / "coded", quantized=False), ItemMemory)
    tensors, said = torch_hrr.io.load(tmp_path / "coded", format="torch_hrr.item_memory")
    for wrong in (
        {"codes": tensors["codes"].short()}, {"bounds": -tensors["bounds"]}, {"codes": tensors["codes"][1:]}
    ):  # fmt: skip
        torch_hrr.io.save(tmp_path / "bad", {**tensors, **wrong}, said, format="torch_hrr.item_memory", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must describe a ItemMemory, got codes and bounds that no"):
            ItemMemory.load(tmp_path / "bad")
    # As device and dtype, whether it is quantized stays.
    for source, target in ((coded, plain), (plain, coded)):
        kept = copy.deepcopy(target)
        other = ItemMemory(normal(2, 16), quantized=kept._quantized)
        other.load_state_dict(source.state_dict())
        assert other._quantized is kept._quantized
        assert all(map(torch.equal, other.cleanup(query, 4), kept.cleanup(query, 4)))


def test_an_edited_state_is_searched_as_it_is():
    items, query = normal(3000, 16), normal(4, 16, seed=1)
    memory = ItemMemory(items, quantized=True)
    state = memory.state_dict()
    assert "codes" not in state
    state["vectors"] = items.roll(1, 0) * 2
    memory.load_state_dict(state)
    assert memory._quantized
    check(memory.cleanup(query, 3), query, items.roll(1, 0))


def is_mapped(tensor, path):
    maps = [
        line.split() for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if line.endswith(str(path))
    ]
    spans = [[int(end, 16) for end in line[0].split("-")] for line in maps]
    return any(low <= tensor.data_ptr() < high for low, high in spans)


def test_items_may_stay_in_the_file(tmp_path):
    items, query = normal(50, 64), normal(3, 64, seed=1)
    memory, path = ItemMemory(items, quantized=True), tmp_path / "memory"
    expected = memory.cleanup(query, 7)
    for saved in (memory, ItemMemory(items)):
        saved.save(path, key=b"key")
        for verify in (True, False):
            loaded = ItemMemory.load(path, b"key", mapped=True, verify=verify)
            assert is_mapped(loaded._vectors, path) and not any(is_mapped(each, path) for each in loaded._codes)
            assert all(map(torch.equal, loaded.cleanup(query, 7), expected)) and torch.equal(loaded.vectors, items)
    assert torch_hrr.load(path, b"key", mapped=True)._quantized
    # What is made of it holds its own items.
    for own in (copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded)), copy.copy(loaded).double()):
        assert not is_mapped(own._vectors, path)
        assert torch.equal(own.cleanup(query, 7).indices, expected.indices)
    loaded.save(path)
    assert all(map(torch.equal, ItemMemory.load(path).cleanup(query, 7), expected))
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(torch_hrr.IntegrityError, match="damaged"):
        ItemMemory.load(path, mapped=True)
    for options, error, message in (
        ({"device": "meta"}, ValueError, "device must be the CPU for a mapped memory, got meta"),
        ({"quantized": False}, ValueError, "quantized must be True for a mapped memory, got False"),
        ({"mapped": 1}, TypeError, "mapped must be a bool, got int"),
        ({"quantized": "no"}, TypeError, "quantized must be a bool, got str"),
        ({"verify": None}, TypeError, "verify must be a bool, got NoneType"),
    ):
        with pytest.raises(error, match=f"^load: {message}$"):
            ItemMemory.load(path, **{"mapped": True, **options})


def test_a_memory_is_made_of_what_has_names():
    words, store = hrr.Vocabulary(64, device="cpu"), hrr.VectorStore(64, device="cpu", quantized=True)
    words.populate("A; B")
    store.add_many(["x", "y"], normal(2, 64))
    for source in (words, store, ItemMemory(normal(2, 64), ["x", "y"])):
        for quantized in (False, True):
            memory = ItemMemory(source, quantized=quantized)
            assert memory.names == source.names and torch.equal(memory.vectors, source.vectors)
            assert memory.ask(source.vectors) == list(source.names)
        assert ItemMemory(source, ["p", "q"]).names == ("p", "q")
    with pytest.raises(ValueError, match=r"^ItemMemory: vectors must be \[N, D\] with N, D >= 1, got \[0, 8\]$"):
        ItemMemory(hrr.VectorStore(8))
