"""Brains learn in train mode alone, and areas without a seed follow torch's generator."""

import copy

import pytest
import torch
from torch import nn

import torch_hrr
from torch_hrr.assembly import AssemblyLayer, Brain, TorchBrain


def simple(mode):
    brain = Brain(p=0.2, seed=1, mode=mode)
    brain.add_stimulus("s", 20)
    brain.add_area("A", 60, 6, beta=0.2, **({"refracted": 0.5} if mode == "exact" else {}))
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    return brain


def external(_):
    made = TorchBrain(p=0.2, seed=1)
    made.add_area("A", 60, 6, beta=0.2)
    work(made)
    return made


def work(module):
    """Winners of two more rounds, and what was learned."""
    if isinstance(module, TorchBrain):
        drive = torch.randn(60, generator=torch.Generator().manual_seed(0))
        module.project({"A": drive}, {"A": ["A"]}, rounds=2)
        return [module.winners("A")]
    module.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    return [module.winners("A")]


def learned(module):
    brain = module.brain if isinstance(module, TorchBrain) else module
    if brain.mode == "sampled":
        # Winners get synapses of weight 1 whatever is learned.
        weights = [value.flatten() for name, value in brain.state_dict().items() if name.endswith(".weights")]
        return [torch.cat([each[each > 1] for each in weights]).sort()[0]]
    bias = [] if isinstance(module, TorchBrain) else [brain.states[0].bias]
    return [brain.weights("A", "A").clone(), *(tensor.clone() for tensor in bias)]


def same(one, other):
    return all(map(torch.equal, one, other))


@pytest.mark.parametrize(("make", "mode"), [(simple, "exact"), (simple, "sampled"), (external, "exact")])
def test_synapses_keep_their_weights_in_eval_mode(make, mode):
    brain, off = make(mode), make(mode)
    off.disable_plasticity()
    parent = nn.Sequential(nn.Identity(), nn.ModuleDict({"inner": brain})).eval()
    copied = copy.deepcopy(parent)[1]["inner"]
    expected = work(off)
    for each in (brain, copied):
        assert same(work(each), expected) and same(learned(each), learned(off))
    # The setting is the user's, and counts in train mode.
    brain.enable_plasticity()
    work(brain)
    assert same(learned(brain), learned(off))
    parent.train()
    work(brain)
    assert not same(learned(brain), learned(off)) and same(learned(copied), learned(off))
    brain.disable_plasticity()
    before = learned(brain)
    work(brain)
    assert same(learned(brain), before)


@pytest.mark.parametrize(("make", "mode"), [(simple, "exact"), (simple, "sampled"), (external, "exact")])
def test_states_leave_the_mode_and_files_keep_it(make, mode, tmp_path):
    brain, path = make(mode), tmp_path / "brain.safetensors"
    brain.eval().load_state_dict(copy.deepcopy(make(mode).state_dict()))
    brain.save(path)
    loaded = torch_hrr.load(path)
    for each in (brain, loaded):
        before = learned(each)
        work(each)
        assert not each.training and same(learned(each), before)
        each.train()
        work(each)
        assert not same(learned(each), before)


@pytest.mark.parametrize("trainable", (False, True))
def test_areas_without_a_seed_follow_torchs_generator(trainable):
    torch.manual_seed(3)
    first, second = (AssemblyLayer(20, 30, 5, 0.3, trainable=trainable) for _ in range(2))
    assert not torch.equal(first.weight, second.weight)
    torch.manual_seed(3)
    again = AssemblyLayer(20, 30, 5, 0.3, trainable=trainable)
    assert torch.equal(again.weight, first.weight) and again.seed == first.seed
    named = AssemblyLayer(20, 30, 5, 0.3, trainable=trainable, seed=first.seed)
    assert torch.equal(named.weight, first.weight)
