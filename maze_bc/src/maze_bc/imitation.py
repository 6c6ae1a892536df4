"""From a model and minibatches to one number to minimise, and to the statistics of how well it imitates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from maze_bc.losses import Objective
from maze_bc.metrics import head_metrics
from maze_bc.minibatches import Batch, Rows
from maze_bc.options import BCOptions
from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.training.gradient_step import LossFunction
from maze_runtime.training.weighted import weighted_mean

Objectives = Mapping[PolicyKey, Objective]


def objectives_of(model: ActorCritic, options: BCOptions) -> dict[PolicyKey, Objective]:
    """The objective of each policy key."""
    spaces, distributions = model.spaces.action, model.distributions
    return {key: Objective(spaces[key], distributions[key], options.loss, options.bound_margin) for key in spaces}


def imitation_loss(objectives: Objectives, entropy_coef: float) -> LossFunction:
    """The loss of a minibatch; its statistic (1,) is the loss without the entropy bonus."""

    def loss(model: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        terms, entropies = [], []
        for key, rows in batch.items():
            logits = model.logits(key, rows.observation, rows.agent_id)
            if entropy_coef:
                term, entropy = objectives[key].rows_and_entropy(logits, rows.action)
                entropies.append(entropy)
            else:
                term = objectives[key].rows(logits, rows.action)
            terms.append(term)
        weight = _joined_weights(batch.values())
        # L = mean over decisions of −log π(a | s) − c_e H[π(· | s)]
        policy_loss = weighted_mean(_joined(terms), weight)
        total = policy_loss - entropy_coef * weighted_mean(_joined(entropies), weight) if entropies else policy_loss
        return total, policy_loss.detach()[None]

    return loss


def measure(
    model: ActorCritic,
    objectives: Objectives,
    spaces: StructuredSpaces,
    batches: Iterable[Batch],
    top_k: Sequence[int] = (5,),
) -> dict[str, float]:
    """Means over all decisions of `batches`: "policy_loss", "policy_entropy" and "METRIC/HEAD" of each head.

    With several policy keys each has its own "policy_loss/KEY" and "policy_entropy/KEY", and its heads are named
    "METRIC/KEY/HEAD". The model's weights stay as they are.
    """
    sums: dict[str, float] = {}
    counts: dict[str, float] = {}
    with torch.no_grad(), evaluation_mode(model.modules()):  # type: ignore[attr-defined]
        for batch in batches:
            for key, rows in batch.items():
                for name, values in _row_statistics(model, objectives[key], spaces, key, rows, top_k).items():
                    values = values if rows.weight is None else values[rows.weight > 0]
                    sums[name] = sums.get(name, 0.0) + float(values.sum())
                    counts[name] = counts.get(name, 0.0) + len(values)
    return {name: total / max(1.0, counts[name]) for name, total in sums.items()}


def _row_statistics(
    model: ActorCritic,
    objective: Objective,
    spaces: StructuredSpaces,
    key: PolicyKey,
    rows: Rows,
    top_k: Sequence[int],
) -> dict[str, Tensor]:
    """One number a decision, (B,)."""
    logits = model.logits(key, rows.observation, rows.agent_id)
    policy_loss, entropy = objective.rows_and_entropy(logits, rows.action)
    statistics = {"policy_loss": policy_loss, "policy_entropy": entropy}
    place = "" if len(spaces.policy_keys) == 1 else f"{key}/"
    if place:
        statistics |= {f"policy_loss/{key}": policy_loss, f"policy_entropy/{key}": entropy}
    for head, distribution in model.distributions[key].heads.items():
        metrics = head_metrics(spaces.action[key][head], distribution, logits[head], rows.action[head], top_k)
        statistics |= {f"{name}/{place}{head}": values for name, values in metrics.items()}
    return statistics


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _joined_weights(rows: Iterable[Rows]) -> Tensor | None:
    weights = [own.weight for own in rows if own.weight is not None]
    return _joined(weights) if weights else None
