"""A brain whose state lives in a field: sensors imprint on it, it decays and diffuses, and motors follow from it."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypedDict

import torch
from torch import Tensor, nn

from torch_hrr._checks import (
    brief,
    check_bool,
    check_data,
    check_elements,
    check_floating,
    check_known,
    check_strided,
    integer,
    listed,
    named,
    number,
    plain,
    strided,
)
from torch_hrr._plain import field as plain_field
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._repr import DescribedModule
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Bool, Choice, Device, Dtype, Instance, Int, Real, Seed, Spec, takes
from torch_hrr.field import functional
from torch_hrr.field.patterns import PatternLibrary, check_single, vector
from torch_hrr.io import Saveable
from torch_hrr.io.saveable import check_shape
from torch_hrr.runtime import resolve_device
from torch_hrr.runtime.graph import CapturedCalls, can_capture
from torch_hrr.runtime.memory import check_free
from torch_hrr.runtime.pool import TensorPool

_RADIUS = 2
_FALLOFF = 0.8
SMALL = 0.01
# Places of which _field_moments takes the moments together.
BLOCK = 64
# Products of a field's numbers that are made at once.
_PRODUCTS = 1 << 20
# Numbers of a field that are drawn at once: a multiple of 16.
_SLICE = 1 << 20
# Sensors beyond which orthonormal columns are waves: a factorisation of normal numbers grows with the cube.
_MOST_FACTORED = 1024
LARGEST = 1e6
"""Sensory values and rewards are at most so large; far beyond, sums of squares overflow."""
# Settings that a brain is made of, in the order of its arguments.
_SETTINGS = (
    *("sensory_dim", "motor_dim", "spatial", "channels", "decay", "diffusion", "noise", "boundary"),
    *("threshold", "gain", "modulate", "patterns"),
)


# Settings that may be written to a brain later.
_WRITTEN: dict[str, Spec] = {
    "decay": Real(0, 1), "diffusion": Real(0, 1 / 6), "noise": Real(0, LARGEST),
    "boundary": Choice(("replicate", "zeros", "circular")), "threshold": Real(0, 1), "gain": Real(0, LARGEST),
    "modulate": Bool(),
}  # fmt: skip


class StepResult(NamedTuple):
    """What `FieldBrain.step` gives, by name; `FieldBrain.process_robot_cycle` says what the metrics are."""

    motor: Tensor
    field_information: Tensor
    max_activation: Tensor
    prediction_confidence: Tensor
    energy: Tensor
    sparsity: Tensor
    prediction_error: Tensor


METRICS = StepResult._fields[1:]
"""What a step measures, in the order in which it follows the motor in the packed vector."""


class BrainSettings(TypedDict, total=False):
    """The settings of a `FieldBrain`, of either learner, that calls which make one pass on to it."""

    learner: str
    decay: float | None
    diffusion: float
    discount: float
    critic_rate: float
    motor_rate: float
    exploration: float
    discrete: bool
    velocities: bool
    noise: float
    boundary: str
    threshold: float
    gain: float
    modulate: bool
    patterns: int
    dtype: torch.dtype
    device: torch.device | str | int | None


class BrainArguments(BrainSettings, total=False):
    """All arguments of `create_brain`."""

    sensory_dim: int
    motor_dim: int
    spatial: int | Sequence[int]
    channels: int | None
    prefer_gpu: bool
    seed: int | None


class FieldBrain(Saveable, DescribedModule):
    """A field ``[D, H, W, C]`` on which a robot's sensors leave imprints, and from which its motors follow.

    ``learner="actor-critic"``, the default of `create_brain` and of the agents in `torch_hrr.field.gym`, learns control
    online, in every cycle and without replay: the field is a population code of the senses and, as it decays, the trace
    of what led to a reward. M maps, each with a channel for the senses and one for each motor, place sensory values of
    -1 to 1 in the field by fixed random projections; at each place a bump of activity, all of norm 1, is the code x.
    With weights w of the field's shape, 0 at first:

    1. the reward r for the last motor, and the code y of new values after x, give the error
       ``e = r + discount <w_0, y> - <w_0, x>``, where the second term is 0 if the episode terminated, but not if it was
       cut off: `terminated` and `truncated` say so;
    2. the senses imprint ``(1 - critic_rate <f_0, x>) x``, each motor its noise n as ``n (1 - mean^2) x``;
       ``w_0 += critic_rate e f_0``, ``w_a += motor_rate clip(e / rms e, 3) f_a``, and the field decays;
    3. motor a is ``tanh <w_a, y>``, its mean, plus correlated noise of standard deviation `exploration`, within -1 to
       1. With ``discrete=True``, one motor is drawn by softmax of ``<w_a, y>`` and is 1, the others are -1; the imprint
       is its share less than 1 and minus the shares of the others.

    The cycle after the end of an episode begins with a field of zeros; weights stay. After ``eval()`` nothing is
    learned and drawn: motors are the means, or twice the shares less 1. The settings are `decay` (None: 1 - 0.9
    discount), `diffusion`, `discount`, `critic_rate`, `motor_rate`, `exploration`, `discrete` and `velocities`, with
    which the brain senses ``tanh(4 (s - p))`` beside s, where p moves half the way to s in every cycle: for bodies
    whose velocities are hidden; 8 places per edge and 8 maps by default. `weights` are w. Cost: near 10 us a cycle,
    since a step touches the cells of two bumps only, and 30 us more with velocities; on devices without a kernel of it,
    compositions in torch. Source: Sutton and Barto, Reinforcement Learning, 2018, chapters 12 and 13; van Seijen et
    al., True online temporal-difference learning, JMLR 17, 2016, for the imprint; Degris, White and Sutton, Off-policy
    actor-critic, ICML 2012.

    ``learner="imprint"``, the default here, does not learn control. One cycle, for sensory values s and a reward r for
    what the last motor did:

    1. prediction error e = ``mean |s - p|``, confidence 1 / (1 + e); then p <- 0.9 p + 0.1 s;
    2. the sensory pattern q = P s on the content channels, P with orthonormal columns; where q correlates best with the
       field, ``argmax_x <f(x), q>``, it is added with intensity ``0.5 + 0.5 r``, times 0.8 per step of L1 distance
       within a radius of 2;
    3. the field decays, diffuses and gets noise: `evolve`;
    4. in train mode, if r is above its running mean, the last motor is stored as a pattern for the sensory values that
       led to it; after ``eval()`` the library keeps what it holds;
    5. the features are the gradient of the channels' mean, averaged with weights of activity, the channels of the best
       place, and the pattern found for s. The motor is ``tanh`` of their fixed random combination plus the pattern, and
       0 where below the threshold;
    6. an echo of the motor goes to the last channels around the best place.

    Nothing in `step` waits for the device, and nothing of a field's size is allocated: it runs under
    ``torch.compile(fullgraph=True)`` and on ``device="meta"``. On a GPU `process_robot_cycle` replays it from CUDA
    graphs, one for each of the two memories of the field, from the third cycle on; moving the brain, or replacing a
    tensor, the library, a setting or the mode, makes new ones. Deterministic: the same seed and inputs give the same
    bits on one device. Not thread-safe: a brain is for one robot.

    Settings may be written later, but for sizes, `velocities` and the learner, and are checked then.

    Attributes:
        field: ``[D, H, W, C]``, the state.
        prediction: ``[sensory_dim]``, twice as many with velocities.
        library: The stored patterns, a `PatternLibrary`.
        cycle: The number of cycles so far.
        pool: The working memory of a cycle.
        seed: Of the weights and the first noise; one that was drawn if none was given.

    Source: Amari, Dynamics of pattern formation in lateral-inhibition type neural fields, Biological Cybernetics 27,
    1977, for fields; Schoener and Spencer, Dynamic Thinking, 2016, for robots that are driven by them.
    """

    file_format = "torch_hrr.field_brain"
    _later = frozenset({"seed"})
    _unsaved: ClassVar[frozenset[str]] = frozenset({"_even", "_odd", "_offsets", "_falloff", "_sizes", "_strides"})
    learner: ClassVar[str] = "imprint"
    _learners: ClassVar[dict[str, type[FieldBrain]]] = {}
    """Classes of the other learners, which enter themselves: they build on this one."""
    METRICS: ClassVar[tuple[str, ...]] = METRICS
    _written: ClassVar[Mapping[str, Spec]] = _WRITTEN

    prediction: Tensor
    key: Tensor
    last_sensory: Tensor
    last_motor: Tensor
    mean_reward: Tensor
    sensory_weights: Tensor
    motor_weights: Tensor
    _even: Tensor
    _odd: Tensor
    _start: Tensor
    _offsets: Tensor
    _falloff: Tensor
    _sizes: Tensor
    _strides: Tensor
    _input: Tensor
    _staged: Tensor
    _turn: bool

    @takes(
        sensory_dim=Int(1),
        motor_dim=Int(1),
        learner=Choice(("imprint", "actor-critic")),
        **_WRITTEN,
        patterns=Int(1),
        seed=Seed().or_none(),
        dtype=Dtype((torch.float32, torch.bfloat16)),
        device=Device(),
    )
    @writable_anywhere
    def __init__(
        self,
        sensory_dim: int = 16,
        motor_dim: int = 5,
        spatial: int | Sequence[int] = 32,
        channels: int = 64,
        *,
        learner: str = "imprint",
        decay: float = 0.02,
        diffusion: float = 0.05,
        noise: float = 0.005,
        boundary: str = "replicate",
        threshold: float = 0.05,
        gain: float = 1.0,
        modulate: bool = False,
        patterns: int = 256,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | int | None = None,
    ) -> None:
        """Draws the fixed weights and a field near 0, on the CPU, so that a seed gives the same brain on every device.

        Args:
            sensory_dim: Number of sensory values, at least 1.
            motor_dim: Number of motors, at least 1.
            spatial: Edge of the cube of places, or depth, height and width, each at least 1.
            channels: At least sensory_dim + motor_dim: the last motor_dim ones hold the echo of the motor.
            learner: "imprint"; what "actor-critic" takes is said above.
            decay: Share of the field lost in a cycle, 0 to 1.
            diffusion: 0 to 1/6.
            noise: Standard deviation of the spontaneous activity that a cycle adds, 0 to 1e6.
            boundary: The values outside: "replicate", "zeros" or "circular".
            threshold: Motor values weaker than this are set to 0; 0 to 1.
            gain: Factor of the features, 0 to 1e6.
            modulate: Whether surprise imprints more and forgets faster: with m = min(e, 0.5) the intensity is
                multiplied by 1 + m, and the field by 1 - m decay before it evolves.
            patterns: How many patterns are kept, at least 1.
            seed: Any int, taken modulo 2^64; None draws one from torch's default generator on the CPU, which
                `torch.manual_seed` sets.
            dtype: dtype of the field: float32 or bfloat16. Everything else is float32, whatever torch's default is.
            device: None means the current one, `runtime.get_device()`.

        Raises:
            RuntimeError: What the brain takes is not free.

        The weights of the sensors are orthonormal columns: for at most 1024 sensors of normal numbers, at a cost of
        their number cubed, beyond that of random cosines, at one cosine a weight.
        """
        super().__init__()
        op = type(self).__name__
        if learner != self.learner:
            raise ValueError(f"{op}: learner of a subclass must be {self.learner!r}, got {learner!r}")
        self.sensory_dim, self.motor_dim = sensory_dim, motor_dim
        self.channels = integer(op, "channels", channels, sensory_dim + motor_dim)
        self.spatial = field_sizes(op, spatial)
        check_elements(op, "the field", (*self.spatial, self.channels))
        self.decay, self.diffusion, self.noise, self.boundary = decay, diffusion, noise, boundary
        self.threshold, self.gain, self.modulate, self.patterns = threshold, gain, modulate, patterns
        self._check_memory(op, dtype)
        self.cycle = 0
        self.eager = False
        self._graphs = CapturedCalls(most=2)
        self.seed = given_or_drawn_seed(op, seed)
        self._draw(seeded_generator(self.seed), dtype)
        self.register_buffer("key", functional.random_key(self.seed, device="cpu"))
        self.library = PatternLibrary(patterns, sensory_dim, motor_dim, device="cpu", dtype=torch.float32)
        self.requires_grad_(False)
        self.pool = self._new_pool(torch.device("cpu"))
        self.to(resolve_device(device, op=op))

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """A brain of the learner's class."""
        learner = settings.get("learner")
        kind: Any = cls._learners.get(learner, cls) if cls is FieldBrain and isinstance(learner, str) else cls
        made: Self = super().__new__(kind)
        return made

    if not TYPE_CHECKING:
        # What tools are told of a call is what the constructor takes.
        __new__ = functools.wraps(__init__, assigned=(), updated=())(__new__)

    def __setattr__(self, name: str, value: Any) -> None:
        """As of every module; a setting must be one that the constructor takes, or an error before it is another."""
        if (spec := self._written.get(name)) is not None:
            value = spec("FieldBrain", name, value)
        elif name == "library" and self.learner == "imprint":
            given = Instance(PatternLibrary)("FieldBrain", "library", value)
            sizes, wanted = (given.dim, given.pattern_dim), (self.sensory_dim, self.motor_dim)
            if sizes != wanted:
                raise ValueError(f"FieldBrain: library must have dim, pattern_dim = {wanted}, got {sizes}")
        super().__setattr__(name, value)

    @property
    def field(self) -> Tensor:
        """The state, ``[D, H, W, C]``; the next cycle writes to other memory, the one after it here again."""
        state: Tensor = self._odd if self._turn else self._even
        return state

    @property
    def device(self) -> torch.device:
        """The device of the brain."""
        return self.prediction.device

    def step(self, sensory: Tensor, reward: Tensor | float = 0.0) -> Tensor:
        """The device part of a cycle.

        Args:
            sensory: ``[sensory_dim]``, floating, on the brain's device, or an array. Its values are not checked: NaN
                stays in the brain.
            reward: For what the last motor did; a number, a tensor of one element on the device, or an array of one.

        Returns:
            ``[motor_dim + 6]`` float32: the motor, then the metrics, in the order of `METRICS`; `named` gives them
            their names. The next step writes to the same memory.

        Raises:
            TypeError: An argument is of another type or dtype.
            ValueError: A shape or a device is another. The brain is unchanged.
        """
        return self._step("step", sensory, reward)

    @staticmethod
    def named(packed: Tensor) -> StepResult:
        """Parts of what `step` returned, or of many of them, ``[..., motor_dim + 6]``, as views by name.

        Raises:
            TypeError: ``packed`` is not a strided tensor or array.
            ValueError: It has too few values.
        """
        packed, count = strided("named", "packed", packed), len(METRICS)
        if packed.dim() == 0 or packed.shape[-1] <= count:
            raise ValueError(f"named: packed must have shape [..., motor_dim + {count}], got {list(packed.shape)}")
        return StepResult(packed[..., :-count], *packed[..., -count:].unbind(-1))

    def forward(self, sensory: Tensor, reward: Tensor | float = 0.0) -> Tensor:
        """`step`. A program that is exported of it goes on in the memory of this brain: export a `copy`."""
        return self._step("FieldBrain", sensory, reward)

    @torch.no_grad()
    def _step(self, op: str, sensory: Tensor, reward: Tensor | float) -> Tensor:
        return self._advanced(*self._checked_step(op, sensory, reward))

    def _checked_step(self, op: str, sensory: Tensor, reward: Tensor | float) -> tuple[Tensor, Tensor]:
        sensory = vector(op, "sensory", sensory, self.sensory_dim, self.device).to(torch.float32)
        if isinstance(reward, Tensor):
            check_floating(op, "reward", reward)
            check_single(op, "reward", reward, self.device)
        else:
            reward = torch.full_like(self.mean_reward, number(op, "reward", single(reward), -LARGEST, LARGEST))
        return sensory, reward.to(torch.float32).reshape(1)

    def _advanced(self, sensory: Tensor, reward: Tensor) -> Tensor:
        field, fresh = self._memories()
        error = (sensory - self.prediction).abs().mean()
        self.prediction.mul_(0.9).add_(sensory, alpha=0.1)
        surprise = error.clamp(max=0.5) if self.modulate else None

        content = torch.mv(self.sensory_weights, sensory)
        rows = field.view(-1, self.channels)
        around, weights = self._place(self._best(rows, content, fresh.view(-1, self.channels)))
        intensity = 0.5 + 0.5 * reward
        if surprise is not None:
            intensity = intensity * (1 + surprise)
        self._add(rows, around, torch.outer(weights * intensity, content).to(field.dtype))
        if surprise is not None:
            field.mul_(1 - self.decay * surprise)
        self._evolve(field, fresh)

        if self.training and self.library.training:
            self.library.store(self.last_sensory, self.last_motor, reward > self.mean_reward)
        self.mean_reward.mul_(0.9).add_(reward, alpha=0.1)
        motor = self._motor(fresh, sensory, around)
        echo = torch.outer(0.1 * weights, motor).to(field.dtype)
        self._add(fresh.view(-1, self.channels)[:, self.channels - self.motor_dim :], around, echo)
        self.last_sensory.copy_(sensory)
        self.last_motor.copy_(motor)
        if torch.compiler.is_exporting():
            field.copy_(fresh)
        return self._pack(fresh, motor, error)

    def process_robot_cycle(
        self, sensory: Sequence[float] | Tensor, reward: float = 0.0, terminated: bool = False, truncated: bool = False
    ) -> tuple[list[float], dict[str, Any]]:
        """One cycle: one copy in, `step`, one copy out.

        Args:
            sensory: ``sensory_dim`` numbers of order 1, at most 1e6 in absolute value.
            reward: For what the last motor did, at most 1e6 in absolute value.
            terminated: Whether the episode ended by itself with these values, after which no reward comes.
            truncated: Whether it was cut off; of both, the first counts. Only a learner of control heeds them.

        Returns:
            The motor, ``motor_dim`` floats in [-1, 1], and the state: ``cycle``, ``cycle_time_ms``,
            ``field_information`` (the spatial standard deviation, summed over channels), ``max_activation`` (the
            largest absolute value), ``prediction_confidence``, ``prediction_error``, ``energy`` (mean f^2),
            ``sparsity`` (the share of values below 0.01) and ``device``.

        Raises:
            ValueError: The length is another, or a value is NaN, infinite or too large; the brain is unchanged.
            TypeError: A value is not a number; the brain is unchanged.
        """
        begin = time.perf_counter()
        given = self._checked(sensory, reward, terminated, truncated)
        self._staged.copy_(given)
        device_input = self._input.copy_(self._staged, non_blocking=True)
        numbers = self._repeated_step(device_input[: self.sensory_dim], device_input[self.sensory_dim :]).tolist()
        self.cycle += 1
        motor, measured = numbers[: self.motor_dim], numbers[self.motor_dim :]
        state: dict[str, Any] = {"cycle": self.cycle, **dict(zip(METRICS, measured, strict=True))}
        state["device"] = str(self.device)
        state["cycle_time_ms"] = 1e3 * (time.perf_counter() - begin)
        return motor, state

    @torch.no_grad()
    def reset(self) -> None:
        """Restores the field, the prediction and the last motor of a new brain; keeps the library."""
        self.field.copy_(self._start)
        for buffer in (self.prediction, self.last_sensory, self.last_motor, self.mean_reward):
            buffer.zero_()

    @writable_anywhere
    def copy(self) -> Self:
        """A brain of the same state, which shares no memory with this one."""
        return copy.deepcopy(self)

    @property
    def nbytes(self) -> int:
        """Bytes of its state, its weights and its working memory."""
        return sum(buffer.nbytes for buffer in self.buffers()) + self.pool.nbytes

    def _content(self) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        """Weights and state, the field under one name."""
        held = {name: tensor for name, tensor in self.state_dict().items() if name not in self._unsaved}
        return held | {"field": self.field}, self._settings()

    def _settings(self) -> Mapping[str, Any]:
        dtype = str(self._start.dtype).removeprefix("torch.")
        return self._summary() | {"cycle": self.cycle, "seed": self.seed, "dtype": dtype}

    @classmethod
    def _from_settings(
        cls, settings: dict[str, Any], tensors: Mapping[str, Tensor], device: torch.device | None, **options: Any
    ) -> Self:
        check_shape(tensors, "field", cls._shape_here(settings, **options))
        if "patterns" in settings:
            check_shape(tensors, "library.contexts", (settings["patterns"], settings["sensory_dim"]))
        if tensors["prediction"].numel() < settings["sensory_dim"]:
            raise ValueError(f"prediction of {settings['sensory_dim']}, got {tensors['prediction'].numel()}")
        # Files of before hold no seed but that of the noise.
        settings = {"seed": int(tensors["key"][0]), **settings}
        cycle, dtype = integer("load", "cycle", settings.pop("cycle"), 0), getattr(torch, settings.pop("dtype"))
        brain = cls(**settings, dtype=dtype, device=device, **options)
        brain.cycle = cycle
        return brain

    @classmethod
    def _shape_here(cls, settings: Mapping[str, Any], **options: Any) -> tuple[int, ...]:
        """Of the field's planes that a brain of these settings holds."""
        return (*settings["spatial"], settings["channels"])

    def _summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS}

    def _check_memory(self, op: str, dtype: torch.dtype) -> None:
        """RuntimeError unless what drawing the brain takes is free."""
        values = len(self._planes) * math.prod(self.spatial[1:]) * self.channels
        weights = self.channels * self.sensory_dim * (3 if self.sensory_dim <= _MOST_FACTORED else 1)
        # The field three times: now, next and at first; of a slice, normal numbers and their product with .01.
        small = 2 * min(values, _SLICE) + weights + self.patterns * (self.sensory_dim + self.motor_dim)
        needed = 3 * dtype.itemsize * values + 4 * small
        got = f"{self.sensory_dim}, {self.spatial}, {self.channels} and {self.patterns}"
        check_free(op, "sensory_dim, spatial, channels and patterns", got, needed)

    def _draw(self, generator: torch.Generator, dtype: torch.dtype) -> None:
        """Everything that a seed decides, and the state."""

        def normal(*sizes: int) -> Tensor:
            return torch.randn(sizes, generator=generator, dtype=torch.float32, device="cpu")

        def zeros(*sizes: int) -> Tensor:
            return torch.zeros(sizes, dtype=torch.float32, device="cpu")

        start = self._drawn_start(generator, dtype)
        content = self.channels - self.motor_dim
        weights = zeros(self.channels, self.sensory_dim)
        if self.sensory_dim <= _MOST_FACTORED:
            weights[:content] = torch.linalg.qr(normal(content, self.sensory_dim))[0]
        else:
            _fill_with_waves(weights[:content], generator)
        motor = normal(self.motor_dim, 3 + self.channels)
        cube = itertools.product(range(-_RADIUS, _RADIUS + 1), repeat=3)
        places = torch.tensor([place for place in cube if sum(map(abs, place)) <= _RADIUS], device="cpu")
        _, height, width = self.spatial
        constants = {
            "sensory_weights": weights,
            "motor_weights": motor,
            "_start": start,
            "_offsets": places,
            "_falloff": _FALLOFF ** places.abs().sum(1).float(),
            "_sizes": torch.tensor(self.spatial, device="cpu"),
            "_strides": torch.tensor((height * width, width, 1), device="cpu"),
        }
        state = {
            **self._field_memory(start),
            "prediction": zeros(self.sensory_dim),
            "last_sensory": zeros(self.sensory_dim),
            "last_motor": zeros(self.motor_dim),
            "mean_reward": zeros(1),
        }
        for name, tensor in (constants | state).items():
            self.register_buffer(name, tensor)
        self._turn = False

    @property
    def _planes(self) -> range:
        """Those of the field that are here."""
        return range(self.spatial[0])

    def _field_memory(self, start: Tensor) -> dict[str, Tensor]:
        return {"_even": start.clone(), "_odd": torch.zeros_like(start)}

    def _drawn_start(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """The planes at first, ``0.01 N(0, 1)``: in slices, the numbers of the whole field drawn at once."""
        shape = (*self.spatial[1:], self.channels)
        size = math.prod(shape)
        start = torch.empty(len(self._planes), *shape, dtype=dtype, device="cpu")
        flat, first, total = start.view(-1), self._planes.start * size, self.spatial[0] * size
        begin = 0
        while begin < total:
            # Torch draws in sixteens, and the last sixteen together: none may be left over.
            end = total if total - begin < _SLICE + 16 else begin + _SLICE
            drawn = torch.randn(end - begin, generator=generator, dtype=torch.float32, device="cpu")
            low, high = max(begin, first), min(end, first + len(flat))
            if low < high:
                flat[low - first : high - first] = 0.01 * drawn[low - begin : high - begin]
            begin = end
        return start

    def _new_pool(self, device: torch.device) -> TensorPool:
        places, channels = math.prod(self.spatial), self.channels
        blocks = -(-places // BLOCK)
        pool = TensorPool(
            {
                "match": ((len(self._planes) * math.prod(self.spatial[1:]),), self._start.dtype),
                "mean": (*self.spatial, 1),
                "gradient": (3, *self.spatial, 1),
                "weights": (places,),
                "moments": (blocks, 4, channels),
                "deviations": (blocks, channels),
                "shares": (blocks,),
                "packed": (self.motor_dim + len(METRICS),),
            },
            device,
        )
        # Of all places, those of each block, of which the last may have fewer.
        pool["shares"].fill_(BLOCK / places)[-1:] = (places - (blocks - 1) * BLOCK) / places
        return pool

    def _memory(self) -> TensorPool:
        """Where a step works; one that is exported may not write to what is no buffer."""
        return self._new_pool(self.device) if torch.compiler.is_exporting() else self.pool

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        """The work's memory goes where the state goes; only the field changes its dtype."""

        def placed(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        nn.Module._apply(self, placed, recurse)
        self._graphs.clear()
        self._follow()
        return self

    def _follow(self) -> None:
        """The work's memory on the device of the state."""
        if self.pool.device != self.device:
            self.pool = self._new_pool(self.device)
        size = self.sensory_dim + 1
        if not hasattr(self, "_input") or self._input.device != self.device:
            self._input = torch.zeros(size, dtype=torch.float32, device=self.device)
            on_gpu = self.device.type == "cuda"
            self._staged = torch.zeros(size, dtype=torch.float32, pin_memory=on_gpu, device="cpu")

    def _repeated_step(self, sensory: Tensor, reward: Tensor) -> Tensor:
        """`step` with the same two tensors in every cycle; on a GPU from a graph, one a turn."""
        if self.eager or not can_capture(self.device):
            return self.step(sensory, reward)
        turn = self._turn
        kind = (turn, self.training, self.library.training, *(getattr(self, name) for name in _SETTINGS))
        memory = itertools.chain(self.parameters(), self.buffers(), self.pool.values(), (self._input,))
        try:
            packed = self._graphs(functools.partial(self.step, sensory, reward), self.device, kind, memory)
        except BaseException:
            # A capture runs nothing: the field is where it was. What a cycle that was not captured changed, stays.
            self._turn = turn
            raise
        self._turn = not turn
        return packed

    def _memories(self) -> tuple[Tensor, Tensor]:
        """The field, and where it goes by a step."""
        field, fresh = (self._odd, self._even) if self._turn else (self._even, self._odd)
        # A program that is exported reads the same memory in every cycle, and writes to no other that is kept.
        return field, torch.empty_like(field) if torch.compiler.is_exporting() else fresh

    def _best(self, rows: Tensor, content: Tensor, work: Tensor) -> Tensor:
        """The first place that correlates best with the senses, ``[1]``; `work` is memory like `rows`."""
        match = self._memory()["match"]
        if rows.dtype == torch.float32 and rows.device.type == "cpu":
            # BLAS rounds what it makes of a row by where that lies in memory: parts of a field must choose as it does.
            # A slice of products stays in the caches.
            count = max(_PRODUCTS // self.channels, -(-len(rows) // 64))
            for begin in range(0, len(rows), count):
                part = rows[begin : begin + count]
                torch.sum(torch.mul(part, content, out=work[: len(part)]), 1, out=match[begin : begin + count])
        else:
            torch.mv(rows, content.to(rows.dtype), out=match)
        return match.argmax(0, keepdim=True)

    def _place(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """The places around the best one, ``[25]``, and the weights of an imprint there; 0 for those outside."""
        near = torch.div(best, self._strides, rounding_mode="floor") % self._sizes + self._offsets
        inside = ((near >= 0) & (near < self._sizes)).all(1)
        around = (near.clamp(min=0).minimum(self._sizes - 1) * self._strides).sum(1)
        return around, self._falloff * inside

    def _add(self, rows: Tensor, around: Tensor, values: Tensor) -> None:
        """Adds a row of values at each of the places."""
        rows.index_add_(0, around, values)

    def _evolve(self, field: Tensor, fresh: Tensor) -> None:
        if self.eager:
            fresh.copy_(plain_field.evolve(field, self.decay, self.diffusion, 1, self.boundary))
            if self.noise:
                fresh.add_(torch.randn_like(fresh), alpha=self.noise)
        else:
            key = self.key if self.noise else None
            functional.evolve(field, self.decay, self.diffusion, 1, self.boundary, noise=self.noise, key=key, out=fresh)
            functional.advance_key_(self.key, field.numel())
        if not torch.compiler.is_exporting():
            self._turn = not self._turn

    def _mean_and_row(self, rows: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        """The channels' mean of every place, ``[D, H, W, 1]``, and the channels of one place."""
        mean = self._memory()["mean"]
        torch.mean(rows, 1, dtype=torch.float32, out=mean.view(-1))
        return mean, rows.index_select(0, place).squeeze(0).float()

    def _motor(self, field: Tensor, sensory: Tensor, around: Tensor) -> Tensor:
        pool = self._memory()
        mean, held = self._mean_and_row(field.view(-1, self.channels), around[len(around) // 2 :][:1])
        if self.eager:
            pool["gradient"].copy_(plain_field.gradient(mean))
        else:
            functional.gradient(mean, out=pool["gradient"])
        weights = torch.abs(mean.view(-1), out=pool["weights"])
        # At least a little, so that a field of zeros has no gradient.
        total = weights.sum().clamp(min=1e-30)
        flow = torch.mv(pool["gradient"].view(3, -1), weights) / total
        pattern, similarity = self.library.find_best_pattern(sensory)
        features = torch.cat((flow, held))
        drive = self.gain * torch.mv(self.motor_weights, features) + similarity.clamp(min=0) * pattern
        motor = torch.tanh(drive)
        return torch.where(motor.abs() < self.threshold, 0.0, motor)

    def _pack(self, field: Tensor, motor: Tensor, error: Tensor) -> Tensor:
        """Motor and metrics in one vector."""
        rows = field.view(-1, self.channels)
        measured = plain_field.metrics(rows, SMALL) if self.eager else self._metrics(rows)
        information, largest, energy, sparsity = measured
        packed = self._memory()["packed"]
        packed[: self.motor_dim] = motor
        packed[self.motor_dim :] = torch.stack((information, largest, 1 / (1 + error), energy, sparsity, error))
        return packed

    def _metrics(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`plain_field.metrics` in one read: moments of blocks of places, then of all blocks together."""
        pool, count = self._memory(), math.prod(self.spatial)
        means, squares, largest, small = self._moments(rows).unbind(1)
        shares, deviations = pool["shares"], pool["deviations"]
        mean = torch.mv(means.t(), shares)
        torch.sub(means, mean, out=deviations).square_()
        variance = squares.sum(0) / count + torch.mv(deviations.t(), shares)
        energy = (variance + mean * mean).mean()
        return variance.sqrt().sum(), largest.amax(), energy, small.sum() / (count * self.channels)

    def _moments(self, rows: Tensor) -> Tensor:
        """Of blocks of places, ``[blocks, 4, channels]``."""
        moments = self._memory()["moments"]
        torch.ops.torch_hrr._field_moments.out(rows, SMALL, out=moments)
        return moments

    def _checked(
        self, sensory: Sequence[float] | Tensor, reward: float, terminated: bool = False, truncated: bool = False
    ) -> Tensor:
        """Sensory values and the reward in one vector on the host."""
        op = "process_robot_cycle"
        check_data(op, "the brain", self.prediction)
        check_bool(op, "terminated", terminated)
        check_bool(op, "truncated", truncated)
        if isinstance(sensory, Tensor):
            check_strided(op, "sensory", sensory)
            if sensory.is_complex() or sensory.dtype is torch.bool:
                raise TypeError(f"{op}: sensory must be real, got {sensory.dtype}")
            check_data(op, "sensory", sensory)
            values = sensory.detach().to("cpu", torch.float32)
        else:
            given = listed(op, "sensory", sensory, "numbers")
            numbers = [number(op, "a value of sensory", plain(value)) for value in given]
            values = torch.tensor(numbers, dtype=torch.float64, device="cpu").to(torch.float32)
        if values.shape != (self.sensory_dim,):
            raise ValueError(f"{op}: sensory must have {self.sensory_dim} values, got shape {list(values.shape)}")
        own = torch.tensor([number(op, "reward", single(reward))], dtype=torch.float64, device="cpu")
        both = torch.cat((values, own.to(torch.float32)))
        if not bool((both.abs() <= LARGEST).all()):
            raise ValueError(f"{op}: sensory and reward must be finite and at most {LARGEST:g} in absolute value")
        return both

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of every module; the field is under the name that a brain without cycles has."""
        self._turn_back()
        return super().state_dict(*args, **kwargs)

    def _turn_back(self) -> None:
        """The field under the name that a brain without cycles has."""
        if self._turn:
            self._even, self._odd, self._turn = self._odd, self._even, False

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        # A state without a field, or with one that does not fit, leaves the one there is.
        self._turn_back()
        super()._load_from_state_dict(*args, **kwargs)
        # A state that is assigned may be on another device.
        self._follow()


def _fill_with_waves(weights: Tensor, generator: torch.Generator) -> None:
    """Random orthonormal columns: ``sqrt(2 / N) s_i t_j cos(pi (2 p_i + 1) (2 k_j + 1) / (4 N))``.

    Columns k of the discrete cosine transform of kind IV, each at most once, with rows in a random order p and random
    signs s and t. O(N) numbers are drawn, and every weight is one cosine.
    """
    rows, columns = weights.shape
    order = torch.randperm(rows, generator=generator, device="cpu")
    chosen = torch.randperm(rows, generator=generator, device="cpu")[:columns]
    signs = torch.randint(2, (rows + columns,), generator=generator, device="cpu") * 2.0 - 1.0
    scale = math.sqrt(2 / rows)
    for begin in range(0, rows, BLOCK):
        block = slice(begin, min(begin + BLOCK, rows))
        # A whole turn is 8 N: exact, so that large products lose nothing.
        angle = torch.outer(2 * order[block] + 1, 2 * chosen + 1).remainder_(8 * rows).double() * (math.pi / (4 * rows))
        weights[block] = angle.cos_().mul_(scale * signs[block, None]).mul_(signs[rows:])


def single(value: Any) -> Any:
    """The number of an array of one element; anything else as it is."""
    if isinstance(value, int | float | str | bytes | Tensor) or not hasattr(value, "__array__"):
        return value
    return value.reshape(()) if math.prod(getattr(value, "shape", ())) == 1 else value


def field_sizes(op: str, spatial: int | Sequence[int]) -> tuple[int, int, int]:
    """Depth, height and width."""
    if hasattr(spatial, "__index__"):
        edge = integer(op, "spatial", spatial, 1)
        return edge, edge, edge
    if isinstance(spatial, str) or not isinstance(spatial, Sequence):
        raise TypeError(f"{op}: spatial must be an int or depth, height and width, got {type(spatial).__name__}")
    if len(spatial) != 3:
        raise ValueError(f"{op}: spatial must be an int or depth, height and width, got {brief(spatial)}")
    depth, height, width = (integer(op, "spatial", size, 1) for size in spatial)
    return depth, height, width


def created(op: str, prefer_gpu: bool = True, **settings: Any) -> FieldBrain:
    """A brain on a GPU that works, else on the CPU, unless the settings say where; errors are in the name of `op`.

    It learns control unless the settings name another learner.
    """
    prefer_gpu = Bool()(op, "prefer_gpu", prefer_gpu)
    settings = {"learner": "actor-critic", **settings}
    kind: Any = type(FieldBrain.__new__(FieldBrain, **settings))
    known = [*inspect.signature(kind.__init__).parameters, "prefer_gpu"]
    check_known(op, "settings", settings, known, f"arguments of FieldBrain(learner={kind.learner!r}) or prefer_gpu")
    if settings.get("device") is None:
        settings["device"] = "auto" if prefer_gpu else "cpu"
    with named("FieldBrain", op):
        made: FieldBrain = kind(**settings)
    return made
