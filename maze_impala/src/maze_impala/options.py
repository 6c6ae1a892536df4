"""Options of the trainer; their texts feed `maze describe`, the README table and the JSON Schema."""

from __future__ import annotations

from typing import Literal

import attrs

from maze_kernel.validators import above, at_least, between, one_of
from maze_runtime.training.schedules import Schedule, positive_rate
from maze_runtime.training.spellings import SPELLINGS


@attrs.frozen(kw_only=True)
class ImpalaOptions:
    """Importance weighted actor-learner architecture. Source: Espeholt et al. 2018."""

    ALIASES = {**SPELLINGS, "n_steps": "n_rollout_steps"}  # noqa: RUF012 - read as a constant

    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Epochs to train; 0: until another budget, patience or the user stops the run."""
    epoch_length: int = attrs.field(default=625, validator=at_least(1))
    """Updates (batches of rollouts) an epoch."""
    patience: int = attrs.field(default=15, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the learner runs: "auto", "cpu", "cuda" or "cuda:1"; actors run on the CPU."""
    compile: bool = False
    """Compile loss, V-trace, backward pass and optimiser step into one function: slow start, fast updates."""
    deterministic: bool = False
    """Actors and learner take turns, so that runs and resumes are bit-identical; for tests, at the price of waiting."""
    num_actors: int = attrs.field(default=8, validator=at_least(1))
    """Environments that act, divided among the workers; `[vector] n_envs` is not read."""
    n_rollout_steps: int = attrs.field(default=8, validator=at_least(1))
    """Decisions of an environment a rollout, whoever takes them; all of them are trained on."""
    actors_batch_size: int = attrs.field(default=4, validator=at_least(1))
    """Rollouts a batch: the learner makes one update with each."""
    queue_out_of_sync_factor: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Finished rollouts that may wait for the learner, in batches; rounded up to the same number for each worker."""
    max_actor_restarts: int = attrs.field(default=10, validator=at_least(0))
    """Replacements of one dead or hanging worker without a rollout from it in between before the run stops."""
    rollout_timeout_seconds: float = attrs.field(default=300.0, validator=above(0.0))
    """Deadline of a rollout where `workers.timeout_seconds` sets none; a worker that takes longer is replaced."""
    lr: float | Schedule = attrs.field(default=1e-3, validator=positive_rate)
    """Learning rate of Adam: a number, or a schedule over the run's budget."""
    adam_epsilon: float = attrs.field(default=1e-8, validator=above(0.0))
    """Adam's epsilon, added to the root of the second moment."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    policy_loss_coef: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Weight of the policy loss."""
    value_loss_coef: float = attrs.field(default=0.5, validator=at_least(0.0))
    """Weight of the mean squared value error."""
    entropy_coef: float = attrs.field(default=0.01, validator=at_least(0.0))
    """Weight of the entropy bonus."""
    max_grad_norm: float = attrs.field(default=0.5, validator=at_least(0.0))
    """Global gradient norm is cut to this; 0: off."""
    critic_burn_in_epochs: int = attrs.field(default=0, validator=at_least(0))
    """First epochs that train the critic alone, with a value loss weight of 1; for pre-trained policies, whose layers stay as they are, shared ones too. Behind them the optimiser begins anew; evaluations in them use up no patience."""  # noqa: E501
    vtrace_clip_rho_threshold: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Importance weights in the value targets are cut to this (rho-bar); 0: not at all. Section 4.1."""
    vtrace_clip_pg_rho_threshold: float = attrs.field(default=1.0, validator=at_least(0.0))
    """Importance weights of the policy gradient are cut to this; 0: not at all. Section 4.2."""
    reward_clipping: Literal["none", "abs_one", "soft_asymmetric"] = attrs.field(
        default="none", validator=one_of(("none", "abs_one", "soft_asymmetric"))
    )
    """Of what is learnt from, not of the statistics: "none", to -1 … 1, or 5 tanh(r / 5) with losses times 0.3."""
