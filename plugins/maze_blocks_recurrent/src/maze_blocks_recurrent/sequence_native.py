"""The recurrences of `sequence_op` in C++, for updates that are compiled anyway: a tenth of the time of NumPy.

The compiler is the one that torch.compile calls for its kernels on the CPU. Without one, or where it refuses the file,
there is no library, and NumPy goes on.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from maze_blocks_recurrent.sequence_layers import Advanced, Gradients, Layer, WayBack, before_each_step, outer
from maze_runtime.native.library import build_library

SOURCE = Path(__file__).with_name("sequence.cpp")


class NativeSteps:
    """The functions of `sequence_arrays` for one layer by the same names, with the same arguments and results.

    Args:
        library: `sequence.cpp`, compiled.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def kept_shape(self, cell: str, n_steps: int, n_sequences: int, n_hidden: int) -> tuple[int, ...]:
        """Of the gates: of a GRU r, z, n and behind them U h of n with its bias."""
        del cell
        return n_steps, n_sequences, 4 * n_hidden

    def advance(self, cell: str, layer: Layer, keep: np.ndarray) -> Advanced:
        """See `sequence_arrays.advance`."""
        inputs, state, weight, bias = layer
        bias = np.zeros(len(weight), np.float32) if bias is None else bias
        states = np.empty((*inputs.shape[:2], state.shape[1]), np.float32)
        transposed = np.ascontiguousarray(weight.T)
        if cell == "lstm":
            gates = inputs + bias
            self._call("lstm_forward", inputs, weight, gates, state, keep, transposed, states)
            return Advanced(states, gates)
        n_hidden = weight.shape[1]
        gates = np.empty((*inputs.shape[:2], 4 * n_hidden), np.float32)
        gates[..., : 3 * n_hidden] = inputs
        gates[..., : 2 * n_hidden] += bias[: 2 * n_hidden]
        self._call("gru_forward", inputs, weight, gates, state, keep, transposed, bias[2 * n_hidden :], states)
        return Advanced(states, gates)

    def advance_gradients(self, cell: str, layer: WayBack, keep: np.ndarray) -> Gradients:
        """See `sequence_arrays.advance_gradients`."""
        grad, state, weight, (states, gates) = layer
        before, carried = before_each_step(state, states, keep), np.empty(state.shape, np.float32)
        in_inputs = in_recurrent = np.empty((*grad.shape[:2], len(weight)), np.float32)
        if cell == "lstm":
            given = (grad, gates, states, before, keep, weight)
            self._call("lstm_backward", grad, weight, *given, in_inputs, carried)
        else:
            in_recurrent = np.empty_like(in_inputs)
            self._call(
                "gru_backward", grad, weight, grad, gates, before, keep, weight, in_inputs, in_recurrent, carried
            )
        rows = in_recurrent.reshape(-1, len(weight))
        return Gradients(in_inputs, carried, outer(rows, before[..., : weight.shape[1]]), rows.sum(0))

    def _call(self, name: str, steps: np.ndarray, weight: np.ndarray, *arrays: np.ndarray) -> None:
        """Call a function with T, B, H and the places of arrays; those that it writes to have no gaps already."""
        kept = [np.ascontiguousarray(array, np.float32) for array in arrays]
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in kept]
        sizes = (ctypes.c_long(size) for size in (*steps.shape[:2], weight.shape[1]))
        getattr(self._library, name)(*sizes, *pointers)


@cache
def native_steps() -> NativeSteps | None:
    """The compiled recurrences; None where nothing can be compiled. Compiles once a process, in a second or two."""
    library = build_library(SOURCE)
    return None if library is None else NativeSteps(library)
