"""How rollouts are valued: the estimator for the environments and the model at hand."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
import torch

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_ppo.batch import RolloutBatch
from maze_ppo.flat_estimator import FlatEstimator
from maze_ppo.options import OnPolicyOptions
from maze_ppo.sequences import SequenceEstimator
from maze_ppo.structured_estimator import StructuredEstimator
from maze_ppo.structured_sequences import StructuredSequenceEstimator
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import carries_state


class AdvantageEstimator(Protocol):
    """Values, log-probabilities and advantages of rollouts that follow each other."""

    def begin(self) -> None:
        """Episodes begin in every environment: forget what was kept of the last rollout."""
        ...

    def forget(self, env_index: np.ndarray) -> None:
        """Episodes begin in these environments (m,) with the next rollout, though the last one did not end them."""
        ...

    def estimate(self, rollout: Any) -> RolloutBatch:
        """Value the rollout that follows the last one, by the present weights."""
        ...


def make_estimator(
    model: ActorCritic,
    spaces: StructuredSpaces,
    device: torch.device,
    options: OnPolicyOptions,
    *,
    needs_log_prob: bool = True,
) -> AdvantageEstimator:
    """The estimator for flat or structured environments, or for a model that carries state.

    Args:
        model: being trained.
        spaces: of the environments.
        device: of the model.
        options: of the trainer.
        needs_log_prob: whether the algorithm compares new probabilities with those of the weights that acted; where it
            does not, feed-forward models in flat environments are not asked for them; others are all the same.
    """
    discounts = {"gamma": options.gamma, "gae_lambda": options.gae_lambda}
    if carries_state(model):
        recurrent = cast(RecurrentModel, model)
        if spaces.is_flat:
            key = spaces.policy_keys[0]
            return SequenceEstimator(recurrent, key, device, **discounts, fixed_size=options.compile)
        return StructuredSequenceEstimator(recurrent, device, **discounts, fixed_size=options.compile)
    if spaces.is_flat:
        return FlatEstimator(model, device, **discounts, fixed_size=options.compile, needs_log_prob=needs_log_prob)
    return StructuredEstimator(model, device, **discounts, fixed_size=options.compile)
