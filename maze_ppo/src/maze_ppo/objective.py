"""From an algorithm's objective to the loss of a gradient step: what the current weights make of rows comes first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from maze_kernel.training.gradient_step import LossFunction
from maze_ppo.batch import TensorDict
from maze_ppo.keyed_batch import Decided, KeyedBatch
from maze_ppo.losses import normalize_advantages


class Evaluation(NamedTuple):
    """What the current weights make of B decisions, (B,) each."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


Objective = Callable[[Evaluation, Any, Tensor], tuple[Tensor, Tensor]]
"""(evaluation, rows, coefficients (3,)) -> (loss (), statistics (S,)).

`rows` has the columns log_prob, value, advantages, returns (B,) of when they were collected, and weight (B,) or None.
"""


def flat_loss(policy_key: str, objective: Objective) -> LossFunction:
    """The loss of a `Batch`."""

    def loss(model: Any, rows: Any, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        logits, value = model.logits_and_value(policy_key, rows.observation)
        log_prob, entropy = model.distributions[policy_key].log_prob_and_entropy(logits, rows.action)
        return objective(Evaluation(log_prob, entropy, value), rows, coefficients)

    return loss


def keyed_loss(objective: Objective, *, normalize: bool) -> LossFunction:
    """The loss of a `KeyedBatch`: the sum over policy keys of the loss of each one's rows.

    A mean over rows counts every policy key alike, however often it decides; so do the statistics.

    Args:
        objective: must not normalise advantages: that is done here, over the rows of all policy keys.
        normalize: do it.
    """

    def loss(model: Any, rows: KeyedBatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        evaluation = _evaluate(model, rows)
        advantages = normalize_advantages(rows.advantages, rows.weight) if normalize else rows.advantages
        mean, statistics = objective(
            evaluation, rows._replace(advantages=advantages, weight=_shares(rows)), coefficients
        )
        return mean * len(rows.decided), statistics

    return loss


def logits_and_values(model: Any, decided: Mapping[str, Decided]) -> tuple[dict[str, TensorDict], Tensor]:
    """Logits by policy key, and values (B,) of all keys' rows; at once where the model can."""
    observations = {key: own.observation for key, own in decided.items()}
    agents = {key: own.agent_id for key, own in decided.items()}
    together = getattr(model, "logits_and_values", None)
    if together is not None:
        return together(observations, agents)  # type: ignore[no-any-return]
    parts = {key: model.logits_and_value(key, own, agents[key]) for key, own in observations.items()}
    return {key: logits for key, (logits, _) in parts.items()}, torch.cat([value for _, value in parts.values()])


def _evaluate(model: Any, rows: KeyedBatch) -> Evaluation:
    logits, value = logits_and_values(model, rows.decided)
    parts = [
        model.distributions[key].log_prob_and_entropy(logits[key], own.action) for key, own in rows.decided.items()
    ]
    log_prob, entropy = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return Evaluation(log_prob, entropy, value if rows.base_value is None else value + rows.base_value)


def _shares(rows: KeyedBatch) -> Tensor | None:
    """(B,) weights that add up to 1 over the rows of each policy key; None where all are equal."""
    n_rows = [own.n_rows() for own in rows.decided.values()]
    if rows.weight is not None:
        return torch.cat([own / own.sum().clamp(min=1.0) for own in rows.weight.split(n_rows)])
    if min(n_rows) == max(n_rows):
        return None
    return torch.cat([rows.value.new_full((n,), 1.0 / n) for n in n_rows])
