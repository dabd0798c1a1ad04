"""Layers for networks: the k-cap, and an area of k winners over random connections.

Both can be scripted, exported and compiled like any module of torch. They take float32, float64, float16 and bfloat16
on any device, also as NumPy arrays, and are differentiable in their input and parameters through the surrogate of
`functional.k_cap`.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._jit_internal import is_scripting

from torch_hrr._checks import check_elements, check_floating, check_strided, named, placed, resolve_dtype, tensor
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._repr import DescribedModule
from torch_hrr._sharding import fill
from torch_hrr._spec import Bool, Choice, Device, Dtype, Int, Real, Seed, Spec, takes
from torch_hrr.assembly import functional
from torch_hrr.runtime.device import resolve_parameter_device

SURROGATES = ("sigmoid", "laplace", "ste", "none")
_CAP: dict[str, Spec] = {
    "k": Int(0),
    "temperature": Real(0, open_left=True),
    "surrogate": Choice(SURROGATES),
    "soft": Bool(),
}


def _check_soft(name: str, surrogate: str, soft: bool) -> None:
    if soft and surrogate in ("ste", "none"):
        raise ValueError(f"{name}: surrogate must be 'sigmoid' or 'laplace' with soft, got {surrogate!r}")


class KCap(DescribedModule):
    """The k winners of the last dimension as a 0/1 mask, trained through soft winners: `functional.k_cap`.

    Input and output ``[..., n]`` with n at least k. In place of an activation function, it makes a layer's output a set
    of k neurons. Everything else is as for `functional.k_cap`.
    """

    @takes(**_CAP)
    def __init__(self, k: int, temperature: float = 1.0, surrogate: str = "sigmoid", *, soft: bool = False) -> None:
        """Keeps the options of `functional.k_cap`.

        Args:
            k: The number of winners, at least 0.
            temperature: Width of the transition of the soft winners, finite and above 0.
            surrogate: "sigmoid", "laplace", "ste" or "none".
            soft: Whether the output is the soft winners themselves, which "sigmoid" and "laplace" have.
        """
        super().__init__()
        _check_soft("KCap", surrogate, soft)
        self.k, self.temperature, self.surrogate, self.soft = k, temperature, surrogate, soft

    def forward(self, x: Tensor) -> Tensor:
        """The mask; errors as for `functional.k_cap`."""
        if not is_scripting():
            x = tensor("KCap", "x", x)
            check_floating("KCap", "x", x)
        capped: Tensor = torch.ops.torch_hrr.k_cap(x, self.k, self.temperature, self.surrogate, self.soft)
        return capped

    def _summary(self) -> dict[str, Any]:
        own = {"k": self.k, "temperature": self.temperature, "surrogate": self.surrogate}
        return own | ({"soft": True} if self.soft else {})


class AssemblyLayer(DescribedModule):
    """An area of n neurons of which k fire: ``y = k_cap(x W^T + bias)`` over random connections.

    Each of the n neurons is connected to each input with probability p. Connections keep their weight of 1, as in the
    assembly calculus before any plasticity; with ``trainable`` their weights are a parameter, while pairs without a
    connection never get one. Connections are edges of the graph of `functional.connectome_inputs`: whether input i and
    neuron j are connected depends on i, j, p and the seed alone.

    Input ``[..., in_features]``, where bools and integers are converted to the dtype of the weights, and NumPy arrays
    of floats, too; output ``[..., n]`` with k ones, else
    zeros. Weights are stored as a dense matrix, ``n in_features`` elements. The winners are exact for the computed
    sums, which are as deterministic as torch's matrix products, and exact while weights are 1 and inputs small
    integers.

    Attributes:
        weight: ``[n, in_features]``: a buffer of zeros and ones, or, if trainable, a parameter that counts only where
            there is a connection.
        edges: ``[n, in_features]``, ones where there are connections and zeros elsewhere, in the dtype of the weights,
            since the average of models takes no bools; None unless trainable. States with bools load.
        bias: ``[n]``, a parameter, zeros at first, or None.

    Source: Papadimitriou et al., Brain computation by assemblies of neurons, PNAS 117(25), 2020; Dabagia, Papadimitriou
    and Vempala, Assemblies of neurons learn to classify well-separated distributions, COLT 2022.
    """

    weight: Tensor
    edges: Tensor | None
    bias: Tensor | None

    @takes(
        in_features=Int(1),
        n=Int(1),
        p=Real(0, 1),
        **_CAP,
        trainable=Bool(),
        bias=Bool(),
        seed=Seed().or_none(),
        device=Device(),
        dtype=Dtype().or_none(),
    )
    def __init__(
        self,
        in_features: int,
        n: int,
        k: int,
        p: float = 0.1,
        *,
        temperature: float = 1.0,
        surrogate: str = "sigmoid",
        soft: bool = False,
        trainable: bool = False,
        bias: bool = False,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the connections.

        Args:
            in_features: The number of inputs, at least 1.
            n: The number of neurons, at least 1.
            k: The number of winners, 0 to n.
            p: The probability of a connection, 0 to 1.
            temperature: As for `KCap`, in units of the sums: their standard deviation is a good first choice.
            surrogate: As for `KCap`.
            soft: As for `KCap`.
            trainable: Whether the weights of connections are a parameter.
            bias: Whether each neuron has a bias.
            seed: Seed of the connections, any int, taken modulo 2^64; None draws one from torch's default generator on
                the CPU, which `torch.manual_seed` sets.
            device: Device of the weights, as for `runtime.resolve_device`; None means the current device of `runtime`,
                if one is set, else torch's default device.
            dtype: dtype of the weights; None means torch's default dtype.

        Raises:
            ValueError: ``k`` is above ``n``, or ``surrogate`` has no soft winners.
        """
        super().__init__()
        _check_soft("AssemblyLayer", surrogate, soft)
        if k > n:
            raise ValueError(f"AssemblyLayer: k must be at most n = {n}, got {k}")
        check_elements("AssemblyLayer", "the weights", (n, in_features))
        seed = given_or_drawn_seed("AssemblyLayer", seed)
        self.in_features = in_features
        self.n = n
        self.k = k
        self.p = p
        self.temperature = temperature
        self.surrogate = surrogate
        self.soft = soft
        self.seed = seed
        place = resolve_parameter_device(device, op="AssemblyLayer")
        weight = torch.empty(n, in_features, device=place, dtype=resolve_dtype("AssemblyLayer", dtype))
        self.trainable = trainable
        if trainable:
            self.weight = nn.Parameter(weight)
            self.register_buffer("edges", torch.empty_like(weight))
        else:
            self.register_buffer("weight", weight)
            self.edges = None
        self.bias = nn.Parameter(weight.new_empty(n)) if bias else None
        with named("connectome_inputs", "AssemblyLayer"):
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the connections of the seed again, as after ``to_empty``; biases are 0."""
        edges = draw_edges(self.n, self.in_features, self.p, self.seed)
        for each in (self.weight, self.edges):
            if each is not None:
                fill(each, edges)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def inputs(self, x: Tensor) -> Tensor:
        """What the neurons receive, ``x W^T + bias``, before the k-cap; errors as for `forward`."""
        if not is_scripting():
            taken: Tensor = self._taken(x)
            x = taken
        if x.dim() == 0 or x.shape[-1] != self.in_features:
            raise ValueError(f"AssemblyLayer: x must have shape [..., {self.in_features}], got {list(x.shape)}")
        if not x.is_floating_point():
            x = x.to(self.weight.dtype)
        weight = self.weight
        edges = self.edges
        if edges is not None:
            weight = weight * edges
        return F.linear(x, weight, self.bias)

    @torch.jit.unused
    def _taken(self, x: Any) -> Tensor:
        """The input as a tensor that fits the weights."""
        given = placed("AssemblyLayer", "x", x, self.weight.device)
        check_strided("AssemblyLayer", "x", given)
        if given.is_complex():
            raise TypeError(f"AssemblyLayer: x must be real, got {given.dtype}")
        if not isinstance(x, Tensor):
            return given.to(self.weight.dtype)
        if given.device != self.weight.device:
            raise RuntimeError(f"AssemblyLayer: x must be on {self.weight.device}, got {given.device}")
        mixed = given.is_floating_point() and given.dtype != self.weight.dtype
        # Autocast leaves double as it is.
        double = torch.float64 in (given.dtype, self.weight.dtype)
        if mixed and (double or not torch.is_autocast_enabled(given.device.type)):
            raise TypeError(f"AssemblyLayer: x must be {self.weight.dtype} as the weights are, got {given.dtype}")
        return given

    def forward(self, x: Tensor) -> Tensor:
        """The winners.

        Raises:
            TypeError: Neither a real strided tensor nor an array, or a tensor of floats of another dtype than the
                weights, without autocast.
            ValueError: The number of inputs is not ``in_features``.
            RuntimeError: A tensor on another device than the weights.
        """
        winners: Tensor = torch.ops.torch_hrr.k_cap(self.inputs(x), self.k, self.temperature, self.surrogate, self.soft)
        return winners

    def _summary(self) -> dict[str, Any]:
        settings = ("in_features", "n", "k", "p", "temperature", "surrogate", "trainable")
        own = {name: getattr(self, name) for name in settings}
        return own | {"bias": self.bias is not None, "seed": self.seed}


def draw_edges(targets: int, sources: int, p: float, seed: int) -> Tensor:
    """Bool ``[targets, sources]``: the edges of fiber 0 of the connectome that the seed names, as in `Brain`."""
    with torch.device("cpu"):
        every_source = torch.arange(sources).unsqueeze(-1)
        return functional.connectome_inputs(every_source, targets, p, seed, 0).t() > 0
