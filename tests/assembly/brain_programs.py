"""Programs that together reach every part of a brain, to be run alike on every device."""

from collections.abc import Mapping

import torch

from torch_hrr.assembly import Brain, Monitor, TorchBrain, simulator

OWN_GRAPH = torch.zeros(300, 400, dtype=torch.float64)
OWN_GRAPH[torch.arange(3000) * 7 % 300, torch.arange(3000) * 11 % 400] = torch.arange(3000).double() % 5 / 4

AREAS = [
    ("add_stimulus", ("s", 40), {}),
    ("add_stimulus", ("t", 55), {}),
    ("add_area", ("A", 2000, 40), {"beta": 0.1}),
    ("add_area", ("B", 1001, 25), {"beta": 0.2, "refracted": 0.25, "w_max": 3.0}),
    ("add_area", ("C", 800, 40), {"beta": 0.1, "refractory_period": 3, "inhibition_strength": 1.5}),
]
BOTH = {"A": ["A", "B"], "B": ["A", "B"]}

# {name: (arguments of Brain, [(method, arguments, keywords)])}, declarations first.
PROGRAMS = {
    "everything": (
        {"p": 0.05, "seed": -5},
        [
            *AREAS,
            ("project", ({"s": ["A"], "t": ["B"]},), {}),
            ("project", ({"s": ["A"], "t": ["B"]}, {"A": ["A"], "B": ["B"]}), {"rounds": 5}),
            ("project", ({"s": ["A"], "t": ["B"]}, BOTH), {"rounds": 7}),
            ("set_beta", ("A", "B", 0.3), {}),
            ("set_beta", ("s", "A", 0.0), {}),
            ("project", ({"s": ["A", "C"]}, {**BOTH, "A": ["C"]}), {"rounds": 6}),
            ("reciprocal_project", ("A", "B"), {"rounds": 4}),
            ("associate", ("A", "B", "C"), {"rounds": 4}),
            ("merge", ("A", "B", "C"), {"rounds": 6}),
            ("fix_assembly", ("A",), {}),
            ("project", ({"t": ["A", "C"]}, BOTH), {"rounds": 3}),
            ("unfix_assembly", ("A",), {}),
            ("normalize", ("B",), {}),
            ("inhibit", ("C",), {"lock": 2}),
            ("project", ({}, {**BOTH, "C": ["C"]}), {"rounds": 4}),
            ("normalize", ("B",), {}),
            ("disinhibit", ("C",), {"lock": 2}),
            ("inhibit_fiber", ("A", "B"), {}),
            ("disable_plasticity", (), {}),
            ("project", ({}, {**BOTH, "C": ["C", "A"]}), {"rounds": 2}),
            ("enable_plasticity", (), {}),
            ("disinhibit_fiber", ("A", "B"), {}),
            ("pattern_complete", ("C",), {"rounds": 3}),
            ("activate", ("B", list(range(40, 0, -2))), {}),
            ("activate", ("A", torch.tensor([3, 1999, 5])), {}),
            ("project", ({"t": ["C"]}, {"A": ["B", "C"], "B": ["C"]}), {"rounds": 5}),
        ],
    ),
    "inhibition and fixed assemblies": (
        {"p": 0.05, "seed": 11},
        [
            *AREAS,
            ("project", ({"s": ["A", "B"], "t": ["C"]}, {"A": ["A"]}), {"rounds": 4}),
            ("fix_assembly", ("A",), {}),
            ("inhibit", ("C",), {"lock": 2}),
            ("project", ({"t": ["A", "C"]}, {"A": ["B", "C"], "B": ["A"]}), {"rounds": 4}),
            ("disinhibit", ("C",), {"lock": 2}),
            ("inhibit_fiber", ("A", "B"), {}),
            ("unfix_assembly", ("A",), {}),
            ("project", ({"t": ["A", "C"]}, {"A": ["B", "C"], "B": ["B"]}), {"rounds": 4}),
            ("disinhibit_fiber", ("A", "B"), {}),
            ("project", ({}, BOTH), {"rounds": 3}),
        ],
    ),
    "normalised before every round": (
        {"p": 0.05, "seed": 11},
        [
            ("add_stimulus", ("s", 40), {}),
            ("add_area", ("A", 500, 30), {"beta": 0.1, "normalize": True}),
            ("add_area", ("B", 400, 20), {"beta": 0.3, "normalize": True, "w_max": 2.0}),
            ("connect", ("B", "B"), {"p": 0.3, "beta": 0.5}),
            ("project", ({"s": ["A"]}, {}), {"rounds": 1}),
            ("project", ({}, {"A": ["A", "B"]}), {"rounds": 12}),
            ("activate", ("A", torch.arange(0, 60, 2)), {}),
            ("project", ({}, BOTH), {"rounds": 5}),
            ("fix_assembly", ("A",), {}),
            ("project", ({}, {"A": ["A", "B"], "B": ["A", "B"]}), {"rounds": 6}),
            ("unfix_assembly", ("A",), {}),
            ("project", ({}, {"A": ["B"]}), {"rounds": 3}),
            ("project", ({}, BOTH), {"rounds": 9}),
        ],
    ),
    "ties by key": (
        {"p": 0.01, "seed": -2},
        [
            ("add_stimulus", ("s", 40), {}),
            ("add_area", ("A", 900, 30), {"beta": 0.1, "ties": "keyed"}),
            ("add_area", ("B", 500, 20), {"beta": 0.1, "ties": "keyed", "normalize": True}),
            ("add_area", ("C", 5000, 20), {"beta": 0.1, "ties": "keyed", "refracted": 1.0}),
            ("project", ({"s": ["A", "C"]}, {}), {"rounds": 1}),
            ("project", ({}, {"A": ["A", "B", "C"]}), {"rounds": 6}),
            ("project", ({"s": ["A"]}, {"A": ["B"], "B": ["A", "B"], "C": ["C"]}), {"rounds": 4}),
        ],
    ),
    "graphs of one's own": (
        {"p": 0.05, "seed": 1},
        [
            ("add_stimulus", ("s", 40), {}),
            ("add_area", ("A", 300, 30), {"beta": 0.1, "normalize": True}),
            ("add_area", ("B", 400, 20), {"beta": 0.3}),
            ("connect", ("A", "B"), {"edges": OWN_GRAPH.to_sparse()}),
            ("connect", ("B", "A"), {"edges": OWN_GRAPH.T, "w_max": 2.0}),
            ("connect", ("A", "A"), {"p": 0.2, "beta": 0.05}),
            ("normalize", ("B",), {}),
            ("project", ({"s": ["A"]}, {"A": ["A"]}), {"rounds": 3}),
            ("project", ({}, {"A": ["A", "B"]}), {"rounds": 1}),
            ("project", ({"s": ["A"]}, BOTH), {"rounds": 6}),
        ],
    ),
    "many synapses a row": (
        {"p": 0.7, "seed": 9},
        [
            ("add_stimulus", ("s", 100), {}),
            ("add_area", ("A", 500, 60), {"beta": 0.5, "refracted": 4.0}),
            ("project", ({"s": ["A"]}, {"A": ["A"]}), {"rounds": 25}),
        ],
    ),
}


def state_of(brain):
    """{name: tensor} on the CPU: what decides how the brain goes on, in an order that is nobody's choice."""
    state = {}

    def put(name, tensor):
        assert tensor.device.type == brain.device.type, name
        state[name] = tensor.cpu().clone()

    for name, area in brain._network.areas.items():
        put(f"winners of {name}", brain.winners(name))
        put(f"slots of {name}", area.slots)
        for part in ("bias", "last_win", "penalties"):
            put(f"{part} of {name}", getattr(area, part))
        for b, (used, _) in enumerate(area.slots.tolist()):
            for part in ("neuron_of", "won"):
                put(f"{part} of {name}, brain {b}", getattr(area, part)[b, :used])
    for (source, target), fiber in brain._network.fibers.items():
        label = f"{source} to {target}"
        put(f"scale of {label}", fiber.scale)
        put(f"chunks of {label}", fiber.chunks)
        for b, (used, _) in enumerate(brain._network.areas[source].slots.tolist()):
            for part in ("length", "known"):
                put(f"{part} of {label}, brain {b}", getattr(fiber, part)[b, :used])
            for part, tensor in zip(("rows", "columns", "weights"), brain.potentiated(source, target, b), strict=True):
                put(f"{part} of {label}, brain {b}", tensor)
    for (stimulus, target), source in brain._network.sources.items():
        put(f"counts of {stimulus} in {target}", source.counts)
        for b, (used, _) in enumerate(brain._network.areas[target].slots.tolist()):
            put(f"weights of {stimulus} in {target}, brain {b}", source.weight[b, :used])
    return dict(sorted(state.items()))


def run(brain, steps):
    """The calls of a program, or some of them."""
    for method, args, kwargs in steps:
        getattr(brain, method)(*args, **kwargs)
    return brain


def declared(name, backwards=False, **options):
    """The brain of a program before its first call."""
    own, steps = PROGRAMS[name]
    made = [step for step in steps if step[0].startswith("add_")]
    return run(Brain(**{**own, **options}), reversed(made) if backwards else made)


def calls(name):
    """Those of a program, without its declarations."""
    return [step for step in PROGRAMS[name][1] if not step[0].startswith("add_")]


def traced(brain, steps, every_round=False, between=None):
    """The states of a brain after every call, and every round, and what the calls return.

    Args:
        brain: declared.
        steps: the calls.
        every_round: whether rounds run one by one.
        between: called with the brain after every call; returns the brain that goes on.
    """
    seen = []
    if every_round:
        brain.register_round_hook(lambda brain: seen.append(state_of(brain)))
    for method, args, kwargs in steps:
        result = getattr(brain, method)(*args, **kwargs)
        seen.append({**state_of(brain), **({} if result is None else {"result": torch.as_tensor(result)})})
        if between is not None:
            hooks = brain._hooks
            brain = between(brain)
            brain._hooks = hooks
    return seen


def trace(name, device="cpu", batch=None, every_round=False, between=None):
    """`traced` of a program whose brain begins on the device."""
    return traced(declared(name, device=device, batch=batch), calls(name), every_round, between)


def of_brain(brain, b):
    """What rounds have made of one brain of a batch, as its calls tell."""
    seen = {}
    for area in brain.areas:
        seen[area] = brain.winners(area)[b].tolist(), int(brain.support(area)[b]), brain.ever_won(area)[b].tolist()
        seen[area] = [[neuron for neuron in part if neuron >= 0] if isinstance(part, list) else part
                      for part in seen[area]]  # fmt: skip
    if brain.mode == "exact":
        for pair in brain.fibers:
            seen[pair] = [part.tolist() for part in brain.potentiated(*pair, b)]
        seen["s"] = brain.stimulus_weights("s", "A")[b].tolist()
    return seen


def monitored(device, batch=None):
    """The history of a monitor, on the CPU."""
    brain, steps = declared("everything", device=device, batch=batch), calls("everything")
    run(brain, steps[:2])
    with Monitor(brain) as monitor:
        run(brain, steps[2:13])
    return monitor.to_dict()


def simulated(device):
    """What the published simulator's calls give."""
    brain = simulator.Brain(0.05, save_winners=True, seed=4, device=device)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 700, 30, 0.1)
    brain.add_explicit_area("L", 600, 20, 0.2, custom_inner_p=0.3, custom_in_p=0.1)
    for _ in range(4):
        brain.project({"s": ["A"]}, {"A": ["A"]})
    brain.activate("L", 3)
    brain.project({}, {"L": ["A"], "A": ["A", "L"]})
    brain.area_by_name["L"].unfix_assembly()
    brain.update_plasticity("A", "L", 0.5)
    for _ in range(3):
        brain.project({"s": ["A"]}, {"L": ["A"], "A": ["L"]})
    brain.area_by_name["A"].winners = brain.area_by_name["A"].winners[:10]
    brain.area_by_name["L"].winners = []
    brain.project({}, {"A": ["A", "L"], "L": ["L"]})
    areas = brain.area_by_name.values()
    return [(area.winners, area.saved_winners, area.saved_w, area.num_first_winners) for area in areas]


def external(device, precision="fp32"):
    """States of a TorchBrain with external inputs, without learning."""
    brain = TorchBrain(device=device, precision=precision, p=0.05, seed=2)
    brain.add_area("visual", 800, 30, beta=0.1)
    brain.add_area("semantic", 900, 25, beta=0.1, refractory_period=2, inhibition_strength=1.0, refracted=0.5)
    brain.add_area("motor", 500, 20, beta=0.1, normalize=True)
    inputs = {
        name: torch.randn(area.n, generator=torch.Generator().manual_seed(i)).to(device if i else "cpu") * 3
        for i, (name, area) in enumerate(brain.brain._network.areas.items())
    }
    seen = []
    for given, projections, rounds in (
        ({"visual": inputs["visual"]}, {"visual": ["semantic"]}, 3),
        (inputs, {"visual": ["semantic"], "semantic": ["semantic", "motor"]}, 4),
        ({"semantic": inputs["semantic"]}, {"semantic": ["visual", "semantic"], "motor": ["motor"]}, 3),
        ({}, {"visual": ["motor"], "motor": ["visual"]}, 3),
    ):
        brain.project(given, projections, rounds)
        seen.append(state_of(brain.brain))
        usage = brain.get_memory_usage()
        seen[-1]["memory"] = torch.tensor([usage[name] for name in sorted(usage)], dtype=torch.float64)
        seen[-1] |= {f"next winners of {name}": w.cpu() for name, w in brain._select_winners().items()}
    brain._update_connectomes()
    seen.append(state_of(brain.brain))
    seen[-1]["freed"] = torch.tensor(brain.memory_manager.optimize_layout())
    brain.project({}, {"visual": ["semantic"]}, 5)
    seen.append(state_of(brain.brain))
    return seen


def trained(device, loss="overlap", move=None):
    """Losses and biases over steps of Adam that ask for an assembly."""
    brain = TorchBrain(device=device, learning=True, p=0.05, seed=6)
    brain.add_area("visual", 400, 20)
    brain.add_area("semantic", 500, 25)
    brain.disable_plasticity()
    target = {"semantic": torch.arange(100, 125), "visual": list(range(20))}
    seen = []
    optimizer = torch.optim.Adam(brain.parameters(), lr=0.2)
    show = torch.randn(400, generator=torch.Generator().manual_seed(0)).to(device)
    for _ in range(5):
        brain.project({"visual": show}, {"visual": ["semantic"], "semantic": ["semantic"]}, 2)
        if move is not None:
            move(brain)
        one = brain.compute_assembly_loss(target, loss)
        optimizer.zero_grad()
        one.backward()
        optimizer.step()
        biases = {f"bias {i}": bias.detach().cpu().clone() for i, bias in enumerate(brain.biases)}
        seen.append({"loss": one.detach().cpu(), **biases})
    return seen


def assert_same(first, second):
    """Of nested lists, mappings and tensors: the same types, sizes and bits."""
    assert type(first) is type(second)
    if isinstance(first, Mapping):
        assert list(first) == list(second)
        for name in first:
            try:
                assert_same(first[name], second[name])
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
    elif isinstance(first, list | tuple):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            assert_same(a, b)
    elif isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second), "tensors differ"
    else:
        assert first == second
