"""README's picture is of the numbers that are kept, and those that no machine changes come out again."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
overview = importlib.import_module("bench.overview")


@pytest.fixture(scope="module")
def found():
    return json.loads(overview.RESULTS.read_text())


def test_the_picture_is_of_these_numbers(found, tmp_path):
    pytest.importorskip("matplotlib")
    readme = (ROOT / "README.md").read_text()
    assert overview.PICTURE.relative_to(ROOT).as_posix() in readme and found["times"]["machine"]["cpu"] in readme
    assert overview.digest(found) in overview.PICTURE.read_text()
    overview.draw(found, tmp_path / "again.svg")
    again = (tmp_path / "again.svg").read_text()
    assert overview.digest(found) in again and all(label in again for label in ("torchhd", *overview.LEARNERS))


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
    threads = torch.get_num_threads()
    again = overview.learning()
    torch.set_num_threads(threads)
    for label in overview.LEARNERS:
        assert again[label] == [found["learning"][label][0][:2]]
