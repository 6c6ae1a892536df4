"""Options of the recurrent blocks. Imports neither torch nor gymnasium."""

from __future__ import annotations

import attrs

from maze_kernel.validators import at_least


@attrs.frozen(kw_only=True)
class RecurrentOptions:
    """Options of `lstm-last-step` and `gru-last-step`."""

    hidden_size: int = attrs.field(default=64, validator=at_least(1))
    """Units of each layer and direction."""
    num_layers: int = attrs.field(default=1, validator=at_least(1))
    """Layers, each reading the outputs of the one before."""
    bidirectional: bool = False
    """Read time in both directions; outputs are twice as wide: forward, then backward."""
    bias: bool = True
    """Whether the layers add biases."""


@attrs.frozen(kw_only=True)
class StatefulOptions(RecurrentOptions):
    """Options of `lstm` and `gru`."""

    stateful: bool = attrs.field(default=False)
    """Read one vector (D,) a step and carry the state from step to step of an episode, in place of reading a stacked
    history (T, D); for trainers that replay sequences (`ppo`, `a2c`)."""

    @stateful.validator
    def _one_direction(self, _attribute: object, value: bool) -> None:
        if value and self.bidirectional:
            raise ValueError("stateful and bidirectional exclude each other: the future is not known yet")
