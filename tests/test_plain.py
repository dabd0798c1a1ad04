"""The plain torch of every operator, and that devices without kernels of ours are given it."""

import inspect
import re

import pytest
import torch
from cases import ALL_CASES
from cases.base import FULL, as_tuple, build, each, row_norm, tensors_of, with_tensors

from torch_hrr import _fallback, _library, _plain

KEY = torch._C.DispatchKey.PrivateUse1
NAMESPACE = "torch_hrr::"
# The reference takes angles in float64, and the k-th place of nearly equal numbers less exactly.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-7}


def qualified(schema):
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def has_kernel(name, key):
    return torch._C._dispatch_has_kernel_for_dispatch_key(name, key)


OVERLOADS = [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith(NAMESPACE)]
# Those made of other operators run on every device as they are.
WITH_KERNELS = [schema for schema in OVERLOADS if not has_kernel(qualified(schema), "CompositeImplicitAutograd")]
CASES = [case for case in ALL_CASES if has_kernel(case.op.name(), "Meta")]


@pytest.mark.parametrize("schema", OVERLOADS, ids=qualified)
def test_every_operator_has_a_reference_with_the_arguments_of_its_schema(schema):
    function = _plain.OPERATORS[schema.name.removeprefix(NAMESPACE)]
    arguments = {a.name: a.default_value for a in schema.arguments if a.name != "out"}
    parameters = inspect.signature(function).parameters
    assert list(parameters) == list(arguments)
    # The dispatcher leaves out what equals a default.
    for argument in schema.arguments:
        if argument.has_default_value():
            assert parameters[argument.name].default == argument.default_value, argument.name


def test_the_reference_has_no_operator_that_is_not_registered():
    assert set(_plain.OPERATORS) == {schema.name.removeprefix(NAMESPACE) for schema in OVERLOADS}


@pytest.mark.parametrize("schema", WITH_KERNELS, ids=qualified)
def test_every_device_has_a_kernel(schema):
    for key in (*_fallback._KEYS, "CPU", "CUDA", "Meta"):
        assert has_kernel(qualified(schema), key), key
    for key in ("SparseCPU", "SparseCUDA", "SparsePrivateUse1", "QuantizedCPU", "QuantizedPrivateUse1"):
        assert not has_kernel(qualified(schema), key), key


def test_cuda_has_the_native_kernels_or_the_reference():
    registered = torch._C._dispatch_get_registrations_for_dispatch_key("CUDA")
    assert {name for name in registered if name.startswith(NAMESPACE)} == {qualified(schema) for schema in WITH_KERNELS}
    kernels = torch._C._dispatch_dump("torch_hrr::bind").splitlines()
    (cuda,) = (line for line in kernels if line.startswith("CUDA:"))
    assert ("_fallback.py" in cuda) != _library.has_cuda_kernels(), cuda


def calls_of(case):
    """Lengths of rows are the kernels' affair: of calls that differ in it alone, the first of every kind."""
    lengths = [sample for sample in case.samples if re.match(r"D\d|n\d|\d+x|long", sample.id)]
    kept = case.first_of_kinds(lengths)
    for sample in (*case.lane_samples, *case.samples):
        for dtype in (torch.float32, torch.float64):
            tried = sample in case.lane_samples or (
                dtype == torch.float32 and (sample in kept or sample not in lengths)
            )
            if dtype in sample.dtypes and dtype in case.dtypes and (FULL or tried):
                yield sample, dtype


def run(case, arguments):
    """The registered kernel of a device without kernels of ours, on tensors of the CPU."""
    values = [
        arguments[a.name] if a.name in arguments else a.default_value
        for a in case.op._schema.arguments
        if a.name != "out"
    ]
    if not case.is_out:
        return as_tuple(case.op._op_dk(KEY, *values))
    out = case.make_out(arguments)
    assert case.op._op_dk(KEY, *values, out=out) is None
    return (out,)


@each((case, *call) for case in CASES for call in calls_of(case))
def test_the_registered_kernel_is_the_operator(case, sample, dtype):
    arguments = build(sample, dtype)
    before = with_tensors(arguments, torch.clone)
    results, expected = run(case, arguments), case.run(arguments)
    assert [(r.dtype, r.shape) for r in results] == [(e.dtype, e.shape) for e in expected]
    for name, tensor in tensors_of(before).items():
        assert torch.equal(arguments[name], tensor), f"{name} was changed"
    exact = case.integer_dtype is not None or case.selects
    scales = expected if exact else case.scale(arguments, tuple(e.double() for e in expected))
    for result, value, scale in zip(results, expected, scales, strict=True):
        if exact:
            assert torch.equal(result, value)
        else:
            error = row_norm(result.double() - value.double())
            assert (error <= TOLERANCE[result.dtype] * scale).all(), f"{(error / scale).max():.1e}"


def test_no_operator_is_given_two_kernels_for_a_device(monkeypatch):
    given = []

    class Recorder:
        def __init__(self, *names):
            pass

        def impl(self, operator, kernel, key):
            given.append((operator.name(), key))

    monkeypatch.setattr(torch.library, "Library", Recorder)
    monkeypatch.setattr(_fallback, "_library_of_kernels", None)
    _fallback.register()
    # torch 2.11 and 2.12 refuse the second.
    assert len(given) == len(set(given)) > 0
    assert {name for name, _ in given} == {qualified(s) for s in WITH_KERNELS}
