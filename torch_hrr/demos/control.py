"""The demo's last job: field brains that learn online to balance a pole, beside random actions."""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from dataclasses import dataclass

from torch_hrr.demos.digits import progress_bar
from torch_hrr.demos.figure import Bar, Panel

ENVIRONMENT = "CartPole-v1"
BRAINS, EPISODES = 3, 100
# Of a life, at its beginning and its end, and without exploration after it.
SHOWN = 10


@dataclass(frozen=True)
class ControlResult:
    """What the job measured.

    Attributes:
        steps: For how many steps the pole stayed up in an episode, at most 500, by who acted and when.
        learned: In how many steps the brains learned.
        seconds: For how long, with the environments.
    """

    steps: dict[str, float]
    learned: int
    seconds: float


def check(seed: int) -> None:
    """Ends the demo where this job cannot run: before the first job, whose results would be lost."""
    if seed < 0:
        raise SystemExit(f"demo: --seed must be at least 0 for control, got {seed}")
    try:
        importlib.import_module("gymnasium")
    except ImportError:
        raise SystemExit("demo: gymnasium must be installed: pip install gymnasium") from None


def balance(episodes: int, seed: int) -> ControlResult:
    """Brains that learn in so many episodes each, with seeds that count up."""
    import gymnasium

    from torch_hrr.field import gym

    env = gymnasium.make(ENVIRONMENT)
    shown = min(SHOWN, episodes)
    first, last = f"episodes 1 to {shown}", f"episodes {episodes - shown + 1} to {episodes}"
    after = "then, without exploration"
    found: dict[str, list[float]] = {"random actions": [], first: [], last: [], after: []}
    learned, seconds = 0, 0.0
    bar = progress_bar(BRAINS * episodes, "balancing")
    for number in range(BRAINS):
        agent = gym.FieldAgent(gym.brain_for(env, seed=seed + number, prefer_gpu=False), env)
        begin = time.perf_counter()
        returns = gym.learn(agent, episodes, seed=(1 + number) * 10_000 + seed, progress=lambda *_: bar.update(1))
        seconds += time.perf_counter() - begin
        learned += round(sum(returns))
        agent.brain.eval()
        found[first] += returns[:shown]
        found[last] += returns[-shown:]
        found[after] += [agent.run_episode(seed + i).total for i in range(shown)]
        found["random actions"] += [gym.random_episode(env, seed + number * shown + i) for i in range(shown)]
    bar.close()
    env.close()
    return ControlResult({name: statistics.fmean(each) for name, each in found.items()}, learned, seconds)


def report(result: ControlResult) -> str:
    """The result as a table."""
    rows = [f"{name:<27}{steps:>8.1f} steps" for name, steps in result.steps.items()]
    rows.append(
        f"{result.learned} steps of learning in {result.seconds:.1f} s, "
        f"{1e6 * result.seconds / result.learned:.0f} us each with the environment"
    )
    return "\n".join(rows)


def panel(result: ControlResult) -> Panel:
    """The steps, for the picture."""
    bars = [Bar(name, steps, ours=name != "random actions") for name, steps in result.steps.items()]
    return Panel("Field brains learn to balance a pole: steps of 500, more is better", 500.0, 0, bars)


def run(options: argparse.Namespace) -> Panel:
    """Runs the job, prints its results, and gives those for the picture."""
    result = balance(options.episodes, options.seed)
    print(f"\n{BRAINS} field brains in {ENVIRONMENT}, {options.episodes} episodes each: how long the pole stays up\n")
    print(report(result))
    return panel(result)
