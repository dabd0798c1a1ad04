"""GPUMemoryManager: storage that is used again, the limit, state that moves, and the report."""

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


def test_storage_that_was_given_back_is_used_again(small):
    first = small.allocate_vector_storage(10, 8)
    assert (first.shape, first.dtype, first.device.type) == ((10, 8), torch.float32, "cpu")
    second = small.allocate_vector_storage(10, 8)
    assert second is not first
    small.release(first)
    assert small.allocate_vector_storage(10, 8, torch.float16) is not first
    assert small.allocate_vector_storage(8, 10) is not first
    assert small.allocate_vector_storage(10, 8) is first


def test_the_limit_is_a_share_of_the_memory_and_holds(small):
    assert small.max_memory_gb == int(0.8 * 2**20) / 2**30
    storage = small.allocate_vector_storage(200, 1000)
    text = r"^allocate_vector_storage: storage must fit into the limit of 0.000781 GB, got 3.73e-05 GB of 3.62e-05 GB"
    with pytest.raises(MemoryError, match=text):
        small.allocate_vector_storage(10, 1000)
    small.allocate_vector_storage(9, 1000)
    # What lies in the pool makes room.
    small.release(storage)
    small.allocate_vector_storage(150, 1000)
    assert small.memory_pool == {}


def test_the_report_tells_the_shares_and_what_is_wrong(small):
    empty = small.report()
    assert empty["memory_share"] == empty["waste"] == empty["transfer_share"] == 0.0 and empty["alerts"] == []
    kept = small.allocate_vector_storage(100, 100)
    small.release(small.allocate_vector_storage(50, 100))
    report = small.report()
    assert report["allocated_gb"] == kept.nbytes / 2**30
    assert report["reserved_gb"] == 1.5 * kept.nbytes / 2**30
    assert report["waste"] == pytest.approx(1 / 3)
    assert report["memory_share"] == pytest.approx(60_000 / int(0.8 * 2**20))
    assert report["alerts"] == ["33% of the reserved memory is unused: free() gives it back"]
    small.free()
    assert small.report()["waste"] == 0.0 and small.report()["alerts"] == []


def test_transfers_that_take_long_are_alerted(small, monkeypatch):
    clock = iter([0.0, 2.0, 2.0, 10.0])
    monkeypatch.setattr(manager.time, "perf_counter", lambda: next(clock))
    small.transfer_state({"a": np.ones(3)})
    small.run(torch.sin, torch.ones(3))
    report = small.report()
    assert report["transfer_share"] == 0.2
    assert report["alerts"] == ["20% of the time goes to transfers: keep state on the device between calls"]


def test_what_is_computed_outside_of_a_run_is_time_too(small, monkeypatch):
    clock = iter([0.0, 2.0, 2.0, 40.0])
    monkeypatch.setattr(manager.time, "perf_counter", lambda: next(clock))
    small.transfer_state({"a": np.ones(3)})
    # Until now there was nothing else.
    assert small.report()["transfer_share"] == 1.0
    report = small.report()
    assert report["transfer_share"] == 0.05 and report["alerts"] == []


def test_copies_at_the_same_time_are_no_more_than_all_of_it(small, monkeypatch):
    """Of two threads, the first to end began last."""
    clock = iter([2.0, 6.0, 0.0, 6.0, 6.0, 20.0])
    monkeypatch.setattr(manager.time, "perf_counter", lambda: next(clock))
    small.transfer_state({"a": np.ones(3)})
    small.transfer_state({"a": np.ones(3)})
    assert small.report()["transfer_share"] == 1.0
    assert small.report()["transfer_share"] == 0.5


def test_where_nothing_is_copied_there_are_no_transfers(small):
    small.transfer_state({"a": [torch.ones(2**22)], "b": 3})
    small.run(torch.sin, torch.ones(3))
    report = small.report()
    assert report["transfer_share"] == 0.0 and report["alerts"] == []


def test_copies_within_a_run_are_transfers(small, feigned_gpu, monkeypatch):
    small.device = torch.device("cuda")
    waited = []
    monkeypatch.setattr(adaptive, "wait_for", lambda op, place: waited.append((op, place.type)))
    # Of ten seconds two go to the way there, and one to the way back.
    clock = iter([0.0, 1.0, 3.0, 7.0, 8.0, 10.0])
    monkeypatch.setattr(manager.time, "perf_counter", lambda: next(clock))
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


def test_storage_of_inference_mode_is_written_outside(small):
    with torch.inference_mode():
        storage = small.allocate_vector_storage(2, 2)
        small.release(storage)
    assert small.allocate_vector_storage(2, 2).fill_(1) is storage


@pytest.mark.parametrize("limit", [0, -0.1, 1.1, float("nan")])
def test_limits_that_no_memory_has(limit):
    with pytest.raises(ValueError, match=r"^GPUMemoryManager: memory_limit must be in \(0, 1\], got "):
        GPUMemoryManager("cpu", limit)


def test_storage_that_cannot_be_given_back(small):
    storage = small.allocate_vector_storage(2, 2)
    small.release(storage)
    used = small.allocate_vector_storage(2, 2)
    text = r"^release: storage must be in use, got storage that was given back before, or was allocated elsewhere$"
    for other in (used[:1], used.view(2, 2), used.detach(), torch.ones(2, 2), torch.ones(2, 2).to_sparse()):
        with pytest.raises(ValueError, match=text):
            small.release(other)
    small.release(used)
    with pytest.raises(ValueError, match=text):
        small.release(storage)
    assert small.report()["allocated_gb"] == 0
    for bad in (None, torch.ones(3), torch.ones(2, 2, device="meta")):
        with pytest.raises(TypeError, match=r"^release: storage must be a matrix on cpu, got "):
            small.release(bad)
    turned = small.allocate_vector_storage(3, 3).t_()
    with pytest.raises(ValueError, match=text):
        small.release(turned)
    turned = small.allocate_vector_storage(2, 3).t_()
    with pytest.raises(ValueError, match=text):
        small.release(turned)


def test_storage_comes_back_without_gradients(small):
    for use in (lambda x: x.requires_grad_().sum().backward(), lambda x: x.copy_(torch.ones(2, 3, requires_grad=True))):
        storage = small.allocate_vector_storage(2, 3)
        use(storage)
        small.release(storage)
        again = small.allocate_vector_storage(2, 3)
        assert again is storage and again.is_leaf and not again.requires_grad and again.grad is None
