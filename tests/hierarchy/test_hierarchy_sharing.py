"""What was learned survives bad data, errors half-way, threads that share a hierarchy, inference mode and autocast."""

import copy
import functools
import json
import signal
import threading

import pytest
import torch

import torch_hrr
from torch_hrr import _progress, io
from torch_hrr.hierarchy import (
    HebbianCore,
    HierarchicalLevel,
    HierarchyManager,
    Monitor,
    ReactiveLayer,
    SoftHebb,
    layers,
)
from torch_hrr.hierarchy import level as levels

DATA = torch.randn(7, 5, generator=torch.Generator().manual_seed(0))


def learner(layer=HebbianCore):
    """Two levels, the second of which ticks every second step."""
    manager = HierarchyManager()
    for number, (size, units) in enumerate(((5, 6), (6, 4))):
        level = HierarchicalLevel(
            number, input_size=size, output_size=units, temporal_resolution=number + 1, pool="mean"
        )
        level.add_layer(layer(size, units, seed=0))
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
        (DATA.double().where(DATA < DATA.max(), 1e300), ValueError, "must be finite in torch.float32"),
        (torch.quantize_per_tensor(DATA, 0.1, 0, torch.qint8), TypeError, "must not be quantized, got torch.qint8"),
    ],
    ids=["nan", "inf", "complex", "sparse", "meta", "too-large", "quantized"],
)
def test_bad_data_changes_nothing(data, error, message):
    manager = learner()
    manager.process_hierarchy(DATA)
    before = state(manager)
    calls = {
        "process_hierarchy: data": lambda: manager.process_hierarchy(data),
        "process_batch: samples": lambda: manager.process_batch(data.unsqueeze(0)),
        "process: inputs": lambda: manager.levels[0].process(data),
    }
    if not data.is_sparse:
        calls["step: x"] = lambda: manager.step(data[int(DATA.argmax()) // 5])
    for call, run in calls.items():
        with pytest.raises(error, match=f"^{call} {message}"):
            run()
    if not data.is_sparse:
        with pytest.raises(error, match=f"^step: x {message}"):
            manager.levels[0].step(data[int(DATA.argmax()) // 5])
    assert same(before, state(manager))


@pytest.mark.parametrize(
    ("ticks", "error", "message"),
    [
        (DATA[:, :4], ValueError, r"must have the last dimension 5, got shape \[7, 4\]"),
        (DATA[0], ValueError, "must have at least 2 dimensions"),
        (DATA[None, None], ValueError, r"must have shape \[T, 5\] or \[T, B, 5\] with at least one sample, got"),
        (DATA[:, :0].reshape(7, 0, 1).expand(7, 0, 5), ValueError, "must have shape .* with at least one sample"),
        (DATA.long(), TypeError, "must be float32, float64, float16 or bfloat16, got torch.int64"),
        (DATA.to("meta"), RuntimeError, "must be on cpu, got meta"),
        (None, TypeError, "must be a torch.Tensor or a NumPy array, got NoneType"),
    ],
    ids=["size", "rank", "rank-4", "no-sample", "int", "meta", "none"],
)
def test_a_layer_refuses_what_it_cannot_take(ticks, error, message):
    own = HebbianCore(5, 6)
    before = state(own)
    with pytest.raises(error, match=f"^process: ticks {message}"):
        own.process(ticks, True)
    with pytest.raises(ValueError, match=r"^process: ticks must be finite in torch.float32"):
        own.process(DATA / 0, True)
    assert same(before, state(own))
    assert own.process(DATA.double(), True).dtype == torch.float32


class Stop(BaseException):
    """As KeyboardInterrupt."""


@pytest.mark.parametrize("call", ("process_hierarchy", "step", "process_batch"))
def test_an_error_in_a_later_level_changes_nothing(monkeypatch, call):
    manager = learner()
    manager.process_hierarchy(DATA)
    before = state(manager)
    data = {"process_hierarchy": DATA, "step": DATA[0], "process_batch": DATA[None]}[call]

    def fail(ticks, learn):
        raise Stop

    monkeypatch.setattr(manager.levels[1].layers[0], "outputs", fail)
    with pytest.raises(Stop):
        getattr(manager, call)(data)
    assert same(before, state(manager))


@pytest.fixture
def in_small_parts(monkeypatch):
    """Every call is long, and goes through in the smallest parts: of a step, or of 3 rows."""
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    for module, name, value in ((_progress, "_PART", 0.0), (levels, "_PART", 0.0), (levels, "_ROWS", 3)):
        monkeypatch.setattr(module, name, value)


def gradient(manager):
    x = DATA.clone().requires_grad_()
    manager.process_hierarchy(x, learn=False)[1].square().sum().backward()
    return x.grad


BCM = functools.partial(HebbianCore, rule="bcm")


@pytest.mark.parametrize(
    ("layer", "parts"), ((BCM, range(1, 8)), (SoftHebb, range(1, 8)), (ReactiveLayer, (3, 6, 7))), ids=str
)
def test_a_long_call_is_that_in_parts(request, layer, parts):
    manager, other, alone, seen, hooked = learner(layer), learner(layer), learner(layer), [], []
    expected = [outputs for data in (DATA, DATA[:3]) for outputs in manager.process_hierarchy(data)]
    still = manager.process_batch(DATA.expand(3, 7, 5), learn=False)
    manager.process_batch(DATA.expand(3, 7, 5))
    slope = gradient(manager)
    request.getfixturevalue("in_small_parts")
    other.register_level_hook(lambda level, outputs: hooked.append(outputs))
    found = other.process_hierarchy(DATA, progress=lambda *each: seen.append(each))
    assert seen == [(done, 7) for done in parts]
    found += other.process_hierarchy(DATA[:3])
    bound = 0 if len(parts) == 7 else 1e-6
    for mine, theirs, hook in zip(found, expected, hooked, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=bound)
        assert mine is hook
    torch.testing.assert_close(alone.levels[0].process(DATA, progress=lambda *_: None), expected[0], rtol=0, atol=bound)
    seen.clear()
    batch = other.process_batch(DATA.expand(3, 7, 5), learn=False, progress=lambda *each: seen.append(each))
    assert seen == [(1, 3), (2, 3), (3, 3)]
    for mine, theirs in zip(batch, still, strict=True):
        torch.testing.assert_close(mine, theirs)
    other.process_batch(DATA.expand(3, 7, 5))
    torch.testing.assert_close(gradient(other), slope)
    assert bound or same(state(manager), state(other))


@pytest.mark.parametrize(("layer", "part", "done"), ((BCM, 4, 4), (ReactiveLayer, 2, 6)), ids=str)
def test_ctrl_c_ends_a_long_call_after_a_whole_part(monkeypatch, in_small_parts, layer, part, done):
    manager, other, hooked = learner(layer), learner(layer), []
    manager.register_level_hook(lambda level, outputs: hooked.append(outputs))
    second = manager.levels[1].layers[0]
    outputs, calls = second.outputs, []

    def pressed(given, learn):
        calls.append(learn)
        if len(calls) == part:
            signal.raise_signal(signal.SIGINT)
        return outputs(given, learn)

    monkeypatch.setattr(second, "outputs", pressed)
    with pytest.raises(KeyboardInterrupt) as interrupt:
        manager.process_hierarchy(DATA)
    assert interrupt.value.__notes__ == [f"process_hierarchy: {done} of 7 are done"]
    expected = other.process_hierarchy(DATA[:done])
    assert same(state(manager), state(other))
    assert len(hooked) == 2 and all(map(torch.equal, hooked, expected))


@pytest.mark.parametrize("call", ("process_hierarchy", "process_batch"))
def test_ctrl_c_waits_while_changes_are_taken_over(monkeypatch, call):
    manager, other = learner(), learner()
    data = DATA if call == "process_hierarchy" else DATA[None]
    writable = layers.writable

    def pressed(module, name):
        signal.raise_signal(signal.SIGINT)
        return writable(module, name)

    with monkeypatch.context() as patch:
        patch.setattr(layers, "writable", pressed)
        with pytest.raises(KeyboardInterrupt):
            getattr(manager, call)(data)
    getattr(other, call)(data)
    assert same(state(manager), state(other))


def test_a_hook_that_fails_or_calls_back_leaves_whole_steps():
    manager, other = learner(), learner()

    def fail(level, outputs):
        raise Stop

    handle = manager.register_level_hook(fail)
    with pytest.raises(Stop):
        manager.process_hierarchy(DATA)
    handle.remove()
    other.process_hierarchy(DATA)
    assert same(state(manager), state(other))
    # One that makes a step more, and one that adds a level.
    manager.register_level_hook(
        lambda level, outputs: len(outputs) > 1 and level.level_id == 0 and manager.step(DATA[0])
    )
    manager.register_level_hook(lambda level, outputs: len(manager.levels) == 2 and manager.add_level(third))
    third = HierarchicalLevel(2, 4, 3)
    third.add_layer(ReactiveLayer(4, 3))
    assert len(manager.process_hierarchy(DATA)) == 2
    other.process_hierarchy(DATA)
    other.step(DATA[0])
    assert same(state(other), state(manager))
    assert [level.steps for level in manager.levels] == [15, 15, 0]


def test_a_state_that_does_not_fit_changes_nothing():
    manager = learner()
    manager.process_hierarchy(DATA)
    before, good = state(manager), learner().state_dict()
    weight, steps = "levels.1.layers.0.weight", "levels.1._extra_state"
    for change, error, message in (
        ({weight: torch.ones(1)}, RuntimeError, "size mismatch for levels.1.layers.0.weight"),
        ({steps: torch.tensor(-1)}, ValueError, "^load_state_dict: steps must be at least 0, got -1"),
        (
            {steps: torch.tensor(torch.nan)},
            TypeError,
            "^load_state_dict: steps must be an int64 number, got torch.float",
        ),
        ({steps: None}, TypeError, "^load_state_dict: steps must be a torch.Tensor"),
        ({steps: torch.tensor(1, device="meta")}, ValueError, "^load_state_dict: steps must hold data"),
    ):
        with pytest.raises(error, match=message):
            manager.load_state_dict({**good, **change})
        assert same(before, state(manager))
        assert [level.steps for level in manager.levels] == [7, 7]


def test_layers_that_were_moved_alone_are_refused():
    for move in (torch.nn.Module.double, lambda layer: layer.to("meta")):
        manager = learner()
        move(manager.levels[1].layers[0])
        before = {name: value.clone() for name, value in manager.levels[0].state_dict().items()}
        with pytest.raises(
            ValueError, match=r"^step: level 1 must have layers of torch.float32 on cpu, got torch.float"
        ):
            manager.step(DATA[0])
        assert same(before, manager.levels[0].state_dict())


def test_a_file_that_names_large_sizes_is_refused_before_anything_is_made(tmp_path):
    tensors, metadata = learner()._content()
    for change in (
        lambda level: level.update(temporal_resolution=2**45),
        lambda level: level.update(output_size=2**45),
        lambda level: level.update(input_size=2**45),
        lambda level: level["layers"][0].update(input_size=2**45),
        lambda level: level["layers"][0].update(output_size=2**45),
    ):
        forged = json.loads(json.dumps(metadata))
        change(forged["levels"][1])
        io.save(tmp_path / "forged.safetensors", tensors, forged, format="torch_hrr.hierarchy", version=1)
        with pytest.raises(
            torch_hrr.IntegrityError, match=r"must describe a HierarchyManager, got levels\.1\..* of \["
        ):
            torch_hrr.load(tmp_path / "forged.safetensors")


def test_what_learns_nothing_takes_nan():
    for manager, learn in ((learner(), False), (learner(ReactiveLayer), True)):
        outputs = manager.process_hierarchy(torch.full_like(DATA, torch.nan), learn=learn)
        assert bool(outputs[0].isnan().all()) and manager.levels[0].layers[0].weight.isfinite().all()


def test_a_copy_shares_nothing():
    manager = learner()
    manager.process_hierarchy(DATA)
    before = state(manager)
    copy.copy(manager).process_hierarchy(DATA)
    assert same(before, state(manager))
    assert [level.steps for level in manager.levels] == [7, 7]


@pytest.mark.parametrize("layer", (HebbianCore, ReactiveLayer, SoftHebb))
@pytest.mark.parametrize("learn", (True, False))
def test_autocast_changes_nothing(layer, learn):
    manager, other = learner(layer), learner(layer)
    expected = [*manager.process_hierarchy(DATA, learn=learn), *manager.process_batch(DATA[None], learn=learn)]
    with torch.autocast("cpu"):
        found = [*other.process_hierarchy(DATA, learn=learn), *other.process_batch(DATA[None], learn=learn)]
    assert all(torch.equal(one, two) and one.dtype == two.dtype for one, two in zip(expected, found, strict=True))
    assert same(state(manager), state(other))


def test_a_hierarchy_without_learning_is_exported():
    class Still(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.manager = learner(lambda n, m, seed: HebbianCore(n, m, rule="bcm", seed=seed))

        def forward(self, samples):
            return self.manager.process_batch(samples, learn=False)

    still = Still()
    found = torch.export.export(still, (DATA[None],), strict=False).module()(DATA[None])
    assert all(torch.equal(one, two) for one, two in zip(found, still(DATA[None]), strict=True))


def test_torchs_default_device_may_be_meta(tmp_path):
    manager = learner()
    manager.save(tmp_path / "h.safetensors")
    with torch.device("meta"):
        made, loaded = learner(), torch_hrr.load(tmp_path / "h.safetensors")
        kept = made.state_dict()["levels.0._extra_state"]
    assert not kept.is_meta
    expected = manager.process_hierarchy(DATA)
    for other in (made, loaded):
        assert all(torch.equal(one, two) for one, two in zip(expected, other.process_hierarchy(DATA), strict=True))


def test_all_bits_of_a_seed_count():
    drawn = [HebbianCore(2, 2, seed=seed).weight for seed in (1, 1 + 2**32, 1 - 2**63, 1 + 2**64)]
    assert [torch.equal(drawn[0], other) for other in drawn] == [True, False, False, True]
    one_two, two_one = (HebbianCore(2, 2, seed=low + 2**32 * high).weight for low, high in ((1, 2), (2, 1)))
    assert not torch.equal(one_two, two_one)


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


def test_what_inference_mode_made_goes_on_outside(tmp_path):
    learner().save(tmp_path / "h.safetensors")
    with torch.inference_mode():
        made = learner()
        monitor = Monitor(made)
        copied, loaded = copy.deepcopy(made), torch_hrr.load(tmp_path / "h.safetensors")
        moved, used = learner().double().float(), learner()
        used.process_hierarchy(DATA)
    for manager in (made, copied, loaded, moved, used):
        other = learner()
        if manager is used:
            other.process_hierarchy(DATA)
        for each in (manager, other):
            each.process_hierarchy(DATA)
            each.process_batch(DATA.unsqueeze(0))
            each.levels[0].layers[0].process(DATA, True)
        assert same(state(manager), state(other))
        manager.reset_state()
    assert monitor.records(0).shape == (7, 4)


def test_a_monitor_leaves_out_later_levels_and_its_copy_watches_the_copy():
    manager = learner()
    monitor = Monitor(manager, 3)
    manager.register_level_hook(lambda level, outputs: None)
    third = HierarchicalLevel(2, 4, 3)
    third.add_layer(ReactiveLayer(4, 3))
    manager.add_level(third)
    manager.process_hierarchy(DATA)
    assert monitor.to_dict()["level"] == [0, 0, 0, 1, 1, 1]
    copied, before = copy.deepcopy(monitor), monitor.to_dict()
    copied.manager.process_hierarchy(DATA)
    assert copied.to_dict()["step"] == [11, 12, 13] * 2 and monitor.to_dict() == before
    copied.close()
    again = copy.deepcopy(copied)
    again.manager.process_hierarchy(DATA)
    assert again.to_dict() == copied.to_dict()


def test_a_monitor_tells_whole_calls_beside_threads():
    manager = learner()
    monitor, ended = Monitor(manager), threading.Event()

    def work():
        while not ended.is_set():
            manager.step(DATA[0])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(100):
            levels = monitor.to_dict()["level"]
            assert levels.count(0) == levels.count(1)
    finally:
        ended.set()
        thread.join()
