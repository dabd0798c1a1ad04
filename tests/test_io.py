"""Saved files: exact round trips, digests, and arguments that are refused."""

import json
import os
import sys

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.io import _contents, files
from torch_hrr.io.files import digest, load, open_mapped, save

DTYPES = sorted(_contents.DTYPES.values(), key=str)
KEYS = [None, b"a secret"]
FORMAT = "torch_hrr.test"
METADATA = {
    "names": ["a", 'quoted "b"', "ü\n\u2028"],
    "dim": 3,
    "eps": 1e-12,
    "flag": True,
    "none": None,
    "nest": {"x": []},
}
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
SHAPES = st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=5))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def random_tensor(dtype, shape, seed=0):
    """Random bits, NaNs and infinities included."""
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.empty(shape, dtype=dtype)
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(dtype)
    if tensor.numel():
        raw = torch.randint(0, 256, (tensor.numel() * tensor.element_size(),), generator=generator, dtype=torch.uint8)
        tensor.copy_(raw.view(dtype).view(shape))
    return tensor


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).tolist()


def assert_same(tensors, expected):
    assert list(tensors) == sorted(expected)
    for name, tensor in tensors.items():
        assert tensor.dtype == expected[name].dtype
        assert tensor.shape == expected[name].shape
        assert bits(tensor) == bits(expected[name])


def small():
    return {
        "w": torch.tensor([[1.5, -0.0], [float("nan"), 4.0]]),
        "mask": torch.tensor([True, False, True]),
        "e": torch.ones(0),
    }


@pytest.mark.parametrize("key", KEYS)
def test_every_dtype_comes_back(path, key):
    tensors = {f"{dtype} {shape}": random_tensor(dtype, shape) for dtype in DTYPES for shape in [(), (0, 3), (3, 5)]}
    save(path, tensors, METADATA, format=FORMAT, version=1, key=key)
    loaded, metadata = load(path, format=FORMAT, key=key)
    assert_same(loaded, tensors)
    assert metadata == METADATA
    assert [type(metadata[name]) for name in METADATA] == [type(value) for value in METADATA.values()]


@given(
    shapes=st.dictionaries(TEXT, SHAPES, max_size=4),
    metadata=st.dictionaries(TEXT, JSON, max_size=4),
    key=st.none() | st.binary(min_size=1, max_size=80),
)
@settings(max_examples=60, deadline=None, derandomize=True, database=None)
def test_any_shapes_and_metadata_come_back(tmp_path_factory, shapes, metadata, key):
    path = tmp_path_factory.getbasetemp() / "any.safetensors"
    tensors = {name: random_tensor(dtype, tuple(shape)) for name, (dtype, shape) in shapes.items()}
    save(path, tensors, metadata, format=FORMAT, version=3, key=key)
    loaded, found = load(path, format=FORMAT, version=3, key=key)
    assert_same(loaded, tensors)
    assert repr(found) == repr(json.loads(json.dumps(metadata, sort_keys=True)))
    assert digest(loaded, found) == digest(tensors, metadata)


def test_layouts_come_back_as_their_values(path):
    base = torch.arange(24.0).view(4, 6)
    memory = torch.arange(5).share_memory_()
    tensors = {
        "transposed": base.t(),
        "strided": base[::2, 1::3],
        "expanded": torch.ones(1, 3).expand(4, 3),
        "shared 1": base[0],
        "shared 2": base[0],
        "memory": memory,
        "conjugated": torch.tensor([1 + 2j, 3 - 4j]).conj(),
        "negated": torch._neg_view(torch.ones(3)),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "channels last": torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    }
    save(path, tensors, {}, format=FORMAT, version=1)
    loaded, _ = load(path, format=FORMAT)
    for name, tensor in loaded.items():
        assert torch.equal(tensor, tensors[name]), name
        assert tensor.is_contiguous() and not tensor.requires_grad and not tensor.is_conj() and not tensor.is_neg()
        assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    plain = {name: tensor.detach().resolve_conj().resolve_neg().contiguous() for name, tensor in tensors.items()}
    assert digest(tensors, {}) == digest(plain, {})


def test_the_result_does_not_follow_the_callers_defaults(path):
    tensors = small()
    with torch.device("meta"):
        save(path, tensors, {}, format=FORMAT, version=1)
        loaded, _ = load(path, format=FORMAT)
    assert_same(loaded, tensors)


def test_tensors_go_to_the_device_asked_for(path):
    save(path, small(), {}, format=FORMAT, version=1)
    loaded, _ = load(path, format=FORMAT, device="meta")
    assert {tensor.device.type for tensor in loaded.values()} == {"meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_devices_agree(path, tmp_path):
    there = {name: tensor.cuda() for name, tensor in small().items()}
    save(path, small(), METADATA, format=FORMAT, version=1)
    save(tmp_path / "gpu", there, METADATA, format=FORMAT, version=1)
    assert path.read_bytes() == (tmp_path / "gpu").read_bytes()
    assert digest(there, METADATA) == digest(small(), METADATA)
    loaded, _ = load(path, format=FORMAT, device="cuda")
    assert all(tensor.is_cuda for tensor in loaded.values())
    assert_same({name: tensor.cpu() for name, tensor in loaded.items()}, small())


@pytest.mark.parametrize("key", KEYS)
def test_it_is_a_safetensors_file(path, key):
    tensors = {str(dtype): random_tensor(dtype, (3,)) for dtype in DTYPES}
    save(path, tensors, METADATA, format=FORMAT, version=1, key=key)
    loaded = safetensors.torch.load_file(path)
    assert_same({name: loaded[name] for name in sorted(loaded)}, tensors)


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    save(path, small(), METADATA, format=FORMAT, version=1, key=b"k")
    turned = dict(reversed(small().items())), dict(reversed(METADATA.items()))
    save(tmp_path / "other", *turned, format=FORMAT, version=1, key=b"k")
    assert path.read_bytes() == (tmp_path / "other").read_bytes()
    loaded, metadata = load(path, format=FORMAT, key=b"k")
    save(tmp_path / "again", loaded, metadata, format=FORMAT, version=1, key=b"k")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def nested(depth):
    return {} if depth == 0 else {"x": nested(depth - 1)}


BAD_CONTENT = [
    (5, {}, TypeError, "tensors must be a mapping by name, got int"),
    ({}, 5, TypeError, "metadata must be a mapping by name, got int"),
    ({"w": "x"}, {}, TypeError, r"tensors\['w'\] must be a torch.Tensor or a NumPy array, got str"),
    ({"w": [1.0]}, {}, TypeError, r"tensors\['w'\] must be a torch.Tensor or a NumPy array, got list"),
    ({1: torch.ones(1)}, {}, TypeError, "names of tensors must be str, got int"),
    ({"__metadata__": torch.ones(1)}, {}, ValueError, "names of tensors must not be reserved, got '__meta"),
    ({"\ud800": torch.ones(1)}, {}, ValueError, "names of tensors must be valid Unicode"),
    ({"w": torch.ones(1, dtype=torch.complex128)}, {}, TypeError, "must have a dtype of safetensors, got "),
    ({"w": torch.ones(2).to_sparse()}, {}, TypeError, "must be strided, got torch.sparse_coo"),
    ({"w": torch.ones(2, device="meta")}, {}, ValueError, "must hold data, got a meta tensor"),
    ({}, {"x": float("nan")}, ValueError, r"metadata\['x'\] must be finite, got nan"),
    ({}, {"x": [1, float("-inf")]}, ValueError, r"metadata\['x'\]\[1\] must be finite, got -inf"),
    ({}, {"x": [-(10**5000)]}, ValueError, r"metadata\['x'\]\[0\] must be below 2\^1000 .*, got an int of 16610 bits"),
    ({}, {"x": b"y"}, TypeError, r"metadata\['x'\] must be None, bool, .* got bytes"),
    ({}, {"x": {1: 2}}, TypeError, r"names in metadata\['x'\] must be str, got int"),
    ({}, {"x": "\udfff"}, ValueError, r"metadata\['x'\] must be valid Unicode"),
    ({}, nested(33), ValueError, "metadata must nest at most 32 deep"),
]


@pytest.mark.parametrize(("tensors", "metadata", "kind", "reason"), BAD_CONTENT)
def test_content_that_cannot_be_saved(path, tensors, metadata, kind, reason):
    with pytest.raises(kind, match=rf"^save: .*{reason}"):
        save(path, tensors, metadata, format=FORMAT, version=1)
    with pytest.raises(kind, match=rf"^digest: .*{reason}"):
        digest(tensors, metadata)
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize(
    ("options", "kind", "reason"),
    [
        ({"key": "text"}, TypeError, "key must be bytes or None, got str"),
        ({"key": b""}, ValueError, "key must not be empty"),
        ({"version": "1"}, TypeError, "version must be an int, got str"),
        ({"version": True}, TypeError, "version must be an int, got bool"),
        ({"version": -1}, ValueError, "version must be at least 0, got -1"),
        ({"format": 1}, TypeError, "format must be str, got int"),
    ],
)
def test_options_are_checked(path, options, kind, reason):
    options = {"format": FORMAT, "version": 1, **options}
    with pytest.raises(kind, match=rf"^save: {reason}"):
        save(path, small(), {}, **options)
    with pytest.raises(kind, match=rf"^load: {reason}"):
        load(path, **options)


def test_a_header_that_readers_refuse_is_not_written(path):
    with pytest.raises(ValueError, match=r"^save: names and metadata must fit in the header of a file, got "):
        save(path, small(), {"x": "y" * 100_000_000}, format=FORMAT, version=1)
    assert os.listdir(path.parent) == []


def test_a_version_may_be_an_integer_of_numpy(path):
    save(path, small(), {}, format=FORMAT, version=np.int64(2))
    assert_same(load(path, format=FORMAT, version=2)[0], small())
    assert_same(load(path, format=FORMAT, version=np.array(2, np.uint8))[0], small())


def test_deep_metadata_and_tuples(path):
    save(path, {}, {"deep": nested(31), "tuple": (1, (2,))}, format=FORMAT, version=1)
    assert load(path, format=FORMAT) == ({}, {"deep": nested(31), "tuple": [1, [2]]})


def test_a_bool_of_any_byte_is_saved_as_true(path):
    odd = torch.tensor([2, 0, 255, 1] * 100, dtype=torch.uint8).view(torch.bool)
    save(path, {"w": odd}, {}, format=FORMAT, version=1)
    assert bits(load(path, format=FORMAT)[0]["w"]) == [1, 0, 1, 1] * 100
    assert digest({"w": odd}, {}) == digest({"w": torch.tensor([True, False, True, True] * 100)}, {})


def test_big_endian_machines_write_little_endian(path, monkeypatch):
    tensors = {str(dtype): random_tensor(dtype, (2, 3)) for dtype in DTYPES}
    monkeypatch.setattr(sys, "byteorder", "big")
    for write in (save, files.save_in_pieces):
        write(path, tensors, {}, format=FORMAT, version=1)
        assert_same(load(path, format=FORMAT)[0], tensors)
    assert bytes(files.to_bytes(torch.tensor([1, 2], dtype=torch.int32))) == bytes([0, 0, 0, 1, 0, 0, 0, 2])
    pair = torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    assert bytes(files.to_bytes(pair)) == bytes.fromhex("3f80000040000000")


CHANGES = {
    "tensor name": ({"x": torch.arange(6.0)}, {"dim": 6}),
    "dtype": ({"w": torch.arange(6.0).view(torch.int32)}, {"dim": 6}),
    "shape": ({"w": torch.arange(6.0).view(2, 3)}, {"dim": 6}),
    "value": ({"w": torch.arange(6.0) * torch.tensor([1, 1, 1, 1, 1, 1 + 2**-23])}, {"dim": 6}),
    "sign of zero": ({"w": torch.arange(6.0) * torch.tensor([-1, 1, 1, 1, 1, 1])}, {"dim": 6}),
    "order": ({"w": torch.arange(6.0).flip(0)}, {"dim": 6}),
    "one tensor more": ({"w": torch.arange(6.0), "e": torch.ones(0)}, {"dim": 6}),
    "metadata": ({"w": torch.arange(6.0)}, {"dim": 7}),
    "type of metadata": ({"w": torch.arange(6.0)}, {"dim": 6.0}),
    "name of metadata": ({"w": torch.arange(6.0)}, {"dim ": 6}),
    "more metadata": ({"w": torch.arange(6.0)}, {"dim": 6, "x": None}),
}


def test_digest_tells_all_changes_apart():
    found = {digest({"w": torch.arange(6.0)}, {"dim": 6})} | {digest(*change) for change in CHANGES.values()}
    assert len(found) == 1 + len(CHANGES)


def test_digests_and_seals_are_the_same_in_all_versions(path):
    tensors = {
        "w": torch.arange(6.0).view(2, 3),
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "index": torch.tensor(-7),
        "mask": torch.tensor([True, False]),
        "none": torch.empty(0, 4),
    }
    assert digest(tensors, METADATA) == "c3f34e4e1d2f0021c6e8872bd81d238054cb3d6bfdec2cd44e8750504afe7094"
    seals = []
    for key in KEYS:
        save(path, tensors, METADATA, format=FORMAT, version=1, key=key)
        with safetensors.safe_open(path, "pt") as file:
            seals.append(file.metadata()["torch_hrr"].split(" ")[:2])
    assert seals == [
        ["sha256", "6314e9c7cbd6dc5c5e8b41cb264d337b7776634417823ac88a47a952a6670fb2"],
        ["hmac-sha256", "688a84e116c68c0dbec75497fc085c853a9115c226a9b9b040318433b19bb37d"],
    ]


def test_an_array_is_saved_as_the_tensor_of_its_values(path):
    array = np.arange(6.0).reshape(2, 3)[:, ::-1]
    save(path, {"w": array}, {}, format=FORMAT, version=1)
    tensors = load(path, format=FORMAT)[0]
    assert torch.equal(tensors["w"], torch.tensor(array.copy()))
    assert digest({"w": array}, {}) == digest(tensors, {})
    with pytest.raises(ValueError, match=r"^load: device must be .*, got 'bogus'$"):
        load(path, format=FORMAT, device="bogus")
    with pytest.raises(TypeError, match=r"^open_mapped: verify must be a bool, got str$"):
        open_mapped(path, format=FORMAT, verify="x")
    with pytest.raises(TypeError, match=r"^open_mapped: in_memory must be names of tensors, got str$"):
        open_mapped(path, format=FORMAT, in_memory="x")
