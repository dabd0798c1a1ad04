"""Linear read-outs of streams of states, which they do not store: ridge regression and softmax regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from torch_hrr._progress import Tick, unseen
from torch_hrr._ridge import solved

# Of the softmax regression: at least so many passes over the data, and at least so many steps.
_PASSES, _STEPS = 4, 400
# Times features / samples: the variance added in every direction, relative to the mean one, and the weight decay.
# Chosen among 0.01, 0.03, 0.1 and 0.3 on words of eight languages.
_SHRINKAGE = 0.1
# The least variance added: far above what rounding does to the covariance.
_LEAST_SHRINKAGE = 1e-5
# Times the mean square, the same where samples hardly vary: a direction of a smaller spread than 1e-4 of their size is
# not stretched until any other sample lies a million deviations away. Tokens that never changed gave 800,000 bits for
# their own beginning without it, and series of an amplitude of 0.001 lose nothing by it.
_LEAST_VARIANCE = 1e-8
_LEARNING_RATE = 0.01
# Multiplications of a Gram matrix at a time, which all states of a chunk of some 1000 units are.
_PRODUCT = 2**30

Chunks = Callable[[], Iterable[tuple[Tensor, Tensor]]]


class Moments(nn.Module):
    """Sums over samples z and targets y from which a ridge regression follows, kept in float64.

    What is added up is centred at the mean of the first chunk, so that a large mean costs no digits. The sums are
    buffers, for who keeps them with a module.
    """

    count: Tensor
    shift_z: Tensor
    shift_y: Tensor
    sum_z: Tensor
    sum_y: Tensor
    gram: Tensor
    cross: Tensor

    def __init__(
        self, features: int, targets: int, device: torch.device, product_dtype: torch.dtype = torch.float64
    ) -> None:
        """Nothing seen yet; the products of a chunk are computed in ``product_dtype``."""
        super().__init__()
        self._dtype = product_dtype
        self.register_buffer("count", torch.zeros((), dtype=torch.int64, device=device))
        shapes = {"shift_z": [features], "shift_y": [targets], "sum_z": [features], "sum_y": [targets]}
        shapes |= {"gram": [features, features], "cross": [features, targets]}
        for name, shape in shapes.items():
            self.register_buffer(name, torch.zeros(shape, dtype=torch.float64, device=device))

    def copied(self) -> Moments:
        """A copy, which may be added to wherever the sums were made."""
        made = Moments(len(self.cross), self.cross.shape[1], torch.device("meta"), self._dtype)
        for name, held in self.named_buffers():
            setattr(made, name, held.clone())
        return made

    def add(self, z: Tensor, y: Tensor) -> None:
        """Counts samples ``[n, features]`` with targets ``[n, targets]`` in."""
        z, y = z.to(self._dtype), y.to(self._dtype)
        if not len(z):
            return
        if not int(self.count):
            self.shift_z, self.shift_y = z.mean(0).double(), y.mean(0).double()
        z, y = z - self.shift_z.to(self._dtype), y - self.shift_y.to(self._dtype)
        self.count += len(z)
        self.sum_z += z.sum(0)
        self.sum_y += y.sum(0)
        self.cross += z.mT @ y
        # In parts of a tenth of a second, between which Ctrl-C is heard.
        for part in z.split(max(1, _PRODUCT // z.shape[1] ** 2)):
            self.gram += part.mT @ part

    @property
    def mean(self) -> Tensor:
        """The mean sample."""
        return self.shift_z + self.sum_z / self.count

    @property
    def mean_target(self) -> Tensor:
        """The mean target."""
        return self.shift_y + self.sum_y / self.count

    def scatter(self) -> Tensor:
        """``sum (z - mean z) (z - mean z)^T``."""
        return self.gram - torch.outer(self.sum_z, self.sum_z) / self.count

    # w = (Z^T Z + ridge I)^-1 Z^T Y on centred samples, b = mean y - mean z w
    def ridge(self, ridge: float) -> tuple[Tensor, Tensor]:
        """The weights ``[features, targets]`` and the constant of least squares with ``ridge |w|^2`` added.

        The squares are summed over samples, not averaged, so the same ridge is weaker for longer data. If the samples
        determine no unique solution, the one with the smallest weights is returned.
        """
        cross = self.cross - torch.outer(self.sum_z, self.sum_y) / self.count
        weights = solved(self.scatter(), cross, ridge)
        return weights, self.mean_target - self.mean @ weights


def softmax_ticks(count: int) -> int:
    """How many chunks, of which a pass has ``count``, `fit_softmax` goes through: of its ticks, the last number."""
    return (max(_PASSES, math.ceil(_STEPS / count)) + 1) * count


def fit_softmax(
    chunks: Chunks, count: int, features: int, classes: int, device: torch.device, tick: Tick = unseen
) -> tuple[Tensor, Tensor]:
    """Softmax regression: weights ``[features, classes]`` and constants of ``p = softmax(z w + b)``, in float64.

    Adam on the cross-entropy in whitened coordinates, in which every direction has variance 1, from the logarithms of
    the class frequencies, at a rate that falls linearly to 0. The fewer samples there are for each feature, the
    stronger is the regularisation, most of all in directions of small variance. Deterministic: chunks come in the order
    given.

    Args:
        chunks: Gives the data anew at each call: samples ``[n, features]`` and labels ``[n]`` in 0 .. classes - 1.
        count: Number of chunks.
        features: Width of a sample.
        classes: Number of labels.
        device: Where the data is.
        tick: Called after every chunk of every pass with the number of those done and of all.

    Cost: one pass for the moments and at least four for the steps, one step a chunk.
    """
    # Gradients are needed even where the caller wants none, and no half types.
    with torch.inference_mode(False), torch.enable_grad(), torch.autocast(device.type, enabled=False):
        return _fit_softmax(chunks, count, features, classes, device, tick)


def _fit_softmax(
    chunks: Chunks, count: int, features: int, classes: int, device: torch.device, tick: Tick
) -> tuple[Tensor, Tensor]:
    # Whitening needs no more digits than float32 has.
    moments, done = Moments(features, 0, device, torch.float32), 0
    occurrences = torch.zeros(classes, dtype=torch.float64, device=device)
    total = softmax_ticks(count)
    steps = total - count

    def count_chunk() -> None:
        nonlocal done
        done += 1
        tick(done, total)

    for z, label in chunks():
        moments.add(z, z.new_empty(len(z), 0))
        occurrences += torch.bincount(label, minlength=classes)
        count_chunk()
    covariance = moments.scatter() / moments.count
    shrinkage = _SHRINKAGE * features / int(moments.count)
    variance = float(covariance.diagonal().mean())
    square = variance + float(moments.mean.square().mean())
    floor = max(variance * max(shrinkage, _LEAST_SHRINKAGE), square * _LEAST_VARIANCE)
    covariance.diagonal().add_(floor if floor > 0 else 1.0)
    identity = torch.eye(features, dtype=torch.float64, device=device)
    # W = L^-T V for covariance = L L^T: z L^-T has the identity as its covariance.
    whiten = torch.linalg.solve_triangular(torch.linalg.cholesky(covariance).mT, identity, upper=True).float()
    mean = moments.mean.float()
    # A class that never occurs counts as half a sample.
    frequency = occurrences.clamp_min(0.5) / moments.count
    bias = frequency.log().float().requires_grad_()
    weights = torch.zeros(features, classes, dtype=torch.float32, device=device, requires_grad=True)
    optimizer = torch.optim.Adam([weights, bias], lr=_LEARNING_RATE, betas=(0.9, 0.99))
    for _ in range(steps // count):
        for z, label in chunks():
            optimizer.param_groups[0]["lr"] = _LEARNING_RATE * (1 - (done - count) / steps)
            if len(z):
                # A copy of the labels: those made in inference mode may not be kept for a gradient.
                logits = (z.float() - mean) @ (whiten @ weights) + bias
                loss = F.cross_entropy(logits, label.clone())
                loss = loss + shrinkage / 2 * weights.square().sum()
                weights.grad, bias.grad = torch.autograd.grad(loss, (weights, bias))
                optimizer.step()
            count_chunk()
    with torch.no_grad():
        final = whiten.double() @ weights.double()
        return final, bias.double() - moments.mean @ final
