"""Targets that were set for a system, and what is measured beside them: one row each, as data."""

import importlib.util
import itertools
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from bench.agreement import check_agreement
from bench.entry import Inputs, aligned
from bench.timing import Candidate, CpuClock, CudaClock, Settings, ratio, run_rounds

T = TypeVar("T")
COLUMNS = (
    ("what", 36), ("device", 6), ("target", 8), ("result", 12), ("met?", 4), ("torch", 11), ("baseline", 11),
    ("aim", 5), ("speed-up", 8), ("met?", 4),
)  # fmt: skip
NEEDS_A_GPU = "needs a GPU"


@dataclass(frozen=True)
class Work:
    """Something to time, with the forms that it is compared with."""

    name: str  # unique, "bind 100x512"
    inputs: Callable[[torch.Generator], Inputs]  # generator -> the arguments, on the CPU
    ours: Callable[..., Any]  # takes the arguments
    torch_forms: Mapping[str, Callable[..., Any]]  # by name, the same in torch
    baseline: Callable[..., Any]  # the same in NumPy, one vector at a time
    batched: Callable[..., Any] | None = None  # the same in NumPy at once, where that is another form


@dataclass(frozen=True)
class Measured:
    """What was found for a target."""

    value: float  # seconds or a fraction, in the unit of the target
    torch: dict[str, Any] | None = None  # the best torch form and the ratio to it: `peer`, `seconds`, `ratio`
    baseline_seconds: float | None = None  # of what the speed-up refers to
    speedup: float | None = None  # baseline time / our time, the median over the rounds
    note: str = ""  # what a reader has to know besides
    candidates: Sequence[Candidate] = ()  # everything that was timed for it


def beside(
    found: Mapping[str, Candidate], baseline: str | Candidate | None, note: str = "", ours: str = "ours"
) -> Measured:
    """Our time and how many times longer a baseline takes, where there is one."""
    own, timed = found[ours], tuple(found.values())
    other = found.get(baseline) if isinstance(baseline, str) else baseline
    if other is None:
        return Measured(own.median, note=note, candidates=timed)
    return Measured(own.median, None, other.median, ratio(other, own)[0], note, timed)


def in_units(session: "Session", functions: Mapping[str, Callable[[], Any]], per_unit: float = 1.0) -> Measured:
    """How many times "ours" takes the device's time of the others, the slowest of them: a call is `per_unit` units."""
    found = session.times(functions, events=functions)
    seconds = {name: found[f"{name} on the device"].median for name in functions}
    unit = max((name for name in functions if name != "ours"), key=lambda name: seconds[name])
    note = f"{milliseconds(seconds['ours'])}, {unit} {milliseconds(seconds[unit])}"
    return Measured(per_unit * seconds["ours"] / seconds[unit], note=note, candidates=tuple(found.values()))


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile for one shape."""
    result: Callable[..., Any] = torch.compile(function, dynamic=False)
    return result


@dataclass(frozen=True)
class Target:
    """One row: what was asked for, and how it is measured."""

    what: str  # unique; "target " and this is what --filter matches
    run: str  # what is run
    measure: Callable[["Session"], Measured]
    limit: float | None = None  # the largest result that meets the target; None where none was set
    unit: Literal["s", "%", "x"] = "s"  # of limit and result: seconds, a fraction shown in percent, or a factor
    speedup: float | None = None  # the least over the baseline that was asked for, if any
    baseline: str | None = None  # what the speed-up refers to, in words
    expected_baseline: float | None = None  # seconds that it was expected to take when the targets were set
    needs_gpu: bool = False  # there is nothing to measure without one

    @property
    def name(self) -> str:
        """What --filter matches: "target single bind"."""
        return f"target {self.what}"


def gpu_target(what: str, run: str, measure: Callable[["Session"], Measured], limit: float) -> Target:
    """A row in units of what a GPU needs at least, which only a GPU has."""
    return Target(what, run, measure, limit, "x", needs_gpu=True)


class Session:
    """Times what the targets of one run need, once however many of them refer to it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._known: dict[Hashable, Any] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gave when it was first called for `key`."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def times(
        self,
        functions: Mapping[str, Callable[[], Any]],
        host: Collection[str] = (),
        events: Collection[str] = (),
    ) -> dict[str, Candidate]:
        """Times functions in interleaved rounds by the wall clock, on CUDA from an idle device to an idle device.

        Those named in `host` leave the device alone, so that nothing has to be waited for; of those in `events` the
        device's own time is wanted too, and on CUDA "NAME on the device" has it.
        """
        s = self.settings
        candidates: dict[str, Candidate] = {}
        for name, function in functions.items():
            names = {"f": function, "wait": torch.cuda.synchronize}
            statement = "f(); wait()" if s.cuda and name not in host else "f()"
            candidates[name] = Candidate(name, "fresh", "warm", CpuClock(statement, names, s.threads))
            if s.cuda and name in events:
                on_device = f"{name} on the device"
                candidates[on_device] = Candidate(on_device, "fresh", "warm", CudaClock("f()", names, s.threads))
        run_rounds(list(candidates.values()), s.rounds, s.block_seconds, s.seed)
        return candidates

    def work(self, work: Work) -> dict[str, Candidate]:
        """Times a work: "ours", its torch forms, and "baseline" and "batched" where NumPy is installed."""
        return self.once(work.name, partial(self._work, work))

    def _work(self, work: Work) -> dict[str, Candidate]:
        on_host = work.inputs(torch.Generator().manual_seed(self.settings.seed))
        inputs = tuple(x.to(self.settings.device) for x in on_host)
        functions = {"ours": partial(work.ours, *inputs)}
        functions |= {name: partial(form, *inputs) for name, form in work.torch_forms.items()}
        if importlib.util.find_spec("numpy") is not None:
            arrays = tuple(x.numpy() for x in on_host)
            functions["baseline"] = partial(work.baseline, *arrays)
            if work.batched is not None:
                functions["batched"] = partial(work.batched, *arrays)
        ours = _on_host(functions["ours"]())
        for name, function in functions.items():
            check_agreement(name, _on_host(function()), ours)
        return self.times(functions, host=("baseline", "batched"), events=("ours",))


def _on_host(result: Any) -> tuple[Tensor, ...]:
    """Tensors or arrays as tensors of float32 on the CPU."""
    results = result if isinstance(result, tuple) else (result,)
    return tuple(torch.as_tensor(each).to("cpu", torch.float32) for each in results)


def timed(session: Session, *, work: Work) -> Measured:
    """The time of a work beside the best torch form and NumPy."""
    found = session.work(work)
    ours = found["ours"]
    form = min((found[name] for name in work.torch_forms), key=lambda c: c.median)
    notes = [f"{ratio(form, ours)[0]:.2f}x over torch"]
    if "batched" in found:
        notes.append(f"{ratio(found['batched'], ours)[0]:.3g}x over one NumPy call for all")
    if "ours on the device" in found:
        notes.append(f"{milliseconds(found['ours on the device'].median)} on the device")
    best = {"peer": form.name, "seconds": form.median, "ratio": ratio(form, ours)[0]}
    return replace(beside(found, "baseline", ", ".join(notes)), torch=best)


def growth(session: Session, *, works: Sequence[Work]) -> Measured:
    """The largest factor between the times of two works that follow each other."""
    seconds = [session.work(work)["ours"].median for work in works]
    factors = [later / earlier for earlier, later in itertools.pairwise(seconds)]
    steps = ", ".join(f"{factor:.3g}x" for factor in factors)
    return Measured(max(factors), note=f"steps of {steps}; {seconds[-1] / seconds[0]:.3g}x from first to last")


def measure_target(target: Target, session: Session) -> dict[str, Any]:
    """The row of a target: what was asked, what was found, and whether that is enough."""
    row: dict[str, Any] = {
        "name": target.name, "run": target.run, "device": session.settings.device, "status": "measured", "error": None,
        "unit": target.unit, "target": target.limit, "result": None, "met": None, "torch": None,
        "baseline": {"what": target.baseline, "expected_seconds": target.expected_baseline, "seconds": None},
        "speedup": {"target": target.speedup, "measured": None, "met": None}, "note": "", "candidates": [],
    }  # fmt: skip
    if target.needs_gpu and not session.settings.cuda:
        return row | {"status": NEEDS_A_GPU}
    try:
        found = target.measure(session)
    except Exception as error:
        return row | {"status": "error", "error": f"{type(error).__name__}: {error}"}
    row["baseline"]["seconds"] = found.baseline_seconds
    row["speedup"]["measured"] = found.speedup
    if target.speedup is not None and found.speedup is not None:
        row["speedup"]["met"] = found.speedup >= target.speedup
    return row | {
        "result": found.value,
        "met": None if target.limit is None else found.value <= target.limit,
        "torch": found.torch,
        "note": found.note,
        "candidates": [{"name": c.name, "calls": c.calls, "rounds": c.rounds} for c in found.candidates],
    }


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4g} ms"


def heading(settings: Settings, text: str | None = None) -> str:
    """What the table says, `text` where a system has one of its own, and its first line."""
    usual = (
        f"Targets, which were set for a GPU; measured here: {settings.device}.\n"
        "Baseline: NumPy on the CPU, one vector at a time, same float32 input; of a pinned copy: the same, pageable."
    )
    return f"\n{text or usual}\n{_line([name for name, _ in COLUMNS], 'note')}"


def format_target(row: Mapping[str, Any]) -> str:
    what = row["name"].removeprefix("target ")
    if row["error"]:
        return f"{what:<36} {row['device']:<6} ERROR {row['error']}"
    baseline, speedup = row["baseline"]["seconds"], row["speedup"]

    def amount(value: float | None, unit: str) -> str:
        if value is None:
            return "-"
        return {"s": milliseconds(value), "%": f"{value * 100:.3g} %", "x": f"{value:.3g}x"}[unit]

    def answer(met: bool | None) -> str:
        return "-" if met is None else "yes" if met else "no"

    result = amount(row["result"], row["unit"]) if row["status"] == "measured" else row["status"]
    cells = (
        what, row["device"], amount(row["target"], row["unit"]), result, answer(row["met"]),
        amount(row["torch"] and row["torch"]["seconds"], "s"), amount(baseline, "s"),
        amount(speedup["target"], "x"), amount(speedup["measured"], "x"), answer(speedup["met"]),
    )  # fmt: skip
    return _line(cells, row["note"])


def _line(cells: Sequence[str], note: str) -> str:
    return f"{aligned(cells, COLUMNS, 2)}  {note}".rstrip()
