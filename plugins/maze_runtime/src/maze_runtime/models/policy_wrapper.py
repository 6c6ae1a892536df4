"""A policy around a policy: rules, limits or a simulation's own logic on top of a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_kernel.catalog import build
from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import RequestError

if TYPE_CHECKING:
    from maze_kernel.selection import Selection

_METHODS = ("act", "begin_episodes", "seed", "state_dict", "load_state_dict")


class PolicyWrapper:
    """Implements `Policy` by passing everything on; a subclass overrides `act`, and what else it must know of.

    Args:
        policy: what is wrapped.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions (n, …) by head, rows as in the group; the wrapped policy's may be changed in place."""
        return self.policy.act(policy_key, group, deterministic=deterministic)

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """New episodes start in these environments: forget what was kept of the ones before."""
        self.policy.begin_episodes(env_index)

    def seed(self, seed: int) -> None:
        """Restart the random stream."""
        self.policy.seed(seed)

    def state_dict(self) -> dict[str, Any]:
        """Random (and hidden) state."""
        return self.policy.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.policy.load_state_dict(state)


class TakesModes(PolicyWrapper):
    """Draws nothing, asked to sample or not: numbers that no trainer means as probabilities are not drawn by."""

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """The modes of the wrapped policy's distributions."""
        return self.policy.act(policy_key, group, deterministic=True)


def wrap_policy(policy: Policy, wrapper: Selection | None) -> Policy:
    """The policy inside the selected wrapper, `target(policy, **options)`; without one the policy itself.

    Raises:
        ComponentError: the wrapper raised something that is no MazeError.
        RequestError: what it returned is no policy.
    """
    if wrapper is None:
        return policy
    wrapped = build(wrapper, policy)
    missing = [name for name in _METHODS if not callable(getattr(wrapped, name, None))]
    if missing:
        raise RequestError(
            f"policy wrapper {wrapper.use!r} does not return a policy",
            location=wrapper.location,
            received=f"{type(wrapped).__name__} without {', '.join(missing)}",
            expected="an object with the methods of maze_kernel.contracts.model.Policy",
            owner=wrapper.owner,
            help="subclass maze_runtime.models.policy_wrapper.PolicyWrapper and override act",
        )
    return wrapped  # type: ignore[no-any-return]
