"""Which activations a network has: weights mean something else behind another one, and their shapes do not tell."""

from __future__ import annotations

from torch import nn


def activations_of(model: nn.Module) -> dict[str, str]:
    """Path of a module to its activation, for every module that names it in an attribute `non_lin`.

    >>> layer = nn.Linear(2, 2)
    >>> layer.non_lin = "tanh"
    >>> activations_of(nn.Sequential(layer, nn.Linear(2, 1)))
    {'0': 'tanh'}
    """
    named = ((path, getattr(module, "non_lin", None)) for path, module in model.named_modules())
    return {path: name for path, name in named if isinstance(name, str)}
