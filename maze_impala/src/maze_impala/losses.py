"""The losses of IMPALA: pure functions on (T, B) or (M,) tensors.

`weight` says what each row counts in a mean, as in `maze_runtime.training.weighted`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maze_runtime.training.weighted import weighted_mean


def value_losses(value: Tensor, targets: Tensor) -> Tensor:
    """Squared errors against V-trace targets. Source: Espeholt et al. 2018, section 4.2."""
    # L = E[(v_t − V(x_t))²]
    return (targets - value).square()


def approximate_kl(log_ratio: Tensor, weight: Tensor) -> Tensor:
    """KL(mu ‖ pi) from log pi − log mu of actions of mu: how far the learner is ahead of its actors.

    Source: Schulman 2020, "Approximating KL divergence", estimator k3.
    """
    # KL ≈ E[(r − 1) − log r]
    return weighted_mean(log_ratio.expm1() - log_ratio, weight)


def clip_reward(reward: Tensor, clipping: str) -> Tensor:
    """Rewards to learn from.

    Args:
        reward: of any shape.
        clipping: "none"; "abs_one": cut to −1 … 1; "soft_asymmetric": squashed to −1.5 … 5, losses less than gains.

    Source: Espeholt et al. 2018, appendix D.1. For "soft_asymmetric" the paper and its authors' published code differ:
    figure D.1 has 0.3 min(tanh r, 0) + 5 max(tanh r, 0), from −0.3 to 5 with slopes 0.3 and 5 at 0; the code squashes
    r / 5 and so keeps the slope 1 of small gains and 0.3 of small losses. This is the code's form.
    """
    if clipping == "abs_one":
        return reward.clamp(-1.0, 1.0)
    if clipping == "soft_asymmetric":
        # 5 (0.3 min(tanh(r / 5), 0) + max(tanh(r / 5), 0))
        squashed = torch.tanh(reward / 5.0)
        return 5.0 * torch.where(reward < 0.0, 0.3 * squashed, squashed)
    return reward
