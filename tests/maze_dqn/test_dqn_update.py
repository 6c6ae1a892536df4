"""Values, targets and losses against loops written from the papers."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_dqn import values
from maze_dqn.options import DQNOptions
from maze_dqn.update import STATISTICS, ChoiceBatch, DQNUpdate
from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.models.action_encoding import ActionEncoder
from maze_runtime.models.masking import MASKED_LOGIT

SEGMENTS = (3, 4)
N_ROWS = 16


class Linear(torch.nn.Module):
    """Advantages and V are linear in what is observed; one choice of the first head may be masked."""

    def __init__(self):
        super().__init__()
        self.spaces = StructuredSpaces(
            observation={"0": spaces.Dict(x=spaces.Box(-1, 1, (5,), np.float32))},
            action={"0": spaces.Dict(a=spaces.Discrete(3), b=spaces.MultiDiscrete([4]))},
        )
        self.policy = torch.nn.Linear(5, sum(SEGMENTS))
        self.critic = torch.nn.Linear(5, 1)

    def logits(self, key, observation, agent_id=None):
        first, second = self.policy(observation["x"]).split(SEGMENTS, dim=-1)
        return {"a": first.masked_fill(observation["mask"] == 0, MASKED_LOGIT), "b": second}

    def logits_and_value(self, key, observation, agent_id=None):
        return self.logits(key, observation), self.critic(observation["x"])[:, 0]

    def policy_state_dict(self):
        return {name: tensor for name, tensor in self.state_dict().items() if name.startswith("policy")}


def observed(rng):
    mask = rng.random((N_ROWS, 3)) < 0.7
    mask[:, 1] = True
    return {"x": torch.from_numpy(rng.normal(size=(N_ROWS, 5)).astype(np.float32)), "mask": torch.from_numpy(mask)}


def drawn(rng):
    observation = observed(rng)
    chosen = np.zeros((N_ROWS, 2), np.int64)
    for row in range(N_ROWS):
        chosen[row] = rng.choice(np.flatnonzero(observation["mask"][row].numpy())), 3 + rng.integers(4)
    reward, weights = rng.normal(size=N_ROWS) * 2.0, rng.random(N_ROWS)
    discount = np.where(rng.random(N_ROWS) < 0.2, 0.0, 0.9)
    return ChoiceBatch(
        observation,
        torch.from_numpy(chosen),
        torch.from_numpy(reward.astype(np.float32)),
        observed(rng),
        torch.from_numpy(discount.astype(np.float32)),
        torch.from_numpy(weights.astype(np.float32)),
    )


def slow_values(model, x, mask, *, duelling):
    """Of one row: the values of the options of both choices, masked ones absent, from float64 weights."""
    a = model.policy.weight.detach().numpy().astype(float) @ x + model.policy.bias.detach().numpy()
    v = float(model.critic.weight.detach().numpy()[0].astype(float) @ x + model.critic.bias.detach().numpy()[0])
    first = {i: a[i] for i in range(3) if mask[i]}
    second = {i: a[3 + i] for i in range(4)}
    if not duelling:
        return first, second
    # equation 9 of Wang et al. for each choice; V once
    return tuple(
        {i: value - np.mean(list(choice.values())) + v / 2 for i, value in choice.items()} for choice in (first, second)
    )


def slow_loss(model, target_model, batch, options):
    terms, errors = [], []
    for row in range(N_ROWS):
        x, mask = batch.observation["x"][row].numpy().astype(float), batch.observation["mask"][row].numpy()
        after, after_mask = batch.next_observation["x"][row].numpy().astype(float), batch.next_observation["mask"][row]
        q = slow_values(model, x, mask, duelling=options.duelling)
        taken = int(batch.chosen[row, 0]), int(batch.chosen[row, 1]) - 3
        of_target = slow_values(target_model, after, after_mask, duelling=options.duelling)
        judge = slow_values(model, after, after_mask, duelling=options.duelling) if options.double else of_target
        best = [max(choice, key=choice.get) for choice in judge]
        future = sum(choice[option] for choice, option in zip(of_target, best, strict=True))
        y = float(batch.reward[row]) + float(batch.discount[row]) * future
        error = abs(y - sum(choice[option] for choice, option in zip(q, taken, strict=True)))
        errors.append(error)
        weight = 1.0 if batch.weights is None else float(batch.weights[row])
        terms.append(weight * (0.5 * error**2 if error < 1.0 else error - 0.5))
    return np.mean(terms), np.array(errors)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("duelling", [False, True])
def test_losses_and_errors_are_those_of_a_slow_version(double, duelling, weighted):
    torch.manual_seed(0)
    model, options = Linear(), DQNOptions(double=double, duelling=duelling, tau=0.3)
    update, rng = DQNUpdate(model, options), np.random.default_rng(3)
    for _ in range(3):  # target and trained network differ after the first
        batch = drawn(rng)
        batch = batch if weighted else batch._replace(weights=None)
        expected, errors = slow_loss(model, update._target.network, batch, options)
        before, target_before = model.policy.weight.detach().clone(), update._target.network.policy.weight.clone()
        statistics, found = update(0.05, {"0": batch})
        named = dict(zip(STATISTICS, statistics.tolist(), strict=False))
        assert named["loss"] == pytest.approx(expected, rel=1e-4)
        assert named["td_error"] == pytest.approx(errors.mean(), rel=1e-4)
        np.testing.assert_allclose(found[0].numpy(), errors if weighted else [], rtol=1e-3, atol=1e-4)
        assert not torch.equal(model.policy.weight, before)
        torch.testing.assert_close(
            update._target.network.policy.weight, target_before.lerp(model.policy.weight.detach(), 0.3)
        )


def test_without_duelling_the_critic_is_not_trained():
    model = Linear()
    before = model.critic.weight.detach().clone()
    DQNUpdate(model, DQNOptions())(0.05, {"0": drawn(np.random.default_rng(0))})
    assert torch.equal(model.critic.weight, before)


def test_a_last_observation_that_allows_nothing_is_worth_nothing_where_the_episode_ended():
    batch = drawn(np.random.default_rng(0))
    batch.next_observation["mask"][:] = False
    batch = batch._replace(discount=torch.zeros(N_ROWS))
    statistics, _ = DQNUpdate(Linear(), DQNOptions(double=False))(0.0, {"0": batch})
    assert statistics[0] < 100.0


def test_the_best_option_is_never_a_masked_one():
    q = torch.tensor([[MASKED_LOGIT, -5.0, -6.0, 0.0, 1.0, MASKED_LOGIT, 1.0]])
    assert values.best_options(q, SEGMENTS).tolist() == [[1, 4]]
    assert values.greatest_value(q, SEGMENTS).tolist() == [-4.0]
    centred = values.centred(q, SEGMENTS)[0]
    assert centred[1:3].tolist() == [0.5, -0.5]
    assert values.best_options(centred[None], SEGMENTS).tolist() == [[1, 4]]


def test_bits_have_two_values_and_masked_ones_only_that_of_zero():
    pairs = values.of_bits(torch.tensor([[3.0, -1.0, MASKED_LOGIT]]))
    assert pairs.tolist() == [[-1.5, 1.5, 0.5, -0.5, 0.0, MASKED_LOGIT]]
    assert values.best_options(pairs, (2, 2, 2)).tolist() == [[1, 2, 4]]


def test_columns_of_actions_are_those_of_their_one_hots():
    space = spaces.Dict(
        a=spaces.Discrete(3, start=5),
        b=spaces.MultiDiscrete([[2, 4], [3, 2]]),
        c=spaces.MultiBinary(3),
        d=spaces.MultiDiscrete([2, 3], start=[-1, 7]),
    )
    encoder = ActionEncoder(space)
    columns = values.ChoiceColumns({name: space[name] for name in encoder.choices}, encoder.segments)
    space.seed(0)
    sampled = [space.sample() for _ in range(20)]
    action = {name: np.stack([row[name] for row in sampled]) for name in space}
    one_hots = encoder.encode({name: torch.from_numpy(array) for name, array in action.items()}).numpy()
    expected = np.zeros_like(one_hots)
    np.put_along_axis(expected, columns(action), 1.0, axis=1)
    np.testing.assert_array_equal(one_hots, expected)


def test_q_comes_to_the_values_of_a_known_process():
    """A chain of two states: stay (reward 0) or leave (1, then 10 from the second): Q* from the Bellman equation."""
    gamma = 0.9
    model = Tabular()
    update = DQNUpdate(model, DQNOptions(double=True, tau=0.1))
    state, action = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1])
    batch = ChoiceBatch(
        {"state": state},
        action[:, None],
        torch.tensor([0.0, 1.0, 0.0, 10.0]),
        {"state": torch.tensor([0, 1, 1, 0])},
        torch.tensor([gamma, gamma, gamma, 0.0]),
        torch.ones(4),
    )
    for _ in range(1500):
        update(0.05, {"0": batch})
    # Q*(1) = [0.9 * 10, 10]; Q*(0) = [0.9 * (1 + 0.9 * 10), 1 + 0.9 * 10]
    torch.testing.assert_close(model.table, torch.tensor([[9.0, 10.0], [9.0, 10.0]]), atol=0.05, rtol=0.0)


class Tabular(torch.nn.Module):
    """One logit a state and action."""

    def __init__(self):
        super().__init__()
        self.spaces = StructuredSpaces(
            observation={"0": spaces.Dict(state=spaces.Discrete(2))}, action={"0": spaces.Dict(a=spaces.Discrete(2))}
        )
        self.table = torch.nn.Parameter(torch.zeros(2, 2))

    def logits(self, key, observation, agent_id=None):
        return {"a": self.table[observation["state"]]}

    def policy_state_dict(self):
        return self.state_dict()
