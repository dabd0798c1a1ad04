"""Layers whose units are divided among ranks, against those of one rank."""

import pathlib
import sys

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from torch_hrr import hierarchy

_ops = torch.ops.torch_hrr
RULES = ("hebb", "oja", "bcm", "gha", "subspace", "softhebb")
LOCAL = RULES[:3]


def whole(given):
    return given.full_tensor() if isinstance(given, DTensor) else given


def by_units(name, module, mesh):
    for kind in ("weight", "bias", "theta"):
        held = getattr(module, kind, None)
        if isinstance(held, torch.Tensor) and len(held):
            divided = distribute_tensor(held.detach(), mesh, [Shard(0)])
            setattr(module, kind, nn.Parameter(divided) if isinstance(held, nn.Parameter) else divided)


def check_scan(mesh, rule, units, batch, dtype):
    """Results have the bits of one rank, and gradients of what is divided; those of inputs are sums over ranks."""
    torch.manual_seed(0)
    # torch divides no dimension that is shorter than the mesh.
    is_divided = rule in LOCAL and units > 1
    weight = (0.3 * torch.randn(units, 6)).to(dtype)
    inputs = (0.3 * torch.randn(5, *batch, 6)).to(dtype)
    theta = (torch.rand(units) + 0.5).to(dtype) if rule == "bcm" else None
    given = [inputs, weight] + ([] if theta is None else [theta])
    mine = [distribute_tensor(each, mesh, [Replicate() if each is inputs else Shard(0)]) for each in given]
    leaves = [[each.clone().requires_grad_() for each in own] for own in (given, mine)]
    options = {"lr": 0.1, "decay": 0.1, "normalize": rule == "oja"}
    with CommDebugMode() as sent:
        results = hierarchy.plastic_scan(*leaves[1][:2], rule, theta=leaves[1][2] if theta is not None else None,
                                         **options)  # fmt: skip
    expected = hierarchy.plastic_scan(
        *leaves[0][:2], rule, theta=leaves[0][2] if theta is not None else None, **options
    )
    for found, exact in zip(results, expected, strict=True):
        assert torch.equal(whole(found), exact)
    if is_divided:
        assert not sent.get_total_counts()
        assert results[1].placements == (Shard(0),) and results[0].placements == (Shard(inputs.dim() - 1),)
    drawn = [torch.randn(each.shape).to(dtype) for each in expected]
    gradients = torch.autograd.grad(expected, leaves[0], drawn)
    placed = [distribute_tensor(grad, mesh, each.placements) for grad, each in zip(drawn, results, strict=True)]
    found = torch.autograd.grad(results, leaves[1], placed)
    for own, exact in zip(found[1:], gradients[1:], strict=True):
        assert torch.equal(whole(own), exact)
        assert own.placements == (Shard(0),) or not is_divided
    tolerance = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(whole(found[0]), gradients[0], **tolerance)
    if rule in LOCAL:
        # Forward mode, whose operator takes a tangent for each.
        words = (rule, 0.1, "tanh", 1, 100.0, 0.1, rule == "oja", 1.0, 1.0, False, 0.0)
        tangents = [
            _ops._plastic_scan_tangent(*own[:2], *(own[2:] or [None]), *own[:2], *(own[2:] or [None]), *words)
            for own in (given, mine)
        ]
        for exact, moved in zip(*tangents, strict=True):
            assert torch.equal(whole(moved), exact)


def check_layers_apart(mesh):
    """Layers that learn apart are divided whatever their rule."""
    torch.manual_seed(0)
    inputs, weight = 0.3 * torch.randn(4, 5, 3, 6), 0.3 * torch.randn(4, 7, 6)
    for rule in RULES:
        leaves = [[each.clone().requires_grad_() for each in (inputs, weight)] for _ in range(2)]
        leaves[1] = [distribute_tensor(each.detach(), mesh, [Shard(0)]).requires_grad_() for each in leaves[1]]
        with CommDebugMode() as sent:
            results = hierarchy.plastic_scan(*leaves[1], rule, 0.1)
        expected = hierarchy.plastic_scan(*leaves[0], rule, 0.1)
        for loss in (expected[0].square().sum() + expected[1].sum(), results[0].square().sum() + results[1].sum()):
            loss.backward()
        assert not sent.get_total_counts() and all(each.placements == (Shard(0),) for each in results)
        assert all(torch.equal(whole(one), other) for one, other in zip(results, expected, strict=True))
        assert all(torch.equal(whole(one.grad), other.grad) for other, one in zip(*leaves, strict=True))


def level(number, sizes, *layers, resolution=1, pool="last"):
    made = hierarchy.HierarchicalLevel(number, sizes[0], sizes[1], resolution, pool)
    for layer in layers:
        made.add_layer(layer)
    return made


def manager():
    made = hierarchy.HierarchyManager()
    made.add_level(level(0, (6, 9), hierarchy.HebbianCore(6, 7, "oja", seed=1),
                         hierarchy.HebbianCore(7, 9, "bcm", lr=0.005, seed=2), resolution=2, pool="mean"))  # fmt: skip
    made.add_level(level(1, (9, 5), hierarchy.ReactiveLayer(9, 5, seed=3)))
    made.add_level(level(2, (5, 3), hierarchy.SoftHebb(5, 3, seed=4, losers=-0.5, scaled=True, power=0.5)))
    return made


def check_learning(mesh):
    """What a hierarchy learns in several calls; its state stays divided, and torch.distributed.checkpoint writes it."""
    one, divided = manager(), distribute_module(manager(), mesh, by_units)
    torch.manual_seed(1)
    rows = torch.randn(7, 6)
    mine = distribute_tensor(rows, mesh, [Replicate()])
    for _ in range(3):
        for found, exact in zip(divided.process_hierarchy(mine), one.process_hierarchy(rows), strict=True):
            torch.testing.assert_close(whole(found), exact)
    samples = torch.stack([rows, rows.flip(0)])
    batch = divided.process_batch(distribute_tensor(samples, mesh, [Replicate()]))
    for found, exact in zip(batch, one.process_batch(samples), strict=True):
        torch.testing.assert_close(whole(found), exact)
    state, exact = divided.state_dict(), one.state_dict()
    for name, held in state.items():
        if name.startswith("levels.0"):
            # Learned by rules of each unit, from rows of each step: bit for bit.
            assert torch.equal(whole(held), exact[name]), name
        elif not name.endswith("sums"):
            torch.testing.assert_close(whole(held), exact[name])
        if name.endswith(("weight", "bias")):
            assert held.placements == (Shard(0),), name
    for step, found in zip((rows[0], rows[1]), (mine[0], mine[1]), strict=True):
        for own, expected in zip(divided.step(found), one.step(step), strict=True):
            torch.testing.assert_close(whole(own), expected)
    with pytest.raises(TypeError, match=r"save: tensors\['levels\.0\.held'\] must be on one rank, got a DTensor"):
        divided.save(pathlib.Path(sys.argv[1]).parent / "hierarchy")
    with pytest.raises(RuntimeError, match=r"mixed .* and DTensor"):
        divided.process_hierarchy(rows)


def check_one_unit(mesh):
    """Which one rank has and the other lacks."""
    rows = torch.randn(5, 6)
    for make in (
        lambda: hierarchy.HebbianCore(6, 1, "bcm", seed=1),
        lambda: hierarchy.HebbianCore(6, 1, "gha", seed=1),
        lambda: hierarchy.SoftHebb(6, 1, seed=1),
    ):
        one, divided = make(), distribute_module(make(), mesh, by_units)
        found = divided.process(distribute_tensor(rows, mesh, [Replicate()]))
        torch.testing.assert_close(whole(found), one.process(rows))
        torch.testing.assert_close(whole(divided.weight), one.weight)
        assert divided.weight.placements == (Shard(0),)


def check_competition(mesh):
    """Ranks send outputs and winners of units, not weights."""
    layers = [hierarchy.SoftHebb(40, 7, seed=0, losers=-1.0), hierarchy.SoftHebb(40, 7, seed=0, losers=-1.0)]
    divided = distribute_module(layers[1], mesh, by_units)
    ticks = torch.randn(6, 3, 40)
    shapes = []

    class Sent(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if DTensor in types:
                return NotImplemented
            if "all_gather" in str(func) or "all_reduce" in str(func):
                shapes.append(args[0].numel())
            return func(*args, **(kwargs or {}))

    with Sent():
        found = divided.process(distribute_tensor(ticks, mesh, [Replicate()]))
    torch.testing.assert_close(whole(found), layers[0].process(ticks))
    torch.testing.assert_close(divided.weight.full_tensor(), layers[0].weight)
    assert divided.weight.placements == (Shard(0),) and torch.equal(divided.sums.full_tensor(), layers[0].sums)
    # A tick's outputs, and of each sample the largest and where it is; no piece of the weights.
    assert 6 <= len(shapes) <= 6 * 3 + 1 and max(shapes) <= 3 * 4
    found, exact = divided(distribute_tensor(ticks[0], mesh, [Replicate()])), layers[0](ticks[0])
    torch.testing.assert_close(whole(found), exact)


def check_gradients(mesh):
    """Of layers that are trained, and of inputs through those that are not."""
    for make in (
        lambda: hierarchy.BitLinear(6, 7, seed=0),
        lambda: hierarchy.ReactiveLayer(6, 7, seed=0),
        lambda: hierarchy.HebbianCore(6, 7, "bcm", seed=0),
        lambda: hierarchy.SoftHebb(6, 7, seed=0),
        lambda: nn.Sequential(hierarchy.BitLinear(6, 5, seed=1), hierarchy.BitLinear(5, 7, bias=False, seed=2)),
    ):
        one, divided = make(), distribute_module(make(), mesh, by_units)
        rows, drawn = torch.randn(4, 6), torch.randn(4, 7)
        own = distribute_tensor(rows, mesh, [Replicate()]).requires_grad_()
        rows.requires_grad_()
        found, exact = divided(own), one(rows)
        torch.testing.assert_close(whole(found), exact)
        found.backward(distribute_tensor(drawn, mesh, found.placements))
        exact.backward(drawn)
        torch.testing.assert_close(whole(own.grad), rows.grad)
        for mine, theirs in zip(divided.parameters(), one.parameters(), strict=True):
            # Behind another layer torch may leave it a sum over ranks.
            assert mine.grad.placements == (Shard(0),) or isinstance(one, nn.Sequential)
            torch.testing.assert_close(whole(mine.grad), theirs.grad)


def check(rank, mesh):
    for rule in RULES:
        for units, batch, dtype in ((7, (), torch.float32), (7, (3,), torch.bfloat16), (1, (3,), torch.float32)):
            try:
                check_scan(mesh, rule, units, batch, dtype)
            except BaseException as error:
                error.add_note(f"at {rule}, {units}, {batch}, {dtype}")
                raise
    check_layers_apart(mesh)
    check_learning(mesh)
    check_one_unit(mesh)
    check_competition(mesh)
    check_gradients(mesh)
