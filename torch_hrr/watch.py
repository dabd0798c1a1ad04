"""A live view of what a command, or the machine, does: `python -m torch_hrr monitor`."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import torch

from torch_hrr.runtime.device import resolve_device
from torch_hrr.runtime.monitor import METRICS, ResourceMonitor

_PROC = Path("/proc")
_MEBIBYTE = 2**20
_BAR = 20
# Unless the command line says otherwise: heat or power lowers the clocks, and the next allocation may fail.
_ALERTS = (("throttled", 0.0), ("gpu_memory_share", 0.95))

_FACTS = {
    "cpu": ("cpu_percent", "{:.0f} %"),
    "memory": ("rss_mb", "{:,.0f} MB"),
    "gpu": ("gpu_utilization", "{:.0f} %"),
    "gpu memory": ("gpu_memory_mb", "{:,.0f} MB"),
    "temperature": ("temperature_c", "{:.0f} C"),
    "power": ("power_w", "{:.0f} W"),
}


class Use(NamedTuple):
    """What processes use: seconds of processors since they began, and bytes of memory; None where it is unknown."""

    seconds: float | None
    memory: float | None


def machine_use() -> Use:
    """Of the whole machine."""
    try:
        user, nice, system, _, _, *others = map(int, (_PROC / "stat").read_text().splitlines()[0].split()[1:])
        ticks = user + nice + system + sum(others[:3])
        rows = (line.split() for line in (_PROC / "meminfo").read_text().splitlines())
        kibibytes = {row[0]: int(row[1]) for row in rows}
        return Use(ticks / os.sysconf("SC_CLK_TCK"), 1024.0 * (kibibytes["MemTotal:"] - kibibytes["MemAvailable:"]))
    except (OSError, ValueError, KeyError):
        pass
    try:
        import psutil
    except ImportError:
        return Use(None, None)
    times, memory = psutil.cpu_times(), psutil.virtual_memory()
    return Use(float(sum(times) - times.idle), float(memory.total - memory.available))


def tree_use(root: int) -> Use:
    """Of a process and its descendants; pages that they share count for each."""
    if not (_PROC / "self" / "stat").exists():
        return _tree_use_by_psutil(root)
    # By process: its parent, ticks of itself and of children that have ended, pages of memory.
    known: dict[int, tuple[int, int, int]] = {}
    for entry in os.listdir(_PROC):
        # A process may end meanwhile.
        with contextlib.suppress(OSError, IndexError, ValueError):
            # Its name, in parentheses, may hold anything.
            fields = (_PROC / str(int(entry)) / "stat").read_text(errors="replace").rpartition(")")[2].split()
            known[int(entry)] = int(fields[1]), sum(map(int, fields[11:15])), int(fields[21])
    tree, ticks, pages = [root], 0, 0
    if root not in known:
        return Use(None, None)
    for process in tree:
        tree += [child for child, (parent, *_) in known.items() if parent == process]
        ticks, pages = ticks + known[process][1], pages + known[process][2]
    return Use(ticks / os.sysconf("SC_CLK_TCK"), float(pages) * os.sysconf("SC_PAGE_SIZE"))


def _tree_use_by_psutil(root: int) -> Use:
    try:
        import psutil
    except ImportError:
        return Use(None, None)
    seconds = memory = 0.0
    try:
        for process in (found := psutil.Process(root), *found.children(recursive=True)):
            times = process.cpu_times()
            seconds += sum(times[:2]) + getattr(times, "children_user", 0) + getattr(times, "children_system", 0)
            memory += process.memory_info().rss
    except psutil.Error:
        return Use(None, None)
    return Use(seconds, memory)


class _Meter:
    """Memory and load by a function that tells what was used until now."""

    def __init__(self, use: Callable[[], Use]) -> None:
        self._use, self._at = use, 0.0
        self._seconds: float | None = None

    def sample(self, at: float) -> dict[str, float | None]:
        """At a number of seconds since the start."""
        seconds, memory = self._use()
        load = None
        if seconds is not None and self._seconds is not None:
            # Of a process whose parent does not wait for it the time is lost.
            load = 100 * max(0.0, seconds - self._seconds) / max(at - self._at, 1e-6)
        self._seconds, self._at = seconds, at
        return {"cpu_percent": load, "rss_mb": None if memory is None else memory / _MEBIBYTE}


class _Watcher(ResourceMonitor):
    """A monitor of other processes than this one, which shows each sample."""

    show: Callable[[dict[str, float | None]], Any] | None = None

    def __init__(self, use: Callable[[], Use], device: torch.device, interval: float) -> None:
        super().__init__(device, interval)
        self._meter = _Meter(use)
        # By metric, of all samples, also those no longer kept: how many know it, their sum and maximum.
        self._totals: dict[str, tuple[int, float, float]] = {}

    def _processes(self, seconds: float) -> dict[str, float | None]:
        return self._meter.sample(seconds)

    def _take(self) -> dict[str, float | None]:
        sample = super()._take()
        for metric, value in sample.items():
            if value is not None:
                count, total, most = self._totals.get(metric, (0, 0.0, value))
                self._totals[metric] = count + 1, total + value, max(most, value)
        if self.show is not None:
            self.show(sample)
        return sample

    def outcome(self) -> str:
        """What it came to."""
        said = []
        for metric, words in (
            ("seconds", "{most:.1f} s"),
            ("cpu_percent", "cpu {mean:.0f} % on average"),
            ("rss_mb", "memory {most:,.0f} MB at most"),
            ("gpu_utilization", "gpu {mean:.0f} % on average"),
            ("gpu_memory_mb", "gpu memory {most:,.0f} MB at most"),
        ):
            if metric in self._totals:
                count, total, most = self._totals[metric]
                said.append(words.format(mean=total / count, most=most))
        return ", ".join(said)


def facts(sample: dict[str, float | None]) -> dict[str, str | None]:
    """What is known, in words; None for what is not."""
    found = {}
    for label, (metric, form) in _FACTS.items():
        value = sample[metric]
        found[label] = None if value is None else form.format(value)
    share = sample["gpu_memory_share"]
    if share is not None:
        found["gpu memory"] = f"{found['gpu memory']} ({share:.0%})"
    throttled = sample["throttled"]
    return found | {"throttled": None if throttled is None else "yes" if throttled else "no"}


class _Lines:
    """A line for each sample and each alert, for files and pipes."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self.title = stream, title

    def show(self, sample: dict[str, float | None], alerts: Sequence[str]) -> None:
        if self.title:
            print(self.title, file=self._stream)
            self.title = ""
        for alert in alerts:
            print(f"alert: {alert}", file=self._stream)
        said = "  ".join(f"{label} {text}" for label, text in facts(sample).items() if text)
        print(f"{sample['seconds']:8.1f} s  {said or 'nothing is known'}", file=self._stream, flush=True)

    def end(self) -> None:
        pass


class _Block:
    """Lines at the foot of a terminal, drawn again for each sample; what a command writes scrolls above them."""

    def __init__(self, stream: TextIO, title: str) -> None:
        self._stream, self.title, self._alerts = stream, title, list[str]()
        self._known: set[str] = set()
        self._height, self._rows = 0, 0

    def show(self, sample: dict[str, float | None], alerts: Sequence[str]) -> None:
        self._alerts = [*self._alerts, *alerts][-3:]
        width, rows = shutil.get_terminal_size()
        lines = [f"{self.title}  {sample['seconds']:.0f} s", *self._values(sample)]
        lines += [f"alert: {alert}" for alert in self._alerts]
        lines = [line[: width - 1] for line in lines][: max(1, rows - 2)]
        room = ""
        if (len(lines), rows) != (self._height, self._rows):
            # Room is made, the cursor goes back above it, and from now on only the rows above the block scroll.
            more = max(0, len(lines) - self._height) if rows == self._rows else len(lines)
            room = "\n" * more + (f"\x1b[{more}A" if more else "") + f"\x1b7\x1b[1;{rows - len(lines)}r\x1b8"
            self._height, self._rows = len(lines), rows
        first = rows - len(lines) + 1
        drawn = "".join(f"\x1b[{first + number};1H\x1b[2K{line}" for number, line in enumerate(lines))
        self._stream.write(f"{room}\x1b7{drawn}\x1b8")
        self._stream.flush()

    def _values(self, sample: dict[str, float | None]) -> Iterator[str]:
        load, gpu = sample["cpu_percent"], sample["gpu_utilization"]
        shares = {"cpu": None if load is None else load / (os.cpu_count() or 1), "gpu": gpu}
        for label, text in facts(sample).items():
            # What was known once keeps its line.
            if text is None and label not in self._known:
                continue
            self._known.add(label)
            share = shares.get(label)
            bar = "" if share is None else f"[{'#' * round(_BAR * min(share, 100) / 100):<{_BAR}}]"
            yield f"{label:<12}{text or '-':>16}  {bar}".rstrip()

    def end(self) -> None:
        """Gives the rows back; the last view stays."""
        if self._height:
            self._stream.write(f"\x1b[r\x1b[{self._rows};1H\n")
            self._stream.flush()


def _missing(device: torch.device) -> Iterator[str]:
    """What would tell more."""
    if not (_PROC / "stat").exists() and importlib.util.find_spec("psutil") is None:
        yield "without psutil, load and memory are unknown: pip install 'torch_hrr[monitor]'"
    if device.type == "cuda" and importlib.util.find_spec("pynvml") is None:
        text = "without nvidia-ml-py, the GPU's load, memory, temperature and power are unknown"
        yield f"{text}: pip install 'torch_hrr[monitor]'"


def _interval(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds > 0, got {text}")
    return value


def _threshold(text: str) -> tuple[str, float]:
    metric, _, number = text.partition("=")
    if metric not in METRICS:
        raise argparse.ArgumentTypeError(f"must be METRIC=VALUE with one of {', '.join(METRICS)}, got {text}")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"must be METRIC=VALUE with a finite number, got {text}")
    return metric, value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--interval", type=_interval, default=1.0, metavar="S", help="between samples (default: 1)")
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="whose load is shown: cpu, cuda, cuda:1 or auto (default: auto)",
    )
    usual = ", ".join(f"{metric}={value:g}" for metric, value in _ALERTS)
    parser.add_argument(
        "--alert", type=_threshold, action="append", metavar="METRIC=VALUE",
        help=f"say when a metric rises above a value; may be repeated, in place of {usual}",
    )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the samples to this file at the end")
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="after --: it is run and watched; without, the whole machine is"
    )


def run(options: argparse.Namespace) -> int:
    """Shows samples until the command has ended, whose exit status is returned, or until Ctrl-C."""
    if options.json:
        path = options.json.resolve()
        if (path.exists() and not path.is_file()) or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise SystemExit(f"monitor: --json must be a file in a folder that can be written, got {options.json}")
    name = options.device if options.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = resolve_device(name, op="monitor")
    except (ValueError, RuntimeError) as error:
        raise SystemExit(str(error)) from None
    process: subprocess.Popen[bytes] | None = None
    # What a command writes to stdout stays as it is.
    stream = sys.stderr if options.command else sys.stdout
    view: Any = (_Block if stream.isatty() and os.environ.get("TERM") != "dumb" else _Lines)(
        stream, f"the machine, {device}"
    )
    monitor = _Watcher(lambda: machine_use() if process is None else tree_use(process.pid), device, options.interval)
    risen: list[str] = []
    closed = threading.Event()

    def rises(metric: str, above: float) -> Callable[[dict[str, Any]], None]:
        return lambda sample: risen.append(f"{metric} {sample[metric]:.4g} > {above:g} at {sample['seconds']:.1f} s")

    def show(sample: dict[str, float | None]) -> None:
        try:
            view.show(sample, risen)
        except (OSError, ValueError):
            # Nobody reads any more.
            monitor.show = None
            closed.set()
        risen.clear()

    for metric, above in options.alert or _ALERTS:
        monitor.alert(metric, above, rises(metric, above))
    monitor.show = show
    if options.command:
        # Last: whatever fails before leaves no command alone.
        process = _started(options.command)
        view.title = f"{options.command[0]} (process {process.pid}), {device}"
    try:
        with monitor:
            status = _until_interrupted(closed) if process is None else _ended(process)
            monitor.show = None
    finally:
        if not closed.is_set():
            view.end()
    if options.json:
        monitor.save(options.json)
    if closed.is_set():
        # So that nothing is left for the interpreter to write there at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    else:
        print(*_missing(device), monitor.outcome(), sep="\n", file=stream, flush=True)
    return status


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(command)
    except OSError as error:
        print(f"monitor: {command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        # As shells do.
        raise SystemExit(127 if isinstance(error, FileNotFoundError) else 126) from None


def _until_interrupted(closed: threading.Event) -> int:
    """Waits for Ctrl-C, SIGTERM, or until nobody reads any more."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        closed.wait()
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGTERM, previous)
    return 0


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Waits for a command, which gets the signals that this process is sent, and returns its exit status."""

    def forward(number: int, frame: Any) -> None:
        # A terminal sends Ctrl-C to the command itself.
        if number != signal.SIGINT or not _is_in_foreground():
            process.send_signal(number)

    numbers = [signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    for number, handler in previous.items():
        if handler != signal.SIG_IGN:
            signal.signal(number, forward)
    try:
        status = process.wait()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return status if status >= 0 else 128 - status


def _is_in_foreground() -> bool:
    with contextlib.suppress(OSError), open("/dev/tty") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False
