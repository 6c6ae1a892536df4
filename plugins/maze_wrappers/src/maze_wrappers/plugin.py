"""What maze-wrappers provides."""

from __future__ import annotations

from collections.abc import Iterable

from maze_kernel import hookimpl
from maze_kernel.components import WrapperComponent

MAZE_PLUGIN_API = 1


@hookimpl
def maze_wrappers() -> Iterable[WrapperComponent]:
    """Transforms of observations and rewards, and a time limit."""
    yield WrapperComponent(
        name="observation-normalization",
        target="maze_wrappers.observation_normalization:ObservationNormalization",
        options="maze_wrappers.options:ObservationNormalizationOptions",
        summary="Shifts and scales observations by estimated, running or given statistics.",
    )
    yield WrapperComponent(
        name="reward-scaling",
        target="maze_wrappers.reward_scaling:RewardScaling",
        options="maze_wrappers.options:RewardScalingOptions",
        summary="Multiplies rewards by a constant.",
    )
    yield WrapperComponent(
        name="reward-clipping",
        target="maze_wrappers.reward_clipping:RewardClipping",
        options="maze_wrappers.options:RewardClippingOptions",
        summary="Cuts rewards off at a lower and an upper bound.",
    )
    yield WrapperComponent(
        name="return-normalization",
        target="maze_wrappers.return_normalization:ReturnNormalization",
        options="maze_wrappers.options:ReturnNormalizationOptions",
        summary="Divides rewards by the running standard deviation of the discounted return.",
    )
    yield WrapperComponent(
        name="time-limit",
        target="maze_wrappers.time_limit:TimeLimit",
        options="maze_wrappers.options:TimeLimitOptions",
        summary="Truncates episodes after a number of environment steps.",
    )
