"""Stages of processes that are limited in time, and what became of them: for tests/gpu/harness.py."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# The end of what a job printed, in its result.
KEPT_LINES = 24


@dataclasses.dataclass(frozen=True)
class Job:
    """A process of a stage, with the folder that its torch_hrr is in if that is another than the stage's root.

    Tests write a line each into the file that TORCH_HRR_GPU_TESTS names (tests/gpu/conftest.py).
    """

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    library: Path | None = None


@dataclasses.dataclass(frozen=True)
class Stage:
    """Jobs that run side by side, for so many seconds at most; `missing` says what it is left out for."""

    name: str
    what: str
    limit: float
    jobs: Sequence[Job]
    missing: str = ""


def started(job: Job, root: Path, output: Path) -> subprocess.Popen[bytes]:
    """The process of a job, in a group of its own; what it prints goes into `output`."""
    places = (job.library, root, os.environ.get("PYTHONPATH"))
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(place) for place in places if place),
        # Otherwise the current folder would come before `library`.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "TORCH_HRR_GPU_TESTS": str(output.with_suffix(".tests")),
    }
    with output.open("wb") as file:
        return subprocess.Popen(
            job.command,
            cwd=root,
            env=environment | dict(job.environment),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def run_stage(stage: Stage, root: Path, work: Path, log: Path) -> dict[str, Any]:
    """Runs the jobs of a stage, ends those that outlast its limit, and tells what became of each."""
    result: dict[str, Any] = {
        "name": stage.name, "what": stage.what, "limit": stage.limit, "reason": stage.missing, "status": "left out",
        "seconds": 0.0, "jobs": [],
    }  # fmt: skip
    if stage.missing:
        return result
    start = time.monotonic()
    running = [started(job, root, work / f"{stage.name}-{number}.log") for number, job in enumerate(stage.jobs)]
    ended: dict[int, float] = {}
    try:
        while len(ended) < len(running) and time.monotonic() - start < stage.limit:
            for number, process in enumerate(running):
                if number not in ended and process.poll() is not None:
                    ended[number] = time.monotonic() - start
            time.sleep(0.05)
    finally:
        for process in running:
            # Also what a job that ended left running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for number, (job, process) in enumerate(zip(stage.jobs, running, strict=True)):
        output = work / f"{stage.name}-{number}.log"
        late = number not in ended
        result["jobs"].append(outcome(job, process.returncode, ended.get(number, stage.limit), late, output))
        with log.open("ab") as file:
            file.write(f"\n===== {stage.name}: {job.name}\n".encode() + output.read_bytes())
    result["seconds"] = round(time.monotonic() - start, 1)
    bad = [job["status"] for job in result["jobs"] if job["status"] != "passed"]
    return result | {"status": bad[0] if bad else "passed"}


def outcome(job: Job, code: int, seconds: float, late: bool, output: Path) -> dict[str, Any]:
    """What became of a job: its status, tests, and the end of what it printed."""
    lines = output.read_text(errors="replace").splitlines()
    found: dict[str, Any] = {"name": job.name, "seconds": round(seconds, 1), "exit": code, "collected": 0, "tests": []}
    found["status"] = "out of time" if late else "failed" if code else "passed"
    found["end"] = lines[-KEPT_LINES:]
    tests = output.with_suffix(".tests")
    if tests.exists():
        told = [json.loads(line) for line in tests.read_text().splitlines() if line.endswith("}")]
        found["collected"] = max((one["collected"] for one in told if "collected" in one), default=0)
        found["tests"] = [one for one in told if "outcome" in one]
    return found


def died(job: Mapping[str, Any]) -> bool:
    """Whether a job ended otherwise than by a test that failed, which pytest tells by exit code 1."""
    failed = any(test["outcome"] == "failed" for test in job["tests"])
    return bool(job["status"] != "passed" and not (failed and job["exit"] == 1))


def cases_of(stage: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tests of its jobs; a job without tests, or one that died, is a case itself."""
    cases = [test for job in stage["jobs"] for test in job["tests"]]
    for job in stage["jobs"]:
        if not job["tests"] or died(job):
            kind = "passed" if job["status"] == "passed" else "failed"
            message = "\n".join([job["status"], *job["end"]])
            cases.append({"name": job["name"], "outcome": kind, "seconds": job["seconds"], "message": message})
    return cases


def write_junit(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """A suite for each stage."""
    suites = ElementTree.Element("testsuites")
    for stage in results:
        suite = ElementTree.SubElement(suites, "testsuite", name=stage["name"], time=str(stage["seconds"]))
        for case in cases_of(stage):
            classname, _, name = case["name"].partition("::")
            element = ElementTree.SubElement(
                suite, "testcase", classname=classname, name=name or classname, time=f"{case['seconds']:.3f}"
            )
            if case["outcome"] != "passed":
                kind = "skipped" if case["outcome"] == "skipped" else "failure"
                ElementTree.SubElement(element, kind, message=printable(case["message"]))
        for kind in ("failure", "skipped"):
            suite.set("failures" if kind == "failure" else kind, str(len(suite.findall(f"testcase/{kind}"))))
        suite.set("tests", str(len(suite)))
    write_whole(path, ElementTree.tostring(suites, encoding="unicode", xml_declaration=True))


def printable(text: str) -> str:
    """What XML may hold."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all."""
    part = path.with_name(path.name + ".part")
    part.write_text(text)
    part.replace(path)
