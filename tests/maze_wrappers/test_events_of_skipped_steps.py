"""Steps that wrappers take behind a reset are no part of the episode, nor are their events."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_runtime.context import RunContext
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.core_env import CoreEnv
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.transformed import TransformedEnv
from maze_runtime.events.aggregation import EpochAggregator
from maze_runtime.events.declaration import define_episode_stats, define_epoch_stats, define_step_stats
from maze_runtime.events.kpi import KpiCalculator
from maze_wrappers.options import RandomResetOptions, RewardScalingOptions
from maze_wrappers.random_reset import RandomReset
from maze_wrappers.reward_scaling import RewardScaling


class ClockEvents:
    @define_epoch_stats(len, output_name="episodes")
    @define_epoch_stats(sum, output_name="total")
    @define_episode_stats(sum)
    @define_step_stats(len)
    def ticked(self):
        """At every step."""


class Steps(KpiCalculator):
    def calculate_kpis(self, episode_event_log, last_maze_state):
        return {"steps": len(episode_event_log.steps)}


class Clock(CoreEnv):
    """Twelve steps, each of them worth 1."""

    def __init__(self):
        super().__init__()
        self.events, self.t = self.pubsub.create_event_topic(ClockEvents), 0

    def reset(self, seed=None):
        self.t = 0
        return self.t

    def step(self, maze_action):
        self.t += 1
        self.events.ticked()
        return self.t, 1.0, self.t == 12, False, {}

    def get_maze_state(self):
        return self.t

    def get_kpi_calculator(self):
        return Steps()


class Time(ObservationConversion):
    def space(self):
        return spaces.Dict(time=spaces.Box(0, 12, (1,), np.float32))

    def maze_to_space(self, maze_state):
        return {"time": np.float32([maze_state])}


class Wait(ActionConversion):
    def space(self):
        return spaces.Dict(wait=spaces.Discrete(2))

    def space_to_maze(self, action, maze_state):
        return int(action["wait"])


def clock():
    return MazeEnv(Clock(), Time(), Wait())


SKIPPED = {
    "nothing": ([], {12}),
    "random": ([{"use": "random-reset", "min_skip": 5, "max_skip": 5}], {7}),
    "over the end": ([{"use": "random-reset", "min_skip": 10, "max_skip": 14}], {1, 2}),
    "first": ([{"use": "first-actions", "actions": [{"wait": 1}, {"wait": 0}]}], {10}),
    "all but one": ([{"use": "first-actions", "actions": [{"wait": 1}] * 13}], {11}),
}


@pytest.mark.parametrize("case", SKIPPED)
def test_event_statistics_and_kpis_count_the_steps_of_the_episode(case):
    wrappers, lengths = SKIPPED[case]
    result = RunContext(env=clock, wrappers=wrappers, silent=True).rollout(6, policy="random")
    found = [episode.length for episode in result.episodes]
    assert set(found) == lengths
    assert result.events["ClockEvents/ticked/episodes"] == 6
    assert result.events["ClockEvents/ticked/total"] == sum(found)
    assert result.events["BaseEnvEvents/kpi/mean/steps"] == pytest.approx(np.mean(found))


def test_what_the_environment_paid_is_that_of_the_episodes_alone():
    env = TransformedEnv(clock(), RewardScaling(RewardScalingOptions(scale=0.5)))
    skipping = RandomReset(env, RandomResetOptions(min_skip=10, max_skip=14))
    paid = []
    for seed in range(20):
        skipping.reset(seed=seed)
        paid.append(0.0)
        is_over = False
        while not is_over:
            _, reward, is_over, _, _ = skipping.step({"wait": 0})
            paid[-1] += reward / 0.5
    assert env.raw_reward_so_far() == (sum(paid), 20)
    skipping.reset()
    epoch = EpochAggregator()
    epoch.add_episodes(env.drain_statistics())
    found = epoch.reduce()
    assert found["BaseEnvEvents/raw_reward/mean"] == pytest.approx(np.mean(paid))
    assert found["ClockEvents/ticked/episodes"] == 20
