"""Vectors with operators: each is its function, in graphs and copies too, and nothing else changes."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch

from torch_hrr import hrr
from torch_hrr.hrr import Vector

X = torch.randn(2, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
Y = torch.randn(16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
INVOLUTION = -torch.arange(16) % 16

# What is written with operators, what it means, and whether it is a Vector.
OPERATORS = {
    "bind": (lambda a, b: a * b, hrr.bind, True),
    "multiple": (lambda a, b: 2 * a / 3 * torch.tensor(2.0), lambda a, b: 4 * a / 3, True),
    "involution": (lambda a, b: ~a, lambda a, b: a[..., INVOLUTION], True),
    "unbind": (lambda a, b: a * ~b, hrr.unbind, True),
    "sum": (lambda a, b: a + b - 2 * -a, lambda a, b: 3 * a + b, True),
    "after": (lambda a, b: a.relu() * b, lambda a, b: hrr.bind(a.relu(), b), True),
    "power": (lambda a, b: a**0.5, lambda a, b: hrr.bind_power(a, 0.5), True),
    "powers": (lambda a, b: a ** b.sum(), lambda a, b: hrr.bind_power(a, b.sum()), True),
    "elementwise": (lambda a, b: torch.mul(a, b), torch.mul, False),
    "function": (lambda a, b: hrr.bind(a, b), hrr.bind, False),
    "dot": (lambda a, b: a @ b, torch.matmul, False),
    "similarity": (lambda a, b: a.similarity(b), lambda a, b: torch.cosine_similarity(a, b, -1), False),
    "normalized": (lambda a, b: a.normalized(), lambda a, b: torch.nn.functional.normalize(a, dim=-1), True),
    "unitary": (lambda a, b: a.unitary(), lambda a, b: hrr.unitary(a), True),
}  # fmt: skip


def plain(x):
    return x.as_subclass(torch.Tensor)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_functions(name):
    written, meant, gives_vector = OPERATORS[name]
    torch._dynamo.reset()
    compiled = torch.compile(written, backend="aot_eager")
    for call in (written, compiled):
        found = call(Vector(X), Vector(Y))
        assert type(found) is (Vector if gives_vector else torch.Tensor)
        torch.testing.assert_close(plain(found), meant(X, Y))


@pytest.mark.parametrize("name", ["bind", "unbind", "after", "sum"])
def test_a_whole_graph_holds_the_operators(name):
    torch._dynamo.reset()
    found = torch.compile(OPERATORS[name][0], backend="aot_eager", fullgraph=True)(Vector(X), Vector(Y))
    torch.testing.assert_close(plain(found), OPERATORS[name][1](X, Y))


@pytest.mark.parametrize("name", ["involution", "normalized", "function"])
def test_vectors_that_a_graph_makes(name):
    torch._dynamo.reset()
    written, meant, _ = OPERATORS[name]
    found = torch.compile(lambda a, b: written(Vector(a), Vector(b)), backend="eager")(X, Y)
    torch.testing.assert_close(plain(found), meant(X, Y))


def test_one_among_the_operands_is_enough():
    for found in (X * Vector(Y), Vector(X) * Y, torch.ones(2, 1, 16) * Vector(Y)):
        assert type(found) is Vector
    assert torch.equal(X * Vector(Y), hrr.bind(X, Y)) and type(sum([Vector(X), Vector(Y)])) is Vector


def test_in_place_is_in_place():
    made = Vector(X.clone())
    same = made
    made *= Vector(Y)
    made *= 2
    made **= 2
    assert made is same
    torch.testing.assert_close(plain(made), hrr.bind_power(2 * hrr.bind(X, Y), 2))


def test_conversions_and_copies_are_vectors():
    made = Vector(Y)
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    again = [copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made)), torch.load(file), made.to("cpu")]
    for each in (*again, made.clone(), made.detach(), torch.nn.Parameter(made)):
        assert type(each) is Vector and torch.equal(each, Y)
    for each in (made.float(), made.type(torch.float32), made.type_as(Y.float())):
        assert type(each) is Vector and each.dtype == torch.float32
    assert made.type() == Y.type() and type(made.type(torch.int64)) is torch.Tensor
    for each in (torch.stack([made, made]), made[:3], made.sum(), made == made):
        assert type(each) is torch.Tensor
    held = copy.deepcopy([made.requires_grad_(), made])
    assert held[0] is held[1] is not made and held[0].requires_grad
    with pytest.raises(RuntimeError, match=r"^Vector: a deep copy must be of a leaf"):
        copy.deepcopy(made * made)


def test_parameters_and_buffers_stay_what_they_are():
    made = torch.nn.Module()
    made.weight = torch.nn.Parameter(Vector(Y))
    made.register_buffer("key", Vector(Y.clone()))
    assert made.weight.to(torch.float64) is made.weight
    copied, empty = copy.deepcopy(made), copy.deepcopy(made).to("meta").to_empty(device="cpu")
    for each in (copied, empty):
        assert isinstance(each.weight, torch.nn.Parameter) and each.weight.is_leaf and each.weight.requires_grad
        assert type(each.weight) is type(each.key) is Vector


def test_optimizers_multiply_elements():
    parameters = [torch.nn.Parameter(kind(Y.clone())) for kind in (Vector, torch.Tensor)]
    for parameter in parameters:
        parameter.grad = Y.cos()
        torch.optim.Adadelta([parameter], lr=1.0, weight_decay=0.1, foreach=False).step()
    torch.testing.assert_close(plain(parameters[0]), parameters[1])


def test_gradients_pass_through():
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: plain(Vector(a) * ~Vector(b) + Vector(a) ** 2), (x, y))


def test_what_is_no_operand():
    made = Vector(Y)
    for wrong in (lambda: 2**made, lambda: made**made, lambda: made * "A", lambda: made ** "A", lambda: Vector([1.0]),
                  lambda: np.ones(16) * made, lambda: made * np.ones(16), lambda: Vector(torch.arange(3))):  # fmt: skip
        with pytest.raises(TypeError):
            wrong()
    assert type(2j * made) is torch.Tensor
    for wrong in (lambda: made * Y[:3], lambda: Vector(torch.tensor(1.0))):
        with pytest.raises(ValueError, match="must have"):
            wrong()


def test_square_brackets_give_vectors_and_ask_gives_names():
    words = hrr.Vocabulary(256, seed=1)
    words.populate("A; B; X; Y; PAIR = A * X + B * Y")
    store, items = hrr.VectorStore(256), hrr.Sequence(256)
    store.add("A", words["A"])
    items.append(words["X"])
    items.append(words["Y"])
    record = hrr.Record({"a": words["A"], "b": words["B"]})
    record["a"] = words["X"]
    record["b"] = words["Y"]
    assert "a" in record and len(record) == 2
    table, graph = hrr.HashTable(256), hrr.Graph(256)
    table.add(words["A"], words["X"])
    graph.add(words["A"], words["X"])
    found = {"X": record["a"], "Y": items[-1], "A": store["A"]}
    for name, each in (*found.items(), ("X", table[words["A"]]), ("X", graph[words["A"]])):
        assert type(each) is Vector and words.ask(each) == name
    assert torch.equal(words["PAIR"], words["A"] * words["X"] + words["B"] * words["Y"])
    assert words.ask("PAIR * ~A") == words.ask(words["PAIR"] * ~words["A"]) == "X"
    assert words.ask(torch.stack([words["A"], words["B"]])) == ["A", "B"]
    with pytest.raises(ValueError, match=r"^ask: query must be finite, got NaN or infinity$"):
        words.ask(words["A"] * math.nan)
    assert [each[0] for each in words.ask(words.vectors[None, :2], 2)[0]] == ["A", "B"]
    assert [len(found) for found in (words.ask("A", 3), items)] == [3, 2]
    del record["a"]
    assert list(record) == ["b"]
    with pytest.raises(KeyError, match=r"^.remove: role must be one of"):
        del record["a"]
    with pytest.raises(ValueError, match=r"^ask: memory must have names, got None$"):
        hrr.ItemMemory(words.vectors).ask(words["A"])
    with pytest.raises(ValueError, match=r"^ask: vocabulary must have names, got none$"):
        hrr.Vocabulary().ask("1")


def test_autocast_does_not_round_a_similarity():
    a, b = Vector(X.float()), Y.float()
    with torch.autocast("cpu", torch.bfloat16):
        found = a.similarity(b)
    assert found.dtype == torch.float32 and torch.equal(found, a.similarity(b))
