"""The benchmark of learning control: its peers are what they claim to be, and the page shows what it measures."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")

from torch_hrr import field  # noqa: E402
from torch_hrr._plain import field_control as plain  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))
learning = importlib.import_module("bench.field_learning")
peers = importlib.import_module("bench.field_peers")
PAGE = (ROOT / "docs" / "field_control.md").read_text()


@pytest.mark.parametrize("discrete", (False, True))
def test_the_peers_rule_is_the_brains(monkeypatch, discrete):
    """With the brain's code, and its draws, the learner in NumPy has its motors, over episodes of both ends."""
    brain = field.create_brain(3, 2, seed=0, prefer_gpu=False, discrete=discrete)

    def code(sensory):
        cells, active = plain.code(brain._places, torch.tensor(sensory), brain.spatial)
        places, active = cells.numpy() + 512 * np.arange(brain.maps)[:, None], active.double().numpy()
        # Those beyond the border have no place.
        return places[active > 0], active[active > 0]

    learner = peers.ActorCritic(code, 512 * brain.maps, 2, discrete, peers.MOTOR_RATE, 0)
    generator, drawn = np.random.default_rng(1), np.zeros(2)
    monkeypatch.setattr(learner, "generator", type("Drawn", (), {
        "standard_normal": lambda _, count: drawn,
        "choice": lambda _, count, p: int(drawn.argmax()),
    })())  # fmt: skip
    noise, moved = np.zeros(2), 0.0
    for i in range(200):
        sensory, reward = generator.uniform(-1, 1, 3).tolist(), float(generator.normal())
        ended = {9: "terminated", 4: "truncated"}.get(i % 13)
        motor, _ = brain.process_robot_cycle(sensory, reward, **({ended: True} if ended else {}))
        if discrete:
            drawn = np.array(motor)
        else:
            # What the brain drew, of its noise.
            now = brain._state[-4:-2].double().numpy()
            drawn = (now - 0.5 * noise) / (peers.EXPLORATION * math.sqrt(0.75))
            noise = np.zeros(2) if ended else now
        found = learner.act(sensory, reward, ended == "terminated")
        np.testing.assert_allclose(found, motor, rtol=0, atol=2e-5)
        moved = max(moved, abs(np.tanh(learner._read(code(sensory)[0])[1:] @ code(sensory)[1])).max())
        if ended:
            learner.begin()
    critic = learner.weights + learner.ahead[:, None] * learner.trace
    ours = brain.weights.flatten(0, 2).T.unflatten(0, (3, brain.maps)).flatten(1).double().numpy()
    np.testing.assert_allclose(critic, ours, rtol=0, atol=2e-5)
    assert moved > 0.02 and abs(ours).max() > 0.1


def test_a_tile_code_has_one_cell_of_every_grid():
    code, count = peers.tiles(2, 4, 8, 0)
    seen = set()
    for sensory in np.random.default_rng(0).uniform(-1.2, 1.2, (2000, 2)):
        cells, values = code(sensory)
        assert (cells // 25).tolist() == list(range(8)) and (values @ values) == pytest.approx(1)
        seen.update(cells.tolist())
    assert count == 200 and 170 < len(seen) and max(seen) < count


def test_what_is_changed_of_an_environment_is_what_is_said():
    env = gymnasium.make("Pendulum-v1")
    inner, _ = env.reset(seed=3)
    noisy, wide = learning.Noisy(env, 2), learning.Shown(env, factor=4)
    turned, several = learning.Turned(env, 6), learning.Several(env, 2)
    assert noisy.observation_space.shape == (5,) and several.observation_space.shape == (6,)
    for each in (noisy, wide, several):
        np.testing.assert_array_equal(each.reset(seed=3)[0][:3], inner)
    np.testing.assert_array_equal(wide.observation_space.high, 4 * env.observation_space.high)
    mixed = turned.reset(seed=3)[0]
    np.testing.assert_allclose(np.linalg.pinv(turned.mixed) @ mixed, inner, atol=1e-5)
    both = several.step(np.array([0.5, -0.5], np.float32))
    env.reset(seed=3)
    np.testing.assert_array_equal(both[0][:3], env.step(np.array([0.5], np.float32))[0])
    assert mixed in turned.observation_space and not np.array_equal(both[0][:3], both[0][3:])
    ending = learning.Ending(gymnasium.make("Pendulum-v1", max_episode_steps=1))
    ending.reset(seed=0)
    assert ending.step(np.zeros(1, np.float32))[2:4] == (True, False)


@pytest.mark.parametrize("name", ("learned", "hidden", "limits"))
def test_the_page_has_a_row_of_every_job(name):
    shown = PAGE.split(f"<!-- {name}: begin -->\n")[1].split("<!--")[0].splitlines()[2:]
    for job, row in zip(learning.jobs([name], 20, 1000), shown, strict=True):
        assert row.startswith(f"| {job.environment} | {job.label} |") and row.endswith(f" {job.episodes} |")
    job = learning.Job(name, "Pendulum-v1", "", 0, 2, 3)
    env, _ = job.made()
    assert env.observation_space.shape == ((2,) if name == "hidden" else (3,))


def test_a_life_is_reported_by_its_end():
    job = learning.Job("learned", "CartPole-v1", "x", 0, 2, 60)
    found = [([0.0] * 10 + [2.0] * 50, [5.0]), ([0.0] * 10 + [4.0] * 50, [6.0])]
    assert learning.cells(job, found)[2:] == ["3.0", "1.4", "2 to 4", "5.5", "60"]
