"""Field brains that learn online, beside other learners: tables and a figure of docs/field_control.md."""

import functools
import math
import multiprocessing
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from bench import field_peers as peers
from bench.field_peers import Environment, Life
from bench.markdown import row, table
from torch_hrr.field import gym

# The first seed of brains: the first ones were used to choose settings. Seeds of learning are above those of reports.
BRAIN_SEED, TRAINING_SEED = 100, 100_000
# The last episodes of a life that are reported, and those without exploration after it.
LAST, AFTER = 50, 20
# Episodes of which a curve is the mean.
SMOOTHED = 10


def brain_life(env: Environment, seed: int, episodes: int, first: int, after: int, **settings: Any) -> Life:
    """A life of a field brain; as `peers.tile_life`."""
    agent = gym.FieldAgent(gym.brain_for(env, seed=BRAIN_SEED + seed, prefer_gpu=False, **settings), env)
    returns = gym.learn(agent, episodes, seed=first)
    agent.brain.eval()
    return returns, [agent.run_episode(i).total for i in range(after)]


class Shown(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Shows only some of the numbers, or bounds that are so many times as wide."""

    def __init__(self, env: Environment, kept: slice = slice(None), factor: float = 1.0) -> None:
        super().__init__(env)
        space, self.kept = env.observation_space, kept
        assert isinstance(space, gymnasium.spaces.Box)
        self.observation_space = gymnasium.spaces.Box(factor * space.low[kept], factor * space.high[kept])

    def observation(self, observation: Any) -> Any:
        return observation[self.kept]


class Noisy(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Adds numbers of -1 to 1 that tell nothing."""

    def __init__(self, env: Environment, count: int) -> None:
        super().__init__(env)
        space, self.count = env.observation_space, count
        assert isinstance(space, gymnasium.spaces.Box)
        bounds = ([*space.low, *[-1] * count], [*space.high, *[1] * count])
        low, high = (np.asarray(bound, np.float32) for bound in bounds)
        self.observation_space = gymnasium.spaces.Box(low, high)
        self.generator = np.random.default_rng(0)

    def observation(self, observation: Any) -> Any:
        return np.concatenate((observation, self.generator.uniform(-1, 1, self.count).astype(np.float32)))


class Turned(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Tells the numbers by more of them: each a mixture of all, within -1 and 1."""

    def __init__(self, env: Environment, count: int) -> None:
        super().__init__(env)
        space = env.observation_space
        assert isinstance(space, gymnasium.spaces.Box)
        mixed = np.linalg.qr(np.random.default_rng(0).standard_normal((count, len(space.high))))[0]
        # The largest sum is 1.
        self.mixed = mixed / abs(mixed).sum(1, keepdims=True) / space.high
        self.observation_space = gymnasium.spaces.Box(-1, 1, (count,))

    def observation(self, observation: Any) -> Any:
        return (self.mixed @ observation).astype(np.float32)


class Several(gymnasium.Env[Any, Any]):
    """Several environments that one learner sees and moves at once; the reward is their mean."""

    def __init__(self, env: Environment, count: int) -> None:
        self.envs = [gymnasium.make(env.spec or "") for _ in range(count)]
        spaces = env.observation_space, env.action_space
        self.observation_space, self.action_space = (
            gymnasium.spaces.Box(np.tile(space.low, count), np.tile(space.high, count)) for space in spaces
        )

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        seeds = [None if seed is None else seed + 1_000_000 * i for i in range(len(self.envs))]
        found = [env.reset(seed=own)[0] for env, own in zip(self.envs, seeds, strict=True)]
        return np.concatenate(found), {}

    def step(self, action: Any) -> Any:
        parts = np.split(action, len(self.envs))
        observations, rewards, terminated, truncated, _ = zip(
            *(env.step(part) for env, part in zip(self.envs, parts, strict=True)), strict=True
        )
        return np.concatenate(observations), statistics.fmean(rewards), any(terminated), any(truncated), {}


class Ending(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells that it ended by itself when it was cut off."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated or truncated, False, info


class Free(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays only where it ends by itself, and acting costs nothing."""

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = self.env.step(action)
        return observation, 100.0 if terminated else 0.0, terminated, truncated, info


EPISODES = {"Pendulum-v1": 300, "CartPole-v1": 200, "MountainCarContinuous-v0": 100, "Acrobot-v1": 300}
LEARNERS: dict[str, Callable[..., Life]] = {
    "random actions": peers.random_life,
    "weights of the observation, searched": peers.searched_life,
    "linear read-out": peers.linear_life,
    "tile code": peers.tile_life,
    "field brain": brain_life,
    "field brain, no trace": functools.partial(brain_life, decay=1.0),
}
SENSING = functools.partial(brain_life, velocities=True)
# Cosine and sine of the pendulum's angle; where cart and pole are.
HIDDEN = {"Pendulum-v1": slice(2), "CartPole-v1": slice(None, None, 2)}
Wrapped = Callable[[Environment], Environment]
LIMITS: tuple[tuple[str, str, Wrapped], ...] = (
    ("Pendulum-v1", "as it is", lambda env: env),
    *(
        ("Pendulum-v1", f"{count} more sensor{'s' * (count > 1)} of noise", functools.partial(Noisy, count=count))
        for count in (1, 2, 4)
    ),
    *(
        ("Pendulum-v1", f"its numbers mixed, {count} sensors", functools.partial(Turned, count=count))
        for count in (6, 12)
    ),
    *(
        ("Pendulum-v1", f"{count} pendulums at once, {3 * count} sensors", functools.partial(Several, count=count))
        for count in (2, 3)
    ),
    *(
        ("Pendulum-v1", f"bounds {factor} times as wide as values", functools.partial(Shown, factor=factor))
        for factor in (2, 4)
    ),
    ("Pendulum-v1", "a cut-off told as an end", Ending),
    ("MountainCarContinuous-v0", "as it is", lambda env: env),
    ("MountainCarContinuous-v0", "a lone reward, acting costs nothing", Free),
)  # fmt: skip


@dataclass(frozen=True)
class Job:
    """Lives of one learner in one environment: a row of a table."""

    table: str
    environment: str
    label: str
    index: int  # of the learner or the limit
    lives: int
    episodes: int

    def made(self) -> tuple[Environment, Callable[..., Life]]:
        """The environment and the learner; looked up here, since processes are sent no closures."""
        env = gymnasium.make(self.environment)
        if self.table == "limits":
            return LIMITS[self.index][2](env), brain_life
        if self.table == "hidden":
            return Shown(env, HIDDEN[self.environment]), (brain_life, SENSING)[self.index]
        return env, list(LEARNERS.values())[self.index]


def jobs(names: Sequence[str], lives: int, most: int) -> list[Job]:
    """Those of the tables of these names, with so many lives of at most so many episodes."""
    rows = {
        "learned": [(name, label, i) for name in EPISODES for i, label in enumerate(LEARNERS)],
        "hidden": [
            (name, label, i)
            for name in HIDDEN
            for i, label in enumerate(("field brain", "field brain, `velocities=True`"))
        ],
        "limits": [(name, label, i) for i, (name, label, *_) in enumerate(LIMITS)],
    }
    # What breaks it shows in half as many.
    counts = {"limits": -(-lives // 2)}
    return [
        Job(name, environment, label, index, counts.get(name, lives), min(EPISODES[environment], most))
        for name in names
        for environment, label, index in rows[name]
    ]


def lived(job: Job) -> list[Life]:
    """All lives of a row."""
    torch.set_num_threads(1)
    env, life = job.made()
    found = [life(env, seed, job.episodes, (1 + seed) * TRAINING_SEED, AFTER) for seed in range(job.lives)]
    print(row(cells(job, found)), file=sys.stderr, flush=True)
    return found


def cells(job: Job, found: Sequence[Life]) -> list[str]:
    last = [statistics.fmean(returns[-LAST:]) for returns, _ in found]
    after = [statistics.fmean(more) for _, more in found if more]
    spread = statistics.stdev(last) if len(last) > 1 else math.nan
    return [
        job.environment, job.label, f"{statistics.fmean(last):.1f}", f"{spread:.1f}",
        f"{min(last):.0f} to {max(last):.0f}", f"{statistics.fmean(after):.1f}" if after else "", f"{job.episodes}",
    ]  # fmt: skip


def measured(lives: int, most: int, names: Sequence[str], figure: Path | None) -> dict[str, str]:
    """Tables as Markdown, and the figure of the first, if it is among them."""
    todo = jobs(names, lives, most)
    # Processes of their own, started anew: threads of torch do not survive a fork.
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        found = list(zip(todo, pool.map(lived, todo), strict=True))
    head = f"environment | learner | mean return of the last {LAST} | standard deviation | range | after it | episodes"
    heads = {name: head.replace("learner", "change" if name == "limits" else "learner") for name in names}
    if figure is not None and "learned" in names:
        draw([(job, lifes) for job, lifes in found if job.table == "learned"], figure)
    return {name: table(heads[name], [cells(*each) for each in found if each[0].table == name]) for name in names}


def draw(found: Sequence[tuple[Job, Sequence[Life]]], path: Path) -> None:
    """Returns over episodes, a panel for every environment: means over lives, with bands of a standard deviation."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(job.environment for job, _ in found))
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, -(-len(names) // 2), squeeze=False).ravel()
    shown = {
        "random actions": "0.6",
        "linear read-out": "tab:green",
        "tile code": "tab:orange",
        "field brain": "tab:blue",
    }
    for axes, name in zip(panels, names, strict=False):
        axes.set_title(name, fontsize="medium")
        for job, lifes in found:
            if job.environment != name or job.label not in shown:
                continue
            kernel = np.ones(SMOOTHED) / SMOOTHED
            curves = np.stack([np.convolve(returns, kernel, "valid") for returns, _ in lifes])[:, ::2]
            episodes = SMOOTHED + 2 * np.arange(curves.shape[1])
            mean, spread = curves.mean(0).round(2), curves.std(0).round(2)
            axes.plot(episodes, mean, color=shown[job.label], linewidth=1, label=job.label)
            if job.label != "random actions":
                axes.fill_between(
                    episodes, mean - spread, mean + spread, color=shown[job.label], alpha=0.2, linewidth=0
                )
    for axes in panels[-2:]:
        axes.set_xlabel("episode")
    panels[0].legend(fontsize="small")
    figure.supylabel(f"return, mean of {SMOOTHED} episodes and of {len(found[0][1])} lives", fontsize="medium")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Text as text, and nothing that differs from run to run.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "learning"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
