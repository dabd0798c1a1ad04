"""Every operator under torch.library.opcheck, on Meta and in autocast, and the reasons of every hole in the lanes."""

import pytest
import torch
from cases import ALL_CASES
from cases.base import FULL, LANES, as_tuple, build, each, floats_of, tensors_of, with_floats, with_tensors
from torch._subclasses.fake_tensor import FakeTensorMode

OPCHECK_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor")
# Traces the operator, which takes most of the time: once for each kind of call.
OPCHECK_TRACED = "test_aot_dispatch_dynamic"

every = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.id)


def ready(case, arguments):
    """The arguments with `out` where the overload has one."""
    return arguments | {"out": case.make_out(arguments)} if case.is_out else arguments


@every
def test_every_hole_has_a_known_lane_and_a_reason(case):
    assert set(case.holes) <= set(LANES)
    assert all(hole.reason for hole in case.holes.values())
    assert case.differentiable if case.takes("gradient") else not case.differentiable


@pytest.mark.parametrize("case", [case for case in ALL_CASES if case.is_out], ids=lambda case: case.id)
def test_asking_an_out_form_for_a_derivative_or_vmap_is_an_error(case):
    arguments = build(case.sized(2, 3, 8))
    out = case.make_out(arguments)
    before = out.clone()
    for name, tensor in floats_of(arguments).items():
        with pytest.raises(RuntimeError, match=case.holes["gradient"].error):
            case.op(**(arguments | {name: tensor.clone().requires_grad_()}), out=out)
        with pytest.raises(RuntimeError, match=case.holes["func"].error):
            torch.func.grad(lambda x, name=name: case.op(**(arguments | {name: x}), out=out) or x.sum())(tensor)
        with pytest.raises(RuntimeError, match="out must not be given where a tangent is asked for"):
            torch.func.jvp(
                lambda x, name=name: case.op(**(arguments | {name: x}), out=out) or x,
                (tensor,),
                (torch.ones_like(tensor),),
            )
    with pytest.raises(RuntimeError, match=case.holes["gradient"].error):
        case.op(**arguments, out=out.clone().requires_grad_())
    with pytest.raises(RuntimeError, match=case.holes["vmap"].error):
        tensors = tensors_of(arguments)
        torch.vmap(
            lambda *given: (
                case.op(**(arguments | dict(zip(tensors, given, strict=True))), out=torch.empty(8)) or given[0]
            ),
            in_dims=case.batch_dims(arguments),
        )(*tensors.values())
    assert torch.equal(out, before) or (out.isnan().all() and before.isnan().all())
    with torch.no_grad():
        case.op(**with_floats(arguments, lambda x: x.clone().requires_grad_()), out=out)
    assert torch.equal(out, case.functional(**arguments))


# opcheck reads the .grad of a tensor that it made itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
@each((case, sample) for case in ALL_CASES for sample in case.lane_samples)
def test_opcheck(case, sample):
    arguments = ready(case, build(sample))
    for name in case.leaves(arguments):
        arguments[name].requires_grad_()
    keywords = {name: arguments.pop(name) for name in ("out",) if name in arguments}
    tests = (*OPCHECK_TESTS, OPCHECK_TRACED) if FULL or sample in case.kinds else OPCHECK_TESTS
    report = torch.library.opcheck(case.op, tuple(arguments.values()), keywords, test_utils=tests)
    assert report == dict.fromkeys(tests, "SUCCESS")


@each((case, sample) for case in ALL_CASES for sample in case.samples if "D8192" not in sample.id)
def test_meta_agrees_with_the_result(case, sample):
    arguments = build(sample, sample.dtypes[-1])
    meta = case.run(with_tensors(arguments, lambda tensor: tensor.to("meta")))
    assert tuple(result.dtype for result in meta) == case.result_dtypes(arguments)
    for result, sizes in zip(meta, case.result_sizes(arguments), strict=True):
        assert result.device.type == "meta"
        assert tuple(result.shape) == tuple(sizes)
        assert result.is_contiguous()


@pytest.mark.parametrize("case", [case for case in ALL_CASES if not case.is_out], ids=lambda case: case.id)
def test_fake_tensors_follow_the_arguments_and_cost_nothing(case):
    """A call of any size: a fake tensor has no memory."""
    with FakeTensorMode() as mode:
        sample = case.sized(3, 4, 2**20)
        arguments = {
            name: torch.empty(shape, dtype=torch.int64 if name in sample.integers else case.dtypes[0])
            for name, shape in sample.shapes.items()
            if shape is not None
        }
        arguments = case.with_rows(arguments, lambda tensor: tensor.new_empty(2**20, *tensor.shape[1:]))
        arguments |= dict(case.sized(1, 1, 1).options)
        results = as_tuple(case.op(**arguments))
    assert [tuple(result.shape) for result in results] == [tuple(s) for s in case.result_sizes(arguments)]
    assert all(result.fake_mode is mode and result.device.type == "cpu" for result in results)


AUTOCAST = [case for case in ALL_CASES if case.takes("autocast")]
autocast_cases = pytest.mark.parametrize("case", AUTOCAST, ids=lambda case: case.id)
half_types = pytest.mark.parametrize("half", (torch.bfloat16, torch.float16), ids=("bfloat16", "float16"))


@half_types
@autocast_cases
def test_autocast_runs_in_its_dtype(case, half):
    arguments = build(case.sized(3, 4, 64))
    expected = [result.to(half) for result in case.run(case.cast(arguments, half))]
    with torch.autocast("cpu", half):
        results = case.run(arguments)
        with torch.autocast("cpu", enabled=False):
            outside = case.run(arguments)
    assert all(result.dtype == half for result in results)
    assert all(torch.equal(result, exact) for result, exact in zip(results, expected, strict=True))
    assert all(torch.equal(result, exact) for result, exact in zip(outside, case.run(arguments), strict=True))
    assert all(result.dtype == torch.float32 for result in outside)


@half_types
@autocast_cases
def test_autocast_leaves_float64_alone(case, half):
    arguments = build(case.sized(3, 4, 64), torch.float64)
    with torch.autocast("cpu", half):
        results = case.run(arguments)
    assert all(torch.equal(result, exact) for result, exact in zip(results, case.run(arguments), strict=True))
    assert all(result.dtype == torch.float64 for result in results)


@autocast_cases
def test_autocast_keeps_promotion(case):
    """One float64 argument beside cast ones gives float64."""
    arguments = build(case.sized(3, 4, 64))
    for name, tensor in list(tensors_of(arguments).items())[1:]:
        if name in case.uncast:
            continue
        mixed = arguments | {name: tensor.double()}
        cast = {n: x if x.dtype == torch.float64 else x.bfloat16() for n, x in tensors_of(mixed).items()}
        with torch.autocast("cpu", torch.bfloat16):
            results = case.run(mixed)
        assert all(result.dtype == torch.float64 for result in results)
        assert all(torch.equal(r, e) for r, e in zip(results, case.run(mixed | cast), strict=True))


@autocast_cases
def test_gradients_through_autocast(case):
    """They come back in the dtype of the arguments, and are those of the cast call."""
    arguments = build(case.sized(3, 4, 64))
    names = case.differentiable

    def grads(cast, enabled):
        leaves = {name: arguments[name].clone().requires_grad_() for name in names}
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            results = case.run(cast(arguments | leaves))
        return torch.autograd.grad(results, list(leaves.values()), [torch.ones_like(result) for result in results])

    ours, explicit = grads(dict, True), grads(lambda inputs: case.cast(inputs, torch.bfloat16), False)
    for grad, expected, name in zip(ours, explicit, names, strict=True):
        assert grad.dtype == arguments[name].dtype
        assert torch.equal(grad, expected)


@every
def test_operators_are_tagged_for_compilers(case):
    assert torch.Tag.pt2_compliant_tag in case.op.tags
    mutated = {argument.name for argument in case.op._schema.arguments if argument.is_write}
    assert mutated == ({"out"} if case.is_out else set())
    assert bool(case.op._schema.returns) != case.is_out
