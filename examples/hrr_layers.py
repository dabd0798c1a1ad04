"""A classifier of handwritten digits whose only layer before the read-out is one holographic record.

Every pixel is a role and every grey level a filler; an image is the superposition of its 64 bound pairs, and a linear
read-out sees that one vector. Trained with learned roles, with roles kept unitary, and with random ones that stay
fixed; fillers and read-out are learned each time. One seed and a short training: an illustration, not a benchmark.

Run: python examples/hrr_layers.py
"""

import argparse
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_hrr.hrr.modules import BindSuperpose

try:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
except ImportError:
    raise SystemExit("hrr_layers: scikit-learn must be installed: pip install scikit-learn") from None

PIXELS, GREY_LEVELS, CLASSES = 64, 17, 10


class RecordClassifier(nn.Module):
    """Grey levels [B, 64] to logits [B, 10] through a record [B, D]."""

    def __init__(self, dim: int, unitary: bool, generator: torch.Generator) -> None:
        """Draws roles and fillers; the read-out starts at 0."""
        super().__init__()
        self.levels = nn.Embedding.from_pretrained(torch.randn(GREY_LEVELS, dim, generator=generator), freeze=False)
        self.record = BindSuperpose(dim, PIXELS, unitary, normalize=True, generator=generator)
        self.read_out = nn.Linear(dim, CLASSES)
        nn.init.zeros_(self.read_out.weight)
        nn.init.zeros_(self.read_out.bias)

    def forward(self, images: Tensor) -> Tensor:
        """Logits; the record has unit norm, so it is scaled to elements of about 1 first."""
        record = self.record(self.levels(images))
        return self.read_out(record * record.shape[-1] ** 0.5)


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, generator: torch.Generator) -> None:
    """Adam on the cross-entropy, 64 images a step."""
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains the three variants, prints their accuracies on the test half and returns them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    digits = load_digits()
    images, labels = torch.from_numpy(digits.data).long(), torch.from_numpy(digits.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    training, test = order[: len(order) // 2], order[len(order) // 2 :]

    baseline = LogisticRegression(max_iter=5000).fit(images[training].numpy() / 16, labels[training].numpy())
    accuracies = {"logistic regression": float(baseline.score(images[test].numpy() / 16, labels[test].numpy()))}
    print(f"handwritten digits: {len(test)} test images, {len(training)} for training, D = {options.dim}")
    print(f"  logistic regression on raw pixels   {accuracies['logistic regression']:.3f}")
    for name, unitary, learned in (("fixed", False, False), ("learned", False, True), ("unitary", True, True)):
        generator = torch.Generator().manual_seed(options.seed)
        model = RecordClassifier(options.dim, unitary, generator)
        model.record.weight.requires_grad_(learned)
        start = time.perf_counter()
        train(model, images[training], labels[training], options.epochs, generator)
        with torch.no_grad():
            accuracies[name] = float((model(images[test]).argmax(-1) == labels[test]).double().mean())
        kind = {"fixed": "fixed random roles", "learned": "learned roles", "unitary": "learned unitary roles"}[name]
        print(f"  record with {kind:<23} {accuracies[name]:.3f}  ({time.perf_counter() - start:.1f} s)")
    return accuracies


if __name__ == "__main__":
    main()
