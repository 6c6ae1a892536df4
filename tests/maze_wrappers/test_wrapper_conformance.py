"""The conformance suites of the kernel, on every wrapper of this distribution."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from maze_kernel.contracts.env import StructuredSpaces
from maze_runtime.env.flat import flat_spaces
from maze_testing.environments import TwoStep
from maze_testing.envs import check_wrapper
from maze_testing.transforms import check_transform
from maze_wrappers.observation_normalization import ObservationNormalization
from maze_wrappers.options import (
    KeyNormalization,
    ObservationNormalizationOptions,
    ReturnNormalizationOptions,
    RewardClippingOptions,
    RewardScalingOptions,
    TimeLimitOptions,
)
from maze_wrappers.return_normalization import ReturnNormalization
from maze_wrappers.reward_clipping import RewardClipping
from maze_wrappers.reward_scaling import RewardScaling
from maze_wrappers.time_limit import TimeLimit

FLAT = flat_spaces(
    spaces.Dict(
        x=spaces.Box(-3, 3, (2,), np.float32), image=spaces.Box(0, 255, (3, 3), np.uint8), gear=spaces.Discrete(3)
    ),
    spaces.Dict(action=spaces.Discrete(2)),
)
STRUCTURED = StructuredSpaces(
    observation={
        "select": spaces.Dict(x=spaces.Box(-3, 3, (2,), np.float32)),
        "cut": spaces.Dict(x=spaces.Box(-3, 3, (2,), np.float32), y=spaces.Box(0, 1, (), np.float32)),
    },
    action={"select": spaces.Dict(a=spaces.Discrete(2)), "cut": spaces.Dict(b=spaces.Box(-1, 1, (1,), np.float32))},
    agent_counts={"select": 1, "cut": 2},
)
MANUAL = {"x": KeyNormalization(mean=(1.0,), std=(2.0, 0.0), clip_range=(-1.0, 1.0))}
TRANSFORMS = {
    "running": lambda: ObservationNormalization(
        ObservationNormalizationOptions(statistics="running", clip_range=(-5.0, 5.0))
    ),
    "running-range": lambda: ObservationNormalization(
        ObservationNormalizationOptions(statistics="running", strategy="range-zero-one", axis=())
    ),
    "manual": lambda: ObservationNormalization(ObservationNormalizationOptions(statistics="running", keys=MANUAL)),
    "return-normalization": lambda: ReturnNormalization(ReturnNormalizationOptions()),
    "reward-scaling": lambda: RewardScaling(RewardScalingOptions(scale=-2.0)),
    "reward-clipping": lambda: RewardClipping(RewardClippingOptions(min_val=-0.5, max_val=0.5)),
}


@pytest.mark.parametrize("inner", [FLAT, STRUCTURED], ids=["flat", "structured"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_keep_their_contract(name, inner):
    check_transform(TRANSFORMS[name], inner)


def test_the_time_limit_keeps_the_contract_of_environments():
    check_wrapper(lambda env: TimeLimit(env, TimeLimitOptions(max_episode_steps=3)), TwoStep)
