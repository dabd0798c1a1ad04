"""Damaged and forged files of brains: IntegrityError, or a brain that can be used; never a half one, never a crash."""

import copy
import random

import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.assembly import Brain
from torch_hrr.io import files

FORMAT, VERSION = "torch_hrr.assembly.Brain", 1
BOTH = {"A": ["A", "B"], "B": ["A", "B"]}


@pytest.fixture(scope="module")
def brain():
    """Two brains in which every kind of state is there."""
    brain = Brain(p=0.2, seed=1, batch=2)
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1, refracted=0.5)
    brain.add_area("B", n=50, k=5, w_max=3.0, refractory_period=3, inhibition_strength=1.0, ties="keyed")
    generator = torch.Generator().manual_seed(0)
    brain.connect("B", "A", edges=2.0 * (torch.rand(50, 60, generator=generator) < 0.2))
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    brain.project({"s": ["A"]}, BOTH, rounds=4)
    brain.normalize("B")
    brain.set_beta("s", "A", 0.2)
    brain.inhibit_fiber("A", "A", lock=3)
    return brain


@pytest.fixture
def path(tmp_path):
    return tmp_path / "brain.safetensors"


@pytest.fixture
def content(brain, path):
    brain.save(path)
    tensors, config = files.load(path, format=FORMAT, version=VERSION)
    return tensors, copy.deepcopy(config)


def use(brain):
    """Every part of the state is read and written."""
    for name in ("A", "B"):
        brain.winners(name), brain.support(name)
        for other in ("A", "B"):
            brain.potentiated(name, other, 1)
    brain.project({"s": ["A", "B"]}, rounds=2)
    brain.project({"s": ["A", "B"]}, BOTH, rounds=3)
    brain.normalize("A")
    brain.project({"s": ["A", "B"]}, BOTH, rounds=3)
    brain.fix_assembly("A")
    brain.pattern_complete("B")


def forge(path, tensors, config):
    """A file whose seal is right: anybody can make one."""
    files.save(path, tensors, config, format=FORMAT, version=VERSION)


def assert_refused(path):
    with pytest.raises(IntegrityError, match=r"^load: \S*brain\.safetensors "):
        Brain.load(path)


def test_the_forger_can_write_a_good_file(path, content, brain):
    intact = path.read_bytes()
    forge(path, *content)
    assert path.read_bytes() == intact
    loaded = Brain.load(path)
    for name, tensor in brain.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(loaded.state_dict()[name], tensor)
    assert loaded.get_extra_state() == brain.get_extra_state()
    use(loaded)


@pytest.mark.parametrize("key", [None, b"a secret"])
def test_a_damaged_file_is_refused(brain, path, key):
    brain.save(path, key=key)
    intact = path.read_bytes()
    generator = random.Random(0)
    for _ in range(300):
        damaged = bytearray(intact)
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError):
            Brain.load(path, key=key)
    for _ in range(50):
        start = generator.randrange(len(intact))
        for damaged in (intact[:start], intact[:start] + intact[start + 1 :], intact[start:] + intact[:start]):
            if damaged != intact:
                path.write_bytes(damaged)
                with pytest.raises(IntegrityError):
                    Brain.load(path, key=key)
    path.write_bytes(intact)
    use(Brain.load(path, key=key))


@pytest.mark.parametrize(("saved", "given"), [(None, b"k"), (b"k", None), (b"k", b"K")])
def test_keys_must_fit(brain, path, saved, given):
    brain.save(path, key=saved)
    with pytest.raises(IntegrityError):
        Brain.load(path, key=given)


# states.0 and 1 are areas A (n = 60) and B, 2 the graph of one's own from B to A, 3 the fiber from A to A, 4 and 5 the
# stimulus into A and B, 7 the normalised fiber from B to B.
OUT_OF_RANGE = {
    "states.0.winners": [-1, 60, 2**62, -(2**63)],
    "states.0.winner_count": [-1, 7, 2**62],
    "states.0.neuron_of": [-1, 60, 2**31 - 1, -(2**31)],
    "states.0.slots": [-1, 61, 2**62],
    "states.1.last_win": [-1, 4, 2**31 - 1],
    "states.2.chunks": [-1, 10**6, 2**62],
    "states.2.head": [-2, 56, 2**31 - 1],
    "states.2.length": [-1, 2**31 - 1],
    "states.2.known": [-1, 61, 2**31 - 1],
    "states.2.next": [-2, 0, 56, 2**31 - 1],
    "states.2.target": [-1, 60, 2**31 - 1],
    "states.3.target": [-1, 60, 2**31 - 1],
    "states.0.bias": [-1, 2**61 + 1, 2**62, -(2**63)],
    "states.2.weight": [-1, float("nan"), float("inf"), 2**24 + 2],
    "states.3.weight": [-1, 0.5, float("nan"), float("inf"), 2**24 + 2],
    "states.4.weight": [-1, 0.5, float("nan"), float("inf"), 2**24 + 2],
    "states.7.scale": [-1, float("nan"), float("inf"), 2**24 + 1],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in OUT_OF_RANGE.items() for value in values]
)
@pytest.mark.parametrize("b", [0, 1])
def test_a_value_that_points_outside_is_refused(content, path, name, value, b):
    tensors, config = content
    # The first element is in use in every one of them.
    tensors[name].view(2, -1)[b, 0] = value
    forge(path, tensors, config)
    assert_refused(path)


@pytest.mark.parametrize("name", ["states.0.winners", "states.0.neuron_of"])
def test_repeated_neurons_are_refused(content, path, name):
    tensors, config = content
    tensors[name][1, 1] = tensors[name][1, 0]
    forge(path, tensors, config)
    assert_refused(path)


CHANGES = [
    "one brain",
    "cut",
    "empty",
    "longer",
    "a dimension",
    "another dtype",
    "missing",
]


@pytest.mark.parametrize("change", CHANGES)
def test_tensors_of_another_shape_or_dtype_are_refused_or_usable(content, path, change):
    intact, config = content
    unusable = []
    for name, tensor in intact.items():
        tensors = dict(intact)
        if change == "one brain":
            tensors[name] = tensor[:1].clone()
        elif change in {"cut", "empty"} and tensor.dim() > 1:
            tensors[name] = tensor[:, : tensor.shape[1] - 1 if change == "cut" else 0].clone()
        elif change == "longer":
            tensors[name] = torch.cat([tensor, tensor], -1)
        elif change == "a dimension":
            tensors[name] = tensor.unsqueeze(-1).clone()
        elif change == "another dtype":
            tensors[name] = tensor.to(torch.int16 if tensor.dtype != torch.int16 else torch.int32)
        elif change == "missing":
            del tensors[name]
        forge(path, tensors, config)
        try:
            loaded = Brain.load(path)
        except IntegrityError:
            continue
        assert change in {"one brain", "cut", "empty", "longer"}, name
        try:
            use(loaded)
        except Exception as error:
            unusable.append((name, str(error)))
    assert unusable == []


def test_an_unknown_tensor_is_refused(content, path):
    tensors, config = content
    forge(path, {**tensors, "states.9.winners": torch.zeros(2)}, config)
    assert_refused(path)


EXTREMES = {
    torch.int64: [-1, 0, 1, 5, 6, 50, 59, 60, 2**31 - 1, 2**62, -(2**63)],
    torch.int32: [-1, 0, 1, 5, 16, 17, 49, 50, 60, 2**31 - 1, -(2**31)],
    torch.uint8: [0, 1, 2, 255],
    torch.float32: [0.0, -1.0, 2.0**24, 2.0**25, float("nan"), float("inf"), 1e38],
    torch.float64: [0.0, -1.0, float("nan"), float("inf"), 1e300, -1e300],
}


def test_any_forged_value_is_refused_or_can_be_used(content, path):
    intact, config = content
    generator = random.Random(0)
    filled = [name for name, tensor in intact.items() if tensor.numel()]
    refused = 0
    for _ in range(250):
        tensors = dict(intact)
        name = generator.choice(filled)
        tensors[name] = tensors[name].clone()
        flat = tensors[name].view(-1)
        for _ in range(generator.choice([1, 1, 2, 4])):
            flat[generator.randrange(len(flat))] = generator.choice(EXTREMES[flat.dtype])
        forge(path, tensors, config)
        try:
            loaded = Brain.load(path)
        except IntegrityError:
            refused += 1
            continue
        use(loaded)
    assert 80 < refused < 240


def forged_config(*changes, **options):
    """(where, value): where is a path through the lists and dictionaries of the configuration."""
    return pytest.param(
        changes, **options, id=" ".join(f"{'.'.join(map(str, where))}={value!r}" for where, value in changes)
    )


FIBER, SOURCE, AREA = ("fibers", 1, 2), ("sources", 0, 2), ("areas", 0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        forged_config((("p",), 2)),
        forged_config((("p",), None)),
        forged_config((("seed",), 1.5)),
        forged_config((("mode",), "other")),
        forged_config((("batch",), 0)),
        forged_config((("batch",), 1)),
        forged_config((("batch",), 2**62)),
        forged_config(((*AREA, "n"), 61)),
        forged_config(((*AREA, "n"), -1)),
        forged_config(((*AREA, "n"), 2**40)),
        forged_config(((*AREA, "k"), 7)),
        forged_config(((*AREA, "k"), 61)),
        forged_config(((*AREA, "beta"), -1)),
        forged_config(((*AREA, "beta"), "A")),
        forged_config(((*AREA, "refracted"), -1)),
        forged_config(((*AREA, "refracted"), 1e300)),
        forged_config(((*AREA, "w_max"), 0)),
        forged_config((("areas", 0, 0), "B")),
        forged_config((("areas", 0, 0), 1)),
        forged_config((("areas",), [])),
        forged_config((("areas",), None)),
        forged_config((("stimuli", 0, 1), -1)),
        forged_config((("stimuli",), [[]])),
        forged_config((("fibers", 1, 0), "Z")),
        forged_config((("fibers",), [])),
        forged_config(((*FIBER, "p"), 2)),
        forged_config(((*FIBER, "p"), -1)),
        forged_config(((*FIBER, "p"), "x")),
        forged_config(((*FIBER, "id"), 1)),
        forged_config(((*FIBER, "id"), "x")),
        forged_config(((*FIBER, "procedural"), "x")),
        forged_config(((*FIBER, "w_max"), "x")),
        forged_config(((*SOURCE, "id"), "x")),
        forged_config((("sources", 0, 0), "t")),
        forged_config((("order",), [])),
        forged_config((("order", 0), "fiber")),
        forged_config((("order", 0), 1)),
        forged_config((("locks",), [1])),
        forged_config((("betas",), [["A"]])),
        forged_config((("betas",), [["A", "s", "x"]])),
        forged_config((("unknown",), 1)),
    ],
)
def test_a_forged_description_is_refused(content, path, changes):
    tensors, config = content
    for where, value in changes:
        place = config
        for part in where[:-1]:
            place = place[part]
        place[where[-1]] = value
    forge(path, tensors, config)
    assert_refused(path)


def test_what_a_file_must_say(content, path):
    tensors, config = content
    for name in config:
        forge(path, tensors, {key: value for key, value in config.items() if key != name})
        assert_refused(path)


def test_files_of_other_systems_are_refused(content, path):
    tensors, config = content
    files.save(path, tensors, config, format="torch_hrr.hrr.VectorStore", version=VERSION)
    assert_refused(path)
    files.save(path, tensors, config, format=FORMAT, version=VERSION + 1)
    assert_refused(path)


def test_a_state_that_does_not_fit_is_an_error(brain):
    state = brain.state_dict()
    wrong = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in state.items()}
    wrong["states.0.winners"][0, 0] = 60
    with pytest.raises((RuntimeError, ValueError)):
        Brain(p=0.2, seed=1, batch=2).load_state_dict(wrong)
    with pytest.raises((RuntimeError, ValueError)):
        Brain(p=0.2, seed=1, batch=2).load_state_dict({})


@pytest.fixture
def sampled_content(path):
    brain = Brain(p=0.2, seed=1, batch=2, mode="sampled")
    brain.add_stimulus("s", size=20)
    brain.add_area("A", n=60, k=6, beta=0.1)
    brain.add_area("B", n=50, k=5, w_max=3.0)
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=3)
    brain.project({"s": ["A"]}, BOTH, rounds=4)
    brain.save(path)
    return files.load(path, format=FORMAT, version=VERSION)


def use_sampled(brain):
    brain.project({"s": ["A", "B"]}, rounds=2)
    brain.project({"s": ["A", "B"]}, BOTH, rounds=3)
    brain.pattern_complete("B")


def test_any_forged_value_of_a_sampled_brain_is_refused_or_can_be_used(sampled_content, path):
    intact, config = sampled_content
    generator = random.Random(0)
    filled = [name for name, tensor in intact.items() if tensor.numel()]
    refused = 0
    for _ in range(200):
        tensors = dict(intact)
        name = generator.choice(filled)
        tensors[name] = tensors[name].clone()
        flat = tensors[name].view(-1)
        flat[generator.randrange(len(flat))] = generator.choice(EXTREMES.get(flat.dtype, [False, True]))
        forge(path, tensors, config)
        try:
            loaded = Brain.load(path)
        except IntegrityError:
            refused += 1
            continue
        use_sampled(loaded)
    assert 40 < refused < 190


SAMPLED_CHANGES = [
    "cut",
    "longer",
    "a dimension",
    "another dtype",
    "missing",
]


@pytest.mark.parametrize("change", SAMPLED_CHANGES)
def test_tensors_of_a_sampled_brain_of_another_shape_or_dtype(sampled_content, path, change):
    intact, config = sampled_content
    changes = {
        "cut": lambda tensor: tensor[..., :-1].clone(),
        "longer": lambda tensor: torch.cat([tensor, tensor], -1),
        "a dimension": lambda tensor: tensor.unsqueeze(0).clone(),
        "another dtype": lambda tensor: tensor.to(torch.int16),
    }
    unusable = []
    for name, tensor in intact.items():
        tensors = {other: value for other, value in intact.items() if other != name}
        if change != "missing":
            tensors[name] = changes[change](tensor)
        forge(path, tensors, config)
        try:
            loaded = Brain.load(path)
        except IntegrityError:
            continue
        try:
            use_sampled(loaded)
        except Exception as error:
            unusable.append((name, str(error)))
        if change in {"another dtype", "missing"}:
            unusable.append((name, "loaded"))
    assert unusable == []
