"""The recurrences of `sequence_op` in NumPy, for float32 on the CPU.

A step is some ten calls on a few hundred numbers, where a call of NumPy takes a third of the time of one of torch. All
that does not wait for the step before is computed for all steps at once. Arrays are time-major: T steps of B sequences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from maze_blocks_recurrent import gru_arrays, lstm_arrays
from maze_blocks_recurrent.sequence_folding import find_fold
from maze_blocks_recurrent.sequence_layers import Advanced, Gradients, Layer, WayBack

LARGEST_STEP = 1 << 16
"""Gates of a step, B·G, up to which NumPy is the faster one; beyond them the arithmetic counts and not the calls."""


class _Recurrence(Protocol):
    """What a module with the arithmetic of one cell has."""

    N_KEPT: int

    def forward(self, layers: Sequence[Layer], keep: np.ndarray) -> list[Advanced]: ...

    def backward(self, layers: Sequence[WayBack], keep: np.ndarray) -> list[Gradients]: ...


_CELLS: dict[str, _Recurrence] = {"lstm": lstm_arrays, "gru": gru_arrays}


class Replayed(NamedTuple):
    """What `replay` gives.

    Attributes:
        states: (T, B, S) after each step.
        folded: the states (L, C, S) of the steps as they were taken, if they were folded; else of size 0.
        kept: for the way back, of the steps as they were taken.
    """

    states: np.ndarray
    folded: np.ndarray
    kept: np.ndarray


def replay(cell: str, layers: Sequence[Layer], keep: np.ndarray) -> list[Replayed]:
    """One pass of each layer over T steps of B sequences; episodes that follow each other run side by side.

    Args:
        cell: "lstm" or "gru".
        layers: with inputs of one shape.
        keep: see `sequence_op.advance_steps`; the same for all layers.
    """
    run, fold = _CELLS[cell].forward, find_fold(keep)
    if fold is None:
        return [Replayed(states, np.zeros(0, np.float32), kept) for states, kept in run(layers, keep)]
    folded = [own._replace(inputs=fold.of_steps(own.inputs), state=fold.of_states(own.state)) for own in layers]
    found = run(folded, fold.of_steps(keep))
    return [Replayed(fold.back(states), states, kept) for states, kept in found]


def replay_gradients(cell: str, layers: Sequence[WayBack], keep: np.ndarray) -> list[Gradients]:
    """The way back of `replay`; the states of what went forward are those of the steps as they were taken."""
    run, fold = _CELLS[cell].backward, find_fold(keep)
    if fold is None:
        return run(layers, keep)
    folded = [own._replace(grad=fold.of_steps(own.grad), state=fold.of_states(own.state)) for own in layers]
    found = run(folded, fold.of_steps(keep))
    return [own._replace(inputs=fold.back(own.inputs), state=own.state[fold.sequences]) for own in found]


def kept_shape(cell: str, n_steps: int, n_sequences: int, n_hidden: int) -> tuple[int, ...]:
    """The shape of what a layer keeps for the way back."""
    return _CELLS[cell].N_KEPT, n_steps, n_sequences, n_hidden


def advance(cell: str, layer: Layer, keep: np.ndarray) -> Advanced:
    """One pass of one layer, step by step."""
    return _CELLS[cell].forward([layer], keep)[0]


def advance_gradients(cell: str, layer: WayBack, keep: np.ndarray) -> Gradients:
    """The way back of `advance`."""
    return _CELLS[cell].backward([layer], keep)[0]
