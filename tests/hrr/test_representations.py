"""How the objects that hold vectors show themselves, and a record as a collection of its roles."""

import pytest
import torch

from torch_hrr import hrr

HALF = torch.float16


def draw(n, dim=16):
    return hrr.random(n, dim, torch.Generator().manual_seed(0), device="cpu")


def filled(structure, add, *arguments):
    getattr(structure, add)(*arguments)
    return structure


def vocabulary():
    words = hrr.Vocabulary(512, device="cpu")
    words.populate("A; B; C")
    return words


def record(*fillers):
    made = hrr.Record(dict(zip("abc", draw(3), strict=True)))
    for name in fillers:
        made.set(name, draw(1)[0])
    return made


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (vocabulary, "Vocabulary(dim=512, names=['A', 'B', 'C'], dtype=float32, seed=0, unitary=False)"),
        (
            lambda: filled(hrr.VectorStore(16, device="cpu", dtype=HALF), "add", "a", draw(1)[0]),
            "VectorStore(dim=16, names=['a'], dtype=float16)",
        ),
        (lambda: hrr.ItemMemory(draw(5).double()), "ItemMemory(dim=16, items=5, dtype=float64)"),
        (lambda: record("a"), "Record(dim=16, roles=['a', 'b', 'c'], filled=1, dtype=float32)"),
        (
            lambda: filled(hrr.Sequence(16, device="cpu"), "extend", draw(4)),
            "Sequence(dim=16, seed=0, length=4, dtype=float32)",
        ),
        (
            lambda: hrr.Stack(16, device="meta", dtype=HALF),
            "Stack(dim=16, seed=0, length=0, dtype=float16, device=meta)",
        ),
        (lambda: hrr.Graph(16, device="cpu"), "Graph(dim=16, seed=0, directed=True, dtype=float32)"),
        (lambda: hrr.Graph(16, False, device="cpu"), "Graph(dim=16, seed=0, directed=False, dtype=float32)"),
        (lambda: hrr.HashTable(16, device="cpu"), "HashTable(dim=16, seed=0, dtype=float32)"),
        (lambda: hrr.Resonator([draw(20), draw(3)]), "Resonator(dim=16, codebooks=[20, 3], seed=0, dtype=float32)"),
    ],
)
def test_representation(make, expected):
    assert repr(make()) == expected


def test_a_record_is_a_collection_of_its_filled_roles():
    made = record("b", "a", "b")
    assert list(made) == ["b", "a"] and len(made) == 2
    assert torch.equal(made["a"], made.get("a"))
    assert list(record()) == []
    with pytest.raises(KeyError, match=r"role must be one of \['a', 'b', 'c'\], got 'd'"):
        made["d"]


def test_vectors_are_drawn_from_a_normal_distribution_of_variance_1_by_d():
    expected = torch.randn(2, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 4
    assert torch.equal(draw(2), expected.float())
