"""What calls take, as data: from one line an argument is checked, and its call documented and tested."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import textwrap
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

import torch

from torch_hrr._checks import FLOATING, brief, check_bool, check_generator, check_seed, choice, integer, number
from torch_hrr.runtime.device import resolve_device

_Call = TypeVar("_Call", bound=Callable[..., Any])
_WIDTH = 100

CALLS: dict[str, tuple[Any, dict[str, Spec]]] = {}
"""Every call that `takes` decorates, by its full name: the function or class, and its arguments."""


class Spec:
    """What an argument must be: called with the names of call and argument it returns the value, or raises."""

    @property
    def words(self) -> str:
        """What the value must be where its type does not say so, for the "Raises" of a docstring."""
        return ""

    def __call__(self, op: str, argument: str, value: Any) -> Any:
        """The value, of Python's types; TypeError or ValueError in the name of call and argument."""
        raise NotImplementedError

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Values that are refused, and how."""
        raise NotImplementedError

    def or_none(self) -> Spec:
        """The same or None."""
        return _OrNone(self)


@dataclasses.dataclass(frozen=True)
class _OrNone(Spec):
    spec: Spec

    def __call__(self, op: str, argument: str, value: Any) -> Any:
        try:
            return None if value is None else self.spec(op, argument, value)
        except TypeError as error:
            raise TypeError(str(error).replace(", got ", " or None, got ", 1)) from None

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        return ((value, error) for value, error in self.spec.wrong() if value is not None)

    @property
    def words(self) -> str:
        return self.spec.words and f"{self.spec.words}, or None"


@dataclasses.dataclass(frozen=True)
class Int(Spec):
    """An int from `least` to `most`, below 2^63 where there is a `least`."""

    least: int | None = None
    most: int | None = None

    def __call__(self, op: str, argument: str, value: Any) -> int:
        """The int."""
        return integer(op, argument, value, self.least, self.most)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Other types, and the ints beside the bounds."""
        yield from ((each, TypeError) for each in ("3", 2.0, True, None))
        if self.least is not None:
            yield self.least - 1, ValueError
            yield (2**63 if self.most is None else self.most + 1), ValueError

    @property
    def words(self) -> str:
        """The bounds."""
        lower = [] if self.least is None else [f"at least {self.least}"]
        return " and ".join(lower + ([] if self.most is None else [f"at most {self.most}"]))


@dataclasses.dataclass(frozen=True)
class Real(Spec):
    """A finite number from `least` to `most`, without an end that is open."""

    least: float = -math.inf
    most: float = math.inf
    open_left: bool = False
    open_right: bool = False

    def __call__(self, op: str, argument: str, value: Any) -> float:
        """The float."""
        return number(op, argument, value, self.least, self.most, self.open_left, self.open_right)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Other types, and the numbers beside the ends."""
        yield from ((each, TypeError) for each in ("3", 1j, True, None))
        yield from ((each, ValueError) for each in (math.nan, math.inf, -math.inf))
        if math.isfinite(self.least):
            yield (self.least if self.open_left else math.nextafter(self.least, -math.inf)), ValueError
        if math.isfinite(self.most):
            yield (self.most if self.open_right else math.nextafter(self.most, math.inf)), ValueError

    @property
    def words(self) -> str:
        """The ends."""
        lower = f"{'above' if self.open_left else 'at least'} {self.least:g}"
        upper = f"{'below' if self.open_right else 'at most'} {self.most:g}"
        ends = ([lower] if math.isfinite(self.least) else []) + ([upper] if math.isfinite(self.most) else [])
        return " and ".join(["finite", *ends])


class Bool(Spec):
    """A bool."""

    def __call__(self, op: str, argument: str, value: Any) -> bool:
        """The bool."""
        return check_bool(op, argument, value)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Words and numbers."""
        return ((each, TypeError) for each in ("False", 1, 0.0, None))


@dataclasses.dataclass(frozen=True)
class Choice(Spec):
    """One of a few words."""

    known: Collection[str]

    def __call__(self, op: str, argument: str, value: Any) -> str:
        """The word."""
        return choice(op, argument, value, self.known)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Another word, and what is none."""
        yield from ((each, TypeError) for each in (3, None, [*self.known]))
        yield f"no {''.join(self.known)}", ValueError

    @property
    def words(self) -> str:
        """The words."""
        *others, last = (f'"{word}"' for word in self.known)
        return f"{', '.join(others)} or {last}" if others else last


class Seed(Spec):
    """Any int, modulo 2^64."""

    def __call__(self, op: str, argument: str, value: Any) -> int:
        """The int that operators take."""
        return check_seed(op, value, argument)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """What is no int."""
        return ((each, TypeError) for each in ("3", 1.0, True))


@dataclasses.dataclass(frozen=True)
class Instance(Spec):
    """An object of a class."""

    kind: type

    def __call__(self, op: str, argument: str, value: Any) -> Any:
        """The object."""
        if not isinstance(value, self.kind):
            kind = self.kind.__name__
            article = "an" if kind[0] in "AEIOU" else "a"
            raise TypeError(f"{op}: {argument} must be {article} {kind}, got {type(value).__name__}")
        return value

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """The class itself, and words."""
        return ((each, TypeError) for each in (self.kind, "3", 3, None))


class Generator(Spec):
    """A generator of the CPU, or None."""

    def __call__(self, op: str, argument: str, value: Any) -> Any:
        """The generator."""
        check_generator(op, value)
        return value

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Seeds."""
        return ((each, TypeError) for each in ("3", 3))


@dataclasses.dataclass(frozen=True)
class Dtype(Spec):
    """One of some dtypes, those of the operators unless others are named."""

    known: tuple[torch.dtype, ...] = FLOATING

    @property
    def words(self) -> str:
        """The dtypes."""
        *others, last = (str(dtype).removeprefix("torch.") for dtype in self.known)
        return f"{', '.join(others)} or {last}" if others else last

    def __call__(self, op: str, argument: str, value: Any) -> torch.dtype:
        """The dtype."""
        # By type first: an array among the values compared would give an array.
        if not isinstance(value, torch.dtype) or value not in self.known:
            raise TypeError(f"{op}: {argument} must be {self.words}, got {brief(value)}")
        return value

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """Names of dtypes, and other dtypes."""
        others = {torch.int64, torch.complex64, *FLOATING} - {*self.known}
        return ((each, TypeError) for each in ("float32", float, None, *others))


class Device(Spec):
    """A device that works, as for `torch_hrr.runtime.resolve_device`; None is left to the call."""

    @property
    def words(self) -> str:
        """That torch knows it."""
        return "a device that torch knows"

    def __call__(self, op: str, argument: str, value: Any) -> torch.device | None:
        """The device."""
        return None if value is None else resolve_device(value, op=op)

    def wrong(self) -> Iterator[tuple[Any, type[Exception]]]:
        """No device, and one that torch does not know."""
        yield from ((2.5, TypeError), ([], TypeError), ("nowhere", ValueError))


def takes(call: str = "", /, **specs: Spec) -> Callable[[_Call], _Call]:
    """Decorates a function, a method or a dataclass whose arguments are as `specs` say, or an error before any work.

    Arguments that are given are checked and converted in their order; defaults are not. Errors are in the name of
    ``call``: for "", of the class where it is made or called, else of the function. The docstring gets what is refused.
    """

    def decorate(target: _Call) -> _Call:
        made: Any = target
        if isinstance(target, type):
            made.__init__ = _checking(made.__init__, call, specs)
        else:
            made = _checking(target, call, specs)
        made.__doc__ = _with_raises(target.__doc__, specs)
        CALLS[f"{target.__module__}.{target.__qualname__}"] = (made, specs)
        decorated: _Call = made
        return decorated

    return decorate


def _checking(function: Callable[..., Any], call: str, specs: dict[str, Spec]) -> Callable[..., Any]:
    names = list(inspect.signature(function).parameters)
    if unknown := specs.keys() - set(names):
        raise TypeError(f"takes: arguments must be those of {function.__qualname__}, got {brief(sorted(unknown))}")
    places = [(place, name, specs[name]) for place, name in enumerate(names) if name in specs]
    of_class = not call and function.__name__ in ("__init__", "forward")
    name_of_call = call or function.__name__

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        op = type(args[0]).__name__ if of_class else name_of_call
        given = [*args]
        for place, name, spec in places:
            if place < len(given):
                given[place] = spec(op, name, given[place])
            elif name in kwargs:
                kwargs[name] = spec(op, name, kwargs[name])
        return function(*given, **kwargs)

    checked.__dict__["takes"] = specs
    return checked


def _with_raises(doc: str | None, specs: dict[str, Spec]) -> str | None:
    """A docstring whose section "Raises" begins with what is refused."""
    if doc is None:
        return None
    wanted = [f"``{name}`` is not {spec.words}" for name, spec in specs.items() if spec.words]
    lines = ["TypeError: An argument is of another type than its annotation."]
    if wanted:
        lines += textwrap.wrap(f"ValueError: {'; '.join(wanted)}.", _WIDTH, subsequent_indent="    ")
    section = "Raises:\n" + textwrap.indent("\n".join(lines), "    ")
    plain = inspect.cleandoc(doc)
    if "\nRaises:\n" in plain:
        return plain.replace("\nRaises:\n", f"\n{section}\n", 1)
    for later in ("\n\nCost:", "\n\nSource:"):
        if later in plain:
            return plain.replace(later, f"\n\n{section}{later}", 1)
    return f"{plain}\n\n{section}\n"
