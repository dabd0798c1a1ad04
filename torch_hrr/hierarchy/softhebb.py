"""SoftHebb: a soft competition between units that learn by Hebb's rule."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Real, Spec, takes
from torch_hrr.hierarchy.layers import DRAWN, SIZES, Layer, rows_for, steady


class SoftHebb(Layer):
    """A layer of units that compete by a softmax and learn the directions of the cluster centres of their inputs.

    ``u = W x``, ``y = softmax(u / temperature)``, and at every tick ``dW_j = lr E[y_j (x - u_j W_j)]``, where E is the
    mean over the tick's batch: rows go to norm 1, each to the mean direction of the inputs it wins.

    Attributes:
        weight: ``[m, n]``, from N(0, 1/n) at first.
        lr, temperature: As given.

    Source: Moraitis et al., SoftHebb: Bayesian inference in unsupervised Hebbian soft winner-take-all networks,
    Neuromorphic Computing and Engineering 2, 2022.
    """

    _own: ClassVar[dict[str, Spec]] = {"lr": Real(0), "temperature": Real(0, open_left=True)}

    _tick_seconds = 1e-4

    @takes(**SIZES, **_own, **DRAWN)
    @writable_anywhere
    def __init__(
        self,
        input_size: int,
        output_size: int,
        lr: float = 1e-2,
        temperature: float = 1.0,
        seed: int | None = None,
        *,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the weights.

        Args:
            input_size: n, at least 1.
            output_size: m, at least 1.
            lr: Learning rate, at least 0.
            temperature: Of the softmax, above 0: near 0 one unit wins, far above 1 all take part.
            seed: Of the weights, which are the same on every device; None draws one from torch's default generator on
                the CPU, which `torch.manual_seed` sets.
            device: None means the current one, `runtime.get_device()`.
            dtype: None means torch's default one.

        Raises:
            ValueError: ``lr`` is not finite, or ``temperature`` not above 0, in the dtype that is computed in.
        """
        super().__init__(input_size, output_size, seed, device=device, dtype=dtype)
        self.lr, self.temperature = lr, temperature
        self.check("SoftHebb")

    def check(self, op: str) -> None:
        """As of any layer."""
        super().check(op)
        if self.dtype != torch.float64 and self.temperature < torch.finfo(torch.float32).tiny:
            raise ValueError(f"{op}: temperature must be above 0 in float32, got {self.temperature:g}")

    def forward(self, x: Tensor) -> Tensor:
        """``softmax(x W^T / temperature)``, ``[..., m]``, without learning; errors as of `rows_for`."""
        x = rows_for("SoftHebb", x, self.weight)
        return torch.softmax(x @ steady(self.weight, x).mT / self.temperature, -1)

    def outputs(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs for all ticks; with `learn` weights change at every one of them: a loop of torch's operators."""
        if not learn or not len(ticks):
            return self.forward(ticks), {}
        with torch.no_grad():
            weight, outputs = self.weight.clone(), []
            for tick in ticks:
                x = tick if ticks.dim() == 3 else tick.unsqueeze(0)
                u = x @ weight.mT
                y = torch.softmax(u / self.temperature, -1)
                step = (y.mT @ x - (y * u).sum(0).unsqueeze(-1) * weight) / len(x)
                weight = weight + self.lr * step
                outputs.append(y if ticks.dim() == 3 else y[0])
        return torch.stack(outputs), {"weight": weight}
