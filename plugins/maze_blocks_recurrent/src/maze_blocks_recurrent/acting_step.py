"""One step of a recurrent layer in NumPy, which is how it acts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_perception.mirror import sigmoid_in_place


def lstm_step_in_numpy(
    x: np.ndarray, state: np.ndarray, weights: Sequence[np.ndarray], after: np.ndarray
) -> np.ndarray:
    """One step, for acting.

    Args:
        x: (B, D).
        state: (B, 2 H) before it.
        weights: of input (D, 4 H) and state (H, 4 H), and the biases beside them or none.
        after: (B, 2 H) filled with the state after it.

    Returns:
        (B, H), a part of `after`.
    """
    n_hidden = weights[1].shape[0]
    gates = np.dot(x, weights[0])
    gates += np.dot(state[:, :n_hidden], weights[1])
    for bias in weights[2:]:
        gates += bias
    i, f, g, o = (gates[:, k * n_hidden : (k + 1) * n_hidden] for k in range(4))
    sigmoid_in_place(gates[:, : 2 * n_hidden])
    np.tanh(g, g)
    sigmoid_in_place(o)
    hidden, memory = after[:, :n_hidden], after[:, n_hidden:]
    # c' = f c + i g
    np.multiply(f, state[:, n_hidden:], memory)
    memory += i * g
    # h' = o tanh(c')
    np.tanh(memory, hidden)
    hidden *= o
    return hidden


def gru_step_in_numpy(x: np.ndarray, state: np.ndarray, weights: Sequence[np.ndarray], after: np.ndarray) -> np.ndarray:
    """Like `lstm_step_in_numpy`, with three gates and a state (B, H)."""
    n_hidden = weights[1].shape[0]
    gates, recurrent = np.dot(x, weights[0]), np.dot(state, weights[1])
    if len(weights) > 2:
        gates += weights[2]
        recurrent += weights[3]
    both = gates[:, : 2 * n_hidden]
    both += recurrent[:, : 2 * n_hidden]
    sigmoid_in_place(both)
    # n = tanh(W x + r (U h))
    n = np.multiply(both[:, :n_hidden], recurrent[:, 2 * n_hidden :])
    n += gates[:, 2 * n_hidden :]
    np.tanh(n, n)
    # h' = n + z (h - n)
    np.subtract(state, n, after)
    after *= both[:, n_hidden:]
    after += n
    return after
