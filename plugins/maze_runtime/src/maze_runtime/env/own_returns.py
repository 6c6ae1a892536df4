"""What single actors are paid, where an environment pays by differences (`StructuredSpaces.pays_differences`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredSpaces
from maze_kernel.contracts.transform import Transform
from maze_kernel.contracts.vector import Group, Tick


@runtime_checkable
class ObservesReturns(Protocol):
    """A transform that learns from returns; the rewards that `observe_step` shows it there are sums over all actors."""

    def observe_returns(self, returns: np.ndarray) -> None:
        """Episodes have ended: what the actor of each decision was paid from it on, undiscounted, (D,) float64.

        Called while training, after `observe_step` and before `reward` of the same step.
        """
        ...


def observer_of_returns(transform: Transform, inner: StructuredSpaces) -> ObservesReturns | None:
    """The transform, where it learns from returns and the environment inside pays by their differences."""
    return transform if inner.pays_differences and isinstance(transform, ObservesReturns) else None


def own_returns(divided: Iterable[Any]) -> np.ndarray:
    """(D,) float64: of all decisions of these episodes, of which each is given as `get_actor_rewards` does."""
    # G_d = Σ_{k ≥ d} R_k
    return np.concatenate([np.cumsum(np.asarray(rewards, np.float64)[::-1])[::-1] for rewards in divided])


def differences(returns: np.ndarray) -> np.ndarray:
    """(D,) float32 R_d = G_d − G_{d+1}, where nothing comes after the last."""
    rewards: np.ndarray = -np.diff(returns, append=0.0)
    return rewards.astype(np.float32)


def returns_of_paid(paid: Sequence[float] | np.ndarray, actors: Sequence[Hashable]) -> np.ndarray:
    """(D,) float64 G_d, what the actor of each decision is paid from it on.

    Args:
        paid: (D,) what each decision brings its actor until the actor's next one.
        actors: (D,) whose decision each is.
    """
    returns, total = np.zeros(len(actors)), dict.fromkeys(actors, 0.0)
    for index in range(len(actors) - 1, -1, -1):
        total[actors[index]] += paid[index]
        returns[index] = total[actors[index]]
    return returns


def paid_otherwise(rewards: Any, actors: Sequence[Hashable], change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """(D,) float32: the rewards of an episode, where what its actors are paid is changed, and not the differences.

    Args:
        rewards: (D,) as `get_actor_rewards` gives them.
        actors: (D,) whose decision each is.
        change: of what decisions bring their actors, (D,) float64.
    """
    returns, following = own_returns([rewards]), dict.fromkeys(actors, 0.0)
    paid = returns.copy()
    for index in range(len(actors) - 1, -1, -1):
        paid[index] -= following[actors[index]]
        following[actors[index]] = returns[index]
    return differences(returns_of_paid(change(paid), actors))


class PaysOfBatch:
    """`paid_otherwise` for N environments that are stepped together: notes who decides in them."""

    def __init__(self, n_envs: int) -> None:
        self._actors: list[list[tuple[PolicyKey, int]]] = [[] for _ in range(n_envs)]

    def begin(self) -> None:
        """All environments were reset."""
        for actors in self._actors:
            actors.clear()

    def decide(self, groups: Mapping[PolicyKey, Group]) -> None:
        """These take a decision."""
        for key, group in groups.items():
            for index, agent in zip(group.env_index.tolist(), group.agent_id.tolist(), strict=True):
                self._actors[index].append((key, agent))

    def changed(self, tick: Tick, change: Callable[[np.ndarray], np.ndarray]) -> dict[int, np.ndarray]:
        """The `actor_rewards` of the tick that a decision led to, with what actors are paid changed."""
        changed = {
            index: paid_otherwise(rewards, self._actors[index], change) for index, rewards in tick.actor_rewards.items()
        }
        for index in (tick.terminated | tick.truncated).nonzero()[0].tolist():
            self._actors[index].clear()
        return changed
