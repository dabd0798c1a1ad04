"""A row's bits depend on that row alone: not on the batch, its neighbours, the threads or the run."""

import itertools

import pytest
import torch
from cases import FLOATING_CASES
from cases.base import FLOATS, build, covering, covering_classes, depends, each, floats_of, with_tensors

RETURNING = [case for case in FLOATING_CASES if not case.is_out]
# Several dimensions of every algorithm class: direct, native, padded, library.
CLASSES = ((1, 3, 16), (64, 512, 1024), (17, 100, 1000), (4097, 5000))

cases = pytest.mark.parametrize("case", RETURNING, ids=lambda case: case.id)


def same(results, expected):
    return all(torch.equal(result, exact) for result, exact in zip(results, expected, strict=True))


@each((case, *values) for case in RETURNING for values in covering_classes(CLASSES, FLOATS))
def test_a_row_alone_equals_the_row_in_a_batch(case, dim, dtype):
    rows = 9 if dim <= 1024 else 4
    arguments = build(case.sized(rows, 3, dim), dtype)
    whole = case.run(arguments)
    for row in range(rows):
        alone = case.run(case.with_rows(arguments, lambda tensor, row=row: tensor[row]))
        assert same(alone, [result[row] for result in whole])
    for start, stop in ((0, 2), (1, rows), (rows // 2, rows)):
        part = case.run(case.with_rows(arguments, lambda tensor, start=start, stop=stop: tensor[start:stop]))
        assert same(part, [result[start:stop] for result in whole])


@each(covering(RETURNING, (4, 64, 100, 1024, 5000), FLOATS))
def test_one_thread_equals_several(case, dim, dtype):
    # Enough rows for several chunks of work.
    rows = 5 if dim > 4096 else 3 * 32768 // dim
    arguments = build(case.sized(min(rows, 2000), 3, dim), dtype)
    torch.set_num_threads(1)
    expected = case.run(arguments)
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert same(case.run(arguments), expected)


@each(itertools.product(RETURNING, (5, 32, 20)))
def test_a_thousand_repeats_are_equal(case, dim):
    arguments = build(case.sized(3, 2, dim))
    expected = case.run(arguments)
    for _ in range(1000):
        assert same(case.run(arguments), expected)


POISONS = (float("nan"), float("inf"), float("-inf"))


@each(
    (case, *values)
    for case in RETURNING
    if not case.selects and case.takes("rows")
    for values in covering_classes(CLASSES, FLOATS, POISONS)
)
def test_a_row_that_is_not_finite_gives_nan_and_no_neighbour(case, dim, dtype, poison):
    """The whole row is NaN wherever the element stands, and the other rows keep their bits."""
    arguments = build(case.sized(5, 3, dim), dtype)
    clean = case.run(arguments)
    rest = [0, 1, 3, 4]
    for name, tensor in floats_of(arguments).items():
        if name in case.unbatched:
            continue
        last = tensor[2].numel() - 1
        for position in {0, last // 2, last}:
            poisoned = tensor.clone()
            poisoned[2].view(-1)[position] = poison
            results = case.run(arguments | {name: poisoned})
            for result, expected, dependent in zip(results, clean, depends(case, name), strict=True):
                assert torch.equal(result[rest], expected[rest])
                broken = int((~result[2].isfinite()).sum())
                whole = broken == case.reach if name in case.elementwise else bool(result[2].isnan().all())
                assert whole or (not dependent and torch.equal(result[2], expected[2])), f"{name}, element {position}"


@cases
def test_calls_leave_the_random_state(case):
    state = torch.get_rng_state()
    case.run(build(case.sized(3, 4, 24)))
    assert torch.equal(torch.get_rng_state(), state)


@each(covering(RETURNING, (6000, 10000, 16384), (torch.float32, torch.float64)))
def test_rows_of_the_library_fft(case, dim, dtype):
    """A vendor's FFT may choose its code by batch, threads, strides or alignment, at some dimensions only."""
    arguments = build(case.sized(5, 2, dim), dtype)
    torch.set_num_threads(1)
    whole = case.run(arguments)
    apart = with_tensors(arguments, lambda tensor: torch.stack([tensor, tensor], -1)[..., 0])
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        assert same(case.run(arguments), whole)
        assert same(case.run(apart), whole)
        assert same(case.run(case.with_rows(arguments, lambda tensor: tensor[3])), [result[3] for result in whole])
        assert same(case.run(case.with_rows(arguments, lambda tensor: tensor[1:4])), [result[1:4] for result in whole])
