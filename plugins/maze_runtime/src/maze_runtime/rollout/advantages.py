"""Advantages and returns on (T, N) arrays of decisions."""

from __future__ import annotations

import numpy as np


def generalized_advantages(
    reward: np.ndarray,
    value: np.ndarray,
    next_value: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    *,
    gamma: float,
    gae_lambda: float,
    flat_step_end: np.ndarray | None = None,
) -> np.ndarray:
    """Generalised advantage estimates of the decisions of N environments.

    Discount and lambda act where environment time advances and not between the sub-steps of one flat step. An
    advantage never reaches across the end of an episode.

    Args:
        reward: (T, N), of the decision at t.
        value: (T, N), estimate at the observation the decision was made on.
        next_value: (T, N), estimate at what followed: the next observation, the final observation where the
            episode was truncated, the bootstrap observation in the last row. Ignored where terminated.
        terminated: (T, N) bool.
        ended: (T, N) bool, terminated or truncated.
        gamma: discount a flat step, in [0, 1].
        gae_lambda: in [0, 1]; 0 gives one-step, 1 bootstrapped Monte Carlo estimates.
        flat_step_end: (T, N) bool; None where every decision is a flat step.

    Returns:
        (T, N) float32.

    Source: Schulman et al. 2016, "High-dimensional continuous control using GAE", equations 11 and 16.
    """
    discount: np.ndarray | np.float32 = np.float32(gamma)
    trace: np.ndarray | np.float32 = np.float32(gamma) * np.float32(gae_lambda)
    if flat_step_end is not None:
        discount = np.where(flat_step_end, np.float32(gamma), np.float32(1.0))
        trace = discount * np.where(flat_step_end, np.float32(gae_lambda), np.float32(1.0))
    # delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t)
    advantages: np.ndarray = reward + np.where(terminated, np.float32(0.0), discount * next_value) - value
    # A_t = delta_t + gamma lambda (1 - ended_t) A_{t+1}
    carry = np.where(ended, np.float32(0.0), trace)
    for t in range(len(reward) - 2, -1, -1):
        advantages[t] += carry[t] * advantages[t + 1]
    return advantages
