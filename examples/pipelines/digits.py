"""A classifier of handwritten digits written on torch.ops.torch_hrr, trained, and exported to run without Python.

An image is projected to two lists of vectors, whose pairs are bound and summed to one record (``bind_superpose``): its
elements are sums of products of two pixels each, which a linear read-out of the pixels cannot form. Only the strongest
elements of the record go on (``k_cap``, whose gradient is that of soft winners), and the read-out is linear. Beside it
stand a logistic regression on the pixels and a network of rectified units with as many parameters. One seed and a short
training: an illustration, not a benchmark.

With ``--export`` the trained model is written as ``digits.pt`` (TorchScript) and ``digits.pt2`` (AOTInductor), and the
test images as ``images.f32``; ``serve.cpp`` beside this file classifies them by either.

Run: python examples/pipelines/digits.py [--export DIRECTORY]
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_hrr

try:
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression
except ImportError:
    raise SystemExit("digits: scikit-learn must be installed: pip install scikit-learn") from None

PIXELS, CLASSES = 64, 10


class RecordClassifier(nn.Module):
    """Images ``[B, 64]`` of grey levels from 0 to 1 to logits ``[B, 10]``."""

    def __init__(self, dim: int, pairs: int, winners: int, generator: torch.Generator) -> None:
        """Draws the projections; the read-out starts at 0."""
        super().__init__()
        self.dim, self.pairs, self.winners = dim, pairs, winners
        self.first = nn.Parameter(torch.randn(PIXELS, pairs * dim, generator=generator) / PIXELS**0.5)
        self.second = nn.Parameter(torch.randn(PIXELS, pairs * dim, generator=generator) / PIXELS**0.5)
        self.read_out = nn.Parameter(torch.zeros(dim, CLASSES))
        self.bias = nn.Parameter(torch.zeros(CLASSES))

    def forward(self, images: Tensor) -> Tensor:
        """Logits; the record has unit norm, so it is scaled to elements of about 1."""
        centred = images - 0.5
        first = (centred @ self.first).unflatten(-1, (self.pairs, self.dim))
        second = (centred @ self.second).unflatten(-1, (self.pairs, self.dim))
        record = torch.ops.torch_hrr.bind_superpose(first, second, None, True) * self.dim**0.5
        return (record * torch.ops.torch_hrr.k_cap(record, self.winners)) @ self.read_out + self.bias


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, generator: torch.Generator) -> None:
    """Adam on the cross-entropy, 64 images a step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images), generator=generator).split(64):
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()


def rectified_network(parameters: int) -> nn.Module:
    """A hidden layer of rectified units, with about so many parameters."""
    units = (parameters - CLASSES) // (PIXELS + 1 + CLASSES)
    return nn.Sequential(nn.Linear(PIXELS, units), nn.ReLU(), nn.Linear(units, CLASSES))


def data() -> tuple[Tensor, Tensor]:
    """All images ``[1797, 64]`` and their classes."""
    digits = load_digits()
    return torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target).long()


def export(model: nn.Module, images: Tensor, directory: Path) -> None:
    """Writes digits.pt, digits.pt2, which takes any number of images, and images.f32: rows of 64 float32."""
    directory.mkdir(parents=True, exist_ok=True)
    torch.jit.script(model).save(str(directory / "digits.pt"))
    with torch.no_grad():
        program = torch.export.export(model, (images,), dynamic_shapes=({0: torch.export.Dim("images", min=1)},))
        # The package loads the operators by itself. Its code for any number from 2 on is right for 1 too.
        settings = torch_hrr.io.inductor_configs() | {"aot_inductor.check_lowerbound": False}
        torch._inductor.aoti_compile_and_package(
            program, package_path=str(directory / "digits.pt2"), inductor_configs=settings
        )
    (directory / "images.f32").write_bytes(images.numpy().astype("<f4").tobytes())


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Trains the model and its peers, prints their accuracies on the test half and returns them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--winners", type=int, default=48)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path)
    options = parser.parse_args(argv)

    images, labels = data()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(options.seed))
    training, test = order[: len(order) // 2], order[len(order) // 2 :]

    generator = torch.Generator().manual_seed(options.seed)
    model = RecordClassifier(options.dim, options.pairs, options.winners, generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        peer = rectified_network(sum(parameter.numel() for parameter in model.parameters()))
    regression = LogisticRegression(max_iter=5000).fit(images[training].numpy(), labels[training].numpy())
    accuracies = {"logistic regression": float(regression.score(images[test].numpy(), labels[test].numpy()))}
    print(f"handwritten digits: {len(test)} test images, {len(training)} for training")
    print(f"  logistic regression on the pixels   {accuracies['logistic regression']:.3f}")
    for name, network in (("rectified units", peer), ("winners of a record", model)):
        start = time.perf_counter()
        train(network, images[training], labels[training], options.epochs, generator)
        with torch.no_grad():
            accuracies[name] = float((network(images[test]).argmax(-1) == labels[test]).double().mean())
        print(f"  {name:<36}{accuracies[name]:.3f}  ({time.perf_counter() - start:.1f} s)")
    if options.export is not None:
        export(model, images[test], options.export)
        print(f"  digits.pt, digits.pt2 and images.f32 are in {options.export}")
    return accuracies


if __name__ == "__main__":
    main()
