"""Files of `TorchBrain`: it goes on with the same bits; damaged and forged ones are refused, or are brains to use."""

import copy
import subprocess
import sys

import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.assembly import Brain, TorchBrain
from torch_hrr.io import files

FORMAT, VERSION = "torch_hrr.assembly.TorchBrain", 1
ROUND = {"v": ["v", "s"], "s": ["v"]}


def drawn(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def trained(learning=True, precision="fp32"):
    brain = TorchBrain(p=0.2, seed=5, learning=learning, precision=precision)
    brain.add_area("v", 60, 6, 0.1, refracted=0.25)
    brain.add_area("s", 50, 5, w_max=3.0)
    brain.project({"v": drawn(60), "s": drawn(50)}, ROUND, 3)
    if learning:
        step(brain)
    brain.brain.normalize("s")
    brain.brain.inhibit_fiber("s", "v", lock=2)
    return brain


def step(brain):
    optimizer = torch.optim.SGD(brain.parameters(), lr=5.0)
    brain.project({"v": drawn(60, 1)}, ROUND, 2)
    brain.compute_assembly_loss({"v": range(6), "s": range(5)}).backward()
    optimizer.step()
    brain.zero_grad()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "brain.safetensors"


@pytest.fixture
def content(path):
    trained().save(path)
    tensors, settings = files.load(path, format=FORMAT, version=VERSION)
    return tensors, copy.deepcopy(settings)


def test_a_file_is_found_by_a_process_that_has_not_imported_its_class(path):
    trained().save(path)
    program = """
import sys, torch_hrr
assert not [name for name in sys.modules if "compat" in name and "torch_hrr" in name]
brain = torch_hrr.load(sys.argv[1])
import torch_hrr.assembly.simulator as simulator
from torch_hrr.assembly.simulator import Brain, overlap
assert type(brain) is torch_hrr.assembly.TorchBrain and simulator is torch_hrr.assembly.simulator
assert simulator.Brain is Brain is torch_hrr.compat.simulator.Brain
"""
    subprocess.run([sys.executable, "-c", program, path], check=True, timeout=300)


def forge(path, tensors, settings):
    files.save(path, tensors, settings, format=FORMAT, version=VERSION)


def assert_refused(path):
    with pytest.raises(IntegrityError, match=r"^load: \S*brain\.safetensors "):
        TorchBrain.load(path)


def assert_same(one, other):
    assert (one.precision, one.learning, len(one.biases)) == (other.precision, other.learning, len(other.biases))
    assert one.brain.get_extra_state() == other.brain.get_extra_state()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
    for area in "vs":
        assert torch.equal(one.winners(area), other.winners(area)) and one.support(area) == other.support(area)
        mine, others = one.brain.potentiated("v", area), other.brain.potentiated("v", area)
        assert all(torch.equal(a, b) for a, b in zip(mine, others, strict=True))


@pytest.mark.parametrize("key", [None, b"a secret"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("learning", [False, True])
def test_a_loaded_brain_goes_on_with_the_same_bits(path, key, precision, learning):
    brain = trained(learning, precision)
    assert len(brain.biases) == 2 * learning and all(bias.any() for bias in brain.biases)
    brain.save(path, key=key)
    loaded = TorchBrain.load(path, key=key)
    assert_same(loaded, brain)
    assert loaded.memory_manager._brain is loaded.brain and not loaded.jit
    again = path.with_suffix(".again")
    loaded.save(again, key=key)
    assert again.read_bytes() == path.read_bytes()
    for each in (brain, loaded):
        each.brain.disinhibit_fiber("s", "v", lock=2)
        each.project({"s": drawn(50)}, ROUND, 3)
        if learning:
            step(each)
        each.add_area("w", 40, 4)
        each.project({"w": drawn(40)}, {"w": ["v"]})
    assert_same(loaded, brain)


@pytest.mark.parametrize("cast", ["half", "double", "bfloat16"])
def test_biases_keep_their_dtype_and_files_their_form(path, cast):
    brain, plain = trained(), trained()
    plain.compute_assembly_loss({"v": range(6)}).backward()
    brain.compute_assembly_loss({"v": range(6)}).backward()
    getattr(torch.nn.Sequential(brain), cast)()
    assert torch.equal(brain.biases[0].grad, plain.biases[0].grad) and brain.biases[0].grad.any()
    assert_same(brain, plain)
    assert {bias.dtype for bias in brain.biases} == {torch.float32}
    brain.save(path)
    assert_same(TorchBrain.load(path), plain)


def test_the_loss_of_a_loaded_brain_is_that_before_a_projection(path):
    brain = trained()
    brain.save(path)
    loaded = TorchBrain.load(path)
    with torch.no_grad():
        loss = loaded.compute_assembly_loss({"v": range(6)})
        fresh = torch.ops.torch_hrr.k_cap(brain.biases[0], 6, 1.0, "sigmoid", True)
    assert float(loss) == pytest.approx(1 - float(fresh[:6].mean()), abs=1e-6)


def test_the_files_of_both_kinds_of_brain_are_told_apart(path):
    brain = trained()
    brain.save(path)
    with pytest.raises(IntegrityError, match="must hold version 1 of"):
        Brain.load(path)
    brain.brain.save(path)
    with pytest.raises(IntegrityError, match="must hold version 1 of"):
        TorchBrain.load(path)


SETTINGS = {
    "precision": ["fp64", None, ["fp32"], {}],
    "learning": [1, None, "yes"],
    "brain": [None, [], {}, 3],
    "another": [True],
}
FORGED_BRAINS = [("p", 2), ("p", None), ("seed", 1.5), ("mode", "sampled"), ("batch", 1), ("areas", [])]


def test_forged_settings_are_refused(content, path):
    tensors, settings = content
    forged = [{**settings, name: value} for name, values in SETTINGS.items() for value in values]
    forged += [{key: value for key, value in settings.items() if key != name} for name in settings]
    forged += [{**settings, "brain": {**settings["brain"], name: value}} for name, value in FORGED_BRAINS]
    for each in forged:
        forge(path, tensors, each)
        assert_refused(path)


FORGED_TENSORS = {
    "a bias too long": {"biases.0": torch.zeros(61)},
    "a bias of another area": {"biases.0": torch.zeros(50), "biases.1": torch.zeros(60)},
    "a matrix": {"biases.1": torch.zeros(50, 1)},
    "a number": {"biases.1": torch.tensor(1.0)},
    "another dtype": {"biases.1": torch.zeros(50, dtype=torch.float64)},
    "one too many": {"biases.2": torch.zeros(50)},
    "the first is missing": {"biases.0": None},
    "a gap": {"biases.1": None, "biases.2": torch.zeros(50)},
    "another name": {"bias": torch.zeros(50)},
    "a tensor of the brain is missing": {"brain.states.0.winners": None},
    "a tensor that no brain has": {"brain.biases.0": torch.zeros(60)},
    "winners outside": {"brain.states.0.winners": torch.full((1, 6), 60)},
}


@pytest.mark.parametrize("changes", FORGED_TENSORS.values(), ids=FORGED_TENSORS)
def test_forged_tensors_are_refused(content, path, changes):
    tensors, settings = content
    assert all(tensors.get(name) is not None for name, tensor in changes.items() if tensor is None)
    kept = {name: tensor for name, tensor in (tensors | changes).items() if tensor is not None}
    forge(path, kept, settings)
    assert_refused(path)


def test_fewer_biases_than_areas_are_those_of_the_first(content, path):
    tensors, settings = content
    del tensors["biases.1"]
    forge(path, tensors, settings)
    loaded = TorchBrain.load(path)
    assert [len(bias) for bias in loaded.biases] == [60]
    step(loaded)
    assert [len(bias) for bias in loaded.biases] == [60, 50]


@pytest.mark.parametrize("junk", [None, 3, {}, {"learning": 1, "biases": []}, {"learning": True, "biases": [0.5]}])
def test_a_state_with_another_description_is_refused(junk):
    brain = TorchBrain(p=0.1, seed=0, learning=True)
    brain.add_area("A", n=20, k=2)
    biases = list(brain.biases)
    brain.project({"A": torch.arange(20.0)}, {})
    won = brain.winners("A")
    for name, value in (("biases.0", torch.zeros(3)), ("brain.states.0.winners", torch.tensor([[5, 5]]))):
        with pytest.raises((RuntimeError, ValueError)):
            brain.load_state_dict({**copy.deepcopy(brain.state_dict()), name: value})
        assert torch.equal(brain.winners("A"), won) and brain.biases[0] is biases[0]
    with pytest.raises((TypeError, ValueError), match=r"^load_state_dict: (_extra_state|learning|biases) must "):
        brain.load_state_dict({**brain.state_dict(), "_extra_state": junk})
    assert brain.learning and all(now is before for now, before in zip(brain.biases, biases, strict=True))
