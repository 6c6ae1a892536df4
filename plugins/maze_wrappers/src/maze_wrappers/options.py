"""Options of all wrappers of this distribution."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from attrs import validators

Strategy = Literal["mean-zero-std-one", "range-zero-one"]


def _ordered(_instance: object, attribute: attrs.Attribute[Any], value: tuple[float, float] | None) -> None:
    if value is not None and not value[0] < value[1]:
        raise ValueError(f"{attribute.name} must be [low, high] with low below high, not {list(value)}")


@attrs.frozen(kw_only=True)
class KeyNormalization:
    """Settings of one observation key; what is unset follows the wrapper's own settings."""

    strategy: Strategy | None = None
    """"mean-zero-std-one" or "range-zero-one" for this key."""
    axis: tuple[int, ...] | None = None
    """Axes of the stacked samples to take statistics over, for this key."""
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of this key's normalised values."""
    mean: tuple[float, ...] | None = None
    """Mean given by hand, one number or one a feature; with `std`, strategy mean-zero-std-one."""
    std: tuple[float, ...] | None = None
    """Standard deviation given by hand, one number or one a feature; 0 counts as 1."""
    min: tuple[float, ...] | None = None
    """Lowest value given by hand, one number or one a feature; with `max`, strategy range-zero-one."""
    max: tuple[float, ...] | None = None
    """Highest value given by hand, one number or one a feature; equal to `min` counts as `min` + 1."""

    def __attrs_post_init__(self) -> None:
        for first, second in (("mean", "std"), ("min", "max")):
            if (getattr(self, first) is None) != (getattr(self, second) is None):
                raise ValueError(f"{first} and {second} must be given together")
        if self.mean is not None and self.min is not None:
            raise ValueError("give mean and std, or min and max, not both")
        if self.std is not None and min(self.std) < 0:
            raise ValueError(f"std must not be negative, and {min(self.std)} is")


@attrs.frozen(kw_only=True)
class ObservationNormalizationOptions:
    """Options of `observation-normalization`."""

    strategy: Strategy = "mean-zero-std-one"
    """"mean-zero-std-one": (x − mean) / std; "range-zero-one": (x − min) / (max − min). A divisor of 0 counts as 1."""
    statistics: Literal["estimated", "running"] = "estimated"
    """"estimated": from random steps before training, then fixed; "running": updated by every training step, frozen in evaluation. Keys with values given by hand keep those."""  # noqa: E501
    n_estimation_steps: int = attrs.field(default=1000, validator=validators.gt(0))
    """Environment steps of the random policy for "estimated", in all environments and workers together."""
    axis: tuple[int, ...] = (0,)
    """Axes of the stacked samples to take statistics over; axis 0 counts the samples. [0]: one value a feature; []: one value for everything."""  # noqa: E501
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of the normalised values, e.g. [-10.0, 10.0]; unset does not clip."""
    exclude: tuple[str, ...] = ()
    """Observation keys to leave alone. Discrete and binary keys and masks are always left alone."""
    keys: Mapping[str, KeyNormalization] = attrs.field(factory=dict)
    """Settings of single keys, e.g. [wrappers.keys.observation]."""


@attrs.frozen(kw_only=True)
class RewardScalingOptions:
    """Options of `reward-scaling`."""

    scale: float
    """Factor of every reward."""


@attrs.frozen(kw_only=True)
class RewardClippingOptions:
    """Options of `reward-clipping`."""

    min_val: float = -1.0
    """Lowest reward."""
    max_val: float = 1.0
    """Highest reward."""

    def __attrs_post_init__(self) -> None:
        if self.min_val > self.max_val:
            raise ValueError(f"min_val {self.min_val} is above max_val {self.max_val}")


@attrs.frozen(kw_only=True)
class ReturnNormalizationOptions:
    """Options of `return-normalization`."""

    gamma: float = attrs.field(default=0.99, validator=validators.and_(validators.ge(0.0), validators.le(1.0)))
    """Discount of the return whose standard deviation is tracked; take the trainer's."""
    epsilon: float = attrs.field(default=1e-8, validator=validators.gt(0))
    """Added to the variance before the root."""
    clip_range: tuple[float, float] | None = attrs.field(default=None, validator=_ordered)
    """Bounds of the normalised reward, e.g. [-10.0, 10.0]; unset does not clip."""


@attrs.frozen(kw_only=True)
class TimeLimitOptions:
    """Options of `time-limit`."""

    max_episode_steps: int = attrs.field(validator=validators.ge(0))
    """Environment steps after which an episode is truncated; 0: no limit."""
