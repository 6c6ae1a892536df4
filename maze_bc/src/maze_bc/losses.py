"""The losses of behavioural cloning: pure functions on tensors, and the objective that puts them together by head.

B is a minibatch of decisions of one policy key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from maze_kernel.contracts.model import ActionDistribution, Distribution
from maze_kernel.contracts.vector import ArrayDict
from maze_runtime.env.box_bounds import bounds_of
from maze_runtime.models.tensor_dict import TensorDict


def squared_error(mode: Tensor, target: Tensor, half_width: Tensor) -> Tensor:
    """Sum over dimensions of ((mode − target) / half width)², (B,).

    Args:
        mode: (B, ...), the action that is played without sampling.
        target: (B, ...).
        half_width: (...) or (); of each dimension, 1 where it is not bounded on both sides.
    """
    return ((mode - target) / half_width).square().reshape(len(mode), -1).sum(-1)


def half_widths(space: spaces.Box) -> np.ndarray:
    """Half of high − low by dimension, float32; 1 where a bound is missing or the width is 0."""
    return bounds_of(space).half_width.astype(np.float32)


def inside_bounds(action: np.ndarray, space: spaces.Box, margin: float) -> np.ndarray:
    """Actions (..., *shape) no closer to a bound than `margin` times the width, or than `margin` to one alone."""
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        inset = np.where(bounds_of(space).both, margin * (high - low), margin)
        inside: np.ndarray = np.clip(action, low + inset, high - inset).astype(action.dtype)
    return inside


class Objective:
    """What a policy key's decisions lose: the sum over heads of each head's loss.

    Args:
        space: the action space of the policy key.
        distribution: over it.
        loss: "auto" or "mse".
        bound_margin: see `BCOptions.bound_margin`.
    """

    def __init__(self, space: spaces.Dict, distribution: ActionDistribution, loss: str, bound_margin: float) -> None:
        self.distribution = distribution
        self._squared = {
            name: torch.from_numpy(half_widths(head))
            for name, head in space.spaces.items()
            if loss == "mse" and isinstance(head, spaces.Box)
        }
        self._boxes = {
            name: head
            for name, head in space.spaces.items()
            if loss == "auto" and bound_margin and isinstance(head, spaces.Box)
        }
        self._margin = bound_margin

    def targets(self, action: Mapping[str, np.ndarray]) -> ArrayDict:
        """Recorded actions by head as they are learnt; done once, when the data are loaded."""
        return {
            name: inside_bounds(array, self._boxes[name], self._margin) if name in self._boxes else array
            for name, array in action.items()
        }

    def rows(self, logits: TensorDict, action: TensorDict) -> Tensor:
        """Loss of each decision, (B,)."""
        if not self._squared:
            # L = −log π(a | s), the sum over heads of −log p(a_head)
            return -self.distribution.log_prob(logits, action)
        terms = [self._head(name)(head, logits[name], action[name]) for name, head in self.distribution.heads.items()]
        return torch.stack(terms).sum(0)

    def rows_and_entropy(self, logits: TensorDict, action: TensorDict) -> tuple[Tensor, Tensor]:
        """Loss and entropy of each decision, (B,) each; they share what they can."""
        if self._squared:
            return self.rows(logits, action), self.distribution.entropy(logits)
        log_prob, entropy = self.distribution.log_prob_and_entropy(logits, action)
        return -log_prob, entropy

    def _head(self, name: str) -> Callable[[Distribution, Tensor, Tensor], Tensor]:
        if name not in self._squared:
            return lambda head, logits, action: -head.log_prob(logits, action)
        return lambda head, logits, action: squared_error(head.mode(logits), action, self._on(name, action))

    def _on(self, name: str, like: Tensor) -> Tensor:
        if self._squared[name].device != like.device:
            self._squared[name] = self._squared[name].to(like.device)
        return self._squared[name]
