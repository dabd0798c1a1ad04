"""BitLinear: a linear layer with ternary weights."""

from typing import Any

import torch
from torch import Tensor, nn

from torch_hrr._checks import also_named, check_elements, resolve_dtype
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._repr import DescribedModule
from torch_hrr._sharding import fill
from torch_hrr._spec import Bool, Int, takes
from torch_hrr.hierarchy.layers import DRAWN, drawn_weights, rows_for
from torch_hrr.runtime.device import resolve_parameter_device


class BitLinear(DescribedModule):
    """A linear layer whose weights are -gamma, 0 or gamma: ``y = x Q(W)^T + b``.

    ``Q(W) = gamma clip(round(W / gamma), -1, 1)`` with gamma the mean of abs(W), at least 1e-5. The gradient goes
    straight through Q, so any optimizer trains W.

    Attributes:
        in_features, out_features: n and m, as of `torch.nn.Linear`.
        weight: W, ``[m, n]``, from N(0, 1/n) at first.
        bias: b, ``[m]``, or None.
        seed: Of the weights; one that was drawn if none was given.

    Source: Ma et al., The era of 1-bit LLMs: all large language models are in 1.58 bits, 2024.
    """

    bias: nn.Parameter | None

    @also_named(input_size="in_features", output_size="out_features")
    @takes(in_features=Int(1), out_features=Int(1), bias=Bool(), **DRAWN)
    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        seed: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the weights.

        Args:
            in_features: n, at least 1.
            out_features: m, at least 1.
            bias: Whether there is one; zeros at first.
            seed: Of the weights, which are the same on every device; None draws one from torch's default generator on
                the CPU, which `torch.manual_seed` sets.
            device: None means torch's default one, until `runtime.set_device` sets another.
            dtype: None means torch's default one.
        """
        super().__init__()
        op = "BitLinear"
        self.in_features = self.input_size = in_features
        self.out_features = self.output_size = out_features
        place, kind = resolve_parameter_device(device, op=op), resolve_dtype(op, dtype)
        self.seed = given_or_drawn_seed(op, seed)
        check_elements(op, "the weights", (out_features, in_features))
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=place, dtype=kind))
        self.bias = nn.Parameter(torch.empty(out_features, device=place, dtype=kind)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights of the seed again, as after ``to_empty``; biases are 0."""
        fill(self.weight, drawn_weights(self.out_features, self.in_features, self.seed))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def quantized(self) -> tuple[Tensor, Tensor]:
        """The weights as -1, 0 and 1, int8 ``[m, n]``, and gamma, 0-d."""
        gamma = self.weight.detach().abs().mean().clamp_min(1e-5)
        return (self.weight.detach() / gamma).round().clamp(-1, 1).to(torch.int8), gamma

    def forward(self, x: Tensor) -> Tensor:
        """``x Q(W)^T + b``, ``[..., m]``; errors as of `rows_for`."""
        x = rows_for("BitLinear", x, self.weight)
        signs, gamma = self.quantized()
        # A difference of 0 carries the gradient: the sum of W and Q(W) - W would round to more than three values.
        weight = signs * gamma + (self.weight - self.weight.detach())
        return nn.functional.linear(x, weight, self.bias)

    def _summary(self) -> dict[str, Any]:
        return {"in_features": self.in_features, "out_features": self.out_features, "bias": self.bias is not None}
