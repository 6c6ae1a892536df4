"""The contract of datasets: recorded episodes, and what whoever learns from them asks of their source.

A dataset component builds an `EpisodeSource`, whatever the episodes are stored in. Trainers that learn from recorded
episodes select one with an option `Annotated[Selection, "dataset"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.vector import ArrayDict

EpisodeT_co = TypeVar("EpisodeT_co", covariant=True)


@attrs.frozen(kw_only=True)
class EpisodeInfo:
    """What identifies and sums up an episode; read without its arrays.

    Attributes:
        episode_id: names the episode, unique.
        seed: of the environment's `reset`; None where it had none.
        n_decisions: recorded decisions; an environment step of a structured environment has several.
        n_env_steps: recorded environment steps.
        total_reward: undiscounted sum of the recorded rewards.
        terminated, truncated: how it ended; both false where it was cut off or failed.
        error: what failed, or None.
        policy: who played, as text.
    """

    episode_id: str
    seed: int | None
    n_decisions: int
    n_env_steps: int
    total_reward: float
    terminated: bool
    truncated: bool
    error: str | None = None
    policy: str = ""


@attrs.frozen(kw_only=True, eq=False)
class Episode:
    """Everything a policy saw and did, and what came of it.

    A decision t = 0 … T−1 is that of one actor: of one policy key and agent. Observations and actions are stored by
    policy key, one row a decision of that key, in the order they were taken; `decisions_of` says which rows those
    are. A flat environment has the one key "0", whose rows are the decisions.

    Attributes:
        info: identifiers and sums.
        policy_keys: of the environment.
        key_index: (T,) int64, index into `policy_keys`: who decided.
        agent_id: (T,) int64.
        reward: (T,) float64, as the environment's `step` returned it.
        terminated, truncated: (T,) bool.
        flat_step_end: (T,) bool, whether environment time advanced with this decision.
        actor_done: (T,) bool, whether the actor left the episode with this decision.
        actor_reward: (T,) float64, the reward of each decision where `get_actor_rewards` divides it otherwise; None
            where it never does.
        observation: policy key to arrays (T_key, …); only keys that decided.
        action: policy key to arrays (T_key, …).
        final_key: whose observation the last one is; None where the last decision failed.
        final_observation: arrays (…) without a leading dimension.
        final_agent: which agent of `final_key` sees it; None where that was not recorded.
        left_after: (T,) int64, with which decision of another one the actor left whose last one this is; −1: with none.
            None where nobody left so.
    """

    info: EpisodeInfo
    policy_keys: tuple[PolicyKey, ...]
    key_index: np.ndarray
    agent_id: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    flat_step_end: np.ndarray
    actor_done: np.ndarray
    actor_reward: np.ndarray | None
    observation: Mapping[PolicyKey, ArrayDict]
    action: Mapping[PolicyKey, ArrayDict]
    final_key: PolicyKey | None
    final_observation: ArrayDict
    final_agent: int | None = None
    left_after: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.key_index)

    def decisions_of(self, policy_key: PolicyKey) -> np.ndarray:
        """(T_key,) which decisions those of one policy key are; row i of its arrays belongs to the i-th of them."""
        return np.flatnonzero(self.key_index == self.policy_keys.index(policy_key))


@attrs.frozen(kw_only=True)
class DatasetContext:
    """What a dataset is opened with; travels to worker processes, each of which opens it for itself.

    Attributes:
        make_env: an environment like those the episodes are wanted for, without the transforms of a batch: for a
            dataset that comes in the spaces of the environment, or is made by it. The caller closes it.
        folder: relative paths in options begin here: the working directory of the process that reads the experiment.
    """

    make_env: Callable[[], StructuredEnv]
    folder: Path = Path()

    def spaces(self) -> StructuredSpaces:
        """Those of such an environment, which is built for it and closed."""
        env = self.make_env()
        try:
            return env.structured_spaces
        finally:
            env.close()


class Source(Protocol[EpisodeT_co]):
    """Recorded episodes in the form a trainer wants; each is read when it is asked for, and not kept."""

    @property
    def spaces(self) -> StructuredSpaces:
        """Of the episodes."""
        ...

    @property
    def lengths(self) -> Sequence[int]:
        """Decisions of each episode, over all policy keys."""
        ...

    def expect(self, episodes: Sequence[int]) -> None:
        """These will be read soon, and they fit into memory: whoever can reads them ahead."""
        ...

    def read(self, index: int) -> EpisodeT_co:
        """One episode, by its place in `lengths`; in any order, and again."""
        ...

    def close(self) -> None:
        """Nothing is read any more."""
        ...


@runtime_checkable
class EpisodeSource(Source[Episode], Protocol):
    """What a dataset component builds: episodes as they were recorded, inside of the transforms of a batch.

    Rewards are those of the environment; `spaces` are those of the arrays, and where they depend on the environment,
    those of `DatasetContext.make_env`.
    """

    @property
    def name(self) -> str:
        """What messages call it: a path, or "the Minari dataset D4RL/door/human-v2"."""
        ...

    def infos(self) -> Sequence[EpisodeInfo]:
        """Identifiers and sums of all episodes, in their order; sources that can do so read no arrays for them."""
        ...
