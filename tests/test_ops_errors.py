"""Every malformed call raises the documented error before any work, on the CPU and on Meta alike."""

import pytest
import torch
from cases import ALL_CASES
from cases.base import build, each, tensors_of
from cases.hrr_errors import anchor
from torch import Tensor

BAD = [(case, error) for case in ALL_CASES for error in case.errors]
ON_META = [(case, error) for case, error in BAD if "meta" in error.devices]
AS_MADE = [(case, error) for case, error in BAD if "cpu" in error.devices or "as-made" in error.devices]

every = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)


def is_readable(tensor):
    ordinary = tensor.device.type == "cpu" and tensor.layout == torch.strided and not tensor.is_nested
    return ordinary and not tensor.is_quantized and tensor.numel() < 10**6


def check_raises(case, error, arguments):
    """The exact exception type, a message that names operator, argument, requirement and value, and no change."""
    before = {name: x.clone() for name, x in tensors_of(arguments).items() if is_readable(x)}
    with pytest.raises(error.error, match=error.message) as caught:
        case.op(**arguments)
    assert type(caught.value) is error.error
    assert all(torch.equal(arguments[name], tensor) for name, tensor in before.items())


@each(AS_MADE)
def test_bad_input_raises(case, error):
    check_raises(case, error, error.make())


@each(ON_META)
def test_bad_input_raises_on_meta(case, error):
    arguments = {name: x.to("meta") if isinstance(x, Tensor) else x for name, x in error.make().items()}
    check_raises(case, error, arguments)


@each((case, error) for case, error in AS_MADE if case.takes("gradient"))
def test_bad_input_raises_where_a_gradient_is_asked_for(case, error):
    arguments = error.make()
    for name in case.differentiable:
        tensor = arguments.get(name)
        if (
            isinstance(tensor, Tensor)
            and tensor.is_floating_point()
            and tensor.is_leaf
            and tensor.layout == torch.strided
        ):
            arguments[name] = tensor.detach().requires_grad_()
    with pytest.raises(error.error, match=error.message) as caught:
        case.op(**arguments)
    assert type(caught.value) is error.error


# To the Python function, out=None is a call without out, and an exponent that is no tensor is a number.
NOT_NONE = {"out-undefined", "exponent-undefined"}
# The operator names a dtype as C++ does.
PYTHON_NAMES = {"Long": "torch.int64", "ComplexFloat": "torch.complex64", "Bool": "torch.bool"}
# Errors name what the user called.
PYTHON_CALLS = {"field_evolve": "evolve", "field_gradient": "gradient"}
# Where one argument types the result by default, the Python function lets `out` do so.
OUT_DECIDES = {"out-dtype", "out-half"}


@each(
    (case, error)
    for case, error in BAD
    if case.wrapper
    and error.devices[0] == "cpu"
    and error.id not in NOT_NONE | (OUT_DECIDES if case.typed_by else set())
)
def test_the_python_function_raises_the_same(case, error):
    message = error.message
    if error.defect == "undefined":
        # In Python what is no tensor may still be an array.
        message = f"^{case.name}: {error.argument} must be a torch.Tensor( or a NumPy array)?, got NoneType"
    if error.argument == "dtype" and error.defect in PYTHON_NAMES:
        message = message.replace(error.defect, PYTHON_NAMES[error.defect])
    message = message.replace(case.name, PYTHON_CALLS.get(case.name, case.name))
    with pytest.raises(error.error, match=message):
        case.wrapper(**error.make())


@each(
    (case, error)
    for case, error in BAD
    # Casting comes before the checks, and would copy what is only repeated memory.
    if "cpu" in error.devices and case.takes("autocast") and "overflow" not in error.defect
)
def test_bad_input_raises_in_autocast(case, error):
    """The same requirement; a dtype may be the cast one."""
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(error.error, match=rf"^{case.name}: "):
        case.op(**error.make())


@every
def test_the_table_covers_every_argument(case):
    """Every tensor argument has each common defect, and every number has a bad value."""
    defects = {}
    for error in case.errors:
        defects.setdefault(error.argument, set()).add(error.defect)
    common = {"int64", "bool", "complex64", "sparse", "nested", "quantized"}
    common -= {str(dtype).removeprefix("torch.") for dtype in case.dtypes}
    first = anchor(case.arguments).name
    # Any rank fits an argument that has leading dimensions alone.
    any_rank = {argument.name for argument in case.arguments if not argument.dims}
    integral = {argument.name for argument in case.arguments if argument.takes_integers}
    listed = {"out", *(argument.name for argument in case.arguments)}
    for argument in case.op._schema.arguments:
        kind = argument.type.annotation_str
        # A key, say, is no argument of floats: its case has defects of its own.
        if "Tensor" in kind and argument.name in listed:
            assert common - ({"int64"} if argument.name in integral else set()) <= defects[argument.name]
            assert argument.name == first or "on-meta-beside-cpu" in defects[argument.name]
            assert argument.name in any_rank or "rank" in defects[argument.name]
        elif kind == "float":
            assert "nan" in defects[argument.name]
    assert len({error.id for error in case.errors}) == len(case.errors)


@every
def test_arguments_of_another_kind_are_refused_by_the_schema(case):
    arguments = build(case.sized(2, 3, 8))
    extra = {"out": case.make_out(arguments)} if case.is_out else {}
    for name in tensors_of(arguments):
        for value in ("text", 1.5, [1, 2]):
            with pytest.raises(RuntimeError, match=f"for argument '{name}'"):
                case.op(**(arguments | {name: value}), **extra)
    with pytest.raises(RuntimeError, match=r"expected at most \d+ argument\(s\)|Unknown keyword argument"):
        case.op(**arguments, **extra, nonsense=1)


@every
def test_a_call_after_an_error_is_unharmed(case):
    arguments = build(case.sized(2, 3, 8))
    expected = case.run(arguments)
    for error in case.errors:
        if "cpu" in error.devices:
            with pytest.raises(error.error):
                case.op(**error.make())
    assert all(torch.equal(result, exact) for result, exact in zip(case.run(arguments), expected, strict=True))
