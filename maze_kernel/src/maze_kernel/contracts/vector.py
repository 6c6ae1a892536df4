"""The data plane's unit: one tick of a batch of environments, and the contract of the batch.

Every tick each of N environments has one active actor. A flat environment batch has one group whose rows are
the environments in order (`aligned`), so nothing is ever gathered or scattered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import attrs
import numpy as np

from maze_kernel.contracts.env import ActorID, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.workers import WorkerPool

ArrayDict = dict[str, np.ndarray]


@attrs.define(slots=True)
class Group:
    """The environments whose active actor has one policy key.

    Attributes:
        env_index: (n,) int64, rising.
        agent_id: (n,) int64.
        observation: name to (n, ...) arrays. They may be views of buffers that the next `step` overwrites.
        aligned: env_index is exactly 0 … N−1.
    """

    env_index: np.ndarray
    agent_id: np.ndarray
    observation: ArrayDict
    aligned: bool = True


@attrs.define(slots=True)
class FinalObservation:
    """Last observations of the episodes that ended at this tick, for one policy key.

    Attributes:
        env_index: (m,) which environments.
        observation: name to (m, ...), what the actor that would decide next sees.
        agent_id: (m,) int64, of that actor; None where the batch has one agent a key.
    """

    env_index: np.ndarray
    observation: ArrayDict
    agent_id: np.ndarray | None = None


@attrs.define(slots=True)
class Tick:
    """What `VectorEnv.reset` and `step` return.

    Rewards and flags belong to the decision just taken; observations are what the next decision sees. After
    `reset` rewards are zero and flags false.

    Attributes:
        groups: by policy key, only keys with at least one environment.
        reward: (N,) float32.
        terminated, truncated: (N,) bool.
        flat_step_end: (N,) bool, or None where every step is a flat step (flat environments).
        actor_done: (N,) bool, or None where no actor ever leaves early.
        final_observation: by policy key; empty where no episode ended. A truncated episode bootstraps from it.
        awaiting_reset: (N,) bool or None. True where the observation row is a placeholder: the environment's next step
            only resets it. The decision made on such a row is void: it enters no buffer, no normaliser and no step
            count. Only environments with Gymnasium's NEXT_STEP autoreset that cannot be reset on their own need it.
        actor_rewards: per sub-step rewards that replace those of the flat step that just ended, by env index.
        departed: who else left the episode for good, beside the actor that decided, by env index; empty as a rule.
        infos: env index to info dict, only for environments whose info is not empty and was asked for.
    """

    groups: dict[PolicyKey, Group]
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    flat_step_end: np.ndarray | None = None
    actor_done: np.ndarray | None = None
    final_observation: dict[PolicyKey, FinalObservation] = attrs.field(factory=dict)
    awaiting_reset: np.ndarray | None = None
    actor_rewards: dict[int, np.ndarray] = attrs.field(factory=dict)
    infos: dict[int, dict[str, Any]] = attrs.field(factory=dict)
    departed: dict[int, tuple[ActorID, ...]] = attrs.field(factory=dict)


class TakenStep(NamedTuple):
    """One decision everywhere.

    Attributes:
        groups: who decided, on what.
        actions: rows as in the groups.
        void: (N,) bool, decisions that only reset an environment; None: none.
        tick: what they led to.
        restarted: (m,) environments whose episodes before this step were given up, and which begin new ones with it;
            None: none.
    """

    groups: Mapping[PolicyKey, Group]
    actions: Mapping[PolicyKey, ArrayDict]
    void: np.ndarray | None
    tick: Tick
    restarted: np.ndarray | None = None


class VectorEnv(Protocol):
    """N environments stepped together; episodes restart by themselves.

    Native, sequential and subprocess vector environments give the same transitions for the same environments
    and seeds.
    """

    n_envs: int
    structured_spaces: StructuredSpaces

    def reset(self, seeds: Sequence[Sequence[int]]) -> Tick:
        """Start new episodes everywhere.

        Args:
            seeds: one sequence an environment: the seeds of its successive episodes. When they are used up
                (one seed is the usual case) the environment goes on with its own random state. A natively
                vectorised environment reads the first seed of all only.
        """
        ...

    def step(self, actions: Mapping[PolicyKey, ArrayDict]) -> Tick:
        """Take one decision everywhere.

        Args:
            actions: by policy key, name to (n, ...) arrays whose rows match the last tick's groups.
        """
        ...

    def render(self) -> Any:
        """Frames of the environments, or of the first one; None where it was not asked for."""
        ...

    def close(self) -> None: ...


@attrs.frozen(kw_only=True)
class VectorContext:
    """What the target of a `VectorComponent` is given. What it returns has no transforms yet; its caller closes it.

    Attributes:
        n_envs: N.
        env_factory: builds one environment with the wrappers that must see a single one; survives transport to a
            worker.
        native: N -> the natively vectorised form, None where the environment's options have none; None where the
            environment has none. `native_batch` asks it.
        is_wrapped: whether wrappers that must see a single environment stand around each.
        training: whether the environments are trained on, not evaluated.
        first_index: number of the first environment in messages, where the batch is part of a larger one.
        make_workers: the experiment's worker pool, an inline one where it has none; whoever makes it closes it.
        has_workers: whether the experiment has a `[workers]` table.
        env_owner: what provides the environment, for messages.
        spaces: of one environment; None where nobody has built one yet.
    """

    n_envs: int
    env_factory: Callable[[], StructuredEnv]
    make_workers: Callable[[], WorkerPool]
    native: Callable[[int], VectorEnv | None] | None = None
    is_wrapped: bool = False
    training: bool = True
    first_index: int = 0
    has_workers: bool = False
    env_owner: str | None = None
    spaces: StructuredSpaces | None = None

    def native_batch(self) -> VectorEnv | None:
        """The natively vectorised form; None where there is none or wrappers must see single environments."""
        return None if self.native is None or self.is_wrapped else self.native(self.n_envs)
