"""What `field.evolve` takes for a field and for numbers, before the operator sees them."""

import typing

import numpy as np
import pytest
import torch

from torch_hrr import field
from torch_hrr.field.brain import BrainArguments
from torch_hrr.field.dynamics import DynamicFieldParameters


def test_arrays_are_fields():
    array = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    expected = field.evolve(torch.from_numpy(array.copy()), 0.1, 0.1, 2)
    assert torch.equal(field.evolve(array, 0.1, np.float64(0.1), np.int64(2)), expected)
    assert torch.equal(field.evolve(array[::-1][::-1], 0.1, 0.1, 2), expected)


@pytest.mark.parametrize("wrong", [[[[[1.0]]]], None, "field", 1.0])
def test_what_is_no_field_is_an_argument_of_the_wrong_type(wrong):
    with pytest.raises(TypeError, match=r"^evolve: field must be a torch\.Tensor or a NumPy array, got "):
        field.evolve(wrong, 0.1, 0.1)


@pytest.mark.parametrize("argument", ["decay", "diffusion", "steps", "noise"])
def test_a_bool_is_no_number(argument):
    numbers = {"decay": 0.1, "diffusion": 0.1, "steps": 1, "noise": 0.0}
    with pytest.raises(TypeError, match=rf"^evolve: {argument} must be (a number|an int), got bool$"):
        field.evolve(torch.zeros(2, 2, 2, 1), **{**numbers, argument: True})


def test_typed_settings_are_those_of_the_calls():
    """What mypy is told of settings is what a `FieldBrain` and a `DynamicFieldConfig` take."""
    for typed, call, more in (
        (BrainArguments, field.FieldBrain, {"prefer_gpu"}),
        (DynamicFieldParameters, field.DynamicFieldConfig, set()),
    ):
        hints = typing.get_type_hints(call.__init__)
        given = {**typing.get_type_hints(typed), **{name: None for name in more}}
        assert given == {name: kind for name, kind in hints.items() if name != "return"} | dict.fromkeys(more)
