"""The options that the loop reads of every trainer, for options classes to inherit."""

from __future__ import annotations

import attrs

from maze_kernel.validators import at_least
from maze_runtime.training.spellings import SPELLINGS


@attrs.frozen(kw_only=True)
class LoopOptions:
    """When training ends and where it runs, of trainers that take environment steps."""

    ALIASES = SPELLINGS

    n_epochs: int = attrs.field(default=0, validator=at_least(0))
    """Epochs to train; 0: until another budget, patience or the user stops the run."""
    patience: int = attrs.field(default=0, validator=at_least(0))
    """Stop after so many evaluations without a better one; 0: never."""
    max_env_steps: int = attrs.field(default=0, validator=at_least(0))
    """Stop after the update that reaches this number of environment steps; 0: no budget."""
    device: str = "cpu"
    """Where the update runs: "auto", "cpu", "cuda" or "cuda:1"."""
    compile: bool = False
    """Compile the update into one function: slow start, fast updates."""
