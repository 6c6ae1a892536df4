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
from maze_ppo.structured_batch import COLUMNS, StructuredBatch
from maze_ppo.structured_estimator import SeriesAdvantages
from maze_runtime.models.capabilities import RecurrentModel
from maze_runtime.models.recurrence import ActingStates
from maze_runtime.models.tensor_dict import TensorDict
from maze_runtime.rollout.actor_replay import ActorReplay
from maze_runtime.rollout.actor_sequences import ActorSequences
from maze_runtime.rollout.decision_tensors import DecisionTensors
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
        replay = ActorReplay(self._model, self._device, rollout, self._states, _STEP_QUANTUM if self._fixed_size else 1)
        value, before, advantages = self._advantages(rollout, replay.value, replay.states_after)
        replay.carry(self._states)
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
