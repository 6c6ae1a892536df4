"""How long a run trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from maze_runtime.training.checkpoint import LoopState
from maze_runtime.training.schedules import moving_schedules


@attrs.frozen(kw_only=True)
class Budget:
    """When to stop; 0 is no limit.

    The policy is held in the first `critic_burn_in_epochs`, so evaluations of these use up no patience.
    """

    n_epochs: int = 0
    max_env_steps: int = 0
    max_seconds: float = 0.0
    patience: int = 0
    critic_burn_in_epochs: int = 0

    @classmethod
    def of(
        cls,
        option: Callable[[str, Any], Any],
        max_seconds: float | None = None,
        until_epoch: int | None = None,
    ) -> Budget:
        """The budget that a trainer's options name, read by `option(name, default)`.

        Args:
            max_seconds: of the run.
            until_epoch: ends training in place of `n_epochs`, over which schedules run all the same.
        """
        return cls(
            n_epochs=option("n_epochs", 0) if until_epoch is None else until_epoch,
            max_env_steps=option("max_env_steps", 0),
            max_seconds=max_seconds or 0.0,
            patience=option("patience", 0),
            critic_burn_in_epochs=option("critic_burn_in_epochs", 0),
        )

    def described(self) -> str:
        """What ends training, in words: "training ends after 24 epochs, or 15 evaluations without a better one"."""
        limits = [
            *([_counted(self.n_epochs, "epoch")] if self.n_epochs else []),
            *([_counted(self.max_env_steps, "environment step")] if self.max_env_steps else []),
            *([f"{self.max_seconds:g} seconds"] if self.max_seconds else []),
            *([_counted(self.patience, "evaluation") + " without a better one"] if self.patience else []),
        ]
        return f"training ends after {', or '.join(limits)}" if limits else "training ends when it is interrupted"

    def note_of_schedules(self, options: Any) -> str | None:
        """That schedules stay where they start because nothing says when they end; None where none does."""
        schedules = moving_schedules(options)
        if not schedules or self.n_epochs or self.max_env_steps:
            return None
        stay = ", ".join(f"{name} stays {schedule.start:g}" for name, schedule in schedules.items())
        budgets = [f"trainer.{name}" for name in ("n_epochs", "max_env_steps") if hasattr(options, name)]
        return (
            f"warning: schedules run over epochs or environment steps, and this run has no limit of either: {stay}; set"
            f" {' or '.join(budgets) or 'a budget'}, or give a number"
        )

    def exhausted(self, state: LoopState, env_steps: int, seconds: float) -> str | None:
        """Why training is over before the next epoch, or None."""
        if self.n_epochs and state.epoch >= self.n_epochs:
            return f"all {self.n_epochs} epochs done"
        if self.max_env_steps and env_steps >= self.max_env_steps:
            return f"{env_steps} environment steps done"
        if self.max_seconds and seconds >= self.max_seconds:
            return f"{self.max_seconds:g} seconds used"
        return None

    def out_of_patience(self, state: LoopState) -> str | None:
        """Why training stops early, or None."""
        if self.patience and state.stale_evaluations >= self.patience:
            return f"no better evaluation in {state.stale_evaluations}"
        return None


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
