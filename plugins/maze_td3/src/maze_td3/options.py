"""Options of the trainer `td3`."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, all_of, at_least, at_most, below, between
from maze_runtime.training.loop_options import LoopOptions
from maze_runtime.training.schedules import Schedule, positive_rate, throughout
from maze_runtime.training.spellings import SPELLINGS


@attrs.frozen(kw_only=True)
class TD3Options(LoopOptions):
    """Twin delayed deep deterministic policy gradients. Source: Fujimoto, van Hoof and Meger 2018.

    DDPG (Lillicrap et al. 2016) is `twin = false`, `policy_delay = 1` and `target_noise = 0`, with the correlated noise
    `exploration_noise = 0.38`, `exploration_correlation = 0.85`.
    """

    ALIASES = {  # noqa: RUF012 - read as a constant
        **SPELLINGS,
        "action_noise": "exploration_noise",
        "n_steps": "n_step",
        "target_policy_noise": "target_noise",
    }

    max_env_steps: int = attrs.field(default=1_000_000, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    epoch_length: int = attrs.field(default=1000, validator=at_least(1))
    """Iterations an epoch; each takes `n_rollout_steps` decisions in every environment and makes `num_batches_per_iter` updates."""  # noqa: E501
    n_rollout_steps: int = attrs.field(default=1, validator=at_least(1))
    """Decisions of each environment an iteration."""
    num_batches_per_iter: int = attrs.field(default=0, validator=at_least(0))
    """Updates an iteration, each on a batch of its own; 0: one for each environment step that it took, and at least one."""  # noqa: E501
    batch_size: int = attrs.field(default=256, validator=at_least(1))
    """Transitions an update, drawn uniformly with replacement."""
    lr: float | Schedule = attrs.field(default=1e-3, validator=positive_rate)
    """Learning rate of Adam for policy and Q networks: a number, or a schedule over the run's budget."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    n_step: int = attrs.field(default=1, validator=at_least(1))
    """Rewards that are added up before the value of what follows. Sutton and Barto 2018, equation 7.1."""
    twin: bool = True
    """Take the smaller value of two Q networks in targets; false: train and ask one alone, as DDPG does."""
    policy_delay: int = attrs.field(default=2, validator=at_least(1))
    """Updates of the Q networks between those of policy and target networks."""
    target_noise: float = attrs.field(default=0.2, validator=at_least(0.0))
    """Standard deviation of the noise on the target policy's actions, in half widths of a bounded action; 0: none."""
    target_noise_clip: float = attrs.field(default=0.5, validator=at_least(0.0))
    """That noise is cut to this, likewise."""
    exploration_noise: float | Schedule = attrs.field(default=0.1, validator=throughout(at_least(0.0)))
    """Standard deviation of the noise on actions that are played, in half widths of a bounded action: a number, or a schedule over the run's budget."""  # noqa: E501
    exploration_correlation: float = attrs.field(default=0.0, validator=all_of(at_least(0.0), below(1.0)))
    """Correlation of that noise in two decisions of an actor one after the other, 0 to below 1; 0.85 is the Ornstein-Uhlenbeck process of DDPG. Lillicrap et al. 2016, section 7."""  # noqa: E501
    max_grad_norm: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Gradient norms of policy and of Q networks are each cut to this; 0: off."""
    tau: float = attrs.field(default=0.005, validator=all_of(above(0.0), at_most(1.0)))
    """Part of the way that the target networks move to the trained ones, 0 to 1."""
    replay_buffer_size: int = attrs.field(default=1_000_000, validator=at_least(1))
    """Rows of the replay buffer, over all environments; the oldest are overwritten."""
    initial_buffer_size: int = attrs.field(default=1000, validator=at_least(1))
    """Transitions collected with actions at random before the first update, at most half of what the replay buffer holds."""  # noqa: E501
