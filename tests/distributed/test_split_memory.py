"""A memory divided among ranks answers as a whole one, to the last bit: with 1, 2, 3 and 5 of them."""

import pytest
import ranks
import torch
from memory_ranks import check_answers, check_derivatives, check_stores, items, names, queries, same

from torch_hrr import IntegrityError, hrr, io


def test_two_three_and_five_ranks(tmp_path):
    ranks.run("distributed/memory_ranks.py", tmp_path, tmp_path)


def test_one_rank_needs_no_group():
    check_answers(None)
    check_stores(None)
    check_derivatives(None)


def test_what_was_saved_is_loaded_in_its_order(tmp_path):
    split = hrr.SplitMemory(items(), names())
    split.save(tmp_path)
    split.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    loaded = hrr.SplitMemory.load(tmp_path, device="cpu")
    assert loaded.names == tuple(names()) and loaded.device.type == "cpu" and loaded.rows == range(23)
    same(loaded.cleanup(queries(), 23), split.cleanup(queries(), 23))
    hrr.SplitMemory(items()).save(tmp_path)
    assert hrr.SplitMemory.load(tmp_path).names is None
    for wrong in (3, "no bytes"):
        with pytest.raises(TypeError, match="save: key must be"):
            split.save(tmp_path, wrong)
    with pytest.raises(ValueError, match="ask: memory must have names"):
        hrr.SplitMemory.load(tmp_path).ask(queries()[0])


def test_folders_and_files_that_hold_no_memory_are_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        hrr.SplitMemory.load(tmp_path)
    whole = hrr.ItemMemory(items()[:4], names(4), quantized=True)
    hrr.SplitMemory(items()[:4], names(4)).save(tmp_path)
    content, place = whole._content()[0], {"round": 0, "origin": 0, "rows": 4}
    wrong = [
        ({**content}, {**place, "round": 1, "names": None}),
        ({**content}, {**place, "names": names(3)}),
        ({**content}, {**place, "names": ["a", "b", "c", "c"]}),
        ({**content}, {**place, "names": [1, 2, 3, 4]}),
        ({**content}, place),
        ({}, {**place, "names": None}),
        ({**content, "more": torch.ones(4, 2)}, {**place, "names": None}),
        ({**content, "bounds": -content["bounds"]}, {**place, "names": None}),
        ({**content, "codes": content["codes"][1:]}, {**place, "names": None}),
        ({**content, "vectors": content["vectors"].int()}, {**place, "names": None}),
    ]
    for tensors, said in wrong:
        io.save(tmp_path / "0-0.safetensors", tensors, said, format="torch_hrr.split_memory_rows", version=1)
        with pytest.raises(IntegrityError, match="must"):
            hrr.SplitMemory.load(tmp_path)
    # Two ranks' files of two memories.
    index = {"round": 0, "counts": [4, 4], "metadata": {}}
    io.save(tmp_path / "index.safetensors", {}, index, format="torch_hrr.split_memory", version=1)
    for rank, width in enumerate((40, 39)):
        part, _ = hrr.ItemMemory(items()[:4, :width], quantized=True)._content()
        said = {**place, "origin": 4 * rank, "names": None}
        io.save(tmp_path / f"0-{rank}.safetensors", part, said, format="torch_hrr.split_memory_rows", version=1)
    with pytest.raises(IntegrityError, match="must hold rows of one memory"):
        hrr.SplitMemory.load(tmp_path)
    # A save would tell the other ranks the next round.
    for number in (2**62, -1, True):
        said = index | {"round": number}
        io.save(tmp_path / "index.safetensors", {}, said, format="torch_hrr.split_memory", version=1)
        with pytest.raises(IntegrityError, match="must describe a SplitMemory"):
            hrr.SplitMemory(items()).save(tmp_path)
    for tensors in ({}, {"vectors": torch.tensor(1.0)}, {"vectors": torch.ones(0, 3)}):
        io.save(tmp_path / "file", tensors, {"names": None}, format=hrr.ItemMemory.file_format, version=1)
        with pytest.raises(IntegrityError, match="must describe an ItemMemory"):
            hrr.SplitMemory.load(tmp_path / "file")
    hrr.VectorStore(3).save(tmp_path / "file")
    with pytest.raises(IntegrityError):
        hrr.SplitMemory.load(tmp_path / "file")


def test_a_compiled_program_calls_it_between_its_graphs():
    split, whole = (make(items(), names()) for make in (hrr.SplitMemory, lambda *given: hrr.ItemMemory(*given)))
    compiled = torch.compile(lambda x: split.cleanup(x + 1, 2).values * 2, backend="eager")
    torch.testing.assert_close(compiled(queries()[0]), whole.cleanup(queries()[0] + 1, 2).values * 2)


def test_what_is_given_stays_as_it_is():
    given = items().requires_grad_()
    split = hrr.SplitMemory(given)
    with torch.no_grad():
        given.zero_()
    assert torch.equal(split.vectors.nan_to_num(), items().nan_to_num()) and not split.vectors.requires_grad
    split.vectors.zero_()
    assert torch.equal(split.vectors.nan_to_num(), items().nan_to_num())
    with pytest.raises(TypeError, match="SplitMemory: group must be a ProcessGroup or None, got int"):
        hrr.SplitMemory(given, group=3)
