"""Layers and loss in every way of running a module: gradients, dtypes, scripts, compiled, exported, copied, drawn."""

import copy
import io

import pytest
import torch
from torch.autograd import gradcheck
from torch.export import Dim
from torch.func import functional_call, vmap

from torch_hrr import hrr
from torch_hrr.hrr.losses import HRRMultiLabelLoss
from torch_hrr.hrr.modules import Bind, BindSuperpose, HRRAttention, Unbind

DOUBLE = torch.float64


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(shape, generator=seeded(seed), dtype=DOUBLE).to(dtype)


class Causal(torch.nn.Module):
    """Attention of every position to those up to it."""

    def __init__(self, **options):
        super().__init__()
        self.attention = HRRAttention(12, 2, True, **options)

    def forward(self, x: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.attention(x, padding, True)


class Cross(torch.nn.Module):
    """Attention to a context."""

    def __init__(self, **options):
        super().__init__()
        self.attention = HRRAttention(12, 3, **options)

    def forward(self, x: torch.Tensor, context: torch.Tensor, padding: torch.Tensor) -> torch.Tensor:
        return self.attention(x, padding, context=context)


PADDING = torch.arange(5) >= torch.tensor([[5], [3], [1]])
LAYERS = {
    "bind_one": (lambda **kw: Bind(12, **kw), lambda: (draw(3, 12),)),
    "bind_many": (lambda **kw: Bind(12, 4, **kw), lambda: (draw(3, 4, 12),)),
    "bind_unitary": (lambda **kw: Bind(12, 4, True, **kw), lambda: (draw(3, 4, 12),)),
    "unbind_one": (lambda **kw: Unbind(12, unitary=True, **kw), lambda: (draw(3, 12),)),
    "unbind_many": (lambda **kw: Unbind(12, 4, **kw), lambda: (draw(3, 12),)),
    "record": (lambda **kw: BindSuperpose(12, 4, **kw), lambda: (draw(3, 4, 12),)),
    "record_weights": (
        lambda **kw: BindSuperpose(12, 4, True, True, **kw),
        lambda: (draw(3, 4, 12), draw(3, 4, seed=1)),
    ),
    "attention": (lambda **kw: HRRAttention(12, 3, **kw), lambda: (draw(3, 5, 12),)),
    "attention_padded": (
        lambda **kw: HRRAttention(12, 2, True, **kw),
        lambda: (draw(3, 5, 12), PADDING),
    ),
    "causal": (Causal, lambda: (draw(3, 5, 12), PADDING.flip(-1))),
    "cross": (Cross, lambda: (draw(3, 4, 12), draw(3, 5, 12, seed=1), PADDING)),
    "loss": (
        lambda **kw: HRRMultiLabelLoss(7, 12, **kw),
        lambda: (draw(3, 12), torch.arange(7) % torch.tensor([[2], [3], [4]]) == 0),
    ),
}


layers = pytest.mark.parametrize("name", LAYERS)


def layer(name, dtype=DOUBLE):
    """The module, drawn from a seed, and inputs for it."""
    make, inputs = LAYERS[name]
    return make(generator=seeded(7), dtype=dtype), tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs())


@layers
def test_gradients(name):
    module, inputs = layer(name)
    names = [n for n, _ in module.named_parameters()]
    tensors = [x for x in inputs if x.is_floating_point()]
    rest = [x for x in inputs if not x.is_floating_point()]

    def function(*values):
        parameters = dict(zip(names, values[len(tensors) :], strict=True))
        return functional_call(module, parameters, (*values[: len(tensors)], *rest))

    leaves = [x.detach().clone().requires_grad_() for x in (*tensors, *module.parameters())]
    assert gradcheck(function, leaves, fast_mode=True, check_forward_ad=True, check_batched_grad=True)


@layers
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_dtypes(name, dtype):
    module, inputs = layer(name, dtype)
    result = module(*inputs)
    assert result.dtype == (torch.float32 if name == "loss" else dtype)
    exact = copy.deepcopy(module).double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    bound = {torch.float32: 1e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}[dtype]
    assert (result.double() - exact).norm() <= bound * exact.norm()
    result.float().sum().backward() if result.requires_grad else None
    assert all(p.grad.dtype == dtype and p.grad.isfinite().all() for p in module.parameters())


def test_attention_in_float16_survives_long_sequences_of_large_values():
    module = HRRAttention(64, 1, generator=seeded(), dtype=torch.float16)
    x = draw(1, 1, 64, seed=1).expand(1, 4096, 64) * 4
    exact = copy.deepcopy(module).double()
    for options in ({}, {"is_causal": True}, {"context": x}):
        given = {name: value.half() if value is x else value for name, value in options.items()}
        result, expected = module(x.half(), **given).double(), exact(x, **options)
        assert (result - expected).norm() <= 0.02 * expected.norm()
    with torch.autocast("cpu", dtype=torch.float16):
        result = module.float()(x.float(), is_causal=True).double()
    expected = exact(x, is_causal=True)
    assert (result - expected).norm() <= 0.02 * expected.norm()


@layers
def test_script_save_and_load(name):
    module, inputs = layer(name, torch.float32)
    stored = io.BytesIO()
    scripted = torch.jit.script(module)
    torch.jit.save(scripted, stored)
    stored.seek(0)
    for each in (scripted, torch.jit.load(stored)):
        for _ in range(2):
            assert torch.equal(each(*inputs), module(*inputs))
        if name.startswith("attention"):
            assert torch.equal(each.attention_weights(*inputs), module.attention_weights(*inputs))
        if name == "loss":
            assert torch.equal(each.scores(inputs[0]), module.scores(inputs[0]))
            assert torch.equal(each.encode(inputs[1]), module.encode(inputs[1]))


class Record(torch.nn.Module):
    """A layer of ours and operators by their names, as a script calls them."""

    def __init__(self):
        super().__init__()
        self.roles = Bind(12, 4, generator=seeded(7))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.torch_hrr.unbind(torch.ops.torch_hrr.superpose(self.roles(x)), self.roles.weight[0])


def test_a_script_calls_operators_by_their_names():
    module, x = Record(), draw(3, 4, 12, dtype=torch.float32)
    expected = hrr.unbind(hrr.superpose(module.roles(x)), module.roles.weight[0])
    assert torch.equal(torch.jit.script(module)(x), expected)


@layers
def test_compile_makes_one_graph_with_gradients(name):
    module, inputs = layer(name, torch.float32)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for batch in (slice(0, 3), slice(1, 3)):
        x, *rest = (x[batch] for x in inputs)
        x.requires_grad_()
        results = [f(x, *rest) for f in (compiled, module)]
        gradients = [torch.autograd.grad(r.square().sum(), [x, *module.parameters()]) for r in results]
        torch.testing.assert_close(results[0], results[1])
        torch.testing.assert_close(gradients[0], gradients[1])
        x.requires_grad_(False)
    torch._dynamo.reset()


@layers
def test_export_for_any_batch(name):
    module, inputs = layer(name, torch.float32)
    program = torch.export.export(module, inputs, dynamic_shapes=(({0: Dim("batch")},) * len(inputs)))
    stored = io.BytesIO()
    torch.export.save(program, stored)
    stored.seek(0)
    other = tuple(torch.cat((x, x)) for x in inputs)
    for exported in (program, torch.export.load(stored)):
        assert torch.equal(exported.module()(*other), module(*other))


@layers
def test_state_round_trip_and_copies(name):
    module, inputs = layer(name)
    other = LAYERS[name][0](generator=seeded(8), dtype=DOUBLE)
    assert not torch.equal(other(*inputs), module(*inputs))
    assert other.load_state_dict(module.state_dict(), strict=True) == ([], [])
    assert torch.equal(other(*inputs), module(*inputs))
    assert torch.equal(copy.deepcopy(module)(*inputs), module(*inputs))
    storages = {x.untyped_storage().data_ptr() for x in module.state_dict().values()}
    assert len(storages) == len(module.state_dict())


@layers
def test_a_generator_decides_the_initial_values(name):
    make, _ = LAYERS[name]
    state = torch.get_rng_state()
    first, second, other = (make(generator=seeded(seed)).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    assert all(value.dtype == torch.float32 for value in first.values())
    torch.manual_seed(3)
    default = make().state_dict()
    torch.manual_seed(3)
    assert all(torch.equal(value, default[key]) for key, value in make().state_dict().items())
    with torch.device("meta"):
        assert all(value.is_meta for value in make().state_dict().values())
    assert all(value.is_meta for value in make(device="meta").state_dict().values())


def test_attention_under_vmap_gives_gradients_of_every_sample():
    module, inputs = layer("attention")

    def loss(parameters, sequence):
        return functional_call(module, parameters, (sequence,)).square().sum()

    parameters = {name: p.detach() for name, p in module.named_parameters()}
    each = vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, inputs[0])
    for i, sequence in enumerate(inputs[0]):
        expected = torch.autograd.grad(module(sequence).square().sum(), list(module.parameters()))
        for gradient, exact in zip(each.values(), expected, strict=True):
            torch.testing.assert_close(gradient[i], exact)


@pytest.mark.parametrize("name", ("bind_unitary", "record_weights", "attention_padded", "causal", "cross", "loss"))
def test_autocast(name):
    module, inputs = layer(name, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = module(*inputs)
    exact = module(*inputs)
    assert (result.float() - exact).norm() <= 0.05 * exact.norm()
