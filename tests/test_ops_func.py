"""torch.func on every operator: derivatives against the direct sum, and vmap against a loop."""

import itertools

import pytest
import torch
from cases import ALL_CASES
from cases.base import FULL, as_tuple, build, each, floating, name_of, named, split, tensors_of
from torch import func

DERIVED = [case for case in ALL_CASES if case.takes("func")]
MAPPED = [case for case in ALL_CASES if case.takes("vmap")]


def is_short(sample):
    elements = [torch.Size(shape).numel() for shape in sample.shapes.values() if shape is not None]
    return 0 < min(elements) and sum(elements) < 1000


SHORT = [(case, s) for case in DERIVED for s in case.lane_samples if is_short(s) and case.leaves(build(s))]
# Finite differences go through all samples: here the formulas of every kind of call are compared whole.
KINDS = [(case, sample) for case, sample in SHORT if FULL or sample in case.kinds]
PLACED = [
    (case, s) for case in MAPPED for s in case.lane_samples if s.id != "library" and (FULL or not s.is_other_length)
]


def functions(case, sample):
    """The operator and its oracle as functions of their tensors, those tensors, and positions to differentiate in."""
    arguments = build(sample, torch.float64)
    tensors, join = split(arguments, case.leaves(arguments))

    def ours(*given):
        return floating(as_tuple(case.op(**join(*given))))

    def definition(*given):
        return floating(as_tuple(case.oracle(**join(*given))))

    return ours, definition, tensors, tuple(range(len(tensors)))


def scalar(function):
    """A loss that weighs every element of every result differently and is not linear in them."""

    def loss(*tensors):
        results = function(*tensors)
        return sum((r.sin() * torch.linspace(0.5, 1.5, r.numel(), dtype=r.dtype).view(r.shape)).sum() for r in results)

    return loss


def check(ours, expected):
    flat, structure = torch.utils._pytree.tree_flatten(ours)
    exact, same = torch.utils._pytree.tree_flatten(expected)
    assert structure == same
    for result, value in zip(flat, exact, strict=True):
        torch.testing.assert_close(result, value, rtol=1e-9, atol=1e-11)


@each(KINDS)
def test_grad_and_value(case, sample):
    ours, definition, tensors, every = functions(case, sample)
    check(
        func.grad_and_value(scalar(ours), argnums=every)(*tensors),
        func.grad_and_value(scalar(definition), argnums=every)(*tensors),
    )


@each(SHORT)
def test_vjp(case, sample):
    ours, definition, tensors, _ = functions(case, sample)
    results, pull = func.vjp(ours, *tensors)
    expected, pull_exact = func.vjp(definition, *tensors)
    check(results, expected)
    upstream = tuple(torch.randn_like(result) for result in expected)
    check(pull(upstream), pull_exact(upstream))


@each(SHORT)
def test_jvp(case, sample):
    ours, definition, tensors, _ = functions(case, sample)
    tangents = tuple(torch.randn_like(tensor) for tensor in tensors)
    check(func.jvp(ours, tensors, tangents), func.jvp(definition, tensors, tangents))


@each(KINDS)
def test_jvp_in_each_argument_alone(case, sample):
    ours, definition, tensors, every = functions(case, sample)
    for position in every:
        rest = tensors[:position], tensors[position + 1 :]

        def alone(function, rest=rest):
            return lambda x: function(*rest[0], x, *rest[1])

        tangent = torch.randn_like(tensors[position])
        primal = (tensors[position],)
        check(func.jvp(alone(ours), primal, (tangent,)), func.jvp(alone(definition), primal, (tangent,)))


@each(SHORT)
def test_jacobians(case, sample):
    ours, definition, tensors, every = functions(case, sample)
    exact = func.jacrev(definition, argnums=every)(*tensors)
    check(func.jacrev(ours, argnums=every)(*tensors), exact)
    check(func.jacfwd(ours, argnums=every)(*tensors), exact)


@each(KINDS)
def test_hessian(case, sample):
    ours, definition, tensors, every = functions(case, sample)
    exact = func.hessian(scalar(definition), argnums=every)(*tensors)
    check(func.hessian(scalar(ours), argnums=every)(*tensors), exact)
    check(func.jacrev(func.jacrev(scalar(ours), argnums=every), argnums=every)(*tensors), exact)


@each((case, s) for case, s in KINDS if set(case.leaves(build(s))) - case.unbatched)
def test_per_sample_gradients(case, sample):
    """vmap over grad, with every tensor mapped that has a batch."""
    ours, definition, tensors, every = functions(case, sample)
    dims = tuple(None if name in case.unbatched else 0 for name in case.leaves(build(sample)))
    many = tuple(
        tensor if where is None else torch.stack([tensor, tensor * 0.75, tensor * 0.5])
        for tensor, where in zip(tensors, dims, strict=True)
    )
    per_sample = func.vmap(func.grad(scalar(ours), argnums=every), in_dims=dims)(*many)
    samples = [[x if where is None else x[i] for x, where in zip(many, dims, strict=True)] for i in range(3)]
    rows = [func.grad(scalar(definition), argnums=every)(*tensors) for tensors in samples]
    check(per_sample, tuple(torch.stack(parts) for parts in zip(*rows, strict=True)))


def batched(tensor, where, size):
    """The tensor at several values along a new dimension; the tensor itself where it is not mapped."""
    if where is None:
        return tensor
    if not tensor.is_floating_point():
        return torch.stack([tensor.roll(i) for i in range(size)], where)
    return torch.stack([tensor * (i + 1) - i for i in range(size)], where)


def in_dims_of(case, tensors, limit=12):
    """Every tensor mapped at any place or not at all, at least one of them mapped; a spread of at most `limit`."""
    places = [
        [None] if name in case.unbatched else [None, *range(tensor.dim() + 1)] for name, tensor in tensors.items()
    ]
    every = [dims for dims in itertools.product(*places) if any(where is not None for where in dims)]
    return every[:: max(1, len(every) // limit)]


@each(PLACED)
def test_vmap_equals_a_loop(case, sample):
    """Bit for bit, for every place of the mapped dimension."""
    arguments = build(sample)
    tensors, join = split(arguments, tuple(argument.name for argument in case.arguments))
    for dims in in_dims_of(case, tensors_of(arguments)):
        inputs = tuple(batched(tensor, where, 3) for tensor, where in zip(tensors, dims, strict=True))
        results = func.vmap(lambda *given: as_tuple(case.op(**join(*given))), in_dims=dims)(*inputs)
        for i in range(3):
            row = [x if where is None else x.select(where, i) for x, where in zip(inputs, dims, strict=True)]
            for result, expected in zip(results, as_tuple(case.op(**join(*row))), strict=True):
                assert torch.equal(result[i], expected), dims


@each(PLACED)
def test_nested_vmap_equals_two_loops(case, sample):
    arguments = build(sample)
    tensors, join = split(arguments, tuple(argument.name for argument in case.arguments))
    fixed = [name in case.unbatched for name in tensors_of(arguments)]
    inner_dims = tuple(None if fixed[i] else (tensor.dim() if i % 2 else 0) for i, tensor in enumerate(tensors))
    inner = tuple(batched(tensor, where, 2) for tensor, where in zip(tensors, inner_dims, strict=True))
    outer_dims = tuple(None if fixed[i] or i == 1 else tensor.dim() - 1 for i, tensor in enumerate(inner))
    outer = tuple(batched(tensor, where, 3) for tensor, where in zip(inner, outer_dims, strict=True))

    def function(*given):
        return as_tuple(case.op(**join(*given)))

    results = func.vmap(func.vmap(function, in_dims=inner_dims), in_dims=outer_dims)(*outer)
    for i, j in itertools.product(range(3), range(2)):
        row = [x if where is None else x.select(where, i) for x, where in zip(outer, outer_dims, strict=True)]
        row = [x if where is None else x.select(where, j) for x, where in zip(row, inner_dims, strict=True)]
        for result, expected in zip(results, function(*row), strict=True):
            assert torch.equal(result[i, j], expected)


@pytest.mark.parametrize("case", MAPPED, ids=name_of)
def test_vmap_in_chunks_and_with_out_dims(case):
    arguments = build(case.sized(5, 3, 20))
    tensors, join = split(arguments, tuple(argument.name for argument in case.arguments))

    def function(*given):
        return as_tuple(case.op(**join(*given)))

    dims = case.batch_dims(arguments)
    whole = func.vmap(function, in_dims=dims)(*tensors)
    for result, expected in zip(whole, case.run(arguments), strict=True):
        assert torch.equal(result, expected)
    for chunk in (1, 2, 5):
        chunked = func.vmap(function, in_dims=dims, chunk_size=chunk)(*tensors)
        assert all(torch.equal(a, b) for a, b in zip(chunked, whole, strict=True))
    outward = func.vmap(function, in_dims=dims, out_dims=-1)(*tensors)
    assert all(torch.equal(a.movedim(-1, 0), b) for a, b in zip(outward, whole, strict=True))


@pytest.mark.parametrize(("case", "name"), named((case, name) for case in MAPPED for name in sorted(case.unbatched)))
def test_vmap_over_an_argument_without_a_batch_equals_a_loop(case, name):
    """Alone and together with all others, as in an ensemble of modules."""
    arguments = build(case.sized(5, 3, 20))
    tensors, join = split(arguments, tuple(argument.name for argument in case.arguments))
    for together in (False, True):
        dims = tuple(0 if together or other == name else None for other in tensors_of(arguments))
        many = tuple(
            tensor if where is None else torch.stack([tensor, tensor.flip(0) if tensor.dim() else tensor / 2])
            for tensor, where in zip(tensors, dims, strict=True)
        )
        results = func.vmap(lambda *given: as_tuple(case.op(**join(*given))), in_dims=dims)(*many)
        for i in range(2):
            row = [x if where is None else x[i] for x, where in zip(many, dims, strict=True)]
            for result, expected in zip(results, as_tuple(case.op(**join(*row))), strict=True):
                assert torch.equal(result[i], expected)
