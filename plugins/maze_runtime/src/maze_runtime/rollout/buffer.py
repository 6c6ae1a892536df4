"""Preallocated, time-major storage of one rollout of flat environments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.env.batching import allocate


class RolloutBuffer:
    """T steps of N environments, `(T, N, ...)` arrays that are overwritten by the next rollout.

    Attributes:
        observation: name to (T, N, ...), what decision t was made on, in the dtype of its space.
        action: head to (T, N, ...).
        reward: (T, N) float32.
        terminated, truncated: (T, N) bool.
        void: (T, N) bool: decisions that only reset an environment and are no transitions.
        last_observation: name to (N, ...), after the last step: it bootstraps the last row.
        truncations: (t, env_index (m,), observation name to (m, ...)) of every truncated, not terminated episode.
        value: (T, N) float32 of each decision by the weights that made it, and `logits`, head to (T, N, L), likewise;
            None and empty without `keep_evaluations`.
    """

    def __init__(self, spaces_: StructuredSpaces, policy_key: PolicyKey, n_steps: int, n_envs: int) -> None:
        self.policy_key = policy_key
        self.n_steps = n_steps
        self.n_envs = n_envs
        self.observation = allocate(spaces_.observation[policy_key], n_steps, n_envs)
        self.action = allocate(spaces_.action[policy_key], n_steps, n_envs)
        self.last_observation = allocate(spaces_.observation[policy_key], n_envs)
        self.reward = np.zeros((n_steps, n_envs), np.float32)
        self.terminated = np.zeros((n_steps, n_envs), bool)
        self.truncated = np.zeros((n_steps, n_envs), bool)
        self.void = np.zeros((n_steps, n_envs), bool)
        self.truncations: list[tuple[int, np.ndarray, ArrayDict]] = []
        self.value: np.ndarray | None = None
        self.logits: ArrayDict = {}

    def keep_evaluations(self, logits_shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Make room for values and logits, for whoever steps with a policy that gives both."""
        leading = (self.n_steps, self.n_envs)
        self.value = np.zeros(leading, np.float32)
        self.logits = {head: np.zeros((*leading, *shape), np.float32) for head, shape in logits_shapes.items()}

    @property
    def time_major(self) -> tuple[str, ...]:
        """The names of `columns` that are (T, N, ...) and not (N, ...)."""
        return tuple(name for name in self.columns() if not name.startswith("last_observation/"))

    def columns(self) -> ArrayDict:
        """Every array by a name, those of observations and actions by `observation/name`."""
        columns = {name: getattr(self, name) for name in ("reward", "terminated", "truncated", "void")}
        for kind in ("observation", "action", "last_observation"):
            columns |= {f"{kind}/{name}": array for name, array in getattr(self, kind).items()}
        return columns

    def begin(self) -> None:
        """Start a rollout over."""
        self.truncations.clear()
        self.void.fill(False)

    def add_truncation(self, step: int, env_index: np.ndarray, observation: Mapping[str, np.ndarray]) -> None:
        """Keep copies of the final observations of episodes cut at `step`."""
        self.truncations.append((step, env_index.copy(), {name: array.copy() for name, array in observation.items()}))

    def valid_rows(self) -> np.ndarray | None:
        """Flat indices t·N + n of real transitions, or None where all of them are."""
        return np.flatnonzero(~self.void) if self.void.any() else None
