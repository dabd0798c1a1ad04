"""Fourteen labels a digit from one holographic vector: its class, odd or even, above four, and whether it has a loop.

A small network predicts a vector of D elements and is trained with `HRRMultiLabelLoss`; the labels are those whose
score exceeds a threshold, chosen on the training half. Beside it stand logistic regression, one for every label, and
the same network with one output for every label and binary cross-entropy. One seed: an illustration, not a benchmark.

Run: python examples/hrr_multilabel.py
"""

import argparse
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_hrr.hrr.losses import HRRMultiLabelLoss

try:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
except ImportError:
    raise SystemExit("hrr_multilabel: scikit-learn must be installed: pip install scikit-learn") from None

HIDDEN = 128
LOOPS = (0, 6, 8, 9)
LABELS = (*(f"is {digit}" for digit in range(10)), "odd", "even", "above four", "has a loop")


def label_sets(digits: Tensor) -> Tensor:
    """Digits [B] to the labels that hold for them, bool [B, 14] in the order of `LABELS`."""
    loop = torch.isin(digits, torch.tensor(LOOPS))
    properties = torch.stack((digits % 2 == 1, digits % 2 == 0, digits > 4, loop), dim=-1)
    return torch.cat((F.one_hot(digits, 10).bool(), properties), dim=-1)


def exact_match(predicted: Tensor, targets: Tensor) -> float:
    """Share of the images whose labels are all right."""
    return float((predicted == targets).all(-1).double().mean())


def micro_f1(predicted: Tensor, targets: Tensor) -> float:
    """``2 hits / (predicted + true)`` over all images and labels at once."""
    return float(2 * (predicted & targets).sum() / (predicted.sum() + targets.sum()))


def best_threshold(scores: Tensor, targets: Tensor) -> float:
    """The threshold of the best micro F1, the middle one of those that are equally good."""
    candidates = torch.linspace(0, 1, 101).tolist()
    values = [micro_f1(scores > threshold, targets) for threshold in candidates]
    best = [threshold for threshold, value in zip(candidates, values, strict=True) if value == max(values)]
    return best[len(best) // 2]


def network(outputs: int, generator: torch.Generator) -> nn.Sequential:
    """64 pixels to `outputs` through two hidden layers, drawn from the generator."""
    layers = nn.Sequential(
        nn.Linear(64, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs)
    )
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, generator=generator)
            nn.init.zeros_(layer.bias)
    return layers


def train(
    model: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    images: Tensor,
    targets: Tensor,
    epochs: int,
    generator: torch.Generator,
) -> None:
    """Adam, 64 images a step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            loss(model(images[batch]), targets[batch]).backward()
            optimizer.step()


def main(argv: Sequence[str] | None = None) -> dict[str, tuple[float, float]]:
    """Prints exact match and micro F1 on the test half and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    digits = load_digits()
    images = torch.from_numpy(digits.data).float() / 16
    targets = label_sets(torch.from_numpy(digits.target).long())
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    training, test = order[: len(order) // 2], order[len(order) // 2 :]
    results: dict[str, tuple[float, float]] = {}

    def report(name: str, predicted: Tensor, note: str) -> None:
        results[name] = exact_match(predicted, targets[test]), micro_f1(predicted, targets[test])
        print(f"  {name:<34} {results[name][0]:.3f}        {results[name][1]:.3f}     {note}")

    print(f"handwritten digits: {len(test)} test images, {len(training)} for training, {len(LABELS)} labels, ", end="")
    print(f"{targets.sum(-1).double().mean():.2f} of them a digit")
    print(f"  {'':<34} exact match  micro F1")

    start = time.perf_counter()
    baseline = OneVsRestClassifier(LogisticRegression(max_iter=5000))
    baseline.fit(images[training].numpy(), targets[training].int().numpy())
    predicted = torch.from_numpy(baseline.predict(images[test].numpy())).bool()
    report("logistic regression", predicted, f"{time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    generator = torch.Generator().manual_seed(options.seed)
    model = network(len(LABELS), generator)
    train(
        model,
        lambda outputs, wanted: F.binary_cross_entropy_with_logits(outputs, wanted.float()),
        images[training],
        targets[training],
        options.epochs,
        generator,
    )
    with torch.no_grad():
        report("network, binary cross-entropy", model(images[test]) > 0, f"{time.perf_counter() - start:.1f} s")

    start = time.perf_counter()
    generator = torch.Generator().manual_seed(options.seed)
    loss = HRRMultiLabelLoss(len(LABELS), options.dim, generator=generator)
    model = network(options.dim, generator)
    train(model, loss, images[training], targets[training], options.epochs, generator)
    with torch.no_grad():
        threshold = best_threshold(loss.scores(model(images[training])), targets[training])
        predicted = loss.scores(model(images[test])) > threshold
    note = f"{time.perf_counter() - start:.1f} s, scores above {threshold:.2f}"
    report(f"network, HRR loss with D = {options.dim}", predicted, note)
    return results


if __name__ == "__main__":
    main()
