"""What wrappers report of an episode stands beside what the environment inside reports."""

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.events import EventStatistics
from maze_kernel.contracts.transform import Transform
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.events.reporters import reporter_of
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv


class Two(FlatEnv):
    """Episodes of two steps, without events."""

    structured_spaces = flat_spaces(
        spaces.Dict(state=spaces.Box(-1, 1, (1,), np.float32)), spaces.Dict(action=spaces.Discrete(2))
    )

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return {"state": np.zeros(1, np.float32)}, {}

    def step(self, action):
        self.t += 1
        return {"state": np.zeros(1, np.float32)}, 1.0, self.t == 2, False, {}


class Counting(EnvWrapper):
    """Reports how many steps an episode had under a name of its own."""

    def __init__(self, env, name, forwards=False):
        super().__init__(env)
        self.name, self.forwards, self.n, self.finished = name, forwards, 0, []

    def reset(self, *, seed=None, options=None):
        if self.n:
            self.finished.append([EventStatistics(self.name, Counting.step, {(None, ()): [self.n]})])
        self.n = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action):
        self.n += 1
        return self.env.step(action)

    def drain_statistics(self):
        finished, self.finished = self.finished, []
        if self.forwards:
            inner = reporter_of(self.env).drain_statistics()
            return [[*own, *more] for own, more in zip(inner, finished, strict=True)]
        return finished

    def discard_episode(self):
        self.n = 0


class Scaled(Transform):
    def reward(self, reward):
        return reward * 2


def drained(make_env, n_steps=4):
    batch = SequentialVectorEnv([make_env])
    batch.reset([[0]])
    for _ in range(n_steps):
        batch.step({"0": {"action": np.zeros(1, np.int64)}})
    (episodes,) = batch.drain_batch_statistics()
    return [[event.interface for event in episode] for episode in episodes]


def test_wrappers_report_beside_each_other_inner_ones_first():
    episodes = drained(lambda: Counting(Counting(Two(), "inner"), "outer"))
    assert episodes == [["inner", "outer"]] * 2


def test_nothing_is_reported_twice_where_a_wrapper_asks_those_inside():
    episodes = drained(lambda: Counting(Counting(Two(), "inner"), "outer", forwards=True))
    assert episodes == [["inner", "outer"]] * 2
    episodes = drained(lambda: TransformedEnv(Counting(Counting(Two(), "inner"), "outer"), Scaled()))
    assert [len(episode) for episode in episodes] == [3, 3]


def test_a_cut_episode_is_forgotten_by_all():
    env = Counting(Counting(Two(), "inner"), "outer")
    env.reset()
    env.step({"action": 0})
    reporter = reporter_of(env)
    reporter.discard_episode()
    env.reset()
    assert reporter.drain_statistics() == []
    assert reporter_of(Two()) is None
