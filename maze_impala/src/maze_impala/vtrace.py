"""V-trace: off-policy corrected value targets and advantages on (T, B) tensors, as a log-depth scan.

Series of decisions that were laid end to end are tensors (M,): every function here takes any shape behind the time.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class VTrace(NamedTuple):
    """What `vtrace` returns, (T, B) each: value targets v and advantages of the policy gradient."""

    targets: Tensor
    advantages: Tensor


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    next_value: Tensor,
    discount: Tensor,
    continues: Tensor,
    *,
    clip_rho: float = 1.0,
    clip_pg_rho: float = 1.0,
) -> VTrace:
    """Value targets and advantages of T decisions in B rollouts; nothing here carries a gradient.

    Args:
        log_ratio: (T, B) log pi(a|x) − log mu(a|x): learner against actor.
        reward: (T, B).
        value: (T, B) V(x_t) of the learner.
        next_value: (T, B) V of what followed: the next observation, the final one where the episode was truncated,
            the one after the rollout in the last row.
        discount: (T, B) gamma, and 0 where the episode terminated.
        continues: (T, B) 1 where row t + 1 goes on with the same episode, else 0; the last row is not read.
        clip_rho: rho-bar; 0: no clipping.
        clip_pg_rho: the same of the policy gradient.

    Source: Espeholt et al. 2018, equation 1 and section 4.2, with c-bar = 1 and lambda = 1.
    """
    ratio = log_ratio.detach().exp()
    value, next_value = value.detach(), next_value.detach()
    # delta_t V = rho_t (r_t + gamma_t V(x_{t+1}) − V(x_t)),  rho_t = min(rho-bar, pi / mu)
    delta = _clipped(ratio, clip_rho) * (reward + discount * next_value - value)
    # v_t − V(x_t) = delta_t V + gamma_t c_t (v_{t+1} − V(x_{t+1})),  c_t = min(1, pi / mu)
    correction = reverse_scan(delta, discount * continues * ratio.clamp(max=1.0))
    # A_t = rho_t (r_t + gamma_t v_{t+1} − V(x_t))
    next_target = next_value + continues * _shifted(correction, 1)
    advantages = _clipped(ratio, clip_pg_rho) * (reward + discount * next_target - value)
    return VTrace(value + correction, advantages)


def reverse_scan(addend: Tensor, factor: Tensor) -> Tensor:
    """x with x_t = addend_t + factor_t x_{t+1} and x_T = 0, for (T, B) tensors.

    Doubling: after step i, x_t holds the terms of 2^i rows. That is log2 T tensor operations instead of T.
    """
    shift = 1
    while shift < len(addend):
        addend = addend + factor * _shifted(addend, shift)
        factor = factor * _shifted(factor, shift)
        shift *= 2
    return addend


def _shifted(x: Tensor, n_rows: int) -> Tensor:
    """Row t holds row t + n, zeros at the end."""
    return torch.nn.functional.pad(x[n_rows:], (0, 0) * (x.dim() - 1) + (0, n_rows))


def _clipped(ratio: Tensor, threshold: float) -> Tensor:
    return ratio.clamp(max=threshold) if threshold > 0.0 else ratio
