"""From a collected rollout to rows: what followed each decision, which rows count, how minibatches are cut."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_ppo.flat_estimator import FlatEstimator, next_values
from maze_runtime.env.flat import flat_spaces
from maze_runtime.models.observation_encoding import ObservationEncoder
from maze_runtime.rollout.buffer import RolloutBuffer

GAMMA, LAMBDA = 0.9, 0.8


class SumOfObservation:
    """A model whose value is the sum of the observation and whose log-probability is its first entry."""

    spaces = flat_spaces(
        spaces.Dict({"observation": spaces.Box(-1, 1, (2,), np.float32)}), spaces.Dict({"action": spaces.Discrete(2)})
    )

    @property
    def distributions(self):
        return {"0": self}

    def log_prob(self, logits, action):
        return logits["action"]

    def value(self, key, observation, agent_id=None):
        return observation["observation"].sum(-1)

    def logits_and_value(self, key, observation, agent_id=None):
        return {"action": observation["observation"][:, 0]}, self.value(key, observation)


@pytest.fixture
def model():
    return SumOfObservation()


@pytest.fixture
def buffer(model):
    rng = np.random.default_rng(0)
    buffer = RolloutBuffer(model.spaces, "0", 5, 3)
    buffer.observation["observation"][...] = rng.normal(size=(5, 3, 2))
    buffer.last_observation["observation"][...] = rng.normal(size=(3, 2))
    buffer.reward[...] = rng.normal(size=(5, 3))
    buffer.terminated[1, 0] = True
    buffer.truncated[2, 1] = True
    buffer.truncated[4, 2] = True
    buffer.add_truncation(2, np.array([1]), {"observation": np.array([[0.5, 0.25]], np.float32)})
    buffer.add_truncation(4, np.array([2]), {"observation": np.array([[2.0, 1.0]], np.float32)})
    return buffer


def estimate(buffer, model, **options):
    estimator = FlatEstimator(model, torch.device("cpu"), gamma=GAMMA, gae_lambda=LAMBDA, **options)
    return estimator.estimate(buffer)


def values(buffer):
    return buffer.observation["observation"].sum(-1)


def test_next_values_come_from_the_final_observation_where_an_episode_was_cut(buffer, model):
    result = next_values(buffer, model, values(buffer), torch.device("cpu"))
    expected = np.concatenate([values(buffer)[1:], buffer.last_observation["observation"].sum(-1)[None]])
    expected[2, 1] = 0.75
    expected[4, 2] = 3.0
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_rows_match_a_slow_walk(buffer, model):
    batch = estimate(buffer, model)
    following = next_values(buffer, model, values(buffer), torch.device("cpu"))
    for n in range(3):
        advantage = 0.0
        for t in reversed(range(5)):
            ended = buffer.terminated[t, n] or buffer.truncated[t, n]
            bootstrap = 0.0 if buffer.terminated[t, n] else GAMMA * following[t, n]
            advantage = (
                buffer.reward[t, n] + bootstrap - values(buffer)[t, n] + GAMMA * LAMBDA * advantage * (not ended)
            )
            row = t * 3 + n
            assert float(batch.advantages[row]) == pytest.approx(advantage, rel=1e-4, abs=1e-5)
            assert float(batch.returns[row]) == pytest.approx(advantage + values(buffer)[t, n], rel=1e-4, abs=1e-5)
            np.testing.assert_array_equal(
                batch.observation["observation"][row], buffer.observation["observation"][t, n]
            )


@pytest.mark.parametrize(
    ("limit", "most", "rows"),
    [("NUMBERS", 1, 1), ("NUMBERS", 7, 3), ("NUMBERS", 30, 15), ("ROWS", 1, 1), ("ROWS", 4, 4), ("ROWS", 16, 15)],
)
def test_large_observations_and_many_of_them_are_valued_part_by_part(monkeypatch, buffer, model, limit, most, rows):
    whole, sizes = estimate(buffer, model), []
    evaluate = model.logits_and_value
    model.logits_and_value = lambda key, rows: sizes.append(len(rows["observation"])) or evaluate(key, rows)
    monkeypatch.setattr(f"maze_ppo.flat_estimator._{limit}_AT_ONCE", most)
    parts = estimate(buffer, model)
    assert max(sizes) == rows
    assert sum(sizes) == 15
    for ours, theirs in zip(parts.columns().values(), whole.columns().values(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("numbers", [7, 1000])
def test_values_and_advantages_are_the_same_where_nobody_needs_log_probabilities(monkeypatch, buffer, model, numbers):
    monkeypatch.setattr("maze_ppo.flat_estimator._NUMBERS_AT_ONCE", numbers)
    buffer.void[2, 0] = True
    expected, result = estimate(buffer, model), estimate(buffer, model, needs_log_prob=False)
    assert result.log_prob is None
    assert all(part.log_prob is None for part in result.minibatches(4, np.random.default_rng(0)))
    columns = expected.columns()
    del columns["log_prob"]
    assert list(result.columns()) == list(columns)
    for ours, theirs in zip(result.columns().values(), columns.values(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_void_decisions_are_left_out_or_weigh_nothing(buffer, model):
    buffer.void[2, 0] = True
    dropped = estimate(buffer, model)
    kept = estimate(buffer, model, fixed_size=True)
    assert dropped.n_rows() == 14
    assert dropped.weight is None
    assert kept.n_rows() == 15
    assert kept.weight.tolist() == [1.0] * 14 + [0.0]
    torch.testing.assert_close(kept.advantages[:14], dropped.advantages)


@pytest.mark.parametrize("void", [[], [(2, 0)], [(0, 1), (2, 0), (2, 1), (3, 2), (4, 0)]])
@pytest.mark.parametrize("size", [1, 4, 5, 15, 40])
def test_minibatches_for_compiled_code_count_the_decisions_of_the_eager_ones(buffer, model, void, size):
    for step, env in void:
        buffer.void[step, env] = True
    eager = estimate(buffer, model).minibatches(size, np.random.default_rng(3))
    fixed = estimate(buffer, model, fixed_size=True).minibatches(size, np.random.default_rng(3))
    for ours, theirs in zip(fixed, eager, strict=True):
        assert ours.n_rows() == size
        n_counted = theirs.n_rows() if theirs.weight is None else int(theirs.weight.sum())
        assert ours.weight.tolist() == [1.0] * n_counted + [0.0] * (size - n_counted)
        for name, column in theirs.columns().items():
            assert torch.equal(ours.columns()[name][:n_counted], column[:n_counted])


@pytest.mark.parametrize(("size", "sizes"), [(5, [5, 5, 5]), (4, [4, 4, 4, 2]), (15, [15]), (8, [8, 7]), (20, [15])])
def test_few_void_decisions_leave_the_last_minibatch_its_size(buffer, model, size, sizes):
    """A quarter of it at most is filled up with decisions that weigh nothing."""
    buffer.void[2, 0] = True
    parts = list(estimate(buffer, model).minibatches(size, np.random.default_rng(0)))
    assert [part.n_rows() for part in parts] == sizes
    assert all(part.weight is None for part in parts[:-1])
    n_counted = [part.n_rows() if part.weight is None else int(part.weight.sum()) for part in parts]
    assert sum(n_counted) == 14
    assert parts[-1].n_rows() == n_counted[-1] or parts[-1].weight.tolist()[-1] == 0.0


def test_large_minibatches_are_not_filled_up(monkeypatch, buffer, model):
    monkeypatch.setattr("maze_ppo.flat_batch.MOST_FILLED_ROWS", 4)
    buffer.void[2, 0] = True
    parts = list(estimate(buffer, model).minibatches(5, np.random.default_rng(0)))
    assert [part.n_rows() for part in parts] == [5, 5, 4]


def test_minibatches_cover_every_row_once(buffer, model):
    batch = estimate(buffer, model)
    parts = list(batch.minibatches(4, np.random.default_rng(0)))
    assert [part.n_rows() for part in parts] == [4, 4, 4, 3]
    rows = torch.cat([part.advantages for part in parts])
    torch.testing.assert_close(rows.sort().values, batch.advantages.sort().values)


def test_weighted_minibatches_are_all_of_one_size(buffer, model):
    batch = estimate(buffer, model, fixed_size=True)
    parts = list(batch.minibatches(4, np.random.default_rng(0)))
    assert [part.n_rows() for part in parts] == [4, 4, 4, 4]
    assert sum(float(part.weight.sum()) for part in parts) == 15.0
    counted = torch.cat([part.advantages[part.weight > 0] for part in parts])
    torch.testing.assert_close(counted.sort().values, batch.advantages.sort().values)


def test_images_are_turned_once_a_rollout_for_all_minibatches():
    class Brightness(SumOfObservation):
        spaces = flat_spaces(
            spaces.Dict({"observation": spaces.Box(0, 255, (4, 9, 9), np.uint8)}),
            spaces.Dict({"action": spaces.Discrete(2)}),
        )

        def value(self, key, observation, agent_id=None):
            return observation["observation"].float().mean((1, 2, 3))

        def logits_and_value(self, key, observation, agent_id=None):
            return {"action": observation["observation"][:, 0, 0, 0].float()}, self.value(key, observation)

        def arranged(self, key, observation):
            return ObservationEncoder(self.spaces.observation[key]).arranged(observation)

    frames = np.random.default_rng(0).integers(0, 256, (5, 3, 4, 9, 9), np.uint8)
    buffer = RolloutBuffer(Brightness.spaces, "0", 5, 3)
    buffer.observation["observation"][...] = frames
    batch = estimate(buffer, Brightness())
    torch.testing.assert_close(
        batch.value.numpy(), frames.reshape(15, -1).mean(1), rtol=1e-5, atol=0, check_dtype=False
    )
    for minibatch in batch.minibatches(4, np.random.default_rng(1)):
        images = minibatch.observation["observation"]
        assert images.shape[1:] == (4, 9, 9)
        assert images.permute(0, 2, 3, 1).is_contiguous()
        torch.testing.assert_close(images.float().mean((1, 2, 3)), minibatch.value)
