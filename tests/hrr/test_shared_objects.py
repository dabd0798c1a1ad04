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


def test_a_store(impatient):
    store = hrr.VectorStore(16, capacity=1)

    def add(number):
        store.add(f"n{number}", row(number))
        assert torch.equal(store[f"n{number}"], row(number))
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


KINDS = [hrr.Graph, hrr.HashTable, hrr.Record, hrr.Sequence, hrr.Stack, hrr.VectorStore, hrr.Vocabulary]


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
