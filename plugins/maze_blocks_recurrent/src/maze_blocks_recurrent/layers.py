"""LSTM and GRU layers whose parameters are plain: torch.compile can trace them, which nn.LSTM and nn.GRU refuse.

A stacked history is read by torch's fused kernels, and while compiling step by step, written out. Sequences with state
from before are one operation a layer (`sequence_op`), compiled or not. All are one function of the same parameters, in
the layout of nn.LSTM and nn.GRU: gates i, f, g, o and r, z, n below one another.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from maze_blocks_recurrent.acting_step import gru_step_in_numpy, lstm_step_in_numpy
from maze_blocks_recurrent.sequence_op import advance_as_one, advance_steps, gru_step, lstm_step
from maze_perception.mirror import ParameterArrays
from maze_runtime.models.same_operations import same_operations

Cell = Literal["lstm", "gru"]
_N_GATES: dict[Cell, int] = {"lstm": 4, "gru": 3}


def _has_lower_precision() -> bool:
    """Whether oneDNN, which runs torch's LSTM under autocast, knows bfloat16 on this processor; it raises where not."""
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@same_operations
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
        self._is_native = False
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
        """Let sequences be computed in C++ from now on, if there is a compiler."""
        self._is_native = True

    def make_mirror(self) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """One step in NumPy: inputs (B, D) and states (B, S), to outputs (B, H) and the states after it, new arrays."""
        parameters, n_weights = ParameterArrays(list(self.weights)), 4 if self.bias else 2
        step = lstm_step_in_numpy if self.cell == "lstm" else gru_step_in_numpy
        size = self.state_size // self.num_layers

        def run(x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            arrays, after = parameters(), np.empty_like(state)
            for layer in range(self.num_layers):
                own = slice(layer * size, (layer + 1) * size)
                weights = arrays[layer * n_weights : (layer + 1) * n_weights]
                x = step(x, state[:, own], weights, after[:, own])
            return x, after

        return run

    def _advance_layer(self, x: Tensor, state: Tensor, keep: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
        w_in, w_state, *biases = weights
        b_in, b_state = biases or (None, None)
        gates = functional.linear(x, w_in, b_in)
        if x.shape[0] == 1:
            # Left written out: an exported policy consists of operations that everybody knows.
            states = advance_steps(gates, state, keep, w_state, b_state, self.cell)
        else:
            states = advance_as_one(gates, state, keep, w_state, b_state, self.cell, native=self._is_native)
        return states[..., : self.hidden_size], states

    def _fused(self, x: Tensor) -> tuple[Tensor, Tensor]:
        zeros = x.new_zeros(self.num_layers * self.n_directions, x.shape[0], self.hidden_size)
        # Without dropout training changes nothing, but cuDNN gives gradients for nothing else
        is_trained = torch.is_grad_enabled()
        settings = (self.bias, self.num_layers, 0.0, is_trained, self.n_directions == 2, True)
        weights = list(self.weights)
        if self.cell == "lstm":
            if torch.is_autocast_enabled("cpu") and x.device.type == "cpu" and not _has_lower_precision():
                with torch.autocast("cpu", enabled=False):
                    return self._fused(x.float())
            outputs, states, _ = _silently(torch.lstm, x, (zeros, zeros), weights, *settings)
        else:
            outputs, states = _silently(torch.gru, x, zeros, weights, *settings)
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
        w_in, w_state, *biases = weights
        b_in, b_state = biases or (None, None)
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


def _silently(layers: Callable[..., Any], x: Tensor, *arguments: Any) -> Any:
    """Call layers of torch without a word from cuDNN that a module of torch could join weights better."""
    if not x.is_cuda:
        return layers(x, *arguments)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="RNN module weights are not part")
        return layers(x, *arguments)
