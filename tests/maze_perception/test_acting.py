"""A policy that acts with a built model: the NumPy mirror and torch take the same actions, masks hold."""

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.vector import Group
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.masking import MaskError
from maze_runtime.models.network_policy import NetworkPolicy

SPACES = flat_spaces(
    spaces.Dict(observation=spaces.Box(-1.0, 1.0, (4,)), choice_mask=spaces.MultiBinary(3)),
    spaces.Dict(choice=spaces.Discrete(3), force=spaces.Box(-1.0, 1.0, (2,))),
)


def group(rows=6, mask=(1, 0, 1)):
    return Group(
        env_index=np.arange(rows),
        agent_id=np.zeros(rows, np.int64),
        observation={
            "observation": np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32),
            "choice_mask": np.tile(np.array(mask, np.int8), (rows, 1)),
        },
    )


@pytest.mark.parametrize("deterministic", [True, False])
def test_mirror_and_torch_take_the_same_actions(make_model, deterministic):
    model = make_model(SPACES)
    actions = [
        NetworkPolicy(model, seed=1, mirror=mirror).act("0", group(), deterministic=deterministic)
        for mirror in (True, False)
    ]
    np.testing.assert_array_equal(actions[0]["choice"], actions[1]["choice"])
    np.testing.assert_allclose(actions[0]["force"], actions[1]["force"], atol=1e-5)
    assert actions[0]["force"].dtype == np.float32


@pytest.mark.parametrize("mirror", [True, False])
def test_masked_choices_are_never_taken_and_full_masks_name_the_head(make_model, mirror):
    policy = NetworkPolicy(make_model(SPACES), seed=1, mirror=mirror)
    assert set(policy.act("0", group(rows=500))["choice"].tolist()) == {0, 2}
    for deterministic in (True, False):
        with pytest.raises(MaskError, match="'choice'"):
            policy.act("0", group(mask=(0, 0, 0)), deterministic=deterministic)


def test_a_restored_policy_continues_its_random_stream(make_model):
    model = make_model(SPACES)
    policy = NetworkPolicy(model, seed=1)
    policy.act("0", group())
    state = policy.state_dict()
    expected = policy.act("0", group())["force"]
    other = NetworkPolicy(model, seed=2)
    other.load_state_dict(state)
    np.testing.assert_array_equal(other.act("0", group())["force"], expected)
