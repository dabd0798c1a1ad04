"""Long calls: they say how far they are, and Ctrl-C ends them between two parts, never within one."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

Tick = Callable[[int, int], Any]
"""Is called with the number of steps done and of all."""
Progress = Tick | bool | None
"""What calls take as ``progress``: a function, True for a bar on stderr, None or False for nothing."""

# Seconds: what runs in one part, what a part should take, and the least share of what a step was expected to take.
_SHORT, _PART, _LEAST = 0.1, 0.2, 0.25


def unseen(done: int, total: int) -> None:
    """Where nobody wants to know."""


def ticking(op: str, progress: Any, argument: str = "progress") -> Tick:
    """What a call named `op` is to call after each part; TypeError unless `progress` is what `Progress` says."""
    if progress is None or progress is False:
        return unseen
    if progress is True:
        return _Bar(op)
    if not callable(progress):
        raise TypeError(f"{op}: {argument} must be a function, a bool or None, got {type(progress).__name__}")
    tick: Tick = progress
    return tick


class _Bar:
    """A bar of tqdm, or where that is missing a line of numbers, on stderr."""

    def __init__(self, op: str) -> None:
        self._op, self._bar = op, None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            with contextlib.suppress(ImportError):
                self._bar = importlib.import_module("tqdm.auto").tqdm(total=total, desc=self._op)
        if self._bar is None:
            print(f"\r{self._op}: {done}/{total}", end="\n" if done >= total else "", file=sys.stderr, flush=True)
            return
        self._bar.update(done - self._bar.n)
        if done >= total:
            self._bar.close()


def is_long(seconds: float) -> bool:
    """Whether a call that takes so long may be cut."""
    return seconds > _SHORT


def in_parts(
    op: str,
    steps: int,
    seconds: float,
    run: Callable[[int], Any],
    tick: Tick,
    before: int = 0,
    total: int | None = None,
    most: int = sys.maxsize,
    least: int = 1,
) -> None:
    """Runs steps, in parts of about a fifth of a second if they may take more than a tenth in all.

    Args:
        op: Name of the call.
        steps: How many.
        seconds: What one is expected to take at most; what parts took corrects it.
        run: Runs that many more steps. SIGINT has its effect when it has returned: nothing is left half done.
        tick: Is called after every part with the number of steps done and of all.
        before: Steps of the same call that were done before.
        total: Steps of the call, if there are others after these.
        most: Steps of a part.
        least: Steps of a part but the last; the same as `most` where the time must not decide.

    A KeyboardInterrupt carries a note that says how many steps were done.
    """
    done, end = before, before + steps
    total = end if total is None else total
    short = steps * seconds <= _SHORT
    if short and steps <= most:
        run(steps)
        tick(end, total)
        return
    expected = seconds
    try:
        while done < end:
            part = min(end - done, max(min(most, int(_PART / max(seconds, 1e-9))), least))
            start = time.perf_counter()
            with contextlib.nullcontext() if short else interrupts_held_back():
                run(part)
                done += part
            # What came to rest may move again: no part is so long that this would be felt.
            seconds = max((time.perf_counter() - start) / part, expected * _LEAST)
            tick(done, total)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(f"{op}: {done} of {total} are done")
        raise


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Within it SIGINT waits; its handler is called at the end. In other threads than the main one nothing changes."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    caught: list[Any] = []
    signal.signal(signal.SIGINT, lambda *arguments: caught.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if caught:
            handler(*caught[0])
