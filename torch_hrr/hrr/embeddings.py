"""Encoders: modules that turn integers, numbers and rows of numbers into vectors, by vectors that a seed draws.

What an encoder means is its kernel, the cosine that two codes are expected to have; that of drawn vectors deviates from
it by about 1/sqrt(D). Everything drawn depends on the seed, D and the place in its list alone, is drawn in float64, and
rounded to the dtype. It is held in buffers: encoders have no parameters, and learn nothing. All can be scripted,
exported, compiled, copied and saved. Numbers are tensors or NumPy arrays of any real dtype. Half types are computed in
float32, and autocast changes nothing.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._jit_internal import is_scripting

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_elements, values_decide
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._repr import DescribedModule
from torch_hrr._spec import Bool, Choice, Device, Dtype, Int, Real, Seed, Spec, takes
from torch_hrr.hrr import functional
from torch_hrr.hrr.modules import empty_matrix, taken, widen
from torch_hrr.io import Saveable
from torch_hrr.runtime.device import resolve_parameter_device

_Place = torch.device | str | int | None
_DRAWN: dict[str, Spec] = {"seed": Seed().or_none(), "device": Device(), "dtype": Dtype().or_none()}
_TABLE: dict[str, Spec] = {"dim": Int(1), "features": Int(1).or_none(), **_DRAWN}
# Elements of a table of bound vectors: 256 MiB in float32. A larger one is not kept.
_MOST_BOUND = 1 << 26
# Of the seed of the roles, so that they are not the vectors of the same seed.
_ROLES = 0x9E3779B97F4A7C15


class Encoder(Saveable, DescribedModule):
    """A module whose buffers follow from its settings, and whose file holds both."""

    _has_modes = False
    # Of the constructor, which are attributes too.
    _arguments: ClassVar[tuple[str, ...]]
    dim: int
    seed: int

    def __init__(self, dim: int, seed: int | None) -> None:
        """Without buffers yet; None draws a seed."""
        super().__init__()
        self.dim, self.seed = dim, given_or_drawn_seed(type(self).__name__, seed)

    def reset_parameters(self) -> None:
        """Draws the vectors of the seed again, as after ``to_empty``."""
        if next(self.buffers()).is_meta:
            return
        # Where the vectors are decides nothing about how they are drawn.
        with torch.no_grad(), torch.device("cpu"):
            self._draw(seeded_generator(self.seed))

    def _draw(self, generator: torch.Generator) -> None:
        """Fills the buffers."""
        raise NotImplementedError

    def _taken(self, x: Tensor, weight: Tensor, width: int | None) -> Tensor:
        """The values beside the weight; ValueError unless their last dimension is the width, if there is one."""
        name = type(self).__name__
        given = taken(name, "x", x, weight, False)
        if given.is_complex() or given.dtype is torch.bool:
            raise TypeError(f"{name}: x must hold real numbers, got {given.dtype}")
        if width is not None and (given.dim() == 0 or given.shape[-1] != width):
            raise ValueError(f"{name}: x must have shape [..., {width}], got {list(given.shape)}")
        return given

    def _summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._arguments}

    def _settings(self) -> Mapping[str, Any]:
        return {**self._summary(), "seed": str(self.seed)}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        settings["seed"], settings["dtype"] = int(settings["seed"]), tensors["weight"].dtype
        return super()._from_settings(settings, tensors, device, **options)

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        # Checked without memory, as nothing need be drawn.
        made = super()._from_content(tensors, metadata, torch.device("meta"), **options)
        place = resolve_parameter_device(device, op="load")
        for name, tensor in tensors.items():
            setattr(made, name, tensor.to(place))
        return made


class _Table(Encoder):
    """N vectors, one of which a value stands for; of F features the record that binds each to a role of its own."""

    weight: Tensor
    roles: Tensor | None
    # bind(role_f, weight_i) in row f N + i: a record is then a sum of rows. It follows from the other two, and is made
    # again where they have changed, but within a compiled or scripted call.
    bound: Tensor | None

    def __init__(
        self, count: int, dim: int, features: int | None, seed: int | None, device: _Place, dtype: torch.dtype | None
    ) -> None:
        super().__init__(dim, seed)
        self.features = features
        name, rows = type(self).__name__, features or 0
        self.register_buffer("weight", empty_matrix(name, (count, dim), device, dtype))
        check_elements(name, "the roles", (rows, dim))
        self.register_buffer("roles", None if features is None else self.weight.new_empty(rows, dim))
        self.register_buffer("bound", None, persistent=False)
        self._bound_of = 0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the vectors of the seed again, as after ``to_empty``."""
        super().reset_parameters()
        if self.roles is not None and not self.roles.is_meta:
            with torch.no_grad(), torch.device("cpu"):
                self.roles.copy_(_rows(len(self.roles), self.dim, seeded_generator(self.seed ^ _ROLES)))
        self._bind()

    @torch.no_grad()
    def _bind(self) -> None:
        self.bound = None
        if self.roles is not None and len(self.roles) * self.weight.numel() <= _MOST_BOUND:
            with full_precision(self.weight.device):
                self.bound = functional.bind(self.roles.unsqueeze(1), self.weight).flatten(0, 1)
            self._bound_of = self._parts_now()

    def _parts_now(self) -> int:
        """Another number once the vectors or roles have been edited or replaced; no edit in inference mode is seen."""
        parts = [each for each in (self.weight, self.roles) if each is not None]
        return hash(tuple((id(each), 0 if each.is_inference() else each._version) for each in parts))

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        parts: Callable[..., object] = super()._apply
        self.bound = None
        parts(fn, recurse)
        self._bind()
        return self

    @classmethod
    def _from_content(
        cls, tensors: dict[str, Tensor], metadata: dict[str, Any], device: torch.device | None, **options: Any
    ) -> Self:
        made = super()._from_content(tensors, metadata, device, **options)
        made._bind()
        return made

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        super()._load_from_state_dict(*args, **kwargs)
        self._bind()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy binds its own parts, so that it can be traced, compiled or exported at once."""
        module: Any = super()
        module.__setstate__(state)
        self._bind()

    def forward(self, x: Tensor) -> Tensor:
        """The codes.

        Args:
            x: Values ``[...]``, or ``[..., F]`` where there are F features.

        Returns:
            ``[..., D]`` in the dtype of the vectors, one code for each value or for each row of F. It has no gradient.

        Raises:
            TypeError: ``x`` is neither a tensor nor an array of real numbers; of `RandomEncoder`: of integers.
            ValueError: Its last dimension is not F.
            IndexError: An integer of `RandomEncoder` has no vector.
            RuntimeError: It is on another device than the vectors.
        """
        if is_scripting():
            places, gaps = self._places(x)
            return self._codes(places, gaps)
        else:
            places, gaps = self._places(self._taken(x, self.weight, self.features))
            if self.bound is not None and values_decide() and self._bound_of != self._parts_now():
                self._bind()
            # On the CPU reading costs nothing, and a pass over the codes as much as they do.
            if gaps is not None and gaps.device.type == "cpu" and values_decide() and not bool(gaps.isnan().any()):
                gaps = None
            with full_precision(self.weight.device):
                return self._codes(places, gaps)

    def _places(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The rows that values stand for; NaN where there is none, else 0."""
        raise NotImplementedError

    def _codes(self, places: Tensor, gaps: Tensor | None) -> Tensor:
        roles, bound = self.roles, self.bound
        if roles is None:
            codes = F.embedding(places, self.weight)
        elif bound is None:
            record: Tensor = torch.ops.torch_hrr.bind_superpose(roles, F.embedding(places, self.weight))
            codes = record
        else:
            flat = places + self.weight.shape[0] * torch.arange(roles.shape[0], device=places.device)
            codes = F.embedding_bag(flat.reshape(-1, roles.shape[0]), bound, mode="sum")
            codes = codes.reshape(places.shape[:-1] + codes.shape[-1:])
        if gaps is None:
            return codes
        missing = gaps if roles is None else gaps.sum(-1)
        return codes + missing.unsqueeze(-1).to(codes.dtype)


class RandomEncoder(_Table):
    """A vector of its own for each integer from 0 to N - 1, from N(0, 1/D) or unitary: cosines of 0 with all others.

    Of F features, ``sum_f bind(role_f, v[x_f])``, with roles of N(0, 1/D), not normalised: its norm is about sqrt(F),
    and the cosine of two rows about the share of features that are equal. The vector of an integer is the same whatever
    N is. As long as F N D is at most 2^26 all bound vectors are kept, a record is a sum of F of them, and the cost F D
    additions; else it is that of `functional.bind_superpose`. On CUDA, and in scripts, an integer without a vector is
    torch's own error.

    Attributes:
        weight: The vectors, ``[N, D]``.
        roles: ``[F, D]``, or None.
        seed: Of the vectors; the one drawn where none was given.

    Source: Kanerva, Hyperdimensional computing, Cognitive Computation 1, 2009; records: Plate 1995, section IV.
    """

    file_format = "torch_hrr.random_encoder"
    _arguments = ("count", "dim", "unitary", "features", "seed")

    @takes(count=Int(1), unitary=Bool(), **_TABLE)
    def __init__(
        self,
        count: int,
        dim: int,
        unitary: bool = False,
        *,
        features: int | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the vectors.

        Args:
            count: N, at least 1.
            dim: D, at least 1.
            unitary: Whether vectors are unitary, as those of `functional.random`; roles never are.
            features: F; None means that each integer gets a code.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the vectors; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the vectors; None means torch's default dtype.
        """
        self.count, self.unitary = count, unitary
        super().__init__(count, dim, features, seed, device, dtype)

    def _draw(self, generator: torch.Generator) -> None:
        self.weight.copy_(_rows(self.count, self.dim, generator, self.unitary))

    def _places(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        if x.is_floating_point():
            raise TypeError(f"RandomEncoder: x must be integers, got {x.dtype}")
        places = x.to(torch.int64)
        if not is_scripting():
            _check_places(places, self.count)
        # Beyond every table, so that torch refuses it, where it would be that of another feature.
        beyond = self.count * (1 if self.features is None else self.features)
        return torch.where((places < 0) | (places >= self.count), beyond, places), None


class _Scale(_Table):
    """N levels from low to high."""

    _arguments = ("levels", "dim", "low", "high", "features", "seed")
    low: float
    high: float

    @takes(levels=Int(2), low=Real(), high=Real(), **_TABLE)
    def __init__(
        self,
        levels: int,
        dim: int,
        low: float = 0.0,
        high: float = 1.0,
        *,
        features: int | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the vectors.

        Args:
            levels: N, at least 2.
            dim: D, at least 1.
            low: The value of the first level.
            high: The value of the last level, above ``low``.
            features: F; None means that each value gets a code.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the vectors; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the vectors; None means torch's default dtype.

        Raises:
            ValueError: ``high`` is not above ``low``, or float32 cannot hold their difference.
        """
        if not low < high:
            raise ValueError(f"{type(self).__name__}: high must be above low = {low:g}, got {high:g}")
        # Beyond, places of float32 numbers overflow.
        if not (1e-37 < high - low < 1e38 and abs(low) < 1e38):
            raise ValueError(f"{type(self).__name__}: low and high must differ by 1e-37 to 1e38, got {low:g}, {high:g}")
        self.levels, self.low, self.high = levels, low, high
        super().__init__(levels, dim, features, seed, device, dtype)

    def _places(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        steps = (_wide(x) - self.low) * ((self.levels - 1) / (self.high - self.low))
        return _nearest(steps.clamp(0, self.levels - 1))

    def _draw(self, generator: torch.Generator) -> None:
        first, last = self._ends(generator)
        order = torch.randperm(self.dim, generator=generator)
        taken = torch.linspace(0, self.dim, self.levels, dtype=torch.float64).round()
        self.weight.copy_(torch.where(order < taken.unsqueeze(-1), last, first))

    def _ends(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """The vectors of the first and of the last level."""
        raise NotImplementedError


class LevelEncoder(_Scale):
    """Numbers from low to high by N levels whose cosine falls with their distance, from 1 to 0 between the ends.

    Level i has i D / (N - 1) of its elements, in a random order, from one vector of N(0, 1/D), and the others from
    another one, so that the kernel is ``1 - |i - j| / (N - 1)``. A value is that of the nearest level (of two the even
    one), and of an end beyond it; NaN gives a NaN row.

    Of F features, ``sum_f bind(role_f, level(x_f))``, not normalised: its norm is about sqrt(F), and its kernel the
    mean of those of the features. Tables and cost are as for `RandomEncoder`.

    Attributes:
        weight: The levels, ``[N, D]``.
        roles: ``[F, D]`` of N(0, 1/D), or None.
        seed: Of the vectors; the one drawn where none was given.

    Source: Rahimi, Kanerva, Rabaey, A robust and energy-efficient classifier using brain-inspired hyperdimensional
    computing, ISLPED 2016; the mixture: Nunes, Heddes, Givargis, Nicolau, An extension to basis-hypervectors, 2022.
    """

    file_format = "torch_hrr.level_encoder"

    def _ends(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        first, last = _rows(2, self.dim, generator)
        return first, last


class ThermometerEncoder(_Scale):
    """Numbers from low to high by N levels of which each has taken one step more: from 1 to -1 between the ends.

    A step changes the sign of D / (N - 1) elements, in a random order, of one vector of ``+-1/sqrt(D)``: the kernel is
    ``(steps in common - others) / steps = 1 - 2 |i - j| / (N - 1)``, exact but for the rounding of D / (N - 1). All
    else is as for `LevelEncoder`.

    Attributes:
        weight: The levels, ``[N, D]``.
        roles: ``[F, D]`` of N(0, 1/D), or None.
        seed: Of the vectors; the one drawn where none was given.

    Source: Kleyko, Kheffache, Frady, Wiklund, Osipov, Density encoding enables resource-efficient randomly connected
    neural networks, 2020, with random signs and a random order, since a constant vector would have one Fourier bin.
    """

    file_format = "torch_hrr.thermometer_encoder"

    def _ends(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        signs = torch.randint(0, 2, (self.dim,), generator=generator).double().mul(2).sub(1) / self.dim**0.5
        return signs, -signs


class CircularEncoder(_Table):
    """Angles, or other values of a period, by N vectors around a circle: the cosine falls from 1 to 0 halfway round.

    Each element is from one vector of N(0, 1/D) on one half of the circle, and from another one on the rest; where the
    halves begin is another random place for each. The kernel is ``1 - 2 d / period``, d the shorter way from one value
    to the other. A value is that of the nearest of the N places; NaN and infinity give a NaN row. Features are as for
    `LevelEncoder`.

    Attributes:
        weight: The vectors at the places ``i period / N``, ``[N, D]``.
        roles: ``[F, D]`` of N(0, 1/D), or None.
        seed: Of the vectors; the one drawn where none was given.

    Source: Nunes, Heddes, Givargis, Nicolau, An extension to basis-hypervectors for learning from circular data in
    hyperdimensional computing, 2022, which has no form for HRR.
    """

    file_format = "torch_hrr.circular_encoder"
    _arguments = ("levels", "dim", "period", "features", "seed")
    period: float

    @takes(levels=Int(2), period=Real(0, open_left=True), **_TABLE)
    def __init__(
        self,
        levels: int,
        dim: int,
        period: float = 2 * math.pi,
        *,
        features: int | None = None,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the vectors.

        Args:
            levels: N, at least 2.
            dim: D, at least 1.
            period: After which values repeat.
            features: F; None means that each value gets a code.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the vectors; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the vectors; None means torch's default dtype.
        """
        self.levels, self.period = levels, period
        super().__init__(levels, dim, features, seed, device, dtype)

    def _draw(self, generator: torch.Generator) -> None:
        first, second = _rows(2, self.dim, generator)
        begins = (torch.randperm(self.dim, generator=generator).double() + 0.5) / self.dim
        turns = torch.arange(self.levels, dtype=torch.float64).unsqueeze(-1) / self.levels
        self.weight.copy_(torch.where(torch.remainder(turns - begins, 1) < 0.5, first, second))

    def _places(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        places, gaps = _nearest(torch.remainder(_wide(x) / self.period, 1.0) * self.levels)
        return places % self.levels, gaps


class _Features(Encoder):
    """Rows of F numbers, by functions of ``W x`` that are continuous in them."""

    weight: Tensor
    in_features: int

    def __init__(
        self, in_features: int, dim: int, seed: int | None, device: _Place, dtype: torch.dtype | None, has_bias: bool
    ) -> None:
        super().__init__(dim, seed)
        self.in_features = in_features
        self.register_buffer("weight", empty_matrix(type(self).__name__, (dim, in_features), device, dtype))
        if has_bias:
            self.register_buffer("bias", torch.empty_like(self.weight[:, 0]))
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """The codes.

        Args:
            x: Rows ``[..., F]``; integers are taken in the dtype of the encoder.

        Returns:
            ``[..., D]``, in the wider of the two dtypes, differentiable in ``x``. A row with NaN is NaN, and one with
            infinity not finite.

        Raises:
            TypeError: ``x`` is neither a tensor nor an array of real numbers.
            ValueError: Its last dimension is not F.
            RuntimeError: It is on another device than the encoder.
        """
        if is_scripting():
            return self._codes(x if x.is_floating_point() else x.to(self.weight.dtype))
        else:
            values = self._taken(x, self.weight, self.in_features)
            # An array goes into the dtype of the encoder too.
            values = values if values is x and x.is_floating_point() else values.to(self.weight.dtype)
            with full_precision(self.weight.device):
                return self._codes(values)

    def _codes(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class ProjectionEncoder(_Features):
    """Rows of numbers by a random projection, ``y = W x``, W of N(0, 1/D): cosines and norms are those of the inputs.

    Those of two inputs are kept up to about 1/sqrt(D), whatever F is. A matrix product, whose last bits may depend on
    the batch: F D multiplications a row.

    Attributes:
        weight: W, ``[D, F]``.
        seed: Of it; the one drawn where none was given.

    Source: Johnson, Lindenstrauss, Extensions of Lipschitz mappings into a Hilbert space, 1984.
    """

    file_format = "torch_hrr.projection_encoder"
    _arguments = ("in_features", "dim", "seed")

    @takes(in_features=Int(1), dim=Int(1), **_DRAWN)
    def __init__(
        self,
        in_features: int,
        dim: int,
        *,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the projection.

        Args:
            in_features: F, at least 1.
            dim: D, at least 1.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the projection; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the projection; None means torch's default dtype.
        """
        super().__init__(in_features, dim, seed, device, dtype, False)

    def _draw(self, generator: torch.Generator) -> None:
        self.weight.copy_(torch.randn(self.weight.shape, generator=generator, dtype=torch.float64) / self.dim**0.5)

    def _codes(self, x: Tensor) -> Tensor:
        return _product(x, self.weight, None).to(torch.promote_types(x.dtype, self.weight.dtype))


class SinusoidEncoder(_Features):
    """Rows of numbers by random Fourier features: ``y[n] = sqrt(2/D) cos(bandwidth <w_n, x> + b_n)``.

    With w of N(0, 1) and b uniform in [0, 2 pi) the kernel is Gaussian, ``exp(-(bandwidth |x - z|)^2 / 2)``, and norms
    are about 1. The angles are a matrix product, whose last bits may depend on the batch; in float32 they are exact to
    1e-7 of their size. F D multiplications and D cosines a row.

    Attributes:
        weight: w, ``[D, F]``.
        bias: b, ``[D]``.
        seed: Of both; the one drawn where none was given.

    Source: Rahimi, Recht, Random features for large-scale kernel machines, 2007.
    """

    file_format = "torch_hrr.sinusoid_encoder"
    _arguments = ("in_features", "dim", "bandwidth", "seed")
    bias: Tensor

    @takes(in_features=Int(1), dim=Int(1), bandwidth=Real(0, open_left=True), **_DRAWN)
    def __init__(
        self,
        in_features: int,
        dim: int,
        bandwidth: float = 1.0,
        *,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws frequencies and phases.

        Args:
            in_features: F, at least 1.
            dim: D, at least 1.
            bandwidth: Factor of the inputs: the larger, the narrower the kernel.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the buffers; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the buffers; None means torch's default dtype.
        """
        self.bandwidth = bandwidth
        super().__init__(in_features, dim, seed, device, dtype, True)

    def _draw(self, generator: torch.Generator) -> None:
        self.weight.copy_(torch.randn(self.weight.shape, generator=generator, dtype=torch.float64))
        self.bias.copy_(torch.rand(self.dim, generator=generator, dtype=torch.float64) * (2 * math.pi))

    def _codes(self, x: Tensor) -> Tensor:
        waves = _product(widen(x) * self.bandwidth, self.weight, self.bias).cos()
        codes: Tensor = (waves * (2 / self.dim) ** 0.5).to(torch.promote_types(x.dtype, self.weight.dtype))
        return codes


class FractionalPowerEncoder(_Features):
    """Rows of numbers by powers of unitary vectors that are bound together, ``prod_f bind_power(v_f, s x_f)``.

    s is the bandwidth. In the spectrum the phases of the vectors are multiplied by the numbers and added,
    ``exp(i s sum_f x_f phase_f)``; they are held as they are, not as vectors, in which those beyond pi would wrap. With
    d_f = s (x_f - z_f) the kernel is ``prod_f sinc(d_f)`` for phases uniform in [-pi, pi), kernel "sinc", and
    ``exp(-sum_f d_f^2 / 2)`` for phases of N(0, 1), kernel "gaussian". DC, and Nyquist where D is even, are 1, so that
    codes are unitary: norms are 1, ``bind(code(x), code(z)) = code(x + z)``, and the involution of a code is that of
    -x. The angles are a matrix product, whose last bits may depend on the batch; in float32 they are exact to 1e-7 of
    their size. F D multiplications, D cosines and a transform a row.

    `fractional_power_encoding` takes vectors of your own, and adds phases in double.

    Attributes:
        weight: The phases of the bins in the order of `functional.spectrum`, ``[D, F]``: 0, that of bin 1 twice, ...
        bias: What makes a cosine of the angle the real or the imaginary part of its bin, 0 or -pi/2, ``[D]``.
        seed: Of the phases; the one drawn where none was given.

    Source: Plate 1995, section VIII-A; Frady, Kleyko, Kymn, Olshausen, Sommer, Computing on functions using randomized
    vector representations, 2021.
    """

    file_format = "torch_hrr.fractional_power_encoder"
    _arguments = ("in_features", "dim", "kernel", "bandwidth", "seed")
    bias: Tensor

    @takes(
        in_features=Int(1), dim=Int(3), kernel=Choice(("sinc", "gaussian")), bandwidth=Real(0, open_left=True), **_DRAWN
    )
    def __init__(
        self,
        in_features: int,
        dim: int,
        kernel: str = "sinc",
        bandwidth: float = 1.0,
        *,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the phases.

        Args:
            in_features: F, at least 1.
            dim: D, at least 3.
            kernel: "sinc" or "gaussian".
            bandwidth: s, a factor of the inputs: the larger, the narrower the kernel.
            seed: Any int, modulo 2^64; None draws one from torch's default generator.
            device: Device of the buffers; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the buffers; None means torch's default dtype.
        """
        self.kernel, self.bandwidth = kernel, bandwidth
        super().__init__(in_features, dim, seed, device, dtype, True)

    def _draw(self, generator: torch.Generator) -> None:
        shape = ((self.dim - 1) // 2, self.in_features)
        if self.kernel == "gaussian":
            phases = torch.randn(shape, generator=generator, dtype=torch.float64)
        else:
            phases = (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * math.pi
        ends = (1, self.dim - 1 - 2 * len(phases))
        self.weight.copy_(F.pad(phases.repeat_interleave(2, 0), (0, 0, *ends)))
        self.bias.copy_(F.pad(torch.tensor([0, -math.pi / 2], dtype=torch.float64).repeat(len(phases)), ends))

    def _codes(self, x: Tensor) -> Tensor:
        waves = _product(widen(x) * self.bandwidth, self.weight, self.bias).cos()
        codes: Tensor = torch.ops.torch_hrr.from_spectrum(waves)
        return codes.to(torch.promote_types(x.dtype, self.weight.dtype))


def _rows(count: int, dim: int, generator: torch.Generator, unitary: bool = False) -> Tensor:
    """Rows of `functional.random` in float64 on the CPU, of which the first do not depend on how many there are."""
    if unitary:
        return functional.random(count, dim, generator, True, "cpu", torch.float64)
    # torch draws sixteen numbers from sixteen, and what is left at the end in another way.
    drawn = torch.randn(count, -(-dim // 16) * 16, generator=generator, dtype=torch.float64, device="cpu")
    rows: Tensor = drawn[:, :dim] / dim**0.5
    return rows


def _check_places(places: Tensor, count: int) -> None:
    """IndexError for a row that is not there, where values are at hand."""
    if places.device.type == "cpu" and values_decide() and places.numel():
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= count:
            raise IndexError(f"RandomEncoder: x must be 0 to {count - 1}, got {low if low < 0 else high}")


def _wide(x: Tensor) -> Tensor:
    """Half types as float32, and integers, which may be large, as float64."""
    return widen(x) if x.is_floating_point() else x.to(torch.float64)


def _nearest(steps: Tensor) -> tuple[Tensor, Tensor | None]:
    """The nearest integers, 0 for NaN; and NaN there, else 0."""
    return steps.nan_to_num(0.0).round().to(torch.int64), steps * 0


# x W^T + b, at least in float32
def _product(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    kind = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    product: Tensor = F.linear(x.to(kind), weight.to(kind), None if bias is None else bias.to(kind))
    return product
