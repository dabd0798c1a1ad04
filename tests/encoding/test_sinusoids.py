"""What encodings promise beyond the lanes: accuracy at any position, one set of bits, and what is not finite."""

import math

import pytest
import torch
from cases import encoding_oracle as oracle
from cases.base import FLOATS, FULL, HALF_TYPES
from torch import func

from torch_hrr import encoding

ops = torch.ops.torch_hrr
LAYOUTS = ("interleaved", "half")
# Of float32 at any position up to 2^31; of float64 2 pi 2^-64 |position| more than the second.
FLOAT_ERROR, DOUBLE_ERROR = 1.5e-7, 1e-15
LAST = 2**31 - 1
INTEGERS = (0, 1, -1, 2, 1000, 10**6, 10**6 + 1, -(10**6), 2**24 + 1, 10**9 + 7, LAST, -LAST, -(2**31))
COUNT = 2000 if FULL else 100

layouts = pytest.mark.parametrize("layout", LAYOUTS)
half_types = pytest.mark.parametrize("half", HALF_TYPES, ids=("float16", "bfloat16"))
integer_types = pytest.mark.parametrize(
    "dtype",
    (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, *FLOATS),
    ids=lambda dtype: str(dtype).removeprefix("torch."),
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def uniform(count, largest, dtype=torch.float64, seed=0):
    """Positions of both signs, fractional in floating types."""
    drawn = (2 * torch.rand(count, dtype=torch.float64, generator=generator(seed)) - 1) * largest
    return drawn.to(dtype)


def integers(count=COUNT):
    random = torch.randint(-(2**31), 2**31, (count,), generator=generator(1))
    return torch.cat([torch.tensor(INTEGERS), random])


def worst(result, expected):
    return float((result.double() - expected).abs().max())


def same(a, b):
    return torch.equal(a, b) and a.dtype == b.dtype


@layouts
@pytest.mark.parametrize("dim", (2, 7, 64, 129))
@pytest.mark.parametrize("kind", ("int64", "int32", "float32", "float64"))
def test_float32_is_exact_at_every_position(kind, dim, layout):
    positions = integers() if kind.startswith("int") else uniform(COUNT, 2.0**31)
    positions = positions.to(getattr(torch, kind))
    result = encoding.sinusoidal_encoding(positions, dim, layout=layout, dtype=torch.float32)
    assert worst(result, oracle.sinusoidal_encoding(positions, dim, layout=layout)) < FLOAT_ERROR


@pytest.mark.parametrize("base", (2.0, 10.0, 10000.0, 1e6, 0.5))
@pytest.mark.parametrize("scale", (1.0, -1.0, 0.001, 2 * math.pi, 1000.0))
def test_float32_is_exact_on_every_ladder(base, scale):
    options = {"base": base, "scale": scale, "phase": 0.7}
    for positions in (integers(20), uniform(20, 2.0**31)):
        result = encoding.sinusoidal_encoding(positions, 33, **options, dtype=torch.float32)
        assert worst(result, oracle.sinusoidal_encoding(positions, 33, **options)) < FLOAT_ERROR


def check_float64(result, positions, turns):
    """Interleaved columns against sines to half a unit in the last place."""
    for row, position in zip(result.tolist(), positions.tolist(), strict=True):
        limit = 2 * math.pi * 2.0**-64 * abs(position) + DOUBLE_ERROR
        exact = [value for pair in oracle.exact_sinusoids(position, turns) for value in pair]
        assert max(abs(a - b) for a, b in zip(row, exact, strict=True)) <= limit, position


@pytest.mark.parametrize("largest", (1.0, 1e3, 1e6, 2.0**31, 2.0**45, 2.0**60))
def test_float64_errs_in_proportion_to_the_position(largest):
    turns = oracle.ladder_turns(16, 10000.0, 1.0)
    whole = uniform(COUNT, largest, torch.int64)
    for positions in (whole, uniform(COUNT, largest)):
        result = encoding.sinusoidal_encoding(positions, 16, dtype=torch.float64)
        check_float64(result, positions, turns)


def test_float64_errs_in_proportion_to_the_position_at_known_ones():
    positions = torch.tensor([*INTEGERS, 2**40, -(2**40), 2**53 + 1, 2**62, -(2**62)])
    result = encoding.sinusoidal_encoding(positions, 64, dtype=torch.float64)
    check_float64(result, positions, oracle.ladder_turns(64, 10000.0, 1.0))


def test_a_long_ladder_is_as_exact():
    """Longer than those that are kept."""
    dim = 2**18 + 3
    positions = torch.tensor([LAST, -12345])
    result = encoding.sinusoidal_encoding(positions, dim, layout="half", dtype=torch.float64)
    pairs = (dim + 1) // 2
    chosen = [0, 1, 1000, pairs // 2, pairs - 2]
    with oracle.mpmath.workprec(600):
        turns = [oracle.scaled_turns(oracle.mpmath.mpf(10000) ** (oracle.mpmath.mpf(-2 * i) / dim)) for i in chosen]
    for row, position in zip(result, positions.tolist(), strict=True):
        limit = 2 * math.pi * 2.0**-64 * abs(position) + DOUBLE_ERROR
        for i, (sine, cosine) in zip(chosen, oracle.exact_sinusoids(position, turns), strict=True):
            assert abs(float(row[i]) - sine) <= limit
            assert abs(float(row[pairs + i]) - cosine) <= limit


@pytest.mark.parametrize("largest", (1.0, 2.0**10, 2.0**20))
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_held_frequencies_mean_their_own_value(dtype, largest):
    if dtype == torch.float16 and largest > 2.0**15:
        largest = 2.0**15
    frequencies = uniform(17, largest, dtype, seed=2)
    phase = uniform(17, 10.0, dtype, seed=3)
    for positions in (integers(40), uniform(40, 2.0**31)):
        for given in (phase, None):
            result = encoding.sinusoidal_features(positions, frequencies, given, dtype=torch.float32)
            wide = None if given is None else given.double()
            expected = oracle.sinusoidal_features(positions, frequencies.double(), wide)
            assert worst(result, expected) < FLOAT_ERROR


def test_held_frequencies_beyond_2_to_the_20():
    """At whole positions nothing is lost up to 2^60; a finite result at any."""
    positions = integers(40)
    frequencies = uniform(17, 2.0**60, seed=2)
    result = encoding.sinusoidal_features(positions, frequencies, dtype=torch.float32)
    assert worst(result, oracle.sinusoidal_features(positions, frequencies)) < FLOAT_ERROR
    huge = torch.tensor([2.0**61, 1e300, torch.finfo(torch.float64).max], dtype=torch.float64)
    assert (encoding.sinusoidal_features(positions, huge, dtype=torch.float64).abs() <= 1).all()


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=("float32", "float64"))
def test_squares_add_up_to_one(dtype):
    result = encoding.sinusoidal_encoding(integers(), 128, dtype=dtype).double()
    sums = result[:, ::2].square() + result[:, 1::2].square()
    assert (sums - 1).abs().max() < (2e-7 if dtype == torch.float32 else 1e-15)
    assert ((result.square().sum(-1) - 64).abs() < (1e-5 if dtype == torch.float32 else 1e-12)).all()


def test_products_of_rows_are_sums_of_cosines():
    positions = torch.tensor([0, 1, 5, 10**6, LAST, -LAST])
    rows = encoding.sinusoidal_encoding(positions, 32, dtype=torch.float64)
    turns = oracle.ladder_turns(32, 10000.0, 1.0)
    for i, p in enumerate(positions.tolist()):
        for j, q in enumerate(positions.tolist()):
            expected = sum(cosine for _, cosine in oracle.exact_sinusoids(p - q, turns))
            assert abs(float(rows[i] @ rows[j]) - expected) < 1e-7


def test_usual_formulas_below_1000():
    positions = torch.arange(1000)
    for dim in (6, 64, 510):
        half = dim // 2
        # Hugging Face's models: sines, then cosines, of position / 10000^(2i/dim).
        angles = positions.double().unsqueeze(-1) / 10000.0 ** (2 * torch.arange(half, dtype=torch.float64) / dim)
        expected = torch.cat([angles.sin(), angles.cos()], -1)
        assert worst(encoding.sinusoidal_encoding(positions, dim, layout="half"), expected) < 1e-6
        # fairseq: the last frequency is 1/10000.
        frequencies = torch.exp(torch.arange(half, dtype=torch.float64) * -(math.log(10000) / (half - 1)))
        angles = positions.double().unsqueeze(-1) * frequencies
        expected = torch.cat([angles.sin(), angles.cos()], -1)
        assert worst(encoding.sinusoidal_features(positions, frequencies, layout="half"), expected) < 1e-6
        base = 10000.0 ** (half / (half - 1))
        assert worst(encoding.sinusoidal_encoding(positions, dim, base, layout="half"), expected) < 1e-6


def test_layouts_hold_the_same_numbers():
    for dim in (0, 1, 2, 5, 16, 33, 4099):
        mixed, apart = (encoding.sinusoidal_encoding(integers(5), dim, layout=layout) for layout in LAYOUTS)
        assert same(apart, torch.cat([mixed[:, ::2], mixed[:, 1::2]], -1))


@integer_types
def test_the_type_of_positions_changes_no_bit(dtype):
    whole = torch.arange(0, 100)
    if dtype != torch.uint8:
        whole = torch.cat([whole, -whole])
    frequencies = uniform(9, 3.0)
    for result_dtype in FLOATS:
        expected = encoding.sinusoidal_encoding(whole, 17, dtype=result_dtype)
        assert same(encoding.sinusoidal_encoding(whole.to(dtype), 17, dtype=result_dtype), expected)
        features = encoding.sinusoidal_features(whole, frequencies, dtype=result_dtype)
        assert same(encoding.sinusoidal_features(whole.to(dtype), frequencies, dtype=result_dtype), features)


@half_types
def test_half_results_are_the_float32_ones_rounded(half):
    frequencies = uniform(9, 3.0)
    table, tokens = torch.randn(7, 18, generator=generator()), torch.randint(7, (40,), generator=generator())
    for positions in (integers(27), uniform(40, 1e6), uniform(40, 1e4, half)):
        exact = encoding.sinusoidal_encoding(positions, 18, dtype=torch.float32)
        assert same(encoding.sinusoidal_encoding(positions, 18, dtype=half), exact.to(half))
        exact = encoding.sinusoidal_features(positions, frequencies, dtype=torch.float32)
        assert same(encoding.sinusoidal_features(positions, frequencies, dtype=half), exact.to(half))
        exact = encoding.embed_positions(tokens, table, positions, temperature=0.3, dtype=torch.float32)
        assert same(encoding.embed_positions(tokens, table, positions, temperature=0.3, dtype=half), exact.to(half))


@half_types
def test_angles_are_never_computed_in_half_precision(half):
    """Under autocast and after .half(), at a position whose angle the half types cannot hold."""
    positions = torch.tensor([LAST, 10**6 + 1])
    exact = encoding.sinusoidal_encoding(positions, 16)
    features = encoding.sinusoidal_features(positions, torch.linspace(0, 3, 8))
    table, tokens = torch.zeros(2, 16), torch.tensor([0, 1])
    with torch.autocast("cpu", half):
        assert same(encoding.sinusoidal_encoding(positions, 16), exact.to(half))
        assert same(encoding.sinusoidal_encoding(positions, 16, dtype=torch.float32), exact)
        assert same(encoding.sinusoidal_features(positions, torch.linspace(0, 3, 8)), features.to(half))
        assert same(encoding.embed_positions(tokens, table, positions), exact.to(half))
        assert same(encoding.embed_positions(tokens, table.half(), positions), exact.to(half))
        assert encoding.embed_positions(tokens, table.double(), positions).dtype == torch.float64
    assert same(encoding.embed_positions(tokens, table.to(half), positions), exact.to(half))


def test_float64_is_computed_for_itself():
    positions = integers(20)
    wide = encoding.sinusoidal_encoding(positions, 16, dtype=torch.float64)
    assert 1e-9 < worst(encoding.sinusoidal_encoding(positions, 16), wide) < FLOAT_ERROR


@layouts
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_embedding_is_a_lookup_and_an_encoding(dtype, layout):
    """Bit for bit, in the compute type and rounded once."""
    tokens = torch.randint(50, (3, 40), generator=generator())
    table = torch.randn(50, 33, generator=generator()).to(dtype)
    wide = torch.promote_types(dtype, torch.float32)
    options = {"base": 100.0, "scale": 0.7, "phase": 0.1, "layout": layout}
    for positions in (None, torch.arange(40).flip(0), torch.randint(2**31, (3, 40), generator=generator())):
        given = torch.arange(40) if positions is None else positions
        encoded = encoding.sinusoidal_encoding(given, 33, **options, dtype=wide)
        expected = (table.to(wide)[tokens] + encoded) / torch.tensor(0.3, dtype=wide)
        for kind in (torch.int64, torch.int32):
            result = encoding.embed_positions(tokens.to(kind), table, positions, temperature=0.3, **options)
            assert same(result, expected.to(dtype))
        padded = encoding.embed_positions(tokens, table, positions, 7, 0.3, **options)
        assert (tokens == 7).any()
        assert same(padded, expected.masked_fill((tokens == 7).unsqueeze(-1), 0).to(dtype))


def test_a_table_of_any_layout():
    tokens = torch.randint(11, (4, 6), generator=generator())
    table = torch.randn(11, 20, generator=generator())
    expected = encoding.embed_positions(tokens, table)
    for moved in (table.T.contiguous().T, torch.stack([table, table + 1])[0], torch.cat([table, table], 1)[:, :20]):
        assert torch.equal(moved, table)
        assert same(encoding.embed_positions(tokens, moved), expected)
    one = torch.randn(1, 20, generator=generator())
    assert same(
        encoding.embed_positions(tokens, one.expand(11, 20)), encoding.embed_positions(tokens, one.repeat(11, 1))
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_results_too_large_for_the_caches_have_the_bits_of_small_ones(dtype):
    """They leave past the caches, in whole lines; the first and last elements of a piece do not."""
    dim = 1001
    rows = 2**25 // (dim * dtype.itemsize) + 100
    positions = torch.randint(2**31, (rows,), generator=generator())
    table, tokens = torch.randn(5, dim, generator=generator()), torch.randint(5, (rows,), generator=generator())
    for start in (0, 1, 3):
        out = torch.full((rows * dim + start,), torch.nan, dtype=dtype)[start:].view(rows, dim)
        for whole, part in (
            (
                encoding.sinusoidal_encoding(positions, dim, out=out),
                lambda rows: encoding.sinusoidal_encoding(positions[rows], dim, dtype=dtype),
            ),
            (
                encoding.embed_positions(tokens, table, positions, out=torch.full_like(out, torch.nan)),
                lambda rows: encoding.embed_positions(tokens[rows], table, positions[rows], dtype=dtype),
            ),
        ):
            for rows_of in (slice(0, 7), slice(rows // 2 - 50, rows // 2 + 50), slice(rows - 9, rows)):
                assert same(whole[rows_of], part(rows_of))
            assert not whole.isnan().any()


def test_a_gradient_changes_no_bit_of_the_result():
    positions = uniform(20, 1e6)
    frequencies, phase = uniform(5, 2.0), uniform(5, 3.0)
    expected = encoding.sinusoidal_features(positions, frequencies, phase)
    leaves = [x.clone().requires_grad_() for x in (positions, frequencies, phase)]
    assert same(encoding.sinusoidal_features(*leaves).detach(), expected)
    assert same(func.jvp(encoding.sinusoidal_features, (positions, frequencies, phase), tuple(leaves))[0], expected)


NAN, INF = float("nan"), float("inf")


@layouts
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_position_that_is_not_finite_gives_a_row_of_nan(dtype, layout):
    positions = torch.tensor([1.0, NAN, 2.5, INF, -INF, 0.0])
    good = torch.tensor([0, 2, 5])
    table, tokens = torch.ones(3, 35), torch.tensor([0, 1, 2, 0, 1, 2])
    for call in (
        lambda x, _: encoding.sinusoidal_encoding(x, 35, layout=layout, dtype=dtype),
        lambda x, _: encoding.sinusoidal_features(x, torch.linspace(0, 4, 19), layout=layout, dtype=dtype),
        lambda x, t: encoding.embed_positions(t, table, x, layout=layout, dtype=dtype),
    ):
        result = call(positions, tokens)
        assert same(result[good], call(positions[good], tokens[good]))
        assert result[[1, 3, 4]].isnan().all()
    padded = encoding.embed_positions(tokens, table, positions, padding_idx=1, layout=layout, dtype=dtype)
    assert (padded[[1, 4]] == 0).all() and padded[3].isnan().all()


@layouts
@pytest.mark.parametrize("bad", (NAN, INF, -INF))
@pytest.mark.parametrize("name", ("frequencies", "phase"))
def test_a_frequency_or_phase_that_is_not_finite_gives_two_columns_of_nan(name, bad, layout):
    for count in (1, 5, 40):
        for column in {0, count // 2, count - 1}:
            arguments = {"frequencies": torch.linspace(0, 2, count), "phase": torch.linspace(1, 2, count)}
            clean = encoding.sinusoidal_features(integers(5), **arguments, layout=layout)
            arguments[name][column] = bad
            result = encoding.sinusoidal_features(integers(5), **arguments, layout=layout)
            broken = [2 * column, 2 * column + 1] if layout == "interleaved" else [column, count + column]
            assert result[:, broken].isnan().all()
            kept = [i for i in range(2 * count) if i not in broken]
            assert same(result[:, kept], clean[:, kept])


def test_a_table_row_that_is_not_finite_reaches_its_own_elements():
    table = torch.ones(4, 10)
    table[2, 3], table[2, 4] = NAN, INF
    result = encoding.embed_positions(torch.tensor([0, 2, 3, 2]), table)
    finite = result.isfinite()
    assert (~finite).nonzero().tolist() == [[1, 3], [1, 4], [3, 3], [3, 4]]
    assert (encoding.embed_positions(torch.tensor([2, 2]), table, padding_idx=2) == 0).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_negative_positions_are_mirror_images(dtype):
    """float64 results to the last place; the others bit for bit, but where a phase lies halfway, as many at 2^31 do."""
    limit = 2.3e-16 if dtype == torch.float64 else 0
    whole = integers()
    for positions in (whole[whole > -(2**31)], uniform(COUNT, 2.0**31), uniform(COUNT, 10.0)):
        forward, back = (encoding.sinusoidal_encoding(x, 30, dtype=dtype).double() for x in (positions, -positions))
        assert (back[:, ::2] + forward[:, ::2]).abs().max() <= limit
        assert (back[:, 1::2] - forward[:, 1::2]).abs().max() <= limit


def test_positions_of_any_size_are_defined():
    largest = torch.finfo(torch.float64).max
    huge = torch.tensor([2.0**63, -(2.0**63), 2.0**64, 1e30, largest, -largest], dtype=torch.float64)
    tiny = torch.tensor([5e-324, 1e-300, -1e-300, 2.0**-64, 0.0, -0.0], dtype=torch.float64)
    ends = torch.tensor([2**63 - 1, -(2**63)])
    for positions in (huge, huge.float()[:4], ends):
        assert (encoding.sinusoidal_encoding(positions, 16, dtype=torch.float64).abs() <= 1).all()
    assert worst(encoding.sinusoidal_encoding(tiny, 16), torch.tensor([0.0, 1.0]).repeat(6, 8)) < FLOAT_ERROR
    # int64's own range wraps where the angle does.
    exact = oracle.sinusoidal_encoding(ends, 16)
    limit = 2 * math.pi * 2.0**-64 * 2.0**63
    assert worst(encoding.sinusoidal_encoding(ends, 16, dtype=torch.float64), exact) <= limit


def test_unsigned_positions():
    positions = torch.tensor([0, 1, 2**31, 2**32 - 1])
    expected = encoding.sinusoidal_encoding(positions, 16)
    for dtype in (torch.uint32, torch.uint64):
        assert same(encoding.sinusoidal_encoding(positions.to(dtype), 16), expected)
    assert same(encoding.sinusoidal_encoding(positions[:2].to(torch.uint16), 16), expected[:2])


@pytest.mark.parametrize("shape", ((0,), (2, 0), (0, 3)))
def test_nothing_to_encode(shape):
    positions = torch.zeros(shape)
    assert encoding.sinusoidal_encoding(positions, 6).shape == (*shape, 6)
    assert encoding.sinusoidal_features(positions, torch.ones(3)).shape == (*shape, 6)
    assert encoding.embed_positions(positions.long(), torch.ones(4, 6)).shape == (*shape, 6)
    assert encoding.embed_positions(positions.long(), torch.ones(0, 6)).shape == (*shape, 6)


def test_results_of_more_than_2_to_the_31_elements():
    positions = torch.arange(2**20, device="meta")
    assert encoding.sinusoidal_encoding(positions, 2**12 + 1).shape == (2**20, 2**12 + 1)
    assert encoding.embed_positions(positions, torch.empty(3, 2**12, device="meta")).shape == (2**20, 2**12)


@pytest.mark.skipif(not FULL, reason="4 GiB")
@pytest.mark.parametrize(("rows", "dim"), ((2**15 + 1, 2**16 + 1), (2**20 + 7, 2**11), (1, 2**31 + 3)))
def test_the_last_of_more_than_2_to_the_31_elements(rows, dim):
    positions = torch.arange(rows) + (LAST - rows)
    result = encoding.sinusoidal_encoding(positions, dim, dtype=torch.bfloat16)
    assert same(result[-1:], encoding.sinusoidal_encoding(positions[-1:], dim, dtype=torch.bfloat16))
    frequency = 10000.0 ** (-2 * ((dim - 1) // 2) / dim)
    last = math.sin(float(positions[-1]) * frequency) if dim % 2 else math.cos(float(positions[-1]) * frequency)
    assert abs(float(result[-1, -1]) - last) < 5e-3


def test_the_dtype_of_integer_positions_is_autocasts_or_the_default_one():
    positions, ones = torch.arange(5), torch.ones(3)

    def results():
        return encoding.sinusoidal_encoding(positions, 6), encoding.sinusoidal_features(positions, ones)

    wide = (
        encoding.sinusoidal_encoding(positions, 6, dtype=torch.float64),
        encoding.sinusoidal_features(positions, ones, dtype=torch.float64),
    )
    with torch.autocast("cpu", torch.bfloat16):
        assert [each.dtype for each in results()] == [torch.bfloat16] * 2
    for default in (torch.bfloat16, torch.float64):
        torch.set_default_dtype(default)
        assert [each.dtype for each in results()] == [default] * 2
    assert all(map(same, results(), wide))
    with torch.autocast("cpu", torch.bfloat16):
        assert all(map(same, results(), wide))
    assert encoding.sinusoidal_encoding(positions.float(), 6).dtype == torch.float32


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_out_decides_the_dtype(dtype):
    positions = integers(5)
    for make in (
        lambda **out: encoding.sinusoidal_encoding(positions, 6, **out),
        lambda **out: encoding.sinusoidal_features(positions, torch.linspace(0, 1, 3), **out),
        lambda **out: encoding.embed_positions(positions % 4, torch.ones(4, 6), positions, **out),
    ):
        out = torch.full((len(positions), 6), NAN, dtype=dtype)
        assert make(out=out) is out
        assert same(out, make(dtype=dtype))
        with torch.autocast("cpu", torch.bfloat16):
            assert same(make(out=torch.full_like(out, NAN)), out)
        with pytest.raises((RuntimeError, TypeError)):
            make(dtype=dtype, out=torch.empty_like(out, dtype=torch.float64 if dtype != torch.float64 else torch.half))


def check_wave_gradients(positions, frequencies):
    leaf = frequencies.clone().requires_grad_()
    result = encoding.sinusoidal_features(positions, leaf)
    (grad,) = torch.autograd.grad(result[:, ::2].sum(), leaf)
    turns = [oracle.turns_of(f) for f in frequencies.tolist()]
    rows = [
        [position * cosine for _, cosine in oracle.exact_sinusoids(position, turns)] for position in positions.tolist()
    ]
    return float(((grad - torch.tensor(rows, dtype=grad.dtype).sum(0)) / positions.abs().sum()).abs().max())


def test_the_gradient_by_a_frequency_grows_with_the_position_and_stays_exact():
    positions = torch.tensor([10.0**6, 10.0**6 + 1, -3e5, 12345.5], dtype=torch.float64)
    assert check_wave_gradients(positions, uniform(5, 3.0)) < 1e-11
    whole = torch.tensor([10**6, 10**6 + 1, LAST])
    leaf = uniform(5, 3.0).requires_grad_()
    (grad,) = torch.autograd.grad(encoding.sinusoidal_features(whole, leaf, dtype=torch.float64)[:, 1].sum(), leaf)
    assert grad.dtype == torch.float64 and (grad[1:] == 0).all() and grad[0] != 0


def test_vmap_over_integer_positions_and_tokens():
    positions = torch.randint(2**31, (4, 3), generator=generator())
    table = torch.randn(7, 6, generator=generator())
    tokens = positions % 7
    assert same(
        func.vmap(lambda p: encoding.sinusoidal_encoding(p, 6))(positions), encoding.sinusoidal_encoding(positions, 6)
    )
    whole = encoding.embed_positions(tokens, table, positions)
    assert same(func.vmap(lambda t, p: encoding.embed_positions(t, table, p))(tokens, positions), whole)
    assert same(
        func.vmap(lambda t: encoding.embed_positions(t, table))(tokens), encoding.embed_positions(tokens, table)
    )


@pytest.mark.parametrize("dynamic", (True, False))
def test_compiled_with_a_dimension_taken_from_a_shape(dynamic):
    def call(hidden, positions):
        encoded = encoding.sinusoidal_encoding(positions, hidden.shape[-1], dtype=hidden.dtype)
        return hidden + encoded, encoding.embed_positions(positions, hidden)

    torch._dynamo.reset()
    compiled = torch.compile(call, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length, dim in ((3, 8), (5, 11), (6, 1)):
        arguments = torch.randn(length, dim, generator=generator()), torch.arange(length)
        assert all(same(a, b) for a, b in zip(compiled(*arguments), call(*arguments), strict=True))
    torch._dynamo.reset()


def test_no_work_is_done_for_a_token_out_of_range():
    out = torch.full((2, 3, 4), 7.0)
    tokens = torch.tensor([[0, 1, 2], [0, 1, 3]])
    with pytest.raises(IndexError, match="embed_positions: tokens must be from 0 to 2, the last row of table, got 3"):
        encoding.embed_positions(tokens, torch.ones(3, 4), out=out)
    assert (out == 7).all()


def test_padding_has_no_gradient():
    table = torch.randn(5, 4, generator=generator()).requires_grad_()
    positions = torch.arange(4.0).requires_grad_()
    tokens = torch.tensor([1, 2, 2, 4])
    result = encoding.embed_positions(tokens, table, positions, padding_idx=2, temperature=0.5)
    by_table, by_position = torch.autograd.grad(result.sum(), (table, positions))
    assert torch.equal(by_table, 2.0 * torch.tensor([0, 1, 0, 0, 1]).unsqueeze(-1).expand(5, 4))
    assert (by_position[1:3] == 0).all() and (by_position[[0, 3]] != 0).all()


def test_a_large_out_at_an_odd_address():
    """Where no element begins a line of memory, nothing can be streamed."""
    rows, dim = 8193, 1024
    memory = bytearray(4 * rows * dim + 4)
    out = torch.frombuffer(memory, dtype=torch.float32, count=rows * dim, offset=1).view(rows, dim)
    encoding.sinusoidal_encoding(torch.arange(rows), dim, out=out)
    assert torch.equal(out[-3:].clone(), encoding.sinusoidal_encoding(torch.arange(rows - 3, rows), dim))


def test_a_temperature_that_is_zero_in_float32():
    tokens, table = torch.zeros(2, dtype=torch.int32), torch.ones(3, 4)
    with pytest.raises(ValueError, match="finite and not 0, got 1e-50, which is not so in float32"):
        encoding.embed_positions(tokens, table, temperature=1e-50)
    assert encoding.embed_positions(tokens, table, temperature=1e-50, dtype=torch.float64).isfinite().all()


@layouts
def test_a_backward_pass_inside_autocast_is_not_in_half_types(layout):
    """The gradients of float32 arguments are sums of products, which autocast would round."""
    positions = torch.arange(0.0, 100.0, 0.25, requires_grad=True)
    frequencies = torch.tensor([1.0, 0.3, 0.01], requires_grad=True)
    weight = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))

    def gradients(casts: bool) -> tuple[torch.Tensor, ...]:
        result = encoding.sinusoidal_features(positions, frequencies, None, layout, torch.float32)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=casts):
            return torch.autograd.grad(result, (positions, frequencies), weight)

    for ours, plain in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(ours, plain)
