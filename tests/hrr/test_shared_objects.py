"""Objects that change: calls from several threads lose and mix nothing, and copies own what they change."""

import copy
import os
import pickle
import subprocess
import sys
import threading

import pytest
import torch

from torch_hrr import hrr

THREADS, CALLS = 4, 40


@pytest.fixture
def impatient():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(call):
    """The call with the numbers of all threads, at once; errors are raised here."""
    barrier, errors = threading.Barrier(THREADS), []

    def run(thread):
        try:
            barrier.wait()
            for number in range(CALLS):
                call(thread * CALLS + number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def row(number, dim=16):
    return torch.full((dim,), float(number + 1))


@pytest.mark.parametrize("quantized", [False, True])
def test_a_store(impatient, quantized):
    store = hrr.VectorStore(16, capacity=1, quantized=quantized)

    def add(number):
        store.add(f"n{number}", row(number))
        assert torch.equal(store[f"n{number}"], row(number))
        # Parallel rows, whose cosines may differ by rounding.
        assert store.ask(row(number)) in store.names
        assert len(store.vectors) >= 1 and all(name.startswith("n") for name in store)

    at_once(add)
    assert len(store) == THREADS * CALLS and store.vectors.unique().numel() == THREADS * CALLS
    store.verify()
    at_once(lambda number: (store.update(f"n{number}", row(number + 1000)), store.remove(f"n{number}")))
    assert len(store) == 0 and sorted(store._free) == list(range(store.capacity))


def test_a_vocabulary(impatient):
    words = hrr.Vocabulary(16, seed=1)
    words.populate("A")

    def declare(number):
        words.populate(f"N{number}; M{number} = N{number} * A")
        assert torch.equal(words.parse(f"N{number} * A"), words[f"M{number}"])
        indices = words.cleanup(words[f"N{number}"])[1]
        assert words.names_of(indices)[0] in words.names

    at_once(declare)
    assert len(words) == 1 + 2 * THREADS * CALLS
    expected = hrr.Vocabulary(16, seed=1)
    expected.populate("; ".join(name for name in words.names if name[0] != "M"))
    assert all(torch.equal(words[name], expected[name]) for name in expected)


def test_structures(impatient):
    table, sequence, record = hrr.HashTable(16), hrr.Sequence(16), hrr.Record({f"r{i}": row(i) for i in range(160)})
    at_once(lambda number: (table.add(row(0), row(0)), sequence.append(row(0)), record.set(f"r{number}", row(number))))
    once = hrr.HashTable(16)
    once.add(row(0), row(0))
    torch.testing.assert_close(table.vector, once.vector * THREADS * CALLS)
    assert len(sequence) == THREADS * CALLS and len(record) == THREADS * CALLS


def grown(kind):
    made = {
        hrr.Record: lambda: hrr.Record({"x": row(1), "y": row(2)}),
        hrr.VectorStore: lambda: hrr.VectorStore(16),
        hrr.Vocabulary: lambda: hrr.Vocabulary(16),
    }.get(kind, lambda: kind(16))()
    change(made, 0)
    return made


def change(made, number):
    match made:
        case hrr.Record():
            made.set("xy"[number], row(number))
        case hrr.VectorStore() | hrr.Vocabulary():
            made.add(f"n{number}", row(number))
        case hrr.Sequence():
            made.append(row(number))
        case hrr.Stack():
            made.push(row(number))
        case hrr.Graph() | hrr.HashTable():
            made.add(row(number), row(number))
        case hrr.Multiset():
            made.add(row(number))
        case hrr.Tree():
            made.add("lr", row(number))
        case hrr.Automaton():
            made.add(row(number), row(number), row(number))


KINDS = [hrr.Graph, hrr.HashTable, hrr.Record, hrr.Sequence, hrr.Stack, hrr.VectorStore, hrr.Vocabulary]
KINDS += [hrr.Multiset, hrr.Tree, hrr.Automaton]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_owns_what_it_changes(kind, make):
    first = grown(kind)
    second = make(first)
    contents = [str(each._content()) for each in (first, second)]
    assert contents[0] == contents[1]
    change(second, 1)
    assert str(first._content()) == contents[0] != str(second._content())
    third = make(first)
    change(first, 1)
    assert str(first._content()) == str(second._content()) and str(third._content()) == contents[0]
    assert first._lock is not second._lock


def test_a_loss_stays_in_float32_under_autocast():
    loss = hrr.HRRMultiLabelLoss(20, 128, generator=torch.Generator().manual_seed(0))
    s = torch.randn(6, 128, generator=torch.Generator().manual_seed(1), requires_grad=True)
    targets = (torch.rand(6, 20, generator=torch.Generator().manual_seed(2)) < 0.2).float()
    seen = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            value, scores = loss(s, targets), loss.scores(s)
        seen.append((value, scores, *torch.autograd.grad(value, s)))
    for plain, under in zip(*seen, strict=True):
        assert under.dtype == torch.float32 and torch.equal(plain, under)


def test_a_fork_waits_for_no_thread_that_it_ended():
    """Of the two objects one is in use by another thread, which the new process does not have."""
    program = (
        "import os, signal, threading\n"
        "from torch_hrr import hierarchy, hrr\n"
        "used, idle = hierarchy.HierarchyManager(), hrr.Vocabulary(8)\n"
        "held, done = threading.Event(), threading.Event()\n"
        "def work():\n"
        "    with used._lock:\n"
        "        held.set()\n"
        "        done.wait()\n"
        "thread = threading.Thread(target=work)\n"
        "thread.start()\n"
        "held.wait()\n"
        "if os.fork() == 0:\n"
        "    signal.alarm(20)\n"
        "    idle.populate('a')\n"
        "    try:\n"
        "        used.reset_state()\n"
        "    except RuntimeError as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "status = os.wait()[1]\n"
        "done.set()\n"
        "thread.join()\n"
        "used.reset_state()\n"
        "raise SystemExit(status != 0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "fork: an object must not be in use by another thread, got one that was: copy it before\n"


class Model(torch.nn.Module):
    """A model that holds one of every kind."""

    def __init__(self, seed, dim=8):
        super().__init__()
        rows = torch.randn(6, dim, generator=torch.Generator().manual_seed(seed))
        self.words, self.store = hrr.Vocabulary(dim, seed, device="cpu"), hrr.VectorStore(dim, device="cpu")
        self.record = hrr.Record({"a.b": rows[0], "c": rows[1]})
        self.items, self.stack = hrr.Sequence(dim, seed=seed, device="cpu"), hrr.Stack(dim, device="cpu")
        self.graph, self.table = hrr.Graph(dim, seed == 0, device="cpu"), hrr.HashTable(dim, device="cpu")
        self.memory = hrr.ItemMemory(rows[: seed + 1], [f"n{i}" for i in range(seed + 1)])
        self.resonator = hrr.Resonator([rows[: seed + 1], rows[3:]], seed=seed)

    def filled(self):
        rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(9))
        self.words.populate("A; B; C = A * B")
        self.words.add("not \0 an 'identifier'", rows[0])
        self.words.cleanup(rows[0])
        self.store.add_many(["x", "y"], rows[:2])
        self.store.remove("x")
        self.record.set("c", rows[:2])
        self.items.extend(rows)
        self.stack.push(rows[0])
        self.graph.add(rows[0], rows[1])
        self.table.add(rows[0], rows[1])
        return self


def test_a_state_brings_a_model_to_what_another_holds(tmp_path):
    source, made = Model(1).filled(), Model(0)
    safetensors = pytest.importorskip("safetensors.torch")
    safetensors.save_file(source.state_dict(), tmp_path / "state")
    made.load_state_dict(safetensors.load_file(tmp_path / "state"))
    for (name, own), other in zip(made.named_children(), source.children(), strict=True):
        (tensors, facts), (expected, said) = own._content(), other._content()
        assert facts == said and tensors.keys() == expected.keys(), name
        assert all(torch.equal(tensors[key], expected[key]) for key in tensors), name
    for each in (made, source):
        each.words.populate("D")
        each.store.add("new", torch.ones(8))
    assert torch.equal(made.words.vectors, source.words.vectors) and made.items[-1].equal(source.items[-1])
    assert "words._memory.vectors" not in source.state_dict() and made.memory.names == ("n0", "n1")


def test_conversions_of_a_model_take_along_what_it_holds():
    model = Model(1).filled()
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.float32):
        model.to(dtype)
        held = (model.words["A"], model.store["y"], model.record.vector, model.items.vector, model.memory.vectors)
        assert all(each.dtype == dtype for each in held)
        assert model.words.dtype == model.store.dtype == dtype
        assert model.resonator.codebooks[0].dtype == torch.promote_types(dtype, torch.float32)
        model.store.verify()
        model.words.populate(f"of_{str(dtype)[6:]}")
        assert model.words.ask(model.words["B"]) == "B" and model.memory.ask(model.memory.vectors[1]) == "n1"
    model.words.add("large", torch.full((8,), 1e30))
    with pytest.raises(ValueError, match=r"^to: vector of 'large' must be finite in torch.float16"):
        model.words.half()
    assert model.words.dtype == torch.float32
    model.load_state_dict(Model(0).filled().double().state_dict())
    assert model.words.dtype == model.items.vector.dtype == model.memory.vectors.dtype == torch.float32


def test_a_state_that_describes_none_changes_nothing():
    for name in ("words", "store", "record", "items", "memory", "resonator"):
        model, wrong = Model(1).filled(), Model(0, 4)
        before = model.get_submodule(name)._content()[1]
        with pytest.raises(RuntimeError, match="must describe one, got vectors of 8 dimensions, got 4"):
            model.load_state_dict(wrong.state_dict())
        state = model.state_dict()
        state[f"{name}._extra_state"] = torch.zeros(3, dtype=torch.uint8)
        with pytest.raises(RuntimeError, match=f"'{name}' must describe one, got "):
            model.load_state_dict(state)
        del state[f"{name}._extra_state"]
        with pytest.raises(RuntimeError, match=f'Missing key.*"{name}._extra_state"'):
            model.load_state_dict(state)
        assert model.get_submodule(name)._content()[1] == before


class Scaled(hrr.ItemMemory):
    """With a parameter, a buffer and parts of its own."""

    def __init__(self, vectors):
        super().__init__(vectors)
        self.scale = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(2))
        self.words, self.linear = hrr.Vocabulary(8), torch.nn.Linear(2, 2)


def test_a_derived_class_has_parts_of_its_own_in_its_state():
    source, made = (torch.nn.ModuleDict({"m": Scaled(torch.eye(4) * scale)}) for scale in (2, 3))
    source["m"].words.populate("A; B")
    with torch.no_grad():
        source["m"].scale.fill_(5), source["m"].seen.fill_(6)
    called = []
    made["m"].register_load_state_dict_pre_hook(lambda *arguments: called.append(arguments))
    state = source.state_dict()
    assert made.load_state_dict(state) == ([], []) and len(called) == 1
    found = made.state_dict()
    assert found.keys() == state.keys() and all(torch.equal(found[name], state[name]) for name in state)
    assert made["m"].scale.requires_grad and made["m"].words.names == ("A", "B")
    del state["m.scale"]
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "m\.scale"'):
        made.load_state_dict(state)
    assert made.load_state_dict(state, strict=False).missing_keys == ["m.scale"]
