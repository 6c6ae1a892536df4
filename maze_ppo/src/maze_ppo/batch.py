"""What is trained on: a collected rollout with values, advantages and returns, whole and in minibatches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey

KEY_STATISTICS = ("policy_loss", "value_loss", "entropy")
"""What gradient steps report of each policy key where there are several."""


class Evaluation(NamedTuple):
    """What the current weights make of B decisions, (B,) each, with gradients."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


class Minibatch(Protocol):
    """B decisions to take a gradient step on: of one policy key, or of several."""

    @property
    def log_prob(self) -> Tensor | None:
        """(B,) log pi_old(a|s), of the weights that acted; None where the algorithm does not need it."""
        ...

    @property
    def value(self) -> Tensor:
        """(B,) V_old(s), of the same weights."""
        ...

    @property
    def advantages(self) -> Tensor:
        """(B,)."""
        ...

    @property
    def returns(self) -> Tensor:
        """(B,) targets of the critic."""
        ...

    @property
    def weight(self) -> Tensor | None:
        """(B,) 1 for decisions and 0 for fillers; None where there are no fillers."""
        ...

    def evaluate(self, model: Any) -> Evaluation:
        """What the current weights of the model make of the same decisions."""
        ...

    def mean_weight(self) -> Tensor | None:
        """(B,) what each decision counts in a mean, so that every policy key counts alike; None: all the same."""
        ...

    def sum_over_policies(self, mean: Tensor) -> Tensor:
        """The sum over policy keys of what `mean` () is the mean of."""
        ...

    def with_means_by_key(self, statistics: Tensor, columns: Tensor, policy_keys: tuple[PolicyKey, ...]) -> Tensor:
        """`statistics` (S,), and behind them the means of columns (C, B) over each of several policy keys.

        (S + K C,), key by key in the order of `policy_keys`; NaN for a key without a decision here. With
        one policy key nothing is added.
        """
        ...


class RolloutBatch(Protocol):
    """A whole rollout, valued by the weights that made it."""

    @property
    def rows(self) -> Minibatch:
        """Every decision of it, valued, and fillers of weight 0."""
        ...

    def whole(self) -> Minibatch:
        """Everything as one minibatch."""
        ...

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[Minibatch]:
        """One pass over everything in random order, about `size` decisions at a time."""
        ...

    def columns(self) -> dict[str, Tensor]:
        """Columns by name, for a report."""
        ...
