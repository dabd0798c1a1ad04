"""Handwritten digits read row by row: eight steps of eight pixels drive a reservoir, whose states tell the digit.

`LSMClassifier` learns a softmax read-out of the mean and the last state alone. Beside it stand the nearest mean image
of a class, and the same read-out of units without memory, whose states know which rows there were and not their order.

Run: python examples/encoding/digit_sequences.py
"""

import argparse
from collections.abc import Sequence

import torch

from torch_hrr.encoding import LSMClassifier

try:
    from sklearn.datasets import load_digits
except ImportError:
    raise SystemExit("digit_sequences: scikit-learn must be installed: pip install scikit-learn") from None


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Prints accuracies on the test half and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    digits = load_digits()
    rows = torch.from_numpy(digits.images).float() / 16
    labels = torch.from_numpy(digits.target)
    draw = torch.Generator().manual_seed(options.seed)
    order = torch.randperm(len(rows), generator=draw)
    training, test = order[: len(order) // 2], order[len(order) // 2 :]
    print(f"handwritten digits: {len(test)} test images, {len(training)} for training")

    pixels = rows.flatten(1)
    means = torch.stack([pixels[training][labels[training] == digit].mean(0) for digit in range(10)])
    answers = {"nearest mean of pixels": torch.cdist(pixels[test], means).argmin(-1)}
    for name, leak, radius in (("no memory", 1.0, 0.0), ("reservoir", 0.5, 0.9)):
        classifier = LSMClassifier(units=options.units, leak=leak, spectral_radius=radius, seed=options.seed)
        answers[name] = classifier.fit(rows[training], labels[training]).predict(rows[test])
    results = {name: float((answer == labels[test]).double().mean()) for name, answer in answers.items()}
    for name, accuracy in results.items():
        print(f"  {name:<24} {accuracy:.3f}")
    return results


if __name__ == "__main__":
    main()
