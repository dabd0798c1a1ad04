"""The k-cap and the area as layers: definitions, training, and every way of running a module."""

import copy
import io
import re

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.export import Dim
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from torch_hrr.assembly import AssemblyLayer, KCap, connectome_inputs, k_cap
from torch_hrr.assembly.modules import draw_edges

DOUBLE = torch.float64
LAYERS = {
    "cap": lambda **kw: KCap(4, 0.5),
    "cap-laplace": lambda **kw: KCap(4, 0.5, "laplace"),
    "area": lambda **kw: AssemblyLayer(12, 30, 5, 0.3, **kw),
    "area-trainable": lambda **kw: AssemblyLayer(12, 30, 5, 0.3, trainable=True, bias=True, surrogate="laplace", **kw),
    "area-ste": lambda **kw: AssemblyLayer(12, 30, 5, 0.3, bias=True, surrogate="ste", **kw),
}
layers = pytest.mark.parametrize("name", LAYERS)


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(dtype)


def test_the_layers_are_their_formulas():
    x = draw(3, 12)
    assert torch.equal(KCap(4, 0.5, "laplace")(x), k_cap(x, 4, 0.5, "laplace"))
    assert torch.equal(KCap(4, 0.5, soft=True)(x), k_cap(x, 4, 0.5, soft=True))
    area = AssemblyLayer(12, 30, 5, 0.3, bias=True, seed=3)
    nn.init.normal_(area.bias)
    edges = draw_edges(30, 12, 0.3, 3)
    assert torch.equal(area.weight, edges.float())
    torch.testing.assert_close(area.inputs(x), x @ edges.float().T + area.bias)
    assert torch.equal(area(x), k_cap(area.inputs(x), 5))
    assert (area(x).sum(-1) == 5).all()


def test_spikes_may_be_bool_or_integers():
    area = AssemblyLayer(50, 80, 7, 0.2)
    spikes = draw(4, 50) > 0
    expected = area(spikes.float())
    assert torch.equal(area(spikes), expected) and torch.equal(area(spikes.long()), expected)
    assert expected.dtype == torch.float32


def test_connections_are_edges_of_the_connectome():
    edges = draw_edges(700, 600, 0.1, 5)
    fired = torch.tensor([3, 17, 599])
    assert torch.equal(edges[:, fired].sum(-1).int(), connectome_inputs(fired, 700, 0.1, 5, 0))
    assert abs(edges.sum().item() - 42_000) <= 4 * (420_000 * 0.1 * 0.9) ** 0.5
    assert torch.equal(edges[:300, :200], draw_edges(300, 200, 0.1, 5))
    assert not torch.equal(edges, draw_edges(700, 600, 0.1, 6))
    assert not draw_edges(9, 9, 0.0, 5).any() and draw_edges(9, 9, 1.0, 5).all()
    with torch.device("meta"):
        assert AssemblyLayer(5, 6, 1).weight.is_meta and not draw_edges(3, 3, 0.5, 0).is_meta


def test_trainable_weights_stay_on_their_connections():
    area = AssemblyLayer(12, 30, 5, 0.3, trainable=True, bias=True)
    optimizer = torch.optim.SGD(area.parameters(), lr=1.0)
    before = area.weight.detach().clone()
    (area(draw(8, 12)) * draw(8, 30, seed=1)).sum().backward()
    optimizer.step()
    moved = area.weight.detach() != before
    assert moved.any() and not moved[area.edges == 0].any()
    assert set(area.state_dict()) == {"weight", "edges", "bias"}
    assert [name for name, _ in AssemblyLayer(12, 30, 5).named_parameters()] == []


@pytest.mark.parametrize("surrogate", ("sigmoid", "laplace", "ste"))
def test_a_network_with_an_area_learns(surrogate):
    """A read-out of the winners, and what lies before the area, learn to tell sets of points apart."""
    torch.manual_seed(0)
    labels = torch.arange(120) % 3
    points = torch.randn(3, 10)[labels] + 0.3 * draw(120, 10, seed=1)
    network = nn.Sequential(
        nn.Linear(10, 20),
        AssemblyLayer(20, 60, 8, 0.3, temperature=2.0, surrogate=surrogate, bias=True),
        nn.Linear(60, 3),
    )
    first = copy.deepcopy(network[0].weight)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(points), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]
    assert (network(points).argmax(-1) == labels).float().mean() > 0.95
    assert not torch.allclose(network[0].weight, first, atol=1e-3)


def test_what_lies_before_an_area_learns_through_it_alone():
    """Only the first layer is trained, so that all of the gain came through the surrogate."""
    torch.manual_seed(1)
    before, area = nn.Linear(10, 20), AssemblyLayer(20, 60, 8, 0.3, temperature=2.0)
    x, wanted = draw(16, 10), torch.arange(8)
    optimizer = torch.optim.Adam(before.parameters(), lr=0.05)
    overlaps = []
    for _ in range(150):
        optimizer.zero_grad()
        overlap = area(before(x))[:, wanted].mean()
        (-overlap).backward()
        optimizer.step()
        overlaps.append(overlap.item())
    assert overlaps[0] < 0.3 and overlaps[-1] > overlaps[0] + 0.3


@pytest.mark.parametrize("trainable", (False, True))
def test_gradients(trainable):
    area = AssemblyLayer(6, 9, 3, 0.5, trainable=trainable, bias=True, soft=True, dtype=DOUBLE)
    leaves = [draw(2, 6, dtype=DOUBLE), *area.parameters()]
    names = [name for name, _ in area.named_parameters()]

    def function(x, *values):
        return torch.func.functional_call(area, dict(zip(names, values, strict=True)), (x,))

    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    assert gradcheck(function, leaves, check_forward_ad=True, check_batched_grad=True)


@layers
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.float16, torch.bfloat16), ids=str)
def test_dtypes(name, dtype):
    module = LAYERS[name](dtype=dtype)
    x = draw(3, 12, dtype=dtype).requires_grad_()
    result = module(x)
    assert result.dtype == dtype
    (result * draw(*result.shape, seed=1, dtype=dtype)).sum().backward()
    assert x.grad.dtype == dtype and x.grad.isfinite().all() and x.grad.abs().max() > 0


@layers
def test_script_save_and_load(name):
    module, x = LAYERS[name](), draw(3, 12)
    stored = io.BytesIO()
    scripted = torch.jit.script(module)
    torch.jit.save(scripted, stored)
    stored.seek(0)
    for each in (scripted, torch.jit.load(stored)):
        for _ in range(2):
            assert torch.equal(each(x), module(x))


@layers
def test_compile_makes_one_graph_with_gradients(name):
    module = LAYERS[name]()
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for batch in (3, 2):
        x = draw(batch, 12, seed=batch).requires_grad_()
        inputs = [x, *module.parameters()]
        results = [function(x) for function in (compiled, module)]
        weights = draw(*results[0].shape, seed=7)
        gradients = [torch.autograd.grad((result * weights).sum(), inputs) for result in results]
        assert torch.equal(results[0], results[1])
        torch.testing.assert_close(gradients[0], gradients[1])
    torch._dynamo.reset()


@layers
def test_export_with_any_batch(name):
    module = LAYERS[name]()
    program = torch.export.export(module, (draw(3, 12),), dynamic_shapes=({0: Dim("batch", min=2, max=64)},))
    for batch in (3, 7):
        x = draw(batch, 12, seed=batch)
        assert torch.equal(program.module()(x), module(x))


def test_state_moves_and_copies():
    area = AssemblyLayer(12, 30, 5, 0.3, trainable=True, bias=True, seed=1)
    other = AssemblyLayer(12, 30, 5, 0.3, trainable=True, bias=True, seed=2)
    other.load_state_dict(area.state_dict())
    x = draw(3, 12)
    assert torch.equal(other(x), area(x)) and torch.equal(copy.deepcopy(area)(x), area(x))
    assert area.double().weight.dtype == area.edges.dtype == DOUBLE


@pytest.mark.parametrize("assign", (False, True))
def test_a_state_with_bools_for_edges_loads(assign):
    """As layers once kept them."""
    area, other = (AssemblyLayer(12, 30, 5, 0.3, trainable=True, seed=seed) for seed in (1, 2))
    x, state = draw(3, 12), area.state_dict()
    other.load_state_dict({**state, "edges": state["edges"] > 0}, assign=assign)
    assert torch.equal(other(x), area(x)) and torch.equal(other.edges == 1, area.edges == 1)


@pytest.mark.parametrize("average", (None, get_ema_multi_avg_fn(0.9)), ids=("mean", "exponential"))
def test_the_average_of_areas(average):
    """With buffers, too, as for layers that keep statistics: connections stay the same."""
    area, x = AssemblyLayer(12, 30, 5, 0.3, trainable=True, soft=True), draw(3, 12)
    edges, first = area.edges.clone(), area.weight.detach().clone()
    averaged = AveragedModel(area, multi_avg_fn=average, use_buffers=True)
    for factor in (1, 3):
        with torch.no_grad():
            area.weight.copy_(first * factor)
        averaged.update_parameters(area)
    assert torch.equal(averaged.module.edges, edges)
    torch.testing.assert_close(averaged.module.weight, first * (2 if average is None else 1.2))
    assert averaged(x).isfinite().all()


def test_repr_shows_the_settings():
    assert repr(KCap(3)) == "KCap(k=3, temperature=1.0, surrogate='sigmoid')"
    assert repr(KCap(3, 2, "laplace", soft=True)) == "KCap(k=3, temperature=2.0, surrogate='laplace', soft=True)"
    assert repr(AssemblyLayer(5, 10, 2, seed=0)) == (
        "AssemblyLayer(in_features=5, n=10, k=2, p=0.1, temperature=1.0, surrogate='sigmoid', "
        "trainable=False, bias=False, seed=0)"
    )


CONSTRUCTORS = [
    (lambda: KCap(1, surrogate="ste", soft=True), ValueError, "KCap: surrogate must be .* with soft, got 'ste'"),
    (lambda: AssemblyLayer(3, 4, 5), ValueError, "AssemblyLayer: k must be at most n = 4, got 5"),
    (lambda: AssemblyLayer(2**40, 2**40, 5), ValueError, r"AssemblyLayer: the weights must have fewer than 2\^59"),
]


@pytest.mark.parametrize(("make", "error", "text"), CONSTRUCTORS)
def test_constructor_errors(make, error, text):
    with pytest.raises(error, match=f"^{text}"):
        make()


def test_call_errors_eager_and_scripted():
    cases = (
        (AssemblyLayer(3, 4, 2), (2, 4), r"AssemblyLayer: x must have shape \[..., 3\], got \[2, 4\]", ValueError),
        (AssemblyLayer(3, 4, 2), (), r"AssemblyLayer: x must have shape \[..., 3\], got \[\]", ValueError),
        (KCap(5), (2, 4), r"k_cap: k must be between 0 and n = 4, got 5", ValueError),
    )
    for module, shape, text, error in cases:
        with pytest.raises(error, match=f"^{text}"):
            module(torch.zeros(shape))
        with pytest.raises((torch.jit.Error, RuntimeError), match=text):
            torch.jit.script(module)(torch.zeros(shape))


def test_layers_take_arrays():
    x = draw(3, 12)
    numbers = x.numpy()
    cap, area = KCap(4), AssemblyLayer(12, 30, 5, 0.3)
    for array in (numbers, numbers[:, ::-1][:, ::-1], np.broadcast_to(numbers, (2, 3, 12))):
        assert torch.equal(cap(array), cap(x).expand(array.shape))
        assert torch.equal(area(array), area(x).expand(*array.shape[:-1], 30))
    assert cap(numbers.astype(np.float64)).dtype == DOUBLE
    # As NumPy makes them; a tensor of another dtype is the user's to convert, or autocast's.
    assert torch.equal(area(numbers.astype(np.float64)), area(x)) and torch.equal(area(numbers > 0), area(x > 0))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert area(x.half()).shape == area(x.bfloat16()).shape == (3, 30)


@pytest.mark.parametrize(
    ("error", "wrong", "text"),
    [
        (TypeError, [[1.0] * 12], "a torch.Tensor or a NumPy array, got list"),
        (TypeError, np.array(["a"] * 12), "an array of numbers that torch has"),
        (TypeError, draw(3, 12).to_sparse(), "strided, got torch.sparse_coo"),
        (TypeError, draw(3, 12).cfloat(), "real, got torch.complex64"),
        (TypeError, draw(3, 12, dtype=DOUBLE), "torch.float32 as the weights are, got torch.float64"),
        (RuntimeError, draw(3, 12).to("meta"), "on cpu, got meta"),
    ],
)
def test_a_layer_names_what_it_cannot_take(error, wrong, text):
    with pytest.raises(error, match=f"^AssemblyLayer: x must be {re.escape(text)}"):
        AssemblyLayer(12, 30, 5)(wrong)
    if not isinstance(wrong, torch.Tensor):
        with pytest.raises(error, match=f"^KCap: x must be {re.escape(text)}"):
            KCap(3)(wrong)
