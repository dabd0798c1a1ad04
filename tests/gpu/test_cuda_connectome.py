"""connectome_inputs on CUDA: the CPU's bits, no synchronisation, graphs, neurons outside the range."""

import pytest
import torch
from cases import INTEGER_CASES
from cases.base import build, named, with_tensors

from torch_hrr.assembly import connectome_inputs

SAMPLES = named((case, sample) for case in INTEGER_CASES for sample in case.samples)


def on_cuda(tensor):
    return tensor.cuda()


@pytest.mark.parametrize(("case", "sample"), SAMPLES)
def test_bits_are_the_cpus(case, sample):
    arguments = build(sample)
    (result,) = case.run(with_tensors(arguments, on_cuda))
    assert result.is_cuda
    assert torch.equal(result.cpu(), case.run(arguments)[0])


@pytest.mark.parametrize("p", [1e-5, 0.001, 0.01, 0.5])
def test_bits_of_large_calls_are_the_cpus(p):
    winners = torch.randint(2**31, (3, 500))
    for _ in range(3):
        result = connectome_inputs(winners.cuda(), 300_001, p, 7, 8, 9)
        assert torch.equal(result.cpu(), connectome_inputs(winners, 300_001, p, 7, 8, 9))


def test_neurons_outside_the_range_are_ignored():
    winners = torch.tensor([-1, 5, 2**31, -(2**63), 6, 2**63 - 1])
    result = connectome_inputs(winners.cuda(), 5000, 0.3, 0, 0)
    assert torch.equal(result.cpu(), connectome_inputs(winners[[1, 4]], 5000, 0.3, 0, 0))


@pytest.mark.asynchronous
def test_calls_do_not_synchronise_and_can_be_captured():
    winners = torch.randint(2**31, (2, 100), device="cuda")
    expected = connectome_inputs(winners, 5000, 0.3, 0, 0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        assert connectome_inputs(winners, 5000, 0.3, 0, 0).shape == expected.shape
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = connectome_inputs(winners, 5000, 0.3, 0, 0)
    winners.copy_(winners.flip(0))
    graph.replay()
    assert torch.equal(result, expected.flip(0))
