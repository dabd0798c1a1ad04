"""Every operator in TorchScript: scripted, traced, saved, loaded, frozen, and differentiated."""

import importlib.util
import io

import pytest
import torch
from cases import ALL_CASES
from cases.base import build, floating, tensors_of

SCRIPTED = [case for case in ALL_CASES if case.takes("script")]

cases = pytest.mark.parametrize("case", SCRIPTED, ids=lambda case: case.id)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """One nn.Module a case, its forward written out from the schema: the compiler reads source files."""
    lines = ["from typing import Optional, Tuple", "import torch", "from torch import Tensor", ""]
    for i, case in enumerate(SCRIPTED):
        schema = case.op._schema
        parameters = [f"{a.name}: {a.type.annotation_str}" for a in schema.arguments]
        passed = [f"out={a.name}" if a.kwarg_only else a.name for a in schema.arguments]
        results = [r.type.annotation_str for r in schema.returns]
        kind = "Tensor" if case.is_out else (results[0] if len(results) == 1 else f"Tuple[{', '.join(results)}]")
        call = f"torch.ops.{schema.name.replace('::', '.')}({', '.join(passed)})"
        body = [f"        {call}", "        return out"] if case.is_out else [f"        return {call}"]
        head = f"    def forward(self, {', '.join(parameters)}) -> {kind}:"
        lines += [f"class Case{i}(torch.nn.Module):", head, *body, ""]
    path = tmp_path_factory.mktemp("script") / "scripted_cases.py"
    path.write_text("\n".join(lines))
    spec = importlib.util.spec_from_file_location("scripted_cases", path)
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return {case.id: getattr(source, f"Case{i}") for i, case in enumerate(SCRIPTED)}


def call(case, function, arguments):
    """The results through a scripted module; an out form writes into a tensor of its own."""
    extra = {"out": case.make_out(arguments)} if case.is_out else {}
    results = function(**arguments, **extra)
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def same(results, expected):
    return all(torch.equal(result, exact) for result, exact in zip(results, expected, strict=True))


def reload(module):
    stored = io.BytesIO()
    torch.jit.save(module, stored)
    stored.seek(0)
    return torch.jit.load(stored)


@cases
def test_script_save_load_freeze(case, modules):
    scripted = torch.jit.script(modules[case.id]())
    assert case.op._schema.name in {node.kind() for node in scripted.graph.nodes()}
    for module in (scripted, reload(scripted), torch.jit.freeze(scripted.eval()), reload(torch.jit.freeze(scripted))):
        for batch, dim in ((3, 24), (5, 64)):
            arguments = build(case.sized(batch, 4, dim))
            # Twice: the second call runs the optimised graph.
            for _ in range(2):
                assert same(call(case, module, arguments), case.run(arguments))


@pytest.mark.parametrize("case", [case for case in SCRIPTED if case.takes("gradient")], ids=lambda case: case.id)
def test_gradients_through_a_loaded_script(case, modules):
    loaded = reload(torch.jit.script(modules[case.id]()))
    arguments = build(case.sized(3, 4, 24))
    leaves = [arguments[name].requires_grad_() for name in case.differentiable]
    expected = torch.autograd.grad([result.sum() for result in floating(case.run(arguments))], leaves)
    for _ in range(3):
        results = floating(call(case, loaded, arguments))
        assert same(torch.autograd.grad([result.sum() for result in results], leaves), expected)


@cases
def test_trace(case):
    arguments = build(case.sized(3, 4, 24))
    tensors = tensors_of(arguments)

    def function(*given):
        results = case.run(arguments | dict(zip(tensors, given, strict=True)))
        return results[0] if len(results) == 1 else results

    traced = reload(torch.jit.trace(function, tuple(tensors.values())))
    other = build(case.sized(3, 4, 24), seed=1)
    results = traced(*tensors_of(other).values())
    assert same((results,) if isinstance(results, torch.Tensor) else results, case.run(other))


@pytest.mark.parametrize("case", [case for case in SCRIPTED if case.wrapper], ids=lambda case: case.id)
def test_optional_arguments_may_be_left_out(case, modules):
    """Defaults of the schema hold in a script, and None stands for an absent tensor."""
    arguments = build(case.sized(3, 4, 24))
    required = {
        a.name: arguments[a.name]
        for a in case.op._schema.arguments
        if a.name in arguments and not a.has_default_value()
    }
    defaults = {a.name: a.default_value for a in case.op._schema.arguments if a.has_default_value()}
    scripted = torch.jit.script(modules[case.id]())
    assert same(call(case, scripted, required | defaults), case.run(required | defaults))
