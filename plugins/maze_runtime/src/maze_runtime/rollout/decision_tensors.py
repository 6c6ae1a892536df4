"""The decisions of one policy key as tensors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.structured_buffer import DecisionIndex, StructuredBuffer

ROW_QUANTUM = 16
"""Compiled code sees a multiple of so many decisions a policy key, so that few shapes occur."""


class DecisionTensors(NamedTuple):
    """Decisions of one policy key, (B_k, ...) columns: what they were made on, what they were, and by which agent.

    A NamedTuple, so that torch's function transforms and compiler see through it.
    """

    observation: TensorDict
    action: TensorDict
    agent_id: Tensor

    def n_rows(self) -> int:
        """B_k."""
        return self.agent_id.shape[0]

    def select(self, index: Tensor) -> DecisionTensors:
        """The decisions at `index` (M,), copied."""
        return DecisionTensors(
            {name: tensor.index_select(0, index) for name, tensor in self.observation.items()},
            {name: tensor.index_select(0, index) for name, tensor in self.action.items()},
            self.agent_id.index_select(0, index),
        )

    def split(self, sizes: list[int]) -> list[DecisionTensors]:
        """Neighbouring decisions, so many in each piece; not copied."""
        observation = {name: tensor.split_with_sizes(sizes) for name, tensor in self.observation.items()}
        action = {name: tensor.split_with_sizes(sizes) for name, tensor in self.action.items()}
        return [
            DecisionTensors(
                {name: pieces[i] for name, pieces in observation.items()},
                {name: pieces[i] for name, pieces in action.items()},
                agent_id,
            )
            for i, agent_id in enumerate(self.agent_id.split_with_sizes(sizes))
        ]


def decision_tensors(
    buffer: StructuredBuffer, policy_key: PolicyKey, index: DecisionIndex, device: torch.device
) -> DecisionTensors:
    """The decisions of one policy key on the device, in the order of `index`; see `StructuredBuffer.decisions`."""
    table = buffer.tables[policy_key]
    observation = {name: to_tensor(array[index.row], device) for name, array in table.observation.items()}
    action = {name: to_tensor(array[index.row], device) for name, array in table.action.items()}
    return DecisionTensors(observation, action, to_tensor(index.agent_id, device))


def to_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """On the device; on the CPU, contiguous arrays share their memory."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(device)
