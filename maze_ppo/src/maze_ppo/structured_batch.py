"""Rows of structured environments: one batch a policy key, with values and advantages of the whole decision stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_kernel.models.contract import ActorCritic
from maze_kernel.rollout.decision_stream import accumulate_differences, actor_advantages, state_advantages
from maze_kernel.rollout.decision_values import (
    carried_values,
    critic_kind_of,
    decision_tensors,
    to_tensor,
    value_stream,
)
from maze_kernel.rollout.structured_buffer import Decisions, StructuredBuffer
from maze_kernel.training.gradient_step import LossFunction
from maze_ppo.batch import Batch
from maze_ppo.losses import normalize_advantages

_ROW_QUANTUM = 16
"""Compiled code sees a multiple of so many rows a policy key, so that few shapes occur."""


class KeyedBatch(NamedTuple):
    """Rows of decisions by policy key; keys without rows are absent. A tuple, as `Batch` is."""

    batches: dict[str, Batch]

    @property
    def value(self) -> Tensor:
        """(B,) of all keys."""
        return torch.cat([batch.value for batch in self.batches.values()])

    @property
    def returns(self) -> Tensor:
        """(B,) of all keys."""
        return torch.cat([batch.returns for batch in self.batches.values()])

    @property
    def weight(self) -> None:
        """Only minibatches leave rows out."""
        return None

    def columns(self) -> dict[str, Tensor]:
        """Every column by `policy key.name`, for a report."""
        return {
            f"{key}.{name}": tensor for key, batch in self.batches.items() for name, tensor in batch.columns().items()
        }

    def whole(self) -> KeyedBatch:
        """All rows as one minibatch."""
        return KeyedBatch({key: next(_parts(batch, 1, None)) for key, batch in self.batches.items()})

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[KeyedBatch]:
        """One pass over all rows in random order, about `size` a time, each with its share of every policy key."""
        n_parts = math.ceil(sum(batch.n_rows() for batch in self.batches.values()) / size)
        parts = {key: _parts(batch, n_parts, rng) for key, batch in self.batches.items()}
        for _ in range(n_parts):
            drawn = {key: next(own) for key, own in parts.items()}
            yield KeyedBatch({key: batch for key, batch in drawn.items() if batch.n_rows()})


def _parts(batch: Batch, n_parts: int, rng: np.random.Generator | None) -> Iterator[Batch]:
    """Rows in random order (or in their own) in equal parts; with weights, filled up with rows of weight 0."""
    n_rows = batch.n_rows()
    order = np.arange(n_rows) if rng is None else rng.permutation(n_rows)
    if batch.weight is not None:
        order = np.concatenate([order, np.resize(order, -n_rows % (_ROW_QUANTUM * n_parts))])
    elif rng is None and n_parts == 1:
        yield batch
        return
    shuffled = batch.select(torch.from_numpy(order).to(batch.value.device))
    if shuffled.weight is not None:
        shuffled.weight[n_rows:] = 0.0
        # Rows of weight 0 belong in every part alike: part i takes rows i, i + n_parts, …
        for part in range(n_parts):
            yield shuffled.map(lambda column, part=part: column[part::n_parts])  # type: ignore[misc]
        return
    for first, last in zip(*_bounds(n_rows, n_parts), strict=True):
        yield shuffled.map(lambda column, first=first, last=last: column[first:last])  # type: ignore[misc]


def _bounds(n_rows: int, n_parts: int) -> tuple[list[int], list[int]]:
    cuts = [n_rows * part // n_parts for part in range(n_parts + 1)]
    return cuts[:-1], cuts[1:]


def summed_loss(loss_of: Callable[[str], LossFunction], policy_keys: tuple[str, ...], normalize: bool) -> LossFunction:
    """The sum of the losses of all policy keys; its statistics are their means over rows.

    Args:
        loss_of: policy key to its loss, which must not normalise advantages: that is done here, over all keys.
    """
    losses = {key: loss_of(key) for key in policy_keys}

    def loss(model: Any, rows: KeyedBatch, coefficients: Tensor) -> tuple[Tensor, Tensor]:
        batches = _normalized(rows.batches) if normalize else rows.batches
        parts = [losses[key](model, batch, coefficients) for key, batch in batches.items()]
        counts = torch.stack([_count(batch) for batch in batches.values()])
        statistics = torch.stack([statistics for _, statistics in parts])
        total = torch.stack([own for own, _ in parts]).sum()
        return total, counts @ statistics / counts.sum()

    return loss


def _normalized(batches: Mapping[str, Batch]) -> dict[str, Batch]:
    advantages = torch.cat([batch.advantages for batch in batches.values()])
    weights = [batch.weight for batch in batches.values() if batch.weight is not None]
    advantages = normalize_advantages(advantages, torch.cat(weights) if weights else None)
    parts = advantages.split([batch.n_rows() for batch in batches.values()])
    return {key: batch._replace(advantages=own) for (key, batch), own in zip(batches.items(), parts, strict=True)}


def _count(batch: Batch) -> Tensor:
    return batch.value.new_tensor(batch.n_rows()) if batch.weight is None else batch.weight.sum()


class StructuredRows:
    """Values collected rollouts and turns them into rows.

    Args:
        model: its `critic_kind` says what its values mean.
        device: of the model.
        gamma, gae_lambda: of the advantages, a flat step.
        fixed_size: give rows weights, for compiled code that sees few shapes.
    """

    def __init__(
        self, model: ActorCritic, device: torch.device, *, gamma: float, gae_lambda: float, fixed_size: bool = False
    ) -> None:
        self._model = model
        self._device = device
        self._discounts = {"gamma": gamma, "gae_lambda": gae_lambda}
        self._fixed_size = fixed_size
        self._kind = critic_kind_of(model)
        self._carried: np.ndarray | None = None

    def begin(self) -> None:
        """New episodes start everywhere."""
        self._carried = None

    def batch(self, buffer: StructuredBuffer) -> KeyedBatch:
        """Rows by policy key on the device; values and log-probabilities are those of the current weights.

        A decision within a flat step that began before the rollout is valued, by a delta critic, from what the
        decision before was worth to the weights of that time.
        """
        decisions = {key: own for key in buffer.policy_keys if len(own := buffer.decisions(key))}
        rows, value = {}, np.zeros_like(buffer.reward)
        for key, own in decisions.items():
            rows[key] = self._rows(buffer, key, own)
            value[own.step, own.env_index] = rows[key].value.cpu().numpy()
        before: np.ndarray | None = None
        if self._kind == "delta-state":
            value, before = accumulate_differences(value, buffer.step_over, self._before_rollout(buffer))
            self._carried = carried_values(buffer, value)
        estimate = actor_advantages if self._kind == "step-state" else state_advantages
        advantages = estimate(value_stream(buffer, self._model, value, self._device), **self._discounts)
        batches = {}
        for key, own in decisions.items():
            place = (own.step, own.env_index)
            values, ours = self._tensor(value[place]), self._tensor(advantages[place])
            batches[key] = rows[key]._replace(
                value=values,
                advantages=ours,
                returns=ours + values,
                base_value=None if before is None else self._tensor(before[place]),
                weight=torch.ones_like(ours) if self._fixed_size else None,
            )
        return KeyedBatch(batches)

    def _rows(self, buffer: StructuredBuffer, key: str, own: Decisions) -> Batch:
        observation, action, agent_id = decision_tensors(buffer, key, own, self._device)
        with torch.no_grad():
            logits, value = self._model.logits_and_value(key, observation, agent_id)
            log_prob = self._model.distributions[key].log_prob(logits, action)
        return Batch(observation, action, log_prob, value, value, value, agent_id=agent_id)

    def _before_rollout(self, buffer: StructuredBuffer) -> np.ndarray:
        return np.zeros(buffer.n_envs, np.float32) if self._carried is None else self._carried

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_tensor(array, self._device)
