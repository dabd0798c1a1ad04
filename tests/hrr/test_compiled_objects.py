"""Objects that change, inside functions that torch.compile runs: a graph ends at each call, results are the same."""

import pytest
import torch

import torch_hrr
from torch_hrr import hrr

DIM = 16
X = torch.randn(6, DIM, generator=torch.Generator().manual_seed(0))


def a_store(x):
    store = hrr.VectorStore(DIM, device="cpu", capacity=1)
    store.add("a", x[0] * 2)
    store.add_many(["b", "c"], x[1:3])
    store.update("a", x[3])
    store.remove("b")
    store.verify()
    return store["a"] + 1, store.vectors


def a_vocabulary(x):
    words = hrr.Vocabulary(DIM, device="cpu", strict=False, max_similarity=0.9)
    words.add("A", x[0] * 2)
    words.populate("B.unitary(); C = A * B")
    some = words.subset(["A", "B"])
    parsed = words.parse("(A * ~B).normalized() + D")
    transform = words.transform_to(some, ["D", "A"], populate=True, least_squares=True)
    return words["C"] + 1, parsed, *words.cleanup(x[1]), some["D"], transform @ x[0]


def a_memory(x):
    memory = hrr.ItemMemory(torch.cat([x, x]) * 2)
    return memory.vectors + 1, *memory.cleanup(x[2] + x[3], 3)


def a_quantized_memory(x):
    memory = hrr.ItemMemory(torch.cat([x, x]) * 2, quantized=True)
    store = hrr.VectorStore(DIM, device="cpu", quantized=True)
    store.add_many(["a", "b", "c"], x[:3])
    store.remove("a")
    return *memory.cleanup(x[2] + x[3], 3), *store.cleanup(x[1], 2)


def a_record(x):
    record = hrr.Record({"a": x[0], "b": x[1]})
    record.set("a", x[2])
    record.set("b", x[3] * 2)
    return record.vector, record.get("a"), record["b"]


def a_sequence(x):
    items = hrr.Sequence(DIM, device="cpu")
    items.append(x[0] * 2)
    items.extend(x[1:4])
    return items.vector, items[1], torch.tensor(len(items))


def a_stack(x):
    stack, memory = hrr.Stack(DIM, device="cpu"), hrr.ItemMemory(x)
    stack.push(x[0])
    stack.push(x[1])
    return stack.top(), stack.pop(memory), stack.vector


def a_graph(x):
    graph = hrr.Graph(DIM, device="cpu")
    graph.add(x[:2], x[2:4])
    graph.remove(x[0], x[2])
    return graph.neighbours(x[1]), graph.sources(x[3]), graph.vector


def a_table(x):
    table = hrr.HashTable(DIM, device="cpu")
    table.add(x[0], x[1] * 2)
    table.add(x[2], x[3])
    table.remove(x[0], x[1])
    return table.get(x[2]), table.vector


def an_edited_sequence(x):
    items, memory = hrr.Sequence(DIM, device="cpu"), hrr.ItemMemory(x)
    items.extend(x[:4])
    items.insert(2, x[4] * 2, memory)
    items.replace(0, x[5], x[0])
    return items.remove(-1, memory), items.vector


def structures_of_peers(x):
    bag, tree, automaton = (kind(DIM, device="cpu") for kind in (hrr.Multiset, hrr.Tree, hrr.Automaton))
    bag.add(x[0] * 2, 3)
    tree.add("lr", x[1])
    automaton.add(x[:2], x[2:4], x[4:])
    answer = automaton.run(x[0], x[2:4], hrr.ItemMemory(x))
    return bag.count(x), bag.contains(x), tree.get("l"), automaton.transition(x[0], x[2]), answer.values, answer.indices


def a_sparse_memory(x):
    memory = hrr.SparseDistributedMemory(DIM, 20, 3, device="cpu")
    memory.write(x * 2)
    return memory.read(x + 0.1), memory.writes(x)


@pytest.mark.parametrize(
    "use",
    [
        *(a_store, a_vocabulary, a_memory, a_quantized_memory, a_record, a_sequence, a_stack, a_graph, a_table),
        *(an_edited_sequence, structures_of_peers, a_sparse_memory),
    ],
    ids=lambda use: use.__name__,
)
def test_objects_are_made_and_changed(use):
    torch._dynamo.reset()
    for result, expected in zip(torch.compile(use, backend="aot_eager")(X), use(X), strict=True):
        torch.testing.assert_close(result, expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_gradients_pass_through_a_structure():
    x, own = (X.clone().requires_grad_() for _ in range(2))
    torch._dynamo.reset()
    torch.compile(a_sequence, backend="aot_eager")(x)[0].square().sum().backward()
    a_sequence(own)[0].square().sum().backward()
    torch.testing.assert_close(x.grad, own.grad)


def test_an_object_outside_changes_once_a_call():
    """Also where the compiler has given up compiling the call anew."""
    store, words, items = hrr.VectorStore(DIM), hrr.Vocabulary(DIM), hrr.Sequence(DIM)

    def add(name, x):
        for owner in (store, words):
            owner.add(name, x * 2)
        items.append(x * 2)
        return store[name] + words[name]

    torch._dynamo.reset()
    compiled = torch.compile(add, backend="aot_eager")
    for i, x in enumerate(X.repeat(2, 1)):
        assert torch.equal(compiled(f"n{i}", x.to(store.device)).cpu(), 4 * x)
        assert len(store) == len(words) == len(items) == i + 1


def test_files_are_written_and_read(tmp_path):
    def through(x):
        store = hrr.VectorStore(DIM, device="cpu")
        store.add("a", x * 2)
        store.save(tmp_path / "store")
        return torch_hrr.load(tmp_path / "store")["a"] + 1

    torch._dynamo.reset()
    assert torch.equal(torch.compile(through, backend="aot_eager")(X[0]), X[0] * 2 + 1)


def test_a_model_of_words_is_one_graph_by_a_memory_and_buffers():
    class Answer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            words = hrr.Vocabulary(DIM, device="cpu")
            words.populate("A; B; ROLE.unitary()")
            self.memory = hrr.ItemMemory(words)
            self.register_buffer("role", words["ROLE"])

        def forward(self, x):
            return self.memory.cleanup(hrr.unbind(x, self.role))

    torch._dynamo.reset()
    model = Answer()
    programs = [torch.export.export(model, (X,), strict=strict).module() for strict in (False, True)]
    for program in (*programs, torch.compile(model, backend="aot_eager", fullgraph=True)):
        assert all(torch.equal(*pair) for pair in zip(program(X), model(X), strict=True))


def test_vectors_are_made_on_the_current_device_in_a_whole_graph():
    """Without a device= the call asks for torch's default one, also where its graph may not break."""

    class Made(torch.nn.Module):
        def forward(self, x):
            return hrr.bind(x, hrr.identity(DIM)) + 0 * hrr.random(1, DIM)

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(Made(), backend="aot_eager", fullgraph=True)(X), X)
    for strict in (False, True):
        torch.testing.assert_close(torch.export.export(Made(), (X,), strict=strict).module()(X), X)
