"""From returns to a gradient: centred ranks and the antithetic estimator. Pure functions on arrays.

Letters: M pairs of members, P weights.
"""

from __future__ import annotations

import numpy as np


def centered_ranks(returns: np.ndarray) -> np.ndarray:
    """Ranks of all entries, scaled to [−0.5, 0.5]; equal returns share the mean of their ranks.

    Fitness shaping of Salimans et al. 2017, section 2.1 (after Wierstra et al. 2014).

    Args:
        returns: any shape, at least two entries.

    >>> centered_ranks(np.array([3.0, 1.0, 2.0])).tolist()
    [0.5, -0.5, 0.0]
    >>> centered_ranks(np.array([7.0, 7.0])).tolist()
    [0.0, 0.0]
    """
    _, position, counts = np.unique(returns.reshape(-1), return_inverse=True, return_counts=True)
    # The ranks of k equal values that end at rank e (counted from 0) are e − k + 1 … e.
    mean_rank = np.cumsum(counts) - 1 - (counts - 1) / 2.0
    ranks: np.ndarray = mean_rank[position.reshape(-1)] / (returns.size - 1) - 0.5
    return ranks.reshape(returns.shape)


def pair_weights(fitness: np.ndarray) -> np.ndarray:
    """Half the difference between the two halves of each pair: fitness (2, M), first row +, second row −, to (M,)."""
    weights: np.ndarray = 0.5 * (fitness[0] - fitness[1])
    return weights


def gradient(weights: np.ndarray, noise: np.ndarray, noise_stddev: float) -> np.ndarray:
    """Estimated gradient of the expected fitness, (P,).

    ∇ E[F(θ + σε)] ≈ 1/(nσ) Σ F(θ + σεᵢ) εᵢ  over n = 2M members, of which every second has the negated noise of the
    one before, so with wⱼ = ½ (F(θ + σεⱼ) − F(θ − σεⱼ)):

        g = 1/(Mσ) Σⱼ wⱼ εⱼ

    Source: Salimans et al. 2017, equation 1 and algorithm 1.

    Args:
        weights: (M,), from `pair_weights`.
        noise: (M, P) ε, not scaled by σ.
        noise_stddev: σ.
    """
    estimate: np.ndarray = weights.astype(noise.dtype) @ noise / noise.dtype.type(len(weights) * noise_stddev)
    return estimate
