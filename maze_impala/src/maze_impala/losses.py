"""The losses of IMPALA: pure functions on (T, B) or (M,) tensors.

`weight` says what each row counts in a mean; 0 leaves it out without changing any shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

LEAST_VARIANCE = 1e-12
"""Of what is explained, as a part of its mean square: less of it is rounding."""


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean of (T, B) values by weight; 0 where no row has any."""
    return (values * weight).sum() / weight.sum().clamp(min=1.0)


def weighted_means(columns: Sequence[Tensor], weight: Tensor) -> Tensor:
    """The same of each of several columns, (C,)."""
    rows = torch.stack(tuple(columns)).flatten(1)
    return (rows * weight.flatten()).sum(1) / weight.sum().clamp(min=1.0)


def policy_gradient_losses(log_prob: Tensor, advantages: Tensor) -> Tensor:
    """Of each row, from log pi(a|x), with gradient, and V-trace advantages.

    Source: Espeholt et al. 2018, section 4.2.
    """
    # L = −E[rho_t log pi(a_t|x_t) (r_t + gamma v_{t+1} − V(x_t))]
    return -log_prob * advantages


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


def explained_variance(value: Tensor, targets: Tensor, weight: Tensor) -> Tensor:
    """1 − Var(v − V) / Var(v): 1 is perfect, 0 no better than a constant.

    It is 0 where the targets vary by less than a millionth of their size: float32 knows no more of them.
    """
    variance, least = _variance(targets, weight), LEAST_VARIANCE * weighted_mean(targets.square(), weight)
    explained = 1.0 - _variance(targets - value, weight) / variance
    return torch.where(variance > least, explained, torch.zeros_like(explained))


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


def _variance(values: Tensor, weight: Tensor) -> Tensor:
    return weighted_mean((values - weighted_mean(values, weight)).square(), weight)
