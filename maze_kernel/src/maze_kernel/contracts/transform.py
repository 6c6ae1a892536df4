"""Transforms: wrappers that are functions on arrays with leading batch dimensions.

Written once, a transform serves one environment and a whole batch alike: `TransformedEnv` applies it to single
observations, `TransformedVectorEnv` (rollout room) to `(N, ...)` arrays. A wrapper that must see one
environment (random reset, step skipping) is an env wrapper instead: a class around a `StructuredEnv`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict, Tick
from maze_kernel.errors import EnvError

if TYPE_CHECKING:
    from torch import Tensor


class Memory(Protocol):
    """What a transform remembers of the running episodes of one batch, e.g. the last frames.

    It sees every tick after the transform's own functions and returns it as it is seen from outside: the same
    tick, or a new one; a tick is never changed in place. With a method `drain_batch_statistics` it also reports
    event statistics (`maze_kernel.contracts.capabilities.ReportsBatchStatistics`).
    """

    def reset(self, tick: Tick) -> Tick:
        """All environments were reset."""
        ...

    def step(self, actions: Mapping[PolicyKey, ArrayDict], tick: Tick) -> Tick:
        """One decision was taken everywhere; `actions` are the outer ones, rows as in the last tick's groups."""
        ...


class Transform:
    """The identity; a subclass overrides what it changes.

    Arrays carry any number of leading batch dimensions: none for one environment, `(N, ...)` for a batch.
    Never change an argument in place.

    What a transform does not do is passed by without a call. `changes`, `exports`, `keeps_running_statistics` and
    `saves_state` say so; by default what a subclass writes is what it does. One that its options leave idle may
    override them.
    """

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """Called with the spaces of what is wrapped, before anything else; returns the spaces seen from outside.

        Called once for every batch the transform serves; all of them have the same spaces.
        """
        return inner

    def observation(self, policy_key: PolicyKey, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner observation to outer; also called for final observations."""
        return observation

    def action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Outer action to inner."""
        return action

    def changes(self, what: Literal["observation", "action", "reward"]) -> bool:
        """Whether the method of that name gives anything but its argument."""
        return self._writes(what)

    def reverse_action(self, policy_key: PolicyKey, action: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inner action to outer, for imitation from recorded episodes.

        Raises:
            EnvError: the transform changes actions and does not say how they map back.
        """
        if not self.changes("action"):
            return action
        raise EnvError(
            f"{type(self).__name__} does not say how a recorded action maps back",
            owner=type(self).__module__,
            help=f"write {type(self).__name__}.reverse_action",
        )

    def memory(self, n_envs: int) -> Memory | None:
        """What remembers the running episodes of one batch; None where no tick depends on an earlier one.

        Called after `bind`, once for every batch the transform serves.
        """
        return None

    def export_observation(self, policy_key: PolicyKey, observation: dict[str, Tensor]) -> dict[str, Tensor]:
        """`observation` in torch operations on (B, ...) tensors: it goes into the files of `maze export`.

        A transform that changes observations and does not write it cannot be exported.
        """
        return observation

    def export_action(self, policy_key: PolicyKey, action: dict[str, Tensor]) -> dict[str, Tensor]:
        """`action` in torch operations, likewise."""
        return action

    def exports(self, what: Literal["observation", "action"]) -> bool:
        """Whether `export_observation` or `export_action` does in torch what the method of that name does in NumPy."""
        return self._writes(f"export_{what}")

    def reward(self, reward: np.ndarray) -> np.ndarray:
        """Inner reward to outer, shape () or (N,)."""
        return reward

    def observe_reset(self, observation: Mapping[PolicyKey, dict[str, np.ndarray]], n_envs: int) -> None:
        """All environments were reset: forget running episodes, count these first observations."""

    def observe_step(
        self,
        observation: Mapping[PolicyKey, dict[str, np.ndarray]],
        reward: np.ndarray,
        ended: np.ndarray,
        valid: np.ndarray | None = None,
    ) -> None:
        """Update running statistics with a batch of real transitions; called only while training.

        It is called before `observation` and `reward` of the same step.

        Args:
            observation: inner observations of this tick by policy key, `(n, ...)`; rows that only await a reset
                are left out and final observations are included, so each observation is seen once.
            reward: inner rewards, (N,).
            ended: whether the episode ended with this step, (N,).
            valid: False where the step only reset an environment and its reward is void, (N,); None: all valid.
        """

    @property
    def keeps_running_statistics(self) -> bool:
        """Whether it learns from the steps of training, by `observe_reset` or `observe_step`.

        Someone must then show it every step. Copies in several workers are brought together by `take_partial`.
        """
        return self._writes("observe_reset") or self._writes("observe_step")

    def hold(self) -> None:
        """From now on what is observed waits for `take_partial`, and nothing changes meanwhile."""

    def take_partial(self) -> Any:
        """The partial statistic, as of `collect`, of all that was observed since this or `load_state_dict` was called.

        `finish_estimation` of another copy merges it. A transform that does not write it has no copies in workers.
        """
        raise NotImplementedError

    training: bool = True
    """False while evaluating and deploying: statistics stay as they are. Read by `TransformedEnv`."""

    reports: bool = False
    """Whether its memory only reports statistics of the batch: it changes no tick, and cannot stand inside an env wrapper."""  # noqa: E501

    estimation_steps: int = 0
    """Decisions of a random policy wanted before training, while statistics are missing; 0: nothing to estimate.

    `maze_runtime.rollout.estimation` then samples them, in the worker pool where there is one: each worker
    calls `collect`, and `finish_estimation` merges what they return.
    """

    def collect(self, batches: Iterable[Mapping[PolicyKey, dict[str, np.ndarray]]]) -> Any:
        """Reduce batches of inner observations to a partial statistic; leaves the transform as it is."""
        raise NotImplementedError

    def finish_estimation(self, partials: Sequence[Any]) -> None:
        """Merge the partial statistics and use them from now on; sets `estimation_steps` to 0."""
        raise NotImplementedError

    @property
    def saves_state(self) -> bool:
        """Whether `state_dict` has something to save; inside an env wrapper it would be lost."""
        return self._writes("state_dict")

    def state_dict(self) -> dict[str, Any]:
        """Statistics to save, arrays and JSON values; empty for a stateless transform."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""

    def _writes(self, method: str) -> bool:
        """Whether a subclass overrides a method of this class."""
        return getattr(type(self), method) is not getattr(Transform, method)
