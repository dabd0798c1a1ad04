"""Targets of exact and sampled brains: projections at full size, late rounds, memory, batches."""

import gc
import importlib
import importlib.util
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.agreement import Disagreement
from bench.assembly import normal_rows
from bench.targets import Measured, Session, Target, gpu_target, in_units
from torch_hrr.assembly import Brain, k_winners

HEADING = "Baseline: a NumPy simulator that keeps the rows of every neuron that ever fired (bench/assembly_peers.py)."
N, K, P, BETA, ROUNDS = 1_000_000, 1000, 0.01, 0.05, 20
OPTION_N, OPTION_K, OPTION_P = 100_000, 317, 0.01
README_ROUNDS = 25
# Of a selection on a GPU: reads of its rows.
GPU_READS = 2.5
SMALL_N, SMALL_K, SMALL_BATCH, SMALL_ROUNDS = 10_000, 100, 64, 25
# Of a GPU: a round of a brain that a captured call replays, and the exact projection beside one core.
REPLAYED_N, REPLAYED_K, REPLAYED_ROUNDS, REPLAYED_SECONDS = 2000, 45, 10, 20e-6
OVER_ONE_CORE = 5.0
RECURRENT: dict[str, Any] = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A"]}}


def new_brain(
    n: int, k: int, p: float, mode: str = "exact", seed: int = 0, batch: int | None = None, device: str = "cpu",
    **options: Any,
) -> Brain:  # fmt: skip
    """A stimulus of k neurons and one area, with its options."""
    brain = Brain(p=p, seed=seed, mode=mode, batch=batch, device=device)
    brain.add_stimulus("s", size=k)
    brain.add_area("A", n=n, k=k, beta=BETA, **options)
    return brain


def projected(rounds: int, *arguments: Any, **options: Any) -> Brain:
    """A new brain after so many rounds, declarations and the stimulus's draw included."""
    brain = new_brain(*arguments, **options)
    brain.project(**RECURRENT, rounds=rounds)
    return brain


def projection(mode: str, seed: int = 0, device: str = "cpu") -> Brain:
    """The projection of the issue."""
    return projected(ROUNDS, N, K, P, mode, seed, device=device)


def numpy_projection(form: str, seed: int = 0) -> Any:
    """The same by a NumPy simulator, on a graph of its own."""
    brain = getattr(importlib.import_module("bench.assembly_peers"), form)(N, K, P, BETA, K, seed)
    brain.project(ROUNDS)
    return brain


def seconds(function: Callable[[], Any]) -> float:
    """Of one call, until the device has done its part."""
    gc.collect()
    start = time.perf_counter()
    function()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def interleaved(
    session: Session, functions: Mapping[str, Callable[[int], Any]], most: Mapping[str, int] | None = None
) -> dict[str, float]:
    """Median seconds of calls with different seeds, at most so many of each, in turns after one call to warm up."""
    limits = dict.fromkeys(functions, 99) | dict(most or {})
    found: dict[str, list[float]] = {name: [] for name in functions}
    for name, function in functions.items():
        if limits[name] > 1:
            function(99)
    for seed in range(session.settings.rounds):
        for name, function in functions.items():
            if seed < limits[name]:
                found[name].append(seconds(partial(function, seed)))
    return {name: median(times) for name, times in found.items()}


def compared(found: Mapping[str, float], own: str, baseline: str, note: str = "") -> Measured:
    """Our time beside the baseline's, where that was measured."""
    other = found.get(baseline)
    return Measured(found[own], None, other, other / found[own] if other else None, note)


def projections(session: Session) -> dict[str, float]:
    """Seconds of every way to run the projection."""
    functions: dict[str, Callable[[int], Any]] = {
        mode: partial(projection, mode, device=session.settings.device) for mode in ("exact", "sampled")
    }
    if importlib.util.find_spec("numpy") is not None:
        functions["plain"] = partial(numpy_projection, "PlainNumpyBrain")
        functions["tuned"] = partial(numpy_projection, "NumpyBrain")
    return session.once("projections", lambda: interleaved(session, functions, {"plain": 1, "tuned": 3}))


def readme_projection(session: Session) -> Measured:
    """The README's projection, and the memory of the brain's tensors."""
    arguments = (README_ROUNDS, OPTION_N, OPTION_K, OPTION_P)

    def project(seed: int) -> Brain:
        return projected(*arguments, seed=seed, device=session.settings.device)

    held = sum(buffer.numel() * buffer.element_size() for buffer in project(0).buffers())
    return Measured(interleaved(session, {"ours": project})["ours"], note=f"{held / 1e6:.1f} MB of tensors")


def projection_time(session: Session, *, mode: str) -> Measured:
    """Twenty rounds beside both NumPy simulators."""
    found = projections(session)
    note = ""
    if "tuned" in found:
        note = f"{found['tuned'] / found[mode]:.1f}x over the tuned NumPy form ({found['tuned']:.2f} s)"
    return compared(found, mode, "plain", note)


def synapse_time(session: Session) -> Measured:
    """Time of the whole projection per synapse of a winner that came or went."""
    brain = new_brain(N, K, P, device=session.settings.device)
    delivered, before = 0, set[int]()
    for _ in range(ROUNDS):
        now = set(brain.winners("A").tolist())
        delivered += round(N * P * min(len(now ^ before), len(now)))
        before = now
        brain.project(**RECURRENT)
    return Measured(projections(session)["exact"] / delivered, note=f"{delivered / 1e6:.0f} million synapses delivered")


def late_rounds(session: Session) -> Measured:
    """A round after thirty, over the selection of k of n counts."""
    brain = projected(30, N, K, P, device=session.settings.device)
    counts = brain.stimulus_counts("s", "A")
    found = interleaved(
        session, {"round": lambda _: brain.project(**RECURRENT, rounds=10), "selection": lambda _: k_winners(counts, K)}
    )
    each = found["round"] / 10
    return Measured(each / found["selection"], note=f"{each * 1e3:.3f} ms a round, {found['selection'] * 1e3:.3f} ms")


# The peak is set back before the brain is made: importing torch has a higher one.
MEMORY_PROGRAM = """
import sys
from bench.assembly_targets import new_brain, RECURRENT
def kib(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name))
small = new_brain(1000, 10, float(sys.argv[2])); small.project(**RECURRENT, rounds=2)
open("/proc/self/clear_refs", "w").write("5")
before = kib("VmRSS")
brain = new_brain(int(sys.argv[1]), 1000, float(sys.argv[2])); brain.project(**RECURRENT, rounds=20)
print((kib("VmHWM") - before) * 1024)
"""


def memory(session: Session, *, p: float) -> Measured:
    """Growth of a process's or device's peak over the projection, less 40 MiB, in bytes a neuron over 100."""
    grown = device_growth(p) if session.settings.cuda else process_growth(p)
    return Measured((grown - (40 << 20)) / N / 100, note=f"{grown / 2**20:.0f} MiB in all, {grown / N:.0f} a neuron")


def device_growth(p: float) -> int:
    """Bytes that torch's tensors took of the device."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    projected(20, N, 1000, p, device="cuda")
    return torch.cuda.max_memory_allocated() - before


def process_growth(p: float) -> int:
    """Bytes that a process of its own took of the memory."""
    command = [sys.executable, "-c", MEMORY_PROGRAM, str(N), str(p)]
    root = Path(__file__).resolve().parents[1]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return int(output)


def small_batch(session: Session) -> Measured:
    """Brains in one batch, beside a loop over them with all rounds in one call each."""
    new_small = partial(new_brain, SMALL_N, SMALL_K, P, device=session.settings.device)

    def loop(_: int, at_once: int) -> None:
        brains = [new_small(seed=seed) for seed in range(SMALL_BATCH)]
        for _ in range(0, SMALL_ROUNDS, at_once):
            for brain in brains:
                brain.project(**RECURRENT, rounds=at_once)

    found = interleaved(
        session,
        {
            "batch": lambda seed: new_small(seed=seed, batch=SMALL_BATCH).project(**RECURRENT, rounds=SMALL_ROUNDS),
            "loop": partial(loop, at_once=1),
            "calls": partial(loop, at_once=SMALL_ROUNDS),
        },
    )
    note = f"{found['loop'] / found['batch']:.2f}x over a loop over brains and single rounds"
    return compared(found, "batch", "calls", note)


def reads(session: Session, *, rows: int, n: int, k: int) -> Measured:
    """A selection in reads of its rows within the device; a copy is a read and a write."""
    (inputs,) = normal_rows(n, rows, torch.Generator().manual_seed(session.settings.seed))
    inputs = inputs.to(session.settings.device)
    copy = partial(torch.empty_like(inputs).copy_, inputs)
    return in_units(session, {"ours": partial(k_winners, inputs, k), "copy": copy}, per_unit=2.0)


def replayed(session: Session) -> Measured:
    """A round of a small brain: the time on the device of a captured call, over its rounds."""
    # Rounds before make the tables and memory for those that follow, in which the winners hardly change.
    brain = projected(30, REPLAYED_N, REPLAYED_K, 0.05, device=session.settings.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        left = brain.project(**RECURRENT, rounds=REPLAYED_ROUNDS)
    found = session.times({"ours": graph.replay}, events=("ours",))
    if bool(left.any()):
        raise Disagreement("the memory of the brain was too small for the rounds that were replayed")
    took = found["ours on the device"].median
    return Measured(took / REPLAYED_ROUNDS, note=f"{REPLAYED_ROUNDS} rounds a call", candidates=tuple(found.values()))


def beside_one_core(session: Session) -> Measured:
    """The exact projection beside the same on one core of the CPU."""
    own = session.settings.device
    functions = {name: partial(projection, "exact", device=name) for name in ("cpu", own)}
    return compared(interleaved(session, functions, {"cpu": 3}), own, "cpu")


def late_ratio(session: Session, brains: Mapping[str, Brain], calls: int, rounds: int) -> Measured:
    """So many calls of late rounds of the first brain over those of the second."""

    def project(brain: Brain, _: int) -> None:
        for _ in range(calls):
            brain.project(**RECURRENT, rounds=rounds)

    found = interleaved(session, {name: partial(project, brain) for name, brain in brains.items()})
    first, second = (took / (calls * rounds) * 1e3 for took in found.values())
    return Measured(first / second, note=f"{first:.3f} ms a round, {second:.3f} ms without")


def plasticity(session: Session) -> Measured:
    """Rounds that learn over the same rounds that do not; the winners hardly change."""
    brains = {name: projected(30, N, K, P, device=session.settings.device) for name in ("learning", "reading")}
    brains["reading"].disable_plasticity()
    return late_ratio(session, brains, 1, 10)


def option_cost(session: Session, rounds: int = 25, **options: Any) -> Measured:
    """Rounds, so many a call, of an area with an option over those of an area without."""
    brains = {
        name: projected(30, OPTION_N, OPTION_K, OPTION_P, device=session.settings.device, **own)
        for name, own in {"with": options, "without": {}}.items()
    }
    return late_ratio(session, brains, 25 // rounds, rounds)


def option_target(what: str, limit: float | None = None, **options: Any) -> Target:
    run = f"n = {OPTION_N}, k = {OPTION_K}, p = {OPTION_P}"
    return Target(what, run, partial(option_cost, **options), limit, "x")


TARGETS: tuple[Target, ...] = (
    Target(
        "exact projection", f"n = {N}, k = {K}, p = {P}, {ROUNDS} rounds", partial(projection_time, mode="exact"),
        limit=0.3, speedup=10, baseline="a NumPy simulator", expected_baseline=5.6,
    ),
    Target(
        "the README's projection", f"n = {OPTION_N}, k = {OPTION_K}, p = {OPTION_P}, {README_ROUNDS} rounds",
        readme_projection,
    ),
    Target("a delivered synapse", "the exact projection", synapse_time, limit=5e-9),
    Target(
        "sampled projection", f"n = {N}, k = {K}, p = {P}, {ROUNDS} rounds", partial(projection_time, mode="sampled"),
        speedup=20, baseline="a NumPy simulator", expected_baseline=5.6,
    ),
    Target("late round over selection", f"n = {N}, k = {K}, p = {P}", late_rounds, unit="x"),
    *(
        Target(f"memory at p = {p:g}", f"n = {N}, over 100 bytes a neuron + 40 MiB", partial(memory, p=p), 1, "x")
        for p in (0.001, 0.01, 0.1)
    ),
    Target(
        "64 small brains", f"n = {SMALL_N}, k = {SMALL_K}, {SMALL_ROUNDS} rounds", small_batch, speedup=5,
        baseline="a loop over brains, one call each",
    ),
    Target("plasticity of a late round", f"n = {N}, k = {K}, p = {P}", plasticity, unit="x"),
    option_target("normalised columns in a late round", 2, normalize=True),
    option_target("normalised columns, a call a round", 2, rounds=1, normalize=True),
    option_target("ties by key in a late round", ties="keyed"),
    *(
        gpu_target(f"k_winners in reads, {rows}x{n}", f"k = {k}", partial(reads, rows=rows, n=n, k=k), GPU_READS)
        for rows, n, k in ((32, 100_000, 316), (32, 1_000_000, 1000))
    ),
    Target(
        "a small brain's round, replayed", f"n = {REPLAYED_N}, k = {REPLAYED_K}", replayed, REPLAYED_SECONDS,
        needs_gpu=True,
    ),
    Target(
        "exact projection, one core", f"n = {N}, k = {K}, p = {P}, {ROUNDS} rounds", beside_one_core,
        speedup=OVER_ONE_CORE, baseline="one core of the CPU", needs_gpu=True,
    ),
)  # fmt: skip


if __name__ == "__main__":
    # The sizes that are run once and recorded: python -m bench.assembly_targets
    torch.set_num_threads(1)
    for n, k, p, rounds in ((10_000_000, 3162, 0.001, 12), (100_000_000, 10_000, 0.0001, 12)):
        large = new_brain(n, k, p)
        took = seconds(partial(large.project, **RECURRENT, rounds=rounds))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(f"n={n} k={k} p={p} {rounds} rounds: {took:.2f} s, support/k {large.support('A') / k:.2f}, "
              f"peak {peak / 2**20:.0f} MiB ({peak / n:.1f} bytes a neuron)", flush=True)  # fmt: skip
        del large
