"""Puts the environment together from its options."""

from __future__ import annotations

from typing import Any

from maze_cutting2d.conversions import CuttingHeads, InventoryObservation
from maze_cutting2d.core_env import CUT, SELECT, CuttingCoreEnv, StructuredCuttingCoreEnv
from maze_cutting2d.options import CuttingOptions
from maze_cutting2d.rewards import DefaultReward, RawPieceUsageReward
from maze_cutting2d.structured_conversions import CutConversion, CutObservation, SelectConversion, SelectObservation
from maze_kernel.errors import RequestError
from maze_runtime.env.conversion import ActionConversion, ObservationConversion
from maze_runtime.env.maze_env import MazeEnv
from maze_runtime.env.parts import build_part
from maze_runtime.env.reward import RewardAggregator

REWARDS: dict[str, type[RewardAggregator]] = {"default": DefaultReward, "raw-piece-usage": RawPieceUsageReward}
OBSERVATIONS: dict[str, type[ObservationConversion[Any]]] = {"inventory": InventoryObservation}
ACTIONS: dict[str, type[ActionConversion[Any, Any]]] = {"dict": CuttingHeads}


def make_env(options: CuttingOptions | None = None) -> MazeEnv:
    """The environment in the version its options name."""
    options = options or CuttingOptions()
    if options.render_mode not in (None, "rgb_array"):
        raise RequestError(
            "the environment 'cutting-2d' draws frames, no window",
            received=f"render_mode {options.render_mode!r}",
            expected='"rgb_array"',
            help="write a video: maze rollout --video",
        )
    reward = build_part(options.reward, REWARDS, RewardAggregator, "reward aggregator", "reward")  # type: ignore[type-abstract]
    if options.version == "flat":
        observation = build_part(
            options.observation,
            OBSERVATIONS,
            ObservationConversion,  # type: ignore[type-abstract]
            "observation conversion",
            "observation",
            options=options,
        )
        action = build_part(
            options.action,
            ACTIONS,
            ActionConversion,  # type: ignore[type-abstract]
            "action conversion",
            "action",
            options=options,
        )
        return MazeEnv(CuttingCoreEnv(options), observation, action, reward_aggregator=reward)
    masked = options.version == "masked"
    inventory = build_part(
        options.observation,
        OBSERVATIONS,
        InventoryObservation,
        "observation conversion",
        "observation",
        options=options,
    )
    return MazeEnv(
        StructuredCuttingCoreEnv(options),
        {SELECT: SelectObservation(options, inventory, masked), CUT: CutObservation(inventory, masked)},
        {SELECT: SelectConversion(options), CUT: CutConversion()},
        reward_aggregator=reward,
    )
