"""Every operator case on CUDA: values, bits, derivatives, graphs, streams, no synchronisation."""

import pytest
import torch
from cases import FLOATING_CASES
from cases.base import FLOATS, build, named, split, with_tensors

from torch_hrr import hrr

CASES = named((case,) for case in FLOATING_CASES)
SAMPLES = named((case, sample) for case in FLOATING_CASES for sample in case.samples)
TOLERANCE = {torch.float32: 2e-6, torch.float64: 1e-13, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def to_cuda(arguments):
    return with_tensors(arguments, lambda tensor: tensor.cuda())


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("case, sample", SAMPLES)
def test_values(case, sample):
    for dtype in sample.dtypes:
        arguments = build(sample, dtype)
        results = case.run(to_cuda(arguments))
        expected = case.expect(arguments)
        for result, oracle, scale in zip(results, expected, case.scale(arguments, expected), strict=True):
            assert result.is_cuda and result.dtype == case.result_dtype(arguments)
            error = (result.cpu().double() - oracle).abs()
            assert (error <= TOLERANCE[dtype] * scale).all(), f"{dtype}: {(error / scale).max():.2e}"


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [7, 64, 100, 512, 1009, 8192])
def test_determinism_of_batches_and_repeats(case, dim):
    arguments = to_cuda(build(case.sized(33, 3, dim)))
    whole = case.run(arguments)
    for _ in range(1000 if dim == 64 else 20):
        assert all(torch.equal(bits(a), bits(b)) for a, b in zip(whole, case.run(arguments), strict=True))
    for row in (0, 16, 32):
        alone = case.run(case.with_rows(arguments, lambda tensor, row=row: tensor[row : row + 1]))
        assert all(torch.equal(bits(a[row : row + 1]), bits(b)) for a, b in zip(whole, alone, strict=True))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [5, 64, 100, 1024])
def test_values_of_rows_that_are_not_finite_and_their_neighbours(dim, dtype):
    a = torch.randn(9, dim, device="cuda").to(dtype)
    b = torch.randn(9, dim, device="cuda").to(dtype)
    for operator in (hrr.bind, hrr.unbind, hrr.bind_normalize):
        good = operator(a, b)
        for bad in (torch.nan, torch.inf):
            broken = a.clone()
            broken[4, dim // 2] = bad
            result = operator(broken, b)
            assert result[4].isnan().all()
            others = [0, 1, 2, 3, 5, 6, 7, 8]
            assert torch.equal(bits(result[others]), bits(good[others]))


@pytest.mark.parametrize("scale", [1e-30, 1e30, 1e-18])
@pytest.mark.parametrize("dim", [64, 100, 512])
def test_values_of_extreme_rows(dim, scale):
    a = torch.randn(4, dim)
    b = torch.randn(4, dim)
    result = hrr.bind_normalize((a * scale).cuda(), (b * scale).cuda()).cpu()
    torch.testing.assert_close(result, hrr.bind_normalize(a, b), rtol=0, atol=1e-6)
    result = hrr.superpose((a * scale).cuda()).cpu()
    torch.testing.assert_close(result, hrr.superpose(a), rtol=0, atol=1e-6)


@pytest.mark.parametrize("case", named((case,) for case in FLOATING_CASES if case.takes("gradient")))
@pytest.mark.parametrize("dim", [5, 20, 32])
def test_gradients(case, dim):
    arguments = to_cuda(build(case.sized(2, 2, dim), torch.float64))
    tensors, join = split(arguments, case.differentiable)
    tensors = tuple(tensor.requires_grad_() for tensor in tensors)

    def call(*tensors):
        return case.run(join(*tensors))

    torch.autograd.gradcheck(call, tensors, fast_mode=True, check_forward_ad=True)
    torch.autograd.gradgradcheck(call, tensors, fast_mode=True, check_fwd_over_rev=True)


@pytest.mark.parametrize("case", CASES)
def test_opcheck(case):
    if not case.is_out:
        torch.library.opcheck(case.op, (), to_cuda(build(case.sized(3, 2, 64))))


@pytest.mark.asynchronous
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dim", [64, 100, 1024])
def test_graph_capture_and_replay(case, dim):
    first, second = (to_cuda(build(case.sized(5, 3, dim), seed=seed)) for seed in (0, 1))
    expected = [tensor.clone() for tensor in case.run(second)]
    static = with_tensors(first, torch.clone)
    case.run(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = case.run(static)
    for name, value in static.items():
        if isinstance(value, torch.Tensor):
            value.copy_(second[name])
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(captured, expected, strict=True))


@pytest.mark.asynchronous
@pytest.mark.parametrize("dim", [100, 512, 4097])
@pytest.mark.parametrize("case", CASES)
def test_no_synchronisation(case, dim):
    arguments = to_cuda(build(case.sized(5, 3, dim)))
    case.run(arguments)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        case.run(arguments)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.asynchronous
@pytest.mark.parametrize("case", CASES)
def test_other_stream(case):
    arguments = to_cuda(build(case.sized(64, 3, 512)))
    expected = case.run(arguments)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        results = case.run(arguments)
    stream.synchronize()
    assert all(torch.equal(bits(a), bits(b)) for a, b in zip(results, expected, strict=True))


@pytest.mark.parametrize("case", named((case,) for case in FLOATING_CASES if case.takes("autocast")))
def test_autocast(case):
    arguments = to_cuda(build(case.sized(4, 3, 64)))
    with torch.autocast("cuda", torch.bfloat16):
        assert all(result.dtype == torch.bfloat16 for result in case.run(arguments))


@pytest.mark.parametrize("dim", [512, 1000])
def test_more_rows_than_a_small_grid(dim):
    a = torch.randn(70001, dim, device="cuda")
    b = torch.randn(dim, device="cuda")
    whole = hrr.bind_normalize(a, b)
    assert torch.equal(whole[-3:], hrr.bind_normalize(a[-3:], b))
    assert torch.equal(whole[35000], hrr.bind_normalize(a[35000], b))


def test_mixed_devices_are_an_error():
    with pytest.raises(RuntimeError, match="bind: a and b must be on the same device, got cuda:0 and cpu"):
        hrr.bind(torch.ones(4, device="cuda"), torch.ones(4))


def test_compiled():
    def call(a, b):
        return hrr.bind_normalize(a, b) * 2

    a, b = (torch.randn(6, 512, device="cuda", requires_grad=True) for _ in range(2))
    compiled = torch.compile(call, fullgraph=True)
    assert torch.equal(compiled(a, b), call(a, b))
    compiled(a, b).sum().backward()
    assert a.grad is not None
