"""Field brains in control: returns in gymnasium's environments beside other learners, and of brains without learning.

    python bench/field_control.py             the tables of docs/field_control.md, in some forty minutes of two cores
    python bench/field_control.py --update    writes them there, and the figure
    python bench/field_control.py --learned   brains that learn online beside other learners; --hidden, --limits and
                                              --searched the other tables; several at once, too
    python bench/field_control.py --quick     a look in less than a minute

Seeds decide every figure. Settings were chosen on brains and episodes that are not among those of the tables.
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

from bench import field_learning  # noqa: E402
from bench.field_peers import episode  # noqa: E402
from bench.markdown import row, table, update  # noqa: E402
from torch_hrr.field import gym  # noqa: E402
from torch_hrr.field._spaces import Motors, Sensors  # noqa: E402

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


TASKS = (
    Task("Pendulum-v1", 1 / 16, 12, 16, 1.0),
    Task("CartPole-v1", 1.0, 3, 12, 1.0),
    Task("MountainCarContinuous-v0", 1.0, 2, 12, 3.0),
)


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seeds: int  # episodes of each row
    trainings: int  # how many brains are trained; they share the episodes
    generations: int  # the most of a training
    lives: int  # brains that learn online
    episodes: int  # the most of a life


FULL, QUICK = Size(50, 5, 100, 20, 1000), Size(2, 1, 1, 1, 20)


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
        first = (1 + i) * TRAINING_SEED
        sensors, motors = Sensors("readout", env.observation_space), Motors("readout", env.action_space)

        def earned(weights: Tensor, seed: int) -> float:
            return episode(
                env, lambda values, *_: torch.mv(weights, torch.tensor(values)).tanh(), sensors, motors, seed
            )

        weights, _ = gym.search(
            lambda weights, generation: earned(weights, first + generation),
            (motors.size, sensors.size),
            seed=first,
            **settings,
        )
        return lambda seed: earned(weights, seed)

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


def measured(size: Size, names: Sequence[str], figure: Path | None) -> dict[str, str]:
    """Tables as Markdown, and the figure of what is learned."""
    made = {}
    learned = [name for name in names if name != "control"]
    if learned:
        made |= field_learning.measured(size.lives, size.episodes, learned, figure)
    if "control" in names:
        # Processes of their own, started anew: threads of torch do not survive a fork.
        with ProcessPoolExecutor(len(TASKS), multiprocessing.get_context("spawn")) as pool:
            found_rows = zip(TASKS, pool.map(rows, TASKS, [size] * len(TASKS)), strict=True)
            cells = [each.cells(task) for task, found in found_rows for each in found]
            made["control"] = table("environment | policy | mean return | standard error | range | episodes", cells)
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write tables and figure of docs/field_control.md")
    parser.add_argument("--quick", action="store_true", help="a look in less than a minute, of two episodes a row")
    parser.add_argument("--learned", action="store_true", help="learning online, beside other learners, and the figure")
    parser.add_argument("--hidden", action="store_true", help="learning online where velocities are hidden")
    parser.add_argument("--limits", action="store_true", help="what breaks it")
    parser.add_argument("--searched", action="store_true", help="brains that do not learn control")
    options = parser.parse_args(argv)
    if options.update and options.quick:
        parser.error("--update writes the whole table, not a quick one")
    chosen = {
        "learned": options.learned,
        "hidden": options.hidden,
        "limits": options.limits,
        "control": options.searched,
    }
    names = [name for name in chosen if chosen[name] or not any(chosen.values())]
    figure = DOCUMENT.with_suffix(".svg") if options.update else None
    made = measured(QUICK if options.quick else FULL, names, figure)
    if options.update:
        update(DOCUMENT, made)
    print(*made.values(), sep="\n", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
