"""Whose decision is paid what, where one decision counts for several steps of the environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from maze_kernel.contracts.env import ActorID
from maze_kernel.errors import EnvError


class DecisionRewards:
    """What every decision since `begin` is paid, as the environment divides the rewards of its own flat steps.

    A sub-step that repeats an actor's decision pays that decision, the actor's last one.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A flat step of those who decide begins."""
        self._paid: list[float] = []
        self._last: dict[ActorID, int] = {}
        self._is_divided = False
        self._sub_steps: list[tuple[int, float]] = []

    def decide(self, actor: ActorID) -> None:
        """An actor decides."""
        self._last[actor] = len(self._paid)
        self._paid.append(0.0)

    def add(self, actor: ActorID, reward: float) -> None:
        """The environment took a sub-step of an actor who decided, and returned a reward."""
        self._sub_steps.append((self._last[actor], reward))

    def end_flat_step(self, divided: Any | None) -> None:
        """The environment's flat step is over.

        Args:
            divided: what its `get_actor_rewards` gives; None: each sub-step is paid what it returned.

        Raises:
            EnvError: that is not one reward a sub-step.
        """
        if divided is None:
            paid = [reward for _, reward in self._sub_steps]
        else:
            paid = _one_each(divided, len(self._sub_steps))
            self._is_divided = True
        for (decision, _), reward in zip(self._sub_steps, paid, strict=True):
            self._paid[decision] += reward
        self._sub_steps.clear()

    def divided(self) -> np.ndarray | None:
        """(D,) of the decisions since `begin`; None where the environment divides no reward."""
        return np.array(self._paid) if self._is_divided else None


def _one_each(divided: Any, n_sub_steps: int) -> list[float]:
    rewards = np.asarray(divided, np.float64)
    if rewards.shape != (n_sub_steps,):
        raise EnvError(
            "get_actor_rewards() does not give one reward a sub-step",
            received=f"shape {rewards.shape}",
            expected=f"({n_sub_steps},): the decisions of the flat step that just ended",
            help="return one reward for each decision since the last flat step, or None",
        )
    paid: list[float] = rewards.tolist()
    return paid
