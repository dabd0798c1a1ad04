"""Reservoirs in graphs: torch.export, strict and not, with any number of steps, torch.compile, and AOTInductor."""

import copy
import pickle

import pytest
import torch
from torch.export import Dim

from torch_hrr.encoding import LiquidStateMachine

T = torch.arange(200, dtype=torch.float64)
SERIES = torch.stack([torch.sin(0.2 * T) * torch.cos(0.031 * T), torch.sin(0.05 * T)], 1)
BATCH = torch.stack([SERIES[:60], SERIES[50:110]])


def drawn(units=40, **settings):
    """Below 256 units, or with more than a fifth of them heard, products in a graph are dense."""
    m = LiquidStateMachine(2, units, leak=0.9, ridge=1e-2, dtype=torch.float64, **settings)
    return m.fit(SERIES[:-1], SERIES[1:])


def with_feedback():
    draw = torch.Generator().manual_seed(0)
    square, wide, back = (torch.rand(30, n, generator=draw, dtype=torch.float64) - 0.5 for n in (30, 2, 2))
    m = LiquidStateMachine.from_weights(0.2 * square, wide, None, wide.abs()[:, 0] + 0.5, "relu", 0.3 * back, ridge=0.1)
    return m.fit(SERIES[:-1], SERIES[1:])


class Call(torch.nn.Module):
    """A method of a machine as a module, as the guide writes it."""

    def __init__(self, machine, call):
        super().__init__()
        self.machine, self.call = machine, call

    def forward(self, *given):
        return self.call(self.machine, *given)


STATE = drawn().run(BATCH)[:, -1].contiguous()
CALLS = {
    "forward": (drawn, lambda m, x: m(x), (BATCH,)),
    "forward of one": (lambda: drawn(density=0.5), lambda m, x: m(x), (SERIES,)),
    "predict": (drawn, lambda m, x, state: m.predict(x, state, return_state=True), (BATCH, STATE)),
    "step": (drawn, lambda m, x, state: m.step(x, state), (BATCH[:, 0], STATE)),
    "step of one": (drawn, lambda m, x, state: m.step(x, state), (SERIES[0], STATE[0])),
    "forecast": (drawn, lambda m, state: m.forecast(9, state=state, return_state=True), (STATE,)),
    "forecast after a series": (drawn, lambda m, x: m.forecast(9, x), (SERIES,)),
    "forecast from the end": (drawn, lambda m, x: x + m.forecast(9), (SERIES[:9],)),
    "feedback": (with_feedback, lambda m, x: m.predict(x), (BATCH,)),
    "feedback of outputs": (with_feedback, lambda m, x: m.run(x, outputs=x), (BATCH,)),
    "feedback in a forecast": (with_feedback, lambda m, x: m.forecast(9, x), (BATCH,)),
    "feedback in a step": (with_feedback, lambda m, x, state: m.step(x, state), (BATCH[:, 0], STATE[:, :30].clone())),
}


def close(found, expected):
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("name", CALLS)
def test_what_is_exported_gives_the_same(name):
    make, call, given = CALLS[name]
    module = Call(make(), call)
    expected = module(*given)
    for strict in (False, True):
        exported = torch.export.export(module, given, strict=strict)
        close(exported.module()(*given), expected)
    # Tracing left nothing behind.
    close(module(*given), expected)
    close(copy.deepcopy(module)(*given), expected)


@pytest.mark.parametrize("name", ["forward", "forward of one", "feedback"])
def test_the_number_of_steps_may_be_any(name, tmp_path):
    """The graph holds one step, whatever their number, and goes through a file."""
    make, call, given = CALLS[name]
    module, time = Call(make(), call), given[0].dim() - 2
    for strict in (False, True):
        exported = torch.export.export(module, given, dynamic_shapes=(({time: Dim("steps")},),), strict=strict)
        calls = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
        assert calls.count("scan") == 1 and len(calls) < 50
        torch.export.save(exported, tmp_path / "m.pt2")
        loaded = torch.export.load(tmp_path / "m.pt2").module()
        for steps in (1, 3, 150):
            x = torch.cat([given[0]] * 3, time).narrow(time, 0, steps)
            close(loaded(x), module(x))


SEQUENCES = [name for name, (_, _, given) in CALLS.items() if len(given[0]) == 2 and "one" not in name]


@pytest.mark.parametrize("name", SEQUENCES)
def test_the_number_of_sequences_may_be_any(name):
    make, call, given = CALLS[name]
    module, shapes = Call(make(), call), (tuple({0: Dim("sequences")} for _ in given),)
    given = [torch.cat([each, each[:1]]) for each in given]
    for strict in (False, True):
        loaded = torch.export.export(module, tuple(given), dynamic_shapes=shapes, strict=strict).module()
        for count in (2, 5):
            more = [torch.cat([each, each])[:count] for each in given]
            close(loaded(*more), module(*more))


@pytest.mark.parametrize("name", ["forward", "step of one", "feedback in a forecast"])
def test_a_compiled_graph_is_whole(name):
    make, call, given = CALLS[name]
    module = Call(make(), call)
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
    close(compiled(*given), module(*given))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        close(compiled(*given), module(*given))
    # A copy through a file leaves what was compiled in place behind.
    module.machine.compile(backend="eager")
    close(pickle.loads(pickle.dumps(module.machine)).run(SERIES), module.machine.run(SERIES))


def test_no_rows_and_no_steps_are_compiled_too():
    m = drawn()
    compiled = torch.compile(Call(m, lambda m, x: (m(x), m.predict(x), m.forecast(0, x))), backend="eager")
    for x in (BATCH, BATCH[:, :0], BATCH[:0]):
        close(compiled(x), (m(x), m.predict(x), m.forecast(0, x)))


def test_tokens_enter_a_graph_through_their_embedder():
    embedder = torch.nn.Embedding(5, 8)

    class Rows(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = embedder

        def forward(self, tokens, positions):
            return self.table(tokens)

    m, tokens = LiquidStateMachine(8, 30, embedder=Rows()), torch.arange(20).view(2, 10) % 5
    exported = torch.export.export(m, (tokens,), strict=False)
    found = exported.module()(tokens)
    torch.testing.assert_close(found, m(tokens))
    assert not found.requires_grad


@pytest.mark.skipif(torch.__version__ < "2.13", reason="AOTInductor of torch 2.11 and 2.12 has no scan in C++")
def test_it_is_packaged_ahead_of_time(tmp_path):
    """A step and a series of any length, in a model, without Python."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.reservoir, self.head = drawn(), torch.nn.Linear(40, 3, dtype=torch.float64)

        def forward(self, x, now):
            said, state = self.reservoir.step(now)
            return self.head(self.reservoir(x)), said, state

    model = Model()
    exported = torch.export.export(model, (BATCH, BATCH[:, 0]), dynamic_shapes=({1: Dim("steps")}, None))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "m.pt2"))
    loaded = torch._inductor.aoti_load_package(package)
    for x in (BATCH, torch.cat([BATCH, BATCH], 1)):
        close(tuple(loaded(x, BATCH[:, 1])), model(x, BATCH[:, 1]))
