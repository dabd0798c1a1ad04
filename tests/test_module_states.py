"""States of modules of every system: a state is all that a module made without data or in inference mode needs."""

import copy
import pickle

import pytest
import torch

from torch_hrr import assembly, encoding, field, hierarchy, hrr

CONFIG = encoding.SinusoidalConfig(vocab_size=9, embedding_dim=8, max_sequence_length=16)
LEARNABLE = encoding.SinusoidalConfig(vocab_size=9, embedding_dim=8, max_sequence_length=16, learnable_frequencies=True)
X = torch.rand(3, 8, generator=torch.Generator().manual_seed(0))
TOKENS = torch.tensor([[1, 2, 3, 4]])


def level(device):
    made = hierarchy.HierarchicalLevel(0, 8, 4, 2, "mean")
    made.add_layer(hierarchy.HebbianCore(8, 6, rule="bcm", device=device))
    made.add_layer(hierarchy.SoftHebb(6, 4, device=device))
    return made


def manager(device):
    made = hierarchy.HierarchyManager()
    made.add_level(level(device))
    return made


def remembered(library):
    """What a library finds before and after it has stored more."""
    before = library.find_best_pattern(X[1])
    library.store(X[0], X[1, :6])
    return [*before, *library.find_best_pattern(X[0])]


def found(library, count=2):
    for row in X[:count]:
        library.store(row, row[:6])
    return library


def filled(record):
    record["a"], record["b"] = X[1].to(record.vector.device), X[2].to(record.vector.device)
    return record


def pushed(stack):
    for row in X:
        stack.push(row.to(stack.vector.device))
    return stack


def felt(brain, cycles=2):
    return [brain.step(X[i % 3, :4], float(i)).clone() for i in range(cycles)]


def moved(own):
    own.step(X[0].sum() * torch.ones(1, 6, 6, 1))
    return own.activation


# What makes one on a device, what brings it to a state, and what it gives.
MODULES = {
    "Bind": (lambda device: hrr.Bind(8, 3, device=device), None, lambda module: module(X)),
    "BindSuperpose": (
        lambda device: hrr.BindSuperpose(8, 3, True, True, device=device), None, lambda module: module(X)
    ),
    "HRRAttention": (lambda device: hrr.HRRAttention(8, 2, True, device=device), None, lambda module: module(X)),
    "HRRMultiLabelLoss": (
        lambda device: hrr.HRRMultiLabelLoss(5, 8, seed=3, device=device), None, lambda module: module.scores(X)
    ),
    "LevelEncoder": (lambda device: hrr.LevelEncoder(5, 8, features=8, device=device), None, lambda module: module(X)),
    "SinusoidEncoder": (lambda device: hrr.SinusoidEncoder(8, 8, device=device), None, lambda module: module(X)),
    "ItemMemory": (
        lambda device: hrr.ItemMemory(X.to(device), ["a", "b", "c"]), None,
        lambda memory: [*memory.cleanup(X + 0.1, 2), torch.tensor(len(memory.ask(X, 2)))],
    ),
    "Resonator": (
        lambda device: hrr.Resonator([X.to(device), X[1:].to(device)], seed=3), None,
        lambda module: [module.factorize(X, 20).indices, module.factorize(X, 20).cosines],
    ),
    "Record": (
        lambda device: hrr.Record({"a": X[0].to(device), "b": X[1].to(device)}), filled,
        lambda record: [record.vector, record["a"]],
    ),
    "Stack": (lambda device: hrr.Stack(8, seed=4, device=device), pushed, lambda stack: [stack.vector, stack.top()]),
    "Tree": (
        lambda device: hrr.Tree(8, seed=4, device=device),
        lambda tree: tree.add("lr", X[0].to(tree.vector.device)) or tree, lambda tree: [tree.vector, tree.get("l")],
    ),
    "HopfieldMemory": (
        lambda device: hrr.HopfieldMemory(X.to(device), 3.0), None, lambda memory: memory.recall(X + 0.1)
    ),
    "SparseDistributedMemory": (
        lambda device: hrr.SparseDistributedMemory(8, 9, 3, seed=4, device=device),
        lambda memory: memory.write(X.to(memory.device)) or memory,
        lambda memory: [memory.read(X), memory.writes(X)],
    ),
    "AssemblyLayer": (
        lambda device: assembly.AssemblyLayer(8, 20, 4, p=0.5, trainable=True, bias=True, device=device), None,
        lambda module: module(X),
    ),
    "ConfigurableSinusoidalEmbedder": (
        lambda device: encoding.ConfigurableSinusoidalEmbedder(CONFIG, device=device), None,
        lambda module: module(TOKENS),
    ),
    "LearnableFrequencies": (
        lambda device: encoding.ConfigurableSinusoidalEmbedder(LEARNABLE, device=device), None,
        lambda module: module(TOKENS),
    ),
    "RelativePositionBias": (
        lambda device: encoding.RelativePositionBias(4, 2, device=device), None, lambda module: module(3, 3)
    ),
    "LiquidStateMachine": (
        lambda device: encoding.LiquidStateMachine(8, 20, device=device), lambda module: module.fit(X, X),
        lambda module: [module.run(X), module.predict(X, module.final_state)],
    ),
    "LiquidStateMachine.from_weights": (
        lambda device: encoding.LiquidStateMachine.from_weights(
            X[:, :3], X, None, X[0, :3], feedback=X[:, :8], device=device
        ),
        lambda module: module.partial_fit(X, X), lambda module: [module.predict(X), module.forecast(3)],
    ),
    "PatternLibrary": (lambda device: field.PatternLibrary(10, 8, 6, device=device), found, remembered),
    "FieldBrain": (
        lambda device: field.FieldBrain(4, 2, (3, 4, 5), 8, device=device), lambda brain: felt(brain, 3) and brain, felt
    ),
    "DynamicField": (
        lambda device: field.DynamicField((1, 6, 6, 1), device=device, noise=0.1),
        lambda own: moved(own) is None or own, moved,
    ),
    "SplitField": (
        lambda device: field.SplitField(torch.zeros(3, 2, 4, device=device).unsqueeze(0)),
        lambda own: own.planes.copy_(X.view(1, 3, 2, 4)) is None or own, lambda own: own.evolve(0.1, 0.1, 3),
    ),
    "SplitFieldBrain": (
        lambda device: field.SplitFieldBrain(4, 2, (3, 4, 5), 8, device=device),
        lambda brain: felt(brain, 3) and brain, felt,
    ),
    "HierarchicalLevel": (
        level, lambda module: module.process(X) is None or module,
        lambda module: [module.process(X), module.process(X)],
    ),
    "HierarchyManager": (
        manager, lambda module: module.process_hierarchy(X) and module,
        lambda module: [*module.process_hierarchy(X), *module.process_hierarchy(X)],
    ),
    "BitLinear": (lambda device: hierarchy.BitLinear(8, 4, device=device), None, lambda module: module(X)),
}  # fmt: skip
every = pytest.mark.parametrize("name", MODULES)
DRAWN = (
    "Bind", "BindSuperpose", "HRRAttention", "HRRMultiLabelLoss", "LevelEncoder", "SinusoidEncoder", "AssemblyLayer",
    "ConfigurableSinusoidalEmbedder", "LearnableFrequencies", "RelativePositionBias", "HierarchicalLevel",
    "HierarchyManager", "BitLinear",
)  # fmt: skip


def used(name, device="cpu"):
    make, use, _ = MODULES[name]
    torch.manual_seed(5)
    return use(make(device)) if use else make(device)


def results(name, module):
    given = MODULES[name][2](module)
    return [given] if isinstance(given, torch.Tensor) else given


def same(results, expected):
    return len(results) == len(expected) and all(map(torch.equal, results, expected))


@every
def test_one_made_without_data_takes_the_tensors_of_a_state(name):
    source, made = used(name), MODULES[name][0]("meta")
    made.load_state_dict(copy.deepcopy(source.state_dict()), assign=True)
    assert same(results(name, made), results(name, source))


@every
def test_one_made_without_data_takes_a_state(name):
    source, made = used(name), emptied(name)
    made.load_state_dict(copy.deepcopy(source.state_dict()))
    assert same(results(name, made), results(name, source))


def emptied(name):
    made = MODULES[name][0]("meta").to_empty(device="cpu")
    for tensor in (*made.parameters(), *made.buffers()):
        # What memory may hold.
        tensor.detach().view(torch.uint8).fill_(7 if tensor.dtype is not torch.bool else 1)
    return made


@pytest.mark.parametrize("name", DRAWN)
def test_one_made_without_data_is_drawn_by_reset_parameters(name):
    torch.manual_seed(5)
    fresh = MODULES[name][0]("cpu")
    torch.manual_seed(5)
    made = emptied(name)
    # Where no seed is given, the state of torch's generator decides.
    torch.manual_seed(5)
    for module in made.modules():
        if any(True for _ in (*module.parameters(recurse=False), *module.buffers(recurse=False))):
            module.reset_parameters()
    assert same(results(name, made), results(name, fresh))


@every
def test_one_that_compile_was_called_of_is_pickled(name):
    source = used(name)
    source.compile()
    assert same(results(name, pickle.loads(pickle.dumps(source))), results(name, used(name)))


# Others are as torch's own modules: what is made in inference mode stays there.
@pytest.mark.parametrize("name", [name for name, (_, use, _) in MODULES.items() if use])
def test_one_that_changes_may_be_made_in_inference_mode(name):
    with torch.inference_mode():
        made = MODULES[name][0]("cpu")
    source = used(name)
    made.load_state_dict(copy.deepcopy(source.state_dict()))
    assert same(results(name, made), results(name, source))
