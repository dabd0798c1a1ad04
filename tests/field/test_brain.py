"""Field brains: the cycle's parts against their formulas, promises about the device, files, and bad input."""

import copy
import math

import numpy as np
import pytest
import torch
from cases.field_oracle import brain_metrics
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_hrr
from torch_hrr import field
from torch_hrr.field.brain import METRICS

SMALL = {"sensory_dim": 4, "motor_dim": 2, "spatial": (4, 5, 6), "channels": 9}
SENSORY = [0.3, -0.2, 0.5, 0.1]
STATE = {
    *("cycle", "cycle_time_ms", "field_information", "max_activation", "prediction_confidence", "energy"),
    *("sparsity", "device", "prediction_error"),
}
dtypes = pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=("float32", "bfloat16"))


def brain(**settings):
    return field.create_brain(**(SMALL | {"prefer_gpu": False, "seed": 0, "learner": "imprint"} | settings))


def run(own, cycles, reward=0.0):
    return [own.process_robot_cycle([math.sin(i + j) for j in range(4)], reward * (i % 3 - 1)) for i in range(cycles)]


def test_a_cycle_returns_motor_and_state():
    own = field.create_brain(sensory_dim=16, motor_dim=5, spatial=8, prefer_gpu=True, seed=0)
    motor, state = own.process_robot_cycle([0.1] * 16)
    assert len(motor) == 5 and all(-1 <= value <= 1 for value in motor)
    assert set(state) == STATE and state["cycle"] == 1 and state["cycle_time_ms"] > 0
    assert own.process_robot_cycle(torch.zeros(16), reward=0.5)[1]["cycle"] == 2


def test_a_step_has_names():
    own = brain()
    packed = [own.step(torch.tensor(SENSORY) * i).clone() for i in range(3)]
    one, all_of_them = own.named(packed[2]), field.FieldBrain.named(torch.stack(packed))
    assert one._fields == ("motor", *own.METRICS)
    assert torch.equal(torch.cat((one.motor, torch.stack(one[1:]))), packed[2]) and one.motor.shape == (2,)
    assert one.energy.item() == pytest.approx(own.field.square().mean().item())
    assert all_of_them.motor.shape == (3, 2) and torch.equal(all_of_them.sparsity[2], one.sparsity)
    one.motor.zero_()
    assert not packed[2][:2].any()
    for bad, error in ((packed[0][:6], ValueError), (torch.tensor(1.0), ValueError), ([0.0] * 8, TypeError)):
        with pytest.raises(error, match=r"^named: packed must "):
            own.named(bad)


@dtypes
def test_metrics_are_those_of_the_field(dtype):
    own = brain(dtype=dtype)
    _, state = run(own, 7, reward=1.0)[-1]
    for name, value in brain_metrics(own.field).items():
        assert state[name] == pytest.approx(value.item(), rel=1e-5, abs=1e-6), name
    assert state["prediction_confidence"] == pytest.approx(1 / (1 + state["prediction_error"]), rel=1e-6)


def test_prediction_follows_the_sensors():
    own = brain()
    expected = torch.zeros(4)
    for _ in range(5):
        _, state = own.process_robot_cycle(SENSORY)
        error = (torch.tensor(SENSORY) - expected).abs().mean()
        assert state["prediction_error"] == pytest.approx(error.item(), rel=1e-6)
        expected = 0.9 * expected + 0.1 * torch.tensor(SENSORY)
    torch.testing.assert_close(own.prediction, expected)


@pytest.mark.parametrize("reward", (0.0, 1.0, -1.0))
@pytest.mark.parametrize("place", ((0, 0, 0), (2, 2, 3), (3, 4, 5)))
def test_an_imprint_falls_with_the_distance(place, reward):
    """Where the pattern fits best, of intensity (1 + r) / 2; the motor's channels get none."""
    own = brain(noise=0.0, decay=0.0, diffusion=0.0, threshold=1.0)
    content = own.sensory_weights @ torch.tensor(SENSORY)
    own.field.zero_()
    own.field[place] = content
    before = own.field.clone()
    own.process_robot_cycle(SENSORY, reward)
    grids = torch.meshgrid(*(torch.arange(size) for size in SMALL["spatial"]), indexing="ij")
    distance = sum((grid - at).abs() for grid, at in zip(grids, place, strict=True))
    weights = torch.where(distance <= 2, 0.8**distance, 0.0) * (0.5 + 0.5 * reward)
    torch.testing.assert_close(own.field, before + weights.unsqueeze(-1) * content)
    assert not content[-2:].any() and content.norm() == pytest.approx(torch.tensor(SENSORY).norm().item(), rel=1e-5)


def test_of_places_that_are_alike_the_first_is_the_best():
    own = brain(noise=0.0, spatial=5, channels=16)
    generator = torch.Generator().manual_seed(0)
    for _ in range(9):
        own.field.copy_(torch.randn(16, generator=generator).expand_as(own.field))
        own.process_robot_cycle(torch.randn(4, generator=generator))
        assert own.pool["match"].unique().numel() == 1


def test_the_echo_of_the_motor_is_in_the_last_channels():
    own = brain(noise=0.0, decay=0.0, diffusion=0.0, threshold=0.0)
    motor, _ = own.process_robot_cycle(SENSORY)
    echo = own.field[..., -2:] - own._start[..., -2:]
    assert echo.flatten(0, 2).abs().amax(0).tolist() == pytest.approx([0.1 * abs(value) for value in motor], rel=1e-4)
    assert (echo.abs().amax(-1) > 0).sum() <= 25


def test_between_imprints_the_field_evolves():
    own = brain(threshold=1.0)
    start = own.field.clone()
    own.process_robot_cycle([0.0] * 4)
    key = field.random_key(0)
    assert torch.equal(own.field, field.evolve(start, own.decay, own.diffusion, noise=own.noise, key=key))
    assert torch.equal(own.key, field.advance_key(key, start.numel()))


def test_surprise_forgets_and_imprints():
    settings = {"noise": 0.0, "diffusion": 0.0, "threshold": 1.0, "decay": 0.1}
    plain, own = brain(**settings), brain(**settings, modulate=True)
    far = (3, 4, 5)
    surprise = min(sum(map(abs, SENSORY)) / 4, 0.5)
    for each in (plain, own):
        each.field.zero_()
        each.field[0, 0, 0] = each.sensory_weights @ torch.tensor(SENSORY)
        each.field[far] = 0.01
    intensities = []
    for each in (plain, own):
        before = each.field[0, 0, 0].clone()
        each.process_robot_cycle(SENSORY)
        factor = (1 - 0.1) * (1 if each is plain else 1 - 0.1 * surprise)
        torch.testing.assert_close(each.field[far], torch.full((9,), 0.01 * factor))
        intensities.append(((each.field[0, 0, 0] / factor - before).norm() / before.norm()).item())
    assert intensities == pytest.approx([0.5, 0.5 * (1 + surprise)], rel=1e-4)


def test_a_rewarded_motor_is_found_again():
    own = brain(threshold=0.0, noise=0.0)
    motor, _ = own.process_robot_cycle(SENSORY)
    own.process_robot_cycle([0.0] * 4, reward=1.0)
    pattern, similarity = own.library.find_best_pattern(torch.tensor(SENSORY))
    assert len(own.library) == 1 and similarity == pytest.approx(1, rel=1e-6)
    assert pattern.tolist() == pytest.approx(motor, rel=1e-6)
    own.process_robot_cycle([0.0] * 4, reward=-1.0)
    assert len(own.library) == 1


def test_weak_motors_stand_still():
    """Strong ones of either sign do not."""
    everything, strong = (
        torch.tensor([brain(threshold=threshold, seed=seed).process_robot_cycle(SENSORY)[0] for seed in range(8)])
        for threshold in (0.0, 0.3)
    )
    assert torch.equal(strong, torch.where(everything.abs() < 0.3, 0.0, everything))
    assert (strong < 0).any() and (strong > 0).any() and (everything != strong).any()


@dtypes
def test_the_same_seed_is_the_same_brain(dtype):
    first, again, other = (run(brain(dtype=dtype, seed=seed), 5, 1.0) for seed in (7, 7, 8))
    motors = [[motor for motor, _ in cycles] for cycles in (first, again, other)]
    assert motors[0] == motors[1] != motors[2]


@dtypes
@pytest.mark.parametrize("cycles", (0, 3, 4))
def test_what_is_loaded_goes_on_bit_by_bit(tmp_path, dtype, cycles):
    own = brain(dtype=dtype, modulate=True, seed=5)
    run(own, cycles, 1.0)
    own.save(tmp_path / "brain", key=b"secret")
    again = field.FieldBrain.load(tmp_path / "brain", key=b"secret", device="cpu")
    assert again.cycle == cycles and again.seed == own.seed == 5 and repr(again) == repr(own)
    for ours, theirs in zip(run(own, 4, 1.0), run(again, 4, 1.0), strict=True):
        assert ours[0] == theirs[0]
    assert torch.equal(own.field, again.field) and torch.equal(own.key, again.key)


def test_a_file_of_before_has_the_seed_of_its_noise(tmp_path):
    own = brain(seed=-3)
    tensors, settings = own._content()
    del settings["seed"]
    torch_hrr.io.save(tmp_path / "old", tensors, settings, format=own.file_format, version=1)
    state = torch.get_rng_state()
    assert field.FieldBrain.load(tmp_path / "old").seed == -3 and torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([0.1] * 3,), ValueError, "sensory must have 4 values"),
        (([0.1, 0.2, math.nan, 0.1],), ValueError, "a value of sensory must be a finite number, got nan"),
        ((torch.tensor([0.1, 0.2, math.inf, 0.1]),), ValueError, "must be finite and at most 1e\\+06"),
        (([0.1, 0.2, 1e300, 0.1],), ValueError, "must be finite and at most 1e\\+06"),
        ((["a"] * 4,), TypeError, "a value of sensory must be a number, got str"),
        (("1234",), TypeError, "sensory must be numbers, got str"),
        ((SENSORY, -2e6), ValueError, "must be finite and at most 1e\\+06"),
        ((3.0,), TypeError, "sensory must be numbers, got float"),
        ((torch.ones(4, 1),), ValueError, "sensory must have 4 values"),
        ((SENSORY, math.nan), ValueError, "reward must be a finite number"),
        ((SENSORY, "1"), TypeError, "reward must be a number"),
        ((SENSORY, np.ones(2)), TypeError, "reward must be a number, got ndarray"),
        ((np.array(["a"] * 4),), TypeError, "a value of sensory must be a number, got str"),
        ((set(SENSORY),), TypeError, "sensory must be numbers, got set"),
        ((torch.ones(4, device="meta"),), ValueError, "sensory must hold data, got a meta tensor"),
    ],
    ids=range(15),
)
def test_bad_input_leaves_the_brain_unchanged(arguments, error, text):
    own = brain()
    run(own, 3)
    before = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    with pytest.raises(error, match=text):
        own.process_robot_cycle(*arguments)
    assert own.cycle == 3 and all(torch.equal(tensor, before[name]) for name, tensor in own.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"channels": 5}, ValueError, "channels must be at least 6"),
        ({"channels": 2**70}, ValueError, r"channels must be below 2\^63"),
        ({"spatial": (3, 4)}, ValueError, "spatial must be an int or depth, height and width"),
        ({"spatial": "333"}, TypeError, "spatial must be an int or depth, height and width"),
        ({"spatial": 0}, ValueError, "spatial must be at least 1"),
        ({"spatial": 2**70}, ValueError, r"spatial must be below 2\^63"),
        ({"spatial": 2**30}, ValueError, r"the field must have fewer than 2\^59 elements"),
        ({"prefer_gpu": 1}, TypeError, "prefer_gpu must be a bool"),
        ({"speed": 1}, TypeError, r"settings must be arguments of FieldBrain\(learner='imprint'\) or prefer_gpu, got"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, text):
    with pytest.raises(error, match=f"^create_brain: {text}"):
        brain(**settings)


def test_a_step_runs_on_meta_and_without_memory():
    with FakeTensorMode():
        assert brain().step(torch.zeros(4)).shape == (2 + len(METRICS),)
    own = brain(device="meta")
    assert own.step(torch.zeros(4, device="meta"), torch.zeros(1, device="meta")).shape == (2 + len(METRICS),)
    assert own.copy().to_empty(device="cpu").device.type == "cpu"


def test_a_step_compiles_to_one_graph():
    own, compiled = brain(), brain()
    step = torch.compile(compiled.step, fullgraph=True, backend="aot_eager")
    for i in range(4):
        sensory, reward = torch.tensor(SENSORY) * i, torch.tensor([0.1 * i])
        torch.testing.assert_close(step(sensory, reward), own.step(sensory, reward))
    torch.testing.assert_close(compiled.field, own.field)


@pytest.mark.parametrize(
    ("strict", "cycles", "decomposed"), [(False, 0, False), (False, 3, True), (True, 3, False), (True, 0, True)]
)
def test_an_exported_program_goes_on_as_the_brain_does(strict, cycles, decomposed):
    own = brain(seed=1, modulate=True)
    run(own, cycles, 1.0)
    steps = [(torch.tensor(SENSORY) * i, torch.tensor([0.3 * i])) for i in range(1, 6)]
    exported = torch.export.export(own.copy(), steps[0], strict=strict)
    program = (exported.run_decompositions() if decomposed else exported).module()
    for arguments in steps:
        torch.testing.assert_close(program(*arguments), own.step(*arguments))


def test_many_sensors_have_orthonormal_weights():
    own, other = (brain(sensory_dim=1100, channels=1150, spatial=2, seed=seed) for seed in range(2))
    columns = own.sensory_weights.double()
    assert (columns.mT @ columns - torch.eye(1100, dtype=torch.float64)).abs().max() < 1e-5
    assert (columns[:-2].abs().amax() < 5 * (2 / 1148) ** 0.5) and not columns[-2:].any()
    assert not torch.equal(own.sensory_weights, other.sensory_weights)


def test_a_brain_that_does_not_fit_is_refused_before_it_is_drawn():
    text = r"sensory_dim, spatial, channels and patterns must take at most .* got 27648, \(80, 80, 80\), 27653 and 256"
    with pytest.raises(RuntimeError, match=rf"^FieldBrain: {text}, which take 161\.. GiB$"):
        field.FieldBrain(27648, 5, 80, 27653)


@pytest.mark.parametrize("modulate", (False, True))
def test_a_step_waits_for_nothing_and_allocates_nothing_that_grows(modulate):
    found = field.OptimizationChecker.verify_optimizations(brain(spatial=16, channels=32, modulate=modulate))
    assert found["syncs"] == found["transfers"] == 0 and found["optimized"] and found["fused"]
    assert found["largest_allocation"] <= 2**14 < found["field_bytes"]
    larger = field.OptimizationChecker.verify_optimizations(brain(spatial=20, channels=32, modulate=modulate))
    assert larger["allocated_bytes"] == found["allocated_bytes"]
    slow = brain()
    slow.eager = True
    assert not field.OptimizationChecker.verify_optimizations(slow)["optimized"]


def test_the_checker_counts_what_is_there():
    """A step that waits, or that makes a field, is found out."""

    class Waiting(field.FieldBrain):
        def step(self, sensory, reward=0.0):
            float(sensory.sum())
            self.field.clone()
            return super().step(sensory, reward)

    found = field.OptimizationChecker.verify_optimizations(Waiting(**SMALL, device="cpu"))
    assert found["syncs"] >= 1 and found["largest_allocation"] >= found["field_bytes"]
    with pytest.raises(TypeError, match="brain must be a FieldBrain, got dict"):
        field.OptimizationChecker.verify_optimizations({})


def test_plain_torch_gives_the_same_cycle():
    own, eager = brain(noise=0.0), brain(noise=0.0)
    eager.eager = True
    for ours, theirs in zip(run(own, 6, 1.0), run(eager, 6, 1.0), strict=True):
        assert ours[0] == pytest.approx(theirs[0], abs=1e-5)


def test_copies_and_reset():
    own = brain()
    run(own, 3)
    other = own.copy()
    assert run(other, 2)[-1][0] == run(own, 2)[-1][0] and torch.equal(other.field, own.field)
    own.reset()
    assert torch.equal(own.field, brain().field) and not own.prediction.any()
    with torch.inference_mode():
        other = own.copy()
    assert run(other, 2) and run(own, 2) and torch.equal(other.field, own.field)


@pytest.mark.parametrize("cycles", (2, 3))
def test_a_state_dict_holds_the_field(cycles):
    own, other = brain(), brain()
    run(own, cycles)
    run(other, 1)
    other.load_state_dict(own.state_dict())
    assert torch.equal(other.field, own.field)
    assert [motor for motor, _ in run(other, 2)] == [motor for motor, _ in run(own, 2)]


def test_a_state_without_a_field_leaves_the_one_there_is():
    own = brain()
    run(own, 1)
    before = own.field.clone()
    own.load_state_dict({"prediction": torch.zeros(4)}, strict=False)
    assert torch.equal(own.field, before) and not own.prediction.any()
    with pytest.raises(RuntimeError, match="size mismatch"):
        own.load_state_dict(brain(spatial=3).state_dict())
    assert torch.equal(own.field, before)


def test_the_largest_values_do_not_break_it():
    own = brain(noise=0.0)
    for i in range(300):
        motor, state = own.process_robot_cycle([1e6] * 4, reward=1e6 * (-1) ** (i // 100))
    assert all(math.isfinite(value) for value in (*motor, state["energy"], state["field_information"]))


def test_half_modules_keep_their_dtypes():
    own = brain().half()
    assert own.field.dtype == own.prediction.dtype == torch.float32 and own._sizes.dtype == torch.int64


def test_performance_and_a_brain_on_a_gpu():
    found = field.quick_performance_test(cycles=2, spatial=8)
    assert set(found) == {"cycle_ms", "hz", "eager_ms", "speedup", "peak_mb", "device"}
    assert found["hz"] == pytest.approx(1e3 / found["cycle_ms"]) and 0 < found["peak_mb"] < 200
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="force_gpu must be False"):
            field.GPUBrainFactory.create_optimized_brain(force_gpu=True)
    assert field.GPUBrainFactory.create_optimized_brain(**SMALL).motor_dim == 2


def test_the_names_of_the_older_program():
    start = torch.randn(3, 4, 5, 2)
    own = field.BatchedFieldOperations
    assert torch.equal(own.fused_field_evolution(start, 0.1, 0.1), field.evolve(start, 0.1, 0.1))
    assert torch.equal(own.batched_gradient_extraction(start), field.gradient(start))
    with pytest.raises(TypeError, match=r"^fused_field_evolution: field must be a torch\.Tensor"):
        own.fused_field_evolution("field")
    with pytest.raises(TypeError, match=r"^batched_gradient_extraction: field must be a torch\.Tensor"):
        own.batched_gradient_extraction("field")
    assert field.OptimizedUnifiedFieldBrain is field.FieldBrain and field.GPUPatternLibrary is field.PatternLibrary


def test_sensors_may_be_an_array_and_a_reward_one_of_one_number():
    sensory = torch.tensor(SENSORY)
    for reward in (np.array([0.5]), np.array(0.5), np.float32(0.5), torch.tensor([[0.5]])):
        own, other = brain(), brain()
        assert torch.equal(own.step(np.array(SENSORY), reward), other.step(sensory.double(), 0.5))
    assert brain().process_robot_cycle(SENSORY, np.array([0.5]))[0] == brain().process_robot_cycle(SENSORY, 0.5)[0]


def test_a_step_refuses_what_does_not_fit_and_changes_nothing():
    own = brain()
    run(own, 3)
    before = {name: tensor.clone() for name, tensor in own.state_dict().items()}
    sensory = torch.tensor(SENSORY)
    for bad in (sensory.to(torch.complex64), sensory > 0, sensory.long()):
        with pytest.raises(TypeError, match=r"^step: sensory must be float32"):
            own.step(bad)
    with pytest.raises(TypeError, match=r"^step: sensory must be a torch\.Tensor"):
        own.step(SENSORY)
    with pytest.raises(ValueError, match=r"^step: sensory must have shape \[4\], got \[5\]"):
        own.step(torch.ones(5))
    with pytest.raises(TypeError, match="reward must be float32"):
        own.step(sensory, torch.ones(1, dtype=torch.complex64))
    with pytest.raises(ValueError, match="reward must have one element"):
        own.step(sensory, torch.ones(2))
    with pytest.raises(ValueError, match="reward must be on cpu, got meta"):
        own.step(sensory, torch.ones(1, device="meta"))
    with pytest.raises(ValueError, match="sensory must be on cpu, got meta"):
        own.step(sensory.to("meta"))
    for bad in (sensory.to(torch.complex64), sensory > 0):
        with pytest.raises(TypeError, match="sensory must be real"):
            own.process_robot_cycle(bad)
    assert all(torch.equal(tensor, before[name]) for name, tensor in own.state_dict().items())


def test_a_brain_in_eval_mode_stores_no_patterns():
    own, twin = brain(), brain()
    run(own, 6, reward=1.0)
    stored = own.library.stored.clone()
    assert stored > 0
    copied = copy.deepcopy(torch.nn.ModuleList([own]).eval())[0]
    for each in (own, copied):
        run(each, 6, reward=1.0)
        assert torch.equal(each.library.stored, stored)
    run(own.train(), 6, reward=1.0)
    assert own.library.stored > stored
    # A library alone may rest, too; what is stored in it by a call is.
    twin.library.eval()
    run(twin, 6, reward=1.0)
    assert twin.library.stored == 0
    twin.library.store(torch.ones(4), torch.ones(2))
    assert twin.library.stored == 1


def test_a_library_that_is_written_later_is_checked():
    own = brain()
    with pytest.raises(ValueError, match=r"^FieldBrain: library must have dim, pattern_dim = \(4, 2\), got \(3, 2\)"):
        own.library = field.PatternLibrary(5, 3, 2)
    with pytest.raises(TypeError, match=r"^FieldBrain: library must be a PatternLibrary, got NoneType"):
        own.library = None
    own.library = field.PatternLibrary(5, 4, 2)
    assert run(own, 2) and own.library.capacity == 5


@pytest.mark.parametrize("learner", ("imprint", "actor-critic"))
def test_a_cycle_needs_a_brain_with_numbers(learner):
    own = field.FieldBrain(4, 2, 4, 9, learner=learner, device="meta")
    with pytest.raises(ValueError, match=r"^process_robot_cycle: the brain must hold data, got a meta tensor"):
        own.process_robot_cycle(SENSORY)


@pytest.mark.parametrize(
    ("learner", "changes"),
    [
        ("imprint", {"decay": 2.0, "diffusion": 0.5, "noise": -1.0, "boundary": "x", "threshold": None, "gain": "a"}),
        ("actor-critic", {"decay": None, "diffusion": 0.5, "discount": 2, "exploration": math.nan, "discrete": "no"}),
    ],
)
def test_a_setting_that_is_written_later_is_checked(learner, changes):
    settings = {"channels": None, "spatial": 4} if learner == "actor-critic" else {}
    own, other = (brain(learner=learner, **settings) for _ in range(2))
    for name, value in changes.items():
        with pytest.raises((TypeError, ValueError), match=f"^FieldBrain: {name} must be "):
            setattr(own, name, value)
    assert own.state_dict().keys() == other.state_dict().keys() and repr(own) == repr(other)
    assert run(own, 3)[-1][0] == run(other, 3)[-1][0]
    own.decay = np.float64(0.25)
    assert own.decay == 0.25 and type(own.decay) is float
