"""Levels, their time scales and what a hierarchy promises; SoftHebb, BitLinear and expected free energy."""

import copy
import io
import itertools
import math
import pathlib
import time
import warnings

import pytest
import torch

import torch_hrr
from torch_hrr.hierarchy import (
    BitLinear,
    HebbianCore,
    HierarchicalLevel,
    HierarchyManager,
    Monitor,
    ReactiveLayer,
    SoftHebb,
    expected_free_energy,
)

POOLS = ("last", "mean", "max")
WINDOW = {"last": lambda w: w[-1], "mean": lambda w: w.mean(0), "max": lambda w: w.amax(0)}


def hierarchy(pool="mean", reactive=False, resolutions=(1, 3)):
    """Two levels; without a reactive layer every number comes from layers that learn."""
    manager = HierarchyManager()
    sizes = (6, 9, 5)
    for i, resolution in enumerate(resolutions):
        level = HierarchicalLevel(i, sizes[i], sizes[i + 1], resolution, pool)
        if reactive:
            level.add_layer(ReactiveLayer(sizes[i], sizes[i], seed=0))
        level.add_layer(HebbianCore(sizes[i], sizes[i + 1], rule=("oja", "bcm")[i], lr=5e-3, seed=i))
        manager.add_level(level)
    return manager


def data(steps=37, seed=0):
    return torch.randn(steps, 6, generator=torch.Generator().manual_seed(seed))


def state(manager):
    return {name: value.clone() for name, value in manager.state_dict().items()}


def same_state(manager, before):
    now = manager.state_dict()
    return now.keys() == before.keys() and all(torch.equal(now[name], before[name]) for name in before)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("resolution", (1, 2, 5))
def test_a_level_is_its_definition(pool, resolution):
    level = HierarchicalLevel(0, 6, 4, resolution, pool)
    level.add_layer(HebbianCore(6, 4, lr=0.01))
    core, held, expected, last = copy.deepcopy(level.layers[0]), torch.zeros(4), [], -1
    for step, _ in enumerate(data()):
        if step % resolution == 0:
            window, last = data()[last + 1 : step + 1], step
            held = core.process(WINDOW[pool](window).unsqueeze(0), True)[0]
        expected.append(held)
    torch.testing.assert_close(level.process(data()), torch.stack(expected), rtol=0, atol=1e-6)
    torch.testing.assert_close(level.layers[0].weight, core.weight, rtol=0, atol=1e-6)


@pytest.mark.parametrize("pool", POOLS)
def test_a_step_costs_nothing_of_the_steps_to_come(pool):
    level = HierarchicalLevel(0, 1, 100, 2**20, pool)
    level.add_layer(ReactiveLayer(1, 100))
    start = time.perf_counter()
    for _ in range(3):
        assert level.step(torch.ones(1)).untyped_storage().nbytes() == 400
    assert time.perf_counter() - start < 2


def test_steps_of_one_tick_are_memory_of_their_own():
    manager = hierarchy(resolutions=(1, 4))
    for outputs in (*manager.process_hierarchy(data(3)), *manager.process_batch(data(3)[None])):
        expected = outputs.clone()
        outputs[..., 0, :] = 5.0
        assert torch.equal(outputs[..., 1:, :], expected[..., 1:, :])
        outputs.zero_()
    assert manager.levels[1].held.any()


def test_an_alternating_input_is_aliased_by_last_and_not_by_mean():
    signs = torch.tensor([1.0, -1.0]).repeat(5).unsqueeze(1)
    seen = {}
    for pool in POOLS:
        level = HierarchicalLevel(0, 1, 1, 2, pool)
        layer = ReactiveLayer(1, 1, activation="linear")
        layer.weight.fill_(1.0)
        level.add_layer(layer)
        seen[pool] = level.process(signs)[2:].unique().tolist()
    assert seen == {"last": [1.0], "mean": [0.0], "max": [1.0]}


@pytest.mark.parametrize("reactive", (False, True))
@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("learn", (True, False))
def test_steps_and_parts_are_one_call(pool, reactive, learn):
    whole, steps, parts = (hierarchy(pool, reactive, (2, 3)) for _ in range(3))
    expected = whole.process_hierarchy(data(), learn=learn)
    online = [torch.stack(rows) for rows in zip(*(steps.step(row, learn=learn) for row in data()), strict=True)]
    sizes = ((0, 1), (1, 4), (5, 0), (5, 2), (7, 30))
    divided = [parts.process_hierarchy(data()[begin:], count, learn) for begin, count in sizes]
    divided = [torch.cat(rows) for rows in zip(*divided, strict=True)]
    bound = 0 if learn and not reactive else 1e-6
    for own, other, third in zip(expected, online, divided, strict=True):
        torch.testing.assert_close(own, other, rtol=0, atol=bound)
        torch.testing.assert_close(own, third, rtol=0, atol=bound)
    if bound == 0:
        assert same_state(steps, state(whole)) and same_state(parts, state(whole))


def test_without_learning_nothing_but_time_changes_and_gradients_flow():
    manager = hierarchy()
    before = {name: value for name, value in state(manager).items() if "layers" in name}
    inputs = data().requires_grad_()
    first = manager.process_hierarchy(inputs, learn=False)
    assert all(torch.equal(manager.state_dict()[name], value) for name, value in before.items())
    (gradient,) = torch.autograd.grad(first[1].sum(), inputs)
    assert gradient.norm() > 0
    manager.reset_state()
    second = manager.process_hierarchy(data(), learn=False)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("pool", POOLS)
def test_a_hierarchy_is_a_module_that_changes_nothing(pool):
    manager = hierarchy(pool)
    manager.process_hierarchy(data(5))
    before, samples = state(manager), torch.stack([data(7), data(7, seed=1)])
    expected = manager.process_batch(samples, learn=False)
    for own, other, alone in zip(manager(samples), expected, manager(samples[1]), strict=True):
        assert torch.equal(own, other)
        torch.testing.assert_close(own[1], alone)
    assert torch.equal(manager.levels[0](samples[None])[0], expected[0])
    assert manager(samples[:, :0])[1].shape == (2, 0, 5)
    exported = torch.export.export(manager, (samples[0],)).module()
    assert all(torch.equal(a, b) for a, b in zip(exported(samples[1]), manager(samples[1]), strict=True))
    assert same_state(manager, before)


@pytest.mark.parametrize("pool", POOLS)
def test_levels_are_scripted_without_learning(pool, tmp_path):
    manager = hierarchy(pool, True, (2, 3))
    manager.levels[1] = HierarchicalLevel(1, 9, 5, 3, pool)
    manager.levels[1].add_layer(SoftHebb(9, 5))
    before = state(manager)
    torch.jit.script(manager).save(tmp_path / "manager")
    scripted = torch.jit.load(tmp_path / "manager")
    for shape in ((7, 6), (1, 6), (4, 7, 6), (2, 0, 7, 6), (3, 0, 6)):
        x = torch.randn(shape, requires_grad=True)
        results = scripted(x), manager(x)
        assert all(map(torch.equal, *results)) and len(results[0]) == 2
        gradients = [torch.autograd.grad(result[1].square().sum(), x)[0] for result in results]
        assert torch.equal(*gradients)
    manager.process_hierarchy(data())
    level = torch.jit.script(manager.levels[1])
    assert torch.equal(level(torch.ones(3, 4, 9)), manager.levels[1](torch.ones(3, 4, 9)))
    with pytest.raises(
        torch.jit.Error, match=r"HierarchicalLevel: inputs must have shape \[\.\.\., T, 9\], got \[3, 4\]"
    ):
        level(torch.ones(3, 4))
    assert before.keys() == state(manager).keys()


def test_learning_between_a_pass_and_its_gradient_leaves_the_gradient():
    manager, x = hierarchy(), data().requires_grad_()
    manager.levels[0].add_layer(SoftHebb(9, 9))
    (expected,) = torch.autograd.grad(manager(x)[1].square().sum(), x)
    outputs = manager(x)[1]
    manager.process_hierarchy(data(seed=1))
    (gradient,) = torch.autograd.grad(outputs.square().sum(), x)
    assert torch.equal(gradient, expected)


def test_a_file_goes_on_in_the_middle_of_a_window(tmp_path):
    manager = hierarchy(resolutions=(2, 4))
    manager.process_hierarchy(data(7))
    manager.save(tmp_path / "h.safetensors")
    loaded = torch_hrr.load(tmp_path / "h.safetensors")
    twin = hierarchy(resolutions=(2, 4))
    twin.load_state_dict(manager.state_dict())
    buffer = io.BytesIO()
    torch.save(manager.state_dict(), buffer)
    copied, expected = copy.deepcopy(manager), manager.process_hierarchy(data(9, seed=1))
    for other in (loaded, twin, copied):
        again = other.process_hierarchy(data(9, seed=1))
        assert all(torch.equal(a, b) for a, b in zip(again, expected, strict=True))
        assert same_state(other, state(manager))


def test_a_batch_learns_the_mean_and_leaves_time_alone():
    manager, one = hierarchy(), hierarchy()
    samples = torch.stack([data(12, seed) for seed in range(4)])
    shapes = [tuple(r.shape) for r in manager.process_batch(samples)]
    assert shapes == [(4, 12, 9), (4, 12, 5)]
    assert manager.levels[0].steps == 0 and not manager.levels[0].held.any()
    assert not torch.equal(manager.levels[0].layers[0].weight, one.levels[0].layers[0].weight)
    same = hierarchy().process_batch(data(12).expand(3, 12, 6))
    for rows, alone in zip(same, one.process_hierarchy(data(12)), strict=True):
        torch.testing.assert_close(rows[1], alone, rtol=0, atol=1e-5)


def test_a_monitor_keeps_the_last_steps():
    manager = hierarchy()
    monitor = Monitor(manager, capacity=10)
    outputs = torch.cat([manager.process_hierarchy(part)[1] for part in data(24).split([5, 1, 18])])
    records = monitor.records(1)
    torch.testing.assert_close(records[:, 0], outputs.mean(1)[-10:])
    torch.testing.assert_close(records[:, 1], outputs.square().mean(1).sqrt()[-10:])
    torch.testing.assert_close(records[:, 2], (outputs > 0).float().mean(1)[-10:])
    torch.testing.assert_close(records[:, 3], outputs.diff(dim=0).square().mean(1).sqrt()[-10:])
    columns = monitor.to_dict()
    assert columns["step"] == 2 * list(range(14, 24)) and columns["level"] == [0] * 10 + [1] * 10
    monitor.close()
    manager.process_hierarchy(data(5))
    assert torch.equal(monitor.records(1), records)
    with pytest.raises(IndexError, match=r"^records: level must be in 0\.\.1, got 2"):
        monitor.records(2)


def test_a_monitor_keeps_one_step_of_several():
    manager = hierarchy()
    with Monitor(manager) as every, Monitor(manager, capacity=4, every=3) as some:
        for part in data(24).split([5, 1, 18]):
            manager.process_hierarchy(part)
    assert torch.equal(some.records(1), every.records(1)[2::3][-4:]) and some.to_dict()["step"][:4] == [14, 17, 20, 23]
    assert torch.equal(some[0, "rms"], some.records(0)[:, 1]) and some.numpy()[1, "change"].shape == (4,)
    assert list(some.data()) == [(level, name) for level in (0, 1) for name in ("mean", "rms", "active", "change")]
    manager.process_hierarchy(data(3))
    assert some.attach()[0, "rms"].equal(every[0, "rms"][2::3][-4:]), "detached after the with statement"
    some.clear()
    manager.process_hierarchy(data(7))
    assert some.to_dict()["step"] == [2, 5] * 2
    with pytest.raises(KeyError, match="a series must be one of"):
        some[2, "rms"]


def test_a_monitor_follows_its_hierarchy_and_holds_squares_of_half_types():
    manager = hierarchy(reactive=True)
    monitor = Monitor(manager, capacity=10)
    manager.process_hierarchy(data(3))
    for layer in (layer for level in manager.levels for layer in level.layers):
        layer.activation = "linear"
    manager.double()
    manager.process_hierarchy(data(4).double(), learn=False)
    assert monitor.records(0).dtype == torch.float64 and len(monitor.records(0)) == 7
    manager.half()
    manager.process_hierarchy(3000 * data(4), learn=False)
    assert monitor.records(0).dtype == torch.float32
    assert monitor.records(0).isfinite().all() and monitor.records(0)[-1, 1] > 300


def refusals():
    empty, filled = HierarchyManager(), hierarchy()
    no_layers = HierarchyManager()
    no_layers.add_level(HierarchicalLevel(7, 3, 3))
    short = HierarchicalLevel(3, 6, 9)
    short.add_layer(ReactiveLayer(6, 8))
    open_end = HierarchyManager()
    late = HierarchicalLevel(0, 6, 9)
    open_end.add_level(late)
    late.add_layer(ReactiveLayer(6, 8))
    double = HierarchicalLevel(0, 6, 9)
    double.add_layer(ReactiveLayer(6, 6))
    core, soft = HebbianCore(6, 4, rule="bcm", lr=1e-3), SoftHebb(6, 4)
    core.theta[0] = 0
    altered = HebbianCore(6, 4, dtype=torch.float64, lr=1e39).float()
    gelu = ReactiveLayer(6, 4)
    gelu.activation = "gelu"
    sums, window, width = hierarchy(), hierarchy(), hierarchy()
    sums.levels[1].pool, window.levels[1].temporal_resolution, width.levels[0].input_size = "sum", 2, 7
    bad = hierarchy()
    bad.levels[1].layers[0].theta[2] = torch.nan
    return [
        (lambda: empty.process_hierarchy(data()), ValueError, "process_hierarchy: .* none: call add_level"),
        (lambda: no_layers.process_hierarchy(data()), ValueError, "process_hierarchy: level 7 .* none: call add_layer"),
        (lambda: filled.add_level(HierarchicalLevel(2, 6, 4)), ValueError, "add_level: level must have input_size 5"),
        (
            lambda: empty.add_level(short),
            ValueError,
            "add_level: level 3 must end with a layer of output_size 9, got 8",
        ),
        (lambda: open_end.step(data()[0]), ValueError, "step: level 0 must end with a layer"),
        (lambda: short.add_layer(ReactiveLayer(6, 9)), ValueError, "add_layer: layer must have input_size 8, got 6"),
        (lambda: double.add_layer(HebbianCore(6, 9, dtype=torch.float64)), ValueError, "add_layer: layer must be of"),
        (lambda: filled.process_hierarchy(data()[:, :5]), ValueError, r"data must have shape \[T, 6\], got \[37, 5\]"),
        (lambda: filled.process_hierarchy(data(), 38), ValueError, "steps must be at most 37, the length of data"),
        (lambda: filled.process_hierarchy(data(), -1), ValueError, "steps must be at least 0, got -1"),
        (lambda: filled.process_hierarchy("x"), TypeError, "process_hierarchy: data must be"),
        (lambda: filled.process_batch(data()), ValueError, r"process_batch: samples must have shape \[B, T, 6\]"),
        (lambda: filled.process_batch(torch.zeros(0, 3, 6)), ValueError, "samples must be at least one, got"),
        (lambda: filled.step(data()), ValueError, r"step: x must have shape \[6\], got \[37, 6\]"),
        (lambda: bad.process_hierarchy(data()), ValueError, "process_hierarchy: theta must be finite and above 0, got"),
        (lambda: sums.process_hierarchy(data()), ValueError, "hierarchy: pool of level 1 must be 'last', 'mean' or"),
        (lambda: window.step(data()[0]), ValueError, "step: temporal_.* of level 1 must stay 3 and 9, got 2 and 9"),
        (lambda: window(data()), ValueError, "HierarchyManager: temporal_resolution and .* must stay 3 and 9, got 2"),
        (lambda: width.step(data()[0]), ValueError, "step: temporal_.* of level 0 must stay 1 and 6, got 1 and 7"),
        (lambda: Monitor(empty), ValueError, "Monitor: manager must have levels, got none"),
        (lambda: HebbianCore(6, 9, lr=1e39), ValueError, r"HebbianCore: lr must be finite in float32, got 1e\+39"),
        (lambda: HebbianCore(6, 9, decay=1e39), ValueError, "HebbianCore: decay must be finite in float32"),
        (lambda: SoftHebb(6, 9, lr=1e39), ValueError, "SoftHebb: lr must be finite in float32"),
        (lambda: SoftHebb(6, 9, temperature=1e-60), ValueError, "SoftHebb: temperature must be above 0 in float32"),
        (lambda: SoftHebb(6, 9, losers=-1e39), ValueError, "SoftHebb: losers must be finite in float32, got -1e"),
        (lambda: SoftHebb(6, 9, power=-1.0), ValueError, "SoftHebb: power must be"),
        (lambda: HebbianCore(6, 9, "softhebb"), ValueError, "HebbianCore: rule must be 'hebb', 'oja', .*, got"),
        (lambda: altered.process(data(), True), ValueError, "process: lr must be finite in float32"),
        (lambda: gelu.process(data()), ValueError, "process: activation must be 'linear', 'relu' or 'tanh', got"),
        (lambda: core.process(data(), True), ValueError, "process: theta must be finite and above 0, got 0"),
        (lambda: core(data()[:, 1:]), ValueError, r"HebbianCore: x must have shape \[\.\.\., 6\], got \[37, 5\]"),
        (lambda: core(data().double()), TypeError, "HebbianCore: x must be torch.float32 as the weights, got torch.fl"),
        (lambda: soft(data().to("meta")), RuntimeError, "SoftHebb: x must be on cpu as the weights, got meta"),
        (lambda: ReactiveLayer(6, 4)([1.0]), TypeError, "ReactiveLayer: x must be a torch.Tensor or a NumPy"),
        (lambda: BitLinear(6, 4)(torch.ones(())), ValueError, r"BitLinear: x must have shape \[\.\.\., 6\], got \[\]"),
        (lambda: filled(data()[0]), ValueError, r"HierarchyManager: data must have shape \[\.\.\., T, 6\], got \[6\]"),
        (lambda: filled.levels[1](data()), ValueError, r"HierarchicalLevel: inputs must have shape \[\.\.\., T, 9\]"),
        (lambda: BitLinear(2**40, 2**40), ValueError, "BitLinear: the weights must have fewer than 2"),
        (lambda: SoftHebb(2**62, 2), ValueError, "SoftHebb: the weights must have fewer than 2"),
        (lambda: HierarchicalLevel(0, 2, 2, 2**62), ValueError, "HierarchicalLevel: the window of a tick must have"),
        (lambda: HierarchicalLevel(0, 2, 2**62), ValueError, "HierarchicalLevel: the output must have fewer than 2"),
        (lambda: Monitor(filled, 2**62), ValueError, "Monitor: a ring must have fewer than 2"),
        (lambda: double.add_layer(double.layers[0]), ValueError, "add_layer: layer must be new to the level, got one"),
        (lambda: filled.add_level(filled.levels[0]), ValueError, "add_level: level must be new to the hierarchy, got"),
        (lambda: filled.step(data()[0, :5]), ValueError, r"step: x must have shape \[6\], got \[5\]"),
        (lambda: filled.register_level_hook(5), TypeError, "register_level_hook: hook must be callable, got int"),
    ]


@pytest.mark.parametrize(("call", "error", "message"), refusals(), ids=itertools.count())
def test_bad_calls_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_refused_call_changes_nothing():
    manager = hierarchy()
    manager.process_hierarchy(data(5))
    manager.levels[1].layers[0].theta[0] = -1
    before = state(manager)
    for call in (lambda: manager.process_hierarchy(data()), lambda: manager.process_batch(data()[None])):
        with pytest.raises(ValueError, match="theta"):
            call()
        assert same_state(manager, before)


def test_a_fast_theta_is_warned_of():
    with pytest.warns(RuntimeWarning, match=r"lr \* tau = 2 is not below 1") as warned:
        HebbianCore(3, 2, rule="bcm", lr=0.02, tau=100)
    assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        HebbianCore(3, 2, rule="bcm", lr=0.001)


@pytest.mark.parametrize("center", (True, False))
def test_softhebb_finds_clusters(center):
    generator = torch.Generator().manual_seed(3)
    centers = torch.nn.functional.normalize(torch.randn(3, 20, generator=generator), dim=1)
    labels = torch.randint(3, (1500,), generator=generator)
    samples = centers[labels] + 0.1 * torch.randn(1500, 20, generator=generator)
    layer = SoftHebb(20, 3, lr=0.1, temperature=0.5, seed=1, center=center)
    batches = 3 * samples.reshape(30, 50, 20).repeat(10, 1, 1)
    outputs = layer.process(batches, True)
    torch.testing.assert_close(outputs.sum(-1), torch.ones(300, 50))
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(3), rtol=0, atol=0.01)
    found = 3 * centers - layer.mean
    assert (torch.cosine_similarity(layer.weight[:, None], found[None], dim=-1).max(0).values > 0.99).all()


@pytest.mark.parametrize("options", ({"center": False}, {}, {"losers": -1.0, "scaled": True, "power": 0.5}), ids=str)
@pytest.mark.parametrize("batch", ((), (3,)), ids=str)
def test_softhebb_learns_by_its_rule(options, batch):
    layer = SoftHebb(4, 3, lr=0.1, temperature=0.5, dtype=torch.float64, **options)
    ticks, weight = 1 + torch.randn(6, *batch, 4, dtype=torch.float64), layer.weight.clone()
    outputs, seen = layer.process(ticks, True), []
    for tick, output in zip(ticks, outputs, strict=True):
        seen += tick.reshape(-1, 4)
        mean = torch.stack(seen).mean(0) if layer.center else 0
        x = tick.reshape(-1, 4) - mean
        u = x @ weight.T
        y = torch.softmax(u / 0.5, 1)
        torch.testing.assert_close(output.reshape(y.shape), y)
        s = torch.where(u == u.amax(1, keepdim=True), y, layer.losers * y)
        step = sum(s[b, :, None] * (x[b] - u[b, :, None] * weight) for b in range(len(x))) / len(x)
        step = step / (step.abs().max() + 1e-30) if layer.scaled else step
        rate = 0.1 * (weight.norm(dim=1, keepdim=True) - 1).abs() ** layer.power
        weight = weight + rate * step
    torch.testing.assert_close(layer.weight, weight)
    torch.testing.assert_close(layer.mean, torch.stack(seen).mean(0) if layer.center else torch.zeros_like(layer.mean))
    x = ticks[0] - layer.mean
    torch.testing.assert_close(layer.process(ticks[:1], False)[0], torch.softmax(x @ weight.T / 0.5, -1))


@pytest.mark.parametrize("seed", range(6))
def test_three_positive_blobs_have_a_unit_each(seed):
    """Without their mean one unit would win all."""
    generator = torch.Generator().manual_seed(seed)
    centers = 3 * torch.nn.functional.normalize(torch.rand(3, 20, generator=generator), dim=1)
    labels = torch.randint(3, (900,), generator=generator)
    samples = centers[labels] + 0.1 * torch.randn(900, 20, generator=generator)
    layer = SoftHebb(20, 3, lr=0.05, temperature=0.5, seed=100 + seed)
    layer.process(samples, True)
    winners = layer(centers).argmax(1)
    assert sorted(winners.tolist()) == [0, 1, 2]
    assert torch.equal(layer(samples).argmax(1), winners[labels])


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("options", ({}, {"losers": -1.0, "scaled": True, "power": 0.5}), ids=str)
def test_softhebbs_mean_goes_on_over_calls_and_files(options, dtype, tmp_path):
    def made():
        manager = HierarchyManager()
        manager.add_level(HierarchicalLevel(0, 37, 5))
        manager.levels[0].add_layer(SoftHebb(37, 5, lr=0.05, seed=2, dtype=dtype, **options))
        return manager

    data, whole, parts, steps = 5 + torch.randn(40, 37, dtype=dtype), made(), made(), made()
    expected = whole.process_hierarchy(data)[0]
    found = [parts.process_hierarchy(data[:3])[0], parts.process_hierarchy(data[3:17])[0]]
    parts.save(tmp_path / "soft.safetensors")
    parts = torch_hrr.load(tmp_path / "soft.safetensors")
    found.append(parts.process_hierarchy(data[17:])[0])
    assert torch.equal(torch.cat(found), expected)
    assert torch.equal(torch.stack([steps.step(row)[0] for row in data]), expected)
    assert same_state(whole, state(parts)) and same_state(whole, state(steps))
    # The precision of the sums is theirs, whatever the module's dtype becomes.
    before = whole.levels[0].layers[0].sums.clone()
    assert torch.equal(whole.half().levels[0].layers[0].sums, before)


def test_a_state_of_softhebb_with_other_sums_is_refused():
    layer = SoftHebb(4, 3, seed=1)
    layer.process(torch.randn(5, 4), True)
    held = state(layer)
    numbers = held["sums"].view(torch.float64)
    for wrong in (numbers, *((numbers * by).view(torch.int64) for by in (math.nan, math.inf, -1, 0.5))):
        with pytest.raises(RuntimeError, match="sums must be the bits of float64 as int64, the last of a number"):
            layer.load_state_dict({**held, "sums": wrong})
        assert same_state(layer, held)
    layer.load_state_dict(held)


def test_states_from_before_inputs_were_centered_are_taken():
    layer, older = SoftHebb(4, 3, seed=1), SoftHebb(4, 3, seed=2).state_dict()
    del older["sums"], older["mean"]
    with pytest.raises(RuntimeError, match=r'Missing key.*"mean", "sums"'):
        layer.load_state_dict(dict(older))
    older._metadata[""]["version"] = 1
    layer.process(torch.randn(5, 4), True)
    layer.load_state_dict(older)
    assert torch.equal(layer.weight, older["weight"]) and not layer.mean.any() and not layer.sums.any()
    file = pathlib.Path(__file__).parents[1] / "data" / "3a2477c" / "hierarchy.safetensors"
    loaded = [each for each in torch_hrr.load(file).modules() if isinstance(each, SoftHebb)]
    assert len(loaded) == 1 and not loaded[0].center and not loaded[0].sums.any()


def test_a_linear_readout_of_softhebb_reads_raw_digits():
    """Ridge regression on the outputs; on the pixels themselves it is right for .92."""
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    order = torch.randperm(len(digits.data), generator=torch.Generator().manual_seed(0))
    images, labels = torch.from_numpy(digits.data).float()[order], torch.from_numpy(digits.target)[order]
    classes = torch.nn.functional.one_hot(labels[:1200]).double()

    def accuracy(layer, epochs=5):
        layer.process(images[:1200].repeat(epochs, 1).reshape(-1, 10, 64), True)
        features = torch.nn.functional.pad(layer(images).double(), (0, 1), value=1.0)
        own = features[:1200]
        readout = torch.linalg.solve(own.T @ own + 1e-3 * torch.eye(own.shape[1]).double(), own.T @ classes)
        return float(((features[1200:] @ readout).argmax(1) == labels[1200:]).double().mean())

    assert accuracy(SoftHebb(64, 128, temperature=8.0, seed=1)) >= 0.94
    # Few units are right for that many because of what they have learned, and learn it because of the mean.
    learned = accuracy(SoftHebb(64, 32, temperature=4.0, seed=1))
    assert learned > accuracy(SoftHebb(64, 32, temperature=4.0, seed=1), epochs=0) + 0.08
    assert learned > accuracy(SoftHebb(64, 32, temperature=4.0, seed=1, center=False)) + 0.5


def test_bitlinear_is_ternary_and_its_gradient_goes_straight_through():
    layer = BitLinear(16, 8, seed=2)
    signs, gamma = layer.quantized()
    assert set(signs.unique().tolist()) == {-1, 0, 1}
    torch.testing.assert_close(gamma, layer.weight.abs().mean())
    # Of tiny weights gamma has a floor, below which signs are lost: 1e-5.
    tiny = BitLinear(16, 8, seed=2)
    torch.nn.init.constant_(tiny.weight, 6e-6)
    assert tiny.quantized()[1] == torch.tensor(1e-5) and (tiny.quantized()[0] == 1).all()
    x = torch.randn(5, 16)
    torch.testing.assert_close(layer(x), x @ (gamma * signs.float()).T, rtol=1e-5, atol=1e-6)
    upstream = torch.randn(5, 8)
    (gradient,) = torch.autograd.grad(layer(x), layer.weight, upstream)
    torch.testing.assert_close(gradient, upstream.T @ x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_bitlinear_of_weights_far_above_gamma_is_ternary_to_the_last_bit(dtype):
    layer = BitLinear(16, 16, bias=False, seed=2, dtype=dtype)
    with torch.no_grad():
        layer.weight[0, 0], layer.weight[1, 1] = 20.0, -7.3
    signs, gamma = layer.quantized()
    assert torch.equal(layer(torch.eye(16, dtype=dtype)).T, signs * gamma)


def test_sizes_have_torchs_names_and_those_of_before():
    layer, before = BitLinear(in_features=6, out_features=4, seed=1), BitLinear(input_size=6, output_size=4, seed=1)
    assert torch.equal(layer.weight, before.weight)
    for each in (layer, before, HebbianCore(6, 4)):
        assert (each.in_features, each.out_features, each.input_size, each.output_size) == (6, 4, 6, 4)
    with pytest.raises(TypeError, match=r"multiple values for .*'in_features'"):
        BitLinear(6, 4, input_size=6)


def test_expected_free_energy_is_cross_entropy_with_the_goal():
    """Risk plus the prediction's entropy is -E[ln goal], here also by sampling."""
    mean, std = torch.tensor([[0.3, -1.0], [2.0, 0.1]]).double(), torch.tensor([0.5, 2.0]).double()
    goal = torch.distributions.Normal(torch.tensor([0.0, 1.0]).double(), torch.tensor([1.0, 0.7]).double())
    found = expected_free_energy(mean, std, goal.loc, goal.scale)
    prediction = torch.distributions.Normal(mean, std.expand(2, 2))
    risk = torch.distributions.kl_divergence(prediction, goal)
    torch.testing.assert_close(found, (risk + prediction.entropy()).sum(-1))
    sampled = -goal.log_prob(prediction.sample((400_000,))).mean(0).sum(-1)
    torch.testing.assert_close(found, sampled, rtol=0.02, atol=0)
    certain = expected_free_energy(goal.loc, goal.scale, goal.loc, goal.scale)
    torch.testing.assert_close(certain, (0.5 * math.log(2 * math.pi * math.e) + goal.scale.log()).sum(-1))
    with pytest.raises(ValueError, match="expected_free_energy: goal_std must be above 0, got 0"):
        expected_free_energy(mean, std, mean, torch.zeros(2))
    with pytest.raises(RuntimeError, match="expected_free_energy: std must be on cpu as mean, got meta"):
        expected_free_energy(mean, std.to("meta"), mean, std)
    batched = torch.func.vmap(expected_free_energy, (0, None, None, None))
    torch.testing.assert_close(batched(mean, std, goal.loc, goal.scale), found)
    batched = torch.func.vmap(expected_free_energy, (None, 0, None, 0))
    stds = std.expand(3, 2)
    assert batched(mean, stds, goal.loc, goal.scale.expand(3, 2)).shape == (3, 2)


@pytest.mark.parametrize(
    "make",
    [
        *(lambda name=name: ReactiveLayer(6, 4, name) for name in ("linear", "relu", "tanh")),
        *(lambda rule=rule: HebbianCore(6, 4, rule) for rule in ("gha", "bcm")),
        lambda: SoftHebb(6, 4),
        *(lambda bias=bias: BitLinear(6, 4, bias) for bias in (True, False)),
    ],
    ids=range(8),
)
def test_layers_without_learning_take_arrays_and_are_scripted_and_exported(make, tmp_path):
    layer, x = make(), data()
    expected = layer(x)
    assert torch.equal(layer(x.double().numpy()), expected)
    torch.jit.script(layer).save(tmp_path / "layer.pt")
    assert torch.equal(torch.jit.load(tmp_path / "layer.pt")(x), expected)
    rows = ({0: torch.export.Dim.DYNAMIC},)
    assert torch.equal(torch.export.export(layer, (x[:5],), dynamic_shapes=rows).module()(x), expected)
