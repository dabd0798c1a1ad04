"""Modes decide about learning where a call does not: none after eval(), and again after train()."""

import copy

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_hrr
from torch_hrr.hierarchy import BitLinear, HebbianCore, HierarchicalLevel, HierarchyManager, ReactiveLayer, SoftHebb

DATA = torch.randn(9, 5, generator=torch.Generator().manual_seed(0))
LEARNING = {"HebbianCore": HebbianCore, "bcm": lambda n, m, seed: HebbianCore(n, m, "bcm", seed=seed)}
LEARNING["SoftHebb"] = SoftHebb


def level(kind, number=0, size=5, units=4):
    made = HierarchicalLevel(number, size, units, number + 1)
    made.add_layer(kind(size, units, seed=0))
    return made


def hierarchy(kind):
    made = HierarchyManager()
    made.add_level(level(kind))
    made.add_level(level(kind, 1, 4, 3))
    return made


MAKE = {"layer": lambda kind: kind(5, 4, seed=0), "level": level, "hierarchy": hierarchy}
# The ways to run each over data.
CALLS = {
    "layer": [lambda module, **learn: [module.process(DATA, **learn)]],
    "level": [
        lambda module, **learn: [module.process(DATA, **learn)],
        lambda module, **learn: [module.step(row, **learn) for row in DATA],
    ],
    "hierarchy": [
        lambda module, **learn: module.process_hierarchy(DATA, **learn),
        lambda module, **learn: module.process_batch(DATA[None], **learn),
        lambda module, **learn: [row for x in DATA for row in module.step(x, **learn)],
    ],
}
every = pytest.mark.parametrize(
    ("kind", "what", "call"),
    [
        pytest.param(kind, what, call, id=f"{name}-{what}-{i}")
        for name, kind in LEARNING.items()
        for what, calls in CALLS.items()
        for i, call in enumerate(calls)
    ],
)


def weights(module):
    return {
        name: value.clone() for name, value in module.state_dict().items() if name.endswith(("weight", "theta", "bias"))
    }


def changed(before, module):
    return [name for name, value in weights(module).items() if not torch.equal(value, before[name])]


@every
def test_modes_decide_unless_the_call_does(kind, what, call):
    module = MAKE[what](kind)
    before, still = weights(module), call(copy.deepcopy(module), learn=False)
    parent = nn.Sequential(nn.Identity(), nn.ModuleDict({"inner": module})).eval()
    copied = copy.deepcopy(parent)[1]["inner"]

    def from_rest(each, **learn):
        if what != "layer":
            each.reset_state()
        return call(each, **learn)

    for each in (module, copied):
        for _ in range(2):
            assert all(map(torch.equal, from_rest(each), still))
        assert changed(before, each) == []
    from_rest(copied, learn=True)
    learned = weights(copied)
    parent.train()
    from_rest(module, learn=False)
    assert changed(before, module) == []
    from_rest(module)
    assert changed(before, module) and changed(learned, module) == []
    # A copy has a mode of its own.
    from_rest(copied)
    assert changed(learned, copied) == []


@pytest.mark.parametrize("resting", ("levels.0", "levels.0.layers.0"))
def test_a_part_in_eval_mode_rests_alone(resting):
    manager = hierarchy(HebbianCore)
    manager.get_submodule(resting).eval()
    before = weights(manager)
    manager.process_hierarchy(DATA)
    assert changed(before, manager) == ["levels.1.layers.0.weight"]


def test_what_is_added_to_a_hierarchy_in_eval_mode_does_not_learn():
    manager = HierarchyManager().eval()
    manager.add_level(level(HebbianCore))
    before = weights(manager)
    manager.process_hierarchy(DATA)
    assert manager.levels[0].layers[0].training and changed(before, manager) == []


def test_without_learning_any_number_may_be_read():
    """NaN would spoil what learns, and gradients flow where nothing does."""
    manager = hierarchy(HebbianCore).eval()
    assert manager.process_hierarchy(DATA / 0)[1].isnan().any()
    manager.reset_state()
    x = DATA.clone().requires_grad_()
    manager.process_hierarchy(x)[1].square().sum().backward()
    assert x.grad.abs().max() > 0


# Strict export warns of settings that are written, even if they stay as they are.
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects:UserWarning")
@pytest.mark.parametrize("kind", LEARNING.values(), ids=LEARNING)
def test_programs_of_a_hierarchy_in_eval_mode(kind, tmp_path):
    manager = hierarchy(kind)
    expected, before = manager(DATA), weights(manager)
    scripted = torch.jit.script(manager)
    exported = torch.export.export(manager, (DATA,), strict=True).module()
    manager.eval()
    torch.jit.script(manager).save(tmp_path / "manager.pt")
    programs = {
        "scripted, then eval": scripted.eval(),
        "scripted in eval, then train": torch.jit.load(tmp_path / "manager.pt").train(),
        "frozen": torch.jit.freeze(torch.jit.script(manager)),
        "exported": exported,
        "compiled": torch.compile(manager, fullgraph=True, backend="aot_eager"),
    }
    assert not any(module.training for module in scripted.modules())
    for name, program in programs.items():
        assert all(map(torch.equal, program(DATA), expected)), name
    assert changed(before, manager) == []
    layer = kind(5, 4, seed=0).eval()
    compiled = torch.compile(lambda x: layer.process(x), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(DATA), layer(DATA))


def test_files_keep_modes(tmp_path):
    manager = hierarchy(HebbianCore)
    plain, resting = tmp_path / "plain.safetensors", tmp_path / "resting.safetensors"
    manager.save(plain)
    assert all(module.training for module in torch_hrr.load(plain).modules())
    manager.levels[1].eval()
    manager.save(resting)
    loaded = torch_hrr.load(resting)
    modes = {name: module.training for name, module in loaded.named_modules()}
    assert modes == {name: module.training for name, module in manager.named_modules()}
    assert modes["levels.0"] and not modes["levels.1.layers.0"]
    manager.levels[1].train().train()
    manager.save(resting)
    assert resting.read_bytes() == plain.read_bytes()


KINDS = {"ReactiveLayer": ReactiveLayer, "HebbianCore": HebbianCore, "SoftHebb": SoftHebb, "BitLinear": BitLinear}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_layers_without_a_seed_follow_torchs_generator(kind):
    torch.manual_seed(3)
    first, second = kind(5, 4), kind(5, 4)
    assert not torch.equal(first.weight, second.weight)
    torch.manual_seed(3)
    with torch.device("meta"):
        made = kind(5, 4, device="cpu")
    assert torch.equal(made.weight, first.weight)
    # One that has no data draws its seed as well, so that what comes after is the same.
    torch.manual_seed(3)
    assert kind(5, 4, device="meta").weight.is_meta
    assert torch.equal(kind(5, 4).weight, second.weight)
    with FakeTensorMode():
        assert kind(5, 4).weight.shape == (4, 5)
    before = torch.get_rng_state()
    expected = torch.randn(4, 5, generator=torch.Generator().manual_seed(0)) / 5**0.5
    assert torch.equal(kind(5, 4, seed=0).weight, expected)
    assert torch.equal(torch.get_rng_state(), before)


def test_files_hold_the_seed_that_was_drawn(tmp_path):
    manager = HierarchyManager()
    manager.add_level(HierarchicalLevel(0, 5, 4))
    manager.levels[0].add_layer(HebbianCore(5, 4))
    manager.save(tmp_path / "h.safetensors")
    before = torch.get_rng_state()
    loaded = torch_hrr.load(tmp_path / "h.safetensors")
    assert torch.equal(torch.get_rng_state(), before)
    layer, made = loaded.levels[0].layers[0], manager.levels[0].layers[0]
    assert torch.equal(layer.weight, made.weight) and layer.seed == made.seed != HebbianCore(5, 4).seed
    assert torch.equal(HebbianCore(5, 4, seed=layer.seed).weight, layer.weight)
