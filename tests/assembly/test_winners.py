"""k_winners against torch.sort(stable=True): the total order, ties, hidden spikes, and the same bits everywhere."""

import functools
import hashlib

import pytest
import torch
from test_isa import is_available, run_python
from torch import Tensor

from torch_hrr.assembly import k_winners

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int32, torch.int64)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
# Whole rows, few vectors, several chunks, and rows that are sampled.
LENGTHS = (1, 7, 16, 33, 1000, 1024, 2047, 2048, 5000, 20011)

dtypes = pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS), ids=lambda dtype: str(dtype).removeprefix("torch."))
float_dtypes = pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype).removeprefix("torch."))


def bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(BITS[tensor.element_size()])


def order(inputs: Tensor) -> Tensor:
    """Indices by a stable sort in which every NaN is one value and so is every zero."""
    plain = inputs
    if inputs.is_floating_point():
        plain = torch.where(inputs.isnan(), torch.nan, inputs.double())
        plain = torch.where(plain == 0, 0.0, plain)
    return torch.sort(plain, dim=-1, descending=True, stable=True).indices


def check(inputs: Tensor, *ks: int) -> None:
    ordered = order(inputs)
    for k in ks:
        for sorted in (False, True):
            values, indices = k_winners(inputs, k, sorted)
            where = ordered[..., :k] if sorted else ordered[..., :k].sort(-1).values
            assert (values.dtype, indices.dtype) == (inputs.dtype, torch.int64)
            assert torch.equal(indices, where)
            # Of bits: torch quiets the NaNs of float16 and bfloat16 on their way through float32.
            assert torch.equal(bits(values), bits(inputs).gather(-1, where))


def counts(n: int) -> list[int]:
    return [k for k in sorted({0, 1, 2, 5, n // 100, n // 9, n // 8 + 1, n // 2, n - 1, n}) if 0 <= k <= n]


def random_rows(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        return torch.randint(limits.min, limits.max, shape, dtype=dtype, generator=generator)
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype)


@dtypes
def test_random_rows(dtype):
    for n in LENGTHS:
        check(random_rows(3, n, dtype=dtype, seed=n), *counts(n))
    if dtype in INTEGERS:
        limits = torch.iinfo(dtype)
        ends = torch.tensor([limits.min, limits.min + 1, -1, 0, 1, limits.max - 1, limits.max], dtype=dtype)
        rows = ends[torch.randint(len(ends), (2, 5000), generator=torch.Generator().manual_seed(0))]
        check(rows, *counts(5000))
        check(torch.full((3000,), limits.min, dtype=dtype), 7)


SHAPES = {
    "relu": torch.relu,
    "few": torch.round,
    "constant": lambda x: torch.full_like(x, -2.5),
    "two values": lambda x: (x > 0).double(),
    "a rare value": lambda x: (x > 2.5).double(),
    "ascending": lambda x: x.sort(-1).values,
    "descending": lambda x: x.sort(-1, descending=True).values,
    "sawtooth": lambda x: (torch.arange(x.shape[-1]) % 100).double().expand(x.shape),
}


@dtypes
@pytest.mark.parametrize("shape", SHAPES)
def test_ties_and_orders(shape, dtype):
    for n in (33, 5000, 20011):
        check(SHAPES[shape](random_rows(2, n, dtype=torch.float64)).to(dtype), *counts(n))


def test_rows_of_many_candidates():
    """Ascending blocks fill the memory for candidates again and again."""
    climbing = torch.arange(100_000, dtype=torch.float32)
    for rows in (climbing, climbing.view(100, 1000).flip(0).reshape(-1), climbing.div(1000, rounding_mode="floor")):
        check(rows, 1, 300, 40_000, 99_999)


def special_bits(dtype: torch.dtype) -> Tensor:
    """Both infinities, zeros, denormals, largest numbers and NaN of both signs with several payloads, as bits."""
    width = 8 * dtype.itemsize
    mantissa = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23, torch.float64: 52}[dtype]
    infinity = (1 << (width - 1)) - (1 << mantissa)
    positive = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity, infinity + 1]
    positive += [infinity + (1 << (mantissa - 1)), infinity + 5, (1 << (width - 1)) - 1]
    every = [*positive, *(value - (1 << (width - 1)) for value in positive)]
    return torch.tensor(every, dtype=BITS[dtype.itemsize])


@float_dtypes
def test_special_values_keep_their_order_and_bits(dtype):
    special = special_bits(dtype)
    for n in (40, 3000, 20000):
        generator = torch.Generator().manual_seed(n)
        chosen = special[torch.randint(len(special), (2, n), generator=generator)].view(dtype)
        mixed = torch.where(torch.rand(2, n, generator=generator) < 0.01, chosen, random_rows(2, n, dtype=dtype))
        for rows in (chosen, mixed):
            check(rows, *counts(n))


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=("float32", "float64"))
@pytest.mark.parametrize("block", (1, 16, 48, 64, 1000))
def test_spikes_that_a_sample_misses_or_is_full_of(block, dtype):
    """Blocks of spikes at every place: whatever few elements a threshold was guessed from, the winners are exact."""
    n = 20000
    rows = random_rows(20, n, dtype=dtype)
    for i, row in enumerate(rows):
        begin = i * (n // 20)
        row[begin : begin + block] += 100
    check(rows, 100)
    check(-rows, n - 5000)
    # Everything high but a small part, and the other way round, in every period that a regular sample could have.
    for period in (16, 32, 48, 64, 97, 625, 1000):
        for sign in (1, -1):
            where = torch.arange(n) % period < max(1, period // 20)
            check(torch.where(where, 50.0 * sign, 0.0).to(dtype) + random_rows(n, dtype=dtype), 300)


SHOW = """
import sys
from torch_hrr import _library
import test_winners
assert _library.build_info()["isa"] == sys.argv[1]
print(test_winners.digest())
"""


@functools.cache
def digest() -> str:
    """Of results as bits, over dtypes, lengths and k."""
    total = hashlib.sha256()
    for dtype in (*FLOATS, *INTEGERS):
        for n in (7, 33, 1024, 2048, 20011):
            rows = random_rows(2, n, dtype=dtype)
            if dtype in FLOATS:
                rows = torch.cat([rows, rows.round(), rows.relu()])
                rows[0, n // 2] = torch.nan
            for k in counts(n):
                for sorted in (False, True):
                    values, indices = k_winners(rows, k, sorted)
                    total.update(bits(values).numpy().tobytes() + indices.numpy().tobytes())
    return total.hexdigest()


@pytest.mark.parametrize("isa", ("scalar", "avx2", "avx512"))
def test_every_instruction_set_gives_the_same_bits(isa):
    if not is_available(isa):
        pytest.skip(f"this processor has no {isa}")
    finished = run_python(SHOW, isa, isa=isa)
    assert finished.stdout.split() == [digest()], finished.stderr


@pytest.mark.parametrize("half", (torch.bfloat16, torch.float16), ids=("bfloat16", "float16"))
def test_autocast_changes_nothing(half):
    # Two numbers that are one in half precision.
    rows = torch.tensor([1.0, 1.0 + 2**-20, 0.5, 2.0], requires_grad=True)
    with torch.autocast("cpu", half):
        values, indices = k_winners(rows, 2)
    assert values.dtype == torch.float32
    assert torch.equal(indices, torch.tensor([1, 3]))
    assert torch.equal(values, rows[1::2])


def test_indices_changed_in_place_are_refused_by_backward():
    rows = random_rows(100).requires_grad_()
    values, indices = k_winners(rows, 5)
    indices.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        values.sum().backward()


def test_integers_take_no_gradient():
    values, _ = k_winners(torch.arange(10), 3)
    assert not values.requires_grad
    assert values.tolist() == [7, 8, 9]


def test_k_that_depends_on_a_size_compiles_once():
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    def tenth(x: Tensor) -> tuple[Tensor, Tensor]:
        return k_winners(x, x.shape[-1] // 10)

    torch._dynamo.reset()
    compiled = torch.compile(tenth, backend=backend, fullgraph=True, dynamic=True)
    for n in (40, 70, 200):
        rows = random_rows(3, n)
        assert all(map(torch.equal, compiled(rows), tenth(rows)))
    assert len(graphs) == 1
    torch._dynamo.reset()
