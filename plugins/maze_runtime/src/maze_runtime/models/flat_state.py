"""What a model knows as one flat array: what is sent to whoever plays with a copy of it.

Unlike `FlatParameters` it holds buffers too, such as running statistics, and any number types; the model is left as it
is. Buffers that `state_dict` leaves out never change and are not sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maze_runtime.models.flat_parameters import FlatParameters


def pack_state(model: Any) -> np.ndarray:
    """Parameters and buffers, (number of bytes,) uint8, in the order of `state_dict`.

    >>> pack_state(torch.nn.BatchNorm1d(1)).nbytes  # four float32 and one int64
    24
    """
    return _packed(model.state_dict().values())


def unpack_state(model: Any, flat: np.ndarray) -> None:
    """Put what `pack_state` made of a model of the same shape into this one.

    Raises:
        ValueError: the models differ in size.
    """
    _unpack(list(model.state_dict().values()), flat)


class SentWeights:
    """What training changes in a model, for copies of it that act elsewhere: one array a rollout.

    Args:
        model: that is trained, or a copy of it.
        parameters: of the model, those that change; in the same order on either side.
    """

    def __init__(self, model: Any, parameters: FlatParameters) -> None:
        self._model = model
        self._parameters = parameters
        self._buffers = buffers_of(model)

    def pack(self) -> np.ndarray:
        """(P,) float32; with buffers (number of bytes,) uint8, these behind the parameters.

        Without buffers a view of the parameters, if they lie on the CPU.
        """
        flat = self._parameters.data.detach()
        if not self._buffers:
            array: np.ndarray = flat.cpu().numpy()
            return array
        return _packed([flat, *self._buffer_tensors()])

    def unpack(self, sent: np.ndarray) -> None:
        """Take over what `pack` made of the model on the other side."""
        flat = self._parameters.data.detach()
        if self._buffers:
            _unpack([flat, *self._buffer_tensors()], sent)
        else:
            flat.copy_(torch.from_numpy(np.array(sent)))

    def _buffer_tensors(self) -> list[Tensor]:
        state = self._model.state_dict()
        return [state[name] for name in self._buffers]


def buffers_of(model: Any) -> list[str]:
    """Names of what `state_dict` holds beside parameters, in its order."""
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    return [name for name in model.state_dict() if name not in parameters]


def _packed(tensors: Iterable[Tensor]) -> np.ndarray:
    on_cpu = [tensor.detach().cpu().contiguous() for tensor in tensors]
    return np.concatenate([np.zeros(0, np.uint8), *(own.reshape(-1).view(torch.uint8).numpy() for own in on_cpu)])


def _unpack(tensors: list[Tensor], sent: np.ndarray) -> None:
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if n_bytes != len(sent):
        raise ValueError(f"a state of {len(sent)} bytes does not fit a model of {n_bytes}")
    start = 0
    for tensor in tensors:
        end = start + tensor.numel() * tensor.element_size()
        part = torch.from_numpy(sent[start:end].copy())
        tensor.detach().copy_(part.view(tensor.dtype).view(tensor.shape))
        start = end
