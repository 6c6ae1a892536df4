"""The policy that takes recorded actions again: to see an episode once more, or to test that nothing has changed."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from maze_kernel.contracts.env import PolicyKey
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import EnvError, RequestError, SpaceError
from maze_kernel.shown_command import shown_command
from maze_runtime.datasets.contract import Episode, EpisodeInfo
from maze_runtime.datasets.transformed import outer_actions
from maze_trajectories.dataset import TrajectoryDataset
from maze_trajectories.options import ReplayOptions


@attrs.define
class _Cursor:
    """Where one environment is in a recorded episode."""

    episode: Episode
    action: Mapping[PolicyKey, ArrayDict]
    decision: int = 0
    rows: dict[PolicyKey, int] = attrs.field(factory=dict)


class ReplayPolicy:
    """Implements `Policy` and `FollowsEpisodes`: finds the episode by its seed, and takes its actions in their order.

    Of several environments the first one to begin gets that episode, the next one the one recorded after it, and so
    on. A seed that was recorded several times, as those of evaluations are, stands for these episodes in turn. Actions
    that were recorded inside of the experiment's wrappers are mapped back through them.

    Raises:
        RequestError: there is no such recording.
        SpaceError: it was made with other actions than the environment has.
    """

    def __init__(self, context: PolicyContext, options: ReplayOptions) -> None:
        recording = TrajectoryDataset.open(options.path)
        inner = context.spaces if context.env is None else context.env.structured_spaces
        if dict(recording.spaces.action) != dict(inner.action):
            raise SpaceError(
                f"the recording {options.path} was made with other actions than the environment has",
                received=str(dict(recording.spaces.action)),
                expected=str(dict(inner.action)),
                help="replay in the environment, with the options, that it was recorded in",
            )
        self._dataset = recording
        self._transforms = context.transforms
        self._by_seed: dict[int | None, deque[int]] = {}
        for index, info in enumerate(recording.infos()):
            self._by_seed.setdefault(info.seed, deque()).append(index)
        self._path = options.path
        self._next = 0
        self._cursors: dict[int, _Cursor | int] = {}

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """The next recorded action of each row; `deterministic` changes nothing."""
        rows = [
            self._action(int(env), policy_key, int(agent))
            for env, agent in zip(group.env_index, group.agent_id, strict=True)
        ]
        return {head: np.stack([row[head] for row in rows]) for head in rows[0]}

    def begin_episodes(self, env_index: np.ndarray) -> None:
        """The next recorded episodes; they are read when their first action is wanted."""
        for env in env_index.tolist():
            self._cursors[env] = self._next
            self._next += 1

    def seed(self, seed: int) -> None:
        """Nothing is drawn."""

    def follow_episode(self, seed: int) -> None:
        """Go on with the episode that was recorded with this seed; of several with the next one.

        Raises:
            RequestError: there is none.
        """
        if seed not in self._by_seed:
            raise RequestError(
                f"no episode in {self._path} was recorded with seed {seed}",
                help="play the recorded seeds: "
                + shown_command("maze", "rollout", "EXPERIMENT", "--replay", self._path),
            )
        self._next = self._by_seed[seed][0]
        self._by_seed[seed].rotate(-1)

    def state_dict(self) -> dict[str, Any]:
        """Which episode comes next; the ones in progress are not kept."""
        return {"next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the episode that `state_dict` named."""
        self._next = int(state["next"])

    def _action(self, env: int, policy_key: PolicyKey, agent_id: int) -> dict[str, np.ndarray]:
        cursor = self._cursors[env]
        if isinstance(cursor, int):
            episode = self._dataset[cursor % len(self._dataset)]
            cursor = self._cursors[env] = _Cursor(episode, outer_actions(episode, self._transforms))
        episode, t = cursor.episode, cursor.decision
        if t == len(episode):
            raise _goes_on(episode.info)
        recorded = (episode.policy_keys[episode.key_index[t]], int(episode.agent_id[t]))
        if recorded != (policy_key, agent_id):
            raise EnvError(
                f"the episode with seed {episode.info.seed} runs differently from its recording at decision {t}",
                received=f"policy {policy_key!r}, agent {agent_id}",
                expected=f"policy {recorded[0]!r}, agent {recorded[1]}",
                help="replay in the environment, with the options, that it was recorded in",
            )
        row = cursor.rows.get(policy_key, 0)
        cursor.rows[policy_key], cursor.decision = row + 1, t + 1
        return {head: array[row] for head, array in cursor.action[policy_key].items()}


def _goes_on(info: EpisodeInfo) -> EnvError:
    why = f", where it failed: {info.error}" if info.error else ", but the environment goes on"
    return EnvError(
        f"the recording of the episode with seed {info.seed} ends after {info.n_decisions} decisions{why}",
        help="replay in the environment, with the options, that it was recorded in",
    )
