"""Values on another scale, and values as a distribution over a support; for critics of rewards of very different size.

Pure functions on tensors of any shape. `ValueTransform` names the pair that a critic and its loss need.
"""

from __future__ import annotations

from typing import Protocol

import attrs
import torch
from torch import Tensor


class ValueTransform(Protocol):
    """A scale on which a critic learns."""

    def forward(self, value: Tensor) -> Tensor:
        """Values as returns have them to the critic's scale."""
        ...

    def inverse(self, value: Tensor) -> Tensor:
        """The critic's output to values as returns have them."""
        ...


@attrs.frozen
class ReduceScale:
    """Grows like a square root far from zero and like a line near it. Source: Pohlen et al. 2018, proposition A.2.

    Attributes:
        epsilon: slope that is left at infinity; it keeps the inverse well defined.
    """

    epsilon: float = attrs.field(default=0.01, validator=attrs.validators.gt(0.0))

    def forward(self, value: Tensor) -> Tensor:
        """h(x) = sign(x) (√(|x| + 1) − 1) + ε x."""
        return value.sign() * ((value.abs() + 1.0).sqrt() - 1.0) + self.epsilon * value

    def inverse(self, value: Tensor) -> Tensor:
        """h⁻¹(y) = sign(y) (((√(1 + 4 ε (|y| + 1 + ε)) − 1) / (2 ε))² − 1).

        The square root loses digits where ε is small: with a = |y| + 1 + ε its fraction is 2 a / (√(1 + 4 ε a) + 1).
        """
        a = value.abs() + 1.0 + self.epsilon
        root = 2.0 * a / ((1.0 + 4.0 * self.epsilon * a).sqrt() + 1.0)
        return value.sign() * (root.square() - 1.0)


@attrs.frozen
class LinearScale:
    """Divides by a constant.

    Attributes:
        scale: the size of a typical return.
        offset: the return that is zero on the critic's scale.
    """

    scale: float = attrs.field(default=1.0, validator=attrs.validators.gt(0.0))
    offset: float = 0.0

    def forward(self, value: Tensor) -> Tensor:
        """(x − offset) / scale."""
        return (value - self.offset) / self.scale

    def inverse(self, value: Tensor) -> Tensor:
        """y · scale + offset."""
        return value * self.scale + self.offset


@attrs.frozen
class TwoHotSupport:
    """Numbers from `low` to `high` as weights of `n_atoms` equally spaced atoms. Schrittwieser et al. 2020, app. F.

    A critic with `n_atoms` logits learns them by cross entropy against `to_weights`; its value is `to_scalar` of their
    softmax.
    """

    low: float
    high: float = attrs.field()
    n_atoms: int = attrs.field(validator=attrs.validators.ge(2))

    @high.validator
    def _above_low(self, _attribute: object, value: float) -> None:
        if not value > self.low:
            raise ValueError(f"high {value} must be above low {self.low}")

    def to_weights(self, value: Tensor) -> Tensor:
        """(...) numbers to (..., n_atoms) weights: at most two neighbours are not zero and their mean is the number.

        Numbers outside the support are moved to its nearest end.
        """
        position = (value.clamp(self.low, self.high) - self.low) * ((self.n_atoms - 1) / (self.high - self.low))
        atoms = torch.arange(self.n_atoms, device=value.device, dtype=value.dtype)
        # the weight of an atom is one minus the distance in atoms, or nothing
        return (1.0 - (position.unsqueeze(-1) - atoms).abs()).clamp(min=0.0)

    def to_scalar(self, weights: Tensor) -> Tensor:
        """(..., n_atoms) weights that sum to 1 to their mean, (...)."""
        atoms = torch.linspace(self.low, self.high, self.n_atoms, device=weights.device, dtype=weights.dtype)
        return (weights * atoms).sum(-1)
