"""The one name of tensors by name."""

from __future__ import annotations

from torch import Tensor

TensorDict = dict[str, Tensor]
"""What networks read and give: observations, logits, actions or states, each (B, ...)."""
