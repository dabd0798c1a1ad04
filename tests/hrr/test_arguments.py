"""Arguments of another type, size, device or range than documented: an error in our words at once, and no trace."""

import copy
import re

import pytest
import torch

from torch_hrr import hrr
from torch_hrr.hrr import resonator

DIM = 8
ROW = torch.arange(1.0, DIM + 1)
ROWS = torch.stack([ROW, ROW.flip(0), ROW.roll(3)])
BOOKS = hrr.random(6, 64, torch.Generator().manual_seed(0), unitary=True, device="cpu").view(2, 3, 64)
STRUCTURES = (hrr.Sequence, hrr.Stack, hrr.Graph, hrr.HashTable)
NO_TENSORS = (None, "x", [1.0] * DIM, 3, {"a": ROW})
NO_VECTORS = (ROW.int(), ROW.bool(), ROW.to(torch.complex64), ROW.to_sparse())


def filled(kind, **options):
    made = kind(DIM, device="cpu", **options)
    if kind in (hrr.Sequence, hrr.Stack):
        (made.append if kind is hrr.Sequence else made.push)(ROW)
    else:
        made.add(ROWS[0], ROWS[1])
    return made


def factors(seed):
    """An answer that is found by a random start, if at all: noise has no factors."""
    vectors = hrr.random(61, 64, torch.Generator().manual_seed(1), unitary=True, device="cpu")
    return hrr.Resonator(vectors[1:].view(3, 20, 64), seed=seed).factorize(vectors[0], 30).cosines


SEEDED = {
    "permute": lambda seed: hrr.permute(ROW, seed),
    "sequence": lambda seed: hrr.sequence(ROWS, seed=seed),
    "at": lambda seed: hrr.at(ROW, 2, seed=seed),
    "ngrams": lambda seed: hrr.ngrams(ROWS, 2, seed=seed),
    "graph": lambda seed: hrr.graph(ROWS, ROWS, seed=seed),
    "Resonator": factors,
    "Vocabulary": lambda seed: drawn(seed),
    **{kind.__name__: lambda seed, kind=kind: filled(kind, seed=seed).vector for kind in STRUCTURES},
}
# Calls whose result does not depend on the seed.
IDLE = {
    "sequence": lambda seed: hrr.sequence(ROWS[:0], seed=seed),
    "ngrams": lambda seed: hrr.ngrams(ROWS, 1, seed=seed),
    "graph": lambda seed: hrr.graph(ROWS, ROWS, directed=False, seed=seed),
    "Resonator": lambda seed: hrr.Resonator(BOOKS, seed=seed),
    "Vocabulary": lambda seed: hrr.Vocabulary(DIM, seed),
    **{kind.__name__: lambda seed, kind=kind: kind(DIM, seed=seed) for kind in STRUCTURES},
}


def drawn(seed):
    words = hrr.Vocabulary(DIM, seed, device="cpu")
    words.populate("A")
    return words["A"]


@pytest.mark.parametrize("op", SEEDED)
def test_seeds_count_modulo_2_to_the_64(op):
    call = SEEDED[op]
    results = {seed: call(seed) for seed in (0, 1, -1, -(2**63), 2**64 - 1, 2**63, 2**63 - 1)}
    assert torch.equal(results[-1], results[2**64 - 1]) and torch.equal(results[-(2**63)], results[2**63])
    assert torch.equal(call(10**40), call(10**40 % 2**64)) and torch.equal(call(1 - 2**64), results[1])
    assert not torch.equal(results[0], results[1])


@pytest.mark.parametrize("op", [*SEEDED, *(f"{op}, idle" for op in IDLE)])
def test_what_is_no_seed_is_refused_at_once(op):
    name, _, idle = op.partition(",")
    call = (IDLE if idle else SEEDED)[name]
    for seed in (True, 1.0, "1", None, torch.tensor(1)):
        with pytest.raises(TypeError, match=f"^{name}: seed must be an int, got {type(seed).__name__}$"):
            call(seed)


def test_positions_and_powers_of_64_bits():
    assert torch.equal(hrr.at(hrr.permute(ROW, 0, 2**63 - 1), 2**63 - 2), ROW)
    for index in (2**63 - 1, 2**63, 2**64, -1, -(2**63) - 1):
        with pytest.raises(IndexError, match=rf"^at: index must be >= 0 and below 2\^63 - 1, got {index}$"):
            hrr.at(ROW, index)
    with pytest.raises(ValueError, match=rf"^permute: power must be above -2\^63, got {-(2**63)}"):
        hrr.permute(ROW, 0, -(2**63))
    for power in (2**63, -(2**64)):
        with pytest.raises(ValueError, match=rf"^permute: power must be above -2\^63 and below 2\^63, got {power}$"):
            hrr.permute(ROW, 0, power)
    for power in (1.0, True, None):
        with pytest.raises(TypeError, match=r"^permute: power must be an int, got "):
            hrr.permute(ROW, 0, power)
    assert torch.equal(hrr.ngrams(ROWS, 2**64 - 2**63 - 1), torch.zeros(DIM))


MEMORY = hrr.ItemMemory(ROWS, ["a", "b", "c"])
# What takes a vector, or a tensor of them, and the words it complains in.
VECTORS = {
    "sequence: items": lambda x: hrr.sequence(x),
    "at: sequence": lambda x: hrr.at(x, 0),
    "ngrams: items": lambda x: hrr.ngrams(x, 2),
    "graph: sources": lambda x: hrr.graph(x, ROWS),
    "graph: targets": lambda x: hrr.graph(ROWS, x),
    "ItemMemory: vectors": lambda x: hrr.ItemMemory(x),
    "cleanup: query": lambda x: MEMORY.cleanup(x),
    "Resonator: codebooks": lambda x: hrr.Resonator([x]),
    "factorize: x": lambda x: hrr.Resonator(BOOKS).factorize(x),
    "Record: roles": lambda x: hrr.Record({"a": x}),
    "set: filler": lambda x: hrr.Record({"a": ROW}).set("a", x),
    "add: vector": lambda x: hrr.VectorStore(DIM).add("a", x),
    "add_many: vectors": lambda x: hrr.VectorStore(DIM).add_many(["a"], x),
    "involution: a": lambda x: hrr.involution(x),
    "normalize: a": lambda x: hrr.normalize(x),
    "bind: a": lambda x: hrr.HRROperations(DIM, "cpu").bind(x, ROW),
    "superpose: weights": lambda x: hrr.HRROperations(DIM, "cpu").superpose(ROWS, [1.0] if x is None else x),
    "adaptive_bind: b": lambda x: hrr.HybridHRRSystem(DIM, "cpu").adaptive_bind(ROW, x),
    "Bind: x": lambda x: hrr.Bind(DIM)(x),
    "Bind: x, three": lambda x: hrr.Bind(DIM, 3)(x),
    "Unbind: x": lambda x: hrr.Unbind(DIM)(x),
    "BindSuperpose: x": lambda x: hrr.BindSuperpose(DIM, 3)(x),
    "BindSuperpose: weights": lambda x: hrr.BindSuperpose(DIM, DIM)(torch.ones(DIM, DIM), "x" if x is None else x),
    "HRRAttention: x": lambda x: hrr.HRRAttention(DIM)(x),
    "HRRMultiLabelLoss: s": lambda x: hrr.HRRMultiLabelLoss(3, DIM)(x, torch.ones(3)),
    "HRRMultiLabelLoss: s, scores": lambda x: hrr.HRRMultiLabelLoss(3, DIM).scores(x),
}


@pytest.mark.parametrize("where", VECTORS)
def test_only_tensors_of_the_right_kind_are_vectors(where):
    name = where.partition(",")[0]
    for value in NO_TENSORS:
        with pytest.raises(TypeError, match=f"^{name} must be a torch.Tensor( or a NumPy array)?, got "):
            VECTORS[where](value)
    for value in NO_VECTORS:
        with pytest.raises(TypeError, match=f"^{name} must be (float32, .* got torch|strided, got )"):
            VECTORS[where](value)


CHANGES = {
    hrr.Sequence: (lambda made, x: made.append(x), lambda made, x: made.extend(x)),
    hrr.Stack: (lambda made, x: made.push(x), lambda made, x: made.pop(x)),
    hrr.Graph: (lambda made, x: made.add(ROW, x), lambda made, x: made.remove(x, ROW)),
    hrr.HashTable: (lambda made, x: made.add(ROW, x), lambda made, x: made.remove(x, ROW)),
}


@pytest.mark.parametrize("kind", STRUCTURES, ids=lambda kind: kind.__name__)
def test_a_structure_that_refuses_stays_as_it_was(kind):
    made = filled(kind)
    vector, state = made.vector.clone(), copy.copy(vars(made))
    for change in CHANGES[kind]:
        for value in (*NO_TENSORS, *NO_VECTORS):
            with pytest.raises(TypeError, match=r"^\w+: \w+ must be "):
                change(made, value)
        for value in (torch.tensor(1.0), ROW[:0], ROWS[:, 1:], ROWS.to("meta"), hrr.ItemMemory(ROWS.to("meta"))):
            with pytest.raises((RuntimeError, TypeError, ValueError), match=r"^\w+: \w+ must "):
                change(made, value)
    assert torch.equal(made.vector, vector) and vars(made).keys() == state.keys()
    assert all(vars(made)[key] is state[key] for key in state)


def test_pop_takes_an_item_memory():
    for memory in (None, ROWS, [ROW], {"a": ROW}):
        with pytest.raises(TypeError, match=f"^pop: memory must be an ItemMemory, got {type(memory).__name__}$"):
            filled(hrr.Stack).pop(memory)


@pytest.mark.parametrize(
    "names", [{"a", "b", "c"}, {"a": 0, "b": 1, "c": 2}, iter("abc"), None], ids=["set", "dict", "iterator", "None"]
)
def test_names_have_an_order(names):
    """A set of strings comes in another order in every process."""
    calls = {
        "add_many": lambda: hrr.VectorStore(DIM).add_many(names, ROWS),
        "get_many": lambda: hrr.VectorStore(DIM).get_many(names),
        "ItemMemory": lambda: hrr.ItemMemory(ROWS, 3 if names is None else names),
    }
    for op, call in calls.items():
        with pytest.raises(TypeError, match=f"^{op}: names must be a sequence of str, got "):
            call()


@pytest.mark.parametrize("books", [None, 3, {"a": BOOKS[0]}, {BOOKS[0], BOOKS[1]}], ids=["None", "3", "dict", "set"])
def test_codebooks_have_an_order(books):
    with pytest.raises(TypeError, match=r"^Resonator: codebooks must be a sequence of tensors, got "):
        hrr.Resonator(books)


def test_vectors_that_torch_cannot_count():
    for make, argument in (
        (lambda: hrr.random(2**40, 2**20), "random: the vectors"),
        (lambda: hrr.Stack(2**62), "Stack: the vector"),
        (lambda: hrr.Vocabulary(2**62), "Vocabulary: a vector"),
    ):
        with pytest.raises(ValueError, match=rf"^{argument} must have fewer than 2\^59 elements, got sizes \["):
            make()


def test_names_of_roles_are_str():
    with pytest.raises(TypeError, match=r"^Record: roles must have names of type str, got 1$"):
        hrr.Record({1: ROW})


SIZES = {
    "identity: dim": lambda size: hrr.identity(size),
    "random: n": lambda size: hrr.random(size, 4),
    "random: dim": lambda size: hrr.random(1, size),
    "ngrams: n": lambda size: hrr.ngrams(ROWS, size),
    "Vocabulary: dim": lambda size: hrr.Vocabulary(size),
    "VectorStore: dim": lambda size: hrr.VectorStore(size),
    "VectorStore: capacity": lambda size: hrr.VectorStore(DIM, capacity=size),
    "HRROperations: dimensionality": lambda size: hrr.HRROperations(size, "cpu"),
    "adaptive_bind: batch_size": lambda size: hrr.HybridHRRSystem(DIM, "cpu").adaptive_bind(
        ROW, ROW, "x" if size is None else size
    ),
    "factorize: max_iterations": lambda size: hrr.Resonator(BOOKS).factorize(BOOKS[0], size),
    "Bind: dim": lambda size: hrr.Bind(size),
    "Unbind: roles": lambda size: hrr.Unbind(DIM, size),
    "HRRAttention: embed_dim": lambda size: hrr.HRRAttention(size),
    "HRRAttention: num_heads": lambda size: hrr.HRRAttention(DIM, size),
    "HRRMultiLabelLoss: num_labels": lambda size: hrr.HRRMultiLabelLoss(size, DIM),
    **{f"{kind.__name__}: dim": lambda size, kind=kind: kind(size) for kind in STRUCTURES},
}


@pytest.mark.parametrize("where", SIZES)
def test_sizes_are_ints_in_range(where):
    for size in (None, "8", 8.0, True, torch.tensor(8)):
        with pytest.raises(TypeError, match=f"^{where} must be an int, got "):
            SIZES[where](size)
    with pytest.raises(ValueError, match=f"^{where} must be at least [01], got -1$"):
        SIZES[where](-1)
    with pytest.raises(ValueError, match=rf"^{where} must be below 2\^63, got {2**63}$"):
        SIZES[where](2**63)


SWITCHES = {
    "random: unitary": lambda value: hrr.random(1, DIM, None, value),
    "random: normalized": lambda value: hrr.random(1, DIM, normalized=value),
    "graph: directed": lambda value: hrr.graph(ROWS, ROWS, value),
    "Graph: directed": lambda value: hrr.Graph(DIM, value),
    "superpose: normalize": lambda value: hrr.HRROperations(DIM, "cpu").superpose(ROWS, None, value),
    "Vocabulary: unitary": lambda value: hrr.Vocabulary(DIM, unitary=value),
    "Vocabulary: strict": lambda value: hrr.Vocabulary(DIM, strict=value),
    "Bind: unitary": lambda value: hrr.Bind(DIM, 1, value),
    "BindSuperpose: normalize": lambda value: hrr.BindSuperpose(DIM, 1, False, value),
    "HRRAttention: bias": lambda value: hrr.HRRAttention(DIM, 1, value),
}


@pytest.mark.parametrize("where", SWITCHES)
def test_switches_are_bools(where):
    for value in (None, "False", 1, ROW, torch.tensor(True)):
        with pytest.raises(TypeError, match=f"^{where} must be a bool, got {type(value).__name__}$"):
            SWITCHES[where](value)


@pytest.mark.parametrize(
    "dtype", ["float32", 0, torch.int64, torch.complex64, ROW.numpy()], ids=["str", "0", "int64", "complex64", "array"]
)
def test_dtypes_are_those_of_the_operators(dtype):
    made = {
        "random": lambda: hrr.random(1, DIM, dtype=dtype),
        "Vocabulary": lambda: hrr.Vocabulary(DIM, dtype=dtype),
        "VectorStore": lambda: hrr.VectorStore(DIM, dtype=dtype),
        "HRROperations": lambda: hrr.HRROperations(DIM, "cpu", dtype),
        "Stack": lambda: hrr.Stack(DIM, dtype=dtype),
        "Bind": lambda: hrr.Bind(DIM, dtype=dtype),
    }
    for name, call in made.items():
        with pytest.raises(TypeError, match=f"^{name}: dtype must be float32, .*, got {re.escape(repr(dtype)[:20])}"):
            call()


@pytest.mark.parametrize("generator", [0, "cpu", torch.default_generator.get_state()], ids=["int", "str", "state"])
def test_generators_are_generators(generator):
    for call in (
        lambda: hrr.random(1, DIM, generator),
        lambda: hrr.HRROperations(DIM, "cpu").unitary_random(1, generator),
        lambda: hrr.Bind(DIM, generator=generator),
    ):
        with pytest.raises(TypeError, match=r"^(\w*random|Bind): generator must be a torch.Generator or None, got "):
            call()


def test_tensors_without_data_are_refused():
    """What copies or multiplies a meta tensor would fail from inside, or give another one."""
    operations, weight = hrr.HRROperations(DIM, "cpu"), ROWS.to("meta")[:, 0]
    for name, call in {
        "bind: a": lambda: operations.bind(ROW.to("meta"), ROW),
        "superpose: weights": lambda: operations.superpose(ROWS, weight),
        "names_of: indices": lambda: MEMORY.names_of(torch.zeros(2, dtype=torch.int64, device="meta")),
    }.items():
        with pytest.raises(ValueError, match=f"^{name} must hold data, got a meta tensor$"):
            call()
    assert hrr.HRROperations(DIM, "meta").bind(ROW, ROW.to("meta")).is_meta
    with pytest.raises(RuntimeError, match=r"^HRRAttention: x must be on cpu, got meta$"):
        hrr.HRRAttention(DIM, device="cpu")(ROWS.to("meta"))
    with pytest.raises(RuntimeError, match=r"^HRRMultiLabelLoss: targets must be on cpu, got meta$"):
        hrr.HRRMultiLabelLoss(3, DIM, device="cpu")(ROW, torch.ones(3, device="meta"))


def test_targets_and_masks_are_real_tensors():
    loss, attend = hrr.HRRMultiLabelLoss(3, DIM), hrr.HRRAttention(DIM)
    for call in (lambda targets: loss(ROW, targets), loss.encode):
        for targets in (None, [1, 0, 1], "x"):
            with pytest.raises(
                TypeError, match=r"^HRRMultiLabelLoss: targets must be a torch.Tensor( or a NumPy array)?, got "
            ):
                call(targets)
        with pytest.raises(TypeError, match=r"^HRRMultiLabelLoss: targets must be real, got torch.complex64$"):
            call(torch.ones(3, dtype=torch.complex64))
        with pytest.raises(TypeError, match=r"^HRRMultiLabelLoss: targets must be strided, got torch.sparse_coo"):
            call(torch.ones(3).to_sparse())
    for mask in ([False], "x", 0):
        with pytest.raises(
            TypeError, match=r"^HRRAttention: key_padding_mask must be a torch.Tensor( or a NumPy array)?, got "
        ):
            attend(ROWS, mask)
    with pytest.raises(Exception, match="targets must be real"):
        torch.jit.script(loss)(ROW, torch.ones(3, dtype=torch.complex64))
    for weight in ("1", None, True):
        with pytest.raises(TypeError, match=r"^HRRMultiLabelLoss: missing_weight must be a number, got "):
            hrr.HRRMultiLabelLoss(3, DIM, weight)


def test_a_search_may_be_as_long_as_one_likes(monkeypatch):
    """Starts are made as they are needed, and are the same however many are made together."""
    x = hrr.bind(BOOKS[0, 1], BOOKS[1, 2])
    assert hrr.Resonator(BOOKS).factorize(x, 2**63 - 1).indices.tolist() == [1, 2]
    starts = [torch.stack(start) for start in hrr.Resonator(BOOKS)._starts(50)]
    monkeypatch.setattr(resonator, "_STARTS", 7)
    fewer = [torch.stack(start) for start in hrr.Resonator(BOOKS)._starts(50)]
    assert len(starts) == 50 and torch.equal(torch.stack(starts), torch.stack(fewer))
    assert len({tuple(start.flatten().tolist()) for start in starts}) == 50
