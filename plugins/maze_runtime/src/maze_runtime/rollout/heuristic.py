"""The base of heuristics and planners: one decision at a time, in sight of the environment that is being played."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import attrs
import numpy as np
from gymnasium import spaces

from maze_kernel.contracts.capabilities import capability
from maze_kernel.contracts.env import Observation, PolicyKey, StructuredEnv
from maze_kernel.contracts.model import PolicyContext
from maze_kernel.contracts.vector import ArrayDict, Group
from maze_kernel.errors import ComponentError, EnvError
from maze_runtime.env.cloning import go_on_from
from maze_runtime.env.mask_reading import forbids, mask_names
from maze_runtime.env.simulation import Recordable
from maze_runtime.rollout.rule_policy import RulePolicy

_SHOWN = 32
"""Most entries of a mask that a message has."""


@runtime_checkable
class WatchesEnvs(Protocol):
    """A policy that looks at the environments it acts in."""

    def watch_envs(self, envs: Sequence[StructuredEnv]) -> None:
        """The environments of the batch in their order; called before the first `act`, and when they are built anew."""
        ...


@attrs.frozen(kw_only=True)
class Moment:
    """Where one decision is taken.

    Attributes:
        env: the environment that waits for it, with the wrappers that see a single one; the experiment's transforms
            lie outside. For looking only: stepping it would change the episode. None where the batch is elsewhere.
        policy_key, agent_id: who decides.
        action_space: head to space, as the action is wanted.
        deterministic: whether nothing is to be drawn.
    """

    env: StructuredEnv | None
    policy_key: PolicyKey
    agent_id: int
    action_space: Mapping[str, spaces.Space[Any]]
    deterministic: bool

    @property
    def maze_state(self) -> Any:
        """The MazeState as it is now; None where the environment has none."""
        simulation = capability(self.env, Recordable)  # type: ignore[type-abstract]
        return None if simulation is None else simulation.get_maze_state()


class Heuristic(RulePolicy):
    """Implements `Policy`; a subclass writes `act_one`, and takes options as keyword-only parameters.

    Args:
        context: kept, with its spaces.

    Attributes:
        context: what the policy was built from.
        spaces: as the policy sees and answers them.
        rng: for everything that is drawn; seeded before each episode.
    """

    def __init__(self, context: PolicyContext) -> None:
        self.context = context
        self.spaces = context.spaces
        self.rng = np.random.default_rng(context.seed)
        self._envs: Sequence[StructuredEnv] = ()
        self._masks = {
            key: mask_names(self.spaces.observation[key], space) for key, space in self.spaces.action.items()
        }

    @abstractmethod
    def act_one(self, observation: Observation, moment: Moment) -> Any:
        """The action for one observation.

        Args:
            observation: name to array, as trained policies see it.
            moment: who decides, and where.

        Returns:
            head to value, one that the mask of the head allows; where there is one head, the bare value will do.
        """

    def clone(self, moment: Moment) -> StructuredEnv:
        """An environment to plan in, in the state of the one that is played; the next call sets it back to that.

        It is built once, from the experiment: the same wrappers, without recordings and drawing.

        Raises:
            EnvError: the environment is not in this process, or cannot be cloned.
        """
        planned, played = self.context.env, moment.env
        while played is not None and type(played) is not type(planned):  # recorders lie around what is played
            played = getattr(played, "env", None)
        if planned is None or played is None:
            raise EnvError("there is no environment to clone", help="plan in rollouts, which step one in this process")
        go_on_from(planned, played)
        return cast(StructuredEnv, planned)

    def act(self, policy_key: PolicyKey, group: Group, *, deterministic: bool = False) -> ArrayDict:
        """Actions by head, rows as in the group: (n, …) arrays in the action space's dtype.

        Raises:
            ComponentError: `act_one` returned no action, or one that its mask forbids.
        """
        heads = self.spaces.action[policy_key].spaces
        chosen = []
        for row, index in enumerate(group.env_index):
            moment = Moment(
                env=self._envs[index] if index < len(self._envs) else None,
                policy_key=policy_key,
                agent_id=int(group.agent_id[row]),
                action_space=heads,
                deterministic=deterministic,
            )
            observation = {name: array[row] for name, array in group.observation.items()}
            action = self._checked(self.act_one(observation, moment), heads)
            for head, name in self._masks[policy_key].items():
                mask = group.observation[name][row]
                if forbids(mask, heads[head], action[head]):
                    allowed = np.array2string(mask, threshold=_SHOWN)
                    what = f"returned a value of {head!r} that its mask forbids"
                    raise self._wrong(what, str(action[head]), f"one that {name!r} allows: {allowed}")
            chosen.append(action)
        return {head: np.stack([action[head] for action in chosen]) for head in heads}

    def watch_envs(self, envs: Sequence[StructuredEnv]) -> None:
        """See `WatchesEnvs`."""
        self._envs = tuple(envs)

    def seed(self, seed: int) -> None:
        """Start the random stream again."""
        self.rng = np.random.default_rng(seed)

    def state_dict(self) -> dict[str, Any]:
        """The random state, JSON values."""
        return {"rng": dict(self.rng.bit_generator.state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the stream that `state_dict` described."""
        self.rng.bit_generator.state = dict(state["rng"])

    def _checked(self, action: Any, heads: Mapping[str, spaces.Space[Any]]) -> dict[str, np.ndarray]:
        """Every head as an array of its space's dtype.

        Raises:
            ComponentError: a head is missing or unknown, or a value lies outside of its space.
        """
        named = action if isinstance(action, Mapping) else {next(iter(heads)): action} if len(heads) == 1 else {}
        if set(named) != set(heads):
            received = ", ".join(map(str, named)) if isinstance(action, Mapping) else repr(action)[:80]
            raise self._wrong("returned other heads than the action has", received, ", ".join(heads))
        arrays = {}
        for head, space in heads.items():
            given = np.asarray(named[head])
            fits = space.dtype is None or np.can_cast(given.dtype, space.dtype, "same_kind")
            array = given.astype(space.dtype) if fits else given
            if array.shape != space.shape or not space.contains(array if array.ndim else array[()]):
                raise self._wrong(f"returned a value of {head!r} that its space does not have", str(given), str(space))
            arrays[head] = array
        return arrays

    def _wrong(self, what: str, received: str, expected: str) -> ComponentError:
        name = f"{type(self).__name__}.act_one"
        return ComponentError(f"{name} {what}", phase="acting", received=received, expected=expected, owner=name)
