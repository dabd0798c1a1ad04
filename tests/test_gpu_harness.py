"""tests/gpu/run without a GPU: stages that fail or hang, what is kept of them, and what cannot be run."""

import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

GPU = Path(__file__).resolve().parent / "gpu"
ROOT = GPU.parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
gpu_counters, gpu_counts = (importlib.import_module(f"bench.tools.{name}") for name in ("gpu_counters", "gpu_counts"))

MACHINE = {
    "torch": "2.11.0+cu130", "device": "NVIDIA H100", "capability": "9.0", "free_gib": 70.0, "memory_gib": 79.2,
}  # fmt: skip
KIT = {"torch": "2.11.0+cu130", "commit": "0123456789ab", "architectures": ["9.0"], "files": {}}
TESTS = """
import os
import pytest

def test_that_passes():
    pass

def test_that_fails():
    assert 1 == 2, "one is not two"

@pytest.mark.skip(reason="for the table")
def test_that_is_skipped():
    pass

def test_that_ends_the_process():
    os._exit(7)
"""


@pytest.fixture
def harness(monkeypatch):
    """The modules of tests/gpu by name."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(GPU)])
    return importlib.import_module


def python(name, code):
    return name, [sys.executable, "-c", code]


def test_a_job_that_fails_or_hangs_costs_itself_alone(harness, tmp_path):
    running = harness("running")
    child = tmp_path / "child"
    # The child of a job that hangs is ended with it.
    (tmp_path / "child.py").write_text(f"import time; time.sleep(3); open({str(child)!r}, 'w')")
    begin = f"import subprocess, sys, time; subprocess.Popen([sys.executable, {str(tmp_path / 'child.py')!r}])"
    hangs = f"{begin}; print('begun', flush=True); time.sleep(600)"
    jobs = [
        running.Job(*python("passes", "print('well')")),
        running.Job(*python("fails", "import sys; print('badly'); sys.exit(3)")),
        running.Job(*python("hangs", hangs)),
        running.Job("is missing", [str(tmp_path / "no such tool")]),
    ]
    start = time.monotonic()
    result = running.run_stage(running.Stage("three", "of every kind", 2, jobs), ROOT, tmp_path, tmp_path / "log")
    assert time.monotonic() - start < 30
    assert [job["status"] for job in result["jobs"]] == ["passed", "failed", "out of time", "failed"]
    assert [job["end"] for job in result["jobs"][:3]] == [["well"], ["badly"], ["begun"]]
    assert "could not be started" in result["jobs"][3]["end"][0]
    assert result["status"] == "failed" and result["jobs"][1]["exit"] == 3
    assert (tmp_path / "log").read_text().count("===== three") == 4
    time.sleep(max(0.0, start + 6.0 - time.monotonic()))
    assert not child.exists()


def test_tests_of_a_job_that_dies_are_kept(harness, tmp_path):
    running = harness("running")
    folder = tmp_path / "gpu"
    folder.mkdir()
    shutil.copy(GPU / "conftest.py", folder)
    (folder / "test_four.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder), "--device", "cpu"]
    stage = running.Stage("tests", "four", 300, [running.Job("tests", command)])
    result = running.run_stage(stage, ROOT, tmp_path, tmp_path / "log")
    (job,) = result["jobs"]
    assert job["status"] == "failed" and job["exit"] == 7
    found = {test["name"].rpartition("::")[2]: test for test in job["tests"]}
    assert {name: test["outcome"] for name, test in found.items()} == {
        "test_that_passes": "passed", "test_that_fails": "failed", "test_that_is_skipped": "skipped",
        "test_that_ends_the_process": "failed",
    }  # fmt: skip
    assert "one is not two" in found["test_that_fails"]["message"]
    left_out = running.run_stage(running.Stage("none", "nothing", 1, [], "no tool"), ROOT, tmp_path, tmp_path / "log")
    running.write_junit([result, left_out], tmp_path / "junit.xml")
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get("name") for suite in suites] == ["tests", "none"]
    (suite, nothing) = suites
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "3", "1")
    assert nothing.get("tests") == "0"
    report = {"machine": MACHINE | {"python": "3.12"}, "kit": None, "stages": [result, left_out]}
    text = harness("harness").summary(report, tmp_path)
    assert "1 passed, 2 failed, 1 skipped" in text and "tests: failed" in text and "left out" in text
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize(
    ("machine", "kit", "told"),
    [
        ({"torch": "2.12.1"}, {}, r"kit is for torch 2\.11, and 2\.12\.1 is installed; .* GPU_TORCH=2\.12"),
        ({"device": None}, {}, "finds no CUDA device; --dry-run"),
        ({"capability": "8.0"}, {}, r"built for 9\.0, and NVIDIA H100 has 8\.0; .* GPU_ARCHITECTURE=8\.0"),
        ({}, {"architectures": []}, "built for CPUs"),
        ({"free_gib": 3.5}, {}, r"3\.5 of 79\.2 GiB of the GPU's memory are free, and 8 are needed"),
    ],
)
def test_what_cannot_be_run_is_said_in_a_line(harness, machine, kit, told):
    module = harness("harness")
    module.check(MACHINE, KIT, dry=False)
    with pytest.raises(module.Unusable, match=told) as caught:
        module.check(MACHINE | machine, KIT | kit, dry=False)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("architecture", "capability", "runs"),
    [
        ("9.0", "9.0", True), ("8.0", "8.6", True), ("8.6", "8.0", False), ("8.0", "9.0", False),
        ("8.0+PTX", "9.0", True), ("8.0+PTX", "12.0", True), ("10.0+PTX", "9.0", False), ("9.0", "10.0", False),
    ],
)  # fmt: skip
def test_which_gpus_code_serves(harness, architecture, capability, runs):
    assert harness("harness").serves(architecture, capability) is runs


def test_a_kit_is_whole_or_refused(harness, tmp_path):
    module = harness("harness")
    with pytest.raises(module.Unusable, match="holds no kit"):
        module.read_kit(tmp_path)
    (tmp_path / "a").write_text("first")
    digest = hashlib.sha256(b"first").hexdigest()
    (tmp_path / "manifest.json").write_text(json.dumps(KIT | {"files": {"a": digest}}))
    assert module.read_kit(tmp_path)["architectures"] == ["9.0"]
    (tmp_path / "a").write_text("other")
    with pytest.raises(module.Unusable, match="damaged: a is not"):
        module.read_kit(tmp_path)
    (tmp_path / "a").write_text("first")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_more.py").write_text("")
    with pytest.raises(module.Unusable, match=r"damaged: tests/test_more\.py was added"):
        module.read_kit(tmp_path)
    assert module.main(["--kit", str(tmp_path), "--dry-run"]) == 2


@pytest.mark.parametrize(
    "manifest",
    [
        "", "[]", "3", "{}", "[" * 10_000,
        *(
            json.dumps(KIT | wrong)
            for wrong in (
                {"files": {"a": 3}}, {"files": "a"}, {"architectures": [9.0]}, {"architectures": ["sm_90"]},
                {"torch": None},
            )
        ),
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(harness, tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(manifest)
    module = harness("harness")
    with pytest.raises(module.Unusable, match="holds no kit"):
        module.read_kit(tmp_path)


def test_stages_are_those_of_a_tree_or_of_a_kit(harness, tmp_path, capsys):
    stages = harness("stages")
    tree = stages.Plan(tmp_path, tmp_path, None, "9.0", False).stages()
    kit = stages.Plan(tmp_path, tmp_path, KIT, "9.0", False).stages()
    assert [stage.name for stage in tree if stage not in kit][:1] == ["build"]
    assert [stage.name for stage in kit] == [stage.name for stage in tree if not stage.name.startswith("build")]
    # With a kit, eight minutes at most.
    assert sum(stage.limit for stage in kit) <= 480
    assert harness("harness").main(["--dry-run", "--stages", "smoke,nothing", "--out", str(tmp_path / "out")]) == 2
    assert "got nothing" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").write_text("kept")
    assert harness("harness").main(["--dry-run", "--stages", "smoke", "--out", str(tmp_path / "out")]) == 2
    assert "--out must be a folder" in capsys.readouterr().err
    assert (tmp_path / "out").read_text() == "kept"


def test_a_run_that_is_ended_keeps_what_it_found(tmp_path):
    kit, child = tmp_path / "kit", tmp_path / "child"
    (kit / "tests" / "gpu").mkdir(parents=True)
    for name in ("harness.py", "running.py"):
        shutil.copy(GPU / name, kit / "tests" / "gpu")
    (kit / "tests" / "gpu" / "stages.py").write_text(STAGES.format(python=sys.executable, child=str(child)))
    command = [sys.executable, str(kit / "tests" / "gpu" / "harness.py"), "--dry-run", "--out", str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    for _ in range(600):
        if child.exists():
            break
        time.sleep(0.1)
    process.terminate()
    assert process.wait(60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [stage["status"] for stage in report["stages"]] == ["passed", "interrupted"]
    assert report["stages"][1]["jobs"][0]["end"] == ["begun"]


STAGES = """
from running import Job, Stage

class Plan:
    def __init__(self, root, work, kit, capability, dry):
        self.root, self.work = root, work

    def stages(self):
        code = "import os, time; print('begun', flush=True); open({child!r}, 'w').write(str(os.getpid()))"
        code += "; time.sleep(600)"
        return [
            Stage("first", "passes", 60, [Job("first", [{python!r}, "-c", ""])]),
            Stage("second", "hangs", 600, [Job("second", [{python!r}, "-c", code])]),
            Stage("third", "is not begun", 60, []),
        ]
"""
NCU = """==PROF== Connected to process 12
"ID","Process ID","Kernel Name","{metrics}"
"","","","{units}"
"0","12","_Z4copyPfS_","1,024","2,048","0","16"
"1","12","_Z4copyPfS_","1","0","0","0"
"2","12","_Z5otherv","7","7","7","7"
"""


def test_counters_of_ncu_beside_counts():
    text = NCU.format(metrics='","'.join(gpu_counters.METRICS), units='","'.join(["sector"] * 4))
    found = gpu_counters.read_ncu(text.splitlines())
    assert found["_Z4copyPfS_"] == {
        "global_load": 1025, "global_store": 2048, "shared_load": 0, "shared_store": 16,
    }  # fmt: skip

    def launch(units):
        requests = {kind: gpu_counts.Requests(units=units) for kind in (*gpu_counts.RATIOS, *gpu_counts.ATOMICS)}
        return gpu_counts.Launch("copy", "_Z4copyPfS_", (1, 1, 1), (32, 1, 1), 0, 0, 0, requests)

    counts = gpu_counts.Counts("copy", "8", [launch(500), launch(500)], [])
    rows = {row["kind"]: row for row in gpu_counters.compare([counts], found)}
    assert (rows["global_load"]["counted"], rows["global_load"]["measured"]) == (1000, 1025)
    assert [kind for kind, row in rows.items() if row["agree"]] == ["global_load"]
    missing = gpu_counters.compare([counts], {})
    assert not any(row["agree"] for row in missing) and missing[0]["measured"] is None
    assert len(list(gpu_counters.table(missing))) == 5
