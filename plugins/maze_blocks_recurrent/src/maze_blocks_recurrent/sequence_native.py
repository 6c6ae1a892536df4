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

from maze_blocks_recurrent.sequence_arrays import Advanced, Gradients, before_each_step, outer
from maze_runtime.native.library import build_library

SOURCE = Path(__file__).with_name("sequence.cpp")


class NativeSteps:
    """The functions of `sequence_arrays` by the same names, with the same arguments and results.

    Args:
        library: `sequence.cpp`, compiled.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def lstm_forward(
        self, inputs: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, bias: np.ndarray
    ) -> Advanced:
        """See `sequence_arrays.lstm_forward`."""
        gates, states = inputs + bias, np.empty((*inputs.shape[:2], state.shape[1]), np.float32)
        self._call("lstm_forward", inputs, weight, gates, state, keep, np.ascontiguousarray(weight.T), states)
        return Advanced(states, gates)

    def lstm_backward(
        self, grad: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, forward: Advanced
    ) -> Gradients:
        """See `sequence_arrays.lstm_backward`."""
        before = before_each_step(state, forward.states, keep)
        in_gates, carried = np.empty_like(forward.gates), np.empty(state.shape, np.float32)
        given = (forward.gates, forward.states, before, keep, weight)
        self._call("lstm_backward", grad, weight, grad, *given, in_gates, carried)
        rows = in_gates.reshape(-1, in_gates.shape[-1])
        return Gradients(in_gates, carried, outer(rows, before[..., : weight.shape[1]]), rows.sum(0))

    def gru_forward(
        self, inputs: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, bias: np.ndarray
    ) -> Advanced:
        """See `sequence_arrays.gru_forward`."""
        n_hidden = weight.shape[1]
        gates = np.empty((*inputs.shape[:2], 4 * n_hidden), np.float32)
        gates[..., : 3 * n_hidden] = inputs
        gates[..., : 2 * n_hidden] += bias[: 2 * n_hidden]
        states = np.empty((*inputs.shape[:2], n_hidden), np.float32)
        given = (state, keep, np.ascontiguousarray(weight.T), bias[2 * n_hidden :])
        self._call("gru_forward", inputs, weight, gates, *given, states)
        return Advanced(states, gates)

    def gru_backward(
        self, grad: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, forward: Advanced
    ) -> Gradients:
        """See `sequence_arrays.gru_backward`."""
        before = before_each_step(state, forward.states, keep)
        shape = (*grad.shape[:2], weight.shape[0])
        in_inputs, in_recurrent = np.empty(shape, np.float32), np.empty(shape, np.float32)
        carried = np.empty(state.shape, np.float32)
        given = (forward.gates, before, keep, weight)
        self._call("gru_backward", grad, weight, grad, *given, in_inputs, in_recurrent, carried)
        rows = in_recurrent.reshape(-1, shape[-1])
        return Gradients(in_inputs, carried, outer(rows, before), rows.sum(0))

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
