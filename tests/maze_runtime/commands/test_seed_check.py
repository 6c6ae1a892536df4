"""`maze check --steps` says where an environment does not follow its seed."""

import pytest

SIMULATION = """
import random
import gymnasium, numpy as np
from gymnasium import spaces


class Repeats(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)

    def draw(self):
        return self.np_random.uniform(-1, 1)

    def pay(self):
        return 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([self.draw()], np.float32), {}

    def step(self, action):
        self.t += 1
        return np.array([self.draw()], np.float32), self.pay(), False, self.t == 10, {}


class GlobalNumpy(Repeats):
    def draw(self):
        return np.random.uniform(-1, 1)


class Unseeded(Repeats):
    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}


class PaysAtRandom(Repeats):
    def pay(self):
        return random.random()


class EndsEverySeventhStepOfAll(Repeats):
    n_steps = 0

    def step(self, action):
        observation, reward, *_ = super().step(action)
        type(self).n_steps += 1
        return observation, reward, self.n_steps % 7 == 0, False, {}


class LaterAtRandom(Repeats):
    def draw(self):
        return super().draw() if self.has_seed else random.uniform(-1, 1)

    def reset(self, *, seed=None, options=None):
        self.has_seed = seed is not None
        return super().reset(seed=seed)
"""


@pytest.fixture(autouse=True)
def _simulation(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "drawn.py").write_text(SIMULATION)


def checked(maze, name):
    done = maze("check", f"drawn:{name}", "--steps", 50)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("GlobalNumpy", "the observation 'observation' of reset"),
        ("Unseeded", "the observation 'observation' at step 1"),
        ("PaysAtRandom", "reward at step 1"),
        ("EndsEverySeventhStepOfAll", "terminated at step"),
    ],
)
def test_what_is_drawn_elsewhere_is_named(maze, name, what):
    said = checked(maze, name)
    assert f"two environments with the same seed and the same actions differ: {what}" in said
    assert "self.np_random" in said


@pytest.mark.parametrize("name", ["Repeats", "LaterAtRandom"])
def test_an_environment_that_follows_its_seed_is_not_spoken_of(maze, name):
    assert "same seed" not in checked(maze, name)
