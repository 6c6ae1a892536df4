"""A simulation with conversions is an environment: flat and structured, with rewards, statistics, KPIs, clones."""

import threading

import attrs
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.capabilities import ReportsStatistics, capability
from maze_kernel.contracts.env import ActorID, StructuredEnv
from maze_kernel.errors import EnvError
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.reward import RewardAggregator
from maze_runtime.env.simulation import Cloneable, Recordable
from maze_runtime.env.wrapper import EnvWrapper
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.declaration import define_episode_stats, define_epoch_stats, define_step_stats
from maze_runtime.events.kpi import KpiCalculator
from maze_runtime.events.pubsub import Subscriber
from maze_testing.envs import check_env


class LiftEvents:
    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def moved(self, floors): ...

    @define_epoch_stats(np.mean, output_name="mean_episode_total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def started(self): ...


@attrs.frozen
class LiftState:
    floor: int
    direction: int | None = None


class LiftKpis(KpiCalculator):
    def calculate_kpis(self, episode_event_log, last_maze_state):
        floors = sum(record.attributes["floors"] for record in episode_event_log.query_events(LiftEvents.moved))
        return {"floors_per_step": floors / len(episode_event_log.steps), "last_floor": last_maze_state.floor}


class Lift(CoreEnv):
    """Flat: move by −1 … 1 floors. Reaching floor 3 ends the task, five steps cut it off."""

    def __init__(self):
        super().__init__()
        self.events = self.pubsub.create_event_topic(LiftEvents)
        self.floor = self.steps = 0

    def reset(self, seed=None):
        self.floor = self.steps = 0
        self.events.started()
        return self.get_maze_state()

    def step(self, maze_action):
        self.floor += maze_action
        self.steps += 1
        if maze_action:
            self.events.moved(floors=abs(maze_action))
        return self.get_maze_state(), 7.0, self.floor == 3, self.steps == 5, {"floor": self.floor}

    def get_maze_state(self):
        return LiftState(self.floor)

    def get_kpi_calculator(self):
        return LiftKpis()

    def clone_from(self, other):
        self.floor, self.steps = other.floor, other.steps


class StructuredLift(Lift):
    """First a direction, then how far: two policy keys."""

    direction = None

    def reset(self, seed=None):
        self.direction = None
        return super().reset(seed)

    def step(self, maze_action):
        if self.direction is None:
            self.direction = maze_action
            self.events.moved(floors=0)
            return self.get_maze_state(), 0.0, False, False, {}
        way, self.direction = self.direction * maze_action, None
        return super().step(way)

    def get_maze_state(self):
        return LiftState(self.floor, self.direction)

    def actor_id(self):
        return ActorID("where" if self.direction is None else "how far", 0)

    @property
    def agent_counts(self):
        return {"where": 1, "how far": 1}

    def is_flat_step_end(self):
        return self.direction is None

    def get_actor_rewards(self, reward):
        return np.array([reward / 4, reward * 3 / 4])


class FloorObservation(ObservationConversion):
    def space(self):
        return spaces.Dict(floor=spaces.Box(-9, 9, (1,), np.float32))

    def maze_to_space(self, maze_state):
        return {"floor": np.array([maze_state.floor], np.float32)}


class MoveAction(ActionConversion):
    def __init__(self, first=-1):
        self.first = first

    def space(self):
        return spaces.Dict(move=spaces.Discrete(3))

    def space_to_maze(self, action, maze_state):
        return int(action["move"]) + self.first

    def maze_to_space(self, maze_action, maze_state):
        return {"move": maze_action - self.first}

    def noop_action(self):
        return {"move": -self.first}


class MovesCost(RewardAggregator):
    def get_interfaces(self):
        return (LiftEvents,)

    def summarize_reward(self, maze_state):
        started = len(self.query_events(LiftEvents.started))
        return -1.0 * len(self.query_events(LiftEvents.moved)) - 100.0 * started


class MovesCostEachPart(MovesCost):
    def summarize_reward(self, maze_state):
        total = super().summarize_reward(maze_state)
        return 0.0 if maze_state.direction is not None else np.array([total / 2, total / 2])


def flat(reward=None):
    return MazeEnv(Lift(), FloorObservation(), MoveAction(), reward_aggregator=reward)


def structured(reward=None):
    actions = {"where": MoveAction(), "how far": MoveAction(0)}
    return MazeEnv(StructuredLift(), FloorObservation(), actions, reward_aggregator=reward)


@pytest.mark.parametrize("factory", [flat, structured, lambda: flat(MovesCost()), lambda: structured(MovesCost())])
def test_it_keeps_the_contract(factory):
    assert isinstance(factory(), StructuredEnv)
    check_env(factory, n_steps=60)


def test_terminated_and_truncated_stay_apart():
    env = flat()
    env.reset()
    ends = [env.step({"move": 2})[2:4] for _ in range(3)]
    assert ends == [(False, False), (False, False), (True, False)]
    env.reset()
    ends = [env.step({"move": 1})[2:4] for _ in range(5)]
    assert ends[-1] == (False, True)


def test_without_an_aggregator_the_reward_is_the_core_environments():
    env = flat()
    env.reset()
    observation, reward, _, _, info = env.step({"move": 2})
    assert (observation["floor"].tolist(), reward, info) == ([1.0], 7.0, {"floor": 1})


def test_an_aggregator_sees_the_events_of_one_step_and_not_those_of_reset():
    env = flat(MovesCost())
    env.reset()
    assert [env.step({"move": move})[1] for move in (2, 1, 0)] == [-1.0, 0.0, -1.0]


def test_the_reward_of_a_flat_step_is_divided_among_its_sub_steps():
    env = structured()
    env.reset()
    assert env.actor_id() == ("where", 0)
    assert env.step({"move": 2})[1] == 0.0
    assert (env.actor_id(), env.is_flat_step_end(), env.env_time) == (("how far", 0), False, 0)
    assert env.step({"move": 1})[1] == 7.0
    assert (env.is_flat_step_end(), env.env_time) == (True, 1)
    assert env.get_actor_rewards().tolist() == [7 / 4, 21 / 4]


def test_an_aggregator_may_give_each_sub_step_its_own_reward():
    env = structured(MovesCostEachPart())
    env.reset()
    rewards = [env.step({"move": 2})[1], env.step({"move": 1})[1]]
    assert rewards == [0.0, -1.0]
    assert env.get_actor_rewards().tolist() == [-0.5, -0.5]


def test_statistics_and_kpis_are_those_of_finished_episodes():
    env, epoch = flat(), EpochAggregator()
    for moves in ([2, 2, 2], [1, 1, 0, 2, 2]):
        env.reset()
        for move in moves:
            env.step({"move": move})
    env.reset()
    env.step({"move": 2})
    epoch.add_episodes(env.drain_statistics())
    assert epoch.reduce() == {
        "LiftEvents/moved/mean_episode_total": 3.0,
        "LiftEvents/started/mean_episode_total": 1.0,
        **_kpi("floors_per_step", [3 / 3, 3 / 5]),
        **_kpi("last_floor", [3, 1]),
    }
    assert env.drain_statistics() == []


def _kpi(name, values):
    functions = {"mean": np.mean, "median": np.median, "std": np.std, "min": min, "max": max}
    return {f"BaseEnvEvents/kpi/{key}/{name}": pytest.approx(function(values)) for key, function in functions.items()}


def test_events_of_both_sub_steps_belong_to_one_step():
    env = structured()
    env.reset()
    env.step({"move": 2})
    env.step({"move": 1})
    assert [record.attributes["floors"] for record in env.get_step_events() if record.attributes] == [0, 1]
    assert len(env.get_episode_events().steps) == 1


def test_a_discarded_episode_leaves_no_statistics():
    env = flat()
    env.reset()
    env.step({"move": 2})
    env.discard_episode()
    env.reset()
    assert env.drain_statistics() == []


def test_a_clone_goes_on_alike():
    env, clone = structured(), structured()
    env.reset()
    clone.reset()
    env.step({"move": 2})
    env.step({"move": 1})
    clone.clone_from(env)
    assert (clone.env_time, clone.get_maze_state()) == (1, LiftState(1))
    steps = [(one.step({"move": 2}), one.step({"move": 2})[1:4]) for one in (env, clone)]
    assert steps[0][1] == steps[1][1]


def test_a_clone_knows_what_the_step_in_progress_has_paid():
    env, clone = structured(), structured()
    for one in (env, clone):
        one.reset()
        one._reward = 0.5
    env.step({"move": 2})
    env._reward += 3.0
    clone.clone_from(env)
    assert clone._reward == env._reward


def test_recorded_states_and_actions_are_converted_back():
    env = flat()
    observation, action = env.to_spaces("0", LiftState(2), -1)
    assert (observation["floor"].tolist(), action, env.noop_action()) == ([2.0], {"move": 0}, {"move": 1})


def test_what_a_wrapped_environment_can_do_is_found_behind_its_wrappers():
    env = flat()
    wrapped = EnvWrapper(EnvWrapper(env))
    for protocol in (ReportsStatistics, Recordable):
        assert capability(wrapped, protocol) is env
    plain = EnvWrapper(object.__new__(type("Plain", (), {"structured_spaces": None})))
    assert capability(plain, Recordable) is None
    # A wrapper may have a state of its own, so the whole stack is cloned.
    assert capability(wrapped, Cloneable) is wrapped
    plain.env.lock = threading.Lock()
    with pytest.raises(EnvError, match="Plain cannot be cloned"):
        plain.clone_from(plain)


def test_conversions_must_fit_the_policy_keys():
    with pytest.raises(EnvError, match=r"action conversions do not fit(.|\n)*received: 'where'\n.*'where', 'how far'"):
        MazeEnv(StructuredLift(), FloorObservation(), {"where": MoveAction()})


def test_a_conversion_without_a_way_back_says_what_to_write():
    class OneWay(MoveAction):
        maze_to_space = ActionConversion.maze_to_space

    env = MazeEnv(Lift(), FloorObservation(), OneWay())
    with pytest.raises(EnvError, match=r"write OneWay\.maze_to_space"):
        env.to_spaces("0", LiftState(2), -1)


def test_a_subscriber_of_ones_own_holds_the_events_of_the_last_step_only():
    class Gauge(Subscriber):
        def get_interfaces(self):
            return [LiftEvents]

    class GaugedLift(Lift):
        def __init__(self):
            super().__init__()
            self.gauge = Gauge()
            self.pubsub.register_subscriber(self.gauge)

    env = MazeEnv(GaugedLift(), FloorObservation(), MoveAction())
    env.reset()
    held = [len(env.core_env.gauge.events)]
    for move in (1, 1, 0):
        env.step({"move": move + 1})
        held.append(len(env.core_env.gauge.events))
    assert held == [1, 1, 1, 0]
    env.step({"move": 1 + 1})
    env.reset()
    assert [record.name for record in env.core_env.gauge.events] == ["LiftEvents/started"]
