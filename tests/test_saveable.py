"""Every class that is saved: files come back with the same bits, damaged and forged ones are refused."""

import copy
import os

import pytest
import torch
from mutated_states import LATER, same

import torch_hrr
from torch_hrr import IntegrityError, assembly, encoding, field, hierarchy, hrr, io
from torch_hrr.io import files, saveable_classes


def drawn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)), dtype=dtype)


def brain():
    made = assembly.Brain(p=0.2, seed=2**63 + 1)
    made.add_stimulus("s", 5)
    made.add_area("A", 30, 4)
    made.project({"s": ["A"]}, {"A": ["A"]}, rounds=3)
    return made


def torch_brain():
    made = assembly.TorchBrain(p=0.2, learning=True)
    made.add_area("A", 30, 4)
    made.project({"A": drawn(30)}, {"A": ["A"]})
    return made


def vocabulary():
    made = hrr.Vocabulary(8, seed=2**64 - 1, unitary=True, dtype=torch.float16)
    made.populate("A; B; C = A * B")
    return made


def store():
    made = hrr.VectorStore(8)
    made.add("a", drawn(8))
    return made


def record():
    made = hrr.Record({"x": drawn(8), "y": drawn(8, dtype=torch.float64)})
    made.set("y", drawn(2, 8))
    return made


def sequence():
    made = hrr.Sequence(8, seed=-1)
    made.extend(drawn(3, 8))
    return made


def multiset():
    made = hrr.Multiset(8)
    made.add(drawn(8), 3)
    return made


def tree():
    made = hrr.Tree(8, seed=-2)
    made.add("lr", drawn(8))
    return made


def automaton():
    made = hrr.Automaton(8)
    made.add(drawn(8), drawn(2, 8)[0], drawn(2, 8)[1])
    return made


def sparse_memory():
    made = hrr.SparseDistributedMemory(8, 9, 3, 5, seed=2**64 - 3)
    made.write(drawn(2, 8), drawn(2, 5))
    return made


def stack():
    made = hrr.Stack(8, dtype=torch.bfloat16)
    made.push(drawn(8))
    return made


def graph():
    made = hrr.Graph(8, directed=False, seed=3)
    made.add(drawn(8), drawn(2, 8)[0])
    return made


def table():
    made = hrr.HashTable(8)
    made.add(drawn(8), drawn(2, 8)[1])
    return made


def reservoir():
    """With all that a file may hold; tests/encoding/test_reservoir.py forges those of a seed."""
    weights = drawn(3, 3), drawn(3, 2), drawn(3), torch.tensor([0.5, 1.0, 0.2]), "relu", drawn(3, 1)
    return encoding.LiquidStateMachine.from_weights(*weights).partial_fit(drawn(9, 2), drawn(9, 1))


def regressor():
    series = torch.sin(torch.arange(60.0)).unsqueeze(-1)
    return encoding.LSMRegressor(input_dim=1, units=6).fit(series[:-1], series[1:], warmup=5)


TOKENS = torch.tensor([1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3])
CONFIG = encoding.SinusoidalConfig(vocab_size=4, embedding_dim=4, padding_id=None, enable_gpu_acceleration=False)


def classifier():
    return encoding.LSMClassifier(CONFIG, units=6).fit(TOKENS.view(4, 3), torch.tensor([0, 1, 0, 1]))


def generator():
    return encoding.LSMGenerator(CONFIG, units=6).fit(TOKENS.repeat(200))


def library():
    made = field.PatternLibrary(3, 4, pattern_dim=2)
    made.store(drawn(4), drawn(1, 2)[0])
    return made


def levels():
    manager = hierarchy.HierarchyManager()
    first, second = hierarchy.HierarchicalLevel(0, 3, 4), hierarchy.HierarchicalLevel(1, 4, 2, 3, "mean")
    first.add_layer(hierarchy.ReactiveLayer(3, 5))
    first.add_layer(hierarchy.HebbianCore(5, 4, rule="bcm"))
    second.add_layer(hierarchy.SoftHebb(4, 2))
    manager.add_level(first)
    manager.add_level(second)
    manager.process_hierarchy(drawn(5, 3))
    return manager


def machine():
    own = {"n": 200, "k": 10, "p": 0.5}
    return assembly.FiniteStateMachine(["q", 2], ["s"], {("q", "s"): 2}, 2**63, **own).train(2)


def chain():
    table = {("q", "s"): {"q": 0.5, "r": 0.5}, ("r", "s"): {"q": 1}}
    made = assembly.ProbabilisticMachine(["q", "r"], ["s"], table, n=200, k=10, p=0.5).train(2)
    made.run(["s"] * 2)
    return made


def assembly_classifier():
    return assembly.AssemblyClassifier(n=60, k=6, p=0.5).fit(torch.eye(6).repeat(2, 1), torch.arange(12) // 6)


EXAMPLES = {
    "torch_hrr.assembly.AssemblyClassifier": assembly_classifier,
    "torch_hrr.assembly.Brain": brain,
    "torch_hrr.assembly.FiniteStateMachine": machine,
    "torch_hrr.assembly.ProbabilisticMachine": chain,
    "torch_hrr.assembly.SequenceMemory": lambda: assembly.SequenceMemory(200, 10, 0.5, 0.2).present(["a", 2], 3),
    "torch_hrr.assembly.TorchBrain": torch_brain,
    "torch_hrr.assembly.WordLearner": lambda: assembly.WordLearner(["a", 2], ["b"], n=200, k=10).hear([("b", 2)]),
    "torch_hrr.automaton": automaton,
    "torch_hrr.centroid_classifier": lambda: hrr.CentroidClassifier(
        hrr.LevelEncoder(3, 8, features=2, seed=1), "adaptive", seed=2**63
    ).fit(drawn(6, 2).numpy(), ["a", "b", "a"] * 2),
    "torch_hrr.circular_encoder": lambda: hrr.CircularEncoder(3, 8, features=2, dtype=torch.float64),
    "torch_hrr.dynamic_field": lambda: field.DynamicField((3, 3, 3, 1), seed=4),
    "torch_hrr.field_brain": lambda: field.create_brain(sensory_dim=4, motor_dim=2, spatial=4, seed=0),
    "torch_hrr.fractional_power_encoder": lambda: hrr.FractionalPowerEncoder(2, 8, "gaussian", 0.5, seed=-1),
    "torch_hrr.graph": graph,
    "torch_hrr.hash_table": table,
    "torch_hrr.hierarchy": levels,
    "torch_hrr.hopfield_memory": lambda: hrr.HopfieldMemory(drawn(2, 8), 3.5),
    "torch_hrr.item_memory": lambda: hrr.ItemMemory(drawn(2, 8), ["a", "b"]),
    "torch_hrr.level_encoder": lambda: hrr.LevelEncoder(3, 8, -1, 2, features=2).bfloat16(),
    "torch_hrr.liquid_state_machine": reservoir,
    "torch_hrr.lsm_classifier": classifier,
    "torch_hrr.lsm_generator": generator,
    "torch_hrr.lsm_regressor": regressor,
    "torch_hrr.multiset": multiset,
    "torch_hrr.pattern_library": library,
    "torch_hrr.projection_encoder": lambda: hrr.ProjectionEncoder(2, 8, seed=1),
    "torch_hrr.random_encoder": lambda: hrr.RandomEncoder(3, 8, True),
    "torch_hrr.record": record,
    "torch_hrr.resonator": lambda: hrr.Resonator([drawn(2, 8), drawn(3, 8)], seed=2**64 - 5),
    "torch_hrr.ridge_classifier": lambda: hrr.RidgeClassifier(ridge=0.5).fit(drawn(6, 8), torch.arange(6) // 2),
    "torch_hrr.sequence": sequence,
    "torch_hrr.sinusoidal_config": lambda: CONFIG,
    "torch_hrr.sinusoidal_embedder": lambda: encoding.ConfigurableSinusoidalEmbedder(CONFIG),
    "torch_hrr.sparse_distributed_memory": sparse_memory,
    "torch_hrr.stack": stack,
    "torch_hrr.tree": tree,
    "torch_hrr.sinusoid_encoder": lambda: hrr.SinusoidEncoder(2, 8, 0.5),
    "torch_hrr.thermometer_encoder": lambda: hrr.ThermometerEncoder(3, 8),
    "torch_hrr.vector_store": store,
    "torch_hrr.vocabulary": vocabulary,
}


def assert_same(found, expected):
    assert type(found) is type(expected)
    (tensors, metadata), (others, facts) = found._content(), expected._content()
    assert metadata == facts and set(tensors) == set(others)
    for name, tensor in tensors.items():
        assert tensor.dtype == others[name].dtype and torch.equal(tensor.cpu(), others[name].cpu()), name


def test_every_class_has_an_example():
    assert set(EXAMPLES) == set(saveable_classes())


@pytest.fixture(params=sorted(EXAMPLES))
def example(request):
    return EXAMPLES[request.param]()


@pytest.mark.parametrize("key", [None, b"a secret"])
def test_what_is_saved_is_loaded_by_its_class_and_by_the_package(example, key, tmp_path):
    path = tmp_path / "file"
    example.save(path, key)
    assert_same(type(example).load(path, key, device="cpu"), example)
    assert_same(torch_hrr.load(path, key=key, device="cpu"), example)
    example.save(tmp_path / "again", key=key)
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_a_damaged_file_is_never_another_object(example, tmp_path):
    path = tmp_path / "file"
    example.save(path)
    data = path.read_bytes()
    damaged = [data[: len(data) // 2], data + b"\0", b"", data[:-1]]
    damaged += [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 1 + len(data) // 200)]
    for changed in damaged:
        path.write_bytes(changed)
        with pytest.raises(IntegrityError, match=r"^load: \S+file "):
            torch_hrr.load(path)


def test_a_sealed_file_must_still_hold_an_object(example, tmp_path):
    """Anybody can seal a file without a key: what no object has is refused, whatever it is."""
    tensors, metadata = example._content()
    tensors = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    forged = [({**tensors, "more": torch.zeros(2)}, metadata), (tensors, {**metadata, "more": 1})]
    for name, tensor in tensors.items():
        forged.append(({other: each for other, each in tensors.items() if other != name}, metadata))
        for wrong in (tensor.to(torch.complex64), tensor.unsqueeze(0).unsqueeze(-1), torch.zeros((), dtype=torch.int8)):
            forged.append(({**tensors, name: wrong}, metadata))
    for name in metadata:
        forged.append((tensors, {other: value for other, value in metadata.items() if other != name}))
        forged += [(tensors, {**metadata, name: wrong}) for wrong in ({"a": []}, [None], "no")]
    kind = type(example)
    for number, (parts, facts) in enumerate(forged):
        io.save(tmp_path / "file", parts, facts, format=kind.file_format, version=kind.file_version)
        try:
            found = kind.load(tmp_path / "file", device="cpu")
        except IntegrityError as error:
            assert f"must describe a {kind.__name__}, got " in str(error)
        else:
            # Nothing but what it says: an object that could have been saved so.
            held, said = found._content()
            assert same(said, facts, LATER.get(kind.file_format, ())) and set(held) == set(parts), number
            for name, tensor in held.items():
                assert tensor.dtype == parts[name].dtype and torch.equal(tensor.cpu(), parts[name]), number


def classes_turned(tensors, metadata):
    tensors["learned.classes"] = tensors["learned.classes"].flip(0)


@pytest.mark.parametrize(
    ("format", "change"),
    [
        pytest.param("assembly.Brain", lambda _, said: said.update(plastic=1), id="a number for a bool"),
        pytest.param("dynamic_field", lambda _, said: said["config"].pop("noise"), id="a value left out"),
        pytest.param("dynamic_field", lambda _, said: said.update(eval=[]), id="no module in eval mode"),
        pytest.param("dynamic_field", lambda _, said: said.update(eval=["", ""]), id="a module twice in eval mode"),
        pytest.param("dynamic_field", lambda _, said: said.update(eval=None), id="nothing for modules in eval mode"),
        pytest.param("hierarchy", lambda _, said: said["levels"][1]["layers"][0].pop("center"), id="one of before"),
        pytest.param("field_brain", lambda _, said: said.update(spatial=[999, 999, 99]), id="a field of a gigabyte"),
        pytest.param("item_memory", lambda held, _: held.update(codes=held.pop("vectors")), id="codes for vectors"),
        pytest.param("lsm_classifier", classes_turned, id="labels of other columns"),
        pytest.param("lsm_classifier", lambda _, said: said.update(config=[*said["config"].items()]), id="pairs"),
        pytest.param("random_encoder", lambda _, said: said.update(dim=2**40), id="terabytes"),
        pytest.param("random_encoder", lambda _, said: said.update(seed=int(said["seed"])), id="a number for a text"),
        pytest.param("random_encoder", lambda _, said: said.update(seed=f" {said['seed']}"), id="another spelling"),
    ],
)
def test_what_a_class_would_take_for_something_else_is_refused(format, change, tmp_path):
    example = EXAMPLES[f"torch_hrr.{format}"]()
    tensors, metadata = example._content()
    tensors, metadata = dict(tensors), copy.deepcopy(dict(metadata))
    change(tensors, metadata)
    io.save(tmp_path / "file", tensors, metadata, format=example.file_format, version=example.file_version)
    with pytest.raises(IntegrityError, match=f"must describe a {type(example).__name__.replace('Control', 'Field')}, "):
        torch_hrr.load(tmp_path / "file", device="cpu")


def test_what_has_no_elements_takes_no_memory(tmp_path):
    io.save(tmp_path / "file", {"vector": torch.empty(0, 2**40)}, {"seed": "0"}, format="torch_hrr.tree", version=1)
    assert torch_hrr.load(tmp_path / "file", device="cpu").vector.shape == (0, 2**40)


def test_another_class_says_what_the_file_holds(tmp_path):
    sequence().save(tmp_path / "file")
    with pytest.raises(IntegrityError, match=r"torch_hrr\.stack', got version 1 of 'torch_hrr\.sequence'"):
        hrr.Stack.load(tmp_path / "file")
    io.save(tmp_path / "file", {}, {}, format="somebody.else", version=1)
    with pytest.raises(IntegrityError, match=r"must hold an object of torch_hrr, got 'somebody\.else'"):
        torch_hrr.load(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        torch_hrr.load(tmp_path / "nothing")
    hrr.Memory(tmp_path / "facts.db").close()
    with pytest.raises(IntegrityError, match=r"^load: .*facts\.db is an SQLite database: hrr\.Memory\(path\) opens"):
        torch_hrr.load(tmp_path / "facts.db")
    with pytest.raises(ValueError, match=r"^load: device must be"):
        sequence().save(tmp_path / "file")
        torch_hrr.load(tmp_path / "file", device="nowhere")


@pytest.mark.parametrize("read", [torch_hrr.load, hrr.VectorStore.load, encoding.MappedTable])
def test_what_is_no_regular_file_is_an_error_and_not_a_wait(read, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, "/dev/zero"):
        with pytest.raises(ValueError, match=r"^(load|MappedTable): path must name a regular file, got "):
            read(path)


@pytest.mark.parametrize(
    ("path", "error", "text"),
    [
        (None, TypeError, "must be a str or an os.PathLike, got NoneType"),
        (5, TypeError, "must be a str or an os.PathLike, got int"),
        ("a\0b", ValueError, "must be one that a file can have, got 'a"),
        ("\ud800", ValueError, "must be one that a file can have, got '"),
    ],
    ids=("None", "5", "null", "surrogate"),
)
def test_what_is_no_path_is_named(path, error, text):
    for read in (torch_hrr.load, hrr.VectorStore.load):
        with pytest.raises(error, match=f"^load: path {text}"):
            read(path)
    with pytest.raises(error, match=f"^MappedTable: path {text}"):
        encoding.MappedTable(path)
    with pytest.raises(error, match=f"^save: path {text}"):
        sequence().save(path)
    with pytest.raises(error, match=f"^save_table: path {text}"):
        encoding.save_table(path, torch.ones(1, 1))


@pytest.mark.parametrize("kind", saveable_classes().values(), ids=lambda kind: kind.__name__)
def test_an_option_that_no_class_knows_is_refused(kind, tmp_path):
    with pytest.raises(TypeError, match=rf"^load: options of {kind.__name__} must be device.*, got bogus$"):
        kind.load(tmp_path / "nothing", bogus=1)


def test_a_want_of_memory_is_a_memory_error(tmp_path, monkeypatch):
    brain().save(tmp_path / "brain")

    def full(*arguments, **options):
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.")

    for place in ((files, "read"), (assembly.Brain, "_from_content")):
        with monkeypatch.context() as patch:
            patch.setattr(*place, full)
            with pytest.raises(MemoryError, match=r"^load: \S+brain must fit into memory, got .*can't allocate memory"):
                torch_hrr.load(tmp_path / "brain")


def test_what_goes_on_goes_on_the_same(tmp_path):
    """Objects that change: the loaded one and the saved one do the same afterwards."""
    for made in (sequence(), stack(), graph(), record(), vocabulary(), store()):
        made.save(tmp_path / "file")
        again = torch_hrr.load(tmp_path / "file", device="cpu")
        for each in (made, again):
            match each:
                case hrr.Sequence():
                    each.append(drawn(8))
                case hrr.Stack():
                    each.pop(hrr.ItemMemory(drawn(3, 8)))
                case hrr.Graph():
                    each.add(drawn(2, 8), drawn(2, 8))
                case hrr.Record():
                    each.set("x", drawn(8))
                case hrr.Vocabulary():
                    each.populate("D; E = D + ~A")
                case hrr.VectorStore():
                    each.remove("a"), each.add("b", drawn(8))
        assert_same(again, made)
    resonator, again = EXAMPLES["torch_hrr.resonator"](), None
    resonator.save(tmp_path / "file")
    again = torch_hrr.load(tmp_path / "file", device="cpu")
    x = drawn(5, 8)
    assert torch.equal(resonator.factorize(x).indices, again.factorize(x).indices)


def test_a_sound_file_and_a_device_without_memory(tmp_path):
    """The device is at fault then, not the file."""
    for format in ("torch_hrr.assembly.Brain", "torch_hrr.assembly.TorchBrain"):
        EXAMPLES[format]().save(tmp_path / "file")
        with pytest.raises(ValueError, match=r"^load: device of \w+ must have memory, got meta$"):
            torch_hrr.load(tmp_path / "file", device="meta")
