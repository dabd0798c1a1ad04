"""README's picture: times over D, errors over the position, an assembly that settles, brains that learn.

    python bench/overview.py                          measures, with `pip install torch-hd` and gymnasium: ten minutes
    python bench/overview.py --only errors settling   measures these anew and keeps the others
    python bench/overview.py --draw                   draws what was measured before

Numbers go to bench/results/overview.json, the picture to docs/overview.svg. Errors, the assembly and the returns are
the same at every run; times are of this machine.
"""

import argparse
import functools
import hashlib
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import hrr, run  # noqa: E402
from bench.agreement import check_agreement  # noqa: E402
from bench.entry import Peer, rows_of  # noqa: E402
from bench.timing import Candidate, Settings, run_rounds  # noqa: E402
from torch_hrr.assembly import Brain  # noqa: E402
from torch_hrr.hrr import bind_normalize  # noqa: E402

RESULTS, PICTURE = ROOT / "bench" / "results" / "overview.json", ROOT / "docs" / "overview.svg"
LENGTHS = (64, 100, 128, 256, 500, 512, 1000, 1009, 1024, 2000, 2048, 3000, 4096, 5000, 8192, 10000)
ROWS = 100
NEURONS, WINNERS, DENSITY, ROUNDS = 100_000, 317, 0.01, 25
PLASTICITIES = (0.0, 0.01, 0.05, 0.1)
ENVIRONMENT, EPISODES, LIVES = "CartPole-v1", 200, 5
LEARNERS = ("random actions", "linear read-out", "tile code", "field brain")
SMOOTHED = 10
COLOURS = {"ours": "tab:blue", "torch": "tab:orange", "torchhd": "tab:green"}


class ProcessorClock:
    """Processor time of a call on one thread, to which other work on the machine adds little."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call

    def seconds(self, calls: int) -> float:
        begin = time.process_time()
        for _ in range(calls):
            self._call()
        return (time.process_time() - begin) / calls


def times() -> dict[str, Any]:
    """Microseconds of `bind_normalize` over D, one thread: ours, torch.fft and torchhd in turn, the best of rounds."""
    settings = Settings(rounds=60, block_seconds=0.002, threads=1, device="cpu", cold=False, compile=False, seed=0)
    torch.set_num_threads(1)
    torchhd = hrr.torchhd_peers("bind_normalize")
    if not torchhd:
        raise SystemExit("overview: torchhd must be installed: pip install torch-hd")
    found: dict[str, Any] = {"rows": ROWS, "lengths": LENGTHS, "machine": run.machine(settings)}
    peers = (Peer("ours", bind_normalize), Peer("torch", hrr.bind_normalize_rfft), *torchhd)
    for dim in LENGTHS:
        pair = rows_of((dim,), (dim,))(ROWS, torch.Generator().manual_seed(dim))
        candidates = []
        for peer in peers:
            arguments = tuple(map(peer.prepare, pair)) if peer.prepare else pair
            check_agreement(peer.name, peer.function(*arguments), bind_normalize(*pair))
            clock = ProcessorClock(functools.partial(peer.function, *arguments))
            candidates.append(Candidate(peer.name, "fresh", "warm", clock))
        run_rounds(candidates, settings.rounds, settings.block_seconds, settings.seed)
        for each in candidates:
            found.setdefault(each.name, []).append(round(1e6 * min(each.rounds), 2))
    return found


def errors() -> dict[str, Any]:
    """The largest error of float32 encodings by the size of the position, beside angles in float32: mpmath tells it."""
    import mpmath

    from bench import encoding_accuracy as accuracy

    found: dict[str, Any] = {"positions": accuracy.SIZES[1:], "dim": accuracy.DIM}
    with mpmath.workprec(300):
        for size in accuracy.SIZES[1:]:
            positions = accuracy.near(size)
            expected = accuracy.exact(positions)
            for name, form in (("ours", accuracy.ours), ("torch", accuracy.in_torch)):
                found.setdefault(name, []).append(accuracy.worst(form(torch.float32, positions), expected))
    return found


def settling() -> dict[str, Any]:
    """The share of an area's winners that did not win in the round before, by how much its synapses grow."""
    found: dict[str, Any] = {"n": NEURONS, "k": WINNERS, "p": DENSITY}
    for beta in PLASTICITIES:
        brain = Brain(p=DENSITY, seed=0)
        brain.add_stimulus("s", size=WINNERS)
        brain.add_area("A", n=NEURONS, k=WINNERS, beta=beta)
        shares, before = [], torch.empty(0, dtype=torch.int64)
        for _ in range(ROUNDS):
            brain.project(stimuli={"s": ["A"]}, areas={"A": ["A"]} if len(before) else {}, rounds=1)
            now = brain.winners("A")
            shares.append(1 - torch.isin(now, before).double().mean().item())
            before = now
        found[f"{beta:g}"] = shares
    return found


def learning() -> dict[str, Any]:
    """Returns of episodes by learner, a list for each life; the learners of bench/field_learning.py."""
    from bench import field_learning as field

    torch.set_num_threads(1)
    found: dict[str, Any] = {"environment": ENVIRONMENT}
    for index, label in enumerate(field.LEARNERS):
        if label in LEARNERS:
            job = field.Job("learned", ENVIRONMENT, label, index, LIVES, EPISODES)
            found[label] = [returns for returns, _ in field.lived(job)]
    return found


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "times": times,
    "errors": errors,
    "settling": settling,
    "learning": learning,
}


def draw(found: dict[str, Any], path: Path) -> None:
    """Four panels; text as text, and nothing that differs from run to run."""
    import numpy as np
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    (speed, error), (assembly, brains) = figure.subplots(2, 2)

    rows, lengths = found["times"]["rows"], found["times"]["lengths"]
    for name in ("torchhd", "torch", "ours"):
        label = {"ours": "torch_hrr", "torch": "torch.fft"}.get(name, name)
        speed.plot(lengths, found["times"][name], marker=".", linewidth=1, color=COLOURS[name], label=label)
    speed.set(xscale="log", yscale="log", xlabel="D", ylabel="microseconds", title=f"bind_normalize of {rows} rows")

    for name, label in (("torch", "angles in float32"), ("ours", "torch_hrr")):
        values = found["errors"][name]
        error.plot(found["errors"]["positions"], values, marker=".", linewidth=1, color=COLOURS[name], label=label)
    error.set(xscale="log", yscale="log", xlabel="position", ylabel="largest error", title="Sinusoids in float32")

    for beta, shade in zip(PLASTICITIES, ("0.6", "tab:cyan", "tab:blue", "navy"), strict=True):
        shares = found["settling"][f"{beta:g}"]
        assembly.plot(range(1, len(shares) + 1), shares, linewidth=1, color=shade, label=f"beta {beta:g}")
    n, k = found["settling"]["n"], found["settling"]["k"]
    assembly.set(xlabel="round", ylabel="share of new winners", title=f"An assembly of {k} of {n:,} neurons settles")

    shown = zip(LEARNERS, ("0.6", "tab:green", "tab:orange", "tab:blue"), strict=True)
    kernel = np.ones(SMOOTHED) / SMOOTHED
    for label, colour in shown:
        curves = np.stack([np.convolve(life, kernel, "valid") for life in found["learning"][label]])
        episodes = SMOOTHED + np.arange(curves.shape[1])
        brains.plot(episodes, curves.mean(0).round(2), linewidth=1, color=colour, label=label)
    lives, environment = len(found["learning"][LEARNERS[0]]), found["learning"]["environment"]
    brains.set(xlabel="episode", ylabel=f"return, mean of {lives} lives", title=f"{environment}, learned online")

    for axes in (speed, error, assembly, brains):
        axes.title.set_fontsize("medium")
        # Where a panel is empty.
        place = {assembly: (1, 0.35), brains: (1, 0.7)}.get(axes)
        where = {"loc": "center right", "bbox_to_anchor": place} if place else {"loc": "upper left"}
        axes.legend(fontsize="small", frameon=False, **where)
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "overview"}):
        figure.savefig(path, metadata={"Date": None, "Source": digest(found)})


def digest(found: dict[str, Any]) -> str:
    """Of the numbers, in the picture's metadata: a picture of other numbers is seen by it."""
    return "sha256:" + hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what is asked for and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=tuple(PARTS), help="measure these parts alone")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    options = parser.parse_args(argv)

    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in () if options.draw else options.only:
        found[name] = PARTS[name]()
        # A line for each part.
        parts = ",\n".join(f"{json.dumps(part)}: {json.dumps(value)}" for part, value in sorted(found.items()))
        RESULTS.write_text(f"{{\n{parts}\n}}\n")
    missing = [name for name in PARTS if name not in found]
    if missing:
        parser.error(f"{RESULTS.name} must hold all parts, and {', '.join(missing)} must be measured first")
    draw(json.loads(RESULTS.read_text()), PICTURE)
    print(f"written: {PICTURE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
