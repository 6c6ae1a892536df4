"""`check_env` names what is missing, and takes environments of other libraries."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import ActorID
from maze_testing.conformance import ConformanceError
from maze_testing.environments import Identity
from maze_testing.envs import METHODS, check_env
from maze_testing.structured_environments import ChangingTeam, DoorAndKey, Pair


class Steps(gymnasium.Env):
    """Shows the number of its step."""

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(2)
    last = 3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return 0, {}

    def step(self, action):
        self.t += 1
        return self.t, 0.5, self.t == self.last, False, {}


class TooFar(Steps):
    last = 4


def test_a_class_of_gymnasium_is_a_factory():
    check_env(Steps, n_steps=20)
    check_env(lambda: gymnasium.make("CartPole-v1"), n_steps=20)


def test_a_discrete_value_out_of_range_is_found_there_too():
    with pytest.raises(ConformanceError, match=r"lies outside Discrete\(4\): 4"):
        check_env(TooFar, n_steps=20)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_missing_is_named(name):
    class Without:
        pass

    whole = Identity()
    for other in METHODS:
        if other != name:
            setattr(Without, other, staticmethod(lambda: None) if other == "close" else getattr(whole, other))
    with pytest.raises(ConformanceError, match=f"it lacks {name} of StructuredEnv"):
        check_env(Without, n_steps=1)


def test_an_object_that_nobody_knows_is_told_all():
    with pytest.raises(ConformanceError) as caught:
        check_env(lambda: np.zeros(3), n_steps=1)
    assert "structured_spaces, reset, step" in str(caught.value)


class NoSpace(gymnasium.Env):
    action_space = gymnasium.spaces.Discrete(2)


class OldReset(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0

    def step(self, action):
        return 0, 0.0, False, False, {}


class Sized(gymnasium.Env):
    def __init__(self, n):
        self.n = n


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        (NoSpace, "it lacks observation_space, reset, step of gymnasium.Env"),
        (OldReset, r"reset must return \(observation, info\), and returned a int"),
        (Sized, r"the class Sized needs arguments \(n\): pass lambda: Sized"),
        (Sized(3), "it is 'Sized' itself, not a factory"),
        ("CartPole-v1", "not a factory"),
    ],
)
def test_what_a_gymnasium_environment_lacks_is_named(factory, named):
    with pytest.raises(ConformanceError, match=named):
        check_env(factory, n_steps=1)


class Leaves(Pair):
    """Says after every step that someone left."""

    def __init__(self, departed):
        super().__init__()
        self.departed_actors = lambda: departed


@pytest.mark.parametrize(
    ("departed", "rule"),
    [
        ([ActorID("agent", 2)], "agent 2, expected a number from 0 to 1"),
        ([ActorID("robot", 0)], "unknown policy key: 'robot', expected 'agent'"),
        (ActorID("agent", 0), "gives no sequence of actors"),
    ],
)
def test_actors_that_cannot_have_left_are_found(departed, rule):
    with pytest.raises(ConformanceError, match=rf"departed_actors\(\).*{rule}"):
        check_env(lambda: Leaves(departed), n_steps=3)


def test_actors_that_left_are_fine():
    check_env(lambda: ChangingTeam(expels=True))


def test_there_is_one_reward_a_decision():
    class Short(DoorAndKey):
        def get_actor_rewards(self):
            return [0.0]

    check_env(lambda: DoorAndKey(divided=True))
    with pytest.raises(ConformanceError, match=r"get_actor_rewards\(\) gives shape \(1,\) for 2 decisions"):
        check_env(Short)
