"""bench/accuracy.py: what stands in the pages comes out again."""

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
accuracy = importlib.import_module("bench.accuracy")
pytestmark = pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="np.longdouble is not extended")


def rows(table):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]


def kept(name):
    page = (ROOT / "docs" / f"{name}.md").read_text()
    return rows(re.search("<!-- accuracy: begin -->(.*)<!-- accuracy: end -->", page, re.S)[1])


def test_errors_of_operators(monkeypatch):
    """They depend on the instruction set."""
    monkeypatch.setattr(accuracy, "LENGTHS", (256,))
    again = rows(accuracy.of_operators(torch.float32)) + rows(accuracy.of_operators(torch.float64))
    for (name, error), (kept_name, kept_error, *_) in zip(again, kept("hrr"), strict=True):
        ours, kept_ours = float(error.split()[0]), float(kept_error.split()[0])
        assert name == kept_name and kept_ours / 3 <= ours <= 3 * kept_ours


def test_errors_of_fields(monkeypatch):
    monkeypatch.setattr(accuracy, "STEPS", (1, 10))
    again = [row[:2] + row[2::2] for row in rows(accuracy.of_fields())]
    assert again == [row[:2] + row[2::2] for row in kept("field") if row[1] in ("1", "10")]


def test_errors_of_layers(monkeypatch):
    monkeypatch.setattr(accuracy, "RULES", ("gha",))
    (again,), page = rows(accuracy.of_layers()), {row[0]: row for row in kept("hierarchy")}
    assert again[1::2] == page[again[0]][1::2]
