"""From rollouts of structured environments to rows: values and advantages of the whole decision stream."""

from __future__ import annotations

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
from maze_kernel.rollout.structured_buffer import StructuredBuffer
from maze_ppo.keyed_batch import Decided, KeyedBatch
from maze_ppo.objective import logits_and_values


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
        decided = {key: Decided(*decision_tensors(buffer, key, own, self._device)) for key, own in decisions.items()}
        place = tuple(
            np.concatenate([getattr(own, name) for own in decisions.values()]) for name in ("step", "env_index")
        )
        log_prob, estimates = self._evaluate(decided)
        value, before = np.zeros_like(buffer.reward), None
        value[place] = estimates.cpu().numpy()
        if self._kind == "delta-state":
            value, before = accumulate_differences(value, buffer.step_over, self._before_rollout(buffer))
            self._carried = carried_values(buffer, value)
        estimate = actor_advantages if self._kind == "step-state" else state_advantages
        stream = value_stream(buffer, self._model, value, self._device)
        advantages = self._tensor(estimate(stream, **self._discounts)[place])
        values = estimates if before is None else self._tensor(value[place])
        return KeyedBatch(
            decided,
            log_prob,
            values,
            advantages,
            advantages + values,
            weight=torch.ones_like(values) if self._fixed_size else None,
            base_value=None if before is None else self._tensor(before[place]),
        )

    def _evaluate(self, decided: dict[str, Decided]) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B,) and what the critic gives (B,)."""
        with torch.no_grad():
            logits, value = logits_and_values(self._model, decided)
            log_probs = [
                self._model.distributions[key].log_prob(logits[key], own.action) for key, own in decided.items()
            ]
            return torch.cat(log_probs), value

    def _before_rollout(self, buffer: StructuredBuffer) -> np.ndarray:
        return np.zeros(buffer.n_envs, np.float32) if self._carried is None else self._carried

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_tensor(array, self._device)
