"""SoftHebb: a soft competition between units that learn by Hebb's rule."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from torch_hrr._plain.hierarchy import outputs_of
from torch_hrr._plain.hierarchy import plastic_scan as plain_scan
from torch_hrr._sharding import is_divided
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Bool, Real, Spec, takes
from torch_hrr.hierarchy.functional import plastic_scan
from torch_hrr.hierarchy.layers import DRAWN, SIZES, Layer, rows_for, steady


class SoftHebb(Layer):
    """A layer of units that compete by a softmax and learn the directions of the cluster centres of their inputs.

    ``u = W (x - mean)``, ``y = softmax(u / temperature)``, and at every tick rule "softhebb" of `plastic_scan`:
    ``dW_j = lr E[y_j (x - mean - u_j W_j)]``, where E is the mean over the tick's batch. Rows go to norm 1, each to the
    mean direction of the inputs it wins. Of inputs that are not centred, such as positive ones, one unit would win all.
    The mean is that of all inputs learned from, the tick's included, and each counts the same. In float32 and float64
    the bits of a call are those of its ticks one by one.

    Attributes:
        weight: ``[m, n]``, from N(0, 1/n) at first.
        mean: ``[n]``, of the inputs learned from with `center`; zeros at first.
        sums: ``[n + 1]``, the bits of float64 as int64, which keep their precision in a module of half type: the sums
            of the inputs learned from, and their number. Zeros here and in `mean` start the mean again.
        lr, temperature, center, losers, scaled, power: As given.

    Source: Moraitis et al., SoftHebb: Bayesian inference in unsupervised Hebbian soft winner-take-all networks,
    Neuromorphic Computing and Engineering 2, 2022; Journé et al., Hebbian deep learning without feedback, ICLR 2023.
    """

    mean: Tensor
    sums: Tensor
    _version = 2
    _own: ClassVar[dict[str, Spec]] = {
        "lr": Real(0),
        "temperature": Real(0, open_left=True),
        "center": Bool(),
        "losers": Real(),
        "scaled": Bool(),
        "power": Real(0),
    }

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
        center: bool = True,
        losers: float = 1.0,
        scaled: bool = False,
        power: float = 0.0,
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
            center: Whether the mean of the inputs learned from is subtracted; without, `mean` and `sums` stay.
            losers: Factor of the steps of units other than a sample's winner, finite: -1 drives them away from what it
                wins, as multilayer SoftHebb does.
            scaled: Whether a tick's step is divided by its largest absolute entry; multilayer SoftHebb does.
            power: Exponent, at least 0: ``lr`` is multiplied by ``| |W_j| - 1 |^power``; 1/2 in multilayer SoftHebb.
            device: None means the current one, `runtime.get_device()`.
            dtype: None means torch's default one.

        Raises:
            ValueError: ``lr``, ``temperature``, ``losers`` or ``power`` is not finite, or ``temperature`` not above 0,
                in the dtype that is computed in.
        """
        super().__init__(input_size, output_size, seed, device=device, dtype=dtype)
        self.lr, self.temperature, self.center = lr, temperature, center
        self.losers, self.scaled, self.power = losers, scaled, power
        self.check("SoftHebb")
        self.register_buffer("mean", self.weight.new_zeros(self.input_size))
        self.register_buffer("sums", self.weight.new_zeros(self.input_size + 1, dtype=torch.int64))

    def reset_parameters(self) -> None:
        """As of any layer; no input was seen."""
        super().reset_parameters()
        self.mean.zero_()
        self.sums.zero_()

    def check(self, op: str) -> None:
        """As of any layer."""
        super().check(op)
        if self.dtype != torch.float64 and self.temperature < torch.finfo(torch.float32).tiny:
            raise ValueError(f"{op}: temperature must be above 0 in float32, got {self.temperature:g}")

    def forward(self, x: Tensor) -> Tensor:
        """``softmax((x - mean) W^T / temperature)``, ``[..., m]``, without learning; errors as of `rows_for`."""
        x = rows_for("SoftHebb", x, self.weight)
        if self.center:
            x = x - self.mean.to(x.dtype)
        return outputs_of(x, steady(self.weight, x), "softhebb", "linear", self.temperature)

    def outputs(self, ticks: Tensor, learn: bool) -> tuple[Tensor, Mapping[str, Tensor]]:
        """Outputs for all ticks; with `learn` weights and mean change at every one of them, else nothing does."""
        if not learn or not len(ticks):
            return self.forward(ticks), {}
        with torch.no_grad():
            changes = {}
            if self.center:
                ticks, changes["mean"], changes["sums"] = self._centered(ticks)
            # Units of other ranks compete at every tick: torch's operators gather what they take from the inputs.
            scan = plain_scan if is_divided(self.weight) else plastic_scan
            outputs, changes["weight"], _ = scan(
                ticks,
                self.weight,
                "softhebb",
                self.lr,
                temperature=self.temperature,
                losers=self.losers,
                scaled=self.scaled,
                power=self.power,
            )
        return outputs, changes

    def _centered(self, ticks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Every tick less the mean up to it, and the mean and the sums after the last."""
        batch = ticks.shape[1] if ticks.dim() == 3 else 1
        rows = ticks.new_ones(1 + ticks.shape[:-1].numel(), 1 + self.input_size, dtype=torch.float64)
        rows[0] = self.sums.view(torch.float64)
        rows[1:, :-1] = ticks.flatten(0, -2)
        # Along the first of two dimensions torch adds one row after another, on a GPU too: a call has the bits of its
        # ticks one by one.
        sums = rows.cumsum(0)[batch::batch]
        means = sums[:, :-1] / sums[:, -1:]
        centered = ticks - (means if ticks.dim() == 2 else means.unsqueeze(1))
        return centered.to(ticks.dtype), means[-1], sums[-1].view(torch.int64)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        # States from before inputs were centred.
        if local_metadata.get("version") == 1:
            state_dict.update({prefix + name: torch.zeros_like(getattr(self, name)) for name in ("mean", "sums")})
        sums = state_dict.get(prefix + "sums")
        if isinstance(sums, Tensor) and sums.shape == self.sums.shape and not sums.is_meta:
            # As other numbers they would become other bits. After inputs of NaN the sums may be so, but no number is.
            is_right = sums.dtype == torch.int64
            if is_right:
                number = float(sums[-1:].view(torch.float64))
                is_right = number >= 0 and number.is_integer()
            if not is_right:
                # The list of errors comes last: torch raises them together.
                rest[-1].append(f"{prefix}sums must be the bits of float64 as int64, the last of a number of inputs")
                return
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)
