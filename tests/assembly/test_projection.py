"""Rounds of a brain as a module: the winners of the brain to the last bit, plainly, scripted, saved and loaded."""

import copy
import io
import pickle

import pytest
import torch
from test_brain_oracle import PROGRAMS, declare
from torch.library import opcheck

from torch_hrr.assembly import AssemblyClassifier, Brain

ops = torch.ops.torch_hrr
README = ({"s": ["A"]}, {"A": ["A"]})


def small(batch=None, **options):
    brain = Brain(p=0.1, seed=3, batch=batch)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 1000, 30, 0.1, **options)
    brain.add_area("B", 700, 20, 0.05)
    return brain


def reloaded(module):
    stored = io.BytesIO()
    torch.jit.save(module, stored)
    stored.seek(0)
    return torch.jit.load(stored)


def same(module, brain):
    for area in module.names if hasattr(module, "names") else brain.areas:
        assert torch.equal(module.winners(area), brain.winners(area))
        assert torch.equal(module.support(area), torch.as_tensor(brain.support(area)))


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("form", ["module", "scripted"])
def test_the_winners_are_those_of_the_brain(batch, form):
    brain = small(batch)
    brain.project("s", "A", rounds=5)
    plan = {"s": ["A"]}, {"A": ["A", "B"], "B": ["A", "B"]}
    brain.project({}, {"A": ["B"]})
    module = brain.projection(*plan)
    if form == "scripted":
        module = reloaded(torch.jit.script(module))
    for rounds in (1, 0, 12, 3):
        brain.project(*plan, rounds=rounds)
        found = module(rounds)
        assert found.keys() == {"A", "B"}
        same(module, brain)
    # The file of the module that learned goes on.
    if form == "scripted":
        module = reloaded(module)
    brain.project(*plan, rounds=4)
    module(4)
    same(module, brain)
    brain.eval()
    module.eval()
    before = brain.support("A")
    brain.project(*plan, rounds=3)
    module(3)
    same(module, brain)
    assert torch.equal(torch.as_tensor(before), torch.as_tensor(brain.support("A"))) or batch


@pytest.mark.parametrize(
    "options",
    [
        {"refracted": 0.5},
        {"refractory_period": 3, "inhibition_strength": 2.0},
        {"ties": "keyed", "w_max": 1.5},
    ],
    ids=str,
)
def test_areas_of_every_kind(options):
    brain = small(**options)
    module = brain.projection(*README)
    scripted = reloaded(torch.jit.script(module))
    brain.project(*README, rounds=10)
    for each in (module, scripted):
        each(10)
        same(each, brain)


def test_the_brain_and_the_module_do_not_touch_each_other():
    brain = small()
    module = brain.projection(*README)
    assert not brain.fibers and len(brain.winners("A")) == 0
    brain.project(*README, rounds=2)
    before = brain.winners("A")
    assert len(module.winners("A")) == 0
    module(8)
    assert torch.equal(brain.winners("A"), before) and int(module.support("A")) != brain.support("A")


def test_what_a_brain_was_set_to_holds():
    brain = small()
    brain.project(*README, rounds=5)
    brain.connect("A", "B", p=0.5, beta=0.3)
    brain.fix_assembly("A")
    brain.inhibit_fiber("B", "B")
    plan = {"s": ["A"]}, {"A": ["B"], "B": ["B", "A"]}
    brain.project({}, {"A": ["B"]})
    module = brain.projection(*plan)
    kept = brain.winners("A")
    brain.project(*plan, rounds=6)
    module(6)
    same(module, brain)
    assert torch.equal(module.winners("A"), kept)
    brain.disable_plasticity()
    resting = brain.projection(*plan)
    assert resting.training
    state = copy.deepcopy(resting.state_dict())
    resting(2)
    weights = [name for name, each in state.items() if each.dtype == torch.float32]
    assert weights and all(torch.equal(resting.state_dict()[name], state[name]) for name in weights)


def test_a_classifier_is_deployed():
    generator = torch.Generator().manual_seed(0)
    rows = (torch.rand(20, 100, generator=generator) < 0.2).double()
    fitted = AssemblyClassifier(n=300, k=30).fit(rows, torch.arange(20) % 2)
    scripted = reloaded(torch.jit.script(fitted.brain.projection("input", "A")))
    for row in rows:
        indices = row.nonzero().flatten()
        fitted.brain.activate("input", indices)
        fitted.brain.project("input", "A")
        scripted.activate("input", indices)
        assert torch.equal(scripted(1)["A"], fitted.brain.winners("A"))


@pytest.mark.parametrize("form", ["module", "scripted"])
def test_activate(form):
    brain = small(2)
    module = brain.projection({}, {"A": ["B"]})
    if form == "scripted":
        module = torch.jit.script(module)
    indices = torch.tensor([[4, 1, 0], [9, 999, 7]])
    with pytest.raises(Exception, match="source area must have winners, got none in 'A'"):
        module(1)
    module.activate("A", indices)
    brain.activate("A", indices)
    brain.project({}, {"A": ["B"]})
    module(1)
    same(module, brain)
    for wrong, match in (
        (indices.float(), "must be int"),
        (indices[:1], "1 to 30 for each brain|shape"),
        (indices[:, :0], "1 to 30 for each brain|1 to k = 30 neurons"),
        (torch.arange(31), "1 to 30 for each brain|1 to k = 30 neurons"),
        (torch.tensor([0, 1000]), r"in 0\.\.999, got (0\.\.)?1000"),
        (torch.tensor([-1, 3]), r"got -1"),
        (torch.tensor([3, 3]), "distinct"),
    ):
        with pytest.raises(Exception, match=match):
            module.activate("A", wrong)
    for call in (lambda: module.activate("C", indices), lambda: module.winners("C"), lambda: module.support("s")):
        with pytest.raises(Exception, match="area must be one of"):
            call()
    same(module, brain)
    if form == "module":
        for given in (indices.int().numpy(), indices.tolist()):
            module.activate("A", range(3))
            module.activate("A", given)
            same(module, brain)


def test_bad_arguments():
    brain = small()
    with pytest.raises(TypeError, match="area must be a name, got 1"):
        brain.projection(*README).winners(1)
    for wrong, error in ((-1, ValueError), (2**31 - 1, ValueError), (1.0, TypeError), (True, TypeError)):
        with pytest.raises(error, match="Projection: rounds must be"):
            brain.projection(*README)(wrong)
    with pytest.raises(ValueError, match="source area must have winners"):
        brain.projection({}, {"A": ["A"]})(1)
    brain.inhibit("A")
    with pytest.raises(ValueError, match="something must fire"):
        brain.projection(*README)
    with pytest.raises(ValueError, match=r"normalised in every round, got \['A'\]"):
        small(normalize=True).projection(*README)
    batch = small(2)
    batch.inhibit_fiber("A", "A", brains=1)
    with pytest.raises(ValueError, match="the same in every brain; got 2 kinds"):
        batch.projection(*README)
    with pytest.raises(ValueError, match="exact"):
        Brain(mode="sampled").projection({})


def test_copies_states_and_devices():
    brain = small()
    module = brain.projection(*README)
    module(6)
    brain.project(*README, rounds=10)
    other = brain.projection(*README)
    other.load_state_dict(module.state_dict())
    copies = [copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other, module.half().to("cpu")]
    for each in copies:
        assert torch.equal(each(4)["A"], brain.winners("A"))
    with torch.inference_mode():
        module(2)
    module(2)
    brain.project(*README, rounds=4)
    same(module, brain)
    state = module.state_dict()
    module = brain.projection(*README).to("meta").to_empty(device="cpu")
    for each in module.buffers():
        each.zero_()
    with pytest.raises(RuntimeError, match="state must be loaded before rounds"):
        module(1)
    module.load_state_dict(state)
    same(module, brain)


def test_a_state_of_another_projection_is_refused():
    module = small(2).projection(*README)
    module(3)
    state = module.state_dict()
    others = {
        "size": small(2, refractory_period=2), "penalty": small(2, refracted=1.0), "batch": small(3),
        "seed": Brain(p=0.1, seeds=[3, 4]), "density": small(2),
    }  # fmt: skip
    others["seed"].add_stimulus("s", 30)
    others["seed"].add_area("A", 1000, 30, 0.1)
    others["density"].connect("A", "A", p=0.2)
    for name, other in [*others.items(), ("plan", small(2))]:
        built = torch.nn.Sequential(other.projection("s", "A") if name == "plan" else other.projection(*README))
        kept = copy.deepcopy(built.state_dict())
        with pytest.raises(ValueError, match=r"^Projection: state must be of the same areas"):
            built.load_state_dict({f"0.{key}": each for key, each in state.items()})
        assert all(torch.equal(each, kept[key]) for key, each in built.state_dict().items()), name
    quicker = small(2)
    quicker.set_beta("A", "A", 0.3)
    built = quicker.projection(*README)
    built.load_state_dict(state)
    assert torch.equal(built.winners("A"), module.winners("A"))


def test_scripted_rounds_in_and_out_of_inference_mode():
    brain = small()
    module = reloaded(torch.jit.script(brain.projection(*README)))
    for rounds, inside in ((2, False), (2, True), (2, False), (20, True)):
        with torch.inference_mode(inside):
            module(rounds)
        brain.project(*README, rounds=rounds)
    module.activate("A", torch.arange(10))
    brain.activate("A", range(10))
    module(3)
    brain.project(*README, rounds=3)
    assert torch.equal(module.winners("A"), brain.winners("A"))


def test_compiled_graphs_end_at_the_rounds():
    module, graphs = small().projection(*README), []
    found = torch.compile(lambda: module(3)["A"] + 1, backend=lambda graph, _: graphs.append(graph) or graph)()
    assert torch.equal(found, module.winners("A") + 1) and len(graphs) == 1


def reserved(rounds):
    """A state with memory for so many rounds, and the other arguments of the operator."""
    module = small().projection(*README)
    state = module._state()
    module._reserve(state, rounds)
    # Of the only fiber's chunks of edges, too: next, target, weight.
    for i in range(16, 19):
        state[i] = torch.cat([state[i], state[i].new_zeros(1, 2000, *state[i].shape[2:])], 1)
    state.append(torch.tensor([[rounds, 0]]))
    return state, [1, rounds, *module._learning], module._rates, module._seed


class Rounds(torch.nn.Module):
    """Rounds with tables of fixed sizes, as an exported program needs them."""

    def __init__(self, rounds):
        super().__init__()
        state, self.layout, self.rates, self.seed = reserved(rounds)
        for i, each in enumerate(state):
            self.register_buffer(f"state{i}", each)
        self.count = len(state)

    def forward(self, rounds):
        state = [getattr(self, f"state{i}") for i in range(self.count)]
        state[-1][:, 0] = rounds
        ops.project_(state, self.layout, self.rates, self.seed)
        return state[1].clone(), state[-1].clone()


def test_the_operator_in_every_mode(tmp_path):
    opcheck(ops.project_.default, reserved(3))
    brain = small()
    brain.project(*README, rounds=4)
    rounds = torch.tensor(4)
    expected = brain.winners("A").unsqueeze(0)
    programs = {
        "eager": Rounds(4),
        "compiled": torch.compile(Rounds(4), fullgraph=True),
        "strict": torch.export.export(Rounds(4), (rounds,), strict=True).module(),
        "exported": torch.export.export(Rounds(4), (rounds,), strict=False).module(),
    }
    with torch.no_grad():
        exported = torch.export.export(Rounds(4), (rounds,))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "rounds.pt2"))
        programs["packaged"] = torch._inductor.aoti_load_package(path)
    for name, program in programs.items():
        winners, progress = program(rounds)
        assert torch.equal(winners, expected) and int(progress[0, 0]) == 0, name


@pytest.mark.parametrize("name", ["merge", "inhibited areas and fibers"])
def test_programs_of_the_oracle(name):
    areas, steps = PROGRAMS[name]
    brain = Brain(p=0.1, seed=-5)
    declare(brain, areas)
    for call, args, kwargs in steps:
        module = brain.projection(**kwargs) if call == "project" else None
        getattr(brain, call)(*args, **kwargs)
        if module is not None:
            module(1)
            same(module, brain)


# Tables of the README's plan by their place: the numbers, nine of the area, twelve of the fiber, two of the stimulus.
INDICES = {
    "winners": (1, 1000), "winner_count": (2, 31), "neuron_of": (4, -1), "slots": (6, 10**6), "head": (13, 10**6),
    "length": (14, 10**6), "known": (15, -1), "next": (16, 10**6), "target": (17, 10**6), "chunks": (19, 10**6),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_a_state_with_another_index_is_refused(name):
    place, wrong = INDICES[name]
    module = small().projection(*README)
    module(6)
    state = copy.deepcopy(module.state_dict())
    # What follows from other tables is made of them.
    state["tables.3.table"].fill_(10**6)
    state["tables.12.table"].fill_(31)
    expected = copy.deepcopy(module)(3)["A"]
    loaded = small().projection(*README)
    loaded.load_state_dict(state)
    assert torch.equal(loaded(3)["A"], expected)
    state[f"tables.{place}.table"].view(-1)[0] = wrong
    with pytest.raises(ValueError, match=r"load_state_dict: .* of "):
        loaded.load_state_dict(state)
    with pytest.raises(RuntimeError, match="state must be loaded before rounds"):
        loaded(1)
