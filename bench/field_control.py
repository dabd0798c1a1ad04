"""Field brains in control: returns in three gymnasium environments beside the random policy and a read-out alone.

    python bench/field_control.py             the tables of docs/field_control.md, in some ten minutes of three cores
    python bench/field_control.py --update    writes them there
    python bench/field_control.py --learned   brains that learn online alone, --searched the other table
    python bench/field_control.py --quick     a look in less than a minute

Seeds decide every figure. Settings were chosen on brains and episodes that are not among those of the table.
"""

import argparse
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
import torch
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import row, table, update  # noqa: E402
from torch_hrr.field import gym  # noqa: E402

DOCUMENT = ROOT / "docs" / "field_control.md"
# Brains that are trained forget fast: what they hold is the last few observations.
TRAINED = {"decay": 0.5, "threshold": 0.0}
# The first seed of the brains that are trained: the first ones were used to choose settings.
TRAINED_SEED = 100
# Seeds of training; those of episodes that are reported count up from 0, as those of brains do.
TRAINING_SEED = 100_000
# Where an untrained brain learns: the last of this many episodes is reported.
LIFETIME = 3


@dataclass(frozen=True)
class Task:
    """One environment."""

    name: str  # in gymnasium
    reward_scale: float  # brings rewards to about -1 to 1
    generations: int  # of training
    candidates: int  # in each
    spread: float  # of the first one's weights
    episodes: int  # of a life that learns online


TASKS = (
    Task("Pendulum-v1", 1 / 16, 12, 16, 1.0, 300),
    Task("CartPole-v1", 1.0, 3, 12, 1.0, 200),
    Task("MountainCarContinuous-v0", 1.0, 2, 12, 3.0, 100),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seeds: int  # episodes of each row
    trainings: int  # how many brains are trained; they share the episodes
    generations: int  # the most of a training
    lives: int  # brains that learn online
    episodes: int  # the most of a life


FULL, QUICK = Size(50, 5, 100, 20, 1000), Size(2, 1, 1, 1, 30)
# The last episodes of a life that are reported, and those without exploration after it.
LAST, AFTER = 50, 20


@dataclass(frozen=True)
class Row:
    """Returns of one policy, an episode each."""

    policy: str
    returns: list[float]
    groups: list[float]  # means of those that share what was trained; the standard error is over these

    def cells(self, task: Task) -> list[str]:
        error = statistics.stdev(self.groups) / len(self.groups) ** 0.5 if len(self.groups) > 1 else math.nan
        trained = f"{len(self.groups)} trained, " if len(self.groups) < len(self.returns) else ""
        return [
            task.name, self.policy, f"{statistics.fmean(self.returns):.1f}", f"{error:.1f}",
            f"{min(self.returns):.0f} to {max(self.returns):.0f}", f"{trained}{len(self.returns)}",
        ]  # fmt: skip


def plain(policy: str, earned: Callable[[int], float], size: Size) -> Row:
    """A row of independent episodes."""
    returns = [earned(seed) for seed in range(size.seeds)]
    return Row(policy, returns, returns)


def trained(policy: str, train: Callable[[int], Callable[[int], float]], size: Size) -> Row:
    """A row of several trainings, tested in equal shares of the episodes."""
    share = size.seeds // size.trainings
    groups = []
    for i in range(size.trainings):
        earned = train(i)
        groups.append([earned(seed) for seed in range(i * share, (i + 1) * share)])
    return Row(policy, [each for group in groups for each in group], [statistics.fmean(group) for group in groups])


def linear_episode(agent: gym.FieldAgent, weights: Tensor, seed: int) -> float:
    """The return of motors ``tanh(W s)`` of the sensory values alone."""
    observation, _ = agent.env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        motor = torch.mv(weights, torch.tensor(agent.sense(observation))).tanh().tolist()
        observation, reward, terminated, truncated, _ = agent.env.step(agent.decode(motor))
        total += float(reward)
        ended = terminated or truncated
    return total


def rows(task: Task, size: Size) -> list[Row]:
    torch.set_num_threads(1)
    env = gymnasium.make(task.name)
    generations = min(task.generations, size.generations)
    settings: Any = {"generations": generations, "candidates": task.candidates, "spread": task.spread}

    def agent(seed: int, reward_scale: float = 0.0, **changed: float) -> gym.FieldAgent:
        brain = gym.brain_for(env, learner="imprint", seed=seed, prefer_gpu=False, **changed)
        return gym.FieldAgent(brain, env, reward_scale=reward_scale)

    def living(seed: int) -> float:
        own = agent(seed, task.reward_scale)
        for i in range(1, LIFETIME):
            own.run_episode(TRAINING_SEED + seed * LIFETIME + i)
        return own.run_episode(seed).total

    def brain(i: int) -> Callable[[int], float]:
        own = agent(TRAINED_SEED + i, **TRAINED)
        gym.train(own, seed=(1 + i) * TRAINING_SEED, **settings)
        return lambda seed: own.run_episode(seed).total

    def readout(i: int) -> Callable[[int], float]:
        own, first = agent(i), (1 + i) * TRAINING_SEED
        shape = own.brain.motor_dim, own.brain.sensory_dim
        weights, _ = gym.search(
            lambda weights, generation: linear_episode(own, weights, first + generation), shape, seed=first, **settings
        )
        return lambda seed: linear_episode(own, weights, seed)

    policies: tuple[tuple[str, Callable[..., Row], Callable[[int], object]], ...] = (
        ("random", plain, lambda seed: gym.random_episode(env, seed)),
        ("brain as drawn, told of no reward", plain, lambda seed: agent(seed).run_episode(seed).total),
        (f"brain as drawn, told of rewards, episode {LIFETIME} of its life", plain, living),
        ("brain, motor weights searched", trained, brain),
        ("no field: weights of the observation searched alike", trained, readout),
    )
    found = []
    for policy, kind, made in policies:
        found.append(kind(policy, made, size))
        print(row(found[-1].cells(task)), file=sys.stderr, flush=True)
    return found


def lives(task: Task, size: Size) -> list[list[str]]:
    """Cells of brains that learn online, and of some whose field keeps no trace of the steps before the last."""
    torch.set_num_threads(1)
    env, cells, episodes = gymnasium.make(task.name), [], min(task.episodes, size.episodes)
    changes: tuple[tuple[str, Any], ...] = (("learns online", {}), ("learns online, no trace", {"decay": 1.0}))
    for policy, changed in changes:
        last, greedy = [], []
        for seed in range(size.lives):
            brain = gym.brain_for(env, seed=TRAINED_SEED + seed, prefer_gpu=False, **changed)
            agent = gym.FieldAgent(brain, env)
            returns = gym.learn(agent, episodes, seed=(1 + seed) * TRAINING_SEED)
            last.append(statistics.fmean(returns[-LAST:]))
            agent.brain.eval()
            greedy.append(statistics.fmean(agent.run_episode(i).total for i in range(AFTER)))
        spread = statistics.stdev(last) if len(last) > 1 else math.nan
        cells.append([
            task.name, policy, f"{statistics.fmean(last):.1f}", f"{spread:.1f}", f"{min(last):.0f} to {max(last):.0f}",
            f"{statistics.fmean(greedy):.1f}", f"{len(last)} brains, {episodes}",
        ])  # fmt: skip
        print(row(cells[-1]), file=sys.stderr, flush=True)
    return cells


def measured(size: Size, names: Sequence[str]) -> dict[str, str]:
    """Tables as Markdown."""
    made = {}
    # Processes of their own, started anew: threads of torch do not survive a fork.
    with ProcessPoolExecutor(len(TASKS), multiprocessing.get_context("spawn")) as pool:
        if "learned" in names:
            cells = [each for found in pool.map(lives, TASKS, [size] * len(TASKS)) for each in found]
            head = f"environment | brain | mean return of the last {LAST} | standard deviation | range | after `eval()`"
            made["learned"] = table(f"{head} | episodes", cells)
        if "control" in names:
            found_rows = zip(TASKS, pool.map(rows, TASKS, [size] * len(TASKS)), strict=True)
            cells = [each.cells(task) for task, found in found_rows for each in found]
            made["control"] = table("environment | policy | mean return | standard error | range | episodes", cells)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/field_control.md")
    parser.add_argument("--quick", action="store_true", help="a look in less than a minute, of two episodes a row")
    parser.add_argument("--learned", action="store_true", help="brains that learn online alone")
    parser.add_argument("--searched", action="store_true", help="the other table alone")
    options = parser.parse_args(argv)
    if options.update and options.quick:
        parser.error("--update writes the whole table, not a quick one")
    chosen = {"learned": options.learned, "control": options.searched}
    names = [name for name in chosen if chosen[name] or not any(chosen.values())]
    made = measured(QUICK if options.quick else FULL, names)
    if options.update:
        update(DOCUMENT, made)
    print(*made.values(), sep="\n", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
