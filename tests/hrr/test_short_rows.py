"""Short rows, which the CPU transforms side by side: each has the bits that it has alone, whatever lies beside it."""

import pytest
import scipy.fft
import torch

from torch_hrr import hrr

# Even and odd lengths on both sides of every vector's width and of the longest row that goes beside others.
DIMS = (1, 2, 3, 6, 9, 16, 17, 22, 31, 34, 45, 64, 75, 128, 256, 300, 320, 324, 512)
DTYPES = (torch.float32, torch.float64, torch.float16)
PRODUCTS = (
    hrr.bind,
    hrr.unbind,
    hrr.bind_normalize,
    hrr.bind_spectrum,
    hrr.unbind_spectrum,
)


def records(a, b):
    """Two pairs a record, one of them weighted by the first number of a."""
    weights = torch.stack([torch.ones_like(a[..., 0]), a[..., 0]], -1)
    return hrr.bind_superpose(torch.stack([a, b], -2), torch.stack([b, b], -2), weights)


def long_records(a, b):
    """Pairs enough to lie side by side themselves, at every width of vectors, and a few more."""
    pairs = torch.stack([a, b], -2).repeat_interleave(9, -2)
    return hrr.bind_superpose(pairs, pairs.flip(-2), torch.arange(18, dtype=a.dtype))


def three_factors(a, b):
    return hrr.multibind(torch.stack([a, b, a], -2))


def gradients(operator):
    """Both gradients, for an upstream gradient that is the first operand."""

    def both(a, b):
        leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
        return torch.cat(torch.autograd.grad(operator(*leaves), leaves, a.expand_as(b)), -1)

    return both


def one_gradient(a, b):
    leaf = a.clone().requires_grad_()
    return torch.autograd.grad(hrr.bind_normalize(leaf, b), leaf, b)[0]


OPERATORS = (
    *PRODUCTS,
    lambda a, b: hrr.spectrum(a),
    lambda a, b: hrr.from_spectrum(b),
    lambda a, b: hrr.inverse(a),
    lambda a, b: hrr.unitary(b),
    lambda a, b: hrr.bind_power(b, 0.3),
    records,
    long_records,
    three_factors,
    gradients(hrr.bind),
    gradients(hrr.unbind),
    gradients(hrr.bind_normalize),
    gradients(three_factors),
    gradients(lambda a, b: hrr.bind_power(a, 0.3) + hrr.inverse(b)),
    one_gradient,
)
COUNT = 36  # leaves a whole group of 4 at every width of vectors


def draw(shape, dtype, seed):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same_bits(one, other):
    """Equal, NaN included."""
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one[~one.isnan()], other[~other.isnan()])


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_rows_out_of_range_leave_their_neighbours_alone(dtype, dim):
    a, b = draw((COUNT, dim), dtype, 0), draw((COUNT, dim), dtype, 1)
    largest, smallest = torch.finfo(dtype).max / 4, torch.finfo(dtype).smallest_normal
    clean = [operator(a, b) for operator in OPERATORS]
    special = {3: 0.0, 4: largest, 9: smallest, 17: float("nan"), 18: float("inf"), 35: largest}
    for row, value in special.items():
        a[row] = value
        b[row, 0] = value
    ordinary = torch.tensor([row not in special for row in range(COUNT)])
    for operator, before in zip(OPERATORS, clean, strict=True):
        together = operator(a, b)
        assert torch.equal(together[ordinary], before[ordinary])
        for row in (*special, 0, 34):
            assert same_bits(together[row], operator(a[row], b[row]))


@pytest.mark.parametrize("dim", DIMS)
def test_where_rows_lie_changes_no_bit(dim):
    """Runs of a batch that end inside a vector, operands that repeat within a run and across runs, rows apart."""
    a, b = draw((5, 7, dim), torch.float32, 2), draw((5, 7, dim), torch.float32, 3)
    role, codes = draw((dim,), torch.float32, 4), draw((5, 1, dim), torch.float32, 5)
    pairs = (
        (a.transpose(0, 1), b.transpose(0, 1)),
        (a[:, ::2], b[:, 1::2].contiguous()[:, :1]),
        (role, b),
        (a, role),
        (role, role.expand(3, dim)),
        (codes, b),
        (a, codes),
        (a[..., None, :], codes[:, None]),
    )
    for x, y in pairs:
        apart = [rows.reshape(-1, dim) for rows in torch.broadcast_tensors(x, y)]
        for operator in PRODUCTS:
            alone = torch.stack([operator(*rows) for rows in zip(*apart, strict=True)])
            assert torch.equal(operator(x, y).reshape(-1, dim), alone)
    many = torch.stack([a, b, a], -2)
    for operator in (hrr.multibind, lambda x: hrr.bind_superpose(x, x.flip(-2))):
        for x in (many, many.transpose(0, 1), many[:, ::2], many[..., 1:2, :].expand_as(many)):
            alone = torch.stack([operator(row) for row in x.reshape(-1, 3, dim)])
            assert torch.equal(operator(x).reshape(-1, dim), alone)
    for operator in (hrr.spectrum, hrr.from_spectrum, hrr.inverse, hrr.unitary):
        for x in (a.transpose(0, 1), b[:, 1::2], role.expand(9, dim)):
            alone = torch.stack([operator(row) for row in x.reshape(-1, dim)])
            assert torch.equal(operator(x).reshape(-1, dim), alone)


def test_shared_sides_of_records_change_no_bit():
    """Rows that all have the same roles take those spectra once."""
    for dim, count in ((5, 3), (64, 19), (300, 4)):
        roles, fillers = draw((count, dim), torch.float32, 6), draw((COUNT, count, dim), torch.float32, 7)
        for operands in (lambda rows, roles=roles: (roles, rows), lambda rows, roles=roles: (rows, roles)):
            alone = torch.stack([hrr.bind_superpose(*operands(row)) for row in fillers])
            assert torch.equal(hrr.bind_superpose(*operands(fillers)), alone)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-14)])
def test_every_short_length(dtype, bound):
    """Against the bins in double, by scipy: the errors of torch's own transforms reach 1e-14 on some processors."""

    def rfft(rows):
        return torch.from_numpy(scipy.fft.rfft(rows.numpy()))

    def irfft(bins, n):
        return torch.from_numpy(scipy.fft.irfft(bins.numpy(), n=n))

    for dim in (*range(1, 72), 136, 161, 170, 190, 209, 253, 261, 279, 289, 310, 319):
        a, b, g = (draw((19, dim), dtype, seed) for seed in (8, 9, 10))
        x, y, up = (rfft(row.double()) for row in (a, b, g))
        leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
        grad_a, grad_b = torch.autograd.grad(hrr.bind(*leaves), leaves, g)
        unitary = x / x.abs()
        # An inverse magnifies the errors of small bins.
        steady = irfft(unitary * (1 + y.abs() / y.abs().amax(-1, keepdim=True)), n=dim).to(dtype)
        found_and_bins = (
            (hrr.bind(a, b), x * y),
            (hrr.unbind(a, b), x * y.conj()),
            (hrr.multibind(torch.stack([a, b, g], -2)), x * y * up),
            (hrr.bind_superpose(torch.stack([a, g], -2), torch.stack([b, b], -2)), (x + up) * y),
            (hrr.bind_superpose(a, b), (x * y).sum(0, keepdim=True)),
            (grad_a, up * y.conj()),
            (grad_b, up * x.conj()),
            (hrr.from_spectrum(hrr.spectrum(a)), x),
            (hrr.inverse(steady), 1 / rfft(steady.double())),
            (hrr.unitary(steady), unitary),
        )
        for found, bins in found_and_bins:
            expected = irfft(bins, n=dim)
            error = (found.double() - expected).norm(dim=-1) / expected.norm(dim=-1)
            assert error.max() < bound, (dim, error.max())


def test_zero_gradients_and_long_products():
    """A gradient of zeros gives zeros beside others; more factors than are kept side by side, the same gradients."""
    a, b, g = (draw((11, 48), torch.float32, seed) for seed in (11, 12, 13))
    g[4] = 0
    for operator in (hrr.bind, hrr.bind_normalize, lambda a, b: hrr.unitary(a) + hrr.inverse(b)):
        leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
        for found in torch.autograd.grad(operator(*leaves), leaves, g):
            assert not found[4].any() and found[[3, 5]].any()
    few, many = (torch.nn.functional.normalize(draw((2, count, 300), torch.float64, 14), dim=-1) for count in (5, 60))
    for factors in (few, many):
        leaf = factors.requires_grad_()
        upstream = draw((2, 300), torch.float64, 15)
        (found,) = torch.autograd.grad(hrr.multibind(leaf), leaf, upstream)
        bins = torch.fft.rfft(leaf.detach())
        for k in (0, factors.shape[1] // 2, factors.shape[1] - 1):
            others = torch.cat([bins[:, :k], bins[:, k + 1 :]], 1).prod(1)
            expected = torch.fft.irfft(torch.fft.rfft(upstream) * others.conj(), n=300)
            assert (found[:, k] - expected).norm() < 1e-12 * expected.norm()
