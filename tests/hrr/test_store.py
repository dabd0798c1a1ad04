"""The store against a dict, its fingerprints against hashlib, and damage in memory."""

import copy
import hashlib
import json
import os
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr import IntegrityError
from torch_hrr.hrr.store import VectorStore

DIM = 3
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
laws = settings(max_examples=150, derandomize=True, database=None, deadline=None)


def vector(value, dim=DIM, dtype=torch.float32):
    return torch.arange(dim, dtype=dtype) + value


def store(count=3, **options):
    made = VectorStore(**{"dim": DIM, "device": "cpu", **options})
    for index in range(count):
        made.add(f"n{index}", vector(index))
    return made


def assert_holds(found, expected):
    """The same names in the same order, and the same vectors whichever way they are read."""
    assert len(found) == len(expected)
    assert list(found) == list(found.names) == list(expected)
    assert found.vectors.shape == (len(expected), found.dim)
    for row, (name, value) in zip(found.vectors, expected.items(), strict=True):
        assert name in found
        assert torch.equal(found[name], value) and torch.equal(row, value)
    backwards = list(reversed(list(expected)))
    assert torch.equal(found.get_many(backwards), found.vectors.flip(0))
    found.verify()


def rebuilt(expected, **options):
    made = VectorStore(DIM, device="cpu", **options)
    made.add_many(list(expected), torch.stack(list(expected.values())) if expected else torch.empty(0, DIM))
    return made


CHANGES = st.one_of(
    st.tuples(st.just("add"), st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True)),
    st.tuples(st.just("update"), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.integers(0, 9)),
    st.tuples(st.just("to"), st.none()),
)


@laws
@given(st.integers(0, 4), st.lists(CHANGES, max_size=25))
def test_it_behaves_as_a_dict(capacity, changes):
    found, expected = VectorStore(DIM, device="cpu", capacity=capacity), {}
    peak = 0
    for step, (action, argument) in enumerate(changes):
        if action == "add":
            fresh = [f"n{index}" for index in argument if f"n{index}" not in expected]
            rows = [vector(step + index / 16) for index in range(len(fresh))]
            if len(fresh) == 1:
                found.add(fresh[0], rows[0])
            else:
                found.add_many(fresh, torch.stack(rows) if rows else torch.empty(0, DIM))
            expected.update(zip(fresh, rows, strict=True))
        elif action == "to":
            assert found.to("cpu") is found
        elif f"n{argument}" not in expected:
            with pytest.raises(KeyError):
                found.update(f"n{argument}", vector(0)) if action == "update" else found.remove(f"n{argument}")
        elif action == "update":
            found.update(f"n{argument}", vector(step))
            expected[f"n{argument}"] = vector(step)
        else:
            found.remove(f"n{argument}")
            del expected[f"n{argument}"]
        peak = max(peak, len(expected))
        assert_holds(found, expected)
    # Geometric growth, and rows that are freed are used again.
    assert peak <= found.capacity <= max(capacity, 2 * peak)
    assert found.digest() == rebuilt(expected).digest()


def test_growth_is_geometric():
    made, sizes = VectorStore(2, device="cpu", capacity=0), set()
    for index in range(1000):
        made.add(str(index), torch.full((2,), float(index)))
        sizes.add(made.capacity)
    assert len(sizes) <= 11
    assert torch.equal(made.vectors[:, 0], torch.arange(1000.0))


def test_vectors_are_copies_both_ways():
    made, given_vector = VectorStore(DIM, device="cpu"), vector(1)
    made.add("a", given_vector)
    given_vector.zero_()
    for taken in (made["a"], made.vectors, made.get_many(["a"]), next(iter(made.values())), made.get("a")):
        taken.zero_()
    assert_holds(made, {"a": vector(1)})


def test_a_removed_vector_is_forgotten():
    made = store()
    made.remove("n1")
    assert not (made._rows == vector(1)).all(-1).any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_rounded_to_the_stores_dtype(dtype):
    made = VectorStore(4, device="cpu", dtype=dtype)
    values = torch.tensor([1 / 3, -0.0, 1e-3, 2.0], dtype=torch.float64)
    made.add("a", values)
    made.add("b", torch.stack([values, values], 1)[:, 0].requires_grad_())
    made.add("c", torch._neg_view(-values))
    assert made["a"].dtype == made.dtype == dtype and not made["b"].requires_grad
    for name in "abc":
        assert torch.equal(made[name], values.to(dtype))
        assert made[name][1].signbit()
    made.verify()


def test_it_is_a_mapping():
    made = store()
    assert [name for name, _ in made.items()] == list(made.keys()) == ["n0", "n1", "n2"]
    assert "n0" in made and "x" not in made and 1 not in made
    assert made.get("x") is None and made == made and made != store() and hash(made) == hash(made)
    assert (made.dim, made.dtype, made.device.type, made.capacity) == (DIM, torch.float32, "cpu", 64)
    assert VectorStore().dim == 512
    assert made.get_many([]).shape == (0, DIM)
    assert torch.equal(made.get_many(["n2", "n0", "n2"]), torch.stack([vector(2), vector(0), vector(2)]))


def test_the_digest_is_what_its_docstring_says():
    values = struct.pack("<6f", 0, 1, 2, 1, 2, 3)
    tensors = {"vectors": {"dtype": "F32", "sha256": hashlib.sha256(values).hexdigest(), "shape": [2, 3]}}
    content = {"metadata": {"names": ["n0", "n1"]}, "tensors": tensors}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert store(2).digest() == hashlib.sha256(text.encode()).hexdigest()


def test_the_digest_sees_content_and_nothing_else():
    base = {"a": vector(1), "b": vector(2)}
    digest = rebuilt(base).digest()
    assert rebuilt(base, capacity=0).digest() == rebuilt(base, capacity=100).digest() == digest
    detour = rebuilt({"x": vector(9), "a": vector(5)})
    detour.add("b", vector(2))
    detour.remove("x")
    detour.update("a", vector(1))
    assert detour.digest() == digest
    negative = {"a": vector(1), "b": torch.tensor([2.0, 3.0, 4.0]).nextafter(torch.zeros(DIM))}
    zeros, minus = ({"a": torch.tensor([zero, 1.0, 1.0])} for zero in (0.0, -0.0))
    others = [
        rebuilt({"b": vector(2), "a": vector(1)}),
        rebuilt({"a": vector(2), "b": vector(1)}),
        rebuilt({"a": vector(1), "c": vector(2)}),
        rebuilt({"a": vector(1)}),
        rebuilt(negative),
        rebuilt(base, dtype=torch.float64),
        rebuilt(zeros),
        rebuilt(minus),
        rebuilt({}),
        rebuilt({}, dtype=torch.float64),
        VectorStore(DIM + 1, device="cpu"),
    ]
    assert len({digest, *(other.digest() for other in others)}) == 1 + len(others)


def test_verify_finds_every_changed_byte(tmp_path):
    made = store(capacity=5)
    made.remove("n1")
    digest = made.digest()
    raw = made._rows.view(torch.uint8)
    seen = 0
    for row in range(5):
        for column in range(raw.shape[1]):
            raw[row, column] ^= 1 << column % 8
            owner = [name for name, its in made._entries.items() if its == row]
            if owner:
                seen += 1
                with pytest.raises(IntegrityError, match=rf"^verify: vectors must .*, got others for '{owner[0]}'$"):
                    made.verify()
                with pytest.raises(IntegrityError, match=r"^save: vectors must be as they were last written"):
                    made.save(tmp_path / "never")
                assert made.digest() != digest
            raw[row, column] ^= 1 << column % 8
            made.verify()
    assert seen == 2 * raw.shape[1] and made.digest() == digest
    assert os.listdir(tmp_path) == []


def test_a_change_through_the_store_is_no_damage():
    made = store(8)
    made._rows.add_(1)
    with pytest.raises(IntegrityError, match=r"got others for 'n0', 'n1', 'n2', 'n3', 'n4' and more$"):
        made.verify()
    for index in range(8):
        made.update(f"n{index}", vector(index))
    made.verify()


NAN, INF = torch.tensor([0.0, float("nan"), 0.0]), torch.tensor([0.0, float("inf"), 0.0])
BAD_VECTORS = [
    ([1.0, 2.0, 3.0], TypeError, "must be a torch.Tensor or a NumPy array, got list"),
    (torch.ones(DIM, dtype=torch.int64), TypeError, "must be float32, .* got torch.int64"),
    (torch.ones(DIM, dtype=torch.complex64), TypeError, "must be float32, .* got torch.complex64"),
    (torch.ones(DIM).to_sparse(), TypeError, "must be strided, got torch.sparse_coo"),
    (torch.ones(DIM + 1), ValueError, r"must have shape \[3\], got \[4\]"),
    (torch.ones(1, DIM), ValueError, r"must have shape \[3\], got \[1, 3\]"),
    (torch.tensor(1.0), ValueError, r"must have shape \[3\], got \[\]"),
    (torch.ones(DIM, device="meta"), ValueError, "must hold data, got a meta tensor"),
    (NAN, ValueError, "must be finite in torch.float32, got NaN or infinity"),
    (INF, ValueError, "must be finite in torch.float32, got NaN or infinity"),
    (
        torch.full((DIM,), 1e300, dtype=torch.float64),
        ValueError,
        "must be finite in torch.float32, got NaN or infinity",
    ),
]


@pytest.mark.parametrize(("bad", "error", "message"), BAD_VECTORS)
def test_bad_vectors_are_refused(bad, error, message):
    made = store()
    with pytest.raises(error, match=f"^add: vector {message}"):
        made.add("new", bad)
    with pytest.raises(error, match=f"^update: vector {message}"):
        made.update("n0", bad)
    assert_holds(made, dict(store()))


@pytest.mark.parametrize(
    ("names", "vectors", "error", "message"),
    [
        (["a", "n1"], torch.ones(2, DIM), ValueError, "name must be new, got 'n1'"),
        (["a", "a"], torch.ones(2, DIM), ValueError, "names must be different, got 'a' twice"),
        (["a", "b"], torch.ones(3, DIM), ValueError, r"vectors must have shape \[2, 3\], got \[3, 3\]"),
        (["a", "b"], torch.stack([INF, NAN]), ValueError, "vectors must be finite in torch.float32"),
        (["a", 1], torch.ones(2, DIM), TypeError, r"names must be a sequence of str, got \['a', 1\]"),
        ("ab", torch.ones(2, DIM), TypeError, "names must be a sequence of str, got 'ab'"),
        ({"a", "b"}, torch.ones(2, DIM), TypeError, "names must be a sequence of str, got "),
        (dict(a=0, b=1).keys(), torch.ones(2, DIM), TypeError, "names must be a sequence of str, got dict_keys"),
        (3, torch.ones(2, DIM), TypeError, "names must be a sequence of str, got 3"),
        (["a", "\ud800"], torch.ones(2, DIM), ValueError, "name must be valid Unicode, got "),
    ],
)
def test_add_many_is_all_or_nothing(names, vectors, error, message):
    made = store(capacity=3)
    with pytest.raises(error, match=f"^add_many: {message}"):
        made.add_many(names, vectors)
    assert_holds(made, dict(store()))
    assert made.capacity == 3


def test_names_must_be_known_or_new():
    made = store()
    with pytest.raises(ValueError, match=r"^add: name must be new, got 'n1'$"):
        made.add("n1", vector(0))
    with pytest.raises(TypeError, match=r"^add: name must be str, got int$"):
        made.add(1, vector(0))
    for op, call in {
        "VectorStore": lambda: made["x"],
        "update": lambda: made.update("x", vector(0)),
        "remove": lambda: made.remove("x"),
        "get_many": lambda: made.get_many(["n0", "x"]),
    }.items():
        with pytest.raises(KeyError, match=f"{op}: name must be known, got 'x'"):
            call()
    for names in ("n0", {"n0"}, ["n0", 1], None):
        with pytest.raises(TypeError, match=r"^get_many: names must be a sequence of str, got "):
            made.get_many(names)
    assert_holds(made, dict(store()))


def test_a_store_must_be_where_data_is():
    with pytest.raises(ValueError, match=r"^VectorStore: device must hold data, got meta"):
        VectorStore(device="meta")


def test_a_failed_growth_or_move_changes_nothing(monkeypatch):
    made, expected = store(capacity=3), dict(store())

    def full(*arguments):
        raise torch.OutOfMemoryError("injected")

    with monkeypatch.context() as patch:
        patch.setattr(VectorStore, "_allocate", full)
        for call in (lambda: made.add("new", vector(0)), lambda: made.to("cpu")):
            with pytest.raises(torch.OutOfMemoryError):
                call()
        assert_holds(made, expected)
    with pytest.raises(ValueError, match=r"^to: device must hold data, got meta$"):
        made.to("meta")
    made.add("new", vector(7))
    assert_holds(made, {**expected, "new": vector(7)})


def test_inference_mode_leaves_no_trace():
    with torch.inference_mode():
        made = store(2, capacity=1)
        made.to("cpu")
    made.update("n0", vector(5))
    made["n1"].requires_grad_().sum().backward()
    assert_holds(made, {"n0": vector(5), "n1": vector(1)})


def test_a_copy_shares_nothing():
    store = VectorStore(4, capacity=1)
    store.add("a", torch.ones(4))
    copied = copy.copy(store)
    copied.add("b", torch.zeros(4))
    assert list(store) == ["a"] and list(copied) == ["a", "b"]
    store.verify()
    copied.verify()


def test_a_store_that_cannot_be_is_refused():
    for sizes in ({"capacity": 2**62}, {"dim": 2**59, "capacity": 0}):
        with pytest.raises(ValueError, match=r"^VectorStore: the vectors must have fewer than 2\^59 elements"):
            VectorStore(**sizes)
