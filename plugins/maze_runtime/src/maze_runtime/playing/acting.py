"""One decision at a time: an observation in, an action out, through the transforms of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_kernel.contracts.env import ActorID
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import RequestError
from maze_runtime.env.episode_transform import EpisodeTransform
from maze_runtime.run.assembly import Assembly

if TYPE_CHECKING:
    from maze_kernel.contracts.env import PolicyKey


class SingleEnvActor:
    """Acts for one environment that somebody else steps.

    Args:
        assembly: its transforms hold the statistics to use.
        policy: decides on the transformed observation.
    """

    def __init__(self, assembly: Assembly, policy: Policy) -> None:
        self.policy = policy
        env = assembly.env_factory()()
        try:
            self._spaces = env.structured_spaces
        finally:
            env.close()
        assembly.bind(assembly.transforms, self._spaces)
        self._episode = EpisodeTransform(assembly.transforms)
        self._acted: tuple[PolicyKey, dict[str, np.ndarray]] | None = None

    def begin_episode(self) -> None:
        """The next observation is the first one of an episode; wrappers and policies forget the one before."""
        self._episode.begin()
        self._acted = None

    def act(self, observation: Any, *, deterministic: bool, policy_key: PolicyKey, agent_id: int) -> Any:
        """The action for one observation as the environment gives it; see `RunContext.compute_action`."""
        if self._acted is None:
            self.policy.begin_episodes(np.zeros(1, np.int64))
        actor = ActorID(policy_key, agent_id)
        arrays = self._episode.observation(actor, self._named(observation, policy_key), self._acted)
        group = Group(
            env_index=np.zeros(1, np.int64),
            agent_id=np.array([agent_id], np.int64),
            observation={name: np.asarray(value)[None] for name, value in arrays.items()},
        )
        acted = self.policy.act(policy_key, group, deterministic=deterministic)
        action = {name: value[0] for name, value in acted.items()}
        self._acted = policy_key, action
        action = self._episode.action(policy_key, action)
        return next(iter(action.values())) if len(action) == 1 else action

    def _named(self, observation: Any, policy_key: PolicyKey) -> dict[str, np.ndarray]:
        """The observation as name to array, checked against the names and shapes of the environment's space."""
        space = self._spaces.observation[policy_key].spaces
        if not isinstance(observation, Mapping):
            if len(space) != 1:
                raise RequestError("the observation needs names", expected=f"a dict with {', '.join(space)}")
            observation = {next(iter(space)): observation}
        if set(observation) != set(space):
            raise RequestError(
                "the observation has other names than the environment's",
                received=", ".join(map(str, observation)),
                expected=", ".join(space),
            )
        arrays = {name: np.asarray(observation[name], dtype=part.dtype) for name, part in space.items()}
        for name, part in space.items():
            if arrays[name].shape != part.shape:
                raise RequestError(
                    f"observation {name!r} has the wrong shape",
                    received=str(arrays[name].shape),
                    expected=str(part.shape),
                )
        return arrays
