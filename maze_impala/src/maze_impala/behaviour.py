"""What actors say of how they made a rollout: log-probabilities of their actions, with the weights they acted with."""

from __future__ import annotations

import numpy as np
import torch

from maze_kernel.contracts.model import ActorCritic
from maze_runtime.models.evaluation_mode import evaluation_mode
from maze_runtime.rollout.buffer import RolloutBuffer
from maze_runtime.rollout.decision_tensors import decision_tensors
from maze_runtime.rollout.structured_buffer import StructuredBuffer

_CPU = torch.device("cpu")


def log_probabilities(buffer: RolloutBuffer | StructuredBuffer, model: ActorCritic) -> np.ndarray:
    """(T, N) log mu(a|x), one forward pass a policy key; 0 for decisions of structured environments that are void."""
    with torch.inference_mode(), evaluation_mode(model.modules()):  # type: ignore[attr-defined]
        if isinstance(buffer, StructuredBuffer):
            return _of_structured(buffer, model)
        key = buffer.policy_key
        observation, action = (
            {name: torch.from_numpy(array.reshape(-1, *array.shape[2:])) for name, array in arrays.items()}
            for arrays in (buffer.observation, buffer.action)
        )
        log_prob = model.distributions[key].log_prob(model.logits(key, observation), action)
    return log_prob.numpy().reshape(buffer.reward.shape)


def _of_structured(buffer: StructuredBuffer, model: ActorCritic) -> np.ndarray:
    log_prob = np.zeros(buffer.reward.shape, np.float32)
    for key in buffer.policy_keys:
        own = buffer.decisions(key)
        if len(own):
            decisions = decision_tensors(buffer, key, own, _CPU)
            logits = model.logits(key, decisions.observation, decisions.agent_id)
            log_prob[own.step, own.env_index] = model.distributions[key].log_prob(logits, decisions.action).numpy()
    return log_prob
