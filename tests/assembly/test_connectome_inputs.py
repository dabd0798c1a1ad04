"""connectome_inputs against plain torch, bit for bit; its arguments, its errors, and what its bits do not depend on."""

import hashlib
import warnings

import pytest
import torch
from cases import INTEGER_CASES
from cases.base import build, named
from test_isa import is_available, run_python

from torch_hrr._plain import assembly_connectome as plain
from torch_hrr.assembly import connectome_inputs

DENSITIES = (0.0, 2**-44, 1e-5, 0.001, 2**-8 - 2**-60, 2**-8, 0.01, 0.3, 0.5, 1.0)


def drawn(*shape, most=2**31, seed=0):
    return torch.randint(most, shape, generator=torch.Generator().manual_seed(seed))


# Every density with two of the shapes, every shape with four of the densities.
SHAPES = [((1,), 1), ((17,), 255), ((4,), 140_001), ((2, 3, 5), 700), ((3, 33), 513)]
COMBINED = [(p, *SHAPES[place % 5]) for i, p in enumerate(DENSITIES) for place in (i, i // 5 + i + 2)]


@pytest.mark.parametrize(("p", "shape", "n"), COMBINED)
def test_equals_plain_torch(p, shape, n):
    winners = drawn(*shape)
    result = connectome_inputs(winners, n, p, 5, 6)
    assert torch.equal(result, plain.connectome_inputs(winners, n, p, 5, 6))
    assert (result.dtype, result.shape, result.is_contiguous()) == (torch.int32, (*shape[:-1], n), True)
    assert p < 1 or (result == shape[-1]).all()


@pytest.mark.parametrize("argument", ["seed", "fiber", "brain"])
def test_numbers_are_taken_modulo_two_to_the_64(argument):
    winners = drawn(20)
    results = []
    for value in (0, 1, -1, 2**32, 2**63 - 1, -(2**63)):
        numbers = {"seed": 3, "fiber": 4, "brain": 5} | {argument: value}
        result = connectome_inputs(winners, 3000, 0.1, **numbers)
        assert torch.equal(result, plain.connectome_inputs(winners, 3000, 0.1, **numbers))
        assert torch.equal(result, connectome_inputs(winners, 3000, 0.1, **(numbers | {argument: value % 2**64})))
        results.append(result)
    assert all(not torch.equal(a, b) for i, a in enumerate(results) for b in results[:i])


def test_the_brain_is_0_unless_given():
    winners = drawn(20)
    expected = connectome_inputs(winners, 3000, 0.1, 3, 4, 0)
    assert torch.equal(connectome_inputs(winners, 3000, 0.1, 3, 4), expected)
    assert torch.equal(torch.ops.torch_hrr.connectome_inputs(winners, 3000, 0.1, 3, 4), expected)


def test_inputs_add_and_do_not_depend_on_order():
    winners = drawn(30)
    whole = connectome_inputs(winners, 5000, 0.2, 1, 2)
    assert torch.equal(connectome_inputs(winners.flip(0), 5000, 0.2, 1, 2), whole)
    assert torch.equal(sum(connectome_inputs(part, 5000, 0.2, 1, 2) for part in winners.split(7)), whole)
    assert torch.equal(connectome_inputs(torch.cat([winners, winners]), 5000, 0.2, 1, 2), 2 * whole)
    assert torch.equal(connectome_inputs(winners, 1234, 0.2, 1, 2), whole[:1234])


def test_the_last_neuron_and_strides():
    last = torch.tensor([2**31 - 1])
    assert torch.equal(connectome_inputs(last, 900, 0.5, 0, 0), plain.connectome_inputs(last, 900, 0.5, 0, 0))
    winners = drawn(6, 8)
    expected = connectome_inputs(winners, 400, 0.3, 0, 0)
    for moved in (winners.t().contiguous().t(), torch.stack([winners, -winners], -1)[..., 0]):
        assert torch.equal(connectome_inputs(moved, 400, 0.3, 0, 0), expected)
    same = winners[:1].expand(6, 8)
    assert torch.equal(connectome_inputs(same, 400, 0.3, 0, 0), expected[:1].expand(6, 400))


def test_there_is_no_gradient_and_no_warning():
    winners = drawn(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = connectome_inputs(winners, 60, 0.3, 0, 0)
        assert not result.requires_grad
        weight = torch.rand(60, requires_grad=True)
        (gradient,) = torch.autograd.grad((result * weight).sum(), weight)
        assert torch.equal(gradient, result.sum(0).float())
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(connectome_inputs(winners, 60, 0.3, 0, 0), result)
        with torch.inference_mode():
            assert torch.equal(connectome_inputs(winners, 60, 0.3, 0, 0), result)


def digest():
    """Of results with few rows and many, one block and several."""
    total = hashlib.sha256()
    for shape, n, p in (
        ((317,), 200_001, 0.01),
        ((50, 33), 3000, 0.3),
        ((7, 40), 300_000, 0.001),
        ((100,), 5000, 1e-5),
    ):
        total.update(connectome_inputs(drawn(*shape), n, p, 1, 2, 3).numpy().tobytes())
    return total.hexdigest()


def test_bits_do_not_depend_on_threads_nor_on_the_batch():
    torch.set_num_threads(1)
    expected = digest()
    for threads in (2, 3, 5):
        torch.set_num_threads(threads)
        assert digest() == expected
    winners = drawn(9, 33)
    whole = connectome_inputs(winners, 70_000, 0.01, 1, 2)
    assert all(
        torch.equal(connectome_inputs(row, 70_000, 0.01, 1, 2), x) for row, x in zip(winners, whole, strict=True)
    )


GOLDEN = "25a8f61c70f460ba6c899b4854381b05db4fc5d940c8987c30d7101fd8d4b178"
SCRIPT = """
import test_connectome_inputs
from torch_hrr import _library
print(_library.build_info()["isa"], test_connectome_inputs.digest())
"""


@pytest.mark.parametrize("isa", ["scalar", "avx2", "avx512"])
def test_bits_do_not_depend_on_the_instruction_set(isa):
    if not is_available(isa):
        pytest.skip(f"this processor has no {isa}")
    run = run_python(SCRIPT, isa=isa)
    assert run.stdout.split() == [isa, GOLDEN], run.stderr


INTEGERS = named((case, sample) for case in INTEGER_CASES for sample in case.samples)


@pytest.mark.parametrize(("case", "sample"), INTEGERS)
def test_equals_the_definition_one_edge_at_a_time(case, sample):
    arguments = build(sample)
    before = arguments["winners"].clone()
    (result,) = case.run(arguments)
    expected = case.oracle(**arguments)
    for other in (expected, case.plain(**arguments), case.wrapper(**arguments)):
        assert (
            (result.dtype, result.shape) == (other.dtype, other.shape) == (torch.int32, *case.result_sizes(arguments))
        )
        assert torch.equal(result, other)
    assert torch.equal(arguments["winners"], before)


COUNTS = torch.ops.torch_hrr._connectome_counts_


def part(first, n, rows, p, sign=1, count=COUNTS):
    """What is added to counts that are not 0."""
    counts = torch.arange(n, dtype=torch.int32)
    count(counts, rows, first, sign, p, 3, 7, 2)
    return counts - torch.arange(n, dtype=torch.int32)


@pytest.mark.parametrize(("p", "n"), [(0.3, 1500), (0.02, 40_000), (0.0005, 300_000), (1.0, 300), (0.0, 300)])
def test_counts_of_some_columns_are_those_of_all(p, n):
    """From a block's first column and within one, up to a block's end and within one; of any number of threads."""
    rows = drawn(40, most=5000)
    expected = connectome_inputs(rows, n, p, 3, 7, 2)
    for threads, first in ((1, 0), (1, 255), (2, 256), (1, n // 3), (3, n - 2), (1, n)):
        torch.set_num_threads(threads)
        for end in {n, min(n, first + 1), min(n, first + 256)}:
            assert torch.equal(part(first, end - first, rows, p), expected[first:end]), (first, end)
            assert torch.equal(part(first, end - first, rows, p, -1), -expected[first:end])
    assert torch.equal(part(n // 3, 200, rows, p, -1, plain.connectome_counts_), -expected[n // 3 : n // 3 + 200])
    assert not part(0, 5, rows[:0], p).any()


def test_bad_arguments_of_counts_are_errors():
    counts, rows = torch.zeros(9, dtype=torch.int32), torch.arange(3)
    for wrong in (torch.zeros(9), counts.view(3, 3), torch.zeros(18, dtype=torch.int32)[::2]):
        with pytest.raises(RuntimeError, match="counts must be a contiguous int32 tensor"):
            COUNTS(wrong, rows, 0, 1, 0.5, 0, 0)
    for wrong in (rows.int(), rows.view(1, 3)):
        with pytest.raises(RuntimeError, match=r"rows must be an int64 tensor \[m\]"):
            COUNTS(counts, wrong, 0, 1, 0.5, 0, 0)
    with pytest.raises(RuntimeError, match="counts and rows must be on the same device"):
        COUNTS(counts, rows.to("meta"), 0, 1, 0.5, 0, 0)
    for first, sign, p, said in (
        (-1, 1, 0.5, "first"),
        (2**31, 1, 0.5, "first"),
        (0, 2, 0.5, "sign"),
        (0, 1, 2.0, "p"),
    ):
        with pytest.raises(ValueError, match=f"_connectome_counts_: {said} must be"):
            COUNTS(counts, rows, first, sign, p, 0, 0)
    with pytest.raises(IndexError, match="_connectome_counts_: rows must be from 0"):
        COUNTS(counts, -rows, 0, 1, 0.5, 0, 0)
    assert not counts.any()
