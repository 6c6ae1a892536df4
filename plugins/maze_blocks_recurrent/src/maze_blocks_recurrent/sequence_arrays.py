"""The recurrences of `sequence_op` in NumPy, forward and backward, for float32 on the CPU.

A step is some ten calls on a few hundred numbers, where a call of NumPy takes a third of the time of one of torch. All
that does not wait for the step before is computed for all steps at once. Arrays are time-major: T steps of B sequences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from maze_blocks_recurrent.sequence_folding import find_fold

LARGEST_STEP = 1 << 16
"""Gates of a step, B·G, up to which NumPy is the faster one; beyond them the arithmetic counts and not the calls."""

_HALF, _ONE = np.float32(0.5), np.float32(1.0)


class Advanced(NamedTuple):
    """What a pass forward gives: the states (T, B, S), and the gates (T, B, 4 H), which the pass backward reads."""

    states: np.ndarray
    gates: np.ndarray


class Gradients(NamedTuple):
    """Of the inputs' contributions (T, B, G), the first state (B, S), the weight (G, H) and its bias (G,)."""

    inputs: np.ndarray
    state: np.ndarray
    weight: np.ndarray
    bias: np.ndarray


class Replayed(NamedTuple):
    """What `replay` gives.

    Attributes:
        states: (T, B, S) after each step.
        folded: the states (L, C, S) of the steps as they were taken, if they were folded; else of size 0.
        gates: as they were taken.
    """

    states: np.ndarray
    folded: np.ndarray
    gates: np.ndarray


def replay(
    cell: str, inputs: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, bias: np.ndarray | None
) -> Replayed:
    """One pass over T steps of B sequences; episodes that follow each other run side by side.

    Args:
        cell: "lstm" or "gru".
        inputs, state, keep, weight, bias: see `sequence_op.advance_steps`.
    """
    run = lstm_forward if cell == "lstm" else gru_forward
    fold = find_fold(keep)
    if fold is None:
        states, gates = run(inputs, state, keep, weight, bias)
        return Replayed(states, np.zeros(0, np.float32), gates)
    states, gates = run(fold.of_steps(inputs), fold.of_states(state), fold.of_steps(keep), weight, bias)
    return Replayed(fold.back(states), states, gates)


def replay_gradients(
    cell: str, grad: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, forward: Replayed
) -> Gradients:
    """The way back of `replay`, from the gradients (T, B, S) of the states."""
    run = lstm_backward if cell == "lstm" else gru_backward
    fold = find_fold(keep)
    if fold is None:
        return run(grad, state, keep, weight, Advanced(forward.states, forward.gates))
    folded = fold.of_steps(grad), fold.of_states(state), fold.of_steps(keep)
    found = run(*folded, weight, Advanced(forward.folded, forward.gates))
    return found._replace(inputs=fold.back(found.inputs), state=found.state[fold.sequences])


def lstm_forward(
    inputs: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, bias: np.ndarray | None
) -> Advanced:
    """See `sequence_op.advance_steps`; the gates are i, f, g, o."""
    n_steps, n_sequences, width = inputs.shape
    n_hidden = weight.shape[1]
    # σ(x) = ½ + ½ tanh(½ x): one tanh for all gates, g's without the halves
    scale = np.full((n_sequences, width), _HALF)
    shift = np.full((n_sequences, width), _HALF)
    scale[:, 2 * n_hidden : 3 * n_hidden], shift[:, 2 * n_hidden : 3 * n_hidden] = _ONE, 0.0
    gates = np.multiply(inputs if bias is None else inputs + bias, scale)
    scaled_weight = np.ascontiguousarray((weight * scale[0][:, None]).T)
    hidden, memory = (np.empty((n_steps, n_sequences, n_hidden), np.float32) for _ in range(2))
    i, f, g, o = gates.reshape(n_steps, n_sequences, 4, n_hidden).transpose(2, 0, 1, 3)
    before, memory_before = np.ascontiguousarray(state[:, :n_hidden]), np.ascontiguousarray(state[:, n_hidden:])
    from_state, product = np.empty_like(gates[0]), np.empty_like(before)
    begins = _begins(keep)
    for t, (now, i_t, f_t, g_t, o_t, after, memory_after) in enumerate(
        zip(gates, i, f, g, o, hidden, memory, strict=True)
    ):
        if t in begins:
            before, memory_before = before * keep[t], memory_before * keep[t]
        np.dot(before, scaled_weight, from_state)
        np.add(now, from_state, now)
        np.tanh(now, now)
        np.multiply(now, scale, now)
        np.add(now, shift, now)
        # c' = f c + i g
        np.multiply(f_t, memory_before, memory_after)
        np.multiply(i_t, g_t, product)
        np.add(memory_after, product, memory_after)
        # h' = o tanh(c')
        np.tanh(memory_after, product)
        np.multiply(o_t, product, after)
        before, memory_before = after, memory_after
    return Advanced(np.concatenate([hidden, memory], -1), gates)


def lstm_backward(
    grad: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, forward: Advanced
) -> Gradients:
    """Gradients from those (T, B, S) of the states."""
    n_steps, n_sequences, width = forward.gates.shape
    n_hidden = weight.shape[1]
    before = before_each_step(state, forward.states, keep)
    i, f, g, o = forward.gates.reshape(n_steps, n_sequences, 4, n_hidden).transpose(2, 0, 1, 3)
    memory = np.tanh(forward.states[..., n_hidden:])
    # per unit of ∂c': of i's, f's and g's arguments; per unit of ∂h': of o's argument and of c'
    slopes = np.empty((n_steps, n_sequences, 4, n_hidden), np.float32)
    slopes[:, :, 0], slopes[:, :, 1] = g * i * (_ONE - i), before[..., n_hidden:] * f * (_ONE - f)
    slopes[:, :, 2], slopes[:, :, 3] = i * (_ONE - g * g), memory * o * (_ONE - o)
    of_memory = o * (_ONE - memory * memory)
    of_inner, of_o, in_gates = slopes[:, :, :3], slopes[:, :, 3], slopes.reshape(n_steps, n_sequences, width)
    in_hidden, in_memory, product = (np.empty((n_sequences, n_hidden), np.float32) for _ in range(3))
    carried, carried_memory = (np.zeros((n_sequences, n_hidden), np.float32) for _ in range(2))
    in_memory_rows = in_memory[:, None]
    grads = np.ascontiguousarray(grad[..., :n_hidden]), np.ascontiguousarray(grad[..., n_hidden:])
    steps = zip(*grads, of_inner, of_o, of_memory, f, in_gates, strict=True)
    begins = _begins(keep)
    for t, (of_h, of_c, of_inner_t, of_o_t, of_memory_t, f_t, in_gates_t) in reversed(list(enumerate(steps))):
        # ∂h_t = ∂L/∂h_t + what comes back from step t + 1; ∂c_t likewise, and through h_t
        np.add(of_h, carried, in_hidden)
        np.multiply(in_hidden, of_memory_t, product)
        np.add(of_c, carried_memory, in_memory)
        np.add(in_memory, product, in_memory)
        np.multiply(of_inner_t, in_memory_rows, of_inner_t)
        np.multiply(of_o_t, in_hidden, of_o_t)
        np.dot(in_gates_t, weight, carried)
        np.multiply(in_memory, f_t, carried_memory)
        if t in begins:
            carried *= keep[t]
            carried_memory *= keep[t]
    rows = in_gates.reshape(n_steps * n_sequences, width)
    in_weight = outer(rows, before[..., :n_hidden])
    return Gradients(in_gates, np.concatenate([carried, carried_memory], -1), in_weight, rows.sum(0))


def gru_forward(
    inputs: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, bias: np.ndarray | None
) -> Advanced:
    """See `sequence_op.advance_steps`; the gates are r, z, n, and behind them U h of n with its bias."""
    n_steps, n_sequences, width = inputs.shape
    n_hidden = weight.shape[1]
    # σ(x) = ½ + ½ tanh(½ x)
    scale = np.repeat(np.array([0.5, 0.5, 1.0], np.float32), n_hidden)
    gates = np.empty((n_steps, n_sequences, 4 * n_hidden), np.float32)
    np.multiply(inputs, scale, gates[..., :width])
    bias_n = np.zeros(n_hidden, np.float32)
    if bias is not None:
        gates[..., : 2 * n_hidden] += _HALF * bias[: 2 * n_hidden]
        bias_n = bias[2 * n_hidden :]
    bias_rows = np.broadcast_to(bias_n, (n_sequences, n_hidden)).copy()
    scaled_weight = np.ascontiguousarray((weight * scale[:, None]).T)
    states = np.empty((n_steps, n_sequences, n_hidden), np.float32)
    before = np.ascontiguousarray(state)
    from_state, product = np.empty((n_sequences, width), np.float32), np.empty_like(before)
    both_from_state, n_from_state = from_state[:, : 2 * n_hidden], from_state[:, 2 * n_hidden :]
    both = gates[..., : 2 * n_hidden]
    r, z, n, u = gates.reshape(n_steps, n_sequences, 4, n_hidden).transpose(2, 0, 1, 3)
    begins = _begins(keep)
    for t, (both_t, r_t, z_t, n_t, u_t, after) in enumerate(zip(both, r, z, n, u, states, strict=True)):
        if t in begins:
            before = before * keep[t]
        np.dot(before, scaled_weight, from_state)
        np.add(both_t, both_from_state, both_t)
        np.tanh(both_t, both_t)
        np.multiply(both_t, _HALF, both_t)
        np.add(both_t, _HALF, both_t)
        # n = tanh(W x + r (U h))
        np.add(n_from_state, bias_rows, u_t)
        np.multiply(r_t, u_t, product)
        np.add(n_t, product, n_t)
        np.tanh(n_t, n_t)
        # h' = n + z (h - n)
        np.subtract(before, n_t, product)
        np.multiply(product, z_t, product)
        np.add(product, n_t, after)
        before = after
    return Advanced(states, gates)


def gru_backward(
    grad: np.ndarray, state: np.ndarray, keep: np.ndarray, weight: np.ndarray, forward: Advanced
) -> Gradients:
    """Gradients from those (T, B, S) of the states."""
    n_steps, n_sequences, n_hidden = forward.states.shape
    before = before_each_step(state, forward.states, keep)
    r, z, n, u = forward.gates.reshape(n_steps, n_sequences, 4, n_hidden).transpose(2, 0, 1, 3)
    # per unit of ∂h': of r's, z's and n's arguments; of U h the same but for n
    slopes = np.empty((n_steps, n_sequences, 3, n_hidden), np.float32)
    of_n = (_ONE - z) * (_ONE - n * n)
    slopes[:, :, 0], slopes[:, :, 1] = of_n * u * r * (_ONE - r), (before - n) * z * (_ONE - z)
    np.multiply(of_n, r, slopes[:, :, 2])
    in_recurrent = np.empty_like(slopes)
    in_states = np.empty_like(forward.states)
    carried, product = (np.zeros((n_sequences, n_hidden), np.float32) for _ in range(2))
    begins = _begins(keep)
    in_recurrent_rows = in_recurrent.reshape(n_steps, n_sequences, -1)
    steps = zip(grad, slopes, z, in_recurrent, in_recurrent_rows, in_states, in_states[:, :, None], strict=True)
    for t, (of_h, slopes_t, z_t, in_all, in_recurrent_t, in_state_t, in_state_rows) in reversed(list(enumerate(steps))):
        # ∂h_t = ∂L/∂h_t + what comes back from step t + 1
        np.add(of_h, carried, in_state_t)
        np.multiply(slopes_t, in_state_rows, in_all)
        np.dot(in_recurrent_t, weight, carried)
        np.multiply(in_state_t, z_t, product)
        np.add(carried, product, carried)
        if t in begins:
            carried *= keep[t]
    in_inputs = in_recurrent.copy()
    np.multiply(of_n, in_states, in_inputs[:, :, 2])
    rows = in_recurrent.reshape(n_steps * n_sequences, -1)
    shape = (n_steps, n_sequences, 3 * n_hidden)
    return Gradients(in_inputs.reshape(shape), carried, outer(rows, before), rows.sum(0))


def _begins(keep: np.ndarray) -> frozenset[int]:
    """The steps before which the state of some sequence is forgotten."""
    return frozenset(np.flatnonzero((keep == 0.0).any(axis=(1, 2))).tolist())


def before_each_step(state: np.ndarray, states: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """(T, B, S) what each step starts from."""
    before: np.ndarray = np.concatenate([state[None], states[:-1]])
    before *= keep
    return before


def outer(rows: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Σ over the T·B rows (G,) of the products with their hidden states, (G, H); large enough for torch."""
    product = torch.mm(torch.from_numpy(rows).t(), torch.from_numpy(hidden.reshape(len(rows), -1)))
    array: np.ndarray = product.numpy()
    return array
