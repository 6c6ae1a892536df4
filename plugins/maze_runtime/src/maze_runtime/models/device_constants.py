"""Tensors that never change, wherever they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


class DeviceConstants:
    """Constant tensors with a copy on each device that asks for them; a copy is made once and stays where it is.

    A captured graph reads its constants at their addresses, so none may be moved to where another caller wants it.

    Args:
        tensors: the constants, all on one device.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._copies = [(tensors[0].device, tuple(tensors))]

    def on(self, device: torch.device) -> tuple[Tensor, ...]:
        """The constants on a device."""
        for known, tensors in self._copies:
            if known == device:
                return tensors
        copied = tuple(tensor.to(device) for tensor in self._copies[0][1])
        self._copies.append((device, copied))
        return copied

    def __getstate__(self) -> dict[str, Any]:
        """The first copy alone, for processes on machines without the other devices."""
        return {"_copies": self._copies[:1]}
