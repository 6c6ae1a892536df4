"""What acts and what the environment draws are independent, although one seed says both."""

from collections import Counter

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.vector import Group
from maze_runtime.context import RunContext
from maze_runtime.rollout.epsilon_greedy import EpsilonGreedy
from maze_runtime.rollout.heuristic import Heuristic

N_EPISODES = 200
SURE = 4 * 0.5 / N_EPISODES**0.5
"""Four standard errors of a fair coin."""


class Coin(gymnasium.Env):
    """Guess a coin that is not shown: nobody can do better than one half."""

    observation_space = spaces.Box(0.0, 1.0, (1,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.coin = self.np_random.integers(2)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), float(action == self.coin), True, False, {}


class Guess(Heuristic):
    """Draws as Gymnasium's environments do."""

    def act_one(self, observation, moment):
        return self.rng.integers(2)


@pytest.mark.parametrize("policy", ["random", {"use": f"{__name__}:Guess"}])
def test_policies_guess_a_coin_that_the_environment_throws_half_of_the_time(policy):
    result = RunContext(env=Coin, silent=True).rollout(N_EPISODES, policy=policy)
    assert result.summary["reward"]["mean"] == pytest.approx(0.5, abs=SURE)


def test_samples_of_a_trained_policy_guess_it_half_of_the_time():
    context = RunContext(env=Coin, trainer={"use": "ppo", "n_epochs": 1}, silent=True, seed=3)
    context.train()
    result = context.rollout(N_EPISODES, deterministic=False)
    assert result.summary["reward"]["mean"] == pytest.approx(0.5, abs=SURE)


class Greedy:
    """Implements `Policy`: an action that is none."""

    def act(self, policy_key, group, deterministic=False):
        return {"action": np.full(len(group.env_index), -1)}

    def seed(self, seed):
        pass


@pytest.mark.parametrize("n_envs", [1, 8])
def test_how_is_explored_does_not_follow_from_the_number_that_says_whether(n_envs):
    observation = {"o": spaces.Box(0.0, 1.0, (1,)), "action_mask": spaces.MultiBinary(2)}
    of_all = StructuredSpaces(
        observation={"p": spaces.Dict(observation)},
        action={"p": spaces.Dict({"action": spaces.Discrete(2)})},
        agent_counts={"p": 1},
    )
    policy, drawn = EpsilonGreedy(Greedy(), of_all, epsilon=0.1), Counter()
    arrays = {"o": np.zeros((n_envs, 1), np.float32), "action_mask": np.ones((n_envs, 2), np.int8)}
    group = Group(np.arange(n_envs), np.zeros(n_envs, int), arrays)
    for seed in range(3000):
        policy.seed(seed)
        for step in range(3):
            drawn[step, int(policy.act("p", group)["action"][0])] += 1
    for step in range(3):
        n = drawn[step, 0] + drawn[step, 1]
        assert n == pytest.approx(300, abs=4 * 270**0.5)
        assert drawn[step, 0] == pytest.approx(n / 2, abs=4 * (n / 4) ** 0.5)
