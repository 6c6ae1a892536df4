"""Where perturbations come from. Both kinds name one by an integer, so that only integers travel to workers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from maze_kernel.errors import RequestError


class Noise(Protocol):
    """Standard normal vectors by index."""

    def draw_indices(self, rng: np.random.Generator, n_indices: int) -> np.ndarray:
        """Indices of new perturbations, (M,) int64."""
        ...

    def vectors(self, indices: np.ndarray) -> np.ndarray:
        """The perturbations, (M, P) float32; the same index gives the same vector in every process."""
        ...


class NoiseTable:
    """Slices of one long table; an index is where the slice begins.

    Args:
        table: (size,) float32, filled by `fill_table`; may be memory shared with other processes.
        n_weights: P.

    Raises:
        RequestError: the table is shorter than one perturbation.
    """

    def __init__(self, table: np.ndarray, n_weights: int) -> None:
        if len(table) <= n_weights:
            raise RequestError(
                "the noise table is too short for this policy",
                received=f"trainer.noise.size = {len(table)}",
                expected=f"more than its {n_weights} weights, better a thousand times as many",
                owner="maze-es",
                help='raise trainer.noise.size, or set trainer.noise = { use = "seeded" }',
            )
        self.table = table
        self._n_weights = n_weights

    def draw_indices(self, rng: np.random.Generator, n_indices: int) -> np.ndarray:
        """Uniform over all places where a slice fits."""
        return rng.integers(0, len(self.table) - self._n_weights + 1, size=n_indices)

    def vectors(self, indices: np.ndarray) -> np.ndarray:
        """Copies of the slices."""
        return np.stack([self.table[index : index + self._n_weights] for index in indices])


def fill_table(table: np.ndarray, seed: int) -> None:
    """Write independent standard normal numbers into a float32 table: one stream from end to end, no period."""
    np.random.default_rng(seed).standard_normal(out=table, dtype=np.float32)


class SeededVectors:
    """Every perturbation from a counter-based generator whose key is the index.

    Source: Salmon et al. 2011 (Philox): streams of different keys are independent.
    """

    def __init__(self, n_weights: int) -> None:
        self._n_weights = n_weights

    def draw_indices(self, rng: np.random.Generator, n_indices: int) -> np.ndarray:
        """Uniform over [0, 2⁶³)."""
        return rng.integers(0, 2**63 - 1, size=n_indices, endpoint=True)

    def vectors(self, indices: np.ndarray) -> np.ndarray:
        """Drawn anew at each call."""
        vectors = np.empty((len(indices), self._n_weights), np.float32)
        for row, index in zip(vectors, indices, strict=True):
            np.random.Generator(np.random.Philox(key=int(index))).standard_normal(out=row, dtype=np.float32)
        return vectors
