"""Environments of a user's own are cloned without a line of theirs, or say what to write."""

import copy
import threading

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils import EzPickle

from maze_kernel.contracts.env import FLAT_KEY, ActorID
from maze_kernel.errors import EnvError
from maze_runtime.context import RunContext
from maze_runtime.env.cloning import go_on_from
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.rollout.heuristic import Heuristic

SPACES = flat_spaces(
    spaces.Dict(where=spaces.Box(-99.0, 99.0, (1,), np.float32)), spaces.Dict(move=spaces.Discrete(3, start=-1))
)


class Line(FlatEnv):
    """Walks along a line with a gust of wind; what happens is noted by a method of its own."""

    def __init__(self, render_mode=None):
        self.structured_spaces = SPACES
        self.render_mode = render_mode
        self.rng = np.random.default_rng()
        self.listeners = [self.note]

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.rng = np.random.default_rng(seed)
        self.where, self.noted = np.zeros(1, np.float32), []
        return {"where": self.where}, {}

    def note(self, what):
        self.noted.append(what)

    def step(self, action):
        self.where += action["move"] + self.rng.normal()
        for listener in self.listeners:
            listener(float(self.where[0]))
        return {"where": self.where.copy()}, -abs(float(self.where[0])), len(self.noted) >= 8, False, {}


class Bare:
    """The same, made of nothing of Maze's."""

    reset, step, note, __init__ = Line.reset, Line.step, Line.note, Line.__init__

    def actor_id(self):
        return ActorID(FLAT_KEY, 0)

    def is_actor_done(self):
        return False

    def is_flat_step_end(self):
        return True

    def get_actor_rewards(self):
        return None

    def render(self):
        return None

    def close(self):
        return None


class Remade(gymnasium.Env, EzPickle):
    """Counts; `copy.deepcopy` makes it again, and so begins at zero."""

    render_mode = None

    def __init__(self, render_mode="rgb_array"):
        EzPickle.__init__(self, render_mode)
        self.render_mode, self.count = render_mode, 0

    def reset(self, *, seed=None, options=None):
        return self.count, {}

    def step(self, action):
        self.count += 1
        return self.count, 0.0, False, False, {}


class Around(Line):
    """Has simulations of another library inside, one in a wrapper and one in a table."""

    def __init__(self):
        super().__init__()
        self.simulation = gymnasium.Wrapper(Remade())
        self.others = {"first": Remade()}

    def step(self, action):
        result = super().step(action)
        self.simulation.step(0)
        self.others["first"].step(0)
        return result

    def counts(self):
        return self.simulation.unwrapped.count, self.others["first"].count


class Copies(Line):
    """Says itself how it is copied."""

    def __deepcopy__(self, memo):
        twin = type(self)()
        twin.rng, twin.where, twin.noted = copy.deepcopy(self.rng), self.where.copy(), list(self.noted)
        return twin


def walked(kind):
    env, twin = kind(), kind()
    env.reset(seed=3)
    twin.reset(seed=4)
    for _ in range(3):
        env.step({"move": 1})
    go_on_from(twin, env)
    return env, twin


def trace(env):
    return [[float(result[0]["where"][0]), *result[1:4]] for result in (env.step({"move": -1}) for _ in range(4))]


@pytest.mark.parametrize("kind", [Line, Bare, Around, Copies])
def test_an_environment_of_ones_own_goes_on_as_the_original(kind):
    env, twin = walked(kind)
    noted = list(env.noted)
    first = trace(twin)
    assert env.noted == noted, "the original changed"
    go_on_from(twin, env)
    assert trace(twin) == first == trace(env)
    assert twin.structured_spaces is SPACES


def test_simulations_inside_are_copied_with_their_state():
    env, twin = walked(Around)
    assert env.counts() == twin.counts() == (3, 3)
    trace(twin)
    assert (env.counts(), twin.counts()) == ((3, 3), (7, 7))
    assert (env.simulation.unwrapped.render_mode, twin.simulation.unwrapped.render_mode) == ("rgb_array", None)


def test_a_clone_is_drawn_as_it_was_made():
    env, twin = Line(render_mode="human"), Line()
    env.reset(seed=1)
    twin.clone_from(env)
    assert (env.render_mode, twin.render_mode) == ("human", None)


def test_what_cannot_be_copied_says_what_to_write():
    env, twin = Line(), Line()
    env.lock = threading.Lock()
    with pytest.raises(EnvError, match="Line cannot be cloned") as raised:
        twin.clone_from(env)
    assert raised.value.owner.endswith("test_cloning.Line")
    assert "lock" in raised.value.received
    assert "clone_from(other)" in raised.value.help


class Home(Heuristic):
    """Goes where a clone says that it comes nearest to zero."""

    def act_one(self, observation, moment):
        return max((-1, 0, 1), key=lambda move: self.clone(moment).step({"move": move})[1])


@pytest.mark.parametrize("wrappers", [[], [{"use": "time-limit", "max_episode_steps": 8}]])
def test_a_planner_plans_in_an_environment_of_ones_own(wrappers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    context = RunContext(env={"use": f"{__name__}:Line"}, wrappers=wrappers, silent=True)
    planned = context.rollout(n_episodes=3, policy=f"{__name__}:Home").episodes
    random = context.rollout(n_episodes=3, policy="random").episodes
    assert all(ours.total_reward > theirs.total_reward for ours, theirs in zip(planned, random, strict=True))
