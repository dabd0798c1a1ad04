"""Short rows, which the CPU transforms side by side: each has the bits that it has alone, whatever lies beside it."""

import pytest
import torch

from torch_hrr import hrr

# Even and odd lengths on both sides of every vector's width and of the longest row that goes beside others.
DIMS = (2, 3, 6, 9, 15, 16, 22, 31, 45, 64, 75, 128, 300, 320, 324)
DTYPES = (torch.float32, torch.float64, torch.float16)
PRODUCTS = (
    hrr.bind,
    hrr.unbind,
    hrr.bind_normalize,
    hrr.bind_spectrum,
    hrr.unbind_spectrum,
)
OPERATORS = (
    *PRODUCTS,
    lambda a, b: hrr.spectrum(a),
    lambda a, b: hrr.from_spectrum(b),
)
COUNT = 37


def draw(shape, dtype, seed):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def same_bits(one, other):
    """Equal, NaN included."""
    return torch.equal(one.nan_to_num(nan=7.5), other.nan_to_num(nan=7.5)) and torch.equal(one.isnan(), other.isnan())


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_rows_out_of_range_leave_their_neighbours_alone(dtype, dim):
    a, b = draw((COUNT, dim), dtype, 0), draw((COUNT, dim), dtype, 1)
    largest, smallest = torch.finfo(dtype).max / 4, torch.finfo(dtype).smallest_normal
    clean = [operator(a, b) for operator in OPERATORS]
    special = {3: 0.0, 4: largest, 9: smallest, 17: float("nan"), 18: float("inf"), 36: largest}
    for row, value in special.items():
        a[row] = value
        b[row, 0] = value
    ordinary = torch.tensor([row not in special for row in range(COUNT)])
    for operator, before in zip(OPERATORS, clean, strict=True):
        together = operator(a, b)
        assert torch.equal(together[ordinary], before[ordinary])
        for row in (*special, 0, 35):
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
    for operator in (hrr.spectrum, hrr.from_spectrum):
        for x in (a.transpose(0, 1), b[:, 1::2], role.expand(9, dim)):
            alone = torch.stack([operator(row) for row in x.reshape(-1, dim)])
            assert torch.equal(operator(x).reshape(-1, dim), alone)
