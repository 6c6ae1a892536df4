"""Options of the components; their texts feed `maze describe` and the JSON Schema."""

from __future__ import annotations

import attrs

from maze_kernel.validators import above, at_least, between, optional


@attrs.frozen(kw_only=True)
class ThreadsOptions:
    """Options of `[vector] mode = "acme-threads"`."""

    n_threads: int = attrs.field(default=2, validator=at_least(1))
    """Threads; each steps a group of neighbouring environments one after the other."""


@attrs.frozen(kw_only=True)
class CsvEpisodesOptions:
    """Options of the dataset `acme-csv`."""

    path: str
    """The table, from the working directory: one line a decision, then one with the last observation."""
    delimiter: str = attrs.field(default=",", validator=attrs.validators.matches_re("."))
    """What stands between two columns."""


@attrs.frozen(kw_only=True)
class PipesOptions:
    """Options of the worker pool `acme-pipes`."""

    count: int = attrs.field(default=2, validator=at_least(1))
    """Actors that run at the same time."""
    timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0.0)))
    """Deadline of each call of a worker, if the caller sets none; none: wait as long as it lives."""
    build_timeout_seconds: float | None = attrs.field(default=None, validator=optional(above(0.0)))
    """Deadline of a worker's construction, once its process runs; none: that of its calls."""
    max_restarts: int = attrs.field(default=0, validator=at_least(0))
    """Replacements of one dead or hanging worker before the run stops with the cause."""
    backoff_seconds: float = attrs.field(default=0.5, validator=at_least(0.0))
    """Wait before the first replacement of a worker; doubled each further time."""
    backoff_cap_seconds: float = attrs.field(default=30.0, validator=at_least(0.0))
    """Longest wait before a replacement."""
    grace_seconds: float = attrs.field(default=3.0, validator=above(0.0))
    """Time a worker has to close before it is killed."""
    torch_threads: int = attrs.field(default=1, validator=at_least(1))
    """Threads of torch in each worker."""


@attrs.frozen(kw_only=True)
class QNetworkOptions:
    """Options of the model `acme-q-network`."""

    hidden_units: int = attrs.field(default=32, validator=at_least(1))
    """Units of the hidden layer."""
    epsilon: float = attrs.field(default=0.25, validator=between(0.0, 1.0))
    """Exploration of a policy that no trainer steers: in rollouts and deployments that are not deterministic."""


@attrs.frozen(kw_only=True)
class QLearningOptions:
    """Options of the trainer `acme-q-learning`."""

    n_epochs: int = attrs.field(default=10, validator=at_least(0))
    """Epochs to train; exploration falls from 1 to `final_epsilon` over them."""
    n_steps: int = attrs.field(default=100, validator=at_least(1))
    """Decisions of each environment an epoch."""
    lr: float = attrs.field(default=0.1, validator=above(0.0))
    """Step size of gradient descent."""
    gamma: float = attrs.field(default=0.9, validator=between(0.0, 1.0))
    """Discount a flat step, 0 to 1."""
    final_epsilon: float = attrs.field(default=0.05, validator=between(0.0, 1.0))
    """Exploration in the last epoch."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the epoch that reaches this number of environment steps; 0: no budget."""
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    device: str = "cpu"
    """Where the update runs; this trainer knows "cpu" only."""
    compile: bool = False
    """Without effect: there is nothing to compile."""
