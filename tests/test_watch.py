"""`python -m torch_hrr monitor`: what it shows of a command and of the machine, and how it ends."""

import io
import json
import os
import shutil
import signal
import sys
import threading
import types
from collections import deque

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr import watch
from torch_hrr.runtime.monitor import METRICS

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the commands are a shell's")

BUSY = "x = bytearray(100 << 20); import time; end = time.time() + .4\nwhile time.time() < end: pass"


def monitor(*arguments):
    return command_line.main(["monitor", "--interval", "0.05", *map(str, arguments)])


def later(number):
    timer = threading.Timer(0.4, os.kill, (os.getpid(), number))
    timer.start()
    return timer


def sample(**known):
    return dict.fromkeys(METRICS) | {"seconds": 2.0} | known


def test_a_command_and_its_children_are_watched(capfd, tmp_path):
    script = f"{sys.executable} -S -c '{BUSY}'; echo out; exit 3"
    path = tmp_path / "samples.json"
    assert monitor("--json", path, "--alert", "rss_mb=90", "--alert", "rss_mb=1e9", "--", "sh", "-c", script) == 3
    printed = capfd.readouterr()
    assert printed.out == "out\n"
    lines = printed.err.splitlines()
    assert lines[0].startswith("sh (process ") and lines[0].endswith("), cpu")
    assert "MB at most" in lines[-1]
    (alert,) = [line for line in lines if line.startswith("alert: ")]
    assert alert.startswith("alert: rss_mb ") and " > 90 at " in alert
    samples = json.loads(path.read_text())["samples"]
    assert 100 < max(each["rss_mb"] or 0 for each in samples) < 200
    assert max(each["cpu_percent"] or 0 for each in samples) > 1
    assert sum(" s  " in line for line in lines) >= len(samples) - 2


@pytest.mark.parametrize(
    ("command", "status"),
    [("kill -KILL $$", 137), ("trap 'exit 9' TERM; while :; do sleep 0.02; done", 9)],
    ids=["killed", "terminated with the monitor"],
)
def test_how_a_command_ends_is_passed_on(command, status):
    timer = later(signal.SIGTERM) if status == 9 else None
    before = signal.getsignal(signal.SIGTERM)
    assert monitor("--", "sh", "-c", command) == status
    assert signal.getsignal(signal.SIGTERM) == before
    if timer:
        timer.join()


def test_a_command_that_is_not_there_is_said_as_by_a_shell(capsys, tmp_path):
    with pytest.raises(SystemExit) as caught:
        monitor("--", tmp_path / "nothing")
    assert caught.value.code == 127
    assert f"monitor: {tmp_path / 'nothing'} cannot be run: No such file" in capsys.readouterr().err


def test_a_command_starts_after_all_that_may_fail(monkeypatch, tmp_path):
    def refused(*arguments):
        raise ValueError("refused")

    monkeypatch.setattr(watch._Watcher, "alert", refused)
    with pytest.raises(ValueError, match="refused"):
        monitor("--", "touch", tmp_path / "ran")
    assert not (tmp_path / "ran").exists()


def test_the_outcome_is_of_all_samples_though_only_the_last_are_kept():
    used = iter([watch.Use(1.0, 9 * 2**20), watch.Use(None, 2**20), watch.Use(None, None)])
    watcher = watch._Watcher(lambda: next(used), torch.device("cpu"), 1e9)
    watcher._samples = deque(maxlen=1)
    with watcher:
        watcher._take()
    assert watcher.samples()[0]["rss_mb"] is None
    assert watcher.outcome().endswith(" s, memory 9 MB at most")
    watcher._totals |= {"cpu_percent": (4, 100.0, 60.0), "gpu_utilization": (2, 3.0, 2.0), "gpu_memory_mb": (1, 5, 5)}
    assert watcher.outcome().endswith(
        " s, cpu 25 % on average, memory 9 MB at most, gpu 2 % on average, gpu memory 5 MB at most"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_machine_is_watched_until_it_is_interrupted(capsys, number):
    timer = later(number)
    assert monitor() == 0
    timer.join()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "the machine, cpu" and len(lines) > 4
    used = float(lines[-2].partition("memory ")[2].split()[0].replace(",", ""))
    assert used > watch._MEBIBYTE / 2**18 and "cpu" in lines[-2]


def test_it_ends_where_nobody_reads(monkeypatch, tmp_path):
    class Closed(io.StringIO):
        def write(self, text):
            if " s  " in text:
                raise BrokenPipeError
            return len(text)

        def fileno(self):
            return file.fileno()

    with open(tmp_path / "file", "w") as file:
        monkeypatch.setattr(sys, "stdout", Closed())
        assert monitor() == 0


def test_the_view_stays_in_rows_of_its_own(monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((30, 10)))
    stream = io.StringIO()
    block = watch._Block(stream, "the title of a view that is too long")
    block.show(sample(rss_mb=1234.4), [])
    made = stream.getvalue()
    # Two rows are made below; only the rows above them scroll.
    assert made.startswith("\n\n\x1b[2A\x1b7\x1b[1;8r\x1b8")
    assert "\x1b[9;1H\x1b[2Kthe title of a view that is t\x1b[10;1H" in made
    assert "\x1b[10;1H\x1b[2Kmemory              1,234 MB\x1b8" in made
    stream.truncate(0)
    block.show(sample(cpu_percent=0.0), ["hot"])
    again = stream.getvalue()
    assert "\x1b[1;6r" in again and "alert: hot" in again
    assert again.index("cpu ") < again.index("memory                     -")
    stream.truncate(0)
    block.show(sample(cpu_percent=1e9), [])
    assert "\x1b[1;" not in stream.getvalue()
    block.end()
    assert stream.getvalue().endswith("\x1b[r\x1b[10;1H\n")


def test_what_a_gpu_tells_is_said():
    known = {"gpu_utilization": 87.0, "gpu_memory_mb": 12345.6, "gpu_memory_share": 0.151, "temperature_c": 61}
    found = watch.facts(sample(**known, power_w=412.3, throttled=1.0))
    assert found == {
        "cpu": None, "memory": None, "gpu": "87 %", "gpu memory": "12,346 MB (15%)", "temperature": "61 C",
        "power": "412 W", "throttled": "yes",
    }  # fmt: skip


def test_without_proc_psutil_tells_and_without_both_the_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(watch, "_PROC", tmp_path)
    monkeypatch.setitem(sys.modules, "psutil", None)
    monkeypatch.setattr(watch.importlib.util, "find_spec", lambda name: None)
    timer = later(signal.SIGINT)
    assert monitor() == 0
    timer.join()
    printed = capsys.readouterr().out
    assert "nothing is known" in printed and "psutil, load and memory are unknown: pip install 'torch_hrr[" in printed

    class Process:
        def __init__(self, number):
            self.number = number

        def children(self, recursive):
            return [Process(8), Process(9)]

        def cpu_times(self):
            return Times((1.0, 2.0, 4.0, 8.0))

        def memory_info(self):
            return types.SimpleNamespace(rss=1000)

    class Times(tuple):
        idle, children_user, children_system = 4.0, 4.0, 8.0

    fake = types.SimpleNamespace(
        Process=Process, Error=OSError, cpu_times=lambda: Times((1.0, 2.0, 4.0)),
        virtual_memory=lambda: types.SimpleNamespace(total=100, available=30),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "psutil", fake)
    assert watch.machine_use() == (3.0, 70.0)
    assert watch.tree_use(7) == (45.0, 3000.0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--interval", "0"), "--interval: must be a number of seconds > 0, got 0"),
        (("--interval", "soon"), "--interval: must be a number of seconds > 0, got soon"),
        (("--alert", "heat=3"), "--alert: must be METRIC=VALUE with one of seconds, rss_mb, "),
        (("--alert", "power_w"), "--alert: must be METRIC=VALUE with a finite number, got power_w"),
        (("--alert", "power_w=nan"), "--alert: must be METRIC=VALUE with a finite number, got power_w=nan"),
        (("--alert", "rss_mb=inf"), "--alert: must be METRIC=VALUE with a finite number, got rss_mb=inf"),
        (("sleep", "--json"), "--json: expected one argument"),
    ],
)
def test_wrong_arguments_are_said_before_anything_runs(arguments, text, capsys):
    with pytest.raises(SystemExit) as caught:
        monitor(*arguments)
    assert caught.value.code == 2 and text in capsys.readouterr().err


def test_a_file_that_cannot_be_written_and_an_unknown_device_are_said_before_the_command_runs(tmp_path):
    command = ("--", "touch", tmp_path / "ran")
    for path in (tmp_path / "none" / "samples.json", tmp_path, os.devnull):
        with pytest.raises(SystemExit, match="monitor: --json must be a file in a folder that can be written, got "):
            monitor("--json", path, *command)
    with pytest.raises(SystemExit, match="monitor: device must be"):
        monitor("--device", "gpu", *command)
    assert not (tmp_path / "ran").exists()
