"""The demo's job of control: brains that learn in it, and what the command prints."""

import sys

import pytest

pytest.importorskip("gymnasium")

from torch_hrr import __main__ as command_line
from torch_hrr.demos import control
from torch_hrr.demos import field as field_demo


@pytest.fixture(scope="module")
def result():
    return control.balance(40, 0)


def test_brains_learn_to_balance(result):
    random, first, last, after = result.steps.values()
    assert random < 40 and first < 60 and last > 150 and after > 150
    assert result.learned > 40 * control.BRAINS * 9 and list(result.steps)[2] == "episodes 31 to 40"


def test_the_command_prints_the_table_and_draws(result, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(control, "balance", lambda episodes, seed: result)
    assert command_line.main(["demo", "--jobs", "control", "--episodes", "40", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for text in ("40 episodes each", "random actions", "episodes 31 to 40", "then, without exploration", "us each"):
        assert text in printed
    assert "then, without exploration" in (tmp_path / "demo.svg").read_text()


def test_what_the_job_cannot_do_is_said_before_the_first_job(monkeypatch):
    monkeypatch.setattr(field_demo, "run", lambda _: pytest.fail("the field job ran"))
    with pytest.raises(SystemExit, match="demo: --seed must be at least 0 for control, got -5"):
        command_line.main(["demo", "--jobs", "field", "control", "--seed", "-5"])
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(SystemExit, match="demo: control needs gymnasium: pip install gymnasium"):
        command_line.main(["demo", "--jobs", "field", "control"])
