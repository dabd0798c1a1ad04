"""Stages of processes that are limited in time, and what became of them: for tests/gpu/harness.py."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

# The end of what a job printed that its result has, and what log.txt keeps of its beginning and of its end.
KEPT_LINES = 24
KEPT_BYTES = 2**19


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
            # A group, so that what it starts is ended with it, but no session, which would outlive this one.
            process_group=0,
        )


def left_out(stage: Stage, reason: str) -> dict[str, Any]:
    """The result of a stage of which nothing was run."""
    return {
        "name": stage.name, "what": stage.what, "limit": stage.limit, "reason": reason, "status": "left out",
        "seconds": 0.0, "jobs": [],
    }  # fmt: skip


def run_stage(stage: Stage, root: Path, work: Path, log: Path) -> dict[str, Any]:
    """Runs the jobs of a stage, ends those that outlast its limit, and tells what became of each.

    Where the run itself is ended, the result says so ("interrupted") and has what there is.
    """
    result = left_out(stage, stage.missing)
    if stage.missing:
        return result
    start = time.monotonic()
    outputs = [work / f"{stage.name}-{number}.log" for number in range(len(stage.jobs))]
    running: list[subprocess.Popen[bytes] | None] = []
    ended: dict[int, float] = {}
    interrupted = False
    try:
        for job, output in zip(stage.jobs, outputs, strict=True):
            try:
                running.append(started(job, root, output))
            except OSError as error:
                output.write_text(f"it could not be started: {error}\n")
                running.append(None)
        while len(ended) < len(running) and time.monotonic() - start < stage.limit:
            for number, process in enumerate(running):
                if number not in ended and (process is None or process.poll() is not None):
                    ended[number] = time.monotonic() - start
            time.sleep(0.05)
    except (KeyboardInterrupt, SystemExit):
        interrupted = True
    finally:
        for process in filter(None, running):
            # Also what a job that ended left running.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    for number, process in enumerate(running):
        late = "interrupted" if interrupted else "out of time"
        code = 127 if process is None else process.returncode
        seconds = round(ended.get(number, time.monotonic() - start), 1)
        job, output = stage.jobs[number], outputs[number]
        told = told_by(output)
        if job.library and told["library"] and not Path(told["library"]).is_relative_to(job.library):
            told["end"].append(f"it loaded {told['library']}")
            code = code or 1
        status = late if number not in ended else "failed" if code else "passed"
        result["jobs"].append({"name": job.name, "status": status, "seconds": seconds, "exit": code} | told)
        with log.open("ab") as file:
            file.write(f"\n===== {stage.name}: {job.name}\n".encode() + ends_of(output))
    result["seconds"] = round(time.monotonic() - start, 1)
    bad = [job["status"] for job in result["jobs"] if job["status"] != "passed"]
    return result | {"status": "interrupted" if interrupted else bad[0] if bad else "passed"}


def ends_of(output: Path) -> bytes:
    """What was printed, without the middle of what is long."""
    with output.open("rb") as file:
        first = file.read(KEPT_BYTES)
        rest = output.stat().st_size - len(first)
        if rest <= KEPT_BYTES:
            return first + file.read()
        file.seek(-KEPT_BYTES, os.SEEK_END)
        return first + f"\n... {rest - KEPT_BYTES} bytes are left out ...\n".encode() + file.read()


def told_by(output: Path) -> dict[str, Any]:
    """The end of what a job printed, and what its tests told of themselves; of a test that failed, that."""
    found: dict[str, Any] = {"collected": 0, "library": None}
    tests: dict[str, dict[str, Any]] = {}
    begun: dict[str, None] = {}
    for line in lines_of(output.with_suffix(".tests")):
        try:
            told = json.loads(line)
        except ValueError:
            continue  # Written when the process was ended.
        if "begun" in told:
            begun[told["begun"]] = None
        elif "outcome" not in told:
            found |= told
        elif tests.get(told["name"], {}).get("outcome") != "failed":
            tests[told["name"]] = told
    for name in begun.keys() - tests.keys():
        message = "its process ended before it did"
        tests[name] = {"name": name, "outcome": "failed", "seconds": 0.0, "message": message}
    end = [printable(line) for line in ends_of(output).decode(errors="replace").splitlines()[-KEPT_LINES:]]
    return found | {"tests": list(tests.values()), "end": end}


def lines_of(path: Path) -> Iterable[str]:
    return path.read_text(errors="replace").splitlines() if path.exists() else ()


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
            classname, _, name = printable(case["name"]).partition("::")
            element = ElementTree.SubElement(
                suite, "testcase", classname=classname, name=name or classname, time=f"{case['seconds']:.3f}"
            )
            if case["outcome"] != "passed":
                kind = "skipped" if case["outcome"] == "skipped" else "failure"
                ElementTree.SubElement(element, kind, message=printable(case["message"]))
        for kind in ("failure", "skipped"):
            suite.set("failures" if kind == "failure" else kind, str(len(suite.findall(f"testcase/{kind}"))))
        suite.set("tests", str(len(suite)))
    write_whole(path, ElementTree.tostring(suites, encoding="unicode"))


def printable(text: str) -> str:
    """What XML may hold, and a terminal shows."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)


def write_whole(path: Path, text: str) -> None:
    """Whole or not at all, in UTF-8."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
