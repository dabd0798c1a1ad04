"""A field brain divided among ranks is a whole one, to the last bit: with 1, 2, 3 and 5 of them."""

import copy

import numpy as np
import pytest
import ranks
import torch
from split_brain_ranks import check_cycles, check_equal_places, compare, cycle, make

import torch_hrr
from torch_hrr import IntegrityError, field


def test_one_two_three_and_five_ranks(tmp_path):
    ranks.run("field/split_brain_ranks.py", tmp_path, tmp_path)


def test_one_rank_needs_no_group(tmp_path):
    check_cycles(None)
    check_equal_places(None)


def test_parts_of_a_field_begin_as_the_whole_does(monkeypatch):
    """However many numbers are drawn at once: in sixteens, of which the last are drawn together."""
    for settings in ({"spatial": (5, 3, 4), "channels": 9}, {"spatial": (1, 1, 1), "channels": 7}):
        whole = field.FieldBrain(4, 2, **settings, seed=3, device="cpu")
        generator = torch.Generator().manual_seed(3)
        drawn = torch.randn(*whole.field.shape, generator=generator, dtype=torch.float32)
        assert torch.equal(whole.field, 0.01 * drawn)
        for size in (16, 48, 512):
            monkeypatch.setattr("torch_hrr.field.brain._SLICE", size)
            split = field.SplitFieldBrain(4, 2, **settings, seed=3, device="cpu")
            compare(split, whole)


def test_a_folder_and_the_file_of_a_whole_brain(tmp_path):
    split = make("modulated")
    cycle(split, 0)
    split.save(tmp_path / "folder")
    whole = split.eval().gather()
    whole.save(tmp_path / "file")
    cycles = [cycle(each, 1) for each in (split, whole)]
    for path, training in ((tmp_path / "folder", True), (tmp_path / "file", False)):
        loaded = field.SplitFieldBrain.load(path, device="cpu")
        assert loaded.training == training and loaded.eval() and cycle(loaded, 1) == cycles[0] == cycles[1]
        with pytest.raises(TypeError, match="options of SplitFieldBrain must be device or group, got halo"):
            field.SplitFieldBrain.load(path, halo=2)
    assert type(torch_hrr.load(tmp_path / "file", device="cpu")) is field.FieldBrain
    # What is sealed and is no brain's: of other planes, and of other settings than its tensors are of.
    index = tmp_path / "folder" / "index.safetensors"
    held, said = torch_hrr.io.load(index, format="torch_hrr.split_field_brain")
    for change, message in (
        ({"spatial": [7, 9, 6]}, "field of"),
        ({"spatial": [10**30, 9, 5]}, "field of"),
        ({"gain": "1"}, "gain"),
        ({"eval": ["x"]}, "attribute"),
    ):
        metadata = {**said, "metadata": said["metadata"] | change}
        torch_hrr.io.save(index, held, metadata, format="torch_hrr.split_field_brain", version=1)
        with pytest.raises(IntegrityError, match=f"must describe a SplitFieldBrain, got .*{message}"):
            field.SplitFieldBrain.load(tmp_path / "folder", device="cpu")
    torch_hrr.io.save(index, {}, {"round": 0}, format="torch_hrr.split_field_brain", version=1)
    with pytest.raises(IntegrityError, match="must describe a SplitFieldBrain"):
        field.SplitFieldBrain.load(tmp_path / "folder", device="cpu")
    field.FieldBrain(4, 2, 2, learner="actor-critic", device="cpu").save(tmp_path / "file")
    with pytest.raises(ValueError, match=r"^load: learner must be 'imprint' to be divided among ranks"):
        field.SplitFieldBrain.load(tmp_path / "file")
    torch_hrr.io.save(tmp_path / "file", {}, {}, format="torch_hrr.field_brain", version=1)
    with pytest.raises(IntegrityError, match="must describe a FieldBrain, got tensors"):
        field.SplitFieldBrain.load(tmp_path / "file")


def test_what_is_not_divided_is_refused():
    for settings, error, message in (
        ({"learner": "actor-critic"}, ValueError, "learner of a subclass must be 'imprint'"),
        ({"velocities": True}, TypeError, "settings must be arguments of FieldBrain"),
        ({"group": 3}, TypeError, "group must be a ProcessGroup or None, got int"),
        ({"spatial": "3"}, TypeError, "spatial must be an int or depth"),
    ):
        with pytest.raises(error, match=f"^SplitFieldBrain: {message}"):
            make("modulated", **settings)
    split = make("modulated")
    split.eager = True
    with pytest.raises(ValueError, match=r"^process_robot_cycle: eager must be False where a field is divided"):
        cycle(split, 0)


@pytest.mark.parametrize("mode", [torch.inference_mode(), torch.autocast("cpu"), torch.device("meta")])
def test_no_mode_of_torch_changes_a_bit(mode, tmp_path):
    """What is made, learned, saved and loaded within it goes on outside of it."""
    whole = make("modulated", split=False)
    for number in range(3):
        cycle(whole, number)
    with mode:
        split = make("modulated")
        for number in range(3):
            cycle(split, number)
        split.save(tmp_path)
        loaded = field.SplitFieldBrain.load(tmp_path, device="cpu")
        copied = split.copy()
    for number in (4, 7):
        expected = cycle(whole, number)
        assert all(cycle(each, number) == expected for each in (split, loaded, copied))


def test_default_dtypes_change_nothing():
    expected = cycle(make("modulated", split=False), 0)
    for dtype in (torch.float64, torch.bfloat16):
        torch.set_default_dtype(dtype)
        try:
            split = make("modulated")
            assert cycle(split, 0) == expected and split.field.dtype == torch.float32
        finally:
            torch.set_default_dtype(torch.float32)


def test_it_is_a_module_whose_state_resumes():
    model = torch.nn.ModuleList([make("modulated")])
    for number in range(3):
        cycle(model[0], number)
    # An odd number of cycles, and memory that held another state.
    other = torch.nn.ModuleList([make("modulated", seed=5)])
    cycle(other[0], 1)
    other.load_state_dict(model.state_dict())
    empty = torch.nn.ModuleList([make("modulated")]).to("meta").to_empty(device="cpu")
    empty.load_state_dict(model.state_dict())
    assigned = torch.nn.ModuleList([make("modulated").to("meta")])
    assigned.load_state_dict(copy.deepcopy(model.state_dict()), assign=True)
    number, wanted = 3, cycle(model[0], 3)
    for each in (other, empty, assigned):
        each[0].cycle = number
        assert cycle(each[0], number) == wanted
        assert torch.equal(each[0].field, model[0].field)


def test_arrays_and_compilers():
    split, whole = make("modulated"), make("modulated", split=False)
    sensory = np.linspace(-1, 1, 4)
    compiled = torch.compile(split, backend="eager")
    given = torch.from_numpy(sensory)
    for _ in range(3):
        assert torch.equal(split.step(sensory, np.array(0.5)), whole.step(sensory, np.array(0.5)))
        assert torch.equal(compiled(given, 0.5), whole(given, 0.5))
    assert split.nbytes == sum(each.nbytes for each in split.buffers()) + split.pool.nbytes
