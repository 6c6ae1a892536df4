"""Conformance of distributions over one action head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_runtime.models.masked_choices import require_obeys_masks
from maze_testing.conformance import ConformanceError, require


def check_distribution(
    factory: Callable[[spaces.Space[Any]], Any],
    space: spaces.Space[Any],
    *,
    seed: int = 7,
    stays_inside: bool = True,
    masked: bool = False,
) -> None:
    """Samples and modes lie in the space, numbers are finite, sums are over dimensions, gradients flow.

    Args:
        factory: builds the distribution for a space.
        space: of the action head.
        stays_inside: False for a distribution with unbounded support whose actions the environment clips.
        masked: whether it serves masked heads: a choice whose logit is `MASKED_LOGIT` is never taken.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    distribution, n = factory(space), 64
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(n, *distribution.logits_shape, generator=generator, requires_grad=True)
    other = torch.randn(n, *distribution.logits_shape, generator=generator)
    sample = distribution.sample(logits, generator).detach()
    container = space if stays_inside else spaces.Box(-np.inf, np.inf, space.shape, np.float32)
    for name, action in (("sample", sample), ("mode", distribution.mode(logits).detach())):
        _check_members(container, action.numpy(), name)
    plain = logits.detach().numpy()
    _check_members(container, distribution.sample_numpy(plain, np.random.default_rng(seed)), "sample_numpy")
    mirrored, mode = distribution.mode_numpy(plain), distribution.mode(logits).detach().numpy()
    require(np.allclose(mirrored, mode, atol=1e-5), "mode_numpy and mode differ")
    numbers = {
        "log_prob": distribution.log_prob(logits, sample),
        "entropy": distribution.entropy(logits),
        "kl": distribution.kl(logits, other),
    }
    for name, number in numbers.items():
        require(tuple(number.shape) == (n,), f"{name} has shape {tuple(number.shape)}, not ({n},)")
        require(bool(torch.isfinite(number).all()), f"{name} is not finite")
    require(bool(distribution.kl(logits, logits).abs().max() < 1e-4), "kl of a distribution with itself is not 0")
    require(bool((numbers["kl"] > -1e-4).all()), "kl is negative")
    (gradient,) = torch.autograd.grad(numbers["log_prob"].sum(), logits)
    require(bool(torch.isfinite(gradient).all()) and bool(gradient.any()), "log_prob gives no finite gradient")
    cold = distribution.entropy(distribution.temper(logits, 0.1)).mean()
    warm = distribution.entropy(logits).mean()
    require(bool(cold <= warm), "a lower temperature gives a more random distribution")
    if masked:
        try:
            require_obeys_masks("action", space, distribution)
        except SpaceError as error:
            raise ConformanceError(f"it does not obey a mask: {error.received}") from error


def _check_members(space: spaces.Space[Any], actions: np.ndarray, what: str) -> None:
    for action in np.asarray(actions):
        plain: Any = space.dtype.type(action) if isinstance(space, spaces.Discrete) else action.astype(space.dtype)
        require(space.contains(plain), f"{what} gives {action}, outside {space}")
