"""A rank that is killed: the others are told, and what was kept goes on with any number of ranks."""

import pytest
import ranks
import torch
from lost_rank import ARGUMENTS, STEPS, resume, run, start

import torch_hrr
from torch_hrr import field


def test_a_rank_that_is_killed_loses_nothing_that_was_kept(tmp_path):
    folder = tmp_path / "kept"
    told = ranks.run("distributed/lost_rank.py", tmp_path, folder, fails=True)
    assert sorted(path.name for path in folder.glob("told-*")) == ["told-0", "told-2"], told
    split, key, done = resume(folder)
    assert done == 4 and {path.name for path in folder.glob("*.safetensors")} == {
        "index.safetensors", *(f"1-{rank}.safetensors" for rank in range(3))
    }  # fmt: skip
    run(split, key, done, folder)
    expected = field.evolve(start(), **ARGUMENTS, steps=STEPS, key=field.random_key(3))
    assert torch.equal(split.planes, expected)
    assert torch.equal(resume(folder)[0].planes, expected)


def test_folders_that_hold_no_field_are_errors(tmp_path):
    split = field.SplitField(start())
    with pytest.raises(FileNotFoundError):
        field.SplitField.load(tmp_path)
    split.save(tmp_path, {"steps": 0})
    split.save(tmp_path)
    assert field.SplitField.load(tmp_path)[1] == {}
    with pytest.raises(TypeError, match="metadata"):
        split.save(tmp_path, {"key": torch.zeros(2)})
    # What could not be written leaves what was there.
    assert torch.equal(field.SplitField.load(tmp_path)[0].planes, start())
    piece = tmp_path / "1-0.safetensors"
    for name, tensors, place in (
        ("of another round", {"planes": start()}, {"round": 0, "origin": 0, "depth": 7}),
        ("of fewer planes", {"planes": start()[1:]}, {"round": 1, "origin": 0, "depth": 7}),
        ("of nothing", {}, {"round": 1, "origin": 0, "depth": 7}),
    ):
        torch_hrr.io.save(piece, tensors, place, format="torch_hrr.split_field_planes", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must hold the planes of"):
            field.SplitField.load(tmp_path)
            pytest.fail(name)
    piece.unlink()
    with pytest.raises(FileNotFoundError):
        field.SplitField.load(tmp_path)
    for wrong in ({}, {"round": 0, "counts": [], "metadata": {}}, {"round": 0, "counts": [0], "metadata": {}}):
        torch_hrr.io.save(tmp_path / "index.safetensors", {}, wrong, format="torch_hrr.split_field", version=1)
        with pytest.raises(torch_hrr.IntegrityError, match="must describe a SplitField"):
            field.SplitField.load(tmp_path)
