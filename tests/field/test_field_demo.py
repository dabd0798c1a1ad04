"""The demo's field job: what the field decides, and what the command prints."""

import pytest

from torch_hrr import __main__ as command_line
from torch_hrr.demos import field as field_demo


@pytest.fixture(scope="module")
def result():
    return field_demo.decide(2, 0, rounds=1)


def test_the_field_detects_selects_and_remembers(result):
    weak, strong, gone = field_demo.PARTS
    assert [result.peaks["20", part] for part in (weak, strong, gone)] == [0, 1, 0]
    assert [result.peaks["30", part] for part in (weak, strong, gone)] == [0, 1, 1]


def test_the_command_prints_the_table(result, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(field_demo, "decide", lambda runs, seed: result)
    assert command_line.main(["demo", "--jobs", "field", "--runs", "2", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in ("excitation 30", "1.00\n", "both gone", "a cycle, ", "robot cycles a second"):
        assert text in printed
