"""The losses against NumPy, their gradients against finite differences, and the loss of a batch put together."""

import numpy as np
import pytest
import torch
from torch import nn

from maze_impala import losses
from maze_impala.batch import VTraceBatch
from maze_impala.options import ImpalaOptions
from maze_impala.update import STATISTICS, impala_loss
from maze_impala.vtrace import vtrace
from maze_runtime.training.loss_terms import policy_gradient_losses
from maze_runtime.training.weighted import weighted_mean


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(6, 3, generator=generator, dtype=torch.float64)  # noqa: E731
    weight = torch.ones(6, 3, dtype=torch.float64)
    weight[2, 1] = weight[4, 0] = 0.0
    return draw(), draw(), weight


def test_losses_against_numpy(data):
    x, y, weight = data
    a, b, keep = x.numpy(), y.numpy(), weight.numpy().astype(bool)
    mean = lambda values: values[keep].mean()  # noqa: E731
    assert float(weighted_mean(policy_gradient_losses(x, y), weight)) == pytest.approx(-mean(a * b))
    assert float(weighted_mean(losses.value_losses(x, y), weight)) == pytest.approx(mean((b - a) ** 2))
    assert float(losses.approximate_kl(x, weight)) == pytest.approx(mean(np.exp(a) - 1 - a))


def test_gradients_against_finite_differences(data):
    x, y, weight = data
    x.requires_grad_()
    for loss in (policy_gradient_losses, losses.value_losses):
        assert torch.autograd.gradcheck(lambda value, loss=loss: weighted_mean(loss(value, y), weight), (x,))


def test_rows_without_weight_have_no_gradient(data):
    x, y, weight = data
    x.requires_grad_()
    weighted_mean(losses.value_losses(x, y), weight).backward()
    assert (x.grad[weight == 0] == 0).all()
    assert (x.grad[weight == 1] != 0).all()


def test_reward_clipping():
    reward = torch.tensor([-100.0, -0.5, 0.0, 0.5, 100.0])
    assert losses.clip_reward(reward, "none") is reward
    assert losses.clip_reward(reward, "abs_one").tolist() == [-1.0, -0.5, 0.0, 0.5, 1.0]
    soft = losses.clip_reward(reward, "soft_asymmetric").numpy()
    tanh = np.tanh(reward.numpy() / 5)
    np.testing.assert_allclose(soft, 5 * np.where(tanh < 0, 0.3 * tanh, tanh), rtol=1e-6)
    assert soft.min() == pytest.approx(-1.5)
    assert soft.max() == pytest.approx(5.0)


def test_soft_asymmetric_rewards_are_those_of_the_authors_code_and_not_of_the_papers_figure():
    """Both end at 5; the code keeps small gains as they are, figure D.1 makes five times as much of them."""
    small = torch.tensor([-1e-3, 1e-3])
    soft = losses.clip_reward(small, "soft_asymmetric")
    np.testing.assert_allclose(soft, [-0.3e-3, 1e-3], rtol=1e-5)
    of_figure = 0.3 * np.minimum(np.tanh(small), 0) + 5.0 * np.maximum(np.tanh(small), 0)
    np.testing.assert_allclose(of_figure, [-0.3e-3, 5e-3], rtol=1e-5)


class TabularHead:
    """A categorical distribution with the two methods that the loss asks for."""

    def log_prob_and_entropy(self, logits, action):
        log_probs = logits["a"].log_softmax(-1)
        entropy = -(log_probs.exp() * log_probs).sum(-1)
        return log_probs.gather(-1, action["a"][:, None]).squeeze(-1), entropy


class Linear(nn.Module):
    """A policy and a critic that are one linear map each."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.policy = nn.Linear(2, 3).double()
        self.critic = nn.Linear(2, 1).double()
        self.distributions = {"0": TabularHead()}

    def logits_and_value(self, _key, observation):
        return {"a": self.policy(observation["x"])}, self.critic(observation["x"]).squeeze(-1)


def make_rows(seed=0, shape=(5, 2)):
    generator = torch.Generator().manual_seed(seed)
    n_rows = shape[0] * shape[1]
    draw = lambda *size: torch.randn(*size, generator=generator, dtype=torch.float64)  # noqa: E731
    bootstraps = torch.zeros(shape, dtype=torch.bool)
    bootstraps[-1] = bootstraps[2, 0] = True
    continues = torch.ones(shape, dtype=torch.float64)
    continues[2, 0] = continues[1, 1] = 0.0
    discount = torch.full(shape, 0.9, dtype=torch.float64)
    discount[1, 1] = 0.0
    return VTraceBatch(
        observation={"x": draw(n_rows, 2)},
        action={"a": torch.randint(3, (n_rows,), generator=generator)},
        log_prob=draw(*shape) * 0.3 - 1.1,
        reward=draw(*shape),
        discount=discount,
        continues=continues,
        bootstrap=draw(*shape),
        bootstraps=bootstraps,
        weight=torch.ones(shape, dtype=torch.float64),
    )


COEFFICIENTS = torch.tensor([0.7, 0.4, -0.05], dtype=torch.float64)


def test_the_loss_of_a_batch_is_what_its_parts_say():
    """Everything recomputed in NumPy from the networks' outputs."""
    model, rows = Linear(), make_rows()
    total, statistics = impala_loss("0", ImpalaOptions())(model, rows, COEFFICIENTS)
    x = rows.observation["x"].numpy()
    logits = x @ model.policy.weight.detach().numpy().T + model.policy.bias.detach().numpy()
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    value = (x @ model.critic.weight.detach().numpy().T + model.critic.bias.detach().numpy()).reshape(5, 2)
    log_prob = log_probs[np.arange(10), rows.action["a"].numpy()].reshape(5, 2)
    entropy = -(np.exp(log_probs) * log_probs).sum(-1).mean()
    following = np.where(rows.bootstraps.numpy(), rows.bootstrap.numpy(), np.roll(value, -1, 0))
    ratio = torch.from_numpy(log_prob) - rows.log_prob
    corrected = vtrace(ratio, rows.reward, *map(torch.from_numpy, (value, following)), rows.discount, rows.continues)
    of_policy = -(log_prob * corrected.advantages.numpy()).mean()
    of_value = ((corrected.targets.numpy() - value) ** 2).mean()
    named = dict(zip(STATISTICS, statistics.tolist(), strict=False))
    assert float(total.detach()) == pytest.approx(0.7 * of_policy + 0.4 * of_value - 0.05 * entropy)
    assert named["policy_loss"] == pytest.approx(of_policy)
    assert named["value_loss"] == pytest.approx(of_value)
    assert named["entropy"] == pytest.approx(entropy)
    assert float(statistics[len(STATISTICS)]) == pytest.approx(value.mean())
    assert named["importance_ratio"] == pytest.approx(float(ratio.exp().mean()))
    assert named["clip_fraction"] == pytest.approx(float((ratio > 0).double().mean()))


def test_the_gradient_of_a_batch_treats_targets_and_ratios_as_constants():
    """Finite differences of the loss with V-trace frozen give the gradient that backward finds."""
    model, rows = Linear(), make_rows(1)
    total, _ = impala_loss("0", ImpalaOptions())(model, rows, COEFFICIENTS)
    total.backward()
    with torch.no_grad():
        logits, value = model.logits_and_value("0", rows.observation)
        log_prob, _ = TabularHead().log_prob_and_entropy(logits, rows.action)
        value, log_prob = value.view(5, 2), log_prob.view(5, 2)
        following = torch.where(rows.bootstraps, rows.bootstrap, value.roll(-1, 0))
        corrected = vtrace(log_prob - rows.log_prob, rows.reward, value, following, rows.discount, rows.continues)

    def frozen():
        with torch.no_grad():
            logits, value = model.logits_and_value("0", rows.observation)
            log_prob, entropy = TabularHead().log_prob_and_entropy(logits, rows.action)
            of_policy = -(log_prob.view(5, 2) * corrected.advantages).mean()
            of_value = (corrected.targets - value.view(5, 2)).square().mean()
            return float(0.7 * of_policy + 0.4 * of_value - 0.05 * entropy.mean())

    for parameter in model.parameters():
        flat, gradient = parameter.data.view(-1), parameter.grad.view(-1)
        for i in range(len(flat)):
            before = float(flat[i])
            flat[i] = before + 1e-5
            above = frozen()
            flat[i] = before - 1e-5
            below = frozen()
            flat[i] = before
            assert float(gradient[i]) == pytest.approx((above - below) / 2e-5, rel=1e-5, abs=1e-8)


def test_a_ratio_beyond_float_is_cut_and_does_not_look_like_a_failed_update():
    model, rows = Linear(), make_rows()
    rows.log_prob[1, 0] = -1e10
    _, statistics = impala_loss("0", ImpalaOptions())(model, rows, COEFFICIENTS)
    assert statistics.isfinite().all()
