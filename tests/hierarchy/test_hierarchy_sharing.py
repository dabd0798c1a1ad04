"""What was learned survives bad data, threads that share a hierarchy, and inference mode."""

import threading

import pytest
import torch

from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, HierarchyManager, ReactiveLayer

DATA = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def learner(layer=HebbianCore):
    """Two levels, the second of which ticks every second step."""
    manager = HierarchyManager()
    for number, (size, units) in enumerate(((5, 6), (6, 4))):
        level = HierarchicalLevel(
            number, input_size=size, output_size=units, temporal_resolution=number + 1, pool="mean"
        )
        level.add_layer(layer(size, units))
        manager.add_level(level)
    return manager


def state(manager):
    return {name: value.clone() for name, value in manager.state_dict().items() if isinstance(value, torch.Tensor)}


def same(one, other):
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (DATA.where(DATA < DATA.max(), torch.nan), ValueError, "must be finite in torch.float32"),
        (DATA.where(DATA < DATA.max(), torch.inf), ValueError, "must be finite in torch.float32"),
        (DATA.to(torch.complex64), TypeError, "must be real, got torch.complex64"),
        (DATA.to_sparse(), TypeError, "must be strided"),
        (DATA.to("meta"), ValueError, "must hold data, got a meta tensor"),
    ],
    ids=["nan", "inf", "complex", "sparse", "meta"],
)
def test_bad_data_changes_nothing(data, error, message):
    manager = learner()
    manager.process_hierarchy(DATA)
    before = state(manager)
    calls = {
        "process_hierarchy: data": lambda: manager.process_hierarchy(data),
        "process_batch: samples": lambda: manager.process_batch(data.unsqueeze(0)),
    }
    if not data.is_sparse:
        calls["step: x"] = lambda: manager.step(data[int(DATA.argmax()) // 5])
    for call, run in calls.items():
        with pytest.raises(error, match=f"^{call} {message}"):
            run()
    assert same(before, state(manager))


def test_what_learns_nothing_takes_nan():
    for manager, learn in ((learner(), False), (learner(ReactiveLayer), True)):
        outputs = manager.process_hierarchy(torch.full_like(DATA, torch.nan), learn=learn)
        assert bool(outputs[0].isnan().all())


def test_threads_share_a_hierarchy():
    shared, alone, errors = learner(), learner(), []

    def work():
        try:
            for _ in range(50):
                shared.process_hierarchy(DATA)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for _ in range(200):
        alone.process_hierarchy(DATA)
    assert not errors
    assert same(state(alone), state(shared))


def test_learning_goes_on_after_inference_mode():
    manager, other = learner(), learner()
    with torch.inference_mode():
        manager.process_hierarchy(DATA)
        manager.step(DATA[0])
    manager.process_batch(DATA.unsqueeze(0))
    other.process_hierarchy(DATA)
    other.step(DATA[0])
    other.process_batch(DATA.unsqueeze(0))
    assert same(state(manager), state(other))
