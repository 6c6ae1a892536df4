"""Options of the trainer; their texts feed `maze describe`, the README table and the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import attrs

from maze_kernel.selection import Selection
from maze_kernel.validators import above, all_of, at_least, at_most, between
from maze_runtime.training.schedules import Schedule, positive_rate
from maze_runtime.training.spellings import SPELLINGS


def _fits_the_others(options: Any, attribute: Any, keeps: bool) -> None:
    if keeps and options.demonstrations is None:
        raise ValueError(f"'{attribute.name}' needs 'demonstrations'")
    if options.demonstration_fraction and not keeps:
        raise ValueError(f"'demonstration_fraction' needs '{attribute.name} = true'")


@attrs.frozen(kw_only=True)
class SACOptions:
    """Soft actor-critic. Source: Haarnoja et al. 2018b; discrete actions: Christodoulou 2019."""

    ALIASES = {**SPELLINGS, "alpha": "entropy_coef", "n_steps": "", "target_entropy": ""}  # noqa: RUF012 - a constant

    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Epochs to train; 0: until another budget, patience or the user stops the run."""
    epoch_length: int = attrs.field(default=1000, validator=at_least(1))
    """Iterations an epoch; each collects `rollouts_per_iteration` rollouts and makes `num_batches_per_iter` updates."""
    patience: int = attrs.field(default=50, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the update runs: "auto", "cpu", "cuda" or "cuda:1"."""
    compile: bool = False
    """Compile a whole update into one function: slow start, fast updates."""
    n_rollout_steps: int = attrs.field(default=1, validator=at_least(1))
    """Decisions of each environment a rollout."""
    rollouts_per_iteration: int = attrs.field(default=1, validator=at_least(1))
    """Rollouts an iteration."""
    num_batches_per_iter: int = attrs.field(default=0, validator=at_least(0))
    """Updates an iteration, each on a batch of its own; 0: one for each environment step that it took, and at least one."""  # noqa: E501
    split_rollouts_into_transitions: bool = True
    """Draw every transition of a batch by itself. False: draw rollouts, runs of `n_rollout_steps` transitions that an actor made one after the other; `batch_size` counts rollouts then."""  # noqa: E501
    batch_size: int = attrs.field(default=256, validator=at_least(1))
    """Transitions an update, drawn uniformly with replacement."""
    lr: float | Schedule = attrs.field(default=0.001, validator=positive_rate)
    """Learning rate of Adam for policy and Q networks: a number, or a schedule over the run's budget."""
    gamma: float = attrs.field(default=0.99, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    max_grad_norm: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Gradient norms of policy and of Q networks are each cut to this; 0: off."""
    tau: float = attrs.field(default=0.005, validator=all_of(above(0.0), at_most(1.0)))
    """Part of the way that the target networks move to the Q networks, 0 to 1."""
    target_update_interval: int = attrs.field(default=1, validator=at_least(1))
    """Updates between moves of the target networks."""
    entropy_coef: float = attrs.field(default=0.2, validator=above(0.0))
    """Weight alpha of the entropy (the temperature); with `entropy_tuning` where it starts."""
    entropy_tuning: bool = True
    """Adjust alpha so that the policy's entropy stays near its target. Haarnoja et al. 2018b, section 5."""
    target_entropy_multiplier: float = 1.0
    """Times the target entropy in nats: -1 a Box dimension, as if from -1 to 1, plus 0.98 log n a choice of n."""
    entropy_coef_lr: float = attrs.field(default=0.0007, validator=above(0.0))
    """Learning rate of Adam for log alpha."""
    replay_buffer_size: int = attrs.field(default=1_000_000, validator=at_least(1))
    """Rows of the replay buffer, over all environments; the oldest are overwritten."""
    initial_buffer_size: int = attrs.field(default=1000, validator=at_least(1))
    """Transitions collected before the first update, at most half of what the replay buffer holds."""
    demonstrations: Annotated[Selection, "dataset"] | None = None
    """Recorded episodes that fill the replay buffer before the first update (SACfD): a table with the `path` of a recording, or another dataset, such as `use = "minari"` with `id`. They count for `initial_buffer_size`. Vecerik et al. 2017."""  # noqa: E501
    keep_demonstrations: bool = attrs.field(default=False, validator=_fits_the_others)
    """Keep demonstrations beside the replay buffer, so that new transitions never overwrite them."""
    demonstration_fraction: float = attrs.field(default=0.0, validator=between(0.0, 1.0))
    """Part of every batch that is drawn from kept demonstrations; 0: all transitions are equally likely."""
    initial_sampling_policy: Literal["random", "policy"] | Annotated[Selection, "policy"] = "random"
    """Who collects them: uniformly random actions, the untrained policy, or any policy as a table: `{ use = "my_package.module:Class" }` and its options."""  # noqa: E501
