"""How well a policy imitates, head by head, in numbers that people can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.contracts.model import Distribution


def head_metrics(
    space: spaces.Space[Any], distribution: Distribution, logits: Tensor, action: Tensor, top_k: Sequence[int] = (5,)
) -> dict[str, Tensor]:
    """Metrics of one head, one number a decision: name to (B,).

    "accuracy": 1 where the likeliest action is the recorded one; "rank": place of the recorded action among the
    options by likelihood, 1 the likeliest; "top_K_accuracy": 1 where the rank is at most K, for more than K options;
    "binary_accuracy": the part of the bits that agree; "mean_abs_deviation": of the distribution's mode from the
    recorded action, mean over dimensions, in the units of the action. MultiDiscrete: means over the dimensions.

    Args:
        space: of the head.
        distribution: over it.
        logits: (B, L).
        action: (B, ...) recorded actions.
        top_k: each K.
    """
    mode = distribution.mode(logits)
    if isinstance(space, spaces.MultiBinary):
        return {"binary_accuracy": _row_mean(mode == action)}
    if isinstance(space, spaces.Box):
        return {"mean_abs_deviation": _row_mean((mode - action).abs())}
    metrics = {"accuracy": _row_mean(mode == action)}
    sizes, starts = _options(space)
    if sum(sizes) == logits.shape[-1]:
        metrics |= _rank_metrics(logits, action, sizes, starts, top_k)
    return metrics


def _options(space: spaces.Space[Any]) -> tuple[list[int], list[int]]:
    """How many options each choice of the head has, and the number of its first one."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)], [int(space.start)]
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.reshape(-1).tolist(), space.start.reshape(-1).tolist()
    return [], []


def _rank_metrics(
    logits: Tensor, action: Tensor, sizes: list[int], starts: list[int], top_k: Sequence[int]
) -> dict[str, Tensor]:
    choices = action.reshape(len(action), -1).long() - torch.tensor(starts, device=action.device)
    ranks = torch.stack(
        [_rank(part, choice) for part, choice in zip(logits.split_with_sizes(sizes, -1), choices.T, strict=True)],
        dim=-1,
    )
    metrics = {"rank": _row_mean(ranks)}
    return metrics | {f"top_{k}_accuracy": _row_mean(ranks <= k) for k in top_k if max(sizes) > k}


def _rank(logits: Tensor, choice: Tensor) -> Tensor:
    """(B, n), (B,) to (B,): one more than the options that are likelier."""
    return (logits > logits.gather(-1, choice[:, None])).sum(-1) + 1


def _row_mean(values: Tensor) -> Tensor:
    return values.reshape(len(values), -1).float().mean(-1)
