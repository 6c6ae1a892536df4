"""Everything that a model's `state_dict` holds as one flat buffer of bytes: what is broadcast to play with a model.

Unlike `FlatParameters` it holds buffers too, and any number types; the model is left as it is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def pack_state(model: Any) -> np.ndarray:
    """Parameters and buffers, (number of bytes,) uint8, in the order of `state_dict`.

    >>> pack_state(torch.nn.BatchNorm1d(1)).nbytes  # four float32 and one int64
    24
    """
    tensors = [tensor.detach().cpu().contiguous() for tensor in model.state_dict().values()]
    return np.concatenate(
        [np.zeros(0, np.uint8), *(tensor.reshape(-1).view(torch.uint8).numpy() for tensor in tensors)]
    )


def unpack_state(model: Any, flat: np.ndarray) -> None:
    """Put what `pack_state` made of a model of the same shape into this one.

    Raises:
        ValueError: the models differ in size.
    """
    own = model.state_dict()
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in own.values())
    if n_bytes != len(flat):
        raise ValueError(f"a state of {len(flat)} bytes does not fit a model of {n_bytes}")
    start, stored = 0, {}
    for name, tensor in own.items():
        end = start + tensor.numel() * tensor.element_size()
        part = torch.from_numpy(flat[start:end].copy())
        stored[name] = part.view(tensor.dtype).view(tensor.shape)
        start = end
    model.load_state_dict(stored)
