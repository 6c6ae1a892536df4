"""Options of the recurrent blocks. Imports neither torch nor gymnasium."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class RecurrentOptions:
    """Options of `lstm`, `gru`, `lstm-last-step` and `gru-last-step`."""

    hidden_size: int = attrs.field(default=64, validator=attrs.validators.ge(1))
    """Units of each layer and direction."""
    num_layers: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    """Layers, each reading the outputs of the one before."""
    bidirectional: bool = False
    """Read time in both directions; outputs are twice as wide: forward, then backward."""
    bias: bool = True
    """Whether the layers add biases."""
