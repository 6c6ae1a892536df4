"""Feed-forward networks of one policy key evaluated outside torch, at any number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from maze_kernel.contracts.vector import ArrayDict

Mirror = Callable[[ArrayDict], ArrayDict]

_ROWS_AT_ONCE = 1024
"""More rows are taken in parts, which stay in the processor's caches from layer to layer."""


class NativeEvaluation:
    """What `ActorCritic.logits_and_value` and `value` give, in arrays; follows in-place updates of the parameters.

    Args:
        encode: the observation.
        shared: what policy and critic have in common; None: nothing.
        policy: to logits by head.
        critic: to "value" (B, 1).
    """

    def __init__(self, encode: Mirror, shared: Mirror | None, policy: Mirror, critic: Mirror) -> None:
        self._encode, self._shared, self._policy, self._critic = encode, shared, policy, critic

    def logits_and_values(self, observation: ArrayDict) -> tuple[ArrayDict, np.ndarray]:
        """Logits (B, L) by head, masks applied, and values (B,)."""
        logits, values = [], []
        for part in _parts(observation):
            features = self._features(part)
            logits.append({head: array.copy() for head, array in self._policy(features).items()})
            values.append(self._values(features))
        return {head: np.concatenate([own[head] for own in logits]) for head in logits[0]}, np.concatenate(values)

    def values(self, observation: ArrayDict) -> np.ndarray:
        """Values (B,)."""
        return np.concatenate([self._values(self._features(part)) for part in _parts(observation)])

    def _features(self, observation: ArrayDict) -> ArrayDict:
        encoded = self._encode(observation)
        return encoded if self._shared is None else {**encoded, **self._shared(encoded)}

    def _values(self, features: ArrayDict) -> np.ndarray:
        values: np.ndarray = self._critic(features)["value"][:, 0].copy()
        return values


def _parts(observation: ArrayDict) -> Iterator[ArrayDict]:
    n_rows = len(next(iter(observation.values())))
    if n_rows <= _ROWS_AT_ONCE:
        yield observation
        return
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        yield {name: array[start : start + _ROWS_AT_ONCE] for name, array in observation.items()}
