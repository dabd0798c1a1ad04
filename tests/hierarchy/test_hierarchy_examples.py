"""The example of the hierarchy runs, prints what it returns, and every slower time scale adds to the faster ones."""

import importlib.util
import pathlib
import re

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "hierarchy" / "laser.py"


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("reservoirpy")
    spec = importlib.util.spec_from_file_location("hierarchy_laser", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_slower_scales_add_to_faster_ones(example, capsys):
    results = example.main(["--seeds", "1"])
    assert re.findall(r" (\d\.\d{3})$", capsys.readouterr().out, re.MULTILINE) == [f"{e:.3f}" for e in results.values()]
    past, changes, untrained, one, two, three = results.values()
    assert three < two < one < changes < past
    assert three < untrained
    assert example.main(["--seeds", "1"]) == results


def test_the_read_out_predicts_what_it_was_not_shown(example):
    target = example.torch.arange(9000.0, dtype=example.torch.float64)
    target[example.TRAINING - example.AHEAD : example.TRAINING] = 1e6  # known only after the training part
    predicted = example.read_out(example.torch.arange(9000.0).unsqueeze(-1), target)
    assert example.torch.allclose(predicted, target[example.TRAINING :], rtol=0.02)


def test_the_filters_and_the_prediction_are_drawn_where_asked(example, tmp_path):
    pytest.importorskip("matplotlib")
    example.main(["--seeds", "1", "--passes", "1", "--figure", str(tmp_path / "scales.png")])
    assert (tmp_path / "scales.png").read_bytes().startswith(b"\x89PNG")
