"""LSTM and GRU layers whose parameters are plain: torch.compile can trace them, which nn.LSTM and nn.GRU refuse.

Uncompiled they call torch's fused kernels; while compiling they are written out step by step. Both are one function of
the same parameters, in the layout of nn.LSTM and nn.GRU: gates i, f, g, o and r, z, n below one another.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from maze_blocks_recurrent.sequence_op import advance_as_one, advance_steps, gru_step, lstm_step

Cell = Literal["lstm", "gru"]
_N_GATES: dict[Cell, int] = {"lstm": 4, "gru": 3}


class RecurrentLayers(nn.Module):
    """Layers that read (B, T, D) from a state of zeros.

    Args:
        cell: "lstm" (Hochreiter and Schmidhuber 1997, with forget gate) or "gru" (Cho et al. 2014).
        in_features: D.
        hidden_size: units of each layer and direction.
        num_layers: layers.
        bidirectional: whether every layer reads time backward too.
        bias: whether it has biases.
    """

    def __init__(
        self, cell: Cell, in_features: int, hidden_size: int, num_layers: int, bidirectional: bool, bias: bool
    ) -> None:
        super().__init__()
        self.cell: Cell = cell
        self.hidden_size, self.num_layers, self.bias = hidden_size, num_layers, bias
        self.n_directions = 2 if bidirectional else 1
        self._as_one = False
        rows = _N_GATES[cell] * hidden_size
        self.weights = nn.ParameterList()
        for layer in range(num_layers):
            width = in_features if layer == 0 else hidden_size * self.n_directions
            shapes = [(rows, width), (rows, hidden_size), *([(rows,), (rows,)] if bias else [])]
            self.weights.extend(nn.Parameter(torch.empty(shape)) for _ in range(self.n_directions) for shape in shapes)
        bound = 1.0 / math.sqrt(hidden_size)
        for weight in self.weights:
            nn.init.uniform_(weight, -bound, bound)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """(B, T, D) to every step's output (B, T, H) and the last layer's final state (B, H), directions joined."""
        outputs, final = self._stepwise(x) if torch.compiler.is_compiling() else self._fused(x)
        return outputs, final

    @property
    def state_size(self) -> int:
        """Numbers of the state of all layers: h, and c of an LSTM."""
        return self.num_layers * self.hidden_size * (2 if self.cell == "lstm" else 1)

    def advance(self, x: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """Read on from a state, which is forgotten where an episode begins; one direction only.

        Args:
            x: (T, B, D).
            state: (B, S) before the first step.
            begins: (T, B), not zero where the state is zero before the step.

        Returns:
            Every step's output (T, B, H), and the state after it (T, B, S).
        """
        keep = (begins == 0).to(x.dtype).unsqueeze(-1)
        weights, n_weights = list(self.weights), 4 if self.bias else 2
        states: list[Tensor] = []
        for layer, before in enumerate(state.chunk(self.num_layers, -1)):
            own = weights[layer * n_weights : (layer + 1) * n_weights]
            x, after = self._advance_layer(x, before, keep, own)
            states.append(after)
        return x, torch.cat(states, -1)

    def prepare_for_compilation(self) -> None:
        """Let sequences be one operation wherever a gradient is asked for: written out they take minutes to compile."""
        self._as_one = True

    def _advance_layer(self, x: Tensor, state: Tensor, keep: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
        w_in, w_state, b_in, b_state = weights if self.bias else (*weights, None, None)
        gates = functional.linear(x, w_in, b_in)
        advance = advance_as_one if self._as_one and torch.is_grad_enabled() else advance_steps
        states = advance(gates, state, keep, w_state, b_state, self.cell)
        return states[..., : self.hidden_size], states

    def _fused(self, x: Tensor) -> tuple[Tensor, Tensor]:
        zeros = x.new_zeros(self.num_layers * self.n_directions, x.shape[0], self.hidden_size)
        settings = (self.bias, self.num_layers, 0.0, self.training, self.n_directions == 2, True)
        weights = list(self.weights)
        if self.cell == "lstm":
            outputs, states, _ = torch.lstm(x, (zeros, zeros), weights, *settings)
        else:
            outputs, states = torch.gru(x, zeros, weights, *settings)
        return outputs, states[-self.n_directions :].transpose(0, 1).flatten(1)

    def _stepwise(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights, n_weights = list(self.weights), 4 if self.bias else 2
        for layer in range(self.num_layers):
            outputs, finals = [], []
            for direction in range(self.n_directions):
                start = (layer * self.n_directions + direction) * n_weights
                steps = self._run(x, weights[start : start + n_weights], reverse=direction == 1)
                finals.append(steps[-1])
                outputs.append(torch.stack(steps[::-1] if direction == 1 else steps, 1))
            x = torch.cat(outputs, -1)
        return x, torch.cat(finals, -1)

    def _run(self, x: Tensor, weights: list[Tensor], *, reverse: bool) -> list[Tensor]:
        """The states after each step, in the order in which they were computed."""
        w_in, w_state, b_in, b_state = weights if self.bias else (*weights, None, None)
        gates = functional.linear(x, w_in, b_in)
        state = x.new_zeros(x.shape[0], self.hidden_size)
        memory, steps = state, []
        n_steps = x.shape[1]
        for t in range(n_steps - 1, -1, -1) if reverse else range(n_steps):
            recurrent = functional.linear(state, w_state, b_state)
            if self.cell == "lstm":
                state, memory = lstm_step(gates[:, t] + recurrent, memory)
            else:
                state = gru_step(gates[:, t], recurrent, state)
            steps.append(state)
        return steps
