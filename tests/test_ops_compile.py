"""Every operator in torch.compile, torch.export and one AOTInductor package that holds all of them."""

import collections
import io

import pytest
import torch
from cases import ALL_CASES, SYSTEMS
from cases.base import build, floating, floats_of, tensors_of
from torch._dynamo.backends.debugging import aot_eager
from torch.export import Dim

from torch_hrr import encoding, hrr
from torch_hrr.io import inductor_configs

BATCH = Dim("batch", min=2, max=64)

COMPILED = [case for case in ALL_CASES if case.takes("compile")]
EXPORTED = {name: [case for case in cases if case.takes("export")] for name, cases in SYSTEMS.items()}
PACKAGED = [case for case in ALL_CASES if case.takes("aoti")]


class Counter:
    """A backend that counts the graphs it has compiled; one that it gives up, to fix a float, does not count."""

    def __init__(self):
        self.graphs = []

    def __call__(self, graph, inputs):
        compiled = aot_eager(graph, inputs)
        self.graphs.append(graph)
        return compiled


class Call(torch.nn.Module):
    """One case as a module of its tensors."""

    def __init__(self, case, options):
        super().__init__()
        self.case, self.options = case, options
        self.names = [argument.name for argument in case.arguments]

    def forward(self, *tensors):
        arguments = dict(zip(self.names, tensors, strict=True)) | self.options
        if not self.case.is_out:
            return self.case.op(**arguments)
        # A result of the right shape without reading one: the mutation is what is exported.
        out = torch.zeros_like(self.case.functional(**arguments))
        self.case.op(**arguments, out=out)
        return out


def inputs_of(case, batch, items, dim, seed=0):
    return tuple(tensors_of(build(case.sized(batch, items, dim), seed=seed)).values())


def leaves_of(case, batch, items, dim):
    """The inputs, and those of them that now require a gradient."""
    arguments = build(case.sized(batch, items, dim))
    leaves = [tensor.requires_grad_() for tensor in floats_of(arguments).values()]
    return list(tensors_of(arguments).values()), leaves


def shapes_of(case):
    """What export is told of every input's dimensions."""
    return tuple({0: BATCH} if argument.batched else None for argument in case.arguments)


def module_of(case):
    return Call(case, dict(case.sized(2, 2, 2).options))


class Everything(torch.nn.Module):
    """Several cases in one program; arguments come in their order."""

    def __init__(self, cases):
        super().__init__()
        self.calls = torch.nn.ModuleList([module_of(case) for case in cases])

    def forward(self, *tensors):
        results = []
        for call in self.calls:
            results.extend(flat(call(*tensors[: len(call.names)])))
            tensors = tensors[len(call.names) :]
        return tuple(results)


def all_inputs(cases, *sizes, seed=0):
    return tuple(tensor for case in cases for tensor in inputs_of(case, *sizes, seed=seed))


def flat(results):
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def same(results, expected):
    return all(torch.equal(result, exact) for result, exact in zip(flat(results), flat(expected), strict=True))


def unequal(cases, results, expected):
    """The cases whose results differ in a bit."""
    names = [case.id for case in cases for _ in case.result_sizes(build(case.sized(2, 2, 2)))]
    return [name for name, r, e in zip(names, results, expected, strict=True) if not torch.equal(r, e)]


def targets(graph):
    """The overloads that a graph calls, those that functionalisation wraps included."""
    called = []
    for node in graph.nodes:
        for target in (node.target, *node.args):
            if isinstance(target, torch._ops.OpOverload) and target.namespace == "torch_hrr":
                called.append(target)
    return called


@pytest.fixture
def counter():
    torch._dynamo.reset()
    yield Counter()
    torch._dynamo.reset()


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.id)
def test_compile_makes_one_graph_for_two_shapes(case, counter):
    module = module_of(case)
    compiled = torch.compile(module, backend=counter, fullgraph=True, dynamic=True)
    for batch, items, dim in ((7, 4, 40), (5, 6, 48)):
        inputs = inputs_of(case, batch, items, dim)
        assert same(compiled(*inputs), module(*inputs))
    assert len(counter.graphs) == 1


@pytest.mark.parametrize("case", [case for case in COMPILED if case.takes("gradient")], ids=lambda case: case.id)
def test_compile_takes_gradients_in_one_graph(case, counter):
    module = module_of(case)
    compiled = torch.compile(module, backend=counter, fullgraph=True, dynamic=True)
    for batch, items, dim in ((7, 4, 40), (5, 6, 48)):
        inputs, leaves = leaves_of(case, batch, items, dim)
        grads = []
        for function in (compiled, module):
            results = floating(flat(function(*inputs)))
            grads.append(torch.autograd.grad([(result.sin()).sum() for result in results], leaves))
        assert same(grads[0], grads[1])
    assert len(counter.graphs) == 1


@pytest.mark.parametrize("function", (hrr.bind_power, hrr.inverse, lambda a, scale: encoding.rotate(a, scale=scale)))
@pytest.mark.parametrize("kind", (int, float))
def test_compile_takes_numbers_that_change(function, kind, counter):
    compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
    a = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    for number in (2, 3, 4):
        assert torch.equal(compiled(a, kind(number)), function(a, kind(number)))


@pytest.mark.parametrize("cases", EXPORTED.values(), ids=EXPORTED)
def test_export_keeps_one_node_and_any_batch(cases):
    module = Everything(cases)
    shapes = tuple(shape for case in cases for shape in shapes_of(case))
    program = torch.export.export(module, all_inputs(cases, 3, 4, 40), dynamic_shapes=(shapes,))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    # The shape of an out form's tensor comes from the functional form.
    nodes = collections.Counter([case.op for case in cases] + [case.functional for case in cases if case.is_out])
    for exported in (program, program.run_decompositions(), torch.export.load(stored)):
        assert collections.Counter(targets(exported.graph)) == nodes
        for batch in (3, 7):
            inputs = all_inputs(cases, batch, 4, 40, seed=batch)
            assert not unequal(cases, exported.module()(*inputs), module(*inputs))


def test_one_package_of_all_operators(tmp_path):
    """Compiled once by AOTInductor, loaded, and bitwise equal to eager at two batch sizes; without boxing arguments."""
    module = Everything(PACKAGED)

    example = all_inputs(PACKAGED, 3, 3, 24, seed=3)
    shapes = tuple(shape for case in PACKAGED for shape in shapes_of(case))
    program = torch.export.export(module, example, dynamic_shapes=(shapes,))
    path = torch._inductor.aoti_compile_and_package(
        program, package_path=str(tmp_path / "operators.pt2"), inductor_configs=inductor_configs()
    )
    package = torch._inductor.aoti_load_package(path)
    for batch in (3, 8):
        inputs = all_inputs(PACKAGED, batch, 3, 24, seed=batch)
        assert not unequal(PACKAGED, package(*inputs), module(*inputs))


def test_inductor_trains_through_all_operators():
    """Forward and backward of every differentiable operator in one compiled step of torch's default backend."""
    cases = [case for case in COMPILED if case.takes("gradient") and case.wrapper]
    module = Everything(cases)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, dynamic=True)
    for batch in (3, 5):
        pairs = [leaves_of(case, batch, 3, 24) for case in cases]
        inputs, leaves = ([x for pair in pairs for x in pair[i]] for i in range(2))
        grads = []
        for function in (compiled, module):
            loss = sum((result * result.detach().sign()).sum() for result in function(*inputs))
            grads.append(torch.autograd.grad(loss, leaves))
        for grad, expected in zip(*grads, strict=True):
            torch.testing.assert_close(grad, expected, rtol=1e-5, atol=1e-6)
    torch._dynamo.reset()
