"""Edited sequences, multisets, trees and automata against lists, counters and dicts of Python, and their noise."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.hrr import Automaton, ItemMemory, Multiset, Sequence, Tree, encoders
from torch_hrr.hrr import functional as hrr

laws = settings(max_examples=25, derandomize=True, database=None, deadline=None)
DIM = 1024
DOUBLE = torch.float64


def rows(seed, *shape, unitary=False, dtype=torch.float32):
    count = math.prod(shape[:-1])
    return hrr.random(count, shape[-1], torch.Generator().manual_seed(seed), unitary, "cpu", dtype).view(shape)


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def nearest(noisy, vectors):
    return int(cosines(noisy, vectors).argmax())


def filled(items, **options):
    made = Sequence(items.shape[-1], device="cpu", dtype=items.dtype, **options)
    made.extend(items)
    return made


edits = st.tuples(st.sampled_from(("insert", "remove", "replace", "known")), st.integers(-9, 8), st.integers(0, 9))


@laws
@given(st.lists(edits, max_size=12))
def test_an_edited_sequence_is_that_of_the_edited_list(steps):
    items = rows(0, 10, DIM, dtype=DOUBLE)
    memory, made, expected = ItemMemory(items), Sequence(DIM, device="cpu", dtype=DOUBLE, seed=5), []
    for step, index, number in steps:
        places = len(expected) + (step == "insert")
        if not -len(expected) <= index < places:
            with pytest.raises(IndexError, match=r"must (be in \[-?\d, \d\)|not be empty), got (index )?-?\d$"):
                call = getattr(made, "replace" if step == "known" else step)
                call(index, *[items[number]] * (step != "remove"), memory)
        elif step == "insert":
            made.insert(index, items[number], memory)
            expected.insert(index, number)
        elif step == "remove":
            assert torch.equal(made.remove(index, memory), items[expected.pop(index)])
        else:
            made.replace(index, items[number], memory if step == "replace" else items[expected[index]])
            expected[index] = number
        assert len(made) == len(expected)
    torch.testing.assert_close(made.vector, encoders.sequence(items[expected], seed=5), rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", (0, 1, 4))
def test_the_ends_of_a_sequence_need_no_memory(length):
    items, (new,) = rows(1, length, 64, dtype=DOUBLE), rows(2, 1, 64, dtype=DOUBLE)
    first, last = filled(items), filled(items)
    first.insert(0, new)
    last.insert(length, new)
    torch.testing.assert_close(first.vector, encoders.sequence(torch.cat((new[None], items))), rtol=0, atol=1e-13)
    torch.testing.assert_close(last.vector, encoders.sequence(torch.cat((items, new[None]))), rtol=0, atol=1e-13)
    # A memory of the one item at the end is enough.
    last.remove(-1, ItemMemory(new[None]))
    torch.testing.assert_close(last.vector, encoders.sequence(items), rtol=0, atol=1e-13)
    first.remove(0, ItemMemory(new[None]))
    torch.testing.assert_close(first.vector, encoders.sequence(items), rtol=0, atol=1e-13)
    if length == 4:
        with pytest.raises(ValueError, match=r"^insert: memory must be given between items, got None for index 2$"):
            last.insert(-2, new)
        assert len(last) == 4


def test_a_large_item_does_not_hide_those_that_move_up():
    items = rows(19, 5, DIM) * torch.tensor([1.0, 1, 100, 1, 1])[:, None]
    made, memory = filled(items), ItemMemory(items)
    assert torch.equal(made.remove(2, memory), items[2])
    torch.testing.assert_close(made.vector, encoders.sequence(items[[0, 1, 3, 4]]), rtol=0, atol=1e-4)
    for _ in range(4):
        made.remove(0, memory)
    assert torch.equal(made.vector, torch.zeros(DIM)) and len(made) == 0


def test_an_item_misread_leaves_noise_one_place_beside():
    """The memory lacks the first item: as the docstring has it, another is there and the difference one place on."""
    items = rows(3, 6, DIM, dtype=DOUBLE)
    made = filled(items[:5])
    memory = ItemMemory(items[1:])
    wrong = memory.vectors[memory.cleanup(made[0]).indices[0]]
    made.insert(1, items[5], memory)
    expected = encoders.sequence(torch.cat((wrong[None], items[5:], items[1:5])))
    noise = hrr.permute(items[0] - wrong, made.seed, 2)
    torch.testing.assert_close(made.vector, expected + noise, rtol=0, atol=1e-12)


def test_sequences_of_a_batch_are_edited_each_by_its_items():
    items = rows(4, 8, DIM)
    memory, index = ItemMemory(items), torch.tensor([[0, 1, 2, 3, 4], [5, 6, 7, 0, 1]])
    made = Sequence(DIM, batch=(2,), device="cpu")
    made.extend(items[index])
    made.insert(1, items[6:], memory)
    assert torch.equal(made.remove(3, memory), items[[2, 7]])
    made.replace(-1, items[7], memory)
    expected = items[torch.tensor([[0, 6, 1, 3, 7], [5, 7, 6, 0, 7]])]
    torch.testing.assert_close(made.vector, encoders.sequence(expected), rtol=0, atol=1e-5)


@laws
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 3)), max_size=10))
def test_a_multiset_counts(steps):
    """The bag is that of a dict of counts; orthogonal items are counted without noise."""
    items = torch.eye(6, 16, dtype=DOUBLE) * torch.arange(1, 7)[:, None]
    bag, counts = Multiset(16, device="cpu", dtype=DOUBLE), [0] * 6
    for number, count in steps:
        if count > 0:
            bag.add(items[number], count)
        elif count == 0:
            bag.extend(items[[number, 0]])
            counts[0] += 1
        elif counts[number] + count >= 0:
            bag.remove(items[number], -count)
        else:
            continue
        counts[number] += count or 1
    expected = torch.tensor(counts, dtype=DOUBLE)
    torch.testing.assert_close(bag.count(items), expected, rtol=0, atol=1e-12)
    assert torch.equal(bag.contains(items), expected > 0) and torch.equal(bag.contains(items, 1.5), expected > 1)
    assert len(bag) == sum(counts) and bag.count(torch.zeros(16)) == 0
    with pytest.raises(ValueError, match=rf"^remove: count must be at most the number of items = {len(bag)}, got 99$"):
        bag.remove(items[0], 99)


def test_a_multiset_counts_no_further_than_files_do():
    bag = Multiset(8, device="cpu")
    bag.add(torch.ones(8), 2**62)
    before = bag.vector
    with pytest.raises(ValueError, match=r"^add: the number of items must be below 2\^63, got 9223372036854775808$"):
        bag.add(torch.ones(8), 2**62)
    assert len(bag) == 2**62 and torch.equal(bag.vector, before)


def test_the_noise_of_counts_is_what_the_docstring_says():
    counts = torch.tensor([4.0, 1, 2, 0])
    items = rows(5, 500, 4, 256)
    bag = Multiset(256, batch=(500,), device="cpu")
    for number in range(4):
        if counts[number]:
            bag.add(items[:, number], int(counts[number]))
    errors = torch.stack([bag.count(items[:, number]) for number in range(4)], -1) - counts
    expected = ((counts.square().sum() - counts.square()) / 256).sqrt()
    torch.testing.assert_close(errors.std(0), expected, rtol=0.12, atol=0)
    assert (errors.mean(0).abs() < 4 * expected / 500**0.5).all()


def test_a_tree_finds_items_by_their_paths():
    items, paths = rows(6, 8, 2048), ["l", "rl", "rr", "lr", "lrl", "", "rrrr", "ll"]
    tree = Tree(2048, device="cpu", seed=9)
    for path, item in zip(paths, items, strict=True):
        tree.add(path, item)
    for path, item in zip(paths, items, strict=True):
        assert nearest(tree.get([*path]), items) == paths.index(path)
        assert float(cosines(tree[path], item)) == pytest.approx(8**-0.5, abs=0.06)
    # Neither turns in another order nor a path that goes on, or ends before.
    for path in ("lrlr", "rrr", "r", "llr"):
        assert float(cosines(tree.get(path), items).abs().max()) < 0.12
    tree.remove("rl", items[1])
    assert float(cosines(tree.get("rl"), items).abs().max()) < 0.12
    assert float(cosines(tree.get("lr"), items[3])) == pytest.approx(7**-0.5, abs=0.06)


def test_one_item_of_a_tree_comes_back_exactly_and_trees_grow_on_trees():
    (item,), (other,) = rows(7, 1, 64, dtype=DOUBLE), rows(8, 1, 64, dtype=DOUBLE)
    tree, branch = Tree(64, device="cpu", dtype=DOUBLE), Tree(64, device="cpu", dtype=DOUBLE)
    branch.add("rl", item)
    tree.add("lr", branch.vector)
    torch.testing.assert_close(tree.get("lrrl"), item)
    torch.testing.assert_close(tree.get("lr"), branch.vector)
    whole = Tree(64, device="cpu", dtype=DOUBLE)
    whole.add("lrrl", item)
    torch.testing.assert_close(whole.vector, tree.vector)
    # Another seed has other sides and another permutation; the root is what is added there.
    assert abs(float(cosines(Tree(64, device="cpu", seed=1)._side("l").double(), whole._side("l")))) < 0.5
    whole.add("", other)
    whole.remove("lrrl", item)
    torch.testing.assert_close(whole.get(""), other)


def test_sides_of_a_tree_are_no_vectors_that_a_user_draws_from_its_seed():
    drawn = rows(0, 2, 64, unitary=True)
    tree = Tree(64, device="cpu")
    sides = torch.stack([tree._side(turn) for turn in "lr"])
    torch.testing.assert_close(torch.fft.fft(sides).abs(), torch.ones(2, 64))
    assert hrr.normalize(sides).matmul(drawn.mT).abs().max() < 0.6


def test_a_loaded_tree_turns_as_its_own_seed_does():
    tree, other = Tree(64, device="cpu", seed=1), Tree(64, device="cpu", seed=2)
    (item,) = rows(15, 1, 64)
    tree.add("lr", item)
    other.add("lr", item)
    other.load_state_dict(tree.state_dict())
    assert torch.equal(other.get("lr"), tree.get("lr"))


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        ("lxr", ValueError, 'must hold "l" and "r" alone, got \'lxr\''),
        (["left"], ValueError, r"must hold \"l\" and \"r\" alone, got \['left'\]"),
        ([0, 1], ValueError, r"must hold \"l\" and \"r\" alone, got \[0, 1\]"),
        (3, TypeError, "must be a str of l and r, got int"),
        ({"l"}, TypeError, "must be a str of l and r, got set"),
    ],
)
def test_paths_that_are_none_change_nothing(path, error, text):
    tree = Tree(8, device="cpu")
    for name in ("add", "remove", "get"):
        with pytest.raises(error, match=f"^{name}: path {text}$"):
            getattr(tree, name)(path, *[torch.ones(8)] * (name != "get"))
    assert torch.equal(tree.vector, torch.zeros(8))


DELTA = {(0, 0): 1, (0, 1): 0, (1, 0): 2, (1, 1): 0, (2, 0): 2, (2, 1): 2}


def automaton(table, states, symbols, **options):
    made = Automaton(states.shape[-1], device="cpu", dtype=states.dtype, **options)
    (sources, letters), targets = zip(*table, strict=True), list(table.values())
    made.add(states[list(sources)], symbols[list(letters)], states[targets])
    return made


def test_a_word_is_run_as_by_the_table():
    states, symbols = rows(9, 3, 2048, unitary=True), rows(10, 2, 2048, unitary=True)
    made = automaton(DELTA, states, symbols)
    for (state, symbol), target in DELTA.items():
        noisy = made.transition(states[state], symbols[symbol])
        assert nearest(noisy, states) == target
        assert float(cosines(noisy, states[target])) == pytest.approx(6**-0.5, abs=0.06)
    words = torch.tensor([[1, 0, 1, 0, 0, 1], [0, 0, 0, 1, 1, 1]])
    expected = []
    for word in words.tolist():
        state, visited = 0, []
        for symbol in word:
            state = DELTA[state, symbol]
            visited.append("abc"[state])
        expected.append(visited)
    memory = ItemMemory(states, list("abc"))
    answer = made.run(states[0], symbols[words], memory)
    assert answer.names == expected and answer.values.shape == (2, 6)
    assert float(answer.values.min()) > 0.3
    nothing = made.run(states[:2], symbols[:0], memory)
    assert nothing.values.shape == nothing.indices.shape == (2, 0) and nothing.names == [[], []]


def test_transitions_are_removed_and_several_superposed():
    states, symbols = rows(11, 4, 2048, unitary=True), rows(12, 2, 2048, unitary=True)
    made = automaton({(0, 0): 1, (2, 1): 3}, states, symbols)
    made.add(states[0], symbols[0], states[2])
    both = made.transition(states[0], symbols[0])
    assert sorted(cosines(both, states).topk(2).indices.tolist()) == [1, 2]
    made.remove(states[0], symbols[0], states[1])
    assert nearest(made.transition(states[0], symbols[0]), states) == 2
    # Neither the other symbol, nor backwards, nor state and next state exchanged.
    for state, symbol in ((0, 1), (1, 0), (3, 1)):
        assert float(cosines(made.transition(states[state], symbols[symbol]), states).abs().max()) < 0.12
    one = Automaton(64, device="cpu", dtype=DOUBLE)
    state, symbol, after = rows(13, 3, 64, unitary=True, dtype=DOUBLE)
    one.add(state, symbol, after)
    torch.testing.assert_close(one.transition(state, symbol), after)


def test_gradients_pass_through():
    memory, word = ItemMemory(rows(14, 4, 16, dtype=DOUBLE)), rows(15, 1, 16, dtype=DOUBLE)

    def work(x, y):
        made = filled(torch.stack((x, y, x)), seed=2)
        made.insert(1, y, memory)
        made.replace(0, y, x)
        made.remove(-1, memory)
        bag = Multiset(16, device="cpu", dtype=DOUBLE)
        bag.add(x, 2)
        bag.extend(torch.stack((x, y)))
        tree = Tree(16, device="cpu", dtype=DOUBLE)
        tree.add("lrl", x)
        table = Automaton(16, device="cpu", dtype=DOUBLE)
        table.add(x, word[0], y)
        return made.vector, bag.count(y), tree.get("l"), table.transition(x, y), table.run(x, word, memory).values

    x, y = memory.vectors[:2]
    assert torch.autograd.gradcheck(work, (x.clone().requires_grad_(), y.clone().requires_grad_()))


# What fills one with a vector, and what asks it.
FILL = {
    Multiset: (lambda made, x: made.add(x), lambda made, x: made.count(x)),
    Tree: (lambda made, x: made.add("lr", x), lambda made, x: made.get("lr") * x),
    Automaton: (lambda made, x: made.add(x, x, x), lambda made, x: made.transition(x, x)),
}


@pytest.mark.parametrize("kind", FILL)
def test_what_is_filled_in_inference_mode_is_differentiated_outside(kind):
    fill, ask = FILL[kind]
    with torch.inference_mode():
        made = kind(8, device="cpu")
        fill(made, torch.ones(8))
        ask(made, torch.ones(8))
    query = torch.rand(8, requires_grad=True)
    ask(made, query).sum().backward()
    assert query.grad is not None
    fill(made, query)
    assert torch.autograd.grad(made.vector.sum(), query)[0].abs().sum() > 0


@pytest.mark.parametrize("kind", FILL)
def test_a_batch_is_made_of_what_each_of_it_is(kind):
    fill, ask = FILL[kind]
    x = rows(16, 3, 16)
    made = kind(16, batch=(3,), device="cpu")
    if kind is Automaton:
        made.add(x[:, None], x[:, None], x[:, None])
    else:
        fill(made, x)
    for row, vector, answer in zip(x, made.vector, ask(made, x), strict=True):
        one = kind(16, device="cpu")
        fill(one, row)
        torch.testing.assert_close(vector, one.vector)
        torch.testing.assert_close(answer, ask(one, row))
    with pytest.raises(ValueError, match=r"^add: .+ must have leading dimensions that broadcast, got .*\[3\]$"):
        fill(made, torch.ones(2, 1, 16) if kind is Automaton else torch.ones(2, 16))


@pytest.mark.parametrize("dtype", (torch.float64, torch.float32, torch.bfloat16, torch.float16))
def test_trees_of_every_dtype_find_their_item(dtype):
    tree, (item,) = Tree(64, device="cpu", dtype=torch.float32), rows(17, 1, 64)
    tree.get("l")
    tree.to(dtype).add("lrr", item.to(dtype))
    assert tree.vector.dtype == tree.get("l").dtype == dtype
    assert float(cosines(tree.get("lrr").float(), item)) > 0.99
    tree.add("l", item.double())
    assert tree.vector.dtype == tree.get("l").dtype == DOUBLE
