"""Rollouts side by side in a batch: rows, truncations, bootstraps."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from maze_impala.batch import LOG_PROB, BatchBuffer, make_batch, rollout_columns


@pytest.fixture
def model(assemble):
    return SimpleNamespace(spaces=assemble().spaces)


class Sum:
    """Values an observation by the sum of its numbers."""

    def value(self, _key, observation):
        return observation["observation"].sum(-1)


def numbered(model, n_steps, n_envs, first):
    """Columns whose numbers tell where they come from: environment e, step t is (first + e) * 100 + t."""
    columns = rollout_columns(model, n_steps, n_envs)
    number = (first + np.arange(n_envs)) * 100 + np.arange(n_steps)[:, None]
    columns["reward"][...] = columns[LOG_PROB][...] = number
    columns["observation/observation"][...] = number[..., None]
    columns["last_observation/observation"][...] = (number[-1] + 1)[:, None]
    return columns


def final(value):
    return {"observation": np.full((1, 4), value, np.float32)}


def test_rollouts_of_several_workers_stand_side_by_side(model):
    buffer = BatchBuffer(model, 3, 4)
    buffer.clear()
    first, second = numbered(model, 3, 3, 0), numbered(model, 3, 2, 3)
    buffer.add(first, slice(1, 3), [(2, np.array([0, 2]), {"observation": np.full((2, 4), [[7], [8]])})], 5)
    assert buffer.n_free == 2
    buffer.add(second, slice(0, 2), [(0, np.array([1]), final(9.0))], 6)
    assert buffer.n_free == 0
    assert buffer.rollouts.reward.tolist() == [[100, 200, 300, 400], [101, 201, 301, 401], [102, 202, 302, 402]]
    np.testing.assert_array_equal(buffer.rollouts.observation["observation"][..., 0], buffer.rollouts.reward)
    np.testing.assert_array_equal(buffer.log_prob, buffer.rollouts.reward)
    assert buffer.rollouts.last_observation["observation"][:, 0].tolist() == [103, 203, 303, 403]
    assert buffer.version.tolist() == [5, 5, 6, 6]
    cut = buffer.rollouts.truncations
    assert [(step, index.tolist(), rows["observation"][:, 0].tolist()) for step, index, rows in cut] == [
        (2, [1], [8.0]),
        (0, [3], [9.0]),
    ]


def test_what_follows_a_row_is_valued_where_it_is_not_the_next_row(model):
    buffer = BatchBuffer(model, 3, 2)
    buffer.clear()
    columns = numbered(model, 3, 2, 1)
    columns["terminated"][0, 0] = columns["truncated"][1, 1] = columns["truncated"][2, 0] = columns["void"][2, 1] = True
    buffer.add(columns, slice(0, 2), [(1, np.array([1]), final(50.0)), (2, np.array([0]), final(60.0))], 0)
    batch = make_batch(buffer, Sum(), torch.device("cpu"), gamma=0.9, reward_clipping="abs_one")
    assert batch.bootstraps.tolist() == [[False, False], [False, True], [True, True]]
    assert batch.bootstrap[1, 1] == 200.0
    assert batch.bootstrap[2].tolist() == [240.0, 4 * 203.0]
    np.testing.assert_allclose(batch.discount, [[0.0, 0.9], [0.9, 0.9], [0.9, 0.9]])
    assert batch.continues.tolist() == [[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]
    assert batch.weight.tolist() == [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    assert (batch.reward == 1.0).all()
    np.testing.assert_array_equal(batch.observation["observation"].view(3, 2, 4)[..., 0], buffer.rollouts.reward)
    assert buffer.n_env_steps() == 5
    assert not any(tensor.requires_grad for tensor in (batch.bootstrap, batch.reward))


def test_a_new_batch_forgets_the_truncations_of_the_last_one(model):
    buffer = BatchBuffer(model, 3, 1)
    buffer.clear()
    buffer.add(numbered(model, 3, 1, 0), slice(0, 1), [(2, np.array([0]), final(9.0))], 0)
    buffer.clear()
    buffer.add(numbered(model, 3, 1, 0), slice(0, 1), [], 0)
    batch = make_batch(buffer, Sum(), torch.device("cpu"), gamma=0.9, reward_clipping="none")
    assert batch.bootstrap[2].tolist() == [4 * 3.0]
