"""The Python calls of the package are those that tests/api.lock records: signatures, defaults, fields and constants.

Run as a program with --update, it writes the lock file.
"""

import dataclasses
import difflib
import functools
import importlib
import inspect
import pathlib
import re
import sys
import types
import typing

import pytest
import torch
from lock_file import command_line

import torch_hrr
from torch_hrr import encoding

LOCK = pathlib.Path(__file__).with_name("api.lock")
UPDATE = "python tests/test_api.py --update"
# Other methods of Python's own protocols, such as __len__, are public; __replace__ is there from 3.13 on.
PLUMBING = set(vars(object)) - {"__init__"}
PLUMBING |= {"__copy__", "__deepcopy__", "__setstate__", "__getnewargs__", "__del__", "__replace__"}
# They change with the release or the machine: their type is recorded alone.
CHANGING = {"torch_hrr.__version__", "torch_hrr.cmake_prefix_path"}


def public_modules():
    """Those that say in `__all__` what of them is public, and have no private name."""
    root = pathlib.Path(torch_hrr.__file__).parent
    for path in sorted(root.rglob("*.py")):
        names = [name for name in path.relative_to(root.parent).with_suffix("").parts if name != "__init__"]
        if re.search(r"^__all__\b", path.read_text(), re.MULTILINE) and not any(name[0] == "_" for name in names):
            yield importlib.import_module(".".join(names))


def lines_of(modules):
    """A line for each public name of the modules and each public member of their classes, sorted."""
    public = {(module, name): getattr(module, name) for module in modules for name in module.__all__}
    package = min(module.__name__ for module in modules).split(".")[0]
    homes, lines = {}, []
    # An object of several names is at home under its own, in the module nearest to its definition: those that older
    # programs gave have none of their own.
    for (module, name), value in sorted(public.items(), key=lambda item: (len(item[0][0].__name__), item[0][1])):
        if is_named(value):
            defined = f"{value.__module__}."
            is_near = defined.startswith((f"{module.__name__}.", f"{package}.compat."))
            at_home = name == value.__name__ and is_near
            homes[value] = f"{module.__name__}.{name}" if at_home or value not in homes else homes[value]
    for (module, name), value in public.items():
        path = f"{module.__name__}.{name}"
        if is_named(value) and homes[value] != path:
            lines.append(f"{path} alias of {homes[value]}")
        elif inspect.isclass(value):
            lines += class_lines(path, value, homes, package)
        elif is_named(value):
            lines.append(f"{path} function {signature(value)}")
        elif isinstance(value, type(torch.ops.torch_hrr)):
            lines.append(f"{path} operators of schema.lock")
        elif inspect.ismodule(value):
            assert value in modules, f"{path} must have an __all__"
            lines.append(f"{path} module")
        else:
            lines.append(f"{path} {type(value).__name__}" + (f" = {text(value)}" if path not in CHANGING else ""))
    return sorted(lines)


def is_named(value):
    return inspect.isroutine(value) or inspect.isclass(value)


def class_lines(path, cls, homes, package):
    """A class, and its members that the package defines; those of a public base are lines of the base."""
    own = [base for base in cls.__mro__ if base.__module__.split(".")[0] == package]
    bases = [homes[base] for base in own[1:] if base in homes]
    foreign = {base for each in own for base in each.__bases__} - {*own, object, typing.Generic}
    kind = f"dataclass(frozen={cls.__dataclass_params__.frozen})" if "__dataclass_params__" in vars(cls) else "class"
    yield f"{path} {kind} ({', '.join(bases + sorted(base.__name__ for base in foreign))})"
    inherited = {item for base in own[1:] if base in homes for item in owners(base).items()}
    for name, base in owners(cls).items():
        if base in own and (name, base) not in inherited and is_public(base, name):
            yield f"{path}.{name} {member(base, name)}"


def owners(cls):
    """The class that defines each member."""
    return {name: base for base in reversed(cls.__mro__) for name in {*vars(base), *inspect.get_annotations(base)}}


def is_public(cls, name):
    """A private name is not; `_fields` is the order of a named tuple."""
    if re.fullmatch("__[a-z]+__", name):
        return name not in PLUMBING and inspect.isfunction(vars(cls).get(name))
    return not name.startswith("_") or name == "_fields"


def member(cls, name):
    """Kind and signature, or kind and value, of what a class defines by this name."""
    raw, annotations = vars(cls).get(name), inspect.get_annotations(cls)
    if name in getattr(cls, "__members__", {}):
        return f"member = {text(cls[name].value)}"
    if name in annotations:
        return f"field: {annotation(annotations[name])}{default_of_field(cls, name)}"
    call = getattr(raw, "fget", None) or getattr(raw, "func", None) or getattr(raw, "__func__", raw)
    alias = getattr(call, "__name__", name)
    if alias != name and alias in vars(cls) and is_public(cls, alias):
        return f"alias of {alias}"
    if isinstance(raw, property | functools.cached_property):
        return f"property{' settable' if getattr(raw, 'fset', None) else ''} {signature(call)}"
    if inspect.isfunction(call):
        return f"{'method' if call is raw else type(raw).__name__} {signature(call)}"
    return f"constant = {text(raw)}"


def default_of_field(cls, name):
    field = getattr(cls, "__dataclass_fields__", {}).get(name)
    if field and callable(field.default_factory):
        return f" made by {text(field.default_factory)}"
    defaults = getattr(cls, "_field_defaults", vars(cls))
    value = field.default if field else defaults.get(name, dataclasses.MISSING)
    return "" if value is dataclasses.MISSING else f" = {text(value)}"


class Printed(str):
    """A text that `repr` puts in no quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def signature(call):
    """As `inspect` prints it, but for annotations, which it would put in quotes, and defaults; and what it takes."""
    found, empty = inspect.signature(call, eval_str=False), inspect.Parameter.empty

    def printed(value, write):
        return value if value is empty else Printed(write(value))

    parameters = [
        each.replace(annotation=printed(each.annotation, annotation), default=printed(each.default, text))
        for each in found.parameters.values()
    ]
    printed_call = str(
        found.replace(parameters=parameters, return_annotation=printed(found.return_annotation, annotation))
    )
    bounds = [f"{name} {spec.words}" for name, spec in getattr(call, "takes", {}).items() if spec.words]
    return f"{printed_call} where {', '.join(bounds)}" if bounds else printed_call


def annotation(value):
    """As the source has it; of an object, without its modules, which change with torch."""
    value = getattr(value, "__forward_arg__", value)
    return value if isinstance(value, str) else re.sub(r"\b[a-z_]\w*\.", "", inspect.formatannotation(value))


def text(value):
    """A value in the same words on every machine and in every run."""
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(text, value)))})"
    if isinstance(value, types.MappingProxyType):
        return f"of {', '.join(value)}"
    return value.__qualname__ if is_named(value) else re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def changes(recorded, actual):
    """The lines that are removed, after a -, and those that are added, after a +."""
    return [line for line in [*difflib.unified_diff(recorded, actual, n=0)][2:] if line[0] in "-+"]


def lock_text():
    return "".join(f"{line}\n" for line in lines_of(list(public_modules())))


def test_calls_are_those_of_the_lock():
    pytest.importorskip("gymnasium")  # which torch_hrr.field.gym needs
    recorded = LOCK.read_text() if LOCK.exists() else ""
    changed = changes(recorded.splitlines(), lock_text().splitlines())
    assert not changed, "\n".join(["", *changed, f"if that is meant: {UPDATE}"])


def test_defaults_that_no_signature_shows():
    machine = encoding.LSMGenerator(encoding.SinusoidalConfig(embedding_dim=4), units=2).machine
    assert (machine.spectral_radius, machine.leak, machine.input_scaling) == (0.5, 0.8, 0.5)


TOY = """
from __future__ import annotations
import dataclasses, enum, functools, math, typing
from torch import nn

__all__ = ["LIMITS", "Config", "Deeper", "Kind", "Layer", "Old", "Pair", "Report", "call"]
LIMITS = {3: 0.5}

def call(a: int, b: float = math.inf, *, c=len, d=frozenset("yx")) -> list[int]: ...

class _Base:
    tag = "toy"
    def shared(self, x=object()): ...

class Layer(_Base, nn.Module):
    weight: Tensor
    rate: float = 0.1
    def __init__(self, width: int = 3) -> None: ...
    def __len__(self) -> int: ...
    def __repr__(self): ...
    def _hidden(self): ...
    def forward(self, x: Tensor, /, *rest, **options) -> Tensor: ...
    run = forward
    @property
    def size(self) -> int: ...
    @size.setter
    def size(self, value): ...
    @functools.cached_property
    def once(self) -> int: ...
    @classmethod
    def load(cls, path: str) -> Self: ...
    @staticmethod
    def check(x): ...

class Deeper(Layer): ...
Old = Layer

@dataclasses.dataclass(frozen=True)
class Config:
    n: int
    names: list[str] = dataclasses.field(default_factory=list)
    p: float = 0.5

class Kind(enum.Enum):
    A = "a"

class Pair(typing.NamedTuple):
    b: int
    a: int = 1

class Report(typing.TypedDict):
    seconds: float
"""

LINES = """
toy.Config dataclass(frozen=True) ()
toy.Config.__init__ method (self, n: int, names: list[str] = <factory>, p: float = 0.5) -> None
toy.Config.n field: int
toy.Config.names field: list[str] made by list
toy.Config.p field: float = 0.5
toy.Deeper class (toy.Layer, Module)
toy.Kind class (Enum)
toy.Kind.A member = 'a'
toy.LIMITS dict = {3: 0.5}
toy.Layer class (Module)
toy.Layer.__init__ method (self, width: int = 3) -> None
toy.Layer.__len__ method (self) -> int
toy.Layer.check staticmethod (x)
toy.Layer.forward method (self, x: Tensor, /, *rest, **options) -> Tensor
toy.Layer.load classmethod (cls, path: str) -> Self
toy.Layer.once property (self) -> int
toy.Layer.rate field: float = 0.1
toy.Layer.run alias of forward
toy.Layer.shared method (self, x=<object object>)
toy.Layer.size property settable (self) -> int
toy.Layer.tag constant = 'toy'
toy.Layer.weight field: Tensor
toy.Old alias of toy.Layer
toy.Pair class (tuple)
toy.Pair._fields constant = ('b', 'a')
toy.Pair.a field: int = 1
toy.Pair.b field: int
toy.Report class (dict)
toy.Report.seconds field: float
toy.call function (a: int, b: float = inf, *, c=len, d=frozenset('x', 'y')) -> list[int]
"""


def toy(source):
    """The lines of a module of this source."""
    module = types.ModuleType("toy")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "toy", module)
        exec(source, vars(module))
        return lines_of([module])


def test_every_kind_has_its_line():
    assert toy(TOY) == LINES.split("\n")[1:-1]


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    (
        ("{3: 0.5}", "{3: 0.6}", "LIMITS"),
        ("math.inf", "1e9", "call"),
        ("c=len", "c=max", "call"),
        ("a: int, b", "renamed: int, b", "call"),
        ("*, c=len", "c=len, *", "call"),
        (", x=object()", ", x: Any", "Layer.shared"),
        ("tag = ", "tag = 2 * ", "Layer.tag"),
        ("weight: Tensor", "weight: Tensor | None", "Layer.weight"),
        ("rate: float = 0.1", "rate: float", "Layer.rate"),
        ("width: int = 3", "*, width: int = 3", "Layer.__init__"),
        ("x: Tensor, /", "x: Tensor", "Layer.forward"),
        ("run = forward", "", "Layer.run"),
        ("@size.setter", "", "Layer.size"),
        ("once", "_once", "Layer.once"),
        ("@staticmethod", "", "Layer.check"),
        ("class Deeper(Layer)", "class Deeper(_Base)", "Deeper Deeper.shared Deeper.tag"),
        ("class Deeper(Layer): ...", "class Deeper(Layer): rate = 1", "Deeper.rate"),
        ("Old = Layer", "Old = Deeper", "Old"),
        ("frozen=True", "frozen=False", "Config"),
        ("=list", "=dict", "Config.names"),
        ("p: float = 0.5", "p: float = 0.6", "Config.__init__ Config.p"),
        ('A = "a"', 'A = "b"', "Kind.A"),
        ("b: int\n    a: int = 1", "a: int\n    b: int = 1", "Pair._fields Pair.a Pair.b"),
        ("seconds: float", "seconds: int", "Report.seconds"),
        ("_hidden", "_private", ""),
        ("__repr__", "__eq__", ""),
    ),
)
def test_a_change_of_the_toy_is_seen(before, after, changed):
    assert before in TOY
    found = changes(toy(TOY), toy(TOY.replace(before, after)))
    assert sorted({line.split()[0][1:] for line in found}) == [f"toy.{name}" for name in changed.split()]


if __name__ == "__main__":
    command_line(__doc__, LOCK, lock_text())
