"""Conformance of distributions over one action head."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import torch
from gymnasium import spaces

from maze_kernel.errors import SpaceError
from maze_runtime.models.masked_choices import require_obeys_masks
from maze_testing.conformance import ConformanceError, require, suite, unchanged

_N_ROWS = 64
_N_DRAWN_ROWS = 4
_N_DRAWS = 4096
"""Of each of the rows whose draws are compared."""
_LARGEST_DISTANCE = 0.08
"""Of two empirical distributions of so many draws; two of one distribution differ by 0.03 as a rule."""


@suite
def check_distribution(
    factory: Callable[[spaces.Space[Any]], Any],
    space: spaces.Space[Any],
    *,
    seed: int = 7,
    stays_inside: bool = True,
    masked: bool = False,
) -> None:
    """Samples and modes lie in the space, numbers are finite, sums are over dimensions, gradients flow.

    Both forms draw from one distribution, and arguments are left alone.

    Args:
        factory: builds the distribution for a space.
        space: of the action head.
        stays_inside: False for a distribution with unbounded support whose actions the environment clips.
        masked: whether it serves masked heads: a choice whose logit is `MASKED_LOGIT` is never taken.

    Raises:
        ConformanceError: naming the rule that is broken.
    """
    distribution = factory(space)
    shape = getattr(distribution, "logits_shape", None)
    is_shape = isinstance(shape, tuple) and all(isinstance(size, numbers.Integral) for size in shape)
    require(is_shape, f"logits_shape is {shape!r}, not a tuple of sizes")
    generator = torch.Generator().manual_seed(seed)
    case = _Case(
        distribution=distribution,
        space=space if stays_inside else spaces.Box(-np.inf, np.inf, space.shape, np.float32),
        logits=torch.randn(_N_ROWS, *distribution.logits_shape, generator=generator),
        other=torch.randn(_N_ROWS, *distribution.logits_shape, generator=generator),
        seed=seed,
    )
    action = _check_actions(case)
    _check_numpy(case)
    _check_numbers(case, action)
    _check_divergence(case)
    _check_gradient(case, action)
    _check_temperature(case)
    _check_draws(case)
    if masked:
        _check_masks(distribution, space)


@attrs.frozen(kw_only=True)
class _Case:
    """One distribution and what it is asked.

    Attributes:
        logits, other: (B, L).
    """

    distribution: Any
    space: spaces.Space[Any]
    logits: torch.Tensor
    other: torch.Tensor
    seed: int

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method gives; it changes no tensor or array among its arguments."""
        return unchanged(f"{method}()", getattr(self.distribution, method), *arguments)

    def generator(self) -> torch.Generator:
        """The same draws each time."""
        return torch.Generator().manual_seed(self.seed)


def _check_actions(case: _Case) -> torch.Tensor:
    """Returns a sample (B, ...)."""
    sample: torch.Tensor = case.ask("sample", case.logits, case.generator()).detach()
    _require_members(case, sample.numpy(), "sample")
    _require_members(case, case.ask("mode", case.logits).detach().numpy(), "mode")
    return sample


def _check_numpy(case: _Case) -> None:
    plain = case.logits.numpy()
    _require_members(case, case.ask("sample_numpy", plain, np.random.default_rng(case.seed)), "sample_numpy")
    mirrored, mode = case.ask("mode_numpy", plain), case.distribution.mode(case.logits).detach().numpy()
    _require_members(case, mirrored, "mode_numpy")
    require(np.allclose(mirrored, mode, atol=1e-5), "mode_numpy and mode differ")


def _check_numbers(case: _Case, action: torch.Tensor) -> None:
    numbers = {
        "log_prob": case.ask("log_prob", case.logits, action),
        "entropy": case.ask("entropy", case.logits),
        "kl": case.ask("kl", case.logits, case.other),
    }
    for name, number in numbers.items():
        require(tuple(number.shape) == (_N_ROWS,), f"{name} has shape {tuple(number.shape)}, not ({_N_ROWS},)")
        require(number.dtype == case.logits.dtype, f"{name} has dtype {number.dtype}, its logits {case.logits.dtype}")
        require(bool(torch.isfinite(number).all()), f"{name} is not finite")


def _check_divergence(case: _Case) -> None:
    alike = case.distribution.kl(case.logits, case.logits)
    require(bool(alike.abs().max() < 1e-4), "kl of a distribution with itself is not 0")
    require(bool((case.distribution.kl(case.logits, case.other) > -1e-4).all()), "kl is negative")


def _check_gradient(case: _Case, action: torch.Tensor) -> None:
    logits = case.logits.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(case.distribution.log_prob(logits, action).sum(), logits)
    require(bool(torch.isfinite(gradient).all()) and bool(gradient.any()), "log_prob gives no finite gradient")


def _check_temperature(case: _Case) -> None:
    cold = case.distribution.entropy(case.ask("temper", case.logits, 0.1)).mean()
    warm = case.distribution.entropy(case.logits).mean()
    require(bool(cold <= warm), "a lower temperature gives a more random distribution")


def _check_draws(case: _Case) -> None:
    """`sample` and `sample_numpy` draw from one distribution, by the draws of a few rows, dimension by dimension."""
    logits = case.logits[:_N_DRAWN_ROWS].repeat_interleave(_N_DRAWS, dim=0)
    drawn = case.distribution.sample(logits, case.generator()).detach().numpy()
    mirrored = np.asarray(case.distribution.sample_numpy(logits.numpy(), np.random.default_rng(case.seed)))
    one, other = (actions.reshape(_N_DRAWN_ROWS, _N_DRAWS, -1) for actions in (drawn, mirrored))
    for row in range(_N_DRAWN_ROWS):
        for dimension in range(one.shape[2]):
            distance = _distance(one[row, :, dimension], other[row, :, dimension])
            require(distance < _LARGEST_DISTANCE, "sample_numpy draws from another distribution than sample")


def _distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two empirical distribution functions, of Kolmogorov and Smirnov."""
    values = np.concatenate([one, other])
    functions = [np.searchsorted(np.sort(draws), values, side="right") / len(draws) for draws in (one, other)]
    return float(np.abs(functions[0] - functions[1]).max())


def _check_masks(distribution: Any, space: spaces.Space[Any]) -> None:
    try:
        require_obeys_masks("action", space, distribution)
    except SpaceError as error:
        raise ConformanceError(f"it does not obey a mask: {error.received}") from error


def _require_members(case: _Case, actions: Any, what: str) -> None:
    actions, space = np.asarray(actions), case.space
    wanted = (_N_ROWS, *(space.shape or ()))
    require(actions.shape == wanted, f"{what} gives shape {actions.shape}, not {wanted}")
    for action in actions:
        plain: Any = space.dtype.type(action) if isinstance(space, spaces.Discrete) else action.astype(space.dtype)
        require(space.contains(plain), f"{what} gives {action}, outside {space}")
