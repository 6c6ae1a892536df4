"""One recorded episode in memory: arrays by policy key, and what was decided when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from maze_kernel.env.contract import ActorID, PolicyKey
from maze_kernel.env.episode_transform import EpisodeTransform
from maze_kernel.env.tick import ArrayDict
from maze_kernel.env.transform import Transform
from maze_kernel.errors import RequestError


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

    def __len__(self) -> int:
        return len(self.key_index)

    def decisions_of(self, policy_key: PolicyKey) -> np.ndarray:
        """(T_key,) which decisions those of one policy key are; row i of its arrays belongs to the i-th of them."""
        return np.flatnonzero(self.key_index == self.policy_keys.index(policy_key))

    def outer_actions(self, transforms: Sequence[Transform]) -> dict[PolicyKey, ArrayDict]:
        """The actions a policy outside of these transforms would have taken, rows as in `action`.

        Raises:
            EnvError: a transform changes actions and does not say how a recorded one maps back.
        """
        action = {key: dict(arrays) for key, arrays in self.action.items()}
        for transform in transforms:
            action = {key: transform.reverse_action(key, arrays) for key, arrays in action.items()}
        return action

    def through(self, transforms: Sequence[Transform]) -> Episode:
        """The episode as a policy outside of these transforms would have seen it and acted; rewards stay.

        Args:
            transforms: bound to the spaces of the episode, innermost first.

        Raises:
            EnvError: see `outer_actions`.
        """
        action = self.outer_actions(transforms)
        if any(transform.memory(1) is not None for transform in transforms):
            observation, final = self._in_order(transforms, action)
        else:
            observation = {key: dict(arrays) for key, arrays in self.observation.items()}
            final = {name: array[None] for name, array in self.final_observation.items()}
            for transform in transforms:
                observation = {key: transform.observation(key, arrays) for key, arrays in observation.items()}
                if self.final_key is not None:
                    final = transform.observation(self.final_key, final)
            final = {name: array[0] for name, array in final.items()}
        return attrs.evolve(self, observation=observation, action=action, final_observation=final)

    def _in_order(
        self, transforms: Sequence[Transform], action: Mapping[PolicyKey, ArrayDict]
    ) -> tuple[dict[PolicyKey, ArrayDict], ArrayDict]:
        """Observations through transforms that remember earlier ones, and the final one."""
        episode = EpisodeTransform(transforms)
        rows: dict[PolicyKey, list[ArrayDict]] = {key: [] for key in self.observation}
        acted = None
        for t in range(len(self)):
            key, row = self.policy_keys[self.key_index[t]], len(rows[self.policy_keys[self.key_index[t]]])
            actor = ActorID(key, int(self.agent_id[t]))
            rows[key].append(episode.observation(actor, _row(self.observation[key], row), acted))
            acted = key, _row(action[key], row)
        final: ArrayDict = {}
        if self.final_key is not None:
            final = episode.observation(ActorID(self.final_key, self.final_agent or 0), self.final_observation, acted)
        return {key: _stacked(seen) for key, seen in rows.items()}, final


def _row(arrays: ArrayDict, row: int) -> ArrayDict:
    return {name: array[row] for name, array in arrays.items()}


def _stacked(rows: Sequence[ArrayDict]) -> ArrayDict:
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}


@attrs.frozen(kw_only=True)
class Transitions:
    """Steps of flat environments, ready for a replay buffer; row i of everything is one step.

    Attributes:
        observation, next_observation: arrays (n, …); of the last step of an episode its final observation.
        action: arrays (n, …).
        reward: (n,) float32.
        terminated, truncated: (n,) bool. The last step of an episode that was cut off counts as truncated.
        episode: (n,) int64, which episode of the dataset.
    """

    observation: ArrayDict
    action: ArrayDict
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: ArrayDict
    episode: np.ndarray

    def __len__(self) -> int:
        return len(self.reward)


def flat_transitions(episode: Episode, number: int = 0) -> Transitions:
    """The steps of one episode of a flat environment; without those whose next observation was not recorded.

    Raises:
        RequestError: the environment is structured, or only its actions were recorded.
    """
    if len(episode.policy_keys) != 1 or not episode.flat_step_end.all():
        raise RequestError(
            "the episodes are not those of a flat environment, so they have no plain transitions",
            received=f"policy keys {', '.join(map(repr, episode.policy_keys))}",
            help="read their arrays by policy key",
        )
    (key,) = episode.policy_keys
    if len(episode) and key not in episode.observation:
        raise RequestError("only actions were recorded, so there are no transitions", help="replay it, and record that")
    has_final = episode.final_key is not None
    n = len(episode) if has_final else max(len(episode) - 1, 0)
    observation = {name: array[:n] for name, array in episode.observation[key].items()}
    following = {
        name: np.concatenate([array[1:], episode.final_observation[name][None]]) if has_final else array[1:]
        for name, array in episode.observation[key].items()
    }
    truncated = episode.truncated[:n].copy()
    if n:
        truncated[-1] |= not episode.terminated[n - 1]
    return Transitions(
        observation=observation,
        action={name: array[:n] for name, array in episode.action[key].items()},
        reward=episode.reward[:n].astype(np.float32),
        terminated=episode.terminated[:n],
        truncated=truncated,
        next_observation=following,
        episode=np.full(n, number, np.int64),
    )


def concatenate(parts: Sequence[Transitions]) -> Transitions:
    """All steps in one; at least one part."""
    columns: dict[str, Any] = {}
    for field in attrs.fields(Transitions):
        values = [getattr(part, field.name) for part in parts]
        if isinstance(values[0], dict):
            columns[field.name] = {name: np.concatenate([value[name] for value in values]) for name in values[0]}
        else:
            columns[field.name] = np.concatenate(values)
    return Transitions(**columns)
