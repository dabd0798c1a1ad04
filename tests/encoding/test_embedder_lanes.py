"""The embedder in every way of running a module: scripts, compiled, exported, copied, under autocast and torch.func."""

import copy
import io
import pickle

import pytest
import torch
from torch.autograd import gradcheck
from torch.export import Dim
from torch.func import functional_call, grad, stack_module_state, vmap

from torch_hrr.encoding import ConfigurableSinusoidalEmbedder, RelativePositionBias, SinusoidalConfig

WAYS = {
    "fused": {},
    "plain": {"use_vectorized_operations": False},
    "learned": {"learnable_frequencies": True, "phase_shift": 0.5, "layout": "half"},
    "logarithms": {"learnable_frequencies": True, "log_frequency": True},
    "mixed": {"use_mixed_precision": True, "use_relative_position": True},
    "recomputed": {"gradient_checkpointing": True, "use_vectorized_operations": False},
}
ways = pytest.mark.parametrize("way", WAYS)
IDS = torch.tensor([[0, 3, 8, 3], [1, 0, 0, 2], [8, 8, 7, 6]])


def embedder(way, **fields):
    config = SinusoidalConfig(**{"vocab_size": 9, "embedding_dim": 7, **WAYS[way], **fields})
    return ConfigurableSinusoidalEmbedder(config, generator=torch.Generator().manual_seed(1), device="cpu")


@ways
def test_script_save_and_load(way):
    module, stored, positions = embedder(way), io.BytesIO(), torch.tensor([7, 5, 5, 2**31])
    scripted = torch.jit.script(module)
    torch.jit.save(scripted, stored)
    stored.seek(0)
    for each in (scripted, torch.jit.load(stored)):
        for _ in range(2):
            assert torch.equal(each(IDS), module(IDS))
            assert torch.equal(each(IDS, positions), module(IDS, positions))


def test_a_bias_scripts():
    for features in (0, 6):
        module = RelativePositionBias(3, heads=2, features=features)
        torch.nn.init.normal_(module.weight)
        assert torch.equal(torch.jit.script(module)(4, 5, 1), module(4, 5, 1))


@ways
def test_compile_makes_one_graph_with_gradients(way):
    module = embedder(way)
    torch._dynamo.reset()
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    parameters = [p for name, p in module.named_parameters() if "bias" not in name]
    for ids in (IDS, IDS[:2]):
        results = [f(ids) for f in (compiled, module)]
        torch.testing.assert_close(*results)
        gradients = [torch.autograd.grad(r.float().square().sum(), parameters) for r in results]
        torch.testing.assert_close(*gradients)
    torch._dynamo.reset()


def test_compilation_as_an_option(monkeypatch):
    """The options of XLA ask for torch.compile; what was compiled is not copied or stored with the module."""
    compile, calls = torch.compile, []
    monkeypatch.setattr(torch, "compile", lambda f, **options: calls.append(f) or compile(f, backend="aot_eager"))
    module = embedder("fused", enable_xla_compilation=True)
    assert len(calls) == 1 and module.get_gpu_acceleration_info()["compiled"]
    assert torch.equal(module(IDS), embedder("fused")(IDS))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(IDS), module(IDS))
    assert len(calls) == 3
    torch._dynamo.reset()


@ways
def test_export_for_any_batch_and_length(way):
    module, stored = embedder(way), io.BytesIO()
    program = torch.export.export(module, (IDS,), dynamic_shapes=({0: Dim("batch"), 1: Dim("length")},))
    torch.export.save(program, stored)
    stored.seek(0)
    other = IDS.repeat(2, 3)
    for exported in (program, torch.export.load(stored)):
        assert torch.equal(exported.module()(other), module(other))


@ways
def test_autocast_sets_the_result_and_no_angle(way):
    module, positions = embedder(way), torch.tensor([0, 1000, 30_001, 1_000_001])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = module(IDS, positions)
        assert torch.equal(torch.jit.script(module)(IDS, positions), result)
    if way == "mixed":
        assert torch.equal(result, module(IDS, positions)) and result.dtype == torch.float16
    else:
        assert torch.equal(result, module(IDS, positions).bfloat16())


@ways
def test_gradients_in_every_mode(way):
    module = embedder(way, precision="float64")
    names = [name for name, _ in module.named_parameters() if "bias" not in name]
    values = [module.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def function(*parameters):
        return functional_call(module, dict(zip(names, parameters, strict=True)), (IDS,))

    # Checkpoints know backward passes alone, one at a time.
    forward = way != "recomputed"
    assert gradcheck(function, values, fast_mode=True, check_forward_ad=forward, check_batched_grad=forward)


def test_gradients_of_every_sample():
    module = embedder("fused")
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(parameters, ids):
        return functional_call(module, parameters, (ids,)).square().sum()

    each = vmap(grad(loss), in_dims=(None, 0))(parameters, IDS)["weight"]
    for i, ids in enumerate(IDS):
        (expected,) = torch.autograd.grad(module(ids).square().sum(), [module.weight])
        torch.testing.assert_close(each[i], expected)


@ways
def test_ensembles(way):
    """Embedders of stacked parameters, with ids of their own and shared ones, and their gradients."""
    modules = [embedder(way) for _ in range(3)]
    for i, module in enumerate(modules):
        for parameter in module.parameters():
            parameter.data.mul_(1 + i / 4)
    parameters, buffers = stack_module_state(modules)
    base = copy.deepcopy(modules[0]).to("meta")

    def call(parameters, buffers, ids):
        return functional_call(base, (parameters, buffers), (ids,))

    def loss(parameters, buffers, ids):
        return call(parameters, buffers, ids).float().square().sum()

    for ids, where in ((IDS, 0), (IDS, None)):
        results = vmap(call, in_dims=(0, 0, where))(parameters, buffers, ids)
        gradients = vmap(grad(loss), in_dims=(0, 0, where))(parameters, buffers, ids)
        for i, module in enumerate(modules):
            own = module(ids if where is None else ids[i])
            assert torch.equal(results[i], own)
            named = {name: p for name, p in module.named_parameters() if "bias" not in name}
            expected = torch.autograd.grad(own.float().square().sum(), list(named.values()))
            for name, gradient in zip(named, expected, strict=True):
                torch.testing.assert_close(gradients[name][i], gradient)


@ways
def test_copies_and_state(way):
    module, other = embedder(way), embedder(way, vocab_size=9)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    assert not torch.equal(other(IDS), module(IDS))
    for same in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(same(IDS), module(IDS)) and same.config == module.config
    assert other.load_state_dict(module.state_dict()) == ([], [])
    assert torch.equal(other(IDS), module(IDS))


def test_a_generator_decides_the_table_and_meta_allocates_none():
    state = torch.get_rng_state()
    assert torch.equal(embedder("fused").weight, embedder("learned").weight)
    assert torch.equal(torch.get_rng_state(), state)
    config = SinusoidalConfig(vocab_size=10**12, embedding_dim=1000, learnable_frequencies=True)
    assert all(p.is_meta for p in ConfigurableSinusoidalEmbedder(config, device="meta").parameters())


def test_where_modules_are_made(monkeypatch):
    """On the current device, whatever accelerator it is, where the configuration allows one."""
    from torch_hrr.encoding import acceleration

    def chosen(current, **fields):
        monkeypatch.setattr(acceleration.runtime, "resolve_device", lambda device: torch.device(device or current))
        return acceleration.choose_device(SinusoidalConfig(**fields).acceleration().enable_gpu, None, "test")

    assert (chosen("cuda:1"), chosen("mps")) == (torch.device("cuda:1"), torch.device("mps"))
    assert chosen("cpu") == chosen("meta") == chosen("cuda", enable_gpu_acceleration=False) == torch.device("cpu")
