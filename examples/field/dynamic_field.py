"""A dynamic field decides where something is: detection, selection, and memory when it is gone.

Two objects appear in a volume of 16 x 16 x 16 places, one a little stronger; the field sees them through noise. Weak,
they leave no trace; strong, one of them is selected, and where excitation carries itself it is remembered when both are
gone.

Run: python examples/field/dynamic_field.py --animation run.gif
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from torch_hrr.field import DynamicField, plot

STRONGER, WEAKER = (4, 5, 12), (11, 10, 4)
# Strength of the stimuli and steps of each part of the run.
PARTS = {"weak": (3.0, 60), "strong": (6.0, 60), "gone": (0.0, 240)}


def error(dynamic: DynamicField) -> float:
    """How far the one peak is from the stronger object, in places; infinite without one, or with several."""
    peaks = dynamic.peaks()
    return math.dist(peaks[0].position, STRONGER) if len(peaks) == 1 else math.inf


def run(excitation: float, noise: float, seed: int) -> tuple[dict[str, tuple[int, float]], list[Tensor]]:
    """How many peaks there are after each part, and the error; and the activation after every fourth step."""
    dynamic = DynamicField(
        (16, 16, 16, 1),
        excitation=excitation,
        sigma_excitation=1.5,
        global_inhibition=0.04,
        noise=noise,
        tau=5.0,
        seed=seed,
    )
    objects = dynamic.stimulus(STRONGER, 2.0, 1.1) + dynamic.stimulus(WEAKER, 2.0)
    results, frames = {}, []
    for part, (strength, steps) in PARTS.items():
        for _ in range(steps // 4):
            dynamic.step(strength * objects, 4)
            frames.append(dynamic.activation)
        results[part] = (len(dynamic.peaks()), error(dynamic))
    return results, frames


def main(argv: Sequence[str] | None = None) -> dict[str, tuple[int, float]]:
    """Prints the number of peaks and the error after each part, and returns them by excitation and part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--excitation", type=float, nargs="+", default=[20.0, 30.0])
    parser.add_argument("--noise", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--animation", type=Path, help="where to write the last run as a GIF; needs matplotlib")
    options = parser.parse_args(argv)

    results = {}
    for excitation in options.excitation:
        parts, frames = run(excitation, options.noise, options.seed)
        for part, (count, distance) in parts.items():
            results[f"{excitation:g}, {part}"] = (count, distance)
            print(f"  excitation {excitation:g}, stimuli {part:<8} peaks {count}   error {distance:.3f}")
    if options.animation is not None:
        plot.save_animation(torch.stack(frames), options.animation)
        print(f"written: {options.animation}")
    return results


if __name__ == "__main__":
    main()
