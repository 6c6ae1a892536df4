"""What the decisions of a flat step are paid sums to its reward, or it is said."""

import warnings

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.config.load import experiment_from_mapping
from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError, MazeWarning
from maze_runtime.env.reward import RewardAggregator
from maze_runtime.playing.env_check import check_environment
from maze_runtime.rollout.sequential_vector import SequentialVectorEnv
from maze_suite import ActionConversion, CoreEnv, MazeEnv, ObservationConversion, RunContext
from maze_testing.conformance import ConformanceError
from maze_testing.envs import check_env


class Pairs(CoreEnv):
    """Two decide in turn; the second is paid 0.1 and 0.2 for both, which is divided into `parts`, times the reward."""

    def __init__(self, parts=None):
        super().__init__()
        self.parts = parts

    def reset(self, seed=None):
        self.n = 0
        return self.n

    def step(self, maze_action):
        self.n += 1
        return self.n, 0.1 if self.n % 2 else 0.2, self.n == 20, False, {}

    def get_maze_state(self):
        return self.n

    def actor_id(self):
        return ActorID("pair", self.n % 2)

    @property
    def agent_counts(self):
        return {"pair": 2}

    def is_flat_step_end(self):
        return self.n % 2 == 0

    def get_actor_rewards(self, reward):
        return None if self.parts is None else np.float32(self.parts) * np.float32(reward)


class Observe(ObservationConversion):
    def space(self):
        return spaces.Dict(n=spaces.Box(0, 99, (1,), np.float32))

    def maze_to_space(self, maze_state):
        return {"n": np.float32([maze_state])}


class Act(ActionConversion):
    def space(self):
        return spaces.Dict(a=spaces.Discrete(2))

    def space_to_maze(self, action, maze_state):
        return int(action["a"])


class Five(RewardAggregator):
    """Pays 5 a decision, or parts that sum to something else."""

    def __init__(self, parts=None):
        super().__init__()
        self.parts = parts

    def get_interfaces(self):
        return []

    def summarize_reward(self, maze_state):
        return 5.0 if self.parts is None or maze_state % 2 else np.array(self.parts)


class Fixed(Pairs):
    def get_actor_rewards(self, reward):
        return [0.1, 0.2]


def env(core_env, aggregator=None):
    return lambda: MazeEnv(core_env(), Observe(), Act(), reward_aggregator=aggregator and aggregator())


@pytest.mark.parametrize("made", [env(Pairs), env(lambda: Pairs([0.3, 0.7])), env(lambda: Pairs([3, -2])), env(Fixed)])
def test_parts_with_the_sum_of_the_reward_are_fine(made):
    with warnings.catch_warnings():
        warnings.simplefilter("error", MazeWarning)
        check_env(made)
        RunContext(env=made, overrides={"trainer.epoch_length": 1}, silent=True).train(n_epochs=1)


WRONG = {
    "another sign": (env(lambda: Pairs([-0.5, -0.5])), r"Pairs\.get_actor_rewards\(\)", "-0.3", "0.3"),
    "a part is missing": (env(lambda: Pairs([0.5, 0.4])), r"Pairs\.get_actor_rewards\(\)", "0.27", "0.3"),
    "rewards of its own": (env(Fixed, Five), r"Fixed\.get_actor_rewards\(\)", "0.3", "10"),
    "parts beside rewards": (env(Pairs, lambda: Five([1, 1])), r"Five\.summarize_reward\(\)", "2", "7"),
}


@pytest.mark.parametrize("case", WRONG)
def test_parts_with_another_sum_are_found_by_checks_and_told_in_training(case):
    made, who, total, reward = WRONG[case]
    with pytest.raises(ConformanceError, match=rf"{who} .*: {total} instead of {reward}$"):
        check_env(made)
    batch = SequentialVectorEnv([made, made])
    batch.reset([[0], [1]])
    with pytest.warns(MazeWarning, match=who) as told:
        _play(batch)
    assert [str(one.message) for one in told] == [str(told[0].message)] * 2, "one text, so it is shown once"


def _play(batch):
    for _ in range(30):
        batch.step({"pair": {"a": np.zeros(2, np.int64)}})


@pytest.mark.filterwarnings("error::maze_kernel.errors.MazeWarning")
def test_maze_check_says_where_and_says_it_once(kernel):
    path = f"{__name__}:misdivided"
    loaded = experiment_from_mapping({"name": "pairs", "env": {"use": path}, "trainer": {"use": "ppo"}}, kernel=kernel)
    with pytest.raises(EnvError, match="does not sum to the reward") as caught:
        check_environment(loaded, kernel, n_steps=20, seed=0)
    assert (caught.value.received, caught.value.expected[:4]) == ("parts with the sum -0.3", "0.3,")
    assert "environment 0, episode 0 (seed 0), step 2" in caught.value.owner


def misdivided():
    return env(lambda: Pairs([-0.5, -0.5]))()
