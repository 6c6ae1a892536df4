"""A Maze environment whose parts do not do what they should says which part, and what to write instead."""

from decimal import Decimal

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.errors import EnvError
from maze_runtime.env.flat import FlatEnv, flat_spaces
from maze_runtime.env.reward import RewardAggregator
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.kpi import BaseEnvEvents, KpiCalculator
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_suite import ActionConversion, CoreEnv, MazeEnv, ObservationConversion, RunContext

NUMBER = spaces.Dict(number=spaces.Box(-1, 1, (1,), np.float32))


class Events:
    def moved(self, by, to=0): ...


class Simulation(CoreEnv):
    """Ends with its first step, which returns `result` and fires `moved` with `fired`."""

    def __init__(self, result=(0.0, 1.0, True, False, {}), fired=None, kpis=None):
        super().__init__()
        self.events = self.pubsub.create_event_topic(Events)
        self.result, self.fired, self.kpis = result, fired, kpis

    def reset(self, seed=None):
        return 0.0

    def step(self, maze_action):
        if self.fired is not None:
            self.events.moved(**self.fired)
        return self.result

    def get_maze_state(self):
        return 0.0

    def get_kpi_calculator(self):
        return None if self.kpis is None else Kpis(self.kpis)


class Kpis(KpiCalculator):
    def __init__(self, kpis):
        self.kpis = kpis

    def calculate_kpis(self, episode_event_log, last_maze_state):
        return self.kpis[0]


class Observe(ObservationConversion):
    def __init__(self, space=NUMBER):
        self._space = space

    def space(self):
        return self._space

    def maze_to_space(self, maze_state):
        return {"number": np.float32([maze_state])}


class Act(ActionConversion):
    def space(self):
        return NUMBER

    def space_to_maze(self, action, maze_state):
        return float(action["number"][0])


class Reward(RewardAggregator):
    def __init__(self, reward):
        super().__init__()
        self.reward = reward

    def get_interfaces(self):
        return [Events]

    def summarize_reward(self, maze_state):
        return self.reward


def play(core_env, *, reward_aggregator=None):
    env = MazeEnv(core_env, Observe(), Act(), reward_aggregator=reward_aggregator)
    env.reset(seed=0)
    env.step({"number": np.zeros(1, np.float32)})
    env.reset()
    return env


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ((0.0, 1.0, True, {}), ["maze_state, reward, terminated, truncated and info", "received: 4 values"]),
        (None, ["received: None", "help: return maze_state, reward"]),
    ],
)
def test_steps(result, words):
    with pytest.raises(EnvError) as caught:
        play(Simulation(result))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_kpis_that_are_no_dict():
    with pytest.raises(EnvError, match=r"Kpis.calculate_kpis did not return a dict"):
        play(Simulation(kpis=[None]))


def test_kpis_that_raise_are_named_with_their_traceback():
    class Broken(Simulation):
        def get_kpi_calculator(self):
            return Kpis([])

    batch = SequentialVectorEnv([lambda: MazeEnv(Broken(), Observe(), Act())])
    batch.reset([[5]])
    with pytest.raises(EnvError, match=r"Kpis.calculate_kpis raised IndexError") as caught:
        batch.step({"0": {"number": np.zeros((1, 1), np.float32)}})
    assert "return self.kpis[0]" in caught.value.user_traceback
    assert "environment 0" in caught.value.owner


def test_a_log_gives_lists_of_several_events():
    env = MazeEnv(Simulation(fired={"by": 2}), Observe(), Act())
    env.keep_event_logs()
    env.reset()
    env.step({"number": np.zeros(1, np.float32)})
    moved = env.get_episode_events().query_events(Events.moved)
    assert [record.attributes["by"] for record in moved] == [2]
    assert len(env.get_episode_events().query_events(Events.moved, BaseEnvEvents.kpi)) == 1
    assert env.get_episode_events().query_events() == []


@pytest.mark.parametrize("value", [np.array(2.0), np.array([2.0]), Decimal("2.0"), [2], True])
def test_a_kpi_may_be_whatever_a_reward_may_be(value):
    epoch = EpochAggregator()
    epoch.add_episodes(play(Simulation(kpis=[{"last": value}])).drain_statistics())
    recorded = epoch.reduce()["BaseEnvEvents/kpi/mean/last"]
    assert recorded == (1.0 if value is True else 2.0)


@pytest.mark.parametrize("value", [None, "a", [1, 2], np.array([1.0, 2.0]), 1j])
def test_a_kpi_that_is_no_number_is_named(value):
    with pytest.raises(EnvError, match=r"the KPI 'last' of Kpis is no number"):
        play(Simulation(kpis=[{"first": np.float32(1), "last": value}]))


@pytest.mark.parametrize("reward", [None, "much"])
def test_rewards_that_are_no_number(reward):
    with pytest.raises(EnvError, match="the reward is not one number"):
        play(Simulation(), reward_aggregator=Reward(reward))


@pytest.mark.parametrize("fired", [{}, {"by": 1, "under": 2}])
def test_an_event_with_wrong_attributes_is_named(fired):
    with pytest.raises(TypeError, match=r"event Events.moved\(self, by, to=0\): "):
        play(Simulation(fired=fired), reward_aggregator=Reward(1.0))


def test_parts_whose_constructor_does_not_call_that_of_the_base():
    class Hasty(Simulation):
        def __init__(self):
            self.events = self.pubsub.create_event_topic(Events)

    class HastyReward(Reward):
        def __init__(self):
            self.reward = 1.0

    with pytest.raises(AttributeError, match=r"'Hasty' object has no attribute 'pubsub': call super\(\).__init__\(\)"):
        Hasty()
    with pytest.raises(AttributeError, match=r"no attribute 'events': call super\(\).__init__\(\)"):
        play(Simulation(), reward_aggregator=HastyReward())


def test_an_attribute_error_within_a_property_stays_what_it_is():
    class Broken(Simulation):
        @property
        def agent_counts(self):
            return self.nothing

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        MazeEnv(Broken(), Observe(), Act())


def test_conversions_in_the_wrong_order():
    with pytest.raises(EnvError, match="the observation conversion of policy key '0' is none") as caught:
        MazeEnv(Simulation(), Act(), Observe())
    assert "received: a Act" in str(caught.value)


@pytest.mark.parametrize("wrappers", [(), ("observation-normalization",)])
@pytest.mark.parametrize("what", ["observation", "action"])
def test_spaces_that_are_no_dicts(what, wrappers):
    class Flat(FlatEnv):
        structured_spaces = flat_spaces(**{"observation": NUMBER, "action": NUMBER, what: NUMBER["number"]})

    with pytest.raises(EnvError, match=f"the {what} space of policy key '0' is no Dict") as caught:
        RunContext(env=Flat, wrappers=list(wrappers), silent=True).train(n_epochs=1)
    assert f'the wrapper "dict-{what}" does' in str(caught.value)


@pytest.mark.parametrize(
    ("call", "words"), [("reset", "return observation, info"), ("step", "return observation, reward")]
)
def test_a_flat_environment_that_returns_too_little_is_told_what(call, words):
    class Short(FlatEnv):
        structured_spaces = flat_spaces(NUMBER, NUMBER)

        def reset(self, *, seed=None, options=None):
            observation = {"number": np.zeros(1, np.float32)}
            return (observation,) if call == "reset" else (observation, {})

        def step(self, action):
            return self.reset()

    def play_one(vector_env):
        vector_env.reset([[0]])
        vector_env.step({"0": {"number": np.zeros((1, 1), np.float32)}})

    with pytest.raises(EnvError, match=f"its {call} raised ValueError: not enough values to unpack") as caught:
        play_one(SequentialVectorEnv([Short]))
    assert f"help: {words}" in str(caught.value)
