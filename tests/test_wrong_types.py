"""Every argument of the public calls: a wrong type is a TypeError with its name."""

import inspect
import itertools
import os
import re
import tempfile

import numpy as np
import pytest
import torch
from cases.base import each

from torch_hrr import assembly, encoding, field, hierarchy, hrr, runtime
from torch_hrr.assembly import simulator
from torch_hrr.assembly._memory import ConnectomeMemory

A = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
FIELD = torch.rand(3, 4, 5, 2, generator=torch.Generator().manual_seed(1))
SPECTRUM = hrr.spectrum(A)

TOKENS = torch.arange(3)
FOLDER = tempfile.TemporaryDirectory()
FILES = itertools.count()
LABELS = torch.ones(3, 3)

LEVELS = hierarchy.HierarchyManager()
LEVELS.add_level(hierarchy.HierarchicalLevel(0, 3, 2))


def brain_of(make=lambda p: assembly.Brain(p, batch=2)):
    """Two areas with winners, one without, and a stimulus."""
    brain = make(0.1)
    inner = getattr(brain, "brain", brain)
    if not isinstance(brain, assembly.TorchBrain):
        brain.add_stimulus("s", 40)
    for name in "ABC":
        brain.add_area(name, 60, 5)
    inner.activate("A", range(5)), inner.activate("B", range(5))
    return brain


def vocabulary():
    words = hrr.Vocabulary(8)
    words.populate("A; B")
    return words


def store():
    vectors = hrr.VectorStore(8)
    vectors.add("a", A[0])
    return vectors


def sequence():
    items = hrr.Sequence(8)
    items.extend(A)
    return items


def multiset():
    items = hrr.Multiset(8)
    items.extend(A)
    return items


def memory():
    """In a file of its own, in a folder that goes with the tests."""
    records = hrr.Memory(f"{FOLDER.name}/{next(FILES)}.db", 8)
    records.store("a", {"b": "c"})
    return records


def stack():
    items = hrr.Stack(8)
    items.push(A[0])
    return items


SERIES = A[:, None, :3]
WORDS = encoding.SinusoidalConfig(vocab_size=4, embedding_dim=4, padding_id=None, enable_gpu_acceleration=False)
REGRESSOR = encoding.LSMRegressor(input_dim=3, units=5).partial_fit(SERIES, SERIES, 0)
CLASSIFIER = encoding.LSMClassifier(input_dim=3, units=5).fit(SERIES, TOKENS)
GENERATOR = encoding.LSMGenerator(WORDS, units=5).fit(TOKENS, warmup=0, streams=1)
MACHINE = encoding.LiquidStateMachine(3, 20).partial_fit(A[:, :3], A[:, :3], 0)


class Methods:
    """The public methods of a class, each time those of another object."""

    def __init__(self, make, kind):
        self._make = make
        self.__name__ = f"{kind.__module__}.{kind.__name__}"
        own = [base for base in kind.__mro__ if base.__module__.startswith("torch_hrr.")]
        bases = [base for base in own if not base.__module__.startswith("torch_hrr.io")]
        self.__all__ = [name for base in bases for name, each in vars(base).items() if inspect.isfunction(each)]
        self.__all__ = [name for name in self.__all__ if not name.startswith("_")]

    def __getattr__(self, name):
        return getattr(self._make(), name)


# Arguments of a call that does something; all others have defaults.
GOOD = {
    assembly: {
        "AssemblyLayer": (6, 9, 2),
        "Brain": (),
        "SplitBrain": (0.2, 1),
        "CupyBrain": ("cpu",),
        "KCap": (2,),
        "Monitor": (brain_of(),),
        "Parser": (),
        "SequenceMemory": (20, 2),
        "TorchBrain": (),
        "assembly_loss": (A, torch.arange(2), 2),
        "assembly_margin_loss": (A, torch.arange(2), 2),
        "assembly_overlap_loss": (A, torch.arange(2)),
        "connectome_inputs": (torch.arange(3), 9, 0.5, 0, 0),
        "k_cap": (A, 2),
        "k_winners": (A, 2),
        "overlap": ([1], [2]),
        "parse": ("cats run",),
    },
    Methods(brain_of, assembly.Brain): {
        "activate": ("A", [1, 2]),
        "add_area": ("D", 60, 5),
        "add_stimulus": ("t", 3),
        "associate": ("A", "B", "C"),
        "beta": ("A", "B"),
        "clear": ("A",),
        "connect": ("A", "B"),
        "disinhibit": ("A",),
        "disinhibit_fiber": ("A", "B"),
        "ever_won": ("A",),
        "fiber_id": ("A", "B"),
        "fix_assembly": ("A",),
        "inhibit": ("A",),
        "inhibit_fiber": ("A", "B"),
        "inputs": ("A",),
        "merge": ("A", "B", "C"),
        "normalize": ("A",),
        "pattern_complete": ("A", 0.5),
        "potentiated": ("A", "B"),
        "project": ({}, {"A": ["B"]}),
        "projection": ({}, {"A": ["B"]}),
        "reciprocal_project": ("A", "B"),
        "register_round_hook": (len,),
        "set_beta": ("A", "B", 0.1),
        "stimulus_counts": ("s", "A"),
        "stimulus_weights": ("s", "A"),
        "support": ("A",),
        "unfix_assembly": ("A",),
        "weights": ("A", "B"),
        "winners": ("A",),
    },
    Methods(lambda: brain_of(lambda p: assembly.TorchBrain(p=p, learning=True)), assembly.TorchBrain): {
        "add_area": ("D", 60, 5),
        "compute_assembly_loss": ({"A": [1]},),
        "create_custom_kernel": ("k", "code"),
        "project": ({}, {"A": ["B"]}),
        "start_monitoring": (),
        "support": ("A",),
        "winners": ("A",),
    },
    Methods(lambda: brain_of(lambda p: assembly.TorchBrain(p=p)).memory_manager, ConnectomeMemory): {
        "allocate_connectome": (3, 2),
    },
    simulator: {"Brain": (0.1,), "overlap": ([1], [2])},
    Methods(lambda: brain_of(simulator.Brain), simulator.Brain): {
        "activate": ("A", 0),
        "add_area": ("D", 60, 5),
        "add_explicit_area": ("D", 60, 5),
        "add_stimulus": ("t", 3),
        "project": ({"s": ["A"]}, {}),
        "project_into": ("A", ["s"]),
        "update_plasticities": ({},),
        "update_plasticity": ("A", "B", 0.1),
    },
    Methods(lambda: brain_of(simulator.Brain).areas["A"], simulator.Area): {
        "update_area_beta": ("B", 0.1),
        "update_beta_by_stimulus": ("s", 0.1),
    },
    hrr: {
        "Automaton": (8,),
        "BatchHRROperations": (8, "cpu"),
        "Bind": (8,),
        "BindSuperpose": (8, 3),
        "CircularEncoder": (4, 8),
        "FractionalPowerEncoder": (3, 8),
        "Graph": (8,),
        "HRRAttention": (8,),
        "HRRMultiLabelLoss": (3, 8),
        "HRROperations": (8, "cpu"),
        "HashTable": (8,),
        "HopfieldMemory": (A,),
        "HybridHRRSystem": (8, "cpu"),
        "ItemMemory": (A,),
        "Multiset": (8,),
        "LevelEncoder": (4, 8),
        "ProjectionEncoder": (3, 8),
        "PyTorchHRROperations": (8, "cpu"),
        "RandomEncoder": (4, 8),
        "Record": ({"a": A[0]},),
        "Resonator": ([A, A],),
        "Sequence": (8,),
        "SparseDistributedMemory": (8, 5, 2),
        "SplitMemory": (A,),
        "Stack": (8,),
        "Tree": (8,),
        "SinusoidEncoder": (3, 8),
        "ThermometerEncoder": (4, 8),
        "Unbind": (8,),
        "UnitaryCauchy": (A, 0.5),
        "UnitaryUniform": (8,),
        "Vector": (A,),
        "VectorStore": (8,),
        "Vocabulary": (8,),
        "at": (A[0], 0),
        "bind": (A, A),
        "bind_normalize": (A, A),
        "bind_power": (A, 0.5),
        "bind_spectrum": (A, SPECTRUM),
        "bind_superpose": (A, A),
        "cosine_similarity": (A, A),
        "fractional_power_encoding": (A, A[:, : A.shape[0]]),
        "from_phases": (A,),
        "from_spectrum": (SPECTRUM,),
        "graph": (A, A),
        "identity": (8,),
        "inverse": (A,),
        "involution": (A,),
        "multibind": (A,),
        "ngrams": (A, 2),
        "normalize": (A,),
        "permute": (A, 1),
        "plan": ("bind", 64),
        "random": (2, 8),
        "sequence": (A,),
        "spectrum": (A,),
        "superpose": (A,),
        "to_phases": (A,),
        "unbind": (A, A),
        "unbind_spectrum": (A, SPECTRUM),
        "unitary": (A,),
    },
    Methods(lambda: hrr.Bind(8), hrr.Bind): {"forward": (A,), "reset_parameters": ()},
    Methods(lambda: hrr.BindSuperpose(8, 3), hrr.BindSuperpose): {"forward": (A,), "reset_parameters": ()},
    Methods(lambda: hrr.Unbind(8), hrr.Unbind): {"forward": (A,), "reset_parameters": ()},
    Methods(lambda: hrr.LevelEncoder(4, 8, features=8), hrr.LevelEncoder): {"forward": (A,), "reset_parameters": ()},
    Methods(lambda: hrr.ProjectionEncoder(8, 8), hrr.ProjectionEncoder): {"forward": (A,), "reset_parameters": ()},
    Methods(lambda: hrr.HRRAttention(8), hrr.HRRAttention): {
        "attention_weights": (A,),
        "forward": (A,),
        "reset_parameters": (),
    },
    Methods(lambda: hrr.HRRMultiLabelLoss(3, 8), hrr.HRRMultiLabelLoss): {
        "reset_parameters": (),
        "encode": (LABELS,),
        "forward": (A, LABELS),
        "scores": (A,),
    },
    Methods(lambda: hrr.HRROperations(8, "cpu"), hrr.HRROperations): {
        "batch_bind": (A, A),
        "batch_superpose": (A,),
        "bind": (A, A),
        "fused_bind_normalize": (A, A),
        "random": (),
        "superpose": (A,),
        "unbind": (A, A),
        "unitary_random": (),
    },
    Methods(lambda: hrr.HybridHRRSystem(8, "cpu"), hrr.HybridHRRSystem): {"adaptive_bind": (A, A)},
    Methods(lambda: hrr.ItemMemory(A, ["a", "b", "c"]), hrr.ItemMemory): {
        "ask": (A,),
        "cleanup": (A,),
        "names_of": (TOKENS,),
        "to": ("cpu",),
    },
    Methods(lambda: hrr.SplitMemory(A, ["a", "b", "c"]), hrr.SplitMemory): {
        "ask": (A,),
        "cleanup": (A,),
        "names_of": (TOKENS,),
    },
    Methods(lambda: hrr.HopfieldMemory(A), hrr.HopfieldMemory): {"energy": (A,), "recall": (A,), "to": ("cpu",)},
    Methods(lambda: hrr.SparseDistributedMemory(8, 5, 2), hrr.SparseDistributedMemory): {
        "read": (A,),
        "to": ("cpu",),
        "write": (A,),
        "writes": (A,),
    },
    Methods(lambda: hrr.Resonator([A, A]), hrr.Resonator): {"factorize": (A,), "to": ("cpu",)},
    Methods(vocabulary, hrr.Vocabulary): {
        "add": ("D", A[0]),
        "ask": (A,),
        "cleanup": (A,),
        "names_of": (0,),
        "parse": ("A",),
        "populate": ("D",),
        "subset": (["A"],),
        "to": ("cpu",),
        "transform_to": (vocabulary(),),
    },
    Methods(lambda: hrr.Record({"a": A[0]}), hrr.Record): {
        "get": ("a",),
        "remove": ("a",),
        "set": ("a", A[0]),
        "to": ("cpu",),
    },
    Methods(sequence, hrr.Sequence): {
        "append": (A[0],),
        "extend": (A,),
        "insert": (0, A[0], hrr.ItemMemory(A)),
        "remove": (0, hrr.ItemMemory(A)),
        "replace": (0, A[0], A[1]),
        "to": ("cpu",),
    },
    Methods(multiset, hrr.Multiset): {
        "add": (A[0],),
        "contains": (A[0],),
        "count": (A[0],),
        "extend": (A,),
        "remove": (A[0],),
        "to": ("cpu",),
    },
    Methods(lambda: hrr.Tree(8), hrr.Tree): {
        "add": ("l", A[0]),
        "get": ("l",),
        "remove": ("l", A[0]),
        "to": ("cpu",),
    },
    Methods(lambda: hrr.Automaton(8), hrr.Automaton): {
        "add": (A[0], A[1], A[2]),
        "remove": (A[0], A[1], A[2]),
        "run": (A[0], A, hrr.ItemMemory(A)),
        "to": ("cpu",),
        "transition": (A[0], A[1]),
    },
    Methods(stack, hrr.Stack): {
        "pop": (hrr.ItemMemory(A),),
        "push": (A[0],),
        "to": ("cpu",),
        "top": (hrr.ItemMemory(A),),
    },
    Methods(store, hrr.VectorStore): {
        "add": ("b", A[1]),
        "add_many": (["b"], A[:1]),
        "ask": (A,),
        "cleanup": (A,),
        "digest": (),
        "get_many": (["a"],),
        "names_of": (0,),
        "remove": ("a",),
        "to": ("cpu",),
        "update": ("a", A[1]),
        "verify": (),
    },
    Methods(memory, hrr.Memory): {
        "close": (),
        "encode": ({"a": "b"},),
        "remove": ("a",),
        "role": ("a",),
        "search": ({"b": "c"},),
        "store": ("d", {"a": "b"}),
        "store_many": ({"d": {"a": "b"}},),
        "update": ("a", {"a": "b"}),
        "verify": (),
    },
    Methods(lambda: hrr.HashTable(8), hrr.HashTable): {
        "add": (A[0], A[1]),
        "get": (A[0],),
        "remove": (A[0], A[1]),
        "to": ("cpu",),
    },
    Methods(lambda: hrr.Graph(8), hrr.Graph): {
        "add": (A[0], A[1]),
        "neighbours": (A[0],),
        "remove": (A[0], A[1]),
        "sources": (A[0],),
        "to": ("cpu",),
    },
    Methods(lambda: encoding.GPUAccelerator(), encoding.GPUAccelerator): {
        "batch_embedding_lookup": (A, TOKENS),
        "compile": (len,),
        "move": ("cpu",),
        "optimal_batch_size": (1,),
        "optimized_attention_weights": (A, A),
        "parallel_frequency_computation": (4,),
        "place": (A,),
        "stop_profiling": (),
        "train_step": (torch.ones((), requires_grad=True), None),
        "vectorized_sinusoidal_encoding": (A, 4),
    },
    Methods(lambda: encoding.RelativePositionBias(2), encoding.RelativePositionBias): {
        "forward": (2, 3),
        "reset_parameters": (),
    },
    Methods(encoding.ConfigurableSinusoidalEmbedder, encoding.ConfigurableSinusoidalEmbedder): {
        "reset_parameters": (),
        "adapt_embedding_dimension": (16,),
        "adapt_to_vocabulary": (2000,),
        "attention_weights": (A, A),
        "benchmark_gpu_performance": (1, 2, 1),
        "disable_gpu_profiling": (),
        "embed": (TOKENS,),
        "forward": (TOKENS,),
        "optimize_for_gpu": (),
        "save_config": (os.devnull,),
    },
    Methods(lambda: MACHINE, encoding.LiquidStateMachine): {
        "chunks": (A[:, :3],),
        "fit": (A[:, :3], A[:, :3], 0),
        "forecast": (2,),
        "forward": (A[:, :3],),
        "partial_fit": (A[:, :3], A[:, :3], 0),
        "predict": (A[:, :3],),
        "refit": (0.5,),
        "run": (A[:, :3],),
        "step": (A[0, :3],),
    },
    Methods(lambda: REGRESSOR, encoding.LSMRegressor): {
        "fit": (SERIES, SERIES, 0),
        "forecast": (2, SERIES),
        "partial_fit": (SERIES, SERIES, 0),
        "predict": (SERIES,),
        "refit": (0.5,),
        "score": (SERIES, SERIES),
    },
    Methods(lambda: CLASSIFIER, encoding.LSMClassifier): {
        "fit": (SERIES, TOKENS),
        "partial_fit": (SERIES, TOKENS),
        "predict": (SERIES,),
        "predict_proba": (SERIES,),
        "score": (SERIES, TOKENS),
    },
    Methods(lambda: GENERATOR, encoding.LSMGenerator): {
        "bits": (TOKENS,),
        "fit": (TOKENS, 0, 1),
        "generate": (2,),
        "predict_proba": (TOKENS,),
        "score": (TOKENS,),
    },
    Methods(lambda: field.FieldBrain(3, 2, 4, 8), field.FieldBrain): {
        "forward": (A[0, :3],),
        "process_robot_cycle": (A[0, :3],),
        "step": (A[0, :3],),
    },
    Methods(lambda: field.DynamicField((4, 4, 4, 1)), field.DynamicField): {
        "forward": (),
        "peaks": (),
        "reset": (),
        "stimulus": ((1, 1, 1), 1.0),
        "step": (),
    },
    Methods(lambda: field.PatternLibrary(4, 3, 2), field.PatternLibrary): {
        "find_best_pattern": (A[0, :3],),
        "store": (A[0, :3], A[0, :2]),
    },
    encoding: {
        "ConfigurableSinusoidalEmbedder": (),
        "GPUAccelerator": (),
        "GPUConfig": (),
        "LiquidStateMachine": (3, 20),
        "MemoryStorageConfig": (),
        "RelativePositionBias": (2,),
        "SinusoidalConfig": (),
        "attention_weights": (A, A),
        "embed_positions": (torch.arange(3), A),
        "rope": (A,),
        "rope_frequencies": ({}, 6),
        "rotate": (A,),
        "sinusoidal_convention": ("fairseq", A, 6),
        "sinusoidal_encoding": (A, 6),
        "sinusoidal_features": (A, A[0]),
    },
    field: {
        "DynamicField": ((4, 4, 4, 1),),
        "DynamicFieldConfig": (),
        "FieldBrain": (),
        "FieldBrainFactory": (),
        "OptimizationChecker": (),
        "PatternLibrary": (4, 3, 2),
        "SplitFieldBrain": (),
        "TensorPool": ({"a": (2,)},),
        "advance_key": (field.random_key(0), 5),
        "create_brain": (),
        "evolve": (FIELD, 0.9, 0.1),
        "gradient": (FIELD,),
        "gradient_magnitude": (FIELD,),
        "random_key": (0,),
    },
    hierarchy: {
        "BitLinear": (3, 2),
        "HebbianCore": (3, 2),
        "HierarchicalLevel": (0, 3, 2),
        "HierarchyManager": (),
        "Layer": (3, 2),
        "Monitor": (LEVELS,),
        "ReactiveLayer": (3, 2),
        "SoftHebb": (3, 2),
        "expected_free_energy": (A, A.abs() + 1, A, A.abs() + 1),
        "plastic_scan": (A, A),
    },
    runtime: {
        **{name: (A,) for name in ("exp", "mean", "norm", "relu", "sigmoid", "std", "sum", "tanh")},
        **{name: (A, A.T) for name in ("dot", "matmul", "outer")},
        **{name: () for name in ("get_array_module", "ones", "randn", "uniform", "zeros")},
        "benchmark_device": (lambda: None, 1),
        "GPUMemoryAnalysis": (),
        "GPUMemoryManager": (),
        "GPUPerformanceBenchmark": (),
        "OptimizedTransfers": (),
        "PerformanceProfiler": (),
        "ResourceMonitor": (),
        "available_memory": (),
        "calibrate": ("cpu", [8]),
        "clear_calibration": (),
        "get_device_info": (),
        "pipeline": (torch.sin, [A]),
        "resolve_device": ("cpu",),
        "set_device": ("cpu",),
        "synchronize": (),
    },
}
# Where the message has another name: of the operator, of the class an alias stands for, of what a call makes.
NAMES = {
    "BatchHRROperations": "HRROperations",
    "PyTorchHRROperations": "HRROperations",
    "ConfigurableSinusoidalEmbedder.forward": "embed",
    "DynamicField.forward": "step",
    "HRRAttention.attention_weights": "HRRAttention",
    "HRRMultiLabelLoss.encode": "HRRMultiLabelLoss",
    "HRRMultiLabelLoss.scores": "HRRMultiLabelLoss",
}
INDICES = {("at", "index"), ("activate", "index"), ("potentiated", "brain"), ("weights", "brain")}
INDICES |= {("insert", "index"), ("remove", "index"), ("replace", "index")}
# What is no argument of a user's, and what takes anything.
# The target of tokens is there for scikit-learn alone.
FREE = {("resolve_device", "op"), ("score", "y")}
# What cannot be called with wrong types alone: results, errors, devices for a block, copies of anything, processes.
ELSEWHERE = {
    *("Factorization", "LearnableFrequencies", "MappedTable", "save_table", "BatchedFieldOperations", "Peak"),
    *("OptimizedUnifiedFieldBrain", "GPUBrainFactory", "GPUPatternLibrary", "TensorMemoryPool", "SplitField"),
    *("advance_key_", "plot", "quick_performance_test", "DeviceError", "DeviceInfo", "GPUContext", "get_device"),
    *("to_cpu", "to_gpu", "adaptive_call", "OperationMetrics", "Cleanup"),
    # Modules: tests/hrr/test_integrations.py.
    "integrations",
    # No arguments, or a state: tests/assembly/test_brain_states.py; files: tests/test_saveable.py.
    *("disable_learning", "disable_plasticity", "enable_learning", "enable_plasticity", "extra_repr", "fix_assembly"),
    *("get_extra_state", "get_memory_usage", "get_num_ever_fired", "load_state_dict", "optimize_layout", "save"),
    # Of another file each time: tests/hrr/test_records.py.
    "Memory",
    # Of monitors alone: tests/runtime/test_prometheus.py.
    "prometheus_collector",
    *("autocast", "calibrate", "clear", "content", "copy", "info", "reset", "role_vectors"),
    *("available_memory", "enable_gpu_profiling", "get_gpu_acceleration_info", "start_profiling"),
    # Settings of any name, or that wait: test_settings_of_any_name_are_named, test_settings_of_an_estimator_are_named.
    *("configure", "get_params", "set_params", "LSMClassifier", "LSMGenerator", "LSMRegressor"),
    *("CONVENTIONS", "Convention"),
    # Data: tests/hrr/test_classifiers.py.
    *("CentroidClassifier", "RidgeClassifier"),
    # Data, and what tests/assembly tries: test_assembly_classifier.py, test_parser.py, test_programs.py,
    # test_projection.py, test_word_learner.py.
    *("AssemblyClassifier", "FiniteStateMachine", "Grammar", "ParseTree", "ProbabilisticMachine", "Projection"),
    *("WordClass", "WordLearner"),
    *("set_extra_state", "state_dict", "stop_monitoring", "unfix_assembly", "Area"),
}


def named(system, name):
    """What the message calls it: a layer that is called, by its class."""
    kind = system.__name__.rpartition(".")[2]
    return NAMES.get(f"{kind}.{name}", kind if name == "forward" else NAMES.get(name, name))


class Strange:
    """Of no type that a call takes."""


def calls(*annotations):
    """Every argument, or every one of these annotations."""
    for system, known in GOOD.items():
        for name in known:
            for parameter in inspect.signature(getattr(system, name)).parameters.values():
                named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
                kind = getattr(parameter.annotation, "__name__", parameter.annotation)
                if named and (name, parameter.name) not in FREE and (not annotations or kind in annotations):
                    yield system, name, parameter.name


def called(system, name, argument, value):
    call = getattr(system, name)
    return call(**inspect.signature(call).bind(*GOOD[system][name]).arguments | {argument: value})


def usual(system, name, argument):
    """The argument in the good call."""
    signature = inspect.signature(getattr(system, name))
    return signature.bind(*GOOD[system][name]).arguments.get(argument, signature.parameters[argument].default)


@each(calls())
def test_a_wrong_type_is_named(system, name, argument):
    message = rf"^({named(system, name)}): ({re.escape(argument)}|dtype of 'a') must be .+, got "
    with pytest.raises(TypeError, match=message):
        called(system, name, argument, Strange())


@each(calls("int", "float"))
def test_a_tensor_is_no_number(system, name, argument):
    for value in (torch.ones(1), torch.ones(2).to_sparse(), np.ones(2)):
        message = rf"^({named(system, name)}): {argument} must be (a number|an int), got {type(value).__name__}$"
        with pytest.raises(TypeError, match=message):
            called(system, name, argument, value)


@each(calls("int", "float"))
def test_a_number_too_large_is_named(system, name, argument):
    if argument == "seed" or (name, argument) in {("connectome_inputs", "fiber"), ("connectome_inputs", "brain")}:
        return  # modulo 2^64
    error = IndexError if (name, argument) in INDICES else ValueError
    with pytest.raises(error, match=rf"^({named(system, name)}): {argument} must be .+, got an int of 16610 bits$"):
        called(system, name, argument, 10**5000)


@each(calls("int", "float"))
def test_an_array_without_dimensions_is_a_number(system, name, argument):
    called(system, name, argument, np.array(usual(system, name, argument)))


@each(calls("bool"))
def test_a_bool_of_numpy_is_a_flag(system, name, argument):
    called(system, name, argument, np.bool_(usual(system, name, argument)))
    with pytest.raises(TypeError, match=rf"^({named(system, name)}): {argument} must be a bool, got int64$"):
        called(system, name, argument, np.int64(usual(system, name, argument)))


@pytest.mark.parametrize("system", GOOD, ids=lambda system: system.__name__)
def test_every_public_call_is_in_the_table(system):
    assert set(system.__all__) - ELSEWHERE <= set(GOOD[system]) | set(GOOD[field])
    assert set(GOOD[system]) <= set(system.__all__)


@pytest.mark.parametrize("call", (encoding.LSMRegressor, encoding.LSMClassifier, encoding.LSMGenerator))
@pytest.mark.parametrize("argument", encoding.LSMRegressor().get_params())
def test_settings_of_an_estimator_are_named(call, argument):
    """When they are used, as scikit-learn has it."""
    for value in (Strange(), torch.ones(1), [3]):
        with pytest.raises(TypeError, match=rf"^{call.__name__}: {argument} must be .+, got "):
            call(**{argument: value}).machine  # noqa: B018
    with pytest.raises(TypeError, match="unexpected keyword argument 'leek'"):
        call(leek=3)
    with pytest.raises(ValueError, match=r"^set_params: params must be of config, .*, got leek$"):
        call().set_params(leek=3)


@pytest.mark.parametrize(
    ("name", "call"),
    (
        ("configure", lambda **changes: field.DynamicField((4, 4, 4, 1)).configure(**changes)),
        ("DynamicField", lambda **changes: field.DynamicField((4, 4, 4, 1), **changes)),
    ),
    ids=("configure", "DynamicField"),
)
def test_parameters_of_a_field_are_named(name, call):
    with pytest.raises(TypeError, match=rf"^{name}: parameter must be one of tau, .+, got tua; is it tau\?$"):
        call(tua=3.0)
    with pytest.raises(TypeError, match=rf"^{name}: tau must be a number, got Strange$"):
        call(tau=Strange())
    with pytest.raises(ValueError, match=rf"^{name}: sigma_excitation must be at most the longest axis = 4, got 9$"):
        call(sigma_excitation=9.0)
