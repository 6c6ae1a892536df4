"""What recurrent layers read and give where their steps are taken on arrays; time-major, T steps of B sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch


class Layer(NamedTuple):
    """One layer and what it reads; see `sequence_op.advance_steps`."""

    inputs: np.ndarray
    state: np.ndarray
    weight: np.ndarray
    bias: np.ndarray | None


class Advanced(NamedTuple):
    """What a pass forward gives: the states (T, B, S), and what the pass backward reads beside them."""

    states: np.ndarray
    kept: np.ndarray


class WayBack(NamedTuple):
    """One layer on the way back: the gradients (T, B, S) of its states, and what it read and gave."""

    grad: np.ndarray
    state: np.ndarray
    weight: np.ndarray
    forward: Advanced


class Gradients(NamedTuple):
    """Of the inputs' contributions (T, B, G), the first state (B, S), the weight (G, H) and its bias (G,)."""

    inputs: np.ndarray
    state: np.ndarray
    weight: np.ndarray
    bias: np.ndarray


class FromStates:
    """What the states of layers that run side by side contribute to the gates of a step.

    Args:
        weights: (G, H) of each layer.
        n_sequences: B, of each layer.

    Attributes:
        by_gate: (G / H, N, H), what `take` found.
    """

    def __init__(self, weights: Sequence[np.ndarray], n_sequences: int) -> None:
        width, n_hidden = weights[0].shape
        found = np.empty((len(weights) * n_sequences, width), np.float32)
        self.by_gate = found.reshape(len(found), -1, n_hidden).swapaxes(0, 1)
        rows = rows_of(len(weights), n_sequences)
        self._products = [(own, np.ascontiguousarray(w.T), found[own]) for own, w in zip(rows, weights, strict=True)]

    def take(self, states: np.ndarray) -> None:
        """Of states (N, H)."""
        for own, weight, place in self._products:
            np.dot(states[own], weight, place)


def products(rows: Iterable[np.ndarray], weights: Iterable[np.ndarray], places: Iterable[np.ndarray]) -> None:
    """The rows of each layer times its weights, written to its place."""
    for own, weight, place in zip(rows, weights, places, strict=True):
        np.dot(own, weight, place)


def begins_of(keep: np.ndarray) -> frozenset[int]:
    """The steps before which the state of some sequence is forgotten; `keep` (T, B, 1) is zero there, else one."""
    if keep.all():
        return frozenset()
    return frozenset(np.flatnonzero((keep == 0.0).any(axis=(1, 2))).tolist())


def keep_for(n_layers: int, keep: np.ndarray) -> np.ndarray:
    """`keep` for the sequences of all layers that run side by side, (T, K·B, 1)."""
    return keep if n_layers == 1 else np.concatenate([keep] * n_layers, 1)


def rows_of(n_layers: int, n_sequences: int) -> list[slice]:
    """The rows of each layer where those of all lie one behind the other."""
    return [slice(k * n_sequences, (k + 1) * n_sequences) for k in range(n_layers)]


def side_by_side(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """(…, B, H) each to one without gaps, (…, K·B, H)."""
    return np.ascontiguousarray(arrays[0]) if len(arrays) == 1 else np.concatenate(arrays, -2)


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
