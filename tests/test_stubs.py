"""The types of `torch_hrr.ops` are those that the operators' schemas give.

Run as a program with --update, it writes torch_hrr/_ops.pyi.
"""

import pathlib
import re
import textwrap

import torch
from lock_file import command_line
from test_schema import registered

import torch_hrr

STUB = pathlib.Path(__file__).parents[1] / "torch_hrr" / "_ops.pyi"
UPDATE = "python tests/test_stubs.py --update"
HEAD = '''\
"""The operators `torch.ops.torch_hrr` with the types of their schemas; written by tests/test_stubs.py --update."""

# fmt: off
from collections.abc import Sequence
from typing import Any, overload

import torch
from torch._ops import OpOverload, OpOverloadPacket
from torch.types import IntLikeType
'''
TYPES = {"SymInt": "IntLikeType", "ScalarType": "torch.dtype", "Tensor": "torch.Tensor"}
WIDTH = 120


def python_type(text):
    """Tensor(a!)[] is Sequence[torch.Tensor], SymInt? is IntLikeType | None; other types are themselves."""
    text = re.sub(r"\([a-z]!?\)", "", text)
    if text.endswith("?"):
        return f"{python_type(text[:-1])} | None"
    if text.endswith("[]"):
        return f"Sequence[{python_type(text[:-2])}]"
    return TYPES.get(text, text)


def parameters(schema):
    """As a def has them; types are read from the schema's text, which tells SymInt from int."""
    inside = re.fullmatch(r"[^(]*\((.*)\) -> .*", str(schema)).group(1)
    for part in ["self", *inside.split(", ")]:
        declared, _, default = part.partition("=")
        type_, _, name = declared.rpartition(" ")
        if type_:
            by_name = {argument.name: argument for argument in schema.arguments}
            default = f" = {by_name[name].default_value!r}" if default else ""
            yield f"{name}: {python_type(type_)}{default}".replace("'", '"')
        else:
            yield part


def result(schema):
    types = [python_type(str(each.type)) for each in schema.returns]
    return "None" if not types else types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"


def call(schema, decorator=""):
    """A method in few lines, which end between parameters."""
    *names, last = (each.replace(" ", "\0") for each in parameters(schema))
    end = f"{last}) -> {result(schema)}: ...".replace(" ", "\0")
    line = f"    def\0__call__({', '.join([*names, end])}"
    filled = textwrap.fill(line, WIDTH, subsequent_indent=" " * 8, break_on_hyphens=False)
    return f"{decorator}{filled}\n".replace("\0", " ")


def stub():
    """A class for each overload and for each operator, and one of them all."""
    operators = {}
    for key, schema in sorted(registered().items()):
        _, name, overload = re.split(r"::|\.", key)
        operators.setdefault(name, {})[overload] = schema
    parts = [HEAD]
    for name, overloads in operators.items():
        fields = ""
        for overload, schema in overloads.items():
            parts.append(f"class _call_{name}_{overload}(OpOverload[..., Any]):\n{call(schema)}")
            fields += f"    {overload}: _call_{name}_{overload}\n"
        decorator = "    @overload\n" if len(overloads) > 1 else ""
        calls = "".join(call(schema, decorator) for schema in overloads.values())
        parts.append(f"class _operator_{name}(OpOverloadPacket[..., Any]):\n{fields}{calls}")
    parts.append("class _Operators:\n" + "".join(f"    {name}: _operator_{name}\n" for name in operators))
    return "\n".join([*parts, "ops: _Operators\n"])


def test_the_stub_is_what_the_schemas_give():
    assert STUB.read_text() == stub(), f"if the schemas are meant: {UPDATE}"


def test_the_typed_operators_are_those_of_torch_in_scripts_too():
    def bound(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch_hrr.ops.bind(a, b)

    a, b = torch.randn(2, 3, 8)
    assert torch_hrr.ops is torch.ops.torch_hrr
    for way in (bound, torch.jit.script(bound), torch.compile(bound, backend="eager", fullgraph=True)):
        assert torch.equal(way(a, b), torch.ops.torch_hrr.bind(a, b))


if __name__ == "__main__":
    command_line(__doc__, STUB, stub())
