"""A loss for sets of labels, held in one holographic vector whatever the number of labels."""

from typing import Any

import torch
from torch import Tensor
from torch._jit_internal import is_scripting

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_generator
from torch_hrr._random import seeded_generator
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Choice, Int, Real, Seed, takes
from torch_hrr.hrr.modules import DRAWN, draw_rows, empty_matrix, taken, taken_rows, widen


class HRRMultiLabelLoss(DescribedModule):
    """A loss on one vector that holds a set of labels, and its decoder: the output width is D for any number of labels.

    Every label has a fixed random unitary vector ``c_l``, and so have "present", p, and "missing", m. For a prediction
    s and the set Y of its labels, w being ``missing_weight``::

        J = sum over y in Y of (1 - cos(unbind(s, p), c_y)) + w sum over y in Y of abs(cos(unbind(s, m), c_y))

    The first sum pulls the labels into the part of s that is bound to "present"; all cosines are with one vector, so it
    drives other labels out. The second keeps the labels out of the part bound to "missing". For k labels the least J is
    about ``k - sqrt(k)``, at `encode`, where each cosine is about ``1 / sqrt(k)``.

    This is the loss of the authors' code, which also averages it over a batch, with two differences: there the first
    cosine is taken without its sign, so that a label may be stored with either sign; and there p and m are trained by
    default, while here they stay fixed.

    No parameters; the vectors are buffers, saved with the state, of unit norm up to the rounding of their dtype. Half
    types are widened to float32 first; the result has that dtype, or that of ``s``, under autocast too. Binding is
    deterministic as `functional.bind_normalize`, the cosines are as deterministic as torch's matrix products.
    O(D log D + L D) per row.

    Attributes:
        labels: ``[L, D]``.
        present: ``[D]``.
        missing: ``[D]``.
        seed: What they follow from; None where a generator drew them.

    Source: Ganesan, Gao, Gandhi, Raff, Oates, Holt and McLean, Learning with holographic reduced representations,
    NeurIPS 2021, and its code.
    """

    labels: Tensor
    present: Tensor
    missing: Tensor

    @takes(
        num_labels=Int(1),
        dim=Int(1),
        missing_weight=Real(0),
        reduction=Choice(("mean", "sum", "none")),
        seed=Seed(),
        **DRAWN,
    )
    def __init__(
        self,
        num_labels: int,
        dim: int,
        missing_weight: float = 1.0,
        reduction: str = "mean",
        *,
        seed: int = 0,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the vectors.

        Args:
            num_labels: L, at least 1; sets are told apart as long as they hold far fewer than D labels.
            dim: D, at least 1.
            missing_weight: Weight of the second sum, >= 0 and finite.
            reduction: "mean" or "sum" over the rows of a batch, or "none".
            seed: Seed of the vectors, any int, taken modulo 2^64. They follow from it, so that a net that was trained
                with this loss is decoded by another one of the same seed, sizes and dtype, in any process.
            generator: A CPU generator that draws the vectors instead of ``seed``; then keep the loss's state.
            device: Device of the vectors; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the vectors; None means torch's default dtype.
        """
        super().__init__()
        self.num_labels = num_labels
        self.dim = dim
        self.missing_weight = missing_weight
        self.reduction = reduction
        self.seed = seed if generator is None else None
        # Not parts of one, since safetensors would refuse to save three that share a storage.
        self.register_buffer("labels", empty_matrix("HRRMultiLabelLoss", (num_labels, dim), device, dtype))
        self.register_buffer("present", torch.empty_like(self.labels[0]))
        self.register_buffer("missing", torch.empty_like(self.labels[0]))
        self.reset_parameters(generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the vectors of the seed again, as after ``to_empty``; of a generator those that it draws now.

        Raises:
            TypeError, ValueError: ``generator`` is none of the CPU, or not given where there is no seed.
        """
        check_generator("reset_parameters", generator)
        if generator is None:
            if self.seed is None:
                raise ValueError("reset_parameters: generator must be given where one drew the vectors, got None")
            generator = seeded_generator(self.seed)
        vectors = self.labels.new_empty(self.num_labels + 2, self.dim)
        draw_rows("reset_parameters", vectors, generator, unitary=True)
        for own, drawn in ((self.present, vectors[0]), (self.missing, vectors[1]), (self.labels, vectors[2:])):
            own.copy_(drawn)

    def forward(self, s: Tensor, targets: Tensor) -> Tensor:
        """The loss.

        Args:
            s: Predictions, ``[..., D]``; their norm does not matter.
            targets: ``[..., L]``, 1 or true where a label is in the set and 0 elsewhere; numbers between are weights.

        Returns:
            A scalar, or ``[...]`` without reduction. A row without labels has loss 0.

        Raises:
            ValueError: A shape is not as above, or `reduction` was changed into another word.
            RuntimeError: A tensor is on another device than the vectors.
            TypeError: ``s`` is of a dtype the operators do not take, or ``targets`` is complex.
        """
        s = taken_rows("HRRMultiLabelLoss", "s", s, 0, self.dim, self.labels)
        targets = self._taken_targets(targets)
        if targets.shape[:-1] != s.shape[:-1]:
            raise ValueError(
                f"HRRMultiLabelLoss: targets must have the leading dimensions {list(s.shape[:-1])} of s, "
                f"got shape {list(targets.shape)}"
            )
        costs = 1 - self._cosines(s, self.present)
        if self.missing_weight > 0:
            costs = costs + self.missing_weight * self._cosines(s, self.missing).abs()
        losses = (costs * targets.to(costs.dtype)).sum(-1)
        if self.reduction == "none":
            return losses
        if self.reduction == "mean":
            return losses.mean()
        if self.reduction != "sum":
            raise ValueError(f"HRRMultiLabelLoss: reduction must be mean, sum or none, got {self.reduction}")
        return losses.sum()

    @torch.jit.export
    def scores(self, s: Tensor) -> Tensor:
        """How much a prediction says that each label is present, ``cos(unbind(s, p), c_l)``.

        Args:
            s: ``[..., D]``.

        Returns:
            ``[..., L]`` in -1 to 1, up to rounding. Each of k labels stored with equal weight has about ``1 /
            sqrt(k)``, the others 0 give or take ``1 / sqrt(D)``; choose a threshold on data.

        Raises:
            ValueError: D is not the last dimension.
        """
        s = taken_rows("HRRMultiLabelLoss", "s", s, 0, self.dim, self.labels)
        return self._cosines(s, self.present)

    @torch.jit.export
    def encode(self, targets: Tensor) -> Tensor:
        """The vector of a set of labels, ``sum over l of targets_l bind(p, c_l)``: ``[..., L]`` to ``[..., D]``.

        In the dtype of the vectors, under autocast too.
        """
        targets = self._taken_targets(targets)
        if is_scripting():
            return self._encoded(targets)
        else:
            with full_precision(targets.device):
                return self._encoded(targets)

    def _encoded(self, targets: Tensor) -> Tensor:
        encoded: Tensor = torch.ops.torch_hrr.bind(targets.to(self.labels.dtype) @ self.labels, self.present)
        return encoded

    def _taken_targets(self, targets: Tensor) -> Tensor:
        targets = taken("HRRMultiLabelLoss", "targets", targets, self.labels, False)
        if targets.is_complex():
            raise TypeError(f"HRRMultiLabelLoss: targets must be real, got {targets.dtype}")
        if targets.dim() == 0 or targets.shape[-1] != self.num_labels:
            raise ValueError(
                f"HRRMultiLabelLoss: targets must have shape [..., {self.num_labels}], got {list(targets.shape)}"
            )
        return targets

    def _cosines(self, s: Tensor, cue: Tensor) -> Tensor:
        """Cosines of ``unbind(s, cue)`` with every label, under autocast too in the dtype of ``s``, widened."""
        if is_scripting():
            return self._wide_cosines(s, cue)
        else:
            with full_precision(s.device):
                return self._wide_cosines(s, cue)

    # unbind(s, c) = bind(s, c~) with c~[n] = c[-n mod D], so that binding and norm are one pass
    def _wide_cosines(self, s: Tensor, cue: Tensor) -> Tensor:
        s = widen(s)
        involution = cue.to(s.dtype).flip(-1).roll(1, -1)
        direction: Tensor = torch.ops.torch_hrr.bind_normalize(s, involution)
        return direction @ self.labels.to(s.dtype).t()

    def _summary(self) -> dict[str, Any]:
        settings = ("num_labels", "dim", "missing_weight", "reduction", "seed")
        return {name: getattr(self, name) for name in settings}
