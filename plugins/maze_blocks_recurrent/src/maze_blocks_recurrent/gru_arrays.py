"""The recurrence of GRU layers in NumPy, forward and backward (Cho et al. 2014, with the reset gate behind U h).

As in `lstm_arrays` layers run side by side, and numbers are kept gate by gate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maze_blocks_recurrent.sequence_layers import (
    Advanced,
    FromStates,
    Gradients,
    Layer,
    WayBack,
    before_each_step,
    begins_of,
    keep_for,
    outer,
    products,
    rows_of,
    side_by_side,
)

N_KEPT = 5
"""Numbers of a step that a unit keeps for the way back."""

_ONE = np.float32(1.0)
_HALF = np.array(0.5, np.float32)  # as an array it is read faster than as a number


def forward(layers: Sequence[Layer], keep: np.ndarray) -> list[Advanced]:
    """See `sequence_op.advance_steps`; the inputs of all layers have one shape.

    A layer keeps (5, T, B, H): per unit of ∂h' what reaches U h of r, of z and of n, and the argument of n, and z, by
    which ∂h' reaches the step before.
    """
    n_steps, n_sequences, width = layers[0].inputs.shape
    n_hidden, n_layers = width // 3, len(layers)
    rows = rows_of(n_layers, n_sequences)
    # σ(x) = ½ + ½ tanh(½ x)
    scale = np.repeat(np.array([0.5, 0.5, 1.0], np.float32), n_hidden).reshape(3, 1, n_hidden)
    gates = np.empty((n_steps, 4, n_layers * n_sequences, n_hidden), np.float32)
    bias_of_n = np.zeros(gates.shape[2:], np.float32)
    for layer, own in zip(layers, rows, strict=True):
        inputs = layer.inputs.reshape(n_steps, n_sequences, 3, n_hidden).swapaxes(1, 2)
        np.multiply(inputs, scale, gates[:, :3, own])
        if layer.bias is not None:
            bias = layer.bias.reshape(3, 1, n_hidden)
            gates[:, :2, own] += _HALF * bias[:2]
            bias_of_n[own] = bias[2]
    from_states = FromStates([layer.weight * scale.reshape(width, 1) for layer in layers], n_sequences)
    of_both, of_n = from_states.by_gate[:2], from_states.by_gate[2]
    first = before = side_by_side([layer.state for layer in layers])
    hidden, product = np.empty((n_steps, *before.shape), np.float32), np.empty_like(before)
    keep_of_all, begins = keep_for(n_layers, keep), begins_of(keep)
    steps = zip(gates[:, :2], *gates.swapaxes(0, 1), hidden, strict=True)
    for t, (both, r, z, n, u, after) in enumerate(steps):
        if t in begins:
            before = before * keep_of_all[t]
        from_states.take(before)
        np.add(both, of_both, both)
        np.tanh(both, both)
        np.multiply(both, _HALF, both)
        np.add(both, _HALF, both)
        # n = tanh(W x + r (U h))
        np.add(of_n, bias_of_n, u)
        np.multiply(r, u, product)
        np.add(n, product, n)
        np.tanh(n, n)
        # h' = n + z (h - n)
        np.subtract(before, n, product)
        np.multiply(product, z, product)
        np.add(product, n, after)
        before = after
    kept = _slopes(gates, before_each_step(first, hidden, keep_of_all))
    return [Advanced(np.ascontiguousarray(hidden[:, own]), np.ascontiguousarray(kept[:, :, own])) for own in rows]


def backward(layers: Sequence[WayBack], keep: np.ndarray) -> list[Gradients]:
    """Gradients from those (T, B, S) of the states."""
    _, n_steps, n_sequences, n_hidden = layers[0].forward.kept.shape
    n_layers, shape = len(layers), (len(layers) * n_sequences, n_hidden)
    rows = rows_of(n_layers, n_sequences)
    kept = side_by_side([layer.forward.kept for layer in layers])
    slopes = kept[:3].reshape(3, n_steps, n_layers, n_sequences, n_hidden).transpose(1, 2, 3, 0, 4)
    grad = side_by_side([layer.grad for layer in layers])
    # One layer behind the other, and of each a row for every step of a sequence, which is what products are taken of
    in_recurrent = np.empty((n_layers, n_steps, n_sequences, 3, n_hidden), np.float32)
    in_rows = in_recurrent.reshape(n_layers, n_steps, n_sequences, 3 * n_hidden)
    in_states, product, carried = np.empty_like(grad), np.empty(shape, np.float32), np.zeros(shape, np.float32)
    in_states_rows = in_states.reshape(n_steps, n_layers, n_sequences, 1, n_hidden)
    carried_by_layer, weights = [carried[own] for own in rows], [layer.weight for layer in layers]
    keep_of_all, begins = keep_for(n_layers, keep), begins_of(keep)
    in_steps = zip(in_recurrent.swapaxes(0, 1), zip(*in_rows, strict=True), in_states, in_states_rows, strict=True)
    steps = [*enumerate(zip(grad, slopes, kept[4], in_steps, strict=True))]
    for t, (of_h, slopes_t, z, (in_all, in_by_layer, in_state, in_state_rows)) in reversed(steps):
        # ∂h_t = ∂L/∂h_t + what comes back from step t + 1
        np.add(of_h, carried, in_state)
        np.multiply(slopes_t, in_state_rows, in_all)
        products(in_by_layer, weights, carried_by_layer)
        np.multiply(in_state, z, product)
        np.add(carried, product, carried)
        if t in begins:
            carried *= keep_of_all[t]
    of_n = kept[3] * in_states
    return [
        _gradients(layer, keep, own_rows, of_n[:, own], carried[own])
        for layer, own_rows, own in zip(layers, in_rows, rows, strict=True)
    ]


def _gradients(
    layer: WayBack, keep: np.ndarray, in_rows: np.ndarray, of_n: np.ndarray, in_state: np.ndarray
) -> Gradients:
    flat = in_rows.reshape(-1, in_rows.shape[-1])
    in_inputs = in_rows.copy()
    in_inputs[..., 2 * layer.weight.shape[1] :] = of_n
    hidden = before_each_step(layer.state, layer.forward.states, keep)
    return Gradients(in_inputs, np.ascontiguousarray(in_state), outer(flat, hidden), flat.sum(0))


def _slopes(gates: np.ndarray, before: np.ndarray) -> np.ndarray:
    """What `forward` keeps, (5, T, N, H), from r, z, n and U h of n with its bias (T, 4, N, H)."""
    r, z, n, u = np.ascontiguousarray(gates.swapaxes(0, 1))
    kept = np.empty((N_KEPT, *r.shape), np.float32)
    of_r, of_z, of_u, of_n, last = kept
    last[...] = z
    np.multiply(_ONE - z, _ONE - n * n, of_n)
    np.multiply(of_n, r, of_u)
    np.multiply(of_n * u * r, _ONE - r, of_r)
    np.multiply((before - n) * z, _ONE - z, of_z)
    return kept
