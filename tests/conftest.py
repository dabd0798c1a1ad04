"""Fixtures of every test: seeds, and the state of torch put back."""

import signal

import pytest
import torch

# Ctrl-C is ignored where a shell has started the tests in the background; tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def fresh_torch():
    """The same random numbers for every test in any order; threads and default dtype as before."""
    torch.manual_seed(0)
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    yield
    torch.set_num_threads(threads)
    torch.set_default_dtype(dtype)
