"""One decision at a time: an observation in, an action out, through the transforms of an experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Space

from maze_kernel.contracts.env import ActorID, StructuredEnv, StructuredSpaces
from maze_kernel.contracts.model import Policy
from maze_kernel.contracts.vector import Group
from maze_kernel.errors import RequestError
from maze_runtime.env.episode_transform import EpisodeTransform
from maze_runtime.env.outside import Detachable, Reply, SpeaksOutside
from maze_runtime.models.capabilities import SamplesDistributions
from maze_runtime.models.top_actions import ActionCandidate, top_actions
from maze_runtime.run.assembly import Assembly

if TYPE_CHECKING:
    from maze_kernel.contracts.env import PolicyKey

Answer = Callable[[Mapping[str, Any]], Any]

INFO_HELP = "give info= as well where the environment keeps action masks in it"


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
        named = self._named(observation, info, actor)
        arrays = self._episode.observation(actor, named.arrays, self._acted)
        acted = self.policy.act(key, _group(actor, arrays), deterministic=deterministic)
        action = {name: value[0] for name, value in acted.items()}
        self._acted = key, action
        return named.answer(self._episode.action(key, action))

    def candidates(
        self, observation: Any, info: Mapping[str, Any] | None, n_actions: int, *, actor: ActorID
    ) -> list[ActionCandidate]:
        """The most probable actions; see `RunContext.top_actions`. The episode does not go on."""
        policy: Any = self.policy
        if not (isinstance(self.policy, SamplesDistributions) and hasattr(policy, "logits")):
            raise RequestError(
                f"the actions of {type(policy).__name__} have no probabilities",
                expected="a policy that samples from the distributions of its networks",
                help="train without a policy wrapper, with a trainer and a model that act by probabilities",
            )
        key = actor.step_key
        named = self._named(observation, info, actor)
        arrays = self._episode.preview(actor, named.arrays, self._acted)
        before = policy.state_dict()
        try:
            if self._acted is None:
                policy.begin_episodes(np.zeros(1, np.int64))
            logits = policy.logits(key, _group(actor, arrays))
        finally:
            policy.load_state_dict(before)
        space = policy.model.spaces.action[key]
        best = top_actions(policy.model.distributions[key], space, logits, n_actions)
        return [ActionCandidate(named.answer(self._episode.action(key, action)), share) for action, share in best]

    def _named(self, observation: Any, info: Mapping[str, Any] | None, actor: ActorID) -> _Named:
        """The observation as name to array, checked against the environment's space."""
        policy_key = actor.step_key
        if policy_key not in self._spaces.observation:
            raise RequestError(
                "policy_key names no policy key",
                received=repr(policy_key),
                expected=", ".join(map(repr, self._spaces.observation)),
            )
        space, reader = self._spaces.observation[policy_key].spaces, self._reader
        answer: Answer = _bare
        if isinstance(reader, SpeaksOutside) and reader.is_outside_observation(observation, actor):
            observation = _read(reader, observation, info, actor, space)
            answer = partial(reader.outside_action, actor=actor)
        elif (
            info is not None
            and reader is not None
            and (not isinstance(observation, Mapping) or set(observation) != set(space))
        ):
            observation = _read(reader, observation, info, actor, space)
        elif not isinstance(observation, Mapping) and len(space) == 1:
            observation = {next(iter(space)): observation}
        if not isinstance(observation, Mapping) or set(observation) != set(space):
            is_named = isinstance(observation, Mapping)
            raise RequestError(
                "the observation has other names than the environment's" if is_named else "the observation needs names",
                received=", ".join(map(str, observation)) if is_named else type(observation).__name__,
                expected=", ".join(space),
                help=INFO_HELP,
            )
        return _Named({name: _array(name, observation[name], part) for name, part in space.items()}, answer)


class _Named(NamedTuple):
    """An observation as name to array, and what gives an action the form that the observation came in."""

    arrays: dict[str, np.ndarray]
    answer: Answer


def _read(
    reader: Detachable, observation: Any, info: Mapping[str, Any] | None, actor: ActorID, space: Mapping[str, Any]
) -> dict[str, Any]:
    """What the environment makes of its own observation and, an action mask for one, of its info."""
    try:
        read = reader.preview(Reply(maze_state=observation, info=dict(info or {}), actor_id=actor))
    except Exception as error:
        raise RequestError(
            f"no observation can be made of what was given: {error}",
            received=repr(observation)[:200],
            expected="an observation as the environment gives it",
            help=INFO_HELP if info is None else None,
        ) from error
    return {name: read[name] for name in space if name in read}


def _array(name: str, value: Any, part: Space[Any]) -> np.ndarray:
    try:
        array = np.asarray(value, dtype=part.dtype)
    except (TypeError, ValueError) as error:
        raise RequestError(
            f"observation {name!r} is no array", received=repr(value)[:200], expected=str(part)
        ) from error
    if array.shape != part.shape:
        raise RequestError(
            f"observation {name!r} has the wrong shape", received=str(array.shape), expected=str(part.shape)
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise RequestError(f"observation {name!r} is not finite", received=str(array)[:200], expected="numbers")
    return array


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
