"""Options of the trainers; their texts feed `maze describe`, the README tables and the JSON Schema."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, at_least, between
from maze_runtime.training.schedules import Schedule, positive_rate
from maze_runtime.training.spellings import SPELLINGS


@attrs.frozen(kw_only=True)
class OnPolicyOptions:
    """What PPO and A2C have in common."""

    ALIASES = {**SPELLINGS, "n_steps": "n_rollout_steps"}  # noqa: RUF012 - read as a constant

    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Epochs to train; 0: until another budget, patience or the user stops the run."""
    epoch_length: int = attrs.field(default=25, validator=at_least(1))
    """Updates (rollouts) an epoch."""
    patience: int = attrs.field(default=15, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the update runs: "auto", "cpu", "cuda" or "cuda:1"."""
    compile: bool = False
    """Compile loss, backward pass, clipping and optimiser step into one function: slow start, fast updates."""
    n_rollout_steps: int = attrs.field(default=100, validator=at_least(1))
    """Decisions of each environment a rollout; all of them are trained on."""
    lr: float | Schedule = attrs.field(default=0.0003, validator=positive_rate)
    """Learning rate of Adam: a number, or a schedule over the run's budget."""
    adam_epsilon: float = attrs.field(default=1e-8, validator=above(0.0))
    """Adam's epsilon, added to the root of the second moment."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    gae_lambda: float = attrs.field(default=0.95, validator=between(0.0, 1.0))
    """Lambda of generalised advantage estimation; 1: bootstrapped Monte Carlo returns. Schulman et al. 2016."""
    policy_loss_coef: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Weight of the policy loss."""
    value_loss_coef: float = attrs.field(default=0.5, validator=at_least(0.0))
    """Weight of the mean squared value error."""
    entropy_coef: float = attrs.field(default=0.003, validator=at_least(0.0))
    """Weight of the entropy bonus."""
    max_grad_norm: float = attrs.field(default=0.5, validator=at_least(0.0))
    """Global gradient norm is cut to this; 0: off."""
    critic_burn_in_epochs: int = attrs.field(default=0, validator=at_least(0))
    """First epochs that train the critic alone, with a value loss weight of 1; for pre-trained policies, whose layers stay as they are, shared ones too. Behind them the optimiser begins anew; evaluations in them use up no patience."""  # noqa: E501
    normalize_advantages: bool = True
    """Shift and scale advantages to mean 0 and standard deviation 1, in every gradient step; a single one stays."""


@attrs.frozen(kw_only=True)
class A2COptions(OnPolicyOptions):
    """Synchronous advantage actor-critic. Source: Mnih et al. 2016."""

    epoch_length: int = attrs.field(default=312, validator=at_least(1))
    """Updates (rollouts) an epoch."""
    n_rollout_steps: int = attrs.field(default=8, validator=at_least(1))
    """Decisions of each environment a rollout; all of them are trained on."""
    lr: float | Schedule = attrs.field(default=0.001, validator=positive_rate)
    """Learning rate of Adam: a number, or a schedule over the run's budget."""
    normalize_advantages: bool = False
    """Shift and scale advantages to mean 0 and standard deviation 1, in every gradient step; a single one stays."""


@attrs.frozen(kw_only=True)
class PPOOptions(OnPolicyOptions):
    """Proximal policy optimisation. Source: Schulman et al. 2017."""

    batch_size: int = attrs.field(default=64, validator=at_least(1))
    """Transitions a minibatch."""
    n_optimization_epochs: int = attrs.field(default=10, validator=at_least(1))
    """Passes over each rollout."""
    clip_range: float = attrs.field(default=0.2, validator=above(0.0))
    """The probability ratio is clipped to 1 ± this. Equation 7."""
    value_clip_range: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Values move at most this far from the rollout's in the loss; 0: off."""
    target_kl: float = attrs.field(default=0.0, validator=at_least(0.0))
    """No further pass over a rollout once the mean approximate KL divergence exceeds this; 0: off."""
    entropy_coef: float = attrs.field(default=0.01, validator=at_least(0.0))
    """Weight of the entropy bonus."""
