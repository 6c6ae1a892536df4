"""Rewards divided by the spread of returns, so that values have the size of 1 whatever the reward's unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_wrappers.counted_in_blocks import CountedInBlocks
from maze_wrappers.options import ReturnNormalizationOptions
from maze_wrappers.running_statistics import RunningMoments
from maze_wrappers.scalings import clipped


class ReturnNormalization(Transform):
    """r'_t = r_t / sqrt(Var(R) + epsilon) with R_t = gamma R_{t−1} + r_t running in each environment.

    R starts at 0 in each episode. The variance is that of all R seen while training; rewards are not shifted.
    In a structured environment every sub-step counts as a step. Where agents are paid by differences of their returns,
    the variance is that of these, one a decision, as they are known when an episode ends.
    """

    def __init__(self, options: ReturnNormalizationOptions) -> None:
        self.options = options
        self._moments = RunningMoments()
        self._counted = CountedInBlocks(self._moments)
        self._returns = np.zeros(0)
        self._divisor = 1.0
        self._is_paid_by_differences = False

    def bind(self, inner: StructuredSpaces) -> StructuredSpaces:
        """The same spaces."""
        self._is_paid_by_differences = inner.pays_differences
        return inner

    @property
    def notes(self) -> tuple[str, ...]:
        """As training says it."""
        return ("rewards divided by the spread of returns",)

    def observe_reset(self, observation: Mapping[PolicyKey, dict[str, np.ndarray]], n_envs: int) -> None:
        """Forget the running episodes."""
        self._returns = np.zeros(n_envs)
        if self._counted.begin():
            self._refresh()

    def observe_step(
        self,
        observation: Mapping[PolicyKey, dict[str, np.ndarray]],
        reward: np.ndarray,
        ended: np.ndarray,
        valid: np.ndarray | None = None,
    ) -> None:
        """Add this step's returns to the variance."""
        if self._is_paid_by_differences:
            return
        if self._returns.shape != reward.shape:
            self._returns = np.zeros(reward.shape)
        self._returns = self._returns * self.options.gamma + reward
        if self._counted.add(self._returns if valid is None else self._returns[valid]):
            self._refresh()
        over = ended if valid is None else ended | ~valid
        self._returns[over] = 0.0

    def observe_returns(self, returns: np.ndarray) -> None:
        """Add those of the decisions of episodes that ended; see `ObservesReturns`."""
        if self._counted.add(returns):
            self._refresh()

    def reward(self, reward: np.ndarray) -> np.ndarray:
        """Inner reward to outer."""
        normalised = reward / self._divisor
        if self.options.clip_range is not None:
            normalised = clipped(normalised, self.options.clip_range)
        return normalised

    def hold(self) -> None:
        """See `Transform.hold`."""
        self._counted.holds = True

    def take_partial(self) -> RunningMoments | None:
        """The moments of returns since this or `load_state_dict` was called; None without any."""
        return self._counted.take()  # type: ignore[return-value]

    def finish_estimation(self, partials: Sequence[RunningMoments | None]) -> None:
        """Merge what copies have seen."""
        for partial in partials:
            if partial is not None:
                self._moments.merge(partial)
        self._refresh()

    def state_dict(self) -> dict[str, Any]:
        """The moments of the return; running episodes are not saved, resuming resets the environments."""
        return self._counted.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self._counted.load_state_dict(state)
        self._refresh()

    def _refresh(self) -> None:
        std = float(self._moments.std)
        self._divisor = float(np.sqrt(std * std + self.options.epsilon))
