"""The losses against NumPy written from the papers, and their gradients against finite differences."""

import numpy as np
import pytest
import torch

from maze_ppo import losses
from maze_runtime.training.loss_terms import policy_gradient_losses
from maze_runtime.training.weighted import weighted_mean


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=17) for name in ("log_ratio", "advantages", "value", "returns", "old_value")}


def tensor(array):
    return torch.tensor(array, dtype=torch.float64)


def test_clipped_policy_loss_matches_equation_7(columns):
    total = 0.0
    for log_ratio, advantage in zip(columns["log_ratio"], columns["advantages"], strict=True):
        ratio = np.exp(log_ratio)
        total += min(ratio * advantage, min(max(ratio, 0.8), 1.2) * advantage)
    result = losses.clipped_policy_losses(tensor(columns["log_ratio"]), tensor(columns["advantages"]), 0.2)
    assert float(result.mean()) == pytest.approx(-total / 17, rel=1e-12)


def test_policy_gradient_loss(columns):
    result = policy_gradient_losses(tensor(columns["log_ratio"]), tensor(columns["advantages"]))
    assert float(result.mean()) == pytest.approx(-np.mean(columns["log_ratio"] * columns["advantages"]), rel=1e-12)


@pytest.mark.parametrize("clip_range", [0.0, 0.3])
def test_value_loss(columns, clip_range):
    total = 0.0
    for value, target, old in zip(columns["value"], columns["returns"], columns["old_value"], strict=True):
        error = (value - target) ** 2
        if clip_range:
            error = max(error, (old + np.clip(value - old, -clip_range, clip_range) - target) ** 2)
        total += error
    arguments = [tensor(columns[name]) for name in ("value", "returns", "old_value")]
    assert float(losses.value_losses(*arguments, clip_range).mean()) == pytest.approx(total / 17, rel=1e-12)


def test_normalized_advantages_have_mean_0_and_deviation_1(columns):
    result = losses.normalize_advantages(tensor(columns["advantages"])).numpy()
    assert result.mean() == pytest.approx(0.0, abs=1e-12)
    assert result.std() == pytest.approx(1.0, rel=1e-6)
    assert losses.normalize_advantages(torch.tensor([3.0])).tolist() == [3.0]
    alone = losses.normalize_advantages(torch.tensor([3.0, -9.0]), torch.tensor([1.0, 0.0]))
    assert float(alone[0]) == 3.0


def test_weight_zero_equals_leaving_the_row_out(columns):
    kept = np.arange(17) % 3 != 0
    weight = tensor(kept.astype(float))
    log_ratio, advantages = columns["log_ratio"], columns["advantages"]
    normalized = losses.normalize_advantages(tensor(advantages), weight)
    reference = losses.normalize_advantages(tensor(advantages[kept]))
    np.testing.assert_allclose(normalized[kept], reference, rtol=1e-12)
    weighted = weighted_mean(losses.clipped_policy_losses(tensor(log_ratio), normalized, 0.2), weight)
    of_kept = losses.clipped_policy_losses(tensor(log_ratio[kept]), reference, 0.2)
    assert float(weighted) == pytest.approx(float(of_kept.mean()))


def test_changes_of_the_policy_estimate_the_divergence_of_two_gaussians_and_count_ratios_beyond_the_range():
    rng = np.random.default_rng(1)
    samples = rng.normal(size=200_000)
    log_ratio = -0.5 * (samples - 0.3) ** 2 + 0.5 * samples**2
    is_clipped, divergence = losses.policy_changes(tensor(log_ratio), 0.2)
    assert float(divergence.mean()) == pytest.approx(0.5 * 0.3**2, rel=0.02)
    np.testing.assert_array_equal(is_clipped, np.abs(np.exp(log_ratio) - 1.0) > 0.2)


@pytest.mark.parametrize("clip_range", [0.0, 0.3])
def test_gradients_match_finite_differences(columns, clip_range):
    log_ratio = tensor(columns["log_ratio"] * 0.3).requires_grad_()
    value = tensor(columns["value"]).requires_grad_()
    advantages, returns, old = (tensor(columns[name]) for name in ("advantages", "returns", "old_value"))

    def total(log_ratio, value):
        return (
            losses.clipped_policy_losses(log_ratio, advantages, 0.2)
            + 0.5 * losses.value_losses(value, returns, old, clip_range)
            + policy_gradient_losses(log_ratio, advantages)
        ).mean()

    assert torch.autograd.gradcheck(total, (log_ratio, value), eps=1e-7, atol=1e-6)


@pytest.mark.parametrize("log_ratio", [40.0, 88.0, 89.0, 200.0, 1e6])
@pytest.mark.parametrize("advantage", [0.0, 1e-3, 2.0])
def test_beyond_the_clipping_range_a_positive_advantage_has_no_gradient_however_large_the_ratio(log_ratio, advantage):
    """Equation 7: min(r A, (1 + eps) A) is (1 + eps) A there, a constant."""
    row = torch.tensor([log_ratio, 0.0], requires_grad=True)
    loss = losses.clipped_policy_losses(row, torch.tensor([advantage, advantage]), 0.2).mean()
    loss.backward()
    assert loss.item() == pytest.approx(-(1.2 + 1.0) * advantage / 2, rel=1e-6)
    np.testing.assert_allclose(row.grad, [0.0, -advantage / 2], rtol=1e-6)


def test_a_negative_advantage_is_punished_in_proportion_to_the_ratio_however_large():
    """Equation 7 has no clipping there: loss and gradient are |A| r, and infinite where float32 ends."""
    for log_ratio in (0.0, 1.0, 40.0, 80.0):
        row = torch.tensor([log_ratio], requires_grad=True)
        losses.clipped_policy_losses(row, torch.tensor([-0.5]), 0.2).mean().backward()
        assert row.grad.item() == pytest.approx(0.5 * np.exp(log_ratio), rel=1e-5)
    assert losses.clipped_policy_losses(torch.tensor([89.0]), torch.tensor([-0.5]), 0.2).item() == np.inf


def test_the_estimated_divergence_is_finite_for_every_ratio_and_unchanged_in_the_normal_range():
    for log_ratio in (-1e6, 88.0, 89.0, 1e6):
        assert torch.isfinite(losses.policy_changes(torch.tensor([log_ratio]), 0.2)[1]).all()
    usual = np.linspace(-20.0, 20.0, 41)
    expected = np.exp(usual) - 1.0 - usual
    np.testing.assert_allclose(losses.policy_changes(tensor(usual), 0.2)[1], expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize("clip_range", [0.05, 0.2, 0.9, 1.0, 3.0])
def test_the_written_derivative_of_the_clipped_loss_is_that_of_equation_7_by_autograd(clip_range):
    generator = torch.Generator().manual_seed(3)
    log_ratio = (2.0 * torch.randn(500, generator=generator, dtype=torch.float64)).requires_grad_()
    advantages = torch.randn(500, generator=generator, dtype=torch.float64)
    ratio = log_ratio.exp()
    plain = -torch.minimum(ratio * advantages, ratio.clamp(1.0 - clip_range, 1.0 + clip_range) * advantages)
    written = losses.clipped_policy_losses(log_ratio, advantages, clip_range)
    torch.testing.assert_close(written, plain)
    gradients = [torch.autograd.grad(result.sum(), log_ratio)[0] for result in (written, plain)]
    torch.testing.assert_close(*gradients)
