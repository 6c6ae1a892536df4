"""One decision at a time: an observation in, an action out, through the transforms of an experiment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from maze_kernel.contracts.env import ActorID, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import RequestError
from maze_runtime.env.episode_transform import EpisodeTransform
from maze_runtime.env.outside import Detachable, Reply
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.top_actions import ActionCandidate, top_actions
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
            self._reader = _reader(env)
        finally:
            env.close()
        assembly.bind(assembly.transforms, self._spaces)
        self._episode = EpisodeTransform(assembly.transforms)
        self._acted: tuple[PolicyKey, dict[str, np.ndarray]] | None = None

    def begin_episode(self) -> None:
        """The next observation is the first one of an episode; wrappers and policies forget the one before."""
        self._episode.begin()
        self._acted = None

    def act(self, observation: Any, info: Mapping[str, Any] | None, *, deterministic: bool, actor: ActorID) -> Any:
        """The action for one observation as the environment gives it; see `RunContext.compute_action`."""
        if self._acted is None:
            self.policy.begin_episodes(np.zeros(1, np.int64))
        key = actor.step_key
        arrays = self._episode.observation(actor, self._named(observation, info, key), self._acted)
        acted = self.policy.act(key, _group(actor, arrays), deterministic=deterministic)
        action = {name: value[0] for name, value in acted.items()}
        self._acted = key, action
        return _bare(self._episode.action(key, action))

    def candidates(
        self, observation: Any, info: Mapping[str, Any] | None, n_actions: int, *, actor: ActorID
    ) -> list[ActionCandidate]:
        """The most probable actions; see `RunContext.top_actions`. The episode does not go on."""
        policy: Any = self.policy
        if not (isinstance(self.policy, SamplesDistributions) and hasattr(policy, "logits")):
            raise RequestError(
                f"the actions of {type(policy).__name__} have no probabilities",
                expected="a policy that samples from the distributions of its networks",
                help="train without a policy wrapper, with a model that acts by its distributions",
            )
        key = actor.step_key
        arrays = self._episode.preview(actor, self._named(observation, info, key), self._acted)
        before = policy.state_dict()
        try:
            if self._acted is None:
                policy.begin_episodes(np.zeros(1, np.int64))
            logits = policy.logits(key, _group(actor, arrays))
        finally:
            policy.load_state_dict(before)
        space = policy.model.spaces.action[key]
        best = top_actions(policy.model.distributions[key], space, logits, n_actions)
        return [ActionCandidate(_bare(self._episode.action(key, action)), share) for action, share in best]

    def _named(self, observation: Any, info: Mapping[str, Any] | None, policy_key: PolicyKey) -> dict[str, np.ndarray]:
        """The observation as name to array, checked against the names and shapes of the environment's space."""
        space = self._spaces.observation[policy_key].spaces
        if (
            info is not None
            and self._reader is not None
            and (not isinstance(observation, Mapping) or set(observation) != set(space))
        ):
            # What the environment takes from its info, an action mask for one, is read as it reads it.
            read = self._reader.preview(Reply(maze_state=observation, info=dict(info)))
            observation = {name: read[name] for name in space if name in read}
        if not isinstance(observation, Mapping):
            if len(space) != 1:
                raise RequestError(
                    "the observation needs names",
                    expected=f"a dict with {', '.join(space)}",
                    help="give info= as well where the environment keeps action masks in it",
                )
            observation = {next(iter(space)): observation}
        if set(observation) != set(space):
            raise RequestError(
                "the observation has other names than the environment's",
                received=", ".join(map(str, observation)),
                expected=", ".join(space),
                help="give info= as well where the environment keeps action masks in it",
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


def _reader(env: StructuredEnv) -> Detachable | None:
    """The innermost environment, cut off its simulation: it reads observations as it did; None where it cannot."""
    innermost: Any = env
    while isinstance(getattr(getattr(innermost, "env", None), "structured_spaces", None), StructuredSpaces):
        innermost = innermost.env
    if not isinstance(innermost, Detachable):
        return None
    innermost.detach(_Nowhere())
    return innermost


class _Nowhere:
    """Implements `Outside` for an environment that is only asked how it reads observations."""

    def reset(self) -> Reply:
        raise RequestError("nobody steps this environment")

    def step(self, maze_action: Any) -> Reply:
        raise RequestError("nobody steps this environment")

    def is_over(self) -> bool:
        return True


def _group(actor: ActorID, arrays: Mapping[str, Any]) -> Group:
    return Group(
        env_index=np.zeros(1, np.int64),
        agent_id=np.array([actor.agent_id], np.int64),
        observation={name: np.asarray(value)[None] for name, value in arrays.items()},
    )


def _bare(action: Mapping[str, Any]) -> Any:
    """The action itself where there is one name."""
    return next(iter(action.values())) if len(action) == 1 else dict(action)
