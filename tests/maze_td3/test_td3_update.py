"""Targets, losses and steps against loops written from the paper, and DDPG as the limit of both."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.models.action_encoding import ActionEncoder
from maze_td3.options import TD3Options
from maze_td3.update import NumberBatch, TD3Update

N_ROWS = 12
BOX = spaces.Dict(torque=spaces.Box(-2.0, 4.0, (2,), np.float32))
"""Half width 3, centre 1."""


class Squashed:
    """A head whose mode is 1 + 3 tanh(logits)."""

    logits_shape = (2,)

    def mode(self, logits):
        return 1.0 + 3.0 * logits.tanh()


class Heads:
    def __init__(self):
        self.heads = {"torque": Squashed()}


class Quadratic(torch.nn.Module):
    """Q_i(s, a) = w_i·[s, a, a²] of each of two critics."""

    def __init__(self):
        super().__init__()
        self.action_encoder = ActionEncoder(BOX)
        self.weights = torch.nn.Parameter(torch.randn(2, 3 + 2 + 2))

    def forward(self, observation, encoded_action=None):
        return self.weights @ torch.cat([observation["x"], encoded_action, encoded_action**2], dim=-1).T

    def first(self, observation, encoded_action):
        return self(observation, encoded_action)[0]


class Linear(torch.nn.Module):
    """μ(s) = 1 + 3 tanh(W s + b)."""

    def __init__(self):
        super().__init__()
        self.spaces = StructuredSpaces(
            observation={"0": spaces.Dict(x=spaces.Box(-1, 1, (3,), np.float32))}, action={"0": BOX}
        )
        self.distributions = {"0": Heads()}
        self.policy = torch.nn.Linear(3, 2)
        self.critic = Quadratic()

    def logits(self, key, observation, agent_id=None):
        return {"torque": self.policy(observation["x"])}

    def action_value_critic(self, key):
        return self.critic


def drawn(rng, update):
    def floats(*shape):
        return torch.from_numpy(rng.normal(size=shape).astype(np.float32))

    discount = np.where(rng.random(N_ROWS) < 0.3, 0.0, 0.97).astype(np.float32)
    noise = torch.from_numpy(update.noise("0", N_ROWS, rng))
    action = torch.from_numpy(rng.uniform(-1, 1, (N_ROWS, 2)).astype(np.float32))
    return NumberBatch(
        {"x": floats(N_ROWS, 3)}, action, floats(N_ROWS), {"x": floats(N_ROWS, 3)}, torch.from_numpy(discount), noise
    )


def slow_q(critic, x, a):
    w = critic.weights.detach().numpy().astype(float)
    return w @ np.concatenate([x, a, a**2])


def slow_mu(model, x):
    """In the encoding that Q networks read: a − 1 over 3."""
    z = model.policy.weight.detach().numpy().astype(float) @ x + model.policy.bias.detach().numpy()
    return np.tanh(z)


@pytest.mark.parametrize("twin", [True, False])
@pytest.mark.parametrize("target_noise", [0.0, 0.7])
def test_the_loss_of_the_q_networks_is_that_of_a_slow_version(twin, target_noise):
    torch.manual_seed(0)
    model, rng = Linear(), np.random.default_rng(1)
    options = TD3Options(twin=twin, target_noise=target_noise, policy_delay=1, tau=0.25)
    update = TD3Update(model, options)
    for _ in range(3):  # target and trained networks differ after the first
        batch, target = drawn(rng, update), update._target.network
        expected, values = 0.0, []
        for row in range(N_ROWS):
            x, after = batch.observation["x"][row].numpy(), batch.next_observation["x"][row].numpy()
            a = np.clip(slow_mu(target, after) + batch.noise[row].numpy(), -1.0, 1.0)
            of_target = slow_q(target.critic, after, a)
            y = float(batch.reward[row]) + float(batch.discount[row]) * (of_target.min() if twin else of_target[0])
            q = slow_q(model.critic, x, batch.action[row].numpy())[: 2 if twin else 1]
            expected += float(((q - y) ** 2).sum()) / N_ROWS
            values.append(q)
        before = model.critic.weights.detach().clone()
        of_critics, of_policies = update(0.01, {"0": batch})
        assert float(of_critics[0]) == pytest.approx(expected, rel=1e-4)
        assert float(of_critics[1]) == pytest.approx(np.mean(values), rel=1e-3, abs=1e-5)
        assert of_policies is not None
        changed = (model.critic.weights.detach() != before).any(dim=1)
        assert changed.tolist() == [True, twin]


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_follows_a_terminal_transition_may_have_no_value(compiled):
    """Networks that divide by a norm have none where nothing was seen."""
    torch.manual_seed(0)
    model, rng = Linear(), np.random.default_rng(1)
    update = TD3Update(model, TD3Options(policy_delay=1, compile=compiled))
    batch = drawn(rng, update)
    unseen = torch.where(batch.discount[:, None] > 0, batch.next_observation["x"], torch.nan)
    assert unseen.isnan().any()
    of_critics, _ = update(0.01, {"0": batch._replace(next_observation={"x": unseen})})
    assert of_critics.isfinite().all()


def test_the_policy_climbs_the_first_q_network():
    """One step of Adam has the size of the learning rate and the sign of the gradient, here by differences."""
    torch.manual_seed(0)
    model, rng = Linear(), np.random.default_rng(1)
    update = TD3Update(model, TD3Options(policy_delay=1))
    batch = drawn(rng, update)

    def objective(bias):
        with torch.no_grad():
            model.policy.bias.copy_(torch.from_numpy(bias.astype(np.float32)))
        rows = batch.observation["x"].numpy()
        return np.mean([slow_q(model.critic, x, slow_mu(model, x))[0] for x in rows])

    bias, rate = model.policy.bias.detach().numpy().astype(float).copy(), 1e-3
    slopes = [(objective(bias + d) - objective(bias - d)) / 2e-3 for d in (np.array([1e-3, 0]), np.array([0, 1e-3]))]
    value = objective(bias)
    found = update._policy_step(rate, {"0": batch.observation})
    assert float(found[0]) == pytest.approx(-value, rel=1e-4)
    np.testing.assert_allclose(model.policy.bias.detach().numpy() - bias, rate * np.sign(slopes), rtol=1e-2)


def test_policy_and_targets_move_every_few_updates():
    model, rng = Linear(), np.random.default_rng(1)
    update = TD3Update(model, TD3Options(policy_delay=3, tau=0.5))
    policy, target = model.policy.weight.detach().clone(), update._target.network.critic.weights.clone()
    for turn in (1, 2, 3):
        _, of_policies = update(0.01, {"0": drawn(rng, update)})
        moved = turn == 3
        assert (of_policies is not None) is moved
        assert torch.equal(model.policy.weight, policy) is not moved
        assert torch.equal(update._target.network.critic.weights, target) is not moved
    torch.testing.assert_close(update._target.network.critic.weights, target.lerp(model.critic.weights.detach(), 0.5))


def test_noise_has_its_size_and_is_cut():
    update, rng = TD3Update(Linear(), TD3Options(target_noise=0.2, target_noise_clip=0.3)), np.random.default_rng(0)
    noise = update.noise("0", 5000, rng)
    assert noise.shape == (5000, 2)
    assert np.abs(noise).max() == pytest.approx(0.3)
    inside = np.abs(noise) < 0.3
    assert 0.85 < inside.mean() < 0.88  # a normal number lies within 1.5 standard deviations
    assert not update.__class__(Linear(), TD3Options(target_noise=0.0)).noise("0", 5, rng).any()
