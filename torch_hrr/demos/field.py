"""The demo's third job: a dynamic field that detects, selects and remembers, and the rate of a field brain."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from dataclasses import dataclass

from torch_hrr.demos.digits import progress_bar
from torch_hrr.demos.figure import Bar, Panel
from torch_hrr.demos.table import Outcome, Row, Taken, Timing, brief, in_turn
from torch_hrr.field import DynamicField, FieldBrain, create_brain

SHAPE = (12, 12, 12, 1)
STRONGER, WEAKER = (3, 4, 9), (9, 8, 3)
# Strength of the stimuli and steps of each part of a run.
PARTS = {"two weak stimuli": (3.0, 40), "two strong ones": (6.0, 40), "both gone": (0.0, 80)}
# Excitation that lets a peak go with its stimulus, and one that carries itself.
EXCITATIONS = {"20": 20.0, "30": 30.0}
# Of a brain, timed at once.
CYCLES = 10


@dataclass(frozen=True)
class FieldResult:
    """What the job measured.

    Attributes:
        peaks: By excitation and part, the share of runs that end with one peak at the stronger stimulus.
        deciding: The steps of one run.
        cycles: `CYCLES` cycles of a brain, beside those of one whose operators are compositions in plain torch.
        device: Where the brain was.
    """

    peaks: dict[tuple[str, str], float]
    deciding: Timing
    cycles: Taken
    device: str


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


def time_cycles(brain: FieldBrain, twin: FieldBrain, rounds: int) -> Taken:
    """`CYCLES` cycles of a brain, and of its twin in plain torch."""
    twin.eager = True
    sensory = [0.1] * brain.sensory_dim

    def run(each: FieldBrain) -> None:
        for _ in range(CYCLES):
            each.process_robot_cycle(sensory)

    return in_turn(lambda _: run(brain), lambda _: run(twin), rounds, brain.device)


def decide(runs: int, seed: int, rounds: int = 11) -> FieldResult:
    """The field in so many runs, each with noise of its own, and then the brain."""
    shares: dict[tuple[str, str], float] = {}
    bar = progress_bar(len(EXCITATIONS) * runs, "deciding")
    start = time.perf_counter()
    for name, excitation in EXCITATIONS.items():
        found = []
        for number in range(runs):
            found.append(run_once(excitation, seed + number))
            bar.update(1)
        for index, part in enumerate(PARTS):
            shares[name, part] = sum(each[index] for each in found) / runs
    bar.close()
    steps = sum(steps for _, steps in PARTS.values())
    deciding = Timing(f"{steps} steps of a run", (time.perf_counter() - start) / (len(EXCITATIONS) * runs))
    brain, twin = create_brain(seed=seed), create_brain(seed=seed)
    return FieldResult(shares, deciding, time_cycles(brain, twin, rounds), str(brain.device))


def report(result: FieldResult) -> str:
    """The result as tables."""
    rows = [f"{'one peak, at the stronger of two stimuli':<44}" + "".join(f"{part:>19}" for part in PARTS)]
    for name in EXCITATIONS:
        shares = "".join(f"{result.peaks[name, part]:>19.2f}" for part in PARTS)
        rows.append(f"{f'dynamic field, excitation {name}':<44}{shares}")
    ours, theirs = (statistics.median(seconds) / CYCLES for seconds in result.cycles)
    rows.append(
        f"field brain of the default size on {result.device}: {brief(ours)} a cycle, {1 / ours:.0f} Hz; "
        f"in plain torch {brief(theirs)}"
    )
    return "\n".join(rows)


def panel(result: FieldResult) -> Panel:
    """The decisions, for the picture."""
    bars = [
        Bar(f"excitation {name}, {part}", result.peaks[name, part], ours=True) for name in EXCITATIONS for part in PARTS
    ]
    return Panel("Dynamic field: share of runs with one peak, at the stronger of two stimuli", 1.0, 2, bars)


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
    result = decide(options.runs, options.seed)
    print(f"\n{options.runs} runs of a dynamic field of {SHAPE[0]}^3 places under noise, and a field brain\n")
    print(report(result))
    (_, strong), last = EXCITATIONS, list(PARTS)[-1]
    rate, plain = (CYCLES / statistics.median(seconds) for seconds in result.cycles)
    rows = [
        Row(
            "field",
            "decisions remembered",
            f"{result.peaks[strong, last]:.2f}",
            "-",
            result.deciding,
        ),
        Row(
            "field",
            "robot cycles a second",
            f"{rate:.0f}",
            f"{plain:.0f} in torch",
            result.cycles.timing(f"{CYCLES} cycles of a field brain", "its operators composed in torch"),
        ),
    ]
    return Outcome(panel(result), rows)
