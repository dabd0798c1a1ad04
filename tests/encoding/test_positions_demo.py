"""The demo's job of positions: errors against mpmath's sinusoids, and what the command prints."""

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr.demos import positions


@pytest.fixture(scope="module")
def result():
    return positions.encode(0)


def test_float64_is_exact_enough_to_judge_float32():
    mpmath = pytest.importorskip("mpmath")
    places = torch.tensor([999_999, 524_287, 3])
    found = positions.sinusoids_in_torch(places, torch.float64)
    for row, place in zip(found, places.tolist(), strict=True):
        for i in (0, 1, 100, 255):
            angle = place * mpmath.power(10_000, -2 * i / mpmath.mpf(positions.DIM))
            assert abs(mpmath.sin(angle) - row[2 * i].item()) < 1e-9
            assert abs(mpmath.cos(angle) - row[2 * i + 1].item()) < 1e-9


def test_ours_is_right_at_a_million_and_float32_angles_are_not(result):
    (near, near_torch), (far, far_torch) = result.errors.values()
    assert near < 1.5e-7 and far < 1.5e-7
    assert near < near_torch < 1e-3 and far_torch > 0.01


def test_the_command_prints_the_tables(result, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(positions, "encode", lambda seed: result)
    assert command_line.main(["demo", "--jobs", "positions", "--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "positions below 1,000,000" in printed and "encoding  error at 1e6" in printed
    assert "0.06 in torch" in printed and f"  {result.errors[1_000_000][0]:.0e}  " in printed
    assert not list(tmp_path.iterdir()) and "picture" not in printed
