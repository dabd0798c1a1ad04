"""Where new objects are: what the call says, then a default that is written, then `set_device`, then torch's own."""

import copy
import inspect

import numpy as np
import pytest
import torch
from test_wrong_types import GOOD

from torch_hrr import assembly, encoding, field, hrr
from torch_hrr.assembly import simulator
from torch_hrr.runtime import device, set_device

# Those that make an object, not the methods of one.
CALLS = {
    **{system: known for system, known in GOOD.items() if inspect.ismodule(system)},
    field: {**GOOD[field], "OptimizedUnifiedFieldBrain": (), "GPUPatternLibrary": (4, 3, 2)},
}
# Their default is written in the signature: "auto", "cpu" or 0, whatever device is set.
WRITTEN = {"BatchHRROperations", "HRROperations", "HybridHRRSystem", "PyTorchHRROperations"}
WRITTEN |= {"Brain", "CupyBrain", "SequenceMemory", "SplitBrain", "TorchBrain"}
# On the CPU or a GPU with kernels, which meta is not; without a device they take a GPU that works, else the CPU.
COMPUTING = {"ConfigurableSinusoidalEmbedder", "GPUAccelerator", "LiquidStateMachine"}
# They read their values back, and say so where the device has none.
HOLDING = {"VectorStore", "Vocabulary"}
HOLDING |= {"GPUMemoryAnalysis", "GPUMemoryManager", "GPUPerformanceBenchmark", "OptimizedTransfers"}
# Not objects of tensors, or of a file.
OTHER = {
    "allocate_connectome",
    "available_memory",
    "calibrate",
    "pipeline",
    "resolve_device",
    "set_device",
    "HybridHRRSystem",
    # Its brains are made by its calls.
    "Parser",
}


def held(made):
    """A tensor that is where the object is, in its dtype."""
    if isinstance(made, torch.Tensor):
        return made
    if isinstance(made, hrr.structures._Structure):
        return made.vector
    if isinstance(made, assembly.TorchBrain | simulator.Brain):
        return torch.empty(0, device=made.brain.device)
    if isinstance(made, torch.nn.Module) and (tensors := [*made.parameters(), *made.buffers()]):
        return tensors[0]
    return torch.empty(0, device=made.device, dtype=getattr(made, "dtype", None))


def calls(argument="device", without=()):
    found = []
    for system, known in CALLS.items():
        for name, good in known.items():
            if argument in inspect.signature(getattr(system, name)).parameters and name not in OTHER | set(without):
                found.append(pytest.param(getattr(system, name), good, id=name))
    return found


def make(call, good, **options):
    arguments = inspect.signature(call).bind(*good).arguments
    arguments.pop("device", None)
    return held(call(**{**arguments, **options}))


@pytest.fixture(autouse=True)
def no_device_is_set(monkeypatch):
    monkeypatch.setattr(device, "_process_device", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)


@pytest.mark.parametrize(("call", "good"), calls(without=WRITTEN | COMPUTING | HOLDING))
def test_it_is_on_the_device_that_is_set(call, good):
    assert make(call, good).device.type == "cpu"
    set_device("meta")
    assert make(call, good).device.type == "meta"
    assert make(call, good, device="cpu").device.type == "cpu"


@pytest.mark.parametrize(("call", "good"), [one for one in calls() if one.id in HOLDING])
def test_what_holds_values_says_so_where_a_device_does_not(call, good):
    set_device("meta")
    with pytest.raises(ValueError, match=r"device must hold data, got meta$"):
        make(call, good)
    assert make(call, good, device="cpu").device.type == "cpu"


# "cuda:0", which CupyBrain has, is not there.
@pytest.mark.filterwarnings("ignore:.*cuda.0 was asked for")
@pytest.mark.parametrize(("call", "good"), [one for one in calls() if one.id in WRITTEN | COMPUTING])
def test_a_written_default_comes_before_the_device_that_is_set(call, good):
    set_device("meta")
    assert make(call, good).device.type == "cpu"


@pytest.mark.parametrize(("call", "good"), [one for one in calls() if one.id in WRITTEN])
def test_none_is_the_device_that_is_set_where_another_default_is_written(call, good):
    assert make(call, good, device=None).device.type == "cpu"
    set_device("meta")
    try:
        assert make(call, good, device=None).device.type == "meta"
    except RuntimeError as error:
        # Brains need memory, and say so of the device that was found.
        assert str(error).endswith("device must have memory, got meta")


# Functions of encoding are typed by their inputs; a pool, whose default is written, has no tensor yet; a plan is text.
TYPED = {"TensorPool", "plan", "embed_positions", "sinusoidal_convention", "sinusoidal_encoding", "sinusoidal_features"}


@pytest.mark.parametrize(("call", "good"), calls("dtype", without=TYPED))
def test_the_dtype_is_torchs_default_unless_one_is_written(call, good):
    written = inspect.signature(call).parameters["dtype"].default
    torch.set_default_dtype(torch.float64)
    try:
        assert make(call, good).dtype == (written or torch.float64)
    finally:
        torch.set_default_dtype(torch.float32)


def test_every_public_call_that_takes_a_device_is_here():
    names = {name for known in CALLS.values() for name in known}
    for system in CALLS:
        for name in system.__all__:
            public = getattr(system, name)
            # A class of dicts has no signature.
            is_dict = inspect.isclass(public) and issubclass(public, dict)
            if callable(public) and not is_dict and "device" in inspect.signature(public).parameters:
                others = {"DeviceError", "GPUContext", "MappedTable", "TensorMemoryPool", "adaptive_call"}
                # They draw their machine, which is here, when it is used.
                others |= {"LSMClassifier", "LSMGenerator", "LSMRegressor"}
                # Below.
                others |= {"AssemblyClassifier", "FiniteStateMachine", "ProbabilisticMachine", "WordLearner"}
                assert name in names | others, name


def brain_on_the_cpu():
    brain = assembly.Brain(p=0.2)
    brain.add_stimulus("s", 20)
    for name in "AB":
        brain.add_area(name, 100, 10)
    brain.connect("B", "A", edges=torch.eye(100, device="cpu"))
    brain.project({"s": ["A"]})
    brain.project({"s": ["A"]}, {"A": ["A", "B"]}, rounds=3)
    shares = brain.pattern_complete("A", 0.5, 2)
    brain.activate("B", [1, 2])
    brain.project({}, {"B": ["A"]})
    return [
        brain.winners("A"),
        torch.tensor(shares, device="cpu"),
        brain.weights("A", "A"),
        brain.inputs("A", {}, {"B": ["A"]}),
    ]


def sampled_on_the_cpu():
    brain = assembly.Brain(p=0.2, mode="sampled")
    brain.add_stimulus("s", 20)
    brain.add_area("A", 100, 10)
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
    return [copy.deepcopy(brain).winners("A")]


def reservoir_on_the_cpu():
    x = torch.linspace(0, 9, 300, device="cpu").sin().unsqueeze(-1)
    regressor = encoding.LSMRegressor(units=20, device="cpu").fit(x[:-1], x[1:], 10)
    classifier = encoding.LSMClassifier(units=20, device="cpu").fit(x.view(10, 30, 1), np.arange(10) % 2)
    return [regressor.predict(x), classifier.predict_proba(x.view(10, 30, 1)), classifier.classes]


def programs_on_the_cpu():
    own = {"n": 200, "k": 10, "p": 0.5}
    machine = assembly.FiniteStateMachine(["q", "r"], ["s"], {("q", "s"): "r", ("r", "s"): "q"}, **own).train(2)
    chain = assembly.ProbabilisticMachine(["q", "r"], ["s"], {("q", "s"): {"r": 1}}, **own).train(2)
    memory, parser = assembly.SequenceMemory(**own).present(["a", "b"], 3), assembly.Parser(**own)
    tree = parser.parse(["cats run", "dogs chase mice"])[0]
    classifier = assembly.AssemblyClassifier(**own).fit(np.eye(4), np.arange(4) // 2)
    learner = assembly.WordLearner(["a"], ["b"], **own).hear([("a", "b")])
    assert learner.stability("a").keys() == {"noun", "verb"} and len(learner.known()) < 3
    assert machine.run(["s"] * 3) == chain.run(["s"]) == "r" and memory.recall("a")[0] == "a" and len(tree.words) == 2
    return [
        *learner.brain.potentiated("PHON", "LEX1"),
        machine.brain.winners("state"),
        classifier.assemblies,
        torch.from_numpy(classifier.predict(np.eye(4))),
    ]


@pytest.mark.parametrize("call", (brain_on_the_cpu, sampled_on_the_cpu, reservoir_on_the_cpu, programs_on_the_cpu))
def test_torchs_default_device_does_not_show_on_the_cpu(call):
    expected = call()
    torch.set_default_device("meta")
    try:
        found = call()
    finally:
        torch.set_default_device(None)
    assert all(map(torch.equal, found, expected))
