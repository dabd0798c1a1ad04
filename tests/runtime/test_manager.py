"""GPUMemoryManager: the limit of its storage, state that moves, and the report."""

import gc

import numpy as np
import pytest
import torch

from torch_hrr.compat import runtime as manager
from torch_hrr.runtime import GPUMemoryManager, adaptive


@pytest.fixture
def small(monkeypatch):
    """A manager of a machine with 1 MiB, of which 80 % may be used."""
    monkeypatch.setattr(manager, "total_memory", lambda device: 2**20)
    return GPUMemoryManager("cpu")


@pytest.fixture
def clock(monkeypatch):
    """Makes the clock tell these times, one after the other."""

    def tell(*times):
        left = iter(times)
        monkeypatch.setattr(manager.time, "perf_counter", lambda: next(left))

    return tell


def test_the_limit_is_a_share_of_the_memory_and_holds(small):
    assert small.max_memory_gb == pytest.approx(0.8 * 2**20 / 2**30)
    storage = small.allocate_vector_storage(200, 1000)
    assert (storage.shape, storage.dtype, storage.device.type) == ((200, 1000), torch.float32, "cpu")
    text = r"^allocate_vector_storage: storage must fit into the limit of 0.000781 GB, got 3.73e-05 GB of 3.62e-05 GB"
    with pytest.raises(MemoryError, match=text):
        small.allocate_vector_storage(10, 1000)
    half = small.allocate_vector_storage(10, 970, torch.float16)
    (pooled,) = small.memory_pool[10, 970]
    assert pooled is half and set(small.memory_pool) == {(200, 1000), (10, 970)}
    assert small.report()["allocated_gb"] == (storage.nbytes + half.nbytes) / 2**30
    # What is given back makes room, and so does what nothing refers to.
    small.release(storage)
    again = small.allocate_vector_storage(200, 1000)
    del again
    gc.collect()
    small.allocate_vector_storage(200, 1000)
    with torch.inference_mode():
        written = small.allocate_vector_storage(2, 2)
    assert written.fill_(1).sum() == 4


def test_storage_that_cannot_be_given_back(small):
    used, text = small.allocate_vector_storage(2, 2), r"^release: storage must be in use, got what was given back bef"
    others = (used[:1], used.view(2, 2), used.detach(), torch.ones(2, 2), torch.ones(2, 2, device="meta"), None)
    for other in others:
        with pytest.raises(ValueError, match=text):
            small.release(other)
    small.release(used)
    with pytest.raises(ValueError, match=text):
        small.release(used)
    assert small.report()["allocated_gb"] == 0


def test_the_report_tells_the_shares_and_what_is_wrong(small, monkeypatch):
    empty = small.report()
    assert empty["memory_share"] == empty["waste"] == empty["transfer_share"] == 0.0 and empty["alerts"] == []
    kept = small.allocate_vector_storage(100, 100)
    report = small.report()
    assert report["allocated_gb"] == report["reserved_gb"] == kept.nbytes / 2**30 and report["waste"] == 0.0
    assert report["memory_share"] == pytest.approx(40_000 / (0.8 * 2**20))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * 2**20)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * 2**20)
    small.device = torch.device("cuda")
    report = small.report()
    assert (report["allocated_gb"], report["reserved_gb"]) == (2 / 1024, 3 / 1024)
    assert report["waste"] == pytest.approx(1 / 3) and report["memory_share"] == pytest.approx(3.75)
    assert report["alerts"] == [
        "375% of the memory limit is in use: free() gives back what nothing uses",
        "33% of the reserved memory is unused: free() gives it back",
    ]


def test_transfers_that_take_long_are_alerted(small, clock):
    clock(0.0, 2.0, 2.0, 10.0, 40.0)
    small.transfer_state({"a": np.ones(3)})
    small.run(torch.sin, torch.ones(3))
    report = small.report()
    assert report["transfer_share"] == 0.2
    assert report["alerts"] == ["20% of the time goes to transfers: keep state on the device between calls"]
    # What is computed outside of a run is time too.
    report = small.report()
    assert report["transfer_share"] == 0.05 and report["alerts"] == []


def test_copies_at_the_same_time_are_no_more_than_all_of_it(small, clock):
    """Of two threads, the first to end began last."""
    clock(2.0, 6.0, 0.0, 6.0, 6.0, 20.0)
    small.transfer_state({"a": np.ones(3)})
    small.transfer_state({"a": np.ones(3)})
    assert small.report()["transfer_share"] == 1.0
    assert small.report()["transfer_share"] == 0.5


def test_where_nothing_is_copied_there_are_no_transfers(small):
    small.transfer_state({"a": [torch.ones(2**22)], "b": 3})
    small.run(torch.sin, torch.ones(3))
    report = small.report()
    assert report["transfer_share"] == 0.0 and report["alerts"] == []


def test_copies_within_a_run_are_transfers(small, feigned_gpu, monkeypatch, clock):
    small.device = torch.device("cuda")
    waited = []
    monkeypatch.setattr(adaptive, "wait_for", lambda op, place: waited.append((op, place.type)))
    # Of ten seconds two go to the way there, and one to the way back.
    clock(0.0, 1.0, 3.0, 7.0, 8.0, 10.0)
    result = small.run(lambda x: x + 1, torch.ones(3))
    small.device = torch.device("cpu")
    assert result.tolist() == [2.0] * 3 and result.device.type == "cpu"
    assert small.report()["transfer_share"] == pytest.approx(0.3)
    # What is computed before a copy is no part of it.
    assert waited == [("run", "cpu"), ("run", "cuda"), ("run", "cuda"), ("run", "cpu")]


def test_state_moves_whole_and_the_rest_stays(small):
    other = object()
    state = {"vectors": np.arange(4.0), "nested": {"list": [torch.ones(2), "name"], "other": other}, "count": 3}
    moved = small.transfer_state(state)
    assert torch.equal(moved["vectors"], torch.arange(4.0, dtype=torch.float64))
    assert torch.equal(moved["nested"]["list"][0], torch.ones(2)) and moved["nested"]["list"][1] == "name"
    assert moved["nested"]["other"] is other and moved["count"] == 3
    assert isinstance(state["vectors"], np.ndarray)
    assert torch.equal(small.transfer_consciousness_state(state)["vectors"], moved["vectors"])


def test_a_run_goes_on_where_memory_is_short(small):
    def fn(x):
        if len(x) > 2:
            raise torch.OutOfMemoryError
        return x + 1

    assert torch.equal(small.run(fn, torch.arange(5.0)), torch.arange(5.0) + 1)


def test_a_limit_below_a_byte_is_reported():
    assert GPUMemoryManager("cpu", 1e-300).report()["memory_share"] == 0
