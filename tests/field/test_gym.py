"""Field brains in gymnasium: spaces, seeds, vectors, the wrapper under env_checker, training, and errors."""

import copy
import functools
import importlib
import math
import multiprocessing
import os
import pickle
import statistics
import subprocess
import sys

import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")

import guide  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium import spaces  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402

from torch_hrr import field  # noqa: E402
from torch_hrr.field import gym  # noqa: E402

PAGE = guide.DOCS / "field_control.md"

SMALL = {"spatial": 4, "prefer_gpu": False, "seed": 0, "learner": "imprint"}
INF = float("inf")


class Spaces(gymnasium.Env):
    """Draws observations of a space, whatever is done; ends after four steps."""

    def __init__(self, observed, acted):
        self.observation_space, self.action_space = observed, acted

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert action in self.action_space
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 4, False, {}


def box(*bounds, dtype=np.float32, shape=None):
    low, high = (np.asarray(bound, dtype) for bound in zip(*bounds, strict=True))
    return spaces.Box(low.reshape(shape or low.shape), high.reshape(shape or high.shape), dtype=dtype)


def agent_of(env, seed=0, reward_scale=1.0, **settings):
    return gym.FieldAgent(gym.brain_for(env, **(SMALL | {"seed": seed} | settings)), env, reward_scale=reward_scale)


def same(first, second):
    """Whether two episodes are bit for bit the same; how long a cycle took and how many came before are not."""
    clocks = {"cycle", "cycle_time_ms"}
    states = [[{k: v for k, v in s.items() if k not in clocks} for s in e.states] for e in (first, second)]
    return (
        first.rewards == second.rewards
        and first.terminated == second.terminated
        and all(np.array_equal(a, b) for a, b in zip(first.actions, second.actions, strict=True))
        and all(torch.equal(a, b) for a, b in zip(first.frames, second.frames, strict=True))
        and states[0] == states[1]
    )


def sensed(agent, observation):
    """The sensory values of the cycle for an observation."""
    agent.act(observation)
    return agent.brain.last_sensory.tolist()


def test_box_observations_are_scaled_by_their_bounds():
    space = box((-2, 2), (0, 10), (-INF, INF), (0, INF), (3, 3), (-3.4e38, 3.4e38), shape=(2, 3))
    agent = agent_of(Spaces(space, spaces.Discrete(2)))
    assert sensed(agent, space.low.clip(-1e4, 1e4)) == [-1, -1, -1, 0, 0, -1]
    observation = np.array([1, 5, 0.5, 2, 3, -0.5], np.float32).reshape(2, 3)
    expected = [0.5, 0, np.tanh(0.5), np.tanh(2), 0, np.tanh(-0.5)]
    assert sensed(agent, observation) == pytest.approx(expected, rel=1e-6)
    image = spaces.Box(0, 255, (2, 2), np.uint8)
    assert sensed(agent_of(Spaces(image, spaces.Discrete(2))), np.array([[0, 255], [51, 204]], np.uint8)) == (
        pytest.approx([-1, 1, -0.6, 0.6])
    )


def test_discrete_observations_are_one_hot():
    agent = agent_of(Spaces(spaces.Discrete(3, start=-1), spaces.Discrete(2)))
    for chosen in range(3):
        assert sensed(agent, np.int64(chosen - 1)) == [float(i == chosen) for i in range(3)]
    with pytest.raises(ValueError, match="act: observation must be in Discrete"):
        agent.act(2)
    for wrong in (0.5, math.nan, "0", None, True, [0]):
        with pytest.raises(TypeError, match="act: observation must be an int"):
            agent.act(wrong)


def test_ints_without_bounds_are_unbounded():
    """Their spaces have the ends of the dtype as bounds, so that everything was 0 by them."""
    space = spaces.Box(-INF, INF, (2,), np.int64)
    assert sensed(agent_of(Spaces(space, CHOICE)), np.array([1, -2])) == pytest.approx(np.tanh([1, -2]).tolist())
    with pytest.raises(ValueError, match="action space must have finite bounds"):
        gym.brain_for(Spaces(CHOICE, space))


def motors_set(monkeypatch, agent, motor):
    monkeypatch.setattr(agent.brain, "process_robot_cycle", lambda *_: (motor, {}))


@pytest.mark.parametrize(
    ("space", "motor", "action"),
    [
        (box((-2, 2), (0, 10), (5, 5)), [0.5, -1, 0.3], [1, 0, 5]),
        (box((-2, 2), (0, 10)), [1, 1], [2, 10]),
        (box((0, 3), (-1, 1), dtype=np.int32), [0.2, -0.2], [2, 0]),
        (box((0, 1), (0, 2), shape=(2, 1)), [0, 0], [[0.5], [1]]),
        (spaces.Box(-(2**63), 2**63 - 1, (3,), np.int64), [1, 0, -1], [2**63 - 1, 0, -(2**63)]),
        (spaces.Box(0, 2**64 - 1, (2,), np.uint64), [1, -1], [2**64 - 1, 0]),
        (spaces.Box(-1, 1, (), np.float32), [0.5], 0.5),
        (spaces.Box(0, 1, (3,), np.bool_), [-0.5, 0, 0.9], [False, False, True]),
        (spaces.Discrete(3), [0.1, 0.3, 0.2], 1),
        (spaces.Discrete(3, start=5), [-0.3, -0.1, -0.1], 6),
        (spaces.Discrete(3), [0, 0, 0], 0),
    ],
    ids=range(11),
)
def test_motors_become_actions(monkeypatch, space, motor, action):
    agent = agent_of(Spaces(spaces.Discrete(2), space))
    motors_set(monkeypatch, agent, motor)
    made = agent.act(0)
    assert made in space and np.array_equal(made, action)


@pytest.mark.parametrize("dtype", (np.float32, np.float16))
def test_rounded_actions_stay_within_bounds(monkeypatch, dtype):
    space = box((-0.1, 0.3), (0.1, 0.7), dtype=dtype)
    agent = agent_of(Spaces(spaces.Discrete(2), space))
    for strength in np.linspace(-1, 1, 21):
        motors_set(monkeypatch, agent, [strength, strength])
        assert agent.act(0) in space


@pytest.mark.parametrize(("reward", "told"), ((0.5, 0.25), (9.0, 1.0), (-9.0, -1.0), (np.array([0.5]), 0.25)))
def test_rewards_are_scaled_and_bounded(reward, told):
    agent = agent_of(Spaces(spaces.Discrete(2), spaces.Discrete(2)), reward_scale=0.5)
    agent.act(0, reward)
    assert agent.brain.mean_reward.item() == pytest.approx(0.1 * told)


@pytest.mark.parametrize("name", ("Pendulum-v1", "CartPole-v1", "MountainCarContinuous-v0"))
def test_a_seed_decides_an_episode(name):
    env = gymnasium.make(name)
    first = agent_of(env).run_episode(3, frames_every=5, max_steps=12)
    again = agent_of(gymnasium.make(name)).run_episode(3, frames_every=5, max_steps=12)
    assert same(first, again) and not same(first, agent_of(env).run_episode(4, frames_every=5, max_steps=12))
    assert not same(first, agent_of(env, seed=1).run_episode(3, frames_every=5, max_steps=12))
    assert 1 <= len(first) == len(first.actions) == len(first.states) - 1 <= 12
    assert len(first.frames) == len(first.states[::5]) and first.frames[0].shape[:3] == (4, 4, 4)
    assert first.total == sum(first.rewards) and first.seed == 3 and all(a in env.action_space for a in first.actions)


def test_an_episode_depends_on_nothing_before_it_but_the_library():
    agent = agent_of(gymnasium.make("CartPole-v1"), reward_scale=0.0)
    first = agent.run_episode(5)
    agent.run_episode(6)
    assert same(first, agent.run_episode(5)) and not len(agent.brain.library)
    told = agent_of(gymnasium.make("CartPole-v1"))
    told.run_episode(5)
    assert len(told.brain.library)


def test_an_episode_shows_itself_without_its_frames():
    agent = agent_of(gymnasium.make("CartPole-v1"))
    assert repr(agent) == "FieldAgent(brain=FieldBrain, env=TimeLimit, reward_scale=1.0)"
    shown = repr(agent.run_episode(3, frames_every=1, max_steps=2))
    assert shown == "Episode(seed=3, steps=2, total=2.0, terminated=False, frames=3)"


def test_an_episode_ends_with_the_last_reward():
    env = Spaces(spaces.Discrete(2), spaces.Discrete(2))
    agent = agent_of(env)
    episode = agent.run_episode(0)
    assert episode.rewards == (1.0,) * 4 and episode.terminated and len(episode.states) == 5
    assert agent.brain.mean_reward.item() == pytest.approx(1 - 0.9**4)
    cut = agent.run_episode(0, max_steps=2)
    assert len(cut) == 2 and not cut.terminated and cut.actions == episode.actions[:2]


def test_random_episodes_are_those_of_the_usual_loop():
    """The same as by hand, and over more seeds the return that the random policy is known for."""
    env, by_hand = gymnasium.make("CartPole-v1"), []
    for seed in range(50):
        env.action_space.seed(seed)
        env.reset(seed=seed)
        done, total = False, 0.0
        while not done:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            done, total = terminated or truncated, total + reward
        by_hand.append(total)
    totals = [gym.random_episode(env, seed) for seed in range(50)]
    assert totals == by_hand and statistics.fmean(totals) == pytest.approx(26.5, abs=0.05)
    assert f"| CartPole-v1 | random | {statistics.fmean(totals):.1f} |" in PAGE.read_text()


def test_the_page_runs():
    names = guide.run_snippets(PAGE, least=4)
    assert names["episode"].total > 0 and len(names["first"]) == 4


@pytest.mark.parametrize("name", ("Pendulum-v1", "CartPole-v1"))
def test_a_vector_is_its_environments_one_by_one(name):
    envs = gymnasium.make_vec(name, num_envs=3, vectorization_mode="sync")
    brains = gym.brains_for(envs, **(SMALL | {"seed": 2}))
    settings = {"frames_every": 7, "max_steps": 30}
    together = gym.VectorFieldAgent(brains, envs).run_episodes(11, **settings)
    for i, episode in enumerate(together):
        assert same(episode, agent_of(gymnasium.make(name), seed=2 + i).run_episode(11 + i, **settings))
    envs.close()


class PaysLast(Spaces):
    """Pays in the last step alone; how many there are is drawn, or given."""

    def __init__(self, steps=None):
        super().__init__(box((-1, 1), (-1, 1)), spaces.Discrete(3))
        self.given = steps

    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed, options=options)
        self.last = self.given or int(self.np_random.integers(2, 9))
        return found

    def step(self, action):
        observation, *_ = super().step(action)
        ends = self.steps == self.last
        return observation, float(ends), ends, False, {}


MODES = list(gymnasium.vector.AutoresetMode)


def lived(mode):
    """The brains of a user's loop of three episodes, at the start of the fourth."""
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(PaysLast, 3)] * 2, autoreset_mode=mode)
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **SMALL), envs)
    (observations, _), rewards, starts, finals, ended = envs.reset(seed=0), None, None, None, np.zeros(2, bool)
    agent.begin(0)
    episodes = 0
    while True:
        actions = agent.act(observations, rewards, starts, finals)
        episodes += starts is not None and bool(starts.all())
        if episodes == 3:
            return [each.brain for each in agent.agents]
        before = ended
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        starts = ended = terminated | truncated
        if mode is gymnasium.vector.AutoresetMode.NEXT_STEP:
            starts = before
        elif mode is gymnasium.vector.AutoresetMode.SAME_STEP:
            finals = infos.get("final_obs")
        else:
            finals = observations
            if ended.any():
                observations, _ = envs.reset(options={"reset_mask": starts})


@pytest.mark.parametrize("mode", MODES)
def test_the_last_reward_is_told_whenever_environments_are_reset(mode):
    for brain, expected in zip(lived(mode), lived(gymnasium.vector.AutoresetMode.NEXT_STEP), strict=True):
        assert int(brain.library.stored) == 3 and brain.cycle == 13
        assert all(torch.equal(tensor, expected.state_dict()[name]) for name, tensor in brain.state_dict().items())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("max_steps", (None, 4))
def test_episodes_are_the_same_whenever_environments_are_reset(mode, max_steps):
    envs = gymnasium.vector.SyncVectorEnv([PaysLast] * 3, autoreset_mode=mode)
    brains = gym.brains_for(envs, **(SMALL | {"seed": 2}))
    together = gym.VectorFieldAgent(brains, envs).run_episodes(11, max_steps=max_steps)
    assert len({len(episode) for episode in together}) > 1
    for i, episode in enumerate(together):
        alone = agent_of(PaysLast(), seed=2 + i)
        assert same(episode, alone.run_episode(11 + i, max_steps=max_steps))
        assert int(brains[i].library.stored) == int(alone.brain.library.stored) == episode.terminated


def test_without_final_observations_a_start_tells_no_reward():
    envs = gymnasium.vector.SyncVectorEnv([PaysLast] * 2)
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **SMALL), envs)
    observations, _ = envs.reset(seed=0)
    agent.act(observations)
    agent.act(observations, [1.0, 1.0], [True, False])
    assert [int(each.brain.library.stored) for each in agent.agents] == [0, 1]
    anew = agent.agents[0]
    torch.testing.assert_close(anew.brain.prediction, 0.1 * torch.tensor(anew.sense(observations[0])))
    assert anew.brain.mean_reward == 0


def test_a_vector_of_other_spaces():
    """Discrete spaces that begin elsewhere, and boxes of two dimensions."""
    pairs = (spaces.Discrete(3, start=-4), spaces.Discrete(2, start=5)), (box((-1, 1), (0, 2), shape=(2, 1)),) * 2
    for pair in pairs:
        envs = gymnasium.vector.SyncVectorEnv([lambda pair=pair: Spaces(*pair)] * 2)
        episodes = gym.VectorFieldAgent(gym.brains_for(envs, **SMALL), envs).run_episodes(3)
        assert all(len(episode) == 4 and action in pair[1] for episode in episodes for action in episode.actions)
        envs.close()


def test_what_one_brain_cannot_take_leaves_all_as_they_are():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync")
    brains = gym.brains_for(envs, **SMALL)
    agent = gym.VectorFieldAgent(iter(brains), envs)
    good = np.zeros((3, 4), np.float32)
    agent.act(good)
    before = [{name: tensor.clone() for name, tensor in brain.state_dict().items()} for brain in brains]
    for arguments, error, text in (
        ((np.where(np.arange(3)[:, None] == 2, np.nan, good),), ValueError, "observation must be finite"),
        ((np.where(np.arange(3)[:, None] == 2, 1e30, good),), ValueError, r"observation must be .* 1e\+06 times"),
        ((good[:2],), ValueError, "observations must be 3, got 2"),
        ((good, [0, 0, math.nan]), ValueError, "reward must be finite, got nan"),
        ((good, [1.0]), ValueError, "rewards must be 3, got 1"),
        ((good, 1.0), TypeError, "rewards must be one each, got float"),
        ((good, None, [True]), ValueError, "starts must be 3, got 1"),
        ((good, None, [True] * 3, good[:1]), ValueError, "finals must be 3, got 1"),
        ((good, None, [True] * 3, [None, *good[:2]]), TypeError, "observation must hold numbers, got object"),
        ((good, [0, 0, math.nan], [True] * 3, good), ValueError, "reward must be finite, got nan"),
    ):
        with pytest.raises(error, match=f"^act: {text}"):
            agent.act(*arguments)
    for seed in (True, "1"):
        with pytest.raises(TypeError, match=r"^begin: seed must be"):
            agent.begin(seed)
        with pytest.raises(TypeError, match=r"^run_episodes: seed must be"):
            agent.run_episodes(seed)
    for brain, state in zip(brains, before, strict=True):
        assert all(torch.equal(tensor, state[name]) for name, tensor in brain.state_dict().items())
    envs.close()


ASYNCHRONOUS = """
import functools, sys
import gymnasium, torch
from torch_hrr.field import gym

torch.set_num_threads(2)
wrapper = functools.partial(gym.FieldObservation, spatial=16, channels=26, prefer_gpu=False, seed=0)
# Threads of torch are at work before processes are made, which they do not survive.
wrapper(gymnasium.make("CartPole-v1")).reset(seed=0)


def run(mode, **settings):
    envs = gymnasium.make_vec("CartPole-v1", 1, mode, wrappers=[wrapper], vector_kwargs=settings)
    agent = gym.VectorFieldAgent(gym.brains_for(envs, spatial=4, prefer_gpu=False, seed=2), envs)
    episodes = agent.run_episodes(11, max_steps=4)
    envs.close()
    # The errors of prediction tell of every bit that was observed.
    return [([state["prediction_error"] for state in each.states], list(map(int, each.actions))) for each in episodes]


asynchronous = run("async", context=sys.argv[1])
assert asynchronous == run("sync") and len(asynchronous[0][0]) == 5
"""


@pytest.mark.parametrize("context", sorted({"fork", "spawn"} & set(multiprocessing.get_all_start_methods())))
def test_asynchronous_vectors(context, tmp_path):
    script = tmp_path / "asynchronous.py"
    body = ASYNCHRONOUS.strip().replace("\n", "\n    ")
    script.write_text(f"if __name__ == '__main__':\n    {body}\n")
    environment = os.environ | {"OMP_NUM_THREADS": "2", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script, context], env=environment, timeout=120, capture_output=True, text=True
    )
    assert not done.returncode, done.stderr


# What check_env warns of is gymnasium's own: a wrapper, and the bounds of Pendulum's actions.
@pytest.mark.filterwarnings("ignore:.*(is different from the unwrapped version|symmetric and normalized):UserWarning")
@pytest.mark.parametrize("given", (False, True))
@pytest.mark.parametrize("name", ("Pendulum-v1", "CartPole-v1", "MountainCarContinuous-v0", "CliffWalking-v1"))
def test_env_checker_passes(name, given):
    env = gymnasium.make(name)
    settings = {"brain": gym.brain_for(env, **SMALL)} if given else SMALL
    seen = gym.FieldObservation(env, **settings)
    check_env(seen, skip_render_check=True)
    seen.close()


def test_the_wrapper_shows_motor_metrics_and_channels():
    env = gym.FieldObservation(gymnasium.make("Pendulum-v1"), motor_dim=2, channels=7, **SMALL)
    assert env.observation_space.shape == (2 + 6 + 7,)
    peer = field.create_brain(3, 2, 4, 7, learner="imprint", prefer_gpu=False, seed=0)
    peer.key.copy_(field.random_key(1))
    observation, _ = env.reset(seed=1)
    inner, _ = gymnasium.make("Pendulum-v1").reset(seed=1)
    motor, state = peer.process_robot_cycle((inner / [1, 1, 8]).tolist())
    assert observation[:2].tolist() == pytest.approx(motor)
    confidence, energy = observation[4], observation[5]
    assert confidence == pytest.approx(state["prediction_confidence"])
    assert energy == pytest.approx(state["energy"] / (1 + state["energy"]))
    assert observation[8:].tolist() == pytest.approx(peer.field.mean((0, 1, 2)).tanh().tolist())
    assert env.step(env.action_space.sample())[0] in env.observation_space
    assert not len(env.brain.library)


def test_the_wrapper_leaves_what_a_brain_learned():
    env = gymnasium.make("Pendulum-v1")
    agent = gym.FieldAgent(gym.brain_for(env, seed=0, prefer_gpu=False), env)
    agent.run_episode(seed=1, max_steps=30)
    weights, seen = agent.brain.weights, gym.FieldObservation(env, agent.brain)
    first = [seen.reset(seed=2)[0], *(seen.step(np.zeros(1, np.float32))[0] for _ in range(30))]
    again = [seen.reset(seed=2)[0], *(seen.step(np.zeros(1, np.float32))[0] for _ in range(30))]
    np.testing.assert_array_equal(first, again)
    torch.testing.assert_close(agent.brain.weights, weights)
    assert weights.any() and agent.brain.training


def test_a_wrapped_environment_is_made_anew_from_its_specification():
    env = gym.FieldObservation(gymnasium.make("CartPole-v1"), spatial=4)
    specification = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(specification)
    for action in (None, 0, 1, 1):
        pair = [each.reset(seed=9) if action is None else each.step(action) for each in (env, again)]
        assert np.array_equal(pair[0][0], pair[1][0])


def test_wrapped_environments_in_a_vector():
    wrapper = functools.partial(gym.FieldObservation, **SMALL)
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync", wrappers=[wrapper])
    observations, _ = envs.reset(seed=5)
    for i in range(2):
        single, _ = wrapper(gymnasium.make("CartPole-v1")).reset(seed=5 + i)
        assert np.array_equal(observations[i], single)
    envs.close()


def test_training_finds_what_is_rewarded():
    """The action that is shown pays; the seed decides the search."""

    class Paid(Spaces):
        def reset(self, **settings):
            self.shown, info = super().reset(**settings)
            return self.shown, info

        def step(self, action):
            reward = float(action == self.shown)
            self.shown, _, *rest = super().step(action)
            return self.shown, reward, *rest

    results, seen = [], []
    for _ in range(2):
        agent = agent_of(Paid(spaces.Discrete(2), spaces.Discrete(2)), reward_scale=0.0, decay=0.9, threshold=0.0)
        returns = gym.train(agent, generations=5, candidates=12, seed=1, progress=lambda *each: seen.append(each))
        results.append((returns, agent.brain.motor_weights.tolist()))
    assert results[0] == results[1] and len(returns) == 5
    assert seen == 2 * [(done, 60) for done in range(1, 61)]
    assert statistics.fmean(agent.run_episode(seed).total for seed in range(100, 110)) >= 3.5


LEARNS = {"prefer_gpu": False, "seed": 0}


def test_a_brain_learns_to_balance_online():
    """By chance an episode earns 26."""
    env, seen = gymnasium.make("CartPole-v1"), []
    agent = gym.FieldAgent(gym.brain_for(env, **LEARNS), env)
    agent.brain.eval()
    returns = gym.learn(agent, 60, seed=7, max_steps=300, progress=lambda *each: seen.append(each))
    assert statistics.fmean(returns[:10]) < 50 and statistics.fmean(returns[-15:]) > 150
    assert seen == [(i + 1, 60) for i in range(60)] and not agent.brain.training
    greedy = [agent.run_episode(1000 + i, max_steps=300).total for i in range(5)]
    assert statistics.fmean(greedy) > 200
    again = gym.FieldAgent(gym.brain_for(env, **LEARNS), env)
    assert gym.learn(again, 5, seed=7, max_steps=300) == returns[:5]


class Still(gymnasium.ObservationWrapper):
    """CartPole that shows where cart and pole are, not how fast they move."""

    def __init__(self, env):
        super().__init__(env)
        low, high = env.observation_space.low[::2], env.observation_space.high[::2]
        self.observation_space = spaces.Box(low, high, dtype=np.float32)

    def observation(self, observation):
        return observation[::2]


def test_velocities_that_are_hidden_are_sensed():
    """Without them an episode earns 40, however long the brain learns."""
    earned = {}
    for velocities in (False, True):
        env = Still(gymnasium.make("CartPole-v1"))
        agent = gym.FieldAgent(gym.brain_for(env, **LEARNS, velocities=velocities), env)
        earned[velocities] = statistics.fmean(gym.learn(agent, 45, seed=7, max_steps=300)[-15:])
    assert earned[False] < 60 and earned[True] > 150


@pytest.mark.parametrize("mode", MODES)
def test_a_vector_learns_as_its_environments_one_by_one(mode):
    """Whenever environments are reset; some episodes are cut off, most end by themselves."""
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(gymnasium.make, "CartPole-v1")] * 3, autoreset_mode=mode)
    settings = LEARNS | {"velocities": mode is gymnasium.vector.AutoresetMode.NEXT_STEP}
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **settings), envs)
    returns = gym.learn(agent, 4, seed=5, max_steps=25)
    for i, own in enumerate(agent.agents):
        env = gymnasium.make("CartPole-v1")
        alone = gym.FieldAgent(gym.brain_for(env, **(settings | {"seed": i})), env)
        expected = [alone.run_episode(5 + 3 * episode + i, max_steps=25).total for episode in range(4)]
        assert [each[i] for each in returns] == expected
        assert torch.equal(own.brain.weights, alone.brain.weights) and own.brain.weights.any()


class Broken(gymnasium.ObservationWrapper):
    """Shows NaN from its second episode on."""

    def __init__(self, env):
        super().__init__(env)
        self.episodes = 0

    def reset(self, **options):
        self.episodes += 1
        return super().reset(**options)

    def observation(self, observation):
        return observation if self.episodes == 1 else observation * np.nan


def test_what_a_brain_that_rests_would_see_does_not_matter():
    def made(broken):
        env = gymnasium.make("CartPole-v1", max_episode_steps=40)
        return Broken(env) if broken else env

    returns = []
    for broken in (False, True):
        envs = gymnasium.vector.SyncVectorEnv([functools.partial(made, broken)] * 3)
        agents = gym.VectorFieldAgent(gym.brains_for(envs, seed=0, prefer_gpu=False), envs)
        returns.append(gym.learn(agents, 1, seed=2))
    assert returns[0] == returns[1] and len(set(returns[0][0])) > 1
    with pytest.raises(ValueError, match="observation must be finite"):
        agents.act(np.full((3, 4), np.nan, np.float32))


def test_brains_that_change_places_stay_themselves():
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(gymnasium.make, "CartPole-v1")] * 3)
    group = gym.VectorFieldAgent(gym.brains_for(envs, **LEARNS), envs)
    singles = [gym.FieldAgent(copy.deepcopy(agent.brain), gymnasium.make("CartPole-v1")) for agent in group.agents]
    for order in ((0, 1, 2), (1, 0, 2), (1, 2, 0)):
        brains = [singles[i].brain for i in order]
        for agent, brain in zip(group.agents, [group.agents[i].brain for i in order], strict=True):
            agent.brain = brain
        for agent, brain in zip(singles, brains, strict=True):
            agent.brain = brain
        observations = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 4)).astype(np.float32)
        actions = group.act(observations, [1.0, 0.5, -1.0])
        rewarded = zip(singles, observations, (1.0, 0.5, -1.0), strict=True)
        assert actions.tolist() == [agent.act(observation, reward) for agent, observation, reward in rewarded]
        pairs = [(one.brain, other.brain) for one, other in zip(group.agents, singles, strict=True)]
        assert all(torch.equal(one.weights, other.weights) for one, other in pairs)
        assert all(torch.equal(one.prediction, other.prediction) for one, other in pairs)


def test_brains_of_a_vector_step_in_one_call_and_stay_whole(tmp_path):
    """Each goes on by itself, copied, saved or changed; then those that are left go together again."""
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(gymnasium.make, "Pendulum-v1")] * 3)
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **LEARNS), envs)
    alone = gym.brains_for(envs, **LEARNS)
    brains = [each.brain for each in agent.agents]
    space, generator = envs.single_observation_space, np.random.default_rng(0)
    agent.begin(3)
    for brain in alone:
        brain.reset()
    for own, other in zip(alone, brains, strict=True):
        own.key.copy_(other.key)

    def cycle(shared):
        observations = generator.uniform(space.low, space.high, (3, *space.shape)).astype(np.float32)
        actions = agent.act(observations, [0.1, -0.2, 0.3])
        assert (brains[0]._field._base is not None) == shared
        for i, own in enumerate(alone):
            motor, state = own.process_robot_cycle(agent.agents[i].sense(observations[i]), [0.1, -0.2, 0.3][i])
            assert np.array_equal(agent.agents[i].decode(motor), actions[i])
            measured = agent.agents[i].state
            assert measured | {"cycle_time_ms": 0} == state | {"cycle_time_ms": 0} and measured["cycle_time_ms"] > 0
            assert all(torch.equal(x, own.state_dict()[name]) for name, x in brains[i].state_dict().items())

    for _ in range(5):
        cycle(shared=True)
    brains[1].save(tmp_path / "brain")
    others = [
        copy.deepcopy(brains[1]),
        pickle.loads(pickle.dumps(brains[1])),
        field.FieldBrain.load(tmp_path / "brain"),
    ]
    expected = alone[1].copy().process_robot_cycle([0.1] * 3, 1.0)[0]
    for other in others:
        assert other._field.untyped_storage().nbytes() == other._field.nbytes
        assert other.process_robot_cycle([0.1] * 3, 1.0)[0] == expected
    assert brains[1].process_robot_cycle([0.1] * 3, 1.0)[0] == alone[1].process_robot_cycle([0.1] * 3, 1.0)[0]
    cycle(shared=True)
    for brain in (brains[2], alone[2]):
        brain.load_state_dict(others[0].state_dict())
    cycle(shared=True)
    # Of other settings: one after the other.
    brains[0].exploration = alone[0].exploration = 0.1
    first = brains[0]._field
    cycle(shared=True)
    assert brains[0]._field is first and agent._together is None
    for brain in (*brains[1:], *alone[1:]):
        brain.exploration = 0.1
    cycle(shared=True)
    assert agent._together is not None
    before = [brain._state.clone() for brain in brains]
    with pytest.raises(ValueError, match="act: observation must be finite"):
        agent.act(np.array([[0, 0, 0], [0, 0, 0], [0, np.nan, 0]], np.float32), [0.0] * 3)
    assert all(torch.equal(brain._state, state) for brain, state in zip(brains, before, strict=True))


def test_what_brains_hold_apart_from_others_stays_theirs():
    """Copies of one that has left take no memory of the others along; shared memory and other buffers are kept."""
    envs = gymnasium.vector.SyncVectorEnv([functools.partial(PaysLast, 3)] * 3)
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **LEARNS, velocities=True), envs)
    agent.run_episodes(0)
    brains = [each.brain for each in agent.agents]
    brains[1].eval()
    copies = [copy.deepcopy(brains[1]), pickle.loads(pickle.dumps(brains[1])), copy.copy(brains[1])]
    for other in (*copies, copy.deepcopy(agent).agents[1].brain):
        assert all(tensor.untyped_storage().nbytes() == tensor.nbytes for tensor in other.buffers())
        other.process_robot_cycle([0.1, 0.2])
    assert len(pickle.dumps(agent)) < 1.5 * sum(brain.nbytes for brain in brains)
    brains[1].train().register_buffer("own", torch.ones(2))
    brains[2].share_memory()
    agent.run_episodes(1)
    assert brains[1].own.sum() == 2 and brains[2]._field.is_shared() and agent._together is None


def ended_brains(mode):
    """The brains of a user's loop of three episodes that end by themselves or are cut off."""
    envs = gymnasium.vector.SyncVectorEnv(
        [functools.partial(PaysLast, 3), functools.partial(Cut, 3)], autoreset_mode=mode
    )
    agent = gym.VectorFieldAgent(gym.brains_for(envs, **LEARNS), envs)
    (observations, _), rewards, starts, finals, flags = envs.reset(seed=0), None, None, None, (None, None)
    agent.begin(0)
    ended, episodes = np.zeros(2, bool), 0
    while True:
        actions = agent.act(observations, rewards, starts, finals, *flags)
        episodes += starts is not None and bool(starts.all())
        if episodes == 3:
            return [each.brain for each in agent.agents]
        before = ended
        observations, rewards, *flags, infos = envs.step(actions)
        starts = ended = flags[0] | flags[1]
        if mode is gymnasium.vector.AutoresetMode.NEXT_STEP:
            starts = before
        elif mode is gymnasium.vector.AutoresetMode.SAME_STEP:
            finals = infos.get("final_obs")
        else:
            finals = observations
            if ended.any():
                observations, _ = envs.reset(options={"reset_mask": starts})


class Cut(PaysLast):
    """Is cut off where the other ends."""

    def step(self, action):
        observation, reward, ends, *rest = super().step(action)
        return observation, reward, False, ends, rest[1]


def test_brains_are_told_of_ends_whenever_environments_are_reset():
    expected = None
    for mode in MODES:
        found = [brain.weights for brain in ended_brains(mode)]
        expected = expected or found
        assert all(torch.equal(*pair) and pair[0].any() for pair in zip(found, expected, strict=True))
    alone = []
    for kind in (PaysLast, Cut):
        agent = gym.FieldAgent(gym.brain_for(kind(3), **LEARNS), kind(3))
        assert gym.learn(agent, 3) == [1.0] * 3
        alone.append(value_of_start(agent))
    assert alone[1] > alone[0]


def value_of_start(agent):
    return agent.brain.weights[..., : agent.brain.maps].sum().item()


def test_what_cannot_be_learned():
    env = gymnasium.make("CartPole-v1")
    older, agent = agent_of(env), gym.FieldAgent(gym.brain_for(env, **LEARNS), env)
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    agents = gym.VectorFieldAgent(gym.brains_for(vector, **LEARNS), vector)
    continuous = field.create_brain(4, 2, prefer_gpu=False)
    good = np.zeros((2, 4), np.float32)
    for error, text, call, *arguments in (
        (ValueError, "learn: learner of the brain must be actor-critic, got imprint", gym.learn, older, 3),
        (ValueError, "train: learner of the brain must be imprint, got actor-critic", gym.train, agent),
        (TypeError, "learn: agent must be a FieldAgent or a VectorFieldAgent, got str", gym.learn, "agent", 3),
        (ValueError, "learn: episodes must be at least 1", gym.learn, agent, 0),
        (ValueError, "FieldAgent: brain must have discrete = True, got False", gym.FieldAgent, continuous, env),
        (TypeError, "act: terminated must be a bool, got int", agent.act, good[0], 0.0, 1),
        (TypeError, "act: truncated must be a bool, got str", agent.act, good[0], 0.0, False, "no"),
        (ValueError, r"act: reward must be at most 1e\+06 when scaled, got 10000000.0", agent.act, good[0], 1e7),
        (ValueError, "act: terminated must be 2, got 1", agents.act, good, None, None, None, [True]),
        (TypeError, "act: truncated must be a bool, got int", agents.act, good, None, None, None, None, [True, 1]),
    ):
        with pytest.raises(error, match=f"^{text}"):
            call(*arguments)
    assert all(not each.brain.cycle for each in (agent, *agents.agents))


@pytest.mark.parametrize("scale", (0.0, 1.0))
def test_a_reward_or_a_seed_that_is_none_leaves_the_brain_as_it_is(scale):
    agent = agent_of(Spaces(CHOICE, CHOICE), reward_scale=scale)
    agent.act(0)
    before = {name: tensor.clone() for name, tensor in agent.brain.state_dict().items()}
    for reward in (math.nan, INF, "1", None, [1.0]):
        with pytest.raises((TypeError, ValueError), match=r"^act: reward must be"):
            agent.act(0, reward)
    for seed in (True, "1", 1.5):
        with pytest.raises(TypeError, match=r"^run_episode: seed must be"):
            agent.run_episode(seed)
    assert all(torch.equal(tensor, before[name]) for name, tensor in agent.brain.state_dict().items())


def test_an_error_in_training_leaves_the_weights_as_they_were():
    class Fails(Spaces):
        left = 6

        def step(self, action):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return super().step(action)

    agent = agent_of(Fails(CHOICE, CHOICE))
    before = agent.brain.motor_weights.clone()
    for error, settings in ((KeyboardInterrupt, {}), (ValueError, {"max_steps": 0}), (TypeError, {"seed": "x"})):
        with pytest.raises(error):
            gym.train(agent, candidates=3, elites=2, **settings)
        assert torch.equal(agent.brain.motor_weights, before)


def test_a_search_draws_around_the_best_with_more_spread_than_they_have():
    seen, generator = [], torch.Generator().manual_seed(5)
    gym.search(lambda each, _: seen.append(each) or 0.0, (9,), generations=2, candidates=3, elites=3, spread=2, seed=5)
    first, second = torch.stack(seen).split(3)
    assert torch.equal(first, 2 * torch.randn((3, 9), generator=generator))
    # Half of the spread, which falls to 0 with the generations.
    deviation = (first.var(0, correction=0) + 0.5**2).sqrt()
    torch.testing.assert_close(second, first.mean(0) + deviation * torch.randn((3, 9), generator=generator))


def test_a_search_is_decided_by_its_seed():
    """And not by the default device or dtype."""

    def search():
        return gym.search(lambda weights, _: -float((weights - 1).square().sum()), (2, 3), generations=3, seed=5)

    expected = search()
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"):
        found = search()
    assert torch.equal(found[0], expected[0]) and found[1] == expected[1] and found[1][-1] > found[1][0]


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"shape": 5}, TypeError, "shape must be ints, got int"),
        ({"shape": (2, 0)}, ValueError, "shape must be at least 1"),
        ({"shape": (True,)}, TypeError, "shape must be an int, got bool"),
        ({"earned": lambda *_: math.nan}, ValueError, "earned must be a number, got nan"),
    ],
    ids=range(4),
)
def test_a_search_that_cannot_be(settings, error, text):
    with pytest.raises(error, match=f"^search: {text}"):
        gym.search(**{"earned": lambda *_: 1.0, "shape": (2,), **settings})


def test_agents_under_another_default_device_and_dtype_and_copied():
    agent = agent_of(Spaces(CHOICE, CHOICE))
    expected = agent.run_episode(4)
    for again in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        again.brain.library.clear()
        assert same(again.run_episode(4), expected)
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"), torch.inference_mode():
        assert same(agent_of(Spaces(CHOICE, CHOICE)).run_episode(4), expected)
        assert len(gym.train(agent, generations=1, candidates=2, elites=2)) == 1
        env = gym.FieldObservation(Spaces(CHOICE, CHOICE), **SMALL)
        assert env.reset(seed=0)[0] in env.observation_space


CHOICE = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("observed", "acted", "error", "text"),
    [
        (spaces.MultiDiscrete([2, 2]), CHOICE, TypeError, "observation space must be Box or Discrete, got MultiD"),
        (spaces.Dict(a=CHOICE), CHOICE, TypeError, "observation space must be Box or Discrete, got Dict"),
        (CHOICE, spaces.MultiBinary(3), TypeError, "action space must be Box or Discrete, got MultiBinary"),
        (CHOICE, spaces.Tuple((CHOICE,)), TypeError, "action space must be Box or Discrete, got Tuple"),
        (CHOICE, box((0, INF)), ValueError, "action space must have finite bounds"),
        (spaces.Box(0, 1, (0,)), CHOICE, ValueError, "observation space must hold at least one number"),
    ],
    ids=range(6),
)
def test_unknown_spaces(observed, acted, error, text):
    env = Spaces(observed, acted)
    calls = [lambda: gym.FieldAgent(field.create_brain(2, 2, **SMALL), env), lambda: gym.brain_for(env)]
    calls += [lambda: gym.FieldObservation(env)] if text.startswith("observation") else []
    for call, name in zip(calls, ("FieldAgent", "brain_for", "FieldObservation"), strict=False):
        with pytest.raises(error, match=f"^{name}: {text}"):
            call()


def test_what_does_not_fit():
    env = gymnasium.make("CartPole-v1")
    brain, other = gym.brain_for(env, **SMALL), field.create_brain(3, 2, **SMALL)
    agent = gym.FieldAgent(brain, env)
    too_large = r"act: observation must be finite and within 1e\+06 times its bounds"
    for error, text, call, *arguments in (
        (ValueError, r"FieldAgent: brain must have .* = \(4, 2\), got \(3, 2\)", gym.FieldAgent, other, env),
        (ValueError, "FieldObservation: brain must have sensory_dim = 4, got 3", gym.FieldObservation, env, other),
        (ValueError, r"act: observation must have shape \(4,\), got \(3,\)", agent.act, np.zeros(3)),
        *((ValueError, too_large, agent.act, np.array([wrong, 0, 0, 0])) for wrong in (np.nan, INF, 1e30)),
        (ValueError, too_large, agent.act, np.array([0, INF, 0, 0])),
        *(
            (TypeError, "act: observation must hold numbers", agent.act, wrong)
            for wrong in ("four", None, np.zeros(4, complex), np.array(["0"] * 4))
        ),
    ):
        with pytest.raises(error, match=f"^{text}"):
            call(*arguments)
    with pytest.raises(TypeError, match="FieldObservation: settings must be the brain's own where one is given"):
        gym.FieldObservation(env, brain, spatial=3)
    with pytest.raises(TypeError, match="FieldObservation: motor_dim must be an int, got str"):
        gym.FieldObservation(env, motor_dim="2", **SMALL)
    with pytest.raises(ValueError, match="search: elites must be at least 2 and at most candidates = 16"):
        gym.train(agent, elites=17)


def test_vectors_that_do_not_fit():
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    brains = gym.brains_for(envs, **SMALL)
    for wrong in (brains[:1], [brains[0], brains[0]]):
        with pytest.raises(ValueError, match="VectorFieldAgent: brains must be 2 different ones"):
            gym.VectorFieldAgent(wrong, envs)
    with pytest.raises(TypeError, match="VectorFieldAgent: brains must be a FieldBrain, got str"):
        gym.VectorFieldAgent(["one", "two"], envs)
    envs.metadata = {}
    with pytest.raises(ValueError, match=r"run_episodes: envs must have an autoreset_mode of gymnasium's, got None"):
        gym.VectorFieldAgent(brains, envs).run_episodes(0)


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "torch_hrr.field.gym")
    with pytest.raises(ImportError, match=r"gymnasium must be installed: pip install gymnasium"):
        importlib.import_module("torch_hrr.field.gym")
