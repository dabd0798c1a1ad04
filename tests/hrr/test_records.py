"""A memory of records in a file: what it keeps, finds and refuses, and what several processes see of it."""

import copy
import enum
import os
import pathlib
import pickle
import random
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading

import numpy as np
import pytest
import torch

from torch_hrr import IntegrityError, hrr
from torch_hrr.hrr import _database

ROOT = pathlib.Path(__file__).parents[2]
NAMES = [
    "",
    "a",
    "A",
    " a",
    "a\0b",
    "naïve ☃ \U0001d518",
    "x' OR '1'='1",
    "line\nbreak",
    "\0",
    "\ufeff",
    "e\u0301",
    "é",
]


@pytest.fixture
def memory(tmp_path):
    with hrr.Memory(tmp_path / "m.db", dim=64) as made:
        yield made


def fact(number):
    """One of many records that share fillers."""
    return {"agent": f"agent {number % 7}", "verb": f"verb {number % 3}", "object": f"object {number}"}


def drawn(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def script(body, *arguments):
    """What a process of its own prints, by lines."""
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(body), *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_call_each(memory):
    memory.store("likes", {"agent": "Alice", "verb": "likes", "object": "tea"})
    memory.store("drinks", {"agent": "Bob", "verb": "drinks", "object": "coffee"})
    first, second = memory.search({"agent": "Alice"})
    assert first.name == "likes" and first.record == memory["likes"] and first.cosine > 0.4 > second.cosine
    memory.update("likes", {"object": "coffee", "since": 2019})
    assert memory["likes"] == {"agent": "Alice", "verb": "likes", "object": "coffee", "since": 2019}
    assert [each.name for each in memory.search({"object": "coffee", "verb": "drinks"})] == ["drinks", "likes"]
    memory.update("likes", {"since": None})
    memory.remove("drinks")
    assert dict(memory) == {"likes": {"agent": "Alice", "verb": "likes", "object": "coffee"}}
    assert [each.name for each in memory.search({"agent": "Bob"})] == ["likes"]
    memory["likes"] = {"agent": "Carol"}
    memory["knows"] = {"agent": "Carol", "object": "Alice"}
    assert list(memory) == ["likes", "knows"] and memory["likes"] == {"agent": "Carol"} and len(memory) == 2
    del memory["likes"]
    assert "likes" not in memory and "knows" in memory and memory.get("likes") is None and 3 not in memory
    memory.verify()


def test_names_and_roles_of_any_characters(memory):
    memory.store_many({name: {role: name} for name, role in zip(NAMES, reversed(NAMES), strict=True)})
    for name, role in zip(NAMES, reversed(NAMES), strict=True):
        assert memory[name] == {role: name} and memory.search({role: name}, 1)[0].name == name
    assert memory.names == tuple(NAMES)
    for name in ("\ud800", "a\udfff"):
        assert name not in memory
        with pytest.raises(KeyError, match=r"^.Memory: name must be known, got "):
            memory[name]
        with pytest.raises(ValueError, match=r"^store: name must be valid Unicode, got "):
            memory.store(name, {"a": "b"})
    assert len(memory) == len(NAMES)


def test_fillers_come_back_as_they_were(memory):
    vectors = [drawn(64, dtype=dtype) for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)]
    record = {"text": "tea", "int": -3, "float": 0.1, "yes": True, "no": False, "list": ["a", 2, False, {"b": "c"}]}
    record |= {"record": {"dtype": "F32", "vector": "x"}, "vector": {"record": {"vector": 1.5}}, "none": []}
    memory.store("a", record | {"vectors": vectors, "array": vectors[0].numpy()[::-1]})
    found = memory["a"]
    assert list(found) == [*record, "vectors", "array"] and {name: found[name] for name in record} == record
    assert type(found["yes"]) is bool and type(found["int"]) is int
    for one, other in zip(found["vectors"], vectors, strict=True):
        assert isinstance(one, hrr.Vector) and one.dtype == other.dtype and torch.equal(one, other)
    assert torch.equal(found["array"], vectors[0].flip(0))
    found["list"].append("more")
    vectors[0].zero_()
    assert memory["a"]["list"] == record["list"] and memory["a"]["vectors"][0].any()
    memory.store("numpy", {"a": np.float32(0.5), "b": np.int64(3), "c": np.bool_(True), "d": np.str_("x"), "e": (1, 2)})
    assert memory["numpy"] == {"a": 0.5, "b": 3, "c": True, "d": "x", "e": [1, 2]}
    assert {type(each) for each in memory["numpy"].values()} == {float, int, bool, str, list}


class Color(str, enum.Enum):  # noqa: UP042
    """Of which str() and hash() are not those of the text."""

    RED = "red"


def test_members_of_enumerations_are_their_texts(memory):
    memory.store(Color.RED, {Color.RED: Color.RED, "also": "x"})
    memory.store("blue", {"red": "blue"})
    assert memory.names == ("red", "blue") and Color.RED in memory and memory[Color.RED] == memory["red"]
    assert memory["red"] == {"red": "red", "also": "x"} and {type(each) for each in memory["red"]} == {str}
    assert memory.search({"red": "red"}, 1) == memory.search({Color.RED: Color.RED}, 1) and memory.encode(
        {"red": "red"}
    ).equal(memory.encode({Color.RED: Color.RED}))
    assert hrr.Memory(memory.path).search({"red": "red"}, 1)[0].cosine > 0.5
    memory.update(Color.RED, {Color.RED: None})
    assert memory["red"] == {"also": "x"}
    with pytest.raises(ValueError, match="names must be different, got 'red' twice"):
        memory.store_many([("red", {"a": "b"}), (Color.RED, {"a": "b"})])
    assert hrr.Vocabulary(64, strict=False)[Color.RED].equal(hrr.Vocabulary(64, strict=False)["red"])


def oracle(record, dim, seed, scales):
    """The vector of a record in float64, its draws those of a vocabulary."""
    options = {"strict": False, "dtype": torch.float64}
    roles, symbols = hrr.Vocabulary(dim, seed, unitary=True, **options), hrr.Vocabulary(dim, seed, **options)
    total = torch.zeros(dim, dtype=torch.float64)
    for role, held in record.items():
        for filler in held if isinstance(held, list) else [held]:
            if isinstance(filler, dict):
                vector = hrr.permute(oracle(filler, dim, seed, scales), seed)
            elif isinstance(filler, str | bool):
                vector = symbols[str(filler)]
            elif isinstance(filler, torch.Tensor):
                vector = filler.double()
            else:
                vector = hrr.bind_power(roles["\0number"], filler / scales.get(role, 1.0))
            total += hrr.bind(roles[role], vector / vector.norm())
    return total / total.norm()


@pytest.mark.parametrize(("dim", "seed"), ((64, 0), (77, 2**64 - 1), (1024, -5)))
def test_a_vector_is_the_formula(tmp_path, dim, seed):
    scales = {"year": 10.0}
    memory = hrr.Memory(tmp_path / "m.db", dim, seed, scales=scales)
    record = {"a": "b", "b": ["a", "c", True], "n": -3.25, "year": 2019, "who": {"year": 7, "who": {"a": "b"}}}
    record["given"] = 3 * drawn(dim)
    memory.store("x", record)
    wanted = oracle(record, dim, seed, scales)
    torch.testing.assert_close(memory.encode(record).double(), wanted, rtol=0, atol=2e-6)
    assert torch.equal(memory.encode(record), memory.vectors[0]) and memory.seed == seed % 2**64
    filler = hrr.unbind(memory.encode({"a": "b"}), memory.role("a"))
    words = hrr.Vocabulary(dim, seed)
    words.populate("b.normalized()")
    torch.testing.assert_close(filler, words["b"], rtol=0, atol=2e-6)


def test_what_means_another_thing_has_another_vector(memory):
    assert float(memory.encode({"a": {"b": "x"}}) @ memory.encode({"b": {"a": "x"}})) < 0.5
    assert float(memory.encode({"a": 1}) @ memory.encode({"a": "1"})) < 0.5
    assert float(memory.encode({"a": 1}) @ memory.encode({"a": 1.0})) == pytest.approx(1, abs=1e-6)
    assert torch.equal(memory.encode({"a": ["x", "y"]}), memory.encode({"a": ("x", "y")}))


def test_numbers_resemble_those_within_a_scale(tmp_path):
    memory = hrr.Memory(tmp_path / "m.db", 1024, scales={"year": 10})
    for role, scale in (("year", 10.0), ("age", 1.0)):
        for distance in (0.1, 0.5, 1.0, 2.0, 30.0):
            found = memory.encode({role: 1000.0}) @ memory.encode({role: 1000 + distance * scale})
            assert float(found) == pytest.approx(np.sinc(distance), abs=0.12)
    memory.encode({"year": 2**31 * 10, "age": -(2**31)})
    with pytest.raises(ValueError, match=r"must be a number from -1\.79769e\+308 to 1\.79769e\+308, got an int"):
        hrr.Memory(tmp_path / "wide.db", 16, scales={"year": 1e300}).encode({"year": 10**320})
    for role, number in (("year", 2**31 * 10 + 1), ("age", 2**31 + 1), ("age", 10**5000), ("age", float("nan"))):
        with pytest.raises(ValueError, match=rf"^encode: record\['{role}'\] must be a number from -2\.147.*e\+\d+ to "):
            memory.encode({role: number})


def assert_exact(memory, records):
    """Names, records and cosines are those of float64 over all vectors; equal ones in the order of storing."""
    rows = memory.vectors.double()
    assert memory.names == tuple(records) and len(rows) == len(records)
    queries = [{"agent": "agent 3"}, {"agent": "agent 1", "verb": "verb 2"}, {"object": "object 5"}]
    for query, found in zip(queries, memory.search(queries, 12), strict=True):
        cosines = torch.cosine_similarity(memory.encode(query).double(), rows, dim=-1)
        assert [each.record for each in found] == [records[each.name] for each in found]
        places = [list(records).index(each.name) for each in found]
        assert len({*places}) == min(12, len(records))
        given = torch.tensor([each.cosine for each in found], dtype=torch.float64)
        torch.testing.assert_close(given, cosines[places], rtol=0, atol=1e-6)
        torch.testing.assert_close(given, cosines.sort(descending=True).values[: len(given)], rtol=0, atol=1e-6)
        ranks = [(-each.cosine, place) for each, place in zip(found, places, strict=True)]
        assert ranks == sorted(ranks)
        assert memory.search(query, 12) == found


def test_search_is_exact_whatever_changed(tmp_path):
    choose = random.Random(0)
    memory, other = (hrr.Memory(tmp_path / "m.db", dim=64) for _ in range(2))
    records = {f"n{i}": fact(i % 20) for i in range(60)}
    memory.store_many(records)
    for step in range(60):
        writer, name = choose.choice([memory, other]), choose.choice([*records])
        match choose.randrange(3):
            case 0:
                writer.store(f"new {step}", fact(step % 20))
                records[f"new {step}"] = fact(step % 20)
            case 1:
                writer.update(name, {"object": f"object {step % 9}"})
                records[name] = records[name] | {"object": f"object {step % 9}"}
            case 2:
                writer.remove(name)
                del records[name]
        if step % 5 == 0:
            assert_exact(choose.choice([memory, other]), records)
    assert_exact(memory, records)
    assert_exact(hrr.Memory(tmp_path / "m.db"), records)
    memory.verify()


def test_equal_records_come_in_the_order_of_storing(memory):
    names = [f"{name:03}" for name in random.Random(0).sample(range(300), 300)]
    memory.store_many([(name, {"a": "same"}) for name in names])
    found = memory.search({"a": "same"}, 300)
    assert [each.name for each in found] == names and len({each.cosine for each in found}) == 1
    memory.remove(names[-1])
    memory.store(names[-1], {"a": "same"})
    memory.update(names[0], {"a": "other"})
    memory.update(names[0], {"a": "same"})
    assert [each.name for each in memory.search({"a": "same"}, 300)] == names


def test_queries_of_every_kind(memory):
    assert memory.search({"a": "b"}) == [] and memory.search([{"a": "b"}, {"c": 1}]) == [[], []] and len(memory) == 0
    memory.store_many({f"n{i}": fact(i) for i in range(10)})
    vector = memory.encode({"agent": "agent 2"})
    found = memory.search({"agent": "agent 2"}, 100)
    assert len(found) == 10 and {found[0].name, found[1].name} == {"n2", "n9"}
    assert memory.search(vector, 100) == found == memory.search(vector.as_subclass(torch.Tensor).numpy(), 100)
    assert (
        memory.search(torch.stack([vector, -vector]), 100)[0] == found == memory.search([{"agent": "agent 2"}], 100)[0]
    )
    assert memory.search([]) == [] and memory.search(torch.empty(0, 64)) == []
    assert [each.cosine for each in memory.search(torch.zeros(64), 3)] == [0, 0, 0]
    cosines = [each.cosine for each in found]
    doubled = [each.cosine for each in memory.search(vector.double(), 100)]
    assert cosines == pytest.approx(doubled, abs=1e-6)


WRONG = [
    (lambda m: m.store(3, {"a": "b"}), TypeError, "store: name must be str, got int"),
    (lambda m: m.store("x", "text"), TypeError, "store: record must be a mapping of roles to fillers, got str"),
    (lambda m: m.store("x", {}), ValueError, "store: record must fill at least one role, got none"),
    (lambda m: m.store("x", {"a": []}), ValueError, "store: record must fill at least one role, got none"),
    (lambda m: m.store("x", {"a": {}}), ValueError, "store: record['a'] must fill at least one role, got none"),
    (lambda m: m.store("x", {3: "b"}), TypeError, "store: roles of record must be str, got int"),
    (lambda m: m.store("x", {"\ud800": "b"}), ValueError, "store: roles of record must be valid Unicode"),
    (lambda m: m.store("x", {"a": "\ud800"}), ValueError, "store: record['a'] must be valid Unicode"),
    (lambda m: m.store("x", {"a": None}), TypeError, "store: record['a'] must be a str, a number, a bool, a vector, a"),
    (lambda m: m.store("x", {"a": {"b": [1, [2]]}}), TypeError, "store: record['a']['b'][1] must be a str, a number"),
    (lambda m: m.store("x", {"a": {1, 2}}), TypeError, "store: record['a'] must be a str, a number"),
    (lambda m: m.store("x", {"a": 1j}), TypeError, "store: record['a'] must be a str, a number"),
    (lambda m: m.store("x", {"a": float("inf")}), ValueError, "store: record['a'] must be a number from -2.14"),
    (lambda m: m.store("x", {"a": torch.ones(3)}), ValueError, "store: record['a'] must have shape [64], got [3]"),
    (lambda m: m.store("x", {"a": torch.ones(64).long()}), TypeError, "store: record['a'] must be float32"),
    (lambda m: m.store("x", {"a": torch.full((64,), torch.nan)}), ValueError, "store: record['a'] must be finite"),
    (lambda m: m.store("x", {"a": torch.ones(64, device="meta")}), ValueError, "store: record['a'] must hold data"),
    (lambda m: m.store("known", {"a": "b"}), ValueError, "store: name must be new, got 'known'"),
    (lambda m: m.store_many({"new": {"a": "b"}, "known": {"a": "b"}}), ValueError, "store_many: name must be new"),
    (lambda m: m.store_many({"new": {"a": "b"}, "x": {}}), ValueError, "store_many: records['x'] must fill at"),
    (lambda m: m.store_many([("x", {"a": 1})] * 2), ValueError, "store_many: names must be different, got 'x' twice"),
    (lambda m: m.store_many(3), TypeError, "store_many: records must be a mapping of names to records, or pairs"),
    (lambda m: m.store_many(["ab"]), TypeError, "store_many: records must be a mapping of names to records, or pairs"),
    (lambda m: m.update("x", {"a": "b"}), KeyError, "'update: name must be known, got 'x'"),
    (lambda m: m.update("known", {}), ValueError, "update: roles must fill at least one role, got none"),
    (lambda m: m.update("known", {"b": None}), KeyError, "update: roles must be filled to be emptied, got 'b'"),
    (lambda m: m.update("known", {"a": None}), ValueError, "update: record must fill at least one role, got none"),
    (lambda m: m.update("known", 3), TypeError, "update: roles must be a mapping of roles to fillers, got int"),
    (lambda m: m.remove("x"), KeyError, "remove: name must be known, got 'x'"),
    (lambda m: m.remove(3), TypeError, "remove: name must be a str, got int"),
    (lambda m: m["x"], KeyError, "Memory: name must be known, got 'x'"),
    (lambda m: m[3], TypeError, "Memory: name must be a str, got int"),
    (lambda m: m.search("tea"), TypeError, "search: query must be a mapping of roles to fillers, a list"),
    (lambda m: m.search([{"a": "b"}, 3]), TypeError, "search: query[1] must be a mapping of roles to fillers, got int"),
    (lambda m: m.search({"a": None}), TypeError, "search: query['a'] must be a str"),
    (lambda m: m.search(torch.ones(3)), ValueError, "search: query must have the last dimension 64"),
    (lambda m: m.search(torch.ones(1, 1, 64)), ValueError, "search: query must be [D] or [B, D], got shape [1, 1, 64]"),
    (lambda m: m.search(torch.full((64,), torch.inf)), ValueError, "search: query must be finite"),
    (lambda m: m.search({"a": "b"}, 0), ValueError, "search: top_k must be at least 1, got 0"),
    (lambda m: m.encode(3), TypeError, "encode: record must be a mapping of roles to fillers, got int"),
    (lambda m: m.role(3), TypeError, "role: name must be str, got int"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), WRONG, ids=range(len(WRONG)))
def test_what_is_refused_changes_nothing(memory, call, error, text):
    memory.store("known", {"a": "b"})
    with pytest.raises(error) as caught:
        call(memory)
    assert str(caught.value).lstrip("\"'").startswith(text.lstrip("'"))
    assert dict(memory) == {"known": {"a": "b"}}
    deep = {"a": "b"}
    for _ in range(40):
        deep = {"a": deep}
    with pytest.raises(ValueError, match=r"^store: record.* must nest at most 32 deep, got more$"):
        memory.store("deep", deep)


def test_what_is_made_must_be_what_is_there(tmp_path):
    path = tmp_path / "m.db"
    hrr.Memory(path, 64, 2**65 + 3, scales={"a": 2}).close()
    again = hrr.Memory(path)
    assert (again.dim, again.seed, again.path) == (64, 3, str(path.resolve()))
    hrr.Memory(str(path), 64, 3, scales={"a": 2.0})
    for name, known, other in (("dim", 64, 32), ("seed", 3, 0), ("scales", {"a": 2.0}, {})):
        with pytest.raises(ValueError) as caught:
            hrr.Memory(path, **{name: other})
        assert str(caught.value) == f"Memory: {name} must be {known} as in {path.resolve()}, got {other}"
    for options, error in (({"dim": 0}, ValueError), ({"dim": 2**25}, ValueError), ({"scales": {"a": 0}}, ValueError),
                           ({"scales": {3: 1.0}}, TypeError), ({"scales": 3}, TypeError), ({"key": "text"}, TypeError),
                           ({"key": b""}, ValueError), ({"timeout": -1}, ValueError)):  # fmt: skip
        with pytest.raises(error, match=r"^Memory: (dim|scales|roles of scales|key|timeout)"):
            hrr.Memory(tmp_path / "new.db", **options)
    assert not (tmp_path / "new.db").exists()


def test_what_is_closed_says_so_and_handles_are_of_one_file(memory):
    memory.store("a", {"x": "y"})
    for handle in (copy.copy(memory), copy.deepcopy(memory), pickle.loads(pickle.dumps(memory))):
        assert handle["a"] == {"x": "y"} and handle is not memory
        handle.update("a", {"z": "w"}), handle.update("a", {"z": None}), handle.close(), handle.close()
    memory.close()
    for name, call in (("len", lambda: len(memory)), ("store", lambda: memory.store("b", {"x": "y"})),
                       ("search", lambda: memory.search({"x": "y"})), ("verify", memory.verify)):  # fmt: skip
        with pytest.raises(ValueError, match=f"^{name}: memory must be open, got one that was closed$"):
            call()
    assert not os.path.exists(f"{memory.path}-wal")
    sealed = hrr.Memory(f"{memory.path}2", key=b"key")
    assert copy.copy(sealed).names == ()
    with pytest.raises(TypeError, match=r"^pickle: memory must have no key"):
        pickle.dumps(sealed)


def test_copies_and_pickles_of_a_file_that_is_gone_make_no_new_one(memory):
    memory.store("a", {"x": "y"})
    pickled = pickle.dumps(memory)
    os.rename(memory.path, f"{memory.path}.moved")
    for call in (lambda: copy.copy(memory), lambda: copy.deepcopy(memory), lambda: pickle.loads(pickled)):
        with pytest.raises(FileNotFoundError, match=r"Memory: path of a copy or pickle must name a file that exists"):
            call()
    assert not os.path.exists(memory.path)


def test_an_item_memory_of_what_has_names(memory):
    memory.store_many({f"n{i}": fact(i) for i in range(5)})
    store, words = hrr.VectorStore(64), hrr.Vocabulary(64)
    store.add_many(memory.names, memory.vectors), words.populate("A; B")
    for held in (memory, store, words):
        items = hrr.ItemMemory(held)
        assert items.names == tuple(held) and torch.equal(items.vectors, held.vectors)
    assert hrr.ItemMemory(memory).ask(memory.encode({"object": "object 3"})) == "n3"
    assert hrr.ItemMemory(store, names=list("abcde")).names == tuple("abcde")
    with pytest.raises(ValueError, match=r"^ItemMemory: vectors must be \[N, D\] with N, D >= 1, got \[0, 8\]$"):
        hrr.ItemMemory(hrr.VectorStore(8))


def test_modes_of_torch_change_nothing(memory):
    @torch.compile(backend="eager")
    def compiled(query):
        return memory.search(query * 2)[0].name

    memory.store("a", {"x": "y", "n": 1.5, "v": drawn(64)})
    usual = memory.vectors, memory.search({"x": "y"})[0][:2]
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        memory["b"] = {"x": "y", "n": 1.5, "v": drawn(64), "new": "symbol"}
        memory.update("b", {"new": None})
        assert torch.equal(memory.vectors[1], usual[0][0]) and memory.search({"x": "y"})[0][:2] == usual[1]
    memory.update("a", {"n": 1.5})
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    try:
        assert torch.equal(memory.vectors[0], usual[0][0]) and memory.search({"x": "y"})[0][:2] == usual[1]
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    assert compiled(memory.encode({"x": "y"})) == "a"
    assert not memory.encode({"v": drawn(64).requires_grad_()}).requires_grad


def test_threads_take_turns(memory):
    def work(number):
        for i in range(10):
            memory.store(f"{number} {i}", {"thread": f"t{number}", "step": i})
            assert memory.search({"thread": f"t{number}", "step": i}, 1)[0].name == f"{number} {i}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(memory) == 40
    memory.verify()


def test_a_second_writer_waits_or_is_refused_by_name_and_readers_never(tmp_path):
    path = tmp_path / "m.db"
    memory = hrr.Memory(path, dim=64, timeout=0.2)
    memory.store("a", {"x": "y"})
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    for call, name in ((lambda: memory.store("b", {"x": "y"}), "store"), (lambda: memory.remove("a"), "remove")):
        with pytest.raises(TimeoutError, match=f"^{name}: {path} must be free within 0.2 s, got one that another writ"):
            call()
    assert memory["a"] == {"x": "y"} == memory.search({"x": "y"})[0].record and len(memory) == 1
    patient = hrr.Memory(path)
    threading.Timer(0.3, other.execute, ["ROLLBACK"]).start()
    patient.store("b", {"x": "y"})
    assert memory.names == ("a", "b")
    other.close()


# Children are forked, since an interpreter of its own for each would take seconds; they share no connection.
KILLED = """
    import os, random, signal, sys, time
    from torch_hrr import hrr

    path, writes, kills = sys.argv[1], *map(int, sys.argv[2:4])
    choose = random.Random(0)
    hrr.Memory(path, dim=64).close()

    def change(memory, number):
        name = f"name {number % 50}"
        # The same again if it was done already.
        if number % 7 != 6:
            memory[name] = {"number": number, "text": f"text {number % 5}"}
        elif name in memory:
            memory.remove(name)

    acknowledged = killed = 0
    while acknowledged < writes:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            with hrr.Memory(path) as memory:
                for number in range(acknowledged, writes):
                    change(memory, number)
                    os.write(theirs, b".")
            os._exit(0)
        os.close(theirs)
        if killed < kills:
            # Within one of the next writes, so that all kills come before the last one.
            for _ in range(choose.randrange(writes // (2 * kills))):
                acknowledged += len(os.read(ours, 1))
            time.sleep(choose.uniform(0, 0.002))
            os.kill(child, signal.SIGKILL)
            killed += 1
        while said := os.read(ours, 1 << 16):
            acknowledged += len(said)
        os.close(ours), os.waitpid(child, 0)
        # Besides what was acknowledged there may be one write whose word did not come through.
        with hrr.Memory(path) as memory:
            memory.verify()
            last = {}
            for number in range(acknowledged + 1):
                if number == acknowledged and dict(memory) == last:
                    break
                name = f"name {number % 50}"
                if number % 7 != 6:
                    last[name] = {"number": number, "text": f"text {number % 5}"}
                else:
                    last.pop(name, None)
            assert dict(memory) == last, acknowledged
            if last:
                assert {each.name for each in memory.search({"text": "text 1"}, 50)} == set(last)
    print(acknowledged, killed)
"""


def test_killed_writers_lose_nothing_acknowledged(tmp_path):
    assert script(KILLED, tmp_path / "m.db", 300, 10) == ["300 10"]


SHARED = """
    import os, signal, sys, time
    from torch_hrr import hrr

    memory = hrr.Memory(sys.argv[1], dim=64)
    memory.store("before", {"a": "b"})
    assert memory.search({"a": "b"})[0].name == "before"
    child = os.fork()
    if child == 0:
        # The object of the parent, in use by both.
        for number in range(20):
            memory.store(f"child {number}", {"a": "b", "number": number})
        os._exit(0)
    seen = 0
    while seen < 21:
        names = {each.name for each in memory.search({"a": "b"}, 100)}
        assert len(names) >= seen and "before" in names and len(memory) >= len(names)
        if len(names - {"parent"}) > seen:
            seen = len(names - {"parent"})
            memory["parent"] = {"a": "b", "seen": seen}
        time.sleep(0.01)
    assert os.waitpid(child, 0)[1] == 0
    assert memory["parent"]["seen"] == 21 and memory["child 19"] == {"a": "b", "number": 19}
    memory.verify()
    print(len(memory))
"""


def test_a_reader_sees_what_other_processes_write(tmp_path):
    memory = hrr.Memory(tmp_path / "m.db", dim=64)
    assert memory.search({"a": "b"}) == []
    assert script(SHARED, memory.path) == ["22"]
    assert len(memory) == 22 and len(memory.search({"a": "b"}, 100)) == 22
    assert memory.search({"number": 17, "a": "b"}, 1)[0].name == "child 17"


AT_ONCE = """
    import os, sys
    from torch_hrr import hrr

    children, (started, start) = [], os.pipe()
    for number in range(6):
        children.append(os.fork())
        if children[-1] == 0:
            # Until the parent closes its end.
            os.close(start), os.read(started, 1)
            with hrr.Memory(sys.argv[1], 32) as memory:
                memory.store(f"child {number}", {"number": number})
            os._exit(0)
    os.close(start)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    with hrr.Memory(sys.argv[1]) as memory:
        memory.verify()
        print(*sorted(memory))
"""


def test_processes_that_make_a_file_at_once_make_one(tmp_path):
    assert script(AT_ONCE, tmp_path / "m.db") == [" ".join(f"child {number}" for number in range(6))]


def filled(path, key=None):
    """A small file, closed, with what it holds."""
    with hrr.Memory(path, dim=16, key=key) as memory:
        memory.store_many({f"n{i}": fact(i) for i in range(12)})
        memory.remove("n3")
        return dict(memory), memory.vectors


def everything(path, key=None):
    with hrr.Memory(path, key=key) as memory:
        memory.verify()
        return dict(memory), memory.names, memory.search({"agent": "agent 1"}), memory.vectors


@pytest.mark.parametrize("key", (None, b"key"))
def test_a_changed_byte_is_an_integrity_error(tmp_path, key):
    """Of those that count: unused ones of a page do not, as what is read tells."""
    path = tmp_path / "m.db"
    filled(path, key)
    *known, vectors = everything(path, key)
    data, refused, choose = path.read_bytes(), 0, random.Random(0)
    places = choose.sample([at for at, byte in enumerate(data) if byte], 60)
    for at in [*range(0, 100, 10), *places]:
        changed = bytes([data[at] ^ choose.choice((1, 0x80))])
        path.write_bytes(data[:at] + changed + data[at + 1 :])
        try:
            *again, others = everything(path, key)
        except IntegrityError as error:
            assert str(path) in str(error)
            refused += 1
        else:
            assert again == known and torch.equal(others, vectors), at
        for rest in ("-wal", "-shm"):
            pathlib.Path(f"{path}{rest}").unlink(missing_ok=True)
    assert refused > 40
    # Text, vectors and codes in particular.
    for part in (b"object 7", vectors[4].numpy().tobytes()):
        at = data.index(part) + 3
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(IntegrityError, match=f"^(verify|Memory|search): {path} is damaged"):
            everything(path, key)
        with hrr.Memory(path, key=key) as memory, pytest.raises(IntegrityError, match="record of 'n"):
            hrr.ItemMemory(memory)
    path.write_bytes(data)
    assert everything(path, key)[0] == known[0]


CHANGED = [
    "UPDATE records SET name = 'other' WHERE id = 2",
    "UPDATE records SET record = replace(record, 'agent', 'Agent') WHERE id = 2",
    "UPDATE records SET change = 0 WHERE id = 2",
    "UPDATE records SET seal = (SELECT seal FROM records WHERE id = 3) WHERE id = 2",
    "UPDATE records SET id = 100 WHERE id = 2",
    "UPDATE records SET name = 5 WHERE id = 2",
    "UPDATE vectors SET vector = zeroblob(64) WHERE id = 2",
    "UPDATE vectors SET vector = 7 WHERE id = 2",
    "UPDATE codes SET code = zeroblob(24) WHERE id = 2",
    "UPDATE codes SET (code, seal) = (SELECT code, seal FROM codes WHERE id = 3) WHERE id = 2",
    "DELETE FROM vectors WHERE id = 2",
    "DELETE FROM codes WHERE id = 2",
    "DELETE FROM records WHERE id = 2",
    "DELETE FROM memory",
    "UPDATE memory SET records = 10",
    "UPDATE memory SET change = 0",
    "UPDATE memory SET settings = replace(settings, '16', '32')",
    "INSERT INTO vectors VALUES (77, zeroblob(64))",
    "DROP TABLE codes",
]


@pytest.mark.parametrize("statement", CHANGED)
def test_what_another_program_changes_is_an_integrity_error(tmp_path, statement):
    path = tmp_path / "m.db"
    filled(path)
    with sqlite3.connect(path) as other:
        other.execute(statement)
    other.close()
    with pytest.raises(IntegrityError, match=rf"^(Memory|verify): {path} is damaged: "):
        everything(path)


def test_search_notices_damage_too(tmp_path):
    """Of codes when they are read, of rows when they are, and a row that is missing."""
    path = tmp_path / "m.db"
    for statement in (CHANGED[6], CHANGED[8], CHANGED[12]):
        path.unlink(missing_ok=True)
        filled(path)
        with sqlite3.connect(path) as other:
            other.execute(statement)
        other.close()
        with hrr.Memory(path) as memory, pytest.raises(IntegrityError, match=f"^search: {path} is damaged: "):
            memory.search({"agent": "agent 1"}, 12)


def test_a_key_is_needed_and_forgery_seen(tmp_path):
    path = tmp_path / "m.db"
    filled(path, b"key")
    wrong = {b"other": "is damaged or has another key: its seal", None: "is sealed with a key, but none was given"}
    for key, text in wrong.items():
        with pytest.raises(IntegrityError, match=f"^Memory: {path} {text}"):
            hrr.Memory(path, key=key)
    hrr.Memory(tmp_path / "plain.db").close()
    with pytest.raises(IntegrityError, match=r"plain\.db is not sealed with a key, but one was given$"):
        hrr.Memory(tmp_path / "plain.db", key=b"key")
    # Somebody without the key, who knows how seals are made.
    forger = _database.Database(str(path), None, 1.0)
    with sqlite3.connect(path) as other:
        rows = other.execute("SELECT r.id, name, record, change, vector FROM records r JOIN vectors USING (id)")
        id, name, record, *rest = rows.fetchone()
        record = record.replace("verb", "noun")
        seal = forger.seal("record", id, name, record, *rest)
        other.execute("UPDATE records SET record = ?, seal = ? WHERE id = ?", (record, seal, id))
    other.close()
    with pytest.raises(IntegrityError, match="damaged or has another key: the record of 'n0'"):
        hrr.Memory(path, key=b"key")["n0"]


def test_without_a_key_a_forged_record_is_checked_all_the_same(tmp_path):
    path = tmp_path / "m.db"
    for text in ("[1]", '{"a": {"b": 1, "c": 2}, "x"', '{"a":{"dtype":"F77","vector":""}}', "\0"):
        path.unlink(missing_ok=True)
        filled(path)
        forger = _database.Database(str(path), None, 1.0)
        with sqlite3.connect(path) as other:
            row = other.execute("SELECT r.id, name, change, vector FROM records r JOIN vectors USING (id)").fetchone()
            seal = forger.seal("record", *row[:2], text, *row[2:])
            other.execute("UPDATE records SET record = ?, seal = ? WHERE id = ?", (text, seal, row[0]))
        other.close()
        with (
            hrr.Memory(path) as memory,
            pytest.raises(IntegrityError, match="damaged: the record of 'n0' is none: "),
        ):
            memory["n0"]


def test_files_that_are_none(tmp_path):
    def of(name, *statements):
        with sqlite3.connect(tmp_path / name) as other:
            for statement in statements:
                other.execute(statement)
        other.close()
        return tmp_path / name

    text = tmp_path / "text"
    text.write_text("no database" * 100)
    (tmp_path / "short").write_text("no database")
    hrr.VectorStore(8).save(tmp_path / "store")
    hrr.Memory(tmp_path / "later.db").close()
    others = [text, tmp_path / "short", tmp_path / "store", of("other", "CREATE TABLE t (a)")]
    others += [of("sealed", "PRAGMA application_id = 7"), of("later.db", "PRAGMA user_version = 2")]
    for path in others:
        before = path.read_bytes()
        with pytest.raises(IntegrityError, match=rf"^Memory: {path} "):
            hrr.Memory(path)
        assert path.read_bytes() == before and not list(tmp_path.glob("*-wal"))
    with pytest.raises(IntegrityError, match=r"other must be a memory, got an SQLite file of another program$"):
        hrr.Memory(tmp_path / "other")
    with pytest.raises(IntegrityError, match=r"later\.db must be a memory of version 1, got version 2$"):
        hrr.Memory(tmp_path / "later.db")
    with pytest.raises(FileNotFoundError, match=r"Memory: folder of path must exist.*nowhere"):
        hrr.Memory(tmp_path / "nowhere" / "m.db")
    with pytest.raises(NotADirectoryError, match=r"Memory: folder of path must exist.*other"):
        hrr.Memory(tmp_path / "other" / "m.db")
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", "/dev/null"):
        with pytest.raises(ValueError, match=r"^Memory: path must name a regular file, got "):
            hrr.Memory(path)
    for path, error in ((None, TypeError), (5, TypeError), ("a\0b", ValueError), ("\ud800", ValueError)):
        with pytest.raises(error, match=r"^Memory: path must be "):
            hrr.Memory(path)
    # Made but not yet filled, as where a process ended then.
    (tmp_path / "empty").touch()
    for path in (tmp_path / "empty", of("begun", "PRAGMA journal_mode = WAL"), tmp_path / "a? #%41b"):
        assert hrr.Memory(path, dim=8).dim == 8 == hrr.Memory(path).dim
    assert (tmp_path / "a? #%41b").exists()


def test_a_file_that_is_gone_takes_no_more(tmp_path):
    """SQLite alone would go on with the one that has lost its name."""
    path = tmp_path / "m.db"
    memory, other = (hrr.Memory(path, dim=16) for _ in range(2))
    memory.store("a", {"x": "y"})
    path.rename(tmp_path / "moved.db")
    for call in (lambda: memory.store("b", {"x": "y"}), lambda: other["a"]):
        with pytest.raises(FileNotFoundError, match=r"path must name the file that was opened: '.*m\.db'$"):
            call()
    assert not path.exists()
    memory.close()
    hrr.Memory(path, dim=8).store("new", {"x": "y"})
    with pytest.raises(FileNotFoundError, match=r"^\[Errno 2\] len: path must name the file that was opened"):
        len(other)


READ_ONLY = """
    import os, sys
    from torch_hrr import hrr

    folder, (path, file) = sys.argv[1], (f"{sys.argv[1]}/{name}" for name in ("m.db", "folder/m.db"))
    os.mkdir(f"{folder}/folder")
    for each in (path, file):
        with hrr.Memory(each, dim=16) as memory:
            memory.store("a", {"x": "y"})
        os.chmod(each, 0o666)
    # A file that may not be written in a folder that may, and the other way round.
    os.chmod(path, 0o444), os.chmod(folder, 0o777), os.chmod(f"{folder}/folder", 0o555)
    if os.getuid() == 0:
        os.setuid(65534)
    for each in (path, file):
        with hrr.Memory(each) as memory:
            assert memory["a"] == {"x": "y"} == memory.search({"x": "y"})[0].record
            memory.verify()
            for call in (lambda: memory.store("b", {"x": "y"}), lambda: memory.remove("a")):
                try:
                    call()
                except PermissionError as error:
                    print(error.strerror, error.filename == each)
    try:
        hrr.Memory(f"{folder}/folder/new.db")
    except PermissionError as error:
        print(error.strerror)
"""


def test_a_file_that_may_only_be_read():
    refused = [f"{name}: path must be writable True" for name in ("store", "remove")]
    # Not in the folder of the tests, which another user may not enter.
    with tempfile.TemporaryDirectory() as folder:
        assert script(READ_ONLY, folder) == [*refused * 2, "Memory: folder of path must be writable"]


def test_an_error_in_the_middle_leaves_the_file_as_it_was(memory, monkeypatch):
    memory.store("a", {"x": "y"})
    put, done = memory._put, []

    def fails(*arguments):
        put(*arguments)
        done.append(1)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(memory, "_put", fails)
        with pytest.raises(KeyboardInterrupt):
            memory.store_many({f"n{i}": fact(i) for i in range(5)})
        with pytest.raises(KeyboardInterrupt):
            memory.update("a", {"x": "z"})
    assert len(done) == 2 and dict(memory) == {"a": {"x": "y"}}
    memory.store("b", {"x": "y"})
    memory.verify()
    with monkeypatch.context() as patch:
        patch.setattr(memory, "_checked_code", fails)
        with pytest.raises(BaseException):  # noqa: B017
            memory.search({"x": "y"})
    assert len(memory.search({"x": "y"})) == 2


def test_what_is_read_only_of_one_file_is_not_read_of_all(memory, monkeypatch):
    """Codes in memory: a search reads the rows that may be among the best, and after a change the codes of that."""
    memory.store_many({f"n{i}": fact(i) for i in range(300)})
    memory.search({"object": "object 3"}, 1)
    rows, codes = [], []
    row, code = memory._row, memory._checked_code
    monkeypatch.setattr(memory, "_row", lambda *given: rows.append(given) or row(*given))
    monkeypatch.setattr(memory, "_checked_code", lambda *given: codes.append(given) or code(*given))
    assert memory.search({"object": "object 3"}, 1)[0].name == "n3"
    assert 1 <= len(rows) < 30 and not codes
    rows.clear()
    found = memory.search([{"object": "object 3"}] * 200, 1)
    assert len(rows) < 30 and len({id(one.record) for (one,) in found}) == 200
    memory.update("n4", {"object": "object 3"})
    assert {each.name for each in memory.search({"object": "object 3"}, 2)} == {"n3", "n4"} and len(codes) == 1
