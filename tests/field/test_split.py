"""Fields split over ranks have the bits of the whole."""

import copy

import pytest
import ranks
import torch
from split_rank import check_all

from torch_hrr import field


def test_one_rank_needs_no_group():
    check_all(0, 1)


def test_ranks_together_hold_the_whole(tmp_path):
    ranks.run("field/split_rank.py", tmp_path)


def test_planes_that_do_not_fit_are_errors():
    for planes in (torch.zeros(3, 4, 5), torch.zeros(0, 3, 4, 5)):
        with pytest.raises(ValueError, match="planes must have sizes"):
            field.SplitField(planes)
    with pytest.raises(TypeError, match="planes must be float32"):
        field.SplitField(torch.zeros(2, 3, 4, 5, dtype=torch.int64))
    with pytest.raises(TypeError, match=r"planes must be a torch\.Tensor"):
        field.SplitField([[1.0]])
    split = field.SplitField(torch.zeros(2, 3, 4, 5))
    with pytest.raises(TypeError, match=r"key must be a torch\.Tensor"):
        split.evolve(0.1, 0.1, noise=1.0, key=[1, 2])
    with pytest.raises(ValueError, match=r"^evolve: decay must be in \[0, 1\]"):
        split.evolve(2.0, 0.1)


def test_planes_given_stay_as_they_are():
    given = torch.ones(2, 3, 4, 5, requires_grad=True)
    split = field.SplitField(given)
    split.evolve(0.5, 0.1)
    assert bool((given == 1).all()) and not split.planes.requires_grad


def test_what_inference_mode_made_goes_on_outside():
    with torch.inference_mode():
        split = field.SplitField(torch.ones(2, 3, 4, 5))
    assert torch.equal(split.evolve(0.5, 0.1), torch.full((2, 3, 4, 5), 0.5))


def test_a_split_field_is_a_module_that_goes_where_its_model_goes():
    split = field.SplitField(torch.rand(3, 4, 5, 2))
    model = torch.nn.ModuleList([split]).double()
    again = copy.deepcopy(model)[0]
    assert list(model.state_dict()) == ["0._state"] and again.planes.dtype == torch.float64
    expected = split.evolve(0.1, 0.1, 3).clone()
    assert torch.equal(again.evolve(0.1, 0.1, 3), expected)
    split.evolve(0.1, 0.1)
    assert torch.equal(again.planes, expected)
    assert model.to("meta")[0].gradient().is_meta


def test_evolved_planes_may_be_an_array_and_are_batched_by_vmap():
    split, planes = field.SplitField(torch.rand(3, 2, 2, 2)), torch.rand(4, 3, 2, 2, 2, dtype=torch.float32)
    each = torch.stack([split.evolved(one, 0.1, 0.1, 2, "circular") for one in planes])
    assert torch.equal(split.evolved(planes[0].numpy()[::-1][::-1], 0.1, 0.1, 2, "circular"), each[0])
    assert torch.equal(torch.func.vmap(lambda one: split.evolved(one, 0.1, 0.1, 2, "circular"))(planes), each)
    # The matrix of the steps, which is symmetric.
    found = torch.func.jacrev(lambda one: split.evolved(one, 0.1, 0.1, 2))(planes[0]).reshape(24, 24)
    torch.testing.assert_close(found, found.mT)
    torch.testing.assert_close((found @ planes[0].flatten()).view(3, 2, 2, 2), split.evolved(planes[0], 0.1, 0.1, 2))
    with pytest.raises(RuntimeError, match=r"^evolved: noise must be 0 within vmap, got 0\.5"):
        torch.func.vmap(lambda one: split.evolved(one, 0.1, 0.1, noise=0.5, key=field.random_key(1)))(planes)


def test_metadata_that_no_file_holds_are_refused_before_anything_is_written(tmp_path):
    split = field.SplitField(torch.rand(3, 2, 2, 2))
    split.save(tmp_path / "field", {"steps": 3})
    before = sorted(path.name for path in (tmp_path / "field").iterdir())
    for metadata, text in ((5, "metadata must be a mapping"), ([], "metadata must be a mapping"),
                           ({"a": object()}, r"metadata\['a'\] must be None, bool")):  # fmt: skip
        with pytest.raises(TypeError, match=f"^save: {text}"):
            split.save(tmp_path / "field", metadata)
    assert sorted(path.name for path in (tmp_path / "field").iterdir()) == before
    assert field.SplitField.load(tmp_path / "field")[1] == {"steps": 3}
