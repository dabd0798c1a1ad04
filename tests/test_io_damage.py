"""Damaged, foreign and forged files: one error, and nothing loaded."""

import hashlib
import hmac
import json
import os

import pytest
import torch
from cases.storage import assert_same, small

from torch_hrr.io import IntegrityError, load, save

FORMAT = "torch_hrr.test"
KEYS = [None, b"a secret"]
METADATA = {"names": ["a", "ü"], "eps": 1e-12}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


@pytest.mark.parametrize("key", KEYS)
def test_a_change_of_any_byte_is_refused(path, key):
    save(path, small(), METADATA, format=FORMAT, version=1, key=key)
    intact = path.read_bytes()
    for position in range(len(intact)):
        for mask in (1 << position % 8, 0xFF):
            damaged = bytearray(intact)
            damaged[position] ^= mask
            path.write_bytes(damaged)
            with pytest.raises(IntegrityError, match=r"^load: \S*state\.safetensors is "):
                load(path, format=FORMAT, key=key)


@pytest.mark.parametrize(
    "content", (b"\x93NUMPY\x01\x00v\x00{'descr': ", b"PK\x03\x04\0\0\x08\x08archive/data.pkl", b"some text")
)
def test_what_is_no_safetensors_file_is_called_so(path, content):
    path.write_bytes(content)
    with pytest.raises(IntegrityError, match="is no safetensors file, or damaged: it begins with b"):
        load(path, format=FORMAT)


@pytest.mark.parametrize("key", KEYS)
def test_any_truncation_and_any_addition_is_refused(path, key):
    save(path, small(), METADATA, format=FORMAT, version=1, key=key)
    intact = path.read_bytes()
    for damaged in [intact[:length] for length in range(len(intact))] + [intact + b"\0", intact + b" ", intact * 2]:
        path.write_bytes(damaged)
        with pytest.raises(IntegrityError):
            load(path, format=FORMAT, key=key)
    for position in range(len(intact)):
        path.write_bytes(intact[:position] + intact[position + 1 :])
        with pytest.raises(IntegrityError):
            load(path, format=FORMAT, key=key)
    path.write_bytes(intact)
    assert_same(load(path, format=FORMAT, key=key)[0], small())


@pytest.mark.parametrize(
    ("saved", "given", "reason"),
    [
        (None, b"k", "is not sealed with a key, but one was given"),
        (b"k", None, "is sealed with a key, but none was given"),
        (b"k", b"K", "is damaged or has another key: its seal does not match"),
    ],
)
def test_keys_must_fit(path, saved, given, reason):
    save(path, small(), {}, format=FORMAT, version=1, key=saved)
    with pytest.raises(IntegrityError, match=rf"^load: \S+ {reason}$"):
        load(path, format=FORMAT, key=given)


@pytest.mark.parametrize(("format", "version"), [("torch_hrr.other", 1), (FORMAT, 2)])
def test_format_and_version_must_fit(path, format, version):
    save(path, small(), {}, format=format, version=version)
    with pytest.raises(IntegrityError, match=rf"must hold version 1 of '{FORMAT}', got version {version} of '{format}"):
        load(path, format=FORMAT)
    assert_same(load(path, format=format, version=version)[0], small())


def test_other_programs_files_are_refused(path):
    safetensors = pytest.importorskip("safetensors.torch")
    for metadata in (None, {"format": "pt"}, {"manifest": "{}"}, {"manifest": "{}", "md5": "0"}):
        safetensors.save_file({"w": torch.ones(2)}, path, metadata)
        with pytest.raises(IntegrityError, match="was not written by torch_hrr"):
            load(path, format=FORMAT)
    torch.save({"w": torch.ones(2)}, path)
    with pytest.raises(IntegrityError):
        load(path, format=FORMAT)


def forge(path, manifest, key, data=b"", **header):
    """Writes a file whose seal is right and whose header is as canonical as the manifest allows."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    raw = text.encode(errors="replace")
    algorithm = "sha256" if key is None else "hmac-sha256"
    seal = hashlib.sha256(raw).hexdigest() if key is None else hmac.new(key, raw, "sha256").hexdigest()
    fields = {"__metadata__": {"manifest": text, algorithm: seal}, **header}
    encoded = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + data)


def entry(data=b"\1", **changes):
    return {"dtype": "BOOL", "sha256": hashlib.sha256(data).hexdigest(), "shape": [1], **changes}


def described(tensors, **changes):
    return {"format": FORMAT, "metadata": {}, "tensors": tensors, "version": 1, **changes}


def spelled(rest):
    return f'{{"format":"{FORMAT}","metadata":{rest}}}'


W = {"data_offsets": [0, 1], "dtype": "BOOL", "shape": [1]}
HUGE = {"data_offsets": [0, 0], "dtype": "F32", "shape": [0, 2**62, 2]}
LONG = {**HUGE, "shape": [0, 2**70]}
EMPTY = entry(b"", dtype="F32")


@pytest.mark.parametrize("key", KEYS)
def test_the_forger_can_write_a_good_file(path, key):
    forge(path, described({"w": entry()}), key, b"\1", w=W)
    assert_same(load(path, format=FORMAT, key=key)[0], {"w": torch.tensor([True])})
    forge(path, spelled('{"x":1.5},"tensors":{},"version":1'), key)
    assert load(path, format=FORMAT, key=key) == ({}, {"x": 1.5})


@pytest.mark.parametrize(
    ("manifest", "data", "header"),
    [
        pytest.param(described({"w": entry()}), b"\0", {"w": W}, id="other data"),
        pytest.param(described({"w": entry(b"\2")}), b"\2", {"w": W}, id="impossible bool"),
        pytest.param(described({"w": entry()}), b"\1", {}, id="tensor missing in the header"),
        pytest.param(described({"w": entry()}), b"\1", {"w": W, "x": W}, id="unknown header entry"),
        pytest.param(described({"w": entry()}), b"\1", {"w": {**W, "shape": [1, 1]}}, id="other shape in the header"),
        pytest.param(described({"w": entry()}), b"\1", {"w": {**W, "data_offsets": [1, 2]}}, id="other offsets"),
        pytest.param(described({"w": entry()}), b"\1", {"w": {**W, "more": 1}}, id="unknown header field"),
        pytest.param(described({"w": entry()}), b"\1\1", {"w": W}, id="appended"),
        pytest.param(described({"w": entry()}), b"", {"w": W}, id="data missing"),
        pytest.param(described({"w": entry(more=1)}), b"\1", {"w": W}, id="unknown manifest field"),
        pytest.param(described({"w": entry(dtype="Q7")}), b"\1", {"w": W}, id="unknown dtype"),
        pytest.param(described({"w": entry(dtype=["BOOL"])}), b"\1", {"w": W}, id="dtype of another type"),
        pytest.param(described({"w": entry(sha256=7)}), b"\1", {"w": W}, id="hash of another type"),
        pytest.param(described({"w": entry(shape=[True])}), b"\1", {"w": {**W, "shape": [True]}}, id="bool extent"),
        pytest.param(described({"w": entry(shape=[-1, -1])}), b"\1", {"w": {**W, "shape": [-1, -1]}}, id="negative"),
        pytest.param(described({"w": entry(shape=1)}), b"\1", {"w": W}, id="shape of another type"),
        pytest.param(described({"w": entry(shape=[2**62] * 9)}), b"\1", {"w": W}, id="more than the file holds"),
        pytest.param(described({"w": entry(shape=[10**4000, 10**4000])}), b"\1", {"w": W}, id="astronomical shape"),
        pytest.param(described({"w": {**EMPTY, "shape": HUGE["shape"]}}), b"", {"w": HUGE}, id="strides overflow"),
        pytest.param(described({"w": {**EMPTY, "shape": LONG["shape"]}}), b"", {"w": LONG}, id="extent too long"),
        pytest.param(described({"__metadata__": entry()}), b"\1", {}, id="reserved name"),
        pytest.param(described({"w": 1}), b"", {}, id="entry of another type"),
        pytest.param(described({}, more=1), b"", {}, id="unknown key"),
        pytest.param(described({}, version=True), b"", {}, id="version of another type"),
        pytest.param(described({}, version=1.0), b"", {}, id="float version"),
        pytest.param(described({}, metadata=[]), b"", {}, id="metadata of another type"),
        pytest.param(described([]), b"", {}, id="tensors of another type"),
        pytest.param([], b"", {}, id="manifest of another type"),
        pytest.param("", b"", {}, id="empty manifest"),
        pytest.param("{}", b"", {}, id="nothing described"),
        pytest.param(spelled('{},"tensors":{}, "version":1'), b"", {}, id="space"),
        pytest.param(spelled('{},"version":1,"tensors":{}'), b"", {}, id="order"),
        pytest.param(spelled('{},"tensors":{},"version":2,"version":1'), b"", {}, id="duplicate key"),
        pytest.param(spelled('{"x":NaN},"tensors":{},"version":1'), b"", {}, id="not a number"),
        pytest.param(spelled('{"x":1e999},"tensors":{},"version":1'), b"", {}, id="infinity"),
        pytest.param(spelled('{"x":1.50},"tensors":{},"version":1'), b"", {}, id="another number"),
        pytest.param(spelled('{"x":"\\u0041"},"tensors":{},"version":1'), b"", {}, id="another letter"),
        pytest.param(spelled('{"x":"\\ud800"},"tensors":{},"version":1'), b"", {}, id="surrogate"),
        pytest.param(spelled('{"x":"\ud800"},"tensors":{},"version":1'), b"", {}, id="raw surrogate"),
        pytest.param("[" * 100_000, b"", {}, id="bottomless"),
    ],
)
@pytest.mark.parametrize("key", KEYS)
def test_files_with_a_right_seal_must_still_be_canonical(path, key, manifest, data, header):
    forge(path, manifest, key, data, **header)
    with pytest.raises(IntegrityError):
        load(path, format=FORMAT, key=key)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b'"__metadata__":', b'"w":{},"__metadata__":'),
        lambda text: text.rstrip() + b" " * (len(text) - len(text.rstrip()) + 8),
        lambda text: b" " + text,
        lambda text: text.replace(b'"sha256":"', b'"x":1,"sha256":"'),
        lambda text: text.replace(b'"sha256":"', b'"x":"y","sha256":"'),
        lambda text: text.replace(b"[0,16]", b"[ 0,16]"),
        lambda text: text.replace(b"[0,16]", b"[-0,16]"),
        lambda text: text.replace(b'"w"', b'"\\u0077"'),
        lambda text: b"[" * 100_000,
        lambda text: b"[]",
        lambda text: b'{"__metadata__":7}',
        lambda text: b"\xff" + text,
    ],
)
def test_headers_are_accepted_in_one_spelling(path, change):
    save(path, small(), {}, format=FORMAT, version=1)
    intact = path.read_bytes()
    end = 8 + int.from_bytes(intact[:8], "little")
    changed = change(intact[8:end])
    assert changed != intact[8:end]
    path.write_bytes(len(changed).to_bytes(8, "little") + changed + intact[end:])
    with pytest.raises(IntegrityError):
        load(path, format=FORMAT)


def test_a_file_cut_while_it_is_read_is_refused(path, monkeypatch):
    save(path, small(), {}, format=FORMAT, version=1)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-2])

    class Before:
        st_size, st_mode = size, path.stat().st_mode

    monkeypatch.setattr(os, "fstat", lambda descriptor: Before)
    with pytest.raises(IntegrityError, match="is cut short: it ends inside tensor 'mask'"):
        load(path, format=FORMAT)


def test_a_want_of_memory_is_not_damage(path, monkeypatch):
    save(path, {"w": torch.ones(2)}, {}, format=FORMAT, version=1)

    def full(*arguments, **options):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(MemoryError, match=r"^load: \S+ must fit into memory, got can't allocate memory$"):
        load(path, format=FORMAT)
