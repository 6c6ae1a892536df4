"""The states of every actor's networks, from one rollout of structured environments to the next.

As in `state_replay`; the sequences of actors have several lengths and are padded at their ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import BEGINS, ActingStates
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.actor_sequences import ActorSequences, episodes_before
from maze_runtime.rollout.decision_tensors import DecisionTensors, decision_tensors, to_tensor
from maze_runtime.rollout.structured_buffer import StructuredBuffer


class StatesBefore(Protocol):
    """The states of the actors of a policy key before a rollout; `ActingStates` are such."""

    def read(self, env_index: np.ndarray, agent_id: np.ndarray) -> ArrayDict:
        """Rows (n, S) by name of these environments and agents, (n,) each; zero where an episode begins."""
        ...


class ActorReplay:
    """One pass over the sequences of a rollout.

    Args:
        before: by policy key, the states of all actors before it.
        quantum: see `ActorSequences.of`.

    Attributes:
        value: (T, N) float32, what the critic gives for each decision.
        decisions, sequences, states, log_prob: by policy key, of those that decided.
    """

    def __init__(
        self,
        model: RecurrentModel,
        device: torch.device,
        rollout: StructuredBuffer,
        before: Mapping[PolicyKey, StatesBefore],
        quantum: int = 1,
    ) -> None:
        self._model, self._device, self._before = model, device, before
        self._episode = episodes_before(rollout)
        self.value = np.zeros_like(rollout.reward)
        self.decisions: dict[PolicyKey, DecisionTensors] = {}
        self.sequences: dict[PolicyKey, ActorSequences] = {}
        self.states: dict[PolicyKey, TensorDict] = {}
        self.log_prob: dict[PolicyKey, Tensor] = {}
        self._after: dict[PolicyKey, TensorDict] = {}
        for key in rollout.policy_keys:
            if len(own := rollout.decisions(key)):
                self._replay(rollout, key, ActorSequences.of(own, self._episode, quantum))

    def _replay(self, rollout: StructuredBuffer, key: PolicyKey, sequences: ActorSequences) -> None:
        own = decision_tensors(rollout, key, sequences.decisions, self._device)
        begins = to_tensor(sequences.begins.reshape(-1).astype(np.float32), self._device)
        own = own._replace(observation={**own.observation, BEGINS: begins})
        states = self._read(key, sequences.env_index, sequences.agent_id)
        with torch.no_grad():
            logits, value, after = self._model.advance(key, {**own.observation, **states}, own.agent_id)
            self.log_prob[key] = self._model.distributions[key].log_prob(logits, own.action)
        assert value is not None
        _put(self.value, value, sequences)
        self.decisions[key], self.sequences[key] = own, sequences
        self.states[key], self._after[key] = states, after

    def states_after(
        self, key: PolicyKey, step: np.ndarray, env_index: np.ndarray, agent_id: np.ndarray, *, reset: bool
    ) -> TensorDict:
        """See `StatesAfter`: those of the actors' latest decisions, zero where the episode began since."""
        states = self._read(key, env_index, agent_id)
        now = self._episode[step + int(reset), env_index]
        since = np.zeros(len(step), np.int64)
        if key in self.sequences:
            sequences = self.sequences[key]
            rows = sequences.latest(step, env_index, agent_id)
            known, index = np.flatnonzero(rows >= 0), sequences.decisions
            since[known] = self._episode[index.step[rows[known]], env_index[known]]
            for name, after in self._after[key].items():
                states[name][to_tensor(known, self._device)] = after[to_tensor(rows[known], self._device)]
        goes_on = to_tensor((since == now).astype(np.float32), self._device)[:, None]
        return {name: state * goes_on for name, state in states.items()} | {BEGINS: torch.zeros_like(goes_on[:, 0])}

    def carry(self, states: Mapping[PolicyKey, ActingStates]) -> None:
        """Turn the states of all actors before the rollout into those after it, of episodes that go on."""
        over = np.flatnonzero(self._episode[-1] > 0)
        for own in states.values():
            own.clear(over)
        for key, sequences in self.sequences.items():
            index, rows = sequences.decisions, sequences.last_rows()
            goes_on = self._episode[index.step[rows], sequences.env_index] == self._episode[-1][sequences.env_index]
            last = to_tensor(rows[goes_on], self._device)
            kept = {name: after[last].cpu().numpy() for name, after in self._after[key].items()}
            states[key].write(sequences.env_index[goes_on], sequences.agent_id[goes_on], kept)

    def by_step(self, columns: Mapping[PolicyKey, Tensor]) -> np.ndarray:
        """(T, N) float32 of columns such as `log_prob`; 0 where nobody decided."""
        array = np.zeros_like(self.value)
        for key, column in columns.items():
            _put(array, column, self.sequences[key])
        return array

    def column(self, array: np.ndarray) -> Tensor:
        """(T, N) numbers as a column (B,)."""
        own = [sequences.decisions for sequences in self.sequences.values()]
        return to_tensor(np.concatenate([array[index.step, index.env_index] for index in own]), self._device)

    def weight(self) -> Tensor:
        """(B,) 1 for decisions and 0 behind the end of a sequence."""
        exists = [sequences.exists.reshape(-1) for sequences in self.sequences.values()]
        return to_tensor(np.concatenate(exists).astype(np.float32), self._device)

    def _read(self, key: PolicyKey, env_index: np.ndarray, agent_id: np.ndarray) -> TensorDict:
        states = self._before[key].read(env_index, agent_id)
        return {name: to_tensor(array, self._device) for name, array in states.items()}


def _put(array: np.ndarray, column: Tensor, sequences: ActorSequences) -> None:
    """Write a column (T_k·B_k,) into an array (T, N)."""
    exists, index = sequences.exists.reshape(-1), sequences.decisions
    array[index.step[exists], index.env_index[exists]] = column.cpu().numpy()[exists]
