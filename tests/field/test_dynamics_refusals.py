"""Dynamic fields under wrong arguments, errors in the middle and other settings of torch: nothing changes by halves."""

import concurrent.futures
import copy
import fractions
import math
import pickle

import numpy
import pytest
import torch

from torch_hrr import field
from torch_hrr.field import DynamicField, dynamics


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tau": 0}, ValueError, r"tau must be a finite number > 0 and <= 1e\+30, got 0"),
        ({"dt": 11.0}, ValueError, "dt must be at most tau = 10, got 11"),
        ({"sigma_excitation": 25.0}, ValueError, "sigma_excitation must be at most the longest axis = 24, got 25"),
        ({"inhibition": 1.0, "sigma_inhibition": 2.0}, ValueError, ".* must be above sigma_excitation = 2, got 2"),
        ({"steepness": 1.0}, TypeError, "parameter must be one of tau, dt, .*, got steepness"),
        ({"noise": 1.0, "tau": 1e-300, "dt": 1e-300}, ValueError, r"noise sqrt\(dt\) / tau must be .* <= 1e\+30"),
    ],
)
def test_numbers_out_of_range_are_refused_and_nothing_changes(changes, error, message):
    with pytest.raises(error, match=f"^DynamicField: {message}"):
        DynamicField((1, 24, 24, 1), **changes)
    dynamic = DynamicField((1, 24, 24, 1))
    before = dynamic.config
    with pytest.raises(error, match=f"^configure: {message}"):
        dynamic.configure(**changes)
    assert dynamic.config is before


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        ((4, 4, 4), ValueError, r"shape must be \[..., D, H, W, C\], got \[4, 4, 4\]"),
        ((4, 0, 4, 1), ValueError, "shape must be at least 1, got 0"),
        ((4, 4.0, 4, 1), TypeError, "shape must be an int, got float"),
        (4, TypeError, "shape must be ints"),
        ((4, 4, 2**70, 1), ValueError, r"shape must be below 2\^63"),
        ((2**20, 2**20, 2**20, 1), ValueError, r"the field must have fewer than 2\^59 elements"),
    ],
    ids=str,
)
def test_a_field_that_cannot_be_is_refused(shape, error, message):
    with pytest.raises(error, match=f"^DynamicField: {message}"):
        DynamicField(shape)


def test_the_default_dtype_must_be_one_of_a_field():
    torch.set_default_dtype(torch.bfloat16)
    with pytest.raises(TypeError, match=r"^DynamicField: dtype must be float32 or float64, got torch\.bfloat16$"):
        DynamicField((4, 4, 4, 1))
    assert DynamicField((4, 4, 4, 1), dtype=torch.float32).step().dtype == torch.float32


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0],), TypeError, "stimulus must be a torch.Tensor or a NumPy array, got list"),
        ((torch.zeros(1, dtype=torch.float64),), TypeError, "stimulus must be torch.float32, got torch.float64"),
        ((torch.zeros(1, 5, 6, 1),), ValueError, r"stimulus must broadcast to \[1, 6, 6, 2\], got a shape of"),
        ((torch.zeros(2, 1, 6, 6, 2),), ValueError, "stimulus must broadcast"),
        ((torch.zeros(1, device="meta"),), ValueError, "stimulus must be on cpu, got meta"),
        ((torch.full((6, 1), math.nan),), ValueError, "stimulus must be finite and at most 1e\\+30"),
        ((torch.full((6, 1), math.inf),), ValueError, "stimulus must be finite and at most 1e\\+30"),
        ((torch.full((6, 1), -2e30),), ValueError, "stimulus must be finite and at most 1e\\+30"),
        ((None, -1), ValueError, "steps must be at least 0, got -1"),
        ((None, 1.0), TypeError, "steps must be an int, got float"),
    ],
)
def test_a_wrong_stimulus_leaves_the_field_as_it_is(arguments, error, message):
    dynamic = DynamicField((1, 6, 6, 2), noise=1.0, seed=0)
    dynamic.step()
    before = {name: tensor.clone() for name, tensor in dynamic.state_dict().items()}
    with pytest.raises(error, match=f"^step: {message}"):
        dynamic.step(*arguments)
    assert all(torch.equal(tensor, before[name]) for name, tensor in dynamic.state_dict().items())


def test_other_wrong_arguments_are_refused():
    dynamic = DynamicField((1, 6, 6, 2))
    for arguments, error, message in (
        (((1, 2), 1.0), ValueError, "position must be \\(depth, height, width\\), got 2 numbers"),
        ((1.0, 1.0), TypeError, "position must be three numbers, got float"),
        ((numpy.array(1.0), 1.0), TypeError, "position must be three numbers, got ndarray"),
        (((1, 2, math.nan), 1.0), ValueError, "position must be a finite number"),
        (((1, 2, 3), 1.0, 1.0, 2), ValueError, "channel must be at least 0 and at most 1, got 2"),
    ):
        with pytest.raises(error, match=f"^stimulus: {message}"):
            dynamic.stimulus(*arguments)
    with pytest.raises(TypeError, match=r"^step: activation must be float32 or float64, got torch.float16"):
        dynamic.half().step()


@pytest.mark.parametrize(
    "numbers",
    [
        {"beta": 1e30},
        {"excitation": 1e30, "global_inhibition": 1e30},
        {"inhibition": 1e30, "sigma_inhibition": 3.0},
        {"resting_level": -1e30},
        {"noise": 1e30, "tau": 1.0},
        {"tau": 1e-300, "dt": 1e-300},
    ],
    ids=str,
)
def test_the_largest_numbers_give_no_nan(numbers):
    dynamic = DynamicField((1, 6, 6, 1), **{"sigma_excitation": 1.0, **numbers})
    dynamic.activation = torch.zeros_like(dynamic.activation)
    for strength in (1e30, -1e30, 0.0):
        assert not dynamic.step(torch.tensor(strength), 3).isnan().any()
        assert dynamic.activation.isfinite().all()


@pytest.mark.parametrize("sigma", [1e6, 1e30])
def test_what_has_no_strength_may_have_any_width(sigma):
    """It took a step for every half of its variance."""
    dynamic = DynamicField((1, 6, 6, 1), excitation=0.0, sigma_excitation=sigma)
    narrow = DynamicField((1, 6, 6, 1), excitation=0.0)
    assert torch.equal(dynamic.step(steps=3), narrow.step(steps=3))


def test_an_error_in_the_middle_leaves_the_field_as_it_is(monkeypatch):
    dynamic = DynamicField((1, 6, 6, 1), noise=1.0, seed=0)
    dynamic.step()
    before = {name: tensor.clone() for name, tensor in dynamic.state_dict().items()}
    left = 5

    def fails(*arguments, **more):
        nonlocal left
        left -= 1
        if not left:
            raise RuntimeError("out of memory")
        return field.evolve(*arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(dynamics, "evolve", fails)
        with pytest.raises(RuntimeError, match="out of memory"):
            dynamic.step(steps=4)
    assert all(torch.equal(tensor, before[name]) for name, tensor in dynamic.state_dict().items())


def test_a_state_dict_stays_what_it_was():
    dynamic = DynamicField((1, 6, 6, 1), noise=1.0, seed=0)
    dynamic.step(steps=2)
    kept = dynamic.state_dict()
    expected = dynamic.step(steps=3)
    after = dynamic.activation
    dynamic.load_state_dict(kept)
    assert torch.equal(dynamic.step(steps=3), expected)
    # Nor is what was kept of a run overwritten when another one begins.
    assert torch.equal(dynamic.activation, after) and not torch.equal(kept["activation"], after)
    with torch.inference_mode():
        dynamic.step()
    dynamic.load_state_dict(kept)
    assert torch.equal(dynamic.step(steps=3), expected)


def test_copies_go_on_alike():
    dynamic = DynamicField((1, 6, 6, 1), noise=1.0, sigma_excitation=1.0)
    dynamic.step()
    copies = copy.deepcopy(dynamic), pickle.loads(pickle.dumps(dynamic))
    expected = dynamic.step(steps=3)
    assert all(torch.equal(each.step(steps=3), expected) and each.config == dynamic.config for each in copies)


def test_another_default_device(tmp_path):
    dynamic = DynamicField((1, 6, 6, 2), noise=1.0, seed=0)
    expected = dynamic.stimulus((0, 1, 2), 1.0), dynamic.stimulus((0, 1, 2), 1.0, channel=1)
    with torch.device("meta"):
        assert DynamicField((1, 6, 6, 2)).step().is_meta
        made = dynamic.stimulus((0, 1, 2), 1.0), dynamic.stimulus((0, 1, 2), 1.0, channel=1)
        assert dynamic.step(made[0]).is_cpu and len(dynamic.peaks(-100)) == 2
        dynamic.save(tmp_path / "field")
        loaded = DynamicField.load(tmp_path / "field", device="cpu")
    assert all(torch.equal(*each) for each in zip(made, expected, strict=True))
    assert torch.equal(loaded.activation, dynamic.activation)


def test_numbers_of_other_kinds_are_numbers():
    dynamic = DynamicField(numpy.array([1, 6, 6, 1]), tau=numpy.float32(5), dt=fractions.Fraction(1, 2))
    assert dynamic.config == dynamics.DynamicFieldConfig(tau=5.0, dt=0.5) and type(dynamic.config.tau) is float
    expected = dynamic.stimulus((0, 1, 2), 0.5)
    assert torch.equal(dynamic.stimulus(numpy.array([0, 1, 2]), fractions.Fraction(1, 2)), expected)
    assert torch.equal(dynamic.step(None, numpy.int64(2)), DynamicField((1, 6, 6, 1), tau=5.0, dt=0.5).step(steps=2))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad, torch.no_grad])
def test_modes_of_torch_leave_the_field_usable(mode):
    dynamic, peer = (DynamicField((1, 6, 6, 1), noise=1.0, seed=0) for _ in range(2))
    with mode():
        dynamic.step(steps=2)
        made = DynamicField((1, 6, 6, 1), noise=1.0, seed=0)
    expected = peer.step(steps=4)
    assert torch.equal(dynamic.step(steps=2), expected) and torch.equal(made.step(steps=4), expected)


def test_fields_in_several_threads_are_what_they_are_alone():
    def run(seed):
        dynamic = DynamicField((1, 24, 24, 1), noise=1.0, seed=seed)
        dynamic.step(6 * dynamic.stimulus((0, 10, 11), 2.0), 40)
        return dynamic.activation, dynamic.peaks()

    expected = [run(seed) for seed in range(4)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for (activation, peaks), (alone, alone_peaks) in zip(pool.map(run, range(4)), expected, strict=True):
            assert torch.equal(activation, alone) and peaks == alone_peaks


def test_no_gradient_is_kept():
    dynamic = DynamicField((1, 6, 6, 1))
    assert not dynamic.step(torch.ones(1, requires_grad=True)).requires_grad and not dynamic.activation.requires_grad
