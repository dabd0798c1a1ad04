"""A device that is named and not there is an error everywhere, except under the names of the programs that count on
the CPU then: those warn each time."""

import importlib
import inspect
import re
from functools import partial

import pytest
import torch
from test_wrong_types import GOOD, WORDS

import torch_hrr
from torch_hrr import assembly, encoding, field, hrr, io, runtime
from torch_hrr.assembly import simulator
from torch_hrr.io.saveable import saveable_classes
from torch_hrr.runtime import device

DEVICES = ("cuda", "cuda:0", torch.device("cuda"), torch.device("cuda", 0), 0)
SYSTEMS = ("assembly", "assembly.simulator", "encoding", "field", "hierarchy", "hrr", "io", "runtime")
# The names under which the seed programs, or the published simulator, ask for a GPU.
SEEDS = {
    runtime.set_device,
    runtime.GPUContext,
    runtime.GPUMemoryAnalysis,
    runtime.GPUMemoryManager,
    runtime.GPUPerformanceBenchmark,
    runtime.OptimizedTransfers,
    runtime.PerformanceProfiler,
    hrr.HRROperations,
    hrr.HybridHRRSystem,
    assembly.TorchBrain,
    assembly.CupyBrain,
    simulator.Brain,
    encoding.ConfigurableSinusoidalEmbedder,
    encoding.ConfigurableSinusoidalEmbedder.load_config.__func__,
    encoding.GPUAccelerator,
}


def plain(call):
    """What a bound method is of."""
    return getattr(call, "__func__", call)


def enter(device):
    with runtime.GPUContext(device) as name:
        return torch.device(name)


def table(folder, device):
    encoding.save_table(folder / "table", torch.ones(3, 2))
    return encoding.MappedTable(folder / "table", device=device)


def load_config(folder, device):
    encoding.ConfigurableSinusoidalEmbedder(WORDS).save_config(folder / "config")
    return encoding.ConfigurableSinusoidalEmbedder.load_config(folder / "config", device=device)


def load(folder, device):
    hrr.Vocabulary(8).save(folder / "words")
    return torch_hrr.load(folder / "words", device=device)


def of_table(call, good, folder, device):
    return call(**inspect.signature(call).bind(*good).arguments | {"device": device})


def on(call, *arguments, **options):
    """A call of the table below that takes nothing else, and no folder."""
    return lambda folder, device: call(*arguments, **options, device=device)


def calls():
    """Name, what is called, and a call of it with a folder and a device."""
    for system, known in GOOD.items():
        for name, good in known.items():
            call = getattr(system, name)
            if "device" in inspect.signature(call).parameters:
                yield f"{system.__name__}.{name}", call, partial(of_table, call, good)
    for kind in saveable_classes().values():
        # The device is looked at before the file.
        yield f"{kind.__name__}.load", kind.load, on(kind.load, "no file")
    for kind in (encoding.LSMRegressor, encoding.LSMClassifier, encoding.LSMGenerator):
        yield kind.__name__, kind, on(lambda kind=kind, **options: kind(units=5, **options).machine)
    weights = encoding.LiquidStateMachine.from_weights
    yield "from_weights", weights, on(weights, torch.eye(2), torch.eye(2))
    yield "Parser", assembly.Parser, on(assembly.Parser)
    yield "SequenceMemory", assembly.SequenceMemory, on(assembly.SequenceMemory, 20, 3)
    machine = assembly.FiniteStateMachine
    yield "FiniteStateMachine", machine, on(machine, ["q"], ["s"], {("q", "s"): "q"}, n=20, k=3)
    machine = assembly.ProbabilisticMachine
    yield "ProbabilisticMachine", machine, on(machine, ["q"], ["s"], {("q", "s"): {"q": 1}}, n=20, k=3)
    yield "WordLearner", assembly.WordLearner, on(assembly.WordLearner, ["a"], ["b"], n=20, k=3)
    classifier = assembly.AssemblyClassifier
    fitted = on(lambda device: classifier(n=20, k=3, device=device).fit(torch.eye(2), torch.arange(2)))
    yield "AssemblyClassifier", classifier, fitted
    factory = field.FieldBrainFactory
    sizes = {"sensory_dim": 2, "motor_dim": 1, "spatial": 2, "channels": 4}
    yield "create_brain", field.create_brain, on(field.create_brain, **sizes)
    yield "create", factory.create, on(lambda device: factory(**sizes, device=device).create())
    yield "create_optimized_brain", factory.create_optimized_brain, on(factory.create_optimized_brain, **sizes)
    yield "TensorPool.to", field.TensorPool.to, on(field.TensorPool({}, "cpu").to)
    yield "GPUContext", runtime.GPUContext, lambda folder, device: enter(device)
    yield "adaptive_call", runtime.adaptive_call, on(runtime.adaptive_call, torch.sin, torch.ones(2))
    yield "MappedTable", encoding.MappedTable, table
    yield "SplitBrain.load", assembly.SplitBrain.load, on(assembly.SplitBrain.load, "no file")
    yield "SplitField.load", field.SplitField.load, on(field.SplitField.load, "no file")
    yield "SplitFieldBrain.load", field.SplitFieldBrain.load, on(field.SplitFieldBrain.load, "no file")
    yield "SplitMemory.load", hrr.SplitMemory.load, on(hrr.SplitMemory.load, "no file")
    yield "load_config", encoding.ConfigurableSinusoidalEmbedder.load_config, load_config
    yield "torch_hrr.load", torch_hrr.load, load
    yield "io.load", io.load, on(io.load, "no file", format="any")


CALLS = [pytest.param(call, made, id=name) for name, call, made in calls() if plain(call) not in SEEDS]
SEED_CALLS = [pytest.param(call, made, id=name) for name, call, made in calls() if plain(call) in SEEDS]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    for kind in ("cuda", "mps", "xpu"):
        monkeypatch.setattr(getattr(torch, kind), "is_available", lambda: False)
    monkeypatch.setattr(device, "_working", set())
    monkeypatch.setattr(device, "_process_device", None)


@pytest.mark.parametrize("named", DEVICES, ids=repr)
@pytest.mark.parametrize(("call", "made"), CALLS)
def test_a_device_that_is_not_there_is_an_error(tmp_path, call, made, named):
    got = "cuda:0" if named == 0 else str(named)
    text = f"{call.__name__}: device must be one that torch can use, got {got}, and torch {torch.__version__} "
    with pytest.raises(RuntimeError, match=rf'^{re.escape(text)}.*; "auto" takes the CPU then$'):
        made(tmp_path, named)


@pytest.mark.parametrize("named", DEVICES, ids=repr)
@pytest.mark.parametrize(("call", "made"), SEED_CALLS)
def test_the_names_of_the_seed_programs_go_on_on_the_cpu_and_say_so_each_time(tmp_path, call, made, named):
    name = "ConfigurableSinusoidalEmbedder" if call.__name__ == "load_config" else call.__name__
    got = "cuda:0" if named == 0 else str(named)
    text = rf"^torch_hrr: {name}: {got} was asked for but torch .*; continuing on the CPU$"
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=text) as caught:
            result = made(tmp_path, named)
        assert len(caught) == 1
    where = getattr(result, "brain", getattr(result, "gpu_ops", getattr(result, "accelerator", result)))
    assert "cpu" in (str(getattr(where, "device", where)), runtime.get_device())


@pytest.mark.parametrize(("call", "made"), CALLS + SEED_CALLS)
def test_a_name_that_torch_does_not_know_is_a_value_error_of_the_call(tmp_path, call, made):
    name = "ConfigurableSinusoidalEmbedder" if call.__name__ == "load_config" else call.__name__
    with pytest.raises(ValueError, match=rf"^{name}: device must be 'auto', .*, got 'gpu'$"):
        made(tmp_path, "gpu")


def test_auto_is_the_cpu_in_silence():
    assert runtime.resolve_device("auto") == torch.device("cpu") == hrr.Vocabulary(8, device="auto").device
    assert field.create_brain(2, 1, 2, 4, prefer_gpu=True).device == torch.device("cpu")


def public():
    """Everything public that takes a device, methods of classes too."""
    for name in SYSTEMS:
        module = importlib.import_module(f"torch_hrr.{name}")
        for each in (getattr(module, name) for name in module.__all__):
            parts = [each]
            if inspect.isclass(each):
                parts += [getattr(each, part) for part in dir(each) if not part.startswith("_")]
            for part in parts:
                # Classes of dicts and errors have no signature; methods of torch's modules are not ours.
                is_other = inspect.isclass(part) and issubclass(part, dict | BaseException)
                ours = callable(part) and str(getattr(part, "__module__", "")).startswith("torch_hrr")
                if ours and not is_other and "device" in inspect.signature(part).parameters:
                    yield plain(part)


def test_every_public_call_that_takes_a_device_is_tried():
    tried = {(plain(call).__module__, plain(call).__qualname__) for _, call, _ in calls()}
    assert {(each.__module__, each.__qualname__) for each in public()} - tried == set()
