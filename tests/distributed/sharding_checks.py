"""Operators on tensors divided over a mesh, against the same call on one rank."""

import torch
from cases import ALL_CASES, SYSTEMS
from cases.base import as_tuple, build, floating
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode

import torch_hrr
from torch_hrr import encoding, field, hrr

# Their sequence, of updates or of places in a text, is divided over no rank; units and layers: unit_checks.py.
WHOLE = ("plastic_scan", "_plastic_scan_backward", "_plastic_scan_tangent", "embed_positions")


def same(divided, whole):
    assert isinstance(divided, DTensor) and divided.dtype == whole.dtype
    divided = divided.full_tensor()
    return torch.equal(divided.isnan(), whole.isnan()) and torch.equal(divided.nan_to_num(), whole.nan_to_num())


def divide(case, arguments, dimension, mesh):
    """Tensors divided along a leading dimension, counted from the last one; those that repeat it are whole."""
    divided = dict(arguments)
    for argument in case.arguments:
        given = arguments.get(argument.name)
        if given is None:
            continue
        place = given.dim() - len(argument.dims) + dimension
        has_it = argument.batched and place >= 0 and given.shape[place] > 1
        divided[argument.name] = distribute_tensor(given, mesh, [Shard(place) if has_it else Replicate()])
    return divided


def leading(case, arguments):
    """The dimensions that all tensors together lead with; none where those of one mean something else."""
    shapes = [
        arguments[argument.name].shape[: arguments[argument.name].dim() - len(argument.dims)]
        for argument in case.arguments
        if argument.batched and isinstance(arguments.get(argument.name), torch.Tensor)
    ]
    try:
        return torch.broadcast_shapes(*shapes)
    except RuntimeError:
        return ()


def check_operator(case, sample, mesh):
    arguments = build(sample)
    expected = case.run(arguments)
    sizes = leading(case, arguments)
    for dimension in range(-len(sizes), 0):
        if sizes[dimension] < 2:
            continue
        divided = divide(case, arguments, dimension, mesh)
        with CommDebugMode() as sent:
            results = as_tuple(case.op(**divided))
        assert all(map(same, results, expected))
        if case.name not in WHOLE:
            assert not sent.get_total_counts()
            place = [Shard(len(sizes) + dimension)] * len(results)
            assert [result.placements[0] for result in results] == place
        # Torch 2.11 has no strategies for some operators that gradients are made of.
        if case.takes("gradient") and not torch.__version__.startswith("2.11."):
            check_gradients(case, arguments, divided, case.leaves(arguments))
    return sum(size > 1 for size in sizes)


def check_gradients(case, arguments, divided, names):
    """Bit for bit of rows that every rank has some of; those of rows that all ranks share are sums over ranks.

    ATen's sums of encodings depend on the number of rows.
    """
    if not names:
        return
    leaves = {name: arguments[name].detach().requires_grad_() for name in names}
    own = {name: divided[name].detach().requires_grad_() for name in names}
    whole = floating(case.run(arguments | leaves))
    results = floating(as_tuple(case.op(**(divided | own))))
    drawn = [torch.randn(result.shape).to(result.dtype) for result in whole]
    placed = [
        distribute_tensor(grad, result.device_mesh, result.placements)
        for grad, result in zip(drawn, results, strict=True)
    ]
    gradients = torch.autograd.grad(whole, list(leaves.values()), drawn, allow_unused=True)
    found = torch.autograd.grad(results, list(own.values()), placed, allow_unused=True)
    for name, mine, exact in zip(names, found, gradients, strict=True):
        assert (mine is None) == (exact is None), name
        if exact is None:
            continue
        if own[name].placements[0].is_shard() and case not in SYSTEMS["encoding"]:
            assert same(mine, exact), name
        else:
            torch.testing.assert_close(mine.full_tensor(), exact, rtol=1e-4, atol=1e-5, equal_nan=True)


def check_operators(rank, mesh):
    divided = set()
    for case in ALL_CASES:
        if case.is_out:
            continue
        for sample in (*case.kinds, case.sized(4, 3, 32)):
            torch.manual_seed(0)
            try:
                if check_operator(case, sample, mesh):
                    divided.add(case.name)
            except BaseException as error:
                error.add_note(f"at {case.id}, {sample.id}")
                raise
    assert len(divided) > 35, divided


def check_public(rank, mesh):
    """Calls as users write them."""
    torch.manual_seed(1)
    rows, role, weights = torch.randn(6, 5, 64), torch.randn(64), torch.rand(6, 5)
    divided = distribute_tensor(rows, mesh, [Shard(0)])
    whole = distribute_tensor(role, mesh, [Replicate()])
    places = distribute_tensor(torch.arange(5), mesh, [Replicate()])
    for call in (
        lambda x, y: hrr.bind(x, y),
        lambda x, y: hrr.unbind(x, y),
        lambda x, y: hrr.bind_power(x, 0.5),
        lambda x, y: hrr.spectrum(x),
        lambda x, y: hrr.superpose(hrr.bind(x, y)),
        lambda x, y: hrr.permute(hrr.unitary(x), 3),
        lambda x, y: encoding.rotate(x, places if x is divided else places.full_tensor()),
        lambda x, y: encoding.rope(x),
        lambda x, y: torch_hrr.assembly.k_winners(x, 3)[1],
        lambda x, y: encoding.sinusoidal_encoding(x[..., 0], 6),
    ):
        assert same(call(divided, whole), call(rows, role))
    # Terms of a sum on different ranks: a sum over ranks, of which nothing is sent until it is read.
    terms, shares = distribute_tensor(rows, mesh, [Shard(1)]), distribute_tensor(weights, mesh, [Shard(1)])
    with CommDebugMode() as sent:
        total = hrr.superpose(terms, shares, normalize=False)
        moved = hrr.unbind(total, whole)
    assert total.placements[0] == moved.placements[0] == Partial() and not sent.get_total_counts()
    exact = hrr.unbind(hrr.superpose(rows, weights, normalize=False), role)
    torch.testing.assert_close(moved.full_tensor(), exact, rtol=1e-5, atol=1e-5)
    # The same call but for a flag is another: what is normalised is no sum.
    normal = hrr.superpose(terms, shares, normalize=True)
    assert normal.placements[0] == Replicate() and same(normal, hrr.superpose(rows, weights, normalize=True))
    # Rows divided along D are gathered.
    torch.testing.assert_close(
        hrr.bind(distribute_tensor(rows, mesh, [Shard(2)]), whole).full_tensor(), hrr.bind(rows, role)
    )
    # A dtype asked for is no other's.
    times = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    tones = distribute_tensor(torch.rand(3), mesh, [Replicate()])
    for dtype in (torch.float64, torch.float32):
        assert torch.ops.torch_hrr.sinusoidal_features(times, tones, dtype=dtype).dtype == dtype
    # Texts divided, their table and places whole; the gradient of the table is a sum over ranks.
    tokens, table = torch.randint(9, (4, 3)), torch.randn(9, 8)
    found, exact = [
        (encoding.embed_positions(x, y), y)
        for x, y in (
            (
                distribute_tensor(tokens, mesh, [Shard(0)]),
                distribute_tensor(table, mesh, [Replicate()]).requires_grad_(),
            ),
            (tokens, table.clone().requires_grad_()),
        )
    ]
    assert found[0].placements[0] == Shard(0) and same(found[0].detach(), exact[0])
    for result, _ in (found, exact):
        result.sum().backward()
    torch.testing.assert_close(found[1].grad.full_tensor(), exact[1].grad)
    # Every channel diffuses by itself, so that none of it is sent, and its gradients are as divided.
    fields, key = torch.randn(2, 3, 3, 3, 5), field.random_key(3)
    channels, cells = (x.requires_grad_() for x in (distribute_tensor(fields, mesh, [Shard(4)]), fields.clone()))
    with CommDebugMode() as sent:
        evolved = field.evolve(channels, 0.1, 0.1, steps=3)
        evolved.backward(evolved.detach())
    whole_field = field.evolve(cells, 0.1, 0.1, steps=3)
    whole_field.backward(whole_field.detach())
    assert evolved.placements == channels.grad.placements == (Shard(4),) and not sent.get_total_counts()
    assert same(evolved.detach(), whole_field.detach()) and same(channels.grad, cells.grad)
    # Noise is numbered over the whole batch.
    noisy = field.evolve(
        distribute_tensor(fields, mesh, [Shard(0)]),
        0.1,
        0.1,
        noise=0.5,
        key=distribute_tensor(key, mesh, [Replicate()]),
    )
    assert same(noisy, field.evolve(fields, 0.1, 0.1, noise=0.5, key=key))
    # A key that nobody gives is the one that the first rank draws.
    torch.manual_seed(rank)
    noisy = field.evolve(distribute_tensor(fields, mesh, [Shard(4)]), 0.1, 0.1, noise=0.5)
    torch.manual_seed(0)
    assert same(noisy, field.evolve(fields, 0.1, 0.1, noise=0.5))


def check_meshes():
    """Meshes of two dimensions, dimensions that one of them divides unevenly, and both derivatives."""
    torch.manual_seed(2)
    for sizes in ((2, 1), (1, 2)):
        mesh = init_device_mesh("cpu", sizes)
        for rows in (5, 1):
            given = torch.randn(rows, 3, 8), torch.randn(8)
            drawn = torch.randn(rows, 3, 8)
            found = []
            for places in (None, (Shard(0), Shard(1)), (Shard(1), Shard(0)), (Shard(0), Replicate())):

                def put(tensor, placements, is_whole=places is None, mesh=mesh):
                    return tensor.clone() if is_whole else distribute_tensor(tensor, mesh, placements)

                x = put(given[0], places).requires_grad_()
                role = put(given[1], [Replicate()] * 2)
                turned = encoding.rotate(hrr.bind(hrr.normalize(x), role))
                (first,) = torch.autograd.grad(turned, x, put(drawn, places), create_graph=True)
                (second,) = torch.autograd.grad(first.square().sum(), x)
                found.append([each.detach() for each in (turned, first, second)])
            for divided in found[1:]:
                assert all(map(same, divided, found[0]))


def check_compiled(mesh):
    """A graph of divided tensors has the bits of what it was made of, and its result is as divided."""
    rows, role = torch.randn(5, 3, 8), torch.randn(8)
    programs = (
        lambda x, y: torch_hrr.assembly.k_winners(encoding.rope(hrr.superpose(hrr.bind(x, y)[:, None])), 3)[0],
        lambda x, y: field.evolve(x.view(5, 3, 1, 1, 8), 0.1, 0.1, steps=2) * y,
    )
    for program in programs:
        found = []
        for run in (program, torch.compile(program, backend="aot_eager", fullgraph=True)):
            x = distribute_tensor(rows, mesh, [Shard(0)]).requires_grad_()
            result = run(x, distribute_tensor(role, mesh, [Replicate()]))
            result.square().sum().backward()
            assert result.placements == (Shard(0),)
            found.append((result.full_tensor(), x.grad.full_tensor()))
        assert all(map(torch.equal, *found))


def check(rank, mesh):
    check_operators(rank, mesh)
    check_public(rank, mesh)
    check_meshes()
    check_compiled(mesh)
