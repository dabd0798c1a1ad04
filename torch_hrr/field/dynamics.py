"""Dynamic neural fields: activation driven by stimuli, with feedback through a lateral kernel that forms peaks."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict, Unpack

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr._checks import check_elements, check_known, check_strided, integer, listed, named, number, placed, sizes
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._repr import Described, DescribedModule
from torch_hrr._spec import Choice, Device, Dtype, Real, Seed, takes
from torch_hrr.field.functional import advance_key, evolve, random_key
from torch_hrr.io import Saveable
from torch_hrr.runtime.device import resolve_parameter_device

_DTYPES = (torch.float32, torch.float64)
# What a binomial step adds to the variance along an axis, times its rate.
_VARIANCE = 0.5
# Widths of a Gaussian that padding must hold: beyond lies 2e-9 of it.
_REACH = 6
# From a place to those that it touches.
_BESIDE = ((-1, 0, 0), (1, 0, 0), (0, -1, 0), (0, 1, 0), (0, 0, -1), (0, 0, 1))
# Of numbers and stimuli: beyond, sums of float32 overflow.
_LARGEST = 1e30


@takes(
    tau=Real(0, _LARGEST, open_left=True),
    dt=Real(0, _LARGEST, open_left=True),
    resting_level=Real(-_LARGEST, 0, open_right=True),
    beta=Real(0, _LARGEST, open_left=True),
    excitation=Real(0, _LARGEST),
    sigma_excitation=Real(0, _LARGEST),
    inhibition=Real(0, _LARGEST),
    sigma_inhibition=Real(0, _LARGEST),
    global_inhibition=Real(0, _LARGEST),
    boundary=Choice(("circular", "replicate", "zeros")),
    noise=Real(0, _LARGEST),
)
@dataclass(frozen=True, repr=False)
class DynamicFieldConfig(Described):
    """The parameters of a `DynamicField`, with cosivina's defaults where it has them; checked when made.

    None is above 1e30 in absolute value, nor is the noise of a step, ``noise sqrt(dt) / tau``.

    Attributes:
        tau: Time constant, above 0, in the unit of `dt`.
        dt: The time of one step, above 0 and at most `tau`.
        resting_level: h, below 0: the activation without stimulus and peaks.
        beta: Steepness of the output, above 0.
        excitation: Strength of the local excitation, at least 0; cosivina's ``amplitudeExc``, normalised.
        sigma_excitation: Its width, at least 0, in places.
        inhibition: Strength of the surround inhibition, at least 0; cosivina's ``amplitudeInh``.
        sigma_inhibition: Its width; above `sigma_excitation` if there is surround inhibition.
        global_inhibition: Subtracted everywhere for every active place, at least 0; minus ``amplitudeGlobal``.
        boundary: The values beyond the border: "circular", "replicate" (a mirror) or "zeros" (nothing).
        noise: Strength q of the noise, at least 0, in activation times the square root of time.
    """

    tau: float = 10.0
    dt: float = 1.0
    resting_level: float = -5.0
    beta: float = 4.0
    excitation: float = 20.0
    sigma_excitation: float = 2.0
    inhibition: float = 0.0
    sigma_inhibition: float = 4.0
    global_inhibition: float = 0.05
    boundary: str = "circular"
    noise: float = 0.0

    def __post_init__(self) -> None:
        """ValueError for what each may be and not all together."""
        op = "DynamicFieldConfig"
        if self.dt > self.tau:
            raise ValueError(f"{op}: dt must be at most tau = {self.tau:g}, got {self.dt:g}")
        number(op, "noise sqrt(dt) / tau", self.noise_of_step, 0.0, _LARGEST)
        if self.inhibition > 0 and self.sigma_inhibition <= self.sigma_excitation:
            raise ValueError(
                f"{op}: sigma_inhibition must be above sigma_excitation = {self.sigma_excitation:g}, "
                f"got {self.sigma_inhibition:g}"
            )

    @property
    def noise_of_step(self) -> float:
        """Standard deviation of the noise that a step adds."""
        return self.noise * math.sqrt(self.dt) / self.tau


class DynamicFieldParameters(TypedDict, total=False):
    """The fields of a `DynamicFieldConfig`, for calls that take any of them."""

    tau: float
    dt: float
    resting_level: float
    beta: float
    excitation: float
    sigma_excitation: float
    inhibition: float
    sigma_inhibition: float
    global_inhibition: float
    boundary: str
    noise: float


@dataclass(frozen=True, repr=False)
class Peak(Described):
    """A connected region of activation above the threshold.

    Attributes:
        position: Its centre of mass by output (depth, height, width), in places: the field's decision. Along an axis
            that the peak encircles, one of many.
        activation: The highest activation in it.
        mass: The sum of its output.
        size: How many places it has.
        channel: The channel that it is in.
        batch: The index of the leading dimensions, () without any.
    """

    position: tuple[float, float, float]
    activation: float
    mass: float
    size: int
    channel: int
    batch: tuple[int, ...] = ()


class DynamicField(Saveable, DescribedModule):
    """Amari's neural field in one to three dimensions, with independent channels.

    ``tau du/dt = -u + h + S + excitation G_e * f(u) - inhibition G_i * f(u) - global_inhibition sum f(u) + q xi``,
    with ``f(u) = 1 / (1 + exp(-beta u))``, by Euler-Maruyama steps: u moves by dt / tau of the right side and by
    ``q sqrt(dt) / tau N(0, 1)``. G are Gaussians of sum 1, the global sum is over the places of a channel, and channels
    and items of the batch are independent. Above the detection instability a stimulus makes a peak; peaks that are too
    close or too many suppress each other; and where excitation sustains itself, they outlive their stimulus.

    A Gaussian of width sigma is ``ceil(2 sigma^2)`` binomial steps of `evolve`: the variance is exact, and the excess
    kurtosis of ``-1 / (2 sigma^2)`` leaves a difference of a sixteenth of that at the centre. The steps of the surround
    continue those of the excitation. Axes of size 1 are left alone, so that ``(1, H, W, C)`` is a field in two
    dimensions.

    Deterministic: the same seed, stimuli, machine and number of threads give the same bits; fields of up to 32768
    elements do so whatever the number of threads. No gradients are kept. Cost of a step: ``2 sigma^2`` steps of
    `evolve` for the widest Gaussian plus about five reads and writes of the field; "zeros" computes up to 6 sigma more
    places per axis.

    Attributes:
        config: The parameters, a `DynamicFieldConfig`; `configure` changes them.
        activation: u, ``[..., D, H, W, C]``; steps and loading make a new tensor, so a reference that you keep is not
            overwritten.
        noise_key: The current key of the noise, as `random_key` makes it; each step makes a new tensor.
        seed: The seed of the first key; one that was drawn if none was given.

    Source: Amari, Dynamics of pattern formation in lateral-inhibition type neural fields, Biological Cybernetics 27,
    1977; Schöner, Spencer and the DFT Research Group, Dynamic thinking: a primer on dynamic field theory, 2016.
    """

    file_format = "torch_hrr.dynamic_field"

    activation: Tensor
    noise_key: Tensor

    @takes(seed=Seed().or_none(), device=Device(), dtype=Dtype(_DTYPES).or_none())
    def __init__(
        self,
        shape: Sequence[int],
        *,
        seed: int | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        **config: Unpack[DynamicFieldParameters],
    ) -> None:
        """A field at rest.

        Args:
            shape: ``[..., D, H, W, C]``, each at least 1; leading dimensions are a batch.
            seed: Seed of the noise, any int, taken modulo 2^64; None draws one from torch's default generator on the
                CPU, which `torch.manual_seed` sets.
            device: Where to be, as for `runtime.resolve_device`; None means the one that was set,
                `runtime.set_device`, else torch's default.
            dtype: float32 or float64; None means torch's default dtype, which must be one of them.
            **config: Any fields of `DynamicFieldConfig`.

        Raises:
            TypeError, ValueError: As for `DynamicFieldConfig`, an unknown parameter, a shape that is none, or a
                Gaussian wider than the longest axis.
        """
        super().__init__()
        op = "DynamicField"
        self.shape = sizes(op, "shape", shape, wanted="ints [..., D, H, W, C]")
        if len(self.shape) < 4:
            raise ValueError(f"{op}: shape must be [..., D, H, W, C], got {list(self.shape)}")
        check_elements(op, "the field", self.shape)
        # Torch's default one may be another.
        dtype = Dtype(_DTYPES)(op, "dtype", torch.get_default_dtype() if dtype is None else dtype)
        device = resolve_parameter_device(device, op=op)
        self.seed = given_or_drawn_seed(op, seed)
        self._configure(op, config)
        level = self.config.resting_level
        self.register_buffer("activation", torch.full(self.shape, level, dtype=dtype, device=device))
        self.register_buffer("noise_key", random_key(self.seed, device))

    def configure(self, **changes: Unpack[DynamicFieldParameters]) -> None:
        """Changes parameters of the running field, for example ``configure(resting_level=-3.0)`` to boost it.

        Raises:
            TypeError, ValueError: As for the class; the field is unchanged.
        """
        self._configure("configure", changes)

    def _configure(self, op: str, changes: DynamicFieldParameters) -> None:
        known = [field.name for field in dataclasses.fields(DynamicFieldConfig)]
        check_known(op, "parameter", changes, known, f"one of {', '.join(known)}")
        with named("DynamicFieldConfig", op):
            config = dataclasses.replace(getattr(self, "config", DynamicFieldConfig()), **changes)
        longest = max(self.shape[-4:-1])
        widths = {"sigma_excitation": config.excitation, "sigma_inhibition": config.inhibition}
        for name, strength in widths.items():
            if strength > 0 and getattr(config, name) > longest:
                raise ValueError(
                    f"{op}: {name} must be at most the longest axis = {longest}, got {getattr(config, name):g}"
                )
        # What has no strength may have any width.
        narrow = config.sigma_excitation**2 if config.excitation or config.inhibition else 0.0
        wide = config.sigma_inhibition**2 if config.inhibition else narrow
        self.config = config
        self._excitation, self._inhibition = _binomial(narrow), _binomial(wide - narrow)

    @property
    def output(self) -> Tensor:
        """f(u) of the present activation, ``[..., D, H, W, C]`` in 0 to 1; a new tensor."""
        return self._output_of(self.activation)

    @torch.no_grad()
    def step(self, stimulus: Tensor | None = None, steps: int = 1, *, progress: Progress = None) -> Tensor:
        """Advances by ``steps * dt`` under a stimulus, and returns the output; the same as calling the field.

        Args:
            stimulus: S, of the field's dtype and device, broadcast to its shape; None means none.
            steps: How many, at least 0.
            progress: Called after each step with those done and all; True shows a bar, None nothing.

        Returns:
            The output after the last step, ``[..., D, H, W, C]``, a new tensor.

        Raises:
            TypeError: The stimulus is not a strided tensor or array of the field's dtype, or the field was turned into
                a half type.
            ValueError: Its shape or device does not fit, or it is not finite and at most 1e30 in absolute value
                (checked only on the CPU, and not in compiled or exported programs).
            On these and any other error, for example a lack of memory, or on Ctrl-C, the field is unchanged.
        """
        steps = integer("step", "steps", steps, 0)
        stimulus, tick = self._checked(stimulus), ticking("step", progress)
        config = self.config
        rate = config.dt / config.tau
        noise = config.noise_of_step
        activation, key, output = self.activation, self.noise_key, self.output
        for done in range(steps):
            drive = self._lateral(output)
            if stimulus is not None:
                drive += stimulus
            moved = evolve(activation, rate, 0.0, noise=noise, key=key)
            activation = moved.add_(drive.add_(config.resting_level), alpha=rate)
            if noise:
                key = advance_key(key, moved.numel())
            output = self._output_of(activation)
            tick(done + 1, steps)
        if torch.compiler.is_exporting():
            # A program has no tensors to replace.
            self.activation.copy_(activation)
            if noise:
                self.noise_key.copy_(key)
        else:
            self.activation, self.noise_key = activation, key
        return output

    def forward(self, stimulus: Tensor | None = None, steps: int = 1) -> Tensor:
        """`step`. A program that is exported of it goes on in the memory of this field: export a ``copy.deepcopy``."""
        return self.step(stimulus, steps)

    @takes(seed=Seed().or_none())
    def reset(self, seed: int | None = None) -> None:
        """Returns to rest, and restarts the noise from its seed, which repeats the run, or from a new one."""
        seed = self.seed if seed is None else seed
        activation = torch.full_like(self.activation, self.config.resting_level)
        self.seed, self.activation, self.noise_key = seed, activation, random_key(seed, activation.device)

    @takes(sigma=Real(0, open_left=True), amplitude=Real(-_LARGEST, _LARGEST))
    def stimulus(
        self, position: Sequence[float], sigma: float, amplitude: float = 1.0, channel: int | None = None
    ) -> Tensor:
        """A Gaussian ``amplitude exp(-distance^2 / (2 sigma^2))``, whose distances go around circular borders.

        Args:
            position: Its centre (depth, height, width), in places.
            sigma: Its width, above 0.
            amplitude: Its height, at most 1e30 in absolute value.
            channel: The channel it is in, 0 to C - 1, the others being 0; None means all.

        Returns:
            ``[D, H, W, C]`` of the field's dtype and device; stimuli may be added.

        Raises:
            TypeError, ValueError: ``position`` is not three finite numbers, or ``channel`` no channel.
        """
        op = "stimulus"
        centre = [number(op, "position", place) for place in listed(op, "position", position, "three numbers")]
        if len(centre) != 3:
            raise ValueError(f"{op}: position must be (depth, height, width), got {len(centre)} numbers")
        *sizes, channels = self.shape[-4:]
        bump = torch.full((), amplitude, dtype=torch.float64, device="cpu")
        for axis, (size, middle) in enumerate(zip(sizes, centre, strict=True)):
            distance = torch.arange(size, dtype=torch.float64, device="cpu") - middle
            if self.config.boundary == "circular":
                distance = (distance + size / 2).remainder(size) - size / 2
            along = [1, 1, 1]
            along[axis] = size
            bump = bump * torch.exp(-0.5 * (distance / sigma).square()).view(along)
        shape = (*sizes, channels)
        if channel is None:
            heard = torch.ones(channels, dtype=torch.float64, device="cpu")
        else:
            heard = torch.zeros(channels, dtype=torch.float64, device="cpu")
            heard[integer(op, "channel", channel, 0, channels - 1)] = 1
        return (bump.unsqueeze(-1) * heard).expand(shape).to(self.activation)

    @takes(threshold=Real())
    def peaks(self, threshold: float = 0.0) -> list[Peak]:
        """The connected regions of activation above a threshold, the highest first; places touch along axes.

        Copies the field to the CPU; cost: a few microseconds for every place above the threshold.
        """
        # Channels beside the batch, so that what is left are places.
        activation = self.activation.detach().cpu().movedim(-1, -4).double()
        found: dict[tuple[int, ...], list[tuple[int, int, int]]] = {}
        for *item, depth, height, width in (activation > threshold).nonzero().tolist():
            found.setdefault(tuple(item), []).append((depth, height, width))
        sizes = self.shape[-4:-1]
        extent = torch.tensor(sizes, device="cpu")
        circular = self.config.boundary == "circular"
        peaks = []
        for item, places in found.items():
            for region in _regions(places, sizes, circular):
                unrolled = torch.tensor(region, device="cpu")
                heights = activation[item][tuple(unrolled.remainder(extent).unbind(1))]
                output = heights * self.config.beta
                # As shares of the output, which may be too small for a float.
                shares = F.logsigmoid(output).softmax(0)
                centre = (shares @ unrolled.double()).tolist()
                if circular:
                    # Twice, since the remainder of a tiny negative number is the size.
                    centre = [place % size % size for place, size in zip(centre, sizes, strict=True)]
                position = (centre[0], centre[1], centre[2])
                mass = float(output.sigmoid().sum())
                peaks.append(Peak(position, float(heights.max()), mass, len(region), item[-1], item[:-1]))
        return sorted(peaks, key=lambda peak: -peak.activation)

    def _settings(self) -> dict[str, Any]:
        # The seed as text, since other readers of JSON may not take integers of 64 bits.
        return {"config": dataclasses.asdict(self.config), "seed": str(self.seed)}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        if set(settings) != {"config", "seed"}:
            raise ValueError("other entries than numbers and a seed")
        held = tensors["activation"]
        return cls(held.shape, seed=int(settings["seed"]), dtype=held.dtype, device=device, **settings["config"])

    def _summary(self) -> dict[str, Any]:
        return {"shape": self.shape, **self.config._summary()}

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.activation, self.noise_key = self.activation.clone(), self.noise_key.clone()
        super()._load_from_state_dict(*args, **kwargs)

    def _output_of(self, activation: Tensor) -> Tensor:
        return (activation.detach() * self.config.beta).sigmoid_()

    def _checked(self, given: Tensor | None) -> Tensor | None:
        op, activation = "step", self.activation
        if activation.dtype not in _DTYPES:
            raise TypeError(f"{op}: activation must be float32 or float64, got {activation.dtype}")
        if given is None:
            return None
        stimulus = placed(op, "stimulus", given, activation.device)
        check_strided(op, "stimulus", stimulus)
        if stimulus.dtype != activation.dtype:
            raise TypeError(f"{op}: stimulus must be {activation.dtype}, got {stimulus.dtype}")
        if stimulus.device != activation.device:
            raise ValueError(f"{op}: stimulus must be on {activation.device}, got {stimulus.device}")
        fits = stimulus.dim() <= len(self.shape) and all(
            size in (1, own) for size, own in zip(reversed(stimulus.shape), reversed(self.shape), strict=False)
        )
        if not fits:
            raise ValueError(
                f"{op}: stimulus must broadcast to {list(self.shape)}, got a shape of {list(stimulus.shape)}"
            )
        # One pass: NaN is the least and the most of what holds one. A graph cannot read.
        is_read = stimulus.is_cpu and not torch.compiler.is_compiling()
        if is_read and not all(abs(end) <= _LARGEST for end in torch.aminmax(stimulus.detach())):
            raise ValueError(f"{op}: stimulus must be finite and at most {_LARGEST:g} in absolute value")
        return stimulus

    def _lateral(self, output: Tensor) -> Tensor:
        """What the field hears of itself."""
        config = self.config
        near, far = self._excitation, self._inhibition
        # Without a boundary of its own: a Gaussian of zeros beyond the border, which `evolve`'s "zeros" is not, since
        # there what has left does not come back.
        boundary = "circular" if config.boundary == "zeros" else config.boundary
        padded = output
        if config.boundary == "zeros":
            sigma = math.sqrt(_VARIANCE * (near[0] * near[1] + far[0] * far[1]))
            reach = min(near[0] + far[0], math.ceil(_REACH * sigma))
            after = [reach if size > 1 else 0 for size in self.shape[-4:-1]]
            padded = F.pad(output, (0, 0, 0, after[2], 0, after[1], 0, after[0]))
        centre = evolve(padded, 0.0, near[1], near[0], boundary, "binomial")
        heard = centre * config.excitation
        if config.inhibition:
            surround = evolve(centre, 0.0, far[1], far[0], boundary, "binomial")
            heard.sub_(surround, alpha=config.inhibition)
        if padded is not output:
            depth, height, width = self.shape[-4:-1]
            heard = heard[..., :depth, :height, :width, :]
        if config.global_inhibition:
            heard.sub_(output.sum((-4, -3, -2), keepdim=True), alpha=config.global_inhibition)
        return heard


def _binomial(variance: float) -> tuple[int, float]:
    """Steps and rate of binomial steps that have this variance together."""
    # A variance such as 8.000000000000002 is 16 steps and not 17.
    steps = math.ceil(variance / _VARIANCE - 1e-9)
    return (steps, min(variance / _VARIANCE / steps, 1.0)) if steps else (0, 0.0)


def _regions(
    places: list[tuple[int, int, int]], sizes: tuple[int, ...], circular: bool
) -> list[list[tuple[int, int, int]]]:
    """Places that touch, together; the coordinates of one region go on beyond circular borders."""
    left = set(places)
    regions = []
    for start in places:
        if start not in left:
            continue
        left.remove(start)
        region = [start]
        # The region grows while it is gone through.
        for depth, height, width in region:
            for down, along, across in _BESIDE:
                beside = (depth + down, height + along, width + across)
                inside = beside
                if circular:
                    inside = (beside[0] % sizes[0], beside[1] % sizes[1], beside[2] % sizes[2])
                if inside in left:
                    left.remove(inside)
                    region.append(beside)
        regions.append(region)
    return regions
