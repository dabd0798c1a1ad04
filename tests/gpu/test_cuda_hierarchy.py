"""Hierarchies on CUDA: what they learn is near the CPU's, calls may be divided, state and files move.

tests/hierarchy/test_hierarchy_gpu_programs.py runs the same on the CPU.
"""

import torch
from exercise import learner

from torch_hrr import hierarchy, runtime


def data(steps=50, width=12):
    return torch.randn(steps, width, generator=torch.Generator().manual_seed(0))


def assert_near(manager, expected):
    theirs = expected.state_dict()
    for name, value in manager.state_dict().items():
        torch.testing.assert_close(value.cpu(), theirs[name].cpu(), rtol=1e-3, atol=1e-4)


def test_what_is_learned_is_near_the_cpus(device="cuda"):
    there, here = learner(device), learner("cpu")
    for _ in range(2):
        for near, expected in zip(there.process_hierarchy(data()), here.process_hierarchy(data()), strict=True):
            assert near.device.type == device
            torch.testing.assert_close(near.cpu(), expected, rtol=1e-3, atol=1e-4)
    assert_near(there, here)
    batch = torch.stack([data(), data().flip(0)])
    for near, expected in zip(there.process_batch(batch), here.process_batch(batch), strict=True):
        torch.testing.assert_close(near.cpu(), expected, rtol=1e-3, atol=1e-4)
    assert_near(there, here)


def test_steps_may_be_divided_into_calls(device="cuda"):
    whole, parts = learner(device), learner(device)
    expected = whole.process_hierarchy(data())
    found = [parts.process_hierarchy(data()[:7]), parts.process_hierarchy(data()[7:49])]
    found.append([row.unsqueeze(0) for row in parts.step(data()[49])])
    for level, rows in enumerate(expected):
        torch.testing.assert_close(torch.cat([part[level] for part in found]), rows, rtol=1e-4, atol=1e-5)
    assert_near(parts, whole)


def test_layers_that_learn_alone_give_the_same_bits_in_any_division(device="cuda"):
    managers = []
    for _ in range(2):
        manager = hierarchy.HierarchyManager()
        for i, (rule, n, m) in enumerate((("oja", 12, 9), ("gha", 9, 7), ("bcm", 7, 5))):
            level = hierarchy.HierarchicalLevel(i, n, m, i + 1)
            level.add_layer(hierarchy.HebbianCore(n, m, rule=rule, lr=5e-3, seed=0, device=device))
            manager.add_level(level)
        managers.append(manager)
    expected = managers[0].process_hierarchy(data())
    found = [managers[1].process_hierarchy(part) for part in data().split(13)]
    for level, rows in enumerate(expected):
        assert torch.equal(torch.cat([part[level] for part in found]), rows)


def test_without_learning_gradients_reach_the_data(device="cuda"):
    gradients = []
    for place in (device, "cpu"):
        x = data().to(place).requires_grad_()
        learner(place).process_hierarchy(x, learn=False)[-1].square().sum().backward()
        gradients.append(x.grad.cpu())
    assert gradients[1].abs().max() > 0
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


def test_a_monitor_records_on_the_device(device="cuda"):
    manager = learner(device)
    monitor = hierarchy.Monitor(manager, capacity=20)
    manager.process_hierarchy(data())
    records = monitor.records(0)
    assert records.device.type == device and len(records) == 20 and bool(records.isfinite().all())


def test_files_and_new_layers_follow_the_device(tmp_path, device="cuda"):
    manager = learner(device)
    manager.process_hierarchy(data()[:31])
    manager.save(tmp_path / "hierarchy.safetensors")
    path = tmp_path / "hierarchy.safetensors"
    again, here = (hierarchy.HierarchyManager.load(path, device=place) for place in (device, "cpu"))
    assert again.levels[0].layers[0].weight.device.type == device
    assert torch.equal(again.step(data()[31])[-1], manager.step(data()[31])[-1])
    torch.testing.assert_close(here.step(data()[31])[-1], again.levels[-1].held.cpu(), rtol=1e-3, atol=1e-4)
    with runtime.GPUContext(device):
        assert hierarchy.HebbianCore(3, 2).weight.device.type == device
