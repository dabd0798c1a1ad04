"""Content decides: files that other tools wrote anew load, damaged, foreign and forged ones are one error."""

import hashlib
import json
import os
import pathlib

import pytest
import safetensors.torch
import torch
from cases.storage import assert_same, sealed, small

import torch_hrr
from torch_hrr.io import IntegrityError, digest, load, open_mapped, save, saveable_classes

FORMAT = "torch_hrr.test"
KEYS = [None, b"a secret"]
METADATA = {"names": ["a", "ü"], "eps": 1e-12}
OLD = pathlib.Path(__file__).parent / "data" / "3a2477c"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def parts(path):
    """The header of a file as a dict, and its data."""
    raw = path.read_bytes()
    end = 8 + int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:end]), raw[end:]


def write(path, header, data, padding=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text + padding).to_bytes(8, "little") + text + padding + data)


def turned(path):
    """Tensors in the order that is the worst for alignment, each key of the header in another place, other spaces."""
    header, data = parts(path)
    metadata, made, moved = header.pop("__metadata__"), {}, b""
    for name in sorted(header, key=lambda name: (header[name]["dtype"], name)):
        begin, end = header[name]["data_offsets"]
        made[name] = {**header[name], "data_offsets": [len(moved), len(moved) + end - begin], "more": [1]}
        moved += data[begin:end]
    write(path, {**made, "__metadata__": {"format": "pt", "sha256": "of another tool", **metadata}}, moved, b"\n\t ")


def resaved(path):
    """As a tool writes it that knows nothing of this package, but keeps the metadata."""
    metadata = parts(path)[0]["__metadata__"] | {"format": "pt"}
    safetensors.torch.save_file(safetensors.torch.load_file(path), path, metadata)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("rewrite", [turned, resaved, lambda path: write(path, *parts(path))])
def test_a_file_that_another_tool_wrote_anew_loads(path, key, rewrite):
    tensors = {**small(), "d": torch.randn(3, dtype=torch.float64), "c": torch.randn(2, dtype=torch.complex64)}
    save(path, tensors, METADATA, format=FORMAT, version=1, key=key)
    intact = path.read_bytes()
    rewrite(path)
    assert path.read_bytes() != intact
    for read in (load, open_mapped):
        found, metadata = read(path, format=FORMAT, key=key)
        assert_same(found, tensors)
        assert metadata == METADATA
        assert all(tensor.data_ptr() % tensor.element_size() == 0 for tensor in found.values())
    # Nor does its verification depend on where its bytes are.
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + bytes([raw[-1] ^ 1]))
    for options in ({}, {"verify": True}):
        with pytest.raises(IntegrityError, match="do not match their SHA-256"):
            (open_mapped if options else load)(path, format=FORMAT, key=key, **options)


@pytest.mark.parametrize("path", sorted(OLD.glob("*.safetensors")), ids=lambda path: path.stem)
def test_files_of_3a2477c_still_load(path):
    """Written by that commit, which wrote the format by hand; the digests are of the objects it saved."""
    key = b"a secret" if path.stem == "sequence" else None
    format = torch_hrr.io.format_of(path, key)
    content = load(path, format=format, key=key)
    assert digest(*content) == json.loads((OLD / "digests.json").read_text())[path.stem]
    assert_same(open_mapped(path, format=format, key=key)[0], content[0])
    if format in saveable_classes():
        held, _ = torch_hrr.load(path, key, device="cpu")._content()
        assert all(torch.equal(held[name].detach().cpu(), tensor) for name, tensor in content[0].items())
    with pytest.raises(IntegrityError, match="but none was given" if key else "but one was given"):
        load(path, format=format, key=None if key else b"k")


@pytest.mark.parametrize("key", KEYS)
def test_any_damage_is_refused(path, key):
    save(path, small(), METADATA, format=FORMAT, version=1, key=key)
    intact = path.read_bytes()
    flipped = [(at, intact[at] ^ mask) for at in range(len(intact)) for mask in (1 << at % 8, 0xFF)]
    damaged = [intact[:at] + bytes([byte]) + intact[at + 1 :] for at, byte in flipped]
    damaged += [intact[:at] for at in range(len(intact))] + [intact + b"\0", intact + b" ", intact * 2]
    damaged += [intact[:at] + intact[at + 1 :] for at in range(len(intact))]
    damaged += [b"\x93NUMPY\x01\x00v\x00{'descr': ", b"PK\x03\x04\0\0\x08\x08archive/data.pkl", b"some text"]
    for number, content in enumerate(damaged):
        path.write_bytes(content)
        with pytest.raises(IntegrityError, match=r"^load: \S*state\.safetensors is "):
            load(path, format=FORMAT, key=key)
            pytest.fail(f"damage {number} was not seen")


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
    for read in (load, open_mapped):
        with pytest.raises(IntegrityError, match=rf"^{read.__name__}: \S+ {reason}$"):
            read(path, format=FORMAT, key=given)


@pytest.mark.parametrize(("format", "version"), [("torch_hrr.other", 1), (FORMAT, 2)])
def test_format_and_version_must_fit(path, format, version):
    save(path, small(), {}, format=format, version=version)
    with pytest.raises(IntegrityError, match=rf"must hold version 1 of '{FORMAT}', got version {version} of '{format}"):
        load(path, format=FORMAT)
    assert_same(load(path, format=format, version=version)[0], small())


def test_other_programs_files_are_refused(path):
    for metadata in (None, {"format": "pt"}, {"manifest": "{}"}, {"torch_hrr": ""}, {"torch_hrr": "md5 0 {}"}):
        safetensors.torch.save_file({"w": torch.ones(2)}, path, metadata)
        with pytest.raises(IntegrityError, match="was not written by torch_hrr"):
            load(path, format=FORMAT)


def entry(data=b"\1", **changes):
    return {"dtype": "BOOL", "sha256": hashlib.sha256(data).hexdigest(), "shape": [1], **changes}


def described(tensors, **changes):
    return {"format": FORMAT, "metadata": {}, "tensors": tensors, "version": 1, **changes}


def spelled(rest):
    return f'{{"format":"{FORMAT}","metadata":{rest}}}'


W = {"data_offsets": [0, 1], "dtype": "BOOL", "shape": [1]}
HUGE = {"data_offsets": [0, 0], "dtype": "F32", "shape": [0, 2**62, 2]}
LONG = {**HUGE, "shape": [0, 2**63]}
EMPTY = entry(b"", dtype="F32")
E8M0 = {"data_offsets": [0, 1], "dtype": "F8_E8M0", "shape": [1]}


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("key", KEYS)
def test_the_forger_can_write_a_good_file(path, key, old):
    write(path, {"__metadata__": sealed(described({"w": entry()}), key, old), "w": W}, b"\1")
    assert_same(load(path, format=FORMAT, key=key)[0], {"w": torch.tensor([True])})
    write(path, {"__metadata__": sealed(spelled('{"x":1.5},"tensors":{},"version":1'), key, old)}, b"")
    assert load(path, format=FORMAT, key=key) == ({}, {"x": 1.5})


@pytest.mark.parametrize(
    ("manifest", "data", "header"),
    [
        pytest.param(described({"w": entry()}), b"\0", {"w": W}, id="other data"),
        pytest.param(described({"w": entry(b"\2")}), b"\2", {"w": W}, id="impossible bool"),
        pytest.param(described({"w": entry()}), b"", {}, id="tensor missing"),
        pytest.param(described({}), b"\1", {"w": W}, id="tensor added"),
        pytest.param(described({"w": entry()}), b"\1\1", {"w": W, "x": {**W, "data_offsets": [1, 2]}}, id="one more"),
        pytest.param(described({"w": entry()}), b"\1", {"x": W}, id="another name"),
        pytest.param(described({"w": entry()}), b"\1", {"w": {**W, "shape": [1, 1]}}, id="another shape"),
        pytest.param(described({"w": entry()}), b"\1", {"w": {**W, "dtype": "I8"}}, id="another dtype"),
        pytest.param(described({"w": entry()}), b"\0\1", {"w": {**W, "data_offsets": [1, 2]}}, id="a gap"),
        pytest.param(described({"w": entry()}), b"\1\1", {"w": W}, id="appended"),
        pytest.param(described({"w": entry()}), b"", {"w": W}, id="data missing"),
        pytest.param(described({"w": entry(more=1)}), b"\1", {"w": W}, id="unknown field"),
        pytest.param(described({"w": entry(dtype="F8_E8M0")}), b"\1", {"w": E8M0}, id="dtype that is not saved"),
        pytest.param(described({"w": entry(sha256=7)}), b"\1", {"w": W}, id="hash of another type"),
        pytest.param(described({"w": {**EMPTY, "shape": HUGE["shape"]}}), b"", {"w": HUGE}, id="strides overflow"),
        pytest.param(described({"w": {**EMPTY, "shape": LONG["shape"]}}), b"", {"w": LONG}, id="extent too long"),
        pytest.param(described({"w": 1}), b"\1", {"w": W}, id="entry of another type"),
        pytest.param(described({}, more=1), b"", {}, id="unknown key"),
        pytest.param(described({}, version=True), b"", {}, id="version of another type"),
        pytest.param(described({}, metadata=[]), b"", {}, id="metadata of another type"),
        pytest.param(described([]), b"", {}, id="tensors of another type"),
        pytest.param([], b"", {}, id="manifest of another type"),
        pytest.param("{}", b"", {}, id="nothing described"),
        pytest.param(spelled('{},"tensors":{},"version":2,"version":1'), b"", {}, id="duplicate key"),
        pytest.param(spelled('{"x":NaN},"tensors":{},"version":1'), b"", {}, id="not a number"),
        pytest.param(spelled('{"x":1e999},"tensors":{},"version":1'), b"", {}, id="infinity"),
        pytest.param(spelled('{"x":"\\ud800"},"tensors":{},"version":1'), b"", {}, id="surrogate"),
        pytest.param("[" * 100_000, b"", {}, id="bottomless"),
    ],
)
def test_a_right_seal_of_wrong_content_is_refused(path, manifest, data, header):
    for key in KEYS:
        write(path, {"__metadata__": sealed(manifest, key), **header}, data)
        for read in (load, open_mapped):
            if data != b"\2" or read is load:
                with pytest.raises(IntegrityError, match=r"state\.safetensors is "):
                    read(path, format=FORMAT, key=key)


def test_with_a_key_nothing_unsealed_gets_in(path):
    """Metadata of others is no content; a plain seal beside the key's, or in its place, changes nothing."""
    save(path, small(), METADATA, format=FORMAT, version=1, key=b"k")
    header, data = parts(path)
    forged = sealed(described({}, metadata={"x": 1}), old=True)
    write(path, {**header, "__metadata__": {**forged, **header["__metadata__"]}}, data)
    found, metadata = load(path, format=FORMAT, key=b"k")
    assert_same(found, small())
    assert metadata == METADATA
    old = sealed(described({"w": entry()}), b"k", old=True)
    for fields in (forged, sealed(described({}, metadata={"x": 1})), {**old, "manifest": forged["manifest"]}):
        write(path, {"__metadata__": {**old, **fields}, "w": W}, b"\1")
        with pytest.raises(IntegrityError):
            load(path, format=FORMAT, key=b"k")


@pytest.mark.parametrize(
    "header",
    (b"[" * 100_000, b"[]", b'{"__metadata__":7}', b'\xff{"w":1}', b'{"__metadata__":{},"__metadata__":{}}', b"7", b""),
)
def test_headers_that_are_none(path, header):
    write(path, header, b"")
    with pytest.raises(IntegrityError, match=r"^load: \S+ is "):
        load(path, format=FORMAT)


def test_a_file_cut_while_it_is_read_is_refused(path, monkeypatch):
    real = torch_hrr.io._reading._parts
    monkeypatch.setattr(torch_hrr.io._reading, "_parts", lambda *given: (os.truncate(path, 700), real(*given))[1])
    for read in (load, open_mapped):
        save(path, {"w": torch.ones(999)}, {}, format=FORMAT, version=1)
        with pytest.raises(IntegrityError, match="the bytes of tensor 'w' do not match their SHA-256"):
            read(path, format=FORMAT)


def test_a_want_of_memory_is_not_damage(path, monkeypatch):
    save(path, {"w": torch.ones(2)}, {}, format=FORMAT, version=1)

    def full(*arguments, **options):
        raise RuntimeError("can't allocate memory")

    monkeypatch.setattr(torch.Tensor, "clone", full)
    with pytest.raises(MemoryError, match=r"^load: \S+ must fit into memory, got can't allocate memory$"):
        load(path, format=FORMAT)
