"""The contract of datasets: recorded episodes, and what whoever learns from them asks of their source.

A dataset component builds an `EpisodeSource`, whatever the episodes are stored in. Trainers that learn from recorded
episodes select one with an option `Annotated[Selection, "dataset"]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import attrs
import numpy as np

from maze_kernel.env.contract import FLAT_KEY, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.env.tick import ArrayDict
from maze_kernel.events.records import EventRecord

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

    @classmethod
    def flat(
        cls,
        *,
        episode_id: str,
        observation: ArrayDict,
        action: ArrayDict,
        reward: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        seed: int | None = None,
        policy: str = "",
    ) -> Episode:
        """An episode of a flat environment, from the arrays of its T steps.

        Args:
            episode_id: names the episode, unique.
            observation: name to (T + 1, …); the last row is what was seen after the last step.
            action: name to (T, …).
            reward: (T,).
            terminated, truncated: (T,) bool.
            seed: of the environment's `reset`.
            policy: who played, as text.
        """
        n = len(reward)
        reward = np.asarray(reward, np.float64)
        return cls(
            info=EpisodeInfo(
                episode_id=episode_id,
                seed=seed,
                n_decisions=n,
                n_env_steps=n,
                total_reward=float(reward.sum()),
                terminated=bool(terminated[-1:].any()),
                truncated=bool(truncated[-1:].any()),
                policy=policy,
            ),
            policy_keys=(FLAT_KEY,),
            key_index=np.zeros(n, np.int64),
            agent_id=np.zeros(n, np.int64),
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            flat_step_end=np.ones(n, np.bool_),
            actor_done=np.zeros(n, np.bool_),
            actor_reward=None,
            observation={FLAT_KEY: {name: array[:n] for name, array in observation.items()}},
            action={FLAT_KEY: action},
            final_key=FLAT_KEY,
            final_observation={name: array[n] for name, array in observation.items()},
            final_agent=0,
        )

    def __len__(self) -> int:
        return len(self.key_index)

    def decisions_of(self, policy_key: PolicyKey) -> np.ndarray:
        """(T_key,) which decisions those of one policy key are; row i of its arrays belongs to the i-th of them."""
        return np.flatnonzero(self.key_index == self.policy_keys.index(policy_key))


@attrs.frozen(kw_only=True)
class MazeStep:
    """One decision in the words of the simulation.

    Attributes:
        maze_state: in which it was taken.
        maze_action: the decision.
        events: fired by it; those of `reset` are among the first step's.
        components: what `get_serializable_components` gave after it.
    """

    maze_state: Any
    maze_action: Any | None
    events: tuple[EventRecord, ...]
    components: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class MazeEpisode:
    """All decisions of an episode, and the state it ended in; None where the last step failed."""

    steps: tuple[MazeStep, ...]
    final_state: Any | None


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


@runtime_checkable
class HoldsMazeEpisodes(EpisodeSource, Protocol):
    """A source that may also hold MazeStates, MazeActions and events."""

    def maze_episode(self, index: int, core_env: Any | None = None) -> MazeEpisode | None:
        """Those of one episode; None where its environment was no Maze environment.

        Args:
            index: as in `read`.
            core_env: of an environment like the recorded one, whose classes the objects come back in; None: they
                come back as namespaces.
        """
        ...
