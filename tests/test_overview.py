"""README's picture is of the numbers that are kept, and those that no machine changes come out again."""

import importlib
import json
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
overview = importlib.import_module("bench.overview")


@pytest.fixture(scope="module")
def found():
    return json.loads(overview.RESULTS.read_text())


def drawn(path):
    """Of each panel of a picture the words, and the curves as points of the unit square that holds them all."""
    for panel in ElementTree.parse(path).iterfind(".//*[@id='figure_1']/*"):
        if panel.get("id", "").startswith("axes"):
            texts = {"".join(each.itertext()).strip() for each in panel.iter() if each.tag.endswith("}text")}
            lines = [each.get("d") for each in panel.iter() if each.tag.endswith("}path") and each.get("clip-path")]
            curves = [np.array(re.findall(r"[-+.\de]+", line), float).reshape(-1, 2) for line in lines]
            low, high = np.concatenate(curves).min(0), np.concatenate(curves).max(0)
            yield {each for each in texts if re.search("[a-z]", each)}, [(each - low) / (high - low) for each in curves]


def test_the_picture_is_of_these_numbers(found, tmp_path):
    pytest.importorskip("matplotlib")
    readme = (ROOT / "README.md").read_text()
    assert overview.PICTURE.relative_to(ROOT).as_posix() in readme and found["times"]["machine"]["cpu"] in readme
    assert overview.digest(found) in overview.PICTURE.read_text()
    overview.draw(found, tmp_path / "again.svg")
    kept, again = list(drawn(overview.PICTURE)), list(drawn(tmp_path / "again.svg"))
    assert [len(curves) for _, curves in kept] == [3, 2, 4, 4]
    # Another matplotlib may place panels otherwise and leave out other points of straight stretches.
    for (texts, curves), (other_texts, others) in zip(kept, again, strict=True):
        assert texts == other_texts
        for one, other in zip(curves, others, strict=True):
            (x, y), (other_x, other_y) = one.T, other.T
            np.testing.assert_allclose(np.interp(x, other_x, other_y), y, atol=3e-3)
            np.testing.assert_allclose(np.interp(other_x, x, y), other_y, atol=3e-3)


def test_a_picture_of_other_numbers_is_seen(found):
    other = {**found, "errors": {**found["errors"], "ours": [0.0, *found["errors"]["ours"][1:]]}}
    assert overview.digest(other) not in overview.PICTURE.read_text()


def test_errors_come_out_again(found, monkeypatch):
    pytest.importorskip("mpmath")
    accuracy = importlib.import_module("bench.encoding_accuracy")
    monkeypatch.setattr(accuracy, "SIZES", (0, 10, 10**6))
    again = overview.errors()
    for name in ("ours", "torch"):
        kept = dict(zip(found["errors"]["positions"], found["errors"][name], strict=True))
        assert again[name] == pytest.approx([kept[10], kept[10**6]], rel=1e-6)


def test_the_assembly_comes_out_again(found, monkeypatch):
    monkeypatch.setattr(overview, "PLASTICITIES", (0.05,))
    assert overview.settling()["0.05"] == found["settling"]["0.05"]


def test_lives_come_out_again(found, monkeypatch):
    pytest.importorskip("gymnasium")
    monkeypatch.setattr(overview, "EPISODES", 2)
    monkeypatch.setattr(overview, "LIVES", 1)
    monkeypatch.setattr(overview, "LEARNERS", ("random actions", "field brain"))
    monkeypatch.setattr(importlib.import_module("bench.field_learning"), "AFTER", 0)
    again = overview.learning()
    for label in overview.LEARNERS:
        assert again[label] == [found["learning"][label][0][:2]]
