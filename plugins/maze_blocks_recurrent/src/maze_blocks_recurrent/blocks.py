"""Recurrent blocks over a stacked history (T, D), oldest step first; the state starts at zero in every sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from maze_blocks_recurrent.layers import Cell, RecurrentLayers
from maze_blocks_recurrent.options import RecurrentOptions
from maze_perception.block import Shape, TensorDict
from maze_perception.shape_normalization import ShapeNormalizationBlock
from maze_runtime.models.same_operations import same_operations


@same_operations
class LSTM(ShapeNormalizationBlock):
    """Every step's output: (B, T, D) to (B, T, H), where H doubles with `bidirectional`."""

    cell: ClassVar[Cell] = "lstm"
    gives_last_step: ClassVar[bool] = False

    def __init__(
        self,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: RecurrentOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes, in_num_dims=3)
        self.require_one_in_one_out()
        self.layers = RecurrentLayers(
            self.cell,
            self.in_shapes[0][-1],
            options.hidden_size,
            options.num_layers,
            options.bidirectional,
            options.bias,
        )

    def normalized_forward(self, inputs: TensorDict) -> TensorDict:
        """(B, T, D) to (B, T, H), or to (B, H) where only the final state is given."""
        outputs, final = self.layers.forward(inputs[self.in_keys[0]])
        return {self.out_keys[0]: final if self.gives_last_step else outputs}

    def out_shapes(self) -> tuple[Shape, ...]:
        """The input's shape with its last size replaced, without time where only the final state is given."""
        leading = self.in_shapes[0][: -2 if self.gives_last_step else -1]
        return ((*leading, self.layers.hidden_size * self.layers.n_directions),)


@same_operations
class GRU(LSTM):
    """Every step's output: (B, T, D) to (B, T, H), where H doubles with `bidirectional`."""

    cell = "gru"


@same_operations
class LSTMLastStep(LSTM):
    """The final state: (B, T, D) to (B, H). Backward, that is the state after the first step."""

    gives_last_step = True


@same_operations
class GRULastStep(LSTM):
    """The final state: (B, T, D) to (B, H). Backward, that is the state after the first step."""

    cell = "gru"
    gives_last_step = True
