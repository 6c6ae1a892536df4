"""The recurrence of LSTM layers in NumPy, forward and backward (Hochreiter and Schmidhuber 1997, with forget gate).

Several layers may run side by side: what takes most of the time of a small step is calling NumPy, and that is called
once for all of them but for the products with their weights. Their sequences lie one behind the other then, N = K·B of
them. A step's numbers are kept gate by gate, (…, N, H), for operations on arrays with gaps take three times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

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

N_KEPT = 6
"""Numbers of a step that a unit keeps for the way back."""

_G = 2  # where g stands among i, f, g, o
_HALF, _ONE = np.float32(0.5), np.float32(1.0)


def forward(layers: Sequence[Layer], keep: np.ndarray) -> list[Advanced]:
    """See `sequence_op.advance_steps`; the inputs of all layers have one shape.

    A layer keeps (6, T, B, H): per unit of ∂c' what reaches the arguments of i, f and g, per unit of ∂h' what reaches
    the argument of o, and c', and f, by which ∂c' reaches the step before.
    """
    n_steps, n_sequences, width = layers[0].inputs.shape
    n_hidden, n_layers = width // 4, len(layers)
    rows = rows_of(n_layers, n_sequences)
    scale, scales, shifts = _halves(n_layers * n_sequences, n_hidden)
    gates = np.empty((n_steps, 4, n_layers * n_sequences, n_hidden), np.float32)
    for layer, own in zip(layers, rows, strict=True):
        inputs = layer.inputs if layer.bias is None else layer.inputs + layer.bias
        np.multiply(inputs.reshape(n_steps, n_sequences, 4, n_hidden).swapaxes(1, 2), scale, gates[:, :, own])
    from_states = FromStates([layer.weight * scale.reshape(width, 1) for layer in layers], n_sequences)
    by_gate = from_states.by_gate
    before = side_by_side([layer.state[:, :n_hidden] for layer in layers])
    first_memory = memory_before = side_by_side([layer.state[:, n_hidden:] for layer in layers])
    hidden, memory, bent = (np.empty((n_steps, *before.shape), np.float32) for _ in range(3))
    product, keep_of_all, begins = np.empty_like(before), keep_for(n_layers, keep), begins_of(keep)
    steps = zip(gates, *gates.swapaxes(0, 1), memory, bent, hidden, strict=True)
    for t, (now, i, f, g, o, memory_after, bent_after, after) in enumerate(steps):
        if t in begins:
            before, memory_before = before * keep_of_all[t], memory_before * keep_of_all[t]
        from_states.take(before)
        np.add(now, by_gate, now)
        np.tanh(now, now)
        np.multiply(now, scales, now)
        np.add(now, shifts, now)
        # c' = f c + i g
        np.multiply(f, memory_before, memory_after)
        np.multiply(i, g, product)
        np.add(memory_after, product, memory_after)
        # h' = o tanh(c')
        np.tanh(memory_after, bent_after)
        np.multiply(o, bent_after, after)
        before, memory_before = after, memory_after
    kept = _slopes(gates, before_each_step(first_memory, memory, keep_of_all), bent)
    return [
        Advanced(np.concatenate([hidden[:, own], memory[:, own]], -1), np.ascontiguousarray(kept[:, :, own]))
        for own in rows
    ]


def backward(layers: Sequence[WayBack], keep: np.ndarray) -> list[Gradients]:
    """Gradients from those (T, B, S) of the states."""
    _, n_steps, n_sequences, n_hidden = layers[0].forward.kept.shape
    n_layers, shape = len(layers), (len(layers) * n_sequences, n_hidden)
    rows = rows_of(n_layers, n_sequences)
    kept = side_by_side([layer.forward.kept for layer in layers])
    slopes = kept[:4].reshape(4, n_steps, n_layers, n_sequences, n_hidden).transpose(1, 2, 3, 0, 4)
    of_h = side_by_side([layer.grad[..., :n_hidden] for layer in layers])
    of_c = side_by_side([layer.grad[..., n_hidden:] for layer in layers])
    reads_memory = bool(of_c.any())
    # One layer behind the other, and of each a row for every step of a sequence, which is what products are taken of
    in_gates = np.empty((n_layers, n_steps, n_sequences, 4, n_hidden), np.float32)
    in_rows, in_steps = in_gates.reshape(n_layers, n_steps, n_sequences, 4 * n_hidden), in_gates.swapaxes(0, 1)
    in_hidden, in_memory, product = (np.empty(shape, np.float32) for _ in range(3))
    carried, carried_memory = (np.zeros(shape, np.float32) for _ in range(2))
    in_hidden_rows, in_memory_rows = (own.reshape(n_layers, n_sequences, 1, -1) for own in (in_hidden, in_memory))
    carried_by_layer, weights = [carried[own] for own in rows], [layer.weight for layer in layers]
    keep_of_all, begins = keep_for(n_layers, keep), begins_of(keep)
    of_inner, of_o, in_inner, in_o = slopes[..., :3, :], slopes[..., 3:, :], in_steps[..., :3, :], in_steps[..., 3:, :]
    of_steps = zip(of_h, of_c, kept[4], kept[5], of_inner, of_o, strict=True)
    steps = zip(range(n_steps), of_steps, in_inner, in_o, zip(*in_rows, strict=True), strict=True)
    for t, (of_h_t, of_c_t, of_memory, f, of_inner_t, of_o_t), in_inner_t, in_o_t, in_by_layer in reversed([*steps]):
        # ∂h_t = ∂L/∂h_t + what comes back from step t + 1; ∂c_t likewise, and through h_t
        np.add(of_h_t, carried, in_hidden)
        np.multiply(in_hidden, of_memory, product)
        np.add(carried_memory, product, in_memory)
        if reads_memory:
            np.add(of_c_t, in_memory, in_memory)
        np.multiply(of_inner_t, in_memory_rows, in_inner_t)
        np.multiply(of_o_t, in_hidden_rows, in_o_t)
        products(in_by_layer, weights, carried_by_layer)
        np.multiply(in_memory, f, carried_memory)
        if t in begins:
            carried *= keep_of_all[t]
            carried_memory *= keep_of_all[t]
    return [
        _gradients(layer, keep, own_rows, np.concatenate([carried[own], carried_memory[own]], -1))
        for layer, own_rows, own in zip(layers, in_rows, rows, strict=True)
    ]


def _gradients(layer: WayBack, keep: np.ndarray, in_rows: np.ndarray, in_state: np.ndarray) -> Gradients:
    n_hidden = layer.weight.shape[1]
    hidden = before_each_step(layer.state[:, :n_hidden], layer.forward.states[..., :n_hidden], keep)
    flat = in_rows.reshape(-1, in_rows.shape[-1])
    return Gradients(in_rows, in_state, outer(flat, hidden), flat.sum(0))


@lru_cache
def _halves(n_rows: int, n_hidden: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors (4, 1, H) and (4, N, H) and summands (4, N, H) by which one tanh serves all gates, to be read only.

    σ(x) = ½ + ½ tanh(½ x) for i, f and o, and g without the halves.
    """
    scale = np.full((4, 1, n_hidden), _HALF)
    scale[_G] = _ONE
    shift = np.full((4, 1, n_hidden), _HALF)
    shift[_G] = 0.0
    return scale, scale.repeat(n_rows, 1), shift.repeat(n_rows, 1)


def _slopes(gates: np.ndarray, memory_before: np.ndarray, bent: np.ndarray) -> np.ndarray:
    """What `forward` keeps, (6, T, N, H), from the gates (T, 4, N, H) and tanh(c')."""
    kept = np.empty((N_KEPT, len(gates), *gates.shape[2:]), np.float32)
    kept[:4] = gates.swapaxes(0, 1)
    i, f, g, o, of_memory, last = kept
    last[...] = f
    # ∂c' by the argument of g: i (1 - g²); ∂h' by c': o (1 - tanh²(c'))
    np.multiply(g, g, of_memory)
    of_g = i * (_ONE - of_memory)
    np.multiply(bent, bent, of_memory)
    np.subtract(_ONE, of_memory, of_memory)
    np.multiply(o, of_memory, of_memory)
    for gate, factor in ((i, g), (f, memory_before), (o, bent)):
        # by the argument of a gate: what it is multiplied by, and the slope of σ, σ (1 - σ)
        slope = _ONE - gate
        np.multiply(gate, factor, gate)
        np.multiply(gate, slope, gate)
    g[...] = of_g
    return kept
