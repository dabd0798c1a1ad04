"""A store on disk: exact round trips, damage, keys, crashes and files that hold no store."""

import concurrent.futures
import copy
import errno
import os
import subprocess
import sys
import threading

import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.hrr.store import VectorStore
from torch_hrr.io import files

DIM = 3
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FORMAT = "torch_hrr.vector_store"


def store(count=3, **options):
    made = VectorStore(**{"dim": DIM, "device": "cpu", **options})
    for index in range(count):
        made.add(f"n{index}", torch.arange(DIM, dtype=torch.float32) + index)
    return made


def assert_holds(found, expected):
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], value) for name, value in expected.items())
    found.verify()


@pytest.mark.parametrize("key", [None, b"a secret"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_save_and_load(tmp_path, dtype, key):
    path = tmp_path / "store"
    saved = VectorStore(DIM, device="cpu", dtype=dtype, capacity=1)
    for name in ("b", "", "ü\n\u2028", "a"):
        saved.add(name, torch.randn(DIM))
    saved.remove("b")
    saved.save(path, key)
    assert os.listdir(tmp_path) == ["store"]
    loaded = VectorStore.load(path, key, device="cpu")
    assert_holds(loaded, dict(saved))
    assert loaded.digest() == saved.digest() and (loaded.dim, loaded.dtype) == (DIM, dtype)
    loaded.add("b", torch.ones(DIM))
    loaded.update("a", torch.zeros(DIM))
    assert_holds(loaded, {**dict(saved), "a": torch.zeros(DIM, dtype=dtype), "b": torch.ones(DIM, dtype=dtype)})
    again = path.read_bytes()
    VectorStore.load(path, key).save(path, key)
    assert path.read_bytes() == again


def test_an_empty_store_keeps_its_shape(tmp_path):
    VectorStore(7, dtype=torch.bfloat16, device="cpu").save(tmp_path / "store")
    loaded = VectorStore.load(tmp_path / "store", device="cpu")
    assert (len(loaded), loaded.dim, loaded.dtype) == (0, 7, torch.bfloat16)
    loaded.verify()
    loaded.add("a", torch.ones(7))
    assert loaded["a"].tolist() == [1] * 7


@pytest.mark.parametrize("key", [None, b"a secret"])
def test_no_damaged_file_is_loaded(tmp_path, key):
    path = tmp_path / "store"
    store(2).save(path, key)
    intact = path.read_bytes()
    for position in range(len(intact)):
        path.write_bytes(intact[:position] + bytes([intact[position] ^ (1 << position % 8)]) + intact[position + 1 :])
        with pytest.raises(IntegrityError):
            VectorStore.load(path, key)
    path.write_bytes(intact)
    assert_holds(VectorStore.load(path, key, device="cpu"), dict(store(2)))


@pytest.mark.parametrize(("saved", "given_key"), [(None, b"k"), (b"k", None), (b"k", b"K")])
def test_keys_must_fit(tmp_path, saved, given_key):
    store().save(tmp_path / "store", key=saved)
    with pytest.raises(IntegrityError):
        VectorStore.load(tmp_path / "store", key=given_key)


@pytest.mark.parametrize("name", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "injected"), KeyboardInterrupt()])
def test_a_crash_while_saving_leaves_the_old_file(tmp_path, monkeypatch, name, error):
    path = tmp_path / "store"
    store(2).save(path)
    larger, digest = store(5), store(5).digest()

    def crash(*arguments, **options):
        raise error

    with monkeypatch.context() as patch, pytest.raises(type(error)):
        patch.setattr(os, name, crash)
        larger.save(path)
    assert os.listdir(tmp_path) == ["store"] and larger.digest() == digest
    assert_holds(VectorStore.load(path, device="cpu"), dict(store(2)))


TWO = torch.ones(2, 3)


@pytest.mark.parametrize(
    ("tensors", "metadata"),
    [
        ({}, {"names": []}),
        ({"vectors": TWO}, {}),
        ({"vectors": TWO, "more": TWO}, {"names": ["a", "b"]}),
        ({"vectors": TWO}, {"names": ["a", "b"], "more": 1}),
        ({"vectors": TWO}, {"names": ["a"]}),
        ({"vectors": TWO}, {"names": ["a", "a"]}),
        ({"vectors": TWO}, {"names": ["a", 1]}),
        ({"vectors": TWO}, {"names": "ab"}),
        ({"vectors": TWO}, {"names": {"a": 1, "b": 2}}),
        ({"vectors": TWO.long()}, {"names": ["a", "b"]}),
        ({"vectors": torch.ones(2)}, {"names": ["a", "b"]}),
        ({"vectors": torch.ones(2, 3, 1)}, {"names": ["a", "b"]}),
        ({"vectors": torch.ones(2, 0)}, {"names": ["a", "b"]}),
        ({"vectors": torch.full((2, 3), float("nan"))}, {"names": ["a", "b"]}),
    ],
)
def test_a_sealed_file_must_still_hold_a_store(tmp_path, tensors, metadata):
    path = tmp_path / "store"
    files.save(path, {"vectors": TWO}, {"names": ["a", "b"]}, format=FORMAT, version=1)
    assert_holds(VectorStore.load(path, device="cpu"), {"a": torch.ones(3), "b": torch.ones(3)})
    files.save(path, tensors, metadata, format=FORMAT, version=1)
    with pytest.raises(IntegrityError, match=r"^load: \S+store must describe a VectorStore, got "):
        VectorStore.load(path)


def test_other_formats_and_missing_files_are_errors(tmp_path):
    path = tmp_path / "store"
    with pytest.raises(FileNotFoundError):
        VectorStore.load(path)
    for options in ({"format": "torch_hrr.other", "version": 1}, {"format": FORMAT, "version": 2}):
        files.save(path, {"vectors": TWO}, {"names": ["a", "b"]}, **options)
        with pytest.raises(IntegrityError, match=r"must hold version 1 of 'torch_hrr\.vector_store'"):
            VectorStore.load(path)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_agree(tmp_path):
    here, there = store(70), store(70, device="cuda")
    assert there["n0"].device.type == "cuda" and there.digest() == here.digest()
    here.save(tmp_path / "here")
    there.save(tmp_path / "there")
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    loaded = VectorStore.load(tmp_path / "here", device="cuda")
    assert loaded.device.type == "cuda" and loaded.digest() == here.digest()
    assert_holds(there.to("cpu"), dict(here))
    assert there.to("cuda").digest() == here.digest()
    there.verify()


ANOTHER_WRITER = """
import sys, torch
from torch_hrr.hrr import VectorStore
store = VectorStore.load(sys.argv[1])
store.add("from the other process", torch.ones(store.dim))
store.save(sys.argv[1])
"""


def test_what_another_writer_added_is_not_lost(tmp_path):
    path = tmp_path / "store"
    store().save(path)
    mine = VectorStore.load(path)
    subprocess.run([sys.executable, "-c", ANOTHER_WRITER, str(path)], check=True, timeout=300)
    mine.add("mine", torch.ones(DIM))
    before = path.read_bytes()
    with pytest.raises(RuntimeError, match=r"^save: .* must be as this store last read or wrote it"):
        mine.save(path)
    assert path.read_bytes() == before
    mine.save(tmp_path / "elsewhere")
    again = VectorStore.load(path)
    assert "from the other process" in again
    again.add("mine", torch.ones(DIM))
    again.save(path)
    # The one that wrote last may go on, there and where the file is moved to; a file that is gone stops nobody.
    again.save(path)
    path.rename(tmp_path / "moved")
    again.save(path)
    again.save(tmp_path / "elsewhere")
    copied = copy.deepcopy(again)
    copied.save(path)
    with pytest.raises(RuntimeError, match=r"^save: "):
        again.save(path)
    # One that never read the file replaces it, as open(path, "w") does.
    store().save(path)


def test_one_of_two_writers_at_the_same_moment_is_refused(tmp_path):
    path = tmp_path / "store"
    store().save(path)
    for attempt in range(5):
        stores = [VectorStore.load(path, device="cpu") for _ in range(2)]
        for number, each in enumerate(stores):
            each.add(f"{attempt}.{number}", torch.ones(DIM))
        barrier = threading.Barrier(2)

        def save(each, barrier=barrier):
            barrier.wait()
            try:
                each.save(path)
            except RuntimeError:
                return False
            return True

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            saved = list(pool.map(save, stores))
        assert sorted(saved) == [False, True]
        assert list(VectorStore.load(path, device="cpu")) == list(stores[saved.index(True)])
