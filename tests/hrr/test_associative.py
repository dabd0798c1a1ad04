"""Hopfield networks and sparse distributed memory against loops over items and locations, and what they promise."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_hrr
from torch_hrr.hrr import HopfieldMemory, SparseDistributedMemory, associative, random

laws = settings(max_examples=20, derandomize=True, database=None, deadline=None)
DOUBLE = torch.float64


def rows(seed, *shape, dtype=DOUBLE, normalized=True):
    generator = torch.Generator().manual_seed(seed)
    return random(shape[0] if len(shape) > 1 else 1, shape[-1], generator, device="cpu", dtype=dtype).view(shape)


def cosines(a, b):
    return torch.nn.functional.cosine_similarity(a, b, dim=-1)


def step(items, query, beta):
    """One row, an item at a time."""
    weights = [(beta * float(item @ query)) for item in items]
    exps = [torch.tensor(weight - max(weights), dtype=DOUBLE).exp() for weight in weights]
    return sum(e * item for e, item in zip(exps, items, strict=True)) / sum(exps)


def energy(items, query, beta):
    total = sum(torch.exp(beta * (item @ query)) for item in items)
    largest = max(float(item @ item) for item in items)
    return -total.log() / beta + query @ query / 2 + torch.tensor(float(len(items))).log() / beta + largest / 2


@laws
@given(st.integers(0, 2**32), st.floats(0.1, 30), st.integers(1, 9), st.integers(1, 3))
def test_a_hopfield_step_and_its_energy_are_their_formulas(seed, beta, count, steps):
    items, queries = rows(seed, count, 12), rows(seed + 1, 4, 12)
    memory = HopfieldMemory(items, beta)
    for query, found, level in zip(queries, memory.recall(queries, steps=steps), memory.energy(queries), strict=True):
        expected = query
        for _ in range(steps):
            expected = step(items, expected, beta)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(level, energy(items, query, beta))
        torch.testing.assert_close(memory.recall(query, beta, steps), found)


@laws
@given(st.integers(0, 2**32), st.floats(0.1, 30))
def test_the_energy_never_rises_and_is_never_negative(seed, beta):
    memory, state = HopfieldMemory(3 * rows(seed, 7, 6), beta), 4 * rows(seed + 1, 5, 6)
    level = memory.energy(state)
    for _ in range(6):
        assert (level > -1e-12).all()
        state = memory.recall(state)
        assert (memory.energy(state) <= level + 1e-12).all()
        level = memory.energy(state)


def test_a_noisy_item_comes_back_from_a_thousand():
    items = rows(3, 1000, 1024, dtype=torch.float32)
    memory = HopfieldMemory(items)
    assert memory.beta == 32 and len(memory) == 1000 and torch.equal(memory.vectors, items)
    noisy = items[:20] + 2 * rows(4, 20, 1024, dtype=torch.float32)
    assert float(cosines(noisy, items[:20]).max()) < 0.55
    assert float(cosines(memory.recall(noisy), items[:20]).min()) > 0.99
    # A beta of 0.01 averages all items, whatever is asked.
    mean = items.mean(0)
    assert float(cosines(memory.recall(noisy, 0.01), mean).min()) > 0.99


def test_beta_may_be_one_for_each_query_and_learned():
    items, queries = rows(5, 6, 8), rows(6, 6, 8).view(2, 3, 8)
    memory, beta = HopfieldMemory(items, 2.0), torch.tensor([1.0, 5.0, 20.0], dtype=DOUBLE)
    answers, levels = memory.recall(queries, beta), memory.energy(queries, beta)
    for i, each in enumerate(beta.tolist()):
        torch.testing.assert_close(answers[:, i], memory.recall(queries[:, i], each))
        torch.testing.assert_close(levels[:, i], memory.energy(queries[:, i], each))
    # One query for three temperatures.
    torch.testing.assert_close(memory.recall(queries[0, 0], beta)[1], memory.recall(queries[0, 0], 5.0))

    def work(query, beta):
        return memory.recall(query, beta, 2), memory.energy(query, beta)

    given = (queries.clone().requires_grad_(), beta.clone().requires_grad_())
    assert torch.autograd.gradcheck(work, given) and torch.autograd.gradgradcheck(work, given)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32))
def test_a_hopfield_memory_of_every_dtype_and_under_autocast(dtype):
    items, query = rows(7, 20, 64), rows(8, 5, 64)
    memory, exact = HopfieldMemory(items.to(dtype)), HopfieldMemory(items).recall(query)
    answer = memory.recall(query.to(dtype))
    assert answer.dtype == dtype and memory.energy(query.to(dtype)).dtype == torch.float32
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5}[dtype]
    torch.testing.assert_close(answer.double(), exact, rtol=0, atol=tolerance)
    assert memory.recall(query).dtype == DOUBLE and memory.double().recall(query.to(dtype)).dtype == DOUBLE
    single = HopfieldMemory(items.float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(single.recall(query.float()), HopfieldMemory(items.float()).recall(query.float()))
        inside = single.recall(query.float())
    assert torch.equal(inside, single.recall(query.float()))


def test_a_hopfield_memory_is_one_graph():
    torch._dynamo.reset()
    memory, query = HopfieldMemory(rows(9, 6, 8)), rows(10, 3, 8).requires_grad_()
    compiled = torch.compile(lambda x, beta: memory.recall(x, beta, 2), fullgraph=True, backend="aot_eager")
    beta = torch.tensor(3.0, dtype=DOUBLE, requires_grad=True)
    results = compiled(query, beta), memory.recall(query, beta, 2)
    gradients = [torch.autograd.grad(each.square().sum(), (query, beta)) for each in results]
    torch.testing.assert_close(*gradients)
    # Numbers that change from call to call are inputs of the graph.
    for number in (1.0, 2.5, 3.0):
        torch.testing.assert_close(compiled(query, number), memory.recall(query, number, 2))
    torch._dynamo.reset()


def test_a_beta_of_the_width_that_is_computed_in():
    memory = HopfieldMemory(torch.eye(3), 1e39)
    assert memory.recall(torch.tensor([0.1, 0.2, 0.3], dtype=DOUBLE)).tolist() == [0, 0, 1]


@pytest.mark.parametrize("beta", [-1, float("nan"), "8", torch.tensor(8.0)])
def test_a_beta_that_no_file_could_give_back_is_not_saved(beta, tmp_path):
    memory = HopfieldMemory(torch.eye(3))
    memory.beta = beta
    with pytest.raises((TypeError, ValueError), match=r"^save: beta must be"):
        memory.save(tmp_path / "memory")
    assert not (tmp_path / "memory").exists()


ITEMS = torch.ones(2, 4)
REFUSED = [
    (lambda: HopfieldMemory(torch.ones(4)), ValueError, r"HopfieldMemory: vectors must be \[N, D\] .*, got \[4\]"),
    (lambda: HopfieldMemory(torch.ones(0, 4)), ValueError, r"HopfieldMemory: vectors must be .*, got \[0, 4\]"),
    (lambda: HopfieldMemory(ITEMS, 0), ValueError, "HopfieldMemory: beta must be a finite number > 0, got 0"),
    (lambda: HopfieldMemory(ITEMS).recall(torch.ones(3)), ValueError, "recall: query must have the last .*"),
    (lambda: HopfieldMemory(ITEMS).recall(torch.ones(4), -1.0), ValueError, "recall: beta must be .*, got -1.0"),
    (lambda: HopfieldMemory(ITEMS).recall(torch.ones(4), 1e39), ValueError, r"recall: beta must be .*, got 1e\+39"),
    (lambda: HopfieldMemory(ITEMS, 1e39).energy(torch.ones(4)), ValueError, r"energy: beta must be .*, got 1e\+39"),
    (lambda: HopfieldMemory(ITEMS).energy(torch.ones(4), torch.ones(1).int()), TypeError, "energy: beta must .*int32"),
    (
        lambda: HopfieldMemory(ITEMS).recall(torch.ones(2, 4), torch.ones(3)), ValueError,
        r"recall: query and beta must have leading dimensions that broadcast, got \[2\] and \[3\]",
    ),
    (lambda: HopfieldMemory(ITEMS).recall(ITEMS.to("meta")), RuntimeError, "recall: query must be on cpu, got meta"),
    (
        lambda: SparseDistributedMemory(4, 3, 4, device="cpu"), ValueError,
        "SparseDistributedMemory: active must be at most locations = 3, got 4",
    ),
    (lambda: memory_of(4, 3, 2).write(torch.ones(3)), ValueError, "write: address must have the last dimension 4, .*"),
    (lambda: memory_of(4, 3, 2, 6).write(torch.ones(4)), ValueError, "write: value must have the last dimension 6, .*"),
    (
        lambda: memory_of(4, 3, 2).write(torch.ones(2, 4), torch.ones(3, 4)), ValueError,
        r"write: address and value must have leading dimensions that broadcast, got \[2\] and \[3\]",
    ),
    (lambda: memory_of(4, 3, 2).read(torch.ones(4).int()), TypeError, "read: address must .*int32"),
    (lambda: memory_of(4, 3, 2).writes(ITEMS.to("meta")), RuntimeError, "writes: address must be on cpu, got meta"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSED, ids=range(len(REFUSED)))
def test_what_does_not_fit_is_named(call, error, text):
    with pytest.raises(error, match=f"^{text}$"):
        call()


def memory_of(dim, locations, active, value_dim=None, **options):
    return SparseDistributedMemory(dim, locations, active, value_dim, device="cpu", **options)


def oracle(memory, written, address):
    """What is read, and how often was written, from loops over locations and over a list of all that was written."""
    nearest = [set(cosines(memory._locations(), each).topk(memory.active).indices.tolist()) for each, _ in written]
    asked = set(cosines(memory._locations(), address).topk(memory.active).indices.tolist())
    total, count = torch.zeros(memory.value_dim, dtype=DOUBLE), 0
    for active, (_, value) in zip(nearest, written, strict=True):
        total, count = total + len(active & asked) * value, count + len(active & asked)
    return total / max(count, 1), count


@laws
@given(st.integers(0, 2**32), st.integers(0, 6), st.integers(1, 20))
def test_a_read_is_the_mean_of_what_was_written_there(seed, count, active):
    memory = memory_of(9, 20, active, 5, seed=seed, dtype=DOUBLE)
    addresses, values, asked = rows(seed, count, 9), rows(seed + 1, count, 5), rows(seed + 2, 4, 9)
    for address, value in zip(addresses, values, strict=True):
        memory.write(address, value)
    written = list(zip(addresses, values, strict=True))
    for address, found, number in zip(asked, memory.read(asked), memory.writes(asked), strict=True):
        expected, times = oracle(memory, written, address)
        torch.testing.assert_close(found, expected)
        assert number == times and torch.equal(memory.read(3 * address), found)
    together = memory_of(9, 20, active, 5, seed=seed, dtype=DOUBLE)
    together.write(addresses, values)
    torch.testing.assert_close(together.read(asked), memory.read(asked))


def test_what_was_never_written_is_told_apart():
    memory = memory_of(64, 100, 3, dtype=DOUBLE)
    items = rows(11, 2, 64)
    assert memory.writes(items).tolist() == [0, 0] and torch.equal(memory.read(items), torch.zeros(2, 64, dtype=DOUBLE))
    memory.write(items[0])
    far = next(each for each in rows(12, 50, 64) if memory.writes(each) == 0)
    assert torch.equal(memory.read(far), torch.zeros(64, dtype=DOUBLE)) and memory.writes(items[0]) == 3
    torch.testing.assert_close(memory.read(items[0]), items[0])
    # Once more, and as one of a batch of the same address: each row is a write.
    memory.write(items[0], torch.stack((items[1], items[1])))
    assert memory.writes(items[0]) == 9
    torch.testing.assert_close(memory.read(items[0]), (items[0] + 2 * items[1]) / 3)


def test_the_noise_of_reading_is_what_the_docstring_says():
    locations, active, count, dim = 1000, 30, 100, 512
    found, expected = [], []
    for seed in range(4):
        items = rows(seed, count, dim, dtype=torch.float32)
        memory = memory_of(dim, locations, active, seed=seed)
        memory.write(items)
        asked = items + 0.5 * rows(seed + 50, count, dim, dtype=torch.float32)
        for query in (items, asked):
            common = (memory._active(query).unsqueeze(-1) == memory._active(items).unsqueeze(-2)).any(-1).sum(-1)
            noise = count / locations * (active / common.float().mean()) ** 2 * (1 + active**2 / locations)
            found.append(cosines(memory.read(query), items).mean()), expected.append((1 + noise) ** -0.5)
    torch.testing.assert_close(torch.stack(found), torch.stack(expected), rtol=0.03, atol=0)


def test_reading_again_cleans_up():
    items = rows(13, 20, 512, dtype=torch.float32)
    memory = memory_of(512, 4000, 60)
    memory.write(items)
    state = items + rows(14, 20, 512, dtype=torch.float32)
    assert float(cosines(state, items).max()) < 0.8
    for least in (0.8, 0.9):
        state = memory.read(state)
        assert float(cosines(state, items).min()) > least


def test_gradients_reach_what_is_written():
    addresses, asked = rows(15, 4, 8), rows(16, 3, 8)

    def work(first, second):
        memory = memory_of(8, 10, 4, 3, dtype=DOUBLE)
        memory.write(addresses[:2], first)
        memory.write(addresses[2:], second)
        return memory.read(asked)

    first, second = rows(17, 2, 3).requires_grad_(), rows(18, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(work, (first, second))
    # Later writes, with and without a gradient, leave earlier results and their graph alone.
    memory = memory_of(8, 10, 4, 3, dtype=DOUBLE)
    memory.write(addresses[0], first[0])
    answer = memory.read(asked)
    before = answer.detach().clone()
    with torch.no_grad():
        memory.write(addresses, rows(19, 4, 3))
    memory.write(addresses, rows(19, 4, 3))
    assert torch.equal(answer, before)
    (gradient,) = torch.autograd.grad(answer.sum(), first)
    assert gradient[0].abs().sum() > 0 and (gradient[1] == 0).all()


def test_long_writes_go_in_parts(monkeypatch):
    addresses = rows(20, 30, 8)
    whole, parts = memory_of(8, 10, 4, dtype=DOUBLE), memory_of(8, 10, 4, dtype=DOUBLE)
    whole.write(addresses)
    monkeypatch.setattr(associative, "_SPREAD", 100)
    parts.write(addresses)
    torch.testing.assert_close(parts._counters, whole._counters)


def test_copies_share_nothing_and_files_go_on(tmp_path):
    memory = memory_of(8, 10, 4, 3, seed=-5)
    address, value = rows(21, 5, 8, dtype=torch.float32), rows(22, 5, 3, dtype=torch.float32)
    memory.write(address[0], value[0])
    memory.save(tmp_path / "file")
    others = [copy.copy(memory), copy.deepcopy(memory), torch_hrr.load(tmp_path / "file", device="cpu")]
    module = memory_of(8, 7, 2)
    module.load_state_dict(memory.state_dict())
    others.append(module)
    before = memory.read(address)
    for each in others:
        each.write(address[1], value[1])
        assert each.value_dim == 3 and each.active == 4 and each.seed == -5
        assert torch.equal(each.read(address), others[0].read(address))
    assert torch.equal(memory.read(address), before) and not torch.equal(before, others[0].read(address))


def test_a_memory_filled_in_inference_mode_is_written_outside():
    address = rows(23, 2, 8, dtype=torch.float32)
    with torch.inference_mode():
        memory = memory_of(8, 10, 4)
        memory.write(address[0])
        memory.read(address)
    memory.write(address[1].requires_grad_(False))
    value = torch.ones(8, requires_grad=True)
    memory.write(address[1], value)
    memory.read(address[1]).sum().backward()
    assert value.grad is not None and value.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_types_are_counted_in_float32(dtype):
    memory, (address,) = memory_of(8, 4, 2, dtype=dtype), rows(24, 1, 8).to(dtype)
    for _ in range(3):
        memory.write(address.expand(1000, 8))
    assert memory.dtype == memory.read(address).dtype == torch.float32 and memory.writes(address) == 6000
    torch.testing.assert_close(memory.read(address), address.float(), rtol=1e-5, atol=1e-6)
    assert memory.half().dtype == torch.float32 and memory.double().read(address).dtype == DOUBLE
    assert memory.writes(address) == 6000


def test_locations_are_unit_vectors_of_the_seed_alone():
    first, second, other = memory_of(64, 50, 2), memory_of(64, 50, 5, 3), memory_of(64, 50, 2, seed=1)
    assert torch.equal(first._locations(), second._locations())
    torch.testing.assert_close(first._locations().norm(dim=1), torch.ones(50))
    drawn = rows(0, 50, 64, dtype=torch.float32)
    for unrelated in (other._locations(), torch.nn.functional.normalize(drawn)):
        assert (first._locations() * unrelated).sum(-1).abs().max() < 0.6
    made = SparseDistributedMemory(8, 10, 4, device="meta").to_empty(device="cpu")
    made.load_state_dict(memory_of(8, 10, 4, seed=3).state_dict())
    assert torch.equal(made._locations(), memory_of(8, 10, 4, seed=3)._locations())


def test_a_loaded_state_has_the_locations_of_its_own_seed():
    memory, other = memory_of(8, 10, 4, seed=1), memory_of(8, 30, 2, seed=2)
    address = rows(25, 3, 8, dtype=torch.float32)
    memory.write(address)
    other.write(address)
    other.load_state_dict(memory.state_dict())
    assert torch.equal(other.read(address), memory.read(address))


def test_an_address_that_is_not_finite_reads_nan_and_its_neighbours_do_not():
    memory, address = memory_of(8, 10, 4), rows(26, 3, 8, dtype=torch.float32)
    memory.write(address)
    broken = address.clone()
    broken[0, 3], broken[2, 1] = torch.nan, torch.inf
    read = memory.read(broken)
    assert read[[0, 2]].isnan().all() and torch.equal(read[1], memory.read(address)[1])


def test_an_energy_under_another_default_device():
    memory, query = HopfieldMemory(rows(1, 3, 8)), rows(2, 8)
    with torch.device("meta"):
        found = memory.energy(query)
    assert torch.equal(found, memory.energy(query))


def test_a_beta_that_is_written_later_is_checked():
    memory, query = HopfieldMemory(rows(1, 3, 8)), rows(2, 8)
    for beta, error in ((-1.0, ValueError), ("2", TypeError)):
        memory.beta = beta
        for call in (memory.recall, memory.energy):
            with pytest.raises(error, match=r"^(recall|energy): beta must be a "):
                call(query)
    memory.beta = 3
    assert torch.equal(memory.recall(query), memory.recall(query, 3.0))


def test_no_address_reads_and_writes_nothing():
    memory = SparseDistributedMemory(8, 20, 3, value_dim=5, device="cpu")
    memory.write(torch.zeros(0, 8), torch.zeros(0, 5))
    assert memory.read(torch.zeros(2, 0, 8)).shape == (2, 0, 5) and memory.writes(torch.zeros(0, 8)).shape == (0,)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_a_conversion_to_a_half_type_forgets_no_write(dtype):
    memory, x = SparseDistributedMemory(8, 20, 3, device="cpu", dtype=torch.float32), torch.linspace(-1, 1, 8)
    memory.write(x.expand(70001, 8))
    expected = memory.read(x)
    memory.to(dtype)
    assert memory.dtype == torch.float32 and int(memory.writes(x)) == 3 * 70001
    assert torch.equal(memory.read(x), expected)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("randomness", ("error", "same", "different"))
def test_a_transform_may_be_the_first_to_read_a_sparse_memory(randomness, tmp_path):
    """Its locations are drawn when they are first needed, and stay: of a loaded memory by its first read."""
    memory = SparseDistributedMemory(32, 100, 10)
    addresses = torch.randn(3, 5, 32, generator=torch.Generator().manual_seed(0))
    memory.write(addresses[0], addresses[0])
    memory.save(tmp_path / "memory")
    loaded = torch_hrr.load(tmp_path / "memory")
    torch.testing.assert_close(torch.func.vmap(loaded.read, randomness=randomness)(addresses), memory.read(addresses))
    assert torch.equal(loaded.read(addresses), memory.read(addresses))
