"""Options of the trainer `dqn`."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, all_of, at_least, at_most, between
from maze_runtime.training.loop_options import LoopOptions
from maze_runtime.training.schedules import PART, Schedule, positive_rate, throughout
from maze_runtime.training.spellings import SPELLINGS

FADING = Schedule(start=1.0, end=0.05)
CORRECTING = Schedule(start=0.4, end=1.0)


@attrs.frozen(kw_only=True)
class DQNOptions(LoopOptions):
    """Deep Q-learning. Source: Mnih et al. 2015; its extensions one by one: Hessel et al. 2018."""

    ALIASES = {  # noqa: RUF012 - read as a constant
        **SPELLINGS,
        "alpha": "priority_exponent",
        "dueling": "duelling",
        "eps": "epsilon",
        "exploration_initial_eps": "epsilon.start",
        "exploration_final_eps": "epsilon.end",
        "n_steps": "n_step",
    }

    max_env_steps: int = attrs.field(default=100_000, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    epoch_length: int = attrs.field(default=500, validator=at_least(1))
    """Iterations an epoch; each takes `n_rollout_steps` decisions in every environment and makes `num_batches_per_iter` updates."""  # noqa: E501
    n_rollout_steps: int = attrs.field(default=1, validator=at_least(1))
    """Decisions of each environment an iteration."""
    num_batches_per_iter: int = attrs.field(default=0, validator=at_least(0))
    """Updates an iteration, each on a batch of its own; 0: one for each environment step that it took, and at least one."""  # noqa: E501
    batch_size: int = attrs.field(default=64, validator=at_least(1))
    """Transitions an update."""
    lr: float | Schedule = attrs.field(default=5e-4, validator=positive_rate)
    """Learning rate of Adam: a number, or a schedule over the run's budget."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    n_step: int = attrs.field(default=3, validator=at_least(1))
    """Rewards that are added up before the value of what follows. Sutton and Barto 2018, equation 7.1."""
    double: bool = True
    """The trained network chooses the action that the target network values. van Hasselt et al. 2016."""
    duelling: bool = False
    """Q = V + A − mean A, with V from the model's critic. Wang et al. 2016."""
    prioritized: bool = False
    """Draw transitions in proportion to the size of their last error. Schaul et al. 2016."""
    priority_exponent: float = attrs.field(default=0.6, validator=between(0.0, 1.0))
    """With `prioritized`: alpha, 0 (uniform) to 1 (in proportion to the error)."""
    importance_exponent: float | Schedule = attrs.field(default=CORRECTING, validator=throughout(between(0.0, 1.0)))
    """With `prioritized`: beta, how far weights take back that some transitions are drawn more often; 0 to 1."""
    max_grad_norm: float = attrs.field(default=10.0, validator=at_least(0.0))
    """The gradient norm is cut to this; 0: off."""
    tau: float = attrs.field(default=0.005, validator=all_of(above(0.0), at_most(1.0)))
    """Part of the way that the target network moves to the trained one, 0 to 1; 1: a copy."""
    target_update_interval: int = attrs.field(default=1, validator=at_least(1))
    """Updates between moves of the target network."""
    epsilon: float | Schedule = attrs.field(
        default=FADING, validator=throughout(between(0.0, 1.0)), metadata={PART: "exploration_fraction"}
    )
    """Probability of an action at random: a number, or a schedule over a part of the run's budget."""
    exploration_fraction: float = attrs.field(default=0.3, validator=all_of(above(0.0), at_most(1.0)))
    """Part of the budget after which `epsilon` is at its end."""
    replay_buffer_size: int = attrs.field(default=100_000, validator=at_least(1))
    """Rows of the replay buffer, over all environments; the oldest are overwritten."""
    initial_buffer_size: int = attrs.field(default=1_000, validator=at_least(1))
    """Transitions collected with actions at random before the first update, at most half of what the replay buffer holds."""  # noqa: E501
