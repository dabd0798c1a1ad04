"""The table of targets: its rows, verdicts and JSON, and the figures of a GPU on one that is feigned."""

import contextlib
import importlib
import itertools
import json
import string
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from torch_hrr import hrr

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
figure = importlib.import_module("bench.figure")
run = importlib.import_module("bench.run")
gpu_figures = importlib.import_module("bench.gpu_figures")
hrr_targets = importlib.import_module("bench.hrr_targets")
targets = importlib.import_module("bench.targets")
timing = importlib.import_module("bench.timing")

KEYS = {
    "name", "run", "device", "status", "error", "unit", "target", "result", "met", "torch", "baseline", "speedup",
    "note", "candidates",
}  # fmt: skip
SETTINGS = timing.Settings(
    rounds=2, block_seconds=1e-6, threads=1, device="cpu", cold=False, compile=False, seed=0
)  # fmt: skip


@pytest.fixture(scope="module")
def rows():
    """Every row at D = 8, by name."""
    session = targets.Session(SETTINGS)
    measured = [targets.measure_target(target, session) for target in hrr_targets.targets(8)]
    return {row["name"]: row for row in measured}


def test_targets_are_distinct_and_consistent():
    names = [target.name for target in hrr_targets.TARGETS]
    assert len(set(names)) == len(names)
    assert all(name.startswith("target ") for name in names)
    for target in hrr_targets.TARGETS:
        if target.expected_baseline is not None:
            assert target.speedup * target.limit == pytest.approx(target.expected_baseline), target.name
            assert target.baseline, target.name


def test_every_row_is_measured_or_needs_a_gpu(rows):
    for target in hrr_targets.TARGETS:
        row = rows[target.name]
        assert row.keys() == KEYS
        assert row["error"] is None
        assert row["device"] == "cpu"
        assert row["status"] == ("needs a GPU" if target.needs_gpu else "measured")
        assert (row["result"] is None) == target.needs_gpu
        if not target.needs_gpu:
            assert row["met"] is (row["result"] <= target.limit)


def test_operator_rows_state_both_baselines(rows):
    pytest.importorskip("numpy")
    for name in ("single bind", "batch bind 100", "superposition 1000", "bind and unbind", "batch size 1000"):
        row = rows[f"target {name}"]
        assert row["result"] > 0
        assert row["torch"].keys() == {"peer", "seconds", "ratio"}
        assert row["baseline"]["seconds"] > 0
        assert row["speedup"]["measured"] > 0
        assert {"ours", "baseline", row["torch"]["peer"]} <= {each["name"] for each in row["candidates"]}
        assert all(len(each["rounds"]) == SETTINGS.rounds for each in row["candidates"])
        assert ("one NumPy call" in row["note"]) == name.endswith("0"), name


def test_rows_of_one_work_share_its_times(rows):
    assert rows["target single bind"]["result"] == rows["target batch size 1"]["result"]
    assert rows["target batch bind 100"]["candidates"] == rows["target batch size 100"]["candidates"]


def test_scaling_is_the_largest_step(rows):
    seconds = [rows[f"target batch size {n}"]["result"] for n in (1, 10, 100, 1000)]
    steps = [later / earlier for earlier, later in itertools.pairwise(seconds)]
    assert rows["target linear scaling"]["result"] == pytest.approx(max(steps))


@pytest.mark.parametrize(
    ("seconds", "speedup", "met", "fast"),
    [(1e-4, 10.0, True, True), (1.1e-4, 9.9, False, False), (1e-5, 9.9, True, False)],
)
def test_verdicts(seconds, speedup, met, fast):
    found = targets.Measured(seconds, baseline_seconds=1e-3, speedup=speedup)
    target = next(target for target in hrr_targets.TARGETS if target.what == "single bind")
    row = targets.measure_target(replace(target, measure=lambda session: found), targets.Session(SETTINGS))
    assert (row["met"], row["speedup"]["met"]) == (met, fast)
    line = targets.format_target(row)
    answers = [word for word in line.split() if word in ("yes", "no")]
    assert answers == ["yes" if met else "no", "yes" if fast else "no"]
    assert line.startswith("single bind ")
    assert "0.1 ms" in line
    assert "10x" in line


def test_row_without_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    target = hrr_targets.time_target("without NumPy", hrr_targets.binding(1, 8), 1.0, 2)
    row = targets.measure_target(target, targets.Session(SETTINGS))
    assert row["error"] is None
    assert row["baseline"]["seconds"] is None
    assert row["speedup"] == {"target": 2, "measured": None, "met": None}
    assert targets.format_target(row).count(" - ") == 3


def test_row_that_needs_a_gpu_has_no_numbers(rows):
    line = targets.format_target(rows["target fragmentation, store grown"])
    assert line.split("20 %")[1].split() == ["needs", "a", "GPU", *"------"]


def test_targets_in_json_and_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("bench.hrr_targets.TARGETS", hrr_targets.targets(8))
    path = tmp_path / "hrr.json"
    assert run.main(["hrr", "--quick", "--filter", "^target (single|GPU memory)", "--json", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["entries"] == []
    assert [row["name"] for row in report["targets"]] == ["target single bind", "target GPU memory usage"]
    assert [row["status"] for row in report["targets"]] == ["measured", "needs a GPU"]
    assert all(row.keys() == KEYS for row in report["targets"])
    printed = capsys.readouterr().out
    assert "measured here: cpu" in printed
    assert "\nsingle bind " in printed
    assert "needs a GPU" in printed


@pytest.mark.parametrize("system", [name for name in run.SYSTEMS if name != "programs"])
def test_targets_of_a_gpu_are_listed_and_not_measured_without_one(system):
    table = importlib.import_module(f"bench.{system}_targets").TARGETS
    assert len({target.name for target in table}) == len(table)
    found = [target for target in table if target.needs_gpu]
    assert found
    for target in found:
        row = targets.measure_target(target, targets.Session(SETTINGS))
        assert row.keys() == KEYS and row["status"] == "needs a GPU"


def test_programs_give_what_they_are_compared_with():
    programs, seed = importlib.import_module("bench.programs"), torch.tensor(3)
    assert torch.equal(programs.batch_of(8, seed), programs.loop_of(8, seed)) and len(programs.one(seed)) == 5


def test_results_are_kept_by_system_device_and_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3 (a/b)")
    monkeypatch.setattr(run, "get_device_info", lambda: {"driver": "580.65.06"})
    found = run.machine(replace(SETTINGS, device="cuda"))
    assert found["driver"] == "580.65.06" and run.machine(SETTINGS)["driver"] is None
    report = {"system": "hrr", "machine": found}
    assert run.kept_at(report) == tmp_path / "results" / "hrr-NVIDIA-H100-80GB-HBM3-a-b-580.65.06.json"
    # A driver that does not tell its version, and a processor.
    assert run.kept_at({"system": "hrr", "machine": found | {"driver": None}}).name.endswith("-HBM3-a-b.json")
    arguments = ["hrr", "--quick", "--filter", "^target GPU memory usage$"]
    assert run.main(arguments) == 0 and list(tmp_path.iterdir()) == []
    assert run.main([*arguments, "--keep"]) == 0
    (kept,) = (tmp_path / "results").iterdir()
    assert kept.name.startswith("hrr-") and set(kept.name) <= set(string.ascii_letters + string.digits + "-.")
    assert json.loads(kept.read_text())["targets"][0]["name"] == "target GPU memory usage"


def test_ratios_are_drawn(tmp_path):
    def entry(op, **ratios):
        found = {kind: None if ratio is None else {"ratio": ratio} for kind, ratio in ratios.items()}
        return {"op": op, "shape": "2x8", "error": None, "ratios": {"fresh warm": found}}

    entries = [
        entry("bind", torch=2.0, compile=None, library=4.0),
        {"op": "lost", "shape": "", "error": "Disagreement"},
    ]
    report = {"system": "hrr", "machine": {"gpu": None, "cpu": "some CPU"}, "entries": entries}
    assert figure.ratios(report) == [("bind 2x8", {"torch": 2.0, "library": 4.0})]
    figure.draw([report], tmp_path / "made" / "ratios.svg")
    assert "<svg" in (tmp_path / "made" / "ratios.svg").read_text()


def test_disagreement_is_an_error(monkeypatch, capsys):
    work = replace(hrr_targets.binding(10, 8), ours=lambda a, b: 1.001 * hrr.bind(a, b))
    monkeypatch.setattr("bench.hrr_targets.TARGETS", (hrr_targets.time_target("wrong", work, 1.0),))
    assert run.main(["hrr", "--quick", "--filter", "^target wrong$"]) == 1
    assert "ERROR Disagreement: differs from irfft(rfft*rfft) by 1.0e-03" in capsys.readouterr().out


class FeignedEvent:
    def record(self, stream):
        stream.log.append("record")


class FeignedStream:
    """A stream that notes what is asked of it; everything is done at once."""

    def __init__(self):
        self.log = []

    def wait_stream(self, stream):
        self.log.append("wait_stream")

    def wait_event(self, event):
        self.log.append("wait_event")


class FeignedSettings(timing.Settings):
    """The CPU, said to be CUDA."""

    @property
    def cuda(self):
        return True


@pytest.fixture
def feigned_gpu(monkeypatch):
    """torch.cuda as far as the figures use it: 80 MiB reserved, then 60, of which 48 allocated, on a device of 100."""
    stream = FeignedStream()
    mebibyte = 1 << 20
    allocated, reserved = iter((16, 16 + 48)), iter((8, 8 + 80, 8 + 60))
    for name, feigned in {
        "Stream": FeignedStream,
        "Event": FeignedEvent,
        "stream": lambda stream: contextlib.nullcontext(),
        "current_stream": lambda: stream,
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "mem_get_info": lambda: (25 * mebibyte, 100 * mebibyte),
        "memory_allocated": lambda: next(allocated) * mebibyte,
        "memory_reserved": lambda: next(reserved) * mebibyte,
    }.items():
        monkeypatch.setattr(torch.cuda, name, feigned)
    plain_empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **rest: plain_empty(*size, **rest))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: tensor)
    monkeypatch.setattr(targets, "CudaClock", timing.CpuClock)
    for name, small in (("BATCH", 6), ("ITEMS", 5), ("STORED", 40), ("STORED_AT_ONCE", 10)):
        monkeypatch.setattr(gpu_figures, name, small)
    return targets.Session(FeignedSettings(**vars(SETTINGS)))


@pytest.mark.parametrize("to_device", [True, False])
def test_copies(feigned_gpu, to_device):
    sizes = {"rows": 3, "dim": 8, "to_device": to_device}
    pageable = gpu_figures.copy_time(feigned_gpu, pinned=False, **sizes)
    pinned = gpu_figures.copy_time(feigned_gpu, pinned=True, **sizes)
    assert (pageable.speedup, pageable.baseline_seconds) == (None, None)
    assert pinned.baseline_seconds == pageable.value
    assert pinned.speedup > 0
    assert "GB/s" in pageable.note
    assert "on the device" in pinned.note
    assert {c.name for c in pinned.candidates} == {"pinned", "pinned on the device", "pageable"}


@pytest.mark.parametrize("job", gpu_figures.JOBS)
def test_pipeline_works_on_every_batch_in_order(feigned_gpu, job):
    pipeline = gpu_figures.make_pipeline(job, 8, "cpu", 0)
    expected = [pipeline.compute(batch) for batch in pipeline.host]
    for results in (pipeline.in_turn(), pipeline.overlapped()):
        assert len(results) == gpu_figures.STEPS
        assert all(map(torch.equal, results, expected))
    # The first two places are free; every later copy waits for the computation that used its place.
    log = pipeline.side.log
    assert log.count("wait_event") == gpu_figures.STEPS - 2
    assert log[:4] == ["wait_stream", "record", "record", "wait_event"]
    assert torch.cuda.current_stream().log == ["wait_event", "record"] * gpu_figures.STEPS


def test_overhead_is_relative_to_the_computation(feigned_gpu, monkeypatch):
    def times(functions):
        seconds = {"alone": 2.0, "in turn": 3.0, "overlapped": 2.1}
        return {name: timing.Candidate(name, "fresh", "warm", None, rounds=[seconds[name]]) for name in functions}

    monkeypatch.setattr(feigned_gpu, "times", times)
    overhead = partial(gpu_figures.transfer_overhead, feigned_gpu, job="bind", dim=8)
    assert overhead(overlapped=False).value == pytest.approx(0.5)
    assert overhead(overlapped=True).value == pytest.approx(0.05)


def test_times_in_units_of_a_gpu(feigned_gpu, monkeypatch):
    modules = {name: importlib.import_module(f"bench.{name}_targets") for name in ("assembly", "encoding", "field")}
    monkeypatch.setattr(modules["field"], "SHAPE", (4, 4, 4, 2))
    for measured in (
        hrr_targets.traffic(feigned_gpu, rows=3, dim=8),
        modules["assembly"].reads(feigned_gpu, rows=2, n=50, k=5),
        modules["encoding"].fills(feigned_gpu, rows=5, dim=8, dtype=torch.float32),
        modules["field"].copies(feigned_gpu, steps=3),
    ):
        assert measured.value > 0 and " ms, " in measured.note


def test_a_unit_is_the_slowest_of_the_others(feigned_gpu, monkeypatch):
    def times(functions, events):
        seconds = {"ours": 6e-3, "launch": 1e-3, "copy": 4e-3}
        return {
            f"{name} on the device": timing.Candidate(name, "fresh", "warm", None, rounds=[seconds[name]])
            for name in functions
            if name in events
        }

    monkeypatch.setattr(feigned_gpu, "times", times)
    functions = dict.fromkeys(("ours", "launch", "copy"), lambda: None)
    found = targets.in_units(feigned_gpu, functions, per_unit=2.0)
    assert found.value == pytest.approx(3.0) and found.note == "6 ms, copy 4 ms"


def test_memory_figures(feigned_gpu):
    assert gpu_figures.memory_usage(feigned_gpu, dim=8).value == 0.75
    found = gpu_figures.fragmentation(feigned_gpu, dim=8, preallocated=False)
    assert found.value == pytest.approx(1 - 48 / 80)
    assert found.note == "48 of 80 MiB, 20 % after torch.cuda.empty_cache()"


def test_rows_of_a_gpu(feigned_gpu):
    measured = {
        target.name: targets.measure_target(target, feigned_gpu)
        for target in hrr_targets.targets(8)
        if not target.name.endswith("made large")
    }
    assert {(row["status"], row["error"]) for row in measured.values()} == {("measured", None)}
    assert "on the device" in measured["target single bind"]["note"]
    usage = measured["target GPU memory usage"]
    assert (usage["met"], usage["unit"]) == (True, "%")
    assert "75 %" in targets.format_target(usage)
    assert measured["target fragmentation, store grown"]["met"] is False
