"""Cues that a dynamic field remembers for a brain, after they are gone."""

import functools
import statistics

import pytest

gymnasium = pytest.importorskip("gymnasium")

import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from torch_hrr.field import gym  # noqa: E402


class Delayed(gymnasium.Env):
    """Shows -1 or 1 in the first step, 0 in the next six and how far they are; pays the last action that is the cue."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cue, self.steps = 2 * int(self.np_random.integers(2)) - 1, 0
        return np.array([self.cue, -1], np.float32), {}

    def step(self, action):
        self.steps += 1
        ended = self.steps == 7
        observation = np.array([0, min(self.steps / 3 - 1, 1)], np.float32)
        return observation, float(ended and 2 * action - 1 == self.cue), ended, False, {}


class Shown(gymnasium.Env):
    """Shows what it is made of."""

    observation_space = spaces.Box(-2, 2, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, *values):
        self.values = values

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.array([0, 0], np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.array(self.values[self.steps - 1], np.float32), 0.0, self.steps == len(self.values), False, {}


def remembered(env):
    seen = [env.reset(seed=0)[0]]
    while True:
        observation, _, ended, *_ = env.step(0)
        seen.append(observation)
        if ended:
            return np.array(seen)


@pytest.mark.parametrize("remembers", (False, True))
def test_a_brain_answers_a_cue_that_is_gone(remembers):
    """By chance half of the answers are right, and without a memory there is nothing better."""
    env = gym.FieldMemory(Delayed(), [0]) if remembers else Delayed()
    agent = gym.FieldAgent(gym.brain_for(env, seed=0, prefer_gpu=False), env)
    gym.learn(agent, 120, seed=1)
    agent.brain.eval()
    right = statistics.fmean(agent.run_episode(1000 + i).total for i in range(40))
    assert right == 1 if remembers else right < 0.8


def test_a_strong_value_stays_until_another_comes():
    nothing = (0.0, 0.0)
    values = [(2.0, 0.0), *[(0.0, 0.2)] * 60, (-1.2, -2.0), nothing, (0.2, 0.0), *[nothing] * 30, (0.0, 1.0), nothing]
    env = gym.FieldMemory(Shown(*values))
    seen = remembered(env)
    np.testing.assert_array_equal(seen[1:, :2], np.array(values, np.float32) / 2)
    assert env.observation_space.shape == (4,) and abs(seen[0, 2:]).max() < 1e-6
    first, second = seen[1:, 2], seen[1:, 3]
    assert abs(first[:61] - 0.85).max() < 0.05 and abs(first[61:] + 0.6).max() < 0.05
    assert abs(second[:61]).max() < 0.01 and abs(second[62:94] + 0.85).max() < 0.05 and abs(second[-1] - 0.5) < 0.1
    np.testing.assert_array_equal(remembered(env), seen)
    one = remembered(gym.FieldMemory(Shown(*values), [1]))
    np.testing.assert_array_equal(one[:, :2], seen[:, :2])
    np.testing.assert_allclose(one[:, 2], seen[:, 3], atol=1e-6)


# What check_env warns of is gymnasium's own: a wrapper, and the bounds of Pendulum's actions.
@pytest.mark.filterwarnings("ignore:.*(is different from the unwrapped version|symmetric and normalized):UserWarning")
@pytest.mark.parametrize("name", ("Pendulum-v1", "CartPole-v1", "CliffWalking-v1"))
def test_env_checker_passes_and_the_specification_makes_it_anew(name):
    env = gym.FieldMemory(gymnasium.make(name), np.array([2, 0]))
    check_env(env, skip_render_check=True)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert env.sensors == (2, 0)
    env.action_space.seed(0)
    for i in range(5):
        action = env.action_space.sample()
        pair = [each.step(action) if i else each.reset(seed=3) for each in (env, again)]
        np.testing.assert_array_equal(pair[0][0], pair[1][0])


def test_memories_in_a_vector_are_each_alone():
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(gym.FieldMemory, Delayed(), [0]) for _ in range(2)])
    brains = gym.brains_for(envs, seed=0, prefer_gpu=False)
    returns = gym.learn(gym.VectorFieldAgent(brains, envs), 3, seed=5)
    for i, brain in enumerate(brains):
        env = gym.FieldMemory(Delayed(), [0])
        agent = gym.FieldAgent(gym.brain_for(env, seed=i, prefer_gpu=False), env)
        assert [agent.run_episode(5 + 2 * episode + i).total for episode in range(3)] == [each[i] for each in returns]
        assert brain.weights.equal(agent.brain.weights)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((Delayed(), [2]), ValueError, "a number of sensors must be at least 0 and at most 1, got 2"),
        ((Delayed(), [-1]), ValueError, "a number of sensors must be at least 0"),
        ((Delayed(), []), ValueError, "sensors must be different and at least one"),
        ((Delayed(), [1, 1]), ValueError, "sensors must be different and at least one"),
        ((Delayed(), [0.5]), TypeError, "a number of sensors must be an int, got float"),
        ((Delayed(), 1), TypeError, "sensors must be ints"),
        ((3,), TypeError, "env must be"),
    ],
    ids=range(7),
)
def test_what_cannot_be_remembered(arguments, error, text):
    with pytest.raises(error, match=f"^FieldMemory: {text}"):
        gym.FieldMemory(*arguments)
