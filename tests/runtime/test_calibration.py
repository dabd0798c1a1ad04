"""From which size a GPU pays: the search, by models of the time, and the file that keeps what was found."""

import itertools
import json
import math
import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.runtime import calibrate, calibration, clear_calibration

GPU = torch.device("xpu")


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_HRR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def modelled(latency, speedup, sizes=None):
    """Times as a model has them: a row takes the CPU a second and the GPU 1/speedup, after a latency."""

    def seconds(device, size):
        if sizes is not None:
            sizes.append(size)
        return float(size) if device.type == "cpu" else latency + size / speedup

    return seconds


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 2**14), st.floats(0.5, 100))
def test_the_least_size_that_pays_is_found(latency, speedup):
    paying = [size for size in (2**power for power in range(14)) if latency + size / speedup < size]
    found = calibration.crossover("model", modelled(latency, speedup), 2**13, GPU, fresh=True)
    assert found == min(paying, default=math.inf)


def test_one_size_that_loses_ends_the_search():
    """The GPU must win from the threshold on: that it wins at 4 too is of no use."""
    assert calibration.crossover("dip", lambda device, size: float((size == 8) == (device == GPU)), 64, GPU) == 16


def test_what_was_measured_is_kept_until_it_is_cleared(folder):
    sizes = []
    measured = calibration.crossover("kept", modelled(10, 2, sizes), 64, GPU)
    tried = len(sizes)
    assert measured == 32 and tried > 0
    assert calibration.crossover("kept", modelled(0, 0.5, sizes), 64, GPU) == 32 and len(sizes) == tried
    assert calibration.crossover("other", modelled(10, 0.5), 64, GPU) == math.inf
    assert calibration.crossover("other", modelled(0, 2), 64, GPU) == math.inf
    assert calibration.crossover("kept", modelled(0, 2), 64, torch.device("mps")) == 1
    (key, *_) = json.loads((folder / "crossovers.json").read_text())
    assert key.startswith("kept | xpu | ") and torch.__version__ in key
    assert calibration.crossover("kept", modelled(0, 2), 64, GPU, fresh=True) == 1
    clear_calibration()
    clear_calibration()
    assert not (folder / "crossovers.json").exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"kept | xpu": "x"}', "\0", "null"])
def test_a_damaged_file_is_measured_anew(folder, text):
    folder.mkdir()
    (folder / "crossovers.json").write_text(text)
    assert calibration.crossover("kept", modelled(0, 2), 8, GPU) == 1
    assert len(json.loads((folder / "crossovers.json").read_text())) == 1


@pytest.mark.parametrize("make", (os.mkfifo, os.mkdir))
def test_what_is_not_a_file_is_an_error_and_no_wait(folder, make):
    folder.mkdir()
    make(folder / "crossovers.json")
    with pytest.raises(ValueError, match=r"^calibrate: path must name a regular file, got .*crossovers\.json$"):
        calibration.crossover("kept", modelled(0, 2), 8, GPU)


def test_a_folder_that_cannot_be_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TORCH_HRR_CACHE", str(tmp_path / "file"))
    assert calibration.crossover("kept", modelled(0, 2), 8, GPU) == 1
    clear_calibration()
    assert calibrate("cpu", [8]) == {8: math.inf}


def test_binding_is_timed_with_its_copies_and_the_best_of_several_counts(monkeypatch):
    durations = [0.1, 9.0, 4.0, 3.0, 5.0, 6.0]
    clock = itertools.accumulate(itertools.chain.from_iterable((0.0, duration) for duration in durations))
    monkeypatch.setattr(calibration.time, "perf_counter", lambda: next(clock))
    taken = []
    monkeypatch.setattr(
        calibration, "crossover", lambda name, seconds, largest, device, fresh: taken.append((name, largest, seconds))
    )
    calibration.binding_crossover(GPU, 1024, torch.float32)
    ((name, largest, seconds),) = taken
    assert (name, largest) == ("bind 1024 torch.float32", 4096)
    assert seconds(torch.device("cpu"), 3) == pytest.approx(3.0)


def test_without_an_accelerator_the_cpu_always_wins(folder):
    assert calibrate("cpu", [16, 64]) == {16: math.inf, 64: math.inf}
    assert not folder.exists()


def test_bad_arguments():
    with pytest.raises(TypeError, match=r"^calibrate: dimensionalities must be a sequence of ints, got int"):
        calibrate("cpu", 16)
    with pytest.raises(ValueError, match=r"^calibrate: dimensionalities must be at least 1, got 0"):
        calibrate("cpu", [0])
