"""An environment around another that forwards what it does not change, by writing it out."""

from __future__ import annotations

from typing import Any

from maze_kernel.contracts.env import Action, ActorID, Observation, PolicyKey, StructuredEnv, StructuredSpaces
from maze_kernel.errors import EnvError
from maze_runtime.env.cloning import go_on_from
from maze_runtime.env.simulation import Imitable


class EnvWrapper:
    """Forwards every question of the contract to `env`; subclass it and override.

    There is no attribute fall-through: what is not in the contract is asked of `env` by name.
    """

    structured_spaces: StructuredSpaces

    def __init__(self, env: StructuredEnv) -> None:
        self.env = env
        self.structured_spaces = env.structured_spaces

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take one decision."""
        return self.env.step(action)

    def actor_id(self) -> ActorID:
        """The wrapped environment's."""
        return self.env.actor_id()

    def is_actor_done(self) -> bool:
        """The wrapped environment's."""
        return self.env.is_actor_done()

    def is_flat_step_end(self) -> bool:
        """The wrapped environment's."""
        return self.env.is_flat_step_end()

    def get_actor_rewards(self) -> Any | None:
        """The wrapped environment's."""
        return self.env.get_actor_rewards()

    def render(self) -> Any:
        """The wrapped environment's drawing."""
        return self.env.render()

    def close(self) -> None:
        """Close the wrapped environment."""
        self.env.close()

    def to_spaces(
        self, policy_key: PolicyKey, maze_state: Any, maze_action: Any | None = None
    ) -> tuple[Observation, Action | None]:
        """A recorded state and action as they are seen outside; see `MazeEnv.to_spaces`.

        A wrapper that changes spaces overrides it.

        Raises:
            EnvError: the environment inside has no MazeStates.
        """
        if not isinstance(self.env, Imitable):
            raise EnvError(
                "a recorded state cannot be mapped back: the environment has no MazeStates",
                received=type(self.env).__name__,
                help="record observations and actions instead",
            )
        return self.env.to_spaces(policy_key, maze_state, maze_action)

    def clone_from(self, other: Any) -> None:
        """Go on from where another environment with the same wrappers is.

        A wrapper with a state of its own overrides it.

        Raises:
            EnvError: the environment inside cannot be cloned.
        """
        go_on_from(self.env, other.env)
