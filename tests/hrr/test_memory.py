"""Memory of repeated calls: no page faults once warm, no growth."""

import resource

import pytest
import torch

from torch_hrr import hrr


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt


@pytest.mark.parametrize("dim", [512, 1000, 8192])
def test_no_page_faults_with_out_once_warm(dim):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, b = torch.randn(64, dim), torch.randn(64, dim)
        out = torch.empty(64, dim)
        calls = (
            lambda: hrr.bind(a, b, out=out),
            lambda: hrr.unbind(a, b, out=out),
            lambda: hrr.bind_normalize(a, b, out=out),
            lambda: hrr.superpose(a.view(8, 8, dim), out=out[:8]),
        )
        for call in calls * 3:
            call()
        before = faults()
        for call in calls * 50:
            call()
        # 200 calls: a buffer that came fresh from the system at each would cost hundreds.
        assert faults() - before < 20
    finally:
        torch.set_num_threads(threads)
