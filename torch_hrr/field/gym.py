"""Field brains in gymnasium: agents that act in environments, one or many, and a wrapper that observes through a field.

`gymnasium` is optional (``pip install gymnasium``), so this module must be imported by its own name:
``from torch_hrr.field import gym``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat, Unpack

import torch
from torch import Tensor

from torch_hrr._checks import check_bool, check_seed, integer, listed
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import given_or_drawn_seed
from torch_hrr._repr import Described
from torch_hrr._spec import Instance, Int, Real, Seed, Spec, takes
from torch_hrr.field import functional
from torch_hrr.field._control import ControlBrain
from torch_hrr.field._together import Asked, State, Together, cycles
from torch_hrr.field.brain import LARGEST, METRICS, BrainArguments, FieldBrain, created, single
from torch_hrr.field.dynamics import DynamicField
from torch_hrr.field.search import search

try:
    import gymnasium
    import numpy as np
    from gymnasium import spaces
except ImportError:
    raise ImportError(f"{__name__}: gymnasium must be installed: pip install gymnasium") from None

from torch_hrr.field._spaces import Motors, Sensors

__all__ = [
    "Episode",
    "FieldAgent",
    "FieldMemory",
    "FieldObservation",
    "VectorFieldAgent",
    "brain_for",
    "brains_for",
    "learn",
    "random_episode",
    "search",
    "train",
]

# Metrics without an upper bound; the others are in [0, 1].
_UNBOUNDED = ("field_information", "max_activation", "energy", "prediction_error")
_ENV, _ENVS, _BRAIN = Instance(gymnasium.Env), Instance(gymnasium.vector.VectorEnv), Instance(FieldBrain)
# What is kept of an episode, and how long it may be.
_RECORDED: dict[str, Spec] = {"frames_every": Int(0), "max_steps": Int(1).or_none()}
# Places of a remembered value, how strong and wide a stimulus it is for a peak of them, and steps of one observation.
_PLACES, _STRENGTH, _WIDTH, _STEPS = 21, 40.0, 1.5, 5
# A peak that goes on by itself, and that a stronger stimulus elsewhere ends.
_REMEMBERS: dict[str, Any] = {"excitation": 30.0, "sigma_excitation": 2.0, "global_inhibition": 2.0, "tau": 2.0}
# Of the process that torch's threads are in.
_PROCESS = os.getpid()


@dataclass(frozen=True, repr=False)
class Episode(Described):
    """What happened in an episode.

    Attributes:
        seed: The seed it began with; None if it continued from the generators' states.
        rewards: The environment's rewards, one per step. actions: One per step. states: From
            `FieldBrain.process_robot_cycle`, one per cycle: one for each step and one for the last observation. frames:
            The field ``[D, H, W, C]`` after every ``frames_every`` cycles, on the CPU. terminated: Whether the
            environment ended by itself; otherwise it was cut off.
    """

    seed: int | None
    rewards: tuple[float, ...]
    actions: tuple[Any, ...]
    states: tuple[dict[str, Any], ...]
    frames: tuple[Tensor, ...]
    terminated: bool

    def _summary(self) -> dict[str, Any]:
        steps = {"seed": self.seed, "steps": len(self.rewards), "total": self.total, "terminated": self.terminated}
        return steps | {"frames": len(self.frames)}

    @property
    def total(self) -> float:
        """The return: the sum of the rewards."""
        return sum(self.rewards)

    def __len__(self) -> int:
        """How many steps there were."""
        return len(self.rewards)


class _Recorder:
    """An episode while it goes on."""

    def __init__(self, seed: int | None, frames_every: int, max_steps: int | None) -> None:
        self.seed, self.frames_every, self.max_steps = seed, frames_every, max_steps
        self.rewards: list[float] = []
        self.actions: list[Any] = []
        self.states: list[State] = []
        self.frames: list[Tensor] = []
        self.terminated = self.ended = False

    def cycle(self, brain: FieldBrain, state: State) -> None:
        if self.frames_every and len(self.states) % self.frames_every == 0:
            self.frames.append(brain.field.to("cpu", copy=True))
        self.states.append(state)

    def step(self, action: Any, reward: SupportsFloat, terminated: bool, truncated: bool) -> None:
        self.actions.append(action)
        self.rewards.append(float(reward))
        self.terminated = bool(terminated)
        self.ended = self.terminated or bool(truncated) or len(self.rewards) == self.max_steps

    @property
    def truncated(self) -> bool:
        return self.ended and not self.terminated

    def episode(self) -> Episode:
        states = tuple(state() if callable(state) else state for state in self.states)
        rewards, actions, frames = (tuple(each) for each in (self.rewards, self.actions, self.frames))
        return Episode(self.seed, rewards, actions, states, frames, self.terminated)


class FieldAgent(Described):
    """A brain that acts in an environment: observations are its sensors, actions its motors.

    Box observations are scaled by their bounds to [-1, 1], and by tanh where a bound is infinite; this needs no
    statistics, so an observation always gives the same sensory values. Discrete observations are one-hot. A Discrete
    action is the number of the strongest motor, the first among equals; a Box action is the motors scaled linearly from
    [-1, 1] to its bounds.

    Attributes:
        brain: The `FieldBrain`.
        env: The environment.
        state: The state of the last cycle.
    """

    @takes(brain=_BRAIN, env=_ENV, reward_scale=Real(0))
    def __init__(self, brain: FieldBrain, env: gymnasium.Env[Any, Any], *, reward_scale: float = 1.0) -> None:
        """Checks that the brain fits the environment; `brain_for` makes one that does.

        Args:
            brain: With as many sensory values and motors as the environment's spaces need.
            env: Box or Discrete observations and actions.
            reward_scale: The brain receives ``reward_scale * reward``; one of ``learner="imprint"`` has it clipped to
                -1 and 1, as its imprints have intensity ``0.5 + 0.5 reward``, and with 0 stores no patterns.

        Raises:
            TypeError: A space that is neither Box nor Discrete.
            ValueError: The brain has other numbers of values, it learns control but not of this kind of actions, or the
                bounds of actions are infinite.
        """
        self.env = env
        self._connect(type(self).__name__, brain, env.observation_space, env.action_space, reward_scale)

    def _summary(self) -> dict[str, Any]:
        return {"brain": self.brain, "env": getattr(self, "env", None), "reward_scale": self.reward_scale}

    def _connect(
        self, op: str, brain: FieldBrain, observed: spaces.Space[Any], acted: spaces.Space[Any], reward_scale: float
    ) -> None:
        self._sensors, self._motors = Sensors(op, observed), Motors(op, acted)
        needed, given = (self._sensors.size, self._motors.size), (brain.sensory_dim, brain.motor_dim)
        if needed != given:
            raise ValueError(f"{op}: brain must have sensory_dim, motor_dim = {needed}, got {given}")
        chooses = isinstance(acted, spaces.Discrete)
        if isinstance(brain, ControlBrain) and brain.discrete != chooses:
            raise ValueError(f"{op}: brain must have discrete = {chooses}, got {brain.discrete}")
        self.brain, self.reward_scale = brain, reward_scale
        self.state: dict[str, Any] = {}

    @takes(seed=Seed().or_none())
    def begin(self, seed: int | None = None) -> None:
        """Resets the brain except its library, and seeds its noise unless the seed is None."""
        _begin(self.brain, seed)

    def act(
        self, observation: Any, reward: SupportsFloat = 0.0, terminated: bool = False, truncated: bool = False
    ) -> Any:
        """A cycle of the brain.

        Args:
            observation: Of the environment's space.
            reward: For the last action.
            terminated: Whether the episode ended with this observation, after which no reward comes.
            truncated: Whether it was cut off there: the brain then counts on the rewards that would have come.

        Returns:
            An action of the environment's space.

        Raises:
            TypeError: The observation or the reward is of another type.
            ValueError: The observation has another shape, a number outside a Discrete space, or a value that is
                NaN, infinite or a million times beyond its bounds; or the reward is not finite. The brain is unchanged.
        """
        ended = _flag("terminated", terminated), _flag("truncated", truncated)
        given = (self.sense(observation), self._told(reward), *ended)
        motor, self.state = self.brain.process_robot_cycle(*given)
        return self.decode(motor)

    def _told(self, reward: SupportsFloat) -> float:
        if type(reward) is not float:
            reward = single(reward)
            if not isinstance(reward, SupportsFloat):
                raise TypeError(f"act: reward must be a number, got {type(reward).__name__}")
        try:
            reward = float(reward)
        except OverflowError:
            reward = math.inf
        if not math.isfinite(reward):
            raise ValueError(f"act: reward must be finite, got {reward}")
        told = self.reward_scale * reward
        if not isinstance(self.brain, ControlBrain):
            return min(max(told, -1.0), 1.0)
        if abs(told) > LARGEST:
            raise ValueError(f"act: reward must be at most {LARGEST:g} when scaled, got {told}")
        return told

    def sense(self, observation: Any) -> list[float]:
        """The sensory values of an observation; errors as for `act`."""
        return self._sensors(observation)

    def decode(self, motor: Sequence[float]) -> Any:
        """The action of motors of -1 to 1."""
        return self._motors(motor)

    @takes(**_RECORDED)
    def run_episode(self, seed: int | None = None, *, frames_every: int = 0, max_steps: int | None = None) -> Episode:
        """Runs an episode from `begin` to its end, and one more cycle, which tells the brain of the last reward.

        The seed, the brain's weights and its library determine everything except the states' ``cycle`` and
        ``cycle_time_ms``.

        Args:
            seed: Seed of the environment and of the brain's noise; None lets both continue.
            frames_every: Keeps the field after every so many cycles; 0 keeps none.
            max_steps: After how many steps to cut off the episode.

        Raises:
            TypeError: The seed is not an int; nothing has begun.
            Other errors end the episode where it is: those of the environment, and of `act` if an observation is NaN.
        """
        _seeds("run_episode", seed, 1)
        record = _Recorder(seed, frames_every, max_steps)
        observation, _ = self.env.reset(seed=seed)
        self.begin(seed)
        reward: SupportsFloat = 0.0
        while True:
            action = self.act(observation, reward, record.terminated, record.truncated)
            record.cycle(self.brain, self.state)
            if record.ended:
                return record.episode()
            observation, reward, terminated, truncated, _ = self.env.step(action)
            record.step(action, reward, terminated, truncated)


class _Member(FieldAgent):
    """One of a vector's agents: it has spaces, no environment of its own."""

    def __init__(self, brain: FieldBrain, envs: gymnasium.vector.VectorEnv[Any, Any, Any], reward_scale: float) -> None:
        spaces_of_one = envs.single_observation_space, envs.single_action_space
        self._connect("VectorFieldAgent", brain, *spaces_of_one, reward_scale)

    _state: State

    # Made when it is read, of what the last cycle measured.
    @property
    def state(self) -> dict[str, Any]:
        state = self._state
        self._state = state = state() if callable(state) else state
        return state

    @state.setter
    def state(self, state: State) -> None:
        self._state = state


class VectorFieldAgent(Described):
    """A brain for each environment of a vector.

    Each environment has its own brain, not an item of a batch: a brain is the state of one robot, with its own place of
    imprint and patterns. So every episode is bit for bit that of a `FieldAgent` with the same brain and seed, if the
    environments of the vector are single ones: those of a `SyncVectorEnv` or an `AsyncVectorEnv`, which ``make_vec``
    gives for ``vectorization_mode="sync"`` and ``"async"``. Without it, ``make_vec("CartPole-v1")`` gives a
    `CartPoleVectorEnv`, whose episodes are others.

    Brains of the same settings that learn control step in one call. Their buffers then become rows of shared memory:
    ask a brain anew for its `key` or `prediction`, and keep it by its `save`, since `torch.save` of a `state_dict()`
    stores the rows of all.

    Attributes:
        agents: One for each environment.
        envs: The vector.
    """

    @takes(envs=_ENVS, reward_scale=Real(0))
    def __init__(
        self,
        brains: Sequence[FieldBrain],
        envs: gymnasium.vector.VectorEnv[Any, Any, Any],
        *,
        reward_scale: float = 1.0,
    ) -> None:
        """Checks that the brains fit; `brains_for` makes some that do.

        Args:
            brains: As many as there are environments, no two the same one.
            envs: Box or Discrete observations and actions.
            reward_scale: As for `FieldAgent`.

        Raises:
            TypeError, ValueError: As for `FieldAgent`, or there are fewer or more brains than environments.
        """
        op = type(self).__name__
        brains = [_BRAIN(op, "brains", brain) for brain in listed(op, "brains", brains, "one each")]
        if len({id(brain) for brain in brains}) != envs.num_envs or len(brains) != envs.num_envs:
            raise ValueError(f"{op}: brains must be {envs.num_envs} different ones, got {len(brains)}")
        self.envs = envs
        self._together: Together | None = None
        self.agents = tuple(_Member(brain, envs, reward_scale) for brain in brains)

    def _summary(self) -> dict[str, Any]:
        return {"agents": len(self.agents), "envs": self.envs, "brain": self.agents[0].brain}

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the rows, which a copy makes anew of its own brains."""
        return {**self.__dict__, "_together": None}

    def begin(self, seed: int | None = None) -> None:
        """`FieldAgent.begin` of every agent; seeds count up from the given one, like those of the environments.

        Raises:
            TypeError, ValueError: A seed is not an int or out of range; the brains are unchanged.
        """
        for agent, own in zip(self.agents, _seeds("begin", seed, len(self.agents)), strict=True):
            agent.begin(own)

    def act(
        self,
        observations: Any,
        rewards: Any = None,
        starts: Any = None,
        finals: Any = None,
        terminated: Any = None,
        truncated: Any = None,
    ) -> Any:
        """A cycle of every brain; where `finals` are given and an episode starts, one more, which ends the one before.

        When episodes start, and with which observations the ones before end, depends on the vector's
        ``metadata["autoreset_mode"]``:

        - `NEXT_STEP`, gymnasium's default: in the step after one that was terminated or truncated. No finals: the last
          observation and reward are those of the step before.
        - `SAME_STEP`: in the step that was terminated or truncated; its ``infos.get("final_obs")`` are the finals.
        - `DISABLED`: in that step too. Its observations are the finals; where any episode starts,
          ``envs.reset(options={"reset_mask": starts})`` gives those that the brains act on.

        Args:
            observations: Of the vector's space.
            rewards: For the last actions, one each; None means 0.
            starts: Where true, the observation is the first of an episode: the brain is reset before, and the reward is
                for the episode before.
            finals: One each, read where an episode starts: the last observation of the one before, for which the brain
                has a cycle with the reward before it is reset. None: brains are not told of these rewards.
            terminated: One each, of the step that gave the rewards. None: no episode ended by itself.
            truncated: The same. None: none was cut off.

        Returns:
            Actions of the vector's space.

        Raises:
            TypeError, ValueError: As for `FieldAgent.act`, or their number is not that of the agents. No brain is
                changed.
        """
        count = len(self.agents)
        each = {
            "observations": observations,
            "rewards": [0.0] * count if rewards is None else rewards,
            "starts": [False] * count if starts is None else starts,
            "finals": [None] * count if finals is None else finals,
            "terminated": [False] * count if terminated is None else terminated,
            "truncated": [False] * count if truncated is None else truncated,
        }
        lists = {name: listed("act", name, _numbers(values), "one each") for name, values in each.items()}
        for name, values in lists.items():
            if len(values) != count:
                raise ValueError(f"act: {name} must be {count}, got {len(values)}")
        # All are checked before the first brain goes on.
        told = [agent._told(reward) for agent, reward in zip(self.agents, lists["rewards"], strict=True)]
        flags = ([_flag(name, flag) for flag in lists[name]] for name in ("terminated", "truncated"))
        ended = [_code(*pair) for pair in zip(*flags, strict=True)]
        begun = [bool(start) for start in lists["starts"]]
        shown = observations if isinstance(observations, np.ndarray) else lists["observations"]
        sensory = self.agents[0]._sensors.each(shown, [True] * count)
        if any(begun):
            if finals is not None:
                last = self.agents[0]._sensors.each(lists["finals"], begun)
                codes = [code if start else -1.0 for code, start in zip(ended, begun, strict=True)]
                self._cycle(Asked(last, told, codes))
            for i, agent in enumerate(self.agents):
                if begun[i]:
                    agent.begin()
                    told[i] = ended[i] = 0.0
        return self._stacked(self._cycle(Asked(sensory, told, ended)))

    def _cycle(self, asked: Asked) -> list[Any]:
        """A cycle of the brains that do not rest, in one call where they can be: an action of each."""
        motors, states, self._together = cycles([agent.brain for agent in self.agents], asked, self._together)
        for agent, state in zip(self.agents, states, strict=True):
            if state is not None:
                agent.state = state
        return self.agents[0]._motors.each(motors)

    @takes(**_RECORDED)
    def run_episodes(
        self, seed: int | None = None, *, frames_every: int = 0, max_steps: int | None = None
    ) -> tuple[Episode, ...]:
        """One episode of every environment, with seeds that count up, in every ``autoreset_mode``.

        Each is bit for bit that of `FieldAgent.run_episode`, if the vector's environments are single ones, as the class
        says.

        Raises:
            TypeError, ValueError: The seed is not an int, or the vector's metadata has no `AutoresetMode`.
        """
        return tuple(record.episode() for record in self._run(seed, frames_every, max_steps))

    def _run(self, seed: int | None, frames_every: int, max_steps: int | None) -> list[_Recorder]:
        modes = gymnasium.vector.AutoresetMode
        mode = self.envs.metadata.get("autoreset_mode")
        if not isinstance(mode, modes):
            raise ValueError(f"run_episodes: envs must have an autoreset_mode of gymnasium's, got {mode}")
        seeds = _seeds("run_episodes", seed, len(self.agents))
        records = [_Recorder(own, frames_every, max_steps) for own in seeds]
        observations, _ = self.envs.reset(seed=seed)
        self.begin(seed)
        rewards: Any = [0.0] * len(self.agents)
        running = [True] * len(self.agents)
        ended = np.zeros(len(self.agents), bool)
        actions = self.agents[0]._motors.each([[0.0] * self.agents[0].brain.motor_dim] * len(self.agents))
        while True:
            told, codes = [0.0] * len(records), [-1.0] * len(records)
            for i, record in enumerate(records):
                if running[i]:
                    told[i] = self.agents[i]._told(rewards[i])
                    codes[i] = _code(record.terminated, record.truncated)
            taken = self._cycle(Asked(self.agents[0]._sensors.each(observations, running), told, codes))
            for i, (agent, record) in enumerate(zip(self.agents, records, strict=True)):
                if running[i]:
                    actions[i] = taken[i]
                    record.cycle(agent.brain, agent._state)
                    running[i] = not record.ended
            if not any(running):
                return records
            if mode is modes.DISABLED and ended.any():
                # It takes no step of environments that have ended, and the others have to go on.
                self.envs.reset(options={"reset_mask": ended})
            observations, rewards, terminated, truncated, infos = self.envs.step(self._stacked(actions))
            rewards, ended = _numbers(rewards), np.logical_or(terminated, truncated)
            if mode is modes.SAME_STEP and ended.any():
                observations = [infos["final_obs"][i] if end else observations[i] for i, end in enumerate(ended)]
            for i, record in enumerate(records):
                if running[i]:
                    record.step(actions[i], rewards[i], terminated[i], truncated[i])

    def _stacked(self, actions: list[Any]) -> Any:
        return np.array(actions, self.envs.action_space.dtype)


class FieldObservation(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """An environment seen through a field: a reservoir for other learners.

    The observation is ``[motor_dim + 6 + channels]`` float32 in [-1, 1]: the brain's motors, its metrics in the order
    of `METRICS` (``x / (1 + x)`` of those without an upper bound) and tanh of each channel's mean over the places.
    Actions and rewards are the environment's; the brain gets no reward, learns nothing and stores no patterns, so a
    seed and actions determine the observations.

    In a forked process, such as those of gymnasium's asynchronous vectors on systems that fork by default, it sets
    torch to one thread: torch's threads do not survive a fork, and work for them would wait forever.

    Attributes:
        brain: The `FieldBrain`.
    """

    @takes(env=_ENV, brain=_BRAIN.or_none())
    def __init__(
        self, env: gymnasium.Env[Any, Any], brain: FieldBrain | None = None, **settings: Unpack[BrainArguments]
    ) -> None:
        """Wraps an environment.

        Args:
            env: Box or Discrete observations; any actions.
            brain: With as many sensory values as the observations need. None makes one with a motor for each.
            **settings: Arguments of `FieldBrain`, if no brain is given; ``env.spec`` then makes the same environment
                anew.

        Raises:
            TypeError: A space that is neither Box nor Discrete, or settings together with a brain.
            ValueError: The brain has another number of sensory values, or a setting is out of its range.
        """
        op = type(self).__name__
        _heed_forks()
        if brain is None:
            # For the specification, too.
            settings["seed"] = given_or_drawn_seed(op, settings.get("seed"))
        gymnasium.utils.RecordConstructorArgs.__init__(self, brain=brain, **settings)
        super().__init__(env)
        self._sensors = Sensors(op, env.observation_space)
        size = self._sensors.size
        if brain is None:
            motors = integer(op, "motor_dim", settings.get("motor_dim", size), 1)
            # Its channels are features; those of a learner that gets no reward stay 0.
            small: BrainArguments = {"learner": "imprint", "spatial": 8, "channels": size + motors}
            sizes: BrainArguments = {"sensory_dim": size, "motor_dim": motors}
            brain = created(op, **(sizes | small | settings))
        elif settings:
            raise TypeError(f"{op}: settings must be the brain's own where one is given, got {', '.join(settings)}")
        if brain.sensory_dim != size:
            raise ValueError(f"{op}: brain must have sensory_dim = {size}, got {brain.sensory_dim}")
        self.brain = brain
        length = brain.motor_dim + len(METRICS) + brain.channels
        self.observation_space = spaces.Box(-1.0, 1.0, (length,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment and the brain; the seed also seeds the noise."""
        _heed_forks()
        observation, info = self.env.reset(seed=seed, options=options)
        _begin(self.brain, seed)
        return self._features(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """A step of the environment and a cycle of the brain."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._features(observation), reward, terminated, truncated, info

    def _features(self, observation: Any) -> Any:
        brain, learns = self.brain, self.brain.training
        # What was learned about rewards would fade without them.
        brain.training = learns and not isinstance(brain, ControlBrain)
        try:
            motor, state = brain.process_robot_cycle(self._sensors(observation))
        finally:
            brain.training = learns
        measured = [state[name] / (1 + state[name]) if name in _UNBOUNDED else state[name] for name in METRICS]
        means = self.brain.field.float().mean((0, 1, 2)).tanh().tolist()
        # Rounding must not leave the bounds.
        return np.asarray([*motor, *measured, *means], np.float32).clip(-1.0, 1.0)


class FieldMemory(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """An environment whose cues are remembered by a `DynamicField` after they are gone, for a brain or other learners.

    The observation is the environment's as sensory values of -1 to 1, as `FieldAgent` makes them, and behind them one
    value for each that is remembered, 0 where nothing is yet. Each has 21 places from -1 to 1, where a value x is a
    stimulus at x of strength ``40 |x|``. From 0.15 on it makes a peak, which stays when the value goes back to 0. From
    0.6 on it ends in one step a peak far from it, and from 0.4 on in five; a weaker one ends none. A peak within 0.6 of
    a new value moves towards it instead, and a single step can leave it between the two. The remembered value is the
    peak's centre of mass: that of a lasting 1, where the places end, is 0.8. An episode begins with a field at rest.

    The field does not learn; a brain learns what to do with what it holds, for which its trace is no substitute: that
    tells which steps led to a reward, not what was seen. Deterministic. Cost: near 300 us a step.

    Attributes:
        memory: The `DynamicField`, ``[1, 1, 21, k]`` of k remembered values.
        sensors: The numbers of the sensory values that are remembered.
    """

    @takes(env=_ENV)
    def __init__(self, env: gymnasium.Env[Any, Any], sensors: Sequence[int] | None = None) -> None:
        """Wraps an environment.

        Args:
            env: Box or Discrete observations; any actions.
            sensors: The numbers of the sensory values to remember, each once; None means all.

        Raises:
            TypeError: A space that is neither Box nor Discrete, or ``sensors`` are no ints.
            ValueError: One is none of them, or there are none or two that are the same.
        """
        op = type(self).__name__
        _heed_forks()
        super().__init__(env)
        self._sensors = Sensors(op, env.observation_space)
        count = self._sensors.size
        given = range(count) if sensors is None else listed(op, "sensors", sensors, "ints")
        self.sensors = tuple(integer(op, "a number of sensors", each, 0, count - 1) for each in given)
        if not self.sensors or len(set(self.sensors)) < len(self.sensors):
            raise ValueError(f"{op}: sensors must be different and at least one, got {list(self.sensors)}")
        gymnasium.utils.RecordConstructorArgs.__init__(self, sensors=list(self.sensors))
        shape = (1, 1, _PLACES, len(self.sensors))
        self.memory = DynamicField(shape, boundary="zeros", seed=0, device="cpu", dtype=torch.float32, **_REMEMBERS)
        self._places = torch.linspace(-1, 1, _PLACES, dtype=torch.float32, device="cpu")
        self.observation_space = spaces.Box(-1.0, 1.0, (count + len(self.sensors),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environment and the memory."""
        _heed_forks()
        observation, info = self.env.reset(seed=seed, options=options)
        self.memory.reset()
        return self._remembered(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """A step of the environment, and 5 of the memory."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._remembered(observation), reward, terminated, truncated, info

    @torch.no_grad()
    def _remembered(self, observation: Any) -> Any:
        values = self._sensors(observation)
        shown = torch.tensor([values[i] for i in self.sensors], dtype=torch.float32, device="cpu").clamp(-1, 1)
        distance = (self._places[:, None] - shown) * ((_PLACES - 1) / 2 / _WIDTH)
        stimulus = _STRENGTH * shown.abs() * (-0.5 * distance.square()).exp()
        output = self.memory.step(stimulus.view(self.memory.shape), _STEPS).view(_PLACES, -1)
        # Of less than a place there is no peak.
        held = self._places @ output / output.sum(0).clamp(min=1)
        return np.asarray([*values, *held.tolist()], np.float32).clip(-1.0, 1.0)


@takes(env=_ENV)
def brain_for(env: gymnasium.Env[Any, Any], **settings: Unpack[BrainArguments]) -> FieldBrain:
    """A brain with a sensory value for each number of an observation and a motor for each of an action.

    Args:
        env: Box or Discrete observations and actions; of a Discrete space each choice counts.
        **settings: Arguments of `FieldBrain`; by default it learns control, with 8 places per edge and 8 maps, or for
            ``learner="imprint"`` a channel for each sensory value and motor.

    Raises:
        TypeError: A space that is neither Box nor Discrete, or an unknown setting.
        ValueError: A setting is out of its range, or the bounds of actions are infinite.
    """
    return created("brain_for", **_settings_for("brain_for", env.observation_space, env.action_space, settings))


@takes(envs=_ENVS)
def brains_for(envs: gymnasium.vector.VectorEnv[Any, Any, Any], **settings: Unpack[BrainArguments]) -> list[FieldBrain]:
    """A brain for each environment of a vector, as `brain_for` makes them, seeds counting up from a given one."""
    settings = _settings_for("brains_for", envs.single_observation_space, envs.single_action_space, settings)
    seeds = _seeds("brains_for", settings.get("seed"), envs.num_envs)
    return [created("brains_for", **(settings | {"seed": seed})) for seed in seeds]


@takes(episodes=Int(1), seed=Seed(), max_steps=Int(1).or_none())
def learn(
    agent: FieldAgent | VectorFieldAgent,
    episodes: int,
    *,
    seed: int = 0,
    max_steps: int | None = None,
    progress: Progress = None,
) -> list[Any]:
    """Lets the agent's brain learn online, in every step of so many episodes, by what it is rewarded for.

    Episode i is `FieldAgent.run_episode` with the seed ``seed + i``, or `VectorFieldAgent.run_episodes` with
    ``seed + i num_envs``, for any ``autoreset_mode``; each brain of a vector learns from its environment. An episode
    that is cut off counts on the rewards that would have come.

    Args:
        agent: Its brain is in train mode while it learns.
        episodes: How many, at least 1.
        seed: Seed of the environment and of the noise.
        max_steps: After how many steps to cut off an episode.
        progress: Called with the episodes done and all of them; True shows a bar, None nothing.

    Returns:
        The return of each episode; of a vector, a list of those of its environments.

    Raises:
        TypeError: ``agent`` is neither.
        ValueError: A brain has not ``learner="actor-critic"``.
        After any error, or Ctrl-C, what was learned stays.

    Cost: near 20 us a step besides those of the environment. Deterministic.
    """
    if not isinstance(agent, FieldAgent | VectorFieldAgent):
        raise TypeError(f"learn: agent must be a FieldAgent or a VectorFieldAgent, got {type(agent).__name__}")
    tick = ticking("learn", progress)
    agents = (agent,) if isinstance(agent, FieldAgent) else agent.agents
    brains = [each.brain for each in agents]
    for brain in brains:
        if not isinstance(brain, ControlBrain):
            raise ValueError(f"learn: learner of the brain must be actor-critic, got {brain.learner}")
    _seeds("learn", seed, episodes * len(brains))
    modes = [brain.training for brain in brains]
    returns: list[Any] = []
    try:
        for brain in brains:
            brain.train()
        for i in range(episodes):
            if isinstance(agent, FieldAgent):
                returns.append(agent.run_episode(seed + i, max_steps=max_steps).total)
            else:
                records = agent._run(seed + i * len(brains), 0, max_steps)
                returns.append([sum(record.rewards) for record in records])
            tick(i + 1, episodes)
    finally:
        for brain, mode in zip(brains, modes, strict=True):
            brain.train(mode)
    return returns


@takes(agent=Instance(FieldAgent), max_steps=Int(1).or_none())
@torch.no_grad()
def train(
    agent: FieldAgent,
    *,
    generations: int = 10,
    candidates: int = 16,
    elites: int = 4,
    spread: float = 1.0,
    seed: int = 0,
    max_steps: int | None = None,
    progress: Progress = None,
) -> list[float]:
    """Searches for motor weights of the agent's brain that earn higher returns, by `search`.

    Generation i runs an episode with the seed ``seed + i`` for each of its candidates. Patterns are stored only if the
    agent's ``reward_scale`` is above 0.

    Args:
        agent: Its brain's ``motor_weights`` ``[motor_dim, 3 + channels]`` are replaced.
        generations: As for `search`.
        candidates: As for `search`.
        elites: As for `search`.
        spread: As for `search`.
        seed: Seed of the draws and the episodes.
        max_steps: After how many steps to cut off an episode.
        progress: Called with the episodes done and all of them; True shows a bar, None nothing.

    Returns:
        The mean return of the elites of each generation.

    Raises:
        TypeError, ValueError: As of `search`, or the brain has not ``learner="imprint"``.
        After these and any other error, or Ctrl-C, the weights are what they were.

    Cost: ``generations * candidates`` episodes.
    """
    if isinstance(agent.brain, ControlBrain):
        raise ValueError(f"train: learner of the brain must be imprint, got {agent.brain.learner}: see learn")
    weights = agent.brain.motor_weights
    found = weights.clone()

    def earned(candidate: Tensor, generation: int) -> float:
        weights.copy_(candidate)
        return agent.run_episode(seed + generation, max_steps=max_steps).total

    try:
        found, returns = search(
            earned,
            weights.shape,
            generations=generations,
            candidates=candidates,
            elites=elites,
            spread=spread,
            seed=seed,
            progress=progress,
        )
    finally:
        weights.copy_(found)
    return returns


@takes(env=_ENV)
def random_episode(env: gymnasium.Env[Any, Any], seed: int) -> float:
    """The return of an episode of uniformly random actions, for comparison; the seed also seeds the actions."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    total, ended = 0.0, False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        total += float(reward)
        ended = terminated or truncated
    return total


def _settings_for(
    op: str, observed: spaces.Space[Any], acted: spaces.Space[Any], settings: BrainArguments
) -> BrainArguments:
    """Of a brain whose cycle is fast on a CPU, changed as given."""
    sensory_dim, motor_dim = Sensors(op, observed).size, Motors(op, acted).size
    own: BrainArguments = {"sensory_dim": sensory_dim, "motor_dim": motor_dim, "spatial": 8}
    if settings.get("learner", "actor-critic") == "actor-critic":
        own["discrete"] = isinstance(acted, spaces.Discrete)
    else:
        own["channels"] = sensory_dim + motor_dim
    return own | settings


def _numbers(values: Any) -> Any:
    """Python's numbers of an array that holds one after another; anything else as it is."""
    is_plain = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuf"
    return values.tolist() if is_plain else values


def _code(terminated: bool, truncated: bool) -> float:
    """How an episode ended, as a brain is told."""
    return 1.0 if terminated else 2.0 if truncated else 0.0


def _flag(name: str, value: Any) -> bool:
    """A bool, also NumPy's."""
    return value if type(value) is bool else check_bool("act", name, value)


def _heed_forks() -> None:
    """One thread where torch's others were left behind."""
    if os.getpid() != _PROCESS:
        torch.set_num_threads(1)


def _seeds(op: str, seed: int | None, count: int) -> list[int | None]:
    """As many, counted up."""
    if seed is None:
        return [None] * count
    check_seed(op, seed)
    check_seed(op, seed + count - 1)
    return [seed + i for i in range(count)]


def _begin(brain: FieldBrain, seed: int | None) -> None:
    key = brain.key if seed is None else functional.random_key(seed, device="cpu")
    brain.reset()
    brain.key.copy_(key)
