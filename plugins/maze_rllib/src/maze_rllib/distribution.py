"""Maze's action distributions in RLlib's words: a class for each policy key, made of flat logits."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium import spaces
from ray.rllib.core.distribution.distribution import Distribution
from torch import Tensor

from maze_kernel.contracts.model import ActionDistribution
from maze_runtime.models.tensor_dict import TensorDict


class MazeDistribution(Distribution):  # type: ignore[misc,unused-ignore]
    """The product distribution over the heads of an action, made from their logits one behind the other.

    RLlib wants a class that it makes instances of; `distribution_class` binds one to a policy key.

    Args:
        logits: (B, L), of all heads.
        deterministic: whether samples are the mode.
    """

    heads: ClassVar[ActionDistribution]
    is_plain: ClassVar[bool]
    """Whether an action is the value of the only head instead of a dict."""

    def __init__(self, logits: Tensor, deterministic: bool = False) -> None:
        self.logits = split_logits(self.heads, logits)
        self._flat = logits
        self._is_deterministic = deterministic

    @classmethod
    def from_logits(cls, logits: Tensor, **_: Any) -> MazeDistribution:
        """The distribution with these logits (B, L)."""
        return cls(logits)

    def to_deterministic(self) -> MazeDistribution:
        """The same, whose samples are the mode."""
        return type(self)(self._flat, deterministic=True)

    def sample(self, *, sample_shape: Any = None, return_logp: bool = False, **_: Any) -> Any:
        """Actions (B, ...), and their log-probability (B,) if it is asked for."""
        with torch.no_grad():
            return self.rsample(sample_shape=sample_shape, return_logp=return_logp)

    def rsample(self, *, sample_shape: Any = None, return_logp: bool = False, **_: Any) -> Any:
        """Like `sample`, with gradients where the heads can."""
        if sample_shape:
            raise NotImplementedError("one sample for each row of logits")
        actions = self.heads.mode(self.logits) if self._is_deterministic else self.heads.sample(self.logits)
        plain = next(iter(actions.values())) if self.is_plain else actions
        return (plain, self.heads.log_prob(self.logits, actions)) if return_logp else plain

    def logp(self, value: Any, **_: Any) -> Tensor:
        """Log-probability (B,) of actions (B, ...)."""
        return self.heads.log_prob(self.logits, self._named(value))

    def entropy(self, **_: Any) -> Tensor:
        """Entropy (B,) in nats."""
        return self.heads.entropy(self.logits)

    def kl(self, other: Any, **_: Any) -> Tensor:
        """KL(self ‖ other), (B,)."""
        return self.heads.kl(self.logits, other.logits)

    @staticmethod
    def required_input_dim(space: spaces.Space[Any], **_: Any) -> int:
        """RLlib asks it of its own distributions, when it builds networks; here the model has its networks."""
        raise NotImplementedError("the logits are those of the model")

    def _named(self, value: Any) -> TensorDict:
        return {next(iter(self.heads.heads)): value} if self.is_plain else dict(value)


def distribution_class(heads: ActionDistribution) -> type[MazeDistribution]:
    """The class of a policy key's distributions."""
    return type("BoundDistribution", (MazeDistribution,), {"heads": heads, "is_plain": len(heads.heads) == 1})


def join_logits(logits: TensorDict) -> Tensor:
    """Head name to (B, L_h), to (B, L): the heads one behind the other."""
    return torch.cat([tensor.flatten(1) for tensor in logits.values()], dim=-1)


def split_logits(heads: ActionDistribution, logits: Tensor) -> TensorDict:
    """The inverse of `join_logits`."""
    sizes = [shape[0] for shape in heads.logits_shapes().values()]
    return dict(zip(heads.heads, logits.split_with_sizes(sizes, dim=-1), strict=True))
