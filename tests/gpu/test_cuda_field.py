"""Fields on CUDA: brains near those of the CPU, steps without synchronisation, graphs with the bits of calls, files."""

import gc
import math

import pytest
import torch

from torch_hrr import field

DEVICE = "cuda"
SETTINGS = {"sensory_dim": 6, "motor_dim": 3, "spatial": (7, 6, 9), "channels": 12, "threshold": 0.0, "patterns": 3}
kinds = pytest.mark.parametrize("kind", ({}, {"modulate": True, "dtype": torch.bfloat16}), ids=("float32", "bfloat16"))


class PlainBrain(field.FieldBrain):
    """Never replays a graph."""

    def _repeated_step(self, sensory, reward):
        return self.step(sensory, reward)


def run(brain, cycles):
    """What the cycles returned, less their times and device."""
    results = []
    for _ in range(cycles):
        i = brain.cycle
        motor, state = brain.process_robot_cycle([math.sin(i + j) for j in range(6)], i % 3 - 1)
        results.append((motor, {n: x for n, x in state.items() if n not in ("cycle_time_ms", "device")}))
    return results


def graphs_of(brain):
    return [call for call in brain._graphs._calls.values() if call is not None]


def assert_same(brain, expected):
    theirs = dict(expected.named_buffers())
    for name, tensor in brain.named_buffers():
        # The one of the field that is written next may hold anything.
        assert name in ("_even", "_odd") or torch.equal(tensor.cpu(), theirs[name].cpu()), name
    assert torch.equal(brain.field.cpu(), expected.field.cpu()) and brain.cycle == expected.cycle


@kinds
def test_values_of_cycles_are_near_the_cpus(kind):
    there, here = (field.FieldBrain(**SETTINGS, **kind, seed=1, device=device) for device in (DEVICE, "cpu"))
    assert there.field.device.type == there.device.type == DEVICE and torch.equal(there.field.cpu(), here.field)
    close = 1e-4 if not kind else 0.05
    for (motor, state), (expected_motor, expected) in zip(run(there, 12), run(here, 12), strict=True):
        assert motor == pytest.approx(expected_motor, rel=close, abs=close)
        assert state == pytest.approx(expected, rel=close, abs=max(close, 0.01))
    assert torch.equal(there.key.cpu(), here.key) and len(there.library) == len(here.library) == 3
    torch.testing.assert_close(there.field.cpu(), here.field, rtol=close, atol=close)


@pytest.mark.asynchronous
@kinds
def test_a_step_does_not_synchronise(kind):
    brain = field.FieldBrain(**SETTINGS, **kind, device=DEVICE)
    sensory, reward = torch.ones(6, device=DEVICE), torch.ones(1, device=DEVICE)
    for _ in range(2):
        brain.step(sensory, reward)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(4):
            packed = brain.step(sensory, reward)
            brain.step(sensory, 0.5)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert packed.isfinite().all()
    found = field.OptimizationChecker.verify_optimizations(brain)
    assert found["syncs"] == 0 and found["fused"]


@pytest.mark.asynchronous
@kinds
def test_replayed_cycles_are_bitwise_the_others(kind):
    brain, expected = (of(**SETTINGS, **kind, seed=0, device=DEVICE) for of in (field.FieldBrain, PlainBrain))
    for cycle in range(12):
        assert run(brain, 1) == run(expected, 1)
        assert_same(brain, expected)
        assert len(graphs_of(brain)) == min(max(cycle - 1, 0), 2)
    # Steps outside of the graphs take their turn.
    for each in (brain, expected):
        each.step(torch.ones(6, device=DEVICE))
    assert run(brain, 5) == run(expected, 5)
    assert not graphs_of(expected)


def replaced_library(brain):
    brain.library = field.PatternLibrary(3, 6, 3, device=DEVICE)
    return brain


def loaded(brain):
    brain.load_state_dict({name: tensor.clone() for name, tensor in brain.state_dict().items()}, assign=True)
    return brain


def set_gain(brain):
    brain.gain *= 3
    return brain


@pytest.mark.asynchronous
@pytest.mark.parametrize("cycles", (5, 6))
@pytest.mark.parametrize(
    "act",
    (field.FieldBrain.copy, lambda brain: brain.to("cpu").to(DEVICE), replaced_library, loaded, set_gain),
    ids=("copy", "moved", "library", "state", "setting"),
)
def test_graphs_follow_what_happens_between_cycles(act, cycles):
    brain, expected = (of(**SETTINGS, seed=0, device=DEVICE) for of in (field.FieldBrain, PlainBrain))
    for more in (cycles, 7, 7):
        assert run(brain, more) == run(expected, more)
        assert_same(brain, expected)
        brain, expected = act(brain), act(expected)


def test_a_moved_brain_leaves_no_memory():
    run(field.FieldBrain(**SETTINGS, device=DEVICE), 6)
    gc.collect()
    before = torch.cuda.memory_allocated()
    brain = field.FieldBrain(**SETTINGS, device=DEVICE)
    run(brain, 6)
    assert torch.cuda.memory_allocated() > before
    brain.to("cpu")
    gc.collect()
    assert torch.cuda.memory_allocated() <= before
    assert all(-1 <= value <= 1 for motor, _ in run(brain, 2) for value in motor)


@kinds
def test_files_move_between_devices(kind, tmp_path):
    brain = field.FieldBrain(**SETTINGS, **kind, device=DEVICE)
    run(brain, 5)
    brain.save(tmp_path / "brain")
    there, here = (field.FieldBrain.load(tmp_path / "brain", device=device) for device in (DEVICE, "cpu"))
    assert_same(here, brain)
    assert run(there, 6) == run(brain, 6)
    here.save(tmp_path / "brain")
    assert_same(field.FieldBrain.load(tmp_path / "brain", device=DEVICE), here)


@pytest.mark.asynchronous
@pytest.mark.parametrize("steps", (1, 5))
@pytest.mark.parametrize("shape", ((5, 6, 7, 3), (32, 32, 32, 2)))
def test_every_replay_has_fresh_noise(shape, steps):
    start = torch.randn(shape, device=DEVICE)
    key, expected_key = (field.random_key(7, device=DEVICE) for _ in range(2))
    out = torch.empty_like(start)

    def call():
        field.evolve(start, 0.1, 0.1, steps, noise=0.3, key=key, out=out)
        field.advance_key_(key, start.numel(), steps)

    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for _ in range(3):
        # The call before the capture took the first numbers; the capture itself ran nothing.
        expected_key = field.advance_key(expected_key, start.numel(), steps)
        graph.replay()
        assert torch.equal(out, field.evolve(start, 0.1, 0.1, steps, noise=0.3, key=expected_key))
        here = field.evolve(start.cpu(), 0.1, 0.1, steps, noise=0.3, key=expected_key.cpu())
        assert torch.equal(out.cpu(), here)


@pytest.mark.parametrize("boundary", ("circular", "replicate", "zeros"))
def test_dynamic_fields_are_near_the_cpus(boundary, tmp_path):
    numbers = {"excitation": 30.0, "sigma_excitation": 1.5, "global_inhibition": 0.04, "tau": 5.0, "noise": 0.1}
    there, here = (field.DynamicField((10, 11, 12, 2), **numbers, boundary=boundary, device=d) for d in (DEVICE, "cpu"))
    for dynamic in (there, here):
        dynamic.step(6.0 * dynamic.stimulus((3, 4, 9), sigma=2.0, amplitude=1.1, channel=0), steps=40)
        dynamic.step(None, steps=20)
    assert there.activation.device.type == DEVICE
    torch.testing.assert_close(there.activation.cpu(), here.activation, rtol=1e-2, atol=1e-2)
    (peak,), (expected,) = there.peaks(), here.peaks()
    assert peak.channel == expected.channel == 0
    assert peak.position == pytest.approx(expected.position, abs=1e-2)
    there.save(tmp_path / "field")
    again, moved = (field.DynamicField.load(tmp_path / "field", device=device) for device in (DEVICE, "cpu"))
    assert torch.equal(again.step(), there.step())
    torch.testing.assert_close(moved.step(), again.output.cpu(), rtol=1e-3, atol=1e-3)
