"""Records, sequences, stacks, graphs and hash tables: their vectors, their noisy answers, and no change by errors."""

import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.hrr import Resonator, SparseDistributedMemory, Vocabulary, encoders
from torch_hrr.hrr import functional as hrr
from torch_hrr.hrr.memory import ItemMemory
from torch_hrr.hrr.structures import Automaton, Graph, HashTable, Multiset, Record, Sequence, Stack, Tree
from torch_hrr.hrr.vector import Vector

laws = settings(max_examples=25, derandomize=True, database=None, deadline=None)
DIM = 1024


def rows(seed, *shape, unitary=False, dtype=torch.float32):
    count = math.prod(shape[:-1])
    return hrr.random(count, shape[-1], torch.Generator().manual_seed(seed), unitary, "cpu", dtype).view(shape)


def on_cpu(kind, dim=DIM, **options):
    return kind(dim, device="cpu", **options)


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def nearest(noisy, vectors):
    return int(cosines(noisy, vectors).argmax())


def test_a_record_is_the_sum_of_its_bound_pairs():
    roles, fillers = rows(0, 3, DIM, unitary=True), rows(1, 3, DIM)
    record = Record(dict(zip("abc", roles, strict=True)))
    assert torch.equal(record.vector, torch.zeros(DIM)) and len(record) == 0
    for name, filler in zip("abc", fillers, strict=True):
        record.set(name, filler)
    torch.testing.assert_close(record.vector, hrr.bind(roles, fillers).sum(0))
    for index, name in enumerate("abc"):
        assert torch.equal(record.get(name), hrr.unbind(record.vector, roles[index]))
        assert float(cosines(record.get(name), fillers[index])) == pytest.approx(3**-0.5, abs=0.06)
        assert nearest(record.get(name), fillers) == index
    assert len(record) == 3 and "a" in record and "d" not in record


def test_a_role_holds_one_filler():
    roles, (first, second) = rows(2, 2, DIM, unitary=True), rows(3, 2, DIM)
    record = Record({"a": roles[0], "b": roles[1]})
    record.set("a", first)
    record.set("a", second)
    torch.testing.assert_close(record.get("a"), second)
    record.set("b", first)
    record.remove("a")
    torch.testing.assert_close(record.vector, hrr.bind(roles[1], first))
    assert "a" not in record and len(record) == 1


def test_a_record_keeps_copies():
    roles, fillers = rows(2, 1, DIM, unitary=True), rows(3, 1, DIM)
    record = Record({"a": roles[0]})
    record.set("a", fillers[0])
    expected = record.vector
    roles.zero_()
    fillers.zero_()
    assert torch.equal(record.vector, expected)


def test_a_record_made_in_inference_mode_serves_gradients():
    with torch.inference_mode():
        roles, filler = rows(2, 1, DIM, unitary=True), rows(3, 1, DIM)
        record = Record({"a": roles[0], "b": roles[0].flip(0)})
        record.set("b", filler[0])
    learned = torch.ones(DIM, requires_grad=True)
    record.set("a", learned)
    record["a"].sum().backward()
    assert learned.grad is not None and learned.grad.norm() > 0


def test_a_record_of_batches_and_its_gradient():
    roles = dict(zip("ab", rows(4, 2, 16, dtype=torch.float64), strict=True))

    def read(a, b):
        record = Record(roles)
        record.set("a", a)
        record.set("b", b)
        return record.get("a")

    a, b = rows(5, 3, 2, 16, dtype=torch.float64), rows(6, 1, 16, dtype=torch.float64)[0]
    assert read(a, b).shape == (3, 2, 16)
    torch.testing.assert_close(read(a, b)[1, 1], read(a[1, 1], b))
    assert torch.autograd.gradcheck(read, (a.requires_grad_(), b.requires_grad_()))


@laws
@given(st.lists(st.integers(0, 3), max_size=8), st.integers(0, 2**32))
def test_a_sequence_is_that_of_the_function(lengths, seed):
    """However the items come: singly where the length is 0, else so many at once."""
    items = rows(seed, sum(max(length, 1) for length in lengths), 64, dtype=torch.float64)
    made, start = on_cpu(Sequence, 64, seed=seed, dtype=torch.float64), 0
    for length in lengths:
        if length == 0:
            made.append(items[start])
        else:
            made.extend(items[start : start + length])
        start += max(length, 1)
    torch.testing.assert_close(made.vector, encoders.sequence(items, seed=seed), rtol=0, atol=1e-13)
    assert len(made) == start


def test_items_of_a_sequence_by_index():
    memory = rows(7, 20, DIM)
    made = on_cpu(Sequence)
    with pytest.raises(IndexError, match=r"^Sequence: sequence must not be empty, got index 0$"):
        made[0]
    chosen = [3, 3, 17, 0, 5]
    for index in chosen:
        made.append(memory[index])
    assert [nearest(noisy, memory) for noisy in made] == chosen
    assert torch.equal(made[-1], made[4]) and torch.equal(made[-5], made[0])
    assert torch.equal(made[2], encoders.at(made.vector, 2))
    for index in (5, -6):
        with pytest.raises(IndexError, match=rf"^Sequence: index must be in \[-5, 5\), got {index}$"):
            made[index]
    with pytest.raises(TypeError, match=r"^Sequence: index must be an int, got float$"):
        made[1.0]


@laws
@given(st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=12))
def test_a_stack_gives_what_a_list_gives(actions):
    """None pops, a number pushes the item of that number."""
    memory = ItemMemory(rows(8, 10, DIM))
    stack, expected = on_cpu(Stack), []
    for action in actions:
        if action is not None:
            stack.push(memory.vectors[action])
            expected.append(action)
        elif expected:
            assert nearest(stack.top(), memory.vectors) == expected[-1]
            assert torch.equal(stack.pop(memory), memory.vectors[expected.pop()])
        assert len(stack) == len(expected)
    items = memory.vectors[expected[::-1]]
    torch.testing.assert_close(stack.vector, encoders.sequence(items), rtol=0, atol=1e-5)


def test_an_emptied_stack_is_zero():
    memory = ItemMemory(rows(9, 4, DIM))
    stack = on_cpu(Stack)
    for _ in range(2):
        stack.push(rows(10, 1, DIM)[0])
    for _ in range(2):
        stack.pop(memory)
    assert torch.equal(stack.vector, torch.zeros(DIM))


def test_stacks_of_a_batch():
    memory = ItemMemory(rows(11, 8, DIM))
    stack = on_cpu(Stack, batch=(3,))
    pushed = torch.tensor([[0, 1, 2], [3, 3, 5], [7, 6, 0]])
    for index in pushed:
        stack.push(memory.vectors[index])
    for index in pushed.flip(0):
        assert torch.equal(stack.pop(memory), memory.vectors[index])
    assert stack.vector.shape == (3, DIM)


@pytest.mark.parametrize("query", [lambda stack: stack.top(), lambda stack: stack.pop(ItemMemory(torch.ones(1, DIM)))])
def test_nothing_comes_from_an_empty_stack(query):
    with pytest.raises(IndexError, match=r"^(top|pop): stack must hold an item, got 0$"):
        query(on_cpu(Stack))


def test_a_memory_that_does_not_fit_leaves_the_stack():
    stack = on_cpu(Stack)
    stack.push(torch.ones(DIM))
    before = stack.vector
    with pytest.raises(ValueError, match=r"^pop: memory must have the last dimension"):
        stack.pop(ItemMemory(torch.ones(2, 8)))
    assert torch.equal(stack.vector, before) and len(stack) == 1


@pytest.mark.parametrize("directed", [True, False])
def test_neighbours_and_sources_in_a_graph(directed):
    nodes = rows(12, 20, 2048, unitary=True)
    edges = [(0, 1), (0, 2), (3, 0), (4, 5), (1, 2)]
    made = on_cpu(Graph, 2048, directed=directed)
    starts, ends = (nodes[list(index)] for index in zip(*edges, strict=True))
    made.add(starts[:3], ends[:3])
    for start, end in zip(starts[3:], ends[3:], strict=True):
        made.add(start, end)
    torch.testing.assert_close(made.vector, encoders.graph(starts, ends, directed), rtol=0, atol=1e-5)

    def found(noisy, count):
        return sorted(cosines(noisy, nodes).topk(count).indices.tolist())

    if directed:
        assert found(made.neighbours(nodes[0]), 2) == [1, 2]
        assert found(made.sources(nodes[0]), 1) == [3] and found(made.sources(nodes[2]), 2) == [0, 1]
    else:
        assert found(made.neighbours(nodes[0]), 3) == [1, 2, 3]
        assert torch.equal(made.sources(nodes[0]), made.neighbours(nodes[0]))
    batch = made.neighbours(nodes[:3])
    assert all(torch.equal(one, made.neighbours(node)) for one, node in zip(batch, nodes[:3], strict=True))
    made.remove(nodes[0], nodes[1])
    rest = [edge for edge in edges if edge != (0, 1)]
    starts, ends = (nodes[list(index)] for index in zip(*rest, strict=True))
    torch.testing.assert_close(made.vector, encoders.graph(starts, ends, directed), rtol=0, atol=1e-5)


def test_values_of_a_table_and_no_way_back():
    """Keys and values are of one kind here, k -> k + 1; without direction a key would give its predecessor too."""
    items = rows(13, 6, 2048, unitary=True)
    table = on_cpu(HashTable, 2048)
    for key in range(5):
        table.add(items[key], items[key + 1])
    for key in range(5):
        similarities = cosines(table.get(items[key]), items)
        assert int(similarities.argmax()) == key + 1
        assert float(similarities[key + 1]) == pytest.approx(5**-0.5, abs=0.07)
        assert float(similarities.sum() - similarities[key + 1]) < 0.25
    assert float(cosines(table.get(items[5]), items).abs().max()) < 0.12
    table.remove(items[2], items[3])
    assert float(cosines(table.get(items[2]), items).abs().max()) < 0.12


def test_a_table_of_one_entry_gives_its_value():
    key, value = rows(14, 1, DIM, unitary=True)[0], rows(15, 4, DIM)
    table = on_cpu(HashTable, batch=(4,))
    table.add(key, value)
    torch.testing.assert_close(table.get(key), value)


def test_gradients_pass_through_and_earlier_vectors_stay():
    memory = ItemMemory(rows(16, 4, 16, dtype=torch.float64))

    def work(x, y):
        made = on_cpu(Sequence, 16, dtype=torch.float64)
        made.append(x)
        first = made.vector
        made.append(y)
        edges = on_cpu(Graph, 16, dtype=torch.float64)
        edges.add(x, y)
        table = on_cpu(HashTable, 16, dtype=torch.float64)
        table.add(y, x)
        stack = on_cpu(Stack, 16, dtype=torch.float64)
        stack.push(x)
        stack.push(y)
        stack.pop(memory)
        return first, made[1], edges.neighbours(x), edges.sources(y), table.get(y), stack.top()

    x, y = rows(17, 2, 16, dtype=torch.float64)
    assert torch.autograd.gradcheck(work, (x.clone().requires_grad_(), y.clone().requires_grad_()))


@pytest.mark.parametrize("kind", [Sequence, Stack, Graph, HashTable, Multiset, Tree, Automaton])
def test_construction(kind):
    made = kind(32, seed=3, device="meta", dtype=torch.bfloat16)
    assert (made.dim, made.seed) == (32, 3)
    assert (made.vector.device.type, made.vector.dtype) == ("meta", torch.bfloat16)
    assert on_cpu(kind).vector.dtype == torch.get_default_dtype()
    with pytest.raises(ValueError, match=f"^{kind.__name__}: dim must be at least 1, got 0$"):
        kind(0)


@pytest.mark.parametrize("kind", [Sequence, Stack, HashTable])
def test_the_seed_settles_the_permutation(kind):
    x, y = rows(18, 2, DIM)

    def filled(seed):
        made = on_cpu(kind, seed=seed)
        if kind is HashTable:
            made.add(x, y)
        else:
            (made.append if kind is Sequence else made.push)(x)
        return made.vector

    assert torch.equal(filled(1), filled(1)) and not torch.allclose(filled(1), filled(2))


GOOD = torch.ones(8)
BAD = [
    ([1.0] * 8, TypeError, "must be a torch.Tensor or a NumPy array, got list"),
    (torch.ones(8, dtype=torch.int64), TypeError, "must be float32, .*, got torch.int64"),
    (torch.ones(7), ValueError, r"must have the last dimension 8, got shape \[7\]"),
    (torch.tensor(1.0), ValueError, r"must have at least 1 dimensions, got shape \[\]"),
    (torch.ones(8, device="meta"), RuntimeError, "must be on cpu, got meta"),
]
CALLS = [
    (Sequence, lambda made, bad: made.append(bad), "append: item"),
    (Sequence, lambda made, bad: made.insert(0, bad), "insert: item"),
    (Stack, lambda made, bad: made.push(bad), "push: item"),
    (Multiset, lambda made, bad: made.add(bad), "add: item"),
    (Multiset, lambda made, bad: made.remove(bad), "remove: item"),
    (Multiset, lambda made, bad: made.count(bad), "count: item"),
    (Multiset, lambda made, bad: made.contains(bad), "contains: item"),
    (Tree, lambda made, bad: made.add("l", bad), "add: item"),
    (Tree, lambda made, bad: made.remove("l", bad), "remove: item"),
    (Automaton, lambda made, bad: made.add(bad, GOOD, GOOD), "add: state"),
    (Automaton, lambda made, bad: made.remove(GOOD, bad, GOOD), "remove: symbol"),
    (Automaton, lambda made, bad: made.add(GOOD, GOOD, bad), "add: next_state"),
    (Automaton, lambda made, bad: made.transition(GOOD, bad), "transition: symbol"),
    (Automaton, lambda made, bad: made.run(bad, GOOD[None], ItemMemory(GOOD[None])), "run: state"),
    (Graph, lambda made, bad: made.add(bad, GOOD), "add: sources"),
    (Graph, lambda made, bad: made.add(GOOD, bad), "add: targets"),
    (Graph, lambda made, bad: made.remove(GOOD, bad), "remove: targets"),
    (Graph, lambda made, bad: made.neighbours(bad), "neighbours: source"),
    (Graph, lambda made, bad: made.sources(bad), "sources: target"),
    (HashTable, lambda made, bad: made.add(bad, GOOD), "add: key"),
    (HashTable, lambda made, bad: made.add(GOOD, bad), "add: value"),
    (HashTable, lambda made, bad: made.remove(GOOD, bad), "remove: value"),
    (HashTable, lambda made, bad: made.get(bad), "get: key"),
]


@pytest.mark.parametrize(("kind", "call", "where"), CALLS)
@pytest.mark.parametrize(("bad", "error", "text"), BAD)
def test_arguments_that_do_not_fit_change_nothing(kind, call, where, bad, error, text):
    made = on_cpu(kind, 8)
    before = made.vector
    with pytest.raises(error, match=f"^{where} {text}$"):
        call(made, bad)
    assert torch.equal(made.vector, before)
    assert not hasattr(made, "__len__") or len(made) == 0


def test_items_to_extend_by_need_two_dimensions():
    made = on_cpu(Sequence, 8)
    with pytest.raises(ValueError, match=r"^extend: items must have at least 2 dimensions, got shape \[8\]$"):
        made.extend(GOOD)
    assert len(made) == 0


@pytest.mark.parametrize(
    ("kind", "call", "text"),
    [
        (Sequence, lambda made, x: made.append(x), "append: item and vector"),
        (Sequence, lambda made, x: made.extend(x.unsqueeze(-2)), "extend: items and vector"),
        (Stack, lambda made, x: made.push(x), "push: item and vector"),
        (Graph, lambda made, x: made.add(x.unsqueeze(-2), GOOD[None]), "add: sources and targets and vector"),
        (Graph, lambda made, x: made.neighbours(x), "neighbours: source and vector"),
        (HashTable, lambda made, x: made.add(GOOD, x), "add: key and value and vector"),
    ],
)
def test_batches_that_do_not_match_change_nothing(kind, call, text):
    made = on_cpu(kind, 8, batch=(3,))
    fill = {Sequence: "append", Stack: "push"}.get(kind, "add")
    batch = torch.ones(3, 1, 8) if kind is Graph else torch.ones(3, 8)
    getattr(made, fill)(*[batch] * (1 if kind in (Sequence, Stack) else 2))
    before = made.vector
    with pytest.raises(ValueError, match=rf"^{text} must have leading dimensions that broadcast, got .*\[3\]$"):
        call(made, torch.ones(2, 8))
    assert torch.equal(made.vector, before)


def test_edges_have_one_number_of_ends():
    made = on_cpu(Graph, 8)
    with pytest.raises(ValueError, match=r"^add: targets must have at least 2 dimensions, got shape \[8\]$"):
        made.add(torch.ones(3, 8), GOOD)
    with pytest.raises(ValueError, match=r"^add: sources and targets must have leading dimensions that broadcast"):
        made.add(torch.ones(3, 8), torch.ones(2, 8))


def test_wider_items_widen_the_vector():
    made = on_cpu(Sequence, 8)
    made.append(GOOD.half())
    assert made.vector.dtype == torch.float32
    made.append(GOOD.double())
    record = Record({"a": GOOD, "b": GOOD})
    record.set("a", GOOD)
    record.set("b", GOOD.double())
    assert made.vector.dtype == record.vector.dtype == torch.float64


@pytest.mark.parametrize(
    ("roles", "error", "text"),
    [
        ({}, ValueError, "must name at least one role, got 0"),
        ({"a": GOOD[None]}, ValueError, r"must be \[D\] with D >= 1, got \[1, 8\]"),
        ({"a": GOOD[:0]}, ValueError, r"must be \[D\] with D >= 1, got \[0\]"),
        ([GOOD], TypeError, "must be a mapping of names to vectors, got list"),
        (None, TypeError, "must be a mapping of names to vectors, got NoneType"),
        ({"a": GOOD.int()}, TypeError, "must be float32, .*, got torch.int32"),
        ({"a": GOOD, "b": GOOD[1:]}, ValueError, r"must have the last dimension 8, got shape \[7\]"),
        ({"a": GOOD, "b": GOOD.to("meta")}, RuntimeError, "must be on cpu, got meta"),
    ],
)
def test_roles_that_do_not_fit(roles, error, text):
    with pytest.raises(error, match=f"^Record: roles {text}$"):
        Record(roles)


@pytest.mark.parametrize(("bad", "error", "text"), BAD)
def test_fillers_that_do_not_fit_change_nothing(bad, error, text):
    record = Record({"a": GOOD, "b": GOOD})
    record.set("a", torch.ones(3, 8))
    with pytest.raises(error, match=f"^set: filler {text}$"):
        record.set("a", bad)
    text = r"^set: fillers must have leading dimensions that broadcast, got \[3\] and \[2\]$"
    with pytest.raises(ValueError, match=text):
        record.set("b", torch.ones(2, 8))
    assert len(record) == 1 and record.vector.shape == (3, 8)


def test_roles_that_are_not_there():
    record = Record({"a": GOOD, "b": GOOD})
    record.set("a", GOOD)
    for call in (lambda: record.set("c", GOOD), lambda: record.get("c")):
        with pytest.raises(KeyError, match=r"role must be one of \['a', 'b'\], got 'c'"):
            call()
    with pytest.raises(KeyError, match=r"remove: role must be one of \['a'\], got 'b'"):
        record.remove("b")


@pytest.mark.parametrize("kind", (Sequence, Stack, Graph, HashTable))
def test_what_is_filled_in_inference_mode_is_differentiated_outside(kind):
    with torch.inference_mode():
        made = on_cpu(kind, 8)
        add = {Sequence: "append", Stack: "push"}.get(kind, "add")
        getattr(made, add)(*[torch.ones(8)] * (2 if add == "add" else 1))
    query = torch.rand(8, requires_grad=True)
    if kind in (Graph, HashTable):
        (made.neighbours if kind is Graph else made.get)(query).sum().backward()
        assert query.grad is not None
    getattr(made, add)(*[query] * (2 if add == "add" else 1))
    assert torch.autograd.grad(made.vector.sum(), query)[0].abs().sum() > 0


@pytest.mark.parametrize("kind", (Sequence, Stack, Graph, HashTable))
def test_what_is_added_makes_no_batch_by_itself(kind):
    made = on_cpu(kind, 8)
    add = {Sequence: "append", Stack: "push"}.get(kind, "add")
    given = [torch.ones(3, 1, 8) if kind is Graph else torch.ones(3, 8)] * (2 if add == "add" else 1)
    with pytest.raises(
        ValueError, match=r"must have leading dimensions that broadcast to \[\], got \[3\]; .*batch=\(3,\)"
    ):
        getattr(made, add)(*given)
    assert torch.equal(made.vector, torch.zeros(8))
    of_three = on_cpu(kind, 8, batch=(3,))
    getattr(of_three, add)(*given)
    assert of_three.vector.shape == (3, 8) and "batch=[3]" in repr(of_three)


@pytest.mark.parametrize("kind", (Sequence, Stack, Graph, HashTable))
def test_a_vector_that_was_read_is_a_copy(kind):
    made = on_cpu(kind, 8)
    vector = made.vector
    vector.fill_(1)
    assert torch.equal(made.vector, torch.zeros(8))


def test_a_deep_copy_keeps_the_graph_and_shares_no_values():
    x = rows(40, 1, 16, dtype=torch.float64)[0].requires_grad_()
    made = {
        "record": Record({"a": 2 * x}), "sequence": on_cpu(Sequence, 16, dtype=torch.float64),
        "stack": on_cpu(Stack, 16, dtype=torch.float64),
    }  # fmt: skip
    made["record"].set("a", 3 * x)
    made["sequence"].append(x)
    made["stack"].push(x)
    for structure in made.values():
        copied = copy.deepcopy(structure)
        (expected,) = torch.autograd.grad(structure.vector.sum(), x, retain_graph=True)
        (found,) = torch.autograd.grad(copied.vector.sum(), x, retain_graph=True)
        assert torch.equal(found, expected) and torch.equal(copied.vector, structure.vector)
    with torch.no_grad():
        copied = copy.deepcopy(made["stack"])
        copied.push(torch.ones(16, dtype=torch.float64))
    assert len(made["stack"]) == 1 and copied.vector.requires_grad is False


class Named(torch.Tensor):
    """A class of tensors that only adds a method."""

    def whose(self):
        return "mine"


def test_containers_hold_plain_tensors():
    plain, named = rows(41, 3, 16), rows(41, 3, 16).as_subclass(Named)
    # As the weights of an embedding of such a class: of its type, and a parameter.
    learned = torch.nn.Parameter(rows(41, 3, 16).as_subclass(Named))
    assert type(learned) is Named and isinstance(learned, torch.nn.Parameter)

    def filled(x):
        record, table, graph, sequence, stack = (
            Record({"a": x[0]}), on_cpu(HashTable, 16), on_cpu(Graph, 16), on_cpu(Sequence, 16), on_cpu(Stack, 16)
        )  # fmt: skip
        record.set("a", x[1])
        table.add(x[0], x[1])
        graph.add(x[0], x[1])
        sequence.append(x[0])
        sequence.extend(x)
        stack.push(x[0])
        words = Vocabulary(16, device="cpu")
        words.add("A", x[0])
        words.populate("B; C = A * B")
        return {
            ItemMemory(x): lambda made: made.cleanup(plain)[0], Resonator([x, x]): lambda made: made.codebooks[0],
            words: lambda made: made.parse("A * B + C"), record: lambda made: made.vector,
            table: lambda made: made.get(x[0]), graph: lambda made: made.neighbours(x[0]),
            sequence: lambda made: made.vector, stack: lambda made: made.top(),
        }  # fmt: skip

    with torch.no_grad():
        of_plain, of_classes = filled(plain), (filled(named), filled(learned))
    for of_class in of_classes:
        for (made, read), (expected, read_plain) in zip(of_class.items(), of_plain.items(), strict=True):
            for each in (made, copy.deepcopy(made)):
                assert type(read(each)) in (torch.Tensor, Vector), type(made).__name__
                assert torch.equal(read(each), read_plain(expected))
    leaf = torch.ones(16, requires_grad=True)
    record = Record({"a": leaf.as_subclass(Named)})
    record.set("a", plain[0])
    record.vector.sum().backward()
    assert leaf.grad is not None


def test_queries_are_one_graph_and_batched_by_vmap():
    rows = torch.randn(6, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    plain, automaton, table = (make(16, device="cpu", dtype=torch.float64) for make in (Graph, Automaton, HashTable))
    plain.add(rows[:2], rows[2:4]), automaton.add(rows[0], rows[1], rows[2]), table.add(rows[0], rows[1])
    states = ItemMemory(rows)
    calls = (
        plain.neighbours,
        plain.sources,
        table.get,
        lambda x: automaton.transition(x, x),
        lambda x: automaton.run(x, torch.stack([x, x], -2), states).indices,
    )
    for call in calls:
        expected = call(rows[:3])
        assert torch.equal(torch.func.vmap(call)(rows[:3]), expected)
        torch._dynamo.reset()
        assert torch.equal(torch.compile(call, backend="eager", fullgraph=True)(rows[:3]), expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("transform", (torch.func.vmap, lambda call: torch.func.vmap(torch.func.grad(call))))
def test_a_transform_may_be_the_first_to_ask_for_what_a_seed_draws(transform):
    x = torch.randn(16, generator=torch.Generator().manual_seed(0))
    memory, tree = SparseDistributedMemory(16, 20, 3, device="cpu"), Tree(16, device="cpu")

    def added(y):
        copied = copy.copy(tree)
        copied.add("lr", y)
        return copied["l"].sum()

    assert transform(lambda y: memory.read(y).sum())(x.unsqueeze(0)).sum() == 0
    assert transform(added)(x.unsqueeze(0)).isfinite().all()
    memory.write(x), tree.add("lr", x)
    torch.testing.assert_close(memory.read(x), x)
    assert torch.equal(copy.deepcopy(memory).read(x), memory.read(x))
    assert torch.equal(copy.deepcopy(tree).get("lr"), tree.get("lr"))


def test_a_multiset_stays_as_small_as_files_can_say():
    bag = Multiset(4, device="cpu")
    bag.add(torch.ones(4), 2**63 - 2)
    before = bag.vector
    with pytest.raises(ValueError, match=r"^extend: the number of items must be below 2\^63, got 9223372036854775808$"):
        bag.extend(torch.ones(2, 4))
    assert len(bag) == 2**63 - 2 and torch.equal(bag.vector, before)
    bag.extend(torch.ones(1, 4))
    assert len(bag) == 2**63 - 1


@pytest.mark.parametrize("sizes", [(2, 3, 3), (3, 3, 2), (3, 2, 3)])
def test_transitions_that_do_not_fit_each_other_are_named(sizes):
    automaton = Automaton(4, device="cpu")
    for op in ("add", "remove"):
        with pytest.raises(ValueError, match=f"^{op}: state, symbol and next_state must have leading dimensions that"):
            getattr(automaton, op)(*(torch.ones(size, 4) for size in sizes))
    automaton.add(torch.ones(1, 4), torch.ones(3, 4), torch.ones(1, 4))
