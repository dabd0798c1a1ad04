"""Every public class shows itself in one line and, in notebooks, in a table: shapes and counts, never whole tensors."""

import importlib
import inspect
import pkgutil
import typing
import xml.etree.ElementTree as ElementTree

import pytest
import torch
from test_module_states import MODULES
from test_saveable import EXAMPLES
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import torch_hrr
from torch_hrr import assembly, encoding, field, hierarchy, hrr, runtime
from torch_hrr._shared import Lock
from torch_hrr.assembly import simulator

LONGEST = 200
PACKAGES = [each.name for each in pkgutil.iter_modules(torch_hrr.__path__) if each.ispkg and each.name != "reference"]
DOORS = [torch_hrr, simulator, *(importlib.import_module(f"torch_hrr.{name}") for name in PACKAGES)]


def shows_itself(kind):
    """Not errors, tensors and a tuple of them, the types of dicts and what has no objects of its own."""
    return not (
        issubclass(kind, BaseException | torch.Tensor | hrr.Cleanup)
        or typing.is_typeddict(kind)
        or kind is torch_hrr.io.Saveable
    )


FOUND = {
    kind for door in DOORS for name in getattr(door, "__all__", ()) if inspect.isclass(kind := getattr(door, name))
}
CLASSES = sorted(filter(shows_itself, FOUND), key=lambda kind: (kind.__module__, kind.__name__))


def a_simulator():
    made = simulator.Brain(0.1)
    made.add_area("A", 20, 3, 0.1)
    return made


def a_table(folder):
    encoding.save_table(folder / "table", torch.ones(3, 2))
    return encoding.MappedTable(folder / "table", device="cpu")


def a_level():
    return MODULES["HierarchyManager"][0]("cpu")


OTHERS = {
    assembly.CupyBrain: lambda _: assembly.CupyBrain("cpu"),
    assembly.Grammar: lambda _: assembly.grammar.ENGLISH,
    assembly.KCap: lambda _: assembly.KCap(3),
    assembly.Monitor: lambda _: assembly.Monitor(EXAMPLES["torch_hrr.assembly.Brain"](), ["A"]),
    assembly.ParseTree: lambda _: assembly.ParseTree("run", "VERB", (assembly.ParseTree("dogs", "SUBJ"),)),
    assembly.Parser: lambda _: assembly.Parser(),
    assembly.Projection: lambda _: EXAMPLES["torch_hrr.assembly.Brain"]().projection({}, {"A": "A"}),
    assembly.SplitBrain: lambda _: assembly.SplitBrain(),
    assembly.WordClass: lambda _: assembly.WordClass("DET", "!DET"),
    encoding.Convention: lambda _: encoding.CONVENTIONS["timm"],
    encoding.GPUAccelerator: lambda _: encoding.GPUAccelerator(device="cpu"),
    encoding.GPUConfig: lambda _: encoding.GPUConfig(),
    encoding.LearnableFrequencies: lambda _: encoding.LearnableFrequencies(4, 10.0, 1.0, False, torch.float32),
    encoding.MappedTable: a_table,
    encoding.MemoryStorageConfig: lambda _: encoding.MemoryStorageConfig(),
    field.BatchedFieldOperations: lambda _: field.BatchedFieldOperations(),
    field.DynamicFieldConfig: lambda _: field.DynamicFieldConfig(),
    field.FieldBrainFactory: lambda _: field.FieldBrainFactory(sensory_dim=4),
    field.OptimizationChecker: lambda _: field.OptimizationChecker(),
    field.Peak: lambda _: field.Peak((1 / 3, 2 / 3, 1.0), 0.1, 2.0, 3, 0),
    field.SplitField: lambda _: field.SplitField(torch.ones(2, 3, 4, 5)),
    field.SplitFieldBrain: lambda _: field.SplitFieldBrain(3, 2, 4, 6, device="cpu"),
    hrr.SplitMemory: lambda _: hrr.SplitMemory(torch.eye(2, 3), ["a", "b"]),
    hierarchy.HebbianCore: lambda _: hierarchy.HebbianCore(3, 2),
    hierarchy.Layer: lambda _: hierarchy.Layer(3, 2),
    hierarchy.Monitor: lambda _: hierarchy.Monitor(a_level()),
    hierarchy.ReactiveLayer: lambda _: hierarchy.ReactiveLayer(3, 2),
    hierarchy.SoftHebb: lambda _: hierarchy.SoftHebb(3, 2),
    hrr.Factorization: lambda _: EXAMPLES["torch_hrr.resonator"]().factorize(torch.ones(100, 8)),
    hrr.HRROperations: lambda _: hrr.HRROperations(8, "cpu"),
    hrr.HybridHRRSystem: lambda _: hrr.HybridHRRSystem(8, "cpu"),
    hrr.Memory: lambda folder: hrr.Memory(folder / "m.db", 8),
    hrr.Unbind: lambda _: hrr.Unbind(8),
    hrr.UnitaryCauchy: lambda _: hrr.UnitaryCauchy(torch.zeros(2, 3), 0.5),
    hrr.UnitaryUniform: lambda _: hrr.UnitaryUniform(8),
    runtime.GPUContext: lambda _: runtime.GPUContext("cpu"),
    runtime.GPUMemoryAnalysis: lambda _: runtime.GPUMemoryAnalysis("cpu"),
    runtime.GPUMemoryManager: lambda _: runtime.GPUMemoryManager("cpu", 1.0),
    runtime.GPUPerformanceBenchmark: lambda _: runtime.GPUPerformanceBenchmark("cpu"),
    runtime.OperationMetrics: lambda _: runtime.OperationMetrics(1 / 3, 3.0, 0.3, 0.01, 7),
    runtime.OptimizedTransfers: lambda _: runtime.OptimizedTransfers("cpu"),
    runtime.PerformanceProfiler: lambda _: runtime.PerformanceProfiler(device="cpu"),
    runtime.ResourceMonitor: lambda _: runtime.ResourceMonitor("cpu"),
    runtime.TensorPool: lambda _: runtime.TensorPool({"a": (2, 3)}, "cpu"),
    simulator.Area: lambda _: a_simulator().area_by_name["A"],
    simulator.Brain: lambda _: a_simulator(),
}  # fmt: skip


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """An object of every class."""
    folder = tmp_path_factory.mktemp("tables")
    made = [*(make("cpu") for make, _, _ in MODULES.values()), *(make() for make in EXAMPLES.values())]
    made += [each for module in made if isinstance(module, nn.Module) for each in module.children()]
    return {type(each): each for each in made} | {kind: make(folder) for kind, make in OTHERS.items()}


@pytest.fixture
def nothing_is_computed(monkeypatch):
    """No operator runs, so that no GPU is waited for, and no lock is taken that a thread may hold for long."""

    class Refused(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            pytest.fail(f"{func} runs")

    monkeypatch.setattr(Lock, "__enter__", lambda _: pytest.fail("a lock is taken"))
    with Refused():
        yield


def rows(shown):
    """The table for notebooks, as a dict."""
    table = ElementTree.fromstring(shown._repr_html_())
    assert table.tag == "table" and table.findtext("caption") == type(shown).__name__
    found = [[cell.text or "" for cell in row] for row in table.iter("tr")]
    assert all(len(row) == 2 for row in found)
    return dict(found)


def line(shown):
    """Its text, of a module with parts what torch prints before them."""
    text = repr(shown)
    if isinstance(shown, nn.Module) and "\n" in text:
        text = f"{type(shown).__name__}({shown.extra_repr()})"
    assert "\n" not in text and len(text) <= LONGEST and "0x" not in text
    return text


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_every_public_class_shows_itself(kind, examples, nothing_is_computed):
    text, shown = line(examples[kind]), rows(examples[kind])
    assert text.startswith(f"{kind.__name__}(") and "" not in shown
    parts = [name for name, _ in examples[kind].named_children()] if isinstance(examples[kind], nn.Module) else ()
    words = [f"{name}={value}" for name, value in shown.items() if name not in parts]
    fitting = [word for word in words if word in text]
    assert text == f"{kind.__name__}({', '.join(fitting if fitting == words else [*fitting, '...'])})"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_what_is_not_yet_made_shows_itself(kind):
    made = kind.__new__(kind)
    assert line(made).startswith(f"{kind.__name__}(") and rows(made) is not None


@pytest.mark.parametrize("name", MODULES)
def test_modules_say_where_they_are(name):
    made = MODULES[name][0]("meta")
    assert "device=meta" in repr(made) and "device" not in repr(made.to_empty(device="cpu"))


def a_brain_of(names):
    made = assembly.Brain()
    for name in names:
        made.add_area(name, 10, 2)
    return made


def a_store_of(names):
    made = hrr.VectorStore(1, device="cpu")
    for name in names:
        made.add(name, torch.ones(1))
    return made


NAMES = ["<b>&", "é\n\0'\"", *(f"{i} {'long' * 20}" for i in range(300))]


@pytest.mark.parametrize(
    "make",
    [
        a_brain_of,
        a_store_of,
        lambda names: hrr.ItemMemory(torch.ones(len(names), 2), names),
        lambda names: hrr.Record(dict.fromkeys(names, torch.ones(2))),
        lambda names: runtime.TensorPool(dict.fromkeys(names, (1,)), "cpu"),
    ],
    ids=("Brain", "VectorStore", "ItemMemory", "Record", "TensorPool"),
)
def test_many_strange_names_stay_short_and_are_escaped(make):
    made = make(NAMES)
    shown = "".join(rows(made).values())
    assert repr("<b>&") in shown and "302 in all" in shown and repr("<b>&") in line(made)
