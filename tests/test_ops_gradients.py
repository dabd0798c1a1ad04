"""Derivatives of every operator against finite differences: reverse, forward, batched, double, forward over reverse."""

import itertools

import pytest
import torch
from cases import ALL_CASES
from cases.base import (
    FLOATS,
    FULL,
    HALF_TYPES,
    as_tuple,
    build,
    covering,
    depends,
    each,
    floating,
    floats_of,
    in_float64,
    split,
    tensors_of,
    with_floats,
)
from torch.autograd import gradcheck, gradgradcheck

DIFFERENTIABLE = [case for case in ALL_CASES if case.takes("gradient")]
# In a full run finite differences are taken one by one up to so many elements of the Jacobian; else along random
# directions, beside which test_ops_func.py has the whole Jacobian and Hessian of the direct sum.
LARGEST_SLOW = 1000
LARGEST_SLOW_SECOND = 200

cases = pytest.mark.parametrize("case", DIFFERENTIABLE, ids=lambda case: case.id)
PAIRS = [(case, s) for case in DIFFERENTIABLE for s in case.lane_samples if case.leaves(build(s))]
# Other lengths of rows add nothing to the formulas: once each is enough.
SHORT = [(case, sample) for case, sample in PAIRS if FULL or not sample.is_other_length]


def call(case, arguments, names):
    """The operator as a function of the named tensors, and those tensors, requiring grad.

    The function returns the results that depend on one of them.
    """
    tensors, join = split(arguments, names)
    wanted = [any(flags) for flags in zip(*(depends(case, name) for name in names), strict=True)]

    def function(*given):
        results = [r for r, is_wanted in zip(case.run(join(*given)), wanted, strict=True) if is_wanted]
        return results[0] if len(results) == 1 else tuple(results)

    return function, tuple(tensor.detach().requires_grad_() for tensor in tensors)


def is_fast(function, tensors, limit):
    outputs = sum(result.numel() for result in as_tuple(function(*tensors)))
    return not FULL or outputs * sum(tensor.numel() for tensor in tensors) > limit


@each(PAIRS)
def test_first_derivatives(case, sample):
    arguments = build(sample, torch.float64)
    function, tensors = call(case, arguments, case.leaves(arguments))
    assert gradcheck(
        function,
        tensors,
        fast_mode=is_fast(function, tensors, LARGEST_SLOW),
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@each(SHORT)
def test_second_derivatives(case, sample):
    arguments = build(sample, torch.float64)
    function, tensors = call(case, arguments, case.leaves(arguments))
    fast = is_fast(function, tensors, LARGEST_SLOW_SECOND)
    assert gradgradcheck(function, tensors, fast_mode=fast, check_fwd_over_rev=True, check_batched_grad=True)


@each((case, sample) for case, sample in SHORT if FULL or sample in case.kinds)
def test_derivatives_in_each_argument_alone(case, sample):
    arguments = build(sample, torch.float64)
    for name in case.leaves(arguments):
        function, tensors = call(case, arguments, (name,))
        fast = is_fast(function, tensors, LARGEST_SLOW)
        assert gradcheck(function, tensors, fast_mode=fast, check_forward_ad=True)
        assert gradgradcheck(function, tensors, fast_mode=True, check_fwd_over_rev=True)


@each(covering(DIFFERENTIABLE, (8, 64, 100, 1024), (torch.float32, torch.float64)))
def test_gradients_equal_those_of_the_direct_sum(case, dim, dtype):
    """Every subset of arguments that requires grad gives the same gradients; float32 keeps its precision."""
    arguments = build(case.sized(2, 3, dim), dtype)
    names = case.differentiable
    expected_inputs = with_floats(arguments, lambda x: x.double().requires_grad_())
    expected = floating(case.expect(expected_inputs))
    upstream = [torch.randn_like(result) for result in expected]
    exact = dict(zip(names, torch.autograd.grad(expected, [expected_inputs[n] for n in names], upstream), strict=True))
    tolerance = 2e-6 if dtype == torch.float32 else 1e-12
    for count in range(1, len(names) + 1):
        for wanted in itertools.combinations(names, count):
            inputs = {n: x.detach().requires_grad_(n in wanted) for n, x in tensors_of(arguments).items()}
            pairs = [(r, u.to(dtype)) for r, u in zip(floating(case.run(arguments | inputs)), upstream, strict=True)]
            results, weights = zip(*((r, u) for r, u in pairs if r.requires_grad), strict=True)
            grads = torch.autograd.grad(results, [inputs[n] for n in wanted], weights)
            for name, grad in zip(wanted, grads, strict=True):
                assert grad.dtype == dtype
                assert (grad.double() - exact[name]).norm() <= tolerance * exact[name].norm()


@each(itertools.product(DIFFERENTIABLE, itertools.permutations(FLOATS, 2)))
def test_gradients_have_the_dtype_and_shape_of_their_argument(case, dtypes):
    for sample in case.lane_samples:
        arguments = build(sample, torch.float64)
        if sample.is_other_length or not case.leaves(arguments):
            continue
        inputs = {
            name: tensor.to(dtype).requires_grad_()
            for (name, tensor), dtype in zip(floats_of(arguments).items(), itertools.cycle(dtypes))
        }
        results = floating(case.run(arguments | inputs))
        grads = torch.autograd.grad(results, list(inputs.values()), [torch.ones_like(result) for result in results])
        for grad, tensor in zip(grads, inputs.values(), strict=True):
            assert (grad.dtype, grad.shape) == (tensor.dtype, tensor.shape)


@each(covering(DIFFERENTIABLE, (8, 64, 100), HALF_TYPES))
def test_gradients_in_half_precision(case, dim, dtype):
    """Computed in float32 and rounded once or, where a sum over the broadcast follows, a few times."""
    arguments = build(case.sized(2, 3, dim), dtype)
    names = case.differentiable
    # Not constant: a constant is zero but for one frequency.
    upstream = [torch.randn_like(result) for result in floating(case.run(arguments))]

    def grads(given, function):
        tensors, join = split(given, names)
        tensors = [tensor.detach().requires_grad_() for tensor in tensors]
        results = floating(as_tuple(function(join(*tensors))))
        return torch.autograd.grad(results, tensors, [u.to(r.dtype) for u, r in zip(upstream, results, strict=True)])

    exact = grads(in_float64(arguments), case.expect)
    for grad, expected in zip(grads(arguments, case.run), exact, strict=True):
        assert grad.dtype == dtype
        assert (grad.double() - expected).norm() <= 4 * torch.finfo(dtype).eps * expected.norm()


@cases
def test_backward_twice_raises_and_retaining_repeats(case):
    function, tensors = call(case, build(case.sized(2, 3, 24)), case.differentiable)
    loss = sum(result.sum() for result in as_tuple(function(*tensors)))
    first = torch.autograd.grad(loss, tensors, retain_graph=True)
    second = torch.autograd.grad(loss, tensors)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    if set(case.unread) == set(case.differentiable) and not case.selects:
        # Nothing is kept, so nothing is freed: as of torch's own linear operators.
        third = torch.autograd.grad(loss, tensors)
        assert all(torch.equal(a, b) for a, b in zip(first, third, strict=True))
        return
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        torch.autograd.grad(loss, tensors)


@cases
def test_an_argument_changed_in_place_is_refused_by_backward(case):
    function, tensors = call(case, build(case.sized(2, 3, 24)), case.differentiable)
    for changed in range(len(tensors)):
        copies = [tensor.clone() for tensor in tensors]
        loss = sum(result.sum() for result in as_tuple(function(*copies)))
        with torch.no_grad():
            copies[changed].add_(1)
        if case.differentiable[changed] in case.unread:
            exact = torch.autograd.grad(sum(r.sum() for r in as_tuple(function(*tensors))), tensors)
            gradients = torch.autograd.grad(loss, copies)
            assert all(torch.equal(grad, expected) for grad, expected in zip(gradients, exact, strict=True))
            continue
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


@each(SHORT)
def test_requiring_grad_changes_no_result(case, sample):
    """Same shape, dtype and, but for a few units in the last place, values; no graph without need."""
    arguments = build(sample)
    first = next(iter(floats_of(arguments)))
    for given in (arguments, arguments | {first: arguments[first].double()}):
        leaves = with_floats(given, lambda x: x.clone().requires_grad_())
        plain = case.run(given)
        assert all(result.grad_fn is None for result in plain)
        with torch.no_grad():
            assert all(result.grad_fn is None and not result.requires_grad for result in case.run(leaves))
        with torch.inference_mode():
            assert all(result.is_inference() for result in case.run(leaves))
        for result, expected in zip(case.run(leaves), plain, strict=True):
            assert result.requires_grad == result.is_floating_point()
            assert result.is_leaf != result.requires_grad
            assert (result.shape, result.dtype, result.stride()) == (expected.shape, expected.dtype, expected.stride())
            torch.testing.assert_close(result.detach(), expected, rtol=1e-5, atol=1e-5)


@cases
def test_results_without_an_upstream_gradient_count_as_zero(case):
    function, tensors = call(case, build(case.sized(2, 3, 24), torch.float64), case.differentiable)
    results = as_tuple(function(*tensors))
    whole = torch.autograd.grad(sum(result.sum() for result in results), tensors, retain_graph=True)
    parts = [torch.autograd.grad(r.sum(), tensors, retain_graph=True, materialize_grads=True) for r in results]
    for grad, *terms in zip(whole, *parts, strict=True):
        torch.testing.assert_close(grad, sum(terms), rtol=1e-12, atol=1e-12)


@cases
def test_hooks_see_the_gradient_once(case):
    function, tensors = call(case, build(case.sized(2, 3, 24)), case.differentiable)
    seen = []
    for tensor in tensors:
        tensor.register_hook(lambda grad: seen.append(grad.shape))
    sum(result.sum() for result in as_tuple(function(*tensors))).backward()
    assert sorted(seen) == sorted(tensor.shape for tensor in tensors)
    assert all(tensor.grad is not None for tensor in tensors)
