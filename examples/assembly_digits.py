"""Handwritten digits through a random area of neurons: 100 of 2000 fire, and a linear map reads the digit from them.

Every pixel sends synapses of weight 1 to a tenth of the neurons, and the neurons with the largest inputs fire. Nothing
is learnt before the read-out, which is ridge regression on the 0/1 pattern; beside it stand the nearest mean pattern of
a class, and the same two on the pixels. One seed: an illustration, not a benchmark.

Run: python examples/assembly_digits.py
"""

import argparse
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr.assembly import connectome_inputs, k_winners

try:
    from sklearn.datasets import load_digits
except ImportError:
    raise SystemExit("assembly_digits: scikit-learn must be installed: pip install scikit-learn") from None


def fired(images: Tensor, n: int, k: int, p: float, seed: int) -> Tensor:
    """0/1 patterns ``[B, n]`` of the k neurons with the largest inputs."""
    # A single neuron's inputs to all others are its row of the connectome.
    connectome = connectome_inputs(torch.arange(images.shape[1]).unsqueeze(-1), n, p, seed, fiber=0)
    # Sixteenths times 0/1: integers up to 16 * 64, which matrix products of float32 add exactly in any order.
    winners = k_winners((16 * images) @ connectome.float(), k)[1]
    return torch.zeros(len(images), n).scatter_(1, winners, 1.0)


def ridge(training: Tensor, targets: Tensor, test: Tensor, strength: float) -> Tensor:
    """Predictions of ``min |X w - y|^2 + strength |w|^2`` with a constant column, from its dual form."""
    training, test = (F.pad(x.double(), (0, 1), value=1.0) for x in (training, test))
    gram = training @ training.T + strength * torch.eye(len(training), dtype=torch.float64)
    return (test @ (training.T @ torch.linalg.solve(gram, targets.double()))).argmax(-1)


def nearest_mean(training: Tensor, targets: Tensor, test: Tensor) -> Tensor:
    """The class whose mean has the largest cosine."""
    means = F.normalize(targets.T.double() @ training.double())
    return (F.normalize(test.double()) @ means.T).argmax(-1)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Prints accuracies on the test half and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--neurons", type=int, default=2000)
    parser.add_argument("--winners", type=int, default=100)
    parser.add_argument("--density", type=float, default=0.1)
    parser.add_argument("--strength", type=float, default=25.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    digits = load_digits()
    images = torch.from_numpy(digits.data).float() / 16
    labels = torch.from_numpy(digits.target).long()
    targets = F.one_hot(labels, 10)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    training, test = order[: len(order) // 2], order[len(order) // 2 :]
    patterns = fired(images, options.neurons, options.winners, options.density, options.seed)

    print(f"handwritten digits: {len(test)} test images, {len(training)} for training")
    print(f"{options.winners} of {options.neurons} neurons fire, each pixel reaches 1 in {1 / options.density:g}")
    results: dict[str, float] = {}
    for name, inputs in (("pixels", images), ("winners", patterns)):
        answers = {
            "nearest mean": nearest_mean(inputs[training], targets[training], inputs[test]),
            "ridge": ridge(inputs[training], targets[training], inputs[test], options.strength),
        }
        for method, answer in answers.items():
            results[f"{name}, {method}"] = float((answer == labels[test]).double().mean())
            print(f"  {name + ', ' + method:<24} {results[f'{name}, {method}']:.3f}")
    return results


if __name__ == "__main__":
    main()
