"""A chaotic laser on three time scales: how strongly it will pulse, read out from one, two and three levels.

The pulses of the Santa Fe laser grow over a hundred steps and collapse. To predict is the mean |change| of the next 64
steps. Levels of a hierarchy tick every 1, 4 and 16 steps and learn by Sanger's rule with rectified outputs, without
knowing the task; the read-out is linear. 6000 steps for training, the other 4000 for testing; figures are
the root mean square error over the standard deviation, means over three draws of the weights.

Run: python examples/hierarchy/laser.py --figure scales.png
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr.demos.sequences import load_laser, nrmse
from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, HierarchyManager

TRAINING = 6000
AHEAD = 64
WINDOW = 8
# A level: its time scale, how it pools what came since its last tick, and its units.
LEVELS = ((1, "last", 16), (4, "mean", 32), (16, "mean", 32))
# Of the read-out, times the number of training steps.
RIDGE = 1e-3
# The first windows reach behind the start of the series.
START = 100


def past(series: Tensor, length: int) -> Tensor:
    """The last values up to every step, [T, length]; zeros stand before the first."""
    return F.pad(series, (length - 1, 0)).unfold(0, length, 1)


def three_scales(seed: int) -> HierarchyManager:
    """Levels as in LEVELS, with rectified outputs."""
    manager, inputs = HierarchyManager(), WINDOW
    for number, (resolution, pool, units) in enumerate(LEVELS):
        level = HierarchicalLevel(
            number, input_size=inputs, output_size=units, temporal_resolution=resolution, pool=pool
        )
        level.add_layer(HebbianCore(inputs, units, rule="gha", lr=1e-3, activation="relu", seed=seed))
        manager.add_level(level)
        inputs = units
    return manager


def read_out(features: Tensor, target: Tensor) -> Tensor:
    """The target after the training part by ridge regression on standardised features."""
    # What is to be predicted before a step may lie AHEAD steps behind it.
    known = slice(START, TRAINING - AHEAD)
    features = features[: len(target)].double()
    features = (features - features[known].mean(0)) / (features[known].std(0) + 1e-9)
    mean, rows = target[known].mean(), features[known]
    gram = rows.T @ rows + RIDGE * len(rows) * torch.eye(rows.shape[1], dtype=rows.dtype)
    weights = torch.linalg.solve(gram, rows.T @ (target[known] - mean))
    return features[TRAINING:] @ weights + mean


def draw(path: Path, filters: Tensor, truth: Tensor, predictions: dict[str, Tensor]) -> None:
    """What the first level learned, and a part of the test."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 2.4))
    for number, row in enumerate(filters):
        left.plot(range(1 - WINDOW, 1), row.tolist(), marker=".", label=str(number + 1))
    left.set(title="First filters of the first level", xlabel="step before now", ylabel="weight")
    left.legend()
    right.plot(truth.tolist(), color="black", label="truth")
    for name, values in predictions.items():
        right.plot(values.tolist(), linewidth=1, label=name)
    right.set(title=f"Mean change of the next {AHEAD} steps", xlabel="step of the test part")
    right.legend()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Prints errors and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--passes", type=int, default=3, help="over the training part, for learning")
    parser.add_argument("--seeds", type=int, default=3, help="draws of the weights")
    parser.add_argument("--figure", type=Path, help="where to draw; needs matplotlib")
    options = parser.parse_args(argv)

    series = load_laser()
    series = (series - series[:TRAINING].mean()) / series[:TRAINING].std()
    change = F.pad(series.diff().abs(), (1, 0))
    target = change.unfold(0, AHEAD, 1).mean(-1)[1:]
    truth = target[TRAINING:]
    results = {
        f"last {AHEAD} changes, mean": nrmse(read_out(past(change, AHEAD).mean(-1, keepdim=True), target), truth),
        f"last {AHEAD} changes": nrmse(read_out(past(change, AHEAD), target), truth),
    }

    windows = past(series, WINDOW).float()
    windows /= windows[:TRAINING].norm(dim=-1).mean()
    errors: dict[str, list[float]] = {}
    predictions = {}
    for seed in range(options.seeds):
        manager = three_scales(seed)
        untrained = torch.cat(manager.process_hierarchy(windows, learn=False), -1)
        for _ in range(options.passes):
            manager.reset_state()
            manager.process_hierarchy(windows[:TRAINING])
        manager.reset_state()
        scales = manager.process_hierarchy(windows, learn=False)
        features = {"three levels, not trained": untrained}
        for count in range(1, len(LEVELS) + 1):
            features[f"every {', '.join(str(level[0]) for level in LEVELS[:count])}"] = torch.cat(scales[:count], -1)
        predictions = {name: read_out(each, target) for name, each in features.items()}
        for name, predicted in predictions.items():
            errors.setdefault(name, []).append(nrmse(predicted, truth))
    results |= {name: sum(of_seeds) / len(of_seeds) for name, of_seeds in errors.items()}
    for method, error in results.items():
        print(f"  {method:<28} {error:.3f}")
    if options.figure is not None:
        shown = {name: predicted[:1500] for name, predicted in predictions.items() if name.startswith("every")}
        draw(options.figure, manager.levels[0].layers[0].weight[:4], truth[:1500], shown)
        print(f"drawn: {options.figure}")
    return results


if __name__ == "__main__":
    main()
