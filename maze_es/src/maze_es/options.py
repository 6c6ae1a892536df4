"""Options of the trainer; their texts feed `maze describe`, the README table and the JSON Schema."""

from __future__ import annotations

from typing import Annotated, Literal

import attrs

from maze_kernel.selection import Selection
from maze_kernel.validators import above, all_of, at_least, below
from maze_runtime.training.optimizer_options import OptimizerOptions
from maze_runtime.training.schedules import Schedule, positive_rate, throughout
from maze_runtime.training.spellings import SPELLINGS


@attrs.frozen(kw_only=True)
class AdamOptions:
    """Adam. Source: Kingma and Ba 2015."""

    use: Literal["adam"] = "adam"
    """The optimiser: "adam", "sgd", or the import path of one of torch."""
    step_size: float | Schedule = attrs.field(default=0.03, validator=positive_rate)
    """Learning rate, about how far a weight moves in one update: a number, or a schedule over the run's budget."""
    beta1: float = attrs.field(default=0.9, validator=all_of(at_least(0.0), below(1.0)))
    """Decay of the running mean of gradients."""
    beta2: float = attrs.field(default=0.999, validator=all_of(at_least(0.0), below(1.0)))
    """Decay of the running mean of squared gradients."""
    epsilon: float = attrs.field(default=1e-8, validator=above(0.0))
    """Added to the root of the second moment."""


@attrs.frozen(kw_only=True)
class SGDOptions:
    """Stochastic gradient descent with momentum."""

    use: Literal["sgd"] = "sgd"
    """The optimiser: "sgd", "adam", or the import path of one of torch."""
    step_size: float | Schedule = attrs.field(default=0.01, validator=positive_rate)
    """Learning rate, by which the running mean of gradients is multiplied: a number, or a schedule over the run's budget."""  # noqa: E501
    momentum: float = attrs.field(default=0.9, validator=all_of(at_least(0.0), below(1.0)))
    """Decay of the running mean of gradients; 0: the last gradient alone."""


@attrs.frozen(kw_only=True)
class TorchOptimizerOptions(OptimizerOptions):
    """Any optimiser of torch that needs gradients only."""

    OWN_NAMES = ("adam", "sgd")

    step_size: float | Schedule = attrs.field(default=0.01, validator=positive_rate)
    """Learning rate `lr` of the class: a number, or a schedule over the run's budget."""


@attrs.frozen(kw_only=True)
class TableNoise:
    """One long table of normal numbers, of which every perturbation is a slice; workers share its memory."""

    use: Literal["table"] = "table"
    """Where perturbations come from: "table" or "seeded"."""
    size: int = attrs.field(default=100_000_000, validator=at_least(2))
    """Numbers in the table, 4 bytes each; more than the policy has weights."""


@attrs.frozen(kw_only=True)
class SeededNoise:
    """No table: whoever needs a perturbation draws it anew from its seed."""

    use: Literal["seeded"] = "seeded"
    """Where perturbations come from: "seeded" or "table"."""


@attrs.frozen(kw_only=True)
class ESOptions:
    """Evolution strategies. Source: Salimans et al. 2017."""

    ALIASES = SPELLINGS

    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Epochs (updates) to train; 0: until another budget, patience or the user stops the run."""
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the policies run: "auto", "cpu", "cuda" or "cuda:1"; workers run them on the CPU."""
    compile: bool = False
    """Every trainer has this option; this one has no update to compile and ignores it."""
    n_rollouts_per_update: int = attrs.field(default=16, validator=at_least(2))
    """Least episodes an update, two a perturbation (one each way); an odd number is rounded up."""
    n_timesteps_per_update: int = attrs.field(default=0, validator=at_least(0))
    """Least environment steps an update: as many further episodes are played as it takes; 0: no such demand."""
    max_steps: int = attrs.field(default=0, validator=at_least(0))
    """Cut episodes of the training after so many steps, or rounds of opponents; 0: only the environment ends them."""
    deterministic: bool = True
    """Act by the mode of the action distribution instead of samples: only the weights explore, as in the paper."""
    halves_together: bool = False
    """Play both halves of the pairs in one batch: natively vectorised environments are faster, but each member meets an episode of its own."""  # noqa: E501
    same_episode: bool = False
    """All members of an update meet the same episode, not only the halves of a pair: ranks compare policies then, however much episodes differ. Needs environments that are seeded one by one."""  # noqa: E501
    optimizer: AdamOptions | SGDOptions | TorchOptimizerOptions = attrs.field(factory=AdamOptions)
    """What turns gradients into updates: a table with `use = "adam"`, "sgd" or an import path such as "torch.optim:RMSprop", and the options of that."""  # noqa: E501
    l2_penalty: float = attrs.field(default=0.0, validator=at_least(0.0))
    """Weight decay: this times the weights is subtracted from the gradient of the fitness."""
    noise_stddev: float | Schedule = attrs.field(default=0.05, validator=throughout(above(0.0)))
    """Standard deviation of the perturbations, the same for every weight: a number, or a schedule over the run's budget."""  # noqa: E501
    policy_wrapper: Annotated[Selection, "policy-wrapper"] | None = None
    """Rules around the policy, in training, evaluation, rollouts and deployment: a table with `use`, the import path "package.module:Class" of what takes a policy and returns one, and its options."""  # noqa: E501
    noise: TableNoise | SeededNoise = attrs.field(factory=TableNoise)
    """Where perturbations come from: a table with `use = "table"` and `size`, or with `use = "seeded"`."""
