"""Learning control by a field: the operator against an oracle in NumPy, its forms, and brains that learn."""

import copy
import itertools
import math
import pickle
import statistics

import numpy as np
import pytest
import torch
from cases.field_oracle import brain_metrics
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_hrr
from torch_hrr import field
from torch_hrr._plain import field_control as plain
from torch_hrr._plain.random import normals
from torch_hrr.field.brain import METRICS

control = torch.ops.torch_hrr._field_control_
RATES = {
    **{"decay": 0.109, "diffusion": 0.0, "discount": 0.99, "critic_rate": 0.2, "motor_rate": 0.01},
    **{"correlation": 0.5, "deviation": 0.5, "learns": True, "discrete": False, "dense": False},
}
SENSORY = [0.3, -0.2, 0.5, 0.1]


def robots(*batch, sensors=3, motors=2, maps=2, sizes=(4, 5, 3), more=0, dtype=torch.float64, seed=0):
    """Operands that are written, and the places of maps."""
    generator = torch.Generator().manual_seed(seed)
    shape = (*batch, *sizes, maps * (1 + motors) + more)
    places = torch.randn(*batch, maps, 3, sensors + 1, generator=generator).to(dtype) * 2
    places[..., -1] += (torch.tensor(sizes) - 1) / 2
    state = torch.zeros(*batch, plain.HEAD + sensors + 2 * motors, dtype=dtype)
    state[..., plain.PRODUCT] = 1
    return {
        "field": torch.zeros(shape, dtype=dtype),
        "weights": torch.zeros(shape, dtype=dtype),
        "state": state,
        "prediction": torch.zeros(*batch, sensors, dtype=dtype),
        "key": torch.randint(-(2**62), 2**62, (*batch, 2), generator=generator),
        "result": torch.zeros(*batch, motors + 6, dtype=dtype),
        "places": places,
    }


def steps(count, *batch, sensors=3, dtype=torch.float64, seed=1):
    """Sensory values, rewards and ends of episodes."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        sensory, reward = (torch.randn((*batch, *more), generator=generator) for more in ((sensors,), ()))
        ends = torch.rand(batch, generator=generator) < 0.06
        ended = ends * torch.randint(1, 3, batch, generator=generator)
        yield {"sensory": 0.6 * sensory.to(dtype), "reward": reward.to(dtype), "ended": ended.to(dtype)}


def settled(operands):
    """Field and weights as they are, whatever form they are stored in."""
    names = ("field", "weights", "state")
    return plain.settled(*(operands[name] for name in names), operands["places"].shape[-3])


class Oracle:
    """One robot without diffusion, as the formulas say, cell by cell."""

    def __init__(self, operands, rates):
        self.places, self.rates = operands["places"].numpy(), rates
        self.sizes, self.motors = operands["field"].shape[:3], operands["result"].shape[-1] - 6
        self.key = operands["key"].tolist()
        self.f = np.zeros((1 + self.motors, len(self.places), *self.sizes))
        self.w = np.zeros_like(self.f)
        self.before, self.square, self.count = None, 0.0, 0

    def code(self, sensory):
        x = np.zeros((len(self.places), *self.sizes))
        for each, rows in zip(x, self.places, strict=True):
            at = [min(max(row[:-1] @ sensory + row[-1], 0), n - 1) for row, n in zip(rows, self.sizes, strict=True)]
            for cell in itertools.product(*map(range, self.sizes)):
                if all(abs(c - math.floor(a + 0.5)) <= 1 for c, a in zip(cell, at, strict=True)):
                    each[cell] = math.exp(-sum((c - a) ** 2 for c, a in zip(cell, at, strict=True)) / (2 * 0.7**2))
        return x / np.linalg.norm(x)

    def step(self, sensory, reward, ended):
        y = self.code(sensory.numpy())
        if self.before is None:
            self.f[:], self.noise = 0, np.zeros(self.motors)
        else:
            x, score = self.before
            future = 0 if ended == 1 else self.rates["discount"] * (self.w[0] * y).sum()
            error = float(reward) + future - (self.w[0] * x).sum()
            self.f[0] += (1 - self.rates["critic_rate"] * (self.f[0] * x).sum()) * x
            self.f[1:] += score[:, None, None, None, None] * x
            self.count += 1
            self.square += (error**2 - self.square) / min(self.count, 1000)
            relative = min(max(error / math.sqrt(self.square), -3), 3)
            self.w[0] += self.rates["critic_rate"] * error * self.f[0]
            self.w[1:] += self.rates["motor_rate"] * relative * self.f[1:]
            self.f *= 1 - self.rates["decay"]
        drives = (self.w[1:] * y).sum((1, 2, 3, 4))
        drawn = normals(*self.key, torch.arange(self.motors)).double().numpy()
        self.key[1] += -(-self.motors // 4)
        self.noise = 0.5 * self.noise + 0.5 * math.sqrt(1 - 0.5**2) * drawn
        self.before = None if ended else (y, self.noise * (1 - np.tanh(drives) ** 2))
        return np.clip(np.tanh(drives) + self.noise, -1, 1)


def channels(groups):
    """[groups, maps, D, H, W] as [D, H, W, groups maps]."""
    return torch.from_numpy(groups).flatten(0, 1).movedim(0, -1)


@pytest.mark.parametrize("dense", (False, True))
@pytest.mark.parametrize("motors", (1, 5))
def test_a_step_is_that_of_the_oracle(motors, dense):
    own = robots(motors=motors)
    oracle = Oracle(own, RATES)
    for inputs in steps(150):
        expected = oracle.step(*inputs.values())
        control(**own, **inputs, **(RATES | {"dense": dense}))
        np.testing.assert_allclose(own["result"][:motors].numpy(), expected, rtol=0, atol=2e-6)
    for ours, theirs in zip(settled(own), (oracle.f, oracle.w), strict=True):
        torch.testing.assert_close(ours, channels(theirs), rtol=0, atol=2e-6)
    assert own["key"].tolist() == oracle.key and abs(oracle.w).max() > 0.1


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("more", ({}, {"discrete": True}, {"diffusion": 0.03}, {"learns": False}, {"decay": 1.0}))
def test_all_forms_are_the_definition(more, dtype):
    """Sparse and dense, the definition, and a brain that goes on from one form to another."""
    rates = RATES | more
    sparse = robots(3, maps=8, motors=2, more=1, dtype=dtype)
    dense, expected, mixed = (copy.deepcopy(sparse) for _ in range(3))
    for i, inputs in enumerate(steps(60, 3, dtype=dtype)):
        control(**sparse, **inputs, **rates)
        control(**dense, **inputs, **(rates | {"dense": True}))
        plain.control_(**expected, **inputs, **rates)
        (plain.control_ if i % 7 == 6 else control)(**mixed, **inputs, **rates)
    # Normal numbers are those of float32, whose logarithms differ in the last bits.
    bound = 5e-6 if dtype == torch.float64 else 5e-5
    for each in (sparse, dense, mixed):
        for ours, theirs in zip(settled(each), settled(expected), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=bound)
        torch.testing.assert_close(each["result"], expected["result"], rtol=1e-4, atol=bound)
        assert torch.equal(each["key"], expected["key"])
        torch.testing.assert_close(each["prediction"], expected["prediction"])
    assert not sparse["weights"][..., -1].any() and sparse["weights"].any() == rates["learns"]
    metrics = plain.settled(sparse["field"], sparse["weights"], sparse["state"], 8)[0].flatten(-4, -2)
    torch.testing.assert_close(sparse["result"][:, 5], metrics.square().mean((-2, -1)))


def test_many_robots_are_each_alone():
    together = robots(2, 40, maps=8, dtype=torch.float32)
    alone = [{name: each[0, i].clone() for name, each in together.items()} for i in range(3)]
    short = together | {"result": torch.zeros(2, 40, 2)}
    short = {name: each.clone() for name, each in short.items()}
    for inputs in steps(30, 2, 40, dtype=torch.float32):
        control(**together, **inputs, **RATES)
        control(**short, **inputs, **RATES)
        for i, one in enumerate(alone):
            control(**one, **{name: each[0, i] for name, each in inputs.items()}, **RATES)
            assert torch.equal(one["result"], together["result"][0, i])
    assert all(torch.equal(each, together[name][0, i]) for i, one in enumerate(alone) for name, each in one.items())
    assert torch.equal(short["result"], together["result"][..., :2]) and torch.equal(
        short["weights"], together["weights"]
    )
    before = torch.get_num_threads()
    again, expected = copy.deepcopy(together), together
    inputs = next(steps(1, 2, 40, dtype=torch.float32, seed=3))
    try:
        for threads, each in ((1, again), (2, expected)):
            torch.set_num_threads(threads)
            control(**each, **inputs, **RATES)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(each, expected[name]) for name, each in again.items())
    control(**robots(0), **next(steps(1, 0)), **RATES)


@pytest.mark.parametrize("call", (control, plain.control_))
def test_nothing_of_a_robot_that_rests_changes(call):
    own = robots(3)
    for i, inputs in enumerate(steps(12, 3)):
        if i >= 6:
            inputs["ended"][1] = -1
        before = copy.deepcopy(own)
        call(**own, **inputs, **RATES)
        for robot in range(3):
            rests = all(torch.equal(each[robot], before[name][robot]) for name, each in own.items())
            assert rests == (robot == 1 and i >= 6)


def test_a_step_of_a_brain_that_rests_gives_zeros():
    own = brain()
    before = copy.deepcopy(own.state_dict())
    assert not own.step(torch.ones(4), 1.0, torch.tensor(-1.0)).any() and same(own.state_dict(), before)


def test_what_is_no_number_stays_within_memory():
    own = robots()
    for value in (math.nan, math.inf, -math.inf, 1e300):
        reward, ended = torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        control(**own, sensory=torch.full((3,), value, dtype=torch.float64), reward=reward, ended=ended, **RATES)


@pytest.mark.parametrize(
    ("argument", "change", "error", "text"),
    [
        ("field", lambda x: x.half(), TypeError, "field must be float32 or float64, got Half"),
        ("weights", lambda x: x.float(), TypeError, "weights must have the field's dtype Double, got Float"),
        ("weights", lambda x: x[..., 1:].contiguous(), ValueError, "weights must have shape"),
        ("field", lambda x: x[0, 0, 0], ValueError, "field must have at least 4 dimensions"),
        ("state", lambda x: x[:-1], ValueError, "state must have shape"),
        ("result", lambda x: x[:3], ValueError, "result must have shape"),
        ("key", lambda x: x.int(), TypeError, "key must be int64, got Int"),
        ("places", lambda x: x.mT.contiguous().mT, ValueError, "places must be contiguous"),
        ("places", lambda x: x[0], ValueError, "places must have at least 3 dimensions"),
        ("places", lambda x: x.repeat(2, 1, 1), ValueError, "field must have at least 12 channels, got 6"),
        ("sensory", lambda x: x.to_sparse(), TypeError, "sensory must be a strided tensor"),
        ("sensory", lambda x: x[None], ValueError, "sensory must have shape"),
        ("reward", lambda x: x[None], ValueError, "reward must have shape"),
        (
            "reward",
            lambda x: x.clone().requires_grad_(),
            RuntimeError,
            "an argument written in place must not be given",
        ),
        ("decay", lambda _: 1.5, ValueError, "decay must be in .0, 1., got 1.5"),
        ("diffusion", lambda _: 0.2, ValueError, "diffusion must be in"),
        ("discount", lambda _: math.nan, ValueError, "discount must be in"),
        ("deviation", lambda _: -1.0, ValueError, "deviation must be in"),
    ],
    ids=range(18),
)
def test_what_a_step_refuses(argument, change, error, text):
    call = robots() | next(steps(1)) | RATES
    before = {name: each.clone() for name, each in call.items() if isinstance(each, torch.Tensor)}
    with pytest.raises(error, match=text):
        control(**(call | {argument: change(call[argument])}))
    with pytest.raises(RuntimeError, match="field must not share memory with weights"):
        control(**(call | {"weights": call["field"]}))
    assert all(torch.equal(call[name], each) for name, each in before.items())


def brain(**settings):
    small = {"sensory_dim": 4, "motor_dim": 2, "spatial": (4, 5, 6), "prefer_gpu": False, "seed": 0}
    return field.create_brain(**(small | settings))


def run(own, cycles, reward=1.0):
    values = ([math.sin(i + j) for j in range(4)] for i in range(cycles))
    return [
        own.process_robot_cycle(each, reward * (i % 3 - 1), i % 7 == 6, i % 5 == 4) for i, each in enumerate(values)
    ]


def states(own):
    return {name: tensor.clone() for name, tensor in own.state_dict().items()}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(tensor, second[name]) for name, tensor in first.items())


@pytest.mark.parametrize("settings", ({}, {"discrete": True}, {"diffusion": 0.02}, {"velocities": True}), ids=str)
def test_what_is_loaded_or_copied_goes_on_bit_by_bit(tmp_path, settings):
    own = brain(**settings)
    run(own, 13)
    own.save(tmp_path / "brain", key=b"secret")
    others = [field.FieldBrain.load(tmp_path / "brain", key=b"secret"), own.copy(), copy.deepcopy(own), brain(seed=3)]
    others[3] = brain(seed=3, **settings)
    others[3].load_state_dict(own.state_dict())
    expected = [motor for motor, _ in run(own, 9)]
    for other in others:
        assert type(other) is type(own) and repr(other) == repr(own)
        assert [motor for motor, _ in run(other, 9)] == expected and same(states(other), states(own))
    assert others[0].cycle == own.cycle == 22 and torch.equal(own.weights, others[1].weights) and own.weights.any()


def test_a_file_of_before_is_of_the_older_learner(tmp_path):
    own = field.FieldBrain(4, 2, 4, 9, seed=1)
    tensors, settings = own._content()
    assert "learner" not in settings
    torch_hrr.io.save(tmp_path / "old", tensors, settings, format=own.file_format, version=1)
    again = field.FieldBrain.load(tmp_path / "old")
    assert again.learner == "imprint" and type(again) is field.FieldBrain
    values = [0.1, 0.2, 0.3, 0.4]
    assert again.process_robot_cycle(values, 1.0, True)[0] == own.process_robot_cycle(values, reward=1.0)[0]


def test_a_brain_at_rest_draws_and_learns_nothing_and_never_sticks():
    own = brain(spatial=8)
    run(own, 60)
    own.eval()
    weights, key = own.weights, own.key.clone()
    motors = [own.process_robot_cycle(SENSORY, 1.0)[0] for _ in range(20)]
    assert motors[1:] == motors[:-1] and torch.equal(own.key, key)
    assert torch.equal(own.weights, weights)
    moving = [own.process_robot_cycle([math.sin(0.3 * i + j) for j in range(4)])[0] for i in range(40)]
    assert all(len(set(values)) == 40 for values in zip(*moving, strict=True))
    own.train()
    assert own.process_robot_cycle(SENSORY)[0] != own.process_robot_cycle(SENSORY)[0]


@pytest.mark.parametrize("learns", (False, True))
def test_velocities_are_sensors_like_any_other(learns):
    """A brain that is told them by NumPy goes the same way, over episodes that end, are cut off and are reset."""
    own, told = brain(velocities=True).train(learns), brain(sensory_dim=8).train(learns)
    expected, is_first = np.zeros(4), True
    for i in range(40):
        sensory = [math.sin(0.4 * i + j) * (1 + i % 3) for j in range(4)]
        missed = np.zeros(4) if is_first else np.array(sensory) - expected
        expected = np.array(sensory) - missed / 2
        more = [0.5 * (i % 3), i % 11 == 10, i % 7 == 6]
        motor, state = own.process_robot_cycle(sensory, *more)
        others, other = told.process_robot_cycle([*sensory, *np.tanh(4 * missed)], *more)
        assert motor == pytest.approx(others, abs=1e-5) and state["energy"] == pytest.approx(other["energy"], rel=1e-4)
        is_first = more[1] or more[2]
        if i == 20:
            is_first = True
            own.reset()
            told.reset()
    torch.testing.assert_close(own.weights, told.weights, rtol=0, atol=1e-5)
    assert own.weights.any() == learns and abs(missed).max() > 0.1


def test_metrics_are_those_of_the_field():
    own = brain()
    motor, state = run(own, 9)[-1]
    for name, value in brain_metrics(own.field).items():
        assert state[name] == pytest.approx(value.item(), rel=1e-5), name
    assert state["max_activation"] > 0.1 and state["cycle"] == 9 and len(motor) == 2
    assert state["prediction_confidence"] == pytest.approx(1 / (1 + state["prediction_error"]))
    assert {*METRICS, "cycle", "cycle_time_ms", "device"} == set(state)


@pytest.mark.parametrize("velocities", (False, True))
def test_plain_torch_and_a_step_give_the_same_cycle(velocities):
    own, eager, stepped = (brain(velocities=velocities) for _ in range(3))
    eager.eager = True
    for i in range(12):
        values, reward, ended = [math.sin(i + j) for j in range(4)], 0.25 * (i % 3), 2 * (i % 6 == 5)
        motor, state = own.process_robot_cycle(values, reward, truncated=bool(ended))
        assert eager.process_robot_cycle(values, reward, truncated=bool(ended))[0] == pytest.approx(motor, abs=1e-5)
        packed = stepped.named(stepped.step(torch.tensor(values), reward, ended))
        assert packed.motor.tolist() == motor and packed.energy.item() == state["energy"]
    assert same(states(stepped), states(own))


@pytest.mark.parametrize("velocities", (False, True))
def test_a_step_runs_on_meta_compiles_and_is_exported(velocities):
    settings = {"velocities": velocities}
    with FakeTensorMode():
        assert brain(**settings).step(torch.zeros(4)).shape == (2 + len(METRICS),)
    own = brain(device="meta", **settings)
    assert own.step(torch.zeros(4, device="meta"), torch.zeros(1, device="meta")).shape == (2 + len(METRICS),)
    assert own.copy().to_empty(device="cpu").device.type == "cpu"
    own, compiled = brain(**settings), brain(**settings)
    step = torch.compile(compiled.step, fullgraph=True, backend="aot_eager")
    inputs = [(torch.tensor(SENSORY) * i, torch.tensor(0.1 * i), torch.tensor(float(i == 2))) for i in range(5)]
    exported = torch.export.export(brain(**settings), inputs[0]).module()
    for each in inputs:
        expected = own.step(*each)
        assert torch.equal(step(*each), expected) and torch.equal(exported(*each), expected)
    for reward in (0.5, 0.25, -1.0):
        assert torch.equal(step(inputs[1][0], reward), own.step(inputs[1][0], reward))
    assert same(states(compiled), states(own))


def test_a_brain_is_small_and_moves_as_a_whole():
    own = field.create_brain(sensory_dim=16, motor_dim=5, prefer_gpu=True, seed=0)
    assert own.nbytes < 2**20 and own.field.shape == (8, 8, 8, 48) and own.maps == 8
    assert len(own.process_robot_cycle([0.1] * 16, reward=0.0)[0]) == 5
    other = field.create_brain(16, 5, seed=1, channels=13, prefer_gpu=False)
    assert other.maps == 2 and not torch.equal(other._places, own._places[:2])
    assert own.bfloat16()._field.dtype == own.double()._weights.dtype == torch.float32
    for sensors in (1, 2, 3, 7):
        scaled = brain(sensory_dim=sensors, spatial=8)._places[..., :-1] / (0.35 * 8)
        turned = scaled.mT @ scaled if sensors < 3 else scaled @ scaled.mT
        torch.testing.assert_close(turned, torch.eye(min(sensors, 3)).expand_as(turned), rtol=0, atol=1e-5)
    found = field.OptimizationChecker.verify_optimizations(own)
    assert found["optimized"] and found["syncs"] == found["transfers"] == 0 and found["largest_allocation"] < 2**10
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"), torch.inference_mode():
        again = brain()
        first = run(again, 5)
        again.step(torch.zeros(4, device="cpu"))
    torch.set_default_dtype(torch.float32)
    other = brain()
    assert [motor for motor, _ in first] == [motor for motor, _ in run(other, 5)]
    other.step(torch.zeros(4))
    assert run(again, 5)[-1][0] == run(other, 5)[-1][0]
    assert run(pickle.loads(pickle.dumps(again)), 2)[-1][0] == run(other, 2)[-1][0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([0.1] * 3,), ValueError, "sensory must have 4 values"),
        (([0.1, 0.2, math.nan, 0.1],), ValueError, "a value of sensory must be a finite number, got nan"),
        (([0.1, 0.2, 1e300, 0.1],), ValueError, "must be finite and at most 1e\\+06"),
        ((["a"] * 4,), TypeError, "a value of sensory must be a number, got str"),
        ((3.0,), TypeError, "sensory must be numbers, got float"),
        ((SENSORY, math.nan), ValueError, "reward must be a finite number"),
        ((SENSORY, math.inf), ValueError, "reward must be a finite number"),
        ((SENSORY, "1"), TypeError, "reward must be a number"),
        ((SENSORY, 0.0, 1), TypeError, "terminated must be a bool, got int"),
        ((SENSORY, 0.0, False, None), TypeError, "truncated must be a bool, got NoneType"),
        ((torch.ones(4, 1),), ValueError, "sensory must have 4 values"),
    ],
    ids=range(11),
)
def test_bad_input_leaves_the_brain_unchanged(arguments, error, text):
    own = brain()
    run(own, 3)
    before = states(own)
    with pytest.raises(error, match=text):
        own.process_robot_cycle(*arguments)
    assert own.cycle == 3 and same(states(own), before)


def test_lists_tensors_and_arrays_are_the_same_values():
    motors = []
    for given in (SENSORY, tuple(SENSORY), torch.tensor(SENSORY), np.array(SENSORY)):
        own = brain()
        motors.append([own.process_robot_cycle(given, reward)[0] for reward in (0, 1.0, np.float32(1))])
    assert motors[0] == motors[1] == motors[2] == motors[3]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"channels": 2}, ValueError, "channels must be at least 3"),
        ({"spatial": (3, 4)}, ValueError, "spatial must be an int or depth, height and width"),
        ({"discount": 1.5}, ValueError, "discount must be"),
        ({"discrete": 1}, TypeError, "discrete must be a bool"),
        ({"velocities": 0.5}, TypeError, "velocities must be a bool"),
        ({"dtype": torch.bfloat16}, TypeError, "dtype must be float32, got"),
        ({"threshold": 0.1}, TypeError, r"settings must be arguments of FieldBrain\(learner='actor-critic'\) or"),
        ({"learner": "imprint", "discount": 0.5}, TypeError, "settings must be .*, got discount"),
        ({"learner": "critic"}, ValueError, "learner must be 'imprint' or 'actor-critic', got 'critic'"),
        ({"spatial": 2**13}, RuntimeError, "sensory_dim, spatial and channels must take at most"),
    ],
    ids=str,
)
def test_bad_settings(settings, error, text):
    with pytest.raises(error, match=f"^create_brain: {text}"):
        brain(**settings)


def test_a_subclass_is_of_the_learner_of_its_class():
    class Mine(field.FieldBrain):
        pass

    assert Mine(4, 2, 4, 9).learner == "imprint"
    with pytest.raises(ValueError, match=r"^Mine: learner of a subclass must be 'imprint', got 'actor-critic'"):
        Mine(4, 2, 4, 9, learner="actor-critic")


def value(own, sensory):
    """<w_0, code of sensory>."""
    cells, active = plain.code(own._places, torch.tensor(sensory), own.spatial)
    critic = own.weights.flatten(0, 2)[:, : own.maps]
    return (critic.gather(0, cells.T) * active.T).sum().item()


def test_a_value_counts_on_what_comes_after_a_truncation_alone():
    values = {}
    for ending in ("terminated", "truncated"):
        own = brain(sensory_dim=1, motor_dim=1, discount=0.5, critic_rate=0.5)
        for _ in range(60):
            own.process_robot_cycle([0.2])
            own.process_robot_cycle([0.2], 1.0, **{ending: True})
        values[ending] = value(own, [0.2])
    assert values["terminated"] == pytest.approx(1, rel=1e-3) and values["truncated"] == pytest.approx(2, rel=1e-3)


def test_reset_begins_an_episode_and_keeps_what_was_learned():
    own = brain()
    run(own, 30)
    weights, count = own.weights, own._state[plain.COUNT].item()
    own.reset()
    assert torch.equal(own.weights, weights) and not own.field.any() and not own.prediction.any()
    assert own._state[plain.COUNT] == count > 10 and own._state[plain.BEGUN] == 0


@pytest.mark.parametrize("discrete", (False, True))
def test_a_motor_that_is_paid_is_learned(discrete):
    """Motor 0 is to follow the sign of the first sensor; by chance nobody earns more than 0.5 a cycle of it."""
    own = brain(sensory_dim=2, discrete=discrete, spatial=8, discount=0.0, motor_rate=0.1)
    generator, paid, reward = torch.Generator().manual_seed(0), [], 0.0
    for _ in range(1500):
        sensory = (2 * torch.rand(2, generator=generator) - 1).tolist()
        motor, _ = own.process_robot_cycle(sensory, reward)
        reward = motor[0] * math.copysign(1.0, sensory[0])
        paid.append(reward)
    assert abs(statistics.fmean(paid[:100])) < 0.3 and statistics.fmean(paid[-300:]) > 0.6
