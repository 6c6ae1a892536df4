"""The first epochs of a pre-trained policy, in which its critic is trained alone."""

from __future__ import annotations

from typing import Any

from maze_runtime.training.gradient_norms import actor_critic_parts
from maze_runtime.training.gradient_step import GradientStep


def begin_epoch(step: GradientStep, model: Any, options: Any, epoch: int) -> None:
    """Hold the policy in the epochs that train the critic alone, and let the optimiser begin anew behind them.

    Layers that policy and critic share are the policy's, and stay as they are. The optimiser has counted the steps of
    the burn-in for the policy, too, whose moments are zero, and would no longer correct these for how few gradients
    they hold: the first steps would be three times the learning rate, away from what the policy was before.

    Args:
        step: of the trainer.
        model: what it trains, an actor-critic.
        options: of the trainer: `critic_burn_in_epochs`.
        epoch: epochs done.
    """
    if epoch < options.critic_burn_in_epochs:
        step.hold(actor_critic_parts(model)["policy_grad_norm"])
        return
    step.hold(())
    if 0 < options.critic_burn_in_epochs == epoch:
        step.begin_anew()
