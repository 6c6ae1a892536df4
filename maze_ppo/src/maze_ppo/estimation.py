"""How rollouts are valued: the estimator for the environments and the model at hand."""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np
import torch

from maze_kernel.contracts.env import StructuredSpaces
from maze_kernel.contracts.model import ActorCritic
from maze_kernel.errors import RequestError
from maze_ppo.batch import FlatEstimator, RolloutBatch
from maze_ppo.options import OnPolicyOptions
from maze_ppo.sequences import SequenceEstimator
from maze_ppo.structured_estimator import StructuredEstimator
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
    model: ActorCritic, spaces: StructuredSpaces, device: torch.device, options: OnPolicyOptions
) -> AdvantageEstimator:
    """The estimator for flat or structured environments, or for a model that carries state.

    Args:
        model: being trained.
        spaces: of the environments.
        device: of the model.
        options: of the trainer.

    Raises:
        RequestError: the model carries state where that cannot be trained.
    """
    discounts = {"gamma": options.gamma, "gae_lambda": options.gae_lambda}
    recurrent = [key for key in spaces.policy_keys if carries_state(model, key)]
    if recurrent and (options.compile or not spaces.is_flat):
        raise RequestError(
            "a model that carries state from step to step cannot be trained here",
            received="compile = true" if spaces.is_flat else f"policy keys {', '.join(spaces.policy_keys)}",
            expected="compile = false, and an environment with one policy key and one agent",
            owner="maze-ppo",
            help="read a stacked history with stateful = false",
        )
    if recurrent:
        return SequenceEstimator(cast(RecurrentModel, model), recurrent[0], device, **discounts)
    estimator = FlatEstimator if spaces.is_flat else StructuredEstimator
    return estimator(model, device, **discounts, fixed_size=options.compile)
