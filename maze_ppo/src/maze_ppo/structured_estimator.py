"""How rollouts of structured environments are valued: advantages of every decision, whoever takes it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.model import ActorCritic
from maze_ppo.structured_batch import StructuredBatch, by_distribution, logits_and_values
from maze_runtime.rollout.decision_tensors import DecisionTensors, decision_tensors, to_tensor
from maze_runtime.rollout.decision_values import StatesAfter, carried_values, critic_kind_of, value_rollout
from maze_runtime.rollout.structured_buffer import StructuredBuffer
from maze_runtime.rollout.successors import accumulate_differences, actor_advantages, state_advantages


class SeriesAdvantages:
    """Advantages of rollouts that follow each other; a delta critic's values go on from one to the next.

    Args:
        model: its `critic_kind` says what its values mean.
        device: of the model.
        gamma, gae_lambda: of the advantages, a flat step.
    """

    def __init__(self, model: ActorCritic, device: torch.device, *, gamma: float, gae_lambda: float) -> None:
        self._model, self._device = model, device
        self._discounts = {"gamma": gamma, "gae_lambda": gae_lambda}
        self._kind = critic_kind_of(model)
        self._carried: np.ndarray | None = None

    def begin(self) -> None:
        """Episodes begin in every environment: forget the last rollout."""
        self._carried = None

    def forget(self, env_index: np.ndarray) -> None:
        """Forget what the last decisions of these environments (m,) were worth."""
        if self._carried is not None:
            self._carried[env_index] = 0.0

    def __call__(
        self, rollout: StructuredBuffer, value: np.ndarray, states_after: StatesAfter | None = None
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Of every decision, (T, N) each, by the present weights.

        A decision within a flat step that began before the rollout is valued, by a delta critic, from what the
        decision before was worth to the weights of that time.

        Args:
            rollout: follows the last one.
            value: (T, N) float32, what the critic gives for each decision.
            states_after: of models that carry state, see `value_rollout`.

        Returns:
            Values; the part of each that comes from the decision before, None but for a delta critic; advantages.
        """
        before = None
        if self._kind == "delta-state":
            value, before = accumulate_differences(value, rollout.step_over, self._before_rollout(rollout))
            self._carried = carried_values(rollout, value)
        estimate = actor_advantages if self._kind == "step-state" else state_advantages
        valued = value_rollout(rollout, self._model, value, self._device, states_after)
        return value, before, estimate(valued, **self._discounts)

    def _before_rollout(self, rollout: StructuredBuffer) -> np.ndarray:
        return np.zeros(rollout.n_envs, np.float32) if self._carried is None else self._carried


class StructuredEstimator:
    """Values rollouts of structured environments with feed-forward models.

    Args:
        model: being trained.
        device: of the model.
        gamma, gae_lambda: of the advantages, a flat step.
        fixed_size: give decisions weights, for compiled code that sees few shapes.
    """

    def __init__(
        self, model: ActorCritic, device: torch.device, *, gamma: float, gae_lambda: float, fixed_size: bool = False
    ) -> None:
        self._model = model
        self._device = device
        self._fixed_size = fixed_size
        self._advantages = SeriesAdvantages(model, device, gamma=gamma, gae_lambda=gae_lambda)

    def begin(self) -> None:
        """Episodes begin in every environment: forget the last rollout."""
        self._advantages.begin()

    def forget(self, env_index: np.ndarray) -> None:
        """Forget what the last decisions of these environments (m,) were worth."""
        self._advantages.forget(env_index)

    def estimate(self, rollout: StructuredBuffer) -> StructuredBatch:
        """Decisions by policy key on the device, valued by the present weights."""
        index = {key: own for key in rollout.policy_keys if len(own := rollout.decisions(key))}
        decisions = {key: decision_tensors(rollout, key, own, self._device) for key, own in index.items()}
        place = tuple(np.concatenate([getattr(own, name) for own in index.values()]) for name in ("step", "env_index"))
        log_prob, estimates = self._evaluate(decisions)
        value = np.zeros_like(rollout.reward)
        value[place] = estimates.cpu().numpy()
        value, before, gained = self._advantages(rollout, value)
        advantages = self._tensor(gained[place])
        values = estimates if before is None else self._tensor(value[place])
        # R_t = A_t + V(s_t)
        returns = advantages + values
        return StructuredBatch(
            decisions,
            log_prob,
            values,
            advantages,
            returns,
            weight=torch.ones_like(values) if self._fixed_size else None,
            base_value=None if before is None else self._tensor(before[place]),
        )

    def _evaluate(self, decisions: dict[str, DecisionTensors]) -> tuple[Tensor, Tensor]:
        """Log-probabilities (B,) and what the critic gives (B,)."""
        with torch.no_grad():
            logits, value = logits_and_values(self._model, decisions)
            log_probs = [
                distribution.log_prob(own_logits, action)
                for distribution, own_logits, action in by_distribution(self._model, logits, decisions)
            ]
            return torch.cat(log_probs), value

    def _tensor(self, array: np.ndarray) -> Tensor:
        return to_tensor(array, self._device)
