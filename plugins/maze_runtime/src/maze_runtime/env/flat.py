"""Environments with one policy key and one agent."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces

from maze_kernel.contracts.env import FLAT_KEY, ActorID, StructuredSpaces
from maze_runtime.env.cloning import copy_state


class FlatEnv:
    """Answers the structured questions for an environment with one policy key and one agent.

    Subclass it, set `structured_spaces`, and write `reset` and `step`.
    """

    structured_spaces: StructuredSpaces

    def actor_id(self) -> ActorID:
        return ActorID(FLAT_KEY, 0)

    def is_actor_done(self) -> bool:
        return False

    def is_flat_step_end(self) -> bool:
        return True

    def get_actor_rewards(self) -> Any | None:
        return None

    def clone_from(self, other: Any) -> None:
        """Go on from where another environment of this class is, with copies of all its attributes.

        Raises:
            EnvError: something in it cannot be copied.
        """
        copy_state(self, other)

    def render(self) -> Any:
        return None

    def close(self) -> None:
        return None


def flat_spaces(observation: spaces.Dict, action: spaces.Dict) -> StructuredSpaces:
    """The spaces of a flat environment."""
    return StructuredSpaces(observation={FLAT_KEY: observation}, action={FLAT_KEY: action})
