"""quantize_rows and quantized_cleanup: bounds that hold, the exact best rows, the same bits alone and in a batch.

Codes belong to rows, so that calls are not drawn argument by argument as those of an OpCase: every lane is taken here.
"""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_hrr
from torch_hrr import _plain

ops = torch_hrr._ops.ops
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def cosines_of(query: Tensor, rows: Tensor) -> Tensor:
    """All cosines in float64, 0 for a zero row."""
    query, rows = query.double(), rows.double()
    norms = query.norm(dim=-1, keepdim=True) * rows.norm(dim=-1)
    return torch.where(norms == 0, 0.0, query @ rows.mT / norms).clamp(-1, 1)


def searched(query: Tensor, rows: Tensor, top_k: int, order: Tensor | None = None) -> tuple[Tensor, Tensor]:
    return ops.quantized_cleanup(query, rows, *ops.quantize_rows(rows), order, top_k)


def assert_best(query: Tensor, rows: Tensor, top_k: int, tolerance: float = 1e-6) -> None:
    """What a ranking in float64 gives, but for cosines that are closer than the tolerance."""
    cosines, indices = searched(query, rows, top_k)
    everything = cosines_of(query, rows)
    best = everything.sort(-1, descending=True).values[..., :top_k]
    assert torch.allclose(cosines.double(), best, rtol=0, atol=tolerance)
    assert torch.allclose(everything.gather(-1, indices), cosines.double(), rtol=0, atol=tolerance)
    assert all(len(set(row)) == top_k for row in indices.flatten(0, -2).tolist())
    # Sorted by what is returned, and equal ones by index.
    later, sooner = cosines[..., 1:], cosines[..., :-1]
    assert ((sooner > later) | ((sooner == later) & (indices[..., :-1] < indices[..., 1:]))).all()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bounds_hold_and_are_near(dtype):
    rows = drawn(40, 300, dtype=dtype)
    codes, bounds = ops.quantize_rows(rows)
    unit = rows.double() / rows.double().norm(dim=-1, keepdim=True)
    scale, residual = bounds.double().unbind(-1)
    missing = (unit - scale.unsqueeze(-1) * codes).norm(dim=-1)
    assert (missing <= residual).all() and (residual < 1.01 * missing + 2e-6).all()
    assert codes.abs().amax(-1).eq(127).all() and codes.dtype == torch.int8


def test_rows_without_codes():
    rows = torch.tensor([[0.0, 0.0], [torch.nan, 1.0], [1.0, -torch.inf], [1e20, 1.0], [1e-20, 0.0], [3.0, -4.0]])
    codes, bounds = ops.quantize_rows(rows)
    assert (codes[:5] == 0).all() and (bounds[0] == 0).all()
    assert bounds[1:5, 1].isinf().all() and (bounds[1:5, 0] == 0).all()
    assert codes[5].tolist() == [95, -127]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("items", "dim", "queries"), [(1, 1, 1), (5, 3, 2), (63, 64, 7), (200, 65, 1), (700, 128, 33), (1500, 37, 3)]
)
def test_the_best_of_random_rows(dtype, items, dim, queries):
    rows = drawn(items, dim, seed=1, dtype=dtype)
    for top_k in {1, min(10, items), items}:
        assert_best(drawn(queries, dim, seed=2, dtype=dtype), rows, top_k)
    # One of the rows with noise: it is found.
    noisy = rows + 0.1 * drawn(items, dim, seed=3, dtype=dtype)
    if dim > 30:
        assert (searched(noisy, rows, 1)[1].squeeze(-1) == torch.arange(items)).all()


@pytest.mark.parametrize("kind", ["nearly-equal", "clustered", "two-values", "sorted"])
def test_rows_that_codes_hardly_tell_apart(kind):
    rows = {
        "nearly-equal": lambda: drawn(1, 96) + 1e-4 * drawn(800, 96, seed=1),
        "clustered": lambda: drawn(8, 96).repeat(100, 1) + 1e-3 * drawn(800, 96, seed=1),
        "two-values": lambda: drawn(2, 96).repeat_interleave(400, 0),
        "sorted": lambda: drawn(1, 96) + torch.linspace(2, 0, 800).unsqueeze(-1) * drawn(800, 96, seed=1),
    }[kind]()
    assert_best(drawn(1, 96) + 0.01 * drawn(5, 96, seed=2), rows, 10)


@pytest.mark.parametrize("query_dtype", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_types_promote(dtype, query_dtype):
    rows, query = drawn(30, 20, dtype=dtype), drawn(2, 20, seed=1, dtype=query_dtype)
    cosines, indices = searched(query, rows, 3)
    wide = torch.promote_types(torch.promote_types(dtype, query_dtype), torch.float32)
    assert cosines.dtype == wide and indices.dtype == torch.int64
    best = cosines_of(query, rows).sort(-1, descending=True).values[:, :3]
    assert torch.allclose(cosines.double(), best, rtol=0, atol=1e-12 if wide == torch.float64 else 3e-7)


def test_a_row_of_many_elements_has_no_codes_that_count():
    rows = drawn(3, 2**16 + 5)
    assert searched(rows + 0.1, rows, 2)[1][:, 0].tolist() == [0, 1, 2]
    assert_best(rows[1:] + drawn(2, 2**16 + 5, seed=3), rows, 3)


def test_scaled_rows_and_queries_and_the_ends_of_the_range():
    rows = drawn(20, 24)
    query = drawn(3, 24, seed=1)
    expected = searched(query, rows, 4)
    for scale in (2.0**-10, 2.0**30):
        found = searched(query * scale, rows * scale, 4)
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    for scale in (1e-30, 1e30):
        found = searched(query * scale, rows * scale, 4)
        assert torch.allclose(found[0], expected[0], atol=1e-6) and torch.equal(found[1], expected[1])
    wide = searched(query.double() * 1e-200, rows.double() * 1e200, 4)
    assert torch.allclose(wide[0].float(), expected[0], atol=1e-6) and torch.equal(wide[1], expected[1])


def test_equal_cosines_go_by_index_or_order():
    rows = drawn(4, 30)[torch.tensor([0, 1, 1, 2, 1, 3])] * torch.tensor([1.0, 1, 2, 1, 4, 1]).unsqueeze(-1)
    assert searched(rows[4], rows, 3)[1].tolist() == [1, 2, 4]
    order = torch.tensor([0, 5, 3, 1, 2, 4])
    assert searched(rows[4], rows, 3, order)[1].tolist() == [4, 2, 1]
    assert searched(rows[4], rows, 2, order.where(order != 2, -1))[1].tolist() == [2, 1]


def test_zero_and_not_finite():
    rows = drawn(6, 10)
    rows[1], rows[2, 3], rows[4, 0] = 0, torch.nan, torch.inf
    cosines, indices = searched(rows[0], rows, 6)
    assert indices[0] == 0 and sorted(indices[1:4].tolist()) == [1, 3, 5]
    assert indices[4:].tolist() == [2, 4] and cosines[4:].isnan().all() and cosines[:4].isfinite().all()
    # Every row is as near to zero as another; NaN comes last.
    cosines, indices = searched(torch.zeros(10), rows, 6)
    assert indices.tolist() == [0, 1, 3, 5, 2, 4] and (cosines[:4] == 0).all()
    cosines, indices = searched(torch.full((10,), torch.nan), rows, 6)
    assert indices.tolist() == [0, 1, 2, 3, 4, 5] and cosines.isnan().all()
    cosines, indices = searched(torch.full((10,), torch.inf), torch.zeros(9, 10), 9)
    assert indices.tolist() == list(range(9)) and cosines.isnan().all()


def test_bits_depend_on_the_query_and_the_row_alone():
    rows, query = drawn(1300, 100), drawn(70, 100, seed=1)
    cosines, indices = searched(query, rows, 5)
    for j in (0, 33, 69):
        alone = searched(query[j], rows, 5)
        assert torch.equal(alone[0], cosines[j]) and torch.equal(alone[1], indices[j])
    # Of the rows found only, and among rows that are all left.
    for j in (0, 69):
        few = searched(query[j], rows[indices[j]], 5)
        assert torch.equal(few[0], cosines[j])
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = searched(query, rows, 5)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(again[0], cosines) and torch.equal(again[1], indices)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("items", "dim"), [(1, 1), (20, 5), (300, 33)])
def test_the_plain_form_of_devices_without_kernels_agrees(dtype, items, dim):
    rows, query = drawn(items, dim, dtype=dtype), drawn(2, 3, dim, seed=1)
    query[0, 0], query[0, 1, 0] = 0, torch.inf
    if items > 1:
        rows[1], rows[2, 0], rows[5] = 0, torch.nan, rows[4]
    codes, bounds = ops.quantize_rows(rows)
    other, rest = _plain.OPERATORS["quantize_rows"](rows)
    assert (other.short() - codes).abs().max() <= 1 and torch.allclose(rest, bounds, rtol=0.01, atol=2e-6)
    for order in (None, torch.randperm(items, generator=torch.Generator().manual_seed(2))):
        for top_k in (0, 1, items):
            for each in (query, query[1, 1].double(), query[:0]):
                call = (each, rows, codes, bounds, order, top_k)
                ours, plain = ops.quantized_cleanup(*call), _plain.OPERATORS["quantized_cleanup"](*call)
                torch.testing.assert_close(plain[0], ours[0], rtol=0, atol=1e-6, equal_nan=True)
                assert torch.equal(plain[1], ours[1])


def test_layouts():
    rows, query = drawn(50, 40), drawn(4, 3, 40, seed=1)
    codes, bounds = ops.quantize_rows(rows)
    expected = ops.quantized_cleanup(query, rows, codes, bounds, None, 3)
    wide = drawn(50, 80)
    wide[:, :40] = rows
    for own in (rows.mT.contiguous().mT, wide[:, :40]):
        found = ops.quantized_cleanup(query.transpose(0, 1), own, codes.mT.contiguous().mT, bounds, None, 3)
        assert torch.equal(found[0], expected[0].transpose(0, 1))
        assert all(map(torch.equal, ops.quantize_rows(own), (codes, bounds)))
    negated = ops.quantized_cleanup(torch._neg_view(-query), rows, codes, bounds, None, 3)
    assert torch.equal(negated[0], expected[0])
    assert [part.shape for part in ops.quantize_rows(drawn(2, 0, 5))] == [(2, 0, 5), (2, 0, 2)]
    assert [part.shape for part in searched(drawn(0, 40), rows, 3)] == [(0, 3)] * 2
    assert [part.shape for part in searched(query, rows, 0)] == [(4, 3, 0)] * 2


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"query": torch.zeros(5)}, ValueError, "query and rows must have the same last dimension, got 5 and 4"),
        ({"query": torch.zeros(4, dtype=torch.int64)}, TypeError, "query must be float32, float64"),
        ({"rows": torch.zeros(4)}, ValueError, r"rows must be \[N, D\], got \[4\]"),
        ({"codes": torch.zeros(3, 4)}, TypeError, "codes must be Char, got Float"),
        ({"codes": torch.zeros(2, 4, dtype=torch.int8)}, ValueError, r"codes must have sizes \[3, 4\], got \[2, 4\]"),
        ({"bounds": torch.zeros(3)}, ValueError, r"bounds must have sizes \[3, 2\], got \[3\]"),
        ({"order": torch.zeros(3)}, TypeError, "order must be Long, got Float"),
        ({"order": torch.zeros(4, dtype=torch.int64)}, ValueError, r"order must have sizes \[3\], got \[4\]"),
        ({"top_k": 4}, ValueError, "top_k must be from 0 to N, got top_k = 4 and N = 3"),
        ({"top_k": -1}, ValueError, "top_k must be from 0 to N, got top_k = -1 and N = 3"),
    ],
)
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_errors(changes, error, message, device):
    rows = drawn(3, 4)
    codes, bounds = ops.quantize_rows(rows)
    call: dict[str, Any] = {"query": rows, "rows": rows, "codes": codes, "bounds": bounds, "order": None, "top_k": 2}
    call |= changes
    call = {name: value.to(device) if isinstance(value, Tensor) else value for name, value in call.items()}
    with pytest.raises(error, match=f"^quantized_cleanup: {message}"):
        ops.quantized_cleanup(**call)


def test_errors_of_values_and_devices():
    rows = drawn(3, 4)
    order = torch.tensor([0, -1, -1])
    with pytest.raises(ValueError, match=r"top_k must be at most the number of rows that are present, got 2 and 1"):
        searched(rows, rows, 2, order)
    with pytest.raises(ValueError, match=r"order must be below N = 3, got 3"):
        searched(rows, rows, 2, order.new_tensor([0, 1, 3]))
    codes, bounds = ops.quantize_rows(rows)
    with pytest.raises(RuntimeError, match="rows and codes must be on the same device"):
        ops.quantized_cleanup(rows, rows, codes.to("meta"), bounds, None, 1)
    with pytest.raises(RuntimeError, match="has no derivative in rows"):
        ops.quantized_cleanup(rows, rows.clone().requires_grad_(), codes, bounds, None, 1)
    with pytest.raises(ValueError, match=re.escape("quantize_rows: rows must have a last dimension of at least 1")):
        ops.quantize_rows(torch.zeros(3, 0))


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_gradients(scale):
    rows = drawn(30, 12, dtype=torch.float64)
    query = (drawn(3, 12, seed=1, dtype=torch.float64) * scale).requires_grad_()

    def composed(query: Tensor) -> Tensor:
        unit = query / query.norm(dim=-1, keepdim=True)
        found = searched(query.detach(), rows, 4)[1]
        return (unit.unsqueeze(-2) * (rows / rows.norm(dim=-1, keepdim=True))[found]).sum(-1)

    weight = drawn(3, 4, seed=5, dtype=torch.float64)
    (ours,) = torch.autograd.grad((searched(query, rows, 4)[0] * weight).sum(), query)
    (theirs,) = torch.autograd.grad((composed(query / scale) * weight).sum(), query)
    assert torch.allclose(ours, theirs, rtol=1e-10, atol=1e-13 / scale)


def test_second_forward_and_function_transforms():
    rows, query = drawn(20, 6, dtype=torch.float64), drawn(2, 6, seed=1, dtype=torch.float64)
    codes, bounds = ops.quantize_rows(rows)

    def values(query: Tensor) -> Tensor:
        return ops.quantized_cleanup(query, rows, codes, bounds, None, 3)[0]

    leaf = query.clone().requires_grad_()
    assert torch.autograd.gradcheck(values, leaf, check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(values, leaf)
    assert torch.allclose(torch.func.jacrev(values)(query), torch.func.jacfwd(values)(query))
    mapped = torch.vmap(values)(query)
    assert torch.equal(mapped, values(query))
    zero = torch.zeros(6, requires_grad=True)
    values(zero.double()).sum().backward()
    assert (zero.grad == 0).all()


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@pytest.mark.parametrize("order", [None, torch.arange(9).flip(0)], ids=["no-order", "order"])
def test_opcheck(order):
    rows = drawn(9, 5)
    codes, bounds = ops.quantize_rows(rows)
    torch.library.opcheck(ops.quantize_rows.default, (rows,))
    for query in (drawn(5, seed=1), drawn(2, 3, 5, seed=1).requires_grad_()):
        torch.library.opcheck(ops.quantized_cleanup.default, (query, rows, codes, bounds, order, 2))


class Search(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        rows = drawn(40, 8)
        codes, bounds = ops.quantize_rows(rows)
        self.register_buffer("rows", rows)
        self.register_buffer("codes", codes)
        self.register_buffer("bounds", bounds)

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor]:
        return torch.ops.torch_hrr.quantized_cleanup(query, self.rows, self.codes, self.bounds, None, 3)


def test_compile_export_and_script(tmp_path):
    search, query = Search(), drawn(6, 8, seed=1)
    expected = search(query)
    compiled = torch.compile(search, fullgraph=True, dynamic=True)
    batch = {"query": {0: torch.export.Dim("batch")}}
    exported = [torch.export.export(search, (query,), dynamic_shapes=batch, strict=strict) for strict in (True, False)]
    scripted = torch.jit.script(search)
    scripted.save(str(tmp_path / "search.pt"))
    loaded = torch.jit.load(str(tmp_path / "search.pt"))
    package = torch._inductor.aoti_compile_and_package(exported[0], package_path=str(tmp_path / "search.pt2"))
    ahead = torch._inductor.aoti_load_package(package)
    forms = [compiled, *(each.module() for each in exported), scripted, loaded, ahead, copy.deepcopy(search)]
    for form in forms:
        for size in (6, 2):
            found = form(query[:size])
            assert all(torch.equal(ours, part[:size]) for ours, part in zip(found, expected, strict=True))


def test_autocast_leaves_it_alone():
    rows, query = drawn(30, 16), drawn(2, 16, seed=1)
    expected = searched(query, rows, 3)
    with torch.autocast("cpu", torch.bfloat16):
        found = searched(query, rows, 3)
    assert found[0].dtype == torch.float32 and all(map(torch.equal, found, expected))
