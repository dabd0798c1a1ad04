"""The demo's third job: a dynamic field that detects, selects and remembers, and the rate of a field brain."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

from torch_hrr.demos.digits import progress_bar
from torch_hrr.demos.figure import Bar, Panel
from torch_hrr.field import DynamicField, quick_performance_test

SHAPE = (12, 12, 12, 1)
STRONGER, WEAKER = (3, 4, 9), (9, 8, 3)
# Strength of the stimuli and steps of each part of a run.
PARTS = {"two weak stimuli": (3.0, 40), "two strong ones": (6.0, 40), "both gone": (0.0, 80)}
# Excitation that lets a peak go with its stimulus, and one that carries itself.
EXCITATIONS = {"20": 20.0, "30": 30.0}


@dataclass(frozen=True)
class FieldResult:
    """What the job measured.

    Attributes:
        peaks: By excitation and part, the share of runs that end with one peak at the stronger stimulus.
        performance: As `quick_performance_test` returns it.
    """

    peaks: dict[tuple[str, str], float]
    performance: dict[str, Any]


def run_once(excitation: float, seed: int) -> list[bool]:
    """Whether the field has decided on the stronger stimulus, and on nothing else, after each part."""
    dynamic = DynamicField(
        SHAPE, excitation=excitation, sigma_excitation=1.5, global_inhibition=0.04, noise=0.5, tau=5.0, seed=seed
    )
    stimuli = dynamic.stimulus(STRONGER, 2.0, 1.1) + dynamic.stimulus(WEAKER, 2.0)
    decided = []
    for strength, steps in PARTS.values():
        dynamic.step(strength * stimuli, steps)
        peaks = dynamic.peaks()
        decided.append(len(peaks) == 1 and math.dist(peaks[0].position, STRONGER) < 2)
    return decided


def decide(runs: int, seed: int, cycles: int = 20) -> FieldResult:
    """The field in so many runs, each with noise of its own, and then the brain."""
    shares: dict[tuple[str, str], float] = {}
    bar = progress_bar(len(EXCITATIONS) * runs, "deciding")
    for name, excitation in EXCITATIONS.items():
        found = []
        for number in range(runs):
            found.append(run_once(excitation, seed + number))
            bar.update(1)
        for index, part in enumerate(PARTS):
            shares[name, part] = sum(each[index] for each in found) / runs
    bar.close()
    return FieldResult(shares, quick_performance_test(cycles, seed=seed))


def report(result: FieldResult) -> str:
    """The result as tables."""
    rows = [f"{'one peak, at the stronger of two stimuli':<44}" + "".join(f"{part:>19}" for part in PARTS)]
    for name in EXCITATIONS:
        shares = "".join(f"{result.peaks[name, part]:>19.2f}" for part in PARTS)
        rows.append(f"{f'dynamic field, excitation {name}':<44}{shares}")
    measured = result.performance
    rows.append(
        f"field brain of the default size on {measured['device']}: {measured['cycle_ms']:.3f} ms a cycle, "
        f"{measured['hz']:.0f} Hz, {measured['peak_mb']:.1f} MiB; in plain torch {measured['eager_ms']:.1f} ms"
    )
    return "\n".join(rows)


def panel(result: FieldResult) -> Panel:
    """The decisions, for the picture."""
    bars = [
        Bar(f"excitation {name}, {part}", result.peaks[name, part], ours=True) for name in EXCITATIONS for part in PARTS
    ]
    return Panel("Dynamic field: share of runs with one peak, at the stronger of two stimuli", 1.0, 2, bars)


def run(options: argparse.Namespace) -> Panel:
    """Runs the job, prints its results, and gives those for the picture."""
    result = decide(options.runs, options.seed)
    print(f"\n{options.runs} runs of a dynamic field of {SHAPE[0]}^3 places under noise, and a field brain\n")
    print(report(result))
    return panel(result)
