"""Every argument of the public calls: a wrong type is a TypeError with its name."""

import inspect
import re

import numpy as np
import pytest
import torch

from torch_hrr import encoding, field, hierarchy, hrr, runtime

A = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
FIELD = torch.rand(3, 4, 5, 2, generator=torch.Generator().manual_seed(1))
SPECTRUM = hrr.spectrum(A)

LEVELS = hierarchy.HierarchyManager()
LEVELS.add_level(hierarchy.HierarchicalLevel(0, 3, 2))

# Arguments of a call that does something; all others have defaults.
GOOD = {
    hrr: {
        "BatchHRROperations": (8, "cpu"),
        "Bind": (8,),
        "BindSuperpose": (8, 3),
        "Graph": (8,),
        "HRRAttention": (8,),
        "HRRMultiLabelLoss": (3, 8),
        "HRROperations": (8, "cpu"),
        "HashTable": (8,),
        "HybridHRRSystem": (8, "cpu"),
        "ItemMemory": (A,),
        "PyTorchHRROperations": (8, "cpu"),
        "Record": ({"a": A[0]},),
        "Resonator": ([A, A],),
        "Sequence": (8,),
        "Stack": (8,),
        "Unbind": (8,),
        "VectorStore": (8,),
        "Vocabulary": (8,),
        "at": (A[0], 0),
        "bind": (A, A),
        "bind_normalize": (A, A),
        "bind_power": (A, 0.5),
        "bind_spectrum": (A, SPECTRUM),
        "bind_superpose": (A, A),
        "cosine_similarity": (A, A),
        "from_spectrum": (SPECTRUM,),
        "graph": (A, A),
        "inverse": (A,),
        "multibind": (A,),
        "ngrams": (A, 2),
        "permute": (A, 1),
        "random": (2, 8),
        "sequence": (A,),
        "spectrum": (A,),
        "superpose": (A,),
        "unbind": (A, A),
        "unbind_spectrum": (A, SPECTRUM),
        "unitary": (A,),
    },
    encoding: {
        "ConfigurableSinusoidalEmbedder": (),
        "GPUAccelerator": (),
        "GPUConfig": (),
        "LSMClassifier": (),
        "LSMGenerator": (),
        "LSMRegressor": (),
        "LiquidStateMachine": (3, 20),
        "MemoryStorageConfig": (),
        "RelativePositionBias": (2,),
        "SinusoidalConfig": (),
        "attention_weights": (A, A),
        "embed_positions": (torch.arange(3), A),
        "rotate": (A,),
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
    "LSMClassifier": "LSMClassifier|LiquidStateMachine",
    "LSMRegressor": "LSMRegressor|LiquidStateMachine",
    "create_brain": "create_brain|FieldBrain",
    "evolve": "field_evolve",
    "gradient": "field_gradient",
}
# What is no argument of a user's, and what takes anything.
FREE = {("resolve_device", "op")}
# What cannot be called with wrong types alone: results, errors, devices for a block, copies of anything, processes.
ELSEWHERE = {
    *("Factorization", "LearnableFrequencies", "MappedTable", "save_table", "BatchedFieldOperations", "Peak"),
    *("OptimizedUnifiedFieldBrain", "GPUBrainFactory", "GPUPatternLibrary", "TensorMemoryPool", "SplitField"),
    *("advance_key_", "plot", "quick_performance_test", "DeviceError", "DeviceInfo", "GPUContext", "get_device"),
    *("to_cpu", "to_gpu", "adaptive_call", "OperationMetrics"),
}


class Strange:
    """Of no type that a call takes."""


def calls(*annotations):
    """Every argument, or every one of these annotations."""
    for system, known in GOOD.items():
        for name, good in known.items():
            for parameter in inspect.signature(getattr(system, name)).parameters.values():
                named = parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
                kind = getattr(parameter.annotation, "__name__", parameter.annotation)
                if named and (name, parameter.name) not in FREE and (not annotations or kind in annotations):
                    yield pytest.param(system, name, good, parameter.name, id=f"{name}-{parameter.name}")


def called(system, name, good, argument, value):
    call = getattr(system, name)
    return call(**inspect.signature(call).bind(*good).arguments | {argument: value})


@pytest.mark.parametrize(("system", "name", "good", "argument"), list(calls()))
def test_a_wrong_type_is_named(system, name, good, argument):
    message = rf"^({NAMES.get(name, name)}): ({re.escape(argument)}|dtype of 'a') must be .+, got "
    with pytest.raises(TypeError, match=message):
        called(system, name, good, argument, Strange())


@pytest.mark.parametrize(("system", "name", "good", "argument"), list(calls("int", "float")))
@pytest.mark.parametrize(
    "value", (torch.ones(1), torch.ones(2).to_sparse(), np.ones(2)), ids=("tensor", "sparse", "array")
)
def test_a_tensor_is_no_number(system, name, good, argument, value):
    message = rf"^({NAMES.get(name, name)}): {argument} must be (a number|an int), got {type(value).__name__}$"
    with pytest.raises(TypeError, match=message):
        called(system, name, good, argument, value)


@pytest.mark.parametrize(("system", "name", "good", "argument"), list(calls("int", "float")))
def test_a_number_too_large_is_named(system, name, good, argument):
    if argument == "seed":
        return  # modulo 2^64
    error = IndexError if (name, argument) == ("at", "index") else ValueError
    with pytest.raises(error, match=rf"^({NAMES.get(name, name)}): {argument} must be .+, got an int of 16610 bits$"):
        called(system, name, good, argument, 10**5000)


@pytest.mark.parametrize(("system", "name", "good", "argument"), list(calls("int", "float")))
def test_an_array_without_dimensions_is_a_number(system, name, good, argument):
    signature = inspect.signature(getattr(system, name))
    value = signature.bind(*good).arguments.get(argument, signature.parameters[argument].default)
    called(system, name, good, argument, np.array(value))


@pytest.mark.parametrize(("system", "name", "good", "argument"), list(calls("bool")))
def test_a_bool_of_numpy_is_a_flag(system, name, good, argument):
    signature = inspect.signature(getattr(system, name))
    value = signature.bind(*good).arguments.get(argument, signature.parameters[argument].default)
    called(system, name, good, argument, np.bool_(value))
    with pytest.raises(TypeError, match=rf"^({NAMES.get(name, name)}): {argument} must be a bool, got int64$"):
        called(system, name, good, argument, np.int64(value))


@pytest.mark.parametrize("system", GOOD, ids=lambda system: system.__name__)
def test_every_public_call_is_in_the_table(system):
    assert set(system.__all__) - ELSEWHERE <= set(GOOD[system]) | set(GOOD[field])
    assert set(GOOD[system]) <= set(system.__all__)
