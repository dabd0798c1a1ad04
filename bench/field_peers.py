"""Lives beside that of a field brain: its step rule with a tile code and a linear read-out, in NumPy, and a search."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from torch import Tensor

from torch_hrr.field import gym
from torch_hrr.field._spaces import Motors, Sensors

# As a field brain's defaults.
DISCOUNT, TRACE, CRITIC_RATE, MOTOR_RATE, CORRELATION, EXPLORATION = 0.99, 0.9, 0.2, 0.015, 0.5, 0.4
# Chosen for the tile code on other seeds, of 3 to 8 cells an edge, 8 to 64 grids and rates of .01 to .05.
EDGE, TILINGS, TILE_MOTOR_RATE = 4, 32, 0.05
CANDIDATES = 12
MEMORY, LARGEST_ERROR = 1000, 3.0

Array = npt.NDArray[np.float64]
# Indices of the features that are not 0, and their values, of norm 1.
Code = Callable[[Sequence[float]], tuple[npt.NDArray[np.intp], Array]]


def tiles(sensors: int, edge: int, tilings: int, seed: int) -> tuple[Code, int]:
    """A code of one cell in each of several grids of ``edge ** sensors`` cells over [-1, 1], moved by random offsets.

    Returns:
        The code, and how many features it has.
    """
    offsets = np.random.default_rng(seed).random((tilings, sensors))
    strides = (edge + 1) ** np.arange(sensors)
    cells = (edge + 1) ** sensors
    first, values = cells * np.arange(tilings), np.full(tilings, 1 / math.sqrt(tilings))

    def code(sensory: Sequence[float]) -> tuple[npt.NDArray[np.intp], Array]:
        # From 0 to the edge, and beyond it less than a cell by the offset.
        scaled = (np.clip(sensory, -1, 1) + 1) / 2 * edge
        return ((scaled + offsets).astype(np.intp).clip(max=edge) * strides).sum(1) + first, values

    return code, cells * tilings


def linear(sensors: int) -> tuple[Code, int]:
    """The sensory values and a one, divided by their norm; as `tiles`."""
    every = np.arange(sensors + 1)

    def code(sensory: Sequence[float]) -> tuple[npt.NDArray[np.intp], Array]:
        values = np.array([*sensory, 1.0])
        return every, values / np.linalg.norm(values)

    return code, sensors + 1


class ActorCritic:
    """True online TD(lambda) of a critic, and motors by its error: what `FieldBrain` says, with another code."""

    def __init__(self, code: Code, features: int, motors: int, discrete: bool, rate: float, seed: int) -> None:
        self.code, self.motors, self.discrete, self.rate, self.learns = code, motors, discrete, rate, True
        # weights + ahead * trace are those in force and product * trace is the trace: a step touches only the code.
        self.weights, self.trace = np.zeros((2, 1 + motors, features))
        self.generator = np.random.default_rng(seed)
        self.square, self.count = 0.0, 0
        self.begin()

    def begin(self) -> None:
        """Begins an episode."""
        if hasattr(self, "ahead"):
            self.weights += self.ahead[:, None] * self.trace
        self.trace[:] = 0
        self.product, self.ahead = 1.0, np.zeros(1 + self.motors)
        self.noise = np.zeros(self.motors)
        self.before: tuple[npt.NDArray[np.intp], Array, Array] | None = None

    def act(self, sensory: Sequence[float], reward: float, terminated: bool) -> Array:
        """Learns from the reward for the last motors, and gives the next, -1 to 1."""
        cells, values = self.code(sensory)
        if self.before is not None and self.learns:
            at, active, score = self.before
            old = self._read(at) @ active
            future = 0.0 if terminated else DISCOUNT * float(self._read(cells)[0] @ values)
            error = reward + future - float(old[0])
            amount = np.array([1 - CRITIC_RATE * self.product * float(self.trace[0, at] @ active), *score])
            added = amount[:, None] / self.product * active
            self.trace[:, at] += added
            self.weights[:, at] -= self.ahead[:, None] * added
            self.count = min(self.count + 1, MEMORY)
            self.square += (error * error - self.square) / self.count
            relative = error / math.sqrt(self.square) if self.square else 0.0
            step = self.rate * min(max(relative, -LARGEST_ERROR), LARGEST_ERROR)
            self.ahead += self.product * np.array([CRITIC_RATE * error, *[step] * self.motors])
            self.product *= DISCOUNT * TRACE
            if self.product < 1e-6:
                self.weights += self.ahead[:, None] * self.trace
                self.trace *= self.product
                self.product, self.ahead = 1.0, np.zeros(1 + self.motors)
        motor, score = self._motor(self._read(cells)[1:] @ values)
        self.before = cells, values, score
        return motor

    def _read(self, cells: npt.NDArray[np.intp]) -> Array:
        read: Array = self.weights[:, cells] + self.ahead[:, None] * self.trace[:, cells]
        return read

    def _motor(self, drives: Array) -> tuple[Array, Array]:
        if self.discrete:
            shares = np.exp(drives - drives.max())
            shares /= shares.sum()
            if not self.learns:
                return 2 * shares - 1, shares
            chosen = np.arange(self.motors) == self.generator.choice(self.motors, p=shares)
            return 2.0 * chosen - 1, chosen - shares
        mean = np.tanh(drives)
        if not self.learns:
            return mean, mean
        drawn = self.generator.standard_normal(self.motors)
        self.noise = CORRELATION * self.noise + EXPLORATION * math.sqrt(1 - CORRELATION**2) * drawn
        return np.clip(mean + self.noise, -1, 1), self.noise * (1 - mean**2)


Life = tuple[list[float], list[float]]
"""Returns of the episodes in which a learner learns, and of those after them, without exploration."""
Environment = gymnasium.Env[Any, Any]


def random_life(env: Environment, seed: int, episodes: int, first: int, after: int) -> Life:
    """Random actions; as `tile_life`."""
    return [gym.random_episode(env, first + i) for i in range(episodes)], []


def tile_life(env: Environment, seed: int, episodes: int, first: int, after: int) -> Life:
    """A life with a tile code, of the grids that earn most.

    Args:
        env: Box observations.
        seed: Of offsets and exploration.
        episodes: How many it learns in.
        first: The seed of the first one.
        after: How many follow, seeded from 0 on.
    """
    sensors = Sensors("tile_life", env.observation_space).size
    return _life(env, *tiles(sensors, EDGE, TILINGS, seed), TILE_MOTOR_RATE, seed, episodes, first, after)


def linear_life(env: Environment, seed: int, episodes: int, first: int, after: int) -> Life:
    """A life with the sensory values themselves; as `tile_life`."""
    sensors = Sensors("linear_life", env.observation_space).size
    return _life(env, *linear(sensors), MOTOR_RATE, seed, episodes, first, after)


def searched_life(env: Environment, seed: int, episodes: int, first: int, after: int) -> Life:
    """Weights W of motors ``tanh(W s)`` by the cross-entropy method in as many episodes; as `tile_life`."""
    sensors, motors = Sensors("search", env.observation_space), Motors("search", env.action_space)
    returns: list[float] = []

    def tried(weights: Array, seed: int) -> float:
        return episode(env, lambda values, *_: np.tanh(weights @ values), sensors, motors, seed)

    def earned(weights: Tensor, generation: int) -> float:
        returns.append(tried(weights.numpy(), first + generation))
        return returns[-1]

    generations = max(episodes // CANDIDATES, 1)
    shape = motors.size, sensors.size
    found, _ = gym.search(earned, shape, generations=generations, candidates=CANDIDATES, seed=seed)
    return returns, [tried(found.numpy(), i) for i in range(after)]


def _life(
    env: Environment, code: Code, features: int, rate: float, seed: int, episodes: int, first: int, after: int
) -> Life:
    sensors, motors = Sensors("life", env.observation_space), Motors("life", env.action_space)
    discrete = isinstance(env.action_space, gymnasium.spaces.Discrete)
    learner = ActorCritic(code, features, motors.size, discrete, rate, seed)

    def run(seed: int) -> float:
        learner.begin()
        return episode(env, learner.act, sensors, motors, seed)

    returns = [run(first + i) for i in range(episodes)]
    learner.learns = False
    return returns, [run(i) for i in range(after)]


def episode(env: Environment, act: Callable[..., Any], sensors: Sensors, motors: Motors, seed: int) -> float:
    """The return of an episode of motors ``act(sensory values, reward, terminated)``, an array or a tensor."""
    observation, _ = env.reset(seed=seed)
    reward, total, terminated, truncated = 0.0, 0.0, False, False
    while True:
        motor = act(sensors(observation), reward, terminated)
        if terminated or truncated:
            return total
        observation, given, terminated, truncated, _ = env.step(motors(motor.tolist()))
        reward = float(given)
        total += reward
