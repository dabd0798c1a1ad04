"""What calls take: every value that a specification refuses is an error with the names of call and argument."""

import dataclasses
import importlib
import inspect
import pkgutil

import numpy as np
import pytest

import torch_hrr
from torch_hrr._spec import CALLS, Bool, Choice, Int, Real, takes

for _module in pkgutil.walk_packages(torch_hrr.__path__, "torch_hrr."):
    if not _module.name.endswith("__main__"):
        importlib.import_module(_module.name)


def refusals(made, specs):
    """Each call with one wrong argument, which is refused before any other is asked for."""
    first = () if inspect.isclass(made) or "self" not in inspect.signature(made).parameters else (object(),)
    for argument, spec in specs.items():
        for value, error in spec.wrong():
            yield argument, error, lambda argument=argument, value=value: made(*first, **{argument: value})


@pytest.mark.parametrize("name", sorted(CALLS))
def test_what_a_call_refuses_is_named(name):
    for argument, error, call in refusals(*CALLS[name]):
        with pytest.raises(error, match=rf"^\w+: {argument} must be .+, got "):
            call()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_docstring_says_what_is_refused(name):
    made, specs = CALLS[name]
    for argument, spec in specs.items():
        assert not spec.words or f"``{argument}`` is not {spec.words}" in " ".join(made.__doc__.split())


@takes(k=Int(1, 9), p=Real(0, 1, open_left=True), loud=Bool(), kind=Choice(("a", "b")).or_none())
def called(k, p=2.0, *, loud=False, kind=None):
    """One line.

    Raises:
        OSError: By hand.

    Source: none.
    """
    return k, p, loud, kind


@takes(width=Int(1))
@dataclasses.dataclass(frozen=True)
class Config:
    """A configuration."""

    width: int = 3


def test_arguments_are_converted_wherever_they_stand_and_defaults_are_left():
    assert called(np.int64(3)) == (3, 2.0, False, None)
    result = called(np.array(3), 1, loud=np.True_, kind="b")
    assert result == (3, 1.0, True, "b") and [type(each) for each in result[:3]] == [int, float, bool]
    assert called(k=9, p=1) == (9, 1.0, False, None)
    with pytest.raises(ValueError, match=r"^called: p must be a finite number > 0 and <= 1, got 0$"):
        called(3, 0)
    with pytest.raises(TypeError, match=r"^called: kind must be 'a' or 'b' or None, got 3$"):
        called(3, kind=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'k'"):
        called()
    with pytest.raises(TypeError, match="unexpected keyword argument 'kk'"):
        called(3, kk=3)


def test_a_dataclass_is_checked_however_it_is_made():
    config = Config(np.int64(4))
    assert type(config.width) is int and config == Config(width=4)
    for make in (lambda: Config(0), lambda: dataclasses.replace(config, width=0)):
        with pytest.raises(ValueError, match=r"^Config: width must be at least 1, got 0$"):
            make()


def test_a_section_of_errors_is_added_to_what_is_there():
    assert " ".join(inspect.getdoc(called).split()) == (
        "One line. Raises: TypeError: An argument is of another type than its annotation. ValueError: ``k`` is not at "
        'least 1 and at most 9; ``p`` is not finite and above 0 and at most 1; ``kind`` is not "a" or "b", or None. '
        "OSError: By hand. Source: none."
    )
    assert inspect.getdoc(Config).startswith("A configuration.\n\nRaises:\n    TypeError: ")


def test_a_misspelt_specification_is_an_error_at_once():
    with pytest.raises(TypeError, match=r"takes: arguments must be those of called, got \['q'\]"):
        takes(q=Int(1))(called)
