"""Files written in pieces and mapped: the bytes of `save` and the content of `load`, without the memory."""

import tracemalloc

import pytest
import torch

from torch_hrr import IntegrityError
from torch_hrr.io import files

KIND = {"format": "test", "version": 3}
CONTENT = {
    "rows": torch.randn(3000, 257),
    "strided": torch.randn(40, 30, dtype=torch.float64).mT,
    "scalar": torch.tensor(7, dtype=torch.int16),
    "none": torch.empty(0, 4),
    "wide": torch.randn(2, 0, 3).half(),
    "complex": torch.randn(5, dtype=torch.complex64),
    "bytes": torch.arange(7, dtype=torch.uint8),
    "flags": torch.tensor([True, False]),
}
METADATA = {"name": "ü", "sizes": [1, 2]}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file"


def test_pieces_make_the_same_file(path, tmp_path):
    files.save(tmp_path / "whole", CONTENT, METADATA, **KIND)
    files.save_in_pieces(path, CONTENT, METADATA, **KIND)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("verify", (True, False))
@pytest.mark.parametrize("key", (None, b"a secret"))
def test_a_mapped_file_holds_what_was_saved(path, key, verify):
    files.save(path, CONTENT, METADATA, key=key, **KIND)
    tensors, metadata = files.open_mapped(path, key=key, verify=verify, **KIND)
    loaded, _ = files.load(path, key=key, **KIND)
    assert metadata == METADATA and list(tensors) == list(loaded)
    for name, tensor in tensors.items():
        assert tensor.dtype == CONTENT[name].dtype and torch.equal(tensor, CONTENT[name])


def test_neither_takes_the_memory_of_a_tensor(path):
    table = torch.zeros(1 << 24)
    tracemalloc.start()
    try:
        files.save_in_pieces(path, {"table": table}, {}, **KIND)
        (mapped,) = files.open_mapped(path, **KIND)[0].values()
        assert tracemalloc.get_traced_memory()[1] < table.nbytes // 8
    finally:
        tracemalloc.stop()
    assert torch.equal(mapped[-9:], table[-9:])


def test_a_tensor_that_changes_while_it_is_written(path, monkeypatch):
    table, write = torch.zeros(9), files.replace_atomically
    files.save(path, {}, {}, **KIND)
    before = path.read_bytes()
    monkeypatch.setattr(files, "replace_atomically", lambda *arguments: (table.add_(1), write(*arguments)))
    with pytest.raises(RuntimeError, match=r"^save_in_pieces: tensors must not change .*tensor 'table'"):
        files.save_in_pieces(path, {"table": table}, {}, **KIND)
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["file"]


def test_damage_under_a_mapping(path):
    files.save(path, {"a": torch.zeros(5), "b": torch.ones(300_000)}, {}, **KIND)
    whole = path.read_bytes()
    for at, text in ((len(whole) - 1, "tensor 'b'"), (len(whole) - 300_000 * 4 - 1, "tensor 'a'"), (100, "damaged")):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(IntegrityError, match=text):
            files.open_mapped(path, **KIND)
    path.write_bytes(whole)
    for options in ({"format": "other", "version": 3}, {"format": "test", "version": 4}, {**KIND, "key": b"k"}):
        with pytest.raises(IntegrityError, match="file"):
            files.open_mapped(path, verify=False, **options)
