"""Recurrent blocks that carry their state from step to step of an episode, and the targets of `lstm` and `gru`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_blocks_recurrent.blocks import GRU, LSTM
from maze_blocks_recurrent.layers import Cell, RecurrentLayers
from maze_blocks_recurrent.options import StatefulOptions
from maze_perception.block import BlockError, Mirror, PerceptionBlock, Shape, TensorDict
from maze_runtime.models.recurrence import BEGINS, NEXT_STATE, STATE
from maze_runtime.models.same_operations import same_operations


def make_lstm(
    in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]], options: StatefulOptions
) -> PerceptionBlock:
    """The target of the block `lstm`."""
    if options.stateful:
        return StatefulRecurrent("lstm", in_keys, out_keys, in_shapes, options)
    _require_history("lstm", in_keys, in_shapes)
    return LSTM(in_keys, out_keys, in_shapes, options)


def make_gru(
    in_keys: Sequence[str], out_keys: Sequence[str], in_shapes: Sequence[Sequence[int]], options: StatefulOptions
) -> PerceptionBlock:
    """The target of the block `gru`."""
    if options.stateful:
        return StatefulRecurrent("gru", in_keys, out_keys, in_shapes, options)
    _require_history("gru", in_keys, in_shapes)
    return GRU(in_keys, out_keys, in_shapes, options)


def _require_history(cell: Cell, in_keys: Sequence[str], in_shapes: Sequence[Sequence[int]]) -> None:
    """One vector a step is what memory reads, which is asked for by another option."""
    if len(in_keys) == 1 and len(in_shapes[0]) == 1:
        raise BlockError(
            f"{cell} reads a stacked history (T, D), and {in_keys[0]!r} is one vector",
            received=f"shape {tuple(in_shapes[0])}",
            expected="2 dimensions without the batch",
            help="carry a state from step to step with stateful = true, or stack observations (wrapper "
            "observation-stack)",
        )


@same_operations
class StatefulRecurrent(PerceptionBlock):
    """One vector a step: T steps of B sequences, (T·B, D) time-major, to (T·B, H).

    Besides it reads the state before the first step and where episodes begin, and gives the state after each step; see
    `maze_runtime.models.recurrence`. A state holds h, and with LSTM then c, of one layer behind the other.
    """

    keeps_float32 = True  # its operations are NumPy's and C++'s

    def __init__(
        self,
        cell: Cell,
        in_keys: Sequence[str],
        out_keys: Sequence[str],
        in_shapes: Sequence[Sequence[int]],
        options: StatefulOptions,
    ) -> None:
        super().__init__(in_keys, out_keys, in_shapes)
        self.require_one_in_one_out()
        if len(self.in_shapes[0]) != 1:
            raise BlockError(
                f"a stateful {cell} reads one vector a step",
                received=f"{self.in_keys[0]!r} of shape {self.in_shapes[0]}",
                expected="one dimension without the batch",
                help="put a block that flattens before it, or read the stacked history with stateful = false",
            )
        self.layers = RecurrentLayers(
            cell, self.in_shapes[0][0], options.hidden_size, options.num_layers, bidirectional=False, bias=options.bias
        )
        name = self.out_keys[0]
        self.in_keys = (*self.in_keys, STATE + name, BEGINS)
        self.in_shapes = (*self.in_shapes, (self.layers.state_size,), ())
        self.out_keys = (name, NEXT_STATE + name)

    def forward(self, inputs: TensorDict) -> TensorDict:
        """Outputs (T·B, H) and the states after each row (T·B, S)."""
        x, state, begins = (inputs[key] for key in self.in_keys)
        n_sequences = state.shape[0]
        # One step is told apart by a comparison: a graph that is traced for any B then knows its number of steps.
        n_steps = 1 if x.shape[0] == n_sequences else x.shape[0] // n_sequences
        outputs, states = self.layers.advance(
            x.reshape(n_steps, n_sequences, x.shape[-1]), state, begins.reshape(n_steps, n_sequences)
        )
        return {self.out_keys[0]: outputs.flatten(0, 1), self.out_keys[1]: states.flatten(0, 1)}

    def make_mirror(self) -> Mirror | None:
        """One step of B sequences, which is how it acts."""
        run, (in_key, state_key, begins_key), (out_key, after_key) = (
            self.layers.make_mirror(),
            self.in_keys,
            self.out_keys,
        )

        def step(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            state, begins = arrays[state_key], arrays[begins_key]
            if np.count_nonzero(begins):
                state = state * (begins == 0.0).astype(state.dtype)[:, None]
            outputs, after = run(arrays[in_key], state)
            return {out_key: outputs, after_key: after}

        return step

    def out_shapes(self) -> tuple[Shape, ...]:
        """The output, and the state."""
        return ((self.layers.hidden_size,), (self.layers.state_size,))
