"""The demo's fourth job: digits through two levels that learn without labels, Sanger's rule and then BCM."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from torch_hrr._plain import hierarchy as plain
from torch_hrr.demos import digits
from torch_hrr.demos.figure import Bar, Panel, draw_grid
from torch_hrr.demos.table import Outcome, Row, Timing, in_turn
from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, HierarchyManager, ReactiveLayer, plastic_scan

PIXELS = digits.PIXELS
COMPONENTS, UNITS, EPOCHS = 32, 256, 20


@dataclass(frozen=True)
class HierarchyResult:
    """What the job measured.

    Attributes:
        accuracy: Of a ridge read-out on the test half, by what it reads.
        cosines: Of the first six filters with the principal components of the training half.
        seconds: Of all learning.
        ticks: How often a level learned.
        timing: Of an epoch of the first level.
        figure: Where the filters were drawn, None without matplotlib.
    """

    accuracy: dict[str, float]
    cosines: list[float]
    seconds: float
    ticks: int
    timing: Timing
    figure: Path | None


def first_level(seed: int) -> HierarchicalLevel:
    """Principal components, learned one image at a time."""
    level = HierarchicalLevel(0, PIXELS, COMPONENTS)
    level.add_layer(HebbianCore(PIXELS, COMPONENTS, "gha", lr=1e-2, activation="linear", seed=seed, device="cpu"))
    return level


def second_level(deviations: Tensor, seed: int) -> HierarchicalLevel:
    """Components brought to one scale, then units that become selective."""
    level = HierarchicalLevel(1, COMPONENTS, UNITS)
    scale = ReactiveLayer(COMPONENTS, COMPONENTS, activation="linear", seed=seed, device="cpu")
    scale.weight.copy_(torch.diag(1 / (deviations * COMPONENTS**0.5)))
    level.add_layer(scale)
    level.add_layer(HebbianCore(COMPONENTS, UNITS, "bcm", lr=2e-3, activation="linear", seed=seed + 1, device="cpu"))
    return level


def draw_filters(filters: Tensor, path: Path) -> Path | None:
    """Draws the first level's filters; None where matplotlib is not installed."""

    def draw(axes: Any, weights: Tensor) -> None:
        axes.imshow(weights.tolist(), cmap="RdBu")
        axes.set(xticks=[], yticks=[])

    return draw_grid(filters.reshape(4, 8, 8, 8), draw, (1.0, 1.0), path)


def time_epoch(images: Tensor, filters: Tensor) -> Timing:
    """An epoch of Sanger's rule from the filters given, beside a loop over the images in torch."""
    arguments: dict[str, Any] = {"rule": "gha", "lr": 1e-2, "activation": "linear"}
    taken = in_turn(
        lambda _: plastic_scan(images, filters, **arguments),
        lambda _: plain.plastic_scan(images, filters, **arguments),
    )
    return taken.timing(f"{len(images)} images learned by Sanger's rule", "a loop over the images in torch")


def learn_digits(seed: int, output: Path, epochs: int = EPOCHS) -> HierarchyResult:
    """Learns the filters of digits without their labels; a read-out then learns the labels."""
    grey, labels = digits.load_digits()
    generator = torch.Generator().manual_seed(seed)
    train, test = digits.halves_of(len(labels), generator)
    images = grey.float() / (digits.GREY_LEVELS - 1)
    images = images - images[train].mean(0)

    def accuracy(features: Tensor) -> float:
        predicted = digits.ridge_readout(features[train], labels[train], features[test])
        return digits.accuracy(predicted, labels[test])

    manager = HierarchyManager()
    manager.add_level(first_level(seed))
    bar = digits.progress_bar(2 * epochs, "learning")
    seconds = 0.0

    def learn(data: Tensor) -> None:
        nonlocal seconds
        for _ in range(epochs):
            shuffled = data[torch.randperm(len(data), generator=generator)]
            start = time.perf_counter()
            manager.levels[-1].process(shuffled)
            seconds += time.perf_counter() - start
            bar.update(1)

    found = {"raw pixels": accuracy(images)}
    learn(images[train])
    components = manager.process_hierarchy(images, learn=False)[0]
    found[f"{COMPONENTS} components of Sanger's rule"] = accuracy(components)
    manager.add_level(second_level(components[train].std(0), seed))
    untrained = manager.process_hierarchy(images, learn=False)[1]
    found[f"then {UNITS} units, before learning"] = accuracy(untrained)
    learn(components[train])
    bar.close()
    found[f"then {UNITS} units, BCM"] = accuracy(manager.process_hierarchy(images, learn=False)[1])
    filters = manager.levels[0].layers[0].weight
    exact = torch.linalg.eigh(torch.cov(images[train].double().T)).eigenvectors.flip(-1).T
    cosines = torch.cosine_similarity(filters[:6].double(), exact[:6]).abs()
    return HierarchyResult(
        found,
        cosines.tolist(),
        seconds,
        2 * epochs * len(train),
        time_epoch(images[train], filters),
        draw_filters(filters, output / "hierarchy-filters.png"),
    )


def report(result: HierarchyResult) -> str:
    """The result as a table."""
    rows = [f"{'ridge read-out of':<44}{'accuracy':>9}"]
    rows += [f"{name:<44}{value:>9.3f}" for name, value in result.accuracy.items()]
    cosines = ", ".join(f"{value:.3f}" for value in result.cosines)
    rows += [
        "",
        f"cosines of the first six filters with the principal components: {cosines}",
        f"{result.ticks} ticks of learning in {result.seconds:.2f} s",
        f"filters: {result.figure or 'not drawn: pip install matplotlib'}",
    ]
    return "\n".join(rows)


def panel(result: HierarchyResult) -> Panel:
    """The accuracies, for the picture."""
    bars = [Bar(name, value, ours=name != "raw pixels") for name, value in result.accuracy.items()]
    return Panel("Digits through levels that learn without labels: share recognised", 1.0, 3, bars)


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
    result = learn_digits(options.seed, options.output)
    print("\ndigits through a hierarchy that learns without labels; a linear read-out of each level\n")
    print(report(result))
    *_, untrained, learned = result.accuracy.values()
    row = Row("hierarchy", "digits, no labels", f"{learned:.3f}", f"{untrained:.3f} before learning", result.timing)
    return Outcome(panel(result), [row])
