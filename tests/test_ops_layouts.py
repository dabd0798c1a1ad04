"""Every operator's bits do not depend on how its arguments lie in memory, nor on where its result goes."""

import itertools

import pytest
import torch
from cases import FLOATING_CASES
from cases.base import FLOATS, build, covering, each, floats_of, tensors_of
from torch import Tensor

RETURNING = [case for case in FLOATING_CASES if not case.is_out]
OUT_FORMS = [case for case in FLOATING_CASES if case.is_out]
# One dimension of every algorithm class: direct, native, padded, library.
CLASS_DIMS = (5, 64, 100, 5000)


def gap(x: Tensor) -> float:
    """What lies between the elements: NaN, or a large integer."""
    return torch.nan if x.is_floating_point() else torch.iinfo(x.dtype).max


def strided_last(x: Tensor) -> Tensor:
    return torch.stack([x, torch.full_like(x, gap(x))], -1)[..., 0]


def transposed(x: Tensor) -> Tensor:
    return x.transpose(0, -1).contiguous().transpose(0, -1)


def leading_reversed(x: Tensor) -> Tensor:
    order = [*reversed(range(x.dim() - 1)), x.dim() - 1]
    return x.permute(order).contiguous().permute(order)


def sliced(x: Tensor) -> Tensor:
    padded = torch.full([size + 3 for size in x.shape], gap(x), dtype=x.dtype)
    view = padded[tuple(slice(1, size + 1) for size in x.shape)]
    return view.copy_(x)


def every_other_row(x: Tensor) -> Tensor:
    return torch.stack([x, torch.full_like(x, gap(x))], 1).flatten(0, 1)[::2]


def unaligned(x: Tensor) -> Tensor:
    memory = torch.empty(x.numel() + 1, dtype=x.dtype)
    return memory[1:].view(x.shape).copy_(x)


LAYOUTS = (strided_last, transposed, leading_reversed, sliced, every_other_row, unaligned)


# Every layout meets every dimension and every dtype, and every dimension every dtype.
LAYOUTS_DIMS_DTYPES = covering(LAYOUTS, CLASS_DIMS, FLOATS)


def check_same_bits(case, arguments, changed):
    for result, expected in zip(case.run(changed), case.run(arguments), strict=True):
        assert result.is_contiguous()
        assert torch.equal(result, expected)


@each((case, *values) for case in RETURNING for values in LAYOUTS_DIMS_DTYPES)
def test_strides_do_not_change_bits(case, layout, dim, dtype):
    arguments = build(case.sized(3, 4, dim), dtype)
    tensors = {name: tensor for name, tensor in tensors_of(arguments).items() if tensor.dim()}
    for name, tensor in tensors.items():
        moved = layout(tensor)
        assert torch.equal(moved, tensor)
        check_same_bits(case, arguments, arguments | {name: moved})
    check_same_bits(case, arguments, arguments | {name: layout(tensor) for name, tensor in tensors.items()})


@each(itertools.product(RETURNING, CLASS_DIMS))
def test_expanded_equals_repeated(case, dim):
    arguments = build(case.sized(3, 4, dim))
    for name, tensor in tensors_of(arguments).items():
        if tensor.dim() == 0:
            continue
        for expanded in (tensor[:1].expand(tensor.shape), tensor[..., :1].expand(tensor.shape)):
            check_same_bits(case, arguments | {name: expanded.contiguous()}, arguments | {name: expanded})


@each(covering(RETURNING, CLASS_DIMS, (torch.float32, torch.float64)))
def test_negative_views(case, dim, dtype):
    arguments = build(case.sized(2, 3, dim), dtype)
    for name, tensor in floats_of(arguments).items():
        view = torch.complex(tensor, -tensor).conj().imag
        assert view.is_neg() and torch.equal(view, tensor)
        check_same_bits(case, arguments, arguments | {name: view})


@each(itertools.product(RETURNING, CLASS_DIMS[:3]))
def test_leading_dimensions_that_do_not_collapse(case, dim):
    """Eleven leading dimensions of alternating strides, more than any row map holds."""
    arguments = build(case.sized(2**11, 2, dim))
    tensors = tensors_of(arguments)
    shape = (2,) * 11
    order = (10, 0, 9, 1, 8, 2, 7, 3, 6, 4, 5)
    inverse = [order.index(d) for d in range(11)]
    changed = dict(arguments)
    for position, (name, tensor) in enumerate(tensors.items()):
        if name in case.unbatched:
            continue
        many = tensor.view(*shape, *tensor.shape[1:])
        arguments[name] = many
        own = range(11, many.dim())
        ordered = [*(order if position % 2 else inverse), *own]
        back = [*(inverse if position % 2 else order), *own]
        changed[name] = many.permute(ordered).contiguous().permute(back)
        assert torch.equal(changed[name], many)
    flat = case.run(build(case.sized(2**11, 2, dim)))
    for result, expected in zip(case.run(changed), flat, strict=True):
        assert torch.equal(result.reshape(expected.shape), expected)


@each((case, *values) for case in OUT_FORMS for values in LAYOUTS_DIMS_DTYPES)
def test_out_of_any_layout(case, layout, dim, dtype):
    arguments = build(case.sized(3, 4, dim), dtype)
    expected = case.functional(**arguments)
    out = layout(torch.zeros_like(expected))
    strides, version, address = out.stride(), out._version, out.data_ptr()
    assert case.op(**arguments, out=out) is None
    assert torch.equal(out, expected)
    assert (out.stride(), out.data_ptr()) == (strides, address)
    assert out._version == version + 1


@each(itertools.product(OUT_FORMS, (sliced, every_other_row, strided_last)))
def test_out_leaves_the_memory_between_its_elements(case, layout):
    arguments = build(case.sized(3, 4, 64))
    (sizes,) = case.result_sizes(arguments)
    out = layout(torch.zeros(sizes))
    memory = out.as_strided((out.untyped_storage().nbytes() // out.element_size(),), (1,), 0)
    gaps = memory.isnan().sum()
    assert gaps > 0
    case.op(**arguments, out=out)
    assert memory.isnan().sum() == gaps


@pytest.mark.parametrize("case", OUT_FORMS, ids=lambda case: case.id)
def test_out_of_a_negative_view(case):
    arguments = build(case.sized(3, 4, 24))
    expected = case.functional(**arguments)
    out = torch.zeros(expected.shape, dtype=torch.complex64).conj().imag
    assert out.is_neg()
    case.op(**arguments, out=out)
    assert torch.equal(out, expected)


@pytest.mark.parametrize("case", OUT_FORMS, ids=lambda case: case.id)
def test_out_beside_an_argument_in_one_storage(case):
    """Neighbouring memory is not overlapping memory."""
    arguments = build(case.sized(3, 4, 24))
    name, tensor = next(iter(floats_of(arguments).items()))
    (sizes,) = case.result_sizes(arguments)
    count = torch.Size(sizes).numel()
    memory = torch.zeros(tensor.numel() + count)
    given = memory[: tensor.numel()].view(tensor.shape).copy_(tensor)
    out = memory[tensor.numel() :].view(sizes)
    case.op(**(arguments | {name: given}), out=out)
    assert torch.equal(out, case.functional(**arguments))
    assert torch.equal(given, tensor)


@pytest.mark.parametrize("case", OUT_FORMS, ids=lambda case: case.id)
def test_out_in_inference_mode(case):
    with torch.inference_mode():
        arguments = build(case.sized(3, 4, 24))
        out = case.make_out(arguments)
        case.op(**arguments, out=out)
    assert torch.equal(out, case.functional(**arguments))


@each((case, sample) for case in OUT_FORMS for sample in case.lane_samples)
def test_a_result_in_place_is_seen_by_autograd(case, sample):
    """A tensor saved for backward and then written by an out form is refused by backward."""
    arguments = build(sample)
    saved = case.make_out(arguments).fill_(1.0)
    leaf = torch.ones_like(saved, requires_grad=True)
    product = leaf * saved
    case.op(**arguments, out=saved)
    if saved.numel():
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()
