"""A brain that learns control online by its field, a population code of the senses and an eligibility trace."""

from __future__ import annotations

import array
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from torch_hrr._checks import check_bool, check_data, check_elements, check_floating, integer, number
from torch_hrr._ops import ops as _ops
from torch_hrr._plain import field_control as plain
from torch_hrr._random import given_or_drawn_seed, seeded_generator
from torch_hrr._shared import writable_anywhere
from torch_hrr._spec import Bool, Choice, Device, Dtype, Int, Real, Seed, Spec, takes
from torch_hrr.field import functional
from torch_hrr.field.brain import LARGEST, METRICS, FieldBrain, field_sizes, single
from torch_hrr.field.patterns import check_single, vector
from torch_hrr.runtime import resolve_device
from torch_hrr.runtime.memory import check_free

MAPS = 8
# Of the edge of a field, what a sensory value of 1 along a direction moves the place by.
_REACH = 0.35
# Of a trace, from step to step, besides the discount.
_TRACE = 0.9
# Of a motor's noise, from step to step.
_CORRELATION = 0.5
# Of the way from where a sensory value was expected to where it is, and of that way as a sensor.
_FOLLOWED, _SENSED = 0.5, 4.0
_SETTINGS = (
    *("learner", "sensory_dim", "motor_dim", "spatial", "channels", "decay", "diffusion", "discount"),
    *("critic_rate", "motor_rate", "exploration", "discrete", "velocities"),
)


# Settings that may be written to a brain later.
_WRITTEN: dict[str, Spec] = {
    "decay": Real(0, 1), "diffusion": Real(0, 1 / 6), "discount": Real(0, 1), "critic_rate": Real(0, 1),
    "motor_rate": Real(0, 1), "exploration": Real(0, LARGEST), "discrete": Bool(),
}  # fmt: skip


class _Work(NamedTuple):
    """Memory of a cycle: numbers of the host, the tensor that shares it or its copy on the device, and the result."""

    staged: array.array[float]
    host: Tensor
    given: Tensor
    sensory: Tensor
    reward: Tensor
    ended: Tensor
    out: Tensor


class ControlBrain(FieldBrain):
    """The `FieldBrain` of ``learner="actor-critic"``, whose docstring says what it does."""

    learner: ClassVar[str] = "actor-critic"
    _written: ClassVar[Mapping[str, Spec]] = _WRITTEN
    # Pickles from before the option have none.
    velocities: bool = False

    _field: Tensor
    _weights: Tensor
    _state: Tensor
    _places: Tensor
    _expected: Tensor
    _work: _Work | None

    @takes(
        "FieldBrain",
        sensory_dim=Int(1),
        motor_dim=Int(1),
        learner=Choice(("actor-critic",)),
        **_WRITTEN | {"decay": _WRITTEN["decay"].or_none()},
        velocities=Bool(),
        seed=Seed().or_none(),
        dtype=Dtype((torch.float32,)),
        device=Device(),
    )
    @writable_anywhere
    def __init__(
        self,
        sensory_dim: int = 16,
        motor_dim: int = 5,
        spatial: int | Sequence[int] = 8,
        channels: int | None = None,
        *,
        learner: str = "actor-critic",
        decay: float | None = None,
        diffusion: float = 0.0,
        discount: float = 0.99,
        critic_rate: float = 0.2,
        motor_rate: float = 0.015,
        exploration: float = 0.4,
        discrete: bool = False,
        velocities: bool = False,
        seed: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | int | None = None,
    ) -> None:
        """Draws the maps on the CPU, so that a seed gives the same brain on every device; all weights are 0.

        Args:
            sensory_dim: Number of sensory values, at least 1.
            motor_dim: Number of motors, at least 1.
            spatial: Edge of the cube of places, or depth, height and width, each at least 1.
            channels: A map needs 1 + motor_dim; by default 8 maps. What is left over stays 0.
            learner: "actor-critic".
            decay: Share of the field lost in a cycle, 0 to 1; by default 1 - 0.9 discount.
            diffusion: 0 to 1/6. Above 0, every cycle goes through the whole field.
            discount: Of later rewards, a cycle, 0 to 1.
            critic_rate: Of the prediction of rewards, 0 to 1.
            motor_rate: Of the motors, 0 to 1.
            exploration: Standard deviation of the noise of motors, 0 to 1e6.
            discrete: Whether one of the motors is chosen, not each one's strength.
            velocities: Whether it also senses how values change, where what they are does not tell.
            seed: Any int, taken modulo 2^64; None draws one from torch's default generator on the CPU.
            dtype: float32.
            device: None means the current one, `runtime.get_device()`.

        Raises:
            RuntimeError: What the brain takes is not free.
        """
        nn.Module.__init__(self)
        op = "FieldBrain"
        self.sensory_dim, self.motor_dim = sensory_dim, motor_dim
        self.spatial = field_sizes(op, spatial)
        self.channels = MAPS * (1 + motor_dim) if channels is None else integer(op, "channels", channels, 1 + motor_dim)
        maps = self.channels // (1 + motor_dim)
        check_elements(op, "the field", (*self.spatial, self.channels))
        sensors = sensory_dim * (2 if velocities else 1)
        needed = 8 * math.prod(self.spatial) * self.channels + 24 * maps * sensors
        got = f"{sensory_dim}, {self.spatial} and {self.channels}"
        check_free(op, "sensory_dim, spatial and channels", got, needed)
        self.decay = 1 - _TRACE * discount if decay is None else decay
        self.diffusion, self.discount, self.exploration, self.discrete = diffusion, discount, exploration, discrete
        self.critic_rate, self.motor_rate, self.velocities = critic_rate, motor_rate, velocities
        self.cycle, self.eager, self._work = 0, False, None
        self.seed = given_or_drawn_seed(op, seed)

        def zeros(*sizes: int) -> Tensor:
            return torch.zeros(sizes, dtype=torch.float32, device="cpu")

        state = zeros(plain.HEAD + sensors + 2 * motor_dim)
        state[plain.PRODUCT] = 1
        buffers = {
            "_field": zeros(*self.spatial, self.channels),
            "_weights": zeros(*self.spatial, self.channels),
            "_state": state,
            "_places": _places(maps, sensors, self.spatial, seeded_generator(self.seed)),
            "prediction": zeros(sensors),
            "key": functional.random_key(self.seed, device="cpu"),
        }
        if velocities:
            buffers["_expected"] = zeros(sensory_dim)
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)
        self.requires_grad_(False)
        self.to(resolve_device(device, op=op))

    @property
    def field(self) -> Tensor:
        """The trace, ``[D, H, W, C]``, made anew: channels 0 to M - 1 of the senses, then M for each motor."""
        return self._settled()[0]

    @property
    def weights(self) -> Tensor:
        """What the field is read with, ``[D, H, W, C]``, made anew; writing to it changes nothing."""
        return self._settled()[1]

    @property
    def maps(self) -> int:
        """The number of maps, M."""
        return self._places.shape[0]

    def step(self, sensory: Tensor, reward: Tensor | float = 0.0, ended: Tensor | int = 0) -> Tensor:
        """As `FieldBrain.step`, in new memory; `ended` is 1 if the episode terminated, 2 if it was cut off, else 0."""
        return self._step("step", sensory, reward, ended)

    def forward(self, sensory: Tensor, reward: Tensor | float = 0.0, ended: Tensor | int = 0) -> Tensor:
        """`step`."""
        return self._step("FieldBrain", sensory, reward, ended)

    @torch.no_grad()
    def _step(self, op: str, sensory: Tensor, reward: Tensor | float, ended: Tensor | int = 0) -> Tensor:
        sensory = vector(op, "sensory", sensory, self.sensory_dim, self.device).to(torch.float32).contiguous()
        if isinstance(reward, Tensor):
            check_floating(op, "reward", reward)
            check_single(op, "reward", reward, self.device)
        else:
            reward = torch.full((), number(op, "reward", single(reward), -LARGEST, LARGEST), device=self.device)
        if isinstance(ended, Tensor):
            check_single(op, "ended", ended, self.device)
        else:
            ended = torch.full((), integer(op, "ended", ended, 0, 2), device=self.device)
        reward, ended = reward.reshape(()).to(torch.float32), ended.reshape(()).to(torch.float32)
        # Zeros, since a number below 0 in `ended`, which cannot be checked, makes the robot rest.
        out = torch.zeros(self.motor_dim + len(METRICS), dtype=torch.float32, device=self.device)
        self._advance(sensory, reward, ended, out)
        return out

    def _advance(self, sensory: Tensor, reward: Tensor, ended: Tensor, out: Tensor) -> None:
        self._call(self._buffers, sensory, reward, ended, out)

    def _call(
        self, held: Mapping[str, Tensor | None], sensory: Tensor, reward: Tensor, ended: Tensor, out: Tensor
    ) -> None:
        """A step of what is held, by this brain or by several of its settings."""
        expected, state = held.get("_expected"), held["_state"]
        if expected is not None and state is not None:
            begun = state.narrow(-1, plain.BEGUN, 1)
            sensory = _with_velocities(sensory, expected, begun, ended.unsqueeze(-1) < 0)
        call: Any = plain.control_ if self.eager else _ops._field_control_.default
        call(
            *(held["_field"], held["_weights"], held["_state"], held["prediction"], held["key"], out),
            *(held["_places"], sensory, reward, ended, self.decay, self.diffusion, self.discount),
            *(self.critic_rate, self.motor_rate, _CORRELATION, self.exploration, self.training, self.discrete, False),
        )

    def process_robot_cycle(
        self, sensory: Sequence[float] | Tensor, reward: float = 0.0, terminated: bool = False, truncated: bool = False
    ) -> tuple[list[float], dict[str, Any]]:
        """As `FieldBrain.process_robot_cycle`."""
        begin = time.perf_counter()
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = check_bool("process_robot_cycle", "terminated", terminated)
            truncated = check_bool("process_robot_cycle", "truncated", truncated)
        work = self._work or self._new_work()
        # Lists of floats in range need no more checks; of NaN no comparison is true.
        fits = type(reward) is float and -LARGEST <= reward <= LARGEST and type(sensory) is list
        if fits and len(sensory) == self.sensory_dim and set(map(type, sensory)) == {float}:
            fits = all(-LARGEST <= value <= LARGEST for value in sensory)
        else:
            fits = False
        given = [*sensory, reward] if fits else self._checked(sensory, reward).tolist()
        work.staged[:] = array.array("f", (*given, 1.0 if terminated else 2.0 if truncated else 0.0))
        if work.given is not work.host:
            work.given.copy_(work.host, non_blocking=True)
        self._advance(work.sensory, work.reward, work.ended, work.out)
        numbers = work.out.tolist()
        self.cycle += 1
        return numbers[: self.motor_dim], self._report(self.cycle, numbers, time.perf_counter() - begin)

    def _report(self, cycle: int, numbers: list[float], seconds: float) -> dict[str, Any]:
        """The state that a cycle returns, of motors and metrics."""
        state: dict[str, Any] = {"cycle": cycle, **dict(zip(METRICS, numbers[self.motor_dim :], strict=True))}
        return state | {"device": str(self.device), "cycle_time_ms": 1e3 * seconds}

    @torch.no_grad()
    def reset(self) -> None:
        """Begins an episode: clears the field, the prediction and the noise; what was learned stays."""
        self._settle()
        self._field.zero_()
        self._state[plain.BEGUN] = 0
        self._state[plain.HEAD :] = 0
        self.prediction.zero_()
        if self.velocities:
            self._expected.zero_()

    def train(self, mode: bool = True) -> Self:
        """As of every module; at rest `weights` stay bit for bit."""
        if self.training and not mode:
            self._settle()
        return super().train(mode)

    @property
    def nbytes(self) -> int:
        """Bytes of its state and its weights."""
        return sum(buffer.nbytes for buffer in self.buffers())

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """As of every module."""
        return nn.Module.state_dict(self, *args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        """As of every module; brains that step together are the same but for what `cycle` counts."""
        if name != "cycle":
            self.__dict__["_together"] = None
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the memory of a cycle, whose tensors share it, and no row of a memory of others."""
        state = {**nn.Module.__getstate__(self), "_work": None}
        state.pop("_together", None)
        # Of a brain that has left the others, too: a row would take all of their memory along.
        state["_buffers"] = {
            name: tensor if tensor is None or tensor.untyped_storage().nbytes() <= tensor.nbytes else tensor.clone()
            for name, tensor in self._buffers.items()
        }
        return state

    def _settled(self) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            return plain.settled(self._field, self._weights, self._state, self.maps)

    @torch.no_grad()
    def _settle(self) -> None:
        """Stores field and weights as they are, so that no later imprint rounds a weight."""
        field, weights = self._settled()
        self._field.copy_(field)
        self._weights.copy_(weights)
        self._state[plain.PRODUCT] = 1
        self._state[plain.CRITIC : plain.SQUARE] = 0

    @writable_anywhere
    def _new_work(self) -> _Work:
        check_data("process_robot_cycle", "the brain", self.prediction)
        staged = array.array("f", bytes(4 * (self.sensory_dim + 2)))
        host = torch.frombuffer(staged, dtype=torch.float32)
        given = host if self.device.type == "cpu" else host.to(self.device)
        out = torch.empty(self.motor_dim + len(METRICS), dtype=torch.float32, device=self.device)
        self._work = _Work(staged, host, given, given[:-2], given[-2], given[-1], out)
        return self._work

    def _content(self) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
        return {name.removeprefix("_"): tensor for name, tensor in self.state_dict().items()}, self._settings()

    def _settings(self) -> Mapping[str, Any]:
        return self._summary() | {"cycle": self.cycle, "seed": self.seed, "dtype": "float32"}

    def _summary(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _SETTINGS}

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        def placed(tensor: Tensor) -> Tensor:
            changed = fn(tensor)
            return changed if changed.dtype == tensor.dtype else tensor.to(changed.device)

        nn.Module._apply(self, placed, recurse)
        self._work = None
        return self

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        nn.Module._load_from_state_dict(self, *args, **kwargs)
        self._work = None


def _with_velocities(sensory: Tensor, expected: Tensor, begun: Tensor, rests: Tensor) -> Tensor:
    """``[..., 2 n]``: sensory values s and ``tanh(4 (s - p))``, of p that then moves half the way to s.

    In the first step of an episode, where `begun` is 0, p is s. Of a brain that rests p stays.
    """
    missed = (sensory - expected) * begun
    expected.copy_(torch.where(rests, expected, torch.sub(sensory, missed, alpha=1 - _FOLLOWED)))
    return torch.cat((sensory, missed.mul_(_SENSED).tanh_()), -1)


def _places(maps: int, sensors: int, sizes: tuple[int, int, int], generator: torch.Generator) -> Tensor:
    """``[maps, 3, sensors + 1]``: places (G - 1) / 2 + offset + .35 G P s, P of orthonormal rows, or columns.

    Offsets are within half a cell.
    """
    tall, narrow = max(3, sensors), min(3, sensors)
    drawn = torch.randn(maps, tall, narrow, generator=generator, dtype=torch.float32, device="cpu")
    turned = torch.linalg.qr(drawn)[0]
    turned = turned.mT if sensors >= 3 else turned
    edges = torch.tensor(sizes, dtype=torch.float32, device="cpu")
    offsets = torch.rand(maps, 3, generator=generator, dtype=torch.float32, device="cpu") - 0.5
    return torch.cat((_REACH * edges[:, None] * turned, ((edges - 1) / 2 + offsets)[..., None]), -1).contiguous()


FieldBrain._learners[ControlBrain.learner] = ControlBrain
