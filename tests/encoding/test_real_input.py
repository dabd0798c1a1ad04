"""The experiments of bench/encoding_real_input.py at reduced size: what must beat what does."""

import functools
import importlib
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
real_input = importlib.import_module("bench.encoding_real_input")
data = importlib.import_module("torch_hrr.demos.sequences")


@functools.cache
def laser_rows():
    pytest.importorskip("reservoirpy")
    rows, curves = real_input.laser(real_input.QUICK, 0)
    return {row.method: row.mean for row in rows}, curves


@functools.cache
def text_rows():
    return {row.method: row.mean for row in real_input.text(real_input.QUICK, 0)}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_laser():
    rows, curves = laser_rows()
    # Figures of the specification for the baselines, which are computed here.
    assert rows["persistence"] == pytest.approx(0.975, abs=1e-3)
    assert rows["autoregression, 20 lags"] == pytest.approx(0.416, abs=5e-3)
    peer, defaults, waves, best = (list(rows.values())[at] for at in (2, 5, 6, 7))
    # With inputs drawn alike the two libraries are about equal.
    assert 0.8 < defaults / peer < 1.25
    assert best < defaults < 0.1 < rows["autoregression, 20 lags"] and waves < 0.1
    assert data.nrmse(*curves) == pytest.approx(best)


@pytest.mark.parametrize("seed", [0, 1])
def test_five_hundred_units_reach_what_echo_state_networks_do(seed):
    """With the default settings and inputs of -1 to 1; 0.076 to 0.082 by others."""
    pytest.importorskip("reservoirpy")
    series = data.load_laser()
    regressor = real_input.encoding.LSMRegressor(seed=seed).fit(series[:3000], series[1:3001], warmup=100)
    assert data.nrmse(regressor.predict(series[:6000])[3000:].double(), series[3001:6001]) < 0.082


def test_the_text():
    rows = list(text_rows().values())
    tables, (places, ridge, softmax) = rows[:3], rows[3:]
    assert tables == sorted(tables, reverse=True)
    assert softmax < ridge < places


def test_autoregression_is_exact_on_what_it_describes():
    """A sum of two sines obeys a recursion of four lags."""
    t = torch.arange(data.TRAINING + data.TESTING + 1, dtype=torch.float64)
    series = (0.3 * t).sin() + (0.7 * t).cos() + 5
    predicted = data.autoregression(series)
    torch.testing.assert_close(predicted, series[data.TRAINING + 1 :], atol=1e-6, rtol=0)


def test_the_command_prints_and_draws(monkeypatch, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    rows = [real_input.Row("a", [0.5, 0.25], 1.0), real_input.Row("b", [2.0], 0.5)]
    monkeypatch.setattr(real_input, "laser", lambda size, seed: (rows, torch.zeros(2, 300)))
    monkeypatch.setattr(real_input, "text", lambda size, seed: rows)
    assert real_input.main(["--quick"]) == 0
    assert "| a | 0.3750 | 0.2500 to 0.5000 | 1.0 |" in capsys.readouterr().out and not list(tmp_path.iterdir())
    assert real_input.main(["--quick", "--figures", str(tmp_path / "new")]) == 0
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["laser.png", "text.png"]


def test_free_runs_beside_reservoirpy(capsys):
    """With inputs drawn alike both hold on far longer than where most units hear nothing."""
    pytest.importorskip("reservoirpy")
    free = importlib.import_module("bench.encoding_forecast")
    assert free.main(["--quick"]) == 0
    assert "| one step | `step`, float64 |" in capsys.readouterr().out
    rows = [line.split("|")[2:4] for line in free.horizons(200, 200).splitlines()[2:]]
    deaf, peer, double, single = (float(mean) for _, mean in rows)
    assert min(peer, double, single) > 150 > deaf and len(rows[2][0].split(",")) == 5
    wrong, truth = (torch.zeros(9, 1).numpy() for _ in range(2))
    wrong[7], wrong[3] = float("nan"), 0.2
    assert [free.horizon(wrong, truth, deviation) for deviation in (1, 3)] == [3, 7]


def test_without_reservoirpy_the_cure_is_named(monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match="reservoirpy must be installed: pip install reservoirpy"):
        data.load_laser()
