"""The demo's last job: field brains that learn online to balance a pole, beside random actions."""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from dataclasses import dataclass

from torch_hrr.demos.digits import progress_bar
from torch_hrr.demos.field import CYCLES, time_cycles
from torch_hrr.demos.figure import Bar, Panel
from torch_hrr.demos.table import Outcome, Row, Timing

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
        timing: Of steps of a brain.
    """

    steps: dict[str, float]
    learned: int
    seconds: float
    timing: Timing


def check(seed: int) -> None:
    """Ends the demo where this job cannot run."""
    if seed < 0:
        raise SystemExit(f"demo: --seed must be at least 0 for control, got {seed}")


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
    timing = time_cycles(agent.brain, copy.deepcopy(agent.brain), 11).timing(
        f"{CYCLES} steps of a brain", "its operators composed in torch"
    )
    return ControlResult({name: statistics.fmean(each) for name, each in found.items()}, learned, seconds, timing)


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


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
    result = balance(options.episodes, options.seed)
    print(f"\n{BRAINS} field brains in {ENVIRONMENT}, {options.episodes} episodes each: how long the pole stays up\n")
    print(report(result))
    random, *_, after = result.steps.values()
    row = Row("field", "steps a pole is held", f"{after:.1f}", f"{random:.1f} random actions", result.timing)
    return Outcome(panel(result), [row])
