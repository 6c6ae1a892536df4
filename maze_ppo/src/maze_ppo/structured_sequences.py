"""Rollouts of recurrent models in structured environments: every actor's decisions are a sequence with its own state.

States are replayed as in `sequences`. A minibatch takes whole environments, with the sequences of all their actors, so
that it holds what followed from each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import numpy as np
import torch
from torch import Tensor

from maze_kernel.contracts.env import PolicyKey
from maze_ppo.actor_sequences import ActorSequences, episodes_before
from maze_ppo.structured_batch import COLUMNS, StructuredBatch
from maze_ppo.structured_estimator import SeriesAdvantages
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import BEGINS, ActingStates
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.decision_tensors import DecisionTensors, decision_tensors, to_tensor
from maze_runtime.rollout.structured_buffer import StructuredBuffer

_STEP_QUANTUM = 16
"""Compiled code sees sequences of a multiple of so many steps, so that few shapes occur."""


@attrs.frozen
class StructuredSequences:
    """The padded sequences of every policy key, and the states before their first decisions; a `RolloutBatch`.

    Attributes:
        rows: T_k·B_k decisions of each key, time-major, of weight 0 behind the end of a sequence; `BEGINS` is among the
            observations.
        states: policy key to name to (B_k, S).
        sequences: policy key to its sequences.
        n_steps, n_envs: T and N of the rollout.
        fixed_size: let minibatches have one shape, as far as rollouts have, for compiled code: with sequences of full
            length, and filled up with environments of weight 0.
    """

    rows: StructuredBatch
    states: Mapping[PolicyKey, TensorDict]
    sequences: Mapping[PolicyKey, ActorSequences]
    n_steps: int
    n_envs: int
    fixed_size: bool = False

    def columns(self) -> dict[str, Tensor]:
        """Columns by `policy key.name`, for a report."""
        of_keys = {f"{key}.{name}": state for key, own in self.states.items() for name, state in own.items()}
        return {**self.rows.columns(), **of_keys}

    def whole(self) -> StructuredBatch:
        """Everything as one minibatch."""
        return self._of(np.arange(self.n_envs))

    def minibatches(self, size: int, rng: np.random.Generator) -> Iterator[StructuredBatch]:
        """One pass over whole environments in random order, as many each time as have `size` decisions, or one."""
        n_chosen = min(max(1, size // self.n_steps), self.n_envs)
        permutation = rng.permutation(self.n_envs)
        for first in range(0, self.n_envs, n_chosen):
            chosen = permutation[first : first + n_chosen]
            fillers = permutation[: n_chosen - len(chosen)] if self.fixed_size else permutation[:0]
            minibatch = self._of(chosen, fillers)
            if minibatch.decisions:
                yield minibatch

    def _of(self, env_index: np.ndarray, fillers: np.ndarray | None = None) -> StructuredBatch:
        """The sequences of some environments, and those of others with weight 0."""
        decisions: dict[PolicyKey, DecisionTensors] = {}
        rows, counted, offset = [], [], 0
        for key, own in self.rows.decisions.items():
            sequences = self.sequences[key]
            chosen = sequences.of_environments(env_index)
            more = sequences.of_environments(env_index[:0] if fillers is None else fillers)
            if chosen.size:
                both = np.concatenate([chosen, more])
                n_steps = len(sequences.exists) if self.fixed_size else int(sequences.lengths[both].max())
                index = (np.arange(n_steps)[:, None] * len(sequences.env_index) + both).reshape(-1)
                rows.append(index + offset)
                counted.append(np.tile(np.arange(len(both)) < len(chosen), n_steps))
                decisions[key] = self._with_states(key, own.select(self._tensor(index)), self._tensor(both))
            offset += own.n_rows()
        index = self._tensor(np.concatenate([np.zeros(0, np.int64), *rows]))
        given = {name: getattr(self.rows, name) for name in COLUMNS}
        columns = {name: column.index_select(0, index) for name, column in given.items() if column is not None}
        columns["weight"] *= self._tensor(np.concatenate([np.zeros(0, bool), *counted]))
        return self.rows._replace(decisions=decisions, **columns)

    def _with_states(self, key: PolicyKey, own: DecisionTensors, chosen: Tensor) -> DecisionTensors:
        states = {name: state.index_select(0, chosen) for name, state in self.states[key].items()}
        return own._replace(observation={**own.observation, **states})

    def _tensor(self, index: np.ndarray) -> Tensor:
        return torch.from_numpy(index).to(self.rows.value.device)


class StructuredSequenceEstimator:
    """Values rollouts of recurrent models and carries the states of all actors from one rollout to the next.

    Args:
        model: being trained.
        device: of the model.
        gamma, gae_lambda: of the advantages, a flat step.
        fixed_size: see `StructuredSequences`.
    """

    def __init__(
        self, model: RecurrentModel, device: torch.device, *, gamma: float, gae_lambda: float, fixed_size: bool = False
    ) -> None:
        self._model, self._device, self._fixed_size = model, device, fixed_size
        self._advantages = SeriesAdvantages(model, device, gamma=gamma, gae_lambda=gae_lambda)
        self.begin()

    def begin(self) -> None:
        """Episodes begin in every environment: forget all states."""
        self._advantages.begin()
        self._states = {key: ActingStates(self._model.state_shapes(key)) for key in self._model.spaces.policy_keys}

    def forget(self, env_index: np.ndarray) -> None:
        """Forget the states of these environments (m,), and what their last decisions were worth."""
        self._advantages.forget(env_index)
        for states in self._states.values():
            states.clear(env_index)

    def estimate(self, rollout: StructuredBuffer) -> StructuredSequences:
        """Value the rollout that follows the last one, by the present weights."""
        replay = _Replay(self._model, self._device, rollout, self._states, _STEP_QUANTUM if self._fixed_size else 1)
        value, before, advantages = self._advantages(rollout, replay.value, replay.states_after)
        replay.end()
        values, gained = replay.column(value), replay.column(advantages)
        rows = StructuredBatch(
            replay.decisions,
            torch.cat(list(replay.log_prob.values())),
            values,
            gained,
            # R_t = A_t + V(s_t)
            gained + values,
            weight=replay.weight(),
            base_value=None if before is None else replay.column(before),
        )
        size = (rollout.n_steps, rollout.n_envs)
        return StructuredSequences(rows, replay.states, replay.sequences, *size, self._fixed_size)


class _Replay:
    """One pass over the sequences of a rollout.

    Args:
        carried: the states of all actors before it; `end` replaces them by those after it.
        quantum: see `ActorSequences.of`.

    Attributes:
        value: (T, N) float32, what the critic gives.
        decisions, sequences, states, log_prob: by policy key, of those that decided.
    """

    def __init__(
        self,
        model: RecurrentModel,
        device: torch.device,
        rollout: StructuredBuffer,
        carried: Mapping[PolicyKey, ActingStates],
        quantum: int,
    ) -> None:
        self._model, self._device, self._carried = model, device, carried
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
        exists, index = sequences.exists.reshape(-1), sequences.decisions
        self.value[index.step[exists], index.env_index[exists]] = value.cpu().numpy()[exists]
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

    def end(self) -> None:
        """Carry the states after the rollout on, of episodes that go on."""
        over = np.flatnonzero(self._episode[-1] > 0)
        for states in self._carried.values():
            states.clear(over)
        for key, sequences in self.sequences.items():
            index, rows = sequences.decisions, sequences.last_rows()
            goes_on = self._episode[index.step[rows], sequences.env_index] == self._episode[-1][sequences.env_index]
            own = {name: after[to_tensor(rows, self._device)].cpu().numpy() for name, after in self._after[key].items()}
            kept = {name: state[goes_on] for name, state in own.items()}
            self._carried[key].write(sequences.env_index[goes_on], sequences.agent_id[goes_on], kept)

    def column(self, array: np.ndarray) -> Tensor:
        """(T, N) numbers as a column (B,)."""
        own = [sequences.decisions for sequences in self.sequences.values()]
        return to_tensor(np.concatenate([array[index.step, index.env_index] for index in own]), self._device)

    def weight(self) -> Tensor:
        """(B,) 1 for decisions and 0 behind the end of a sequence."""
        exists = [sequences.exists.reshape(-1) for sequences in self.sequences.values()]
        return to_tensor(np.concatenate(exists).astype(np.float32), self._device)

    def _read(self, key: PolicyKey, env_index: np.ndarray, agent_id: np.ndarray) -> TensorDict:
        states = self._carried[key].read(env_index, agent_id)
        return {name: to_tensor(array, self._device) for name, array in states.items()}
