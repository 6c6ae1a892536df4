"""An environment around another that forwards what it does not change, by writing it out."""

from __future__ import annotations

from typing import Any

from maze_kernel.env.contract import Action, ActorID, Observation, StructuredEnv, StructuredSpaces


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
