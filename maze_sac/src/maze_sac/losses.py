"""Losses of soft actor-critic: pure functions of tensors. Haarnoja et al. 2018b (SAC), Christodoulou 2019 (discrete).

B is the batch, K the columns of all choices one behind the other, 2 the twins. Where an action consists of several
independent choices, sums over columns are sums over choices, because each choice's probabilities add up to one.
"""

from __future__ import annotations

import torch
from torch import Tensor


def sampled_soft_value(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """V(s) = min_i Q_i(s, a) − α log π(a|s) for one a ~ π; SAC eq. 3.

    Args:
        q: (2, B).
        log_prob: (B,).
        alpha: ().
    """
    return q.amin(0) - alpha * log_prob


def exact_soft_value(q: Tensor, log_probs: Tensor, alpha: Tensor) -> Tensor:
    """V(s) = Σ_k π_k (Q_k(s) − α log π_k), (B,); Christodoulou eq. 10.

    Args:
        q: (B, K), of the smaller twin: min_i Q_i,k(s) of a single choice, `joint_choice_values` of several.
        log_probs: (B, K).
        alpha: ().
    """
    return (log_probs.exp() * (q - alpha * log_probs)).sum(-1)


def bootstrapped_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """y = r + γ V(s′), (B,); SAC eq. 2. `discount` (B,) is 0 where an episode terminated, not where it was cut."""
    # What was never seen may have no finite value; times 0 it would still be NaN.
    return reward + torch.where(discount > 0, discount * next_value, 0.0)


def critic_loss(q: Tensor, target: Tensor) -> Tensor:
    """J_Q = Σ_i ½ mean (Q_i(s, a) − y)², (); SAC eq. 5. `q` (2, B), `target` (B,)."""
    return 0.5 * (q - target).square().mean(1).sum()


def sampled_policy_loss(q: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
    """(B,) terms of J_π = α log π(a|s) − min_i Q_i(s, a) with a reparameterised; SAC eq. 9. `q` (2, B)."""
    return alpha * log_prob - q.amin(0)


def exact_policy_loss(q: Tensor, log_probs: Tensor, alpha: Tensor) -> Tensor:
    """(B,) terms of J_π = Σ_k π_k (α log π_k − Q_k); Christodoulou eq. 12. `q` (B, K), see above, is a constant."""
    return (log_probs.exp() * (alpha * log_probs - q.detach())).sum(-1)


def joint_choice_values(q: Tensor, taken: Tensor, segments: tuple[int, ...]) -> Tensor:
    """Values of options, (B, K), such that Σ_k π_k of them estimates E min_i Q_i(s, a) of several choices together.

    With Q_i(s, a) = Σ_c Q_i,c(s, a_c), a ~ π, and a[c ← o] for a with option o in choice c, that option gets

        min_i Q_i(s, a[c ← o]) − (1 − 1/n) min_i Q_i(s, a),  n choices

    Their sum over all options of all choices, by probabilities, has the expectation E min_i Q_i(s, a), and is just that
    where one twin is smaller everywhere; its gradient has the expectation ∇ E min_i Q_i(s, a), for the second term is
    the same for every option. Local expectations: Titsias and Lázaro-Gredilla 2015, section 3.

    Args:
        q: (2, B, K).
        taken: (B, K) one-hots of a.
        segments: options of each choice.
    """
    segment = torch.tensor([i for i, size in enumerate(segments) for _ in range(size)], device=q.device)
    same_choice = (segment[:, None] == segment[None, :]).to(q.dtype)
    of_taken = q * taken
    # (2, B): Q_i(s, a);  (2, B, K): Q_i,c(s, a_c) of the choice c that a column belongs to
    value, of_choice = of_taken.sum(-1), of_taken @ same_choice
    varied = value.unsqueeze(-1) - of_choice + q
    return varied.amin(0) - (1.0 - 1.0 / len(segments)) * value.amin(0).unsqueeze(-1)


def temperature_gradient(entropy: Tensor, target_entropy: Tensor) -> Tensor:
    """dJ_α / d log α = H(π) − H̄ of J_α = log α · (H(π) − H̄): alpha grows where the entropy is below its target.

    SAC eq. 18 with log α in place of α, as usual: the step does not shrink with α.
    """
    return entropy - target_entropy


def expected_entropy(log_probs: Tensor) -> Tensor:
    """H = −Σ_k π_k log π_k, (B,). `log_probs` (B, K)."""
    return -(log_probs.exp() * log_probs).sum(-1)


def varied_choices(encoded_action: Tensor, segments: tuple[int, ...]) -> Tensor:
    """Every action that differs from a given one in at most one choice, (B, K, A).

    Row k has option k taken in the choice that column k belongs to; all other columns are as in `encoded_action`
    (B, A), whose first K columns are the one-hots of the choices.
    """
    n_choices, width = sum(segments), encoded_action.shape[-1]
    device = encoded_action.device
    segment = torch.tensor([i for i, size in enumerate(segments) for _ in range(size)], device=device)
    # (K, A): 1 where a column belongs to another choice than k, or to a number
    kept = torch.ones(n_choices, width, device=device)
    kept[:, :n_choices] = (segment[:, None] != segment[None, :]).float()
    return encoded_action[:, None, :] * kept + torch.eye(n_choices, width, device=device)
