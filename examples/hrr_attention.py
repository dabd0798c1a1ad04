"""Handwritten digits read as sequences of pixels, by holographic attention, softmax attention, or none.

A digit is 64 steps of one grey level each. Every step is embedded together with its position, one block mixes the
steps, and the mean over the steps is classified. The block's attention is `HRRAttention`, whose cost is linear in the
number of steps, torch's softmax attention, or nothing at all, which leaves a network that sees each pixel on its own.
One seed and a short training: an illustration, not a benchmark.

Run: python examples/hrr_attention.py
"""

import argparse
import time
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_hrr.hrr.modules import HRRAttention

try:
    from sklearn.datasets import load_digits
except ImportError:
    raise SystemExit("hrr_attention: scikit-learn must be installed: pip install scikit-learn") from None

STEPS, CLASSES = 64, 10


class SoftmaxAttention(nn.Module):
    """torch's attention with queries, keys and values from one input."""

    def __init__(self, width: int, heads: int) -> None:
        """Draws the projections from torch's default generator."""
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, bias=False, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, E] to [B, T, E]."""
        return self.attention(x, x, x, need_weights=False)[0]


class SequenceClassifier(nn.Module):
    """Sequences [B, T, width of a step] to logits [B, 10]."""

    def __init__(self, inputs: int, steps: int, width: int, attention: nn.Module | None) -> None:
        """One block of attention (None: left out) and a two-layer perceptron, both residual and after a layer norm."""
        super().__init__()
        self.embedding = nn.Linear(inputs, width)
        self.positions = nn.Parameter(torch.randn(steps, width) / 2)
        self.attention = attention
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])
        self.perceptron = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.read_out = nn.Linear(width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        x = self.embedding(x) + self.positions
        if self.attention is not None:
            x = x + self.attention(self.norms[0](x))
        x = x + self.perceptron(self.norms[1](x))
        return self.read_out(self.norms[2](x.mean(-2)))


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, generator: torch.Generator) -> None:
    """Adam on the cross-entropy, 64 images a step, the step size falling along a cosine."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
        schedule.step()


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains the three models, prints their accuracies on the test half and returns them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--steps", type=int, default=STEPS, choices=(8, 64), help="8 rows of 8 pixels or 64 pixels")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    digits = load_digits()
    images = torch.from_numpy(digits.data).float().view(-1, options.steps, 64 // options.steps) / 8 - 1
    labels = torch.from_numpy(digits.target).long()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    training, test = order[: len(order) // 2], order[len(order) // 2 :]

    print(f"handwritten digits as {options.steps} steps: {len(test)} test images, {len(training)} for training")
    accuracies: dict[str, float] = {}
    for name in ("holographic attention", "softmax attention", "no attention"):
        torch.manual_seed(options.seed)
        attention: nn.Module | None = None
        if name == "holographic attention":
            attention = HRRAttention(options.width, options.heads)
        elif name == "softmax attention":
            attention = SoftmaxAttention(options.width, options.heads)
        model = SequenceClassifier(images.shape[-1], options.steps, options.width, attention)
        start = time.perf_counter()
        generator = torch.Generator().manual_seed(options.seed)
        train(model, images[training], labels[training], options.epochs, generator)
        with torch.no_grad():
            accuracies[name] = float((model(images[test]).argmax(-1) == labels[test]).double().mean())
        print(f"  {name:<22} {accuracies[name]:.3f}  ({time.perf_counter() - start:.1f} s)")
    return accuracies


if __name__ == "__main__":
    main()
