"""Distributions over unitary vectors, for variational models: their free Fourier phases are independent.

A unitary vector whose real bins (DC, and Nyquist for even D) are +1, such as `hrr.random(..., unitary=True)` draws, has
m = (D - 1) // 2 free phases, one for each other bin k = 1 to m. Densities are with respect to these phases, in radians;
divided by ``(D / 2)^(m / 2)`` they are those with respect to the surface that the vectors make. Divergences are the
same either way.

As of all of `torch.distributions`, samples come from torch's default generator of the device. Half types are computed
in float32; autocast rounds nothing.
"""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints, register_kl

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_broadcast, check_elements, check_vectors, real, resolve_dtype, sizes
from torch_hrr._repr import Described, place_of
from torch_hrr._spec import Bool, Device, Dtype, Int, takes
from torch_hrr.hrr import functional
from torch_hrr.hrr.memory import compute_dtype
from torch_hrr.runtime import resolve_device


class _Unitary(constraints.Constraint):
    """Vectors whose Fourier bins have magnitude 1, and +1 where they are real, up to the root of the dtype's eps."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        spectrum, dim = _spectrum(value), value.shape[-1]
        off = torch.cat([_pairs(spectrum).square().sum(-1).sqrt(), spectrum[..., :1]], -1) - 1
        off = off if dim % 2 else torch.cat([off, spectrum[..., -1:] - 1], -1)
        close: Tensor = (off.abs() <= torch.finfo(value.dtype).eps ** 0.5).all(-1)
        return close


class UnitaryCauchy(Described, Distribution):
    """Unitary vectors around one: every free phase has a wrapped Cauchy distribution of its own.

    The density of a phase with mode mu and concentration rho, from 0, the uniform one, up to but not including 1, is ::

        f(t) = (1 - rho^2) / (2 pi (1 + rho^2 - 2 rho cos(t - mu)))

    Its mean phasor is rho exp(i mu), so that the expected cosine of a sample with the mode is the mean of rho over all
    bins, 1 at the real ones. Samples, density, entropy and divergence have elementary closed forms, which no wrapped
    normal or von Mises distribution offers; the tails are heavier than theirs. Samples are ::

        t = mu + 2 atan((1 - rho) / (1 + rho) tan(pi (u - 1/2))),    u uniform in [0, 1)

    and differentiable, any number of times, in mu and rho. `torch.distributions.kl_divergence` knows this class and
    `UnitaryUniform`: of each phase, of modes mu and nu and concentrations r and s, it is
    ``ln((1 + r^2 s^2 - 2 r s cos(mu - nu)) / ((1 - r^2) (1 - s^2)))``.

    Attributes:
        loc: mu, ``[..., m]``.
        concentration: rho, ``[..., m]``.
        dim: D.

    Source: McCullagh, Moebius transformation and Cauchy parameter estimation, Annals of Statistics 24, 1996.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "concentration": constraints.independent(constraints.half_open_interval(0.0, 1.0), 1),
    }
    support = _Unitary()
    has_rsample = True

    loc: Tensor
    concentration: Tensor
    dim: int

    @takes(dim=Int(1).or_none(), validate_args=Bool().or_none())
    def __init__(
        self,
        loc: Tensor,
        concentration: Tensor | float,
        dim: int | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """A distribution.

        Args:
            loc: mu, the phases of the mode, ``[..., m]``, in radians; those beyond pi wrap.
            concentration: rho, a number or a tensor that broadcasts with ``loc``.
            dim: D, 2 m + 1 or 2 m + 2; None means the even one.
            validate_args: as of any `torch.distributions.Distribution`.

        Raises:
            ValueError: shapes do not broadcast, ``dim`` is neither, or, where it is validated, a value is out of range.
            RuntimeError: the devices differ.
        """
        name = type(self).__name__
        loc = check_vectors(name, "loc", loc)
        if isinstance(concentration, Tensor) or getattr(concentration, "shape", ()) != ():
            concentration = check_vectors(name, "concentration", concentration, device=loc.device, rank=0)
        else:
            concentration = torch.full_like(loc, real(name, "concentration", concentration))
        check_broadcast(name, "loc and concentration", loc.shape, concentration.shape)
        dtype = torch.promote_types(loc.dtype, concentration.dtype)
        self.loc, self.concentration = torch.broadcast_tensors(loc.to(dtype), concentration.to(dtype))
        free = self.loc.shape[-1]
        self.dim = 2 * free + 2 if dim is None else dim
        if _free(self.dim) != free:
            raise ValueError(f"{name}: dim must be {2 * free + 1} or {2 * free + 2} for {free} phases, got {dim}")
        if 0 in self.loc.shape[:-1]:
            # Torch's own constraints take no empty batch, in which nothing can be wrong.
            validate_args = False
        super().__init__(self.loc.shape[:-1], torch.Size((self.dim,)), validate_args=validate_args)

    @property
    def device(self) -> torch.device:
        """Of samples."""
        return self.loc.device

    @property
    def dtype(self) -> torch.dtype:
        """Of samples."""
        return self.loc.dtype

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """As of any distribution."""
        made = type(self).__new__(type(self)) if _instance is None else _instance
        shape = (*batch_shape, self.loc.shape[-1])
        made.dim, made.loc, made.concentration = self.dim, self.loc.expand(shape), self.concentration.expand(shape)
        Distribution.__init__(made, torch.Size(batch_shape), self.event_shape, validate_args=False)
        made._validate_args = self._validate_args
        expanded: Self = made
        return expanded

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Vectors ``[*sample_shape, *batch, D]``, differentiable in the parameters."""
        loc, rho = self._parameters()
        half = math.pi * (torch.rand((*sample_shape, *loc.shape), device=loc.device, dtype=loc.dtype) - 0.5)
        return self._vectors(loc + 2 * torch.atan2((1 - rho) * half.sin(), (1 + rho) * half.cos()))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density of unitary vectors ``[..., D]``, ``[...]``, at least float32.

        Raises:
            ValueError: shapes do not fit or, where it is validated, a value is no such unitary vector up to the root of
                the dtype's eps.
            RuntimeError: it is on another device.
        """
        value = check_vectors("log_prob", "value", value, self.dim, self.device)
        check_broadcast("log_prob", "value and distribution", value.shape[:-1], self.batch_shape)
        if self._validate_args:
            self._validate_sample(value)
        loc, rho = self._parameters()
        return (_log_gap(rho) - _log_spread(rho, self.phases(value) - loc) - math.log(2 * math.pi)).sum(-1)

    def phases(self, value: Tensor) -> Tensor:
        """The free phases of unitary vectors ``[..., D]``, ``[..., m]`` from -pi to pi, at least float32."""
        pairs = _pairs(_spectrum(check_vectors("phases", "value", value, self.dim, self.device)))
        return torch.atan2(pairs[..., 1], pairs[..., 0])

    def entropy(self) -> Tensor:
        """``sum_k ln(2 pi (1 - rho_k^2))``, ``[...]``, at least float32."""
        return (_log_gap(self._parameters()[1]) + math.log(2 * math.pi)).sum(-1)

    @property
    def mean(self) -> Tensor:
        """The mean vector, whose free bins are rho exp(i mu); it is not unitary."""
        return self._vectors(*self._parameters())

    @property
    def mode(self) -> Tensor:
        """The vector with the phases mu."""
        return self._vectors(self._parameters()[0])

    @property
    def variance(self) -> Tensor:
        """``2 sum_k (1 - rho_k^2) / D^2`` for every element."""
        variance = 2 / self.dim**2 * (1 - self._parameters()[1].square()).sum(-1, keepdim=True)
        return variance.to(self.dtype).expand(*self.batch_shape, self.dim)

    def _parameters(self) -> tuple[Tensor, Tensor]:
        """Mode and concentration in the dtype computed in."""
        dtype = compute_dtype(self.loc.dtype)
        return self.loc.to(dtype), self.concentration.to(dtype)

    def _vectors(self, phases: Tensor, radius: Tensor | float = 1.0) -> Tensor:
        """The vectors of phases, and of the magnitudes of their bins."""
        with full_precision(phases.device):
            vectors = functional.from_bins(radius * phases.cos(), radius * phases.sin(), self.dim % 2 == 0)
            return vectors.to(self.loc.dtype)

    def _summary(self) -> dict[str, Any]:
        batch = {"batch": self.batch_shape} if self.batch_shape else {}
        return {"dim": self.dim, **batch, **place_of(self.loc.device, self.loc.dtype)}


class UnitaryUniform(UnitaryCauchy):
    """Uniform over unitary vectors, as `hrr.random(..., unitary=True)` draws them: a `UnitaryCauchy` whose rho is 0."""

    @takes(dim=Int(1), device=Device(), dtype=Dtype().or_none(), validate_args=Bool().or_none())
    def __init__(
        self,
        dim: int,
        *,
        batch: tuple[int, ...] = (),
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        validate_args: bool | None = None,
    ) -> None:
        """A distribution.

        Args:
            dim: D.
            batch: the shape of a batch of such distributions.
            device: of samples, as for `hrr.random`.
            dtype: of samples; None means torch's default.
            validate_args: as of any `torch.distributions.Distribution`.

        Raises:
            ValueError: A size of ``batch`` is less than 0, or a sample has 2^59 elements or more.
        """
        shape = (*sizes("UnitaryUniform", "batch", batch, 0), _free(dim))
        check_elements("UnitaryUniform", "a sample", (*shape[:-1], dim))
        dtype, place = resolve_dtype("UnitaryUniform", dtype), resolve_device(device, op="UnitaryUniform")
        zeros = torch.zeros((), device=place, dtype=dtype).expand(shape)
        super().__init__(zeros, zeros, dim, validate_args=False if place.type == "meta" else validate_args)


def _free(dim: int) -> int:
    """The number of free phases."""
    return (dim - 1) // 2


def _spectrum(value: Tensor) -> Tensor:
    with full_precision(value.device):
        return functional.spectrum(value.to(compute_dtype(value.dtype)))


def _pairs(spectrum: Tensor) -> Tensor:
    """Real and imaginary parts of the free bins, ``[..., m, 2]``."""
    free = _free(spectrum.shape[-1])
    return spectrum[..., 1 : 1 + 2 * free].reshape(*spectrum.shape[:-1], free, 2)


def _log_gap(rho: Tensor) -> Tensor:
    """``ln(1 - rho^2)``, also for rho close to 1."""
    return (-rho).log1p() + rho.log1p()


def _log_spread(rho: Tensor, angle: Tensor) -> Tensor:
    """``ln(1 + rho^2 - 2 rho cos(angle))``, also for rho close to 1 and angles close to 0."""
    return ((1 - rho).square() + 4 * rho * (angle / 2).sin().square()).log()


def _divergence(p: UnitaryCauchy, q: UnitaryCauchy) -> Tensor:
    if p.dim != q.dim:
        raise ValueError(f"kl_divergence: distributions must have one D, got {p.dim} and {q.dim}")
    (loc, rho), (other, sigma) = p._parameters(), q._parameters()
    return (_log_spread(rho * sigma, loc - other) - _log_gap(rho) - _log_gap(sigma)).sum(-1)


# Untyped, as all of torch.distributions; it knows derived classes too.
_registered: Any = register_kl
_registered(UnitaryCauchy, UnitaryCauchy)(_divergence)
