"""Factories of field brains: seeds that are none are named, and a brain that was not made does not count."""

import typing

import pytest
import torch

from torch_hrr.field import DynamicFieldConfig, FieldBrain, FieldBrainFactory, create_brain
from torch_hrr.field._control import ControlBrain
from torch_hrr.field.brain import BrainArguments
from torch_hrr.field.dynamics import DynamicFieldParameters

SMALL = {"sensory_dim": 3, "motor_dim": 2, "spatial": 4, "channels": 6, "prefer_gpu": False}


@pytest.mark.parametrize("seed", (True, "1", 1.5))
def test_a_seed_that_is_none(seed):
    factory = FieldBrainFactory(seed=seed, **SMALL)
    with pytest.raises(TypeError, match=r"^create: seed must be an int, got "):
        factory.create()
    assert factory.made == 0


def test_seeds_count_up_modulo_2_to_the_64():
    factory = FieldBrainFactory(seed=2**64 - 2, **SMALL)
    made = [factory.create() for _ in range(3)]
    assert [each.key[0].item() for each in made] == [-2, -1, 0]
    same = FieldBrain(3, 2, 4, 6, learner="actor-critic", seed=0)
    assert torch.equal(made[2]._places, same._places) and not torch.equal(*(made[i]._places for i in (0, 1)))
    for op, call in (
        ("create", factory.create),
        ("create_optimized_brain", FieldBrainFactory.create_optimized_brain),
        ("create_brain", create_brain),
    ):
        with pytest.raises(TypeError, match=rf"^{op}: settings must be arguments of FieldBrain.*, got colour$"):
            call(seed=3, colour="blue")
        with pytest.raises(
            TypeError, match=rf"^{op}: settings must be .*, got difusion; is it diffusion or discount\?$"
        ):
            call(seed=3, difusion=0.1)
        with pytest.raises(ValueError, match=rf"^{op}: decay must be "):
            call(decay=2.0)
    assert factory.made == 3


def test_without_a_seed_every_brain_is_another():
    factory = FieldBrainFactory(**SMALL)
    torch.manual_seed(5)
    first, second = (factory.create() for _ in range(2))
    torch.manual_seed(5)
    third = create_brain(**SMALL)
    assert first.seed == third.seed != second.seed and torch.equal(first._places, third._places)
    older = [FieldBrainFactory(**SMALL, learner="imprint", seed=3).create(), FieldBrain(3, 2, 4, 6, seed=3)]
    assert torch.equal(*(each.motor_weights for each in older))


def test_another_default_device_and_dtype():
    first = FieldBrainFactory(seed=0, **SMALL).create().process_robot_cycle([0.1] * 3)[0]
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"):
        assert FieldBrainFactory(seed=0, **SMALL).create().process_robot_cycle([0.1] * 3)[0] == first


def test_typed_settings_are_those_of_the_calls():
    """What mypy is told of settings is what a `FieldBrain` and a `DynamicFieldConfig` take."""
    for typed, calls, more in (
        (BrainArguments, (FieldBrain, ControlBrain), {"prefer_gpu": bool}),
        (DynamicFieldParameters, (DynamicFieldConfig,), {}),
    ):
        each = [typing.get_type_hints(call.__init__) for call in calls]
        hints = dict(more)
        for name, hint in ((name, hint) for own in each for name, hint in own.items()):
            hints[name] = hints.get(name, hint) | hint if name != "return" else hint
        assert hints.pop("return") is type(None) and typing.get_type_hints(typed) == hints
