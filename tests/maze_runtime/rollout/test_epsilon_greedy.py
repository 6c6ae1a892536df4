"""Exploration around a policy: how often, masks, seeds."""

import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.vector import Group
from maze_runtime.env.flat import flat_spaces
from maze_runtime.rollout.epsilon_greedy import EpsilonGreedy
from maze_runtime.rollout.rule_policy import RulePolicy
from maze_testing.policies import check_policy

SPACES = flat_spaces(
    spaces.Dict(x=spaces.Box(0.0, 1.0, (1,)), pick_mask=spaces.MultiBinary(4)),
    spaces.Dict(pick=spaces.Discrete(4), steer=spaces.Box(-1.0, 1.0, (2,), np.float32)),
)
N = 20_000


class Third(RulePolicy):
    """The third choice, and straight on; does not like to be asked for samples."""

    def act(self, policy_key, group, *, deterministic=False):
        assert deterministic
        n = len(group.env_index)
        return {"pick": np.full(n, 2), "steer": np.zeros((n, 2), np.float32)}


def group(mask):
    observation = {"x": np.zeros((N, 1), np.float32), "pick_mask": np.tile(np.array(mask, np.int8), (N, 1))}
    return Group(np.arange(N), np.zeros(N, np.int64), observation)


def test_it_conforms():
    check_policy(lambda: EpsilonGreedy(Third(), SPACES, epsilon=0.5, seed=3), SPACES)


def test_a_share_of_the_actions_is_uniform_over_what_the_mask_allows():
    policy = EpsilonGreedy(Third(), SPACES, epsilon=0.4)
    action = policy.act("0", group([1, 0, 1, 1]))
    shares = np.bincount(action["pick"], minlength=4) / N
    np.testing.assert_allclose(shares, [0.4 / 3, 0.0, 0.6 + 0.4 / 3, 0.4 / 3], atol=0.02)
    explored = (action["steer"] != 0).any(-1)
    np.testing.assert_allclose(explored.mean(), 0.4, atol=0.02)
    assert not (explored & (action["pick"] == 2)).all()


def test_deterministic_and_with_epsilon_0_it_is_the_policy():
    for policy, deterministic in (
        (EpsilonGreedy(Third(), SPACES, epsilon=1.0), True),
        (EpsilonGreedy(Third(), SPACES), False),
    ):
        action = policy.act("0", group([1, 1, 1, 1]), deterministic=deterministic)
        assert set(action["pick"].tolist()) == {2}


def test_epsilon_is_saved_with_the_random_state():
    policy = EpsilonGreedy(Third(), SPACES, epsilon=0.3, seed=1)
    policy.act("0", group([1, 1, 1, 1]))
    twin = EpsilonGreedy(Third(), SPACES, seed=9)
    twin.load_state_dict(policy.state_dict())
    assert twin.epsilon == 0.3
    np.testing.assert_array_equal(*(each.act("0", group([1, 1, 1, 1]))["steer"] for each in (policy, twin)))
