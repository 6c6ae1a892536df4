"""The decisions of one policy key as sequences, one an actor of an environment, along which states are replayed.

NumPy only. Sequences are padded at their ends to one length, so that they make a rectangle.
"""

from __future__ import annotations

import math

import attrs
import numpy as np

from maze_runtime.rollout.structured_buffer import DecisionIndex, StructuredBuffer


def episodes_before(rollout: StructuredBuffer) -> np.ndarray:
    """(T + 1, N) how many episodes ended in each environment before step t; the last row: in the whole rollout."""
    ended = rollout.terminated | rollout.truncated | rollout.void
    before = np.zeros((rollout.n_steps + 1, rollout.n_envs), np.int64)
    np.cumsum(ended, axis=0, out=before[1:])
    return before


@attrs.frozen
class ActorSequences:
    """T_k decisions of B_k sequences at most, sequences in the order of environment and agent.

    Attributes:
        decisions: T_k·B_k of them, time-major; behind the end of a sequence its last one again.
        exists: (T_k, B_k) bool, false there.
        begins: (T_k, B_k) bool, an episode began since the actor's last decision.
        env_index, agent_id: (B_k,) whose sequence it is.
    """

    decisions: DecisionIndex
    exists: np.ndarray
    begins: np.ndarray
    env_index: np.ndarray
    agent_id: np.ndarray

    @classmethod
    def of(cls, own: DecisionIndex, episode: np.ndarray, quantum: int = 1) -> ActorSequences:
        """Sort the decisions of a policy key, at least one.

        Args:
            own: in any order.
            episode: see `episodes_before`.
            quantum: T_k is a multiple of it.
        """
        order = np.lexsort((own.step, own.agent_id, own.env_index))
        codes = _codes(own.env_index, own.agent_id)[order]
        _, first, counts = np.unique(codes, return_index=True, return_counts=True)
        rank = np.arange(len(order)) - np.repeat(first, counts)
        sequence = np.repeat(np.arange(len(first)), counts)
        rows = np.tile(order[first + counts - 1], (math.ceil(counts.max() / quantum) * quantum, 1))
        rows[rank, sequence] = order
        decisions = own.take(rows.reshape(-1))
        of_row = episode[decisions.step, decisions.env_index].reshape(rows.shape)
        before = np.concatenate([np.zeros_like(of_row[:1]), of_row[:-1]])
        exists = np.arange(len(rows))[:, None] < counts
        return cls(decisions, exists, of_row != before, own.env_index[order[first]], own.agent_id[order[first]])

    @property
    def lengths(self) -> np.ndarray:
        """(B_k,) decisions of each sequence."""
        lengths: np.ndarray = self.exists.sum(axis=0)
        return lengths

    def of_environments(self, env_index: np.ndarray) -> np.ndarray:
        """The sequences (b,) of some environments (m,), in their order."""
        firsts, ends = (np.searchsorted(self.env_index, env_index, side) for side in ("left", "right"))
        ranges = [np.arange(first, end) for first, end in zip(firsts, ends, strict=True)]
        return np.concatenate([np.zeros(0, np.int64), *ranges])

    def last_rows(self) -> np.ndarray:
        """(B_k,) where the last decision of each sequence stands among the T_k·B_k."""
        rows: np.ndarray = (self.lengths - 1) * len(self.env_index) + np.arange(len(self.env_index))
        return rows

    def latest(self, step: np.ndarray, env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
        """(m,) where an actor's latest decision at or before a step stands among the T_k·B_k; −1: there is none."""
        own, asked = _codes(self.env_index, self.agent_id), _codes(env_index, agent_id)
        sequence = np.searchsorted(own, asked).clip(max=len(own) - 1)
        steps = np.where(self.exists, self.decisions.step.reshape(self.exists.shape), np.iinfo(np.int64).max)
        n_before = (steps[:, sequence] <= step).sum(axis=0)
        found = (own[sequence] == asked) & (n_before > 0)
        return np.where(found, (n_before - 1) * len(own) + sequence, -1)


def _codes(env_index: np.ndarray, agent_id: np.ndarray) -> np.ndarray:
    """One number an actor of a policy key, in the order of environment and agent."""
    codes: np.ndarray = np.asarray(env_index, np.int64) * (1 << 32) + agent_id
    return codes
