"""Factorisation: what is bound is found, with its sign, whatever else is in the batch."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.hrr import functional as hrr
from torch_hrr.hrr.resonator import Resonator

laws = settings(max_examples=20, derandomize=True, database=None, deadline=None)


def codebooks(seed, factors, size, dim, dtype=torch.float32, unitary=True):
    generator = torch.Generator().manual_seed(seed)
    return [hrr.random(size, dim, generator, unitary, "cpu", dtype) for _ in range(factors)]


def circular_convolution(a, b):
    """By torch's transform in double precision, which the operators do not use at these sizes."""
    return torch.fft.ifft(torch.fft.fft(a.double()) * torch.fft.fft(b.double())).real


def problems(books, count, seed=1):
    """Bound vectors, the rows of the codebooks in them, and their signs."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.stack([torch.randint(len(book), (count,), generator=generator) for book in books], -1)
    signs = torch.randint(2, (count,), generator=generator) * 2.0 - 1
    bound = books[0][chosen[:, 0]].double()
    for book, index in zip(books[1:], chosen.T[1:], strict=True):
        bound = circular_convolution(bound, book[index])
    return (signs.unsqueeze(-1) * bound).to(books[0].dtype), chosen, signs


def fields(result):
    return [getattr(result, field.name) for field in dataclasses.fields(result)]


def test_every_problem_of_three_factors_and_twenty_vectors_is_solved_with_its_sign():
    books = codebooks(0, 3, 20, 1024)
    x, chosen, signs = problems(books, 40)
    result = Resonator(books).factorize(x, max_iterations=200)
    assert torch.equal(result.indices, chosen)
    assert torch.equal(result.signs.prod(-1), signs)
    assert bool(result.converged.all()) and int(result.iterations.max()) <= 200 and int(result.iterations.min()) >= 1
    assert torch.allclose(result.cosines, torch.ones(40), atol=1e-5)


@pytest.mark.parametrize(
    ("factors", "size", "dim"), [(1, 50, 128), (2, 30, 256), (3, 20, 256), (3, 12, 500), (4, 8, 512), (5, 4, 512)]
)
def test_other_sizes(factors, size, dim):
    """Where the first attempt fails for some, as with three factors in 256 dimensions, a later one finds them."""
    books = codebooks(dim, factors, size, dim)
    x, chosen, signs = problems(books, 20)
    result = Resonator(books).factorize(x)
    assert torch.equal(result.indices, chosen)
    assert torch.equal(result.signs.prod(-1), signs)
    assert bool(result.converged.all())


def test_codebooks_of_different_sizes():
    books = [book[:size] for book, size in zip(codebooks(3, 3, 20, 512), (20, 1, 7), strict=True)]
    x, chosen, signs = problems(books, 12)
    result = Resonator(books).factorize(x)
    assert torch.equal(result.indices, chosen) and torch.equal(result.signs.prod(-1), signs)


@laws
@given(st.integers(0, 2**32), st.sampled_from((torch.float32, torch.float64)), st.integers(1, 3))
def test_the_answers_reproduce_what_converged(seed, dtype, factors):
    """The definition of `converged`, recomputed in double precision, for random vectors too."""
    books = codebooks(seed, factors, 5, 64, dtype)
    x = torch.cat([problems(books, 4, seed)[0], hrr.random(2, 64, torch.Generator().manual_seed(seed), dtype=dtype)])
    result = Resonator(books).factorize(x, max_iterations=30)
    bound = result.signs.prod(-1, keepdim=True) * books[0][result.indices[:, 0]]
    for book, index in zip(books[1:], result.indices.T[1:], strict=True):
        bound = circular_convolution(bound, book[index])
    cosines = torch.nn.functional.cosine_similarity(bound.double(), x.double(), dim=-1)
    assert torch.allclose(cosines, result.cosines.double(), atol=1e-5)
    assert torch.equal(result.converged, result.cosines > 0.9)
    assert bool((result.iterations[~result.converged] == 30).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes(dtype):
    """Half types are computed in float32; the answers' dtype is the one computed in."""
    books = codebooks(5, 3, 10, 512, dtype)
    x, chosen, signs = problems(books, 8)
    result = Resonator(books).factorize(x)
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    assert result.signs.dtype == result.cosines.dtype == computed
    assert (result.indices.dtype, result.iterations.dtype, result.converged.dtype) == (
        torch.int64,
        torch.int64,
        torch.bool,
    )
    assert torch.equal(result.indices, chosen) and torch.equal(result.signs.prod(-1).double(), signs.double())


def test_gaussian_codebooks_work_too():
    books = codebooks(6, 3, 10, 1024, unitary=False)
    x, chosen, signs = problems(books, 10)
    result = Resonator(books).factorize(x)
    assert torch.equal(result.indices, chosen) and torch.equal(result.signs.prod(-1), signs)


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
def test_the_scale_of_the_argument_changes_no_answer(scale):
    books = codebooks(7, 3, 10, 512)
    x, chosen, signs = problems(books, 6)
    result = Resonator(books).factorize(x * scale)
    assert torch.equal(result.indices, chosen) and torch.equal(result.signs.prod(-1), signs)
    assert bool(result.converged.all())


def test_noise_lowers_the_cosine_not_the_answer():
    """Noise of norm r leaves a cosine of 1/sqrt(1 + r^2): 0.958 converges, 0.707 does not but is answered."""
    books = codebooks(8, 3, 10, 1024)
    x, chosen, signs = problems(books, 10)
    noise = hrr.random(10, 1024, torch.Generator().manual_seed(0), device="cpu")
    for norm, expected in ((0.3, True), (1.0, False)):
        result = Resonator(books).factorize(x + norm * noise, max_iterations=40)
        assert torch.equal(result.indices, chosen) and torch.equal(result.signs.prod(-1), signs)
        assert bool((result.converged == expected).all())
        assert torch.allclose(result.cosines, torch.full((10,), (1 + norm**2) ** -0.5), atol=0.05)


def test_a_problem_does_not_depend_on_the_batch():
    books = codebooks(9, 3, 20, 256)
    x, _, _ = problems(books, 24)
    resonator = Resonator(books)
    together = resonator.factorize(x)
    assert int(together.iterations.max()) > 10 > int(together.iterations.min())
    for index in range(0, 24, 5):
        alone = resonator.factorize(x[index])
        reversed_batch = resonator.factorize(x.flip(0))
        for one, all_, other in zip(fields(alone), fields(together), fields(reversed_batch), strict=True):
            assert torch.equal(one, all_[index]) and torch.equal(one, other[-1 - index])


def test_a_solved_problem_is_frozen():
    """More iterations, and more attempts allowed, change nothing about what was solved before."""
    books = codebooks(10, 3, 20, 256)
    x, _, _ = problems(books, 24)
    resonator = Resonator(books)
    short, long = resonator.factorize(x, 12), resonator.factorize(x, 200)
    solved = short.converged
    assert 0 < int(solved.sum()) < 24 and bool(long.converged.all())
    for one, other in zip(fields(short), fields(long), strict=True):
        assert torch.equal(one[solved], other[solved])


def test_looking_for_the_end_changes_no_result():
    books = codebooks(11, 3, 20, 512)
    x, _, _ = problems(books, 10)
    results = [Resonator(books).factorize(x, 40, check_every=every) for every in (None, 1, 4, 7)]
    for other in results[1:]:
        assert all(torch.equal(one, two) for one, two in zip(fields(results[0]), fields(other), strict=True))


def test_the_seed_settles_the_search():
    books = codebooks(12, 3, 20, 256)
    x, chosen, _ = problems(books, 24)
    first, again, other = (Resonator(books, seed=seed).factorize(x) for seed in (1, 1, 2))
    assert all(torch.equal(one, two) for one, two in zip(fields(first), fields(again), strict=True))
    assert not torch.equal(first.iterations, other.iterations)
    assert torch.equal(first.indices, chosen) and torch.equal(other.indices, chosen)


def test_random_state_of_torch_is_left_alone():
    books = codebooks(13, 2, 5, 64)
    state = torch.get_rng_state()
    Resonator(books).factorize(problems(books, 2)[0], 30)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("batch", [(), (1,), (2, 3), (0,), (2, 0)])
def test_shapes(batch):
    books = codebooks(14, 2, 4, 64)
    x = problems(books, 6)[0][: torch.Size(batch).numel()].reshape(*batch, 64)
    result = Resonator(books).factorize(x, 5)
    assert result.indices.shape == result.signs.shape == (*batch, 2)
    assert result.iterations.shape == result.converged.shape == result.cosines.shape == batch


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_row_that_is_not_finite_is_not_solved_and_leaves_the_others(value):
    books = codebooks(15, 3, 10, 512)
    x, chosen, _ = problems(books, 5)
    clean = Resonator(books).factorize(x, 20)
    x[2, 7] = value
    result = Resonator(books).factorize(x, 20)
    others = torch.arange(5) != 2
    for one, two in zip(fields(result), fields(clean), strict=True):
        assert torch.equal(one[others], two[others])
    assert torch.equal(result.indices[others], chosen[others])
    assert not bool(result.converged[2]) and bool(result.cosines[2].isnan()) and int(result.iterations[2]) == 20


def test_a_zero_row_is_not_solved():
    books = codebooks(16, 2, 4, 64)
    result = Resonator(books).factorize(torch.zeros(64), 12)
    assert not bool(result.converged) and float(result.cosines) == 0 and int(result.iterations) == 12


def test_of_equal_vectors_the_first_is_found():
    books = codebooks(17, 2, 4, 128)
    books[0][3] = books[0][1]
    x = circular_convolution(books[0][3], books[1][2]).float()
    assert Resonator(books).factorize(x).indices.tolist() == [1, 2]


def test_codebooks_are_copied_and_no_gradient_is_kept():
    books = codebooks(18, 2, 4, 64)
    x = problems(books, 1)[0].requires_grad_()
    resonator = Resonator(torch.stack(books).requires_grad_())
    before = resonator.factorize(x)
    for book in books:
        book.zero_()
    assert torch.equal(resonator.factorize(x).indices, before.indices)
    assert not before.cosines.requires_grad


def test_autocast_does_not_lower_the_precision():
    books = codebooks(19, 3, 10, 512)
    x, _, _ = problems(books, 4)
    plain = Resonator(books).factorize(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = Resonator(books).factorize(x)
    assert all(torch.equal(one, two) for one, two in zip(fields(plain), fields(inside), strict=True))


def test_the_result_is_frozen():
    books = codebooks(20, 1, 2, 16)
    result = Resonator(books).factorize(books[0][1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.indices = None


BOOK = torch.ones(2, 8)


@pytest.mark.parametrize(
    ("books", "error", "text"),
    [
        ([], ValueError, "codebooks must hold at least one codebook, got 0"),
        ([[1.0, 2.0]], TypeError, "codebooks must be a torch.Tensor or a NumPy array, got list"),
        ([BOOK.long()], TypeError, "codebooks must be float32, float64, float16 or bfloat16, got torch.int64"),
        ([BOOK, BOOK.double()], TypeError, "codebooks must have one dtype, got torch.float32 and torch.float64"),
        ([BOOK[0]], ValueError, r"codebooks must be \[M, D\] with M, D >= 1, got \[8\]"),
        ([BOOK[:0]], ValueError, r"codebooks must be \[M, D\] with M, D >= 1, got \[0, 8\]"),
        ([BOOK[:, :0]], ValueError, r"codebooks must be \[M, D\] with M, D >= 1, got \[2, 0\]"),
        ([BOOK, BOOK[:, :4]], ValueError, r"codebooks must have the last dimension 8, got shape \[2, 4\]"),
        ([BOOK, BOOK.to("meta")], RuntimeError, "codebooks must be on cpu, got meta"),
    ],
)
def test_codebooks_that_do_not_fit(books, error, text):
    with pytest.raises(error, match=f"^Resonator: {text}$"):
        Resonator(books)


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        ([1.0], TypeError, "x must be a torch.Tensor or a NumPy array, got list"),
        (BOOK.int(), TypeError, "x must be float32, float64, float16 or bfloat16, got torch.int32"),
        (BOOK[:, :7], ValueError, r"x must have the last dimension 8, got shape \[2, 7\]"),
        (torch.tensor(1.0), ValueError, r"x must have at least 1 dimensions, got shape \[\]"),
        (BOOK.to("meta"), RuntimeError, "x must be on cpu, got meta"),
    ],
)
def test_arguments_that_do_not_fit(x, error, text):
    with pytest.raises(error, match=f"^factorize: {text}$"):
        Resonator([BOOK, BOOK]).factorize(x)


def test_vmap_batches_a_search_that_checks_nothing():
    generator = torch.Generator().manual_seed(0)
    books = [hrr.random(count, 64, generator, unitary=True, device="cpu") for count in (8, 9)]
    resonator = Resonator(books, seed=1)
    x = hrr.bind(books[0][:3], -books[1][4:7]) + 0.15 * torch.randn(3, 64, generator=generator)

    def found(rows):
        made = resonator.factorize(rows, 40, check_every=None)
        return made.indices, made.signs

    assert all(map(torch.equal, torch.func.vmap(found)(x), found(x)))
    assert found(x)[0].tolist() == [[0, 4], [1, 5], [2, 6]] and found(x)[1].tolist() == [[-1, 1]] * 3
